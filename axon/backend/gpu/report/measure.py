"""How long one kernel of a program takes on this machine's GPU with each of some mappings: what `axon explain --measure` prints.

Device time between events around CUDA graphs, inputs random normal, all tensors rotated over four times the L2 cache. Mappings are
replayed in turn, since times taken one after the other differ by 5% for no reason but heat; the median of the rounds counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from contextlib import contextmanager
from typing import Any

import numpy as np

from axon.backend.gpu.build.cubin import RegistersExhausted
from axon.backend.gpu.build.recipe import tensors as tensors_of
from axon.backend.gpu.launching.driver import Driver, driver
from axon.backend.gpu.launching.launches import Launches
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.runtime import failures
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.plain_variants import used_by
from axon.backend.gpu.runtime.ways import Planned
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import Tiled, views_of
from axon.backend.gpu.tile.schedule_file import NOTHING, pinned
from axon.backend.gpu.tile.segments import even_starts
from axon.backend.plan.ir import Nest
from axon.base.data import replace
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.core.ir import Value

ROUNDS = 15
WARM = 3  # rounds before those that count
MOST_SETS = 160  # of tensors to rotate
REPLAY_SECONDS, MOST_LAUNCHES = 2e-3, 200  # of one graph
BLOCK = (1 << 20) - 3  # random elements, repeated over a tensor


def times(
    planned: Planned,
    target: Target,
    number: int,
    mappings: Sequence[Any],
    seconds: Sequence[float],
    sizes: MappingOf[Symbol, int],
    device: int = 0,
) -> dict[Any, float | None]:
    """Seconds of one kernel, counted from 0, with each mapping; None where it does not fit its registers.

    `seconds` are about what each will take. A plain kernel has the one mapping that it has.
    """  # fmt: skip
    cuda = driver()
    context = cuda.context(device)
    kernel, lying = planned.kernels[number], planned.lying(sizes)
    touched = used_by(kernel, planned.known) if isinstance(kernel, Nest) else _used_by(kernel, planned)
    used = tuple(dict.fromkeys(planned.known[planned.memory(v.symbol)] for v in touched))
    amount = {v.symbol: lying[v.symbol].bytes for v in used}
    sets = max(1, min(MOST_SETS, -(-4 * target.l2 // max(1, sum(amount.values())))))
    with _allocated(cuda, [amount[v.symbol] for _ in range(sets) for v in used]) as pointers, _stream(cuda) as stream:
        rotated = []
        for n in range(sets):
            own = dict(zip((v.symbol for v in used), pointers[n * len(used) :], strict=False))
            rotated.append({s: _moved(tensor, own.get(s)) for s, tensor in lying.items()})
        for value in used:
            _fill(cuda, value, [(t[value.symbol].pointer, amount[value.symbol]) for t in rotated], max(sizes.values(), default=1))
        if isinstance(kernel, MatrixProduct) and kernel.segments is not None:
            table = kernel.segments.start.symbol
            starts = np.array(even_starts(lying[table].shape[0], kernel.depth.extent.evaluate(sizes)), np.int32)
            for t in rotated:
                cuda.upload(t[table].pointer, starts.ctypes.data, starts.nbytes)
        status = failures.word(cuda)
        graphs: dict[Any, tuple[Any, int]] = {}
        out: dict[Any, float | None] = {}
        try:
            for mapping, about in zip(mappings, seconds, strict=True):
                out[mapping] = None
                schedule = NOTHING if isinstance(kernel, Nest) else pinned(mapping, number)
                pinned_so = Executable(planned.program, target, schedule=schedule, way=planned.way)
                try:
                    bound = pinned_so.bind(rotated[0], sizes, device)
                except RegistersExhausted:
                    continue
                except AxonError as error:
                    if [d.code for d in error.diagnostics] == ["AX0605"]:  # known not to fit
                        continue
                    raise
                launches = Launches(cuda, (bound.kernels[number],), len(bound.given) + 3, context)
                count = max(sets, min(MOST_LAUNCHES, int(REPLAY_SECONDS / max(about, 1e-6)) + 1))
                addresses = [[*(t[s].pointer for s in bound.given), 0, status.address, stream] for t in rotated]
                graphs[mapping] = _recorded(cuda, stream, launches, [addresses[n % sets] for n in range(count)]), count
            taken: dict[Any, list[float]] = {m: [] for m in graphs}
            for turn in range(WARM + ROUNDS):
                for mapping, (graph, count) in graphs.items():
                    took = _replayed(cuda, stream, graph) / count
                    if turn >= WARM:
                        taken[mapping].append(took)
        finally:
            for graph, _ in graphs.values():
                cuda.ask("cuGraphExecDestroy", graph)
    return out | {m: statistics.median(rounds) for m, rounds in taken.items()}


def _used_by(kernel: Tiled, planned: Planned) -> tuple[Value, ...]:
    """The tensors that a kernel for the tensor cores touches, those of which it sees views among them."""
    sources = {view.value.symbol: view.source for view in views_of(kernel)}
    touched = (sources.get(value.symbol, value.symbol) for value in tensors_of(kernel, planned.values))
    return tuple(planned.known[symbol] for symbol in dict.fromkeys(touched))


def _moved(tensor: DeviceTensor, pointer: int | None) -> DeviceTensor:
    return tensor if pointer is None else replace(tensor, pointer=pointer)


@contextmanager
def _allocated(cuda: Driver, amounts: Sequence[int]) -> Iterator[list[int]]:
    pointers: list[int] = []
    try:
        for amount in amounts:
            pointers.append(cuda.allocate(amount))
        yield pointers
    finally:
        for pointer in pointers:
            cuda.free(pointer)


@contextmanager
def _stream(cuda: Driver) -> Iterator[int]:
    stream = cuda.ask("cuStreamCreate", 0)
    try:
        yield int(stream)
    finally:
        cuda.ask("cuStreamDestroy", stream)


def _fill(cuda: Driver, value: Value, places: Sequence[tuple[int, int]], largest: int) -> None:
    """Random normal floats; random integers below the largest dimension, which itself is every integer without dimensions."""
    chance = np.random.default_rng(0)
    if value.element.is_float:
        block = chance.standard_normal(BLOCK, np.float32).astype(value.element.dtype)
    elif not value.shape:
        block = np.full(1, min(largest, 127 if value.element.bits == 8 else largest), value.element.dtype)
    else:
        block = chance.integers(0, 2 if value.element.bits == 1 else min(largest, 127), BLOCK).astype(value.element.dtype)
    size = block.nbytes
    for pointer, amount in places:
        cuda.upload(pointer, block.ctypes.data, min(size, amount))
        for at in range(size, amount, size):
            cuda.ask("cuMemcpyDtoD", pointer + at, pointer, min(size, amount - at))
    cuda.ask("cuCtxSynchronize")


def _recorded(cuda: Driver, stream: int, launches: Launches, calls: Sequence[list[int]]) -> Any:
    """A graph of launches, ready to run."""
    handle = cuda.bindings.CUstream(stream)
    cuda.ask("cuStreamBeginCapture", handle, cuda.bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    try:
        for addresses in calls:
            launches(addresses)
    finally:
        graph = cuda.ask("cuStreamEndCapture", handle)
    try:
        return cuda.ask("cuGraphInstantiate", graph, 0)
    finally:
        cuda.ask("cuGraphDestroy", graph)


def _replayed(cuda: Driver, stream: int, graph: Any) -> float:
    """Seconds of one run of a graph."""
    handle = cuda.bindings.CUstream(stream)
    first, last = cuda.ask("cuEventCreate", 0), cuda.ask("cuEventCreate", 0)
    try:
        cuda.ask("cuEventRecord", first, handle)
        cuda.ask("cuGraphLaunch", graph, handle)
        cuda.ask("cuEventRecord", last, handle)
        cuda.ask("cuEventSynchronize", last)
        return float(cuda.ask("cuEventElapsedTime", first, last)) / 1e3
    finally:
        cuda.ask("cuEventDestroy", first)
        cuda.ask("cuEventDestroy", last)
