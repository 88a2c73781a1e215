"""Many chains and many particles on one GPU beside two cores of a processor: the hierarchical regression and the volatility
model of examples/chance.

    python benchmarks/gpu_inference.py [--only volatility] [--chains 4096] [--steps 50] [--particles 1000000] [--months 40]
    python benchmarks/gpu_inference.py --cpu          # the processor's side alone

Both sides make the same number of steps at the same sizes, with arrays of NumPy, compiled and warm; the processor's side runs at
the same time on two cores of its own. A figure is the seconds of a step. *Predicted* is the sum over the kernels of a step of the
time that `axon explain` shows, with 2 µs for each launch; *roofline* that of their bytes and operations alone. Results agree if no
two means differ by more than 5 of their Monte Carlo errors, which come from chains, and from runs of the filter with other keys; a
second run by the same key gives the same bits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from racing import report

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples" / "chance"))
KEYS = 4  # runs of the filter, of which the Monte Carlo error comes


class Side(NamedTuple):
    """Seconds of a step, and means with their errors, by name."""

    seconds: float
    means: dict[str, tuple[float, float]]
    trips: float = 0.0  # leapfrog steps of a step
    bits: Any = None


def regression(chains: int, steps: int, key: int, target: str | None) -> Side:
    """`steps` steps of warm-up and as many draws of the batting averages by `chees`."""
    import batting

    from axon.host.inference import chains as chained
    from axon.host.inference.asked import Asked
    from axon.host.inference.density import density_of, key_of
    from axon.host.inference.program import program

    data = {"times": np.full(len(batting.HITS), 45, np.int32), "hits": batting.HITS}
    density = density_of(module("batting").batting, data, None, "chees", slopes=True)
    asked = Asked(density, program(density, "chees", True), chains, steps, key_of(density.callee, key), target, steps)
    start = time.perf_counter()
    found = chained.chees(asked)
    seconds = (time.perf_counter() - start) / (2 * steps)
    each = {"mu": found.draws["mu"], "tau": found.draws["tau"], "first": found.draws["apart"][..., 0]}
    each |= {f"{name}²": x**2 for name, x in each.items()}
    means = {name: (float(x.mean()), float(x.mean(0).std() / np.sqrt(chains))) for name, x in each.items()}
    return Side(seconds, means, float(found.stats["n_steps"].mean()), found.draws["apart"])


def volatility(particles: int, months: int, key: int, target: str | None) -> Side:
    import pound

    change = pound.changes()[1][:months]
    runs = []
    start = time.perf_counter()
    for n in range(KEYS):
        spread = pound.WIDE * np.sqrt(1 - 0.9**2)
        level = np.log(np.var(change)) - pound.WIDE**2 / 2
        seed = np.array([key, n], np.uint32)
        runs.append(module("pound").volatility[particles](change, level, 0.9, spread, seed, target=target))
    seconds = (time.perf_counter() - start) / (KEYS * months)
    every = np.array([[float(np.sum(evidences)), deviation[-1], deviation.max()] for deviation, evidences, _ in runs])
    names = ("evidence", "last deviation", "largest deviation")
    means = {name: (float(x.mean()), float(x.std(ddof=1) / np.sqrt(KEYS))) for name, x in zip(names, every.T, strict=True)}
    return Side(seconds, means, 0.0, np.concatenate([np.asarray(part) for run in runs for part in run]))


_loaded: dict[str, Any] = {}


def module(name: str) -> Any:
    import axon

    if name not in _loaded:
        _loaded[name] = axon.load(HERE.parent / "examples" / "chance" / f"{name}.axon")
    return _loaded[name]


# ── What is launched ────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def recorded() -> Iterator[list[Any]]:
    """The programs in parts that are made meanwhile, with their sizes."""
    from axon.backend.gpu.runtime.steps import Ordered

    made: list[Any] = []
    before = Ordered.at

    def at(self: Any, sizes: Mapping[Any, int]) -> Any:
        found = before(self, sizes)
        if all(found is not one for one, _ in made):
            made.append((found, dict(sizes)))
        return found

    Ordered.at = at  # type: ignore[method-assign]
    try:
        yield made
    finally:
        Ordered.at = before  # type: ignore[method-assign]


class Load(NamedTuple):
    kernels: float
    predicted: float
    roofline: float

    def times(self, n: float) -> Load:
        return Load(*(n * x for x in self))


def load(stepped: Any, sizes: Mapping[Any, int], trips: float) -> Load:
    """Of a step of the outermost loop. One of which data decide the number of steps has `trips`, and one that ends early none."""
    from axon.backend.gpu.layout.target import HOPPER
    from axon.backend.gpu.simt.register_tiles import untiled
    from axon.backend.plan.ir import Nest
    from axon.core.passes.parts import HostLoop, Straight
    from axon.shapes.dimension import Dim

    def of(body: Any, own: dict[Any, int]) -> Load:
        total = Load(0, 0, 0)
        for part in body.parts:
            found = Load(0, 0, 0)
            if isinstance(part, Straight):
                planned = stepped.executables[part].serving({}, own).planned
                for kernel in planned.kernels:
                    assert isinstance(kernel, Nest), "a plain kernel"
                    work = untiled(kernel, planned.known, own)
                    found = added(found, Load(1, work.seconds(HOPPER), max(work.memory(HOPPER), work.arithmetic(HOPPER))))
            elif isinstance(part, HostLoop):
                trip = 0.0 if part.op.conditional else trips
                if isinstance(part.trip, Dim):
                    trip = part.trip.evaluate(own)
                found = of(part.body, {**own, part.op.counter: int(trip) // 2}).times(trip)
            total = added(total, found)
        return total

    *_, loop = (part for part in stepped.parts.body.parts if isinstance(part, HostLoop))  # before it chains climb
    return of(loop.body, {**sizes, loop.op.counter: 1})


def added(a: Load, b: Load) -> Load:
    return Load(*(x + y for x, y in zip(a, b, strict=True)))


def sides(options: argparse.Namespace) -> dict[str, Any]:
    """What is measured, as a function of a key and a target."""
    chains, steps, particles, months = options.chains, options.steps, options.particles, options.months
    every = {
        f"regression, {chains:,} chains": lambda key, target: regression(chains, steps, key, target),
        f"volatility, {particles:,} particles": lambda key, target: volatility(particles, months, key, target),
    }
    return {name: run for name, run in every.items() if name.startswith(options.only)}


def on_processor(options: argparse.Namespace) -> None:
    """Two cores, in a process of its own: prints a line of JSON for each side."""
    small = argparse.Namespace(only=options.only, chains=64, steps=20, particles=1000, months=4)
    for warm, (name, run) in zip(sides(small).values(), sides(options).items(), strict=True):
        warm(0, "cpu")
        found = run(1, "cpu")
        print(json.dumps([name, found.seconds, found.means, found.trips]), flush=True)


def apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    """The most that means differ, in Monte Carlo errors of both."""
    return max(abs(a[name][0] - b[name][0]) / max(1e-300, float(np.hypot(a[name][1], b[name][1]))) for name in a)


def busy(run: Any) -> tuple[float, float]:
    """Kernels, and seconds in which the GPU computed, of a run; NaN where PyTorch's profiler is not there."""
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile

        torch.zeros(1, device="cuda")
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            run()
            torch.cuda.synchronize()
        events = [e for e in found.events() if str(e.device_type).endswith("CUDA") and not e.name.startswith(("Memcpy", "Memset"))]
        return float(len(events)), sum(e.time_range.elapsed_us() for e in events) / 1e6
    except Exception as error:  # a measure beside the others: without it they count as well
        print(f"no profile: {error!r}", file=sys.stderr)
        return float("nan"), float("nan")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="regression or volatility")
    parser.add_argument("--chains", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=50, help="of warm-up, and as many draws")
    parser.add_argument("--particles", type=int, default=1_000_000)
    parser.add_argument("--months", type=int, default=40)
    parser.add_argument("--cpu", action="store_true", help="the side of the processor alone")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.cpu:
        on_processor(options)
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 4:
        os.sched_setaffinity(0, cores[2:])
    sizes = [f"--{name}={getattr(options, name)}" for name in ("only", "chains", "steps", "particles", "months")]
    environment = os.environ | {"NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    other = subprocess.Popen(
        [sys.executable, __file__, "--cpu", *sizes],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores[:2]),
    )
    heads = (
        "",
        "GPU, ms a step",
        "two cores, ms",
        "faster",
        "kernels, busy ms",
        "predicted ms",
        "roofline ms",
        "of both",
        "errors",
    )
    lines = [f"| {' | '.join((*heads, 'same bits'))} |", "|---" * (len(heads) + 1) + "|"]
    found: dict[str, tuple[Side, Any, bool, tuple[float, float], float]] = {}
    for name, run in sides(options).items():
        start = time.perf_counter()
        with recorded() as made:
            run(0, "cuda")
        first = time.perf_counter() - start
        print(f"{name}: first call {first:.1f} s", file=sys.stderr, flush=True)
        one, two = run(1, "cuda"), run(1, "cuda")
        same = bool(np.array_equal(one.bits, two.bits))
        best = min(one, two, key=lambda side: side.seconds)
        steps = 2 * options.steps if name.startswith("regression") else KEYS * options.months
        trips = best.trips or np.floor(np.log2(options.particles) / 4) + 1  # of search_sorted
        (whole,) = (pair for pair in made if len(pair[0].kernels) == max(len(p.kernels) for p, _ in made))
        kernels, computed = busy(lambda run=run: run(1, "cuda"))
        found[name] = best, load(*whole, trips), same, (kernels / steps, computed / steps), first
        print(f"{name}: {best} in {best.seconds * 1e3:.3f} ms a step, {found[name][1:]}"[:400], file=sys.stderr, flush=True)
    output, _ = other.communicate()
    beside = {name: (seconds, means) for name, seconds, means, _ in map(json.loads, output.splitlines())}
    for name, (side, counted, same, (kernels, computed), _) in found.items():
        seconds, means = beside[name]
        row = f"{side.seconds * 1e3:.3f} | {seconds * 1e3:.1f} | {seconds / side.seconds:.0f} | {kernels:.0f}, {computed * 1e3:.3f}"
        row += f" | {counted.predicted * 1e3:.3f} of {counted.kernels:.0f} kernels | {counted.roofline * 1e3:.4f}"
        row += f" | {counted.predicted / side.seconds:.2f}, {counted.roofline / side.seconds:.2f}"
        lines.append(f"| {name} | {row} | {apart(side.means, means):.1f} | {'yes' if same else 'NO'} |")
    report(lines, options.out)


if __name__ == "__main__":
    main()
