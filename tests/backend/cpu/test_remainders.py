"""Sums that divide their result's indices: as products by remainders, against the definition; and choices that sizes make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.cpu.executable import CpuExecutable
from axon.backend.plan.ir import Contraction, Kernels, Nest
from axon.compiler import check_text, lower

Array = Any

TEXT = """
import nn
fun turned {stride, padding, dilation, groups, extra} (x : 'a[n, groups * c, h, w]) (k : 'a[groups * c, o, r, s])
    where dilation >= 1 =
  nn.conv2d_transpose_with {stride, padding, dilation, groups, extra} x k
fun wide (x : 'a[c, n]) (k : 'a[c, o, r]) = for o, p < 3 * n => sum a i => x[a, (p + 7) / 3 - i | 0] * k[a, o, i]
fun integers (x : i32[c, n]) (k : i32[c, o, r]) =
  for o, p < 2 * n => sum for a, i < r / 2 + 1 => x[a, p / 2 - i | 0] * k[a, o, p % 2 + 2 * i | 0]
"""


@pytest.fixture(scope="module")
def module() -> axon.Module:
    return axon.compile(TEXT)


def by_definition(x: Array, k: Array, stride: int, padding: int, dilation: int, groups: int, extra: int) -> Array:
    """Every element becomes a kernel, which is added where it lies."""
    n, channels, h, w = x.shape
    _, o, r, s = k.shape
    high, wide = ((size - 1) * stride + dilation * (window - 1) + 1 + extra for size, window in ((h, r), (w, s)))
    out = np.zeros((n, groups * o, high, wide))
    for g in range(groups):
        mine = slice(g * channels // groups, (g + 1) * channels // groups)
        for i, j in np.ndindex(r, s):
            part = np.einsum("nchw,co->nohw", x[:, mine].astype(np.float64), k[mine, :, i, j].astype(np.float64))
            rows, columns = (slice(at * dilation, at * dilation + (size - 1) * stride + 1, stride) for at, size in ((i, h), (j, w)))
            out[:, g * o : (g + 1) * o, rows, columns] += part
    return out[:, :, padding : high - padding, padding : wide - padding]


def test_transposed_convolutions(module: axon.Module) -> None:
    chance = np.random.default_rng(0)
    pick = lambda *of: int(chance.choice(of))
    computed = 0
    while computed < 14:
        stride, padding, dilation, groups, extra = (
            pick(1, 2, 2, 3, 5),
            pick(0, 1, 2, 3),
            pick(1, 1, 1, 2),
            pick(1, 1, 2),
            pick(0, 0, 1),
        )
        n, c, o, h, w, r, s = pick(1, 2), pick(1, 3), pick(1, 4), pick(1, 5, 8), pick(1, 6, 19), pick(1, 2, 3, 4), pick(1, 2, 3, 5)
        least = min((size - 1) * stride + dilation * (window - 1) + 1 + extra for size, window in ((h, r), (w, s)))
        if least <= 2 * padding:
            continue
        computed += 1
        dtype = np.float32 if computed % 2 else np.float64
        x = chance.standard_normal((n, groups * c, h, w)).astype(dtype)
        k = chance.standard_normal((groups * c, o, r, s)).astype(dtype)
        true = by_definition(x, k, stride, padding, dilation, groups, extra)
        for _ in range(3):  # the third is replayed
            found = module.turned[stride, padding, dilation, groups, extra](x, k, target="cpu")
        tolerance = 1e-4 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found, true, rtol=tolerance, atol=tolerance)


def executable(name: str) -> CpuExecutable:
    return CpuExecutable(lower(check_text(TEXT.replace("'a", "f32")), name, None))


def nests(body: Kernels) -> list[Nest]:
    return [kernel for kernel in body.kernels if isinstance(kernel, Nest)]


@pytest.mark.parametrize(("stride", "divided"), [(1, 0), (2, 1), (3, 1)])
def test_only_the_sum_that_a_stride_asks_for_is_computed(stride: int, divided: int) -> None:
    made = executable("turned")
    shapes = ((2, 8, 30, 30), (8, 4, 3, 3))
    dims = made.program.contract.bind((stride, 1, 1, 1, 0), shapes)
    body = made.body(dims)
    sums = [kernel for kernel in nests(body) if kernel.family == "reduce"]
    assert len(sums) == divided
    assert sum(isinstance(kernel, Contraction) for kernel in body.kernels) == 1 - divided
    for kernel in sums:
        remainders = made.remainders(kernel, dims)
        assert remainders is not None
        assert len(remainders.classes) == stride * stride


def at(array: Array, index: int) -> Array:
    """The last index of an array; 0 beside it."""
    return array[..., index] if 0 <= index < array.shape[-1] else np.zeros_like(array[..., 0])


def test_what_else_divides_an_index(module: axon.Module) -> None:
    """A padding above the stride; and integers, of which no product is taken."""
    chance = np.random.default_rng(1)
    x, k = chance.standard_normal((3, 40)), chance.standard_normal((3, 5, 4))
    true = [sum(at(x, (p + 7) // 3 - i) @ k[:, :, i] for i in range(4)) for p in range(120)]
    np.testing.assert_allclose(module.wide(x, k, target="cpu"), np.transpose(true), rtol=1e-12, atol=1e-12)
    made = executable("wide")
    (nest,) = nests(made.plan.body)
    assert made.remainders(nest, made.program.contract.bind((), ((3, 40), (3, 5, 4)))) is not None
    x, k = (chance.integers(-9, 9, shape).astype(np.int32) for shape in ((3, 40), (3, 5, 4)))
    true = [sum(at(x, p // 2 - i) @ at(k, p % 2 + 2 * i) for i in range(3)) for p in range(80)]
    np.testing.assert_array_equal(module.integers(x, k, target="cpu"), np.transpose(true))
