"""How many calls a program makes is known before any of them is compiled."""

import numpy as np
import pytest

import axon
from axon.base.source import Span
from axon.compiler import check_text
from axon.lower import definitions
from axon.lower.call_count import least_calls
from axon.lower.evaluate import Evaluator


def _counted(text: str) -> int:
    checked = check_text(text)
    return least_calls(checked.declarations["f"], definitions(checked))


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("fun f (x : f32[n]) = for i => x[i] + 1.0", True),
        ("fun g x = x + 1.0\nfun h x = g (g x)\nfun f (x : f32) = h (h x)", True),
        ("fun f (x : f32) = let fun g y = y * x fun h y = g (g y) in h (h x) + g x end", True),
        ("fun f (x : f32) = let val g = fn y => y * x in g (g x) end", True),
        ("fun add a b = a + b\nfun g x = add x\nfun f (x : f32) = add 1.0 (g x x)", False),  # of what a call gives
        ("fun twice g x = g (g x)\nfun f (x : f32) = twice (fn y => y + 1.0) x", False),
        ("fun g x = x * 2.0\nfun f (x : f32) = if x > 0.0 then g (g x) else g x", False),
        ("fun g x = x * 2.0\nval c = g (g 1.0)\nfun f (x : f32) = g x + c", False),
        ("fun g x = x * 2.0\nfun f (x : f32) = let fun unused y = g (g y) in g x end", True),
    ],
)
def test_counts(text: str, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def count(self: Evaluator, span: Span) -> None:
        nonlocal calls
        calls += 1

    monkeypatch.setattr(Evaluator, "_count_call", count)
    program = axon.compile(text)
    program.f(np.ones(3, np.float32) if "f32[n]" in text else 1.0)
    least = _counted(text)
    assert least == calls if exact else 1 <= least <= calls


def test_nested_calls_are_counted_at_once() -> None:
    functions = " ".join(f"fun f{i} x = f{i - 1} (f{i - 1} x)" for i in range(1, 61))
    assert _counted(f"fun f (x : f32) = let fun f0 x = x + 1.0 {functions} in f60 x end") == 2**61
