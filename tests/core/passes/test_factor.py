"""Sums of products in another order: the same integers bit for bit, the same floats up to rounding, no NaN where there was a 0."""

from __future__ import annotations

import os
from itertools import pairwise
from math import prod
from random import Random

import numpy as np
import pytest

from axon import compiler
from axon.base.element import Element
from axon.base.names import fresh
from axon.core.ir import Compute, Convert, Program, Scalar, Unary
from axon.core.passes.factor import DEVICE, HOST, Rates, choices, factored
from axon.core.passes.orders import Shape, Tree, candidates, cost, leaves, order_at
from axon.core.printer import print_program
from axon.core.verify import verify
from axon.interpret import run
from tests.core.build import BF16, F16, F32, F64, I8, I32, Build, at, index, ix, lit, op, sizes

MANY = 1500 if os.environ.get("AXON_SOAK") else 60
CHAIN = "fun f (a : f32[i, j]) (b : f32[j, k]) (c : f32[k, l]) = for i l => sum j k => a[i, j] * b[j, k] * c[k, l]"


def lowered(text: str) -> Program:
    return compiler.lower(compiler.check_text(text), "f", None)


def text(program: str, rates: Rates = HOST) -> list[str]:
    """The operations of a program without its copy of the result, factored."""
    lines = print_program(factored(lowered(program), rates)).splitlines()
    return [line.strip() for line in lines[1:] if "result : " not in line and "return" not in line]


# ── what is made ────────────────────────────────────────────────────────────────────────────────────────────────────────

MADE = {
    CHAIN: [
        "partial : f32[j, l] = for j2, l2 => sum k2 < k => b[j2, k2] * c[k2, l2]",
        "sum : f32[i, l] = for i2, l2 => sum j2 < j where k > 0 => a[i2, j2] * partial[j2, l2]",
    ],
    "fun f (a : f32[i, 4]) (b : f32[4, 8]) (c : f32[8, l]) = for i l => sum j k => a[i, j] * b[j, k] * c[k, l]": [
        "partial : f32[4, l] = for j, l2 => sum k < 8 => b[j, k] * c[k, l2]",
        "sum : f32[i, l] = for i2, l2 => sum j < 4 => a[i2, j] * partial[j, l2]",
    ],
    "fun f (a : f32[i, j, k]) (b : f32[l, m]) = for i l => sum j k m => a[i, j, k] * b[l, m]": [
        "partial : f32[i] = for i2 => sum j2 < j, k2 < k => a[i2, j2, k2]",
        "partial2 : f32[l] = for l2 => sum m2 < m => b[l2, m2]",
        "sum : f32[i, l] = for i2, l2 => if j > 0 andalso k > 0 andalso m > 0 then partial[i2] * partial2[l2] else 0.0",
    ],
    "fun f (a : i32[i, j]) (b : i32[l, m]) = for i l => sum j m => a[i, j] * b[l, m]": [
        "partial : i32[i] = for i2 => sum j2 < j => a[i2, j2]",
        "partial2 : i32[l] = for l2 => sum m2 < m => b[l2, m2]",
        "sum : i32[i, l] = for i2, l2 => partial[i2] * partial2[l2]",
    ],
    "fun f (a : bf16[i, 9]) (b : bf16[9, k]) (c : bf16[k, l]) = for i l => sum j k => a[i, j] * b[j, k] * c[k, l]": [
        "partial : f32[9, l] = for j, l2 => sum k2 < k => cast f32 b[j, k2] * cast f32 c[k2, l2]",
        "sum : f32[i, l] = for i2, l2 => sum j < 9 where k > 0 => cast f32 a[i2, j] * partial[j, l2]",
        "sum2 : bf16[i, l] = for i2, l2 => cast bf16 sum[i2, l2]",
    ],
    # what the program multiplies over the same axes is rounded as it says
    "fun f (x : bf16[i, k]) (w : bf16[j, k]) (s : bf16[j, k]) = for i j => sum k => x[i, k] * (w[j, k] * s[j, k])": [
        "factor : bf16[j, k] = for j2, k2 => w[j2, k2] * s[j2, k2]",
        "sum : bf16[i, j] = for i2, j2 => sum k2 < k => x[i2, k2] * factor[j2, k2]",
    ],
    # nothing to be gained: a product, a pass over what has all indices, a condition, an extent that depends on an index
    "fun f (a : f32[i, k]) (b : f32[k, j]) = for i j => sum k => a[i, k] * b[k, j]": None,
    "fun f (a : f32[i, k]) (w : f32[k]) (x : f32[k]) = for i => sum k => a[i, k] * w[k] * x[k]": None,
    "fun f (a : f32[i, k]) (s : f32[i]) = for i => 2.0 * sum k => a[i, k] * s[i]": None,
    CHAIN.replace("sum j k =>", "sum for j k where j < k =>"): None,
}


@pytest.mark.parametrize("program", MADE, ids=range(len(MADE)))
def test_the_operations(program: str) -> None:
    wanted = MADE[program]
    given = lowered(program)
    if wanted is None:
        assert factored(given, HOST).block == given.block
    else:
        assert text(program) == wanted


def test_what_scales_goes_into_an_operand_or_stays_with_the_result() -> None:
    program = """fun f (a : f32[i, 512]) (w : f32[512]) (b : f32[512, 8]) (s : f32[i]) = for i j =>
      sum k => a[i, k] * w[k] * b[k, j] * s[i]"""
    factor = "factor : f32[512, 8] = for k, j => w[k] * b[k, j]"
    assert text(program, DEVICE) == [factor, "sum : f32[i, 8] = for i2, j => sum k < 512 => a[i2, k] * factor[k, j] * s[i2]"]
    # Without epilogues all that scales goes where it costs least: nothing is left beside the two factors.
    (product,) = (line for line in text(program) if "sum k" in line)
    assert product.count(" * ") == 1


# ── which order ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sizes_decide() -> None:
    program = lowered(CHAIN)
    (choice,) = found = choices(program, HOST)
    orders = {}
    for shape in ((4, 900, 900, 900), (900, 900, 900, 4)):
        orders[shape] = order_at(found, program.contract.bind((), list(pairwise(shape))))
    (_, first), (_, last) = (order[0] for order in orders.values())
    assert {first, last} == set(choice.trees) == {((0, 1), 2), (0, (1, 2))}
    assert first == ((0, 1), 2)
    made = factored(program, HOST, orders[(4, 900, 900, 900)]).block.ops[0]
    assert isinstance(made, Compute)
    assert [axis.symbol.name for axis in made.axes] == ["i", "k"]


def trees(factors: tuple[int, ...]) -> list[Tree]:
    if len(factors) == 1:
        return [factors[0]]
    found: list[Tree] = []
    for mask in range(1, 2 ** (len(factors) - 1)):
        right = tuple(f for n, f in enumerate(factors[1:]) if mask >> n & 1)
        left = tuple(f for f in factors if f not in right)
        found += [(x, y) for x in trees(left) for y in trees(right)]
    return found


def test_the_best_of_all_trees_is_found() -> None:
    random = Random(3)
    for _ in range(40):
        axes = [fresh(name) for name in "abcde"]
        factors = tuple(frozenset(random.sample(axes, random.randint(0, 3))) for _ in range(random.randint(2, 4)))
        shape = Shape(factors, tuple(random.random() < 0.7 for _ in factors), frozenset(random.sample(axes, 2)))
        along = {axis: random.choice([1, 2, 30, 700]) for axis in axes}
        (tree,) = candidates(shape, [along], 24)
        assert leaves(tree) == frozenset(range(len(factors)))
        every = trees(tuple(range(len(factors))))
        assert cost(shape, tree, along, 24) == pytest.approx(min(cost(shape, other, along, 24) for other in every))


# ── what it means ───────────────────────────────────────────────────────────────────────────────────────────────────────


def made(random: Random, element: Element) -> tuple[Program, list[np.ndarray]]:
    """A sum of a product of two to four factors over some axes, of which ranges may be empty; and inputs."""
    build = Build()
    dims = dict(zip("abcd", sizes("abcd"), strict=True))
    lengths = {name: random.choice([0, 1, 1, 2, 3, 4, 5]) for name in dims}
    axes = {name: ix(name, extent) for name, extent in dims.items()}
    arrays: list[np.ndarray] = []
    body: Scalar | None = None
    for n in range(random.randint(2, 4)):
        names = random.sample("abcd", random.randint(0, 3))
        if random.random() < 0.2 and names:
            names.append(names[0])  # a diagonal
        value = build.input(f"x{n}", element, *(dims[name] for name in names))
        shape = tuple(lengths[name] for name in names)
        arrays.append(numbers(random, element, shape))
        factor: Scalar = at(value, *(axes[name] for name in names))
        match random.randrange(6):
            case 0:
                factor = Unary("neg", factor)
            case 1:
                factor = op("add", factor, lit(1, element))
            case 2 if names:
                factor = op("mul", factor, Convert(index(axes[names[0]]), element))
        body = factor if body is None else op("mul", body, factor)
    for name, extent in dims.items():  # every dimension is found in a shape
        build.input("e", F32, extent)
        arrays.append(np.zeros(lengths[name], np.float32))
    assert body is not None
    kept = random.sample("abcd", random.randint(0, 3))
    over = [axes[name] for name in "abcd" if name not in kept]
    result = build.compute([axes[name] for name in kept], body, over=over, by="sum")
    return build.program(result), arrays


def numbers(random: Random, element: Element, shape: tuple[int, ...]) -> np.ndarray:
    count = prod(shape)
    if element.is_integer:
        found = [random.randint(-(2**31), 2**31 - 1) if element is I32 else random.randint(-128, 127) for _ in range(count)]
    else:
        special = [np.inf, -np.inf, np.nan] if random.random() < 0.2 else [0.0]
        found = [random.choice(special) if random.random() < 0.2 else random.uniform(-2, 2) for _ in range(count)]
    return np.array(found, np.float64).astype(element.dtype).reshape(shape)


@pytest.mark.parametrize("rates", [HOST, DEVICE], ids=["host", "device"])
@pytest.mark.parametrize("element", [F32, F64, BF16, F16, I32, I8], ids=lambda e: e.value)
def test_the_interpreter_gives_the_same(element: Element, rates: Rates) -> None:
    random = Random(f"{element.value} {rates}")
    changed = 0
    for _ in range(MANY // 2 if element in (F32, I32) else MANY // 6):
        program, arrays = made(random, element)
        verify(program)
        orders = [(), *(((c.symbol, tree),) for c in choices(program, rates) for tree in c.trees)]
        (want,) = run(program, arrays)
        for order in orders:
            other = factored(program, rates, order)
            changed += other.block != program.block
            (got,) = run(other, arrays)
            if element.is_integer:
                assert np.array_equal(got, want), print_program(other)
                continue
            finite = np.isfinite(want.astype(np.float64))
            assert np.array_equal(finite, np.isfinite(got.astype(np.float64))), print_program(other)
            rounding = {BF16: 2e-2, F16: 2e-3}.get(element, 1e-4)
            mine, theirs = (x.astype(np.float64)[finite] for x in (got, want))
            assert np.allclose(mine, theirs, rtol=rounding, atol=rounding), print_program(other)
    assert changed


def test_nothing_of_an_empty_range_is_not_finite() -> None:
    """0 · ∞ would be NaN, where the sum over nothing is 0."""
    program = lowered(CHAIN)
    a, b, c = np.zeros((2, 3), np.float32), np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)
    assert np.array_equal(run(factored(program, HOST), [np.full_like(a, np.inf), b, c])[0], np.zeros((2, 4)))
    assert np.array_equal(run(factored(program, HOST), [a[:, :0], b[:0], c])[0], np.zeros((2, 4)))


def test_narrow_floats_are_rounded_once() -> None:
    """(1 + 2⁻⁸) · (1 + 2⁻⁸) - 1 is lost where an intermediate is rounded to bf16."""
    program = lowered(CHAIN.replace("f32", "bf16"))
    a = np.array([[1.0078125, -1.0]]).astype(BF16.dtype)
    b = np.array([[1.0078125], [1.0]]).astype(BF16.dtype)
    c = np.array([[1.0, 64.0]]).astype(BF16.dtype)
    exact = (a.astype(np.float64) @ b.astype(np.float64) @ c.astype(np.float64)).astype(BF16.dtype)
    assert np.array_equal(run(factored(program, HOST), [a, b, c])[0], exact)
