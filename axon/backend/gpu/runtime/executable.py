"""Programs on a device: planned (`ways`), built (`building`), bound to tensors as they lie (`binding`), and launched.

This module knows addresses, shapes and strides; what library a tensor comes from is its caller's business. A kernel is emitted
source with a mapping; whatever its family, it takes TMA descriptors, addresses, strides and sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from threading import RLock
from typing import TypeVar

from axon.backend.gpu.launching.driver import driver
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime import failures
from axon.backend.gpu.runtime.binding import Binder, BoundProgram
from axon.backend.gpu.runtime.building import BuiltKernel, KernelBuilder, Ready, WantedKernel
from axon.backend.gpu.runtime.device_tables import NONE, DeviceTables
from axon.backend.gpu.runtime.ways import AS_IT_IS, NO_MAPPING, Planned, Way, following, plan
from axon.backend.gpu.tile.families import Kernel
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.schedule_file import NOTHING, Fixed, Schedule
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Program, Value

T = TypeVar("T")
KEPT_LAUNCHES = 256  # of `Executable.__call__`


class Executable:
    """A core program's kernels on one target. What is planned, built and loaded is kept. Safe to use from several threads."""

    def __init__(
        self,
        program: Program,
        target: Target = HOPPER,
        mapping: TileMapping | None = None,
        *,
        exact: bool = False,
        schedule: Schedule = NOTHING,
        way: Way = AS_IT_IS,
        tables: DeviceTables = NONE,
    ) -> None:
        """Raises `Unsupported` for a program that is not straight (see `parts`).

        Of the program's inputs, no call gives those that are `tables`: they lie on the GPU already.
        A given mapping holds for every kernel; a schedule fixes values of some (AX0605 for one that is not there). With
        `exact`, every size gets its best mapping, and variants have no limit. `way` is the first to be tried.
        """
        self.program, self.target, self.exact, self.tables = program, target, exact, tables
        way = replace(way, precision=way.precision | schedule.precision)
        first = plan(program, target, way)
        self.first = KernelBuilder(first, target, mapping, schedule.of(len(first.kernels)), exact=exact)
        self._builders = {way: self.first}
        self._binder = Binder()
        self._lock = RLock()
        self._bound: OrderedDict[tuple[object, ...], tuple[BoundProgram, list[int]]] = OrderedDict()

    # ── planning ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def planned(self) -> Planned:
        """The program in the way that is tried first."""
        return self.first.planned

    @property
    def fixed(self) -> tuple[Fixed, ...]:
        """What a schedule fixes of each kernel's mapping."""
        return self.first.fixed

    @fixed.setter
    def fixed(self, fixed: tuple[Fixed, ...]) -> None:
        self.first.fixed = fixed

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self.planned.kernels

    @property
    def values(self) -> tuple[Value, ...]:
        return self.planned.values

    def serving(self, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> KernelBuilder:
        """The program in the way in which it runs at these sizes, for tensors that lie like these. See Note [Ways]."""
        builder = self.first
        with self._lock:
            while True:
                planned = builder.planned
                way = following(planned, tensors, sizes, builder.left, self.target, builder.given)
                if way == planned.way:
                    return builder
                if way not in self._builders:
                    self._builders[way] = KernelBuilder(plan(self.program, self.target, way), self.target, exact=self.exact)
                builder = self._builders[way]

    # ── building ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def plans(
        self, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int], *, exact: bool = False
    ) -> dict[int, Ready]:
        """The kernels that have something to do, by number, as they are: see `KernelBuilder.plans`. Raises `Unsupported` where one
        does not fit."""
        found = self.first.plans(tensors, sizes, exact=exact)
        if found is None:
            raise Unsupported(NO_MAPPING)
        return found

    def warm(self, sizes: MappingOf[Symbol, int], *, exact: bool = True) -> None:
        """Build all kernels for contiguous tensors, mapped for exactly these sizes or, if not `exact`, as a call does."""
        self.built({}, sizes, exact=exact)

    def built(
        self, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int], *, exact: bool = False
    ) -> tuple[KernelBuilder, dict[int, Ready]]:
        """What runs at these sizes for tensors that lie like these, and its kernels that have something to do, by number."""
        return self._fitting(tensors, sizes, lambda builder, lying: builder.plans(lying, sizes, exact=exact))

    def wanted(self, sizes: MappingOf[Symbol, int], *, exact: bool = False) -> list[WantedKernel]:
        """What is still to be built for contiguous tensors of these sizes: see `KernelBuilder.wanted`."""
        return self._fitting({}, sizes, lambda builder, lying: builder.wanted(lying, sizes, exact=exact))[1]

    def _fitting(
        self,
        tensors: MappingOf[Symbol, DeviceTensor],
        sizes: MappingOf[Symbol, int],
        ask: Callable[[KernelBuilder, MappingOf[Symbol, DeviceTensor]], T | None],
    ) -> tuple[KernelBuilder, T]:
        """What runs at these sizes for tensors that lie like these, and what it answers: another way is taken while a kernel turns
        out not to fit its registers (see Note [Decided before], in `building`)."""
        while True:
            builder = self.serving(tensors, sizes)
            before = builder.refusals
            found = ask(builder, builder.planned.lying(sizes, tensors))
            known = found is not None and builder.refusals == before
            if known or self.serving(tensors, sizes) is builder:
                if found is None:
                    raise Unsupported(NO_MAPPING)
                return builder, found

    def made(self) -> list[BuiltKernel]:
        """The kernels that are built, in every way."""
        with self._lock:
            return [built for builder in self._builders.values() for built in builder.made()]

    @property
    def ways(self) -> int:
        """Of how many kernels, as their tensors lie, calls make variants: as far as is known of what is built."""
        with self._lock:
            return sum(builder.ways for builder in self._builders.values()) or len(self.kernels)

    # ── launching ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def bind(
        self,
        tensors: MappingOf[Symbol, DeviceTensor],
        sizes: MappingOf[Symbol, int],
        device: int,
        scalars: Sequence[Symbol] = (),
        changing: frozenset[Symbol] = frozenset(),
        fresh: Sequence[Symbol] = (),
    ) -> BoundProgram:
        """The launches for tensors that lie like these, on a GPU. What is no table, and not among `tensors`, lies between kernels.

        `tensors` are in the order in which their addresses will be given; `scalars` are inputs of rank 0 that are given by value;
        `fresh` are results whose memory may be used until they are made.
        Of the dimensions that are `changing`, of which no shape and no extent depends, nothing is taken for granted: they are
        written anew at each launch.
        """
        cuda = driver()
        cuda.context(device)
        tables = self.tables.on(cuda, device)
        steady = {symbol: size for symbol, size in sizes.items() if symbol not in changing}
        there = tables | dict(tensors)
        builder, kernels = self.built(there, steady)
        lying = builder.planned.lying(sizes, there)
        order = [kernels[n] for n in sorted(kernels)]
        return self._binder.bind(cuda, device, builder.planned, order, tensors, tables, lying, sizes, scalars, fresh)

    def __call__(
        self, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int], stream: int, device: int = 0
    ) -> None:
        """Launch every kernel in order. `tensors` are all inputs and all that the kernels for these sizes store (see `serving`);
        `sizes` every dimension. Raises ValueError where one that lies between kernels is missing."""
        planned = self.serving(tensors, sizes).planned
        own = {v.symbol: tensors[v.symbol] for v in planned.values if v.symbol in tensors}
        key = (device, *own.items(), frozenset(sizes.items()))
        with self._lock:
            found = self._bound.get(key)
            if found is None:
                bound = self.bind(own, sizes, device)
                if bound.room:
                    missing = [str(v.symbol) for v in planned.values if v.symbol not in own]
                    raise ValueError(f"no memory is given for what lies between kernels: some of {', '.join(missing)}")
                status = failures.word(driver()).address if bound.fails else 0
                found = bound, [*(t.pointer for t in own.values()), 0, status, 0]
                self._bound[key] = found
                if len(self._bound) > KEPT_LAUNCHES:
                    self._bound.popitem(last=False)
        bound, addresses = found
        bound.launches([*addresses[:-1], stream])
