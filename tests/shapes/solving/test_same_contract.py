"""A contract is the same in whatever order its facts and parameters stand and whatever sizes are called; printed, it says itself
again; and none of its facts follows from the others.
"""

from __future__ import annotations

import random
import re
from itertools import permutations, product

import pytest

from axon import compiler
from axon.base.names import fresh
from axon.shapes.algebra.form import normal
from axon.shapes.algebra.prove import Facts
from axon.shapes.contracts.legal import satisfied
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.shapes.solving.simplify import independent
from tests.shapes.generate import RELATIONS, Tree, parse, sets, tree

NAMES = ("n", "m", "k")
OTHERS = {"n": "zz", "m": "a1", "k": "mm"}
SYMBOLS = {name: fresh(name) for name in NAMES}
DIMS = {name: Dim.of(s) for name, s in SYMBOLS.items()}
OPS = ("+ -", "+ - min max", "+ - / %", "+ - *", "min max", "+ - / % min max", "+ + - * / % min max")
BINARY = "+ - * / %"
PARTS = 8  # of the generated sets, so that processes share them


def text(t: Tree) -> str:
    """In the surface syntax, with all parentheses."""
    if t.op == "var":
        return NAMES[t.value]
    if t.op == "int":
        return str(t.value) if t.value >= 0 else f"(0 - {-t.value})"
    assert t.left is not None
    assert t.right is not None
    left, right = text(t.left), text(t.right)
    return f"({left} {t.op} {right})" if t.op in BINARY else f"({t.op} {left} {right})"


def facts(rng: random.Random) -> list[str]:
    """One to four facts between sizes; about each third is as in common contracts: n <= m, n % 4 = 0, k = 2 * n + 1."""
    found = []
    for _ in range(rng.randrange(1, 5)):
        if rng.random() < 0.35:
            a, b, c = rng.choice(NAMES), rng.choice(NAMES), rng.randrange(1, 7)
            found.append(
                rng.choice((f"{a} <= {b}", f"{a} % {c} = 0", f"{a} >= {c}", f"{a} % {b} = 0", f"{a} <> {b}", f"{a} <= {c}"))
            )
        else:
            ops = rng.choice(OPS)
            sides = [text(tree(rng, 3, depth, ops)) for depth in (2, rng.randrange(2))]
            found.append(f"{sides[0]} {rng.choice(RELATIONS)} {sides[1]}")
    return found


def contract(where: list[str], order: tuple[str, ...] = NAMES, names: dict[str, str] | None = None, sig: str = "") -> str:
    """The printed contract, or the code of the error."""
    program = f"fun f {' '.join(f'(x{n} : f32[{n}])' for n in order)}{' where ' if where else ''}{', '.join(where)} = 0"
    for old, new in (names or {}).items():
        program = re.sub(rf"\b{old}\b", new, program)
    checked = compiler.check_text(sig + program)
    wrong = [d.code for d in checked.diagnostics if d.severity == "error"]
    return wrong[0] if wrong else checked.signatures["f"]


def relations(signature: str) -> list[Relation]:
    """The facts of a signature over the sizes of this module."""
    where = signature.partition(" where ")[2]
    sides = [re.split(r" (=|<>|<=|>=|<|>) ", fact) for fact in where.split(", ") if fact]
    return [Relation(parse(left, DIMS), op, parse(right, DIMS)) for left, op, right in sides]


def said(signature: str) -> set[Relation]:
    """What it says of the sizes of this module: which of two equal ones stands for both depends on their order."""
    return set(independent(dict.fromkeys(n for r in relations(signature) for n in normal(r)), Facts()))


def unfold(seed: int) -> tuple[random.Random, list[str], str, str]:
    rng = random.Random(seed)
    where = facts(rng)
    return rng, where, contract(where), f"seed {seed}: {', '.join(where)}"


@pytest.mark.parametrize(
    "where",
    [
        "n = m + 1, m <= 2",
        "n + 2 = 2 * m, m >= 2, k <= m",
        "n + 1 = m, k + 3 <= 2 * m",
        "n <= 4, max (min 4 k) n = m, k < min n m, k % 4 = 0",
        "(min (n % 2) (m * k)) >= (min 2 k), k % 4 = 0, (max (k % 2) m) = (5 - k), 5 >= n",  # k % 4 = 0, or k * m = k
        "m <= 5, (5 + k) * (k % 2) < m, (2 + 3 % k) <> m % 1, max m n * (k * m) = k - n",  # m is 1, if one sees it
        "min n 5 < 2, 5 <= n, (1 - k) % (m * k) <> 3, 1 / k + k % 3 = m",  # nothing is 1 and 5, whatever m and k are
        "(m + m) * (2 - n) > k, m <= n, min (max k m) (max k k) >= 1, k <> m",
        "(2 - 2) / (min m n) < max 1 n",
    ],
)
def test_the_order_of_parameters_does_not_decide_what_is_proved(where: str) -> None:
    every = [contract([where], order) for order in permutations(NAMES)]
    assert every[0].startswith("AX") or contract([], sig=f"sig f : {every[0]}\n") == every[0]
    assert len({s if s.startswith("AX") else frozenset(said(s)) for s in every}) == 1, every


@pytest.mark.parametrize("part", range(PARTS))
def test_same_contract(part: int) -> None:
    accepted = implied = count = otherwise = 0
    seeds = range(part, sets(100), PARTS)
    for seed in seeds:
        rng, where, first, message = unfold(seed)
        assert first != "AX0001", message
        shuffled = rng.sample(where, len(where))
        assert contract(shuffled) == first, f"{message}; {', '.join(shuffled)}"
        renamed = contract(where, names=OTHERS)
        for old, new in OTHERS.items():
            renamed = re.sub(rf"\b{new}\b", old, renamed)
        assert renamed == first, f"{message}, renamed"
        turned = contract(where, tuple(rng.sample(NAMES, 3)))
        if first.startswith("AX"):
            assert turned == first, f"{message}, with parameters in another order"
            continue
        accepted += 1
        other = relations(turned)
        if said(turned) != said(first):  # a few searches end by time, not by their steps
            otherwise += 1
            assert len(other) == len(relations(first)), f"{message} is {first}, with parameters in another order {turned}"
        assert contract([], sig=f"sig f : {first}\n") == first, f"{message} is {first}, which is not what its signature says"
        found, size = relations(first), 9
        every = [dict(zip(SYMBOLS.values(), v, strict=True)) for v in product(range(size), repeat=3)]
        given = []
        for text_ in where:
            left, op, right = re.split(r" (=|<>|<=|>=|<|>) ", text_)
            given.append(Relation(parse(left, DIMS), op, parse(right, DIMS)))
        meant = [all(satisfied(r, v) for r in given) for v in every]
        for said_so in (found, other):
            assert meant == [all(satisfied(r, v) for r in said_so) for v in every], f"{message} is not {first}, or {turned}"
        if any(meant):
            count += len(found)
            for r in found:
                others = [o for o in found if o != r]
                implied += not any(all(satisfied(o, v) for o in others) and not satisfied(r, v) for v in every)
    assert accepted > len(seeds) // 6
    assert implied <= 3 + count // 20, (implied, count)  # in what is enumerated, not for all sizes
    assert otherwise <= 1 + accepted // 1_000
