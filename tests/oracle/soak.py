"""Generated programs beside the oracle, by a range of seeds.

    python -m tests.oracle.soak --from 0 --count 1000 --targets interpret,cpu

One line of numbers at the end, and before it each disagreement with its smallest program. Other processes may take other ranges.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import pytest

from tests.oracle.agree import Disagreement, disagreement, disagreements, meaning
from tests.oracle.generate import Program, generate
from tests.oracle.shrink import shrunk

TOGETHER = 8  # programs that are compiled in turn


@dataclass
class Result:
    counts: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)


def kind(found: Disagreement | str) -> str:
    """Of what sort a disagreement is, so that a smaller program shows the same one."""
    if isinstance(found, str):
        return found
    if isinstance(found.seen, Exception):
        return f"{type(found.seen).__name__}: {str(found.seen)[:25]}"
    if isinstance(found.seen, list):
        return f"{found.target}: {found.seen}"
    return f"{found.target}: {'number' if re.search('not np|not -?[0-9]', found.why) else found.why}"


def fails_as(wanted: str, target: str, times: int, exactly: bool) -> Callable[[Program], bool]:
    def fails(program: Program) -> bool:
        meant = meaning(program)
        if exactly and meant.others:
            return False
        return any(kind(disagreement(program, meant, target)) == wanted for _ in range(times))

    return fails


def report(program: Program, found: Disagreement, times: int, shrink: bool = True) -> str:
    fails = fails_as(kind(found), found.target, times, not meaning(program).others)
    small = shrunk(program, fails) if shrink else program
    meant = meaning(small)
    seen = [disagreement(small, meant, found.target) for _ in range(3)]
    whys = [x if isinstance(x, str) else x.why for x in seen]
    arguments = "\n  ".join(_shown(a) for a in small.arguments)
    where = f"seed {program.seed}, {found.target}, compilation {found.repetition + 1}"
    return f"{where}: {found.why}\n{small.text}  {arguments}\n  now: {whys}"


def _shown(argument: object) -> str:
    match argument:
        case tuple():
            return f"({', '.join(map(_shown, argument))})"
        case dict():
            return f"{{{', '.join(f'{name} = {_shown(part)}' for name, part in argument.items())}}}"
    return f"{argument.dtype}{list(argument.shape)} {argument.tolist()}"  # type: ignore[attr-defined]


def soak(seeds: Sequence[int], targets: Sequence[str], times: int = 3, shrink: bool = True, real: bool = False) -> Result:
    """Every program compiled `times` times for the first target, once for each other, and all compared with the oracle.

    A GPU is emulated unless the `real` one is asked for.
    """
    result = Result()
    with emulation() if "cuda" in targets and not real else nullcontext():
        for start in range(0, len(seeds), TOGETHER):
            programs = [generate(seed) for seed in seeds[start : start + TOGETHER]]
            result.counts["programs"] += len(programs)
            result.counts["several"] += sum(p.several for p in programs)
            done: set[int] = set()
            for program, found in disagreements(programs, targets, times):
                result.counts[found if isinstance(found, str) else "wrong"] += 1
                if isinstance(found, Disagreement) and program.seed not in done:
                    done.add(program.seed)
                    result.found.append(report(program, found, times, shrink))
                    if __name__ == "__main__":
                        print(result.found[-1], flush=True)
    return result


@contextmanager
def emulation() -> Iterator[None]:
    """A GPU is emulated from here on."""
    from tests.backend.gpu.runtime.emulated import emulated

    with pytest.MonkeyPatch.context() as monkeypatch:
        emulated(monkeypatch)
        yield


@contextmanager
def blocks() -> Iterator[None]:
    """Blocks of a few points and lanes in the interpreter and the CPU backend: many boundaries in small programs."""
    from axon.backend.cpu import function, nests, products, threads
    from axon.interpret import compute
    from axon.interpret import products as contract

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(compute, "points", lambda bodies: 3)
        monkeypatch.setattr(compute, "OPERAND", 5)
        monkeypatch.setattr(contract, "WORTHWHILE", 1)
        monkeypatch.setattr(nests, "LANES", 2)
        monkeypatch.setattr(nests, "BLOCK", 3)
        monkeypatch.setattr(function, "FEW", 1)
        monkeypatch.setattr(threads, "WORTH_SHARING", 1)
        monkeypatch.setattr(products, "BLOCK", 4)
        yield


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--targets", default="interpret,cpu")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="small blocks")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--real", action="store_true", help="this machine's GPU for the target cuda, not an emulated one")
    given = parser.parse_args()
    os.environ["AXON_VERIFY"] = "1"
    os.environ["NO_COLOR"] = "1"
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place, blocks() if given.small else nullcontext():
        os.environ["AXON_CACHE"] = place
        seeds = range(given.start, given.start + given.count)
        result = soak(seeds, given.targets.split(","), given.times, not given.no_shrink, given.real)
    counts = ", ".join(f"{n} {name}" for name, n in sorted(result.counts.items()))
    print(
        f"seeds {given.start} to {given.start + given.count - 1} on {given.targets}: {counts}; {time.perf_counter() - began:.0f} s"
    )
    return 1 if result.found else 0


if __name__ == "__main__":
    sys.exit(main())
