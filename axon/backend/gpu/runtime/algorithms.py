"""`sort` and `compress` on a device: their launches (see `gpu.sorting`), built, loaded and kept by how tensors lie."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

from axon.backend.gpu.build.cubin import LinkedKernel, build_all
from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.emit.source import StrideParameter
from axon.backend.gpu.launching.driver import Driver
from axon.backend.gpu.launching.launches import Launch, Launches, Slot
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.sorting import compress
from axon.backend.gpu.sorting.steps import Algorithm, SortLaunch, compressing, sorting
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.data import dataclass
from axon.base.names import Symbol

KEPT = 64  # shapes of one program's sorts and compresses


@dataclass(frozen=True, slots=True)
class BoundAlgorithm:
    """Launches that take addresses in this order: what `given` names, `room` bytes of their own, the stream."""

    given: tuple[Symbol, ...]
    launches: Launches
    room: int


@dataclass(frozen=True, slots=True)
class Compressing:
    """A compress in two steps: the first leaves the size, an i32, `total` bytes into the room; the second takes the same room."""

    count: BoundAlgorithm
    write: BoundAlgorithm
    total: int


class Algorithms:
    """The sorts and compresses of one program. Safe to use from several threads."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lock = RLock()
        self.foreseen: set[str] = set()  # sources of what was built before it is launched
        self._built: dict[str, LinkedKernel] = {}
        self._loaded: dict[tuple[int, LinkedKernel], tuple[int, Any]] = {}
        self._bound: OrderedDict[tuple[Any, ...], BoundAlgorithm | Compressing] = OrderedDict()

    @property
    def count(self) -> int:
        """How many kernels are built."""
        with self._lock:
            return len(self.foreseen.union(self._built))

    def sort(self, cuda: Driver, device: int, source: DeviceTensor) -> BoundAlgorithm:
        """The launches that sort tensors that lie like this one, which has elements. Their results are contiguous."""
        key = ("sort", device, source.element, source.shape, source.strides)
        found = self._kept(key, lambda: self._sort(cuda, device, source))
        assert isinstance(found, BoundAlgorithm)
        return found

    def compress(self, cuda: Driver, device: int, source: DeviceTensor) -> Compressing:
        """The launches for masks like this one, which has elements."""
        key = ("compress", device, source.shape, source.strides)
        found = self._kept(key, lambda: self._compress(cuda, device, source))
        assert isinstance(found, Compressing)
        return found

    # ── making ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _kept(self, key: tuple[Any, ...], make: Callable[[], BoundAlgorithm | Compressing]) -> BoundAlgorithm | Compressing:
        with self._lock:
            if key not in self._bound:
                self._bound[key] = make()
                if len(self._bound) > KEPT:
                    self._bound.popitem(last=False)
            return self._bound[key]

    def _sort(self, cuda: Driver, device: int, source: DeviceTensor) -> BoundAlgorithm:
        return self._bind(cuda, device, sorting(source.element, source.shape, self.target), source)[0]

    def _compress(self, cuda: Driver, device: int, source: DeviceTensor) -> Compressing:
        first, second = compressing(source.shape[0])
        count, offsets = self._bind(cuda, device, first, source)
        write, _ = self._bind(cuda, device, second, source)
        return Compressing(count, write, offsets[compress.TOTAL])

    def _bind(
        self, cuda: Driver, device: int, algorithm: Algorithm, source: DeviceTensor
    ) -> tuple[BoundAlgorithm, dict[Symbol, int]]:
        """The launches of its steps, and where in the room each buffer is."""
        steps, given, room = algorithm.steps, algorithm.given, algorithm.room
        offsets, end = {}, 0
        for symbol, size in room.items():
            offsets[symbol] = end
            end += -(-size // ALIGNMENT) * ALIGNMENT
        places = {symbol: (number, 0) for number, symbol in enumerate(given)}
        places |= {symbol: (len(given), at) for symbol, at in offsets.items()}
        context = cuda.context(device)
        built = self._build([step.kernel for step in steps])
        made = [self._launch(cuda, device, s, k, places, source) for s, k in zip(steps, built, strict=True)]
        return BoundAlgorithm(given, Launches(cuda, made, len(given) + 2, context), end), offsets

    def _launch(
        self,
        cuda: Driver,
        device: int,
        step: SortLaunch,
        kernel: LinkedKernel,
        places: Mapping[Symbol, tuple[int, int]],
        source: DeviceTensor,
    ) -> Launch:
        if (device, kernel) not in self._loaded:
            self._loaded[device, kernel] = cuda.load(kernel.cubin, kernel.entry, step.kernel.source.shared, 1, device)
        values: list[bytes] = []
        slots: list[Slot] = []
        for number, parameter in enumerate(step.kernel.source.parameters):
            value = 0
            match parameter:
                case PointerParameter(tensor=tensor):
                    slots.append(Slot(number, False, *places[tensor]))
                case StrideParameter(dimension=dimension):
                    value = source.strides[dimension]
                case ExtentParameter(size=size):
                    value = size.evaluate(step.sizes)
                case _:
                    raise AssertionError(f"no kernel here has {parameter}")
            values.append(value.to_bytes(8, "little", signed=True))
        function = self._loaded[device, kernel][0]
        launched = step.kernel.source
        return Launch(function, step.blocks, launched.threads, launched.shared, tuple(values), tuple(slots))

    def _build(self, kernels: Sequence[Plain]) -> list[LinkedKernel]:
        with self._lock:
            missing = list({k.source.text: k for k in kernels if k.source.text not in self._built}.values())
            for plain, made in zip(missing, build_all(missing, self.target) if missing else (), strict=True):
                if not isinstance(made, LinkedKernel):
                    raise made
                self._built[plain.source.text] = made
            return [self._built[k.source.text] for k in kernels]
