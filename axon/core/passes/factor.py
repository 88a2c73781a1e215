"""Core to core: sums of products are computed in the order that costs least (the distributive law).

    factored    a program -> one with the same results, in which each sum is over what one product of two factors needs

Note [Sums of products]
    `sum j k => a[i, j] * b[j, k] * c[k, l]` goes through n⁴ points, two products of matrices through 2n³. A factor in which an
    index is that no other has is summed over it first; three and more factors are multiplied two at a time (`orders` chooses);
    what does not depend on a summed index leaves the sum. What is made on the way is an operation of its own.

      exact     Integers wrap, so any order gives the same. Floats of 16 and 8 bits are multiplied and kept in f32 on the way, and
                are rounded once, at the end. In f32 and f64 the order of additions and multiplications is open (docs/core.md).
      empty     The sum over no indices is 0, whatever the other factors hold. An intermediate over an empty range is 0 too, and
                0 · ∞ is not: so what reads it asks whether the ranges that are summed already have indices, unless that is known.
      read      A factor is read where the sum would read it, and elsewhere only if it is inside of its tensor for all of its
                indices, or under the same question.
      finite    Where a factor that is not finite stands in a sum, the result is not finite either, as before. Which of ∞, -∞ and
                NaN it is follows from the order: (a + b) · ∞ for a · ∞ + b · ∞.

    A sum is left alone where nothing is gained, where it has a condition or an extent that depends on another index, and where a
    factor may stop the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from axon.base.data import dataclass, field, replace
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import (
    Axis,
    Binary,
    Block,
    Compute,
    Const,
    Convert,
    Loop,
    Monoid,
    Op,
    Program,
    Read,
    Reduction,
    Scalar,
    Select,
    Unary,
    Value,
    element_of,
)
from axon.core.passes.orders import DEFAULT, MOST, Order, OrderChoice, Shape, Tree, candidates, leaves, samples
from axon.core.scalar_facts import above_0, dims_variables, freshened, is_inside, may_fail, renamed
from axon.core.verify import unchanged, verify_rewritten
from axon.core.walk import all_axes, converted, nodes, outs_of, reads
from axon.shapes.dimension import Dim
from axon.shapes.width import of_dim


@dataclass(frozen=True, slots=True)
class Rates:
    """What a machine is good at: how many multiply-adds of a product of matrices it does in the time of moving an element; and
    whether such a product takes in what is done to its result (`epilogues`), so that factors without summed indices stay there."""

    products: int
    epilogues: bool


HOST = Rates(products=24, epilogues=False)
DEVICE = Rates(products=96, epilogues=True)


@verified("factor", lambda made, given, *_: verify_rewritten(made, given))
def factored(program: Program, rates: Rates, order: Order = DEFAULT) -> Program:
    """Sums that `order` does not name are multiplied in the order that is best in the mean over sizes of every kind."""
    values = {value.symbol: value for value in program.inputs}
    return replace(program, block=_block(program.block, values, _Context(rates, dict(order))))


@dataclass(frozen=True, slots=True)
class _Context:
    rates: Rates
    order: Mapping[Symbol, Tree]


def _block(block: Block, around: Mapping[Symbol, Value], context: _Context) -> Block:
    values = dict(around)
    ops: list[Op] = []
    for op in block.ops:
        made: Sequence[Op] = (op,)
        if isinstance(op, Compute):
            found = _sum_of(op, values, context.rates)
            if found is not None:
                made = _Factoring(found, found.tree(context)).run()
        elif isinstance(op, Loop):
            inside = {**values, **{s.symbol: s for s in op.states}}
            body = _block(op.body, inside, context)
            made = (op if unchanged(body.ops, op.body.ops) else replace(op, body=body),)
        ops += made
        for each in made:
            values.update((out.symbol, out) for out in outs_of(each))
    return Block(tuple(ops), block.results)


# ── sums whose order sizes decide ───────────────────────────────────────────────────────────────────────────────────────


def choices(program: Program, rates: Rates) -> tuple[OrderChoice, ...]:
    """The sums of a program in whose best order only the sizes of a call decide, those in loops aside."""
    values = {value.symbol: value for value in program.inputs}
    known = frozenset(program.explicit).union(*(d.variables for value in program.inputs for d in value.shape))
    found: list[OrderChoice] = []
    for op in program.block.ops:
        sum_ = _sum_of(op, values, rates) if isinstance(op, Compute) else None
        if sum_ is not None and (trees := sum_.trees())[1:]:
            extents = tuple((axis.symbol, axis.extent) for axis in all_axes(sum_.op))
            if all(extent.variables <= known for _, extent in extents):
                found.append(OrderChoice(sum_.op.outs[0].symbol, trees, sum_.shape, extents, rates.products))
        values.update((out.symbol, out) for out in outs_of(op))
    return tuple(found)


# ── sums of products ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of products: factors over the same axes are one, and those `beside` have no summed index and stay with the result."""

    op: Compute
    factors: tuple[tuple[Scalar, ...], ...]
    beside: tuple[Scalar, ...]
    shape: Shape
    rates: Rates
    unsafe: frozenset[int]  # the factors that are not seen to read inside of their tensors

    def trees(self) -> tuple[Tree, ...]:
        """The orders that are best at sizes of some kind, the one first that is best in the mean."""
        count = len(self.factors)
        if count <= 2:
            return ((0, 1) if count == 2 else 0,)
        axes = all_axes(self.op)
        free = sorted({s for axis in axes for s in axis.extent.variables}, key=lambda s: s.id)
        found = [{a.symbol: max(1, a.extent.evaluate(sizes)) for a in axes} for sizes in (samples(free) if free else [{}])]
        return candidates(self.shape, found, self.rates.products)

    def tree(self, context: _Context) -> Tree:
        return context.order.get(self.op.outs[0].symbol) or self.trees()[0]


def _sum_of(op: Compute, values: Mapping[Symbol, Value], rates: Rates) -> _Sum | None:
    """The sum of products that an operation is, if it may be computed in another order."""
    reduction = op.reduction
    if reduction is None or reduction.monoid.kind != "sum" or reduction.where is not None or len(op.body) != 1:
        return None
    axes = all_axes(op)
    mine = frozenset(axis.symbol for axis in axes)
    if any(not axis.extent.variables.isdisjoint(mine) for axis in axes) or may_fail(op.body[0]):
        return None
    summed = frozenset(axis.symbol for axis in reduction.axes)
    extents = {axis.symbol: axis.extent for axis in axes}
    groups: dict[frozenset[Symbol], list[Scalar]] = {}
    for factor in _factors(op.body[0], mine):
        groups.setdefault(_used(factor, mine), []).append(factor)
    if not summed <= frozenset[Symbol]().union(*groups):
        return None
    beside = [factor for used, group in groups.items() if used.isdisjoint(summed) for factor in group] if rates.epilogues else []
    inner = {used: tuple(group) for used, group in groups.items() if not (rates.epilogues and used.isdisjoint(summed))}
    if len(inner) > MOST or any(used == mine for used in groups):
        return None  # the second: one pass over that factor does it
    plain = tuple(len(group) == 1 and _is_read(group[0]) for group in inner.values())
    kept = frozenset(axis.symbol for axis in op.axes)
    unsafe = frozenset(
        n for n, group in enumerate(inner.values()) if not all(_is_safe(read, values, extents) for f in group for read in reads(f))
    )
    return _Sum(op, tuple(inner.values()), tuple(beside), Shape(tuple(inner), plain, kept), rates, unsafe)


def _used(factor: Scalar, axes: Set[Symbol]) -> frozenset[Symbol]:
    """The axes over which a factor goes."""
    return frozenset[Symbol]().union(*(dims_variables(node) for node in nodes(factor))) & axes


def _factors(scalar: Scalar, axes: Set[Symbol]) -> Iterator[Scalar]:
    """The factors of a product; of what is negated -1 is one. What the program multiplies over the same axes is one, and is rounded
    as it says: a code of 8 bits times its scale is a number of 16."""
    match scalar:
        case Binary(op="mul", left=left, right=right):
            apart = (*_factors(left, axes), *_factors(right, axes))
            whole = _used(scalar, axes)
            yield from (scalar,) if whole and all(_used(factor, axes) == whole for factor in apart) else apart
        case Unary(op="neg", operand=operand) if isinstance(operand, Binary | Unary):
            element = element_of(operand)
            yield Const(-1.0 if element.is_float else -1, element)
            yield from _factors(operand, axes)
        case _:
            yield scalar


def _is_read(scalar: Scalar) -> bool:
    """Whether a factor lies in memory as it is, or widened."""
    while isinstance(scalar, Convert):
        scalar = scalar.operand
    return isinstance(scalar, Read) and all(isinstance(subscript, Dim) for subscript in scalar.subscripts)


def _is_safe(read: Read, values: Mapping[Symbol, Value], extents: Mapping[Symbol, Dim]) -> bool:
    """Whether a read is inside its tensor, or padded, wherever the axes in its subscripts are."""
    if read.padding is not None:
        return all(isinstance(subscript, Dim) for subscript in read.subscripts)
    return read.tensor in values and is_inside(read, values[read.tensor], extents)


# ── the operations of a tree ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Part:
    """What a node of a tree is for its parent: factors; the axes that are summed in them; and whether one is read unsafely."""

    factors: tuple[Scalar, ...]
    summed: frozenset[Symbol]
    unsafe: bool

    def __mul__(self, other: _Part) -> _Part:
        return _Part((*self.factors, *other.factors), self.summed | other.summed, self.unsafe or other.unsafe)


@dataclass(slots=True, eq=False)
class _Factoring:
    """One sum, multiplied as a tree says. `ops` are what is made on the way."""

    sum: _Sum
    tree: Tree
    ops: list[Op] = field(default_factory=list)

    def run(self) -> tuple[Op, ...]:
        """The operations that compute it: itself, if the tree needs no other."""
        op, (out,) = self.sum.op, self.sum.op.outs
        part, over = self.node(self.tree)
        if not self.ops:
            return (op,)
        part = replace(part, factors=(*part.factors, *self.sum.beside))
        if all(element_of(factor) is out.element for factor in part.factors):
            self.compute(out, op.axes, over, part)
            return tuple(self.ops)
        wide = replace(out, symbol=fresh(out.symbol.name), element=out.element.accumulator)
        self.compute(wide, op.axes, over, part)
        rounded = converted(_at(wide, op.axes), out.element)
        self.ops.append(_apart(Compute((out,), op.axes, None, (rounded,), op.span)))
        return tuple(self.ops)

    @property
    def summed(self) -> tuple[Axis, ...]:
        assert self.sum.op.reduction is not None
        return self.sum.op.reduction.axes

    def node(self, tree: Tree) -> tuple[_Part, tuple[Axis, ...]]:
        """What a node multiplies, and the axes that it sums over."""
        shape = self.sum.shape
        if isinstance(tree, int):
            part, points = _Part(self.sum.factors[tree], frozenset(), tree in self.sum.unsafe), shape.factors[tree]
        else:
            mine, theirs = map(leaves, tree)
            lie = shape.is_product(mine, theirs)
            batch = shape.axes(mine) & shape.axes(theirs) & shape.kept if lie else frozenset()
            part, points = self.side(tree[0], lie, batch) * self.side(tree[1], lie, batch), shape.points(mine, theirs)
        over = points - shape.axes(leaves(tree))
        return part, tuple(axis for axis in self.summed if axis.symbol in over)

    def side(self, tree: Tree, lies: bool, batch: frozenset[Symbol]) -> _Part:
        """A node for its parent: a read of what it makes if it sums, or should lie in memory; else its factors. Along the axes of
        `batch` its parent is many products."""
        part, over = self.node(tree)
        if not over and (not lies or (isinstance(tree, int) and self.sum.shape.plain[tree])):
            return part
        shape = self.sum.shape
        inside = shape.axes(leaves(tree))
        multiplies = not isinstance(tree, int) and shape.is_product(*map(leaves, tree))
        axes = self.laid(part, multiplies, inside, batch)
        own = element_of(part.factors[0])
        element = own if not over and len(part.factors) == 1 else own.accumulator
        out = Value(fresh("partial" if over else "factor"), element, tuple(axis.extent for axis in axes))
        self.compute(out, axes, over, part)
        return _Part((_at(out, axes),), part.summed.union(axis.symbol for axis in over), unsafe=False)

    def laid(self, part: _Part, multiplies: bool, inside: frozenset[Symbol], batch: frozenset[Symbol]) -> tuple[Axis, ...]:
        """The axes of an intermediate in the order in which its factors have them, the largest first; in front, if it `multiplies`
        matrices, those of which no factor is without, and before them the batch's, so that BLAS finds each product's matrix in one
        piece."""
        found = [dict.fromkeys(s for read in reads(f) for d in read.subscripts for s in _in(d)) for f in part.factors]
        if not multiplies:
            found.sort(key=len, reverse=True)
        order = dict.fromkeys(symbol for each in found for symbol in each if symbol in inside)
        extents = {axis.symbol: axis for axis in all_axes(self.sum.op)}
        outer = [axis.symbol for axis in self.sum.op.axes if axis.symbol in batch and axis.symbol in inside]
        outer += [symbol for symbol in order if symbol not in batch and multiplies and all(symbol in each for each in found)]
        rest = [symbol for symbol in order if symbol not in outer]
        return tuple(extents[symbol] for symbol in (*outer, *rest, *sorted(inside - order.keys(), key=_id)))

    def compute(self, out: Value, axes: tuple[Axis, ...], over: tuple[Axis, ...], part: _Part) -> None:
        """out[axes] = the part, summed; 0 where an axis that it does not have, but asks for, has no indices."""
        absent = [axis for axis in all_axes(self.sum.op) if axis not in (*axes, *over)]
        asks = part.unsafe or out.element.is_float
        given = self.given(axis for axis in absent if asks and (part.unsafe or axis.symbol in part.summed))
        value = converted(part.factors[0], out.element)
        for factor in part.factors[1:]:
            value = Binary("mul", value, converted(factor, out.element))
        value = freshened(value)
        if over:
            op = Compute((out,), axes, Reduction(over, Monoid("sum"), given), (value,), self.sum.op.span)
        else:
            zero = Const(0.0 if out.element.is_float else 0, out.element)
            op = Compute((out,), axes, None, (value if given is None else Select(given, value, zero),), self.sum.op.span)
        self.ops.append(_apart(op))

    def given(self, axes: Iterable[Axis]) -> Scalar | None:
        """The condition that axes have indices, as far as that is not known."""
        condition: Scalar | None = None
        for extent in dict.fromkeys(axis.extent for axis in axes):
            if of_dim(extent)[0] < 1:
                condition = above_0(extent) if condition is None else Binary("and", condition, above_0(extent))
        return condition


def _in(subscript: Dim | Scalar) -> list[Symbol]:
    return sorted(subscript.variables, key=_id) if isinstance(subscript, Dim) else []


def _id(symbol: Symbol) -> int:
    return symbol.id


def _at(value: Value, axes: tuple[Axis, ...]) -> Read:
    return Read(value.symbol, tuple(Dim.of(axis.symbol) for axis in axes), value.element)


def _apart(op: Compute) -> Op:
    """The operation over axes of its own."""
    return renamed(op, {axis.symbol: fresh(axis.symbol.name) for axis in all_axes(op)})
