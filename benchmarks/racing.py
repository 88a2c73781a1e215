"""Races on one GPU: device times of CUDA graphs that are replayed in turn.

A GPU changes its clock under load, and stays at it for many launches. So what is compared runs side by side, and a ratio is the
median of the ratios of neighbouring replays, not the ratio of two medians, which may come from two clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

L2_BYTES = 60_000_000  # of an H200; what a race moves is rotated over four times as much
ROUNDS = 41


def graph(launch: Callable[[int], Any], count: int, sets: int | None = None) -> Any:
    """A CUDA graph of `count` launches, each on the next of so many sets of tensors; what they return lives as long as it."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for n in range(min(sets or count, 2)):
            launch(n)
        stream.synchronize()
        made = torch.cuda.CUDAGraph()
        with torch.cuda.graph(made, stream=stream):
            made.kept = [launch(n % (sets or count)) for n in range(count)]
    return made


@dataclass(frozen=True)
class Race:
    """Seconds of a launch of each side, in each round."""

    times: tuple[tuple[float, ...], ...]

    @property
    def seconds(self) -> list[float]:
        """The median of each side."""
        return [median(side) for side in self.times]

    def ratio(self, slower: int, faster: int) -> float:
        """How many times longer one side takes than another: the median over the rounds."""
        return median(a / b for a, b in zip(self.times[slower], self.times[faster], strict=True))


def race(*graphs: Any, launches: int, rounds: int = ROUNDS) -> Race:
    """Replay the graphs, of so many launches each, in turn; the first two rounds do not count."""
    times = in_turn([one.replay for one in graphs], 1, rounds).times
    return Race(tuple(tuple(seconds / launches for seconds in side) for side in times))


def in_turn(sides: Sequence[Callable[[], Any]], calls: int, rounds: int) -> Race:
    """Call each side so many times, and then the next one; the first two rounds do not count. Launching is timed too where the
    device waits for it."""
    import torch

    times: list[list[float]] = [[] for _ in sides]
    for round_ in range(rounds + 2):
        for number, side in enumerate(sides):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(calls):
                side()
            end.record()
            end.synchronize()
            if round_ >= 2:
                times[number].append(start.elapsed_time(end) / 1e3 / calls)
    return Race(tuple(map(tuple, times)))


def rotated(sides: Sequence[Callable[..., Any]], fresh: Callable[[], list[Any]], moved: int, seconds: float) -> Race:
    """Functions of the same tensors, which come anew from `fresh` for each of so many sets that they are four times the L2 cache. A
    launch moves so many bytes, and takes about so many seconds."""
    sets = max(1, min(40, -(-4 * L2_BYTES // moved)))
    launches = max(sets, min(40, int(3e-3 / seconds) + 1))
    inputs = [fresh() for _ in range(sets)]
    graphs = [graph(lambda n, f=f: f(*inputs[n]), launches, sets) for f in sides]  # type: ignore[misc]
    return race(*graphs, launches=launches, rounds=11)


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(r) for r in ratios]
    return exp(sum(logs) / len(logs))


def report(lines: Iterable[str], out: str | None) -> None:
    """Print a result, and write it to a file if one is named."""
    text = "\n".join(lines) + "\n"
    if out:
        Path(out).write_text(text, encoding="utf-8")
    print(text)
