"""Sums of products in f64 by the tensor instructions of warps, as statements. See Note [Fragments] in `layout.register_tiles`.

It is a tiled reduction in which stages come several turns ahead: what lies in memory as it is multiplied is copied past the
registers, all else is computed by threads and stored. Each side lies in a stage as it comes, along the depth or along the side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from axon.backend.gpu.layout.register_tiles import DOUBLE, FRAGMENT, PADDING, STATES_PADDING
from axon.backend.gpu.simt.register_tiles import Fetch, Leaf
from axon.backend.gpu.simt.tiled_reduction import Names, TiledReduction
from axon.backend.gpu.simt.writer import Lane
from axon.backend.kernel.ir import TRUE, Constant, Expression, Name, Several, call
from axon.backend.kernel.places import placed
from axon.backend.kernel.writer import literal
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Axis, Const, Read

if TYPE_CHECKING:
    from axon.backend.gpu.simt.emit import PlainEmitter

Factors = tuple[list[Name], list[Name]]  # fragments of both sides
Came = tuple[Leaf, Fetch, Sequence[Name]]  # what threads computed of a leaf's stage
Depths = dict[Expression, tuple[dict[Symbol, Expression], Name, Expression]]  # indices, the last one, whether there are any
LANES = 2  # columns of a sum that a thread has side by side


@dataclass(frozen=True, slots=True)
class Spot:
    """What a thread brings of each stage: the indices of its side, its depth within the stage, and where it goes from the beginning
    of a stage on. Behind the last row it is that row again, whose products nobody stores: what is not asked needs no register.
    Where many threads would bring that row, `there` says whether it is another."""

    side: dict[Symbol, Expression]
    start: Name
    depth: Expression
    place: Expression
    there: Expression = TRUE


class FragmentReduction(TiledReduction):
    """Writes the kernel of one nest. Each thread brings as much as any other: vectors that leave some without are made shorter."""

    def __init__(self, emitter: PlainEmitter) -> None:
        super().__init__(emitter)
        threads = self.tile.threads
        fetches = [(leaf, fetch, self.extent(leaf) * self.tile.depth // threads) for leaf, fetch in self.fetches]
        self.fetches = tuple((leaf, replace(fetch, vector=min(fetch.vector, each))) for leaf, fetch, each in fetches)
        self.spots_of: dict[Leaf, list[Spot]] = {}

    @property
    def element(self) -> Element:
        """Of the factors."""
        return self.groups.leaves[0].local.element

    # ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def along_depth(self, leaf: Leaf) -> bool:
        """Whether elements of neighbouring depths lie side by side."""
        return next(one.along == "depth" for other, one in self.fetches if other is leaf)

    def pitch(self, leaf: Leaf) -> int:
        """Bytes from one line to the next: the lanes of half a warp read 4 lines, 4 elements of each."""
        return (PADDING + (self.tile.depth if self.along_depth(leaf) else self.extent(leaf))) * DOUBLE

    def length(self, leaf: Leaf) -> int:
        return self.pitch(leaf) * (self.extent(leaf) if self.along_depth(leaf) else self.tile.depth)

    def steps(self, leaf: Leaf) -> tuple[int, int]:
        """Bytes from one place of the side to the next, and from one depth to the next."""
        return (self.pitch(leaf), DOUBLE) if self.along_depth(leaf) else (DOUBLE, self.pitch(leaf))

    @property
    def line(self) -> int:
        return self.tile.columns + STATES_PADDING

    # ── the kernel ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self) -> None:
        code, tile, local = self.code, self.tile, self.code.local
        self.place()
        states = self.accumulators()
        for leaf, fetch in self.fetches:
            self.spots_of[leaf] = list(self.whereabouts(leaf, fetch))
        code.comment(placed((out.symbol.name for out in self.step.outs), self.step.span))
        first = (tile.stages - 1) * tile.depth
        with self.writer.branch(code.loop(local("ahead"), local("begin"), local("begin") + first, tile.depth)):
            came: list[Came] = []
            code.assign(local("coming"), self.slot(0))
            for _ in self.asked(came):
                pass
            self.keep_stage(came)
            self.go_on()
        code.assign(local("held"), self.first_slot())
        self.wait()
        left, right = (self.side(leaf, 0) for leaf in self.groups.leaves)
        factors = [code.let(value, "left") for value in left], [code.let(value, "right") for value in right]
        with self.writer.branch(code.loop(local("ahead"), local("begin") + first, local("stop") + first, tile.depth)):
            code.assign(local("coming"), self.slot(0))
            code.assign(local("held"), self.slot(1))
            self.turn(states, factors)
            self.go_on()
        code.call("copies_wait_0")
        code.call("block_sync")
        self.end(states)

    def end(self, states: list[list[Names]]) -> None:
        self.hand_over(states)
        self.finish()

    def wait(self) -> None:
        """Until the next stage is there, and all have taken what they need of the one before."""
        self.code.call(f"copies_wait_{self.tile.stages - 2}")
        self.code.call("block_sync")

    def turn(self, states: list[list[Names]], factors: Factors) -> None:
        """Multiply a stage, of which the first factors are in registers, while a later one is brought. While a step is multiplied,
        the factors of the next one come, which may be the first of the next stage."""
        code, local, steps = self.code, self.code.local, self.tile.depth // self.tile.groups // self.tile.fragment[2]
        came: list[Came] = []
        asking = self.asked(came)
        hurried = self.tile.stages == 2  # what comes now is multiplied next
        for _ in asking if hurried else ():
            pass
        now = factors
        for step in range(steps):
            if step == steps - 1:
                for _ in asking:
                    pass
                if hurried:
                    self.keep_stage(came)
                self.wait()
                code.assign(local("held"), self.slot(2), "the next stage")
            rows, columns = (self.side(leaf, (step + 1) % steps) for leaf in self.groups.leaves)
            more = [code.let(value, "left") for value in rows], [code.let(value, "right") for value in columns]
            for row, one in zip(states, now[0], strict=True):
                for (state,), other in zip(row, now[1], strict=True):
                    code.assign(state, call(f"multiply_{self.element.value}", state, one, other))
                    next(asking, None)
            now = more
        for names, values in zip(factors, now, strict=True):
            for name, value in zip(names, values, strict=True):
                code.assign(name, value)
        if not hurried:
            self.keep_stage(came)

    def go_on(self) -> None:
        """To the next stage: the number of the one that is ahead says it all."""

    def first_slot(self) -> Expression:
        """Where the first stage lies."""
        local = self.code.local
        return local("shared") if self.tile.splits == 1 else self.slot(0, local("begin"))

    def slot(self, later: int, depth: Expression | None = None) -> Expression:
        """Where the stage that begins at a depth lies, or one of the next: so that the compiler sees one number that counts."""
        number = (self.code.local("ahead") if depth is None else depth) >> (self.tile.depth.bit_length() - 1)
        return self.code.local("shared") + (number + later & (self.tile.stages - 1)) * self.stage

    def member(self) -> None:
        """Where a warp's rows and columns begin, and where a thread is in a fragment."""
        code, tile, local = self.code, self.tile, self.code.local
        across = tile.columns // tile.own_columns
        warp: Expression = code.let(local("thread") >> 5, "warp_")
        if tile.groups > 1:
            code.assign(local("group"), code.let(warp >> ((tile.members >> 5).bit_length() - 1)))
            warp = code.let(warp & ((tile.members >> 5) - 1), "warp_")
        code.assign(local("row"), (warp >> (across.bit_length() - 1)) * tile.own_rows)
        code.assign(local("column"), (warp & (across - 1)) * tile.own_columns)
        code.assign(local("within"), local("thread") >> 2 & 7, "a row or a column of a fragment")
        code.assign(local("quarter"), local("thread") & 3, "a depth of it, or a pair of columns")

    def accumulators(self) -> list[list[Names]]:
        """The states of a thread, of each fragment."""
        (nothing,) = self.reduce.nothing(self.writer)
        down, across = self.tile.own_rows // FRAGMENT[0], self.tile.own_columns // FRAGMENT[1]
        return [[(self.code.let(call("spread_4", nothing), "a"),) for _ in range(across)] for _ in range(down)]

    # ── a stage comes ───────────────────────────────────────────────────────────────────────────────────────────────────

    def whereabouts(self, leaf: Leaf, fetch: Fetch) -> Iterator[Spot]:
        """What a thread brings of each stage, in the order of its addresses."""
        code, thread, vector, threads = self.code, self.code.local("thread"), fetch.vector, self.tile.threads
        along = fetch.along == "depth"
        lengths = (self.tile.depth, self.extent(leaf)) if along else (self.extent(leaf), self.tile.depth)
        inner = lengths[0] // vector
        axes = self.groups.axes(leaf.side)
        corner, limit = ("top", "rows") if leaf.side == "rows" else ("left", "columns")
        beyond = code.let(thread >> (inner.bit_length() - 1), "beyond_") if inner < threads else Constant(0)
        beside = code.let((thread & (inner - 1)) * vector, "beside_") if inner < threads else code.let(thread * vector, "beside_")
        place = self.place_of(leaf, beyond, beside)
        last = code.let(code.local(limit) - (1 if along else vector), "last_")
        seen: dict[Expression, tuple[dict[Symbol, Expression], Name, Expression]] = {}
        for first in range(0, lengths[0] * lengths[1] // vector, threads):
            down, over = first // inner, first % inner * vector
            at_side, at_depth = (beyond + down, beside + over) if along else (beside + over, beyond + down)
            if at_side not in seen:
                wanted = code.local(corner) + at_side
                index = code.let(call("min_int", wanted, last), "side_")
                self.indices(axes, limit, index)
                found = {axis.symbol: self.emitter.places[axis.symbol] for axis in axes}
                self.left_behind(axes)
                start = found[axes[-1].symbol]
                assert isinstance(start, Name)
                seen[at_side] = found, start, self.there(wanted, code.local(limit))
            found, start, there = seen[at_side]
            yield Spot(found, start, at_depth, place(down, over), there)

    def there(self, place: Expression, limit: Expression) -> Expression:
        """Whether anything is brought of a place of a side."""
        return TRUE

    def place_of(self, leaf: Leaf, line: Expression, element: Expression) -> Callable[[int, int], Expression]:
        """Where an element of a line of a stage lies, and what lies so many lines and elements further."""
        place = self.code.let(self.places[leaf] + line * self.pitch(leaf) + element * DOUBLE, "place_")
        return lambda down, over: place + (down * self.pitch(leaf) + over * DOUBLE)

    def asked(self, came: list[Came]) -> Iterator[None]:
        """Begin to bring the stage `ahead`, so much at a time that a product fits between; add what threads compute, to be kept."""
        for leaf, fetch in self.fetches:
            read, values = self.copied(leaf, fetch), list[Name]()
            seen: Depths = {}
            with self.writer.forgotten():
                for spot in self.spots_of[leaf]:
                    with self.standing(leaf, fetch, spot, seen) as there:
                        if read is not None:
                            self.writer.copied(read, self.code.local("coming") + spot.place)
                        else:
                            value = self.writer.value(leaf.scalar)
                            value = self.writer.let(self.writer.where(there, value, literal(0, self.element.accumulator)))
                            values.append(self.code.let(self.spread(value, fetch.vector)) if fetch.vector > 1 else value)
                    yield
            if read is None:
                came.append((leaf, fetch, values))
        self.code.call("copies_commit")

    def copied(self, leaf: Leaf, fetch: Fetch) -> Read | None:
        """What of memory a leaf is, if that is all, and neighbours are brought by one copy."""
        read = leaf.scalar
        if not isinstance(read, Read) or read.element is not self.element or read.tensor in self.emitter.made:
            return None
        if read.padding is not None and not (isinstance(read.padding, Const) and repr(read.padding.value) == "0.0"):
            return None
        axis = self.groups.depth[-1] if fetch.along == "depth" else self.groups.axes(leaf.side)[-1]
        if fetch.vector == 1:
            return read if self.element is Element.F64 else None
        with self.moving(leaf, axis):
            together = (read.tensor, read.subscripts, axis.symbol) in self.emitter.together
        return read if together and read.padding is None else None

    @contextmanager
    def standing(self, leaf: Leaf, fetch: Fetch, spot: Spot, seen: Depths) -> Iterator[Expression]:
        """At a spot of the stage `ahead`; gives whether there is anything."""
        code, writer, places = self.code, self.writer, self.emitter.places
        axes, depth = self.groups.axes(leaf.side), self.groups.depth
        if spot.depth not in seen:
            index = code.let(code.local("ahead") + spot.depth, "depth_")
            self.indices(depth, "depth", index)
            found = {axis.symbol: places[axis.symbol] for axis in depth}
            start = found[depth[-1].symbol]
            assert isinstance(start, Name)
            seen[spot.depth] = found, start, code.let(call("lt_int", index, code.local("stop")))
        else:
            self.known(depth, seen[spot.depth][0])
        self.known(axes, spot.side)
        _, start, below = seen[spot.depth]
        axis = depth[-1] if fetch.along == "depth" else axes[-1]
        writer.lane = Lane(axis.symbol, start if fetch.along == "depth" else spot.start, fetch.vector)
        inside = below if spot.there == TRUE else writer.call("both", below, spot.there)
        with writer.masked(inside, False), self.moving(leaf, axis):
            yield inside
        writer.lane = None
        self.left_behind((*axes, *depth))

    def known(self, axes: tuple[Axis, ...], indices: dict[Symbol, Expression]) -> None:
        """Indices of axes that were found before."""
        for axis in axes:
            self.emitter.places[axis.symbol] = indices[axis.symbol]
            self.writer.extents[axis.symbol] = axis.extent

    def keep_stage(self, came: Sequence[Came]) -> None:
        """Store what threads computed of a stage."""
        for leaf, fetch, values in came:
            name = f"stage_{self.element.value}" + (f"_{fetch.vector}" if fetch.vector > 1 else "")
            for spot, value in zip(self.spots_of[leaf], values, strict=True):
                self.code.call(name, self.code.local("coming") + spot.place, value)

    # ── a stage is multiplied ───────────────────────────────────────────────────────────────────────────────────────────

    def side(self, leaf: Leaf, step: int) -> list[Expression]:
        """What a thread has of the fragments of its warp in a step of the stage."""
        tile, (side, deep) = self.tile, self.steps(leaf)
        name, own, each = ("left", tile.own_rows, FRAGMENT[0]) if leaf.side == "rows" else ("right", tile.own_columns, FRAGMENT[1])
        place = self.code.local("row" if leaf.side == "rows" else "column") + self.code.local("within")
        depth: Expression = self.code.local("quarter")
        depth = depth + self.code.local("group") * (tile.depth // tile.groups) if tile.groups > 1 else depth
        base = self.code.local("held") + self.places[leaf] + place * side + depth * deep + step * FRAGMENT[2] * deep
        base = self.code.let(base, "from_")
        return [call(f"{name}_f64", base + n * side, side, deep) for n in range(0, own, each)]

    # ── and after the last one ──────────────────────────────────────────────────────────────────────────────────────────

    def hand_over(self, states: list[list[Names]]) -> None:
        code, tile, local = self.code, self.tile, self.code.local
        base: Expression = local("shared")
        base = base + local("group") * self.room(Element.F64) if tile.groups > 1 else base
        place = (local("row") + local("within")) * self.line + local("column") + local("quarter") * LANES
        base = code.let(base + place * DOUBLE, "states_")
        for m, row in enumerate(states):
            for n, (state,) in enumerate(row):
                for half in range(2):
                    further = ((m * FRAGMENT[0] + 8 * half) * self.line + n * FRAGMENT[1]) * DOUBLE
                    code.call("stage_f64_2", base + further, Several((state[2 * half], state[2 * half + 1])))
        code.call("cluster_sync" if tile.splits > 1 else "block_sync")
