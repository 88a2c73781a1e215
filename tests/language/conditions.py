"""Random programs of slices, indices and divisions under conditions on sizes, and what they mean: in Python, where what is not
taken asks for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

Sizes: TypeAlias = dict[str, int]


class Outside(Exception):
    """An index, a slice or a divisor that the language refuses."""


@dataclass(frozen=True)
class Text:
    """A part of a program: how it is written, and its value at some sizes."""

    text: str
    value: Callable[[Sizes], int]


@dataclass(frozen=True)
class Reading:
    """An expression over a row of numbers: its value, or Outside."""

    text: str
    value: Callable[[Sizes, Sequence[float]], float]


def divided(a: int, b: int, whole: bool) -> int:
    if b < 1:
        raise Outside
    return a // b if whole else a % b


def size(chance: Random, depth: int = 2) -> Text:
    if not depth or chance.random() < 0.3:
        name = chance.choice(("n", "k", "m", "k", "m"))
        number = chance.randint(0, 3)
        return Text(name, lambda s: s[name]) if chance.random() < 0.85 else Text(str(number), lambda _: number)
    a, b, op = size(chance, depth - 1), size(chance, depth - 1), chance.choice(("+", "+", "-", "-", "/", "%", "min", "max"))
    match op:
        case "+":
            return Text(f"({a.text} + {b.text})", lambda s: a.value(s) + b.value(s))
        case "-":
            return Text(f"({a.text} - {b.text})", lambda s: a.value(s) - b.value(s))
        case "min" | "max":
            choose = min if op == "min" else max
            return Text(f"({op} {a.text} {b.text})", lambda s: choose(a.value(s), b.value(s)))
        case _:
            by = chance.choice((Text("2", lambda _: 2), Text("k", lambda s: s["k"]), Text("n", lambda s: s["n"]), b))
            return Text(f"({a.text} {op} {by.text})", lambda s: divided(a.value(s), by.value(s), op == "/"))


_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
}


def comparison(chance: Random) -> Text:
    a, b, op = size(chance, 1), size(chance, 1), chance.choice(tuple(_RELATIONS))
    return Text(f"{a.text} {op} {b.text}", lambda s: _RELATIONS[op](a.value(s), b.value(s)))


def condition(chance: Random, depth: int = 1) -> Text:
    """A comparison, or two of which both hold, or one does, or that none does."""
    match chance.choice(("comparison", "both", "either", "either", "not")) if depth else "comparison":
        case "comparison":
            return comparison(chance)
        case "not":
            inner = condition(chance, depth - 1)
            return Text(f"not ({inner.text})", lambda s: not inner.value(s))
        case found:
            a, b = condition(chance, depth - 1), condition(chance, depth - 1)
            if found == "both":
                return Text(f"({a.text} andalso {b.text})", lambda s: a.value(s) and b.value(s))
            return Text(f"({a.text} orelse {b.text})", lambda s: a.value(s) or b.value(s))


def reading(chance: Random, depth: int = 1) -> Reading:
    match chance.choice(("slice", "slice", "index", "range", "number", "branch" if depth else "index")):
        case "slice":
            start, stop, step = size(chance), chance.choice((Text("n", lambda s: s["n"]), size(chance, 1))), size(chance, 1)
            strided = chance.random() < 0.4

            def sliced(s: Sizes, x: Sequence[float]) -> float:
                a, b, c = start.value(s), stop.value(s), step.value(s) if strided else 1
                if not 0 <= a <= b <= len(x) or c < 1:
                    raise Outside
                return sum(x[a:b:c])

            by = f" : {step.text}" if strided else ""
            return Reading(f"(sum i => x[{start.text} : {stop.text}{by}][i])", sliced)
        case "index":
            place = size(chance)

            def element(s: Sizes, x: Sequence[float]) -> float:
                at = place.value(s)
                if not 0 <= at < len(x):
                    raise Outside
                return x[at]

            return Reading(f"x[{place.text}]", element)
        case "range":
            bound = size(chance)

            def first(s: Sizes, x: Sequence[float]) -> float:
                if bound.value(s) > len(x):
                    raise Outside
                return sum(x[: max(0, bound.value(s))])

            return Reading(f"(sum for i < {bound.text} => x[i])", first)
        case "number":
            number = size(chance)
            return Reading(f"cast f32 ({number.text})", lambda s, _: number.value(s))
        case _:
            return branch(chance, depth - 1)


def branch(chance: Random, depth: int = 1, alternatives: bool = False) -> Reading:
    """`if c then a else b`, or of two conditions, where what holds otherwise is no relation, a number there."""
    conditions = [condition(chance) if alternatives else comparison(chance) for _ in range(chance.choice((1, 1, 2)))]
    then = reading(chance, depth)
    otherwise = reading(chance, depth) if len(conditions) == 1 else Reading("7.0", lambda s, x: 7.0)
    text = f"(if {' andalso '.join(c.text for c in conditions)} then {then.text} else {otherwise.text})"
    return Reading(text, lambda s, x: (then if all(c.value(s) for c in conditions) else otherwise).value(s, x))
