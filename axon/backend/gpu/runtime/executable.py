"""Programs on a device: kernels are planned, built and loaded, and bound to tensors as they lie; what is bound is launched.

This module knows addresses, shapes and strides; what library a tensor comes from is its caller's business. A kernel is emitted
source with a mapping; whatever its family, it takes TMA descriptors, addresses, strides and sizes. Note [Variants] says which code
serves which sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

from axon.backend.gpu.build.cubin import Kernel, RegistersExhausted, build_all
from axon.backend.gpu.build.pipeline import Forms, stages
from axon.backend.gpu.build.pipeline import tensors as tensors_of
from axon.backend.gpu.emit.kernel import (
    ExtentParameter,
    MapParameter,
    PointerParameter,
    SizeParameter,
    StatusParameter,
    StrideParameter,
)
from axon.backend.gpu.layout.memory import Tensor, aligned, contiguous
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import with_views
from axon.backend.gpu.runtime import failures
from axon.backend.gpu.runtime import plain_variants as nests
from axon.backend.gpu.runtime.device_tables import NONE, DeviceTables
from axon.backend.gpu.runtime.driver import Driver, driver
from axon.backend.gpu.runtime.launches import Launch, Launches, Slot
from axon.backend.gpu.runtime.packed import Factor, wanted, with_copies
from axon.backend.gpu.runtime.prepare import Prepared, blocks, is_empty, prepare
from axon.backend.gpu.runtime.variants import Choices
from axon.backend.gpu.simt.mapping import grid as grid_of
from axon.backend.gpu.tile.families import NO_REASONS, kernels, results_of, views_of
from axon.backend.gpu.tile.schedule import Mapping
from axon.backend.gpu.tile.schedule_file import NOTHING, Schedule
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan import scratch
from axon.backend.plan.ir import Nest
from axon.base.names import Symbol, fresh
from axon.core.ir import Program, Value
from axon.shapes.dimension import Dim

KEPT_LAUNCHES = 256  # of `Executable.__call__`
STATUS = fresh("status")  # stands for the word in which a kernel notes that the program must stop
SCALAR_BYTES = 16  # of memory for a scalar that is given by value


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel of a program at given sizes: its mapping, all its forms, its machine code, and how it is launched."""

    kernel: Any  # of one of the families
    mapping: Any  # of its family
    stages: Any  # its forms
    built: Kernel
    blocks: int
    threads: int


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel that is built: of which executable, which of its kernels, how its tensors lie, its variant, its registers."""

    executable: Executable
    number: int
    key: Any
    variant: Any
    registers: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """A kernel that is still to be built, and what wants it."""

    executable: Executable
    number: int
    ready: Any
    variant: Any
    forms: Forms


@dataclass(frozen=True, slots=True)
class Bound:
    """A program's launches for tensors of some shapes and strides on one device. Addresses are given to `launches`, in this order:
    those of `given`, of `room` bytes between the kernels, of the word for failures, the stream. `fails`: one may write there."""

    given: tuple[Symbol, ...]
    kernels: tuple[Launch, ...]
    launches: Launches
    room: int
    scalars: dict[Symbol, int]  # where in the room a scalar stands that is given by value
    fails: bool = False


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
        plain: frozenset[Symbol] = frozenset(),
        apart: frozenset[Symbol] = frozenset(),
        copied: frozenset[Factor] = frozenset(),
        why: MappingOf[Symbol, str] = NO_REASONS,
        bare: frozenset[Symbol] = frozenset(),
        tables: DeviceTables = NONE,
    ) -> None:
        """Raises `Unsupported` for a program that is not straight (see `parts`).

        Of the program's inputs, no call gives those that are `tables`: they lie on the GPU already.
        A given mapping holds for every kernel; a schedule fixes values of some (AX0605 for one that is not there). With
        `exact`, every size gets its best mapping, and variants have no limit.
        """
        self.program, self.target, self.mapping, self.exact, self.tables = program, target, mapping, exact, tables
        self.kernels, self.aligned = with_copies(kernels(program, plain, apart, why, bare), copied)
        self.fixed = schedule.of(len(self.kernels))
        self.schedule, self.plain, self.apart, self.copied, self.why, self.bare = schedule, plain, apart, copied, why, bare
        stored = (value for k in self.kernels for value in results_of(k))
        inside = (out for k in self.kernels if isinstance(k, Nest) for step in k.steps for out in step.outs)
        self.values: tuple[Value, ...] = tuple(dict.fromkeys([*program.inputs, *stored, *inside]))
        self.known = {v.symbol: v for v in self.values}
        self._others: dict[tuple[frozenset[Any], ...], Executable] = {}
        self._lock = RLock()
        self._choices: dict[tuple[int, Any], Any] = {}
        self._built: dict[tuple[int, Any, Any], tuple[Any, Kernel]] = {}
        self._loaded: dict[tuple[int, Kernel, int, int], tuple[int, Any]] = {}
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

    def warm(self, sizes: MappingOf[Symbol, int], *, exact: bool = True) -> None:
        """Build all kernels for contiguous tensors, mapped for exactly these sizes or, if not `exact`, as a call does."""
        self.built({}, sizes, exact=exact)

    def built(
        self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], *, exact: bool = False
    ) -> tuple[Executable, dict[int, Plan]]:
        """What runs at these sizes for tensors that lie like these (see `serving`), and its plans.

        Only the compiler knows which mappings fit their registers: where it has refused all of a kernel's, another one serves.
        """
        while True:
            served = self.serving(tensors, sizes)
            try:
                return served, served.plans(served.lying(sizes) | dict(tensors), sizes, exact=exact)
            except Unsupported:
                if self.serving(tensors, sizes) is served:
                    raise

    def wanted(self, sizes: MappingOf[Symbol, int], *, exact: bool = False) -> list[Wanted]:
        """What is still to be built for contiguous tensors of these sizes, so that several programs' kernels are built together.
        What is built of it is given to `keep`."""
        served = self.serving({}, sizes)
        tensors = served.lying(sizes)
        with served._lock:
            ready = {n: served._prepared(n, tensors, sizes) for n, k in enumerate(served.kernels) if not is_empty(k, sizes)}
            picked = {n: (r, served._choices_of(n, r).pick(r, sizes, exact=exact or served.exact)) for n, r in ready.items()}
            return [Wanted(served, n, *picked[n], forms) for n, forms in served._forms(picked).items()]

    def keep(self, wanted: Wanted, kernel: Kernel | RegistersExhausted) -> None:
        """What was made of a kernel that this executable wanted."""
        with self._lock:
            if isinstance(kernel, Kernel):
                self._built[wanted.number, wanted.ready.key, wanted.variant] = wanted.forms, kernel
            else:
                self._choices_of(wanted.number, wanted.ready).refuse(wanted.variant)

    def made(self) -> list[Built]:
        """The kernels that are built, also those of what serves instead of this (see `serving`)."""
        with self._lock:
            own = [Built(self, *key, kernel.registers) for key, (_, kernel) in self._built.items()]
            return own + [built for other in self._others.values() for built in other.made()]

    @property
    def ways(self) -> int:
        """Of how many kernels, as their tensors lie, calls make variants: as far as is known of what is built."""
        return self._ways() or len(self.kernels)

    def _ways(self) -> int:
        with self._lock:
            own = {(number, key) for number, key, _ in self._built}
            mine = len(own) + len(self.kernels) - len({number for number, _ in own}) if own else 0
            return mine + sum(other._ways() for other in self._others.values())

    def lying(self, sizes: MappingOf[Symbol, int]) -> dict[Symbol, Tensor]:
        """All values one by one, copies in rows that bulk copies can read."""
        return {v.symbol: self._lies(v, sizes) for v in self.values}

    def _lies(self, value: Value, sizes: MappingOf[Symbol, int]) -> Tensor:
        lay = aligned if value.symbol in self.aligned else contiguous
        return lay(scratch.ALIGNMENT, _shape(value, sizes), value.element)

    def _plans(
        self, numbers: Sequence[int], tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], *, exact: bool
    ) -> dict[int, Plan]:
        with self._lock:
            ready = {n: self._prepared(n, tensors, sizes) for n in numbers}
            picked: dict[int, Any] = {}
            while missing := [n for n in numbers if n not in picked]:
                for n in missing:
                    picked[n] = self._choices_of(n, ready[n]).pick(ready[n], sizes, exact=exact)
                for n, failure in self._build({n: (ready[n], picked[n]) for n in missing}).items():
                    # Only the compiler knows which mappings fit their registers, when an epilogue is long: the next best one then.
                    self._choices_of(n, ready[n]).refuse(picked.pop(n))
                    if self.mapping is not None:
                        raise failure
            return {n: self._planned(n, ready[n], picked[n], sizes) for n in numbers}

    def _prepared(self, number: int, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> Any:
        kernel = self.kernels[number]
        if isinstance(kernel, Nest):
            return nests.prepare(kernel, self.known, tensors, sizes)
        return prepare(kernel, tensors, sizes)

    def _choices_of(self, number: int, ready: Any) -> Any:
        key = number, ready.key
        if key not in self._choices:
            tiled = isinstance(ready, Prepared)
            self._choices[key] = Choices(self.target, self.mapping, self.fixed[number]) if tiled else nests.Choices()
        return self._choices[key]

    def _build(self, wanted: MappingOf[int, tuple[Any, Any]]) -> dict[int, RegistersExhausted]:
        """Build what is not there yet; what does not fit its registers comes back."""
        made = self._forms(wanted)
        failures: dict[int, RegistersExhausted] = {}
        for (number, forms), kernel in zip(made.items(), build_all(list(made.values()), self.target), strict=True):
            ready, variant = wanted[number]
            if isinstance(kernel, RegistersExhausted):
                failures[number] = kernel
            else:
                self._built[number, ready.key, variant] = forms, kernel
        return failures

    def _forms(self, wanted: MappingOf[int, tuple[Any, Any]]) -> dict[int, Forms]:
        """The forms of what is not built yet."""
        made: dict[int, Forms] = {}
        for number, (ready, variant) in wanted.items():
            if (number, ready.key, variant) in self._built:
                continue
            if isinstance(ready, Prepared):
                made[number] = stages(ready.kernel, variant.mapping, self.target, self.values, variant.granted)
            else:
                made[number] = nests.forms(ready, variant, self.known)
        return made

    def _planned(self, number: int, ready: Any, variant: Any, sizes: MappingOf[Symbol, int]) -> Plan:
        forms, kernel = self._built[number, ready.key, variant]
        if isinstance(ready, Prepared):
            count = blocks(variant.mapping, ready.problem, self.target)
            return Plan(ready.kernel, variant.mapping, forms, kernel, count, forms.source.threads)
        grid = grid_of(variant.mapping, ready.kernel, sizes)
        return Plan(ready.kernel, variant.mapping, forms, kernel, grid.blocks, grid.threads)

    def serving(self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> Executable:
        """What runs at these sizes, for tensors that lie like these: this, or the same program with copies of the factors that the
        tensor cores cannot read as they lie, and without the kernels for them that have no mapping here: a stream's operations
        apart, a contraction without the operations on its product, others plain. A mapping or a schedule that the user gave is an
        error instead."""
        plain, apart, copied, bare, why = self.plain, self.apart, self.copied, self.bare, dict(self.why)
        tensors = self.lying(sizes) | dict(tensors)
        with self._lock:
            for number, kernel in enumerate(self.kernels):
                if isinstance(kernel, Nest) or is_empty(kernel, sizes) or self.mapping is not None or self.fixed[number].values:
                    continue
                unfit = {r.value.symbol for r in kernel.results}
                try:
                    factors = wanted(kernel, tensors, sizes) - self.copied
                    if factors:
                        copied |= factors
                        continue
                    ready = prepare(kernel, tensors, sizes)
                    if self._choices_of(number, ready).fits(ready):
                        continue
                    reason, whole = "no mapping fits its sizes and the registers", unfit.isdisjoint(self.bare)
                except Unsupported as refused:
                    reason, whole = refused.reason, False
                why |= dict.fromkeys(unfit, reason)
                if isinstance(kernel, Stream):
                    apart |= unfit
                elif whole:
                    bare |= unfit
                else:
                    plain |= unfit
            key = plain, apart, copied, bare
            if key == (self.plain, self.apart, self.copied, self.bare):
                return self
            if key not in self._others:
                self._others[key] = Executable(
                    self.program,
                    self.target,
                    exact=self.exact,
                    plain=plain,
                    apart=apart,
                    copied=copied,
                    why=why,
                    bare=bare,
                    tables=self.tables,
                )
        return self._others[key].serving(tensors, sizes)

    # ── binding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def bind(
        self,
        tensors: MappingOf[Symbol, Tensor],
        sizes: MappingOf[Symbol, int],
        device: int,
        scalars: Sequence[Symbol] = (),
        changing: frozenset[Symbol] = frozenset(),
    ) -> Bound:
        """The launches for tensors that lie like these, on a GPU. What is no table, and not among `tensors`, lies between kernels.

        `tensors` are in the order in which their addresses will be given; `scalars` are inputs of rank 0 that are given by value.
        Of the dimensions that are `changing`, of which no shape and no extent depends, nothing is taken for granted: they are
        written anew at each launch.
        """
        cuda = driver()
        context = cuda.context(device)
        tables = self.tables.on(cuda, device)
        lying = self.lying(sizes) | tables | dict(tensors)
        steady = {symbol: size for symbol, size in sizes.items() if symbol not in changing}
        serving, plans = self.built(lying, steady)
        if serving is not self:
            return serving.bind(tensors, sizes, device, scalars, changing)
        taken = [p for plan in plans.values() for p in plan.stages.source.parameters]
        used = {p.tensor for p in taken if isinstance(p, PointerParameter)}
        used |= {p.descriptor.tensor for p in taken if isinstance(p, MapParameter)}
        used |= {view.source for plan in plans.values() for view in views_of(plan.kernel)}
        between = [v for v in self.values if v.symbol not in tensors and v.symbol not in tables and v.symbol in used]
        offsets, room = scratch.plan([self._life(v, sizes, v.symbol in scalars) for v in between])
        inside = {v.symbol: at for v, at in zip(between, offsets, strict=True)}
        given = tuple(tensors)
        places = {symbol: (number, 0) for number, symbol in enumerate(given)}
        places |= {symbol: (len(given), at) for symbol, at in inside.items()}
        places[STATUS] = len(given) + 1, 0
        made = tuple(self._launch(cuda, device, plans[n], lying, sizes, places) for n in sorted(plans))
        launches = Launches(cuda, made, len(given) + 3, context)
        fails = any(isinstance(p, StatusParameter) for plan in plans.values() for p in plan.stages.source.parameters)
        return Bound(given, made, launches, room, {s: inside[s] for s in scalars if s in inside}, fails)

    def _life(self, value: Value, sizes: MappingOf[Symbol, int], by_value: bool) -> tuple[int, int, int]:
        """Bytes, and the first and the last kernel that needs a value. A scalar is there before all of them."""
        size = self._lies(value, sizes).bytes
        users = [n for n, k in enumerate(self.kernels) if value.symbol in self._touched(k)]
        if by_value:
            return SCALAR_BYTES, 0, len(self.kernels)
        return size, min(users, default=0), max(users, default=0)

    def _touched(self, kernel: Any) -> set[Symbol]:
        """The tensors that a kernel may read or write in memory."""
        if isinstance(kernel, Nest):
            return {value.symbol for value in nests.used_by(kernel, self.known)}
        sources = {view.value.symbol: view.source for view in views_of(kernel)}
        return {sources.get(value.symbol, value.symbol) for value in tensors_of(kernel, self.values)}

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
        views = views_of(plan.kernel)
        tensors = with_views(views, tensors, sizes)
        places = dict(places)
        for view in views:
            if view.source not in places:  # a table
                continue
            number, offset = places[view.source]
            offset += tensors[view.value.symbol].pointer - tensors[view.source].pointer
            places[view.value.symbol] = number, offset
        function = self._load(cuda, device, plan.built, source.shared, source.cluster)
        values: list[bytes] = []
        slots: list[Slot] = []
        sized: list[tuple[int, Dim]] = []
        for number, parameter in enumerate(source.parameters):
            match parameter:
                case MapParameter(descriptor=descriptor):
                    tensor = tensors[descriptor.tensor].arranged(descriptor.order)
                    size = tensor.element.bits // 8
                    strides = [s * size for s in tensor.strides[:-1]]
                    values.append(cuda.tensor_map(tensor.pointer, tensor.shape, strides, tensor.element, descriptor.box))
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
        count = plan.blocks
        if source.cluster > 1 and plan.mapping.persistent:
            # A cluster that had to wait for another would start its tiles late.
            count = min(count, cuda.clusters(function, count, plan.threads, source.shared, source.cluster) * source.cluster)
        return Launch(function, count, plan.threads, source.shared, tuple(values), tuple(slots), tuple(sized))

    def _load(self, cuda: Driver, device: int, kernel: Kernel, shared: int, cluster: int) -> int:
        key = device, kernel, shared, cluster  # kernels that differ in what they may take can share a machine code
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = cuda.load(kernel.cubin, kernel.entry, shared, cluster, device)
            return self._loaded[key][0]

    # ── without a library ───────────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], stream: int, device: int = 0) -> None:
        """Launch every kernel in order. `tensors` are all inputs and all that kernels store; `sizes` every dimension."""
        own = {v.symbol: tensors[v.symbol] for v in self.values if v.symbol in tensors}
        key = (device, *own.items(), frozenset(sizes.items()))
        with self._lock:
            found = self._bound.get(key)
            if found is None:
                bound = self.bind(own, sizes, device)
                status = failures.word(driver()).address if bound.fails else 0
                found = bound, [*(t.pointer for t in own.values()), 0, status, 0]
                self._bound[key] = found
                if len(self._bound) > KEPT_LAUNCHES:
                    self._bound.popitem(last=False)
        bound, addresses = found
        bound.launches([*addresses[:-1], stream])


def _shape(value: Value, sizes: MappingOf[Symbol, int]) -> tuple[int, ...]:
    return tuple(max(0, d.evaluate(sizes)) for d in value.shape)
