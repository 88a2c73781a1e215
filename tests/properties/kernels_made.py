"""Random programs that become GPU kernels: contractions with epilogues, and streams (attention and its relatives)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from axon.base.element import Element

_EPILOGUES = (
    "{}", "2.0 * {}", "max {} 0.0", "tanh {}", "{} + row[{j}]", "{} * column[{i}]", "if {j} <= {i} then {} else 0.0",
    "let val s = {} in s * s end", "{} + cast f32 ({i} - {j})",
)  # fmt: skip
_SCORES = (
    "{}", "30.0 * tanh ({} / 30.0)", "if j <= i then {} else -inf", "if i - j < 9 andalso j <= i then {} else -inf",
    "{} + slope[h] * cast f32 (j - i)", "{} + bias[i, j]",
)  # fmt: skip
_SIZES = (1, 2, 7, 8, 33, 65)


@dataclass(frozen=True)
class Kernel:
    text: str
    arguments: Sequence[Any]
    tolerance: float


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    return draw(st.one_of(contractions(), streams()))


@st.composite
def contractions(draw: st.DrawFn) -> Kernel:
    """A product of two tensors in any layout, with batch dimensions or without, and something done to each element of it."""
    element = draw(st.sampled_from((Element.BF16, Element.F16)))
    batch = draw(st.sampled_from(("", "b")))
    left = draw(st.permutations([*batch, "i", "k"]).filter(lambda axes: axes[-1] != "b"))  # no kernel copies such rows
    right = draw(st.permutations([*batch, "j", "k"]).filter(lambda axes: axes[-1] != "b"))
    sizes = {c: draw(st.sampled_from((1, 2, 3))) if c == "b" else draw(st.sampled_from(_SIZES)) for c in "bijk"}
    # The last dimension of a factor is copied by the hardware in pieces of 16 bytes.
    for last in (left[-1], right[-1]):
        sizes[last] = -(-sizes[last] // 8) * 8
    change = draw(st.sampled_from(_EPILOGUES))
    product = f"(sum k => cast f32 x[{', '.join(left)}] * cast f32 y[{', '.join(right)}])"
    out = draw(st.sampled_from(("f32", element.value)))
    body = change.format(product, i="i", j="j")
    shapes = {"x": left, "y": right}
    texts = [f"({name} : {element.value}[{', '.join(axes)}])" for name, axes in shapes.items()]
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    arguments = [rng.standard_normal([sizes[c] for c in axes]).astype(element.dtype) for axes in shapes.values()]
    for name, axis in (("row", "j"), ("column", "i")):
        if f"{name}[" in change:
            texts.append(f"({name} : f32[{axis}])")
            arguments.append(rng.standard_normal(sizes[axis]).astype(np.float32))
    stored = body if out == "f32" else f"cast {out} ({body})"
    text = f"fun main {' '.join(texts)} =\n  for {' '.join([*batch, 'i', 'j'])} => {stored}\n"
    return Kernel(text, arguments, 1e-4 if out == "f32" else 2e-2)


@st.composite
def streams(draw: st.DrawFn) -> Kernel:
    """Attention with some change of its scores."""
    element = draw(st.sampled_from((Element.BF16, Element.F16)))
    b, h, s = draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 8, 40, 66)))
    d, e = 64, draw(st.sampled_from((64, 128)))
    change = draw(st.sampled_from(_SCORES))
    one = element.value
    texts = [f"(q : {one}[b, h, s, d])", f"(k : {one}[b, h, s, d])", f"(v : {one}[b, h, s, e])"]
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    arguments = [rng.standard_normal((b, h, s, size)).astype(element.dtype) for size in (d, d, e)]
    if "slope" in change:
        texts.append("(slope : f32[h])")
        arguments.append(np.abs(rng.standard_normal(h) * 0.1).astype(np.float32))
    if "bias" in change:
        texts.append("(bias : f32[s, s])")
        arguments.append(rng.standard_normal((s, s)).astype(np.float32))
    score = change.format("((sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d))")
    text = (
        f"fun softmax x = for ..i j =>\n  let val m = max k => x[..i, k]\n      val z = sum k => exp (x[..i, k] - m)\n"
        f"  in exp (x[..i, j] - m) / z end\n\nfun main {' '.join(texts)} =\n"
        f"  let val p = softmax (for b h, i < s, j < s => {score})\n"
        f"  in for b h i e => cast {one} (sum j => p[b, h, i, j] * cast f32 v[b, h, j, e]) end\n"
    )
    return Kernel(text, arguments, 2e-2)
