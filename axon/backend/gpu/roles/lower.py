"""Roles to the barrier program: offsets, panels, arrival counts, expected bytes, parities, fences and the stores' buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product, takewhile
from math import prod
from typing import assert_never

from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles import ir as r
from axon.backend.gpu.roles.barriers import BarrierProgram, Buffer, Coordinate, Copy, Descriptor, Field, Op, Order, Ring, Role
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.ir import Clear, Evaluate, Load, Multiply, Store, Tile, TileAxis
from axon.backend.gpu.tile.schedule import BARRIER_BYTES, BUFFER_BYTES, register_budget
from axon.base.element import Element
from axon.base.names import Symbol, fresh

ROWS = 64  # of one matrix instruction, of one store


def lower(program: r.RoleProgram, target: Target, granted: Granted) -> BarrierProgram:
    """The barrier program of a role program. Bulk copies store its results if they can store all of them."""
    return _Lowering(program, target, granted).run()


class _Lowering:
    def __init__(self, program: r.RoleProgram, target: Target, granted: Granted) -> None:
        self.program, self.target = program, target
        stored = {s.tensor for s in program.consumer if isinstance(s, Store)}
        # A bulk copy stores whole boxes; where a ragged tile ends, other rows begin.
        self.boxed = stored <= granted.boxed and program.source.ragged is None
        self.dense = granted.dense
        self.rings: dict[Symbol, Ring] = {}
        self.loads = {load.tile: load for load in _loads((*program.producer, *program.consumer))}
        self.buffer: Buffer | None = None
        self.next_slot = 0

    def run(self) -> BarrierProgram:
        program, mapping = self.program, self.program.mapping
        source = program.source
        barrier, data = 0, BARRIER_BYTES
        for aref in program.arefs:
            ring = self._ring(aref, barrier, data)
            self.rings[aref.symbol] = ring
            barrier, data = barrier + 16 * ring.depth, data + ring.depth * ring.stage
        (steps,) = {s.axis for s in (*program.producer, *program.consumer) if isinstance(s, r.RoleFor)}
        self.steps, self.whole = steps, {axis.symbol for axis in source.whole}
        stores = [s for s in program.consumer if isinstance(s, Store) and (self.boxed or s.tensor in self.dense)]
        if stores:
            chunks = sum(self._blocks * (source.columns.step // self._width(s)) for s in stores)
            slots = 1 if self.boxed and chunks % mapping.slots else mapping.slots
            self.buffer = Buffer(fresh("buffer"), data, BUFFER_BYTES, slots)
            data += mapping.consumers * slots * BUFFER_BYTES
        folds = [s for s in t.statements(source.body) if isinstance(s, t.Fold)]
        scores = max((1 + len(fold.others) for fold in folds), default=1)
        limbs = any(len(promoted.factors) > 1 for promoted in self._promoted)
        tables = {"ragged": source.ragged is not None, "segments": source.segments is not None}
        budget = register_budget(mapping, limbs=limbs, scores=scores, **tables)
        drain = (b.Drain(),) if stores and self.boxed else ()
        each_tile = tuple(self._consumer(program.consumer, None))
        tiles = b.Tiles((b.IfOwn(True, each_tile), b.IfOwn(False, self._skipped())) if mapping.apart else each_tile)
        first, last = self._turns() if mapping.turns else ((), ())
        consumer = (*first, tiles, *last, *drain, b.Depart())
        roles: tuple[Role, ...]
        if mapping.specialized:
            producer = (b.Tiles(tuple(self._producer(program.producer))), b.Depart())
            roles = (
                Role("producer", 1, True, budget[0] if budget else None, producer),
                Role("consumer", mapping.consumers, False, budget[1] if budget else None, consumer),
            )
        else:
            roles = (Role("worker", mapping.consumers, False, None, consumer),)
        paired = source.bounds is not None and source.bounds.uneven
        order = Order(
            source.outer, source.rows, source.columns, mapping.group, mapping.cluster, mapping.cluster_over, paired, source.ragged
        )
        buffers = (self.buffer,) if self.buffer else ()
        return BarrierProgram(
            source.tensors, mapping, self.target, order, steps, tuple(self.rings.values()), buffers, roles, data,
            derived=source.derived, whole=source.whole, bounds=source.bounds, views=source.views,
            stores=tuple(s for s in program.consumer if isinstance(s, Store)), promoted=self._promoted,
            row_stores=tuple(s for s in program.consumer if isinstance(s, t.StoreRows)), sums=self._sums, segments=source.segments,
            pages=source.pages,
        )  # fmt: skip

    def _skipped(self) -> tuple[Op, ...]:
        """A consumer passes by the stages of a tile that is not its own."""
        return (b.Steps(self.steps, tuple(b.Advance(ring) for ring in self.rings.values())),)

    def _turns(self) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
        """What starts and ends the circle of turns: the last consumer passes before it has had one, the first takes one more."""
        first, threads = self._turn
        return (b.PassTurn(first, threads, self.program.mapping.consumers - 1),), (b.LastTurn(first, threads),)

    @property
    def _turn(self) -> tuple[int, int]:
        """The named barrier of the first consumer's turn, after those at which a consumer's threads meet; and its threads."""
        return 1 + self.program.mapping.consumers, 2 * self.target.warpgroup

    @property
    def _blocks(self) -> int:
        """How many times 64 rows a consumer has."""
        return self.program.mapping.rows // (ROWS * self.program.mapping.sharing)

    def _width(self, store: Store) -> int:
        return self.target.swizzle * 8 // store.element.bits

    def _ring(self, aref: r.Aref, barriers: int, data: int) -> Ring:
        fields, offset = [], 0
        for tile in aref.fields:
            width = self.target.swizzle * 8 // tile.element.bits
            panel = prod(tile.shape[:-1]) * self.target.swizzle
            fields.append(Field(tile, offset, panel, width, self.loads[tile]))
            offset += tile.bytes
        blocks = self.program.mapping.cluster if any(self._shared(tile.axes) for tile in aref.fields) else 1
        return Ring(aref.symbol, aref.depth, tuple(fields), 1, aref.consumers * blocks, barriers, data, offset)

    def _shared(self, axes: tuple[Symbol, ...]) -> bool:
        """Whether the blocks of a cluster need the same tile of these axes."""
        source, mapping = self.program.source, self.program.mapping
        split = source.rows if mapping.cluster_over == "rows" else source.columns
        return mapping.cluster > 1 and split.symbol not in axes

    # ── the producer ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _producer(self, body: tuple[r.RoleStatement, ...]) -> list[Op]:
        out: list[Op] = []
        for statement in body:
            match statement:
                case r.RoleFor(axis=axis, body=inner, backwards=backwards, peeled=peeled):
                    out.append(b.Steps(axis, tuple(self._producer(inner)), backwards, peeled))
                case r.Last(axis=axis):
                    out.append(b.Last(axis))
                case r.Put(aref=aref):
                    out += [*self._put(statement, inside=True), b.Advance(self.rings[aref.symbol])]
                case _:
                    raise AssertionError(f"{statement} in a producer")
        return out

    def _put(self, put: r.Put, *, inside: bool) -> list[Op]:
        """Wait for an empty stage and fill it. `inside` the loop pieces count from the current one, and else from the first."""
        ring = self.rings[put.aref.symbol]
        # The ring starts empty: the phase before the first counts as complete, and has parity 1.
        out: list[Op] = [b.Await(ring, "empty", 1, put.ahead), b.Expect(ring, ring.stage, put.ahead)]
        piece = -1 if put.before else put.ahead  # loops that ask for the piece before run backwards
        copies = [op for number, load in enumerate(put.loads) for op in self._copies(ring, number, load, piece, put.ahead, inside)]
        return [*self._looks(put.loads, copies), *out, *copies]

    def _looks(self, loads: Sequence[Load], copies: Sequence[Copy]) -> Iterator[b.Look]:
        """What tables are asked for copies, while the stage is still waited for."""
        for pages in dict.fromkeys(load.pages for load in loads if load.pages is not None):
            of = [op for op in copies if op.ring.fields[op.field].load.pages == pages]
            yield b.Look(pages, tuple(dict.fromkeys(c for op in of for c in op.at if c.axis == self.steps.symbol)))

    def _copies(self, ring: Ring, number: int, load: Load, piece: int, ahead: int, inside: bool) -> list[Copy]:
        """One copy for each panel, or for each box of it that lies in one page; a tile that the cluster shares is filled in equal
        parts, one by each block, for all blocks."""
        field = ring.fields[number]
        tile, mapping = field.tile, self.program.mapping
        steps = dict(zip(tile.axes, tile.shape, strict=True))
        split_axis = next((a for a in tile.axes if a != self.steps.symbol), tile.axes[0])
        parts = mapping.cluster if self._shared(tile.axes) else 1
        share = steps[split_axis] // parts
        out: list[Copy] = []
        inner = tile.axes[-1]
        along_inner = split_axis == inner
        panels = (share if along_inner else steps[inner]) // field.width
        rows = prod(tile.shape[:-1]) if along_inner else prod(tile.shape[:-1]) // steps[split_axis] * share
        box_of = dict(zip(tile.axes[:-1], tile.shape[:-1], strict=True)) | {inner: field.width}
        if not along_inner:
            box_of[split_axis] = share
        boxes = 1
        if load.pages is not None:
            boxes, rows = tile.shape[0] // mapping.box, mapping.box
            box_of[self.steps.symbol] = mapping.box
        box = tuple(box_of.get(a, 1) for a in load.axes)
        by_rank = 0 if parts == 1 else (panels * field.panel if along_inner else share * self.target.swizzle)
        for panel, part in product(range(panels), range(boxes)):
            at = []
            for axis in load.axes:
                offset = panel * field.width if axis == inner else 0
                step = 0 if axis in self.whole else steps.get(axis, 1)
                if axis == self.steps.symbol:
                    offset += abs(piece) * step + part * rows
                    step = step if inside else 0
                rank = share if parts > 1 and axis == split_axis else 0
                at.append(Coordinate(axis, step, offset, rank))
            size = rows * self.target.swizzle
            offset = field.offset + panel * field.panel + part * size
            descriptor = Descriptor(load.tensor, box, load.order, rounds=tile.element is Element.F32)
            out.append(Copy(ring, descriptor, tuple(at), number, offset, by_rank, size, parts > 1, ahead))
        return out

    # ── the consumers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _consumer(self, body: tuple[r.RoleStatement, ...], loop: TileAxis | None) -> list[Op]:
        out: list[Op] = []
        after: TileAxis | None = None  # the loop that has just ended
        got = {s.aref.symbol for s in body if isinstance(s, r.Get)}
        cleared: set[Symbol] = set()  # right here, and nothing summed since
        for at, statement in enumerate(body):
            match statement:
                case Clear(tile=tile):
                    cleared.add(tile.symbol)
                    out.append(b.Clear(tile))
                case r.Get(aref=aref):
                    out.append(b.Await(self.rings[aref.symbol], "full", 0))
                case r.Start(products=products):
                    out.append(b.ProductFence())
                    for product in products:
                        left = product.left if product.left.memory == "registers" else self._part(product.left)
                        keep = "never" if product.accumulator.symbol in cleared else self._keep(product, loop)
                        cleared.discard(product.accumulator.symbol)
                        for block in range(self._blocks):
                            out.append(b.Product(product.accumulator, left, self._part(product.right), product.over, block, keep))
                    out.append(b.Commit())
                case Evaluate(computed=computed, tile=tile, staged=staged, over=over):
                    out.append(b.Evaluate(computed, tile, tuple(map(self._part, staged)), over))
                case r.Turn():
                    out.append(b.Turn(*self._turn))
                case r.PassTurn():
                    out.append(b.PassTurn(*self._turn))
                case r.Last(axis=axis):
                    out.append(b.Last(axis))
                    after = axis
                case r.Retire(accumulator=accumulator, pending=pending):
                    out.append(b.Retire(accumulator, pending))
                case r.Consumed(aref=aref, back=back):
                    ring = self.rings[aref.symbol]
                    whole = ring.empty > aref.consumers
                    if loop is not None:
                        release = b.Release(ring, back, whole)
                        out.append(b.AfterSteps(loop, back, (release,)) if back else release)
                    elif aref.symbol in got:  # borrowed outside the loop, or in a half that was peeled off
                        out += [b.Release(ring, 0, whole), b.Advance(ring)]
                    else:
                        assert after is not None, "a stage is given back outside any loop over it"
                        release = b.Release(ring, back + 1, whole)  # the cursor has moved past the newest
                        out.append(b.AfterSteps(after, back + 1, (release,)) if back else release)
                case r.RoleFor(axis=axis, body=inner, backwards=backwards, peeled=peeled):
                    cleared.clear()
                    used = dict.fromkeys(self.rings[s.aref.symbol] for s in inner if isinstance(s, r.Get))
                    advances: list[Op] = [b.Advance(ring) for ring in used]
                    out.append(b.Steps(axis, tuple(self._consumer(inner, axis) + advances), backwards, peeled))
                    after = axis
                case (
                    t.Settle()
                    | t.ReadScales()
                    | t.Promote()
                    | t.Reset()
                    | t.Fold()
                    | t.Narrow()
                    | t.Rescale()
                    | t.Hold()
                    | t.Finish()
                    | t.StoreRows()
                ):
                    out.append(statement)
                case Store():
                    if not at or not isinstance(body[at - 1], Store):
                        run = takewhile(lambda s: isinstance(s, Store), body[at:])
                        out += self._stored([s for s in run if isinstance(s, Store)])
                case r.Put(ahead=ahead):
                    put = tuple(self._put(statement, inside=loop is not None))
                    out.append(b.Alone((b.IfPiece(self.steps, ahead, loop is not None, put),) if ahead else put))
                case _:
                    assert_never(statement)
        return out

    def _part(self, tile: Tile) -> b.StageField:
        ring = next(x for x in self.rings.values() if any(f.tile == tile for f in x.fields))
        return b.StageField(ring, [f.tile for f in ring.fields].index(tile))

    def _keep(self, product: Multiply, loop: TileAxis | None) -> b.Keep:
        """When an accumulator counts that is not cleared right here: where its loop runs forwards, from the second step on."""
        forwards = loop is not None and product.over == loop.symbol and self.program.source.bounds is None
        return "later" if forwards and not self._promoted else "always"

    @property
    def _sums(self) -> tuple[tuple[Tile, Tile, Tile], ...]:
        """What a step of a contraction adds to several accumulators."""
        loops = [s for s in self.program.source.body if isinstance(s, t.For)]
        products = [s for loop in loops for s in loop.body if isinstance(s, Multiply)]
        several = len(products) > 1 and not self._promoted and not any(isinstance(s, t.Fold) for s in loops[0].body)
        return tuple((s.accumulator, s.left, s.right) for s in products) if several else ()

    @cached_property
    def _promoted(self) -> tuple[b.Promoted, ...]:
        """What the steps of the tile program sum on their own: what is settled before its last product, or promoted after it."""
        statements = list(t.statements(self.program.source.body))
        scales = {s.partial: s.scales for s in statements if isinstance(s, t.Promote)}
        totals = {s.partial: s.accumulator for s in statements if isinstance(s, t.Promote)}
        own = (s.tile if isinstance(s, t.Settle) else s.partial for s in statements if isinstance(s, t.Settle | t.Promote))
        products = [s for s in statements if isinstance(s, Multiply)]
        return tuple(
            b.Promoted(
                totals.get(tile), tile, tuple((p.left, p.right) for p in products if p.accumulator == tile), scales.get(tile)
            )
            for tile in dict.fromkeys(own)
        )

    def _stored(self, stores: Sequence[Store]) -> list[Op]:
        """All results of a tile, piece by piece: what several are computed from is needed for one piece at a time."""
        columns, out = self.program.source.columns, list[Op]()
        pieces = [
            (block, column, number)
            for number, store in enumerate(stores)
            for block in range(self._blocks)
            for column in range(0, columns.step, self._stored_width(store))
        ]
        for block, column, number in sorted(pieces):
            out += self._piece(stores[number], block, column)
        return out

    def _stored_width(self, store: Store) -> int:
        """Columns of a piece."""
        at_once = 1 if self.boxed or self.buffer is None or store.tensor not in self.dense else min(self.buffer.slots, 2)
        return self._width(store) * at_once

    def _piece(self, store: Store, block: int, column: int) -> list[Op]:
        width = self._stored_width(store)
        if not self.boxed:
            buffer = self.buffer if store.tensor in self.dense else None
            return [b.Scatter(store, block, column, min(width, self.program.source.columns.step - column), buffer)]
        assert self.buffer is not None
        slot = self.next_slot
        self.next_slot = (slot + 1) % self.buffer.slots
        meet = b.Meet(1, self.target.warpgroup)
        box = tuple(self._box(a, width) for a in store.axes)
        descriptor = Descriptor(store.tensor, box, tuple(range(len(box))))
        at = tuple(self._stored_at(a, block, column) for a in store.axes)
        return [
            b.Reclaim(self.buffer, self.buffer.slots - 1),
            meet,
            b.Write(self.buffer, slot, store, block, column, width),
            b.AsyncFence(),
            meet,
            b.Send(self.buffer, slot, descriptor, at),
        ]

    def _box(self, axis: Symbol, width: int) -> int:
        source = self.program.source
        return {source.rows.symbol: ROWS, source.columns.symbol: width}.get(axis, 1)

    def _stored_at(self, axis: Symbol, block: int, column: int) -> Coordinate:
        source = self.program.source
        if axis == source.rows.symbol:
            by_consumer = 0 if self.program.mapping.apart else self._blocks * ROWS
            return Coordinate(axis, source.rows.step, block * ROWS, by_consumer=by_consumer)
        if axis == source.columns.symbol:
            return Coordinate(axis, source.columns.step, column)
        return Coordinate(axis, 1)


def _loads(body: tuple[r.RoleStatement, ...]) -> Iterator[Load]:
    """What is put anywhere."""
    for statement in body:
        match statement:
            case r.Put(loads=loads):
                yield from loads
            case r.RoleFor(body=inner):
                yield from _loads(inner)
            case _:
                pass
