"""Values that a later program makes again in place of reading them: which, with what beside them, and that nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.tile.families import family_of, results_of
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.core.known import present
from axon.core.sharding import Sharded
from axon.core.sharding.interpret import run
from axon.core.sharding.ir import Local, Repeat, Step
from axon.core.walk import outs_of, tensors_of
from axon.interpret import run as interpret
from tests.core.sharding.whole import arguments, bound, mesh, nvlink, of, sharded

# Heads are split: what each device's give is summed over devices, between attention and its gradient.
TEXT = """
import nn
fun heads (q : E[h, s, c]) (k : E[h, s, c]) (v : E[h, s, c]) (out : E[h, c, d]) =
  let val scores = for h i j => (sum c => q[h, i, c] * k[h, j, c]) * rsqrt (cast E c)
      val w = nn.softmax (for h i j => if j <= i then scores[h, i, j] else -inf)
      val means = for h i c => sum j => w[h, i, j] * v[h, j, c]
  in for i d => sum h c => means[h, i, c] * out[h, c, d] end
fun loss q k v out = sum i d => let val y = (heads q k v out)[i, d] in y * y end
fun slope (q : E[h, s, c]) (k : E[h, s, c]) (v : E[h, s, c]) (out : E[h, c, d]) =
  grad (fn (q, k, v, out) => loss q k v out) (q, k, v, out)
fun kept (x : E[h, s]) (y : E[h, s]) (z : E[s]) =
  let val wide = for h i j => x[h, i] * y[h, j]
      val whole = for i => sum h j => wide[h, i, j] * z[j]
  in (for h j => sum i => wide[h, i, j] * whole[i], wide) end
fun outer (x : E[h, s]) (y : E[h, s]) (z : E[s]) =
  let val wide = for h i j => x[h, i] * y[h, j]
      val whole = for i => sum h j => wide[h, i, j] * z[j]
  in for h j => sum i => wide[h, i, j] * whole[i] end
fun picked (x : E[h, s]) (y : E[h, s]) (ids : i32[s]) (z : E[s]) =
  let val wide = for h i j => x[h, ids[i]] * y[h, j]
      val whole = for i => sum h j => wide[h, i, j] * z[j]
  in for h j => sum i => wide[h, i, j] * whole[i] end
"""
LONG = {"h": 8, "s": 4096, "c": 64, "d": 512}
SHORT = {"h": 4, "s": 12, "c": 8, "d": 8}


def program(name: str, element: str = "f32") -> Program:
    return of(TEXT.replace("E[", f"{element}[").replace("cast E", f"cast {element}"), name)


def on_two(source: Program, sizes: Mapping[str, int]) -> Sharded:
    return sharded(source, mesh(model=2), {"h": "model"}, bound(source, **sizes), nvlink())


def locals_of(steps: tuple[Step, ...]) -> Iterator[Local]:
    for step in steps:
        if isinstance(step, Local):
            yield step
        elif isinstance(step, Repeat):
            yield from locals_of(step.steps)


def square(value: Any) -> bool:
    """Whether it has an element for each pair of positions."""
    return [d.symbol.name for d in value.shape if d.symbol].count("s") > 1


def test_no_scores_go_from_one_program_to_the_next() -> None:
    made = on_two(program("slope"), LONG)
    first, *_, last = locals_of(made.steps)
    assert not any(square(value) for step in locals_of(made.steps) for value in step.program.inputs)
    assert [known.made.name for known in last.program.known] == ["max", "sum", "sum"]  # of weights, and means
    assert {v.symbol.name for v in last.program.inputs} >= {"q", "k", "v"}
    assert not first.program.known


@pytest.mark.parametrize("name", ["slope", "kept", "outer"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_results_are_those_of_what_keeps_everything(name: str, element: str) -> None:
    """Bit for bit: what is made again is made in the same way; and inputs hold what they are said to hold."""
    source = program(name, element)
    short = bound(source, **SHORT)
    made = on_two(source, LONG)
    plain = sharded(source, mesh(model=2), {"h": "model"}, short)  # where a value is no larger than what it is made of
    assert not any(step.program.known for step in locals_of(plain.steps))
    given = arguments(source, short)
    checked = 0

    def twice(local: Program, inputs: Any, explicit: Any) -> Any:
        nonlocal checked
        whole, read = interpret(local, inputs, explicit), interpret(present(local), inputs, explicit)
        for one, other in zip(whole, read, strict=True):
            np.testing.assert_array_equal(one, other)
        checked += bool(local.known)
        return read

    for one, other in zip(run(made, given, runner=twice), run(plain, given), strict=True):
        np.testing.assert_array_equal(one, other)
    assert bool(checked) == (name == "slope")


def test_statistics_are_kept_in_f32() -> None:
    """exp (s - m) of scores that a kernel does not round would be off by as much as the greatest is rounded."""
    _, *_, last = locals_of(on_two(program("slope", "bf16"), LONG).steps)
    values = {v.symbol: v for v in last.program.inputs}
    known = [values[known.holds] for known in last.program.known]
    assert [(v.symbol.name, v.element, len(v.shape)) for v in known] == [
        ("max", Element.F32, 2), ("sum", Element.F32, 2), ("sum", Element.BF16, 3)]  # fmt: skip


def test_what_is_kept_anyway_is_read() -> None:
    """Scores that are a result are in memory."""
    last = list(locals_of(on_two(program("kept"), LONG).steps))[-1]
    assert any(square(value) for value in last.program.inputs)


def test_what_is_not_much_larger_is_read() -> None:
    made = on_two(program("slope"), {**LONG, "s": 64})
    assert any(square(value) for step in locals_of(made.steps) for value in step.program.inputs)


def test_what_data_may_stop_is_made_once() -> None:
    assert not any(map(square, [v for step in locals_of(on_two(program("outer"), LONG).steps) for v in step.program.inputs]))
    assert any(map(square, [v for step in locals_of(on_two(program("picked"), LONG).steps) for v in step.program.inputs]))


def test_a_gpu_stores_no_scores() -> None:
    """Neither for attention nor for its gradient, which are in different programs."""
    made = on_two(program("slope", "bf16"), LONG)
    sizes = made.environment(bound(made.source, **LONG), {"model": 0})
    families: list[str] = []
    for step in locals_of(made.steps):
        known: set[Symbol] = {s for v in step.program.inputs for d in v.shape for s in d.variables} | {*step.program.explicit}
        kernels = Ordered(step.program).at({s: sizes[s] for s in known}).kernels
        families += map(family_of, kernels)
        assert not any(square(value) for kernel in kernels for value in results_of(kernel))
    assert families.count("stream") == 4


def test_what_nobody_reads_is_not_made() -> None:
    last = list(locals_of(on_two(program("slope"), LONG).steps))[-1].program
    made = present(last)
    before, after = ({out.symbol for op in one.block.ops for out in outs_of(op)} for one in (last, made))
    known = {one.made for one in last.known}
    assert before - after >= known
    assert {s for op in made.block.ops for s in tensors_of(op)}.isdisjoint(known)
    assert present(made) is made


LAYERS = """
import nn
fun model (w : E[n, d, h, c]) (out : E[n, h, c, d]) (x : E[s, d]) =
  let val y = loop (y = x) for t < n =>
    let val q = for h i c => sum k => y[i, k] * w[t, k, h, c]
        val a = nn.softmax (nn.causal (for h i j => sum c => q[h, i, c] * q[h, j, c]))
        val o = for h i c => sum j => a[h, i, j] * q[h, j, c]
    in for i k => y[i, k] + (sum h c => o[h, i, c] * out[t, h, c, k]) end
  in sum i k => y[i, k] * y[i, k] end
fun slope (w : E[n, d, h, c]) (out : E[n, h, c, d]) (x : E[s, d]) = grad (fn (w, out, x) => model w out x) (w, out, x)
"""


def test_steps_of_loops_that_exchange() -> None:
    """The loop backwards has its steps apart from those forwards, and makes the statistics of its scores again: none are stored."""
    source = of(LAYERS.replace("E[", "bf16["), "slope")
    sizes = {**LONG, "n": 4}
    made = on_two(source, sizes)
    assert any(isinstance(step, Repeat) for step in made.steps)
    environment = made.environment(bound(made.source, **sizes), {"model": 0})
    families: list[str] = []
    for repeat in (step for step in made.steps if isinstance(step, Repeat)):
        for step in locals_of(repeat.steps):
            known = {s for v in step.program.inputs for d in v.shape for s in d.variables} | {*step.program.explicit}
            kernels = Ordered(step.program).at({s: environment.get(s, 0) for s in known}).kernels
            families += map(family_of, kernels)
            assert not any(square(value) for kernel in kernels for value in results_of(kernel))
    assert families.count("stream") >= 4
    short = {**SHORT, "n": 2}
    narrow = of(LAYERS.replace("E[", "f64["), "slope")
    given = arguments(narrow, bound(narrow, **short))
    split = sharded(narrow, mesh(model=2), {"h": "model"}, bound(narrow, **short))
    for one, other in zip(run(split, given), interpret(narrow, given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
