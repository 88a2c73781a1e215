"""Core to core: an index that stands for two is two again, where what is made along it is read so.

    unmerged    a program -> one in which what lies between its operations has the indices that its readers have

A loss over tokens goes through batch and position as one index, `max[r] = max c => x[r / n, r % n, c]`; its gradient stands on
both, and reads `max[i * n + j]`. Both have the same rows, and neither shows it: they would be two kernels, each of which reads `x`.
Taking such an index apart is known as delinearization.

Note [What is two]
    An axis `r` is `i * n + j` if its extent is a multiple of `n` and its operation reads something at `r / n`, or reads along
    it what has two indices there already. A tensor has two in place of one if the axis that makes it is two, and all that read
    it do so at such an axis or at `i * n + j` for an axis `j` of extent `n`; results and what loops and sorts read keep theirs.
    All this is assumed, and what does not hold is taken back until the rest does. It is done where somebody reads at `i * n +
    j`: elsewhere one index is as good as two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from axon.base.data import dataclass, field, replace
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import Axis, Block, Compute, Loop, Op, Program, Read, Scalar
from axon.core.scalar_facts import bare, mapped, with_dims
from axon.core.verify import unchanged, verify_rewritten
from axon.core.walk import all_axes, children, reads, scalars, tensors_of, with_children
from axon.shapes.dimension import Atom, Dim, Quotient

Place = tuple[Symbol, int]  # a tensor, and the position of one of its dimensions
ANY_ORDER = frozenset({"sum", "prod", "max", "min", "any", "all"})


@verified("unmerge", verify_rewritten)
def unmerged(program: Program) -> Program:
    """See Note [What is two]."""
    block = _block(program.block)
    return program if block is program.block else replace(program, block=block)


def _block(block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if isinstance(op, Loop) and (body := _block(op.body)) is not op.body:
            op = replace(op, body=body)
        ops.append(op)
    found = _Finder(tuple(ops), frozenset(block.results)).found()
    if found.axes:
        ops = [_split(op, found) if isinstance(op, Compute) else op for op in ops]
    return block if unchanged(ops, block.ops) else replace(block, ops=tuple(ops))


# ── finding ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Found:
    """What is two: axes, and dimensions of tensors, each by how many of the second index there are."""

    axes: dict[Symbol, Dim] = field(default_factory=dict)
    places: dict[Place, Dim] = field(default_factory=dict)


class _Finder:
    def __init__(self, ops: tuple[Op, ...], results: frozenset[Symbol]) -> None:
        self.ops = tuple(op for op in ops if isinstance(op, Compute))
        self.kept = results.union(*(tensors_of(op) for op in ops if not isinstance(op, Compute)))
        self.reads = [[read for scalar in scalars(op) for read in reads(scalar)] for op in self.ops]
        self.extents = [{axis.symbol: axis.extent for axis in all_axes(op)} for op in self.ops]
        self.divisors = [_divisors(reads_) for reads_ in self.reads]  # of each operation's axes

    def found(self) -> _Found:
        if not any(self.divisors):
            return _Found()
        found = self.assumed()
        while self.taken_back(found):
            pass
        wanted = self.wanted(found)
        return _Found(
            {axis: n for axis, n in found.axes.items() if axis in wanted}, {at: n for at, n in found.places.items() if at in wanted}
        )

    def assumed(self) -> _Found:
        """All that may be two."""
        found = _Found()
        for op, reads_, extents, divisors in zip(self.ops, self.reads, self.extents, self.divisors, strict=True):
            for axis in _splittable(op):
                seen = set(divisors.get(axis.symbol, ()))
                for read in reads_:
                    seen |= {found.places[at] for at, s in _places(read) if bare(s) == axis.symbol and at in found.places}
                fitting = [n for n in seen if _times(axis.extent, n) is not None and n.variables.isdisjoint(extents)]
                if len(fitting) == 1:
                    found.axes[axis.symbol] = fitting[0]
            for position, axis in enumerate(op.axes):
                n = found.axes.get(axis.symbol)
                if n is not None:
                    found.places |= {(out.symbol, position): n for out in op.outs if out.symbol not in self.kept}
        return found

    def taken_back(self, found: _Found) -> bool:
        """Whether something did not hold."""
        before = len(found.axes) + len(found.places)
        for op, reads_, extents, divisors in zip(self.ops, self.reads, self.extents, self.divisors, strict=True):
            for read in reads_:
                for at, subscript in _places(read):
                    n = found.places.get(at)
                    if n is not None and not self.fits(subscript, n, found, extents):
                        del found.places[at]
            for axis in all_axes(op):
                n = found.axes.get(axis.symbol)
                if n is None:
                    continue
                made = [(out.symbol, p) for p, own in enumerate(op.axes) if own is axis for out in op.outs]
                gains = n in divisors.get(axis.symbol, ()) or any(
                    found.places.get(at) == n and bare(s) == axis.symbol for read in reads_ for at, s in _places(read)
                )
                if not gains or any(at not in found.places for at in made):
                    del found.axes[axis.symbol]
                    for at in made:
                        found.places.pop(at, None)
        return len(found.axes) + len(found.places) < before

    def fits(self, subscript: Dim | Scalar, n: Dim, found: _Found, extents: Mapping[Symbol, Dim]) -> bool:
        """Whether a subscript is an axis that is two, or two indices, neither of which is two itself."""
        whole = isinstance(subscript, Dim) and subscript.variables.isdisjoint(found.axes)
        return _along(found, subscript) == n or (whole and _both(subscript, n, extents) is not None)

    def wanted(self, found: _Found) -> set[Symbol | Place]:
        """Of axes and dimensions, those that hang together with one that is read at two indices."""
        near: dict[Symbol | Place, set[Symbol | Place]] = {}
        begin: list[Symbol | Place] = []
        for op, reads_ in zip(self.ops, self.reads, strict=True):
            pairs: list[tuple[Symbol, Place]] = []
            pairs += [(a.symbol, (out.symbol, p)) for p, a in enumerate(op.axes) if a.symbol in found.axes for out in op.outs]
            for read in reads_:
                for at, subscript in _places(read):
                    own = bare(subscript)
                    if at in found.places and own is not None and own in found.axes:
                        pairs.append((own, at))
                    elif at in found.places:
                        begin.append(at)
            for axis, at in pairs:
                near.setdefault(axis, set()).add(at)
                near.setdefault(at, set()).add(axis)
        reached: set[Symbol | Place] = set()
        while begin:
            one = begin.pop()
            if one not in reached:
                reached.add(one)
                begin += near.get(one, ())
        return reached


def _along(found: _Found, subscript: Dim | Scalar) -> Dim | None:
    """How many of the second index there are, if a subscript is an axis that is two."""
    axis = bare(subscript)
    return None if axis is None else found.axes.get(axis)


def _splittable(op: Compute) -> Iterator[Axis]:
    """The axes on which no extent depends; of a reduction, those that may be any number, in any order."""
    reduced = () if op.reduction is None or op.reduction.monoid.kind not in ANY_ORDER else op.reduction.axes
    others = frozenset().union(*(axis.extent.variables for axis in all_axes(op)))
    return (axis for axis in (*op.axes, *reduced) if axis.symbol not in others)


def _places(read: Read) -> Iterator[tuple[Place, Dim | Scalar]]:
    return (((read.tensor, position), subscript) for position, subscript in enumerate(read.subscripts))


def _divisors(found: Iterable[Read]) -> dict[Symbol, set[Dim]]:
    """By what an index is divided where something is read."""
    divisors: dict[Symbol, set[Dim]] = {}
    for read in found:
        for quotient in (q for s in read.subscripts if isinstance(s, Dim) for q in s.quotients):
            if (axis := quotient.dividend.symbol) is not None:
                divisors.setdefault(axis, set()).add(quotient.divisor)
    return divisors


def _times(extent: Dim, n: Dim) -> Dim | None:
    """How many times an extent has `n`, if it is a multiple in any case."""
    found = extent.plain_quotient(n)
    return found if found is not None and found * n == extent else None


def _both(subscript: Dim | Scalar, n: Dim, extents: Mapping[Symbol, Dim]) -> tuple[Dim, Dim] | None:
    """The two indices of which a subscript is `i * n + j`."""
    if not isinstance(subscript, Dim):
        return None
    for second in subscript.variables & extents.keys():
        rest = subscript - second
        if extents[second] == n and second not in rest.variables:
            first = _times(rest, n)
            if first is not None:
                return first, Dim.of(second)
    return None


# ── splitting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _split(op: Compute, found: _Found) -> Compute:
    """An operation on two axes in place of each one that is two, which reads tensors at two indices in place of each that is."""
    pairs: dict[Symbol, tuple[Axis, Axis]] = {}
    for axis in all_axes(op):
        n = found.axes.get(axis.symbol)
        if n is not None:
            times = _times(axis.extent, n)
            assert times is not None
            pairs[axis.symbol] = Axis(fresh(axis.symbol.name), times), Axis(fresh(axis.symbol.name), n)

    def split(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(one for axis in axes for one in pairs.get(axis.symbol, (axis,)))

    whole = {axis: Dim.of(i.symbol) * j.extent + j.symbol for axis, (i, j) in pairs.items()}
    firsts = {Quotient(Dim.of(axis), j.extent): Dim.of(i.symbol) for axis, (i, j) in pairs.items()}

    def atom(one: Atom) -> Dim:
        if isinstance(one, Symbol):
            return whole.get(one, Dim.of(one))
        return firsts[one] if one in firsts else Dim({(one,): 1})

    def change(dim: Dim) -> Dim:
        return dim if dim.variables.isdisjoint(pairs) else dim.rewrite(atom).substitute(whole)

    extents = {axis.symbol: axis.extent for axis in split(all_axes(op))}

    def reading(scalar: Scalar) -> Scalar:
        if children(scalar):
            scalar = with_children(scalar, [reading(child) for child in children(scalar)])
        if not isinstance(scalar, Read):
            return scalar
        subscripts: list[Dim | Scalar] = []
        for at, subscript in _places(scalar):
            both = _both(subscript, found.places[at], extents) if at in found.places else None
            subscripts += both or (subscript,)
        return replace(scalar, subscripts=tuple(subscripts))

    made = mapped(op, lambda scalar: reading(with_dims(scalar, change)))
    assert isinstance(made, Compute)
    axes = split(op.axes)
    outs = tuple(replace(out, shape=tuple(axis.extent for axis in axes)) for out in op.outs)
    if made.reduction is not None:
        made = replace(made, reduction=replace(made.reduction, axes=split(made.reduction.axes)))
    return replace(made, outs=outs, axes=axes)
