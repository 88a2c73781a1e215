"""A program's launches at given sizes as data, made without a GPU: what a library needs to make them wherever it runs.

It is what `binding` does for a call, with a driver that notes what it is asked instead of doing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from axon.backend.gpu.launching.driver import Driver
from axon.backend.gpu.layout.memory import Im2col, contiguous
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.binding import Binder, BoundProgram
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.steps import Ordered, Stepped
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.core.walk import results_of


@dataclass(frozen=True, slots=True)
class TiledMap:
    """What a TMA descriptor of boxes is encoded from, outermost first; strides in bytes, of all but the last dimension. Its copies
    may round f32 to tf32."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: Element
    box: tuple[int, ...]
    rounds: bool = False


@dataclass(frozen=True, slots=True)
class PixelMap:
    """The same of copies of so many pixels, and so many channels of each."""

    images: Im2col
    element: Element
    pixels: int
    channels: int
    rounds: bool = False


@dataclass(frozen=True, slots=True)
class Address:
    """One of a call's addresses, and what is added to it: as an argument, or in a TMA descriptor."""

    number: int
    offset: int
    map: TiledMap | PixelMap | None = None


ShippedArgument: TypeAlias = "bytes | Address"


@dataclass(frozen=True, slots=True)
class ShippedCode:
    """Machine code with one entry. `persistent`: of its clusters no more are launched than run at once."""

    cubin: bytes
    entry: str
    shared: int
    cluster: int
    persistent: bool


@dataclass(frozen=True, slots=True)
class ShippedLaunch:
    code: ShippedCode
    blocks: int
    threads: int
    arguments: tuple[ShippedArgument, ...]


@dataclass(frozen=True, slots=True)
class ShippedProgram:
    """All launches at some sizes, in order. The addresses of a call are those of the tensors among its inputs, of its results, of
    `room` bytes between the kernels, and of an i32 in which a kernel that `fails` writes 1. `scalars` has for inputs of rank 0
    where in the room they are written beforehand. Tensors lie in rows, and begin at multiples of 16 bytes."""

    sizes: Mapping[Symbol, int]
    launches: tuple[ShippedLaunch, ...]
    room: int
    scalars: Mapping[Symbol, int]
    fails: bool


def shipped(ordered: Ordered, sizes: Mapping[Symbol, int]) -> ShippedProgram:
    """Raises `Unsupported` for a program that is not launched from beginning to end without the host."""
    program = ordered.program
    inputs, results = program.inputs, results_of(program)
    accepted(program)
    executable = straight_of(ordered.at(sizes))
    given = {
        value.symbol: contiguous(ALIGNMENT, tuple(max(0, d.evaluate(sizes)) for d in value.shape), value.element)
        for value in (*(v for v in inputs if v.shape), *results)
    }
    scalars = [v.symbol for v in inputs if not v.shape]
    builder, kernels = executable.built(given, sizes, exact=True)
    lying = builder.planned.lying(sizes, given)
    noting = _Noting()
    order = [kernels[n] for n in sorted(kernels)]
    bound = Binder().bind(cast(Driver, noting), 0, builder.planned, order, given, {}, lying, sizes, scalars)
    return ShippedProgram(sizes, tuple(noting.launches(bound)), bound.room, bound.scalars, bound.fails)


def straight_of(stepped: Stepped) -> Executable:
    """The one part that a program is. Raises `Unsupported` for others."""
    executable = stepped.straight
    if executable is None or stepped.checks:
        raise Unsupported("the host decides something between its kernels (a loop, a sort, a size or a check of data)")
    if stepped.parts.tables:
        raise Unsupported("it has a table of numbers")
    return executable


def accepted(program: Program) -> None:
    """Raises `Unsupported` for results that are no tensors of their own."""
    results = results_of(program)
    if any(not value.shape for value in results):
        raise Unsupported("a result is a number, which would lie on the GPU: make it a tensor of one, `for _ < 1 => …`")
    symbols = [value.symbol for value in results]
    if len({*symbols}) < len(symbols) or not {*symbols}.isdisjoint(v.symbol for v in program.inputs):
        raise Unsupported("a result is an argument, or another result")


class _Noting:
    """A driver that notes what is bound: codes by the number that it gives for a function, descriptors by that in their bytes."""

    def __init__(self) -> None:
        self.codes: list[ShippedCode] = []
        self.maps: list[TiledMap | PixelMap] = []
        self.persistent: set[int] = set()

    def context(self, device: int) -> int:
        return 0

    def load(self, cubin: bytes, entry: str, shared: int, cluster: int, device: int) -> tuple[int, None]:
        self.codes.append(ShippedCode(cubin, entry, shared, cluster, False))
        return len(self.codes) - 1, None

    def clusters(self, function: int, blocks: int, threads: int, shared: int, cluster: int) -> int:
        self.persistent.add(function)
        return blocks

    def tensor_map(
        self,
        pointer: int,
        shape: Sequence[int],
        strides: Sequence[int],
        element: Element,
        box: Sequence[int],
        rounds: bool = False,
    ) -> bytes:
        return self._map(TiledMap(tuple(shape), tuple(strides), element, tuple(box), rounds))

    def pixel_map(self, pointer: int, images: Im2col, element: Element, pixels: int, channels: int, rounds: bool = False) -> bytes:
        return self._map(PixelMap(images, element, pixels, channels, rounds))

    def _map(self, found: TiledMap | PixelMap) -> bytes:
        self.maps.append(found)
        return (len(self.maps) - 1).to_bytes(128, "little")

    def launches(self, bound: BoundProgram) -> Any:
        for launch in bound.kernels:
            code = self.codes[launch.function]
            if launch.function in self.persistent:
                code = ShippedCode(code.cubin, code.entry, code.shared, code.cluster, True)
            arguments: list[ShippedArgument] = list(launch.arguments)
            for slot in launch.slots:
                own = self.maps[int.from_bytes(launch.arguments[slot.argument], "little")] if slot.descriptor else None
                arguments[slot.argument] = Address(slot.address, slot.offset, own)
            yield ShippedLaunch(code, launch.blocks, launch.threads, tuple(arguments))
