"""Extents that only a guard gives a value, made total.

An operation taken out of a guarded expression runs whatever the guard says (Note [Guards] in `builder`), over axes whose extents
are computed then. Where the guard is false an extent may divide by 0, or be larger than any tensor, and nobody looks at its value.
So `Extents` notes under which guards extents stand while a program is lowered; in the end `rewritten` puts n / max(m, 1) for an
n / m that a guard keeps from m = 0, and for n * n * n under `if n <= 9` the product with min(1, max(0, 10 - n)), which is 0 where n
is larger, in ranges as in the shapes of what is stored there. What is proved of such sizes is proved where the guards hold: what
relies on it is `fragile`, and takes its guard along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set

from axon.base.data import dataclass, field, replace
from axon.base.names import Symbol
from axon.core.ir import Axis, Block, Check, Compress, Compute, Index, Loop, Op, Reduction, Scan, Sort, Value
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.dimension import Dim, Quotient, maximum, minimum, rebuilt
from axon.shapes.relation import Relation
from axon.shapes.width import exact

ZERO, ONE = Dim.of(0), Dim.of(1)
_LONGEST = 100  # the weight of an indicator


@dataclass(slots=True, eq=False)
class Extents:
    decided: set[Symbol] = field(default_factory=set)  # sizes that only the data decide
    _guarded: set[Dim] = field(default_factory=set)  # divisors that a guard keeps from 0
    _bare: set[Dim] = field(default_factory=set)  # divisors over decided sizes that none does: division by 0 stops the program
    _over_axes: bool = False  # a guarded divisor mentions an axis, which operations rename
    _large: dict[Dim, Dim | None] = field(default_factory=dict)  # extents beyond 2^31: 1 where the guards hold and else 0
    changes: int = 0  # how often something was noted that was not known

    def note(
        self, extent: Dim, axes: Set[Symbol], guards: tuple[Relation, ...], inside: bool, known: Facts, facts: Callable[[], Facts]
    ) -> None:
        """An extent stands among axes, where guards (what they say of sizes) hold; `inside` any guard or axis at all.

        `known` holds everywhere, `facts` here.
        """
        for divisor in _divisors(extent):
            if _positive(known, divisor):
                continue
            if divisor.variables & self.decided and not (inside and _positive(facts(), divisor)):
                self.changes += divisor not in self._bare
                self._bare.add(divisor)
            elif inside:
                over_axes = not divisor.variables.isdisjoint(axes)
                self.changes += divisor not in self._guarded or over_axes > self._over_axes
                self._guarded.add(divisor)
                self._over_axes |= over_axes
        if not exact(extent, 32) and extent.variables.isdisjoint(axes):
            holds = [_indicator(r) for r in guards if r.left.variables.isdisjoint(axes) and r.right.variables.isdisjoint(axes)]
            whole: Dim | None = None
            for factor in holds:
                if factor is not None:
                    whole = factor if whole is None else minimum(whole, factor)
            before, new = len(self._large), _either(whole, old := self._large.get(extent, whole))
            self._large[extent] = new
            self.changes += len(self._large) > before or new != old

    def total(self, dim: Dim, known: Facts) -> Dim:
        """The Dim with a value also where the guards that it stood under are false."""
        if not self._guarded or not any(not isinstance(atom, Symbol) for atom in dim.atoms):
            return dim

        def image(atom: object) -> Dim:
            if isinstance(atom, Symbol):
                return Dim.of(atom)
            new = rebuilt(atom, lambda part: self.total(part, known))  # type: ignore[arg-type]
            if not isinstance(atom, Quotient) or not self._open(atom.divisor, known):
                return new
            return self.total(atom.dividend, known) // maximum(self.total(atom.divisor, known), ONE)

        return dim.rewrite(image)

    def _open(self, divisor: Dim, known: Facts) -> bool:
        """Whether only guards keep a divisor from 0."""
        if divisor in self._bare:
            return False
        if divisor in self._guarded:
            return True
        return (
            self._over_axes
            and divisor.constant is None
            and divisor.variables.isdisjoint(self.decided)
            and not _positive(known, divisor)
        )

    def fragile(self, dims: Iterable[Dim], known: Facts) -> bool:
        """Whether only guards give some of these sizes a value: what is proved of them may be false where the guards are."""
        if not self._guarded and not self._large:
            return False
        return any(self._large.get(dim) is not None or any(self._open(q.divisor, known) for q in dim.quotients) for dim in dims)

    def rewritten(self, block: Block, inputs: Iterable[Value], known: Facts) -> Block:
        """The program's block with total extents.

        What goes in and out keeps its shape, and so does what has a part of it.
        """
        found = {value.symbol: value for value in _values(block)}
        outside = [*inputs, *(found[s] for s in block.results if s in found)]
        shapes = {dim for value in outside for dim in value.shape}
        large = {extent: holds for extent, holds in self._large.items() if holds is not None and extent not in shapes}
        if not self._guarded and not large:
            return block

        def size(dim: Dim) -> Dim:
            holds = large.get(dim)
            new = self.total(dim, known)
            return new if holds is None else new * holds

        return _sized(block, size)


def _divisors(dim: Dim) -> Iterator[Dim]:
    return (atom.divisor for atom in dim.quotients if atom.divisor.constant is None)


def divides(dim: Dim, known: Facts) -> bool:
    """Whether a Dim divides by what is not known to be at least 1."""
    return any(not _positive(known, divisor) for divisor in _divisors(dim))


def _positive(known: Facts, divisor: Dim) -> bool:
    return proves(known, Relation(divisor, ">=", ONE))


def _indicator(relation: Relation) -> Dim | None:
    """1 where a relation holds and 0 where it does not; None where a part may have no value."""
    a, b = relation.left, relation.right
    if any(True for side in (a, b) for _ in _divisors(side)):
        return None
    match relation.op:
        case "<=":
            more = b - a + 1
        case "<":
            more = b - a
        case ">=":
            more = a - b + 1
        case ">":
            more = a - b
        case "<>":
            more = maximum(a - b, b - a)
        case _:
            return ONE - minimum(ONE, maximum(a - b, b - a))
    return minimum(ONE, maximum(ZERO, more))


def _either(a: Dim | None, b: Dim | None) -> Dim | None:
    """1 where one of two indicators is; None stands for 1 everywhere, and for what is too long to write."""
    if a is None or b is None or a.weight + b.weight > _LONGEST:
        return None
    return maximum(a, b)


def _values(block: Block) -> Iterator[Value]:
    for op in block.ops:
        match op:
            case Compute(outs=outs) | Scan(outs=outs):
                yield from outs
            case Loop(outs=outs, states=states, body=body):
                yield from (*outs, *states, *_values(body))
            case Sort(values=values):
                yield values
            case Compress(out=out):
                yield out
            case Check():
                pass


def _sized(block: Block, size: Callable[[Dim], Dim]) -> Block:
    """The block with another size for every extent, in axes and in the shapes of values."""

    def value(v: Value) -> Value:
        return replace(v, shape=tuple(map(size, v.shape)))

    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(replace(a, extent=size(a.extent)) for a in old)

    def reduced(r: Reduction | None) -> Reduction | None:
        return None if r is None else replace(r, axes=axes(r.axes))

    def go(op: Op) -> Op:
        match op:
            case Compute():
                return replace(op, outs=tuple(map(value, op.outs)), axes=axes(op.axes), reduction=reduced(op.reduction))
            case Scan():
                return replace(op, outs=tuple(map(value, op.outs)), axes=axes(op.axes))
            case Loop():
                trip = replace(op.trip, dim=size(op.trip.dim)) if isinstance(op.trip, Index) else op.trip
                states = tuple(map(value, op.states))
                return replace(op, outs=tuple(map(value, op.outs)), states=states, trip=trip, body=_sized(op.body, size))
            case Sort():
                return replace(op, values=value(op.values), indices=value(op.indices))
            case Compress():
                return replace(op, out=value(op.out))
            case Check():
                return op

    return Block(tuple(map(go, block.ops)), block.results)
