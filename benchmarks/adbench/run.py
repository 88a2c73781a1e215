"""ADBench's four objectives on processors: what Axon makes of their derivatives, against JAX and PyTorch, compiled.

python benchmarks/adbench/run.py DATA                   every case; DATA is the folder `data` of github.com/microsoft/ADBench
python benchmarks/adbench/run.py DATA gmm --out FILE    those whose name contains one of the words, and the table in a file

Before anything is timed, all sides' results are compared: each must be within 1e-10 of JAX's, relative to the largest number in
the array. Then each round takes the sides in a random order: after a pause, in which no side's threads wait for work any
more, one call that does not count and as many as fill BUSY seconds. A figure is the median of the rounds; a ratio is the median of
the rounds' ratios, the faster other side's time over Axon's: above 1, Axon is faster. Processor time is that of all threads: on a
machine with other work it says more than the clock. The first call of each side, which compiles, is beside it. PyTorch is
`torch.compile`; where that fails, eager, and the table says so. Of bundle adjustment JAX and PyTorch have two sides each, by
forward and by reverse mode, and the faster counts. The sizes were chosen before anything was measured. `--no-torch` leaves PyTorch
out.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import exp, log, nan
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import numpy as np
import torch

import axon

sys.path.insert(0, str(Path(__file__).parent))
import data
import in_jax
import in_torch

SIDES = ("axon", "jax", "torch")
ROUNDS = 15
PAUSE = 0.02  # seconds
BUSY = 0.05
CASES = [
    *(("gmm", f"1k/gmm_{size}") for size in ("d2_K5", "d10_K25", "d20_K50", "d32_K100", "d64_K25", "d128_K10")),
    *(("gmm", f"10k/gmm_{size}") for size in ("d10_K25", "d20_K50")),
    *(("ba", name) for name in ("ba1_n49_m7776_p31843", "ba4_n372_m47423_p204472", "ba7_n93_m61203_p287451")),
    *(("lstm", f"lstm_{size}") for size in ("l2_c1024", "l2_c4096", "l4_c1024", "l4_c4096")),
    *(
        ("hand", f"{kind}/{size}")
        for kind in ("simple_small", "simple_big", "complicated_small", "complicated_big")
        for size in ("hand1_t26_c100", "hand6_t26_c1600", "hand10_t26_c25600")
    ),
]
Side = Callable[[], Any]


class Row(NamedTuple):
    case: str
    first: dict[str, float]
    seconds: dict[str, float]
    processor: dict[str, float]
    ratio: float
    worst: float  # how far the sides differ


def leaves(x: Any) -> list[np.ndarray]:
    if isinstance(x, dict):
        return [leaf for part in x.values() for leaf in leaves(part)]
    if isinstance(x, tuple | list):
        return [leaf for part in x for leaf in leaves(part)]
    return [np.asarray(x)]


def mapped(convert: Callable[[np.ndarray], Any], x: Any) -> Any:
    if isinstance(x, dict):
        return {name: mapped(convert, part) for name, part in x.items()}
    return convert(x) if isinstance(x, np.ndarray) else x


def sides(module: Any, kind: str, given: dict[str, Any]) -> dict[str, Side]:
    name = "hand_on_triangles" if "us" in given else kind
    function = getattr(module, name)
    found: dict[str, Side] = {"axon": lambda: function(**given)}
    on_jax = mapped(jax.device_put, given)
    on_torch = mapped(torch.from_numpy, given)
    for variant in (f"{name}_forward", f"{name}_reverse") if kind == "ba" else (name,):
        label = variant.removeprefix(name)
        found[f"jax{label}"] = ready(getattr(in_jax, variant), on_jax)
        found[f"torch{label}"] = compiled(getattr(in_torch, variant), on_torch)
    return found


def ready(f: Any, given: dict[str, Any]) -> Side:
    return lambda: jax.block_until_ready(f(**given))


def compiled(make: Any, given: dict[str, Any]) -> Side:
    torch.compiler.reset()
    fast, eager = make(lambda f: torch.compile(f, dynamic=False)), make(lambda f: f)
    mode = {"eager": False}

    def call() -> Any:
        if mode["eager"]:
            return eager(**given)
        try:
            return fast(**given)
        except Exception as trouble:  # what torch.compile cannot do is not foreseeable
            print(f"torch.compile: {type(trouble).__name__}: {str(trouble).splitlines()[0]}", file=sys.stderr)
            mode["eager"] = True
            return eager(**given)

    call.mode = mode  # type: ignore[attr-defined]
    return call


def timed(side: Side) -> float:
    start = time.perf_counter()
    side()
    return time.perf_counter() - start


def measured(case: str, found: dict[str, Side], rounds: int) -> Row:
    first, results = {}, {}
    for name, side in found.items():
        start = time.perf_counter()
        results[name] = leaves(side())
        first[name] = time.perf_counter() - start
    reference = next(result for name, result in results.items() if name.startswith("jax"))
    worst = 0.0
    for name, result in results.items():
        assert [x.shape for x in result] == [x.shape for x in reference], name
        far = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(result, reference, strict=True))
        assert far < 1e-10, f"{case}: {name} is {far:.1e} from JAX"
        worst = max(worst, far)
    count = {name: max(1, min(200, int(BUSY / timed(side)))) for name, side in found.items()}
    times: dict[str, list[float]] = {name: [] for name in found}
    spent: dict[str, list[float]] = {name: [] for name in found}
    order = list(found)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            time.sleep(PAUSE)
            found[name]()
            start, begin = time.perf_counter(), time.process_time()
            for _ in range(count[name]):
                found[name]()
            times[name].append((time.perf_counter() - start) / count[name])
            spent[name].append((time.process_time() - begin) / count[name])
    seconds, processor = ({name: median(side) for name, side in measured.items()} for measured in (times, spent))
    best = min((name for name in found if name != "axon"), key=seconds.__getitem__)
    ratio = median(other / mine for other, mine in zip(times[best], times["axon"], strict=True))
    return Row(case, first, seconds, processor, ratio, worst)


def table(rows: list[Row], eager: set[str], loads: list[str], rounds: int) -> str:
    def mean(ratios: list[float]) -> float:
        return exp(sum(map(log, ratios)) / len(ratios))

    def of(numbers: dict[str, float], side: str) -> float:
        return min((t for name, t in numbers.items() if name.startswith(side)), default=nan)

    def less(row: Row) -> float:
        return min(t for name, t in row.processor.items() if name != "axon") / row.processor["axon"]

    lines = [
        f"# ADBench on {os.cpu_count()} processors",
        "",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.machine()}, axon {axon.__version__}, JAX {jax.__version__} (`jit`), "
        f"PyTorch {torch.__version__} (`torch.compile`), NumPy {np.__version__}, Python {platform.python_version()}; "
        f"load before and after: {loads[0]}; {loads[1]}. f64, milliseconds, medians of {rounds} interleaved rounds; first calls in "
        "seconds, Axon's with its cache as it was found. A ratio is the faster of JAX's and PyTorch's over Axon's: of the clock's "
        "time, and of the processor time of all threads.",
        "",
        "| | Axon | JAX | PyTorch | ratio | processor: Axon | JAX | PyTorch | ratio | first: Axon | JAX | PyTorch | differ by |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        clock, spent = ([f"{of(times, side) * 1e3:.3f}" for side in SIDES] for times in (row.seconds, row.processor))
        firsts = [f"{of(row.first, side):.1f}" for side in SIDES]
        name = f"{row.case} (PyTorch eager)" if row.case in eager else row.case
        cells = [name, *clock, f"{row.ratio:.2f}", *spent, f"{less(row):.2f}", *firsts, f"{row.worst:.0e}"]
        lines.append(f"| {' | '.join(cells)} |")
    kinds = sorted({row.case.split()[0] for row in rows})
    lines += ["", "| geometric mean | ratio | of processor time |", "|---|--:|--:|"]
    for kind in (*kinds, ""):
        some = [row for row in rows if row.case.startswith(kind)]
        lines.append(f"| {kind or 'all'}, {len(some)} | {mean([r.ratio for r in some]):.2f} | {mean(list(map(less, some))):.2f} |")
    return "\n".join(lines) + "\n"


def load() -> str:
    return " ".join(f"{x:.1f}" for x in os.getloadavg())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    module = axon.load(Path(__file__).parent / "adbench.axon")
    rows, eager, loads = [], set(), [load()]
    for kind, name in CASES:
        case = f"{kind} {name}"
        if options.words and not any(word in case for word in options.words):
            continue
        found = sides(module, kind, data.READ[kind](options.data, name))
        if options.no_torch:
            found = {side: call for side, call in found.items() if not side.startswith("torch")}
        row = measured(case, found, options.rounds)
        if any(getattr(side, "mode", {}).get("eager") for side in found.values()):
            eager.add(case)
        rows.append(row)
        shown = "  ".join(f"{side} {seconds * 1e3:.3f}" for side, seconds in row.seconds.items())
        print(f"{case:45s} {shown}  ratio {row.ratio:.2f}  differ {row.worst:.0e}", file=sys.stderr, flush=True)
    text = table(rows, eager, [*loads, load()], options.rounds)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
