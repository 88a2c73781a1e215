"""Sums of products of bf16 and f16 by the tensor instructions of warps, as statements. See Note [Narrow fragments] in
`layout.register_tiles`.

What differs from f64 (`fragments`) is how a stage lies, how a warp takes fragments from it, and that states of f32 need more room
than stages: they are handed over, and the steps that follow are done, for a portion of the tile's rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from axon.backend.gpu.layout.register_tiles import NARROW, NARROW_FRAGMENT, TOGETHER, WORD
from axon.backend.gpu.simt.fragments import LANES, FragmentReduction
from axon.backend.gpu.simt.register_tiles import Leaf
from axon.backend.gpu.simt.tiled_reduction import Names
from axon.backend.kernel.ir import Constant, Expression, Several, call, same
from axon.base.element import Element

SIDE, _, DEPTH = NARROW_FRAGMENT
MATRIX = 8  # lines of a matrix, and elements of each
LINES = 8  # of shared memory that lie in banks of their own


def swizzled(line: Expression, pieces: int) -> Expression:
    """What the number of a piece of 16 bytes is turned by, in a line of so many: such that the pieces of one number in eight lines
    are in all banks. Lines of fewer than eight pieces begin in different banks already."""
    together = max(1, LINES // pieces)  # lines that begin in different banks
    line = line >> (together.bit_length() - 1) if together > 1 else line
    return line & (min(LINES, pieces) - 1)


class NarrowFragmentReduction(FragmentReduction):
    """Writes the kernel of one nest."""

    # ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pitch(self, leaf: Leaf) -> int:
        return (self.tile.depth if self.along_depth(leaf) else self.extent(leaf)) * NARROW

    def pieces(self, leaf: Leaf) -> int:
        """Of a line."""
        return self.pitch(leaf) // TOGETHER

    def room(self, element: Element) -> int:
        return super().room(element) // self.tile.portions

    # ── where stages lie ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def rolling(self) -> bool:
        """Whether what counts stages is where they lie: a division by their number would take longer."""
        return bool(self.tile.stages & (self.tile.stages - 1))

    def write(self) -> None:
        if self.rolling:
            self.code.assign(self.code.local("slot"), 0)
        super().write()

    def go_on(self) -> None:
        if self.rolling:
            self.code.assign(self.code.local("slot"), self.rolled(1))

    def first_slot(self) -> Expression:
        return self.code.local("shared") if self.rolling else super().first_slot()

    def slot(self, later: int, depth: Expression | None = None) -> Expression:
        return self.code.local("shared") + self.rolled(later) if self.rolling else super().slot(later, depth)

    def rolled(self, later: int) -> Expression:
        """So many stages after the one that comes next, of those that there are, counted in bytes."""
        if later == 0:
            return self.code.local("slot")
        further, end = self.code.local("slot") + later * self.stage, self.tile.stages * self.stage
        return call("select", call("lt_int", further, end), further, further - end)

    # ── a stage comes ───────────────────────────────────────────────────────────────────────────────────────────────────

    def place_of(self, leaf: Leaf, line: Expression, element: Expression) -> Callable[[int, int], Expression]:
        pitch, pieces, let = self.pitch(leaf), self.pieces(leaf), self.code.let
        turn = let(swizzled(line, pieces) * TOGETHER, "turn_")
        begin, at = let(self.places[leaf] + line * pitch, "line_"), let(element * NARROW, "at_")

        def place(down: int, over: int) -> Expression:
            again = turn if down % LINES == 0 else swizzled(line + down, pieces) * TOGETHER
            return let(begin + down * pitch + (at + over * NARROW ^ again), "place_")

        return place

    def there(self, place: Expression, limit: Expression) -> Expression:
        """A copy of nothing asks for nothing; many of the same row take their time one after the other."""
        return self.code.let(call("lt_int", place, limit), "there_")

    # ── a stage is multiplied ───────────────────────────────────────────────────────────────────────────────────────────

    def member(self) -> None:
        """Where a warp's rows and columns begin, where the states of a thread are in a fragment, and of which line of which matrix
        it gives the address: of four, two are side by side and two behind each other."""
        super().member()
        code, local, thread = self.code, self.code.local, self.code.local("thread")
        code.assign(local("beneath"), thread & 7, "a line of a matrix")
        code.assign(local("first"), thread >> 3 & 1)
        code.assign(local("second"), thread >> 4 & 1)

    def side(self, leaf: Leaf, step: int) -> list[Expression]:
        """The fragments of a warp in a step of the stage: in which line of which piece its lanes find their parts."""
        tile, code, local = self.tile, self.code, self.code.local
        rows = leaf.side == "rows"
        own, begin = (tile.own_rows, local("row")) if rows else (tile.own_columns, local("column"))
        aside, behind = (local("first"), local("second")) if rows else (local("second"), local("first"))
        pitch, pieces = self.pitch(leaf), self.pieces(leaf)
        turn = swizzled(local("beneath"), pieces)
        group: Expression = local("group") * (tile.depth // tile.groups) if tile.groups > 1 else Constant(0)
        base = local("held") + self.places[leaf]
        if self.along_depth(leaf):  # a line is a place of the side
            line = begin + aside * MATRIX + local("beneath")
            piece = ((group >> 3) + behind + step * (DEPTH // MATRIX) ^ turn) * TOGETHER
            at = code.let(base + line * pitch + piece, "from_")
            return [call("matrices", at + n * pitch) for n in range(0, own, SIDE)]
        line = group + behind * MATRIX + local("beneath") + step * DEPTH
        at, first = code.let(base + line * pitch, "from_"), code.let((begin >> 3) + aside, "piece_")
        return [call("matrices_across", at + (first + n // MATRIX ^ turn) * TOGETHER) for n in range(0, own, SIDE)]

    def accumulators(self) -> list[list[Names]]:
        (nothing,) = self.reduce.nothing(self.writer)
        down, across = self.tile.own_rows // SIDE, self.tile.own_columns // SIDE
        return [[(self.code.let(call("spread_8", nothing), "a"),) for _ in range(across)] for _ in range(down)]

    # ── and after the last one ──────────────────────────────────────────────────────────────────────────────────────────

    def end(self, states: list[list[Names]]) -> None:
        """The states of a portion are handed over, and the steps that follow done; then those of the next one."""
        code, tile = self.code, self.tile
        if tile.portions == 1:
            super().end(states)
            return
        with self.writer.branch(code.loop(code.local("portion"), tile.portions)):
            super().end(states)
            if tile.splits == 1:
                code.call("block_sync", note="others still read what lies here")

    @property
    def handed_rows(self) -> int:
        """Of a warp, at once."""
        return self.tile.own_rows // self.tile.portions

    def handed_row(self, down: Expression) -> Expression:
        each, portions = self.handed_rows, self.tile.portions
        if portions == 1:
            return down
        warp = down >> (each.bit_length() - 1)
        return warp * self.tile.own_rows + self.code.local("portion") * each + (down & (each - 1))

    def hand_over(self, states: list[list[Names]]) -> None:
        code, tile, local = self.code, self.tile, self.code.local
        base: Expression = local("shared")
        base = base + local("group") * self.room(Element.F32) if tile.groups > 1 else base
        row = local("row") >> (tile.portions.bit_length() - 1) if tile.portions > 1 else local("row")
        place = (row + local("within")) * self.line + local("column") + local("quarter") * LANES
        base = code.let(base + place * WORD, "states_")
        each = self.handed_rows // SIDE
        for first in range(0, len(states), each):
            alone = code.when(same(local("portion"), first // each)) if tile.portions > 1 else nullcontext()
            with alone:
                for m, row_states in enumerate(states[first : first + each]):
                    for n, (state,) in enumerate(row_states):
                        for part in range(4):  # both rows of the first 8 columns, then of the next 8
                            across, half = divmod(part, 2)
                            further = (m * SIDE + half * MATRIX) * self.line + n * SIDE + across * MATRIX
                            pair = Several((state[2 * part], state[2 * part + 1]))
                            code.call("stage_f32_2", base + further * WORD, pair)
        code.call("cluster_sync" if tile.splits > 1 else "block_sync")
