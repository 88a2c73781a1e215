"""In which pages boxes of rows are, read from tables, and where copies of them begin: see Note [Rows in pages], in `pages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from axon.backend.gpu.layout.pages import REACH, Pages
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.tile.epilogue import bare
from axon.backend.kernel.ir import Choice, Constant, Expression, Name, both, call
from axon.backend.kernel.tensor_core_scalars import EpilogueWriter, address, loaded
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Read, Scalar, element_of
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter


class PageEmitter:
    """Reads tables, through the emitter of everything else."""

    def __init__(self, emitter: Emitter) -> None:
        self.out = emitter
        self.ends: dict[Pages, Name] = {}  # the row of a tile behind the last

    def tile(self) -> None:
        """Where the rows of the current tile end."""
        out, code = self.out, self.out.code
        if not any(isinstance(op, b.Look) for op in b.operations(out.current.body)):
            return
        for pages in out.program.pages:
            if pages.front is None:
                continue
            end: Expression = out.size(pages.extent)
            if pages.until is not None:
                until = code.let(self.value(pages.until, {}), "until")
                end = call("int32", call("min", call("max", until, 0), end))
            self.ends[pages] = out.part(pages.front, "end")
            code.assign(self.ends[pages], end)

    def look(self, op: b.Look) -> None:
        """The page of the first of these boxes: while it comes, a stage is waited for. Those of the others lie close by."""
        self.out.code.assign(self.out.name(op.pages.page), self.found(op.pages, self.out.coordinate(op.at[0])))

    def found(self, pages: Pages, row: Expression) -> Expression:
        """Which page a table has for a row; -1 of one behind the last."""
        out, code = self.out, self.out.code
        number, last, count = out.name(pages.number), out.part(pages.number, "there"), out.size(pages.count)
        code.assign(number, call("ptx.divide", row, out.size(pages.rows)))
        code.assign(last, call("min", number, count - 1))
        there, found = number < count, out.part(pages.page, "found")
        code.assign(found, self.value(pages.index, {pages.number: last}))
        if element_of(pages.index) is Element.I64:
            there = both(there, both(Constant(0) <= found, found < 1 << 31))
        return call("int32", Choice(there, found, Constant(-1)))

    def copies(self, run: Sequence[b.Copy], pages: Pages) -> None:
        """The copies of a tile's boxes, one box after the other: while those of one are asked for, the page of the next comes."""
        out, code, box = self.out, self.out.code, self.out.program.mapping.box
        first, steps = run[0], out.program.steps.symbol
        begin = next(c for c in first.at if c.axis == steps)
        panels = [op for op in run if next(c for c in op.at if c.axis == steps) == begin]
        count = len(run) // len(panels)
        size = box * out.program.target.swizzle
        part, page = code.local("part"), out.part(pages.page, "of_box")
        code.assign(page, out.name(pages.page))
        if count == 1:
            self.box(panels, pages, page, out.coordinate(begin), None)
            return
        code.assign(part, 0)
        with code.repeat(part < count):
            row = out.part(pages.page, "row")
            code.assign(row, out.coordinate(begin) + part * box)
            following = out.part(pages.page, "after")
            code.assign(following, self.found(pages, row + box))
            self.box(panels, pages, page, row, part * size)
            code.assign(page, following)
            code.assign(part, call("ptx.opaque", part + 1))

    def box(self, panels: Sequence[b.Copy], pages: Pages, page: Name, row: Expression, moved: Expression | None) -> None:
        """The copies of a box from a row on, each so many bytes behind where that of the first box goes."""
        out = self.out
        steps, box, rows = out.program.steps.symbol, out.program.mapping.box, out.size(pages.rows)
        slot: Expression = Constant(0)
        if pages.rows.constant != box:
            slot = row - call("ptx.divide", row, rows) * rows
        own: dict[Symbol, Expression] = {pages.page: page, steps: slot}
        if pages.front is not None:
            count = out.part(pages.front, "rows")
            out.code.assign(count, call("max", call("min", self.ends[pages] - row, box), 0))
            own |= {pages.front: slot + count, steps: Constant(REACH) - count}
        for op in panels:
            at = [own[c.axis] if c.axis in own else out.coordinate(c) for c in op.at]
            out.copy(op, list(reversed(at)), moved)

    def value(self, scalar: Scalar, known: dict[Symbol, Expression]) -> Expression:
        """A value of the tile, or of a page of it."""
        out = self.out

        def variable(symbol: Symbol) -> Expression:
            return known[symbol] if symbol in known else out.stream.variable(symbol)

        def size(dim: Dim) -> Expression | None:
            return None if dim.variables & known.keys() else out.stream.size(dim)

        def read(node: Read) -> Expression:
            places = (variable(axis) for axis in bare(node) or ())
            offsets = [call("int64", place) * out.stride(node.tensor, d) for d, place in enumerate(places)]
            return loaded(node.element, address(out.pointer(node.tensor), max(8, node.element.bits) // 8, offsets))

        return EpilogueWriter(out.code, read, variable, size, {}).value(scalar)
