"""`tensor` against NumPy."""

from __future__ import annotations

import numpy as np

from tests.library.library_case import Comparison, Drawn, case, of


@case("tensor.concat")
def _(d: Drawn) -> Comparison:
    batch = d.shape(2)
    a, b = d.real(*batch, d.size()), d.real(*batch, d.size())
    return of(a, b, wanted=np.concatenate([a, b], -1), slack=0)


@case("tensor.concat_first")
def _(d: Drawn) -> Comparison:
    rest = d.shape(2)
    a, b = d.real(d.size(), *rest), d.real(d.size(), *rest)
    return of(a, b, wanted=np.concatenate([a, b]), slack=0)


@case("tensor.stack")
def _(d: Drawn) -> Comparison:
    shape = d.shape()
    a, b = d.integers(*shape), d.integers(*shape)
    return of(a, b, wanted=np.stack([a, b]))


@case("tensor.stack_last")
def _(d: Drawn) -> Comparison:
    shape = d.shape()
    a, b = d.real(*shape), d.real(*shape)
    return of(a, b, wanted=np.stack([a, b], -1), slack=0)


@case("tensor.pad")
def _(d: Drawn) -> Comparison:
    x, ends = d.real(*d.shape(2), d.size()), (d.size(), d.size())
    return of(7.5, x, wanted=np.pad(x, [(0, 0)] * (x.ndim - 1) + [ends], constant_values=7.5), sizes=ends, slack=0)


@case("tensor.pad_images")
def _(d: Drawn) -> Comparison:
    x, rows, columns = d.real(*d.shape(2), d.size(), d.size()), (d.size(), d.size()), (d.size(), d.size())
    wanted = np.pad(x, [(0, 0)] * (x.ndim - 2) + [rows, columns], constant_values=-np.inf)
    return of(-np.inf, x, wanted=wanted, sizes=(*rows, *columns), slack=0)


@case("tensor.pad_edge")
def _(d: Drawn) -> Comparison:
    x, ends = d.real(*d.shape(2), d.size(1)), (d.size(), d.size())
    return of(x, wanted=np.pad(x, [(0, 0)] * (x.ndim - 1) + [ends], mode="edge"), sizes=ends, slack=0)


@case("tensor.pad_reflect")
def _(d: Drawn) -> Comparison:
    n = d.size(1)
    x, ends = d.real(*d.shape(2), n), (d.size(0, n - 1), d.size(0, n - 1))
    return of(x, wanted=np.pad(x, [(0, 0)] * (x.ndim - 1) + [ends], mode="reflect"), sizes=ends, slack=0)


@case("tensor.roll")
def _(d: Drawn) -> Comparison:
    x, shift = d.integers(*d.shape(2), d.size()), d.size(-9, 9)
    return of(shift, x, wanted=np.roll(x, shift, -1))


@case("tensor.flip")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(2), d.size())
    return of(x, wanted=np.flip(x, -1), slack=0)


@case("tensor.flip_first")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), *d.shape(2))
    return of(x, wanted=np.flip(x, 0), slack=0)


@case("tensor.tile")
def _(d: Drawn) -> Comparison:
    x, times = d.real(*d.shape(2), d.size()), d.size(0, 3)
    return of(x, wanted=np.tile(x, times), sizes=(times,), slack=0)


@case("tensor.repeat")
def _(d: Drawn) -> Comparison:
    x, times = d.real(*d.shape(2), d.size()), d.size(0, 3)
    return of(x, wanted=np.repeat(x, times, -1), sizes=(times,), slack=0)


@case("tensor.linspace")
def _(d: Drawn) -> Comparison:
    low, high, n = d.element(d.rng.normal()), d.element(d.rng.normal()), d.size(0, 20)
    return of(low, high, wanted=np.linspace(low, high, n), sizes=(n,))


@case("tensor.arange")
def _(d: Drawn) -> Comparison:
    n = d.size()
    return of(wanted=np.arange(n, dtype=np.int32), sizes=(n,))


@case("tensor.clip")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(-0.5, 0.25, x, wanted=np.clip(x, -0.5, 0.25), slack=0)


@case("tensor.select")
def _(d: Drawn) -> Comparison:
    shape = d.shape()
    mask, a, b = d.integers(*shape) > 1, d.real(*shape), d.real(*shape)
    return of(mask, a, b, wanted=np.where(mask, a, b), slack=0)


@case("tensor.take")
def _(d: Drawn) -> Comparison:
    batch, n = d.shape(2), d.size(1)
    x, places = d.real(*batch, n), d.integers(*batch, d.size(), high=n)
    return of(x, places, wanted=np.take_along_axis(x, places.astype(int), -1), slack=0)


@case("tensor.differences")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(2), d.size(1))
    return of(x, wanted=np.diff(x))


@case("tensor.sort")
def _(d: Drawn) -> Comparison:
    x = with_nan(d, *d.shape(2), d.size(0, 9))
    return of(x, wanted=np.sort(x, -1), slack=0)


@case("tensor.argsort")
def _(d: Drawn) -> Comparison:
    x = with_nan(d, *d.shape(2), d.size(0, 9))
    return of(x, wanted=np.argsort(x, -1, kind="stable").astype(np.int32))


def with_nan(d: Drawn, *shape: int) -> np.ndarray:
    x = d.few(*shape)
    x[d.rng.random(shape) < 0.2] = np.nan
    return x


def descending(x: np.ndarray) -> np.ndarray:
    """Stable, NaN first, by sorting Python's lists."""
    rows = x.reshape(-1, x.shape[-1]) if x.size else x.reshape(0, x.shape[-1])
    found = [sorted(range(len(row)), key=lambda i, row=row: (not np.isnan(row[i]), -row[i])) for row in rows]
    return np.array(found, np.int32).reshape(x.shape)


@case("tensor.argsort_descending")
def _(d: Drawn) -> Comparison:
    x = with_nan(d, *d.shape(2), d.size(0, 9))
    return of(x, wanted=descending(x))


@case("tensor.sort_descending")
def _(d: Drawn) -> Comparison:
    x = with_nan(d, *d.shape(2), d.size(0, 9))
    return of(x, wanted=np.take_along_axis(x, descending(x).astype(int), -1), slack=0)


@case("tensor.top")
def _(d: Drawn) -> Comparison:
    n = d.size(0, 9)
    x, k = with_nan(d, *d.shape(2), n), d.size(0, n)
    places = descending(x)[..., :k]
    return of(x, wanted={"values": np.take_along_axis(x, places.astype(int), -1), "places": places}, sizes=(k,), slack=0)


@case("tensor.search_sorted")
def _(d: Drawn) -> Comparison:
    x, values = np.sort(with_nan(d, d.size(0, 40))), with_nan(d, *d.shape(2))
    return of(x, values, wanted=np.searchsorted(x, values).astype(np.int32))


@case("tensor.unique")
def _(d: Drawn) -> Comparison:
    x = with_nan(d, d.size(0, 12))
    return of(x, wanted=np.unique(x), slack=0)
