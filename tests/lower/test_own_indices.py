"""Everything stands on just the indices that it uses: loops, sorts, and what a range that depends on an index computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.core.ir import Compute, Loop, Op, Sort

X = np.array([3, 1, 2, 5], np.float32)
VALUE = "val t = for i < 3 => exp (cast f32 i)\n"
# Functions of x : f32[n], and for the operations that make the value in question the names of their axes.
OWN: list[tuple[str, str, set[tuple[str, ...]]]] = [
    ("for j i => x[i] - (let val s = sort x in s[0] end) * x[j]", "unsorted", {("i",)}),
    ("for j < 3, i => (let val s = sort (for k => x[k] * x[i]) in s[j] end)", "unsorted", {("i", "i2")}),
    ("for j => for i => (loop (s = 1.0) for t < 9 => 0.5 * (s + x[i] / s)) * x[j]", "next", {("i",)}),
    ("for j i => (unfold (s = x[i]) for t < 3 => s * 0.5)[2] * x[j]", "next", {("i",)}),
    ("for i j => loop (s = x[i]) for t < 3 => s + (loop (u = 0.0) for v < 2 => u + x[j])", "next", {("j",), ("i", "j")}),
    ("for i < n, j => loop (s = 0.0) for t < 3 => s + x[j]", "next", {("j",)}),
    ("for i j => (loop (s = 0.0, u = x[i]) for t < 3 => (s + u, u + x[j])).1", "next", {("i", "j")}),
    ("for i j => if x[i] > 2.0 then loop (s = 0.0) for t < 3 => s + x[j] else 0.0", "next", {("j",)}),
    ("for j => sum for i < j + 1 => (max k => exp (x[k] * x[i])) * x[j]", "max", {("i",)}),
    ("for j < n => max for i < n - j => (max k => x[k] * x[i]) * x[j]", "max", {("j",), ("i",)}),
    ("for i, j < n => x[i] * with_vjp (fn a => max k => exp a[k]) (fn a dy => a) x", "max", {()}),
    ("for i j => x[i] * with_vjp (fn a => max k => exp (a * x[k])) (fn a dy => dy) x[j]", "max", {("j",)}),
]


def made(ops: tuple[Op, ...], name: str) -> set[tuple[str, ...]]:
    """The axes of the operations that make a tensor of a name, by their names; in loops too."""
    found: set[tuple[str, ...]] = set()
    for op in ops:
        if isinstance(op, Compute) and op.outs[0].symbol.name == name:
            names = [axis.symbol.name for axis in op.axes]
            found.add(tuple(n if names.index(n) == at else f"{n}2" for at, n in enumerate(names)))
        if isinstance(op, Loop):
            found |= made(op.body.ops, name)
    return found


@pytest.mark.parametrize(("body", "name", "axes"), OWN, ids=[body for body, _, _ in OWN])
def test_the_indices_that_are_used(body: str, name: str, axes: set[tuple[str, ...]]) -> None:
    program = compiler.lower(compiler.check_text(f"fun f (x : f32[n]) where n >= 3 = {body}"), "f", None)
    assert made(program.block.ops, name) == axes
    assert sum(isinstance(op, Sort) for op in program.block.ops) == ("unsorted" in name)


def plain(body: str) -> Any:
    """What the functions of OWN give for X, by Python."""
    n, x = len(X), X.astype(np.float64)
    return {
        OWN[0][0]: [[x[i] - min(x) * x[j] for i in range(n)] for j in range(n)],
        OWN[1][0]: [[sorted(x * x[i])[j] for i in range(n)] for j in range(3)],
        OWN[2][0]: [[np.sqrt(x[i]) * x[j] for i in range(n)] for j in range(n)],
        OWN[3][0]: [[x[i] / 8 * x[j] for i in range(n)] for j in range(n)],
        OWN[4][0]: [[x[i] + 6 * x[j] for j in range(n)] for i in range(n)],
        OWN[5][0]: [[3 * x[j] for j in range(n)] for i in range(n)],
        OWN[6][0]: [[3 * x[i] + 3 * x[j] for j in range(n)] for i in range(n)],
        OWN[7][0]: [[3 * x[j] if x[i] > 2 else 0 for j in range(n)] for i in range(n)],
        OWN[8][0]: [sum(max(np.exp(x * x[i])) * x[j] for i in range(j + 1)) for j in range(n)],
        OWN[9][0]: [max(max(x * x[i]) * x[j] for i in range(n - j)) for j in range(n)],
        OWN[10][0]: [[x[i] * max(np.exp(x)) for j in range(n)] for i in range(n)],
        OWN[11][0]: [[x[i] * max(np.exp(x * x[j])) for j in range(n)] for i in range(n)],
    }[body]


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
@pytest.mark.parametrize("body", [body for body, _, _ in OWN])
def test_the_values(body: str, target: str) -> None:
    found = axon.compile(f"fun f (x : f32[n]) where n >= 3 = {body}").f(X, target=target)
    np.testing.assert_allclose(found, plain(body), rtol=1e-5)


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
def test_a_loop_taken_out_of_an_empty_range_or_a_branch_does_not_fail(target: str) -> None:
    body = "if q > 0 then loop (s = 0) for t < 7 / q => s + y[q + 9] / q else 5"
    f = axon.compile(f"fun f (x : i32[n]) (y : i32[m]) (q : i32) = for i < n => {body}").f
    assert f(np.zeros(0, np.int32), np.zeros(3, np.int32), 0, target=target).tolist() == []
    assert f(np.zeros(2, np.int32), np.zeros(3, np.int32), 0, target=target).tolist() == [5, 5]


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
def test_a_value_of_a_module_that_a_loop_needs_first_stands_before_it(target: str) -> None:
    text = VALUE + "fun f (x : f32[3]) = (loop (s = x) for k < 2 => for i => s[i] + t[i], t)"
    twice, once = axon.compile(text).f(np.ones(3, np.float32), target=target)
    np.testing.assert_allclose(once, np.exp(np.arange(3)), rtol=1e-6)
    np.testing.assert_allclose(twice, 1 + 2 * np.exp(np.arange(3)), rtol=1e-6)
