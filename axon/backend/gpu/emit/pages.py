"""In which pages boxes of rows are, read from tables, and where copies of them begin; see Note [Rows in pages] in `layout.pages`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.backend.gpu.layout.pages import REACH, Pages
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import Coordinate
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
        self.found: dict[tuple[Symbol, Coordinate], Name] = {}
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
        """The pages of boxes that begin at these places; none of one behind the last."""
        out, code, pages = self.out, self.out.code, op.pages
        number, count = out.name(pages.number), out.size(pages.count)
        for place, at in enumerate(op.at):
            code.assign(number, call("ptx.divide", out.coordinate(at), out.size(pages.rows)))
            there = number < count
            last = code.let(call("min", number, count - 1), "last")
            page = code.let(self.value(pages.index, {pages.number: last}), "page")
            if element_of(pages.index) is Element.I64:
                there = both(there, both(Constant(0) <= page, page < 1 << 31))
            name = self.found[pages.page, at] = out.part(pages.page, place)
            code.assign(name, call("int32", Choice(there, page, Constant(-1))))

    def places(self, op: b.Copy, pages: Pages) -> list[Expression]:
        """Where a copy of a box begins, outermost first: in its page, or so that it ends with the rows."""
        out = self.out
        steps, box = out.program.steps.symbol, out.program.mapping.box
        at = next(c for c in op.at if c.axis == steps)
        first, rows = out.coordinate(at), out.size(pages.rows)
        slot: Expression = Constant(0)
        if pages.rows.constant != box:
            slot = first - call("ptx.divide", first, rows) * rows
        own: dict[Symbol, Expression] = {pages.page: self.found[pages.page, at], steps: slot}
        if pages.front is not None:
            count = out.code.let(call("max", call("min", self.ends[pages] - first, box), 0), "rows")
            own |= {pages.front: slot + count, steps: Constant(REACH) - count}
        return [own[c.axis] if c.axis in own else out.coordinate(c) for c in op.at]

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
