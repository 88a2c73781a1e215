"""What the engine makes of programs, through the whole checker: each capability as a person would meet it."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon.base.errors import AxonError

CONV = "fun conv x k = for o p => sum c r => x[c, 2 * p + r] * k[o, c, r]\n"
PADDED = (
    "fun conv {s, p} (x : 'a[c, n]) (k : 'a[o, c, r]) where s >= 1 =\n"
    "  for o, i < (n + 2 * p - r) / s + 1 => sum c j => x[c, s * i + j - p | 0.0] * k[o, c, j]\n"
)
HEADS = "fun split {h} x = for ..b, i < h, j c => x[..b, j, (i, c)]\nfun merge x = for ..b j (i, c) => x[..b, i, j, c]\n"
FLAT = "fun flat x = for (i, j) => x[i, j]\nfun unflat {h} x = for i < h, j => x[(i, j)]\n"
POOL = (
    "fun down x = for i j => max for a < 2, b < 2 => x[2 * i + a, 2 * j + b]\n"
    "fun up (x : f32[h, w]) = for i < 2 * h, j < 2 * w => x[i / 2, j / 2]\n"
)
SUMS = "fun g (x : f32[n + m, n - m]) = for i < n, j < m => 1.0\n"
SQUARE = "fun g (x : f32[n * n]) = for i < n, j < n => x[i * n + j]\n"
IOTA = "fun iota {n} = for i < n => i\nfun tail (x : 'a[n]) where n >= 1 = for i < n - 1 => x[i + 1]\n"
OPENED = "let val (k : f32[m]) = filter (x > 0.0) x  val (l : f32[p]) = filter (y > 0.0) y in"


PARTS = "fun split {h} (x : f32[n]) = for i < h, j => x[(i, j)]\nfun merge x = for (i, j) => x[i, j]\n"
STRIDES = (
    "fun pool {s} (x : f32[n]) where s >= 1 = for i < n / s => x[i * s]\n"
    "fun spread {s} (x : f32[n]) where s >= 1 = for i < s * n => x[i / s]\n"
)
OF_FOUR = (
    "fun t4 (x : f32[n]) = for i < 4 * (n / 4) => x[i]\nfun t12 (x : f32[n]) = for i < 12 * (n / 12) => x[i]\n"
    "fun dot (x : f32[n]) (y : f32[n]) = sum i => x[i] * y[i]\nfun thirds (x : f32[n]) = sum for i < 3, j => x[(i, j)]\n"
)
AT_MOST = "fun g (x : f32[n]) (y : f32[m]) where n <= m = x[0] + y[0]\n"
LONGER = "(for i < max n k => x[i | 0.0])"
KEPT = "let val (k : f32[j]) = filter (x > 0.0) x in"


@pytest.mark.parametrize(
    ("program", "signature"),
    [
        # linear over the integers: 2 * n = k gives n and the fact that 2 divides k
        ("fun f (x : f32[k]) = for i < 2, j => x[(i, j)]", "f32[k] -> f32[2, k / 2] where k % 2 = 0"),
        (
            "fun f x (y : f32[6 * a]) = for i < 4, j => x[(i, j)] + y[(i, j)]",
            "f32[6 * a] -> f32[6 * a] -> f32[4, 3 * (a / 2)] where a % 2 = 0",
        ),
        # inequalities that together are equations
        (
            "fun f x (y : f32[m]) = (for i, j < 1 => x[i] * y[i + j], for i, j < 1 => y[i] * x[i + j])",
            "f32[m] -> f32[m] -> (f32[m, 1], f32[m, 1])",
        ),
        (
            "fun f x y z = (for i, j < 1 => x[i] * y[i + j], for i, j < 1 => y[i] * z[i + j], for i, j < 1 => z[i] * x[i + j])",
            "'a[i] -> 'a[i] -> 'a[i] -> ('a[i, 1], 'a[i, 1], 'a[i, 1])",
        ),
        # products
        ("fun f (x : f32[h * w]) (y : f32[h, w]) = for i j => y[i, j] + x[i * w + j]", "f32[h * w] -> f32[h, w] -> f32[h, w]"),
        (
            "fun f (x : f32[n, m]) (y : f32[n]) where m >= 1 = y + (for i < n * m / m => y[i])",
            "f32[n, m] -> f32[n] -> f32[n] where m >= 1",
        ),
        (
            "fun g (x : f32[n]) (y : f32[n * m]) = for i < n, j < m => y[(i, j)]\nfun f (x : f32[n]) = g x x",
            "f32[n] -> f32[n, 1] where n >= 1",
        ),
        # floor division and its remainder
        (
            "fun f {h} (x : f32[h * (d / h)]) (y : f32[d]) where d % h = 0 = x + y",
            "{h} -> f32[h * (d / h)] -> f32[d] -> f32[d] where d % h = 0",
        ),
        (
            "fun f {h} (x : f32[n, d]) where d % h = 0 = for b, i < h, c < d / h => x[b, i * (d / h) + c]",
            "{h} -> f32[n, d] -> f32[n, h, d / h] where d % h = 0",
        ),
        # chains of strided and padded convolutions
        (
            CONV + "fun f (x : f32[3, n]) (a : f32[8, 3, 3]) (b : f32[16, 8, 3]) = conv (conv x a) b",
            "f32[3, n] -> f32[8, 3, 3] -> f32[16, 8, 3] -> f32[16, (n - 3) / 4] where n >= 3",
        ),
        (
            PADDED + "fun f (x : f32[3, n]) (a : f32[8, 3, 7]) (b : f32[16, 8, 3]) = conv {2, 1} (conv {2, 3} x a) b",
            "f32[3, n] -> f32[8, 3, 7] -> f32[16, 8, 3] -> f32[16, (n + 3) / 4]",
        ),
        (POOL + "fun f (x : f32[h, w]) = x + up (up (down (down x)))", "f32[h, w] -> f32[h, w] where h % 4 = 0, w % 4 = 0"),
        # flatten and its inverse, heads and back
        (FLAT + "fun f (x : f32[n, m]) where n >= 1 = (unflat {n} (flat x) : f32[n, m])", "f32[n, m] -> f32[n, m] where n >= 1"),
        (
            FLAT + "fun f {h} (x : f32[n]) where n % h = 0 = (flat (unflat {h} x) : f32[n])",
            "{h} -> f32[n] -> f32[n] where n % h = 0",
        ),
        (
            HEADS + "fun f {h} (x : f32[b, s, h * e]) = (split {h} x : f32[b, h, s, e])",
            "{h} -> f32[b, s, h * e] -> f32[b, h, s, e] where h >= 1",
        ),
        (
            HEADS + "fun f {h} (x : f32[b, s, h * e]) = (merge (split {h} x) : f32[b, s, h * e])",
            "{h} -> f32[b, s, h * e] -> f32[b, s, h * e] where h >= 1",
        ),
        (
            HEADS + "fun f {h} (x : f32[b, s, d]) where d % h = 0 = x + merge (split {h} x)",
            "{h} -> f32[b, s, d] -> f32[b, s, d] where d % h = 0",
        ),
        # what several equations determine together, at the definition and where it is used
        ("fun f (x : f32[n + m, n - m]) = for i < n, j < m => 1.0", "f32[n + m, n - m] -> f32[n, m]"),
        (SUMS + "fun f (x : f32[8, 2]) = g x", "f32[8, 2] -> f32[5, 3]"),
        (SUMS + "fun f (x : f32[6 * a, 2 * a]) = g x", "f32[6 * a, 2 * a] -> f32[4 * a, 2 * a]"),
        ("fun f (x : f32[n + m]) where n = m = for i < n => x[i]", "f32[n + m] -> f32[n] where n = m"),
        ("fun f (x : f32[n / 2, n % 2]) = for i < n => i", "f32[n / 2, n % 2] -> i32[n]"),
        (SQUARE + "fun f (x : f32[4 * k * k]) = g x", "f32[4 * k * k] -> f32[2 * k, 2 * k]"),
        (SQUARE + "fun f (x : f32[9]) = g x", "f32[9] -> f32[3, 3]"),
        (SQUARE + "fun f (x : f32[k]) = g x", "f32[k] -> f32[n, n] where n * n = k"),
        # minima and maxima
        ("fun f (x : f32[n]) (y : f32[m]) = for i < min n m => x[i] + y[i]", "f32[n] -> f32[m] -> f32[min n m]"),
        (
            "fun f (x : f32[max n m]) (a : f32[n]) (b : f32[m]) = for i < n => x[i] + a[i]",
            "f32[max n m] -> f32[n] -> f32[m] -> f32[n]",
        ),
        ("fun f (x : f32[n, m, k]) where n = min n (min m k) = x", "f32[n, m, k] -> f32[n, m, k] where n <= m, n <= k"),
        (
            "fun f {b} (x : f32[a * b]) (y : f32[c * b]) where b >= 1, a * b = c * b = x",
            "{b} -> f32[b * a] -> f32[b * c] -> f32[b * a] where a = c, b >= 1",
        ),
        # accesses, windows, slices
        ("fun f {w} (x : f32[n]) = for i, r < w => x[i + r]", "{w} -> f32[n] -> f32[n - w + 1, w] where w <= n + 1"),
        ("fun f {a} (x : f32[n]) = x[a : n : 2]", "{a} -> f32[n] -> f32[(n - a + 1) / 2] where a <= n"),
        ("fun f {k} (x : f32[n]) = x[k : n - k]", "{k} -> f32[n] -> f32[n - 2 * k] where 2 * k <= n"),
        # one undetermined shape variable
        (
            "fun f (x : f32[..s, ..t]) (y : f32[..t]) = for ..i ..j => x[..i, ..j] * y[..j]",
            "f32[..s, ..t] -> f32[..t] -> f32[..s, ..t]",
        ),
        # sizes that the data decide flow with their bounds, and are joined back by `as`
        (
            "fun f (x : f32[n]) = let val (k : f32[m]) = filter (x > 0.0) x in for i < min m 3 => k[i] end",
            "f32[n] -> ?m <= n. f32[min 3 m]",
        ),
        (f"fun f (x : f32[n]) (y : f32[n]) = {OPENED} sum i => (k + (l as f32[m]))[i] end", "f32[n] -> f32[n] -> f32"),
        # a guard is a fact in its branch, for what is created and for what is equal there
        (IOTA + "fun f (x : f32[n]) = if n >= 1 then (sum i => (iota {n - 1})[i]) else 0", "f32[n] -> i32"),
        (IOTA + "fun f (x : f32[n]) = n >= 1 andalso (sum i => (iota {n - 1})[i]) > 3", "f32[n] -> bool"),
        (IOTA + "fun f (x : f32[n]) = if n >= 1 then (sum i => (tail x)[i]) else 0.0", "f32[n] -> f32"),
        ("fun f (x : f32[n]) = if n >= 3 then (sum i => x[1 : n - 2][i]) else 0.0", "f32[n] -> f32"),
        (HEADS + "fun f (x : f32[s, d]) = if d % 4 = 0 then sum i j c => (split {4} x)[i, j, c] else 0.0", "f32[s, d] -> f32"),
        ("fun f (x : f32[n]) (y : f32[m]) = if n = m then sum i => x[i] * y[i] else 0.0", "f32[n] -> f32[m] -> f32"),
        # what is stated of two sizes is meant, and may leave only few sizes that what is needed admits
        (
            "fun f {k} (x : f32[n]) where n <= k = if k <= 3 then x[k - 1] else x[k - 2]",
            "{k} -> f32[n] -> f32 where n <= k, k >= 1, k <= n + 1, max (k - 4) (n - k) >= 0",
        ),
        # no fact of a call that divides by what only a guard makes at least 1: it is compared when it is read
        ("fun f {p, q} (x : f32[n]) = for i < q => if p >= 1 then x[i / p] else 0.0", "{p, q} -> f32[n] -> f32[q]"),
        # what an index is compared with is a size, also where it is of numbers alone
        ("fun f (x : f32[n]) = for j < n => if j >= max 1 2 then x[j - 1] else x[j]", "f32[n] -> f32[n]"),
        ("fun f (x : f32[n]) = for j < n => if 4 / 2 <= j then x[j - 1] else x[j]", "f32[n] -> f32[n]"),
        # what finding a size needs is a fact like any other: n <= k * n follows from it
        ("fun f {k} (x : f32[k * n]) = for i < n => x[i]", "{k} -> f32[k * n] -> f32[n] where k >= 1"),
        # a condition around a comprehension does not guard its accesses
        ("fun f p (x : f32[n]) = if p then sum i => x[2 * i] else 0.0", "bool -> f32[n] -> f32"),
        # what the contract asks anyway is known of all equations, wherever it stands
        (PARTS + "fun f (x : f32[n]) = x + merge (split {4} x) + merge (split {6} x)", "f32[n] -> f32[n] where n % 12 = 0"),
        (PARTS + "fun f (x : f32[n]) = x + (merge (split {4} x) + merge (split {6} x))", "f32[n] -> f32[n] where n % 12 = 0"),
        (PARTS + "fun f (x : f32[n]) = merge (split {4} x) + merge (split {6} x)", "f32[n] -> f32[n] where n % 12 = 0"),
        (PARTS + "fun f (x : f32[n]) : f32[n] = merge (split {2} (merge (split {3} x)))", "f32[n] -> f32[n] where n % 6 = 0"),
        (f"fun f {{k}} (x : f32[n]) = let val a = x[: k] in x + {LONGER} end", "{k} -> f32[n] -> f32[n] where k <= n"),
        (f"fun f {{k}} (x : f32[n]) = let val a = x + {LONGER} in a + x[k] end", "{k} -> f32[n] -> f32[n] where k < n"),
        (
            AT_MOST + f"fun f (x : f32[n]) (y : f32[k]) = let val a = g y x in x + {LONGER} end",
            "f32[n] -> f32[k] -> f32[n] where k <= n, k >= 1",
        ),
        (
            AT_MOST + f"fun f (x : f32[n]) (y : f32[m]) = {KEPT} (sum i => y[: j][i]) + g x y end",
            "f32[n] -> f32[m] -> f32 where n <= m, n >= 1",
        ),
        (
            AT_MOST + f"fun f (x : f32[n]) (y : f32[m]) = {KEPT} y + (for i < max m j => y[i | 0.0]) + g x y end",
            "f32[n] -> f32[m] -> f32[m] where n <= m, n >= 1",
        ),
        # … and so is what divides something beside that
        (
            STRIDES + "fun f (x : f32[n]) = x + (spread {4} (pool {4} x) + spread {6} (pool {6} x))",
            "f32[n] -> f32[n] where n % 12 = 0",
        ),
        (
            STRIDES + "fun f {s, t} (x : f32[n]) = x + spread {s} (spread {t} (pool {t} (pool {s} x)))",
            "{s, t} -> f32[n] -> f32[n] where n % (s * t) = 0",
        ),
    ],
)
def test_signatures(program: str, signature: str) -> None:
    assert axon.compile(program).f.signature == f"sig f : {signature}"


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("fun f (x : f32[..s, ..t]) = for ..i ..j => x[..i, ..j]", "AX0304"),
        (f"fun f (x : f32[n]) (y : f32[n]) = {OPENED} sum i => (k + l)[i] end", "AX0307"),
        ("fun f (x : f32[n]) (y : f32[m]) = if n = m then 0.0 else sum i => x[i] * y[i]", "AX0301"),
        ("fun f (x : f32[n]) (y : f32[m]) = if n = m then sum i => x[i] * y[i] else sum i => x[i] + y[i]", "AX0301"),
        ("fun f (x : f32[2146654199]) = for (i, j) => x[(i, j)]", "AX0306"),
        ("fun f (x : f32[n + m]) = for i < n => x[i]", "AX0306"),
        # how far an index runs may be found to be 1, but not where a parameter has that size, nor a size that someone named
        ("fun f (x : f32[n]) y = for i < n, j => x[(i, j)] + y[i, j]", "AX0301"),
        ("fun f (x : f32[n]) (y : f32[n, m]) = for i < n, j => x[(i, j)] + y[i, j]", "AX0301"),
        ("fun f (x : f32[n]) (y : f32[n, 3]) = for i < n, j => x[(i, j)] + y[i, j]", "AX0301"),
        (FLAT + "fun f (y : f32[n]) x = y + flat (for i < n, j => x[i, j])", "AX0301"),
        ("fun f (x : f32[n]) = for i < 2 * n, j => x[(i, j)]", "AX0301"),
        ("fun f (x : f32[n]) = for i < n + 1, j => x[(i, j)]", "AX0301"),
        ("fun f (x : f32[n + m, n * m]) = for i < n => 1.0", "AX0306"),
        ("fun f (x : f32[n + m, 2 * n + 2 * m]) = for i < n => 1.0", "AX0306"),
        (SUMS + "fun f (x : f32[8, 3]) = g x", "AX0301"),
        (SQUARE + "fun f (x : f32[8]) = g x", "AX0301"),
        # one mistake is one error
        ("fun f (x : f32[n]) : f32[n - 1] = for i < n => x[i + 1] - x[i]", "AX0301"),
        ("fun f (x : f32[n, m]) : f32[m, n - 2] = for j, i < n => x[i + 2, j]", "AX0301"),
        # what is asked only under a condition, or only together with the equation itself, says nothing of it
        (f"fun f {{k}} (x : f32[n]) = let val a = if k > 3 then x[: k][0] else 0.0 in x + {LONGER} end", "AX0301"),
        (f"fun f {{k}} (x : f32[n]) = if k > 3 then x[: k][0] else (sum i => (x + {LONGER})[i])", "AX0301"),
        ("fun f (x : f32[n]) (y : f32[m]) = let val a = y[: n] val b = x[: m] in x + y end", "AX0301"),
        (AT_MOST + "fun f (x : f32[n]) (y : f32[m]) = g x y + g y x + (x + y)[0]", "AX0301"),
        (STRIDES + "fun f (x : f32[n]) = spread {4} (pool {4} x) + spread {6} (pool {6} x)", "AX0301"),
        # … and an equation that holds under a condition is another one elsewhere
        (
            OF_FOUR + "fun f (x : f32[n]) = (if n % 4 = 0 then dot (t4 x) (t12 x) else 0.0) + dot (t4 x) (t12 x) + thirds x",
            "AX0301",
        ),
        (
            OF_FOUR + "fun f (x : f32[n]) = (if n % 4 = 0 then dot (t4 x) (t12 x) else 0.0)"
            " + (if n % 2 = 0 then dot (t4 x) (t12 x) else 0.0) + thirds x",
            "AX0301",
        ),
        (
            AT_MOST + f"fun f (x : f32[n]) (y : f32[m]) = {KEPT} (sum i => y[: j][i]) + (if m > 3 then g x y else 0.0) end",
            "AX0307",
        ),
    ],
)
def test_refused(program: str, code: str) -> None:
    with pytest.raises(AxonError) as caught:
        axon.compile(program)
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_a_refused_bound_excuses_no_access_that_leaves_its_tensor_all_the_same() -> None:
    found = axon.check("fun f (x : f32[n]) : f32[n - 1] = for i < n => x[i + 2] - x[i]")
    assert [d.code for d in found] == ["AX0301", "AX0303"]


EQUAL_UNDER_A_GUARD = """
fun dot (x : f32[k]) (y : f32[k]) = sum i => x[i] * y[i]
fun plus (x : f32[k]) (y : f32[k]) = x + y
fun a (x : f32[n]) (y : f32[m]) = if n = m then dot x y else -1.0
fun b (x : f32[n]) (y : f32[m]) = if n = m then let val z = x + y in (sum i => z[i]) + (max i => z[i]) end else -1.0
fun c (x : f32[n]) (y : f32[m]) = if n = m then sum i => (plus x y)[i] else -1.0
fun d (x : f32[n]) (y : f32[m]) = if n = m then max i => (sort (x + y))[i] else -1.0
fun e (x : f32[n]) (y : f32[m]) = if n = m then max t => (unfold (s = 0.0) for t => s + x[t] * y[t])[t] else -1.0
fun f (x : f32[n]) (y : f32[m]) = if n = m then (loop (s = y) for i < 3 => x + s)[n - 1] else -1.0
fun g (x : f32[n]) (y : f32[m]) = if n = m then max i j => ((for i j => x[i] + y[j]) @ (for i j => y[i] * x[j]))[i, j] else -1.0
fun h (x : f32[n]) (y : f32[m]) = if n = m then (let fun w c = c + (sum i => x[i] * y[i]) in w 1.0 end) else -1.0
fun i (x : f32[n]) (y : f32[n, m]) = if n = m then sum i j => (y @ y)[i, j] else -1.0
fun j {k} (x : f32[n]) = if k <= n then (loop (s = 0.0) for t < k => s + x[t]) else -1.0
"""


def test_code_of_equal_sizes_is_not_run_where_they_differ() -> None:
    """What is taken out of a branch, to run once, does not read where only the branch's condition lets it."""
    m = axon.compile(EQUAL_UNDER_A_GUARD)
    x = np.ones(3, np.float32)
    right = {"a": 3, "b": 8, "c": 6, "d": 2, "e": 3, "f": 4, "g": 6, "h": 4}
    for name, value in right.items():
        assert [m[name](x, np.ones(n, np.float32)) for n in (2, 3, 5)] == [-1, value, -1], name
    assert [m.i(x, np.ones((3, n), np.float32)) for n in (2, 3, 5)] == [-1, 27, -1]
    assert [m.j[k](x) for k in (2, 3, 5)] == [2, 3, -1]


def test_guarded_code_is_not_run_where_its_sizes_would_be_none() -> None:
    m = axon.compile(
        IOTA + HEADS + "fun f (x : f32[n]) = if n >= 1 then (sum i => (iota {n - 1})[i]) else 7\n"
        "fun g (x : f32[s, d]) = if d % 4 = 0 then sum i j c => (split {4} x)[i, j, c] else -1.0\n"
        "fun h (x : f32[n]) (y : f32[m]) = if n = m then sum i => x[i] * y[i] else -1.0\n"
    )
    assert [m.f(np.zeros(n, np.float32)) for n in (0, 1, 4)] == [7, 0, 3]
    assert [m.g(np.ones((2, d), np.float32)) for d in (0, 3, 8)] == [0, -1, 16]
    assert [m.h(np.ones(n, np.float32), np.ones(3, np.float32)) for n in (2, 3, 4)] == [-1, 3, -1]


def test_what_the_contract_says_of_equations_holds_while_running() -> None:
    m = axon.compile(
        PARTS + "fun f (x : f32[n]) = x + (merge (split {4} x) + merge (split {6} x))\n"
        f"fun g {{k}} (x : f32[n]) = let val a = x[: k] in x + {LONGER} + (for i < max n k => x[i]) end\n"
    )
    for target in ("interpret", "cpu"):
        for n in range(26):
            x = np.arange(n, dtype=np.float32)
            if n % 12:
                with pytest.raises(AxonError):
                    m.f(x, target=target)
            else:
                assert np.array_equal(m.f(x, target=target), 3 * x)
        for n, k in ((0, 0), (3, 0), (3, 2), (3, 3), (2, 3), (0, 1)):
            x = np.arange(n, dtype=np.float32)
            if k > n:
                with pytest.raises(AxonError):
                    m.g[k](x, target=target)
            else:
                assert np.array_equal(m.g[k](x, target=target), 3 * x)
