"""Programs through the simulator agree with the interpreter where infinities, wrapping and plain kernels are near."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon

SCORES = """
fun f (m : i32[b]) (q : f32[b, s, d]) (k : f32[b, t, d]) (v : f32[b, t, e]) =
  let val x = for b i j => (sum c => q[b, i, c] * k[b, j, c]) * rsqrt (cast f32 d) {body} end
"""
SOFTMAX = (
    "val y = for b i j => {change} val m = for b i => max j => y[b, i, j] val z = for b i => sum j => exp (y[b, i, j] - m[b, i])"
    " in for b i e => (sum j => exp (y[b, i, j] - m[b, i]) * v[b, j, e]) / z[b, i]"
)
WEIGHTS = (
    "val m = for b i => max j => x[b, i, j] - 9.0 val w = for b i j => {weight} val z = for b i => sum j => w[b, i, j]"
    " in for b i e => (sum j => w[b, i, j] * v[b, j, e]) / z[b, i]"
)
BODIES = {
    "a scale that is 0 in the first row": SOFTMAX.format(change="x[b, i, j] * cast f32 i"),
    "a root that is 0 in the first row": SOFTMAX.format(change="x[b, i, j] * sqrt (cast f32 i)"),
    "a scale that underflows": SOFTMAX.format(change="x[b, i, j] * exp (cast f32 m[b])"),
    "weights that grow as scores fall": WEIGHTS.format(weight="exp (m[b, i] - x[b, i, j])"),
    "weights that are all 1": WEIGHTS.format(weight="exp (0.0 * (m[b, i] - x[b, i, j]))"),
    "a scale of either sign": WEIGHTS.format(weight="exp (cast f32 (i - 3) * 0.1 * (x[b, i, j] - m[b, i]))"),
    "weights over their maximum": WEIGHTS.format(weight="x[b, i, j] / m[b, i]"),
    "a mask up to the greatest integer": SOFTMAX.format(change="if j <= m[b] + 2147483647 + 150 then x[b, i, j] else -inf"),
    "a mask that wraps": SOFTMAX.format(change="if j = 0 orelse j * 100000000 > 0 then x[b, i, j] else -inf"),
    "a mask by the greater of two": SOFTMAX.format(change="if max i j < 100 orelse j = i then x[b, i, j] else -inf"),
    "a narrow mask": SOFTMAX.format(change="if cast u8 j < cast u8 10 then x[b, i, j] else -inf"),
}


@pytest.mark.parametrize("name", BODIES)
def test_streams_agree(name: str) -> None:
    text = SCORES.format(body=BODIES[name])
    products = {"q[b, i, c] * k[b, j, c]": "cast f32 q[b, i, c] * cast f32 k[b, j, c]", "v[b, j, e]": "cast f32 v[b, j, e]"}
    short = text.replace("f32[", "bf16[")
    for wide, cast in products.items():
        short = short.replace(wide, cast)
    narrow = axon.compile(short)
    exact = axon.compile(text.replace("f32", "f64"))
    chance = np.random.default_rng(0)
    m = np.array([-200, -150], np.int32)
    held = [chance.standard_normal((2, n, 16)).astype(ml_dtypes.bfloat16) for n in (70, 131, 131)]
    got = np.asarray(narrow.f(m, *held, target="simulate"), np.float64)
    want = exact.f(m, *[x.astype(np.float64) for x in held], target="interpret")
    assert np.isfinite(want).all()
    assert np.abs(got - want).max() <= 0.02 * np.abs(want).max()


PROGRAMS: dict[str, tuple[str, list[Any]]] = {
    "a scalar": ("fun f (x : f16) (a : f16[i, k]) (b : f16[k, j]) = for i j => x * (sum k => a[i, k] * b[k, j])", [np.float16(3)]),
    "saturation": ("fun f a b = for i j => cast f16 (cast i8 ((sum k => a[i, k] * b[k, j]) * 60000.0))", []),
    "integers that wrap": (
        "fun f (m : i32[i]) (a : f16[i, k]) (b : f16[k, j]) ="
        " for i j => (sum k => a[i, k] * b[k, j]) * (if m[i] * m[i] > 0 then 1.0 else 2.0)",
        [np.array([65536, 3] * 8, np.int32)],
    ),
    "integers of every width": (
        "fun f (p : i16[i]) (q : u16[j]) (r : u32[i, j]) (s : u64[j]) (t : i64[i]) (a : f16[i, k]) (b : f16[k, j]) ="
        " for i j => (sum k => a[i, k] * b[k, j]) + cast f16 (p[i] * p[i] / 9000) + cast f16 (q[j] % 7)"
        " + cast f16 (shift_right (bit_xor (r[i, j] * r[i, j]) 9) 29) + cast f16 (max s[j] 7 % 5) + cast f16 ((t[i] * t[i]) % 11)",
        [
            np.arange(16, dtype=np.int16) * 2000,
            np.arange(8, dtype=np.uint16) * 9000,
            np.arange(128, dtype=np.uint32).reshape(16, 8) * np.uint32(33_000_001),
            np.arange(8, dtype=np.uint64) * np.uint64(2**60 + 1),
            np.arange(16) * (2**33 + 5),
        ],
    ),
    "functions of every kind": (
        "fun f (w : f64[j]) (e : f8e4m3[i]) (a : f16[i, k]) (b : f16[k, j]) ="
        " for i j => let val x = sum k => a[i, k] * b[k, j] in lgamma (abs x + 1.0) + erfinv (x * 0.001) + cbrt x + atan2 x 2.0"
        " + digamma (abs x + 1.0) + cast f16 (exp w[j]) + cast f16 e[i] % 2.0 end",
        [np.linspace(-1, 2, 8), np.linspace(-3, 4, 16).astype(ml_dtypes.float8_e4m3fn)],
    ),
    "a plain kernel": ("fun f (a : f16[i, k]) (b : f16[k, j]) = (sin a, max i j => b[i, j])", []),
    "a bias that is stretched": (
        "fun f (c : f16[1, j]) (a : f16[i, k]) (b : f16[k, j]) = a @ b + c",
        [np.ones((1, 8), np.float16)],
    ),
    "a loop": ("fun f (a : f16[i, i]) (b : f16[i, j]) = loop (x = b) for n < 3 => (a @ x) * 0.5", []),
    "two attentions": (
        "import nn\nfun f (a : f16[i, k]) (b : f16[k, j]) = (nn.attention a a a, nn.causal_attention a a a)",
        [],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree(name: str) -> None:
    text, first = PROGRAMS[name]
    chance = np.random.default_rng(1)
    given = [*first, *(chance.standard_normal(shape).astype(np.float16) for shape in ((16, 16), (16, 8)))]
    module = axon.compile(text)
    got, want = (module.f(*given, target=target) for target in ("simulate", "interpret"))
    for mine, right in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        np.testing.assert_allclose(np.asarray(mine, np.float64), np.asarray(right, np.float64), rtol=0.02, atol=0.02)


@pytest.mark.parametrize(("op", "minus"), [("max", "-abs"), ("min", "abs")])
def test_of_two_zeros_plus_zero_is_the_greater(op: str, minus: str) -> None:
    """In an epilogue, as everywhere (docs/core.md)."""
    product = "cast f32 (sum k => a[i, k] * b[k, j])"
    module = axon.compile(
        f"fun f (a : f16[i, k]) (b : f16[k, j]) (x : f32[i, j]) = for i j => {op} ({minus} ({product})) x[i, j]\n"
        f"fun g (a : f16[i, k]) (b : f16[k, j]) (x : f32[i, j]) = for i j => {op} x[i, j] ({minus} ({product}))"
    )
    nothing, signs = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float32)
    signs[::2] = -0.0
    for f in (module.f, module.g):
        for target in ("simulate", "interpret", "cpu"):
            np.testing.assert_array_equal(np.signbit(f(nothing, nothing, signs, target=target)), np.signbit(signs))
