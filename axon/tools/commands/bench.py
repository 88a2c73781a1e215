"""`axon bench PATH:NAME "x=randn(f32[n, n])" n=64,128 --against peer.py`: how long calls take, and what else would take.

A sample is the mean of as many calls as take a millisecond. Functions take turns, and who is first changes from turn to turn, so
that a machine that slows down slows both; medians are told, with half the distance between quartiles. First calls, which
compile, are not timed. Garbage is collected between samples alone.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from statistics import median, quantiles
from time import perf_counter
from typing import TYPE_CHECKING, Any

from axon.backend import libraries, needs
from axon.base import extras
from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Label
from axon.base.errors import AxonError
from axon.base.progress import progress
from axon.base.source import SourceFile
from axon.host.command_arguments import parse_arguments
from axon.host.module import Function
from axon.tools.commands.peer import Peer, called, error_between

if TYPE_CHECKING:
    from axon.host.call import Callee, Session

SAMPLE = 1e-3  # seconds, at least
FEWEST, MOST = 5, 500  # samples of a function
_SIZES = re.compile(r"\s*([^\W\d]\w*)\s*=\s*(\d[\d_]*(?:\s*,\s*\d[\d_]*)*)\s*")
_LIBRARIES = {"torch": "models", "jax": "dev"}  # and the extra that brings it

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """Of one function at some sizes: the seconds of its samples."""

    name: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a part of the median."""
        low, _, high = quantiles(self.samples, n=4)
        return (high - low) / 2 / self.median


@dataclass(frozen=True, slots=True)
class Row:
    """At some sizes: how long calls took, Axon's first, and how far its result is from the peer's."""

    sizes: Mapping[str, int]
    timings: tuple[Timing, ...]
    error: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as long as Axon's the peer's call takes."""
        return self.timings[1].median / self.timings[0].median if len(self.timings) > 1 else None


@dataclass(frozen=True, slots=True)
class How:
    """What a bench is asked besides the function and its arguments."""

    seed: int = 0
    target: str | None = None
    arrays: str | None = None
    peer: tuple[str, Peer] | None = None
    seconds: float = 1.0


def bench(session: Session, callee: Callee, texts: Sequence[str], how: How) -> list[Row]:
    """A row for each choice of sizes. Raises AxonError for what a call would raise, before anything is timed."""
    swept, rest = sweep(texts)
    points = [dict(zip(swept, sizes, strict=True)) for sizes in product(*swept.values())]
    if callee.is_function:
        for sizes in points:
            session.example(callee, *_given(callee, rest, sizes, None))
    shown = [name for name, values in swept.items() if len(values) > 1] or list(swept)
    rows = []
    with progress(f"timing {callee.name}", len(points)) as step:
        for sizes in points:
            timings, error = _timed(session, callee, rest, sizes, how)
            rows.append(Row({name: sizes[name] for name in shown}, timings, error))
            step()
    return rows


def sweep(texts: Sequence[str]) -> tuple[dict[str, list[int]], list[str]]:
    """The sizes that texts such as n=64,128 give by name, and the other texts."""
    sizes: dict[str, list[int]] = {}
    rest = []
    for text in texts:
        found = _SIZES.fullmatch(text)
        if found is None:
            rest.append(text)
            continue
        name, values = found[1], list(dict.fromkeys(int(value) for value in found[2].split(",")))
        if name in sizes:
            label = Label(SourceFile("<argument>", text).span(found.start(1), found.end(1)))
            raise AxonError((Diagnostic("AX0508", f"`{name}` is given twice", (label,), ("write n=64,128 for several sizes",)),))
        sizes[name] = values
    return sizes, rest


def _given(callee: Callee, texts: Sequence[str], sizes: Mapping[str, int], seed: int | None) -> tuple[list[int], dict[str, Any]]:
    """The dimension parameters, and the arguments by name. A size that no shape is written with is an argument itself."""
    words = {word for text in texts for word in re.findall(r"[^\W\d]\w*", text.partition("=")[2])}
    taken = {*callee.dimensions, *(p.name for p in callee.parameters)}
    own = [f"{name}={size}" for name, size in sizes.items() if name in taken or name not in words]
    given = parse_arguments([*texts, *own], seed, look=seed is None, sizes=sizes)
    return [given.pop(size) for size in callee.dimensions if size in given], given


def _timed(
    session: Session, callee: Callee, texts: Sequence[str], sizes: Mapping[str, int], how: How
) -> tuple[tuple[Timing, ...], float | None]:
    explicit, given = _given(callee, texts, sizes, how.seed)
    arrays = how.arrays or ("torch" if how.target == "cuda" else "numpy")
    ordered = [put(given[p.name], arrays, how.target) for p in callee.parameters if p.name in given]
    if not callee.is_function:
        raise AxonError((Diagnostic("AX0507", f"`{callee.name}` is a value, and only calls take time"),))
    function = Function(session, callee, tuple(explicit))
    target = None if how.target == "cuda" and arrays != "numpy" else how.target or "cpu"  # None: where its arrays are
    calls: list[tuple[str, Call]] = [(callee.name, lambda: function(*ordered, target=target))]
    if how.peer is not None:
        name, peer = how.peer
        calls.append((name, called(name, peer, (*explicit, *ordered))))
    results = [_finished(call()) for _, call in calls]
    error = error_between(results[0], results[1], calls[1][0]) if len(calls) > 1 else None
    return tuple(samples(calls, how.seconds)), error


def samples(calls: Sequence[tuple[str, Call]], seconds: float) -> Iterator[Timing]:
    """Times of calls that take turns, for about so many seconds in all."""
    counts = []
    for _, call in calls:
        _mean(call, 1)  # what a second call still learns
        counts.append(max(1, round(SAMPLE / max(_mean(call, 3), 1e-9))))
    samples: list[list[float]] = [[] for _ in calls]
    begun, turn = perf_counter(), 0
    while turn < FEWEST or (turn < MOST and perf_counter() - begun < seconds):
        for i in range(len(calls)) if turn % 2 == 0 else reversed(range(len(calls))):
            gc.collect(0)
            gc.disable()
            try:
                samples[i].append(_mean(calls[i][1], counts[i]))
            finally:
                gc.enable()
        turn += 1
    return (Timing(name, tuple(taken)) for (name, _), taken in zip(calls, samples, strict=True))


def _mean(call: Call, count: int) -> float:
    begun = perf_counter()
    for _ in range(count):
        result = call()
    _finished(result)
    return (perf_counter() - begun) / count


def _finished(result: Any) -> Any:
    """A result, once it has been computed: PyTorch's on a GPU and JAX's come before."""
    for library, x in libraries.arrays(tuple(result) if isinstance(result, list) else result):
        if library.name == "jax":
            x.block_until_ready()
        elif library.name == "torch" and library.device(x) is not None:
            sys.modules["torch"].cuda.synchronize()
    return result


def put(value: Any, arrays: str, target: str | None) -> Any:
    """An argument with its arrays as a library's, of a GPU on the first one."""
    import numpy as np

    if isinstance(value, dict):
        return {name: put(item, arrays, target) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(put(item, arrays, target) for item in value)
    if arrays == "numpy" or not isinstance(value, np.ndarray):
        return value
    library = _library(arrays)
    try:
        made = library.from_host(np.array(value))
    except TypeError as error:
        raise AxonError((Diagnostic("AX0505", f"an argument cannot be given: {error}"),)) from None
    if target != "cuda":
        return made
    needs.gpu()
    try:
        if arrays == "jax":
            jax = sys.modules["jax"]
            return jax.device_put(made, jax.devices("gpu")[0])
        return made.cuda()
    except (AssertionError, RuntimeError) as error:  # a build of the library for processors alone
        raise AxonError((Diagnostic("AX0604", f"{arrays} cannot use the GPU: {error}"),)) from None


def _library(name: str) -> Any:
    """A library of arrays, imported."""
    extras.require(name, _LIBRARIES[name], f"`--arrays {name}`")
    module = sys.modules[name]
    found = libraries.of(module.zeros(()) if name == "torch" else module.numpy.zeros(()))
    assert found is not None
    return found
