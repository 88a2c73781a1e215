"""A branch that is not taken does not divide, has no size, and reads nothing: on every backend, whatever its operations became."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import axon
from axon import compiler
from axon.core.verify import verify
from tests.sample import SOAK

CALLED = "fun g {h} (y : f32[n]) where n % h = 0 = for i < h, j => y[(i, j)]\n"
OPENED = "fun f (x : f32[n]) = let val (k : f32[j]) = filter (x > 0.0) x in "


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
@pytest.mark.parametrize(
    ("body", "untaken", "taken"),
    [
        ("if m >= 1 then (sum for i < n / m => x[i * m]) else 0.0", 0, 6),
        ("if m >= 1 then (sum for i < n % m => x[i]) else 0.0", 0, 0),
        ("if m >= 1 andalso (sum for i < n / m => x[i * m]) > 0.0 then 1.0 else 0.0", 0, 1),
        ("if m = 0 orelse (sum for i < n / m => x[i * m]) > 7.0 then 1.0 else 0.0", 1, 0),
        ("sum for k < n where m >= 1 => (max for i < n / m => x[i * m])", 0, 24),
        ("if m >= 1 then (sum for i < 3 => cast f32 (n / m)) else 0.0", 0, 9),
        ("if m >= 1 then (sum for i < n => x[i / m]) else 0.0", 0, 6),
        ("if m >= 1 then (argmax for i < n / m + 1 => cast f32 (0 - i)) else 7", 7, 0),
        ("if m >= 1 then (argmax for i < m / m => cast f32 (0 - i)) else 7", 7, 0),
        ("for j < 2 => if m >= 1 then (sum for i < n / m => x[i * m]) else 2.0", [2, 2], [6, 6]),
        ("if m >= 1 then (sum for q < 3 => (for i < (n * m) / m => exp (x[i] - x[i]))[n - 1 | 5.0]) else 0.0", 0, 3),
        ("if m >= 1 then (sum for q < 3 => y[n - m * (n / m)]) else 4.0", 4, 0),
        ("if m >= 1 then (sum i => (x + (for i < (n * m) / m => x[i]))[i]) else 4.0", 4, 30),
        ("if m >= 1 then (loop (s = 1.0) for i < 7 / m => s + x[1]) else 4.0", 4, 4),
        ("if m >= 1 then (sum q => (unfold (s = 1.0) for i < 7 / m => s + x[1])[q]) else 4.0", 4, 9),
        ("if m >= 1 then (sum i => exp (x[0 : n : m] - x[0 : n : m])[i]) else 4.0", 4, 3),
    ],
)
def test_divisions(body: str, untaken: object, taken: object, target: str) -> None:
    m = axon.compile(f"fun f (x : f32[n]) (y : f32[m]) = {body}")
    assert np.asarray(m.f(ramp(6), ramp(0), target=target)).tolist() == untaken
    assert np.asarray(m.f(ramp(6), ramp(2), target=target)).tolist() == taken


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
@pytest.mark.parametrize(
    ("source", "sizes", "expected"),
    [
        ("fun f {s} (x : f32[n]) = if s >= 1 then (sum i => x[i * s]) else 7.0", 0, 7),
        ("fun f {s} (x : f32[n]) = if s >= 1 then (sum i => x[i * s]) else 7.0", 2, 6),
        (CALLED + "fun f {h} (x : f32[n]) = if h >= 1 andalso n % h = 0 then (sum i j => (g {h} x)[i, j]) else 7.0", 0, 7),
        (CALLED + "fun f {h} (x : f32[n]) = if h >= 1 andalso n % h = 0 then (sum i j => (g {h} x)[i, j]) else 7.0", 3, 15),
        ("fun f {q} (x : f32[n]) = for j < n => if j >= 1 then (sum for i < n / j => x[i * j]) else 2.0", 0, [2, 15, 6, 3, 0, 0]),
        ("fun f {q} (x : f32[n]) = if q <= 10 then (sum for i < q * q * q => x[1]) else 7.0", 2000, 7),
        ("fun f {q} (x : f32[n]) = if q <= 10 then (sum for i < q * q * q => x[1]) else 7.0", 2, 8),
        ("fun f {q} (x : f32[n]) = if q <= 10 then (argmax for i < q * q * q + 1 => x[1]) else 7", 2000, 7),
        *(
            (f"fun f {{q}} (x : f32[n]) = if q <= 3 then ({body}) else 7.0", q, expected)
            for body, two in (
                ("let val t = for i < q * q * q => cast f32 i in sum i => t[i] * t[i] end", 140),
                ("let val t = unfold (s = 1.0) for i < q * q * q => s + 1.0 in t[0 | 5.0] + sum i => t[i] end", 46),
                ("let val t = for i < q * q, j < q => cast f32 (i + j) in sum i j => (t @ t[0 : q, :])[i, j] end", 36),
                ("let val t = for i < q * q, j < q => cast f32 i val u = for (i, j) => t[i, j] in sum i => u[i] end", 12),
                ("let val t = sort (for i < q * q * q => cast f32 (0 - i)) in t[0 | 5.0] end", -7),
                ("let val (t : f32[k]) = filter (for i < q * q * q => i > 5) (for i < q * q * q => 1.0) in sum i => t[i] end", 2),
            )
            for q, expected in ((2_000, 7), (2, two))
        ),
        # each of two guards, and neither
        *(
            (
                "fun f {q} (x : f32[n]) = if q <= 2 then (let val t = for i < q * q * q => 1.0 in sum i => t[i] * t[i] end) "
                "else if q <= 3 then (let val t = for i < q * q * q => 2.0 in sum i => t[i] * t[i] end) else 7.0",
                q,
                expected,
            )
            for q, expected in ((2_000, 7), (2, 8), (3, 108))
        ),
    ],
)
def test_dimension_parameters(source: str, sizes: int, expected: object, target: str) -> None:
    assert np.asarray(axon.compile(source).f[sizes](ramp(6), target=target)).tolist() == expected


DIAGONAL = "fun g (v : f32[p * p]) = for i < p => v[i * p + i]\n"
TRIANGLE = "fun g (v : f32[p * (p + 1) / 2]) = for i < p => v[i * (i + 1) / 2 + i]\n"
NEVER = "for q < 3 => if n < 0 then (sort (for i => (g x)[i] + cast f32 q))[0] else 5.0"


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if n < 0 then (g x)[0] else 5.0", 5),
        ("if 1 > 2 then (g x)[0] else 5.0", 5),
        ("if n < n then sum i => (g x)[i] else 5.0", 5),
        ("if n <> n then let val s = g x in sum for i j => s[i] / s[j] end else 5.0", 5),
        ("if n >= 0 orelse (max i => (g x)[i]) > 0.0 then 5.0 else 0.0", 5),
        ("sum for i < n where i > n => (g x)[i] * 4.0", 0),
        (NEVER, [5, 5, 5]),
    ],
)
@pytest.mark.parametrize("called", [DIAGONAL, TRIANGLE])
def test_sizes_of_what_is_never_evaluated(called: str, body: str, expected: object, target: str) -> None:
    """Equations under conditions that never hold are not solved, and so nothing says what the sizes in them are."""
    f = axon.compile(f"{called}fun f (x : f32[n]) = {body}").f
    for n in (0, 1, 4, 5):
        assert np.asarray(f(ramp(n), target=target)).tolist() == expected


def test_a_size_of_what_is_never_evaluated_limits_nothing() -> None:
    """How large sizes may be so that arithmetic on them is exact does not count one that nothing decides."""
    called = "fun g (v : f32[p * p]) (w : f32[m]) = for i < p => v[i * p * m | w[0]]\n"
    checked = compiler.check_text(f"{called}fun f (x : f32[n]) (w : f32[m]) = if n < 0 then (g x w)[0] else 5.0")
    program = compiler.lower(checked, "f", None)
    verify(program)
    assert program.contract.idle
    assert not program.contract.limits
    assert program.contract.bind((), [(2**30,), (1,)])[program.contract.idle[0]] == 0


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_sizes_that_data_decide(target: str) -> None:
    guarded = "if j >= 1 then (sum for i < n / j => x[i * j]) else 7.0"
    f = axon.compile(f"{OPENED}{guarded} end").f
    assert [float(f(ramp(n), target=target)) for n in (0, 1, 5)] == [7, 7, 0]
    both = axon.compile(f"{OPENED}((for i < max 0 (n / j) => x[i * j]), {guarded}) end").f
    with pytest.raises(axon.AxonError, match="AX0503"):  # the other division stays what it is
        both(ramp(1), target=target)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_a_loop_for_each_index(target: str) -> None:
    f = axon.compile(
        "fun f (x : f32[n]) (d : i32[m]) = "
        "for q < m => if d[q] > 0 then (loop (s = 1.0) for i < 7 / d[q] => s + x[1 | 0.0]) else 7.0"
    ).f
    assert f(ramp(3), np.array([0, 2], np.int32), target=target).tolist() == [7, 4]


def test_a_size_without_a_guard_keeps_its_limit() -> None:
    sums = "(sum for i < q * q * q => x[1 | 0.0])"
    f = axon.compile(f"fun f {{q}} (x : f32[n]) = (if q <= 10 then {sums} else 0.0) + {sums}").f
    with pytest.raises(axon.ShapeError, match="AX0501"):
        f[2000](ramp(3))


def test_sizes_that_only_small_ones_leave_apart() -> None:
    """What holds only beside large sizes is not claimed of all: k = 0, n = 1, m = 1 meets each fact."""
    source = "fun f {k} (x : i32[n]) (y : i32[m]) = if max m k <= min k n then 1 else max for i < 3 - m => i"
    f = axon.compile(source)["f"]
    for k, n, m in product(range(6 if SOAK else 5), repeat=3):
        x, y = np.zeros(n, np.int32), np.zeros(m, np.int32)
        if max(m, k) <= min(k, n) or m < 3:
            assert int(f[k](x, y, target="interpret")) == (1 if max(m, k) <= min(k, n) else 2 - m)
        else:
            with pytest.raises(axon.AxonError):
                f[k](x, y, target="interpret")


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        ("three x", lambda n, k: n >= 3),
        ("(for i < k - n => for j < k - n => 1.0 + cast f32 j)[0, 0 | 1.0]", lambda n, k: n <= k),
        ("x[2 : n][0 | 1.0]", lambda n, k: n >= 2),
        ("cast f32 (max for i < 3 - n => i)", lambda n, k: n <= 2),
        ("cast f32 (7 / (k - 2))", lambda n, k: k >= 3),
    ],
)
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("k > n orelse n > 7", lambda n, k: k > n or n > 7),
        ("not (k <= n andalso n <= 7)", lambda n, k: k > n or n > 7),
        ("k = 3 orelse n = 2", lambda n, k: k == 3 or n == 2),
        ("n <> 3 andalso n <> 5", lambda n, k: n not in (3, 5)),
        ("k > 4 andalso (n = 1 orelse n >= 6)", lambda n, k: k > 4 and (n == 1 or n >= 6)),
        ("(k > 6 andalso n > 2) orelse n = 2", lambda n, k: (k > 6 and n > 2) or n == 2),
    ],
)
def test_alternatives_are_conditions_too(
    condition: str, holds: Callable[[int, int], bool], body: str, allowed: Callable[[int, int], bool]
) -> None:
    """What stands under `a orelse b` is asked where one of them holds, and only there."""
    three = "fun three (x : f32[n]) where n >= 3 = x[2]\n"
    m = axon.compile(
        f"{three}fun f {{k}} (x : f32[n]) = if {condition} then {body} else 7.0\n"
        f"fun g {{k}} (x : f32[n]) = if not ({condition}) then 7.0 else {body}\n"
        f"fun h {{k}} (x : f32[n]) = max for t < 3 where {condition} => {body}"
    )
    for n, k in product(range(10), repeat=2):
        x = np.ones(n, np.float32)
        for name in "fgh":
            if not holds(n, k):
                assert float(m[name][k](x, target="interpret")) == (-np.inf if name == "h" else 7)
            elif allowed(n, k):
                m[name][k](x, target="interpret")
            else:
                with pytest.raises(axon.AxonError):
                    m[name][k](x, target="interpret")


def test_a_size_that_is_never_one_is_refused_there() -> None:
    text = "fun f (x : i32[m]) = if m < m andalso 3 = m % 2 then x[m / 2 : 0] else for i < 0 - m / 2 => x[2]"
    assert [d.code for d in axon.check(text)] == ["AX0305"]


@pytest.mark.parametrize("condition", ["n + 4 = m", "3 + n = n % 3", "n < m", "n <> m"])
def test_branches_are_of_one_size_whatever_decides(condition: str) -> None:
    """What each branch asks of its own sizes is needed where it is taken; that both are of one size is needed everywhere."""
    windows = "fun windows {r} (x : i32[p]) = for i => sum for j < r => x[i + j]\n"
    body = f"if {condition} then windows {{min n m}} x else windows {{m - 2}} y"
    with pytest.raises(axon.AxonError, match="the branches of an `if` have one type and shape"):
        axon.compile(f"{windows}fun f (x : i32[n]) (y : i32[m]) = {body}")


@pytest.mark.parametrize("cut", ["x[1 :]", "x[: n - 1]", "x[1 : n : 2]", "x[a : b]", "x[a :]", "x[n % 3 : n / 2]", "x[0 : n : a]"])
@pytest.mark.parametrize(
    "use",
    [
        "if n >= 6 then {} else 0.0 with S[2]",
        "if n >= 6 then {} else 0.0 with sum i => S[i]",
        "if a < b then {} else 0.0 with S[a]",
        "if n >= 6 andalso a <= 2 then {} else 0.0 with S[2]",
        "if n >= 6 then {} else 0.0 with (sum for i < 3, j => S[(i, j)])",
        "for i < 4 => if i < a then {} else 0.0 with S[i]",
        "{} with S[a]",
        "{} with S[1 :]",
    ],
)
def test_a_slice_that_is_named_where_it_is_used_asks_for_the_same(cut: str, use: str) -> None:
    around, inner = use.split(" with ")
    placed = around.format(inner.replace("S", cut))
    named = around.format(f"(let val y = {cut} in {inner.replace('S', 'y')} end)")
    found = {repr(axon.compile(f"fun f {{a, b}} (x : f32[n]) = {body}").f.sizes) for body in (placed, named)}
    assert len(found) == 1


def part(x: np.ndarray, start: int) -> float:
    """The sum of a slice that must lie in the tensor."""
    if not 0 <= start <= len(x):
        raise IndexError
    return float(x[start:].sum())


def element(x: np.ndarray, place: int) -> float:
    if not 0 <= place < len(x):
        raise IndexError
    return float(x[place])


UNDER_CONDITIONS = [  # and what they mean, in Python, where what is not taken asks for nothing
    ("if k >= 1 then (sum i => x[m :][i]) else 7.0", lambda x, k, m: part(x, m) if k >= 1 else 7),
    ("if k >= 1 andalso m >= 2 then (sum i => x[m :][i]) else 7.0", lambda x, k, m: part(x, m) if k >= 1 and m >= 2 else 7),
    ("if k = 1 then (sum i => x[m :][i]) else 7.0", lambda x, k, m: part(x, m) if k == 1 else 7),
    ("if k = 1 then 7.0 else sum i => x[m :][i]", lambda x, k, m: 7 if k == 1 else part(x, m)),
    ("if k >= 1 then x[m % n] else 7.0", lambda x, k, m: element(x, m % len(x)) if k >= 1 else 7),
    ("if k >= 1 then x[m / n] else 7.0", lambda x, k, m: element(x, m // len(x)) if k >= 1 else 7),
    ("cast f32 (if k >= 1 then m / n else 7)", lambda x, k, m: m // len(x) if k >= 1 else 7),
    ("if n >= 1 then (sum i => x[m / n :][i]) else 7.0", lambda x, k, m: part(x, m // len(x)) if len(x) else 7),
    ("if n > k then (sum i => x[m / (n - k) :][i]) else 7.0", lambda x, k, m: part(x, m // (len(x) - k)) if len(x) > k else 7),
    (
        "if k >= 1 then (if m % n >= 1 then (sum i => x[m % n + m / n :][i]) else 1.0) else 7.0",
        lambda x, k, m: (part(x, m % len(x) + m // len(x)) if m % len(x) else 1) if k >= 1 else 7,
    ),
]


@pytest.mark.parametrize(("body", "means"), UNDER_CONDITIONS)
def test_calls_are_refused_where_what_is_taken_does_not_fit_and_nowhere_else(body: str, means: object) -> None:
    f = axon.compile(f"fun f {{k, m}} (x : f32[n]) = {body}").f
    for n, k, m in product(range(4), range(4), range(5)):
        x = ramp(n) + 1
        try:
            wanted = means(x, k, m)  # type: ignore[operator]
        except (IndexError, ZeroDivisionError):
            wanted = None
        try:
            found = f[k, m](x, target="interpret")
        except axon.AxonError:
            found = None
        assert found == wanted, (n, k, m)


def test_a_fact_under_a_condition_is_told_as_one_of_several() -> None:
    f = axon.compile("fun f {k, m} (x : f32[n]) = if k >= 1 then m / n else 7").f
    with pytest.raises(axon.AxonError) as caught:
        f[1, 5](ramp(0))
    assert caught.value.diagnostics[0].notes[0] == "that is, k = 0, or n >= 1"
