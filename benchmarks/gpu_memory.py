"""Programs whose speed memory decides, from Axon source, beside torch.compile and a copy, on one Hopper GPU.

    python benchmarks/gpu_memory.py [--peer] [--only NAME] [--out FILE] [--jobs N]

Nothing is tuned and no schedule is given. All sides run in CUDA graphs of four launches that rotate inputs and outputs over four
times the L2 cache, so that times are the device's; replays alternate, and the figure is the median. Inputs are random normal;
results are compared with a float32 computation first. Bytes count each input once and each result once; the fraction is of the
bandwidth of a copy of 256 MiB in the same run. `--peer` adds torch.compile (max-autotune); a ratio above 1 says that Axon is
faster.

With `--jobs`, everything is compiled in so many processes first. What torch.compile measured meanwhile is thrown away: it chooses
among its kernels when nothing else runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from racing import L2_BYTES, graph, mean, race

import axon

SOURCE = """
import nn
fun gelu (x : T[n, d]) = nn.gelu x
fun row_sum (x : T[n, d]) = for i => sum j => x[i, j]
fun column_sum (x : T[n, d]) = for j => sum i => x[i, j]
fun softmax (x : T[n, d]) = nn.softmax x
fun layer_norm (g : T[d]) (b : T[d]) (x : T[n, d]) = nn.layer_norm {scale = g, shift = b} x
fun rms_norm (g : T[d]) (x : T[n, d]) = nn.rms_norm g x
fun cross_entropy (t : i32[n]) (x : T[n, d]) = for i =>
  let val m = max j => cast f32 x[i, j]
      val z = sum j => exp (cast f32 x[i, j] - m)
  in m + log z - cast f32 x[i, t[i]] end
fun transpose (x : T[n, d]) = for j i => x[i, j]
fun rope (c : T[n, h]) (s : T[n, h]) (x : T[n, 2 * h]) = for i, j < 2 * h =>
  if j < h then x[i, j] * c[i, j] - x[i, j + h] * s[i, j] else x[i, j] * c[i, j - h] + x[i, j - h] * s[i, j - h]
fun gather (t : i32[n]) (x : T[v, d]) = for i j => x[t[i], j]
fun cumulative_sum (x : T[n, d]) = for i => scan (op +, 0.0) j => x[i, j]
"""
NAMES = tuple(line.split()[1] for line in SOURCE.splitlines() if line.startswith("fun "))
BYTES = 256 << 20  # of the large tensor
LAUNCHES = 4  # of a graph, at least
ROUNDS = 21
WIDTHS = (64, 1024, 8192, 131072)


@dataclass(frozen=True)
class Shape:
    work: str
    element: str
    rows: int
    width: int

    def __str__(self) -> str:
        return f"{self.work} {self.element} {self.rows}×{self.width}"


SHAPES = [
    Shape(work, element, BYTES // (2 if element == "bf16" else 4) // width, width)
    for work in NAMES
    for element in ("bf16", "f32")
    for width in WIDTHS
]


def inputs(shape: Shape) -> list[Any]:
    import torch

    kind = torch.bfloat16 if shape.element == "bf16" else torch.float32

    def normal(*size: int) -> Any:
        return torch.randn(size, device="cuda", dtype=torch.float32).to(kind)

    n, d = shape.rows, shape.width
    match shape.work:
        case "layer_norm":
            return [normal(d), normal(d), normal(n, d)]
        case "rms_norm":
            return [normal(d), normal(n, d)]
        case "cross_entropy":
            return [torch.randint(0, d, (n,), device="cuda", dtype=torch.int32), normal(n, d)]
        case "rope":
            return [normal(n, d // 2), normal(n, d // 2), normal(n, d)]
        case "gather":
            return [torch.randint(0, n, (n,), device="cuda", dtype=torch.int32), normal(n, d)]
        case _:
            return [normal(n, d)]


def torch_function(work: str) -> Callable[..., Any]:
    import torch
    import torch.nn.functional as f

    def rope(c: Any, s: Any, x: Any) -> Any:
        low, high = x.chunk(2, -1)
        return torch.cat([low * c - high * s, high * c + low * s], -1)

    return {
        "gelu": lambda x: f.gelu(x),
        "row_sum": lambda x: x.sum(1),
        "column_sum": lambda x: x.sum(0),
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda g, b, x: f.layer_norm(x, x.shape[-1:], g, b),
        "rms_norm": lambda g, x: f.rms_norm(x, x.shape[-1:], g),
        "cross_entropy": lambda t, x: f.cross_entropy(x.float(), t.long(), reduction="none"),
        "transpose": lambda x: x.t().contiguous(),
        "rope": rope,
        "gather": lambda t, x: x[t],
        "cumulative_sum": lambda x: torch.cumsum(x, 1),
    }[work]


@dataclass(frozen=True)
class Measured:
    """Seconds of Axon, the bytes that it must move, the fraction of a copy's bandwidth, seconds of the peer and their ratio to
    Axon's, and Axon's greatest error relative to the greatest value."""

    seconds: float
    moved: int
    fraction: float
    peer: float | None
    ratio: float | None
    error: float


def axons(shape: Shape) -> Any:
    """The function, compiled anew: the third width that one function sees would get the kernel for any size."""
    return getattr(axon.compile(SOURCE.replace("T[", shape.element + "[")), shape.work)


def compiled(work: str) -> Callable[..., Any]:
    import torch

    torch._dynamo.reset()
    return torch.compile(torch_function(work), mode="max-autotune-no-cudagraphs", dynamic=False)


def prepare(job: tuple[Shape, bool]) -> None:
    """Compile what a shape needs, in a process of its own."""
    import torch

    shape, peer = job
    with suppress(Exception):  # it will be seen when it is measured
        given = inputs(shape)
        if peer:
            compiled(shape.work)(*given)
        else:
            axons(shape)(*given)
        torch.cuda.synchronize()


def prepare_all(shapes: list[Shape], peer: bool, jobs: int) -> None:
    where = Path(os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(gettempdir()) / "inductor")))
    todo = [(shape, False) for shape in shapes] + [(shape, True) for shape in shapes if peer]
    with get_context("spawn").Pool(jobs, initializer=sys.path.append, initargs=(str(Path(__file__).parent),)) as pool:
        pool.map(prepare, todo, chunksize=1)
    for chosen in where.rglob("*.best_config"):
        chosen.unlink()


def measure(shape: Shape, peer: bool) -> Measured:
    import torch

    function = axons(shape)
    first = inputs(shape)
    out = function(*first)
    reference = torch_function(shape.work)(*(x.float() if x.is_floating_point() else x for x in first)).reshape(out.shape).float()
    error = float((out.float() - reference).abs().max() / reference.abs().max())
    moved = sum(x.numel() * x.element_size() for x in (*first, out))
    if shape.work == "gather":
        moved = 2 * out.numel() * out.element_size() + first[0].numel() * 4
    del reference
    different = max(2, min(8, -(-4 * L2_BYTES // moved)))
    count = max(LAUNCHES, different)
    sets = [first, *(inputs(shape) for _ in range(different - 1))]
    outs = [torch.empty_like(out) for _ in range(different)]
    copies = [torch.empty(BYTES // 4, device="cuda") for _ in range(4)]
    graphs = [
        graph(lambda n: function(*sets[n], out=outs[n]), count, different),
        graph(lambda n: copies[2 * n].copy_(copies[2 * n + 1]), count, 2),
    ]
    if peer:
        theirs = compiled(shape.work)
        graphs.append(graph(lambda n: theirs(*sets[n]), count, different))
    run = race(*graphs, launches=count, rounds=ROUNDS)
    fraction = run.ratio(1, 0) * moved / (2 * BYTES)
    return Measured(run.seconds[0], moved, fraction, *((run.seconds[2], run.ratio(2, 0)) if peer else (None, None)), error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="store_true", help="race torch.compile")
    parser.add_argument("--only", nargs="*", default=NAMES, help="which work")
    parser.add_argument("--widths", nargs="*", type=int, default=WIDTHS)
    parser.add_argument("--out", help="write the table there too")
    parser.add_argument("--jobs", type=int, default=0, help="compile in so many processes first")
    options = parser.parse_args()
    if options.jobs:
        wanted = [s for s in SHAPES if s.work in options.only and s.width in options.widths]
        prepare_all(wanted, options.peer, options.jobs)
    import torch

    device = torch.cuda.get_device_name()
    lines = [f"# Memory-bound programs, {date.today()}, {device}", "", *__doc__.strip().splitlines()[4:], ""]
    lines += ["| work | TB/s | of a copy | torch.compile TB/s | ratio | error |", "|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    fractions, ratios = [], []
    for shape in SHAPES:
        if shape.work not in options.only or shape.width not in options.widths:
            continue
        try:
            found = measure(shape, options.peer)
        except Exception as failure:
            lines.append(f"| {shape} | {type(failure).__name__}: {str(failure).splitlines()[0][:90]} |")
            print(lines[-1], flush=True)
            continue
        rate = found.moved / found.seconds
        fractions.append(found.fraction)
        cells = [str(shape), f"{rate / 1e12:.2f}", f"{found.fraction:.3f}"]
        if found.peer is not None and found.ratio is not None:
            ratios.append(found.ratio)
            cells += [f"{found.moved / found.peer / 1e12:.2f}", f"{found.ratio:.2f}"]
        else:
            cells += ["", ""]
        lines.append(f"| {' | '.join([*cells, f'{found.error:.1e}'])} |")
        print(lines[-1], flush=True)
        torch.cuda.empty_cache()
    if fractions:
        lines += ["", f"Of a copy: geometric mean {mean(fractions):.3f}, least {min(fractions):.3f}."]
    if ratios:
        lines.append(f"Ratio to torch.compile: geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}.")
    print("\n".join(lines[-2:]))
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            print("\n".join(lines), file=file)


if __name__ == "__main__":
    sys.exit(main())
