"""`nn` against NumPy and SciPy, with loops where these have nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import norm as normal

from tests.library.library_case import Array, Comparison, Drawn, case, of


def pointwise(name: str, f: Any, slack: float = 1.0) -> None:
    @case(f"nn.{name}")
    def _(d: Drawn) -> Comparison:
        x = d.real(*d.shape(), scale=4.0)
        return of(x, wanted=f(x.astype(np.float64)), slack=slack)


pointwise("relu", lambda x: np.where(x > 0, x, 0))
pointwise("expm1", np.expm1)
pointwise("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)))
pointwise("sigmoid", special.expit)
pointwise("softplus", lambda x: np.logaddexp(0, x))
pointwise("log_sigmoid", special.log_expit)
pointwise("silu", lambda x: x * special.expit(x))
pointwise("gelu", lambda x: x * normal.cdf(x))
pointwise("gelu_tanh", lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), slack=2)
pointwise("mish", lambda x: x * np.tanh(np.logaddexp(0, x)))
pointwise("hard_swish", lambda x: x * np.clip(x + 3, 0, 6) / 6)


pointwise("hard_sigmoid", lambda x: np.clip(x + 3, 0, 6) / 6)
pointwise("hard_tanh", lambda x: np.clip(x, -1, 1))
pointwise("relu6", lambda x: np.clip(x, 0, 6))
pointwise("softsign", lambda x: x / (1 + np.abs(x)))


def with_number(name: str, number: float, f: Any) -> None:
    @case(f"nn.{name}")
    def _(d: Drawn) -> Comparison:
        x = d.real(*d.shape(), scale=2)
        return of(number, x, wanted=f(x.astype(np.float64)))


with_number("celu", 0.7, lambda x: np.maximum(x, 0) + np.minimum(0.7 * np.expm1(x / 0.7), 0))
with_number("soft_shrink", 0.75, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.75, 0))
with_number("hard_shrink", 0.7, lambda x: np.where(np.abs(x) > 0.7, x, 0))


@case("nn.prelu")
def _(d: Drawn) -> Comparison:
    channels = d.size()
    x, slopes = d.real(d.size(), channels, *d.shape(2)), d.real(channels)
    return of(slopes, x, wanted=np.where(x >= 0, x, by_channel(slopes, x) * x))


@case("nn.glu")
def _(d: Drawn) -> Comparison:
    n = d.size()
    x = d.real(*d.shape(2), 2 * n)
    return of(x, wanted=x[..., :n] * special.expit(x[..., n:].astype(np.float64)))


@case("nn.log1p")
def _(d: Drawn) -> Comparison:
    x = d.uniform(*d.shape(), low=-0.99, high=3)
    return of(x, wanted=np.log1p(x.astype(np.float64)))


@case("nn.leaky_relu")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(0.1, x, wanted=np.where(x > 0, x, 0.1 * x))


@case("nn.elu")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(0.7, x, wanted=np.where(x > 0, x, 0.7 * np.expm1(x)))


# ── softmax, losses ────────────────────────────────────────────────────────────────────────────────────────────────────


@case("nn.softmax")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), d.size(), scale=30)
    return of(x, wanted=special.softmax(x.astype(np.float64), -1) if x.shape[-1] else x, slack=10)


@case("nn.log_softmax")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), d.size(), scale=30)
    return of(x, wanted=special.log_softmax(x.astype(np.float64), -1) if x.shape[-1] else x)


@case("nn.log_sum_exp")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), d.size(), scale=30)
    return of(x, wanted=special.logsumexp(x.astype(np.float64), -1) if x.shape[-1] else np.full(x.shape[:-1], -np.inf))


def over_first(name: str, f: Any) -> None:
    @case(f"nn.{name}_first")
    def _(d: Drawn) -> Comparison:
        x = d.real(d.size(1), *d.shape(2), scale=30)
        return of(x, wanted=f(x.astype(np.float64), 0), slack=10)


over_first("softmax", special.softmax)
over_first("log_softmax", special.log_softmax)
over_first("log_sum_exp", special.logsumexp)


def over_all(name: str, f: Any) -> None:
    @case(f"nn.{name}_all")
    def _(d: Drawn) -> Comparison:
        x = d.real(*(d.size(1) for _ in range(d.size(0, 3))), scale=30)
        return of(x, wanted=f(x.astype(np.float64)), slack=10)


over_all("softmax", special.softmax)
over_all("log_sum_exp", special.logsumexp)


def losses(logits: Array, labels: Array) -> Array:
    logs = special.log_softmax(logits.astype(np.float64), -1)
    return np.asarray(-np.take_along_axis(logs, labels[..., None].astype(int), -1)[..., 0])


@case("nn.cross_entropies")
def _(d: Drawn) -> Comparison:
    shape, classes = d.shape(), d.size(1)
    logits, labels = d.real(*shape, classes, scale=9), d.integers(*shape, high=classes)
    return of(logits, labels, wanted=losses(logits, labels), slack=3)


@case("nn.cross_entropy")
def _(d: Drawn) -> Comparison:
    n, classes = d.size(1), d.size(1)
    logits, labels = d.real(n, classes, scale=9), d.integers(n, high=classes)
    return of(logits, labels, wanted=losses(logits, labels).mean(), slack=3)


def smoothed(logits: Array, labels: Array) -> Array:
    """The cross entropy of softened labels, by its definition."""
    wanted = 0.8 * np.eye(logits.shape[-1])[labels] + 0.2 / logits.shape[-1]
    return np.asarray(-(wanted * special.log_softmax(logits.astype(np.float64), -1)).sum(-1))


@case("nn.smoothed_cross_entropies")
def _(d: Drawn) -> Comparison:
    shape, classes = d.shape(), d.size(1)
    logits, labels = d.real(*shape, classes, scale=9), d.integers(*shape, high=classes)
    return of(0.2, logits, labels, wanted=smoothed(logits, labels), slack=5)


@case("nn.smoothed_cross_entropy")
def _(d: Drawn) -> Comparison:
    n, classes = d.size(1), d.size(1)
    logits, labels = d.real(n, classes, scale=9), d.integers(n, high=classes)
    return of(0.2, logits, labels, wanted=smoothed(logits, labels).mean(), slack=5)


@case("nn.cross_entropy_without")
def _(d: Drawn) -> Comparison:
    n, classes = d.size(1, 9), d.size(1)
    logits, labels = d.real(n, classes, scale=9), d.integers(n, low=-1, high=classes)
    kept = labels >= 0
    wanted = losses(logits[kept], labels[kept]).mean() if kept.any() else np.nan
    return of(-1, logits, labels, wanted=wanted, slack=3)


@case("nn.negative_log_likelihoods")
def _(d: Drawn) -> Comparison:
    shape, classes = d.shape(), d.size(1)
    logs, labels = d.real(*shape, classes), d.integers(*shape, high=classes)
    return of(logs, labels, wanted=-np.take_along_axis(logs, labels[..., None], -1)[..., 0], slack=0)


@case("nn.binary_cross_entropy")
def _(d: Drawn) -> Comparison:
    shape = [d.size(1) for _ in range(d.size(0, 3))]
    logits, labels = d.real(*shape, scale=9), d.uniform(*shape)
    logs = special.log_expit(logits.astype(np.float64)), special.log_expit(-logits.astype(np.float64))
    return of(logits, labels, wanted=np.mean(-labels * logs[0] - (1 - labels) * logs[1]), slack=3)


@case("nn.binary_cross_entropies")
def _(d: Drawn) -> Comparison:
    shape = d.shape()
    logits, labels = d.real(*shape, scale=9), d.uniform(*shape)
    logs = special.log_expit(logits.astype(np.float64)), special.log_expit(-logits.astype(np.float64))
    return of(logits, labels, wanted=-labels * logs[0] - (1 - labels) * logs[1], slack=3)


def mean_loss(name: str, f: Any, *numbers: float) -> None:
    @case(f"nn.{name}")
    def _(d: Drawn) -> Comparison:
        shape = [d.size(1) for _ in range(d.size(0, 3))]
        x, y = d.real(*shape, scale=2), d.real(*shape)
        return of(*numbers, x, y, wanted=f(x.astype(np.float64), y.astype(np.float64)))


mean_loss("mean_squared_error", lambda x, y: np.mean((x - y) ** 2))
mean_loss("mean_absolute_error", lambda x, y: np.mean(np.abs(x - y)))
mean_loss("huber_loss", lambda x, y: special.huber(1.5, x - y).mean(), 1.5)
mean_loss("hinge_loss", lambda x, y: np.mean(np.maximum(0, 1 - x * y)))


@case("nn.kl_divergences")
def _(d: Drawn) -> Comparison:
    shape, n = d.shape(2), d.size(1)
    logs = special.log_softmax(d.real(*shape, n).astype(np.float64), -1).astype(d.element)
    p = special.softmax(d.real(*shape, n, scale=30).astype(np.float64), -1).astype(d.element)
    wanted = special.kl_div(p.astype(np.float64), np.exp(logs.astype(np.float64))) + p - np.exp(logs.astype(np.float64))
    return of(logs, p, wanted=wanted.sum(-1), slack=10)


@case("nn.predict")
def _(d: Drawn) -> Comparison:
    x = d.few(*d.shape(), d.size(1))
    return of(x, wanted=np.argmax(x, -1).astype(np.int32))


@case("nn.accuracy")
def _(d: Drawn) -> Comparison:
    n = d.size(1, 9)
    a, b = d.integers(n), d.integers(n)
    return of(a, b, wanted=np.mean(a == b), single=True)


@case("nn.one_hot")
def _(d: Drawn) -> Comparison:
    labels, classes = d.integers(*d.shape(), low=-1, high=6), d.size()
    return of(labels, wanted=(labels[..., None] == np.arange(classes)).astype(float), sizes=(classes,), single=True)


@case("nn.embedding")
def _(d: Drawn) -> Comparison:
    table = d.real(d.size(1), d.size())
    ids = d.integers(*d.shape(), high=len(table))
    return of(table, ids, wanted=table[ids], slack=0)


# ── normalization, layers ──────────────────────────────────────────────────────────────────────────────────────────────


def standardized(x: Array, axes: Any, epsilon: float = 1e-5) -> Array:
    x = x.astype(np.float64)
    if not x.size:
        return x
    centred = x - x.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon))


@case("nn.standardize")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), d.size())
    return of(1e-3, x, wanted=standardized(x, -1, 1e-3), slack=10)


@case("nn.layer_norm")
def _(d: Drawn) -> Comparison:
    n = d.size()
    x, scale, shift = d.real(*d.shape(), n), d.real(n), d.real(n)
    return of({"scale": scale, "shift": shift}, x, wanted=standardized(x, -1) * scale + shift, slack=100)


def by_root_mean_square(x: Array, epsilon: float = 1e-5) -> Array:
    return np.asarray(x / np.sqrt((x.astype(np.float64) ** 2).sum(-1, keepdims=True) / max(1, x.shape[-1]) + epsilon))


@case("nn.rms_scaled")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), d.size())
    return of(1e-3, x, wanted=by_root_mean_square(x, 1e-3))


@case("nn.rms_norm")
def _(d: Drawn) -> Comparison:
    n = d.size()
    x, scale = d.real(*d.shape(), n), d.real(n)
    return of(scale, x, wanted=by_root_mean_square(x) * scale, slack=3)


def by_channel(v: Array, x: Array) -> Array:
    return v.reshape(-1, *[1] * (x.ndim - 2))


@case("nn.group_norm")
def _(d: Drawn) -> Comparison:
    groups, each = d.size(1, 3), d.size(0, 3)
    channels = groups * each
    x, scale, shift = d.real(d.size(), channels, *d.shape(2)), d.real(channels), d.real(channels)
    grouped = x.reshape(len(x), groups, each, *x.shape[2:])
    wanted = standardized(grouped, tuple(range(2, grouped.ndim))).reshape(x.shape) * by_channel(scale, x) + by_channel(shift, x)
    return of({"scale": scale, "shift": shift}, x, wanted=wanted, sizes=(groups,), slack=100)


@case("nn.instance_norm")
def _(d: Drawn) -> Comparison:
    channels = d.size(1)
    x, scale, shift = d.real(d.size(), channels, *d.shape(2)), d.real(channels), d.real(channels)
    wanted = x * 0.0 if x.ndim == 2 else standardized(x, tuple(range(2, x.ndim)))
    wanted = wanted * by_channel(scale, x) + by_channel(shift, x)
    return of({"scale": scale, "shift": shift}, x, wanted=wanted, slack=100)


@case("nn.instance_standardize")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), d.size(1), *d.shape(2))
    return of(x, wanted=x * 0.0 if x.ndim == 2 else standardized(x, tuple(range(2, x.ndim))), slack=100)


@case("nn.batch_norm_training")
def _(d: Drawn) -> Comparison:
    channels = d.size()
    x, scale, shift = d.real(d.size(2), channels, *(d.size(1, 3) for _ in range(d.size(0, 2)))), d.real(channels), d.real(channels)
    mean, variance = d.real(channels), d.uniform(channels, low=0.5, high=2)
    axes, wide = (0, *range(2, x.ndim)), x.astype(np.float64)
    p = {"scale": scale, "shift": shift, "mean": mean, "variance": variance}
    moved = {"mean": 0.75 * mean + 0.25 * wide.mean(axes), "variance": 0.75 * variance + 0.25 * wide.var(axes, ddof=1)}
    result = standardized(x, axes) * by_channel(scale, x) + by_channel(shift, x)
    return of(0.25, p, x, wanted=(result, {**p, **moved}), slack=10)


@case("nn.batch_norm")
def _(d: Drawn) -> Comparison:
    channels = d.size()
    x, scale, shift, mean = d.real(d.size(), channels, *d.shape(2)), d.real(channels), d.real(channels), d.real(channels)
    variance = d.uniform(channels, low=0.5, high=2)
    p = {"scale": scale, "shift": shift, "mean": mean, "variance": variance}
    wanted = (x - by_channel(mean, x)) / np.sqrt(by_channel(variance, x) + 1e-5) * by_channel(scale, x) + by_channel(shift, x)
    return of(p, x, wanted=wanted, slack=3)


@case("nn.dense")
def _(d: Drawn) -> Comparison:
    n, k = d.size(), d.size()
    x, w, b = d.real(*d.shape(), n), d.real(n, k), d.real(k)
    return of({"w": w, "b": b}, x, wanted=x.astype(np.float64) @ w + b, slack=3)


@case("nn.swiglu")
def _(d: Drawn) -> Comparison:
    n, h, k = d.size(), d.size(), d.size()
    x, gate, up, down = d.real(*d.shape(2), n), d.real(n, h), d.real(n, h), d.real(h, k)
    wide = x.astype(np.float64)
    wanted = (wide @ gate * special.expit(wide @ gate) * (wide @ up)) @ down
    return of({"gate": gate, "up": up, "down": down}, x, wanted=wanted, slack=10)


@case("nn.mixture_of_experts")
def _(d: Drawn) -> Comparison:
    e, n, h, k, rows, chosen = d.size(1), d.size(), d.size(), d.size(), d.size(), d.size(1)
    gate, up, down = d.real(e, n, h), d.real(e, n, h), d.real(e, h, k)
    expert, weight, x = d.integers(rows, chosen, high=e), d.real(rows, chosen), d.real(rows, n)
    wanted = np.zeros((rows, k))
    for i in range(rows):
        for at, share in zip(expert[i], weight[i], strict=True):
            wide = x[i].astype(np.float64)
            hidden = wide @ gate[at]
            wanted[i] += share * ((hidden * special.expit(hidden) * (wide @ up[at])) @ down[at])
    return of({"gate": gate, "up": up, "down": down}, expert, weight, x, wanted=wanted, slack=12)


@case("nn.flatten")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), d.size(), d.size(), d.size())
    return of(x, wanted=x.reshape(len(x), int(np.prod(x.shape[1:]))), slack=0)


@case("nn.channel_bias")
def _(d: Drawn) -> Comparison:
    channels = d.size()
    x, b = d.real(d.size(), channels, *d.shape(2)), d.real(channels)
    return of(b, x, wanted=x + by_channel(b, x))


# ── convolutions and pools, of any number of dimensions ────────────────────────────────────────────────────────────────


def around(x: Array, padding: int, value: float) -> Array:
    return np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[(padding, padding)] * (x.ndim - 2)], constant_values=value)


def taps(x: Array, window: tuple[int, ...], stride: int, dilation: int) -> list[tuple[tuple[int, ...], Array]]:
    """For each place in the window, the pixels that the windows have there."""
    out = [(n - dilation * (r - 1) - 1) // stride + 1 for n, r in zip(x.shape[2:], window, strict=True)]

    def pixels(at: tuple[int, ...]) -> Array:
        starts = [a * dilation for a in at]
        return x[(..., *(slice(a, a + max(0, (n - 1) * stride + 1), stride) for a, n in zip(starts, out, strict=True)))]

    return [(at, pixels(at)) for at in itertools.product(*map(range, window))]


def convolved(x: Array, k: Array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Array:
    x = around(x, padding, 0)
    n, c, o = len(x), x.shape[1] // groups, k.shape[0] // groups
    out = tuple((s - dilation * (r - 1) - 1) // stride + 1 for s, r in zip(x.shape[2:], k.shape[2:], strict=True))
    total = np.zeros((n, groups, o, *out))
    kernels = k.reshape(groups, o, *k.shape[1:])
    for at, pixels in taps(x, k.shape[2:], stride, dilation):
        grouped = pixels.reshape(n, groups, c, *out)
        total += np.einsum("ngc...,goc->ngo...", grouped, kernels[(..., *at)])
    return total.reshape(n, groups * o, *out)


def transposed(x: Array, k: Array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1, extra: int = 0) -> Array:
    """By its definition: every element adds a kernel to the result."""
    n, c, o = len(x), x.shape[1] // groups, k.shape[1]
    full = tuple((s - 1) * stride + dilation * (r - 1) + 1 + extra for s, r in zip(x.shape[2:], k.shape[2:], strict=True))
    total = np.zeros((n, groups, o, *full))
    grouped = x.reshape(n, groups, c, *x.shape[2:]).astype(np.float64)
    kernels = k.reshape(groups, c, *k.shape[1:])
    for at in itertools.product(*map(range, k.shape[2:])):
        for p in itertools.product(*map(range, x.shape[2:])):
            place = tuple(a * dilation + b * stride for a, b in zip(at, p, strict=True))
            total[(..., *place)] += np.einsum("ngc,gco->ngo", grouped[(..., *p)], kernels[(..., *at)])
    cut = tuple(slice(padding, s - padding) for s in full)
    return total.reshape(n, groups * o, *full)[(..., *cut)]


def convolved_each(x: Array, k: Array, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """Kernels that are dilated with zeros, and a result of which every so many pixels are kept."""
    wide = np.zeros((*k.shape[:2], *(dilate * (r - 1) + 1 for dilate, r in zip(dilation, k.shape[2:], strict=True))))
    wide[(..., *(slice(None, None, dilate) for dilate in dilation))] = k
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    return convolved(x, wide, groups=groups)[(..., *(slice(None, None, step) for step in stride))]


def transposed_each(x: Array, k: Array, stride: Any, padding: Any, dilation: Any, groups: int, extra: Any) -> Array:
    """Pixels that are moved apart, and kernels that are dilated, with zeros."""
    far = np.zeros((*x.shape[:2], *((n - 1) * step + 1 for step, n in zip(stride, x.shape[2:], strict=True))))
    far[(..., *(slice(None, None, step) for step in stride))] = x
    wide = np.zeros((*k.shape[:2], *(dilate * (r - 1) + 1 for dilate, r in zip(dilation, k.shape[2:], strict=True))))
    wide[(..., *(slice(None, None, dilate) for dilate in dilation))] = k
    full = transposed(far, wide, groups=groups)
    full = np.pad(full, [(0, 0), (0, 0), *((0, e) for e in extra)])
    return full[(..., *(slice(p, n - p) for p, n in zip(padding, full.shape[2:], strict=True)))]


@case("nn.conv2d_each")
def _(d: Drawn) -> Comparison:
    stride, padding, dilation = (tuple(d.size(low, 2) for _ in range(2)) for low in (1, 0, 1))
    groups, c = d.size(1, 2), d.size(1, 2)
    k = d.real(groups * d.size(1, 2), c, d.size(1, 3), d.size(1, 3))
    x = d.real(d.size(0, 2), groups * c, *(d.size(n, n + 3) for n in (1 + dilation[m] * (k.shape[2 + m] - 1) for m in (0, 1))))
    wanted = convolved_each(x, k, stride, padding, dilation, groups)
    return of(x, k, wanted=wanted, sizes=(*stride, *padding, *dilation, groups), slack=10)


@case("nn.conv2d_transpose_each")
def _(d: Drawn) -> Comparison:
    stride, dilation, extra = (tuple(d.size(low, 2) for _ in range(2)) for low in (1, 1, 0))
    groups, c = d.size(1, 2), d.size(1, 2)
    k = d.real(groups * c, d.size(1, 2), d.size(2, 3), d.size(2, 3))
    x, padding = d.real(d.size(0, 2), groups * c, d.size(1, 3), d.size(1, 3)), (d.size(0, 1), d.size(0, 1))
    wanted = transposed_each(x, k, stride, padding, dilation, groups, extra)
    return of(x, k, wanted=wanted, sizes=(*stride, *padding, *dilation, groups, *extra), slack=10)


def convolution(name: str, rank: int, options: str) -> None:
    @case(f"nn.{name}")
    def _(d: Drawn) -> Comparison:
        stride, dilation = (d.size(1, 3) if o in options else 1 for o in ("stride", "dilation"))
        groups, padding = d.size(1, 2) if "groups" in options else 1, d.size(0, 2) if "padding" in options else 0
        c, o = d.size(0, 3), d.size(0, 3)
        k = d.real(groups * o, c, *(d.size(1, 3) for _ in range(rank)))
        least = [max(0, dilation * (r - 1) + 1 - 2 * padding) for r in k.shape[2:]]
        x = d.real(d.size(0, 2), groups * c, *(d.size(n, n + 4) for n in least))
        given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        sizes = tuple(given[o] for o in options.split())
        return of(x, k, wanted=convolved(x, k, **given), sizes=sizes, slack=10)


convolution("conv1d", 1, "")
convolution("conv2d", 2, "")
convolution("conv1d_with", 1, "stride padding dilation groups")
convolution("conv2d_strided", 2, "stride padding")
convolution("conv2d_with", 2, "stride padding dilation groups")
convolution("conv3d", 3, "")
convolution("conv3d_with", 3, "stride padding dilation groups")


@case("nn.conv2d_same")
def _(d: Drawn) -> Comparison:
    c = d.size()
    k = d.real(d.size(), c, d.size(1, 4), d.size(1, 4))
    x = d.real(d.size(0, 2), c, d.size(), d.size())
    r, s = k.shape[2:]
    wide = np.pad(x, [(0, 0), (0, 0), (r // 2, r - 1 - r // 2), (s // 2, s - 1 - s // 2)])
    return of(x, k, wanted=convolved(wide, k), slack=10)


def transposed_convolution(name: str, rank: int, options: str) -> None:
    @case(f"nn.{name}")
    def _(d: Drawn) -> Comparison:
        stride, dilation = (d.size(1, 3) if o in options else 1 for o in ("stride", "dilation"))
        groups, extra = d.size(1, 2) if "groups" in options else 1, d.size(0, 2) if "extra" in options else 0
        c, o = d.size(0, 3), d.size(0, 3)
        x = d.real(d.size(0, 2), groups * c, *(d.size(1, 4) for _ in range(rank)))
        k = d.real(groups * c, o, *(d.size(1, 4) for _ in range(rank)))
        least = min((s - 1) * stride + dilation * (r - 1) + 1 + extra for s, r in zip(x.shape[2:], k.shape[2:], strict=True))
        padding = d.size(0, min(2, least // 2))
        given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "extra": extra}
        sizes = tuple(given[o] for o in options.split())
        return of(x, k, wanted=transposed(x, k, **given), sizes=sizes, slack=10)


transposed_convolution("conv1d_transpose_with", 1, "stride padding dilation groups extra")
transposed_convolution("conv2d_transpose", 2, "stride padding")
transposed_convolution("conv2d_transpose_with", 2, "stride padding dilation groups extra")
transposed_convolution("conv3d_transpose_with", 3, "stride padding dilation groups extra")


def pooled(x: Array, window: int, stride: int, padding: int, largest: bool) -> Array:
    x = around(x, padding, -np.inf if largest else 0)
    found = np.stack([pixels for _, pixels in taps(x, (window,) * (x.ndim - 2), stride, 1)])
    return np.asarray(found.max(0) if largest else found.mean(0))


def pool(name: str, rank: int, largest: bool, square: bool = False) -> None:
    @case(f"nn.{name}")
    def _(d: Drawn) -> Comparison:
        window = d.size(1, 3)
        stride, padding = (window, 0) if square else (d.size(1, 3), d.size(0, min(2, window - 1)))
        least = max(0, window - 2 * padding)
        x = d.real(d.size(0, 2), d.size(0, 2), *(d.size(least, least + 4) for _ in range(rank)))
        sizes = (window,) if square else (window, stride, padding)
        return of(x, wanted=pooled(x, window, stride, padding, largest), sizes=sizes)


pool("max_pool", 2, largest=True, square=True)
pool("average_pool", 2, largest=False, square=True)
pool("max_pool_with", 2, largest=True)
pool("average_pool_with", 2, largest=False)
pool("max_pool1d", 1, largest=True)
pool("average_pool1d", 1, largest=False)
pool("max_pool3d", 3, largest=True)
pool("average_pool3d", 3, largest=False)


def dilated_pool(rank: int) -> None:
    @case(f"nn.max_pool{rank}d_with")
    def _(d: Drawn) -> Comparison:
        window, stride, dilation = d.size(1, 3), d.size(1, 2), d.size(1, 2)
        padding = d.size(0, min(1, window - 1))
        least = dilation * (window - 1) + 1
        x = d.real(d.size(0, 2), d.size(0, 2), *(d.size(least, least + 3) for _ in range(rank)))
        wide = around(x, padding, -np.inf)
        found = np.stack([pixels for _, pixels in taps(wide, (window,) * rank, stride, dilation)])
        return of(x, wanted=found.max(0), sizes=(window, stride, padding, dilation))


for _rank in (1, 2, 3):
    dilated_pool(_rank)


@case("nn.global_average_pool")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), d.size(), *(d.size(1, 3) for _ in range(d.size(0, 2))))
    return of(x, wanted=x.mean(tuple(range(2, x.ndim))) if x.ndim > 2 else x)


# ── attention ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def attended(q: Array, k: Array, v: Array, change: Any = lambda scores: scores) -> Array:
    scores = change(np.einsum("...ic,...jc->...ij", q.astype(np.float64), k) / np.sqrt(q.shape[-1]))
    return np.asarray(special.softmax(scores, -1) @ v)


def distance(scores: Array) -> Array:
    """How far the key of a score is behind its query."""
    return np.subtract.outer(np.arange(scores.shape[-2]), np.arange(scores.shape[-1]))


def kept(scores: Array, where: Array) -> Array:
    return np.where(where, scores, -np.inf)


def triple(d: Drawn) -> tuple[Array, Array, Array]:
    batch, s, t, n = d.shape(2), d.size(1), d.size(1), d.size(1)
    return d.real(*batch, s, n), d.real(*batch, t, n), d.real(*batch, t, d.size())


@case("nn.attention_scores")
def _(d: Drawn) -> Comparison:
    q, k, _ = triple(d)
    return of(q, k, wanted=q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), slack=3)


@case("nn.attention")
def _(d: Drawn) -> Comparison:
    q, k, v = triple(d)
    return of(q, k, v, wanted=attended(q, k, v), slack=3)


@case("nn.causal_attention")
def _(d: Drawn) -> Comparison:
    q, k, v = triple(d)
    return of(q, k, v, wanted=attended(q, k, v, lambda scores: kept(scores, distance(scores) >= 0)), slack=3)


@case("nn.attention_with", "fun f (w : i32) q k v = nn.attention_with (fn scores => scores |> nn.sliding w) q k v")
def _(d: Drawn) -> Comparison:
    (q, k, v), w = triple(d), d.size(1)
    k, v = (np.resize(x, (*q.shape[:-1], x.shape[-1])) for x in (k, v))  # so that every query has a key
    wanted = attended(q, k, v, lambda scores: kept(scores, (distance(scores) >= 0) & (distance(scores) < w)))
    return of(w, q, k, v, wanted=wanted, slack=3)


def scores_of(d: Drawn, *last: int) -> Array:
    return d.real(*d.shape(2), *last)


@case("nn.causal")
def _(d: Drawn) -> Comparison:
    x = scores_of(d, d.size(), d.size())
    return of(x, wanted=kept(x, distance(x) >= 0), slack=0)


@case("nn.causal_from")
def _(d: Drawn) -> Comparison:
    x, start = scores_of(d, d.size(), d.size()), d.size()
    return of(start, x, wanted=kept(x, distance(x) >= -start), slack=0)


@case("nn.sliding")
def _(d: Drawn) -> Comparison:
    x, window = scores_of(d, d.size(), d.size()), d.size()
    return of(window, x, wanted=kept(x, (distance(x) >= 0) & (distance(x) < window)), slack=0)


@case("nn.documents")
def _(d: Drawn) -> Comparison:
    n = d.size()
    x, ids = scores_of(d, n, n), d.integers(n, high=2)
    return of(ids, x, wanted=kept(x, ids[:, None] == ids), slack=0)


@case("nn.alibi")
def _(d: Drawn) -> Comparison:
    h = d.size()
    x, slopes = scores_of(d, h, d.size(), d.size()), d.uniform(h)
    return of(slopes, x, wanted=x - slopes[:, None, None] * abs(distance(x)))


def published_slopes(n: int) -> list[float]:
    """The authors' program, https://github.com/ofirpress/attention_with_linear_biases (MIT)."""
    if np.log2(n).is_integer():
        start = 2 ** (-(2 ** -(np.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    power = 2 ** int(np.floor(np.log2(n)))
    return published_slopes(power) + published_slopes(2 * power)[0::2][: n - power]


@case("nn.alibi_slopes")
def _(d: Drawn) -> Comparison:
    h = d.size(0, 70)
    return of(wanted=np.array(published_slopes(h) if h else []), sizes=(h,), single=True)


@case("nn.from_pages")
def _(d: Drawn) -> Comparison:
    pages, rows, heads, width = d.size(1), d.size(), d.size(), d.size()
    cache, page = d.real(pages, rows, heads, width), d.integers(d.size(), d.size(), high=pages)
    wanted = [[row for number in numbers for row in cache[number]] for numbers in page]
    length = page.shape[1] * rows
    return of(cache, page, wanted=np.reshape(wanted, (page.shape[0], length, heads, width)).swapaxes(1, 2), slack=0)


@case("nn.split_heads")
def _(d: Drawn) -> Comparison:
    h, c = d.size(1, 3), d.size()
    x = d.real(*d.shape(2), d.size(), h * c)
    return of(x, wanted=np.swapaxes(x.reshape(*x.shape[:-1], h, c), -2, -3), sizes=(h,), slack=0)


@case("nn.merge_heads")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(2), d.size(), d.size(), d.size())
    y = np.swapaxes(x, -2, -3)
    return of(x, wanted=y.reshape(*y.shape[:-2], y.shape[-2] * y.shape[-1]), slack=0)


@case("nn.rope_angles")
def _(d: Drawn) -> Comparison:
    pairs, positions = d.size(), d.integers(d.size(), high=1000)
    wanted = np.outer(positions, 10000.0 ** (-np.arange(pairs) / max(1, pairs)))
    return of(np.float32(10000), positions, wanted=wanted, sizes=(pairs,), slack=10, single=True)


def turned(a: Array, b: Array, angles: Array) -> tuple[Array, Array]:
    """Complex numbers a + i b, turned."""
    found = (a + 1j * b) * np.exp(1j * angles.astype(np.float64))
    return found.real, found.imag


@case("nn.rope")
def _(d: Drawn) -> Comparison:
    s, n = d.size(), d.size()
    x, angles = d.real(*d.shape(2), s, 2 * n), d.rng.uniform(-9, 9, (s, n)).astype(np.float32)
    wanted = np.concatenate(turned(x[..., :n], x[..., n:], angles), -1)
    return of(angles, x, wanted=wanted, slack=3, single=True)  # the sines are of f32


@case("nn.rope_interleaved")
def _(d: Drawn) -> Comparison:
    s, n = d.size(), d.size()
    x, angles = d.real(*d.shape(2), s, 2 * n), d.rng.uniform(-9, 9, (s, n)).astype(np.float32)
    wanted = np.stack(turned(x[..., ::2], x[..., 1::2], angles), -1).reshape(x.shape)
    return of(angles, x, wanted=wanted, slack=3, single=True)


# ── recurrent layers ───────────────────────────────────────────────────────────────────────────────────────────────────


def lstm_weights(d: Drawn, n: int, h: int) -> dict[str, Array]:
    return {"input": d.real(n, 4, h), "state": d.real(h, 4, h), "b": d.real(4, h)}


def lstm_next(gates: Array, state: Array, memory: Array, w: Array) -> tuple[Array, Array]:
    i, f, g, o = np.moveaxis(gates + np.tensordot(state, w, 1), -2, 0)
    memory = special.expit(f) * memory + special.expit(i) * np.tanh(g)
    return special.expit(o) * np.tanh(memory), memory


@case("nn.lstm_step")
def _(d: Drawn) -> Comparison:
    n, h = d.size(), d.size()
    w, gates, state, memory = d.real(h, 4, h), d.real(n, 4, h), d.real(n, h), d.real(n, h)
    return of(w, gates, (state, memory), wanted=lstm_next(gates.astype(np.float64), state, memory, w), slack=10)


@case("nn.lstm_cell")
def _(d: Drawn) -> Comparison:
    n, c, h = d.size(), d.size(), d.size()
    p, x, state, memory = lstm_weights(d, c, h), d.real(n, c), d.real(n, h), d.real(n, h)
    gates = np.tensordot(x.astype(np.float64), p["input"], 1) + p["b"]
    return of(p, (state, memory), x, wanted=lstm_next(gates, state, memory, p["state"]), slack=10)


@case("nn.lstm")
def _(d: Drawn) -> Comparison:
    t, n, c, h = d.size(), d.size(), d.size(), d.size()
    p, x, start = lstm_weights(d, c, h), d.real(t, n, c), (d.real(n, h), d.real(n, h))
    (state, memory), states = start, np.zeros((t, n, h))
    for i in range(t):
        gates = np.tensordot(x[i].astype(np.float64), p["input"], 1) + p["b"]
        states[i], memory = state, memory = lstm_next(gates, state, memory, p["state"])
    return of(p, start, x, wanted=(states, (state, memory)), slack=100)


def gru_weights(d: Drawn, n: int, h: int) -> dict[str, Array]:
    return {"input": d.real(n, 3, h), "state": d.real(h, 3, h), "b": d.real(3, h), "c": d.real(3, h)}


def gru_next(gates: Array, state: Array, w: Array, c: Array) -> Array:
    own = np.tensordot(state.astype(np.float64), w, 1) + c
    r, z = (special.expit(gates[:, g] + own[:, g]) for g in (0, 1))
    return np.asarray((1 - z) * np.tanh(gates[:, 2] + r * own[:, 2]) + z * state)


@case("nn.gru_step")
def _(d: Drawn) -> Comparison:
    n, h = d.size(), d.size()
    w, c, gates, state = d.real(h, 3, h), d.real(3, h), d.real(n, 3, h), d.real(n, h)
    return of(w, c, gates, state, wanted=gru_next(gates, state, w, c), slack=10)


@case("nn.gru_cell")
def _(d: Drawn) -> Comparison:
    n, c, h = d.size(), d.size(), d.size()
    p, x, state = gru_weights(d, c, h), d.real(n, c), d.real(n, h)
    gates = np.tensordot(x.astype(np.float64), p["input"], 1) + p["b"]
    return of(p, state, x, wanted=gru_next(gates, state, p["state"], p["c"]), slack=10)


@case("nn.gru")
def _(d: Drawn) -> Comparison:
    t, n, c, h = d.size(), d.size(), d.size(), d.size()
    p, x, start = gru_weights(d, c, h), d.real(t, n, c), d.real(n, h)
    state, states = start, np.zeros((t, n, h))
    for i in range(t):
        gates = np.tensordot(x[i].astype(np.float64), p["input"], 1) + p["b"]
        states[i] = state = gru_next(gates, state, p["state"], p["c"])
    return of(p, start, x, wanted=(states, state), slack=100)
