"""f32 products from Axon source against cuBLAS's in f32 (TF32 off), on one Hopper GPU.

    python benchmarks/gpu_product_f32.py [--random N [--seed S]] [--measure] [--out FILE]

Each program is a line of Axon; nothing is tuned and no schedule is given. Results are compared with float64 first, element by
element, in units of 2⁻²³ · (|A| · |B|); then both sides run in CUDA graphs that rotate inputs and outputs over four times the L2
cache, what Axon does to the factors counted. Replays alternate between the two; the ratio is the median of the ratios of
neighbours. A ratio above 1 says Axon is faster, and an error ratio above 1 that its errors are smaller. `--measure` shows each
kernel and the mappings that it was preferred to, timed; `--random`
draws so many other sizes and layouts, and shows the slowest first.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from random import Random
from typing import Any

from racing import L2_BYTES, graph, mean, race, report

import axon
from axon import compiler
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.tile.limbs import error_bound
from axon.core.ir import Program

SOURCES = {
    "nn": "fun f (a : f32[m, k]) (b : f32[k, n]) = a @ b",
    "nt": "fun f (a : f32[m, k]) (b : f32[n, k]) = for i j => sum c => a[i, c] * b[j, c]",
    "tn": "fun f (a : f32[k, m]) (b : f32[k, n]) = for i j => sum c => a[c, i] * b[c, j]",
    "tt": "fun f (a : f32[k, m]) (b : f32[n, k]) = for i j => sum c => a[c, i] * b[j, c]",
    "batch": "fun f (a : f32[l, m, k]) (b : f32[l, k, n]) = for h i j => sum c => a[h, i, c] * b[h, c, j]",
    "bf16 by f32": "fun f (a : bf16[m, k]) (b : f32[k, n]) = for i j => sum c => cast f32 a[i, c] * b[c, j]",
    "bias": "fun f (a : f32[m, k]) (b : f32[k, n]) (x : f32[n]) = for i j => max ((sum c => a[i, c] * b[c, j]) + x[j]) 0.0",
}


@dataclass(frozen=True)
class Shape:
    m: int
    n: int
    k: int
    layout: str = "nt"

    def __str__(self) -> str:
        return f"{self.m}×{self.n}×{self.k} {self.layout}"

    @property
    def extents(self) -> tuple[tuple[int, int], tuple[int, int]]:
        left, right = self.layout
        return ((self.m, self.k) if left == "n" else (self.k, self.m)), ((self.n, self.k) if right == "t" else (self.k, self.n))


SHAPES = [
    *(Shape(n, n, n) for n in (512, 1024, 2048, 4096, 8192)),
    Shape(4096, 4096, 16384),
    Shape(4096, 4096, 4096, "nn"),
    Shape(4096, 4096, 4096, "tn"),
    *(Shape(n, 4096, 4096) for n in (8, 64, 128)),
    Shape(1000, 1000, 1000),
    Shape(8192, 1024, 1024),
]


def drawn(count: int, seed: int) -> list[Shape]:
    """Extents of 16 to 8192, as often of one order of magnitude as of another, and any layout."""
    chance = Random(seed)

    def extent() -> int:
        return round(2 ** chance.uniform(4, 13))

    return [Shape(extent(), extent(), extent(), chance.choice(("nn", "nt", "tn", "tt"))) for _ in range(count)]


def program(layout: str) -> Program:
    return compiler.lower(compiler.check_text(SOURCES[layout]), "f", None)


def build(shape: Shape) -> None:
    """Fill the cache with a shape's kernels; needs no GPU."""
    core = program(shape.layout)
    Executable(core).warm(core.contract.bind((), shape.extents), exact=False)


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def factors(m: int, n: int, k: int) -> dict[str, tuple[Any, Any]]:
    """Factors m × k and k × n of kinds that are hard to sum."""
    import torch

    def normal(*extents: int) -> Any:
        return torch.randn(*extents, device="cuda")

    def powers(low: int, high: int, *extents: int) -> Any:
        return torch.exp2(torch.randint(low, high + 1, extents, device="cuda").float())

    a, b = normal(m, k), normal(k, n)
    cancelling = torch.cat([b[: k // 2], -b[: k // 2] * (1 + 2.0**-12), b[k // 2 * 2 :]])
    special, other = a.clone(), b.clone()
    special[3, 5], special[4, 1], special[6, 2], special[6, 3] = (float(x) for x in ("inf", "nan", "-inf", "inf"))
    special[8, 7], other[7, 9], other[5, 3] = float("-inf"), 0.0, 0.0
    other[9, 11] = float("inf")
    largest = a * 0.001
    largest[:, 0] = torch.finfo(torch.float32).max
    small = b * 0.001
    small[0] = powers(-12, -11, n) * torch.sign(b[0])
    return {
        "normal": (a, b),
        "positive": (a.abs(), b.abs()),
        "rows and columns scaled by 2^±40": (a * powers(-40, 40, m, 1), b * powers(-40, 40, 1, n)),
        "scaled along the depth": (a * powers(-30, 30, 1, k), b * powers(-30, 30, k, 1)),
        "cancelling": (torch.cat([a[:, : k // 2], a[:, : k // 2], a[:, k // 2 * 2 :]], 1), cancelling),
        "denormal": (a * 2.0**-130, b * 2.0**100),
        "near the largest": (largest, small),
        "infinities and NaN": (special, other),
    }


def error(got: Any, a: Any, b: Any) -> float:
    """The largest error of an element in units of 2⁻²³ · (|A| · |B|), and of what the smallest limb cannot hold; infinite where one
    is finite and the other not, or of another sign."""
    import torch

    true, mass = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    tiny = 2.0**-134 * (a.double().abs().sum(1, keepdim=True) + b.double().abs().sum(0, keepdim=True))
    finite = torch.isfinite(true)
    same = torch.where(finite, torch.isfinite(got), (got.double() == true) | (torch.isnan(got) & torch.isnan(true)))
    if not bool(same.all()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    off = ((got.double() - true).abs() - tiny)[finite] / (mass[finite] * 2.0**-23).clamp(min=2.0**-149)
    return max(0.0, float(off.max()))


def right() -> list[str]:
    """Every kind of factors, every layout; ends the process at an error beyond the bound."""
    import torch

    bound = error_bound(1234)
    lines = ["| factors | Axon | cuBLAS |", "| --- | --- | --- |"]

    def line(name: str, got: Any, peer: Any, a: Any, b: Any) -> None:
        ours, theirs = error(got, a, b), error(peer, a, b)
        lines.append(f"| {name} | {ours:.2f} | {theirs:.2f} |")
        print(lines[-1], flush=True)
        if not ours <= bound:
            sys.exit(f"{name}: an error of {ours:.3g}, of {bound:.3g} allowed")

    for layout in ("nn", "nt", "tn", "tt"):
        f = axon.compile(SOURCES[layout]).f
        for name, (a, b) in factors(500, 777, 1234).items():
            given = (a if layout[0] == "n" else a.t().contiguous()), (b if layout[1] == "n" else b.t().contiguous())
            if layout == "nn" or name == "normal":
                line(f"{name}, {layout}", f(*given), a @ b, a, b)
    a, b = torch.randn(500, 1234, device="cuda"), torch.randn(1234, 777, device="cuda")
    line("views", axon.compile(SOURCES["nn"]).f(a.t().contiguous().t(), b[:, ::2]), a @ b[:, ::2], a, b[:, ::2])
    half = a.to(torch.bfloat16)
    line("bf16 by f32", axon.compile(SOURCES["bf16 by f32"]).f(half, b), half.float() @ b, half.float(), b)
    x, y = torch.randn(3, 500, 1234, device="cuda"), torch.randn(3, 1234, 777, device="cuda")
    got, peer = axon.compile(SOURCES["batch"]).f(x, y), x @ y
    for n in range(3):
        line(f"batch {n}", got[n], peer[n], x[n], y[n])
    bias = torch.randn(777, device="cuda")
    made = axon.compile(SOURCES["bias"]).f(a, b, bias)
    off = float((made - torch.relu((a.double() @ b.double()) + bias)).abs().max())
    if not off < 1e-4:
        sys.exit(f"a bias: off by {off:.1e}")
    return [*lines, "", f"allowed: {bound:.1f}; with a bias and a maximum: off by {off:.1e} at most"]


# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def relative(got: Any, a: Any, b: Any) -> float:
    true = a.double() @ b.double()
    return float((got.double() - true).norm() / true.norm())


def against_cublas(shapes: list[Shape]) -> list[str]:
    import torch

    lines = ["| product | cuBLAS µs | Axon µs | TFLOP/s | ratio | error, of cuBLAS's | |", "| --- |" + " --- |" * 6]
    ratios: dict[Shape, float] = {}
    rows: dict[Shape, str] = {}
    for shape in shapes:
        work = 2 * shape.m * shape.n * shape.k
        once = 4 * (shape.m * shape.k + shape.n * shape.k + shape.m * shape.n)
        sets = max(1, min(40, -(-4 * L2_BYTES // once)))
        launches = max(sets, min(40, int(3e-3 / (work / 5e13)) + 1))
        inputs = [[torch.randn(*e, device="cuda") for e in shape.extents] for _ in range(sets)]
        plain = [((a if shape.layout[0] == "n" else a.t()), (b if shape.layout[1] == "n" else b.t())) for a, b in inputs]
        outs = [torch.empty(shape.m, shape.n, device="cuda") for _ in range(sets)]
        f = axon.compile(SOURCES[shape.layout]).f
        torch.matmul(*plain[0], out=outs[0])
        theirs_off = relative(outs[0], *plain[0])
        outs[0].fill_(float("nan"))
        f(*inputs[0], out=outs[0])
        ours_off = relative(outs[0], *plain[0])
        peer = graph(lambda n, p=plain, o=outs: torch.matmul(*p[n], out=o[n]), launches, sets)  # type: ignore[misc]
        ours = graph(lambda n, i=inputs, o=outs, f=f: f(*i[n], out=o[n]), launches, sets)  # type: ignore[misc]
        run = race(peer, ours, launches=launches, rounds=15)
        theirs, mine = run.seconds
        ratios[shape] = run.ratio(0, 1)
        errors = f"{ours_off:.1e}, {ours_off / theirs_off:.2f}"
        mappings = "; ".join(str(v.mapping) for v in f.variants if "tile" in str(v.mapping)) or "plain"
        times = f"{theirs * 1e6:.1f} | {mine * 1e6:.1f} | {work / mine / 1e12:.0f}"
        rows[shape] = f"| {shape} | {times} | {ratios[shape]:.3f} | {errors} | {mappings} |"
        print(rows[shape], flush=True)
        del inputs, plain, outs, peer, ours
        torch.cuda.empty_cache()
    lines += [rows[s] for s in (shapes if shapes == SHAPES else sorted(rows, key=lambda s: ratios[s]))]
    large = [r for s, r in ratios.items() if min(s.m, s.n, s.k) >= 2048]
    for name, some in (("all", list(ratios.values())), ("every extent 2048 and up", large)):
        if not some:
            continue
        lines += ["", f"{name}: geometric mean {mean(some):.3f}, least {min(some):.3f}, of {len(some)}"]
    return lines


def measured() -> list[str]:
    lines = []
    for m, n, k in ((1024, 1024, 1024), (4096, 4096, 4096), (64, 4096, 4096), (256, 256, 256)):
        core = program("nt")
        lines += [f"{m}×{n}×{k}", "", explain(core, core.contract.bind((), [(m, k), (n, k)]), measure=True)]
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="also the kernels of four sizes and their alternatives")
    parser.add_argument("--out", help="write the tables to this file")
    parser.add_argument("--random", type=int, default=0, help="so many sizes at random in place of the fixed ones")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shapes = drawn(options.random, options.seed) if options.random else SHAPES
    with get_context("fork").Pool() as pool:  # before CUDA is touched
        pool.map(build, shapes, chunksize=1)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    name = torch.cuda.get_device_name()
    tables = [f"# f32 products, {name}, torch {torch.__version__}, {date.today()}", "", "## Errors", "", *right()]
    tables += ["", "## Times", "", *against_cublas(shapes)]
    if options.measure:
        tables += ["", "## Kernels", "", *measured()]
    report(tables, options.out)


if __name__ == "__main__":
    main()
