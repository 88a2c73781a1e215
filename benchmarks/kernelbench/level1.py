"""Eighty of the hundred problems of KernelBench's first level (Ouyang et al. 2025): what PyTorch computes, and of which tensors.

The sizes are KernelBench's; numbers are drawn from [0, 1) as there, and weights as PyTorch draws a layer's. What is not here stays
unread: 1 2 18 20 22 23 25 26 30 31 38 40 44 59 60 61 65 77 84 94.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from kernelbench.problems import (
    Argument,
    Problem,
    Shape,
    batch_norm,
    features,
    functional,
    labels,
    number,
    rand,
    torch_function,
    weights,
)


def _scaled(name: str, *leading: int) -> Callable[..., Any]:
    return lambda p, x: functional(name)(x, *leading, weight=p["scale"], bias=p["shift"])


def _flipped(x: Any) -> Any:
    return x.flip(1).cumsum(1).flip(1)


def _exclusive(x: Any) -> Any:
    import torch

    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1].cumsum(1)), 1)


def _cross_entropy(x: Any, labels: Any) -> Any:
    return functional("cross_entropy")(x, labels.long())


def _kl(x: Any, y: Any) -> Any:
    return functional("kl_div", reduction="batchmean")(x.log(), y)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + torch_function("tanh")(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _depthwise(x: Any, k: Any, padding: int = 0) -> Any:
    return functional("conv2d", padding=padding, groups=x.shape[1])(x, k)


def _separable(x: Any, k: Any, f: Any) -> Any:
    return functional("conv2d")(_depthwise(x, k, padding=1), f)


matmul = torch_function("matmul")
WIDE, PLANES, SCANNED = (4096, 393216), (112, 64, 512, 512), (32768, 32768)
UPPER, LOWER = (rand(4096, 4096, then=method) for method in (lambda x: x.triu(), lambda x: x.tril()))
SYMMETRIC = rand(4096, 4096, then=lambda x: (x + x.T) / 2)
PROBABILITIES = rand(16384, 16384, then=lambda x: x.softmax(-1))
AFFINE = features(64, scale=1.0, shift=0.0)
RUNNING = features(64, scale=1.0, shift=0.0, mean=0.0, variance=1.0)
MASK = rand(*SCANNED, then=lambda x: x < 0.5, element="bool")
SIGNS = rand(32768, then=lambda x: (x < 0.5) * 2.0 - 1)
conv1d, conv2d, conv3d = (partial(functional, f"conv{n}d") for n in (1, 2, 3))
back1d, back2d, back3d = (partial(functional, f"conv_transpose{n}d") for n in (1, 2, 3))


def _pointwise(number: int, f: str, peer: Callable[..., Any], shape: Shape = WIDE) -> Problem:
    return Problem(number, f, peer, (rand(*shape),))


def _reduced(number: int, f: str, peer: Callable[..., Any]) -> Problem:
    return Problem(number, f, peer, (rand(128, 4096, 4095),))


def _window(number: int, f: str, peer: Callable[..., Any], x: Shape, k: Shape, *others: Argument) -> Problem:
    return Problem(number, f, peer, (rand(*x), weights(*k), *others))


PROBLEMS = (
    Problem(3, "batched", torch_function("bmm"), (rand(128, 512, 1024), rand(128, 1024, 2048)), (0, 1)),
    Problem(4, "product", matmul, (rand(2048, 1048576), rand(1048576, 1))),
    Problem(5, "scaled", lambda a, s: a * s, (rand(65536, 16384), number(3.14))),
    Problem(6, "product", matmul, (rand(256, 524288), rand(524288, 256))),
    Problem(7, "product", matmul, (rand(32768, 64), rand(64, 32768))),
    Problem(8, "product", matmul, (rand(8205, 2949), rand(2949, 5921))),
    Problem(9, "product", matmul, (rand(32768, 32), rand(32, 32768))),
    Problem(10, "by_rows", matmul, (rand(16, 1024, 2048), rand(2048, 768))),
    Problem(11, "by_rows", lambda a, b: torch_function("einsum")("bijl,lk->bijk", a, b), (rand(8, 256, 512, 256), rand(256, 768))),
    Problem(12, "diagonal", lambda d, b: d.unsqueeze(1) * b, (rand(4096), rand(4096, 4096)), (0, 1)),
    Problem(13, "product", matmul, (SYMMETRIC, SYMMETRIC)),
    Problem(14, "upper", lambda a, b: torch_function("triu")(a @ b), (UPPER, UPPER), ()),
    Problem(15, "lower", lambda a, b: torch_function("tril")(a @ b), (LOWER, LOWER), ()),
    Problem(16, "transposed_left", lambda a, b: a.T @ b, (rand(8192, 2048), rand(8192, 4096)), ()),
    Problem(17, "transposed_right", lambda a, b: a @ b.T, (rand(2048, 8192), rand(4096, 8192))),
    _pointwise(19, "relu", torch_function("relu")),
    _pointwise(21, "sigmoid", torch_function("sigmoid")),
    _pointwise(24, "log_softmax", functional("log_softmax", dim=1)),
    _pointwise(27, "selu", torch_function("selu")),
    _pointwise(28, "hard_sigmoid", functional("hardsigmoid")),
    _pointwise(29, "softplus", functional("softplus")),
    _pointwise(32, "hard_tanh", functional("hardtanh")),
    Problem(33, "batch_norm", batch_norm, (RUNNING, rand(64, 64, 512, 512)), ()),
    Problem(34, "instance_norm", _scaled("instance_norm"), (AFFINE, rand(*PLANES)), (1,)),
    Problem(35, "group_norm", _scaled("group_norm", 8), (AFFINE, rand(*PLANES)), (1,)),
    _pointwise(36, "rms_norm", lambda x: x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt(), PLANES),
    Problem(37, "frobenius_norm", lambda x: x / x.norm(p="fro"), (rand(*PLANES),), ()),
    _pointwise(39, "l2_norm", lambda x: x / x.norm(p=2, dim=1, keepdim=True), (32768, 65535)),
    _pointwise(41, "max_pool1d", functional("max_pool1d", kernel_size=8, stride=1, padding=4, dilation=3), (64, 192, 65536)),
    _pointwise(42, "max_pool2d", functional("max_pool2d", kernel_size=4, stride=1, padding=1), (32, 64, 512, 512)),
    _pointwise(43, "max_pool3d", functional("max_pool3d", kernel_size=3, stride=2, padding=1, dilation=3), (16, 32, 128, 128, 128)),
    _pointwise(45, "average_pool2d", functional("avg_pool2d", kernel_size=11), (16, 64, 2048, 2048)),
    _pointwise(46, "average_pool3d", functional("avg_pool3d", kernel_size=3, stride=2, padding=1), (16, 32, 128, 128, 256)),
    _reduced(47, "sums", lambda x: x.sum(1)),
    _reduced(48, "means", lambda x: x.mean(1)),
    _reduced(49, "maxima", lambda x: x.max(1)[0]),
    Problem(50, "alexnet", conv2d(stride=4, padding=2), (rand(256, 3, 224, 224), weights(96, 3, 11, 11), weights(96, fan=363))),
    _reduced(51, "argmaxima", lambda x: x.argmax(1)),
    _reduced(52, "argminima", lambda x: x.argmin(1)),
    _reduced(53, "minima", lambda x: x.min(1)[0]),
    _window(54, "conv3d", conv3d(), (16, 3, 64, 64, 64), (64, 3, 3, 3, 3)),
    _window(55, "conv2d", conv2d(), (8, 64, 512, 1024), (128, 64, 3, 3)),
    _window(56, "conv2d", conv2d(), (8, 64, 512, 256), (128, 64, 5, 7)),
    _window(57, "conv2d_transpose", back2d(), (8, 64, 1024, 1024), (64, 64, 3, 3)),
    _window(58, "conv3d_transpose", back3d(), (16, 32, 16, 32, 64), (32, 16, 3, 5, 7)),
    _window(62, "conv2d", conv2d(), (8, 32, 512, 512), (64, 32, 5, 9)),
    _window(63, "conv2d", conv2d(), (16, 16, 1024, 1024), (128, 16, 3, 3)),
    _window(64, "conv1d_transpose", back1d(), (64, 128, 65536), (128, 128, 3)),
    _window(66, "conv3d", conv3d(), (8, 3, 16, 128, 128), (64, 3, 3, 5, 7)),
    _window(67, "conv1d", conv1d(), (32, 64, 131072), (128, 64, 3)),
    _window(68, "conv3d_transpose", back3d(), (16, 32, 64, 64, 64), (32, 64, 3, 5, 5)),
    _window(69, "conv2d_transpose", back2d(), (64, 64, 128, 256), (64, 128, 3, 5)),
    _window(70, "conv3d_transpose", back3d(), (8, 48, 96, 96, 96), (48, 24, 3, 3, 3)),
    _window(71, "conv2d_transpose", back2d(), (8, 32, 512, 1024), (32, 32, 3, 3)),
    _window(
        72, "conv3d_transpose_grouped", back3d(stride=2, padding=(1, 2, 3), output_padding=1, groups=4),
        (8, 32, 12, 24, 48), (32, 8, 3, 5, 7),
    ),
    _window(73, "conv3d_transpose_strided", back3d(stride=2, padding=1, groups=4), (4, 32, 32, 64, 128), (32, 8, 3, 3, 3)),
    _window(74, "conv1d_transpose_dilated", back1d(dilation=3), (32, 32, 131072), (32, 64, 5)),
    _window(
        75, "conv2d_transpose_grouped", back2d(stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=4),
        (16, 32, 128, 256), (32, 16, 3, 5),
    ),
    _window(76, "conv1d_dilated", conv1d(stride=3, dilation=4), (64, 64, 524280), (128, 64, 3)),
    _window(78, "conv2d_transpose_padded", back2d(padding=(1, 3)), (8, 32, 512, 1024), (32, 32, 3, 7)),
    _window(79, "conv1d_transpose_strided", back1d(stride=2, padding=1, dilation=2), (16, 32, 131072), (32, 64, 3)),
    _window(80, "conv2d_dilated", conv2d(padding=(2, 4), dilation=(2, 3)), (8, 32, 512, 512), (64, 32, 5, 9)),
    _window(81, "conv2d_transpose_strided", back2d(stride=5, padding=1, dilation=2), (16, 32, 64, 128), (32, 64, 3, 3)),
    _window(82, "depthwise", _depthwise, (16, 64, 512, 512), (64, 1, 3, 3)),
    _window(83, "depthwise", _depthwise, (64, 8, 512, 512), (8, 1, 3, 1)),
    _window(85, "depthwise", _depthwise, (32, 128, 128, 256), (128, 1, 3, 7)),
    _window(86, "separable", _separable, (16, 64, 512, 512), (64, 1, 3, 3), weights(128, 64, 1, 1)),
    _window(87, "conv2d", conv2d(), (16, 64, 1024, 1024), (128, 64, 1, 1)),
    _pointwise(88, "gelu", _gelu, (8192, 8192)),
    _pointwise(89, "cumulative_sum", lambda x: x.cumsum(1), SCANNED),
    _pointwise(90, "cumulative_product", lambda x: x.cumprod(1), SCANNED),
    _pointwise(91, "reverse_sum", _flipped, SCANNED),
    _pointwise(92, "exclusive_sum", _exclusive, SCANNED),
    Problem(93, "masked_sum", lambda x, m: (x * m).cumsum(1), (rand(*SCANNED), MASK), (0, 1)),
    Problem(95, "cross_entropy", _cross_entropy, (rand(32768, 4096), labels(32768, 4096)), ()),
    Problem(96, "huber", functional("smooth_l1_loss"), (rand(*SCANNED), rand(*SCANNED)), ()),
    Problem(97, "attention", functional("scaled_dot_product_attention"), (rand(32, 32, 512, 1024),) * 3, (0, 1, 2)),
    Problem(98, "kl_divergence", _kl, (PROBABILITIES, PROBABILITIES), ()),
    Problem(99, "triplet", functional("triplet_margin_loss"), (rand(32768, 8192),) * 3, ()),
    Problem(100, "hinge", lambda x, y: (1 - x * y).clamp(min=0).mean(), (rand(*SCANNED), SIGNS), ()),
)  # fmt: skip
