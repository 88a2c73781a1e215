"""Obligations in their worst case: accesses by divided indices are proved from the contract, which says just what they need."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

import axon
from axon.base.names import fresh
from axon.base.source import SourceFile
from axon.shapes.algebra.divisibility import inequalities
from axon.shapes.constraint import Reason
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.shapes.solving.simplify import normal
from axon.tools.cli import main
from tests.shapes.generate import sets, tree

QUIET = Reason(SourceFile("", "").span(), "")


@pytest.mark.parametrize(
    ("program", "contract"),
    [
        ("fun f {g} (q : f32[h, d]) (k : f32[h / g, d]) = for h c => q[h, c] * k[h / g, c]", "h % g = 0"),
        ("fun f (q : f32[h]) (k : f32[h / 2]) = for h => q[h] * k[h / 2]", "h % 2 = 0"),
        ("fun f {g} (x : f32[n]) (y : f32[2 * (n / g)]) = for i => x[i] + y[2 * (i / g) + 1]", "n % g = 0"),
        ("fun f {g} (x : f32[n]) (y : f32[m]) = for i => x[i] + y[i / g]", "g >= 1, n <= g * m"),
        ("fun f (x : f32[n]) = for i < (n + 1) / 2 => x[2 * i] + x[2 * i + 1]", "n % 2 = 0"),
        ("fun f (x : f32[n]) = for k < n / 2 + 1 => x[k]", "n >= 1"),
        ("fun f {p} (x : f32[n]) = for k < n / p + 1 => x[k]", "p >= 2, n >= 1"),
        ("fun f {p} (x : f32[h]) where h >= 1 = for k < h / p + 1 => 1.0", "p >= 1, h >= 1"),
        ("fun f {g} (x : f32[n]) (y : f32[n / g]) where n % g = 0 = for i => x[i] + y[i / g]", "n % g = 0"),
        ("fun f (q : f32[h]) (k : f32[g]) = for i => q[i] * k[i / (h / g)]", "g <= h, h % g = 0"),
        ("fun f {a} (x : f32[n]) = for i < a => x[i * (n / a)]", "a >= 1, n >= 1"),
        ("fun f {a} (x : f32[n]) = for i < a => x[i * (n / a + 1)]", "a * (n / a) + a <= n + n / a"),
        # blocks, the last of which must be whole
        ("fun f {k} (x : f32[n]) = for i < n => x[i / k * k + (k - 1 - i % k)]", "n % k = 0"),
        ("fun f {k} (x : f32[n]) = for i => x[i] + x[i / k * k + (i % k + 1) % k]", "n % k = 0"),
        ("fun f (x : f32[n]) = for i < n => x[i / 3 * 3 + (2 - i % 3)]", "n % 3 = 0"),
        ("fun f {k} (x : f32[n, k]) (y : f32[m]) = for i < m, j < k => x[i / k, (i + j) % k] + y[i]", "m <= k * n"),
        ("fun f {k} (x : f32[n]) = for i < n => x[(i + 1) % k]", "k <= n, k >= 1"),
        ("fun f {k} (x : f32[n]) = for i < n => if k <= n then x[(i + 1) % k] else 0.0", "k >= 1"),
        ("fun f {k} (x : f32[n]) = for i < n => x[(i % k + 1) % k]", "k <= n, k >= 1"),
        # where no index is, nothing is divided
        ("fun f {p, q} (x : f32[n]) = for i < q => x[i / (p + q)]", "q <= p * n + q * n"),
        ("fun f {p, q} (x : f32[n]) = for i < q * p => x[i / (p + q)]", "p * q <= p * n + q * n"),
        ("fun f {p, q} (x : f32[n]) = for i < p => x[i * q / p]", "p * q < p * n + q"),
        ("fun f {p, q} (x : f32[n]) = for i < q * p + q => x[i / p]", "p >= 1, p * q + q <= p * n"),
    ],
)
def test_a_divided_index_needs_no_check_at_run_time(
    program: str, contract: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert axon.compile(program).f.signature.endswith(f" where {contract}")
    path = tmp_path / "a.axon"
    path.write_text(program)
    assert main(["emit", f"{path}:f", "--stage", "core"]) == 0
    assert "![" not in capsys.readouterr().out


def test_contracts_of_divided_indices_say_just_what_is_needed() -> None:
    """n % g = 0 where all reads are inside; n <= g * m likewise."""
    symbols = tuple(fresh(name) for name in "ngm")
    n, g, m = map(Dim.of, symbols)
    cases = [(n // g - (n - 1) // g - 1, n // g), (m - (n - 1) // g - 1, m)]
    for slack, size in cases:
        found = [r for r, _ in inequalities(Relation(slack, ">=", Dim.of(0)), QUIET)]
        for values in product(range(1, 13), range(1, 7), range(8)):
            known = dict(zip(symbols, values, strict=True))
            inside = all(x // known[symbols[1]] < size.evaluate(known) for x in range(known[symbols[0]]))
            assert all(r.holds(known) for r in found) == inside, (values, found)


def test_a_factor_that_may_be_negative_decides_only_where_the_others_are_not_0() -> None:
    """b * c * (-1 / (a + b)) + c * c * (-1 / (a + b)) >= 0 holds where c is 0; of c * (n / 2 - 1) >= 0, too."""
    a, b, c = symbols = tuple(fresh(name) for name in "abc")
    rest = Dim.of(-1) // (Dim.of(a) + Dim.of(b))
    for slack in (Dim.of(b) * Dim.of(c) * rest + Dim.of(c) * Dim.of(c) * rest, Dim.of(c) * (Dim.of(a) // Dim.of(2) - Dim.of(1))):
        for values in product(range(4), range(1, 4), range(4)):
            known = dict(zip(symbols, values, strict=True))
            found = [part for r, _ in inequalities(Relation(slack, ">=", Dim.of(0)), QUIET) for part in normal(r)]
            assert all(part.holds(known) for part in found) == (slack.evaluate(known) >= 0)


def test_inequalities_keep_their_meaning_in_the_contract() -> None:
    """What stands in a contract for an inequality holds for the same sizes, wherever divisors are at least 1."""
    rng = random.Random(11)
    for _ in range(sets(400)):
        symbols = tuple(fresh(name) for name in "abc")
        dim = tree(rng, 3, 3, "+ - * / %").dim(symbols)
        choices = [dim - rng.randint(-3, 3)]
        if dim.quotients:
            q = min(dim.quotients, key=lambda q: render(q.dividend))
            whole, c = q.dividend // q.divisor, rng.randint(1, 3)
            choices += [c * (whole - (q.dividend - 1) // q.divisor) - rng.randint(0, 4)]
            choices += [q.dividend % q.divisor - q.divisor + rng.randint(0, 2), rng.randint(-1, 1) - q.dividend % q.divisor]
            choices += [whole - rng.randint(-2, 2), rng.randint(-2, 2) - whole]
        for slack in choices:
            relation = Relation(slack, ">=", Dim.of(0))
            parts = [part for r, _ in inequalities(relation, QUIET) for part in normal(r)]
            for values in product(range(5), repeat=3):
                known = dict(zip(symbols, values, strict=True))
                try:
                    if any(q.divisor.evaluate(known) < 1 for q in slack.quotients):
                        continue
                    expected = relation.holds(known)
                    holds = all(part.holds(known) for part in parts)
                except ZeroDivisionError:
                    continue
                assert holds == expected, (str(relation), [str(p) for p in parts], values)
