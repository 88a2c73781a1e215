"""Kernels made for other chips, on the GPU that is here: whether programs of the corpus give what the interpreter gives, and how
long some take beside those for the GPU itself.

    python benchmarks/gpu_chips.py [CHIP…]                          default: sm_75 sm_80 sm_86
    python benchmarks/gpu_chips.py products [SECONDS [CHIP…]]       default: 45 s, sm_89 sm_80
    python benchmarks/gpu_chips.py random CHIP SEED COUNT SECONDS

A chip's limits and instructions are forced; its speed is the GPU's. Times are of ten calls between two events, the best of five.
`products` are those that tensor instructions of warps make: how long some take, beside cuBLAS; `random` ones against float64, 100
for each chip if there is time, in processes of their own; and of the tiles that may be chosen for bf16, how long each takes beside
what is predicted of it at the speed of this GPU.
"""

from __future__ import annotations

import random as chances
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import axon
from axon.backend import chips
from axon.backend.gpu.layout import register_tiles
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.base.data import replace
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


PRODUCTS = """
fun plain (a : bf16[n, k]) (b : bf16[k, m]) = a @ b
fun wide (a : bf16[n, k]) (b : bf16[k, m]) = for i j => sum c => cast f32 a[i, c] * cast f32 b[c, j]
fun half (a : f16[n, k]) (b : f16[m, k]) (c : f16[m]) = for i j => max ((sum d => a[i, d] * b[j, d]) + c[j]) 0.0
fun across (a : bf16[k, n]) (b : bf16[m, k]) = for j i => sum c => cast f32 a[c, i] * cast f32 b[j, c]
fun heads (a : f16[h, n, k]) (b : f16[h, k, m]) = for h i j => sum c => cast f32 a[h, i, c] * cast f32 b[h, c, j]
fun single (a : f32[n, k]) (b : f32[k, m]) = a @ b
fun double (a : f64[n, k]) (b : f64[k, m]) = a @ b
"""
F16 = torch.float16
MEANING: dict[str, Any] = {
    "plain": lambda a, b: a @ b,
    "wide": lambda a, b: a @ b,
    "half": lambda a, b, c: (a @ b.T + c).clamp(min=0),
    "across": lambda a, b: b @ a,
    "heads": lambda a, b: a @ b,
    "double": lambda a, b: a @ b,
}


def drawn(name: str, chance: chances.Random) -> list[Any]:
    """Random arguments: sizes of any residue, or multiples of what copies take at once; few rows among them."""
    unit = chance.choice((1, 2, 8, 64))
    n, m, k, h = (-(-chance.choice((7, 70, 700)) * chance.randint(1, 10) // (10 * unit)) * unit for _ in range(4))
    like = F16 if name in ("half", "heads") else F64 if name == "double" else BF16
    shapes = {
        "half": ((n, k), (m, k), (m,)),
        "across": ((k, n), (m, k)),
        "heads": ((min(h, 8), n, k), (min(h, 8), k, m)),
    }
    return [random(*shape, like=like) for shape in shapes.get(name, ((n, k), (k, m)))]


def random_products(chip: str, seed: int, count: int, seconds: float) -> str:
    """Against float64: how many are right and are not, the largest error as a part of what rounding allows, and which are not."""
    module = axon.compile(PRODUCTS, chip=chip)
    chance, begin, right, wrong, worst = chances.Random(seed), time.time(), 0, list[str](), 0.0
    torch.manual_seed(seed)
    for _ in range(count):
        if time.time() - begin > seconds:
            break
        name = chance.choice(list(MEANING))
        given = drawn(name, chance)
        got, want = module[name](*given), MEANING[name](*(x.double() for x in given))
        k = given[0].shape[0 if name == "across" else -1]
        sums = MEANING[name](*(x.double().abs() for x in given))
        rounded = {BF16: 2.0**-8, F16: 2.0**-10}.get(got.dtype, 0.0)  # in f16 twice
        bound = (rounded + (k + 8) * (2.0**-52 if name == "double" else 2.0**-22)) * sums + 1e-30
        error = float(((got.double() - want).abs() / bound).max())
        worst = max(worst, error)
        right += error <= 1
        wrong += [] if error <= 1 else [f"{name} {[tuple(x.shape) for x in given]}: {error:.2g}"]
    return f"{right} {len(wrong)} {worst:.3f} {wrong[:2]}"


def agreements(wanted: list[str], seconds: float) -> None:
    """`random_products` of each chip, by several processes."""
    processes = 6
    command = [sys.executable, __file__, "random"]
    begun = {
        chip: [
            subprocess.Popen(
                [*command, chip, str(seed), str(-(-100 // processes)), str(seconds)], stdout=subprocess.PIPE, text=True
            )
            for seed in range(processes)
        ]
        for chip in wanted
    }
    for chip, own in begun.items():
        said = [process.communicate()[0].strip().split(" ", 3) for process in own]
        lost = sum(len(line) < 4 for line in said)
        said = [line for line in said if len(line) == 4]
        right, wrong = (sum(int(line[n]) for line in said) for n in range(2))
        worst = max((float(line[2]) for line in said), default=0.0)
        print(
            f"{chip}: {right} random products right, {wrong} not; worst error {worst:.2f} of the bound; {lost} processes lost",
            flush=True,
        )
        for line in said:
            if line[1] != "0":
                print("   ", line[3])


def products(seconds: float, wanted: list[str]) -> None:
    modules = {chip: axon.compile(PRODUCTS, chip=chip) for chip in wanted}
    begin = time.time()
    timed: list[tuple[str, str, list[Any], Any]] = [
        ("plain", "bf16 4096³", [random(4096, 4096, like=BF16) for _ in range(2)], torch.matmul),
        ("plain", "bf16 2048³", [random(2048, 2048, like=BF16) for _ in range(2)], torch.matmul),
        ("plain", "bf16 16 × 4096 × 4096", [random(16, 4096, like=BF16), random(4096, 4096, like=BF16)], torch.matmul),
        ("half", "f16 2048³ and what follows", [random(*s, like=F16) for s in ((2048, 2048), (2048, 2048), (2048,))],
         lambda a, b, c: torch.relu(torch.addmm(c, a, b.T))),
        ("single", "f32 2048³", [random(2048, 2048) for _ in range(2)], torch.matmul),
        ("double", "f64 1024³", [random(1024, 1024, like=F64) for _ in range(2)], torch.matmul),
    ]  # fmt: skip
    print("| product | cuBLAS, µs | " + " | ".join(f"as {chip}" for chip in wanted) + " |")
    print("|---|" + "---|" * (1 + len(wanted)))
    for name, size, given, peer in timed:
        theirs = microseconds(peer, given)
        mine = [microseconds(modules[chip][name], given) for chip in wanted]
        print(f"| {size} | {theirs:.0f} | " + " | ".join(f"{x:.0f} ({theirs / x:.2f})" for x in mine) + " |", flush=True)
    print(f"{time.time() - begin:.0f} s", flush=True)
    begin = time.time()
    agreements(wanted, seconds / 2)
    print(f"{time.time() - begin:.0f} s", flush=True)
    tiles(wanted[0], seconds / 2)


def tiles(chip: str, seconds: float) -> None:
    """Every tile for products of bf16, at some sizes, while there is time."""
    row, own, every, begin = chips.made_for(chip, 0), chips.made_for(None, 0), register_tiles.NARROW_FRAGMENTS, time.time()
    as_fast = {name: getattr(own, name) for name in ("multiprocessors", "clock", "l2", "dram", "f32", "tensor", "mma")}
    row = replace(row, **as_fast)
    sizes = ((4096, 4096, 4096), (1024, 1024, 1024), (64, 4096, 4096), (16, 4096, 4096))
    given = {size: [random(size[0], size[2], like=BF16), random(size[2], size[1], like=BF16)] for size in sizes}
    print("| tile | " + " | ".join(" × ".join(map(str, size)) for size in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for tile in (tile for tile in every if tile.lines <= row.shared_per_block):
        if time.time() - begin > seconds:
            break
        register_tiles.NARROW_FRAGMENTS = (tile,)
        function, cells = axon.compile(PRODUCTS, chip=chip)["plain"], []
        for size in sizes:
            pairs = register_tiles.Pairs(1, *size, 4, 4, narrow=True, together=(8, 8))
            cells.append(f"{microseconds(function, given[size]):.0f} ({register_tiles.seconds(tile, pairs, row) * 1e6:.0f})")
        print(f"| {tile} | " + " | ".join(cells) + " |", flush=True)
    register_tiles.NARROW_FRAGMENTS = every


def main() -> None:
    if sys.argv[1:2] == ["products"]:
        products(float((sys.argv[2:3] or ["45"])[0]), sys.argv[3:] or ["sm_89", "sm_80"])
        return
    if sys.argv[1:2] == ["random"]:
        chip, seed, count, seconds = sys.argv[2:6]
        print(random_products(chip, int(seed), int(count), float(seconds)))
        return
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
