"""Eighty of the hundred problems of KernelBench's second level (Ouyang et al. 2025): what PyTorch computes, and of which tensors.

The sizes are KernelBench's, all of them: none comes near 60 GiB. Numbers are drawn from [0, 1) as there, weights as PyTorch
draws a layer's, and the parameters that a problem has of its own from the standard normal distribution, as there. But the scale
and shift of a normalization, 1 and 0 in PyTorch, are drawn too: else the mean after it would be 0, and nothing to compare.
Batch normalization is in training, as there; drop-out, which would be random in training, is that of evaluation, the identity.
Dimensions of one element that are only kept are left out of the results.
What is not here stays unread:
1 4 6 7 10 16 17 36 43 47 48 52 54 64 65 74 85 91 96 98.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kernelbench.problems import Argument, Draw, Problem, Shape, batch_norm, functional, normal, number, rand, weights

linear, layer_norm, group_norm = functional("linear"), functional("layer_norm"), functional("group_norm")
conv2d, conv3d = functional("conv2d"), functional("conv3d")
back2d, back3d = functional("conv_transpose2d"), functional("conv_transpose3d")
halving2d = functional("conv_transpose2d", stride=2, padding=1, output_padding=1)
halving3d = functional("conv_transpose3d", stride=2, padding=1, output_padding=1)
gelu, mish, silu, hardswish = (functional(name) for name in ("gelu", "mish", "silu", "hardswish"))
leaky_relu, hardtanh = functional("leaky_relu"), functional("hardtanh")
max_pool1d, max_pool2d, max_pool3d = (functional(f"max_pool{n}d") for n in (1, 2, 3))
avg_pool2d, avg_pool3d = functional("avg_pool2d"), functional("avg_pool3d")
instance_norm = functional("instance_norm")
PIXELS, VOXELS = (2, 3), (2, 3, 4)


def affine(count: int) -> Argument:
    """The scale and shift of a normalization."""
    return Argument(
        {"scale": f"f32[{count}]", "shift": f"f32[{count}]"},
        lambda draw: {"scale": draw.rand(count) + 0.5, "shift": draw.rand(count) - 0.5},
    )


def running(count: int) -> Argument:
    """Those of a batch normalization, with the mean and variance that it moves, as PyTorch begins."""

    def make(draw: Draw) -> Any:
        moved = {"mean": draw.rand(count).fill_(0.0), "variance": draw.rand(count).fill_(1.0)}
        return affine(count).make(draw) | moved

    return Argument(affine(count).like | {"mean": f"f32[{count}]", "variance": f"f32[{count}]"}, make)


def normalized(p: Any, x: Any, *leading: int, norm: Callable[..., Any] = group_norm) -> Any:
    return norm(x, *leading, weight=p["scale"], bias=p["shift"])


def by_channel(c: Any, x: Any) -> Any:
    """`c` as one number for each channel of `x`."""
    return c.view(-1, *(1,) * (x.dim() - 2))


def layer(n: int, i: int, o: int) -> tuple[Argument, ...]:
    """Examples, and the weights and bias of a linear layer from `i` features to `o`."""
    return rand(n, i), weights(o, i), weights(o, fan=i)


def window(x: Shape, o: int, *size: int) -> tuple[Argument, ...]:
    """Images or volumes, and the kernels and bias of a convolution to `o` channels with a window of that size."""
    fan = x[1] * math.prod(size)
    return rand(*x), weights(o, x[1], *size), weights(o, fan=fan)


def back(x: Shape, o: int, *size: int) -> tuple[Argument, ...]:
    """The same of a transposed convolution; PyTorch counts the numbers that an element of `x` goes to."""
    return rand(*x), weights(x[1], o, *size), weights(o, fan=o * math.prod(size))


def _18(x: Any, w: Any, b: Any) -> Any:
    y = linear(x, w, b).sum(1, keepdim=True).max(1, keepdim=True)[0].mean(1, keepdim=True)
    return y.logsumexp(1, keepdim=True).logsumexp(1)


def _22(x: Any, w: Any, b: Any) -> Any:
    y = linear(x, w, b) * 2.0
    z = (y + y).clamp(-10.0, 10.0).logsumexp(1)
    return z * mish(z)


def _28(x: Any, y: Any, w: Any, b: Any) -> Any:
    return (instance_norm(linear(x, w, b)[:, None, None])[:, 0, 0] + y) * y


def _40(x: Any, w: Any, b: Any) -> Any:
    y = linear(x, w, b)
    return y * 0.5 + y


def _51(x: Any, w: Any, b: Any, s: Any) -> Any:
    return gelu((linear(x, w, b) - s).mean(1, keepdim=True).logsumexp(1, keepdim=True)) + x


def _62(x: Any, w: Any, b: Any, p: Any) -> Any:
    y = leaky_relu(normalized(p, linear(x, w, b), 512), 0.01)
    return y + y


def _70(x: Any, w: Any, b: Any) -> Any:
    y = linear(x, w, b)
    return y.sigmoid() * 2.0 + y


def _80(x: Any, w: Any, b: Any) -> Any:
    y = linear(x, w, b).max(1, keepdim=True)[0]
    return gelu(y - y.mean(1, keepdim=True))


def _92(x: Any, k: Any, b: Any, p: Any) -> Any:
    y = conv2d(x, k, b)
    return (y + hardswish(normalized(p, y, 16).tanh())).logsumexp(1)


def _79(x: Any, k: Any, b: Any, s: Any) -> Any:
    y = conv3d(x, k, b)
    y = instance_norm(y * by_channel(s, y)).clamp(-1.0, 1.0)
    return (y * by_channel(s, y)).max(1)[0]


def _90(x: Any, k: Any, b: Any, c: Any) -> Any:
    y = leaky_relu(conv3d(x, k, b), 0.2)
    return gelu((y + by_channel(c, y)).clamp(-1.0, 1.0))


def _2(x: Any, k: Any, b: Any, c: Any) -> Any:
    y = halving2d(x, k, b)
    return ((y + by_channel(c, y)).clamp(0.0, 1.0) * 2.0).clamp(0.0, 1.0) / 2.0


def _15(x: Any, k: Any, b: Any, p: Any) -> Any:
    y = batch_norm(p, back3d(x, k, b, stride=2, padding=1))
    return y - y.mean(VOXELS, keepdim=True)


def _20(x: Any, k: Any, b: Any, c: Any) -> Any:
    y = halving3d(x, k, b)
    return (y + by_channel(c, y) + y) * y + y


def _26(x: Any, y: Any, k: Any, b: Any) -> Any:
    z = halving3d(x, k, b) + y
    return z * hardswish(z)


def _38(x: Any, k: Any, b: Any, s: Any) -> Any:
    y = halving3d(avg_pool3d(x, 2), k, b).clamp(0.0, 1.0)
    return y.flatten(2).softmax(2).view_as(y) * by_channel(s, y)


def _50(x: Any, k: Any, b: Any, s: float, c: Any, t: float) -> Any:
    y = avg_pool3d(back3d(x, k, b, stride=2, padding=1) * s, 2)
    return (y + by_channel(c, y)) * t


def _58(x: Any, k: Any, b: Any, c: Any) -> Any:
    y = back3d(x, k, b, stride=2, padding=1).logsumexp(1)
    return (y * (y + 3).sigmoid() / 6 - c).clamp(-1.0, 1.0)


def _89(x: Any, k: Any, b: Any, c: Any) -> Any:
    y = max_pool3d(halving3d(x, k, b), 2).softmax(1)
    return silu(y - by_channel(c, y)).max(1)[0]


LAYER, TALL, WIDE, SQUARE = layer(1024, 8192, 8192), layer(16384, 4096, 4096), layer(128, 32768, 32768), layer(128, 16384, 16384)
IMAGES, LARGE = window((128, 8, 128, 128), 64, 3, 3), window((128, 8, 256, 256), 64, 3, 3)
DEEP = window((128, 64, 128, 128), 128, 3, 3)
VOLUMES = back((128, 3, 16, 32, 32), 16, 3, 3, 3)
STEEP = back((16, 32, 16, 32, 32), 64, 3, 3, 3)

PROBLEMS = (
    # Products.
    Problem(9, "linear_subtract_multiply_relu", lambda x, w, b: ((linear(x, w, b) - 2.0) * 1.5).relu(), LAYER),
    Problem(12, "linear_multiply_leaky_relu", lambda x, w, b: leaky_relu(linear(x, w, b) * 2.0, 0.1), LAYER),
    Problem(14, "product_divide_sum_scale", lambda x, w: (x @ w.T / 2).sum(1) * 1.5, (rand(1024, 8192), normal(8192, 8192))),
    Problem(18, "linear_sum_max_average_log_sum_exp", _18, LAYER),
    Problem(22, "linear_scale_residual_clamp_log_sum_exp_mish", _22, LAYER),
    Problem(28, "linear_standardize_residual_multiply", _28, (LAYER[0], rand(1024, 8192), *LAYER[1:]), (0, 1)),
    Problem(29, "linear_mish_mish", lambda x, w, b: mish(mish(linear(x, w, b))), LAYER),
    Problem(
        30, "linear_group_norm_hard_tanh", lambda x, w, b, p: hardtanh(normalized(p, linear(x, w, b), 16), -2.0, 2.0),
        (*LAYER, affine(8192)), small={8192: 96},
    ),
    Problem(
        33, "linear_scale_batch_norm", lambda x, w, b, s, p: batch_norm(p, linear(x, w, b) * s),
        (*LAYER, normal(8192), running(8192)), (),
    ),
    Problem(
        37, "linear_swish_bias_group_norm", lambda x, w, b, c, p: normalized(p, silu(linear(x, w, b)) + c, 64),
        (*layer(32768, 1024, 4096), normal(4096), affine(4096)), small={4096: 256},
    ),
    Problem(
        39, "linear_scale_batch_norm", lambda x, w, b, s, p: batch_norm(p, linear(x, w, b) * s),
        (*TALL, normal(4096), running(4096)), (),
    ),
    Problem(40, "linear_scale_residual", _40, TALL),
    Problem(
        41, "linear_batch_norm_gelu_relu", lambda x, w, b, p: gelu(batch_norm(p, linear(x, w, b))).relu(),
        (*TALL, running(4096)), (),
    ),
    Problem(
        45, "linear_sigmoid_linear_log_sum_exp", lambda x, w, b, v, c: linear(linear(x, w, b).sigmoid(), v, c).logsumexp(1),
        (*layer(16384, 2048, 4096), *layer(1, 4096, 1024)[1:]),
    ),
    Problem(51, "linear_subtract_average_log_sum_exp_gelu_residual", _51, (*layer(2048, 8192, 8192), normal(8192))),
    Problem(
        53, "linear_scale_hard_tanh_gelu", lambda x, w, b: gelu(hardtanh(linear(x, w, b) * 0.5, -2.0, 2.0)),
        layer(2048, 8192, 8192),
    ),
    Problem(55, "linear_max_pool_sum_scale", lambda x, w, b: max_pool1d(linear(x, w, b)[:, None], 2)[:, 0].sum(1) * 0.5, WIDE),
    Problem(56, "linear_sigmoid_sum", lambda x, w, b: linear(x, w, b).sigmoid().sum(1), WIDE),
    Problem(59, "linear_swish_scale", lambda x, w, b: silu(linear(x, w, b)) * 2.0, WIDE),
    Problem(62, "linear_group_norm_leaky_relu_double", _62, (*LAYER, affine(8192)), small={8192: 1024, 1024: 8}),
    Problem(63, "linear_relu_divide", lambda x, w, b: linear(x, w, b).relu() / 2.0, LAYER),
    Problem(66, "linear_softmax", lambda x, w, b: linear(x, w, b).softmax(1), SQUARE),
    Problem(68, "linear_min_subtract", lambda x, w, b, c: linear(x, w, b).clamp(max=c) - c, (*SQUARE, number(2.0))),
    Problem(70, "linear_sigmoid_scale_residual", _70, LAYER),
    Problem(
        75, "linear_group_norm_min_bias", lambda x, w, b, p, c: normalized(p, linear(x, w, b), 512).min(1)[0] + c[:, None],
        (*LAYER, affine(8192), normal(8192)), (), {8192: 1024, 1024: 8},
    ),
    Problem(76, "linear_relu", lambda x, w, c: (x @ w.T + c).relu(), (*LAYER[:2], normal(8192))),
    Problem(80, "linear_max_subtract_gelu", _80, LAYER),
    Problem(
        81, "linear_swish_divide_clamp_tanh_clamp",
        lambda x, w, b: (silu(linear(x, w, b)) / 2.0).clamp(-1.0, 1.0).tanh().clamp(-1.0, 1.0), LAYER,
    ),
    Problem(
        84, "linear_batch_norm_scale_softmax", lambda x, w, b, p, s: (s * batch_norm(p, linear(x, w, b))).softmax(1),
        (*LAYER, running(8192), rand(1)), (),
    ),
    Problem(86, "linear_divide_gelu", lambda x, w, b: gelu(linear(x, w, b) / 10.0), LAYER),
    Problem(
        88, "linear_group_norm_swish_multiply_swish", lambda x, w, b, p, s: silu(silu(normalized(p, linear(x, w, b), 256)) * s),
        (*LAYER, affine(8192), normal(8192)), small={8192: 512},
    ),
    Problem(
        94, "linear_bias_hard_tanh_mish_group_norm", lambda x, w, b, c, p: normalized(p, mish(hardtanh(linear(x, w, b) + c)), 256),
        (*LAYER, normal(8192), affine(8192)), small={8192: 512},
    ),
    Problem(
        95, "linear_add_swish_tanh_gelu_hard_tanh", lambda x, w, b, c: hardtanh(gelu(silu(linear(x, w, b) + c).tanh())),
        (*LAYER, normal(8192)),
    ),
    Problem(
        97, "linear_batch_norm_bias_divide_swish", lambda x, w, b, p, c: silu((batch_norm(p, linear(x, w, b)) + c) / 1.0),
        (*LAYER, running(8192), normal(1)), (),
    ),
    Problem(99, "linear_gelu_softmax", lambda x, w, b: gelu(linear(x, w, b)).softmax(1), LAYER),
    # Convolutions of images.
    Problem(
        21, "conv2d_bias_scale_sigmoid_group_norm",
        lambda x, k, b, c, s, p: normalized(p, ((conv2d(x, k, b) + c[:, None, None]) * s[:, None, None]).sigmoid(), 8),
        (*window((128, 8, 256, 256), 32, 3, 3), normal(32), normal(32), affine(32)),
    ),
    Problem(
        25, "conv2d_min_tanh_tanh", lambda x, k, b: conv2d(x, k, b).min(1)[0].tanh().tanh(), window((128, 16, 256, 256), 64, 3, 3),
    ),
    Problem(
        31, "conv2d_min_bias_scale", lambda x, k, b, c: (conv2d(x, k, b).clamp(max=0.5) + c[:, None, None]) * 2.0,
        (*DEEP, normal(128)),
    ),
    Problem(32, "conv2d_scale_min", lambda x, k, b: (conv2d(x, k, b) * 2.0).min(1)[0], window((64, 64, 256, 256), 128, 3, 3)),
    Problem(
        35, "conv2d_subtract_hard_swish_max_pool_mish", lambda x, k, b: mish(max_pool2d(hardswish(conv2d(x, k, b) - 0.5), 2)), DEEP,
    ),
    Problem(
        46, "conv2d_subtract_tanh_subtract_average_pool",
        lambda x, k, b: avg_pool2d((conv2d(x, k, b) - 0.5).tanh() - 0.2, 2), DEEP,
    ),
    Problem(57, "conv2d_relu_hard_swish", lambda x, k, b: hardswish(conv2d(x, k, b).relu()), IMAGES),
    Problem(67, "conv2d_gelu_average", lambda x, k, b: gelu(conv2d(x, k, b)).mean(PIXELS), LARGE),
    Problem(69, "conv2d_hard_swish_relu", lambda x, k, b: hardswish(conv2d(x, k, b)).relu(), IMAGES),
    Problem(71, "conv2d_divide_leaky_relu", lambda x, k, b: leaky_relu(conv2d(x, k, b) / 2, 0.01), IMAGES),
    Problem(73, "conv2d_batch_norm_scale", lambda x, k, b, p: batch_norm(p, conv2d(x, k, b)) * 2.0, (*IMAGES, running(64)), ()),
    Problem(
        82, "conv2d_tanh_scale_bias_max_pool",
        lambda x, k, b, c: max_pool2d(conv2d(x, k, b).tanh() * 2.0 + c[:, None, None], 4), (*LARGE, normal(64)),
    ),
    Problem(87, "conv2d_subtract_subtract_mish", lambda x, k, b: mish(conv2d(x, k, b) - 0.5 - 0.2), LARGE),
    Problem(92, "conv2d_group_norm_tanh_hard_swish_residual_log_sum_exp", _92, (*IMAGES, affine(64))),
    # Convolutions of volumes.
    Problem(
        8, "conv3d_divide_max_pool_average_bias_sum",
        lambda x, k, b, c: (max_pool3d(conv3d(x, k, b) / 2.0, 2).mean(VOXELS) + c).sum(1),
        (*window((128, 8, 16, 64, 64), 16, 3, 3, 3), normal(16)),
    ),
    Problem(
        23, "conv3d_group_norm_mean", lambda x, k, b, p: normalized(p, conv3d(x, k, b), 8).mean((1, *VOXELS)),
        (*window((128, 3, 24, 32, 32), 24, 3, 3, 3), affine(24)), small={24: 24},
    ),
    Problem(
        24, "conv3d_min_softmax", lambda x, k, b: conv3d(x, k, b).min(2)[0].softmax(1), window((128, 3, 24, 32, 32), 24, 3, 3, 3),
    ),
    Problem(
        27, "conv3d_hard_swish_group_norm_average", lambda x, k, b, p: normalized(p, hardswish(conv3d(x, k, b)), 4).mean(VOXELS),
        (*window((1024, 3, 16, 32, 32), 16, 4, 4, 4), affine(16)),
    ),
    Problem(
        79, "conv3d_multiply_instance_norm_clamp_multiply_max", _79, (*window((128, 3, 16, 32, 32), 16, 3, 3, 3), normal(16)),
    ),
    Problem(
        83, "conv3d_group_norm_min_clamp",
        lambda x, k, b, p: normalized(p, conv3d(x, k, b), 8).clamp(max=0.0).clamp(0.0, 1.0),
        (*window((128, 3, 16, 64, 64), 16, 3, 3, 3), affine(16)), small={16: 16},
    ),
    Problem(90, "conv3d_leaky_relu_bias_clamp_gelu", _90, (*window((128, 8, 16, 64, 64), 64, 3, 3, 3), normal(64))),
    # Transposed convolutions of images.
    Problem(2, "transpose2d_bias_clamp_scale_clamp_divide", _2, (*back((128, 64, 128, 128), 64, 3, 3), normal(64))),
    Problem(
        5, "transpose2d_subtract_tanh", lambda x, k, b, c: (halving2d(x, k, b) - c[:, None, None]).tanh(),
        (*back((32, 64, 256, 256), 64, 4, 4), normal(64)),
    ),
    Problem(
        11, "transpose2d_batch_norm_tanh_max_pool_group_norm",
        lambda x, k, b, p, g: normalized(g, max_pool2d(batch_norm(p, back2d(x, k, b, padding=1)).tanh(), 2), 8),
        (*back((512, 64, 32, 32), 128, 5, 5), running(128), affine(128)), (),
    ),
    Problem(
        19, "transpose2d_gelu_group_norm", lambda x, k, b, p: normalized(p, gelu(back2d(x, k, b)), 8),
        (*back((128, 64, 256, 256), 64, 3, 3), affine(64)),
    ),
    Problem(
        42, "transpose2d_average_bias_log_sum_exp_multiply",
        lambda x, k, b, c: (back2d(x, k, b).mean(PIXELS) + c).logsumexp(1) * 10.0,
        (*back((16, 64, 512, 512), 128, 3, 3), normal(128)),
    ),
    Problem(
        44, "transpose2d_multiply_average_average",
        lambda x, k, b: (halving2d(x, k, b) * 0.5).mean(PIXELS, keepdim=True).mean(PIXELS), back((16, 64, 128, 128), 128, 3, 3),
    ),
    Problem(
        93, "transpose2d_add_min_gelu_multiply", lambda x, k, b: gelu((back2d(x, k, b, stride=2) + 0.5).clamp(max=0.0)) * 2.0,
        back((128, 64, 64, 64), 128, 4, 4),
    ),
    # Transposed convolutions of volumes.
    Problem(
        3, "transpose3d_add_layer_norm_average_pool_gelu",
        lambda x, k, b, s, p: gelu(avg_pool3d(normalized(p, halving3d(x, k, b) + s, p["scale"].shape, norm=layer_norm), 2)),
        (*back((32, 32, 16, 32, 32), 64, 3, 3, 3), number(1.0), affine(64)),
    ),
    Problem(
        13, "transpose3d_mean_bias_softmax_tanh_scale",
        lambda x, k, b, c: (back3d(x, k, b, padding=1).mean(2) + c[:, None, None]).softmax(1).tanh() * 2.0,
        (*back((16, 16, 32, 128, 128), 64, 3, 3, 3), normal(64)),
    ),
    Problem(15, "transpose3d_batch_norm_subtract_mean", _15, (*back((16, 16, 16, 32, 32), 32, 3, 3, 3), running(32)), ()),
    Problem(20, "transpose3d_bias_residual_multiply_residual", _20, (*STEEP, normal(64))),
    Problem(
        26, "transpose3d_add_hard_swish", _26,
        (rand(128, 32, 16, 16, 16), rand(128, 64, 32, 32, 32), *back((128, 32, 16, 16, 16), 64, 3, 3, 3)[1:]), (0, 1),
    ),
    Problem(
        34, "transpose3d_layer_norm_gelu_scale",
        lambda x, k, b, p: gelu(normalized(p, back3d(x, k, b, stride=2, padding=1), p["scale"].shape, norm=layer_norm)) * 1.0,
        (*back((32, 32, 16, 32, 32), 64, 4, 4, 4), affine(64)),
    ),
    Problem(38, "average_pool_transpose3d_clamp_softmax_scale", _38, (*back((32, 32, 32, 64, 64), 64, 3, 3, 3), normal(64))),
    Problem(49, "transpose3d_softmax_sigmoid", lambda x, k, b: halving3d(x, k, b).softmax(1).sigmoid(), STEEP),
    Problem(50, "transpose3d_scale_average_pool_bias_scale", _50, (*VOLUMES, number(0.5), normal(16), number(1.0))),
    Problem(58, "transpose3d_log_sum_exp_swish_subtract_clamp", _58, (*VOLUMES, normal(1))),
    Problem(
        60, "transpose3d_swish_group_norm_hard_swish",
        lambda x, k, b, p: hardswish(normalized(p, silu(back3d(x, k, b, stride=2, padding=1)), 4)), (*VOLUMES, affine(16)),
    ),
    Problem(
        61, "transpose3d_relu_group_norm", lambda x, k, p: normalized(p, back3d(x, k).relu(), 8),
        (*back((16, 64, 32, 32, 32), 128, 3, 3, 3)[:2], affine(128)),
    ),
    Problem(
        72, "transpose3d_batch_norm_average_pool_average_pool",
        lambda x, k, b, p: avg_pool3d(avg_pool3d(batch_norm(p, back3d(x, k, b, stride=2, padding=1)), 2), 2),
        (*back((64, 3, 32, 32, 32), 16, 3, 3, 3), running(16)), (),
    ),
    Problem(
        77, "transpose3d_scale_batch_norm_average", lambda x, k, b, p: batch_norm(p, back3d(x, k, b) * 2.0).mean(VOXELS),
        (*back((16, 64, 16, 32, 32), 128, 5, 5, 5), running(128)), (),
    ),
    Problem(
        78, "transpose3d_max_pool_max_pool_sum",
        lambda x, k, b: max_pool3d(max_pool3d(back3d(x, k, b, stride=2, padding=2), 2), 3).sum(1),
        back((16, 32, 32, 32, 32), 64, 5, 5, 5), small={16: 2, 64: 16},
    ),
    Problem(89, "transpose3d_max_pool_softmax_subtract_swish_max", _89, (*VOLUMES, normal(16))),
    Problem(
        100, "transpose3d_clamp_divide", lambda x, k, b: back3d(x, k, b, stride=2, padding=1).clamp(min=-1.0) / 2.0,
        back((16, 64, 24, 48, 48), 128, 3, 3, 3), small={16: 2, 24: 8, 48: 16},
    ),
)  # fmt: skip
