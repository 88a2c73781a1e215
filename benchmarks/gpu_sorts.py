"""`(sort x, argsort x)` against `torch.sort(stable=True)`, on one GPU.

    python benchmarks/gpu_sorts.py [--random N] [--seed S] [--listed] [--out FILE]

Values are normal, small integers (ids of a vocabulary), or all the same. CUDA graphs rotate inputs over four times the L2 cache and
are replayed in turn; a ratio above 1 says that Axon is faster. Values and places are compared with PyTorch's, bit for bit.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from datetime import date
from typing import Any

from racing import mean, report, rotated

import axon

TYPES = {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "i32": "int32", "i64": "int64", "u8": "uint8"}


@dataclass(frozen=True)
class Case:
    element: str
    rows: int
    length: int
    values: str = "normal"  # or small, one


LISTED = (
    *(Case("f32", 1, n) for n in (256, 1000, 4096, 8192, 8193, 65536, 1 << 20, 10_000_000)),
    *(Case("i32", 1, n, "small") for n in (1000, 8192, 65536, 1 << 20, 10_000_000)),
    Case("f64", 1, 1 << 20),
    Case("bf16", 1, 1 << 20),
    Case("i64", 1, 1 << 20, "small"),
    *(Case("f32", rows, n) for rows, n in ((100_000, 64), (10_000, 300), (1000, 1000), (1000, 4096), (100, 20_000), (4, 1 << 20))),
    Case("f32", 1, 1 << 20, "one"),
)


def drawn(count: int, seed: int) -> list[Case]:
    chance = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        length, rows = int(10 ** chance.uniform(0.3, 7)), 1 if chance.random() < 0.5 else int(10 ** chance.uniform(0, 5))
        element = chance.choice(tuple(TYPES))
        if length * rows <= 2**25:
            found.append(Case(element, rows, length, chance.choice(("normal", "small", "one"))))
    return found


def measured(case: Case) -> str:
    import torch

    kind = getattr(torch, TYPES[case.element])
    shape = (case.length,) if case.rows == 1 else (case.rows, case.length)
    f = axon.compile("fun f x = (sort x, argsort x)").f

    def fresh() -> list[Any]:
        if case.values == "one":
            return [torch.full(shape, 3, device="cuda", dtype=kind)]
        if case.values == "small" or not kind.is_floating_point:
            most = 200 if case.element == "u8" else 50_257 if case.values == "small" else 2**31 - 1
            return [torch.randint(0, most, shape, device="cuda").to(kind)]
        return [torch.randn(shape, device="cuda").to(kind)]

    def peer(x: Any) -> Any:
        return torch.sort(x, dim=-1, stable=True)

    (x,) = fresh()
    (values, places), wanted = f(x), peer(x)
    wrong = "" if torch.equal(values, wanted.values) and torch.equal(places.long(), wanted.indices) else " **wrong**"
    moved = x.numel() * (2 * x.element_size() + 4)
    run = rotated([f, peer], fresh, moved, 1e-4)
    mine, other = (t * 1e6 for t in run.seconds)
    names = f"| {case.element} | {case.rows} | {case.length} | {case.values} |"
    return f"{names} {mine:.1f} | {other:.1f} | {run.ratio(1, 0):.2f}{wrong} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--listed", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    import torch

    lines = [f"# Sorts, {date.today()}, {torch.cuda.get_device_name()}, µs", ""]
    lines += ["| element | rows | length | values | Axon | PyTorch | ratio |", "|---|---:|---:|---|---:|---:|---:|"]
    ratios = []
    for case in [*(LISTED if options.listed else ()), *drawn(options.random, options.seed)]:
        try:
            lines.append(measured(case))
            ratios.append(float(lines[-1].split("|")[-2].split()[0]))
        except Exception as error:  # one that fails does not stop the others
            lines.append(f"| {case} | {type(error).__name__}: {str(error).splitlines()[0][:80]} |")
        print(lines[-1], flush=True)
    lines += ["", f"geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}"] if ratios else []
    report(lines, options.out)


if __name__ == "__main__":
    main()
