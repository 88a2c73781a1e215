"""Kernels of two revisions of Axon side by side on one GPU: what a change of machine code costs or gains.

    git archive OLD axon stdlib | tar -x -C DIRECTORY
    python benchmarks/gpu_revisions.py DIRECTORY [--only NAME …] [--rounds N] [--jobs N] [--out FILE]

Each revision runs in a process of its own, from the same programs and random inputs, through its public API; this process has them
replay their CUDA graphs in turn. A graph rotates inputs and outputs over four times the L2 cache. A ratio above 1 says that this
revision is faster than the one in the directory: the median of the ratios of neighbouring replays, in two halves of the rounds
apart, of which the better is what `none worse than` speaks of. The results of both are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from attention_sources import HEAD, SOURCES
from racing import L2_BYTES, graph, mean, report

ROOT = Path(__file__).resolve().parent.parent
PLAIN = """
import nn
fun softmax (x : f32[n, d]) = nn.softmax x
fun layer_norm (g : bf16[d]) (b : bf16[d]) (x : bf16[n, d]) = nn.layer_norm {scale = g, shift = b} x
fun best (x : f32[n, d]) = for i => argmax j => x[i, j]
fun worst (x : bf16[n, d]) = for i => argmin j => x[i, j]
fun best_of_columns (x : f32[n, d]) = for j => argmax i => x[i, j]
fun transpose (x : bf16[n, d]) = for j i => x[i, j]
fun running (x : f32[n, d]) = for i => scan (op +, 0.0) j => x[i, j]
fun branches (x : f32[n, d]) = for i j => if x[i, j] > 0.0 then x[i, j] else exp x[i, j] - 1.0
fun sorted (x : f32[n, d]) = for i => sort x[i, ..]
fun product (a : bf16[m, k]) (b : bf16[k, n]) = a @ b
fun bias_gelu (a : bf16[m, k]) (b : bf16[k, n]) (c : bf16[n]) = nn.gelu (for i j => (a @ b)[i, j] + c[j])
fun three (a : bf16[m, k]) (b : bf16[k, n]) (c : bf16[n]) (r : bf16[m, n]) (g : bf16[m, n]) =
  for i j => ((sum l => a[i, l] * b[l, j]) + c[j] + r[i, j]) * g[i, j]
fun turned (a : bf16[k, m]) (b : bf16[n, k]) = for i j => sum l => a[l, i] * b[j, l]
"""
MASKED = (
    HEAD
    + """fun f (m : bool[s, s]) (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k in apply (for b h i j => if m[i, j] then x[b, h, i, j] else -inf) v end
"""
)


@dataclass(frozen=True)
class Case:
    name: str
    source: str
    function: str
    inputs: tuple[str, ...]  # as types: "bf16[4096, 128]"


def _plain() -> Iterator[Case]:
    square, wide = "[4096, 4096]", "[16384, 4096]"
    large = {64: 524288, 128: 262144, 1000: 32768, 4096: 8192, 65536: 512}
    for work, element in (("best", "f32"), ("worst", "bf16")):
        for columns, rows in large.items():
            yield Case(f"{work} of {columns}", PLAIN, work, (f"{element}[{rows}, {columns}]",))
    yield Case("best of columns", PLAIN, "best_of_columns", (f"f32{wide}",))
    for work, element in (("softmax", "f32"), ("transpose", "bf16"), ("running", "f32"), ("branches", "f32")):
        yield Case(work, PLAIN, work, (f"{element}{wide}",))
    yield Case("layer norm", PLAIN, "layer_norm", ("bf16[4096]", "bf16[4096]", f"bf16{wide}"))
    yield Case("sort of rows", PLAIN, "sorted", (f"f32{square}",))
    yield Case("sort of long rows", PLAIN, "sorted", ("f32[16, 1048576]",))
    for size in (1024, 4096, 8192):
        each = f"bf16[{size}, {size}]"
        yield Case(f"product {size}", PLAIN, "product", (each, each))
        yield Case(f"bias and gelu {size}", PLAIN, "bias_gelu", (each, each, f"bf16[{size}]"))
        yield Case(f"three operands {size}", PLAIN, "three", (each, each, f"bf16[{size}]", each, each))
        yield Case(f"transposed factors {size}", PLAIN, "turned", (each, each))


def _streams() -> Iterator[Case]:
    for d in (64, 128):
        for s in (1024, 4096, 16384):
            shape = f"bf16[{16384 // s}, {2048 // d}, {s}, {d}]"
            for work in ("full", "causal"):
                yield Case(f"{work} attention {s}×{d}", SOURCES[work], "f", (shape,) * 3)
        shape = f"bf16[4, {2048 // d}, 4096, {d}]"
        for work in ("soft cap", "window 1024"):
            yield Case(f"{work} attention 4096×{d}", SOURCES[work], "f", (shape,) * 3)
        yield Case(f"ALiBi attention 4096×{d}", SOURCES["ALiBi"], "f", (f"f32[{2048 // d}]", *(shape,) * 3))
        yield Case(f"masked attention 4096×{d}", MASKED, "f", ("bool[4096, 4096]", *(shape,) * 3))


CASES = [*_streams(), *_plain()]


def arrays(case: Case, seed: int) -> list[Any]:
    import torch

    made = torch.Generator(device="cuda").manual_seed(seed)
    out = []
    for text in case.inputs:
        found = re.fullmatch(r"(\w+)\[([\d, ]+)\]", text)
        assert found is not None
        x = torch.randn([int(n) for n in found[2].split(",")], device="cuda", generator=made)
        out.append(x > -1.0 if found[1] == "bool" else x.to({"bf16": torch.bfloat16, "f32": torch.float32}[found[1]]))
    return out


def function_of(case: Case) -> Any:
    import axon

    return getattr(axon.compile(case.source), case.function)


def prepare(number: int) -> None:
    """Build what a case needs, in a process of its own."""
    import torch

    with suppress(Exception):  # it will be seen when it is measured
        function_of(CASES[number])(*arrays(CASES[number], 0))
        torch.cuda.synchronize()


def serve(jobs: int, numbers: list[int]) -> None:
    """Build, then obey: `open N` makes the graph of a case, `replay` answers with the seconds of a launch."""
    if jobs:
        with get_context("spawn").Pool(jobs) as pool:
            pool.map(prepare, numbers, chunksize=1)
    import torch

    answer({"ready": True})
    made: Any = None
    launches = 1
    for line in sys.stdin:
        words = line.split()
        if words[0] == "open":
            made = None
            torch.cuda.empty_cache()
            case = CASES[int(words[1])]
            try:
                function = function_of(case)
                first = arrays(case, 0)
                out = function(*first)
                moved = sum(x.numel() * x.element_size() for x in (*first, out))
                count = max(2, min(12, -(-4 * L2_BYTES // moved)))
                sets = [first, *(arrays(case, seed) for seed in range(1, count))]
                outs = [torch.empty_like(out) for _ in sets]
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                function(*first, out=out)
                end.record()
                end.synchronize()
                launches = count * max(1, int(3 / (count * max(start.elapsed_time(end), 0.01))))
                made = graph(lambda n, f=function, s=sets, o=outs: f(*s[n], out=o[n]), launches, count)  # type: ignore[misc]
                answer({"sum": float(out.double().abs().mean())})
            except Exception as failure:
                answer({"failure": f"{type(failure).__name__}: {str(failure).splitlines()[0][:120]}"})
        else:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            made.replay()
            end.record()
            end.synchronize()
            answer({"seconds": start.elapsed_time(end) / 1e3 / launches})


def answer(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


class Side:
    """A revision in a process of its own."""

    def __init__(self, tree: Path, jobs: int, numbers: list[int]) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, __file__, "--serve", str(jobs), *map(str, numbers)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a side has ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, words: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(words, file=self.process.stdin, flush=True)
        return self.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=7, help="processes that build, for each side")
    parser.add_argument("--out", help="write the table there too")
    options = parser.parse_args()
    numbers = [n for n, case in enumerate(CASES) if not options.only or any(part in case.name for part in options.only)]
    sides = [Side(options.old.resolve(), options.jobs, numbers), Side(ROOT, options.jobs, numbers)]
    for side in sides:
        side.read()
    import torch

    lines = [f"# Two revisions side by side, {date.today()}, {torch.cuda.get_device_name()}", ""]
    lines += ["| work | µs before | µs now | ratio | first half | second half |", "|---|---:|---:|---:|---:|---:|"]
    best = []
    for number in numbers:
        name = CASES[number].name
        opened = [side.ask(f"open {number}") for side in sides]
        failures = [f"{when}: {x['failure']}" for when, x in zip(("before", "now"), opened, strict=True) if "failure" in x]
        if failures:
            lines.append(f"| {name} | {'; '.join(failures)} |")
            print(lines[-1], flush=True)
            continue
        before, now = (found["sum"] for found in opened)
        if not abs(before - now) <= 1e-3 * abs(before):
            lines.append(f"| {name} | results differ: {before} and {now} |")
            print(lines[-1], flush=True)
        times: list[tuple[float, float]] = []
        for round_ in range(options.rounds + 2):
            pair = [0.0, 0.0]
            for at in (0, 1) if round_ % 2 else (1, 0):
                pair[at] = sides[at].ask("replay")["seconds"]
            if round_ >= 2:
                times.append((pair[0], pair[1]))
        ratios = [a / b for a, b in times]
        halves = [median(ratios[: len(ratios) // 2]), median(ratios[len(ratios) // 2 :])]
        best.append(max(halves))
        micros = [median(side) * 1e6 for side in zip(*times, strict=True)]
        cells = [f"{micros[0]:.1f}", f"{micros[1]:.1f}", f"{median(ratios):.3f}", *(f"{half:.3f}" for half in halves)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines += ["", f"Geometric mean {mean(best):.3f}, least {min(best):.3f}, of {len(best)}, by the better half."]
    report(lines, options.out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), [int(n) for n in sys.argv[3:]])
    else:
        main()
