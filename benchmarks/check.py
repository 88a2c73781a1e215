"""How long a cold `axon check` takes: the examples, a thousand generated lines, and how time grows with length.

python benchmarks/check.py        (`make bench` also keeps what it prints under benchmarks/results)

Each figure is the median of several fresh processes, from start to exit, and so includes Python's own start. Targets are by the
clock, on a machine that does nothing else. The exit code is 1
when a target is missed.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 3
EXAMPLE_TARGET = 1.0  # seconds
GENERATED_TARGET = 2.0  # seconds for 1,000 lines
GROWTH_TARGET = 1.3  # exponent of processor time in length, between 250 and 4,000 lines
LENGTHS = (250, 500, 1000, 2000, 4000)

# What people write, eight lines at a time; each block uses the one before it.
BLOCK = """\
type layer{n}[d, k] = {{ w : f32[d, k], b : f32[k] }}
fun dense{n} (p : layer{n}[d, k]) (x : f32[b, d]) = for i j => (sum c => x[i, c] * p.w[c, j]) + p.b[j]
fun act{n} x = for i j => if x[i, j] > 0.0 then x[i, j] else {n}.0 * x[i, j]
fun scale{n} (s : f32[d]) x = for ..i j => x[..i, j] * s[j] * {before} 1.0
fun window{n} x k = for p => sum r => x[p + r] * k[r]
fun heads{n} {{h}} x = for ..b, i < h, j c => x[..b, j, (i, c)]
fun net{n} (p : layer{n}[d, 2 * d]) (q : layer{n}[2 * d, d]) x = x + dense{n} q (act{n} (dense{n} p x))
fun step{n} x = let val m = max x 0.0 in m * m + {before} x end
"""


class Cost(NamedTuple):
    """Seconds by the clock, which other work on the machine lengthens, and seconds of processor time, which it hardly does."""

    wall: float
    cpu: float


def generated(lines: int) -> str:
    """A well-typed program of about so many lines."""
    blocks = [BLOCK.format(n=n, before=f"step{n - 1}" if n else "abs") for n in range(lines // BLOCK.count("\n"))]
    return "".join(blocks)


def cold_check(path: Path, repeats: int = REPEATS) -> Cost:
    """What `axon check` takes in a fresh process, the median of each."""
    walls, cpus = [], []
    for _ in range(repeats):
        begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "axon", "check", str(path)], cwd=ROOT, env={**os.environ, "NO_COLOR": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - begin)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if done.returncode != 0 or "checked 1 file: no errors" not in done.stdout + done.stderr:
            raise SystemExit(f"{path} does not check:\n{done.stdout}{done.stderr}")
    return Cost(statistics.median(walls), statistics.median(cpus))


def growth(points: list[tuple[int, float]]) -> float:
    """The exponent e of time ~ lines ** e, by least squares."""
    from math import log

    xs = [log(n) for n, _ in points]
    ys = [log(t) for _, t in points]
    x, y = statistics.fmean(xs), statistics.fmean(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def main() -> int:
    missed = False

    def row(what: str, cost: Cost, target: float | None) -> None:
        nonlocal missed
        late = target is not None and cost.wall > target
        missed |= late
        limit = "" if target is None else f"{target:8.2f}"
        print(f"{what:36} {cost.wall:8.2f} {cost.cpu:8.2f} {limit:8}{'  missed' if late else ''}".rstrip())

    print(f"axon check, cold, seconds, median of {REPEATS}: {date.today()}, Python {platform.python_version()}, "
          f"{os.cpu_count()} cores")  # fmt: skip
    print(f"{'':36} {'clock':>8} {'cpu':>8} {'target':>8}")
    for example in sorted((ROOT / "examples").rglob("*.axon")):
        row(str(example.relative_to(ROOT)), cold_check(example), EXAMPLE_TARGET)
    for module in sorted((ROOT / "stdlib").glob("*.axon")):
        row(str(module.relative_to(ROOT)), cold_check(module), EXAMPLE_TARGET)
    points = []
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.axon"
        empty.write_text("")
        start = cold_check(empty)
        row("an empty file", start, None)
        for lines in LENGTHS:
            path = Path(folder) / f"generated_{lines}.axon"
            path.write_text(generated(lines))
            cost = cold_check(path)
            points.append((lines, max(cost.cpu - start.cpu, 1e-3)))
            row(f"{lines} generated lines", cost, GENERATED_TARGET if lines == 1000 else None)
    exponent = growth(points)
    missed |= exponent > GROWTH_TARGET
    print(f"processor time grows as length to the power of {exponent:.2f}; the target is {GROWTH_TARGET}")
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
