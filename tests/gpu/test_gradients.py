"""Derivatives on a real GPU: those of `tests/language/test_gradients.py`, and networks against PyTorch's autograd in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from tests.language.test_gradients import CASES, PROGRAM, same

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

F = torch.nn.functional
GROUPS = [list(CASES)[n::6] for n in range(6)]

NETWORKS = """
import nn
fun layer (x : E[b, d]) (w : E[d, h]) (c : E[h]) (dy : E[b, h]) =
  vjp (fn (x, w, c) => nn.gelu (nn.dense { w = w, b = c } x)) (x, w, c) dy
fun normalized (x : E[b, d]) (g : E[d]) (c : E[d]) (dy : E[b, d]) =
  vjp (fn (x, g, c) => nn.layer_norm { scale = g, shift = c } x) (x, g, c) dy
fun rms (x : E[b, d]) (g : E[d]) (dy : E[b, d]) = vjp (fn (x, g) => nn.rms_norm g x) (x, g) dy
fun entropy (x : E[b, d]) (t : i32[b]) = grad (fn x => nn.cross_entropy x t) x
fun embedded (w : E[v, d]) (t : i32[b]) (dy : E[b, d]) = vjp (fn w => for i j => w[t[i], j]) w dy
fun convolved (x : E[n, c, y, z]) (w : E[o, c, k, l]) (dy : E[n, o, y - k + 1, z - l + 1]) =
  vjp (fn (x, w) => nn.conv2d x w) (x, w) dy
fun every_second (x : E[n, c, y, z]) (w : E[o, c, 3, 3]) dy = vjp (fn (x, w) => nn.conv2d_with {2, 1, 1, 1} x w) (x, w) dy
fun single (x : E[n, c, y, z]) (w : E[o, c, 1, 1]) dy = vjp (fn (x, w) => nn.conv2d_with {2, 0, 1, 1} x w) (x, w) dy
fun transposed (x : E[n, c, y, z]) (w : E[c, o, 4, 4]) dy = vjp (fn (x, w) => nn.conv2d_transpose {2, 1} x w) (x, w) dy
fun pooled (x : E[n, c, y, z]) (dy : E[n, c, y / 2, z / 2]) = vjp (fn x => nn.max_pool {2} x) x dy
fun attended (q : E[g, t, d]) (k : E[g, s, d]) (v : E[g, s, d]) (dy : E[g, t, d]) = vjp (fn (q, k, v) =>
    let val p = nn.softmax (for h i j => (sum e => q[h, i, e] * k[h, j, e]) * 0.125)
    in for h i e => sum j => p[h, i, j] * v[h, j, e] end) (q, k, v) dy
"""


def moved(value: Any) -> Any:
    if isinstance(value, dict):
        return {n: moved(x) for n, x in value.items()}
    return torch.from_numpy(value).cuda() if isinstance(value, np.ndarray) else value


def back(value: Any) -> Any:
    if isinstance(value, dict):
        return {n: back(x) for n, x in value.items()}
    if isinstance(value, tuple):
        return tuple(map(back, value))
    return value.cpu().numpy() if torch.is_tensor(value) else value


@pytest.mark.parametrize("group", range(6))
def test_derivatives(group: int) -> None:
    m = axon.compile(PROGRAM)
    for name in GROUPS[group]:
        given, wanted = CASES[name]
        same(back(getattr(m, name)(*map(moved, given), target="cuda")), wanted)


def normal(*shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.float64)


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def ids(count: int, most: int) -> Any:
    return torch.randint(0, most, (count,), device="cuda", dtype=torch.int32)


PEERS: dict[str, tuple[Any, Any, int]] = {  # PyTorch's function, inputs, and how many of them it is differentiated by
    "layer": (lambda x, w, c: F.gelu(x @ w + c), lambda: [normal(33, 64), normal(64, 96), normal(96)], 3),
    "normalized": (lambda x, g, c: F.layer_norm(x, x.shape[-1:], g, c), lambda: [normal(17, 200), normal(200), normal(200)], 3),
    "rms": (lambda x, g: F.rms_norm(x, x.shape[-1:], g, 1e-5), lambda: [normal(17, 200), normal(200)], 2),
    "entropy": (lambda x, t: F.cross_entropy(x, t.long()), lambda: [normal(19, 300), ids(19, 300)], 1),
    "embedded": (lambda w, t: w[t.long()], lambda: [normal(70, 40), ids(200, 70)], 1),
    "convolved": (lambda x, w: F.conv2d(x, w), lambda: [normal(2, 3, 17, 18), normal(5, 3, 3, 3)], 2),
    "every_second": (lambda x, w: F.conv2d(x, w, None, 2, 1), lambda: [normal(8, 64, 17, 18), normal(64, 64, 3, 3)], 2),
    "single": (lambda x, w: F.conv2d(x, w, None, 2), lambda: [normal(8, 64, 17, 18), normal(96, 64, 1, 1)], 2),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), lambda: [normal(8, 64, 14, 15), normal(64, 32, 4, 4)], 2),
    "pooled": (lambda x: F.max_pool2d(x, 2), lambda: [normal(2, 3, 16, 18)], 1),
    "attended": (attention, lambda: [normal(3, 33, 64), normal(3, 65, 64), normal(3, 65, 64)], 3),
}


@pytest.mark.parametrize("element", ["f64", "f32", "bf16"])
@pytest.mark.parametrize("name", PEERS)
def test_networks(name: str, element: str) -> None:
    torch.manual_seed(7)
    peer, fresh, count = PEERS[name]
    kind = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16}[element]
    inputs = [x.to(kind) if x.is_floating_point() else x for x in fresh()]
    exact = [x.double().clone().requires_grad_(n < count) if x.is_floating_point() else x for n, x in enumerate(inputs)]
    y = peer(*exact)
    dy = torch.ones((), device="cuda", dtype=kind) if name == "entropy" else torch.randn_like(y).to(kind)
    wanted = torch.autograd.grad(y, exact[:count], dy.double())
    f = getattr(axon.compile(NETWORKS.replace("E[", f"{element}[")), name)
    found = f(*inputs) if name == "entropy" else f(*inputs, dy)[1]
    for mine, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        error = float((mine.double() - theirs).norm() / theirs.norm())
        assert error <= {"f64": 1e-10, "f32": 3e-6, "bf16": 3e-2}[element], (name, element, error)
