"""Sums of products in several parts, compiled: einsum in float64 agrees at all sizes, also where ranges are empty."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon.base.element import Element

SIZES = ((3, 4, 5, 6), (40, 2, 30, 1), (1, 30, 2, 40), (7, 0, 5, 6), (7, 5, 0, 6), (0, 3, 4, 5))
EQUATIONS = (
    "ij,jk,kl->il", "ik,k,kj->ij", "i,ij,jl->l", "ij,kl->ik", "iik,kj->ij", "ikjl,kl->ij", "ijk,jl,kl->il", "ijk,jkl->il",
)  # fmt: skip


def source(equation: str, element: str) -> str:
    operands, result = equation.split("->")[0].split(","), equation.split("->")[1]
    params = " ".join(f"(x{n} : {element}[{', '.join(o)}])" for n, o in enumerate(operands))
    body = " * ".join(f"x{n}[{', '.join(o)}]" for n, o in enumerate(operands))
    summed = [i for i in dict.fromkeys("".join(operands)) if i not in result]
    return f"fun f {params} = for {' '.join(result)} => sum {' '.join(summed)} => {body}"


CASES = [*((equation, Element.F32) for equation in EQUATIONS), (EQUATIONS[0], Element.BF16), (EQUATIONS[0], Element.I32)]


@pytest.mark.parametrize(("equation", "element"), CASES)
def test_einsum(equation: str, element: Element) -> None:
    module = axon.compile(source(equation, element.value))
    rng = np.random.default_rng(0)
    for sizes in SIZES:
        lengths = dict(zip("ijkl", sizes, strict=True))
        shapes = [tuple(lengths[i] for i in operand) for operand in equation.split("->")[0].split(",")]
        arrays = [rng.integers(-4, 5, shape).astype(element.dtype) for shape in shapes]  # exact in every element type on the way
        want = np.einsum(equation, *[a.astype(np.float64) for a in arrays]).astype(element.dtype)
        for target in ("cpu", "interpret"):
            assert np.array_equal(module.f(*arrays, target=target), want), (equation, sizes, target)


def test_an_order_for_each_size_and_no_memory_of_calls() -> None:
    """Which order a call takes follows from its sizes: the same bits whatever was called before."""
    text = source("ij,jk,kl->il", "f32")
    rng = np.random.default_rng(0)
    shapes = [((n, m), (m, m), (m, k)) for n, m, k in ((2, 50, 50), (50, 50, 2), (30, 40, 30))]
    inputs = [[rng.standard_normal(shape).astype(np.float32) for shape in one] for one in shapes]
    forwards, backwards = axon.compile(text), axon.compile(text)
    first = [forwards.f(*given, target="cpu") for given in inputs]
    last = [backwards.f(*given, target="cpu") for given in inputs[::-1]][::-1]
    assert all(np.array_equal(x, y) for x, y in zip(first, last, strict=True))


def test_a_sum_of_nothing_is_0_whatever_else_is_infinite() -> None:
    module = axon.compile(source("ij,jk,kl->il", "f32"))
    a, b, c = (np.full(shape, np.inf, np.float32) for shape in ((2, 3), (3, 0), (0, 4)))
    assert np.array_equal(module.f(a, b, c, target="cpu"), np.zeros((2, 4)))
