"""Programs in parts on a device: what is made of a program once, for all of its calls. `stepping` makes the calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from threading import RLock
from typing import Any

from axon.backend.gpu.build.cubin import LinkedKernel, build_all
from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.launching.driver import Driver
from axon.backend.gpu.launching.playing import Player
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.runtime.algorithms import Algorithms
from axon.backend.gpu.runtime.binding import BoundProgram
from axon.backend.gpu.runtime.building import BuiltKernel, WantedKernel
from axon.backend.gpu.runtime.device_tables import DeviceTables
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.failures import Watch
from axon.backend.gpu.runtime.foreseen import lives_of, of_extents, typical, values_between
from axon.backend.gpu.runtime.merging import decided
from axon.backend.gpu.runtime.ways import Way
from axon.backend.gpu.sorting.steps import kernels, sorting
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.schedule_file import NOTHING, Schedule
from axon.backend.plan.walk import Lives
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.errors import AxonError, ShapeError
from axon.base.identity import IdentityMap
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Block, Check, Compress, Compute, Leaf, Param, Program, Read, Sort, Value
from axon.core.passes.parts import (
    AS_IT_STANDS,
    Decided,
    HostLoop,
    Part,
    PartChoices,
    PartsBody,
    Straight,
    choices_of,
    counted,
    parts,
    straights,
)
from axon.shapes.contracts.contract import Contract, ParameterShape
from axon.shapes.dimension import Dim

KEPT = 256  # bindings of one program
KEPT_SCRIPTS = 64


@dataclass(frozen=True, slots=True)
class LaunchNeeds:
    """What each launch of a straight part needs. `steady` are the dimensions that its bindings depend on, `changing` the others."""

    number: int  # among the straight parts
    executable: Executable
    inputs: tuple[Symbol, ...]
    results: tuple[Value, ...]
    steady: tuple[Symbol, ...]
    changing: frozenset[Symbol]


class Ordered:
    """A core program on one target, in each form that is best at sizes which were asked for: with its sums of products in some
    order, with scatters as they stand or of segments. Safe to use from several threads. What of mappings a schedule fixes it fixes
    of one form: there is no other then than that of sums in the order that loses least over all sizes, and of scatters as they
    stand."""

    def __init__(self, program: Program, target: Target = HOPPER, schedule: Schedule = NOTHING) -> None:
        self.program, self.target, self.schedule = program, target, schedule
        self._lock = RLock()
        self._made: dict[Decided, Stepped] = {}
        self._decided: dict[frozenset[tuple[Symbol, int]], Decided] = {}

    @cached_property
    def _choices(self) -> PartChoices | None:
        return (choices_of(self.program) or None) if not self.schedule.maps else None

    def at(self, sizes: Mapping[Symbol, int]) -> Stepped:
        """The program in the form for these sizes. Raises what `Stepped` raises."""
        with self._lock:
            decided = self._decide(sizes)
            if decided not in self._made:
                self._made[decided] = Stepped(self.program, self.target, schedule=self.schedule, decided=decided)
            return self._made[decided]

    def _decide(self, sizes: Mapping[Symbol, int]) -> Decided:
        if self._choices is None:
            return AS_IT_STANDS
        key = frozenset(sizes.items())
        if key not in self._decided:
            if len(self._decided) >= KEPT:
                self._decided.clear()
            self._decided[key] = decided(self.program, self._choices, sizes, self.target, precision=self.schedule.precision)
        return self._decided[key]

    @property
    def made(self) -> tuple[Stepped, ...]:
        """What was made so far."""
        with self._lock:
            return tuple(self._made.values())


class Stepped:
    """A core program on one target in one form: its parts, and the kernels of each. Safe to use from several
    threads.

    A program that is straight, but for checks in front, has one executable, `straight`; its calls need nothing of what is here.
    """

    def __init__(
        self,
        program: Program,
        target: Target = HOPPER,
        mapping: TileMapping | None = None,
        *,
        exact: bool = False,
        schedule: Schedule = NOTHING,
        decided: Decided = AS_IT_STANDS,
    ) -> None:
        """Raises `Unsupported` as `Executable` does, and AX0605 for a kernel of the schedule that is not there."""
        self.program, self.target = program, target
        self.parts = parts(program, decided)
        self.checks = self.parts.checks
        self.algorithms = Algorithms(target)
        self.tables = DeviceTables(self.parts.tables)
        self.values = values_between(self.parts)
        self.counted = counted(self.parts.body)
        self._counts: dict[tuple[Any, ...], int] = {}
        self._lock = RLock()
        self._bound: OrderedDict[tuple[Any, ...], BoundProgram] = OrderedDict()
        self._players: OrderedDict[tuple[Any, ...], Player | str] = OrderedDict()
        self._watches: dict[int, Watch] = {}
        self._lives: IdentityMap[PartsBody, Lives] = IdentityMap()
        self._known: IdentityMap[Straight, LaunchNeeds] = IdentityMap()
        self._foreseen = False
        self._copies: dict[tuple[Element, int], Straight] = {}
        whole = self.parts.straight
        found = list(straights(self.parts.body))
        schedule.allows([part.program for part in found], target)
        self.straight: Executable | None = None
        if whole is not None:
            self.straight = Executable(whole, target, mapping, exact=exact, schedule=schedule, tables=self.tables)
            self.executables = IdentityMap((part, self.straight) for part in found)
            self._know(self.parts.body, frozenset())
            return
        way = Way(precision=schedule.precision)
        make = partial(Executable, target=target, mapping=mapping, exact=exact, way=way, tables=self.tables)
        self.executables = IdentityMap((part, make(part.program)) for part in found)
        fixed = iter(schedule.of(len(self.kernels)))
        for executable in self.executables.values():
            executable.fixed = tuple(next(fixed) for _ in executable.kernels)
        self._know(self.parts.body, frozenset())

    # ── as an executable ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The kernels of all straight parts, in order; those of sorts and compresses have no mapping to choose."""
        return tuple(kernel for executable in dict.fromkeys(self.executables.values()) for kernel in executable.kernels)

    @property
    def fixed(self) -> tuple[Any, ...]:
        return tuple(fixed for executable in dict.fromkeys(self.executables.values()) for fixed in executable.fixed)

    def made(self) -> list[BuiltKernel]:
        """The kernels that are built, counted through all parts."""
        rows, before = list[BuiltKernel](), 0
        for executable in dict.fromkeys(self.executables.values()):
            rows += [replace(built, number=before + built.number) for built in executable.made()]
            before += len(executable.kernels)
        return rows

    @property
    def ways(self) -> int:
        return sum(executable.ways for executable in dict.fromkeys(self.executables.values()))

    def warm(self, sizes: Mapping[Symbol, int], *, exact: bool = True) -> None:
        """Build all kernels for contiguous tensors: mapped for these sizes, or, if it need not be `exact`, those that a call takes.
        Needs no GPU. Raises what a check in front raises.

        Sizes that data decide are taken to be as large as they can be, and loops to be at their middle.
        """
        for op in self.checks:
            self.check(op, sizes)
        build_together([(self, sizes)], exact=exact)
        for part, own in self._typical(sizes):
            if isinstance(part, Straight):
                self.executables[part].warm(own, exact=exact)

    def foreseen(self, sizes: Mapping[Symbol, int]) -> Iterator[tuple[Straight, Executable, dict[Symbol, int]]]:
        """The straight parts with what runs them and all sizes: of those that data or loops decide, what `typical` says."""
        for part, own in typical(self.parts.body, dict(sizes), self.values):
            if isinstance(part, Straight):
                yield part, self.executables[part], own

    def build(self, sizes: Mapping[Symbol, int]) -> None:
        """Before the first call: build the kernels of all parts side by side, as far as they can be foreseen."""
        with self._lock:
            if not self._foreseen:
                self._foreseen = True
                with suppress(ZeroDivisionError):  # a size that has no value stops the program where it is needed
                    build_together([(self, sizes)])

    def wanted(self, sizes: Mapping[Symbol, int], *, exact: bool = False) -> tuple[list[WantedKernel], list[Plain]]:
        """What is still to be built for these sizes, as far as it can be foreseen; and what sorts and compresses are made of."""
        found: list[WantedKernel] = []
        apart: list[Plain] = []
        for part, own in self._typical(sizes):
            match part:
                case Straight():
                    found += self.executables[part].wanted(own, exact=exact)
                case Sort(values=values):
                    shape = tuple(max(1, size.evaluate(own)) for size in values.shape)
                    apart += sorting(values.element, shape, self.target).kernels
                case Compress():
                    apart += kernels(None, 1, self.target)
                case _:
                    pass
        return found, apart

    def _typical(self, sizes: Mapping[Symbol, int]) -> Iterator[tuple[Part, dict[Symbol, int]]]:
        """Every part with sizes at which its kernels are built; without counters that nothing is to depend on."""
        for part, own in typical(self.parts.body, dict(sizes), self.values):
            changing = self._known[part].changing if isinstance(part, Straight) else frozenset()
            yield part, {symbol: size for symbol, size in own.items() if symbol not in changing}

    # ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────────────

    def check(self, op: Check, sizes: Mapping[Symbol, int]) -> None:
        """Raises what the interpreter raises where a relation between dimensions does not hold."""
        from axon.interpret.frame import diagnostic, size_of

        if op.holds(sizes):
            return
        left, right = (size_of(side, sizes, op.span) for side in (op.left, op.right))
        raise ShapeError((diagnostic("AX0501", op.message, f"{left} {op.relation} {right} does not hold", op.span),))

    def holds(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether the checks in front hold."""
        return all(op.holds(sizes) for op in self.checks)

    def watch(self, cuda: Driver, device: int) -> Watch:
        """Where the program's kernels note failures on a GPU."""
        with self._lock:
            if device not in self._watches:
                self._watches[device] = Watch(self.program, cuda, device)
            return self._watches[device]

    @cached_property
    def fails(self) -> bool:
        """Whether a kernel may note a failure."""
        return any(part.fails for part in straights(self.parts.body))

    def count(self, trip: Symbol, sizes: Mapping[Symbol, int]) -> int | None:
        """A trip count that is a tensor, if sizes decide it, and do not stop the program: who reads it says why they do."""
        program = self.counted.get(trip)
        if program is None:
            return None
        given = [sizes[symbol] for symbol in program.explicit]
        key = (trip, *given)
        with self._lock:
            if key not in self._counts:
                from axon.interpret import run

                if len(self._counts) >= KEPT:
                    self._counts.clear()
                try:
                    self._counts[key] = int(run(program, (), given)[0])
                except AxonError:
                    return None
            return self._counts[key]

    def lives(self, body: PartsBody) -> Lives:
        found = self._lives.get(body)
        if found is None:
            found = self._lives[body] = lives_of(body)
        return found

    def _know(self, body: PartsBody, counters: frozenset[Symbol]) -> None:
        """Note what is known of the straight parts inside loops with these counters."""
        for part in body.parts:
            if isinstance(part, HostLoop):
                self._know(part.body, counters | {part.op.counter})
            elif isinstance(part, Straight):
                self._known[part] = self._known_of(part, counters)

    def _known_of(self, part: Straight, counters: frozenset[Symbol]) -> LaunchNeeds:
        executable, explicit = self.executables[part], part.program.explicit
        changing = counters.intersection(explicit) - of_extents(part.program)
        inputs = tuple(value.symbol for value in executable.program.inputs if value.symbol not in self.tables.values)
        return LaunchNeeds(
            len(self._known), executable, inputs, part.results, tuple(s for s in explicit if s not in changing), changing
        )

    def known(self, part: Straight) -> LaunchNeeds:
        return self._known[part]

    def bind(self, part: Straight, given: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int], device: int) -> BoundProgram:
        """The launches of a straight part for tensors that lie like these; kept. See Note [Steps of a loop] in `stepping`."""
        known = self._known[part]
        lies = [(t.pointer & 15, t.strides) for t in given.values()]  # their shapes follow from the sizes
        key = (known.number, device, *lies, *[sizes[s] for s in known.steady])
        with self._lock:
            found = self._bound.get(key)
            if found is None:
                own = dict(sizes) if self.straight else {symbol: sizes[symbol] for symbol in part.program.explicit}
                found = self._bound[key] = known.executable.bind(given, own, device, (), known.changing)
                if len(self._bound) > KEPT:
                    self._bound.popitem(last=False)
            return found

    def player(self, key: tuple[Any, ...], make: Callable[[], Player | str]) -> Player | str:
        """What plays calls of some kind, or why none does; kept."""
        with self._lock:
            found = self._players.get(key)
            if found is None:
                found = self._players[key] = make()
                if len(self._players) > KEPT_SCRIPTS:
                    self._players.popitem(last=False)
            return found

    def copying(self, element: Element, rank: int) -> Straight:
        """A straight part that copies a tensor, however it lies."""
        with self._lock:
            if (element, rank) not in self._copies:
                made = self._copies[element, rank] = _copy(element, rank)
                self.executables[made] = Executable(made.program, self.target)
                self._known[made] = self._known_of(made, frozenset())
            return self._copies[element, rank]


def build_together(programs: Sequence[tuple[Stepped, Mapping[Symbol, int]]], *, exact: bool = False) -> None:
    """Build the kernels of programs for one chip at these sizes side by side: all of them take as long as the slowest one where
    there are cores enough. What does not fit its registers is decided again, until all fit or nothing is left."""
    refused = True
    while refused:
        asked = [(stepped, *stepped.wanted(sizes, exact=exact)) for stepped, sizes in programs]
        wanted = [one for _, found, _ in asked for one in found]
        apart = [kernel for _, _, plain in asked for kernel in plain]
        built = build_all([*(one.forms for one in wanted), *apart], programs[0][0].target)
        for one, kernel in zip(wanted, built, strict=False):
            one.builder.keep(one, kernel)
        for stepped, _, plain in asked:
            stepped.algorithms.foreseen.update(kernel.source.text for kernel in plain)
        refused = not all(isinstance(kernel, LinkedKernel) for kernel in built)


def _copy(element: Element, rank: int) -> Straight:
    extents = [fresh("n") for _ in range(rank)]
    shape = tuple(map(Dim.of, extents))
    source, out = Value(fresh("source"), element, shape), Value(fresh("copy"), element, shape)
    axes = tuple(Axis(fresh("i"), extent) for extent in shape)
    body = Read(source.symbol, tuple(Dim.of(a.symbol) for a in axes), element)
    block = Block((Compute((out,), axes, None, (body,)),), (out.symbol,))
    contract = Contract(tuple(extents), (ParameterShape("source", shape),))
    return Straight(Program("copy", tuple(extents), (Param("source", Leaf(0)),), (source,), contract, block, Leaf(0)))
