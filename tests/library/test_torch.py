"""The conventions of `nn` and `image` are PyTorch's where the library says so: orders of gates, sizes, what counts in a mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon.checker.loader import stdlib_root

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def nn() -> axon.Module:
    return axon.load(stdlib_root() / "nn.axon")


@pytest.fixture(scope="module")
def image() -> axon.Module:
    return axon.load(stdlib_root() / "image.axon")


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def same(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def tensors(*arrays: np.ndarray) -> tuple[Any, ...]:
    return tuple(map(torch.from_numpy, arrays))


OPTIONS = [(1, 0, 1, 1), (2, 1, 1, 2), (3, 2, 2, 1), (2, 3, 3, 2)]  # stride, padding, dilation, groups


@pytest.mark.parametrize("options", OPTIONS)
def test_convolutions(nn: axon.Module, options: tuple[int, ...]) -> None:
    groups = options[3]
    x, k = real(2, 2 * groups, 11, 9), real(3 * groups, 2, 3, 2)
    same(nn.conv2d_with[options](x, k), F.conv2d(*tensors(x, k), None, *options))
    same(nn.conv1d_with[options](x[:, :, 0], k[:, :, 0]), F.conv1d(*tensors(x[:, :, 0], k[:, :, 0]), None, *options))
    if options[2:] == (1, 1):
        same(nn.conv2d_strided[options[:2]](x, k), F.conv2d(*tensors(x, k), None, *options))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("extra", [0, 1])
def test_transposed_convolutions(nn: axon.Module, options: tuple[int, ...], extra: int) -> None:
    stride, padding, dilation, groups = options
    if extra >= max(stride, dilation):
        return  # PyTorch refuses
    x, k = real(2, 2 * groups, 5, 4), real(2 * groups, 3, 3, 4)
    wanted = F.conv_transpose2d(*tensors(x, k), None, stride, padding, extra, groups, dilation)
    same(nn.conv2d_transpose_with[*options, extra](x, k), wanted)
    x, k = x[:, :, 0], k[:, :, 0]
    wanted = F.conv_transpose1d(*tensors(x, k), None, stride, padding, extra, groups, dilation)
    same(nn.conv1d_transpose_with[*options, extra](x, k), wanted)


def test_convolutions_of_volumes(nn: axon.Module) -> None:
    x, k = real(2, 4, 5, 6, 4), real(6, 2, 2, 3, 2)
    same(nn.conv3d_with[2, 1, 2, 2](x, k), F.conv3d(*tensors(x, k), None, 2, 1, 2, 2))
    same(nn.conv3d(x, k.reshape(3, 4, 2, 3, 2)), F.conv3d(*tensors(x, k.reshape(3, 4, 2, 3, 2))))
    k = real(4, 3, 2, 3, 2)
    same(nn.conv3d_transpose_with[2, 1, 2, 2, 1](x, k), F.conv_transpose3d(*tensors(x, k), None, 2, 1, 1, 2, 2))


def test_convolutions_with_numbers_for_each_dimension(nn: axon.Module) -> None:
    x, k = real(2, 4, 9, 10), real(6, 2, 2, 3)
    same(nn.conv2d_each[2, 1, 0, 1, 1, 2, 2](x, k), F.conv2d(*tensors(x, k), None, (2, 1), (0, 1), (1, 2), 2))
    k = real(4, 3, 2, 3)
    wanted = F.conv_transpose2d(*tensors(x, k), None, (2, 3), (1, 0), (1, 0), 2, (1, 2))
    same(nn.conv2d_transpose_each[2, 3, 1, 0, 1, 2, 2, 1, 0](x, k), wanted)


@pytest.mark.parametrize(("window", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 1, 1, 2), (3, 2, 1, 1)])
def test_pools_of_volumes(nn: axon.Module, window: int, stride: int, padding: int, dilation: int) -> None:
    x = real(2, 3, 7, 8, 6)
    same(nn.max_pool3d_with[window, stride, padding, dilation](x), F.max_pool3d(*tensors(x), window, stride, padding, dilation))
    y, z = x[..., 0].copy(), x[..., 0, 0].copy()
    same(nn.max_pool2d_with[window, stride, padding, dilation](y), F.max_pool2d(*tensors(y), window, stride, padding, dilation))
    same(nn.max_pool1d_with[window, stride, padding, dilation](z), F.max_pool1d(*tensors(z), window, stride, padding, dilation))
    same(nn.max_pool3d[window, stride, padding](x), F.max_pool3d(*tensors(x), window, stride, padding))
    same(nn.average_pool3d[window, stride, padding](x), F.avg_pool3d(*tensors(x), window, stride, padding))


def test_batch_norm_in_training(nn: axon.Module) -> None:
    x, scale, shift, mean = real(2, 6, 4, 5), real(6), real(6), real(6)
    variance = RNG.uniform(0.5, 2, 6).astype(np.float32)
    p = {"scale": scale, "shift": shift, "mean": mean, "variance": variance}
    running = tensors(mean.copy(), variance.copy())
    result, after = nn.batch_norm_training(np.float32(0.1), p, x)
    same(result, F.batch_norm(torch.from_numpy(x), *running, *tensors(scale, shift), training=True))
    same(after["mean"], running[0])
    same(after["variance"], running[1])
    same(nn.instance_norm({"scale": scale, "shift": shift}, x), F.instance_norm(*tensors(x), None, None, *tensors(scale, shift)))
    same(nn.instance_standardize(x), F.instance_norm(*tensors(x)))


@pytest.mark.parametrize(("window", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1), (4, 3, 2)])
def test_pools(nn: axon.Module, window: int, stride: int, padding: int) -> None:
    x = real(2, 3, 9, 10)
    same(nn.max_pool_with[window, stride, padding](x), F.max_pool2d(*tensors(x), window, stride, padding))
    same(nn.average_pool_with[window, stride, padding](x), F.avg_pool2d(*tensors(x), window, stride, padding))
    y = x[:, 0]
    same(nn.max_pool1d[window, stride, padding](y), F.max_pool1d(*tensors(y), window, stride, padding))
    same(nn.average_pool1d[window, stride, padding](y), F.avg_pool1d(*tensors(y), window, stride, padding))
    if stride == window and not padding:
        same(nn.max_pool[window](x), F.max_pool2d(*tensors(x), window))
        same(nn.average_pool[window](x), F.avg_pool2d(*tensors(x), window))


def test_normalizations(nn: axon.Module) -> None:
    x, scale, shift, mean = real(2, 6, 4, 5), real(6), real(6), real(6)
    variance = RNG.uniform(0.5, 2, 6).astype(np.float32)
    p = {"scale": scale, "shift": shift}
    same(nn.group_norm[3](p, x), F.group_norm(torch.from_numpy(x), 3, *tensors(scale, shift)))
    wanted = F.batch_norm(torch.from_numpy(x), *tensors(mean, variance, scale, shift))
    same(nn.batch_norm({**p, "mean": mean, "variance": variance}, x), wanted)
    last = np.moveaxis(x, 1, -1).copy()
    same(nn.layer_norm(p, last), F.layer_norm(torch.from_numpy(last), (6,), *tensors(scale, shift)))
    same(nn.rms_norm(scale, last), F.rms_norm(torch.from_numpy(last), (6,), torch.from_numpy(scale), eps=1e-5))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("relu", F.relu), ("selu", F.selu), ("sigmoid", torch.sigmoid), ("softplus", F.softplus), ("log_sigmoid", F.logsigmoid),
        ("silu", F.silu), ("gelu", F.gelu), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")), ("mish", F.mish),
        ("hard_swish", F.hardswish), ("expm1", torch.expm1), ("softmax", lambda x: F.softmax(x, -1)),
        ("hard_sigmoid", F.hardsigmoid), ("hard_tanh", F.hardtanh), ("relu6", F.relu6), ("softsign", F.softsign),
        ("glu", F.glu), ("log_softmax", lambda x: F.log_softmax(x, -1)), ("log_sum_exp", lambda x: torch.logsumexp(x, -1)),
    ],
)  # fmt: skip
def test_pointwise(nn: axon.Module, name: str, wanted: Any) -> None:
    x = np.concatenate([10 * real(60), np.linspace(-100, 100, 41, dtype=np.float32), np.float32([0, 1e-9, -1e-9])])
    same(nn[name](x), wanted(torch.from_numpy(x)))


def test_losses(nn: axon.Module) -> None:
    logits, labels = 5 * real(7, 4), RNG.integers(0, 4, 7).astype(np.int32)
    wide = torch.from_numpy(labels).long()
    same(nn.cross_entropy(logits, labels), F.cross_entropy(torch.from_numpy(logits), wide))
    same(nn.cross_entropies(logits, labels), F.cross_entropy(torch.from_numpy(logits), wide, reduction="none"))
    z, y = 50 * real(9), RNG.uniform(0, 1, 9).astype(np.float32)
    for name, wanted in [("mean_squared_error", F.mse_loss), ("mean_absolute_error", F.l1_loss)]:
        same(nn[name](z, y), wanted(*tensors(z, y)))
    same(nn.huber_loss(np.float32(2.0), z, y), F.huber_loss(*tensors(z, y), delta=2.0))
    logs, p = F.log_softmax(torch.from_numpy(logits), -1), F.softmax(torch.from_numpy(5 * real(7, 4)), -1)
    same(nn.kl_divergences(logs.numpy(), p.numpy()), F.kl_div(logs, p, reduction="none").sum(-1))
    same(nn.binary_cross_entropies(z, y), F.binary_cross_entropy_with_logits(*tensors(z, y), reduction="none"))


def test_attention(nn: axon.Module) -> None:
    q, k, v = real(2, 3, 5, 8), real(2, 3, 7, 8), real(2, 3, 7, 4)
    same(nn.attention(q, k, v), F.scaled_dot_product_attention(*tensors(q, k, v)))
    same(nn.causal_attention(q, k, v), F.scaled_dot_product_attention(*tensors(q, k, v), is_causal=True))


def by_gate(w: Any, gates: int) -> np.ndarray:
    """PyTorch's [gates * h, d] as [d, gates, h]."""
    found: np.ndarray = w.detach().numpy().T.reshape(w.shape[1], gates, -1)
    return found


def test_lstm(nn: axon.Module) -> None:
    layer = torch.nn.LSTM(3, 4)
    bias = (layer.bias_ih_l0 + layer.bias_hh_l0).detach().numpy().reshape(4, 4)
    p = {"input": by_gate(layer.weight_ih_l0, 4), "state": by_gate(layer.weight_hh_l0, 4), "b": bias}
    x, state, memory = real(6, 2, 3), real(2, 4), real(2, 4)
    states, (last, kept) = nn.lstm(p, (state, memory), x)
    wanted, (h, c) = layer(torch.from_numpy(x), tensors(state[None], memory[None]))
    same(states, wanted)
    same(last, h[0])
    same(kept, c[0])


def test_gru(nn: axon.Module) -> None:
    layer = torch.nn.GRU(3, 4)
    b, c = (bias.detach().numpy().reshape(3, 4) for bias in (layer.bias_ih_l0, layer.bias_hh_l0))
    p = {"input": by_gate(layer.weight_ih_l0, 3), "state": by_gate(layer.weight_hh_l0, 3), "b": b, "c": c}
    x, state = real(6, 2, 3), real(2, 4)
    states, last = nn.gru(p, state, x)
    wanted, h = layer(torch.from_numpy(x), torch.from_numpy(state[None]))
    same(states, wanted)
    same(last, h[0])


@pytest.mark.parametrize("size", [(3, 4), (20, 17), (7, 40), (1, 1), (10, 12)])
def test_resize(image: axon.Module, size: tuple[int, int]) -> None:
    x = real(2, 3, 10, 12)
    t = torch.from_numpy(x)
    same(image.resize_nearest[size](x), F.interpolate(t, size, mode="nearest-exact"))
    same(image.resize[size](x), F.interpolate(t, size, mode="bilinear"))
    same(image.resize_smooth[size](x), F.interpolate(t, size, mode="bilinear", antialias=True))


def test_losses_of_softened_and_ignored_labels(nn: axon.Module) -> None:
    logits, labels = real(9, 5), RNG.integers(0, 5, 9)
    some = np.where(RNG.random(9) < 0.4, -100, labels)
    given, ids, kept = torch.from_numpy(logits), torch.from_numpy(labels), torch.from_numpy(some)
    for smoothing in (0.0, 0.1, 1.0):
        wanted = F.cross_entropy(given, ids, label_smoothing=smoothing)
        same(nn.smoothed_cross_entropy(smoothing, logits, labels.astype(np.int32)), wanted)
    same(nn.cross_entropy_without(-100, logits, some.astype(np.int32)), F.cross_entropy(given, kept))
    logs = F.log_softmax(given, -1)
    same(nn.negative_log_likelihoods(logs.numpy(), labels.astype(np.int32)), F.nll_loss(logs, ids, reduction="none"))
    targets = RNG.random((9, 5)).astype(np.float32)
    wanted = F.binary_cross_entropy_with_logits(given, torch.from_numpy(targets))
    same(nn.binary_cross_entropy(logits, targets), wanted)
