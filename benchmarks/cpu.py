"""The CPU backend against NumPy and, where it is installed, PyTorch eager: one run, the same inputs, taken in turn.

python benchmarks/cpu.py                 every case
python benchmarks/cpu.py softmax conv    those whose name contains one of the words

A figure is the median over ROUNDS rounds; in each round every side computes once, in a random order and after a pause, so that
other work on the machine falls on all alike, and no side computes beside threads of another that still wait for work. Every side
is called once before, and its result compared with a reference in float64. All sides may use all processors. A ratio is the
faster other side's time over Axon's: above 1, Axon is faster. The exit code is 1 when a wanted ratio is missed; convolution has
none: it is reported as it is. Softmax, layer_norm and the chains of 4096 x 4096, attention and convolution, with their ratios, were
fixed before there was a backend; the other sizes and cases were chosen while it was written, not before it was first measured.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

import axon

try:
    import torch
except ImportError:
    torch = None

ROUNDS = 15
PAUSE = 0.02  # seconds
SOURCE = """
import nn

fun softmax (x : f32[n, m]) = nn.softmax x

fun layer_norm (s : f32[m]) (b : f32[m]) (x : f32[n, m]) = for i j =>
  let val mean = (sum k => x[i, k]) / cast _ m
      val variance = (sum k => (x[i, k] - mean) ** 2.0) / cast _ m
  in (x[i, j] - mean) * rsqrt (variance + 1e-5) * s[j] + b[j] end

fun gelu_chain (x : f32[n, m]) (b : f32[m]) = nn.gelu (x + b) * 0.5 + x

fun residual_norm (x : f32[n, m]) (y : f32[n, m]) (s : f32[m]) =
  let val h = x + nn.relu y
      val r = for i => rsqrt ((sum k => h[i, k] * h[i, k]) / cast _ m + 1e-5)
  in (h, for i j => h[i, j] * r[i] * s[j]) end

fun stencil (x : f32[n, m]) = for i < n, j < m =>
  0.5 * x[i, j] + 0.125 * (x[i - 1, j | 0] + x[i + 1, j | 0] + x[i, j - 1 | 0] + x[i, j + 1 | 0])

fun kmeans (x : f32[n, d]) (c : f32[k, d]) =
  let val label = for i => argmin a => sum e => (x[i, e] - c[a, e]) ** 2.0
      val count = for a < k => sum for i where label[i] = a => 1.0
      val total = for a < k, e => sum for i where label[i] = a => x[i, e]
  in for a e => total[a, e] / max count[a] 1.0 end

fun attention (q : f32[b, s, d]) (k : f32[b, t, d]) (v : f32[b, t, e]) = nn.attention q k v

fun conv2d (x : f32[n, c, h, w]) (k : f32[o, c, r, s]) = for n o p q => sum c r s => x[n, c, p + r, q + s] * k[o, c, r, s]

fun matmul (a : f32[n, k]) (b : f32[k, m]) = a @ b

fun column_sums (x : f32[n, m]) = for j => sum i => x[i, j]

fun heat (x : f32[n, m]) = loop (u = x) for t < 20 => for i < n, j < m =>
  u[i, j] + 0.1 * (u[i - 1, j | 0] + u[i + 1, j | 0] + u[i, j - 1 | 0] + u[i, j + 1 | 0] - 4.0 * u[i, j])
"""


class Case(NamedTuple):
    """`wanted` is the least ratio, None where there is none; `numpy` and `torch` compute the same as the function."""

    name: str
    function: str
    shapes: tuple[tuple[int, ...], ...]
    wanted: float | None
    numpy: Callable[..., Any]
    torch: Callable[..., Any] | None


def np_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def np_layer_norm(s: Any, b: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5)) * s + b


def np_erf(x: Any) -> Any:
    """Abramowitz and Stegun 7.1.26: NumPy has no erf, and SciPy's is slower than this."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * np.float32(1.061405429)))))
    return np.copysign(1 - p * np.exp(-x * x), x)


def np_gelu_chain(x: Any, b: Any) -> Any:
    h = x + b
    return np.float32(0.5) * h * (1 + np_erf(h * np.float32(0.7071067811865476))) * np.float32(0.5) + x


def np_residual_norm(x: Any, y: Any, s: Any) -> Any:
    h = x + np.maximum(y, 0)
    return h, h / np.sqrt((h * h).mean(-1, keepdims=True) + np.float32(1e-5)) * s


def np_neighbours(x: Any) -> Any:
    p = np.pad(x, 1)
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]


def np_stencil(x: Any) -> Any:
    return np.float32(0.5) * x + np.float32(0.125) * np_neighbours(x)


def np_kmeans(x: Any, c: Any) -> Any:
    distance = (x * x).sum(1)[:, None] - 2 * x @ c.T + (c * c).sum(1)
    one = np.eye(len(c), dtype=x.dtype)[distance.argmin(1)]
    return one.T @ x / np.maximum(one.sum(0), 1)[:, None]


def np_attention(q: Any, k: Any, v: Any) -> Any:
    return np_softmax(q @ k.swapaxes(1, 2) / np.sqrt(np.float32(q.shape[-1]))) @ v


def np_conv2d(x: Any, k: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[2:], axis=(2, 3))
    n, c, p, q, r, s = windows.shape
    columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * r * s, p * q)
    return (k.reshape(len(k), -1) @ columns).reshape(n, len(k), p, q)


def np_heat(x: Any) -> Any:
    for _ in range(20):
        x = x + np.float32(0.1) * (np_neighbours(x) - 4 * x)
    return x


def t_gelu_chain(x: Any, b: Any) -> Any:
    return torch.nn.functional.gelu(x + b) * 0.5 + x


def t_residual_norm(x: Any, y: Any, s: Any) -> Any:
    h = x + torch.relu(y)
    return h, torch.nn.functional.rms_norm(h, (h.shape[-1],), s, 1e-5)


def t_neighbours(x: Any) -> Any:
    p = torch.nn.functional.pad(x, (1, 1, 1, 1))
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]


def t_kmeans(x: Any, c: Any) -> Any:
    label = torch.cdist(x, c).argmin(1)
    total = torch.zeros_like(c).index_add_(0, label, x)
    return total / torch.bincount(label, minlength=len(c)).clamp(min=1)[:, None]


def t_heat(x: Any) -> Any:
    for _ in range(20):
        x = x + 0.1 * (t_neighbours(x) - 4 * x)
    return x


L = 4096
CASES = [
    Case("softmax 4096x4096", "softmax", ((L, L),), 1.0, np_softmax, lambda x: torch.softmax(x, -1)),
    Case("softmax 65536x128", "softmax", ((65536, 128),), 1.0, np_softmax, lambda x: torch.softmax(x, -1)),
    Case("layer_norm 4096x4096", "layer_norm", ((L,), (L,), (L, L)), 1.0, np_layer_norm,
         lambda s, b, x: torch.nn.functional.layer_norm(x, (x.shape[-1],), s, b)),
    Case("gelu chain 4096x4096", "gelu_chain", ((L, L), (L,)), 1.0, np_gelu_chain, t_gelu_chain),
    Case("residual chain 4096x4096", "residual_norm", ((L, L), (L, L), (L,)), 1.0, np_residual_norm, t_residual_norm),
    Case("5-point stencil 4096x4096", "stencil", ((L, L),), 1.0, np_stencil, lambda x: 0.5 * x + 0.125 * t_neighbours(x)),
    Case("heat, 20 steps of 1000x1000", "heat", ((1000, 1000),), 1.0, np_heat, t_heat),
    Case("column sums 4096x4096", "column_sums", ((L, L),), 1.0, lambda x: x.sum(0), lambda x: x.sum(0)),
    Case("k-means 100000x16, 32 centres", "kmeans", ((100_000, 16), (32, 16)), 1.0, np_kmeans, t_kmeans),
    Case("matmul 1024x1024x1024", "matmul", ((1024, 1024), (1024, 1024)), 0.9, np.matmul, lambda a, b: a @ b),
    Case("attention 8x1024x64", "attention", ((8, 1024, 64),) * 3, 0.9, np_attention,
         lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v)),
    Case("conv2d 1x64x56x56, 64 of 3x3", "conv2d", ((1, 64, 56, 56), (64, 64, 3, 3)), None, np_conv2d,
         lambda x, k: torch.nn.functional.conv2d(x, k)),
    Case("conv2d 8x64x56x56, 64 of 3x3", "conv2d", ((8, 64, 56, 56), (64, 64, 3, 3)), None, np_conv2d,
         lambda x, k: torch.nn.functional.conv2d(x, k)),
]  # fmt: skip


def same(got: Any, wanted: Any) -> None:
    for g, w in zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]:
        np.testing.assert_allclose(np.asarray(g), w, rtol=2e-3, atol=2e-4)


def measure(case: Case, module: axon.Module) -> tuple[float, dict[str, float]]:
    """Seconds of the first call, and the median milliseconds of every side."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in case.shapes]
    wanted = case.numpy(*[a.astype(np.float64) for a in arrays])
    function = module[case.function]
    start = time.perf_counter()
    same(function(*arrays, target="cpu"), wanted)
    first = time.perf_counter() - start
    sides: list[tuple[str, Callable[[], Any]]] = [
        ("axon", lambda: function(*arrays, target="cpu")),
        ("numpy", lambda: case.numpy(*arrays)),
    ]
    if torch is not None and case.torch is not None:
        tensors, compute = [torch.from_numpy(a) for a in arrays], case.torch
        same(compute(*tensors), wanted)
        sides.append(("torch", lambda: compute(*tensors)))
    case.numpy(*arrays)
    times: dict[str, list[float]] = {name: [] for name, _ in sides}
    for _ in range(ROUNDS):
        for i in rng.permutation(len(sides)):
            name, side = sides[i]
            time.sleep(PAUSE)
            start = time.perf_counter()
            side()
            times[name].append(time.perf_counter() - start)
    return first, {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}


def main() -> int:
    words = sys.argv[1:]
    versions = f"axon {axon.__version__}, NumPy {np.__version__}" + (f", PyTorch {torch.__version__}" if torch else "")
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"{datetime.now(UTC):%F %R} UTC, {platform.processor() or platform.machine()}, {os.cpu_count()} processors")
    print(f"{versions}, Python {platform.python_version()}; load before: {load}; medians of {ROUNDS}, milliseconds\n")
    head = f"{'case':32} {'first call':>10} {'axon':>8} {'numpy':>8} {'torch':>8} {'ratio':>6} {'wanted':>6}"
    print(head, "-" * len(head), sep="\n")
    module = axon.compile(SOURCE)
    missed = 0
    for case in CASES:
        if words and not any(word in case.name for word in words):
            continue
        first, times = measure(case, module)
        ratio = min(t for name, t in times.items() if name != "axon") / times["axon"]
        missed += case.wanted is not None and ratio < case.wanted
        torch_time = f"{times['torch']:8.2f}" if "torch" in times else f"{'-':>8}"
        wanted = "" if case.wanted is None else f"{case.wanted:.2f}"
        own = f"{1e3 * first:10.0f} {times['axon']:8.2f} {times['numpy']:8.2f}"
        print(f"{case.name:32} {own} {torch_time} {ratio:6.2f} {wanted:>6}", flush=True)
    print(f"\nload after: {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
