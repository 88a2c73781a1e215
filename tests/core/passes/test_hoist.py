"""What a loop computes again though it does not vary along it is computed once: the same results, and no new failure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.core.ir import Compute, Loop, Op, Program, Scan
from axon.core.passes.hoist import DEVICE, HOST, Worth, hoist
from axon.core.printer import print_program
from axon.core.verify import verify

XA = "fun f (x : f32[n, m]) (a : f32[m])"
XQ = "fun f (x : i32[n, m]) (q : i32[m])"
WV = "fun f (w : f32[n, t]) (v : f32[t, c])"
XAA = "fun f (x : f32[n]) (a : f32[n, n])"
XAN = "fun f (x : f32[n]) (a : f32[n])"
ZERO_ONE = np.array([0, 1], np.int32)
EAGER = Worth(reduced=1, other=1, idle=1, spare=0)


def lowered(text: str) -> Program:
    return compiler.lower(compiler.check_text(text), "f", None)


def made(program: Program) -> list[tuple[str, ...]]:
    """The axes of the operations that were taken out."""

    def go(ops: tuple[Op, ...]) -> list[tuple[str, ...]]:
        found = []
        for op in ops:
            if isinstance(op, Compute | Scan) and op.outs[0].symbol.name == "invariant":
                found.append(tuple(axis.symbol.name for axis in op.axes))
            if isinstance(op, Loop):
                found += go(op.body.ops)
        return found

    return go(program.block.ops)


# What is taken out of the programs, by the axes of the new operations, where additions count and on the host.
TAKEN = {
    f"{WV} = for i c => sum j => exp w[i, j] * v[j, c]": [("i", "j")],
    "fun f (w : f32[n, t]) (q : f32[n]) (v : f32[t, c]) = for i c => sum j => exp w[i, j] / q[i] * v[j, c]": [("i", "j")],
    f"{XA} = for i j => x[i, j] * exp (sin a[j])": [("j",)],
    f"{XA} (b : f32[m]) = for i j => x[i, j] * exp a[j] + tanh b[j]": [("j",), ("j",)],
    f"{XA} = for i j => x[i, j] * exp a[j] + log (exp a[j])": [("j",), ("j",)],
    f"{XA} = for i j => let val s = exp a[j] in x[i, j] * tanh (s + s * s) end": [("j",), ("j",)],
    f"{XA} = for i j => if x[i, j] > 0.0 then exp a[j] else 0.0": [("j",)],
    f"{XA} = for i => sum for j where exp a[j] > x[i, j] => x[i, j]": [("j",)],
    # what is cheap, what varies along all, what the innermost loops keep anyway, what is larger than anything, what is one number
    f"{XA} = for i j => x[i, j] * (a[j] + 1.0)": [],
    f"{XA} = for i j => exp (x[i, j] * a[j])": [],
    "fun f (x : f32[n, m]) (a : f32[n]) = for i j => x[i, j] * exp a[i]": [],
    "fun f (x : f32[n]) (y : f32[m]) (v : f32[m, d]) = for i c => sum j => exp (-(x[i] - y[j]) ** 2) * v[j, c]": [],
    "fun f (x : f32[n, m]) = for i j => x[i, j] * exp (rsqrt (cast f32 n))": [],
    # a range that depends on an index, and one that is too short to be worth it
    "fun f (x : f32[n, n]) (a : f32[n]) = for i => sum for j < i => x[i, j] * exp a[j]": [],
    "fun f (x : f32[1, m]) (a : f32[m]) = for i j => x[i, j] * exp a[j]": [],
}


@pytest.mark.parametrize("text", TAKEN)
def test_what_is_taken_out(text: str) -> None:
    program = hoist(lowered(text), HOST)
    verify(program)
    assert made(program) == TAKEN[text], print_program(program)


def test_a_map_on_a_device_computes_again_what_is_cheaper_than_a_kernel() -> None:
    assert made(hoist(lowered(f"{XA} = for i j => x[i, j] * exp (sin a[j])"), DEVICE)) == []
    text = f"{WV} = for i c => sum j => exp w[i, j] * v[j, c]"
    assert made(hoist(lowered(text), DEVICE)) == [("i", "j")]


def i32(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.int32).reshape(shape)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# Programs whose taken-out parts may fail, or read outside, where a range is empty or a branch is not taken; none of them fails.
SAFE: list[tuple[str, tuple[Any, ...]]] = [
    (f"{XQ} = for i j => x[i, j] + 100 / q[j] / q[j]", (np.zeros((0, 2), np.int32), ZERO_ONE)),
    (f"{XQ} = for i j => if q[j] = 0 then 0 else x[i, j] + 100 / q[j] / q[j]", (i32(2, 2), ZERO_ONE)),
    (f"{XQ} = for i => sum for j where q[j] > 0 => x[i, j] + 100 / q[j] / q[j]", (i32(2, 2), ZERO_ONE)),
    ("fun f (x : f32[n, m]) (t : f32[k]) (q : i32[m]) = for i j => x[i, j] * exp (sin t[q[j]])", (f32(0, 2), f32(3), i32(2) + 6)),
    (f"{XA} = for i < n - 3 => for j => x[i, j] * exp (sin a[j])", (f32(4, 3), f32(3))),
    ("fun f (x : f32[n, m]) (a : f32[n]) = for j i => x[i, j] * exp (sin a[n - 1 - i])", (f32(4, 3), f32(4))),
    (f"{WV} = for i c => (sum j => exp w[i, j] * v[j, c]) / (sum j => exp w[i, j])", (f32(3, 4), f32(4, 2))),
    (f"{WV} = for i c => scan (op +, 0.0) for j => exp (exp w[i, j]) * v[j, c]", (f32(3, 4), f32(4, 2))),
    (f"{XA} = for i j => x[i, j + 1 | exp (exp a[j])]", (f32(3, 4), f32(4))),
    (f"{XAA} = loop (s = x) for t < 3 => for i => s[i] + sum j => exp (exp a[i, j])", (f32(3), f32(3, 3))),
    ("fun f (x : i32[n]) (a : i32[n]) = loop (s = x) for t < 0 => for i => s[i] + sum j => 7 / (a[j] - a[j])", (i32(3), i32(3))),
    (f"{XAN} = unfold (s = x) for t < 3 => for i => s[i] + sin (cast _ t) * tanh (exp a[i])", (f32(3), f32(3))),
]  # fmt: skip


@pytest.mark.parametrize("worth", [HOST, EAGER], ids=["host", "eager"])
@pytest.mark.parametrize(("text", "arguments"), SAFE, ids=[text.split("=", 1)[1].strip() for text, _ in SAFE])
def test_the_same_results_and_no_new_failure(text: str, arguments: tuple[Any, ...], worth: Worth) -> None:
    program = lowered(text)
    hoisted = hoist(program, worth)
    verify(hoisted)
    for mine, right in zip(compiler.interpret(hoisted, arguments, ()), compiler.interpret(program, arguments, ()), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-5)
    np.testing.assert_allclose(
        axon.compile(text).f(*arguments, target="cpu"), axon.compile(text).f(*arguments, target="interpret"), rtol=1e-5
    )


def test_what_fails_where_it_is_evaluated_still_fails() -> None:
    text = f"{XQ} = for i j => x[i, j] + 100 / q[j] / q[j]"
    program = hoist(lowered(text), HOST)
    assert made(program) == [("j",)]
    for target in ("cpu", "interpret"):
        with pytest.raises(axon.AxonError, match="division of an integer by zero"):
            axon.compile(text).f(i32(2, 2), ZERO_ONE, target=target)


def test_a_step_of_a_loop_does_only_what_differs() -> None:
    text = "fun f {s} (x : f32[n]) (w : f32[n, n]) = loop (y = x) for t < s => for i => sum j => tanh w[i, j] * y[j]"
    program = hoist(lowered(text), HOST)
    verify(program)
    assert "tanh" not in "".join(print_program(program).partition("loop")[2:])
