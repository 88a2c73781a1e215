"""ADBench's four objectives on processors: what Axon makes of their derivatives, against JAX and PyTorch, compiled.

python benchmarks/adbench/run.py DATA                   every case; DATA is the folder `data` of github.com/microsoft/ADBench
python benchmarks/adbench/run.py DATA gmm --out FILE    those whose name contains one of the words, and the table in a file
python benchmarks/adbench/run.py DATA gmm --rows FILE   the rows added to a file, and the table of all it has

Before anything is timed, all sides' results are compared: each must be within 1e-10 of JAX's, relative to the largest number in
the array. Then each round takes the sides in a random order: after a pause, in which no side's threads wait for work any
more, one call that does not count and as many as fill BUSY seconds. A figure is the median of the rounds; a ratio is the median of
the rounds' ratios, the other side's time over Axon's: above 1, Axon is faster. Processor time is that of all threads: on a
machine with other work it says more than the clock. The first call of each side, which compiles, is beside it. PyTorch is
`torch.compile`; where that fails or takes more than `--limit` seconds, eager, and the table says so. Of bundle adjustment JAX and
PyTorch have two sides each, by forward and by reverse mode, and the faster counts. The sizes were chosen before anything was
measured. `--no-torch` leaves PyTorch out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import exp, log, nan
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # in this process, so that what is given up is not compiled on

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
LIMIT = 60  # seconds, of torch.compile for one function
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
    ratios: dict[str, float]  # by JAX and by PyTorch, whichever of its sides is faster
    worst: float  # how far the sides differ
    eager: list[str]  # what torch.compile did not do


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


def sides(module: Any, kind: str, given: dict[str, Any], others: tuple[str, ...], limit: int) -> dict[str, Side]:
    name = "hand_on_triangles" if "us" in given else kind
    function = getattr(module, name)
    found: dict[str, Side] = {"axon": lambda: function(**given)}
    on_jax = mapped(jax.device_put, given)
    on_torch = mapped(torch.from_numpy, given)
    for variant in (f"{name}_forward", f"{name}_reverse") if kind == "ba" else (name,):
        label = variant.removeprefix(name)
        found[f"jax{label}"] = ready(getattr(in_jax, variant), on_jax)
        if "torch" in others:
            found[f"torch{label}"] = compiled(getattr(in_torch, variant), on_torch, limit)
    return found


def ready(f: Any, given: dict[str, Any]) -> Side:
    return lambda: jax.block_until_ready(f(**given))


class TooLong(BaseException):  # which the compiler does not catch
    pass


def stop(*_: Any) -> None:
    raise TooLong("over the limit")


def compiled(make: Any, given: dict[str, Any], limit: int) -> Side:
    torch.compiler.reset()
    forms = {"fast": make(lambda f: torch.compile(f, dynamic=False)), "eager": make(lambda f: f)}

    def call() -> Any:
        return forms["fast" if "fast" in forms else "eager"](**given)

    def first() -> Any:
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, limit, 1)
        try:
            try:
                return call()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except (Exception, TooLong) as trouble:  # what torch.compile cannot do is not foreseeable
            print(f"torch.compile: {type(trouble).__name__}: {str(trouble).splitlines()[0]}", file=sys.stderr)
            del forms["fast"]
        return call()

    call.first, call.forms = first, forms  # type: ignore[attr-defined]
    return call


def timed(side: Side) -> float:
    start = time.perf_counter()
    side()
    return time.perf_counter() - start


def measured(case: str, found: dict[str, Side], rounds: int) -> Row:
    first, results = {}, {}
    for name, side in found.items():
        start = time.perf_counter()
        results[name] = leaves(getattr(side, "first", side)())
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
    ratios = {}
    for other in sorted({name.partition("_")[0] for name in found} - {"axon"}):
        best = min((name for name in found if name.startswith(other)), key=seconds.__getitem__)
        ratios[other] = median(theirs / mine for theirs, mine in zip(times[best], times["axon"], strict=True))
    eager = [name for name, side in found.items() if "fast" not in getattr(side, "forms", {"fast"})]
    return Row(case, first, seconds, processor, ratios, worst, eager)


def table(rows: list[Row], loads: list[str], rounds: int) -> str:
    def mean(ratios: list[float]) -> str:
        return f"{exp(sum(map(log, ratios)) / len(ratios)):.2f}" if ratios else "-"

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
        "seconds, all with their caches as they were found. A ratio is JAX's or PyTorch's time over Axon's, at last the faster's "
        "processor time, of all threads.",
        "",
        "| | Axon | JAX | PyTorch | by JAX | by PyTorch | processor: Axon | JAX | PyTorch | ratio | first: Axon | JAX | PyTorch "
        "| differ by |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        clock, spent = ([f"{of(times, side) * 1e3:.3f}" for side in SIDES] for times in (row.seconds, row.processor))
        firsts = [f"{of(row.first, side):.1f}" for side in SIDES]
        name = f"{row.case} (eager: {', '.join(row.eager)})" if row.eager else row.case
        by = [f"{row.ratios.get(side, nan):.2f}" for side in SIDES[1:]]
        cells = [name, *clock, *by, *spent, f"{less(row):.2f}", *firsts, f"{row.worst:.0e}"]
        lines.append(f"| {' | '.join(cells)} |")
    kinds = sorted({row.case.split()[0] for row in rows})
    lines += ["", "| geometric mean | by JAX | by PyTorch | by the faster | of processor time |", "|---|--:|--:|--:|--:|"]
    for kind in (*kinds, ""):
        some = [row for row in rows if row.case.startswith(kind)]
        by = [mean([row.ratios[side] for row in some if side in row.ratios]) for side in SIDES[1:]]
        faster = mean([min(row.ratios.values()) for row in some])
        name = f"{kind or 'all'}, {len(some)}"
        lines.append(f"| {' | '.join([name, *by, faster, mean(list(map(less, some)))])} |")
    return "\n".join(lines) + "\n"


def load() -> str:
    return " ".join(f"{x:.1f}" for x in os.getloadavg())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--limit", type=int, default=LIMIT)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    module = axon.load(Path(__file__).parent / "adbench.axon")
    others = ("jax",) if options.no_torch else ("jax", "torch")
    rows, loads = [], [load()]
    for kind, name in CASES:
        case = f"{kind} {name}"
        if options.words and not any(word in case for word in options.words):
            continue
        found = sides(module, kind, data.READ[kind](options.data, name), others, options.limit)
        row = measured(case, found, options.rounds)
        rows.append(row)
        shown = "  ".join(f"{side} {seconds * 1e3:.3f}" for side, seconds in row.seconds.items())
        by = "  ".join(f"by {side} {ratio:.2f}" for side, ratio in row.ratios.items())
        print(f"{case:45s} {shown}  {by}  differ {row.worst:.0e}", file=sys.stderr, flush=True)
        if options.rows:
            with options.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    if options.rows:
        rows = [Row(*json.loads(line)) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    text = table(rows, [*loads, load()], options.rounds)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
