"""Steps as they are where an index wraps around nowhere and is clamped nowhere: with subscripts that are linear in it.

    x[(j + b - 1) % m]                       becomes      x[j + b - 1 - m * q]      for as long as (j + b - 1) / m is q
    x[min (max (j + b - 2) 0) (m - 1)]       becomes      x[j + b - 2]              for as long as that is in 0 … m - 1

    interior    steps and an index -> the steps, and what must hold, or None where there is nothing of it

Neighbours along such an index lie side by side, where the quotients and limits would be computed for each of them, and each be
gathered. A check that an index is in a tensor is left out: that it is, is what must hold, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Binary, Compute, Const, Convert, Index, Read, Scalar, Scan, Value
from axon.core.scalar_facts import index_of, mapped, varies
from axon.core.walk import children, with_children
from axon.shapes.dimension import Atom, Dim, DimensionTooLarge, Minimum, Quotient, rebuilt

LARGE = 1 << 62


@dataclass(frozen=True, slots=True)
class Bound:
    """That `coefficient` times the index and `rest` is at least 0."""

    coefficient: int
    rest: Dim


@dataclass(frozen=True, slots=True)
class Interior:
    """`steps` hold where every bound does, as long as the `quotients` are what the symbols stand for; and where scalars that do not
    depend on the index are in the tensors that they are subscripts of (`inside`, each with the extent)."""

    steps: tuple[Compute | Scan, ...]
    quotients: tuple[tuple[Symbol, Quotient], ...]
    bounds: tuple[Bound, ...]
    inside: tuple[tuple[Scalar, Dim], ...]


class _NotLinear(Exception):
    pass


def interior(steps: Sequence[Compute | Scan], index: Symbol, values: Mapping[Symbol, Value]) -> Interior | None:
    finder = _Finder(index, values)
    try:
        made = tuple(mapped(step, finder.scalar) for step in steps)
    except (_NotLinear, DimensionTooLarge):
        return None
    if not finder.found:
        return None
    return Interior(made, tuple(finder.quotients.items()), tuple(dict.fromkeys(finder.bounds)), tuple(dict.fromkeys(finder.inside)))


def linear(subscript: Dim | Scalar, index: Symbol) -> Dim | None:
    """A subscript in an interior, if it can be said there by a size."""
    finder = _Finder(index, {})
    try:
        found = finder.dim(subscript) if isinstance(subscript, Dim) else index_of(finder.scalar(subscript))
    except (_NotLinear, DimensionTooLarge, KeyError):
        return None
    return found if finder.found else None


class _Finder:
    def __init__(self, index: Symbol, values: Mapping[Symbol, Value]) -> None:
        self.index, self.values = index, values
        self.found = False
        self.named: dict[Quotient, Symbol] = {}
        self.bounds: list[Bound] = []
        self.inside: list[tuple[Scalar, Dim]] = []

    @property
    def quotients(self) -> dict[Symbol, Quotient]:
        return {symbol: quotient for quotient, symbol in self.named.items()}

    def at_least_0(self, dim: Dim) -> None:
        split = dim.linear_in(self.index)
        if split is None or split[0].constant is None:
            raise _NotLinear
        self.bounds.append(Bound(split[0].constant, split[1]))

    # ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def dim(self, dim: Dim) -> Dim:
        if self.index not in dim.variables:
            return dim
        taken = {monomial[0] for coefficient, monomial in dim.terms if len(monomial) == 1 and coefficient < 0}
        return dim.rewrite(lambda atom: self.atom(atom, atom in taken))

    def atom(self, atom: Atom, taken: bool) -> Dim:
        """Of a minimum that is `taken` off, as in a maximum, what does not vary: a + b - min a b is the other one."""
        match atom:
            case Quotient(dividend=dividend, divisor=divisor) if self.index in dividend.variables | divisor.variables:
                return self.quotient(Quotient(self.dim(dividend), divisor))
            case Minimum(items=items) if any(self.index in item.variables for item in items):
                every = [self.dim(item) for item in items]
                likely = [item for item in every if (self.index in item.variables) is not taken] or every
                least = min(likely, key=lambda item: (len(item.variables), len(item.terms)))
                for other in every:
                    if other != least:
                        self.at_least_0(other - least)
                self.found = True
                return least
            case Symbol():
                return Dim.of(atom)
            case _:
                return rebuilt(atom, self.dim)

    def quotient(self, quotient: Quotient) -> Dim:
        """Of a divisor that is no constant: by one that is, LLVM multiplies, and it may be small."""
        if self.index not in quotient.dividend.variables:
            return Dim({(quotient,): 1})
        split = quotient.dividend.linear_in(self.index)
        if split is None or self.index in quotient.divisor.variables or quotient.divisor.constant is not None:
            raise _NotLinear
        if quotient not in self.named:
            symbol = self.named[quotient] = fresh("q")
            beyond = quotient.dividend - Dim.of(symbol) * quotient.divisor
            self.at_least_0(beyond)
            self.at_least_0(quotient.divisor - beyond - 1)
        self.found = True
        return Dim.of(self.named[quotient])

    # ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def scalar(self, scalar: Scalar) -> Scalar:
        if not isinstance(scalar, Const | Index):
            scalar = with_children(scalar, tuple(map(self.scalar, children(scalar))))
        match scalar:
            case Index(dim=dim):
                return replace(scalar, dim=self.dim(dim))
            case Binary(op="max" | "min" as op, left=left, right=right):
                return self.clamped(scalar, op, left, right)
            case Convert(operand=Index(dim=dim, element=narrow), element=wide) if wide.is_integer and self.index in dim.variables:
                self.holds(dim, narrow.limits)
                self.holds(dim, wide.limits)
                return Index(dim, wide)
            case Read():
                return self.read(scalar)
            case _:
                return scalar

    def clamped(self, scalar: Binary, op: str, left: Scalar, right: Scalar) -> Scalar:
        """The side that varies, which is what the limit leaves alone."""
        first, second = index_of(left), index_of(right)
        if first is None or second is None or (self.index in first.variables) == (self.index in second.variables):
            return scalar
        varying, other, kept = (first, second, left) if self.index in first.variables else (second, first, right)
        assert isinstance(kept, Index)
        for dim in (varying, other):
            self.holds(dim, kept.element.limits)
        self.at_least_0(varying - other if op == "max" else other - varying)
        self.found = True
        return kept

    def holds(self, dim: Dim, limits: tuple[int, int]) -> None:
        """An integer type holds it; those of 64 bits hold every index."""
        low, high = limits
        if dim.constant is None or not low <= dim.constant <= high:
            if low > -LARGE:
                self.at_least_0(dim - low)
            if high < LARGE:
                self.at_least_0(high - dim)

    def read(self, read: Read) -> Read:
        subscripts: list[Dim | Scalar] = []
        for subscript in read.subscripts:
            if isinstance(subscript, Index) and self.index in subscript.dim.variables:
                self.holds(subscript.dim, subscript.element.limits)
                subscripts.append(subscript.dim)
            else:
                subscripts.append(self.dim(subscript) if isinstance(subscript, Dim) else subscript)
        changed = tuple(subscripts)
        if read.checked is None or changed == read.subscripts:
            return replace(read, subscripts=changed)
        if any(not isinstance(s, Dim) and varies(s, frozenset((self.index,))) for s in changed):
            return replace(read, subscripts=changed)
        for subscript, extent in zip(changed, self.values[read.tensor].shape, strict=True):
            if isinstance(subscript, Dim):
                self.at_least_0(subscript)
                self.at_least_0(extent - subscript - 1)
            else:
                self.inside.append((subscript, extent))
        return replace(read, subscripts=changed, checked=None)
