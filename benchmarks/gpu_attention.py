"""Attention from Axon source against cuDNN and FlexAttention, on one Hopper GPU.

    python benchmarks/gpu_attention.py [--changes] [--ablation] [--out FILE]

Each program is a few lines of Axon; nothing is tuned and no schedule is given. Both sides run in CUDA graphs that rotate inputs
and outputs over four times the L2 cache, so that times are the device's. Replays alternate between the two, and the figure is the
median of each; the ratio is the median of the ratios of neighbours. Inputs are random normal, 16 K tokens at a time. Results are
compared with a float32 computation first. TFLOP/s count two products over the pairs that a mask leaves. A ratio above 1 says Axon
is faster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from typing import Any

from attention_sources import SOURCES
from racing import L2_BYTES, Race, graph, mean, race, report

from axon import compiler
from axon.backend.gpu.build.cubin import BuildError
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.tile.schedule import TileMapping
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.core.ir import Program


@dataclass(frozen=True)
class Shape:
    """batch × heads × sequence × head dimension; `groups` query heads share one head of keys and values."""

    work: str
    batch: int
    heads: int
    sequence: int
    dimension: int
    groups: int = 1

    def __str__(self) -> str:
        return f"{self.work}, {self.batch}×{self.heads}×{self.sequence}×{self.dimension}"

    @property
    def pairs(self) -> float:
        """Queries times keys that the mask leaves."""
        s = self.sequence
        if self.work in ("full", "soft cap"):
            return float(s * s)
        window = min(s, 1024 if self.work == "window 1024" else s)
        return float(s * window - window * (window - 1) / 2)

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.heads * self.dimension * self.pairs


SHAPES = [
    Shape(work, 16384 // s, 2048 // d, s, d)
    for d in (64, 128)
    for work in ("full", "causal")
    for s in (1024, 2048, 4096, 8192, 16384)
]
CHANGES = [
    *(Shape(work, 4, 16, 4096, 128) for work in ("soft cap", "ALiBi", "window 1024")),
    Shape("64 over 8 heads", 4, 64, 4096, 128, groups=8),
]
ABLATION_SHAPES = [Shape("full", 1, 16, 16384, 128), Shape("causal", 1, 16, 16384, 128), Shape("full", 4, 32, 4096, 64)]
BASE = TileMapping(128, 128, 128, 2, 1, 2, 1, keys=128, turns=True)
ABLATIONS: dict[str, dict[str, Any] | None] = {
    "as the cost model picks it": None,
    "two consumers, 128 keys": {},
    "one consumer": {"rows": 64, "consumers": 1, "turns": False},
    "consumers not in turn": {"turns": False},
    "products not beside the rest (P = 0)": {"in_flight": 0},
    "neither": {"in_flight": 0, "turns": False},
    "one tile per block": {"persistent": False},
    "D = 1": {"stages": 1, "in_flight": 0},
    "64 keys": {"keys": 64},
    "heads one by one": {"group": 1},
}


def program(work: str) -> Program:
    return compiler.lower(compiler.check_text(SOURCES[work]), "f", None)


def extents(shape: Shape) -> list[tuple[int, ...]]:
    """Of the program's inputs."""
    q = (shape.batch, shape.heads, shape.sequence, shape.dimension)
    kv = (shape.batch, shape.heads // shape.groups, shape.sequence, shape.dimension)
    return [*([(shape.heads,)] if shape.work == "ALiBi" else []), q, kv, kv]


def mapping_of(shape: Shape, change: dict[str, Any] | None) -> TileMapping | None:
    from dataclasses import replace

    return None if change is None else replace(BASE, columns=shape.dimension, depth=shape.dimension, **change)


def sizes_of(core: Program, shape: Shape) -> Any:
    return core.contract.bind((shape.groups,) if core.explicit else (), extents(shape))


def build(job: tuple[Shape, TileMapping | None]) -> str | None:
    """Fill the cache with a shape's kernel; needs no GPU."""
    shape, mapping = job
    core = program(shape.work)
    sizes = sizes_of(core, shape)
    executable = Executable(core, mapping=mapping, exact=True)
    tensors = {v.symbol: contiguous(1 << 20, tuple(d.evaluate(sizes) for d in v.shape), v.element) for v in executable.values}
    try:
        executable.plans(tensors, sizes)
    except (BuildError, AxonError) as error:
        return f"{shape}, {mapping}: {str(error).splitlines()[0]}"
    return None


def tensor_of(x: Any, element: Element) -> DeviceTensor:
    return DeviceTensor(x.data_ptr(), tuple(x.shape), tuple(x.stride()), element)


class Bench:
    """Inputs of one shape, rotated, and the sides."""

    def __init__(self, shape: Shape) -> None:
        import torch

        self.torch, self.shape = torch, shape
        self.core = program(shape.work)
        once = sum(2 * _count(e) for e in extents(shape)) + 2 * _count(extents(shape)[-3])
        self.sets = max(1, -(-4 * L2_BYTES // once))
        self.inputs = [self.random() for _ in range(self.sets)]
        self.outputs = [torch.empty_like(x[-3]) for x in self.inputs]
        self.launches = max(self.sets, min(40, int(3e-3 / (shape.flops / 5e14)) + 1))

    def random(self) -> list[Any]:
        torch = self.torch
        out = [torch.randn(*e, device="cuda", dtype=torch.bfloat16) for e in extents(self.shape)]
        if self.shape.work == "ALiBi":
            out[0] = 2.0 ** (-8.0 * torch.arange(1, self.shape.heads + 1, device="cuda") / self.shape.heads)
        return out

    def graph(self, launch: Callable[[int], object]) -> Any:
        return graph(launch, self.launches, self.sets)

    def reference(self, number: int, batch: int, head: int) -> Any:
        """One head in float32."""
        torch, shape = self.torch, self.shape
        *extra, q, k, v = self.inputs[number]
        group = head // shape.groups
        s = (q[batch, head].float() @ k[batch, group].float().T) * shape.dimension**-0.5
        i = torch.arange(shape.sequence, device="cuda")[:, None]
        j = torch.arange(shape.sequence, device="cuda")[None, :]
        if shape.work == "soft cap":
            s = 30.0 * torch.tanh(s / 30.0)
        elif shape.work != "full":
            if shape.work == "ALiBi":
                s = s + extra[0][head] * (j - i)
            keep = j <= i
            if shape.work == "window 1024":
                keep = keep & (i - j < 1024)
            s = s.masked_fill(~keep, float("-inf"))
        return s.softmax(-1) @ v[batch, group].float()

    def axon(self, mapping: TileMapping | None = None) -> tuple[Any, str]:
        """A graph of Axon's launches, and the mapping; fails on a wrong result."""
        torch, shape = self.torch, self.shape
        executable = Executable(self.core, mapping=mapping, exact=True)
        (result,) = self.core.block.results
        sizes = sizes_of(self.core, shape)
        tensors = []
        for arrays, out in zip(self.inputs, self.outputs, strict=True):
            out.fill_(float("nan"))
            described = {v.symbol: tensor_of(x, v.element) for v, x in zip(self.core.inputs, arrays, strict=True)}
            tensors.append({**described, result: tensor_of(out, Element.BF16)})
        graph = self.graph(lambda n: executable(tensors[n], sizes, torch.cuda.current_stream().cuda_stream))
        graph.replay()
        torch.cuda.synchronize()
        for batch, head in {(0, 0), (shape.batch - 1, shape.heads - 1), (shape.batch // 2, shape.heads // 2)}:
            want = self.reference(self.sets - 1, batch, head)
            error = ((self.outputs[-1][batch, head].float() - want).norm() / want.norm()).item()
            if not error < 6e-3:
                sys.exit(f"{shape}, {mapping}: wrong by {error:.1e}")
        if bool(torch.isnan(self.outputs[-1]).any()):
            sys.exit(f"{shape}, {mapping}: left something out")
        return graph, str(executable.plans(tensors[0], sizes)[0].mapping)

    def cudnn(self) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        attend = self.torch.nn.functional.scaled_dot_product_attention
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return self.graph(lambda n: attend(*self.inputs[n], is_causal=self.shape.work == "causal"))

    def flex(self) -> Any:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        torch, shape = self.torch, self.shape
        mask = {
            "soft cap": None,
            "ALiBi": lambda b, h, i, j: j <= i,
            "window 1024": lambda b, h, i, j: (j <= i) & (i - j < 1024),
            "64 over 8 heads": lambda b, h, i, j: j <= i,
        }[shape.work]
        blocks = create_block_mask(mask, None, None, shape.sequence, shape.sequence) if mask else None
        slopes = self.inputs[0][0]
        change = {
            "soft cap": lambda s, b, h, i, j: 30.0 * torch.tanh(s / 30.0),
            "ALiBi": lambda s, b, h, i, j: s + slopes[h] * (j - i),
        }.get(shape.work)
        compiled = torch.compile(flex_attention, mode="max-autotune-no-cudagraphs")
        grouped = shape.groups > 1
        return self.graph(lambda n: compiled(*self.inputs[n][-3:], score_mod=change, block_mask=blocks, enable_gqa=grouped))

    def race(self, *graphs: Any) -> Race:
        return race(*graphs, launches=self.launches)

    def rate(self, seconds: float) -> float:
        """TFLOP/s."""
        return self.shape.flops / seconds / 1e12


def _count(shape: tuple[int, ...]) -> int:
    out = 1
    for n in shape:
        out *= n
    return out


def against(shapes: list[Shape], peer_name: str) -> list[str]:
    import torch

    lines = [f"| work | {peer_name} TFLOP/s | Axon TFLOP/s | ratio | mapping |", "| --- | --- | --- | --- | --- |"]
    ratios: list[float] = []
    for shape in shapes:
        bench = Bench(shape)
        ours, mapping = bench.axon()
        peer = bench.cudnn() if peer_name == "cuDNN" else bench.flex()
        run = bench.race(peer, ours)
        theirs, mine = run.seconds
        ratios.append(run.ratio(0, 1))
        lines.append(f"| {shape} | {bench.rate(theirs):.0f} | {bench.rate(mine):.0f} | {ratios[-1]:.3f} | {mapping} |")
        print(lines[-1], flush=True)
        del bench, ours, peer
        torch.cuda.empty_cache()
    return [*lines, "", f"geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}, of {len(ratios)}"]


def ablation() -> list[str]:
    import torch

    heads = " | ".join(str(s) for s in ABLATION_SHAPES)
    lines = [f"| TFLOP/s | {heads} |", "| --- |" + " --- |" * len(ABLATION_SHAPES)]
    rows: dict[str, list[str]] = {name: [] for name in ABLATIONS}
    for shape in ABLATION_SHAPES:
        bench = Bench(shape)
        graphs = {}
        for name, change in ABLATIONS.items():
            try:
                graphs[name] = bench.axon(mapping_of(shape, change))[0]
            except AxonError as error:
                rows[name].append(str(error).splitlines()[0][:60])
        for name, time in zip(graphs, bench.race(*graphs.values()).seconds, strict=True):
            rows[name].append(f"{bench.rate(time):.0f}")
        del bench, graphs
        torch.cuda.empty_cache()
    return lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--changes", action="store_true", help="also changed scores, masks and groups against FlexAttention")
    parser.add_argument("--ablation", action="store_true", help="also what each part of a mapping is worth")
    parser.add_argument("--out", help="write the tables to this file")
    options = parser.parse_args()
    jobs: list[tuple[Shape, TileMapping | None]] = [(s, None) for s in SHAPES]
    if options.changes:
        jobs += [(s, None) for s in CHANGES]
    if options.ablation:
        jobs += [(s, mapping_of(s, m)) for s in ABLATION_SHAPES for m in ABLATIONS.values()]
    with get_context("fork").Pool() as pool:  # before CUDA is touched
        for problem in pool.map(build, jobs, chunksize=1):
            if problem:
                print(problem, file=sys.stderr)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    name = torch.cuda.get_device_name()
    tables = [f"# Attention, {name}, torch {torch.__version__}, {date.today()}", "", *against(SHAPES, "cuDNN")]
    if options.changes:
        tables += ["", "## Changed scores, masks, groups", "", *against(CHANGES, "FlexAttention")]
    if options.ablation:
        tables += ["", "## What each part of a mapping is worth", "", *ablation()]
    report(tables, options.out)


if __name__ == "__main__":
    main()
