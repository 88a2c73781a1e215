"""What SymPy answers about sizes, against plain evaluation, enumeration, and what was multiplied out to pose the question."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
import sympy

from axon.base.names import fresh
from axon.shapes.algebra.budget import Budget, OutOfBudget
from axon.shapes.algebra.polynomials import (
    Ideal,
    _irreducible,
    _may_factor,
    _shared,
    exact_quotient,
    expression,
    factors,
    spanned,
    triangular,
)
from axon.shapes.dimension import Dim, dim_sum
from tests.shapes.generate import sets

SYMBOLS = tuple(fresh(name) for name in "nmkh")
N, M, K, H = map(Dim.of, SYMBOLS)
ONE = Dim.of(1)
TWINS = dict(zip(SYMBOLS, sympy.symbols("n m k h"), strict=True))


def random_dim(rng: Random, variables: int = 3, terms: int = 3, degree: int = 2, most: int = 4) -> Dim:
    """A polynomial that is not 0."""
    total = Dim.of(0)
    while not total.mapping:
        for _ in range(rng.randrange(1, terms + 1)):
            term = Dim.of(rng.choice([1, 1, -1, 2, -3, rng.randrange(1, most + 1)]))
            for _ in range(rng.randrange(degree + 1)):
                term *= rng.choice([N, M, K, H][:variables])
            total += term
    return total


def test_quotients() -> None:
    rng = Random(1)
    exact = 0
    for _ in range(sets(300)):
        a, b, c = (random_dim(rng) for _ in range(3))
        assert exact_quotient(a * b, b) == a
        found = exact_quotient(a * b + c, b)
        assert found is None or found * b == a * b + c
        exact += found is not None
    assert exact
    assert exact_quotient(ONE, Dim.of(0)) is None
    assert exact_quotient(2 * N + 2, 4 * N + 4) is None
    assert exact_quotient(N * N - M * M, N + M) == N - M


def test_factors() -> None:
    """The product is what was factored, up to its sign and content; what was multiplied is found."""
    rng = Random(2)
    apart = 0
    for _ in range(sets(300)):
        parts = [random_dim(rng, 2, 3, 1) for _ in range(rng.randrange(1, 4))]
        whole = ONE
        for part in parts:
            whole *= part
        found = factors(whole)
        again = Dim.of(whole.content)
        for part in found:
            assert part.terms[0][0] > 0 or found == (whole,)
            again *= part
        if len(found) > 1:
            apart += 1
            assert again in (whole, -whole)
        varying = [part for part in parts if part.constant is None]
        if len(whole.mapping) > 1 and not any(all(v in m for m in whole.mapping) for v in SYMBOLS):
            assert len(found) >= len(varying), f"{whole}: {[str(f) for f in found]}"
    assert apart > sets(300) // 4
    assert factors(H * N - M) == (H * N - M,)
    assert factors(4 * N * N - 9 * M * M) == (2 * N - 3 * M, 2 * N + 3 * M)


def test_what_is_soon_seen_to_be_irreducible_is_no_product() -> None:
    """No product of two polynomials is, and of those that are, SymPy finds one factor, the same."""
    rng = Random(7)
    seen = 0
    for _ in range(sets(300)):
        one, other = random_dim(rng, 3, 4, 2), random_dim(rng, 3, 2, 1)
        if one.constant is None and other.constant is None and not _shared(one * other):
            assert not _irreducible(one * other), f"{one} times {other}"
        if _may_factor(one) and not _shared(one) and _irreducible(one):
            seen += 1
            (factor,), ((found, times),) = factors(one), sympy.factor_list(expression(one, TWINS))[1]
            assert times == 1
            assert sympy.expand(expression(factor, TWINS)) in (sympy.expand(found), sympy.expand(-found))
    assert seen > sets(300) // 20
    assert factors(-2 * N * N - 2 * M * M - 4) == (N * N + M * M + 2,)
    assert not _irreducible((N + 1) * (M * M + 2))  # which share no size
    assert not _irreducible((N + M) * (N + H))


def test_what_is_too_large_is_not_factored() -> None:
    whole = ONE
    for i in range(1, 12):
        whole *= N + i * M + 1
    assert factors(whole) == (whole,)


def test_consequences_are_multiplied_out() -> None:
    """A combination of equations is seen to be 0, and says of which; by numbers, each certificate is an identity."""
    rng = Random(3)
    for _ in range(sets(60)):
        equations = [d for _ in range(3) if (d := random_dim(rng, 3, 2)) and not d.offset]  # all 0 satisfies them
        multiples = [random_dim(rng, 3, 2, 1) if rng.random() < 0.7 else Dim.of(0) for _ in equations]
        goal = dim_sum(p * q for p, q in zip(equations, multiples, strict=True))
        ideal = Ideal(equations, [goal, H], Budget(100_000))
        found = ideal.consequence(goal, Budget(100_000))
        assert found is not None, (list(map(str, equations)), str(goal))
        for c in (found, *ideal.consequences()):
            at = {v: rng.randrange(-9, 10) for v in SYMBOLS}
            total = sum(m.evaluate(at) * equations[i].evaluate(at) for i, m in c.multiples)
            assert total == c.factor * c.zero.evaluate(at)
            assert c.factor > 0


def test_a_multiple_of_an_equation_is_seen_whatever_the_others_say() -> None:
    """Where others make it smaller than a multiple is written: m * k = -4 * m, and so m * k * k = 16 * m."""
    for equations, goal, used in (
        ([K * K, M * K + 4 * M], M * K * K, 1),
        ([-3 * M, N * M + K], (N + M) * (-3 * M) + 2 * N * (N * M + K), 2),
        ([M * K + 2 * M, 2 * N * M + 2 * K, -K * K - 3 * N], (M + 1) * (2 * N * M + 2 * K) + (1 - M) * (-K * K - 3 * N), 3),
    ):
        found = Ideal(equations, [goal, H], Budget(10_000)).consequence(goal, Budget(1_000))
        assert found is not None, (list(map(str, equations)), str(goal))
        assert found.holds(equations)
        assert len(found.used) <= used


def test_nothing_else_is_a_consequence() -> None:
    """Where numbers satisfy the equations and not a claim, it does not follow."""
    rng = Random(4)
    refuted = 0
    for _ in range(sets(60)):
        equations = [random_dim(rng, 3, 2) for _ in range(rng.randrange(1, 3))]
        goal = random_dim(rng, 3, 2)
        values = (dict(zip(SYMBOLS, at, strict=False)) for at in product(range(-4, 5), repeat=3))
        counter = any(all(e.evaluate(at) == 0 for e in equations) and goal.evaluate(at) for at in values)
        found = Ideal(equations, [goal], Budget(100_000)).consequence(goal, Budget(100_000))
        assert not (counter and found)
        refuted += counter
    assert refuted > sets(60) // 4


def test_only_the_equations_that_are_needed_are_blamed() -> None:
    ideal = Ideal([N * M - K, H * H - 3, K - 2 * M], [], Budget(10_000))
    found = ideal.consequence(N * M - 2 * M, Budget(1_000))
    assert found is not None
    assert found.used == (0, 2)


def cyclic(count: int) -> list[Dim]:
    """The equations of the cyclic roots, a known hard system."""
    v = [Dim.of(fresh(f"x{i}")) for i in range(count)]
    sums = []
    for length in range(1, count):
        terms = []
        for i in range(count):
            term = ONE
            for j in range(length):
                term *= v[(i + j) % count]
            terms.append(term)
        sums.append(dim_sum(terms))
    whole = ONE
    for x in v:
        whole *= x
    return [*sums, whole - 1]


def test_a_basis_that_takes_long_is_stopped() -> None:
    """What is asked after that may fail, and what is found is right."""
    equations = cyclic(6)
    ideal = Ideal(equations, [N], Budget(3_000))
    found = ideal.consequence(equations[0] * N, Budget(3_000))
    assert found is not None
    assert found.holds(equations)
    with pytest.raises(OutOfBudget):
        ideal.consequence(equations[4] * equations[3] * equations[2], Budget(1))


def test_steps_are_the_same_in_every_process() -> None:
    program = (
        "from tests.shapes.algebra.test_polynomials import *\n"
        "b = Budget(10**6); Ideal([N * M - K, M * K - H * H, H * N - M], [], b); print(b.left)"
    )
    said = set()
    for seed in ("1", "2"):
        environment, here = {**os.environ, "PYTHONHASHSEED": seed}, Path(__file__).parents[3]
        command = [sys.executable, "-c", program]
        said.add(subprocess.run(command, capture_output=True, text=True, cwd=here, check=True, env=environment).stdout)
    assert len(said) == 1


def test_echelon_form() -> None:
    rng = Random(5)
    for _ in range(sets(100)):
        count, width = rng.randrange(1, 5), rng.randrange(1, 5)
        rows = [[rng.randrange(-6, 7) for _ in range(width)] for _ in range(count)]
        made = triangular(rows)
        assert made is not None
        assert abs(determinant(made)) == 1
        steps = [[sum(a * r[i] for a, r in zip(row, rows, strict=True)) for i in range(width)] for row in made]
        leads = [next((i for i, c in enumerate(step) if c), width) for step in steps]
        assert all(a < b or a == b == width for a, b in pairwise(leads)), (rows, steps)
    assert triangular([[1] * 40 for _ in range(60)]) is None


def determinant(rows: list[list[int]]) -> int:
    if not rows:
        return 1
    return sum((-1) ** i * rows[0][i] * determinant([[*row[:i], *row[i + 1 :]] for row in rows[1:]]) for i in range(len(rows)))


def test_sums_of_rows() -> None:
    rng = Random(7)
    yes = no = 0
    for _ in range(sets(100)):
        rows = [[rng.randrange(-4, 5) for _ in range(3)] for _ in range(2)]
        goal = [rng.randrange(-6, 7) for _ in range(3)]
        if rng.random() < 0.5:
            x, y = rng.randrange(-3, 4), rng.randrange(-3, 4)
            goal = [x * a + y * b for a, b in zip(*rows, strict=True)]
        every = product(range(-80, 81), repeat=2)
        wanted = any([x * a + y * b for a, b in zip(*rows, strict=True)] == goal for x, y in every)
        assert spanned(goal, rows) == wanted
        yes, no = yes + wanted, no + (not wanted)
    assert min(yes, no) > sets(100) // 5
    assert spanned([2], [[6], [10]])
    assert not spanned([3], [[6], [10]])
