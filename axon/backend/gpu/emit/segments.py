"""Which rows a tile sums, read from a table, and where copies of them begin; see Note [Segments of a sum] in `tile.segments`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import Coordinate
from axon.backend.gpu.tile.segments import Segments
from axon.backend.kernel.ir import Expression, call
from axon.backend.kernel.tensor_core_scalars import address, loaded
from axon.base.element import Element
from axon.base.names import Symbol

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter


class SegmentEmitter:
    """Reads the table, through the emitter of everything else."""

    def __init__(self, emitter: Emitter, parts: Segments) -> None:
        self.out, self.parts = emitter, parts
        local = emitter.code.local
        self.first, self.last, self.row = local("first_row"), local("last_row"), local("row")
        self.begin = local("begin")  # the row of a tile's first step, which may be another group's
        self.at: Coordinate | None = None  # the step whose front is known

    def tile(self) -> None:
        """The rows of the current tile, and how many steps they take, the last of which ends with them: at least one."""
        out, code, step = self.out, self.out.code, self.out.program.steps.step
        group = out.name(self.parts.group)
        code.assign(self.first, self.read(group))
        code.assign(self.last, self.read(group + 1))
        code.assign(out.steps, call("max", call("ptx.divide", self.last - self.first + (step - 1), step), 1))
        if any(isinstance(op, b.Copy) for op in b.operations(out.current.body)):
            code.assign(self.begin, self.last - out.steps * step)

    def another(self) -> None:
        """Another step is copied: its front is to be found."""
        self.at = None

    def places(self, op: b.Copy) -> list[Expression]:
        """Where a copy begins, outermost first: at the front of its step's rows, or so far before it."""
        out, code, steps = self.out, self.out.code, self.out.program.steps.symbol
        step = next(c for c in op.at if c.axis == steps)
        if step != self.at:
            self.at = step
            code.assign(self.row, self.begin + out.coordinate(step))
            code.assign(out.name(self.parts.front), call("max", self.row, self.first))
        front = out.name(self.parts.front)
        own: dict[Symbol, Expression] = {self.parts.front: front, steps: self.row - front}
        return [own[c.axis] if c.axis in own else out.coordinate(c) for c in op.at]

    def read(self, place: Expression) -> Expression:
        offset = call("int64", place) * self.out.stride(self.parts.start.symbol, 0)
        return loaded(Element.I32, address(self.out.pointer(self.parts.start.symbol), Element.I32.bits // 8, [offset]))
