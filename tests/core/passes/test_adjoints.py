"""Adjoints of windows are windows: the same numbers, without conditions."""

from __future__ import annotations

from itertools import product
from math import gcd, prod
from random import Random

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.tile.families import family_of
from axon.backend.plan.ir import reads_of
from axon.base.element import Element
from axon.core.ir import Compute, Program
from axon.core.passes.adjoints import as_windows
from axon.interpret import run
from tests.checked import checked
from tests.sample import SOAK

STRIDED = """import nn
fun f (x : E[n, c, h, w]) (k : E[o, c, ROWS, COLUMNS]) dy =
  vjp (fn (x, k) => nn.conv2d_with {STRIDE, PADDING, DILATION, 1} x k) (x, k) dy"""
PLAIN = {  # parameters, arguments by which there are derivatives, the function of these
    "signals": ("(x : E[n, 2 * m + 3]) (k : E[5])", "(x, k)", "for n, i < m => sum r => x[n, 2 * i + r] * k[r]"),
    "every third": ("(x : E[n, 3 * m]) (k : E[n])", "x", "for n i => x[n, 3 * i + 1] * k[n]"),
    "every third, summed": ("(x : E[n, 3 * m]) (k : E[n, o])", "x", "for o i => sum n => x[n, 3 * i + 1] * k[n, o]"),
    "transposed": ("(x : E[n, c, h, w]) (k : E[c, o, 4, 4])", "(x, k)", "nn.conv2d_transpose {2, 1} x k"),
    "causal": ("(x : E[n, m]) (k : E[m])", "x", "for n, i < m => sum j => if j <= i then x[n, j] * k[i - j] else 0.0"),
    "two at an index": ("(x : E[m + 2]) (k : E[3]) (h : E[m])", "x", "for i => sum r => x[i + r] * k[r] * h[i]"),
    "two kernels": ("(x : E[2 * m + 3]) (k : E[5]) (l : E[5])", "x", "for i < m => sum r => x[2 * i + r] * k[r] * l[r]"),
    "a function": ("(x : E[m + 2]) (k : E[3]) (h : E[m])", "x", "for i => sum r => x[i + r] * k[r] * abs h[i]"),
    "a choice": ("(x : E[m + 2]) (k : E[3]) (h : E[m])", "x", "for i => if h[i] > 0.0 then sum r => x[i + r] * k[r] else 0.0"),
    "two windows": ("(x : E[m + 6]) (k : E[3]) (l : E[3])", "x", "for i < m => sum r s => x[i + r + 2 * s] * k[r] * l[s]"),
}


def plain(name: str) -> str:
    parameters, by, body = PLAIN[name]
    return f"import nn\nfun f {parameters} dy = vjp (fn {by} => {body}) {by} dy"


def lowered(text: str) -> Program:
    return compiler.lower(checked(text.replace("E[", "f32[")), "f", None)


def same(program: Program, seed: int, sizes: dict[str, int]) -> Program:
    """What the pass makes, which computes the same of whole numbers."""
    made = as_windows(program)
    chance = np.random.default_rng(seed)
    bound = {s: sizes[s.name] for s in {*program.explicit, *program.contract.determined()}}
    given = [chance.integers(-3, 4, [d.evaluate(bound) for d in v.shape]).astype(np.float32) for v in program.inputs]
    explicit = [bound[s] for s in program.explicit]
    for one, other in zip(run(program, given, explicit), run(made, given, explicit), strict=True):
        np.testing.assert_array_equal(one, other)
    return made


def conditions(program: Program) -> int:
    sums = (op.reduction for op in program.block.ops if isinstance(op, Compute) and op.reduction is not None)
    return sum(reduction.where is not None for reduction in sums)


@pytest.mark.parametrize("seed", range(400 if SOAK else 12))
def test_convolutions(seed: int) -> None:
    """Of any stride, dilation, padding and size of the kernel."""
    chance = Random(seed)
    values = {"ROWS": chance.randint(1, 5), "COLUMNS": chance.randint(1, 3), "PADDING": chance.randint(0, 2)}
    values |= {"STRIDE": chance.randint(1, 4), "DILATION": chance.randint(1, 3)}
    text = STRIDED
    for name, number in values.items():
        text = text.replace(name, str(number))
    program = lowered(text)
    reach = values["DILATION"] * (max(values["ROWS"], values["COLUMNS"]) - 1) + 1
    for size in range(3):
        sizes = {"n": 2, "c": 2, "o": 3, "h": reach + chance.randint(0, 6) + size, "w": reach + chance.randint(0, 6)}
        made = same(program, seed, sizes)
    coprime = gcd(values["DILATION"], values["STRIDE"]) == 1
    if coprime and values["STRIDE"] <= min(values["ROWS"], values["COLUMNS"]):  # every place is in a window
        assert conditions(made) == 0


@pytest.mark.parametrize("seed", range(200 if SOAK else 6))
def test_transposed_convolutions(seed: int) -> None:
    """Their gradients are convolutions with strides, of as many taps as the kernel has."""
    chance = Random(seed)
    stride, rows, padding = chance.randint(1, 4), chance.randint(1, 5), chance.randint(0, 1)
    body = f"nn.conv2d_transpose {{{stride}, {padding}}} x k"
    program = lowered(f"import nn\nfun f (x : E[n, c, h, w]) (k : E[c, o, {rows}, 3]) dy = vjp (fn (x, k) => {body}) (x, k) dy")
    for size in range(3):
        made = same(program, seed, {"n": 2, "c": 2, "o": 3, "h": 3 + size, "w": 4})
    assert conditions(made) == 0 or min(rows, 3) <= stride  # where a remainder of places is that of a kernel's own index
    taps = [axis.extent.constant for op in made.block.ops if isinstance(op, Compute) and op.outs[0].symbol.name == "d_x"
            and op.reduction is not None for axis in op.reduction.axes if axis.extent.constant is not None]  # fmt: skip
    assert prod(taps) <= (rows + stride) * (3 + stride)


@pytest.mark.parametrize("name", PLAIN)
def test_other_windows(name: str) -> None:
    program = lowered(plain(name))
    for seed, (n, m) in enumerate(product((1, 3), (2, 5, 6))):
        same(program, seed, {"n": n, "m": m, "c": 2, "o": 2, "h": m, "w": m + 1})


@pytest.mark.parametrize(("name", "left"), [("signals", 0), ("every third, summed", 0), ("transposed", 0), ("causal", 1)])
def test_which_conditions_are_left(name: str, left: int) -> None:
    """A mask is none that a subscript is inside its tensor."""
    assert conditions(as_windows(lowered(plain(name)))) == left


def test_a_condition_of_data_stays() -> None:
    text = "fun f (x : E[n]) (k : E[n]) (y : E[n]) = sum i => if y[i] > 0.0 then x[i] * k[i] else 0.0"
    program = lowered(text)
    assert as_windows(program).block == program.block


@pytest.mark.parametrize(("stride", "kernel"), [(1, 3), (2, 3), (2, 1), (3, 5)])
def test_gradients_of_convolutions_are_products(stride: int, kernel: int) -> None:
    """On the tensor cores, by images as by kernels."""
    text = STRIDED
    values = {"PADDING": kernel // 2, "STRIDE": stride, "DILATION": 1, "ROWS": kernel, "COLUMNS": kernel}
    for name, number in values.items():
        text = text.replace(name, str(number))
    program = compiler.lower(checked(text.replace("E[", "bf16[")), "f", None)
    sizes = {"n": 64, "c": 256, "o": 256, "h": 28, "w": 28}
    bound = {s: sizes[s.name] for s in {*program.explicit, *program.contract.determined()}}
    stepped = Ordered(program).at(bound)
    kernels = [kernel for _, made, own in stepped.foreseen(bound) for kernel in made.built({}, own)[0].planned.kernels]
    families = list(map(family_of, kernels))
    assert families.count("contraction") == 3
    # What else is summed are parts of a product.
    inputs = {value.symbol for value in program.inputs}
    assert all(inputs.isdisjoint(reads_of(k)) for k, family in zip(kernels, families, strict=True) if family == "reduce")


@pytest.mark.parametrize(("stride", "kernel"), [(1, 3), (2, 3), (2, 1)])
def test_simulated_gradients(stride: int, kernel: int) -> None:
    import axon

    text = STRIDED
    for name, number in {"PADDING": kernel // 2, "STRIDE": stride, "DILATION": 1, "ROWS": kernel, "COLUMNS": kernel}.items():
        text = text.replace(name, str(number))
    module = axon.compile(text.replace("E[", "bf16["))
    chance = np.random.default_rng(0)
    out = (9 + 2 * (kernel // 2) - kernel) // stride + 1
    shapes = (2, 8, 9, 9), (16, 8, kernel, kernel), (2, 16, out, out)
    given = [chance.integers(-2, 3, shape).astype(Element.BF16.dtype) for shape in shapes]
    (y, slopes), (z, others) = (module.f(*given, target=target) for target in ("interpret", "simulate"))
    for one, other in zip((y, *slopes), (z, *others), strict=True):
        np.testing.assert_array_equal(np.asarray(one, np.float32), np.asarray(other, np.float32))
