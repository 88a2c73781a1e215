"""Kernels say in comments which part of the program they compute; what a machine code is found by does not change with it."""

from __future__ import annotations

import pytest

import axon
from axon import compiler
from axon.backend.gpu.build import cubin as build
from axon.backend.gpu.emit.source import Emitted
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.report.show import sizes_of
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.kernel.places import placed
from axon.base.source import SourceFile

PRODUCT = "fun f (a : bf16[m, k]) (b : bf16[n, k]) = for i j => tanh ((sum c => a[i, c] * b[j, c]) + 1.0)\n"
ROWS = "fun f (x : f32[n, m]) = for i => let val top = max j => x[i, j] in sum j => exp (x[i, j] - top) end\n"
WHOLE = "fun f (x : f32[n]) (y : f32[n]) = x * y + tanh y\n"
CASES = [  # what a kernel computes, and where that begins
    (PRODUCT, [("product", "sum c => a[i, c] * b[j, c]"), ("t", "for i j => tanh")]),
    (ROWS, [("max", "max j => x[i, j]"), ("result", "sum j => exp (x[i, j] - top)")]),
    (WHOLE, [("result", "x * y + tanh y")]),
]


def kernels(text: str) -> list[Emitted]:
    program = compiler.lower(axon.compile(text)._session.checked, "f", None)
    made = Stepped(program).foreseen(sizes_of(program, None))
    return [plan.stages.source for _, executable, sizes in made for plan in executable.built({}, sizes)[1].values()]


@pytest.mark.parametrize(("text", "places"), CASES)
def test_what_is_computed_where(text: str, places: list[tuple[str, str]]) -> None:
    """A kernel names places of the program; where the program stands changes nothing of its machine code."""
    here, there = kernels(text), kernels("(* a comment *)\n\n" + text)
    written = "\n".join(kernel.text for kernel in here)
    for name, begins in places:
        assert f"# {name}  <text>:1:{text.index(begins) + 1}  {begins}" in written
    assert [k.text for k in here] != [k.text for k in there]
    assert [build._key(k, HOPPER) for k in here] == [build._key(k, HOPPER) for k in there]


def test_long_texts_are_cut() -> None:
    file = SourceFile("some/folder/model.axon", "val a =\n  " + "1 + " * 40 + "1\n")
    assert placed(("a", "b"), file.span(10)) == f"a, b  model.axon:2:3  {'1 + ' * 17}1 +…"
    assert placed(("a",), None) == "a"
