"""Scales of what a step adds up: loaded before its products are waited for, multiplied when these are promoted.

A thread has parts of two rows of each 64, and two columns of each 8 (Note [Accumulators] in `emit.kernel`). So a scale of rows is
two numbers for each 64 rows, one that a whole tile shares one, and one of columns a number for each column of a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.backend.gpu.layout.scales import Scale
from axon.backend.gpu.tile import ir as t
from axon.backend.kernel.ir import Expression, Like, Name, call, lift
from axon.backend.kernel.tensor_core_scalars import address, loaded
from axon.base.names import Symbol

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter

_BYTES = 4  # of a scale


class ScaleEmitter:
    """Writes them through the emitter of everything else."""

    def __init__(self, emitter: Emitter) -> None:
        self.out = emitter
        self.by_row: dict[Symbol, list[tuple[Expression, Expression]]] = {}  # of each 64 rows, two
        self.by_column: dict[Symbol, Name | None] = {}

    def read(self, op: t.ReadScales) -> None:
        """Load them for the current step."""
        out, code, order = self.out, self.out.code, self.out.program.order
        rows, columns = order.rows, order.columns
        shared: list[Expression] = []
        of_rows: list[Scale] = []
        of_columns: list[Name] = []
        for number, scale in enumerate(op.scales):
            if scale.along(rows.symbol):
                of_rows.append(scale)
                continue
            name = out.part(op.symbol, number)
            unit = scale.along(columns.symbol)
            if unit % columns.step:  # neighbours of a tile have others
                start = self.at(op, scale, {columns.symbol: 0})
                # Opaque: or the compiler keeps the addresses of all columns from step to step, for which there are no registers.
                own = call("ptx.opaque", out.name(columns.symbol) * columns.step + out.lane % 4 * 2)
                step = out.stride(scale.read.tensor, self.dimension(scale, columns.symbol)) * _BYTES
                last = out.size(columns.extent) - 1
                load = out.made("scales_of_columns", "ptx_tiles.scales_of_columns", columns.step, unit)
                code.assign(name, call(load, start, own, last, step))
                of_columns.append(name)
            else:
                first = out.name(columns.symbol) * columns.step
                code.assign(name, loaded(scale.read.element, self.at(op, scale, {columns.symbol: first})))
                shared.append(name)
        together = _product(shared)
        pairs: list[tuple[Expression, Expression]] = []
        for block in range(out.program.blocks):
            halves = []
            for half in range(2):
                row = out.results.first_row(block) + out.results.quarter + out.lane % 32 // 4 + 8 * half
                inside = call("min", row, out.results.rows_end - 1)
                found: list[Expression] = []
                for number, scale in enumerate(of_rows):
                    name = out.part(op.symbol, f"rows{number}_{block}{half}")
                    code.assign(name, loaded(scale.read.element, self.at(op, scale, {rows.symbol: inside})))
                    found.append(name)
                halves.append(_product([*found, together] if shared else found))
            pairs.append((halves[0], halves[1]))
        self.by_row[op.symbol] = pairs
        whole = out.part(op.symbol, "columns") if of_columns else None
        if whole is not None:
            code.assign(whole, of_columns[0])
            for other in of_columns[1:]:
                code.assign(whole, call(out.made("both_scales", "ptx_tiles.multiply_scales", columns.step), whole, other))
        self.by_column[op.symbol] = whole

    def promote(self, op: t.Promote) -> None:
        """Add the step's sum, multiplied by them, to that of all."""
        assert op.scales is not None
        out, columns = self.out, self.by_column[op.scales]
        name = "promote_scaled" if columns is None else "promote_scaled_columns"
        scaled = out.made(name, "ptx_tiles.promote_scaled", op.accumulator.shape[1], columns is not None)
        both = zip(out.accumulators(op.accumulator), out.accumulators(op.partial), self.by_row[op.scales], strict=True)
        for total, partial, pair in both:
            out.code.assign(total, call(scaled, total, partial, *pair, *(() if columns is None else (columns,))))

    def at(self, op: t.ReadScales, scale: Scale, places: dict[Symbol, Like]) -> Expression:
        """The address of a scale at places along rows or columns, and at the current ones of all else."""
        out, steps = self.out, self.out.program.steps
        offsets: list[Expression] = []
        for d, subscript in enumerate(scale.read.subscripts):
            symbol = scale.index(subscript)
            place: Like = places.get(symbol, out.name(symbol))
            if place == 0:
                continue
            unit = scale.along(symbol)
            if symbol == op.over:  # a piece has so much of it
                unit //= steps.step
            divided = lift(place) if unit == 1 else call("ptx.divide", place, unit)
            offsets.append(call("int64", divided) * out.stride(scale.read.tensor, d))
        return address(out.pointer(scale.read.tensor), _BYTES, offsets)

    def dimension(self, scale: Scale, axis: Symbol) -> int:
        """Along which of its dimensions a scale is read at an axis."""
        return next(d for d, subscript in enumerate(scale.read.subscripts) if scale.index(subscript) == axis)


def _product(factors: list[Expression]) -> Expression:
    if not factors:
        return call("float32", 1.0)
    first, *others = factors
    for factor in others:
        first = first * factor
    return first
