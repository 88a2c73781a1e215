"""Integer literals: each is of the type that its context asks for, which must hold its value; where nothing asks, see `generalize`.

Where a declaration leaves that type to its uses, so does its scheme the question (`Scheme.literals`): a use in the program answers
it at the end of the declaration around, and a call from outside where it is specialized (`lower`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.types.type import ElementType, ElementVar, Scheme, SchemeLiteral


@dataclass(frozen=True, slots=True)
class Literal:
    """An integer literal of a declaration that is being checked, or that a function which it uses has left to it."""

    value: int
    element: ElementType
    span: Span
    use: Span | None = None  # of that function
    folded: bool = False  # arithmetic on literals alone, and its exact value


def folded(op: str, a: int, b: int) -> int | None:
    """Arithmetic on two integers, exactly; None where it has no value, or one that no element type comes near."""
    value: int | None = None
    match op:
        case "add":
            value = a + b
        case "sub":
            value = a - b
        case "mul":
            value = a * b
        case "pow" if 0 <= b <= _MOST_POWER and abs(a) < 2**_MOST_POWER:
            value = int(a**b)
        case _:
            pass
    return value if value is not None and abs(value) < _LARGEST else None


def of_use(scheme: Scheme, elements: Mapping[Symbol, ElementType], use: Span) -> list[Literal]:
    """The literals that one use of a declaration decides the types of."""
    return [Literal(x.value, elements[x.element], x.span, use) for x in scheme.literals]


def of_scheme(literals: Iterable[Literal], elements: Iterable[tuple[Symbol, frozenset[Element]]]) -> tuple[SchemeLiteral, ...]:
    """What is left to the uses of a declaration: for each of its element types the least and the greatest literal, if some type
    that it may be does not hold them."""
    found: list[SchemeLiteral] = []
    allowed = dict(elements)
    for symbol in allowed:
        own = [x for x in literals if isinstance(x.element, ElementVar) and x.element.symbol == symbol]
        extremes = dict.fromkeys((max(own, key=_value), min(own, key=_value))) if own else {}
        found += [SchemeLiteral(symbol, x.value, x.span) for x in extremes if not all(e.holds(x.value) for e in allowed[symbol])]
    return tuple(found)


def of_outer(literals: Iterable[Literal], elements: Iterable[tuple[Symbol, frozenset[Element]]]) -> list[Literal]:
    """Those that wait for the declaration around one with these element types of its own."""
    own = {symbol for symbol, _ in elements}
    return [x for x in literals if isinstance(x.element, ElementVar) and x.element.symbol not in own]


_MOST_POWER = 64
_LARGEST = 2**1023  # an f64 goes a little further


def _value(literal: Literal) -> int:
    return literal.value
