"""In which way a program's operations become kernels, decided by sizes and how tensors lie, before anything is built.

Note [Ways]
    Where every kernel fits, a program runs as it is: also products in f32, whose factors are split into limbs first (see
    `tile.limbs`). Of one that does not fit, the operations are made in another way:

      merging  the several axes that one factor has alone are rows, or columns, as one; or the product is made in another order of
               indices and put in its own after (see `merging`, `tile.regroup`). This is decided first, by cost
      before   factors are computed by a kernel before, and not on the way to the tensor cores, which the compiler has refused
      paged    keys and values of a stream that are only gathered, in pages, are read where they lie (see `packed`, `layout.pages`)
      rows     a stream's tiles have rows of another index: of the heads that share keys where positions are few (see `dividing`)
      divided  parts of the keys of a stream with few rows are streams of their own, rows that share keys are one tile's
               (see `dividing`, `tile.divided`)
      reached  a stream whose condition compares data leaves out the keys that no row of a tile sees (see `reaching`, `tile.reach`)
      widened  the 8-bit factors of a stream are 16-bit ones: no tile holds them as they are, or it is faster (see `dividing`)
      packed   an operand that bulk copies cannot read as it lies is copied first, in rows that they can read (see `packed`)
      apart    a stream's operations run one by one; also those of one that makes scores again, which others make too, where it is
               better to keep them (see `tile.recompute`), and of one in f32 of which limbs make more work than they save
      alone    products that share a factor, of which one kernel could make all, are kernels of their own: that takes less time, or
               one of several accumulators does not fit (see `tile.siblings`)
      bare     with the operations on its product no mapping of a contraction fits the registers, or it takes longer than two
               kernels: they run after it
      ones     a nest of reductions whose last row axis has one index goes along the one before (a matrix times one column)
      parts    a reduction that is split is cut along the axes of which its sizes make several parts, and along none if that is
               none (see `plan.split`)
      spread   a nest of few long rows, of which a cluster cannot hold one: what they reduce is reduced in parts, what they scan is
               scanned in slices (see `plan.spread`)
      spaced   what lies between kernels begins its rows at multiples of 16 bytes: decided last (see `packed`)
      plain    a product that is left runs without the tensor cores; also one in f32 of which limbs would make more work than
               they save, or would take too much memory
      placed   a tensor that is put together of others has these in their places from the start, if no kernel loses bulk copies by
               that (see `tile.assembled`). This is decided last, of the kernels that there are

    All kernels of one way are looked at, then those of the way that follows, until each fits. Whether a mapping fits its registers
    only the compiler knows; what it has refused is part of what is decided by, so it is never tried twice.

    A kernel whose mapping the user gives is not looked at: what is wrong with that is an error. What the user
    allows products to lose (factors rounded to tf32, sums of 8-bit floats that are not promoted) holds in every way.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Set
from functools import cached_property, partial
from math import prod
from typing import assert_never

from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout.memory import SPACED, DeviceTensor, aligned, contiguous
from axon.backend.gpu.layout.products import Precision
from axon.backend.gpu.layout.target import WGMMA, Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View, with_views
from axon.backend.gpu.runtime.dividing import better_one_by_one, better_rows, better_widened, division
from axon.backend.gpu.runtime.merging import Merged, merged
from axon.backend.gpu.runtime.packed import (
    Packing,
    all_gathered,
    packings,
    read_by,
    spacing,
    unpacked,
    with_copies,
    without_gathered,
)
from axon.backend.gpu.runtime.prepare import Prepared, copied, fit, is_empty
from axon.backend.gpu.runtime.reaching import with_reaches, worth_reaching
from axon.backend.gpu.runtime.spreading import rows_to_spread
from axon.backend.gpu.simt.mapping import widest
from axon.backend.gpu.tile.assembled import Assembly, assemblies, in_place
from axon.backend.gpu.tile.contraction import MatrixProduct, Merging, contraction
from axon.backend.gpu.tile.divided import Division, divided, state_of
from axon.backend.gpu.tile.eight_bits import in_eight_bits
from axon.backend.gpu.tile.epilogue_cost import better_bare
from axon.backend.gpu.tile.families import Kernel, Tiled, kernels, nests, results_of, views_of, with_pages
from axon.backend.gpu.tile.limbs import better_apart, dearer, limbed
from axon.backend.gpu.tile.recompute import Recomputed, better_kept, recomputed
from axon.backend.gpu.tile.regroup import named, regrouped
from axon.backend.gpu.tile.siblings import better_alone
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.codes import with_codes
from axon.backend.plan.ir import Nest, Parting
from axon.backend.plan.lanes import reduced
from axon.backend.plan.reshapes import reshapes
from axon.backend.plan.scratch import ALIGNMENT
from axon.backend.plan.split import parting
from axon.backend.plan.spread import Cut
from axon.base.data import dataclass, field, replace
from axon.base.names import Symbol
from axon.core.ir import Block, Compute, Program, Value
from axon.core.known import present
from axon.core.walk import outs_of

LONG_ROW = 8192  # elements, through which a block goes in a few turns
NO_MAPPING = "no mapping fits this kernel"
REFUSED = "no mapping fits its sizes and the registers"  # which the compiler has said
Symbols = frozenset[Symbol]
NONE: Symbols = frozenset()
NOTHING: Mapping[Symbol, DeviceTensor] = {}


@dataclass(frozen=True, slots=True)
class Way:
    """How a program's operations become kernels, by what these store. See Note [Ways]. `why` words the reasons for some."""

    plain: Symbols = NONE
    apart: Symbols = NONE
    alone: Symbols = NONE
    bare: Symbols = NONE
    packed: frozenset[Packing] = frozenset()
    merging: Merged = frozenset()
    before: Symbols = NONE
    spread: frozenset[tuple[Symbol, Cut]] = frozenset()
    divided: frozenset[tuple[Symbol, Division]] = frozenset()
    rows: frozenset[tuple[Symbol, int]] = frozenset()
    reached: Symbols = NONE
    widened: Symbols = NONE
    paged: Symbols = NONE
    ones: Symbols = NONE  # sizes
    parts: frozenset[tuple[Symbol, Parting]] = frozenset()
    spaced: Symbols = NONE
    placed: Symbols = NONE
    precision: Precision = Precision.WHOLE  # what products may lose (see `layout.products`)
    why: tuple[tuple[Symbol, str], ...] = field(default=(), compare=False)

    def __or__(self, other: Way) -> Way:
        names = ("plain", "apart", "alone", "bare", "packed", "merging", "before", "spread", "divided", "rows", "reached",
                 "widened", "paged", "ones", "parts", "spaced", "placed", "precision")  # fmt: skip
        return Way(**{name: getattr(self, name) | getattr(other, name) for name in names}, why=(*self.why, *other.why))

    @property
    def merges(self) -> dict[Symbol, Merging]:
        """How sides are merged, by what contractions make."""
        return {symbol: merging for symbol, merging in self.merging if merging.beside is None or symbol not in self.before}


AS_IT_IS = Way()


@dataclass(frozen=True)
class Planned:
    """A program's kernels in one way; nothing of it is built. Bulk copies can read the rows of `copies` and of what is `spaced`, of
    the last dimension of each, or of so many. What `assembled` tensors are put together of lies in these."""

    program: Program
    way: Way
    kernels: tuple[Kernel, ...]
    copies: Mapping[Symbol, int]
    spaced: Mapping[Symbol, int]
    assembled: tuple[Assembly, ...] = ()

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """Every tensor that the kernels read, store, or keep between their steps."""
        stored = (value for kernel in self.kernels for value in results_of(kernel))
        inside = (out for kernel in self.kernels if isinstance(kernel, Nest) for step in kernel.steps for out in step.outs)
        whole = (assembly.whole for assembly in self.assembled)
        return tuple(dict.fromkeys([*self.program.inputs, *stored, *inside, *whole]))

    @cached_property
    def known(self) -> dict[Symbol, Value]:
        return {value.symbol: value for value in self.values}

    @cached_property
    def within(self) -> dict[Symbol, View]:
        """Of a tensor that lies in another one where that is."""
        return {part.value.symbol: part for assembly in self.assembled for part in assembly.parts}

    @cached_property
    def assemblies(self) -> tuple[Assembly, ...]:
        """What kernels put together of tensors that could lie in it."""
        kept = {*self.program.block.results, *self.copies, *self.spaced, *self.within}
        kept |= {assembly.whole.symbol for assembly in self.assembled}
        return tuple(assemblies(self.kernels, kept, self.program.inputs))

    def memory(self, symbol: Symbol) -> Symbol:
        """The tensor in whose memory one lies: itself, but for parts of others."""
        return self.within[symbol].source if symbol in self.within else symbol

    def lying(self, sizes: Mapping[Symbol, int], given: Mapping[Symbol, DeviceTensor] = NOTHING) -> dict[Symbol, DeviceTensor]:
        """All values, those that are `given` as they lie; others one by one, copies, limbs and what is spaced in rows that bulk
        copies can read, and parts of a tensor in it."""
        own = (value for value in self.values if value.symbol not in self.within)
        whole = {**{value.symbol: self.lies(value, sizes) for value in own}, **given}
        return with_views(self.within.values(), whole, sizes)

    def shown(self, sizes: Mapping[Symbol, int], between: Mapping[Symbol, DeviceTensor]) -> dict[Symbol, Symbol]:
        """What lies `between` kernels and is another tensor there in another shape: where both are without spaces, it lies where
        that does. By its symbol, the tensor that a kernel makes."""
        same: dict[Symbol, Symbol] = {}
        made = ((kernel, results_of(kernel)) for kernel in self.kernels)
        for source, out in reshapes(made, self.program.block.results, sizes).items():
            both = [between.get(symbol) for symbol in (source, out.symbol)]
            if all(t is not None and t == contiguous(t.pointer, t.shape, t.element) for t in both):
                same[out.symbol] = same.get(source, source)
        return same

    def lies(self, value: Value, sizes: Mapping[Symbol, int]) -> DeviceTensor:
        """A value by itself."""
        copy, spaced = self.copies.get(value.symbol), self.spaced.get(value.symbol)
        shape = tuple(max(0, d.evaluate(sizes)) for d in value.shape)
        if spaced:
            return aligned(ALIGNMENT, shape, value.element, spaced, SPACED)
        return aligned(ALIGNMENT, shape, value.element, copy) if copy else contiguous(ALIGNMENT, shape, value.element)


def only_shows(kernel: Kernel, same: Container[Symbol]) -> bool:
    """Whether all that a kernel stores is what other kernels make: it is not launched."""
    return isinstance(kernel, Nest) and all(symbol in same for symbol in kernel.stored)


def plan(program: Program, target: Target, way: Way = AS_IT_IS) -> Planned:
    """The kernels of a program on a chip in a way. Raises `Unsupported` for one that is not straight (see `parts`)."""
    merging = way.merges
    without = "" if target.has(WGMMA) else f"{target.name} has no {WGMMA.name}"
    again = Recomputed(present(program)) if without else recomputed(program, way.plain | way.apart)
    coded = again.program if without else with_codes(again.program, partial(_is_taken, again.program))
    ordered = regrouped(coded, merging)
    cuts = dict(way.spread)
    said = dict(way.why)
    found = {symbol: each for symbol, each in all_gathered(ordered).items() if symbol in way.paged}
    why = {symbol: reason for symbol, reason in said.items() if symbol in way.plain or symbol not in way.alone}
    alone = {symbol: said.get(symbol, "") for symbol in way.alone}
    while True:
        apart = without_gathered(ordered, found)
        made = kernels(
            apart,
            way.plain,
            way.apart,
            why,
            way.bare,
            named(merging),
            cuts,
            again.kept,
            way.ones,
            without,
            alone,
            dict(way.rows),
            dict(way.parts),
        )
        done = tuple(with_pages(with_reaches(with_divisions(made, dict(way.divided), apart), way.reached, apart), found, apart))
        kept = {symbol for kernel in done for symbol in read_by(kernel, apart)} & found.keys()
        if not kept:
            break
        found = {symbol: each for symbol, each in found.items() if symbol not in kept}  # something else has to have it in memory
    short = in_eight_bits(done, ordered, precision=way.precision, widened=way.widened)
    whole = limbed(short.kernels, ordered, precision=way.precision)
    packed = with_copies(whole.kernels, way.packed, ordered.block.results)
    groups = (kernel.grouping for kernel in packed.kernels if isinstance(kernel, MatrixProduct) and kernel.grouping is not None)
    copies = packed.copies | {copy.symbol: 1 for grouping in groups for copy in grouping.copies}
    spaced = {**short.copies, **whole.limbs, **packed.spaced, **dict.fromkeys(way.spaced, 1)}
    placed = in_place(packed.kernels, way.placed, {*copies, *spaced}, ordered)
    return Planned(program, way, placed.kernels, copies, spaced, placed.assemblies)


def _is_taken(program: Program, op: Compute) -> bool:
    """Whether the tensor cores take a sum of products; where sizes then make a plain kernel of it, that reads as few bytes."""
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for each in program.block.ops for out in outs_of(each)}
    try:
        contraction(op, values)
    except Unsupported:
        return False
    return True


def with_divisions(made: Iterable[Kernel], divisions: Mapping[Symbol, Division], program: Program) -> Iterator[Kernel]:
    """The kernels with divided streams, by their first results, in place of whole ones, and what puts their parts together."""
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    for kernel in made:
        how = divisions.get(results_of(kernel)[0].symbol) if isinstance(kernel, Stream) else None
        if how is None or not isinstance(kernel, Stream):
            yield kernel
            continue
        parts = divided(kernel, how)
        yield parts.stream
        held = {value.symbol: value for value in results_of(parts.stream)}
        held |= {out.symbol: out for op in parts.after for out in op.outs}
        after = replace(program, block=Block(parts.after, tuple(result.value.symbol for result in kernel.results)))
        yield from nests(after, parts.after, frozenset(after.block.results), values | held, whole=True)


Left = Callable[[int, Prepared], str | float]  # the seconds of the best mapping left for a kernel; why none is: NO_MAPPING, REFUSED


def following(
    planned: Planned,
    tensors: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    left: Left,
    target: Target,
    given: Set[int] = frozenset(),
) -> Way:
    """The way after this one, for tensors that lie like these: this one, if every kernel fits. The user gives the mappings of the
    kernels with the numbers `given`."""
    lying = planned.lying(sizes, tensors)
    way = _fitting(planned, lying, sizes, left, target, given)
    if way == planned.way and not way.spaced and not given:
        own = {out.symbol for op in planned.program.block.ops for out in outs_of(op)}  # other names are new in each plan
        own -= {*planned.copies, *planned.spaced, *planned.program.block.results, *tensors}
        way |= Way(spaced=spacing(planned.kernels, planned.known, own, lying, sizes, target))
    if way != planned.way:
        return replace(way, placed=NONE)  # that is decided anew, of other kernels
    return way if given else way | Way(placed=frozenset(_placed(planned, tensors, lying, sizes)))  # those keep their numbers


def _fitting(
    planned: Planned,
    lying: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    left: Left,
    target: Target,
    given: Set[int],
) -> Way:
    """The way in which a kernel that does not fit is made otherwise."""
    way = planned.way
    open_ = [kernel for number, kernel in enumerate(planned.kernels) if number not in given]
    taken, has = way.merges.keys() | way.plain, target.has(WGMMA)
    merging = (
        merged(planned.program, open_, taken, lying, sizes, target, precision=way.precision, refused=way.before) if has else None
    )
    if merging:
        return way | Way(merging=merging)
    decided = {out for first, _ in way.divided for out in (first, state_of(first))}
    paged = unpacked(planned.program, planned.kernels, lying, sizes, target) - way.paged if has and not given else NONE
    if paged:
        return way | Way(paged=paged)
    streams = (kernel for kernel in open_ if isinstance(kernel, Stream))
    divisions = {results_of(kernel)[0].symbol: division(kernel, decided, sizes, target) for kernel in streams}
    if any(divisions.values()):
        return way | Way(divided=frozenset((symbol, how) for symbol, how in divisions.items() if how is not None))
    rows = {k.made[0]: better_rows(k, sizes, target) for k in open_ if isinstance(k, Stream) and k.made and k.part is None}
    other = frozenset((symbol, place) for symbol, place in rows.items() if place is not None and symbol not in dict(way.rows))
    if other:
        return way | Way(rows=other)
    for number, kernel in enumerate(planned.kernels):
        if is_empty(kernel, sizes) or number in given:
            continue
        if isinstance(kernel, Nest):
            parts = None if kernel.divided is None else parting(kernel.divided, sizes)
            if kernel.divided is None:
                way |= Way(ones=_ones(kernel, sizes, target))
            elif parts is not None:
                way |= Way(parts=frozenset((symbol, parts) for symbol in kernel.divided.results))
            cut = rows_to_spread(kernel, planned.known, lying, sizes, target)
            way |= Way(spread=frozenset(() if cut is None else ((kernel.stored[0], cut),)))
        else:
            way |= _needed(planned.way, kernel, lying, sizes, partial(left, number), target)
            if isinstance(kernel, Stream) and worth_reaching(kernel, sizes, target):
                way |= Way(reached=frozenset((results_of(kernel)[0].symbol,)))
    return way


def _placed(
    planned: Planned, given: Mapping[Symbol, DeviceTensor], lying: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int]
) -> Iterator[Symbol]:
    """What may be assembled in place."""
    tiled = [kernel for kernel in planned.kernels if not isinstance(kernel, Nest) and not is_empty(kernel, sizes)]
    for assembly in planned.assemblies:
        parts = {part.value.symbol for part in assembly.parts}
        if not parts.isdisjoint(given) or not assembly.fills(sizes):
            continue
        try:
            placed = with_views(assembly.parts, lying, sizes)
        except Unsupported:
            continue
        if any(placed[part].strides[-1:] != (1,) for part in parts if placed[part].shape[-1:] != (1,) and placed[part].shape):
            continue  # neighbours would not lie side by side
        touching = (kernel for kernel in tiled if not parts.isdisjoint(_seen(kernel)))
        if all(copied(kernel, lying, sizes) <= copied(kernel, placed, sizes) for kernel in touching):
            yield assembly.whole.symbol


def _seen(kernel: Tiled) -> set[Symbol]:
    """The tensors that a kernel reads as factors, stores, or sees views of."""
    own = {operand.value.symbol for operand in kernel.operands} | {view.source for view in views_of(kernel)}
    return own | {value.symbol for value in results_of(kernel)}


def _ones(nest: Nest, sizes: Mapping[Symbol, int], target: Target) -> Symbols:
    """The size of the last row axis, where that is 1 and in the way of reductions: of rows enough for a block each, or so short
    that a block is soon done with one."""
    last = nest.rows[-1].extent.symbol if len(nest.rows) > 1 else None
    if last is None or sizes.get(last) != 1 or not any(map(reduced, nest.steps)):
        return NONE
    many = prod(axis.extent.evaluate(sizes) for axis in nest.rows) >= target.multiprocessors
    return frozenset((last,)) if many or widest(nest, sizes) <= LONG_ROW else NONE


def _needed(
    way: Way,
    kernel: Tiled,
    tensors: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    left: Callable[[Prepared], str | float],
    target: Target,
) -> Way:
    """What one kernel asks for; nothing, if it fits."""
    packed = packings(kernel, tensors, sizes, target) - way.packed
    if packed:
        return Way(packed=packed)
    ready = fit(kernel, tensors, sizes)
    seconds = ready if isinstance(ready, str) else left(ready)
    reason = seconds if isinstance(seconds, str) else None
    if isinstance(seconds, float) and isinstance(ready, Prepared):
        facts = traits(ready.kernel)
        if isinstance(kernel, MatrixProduct):
            reason = dearer(kernel, ready.problem, facts, sizes, target) or better_alone(kernel, ready.problem, facts, target)
            stored = frozenset(result.value.symbol for result in kernel.results)
            fused = not reason and stored.isdisjoint(way.bare)
            later = better_bare(kernel, ready.problem, facts, target, seconds) if fused else None
            if later is not None:
                return Way(bare=stored, why=tuple((symbol, later) for symbol in stored))
        elif kernel.further:
            reason = better_apart(kernel, ready.problem, facts, sizes, target)
        elif kernel.results[0].value.symbol not in way.widened and better_widened(kernel, sizes, target):
            return Way(widened=frozenset((kernel.results[0].value.symbol,)))
        elif kernel.copies:
            reason = better_one_by_one(kernel, sizes, target)
        elif kernel.again:
            reason = better_kept(ready.problem, facts, target)
    if reason is None:
        return AS_IT_IS
    if isinstance(kernel, MatrixProduct) and kernel.siblings:
        return Way(alone=frozenset(kernel.every_made), why=tuple((made, reason) for made in kernel.every_made))
    if isinstance(kernel, Stream) and any(operand.value.element.bits == 8 for operand in kernel.operands):
        return Way(widened=frozenset((kernel.results[0].value.symbol,)))
    unfit = frozenset(result.value.symbol for result in kernel.results)
    why = tuple((result.value.symbol, reason) for result in kernel.results)
    match kernel:
        case Stream():
            whole = {state_of(first): first for first, _ in way.divided}
            unfit = frozenset(whole.get(symbol, symbol) for symbol in unfit)
            return Way(apart=unfit, why=tuple((whole.get(symbol, symbol), reason) for symbol, reason in why))
        case MatrixProduct(computed=computed) if computed is not None and reason == REFUSED:
            whole_of = {within: out for out, merging in way.merges.items() for within in named({out: merging})}
            return Way(before=frozenset((whole_of[kernel.made],)), why=why)
        case MatrixProduct():
            return Way(bare=unfit, why=why) if reason == REFUSED and unfit.isdisjoint(way.bare) else Way(plain=unfit, why=why)
        case _:
            assert_never(kernel)
