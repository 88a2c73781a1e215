"""Contracts: which dimensions a call determines, binding them, and what a broken call says."""

from __future__ import annotations

import random
import re
from time import process_time

import pytest
from generate import parse, sets

from axon.names import fresh
from axon.shapes.contract import Contract, ContractBroken, ContractFact, ParameterShape
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

NAMES = {name: Dim.of(fresh(name)) for name in ["k", "b", "n", "c", "h", "w", "d", "m", "r", "s", "class", "E"]}


def contract(explicit: str, *shapes: str, where: tuple[str, ...] = ()) -> Contract:
    """Shapes are written as `x: b, n, h * d`."""
    parameters = []
    for shape in shapes:
        path, dims = shape.split(":")
        parameters.append(ParameterShape(path, tuple(parse(dim, NAMES) for dim in dims.split(",") if dim.strip())))
    facts = []
    for text in where:
        left, op, right = re.split(r" (=|<>|<=|>=|<|>) ", text)
        facts.append(ContractFact(Relation(parse(left, NAMES), op, parse(right, NAMES)), text))
    symbols = [NAMES[name].symbol for name in explicit.split()]
    return Contract(tuple(s for s in symbols if s is not None), tuple(parameters), tuple(facts))


def bound(c: Contract, explicit: tuple[int, ...], *shapes: tuple[int, ...]) -> dict[str, int]:
    return {symbol.name: value for symbol, value in c.bind(explicit, shapes).items()}


@pytest.mark.parametrize(
    ("explicit", "shapes", "determined", "undetermined"),
    [
        ("", ["x: b, n", "w: n, c"], "b n c", ""),
        ("k", ["x: b, k * d"], "k b d", ""),
        ("", ["x: k * d"], "", "k d"),
        ("", ["x: n + m"], "", "n m"),
        ("", ["x: n + 3", "y: n + m"], "n m", ""),
        ("", ["y: n + m", "x: 2 * n"], "n m", ""),
        ("", ["x: n / 2"], "", "n"),
        ("", ["x: n * n"], "", "n"),
        ("", ["x: h, h - r + 1"], "h r", ""),
        ("", ["x: min n m, n"], "n", "m"),
        ("k m", [], "k m", ""),
    ],
)
def test_determined(explicit: str, shapes: list[str], determined: str, undetermined: str) -> None:
    c = contract(explicit, *shapes)
    assert {s.name for s in c.determined()} == set(determined.split())
    assert {s.name for s in c.undetermined()} == set(undetermined.split())


def test_binds_bare_dimensions_first_and_then_what_follows() -> None:
    c = contract("k", "z: n, r + w, b, w", "x: b, n, c, h", "p.w: c, k * d, 2 * m, h - r + 1", where=("n % 4 = 0", "r <= h"))
    shapes = (8, 13, 5, 11), (5, 8, 3, 9), (3, 14, 4, 8)
    assert bound(c, (2,), *shapes) == {"k": 2, "n": 8, "b": 5, "w": 11, "c": 3, "h": 9, "r": 2, "d": 7, "m": 2}


@pytest.mark.parametrize(
    ("shapes", "where", "actual", "expected"),
    [
        # kind, path, dimension, actual, expected
        (["x: b, n", "y: n, c"], (), [(2, 3), (4, 5)], ("extent", "y", 0, 4, 3)),
        (["x: n", "p.1: 2 * n + 1"], (), [(3,), (8,)], ("extent", "p.1", 0, 8, 7)),
        (["x: n, 3"], (), [(3, 4)], ("extent", "x", 1, 4, 3)),
        (["x: b, n"], (), [(2, 3, 4)], ("rank", "x", None, 3, 2)),
        (["x: 2 * n"], (), [(7,)], ("value", "x", 0, 7, None)),
        (["x: n + 3"], (), [(2,)], ("value", "x", 0, 2, None)),
        (["x: n, n * m"], (), [(0, 4)], ("value", "x", 1, 4, None)),
        (["x: n, m, n / m"], (), [(3, 0, 1)], ("extent", "x", 2, 1, None)),
        (["x: n"], (), [(2**31,)], ("large", "x", 0, 2**31, None)),
        (["x: n"], ("n % 4 = 0",), [(6,)], ("fact", "", None, None, None)),
        (["x: d, h"], ("d % h = 0",), [(6, 0)], ("fact", "", None, None, None)),
        (["x: d, h"], ("d / (h - 3) <= 1",), [(6, 2)], ("fact", "", None, None, None)),
    ],
)
def test_a_broken_call_says_what_is_wrong(
    shapes: list[str], where: tuple[str, ...], actual: list[tuple[int, ...]], expected: tuple[object, ...]
) -> None:
    c = contract("", *shapes, where=where)
    with pytest.raises(ContractBroken) as caught:
        c.bind((), actual)
    broken = caught.value
    assert (broken.kind, broken.path, broken.dimension, broken.actual, broken.expected) == expected
    if broken.kind == "fact":
        assert broken.fact is c.facts[0]
        assert broken.relation is c.facts[0].relation
        assert len(broken.bindings) == len(c.determined())
    if broken.kind in ("extent", "value"):
        assert broken.dimension is not None
        assert broken.formula in [dim for shape in c.shapes for dim in shape.dims]


def test_explicit_dimensions_are_checked() -> None:
    c = contract("k", "x: n")
    assert bound(c, (3,), (4,)) == {"k": 3, "n": 4}
    with pytest.raises(ContractBroken) as caught:
        c.bind((-1,), [(4,)])
    assert (caught.value.kind, caught.value.path, caught.value.actual) == ("explicit", "k", -1)
    with pytest.raises(ValueError):
        c.bind((), [(4,)])
    with pytest.raises(ValueError):
        contract("", "x: n + m").bind((), [(4,)])


def test_names_of_users_are_never_run() -> None:
    assert bound(contract("", "x: class, 2 * E"), (), (3, 8)) == {"class": 3, "E": 4}


def test_what_later_phases_ask() -> None:
    where = ("n % 64 = 0", "m % 4 = 0", "r >= 2", "h <= 100", "d = 6 * m", "n >= 1")
    c = contract("", "x: n, m, r, h", "y: 8 * k, h - r", where=where)
    assert c.multiple_of(parse("n", NAMES)) == 64
    assert c.multiple_of(parse("n * m", NAMES)) == 256
    assert c.multiple_of(parse("n + 96", NAMES)) == 32
    assert c.multiple_of(parse("8 * k", NAMES)) == 8
    assert c.multiple_of(parse("d", NAMES)) % 6 == 0
    assert c.multiple_of(parse("r", NAMES)) == 1
    assert c.range(parse("r", NAMES)) == (2, 100)
    assert c.range(parse("h - r", NAMES)) == (0, 98)
    assert c.range(parse("h - 2 * r", NAMES)) == (-100, 96)
    assert c.range(parse("n", NAMES))[0] in (1, 64)
    assert c.range(parse("n", NAMES))[1] is None
    assert c.range(parse("n % 7", NAMES)) == (0, 6)
    assert c.range(parse("5", NAMES)) == (5, 5)


def test_binding_agrees_with_the_formulas() -> None:
    """Of generated contracts: shapes computed from chosen sizes bind back to them; one changed extent is noticed or consistent."""
    extents = ["b", "n", "n + 3", "2 * n", "h * d", "h", "h - r + 1", "n * h + d", "m / 2", "m", "min n h", "d % 5", "3"]
    for seed in range(sets(300)):
        rng = random.Random(seed)
        shapes = [f"x{i}: {', '.join(rng.sample(extents, rng.randrange(4)))}" for i in range(rng.randrange(1, 5))]
        c = contract(rng.choice(("", "h", "n d")), *shapes)
        if c.undetermined():
            continue
        values = {s: rng.randrange(1, 9) for s in c.variables}
        actual = [[dim.evaluate(values) for dim in shape.dims] for shape in c.shapes]
        if any(extent < 0 for shape in actual for extent in shape):
            continue
        explicit = [values[s] for s in c.explicit]
        assert c.bind(explicit, actual) == values
        places = [(i, j) for i, shape in enumerate(actual) for j in range(len(shape))]
        if places:
            i, j = rng.choice(places)
            actual[i][j] += 1
            try:
                found = c.bind(explicit, actual)
            except ContractBroken:
                continue
            assert [[dim.evaluate(found) for dim in shape.dims] for shape in c.shapes] == actual


def test_ten_dimensions_bind_in_microseconds() -> None:
    where = ("n % 4 = 0", "r <= h")
    c = contract("k", "x: b, n, c, h", "p.w: c, k * d, 2 * m, h - r + 1", "z: n, r + w, b, w", "v: s", where=where)
    shapes = ((5, 8, 3, 9), (3, 14, 4, 8), (8, 13, 5, 11), (6,))
    assert len(c.bind((2,), shapes)) == 10
    best = float("inf")
    for _ in range(5):
        start = process_time()
        for _ in range(500):
            c.bind((2,), shapes)
        best = min(best, (process_time() - start) / 500)
    assert best < 20e-6  # 6 µs on an idle core
