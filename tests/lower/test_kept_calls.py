"""What one call of a function has put into a block is put there for others of its form: programs are what they would be if each
call were made by itself."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.core.ir import Compute, Loop, Op, Program, Scan
from axon.core.printer import print_program
from axon.core.walk import nodes, scalars
from axon.interpret import run
from axon.lower import kept_calls
from tests.checked import checked
from tests.sample import SOAK

FUNCTIONS = """import nn
type layer[d, k] = { w : f64[d, k], b : f64[k] }
val two = for i < 2 => cast f64 (i + 1)
fun dense (p : layer[d, k]) (x : f64[d]) = for i => (sum k => x[k] * p.w[k, i]) + p.b[i]
fun scaled (x : f64[d]) c = for i => x[i] * c + 1.0
fun both (x : f64[d]) (y : f64[d]) = (for i => x[i] + y[d - 1 - i], for i => x[i] * two[i % 2])
fun total (x : f64[d]) = sum i => x[i] * x[i]
fun itself (x : f64[d]) = x
fun twice f (x : f64[d]) = f (f x)
fun wave (x : f64[d]) = for i => sin x[i]
fun steps (x : f64[d]) (n : i32) = loop (y = x) for k < 3 => for i => y[i] * 0.5 + cast f64 k
fun until (x : f64[d]) = loop (y = x) while (sum i => y[i]) < 2.0 for _ < 4 => for i => y[i] * 1.1 + 0.1
fun slope (x : f64[d]) = grad (fn x => total (wave x)) x
fun picked (x : f64[d]) (at : i32[d]) = for i => x[at[i] | 0.0] + cast f64 (at[i] / 3)
fun positive (x : f64[d]) = let val kept = nonzero (for i => x[i] > 0.0) in for i => x[i] + (sum j => x[kept[j]]) end
fun square (x : f64[d]) = (let val y = for i j => x[i] * x[j] in for i => sum j => y[i, j] end) as f64[d]
fun ranked (x : f64[d]) = for i => (sort x)[i] + (scan (op +, 0.0) i => x[i])[i]
fun ruled (x : f64[d]) = with_vjp (fn x => for i => sin x[i]) (fn x dy => for i => dy[i]) x
fun layers (p : layer[d, d]) (x : f64[d]) = let val y = wave (dense p x) val z = scaled y 0.5 in (both y z).1 end
"""

LINES = [  # from a vector of d to one of d
    "dense {{ w = w, b = {b} }} {a}", "scaled {a} {c}.5", "scaled {a} (total {b})", "(both {a} {b}).1", "(both {a} {a}).2",
    "itself {a}", "for i => {a}[i] * total {b}", "twice wave {a}", "twice (fn x => scaled x {c}.5) {a}", "steps {a} {c}",
    "until {a}", "slope {a}", "picked {a} at", "positive {a}", "square {a}", "ranked {a}", "ruled {a}",
    "layers {{ w = w, b = {b} }} {a}", "nn.softmax {a}", "nn.layer_norm {{ scale = {b}, shift = {a} }} {a}", "nn.gelu {a}",
    "nn.log_softmax (wave {a})", "loop (y = {a}) for _ < 2 => layers {{ w = w, b = y }} y",
    "for i => (nn.softmax {a})[i] * {b}[i]",
]  # fmt: skip


def program(seed: int, count: int) -> str:
    """A chain of lines, of three kinds, each of which reads one or two of those before it; and perhaps its gradient."""
    random = Random(seed)
    kinds = [LINES[seed % len(LINES)], *random.choices(LINES, k=2)]
    made = []
    for n in range(1, count + 1):
        a, b = (f"a{random.randint(max(n - 2, 0), n - 1)}" for _ in range(2))
        made.append(f"val a{n} = " + random.choice(kinds).format(a=a, b=b, c=random.randint(1, 2)))
    lets, result = "\n      ".join(made), f"sum i => a{count}[i] end"
    text = f"fun f (a0 : f64[d]) (w : f64[d, d]) (at : i32[d]) where d >= 2 = let {lets}\n  in {result}\n"
    if random.random() < 0.5 and not any(kind.startswith("positive") for kind in kinds):
        text = text.replace(" = let", " = grad (fn a0 => let", 1).replace(result, result + ") a0")
    return FUNCTIONS + text


def places(program: Program) -> Iterator[object]:
    """Where each operation stands, and each read that is checked."""

    def inside(ops: tuple[Op, ...]) -> Iterator[object]:
        for op in ops:
            yield op.span
            if isinstance(op, Loop):
                yield from inside(op.body.ops)
            elif isinstance(op, Compute | Scan):
                yield from (getattr(node, "checked", None) for scalar in scalars(op) for node in nodes(scalar))

    return inside(program.block.ops)


@pytest.mark.parametrize("seed", range(20 * len(LINES) if SOAK else 2 * len(LINES)))
def test_programs_are_those_of_calls_made_apart(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = program(seed, 8)
    kept = compiler.lower(checked(text), "f", None)
    monkeypatch.setattr(kept_calls, "about", lambda *_: None)
    each = compiler.lower(checked(text), "f", None)
    assert print_program(kept) == print_program(each)
    assert [*places(kept)] == [*places(each)]
    assert kept.contract.limits == each.contract.limits or str(kept.contract.limits) == str(each.contract.limits)
    normal = np.random.default_rng(seed)
    given = [normal.standard_normal(4), normal.standard_normal((4, 4)), normal.integers(-1, 5, 4).astype(np.int32)]
    for one, other in zip(run(kept, given), run(each, given), strict=True):
        np.testing.assert_array_equal(one, other)


def test_calls_of_one_form_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    again, found = kept_calls._Call.again, []

    def counted(*given: Any) -> Any:
        found.append(again(*given))
        return found[-1]

    monkeypatch.setattr(kept_calls._Call, "again", counted)
    text = FUNCTIONS + "fun f (a : f64[d]) = wave (wave (wave (nn.softmax (nn.softmax (nn.softmax a)))))\n"
    compiler.lower(checked(text), "f", None)
    assert len(found) == 4
    assert None not in found
