"""Sums of products as matrix products: matmul, batched products and convolutions without the product of their domains.

The factors of a sum's body are split into two operands, each evaluated on only its own axes, in the accumulator. An axis of the
domain is then a batch axis (both operands vary along it), a row (the first alone) or a column (the second alone), and the reduced
axes are contracted. A `where` or a triangular range that depends on one operand's axes alone zeroes that operand, which is exact as
long as the other one is finite.
"""

from __future__ import annotations

from math import prod

import numpy as np

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Scalar, element_of
from axon.interpret.arithmetic import Array, convert
from axon.interpret.box import Box
from axon.interpret.frame import Frame, Masks
from axon.interpret.reduction import all_of
from axon.interpret.scalar import depends, enter, evaluate, factors, unbind

WORTHWHILE = 128  # products in one matrix product, below which its overhead shows


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """Which factors make the first operand and which the second, which operand a mask zeroes, and the groups of axes to bound."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    masked: int  # 0: the first; 1: the second
    groups: tuple[frozenset[int], ...]


def plan(body: Scalar, mask_axes: frozenset[Symbol], domain: int, box: Box) -> ProductPlan | None:
    """How to do the sum of a body as a matrix product, or None where that does not fit or pay.

    `box` has the domain's axes first; `mask_axes` are what the conditions depend on.
    """
    size = dict(zip(box.symbols, box.sizes, strict=True))
    axes = frozenset(symbol for symbol in box.symbols if size[symbol] > 1)
    locals: dict[Symbol, frozenset[Symbol]] = {}
    found = [depends(factor, axes, locals) for factor in factors(unbind(body, axes, locals))]
    if len(found) < 2:
        return None

    def points(symbols: frozenset[Symbol]) -> int:
        return prod(size[symbol] for symbol in symbols)

    first = max(range(len(found)), key=lambda i: points(found[i]))
    others = [i for i in range(len(found)) if i != first]
    second = max(others, key=lambda i: (points(found[i] - found[first]), points(found[i])))
    operands = [[first], [second]]
    spans = [found[first], found[second]]
    for i in others:
        if i != second:
            side = min((0, 1), key=lambda side: (points(spans[side] | found[i]), side))
            operands[side].append(i)
            spans[side] |= found[i]

    wanted = mask_axes & axes
    if not (wanted <= spans[0] or wanted <= spans[1]):
        return None
    outer = frozenset(box.symbols[:domain])
    batch = spans[0] & spans[1] & outer
    if points(axes - batch) < WORTHWHILE and points(batch) > 1:
        return None
    position = {symbol: i for i, symbol in enumerate(box.symbols)}
    reduced = axes - outer  # both operands are made full along these
    groups = (spans[0] | reduced, spans[1] | reduced, axes & outer, *locals.values())
    return ProductPlan(
        tuple(sorted(operands[0])),
        tuple(sorted(operands[1])),
        0 if wanted <= spans[0] else 1,
        tuple(frozenset(position[symbol] for symbol in group) for group in groups),
    )


def contract(body: Scalar, how: ProductPlan, frame: Frame, domain: int, masks: Masks) -> Array | None:
    """The sum over one block, in the accumulator, of rank 1 + domain; None if masking needs a finite operand and has none."""
    element = element_of(body)
    parts = factors(enter(body, frame, masks))

    def operand(chosen: tuple[int, ...]) -> Array:
        values = [convert(evaluate(parts[i], frame, masks), element, element.accumulator) for i in chosen]
        result = values[0]
        for value in values[1:]:
            result = result * value
        return result

    operands = [operand(how.first), operand(how.second)]
    if masks:
        other = operands[1 - how.masked]
        if element.is_float and not np.isfinite(other).all():
            return None
        mine = operands[how.masked]
        operands[how.masked] = np.where(all_of(masks), mine, mine.dtype.type(0))
    return _matrix_product(operands[0], operands[1], frame, domain)


def _matrix_product(x: Array, y: Array, frame: Frame, domain: int) -> Array:
    """Sum over the dimensions after `domain` of x * y, which have the frame's rank."""
    reduced = list(range(1 + domain, frame.rank))
    sizes = {axis.position: axis.high - axis.low for axis in frame.axes.values()}
    x, y = (np.broadcast_to(v, (*v.shape[: 1 + domain], *[sizes[position] for position in reduced])) for v in (x, y))
    outer = range(1 + domain)
    batch = [i for i in outer if x.shape[i] > 1 and y.shape[i] > 1]
    columns = [i for i in outer if x.shape[i] == 1 and y.shape[i] > 1]
    rows = [i for i in outer if i not in batch and i not in columns]
    count, height, width = (prod(v.shape[i] for i in p) for v, p in ((x, batch), (x, rows), (y, columns)))
    depth = prod(sizes[position] for position in reduced)
    left = x.transpose(batch + rows + columns + reduced).reshape(count, height, depth)
    right = y.transpose(batch + rows + reduced + columns).reshape(count, depth, width)
    result = _multiply(left, right)
    order = batch + rows + columns
    shape = [max(x.shape[i], y.shape[i]) for i in order]
    return result.reshape(shape).transpose(np.argsort(order))


def _multiply(x: Array, y: Array) -> Array:
    """x @ y of batches of matrices. Integers whose sums fit into float64 are multiplied there, which is exact and much faster."""
    if x.dtype.kind in "iu":
        bound = x.shape[-1] * _greatest(x) * _greatest(y)
        if bound < 2**53:
            wide: Array = _blas(x.astype(np.float64)) @ _blas(y.astype(np.float64))
            return wide.astype(np.int64).astype(x.dtype)
    product: Array = _blas(x) @ _blas(y)
    return product


def _greatest(x: Array) -> int:
    return max(abs(int(x.min())), abs(int(x.max())))


def _blas(x: Array) -> Array:
    """A copy, unless the last two dimensions are laid out as a matrix or a transposed one, which BLAS reads in place."""
    (rows, columns), (over, along) = x.shape[-2:], x.strides[-2:]
    item = x.itemsize
    if (along == item and over >= columns * item) or (over == item and along >= rows * item):
        return x
    return np.ascontiguousarray(x)
