"""Products that share a factor and meet in one result (gated linear units) against PyTorch, eager and compiled, on one Hopper GPU.

    python benchmarks/gpu_siblings.py [--sizes ROWSxDEPTHxCOLUMNS …] [--only NAME …] [--out FILE]

`one kernel` is a line of Axon with no schedule; `two kernels` is the same as two functions, the second of which takes the first's
result in its product's kernel. Results are compared with f64 first. All sides run in CUDA graphs on the same tensors, replayed in
turn; a ratio above 1 says that the one kernel is faster. bf16, summed in f32.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from typing import Any

from racing import report, rotated

import axon
from axon import compiler
from axon.backend.gpu.runtime.executable import Executable

SIZES = ("8192x4096x14336",)


@dataclass(frozen=True)
class Case:
    """The change of the first product, as Axon and as PyTorch write it."""

    change: str
    peer: Callable[[Any], Any]

    @property
    def sources(self) -> dict[str, str]:
        """By the names of functions: the one kernel, and the two."""
        first, second = "sum k => x[i, k] * gate[k, f]", "sum k => x[i, k] * up[k, f]"
        factors = "(x : bf16[n, d]) (gate : bf16[d, h]) (up : bf16[d, h])"
        return {
            "whole": f"import nn\nfun whole {factors} = for i f => {self.change} ({first}) * {second}",
            "before": f"fun before (x : bf16[n, d]) (gate : bf16[d, h]) = for i f => {first}",
            "after": f"import nn\nfun after (x : bf16[n, d]) (up : bf16[d, h]) (g : bf16[n, h]) ="
            f" for i f => {self.change} g[i, f] * {second}",
        }


def _torch(name: str) -> Callable[[Any], Any]:
    def change(x: Any) -> Any:
        import torch

        return getattr(torch.nn.functional, name)(x)

    return change


CASES = {
    "silu": Case("nn.silu", _torch("silu")),
    "gelu": Case("nn.gelu", _torch("gelu")),
    "relu": Case("nn.relu", _torch("relu")),
}


def extents(text: str) -> tuple[int, int, int]:
    rows, summed, columns = map(int, text.split("x"))
    return rows, summed, columns


def build(job: tuple[str, str, tuple[int, int, int]]) -> None:
    """Fill the cache with a kernel; needs no GPU."""
    case, name, (n, d, h) = CASES[job[0]], job[1], job[2]
    core = compiler.lower(compiler.check_text(case.sources[name]), name, None)
    shapes = {"whole": ((n, d), (d, h), (d, h)), "before": ((n, d), (d, h)), "after": ((n, d), (d, h), (n, h))}[name]
    Executable(core).warm(core.contract.bind((), shapes), exact=False)


def raced(name: str, sizes: tuple[int, int, int]) -> str:
    import torch

    case, (n, d, h) = CASES[name], sizes
    whole, before, after = (getattr(axon.compile(text), function) for function, text in case.sources.items())

    def fresh() -> list[Any]:
        shapes = ((n, d), (d, h), (d, h))
        return [torch.randn(s, device="cuda", dtype=torch.bfloat16) / (1 if s == (n, d) else d**0.5) for s in shapes]

    def eager(x: Any, gate: Any, up: Any) -> Any:
        return case.peer(x @ gate) * (x @ up)

    def two(x: Any, gate: Any, up: Any) -> Any:
        return after(x, up, before(x, gate))

    sides = {"eager": eager, "torch.compile": torch.compile(eager), "two kernels": two, "one kernel": whole}
    first = fresh()
    true = eager(*(x.double() for x in first))
    scale = float(true.abs().max())
    off = {side: float((f(*first).double() - true).abs().max()) / scale for side, f in sides.items()}
    if not off["one kernel"] < 1e-2:
        sys.exit(f"{name} {sizes}: off by {off}")
    del true
    moved = 2 * (n * d + 2 * d * h + n * h)
    run = rotated(tuple(sides.values()), fresh, moved, 4 * n * d * h / 6e14)
    times = " | ".join(f"{seconds * 1e6:.0f}" for seconds in run.seconds)
    ratios = " | ".join(f"{run.ratio(other, 3):.3f}" for other in range(3))
    rate = 4 * n * d * h / run.seconds[3] / 1e12
    mapping = str(next(iter(whole.variants)).mapping)
    row = (
        f"| {name} | {n} × {d} × {h} | {times} | {rate:.0f} | {ratios} | {off['one kernel']:.1e}, {off['eager']:.1e} | {mapping} |"
    )
    print(row, flush=True)
    torch.cuda.empty_cache()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), help="rows, summed indices and columns")
    parser.add_argument("--only", nargs="*", default=["silu"], choices=list(CASES))
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    jobs = [(name, extents(sizes)) for name in options.only for sizes in options.sizes]
    with get_context("fork").Pool() as pool:  # before CUDA is touched
        pool.map(build, [(name, function, sizes) for name, sizes in jobs for function in CASES[name].sources], chunksize=1)
    import torch

    rows = [raced(*job) for job in jobs]
    head = "| change | rows × summed × columns | eager µs | torch.compile µs | two kernels µs | one kernel µs | TFLOP/s |"
    head += " of eager | of torch.compile | of two kernels | error, eager's | mapping |"
    lines = [f"# Products that share a factor, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    report([*lines, head, "|" + " --- |" * 12, *rows], options.out)


if __name__ == "__main__":
    main()
