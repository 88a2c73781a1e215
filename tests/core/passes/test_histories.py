"""What steps read that earlier loops kept is stated, with how it was made: statistics of scores, and sums with values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.base.data import replace
from axon.base.element import Element
from axon.core.ir import Compute, Known, Loop, Program
from axon.core.known import present
from axon.core.passes.histories import made_again
from axon.core.passes.parts import HostLoop, Parts, PartsBody, Straight, as_program, parts
from axon.core.walk import outs_of
from axon.interpret import run
from axon.shapes.dimension import Dim
from tests.checked import checked

HEADS = "(for head < 2, i c => sum k => y[i, k] * w[t, k, (head, c)])"
TEXT = f"""
fun attention (q, k, v) = for h i c =>
  let val s = for i j => (sum c => q[h, i, c] * k[h, j, c]) * 0.5
      val top = for i => stop_gradient (max j => s[i, j])
      val z = for i => sum j => exp (s[i, j] - top[i])
  in sum j => exp (s[i, j] - top[i]) / z[i] * v[h, j, c] end

(* Heads are merged for the product by the last weights. *)
fun merged (w : E[n, d, 2 * e], u : E[n, d, 2 * e], x : E[s, d]) =
  let val y = loop (y = x) for t < n =>
    let val q = {HEADS}
        val o = attention (q, q, q)
        val both = for i (head, c) => o[head, i, c]
    in for i k => y[i, k] + sum j => both[i, j] * u[t, k, j] end
  in sum i k => y[i, k] * y[i, k] end
fun d_merged w u x = grad merged (w, u, x)

(* No product reads what attention gives. *)
fun alone (x : E[h, s, d], w : E[n]) =
  let val y = loop (y = x) for t < n => let val o = attention (y, y, y) in for h i c => y[h, i, c] + o[h, i, c] end
  in sum h i c => y[h, i, c] * y[h, i, c] end
fun d_alone x w = grad (fn x => alone (x, w)) x

(* No scores: what is kept is made of nothing that is larger. *)
fun layers (w : E[n, d, d], x : E[s, d]) =
  let val y = loop (y = x) for t < n => for i k => tanh (sum j => y[i, j] * w[t, k, j]) in sum i k => y[i, k] end
fun d_layers w x = grad layers (w, x)
"""
SIZES = {"n": 3, "d": 4, "e": 2, "s": 5, "h": 2}


def lowered(name: str, element: str) -> Program:
    return compiler.lower(checked(TEXT.replace("E[", f"{element}[")), name, None)


def given(program: Program) -> list[Any]:
    chance = np.random.default_rng(0)
    shapes = [tuple(d.evaluate({s: SIZES[s.name] for s in d.variables}) for d in value.shape) for value in program.inputs]
    return [chance.standard_normal(shape).astype(v.element.dtype) for v, shape in zip(program.inputs, shapes, strict=True)]


def loops(split: Parts) -> list[HostLoop]:
    return [part for part in split.body.parts if isinstance(part, HostLoop)]


def known(loop: HostLoop) -> list[Known]:
    """What is known in a step."""
    return [one for part in loop.body.parts if isinstance(part, Straight) for one in part.program.known]


def test_statistics_are_known() -> None:
    _, backwards = loops(parts(lowered("d_merged", "f32")))
    found = [(one.made.name, one.holds.name, list(map(Dim.of, one.axes)) == list(one.places[1:])) for one in known(backwards)]
    assert found[:2] == [("max", "maxs", True), ("sum", "sums", True)]
    assert all(one.places[0] == found.places[0] for found in known(backwards) for one in known(backwards))


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_what_is_held_in_another_order(element: str) -> None:
    """Merged heads hold what attention gives: of head h and column c in column h * e + c."""
    _, backwards = loops(parts(lowered("d_merged", element)))
    *_, merged, apart = known(backwards)
    assert merged.holds == apart.holds
    assert list(map(Dim.of, merged.axes)) == list(merged.places[1:])
    (e,) = (s for s in apart.places[-1].variables if s.name == "e")
    for h, i, c in np.ndindex(2, 3, 5):
        at = dict(zip(apart.axes, (h, i, c), strict=True)) | {e: 5}
        assert [place.evaluate(at) for place in apart.places[1:]] == [i, h * 5 + c]


@pytest.mark.parametrize(("element", "more"), [("bf16", 1), ("f16", 1), ("f32", 0)])
def test_sums_that_nothing_reads(element: str, more: int) -> None:
    """Of 16 bits they are kept, for what follows from them; scores of 32 bits are kept, not made again."""
    split = parts(lowered("d_alone", element))
    source = next(op for op in split.rest.block.ops if isinstance(op, Loop))
    forwards, backwards = loops(split)
    assert len(forwards.op.states) - len(source.states) == more
    assert len(known(backwards)) == 2 + more


def test_what_is_not_large_is_read() -> None:
    assert not any(map(known, loops(parts(lowered("d_layers", "f32")))))


def with_known(body: PartsBody, change: Any) -> PartsBody:
    def changed(part: Any) -> Any:
        match part:
            case Straight(program=program):
                return Straight(change(program))
            case HostLoop(body=inner):
                return replace(part, body=with_known(inner, change))
            case _:
                return part

    return replace(body, parts=tuple(map(changed, body.parts)))


@pytest.mark.parametrize("element", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("name", ["d_merged", "d_alone"])
def test_it_is_there(name: str, element: str) -> None:
    """Bit for bit: whether it is made again, or read where it is said to be. In f64 that is what the program gives."""
    program = lowered(name, element)
    split = parts(program)
    assert any(map(known, loops(split)))
    arguments = given(program)
    made = run(as_program(split), arguments)
    read = run(as_program(replace(split, body=with_known(split.body, present))), arguments)
    for one, other, want in zip(made, read, run(program, arguments), strict=True):
        np.testing.assert_array_equal(one, other)
        assert element != "f64" or np.allclose(one, want, rtol=1e-11)


def test_elsewhere_it_is_not() -> None:
    """What the test above sees: at another step there is something else."""
    program = lowered("d_merged", "f64")
    split = parts(program)

    def before(straight: Program) -> Program:
        def other(one: Known) -> Known:
            first, *rest = one.places
            return replace(one, places=(first - first, *rest))

        return present(replace(straight, known=tuple(map(other, straight.known))))

    arguments = given(program)
    got = run(as_program(replace(split, body=with_known(split.body, before))), arguments)
    assert not np.allclose(got[0], run(program, arguments)[0])


@pytest.mark.parametrize("name", ["d_merged", "d_alone", "d_layers"])
def test_made_again(name: str) -> None:
    """Where steps are taken apart nothing is read of others' statistics, nor kept of them."""
    program = lowered(name, "bf16")
    made = made_again(program)
    assert (made is program) == (name == "d_layers")
    wide = [out for op in made.block.ops if isinstance(op, Loop) for out in outs_of(op) if out.element is Element.F32]
    assert not wide
    arguments = given(program)
    for got, want in zip(run(made, arguments), run(program, arguments), strict=True):
        np.testing.assert_array_equal(got, want)
    statistics = [
        op
        for loop in made.block.ops
        if isinstance(loop, Loop)
        for op in loop.body.ops
        if isinstance(op, Compute) and op.reduction is not None and op.reduction.monoid.kind == "max"
    ]
    assert len(statistics) == (0 if name == "d_layers" else 3)  # of the function, of the loop that keeps, and of that backwards
