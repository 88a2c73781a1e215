"""How a reduction or a scan accumulates: its state as elements, where they are, and one step of it as statements.

In which element type it does is `Element.accumulator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from axon.backend.kernel.ir import FALSE, TRUE, Call, Expression, Name, call
from axon.backend.kernel.writer import Writer, is_narrow, literal
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Binary, Bind, Convert, Index, Local, Monoid, Scalar, Unary, element_of, identity

State = tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Slots:
    """Accumulators as variables, or, with `elements`, as buffers that have a place for every lane."""

    names: tuple[Name, ...]
    elements: tuple[Element, ...] = ()

    def get(self, writer: Writer, place: Expression | None) -> State:
        if place is None:
            return self.names
        at = writer.let(place)
        return tuple(
            writer.code.let(call(f"load_{element.value}", name, at), "a")
            for name, element in zip(self.names, self.elements, strict=True)
        )

    def set(self, writer: Writer, place: Expression | None, state: State) -> None:
        if place is None:
            for name, value in zip(self.names, state, strict=True):
                writer.code.assign(name, value)
            return
        at = writer.let(place)
        for name, element, value in zip(self.names, self.elements, state, strict=True):
            writer.code.call(f"store_{element.value}", name, at, value)


class Combiner(Protocol):
    """How states are put together. `elements` are those of the state."""

    elements: tuple[Element, ...]

    def nothing(self, writer: Writer) -> State:
        """The state before anything is reduced."""

    def combine(self, writer: Writer, state: State, values: State, where: Expression | None) -> State:
        """The state with values taken in; where there is a condition, only if it holds."""


class Reducer(Combiner, Protocol):
    """How elements are reduced."""

    @property
    def in_parts(self) -> bool:
        """Whether it loses digits with every element, and long ones are reduced in runs. See Note [Sums of sums] in `cpu.runs`."""

    def speculable(self, writer: Writer) -> bool:
        """Whether `combine` may be evaluated where its condition does not hold."""

    def values(self, writer: Writer) -> State:
        """The bodies' values at the writer's place."""

    def alone(self, writer: Writer, values: State, where: Expression | None) -> State:
        """The state with these values only, to be merged with others; as if `combine` took them into nothing."""

    def finish(self, writer: Writer, state: State, asked: Scalar | None, *, stored: bool = False) -> State:
        """The operation's results. What is only `stored` is rounded by the store."""


def reducer(monoid: Monoid, bodies: tuple[Scalar, ...], *, running: bool = False, anywhere: bool = False) -> Reducer:
    """How elements are combined. The `running` results of a scan are each of one element at least. Of states that
    are joined, elements lie `anywhere`, or the left one's before the right one's."""
    match monoid.kind:
        case "custom":
            return _Custom(monoid, bodies)
        case "argmax" | "argmin":
            return Best(monoid.kind, bodies, anywhere)
        case kind:
            return _Named(kind, bodies[0], running)


def _choose(writer: Writer, where: Expression | None, new: State, old: State) -> State:
    return tuple(writer.call("select", where, x, y) for x, y in zip(new, old, strict=True)) if where is not None else new


class _Named:
    """sum prod max min any all, in the accumulator of the element type; whether there was anything, where that matters."""

    def __init__(self, kind: str, body: Scalar, running: bool) -> None:
        self.kind, self.body = kind, body
        self.element = element_of(body)
        self.partly = kind in ("max", "min") and self.element.is_integer and not running
        held = self.element.accumulator
        self.elements: tuple[Element, ...] = (held, Element.BOOL) if self.partly else (held,)

    @property
    def in_parts(self) -> bool:
        return self.kind == "sum" and self.element.is_float

    def nothing(self, writer: Writer) -> State:
        unit = literal(identity(self.kind, self.element), self.element.accumulator)
        return (unit, FALSE) if self.partly else (unit,)

    def speculable(self, writer: Writer) -> bool:
        return True

    def values(self, writer: Writer) -> State:
        """Of a sum of products, the product's two parts: they are multiplied when they are added.

        Of a mean that is written `x * s * s`, so that it does not overflow, `s * s` is one: it is the same for all elements.
        """
        if self.kind != "sum" or not self.element.is_float:
            return (writer.value(self.body),)
        inner, known = self.body, dict[Symbol, Scalar]()
        while isinstance(inner, Bind):
            for symbol, bound in inner.bindings:
                writer.locals[symbol] = writer.value(bound)
                known[symbol] = bound
            inner = inner.body
        if not (isinstance(inner, Binary) and inner.op == "mul"):
            return (writer.value(inner),)
        left, right = inner.left, inner.right
        if isinstance(left, Binary) and left.op == "mul" and all(_inverse_root(x, known) for x in (left.right, right)):
            root = writer.apply("mul", self.element, writer.value(left.right), writer.value(right))
            return self._factor(writer, left.left), root
        return self._factor(writer, left), self._factor(writer, right)

    def _factor(self, writer: Writer, scalar: Scalar) -> Expression:
        """A factor of a sum's product, itself multiplied without rounding."""
        if is_narrow(self.element) and isinstance(scalar, Binary) and scalar.op == "mul":
            return writer.apply("mul", self.element, self._factor(writer, scalar.left), self._factor(writer, scalar.right))
        return writer.value(scalar)

    def combine(self, writer: Writer, state: State, values: State, where: Expression | None) -> State:
        # A neutral value rather than a choice of sums: what loops over sums vectorize.
        guarded = where is not None and len(values) == 1
        taken = self._guarded(writer, values, where) if guarded else values
        combined: State = (writer.code.let(self._combined(state, taken), "a"),)
        if not guarded:
            combined = _choose(writer, where, combined, state[:1])
        if not self.partly:
            return combined
        return (*combined, writer.code.let(call("either", state[1], where), "a") if where is not None else TRUE)

    def _combined(self, state: State, values: State) -> Call:
        held = self.element.accumulator
        if len(values) == 2:
            name = "sum_product"
        elif self.kind in ("any", "all"):
            name = "either" if self.kind == "any" else "both"
        elif held.is_float:
            name = f"{self.kind}_float"
        elif self.kind in ("max", "min"):
            name = f"{self.kind}_{'unsigned' if held.is_unsigned else 'int'}"
        else:
            name = "add" if self.kind == "sum" else "mul"
        return call(name, state[0], *values)

    def _guarded(self, writer: Writer, values: State, where: Expression | None) -> State:
        (value,) = values
        return (writer.where(where, value, literal(identity(self.kind, self.element), self.element.accumulator)),)

    def alone(self, writer: Writer, values: State, where: Expression | None) -> State:
        if len(values) == 1 and self.kind == "sum" and self.element.is_float:  # 0 + x, but for the sign of a 0, which others hide
            return self._guarded(writer, values, where)
        return self.combine(writer, self.nothing(writer), values, where)

    def finish(self, writer: Writer, state: State, asked: Scalar | None, *, stored: bool = False) -> State:
        if self.partly:
            _require(writer, state[1], asked, f"the {self.kind} of no integers")
        held = state[0]
        return (writer.call(f"round_{self.element.value}", held) if is_narrow(self.element) and not stored else held,)


def _inverse_root(scalar: Scalar, known: Mapping[Symbol, Scalar]) -> bool:
    """Whether it is the inverse root of a size: between 0 and 1, and its square no subnormal number."""
    if isinstance(scalar, Local):
        return scalar.symbol in known and _inverse_root(known[scalar.symbol], known)
    return isinstance(scalar, Unary) and scalar.op == "rsqrt" and isinstance(scalar.operand, Convert) and _is_size(scalar.operand)


def _is_size(scalar: Scalar) -> bool:
    while isinstance(scalar, Convert):
        scalar = scalar.operand
    return isinstance(scalar, Index)


class Best:
    """argmax and argmin: the best value, its indices, and whether there is one."""

    def __init__(self, kind: str, bodies: tuple[Scalar, ...], anywhere: bool) -> None:
        self.kind, self.bodies, self.anywhere = kind, bodies, anywhere
        self.element = element_of(bodies[0])
        self.elements = (self.element.accumulator, *map(element_of, bodies[1:]), Element.BOOL)

    in_parts = False

    def nothing(self, writer: Writer) -> State:
        return (*(literal(0, element) for element in self.elements[:-1]), FALSE)

    def speculable(self, writer: Writer) -> bool:
        return True

    def values(self, writer: Writer) -> State:
        return tuple(map(writer.value, self.bodies))

    def joined(self, writer: Writer, left: State, right: State) -> State:
        """Two states as one: of equally good values the first, by their order or by their indices."""
        if not self.anywhere:
            return self.combine(writer, left, right[:-1], right[-1])
        held = self.elements[0]
        wins = self._beats(writer, right[0], left[0])
        alike = writer.binary("eq", right[0], left[0], held)
        if held.is_float:
            here, there = (writer.binary("ne", x, x, held) for x in (right[0], left[0]))
            alike = writer.call("either", alike, writer.call("both", here, there))
        for element, mine, other in zip(self.elements[1:-1], right[1:-1], left[1:-1], strict=True):
            wins = writer.call("either", wins, writer.call("both", alike, writer.binary("lt", mine, other, element)))
            alike = writer.call("both", alike, writer.binary("eq", mine, other, element))
        wins = writer.call("both", writer.call("either", wins, writer.call("negation", left[-1])), right[-1])
        return (*_choose(writer, wins, right[:-1], left[:-1]), writer.call("either", left[-1], right[-1]))

    def combine(self, writer: Writer, state: State, values: State, where: Expression | None) -> State:
        wins = writer.call("either", self._beats(writer, values[0], state[0]), writer.call("negation", state[-1]))
        if where is not None:
            wins = writer.call("both", wins, where)
        chosen = _choose(writer, wins, values, state[:-1])
        return (*chosen, writer.call("either", state[-1], TRUE if where is None else where))

    def _beats(self, writer: Writer, new: Expression, old: Expression) -> Expression:
        """Whether a value is better than one that was there before: the first that is no number is best of all."""
        held = self.elements[0]
        if not held.is_float:
            return writer.binary("gt" if self.kind == "argmax" else "lt", new, old, held)
        worse = writer.binary("le" if self.kind == "argmax" else "ge", new, old, held)
        return writer.call("both", writer.call("negation", worse), writer.binary("eq", old, old, held))

    def alone(self, writer: Writer, values: State, where: Expression | None) -> State:
        return self.combine(writer, self.nothing(writer), values, where)

    def finish(self, writer: Writer, state: State, asked: Scalar | None, *, stored: bool = False) -> State:
        _require(writer, state[-1], asked, f"the {self.kind} of nothing")
        return state[1:-1]


class _Custom:
    """A user's associative function, applied in the order of the axes."""

    def __init__(self, monoid: Monoid, bodies: tuple[Scalar, ...]) -> None:
        self.monoid, self.bodies = monoid, bodies
        self.elements = tuple(map(element_of, bodies))

    in_parts = False

    def nothing(self, writer: Writer) -> State:
        return tuple(map(writer.value, self.monoid.units))

    def speculable(self, writer: Writer) -> bool:
        return all(map(writer.speculable, self.monoid.combine))

    def values(self, writer: Writer) -> State:
        return tuple(map(writer.value, self.bodies))

    def combine(self, writer: Writer, state: State, values: State, where: Expression | None) -> State:
        writer.locals.update(zip(self.monoid.left, state, strict=True))
        writer.locals.update(zip(self.monoid.right, values, strict=True))
        return _choose(writer, where, tuple(map(writer.value, self.monoid.combine)), state)

    def alone(self, writer: Writer, values: State, where: Expression | None) -> State:
        return self.combine(writer, self.nothing(writer), values, where)

    def finish(self, writer: Writer, state: State, asked: Scalar | None, *, stored: bool = False) -> State:
        return state


def _require(writer: Writer, some: Expression, asked: Scalar | None, failure: str) -> None:
    """That there was something, wherever the result is asked for."""
    nothing = writer.call("negation", some)
    if asked is not None:
        nothing = writer.call("both", nothing, writer.value(asked))
    writer.fail_if(nothing, failure)
