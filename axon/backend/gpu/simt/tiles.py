"""Maps that read across: a block takes a rectangle of the result, and brings what lies the other way through shared memory.

`y[j, i] = x[i, j]` stores along i and reads along j. The threads of a block fetch a rectangle of `x` along j, keep it in shared
memory, and then each takes neighbours along i from there: both sides of memory see whole lines, two of them where elements are
small and there are enough.

Note [Turned rows]
    In shared memory a row (along j) keeps its 16-byte pieces in an order of its own: piece p of row i lies at p ^ (i / v % 8),
    where v neighbours are stored together. A thread that takes v rows below each other finds them in one column of that pattern,
    and the threads beside it in other banks. Elements of 8 and 16 bits are taken by words of 32 bits, which hold elements of four
    or two rows of the result: the thread makes them all.

Note [Shifted rows]
    `x[i, j - 1 | 0]` begins rows of a rectangle beside multiples of 16 bytes. Threads fetch what is aligned in the tensor, one
    vector more for each row, and put each of its elements where it belongs, those that belong to the rectangle. A vector is inside
    of the tensor or outside as a whole, since rows of the tensor are whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from contextlib import ExitStack, contextmanager
from math import prod
from typing import TYPE_CHECKING

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.access import ACCESS, Access, accesses, aligned, divides, is_beside, is_steady, steady, unit_of
from axon.backend.gpu.simt.writer import Lane
from axon.backend.kernel.ir import Expression, Name, call
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner, reduced
from axon.base.data import dataclass, replace
from axon.base.identity import IdentitySet
from axon.base.names import Symbol
from axon.core.ir import Axis, Const, Read, Scalar, Scan, Value
from axon.core.scalar_facts import certain, is_inside
from axon.core.walk import reads, scalars
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.simt.emit import PlainEmitter

SIDES = (128, 64)  # elements
LEAST = 8  # elements of a short side
EACH_BLOCK = 512  # elements of a rectangle at least
FEW = 8  # elements of a thread, of a small rectangle
ROOM = 32 * 1024  # bytes of shared memory up to which the longer sides are taken: four blocks and more share a multiprocessor
MOST = 160 * 1024  # bytes of shared memory for the rectangles
EACH = 32  # elements of a thread
THREADS = 256  # of a block, at least, if its rectangle is not too small for them
PIECE = 16  # bytes that keep together
BANKS = 8  # pieces that lie in different banks
WORD = 4  # bytes that a thread takes together
LEAST_FETCH = 8  # bytes that a thread fetches together, or else one element


@dataclass(frozen=True, slots=True)
class Across:
    """The axis that lies side by side in what is read across, the numbers of those reads, and how many are fetched together, where
    rows of a rectangle begin or, `shifted`, where vectors of the tensor do.

    A block's rectangle is `tall` along that axis and `wide` along the lane.
    """

    axis: Symbol
    reads: frozenset[int]
    vector: int
    tall: int
    wide: int
    shifted: bool = False

    @property
    def alone(self) -> Across:
        """The same one element at a time."""
        return replace(self, vector=1, shifted=False)

    @property
    def threads(self) -> int:
        elements = self.tall * self.wide
        return max(min(THREADS, elements // FEW), elements // EACH)


@dataclass(frozen=True, slots=True)
class Staged:
    """Where in shared memory a rectangle begins, the bytes of its rows and elements, and the words that a thread took from it."""

    base: Expression
    pitch: int
    size: int
    words: Name | None = None


def across(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> Across | None:
    """What a map reads across, if it reads anything so.

    A rectangle is brought whole. So what is read in a branch must lie inside of its tensor everywhere, whatever the branch asks; of
    a read that is padded with zeros, zeros are brought.
    """
    if len(nest.rows) < 2 or any(isinstance(s, Scan) or inner(s, len(nest.rows)) or reduced(s) for s in nest.steps):
        return None
    lane = nest.rows[-1]
    if lane.extent.evaluate(sizes) == 1:  # threads lie along the axis before
        return None
    own = {out.symbol for step in nest.steps for out in step.outs}  # which is not in memory yet
    whole = {(n.tensor, n.subscripts) for n in _inside(nest, values) if n.tensor not in own}
    found: dict[Symbol, set[int]] = {}
    for number, access in enumerate(accesses(nest, True)):
        unit = unit_of(tensors[access.tensor]) if access.tensor in tensors else -1
        if access.store or (access.tensor, access.subscripts) not in whole or is_steady(access.subscripts, lane.symbol):
            continue
        if is_beside(access.subscripts, lane.symbol, unit) or unit < 0 or not steady(access.subscripts[unit], lane.symbol):
            continue
        for axis in nest.rows[:-1]:
            if is_beside(access.subscripts, axis.symbol, unit) and _plain(access.subscripts, lane.symbol):
                found.setdefault(axis.symbol, set()).add(number)
    if not found:
        return None
    chosen, numbers = max(found.items(), key=lambda pair: len(pair[1]))
    extents = {a.symbol: a.extent for a in nest.rows}
    made = list({(a.tensor, a.subscripts): a for n, a in enumerate(accesses(nest, True)) if n in numbers}.values())
    bytes_ = [max(1, tensors[a.tensor].element.bits // 8) for a in made]
    long, short = SIDES
    if short * short * sum(bytes_) > min(MOST, target.shared_per_block):
        return None
    most = long if long * long * sum(bytes_) <= ROOM else short
    least = max(LEAST, PIECE // min(bytes_)), LEAST
    tall, wide = _rectangle([extents[s].evaluate(sizes) for s in (chosen, lane.symbol)], most, least)
    padded = any((a.tensor, a.subscripts) in _padded(nest) for a in made)
    along = Axis(chosen, extents[chosen])
    vector = min(8, ACCESS // min(bytes_))
    while vector * min(bytes_) >= LEAST_FETCH:
        fine = not padded and divides(vector, extents[chosen], sizes)
        if fine and all(aligned(Access(a.tensor, a.subscripts, along), tensors[a.tensor], sizes, vector) for a in made):
            return Across(chosen, frozenset(numbers), vector, tall, wide)
        # Threads beside each other fetch a whole line of larger elements one by one, too.
        if max(bytes_) < WORD and all(_shifts(a, along, nest, tensors[a.tensor], sizes, vector) for a in made):
            return Across(chosen, frozenset(numbers), vector, tall, wide, shifted=True)
        vector //= 2
    return Across(chosen, frozenset(numbers), 1, tall, wide)


def _shifts(access: Access, along: Axis, nest: Nest, tensor: DeviceTensor, sizes: MappingOf[Symbol, int], vector: int) -> bool:
    """Whether rows of a tensor are whole vectors, and those of a rectangle begin so far behind one, each as far as all others."""
    unit = unit_of(tensor)
    subscript = access.subscripts[unit]
    if not isinstance(subscript, Dim) or tensor.shape[unit] % vector:
        return False
    shift = subscript - Dim.of(along.symbol)
    whole = tuple(Dim.of(along.symbol) if d == unit else s for d, s in enumerate(access.subscripts))
    each = shift.variables.isdisjoint(axis.symbol for axis in nest.rows)
    return each and aligned(Access(access.tensor, whole, along), tensor, sizes, vector)


def _rectangle(extents: Sequence[int], most: int, least: Sequence[int]) -> tuple[int, int]:
    """How tall and how wide a block's rectangle is: `most` or half of it each way; where one side is short, the other is longer."""
    whole = [max(own, power(n)) for own, n in zip(least, extents, strict=True)]
    sides = [n if n <= most // 4 else min(n, most) if n > most // 2 else most // 2 for n in whole]
    for own, other in ((0, 1), (1, 0)):
        if sides[other] <= most // 4:
            sides[own] = min(most * most // (4 * sides[other]), whole[own])
    while prod(sides) < EACH_BLOCK:  # also beyond the result: each thread takes something
        sides[sides.index(max(sides))] *= 2
    return sides[0], sides[1]


def power(count: int) -> int:
    """The least power of two that is not below."""
    return 1 << max(0, count - 1).bit_length()


def _inside(nest: Nest, values: MappingOf[Symbol, Value]) -> Iterator[Read]:
    """The reads that are inside of their tensors for every element of the result."""
    extents = {axis.symbol: axis.extent for axis in nest.rows}
    padded = _padded(nest)
    for scalar in (scalar for step in nest.steps for scalar in scalars(step)):
        always = IdentitySet(certain(scalar))
        for read in reads(scalar):
            if (read.tensor, read.subscripts) in padded:
                yield read
            plain = read.padding is None and read.checked is None
            if plain and (read in always or is_inside(read, values[read.tensor], extents)):
                yield read


def _padded(nest: Nest) -> frozenset[tuple[Symbol, tuple[Dim | Scalar, ...]]]:
    """What is read with zeros around it, at subscripts that no data decide."""
    every = (read for step in nest.steps for scalar in scalars(step) for read in reads(scalar))
    zeros = (r for r in every if isinstance(r.padding, Const) and r.padding.value == 0)
    return frozenset((r.tensor, r.subscripts) for r in zeros if all(isinstance(s, Dim) for s in r.subscripts))


def _plain(subscripts: tuple[object, ...], lane: Symbol) -> bool:
    """Whether a lane stands in one subscript, alone."""
    using = [s for s in subscripts if not isinstance(s, Dim) or lane in s.variables]
    return len(using) == 1 and isinstance(using[0], Dim) and using[0] == Dim.of(lane)


@contextmanager
def tiled_rows(emitter: PlainEmitter) -> Iterator[None]:
    """The elements of a rectangle that a thread takes, after what is read across was brought."""
    code, writer, mapping, nest = emitter.code, emitter.writer, emitter.mapping, emitter.nest
    cut = mapping.across
    assert cut is not None
    lane = nest.rows[-1]
    (other,) = (a for a in nest.rows if a.symbol == cut.axis)
    rest_axes = tuple(a for a in nest.rows if a not in (lane, other))
    limit, high = emitter.extent(lane), emitter.extent(other)
    local = code.local
    above, outer, left, top = local("above"), local("outer"), local("left"), local("top")
    code.assign(local("across"), call("unsigned_divide", limit + (cut.wide - 1), cut.wide))
    code.assign(local("below"), call("unsigned_divide", high + (cut.tall - 1), cut.tall))
    code.assign(above, call("unsigned_divide", local("block"), local("across")))
    code.assign(left, (local("block") - above * local("across")) * cut.wide)
    code.assign(outer, call("unsigned_divide", above, local("below")))
    code.assign(top, (above - outer * local("below")) * cut.tall)
    emitter.indices(rest_axes, [emitter.extent(a) for a in rest_axes], outer)
    for axis in (lane, other):
        writer.extents[axis.symbol] = axis.extent
    i, j = emitter.name(other.symbol), emitter.name(lane.symbol)
    emitter.bytes = 0
    for number, access in enumerate(accesses(nest, True)):
        key = access.tensor, access.subscripts
        if number in cut.reads and key not in emitter.staged:
            emitter.staged[key] = _bring(emitter, access, i, j, limit, high)
    code.call("block_sync")
    vector = mapping.vector
    each, turns = cut.wide // vector, cut.tall * cut.wide // vector // cut.threads
    (least, *_) = sizes = sorted({kept.size for kept in emitter.staged.values()})
    several = WORD // least if len(sizes) == 1 and least < WORD and turns * least >= WORD else 1
    place, band, over, down = local("place"), local("band"), local("over"), local("down")
    with writer.branch(code.loop(local("turn"), turns // several)):
        code.assign(place, local("turn") * cut.threads + local("thread"))
        code.assign(band, call("unsigned_divide", place, each))
        code.assign(over, (place - band * each) * vector)
        for (tensor, subscripts), kept in emitter.staged.items() if several > 1 else ():
            at = _turned(kept, over, band * WORD, vector)
            lanes = f"_{vector}" if vector > 1 else ""
            words = code.let(call(f"packed_{emitter.values[tensor].element.value}{lanes}", at, kept.pitch), "words_")
            emitter.staged[tensor, subscripts] = replace(kept, words=words)
        with ExitStack() as stack:
            if several > 1:
                stack.enter_context(writer.branch(code.loop(local("nth"), several)))
            code.assign(down, band * several + local("nth") if several > 1 else band)
            code.assign(i, top + down)
            code.assign(j, left + over)
            there = writer.there((i, high), (j, limit))
            writer.lane = Lane(lane.symbol, j, vector)
            with writer.masked(there, False):
                yield
            writer.lane = None


def _bring(emitter: PlainEmitter, access: Access, i: Name, j: Name, limit: Expression, high: Expression) -> Staged:
    """A rectangle of what is read into shared memory."""
    code, writer, cut = emitter.code, emitter.writer, emitter.mapping.across
    assert cut is not None
    value = emitter.values[access.tensor]
    size = max(1, value.element.bits // 8)
    local = code.local
    made = Staged(local("shared") + emitter.bytes, cut.tall * size, size)
    emitter.bytes += cut.wide * made.pitch
    if cut.shifted:
        _bring_shifted(emitter, access, made, i, j, limit, high)
        return made
    each = cut.tall // cut.vector
    lanes = f"_{cut.vector}" if cut.vector > 1 else ""
    place, down, over = local("place"), local("down"), local("over")
    with writer.branch(code.loop(local("turn"), cut.tall * cut.wide // cut.vector // cut.threads)):
        code.assign(place, local("turn") * cut.threads + local("thread"))
        code.assign(down, call("unsigned_divide", place, each))
        code.assign(over, (place - down * each) * cut.vector)
        code.assign(i, local("top") + over)
        code.assign(j, local("left") + down)
        there = writer.there((i, high), (j, limit))
        if (access.tensor, access.subscripts) in _padded(emitter.nest):
            there = call("both", there, writer.inside(access.subscripts, value.shape))
        writer.lane = Lane(cut.axis, i, cut.vector)
        at = writer.first_offset(access.tensor, access.subscripts)
        writer.lane = None
        brought = writer.call(f"fetch_{value.element.value}{lanes}", emitter.pointer(access.tensor), at, there)
        at = _turned(made, down, over * size, emitter.mapping.vector)
        code.call(f"stage_{value.element.value}{lanes}", at, brought)
    return made


def _bring_shifted(
    emitter: PlainEmitter, access: Access, made: Staged, i: Name, j: Name, limit: Expression, high: Expression
) -> None:
    """See Note [Shifted rows]."""
    code, writer, cut = emitter.code, emitter.writer, emitter.mapping.across
    assert cut is not None
    value, local, unit = emitter.values[access.tensor], emitter.code.local, emitter.units[access.tensor]
    subscript = access.subscripts[unit]
    assert isinstance(subscript, Dim)
    shift = code.let(writer.dim(subscript - Dim.of(cut.axis)), "shift_")
    begin = code.let(local("top") + shift, "begin_")
    first = code.let(begin - (begin & (cut.vector - 1)), "first_")
    each = cut.tall // cut.vector + 1
    place, down, over = local("place"), local("down"), local("over")
    name = f"{value.element.value}_{cut.vector}"
    with writer.branch(code.loop(local("turn"), -(-each * cut.wide // cut.threads))):
        code.assign(place, local("turn") * cut.threads + local("thread"))
        code.assign(down, call("unsigned_divide", place, each))
        code.assign(over, first + (place - down * each) * cut.vector)
        code.assign(i, over - shift)
        code.assign(j, local("left") + down)
        there = writer.there((i, high), (j, limit))
        if (access.tensor, access.subscripts) in _padded(emitter.nest):
            within = writer.inside(access.subscripts, value.shape)
        else:
            within = writer.call("both", call("ge_int", over, 0), call("lt_int", over, writer.dim(value.shape[unit])))
        there = call("both", there, within)
        writer.lane = Lane(cut.axis, i, cut.vector)
        at = writer.first_offset(access.tensor, access.subscripts)
        writer.lane = None
        brought = writer.call(f"fetch_{name}", emitter.pointer(access.tensor), at, there)
        row, turn = _row(made, down, emitter.mapping.vector)
        with code.when(down < cut.wide):
            code.call(f"realign_{name}", row, over - begin, cut.tall, turn, brought)


def _row(kept: Staged, row: Expression, vector: int) -> tuple[Expression, Expression]:
    """Where a row begins, and what its pieces are turned by; see Note [Turned rows]."""
    pieces = min(BANKS, kept.pitch // PIECE)
    return kept.base + row * kept.pitch, (row >> (vector.bit_length() - 1) & (pieces - 1)) * PIECE


def _turned(kept: Staged, row: Expression, at: Expression, vector: int) -> Expression:
    """The address of what lies at so many bytes of a row; see Note [Turned rows]."""
    begin, turn = _row(kept, row, vector)
    return begin + (at ^ turn)


def staged(emitter: PlainEmitter, element: str, kept: Staged) -> Expression:
    """What a thread takes from a rectangle, at its row `down` of the result."""
    vector, local = emitter.mapping.vector, emitter.code.local
    name = element + (f"_{vector}" if vector > 1 else "")
    if kept.words is not None:
        return call(f"unpacked_{name}", kept.words, local("nth"))
    return call(f"staged_{name}", _turned(kept, local("over"), local("down") * kept.size, vector), kept.pitch)
