"""Built kernels bound to tensors as they lie: machine code loaded on a device, tensor maps, launches that lack only addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from collections.abc import Mapping as MappingOf
from threading import Lock
from typing import Any

from axon.backend.gpu.build.cubin import LinkedKernel
from axon.backend.gpu.build.recipe import tensors as tensors_of
from axon.backend.gpu.emit.source import MapParameter, SizeParameter, StatusParameter, StrideParameter
from axon.backend.gpu.launching.driver import Driver
from axon.backend.gpu.launching.launches import Launch, Launches, Slot
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.views import with_views
from axon.backend.gpu.runtime.building import Ready
from axon.backend.gpu.runtime.plain_variants import used_by
from axon.backend.gpu.runtime.ways import Planned, only_shows
from axon.backend.gpu.tile.families import Kernel as KernelOf
from axon.backend.gpu.tile.families import views_of
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.plan import scratch
from axon.backend.plan.ir import Nest
from axon.base.data import dataclass
from axon.base.names import Symbol, fresh
from axon.core.ir import Value
from axon.shapes.dimension import Dim

STATUS = fresh("status")  # stands for the word in which a kernel notes that the program must stop
SCALAR_BYTES = 16  # of memory for a scalar that is given by value
# Bytes that are worth to lie in a result: its address is another in each call, which a graph's nodes that mention it are told anew.
IN_RESULTS = 1 << 20


@dataclass(frozen=True, slots=True)
class BoundProgram:
    """A program's launches for tensors of some shapes and strides on one device. Addresses are given to `launches`, in this order:
    those of `given`, of `room` bytes between the kernels, of the word for failures, the stream. `fails`: one may write there."""

    given: tuple[Symbol, ...]
    kernels: tuple[Launch, ...]
    launches: Launches
    room: int
    scalars: dict[Symbol, int]  # where in the room a scalar stands that is given by value
    fails: bool = False


class Binder:
    """Machine codes on devices, and what is launched of them. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: dict[tuple[int, LinkedKernel, int, int], tuple[int, Any]] = {}

    def bind(
        self,
        cuda: Driver,
        device: int,
        planned: Planned,
        kernels: Sequence[Ready],
        given: Iterable[Symbol],
        tables: MappingOf[Symbol, DeviceTensor],
        lying: MappingOf[Symbol, DeviceTensor],
        sizes: MappingOf[Symbol, int],
        scalars: Sequence[Symbol] = (),
        fresh: Sequence[Symbol] = (),
    ) -> BoundProgram:
        """The launches for tensors that lie like these. What is neither `given` nor a table lies between kernels, or for as long in
        `fresh` ones: results that hold nothing yet, and overlap nothing. `scalars` are inputs of rank 0 that are given by value."""
        given = tuple(given)
        taken = [p for ready in kernels for p in ready.stages.source.parameters]
        used = {p.tensor for p in taken if isinstance(p, PointerParameter)}
        used |= {p.descriptor.tensor for p in taken if isinstance(p, MapParameter)}
        used |= {view.source for ready in kernels for view in views_of(ready.kernel)}
        used |= {planned.memory(symbol) for symbol in used}
        apart = (v for v in planned.values if v.symbol not in planned.within)
        between = [v for v in apart if v.symbol not in given and v.symbol not in tables and v.symbol in used]
        same = planned.shown(sizes, {v.symbol: lying[v.symbol] for v in between})
        kernels = [ready for ready in kernels if not only_shows(ready.kernel, same)]
        between = [v for v in between if v.symbol not in same]
        results = [
            (lying[v.symbol].bytes, _life(planned, v, sizes, False, {v.symbol})[1]) for v in planned.values if v.symbol in fresh
        ]
        of_results = [given.index(v.symbol) for v in planned.values if v.symbol in fresh]
        shown = {v.symbol: {v.symbol, *(symbol for symbol, of in same.items() if of == v.symbol)} for v in between}
        lives = [_life(planned, v, sizes, v.symbol in scalars, shown[v.symbol]) for v in between]
        found, room = scratch.plan(lives, results, IN_RESULTS)
        places = {symbol: (number, 0) for number, symbol in enumerate(given)}
        for value, (where, at) in zip(between, found, strict=True):
            places[value.symbol] = (len(given) if where is None else of_results[where]), at
        places |= {symbol: places[of] for symbol, of in same.items()}
        for symbol, view in planned.within.items():
            if view.source in places:
                number, offset = places[view.source]
                places[symbol] = number, offset + lying[symbol].pointer - lying[view.source].pointer
        places[STATUS] = len(given) + 1, 0
        made = tuple(self.launch(cuda, device, ready, lying, sizes, places) for ready in kernels)
        launches = Launches(cuda, made, len(given) + 3, cuda.context(device))
        fails = any(isinstance(p, StatusParameter) for p in taken)
        return BoundProgram(given, made, launches, room, {s: places[s][1] for s in scalars if s in places}, fails)

    def launch(
        self,
        cuda: Driver,
        device: int,
        ready: Ready,
        tensors: MappingOf[Symbol, DeviceTensor],
        sizes: MappingOf[Symbol, int],
        places: MappingOf[Symbol, tuple[int, int]],
    ) -> Launch:
        """One kernel; `places` says which address each tensor has, and what is added to it."""
        source = ready.stages.source
        views = views_of(ready.kernel)
        tensors = with_views(views, tensors, sizes)
        places = dict(places)
        for view in views:
            if view.source not in places:  # a table
                continue
            number, offset = places[view.source]
            offset += tensors[view.value.symbol].pointer - tensors[view.source].pointer
            places[view.value.symbol] = number, offset
        function = self.load(cuda, device, ready.built, source.shared, source.cluster)
        values: list[bytes] = []
        slots: list[Slot] = []
        sized: list[tuple[int, Dim]] = []
        for number, parameter in enumerate(source.parameters):
            match parameter:
                case MapParameter(descriptor=descriptor):
                    tensor = tensors[descriptor.tensor].arranged(descriptor.order)
                    kind, box, rounds = tensor.element, descriptor.box, descriptor.rounds
                    if tensor.im2col is not None:
                        pixels, channels = box[-2:]
                        values.append(cuda.pixel_map(tensor.pointer, tensor.im2col, kind, pixels, channels, rounds))
                    else:
                        strides = [s * tensor.element.bits // 8 for s in tensor.strides[:-1]]
                        values.append(cuda.tensor_map(tensor.pointer, tensor.shape, strides, kind, box, rounds))
                    if descriptor.tensor in places:
                        slots.append(Slot(number, True, *places[descriptor.tensor]))
                case PointerParameter(tensor=symbol) if symbol in places:
                    values.append(bytes(8))
                    slots.append(Slot(number, False, *places[symbol]))
                case PointerParameter(tensor=symbol):  # a table's address is the same in all calls
                    values.append(tensors[symbol].pointer.to_bytes(8, "little"))
                case StrideParameter(tensor=symbol, dimension=dimension):
                    values.append(tensors[symbol].strides[dimension].to_bytes(8, "little", signed=True))
                case SizeParameter(size=size_):
                    values.append(size_.evaluate(sizes).to_bytes(4, "little", signed=True))
                    sized.append((number, size_))
                case ExtentParameter(size=size_):
                    values.append(size_.evaluate(sizes).to_bytes(8, "little", signed=True))
                    sized.append((number, size_))
                case StatusParameter():
                    values.append(bytes(8))
                    slots.append(Slot(number, False, *places[STATUS]))
        count = ready.blocks
        if source.cluster > 1 and ready.mapping.persistent:
            # A cluster that had to wait for another would start its tiles late.
            count = min(count, cuda.clusters(function, count, ready.threads, source.shared, source.cluster) * source.cluster)
        return Launch(function, count, ready.threads, source.shared, tuple(values), tuple(slots), tuple(sized))

    def load(self, cuda: Driver, device: int, kernel: LinkedKernel, shared: int, cluster: int) -> int:
        key = device, kernel, shared, cluster  # kernels that differ in what they may take can share a machine code
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = cuda.load(kernel.cubin, kernel.entry, shared, cluster, device)
            return self._loaded[key][0]


def _life(
    planned: Planned, value: Value, sizes: MappingOf[Symbol, int], by_value: bool, shown: Set[Symbol]
) -> tuple[int, int, int]:
    """Bytes, and the first and the last kernel that needs a value, which is `shown` under these names. A scalar is there before all
    of them."""
    if by_value:
        return SCALAR_BYTES, 0, len(planned.kernels)
    users = [n for n, kernel in enumerate(planned.kernels) if not shown.isdisjoint(_touched(planned, kernel))]
    return planned.lies(value, sizes).bytes, min(users, default=0), max(users, default=0)


def _touched(planned: Planned, kernel: KernelOf) -> set[Symbol]:
    """The tensors in whose memory a kernel may read or write."""
    if isinstance(kernel, Nest):
        return {planned.memory(value.symbol) for value in used_by(kernel, planned.known)}
    sources = {view.value.symbol: view.source for view in views_of(kernel)}
    return {planned.memory(sources.get(value.symbol, value.symbol)) for value in tensors_of(kernel, planned.values)}
