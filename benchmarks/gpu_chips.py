"""Kernels made for other chips, on the GPU that is here: whether programs of the corpus give what the interpreter gives, and how
long some take beside those for the GPU itself.

    python benchmarks/gpu_chips.py [CHIP…]          default: sm_75 sm_80 sm_86

A chip's limits and instructions are forced; its speed is the GPU's. Times are of ten calls between two events, the best of five.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import axon
from axon.backend import chips
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.interpret import run
from tests.backend.gpu.oracle import corpus, different, outcome

SOURCE = """
import nn
fun softmax (x : f32[n, m]) = nn.softmax x
fun layer_norm (x : bf16[n, m]) (g : bf16[m]) (c : bf16[m]) = nn.layer_norm {scale = g, shift = c} x
fun product (a : f32[n, k]) (b : f32[k, m]) = a @ b
fun product_f64 (a : f64[n, k]) (b : f64[k, m]) = a @ b
fun transpose (x : f32[n, m]) = for j i => x[i, j]
fun sums_of_rows (x : f32[n, m]) = for i => sum j => x[i, j]
fun sums_of_columns (x : bf16[n, m]) = for j => sum i => x[i, j]
fun sorted (x : f32[n]) = sort x
"""
BF16, F64 = torch.bfloat16, torch.float64


def random(*shape: int, like: torch.dtype = torch.float32) -> Any:
    return torch.randn(*shape, device="cuda").to(like)


def arguments() -> dict[str, tuple[str, list[Any]]]:
    scale = [random(32768, like=BF16) for _ in range(2)]
    return {
        "softmax": ("f32 8192 × 8192", [random(8192, 8192)]),
        "layer_norm": ("bf16 4096 × 32768", [random(4096, 32768, like=BF16), *scale]),
        "product": ("f32 2048³", [random(2048, 2048), random(2048, 2048)]),
        "product_f64": ("f64 1024³", [random(1024, 1024, like=F64), random(1024, 1024, like=F64)]),
        "transpose": ("f32 8192 × 8192", [random(8192, 8192)]),
        "sums_of_rows": ("f32 8192 × 8192", [random(8192, 8192)]),
        "sums_of_columns": ("bf16 8192 × 8192", [random(8192, 8192, like=BF16)]),
        "sorted": ("f32 4,194,304", [random(1 << 22)]),
    }


def microseconds(function: Any, given: list[Any]) -> float:
    for _ in range(3):
        function(*given)
    best = float("inf")
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            function(*given)
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) * 100)
    return best


def agreement(chip: str, one_in: int) -> str:
    """How many programs of the corpus give what the interpreter gives."""
    right, wrong = 0, list[str]()
    for name, (program, (explicit, inputs, sizes)) in corpus(one_in).items():
        want = outcome(run, program, inputs, explicit)
        stepped = Stepped(program, chips.made_for(chip, 0))
        given = [x.copy() for x in inputs]
        got = outcome(lambda s=stepped, g=given, at=sizes: HostCall(s, g, at, None)(g, None))
        why = different(got, want)
        right += not why
        wrong += [f"{name}: {why[:120]}"] if why else []
    return f"{right} programs of the corpus right, {len(wrong)} not: {wrong[:5]}"


def main() -> None:
    wanted = sys.argv[1:] or ["sm_75", "sm_80", "sm_86"]
    own = chips.made_for(None, 0)
    print(f"{torch.cuda.get_device_name()}: {own.name}, {own.multiprocessors} multiprocessors, {own.dram / 1e12:.2f} TB/s")
    times: dict[str, dict[str, float]] = {}
    given = arguments()
    for chip in (None, *wanted):
        module = axon.compile(SOURCE, chip=chip)
        times[chip or "own"] = {name: microseconds(module[name], args) for name, (_, args) in given.items()}
    print("| program | own, µs | " + " | ".join(f"as {chip}" for chip in wanted) + " |")
    print("|---|" + "---|" * (1 + len(wanted)))
    for name, (size, _) in given.items():
        cells = " | ".join(f"{times[chip][name]:.0f} ({times['own'][name] / times[chip][name]:.2f})" for chip in wanted)
        print(f"| {name}, {size} | {times['own'][name]:.0f} | {cells} |")
    for chip in wanted[:2]:
        start = time.time()
        print(f"{chip}: {agreement(chip, 8)}; {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
