"""A reduction of pairs by register tiles, as statements. See Note [Register tiles] in `layout.register_tiles`.

Each turn of the loop over the depth asks for the next stage, combines the one that lies in shared memory, and puts there what came.
After the loop the threads hand their states over through the same memory. Then each takes neighbouring places of the tile, puts
together what groups and blocks have there, in order, and goes on with the steps that follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from axon.backend.gpu.layout.register_tiles import TOGETHER
from axon.backend.gpu.simt.access import is_beside
from axon.backend.gpu.simt.register_tiles import Fetch, Leaf, groups_for
from axon.backend.gpu.simt.writer import Lane
from axon.backend.kernel.ir import TRUE, Constant, Expression, Name, Several, call, product
from axon.backend.kernel.places import placed
from axon.backend.kernel.reducers import State, reducer
from axon.backend.kernel.writer import literal
from axon.base.element import Element
from axon.core.ir import Axis, Compute
from axon.core.walk import reads

if TYPE_CHECKING:
    from axon.backend.gpu.simt.emit import PlainEmitter

Names = tuple[Name, ...]
Slot = tuple[Expression, Expression, Expression]  # where a thread brings something from, by side and depth, and whether it does
LANES = 8  # threads of a warp side by side, at least: they take a line of shared memory together
WARP = 32


class TiledReduction:
    """Writes the kernel of one nest into an emitter's code. `bytes`: of shared memory."""

    def __init__(self, emitter: PlainEmitter) -> None:
        self.emitter, self.code, self.writer = emitter, emitter.code, emitter.writer
        tiled = emitter.mapping.tiled
        assert tiled is not None
        self.tile, self.groups = tiled.tile, groups_for(emitter.nest, tiled.tile)
        found = self.groups
        step = emitter.nest.steps[0]
        assert isinstance(step, Compute)
        assert step.reduction is not None
        self.step = step
        self.reduce = reducer(step.reduction.monoid, found.body)
        self.fetches = tuple(zip(found.leaves, tiled.fetches, strict=True))
        self.extents = {id_: [emitter.extent(a) for a in axes] for id_, axes in self.by_name}
        self.stage, self.places = 0, dict[Leaf, int]()
        for leaf in found.leaves:
            self.places[leaf] = self.stage
            self.stage += self.length(leaf)
        state = sum(self.room(element) for element in self.reduce.elements)
        self.bytes = max(self.tile.stages * self.stage, self.tile.groups * state)

    @property
    def by_name(self) -> tuple[tuple[str, tuple[Axis, ...]], ...]:
        found = self.groups
        return ("outer", found.outer), ("rows", found.rows), ("columns", found.columns), ("depth", found.depth)

    # ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def extent(self, leaf: Leaf) -> int:
        """Of the tile, along a leaf's side."""
        return self.tile.rows if leaf.side == "rows" else self.tile.columns

    def size(self, leaf: Leaf) -> int:
        return _size(leaf.local.element.accumulator)

    def pitch(self, leaf: Leaf) -> int:
        """Bytes from one depth to the next. What is brought along the depth is stored across: the padding parts its banks."""
        return self.extent(leaf) * self.size(leaf) + TOGETHER

    def length(self, leaf: Leaf) -> int:
        """Bytes of a leaf's stage."""
        return self.tile.depth * self.pitch(leaf)

    @property
    def line(self) -> int:
        """Places from one row of states to the next."""
        return self.tile.columns

    def room(self, element: Element) -> int:
        """Bytes of the states of one group, of one of their elements."""
        return self.tile.rows * self.line * _size(element.accumulator)

    # ── the kernel ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self) -> None:
        code, tile, local = self.code, self.tile, self.code.local
        self.place()
        states = self.accumulators()
        slots = {leaf: list(self.slots(leaf, fetch)) for leaf, fetch in self.fetches}
        code.comment(placed((out.symbol.name for out in self.step.outs), self.step.span))
        code.assign(local("held"), local("shared"))
        with self.writer.branch(code.loop(local("ahead"), local("begin"), local("stop") + tile.depth, tile.depth)):
            came = [(leaf, fetch, list(self.fetched(leaf, fetch, slots[leaf]))) for leaf, fetch in self.fetches]
            with self.writer.branch(code.when(local("ahead") > local("begin"), "the stage before lies in shared memory")):
                self.combine(states)
            code.assign(local("held"), local("shared") * 2 + self.stage - local("held"), "the other stage")
            for leaf, fetch, values in came:
                self.keep(leaf, fetch, slots[leaf], values)
            code.call("block_sync")
        self.hand_over(states)
        self.finish()

    def place(self) -> None:
        """The tile of this block, its part of the depth, and this thread's part of the tile."""
        code, tile, local = self.code, self.tile, self.code.local
        block: Expression = local("block")
        if tile.splits > 1:
            code.assign(local("rank"), block & (tile.splits - 1))
            block = code.let(block >> (tile.splits.bit_length() - 1), "tile_")
        limits = {name: product(*extents) for name, extents in self.extents.items()}
        for name in ("rows", "columns", "depth"):
            code.assign(local(name), limits[name])
        across, below, above = local("across"), local("below"), local("above")
        code.assign(across, call("unsigned_divide", local("columns") + (tile.columns - 1), tile.columns))
        code.assign(below, call("unsigned_divide", local("rows") + (tile.rows - 1), tile.rows))
        code.assign(above, call("unsigned_divide", block, across))
        code.assign(local("left"), (block - above * across) * tile.columns)
        code.assign(local("outer"), call("unsigned_divide", above, below))
        code.assign(local("top"), (above - local("outer") * below) * tile.rows)
        self.emitter.indices(self.groups.outer, self.extents["outer"], local("outer"))
        if tile.splits > 1:
            each, whole = local("each"), tile.depth * tile.splits
            code.assign(each, call("unsigned_divide", local("depth") + (whole - 1), whole) * tile.depth)
            code.assign(local("begin"), local("rank") * each)
            code.assign(local("stop"), call("min_int", local("begin") + each, local("depth")))
        else:
            code.assign(local("begin"), 0)
            code.assign(local("stop"), local("depth"))
        self.member()

    def member(self) -> None:
        """Where a thread's rows and columns begin: the threads of a warp lie so that their loads share as much as they can."""
        code, tile, local, thread = self.code, self.tile, self.code.local, self.code.local("thread")
        down, across = tile.rows // tile.own_rows, tile.columns // tile.own_columns
        wide = min(across, max(LANES, WARP // down))
        high = min(down, WARP // wide)
        inside: Expression = thread
        if tile.groups > 1:
            code.assign(local("group"), thread >> (tile.members.bit_length() - 1))
            inside = code.let(thread & (tile.members - 1), "inside_")
        patch = code.let(inside >> ((wide * high).bit_length() - 1), "patch_")
        patches = across // wide  # side by side
        column, row = inside & (wide - 1), inside >> (wide.bit_length() - 1) & (high - 1)
        code.assign(local("column"), (patch & (patches - 1)) * wide + column if patches > 1 else column)
        code.assign(local("row"), (patch >> (patches.bit_length() - 1)) * high + row)

    def accumulators(self) -> list[list[Names]]:
        """The states of a thread: of each row, of each vector of columns."""
        nothing = self.reduce.nothing(self.writer)
        vectors = range(self.tile.own_columns // self.lanes)
        return [
            [tuple(self.code.let(self.spread(value), "a") for value in nothing) for _ in vectors] for _ in range(self.tile.own_rows)
        ]

    @property
    def lanes(self) -> int:
        """Columns that a thread takes together."""
        widest = max(self.size(leaf) for leaf in self.groups.leaves if leaf.side == "columns")
        return min(self.tile.own_columns, TOGETHER // widest)

    def spread(self, value: Expression, lanes: int = 0) -> Expression:
        lanes = lanes or self.lanes
        return call(f"spread_{lanes}", value) if lanes > 1 else value

    # ── a stage comes ───────────────────────────────────────────────────────────────────────────────────────────────────

    def slots(self, leaf: Leaf, fetch: Fetch) -> Iterator[Slot]:
        """Of what a thread brings: where it is along the leaf's side and along the depth, and whether it is any."""
        side, depth, vector, threads = self.extent(leaf), self.tile.depth, fetch.vector, self.tile.threads
        count = side * depth // vector
        inner = (side if fetch.along == "side" else depth) // vector
        for first in range(0, count, threads):
            slot = self.code.let(self.code.local("thread") + first, "slot_")
            beside = self.code.let((slot & (inner - 1)) * vector, "beside_")
            beyond = self.code.let(slot >> (inner.bit_length() - 1), "beyond_")
            there: Expression = TRUE if count - first >= threads else self.code.let(call("lt_int", slot, count))
            yield (beside, beyond, there) if fetch.along == "side" else (beyond, beside, there)

    def fetched(self, leaf: Leaf, fetch: Fetch, slots: Sequence[Slot]) -> Iterator[Name]:
        """The values of a leaf that a thread brings of the next stage."""
        code, writer, emitter, found = self.code, self.writer, self.emitter, self.groups
        axes = found.axes(leaf.side)
        corner, limit = ("top", "rows") if leaf.side == "rows" else ("left", "columns")
        axis = axes[-1] if fetch.along == "side" else found.depth[-1]
        for at_side, at_depth, slot in slots:
            with writer.forgotten():
                beside = code.let(code.local(corner) + at_side, "side_")
                further = code.let(code.local("ahead") + at_depth, "depth_")
                self.indices(axes, limit, beside)
                self.indices(found.depth, "depth", further)
                there = writer.there((beside, code.local(limit)), (further, code.local("stop")))
                there = there if slot == TRUE else writer.call("both", there, slot)
                start = emitter.places[axis.symbol]
                assert isinstance(start, Name)
                writer.lane = Lane(axis.symbol, start, fetch.vector)
                with writer.masked(there, False), self.moving(leaf, axis):
                    value = writer.value(leaf.scalar)
                    value = writer.let(writer.where(there, value, literal(0, leaf.local.element.accumulator)))
                writer.lane = None
                yield code.let(self.spread(value, fetch.vector)) if fetch.vector > 1 else value
                self.left_behind((*axes, *found.depth))

    @contextmanager
    def moving(self, leaf: Leaf, axis: Axis) -> Iterator[None]:
        """While a leaf is brought: what it reads along that axis moves together, for which `register_tiles` saw that it lies."""
        emitter, before = self.emitter, self.emitter.together
        emitter.together = {
            (r.tensor, r.subscripts, axis.symbol)
            for r in reads(leaf.scalar)
            if is_beside(r.subscripts, axis.symbol, emitter.units.get(r.tensor, -1))
        }
        yield
        emitter.together = before

    def indices(self, axes: tuple[Axis, ...], group: str, place: Name) -> None:
        """The indices of a group's place: of several axes, as variables of their own."""
        if len(axes) == 1:
            self.emitter.places[axes[0].symbol] = place
            self.writer.extents[axes[0].symbol] = axes[0].extent
            return
        for axis in axes:
            self.emitter.places[axis.symbol] = self.code.name(f"{axis.symbol.name}_")
        self.emitter.indices(axes, self.extents[group], place)

    def left_behind(self, axes: tuple[Axis, ...]) -> None:
        for axis in axes:
            del self.emitter.places[axis.symbol], self.writer.extents[axis.symbol]

    def keep(self, leaf: Leaf, fetch: Fetch, slots: Sequence[Slot], values: Sequence[Name]) -> None:
        """Put what came into shared memory, the places of a side beside each other."""
        code, size = self.code, self.size(leaf)
        name = f"stage_{leaf.local.element.accumulator.value}"
        for (at_side, at_depth, slot), value in zip(slots, values, strict=True):
            to = code.let(code.local("held") + self.places[leaf] + at_depth * self.pitch(leaf) + at_side * size, "to_")
            with ExitStack() as stack:
                if slot != TRUE:
                    stack.enter_context(code.when(slot))
                if fetch.vector == 1:
                    code.call(name, to, value)
                elif fetch.along == "side":
                    code.call(f"{name}_{fetch.vector}", to, value)
                else:
                    for n in range(fetch.vector):
                        code.call(name, to + n * self.pitch(leaf), value[n])

    # ── a stage is combined ─────────────────────────────────────────────────────────────────────────────────────────────

    def combine(self, states: list[list[Names]]) -> None:
        """Take a stage in: this thread's share of its depth."""
        code, tile, local = self.code, self.tile, self.code.local
        share = tile.depth // tile.groups
        first = code.let(local("group") * share, "first_") if tile.groups > 1 else 0
        if self.groups.neutral:
            self.pairs(states, (share,), first)
            return
        left = local("stop") - local("ahead") + (tile.depth - first)
        self.pairs(states, (call("min_int", left, share),), first)

    def pairs(self, states: list[list[Names]], bounds: tuple[Expression | int, ...], first: Expression | int) -> None:
        code, writer, nth = self.code, self.writer, self.code.local("nth")
        with writer.branch(code.loop(nth, *bounds)):
            at = code.let(nth + first, "at_") if first != 0 else nth
            taken = {leaf: self.taken(leaf, at) for leaf in self.groups.leaves}
            writer.lane = Lane(self.groups.columns[-1].symbol, nth, self.lanes)
            for m, row in enumerate(states):
                for n, state in enumerate(row):
                    for leaf, vectors in taken.items():
                        if leaf.side == "columns":
                            writer.locals[leaf.local.symbol] = self.part(leaf, vectors, n * self.lanes)
                        else:
                            each = self.together(leaf)
                            writer.locals[leaf.local.symbol] = vectors[m // each][m % each] if each > 1 else vectors[m]
                    values = self.reduce.values(writer)
                    with writer.forgotten():
                        for name, value in zip(state, self.reduce.combine(writer, state, values, None), strict=True):
                            code.assign(name, self.spread(value) if isinstance(value, Constant) else value)
            writer.lane = None

    def together(self, leaf: Leaf) -> int:
        """Neighbours of a side that a thread takes at once."""
        own = self.tile.own_rows if leaf.side == "rows" else self.tile.own_columns
        return min(own, TOGETHER // self.size(leaf))

    def part(self, leaf: Leaf, vectors: list[Name], column: int) -> Expression:
        """So many neighbours of a leaf as states have lanes."""
        each, lanes = self.together(leaf), self.lanes
        if each == lanes:
            return vectors[column // each]
        whole, within = vectors[column // each], column % each
        return Several(tuple(whole[within + n] for n in range(lanes))) if lanes > 1 else whole[within]

    def taken(self, leaf: Leaf, at: Expression) -> list[Name]:
        """What a thread's rows or columns have at one depth."""
        own = self.tile.own_rows if leaf.side == "rows" else self.tile.own_columns
        each, extent = self.together(leaf), self.extent(leaf)
        place = self.code.local("row" if leaf.side == "rows" else "column") * (each * self.size(leaf))
        base = self.code.let(self.code.local("held") + self.places[leaf] + at * self.pitch(leaf) + place, "from_")
        name = f"aligned_{leaf.local.element.accumulator.value}" + (f"_{each}" if each > 1 else "")
        apart = extent // (own // each) * self.size(leaf)
        return [self.code.let(call(name, base + n * apart), leaf.side) for n in range(own // each)]

    # ── and after the last one ──────────────────────────────────────────────────────────────────────────────────────────

    def hand_over(self, states: list[list[Names]]) -> None:
        """The states of a thread into shared memory, where its stages lay."""
        code, tile = self.code, self.tile
        lanes = self.lanes
        suffix = f"_{lanes}" if lanes > 1 else ""
        rows, columns = self.spots("rows", tile.own_rows, tile.rows), self.spots("columns", tile.own_columns, tile.columns, lanes)
        where = {}
        for number, element in enumerate(self.reduce.elements):
            held = element.accumulator
            base: Expression = code.local("shared") + self.handed(number)
            base = code.let(base + code.local("group") * self.room(element), "states_") if tile.groups > 1 else base
            where[number] = held, base
        for m, row in enumerate(states):
            for n, state in enumerate(row):
                for number, name in enumerate(state):
                    held, base = where[number]
                    at = (rows[m] * tile.columns + columns[n]) * _size(held)
                    code.call(f"stage_{held.value}{suffix}", base + at, name)
        code.call("cluster_sync" if tile.splits > 1 else "block_sync")

    def handed(self, number: int) -> int:
        """Where the states of all groups lie, of one of their elements."""
        return self.tile.groups * sum(self.room(element) for element in self.reduce.elements[:number])

    def spots(self, side: str, own: int, extent: int, lanes: int = 1) -> list[Expression]:
        """Where a thread's rows lie in the tile, or its vectors of columns: those that it takes at once are neighbours."""
        (leaf, *_) = (leaf for leaf in self.groups.leaves if leaf.side == side)
        each = self.together(leaf)
        place = self.code.local("row" if side == "rows" else "column")
        return [place * each + (n // each * (extent // (own // each)) + n % each) for n in range(0, own, lanes)]

    def finish(self) -> None:
        """Places of the tile that this thread completes, and the steps that follow there."""
        code, writer, tile, emitter, local = self.code, self.writer, self.tile, self.emitter, self.code.local
        vector = emitter.mapping.vector
        count = tile.rows * tile.columns // tile.portions // vector // tile.splits
        begin: Expression = local("rank") * count + local("thread") if tile.splits > 1 else local("thread")
        end: Expression = (local("rank") + 1) * count if tile.splits > 1 else Constant(count)
        wide = tile.columns // vector
        with writer.branch(code.loop(local("spot"), begin, end, tile.threads)):
            down, over = local("down"), local("over")
            code.assign(down, local("spot") >> (wide.bit_length() - 1))
            code.assign(over, (local("spot") & (wide - 1)) * vector)
            total = self.joined(down * self.line + over, vector)
            row = code.let(local("top") + self.handed_row(down), "row_")
            column = code.let(local("left") + over, "column_")
            self.indices(self.groups.rows, "rows", row)
            self.indices(self.groups.columns, "columns", column)
            there = writer.there((row, local("rows")), (column, local("columns")))
            lane = self.groups.columns[-1].symbol
            start = emitter.places[lane]
            assert isinstance(start, Name)
            writer.lane = Lane(lane, start, vector)
            with writer.masked(there, False):
                emitter.reductions.finish(self.step, self.reduce, total)
                for step in emitter.nest.steps[1:]:
                    code.comment(placed((out.symbol.name for out in step.outs), step.span))
                    emitter.step(step)
            writer.lane = None
            self.left_behind((*self.groups.rows, *self.groups.columns))
        if tile.splits > 1:
            code.call("cluster_sync", note="others still read what lies here")

    def handed_row(self, down: Expression) -> Expression:
        """Which row of the tile the states are of that lie in a row of shared memory."""
        return down

    def joined(self, place: Expression, vector: int) -> State:
        """What all blocks and groups have at places of the tile, put together in order."""
        code, writer, tile = self.code, self.writer, self.tile
        place = code.let(place)
        suffix = f"_{vector}" if vector > 1 else ""

        def one(rank: Name | None, group: Expression) -> State:
            found = []
            for number, element in enumerate(self.reduce.elements):
                held = element.accumulator
                at = code.local("shared") + self.handed(number) + group * self.room(element) + place * _size(held)
                name = f"{held.value}{suffix}"
                found.append(code.let(call(f"aligned_{name}", at) if rank is None else call(f"remote_{name}", at, rank)))
            return tuple(found)

        if tile.splits == tile.groups == 1:
            return one(None, Constant(0))
        names = tuple(code.let(self.spread(value, vector), "a") for value in self.reduce.nothing(writer))
        with ExitStack() as stack:
            rank = None
            if tile.splits > 1:
                rank = code.local("other")
                stack.enter_context(writer.branch(code.loop(rank, tile.splits)))
            group: Expression = Constant(0)
            if tile.groups > 1:
                group = code.local("part")
                stack.enter_context(writer.branch(code.loop(code.local("part"), tile.groups)))
            more = one(rank, group)
            with writer.forgotten():
                for name, value in zip(names, self.emitter.reductions.merged(self.reduce, names, more), strict=True):
                    code.assign(name, self.spread(value, vector))
        return names


def _size(element: Element) -> int:
    return max(1, element.bits // 8)
