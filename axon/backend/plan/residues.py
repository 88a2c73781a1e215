"""Sums whose terms a result's index picks by its quotient and its remainder: one index for each of these.

    out[n, b, p] = sum a i => x[n, a, (p + 1) / 2 - i | 0] * k[a, b, (p + 1) % 2 + 2 * i | 0]

becomes, with p = 2 * m + r - 1,

    made[r, n, b, m] = sum a i => x[n, a, m - i | 0] * k[a, b, r + 2 * i | 0]
    out[n, b, p]     = made[(p + 1) % 2, n, b, (p + 1) / 2]

A transposed convolution by a stride is as many convolutions, each with the part of the kernel that its remainder picks; their
subscripts are linear. The few elements of `made` beside those that `out` has may be anything. But what they are made of is padded,
also where the program need not: the index that they belong to is none of the program's, and may lie outside.
A condition that only remainders decide chooses what is put into `out`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import lru_cache

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Compute, Const, Read, Scalar, Select, Value, identity
from axon.core.scalar_facts import dims_variables, may_fail, with_dims
from axon.core.walk import mentions, nodes, rewrite
from axon.shapes.dimension import Atom, Dim, Quotient, rebuilt, variables_of

ZERO = Dim.of(0)


@dataclass(frozen=True, slots=True)
class Residues:
    """An axis p as two: p + `shift` = `stride` · quotient + remainder, where the shift is at least 0 and below the stride."""

    axis: Axis
    stride: int
    shift: int
    quotient: Axis
    remainder: Axis

    def split(self, dim: Dim) -> Dim:
        """A Dim over p as one over the two."""
        quotient, remainder = Dim.of(self.quotient.symbol), Dim.of(self.remainder.symbol)

        def image(atom: Atom) -> Dim:
            if isinstance(atom, Symbol):
                return Dim.of(atom)
            small = isinstance(atom, Quotient) and atom.dividend == remainder and atom.divisor.constant == self.stride
            return ZERO if small else rebuilt(atom, lambda dim: dim.rewrite(image))

        return dim.substitute({self.axis.symbol: quotient * self.stride + remainder - self.shift}).rewrite(image)

    def parts(self, index: Dim) -> tuple[Dim, Dim]:
        """The remainder and the quotient where p is an index."""
        return (index + self.shift) % self.stride, (index + self.shift) // self.stride


@dataclass(frozen=True, slots=True)
class Split:
    """A sum with two axes in place of some: `first` makes it, remainders before all other axes, and `last` puts it into its places.
    What is put where `where` does not hold is 0; only remainders are in it."""

    residues: tuple[Residues, ...]
    first: Compute
    last: Compute
    where: Scalar | None


def by_residues(op: Compute) -> Split | None:
    """None if there are no such axes, or if what is made besides might stop the program."""
    reduction = op.reduction
    if reduction is None or reduction.monoid.kind != "sum" or reduction.asked is not None or any(map(may_fail, op.body)):
        return None
    found = tuple(one for axis in op.axes if (one := _of(op, axis)) is not None)
    split = {one.axis.symbol: one for one in found}
    moving = {axis.symbol for axis in op.axes}
    if not found or any(not axis.extent.variables.isdisjoint(moving) for axis in (*op.axes, *reduction.axes)):
        return None
    remainders = {one.remainder.symbol for one in found}
    where = None if reduction.where is None else _split(reduction.where, found)
    if where is not None and not all(isinstance(n, Const) or dims_variables(n) <= remainders for n in nodes(where)):
        return None
    (out,) = op.outs
    domain = (*(one.remainder for one in found), *(split[a.symbol].quotient if a.symbol in split else a for a in op.axes))
    made = Value(made_by_residues(out.symbol), out.element, tuple(axis.extent for axis in domain))
    body = tuple(_split(_padded(scalar, split.keys()), found) for scalar in op.body)
    first = Compute((made,), domain, replace(reduction, where=None), body, op.span)
    own = tuple(Axis(fresh(axis.symbol.name), axis.extent) for axis in op.axes)
    at = {old.symbol: Dim.of(new.symbol) for old, new in zip(op.axes, own, strict=True)}
    places = {symbol: one.parts(at[symbol]) for symbol, one in split.items()}
    subscripts = (*(places[s][0] for s in split), *(places[a.symbol][1] if a.symbol in split else at[a.symbol] for a in op.axes))
    value: Scalar = Read(made.symbol, subscripts, out.element)
    if where is not None:
        here = {one.remainder.symbol: places[symbol][0] for symbol, one in split.items()}
        value = Select(with_dims(where, lambda dim: dim.substitute(here)), value, Const(0.0, out.element))
    return Split(found, first, Compute((out,), own, None, (value,), op.span), where)


def has_residues(op: Compute) -> bool:
    """Whether an operation is a sum in which indices of its result are divided: `by_residues` may split it, if not as it stands,
    then at the sizes of a call (`numbered`)."""
    if op.reduction is None or op.reduction.monoid.kind != "sum":
        return False
    own = {axis.symbol for axis in op.axes}
    quotients = (q for scalar in op.body for dim in _dims(scalar) for q in dim.quotients)
    divided = (n for scalar in op.body for n in nodes(scalar) if isinstance(n, Binary) and n.op in ("div", "mod"))
    return any(not variables_of(q).isdisjoint(own) for q in quotients) or any(
        not dims_variables(n).isdisjoint(own) for n in divided
    )


def _of(op: Compute, axis: Axis) -> Residues | None:
    """An axis as two, if all quotients in which it stands are by one number, of it and the same number."""
    assert op.reduction is not None
    every = (*op.body, *(() if op.reduction.where is None else (op.reduction.where,)))
    quotients = {q for scalar in every for dim in _dims(scalar) for q in dim.quotients if axis.symbol in dim.variables}
    quotients = {q for q in quotients if axis.symbol in variables_of(q)}
    strides, shifts = set(), set()
    for quotient in quotients:
        found = quotient.dividend.linear_in(axis.symbol)
        if found is None or found[0] != Dim.of(1) or found[1].constant is None or not quotient.divisor.constant:
            return None
        strides.add(quotient.divisor.constant)
        shifts.add(found[1].constant)
    if len(strides) != 1 or len(shifts) != 1:
        return None
    (stride,), (shift,) = strides, shifts
    if not 0 <= shift < stride:
        return None
    count = (axis.extent + (shift - 1)) // stride + 1
    name = axis.symbol.name
    return Residues(axis, stride, shift, Axis(fresh(name), count), Axis(fresh("r"), Dim.of(stride)))


def _dims(scalar: Scalar) -> Iterator[Dim]:
    """The sizes and indices that an expression mentions."""
    found: list[Dim] = []

    def seen(dim: Dim) -> Dim:
        found.append(dim)
        return dim

    with_dims(scalar, seen)
    return iter(found)


def _split(scalar: Scalar, residues: Sequence[Residues]) -> Scalar:
    for one in residues:
        scalar = with_dims(scalar, one.split)
    return scalar


def _padded(scalar: Scalar, axes: Set[Symbol]) -> Scalar:
    """An expression with zeros around what it reads along these axes."""

    def visit(node: Scalar) -> Scalar | None:
        if isinstance(node, Read) and node.padding is None and any(mentions(node, axis) for axis in axes):
            return replace(node, padding=Const(identity("sum", node.element), node.element))
        return None

    return rewrite(scalar, visit)


@lru_cache(maxsize=4096)
def made_by_residues(out: Symbol) -> Symbol:
    """Of what is made by residues: the same in everything that is made of one program."""
    return fresh(out.name)
