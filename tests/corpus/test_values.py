"""The accepted programs compute what NumPy computes: an independent answer for each of the functions below."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

import axon
from tests import ROOT

ACCEPTED = Path(__file__).parent / "accepted"
STDLIB = ROOT / "stdlib"


@cache
def module(name: str) -> axon.Module:
    folder = STDLIB if name in ("nn", "linalg") else ACCEPTED
    return axon.load(folder / f"{name}.axon")


def f32(*shape: int) -> Any:
    """Numbers of both signs that differ from call to call of one test."""
    return np.random.default_rng(sum(shape) + 7 * len(shape)).standard_normal(shape).astype(np.float32)


def i32(*shape: int, below: int = 9) -> Any:
    return np.random.default_rng(len(shape)).integers(0, below, shape).astype(np.int32)


def mask(*shape: int) -> Any:
    return f32(*shape) > 0


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


def convolution(x: Any, k: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[2:], axis=(2, 3))
    return np.einsum("nchwrs,ocrs->nohw", windows, k)


def convolution_same(x: Any, k: Any) -> Any:
    r, s = k.shape[2] // 2, k.shape[3] // 2
    return convolution(np.pad(x, ((0, 0), (0, 0), (r, r), (s, s))), k)


def squares(x: Any, s: int) -> Any:
    n, c, h, w = x.shape
    return x[:, :, : h // s * s, : w // s * s].reshape(n, c, h // s, s, w // s, s)


def power_iteration(steps: int, a: Any, v: Any) -> Any:
    for _ in range(steps):
        v = a @ v
        v = v / np.linalg.norm(v)
    return v


def lstm(p: Any, x: Any) -> Any:
    h = p["u"].shape[0]
    out, memory, outs = np.zeros(h), np.zeros(h), []
    for row in x:
        g = (row @ p["w"] + out @ p["u"] + p["b"]).reshape(4, h)
        i, f, o = (1 / (1 + np.exp(-g[n])) for n in (0, 1, 3))
        memory = f * memory + i * np.tanh(g[2])
        out = o * np.tanh(memory)
        outs.append(out)
    return np.stack(outs)


def layer_norm(p: Any, x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def heads(x: Any, h: int) -> Any:
    return np.swapaxes(x.reshape(*x.shape[:-1], h, -1), -2, -3)


def log_softmax(x: Any) -> Any:
    return np.log(softmax(x))


S, M, V = f32(4, 4), f32(3, 4), f32(4)
SMALL = f32(2, 3, 5, 6)
LINEAR = {"w": f32(4, 3), "b": f32(3)}
NORM = {"scale": f32(4) + 2, "shift": f32(4)}
LSTM = {"w": f32(3, 8), "u": f32(2, 8), "b": f32(8)}

# function, arguments (dimension parameters first, as a tuple, or none), the answer from the arguments
Case = tuple[str, tuple[int, ...], tuple[Any, ...], Callable[..., Any]]
CASES: list[Case] = [
    ("nn.relu", (), (f32(3, 4),), lambda x: np.maximum(x, 0)),
    ("nn.sigmoid", (), (f32(3, 4),), lambda x: 1 / (1 + np.exp(-x))),
    ("nn.softplus", (), (f32(3, 4),), lambda x: np.log1p(np.exp(x))),
    ("nn.silu", (), (f32(5),), lambda x: x / (1 + np.exp(-x))),
    ("nn.gelu", (), (f32(5),), lambda x: x * (1 + erf(x / np.sqrt(2))) / 2),
    ("nn.gelu_tanh", (), (f32(5),), lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ("nn.softmax", (), (f32(2, 3, 4),), softmax),
    ("nn.log_softmax", (), (f32(2, 3, 4),), log_softmax),
    ("nn.layer_norm", (), (NORM, f32(2, 3, 4)), layer_norm),
    ("nn.rms_norm", (), (V, M), lambda s, x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * s),
    ("nn.dense", (), (LINEAR, f32(5, 4)), lambda p, x: x @ p["w"] + p["b"]),
    ("nn.dense", (), (LINEAR, f32(2, 5, 4)), lambda p, x: x @ p["w"] + p["b"]),
    ("nn.conv2d", (), (SMALL, f32(4, 3, 3, 2)), convolution),
    ("nn.conv2d_same", (), (SMALL, f32(4, 3, 3, 5)), convolution_same),
    ("nn.max_pool", (2,), (SMALL,), lambda x: squares(x, 2).max((3, 5))),
    ("nn.max_pool", (3,), (SMALL,), lambda x: squares(x, 3).max((3, 5))),
    ("nn.average_pool", (2,), (SMALL,), lambda x: squares(x, 2).mean((3, 5))),
    ("nn.flatten", (), (SMALL,), lambda x: x.reshape(2, -1)),
    ("nn.one_hot", (9,), (i32(4),), lambda ids: np.eye(9)[ids]),
    ("nn.embedding", (), (f32(9, 4), i32(2, 3)), lambda table, ids: table[ids]),
    ("nn.cross_entropy", (), (f32(5, 9), i32(5)), lambda z, y: -log_softmax(z)[np.arange(5), y].mean()),
    ("nn.predict", (), (f32(5, 9),), lambda z: z.argmax(-1)),
    ("nn.attention", (), (f32(2, 3, 4), f32(2, 5, 4), f32(2, 5, 6)), attention),
    ("nn.attention", (), (f32(3, 4), f32(5, 4), f32(5, 6)), attention),
    ("nn.causal_attention", (), (f32(2, 3, 4), f32(2, 3, 4), f32(2, 3, 2)), lambda q, k, v: attention(q, k, v, True)),
    ("nn.split_heads", (2,), (f32(3, 5, 4),), lambda x: heads(x, 2)),
    ("nn.merge_heads", (), (f32(3, 2, 5, 4),), lambda x: np.swapaxes(x, 1, 2).reshape(3, 5, 8)),
    ("linalg.dot", (), (f32(4), f32(4)), np.dot),
    ("linalg.outer", (), (f32(4), f32(3)), np.outer),
    ("linalg.norm", (), (f32(4),), np.linalg.norm),
    ("linalg.matvec", (), (M, V), np.matmul),
    ("linalg.matmul", (), (M, S), np.matmul),
    ("linalg.transpose", (), (f32(2, 3, 4),), lambda x: x.swapaxes(1, 2)),
    ("linalg.diagonal", (), (S,), np.diagonal),
    ("linalg.trace", (), (S,), np.trace),
    ("linalg.diagonal_matrix", (), (V,), np.diag),
    ("linalg.identity", (5,), (), lambda: np.eye(5)),
    ("linalg.lower", (), (f32(2, 4, 4),), np.tril),
    ("linalg.upper", (), (f32(2, 3, 4),), np.triu),
    ("linalg.power_iteration", (), (3, S, V), power_iteration),
    ("linalg.rayleigh", (), (S, V), lambda a, v: v @ a @ v / (v @ v)),
    ("comprehensions.bilinear", (), (f32(3), M, V), lambda x, a, y: x @ a @ y),
    ("comprehensions.batched", (), (f32(2, 3, 4), f32(2, 4, 5)), np.matmul),
    ("comprehensions.attention_scores", (), (f32(2, 3, 4, 5), f32(2, 6, 4, 5)),
     lambda q, k: np.einsum("bshd,bthd->bhst", q, k)),
    ("comprehensions.distances", (), (f32(3, 4), f32(5, 4)),
     lambda x, y: np.linalg.norm(x[:, None] - y[None], axis=-1)),
    ("comprehensions.gram", (), (M,), lambda x: x.T @ x),
    ("shape_variables.flip_last", (), (f32(2, 3, 4),), lambda x: x.swapaxes(1, 2)),
    ("shape_variables.sum_last", (), (f32(2, 3, 4),), lambda x: x.sum(-1)),
    ("shape_variables.sum_last", (), (V,), lambda x: x.sum(-1)),
    ("shape_variables.total", (), (f32(2, 3, 4),), np.sum),
    ("shape_variables.weighted", (), (V, f32(2, 3, 4)), lambda w, x: w * x),
    ("shape_variables.outer", (), (f32(2, 3), V), lambda x, y: np.multiply.outer(x, y)),
    ("shape_variables.head", (), (f32(2, 3, 4),), lambda x: x[0]),
    ("shape_variables.bounded", (), (f32(2, 3),), np.ones_like),
    ("anonymous_runs.gather_rows", (), (f32(9, 2, 3), i32(4)), lambda t, ids: t[ids]),
    ("anonymous_runs.last_axis_first", (), (f32(2, 3, 4),), lambda x: np.moveaxis(x, -1, 0)),
    ("anonymous_runs.reversed", (), (f32(4, 3),), lambda x: x[::-1]),
    ("product_binders.flatten", (), (M,), np.ravel),
    ("product_binders.kron", (), (f32(2, 3), f32(4, 2)), np.kron),
    ("product_binders.split_heads", (2,), (f32(5, 4),), lambda x: heads(x, 2)),
    ("affine_accesses.tail", (), (V,), lambda x: x[1:]),
    ("affine_accesses.every_other", (), (f32(5),), lambda x: x[::2]),
    ("affine_accesses.every_other", (), (f32(6),), lambda x: x[::2]),
    ("affine_accesses.odd", (), (f32(6),), lambda x: x[1::2]),
    ("affine_accesses.conv2d", (), (SMALL, f32(4, 3, 2, 2)), convolution),
    ("affine_accesses.strided", (2,), (f32(9), f32(3)),
     lambda x, k: np.lib.stride_tricks.sliding_window_view(x, 3)[::2] @ k),
    ("affine_accesses.dilated", (2,), (f32(9), f32(3)),
     lambda x, k: np.stack([x[p] * k[0] + x[p + 2] * k[1] + x[p + 4] * k[2] for p in range(5)])),
    ("affine_accesses.moving_average", (3,), (f32(9),), lambda x: np.convolve(x, np.ones(3) / 3, "valid")),
    ("affine_accesses.windows", (3,), (f32(9),), lambda x: np.lib.stride_tricks.sliding_window_view(x, 3)),
    ("affine_accesses.hankel", (3,), (f32(9),), lambda x: np.lib.stride_tricks.sliding_window_view(x, 7)),
    ("padded_accesses.conv2d_same", (), (SMALL, f32(4, 3, 3, 3)), convolution_same),
    ("padded_accesses.pad", (2,), (V,), lambda x: np.pad(x, 2)),
    ("computed_indices.take_along", (), (f32(4, 9), i32(4)), lambda x, ids: x[np.arange(4), ids]),
    ("computed_indices.best", (), (f32(4), f32(4)), lambda x, s: x[s.argmax()]),
    ("computed_indices.wrap", (), (f32(4), i32(5)), lambda x, ids: x[ids % 4]),
    ("computed_indices.rotate", (), (f32(4), 3), lambda x, k: np.roll(x, -k)),
    ("slices.middle", (), (f32(5),), lambda x: x[1:-1]),
    ("slices.first_row", (), (M,), lambda x: x[0]),
    ("slices.column", (), (M,), np.transpose),
    ("slices.top", (2,), (f32(3, 4),), lambda x: x[:2]),
    ("slices.even_odd", (), (f32(6),), lambda x: (x[::2], x[1::2])),
    ("slices.rotate_half", (), (f32(6),), lambda x: np.concatenate([-x[3:], x[:3]])),
    ("slices.drop", (2,), (f32(5),), lambda x: x[2:]),
    ("array_literals.edges", (), (f32(5, 6),),
     lambda x: convolution(x[None, None], np.array([[[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]]))[0, 0]),
    ("array_literals.stack", (), (f32(3), f32(3) + 1), lambda a, b: np.stack([a, b])),
    ("reductions.variance", (), (f32(7),), np.var),
    ("reductions.log_sum_exp", (), (M,), lambda x: np.log(np.exp(x).sum(-1))),
    ("reductions.where_max", (), (M,), lambda x: np.unravel_index(x.argmax(), x.shape)),
    ("conditional_reductions.masked_max", (), (mask(7), f32(7)), lambda m, x: x[m].max()),
    ("conditional_reductions.segment_sum", (9,), (i32(6), f32(6, 2)),
     lambda ids, x: np.stack([x[ids == s].sum(0) for s in range(9)])),
    ("conditional_reductions.inversions", (), (f32(7),), lambda x: sum(x[j] > x[i] for i in range(7) for j in range(i))),
    ("conditional_reductions.without_self", (), (V,), lambda x: x.sum() - x),
    ("custom_reductions.cumulative_rows", (), (M,), lambda x: x.cumsum(-1)),
    ("custom_reductions.normalizer", (), (V,), lambda x: (x.max(), np.exp(x - x.max()).sum())),
    ("matrix_product.by_matrix", (), (f32(2, 3, 4), S), np.matmul),
    ("matrix_product.batched", (), (f32(2, 3, 4), f32(2, 4, 5)), np.matmul),
    ("broadcasting.table", (), (f32(3, 1), f32(1, 4)), np.add),
    ("broadcasting.add_column", (), (f32(3, 4), f32(3, 1)), np.multiply),
    ("nested_comprehensions.normalized", (), (M,), lambda a: a / a.sum(1, keepdims=True)),
    ("unfolds.lstm", (), (LSTM, f32(5, 3)), lstm),
    ("loops.matrix_power", (), (S, 3), lambda a, n: np.linalg.matrix_power(a, n)),
    ("loops.gradient_descent", (), (0.0, 3, M, f32(3), V), lambda rate, steps, a, y, w: w),
    ("existentials.positions", (), (mask(9),), lambda m: np.flatnonzero(m)),
    ("existentials.select", (), (mask(9), f32(9)), lambda m, x: x[m]),
    ("existentials.mean_positive", (), (f32(9),), lambda x: x[x > 0].mean()),
    ("dimensions_as_values.area", (), (M,), lambda x: 12),
    ("guards.bidiagonal", (), (V, f32(3)), lambda d, e: np.diag(d) + np.diag(e, 1)),
    ("guards.causal", (), (f32(4, 4),), lambda x: np.where(np.tri(4, dtype=bool), x, -np.inf)),
]  # fmt: skip


def same(got: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert isinstance(got, tuple)
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted, strict=True):
            same(g, w)
        return
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)])
def test_agrees_with_numpy(case: Case) -> None:
    path, dims, arguments, answer = case
    file, name = path.split(".")
    function = module(file)[name]
    same((function[dims] if dims else function)(*arguments), answer(*arguments))
