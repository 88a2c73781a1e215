"""Sizes that only the data decide: where they may be opened, and what signatures say of them."""

from __future__ import annotations

import numpy as np
import pytest

import axon


def codes(text: str) -> list[str]:
    return [d.code for d in axon.check(text)]


def signature(text: str, name: str) -> str:
    return str(axon.compile(text)[name].signature)


def ramp(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


POSITIVE = "fun positive (x : f32[n]) = filter (x > 0.0) x\n"


def test_bounds_mention_the_sizes_of_the_signature() -> None:
    text = POSITIVE + "fun again (x : f32[n]) = let val (v : f32[k]) = positive x in (v, k) end"
    assert signature(text, "again") == "sig again : f32[n] -> ?k <= n. (f32[k], i32)"


def test_a_hidden_size_gives_way_to_its_bound() -> None:
    text = "fun f (x : f32[n]) = let val (v : f32[k]) = filter (x > 0.0) x val (w : f32[l]) = filter (v > 1.0) v in w end"
    assert signature(text, "f") == "sig f : f32[n] -> ?l <= n. f32[l]"


def test_sizes_are_called_what_annotations_call_them() -> None:
    both = "let val (y : f32[k]) = filter m x val (z : f32[l]) = filter q x in"
    taken = "(x : f32[n]) (m : bool[n]) (q : bool[n])"
    sum_ = f"fun f {taken} = {both} for i < k + l => if i < k then y[i] else z[i - k] end"
    assert signature(sum_, "f").endswith(" -> ?k <= n. ?l <= n. f32[k + l]")
    again = f"fun g {taken} = let val (u, v) = f x m q in (u, v) end"
    pair = f"fun f {taken} = {both} (z, y) end\n{again}"
    assert signature(pair, "f").endswith(" -> ?k <= n. ?l <= n. (f32[l], f32[k])")
    assert signature(pair, "g").endswith(" -> ?k <= n. ?l <= n. (f32[l], f32[k])")
    swapped = f"fun f {taken} = let val (y : f32[n2]) = filter m x val (z : f32[k]) = filter q x in (y, z) end"
    assert signature(swapped, "f").endswith(" -> ?n2 <= n. ?k <= n. (f32[n2], f32[k])")
    over = "fun f (x : f32[n]) q = let val (y : f32[j]) = filter q x in for i => y[i] end"
    assert signature(over, "f").endswith("?j <= n. f32[j]")
    shared = "fun f (x : f32[n]) q = let val (y : f32[n]) = filter q x in y end"
    with pytest.raises(axon.AxonError):
        signature(shared, "f")


def test_a_size_is_bound_outside_of_the_bounds_that_mention_it() -> None:
    text = "fun f (x : f32[n]) = let val (v : f32[k]) = filter (x > 0.0) x val (w : f32[l]) = filter (v > 1.0) v in (w, v) end"
    shown = signature(text, "f")
    assert shown == "sig f : f32[n] -> ?k <= n. ?l <= k. (f32[l], f32[k])"
    assert signature(f"{shown}\n{text}", "f") == shown


def test_two_calls_of_one_fn_give_two_sizes() -> None:
    twice = "fun twice f a b = f a + f b\n"
    pair = "fun pair f a b = (f a, f b)\n"
    call = "(fn y => filter (y > 0.0) y) x y"
    assert codes(f"{twice}fun g (x : f32[n]) (y : f32[n]) = twice {call}") == ["AX0204"]
    one, other = axon.compile(f"{pair}fun g (x : f32[n]) (y : f32[n]) = pair {call}").g(ramp(4), ramp(4) - 2)
    assert one.tolist() == [1, 2, 3]
    assert other.tolist() == [1]
    assert "?k <= n. f32[k], ?k <= n. f32[k]" in signature(f"{pair}fun g (x : f32[n]) (y : f32[n]) = pair {call}", "g")


def test_a_size_does_not_leave_the_fn_that_opens_it() -> None:
    pair = "fun pair f a b = (f a, f b)\n"
    assert codes(pair + "fun g x = pair (fn y => let val v = filter (y > 0.0) y in for i => v[i] end) x x") == ["AX0307"]
    assert codes("fun f g (x : f32[n]) = g (filter (x > 0.0) x)") == ["AX0307"]


def test_a_function_that_opens_a_size_stands_under_no_index() -> None:
    count = "fun count (x : f32[n]) = let val (ix : i32[k]) = nonzero (x > 0.0) in k end\n"
    assert axon.compile(count).count(ramp(4)) == 3
    assert codes(count + "fun f (x : f32[m, n]) = for i => count x[i, ..]") == ["AX0307"]
    assert codes(count + "fun twice x = 2 * count x  fun f (x : f32[m, n]) = sum i => twice x[i, ..]") == ["AX0307"]


def test_a_function_that_opens_a_size_and_is_passed_under_an_index() -> None:
    text = """
        fun rows f x = for i => f x[i, ..]
        fun g (x : f32[m, n]) = rows (fn y => let val (ix : i32[k]) = nonzero (y > 0.0) in k end) x
    """
    with pytest.raises(axon.AxonError) as error:
        axon.compile(text).g(np.ones((2, 3), np.float32))
    assert [d.code for d in error.value.diagnostics] == ["AX0307"]


def test_the_size_of_a_val_serves_the_rest_of_its_let() -> None:
    m = axon.compile("""
        fun f (x : f32[n]) (y : f32[n]) =
          let val (v : f32[k]) = filter (x > 0.0) x
              val (w : f32[l]) = filter (y > 0.0) y
          in v + (w as f32[k]) end
    """)
    assert m.f(ramp(3), ramp(3)).tolist() == [2, 4]
    with pytest.raises(axon.ShapeError):
        m.f(ramp(3), ramp(3) + 1)


def test_a_value_of_the_module_is_opened_where_it_is_used() -> None:
    m = axon.compile("""
        val (v : i32[k]) = nonzero [| true, false, true |]
        val c = let val (w : i32[l]) = v in (w + w, l) end
    """)
    doubled, count = m.c
    assert doubled.tolist() == [0, 4]
    assert count == 2


def test_two_existential_types_are_one_if_they_agree_under_one_name() -> None:
    declared = "f32[n] -> ?k <= n. f32[k]"
    for body in (
        "val f = fn (x : f32[n]) => filter (x > 0.0) x",
        "fun f (x : f32[n]) : ?m <= n. f32[m] = filter (x > 0.0) x",
    ):
        assert signature(f"sig f : {declared}\n{body}", "f") == f"sig f : {declared}"
    partial = "fun f (x : f32[n]) = filter (x > 0.0)"
    assert signature(f"{signature(partial, 'f')}\n{partial}", "f") == signature(partial, "f")
    assert codes(f"sig f : f32[n] -> f32[n] -> ?k <= n. f32[n]\n{partial}") == ["AX0204"]


def test_a_val_with_the_signature_that_is_printed_for_it() -> None:
    text = "val v = nonzero [| true, false, true |]"
    assert axon.compile(f"sig v : ?k <= 3. i32[k]\n{text}").v.tolist() == [0, 2]


def test_contracts_on_sizes_of_the_data_are_proved_or_refused() -> None:
    need = "fun need {h} where h >= 3 = h\n"
    count = "fun f (m : bool[n]) = let val (ix : i32[k]) = nonzero m in "
    assert codes(f"{need}{count} need {{k}} end") == ["AX0307"]
    m = axon.compile(f"{need}{count} if k > 4 then need {{k}} else 0 end")
    assert m.f(ramp(7) > 0) == 6
    assert m.f(ramp(3) > 0) == 0
    shorter = "fun shorter (x : f32[n]) (y : f32[m]) where n <= m = n\n"
    assert axon.compile(f"{shorter}{POSITIVE}fun g x = shorter (positive x) x").g(ramp(4)) == 3


def test_a_declared_bound_is_proved() -> None:
    assert codes(f"sig positive : f32[n] -> ?k <= 2. f32[k]\n{POSITIVE}") == ["AX0307"]
    wider = "sig positive : f32[n] -> ?k <= n + 1. f32[k]"
    assert signature(f"{wider}\n{POSITIVE}", "positive") == wider


def test_what_a_tuple_pattern_binds_is_opened_once() -> None:
    text = """
fun both (m : bool[n]) (x : f32[n]) = (filter m x, x)
fun f (m : bool[n]) (x : f32[n]) = let val (kept, all) = both m x in (for i => kept[i] * 2.0, sum i => all[i]) end
fun two g x = (g x, g x)
fun total (m : bool[n]) (x : f32[n]) = let val (a, b) = two (filter m) x in (sum i => a[i]) + (sum i => b[i]) end
"""
    assert codes(text) == []
    module = axon.compile(text)
    kept, total = module.f(np.array([True, False, True]), ramp(3))
    assert np.array_equal(kept, [0.0, 4.0])
    assert total == 3.0
    assert module.total(np.array([True, False, True]), ramp(3)) == 4.0


TAIL = "fun tail (x : i32[n]) (y : i32[m]) where m <= n = nonzero (for i < n - m => x[i + m] > 0)\n"
HALF = "fun half (x : i32[n]) where n % 2 = 0, n >= 4 = nonzero (for i < n / 2 - 2 => x[i] > 0)\n"
PARTS = "fun parts {m} (x : i32[n]) where m >= 1 = nonzero (for i < n / m => x[i] > 0)\n"
PEAKS = "fun peaks (x : f32[n]) (w : f32[r]) = nonzero (for p => (sum r => x[p + r] * w[r]) > 0.0)\n"


@pytest.mark.parametrize(
    ("callee", "text", "where"),
    [
        (TAIL, "fun f (x : i32[n]) (y : i32[m]) = let val (k : i32[c]) = tail x y in (c, for i < m => x[i]) end", "m <= n"),
        (TAIL, "fun f (x : i32[n]) (y : i32[m]) = tail x y", "m <= n"),
        (
            TAIL,
            "fun f (x : i32[n]) (y : i32[m]) = if n > 3 then (let val (k : i32[c]) = tail x y in c end) else 0",
            "max (3 - n) (n - m) >= 0",
        ),
        (HALF, "fun f (x : i32[n]) = let val (k : i32[c]) = half x in x[3] end", "n >= 4, n % 2 = 0"),
        (PARTS, "fun f {m} (x : i32[n]) = let val (k : i32[c]) = parts {m} x in c end", "m >= 1"),
        (PEAKS, "fun f (x : f32[n]) (w : f32[r]) = let val (k : i32[c]) = peaks x w in c end", "r <= n + 1"),
        ("", "fun f {m} (x : i32[n]) = let val (k : i32[c]) = nonzero (x[m : n] > 0) in c end", "m <= n"),
    ],
)
def test_a_bound_does_not_prove_what_it_needs(callee: str, text: str, where: str) -> None:
    """k <= n - m, of a k that is at least 0, says m <= n only where that is asked."""
    assert signature(callee + text, "f").partition(" where ")[2] == where


def test_a_bound_does_not_prove_what_the_size_in_it_needs() -> None:
    callee = "fun g {h} (x : i32[n]) where h <= n = nonzero (for i < n - h => x[i] > 0)\n"
    text = "fun f (x : i32[n]) = let val (q : i32[c]) = nonzero (x > 2) in let val (k : i32[e]) = g {c + 1} x in e end end"
    assert codes(callee + text) == ["AX0307"]
    assert codes("fun f (x : i32[n]) (y : i32[m]) = let val (k : i32[c]) = nonzero (x[m + n : n] > 0) in c end")[0] == "AX0305"


def test_a_bound_proves_what_it_says() -> None:
    for text in (
        POSITIVE + "fun f (x : f32[n]) = let val (v : f32[k]) = positive x in if k >= 3 then x[2] else x[0 | 0.0] end",
        "fun f {m} (x : i32[n]) = let val (k : i32[c]) = nonzero (x[m : n] > 0) in for i < c => x[i + m] end",
        PARTS + "fun f {m} (x : i32[n]) = let val (k : i32[c]) = parts {m} x in for i < c => x[i] end",
    ):
        assert codes(text) == []
