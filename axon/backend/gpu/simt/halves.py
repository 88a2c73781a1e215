"""Maps whose last axis has two halves that read the same: a thread takes an element of each, and reads what both need once.

    halves    a Nest -> the same over the first half of its last row axis, if that saves reads

`y[j] = if j < h then x[j] * c[j] - x[j + h] * s[j] else x[j] * c[j - h] + x[j - h] * s[j - h]`, where j < 2 h, reads every element
for two results, h apart; if these are not computed together, the second has to fetch it anew. Each step is written twice, at j and
at j + h, and comparisons that the half decides are gone, by the ranges of the axes:

    y[j] = x[j] * c[j] - x[j + h] * s[j]                   y_upper[j] = x[j + h] * c[j] + x[j] * s[j]                   for j < h

`y_upper` is a view of y, from h on.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner, reduced
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import (
    COMPARISONS,
    Axis,
    Binary,
    Bind,
    Compute,
    Const,
    Index,
    Local,
    Read,
    Scalar,
    Select,
    Unary,
    Value,
    element_of,
)
from axon.core.scalar_facts import dims_variables, freshened, index_of, substitute
from axon.core.walk import nodes, rewrite, scalars
from axon.shapes.dimension import Dim
from axon.shapes.width import MOST, of_dim

Ends = tuple[Dim, Dim]  # the least and the greatest value of an axis, both of them taken


@dataclass(frozen=True, slots=True)
class Halves:
    """A nest over the first half of its last row axis, and which tensor each value that is made for the other half is a view of."""

    nest: Nest
    views: MappingOf[Symbol, Symbol]

    @property
    def half(self) -> Dim:
        return self.nest.rows[-1].extent

    def lying(self, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> dict[Symbol, DeviceTensor]:
        """How the tensors lie, the views among them."""
        half = self.half.evaluate(sizes)
        found = dict(tensors)
        for view, symbol in self.views.items():
            whole = tensors[symbol]
            skipped = half * whole.strides[-1] * max(1, whole.element.bits // 8)
            shape = (*whole.shape[:-1], half)
            found[view] = DeviceTensor(whole.pointer + skipped, shape, whole.strides, whole.element)
        return found

    def values(self) -> dict[Symbol, Value]:
        return {out.symbol: out for step in self.nest.steps for out in step.outs}

    def place(self, symbol: Symbol, at: tuple[Dim, ...]) -> tuple[Symbol, tuple[Dim, ...]]:
        """The tensor in which a value lies, and where there."""
        whole = self.views.get(symbol)
        return (symbol, at) if whole is None else (whole, (*at[:-1], at[-1] + self.half))


def halved(axis: Axis) -> Axis | None:
    """The first half of an axis, if it has two."""
    half = axis.extent.plain_quotient(Dim.of(2))
    return None if half is None else Axis(axis.symbol, half)


def halves(nest: Nest) -> Halves | None:
    """See above."""
    axis = halved(nest.rows[-1]) if nest.rows else None
    if axis is None or any(not isinstance(s, Compute) or inner(s, len(nest.rows)) or reduced(s) for s in nest.steps):
        return None
    rows = (*nest.rows[:-1], axis)
    zero, half = Dim.of(0), axis.extent
    ends = {a.symbol: (zero, a.extent - 1) for a in rows}
    lower: list[Compute] = []
    upper: list[Compute] = []
    views: dict[Symbol, Symbol] = {}  # of every value, not only of what is stored
    for step in nest.steps:
        assert isinstance(step, Compute)
        names = {out.symbol: fresh(f"{out.symbol.name}_upper") for out in step.outs}
        views |= {view: symbol for symbol, view in names.items()}
        shape = tuple(a.extent for a in rows)
        body = tuple(decided(b, ends) for b in step.body)
        lower.append(replace(step, axes=rows, body=body, outs=tuple(replace(out, shape=shape) for out in step.outs)))
        above = {**ends, axis.symbol: (half, 2 * half - 1)}
        moved = {axis.symbol: Dim.of(axis.symbol) + half}
        own = {symbol: view for view, symbol in views.items()}
        body = tuple(_of_own(substitute(freshened(decided(b, above)), moved), own, rows) for b in step.body)
        outs = tuple(Value(names[out.symbol], out.element, shape) for out in step.outs)
        upper.append(replace(step, axes=rows, body=body, outs=outs))
    low, high = (frozenset(_moving(steps, axis.symbol)) for steps in (lower, upper))
    if low.isdisjoint(high):
        return None
    stored = (*nest.stored, *(view for view, symbol in views.items() if symbol in nest.stored))
    return Halves(Nest(rows, (*lower, *upper), stored, nest.reasons), views)


def _of_own(scalar: Scalar, own: MappingOf[Symbol, Symbol], rows: tuple[Axis, ...]) -> Scalar:
    """An expression of the upper half, which reads what steps before it made there."""
    at = tuple(Dim.of(a.symbol) for a in rows)

    def visit(node: Scalar) -> Scalar | None:
        return replace(node, tensor=own[node.tensor], subscripts=at) if isinstance(node, Read) and node.tensor in own else None

    return rewrite(scalar, visit) if own else scalar


def _moving(steps: list[Compute], axis: Symbol) -> Iterator[Read]:
    """The reads that are at another element for each place along an axis; those of the steps' own values aside."""
    made = {out.symbol for step in steps for out in step.outs}
    for node in (n for step in steps for s in scalars(step) for n in nodes(s)):
        if isinstance(node, Read) and node.tensor not in made and axis in dims_variables(node):
            yield node


# ── what ranges decide ──────────────────────────────────────────────────────────────────────────────────────────────────

# Of a comparison of a difference with 0: what it is if that is negative, zero, positive.
_SIGNS = {
    "lt": (True, False, False), "le": (True, True, False), "gt": (False, False, True), "ge": (False, True, True),
    "eq": (False, True, False), "ne": (True, False, True),
}  # fmt: skip


def decided(scalar: Scalar, ends: MappingOf[Symbol, Ends]) -> Scalar:
    """An expression without the comparisons of indices that the ranges of axes decide, and without what is never wanted then."""
    known: dict[Symbol, Const] = {}

    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Local(symbol=symbol):
                return known.get(symbol)
            case Binary(op=op) if op in COMPARISONS:
                found = _compared(node, ends)
                return None if found is None else Const(found, Element.BOOL)
            case Binary(op="and" | "or" as op, left=left, right=right):
                left = rewrite(left, visit)
                if isinstance(left, Const):
                    return rewrite(right, visit) if left.value == (op == "and") else left
                right = rewrite(right, visit)
                return left if isinstance(right, Const) and right.value == (op == "and") else Binary(op, left, right)
            case Unary(op="not", operand=operand):
                operand = rewrite(operand, visit)
                return Const(not operand.value, Element.BOOL) if isinstance(operand, Const) else Unary("not", operand)
            case Select(condition=condition, then=then, otherwise=otherwise):
                condition = rewrite(condition, visit)
                if isinstance(condition, Const):
                    return rewrite(then if condition.value else otherwise, visit)
                return Select(condition, rewrite(then, visit), rewrite(otherwise, visit))
            case Bind(bindings=bindings, body=body):
                kept = []
                for symbol, value in bindings:
                    value = rewrite(value, visit)
                    if isinstance(value, Const):
                        known[symbol] = value
                    else:
                        kept.append((symbol, value))
                body = rewrite(body, visit)
                return Bind(tuple(kept), body) if kept else body
            case _:
                return None

    return rewrite(scalar, visit)


def _compared(scalar: Binary, ends: MappingOf[Symbol, Ends]) -> bool | None:
    """What a comparison of indices is, if that is the same everywhere."""
    left, right = index_of(scalar.left), index_of(scalar.right)
    if left is None or right is None or not (_fits(scalar.left, left, ends) and _fits(scalar.right, right, ends)):
        return None
    found = _between(left - right, ends)
    if found is None:
        return None
    least, greatest = of_dim(found[0])[0], of_dim(found[1])[1]
    possible = {
        answer for answer, there in zip(_SIGNS[scalar.op], (least < 0, least <= 0 <= greatest, greatest > 0), strict=True) if there
    }
    return possible.pop() if len(possible) == 1 else None


def _fits(scalar: Scalar, dim: Dim, ends: MappingOf[Symbol, Ends]) -> bool:
    """Whether the element type of an index holds all its values. An axis has at most 2^31 - 1."""
    if not isinstance(scalar, Index) or element_of(scalar) is Element.I64 or dim.symbol is not None:
        return True
    found = _between(dim, ends)
    if found is None or of_dim(found[0])[0] < -MOST:
        return False
    return of_dim(found[1])[1] <= MOST or any(of_dim(found[1] - last)[1] <= 1 for _, last in ends.values())


def _between(dim: Dim, ends: MappingOf[Symbol, Ends]) -> Ends | None:
    """Between which sizes a Dim lies that is affine in the axes."""
    low = high = Dim.of(0)
    for coefficient, monomial in dim.terms:
        term = Dim({monomial: coefficient})
        if term.variables.isdisjoint(ends):
            low, high = low + term, high + term
            continue
        (atom, *others) = monomial
        if others or not isinstance(atom, Symbol) or atom not in ends:
            return None
        first, last = (end * coefficient for end in ends[atom])
        low, high = (low + first, high + last) if coefficient > 0 else (low + last, high + first)
    return low, high
