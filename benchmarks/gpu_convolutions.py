"""Convolutions of drawn sizes and forms against cuDNN, through PyTorch, on one Hopper GPU.

    python benchmarks/gpu_convolutions.py [--random N] [--seed S] [--elements bf16 f32] [--layers] [--out FILE]

A drawn convolution has one to three dimensions, channels first or last (there PyTorch's tensors lie channels last too), strides,
dilation, padding and groups. `--layers` races the twelve layers of Im2win (Lu et al. 2023) as well, batch 128, channels last for
bf16, first and last for f32. Results are compared in f64 first. Then both sides run in CUDA graphs that rotate inputs over four
times the L2 cache, and are replayed in turn; a ratio above 1 says that Axon is faster. The slowest come first. TF32 is off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from math import prod
from multiprocessing import get_context
from random import Random
from typing import Any

from racing import mean, report, rotated

import axon
from axon import compiler
from axon.backend.gpu.runtime.executable import Executable

TYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
WITHIN = {"bf16": 2e-2, "f16": 3e-3, "f32": 1e-5}  # of the greatest value
MOST = 1 << 28  # elements of a tensor
WORK = (1 << 28, 1 << 38)  # products
INDICES = {1: "p", 2: "pq", 3: "mpq"}


@dataclass(frozen=True)
class Convolution:
    """Images [batch, groups * channels, *sides], kernels [groups * results, channels, *window], lasts: channels come last."""

    batch: int
    groups: int
    channels: int
    results: int
    sides: tuple[int, ...]
    window: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    last: bool = False
    name: str = ""

    @property
    def places(self) -> tuple[int, ...]:
        reached = ((r - 1) * self.dilation + 1 for r in self.window)
        return tuple((side + 2 * self.padding - r) // self.stride + 1 for side, r in zip(self.sides, reached, strict=True))

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        many, results = self.groups * self.channels, self.groups * self.results
        if self.last:
            return (self.batch, *self.sides, many), (results, *self.window, self.channels)
        return (self.batch, many, *self.sides), (results, self.channels, *self.window)

    @property
    def products(self) -> int:
        return self.batch * self.groups * self.results * self.channels * prod(self.places) * prod(self.window)

    def __str__(self) -> str:
        size = "×".join(map(str, self.sides))
        window = "×".join(map(str, self.window))
        told = f"{self.batch} × {self.groups * self.channels} × {size}, {self.groups * self.results} of {window}"
        told += "".join(f", {name} {n}" for name, n, usual in self._unusual if n != usual)
        return f"{self.name} {told}, channels {'last' if self.last else 'first'}".strip()

    @property
    def _unusual(self) -> tuple[tuple[str, int, int], ...]:
        return ("stride", self.stride, 1), ("padding", self.padding, 0), ("dilation", self.dilation, 1), ("groups", self.groups, 1)


def source_of(one: Convolution, element: str) -> str:
    """As one would write it, in indices, for any sizes."""
    at, sides, window = INDICES[len(one.sides)], "dhw"[-len(one.sides) :], "trs"[-len(one.sides) :]
    steps = "ijl"[: len(at)]
    (c, o, x) = ("(g, c)", "(g, o)", "f * c") if one.groups > 1 else ("c", "o", "c")
    many = "f * o" if one.groups > 1 else "o"
    reads = [f"{one.stride} * {p} + {one.dilation} * {i} - {one.padding}" for p, i in zip(at, steps, strict=True)]
    bounds = [
        f"{p} < ({side} + {2 * one.padding} - {one.dilation} * ({r} - 1) - 1) / {one.stride} + 1"
        for p, side, r in zip(at, sides, window, strict=True)
    ]
    padded = " | 0" if one.padding else ""
    heads = (f"n {o}", f"n, {', '.join(bounds)}", o)
    taken = f"c {' '.join(steps)}"
    if one.last:
        image, kernel = f"n, {', '.join(sides)}, {x}", f"{many}, {', '.join(window)}, c"
        read, weight = f"x[n, {', '.join(reads)}, {c}{padded}]", f"k[{o}, {', '.join(steps)}, c]"
        head = f"{heads[1]}, {o}"
    else:
        image, kernel = f"n, {x}, {', '.join(sides)}", f"{many}, c, {', '.join(window)}"
        read, weight = f"x[n, {c}, {', '.join(reads)}{padded}]", f"k[{o}, c, {', '.join(steps)}]"
        head = f"{heads[0]}, {', '.join(bounds)}"
    facts = ", ".join(f"{one.dilation} * ({r} - 1) < {side} + {2 * one.padding}" for side, r in zip(sides, window, strict=True))
    where = f" where {facts}"
    return f"fun f (x : {element}[{image}]) (k : {element}[{kernel}]){where} =\n  for {head} => sum {taken} => {read} * {weight}\n"


def drawn(count: int, seed: int) -> Iterator[Convolution]:
    chance = Random(f"convolutions {seed}")
    some = lambda low, high: round(low * (high / low) ** chance.random())
    while count:
        rank = chance.choice([1, 2, 2, 2, 2, 3])
        most = {1: 8192, 2: 256, 3: 48}[rank]
        groups = chance.choice([1, 1, 1, 1, 2, 8, 32])
        channels = chance.choice([some(1, 16), some(4, 512), 8 * some(1, 64), 64 * some(1, 8)])
        results = chance.choice([some(1, 16), some(4, 512), 8 * some(1, 64), 64 * some(1, 8)])
        if groups == 32:
            channels, results = chance.choice([(1, 1), (1, 2), (4, 4), (8, 8)])
        side, window = some(7, most), tuple([chance.choice([1, 2, 3, 3, 3, 4, 5, 7])] * rank)
        one = Convolution(
            some(1, 256),
            groups,
            channels,
            results,
            tuple(max(5, side + chance.choice([0, 0, 0, -1, 3])) for _ in range(rank)),
            window,
            chance.choice([1, 1, 1, 2, 2, 3]),
            chance.choice([0, window[0] // 2, window[0] // 2]),
            chance.choice([1, 1, 1, 1, 2, 3]),
            chance.random() < 0.5,
            f"{seed}.{count}",
        )
        if min(one.places) < 1 or any((r - 1) * one.dilation + 1 > s for r, s in zip(one.window, one.sides, strict=True)):
            continue
        held = max(*map(prod, one.shapes), one.batch * one.groups * one.results * prod(one.places))
        if held > MOST or not WORK[0] <= one.products <= WORK[1]:
            continue
        yield one
        count -= 1


_LAYERS = """
3 227 96 11 4 · 3 231 96 11 4 · 3 227 64 7 2 · 64 224 64 7 2 · 96 24 256 5 1 · 256 12 512 3 1
3 224 64 3 1 · 64 112 128 3 1 · 64 56 64 3 1 · 128 28 128 3 1 · 256 14 256 3 1 · 512 7 512 3 1
"""


def layers(element: str) -> Iterator[Convolution]:
    """Im2win's: channels, side, results, window and stride of each."""
    for number, text in enumerate(_LAYERS.replace("\n", " · ").strip(" ·").split(" · "), start=1):
        c, side, o, r, stride = map(int, text.split())
        for last in (True,) if element == "bf16" else (False, True):
            yield Convolution(128, 1, c, o, (side, side), (r, r), stride, last=last, name=f"layer {number}:")


def build(job: tuple[Convolution, str]) -> str:
    """Fill the cache with its kernels; needs no GPU. What went wrong, if anything."""
    one, element = job
    try:
        core = compiler.lower(compiler.check_text(source_of(one, element)), "f", None)
        Executable(core).warm(core.contract.bind((), one.shapes), exact=False)
    except Exception as error:
        return f"{one} {element}: {type(error).__name__}: {error}".splitlines()[0]
    return ""


def as_torch(x: Any, last: bool) -> Any:
    """Channels in the second place, without moving anything."""
    return x.movedim(-1, 1) if last else x


def raced(one: Convolution, element: str) -> tuple[float, str]:
    import torch

    kind = getattr(torch, TYPES[element])
    f = axon.compile(source_of(one, element)).f
    convolve = getattr(torch.nn.functional, f"conv{len(one.sides)}d")

    def peer(x: Any, k: Any) -> Any:
        x, k = as_torch(x, one.last), as_torch(k, one.last)
        made = convolve(x, k, None, one.stride, one.padding, one.dilation, one.groups)
        return made.movedim(1, -1) if one.last else made

    bound = 1 / (one.channels * prod(one.window)) ** 0.5
    fresh = lambda: [
        torch.randn(*one.shapes[0], device="cuda").to(kind),
        (torch.randn(*one.shapes[1], device="cuda") * bound).to(kind),
    ]
    first = fresh()
    few = max(1, min(one.batch, (1 << 33) // max(1, one.products // one.batch)))
    mine, theirs = f(*first)[:few].clone(), peer(*first)[:few].clone()
    true = peer(first[0][:few].double(), first[1].double())
    scale = float(true.abs().max())
    off, theirs_off = (float((got.double() - true).abs().max()) / scale for got in (mine, theirs))
    if not (mine.shape == true.shape and off < WITHIN[element]):
        raise ValueError(f"off by {off:.2e}, PyTorch by {theirs_off:.2e}, {tuple(mine.shape)}, {tuple(true.shape)}")
    moved = sum(x.nbytes for x in first) + mine.nbytes * one.batch // few
    del true, theirs, mine
    work = 2 * one.products
    rates = {"f32": 1e14}
    run = rotated((peer, f), fresh, moved, max(work / rates.get(element, 4e14), moved / 2e12))
    ratio, (their_time, own) = run.ratio(0, 1), run.seconds
    kernels = "; ".join(str(variant.mapping) for variant in f.variants)
    times = f"{their_time * 1e6:.1f} | {own * 1e6:.1f} | {work / own / 1e12:.1f} | {moved / own / 1e12:.2f}"
    return ratio, f"| {element} {one} | {times} | {ratio:.3f} | {off:.1e}, {theirs_off:.1e} | {kernels[:160]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--random", type=int, default=24, help="so many of each element type")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--elements", nargs="*", default=["bf16", "f32"], choices=TYPES)
    parser.add_argument("--layers", action="store_true", help="Im2win's too")
    parser.add_argument("--jobs", type=int, default=8, help="processes that build kernels")
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    jobs = [
        (one, element)
        for element in options.elements
        for one in (*(layers(element) if options.layers else ()), *drawn(options.random, options.seed))
    ]
    failed = []
    with get_context("fork").Pool(options.jobs) as pool:  # before CUDA is touched
        failed += filter(None, pool.imap_unordered(build, jobs, chunksize=1))
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    rows: list[tuple[float, str, str]] = []
    for one, element in jobs:
        try:
            ratio, row = raced(one, element)
            rows.append((ratio, row, element))
            print(row, flush=True)
        except Exception as error:
            failed.append(f"{one} {element}: {type(error).__name__}: {error}".splitlines()[0])
            print(failed[-1], flush=True)
        torch.cuda.empty_cache()
    lines = [f"# Convolutions, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    head = ["work", "cuDNN µs", "Axon µs", "TFLOP/s", "TB/s", "ratio", "error, PyTorch's", "mapping"]
    lines += [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    lines += [row for _, row, _ in sorted(rows)]
    for element in options.elements:
        ratios = [ratio for ratio, _, kind in rows if kind == element]
        lines += ["", f"{element}: geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}, of {len(ratios)}"] if ratios else []
    lines += ["", *(f"Failed: {text}" for text in failed)] if failed else []
    report(lines, options.out)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
