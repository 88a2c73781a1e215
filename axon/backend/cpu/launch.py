"""What of a launch follows from sizes alone: into how many items it is cut, and its arguments but for the addresses of tensors.

A small kernel takes machine code less time than reading this off the sizes would take Python; so it is kept with the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from axon.backend.cpu.function import BufferParameter, Function, LanesParameter
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.base.data import dataclass
from axon.base.names import Symbol


@dataclass(frozen=True, slots=True)
class Launch:
    """`arguments` has 0 for each of the `pointers`, which are positions and the tensors to which they point, and for each of the
    `buffers`, which are positions and offsets in a thread's own memory, of which all buffers need `scratch` bytes."""

    items: int
    cost: int
    arguments: tuple[int, ...]
    pointers: tuple[tuple[int, Symbol], ...]
    buffers: tuple[tuple[int, int], ...]
    scratch: int


def asked(function: Function) -> tuple[Symbol, ...]:
    """The sizes from which a function's launches follow."""
    found = function.rows.variables | function.cost.variables | function.points.variables
    if function.lane is not None:
        found |= function.lane.variables
    for parameter in function.parameters:
        if isinstance(parameter, ExtentParameter | BufferParameter):
            found |= parameter.size.variables
    return tuple(sorted(found, key=lambda symbol: symbol.id))


def launch_of(function: Function, sizes: Mapping[Symbol, int], threads: int) -> Launch:
    cost = function.cost.evaluate(sizes)
    items, lanes = function.pieces(sizes, threads, cost)
    if items <= 0:  # nothing is launched: sizes of its parameters may be none
        return Launch(0, cost, (), (), (), 0)
    arguments: list[int] = []
    pointers: list[tuple[int, Symbol]] = []
    buffers: list[tuple[int, int]] = []
    total = 0
    for position, parameter in enumerate(function.parameters):
        given = 0
        match parameter:
            case PointerParameter(tensor=tensor):
                pointers.append((position, tensor))
            case BufferParameter(element=element, size=size):
                buffers.append((position, total))
                total += (max(0, size.evaluate(sizes)) * max(1, element.bits // 8) + 63) // 64 * 64
            case ExtentParameter(size=size):
                given = size.evaluate(sizes)
            case LanesParameter():
                given = lanes
            case _:
                assert_never(parameter)
        arguments.append(given)
    return Launch(items, cost, tuple(arguments), tuple(pointers), tuple(buffers), total)
