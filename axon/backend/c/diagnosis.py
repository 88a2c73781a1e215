"""What has stopped a kernel: its function once more, which notes what it meets instead of only that it met something.

The interpreter words the errors of the CPU backend in Python. A library has none, so it has a second function of every kernel that
can stop the program: the same loops on one thread, run after the first one has stopped, with a row of four numbers for everything
that may be wrong: whether it was, and of an index its value and the size that it is outside of, as they were met first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from axon.backend.cpu.function import Function
from axon.backend.cpu.nests import NestWriter
from axon.backend.cpu.runs import Vector
from axon.backend.kernel.ir import Expression, Like, call
from axon.backend.kernel.writer import Writer
from axon.backend.plan.ir import Nest
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Compute, Read, Scan, Value
from axon.core.scalar_facts import may_stop
from axon.shapes.dimension import Dim

ROW = 4  # numbers for everything that may be wrong


@dataclass(frozen=True, slots=True)
class Failure:
    """What may be wrong: an index of a read at a position, or what a text says of arithmetic."""

    text: str
    read: Read | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A kernel's second function, which writes to `notes`: a row for each of the failures, in the order of evaluation."""

    function: Function
    notes: Value
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class NestFunctions:
    """A nest's function, what it is called in the library, and its diagnosis."""

    function: Function
    symbol: str
    diagnosis: Diagnosis | None


def diagnosis(nest: Nest, values: dict[Symbol, Value], name: str) -> Diagnosis | None:
    """That of a nest; None where nothing can stop it, or where it is a scatter, which goes through its rows in another way."""
    if nest.family == "scatter" or not any(map(may_stop, nest.steps)):
        return None
    notes = Value(fresh("notes"), Element.I64, ())
    writer = _NestWriter(nest, {**values, notes.symbol: notes}, name, notes.symbol)
    function = writer.write(())
    return Diagnosis(function, notes, tuple(writer.failures)) if writer.failures else None


class _NestWriter(NestWriter):
    def __init__(self, nest: Nest, values: dict[Symbol, Value], name: str, notes: Symbol) -> None:
        super().__init__(nest, values, name)
        self.notes = notes
        self.failures: dict[Failure, int] = {}

    def writer(self, axes: Sequence[Axis], locals: dict[Symbol, Expression] | None = None) -> Writer:
        extents = {axis.symbol: axis.extent for axis in axes}
        found = _Writer(self.code, extents, self.variable, self.size, self.place, locals)
        found.nest = self
        return found

    def over_lanes(
        self,
        vector: Vector | None,
        steps: Sequence[Compute | Scan],
        scope: Sequence[Axis],
        write: Callable[[Sequence[Compute | Scan]], bool],
    ) -> bool:
        """Every lane as it stands: in an interior nothing is checked."""
        with self.lane_loop(vector):
            return write(steps)

    def note(self, writer: Writer, condition: Expression, failure: Failure, *numbers: Expression) -> None:
        """Write down what is met, if it is the first of its kind."""
        row, notes = ROW * self.failures.setdefault(failure, len(self.failures)), self.pointer(self.notes)
        first = call("eq_int", writer.call("load_i64", notes, row), 0)
        with self.code.when(writer.call("both", condition, first)):
            for place, number in enumerate((1, *numbers)):
                value: Like = number
                self.code.call("store_i64", notes, row + place, value)


class _Writer(Writer):
    nest: _NestWriter

    def fail_if(self, condition: Expression, failure: str = "") -> None:
        condition = self.let(condition)
        self.nest.note(self, condition, Failure(failure))
        super().fail_if(condition)

    def fail_outside(self, read: Read, outside: list[tuple[int, Expression, Dim]], inside: Expression) -> None:
        for position, index, extent in outside:
            size = self._let_dim(extent)
            within = self.call("both", self.call("ge_int", index, 0), self.call("lt_int", index, size))
            self.nest.note(self, self.call("negation", within), Failure("", read, position), index, size)
        super().fail_if(self.call("negation", inside))
