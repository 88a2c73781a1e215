"""Accesses under conditions on sizes and indices: a call is refused only where the program would read outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
import pytest

import axon

Reads = Callable[[int, int, int], Iterable[tuple[int, int]]]

CASES: list[tuple[str, str, Reads]] = [
    # a condition on sizes: what is needed where it holds
    ("if k >= 1 then x[k - 1] else 0.0", "k <= n", lambda n, m, k: [(k - 1, n)] if k >= 1 else []),
    ("if k >= 3 then x[k] else 0.0", "k <= max 2 (n - 1)", lambda n, m, k: [(k, n)] if k >= 3 else []),
    ("if k <= n then x[k] else 0.0", "k <> n", lambda n, m, k: [(k, n)] if k <= n else []),
    ("if k + 1 < n then x[k] + x[k + 2] else 0.0", "k + 2 <> n", lambda n, m, k: [(k + 2, n)] if k + 1 < n else []),
    (
        "if k <= n then (sum for i < k => x[i] * y[i]) else 0.0",
        "max (m - k) (k - n - 1) >= 0",
        lambda n, m, k: [(i, m) for i in range(k)] if k <= n else [],
    ),
    (
        "if k <= n then (let val z = y[0 : k] in sum i => z[i] end) else 0.0",
        "max (m - k) (k - n - 1) >= 0",
        lambda n, m, k: [(i, m) for i in range(k)] if k <= n else [],
    ),
    ("if n <= m then (sum i => x[i] * y[m - n + i]) else 0.0", "", lambda n, m, k: []),
    # what takes more than one fact to say is looked at where it is read
    ("if k % 2 = 0 then x[k] else 0.0", "", lambda n, m, k: [(k, n)] if k % 2 == 0 else []),
    ("if k <= n andalso k >= 2 then x[k] + y[k] else 0.0", "", lambda n, m, k: [(k, n), (k, m)] if 2 <= k <= n else []),
    ("if n <> m then x[0] else 0.0", "", lambda n, m, k: [(0, n)] if n != m else []),
    ("if k >= 1 then x[m / k] else 0.0", "", lambda n, m, k: [(m // k, n)] if k else []),
    # a condition on indices: where they end, their values, their remainders
    (
        "for i < n => if 2 * i < m then x[2 * i] else 0.0",
        "2 * min n ((m + 1) / 2) <= n + 1",
        lambda n, m, k: [(2 * i, n) for i in range(n) if 2 * i < m],
    ),
    (
        "for i < n => if i = k then y[i + 1] else 0.0",
        "max (k - n) (m - k - 2) >= 0",
        lambda n, m, k: [(k + 1, m)] if k < n else [],
    ),
    (
        "for i < n => if i % 2 = 0 then x[i + 1] else x[i - 1]",
        "n % 2 = 0",
        lambda n, m, k: [(i + 1 - 2 * (i % 2), n) for i in range(n)],
    ),
    (
        "for i < n => if i % 2 = 0 then y[i] else 0.0",
        "2 * ((n + 1) / 2) <= m + 1",
        lambda n, m, k: [(i, m) for i in range(0, n, 2)],
    ),
    ("for i < 2 * k => if i % 2 = 1 then x[i / 2] else 0.0", "k <= n", lambda n, m, k: [(i // 2, n) for i in range(1, 2 * k, 2)]),
    ("for i < n, j < m => if i = j then x[i + j] else 0.0", "2 * min n m <= n + 1",
     lambda n, m, k: [(2 * i, n) for i in range(min(n, m))]),
    ("for i < n => if i >= k then x[i - k] else if k >= 2 then x[k] else 0.0", "k <= max 1 (n - 1)",
     lambda n, m, k: [(k, n)] if k >= 2 else []),
    ("for i < n => if i % 3 <> 0 then y[i] else 0.0", "", lambda n, m, k: [(i, m) for i in range(n) if i % 3]),
    ("for i < n => if i % 4 < 2 then x[i + 2] else x[i - 2]", "n % 4 = 0",
     lambda n, m, k: [(i + 2 if i % 4 < 2 else i - 2, n) for i in range(n)]),
    ("for i < n => if i % 4 <> 3 then y[i + 1] else 0.0", "min (n + 1) (4 * ((n + 3) / 4)) <= m",
     lambda n, m, k: [(i + 1, m) for i in range(n) if i % 4 != 3]),
    ("for i < 4 * n => if i % 4 >= 2 then x[i / 4] + y[i - 2] else 0.0", "4 * n <= m + 2",
     lambda n, m, k: [(i - 2, m) for i in range(4 * n) if i % 4 >= 2]),
    ("for i < n => if i / 2 < m then y[i / 2] else 0.0", "", lambda n, m, k: []),
    ("for i < 3 * n => if i / 3 <> 0 then y[i - 3] else 0.0", "3 * n <= m + 3",
     lambda n, m, k: [(i - 3, m) for i in range(3, 3 * n)]),
    # clamped ends
    ("for i < n + 2 => x[max 0 (min (n - 1) (i - 1))]", "n >= 1", lambda n, m, k: [(0, n)]),
    ("for i < n + 2 * k => x[max 0 (min (n - 1) (i - k))]", "n >= 1", lambda n, m, k: [(0, n)]),
    ("for i < n => x[max 2 (min i n)]", "n >= 3", lambda n, m, k: [(2, n)]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "where", "reads"), CASES, ids=[body for body, _, _ in CASES])
def test_calls_that_read_inside_are_taken(body: str, where: str, reads: Reads) -> None:
    f = axon.compile(f"fun f {{k}} (x : f32[n]) (y : f32[m]) = {body}").f
    assert str(f.signature).partition(" where ")[2] == where
    for n, m, k in product(range(1, 5), range(1, 5), range(5)):  # no range of a `for` is empty
        inside = all(0 <= i < size for i, size in reads(n, m, k))
        try:
            f[k](np.ones(n, np.float32), np.ones(m, np.float32), target="interpret")
            taken = True
        except axon.ShapeError as error:
            taken = False
            assert error.diagnostics[0].code == ("AX0501" if where else "AX0502"), (n, m, k)
        assert taken == inside, (n, m, k)


@pytest.mark.parametrize(("body", "where", "reads"), CASES[:9], ids=[body for body, _, _ in CASES[:9]])
def test_so_are_they_on_processors(body: str, where: str, reads: Reads) -> None:
    f = axon.compile(f"fun f {{k}} (x : f32[n]) (y : f32[m]) = {body}").f
    for n, m, k in ((1, 1, 4), (4, 2, 3), (3, 5, 3), (5, 1, 1)):
        x, y = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
        if all(0 <= i < size for i, size in reads(n, m, k)):
            assert np.array_equal(f[k](x, y, target="cpu"), f[k](x, y, target="interpret"))
        else:
            with pytest.raises(axon.ShapeError):
                f[k](x, y, target="cpu")
