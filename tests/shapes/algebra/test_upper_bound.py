"""Sizes that are never exceeded, against all that is reached."""

from __future__ import annotations

import random

from axon.base.names import fresh
from axon.shapes.algebra.prove import Facts
from axon.shapes.algebra.upper_bound import upper_bound
from axon.shapes.dimension import Dim, maximum, minimum

N, K, J = (fresh(name) for name in "nkj")


def some(rng: random.Random, depth: int) -> Dim:
    if depth == 0:
        return rng.choice([Dim.of(N), Dim.of(K), Dim.of(J), Dim.of(rng.randrange(-2, 5))])
    a, b = some(rng, depth - 1), some(rng, depth - 1)
    match rng.randrange(7):
        case 0:
            return a + b
        case 1:
            return a - b
        case 2:
            return a * b
        case 3:
            return a // maximum(b, 1)
        case 4:
            return a % maximum(b, 1)
        case 5:
            return minimum(a, b)
        case _:
            return maximum(a, b)


def test_nothing_is_larger() -> None:
    rng = random.Random(7)
    for _ in range(150):
        inner, dim = some(rng, 1).substitute({J: Dim.of(N)}), some(rng, 2)
        found = upper_bound(dim, {K: Dim.of(N), J: inner}, Facts())
        assert found.variables <= {N}
        for n in range(6):
            over = ({N: n, K: i, J: j} for i in range(n) for j in range(inner.evaluate({N: n, K: i})))
            assert all(dim.evaluate(values) <= found.evaluate({N: n}) for values in over), (dim, inner, n)


def test_parts_that_belong_together() -> None:
    n, i = Dim.of(N), Dim.of(K)
    close = {
        i % 3 * i: (n - 1) * 2,
        (7 - i) % 3 * i: (n - 1) * 2,
        i * i + n: (n - 1) * (n - 1) + n,
        n // (i + 1) * i: n * (n - 1),
    }
    for dim, expected in close.items():
        found = upper_bound(dim, {K: n}, Facts())
        assert all(found.evaluate({N: m}) <= expected.evaluate({N: m}) for m in range(1, 9)), (dim, found)
