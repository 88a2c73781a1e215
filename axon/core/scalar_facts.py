"""What passes ask about scalar expressions: their cost, whether they can fail, which axes they vary along, and fresh copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import is_
from types import MappingProxyType

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import (
    Axis,
    Binary,
    Bind,
    Compute,
    Const,
    Index,
    Local,
    Monoid,
    Op,
    Read,
    Reduction,
    Scalar,
    Scan,
    Select,
    Unary,
    Value,
    element_of,
)
from axon.core.walk import all_axes, children, converted, nodes, rewrite, scalars, with_children
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, maximum
from axon.shapes.width import exact

# Rough costs in additions, of what is computed anew for each point.
_UNARY = {
    "exp": 10, "log": 12, "sin": 16, "cos": 16, "tanh": 14, "erf": 16, "sqrt": 5, "rsqrt": 6, "expm1": 14, "log1p": 16, "cbrt": 20,
    "asin": 24, "acos": 24, "atan": 20, "sinh": 20, "cosh": 18, "asinh": 24, "acosh": 20, "atanh": 20, "erfc": 40, "erfinv": 50,
    "lgamma": 60, "digamma": 80,
}  # fmt: skip
_BINARY = {"div": 4, "mod": 8, "pow": 30, "atan2": 26}


def weight(scalar: Scalar, axes: frozenset[Symbol] | None) -> int:
    """What an expression costs at each point of the axes, where parts that do not vary along them cost nothing; or (None) once."""
    return sum(own for node in nodes(scalar) if (own := own_weight(node)) and (axes is None or varies(node, axes)))


def own_weight(node: Scalar) -> int:
    """What a node adds to the cost of its parts."""
    match node:
        case Unary(op=op):
            return _UNARY.get(op, 1)
        case Binary(op=op):
            return max(0, few_factors(node) - 1) or _BINARY.get(op, 1)
        case Select():
            return 1
        case _:
            return 0


def few_factors(scalar: Binary) -> int:
    """How many equal factors a power of floats is, if they are so few that to multiply them costs less; else 0."""
    match scalar:
        case Binary(op="pow", left=left, right=Const(value=value)) if element_of(left).is_float and value in (2, 3, 4):
            return int(value)
        case _:
            return 0


def is_trivial(scalar: Scalar) -> bool:
    """Whether an expression is a read, a literal or an index, perhaps converted: no dearer than reading its value."""
    found = [n for n in nodes(scalar) if isinstance(n, Unary | Binary | Select | Bind)]
    return not found and sum(isinstance(n, Read) for n in nodes(scalar)) <= 1


def varies(scalar: Scalar, axes: frozenset[Symbol]) -> bool:
    """Whether an expression may vary along the axes. A local is taken to."""
    return any(isinstance(n, Local) or not dims_variables(n).isdisjoint(axes) for n in nodes(scalar))


def axes_of(scalar: Scalar, axes: frozenset[Symbol]) -> frozenset[Symbol]:
    """The axes that the reads and indices of an expression mention."""
    return frozenset().union(*(dims_variables(n) for n in nodes(scalar))) & axes


def dims_variables(node: Scalar) -> frozenset[Symbol]:
    """The variables of a node's own Dims, those of its parts aside."""
    match node:
        case Read(subscripts=subscripts):
            return frozenset().union(*(s.variables for s in subscripts if isinstance(s, Dim)))
        case Index(dim=dim):
            return dim.variables
        case _:
            return frozenset()


NOWHERE: Mapping[Symbol, Dim] = {}


def may_fail(scalar: Scalar, within: Mapping[Symbol, Dim] = NOWHERE) -> bool:
    """Whether evaluating an expression, at axes inside of these extents, can stop the program: a checked index, a divisor that may
    be 0, a negative power."""
    return any(_fails(node) or _divides(node, within) for node in nodes(scalar))


def _divides(node: Scalar, within: Mapping[Symbol, Dim]) -> bool:
    """Whether it divides by a size, which may be 0."""
    match node:
        case Read(subscripts=subscripts):
            return any(divides(s, within) for s in subscripts if isinstance(s, Dim))
        case Index(dim=dim):
            return divides(dim, within)
        case _:
            return False


def _fails(node: Scalar) -> bool:
    """Whether data may be such that it stops the program."""
    match node:
        case Read(checked=checked):
            return checked is not None
        case Binary(op="div" | "mod", left=left, right=right) if element_of(left).is_integer:
            return not (isinstance(right, Const) and right.value != 0)
        case Binary(op="pow", left=left, right=right) if element_of(left).is_integer:
            return not (isinstance(right, Const) and right.value >= 0)
        case _:
            return False


def may_stop(op: Compute | Scan) -> bool:
    """Whether an operation can stop the program: an expression of it, or that it asks for an extreme which nothing has."""
    within = {axis.symbol: axis.extent for axis in all_axes(op)}
    return data_may_stop(op) or any(may_fail(scalar, within) for scalar in scalars(op))


def data_may_stop(op: Compute | Scan) -> bool:
    """The same where no size is 0 that something is divided by."""
    if any(_fails(node) for scalar in scalars(op) for node in nodes(scalar)):
        return True
    if isinstance(op, Scan) or op.reduction is None:
        return False
    kind = op.reduction.monoid.kind
    return kind in ("argmax", "argmin") or (kind in ("max", "min") and not op.outs[0].element.is_float)


def divides(dim: Dim, within: Mapping[Symbol, Dim] = NOWHERE) -> bool:
    """Whether a Dim divides by what may be 0, at axes inside of these extents."""
    return any(not q.divisor.constant and not is_defined(q, within) for q in dim.quotients)


def is_defined(quotient: Quotient, within: Mapping[Symbol, Dim]) -> bool:
    """Whether an index that is divided has an extent that is a multiple of the divisor: where there is an index, that is not 0."""
    axes = (within[symbol] for symbol in quotient.dividend.variables if symbol in within)
    return any(extent.plain_quotient(quotient.divisor) is not None for extent in axes)


def bare(subscript: Dim | Scalar) -> Symbol | None:
    """The axis or dimension that a subscript is, if it is one alone."""
    return subscript.symbol if isinstance(subscript, Dim) else None


def index_of(scalar: Scalar) -> Dim | None:
    """The index that an expression is, if sizes and axes alone decide it."""
    match scalar:
        case Index(dim=dim):
            return dim
        case Const(value=int() as value, element=element) if element.is_integer:
            return Dim.of(value)
        case _:
            return None


def is_inside(read: Read, value: Value, extents: Mapping[Symbol, Dim]) -> bool:
    """Whether a read is at bare axes that run over the extents of its tensor, or end before these do: hence never outside."""
    if len(read.subscripts) != len(value.shape):
        return False
    for subscript, extent in zip(read.subscripts, value.shape, strict=True):
        symbol = bare(subscript)
        if symbol is None or symbol not in extents:
            return False
        beyond = (extent - extents[symbol]).constant
        if beyond is None or beyond < 0:
            return False
    return True


def operands(op: str, scalar: Scalar) -> Iterator[Scalar]:
    """What is joined by one operation, from left to right: the factors of a product, the conditions of an `and`."""
    match scalar:
        case Binary(op=own, left=left, right=right) if own == op:
            yield from operands(op, left)
            yield from operands(op, right)
        case _:
            yield scalar


def certain(scalar: Scalar) -> Iterator[Scalar]:
    """The parts that are evaluated whenever the expression is: those that stand in no branch."""
    pending = [scalar]
    while pending:
        node = pending.pop()
        yield node
        match node:
            case Select(condition=first) | Binary(op="and" | "or", left=first):
                pending.append(first)
            case Read(padding=padding) if padding is not None:
                pending.extend(part for part in children(node) if part is not padding)
            case _:
                pending.extend(children(node))


@dataclass(frozen=True, slots=True)
class Scatter:
    """A reduction of what belongs to one index of `axis`: where `index` is it, and `also` holds."""

    axis: Axis
    index: Scalar
    element: Element
    also: Scalar | None


def scatter(op: Compute) -> Scatter | None:
    """The form of a Compute that is a scatter: `… for i where ids[i] = b => …` with `b` among its axes, whatever is reduced.

    Conditions may stand around `ids[i] = b`. What stands before it is asked for every `b`, and guards `ids[i]`: to ask it only
    where `b` is `ids[i]` must lose no failure and bring no new one.
    """
    reduction = op.reduction
    if reduction is None or reduction.where is None or reduction.monoid.kind in ("argmax", "argmin", "custom"):
        return None
    # At a point of the axes none of them is empty: lowering says so of what may fail.
    present = [Binary("gt", Index(a.extent, e), Index(Dim.of(0), e)) for a in op.axes for e in (Element.I32, Element.I64)]
    conditions = [condition for condition in operands("and", reduction.where) if condition not in present]
    for position, condition in enumerate(conditions):
        found = _belongs(op, condition)
        if found is not None and not (position and may_fail(found[1])):
            also: Scalar | None = None
            for other in (*conditions[:position], *conditions[position + 1 :]):
                also = other if also is None else Binary("and", also, other)
            return Scatter(found[0], found[1], element_of(found[1]), also)
        if may_fail(condition):
            return None
    return None


def _belongs(op: Compute, condition: Scalar) -> tuple[Axis, Scalar] | None:
    """The axis and the index of `ids[i] = b`."""
    if not isinstance(condition, Binary) or condition.op != "eq" or element_of(condition.left) not in (Element.I32, Element.I64):
        return None
    assert op.reduction is not None
    reduced = op.reduction.axes
    for mine, index in ((condition.left, condition.right), (condition.right, condition.left)):
        axis = next((a for a in op.axes if isinstance(mine, Index) and mine.dim == Dim.of(a.symbol)), None)
        if axis is None or varies(index, frozenset((axis.symbol,))) or not varies(index, frozenset(a.symbol for a in reduced)):
            continue
        if all(axis.symbol not in a.extent.variables for a in reduced):
            return axis, index
    return None


def ends_of(condition: Scalar | None, axis: Symbol, within: frozenset[Symbol]) -> tuple[tuple[Scalar, ...], Scalar | None]:
    """Of a condition over an axis: before which indices it must lie, and what else is asked. `i < e and c` gives e and c.

    What an index is compared with varies neither along the axis nor along those `within` it, and nothing can fail before it is.
    """
    ends: list[Scalar] = []
    rest: list[Scalar] = []
    certain = True
    for part in () if condition is None else operands("and", condition):
        end = _end(part, axis) if certain else None
        if end is not None and not may_fail(end) and axes_of(end, within | {axis}) == frozenset():
            ends.append(end)
        else:
            rest.append(part)
            certain = certain and not may_fail(part)
    return tuple(ends), conjunction(tuple(rest))


def ends_early(op: Op) -> bool:
    """Whether data say where the innermost loop of a reduction ends."""
    if not isinstance(op, Compute) or op.reduction is None:
        return False
    ends, _ = ends_of(op.reduction.where, op.reduction.axes[-1].symbol, frozenset())
    return any(isinstance(node, Read) for end in ends for node in nodes(end))


def _end(condition: Scalar, axis: Symbol) -> Scalar | None:
    """What the axis is less than, by a comparison."""
    match condition:
        case Binary(op="lt" | "le" as op, left=Index(dim=dim, element=element), right=right):
            pass
        case Binary(op="gt" | "ge" as op, left=right, right=Index(dim=dim, element=element)):
            pass
        case _:
            return None
    split = dim.linear_in(axis)
    if split is None or split[0].constant != 1 or not exact(dim, element.bits):
        return None
    before = split[1] - (op in ("le", "ge"))
    wide = converted(right, Element.I64)
    return Binary("sub", wide, Index(before, Element.I64)) if before.mapping else right


def at_least_0(extent: Dim) -> Dim:
    """An extent as a count: sizes are at least 0, but n - 5 may be less."""
    positive = all(c > 0 for c in extent.mapping.values()) and all(isinstance(a, Symbol | Quotient) for a in extent.atoms)
    return extent if positive else maximum(extent, 0)


def comparison(op: str, left: Dim, right: Dim) -> Scalar:
    """A comparison of the exact values of two sizes: in 64 bits, where 32 may not hold them. See `limits` for what 64 may not."""
    element = Element.I32 if exact(left, 32) and exact(right, 32) else Element.I64
    return Binary(op, Index(left, element), Index(right, element))


def conjunction(conditions: tuple[Scalar, ...]) -> Scalar | None:
    out: Scalar | None = None
    for c in conditions:
        out = c if out is None else Binary("and", out, c)
    return out


def above_0(extent: Dim) -> Scalar:
    """The condition that an extent has indices."""
    element = Element.I32 if exact(extent, 32) else Element.I64
    return Binary("gt", Index(extent, element), Index(Dim.of(0), element))


def present(condition: Scalar | None) -> tuple[Dim, ...] | None:
    """The extents of which a condition asks whether they have indices (`above_0`), and nothing else; None if it asks more."""
    found = []
    for part in () if condition is None else operands("and", condition):
        if not isinstance(part, Binary) or not isinstance(part.left, Index) or part != above_0(part.left.dim):
            return None
        found.append(part.left.dim)
    return tuple(found)


# ── rewriting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def substitute(scalar: Scalar, dims: Mapping[Symbol, Dim]) -> Scalar:
    """Variables of Dims replaced, in every read and index, also in computed subscripts and paddings."""
    return with_dims(scalar, lambda dim: dim.substitute(dims)) if dims else scalar


def with_dims(scalar: Scalar, change: Callable[[Dim], Dim]) -> Scalar:
    """The expression with other Dims in every read and index, also in computed subscripts and paddings; itself if none is other."""
    if isinstance(scalar, Read):
        tensor, subscripts, padding = scalar.tensor, scalar.subscripts, scalar.padding
        new = tuple([change(s) if isinstance(s, Dim) else with_dims(s, change) for s in subscripts])
        inside = None if padding is None else with_dims(padding, change)
        if inside is padding and all(map(is_, new, subscripts)):
            return scalar
        return Read(tensor, new, scalar.element, inside, scalar.checked)
    if isinstance(scalar, Binary):
        left, right = with_dims(scalar.left, change), with_dims(scalar.right, change)
        return scalar if left is scalar.left and right is scalar.right else Binary(scalar.op, left, right)
    if isinstance(scalar, Index):
        dim = change(scalar.dim)
        return scalar if dim is scalar.dim else Index(dim, scalar.element)
    old = children(scalar)
    if not old:
        return scalar
    parts = [with_dims(child, change) for child in old]
    return scalar if all(map(is_, parts, old)) else with_children(scalar, parts)


def with_data(scalar: Scalar, data: Mapping[Symbol, Scalar]) -> Scalar:
    """The expression with integer expressions in place of axes. What these are part of is exact: in 64 bits, if need be."""

    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Index(dim=dim, element=element) if not data.keys().isdisjoint(dim.variables):
                return converted(_of_data(dim, data), element)
            case Read(subscripts=subscripts, padding=padding):
                inside = tuple(
                    rewrite(s, visit) if not isinstance(s, Dim) else s if data.keys().isdisjoint(s.variables) else _of_data(s, data)
                    for s in subscripts
                )
                return replace(node, subscripts=inside, padding=None if padding is None else rewrite(padding, visit))
            case _:
                return None

    return rewrite(scalar, visit)


def _of_data(dim: Dim, data: Mapping[Symbol, Scalar]) -> Scalar:
    """A Dim in which data stand for some variables."""
    if (symbol := dim.symbol) is not None and symbol in data:
        return data[symbol]
    element = Element.I32 if exact(dim, 32) else Element.I64

    def of_atom(atom: Atom) -> Scalar:
        match atom:
            case Symbol():
                return converted(data.get(atom, Index(Dim.of(atom))), element)
            case Quotient(dividend, divisor):
                return converted(Binary("div", *_alike(_of_data(dividend, data), _of_data(divisor, data))), element)
            case Minimum(items):
                return converted(reduce(lambda a, b: Binary("min", *_alike(a, b)), (_of_data(i, data) for i in items)), element)

    total: Scalar | None = None
    steady = Dim({m: c for m, c in dim.mapping.items() if data.keys().isdisjoint(Dim({m: 1}).variables)})
    for coefficient, monomial in (Dim({m: c for m, c in dim.mapping.items() if m not in steady.mapping})).terms:
        factors = [*([Const(coefficient, element)] if coefficient != 1 else []), *map(of_atom, monomial)]
        term = reduce(lambda a, b: Binary("mul", a, b), factors)
        total = term if total is None else Binary("add", total, term)
    if total is None:
        return Index(steady, element)
    return Binary("add", total, Index(steady, element)) if steady.mapping else total


def _alike(left: Scalar, right: Scalar) -> tuple[Scalar, Scalar]:
    """Two integers in the wider one's element type."""
    wide = Element.I64 if Element.I64 in (element_of(left), element_of(right)) else Element.I32
    return converted(left, wide), converted(right, wide)


def freshened(scalar: Scalar) -> Scalar:
    """The same expression with `let` names of its own."""
    bound = [symbol for node in nodes(scalar) if isinstance(node, Bind) for symbol, _ in node.bindings]
    if not bound:
        return scalar
    return relabelled(scalar, {symbol: fresh(symbol.name) for symbol in bound})


def relabelled(scalar: Scalar, names: Mapping[Symbol, Symbol]) -> Scalar:
    """The same expression with other `let` names."""
    if not names:
        return scalar

    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Local(symbol=symbol):
                return replace(node, symbol=names.get(symbol, symbol))
            case Bind(bindings=bindings, body=body):
                pairs = tuple((names.get(symbol, symbol), rewrite(value, visit)) for symbol, value in bindings)
                return Bind(pairs, rewrite(body, visit))
            case _:
                return None

    return rewrite(scalar, visit)


def mapped(op: Compute | Scan, change: Callable[[Scalar], Scalar]) -> Compute | Scan:
    """An operation with every scalar expression of it changed."""
    body = tuple([change(scalar) for scalar in op.body])
    if isinstance(op, Scan):
        return replace(op, body=body, monoid=_monoid_mapped(op.monoid, change))
    old = op.reduction
    if old is None:
        return op if all(map(is_, body, op.body)) else Compute(op.outs, op.axes, None, body, op.span)
    monoid = _monoid_mapped(old.monoid, change)
    where = None if old.where is None else change(old.where)
    asked = None if old.asked is None else change(old.asked)
    if monoid is old.monoid and where is old.where and asked is old.asked:
        return op if all(map(is_, body, op.body)) else Compute(op.outs, op.axes, old, body, op.span)
    return Compute(op.outs, op.axes, Reduction(old.axes, monoid, where, asked), body, op.span)


def _monoid_mapped(monoid: Monoid, change: Callable[[Scalar], Scalar]) -> Monoid:
    if not monoid.units and not monoid.combine:
        return monoid
    return replace(monoid, units=tuple(map(change, monoid.units)), combine=tuple(map(change, monoid.combine)))


def renamed(
    op: Compute | Scan, names: Mapping[Symbol, Symbol], sizes: Mapping[Symbol, Dim] = MappingProxyType({})
) -> Compute | Scan:
    """An operation over other axes, with other `sizes`."""
    dims = {**sizes, **{old: Dim.of(new) for old, new in names.items()}}
    changed = mapped(op, lambda scalar: substitute(scalar, dims))

    def axis(a: Axis) -> Axis:
        return Axis(names.get(a.symbol, a.symbol), a.extent.substitute(dims))

    axes = tuple([axis(a) for a in changed.axes])
    if isinstance(changed, Scan):
        return replace(changed, axes=axes)
    reduction = changed.reduction
    if reduction is not None:
        own = tuple([axis(a) for a in reduction.axes])
        reduction = Reduction(own, reduction.monoid, reduction.where, reduction.asked)
    return Compute(changed.outs, axes, reduction, changed.body, changed.span)


def size(scalar: Scalar, limit: int) -> int:
    """How many nodes an expression has, counted up to a limit."""
    count, pending = 0, [scalar]
    while pending and count < limit:
        count += 1
        pending.extend(children(pending.pop()))
    return count
