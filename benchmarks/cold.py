"""How long a new process takes until it has checked a file, or called a function for the first time, when the disk is warm.

python benchmarks/cold.py [--rounds N] [--against CHECKOUT] [--write FILE]

Every file of FILES is checked by `axon check`, every function of CALLS called once on the CPU; each in a process of its own, from
its start to its end. The reference is a process that imports Lark and rich. In each round all take their turns, in an order drawn
anew, and with `--against` those of another checkout among them; figures are medians over the rounds. The first round is not
counted: it leaves on disk what a second process finds there, Python's byte code as well. Processor time is given beside the
clock's, for it hardly depends on what else the machine does. The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = "import lark, rich"
CHECK_TARGET = 3.0  # times the reference
CALL_TARGET = 0.4  # seconds
FILES = tuple(
    f"examples/{name}.axon"
    for name in (
        "attention", "filters", "fourier", "gallery", "gpt2_block", "heat", "kalman", "kmeans", "mandelbrot",
        "mlp", "neighbours", "pagerank", "resnet_block", "score_changes", "digits/digits", "models/gcn",
        "models/gpt2", "models/llama3", "models/mamba", "models/mixtral", "models/resnet50",
        "models/seq2seq", "models/unet", "models/vit", "models/whisper",
    )
)  # fmt: skip
# A function of a file, called with arguments that are large enough for it to be compiled and not interpreted.
CALLS = {
    "attention": "m.attention(f(4, 256, 64), f(4, 256, 64), f(4, 256, 64))",
    "filters": "m.drawn(f(3, 300, 400))",
    "fourier": "m.spectrogram[128, 64](f(4096))",
    "heat": "m.heat(10, np.float32(0.1), f(256, 256))",
    "kalman": "m.spread(f(64, 64), f(64, 64))",
    "kmeans": "m.kmeans(5, f(2000, 8), f(6, 8))",
    "mandelbrot": "m.mandelbrot[200, 300](50, {'re': np.float32(-0.5), 'im': np.float32(0)}, np.float32(3))",
    "mlp": "m.predict({'up': {'w': f(784, 128), 'b': f(128)}, 'down': {'w': f(128, 10), 'b': f(10)}}, f(64, 784))",
    "pagerank": "m.page_rank(20, np.float32(0.85), f(300, 300) > 0)",
}
CALL = """
import sys
import numpy as np
import axon
f = lambda *shape: np.ones(shape, np.float32)
m = axon.load({path!r})
result = {call}
compilers = {{"numba", "sympy", "lark"}} & sys.modules.keys()
assert {warming} or not compilers, compilers
"""


class Cost(NamedTuple):
    """Seconds by the clock, and of processor time."""

    wall: float
    cpu: float


class Work(NamedTuple):
    """One process: of which checkout, and what it does; `warming` is the same where things may still be made."""

    root: Path
    command: tuple[str, ...]
    warming: tuple[str, ...]


def works(root: Path) -> dict[str, Work]:
    """Every process that is measured in a checkout, by its name."""
    found = {"import axon": ("-c", "import axon")} | {f"check {file}": ("-m", "axon", "check", file) for file in FILES}
    made = {name: Work(root, command, command) for name, command in found.items()}
    for name, call in CALLS.items():
        texts = [CALL.format(path=f"examples/{name}.axon", call=call, warming=warming) for warming in (False, True)]
        made[f"first call {name}"] = Work(root, ("-c", texts[0]), ("-c", texts[1]))
    return made


def measured(work: Work, caches: Path, warming: bool) -> Cost:
    """What a process takes. It finds on disk what others have left there, and Python's byte code."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = caches / work.root.name
    environment |= {"PYTHONPATH": str(work.root), "NO_COLOR": "1", "AXON_CACHE": str(own), "XDG_CACHE_HOME": str(own / "user")}
    environment["PYTHONPYCACHEPREFIX"] = str(own / "bytecode")
    command = [sys.executable, *(work.warming if warming else work.command)]
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=work.root, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)[:400]} fails:\n{done.stdout}{done.stderr}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def rounds(named: dict[str, Work], count: int, caches: Path) -> dict[str, Cost]:
    """The medians of what each takes, over so many rounds after the first."""
    found: dict[str, list[Cost]] = {name: [] for name in named}
    chance = random.Random(0)
    for number in range(count + 1):
        order = list(named)
        chance.shuffle(order)
        for name in order:
            cost = measured(named[name], caches, warming=number == 0)
            if number:
                found[name].append(cost)
    return {n: Cost(statistics.median(c.wall for c in all_), statistics.median(c.cpu for c in all_)) for n, all_ in found.items()}


def report(costs: dict[str, Cost], before: bool) -> tuple[list[str], list[str]]:
    """The table, and what has missed its target."""
    reference = costs["reference"]
    heads = ["ms", "cpu ms", "× reference", "× cpu", *(["ms before", "cpu before"] if before else [])]
    lines = [f"| process | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    missed = []
    for name, cost in costs.items():
        if name.startswith("before: "):
            continue
        ratio = cost.wall / reference.wall
        cells = [f"{cost.wall * 1e3:.0f}", f"{cost.cpu * 1e3:.0f}", f"{ratio:.2f}", f"{cost.cpu / reference.cpu:.2f}"]
        if before:
            old = costs.get(f"before: {name}")
            cells += [f"{old.wall * 1e3:.0f}", f"{old.cpu * 1e3:.0f}"] if old is not None else ["", ""]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        late = ratio > CHECK_TARGET if name.startswith("check") else name.startswith("first") and cost.wall > CALL_TARGET
        missed += [name] if late else []
    return lines, missed


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--against", type=Path, help="another checkout, measured in the same rounds")
    parser.add_argument("--write", type=Path, help="where the table goes, besides standard output")
    parser.add_argument("--only", default="", help="a part of the names to measure")
    given = parser.parse_args(argv)
    named = {"reference": Work(ROOT, ("-c", REFERENCE), ("-c", REFERENCE))}
    named |= {name: work for name, work in works(ROOT).items() if given.only in name}
    if given.against is not None:
        old = {f"before: {name}": work for name, work in works(given.against.resolve()).items() if given.only in name}
        named |= old
    with tempfile.TemporaryDirectory() as caches:
        costs = rounds(named, given.rounds, Path(caches))
    lines, missed = report(costs, given.against is not None)
    head = (
        f"# From cold: {datetime.now(UTC):%Y-%m-%d}\n\n`python benchmarks/cold.py`, {given.rounds} rounds, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}. The reference is `{REFERENCE}`.\n"
        f"Targets: a check takes at most {CHECK_TARGET:.0f} × the reference, a first call {CALL_TARGET} s by the clock.\n"
    )
    text = "\n".join([head, *lines, "", f"Missed: {', '.join(missed) or 'none'}", ""])
    print(text)
    if given.write is not None:
        given.write.write_text(text, encoding="utf-8")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
