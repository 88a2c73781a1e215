"""Literal tables are data of the plan, and no code."""

import numpy as np
import pytest

import axon
from axon.backend.cpu.executable import CpuExecutable
from axon.backend.plan.ir import print_plan
from axon.backend.plan.verify import verify_plan

LONG = 300


def literal(values):
    return f"[| {', '.join(map(str, values))} |]"


def program(module, name, *given):
    session = module._session
    return session.program(session.callee(name), given, {})


NUMBERS = [0.5 * i for i in range(LONG)]
ROWS = literal(literal([float(i * 4 + j) for j in range(4)]) for i in range(4))
TEXT = f"""\
val t = {literal(NUMBERS)}
val rows = {ROWS}
fun gather (i : i32[n]) = for j => t[i[j]]
fun given (x : f32[n]) = (t, t, x)
fun each (x : f32[{LONG}]) = for i => x[i] * t[i] + t[{LONG - 1} - i]
fun product (x : f32[n, 4]) = x @ rows
fun stepped (x : f32[4]) k = loop (s = x) for _ < k => for j => (sum i => s[i] * rows[i, j]) * 0.01
fun inside (x : f32[n]) k = loop (s = x) for i < k => for j => s[j] + {literal(NUMBERS)}[i] + t[{LONG - 1} - i]
fun mixed (x : f32) = for i => {literal(["x", *NUMBERS[1:]])}[i] * 2.0
fun formula (x : f32[1000]) = for i => x[i] * cast _ (i * i)
fun records (i : i32) = let val r = {literal(f"{{ a = {i}.0, b = {i} }}" for i in range(20))} in (r.a[i], r.b) end
"""
M = axon.compile(TEXT)
X = np.linspace(-1, 1, 4, dtype=np.float32)
CASES = {
    "gather": (np.array([0, 7, LONG - 1], np.int32),), "given": (X,), "each": (np.arange(LONG, dtype=np.float32),),
    "product": (np.ones((3, 4), np.float32),), "stepped": (X, 3), "inside": (X, 5), "mixed": (4.0,),
    "formula": (np.ones(1000, np.float32),), "records": (3,),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_programs_with_tables(name):
    verify_plan(CpuExecutable(program(M, name, *CASES[name])).plan)
    mine, exact = (M[name](*CASES[name], target=target) for target in ("cpu", "interpret"))
    for got, want in zip(*(x if isinstance(x, tuple) else (x,) for x in (mine, exact)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
        assert np.asarray(got).dtype == np.asarray(want).dtype


@pytest.mark.parametrize("name", CASES)
def test_what_is_a_table(name):
    executable = CpuExecutable(program(M, name, *CASES[name]))
    assert bool(executable.tables) == (name not in ("mixed", "formula"))
    choices = print_plan(executable.plan).count("if ")
    assert choices == 0 or name == "mixed"


def test_a_result_is_the_callers_own():
    first, second, _ = M.given(X, target="cpu")
    first[:] = 7
    assert second.tolist() == NUMBERS
    assert M.given(X, target="cpu")[0].tolist() == NUMBERS


def test_the_code_is_as_long_for_a_table_of_any_length():
    def length(count):
        m = axon.compile(f"val t = {literal(NUMBERS[:count])}\nfun f (i : i32[n]) = for j => t[i[j]]")
        executable = CpuExecutable(program(m, "f", np.zeros(1, np.int32)))
        (kernel,) = executable.plan.body.kernels
        return len(executable.function(kernel).function.text)

    assert length(100) == length(LONG)


def test_an_index_outside_a_table():
    with pytest.raises(axon.ShapeError, match=f"index {LONG} is outside dimension 1"):
        M.gather(np.array([LONG], np.int32), target="cpu")
