"""Which rows a ragged tile has, read from tables; see Note [Ragged tiles] in `tile.ragged`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.backend.gpu.tile.ragged import Ragged
from axon.backend.kernel.ir import Choice, Constant, Expression, Name, call
from axon.backend.kernel.tensor_core_scalars import address, loaded
from axon.base.element import Element
from axon.core.ir import Value

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter


class RaggedEmitter:
    """Reads tables, through the emitter of everything else."""

    def __init__(self, emitter: Emitter, ragged: Ragged) -> None:
        self.out, self.ragged = emitter, ragged
        local = emitter.code.local
        self.first, self.last = local("first_row"), local("last_row")

    def pieces(self) -> Name:
        """How many tiles of rows there are, read once."""
        code, rows = self.out.code, self.out.program.order.rows
        key = self.out.name(rows.symbol), "count"
        if key not in self.out.parts:
            self.out.parts[key] = code.named(f"count_{rows.symbol.name}")
            code.assign(self.out.parts[key], self.read(self.ragged.before, self.out.size(self.ragged.groups)))
        return self.out.parts[key]

    def tile(self) -> None:
        """The group and the rows of the current tile."""
        code, ragged = self.out.code, self.ragged
        tile = self.out.name(self.out.program.order.rows.symbol)
        code.assign(self.out.name(ragged.group), self.read(ragged.tile_group, tile))
        code.assign(self.first, self.read(ragged.first, tile))
        code.assign(self.last, self.read(ragged.last, tile))

    def stands(self, row: Expression) -> Expression:
        """Where a row of the order of groups stands in results: one of the tile's."""
        row = call("min", row, self.last - 1)
        return row if self.ragged.order is None else self.read(self.ragged.order, row)

    def inside(self, row: Expression) -> Expression:
        """The same, or -1 of a row that is none of the tile's."""
        return Choice(row < self.last, self.stands(row), Constant(-1))

    def read(self, table: Value, place: Expression) -> Expression:
        offset = call("int64", place) * self.out.stride(table.symbol, 0)
        return loaded(Element.I32, address(self.out.pointer(table.symbol), Element.I32.bits // 8, [offset]))
