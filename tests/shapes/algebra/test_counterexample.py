"""Sizes that an error shows satisfy all that the declaration states, and break what it claims."""

import random
import re

import pytest

import axon
from axon.base.names import fresh
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

_FACTS = (
    *("a % 3 = 2", "a >= 7", "a >= 70", "b = a + 3", "b % 5 = 0"),
    *("a < c", "c < b", "a <= 90", "b >= 100", "2 * a = c", "c >= a + b"),
)
_BODIES = ("x + y", "x[2 : 2 * a]", "y + for i < a + 2 => 1.0", "(for i < 5 => x[i]) + y", "x[0 : b]", "for i => x[i] * y[2 * i]")


def _value(text: str, sizes: dict[str, int]) -> int:
    return int(eval(text.replace("/", "//"), {"__builtins__": {}}, sizes))  # of texts in this file


def _holds(fact: str, sizes: dict[str, int]) -> bool:
    left, op, right = re.fullmatch(r"(.+?) (=|<|<=|>|>=) (.+)", fact).groups()  # type: ignore[union-attr]
    a, b = _value(left, sizes), _value(right, sizes)
    return {"=": a == b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def _programs() -> list[tuple[str, tuple[str, ...]]]:
    random_ = random.Random(5)
    found = []
    for body in _BODIES:
        for _ in range(6):
            facts = tuple(random_.sample(_FACTS, random_.randint(1, 3)))
            found.append((f"fun f (x : f32[a]) (y : f32[b]) (z : f32[c]) where {', '.join(facts)} = {body}", facts))
    return found


def test_examples_satisfy_the_facts() -> None:
    shown = 0
    for text, facts in _programs():
        for note in (note for d in axon.check(text) if d.code != "AX0310" for note in d.notes):
            for given, broken in re.findall(r"for ((?:[abc] = \d+(?:, )?)+) it would be (.*?)(?:;|$)", note):
                shown += 1
                sizes = {name: int(n) for name, n in re.findall(r"([abc]) = (\d+)", given)}
                assert not _holds(broken, {}), (text, note)
                for fact in facts:
                    mentioned = set(re.findall(r"[abc]", fact))
                    assert not mentioned <= sizes.keys() or _holds(fact, sizes), (text, note)
    assert shown >= 10


@pytest.mark.parametrize(("bound", "rest"), [(70, 2), (1_000, 1), (130, 0)])
def test_examples_are_found_beyond_small_sizes(bound: int, rest: int) -> None:
    from axon.shapes.algebra.prove import Facts, counterexample

    a, b = Dim.of(fresh("a")), Dim.of(fresh("b"))
    facts = (Relation(a, ">=", Dim.of(bound)), Relation(a % 3, "=", Dim.of(rest)), Relation(b, ">", a))
    found = counterexample(Facts().assume(*facts), Relation(a, "=", b))
    assert found is not None
    assert all(fact.holds(found) for fact in facts)
