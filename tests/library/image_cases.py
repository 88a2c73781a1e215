"""`image` against scipy.ndimage, one channel at a time, with loops where that has nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import ndimage

from tests.library.library_case import Array, Comparison, Drawn, case, of


@case("image.planes")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), d.size(), d.size())
    return of(x, wanted=np.moveaxis(x, -1, 0), slack=0)


@case("image.pixels")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), d.size(), d.size())
    return of(x, wanted=np.moveaxis(x, 0, -1), slack=0)


@case("image.grey")
def _(d: Drawn) -> Comparison:
    x = d.uniform(*d.shape(1), 3, d.size(), d.size())
    return of(x, wanted=np.einsum("...chw,c->...hw", x, [0.2126, 0.7152, 0.0722]))


def to_linear(x: Array) -> Array:
    return np.asarray(np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4))


@case("image.linear")
def _(d: Drawn) -> Comparison:
    x = d.uniform(*d.shape())
    return of(x, wanted=to_linear(x.astype(np.float64)))


@case("image.srgb")
def _(d: Drawn) -> Comparison:
    y = d.uniform(*d.shape()).astype(np.float64)
    y[np.abs(y - 0.04045) < 1e-3] = 0  # the two halves of the standard's formula do not quite meet
    return of(np.asarray(to_linear(y), d.element), wanted=y, slack=10)


def image(d: Drawn) -> Array:
    return d.uniform(*d.shape(1), d.size(1), d.size(1))


def each(f: Any, x: Array) -> Array:
    """A function of one image, on each of several."""
    planes = [f(plane) for plane in x.reshape(-1, *x.shape[-2:]).astype(np.float64)]
    return np.array(planes).reshape(*x.shape[:-2], *np.shape(planes[0])[-2:]) if planes else np.zeros(x.shape)


def some(d: Drawn) -> Array:
    return d.uniform(*(n + 1 for n in d.shape(1)), d.size(1, 7), d.size(1, 7))


def new_size(d: Drawn) -> tuple[int, int]:
    return d.size(1, 9), d.size(1, 9)


@case("image.between")
def _(d: Drawn) -> Comparison:
    p, n = d.size(0, 9), d.size(1, 9)
    middle = np.maximum((np.arange(p) + 0.5) * n / max(1, p) - 0.5, 0)
    low = (middle + 1e-9).astype(np.int32)
    wanted = {"low": low, "high": np.minimum(low + 1, n - 1).astype(np.int32), "share": middle - low}
    return of(wanted=wanted, sizes=(p, n), double=True)


@case("image.resize_nearest")
def _(d: Drawn) -> Comparison:
    x, (p, q) = some(d), new_size(d)
    rows, columns = ([(2 * i + 1) * n // (2 * m) for i in range(m)] for m, n in ((p, x.shape[-2]), (q, x.shape[-1])))
    return of(x, wanted=x[..., rows, :][..., columns], sizes=(p, q), slack=0)


@case("image.resize")
def _(d: Drawn) -> Comparison:
    x, (p, q) = some(d), new_size(d)

    def resized(plane: Array) -> Array:
        rows, columns = ((np.arange(m) + 0.5) * n / m - 0.5 for m, n in ((p, plane.shape[0]), (q, plane.shape[1])))
        return np.asarray(ndimage.map_coordinates(plane, np.meshgrid(rows, columns, indexing="ij"), order=1, mode="nearest"))

    return of(x, wanted=each(resized, x), sizes=(p, q))


def triangle_matrix(p: int, n: int) -> Array:
    reach = max(1.0, n / p)
    middles = (np.arange(p) + 0.5) * n / p
    weights = np.maximum(0, 1 - np.abs(np.arange(n) + 0.5 - middles[:, None]) / reach)
    return np.asarray(weights / weights.sum(1, keepdims=True))


@case("image.resize_smooth")
def _(d: Drawn) -> Comparison:
    x, (p, q) = some(d), new_size(d)
    wanted = triangle_matrix(p, x.shape[-2]) @ x @ triangle_matrix(q, x.shape[-1]).T
    return of(x, wanted=wanted, sizes=(p, q), slack=3)


MATRIX = """\
fun f {p, n} =
  let val t = image.triangles {p, n}
  in for i, j < n => sum for k where t.first[i] + k = j => t.weights[i, k] end
"""


@case("image.triangles", MATRIX)
def _(d: Drawn) -> Comparison:
    p, n = d.size(1, 9), d.size(1, 9)
    return of(wanted=triangle_matrix(p, n), sizes=(p, n), slack=3, double=True)


@case("image.correlate")
def _(d: Drawn) -> Comparison:
    x, window = some(d), d.real(d.size(1), d.size(1))
    return of(window, x, wanted=each(lambda plane: ndimage.correlate(plane, window, mode="nearest"), x), slack=3)


@case("image.correlate_both")
def _(d: Drawn) -> Comparison:
    x, column, row = some(d), d.real(d.size(1)), d.real(d.size(1))
    window = np.outer(column, row)
    return of(column, row, x, wanted=each(lambda plane: ndimage.correlate(plane, window, mode="nearest"), x), slack=3)


@case("image.gaussian")
def _(d: Drawn) -> Comparison:
    radius, sigma = d.size(), d.element(0.5 + d.rng.random())
    wanted = np.exp(-0.5 * (np.arange(-radius, radius + 1) / float(sigma)) ** 2)
    return of(sigma, wanted=wanted / wanted.sum(), sizes=(radius,))


@case("image.blur")
def _(d: Drawn) -> Comparison:
    x, radius, sigma = some(d), d.size(0, 4), 0.5 + d.rng.random()
    wanted = each(lambda plane: ndimage.gaussian_filter(plane, sigma, mode="nearest", radius=radius), x)
    return of(sigma, x, wanted=wanted, sizes=(radius,), slack=3)


@case("image.sharpen")
def _(d: Drawn) -> Comparison:
    x, radius, sigma = some(d), d.size(0, 4), 0.5 + d.rng.random()
    soft = each(lambda plane: ndimage.gaussian_filter(plane, sigma, mode="nearest", radius=radius), x)
    return of(sigma, 0.7, x, wanted=x + 0.7 * (x - soft), sizes=(radius,), slack=3)


def neighbourhood(name: str, f: Any) -> None:
    @case(f"image.{name}")
    def _(d: Drawn) -> Comparison:
        x, radius = some(d), d.size(0, 3)
        return of(x, wanted=each(lambda plane: f(plane, 2 * radius + 1, mode="nearest"), x), sizes=(radius,))


neighbourhood("box_blur", ndimage.uniform_filter)
neighbourhood("median_blur", ndimage.median_filter)
neighbourhood("dilate", ndimage.maximum_filter)
neighbourhood("erode", ndimage.minimum_filter)


def right_and_down(name: str, f: Any) -> None:
    @case(f"image.{name}")
    def _(d: Drawn) -> Comparison:
        x = some(d)
        return of(x, wanted={"right": each(lambda p: f(p, 1), x), "down": each(lambda p: f(p, 0), x)}, slack=3)


right_and_down("gradients", lambda p, axis: ndimage.correlate1d(p, [-0.5, 0, 0.5], axis, mode="nearest"))
right_and_down("sobel", lambda p, axis: ndimage.sobel(p, axis, mode="nearest"))


@case("image.edges")
def _(d: Drawn) -> Comparison:
    x = some(d)
    return of(x, wanted=each(lambda p: np.hypot(*(ndimage.sobel(p, axis, mode="nearest") for axis in (0, 1))), x), slack=10)


@case("image.laplacian")
def _(d: Drawn) -> Comparison:
    x = some(d)
    return of(x, wanted=each(lambda plane: ndimage.laplace(plane, mode="nearest"), x), slack=3)
