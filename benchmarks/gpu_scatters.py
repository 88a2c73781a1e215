"""Sums by an index that data decide against PyTorch, on one GPU.

    python benchmarks/gpu_scatters.py [--random N] [--seed S] [--listed] [--forms] [--out FILE]

`y[b, …] = sum i where ids[i] = b => x[i, …]`, its counts and its extremes, against `index_add_`, `embedding_dense_backward`,
`bincount` and `scatter_reduce`. Indices are uniform, skewed (Zipf), or all the same. CUDA graphs rotate inputs over four times the
L2 cache and are replayed in turn; a ratio above 1 says that Axon is faster. `--forms` times both forms of a scatter, as it stands
and of segments: what the choice between them is made of.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from racing import mean, report, rotated

import axon
from axon.core.passes.segments import SegmentedScatter

TYPES = {"bf16": "bfloat16", "f32": "float32"}
TEXTS = {
    "sum": "fun f {{v}} (ids : i32[n]) (x : {e}[n, d]) = for b < v, j => sum for i where ids[i] = b => x[i, j]",
    "weights": "fun f {{v}} (ids : i32[n]) (x : {e}[n]) = for b < v => sum for i where ids[i] = b => x[i]",
    "count": "fun f {{v}} (ids : i32[n]) = for b < v => sum for i where ids[i] = b => 1",
    "max": "fun f {{v}} (ids : i32[n]) (x : {e}[n, d]) = for b < v, j => max for i where ids[i] = b => x[i, j]",
}
SPREADS = ("uniform", "skewed", "one")


@dataclass(frozen=True)
class Case:
    kind: str
    element: str
    rows: int
    places: int
    columns: int
    spread: str = "uniform"


LISTED = (
    Case("sum", "bf16", 8192, 50257, 768),
    Case("sum", "f32", 8192, 50257, 768),
    Case("sum", "bf16", 8192, 50257, 768, "skewed"),
    Case("sum", "bf16", 16384, 128256, 4096),
    Case("sum", "f32", 8192, 50257, 768, "one"),
    Case("sum", "f32", 100_000, 1000, 64),
    Case("sum", "f32", 100_000, 10, 64),
    Case("sum", "f32", 1_000_000, 100_000, 16),
    Case("weights", "f32", 1_000_000, 1000, 1),
    Case("count", "f32", 1_000_000, 256, 1),
    Case("count", "f32", 10_000_000, 100_000, 1, "skewed"),
    Case("max", "f32", 100_000, 5000, 64),
)


def drawn(count: int, seed: int) -> list[Case]:
    chance = random.Random(seed)
    found = []
    while len(found) < count:
        rows, places = (int(10 ** chance.uniform(0, 6.5)) for _ in range(2))
        kind = chance.choice(("sum", "sum", "weights", "count", "max"))
        columns = 1 if kind in ("weights", "count") else int(10 ** chance.uniform(0, 3.3))
        if max(rows, places) * columns <= 2**28:
            found.append(Case(kind, chance.choice(("bf16", "f32")), rows, places, columns, chance.choice(SPREADS)))
    return found


def measured(case: Case, forms: bool) -> str:
    import torch

    kind, v, n, d = getattr(torch, TYPES[case.element]), case.places, case.rows, case.columns

    def ids() -> Any:
        if case.spread == "one":
            return torch.full((n,), v // 2, device="cuda", dtype=torch.int32)
        if case.spread == "skewed":
            return (v * torch.rand(n, device="cuda") ** 6).int().clamp(0, v - 1)
        return torch.randint(0, v, (n,), device="cuda", dtype=torch.int32)

    def fresh() -> list[Any]:
        index = ids()
        shape = (n,) if case.kind == "weights" else (n, d)
        return [index, index.long()] + ([] if case.kind == "count" else [torch.randn(shape, device="cuda", dtype=kind)])

    def peer(_: Any, index: Any, *x: Any) -> Any:
        if case.kind == "count":
            return torch.bincount(index, minlength=v)
        if case.kind == "weights":
            return torch.zeros(v, device="cuda", dtype=kind).index_add_(0, index, x[0])
        if case.kind == "max":
            wide = index[:, None].expand(-1, d)
            return torch.full((v, d), -float("inf"), device="cuda", dtype=kind).scatter_reduce_(0, wide, x[0], "amax")
        if d > 1:
            return torch.ops.aten.embedding_dense_backward(x[0], index, v, -1, False)
        return torch.zeros((v, d), device="cuda", dtype=kind).index_add_(0, index, x[0])

    def ours(always: bool | None) -> Callable[..., Any]:
        f = axon.compile(TEXTS[case.kind].format(e=case.element)).f

        def run(index: Any, _: Any, *x: Any) -> Any:
            kept = SegmentedScatter.is_worth
            if always is not None:
                SegmentedScatter.is_worth = lambda self, sizes: always  # type: ignore[method-assign]
            try:
                return f[v](index, *x)
            finally:
                SegmentedScatter.is_worth = kept  # type: ignore[method-assign]

        return run

    given = fresh()
    short = v * n * d < 2e10  # else as it stands it takes milliseconds, or seconds
    asked = ((False, True) if short else (True,)) if forms else (None,)
    sides = [ours(always) for always in asked]
    if case.kind == "count":
        wanted = torch.bincount(given[1], minlength=v).double()
    elif case.kind == "max":
        wanted = peer(*given).double()
    else:
        wanted = torch.zeros((v, *given[2].shape[1:]), device="cuda", dtype=torch.float64).index_add_(
            0, given[1], given[2].double()
        )
    worst = 0.0
    for one in sides:
        found = one(*given).double()
        same = (found == wanted) | (
            (found - wanted).abs() <= 1e-2 * wanted.abs() + 1e-3 * (n / v + 1) ** 0.5 + 1e-3 * n**0.5 * (v < 3)
        )
        worst = max(worst, float((~same).sum()))
    size = {"bf16": 2, "f32": 4}[case.element]
    moved = n * 4 + (n + v) * d * (4 if case.kind == "count" else size)
    peers = [] if case.kind == "count" else [peer]  # bincount waits for the device: no graph takes it
    run = rotated([*sides, *peers], fresh, moved, 1e-4)
    mine = run.seconds[: len(sides)]
    wrong = f" **{worst:.0f} wrong**" if worst else ""
    names = f"| {case.kind} | {case.element} | {n} | {v} | {d} | {case.spread} |"
    times = " | ".join([*([""] if forms and not short else []), *(f"{t * 1e6:.1f}" for t in mine)])
    other = f"{run.seconds[-1] * 1e6:.1f} | {run.ratio(len(sides), len(sides) - 1):.2f}" if peers else "|"
    return f"{names} {times} | {other} | {moved / 2.6e6:.1f}{wrong} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--listed", action="store_true")
    parser.add_argument("--forms", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    import torch

    own = "as it stands | segments" if options.forms else "Axon"
    lines = [f"# Scatters, {date.today()}, {torch.cuda.get_device_name()}, µs", ""]
    lines += [f"| | element | rows | places | columns | indices | {own} | PyTorch | ratio | a copy |"]
    lines += ["|---|---|---:|---:|---:|---|" + "---:|" * (own.count("|") + 4)]
    for case in [*(LISTED if options.listed else ()), *drawn(options.random, options.seed)]:
        try:
            lines.append(measured(case, options.forms))
        except Exception as error:  # one that fails does not stop the others
            lines.append(f"| {case} | {type(error).__name__}: {str(error).splitlines()[0][:80]} |")
        print(lines[-1], flush=True)
    ratios = [float(cells[-3]) for line in lines if len(cells := line.split("|")) > 10 and cells[-3].strip()[:1].isdigit()]
    lines += ["", f"geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}"] if ratios else []
    report(lines, options.out)


if __name__ == "__main__":
    main()
