"""`quant` against NumPy, which divides and rounds likewise, so that codes are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.library.library_case import ELSEWHERE, Array, Comparison, Drawn, case, of

ELSEWHERE |= dict.fromkeys(("quant.stochastic", "quant.stochastic_float"), "test_quant.py")


def rows_of(d: Drawn) -> Array:
    """Rows of numbers of several magnitudes, some of them zero."""
    x = d.real(*d.shape(2), d.size(0, 9)) * 10.0 ** d.integers(low=-3, high=4)
    return np.asarray(np.where(d.rng.random(x.shape) < 0.3, 0, x), d.element)


def blocks(x: Array, size: int) -> Array:
    """[..., n] as [..., ceil(n / size), size], filled with zeros."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % size)])
    return padded.reshape(*x.shape[:-1], padded.shape[-1] // size, size)


def spread(s: Array, size: int, n: int) -> Array:
    """What belongs to blocks, for each of n elements."""
    return np.repeat(s, size, -1)[..., :n]


def scales(x: Array, limit: Any, axis: int | None = -1) -> Array:
    found = np.abs(x).max(axis, initial=0) / x.dtype.type(limit)
    return np.asarray(np.where(found > 0, found, 1), x.dtype)


def affine(low: Array, high: Array, limit: float) -> tuple[Array, Array]:
    least, most = np.minimum(low, 0), np.maximum(high, 0)
    s = (most - least) / low.dtype.type(limit)
    s = np.where(s > 0, s, 1).astype(low.dtype)
    return s, np.rint(-least / s)


@case("quant.scale")
def _(d: Drawn) -> Comparison:
    x = rows_of(d)
    return of(127.0, x, wanted=scales(x, 127.0))


@case("quant.scale_all")
def _(d: Drawn) -> Comparison:
    x = rows_of(d)
    return of(448.0, x, wanted=scales(x, 448.0, None))


@case("quant.scale_blocks")
def _(d: Drawn) -> Comparison:
    x, b = rows_of(d), d.size(1, 4)
    return of(7.0, x, sizes=(b,), wanted=scales(blocks(x, b), 7.0))


@case("quant.nearest", "fun f (x : 'a[..s]) : u8[..s] = for ..i => quant.nearest x[..i]")
def _(d: Drawn) -> Comparison:
    x = np.asarray(d.integers(*d.shape(), low=-20, high=600) / 2, d.element)
    return of(x, wanted=np.clip(np.rint(x), 0, 255).astype(np.uint8))


@case("quant.quantize", "fun f (x : 'a[..s, n]) : (i8[..s, n], 'a[..s]) = quant.quantize quant.nearest 127.0 x")
def _(d: Drawn) -> Comparison:
    x = rows_of(d)
    s = scales(x, 127.0)
    return of(x, wanted=(np.rint(x / s[..., None]).astype(np.int8), s))


@case("quant.quantize_all", "fun f (x : 'a[..s]) : (i8[..s], 'a) = quant.quantize_all quant.nearest 7.0 x")
def _(d: Drawn) -> Comparison:
    x = rows_of(d)
    s = scales(x, 7.0, None)
    return of(x, wanted=(np.rint(x / s).astype(np.int8), s))


@case(
    "quant.quantize_blocks",
    "fun f {b} (x : 'a[..s, n]) : (i8[..s, n], 'a[..s, (n + b - 1) / b]) where b >= 1 = "
    "quant.quantize_blocks {b} quant.nearest 127.0 x",
)
def _(d: Drawn) -> Comparison:
    x, b = rows_of(d), d.size(1, 4)
    s = scales(blocks(x, b), 127.0)
    return of(x, sizes=(b,), wanted=(np.rint(x / spread(s, b, x.shape[-1])).astype(np.int8), s))


def coded(d: Drawn, *shape: int) -> Array:
    return d.rng.integers(-128, 128, shape).astype(np.int8)


def positive(d: Drawn, *shape: int) -> Array:
    return d.uniform(*shape, low=0.01, high=2.0)


@case("quant.dequantize")
def _(d: Drawn) -> Comparison:
    c = coded(d, *d.shape(2), d.size())
    s = positive(d, *c.shape[:-1])
    return of(c, s, wanted=c.astype(d.element) * s[..., None])


@case("quant.dequantize_all")
def _(d: Drawn) -> Comparison:
    c, s = coded(d, *d.shape()), d.element(d.uniform())
    return of(c, s, wanted=c.astype(d.element) * s)


@case("quant.dequantize_blocks")
def _(d: Drawn) -> Comparison:
    c, b = coded(d, *d.shape(2), d.size(0, 9)), d.size(1, 4)
    s = positive(d, *c.shape[:-1], -(-c.shape[-1] // b))
    return of(c, s, sizes=(b,), wanted=c.astype(d.element) * spread(s, b, c.shape[-1]))


@case("quant.affine")
def _(d: Drawn) -> Comparison:
    low, high = sorted((d.real(scale=9.0), d.real(scale=9.0)))
    return of(255.0, low, high, wanted=affine(low, high, 255.0))


@case("quant.affine_code")
def _(d: Drawn) -> Comparison:
    x, s, z = d.real(scale=20.0), d.element(positive(d)), d.element(d.size(0, 15))
    return of(15.0, (s, z), x, wanted=np.clip(np.rint(x / s) + z, 0, 15).astype(np.uint8))


@case("quant.quantize_affine")
def _(d: Drawn) -> Comparison:
    x = rows_of(d)
    s, z = affine(x.min(-1, initial=0), x.max(-1, initial=0), 255.0)
    c = np.clip(np.rint(x / s[..., None]) + z[..., None], 0, 255)
    return of(255.0, x, wanted=(c.astype(np.uint8), s, z.astype(np.uint8)))


@case("quant.quantize_affine_blocks")
def _(d: Drawn) -> Comparison:
    x, b = rows_of(d), d.size(1, 4)
    parts, n = blocks(x, b), x.shape[-1]
    s, z = affine(parts.min(-1), parts.max(-1), 15.0)
    c = np.clip(np.rint(x / spread(s, b, n)) + spread(z, b, n), 0, 15)
    return of(15.0, x, sizes=(b,), wanted=(c.astype(np.uint8), s, z.astype(np.uint8)))


def bytes_of(d: Drawn, *shape: int, below: int = 256) -> Array:
    return d.rng.integers(0, below, shape).astype(np.uint8)


@case("quant.dequantize_affine")
def _(d: Drawn) -> Comparison:
    c = bytes_of(d, *d.shape(2), d.size())
    s, z = positive(d, *c.shape[:-1]), bytes_of(d, *c.shape[:-1])
    return of(c, s, z, wanted=(c.astype(d.element) - z[..., None]) * s[..., None])


@case("quant.dequantize_affine_blocks")
def _(d: Drawn) -> Comparison:
    c, b = bytes_of(d, *d.shape(2), d.size(0, 9)), d.size(1, 4)
    n, shape = c.shape[-1], (*c.shape[:-1], -(-c.shape[-1] // b))
    s, z = positive(d, *shape), bytes_of(d, *shape)
    return of(c, s, z, sizes=(b,), wanted=(c.astype(d.element) - spread(z, b, n)) * spread(s, b, n))


def packed(c: Array) -> Array:
    low = c.view(np.uint8) & 15
    pairs = np.pad(low, [(0, 0)] * (c.ndim - 1) + [(0, c.shape[-1] % 2)])
    return np.asarray(pairs[..., ::2] | pairs[..., 1::2] << 4)


@case("quant.pack")
def _(d: Drawn) -> Comparison:
    c = coded(d, *d.shape(2), d.size(0, 9))
    return of(c, wanted=packed(c))


@case("quant.unpack")
def _(d: Drawn) -> Comparison:
    c = bytes_of(d, *d.shape(2), d.size(0, 9), below=16)
    return of(packed(c), sizes=(c.shape[-1],), wanted=c)


@case("quant.unpack_signed")
def _(d: Drawn) -> Comparison:
    c = np.asarray(d.rng.integers(-8, 8, (*d.shape(2), d.size(0, 9))), np.int8)
    return of(packed(c), sizes=(c.shape[-1],), wanted=c)


@case("quant.linear")
def _(d: Drawn) -> Comparison:
    o, k = d.size(), d.size()
    x, w, s = d.real(*d.shape(2), k), coded(d, o, k), positive(d, o)
    return of(x, w, s, wanted=x.astype(np.float64) @ (w * s[:, None].astype(np.float64)).T, slack=1000)


@case("quant.linear_blocks")
def _(d: Drawn) -> Comparison:
    o, k, b = d.size(), d.size(0, 9), d.size(1, 4)
    x, w, s = d.real(*d.shape(2), k), coded(d, o, k), positive(d, o, -(-k // b))
    return of(x, w, s, sizes=(b,), wanted=x.astype(np.float64) @ (w * spread(s, b, k).astype(np.float64)).T, slack=1000)


@case("quant.linear_packed")
def _(d: Drawn) -> Comparison:
    o, k, b = d.size(), d.size(0, 9), d.size(1, 4)
    x, w, s = d.real(*d.shape(2), k), bytes_of(d, o, k, below=16), positive(d, o, -(-k // b))
    z = bytes_of(d, *s.shape, below=16)
    weights = (w.astype(np.float64) - spread(z, b, k)) * spread(s, b, k)
    return of(x, packed(w), s, z, sizes=(b,), wanted=x.astype(np.float64) @ weights.T, slack=1000)


@case("quant.linear_codes")
def _(d: Drawn) -> Comparison:
    o, k = d.size(), d.size(0, 9)
    x, w = coded(d, *d.shape(2), k), coded(d, o, k)
    of_x, of_w = positive(d, *x.shape[:-1]), positive(d, o)
    sums = x.astype(np.int64) @ w.astype(np.int64).T
    return of(x, of_x, w, of_w, wanted=sums * (of_x[..., None] * of_w), slack=10)


@case("quant.fake")
def _(d: Drawn) -> Comparison:
    x = rows_of(d)
    s = scales(x, 127.0)[..., None]
    return of(127.0, x, wanted=np.rint(x / s) * s, slack=100)
