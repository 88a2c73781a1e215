"""Facts that no sizes satisfy together: what is said to contradict does, and does no more when any of it is left out."""

from __future__ import annotations

import random

import pytest

from axon import compiler
from axon.base.names import fresh
from axon.shapes.algebra.form import normal
from axon.shapes.contracts.legal import satisfied
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.shapes.solving.unsatisfiable import contradictory, core
from tests.clock import within
from tests.shapes.generate import assignments, relation, sets

SYMBOLS = tuple(fresh(name) for name in "abc")
SIZES = {1: 60, 2: 24, 3: 12}  # up to which sizes are enumerated, by how many there are


def test_nothing_can_be_left_out() -> None:
    refuted = superfluous = 0
    for seed in range(sets(300)):
        rng = random.Random(seed)
        symbols = SYMBOLS[: rng.choice((1, 2, 3, 3))]
        ops = rng.choice(("+ -", "+ - *", "+ - / %", "+ + - * / % min max"))
        given = [relation(rng, symbols, rng.choice((1, 1, 2)), ops) for _ in range(rng.randrange(1, 6))]
        parts = dict.fromkeys(part for r in given for part in normal(r))
        if not contradictory(parts):
            continue
        refuted += 1
        found = core(parts)
        text = f"seed {seed}: {', '.join(map(str, found))} of {', '.join(map(str, given))}"
        every = list(assignments(symbols, SIZES[len(symbols)]))
        assert found, text
        assert parts.keys() >= set(found), text
        assert not any(all(satisfied(r, v) for r in found) for v in every), text
        for r in found:  # what is left may be impossible without that being seen, or possible for larger sizes only
            rest = [other for other in found if other != r]
            superfluous += not any(all(satisfied(other, v) for other in rest) for v in every)
    assert refuted > sets(300) // 5
    assert superfluous <= refuted // 25


@pytest.mark.parametrize(
    ("where", "blamed", "why"),
    [
        ("a = 6, b >= 2, a % 4 = 1", ["a = 6", "a % 4 = 1"], "for a = 6, a % 4 = 1 would be 2 = 1"),
        ("b + c <= c, a <> 4, b > 3", ["b + c <= c", "b > 3"], "for b = 0, b > 3 would be 0 > 3"),
        ("a >= 4, b >= 2, a <= 2", ["a >= 4", "a <= 2"], ""),
        ("b + 1 >= c, 4 <> a, a % 4 = 5", ["a % 4 = 5"], "a % 4 is never more than 3"),
        ("a <= b, a < a", ["a < a"], "a < a never holds: the two are always equal"),
        ("a < 0", ["a < 0"], "a is never less than 0"),
        ("min b 2 > 4", ["min b 2 > 4"], "min 2 b is never more than 2"),
        ("a * b = 0, 2 = 3", ["2 = 3"], "2 is not 3"),
        ("a * a = 7", ["a * a = 7"], "a * a = 7 never holds: for a = 2 it would be 4 = 7, for a = 3 it would be 9 = 7"),
        ("a * a = 3 * b + 2", ["a * a = 3 * b + 2"], "divided by 3, a * a and 3 * b + 2 never leave the same remainder"),
        ("a <= b, b <= c, b >= 1, c < a", ["a <= b", "b <= c", "c < a"], "for a = 2, c = 4, c < a would be 4 < 2"),
    ],
)
def test_what_is_said(where: str, blamed: list[str], why: str) -> None:
    for order in (where, ", ".join(where.split(", ")[::-1])):
        (found,) = compiler.check_text(f"fun f (x : f32[a, b, c]) where {order} = x").diagnostics
        assert found.code == "AX0310"
        assert {label.span.text for label in found.labels} == set(blamed)
        assert len(found.labels) == len(blamed)
        assert list(found.notes) == [why] * bool(why)


def test_what_the_body_needs_is_said_as_its_labels_say_it() -> None:
    text = "fun f (x : f32[n, m]) = for i < (n + 1) * m => x[i / (n + 1), i % (n + 1)]"
    (found,) = compiler.check_text(text).diagnostics
    assert [label.text.split(": it needs ")[1] for label in found.labels] == ["m <= n", "n < m"]
    assert found.notes == ("for n = 2, m = 2, n < m would be 2 < 2",)


def test_many_facts_are_searched_within_a_time() -> None:
    sizes = [Dim.of(fresh(f"v{i}")) for i in range(60)]
    circle = [r for v, w in zip(sizes, [*sizes[1:], sizes[0]], strict=True) for r in normal(Relation(v, "<", w))]
    bounds = [r for v in sizes for r in normal(Relation(v, ">=", v // 2 + 3))]
    found = within(1.5, lambda: core([*circle, *bounds]))
    assert contradictory(found)
    assert set(found) >= set(circle)
