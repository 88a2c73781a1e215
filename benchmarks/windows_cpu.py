"""Windows, stencils, reductions and elementary functions on the processor against NumPy, SciPy and PyTorch eager.

python benchmarks/windows_cpu.py                 every case
python benchmarks/windows_cpu.py conv stencil    those whose class or name contains one of the words
python benchmarks/windows_cpu.py --draw 40 7     so many convolutions of random sizes, from this seed
python benchmarks/windows_cpu.py --alone …       the least processor time of one thread, sides in turn: where others compute, too

Each case has a peer in NumPy or SciPy, in PyTorch, or both, written as a user would; the ratio is the best peer's time over Axon's:
above 1, Axon is faster. A figure is the median of as many rounds as fit into a quarter of a second for each side, 5 at least, one
side after the other, since threads of NumPy's and PyTorch's that wait for work spin beside those of the next for a tenth of a
second; what is short is computed several times in a round, for two milliseconds.

All sides may use all processors. Results are compared with each other in the element type's precision.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.ndimage as ndimage
import scipy.special as special
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits

import axon

SECONDS = 0.25
PAUSE = 0.15
SOURCE = (Path(__file__).parent / "windows_cpu.axon").read_text()
Array = Any


class Case(NamedTuple):
    """`call` is Axon's; the others compute the same of arrays or of tensors."""

    kind: str
    name: str
    call: Callable[..., Any]
    arrays: tuple[Array, ...]
    numpy: Callable[..., Any] | None
    torch: Callable[..., Any] | None


_rng = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return _rng.standard_normal(shape).astype(dtype)


# ── convolutions ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Form(NamedTuple):
    """x of `size` pixels and `into` channels, `out` filters of `window`."""

    rank: int
    batch: int
    into: int
    out: int
    size: tuple[int, ...]
    window: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    last: bool = False
    dtype: str = "float32"

    def __str__(self) -> str:
        size, window = ("x".join(map(str, t)) for t in (self.size, self.window))
        extra = "".join(
            f" {n}{v}"
            for n, v, d in (("s", self.stride, 1), ("p", self.padding, 0), ("d", self.dilation, 1), ("g", self.groups, 1))
            if v != d
        )
        marks = (
            (" transposed" if self.transposed else "")
            + (" last" if self.last else "")
            + (" f64" if self.dtype == "float64" else "")
        )
        return f"{self.batch}x{self.into}x{size}, {self.out} of {window}{extra}{marks}"

    @property
    def flops(self) -> int:
        places = (
            self.size
            if self.transposed
            else [
                (n + 2 * self.padding - self.dilation * (r - 1) - 1) // self.stride + 1
                for n, r in zip(self.size, self.window, strict=True)
            ]
        )
        return 2 * self.batch * self.into // self.groups * self.out * math.prod(self.window) * math.prod(places)


FORMS = [
    Form(2, 1, 64, 64, (56, 56), (3, 3)),
    Form(2, 8, 64, 64, (56, 56), (3, 3)),
    Form(2, 1, 64, 64, (56, 56), (3, 3), padding=1),
    Form(2, 8, 128, 128, (28, 28), (3, 3), padding=1),
    Form(2, 1, 256, 256, (14, 14), (3, 3), padding=1),
    Form(2, 8, 512, 512, (7, 7), (3, 3), padding=1),
    Form(2, 1, 3, 64, (224, 224), (7, 7), stride=2, padding=3),
    Form(2, 8, 3, 32, (64, 64), (3, 3), padding=1),
    Form(2, 1, 1, 1, (1024, 1024), (7, 7), padding=3),
    Form(2, 8, 1, 8, (28, 28), (5, 5)),
    Form(2, 1, 64, 256, (56, 56), (1, 1)),
    Form(2, 8, 256, 64, (28, 28), (1, 1), stride=2),
    Form(2, 1, 64, 128, (56, 56), (3, 3), stride=2, padding=1),
    Form(2, 8, 32, 32, (40, 40), (3, 3), padding=2, dilation=2),
    Form(2, 1, 64, 64, (56, 56), (3, 3), padding=1, groups=64),
    Form(2, 8, 96, 96, (28, 28), (7, 7), padding=3, groups=96),
    Form(2, 8, 64, 64, (28, 28), (3, 3), padding=1, groups=4),
    Form(2, 1, 128, 128, (56, 56), (3, 3), stride=2, padding=1, groups=128),
    Form(1, 8, 64, 64, (1000,), (5,)),
    Form(1, 1, 1, 1, (100_000,), (64,)),
    Form(1, 8, 16, 32, (4000,), (9,), stride=2, padding=4),
    Form(1, 8, 80, 80, (3000,), (3,), padding=4, dilation=4),
    Form(3, 1, 8, 16, (16, 32, 32), (3, 3, 3)),
    Form(3, 2, 16, 16, (8, 28, 28), (3, 3, 3), padding=1),
    Form(2, 1, 32, 32, (28, 28), (4, 4), stride=2, padding=1, transposed=True),
    Form(2, 8, 64, 32, (14, 14), (2, 2), stride=2, transposed=True),
    Form(1, 8, 32, 32, (500,), (3,), padding=1, transposed=True),
    Form(2, 1, 64, 64, (56, 56), (3, 3), last=True),
    Form(2, 8, 32, 64, (32, 32), (3, 3), stride=2, padding=1, last=True),
    Form(2, 8, 3, 16, (64, 64), (5, 5), last=True),
    Form(2, 1, 64, 64, (56, 56), (3, 3), padding=1, dtype="float64"),
    Form(2, 4, 16, 32, (32, 32), (5, 5), dtype="float64"),
    Form(2, 1, 4, 8, (12, 12), (3, 3), padding=1),
    Form(1, 1, 1, 4, (256,), (5,)),
]  # fmt: skip


def drawn(count: int, seed: int) -> list[Form]:
    rng = np.random.default_rng(seed)
    pick = lambda *of: int(rng.choice(of))
    forms = []
    while len(forms) < count:
        rank = pick(1, 2, 2, 2, 3)
        groups = pick(1, 1, 1, 2, 4, 0)
        into, out = pick(1, 3, 8, 16, 24, 64, 100, 128), pick(1, 6, 8, 16, 32, 50, 64, 128)
        if groups == 0:
            groups = into = out = pick(16, 32, 64, 144)
        if into % groups or out % groups:
            continue
        window = (pick(1, 3, 3, 3, 5, 7),) * rank
        last = pick(0, 0, 0, 1) == 1 and rank == 2 and groups == 1
        form = Form(
            rank, pick(1, 2, 8), into, out,
            tuple(pick(*((200, 999, 4000), (14, 28, 31, 56, 100), (8, 12, 20))[rank - 1]) for _ in range(rank)),
            window, stride=pick(1, 1, 1, 2, 3), padding=pick(0, window[0] // 2), dilation=1 if last else pick(1, 1, 1, 2),
            groups=groups, transposed=False, last=last, dtype=str(rng.choice(["float32", "float32", "float64"])),
        )  # fmt: skip
        if 1e6 < form.flops < 2e9 and all(n + 2 * form.padding > form.dilation * (form.window[0] - 1) for n in form.size):
            forms.append(form)
    return forms


def convolution(m: axon.Module, form: Form) -> Case:
    kind = "conv transposed" if form.transposed else "conv last" if form.last else f"conv {form.rank}d"
    dtype = np.dtype(form.dtype)
    x = normal(form.batch, form.into, *form.size, dtype=dtype)
    inner = (form.into, form.out // form.groups) if form.transposed else (form.out, form.into // form.groups)
    k = (normal(*inner, *form.window) / math.sqrt(form.into // form.groups * math.prod(form.window))).astype(dtype)
    how: dict[str, int] = {"stride": form.stride, "padding": form.padding, "dilation": form.dilation, "groups": form.groups}
    t = getattr(F, f"conv{'_transpose' if form.transposed else ''}{form.rank}d")
    compute = lambda x, k: t(x, k, **how)
    if form.last:
        x, k = (np.ascontiguousarray(np.moveaxis(a, s, -1)) for a, s in ((x, 1), (k, 1)))
        k = np.ascontiguousarray(np.moveaxis(k, 0, -1))
        inside = lambda x, k: t(x.movedim(-1, 1), k.permute(3, 2, 0, 1), **how).movedim(1, -1)
        return Case(kind, str(form), lambda x, k: m.conv_last[form.stride, form.padding](x, k, target="cpu"), (x, k), None, inside)
    sizes = how | ({"extra": 0} if form.transposed else {})
    function = m[f"conv{form.rank}{'t' if form.transposed else ''}"][tuple(sizes.values())]
    own = np_conv2d if form.rank == 2 and form.groups == 1 and not form.transposed else None
    by_numpy = None if own is None else (lambda x, k: own(x, k, form))
    return Case(kind, str(form), lambda x, k: function(x, k, target="cpu"), (x, k), by_numpy, compute)


def np_conv2d(x: Array, k: Array, form: Form) -> Array:
    """A product with the matrix of windows, as one writes it in NumPy."""
    if form.padding:
        x = np.pad(x, ((0, 0), (0, 0), *((form.padding, form.padding),) * 2))
    r, s = ((n - 1) * form.dilation + 1 for n in form.window)
    windows = np.lib.stride_tricks.sliding_window_view(x, (r, s), axis=(2, 3))
    windows = windows[:, :, :: form.stride, :: form.stride, :: form.dilation, :: form.dilation]
    n, c, p, q, r, s = windows.shape
    columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * r * s, p * q)
    return (k.reshape(len(k), -1) @ columns).reshape(n, len(k), p, q)


# ── stencils and other windows ──────────────────────────────────────────────────────────────────────────────────────────


def np_five(x: Array) -> Array:
    p = np.pad(x, 1)
    return x.dtype.type(0.5) * x + x.dtype.type(0.125) * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])


def t_five(x: Array) -> Array:
    p = F.pad(x, (1, 1, 1, 1))
    return 0.5 * x + 0.125 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])


def np_inside(x: Array) -> Array:
    return (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * x.dtype.type(0.25)


def np_seven(x: Array) -> Array:
    p = np.pad(x, 1)
    total = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
    return total - 6 * x


def t_seven(x: Array) -> Array:
    p = F.pad(x, (1,) * 6)
    total = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
    return total - 6 * x


def np_life(x: Array) -> Array:
    n = sum(np.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
    return ((n == 3) | ((n == 2) & (x == 1))).astype(x.dtype)


def t_life(x: Array) -> Array:
    n = sum(torch.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
    return ((n == 3) | ((n == 2) & (x == 1))).to(x.dtype)


def np_waves(x: Array) -> Array:
    return x + x.dtype.type(0.1) * (np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1) - 4 * x)


def t_waves(x: Array) -> Array:
    return x + 0.1 * (torch.roll(x, 1, 0) + torch.roll(x, -1, 0) + torch.roll(x, 1, 1) + torch.roll(x, -1, 1) - 4 * x)


def _bilateral(p: Array, x: Array, exp: Callable[[Array], Array]) -> Array:
    h, w = x.shape
    total = weight = 0
    for a in range(5):
        for b in range(5):
            v = p[a : a + h, b : b + w]
            k = exp(-((v - x) ** 2) * 50.0 - ((a - 2) ** 2 + (b - 2) ** 2) * 0.125)
            total, weight = total + k * v, weight + k
    return total / weight


def np_bilateral(x: Array) -> Array:
    return _bilateral(np.pad(x, 2, mode="edge"), x, np.exp)


def t_bilateral(x: Array) -> Array:
    return _bilateral(F.pad(x[None, None], (2, 2, 2, 2), mode="replicate")[0, 0], x, torch.exp)


def np_median(x: Array) -> Array:
    return ndimage.median_filter(x, 3, mode="nearest")


def t_median(x: Array) -> Array:
    p = F.pad(x[None, None], (1, 1, 1, 1), mode="replicate")
    return F.unfold(p, 3).median(1).values.reshape(x.shape)


def t_erode(x: Array) -> Array:
    return -F.max_pool2d(-x[None], 5, 1, 2)[0]


def windows(m: axon.Module) -> list[Case]:
    big, small = normal(2000, 2000), normal(64, 64)
    image = normal(512, 512)
    life = (_rng.random((1000, 1000)) < 0.3).astype(np.int32)
    cube = normal(128, 128, 128)
    act = normal(8, 64, 56, 56)
    on = lambda name, *sizes: lambda *a: (m[name][sizes] if sizes else m[name])(*a, target="cpu")
    cases = [
        Case("stencil", "five points 2000²", on("five"), (big,), np_five, t_five),
        Case("stencil", "five points 64²", on("five"), (small,), np_five, t_five),
        Case("stencil", "five points f64 1000²", on("five"), (normal(1000, 1000, dtype=np.float64),), np_five, t_five),
        Case("stencil", "inside 2000²", on("inside"), (big,), np_inside,
             lambda x: (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.25),
        Case("stencil", "seven points 128³", on("seven"), (cube,), np_seven, t_seven),
        Case("stencil", "blur 5x5 edges 1000²", on("blur"), (normal(1000, 1000), np.full((5, 5), 0.04, np.float32)),
             lambda x, k: ndimage.correlate(x, k, mode="nearest"),
             lambda x, k: F.conv2d(F.pad(x[None, None], (2, 2, 2, 2), mode="replicate"), k[None, None])[0, 0]),
        Case("torus", "life 1000²", on("life"), (life,), np_life, t_life),
        Case("torus", "life 64²", on("life"), (life[:64, :64].copy(),), np_life, t_life),
        Case("torus", "life u8 1000²", on("life8"), (life.astype(np.uint8),), np_life, t_life),
        Case("torus", "waves 2000²", on("waves"), (big,), np_waves, t_waves),
        Case("torus", "roll by half 2000²", on("roll"), (big,), lambda x: np.roll(x, (1000, 1000), (0, 1)),
             lambda x: torch.roll(x, (1000, 1000), (0, 1))),
        Case("clamp", "bilateral 512²", on("bilateral"), (image,), np_bilateral, t_bilateral),
        Case("clamp", "median 3x3 512²", on("median"), (image,), np_median, t_median),
        Case("clamp", "erosion 5x5 512²", on("erode"), (image,), lambda x: ndimage.minimum_filter(x, 5, mode="nearest"), None),
        Case("clamp", "dilation 3x3 64²", on("dilate"), (small,), lambda x: ndimage.maximum_filter(x, 3, mode="nearest"), None),
        Case("clamp", "gradients 1000²", on("gradients"), (normal(1000, 1000),), lambda x: np_slope(x, np),
             lambda x: np_slope(x, torch)),
        Case("pool", "max 2x2", on("pool_max", 2), (act,), None, lambda x: F.max_pool2d(x, 2)),
        Case("pool", "mean 2x2", on("pool_mean", 2), (act,), None, lambda x: F.avg_pool2d(x, 2)),
        Case("pool", "max 3 s2 p1", on("pool_max_with", 3, 2, 1), (act,), None, lambda x: F.max_pool2d(x, 3, 2, 1)),
        Case("pool", "mean 3 s1 p1", on("pool_mean_with", 3, 1, 1), (act,), None, lambda x: F.avg_pool2d(x, 3, 1, 1)),
        Case("pool", "max 5 s1 p2", on("pool_max_with", 5, 1, 2), (act,), None, lambda x: F.max_pool2d(x, 5, 1, 2)),
        Case("pool", "max 1d 4", on("pool1", 4, 4, 0), (normal(16, 64, 4000),), None, lambda x: F.max_pool1d(x, 4)),
        Case("pool", "max 1d 3 s2 p1", on("pool1", 3, 2, 1), (normal(16, 64, 4000),), None, lambda x: F.max_pool1d(x, 3, 2, 1)),
        Case("pool", "max 1d 8 f64", on("pool1", 8, 8, 0), (normal(16, 64, 2000, dtype=np.float64),), None,
             lambda x: F.max_pool1d(x, 8)),
        Case("pool", "max 3d 2", on("pool3", 2, 2, 0), (normal(2, 16, 16, 56, 56),), None, lambda x: F.max_pool3d(x, 2)),
        Case("pool", "max 2x2 last", on("pool_last"), (normal(8, 56, 56, 64),),
             lambda x: x.reshape(8, 28, 2, 28, 2, 64).max((2, 4)), None),
        Case("pool", "mean of pixels", on("pool_all"), (normal(8, 256, 14, 14),), lambda x: x.mean((2, 3)),
             lambda x: x.mean((2, 3))),
    ]  # fmt: skip
    return cases


def np_slope(x: Array, np: Any) -> Array:
    right = np.concatenate([x[:, 1:], x[:, -1:]], 1) - np.concatenate([x[:, :1], x[:, :-1]], 1)
    down = np.concatenate([x[1:], x[-1:]], 0) - np.concatenate([x[:1], x[:-1]], 0)
    return right * right + down * down


# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def reductions(m: axon.Module) -> list[Case]:
    on = lambda name: lambda *a: m[name](*a, target="cpu")
    square, wide, tall, small = normal(4096, 4096), normal(8, 400_000), normal(400_000, 8), normal(100, 30)
    images = normal(16, 64, 56, 56)
    softmax = lambda x: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(x - x.max(-1, keepdims=True)))
    norm = lambda x: (x - x.mean((1, 2, 3), keepdims=True)) / np.sqrt(x.var((1, 2, 3), keepdims=True) + np.float32(1e-5))
    cases = []
    for name, x in (("4096²", square), ("8x400000", wide), ("400000x8", tall), ("100x30", small)):
        cases += [
            Case("sum", f"rows {name}", on("row_sums"), (x,), lambda x: x.sum(1), lambda x: x.sum(1)),
            Case("sum", f"columns {name}", on("column_sums"), (x,), lambda x: x.sum(0), lambda x: x.sum(0)),
            Case("argmax", f"rows {name}", on("row_best"), (x,), lambda x: x.argmax(1), lambda x: x.argmax(1)),
            Case("argmax", f"columns {name}", on("column_best"), (x,), lambda x: x.argmax(0), lambda x: x.argmax(0)),
            Case("extreme", f"max of rows {name}", on("row_max"), (x,), lambda x: x.max(1), lambda x: x.amax(1)),
            Case("extreme", f"max of columns {name}", on("column_max"), (x,), lambda x: x.max(0), lambda x: x.amax(0)),
        ]
    return [
        *cases,
        Case("argmax", "all 4096²", on("best"), (square.ravel(),), lambda x: x.argmax(), lambda x: x.argmax()),
        Case("argmax", "rows f64 1000²", on("row_best"), (normal(1000, 1000, dtype=np.float64),), lambda x: x.argmax(1),
             lambda x: x.argmax(1)),
        Case("argmax", "rows i32 1000²", on("row_best"), (_rng.integers(0, 10**6, (1000, 1000)).astype(np.int32),),
             lambda x: x.argmax(1), lambda x: x.argmax(1)),
        Case("sum", "all 4096²", on("total"), (square.ravel(),), lambda x: x.sum(), lambda x: x.sum()),
        Case("sum", "columns f64 2000²", on("column_sums"), (normal(2000, 2000, dtype=np.float64),), lambda x: x.sum(0),
             lambda x: x.sum(0)),
        Case("sum", "axes 0 2 3", on("channel_sums"), (images,), lambda x: x.sum((0, 2, 3)), lambda x: x.sum((0, 2, 3))),
        Case("sum", "axis 1 of 4", on("sum_1"), (images,), lambda x: x.sum(1), lambda x: x.sum(1)),
        Case("sum", "axes 1 2 of 3", on("sum_12"), (normal(64, 500, 100),), lambda x: x.sum((1, 2)), lambda x: x.sum((1, 2))),
        Case("sum", "norm of rows 4096²", on("norms"), (square,), lambda x: np.sqrt((x * x).sum(1)),
             lambda x: torch.linalg.vector_norm(x, dim=1)),
        Case("sum", "variance of rows 4096²", on("variances"), (square,), lambda x: x.var(1), lambda x: x.var(1, correction=0)),
        Case("norm", "layer norm over c h w", on("norm_all"), (images,), norm, lambda x: F.layer_norm(x, x.shape[1:])),
        Case("norm", "batch norm in training", on("norm_batch"), (images,), None,
             lambda x: F.batch_norm(x, None, None, training=True)),
        Case("norm", "group norm, 8", on("norm_group"), (images,), None, lambda x: F.group_norm(x, 8)),
        Case("softmax", "rows 8x400000", on("softmax"), (wide,), softmax, lambda x: torch.softmax(x, -1)),
        Case("softmax", "rows 100x30", on("softmax"), (small,), softmax, lambda x: torch.softmax(x, -1)),
        Case("softmax", "columns 2000²", on("softmax_0"), (normal(2000, 2000),), lambda x: softmax(x.T).T,
             lambda x: torch.softmax(x, 0)),
        Case("scan", "sums of rows 1000x4000", on("running"), (normal(1000, 4000),), lambda x: x.cumsum(1), lambda x: x.cumsum(1)),
        Case("scan", "sums of columns 4000x1000", on("running_0"), (normal(4000, 1000),), lambda x: x.cumsum(0),
             lambda x: x.cumsum(0)),
        Case("scan", "sums 4000000", on("running_1"), (normal(4_000_000),), lambda x: x.cumsum(), lambda x: x.cumsum(0)),
        Case("scan", "maxima of rows 1000x4000", on("running_max"), (normal(1000, 4000),),
             lambda x: np.maximum.accumulate(x, 1), lambda x: x.cummax(1).values),
        Case("sort", "1000000", on("sorted"), (normal(1_000_000),), np.sort, lambda x: x.sort().values),
        Case("sort", "rows 1000²", on("sorted_rows"), (normal(1000, 1000),), np.sort, lambda x: x.sort().values),
        Case("sort", "100", on("sorted"), (normal(100),), np.sort, lambda x: x.sort().values),
        Case("sort", "places 1000000", on("order"), (normal(1_000_000),), lambda x: x.argsort(kind="stable"),
             lambda x: x.argsort(stable=True)),
    ]  # fmt: skip


# ── elementary functions ────────────────────────────────────────────────────────────────────────────────────────────────

_TORCH = {
    "erf": torch.special.erf,
    "erfc": torch.special.erfc,
    "erfinv": torch.special.erfinv,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
}
_SCIPY = {"erf": special.erf, "erfc": special.erfc, "erfinv": special.erfinv, "lgamma": special.gammaln, "digamma": special.digamma}
_NAMES = {
    "pow": "power",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
FUNCTIONS = (
    "exp", "log", "sin", "cos", "tanh", "erf", "sqrt", "pow", "atan2", "tan", "expm1", "log1p", "cbrt", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "erfinv", "lgamma", "digamma",
)  # fmt: skip


def functions(m: axon.Module) -> list[Case]:
    cases = []
    for dtype in (np.float32, np.float64):
        for name in FUNCTIONS:
            x = _rng.random(1_000_000).astype(dtype)
            x = (
                1 + 20 * x
                if name in ("acosh", "lgamma", "digamma", "pow", "log", "log1p", "sqrt")
                else 1.9 * x - 0.95
                if name in ("atanh", "asin", "acos", "erfinv")
                else 20 * x - 10
            )
            arrays = (
                (x.astype(dtype),)
                if name not in ("pow", "atan2")
                else (x.astype(dtype), (3 * _rng.random(1_000_000)).astype(dtype))
            )
            by_numpy = _SCIPY.get(name) or getattr(np, _NAMES.get(name, name))
            by_torch = _TORCH.get(name) or getattr(torch, name, None)
            kind = "f64" if dtype is np.float64 else "f32"
            cases.append(
                Case(
                    f"function {kind}",
                    f"{name} {kind}",
                    (lambda f: lambda *a: f(*a, target="cpu"))(m[f"f_{name}"]),
                    arrays,
                    by_numpy,
                    by_torch,
                )
            )
    return cases


# ── measuring ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure(case: Case, alone: bool) -> dict[str, float]:
    """Median milliseconds of each side, one after the other; `alone` the least processor time, each side in turn."""
    sides: dict[str, Callable[[], Any]] = {"axon": lambda: case.call(*case.arrays)}
    if case.numpy is not None:
        by_numpy = case.numpy
        sides["numpy"] = lambda: by_numpy(*case.arrays)
    if case.torch is not None:
        by_torch, tensors = case.torch, [torch.from_numpy(a) for a in case.arrays]
        sides["torch"] = lambda: by_torch(*tensors)
    results = {name: np.asarray(side()) for name, side in sides.items()}
    for name, result in results.items():
        if result.dtype.kind == "f":
            tolerance = {"rtol": 2e-3, "atol": 2e-4} if result.dtype == np.float32 else {"rtol": 1e-8, "atol": 1e-9}
            np.testing.assert_allclose(results["axon"], result, err_msg=f"{case.name} {name}", **tolerance)
        else:
            np.testing.assert_array_equal(results["axon"], result)
    often = {}
    found: dict[str, list[float]] = {name: [] for name in sides}

    clock = time.thread_time if alone else time.perf_counter  # of one thread: not what others take of the processor meanwhile

    def once(name: str, count: int) -> float:
        side = sides[name]
        before = clock()
        for _ in range(count):
            side()
        return (clock() - before) / count

    for name in sides:
        if not alone:
            time.sleep(PAUSE)  # threads of another side still wait for work, and spin
        once(name, 1)
        often[name] = max(1, int((1e-3 if alone else 2e-3) / min(once(name, 1) for _ in range(3))))
        start = time.perf_counter()
        while not alone and (len(found[name]) < 5 or time.perf_counter() - start < SECONDS) and len(found[name]) < 40:
            found[name].append(once(name, often[name]))
    start = time.perf_counter()
    while alone and (len(found["axon"]) < 20 or time.perf_counter() - start < 3 * SECONDS) and len(found["axon"]) < 100:
        for name in sides:
            found[name].append(once(name, often[name]))
    return {name: 1e3 * (min(times) if alone else statistics.median(times)) for name, times in found.items()}


def main() -> int:
    words = sys.argv[1:]
    alone = words[:1] == ["--alone"]
    if alone:
        words = words[1:]
        os.environ["AXON_THREADS"] = "1"
        torch.set_num_threads(1)
        threadpool_limits(1)
    m = axon.compile(SOURCE)
    if words[:1] == ["--draw"]:
        cases = [convolution(m, form) for form in drawn(int(words[1]), int(words[2]))]
    else:
        cases = [*(convolution(m, form) for form in FORMS), *windows(m), *reductions(m), *functions(m)]
        cases = [c for c in cases if not words or any(word in f"{c.kind} | {c.name}" for word in words)]
    print(f"| {'class':15} | {'case':48} | {'axon':>9} | {'numpy':>9} | {'torch':>9} | {'ratio':>6} |\n|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {}
    for case in cases:
        try:
            times = measure(case, alone)
        except Exception as error:
            print(f"{case.kind} {case.name}: {type(error).__name__} {str(error)[:1500]}", flush=True)
            continue
        ratio = min(t for name, t in times.items() if name != "axon") / times["axon"]
        ratios.setdefault(case.kind, []).append(ratio)
        numpy, by_torch = (f"{times[name]:9.3f}" if name in times else f"{'-':>9}" for name in ("numpy", "torch"))
        print(f"| {case.kind:15} | {case.name:48} | {times['axon']:9.3f} | {numpy} | {by_torch} | {ratio:6.2f} |", flush=True)
    print()
    for kind, found in ratios.items():
        print(f"{kind:16} {len(found):3} cases, geometric mean {statistics.geometric_mean(found):5.2f}, least {min(found):5.2f}")
    print("load", ", ".join(f"{x:.1f}" for x in os.getloadavg()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
