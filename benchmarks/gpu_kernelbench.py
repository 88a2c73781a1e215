"""KernelBench's problems, in Axon as one would write them, beside PyTorch, on one GPU.

    python benchmarks/gpu_kernelbench.py [--level 1|2] [--only NUMBER …] [--skip NUMBER …] [--compile] [--jobs N] [--out FILE]
    python benchmarks/gpu_kernelbench.py --check [--level 1|2] [--only NUMBER …] [--skip NUMBER …]

Nothing is tuned and no schedule is given. Everything is f32, as in KernelBench, and PyTorch's TF32 is off. Results are compared
with PyTorch's in f64 first, of a few of the batch where that is enough: `error` is relative to the greatest value, and PyTorch's
stands beside it. Both sides run in CUDA graphs over inputs of at least four times the L2 cache, replayed in turn. A ratio above 1
says that Axon is faster; the slowest come first. `--compile` races torch.compile (max-autotune) too.

`--check` needs no GPU and races nothing: it compares small versions of the problems (`Problem.shrunk`) with PyTorch on this
machine's processor, in f64, as compiled and as the reference evaluator has it. It is no test of the suite, whose environment has no
PyTorch.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kernelbench import level1, level2
from kernelbench.problems import Draw, Problem
from racing import mean, report, rotated

import axon

LEVELS = {1: level1.PROBLEMS, 2: level2.PROBLEMS}
FEW = 4  # of the batch, that are compared
WORSE = 16.0  # times PyTorch's error, and
WITHIN = 1e-5  # of the greatest value: a result with more is wrong
BOUND = 1.0  # of weights where small versions are compared: an activation sees both of its sides
EXACT = 1e-10  # of the greatest value, in f64


def written(level: int, problem: Problem) -> Any:
    """The problem's function in Axon."""
    return getattr(axon.load(Path(__file__).with_name("kernelbench") / f"level{level}.axon"), problem.f)


def warm(place: tuple[int, int]) -> tuple[int, float, str]:
    """Fill the cache with the kernels of a level's problem; needs no GPU. Its number, seconds, and what went wrong."""
    start, wrong, (level, number) = time.perf_counter(), "", place
    problem = next(p for p in LEVELS[level] if p.number == number)
    try:
        written(level, problem).warmup(*(a.like for a in problem.arguments))
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}".splitlines()[0]
    return number, time.perf_counter() - start, wrong


def leaves(x: Any) -> Iterator[Any]:
    """The tensors in an argument or a result."""
    if isinstance(x, (tuple, dict)):
        for part in x.values() if isinstance(x, dict) else x:
            yield from leaves(part)
    elif hasattr(x, "nbytes"):
        yield x


def wide(x: Any) -> Any:
    """In f64, and anew: a peer may write into what it is given."""
    if isinstance(x, dict):
        return {name: wide(part) for name, part in x.items()}
    return (x.double() if x.is_floating_point() else x.clone()) if hasattr(x, "nbytes") else x


def arrays(x: Any) -> Any:
    """The same as NumPy's arrays."""
    if isinstance(x, dict):
        return {name: arrays(part) for name, part in x.items()}
    return x.numpy() if hasattr(x, "numpy") else x


def first(x: Any) -> Any:
    """The result that is compared; a batch normalization's second is what it moved."""
    return x[0] if isinstance(x, tuple) else x


def away(mine: Any, true: Any) -> float:
    """How far a result is, relative to the greatest value; of integers, how many differ."""
    if mine.shape != true.shape:
        raise ValueError(f"{tuple(mine.shape)} where PyTorch has {tuple(true.shape)}")
    if not true.is_floating_point():
        return float((mine != true).double().mean())
    return float((mine - true).abs().max()) / (float(true.abs().max()) or 1.0)


def errors(problem: Problem, f: Callable[..., Any], given: list[Any]) -> tuple[float, float]:
    """Axon's and PyTorch's, relative to the greatest value."""
    mine = first(f(*given))
    few = [x[:FEW] if n in problem.batched else x for n, x in enumerate(given)]
    if problem.batched:
        mine = mine[:FEW].clone()
    theirs = first(problem.peer(*few))
    true = first(problem.peer(*map(wide, few)))
    return away(mine, true), away(theirs, true)


def checked(level: int, problem: Problem) -> dict[str, float]:
    """The error of a small version in f64 on the processor, by how it is run."""
    import numpy as np
    import torch

    given = [wide(a.make(Draw("cpu", problem.shrunk, BOUND))) for a in problem.arguments]
    f, targets = written(level, problem), ("cpu", "interpret")
    mine = [torch.tensor(np.asarray(first(f(*map(arrays, given), target=target)))) for target in targets]
    true = first(problem.peer(*given))  # last, as it may write into what it is given
    return dict(zip(targets, (away(x, true) for x in mine), strict=True))


def raced(level: int, problem: Problem, compiled: bool) -> tuple[float, str]:
    import torch

    f = written(level, problem)
    given = [a.make(Draw()) for a in problem.arguments]
    error, theirs = errors(problem, f, given)
    torch.cuda.empty_cache()
    if not error <= max(WORSE * theirs, WITHIN):
        raise ValueError(f"off by {error:.1e}, PyTorch by {theirs:.1e}")
    moved = sum(x.nbytes for x in (*leaves(tuple(given)), *leaves(f(*given))))
    peers = [problem.peer]
    if compiled:
        torch._dynamo.reset()
        peers.append(torch.compile(problem.peer, mode="max-autotune-no-cudagraphs", dynamic=False))
        peers[1](*given)
    kept = [given]  # the first set of inputs, so that large ones are made once
    fresh = lambda: kept.pop() if kept else [a.make(Draw()) for a in problem.arguments]
    del given
    run = rotated((*peers, f), fresh, moved, moved / 1e12)
    own = run.seconds[-1]
    ratios = [run.ratio(n, len(peers)) for n in range(len(peers))]
    mappings = "; ".join(str(variant.mapping) for variant in f.variants)
    figures = [f"{run.seconds[0] * 1e6:.0f}", f"{own * 1e6:.0f}", f"{moved / own / 1e12:.2f}", *(f"{r:.2f}" for r in ratios)]
    return ratios[0], f"| {problem.number} {problem.f} | {' | '.join(figures)} | {error:.0e}, {theirs:.0e} | {mappings[:150]} |"


def check(level: int, problems: list[Problem]) -> int:
    """Print the errors of small versions; how many are wrong."""
    wrong = 0
    for problem in problems:
        start = time.perf_counter()
        try:
            found = checked(level, problem)
            right = all(error <= EXACT for error in found.values())
            text = ", ".join(f"{target} {error:.0e}" for target, error in found.items())
        except Exception as error:
            right, text = False, f"{type(error).__name__}: {error}".splitlines()[0]
        wrong += not right
        print(f"{problem.number} {problem.f}: {text}{'' if right else ' WRONG'} {time.perf_counter() - start:.1f} s", flush=True)
    print(f"{len(problems) - wrong} of {len(problems)} right")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--level", type=int, choices=LEVELS, default=1)
    parser.add_argument("--check", action="store_true", help="compare small versions on the processor, and race nothing")
    parser.add_argument("--only", nargs="*", type=int, default=[])
    parser.add_argument("--skip", nargs="*", type=int, default=[])
    parser.add_argument("--compile", action="store_true", help="race torch.compile too")
    parser.add_argument("--jobs", type=int, default=8, help="processes that build kernels")
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    level = options.level
    problems = [p for p in LEVELS[level] if (not options.only or p.number in options.only) and p.number not in options.skip]
    if options.check:
        sys.exit(check(level, problems))
    start = time.perf_counter()
    with get_context("fork").Pool(options.jobs) as pool:  # before CUDA is touched
        for number, seconds, wrong in pool.imap_unordered(warm, [(level, p.number) for p in problems], chunksize=1):
            if wrong or seconds > 15:
                print(f"{number} took {seconds:.1f} s to build {wrong}", flush=True)
    print(f"built in {time.perf_counter() - start:.0f} s", flush=True)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows, failed = [], []
    for problem in problems:
        start = time.perf_counter()
        try:
            rows.append(raced(level, problem, options.compile))
            print(rows[-1][1], f"{time.perf_counter() - start:.1f} s", flush=True)
        except Exception as error:
            failed.append(f"{problem.number} {problem.f}: {type(error).__name__}: {error}".splitlines()[0])
            print(failed[-1], flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    lines = [f"# KernelBench, level {level}, f32, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    head = ["problem", "PyTorch µs", "Axon µs", "TB/s", "ratio", *(["torch.compile"] if options.compile else [])]
    lines += [f"| {' | '.join(head)} | error, PyTorch's | mappings |", "|" + " --- |" * (len(head) + 2)]
    lines += [row for _, row in sorted(rows)]
    ratios = [ratio for ratio, _ in rows]
    lines += [
        "",
        f"{len(rows)} of {len(problems)}: geometric mean {mean(ratios):.2f}, {sum(r >= 0.97 for r in ratios)} at 0.97 or more.",
    ]
    lines += [f"Failed: {text}" for text in failed]
    report(lines, options.out)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
