"""Programs on a device: kernels are planned, built and loaded, and bound to tensors as they lie; what is bound is launched.

This module knows addresses, shapes and strides; what library a tensor comes from is its caller's business. A kernel is emitted
source with a mapping; whatever its family, it takes TMA descriptors, addresses, strides and sizes. Note [Variants] says which code
serves which sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from threading import RLock
from typing import Any

from axon.backend import scratch
from axon.backend.build import Kernel, RegistersExhausted, build_all
from axon.backend.driver import Driver, driver
from axon.backend.emit import MapParameter, PointerParameter, SizeParameter, StrideParameter
from axon.backend.families import kernels
from axon.backend.launches import Launch, Launches, Slot
from axon.backend.memory import Tensor, contiguous
from axon.backend.pipeline import Stages, stages
from axon.backend.pipeline import tensors as tensors_of
from axon.backend.prepare import Prepared, blocks, is_empty, prepare
from axon.backend.schedule import Mapping
from axon.backend.schedule_file import NOTHING, Schedule
from axon.backend.target import HOPPER, Target
from axon.backend.variants import Choices, Variant
from axon.core import Program, Value
from axon.names import Symbol

KEPT_LAUNCHES = 256  # of `Executable.__call__`
SCALAR_BYTES = 16  # of memory for a scalar that is given by value


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel of a program at given sizes: its mapping, all its forms, its machine code, and how many blocks run it."""

    kernel: Any  # of one of the families
    mapping: Mapping
    stages: Stages
    built: Kernel
    blocks: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A program's launches for tensors of some shapes and strides on one device. Addresses are given to `launches`, in this order:
    those of `given`, of `room` bytes between the kernels, the stream."""

    given: tuple[Symbol, ...]
    kernels: tuple[Launch, ...]
    launches: Launches
    room: int
    scalars: dict[Symbol, int]  # where in the room a scalar stands that is given by value


class Executable:
    """A core program's kernels on one target. What is planned, built and loaded is kept. Safe to use from several threads."""

    def __init__(
        self,
        program: Program,
        target: Target = HOPPER,
        mapping: Mapping | None = None,
        *,
        exact: bool = False,
        schedule: Schedule = NOTHING,
    ) -> None:
        """Raises `Unsupported` for a program with an operation outside the families.

        A given mapping holds for every kernel; a schedule fixes values of some (AX0605 for one that is not there). With
        `exact`, every size gets its best mapping, and variants have no limit.
        """
        self.program, self.target, self.mapping, self.exact = program, target, mapping, exact
        self.kernels = kernels(program)
        self.fixed = schedule.of(len(self.kernels))
        stored = (r.value for k in self.kernels for r in k.results)
        self.values: tuple[Value, ...] = tuple(dict.fromkeys([*program.inputs, *stored]))
        self._lock = RLock()
        self._choices: dict[tuple[int, Any], Choices] = {}
        self._built: dict[tuple[int, Any, Variant], tuple[Stages, Kernel]] = {}
        self._loaded: dict[tuple[int, Kernel], tuple[int, Any]] = {}
        self._bound: OrderedDict[tuple[object, ...], tuple[Bound, list[int]]] = OrderedDict()

    # ── building ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, number: int, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> Plan:
        """The plan of one kernel for these tensors: built, but not loaded; needs no GPU.

        Raises `Unsupported` for operands that bulk copies cannot read, `BuildError` where no mapping gives a sound kernel.
        """
        return self._plans([number], tensors, sizes, exact=self.exact)[number]

    def plans(self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], *, exact: bool = False) -> dict[int, Plan]:
        """The plans of all kernels that have something to do, by number. Those that are not built yet are built side by side."""
        todo = [n for n, kernel in enumerate(self.kernels) if not is_empty(kernel, sizes)]
        return self._plans(todo, tensors, sizes, exact=exact or self.exact)

    def warm(self, sizes: MappingOf[Symbol, int]) -> None:
        """Build all kernels, mapped for exactly these sizes, for contiguous tensors. Needs no GPU."""
        self.plans(self._contiguous(sizes), sizes, exact=True)

    def made(self) -> list[tuple[int, Variant, int]]:
        """The kernels that are built: the number of each, its variant, its registers."""
        with self._lock:
            return [(number, variant, kernel.registers) for (number, _, variant), (_, kernel) in self._built.items()]

    def _contiguous(self, sizes: MappingOf[Symbol, int]) -> dict[Symbol, Tensor]:
        return {v.symbol: contiguous(0, tuple(d.evaluate(sizes) for d in v.shape), v.element) for v in self.values}

    def _plans(
        self, numbers: Sequence[int], tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], *, exact: bool
    ) -> dict[int, Plan]:
        with self._lock:
            ready = {n: prepare(self.kernels[n], tensors, sizes) for n in numbers}
            picked: dict[int, Variant] = {}
            while missing := [n for n in numbers if n not in picked]:
                for n in missing:
                    picked[n] = self._choices_of(n, ready[n]).pick(ready[n], sizes, exact=exact)
                for n, failure in self._build({n: (ready[n], picked[n]) for n in missing}).items():
                    # Only the compiler knows which mappings fit their registers, when an epilogue is long: the next best one then.
                    self._choices_of(n, ready[n]).refuse(picked.pop(n))
                    if self.mapping is not None:
                        raise failure
            return {n: self._planned(n, ready[n], picked[n]) for n in numbers}

    def _choices_of(self, number: int, ready: Prepared) -> Choices:
        return self._choices.setdefault((number, ready.kernel), Choices(self.target, self.mapping, self.fixed[number]))

    def _build(self, wanted: MappingOf[int, tuple[Prepared, Variant]]) -> dict[int, RegistersExhausted]:
        """Build what is not there yet; what does not fit its registers comes back."""
        made: dict[int, Stages] = {}
        for number, (ready, variant) in wanted.items():
            if (number, ready.kernel, variant) not in self._built:
                made[number] = stages(ready.kernel, variant.mapping, self.target, self.values, variant.boxed, variant.paired)
        failures: dict[int, RegistersExhausted] = {}
        for (number, forms), kernel in zip(made.items(), build_all(list(made.values()), self.target), strict=True):
            ready, variant = wanted[number]
            if isinstance(kernel, RegistersExhausted):
                failures[number] = kernel
            else:
                self._built[number, ready.kernel, variant] = forms, kernel
        return failures

    def _planned(self, number: int, ready: Prepared, variant: Variant) -> Plan:
        forms, kernel = self._built[number, ready.kernel, variant]
        return Plan(ready.kernel, variant.mapping, forms, kernel, blocks(variant.mapping, ready.problem, self.target))

    # ── binding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def bind(
        self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], device: int, scalars: Sequence[Symbol] = ()
    ) -> Bound:
        """The launches for tensors that lie like these, on a GPU. What is not among `tensors` lies between the kernels.

        `tensors` are in the order in which their addresses will be given; `scalars` are inputs of rank 0 that are given by value.
        """
        cuda = driver()
        context = cuda.context(device)
        between = [v for v in self.values if v.symbol not in tensors]
        lives = [self._life(v, sizes, v.symbol in scalars) for v in between]
        offsets, room = scratch.plan(lives)
        inside = {v.symbol: at for v, at in zip(between, offsets, strict=True)}
        lying = dict(tensors)
        for value in between:
            shape = tuple(d.evaluate(sizes) for d in value.shape)
            lying[value.symbol] = contiguous(scratch.ALIGNMENT, shape, value.element)
        given = tuple(tensors)
        places = {symbol: (number, 0) for number, symbol in enumerate(given)}
        places |= {symbol: (len(given), at) for symbol, at in inside.items()}
        plans = self.plans(lying, sizes)
        made = tuple(self._launch(cuda, device, plans[n], lying, sizes, places) for n in sorted(plans))
        launches = Launches(cuda, made, len(given) + 2, context)
        return Bound(given, made, launches, room, {s: inside[s] for s in scalars if s in inside})

    def _life(self, value: Value, sizes: MappingOf[Symbol, int], by_value: bool) -> tuple[int, int, int]:
        """Bytes, and the first and the last kernel that needs a value. A scalar is there before all of them."""
        size = max(1, value.element.bits // 8)
        for d in value.shape:
            size *= d.evaluate(sizes)
        users = [n for n, k in enumerate(self.kernels) if any(t.symbol == value.symbol for t in tensors_of(k, self.values))]
        if by_value:
            return SCALAR_BYTES, 0, len(self.kernels)
        return size, min(users, default=0), max(users, default=0)

    def _launch(
        self,
        cuda: Driver,
        device: int,
        plan: Plan,
        tensors: MappingOf[Symbol, Tensor],
        sizes: MappingOf[Symbol, int],
        places: MappingOf[Symbol, tuple[int, int]],
    ) -> Launch:
        source = plan.stages.source
        function = self._load(cuda, device, plan.built, source.shared)
        values: list[bytes] = []
        slots: list[Slot] = []
        for number, parameter in enumerate(source.parameters):
            match parameter:
                case MapParameter(descriptor=descriptor):
                    tensor = tensors[descriptor.tensor].arranged(descriptor.order)
                    size = tensor.element.bits // 8
                    strides = [s * size for s in tensor.strides[:-1]]
                    values.append(cuda.tensor_map(tensor.pointer, tensor.shape, strides, tensor.element, descriptor.box))
                    slots.append(Slot(number, True, *places[descriptor.tensor]))
                case PointerParameter(tensor=symbol):
                    values.append(bytes(8))
                    slots.append(Slot(number, False, *places[symbol]))
                case StrideParameter(tensor=symbol, dimension=dimension):
                    values.append(tensors[symbol].strides[dimension].to_bytes(8, "little", signed=True))
                case SizeParameter(size=size_):
                    values.append(size_.evaluate(sizes).to_bytes(4, "little", signed=True))
        count = plan.blocks
        if plan.mapping.persistent and source.cluster > 1:
            # A cluster that had to wait for another would start its tiles late.
            count = min(count, cuda.clusters(function, count, source.threads, source.shared, source.cluster) * source.cluster)
        return Launch(function, count, source.threads, source.shared, tuple(values), tuple(slots))

    def _load(self, cuda: Driver, device: int, kernel: Kernel, shared: int) -> int:
        with self._lock:
            if (device, kernel) not in self._loaded:
                self._loaded[device, kernel] = cuda.load(kernel.cubin, kernel.entry, shared, device)
            return self._loaded[device, kernel][0]

    # ── without a library ───────────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], stream: int, device: int = 0) -> None:
        """Launch every kernel in order. `tensors` are all inputs and all that kernels store; `sizes` every dimension."""
        key = (device, *(tensors[v.symbol] for v in self.values), *sizes.values())
        with self._lock:
            found = self._bound.get(key)
            if found is None:
                own = {v.symbol: tensors[v.symbol] for v in self.values}
                found = self.bind(own, sizes, device), [*(t.pointer for t in own.values()), 0, 0]
                self._bound[key] = found
                if len(self._bound) > KEPT_LAUNCHES:
                    self._bound.popitem(last=False)
        bound, addresses = found
        bound.launches([*addresses[:-1], stream])


def results_of(executable: Executable) -> Iterator[tuple[Symbol, Symbol | None]]:
    """What a program gives, in order: each with the symbol that it must be a copy of, if it is an argument or an earlier result."""
    seen: set[Symbol] = {v.symbol for v in executable.program.inputs}
    for symbol in executable.program.block.results:
        yield symbol, symbol if symbol in seen else None
        seen.add(symbol)
