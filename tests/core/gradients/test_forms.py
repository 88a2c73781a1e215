"""What was derived of one operation is given to others of its form: programs are what they would be if each were derived alone."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from axon import compiler
from axon.base.names import fresh
from axon.base.source import SourceFile, Span
from axon.core.gradients import reads, reverse
from axon.core.gradients.forms import Form, Renaming, by_age, defined, places
from axon.core.ir import Compute, Loop, Op, Scan, Sort
from axon.core.printer import print_program
from axon.core.walk import is_curved, needs_of, tensors_of
from axon.interpret import run
from axon.lower import builder
from tests.checked import checked
from tests.sample import SOAK

LINES = [  # from a vector of d to one of d
    "for i => sin {a}[i] * {c}.5",
    "for i => {a}[i] + {b}[(i + {c}) % d]",
    "for i < d => sum for q < 3 => {a}[min (i + q) (d - 1)] * {b}[i]",
    "for i < d => sum for q < 3 => {a}[i + q - {c} | 0.0] * w[0, 0]",
    "for i => sum c => {a}[c] * w[c, i]",
    "for i => sum c => {a}[c] * w[i, c] + {b}[i]",
    "for i => exp ({a}[i] - (max k => {a}[k]))",
    "for i => {a}[i] * (prod k => 1.0 + 0.01 * {b}[k])",
    "for i => {a}[i] - (sum for k < d where k <= i => {b}[k])",
    "for i < d => {a}[i / 2] + {b}[d - 1 - i]",
    "let val h = for p < d / 2 => {a}[2 * p] + {b}[2 * p + 1] in for p < d => h[p / 2 | 0.0] end",
    "for i => if i > {c} then {a}[i - {c}] else {b}[i] * {b}[i]",
    "for i => {a}[at[i] | 0.0] + {b}[i]",
    "scan (op +, 0.0) i => {a}[i]",
    "(scan (fn x y => (x.1 * y.1, y.1 * x.2 + y.2), (1.0, 0.0)) t => ({a}[t], {b}[t])).2",
    "sort {a}",
    "for i => sum c => {a}[{x}] * w[{x}, {y}] * {b}[{y}]",
    "for i => sum c => {a}[{x}] * {b}[{y}]",
    "for i < d => {a}[(i + {c}) % d] * {b}[d - 1 - i]",
    "for i < d => sum for q < {c} + 1 => {a}[i + q - 1 | 0.0] * {b}[i]",
    "for i => if {a}[i] > 0.{c} then {a}[i] * {b}[i] else {b}[i]",
    "loop (y = {a}) for _ < {c} => tanh (for i => sum c => y[c] * w[c, i])",
    "(loop (y = {a}, z = {b}) for k < 3 => ((for i => y[i] * 0.5 + z[i] * cast f64 k), for i => sin y[i])).1",
    "loop (y = {a}) for _ < 2 => loop (z = y) for _ < {c} => for i => sin z[i] + {b}[i]",
    "(loop (y = {a}) while (sum i => y[i]) < 2.0 for _ < 4 => for i => y[i] * 1.1 + 0.1)",
    "(loop (y = {a}) while (max i => y[i]) < 2.0 for _ < d - {c} => for i => y[i] * 1.1 + {b}[i])",
    "(loop (y = {a}, z = {b}) while y[0] < 1.0 for k < {c} => ((for i => z[i] + cast f64 k), for i => sin y[i])).2",
    "for i => (nn.softmax {a})[i] * {b}[i]",
    "for i => sum c => (nn.softmax {a})[i] * w[i, c] * {b}[c]",
    "nn.layer_norm {{ scale = {b}, shift = {a} }} {a}",
]


def program(seed: int, count: int) -> str:
    """The gradient of a chain of lines, of two kinds, each of which reads one or two of those before it; all kinds take turns."""
    random = Random(seed)
    kinds = [LINES[seed % len(LINES)], random.choice(LINES)]
    made = []
    for n in range(1, count + 1):
        a, b = (f"a{random.randint(max(n - 2, 0), n - 1)}" for _ in range(2))
        x, y = random.sample("ic", 2)
        made.append(f"val a{n} = " + random.choice(kinds).format(a=a, b=b, c=random.randint(1, 2), x=x, y=y))
    lets = "\n      ".join(made)
    return f"""import nn
fun f (a0 : f64[d]) (w : f64[d, d]) (at : i32[d]) where d >= 4 = grad (fn a0 =>
  let {lets}
  in sum i => a{count}[i] end) a0
"""


@pytest.mark.parametrize("seed", range(10 * len(LINES) if SOAK else len(LINES)))
def test_programs_are_those_of_operations_derived_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = program(seed, 8)
    by_form = compiler.lower(checked(text), "f", None)
    monkeypatch.setattr(reverse.Reverse, "form_of", lambda *_: None)
    monkeypatch.setattr(reads, "form", lambda *_: None)
    monkeypatch.setattr(builder, "form", lambda *_: None)
    each = compiler.lower(checked(text), "f", None)
    assert print_program(by_form) == print_program(each)
    normal = np.random.default_rng(seed)
    given = [normal.standard_normal(5), normal.standard_normal((5, 5)), normal.integers(-1, 6, 5).astype(np.int32)]
    for one, other in zip(run(by_form, given), run(each, given), strict=True):
        np.testing.assert_array_equal(one, other)


def all_of(ops: tuple[Op, ...]) -> Iterator[Op]:
    for op in ops:
        yield op
        if isinstance(op, Loop):
            yield from all_of(op.body.ops)


@pytest.mark.parametrize("seed", range(100 if SOAK else 10))
def test_what_an_operation_names_is_what_it_was_said_to_name(seed: int) -> None:
    """Kept beside operations, and renamed with them."""
    made = compiler.lower(checked(program(seed, 6)), "f", None)
    for op in all_of(made.block.ops):
        curved = not isinstance(op, Compute | Scan) or is_curved(op)
        known = tensors_of(op), needs_of(op), curved
        for kept in ("tensors_", "needs_", "curved_"):
            for each in (op, *(all_of(op.body.ops) if isinstance(op, Loop) else ())):
                if hasattr(each, kept):
                    object.__delattr__(each, kept)
        curved = not isinstance(op, Compute | Scan) or is_curved(op)
        assert (tensors_of(op), needs_of(op), curved) == known


@pytest.mark.parametrize("seed", range(100 if SOAK else 10))
def test_a_form_is_that_of_all_copies(seed: int) -> None:
    """Under other names of the same ages it is the same, under those of others it is not."""
    made = compiler.lower(checked(program(seed, 6)), "f", None)
    for op in made.block.ops:
        form = Form()
        if not isinstance(op, Compute | Scan | Loop | Sort) or not form.op(op):
            continue
        met, called = by_age(form.numbers), [fresh(symbol.name) for symbol in by_age(form.numbers)]
        assert {*met} >= form.own == {*defined([op])}
        assert form.sizes <= {*met}
        again, turned = Form(), Form()
        assert again.op(Renaming(dict(zip(met, called, strict=True)), form.sizes, {}).op(op))
        assert again.key == form.key
        if len(met) > 1:
            assert turned.op(Renaming(dict(zip(met, reversed(called), strict=True)), form.sizes, {}).op(op))
            assert turned.key != form.key


def test_one_place_is_one_place() -> None:
    """And what stands nowhere stands nowhere: an error would name a line that does not have it."""
    source = SourceFile("f.axon", "fun f x = x + x")
    a, b, c = (Span(source, n, n + 1) for n in range(3))

    def form(*spans: Span | None) -> Form:
        made = Form()
        made.spans += spans
        return made

    assert places(form(a, b, a, None), form(b, c, b, None)) == {a: b, b: c, None: None}
    assert places(form(a, a), form(b, c)) is None
    assert places(form(a, None), form(b, c)) is None
