"""Contractions of every form against `torch.einsum`, on one Hopper GPU.

    python benchmarks/gpu_contractions.py [--random N] [--seed S] [--elements bf16 f32 f64] [--listed] [--out FILE]

A random contraction of two factors has one or two indices that each factor has alone, one to three summed ones, and perhaps one of
all three, in any order in each tensor. `--listed` races the thirty of `contractions_cpu` too, where they have enough to do. Results
are compared in f64 first. Then both sides run in CUDA graphs that rotate inputs over four times the L2 cache, and are replayed in
turn; a ratio above 1 says that Axon is faster. The slowest come first. TF32 is off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import date
from functools import partial
from math import prod
from multiprocessing import get_context
from random import Random

from contractions_cpu import CONTRACTIONS, Case, source_of
from racing import mean, report, rotated

import axon
from axon import compiler
from axon.backend.gpu.runtime.executable import Executable

TYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
WITHIN = {"bf16": 2e-2, "f16": 3e-3, "f32": 1e-4, "f64": 1e-12}
MOST = 1 << 28  # elements of a tensor, and 2 ** 14 times that of products
LEAST = 1 << 24  # products: fewer are done in the time of a launch


def drawn(count: int, seed: int) -> Iterator[Case]:
    chance = Random(f"contractions {seed}")
    while count:
        letters = iter("abcdefghijkl")
        numbers = map(chance.choice, ([0, 0, 1], [1, 1, 2], [1, 1, 2], [1, 2, 2, 3]))
        outer, rows, columns, depth = ({next(letters): 0 for _ in range(number)} for number in numbers)
        for group in (outer, rows, columns, depth):
            whole = chance.choice([2, 3, 8]) if group is outer else round(32 * 128 ** chance.random())
            *inner, last = chance.sample(list(group), len(group)) or [""]
            for letter in inner:
                group[letter] = chance.choice([2, 3, 4, 7, 8, 12, 16, 32])
                whole = max(1, whole // group[letter])
            group[last] = whole
        extents = {**outer, **rows, **columns, **depth}
        extents.pop("", None)
        sides = [[*outer, *rows, *depth], [*outer, *columns, *depth], [*outer, *rows, *columns]]
        left, right, result = ("".join(chance.sample([i for i in side if i], len([i for i in side if i]))) for side in sides)
        order = dict.fromkeys(left + right)
        if prod(extents.values()) < LEAST or max(prod(extents[i] for i in x) for x in (left, right, result)) > MOST:
            continue
        yield Case(f"random {seed}.{count}", f"{left},{right}->{result}", " ".join(str(extents[i]) for i in order))
        count -= 1


def build(job: tuple[Case, str]) -> None:
    """Fill the cache with a kernel; needs no GPU."""
    case, element = job
    core = compiler.lower(compiler.check_text(source_of(case, element)), "f", None)
    Executable(core).warm(core.contract.bind((), case.shapes), exact=False)


def raced(case: Case, element: str) -> tuple[float, str]:
    import torch

    kind = getattr(torch, TYPES[element])
    fresh = lambda: [torch.randn(*shape, device="cuda").to(kind) for shape in case.shapes]
    peer, f = partial(torch.einsum, case.equation), axon.compile(source_of(case, element)).f
    first = fresh()
    mine, theirs, true = f(*first), peer(*first), peer(*(x.double() for x in first))
    scale = float(true.abs().max())
    off, theirs_off = (float((got.double() - true).abs().max()) / scale for got in (mine, theirs))
    if not off < WITHIN[element]:
        sys.exit(f"{case} {element}: off by {off:.2e}, PyTorch by {theirs_off:.2e}")
    work = 2 * prod(case.extents.values())
    del true, theirs
    run = rotated((peer, f), fresh, sum(x.nbytes for x in first) + mine.nbytes, work / 2e14)
    ratio, (their_time, own) = run.ratio(0, 1), run.seconds
    kernels = "; ".join(str(variant.mapping) for variant in f.variants)
    times = f"{their_time * 1e6:.1f} | {own * 1e6:.1f} | {work / own / 1e12:.1f}"
    row = f"| {element} {case.name} | {case.equation} | {case.sizes} | {times} | {ratio:.3f} | {off:.1e}, {theirs_off:.1e} |"
    row += f" {kernels} |"
    print(row, flush=True)
    torch.cuda.empty_cache()
    return ratio, row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--random", type=int, default=16, help="so many of each element type")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--elements", nargs="*", default=["bf16", "f32"], choices=TYPES)
    parser.add_argument("--listed", action="store_true")
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    listed = [case for case in CONTRACTIONS if prod(case.extents.values()) >= LEAST] if options.listed else []
    jobs = [(case, element) for element in options.elements for case in (*listed, *drawn(options.random, options.seed))]
    with get_context("fork").Pool() as pool:  # before CUDA is touched
        pool.map(build, jobs, chunksize=1)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    found = [raced(*job) for job in jobs]
    lines = [f"# Contractions, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    head = "| work | equation | sizes | PyTorch µs | Axon µs | TFLOP/s | ratio | error, PyTorch's | mapping |"
    lines += [head, "|" + " --- |" * 9]
    lines += [row for _, row in sorted(found)]
    for element in options.elements:
        ratios = [ratio for (ratio, _), job in zip(found, jobs, strict=True) if job[1] == element]
        lines += ["", f"{element}: geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}, of {len(ratios)}"]
    report(lines, options.out)


if __name__ == "__main__":
    main()
