"""Where operations are done that other places read: pointwise ones at their readers, if need be once in each of these places.

    sunk    operations in places -> those of each place, in order

What is made in one place and read in another lies in memory between them: places are the parts of a program, or of a part the plain
kernels between two of the tensor cores. A pointwise operation goes down to its readers where these are in one place. One that
several places read is rematerialized in each of them, as Note [Rematerializing] says.

Note [Rematerializing]
    A value is made again where it is read if that moves no more bytes than reading the value would: if what it is made of lies in
    memory anyway, and has no more bits for each of its elements. The indices of a read end with the value's last axis, as its own
    do. What does not vary along that axis counts for nothing (a statistic of the row), nor does a vector along it. It is cheap, as
    in Note [Dissolving] of `dissolve`, and none of the reads makes one value several times; or it is only converted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Protocol

from axon.base.data import dataclass, field, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Compute, Op, Read, Scan
from axon.core.operands import with_tensors
from axon.core.passes.dissolve import is_cheap
from axon.core.scalar_facts import bare, dims_variables, freshened, is_trivial, may_stop, renamed, weight
from axon.core.walk import all_axes, nodes, outs_of, scalars, tensors_of
from axon.shapes.dimension import Dim

ELSEWHERE = -1  # the place of what is in none: results, and what is no plain operation


@dataclass(frozen=True, slots=True)
class Named:
    """Operations, which of them makes each tensor, and which read it, by their numbers."""

    ops: Sequence[Op]
    makers: Mapping[Symbol, int]
    readers: Mapping[Symbol, Sequence[int]]
    results: Set[Symbol]

    @classmethod
    def of(cls, ops: Sequence[Op], results: Set[Symbol]) -> Named:
        makers: dict[Symbol, int] = {}
        readers: dict[Symbol, list[int]] = {}
        for n, op in enumerate(ops):
            makers.update((out.symbol, n) for out in outs_of(op))
            for symbol in tensors_of(op):
                readers.setdefault(symbol, []).append(n)
        return cls(ops, makers, readers, results)


def sunk(ops: Sequence[Op], place: Mapping[int, int], results: Set[Symbol]) -> dict[int, list[Op]]:
    """The operations of each place, in order. `place` says where those with a place stand, by their numbers; what the others and
    `results` name is read elsewhere."""
    return _Sinking(Named.of(ops, results), place).run()


def as_well_left(named: Named, members: Set[int], elsewhere: Container[int], stays: Callable[[Compute], bool]) -> list[int]:
    """Which of a kernel's `members`, pointwise operations on what it makes, are as well left to those plain operations that read
    them, none of which is `elsewhere`, in another kernel: these make them again, as Note [Rematerializing] says, and the kernel
    stores fewer bytes. Not those of which one says that it `stays`."""
    ops, results = named.ops, named.results
    own = [n for n in sorted(members, reverse=True) if isinstance(op := ops[n], Compute) and op.reduction is None and not stays(op)]
    sinking = _Sinking(named, _Apart(frozenset(own), members, elsewhere))
    left: set[int] = set()
    for n in own:
        (out, *more), made = outs_of(ops[n]), sinking.made_of(n)
        readers = named.readers.get(out.symbol, ())
        plain = all(m in left or (sinking.place.get(m) == 0 and isinstance(ops[m], Compute | Scan)) for m in readers)
        if more or made is None or made.bits > out.element.bits or not plain or not readers or out.symbol in results:
            continue
        uses = [once for m in readers for once in uses_of(out.symbol, ops[m])]
        if all(uses) and is_cheap(made.weight, len(uses)):
            left.add(n)

    def stored(inside: Set[int]) -> int:
        """The bits of each element of what these operations make and others read."""
        made = [out for n in inside for out in outs_of(ops[n])]
        return sum(
            out.element.bits
            for out in made
            if out.symbol in results or any(m not in inside for m in named.readers.get(out.symbol, ()))
        )

    return sorted(left) if left and stored(members - left) < stored(members) else []


@dataclass(frozen=True, slots=True)
class _Apart:
    """Where operations are: at 1 those of a kernel that may be left, at 0 plain ones, the others elsewhere."""

    own: Set[int]
    members: Set[int]
    elsewhere: Container[int]

    def get(self, n: int) -> int | None:
        return 1 if n in self.own else None if n in self.members or n in self.elsewhere else 0


def uses_of(symbol: Symbol, op: Op) -> Iterator[bool]:
    """For each read of a tensor in an operation, whether it is of another element at each point."""
    if isinstance(op, Compute | Scan):
        axes = {axis.symbol for axis in all_axes(op)}
        for scalar in scalars(op):
            for node in nodes(scalar):
                if isinstance(node, Read) and node.tensor == symbol:
                    yield dims_variables(node) >= axes


@dataclass(frozen=True, slots=True)
class _MadeOf:
    """What is read for each element of a value, in bits, and how many additions it then costs."""

    bits: int
    weight: int


class _Places(Protocol):
    def get(self, n: int, /) -> int | None: ...


@dataclass(slots=True)
class _Sinking:
    named: Named
    place: _Places
    there: dict[int, list[Op]] = field(default_factory=dict)  # the operations of each place, last first
    known: dict[int, _MadeOf | None] = field(default_factory=dict)

    def run(self) -> dict[int, list[Op]]:
        readers = {symbol: {ELSEWHERE} for symbol in self.named.results}
        for n in reversed(range(len(self.named.ops))):
            op = self.named.ops[n]
            found = set[int]().union(*(readers.get(out.symbol, ()) for out in outs_of(op)))
            places = self.places(n, op, found)
            first = self.place.get(n)
            own = first if first in places else min(places)
            for at in places:
                for symbol in tensors_of(op):
                    readers.setdefault(symbol, set()).add(at)
                if at != ELSEWHERE:
                    mine = op if at == own else self.again(op, at)
                    self.there.setdefault(at, []).append(mine)
        return {at: ops[::-1] for at, ops in self.there.items()}

    def places(self, n: int, op: Op, readers: Set[int]) -> Set[int]:
        """Where an operation is done."""
        at = self.place.get(n)
        if at is None:
            return {ELSEWHERE}
        own = {at}
        if not isinstance(op, Compute) or op.reduction is not None or not readers:
            return own
        if len(readers) == 1 and ELSEWHERE not in readers:
            return readers
        others = {at for at in readers - own if at != ELSEWHERE and self.is_as_well_made(n, at)}
        return others if readers == others else own | others

    def is_as_well_made(self, n: int, at: int) -> bool:
        """See Note [Rematerializing]."""
        op = self.named.ops[n]
        made = self.made_of(n)
        if made is None or not isinstance(op, Compute) or made.bits > op.outs[0].element.bits:
            return False
        if is_trivial(op.body[0]) and not made.weight:
            return True
        uses = [read_once for other in self.there.get(at, ()) for read_once in uses_of(op.outs[0].symbol, other)]
        return is_cheap(made.weight, len(uses)) and all(uses)

    def made_of(self, n: int) -> _MadeOf | None:
        """Of what a pointwise operation can be made again, that lies in memory anyway."""
        if n not in self.known:
            self.known[n] = None
            self.known[n] = self._made_of(self.named.ops[n])
        return self.known[n]

    def _made_of(self, op: Op) -> _MadeOf | None:
        if not isinstance(op, Compute) or op.reduction is not None or len(op.outs) != 1 or not op.axes or may_stop(op):
            return None
        axes = {axis.symbol for axis in op.axes}
        last = op.axes[-1].symbol
        bits, work = 0, weight(op.body[0], frozenset((last,)))
        for read in dict.fromkeys(node for node in nodes(op.body[0]) if isinstance(node, Read)):
            along = dims_variables(read) & axes
            if read.padding is not None or read.checked is not None or not all(isinstance(x, Dim) for x in read.subscripts):
                return None
            if last not in along or (along == {last} and len(axes) > 1):
                continue
            if bare(read.subscripts[-1]) != last or any(last in x.variables for x in read.subscripts[:-1] if isinstance(x, Dim)):
                return None
            inner = self.read_of(read)
            if inner is None:
                return None
            bits, work = bits + inner.bits, work + inner.weight
        return _MadeOf(bits, work)

    def read_of(self, read: Read) -> _MadeOf | None:
        """A tensor, if that is in memory anyway, or what it is made of, if that has no more bits."""
        maker = self.named.makers.get(read.tensor)
        own = None if maker is None else self.place.get(maker)
        if maker is None or own is None:
            return _MadeOf(read.element.bits, 0)
        made = self.made_of(maker)
        if read.tensor not in self.named.results and all(self.place.get(n) == own for n in self.named.readers[read.tensor]):
            return made
        return made if made is not None and made.bits <= read.element.bits else _MadeOf(read.element.bits, 0)

    def again(self, op: Op, at: int) -> Op:
        """The operation under names of its own, which the others in that place read."""
        assert isinstance(op, Compute)
        (out,), (body,) = op.outs, op.body
        copy = replace(out, symbol=_again(out.symbol, at))
        names = {out.symbol: copy.symbol}
        self.there[at] = [with_tensors(other, names) if out.symbol in tensors_of(other) else other for other in self.there[at]]
        return renamed(
            replace(op, outs=(copy,), body=(freshened(body),)), {axis.symbol: fresh(axis.symbol.name) for axis in op.axes}
        )


@lru_cache(maxsize=4096)
def _again(symbol: Symbol, place: int) -> Symbol:
    """Of a value that is made in a place again: the same in everything that is made of one program."""
    return fresh(symbol.name)
