"""A whole program on the CPU through its GPU kernels' barrier programs: what `--target simulate` runs.

What has a barrier program is proved, and then simulated. A plain kernel has none (its threads wait for nothing), and what the host
does between kernels has none either: these the interpreter does, operation by operation, in the order of the parts and kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any, assert_never

import numpy as np

from axon.backend.gpu.build.recipe import stages, traits
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.proof.accumulate import Accumulate, rounded
from axon.backend.gpu.proof.findings import Violation
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.proof.simulate import SimulationError, simulate
from axon.backend.gpu.proof.values import Values
from axon.backend.gpu.runtime.foreseen import lives_of, values_between
from axon.backend.gpu.runtime.merging import decided
from axon.backend.gpu.runtime.prepare import Prepared, is_empty, prepare
from axon.backend.gpu.runtime.ways import NO_MAPPING, Planned, Way, following, plan
from axon.backend.gpu.tile.epilogue import views_of
from axon.backend.gpu.tile.families import results_of
from axon.backend.gpu.tile.schedule import TileMapping, predict
from axon.backend.gpu.tile.schedule_file import FREE, NOTHING, Fixed, Schedule
from axon.backend.plan.ir import Nest
from axon.backend.plan.walk import Lives, Make, Walk
from axon.base.data import dataclass
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Block, Check, Compress, Op, Program, Sort, Value
from axon.core.passes.parts import AS_IT_STANDS, HostLoop, Part, PartsBody, Straight, choices_of, parts, straights
from axon.core.passes.tables import values_of
from axon.interpret.frame import size_of
from axon.interpret.program import _block as interpret
from axon.shapes.dimension import Dim


def run(
    program: Program,
    arrays: Sequence[Any],
    explicit: Sequence[int] = (),
    *,
    seed: int = 0,
    mapping: TileMapping | None = None,
    schedule: Schedule = NOTHING,
    target: Target = HOPPER,
    accumulate: Accumulate = rounded,
) -> list[Any]:
    """The results on NumPy arrays that satisfy the contract, in the interleaving that `seed` picks, products summed as `accumulate`
    has it.

    Results are fresh arrays. Raises AX0605 for a schedule that does not fit, what the interpreter raises where the program must
    stop, and `SimulationError` for a kernel that is not proved or goes wrong.
    """
    sizes = program.contract.bind(explicit, [a.shape for a in arrays])
    held = {v.symbol: np.asarray(a, order="C") for v, a in zip(program.inputs, arrays, strict=True)}
    # With a schedule of mappings, whose kernels are those of one order, in that order (see `steps.Ordered`).
    choices = (
        decided(program, choices_of(program), sizes, target, precision=schedule.precision) if not schedule.maps else AS_IT_STANDS
    )
    split = parts(program, choices)
    body = split.body
    held |= values_of(split.tables)
    straight = [part.program for part in straights(body)]
    schedule.allows(straight, target)
    way = Way(precision=schedule.precision)
    made = [plan(program, target, way) for program in straight]
    fixed = iter(schedule.of(sum(len(planned.kernels) for planned in made)))
    own = IdentityMap((planned.program, (planned, tuple(islice(fixed, len(planned.kernels))))) for planned in made)
    dtypes = values_between(split)
    return _Run(sizes, held, seed, mapping, own, target, accumulate).block(body, [maker(dtypes[symbol]) for symbol in body.results])


@dataclass(slots=True)
class _Run(Walk[Any]):
    """One call, and how kernels are to be made."""

    seed: int
    mapping: TileMapping | None
    planned: IdentityMap[Program, tuple[Planned, tuple[Fixed, ...]]]  # straight programs as they are, and what is fixed
    target: Target
    accumulate: Accumulate

    def lives(self, block: PartsBody) -> Lives:
        return lives_of(block)

    def item(self, item: Part, wanted: dict[Symbol, Make[Any]], dying: frozenset[Symbol]) -> None:
        match item:
            case Straight(program=program):
                self.straight(program)
            case HostLoop(op=op, body=body):
                self.loop(op, body, wanted, dying)
            case Sort() | Compress() | Check():
                self.interpreted(item)
            case _:
                assert_never(item)

    def allocate(self, value: Value, shape: tuple[int, ...]) -> Any:
        return np.empty(shape, value.element.dtype)

    def copied(self, held: Any, make: Make[Any]) -> Any:
        room = make(held.shape)
        room[...] = held
        return room

    def slot(self, stack: Any, step: int) -> tuple[Make[Any], bool]:
        return lambda shape: stack[step, ...], False

    def number(self, symbol: Symbol) -> int:
        return int(self.held[symbol])

    def flag(self, held: Any) -> bool:
        return bool(held)

    def interpreted(self, *ops: Op) -> None:
        with np.errstate(all="ignore"):
            interpret(Block(ops, ()), self.sizes, self.held)

    def straight(self, program: Program) -> None:
        """A program of kernels."""
        planned, fixed = self.decided(program)
        shapes = {v.symbol: tuple(size_of(d, self.sizes, None) for d in v.shape) for v in planned.values}
        lying = planned.lying(self.sizes)
        places: dict[Symbol, Any] = {}  # of what lies in another tensor; the interpreter takes it in rows
        for kernel, own in zip(planned.kernels, fixed, strict=True):
            values = results_of(kernel)
            parts = [v.symbol for v in values if v.symbol in planned.within]
            places |= {symbol: self.place(planned.within[symbol], shapes) for symbol in parts}
            if isinstance(kernel, Nest):
                self.interpreted(*kernel.steps)
                for symbol in parts:
                    places[symbol][...] = self.held[symbol]
                continue
            self.held |= {v.symbol: np.zeros(shapes[v.symbol], v.element.dtype) for v in values}
            if is_empty(kernel, self.sizes):
                continue
            ready = prepare(kernel, lying, self.sizes)
            picked = self.mapping or own.ranked(ready.problem, traits(ready.kernel), self.target)[0]
            made = stages(ready.kernel, picked, self.target, planned.values, ready.granted).barriers
            answer = verify(made)
            if isinstance(answer, Violation):
                raise SimulationError(f"after `lower_roles`: {answer}")
            seen = {view.value.symbol: self.seen(view, places) for view in views_of(ready.kernel)}
            simulate(made, self.held | places | seen, self.sizes, seed=self.seed, accumulate=self.accumulate)
            self.held |= {symbol: np.array(places[symbol], order="C") for symbol in parts}

    def place(self, view: View, shapes: Mapping[Symbol, tuple[int, ...]]) -> Any:
        """Room for a tensor in the one that it is a part of."""
        if view.source not in self.held:
            self.held[view.source] = np.zeros(shapes[view.source], view.value.element.dtype)
        return self.seen(view, {})

    def seen(self, view: View, places: Mapping[Symbol, Any]) -> Any:
        """A view's elements, in the memory of its source, which lies in rows if it has none of these places."""
        source = places.get(view.source)
        if source is None:
            source = self.held[view.source] = np.ascontiguousarray(self.held[view.source])
        if view.im2col:
            return windows(view, source, self.sizes)
        size = source.itemsize
        tensor = DeviceTensor(0, source.shape, tuple(stride // size for stride in source.strides), view.value.element)
        lying = view.of(tensor, self.sizes)
        first = lying.pointer // size  # perhaps in front of the source, of a view that shows nothing there
        from_there = np.lib.stride_tricks.as_strided(source, (abs(first) + 1,), (size if first >= 0 else -size,))[-1:]
        return np.lib.stride_tricks.as_strided(from_there, lying.shape, [stride * size for stride in lying.strides])

    def decided(self, program: Program) -> tuple[Planned, tuple[Fixed, ...]]:
        """A program in the way in which a GPU runs it, for tensors that lie as its allocator would put them, and what is fixed."""
        planned, fixed = self.planned[program]
        given = frozenset(n for n, own in enumerate(fixed) if own.values or self.mapping is not None)
        while (way := following(planned, {}, self.sizes, self.left, self.target, given)) != planned.way:
            planned, given = plan(program, self.target, way), frozenset()
            fixed = (FREE,) * len(planned.kernels)
        return planned, fixed

    def left(self, number: int, ready: Prepared) -> str | float:
        """Nothing is compiled here: every legal mapping fits."""
        order = FREE.ranked(ready.problem, traits(ready.kernel), self.target)
        return predict(order[0], ready.problem, self.target) if order else NO_MAPPING


def windows(view: View, source: Any, sizes: Mapping[Symbol, int]) -> Any:
    """What a view of pixels shows: each element where it is said to be, and zeros outside."""
    extents = (prod(part.extent.evaluate(sizes) for part in parts) for parts in view.parts)
    axes = dict(zip(view.axes, np.indices(tuple(extents), sparse=True), strict=True))
    at = np.broadcast_arrays(*(Values({}, sizes, axes, {}).dim(place) for place in view.places))
    inside = np.logical_and.reduce([(i >= 0) & (i < n) for i, n in zip(at, source.shape, strict=True)])
    for axis, several in zip(view.axes, view.parts, strict=True):
        index = Dim.of(axis)
        for number, part in reversed(tuple(enumerate(several))):
            own, index = (index % part.extent, index // part.extent) if number else (index, index)
            inside = inside if part.there is None else inside & (Values({}, sizes, axes, {}).dim(own - part.there) < 0)
    clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(at, source.shape, strict=True))
    return np.where(inside, source[clipped], 0).astype(source.dtype)


def maker(value: Value) -> Make[Any]:
    """Room for a result."""
    return lambda shape: np.empty(shape, value.element.dtype)
