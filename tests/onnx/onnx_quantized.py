"""Templates of quantized operators: integers that stand for (integer - zero point) * scale."""

from __future__ import annotations

import numpy as np

from axon.base.element import Element
from tests.onnx.onnx_node import Node, NotOffered, at, names, number, over, template
from tests.onnx.onnx_reductions import matmul

_RANGE = {Element.U8: (0, 255), Element.I8: (-128, 127)}
_FINITE = {Element.F8E4M3: 448.0, Element.F8E5M2: 57344.0}


def beside(n: Node, k: int, i: list[str]) -> str:
    """A scale or a zero point, of the whole, of each slice along an axis, or of each block."""
    if n.rank(k) == 0 or (n.inputs[k].size == 1 and n.rank(k) <= 1):
        return at(n.x(k), ["0"] * n.rank(k))
    axis = n.axis(1)
    if n.rank(k) == 1:
        return at(n.x(k), [i[axis]])
    block = n.a("block_size")
    return at(n.x(k), [f"{index} / {block}" if m == axis else index for m, index in enumerate(i)])


def quantized(value: str, zero: str, to: Element) -> str:
    """The nearest integer of a type, or its end."""
    if to in _FINITE:
        limit = number(_FINITE[to], Element.F32)
        return f"cast {to.value} (max (-{limit}) (min {limit} ({value} + {zero})))"
    if to not in _RANGE:
        raise NotOffered(f"quantization to {to.value}")
    low, high = _RANGE[to]
    return f"cast {to.value} (max ({low}.0) (min {high}.0 (round ({value}) + {zero})))"


@template("QuantizeLinear")
def quantize_linear(n: Node) -> str:
    i, to = names(n.rank()), n.result()
    of = n.element(1).value
    zero = f"cast {of} {beside(n, 2, i)}" if n.has(2) else "0.0"
    x = at(n.x(), i)
    if n.element() is not n.element(1):
        x = f"cast {of} {x}"
    return over(i, n.shape(), quantized(f"{x} / {beside(n, 1, i)}", zero, to))


@template("DequantizeLinear")
def dequantize_linear(n: Node) -> str:
    i, of = names(n.rank()), n.element(1).value
    x = f"cast {of} {at(n.x(), i)}"
    if n.has(2):
        x = f"({x} - cast {of} {beside(n, 2, i)})"
    return over(i, n.shape(), f"{x} * {beside(n, 1, i)}")


@template("DynamicQuantizeLinear")
def dynamic_quantize_linear(n: Node) -> str:
    i = names(n.rank())
    high = n.val(f"max 0.0 (max {' '.join(i)} => {at(n.x(), i)})")
    low = n.val(f"min 0.0 (min {' '.join(i)} => {at(n.x(), i)})")
    scale = n.val(f"({high} - {low}) / 255.0")
    zero = n.val(f"max 0.0 (min 255.0 (round (-{low} / {scale})))")
    y = over(i, n.shape(), quantized(f"{at(n.x(), i)} / {scale}", zero, Element.U8))
    return f"({y}, {scale}, cast u8 {zero})"


@template("MatMulInteger")
def mat_mul_integer(n: Node) -> str:
    a = n.val(f"for ..i => cast i32 {n.x(0)}[..i] - {f'cast i32 {n.x(2)}[0]' if n.has(2) else '0'}")
    b = n.val(f"for ..i => cast i32 {n.x(1)}[..i] - {f'cast i32 {n.x(3)}[0]' if n.has(3) else '0'}")
    return matmul(n, a, b, n.shape(0), n.shape(1))


def scalar(n: Node, k: int) -> str:
    return at(n.x(k), ["0"] * n.rank(k))


@template("QLinearMatMul")
def q_linear_mat_mul(n: Node) -> str:
    a = n.val(f"for ..i => cast i32 {n.x(0)}[..i] - cast i32 {scalar(n, 2)}")
    b = n.val(f"for ..i => cast i32 {n.x(3)}[..i] - cast i32 {scalar(n, 5)}")
    whole = n.val(matmul(n, a, b, n.shape(0), n.shape(3)))
    factor = f"(cast f32 {scalar(n, 1)} * cast f32 {scalar(n, 4)} / cast f32 {scalar(n, 6)})"
    return f"for ..i => {quantized(f'cast f32 {whole}[..i] * {factor}', f'cast f32 {scalar(n, 7)}', n.result())}"


@template("QLinearConv")
def q_linear_conv(n: Node) -> str:
    if n.inputs[4].size != 1 or n.a("group") != 1 or n.a("pads") or n.a("strides"):
        raise NotOffered("scales of each channel")
    x = n.val(f"for ..i => cast i32 {n.x(0)}[..i] - cast i32 {scalar(n, 2)}")
    w = n.val(f"for ..i => cast i32 {n.x(3)}[..i] - cast i32 {scalar(n, 5)}")
    whole = n.val(f"for n o p q => sum c r s => {x}[n, c, p + r, q + s] * {w}[o, c, r, s]")
    factor = f"(cast f32 {scalar(n, 1)} * cast f32 {scalar(n, 4)} / cast f32 {scalar(n, 6)})"
    return f"for ..i => {quantized(f'cast f32 {whole}[..i] * {factor}', f'cast f32 {scalar(n, 7)}', n.result())}"


_ = np
