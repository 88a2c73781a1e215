"""`tensor` against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.library.library_case import Array, Comparison, Drawn, case, of


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


@case("tensor.pad_symmetric")
def _(d: Drawn) -> Comparison:
    n = d.size(0)
    x, ends = d.real(*d.shape(2), n), (d.size(0, n), d.size(0, n))
    if not n:
        return of(x, wanted=x, sizes=ends, slack=0)
    return of(x, wanted=np.pad(x, [(0, 0)] * (x.ndim - 1) + [ends], mode="symmetric"), sizes=ends, slack=0)


@case("tensor.pad_wrap")
def _(d: Drawn) -> Comparison:
    x, ends = d.real(*d.shape(2), d.size(1)), (d.size(0, 9), d.size(0, 9))
    return of(x, wanted=np.pad(x, [(0, 0)] * (x.ndim - 1) + [ends], mode="wrap"), sizes=ends, slack=0)


def padded_images(name: str, mode: str, most: int) -> None:
    @case(f"tensor.{name}")
    def _(d: Drawn) -> Comparison:
        h, w = d.size(1), d.size(1)
        rows, columns = ((d.size(0, min(n - 1, most)), d.size(0, min(n - 1, most))) for n in (h, w))
        x = d.real(*d.shape(2), h, w)
        wanted = np.pad(x, [(0, 0)] * (x.ndim - 2) + [rows, columns], mode=mode)  # type: ignore[call-overload]
        return of(x, wanted=wanted, sizes=(*rows, *columns), slack=0)


padded_images("pad_images_edge", "edge", 9)
padded_images("pad_images_reflect", "reflect", 9)
padded_images("pad_images_wrap", "wrap", 9)


@case("tensor.pad_volumes")
def _(d: Drawn) -> Comparison:
    x, ends = d.real(*d.shape(1), d.size(), d.size(), d.size()), [(d.size(0, 2), d.size(0, 2)) for _ in range(3)]
    wanted = np.pad(x, [(0, 0)] * (x.ndim - 3) + ends, constant_values=7.5)
    return of(7.5, x, wanted=wanted, sizes=tuple(size for pair in ends for size in pair), slack=0)


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


@case("tensor.identity", "fun f {n} = (tensor.identity {n} : i64[n, n])")
def _(d: Drawn) -> Comparison:
    n = d.size()
    return of(wanted=np.eye(n, dtype=np.int64), sizes=(n,))


@case("tensor.full_like")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(7, x, wanted=np.full(x.shape, 7, np.int32))


@case("tensor.zeros_like")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(x, wanted=np.zeros_like(x), slack=0)


@case("tensor.ones_like")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(x, wanted=np.ones_like(x), slack=0)


@case("tensor.meshgrid")
def _(d: Drawn) -> Comparison:
    x, y = d.real(d.size()), d.integers(d.size())
    across, down = np.meshgrid(x, y)
    return of(x, y, wanted={"x": across, "y": down}, slack=0)


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


@case("tensor.take_first")
def _(d: Drawn) -> Comparison:
    n, rest = d.size(1), d.shape(2)
    x, places = d.real(n, *rest), d.integers(d.size(), *rest, high=n)
    return of(x, places, wanted=np.take_along_axis(x, places.astype(int), 0), slack=0)


@case("tensor.sum_by")
def _(d: Drawn) -> Comparison:
    n, m = d.size(), d.size(0, 9)
    places, x = d.integers(m, low=-1, high=6), d.real(m, *d.shape(2))
    wanted = np.zeros((n, *x.shape[1:]))
    for place, row in zip(places, x, strict=True):
        if 0 <= place < n:
            wanted[place] += row
    return of(places, x, wanted=wanted, sizes=(n,))


@case("tensor.first_to_last")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), *d.shape())
    return of(x, wanted=np.moveaxis(x, 0, -1), slack=0)


@case("tensor.last_to_first")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), d.size())
    return of(x, wanted=np.moveaxis(x, -1, 0), slack=0)


@case("tensor.along_first", "fun f x = tensor.along_first (tensor.pad {1, 0} 7.0) x")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), *d.shape(2))
    return of(x, wanted=np.pad(x, [(1, 0)] + [(0, 0)] * (x.ndim - 1), constant_values=7), slack=0)


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


# ── reductions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def reduction(name: str, wanted: Any, kind: str = "floats", least: int = 0) -> None:
    """Over the last dimension, the first, and all of them; `least` is how many elements there must be."""

    def drawn(d: Drawn, *shape: int) -> Array:
        if kind == "bools":
            return d.integers(*shape, high=2).astype(bool)
        return with_nan(d, *shape) if kind == "nan" else d.few(*shape)

    def over(x: Array, axis: int | None) -> Array:
        found = np.asarray(wanted(x, axis))
        return found.astype(np.int32) if found.dtype == np.int64 else found

    @case(f"tensor.{name}")
    def _(d: Drawn) -> Comparison:
        x = drawn(d, *d.shape(2), d.size(least))
        return of(x, wanted=over(x, -1))

    @case(f"tensor.{name}_first")
    def _(d: Drawn) -> Comparison:
        x = drawn(d, d.size(least), *d.shape(2))
        return of(x, wanted=over(x, 0))

    if not name.startswith("arg"):

        @case(f"tensor.{name}_all")
        def _(d: Drawn) -> Comparison:
            x = drawn(d, *(d.size(least, 4) for _ in range(d.size(0, 3))))
            return of(x, wanted=over(x, None))


reduction("sum", np.sum)
reduction("prod", np.prod)
reduction("any", np.any, "bools")
reduction("all", np.all, "bools")
reduction("max", np.max, "nan", least=1)
reduction("min", np.min, "nan", least=1)
reduction("argmax", np.argmax, "nan", least=1)
reduction("argmin", np.argmin, "nan", least=1)
