"""Functions are written out where they are called: a program that doubles at each step is refused before it fills the memory."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon import compiler, lower
from axon.lower import call_count as calls
from axon.lower import evaluate


def test_calls_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lower, calls, evaluate):
        monkeypatch.setattr(module, "MAX_CALLS", 200)
    chain = "fun f0 (x : f32) = x + 1.0\n" + "".join(f"fun f{n} x = f{n - 1} (f{n - 1} x)\n" for n in range(1, 9))
    m = axon.compile(chain)
    assert m.f6(0.0) == 64
    with pytest.raises(axon.AxonError, match=r"(?s)AX0002\]: the program makes more than 200 calls.*write a `loop`"):
        m.f8(0.0)


def test_calls_in_a_loop_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lower, calls, evaluate):
        monkeypatch.setattr(module, "MAX_CALLS", 200)
    assert axon.compile("fun g (x : f32) = x + 1.0\nfun f x = loop (s = x) for _ < 1000 => g s").f(0.0) == 1000


def test_a_thousand_functions_may_call_one_another_in_a_row() -> None:
    each = "".join(f"fun f{n} x = let val m = max x 0.0 in m + {f'f{n - 1}' if n else 'abs'} x end\n" for n in range(1000))
    checked = compiler.check_text(f"{each}fun f (x : f32) = f999 x\n")
    program = compiler.lower(checked, "f", None)
    assert compiler.interpret(program, [np.float32(2.0)], []) == [2002.0]
