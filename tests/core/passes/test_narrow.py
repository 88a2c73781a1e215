"""What is the same along a dimension loses it: which dimensions go, and that results and failures stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.base.errors import AxonError
from axon.core.ir import Loop, Op, Program
from axon.core.passes.narrow import narrowed
from axon.core.verify import verify
from axon.core.walk import outs_of
from axon.interpret import run

SQUARES = "fun squares (x : f64[n]) = let val s = sum i => x[i] * x[i] in for i => x[i] / (1.0 + s) end\n"
STEPS = "fun steps (x : f64[n]) = loop (y = x) for t < 3 => for i => y[i] * y[n - 1 - i] + 0.5\n"
XY = "fun f (x : f64[n]) (y : f64[k])"

# Whether anything goes.
CASES = {
    f"{SQUARES}fun f (x : f64[n]) = for k < 4 => (jvp squares x (for i < n => if i = k then 1.0 else 0.0)).2": True,
    f"{STEPS}fun f (x : f64[n]) = for k < 4 => (jvp steps x (for i < n => if i = k then 1.0 else 0.0)).2": True,
    f"{SQUARES}{XY} = for j => let val s = squares x in y[j] + sum i => s[i] end": False,  # lowered so already
    # states of which one alone varies; that vary after a step, though not before; stacked ones
    f"{XY} = for j => loop (a = x, b = y[j]) for t < 3 => (for i => a[i] * 2.0, b + sum i => a[i])": None,
    f"{XY} = for j => (loop (a = x, b = y[j]) for t < 3 => (for i => a[i] * 2.0, b + sum i => a[i])).2": True,
    f"{XY} = for j => (unfold (a = x, b = y[j]) for t < 3 => (for i => a[i] * 2.0, b + sum i => a[i])).2": True,
    f"{XY} = for j => sum i => (loop (a = x) for t < 3 => for i => a[i] + y[j])[i]": False,
    f"{XY} = for j => (loop (a = x, b = x, c = 0.0) for t < 3 => (b, for i => a[i] + y[j], c + sum i => b[i])).3": False,
    f"{XY} = for j => (loop (a = x, b = y[j]) for t < 3 => (for i => a[i] * cast f64 t, b + sum i => a[i])).2": True,
    # what results have they keep, and what is compared with sizes, or padded
    "fun f (x : f64[n]) = for k < 4, i => x[i] * 2.0": False,
    "fun f (x : f64[n]) = let val y = for k < 4, i < n => exp x[i] in for k < 4, i < n => y[k - 1, i | 0.0] + y[k, i] end": False,
    # where there may be no index: what may fail stays where it is
    "fun f (x : i32[n]) (y : i32[k]) (q : i32) = for j => let val z = for i => x[i] / q in y[j] + sum i => z[i] end": False,
}


def dimensions(program: Program) -> int:
    """How many dimensions all that is made has, with states and what is made inside loops."""

    def go(ops: tuple[Op, ...]) -> int:
        inside = sum(go(op.body.ops) + sum(len(s.shape) for s in op.states) for op in ops if isinstance(op, Loop))
        return inside + sum(len(out.shape) for op in ops for out in outs_of(op))

    return go(program.block.ops)


@pytest.mark.parametrize("source", CASES)
def test_results_stay(source: str) -> None:
    given = compiler.lower(compiler.check_text(source), "f", None)
    made = narrowed(given)
    verify(made)
    if CASES[source] is not None:
        assert (dimensions(made) < dimensions(given)) == CASES[source]
    rng = np.random.default_rng(0)
    for n, k in ((3, 5), (1, 1), (0, 2), (4, 0), (0, 0)):
        sizes: dict[int, Any] = {0: n, 1: k}
        arguments = [
            np.array(rng.integers(1, 9, [sizes[i]] if v.shape else []), v.element.dtype) for i, v in enumerate(given.inputs)
        ]
        if len(given.inputs) == 3:
            arguments[2] = np.array(0 if k == 0 else 3, np.int32)
        for a, b in zip(outcome(made, arguments), outcome(given, arguments), strict=True):
            np.testing.assert_array_equal(a, b)


def outcome(program: Program, arguments: list[Any]) -> list[Any]:
    try:
        return run(program, arguments)
    except AxonError as error:
        return [error.diagnostics[0].code]
