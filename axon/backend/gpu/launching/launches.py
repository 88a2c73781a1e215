"""Launches of one call, again and again: arguments lie in memory ready for the driver, and only addresses that change are written.

A call's addresses are a list: of its arguments, of its results, of the memory between its kernels, of the word in which a kernel
notes that the program must stop, and last the stream. `Launch` says where each of them goes. A TMA descriptor is 128 bytes among
the arguments, passed by value; the driver puts another address into it.

Note [Replays]
    Several kernels become a CUDA graph at the second call with the same sizes. Where an address has changed since the last
    replay, the nodes that mention it are given their arguments again, which costs less than a launch; the others are not touched.
    A graph has the memory between its kernels for itself, and runs on one stream. While someone records the stream, kernels are
    launched one by one: then the memory belongs to whoever records. What may be launched only a few times is launched one by one
    at first, since to make a graph takes as long as some launches of each of its kernels. A loop's counter among the arguments is
    like an address: where it has changed, the nodes that take it are told.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

from axon.backend.gpu.launching.driver import Driver, LaunchConfig, NodeParameters
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.dimension import Dim

_INVALID_CONTEXT = 201  # of a thread that never used the GPU


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an address goes: into which argument, as it is or into a TMA descriptor; the address, and what is added to it."""

    argument: int
    descriptor: bool
    address: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel, ready but for addresses. `sized` are the arguments that are dimensions, which a loop's counter may be part of."""

    function: int
    blocks: int
    threads: int
    shared: int
    arguments: tuple[bytes, ...]
    slots: tuple[Slot, ...]
    sized: tuple[tuple[int, Dim], ...] = ()


def _lines(size: int) -> int:
    """Rounded up to 64."""
    return -(-size // 64) * 64


class Arguments:
    """The arguments of launches in memory, pointed at the addresses of the last call."""

    def __init__(self, driver: Driver, launches: Sequence[Launch], count: int) -> None:
        """`count` addresses in all, the stream included."""
        self.driver = driver
        # Of each launch its configuration, its arguments' values, and where these are; all that begins, begins at 64 bytes.
        parts = ((64, *map(len, n.arguments), 8 * len(n.arguments)) for n in launches)
        size = 64 + sum(_lines(part) for each in parts for part in each)
        memory = bytearray(size)
        self.memory = (ctypes.c_char * size).from_buffer(memory)
        start = ctypes.addressof(self.memory)
        first = start + -start % 8
        aligned = memoryview(memory)[-start % 8 :]
        self.words = aligned[: len(aligned) // 8 * 8].cast("Q")
        self.at: list[int] = [-1] * count  # no address is this
        self.places: list[list[tuple[int, int]]] = [[] for _ in range(count)]  # a word and an offset, for each address
        self.descriptors: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.sizes: dict[Dim, list[tuple[int, int, int]]] = {}  # where each dimension stands, its bytes, and in which launch
        self.resized: list[Resized] | None = None
        self.calls: list[tuple[int, int, int]] = []  # config, function, arguments
        self.used: list[set[int]] = [set() for _ in range(count)]  # launches that mention each address
        here = _lines(start)
        for number, launch in enumerate(launches):
            config, here = LaunchConfig.from_address(here), here + 64
            config.grid, config.block = (launch.blocks, 1, 1), (launch.threads, 1, 1)
            config.shared = launch.shared
            self.places[-1].append(((ctypes.addressof(config) + LaunchConfig.stream.offset - first) // 8, 0))
            values = []
            for value in launch.arguments:
                ctypes.memmove(here, value, len(value))
                values.append(here)
                here += _lines(len(value))
            for argument, dim in launch.sized:
                self.sizes.setdefault(dim, []).append((values[argument], len(launch.arguments[argument]), number))
            for slot in launch.slots:
                kind = self.descriptors if slot.descriptor else self.places
                place = values[slot.argument] if slot.descriptor else (values[slot.argument] - first) // 8
                kind[slot.address].append((place, slot.offset))
                self.used[slot.address].add(number)
            for position, value_at in enumerate(values):
                self.words[(here - first) // 8 + position] = value_at
            self.calls.append((ctypes.addressof(config), launch.function, here))
            here += _lines(8 * len(values))
        assert here <= start + size

    def point(self, addresses: list[int]) -> list[int]:
        """Write the addresses that differ from the last ones; which those are. Keeps the list."""
        before = self.at
        words, replace = self.words, self.driver.replace_address
        changed = []
        for number, address in enumerate(addresses):
            if address != before[number]:
                changed.append(number)
                for place, offset in self.places[number]:
                    words[place] = address + offset
                for place, offset in self.descriptors[number]:
                    status = replace(place, address + offset)
                    if status:
                        self.driver.check("cuTensorMapReplaceAddress", status)
        self.at = addresses
        return changed

    def resize(self, changing: frozenset[Symbol], sizes: Mapping[Symbol, int]) -> list[frozenset[int]]:
        """Write the dimensions that mention what changes, which is the same at every call, where they have another value than
        before; of each such dimension the launches that mention it."""
        if self.resized is None:
            cells = {4: ctypes.c_int32, 8: ctypes.c_int64}
            self.resized = [
                Resized(dim, [cells[size].from_address(place) for place, size, _ in places], frozenset(n for *_, n in places))
                for dim, places in self.sizes.items()
                if not changing.isdisjoint(dim.variables)
            ]
        touched = []
        for one in self.resized:
            value = one.dim.evaluate(sizes)
            if value != one.value:
                for cell in one.cells:
                    cell.value = value
                one.value = value
                touched.append(one.launches)
        return touched


class Resized:
    """A dimension among arguments: where it stands, the launches that mention it, and the value that stands there, once known."""

    __slots__ = ("cells", "dim", "launches", "value")

    def __init__(self, dim: Dim, cells: list[Any], launches: frozenset[int]) -> None:
        self.dim, self.cells, self.launches = dim, cells, launches
        self.value: int | None = None


class Launches:
    """The kernels of one call, launched one by one. Safe to use from several threads: each has arguments of its own meanwhile."""

    def __init__(self, driver: Driver, launches: Sequence[Launch], count: int, context: int) -> None:
        self.driver, self.launches, self.count, self.context = driver, launches, count, context
        self.free: list[Arguments] = []

    def __call__(
        self, addresses: list[int], changing: frozenset[Symbol] = frozenset(), sizes: Mapping[Symbol, int] | None = None
    ) -> None:
        """Launch at these addresses; dimensions that mention what is `changing` are computed from `sizes`, the others stay."""
        try:
            arguments = self.free.pop()
        except IndexError:
            arguments = Arguments(self.driver, self.launches, self.count)
        if addresses != arguments.at:
            arguments.point(addresses)
        if sizes is not None:
            arguments.resize(changing, sizes)
        launch = self.driver.launch
        for call in arguments.calls:
            status = launch(*call, None)
            if status:
                self._again(status, call)
        self.free.append(arguments)

    def _again(self, status: int, call: tuple[int, int, int]) -> None:
        if status == _INVALID_CONTEXT:
            self.driver.check("cuCtxSetCurrent", self.driver.set_context(self.context))
            status = self.driver.launch(*call, None)
        self.driver.check("cuLaunchKernelEx", status)


class Replay:
    """The kernels of one call as a CUDA graph, from a call of them on. See Note [Replays]. `room` is the memory between its
    kernels; `after` so many calls there is a graph."""

    def __init__(
        self, driver: Driver, launches: Sequence[Launch], count: int, context: int, room: Any, *, after: float = 0
    ) -> None:
        self.driver, self.context, self.room, self.after = driver, context, room, after
        self.launches, self.count = launches, count
        self.arguments = Arguments(driver, launches, count)
        self.graph: tuple[int, list[int], Any] | None = None
        self.parameters: list[NodeParameters] = []
        self.lock = Lock()

    def __call__(
        self,
        addresses: list[int],
        stream: int,
        changing: frozenset[Symbol] = frozenset(),
        sizes: Mapping[Symbol, int] | None = None,
    ) -> None:
        """`addresses` and dimensions as those of `Launches`; with `after`, the last address is the stream, else it is not looked
        at."""
        with self.lock:
            try:
                self._launch(addresses, stream, changing, sizes)
            except BaseException:  # Ctrl-C, too: what is written by now is not what is noted
                self._forget()
                raise

    def _launch(self, addresses: list[int], stream: int, changing: frozenset[Symbol], sizes: Mapping[Symbol, int] | None) -> None:
        arguments = self.arguments
        touched = list[Iterable[int]]()
        if addresses != arguments.at:
            touched += [arguments.used[changed] for changed in arguments.point(addresses)]
        if sizes is not None:
            touched += arguments.resize(changing, sizes)
        if self.after > 0:
            self.after -= 1
            launch = self.driver.launch
            for config, function, values in arguments.calls:
                status = launch(config, function, values, None)
                if status:
                    self._again("cuLaunchKernelEx", status, partial(launch, config, function, values, None))
            return
        if self.graph is None:
            self.graph = self._made()
        elif touched:
            self._tell(self.graph, touched)
        status = self.driver.launch_graph(self.graph[0], stream)
        if status:
            self._again("cuGraphLaunch", status, partial(self.driver.launch_graph, self.graph[0], stream))

    def _made(self) -> tuple[int, list[int], Any]:
        self.parameters = [
            NodeParameters(n.function, (n.blocks, 1, 1), (n.threads, 1, 1), n.shared, call[2])
            for n, call in zip(self.launches, self.arguments.calls, strict=True)
        ]
        return self.driver.graph(self.parameters)

    def _tell(self, graph: tuple[int, list[int], Any], touched: Iterable[Iterable[int]]) -> None:
        for number in {n for some in touched for n in some}:
            made = ctypes.addressof(self.parameters[number])
            self.driver.check("cuGraphExecKernelNodeSetParams", self.driver.set_node(graph[0], graph[1][number], made))

    def _again(self, what: str, status: int, call: Callable[[], int]) -> None:
        """What the driver refused, once more from a thread that never used the GPU."""
        if status == _INVALID_CONTEXT:
            self.driver.check("cuCtxSetCurrent", self.driver.set_context(self.context))
            status = call()
        self.driver.check(what, status)

    def _forget(self) -> None:
        self.arguments = Arguments(self.driver, self.launches, self.count)
        graph, self.graph = self.graph, None
        if graph is not None:
            self.driver.drop_graph(graph[0], graph[2])

    def __del__(self) -> None:
        try:
            graph, self.graph = self.graph, None
            if graph is not None:
                self.driver.drop_graph(graph[0], graph[2])
        except Exception:  # the process ends, and the driver is gone already
            return
