"""An operation at the sizes of a call: sizes are numbers, and what is computed of indices alone is an index.

x[(p + padding) / stride]      becomes, at a stride of 2 and a padding of 1,      x[(p + 1) / 2]
cast i32 (p + 1) % 2 + 2 * i                                                      an index, where i32 holds all of its values

`AtSizes` keeps what is made of an operation so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import Generic, TypeVar

from axon.backend.plan.ir import Nest
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Axis, Binary, Compute, Const, Index, Read, Scalar
from axon.core.scalar_facts import index_of, mapped, substitute
from axon.core.walk import all_axes, children, dimensions_of, with_children
from axon.shapes.dimension import Atom, Dim, Quotient

Range = tuple[int, int]
T = TypeVar("T")
MOST = 64  # sizes for which it is kept; then they are forgotten, and asked again
_COMPUTED: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.floordiv, "mod": operator.mod,
}  # fmt: skip


class AtSizes(Generic[T]):
    """What is made of a nest of one step at the sizes of a call; None where nothing is, or where it does not fit at any."""

    def __init__(
        self, nest: Nest, fits: Callable[[Compute], bool], make: Callable[[Compute, Mapping[Symbol, int]], T | None]
    ) -> None:
        step, *others = nest.steps
        self._op = step if not others and isinstance(step, Compute) and fits(step) else None
        self._make = make
        self._asked = () if self._op is None else tuple(sorted(dimensions_of(self._op), key=lambda s: s.id))
        self._found: dict[tuple[int, ...], T | None] = {}

    def at(self, dims: Mapping[Symbol, int]) -> T | None:
        if self._op is None:
            return None
        key = tuple([dims[s] for s in self._asked])
        if key not in self._found:
            if len(self._found) >= MOST:
                self._found.clear()
            self._found[key] = self._make(self._op, dict(zip(self._asked, key, strict=True)))
        return self._found[key]


def at_sizes(op: Compute, sizes: Mapping[Symbol, int]) -> Compute:
    known = {symbol: Dim.of(size) for symbol, size in sizes.items()}

    def numbered(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(axis.symbol, axis.extent.substitute(known)) for axis in axes)

    outs = tuple(replace(out, shape=tuple(extent.substitute(known) for extent in out.shape)) for out in op.outs)
    reduction = op.reduction and replace(op.reduction, axes=numbered(op.reduction.axes))
    op = replace(op, outs=outs, axes=numbered(op.axes), reduction=reduction)
    ranges = {axis.symbol: (0, axis.extent.constant - 1) for axis in all_axes(op) if axis.extent.constant is not None}
    changed = mapped(op, lambda scalar: _folded(substitute(scalar, known), ranges))
    assert isinstance(changed, Compute)
    return changed


def _folded(scalar: Scalar, ranges: Mapping[Symbol, Range]) -> Scalar:
    """With indices where they are computed of indices, without a value that their type would not hold."""
    if not isinstance(scalar, Const | Index):
        scalar = with_children(scalar, tuple(_folded(child, ranges) for child in children(scalar)))
    match scalar:
        case Read(subscripts=subscripts):
            return replace(scalar, subscripts=tuple(s.dim if isinstance(s, Index) else s for s in subscripts))
        case Binary(op=op, left=left, right=right) if op in _COMPUTED:
            first, second = index_of(left), index_of(right)
            if first is None or second is None or not isinstance(left, Index):
                return scalar
            if op in ("div", "mod") and (second.constant or 0) < 1:
                return scalar
            dims = (first, second, _COMPUTED[op](first, second))
            low, high = left.element.limits
            spans = [bounds(dim, ranges) for dim in dims]
            inside = all(span is not None and low <= span[0] and span[1] <= high for span in spans)
            return Index(dims[2], left.element) if inside else scalar
        case _:
            return scalar


def bounds(dim: Dim, ranges: Mapping[Symbol, Range]) -> Range | None:
    """Between which numbers a Dim over these is, bounds that it need not reach; None if it is over others."""
    low = high = 0
    for coefficient, monomial in dim.terms:
        term = (coefficient, coefficient)
        for atom in monomial:
            part = _of_atom(atom, ranges)
            if part is None:
                return None
            every = [x * y for x, y in product(term, part)]
            term = min(every), max(every)
        low, high = low + term[0], high + term[1]
    return low, high


def _of_atom(atom: Atom, ranges: Mapping[Symbol, Range]) -> Range | None:
    if isinstance(atom, Symbol):
        return ranges.get(atom)
    if isinstance(atom, Quotient):
        above, below = bounds(atom.dividend, ranges), bounds(atom.divisor, ranges)
        if above is None or below is None or below[0] < 1:
            return None
        every = [x // y for x, y in product(above, below)]
        return min(every), max(every)
    items = [bounds(item, ranges) for item in atom.items]
    known = [item for item in items if item is not None]
    return (min(x for x, _ in known), min(y for _, y in known)) if len(known) == len(items) else None
