"""How far long sums in f32 are from f64 on this machine's processor: Axon's, NumPy's and PyTorch's, of the same random numbers.

    python benchmarks/sums_cpu.py [SEED]

Each error is the greatest of a result, relative to the greatest sum; sizes are drawn. It says nothing of speed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch

import axon

SOURCE = """
fun columns (x : f32[n, d]) = for j => sum i => x[i, j]
fun rows (x : f32[n, d]) = for j => sum i => x[j, i]
fun whole (x : f32[n, d]) = sum i j => x[i, j]
fun large (x : f32[n, d]) = for j => sum for i < n where x[i, j] > 0.5 => x[i, j]
fun exponentials (x : f32[n, d]) = for j => sum i => exp x[j, i]
fun products (x : f32[n, d]) = for j => sum i => x[i, j] * x[i, 0]
"""
MOST = 4_000_000  # elements
MEANT: dict[str, Callable[[Any, Any], Any]] = {  # of NumPy and of PyTorch alike
    "columns": lambda x, of: x.sum(0),
    "rows": lambda x, of: x.sum(1),
    "whole": lambda x, of: x.sum(),
    "large": lambda x, of: of.where(x > 0.5, x, 0 * x).sum(0),
    "exponentials": lambda x, of: of.exp(x).sum(1),
    "products": lambda x, of: x.T @ x[:, 0],
}


def error(found: Any, exact: Any) -> float:
    return float(np.abs(np.asarray(found, np.float64) - exact).max() / np.abs(exact).max())


def main() -> None:
    chance = Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    m = axon.compile(SOURCE)
    print("| sum | of | Axon | NumPy | PyTorch |", "| --- | --- | --- | --- | --- |", sep="\n")
    for name, meant in MEANT.items():
        for _ in range(6):
            n = int(10 ** chance.uniform(1, 6.6))
            d = max(1, min(int(10 ** chance.uniform(0, 4)), MOST // n))
            shape = (d, n) if name in ("rows", "exponentials") else (n, d)
            x = np.random.default_rng(chance.randrange(1 << 30)).random(shape, dtype=np.float32)
            exact = meant(x.astype(np.float64), np)
            got = getattr(m, name)(x, target="cpu"), meant(x, np), meant(torch.from_numpy(x), torch)
            print(f"| {name} | {shape[0]:,} × {shape[1]:,} |", " | ".join(f"{error(one, exact):.0e}" for one in got), "|")


if __name__ == "__main__":
    main()
