"""Pointwise functions and operations on bits from Axon source, as fractions of a copy's bandwidth, on one GPU.

    python benchmarks/gpu_functions.py [--out FILE]

Each is one map over 2²⁶ elements of f32 (2²⁵ of f64 and of integers of 64 bits), random in the function's domain, in CUDA graphs
that rotate over more than four times the L2 cache; replays alternate with a copy of as many bytes and with PyTorch's own function,
where it has one.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import date
from typing import Any

from racing import graph, mean, race, report

import axon

COUNT = 1 << 26
UNARY = {
    **dict.fromkeys(("expm1", "cbrt", "atan", "sinh", "cosh", "asinh", "erfc"), (-3.0, 3.0)),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), (-0.99, 0.99)),
    **dict.fromkeys(("log1p", "acosh", "lgamma", "digamma"), (1.0, 9.0)),
}


@dataclass(frozen=True)
class Case:
    name: str
    element: str
    body: str  # of `x` and `y`
    domain: tuple[float, float] = (-3.0, 3.0)


CASES = [
    *(Case(name, element, f"{name} x[i]", domain) for element in ("f32", "f64") for name, domain in UNARY.items()),
    Case("atan2", "f32", "atan2 x[i] y[i]"),
    *(
        Case(name, element, f"{name} x[i] y[i]", (0, 31))
        for element in ("i32", "u32", "i64", "u64")
        for name in ("bit_and", "bit_xor", "shift_left", "shift_right")
    ),
]


def measured(case: Case) -> tuple[float, float, float | None, float]:
    """GB/s, the fraction of a copy's, how many times PyTorch's time is Axon's, and the greatest error relative to float64."""
    import torch

    two = "y" in case.body
    names = {"f": "float", "i": "int", "u": "uint"}
    kind = getattr(torch, names[case.element[0]] + case.element[1:])
    count = COUNT if "32" in case.element else COUNT // 2
    low, high = case.domain

    def random() -> Any:
        if case.element[0] == "f":
            return torch.rand(count, device="cuda", dtype=kind) * (high - low) + low
        return torch.randint(int(low), int(high), (count,), device="cuda", dtype=torch.int64).to(kind)

    sets = [[random() for _ in range(1 + two)] for _ in range(2)]
    outs = [torch.empty_like(some[0]) for some in sets]
    parameters = f"(x : {case.element}[n])" + f" (y : {case.element}[n])" * two
    f = axon.compile(f"fun f {parameters} = for i => {case.body}").f
    f(*sets[0], out=outs[0])
    special = {"cbrt": None}.get(case.name, getattr(torch.special, case.name, None) or getattr(torch, case.name, None))
    peer = special if case.element[0] == "f" else None
    error = 0.0
    if peer is not None:
        want = peer(*(x[: 1 << 20].double() for x in sets[0]))
        error = float(((outs[0][: 1 << 20].double() - want).abs() / want.abs().clamp(min=1e-30)).max())
    moved = count * kind.itemsize * (2 + two)
    source, target = (torch.empty(moved // 2, device="cuda", dtype=torch.uint8) for _ in range(2))
    graphs = [graph(lambda n: f(*sets[n], out=outs[n]), 4, 2), graph(lambda n: target.copy_(source), 4, 2)]
    if peer is not None:
        graphs.append(graph(lambda n: peer(*sets[n]), 4, 2))
    run = race(*graphs, launches=4, rounds=15)
    return moved / run.seconds[0] / 1e9, run.ratio(1, 0), run.ratio(2, 0) if peer is not None else None, error


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="write the table there too")
    options = parser.parse_args()
    import torch

    lines = [f"# Pointwise functions, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    lines += ["| function | GB/s | of a copy | PyTorch's time by Axon's | relative error, at most |", "|---|---:|---:|---:|---:|"]
    fractions = []
    for case in CASES:
        try:
            rate, fraction, ratio, error = measured(case)
        except Exception as failure:
            lines.append(f"| {case.name} {case.element} | {type(failure).__name__}: {str(failure).splitlines()[0][:90]} |")
        else:
            fractions.append(fraction)
            theirs = "" if ratio is None else f"{ratio:.2f} | {error:.1e}"
            lines.append(f"| {case.name} {case.element} | {rate:.0f} | {fraction:.3f} | {theirs or ' |'} |")
        print(lines[-1], flush=True)
        torch.cuda.empty_cache()
    lines += ["", f"Of a copy: geometric mean {mean(fractions):.3f}, least {min(fractions):.3f}, of {len(fractions)}."]
    report(lines, options.out)


if __name__ == "__main__":
    main()
