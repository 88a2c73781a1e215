"""Products of f32 whose factors are rounded to tf32: one product at half the rate of bf16, not six, where a schedule allows it.

Note [tf32]
    A tf32 value is an f32 one with 11 of its 24 significant bits. With `precision = "tf32"` for a function, what multiplies two
    factors of f32 may round both to that: to nearest, ties to even, while they are copied into shared memory (the tensor map says
    so), infinities and NaN as they are. Products of tf32 values are exact; sums are the tensor core's, in f32, cut off where f32
    would round. So for every element, with A and B the absolute values of the factors,

        |error| ≤ (1 + (depth + 8) / 2¹⁴) · 2⁻¹⁰ · (A · B)

    by the worst case: 2⁻¹⁰ + 2⁻²² by rounding both factors, and of each matrix instruction, which has 8 of the depth, what aligning
    9 addends to the greatest cuts off, with two bits more than f32 has. A factor within 2⁻¹² of the largest f32 becomes an
    infinity, and one below 2⁻¹²⁶ a multiple of 2⁻¹³⁶.

    Matrix instructions for 32 bits do not transpose: both factors must lie in shared memory along what is summed, and bulk copies
    bring them as they lie. What lies otherwise is copied first, or the product is a plain kernel in f32, by cost (`packed`).
    Nothing else is rounded: a product of f32 by a narrower factor has its parts as ever (see `limbs`), and what sizes make better
    without tensor cores keeps all bits.
"""

from __future__ import annotations

from axon.backend.gpu.tile.contraction import MatrixProduct, factors_of
from axon.base.element import Element
from axon.core.ir import Compute, Op, element_of

INSTRUCTION_DEPTH = 8


def rounded(kernel: object) -> bool:
    """Whether a kernel is a product that rounds its factors. Matrix instructions take f32 in no other way."""
    return isinstance(kernel, MatrixProduct) and kernel.computed is None and kernel.left.value.element is Element.F32


def error_bound(depth: int) -> float:
    """c of |error| ≤ c · 2⁻¹⁰ · (A · B), for a product over so many; see Note [tf32]."""
    return 1 + (depth + INSTRUCTION_DEPTH) / 2**14


def sums_products(op: Op, *, narrow: bool) -> bool:
    """Whether an operation sums products of floats, of which those of f32 may be rounded; or, `narrow`, of 8-bit ones."""
    if not isinstance(op, Compute) or op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1:
        return False
    elements = [element_of(factor) for factor in factors_of(op)[0]]
    return sum(element.is_float and (not narrow or element.bits == 8) for element in elements) > 1
