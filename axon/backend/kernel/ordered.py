"""Maxima and minima of floats as those of integers that lie in the same order.

The greatest of floats waits for what is no number, and for which of two zeros it is: six instructions for each vector, each after
the one before it. An integer of as many bits says the same where bits of negative numbers are turned round; what is no number is
the greatest of all there, or the least. Making that of a float waits for nothing, and the greatest of integers is one instruction.
"""

from __future__ import annotations

import struct

from axon.backend.kernel.ir import Expression, call
from axon.backend.kernel.reducers import Reducer, State
from axon.backend.kernel.writer import Writer, literal
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.functions import MonoidKind
from axon.core.ir import Monoid, Scalar, element_of, identity

_INTEGERS = {Element.F32: Element.I32, Element.F64: Element.I64}


def _place(number: float, held: Element) -> int:
    """Of a number that is one."""
    kind, most = ("<fi", 2**31 - 1) if held is Element.F32 else ("<dq", 2**63 - 1)
    (bits,) = struct.unpack(kind[0] + kind[2], struct.pack(kind[:2], number))
    return int(bits) ^ most if bits < 0 else int(bits)


@dataclass(frozen=True, slots=True)
class Places:
    """Values to be compared as integers, of which the first best one is looked for: zeros of both signs are equally good."""

    kind: MonoidKind  # max or min
    element: Element

    @property
    def nothing(self) -> Expression:
        held = self.element.accumulator
        if not held.is_float:
            return literal(identity(self.kind, self.element), held)
        return literal(_place(float(identity(self.kind, self.element)), held), _INTEGERS[held])

    def placed(self, writer: Writer, value: Expression) -> Expression:
        held = self.element.accumulator
        if not held.is_float:
            return value
        return writer.call(f"place_{self.kind}", writer.call("add", value, literal(0, held)))  # -0 + 0 is 0

    def better(self, writer: Writer, one: Expression, other: Expression) -> Expression:
        return writer.code.let(call(f"{self.kind}_{self._integers}", one, other), "a")

    def is_better(self, writer: Writer, one: Expression, other: Expression) -> Expression:
        return writer.call(f"{'gt' if self.kind == 'max' else 'lt'}_{self._integers}", one, other)

    def is_one(self, writer: Writer, one: Expression, other: Expression) -> Expression:
        return writer.call(f"eq_{self._integers}", one, other)

    @property
    def _integers(self) -> str:
        return "unsigned" if self.element.accumulator.is_unsigned else "int"


def ordered(monoid: Monoid, bodies: tuple[Scalar, ...], reduce: Reducer) -> Reducer:
    """The same reducer, of extremes of floats in this way: for accumulators that are variables."""
    element = element_of(bodies[0])
    return _Ordered(monoid.kind, element, reduce) if monoid.kind in ("max", "min") and element.accumulator.is_float else reduce


class _Ordered:
    def __init__(self, kind: str, element: Element, reduce: Reducer) -> None:
        self.kind, self.element, self.reduce = kind, element, reduce
        self.elements: tuple[Element, ...] = (_INTEGERS[element.accumulator],)

    in_parts = False

    def nothing(self, writer: Writer) -> State:
        return (literal(_place(float(identity(self.kind, self.element)), self.element.accumulator), *self.elements),)

    def speculable(self, writer: Writer) -> bool:
        return self.reduce.speculable(writer)

    def values(self, writer: Writer) -> State:
        return self.reduce.values(writer)

    def combine(self, writer: Writer, state: State, values: State, where: Expression | None) -> State:
        placed: Expression = writer.let(call(f"place_{self.kind}", *values))
        if where is not None:
            placed = writer.where(where, placed, *self.nothing(writer))
        return (writer.code.let(call(f"{self.kind}_int", state[0], placed), "a"),)

    def alone(self, writer: Writer, values: State, where: Expression | None) -> State:
        return self.combine(writer, self.nothing(writer), values, where)

    def finish(self, writer: Writer, state: State, asked: Scalar | None, *, stored: bool = False) -> State:
        return self.reduce.finish(writer, (writer.let(call("placed", *state)),), asked, stored=stored)
