"""`sort` and `compress` on a device: the launches of their kernels (see `sorting`), built, loaded and kept by how tensors lie."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import prod
from threading import RLock
from typing import Any

from axon.backend.gpu.build.cubin import Kernel, build_all
from axon.backend.gpu.build.pipeline import Plain
from axon.backend.gpu.emit.source import StrideParameter
from axon.backend.gpu.layout.memory import Tensor
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.runtime import sorting
from axon.backend.gpu.runtime.driver import Driver
from axon.backend.gpu.runtime.launches import Launch, Launches, Slot
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol

KEPT = 64  # shapes of one program's sorts and compresses


@dataclass(frozen=True, slots=True)
class Bound:
    """Launches that take addresses in this order: what `given` names, `room` bytes of their own, the stream."""

    given: tuple[Symbol, ...]
    launches: Launches
    room: int


@dataclass(frozen=True, slots=True)
class Compressing:
    """A compress in two steps: the first leaves the size, an i32, `total` bytes into the room; the second takes the same room."""

    count: Bound
    write: Bound
    total: int


@dataclass(frozen=True, slots=True)
class _Step:
    kernel: Plain
    blocks: int
    sizes: Mapping[Symbol, int]
    renamed: Mapping[Symbol, Symbol]  # buffers whose roles change from pass to pass


class Algorithms:
    """The sorts and compresses of one program. Safe to use from several threads."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lock = RLock()
        self.foreseen: set[str] = set()  # sources of what was built before it is launched
        self._built: dict[str, Kernel] = {}
        self._loaded: dict[tuple[int, Kernel], tuple[int, Any]] = {}
        self._bound: OrderedDict[tuple[Any, ...], Bound | Compressing] = OrderedDict()

    @property
    def count(self) -> int:
        """How many kernels are built."""
        with self._lock:
            return len(self.foreseen.union(self._built))

    def sort(self, cuda: Driver, device: int, source: Tensor) -> Bound:
        """The launches that sort tensors that lie like this one, which has elements. Their results are contiguous."""
        key = ("sort", device, source.element, source.shape, source.strides)
        found = self._kept(key, lambda: self._sort(cuda, device, source))
        assert isinstance(found, Bound)
        return found

    def compress(self, cuda: Driver, device: int, source: Tensor) -> Compressing:
        """The launches for masks like this one, which has elements."""
        key = ("compress", device, source.shape, source.strides)
        found = self._kept(key, lambda: self._compress(cuda, device, source))
        assert isinstance(found, Compressing)
        return found

    def kernels(self, element: Element | None, rank: int) -> list[Plain]:
        """The kernels of a sort of such tensors, for short rows and for long ones; without an element, of a compress."""
        if element is None:
            return [sorting.count(), sorting.place(), sorting.write()]
        made = [sorting.tiles(element, rank, whole=whole) for whole in (True, False)]
        return [*made, sorting.merge(sorting.Keys(element).wide), sorting.finish(element, rank)]

    # ── making ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _kept(self, key: tuple[Any, ...], make: Callable[[], Bound | Compressing]) -> Bound | Compressing:
        with self._lock:
            if key not in self._bound:
                self._bound[key] = make()
                if len(self._bound) > KEPT:
                    self._bound.popitem(last=False)
            return self._bound[key]

    def _sort(self, cuda: Driver, device: int, source: Tensor) -> Bound:
        keys, rank, length = sorting.Keys(source.element), len(source.shape), source.shape[-1]
        rows = prod(source.shape[:-1])
        width = min(sorting.TILE, 1 << (length - 1).bit_length())
        pieces = -(-length // width)
        sizes = {sorting.LENGTH: length, sorting.ROWS: rows, sorting.WIDTH: width, sorting.BLOCKS: pieces}
        sizes |= dict(zip(sorting.LEADING, source.shape[:-1], strict=False))
        blocks = -(-rows * pieces * width // sorting.TILE)
        steps = [_Step(sorting.tiles(source.element, rank, whole=pieces == 1), blocks, sizes, {})]
        pairs = (sorting.PAIRS, sorting.PLACES) if keys.wide else (sorting.PAIRS,)
        others = (sorting.MERGED, sorting.MERGED_PLACES) if keys.wide else (sorting.MERGED,)
        room: dict[Symbol, int] = {}
        if pieces > 1:
            room = dict(zip((*pairs, *others), [rows * length * size for size in (8, 4)[: len(pairs)]] * 2, strict=True))
            run, here, there = width, pairs, others
            merge = sorting.merge(keys.wide)
            blocks = -(-rows * -(-length // sorting.STRETCH) // sorting.MERGERS)
            while run < length:
                names = dict(zip((*pairs, *others), (*here, *there), strict=True))
                steps.append(_Step(merge, blocks, {**sizes, sorting.RUN: run}, names))
                run, here, there = 2 * run, there, here
            blocks = -(-rows * length // sorting.MERGERS)
            steps.append(_Step(sorting.finish(source.element, rank), blocks, sizes, dict(zip(pairs, here, strict=True))))
        given = (sorting.INPUT, sorting.VALUES, sorting.INDICES)
        return self._bind(cuda, device, steps, given, room, source)[0]

    def _compress(self, cuda: Driver, device: int, source: Tensor) -> Compressing:
        (length,) = source.shape
        blocks = -(-length // sorting.PIECE)
        sizes = {sorting.LENGTH: length, sorting.BLOCKS: blocks}
        room = {sorting.COUNTS: 4 * blocks, sorting.TOTAL: 4}
        steps = [_Step(sorting.count(), blocks, sizes, {}), _Step(sorting.place(), 1, sizes, {})]
        count, offsets = self._bind(cuda, device, steps, (sorting.INPUT,), room, source)
        steps = [_Step(sorting.write(), blocks, sizes, {})]
        write, _ = self._bind(cuda, device, steps, (sorting.INPUT, sorting.INDICES), room, source)
        return Compressing(count, write, offsets[sorting.TOTAL])

    def _bind(
        self,
        cuda: Driver,
        device: int,
        steps: Sequence[_Step],
        given: tuple[Symbol, ...],
        room: Mapping[Symbol, int],
        source: Tensor,
    ) -> tuple[Bound, dict[Symbol, int]]:
        """The launches of these steps, and where in the room each buffer is."""
        offsets, end = {}, 0
        for symbol, size in room.items():
            offsets[symbol] = end
            end += -(-size // ALIGNMENT) * ALIGNMENT
        places = {symbol: (number, 0) for number, symbol in enumerate(given)}
        places |= {symbol: (len(given), at) for symbol, at in offsets.items()}
        context = cuda.context(device)
        built = self._build([step.kernel for step in steps])
        made = [self._launch(cuda, device, s, k, places, source) for s, k in zip(steps, built, strict=True)]
        return Bound(given, Launches(cuda, made, len(given) + 2, context), end), offsets

    def _launch(
        self, cuda: Driver, device: int, step: _Step, kernel: Kernel, places: Mapping[Symbol, tuple[int, int]], source: Tensor
    ) -> Launch:
        if (device, kernel) not in self._loaded:
            self._loaded[device, kernel] = cuda.load(kernel.cubin, kernel.entry, 0, 1, device)
        values: list[bytes] = []
        slots: list[Slot] = []
        for number, parameter in enumerate(step.kernel.source.parameters):
            value = 0
            match parameter:
                case PointerParameter(tensor=tensor):
                    slots.append(Slot(number, False, *places[step.renamed.get(tensor, tensor)]))
                case StrideParameter(dimension=dimension):
                    value = source.strides[dimension]
                case ExtentParameter(size=size):
                    value = size.evaluate(step.sizes)
                case _:
                    raise AssertionError(f"no kernel here has {parameter}")
            values.append(value.to_bytes(8, "little", signed=True))
        function = self._loaded[device, kernel][0]
        return Launch(function, step.blocks, step.kernel.source.threads, 0, tuple(values), tuple(slots))

    def _build(self, kernels: Sequence[Plain]) -> list[Kernel]:
        with self._lock:
            missing = list({k.source.text: k for k in kernels if k.source.text not in self._built}.values())
            for plain, made in zip(missing, build_all(missing, self.target) if missing else (), strict=True):
                if not isinstance(made, Kernel):
                    raise made
                self._built[plain.source.text] = made
            return [self._built[k.source.text] for k in kernels]
