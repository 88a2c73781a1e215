"""bf16 matrix products from Axon source against cuBLAS, on one Hopper GPU.

    python benchmarks/gpu_matmul.py [--ablation] [--out FILE]

Each program is a line of Axon; nothing is tuned and no schedule is given. Both sides run in CUDA graphs that rotate inputs and
outputs over four times the L2 cache, so that times are the device's. Replays alternate between the two, and the figure is the
median of each; the ratio is the median of the ratios of neighbours. Inputs are random normal. Results are compared with a float32
product first. A ratio above 1 says Axon is faster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from multiprocessing import get_context
from typing import Any

from racing import L2_BYTES, Race, graph, mean, race, report

from axon import compiler
from axon.backend.gpu.build.cubin import BuildError
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.tile.schedule import TileMapping
from axon.base.element import Element
from axon.core.ir import Program

SOURCES = {
    "nt": "fun f (a : bf16[m, k]) (b : bf16[n, k]) = for i j => sum c => a[i, c] * b[j, c]",
    "nn": "fun f (a : bf16[m, k]) (b : bf16[k, n]) = a @ b",
    "tn": "fun f (a : bf16[k, m]) (b : bf16[k, n]) = for i j => sum c => a[c, i] * b[c, j]",
    "tt": "fun f (a : bf16[k, m]) (b : bf16[n, k]) = for i j => sum c => a[c, i] * b[j, c]",
    "gelu": """import nn
fun f (a : bf16[m, k]) (b : bf16[n, k]) (c : bf16[n]) = nn.gelu (for i j => (sum l => a[i, l] * b[j, l]) + c[j])""",
}


@dataclass(frozen=True)
class Shape:
    """rows × columns × reduced, and how the factors are stored; `pad`: rows of the factors start at multiples of 8 elements."""

    name: str
    m: int
    n: int
    k: int
    layout: str = "nt"
    pad: bool = False

    def __str__(self) -> str:
        return f"{self.m}×{self.n}×{self.k} {self.layout}{' padded' if self.pad else ''}"


SHAPES = [
    *(Shape("square", n, n, n) for n in (512, 1024, 2048, 4096, 8192, 16384)),
    Shape("Llama 3 8B gate and up, 16 tokens", 16, 28672, 4096),
    Shape("Llama 3 8B down, 16 tokens", 16, 4096, 14336),
    Shape("Llama 3 8B qkv, 128 tokens", 128, 6144, 4096),
    Shape("Llama 3 8B down, 128 tokens", 128, 4096, 14336),
    Shape("Llama 3 8B out, 2048 tokens", 2048, 4096, 4096),
    Shape("Llama 3 8B gate and up, 2048 tokens", 2048, 28672, 4096),
    Shape("Llama 3 8B down, 2048 tokens", 2048, 4096, 14336),
    Shape("Llama 3 8B qkv, 8192 tokens", 8192, 6144, 4096),
    Shape("Llama 3 8B gate and up, 8192 tokens", 8192, 28672, 4096),
    *(Shape("layout", 4096, 8192, 4096, layout) for layout in ("nt", "nn", "tn", "tt")),
    Shape("odd", 1023, 4097, 511, "nt", pad=True),
]
# Sizes on which nothing in the compiler was fitted when they were first measured.
UNSEEN = [
    *(Shape("square", n, n, n) for n in (768, 1000, 1536, 3072)),
    Shape("square", 5120, 5120, 5120, "nn"),
    Shape("square", 6144, 6144, 6144, "tt"),
    Shape("few rows", 32, 4096, 4096),
    Shape("few rows", 64, 5120, 5120),
    Shape("few rows", 256, 8192, 8192, "nn"),
    Shape("few rows", 512, 4096, 4096, "nn"),
    Shape("long", 16384, 1024, 1024),
    Shape("wide", 1024, 16384, 1024, "tn"),
    Shape("shallow", 8192, 8192, 512),
    Shape("Llama 2 7B up", 4096, 11008, 4096),
    Shape("narrow", 8192, 1280, 5120),
    Shape("vocabulary", 300, 50000, 768, pad=True),
]
EPILOGUE = Shape("bias and gelu", 8192, 14336, 4096, "gelu")

BASE = TileMapping(256, 128, cluster_over="columns", slots=2)
ABLATIONS = {
    "as the cost model picks it": None,
    "the 256×128 tile, cluster 2": BASE,
    "the 128×256 tile, cluster 2": TileMapping(slots=2),
    "specialization off": replace(BASE, specialized=False),
    "one consumer (64×256)": TileMapping(64, 256, stages=5, consumers=1, slots=2),
    "two consumers of 64×64": TileMapping(128, 128, stages=6, slots=2),
    "one tile per block": TileMapping(256, 128, cluster_over="columns", persistent=False, slots=2),
    "D = 3": TileMapping(256, 128, stages=3, cluster_over="columns", slots=2),
    "D = 2": TileMapping(256, 128, stages=2, cluster_over="columns", slots=2),
    "P = 0": TileMapping(256, 128, in_flight=0, cluster_over="columns", slots=2),
    "P = 2": TileMapping(256, 128, in_flight=2, cluster_over="columns", slots=2),
    "no cluster": TileMapping(256, 128, cluster=1, slots=2),
    "tiles row by row": TileMapping(256, 128, cluster_over="columns", group=1, slots=2),
    "tiles column by column": TileMapping(256, 128, cluster_over="columns", group=1 << 20, slots=2),
}
ABLATION_SHAPES = [Shape("square", 4096, 4096, 4096), Shape("square", 8192, 8192, 8192), Shape("deep", 4096, 4096, 16384)]


def program(layout: str) -> Program:
    return compiler.lower(compiler.check_text(SOURCES[layout]), "f", None)


def build(job: tuple[Shape, TileMapping | None]) -> str | None:
    """Fill the cache with a shape's kernel, as its strides will be; needs no GPU."""
    shape, mapping = job
    core = program(shape.layout)
    executable = Executable(core, mapping=mapping, exact=True)
    sizes = core.contract.bind((), [_extents(shape, v) for v in range(len(core.inputs))])
    tensors = {}
    for number, value in enumerate(executable.values):
        extents = tuple(d.evaluate(sizes) for d in value.shape)
        tensor = contiguous(1 << 20, extents, value.element)
        if shape.pad and number < 2:
            row = -(-extents[1] // 8) * 8
            tensor = type(tensor)(tensor.pointer, extents, (row, 1), value.element)
        tensors[value.symbol] = tensor
    try:
        executable.plans(tensors, sizes)
    except BuildError as error:
        return f"{shape}, {mapping}: {str(error).splitlines()[0]}"
    return None


def _stored(shape: Shape) -> str:
    """For each factor `n` if it is stored as m × k, or k × n, and `t` if across."""
    return "nt" if shape.layout == "gelu" else shape.layout


def _extents(shape: Shape, operand: int) -> tuple[int, ...]:
    if operand == 2:
        return (shape.n,)
    size = shape.m if operand == 0 else shape.n
    stored = _stored(shape)[operand]
    along = (operand == 0) == (stored == "n")  # the reduced index is the last
    return (size, shape.k) if along else (shape.k, size)


def tensor_of(x: Any, element: Element) -> DeviceTensor:
    return DeviceTensor(x.data_ptr(), tuple(x.shape), tuple(x.stride()), element)


class Bench:
    """Inputs of one shape, rotated, and the two sides."""

    def __init__(self, shape: Shape) -> None:
        import torch

        self.torch, self.shape = torch, shape
        self.core = program(shape.layout)
        bytes_once = 2 * (shape.m * shape.k + shape.n * shape.k + shape.m * shape.n)
        self.sets = max(1, min(160, -(-4 * L2_BYTES // bytes_once)))
        self.inputs = [[self.random(_extents(shape, n)) for n in range(len(self.core.inputs))] for _ in range(self.sets)]
        self.outputs = [torch.empty(shape.m, shape.n, dtype=torch.bfloat16, device="cuda") for _ in range(self.sets)]
        work = 2 * shape.m * shape.n * shape.k
        self.launches = max(self.sets, min(40, int(3e-3 / (work / 6e14)) + 1))

    def random(self, extents: tuple[int, ...]) -> Any:
        torch = self.torch
        if self.shape.pad and len(extents) == 2:
            row = -(-extents[1] // 8) * 8
            return torch.randn(extents[0], row, device="cuda", dtype=torch.bfloat16)[:, : extents[1]]
        return torch.randn(*extents, device="cuda", dtype=torch.bfloat16)

    def factors(self, number: int) -> tuple[Any, Any]:
        """The two factors as m × k and k × n."""
        a, b = self.inputs[number][:2]
        left, right = _stored(self.shape)
        return (a if left == "n" else a.t()), (b if right == "n" else b.t())

    def graph(self, launch: Callable[[int], object]) -> Any:
        return graph(launch, self.launches, self.sets)

    def axon(self, mapping: TileMapping | None = None) -> tuple[Any, str]:
        """A graph of Axon's launches, and the mapping; fails on a wrong result."""
        torch = self.torch
        executable = Executable(self.core, mapping=mapping, exact=True)
        (result,) = self.core.block.results
        sizes = self.core.contract.bind((), [tuple(x.shape) for x in self.inputs[0]])
        tensors = []
        for arrays, out in zip(self.inputs, self.outputs, strict=True):
            out.fill_(float("nan"))
            described = {v.symbol: tensor_of(x, v.element) for v, x in zip(self.core.inputs, arrays, strict=True)}
            tensors.append({**described, result: tensor_of(out, Element.BF16)})
        graph = self.graph(lambda n: executable(tensors[n], sizes, torch.cuda.current_stream().cuda_stream))
        graph.replay()
        torch.cuda.synchronize()
        a, b = self.factors(self.sets - 1)
        reference = a.float() @ b.float()
        if len(self.inputs[0]) == 3:
            reference = torch.nn.functional.gelu(reference + self.inputs[self.sets - 1][2].float())
        error = ((self.outputs[-1].float() - reference).norm() / reference.norm()).item()
        if not error < 4e-3:
            sys.exit(f"{self.shape}: wrong by {error:.1e}")
        return graph, str(executable.plans(tensors[0], sizes)[0].mapping)

    def race(self, *graphs: Any) -> Race:
        return race(*graphs, launches=self.launches)

    def rate(self, seconds: float) -> float:
        """TFLOP/s."""
        return 2 * self.shape.m * self.shape.n * self.shape.k / seconds / 1e12


def against_cublas(shapes: list[Shape]) -> list[str]:
    import torch

    lines = ["| product | cuBLAS µs | Axon µs | TFLOP/s | ratio | mapping |", "| --- | --- | --- | --- | --- | --- |"]
    ratios: dict[Shape, float] = {}
    for shape in shapes:
        bench = Bench(shape)
        ours, mapping = bench.axon()
        peer = bench.graph(lambda n, b=bench: torch.matmul(*b.factors(n), out=b.outputs[n]))  # type: ignore[misc]
        run = bench.race(peer, ours)
        theirs, mine = run.seconds
        times = f"{theirs * 1e6:.1f} | {mine * 1e6:.1f}"
        ratios[shape] = run.ratio(0, 1)
        lines.append(f"| {shape.name}: {shape} | {times} | {bench.rate(mine):.0f} | {ratios[shape]:.3f} | {mapping} |")
        print(lines[-1], flush=True)
        del bench, ours, peer
        torch.cuda.empty_cache()
    large = [r for s, r in ratios.items() if min(s.m, s.n, s.k) >= 4096]
    lines.append("")
    usual = [r for s, r in ratios.items() if not s.pad]
    for name, some in (("all", list(ratios.values())), ("without padded ones", usual), ("every extent 4096 and up", large)):
        lines.append(f"{name}: geometric mean {mean(some):.3f}, least {min(some):.3f}, of {len(some)}")
    return lines


def epilogue() -> list[str]:
    """Bias and gelu against torch.compile (max-autotune) and against cuBLAS without an epilogue."""
    import torch

    bench = Bench(EPILOGUE)
    ours, mapping = bench.axon()

    def plain(a: Any, b: Any, c: Any) -> Any:
        return torch.nn.functional.gelu(torch.nn.functional.linear(a, b, c))

    compiled = torch.compile(plain, mode="max-autotune-no-cudagraphs")
    theirs = bench.graph(lambda n: compiled(*bench.inputs[n]))
    product = bench.graph(lambda n: torch.matmul(*bench.factors(n), out=bench.outputs[n]))
    run = bench.race(theirs, product, ours)
    peer, cublas, mine = run.seconds
    return [
        "| work | µs | TFLOP/s |",
        "| --- | --- | --- |",
        f"| torch.compile max-autotune, bias and gelu | {peer * 1e6:.1f} | {bench.rate(peer):.0f} |",
        f"| cuBLAS, no epilogue | {cublas * 1e6:.1f} | {bench.rate(cublas):.0f} |",
        f"| Axon, bias and gelu ({mapping}) | {mine * 1e6:.1f} | {bench.rate(mine):.0f} |",
        "",
        f"{EPILOGUE}: {run.ratio(0, 2):.3f} times torch.compile",
    ]


def ablation() -> list[str]:
    import torch

    heads = " | ".join(str(s) for s in ABLATION_SHAPES)
    lines = [f"| TFLOP/s | {heads} |", "| --- |" + " --- |" * len(ABLATION_SHAPES)]
    rows: dict[str, list[str]] = {name: [] for name in ABLATIONS}
    for shape in ABLATION_SHAPES:
        bench = Bench(shape)
        graphs = {}
        for name, mapping in ABLATIONS.items():
            try:
                graphs[name] = bench.axon(mapping)[0]
            except BuildError:
                rows[name].append("spills")
        for name, time in zip(graphs, bench.race(*graphs.values()).seconds, strict=True):
            rows[name].append(f"{bench.rate(time):.0f}")
        del bench, graphs
        torch.cuda.empty_cache()
    return lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ablation", action="store_true", help="also what each part of a mapping is worth")
    parser.add_argument("--unseen", action="store_true", help="also sizes on which nothing was fitted")
    parser.add_argument("--epilogue", action="store_true", help="also bias and gelu against torch.compile")
    parser.add_argument("--out", help="write the tables to this file")
    options = parser.parse_args()
    jobs: list[tuple[Shape, TileMapping | None]] = [(s, None) for s in SHAPES]
    if options.unseen:
        jobs += [(s, None) for s in UNSEEN]
    if options.epilogue:
        jobs.append((EPILOGUE, None))
    if options.ablation:
        jobs += [(s, m) for s in ABLATION_SHAPES for m in ABLATIONS.values()]
    with get_context("fork").Pool() as pool:  # before CUDA is touched
        for problem in pool.map(build, jobs, chunksize=1):
            if problem:
                print(problem, file=sys.stderr)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    name = torch.cuda.get_device_name()
    tables = [f"# Matrix products, {name}, torch {torch.__version__}, {date.today()}", "", *against_cublas(SHAPES)]
    if options.unseen:
        tables += ["", "## Other sizes", "", *against_cublas(UNSEEN)]
    if options.epilogue:
        tables += ["", "## Bias and gelu", "", *epilogue()]
    if options.ablation:
        tables += ["", "## What each part of a mapping is worth", "", *ablation()]
    report(tables, options.out)


if __name__ == "__main__":
    main()
