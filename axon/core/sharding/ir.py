"""Sharded programs: what each device of a mesh runs, and where devices exchange what they have.

One program for all devices (SPMD). A value is one tensor of the unsharded program in one layout; each device holds its block of it.
A size that is split over an axis of the mesh, `b` over `data` of 2, is `2 * b` of a new `b`, the local size: so what is local is
written in local sizes, and no division remains. Where a device stands on an axis is a size too, its coordinate: the index `i` of a
split axis is `data * b + i` of a local `i`.

An extent that is no multiple of the axis's devices, `n - 2` where `n` is split, is cut into equal blocks that hold it, here those
of `n`; what lies behind the end in the last ones is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from axon.base.data import dataclass, field
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Program, Value
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

REDUCED = ("sum", "prod", "max", "min", "any", "all")  # what all_reduce and reduce_scatter combine
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "halo", "shift", "slice")


@dataclass(frozen=True, slots=True)
class Mesh:
    """Devices in a grid. A device's number is its coordinates read with the last axis fastest."""

    axes: tuple[tuple[str, int], ...]

    @property
    def devices(self) -> int:
        return prod(size for _, size in self.axes)

    def size(self, axis: str) -> int:
        return dict(self.axes)[axis]

    def coordinates(self) -> Iterator[dict[str, int]]:
        """Of each device, in the order of their numbers."""
        for place in product(*(range(size) for _, size in self.axes)):
            yield dict(zip((name for name, _ in self.axes), place, strict=True))

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes)


@dataclass(frozen=True, slots=True)
class Split:
    """A dimension cut into blocks along an axis of the mesh, each with so many elements of the blocks before and after it. Where it
    is `around`, the last block is before the first."""

    axis: str
    left: Dim = Dim.of(0)
    right: Dim = Dim.of(0)
    around: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies on the mesh: for each dimension, over which axis it is split; and over which axes it is `partial`, that is,
    devices hold values that a monoid has yet to combine. Along every other axis all devices hold the same."""

    splits: tuple[Split | None, ...]
    partial: tuple[tuple[str, str], ...] = ()  # (axis, monoid), in the mesh's order

    def dimension(self, axis: str) -> int | None:
        """Which dimension an axis splits."""
        return next((d for d, split in enumerate(self.splits) if split is not None and split.axis == axis), None)

    def monoid(self, axis: str) -> str | None:
        """What is yet to be combined along an axis."""
        return dict(self.partial).get(axis)

    @property
    def plain(self) -> bool:
        """Whether it says where elements are, and nothing else: neither partial nor with elements of other blocks."""
        return not self.partial and all(s is None or s == Split(s.axis) for s in self.splits)


@dataclass(frozen=True, slots=True)
class Placed:
    """A parameter or a result: as the unsharded program has it, in which layout, and as a device has it."""

    whole: Value
    layout: Layout
    local: Value


@dataclass(frozen=True, slots=True)
class Part:
    """A place in a value that several programs make: the elements from `begin` on, along a dimension. With `first` the value's
    memory is new; it is there when all its parts are."""

    of: Value
    dimension: int
    begin: Dim
    first: bool


@dataclass(frozen=True, slots=True)
class Local:
    """Each device runs a core program on what it holds.

    The program's inputs and results are values of the sharded program, by their symbols. Its explicit dimensions are sizes and
    coordinates, which the device has in its environment. `defines` are sizes that data decide (Compress), each the extent of
    dimension 0 of a result: those are added to the environment. All devices find the same. With `part` the program has one result,
    which is no value of its own, but a part of another. With `beside`, what a collective needs of a device is left to it meanwhile.
    """

    program: Program
    defines: tuple[tuple[Symbol, Symbol], ...] = ()  # (size, the result whose first extent it is)
    part: Part | None = None
    beside: bool = False

    @property
    def reads(self) -> tuple[Symbol, ...]:
        return tuple(value.symbol for value in self.program.inputs)

    @property
    def results(self) -> tuple[Symbol, ...]:
        return self.program.block.results


@dataclass(frozen=True, slots=True)
class Collective:
    """The devices of a line along `axis` of the mesh exchange what they have of a value, or each takes its part (`slice`).

    With p devices, blocks of size n of a `dimension` whose whole `extent` is at most p * n, and c this device's coordinate:

        all_reduce      combine the devices' values by `monoid`, which all get
        reduce_scatter  the same, of which each gets block c of `dimension`
        all_gather      the devices' blocks one after the other along `dimension`, of that the first `extent`
        all_to_all      all_gather along `dimension`, of which each gets block c of dimension `target` (`target_extent` in all)
        halo            block c with the `left` elements before it and the `right` ones behind it; zeros outside of `extent`, or,
                        `around` the ends of blocks that make all of it, the elements at the other end
        shift           what the device at c + `left` has, around the ends of the line; of 0 its own, without communication
        slice           block c of `dimension` of a value that all have; no communication

    Where block c reaches beyond the extent, what is there does not matter; it is filled with zeros.
    """

    kind: str
    axis: str
    source: Symbol
    result: Value  # as a device has it
    dimension: int | None = None
    extent: Dim = Dim.of(0)  # of the dimension, as a line of devices has it together, in local sizes
    target: int | None = None
    target_extent: Dim = Dim.of(0)
    monoid: str | None = None
    left: Dim = Dim.of(0)
    right: Dim = Dim.of(0)
    around: bool = False
    piece: tuple[int, int] | None = None  # which of how many that together are one, of a value that is cut
    reason: str = field(default="", compare=False)
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A Loop of core whose body exchanges something: its steps in place of operations."""

    outs: tuple[Value, ...]
    initial: tuple[Symbol, ...]
    states: tuple[Value, ...]
    counter: Symbol  # a size in the environment while the body runs, and an i32 value of rank 0
    trip: Dim | Symbol  # of sizes, or a value of rank 0 that all devices have
    steps: tuple[Step, ...]
    results: tuple[Symbol, ...]
    stacked: bool
    conditional: bool = False
    span: Span | None = field(default=None, compare=False)


Step: TypeAlias = "Local | Collective | Repeat"


@dataclass(frozen=True, slots=True)
class Sharded:
    """A program on a mesh.

    `source` is the unsharded program, whose contract a call must satisfy with the whole sizes. `sizes` are those that are split:
    the size, the axis, and the local size. `coordinates` are the sizes that say where a device stands, one for each axis.
    `requires` are relations between local sizes without which other steps are needed (borders that reach no further than the
    neighbours, say).
    """

    source: Program
    mesh: Mesh
    sizes: tuple[tuple[Symbol, str, Symbol], ...]
    coordinates: tuple[tuple[str, Symbol], ...]
    inputs: tuple[Placed, ...]
    steps: tuple[Step, ...]
    results: tuple[Placed, ...]
    requires: tuple[Relation, ...] = ()

    def environment(self, dims: Mapping[Symbol, int], place: Mapping[str, int]) -> dict[Symbol, int]:
        """The sizes with which the device at a place runs, of those of the whole call. The split ones must be multiples."""
        found = dict(dims)
        for whole, axis, local in self.sizes:
            assert dims[whole] % self.mesh.size(axis) == 0, "sizes that do not divide are refused before"
            found[local] = dims[whole] // self.mesh.size(axis)
        return found | {symbol: place[axis] for axis, symbol in self.coordinates}

    def serves(self, dims: Mapping[Symbol, int]) -> bool:
        """Whether the steps are those of calls with these whole sizes."""
        if any(dims[whole] % self.mesh.size(axis) for whole, axis, _ in self.sizes):
            return False
        sizes = self.environment(dims, {axis: 0 for axis, _ in self.mesh.axes})
        return all(relation.holds(sizes) for relation in self.requires)


def made_by(step: Step) -> Sequence[Symbol]:
    """The values that a step makes; of a loop those that are there after it."""
    match step:
        case Local():
            return step.results if step.part is None else (step.part.of.symbol,)
        case Collective():
            return (step.result.symbol,)
        case Repeat():
            return [value.symbol for value in step.outs]


def read_by(step: Step) -> Sequence[Symbol]:
    """The values that a step reads; of a loop also those that it makes itself."""
    match step:
        case Local():
            return step.reads
        case Collective():
            return (step.source,)
        case Repeat():
            trip = [step.trip] if isinstance(step.trip, Symbol) else []
            inner = [symbol for each in step.steps for symbol in read_by(each)]
            return [*trip, *step.initial, *step.results, *inner]


def collectives(steps: Sequence[Step], *, slices: bool = False) -> Iterator[Collective]:
    """What is exchanged, in order; of a loop once, and of what is in pieces the first."""
    for step in steps:
        match step:
            case Collective() if (slices or step.kind != "slice") and (step.piece is None or not step.piece[0]):
                yield step
            case Repeat(steps=inner):
                yield from collectives(inner, slices=slices)
            case _:
                pass
