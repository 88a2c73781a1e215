"""Ten million random numbers by `random.axon` on this machine's processors and by NumPy's generators, one after the other.

python benchmarks/random_numbers.py
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

import axon

N = 10_000_000
ROUNDS = 9
SOURCE = """
import random
fun uniform {n} key = for i < n => (random.uniform key i : f32)
fun uniform_f64 {n} key = for i < n => (random.uniform key i : f64)
fun normal {n} key = for i < n => (random.normal key i : f32)
fun normal_f64 {n} key = for i < n => (random.normal key i : f64)
"""


def main() -> None:
    m, key = axon.compile(SOURCE), np.array([0, 42], np.uint32)
    philox, pcg = np.random.Generator(np.random.Philox(42)), np.random.default_rng(42)
    print(f"{N:,} numbers, ms, the median of {ROUNDS} rounds in turn.")
    print(f"{os.cpu_count()} processors, of which NumPy {np.__version__} uses one.\n")
    print(f"{'':12}{'Axon':>8}{'Philox':>8}{'PCG64':>8}")
    for name, element, draw in (
        ("uniform", np.float32, "random"),
        ("uniform_f64", np.float64, "random"),
        ("normal", np.float32, "standard_normal"),
        ("normal_f64", np.float64, "standard_normal"),
    ):
        ways: list[Callable[[], object]] = [partial(m[name][N], key, target="cpu")]
        ways += [partial(getattr(generator, draw), N, dtype=element) for generator in (philox, pcg)]
        taken: list[list[float]] = [[] for _ in ways]
        for way in ways:
            way()
        for _ in range(ROUNDS):
            for times, way in zip(taken, ways, strict=True):
                start = perf_counter()
                way()
                times.append(1e3 * (perf_counter() - start))
        print(f"{name:12}" + "".join(f"{median(times):8.0f}" for times in taken))


if __name__ == "__main__":
    main()
