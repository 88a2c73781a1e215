"""Along which axes a contraction's tiles are cut, by cost: of several that a factor has alone the last, or all of them as one.

Merged, tiles are full where the last axis is short, and a factor that does not know the others is loaded less often. It costs a
copy of a factor in which memory does not step through the several as one; and where the result does not, one of the result. What
an operation on the result would have to do in a kernel of its own counts, too.

A sum is cut into parts where its results are too few for tiles that keep the chip busy.

A scatter that sums products by group stays as it stands where the tensor cores take it so sooner than segments of sorted indices
are summed (see `core.passes.segments`). That is decided before all else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import product
from math import gcd, inf, prod
from typing import TypeAlias

from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout import roofline
from axon.backend.gpu.layout.memory import DeviceTensor, aligned, contiguous
from axon.backend.gpu.layout.products import Precision
from axon.backend.gpu.layout.roofline import LAUNCH, KernelWork, Loads
from axon.backend.gpu.layout.target import WGMMA, Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.packed import MOST_BYTES, copying, is_seen
from axon.backend.gpu.runtime.prepare import problem_of, unreadable
from axon.backend.gpu.tile.computed import MOST_DEPTH, candidates, inlined
from axon.backend.gpu.tile.contraction import (
    APART,
    CHANNELS,
    FILLED,
    Image,
    MatrixProduct,
    Merging,
    contraction,
    factors_of,
    group,
    images,
    scaled,
    sides_of,
    summed_pixels,
    view_of,
    windows,
)
from axon.backend.gpu.tile.families import Kernel, views_of
from axon.backend.gpu.tile.limbs import in_limbs, rounded, splitting, without_tensor_cores
from axon.backend.gpu.tile.ragged import STEPS, Grouped, grouped
from axon.backend.gpu.tile.regroup import in_order, pointwise
from axon.backend.gpu.tile.schedule import ScheduleProblem, Traits, fastest
from axon.backend.gpu.tile.segments import GroupedSum, grouped_sum
from axon.backend.gpu.tile.stacked import stackable, stacked
from axon.backend.plan.ir import Nest
from axon.backend.plan.residues import by_residues
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Block, Compute, Loop, Op, Program, Read, Scalar, Sort, Value
from axon.core.operands import with_tensors
from axon.core.passes.dissolve import copied
from axon.core.passes.parts import Decided, PartChoices
from axon.core.passes.segments import SegmentedScatter
from axon.core.walk import outs_of, tensors_of

PARTS = (4, 16, 64)  # of a sum, or the next fewer of one length: few, since each is a program of its own
LONG = 6144  # summed indices
LEAST_DEPTH = 256  # of a part
FEW_PARTS = (2, 4, 8)  # of a sum of which a factor is computed
GAIN = 0.75  # of the time of a whole sum, above which its parts are not worth two kernels
TILE = 128  # rows and columns, of the tiles that are counted

Merged: TypeAlias = "frozenset[tuple[Symbol, Merging]]"  # by what a contraction makes


def merged(
    program: Program,
    kernels: Sequence[Kernel],
    decided: Set[Symbol],
    tensors: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    target: Target,
    *,
    precision: Precision = Precision.WHOLE,
    refused: Set[Symbol] = frozenset(),
) -> Merged:
    """How sides are best merged, of the contractions in these kernels that are not `decided`; those that are best as they are are
    left out. No factors of those `refused` are computed on the way."""
    values = {value.symbol: value for value in program.inputs}
    values |= {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    numbers = {op.outs[0].symbol: number for number, op in enumerate(program.block.ops) if isinstance(op, Compute)}
    same: dict[Symbol, Symbol] = {}  # copies that no kernel makes: what they are read as
    for each in program.block.ops:
        source = copied(each)
        if source is not None and (copy := outs_of(each)[0].symbol) not in tensors:
            same[copy] = same.get(source, source)
    seen = [with_tensors(op, same) for op in program.block.ops]
    pricer = Pricer(values, tensors, sizes, target, frozenset(program.ascending), precision, pointwise(seen), refused)
    found: dict[Symbol, Merging | None] = {}
    whole = dict.fromkeys(_contracted(kernels))
    # A sum in parts is what the second of two kernels stores.
    stored = (symbol for kernel in kernels if isinstance(kernel, Nest) for symbol in kernel.stored)
    for made in dict.fromkeys((*whole, *stored)):
        symbol = made
        while symbol in numbers and (source := copied(program.block.ops[numbers[symbol]])) is not None:
            symbol = source  # a plain kernel stores what it makes under the name of its copy
        if symbol not in numbers or symbol in decided or symbol in found:
            continue
        op, *later = (op for op in seen[numbers[symbol] :] if isinstance(op, Compute))
        if made in whole or is_grouped(op):
            found[symbol] = pricer.best(op, later)
        elif op.reduction is not None:
            found[symbol] = pricer.computing(op)
    return frozenset((symbol, best) for symbol, best in found.items() if best is not None)


def is_grouped(op: Compute) -> bool:
    """Whether a product's rows have groups which data give: those of its result, or those that it sums."""
    if op.reduction is None:
        return False
    deep, _ = factors_of(op)
    return grouped(op, deep) is not None or grouped_sum(op, deep) is not None


def _contracted(kernels: Iterable[Kernel]) -> Iterator[Symbol]:
    """What is made by sums, in products and in plain kernels."""
    for kernel in kernels:
        if isinstance(kernel, MatrixProduct):
            yield from kernel.every_made
        elif isinstance(kernel, Nest):
            steps = (step for step in kernel.steps if isinstance(step, Compute) and step.reduction is not None)
            yield from (step.outs[0].symbol for step in steps if step.reduction and step.reduction.monoid.kind == "sum")


def for_each_row(points: int, columns: int, depth: int, bytes_: int, target: Target) -> float:
    """Seconds of a plain kernel that makes so many results, and reads for each row of them a matrix of its own."""
    again = Loads(points * depth * bytes_, columns * depth * bytes_)
    return KernelWork(points * bytes_, (again,), 2 * points * depth).seconds(target)


def for_each_group(terms: int, target: Target) -> float:
    """Seconds of a plain kernel that asks of every row for every result's group, so often in all."""
    return KernelWork(0, (), 2 * terms).seconds(target)


@dataclass(frozen=True, slots=True)
class _Priced:
    """A contraction with its sides merged in some way: seconds, beside those of operations that it cannot take in."""

    merging: Merging
    kernel: MatrixProduct
    seconds: float
    taken: frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A way to merge a contraction's sides, and the seconds of all that it asks for."""

    merging: Merging
    seconds: float


@dataclass(frozen=True, slots=True)
class Pricer:
    """What prices depend on."""

    values: Mapping[Symbol, Value]
    tensors: Mapping[Symbol, DeviceTensor]
    sizes: Mapping[Symbol, int]
    target: Target
    ascending: frozenset[Symbol] = frozenset()  # tensors of which it is known
    precision: Precision = Precision.WHOLE  # what products may lose
    producers: Mapping[Symbol, Compute] = field(default_factory=dict)  # pointwise operations, by what they make
    refused: Set[Symbol] = frozenset()  # no factors of these are computed on the way

    def best(self, op: Compute, later: Sequence[Compute]) -> Merging | None:
        """How to merge a contraction's sides; None if it is best as it stands, or is none."""
        if op.reduction is None:
            return None
        deep, _ = factors_of(op)
        if scaled(deep)[1]:
            return None
        found = grouped(op, deep)
        if found is not None:
            return self.in_groups(op, found)
        summed = grouped_sum(op, deep)
        if summed is not None:
            return self.in_segments(op, summed)
        split = by_residues(op)
        if split is not None and (inside := self.best(split.first, (split.last, *later))) is not None:
            return replace(inside, residues=True)
        computing = self.computing(op)
        if computing is not None:
            return computing
        ways = [self.cheapest(op, later), *(self.stacked(op, number, later) for number in stackable(op))]
        best = min(filter(None, ways), key=lambda way: way.seconds, default=None)
        return None if best is None else best.merging

    def computing(self, op: Compute) -> Merging | None:
        """The contraction with factors that consumers compute, if that takes less time than to compute these before."""
        assert op.reduction is not None
        if op.outs[0].symbol in self.refused:
            return None
        deep, shallow = factors_of(op)
        gains: dict[Merging, float] = {}  # seconds
        for beside in candidates(deep):
            whole = inlined(op, deep, shallow, beside, self.producers)
            for merging in (Merging(beside=beside), Merging(columns=True, beside=beside)):
                found = self.computed(whole, merging)
                if found is None or (merging.columns and not found.kernel.merges):
                    continue
                before = self.before(op, deep, beside, found.kernel, problem_of(found.kernel, self.sizes))
                gains[merging] = before - found.seconds
                for cut in self.in_few_tiles(op, found):
                    part = self.computed(whole, cut)
                    if part is not None and part.seconds < GAIN * found.seconds:
                        gains[cut] = before - part.seconds
        best = max(gains, key=gains.__getitem__, default=None)
        return best if best is not None and gains[best] > 0 else None

    def computed(self, whole: Compute, merging: Merging) -> _Priced | None:
        """A contraction, its factors in order, with one that consumers compute; None if there is none."""
        first, *after = in_order(whole, merging)
        made = first.outs[0]
        try:
            kernel, _ = contraction(first, {**self.values, made.symbol: made}, merging)
            problem = problem_of(kernel, self.sizes)
            copied = unreadable(kernel, self.tensors, self.sizes)
        except (Unsupported, KeyError):  # what a plain kernel computes where it is read lies nowhere
            return None
        if min(problem.rows, problem.columns, problem.depth, problem.outer) < 1:
            return None
        seconds = fastest(problem, traits(kernel), self.target)
        seconds += sum(copying(kernel, kernel.operands[number], self.sizes, self.target) for number in copied)
        seconds += self.moved(made, whole.outs[0]) if after else 0.0
        return _Priced(merging, kernel, seconds, frozenset())

    def in_few_tiles(self, op: Compute, one: _Priced) -> Iterator[Merging]:
        """The same with its sum cut into parts, each of whole tiles of the depth, where tiles are too few to keep the chip busy."""
        assert op.reduction is not None
        problem = problem_of(one.kernel, self.sizes)
        tiles = -(-problem.rows // self.target.product_rows) * -(-problem.columns // TILE) * problem.outer
        for parts in FEW_PARTS if tiles < self.target.multiprocessors else ():
            if problem.depth % (parts * MOST_DEPTH) == 0:
                yield replace(one.merging, parts=parts)

    def before(self, op: Compute, deep: Sequence[Scalar], beside: int, kernel: MatrixProduct, problem: ScheduleProblem) -> float:
        """Seconds of a product whose factor is computed before, by a kernel of its own; or where it is read, by a plain one, where
        core has it so."""
        others = [factor for number, factor in enumerate(deep) if number != beside]
        if len(others) > 1 or not isinstance(others[0], Read):
            return without_tensor_cores(kernel, problem, self.sizes, self.target)
        elements = problem.rows * problem.depth * problem.outer
        size = others[0].element.bits // 8
        apart = replace(problem, rows=problem.columns, columns=problem.rows, elements=None, staged=0)
        product = fastest(apart, Traits(kernel.right.value.element, ()), self.target)
        return KernelWork(problem.staged + size * elements).seconds(self.target) + product

    def stacked(self, op: Compute, number: int, later: Sequence[Compute]) -> _Choice | None:
        """The contraction of copies in which this summed axis is stacked with channels, where these are few."""
        assert op.reduction is not None
        made = stacked(op, number, self.values)
        (rows,), (taps,) = made.rows.outs, made.taps.outs
        if rows.symbol in self.tensors or self.shape(rows)[-1] > CHANNELS // 2 or self.bytes(rows) > MOST_BYTES:
            return None
        lying = {v.symbol: contiguous(ALIGNMENT, self.shape(v), v.element) for v in (rows, taps)}
        inside = replace(self, values={**self.values, rows.symbol: rows, taps.symbol: taps}, tensors={**self.tensors, **lying})
        best = inside.cheapest(made.product, later, pixels=True)
        if best is None:
            return None
        made_in = sum(self.copied(value) for value in (rows, taps))
        return _Choice(replace(best.merging, stacked=number), best.seconds + made_in)

    def copied(self, value: Value) -> float:
        """Seconds of a kernel that makes a copy, whose indices it finds by division."""
        shape = self.shape(value)
        return roofline.copying(2 * self.bytes(value), prod(shape), len(shape), shape[-1]).seconds(self.target)

    def bytes(self, value: Value) -> int:
        return prod(self.shape(value)) * max(8, value.element.bits) // 8

    def shape(self, value: Value) -> tuple[int, ...]:
        return tuple(max(0, extent.evaluate(self.sizes)) for extent in value.shape)

    def cheapest(self, op: Compute, later: Sequence[Compute], *, pixels: bool = False) -> _Choice | None:
        """The way that takes least time, of copies of `pixels` alone or of all; None if none is better than as it stands."""
        assert op.reduction is not None
        deep, _ = factors_of(op)
        sides = sides_of(op, deep) if len(deep) == 2 else None
        if sides is None or not sides.rows or not sides.columns:
            return None
        tiled = sides.columns[-1] == op.axes[-1]  # as it stands
        choices = product(*((True, False) if len(side) > 1 else (False,) for side in (sides.rows, sides.columns)))
        numbers = tuple(windows(op, deep)) if len(op.reduction.axes) > 1 else ()
        # Of windows that cost the same, one along the last index, which lies side by side where channels come first.
        options = [Merging(window=number, filled=filled) for number in reversed(numbers) for filled in (1, FILLED)]
        options += [Merging(rows, columns) for rows, columns in choices]
        options = [] if pixels else options
        for image in images(op, deep):
            own = sides.rows if image.factor == int(sides.swapped) else sides.columns
            for merging in self.of_pixels(image):
                options.append(merging)
                if len(own) > 1 and len(in_order(op, merging)) > 1:  # with its first index apart, a result may need no other order
                    options.append(replace(merging, apart=1))
        for number, channels in summed_pixels(op, deep):
            of_left = number == int(sides.swapped)
            others = (False, True) if len(sides.columns if of_left else sides.rows) > 1 else (False,)
            for merged in others:
                options.append(Merging(not of_left and merged, of_left and merged, im2col=number, channels=channels))
        if not pixels and tiled and len(options) == 1 and not self.is_long(op):
            return None
        priced = [one for one in (self.priced(op, merging, later) for merging in options) if one is not None]
        cut = [part for one in priced for part in self.in_parts(op, one)]
        priced += [one for one in (self.priced(op, merging, later) for merging in cut) if one is not None]
        every = frozenset[Symbol]().union(*(one.taken for one in priced))
        costs = {one.merging: one.seconds + self.apart(op, every - one.taken) for one in priced}
        whole = min((seconds for merging, seconds in costs.items() if merging.parts == 1), default=inf)
        costs = {m: seconds for m, seconds in costs.items() if m.parts == 1 or seconds < GAIN * whole}
        best = min(costs, key=costs.__getitem__, default=APART)
        if costs.get(best, inf) == inf or (tiled and best == APART):
            return None
        kernel = next(one.kernel for one in priced if one.merging == best)
        plain = without_tensor_cores(kernel, problem_of(kernel, self.sizes), self.sizes, self.target)
        return _Choice(best, costs[best]) if tiled or costs[best] < plain else None

    def in_groups(self, op: Compute, found: Grouped) -> Merging | None:
        """How many rows tiles have, of a product whose rows have groups; None if a plain kernel, which reads a group's matrix for
        each row, takes less time."""
        assert op.reduction is not None
        extents = [max(0, axis.extent.evaluate(self.sizes)) for axis in (*op.axes, *op.reduction.axes)]
        if not prod(extents):
            return None
        ascending = isinstance(found.index, Read) and found.index.tensor in self.ascending
        bytes_ = max(8, found.read.element.bits) // 8
        points, depth = prod(extents[: len(op.axes)]), prod(extents[len(op.axes) :])
        options: dict[Merging | None, float] = {None: for_each_row(points, extents[len(op.axes) - 1], depth, bytes_, self.target)}
        for step in STEPS:
            merging = Merging(ragged=step, ascending=ascending)
            try:
                bare, _ = contraction(op, self.values, merging)
                *_, kernel = in_limbs((bare,), {}, precision=self.precision)
                assert isinstance(kernel, MatrixProduct)
                assert bare.ragged is not None
                problem = problem_of(kernel, self.sizes)
            except Unsupported:
                continue
            if not problem.groups:
                continue
            seconds = splitting(kernel, self.sizes, self.target) + fastest(problem, traits(kernel), self.target)
            made = [out for each in bare.ragged.made for out in outs_of(each)]
            options[merging] = seconds + LAUNCH * len(bare.ragged.made) + self.moved(*made, *made)
        return min(options, key=options.__getitem__)

    def in_segments(self, op: Compute, found: GroupedSum) -> Merging | None:
        """The sum of a product over the rows of each group, of these alone; None if a plain kernel, which asks of each row for
        every group, takes less time."""
        merging = Merging(segments=True, ascending=self.is_ascending(found))
        assert op.reduction is not None
        terms = prod(max(0, axis.extent.evaluate(self.sizes)) for axis in (*op.axes, *op.reduction.axes))
        if not terms or for_each_group(terms, self.target) <= self.of_segments(op, merging):
            return None
        return merging

    def is_ascending(self, found: GroupedSum) -> bool:
        """Whether rows are known to stand in the order of their groups."""
        return found.folded is None and isinstance(found.index, Read) and found.index.tensor in self.ascending

    def of_segments(self, op: Compute, merging: Merging) -> float:
        """Seconds of a product over the rows of each group, and of all that it asks for; infinite if there is none."""
        try:
            bare, _ = contraction(op, self.values, merging)
            *_, kernel = in_limbs((bare,), {}, precision=self.precision)
            assert isinstance(kernel, MatrixProduct)
            assert bare.segments is not None
            lying = {copy.symbol: aligned(ALIGNMENT, self.shape(copy), copy.element) for copy in bare.segments.copies}
            sources = {view.value.symbol: view.source for view in bare.views}
            read = {sources.get(o.value.symbol, o.value.symbol) for o in bare.operands} - lying.keys() - self.tensors.keys()
            apart = [self.values[symbol] for symbol in read]  # what a plain kernel, which takes this in, does not store
            lying |= {value.symbol: contiguous(ALIGNMENT, self.shape(value), value.element) for value in apart}
            copied = unreadable(bare, {**self.tensors, **lying}, self.sizes) if kernel.operands == bare.operands else ()
            problem = problem_of(kernel, self.sizes)
        except Unsupported:
            return inf
        seconds = splitting(kernel, self.sizes, self.target) + fastest(problem, traits(kernel), self.target)
        seconds += sum(copying(bare, bare.operands[number], self.sizes, self.target) for number in copied)
        made = [*apart, *(out for each in bare.segments.made for out in outs_of(each))]
        return seconds + LAUNCH * len(bare.segments.made) + self.moved(*made, *made)

    def of_pixels(self, image: Image) -> Iterator[Merging]:
        """The ways to read a factor by copies of pixels: so many channels of each, or a row of a window with its channels, where
        windows begin at multiples of 16 bytes."""
        channels = image.channels.extent.evaluate(self.sizes)
        whole = Merging(True, True, im2col=image.factor, filled=1 if channels % CHANNELS == 0 else CHANNELS)
        yield whole
        for number, step in image.rows if whole.filled > 1 else ():  # where nothing is wasted, a row wastes no less
            filled = next(n for n in (1, 2, 4, 8) if -(-channels // n) * n * step % FILLED == 0)
            beside = -(-channels // filled) * filled
            yield replace(whole, window=number, filled=filled, row=CHANNELS // gcd(CHANNELS, beside))

    def is_long(self, op: Compute) -> bool:
        """Whether a contraction may be worth to be cut into parts: its sums are long, and its results few."""
        assert op.reduction is not None
        if any(not a.extent.variables <= self.sizes.keys() for a in (*op.reduction.axes, *op.axes)):
            return False  # ranges that depend on indices
        depth, results = (prod(max(0, a.extent.evaluate(self.sizes)) for a in axes) for axes in (op.reduction.axes, op.axes))
        return depth >= LONG and 2 * results <= self.target.multiprocessors * TILE * TILE

    def in_parts(self, op: Compute, one: _Priced) -> Iterator[Merging]:
        """The same with its sum cut into parts, where its tiles are too few to keep the chip busy."""
        assert op.reduction is not None
        problem = problem_of(one.kernel, self.sizes)
        tiles = -(-problem.rows // TILE) * -(-problem.columns // TILE) * problem.outer
        if not self.is_long(op) or 2 * tiles > self.target.multiprocessors:
            return
        deep, _ = factors_of(op)
        # Copies of pixels take all channels, or multiples of so many: images are cut along another axis.
        windowed = one.merging.im2col is not None and one.merging.channels is None
        whole = {image.channels for image in images(op, deep)} if windowed else set()
        extents = {n: a.extent.evaluate(self.sizes) for n, a in enumerate(op.reduction.axes) if a not in whole}
        if one.merging.channels is None:  # else an image may be too large for parts of some of its axes
            extents = dict(sorted(extents.items(), key=lambda item: -item[1])[:1])
        for along, extent in extents.items():
            for parts in dict.fromkeys(max(n for n in range(1, most + 1) if extent % n == 0) for most in PARTS):
                if parts > 1 and problem.depth >= parts * LEAST_DEPTH:
                    yield replace(one.merging, parts=parts, along=along)

    def priced(self, op: Compute, merging: Merging, later: Sequence[Compute]) -> _Priced | None:
        """A contraction with its sides merged so; None if there is none."""
        first, *after = in_order(op, merging)
        made = first.outs[0]
        try:
            bare, views = contraction(first, {**self.values, made.symbol: made}, merging)
            *_, kernel = in_limbs((bare,), {}, precision=self.precision)
            assert isinstance(kernel, MatrixProduct)
            sources = {view.value.symbol: view.source for view in bare.views}
            if not self.tensors.keys() >= {sources.get(o.value.symbol, o.value.symbol) for o in bare.operands}:
                return None  # a plain kernel computes one of them where it is read
            alike = kernel.operands == bare.operands  # else both come in limbs
            copied = unreadable(bare, self.tensors, self.sizes) if alike else frozenset(range(len(bare.operands)))
        except Unsupported:
            return None
        if not all(is_seen(bare, bare.operands[number], self.sizes) for number in copied):
            return None
        if merging.window is not None and merging.im2col is None and not self.overlaps(bare, kernel):
            return None
        problem = problem_of(kernel, self.sizes)
        if min(problem.rows, problem.columns, problem.depth, problem.outer) < 1:
            return None
        seconds = splitting(kernel, self.sizes, self.target) + fastest(problem, traits(kernel), self.target)
        seconds += sum(copying(bare, bare.operands[number], self.sizes, self.target) for number in copied if alike)
        own = group(bare, views)
        taken = {out.symbol for other in (*after, *later) if own.absorb(other) for out in other.outs}
        if not self.is_shown(own.finish(set(own.results))):
            return None
        if any(out.symbol not in taken for other in after for out in other.outs):
            seconds += self.moved(made, op.outs[0])
        return _Priced(merging, kernel, seconds, frozenset(taken))

    def overlaps(self, bare: MatrixProduct, kernel: MatrixProduct) -> bool:
        """Whether windows of a copy begin at multiples of 16 bytes: what lies behind their outermost index does not go on there if
        its rows have to be longer than they are."""
        for operand in bare.operands:
            view = view_of(bare, operand)
            if view is not None and view.window:
                limbs = operand.value.element is Element.F32 and not rounded(kernel)
                element = Element.BF16 if limbs else operand.value.element
                inside = prod(part.extent.evaluate(self.sizes) for part in view.parts[-1][1:])
                if inside * element.bits % (8 * self.target.tensor_map_alignment):
                    return False
        return True

    def is_shown(self, kernel: MatrixProduct) -> bool:
        """Whether memory goes on through merged axes of what a kernel stores, and of what operations on its results read. What is
        not there yet will lie so."""
        factors = {operand.value for operand in kernel.operands}
        for view in views_of(kernel):
            if view.value not in factors and view.source in self.tensors:
                try:
                    view.of(self.tensors[view.source], self.sizes)
                except Unsupported:
                    return False
        return True

    def apart(self, op: Compute, others: Set[Symbol]) -> float:
        """Seconds of a plain kernel for what others of the same operations take in."""
        return self.moved(op.outs[0], *(self.values[symbol] for symbol in others)) if others else 0.0

    def moved(self, *values: Value) -> float:
        """Seconds of a plain kernel that moves these."""
        return KernelWork(sum(map(self.bytes, values))).seconds(self.target)


# ── before a program is cut into parts ──────────────────────────────────────────────────────────────────────────────────────


def decided(
    program: Program, choices: PartChoices, sizes: Mapping[Symbol, int], target: Target, *, precision: Precision = Precision.WHOLE
) -> Decided:
    """What is best at these sizes, of a program's choices, on a chip."""
    found = choices.at(sizes)
    if not found.segmented or not target.has(WGMMA):
        return found
    ops = tuple(_every(program.block))
    values = {value.symbol: value for value in program.inputs}
    values |= {out.symbol: out for op in ops for out in outs_of(op)}
    values |= {state.symbol: state for op in ops if isinstance(op, Loop) for state in op.states}
    ascending = frozenset(op.values.symbol for op in ops if isinstance(op, Sort) and len(op.values.shape) == 1)
    pricer = Pricer(values, {}, sizes, target, ascending, precision)
    products = {one.symbol for one in choices.scatters if one.symbol in found.segmented and is_product(one, values, pricer)}
    return replace(found, segmented=found.segmented - products)


def _every(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        if isinstance(op, Loop):
            yield from _every(op.body)


def is_product(one: SegmentedScatter, values: Mapping[Symbol, Value], pricer: Pricer) -> bool:
    """Whether the tensor cores sum a scatter sooner than segments are summed."""
    deep, _ = factors_of(one.op)
    found = grouped_sum(one.op, deep)
    if found is None:
        return False
    try:
        read = [values[symbol] for symbol in tensors_of(one.op) if symbol in values]
        lying = {value.symbol: contiguous(ALIGNMENT, pricer.shape(value), value.element) for value in read}
        merging = Merging(segments=True, ascending=pricer.is_ascending(found))
        return replace(pricer, tensors=lying).of_segments(one.op, merging) < one.microseconds(pricer.sizes) * 1e-6
    except KeyError:  # sizes that data or loops decide
        return False
