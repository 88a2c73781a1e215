"""Reductions of pairs by register tiles, of random sizes, against PyTorch's own functions, on one Hopper GPU.

    python benchmarks/gpu_pairs.py [--random N] [--seed S] [--only NAME …] [--out FILE]

Products of f64, of integers and of bf16 that bulk copies cannot read, distances, and f32 convolutions as their definitions. Results
are compared with PyTorch's in f64 first. Then both sides run in CUDA graphs that rotate inputs over four times the L2 cache, and
are replayed in turn; a ratio above 1 says that Axon is faster. The slowest come first. TF32 is off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from random import Random
from typing import Any

from racing import mean, report, rotated

import axon
from axon import compiler
from axon.backend.gpu.runtime.executable import Executable


@dataclass(frozen=True)
class Case:
    """A program, its inputs as extents named by sizes, PyTorch's own function, and operations of a result's element."""

    source: str
    element: str
    inputs: Callable[..., tuple[tuple[int, ...], ...]]
    peer: Callable[..., Any]
    depth: Callable[..., int]
    largest: int = 4096


def distance(p: float) -> Callable[..., Any]:
    def found(x: Any, y: Any) -> Any:
        import torch

        return torch.cdist(x, y, p=p, compute_mode="donot_use_mm_for_euclid_dist")

    return found


def convolution(stride: int) -> Callable[..., Any]:
    def found(x: Any, w: Any) -> Any:
        import torch

        return torch.nn.functional.conv2d(x, w, stride=stride)

    return found


def matrices(m: int, n: int, k: int) -> tuple[tuple[int, ...], ...]:
    return (m, k), (k, n)


def images(m: int, n: int, k: int) -> tuple[tuple[int, ...], ...]:
    """Of m channels to n, with a side that k gives, and batches of 8."""
    m, n, side = max(1, m // 8), max(4, n // 8), max(8, round(k**0.5))
    return (8, m, side, side), (n, m, 3, 3)


CASES = {
    "f64": Case("fun f (a : f64[m, k]) (b : f64[k, n]) = a @ b", "f64", matrices, lambda a, b: a @ b, lambda m, n, k: k),
    "f64, transposed factors": Case(
        "fun f (a : f64[k, m]) (b : f64[n, k]) = for i j => sum c => a[c, i] * b[j, c]",
        "f64", lambda m, n, k: ((k, m), (n, k)), lambda a, b: a.t() @ b.t(), lambda m, n, k: k,
    ),
    "f64, two summed axes": Case(
        "fun f (a : f64[m, h, k]) (b : f64[h, k, n]) = for i j => sum h c => a[i, h, c] * b[h, c, j]",
        "f64", lambda m, n, k: ((m, 4, -(-k // 4)), (4, -(-k // 4), n)),
        lambda a, b: a.flatten(1) @ b.flatten(0, 1), lambda m, n, k: k,
    ),
    "distance": Case(
        "fun f (x : f32[m, k]) (y : f32[n, k]) = for i j => sqrt (sum c => (x[i, c] - y[j, c]) * (x[i, c] - y[j, c]))",
        "f32", lambda m, n, k: ((m, k), (n, k)), distance(2.0), lambda m, n, k: k, 2048,
    ),
    "greatest difference": Case(
        "fun f (x : f32[m, k]) (y : f32[n, k]) = for i j => max c => abs (x[i, c] - y[j, c])",
        "f32", lambda m, n, k: ((m, k), (n, k)), distance(float("inf")), lambda m, n, k: k, 2048,
    ),
    "convolution": Case(
        "fun f (x : f32[b, c, h, w]) (k : f32[o, c, 3, 3]) = for b o p q => sum c r s => x[b, c, p + r, q + s] * k[o, c, r, s]",
        "f32", images, convolution(1), lambda m, n, k: 9 * max(1, m // 8), 2048,
    ),
}  # fmt: skip


def drawn(name: str, count: int, seed: int) -> list[tuple[int, int, int]]:
    chance = Random(f"{name} {seed}")
    most = CASES[name].largest
    return [tuple(round(16 * (most / 16) ** chance.random()) for _ in range(3)) for _ in range(count)]  # type: ignore[misc]


def build(job: tuple[str, tuple[int, int, int]]) -> None:
    """Fill the cache with a kernel; needs no GPU."""
    case = CASES[job[0]]
    core = compiler.lower(compiler.check_text(case.source), "f", None)
    Executable(core).warm(core.contract.bind((), case.inputs(*job[1])), exact=False)


def raced(name: str, sizes: tuple[int, int, int]) -> tuple[float, str]:
    import torch

    case = CASES[name]
    element = getattr(torch, {"f64": "float64", "f32": "float32"}[case.element])
    extents = case.inputs(*sizes)

    def fresh() -> list[Any]:
        return [torch.randn(*e, device="cuda", dtype=element) for e in extents]

    first = fresh()
    f = axon.compile(case.source).f
    mine, theirs, true = f(*first), case.peer(*first), case.peer(*(x.double().cpu() for x in first)).cuda()
    scale = float(true.abs().max())
    off, theirs_off = (float((got.double() - true).abs().max()) / scale for got in (mine, theirs))
    if not off < (1e-12 if case.element == "f64" else 1e-4):
        sys.exit(f"{name} {sizes}: off by {off:.2e}, PyTorch by {theirs_off:.2e}")
    work = 2 * mine.numel() * case.depth(*sizes)
    run = rotated((case.peer, f), fresh, sum(x.nbytes for x in first) + mine.nbytes, work / 2e13)
    ratio = run.ratio(0, 1)
    peer, own = run.seconds
    mapping = str(next(iter(f.variants)).mapping)
    shown = " × ".join("·".join(map(str, e)) for e in extents)
    times = f"{peer * 1e6:.1f} | {own * 1e6:.1f} | {work / own / 1e12:.1f}"
    row = f"| {name} | {shown} | {times} | {ratio:.3f} | {off:.1e}, {theirs_off:.1e} | {mapping} |"
    print(row, flush=True)
    torch.cuda.empty_cache()
    return ratio, row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--random", type=int, default=8, help="so many sizes of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    jobs = [(name, sizes) for name in options.only for sizes in drawn(name, options.random, options.seed)]
    with get_context("fork").Pool() as pool:  # before CUDA is touched
        pool.map(build, jobs, chunksize=1)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    found = [raced(*job) for job in jobs]
    head = "| work | extents | PyTorch µs | Axon µs | TFLOP/s | ratio | error, PyTorch's | mapping |"
    lines = [f"# Reductions of pairs, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    lines += [head, "|" + " --- |" * 8, *(row for _, row in sorted(found))]
    for name in options.only:
        ratios = [ratio for (ratio, _), job in zip(found, jobs, strict=True) if job[0] == name]
        lines += ["", f"{name}: geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}, of {len(ratios)}"]
    report(lines, options.out)


if __name__ == "__main__":
    main()
