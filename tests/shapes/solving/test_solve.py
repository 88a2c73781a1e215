"""The solver: what it substitutes is right and loses nothing, conflicts are minimal, simplified sets are equivalent."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from axon.base.names import fresh
from axon.shapes.algebra.prove import Answer, Facts, prove
from axon.shapes.dimension import Dim, dim_sum
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.shapes.solving.equations import Equation, Solution, solve
from axon.shapes.solving.simplify import simplify
from tests.clock import within
from tests.shapes.generate import assignments, holds, parse, relation, sets, tree

NAMES = {name: Dim.of(fresh(name)) for name in ["h", "r", "s", "n", "m", "d", "k", "e", "w", "a", "b", "c"]}


def fact(text: str) -> Relation:
    left, op, right = re.split(r" (=|<>|<=|>=|<|>) ", text)
    return Relation(parse(left, NAMES), op, parse(right, NAMES))


def solved(equations: str, flexible: str, *given: str, loose: str = "", kept: str = "", quotients: str = "") -> Solution:
    """Equations separated by `;`; the reason of each is its text."""
    system = [Equation(r.left, r.right, text) for text in equations.split("; ") for r in [fact(text)]]
    texts = (flexible, loose, kept, quotients)
    symbols, made_up, passed, divided = ([s for name in t.split() if (s := NAMES[name].symbol)] for t in texts)
    known = Facts().assume(*map(fact, given))
    return solve(system, symbols, known, frozenset(passed), loose=frozenset(made_up), quotients=frozenset(divided))


def shown(solution: Solution) -> str:
    """The whole of a solution on one line."""
    return "; ".join(
        [
            *(f"{symbol.name} := {render(dim)}" for symbol, dim in solution.substitution.items()),
            *(f"where {c.relation}" for c in solution.conditions),
            *(f"open {r.relation}" for r in solution.residual),
            *(f"conflict {c.relation}" for c in solution.conflicts),
        ]
    )


@pytest.mark.parametrize(
    ("equations", "flexible", "given", "expected"),
    [
        # a representative: rigid names first, then earlier flexible ones
        ("a = b; b = n", "a b", [], "a := n; b := n"),
        ("a = b", "a b", [], "b := a"),
        ("b = a", "a b", [], "b := a"),
        ("a = 3; a = b", "a b", [], "a := 3; b := 3"),
        # linear, over the integers
        ("2 * n = k", "n k", [], "k := 2 * n"),
        ("2 * n = k", "n", [], "n := k / 2; where k % 2 = 0"),
        ("2 * n = k", "n", ["k % 4 = 0"], "n := k / 2"),
        ("2 * n = 4 * k + 6", "n", [], "n := 2 * k + 3"),
        ("2 * a + 3 * b = 12; 3 * a + 2 * b = 13", "a b", [], "a := 3; b := 2"),
        ("2 * a = 3 * b", "a b", [], "b := 2 * (a / 3); where a % 3 = 0"),
        ("6 * a + 4 * n = 3 * k", "a", [], "a := (3 * k - 4 * n) / 6; where 4 * n <= 3 * k; where (2 * n + 3 * k) % 6 = 0"),
        ("n + m = 10", "n m", [], "m := 10 - n; where n <= 10"),
        # windows
        ("h - r + 1 = k", "k", [], "k := h - r + 1; where r <= h + 1"),
        ("h - r + 1 = k", "k", ["r <= h"], "k := h - r + 1"),
        ("a = (h - 3) / 2 + 1; b = (a - 3) / 2 + 1", "a b", ["h >= 7"], "a := (h - 1) / 2; b := (h - 3) / 4"),
        # products
        ("h * c = d", "c", [], "c := d / h; where h >= 1; where d % h = 0"),
        ("h * c = d; k = h * c", "c k", [], "c := d / h; k := d; where h >= 1; where d % h = 0"),
        ("b * s * h * e = b * s * d", "e", ["h >= 1"], "e := d / h; where d % h = 0"),
        ("b * d = a * d", "a", [], "a := b"),
        ("h * w = n; n = c * d; w = d", "n w c", [], "n := h * d; w := d; c := h"),
        ("4 * a = h; 4 * b = w; n = a * b", "a b n", ["h % 4 = 0", "w % 4 = 0"], "a := h / 4; b := w / 4; n := h / 4 * (w / 4)"),
        ("a * b + 2 * a = a + 5 * b", "a b", [], "a := 5 * b / (b + 1); where 5 * b % (b + 1) = 0"),
        # what only the caller can judge
        ("n = m", "", [], "open n = m"),
        ("n = 3", "", [], "open n = 3"),
        ("n + m = 10", "", [], "open n + m = 10"),
        ("(a + 3) / 2 = k", "a", [], "open (a + 1) / 2 + 1 = k"),
        ("a = n; a = m", "a", [], "a := n; open n = m"),
        # what holds disappears
        ("n = m", "", ["n = m"], ""),
        ("(h - r) / s + 1 = (h - r + s) / s", "", [], ""),
        ("h * (d / h) = d", "", ["d % h = 0"], ""),
        # a literal 1 makes 1 legitimate, wherever it stands
        ("h - r + 1 = h; r = 1", "r", [], "r := 1"),
        ("r = 1; h - r + 1 = h", "r", [], "r := 1"),
        ("r = a; a = 1; h - r + 1 = h", "r a", [], "r := 1; a := 1"),
    ],
)  # fmt: skip
def test_solves(equations: str, flexible: str, given: list[str], expected: str) -> None:
    assert shown(solved(equations, flexible, *given)) == expected


@pytest.mark.parametrize(
    ("equations", "flexible", "given", "relation", "reasons"),
    [
        ("n = 4 * d; n = 3 * d", "n", [], "4 * d = 3 * d", ["n = 4 * d", "n = 3 * d"]),
        ("4 * d = 3 * d", "", [], "4 * d = 3 * d", ["4 * d = 3 * d"]),
        ("4 * d = 3 * d", "d", [], "4 * d = 3 * d", ["4 * d = 3 * d"]),
        ("n = n + m", "", [], "n = n + m", ["n = n + m"]),
        ("n * n = n", "", [], "n * n = n", ["n * n = n"]),
        ("h - r + 1 = h", "r", [], "r = 1", ["h - r + 1 = h"]),
        ("a = 3; k = n; a = b; b = 4; c = a", "a b c", [], "3 = 4", ["a = 3", "a = b", "b = 4"]),
        ("2 * a = n; n = 2 * k + 1; m = n", "a n m", [], "2 * a = 2 * k + 1", ["2 * a = n", "n = 2 * k + 1"]),
        ("a + 3 = 1", "a", [], "a + 3 = 1", ["a + 3 = 1"]),
        ("2 * a = n", "a", ["n % 2 = 1"], "2 * a = n", ["2 * a = n"]),
        ("n = m", "", ["n < m"], "n = m", ["n = m"]),
        ("a = n; b = a; b = m", "a b", ["n < m"], "n = m", ["a = n", "b = a", "b = m"]),
    ],
)
def test_conflicts_are_minimal(equations: str, flexible: str, given: list[str], relation: str, reasons: list[str]) -> None:
    (conflict,) = solved(equations, flexible, *given).conflicts
    assert str(conflict.relation) == relation
    assert list(conflict.reasons) == reasons


@pytest.mark.parametrize(
    ("equations", "kept", "expected"),
    [
        ("n = n * a", "", "a := 1"),
        ("2 * n = 2 * n * a", "", "a := 1"),
        ("n + 1 = n * a + a", "", "a := 1"),
        ("n / 2 = a * (n / 2)", "", "a := 1"),
        ("min n m = a * min n m", "", "a := 1"),
        ("h - a + 1 = h", "", "a := 1"),
        ("c = a; n = c * n", "", "a := 1; c := 1"),
        ("k = a; n = k * n", "", "k := 1; a := 1"),  # also where another stands for it
        ("n = n * b", "", "b := 1; conflict n = n * b"),  # b is someone's
        ("a = b; n = n * b", "b", "a := 1; b := 1; conflict n = n * b"),
        ("b = a; n = n * a", "b", "a := 1; b := 1; conflict n = n * a"),
        ("n = n + a", "", "a := 0; conflict n = n + a"),  # a loop that never runs
        ("4 * a = 3 * a", "", "a := 0; conflict 4 * a = 3 * a"),
        ("n = n * a; a = m", "", "a := m; conflict n = n * a"),
        ("n = n * a; a = 3", "", "a := 3; conflict n = n * a"),
        ("n = n * a * m", "", "a := 1 / m; where m >= 1; where 1 % m = 0"),
        ("n = a * (n + 1)", "", "a := n / (n + 1); conflict n = n * a + a"),  # only an n of 0 is a multiple
        ("n + 1 = a * n", "", "a := 1 / n + 1; where n >= 1; where 1 % n = 0"),
    ],
)
def test_what_is_no_ones_may_be_1(equations: str, kept: str, expected: str) -> None:
    assert shown(solved(equations, "k a b c", loose="a", kept=kept)) == expected


@pytest.mark.parametrize(
    ("equations", "kept", "expected"),
    [
        ("n = n * a", "", "a := 1"),
        ("n = n * a", "a", "a := 1"),
        ("n = n * a; b = a", "b", "a := 1; b := 1"),  # also where something is passed that has it
        ("n = k * a", "", "a := n / k; where k >= 1; where n % k = 0"),
        ("2 * n = n * a", "", "a := 2"),
        ("n = 2 * n * a", "", "conflict n = 2 * n * a"),
        ("n = n + a", "", "a := 0; conflict n = n + a"),
        ("n = n * a; a = 3", "", "a := 3; conflict n = 3 * n"),
    ],
)
def test_what_a_call_divides_may_be_divided_by_itself(equations: str, kept: str, expected: str) -> None:
    assert shown(solved(equations, "a b c", quotients="a", kept=kept)) == expected


def test_independent_mistakes_are_separate_conflicts() -> None:
    solution = solved("a = 3; a = 4; b = 2 * n; b = 2 * m + 1; c = n", "a b c")
    assert [c.reasons for c in solution.conflicts] == [("a = 3", "a = 4"), ("b = 2 * n", "b = 2 * m + 1")]
    assert solution.substitution[NAMES["c"].symbol] == NAMES["n"]  # type: ignore[index]


def test_reasons_of_what_is_left() -> None:
    solution = solved("a = n; b = c; a = b; c = m; h * e = n", "a b c e")
    assert [r.reasons for r in solution.residual] == [("a = n", "b = c", "a = b", "c = m")]
    assert {c.reasons for c in solution.conditions} == {("h * e = n",)}


def test_linear_systems_are_solved_completely() -> None:
    """No equation over what is to be found remains: each variable is found, or free, or there is a conflict."""
    for seed in range(sets(200)):
        rng = random.Random(seed)
        symbols = tuple(fresh(name) for name in "nmabc")
        flexible = symbols[2:]
        sides = [
            dim_sum((rng.randrange(4), *(Dim.of(s) * rng.choice((1, 2, 3, 4, 6, -1, -2)) for s in rng.sample(symbols, 2))))
            for _ in range(2 * rng.randrange(1, 5))
        ]
        solution = solve([Equation(a, b, i) for i, (a, b) in enumerate(pairwise(sides))], flexible, Facts())
        assert solution.conflicts or all(r.relation.variables.isdisjoint(flexible) for r in solution.residual), seed


OPS = ("+ -", "+ - *", "+ + - *", "+ - * / %", "+ - * / % min max")


def test_against_brute_force() -> None:
    """Where conditions and residual hold, the substitution satisfies every equation; no solution of real sizes is lost.

    An equation that divides by 0 says nothing: what stands in it is refused where it is written. Of seed 8289, the facts leave no
    other divisor, so that anything follows.
    """
    for seed in (*range(sets(300)), 8289):
        rng = random.Random(seed)
        symbols = tuple(fresh(name) for name in "abcd"[: rng.choice((2, 3, 3, 4))])
        rigid = symbols[: rng.randrange(len(symbols))]
        ops = rng.choice(OPS)
        equations = [
            Equation(tree(rng, len(symbols), rng.choice((1, 2)), ops).dim(symbols), tree(rng, len(symbols), 1, ops).dim(symbols), i)
            for i in range(rng.choice((1, 2, 2, 3)))
        ]
        given = [relation(rng, rigid, 1, ops) for _ in range(rng.randrange(2))] if rigid else []
        known = Facts().assume(*given)
        flexible = symbols[len(rigid) :]
        solution = solve(equations, flexible, known, loose=frozenset(flexible[: seed % 3]))
        text = f"seed {seed}: {'; '.join(f'{e.left} = {e.right}' for e in equations)} gives {shown(solution)}"
        needed = [*(c.relation for c in solution.conditions), *(r.relation for r in solution.residual)]
        for dim in solution.substitution.values():
            assert dim.variables.isdisjoint(solution.substitution), text
        for values in assignments(symbols, 6 if len(symbols) < 4 else 4):
            if not all(holds(r, values) for r in given):
                continue
            admitted = not solution.conflicts and all(holds(r, values) for r in needed)
            image = dict(values)
            if admitted:
                try:
                    image.update({v: dim.evaluate(values) for v, dim in solution.substitution.items()})
                except ZeroDivisionError:
                    admitted = False
            if admitted:
                said = [holds(Relation(e.left, "=", e.right), image) for e in equations]
                assert False not in said, text
                assert None in said or min(image.values()) >= 0, text
            if min(values.values()) >= 2 and all(holds(Relation(e.left, "=", e.right), values) for e in equations):
                assert admitted, text
                assert image == values, text
        for conflict in solution.conflicts:
            for reason in conflict.reasons:
                fewer = [e for e in equations if e.reason in conflict.reasons and e.reason != reason]
                assert not fewer or not solve(fewer, flexible, known).conflicts, text


@pytest.mark.parametrize(
    ("relations", "given", "expected"),
    [
        ("r <= h + 1; r <= h + 5; n >= 0", [], "r <= h + 1"),
        ("d % h = 0; h >= 1", [], "d % h = 0"),
        ("n % 2 = 0; n % 4 = 0", [], "n % 4 = 0"),
        ("n <= m; m <= n", [], "n = m"),
        ("2 * n >= 3", [], "n >= 2"),
        ("n <> 0", [], "n >= 1"),
        ("2 * n * m * m <> 0", [], "n >= 1; m >= 1"),
        ("h * n <= h * m", ["h >= 1"], "n <= m"),
        ("h >= 1; h * n = h * m", [], "n = m; h >= 1"),
        ("n <= m; m <= k; n <= k", [], "n <= m; m <= k"),
        ("n <= m", ["n <= m"], ""),
        ("4 * n = 2 * k", [], "2 * n = k"),
        ("n / 2 = n / 2", [], ""),
        ("max n m = m", [], "n <= m"),
        ("min n (min m k) = k", [], "k <= n; k <= m"),
        ("n / m <= n / m + k", [], "m >= 1"),
        ("n * m = k; k % n = 0", [], "n >= 1; n * m = k"),
        ("n % m < m", [], "m >= 1"),
        ("max n m <= k", [], "n <= k; m <= k"),
        ("min n m <= k", [], "min n m <= k"),
        ("n * n <= m * m", [], "n <= m"),
        ("n * n = 9", [], "n = 3"),
        ("4 * n * n >= m * m", [], "m <= 2 * n"),
        ("n * n <= 2 * m * m", [], "n * n <= 2 * m * m"),
        ("m * (n / m) < n + n / m", [], "n >= 1; m >= 1"),
        ("n <= m; k < n; m % k = 0; m * (n / m) < n + n / m", [], "n <= m; k < n; m % k = 0"),
        (
            "a % b = 0; a % c = 0; a % d = 0; b % c = 0; b % d = 0; c % d = 0; d % e = 0; a % e = 0; b % e = 0; c % e = 0",
            [],
            "c % d = 0; d % e = 0; a % b = 0; b % c = 0",
        ),
        ("a + b / b > b; a <= 4; b = a", [], "a = b; a <= 4; a >= 1"),
        ("m <= k; m <= n; n * m <= k; n % m = 0; (n - m) % k = 0", [], "m <= n; n * m <= k; n % m = 0; (n - m) % k = 0"),
        ("k <= m; n = m * k; n <> m; (n - m) % k = 0", [], "m < n; m * k = n; m % k = 0"),
        # divisibilities
        ("(n + 1) % 4 = 1", [], "n % 4 = 0"),
        ("(m - n) % 4 = 0", [], "(n - m) % 4 = 0"),
        ("(0 - n) % m = 0; 3 * n % 4 = 2", [], "n % 4 = 2; n % m = 0"),
        ("(n + m) % k = 0; n % k = 0", [], "n % k = 0; m % k = 0"),
        ("(n + m) % k = 0; (n - m) % k = 0; 2 * n % k = 0", [], "2 * n % k = 0; (n - m) % k = 0"),
        ("n % k = 0; k * (n / m) % k = 0", [], "m >= 1; n % k = 0"),
        ("(n - 1) % k = 0; n = m * k + 1", [], "k >= 1; m * k + 1 = n"),
        # equations that several inequalities make
        ("n <= m; m <= k; k <= n", [], "n = m; n = k"),
        ("n <= m + 1; m < k; k <= n", [], "n = k; n = m + 1"),
        ("n <= m; m <= k; k < n", [], "n <= m; m <= k; k < n"),  # which no sizes satisfy
    ],
)
def test_simplifies(relations: str, given: list[str], expected: str) -> None:
    found = simplify(map(fact, relations.split("; ")), Facts().assume(*map(fact, given)))
    assert "; ".join(map(str, found)) == expected


def test_simplification_is_equivalent_irredundant_and_independent_of_order() -> None:
    for seed in (*range(sets(150)), 3613, 5286, 13850):  # some that were wrong once
        rng = random.Random(seed)
        symbols = tuple(fresh(name) for name in "abc"[: rng.choice((1, 2, 3))])
        ops = rng.choice(("+ -", "+ - *", "+ - / %", "+ - min max", "+ + - * / % min max"))
        relations = [relation(rng, symbols, rng.choice((1, 2)), ops) for _ in range(rng.randrange(1, 6))]
        given = [relation(rng, symbols, 1, ops) for _ in range(rng.randrange(2))]
        known = Facts().assume(*given)
        simple = simplify(relations, known)
        text = f"seed {seed}: {', '.join(map(str, relations))} under {', '.join(map(str, given))} is {', '.join(map(str, simple))}"
        assert simplify(rng.sample(relations, len(relations)), known) == simple, text
        possible = False
        for values in assignments(symbols, 6):
            if all(holds(r, values) for r in given):
                before = all(holds(r, values) for r in relations)
                assert before == all(holds(r, values) for r in simple), text
                possible |= before
        for r in simple if possible else ():  # else anything follows; a relation also says that its divisors are not 0
            others = known.assume(*(other for other in simple if other != r))
            parts = [r, *(Relation(q.divisor, "<>", Dim.of(0)) for q in r.left.quotients | r.right.quotients)]
            assert not all(prove(others, part) is Answer.PROVED for part in parts), f"{text}, of which {r}"


def test_thousands_of_variables() -> None:
    """Chains backwards and shuffled, and thousands of equations between names; forwards and refuted: test_adversarial."""
    sizes = [Dim.of(fresh(f"v{i}")) for i in range(5_000)]
    flexible = [s for v in sizes if (s := v.symbol) is not None]
    chain = [Equation(a, b, i) for i, (a, b) in enumerate(pairwise(sizes))]
    for system in (chain[::-1], random.Random(0).sample(chain, len(chain))):
        solution = within(2, lambda system=system: solve(system, flexible, Facts()))
        assert set(solution.substitution.values()) == {sizes[0]}
    assert len(within(2, lambda: solve(chain[:2_000], (), Facts())).residual) == 2_000


def test_chains_of_facts_longer_than_the_prover_looks() -> None:
    sizes = [Dim.of(fresh(f"v{i}")) for i in range(1_000)]
    facts = [Relation(a, "=", b) for a, b in pairwise(sizes)]
    assert not solve([Equation(sizes[0], sizes[-1], 0)], (), Facts().assume(*facts)).residual
    assert solve([Equation(sizes[0], sizes[-1], 0)], (), Facts().assume(*facts[:-1])).residual
    loop = [*facts, Relation(sizes[-1], "=", sizes[0]), Relation(sizes[3], "<=", sizes[4] + 1)]
    assert len(simplify(loop, Facts())) == len(facts)  # the inequality is one of a size with itself
