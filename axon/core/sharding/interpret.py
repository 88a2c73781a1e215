"""All devices of a mesh in one process: what a sharded program means.

Devices go through the steps together; a collective takes what each has of a value and says what each gets. What is combined is
combined in the order of the devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Value
from axon.core.sharding.ir import Collective, Layout, Local, Mesh, Part, Repeat, Sharded, Step
from axon.interpret import run as run_core
from axon.shapes.dimension import Dim

Array = Any
Runner = Callable[..., Sequence[Array]]  # takes a program, its inputs and its explicit dimensions, as `axon.interpret.run` does

_COMBINE: Mapping[str, Callable[[Array, Array], Array]] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip


def run(sharded: Sharded, inputs: Sequence[Array], explicit: Sequence[int] = (), runner: Runner = run_core) -> list[Array]:
    """The whole results of a call, of whole inputs. Raises what a call of the unsharded program raises, and ValueError for sizes
    that the steps do not serve."""
    dims = sharded.source.contract.bind(explicit, [array.shape for array in inputs])
    if not sharded.serves(dims):
        raise ValueError(f"{sharded.source.name} was put on the mesh for other sizes")
    devices = [_Device(sharded.environment(dims, place), place) for place in sharded.mesh.coordinates()]
    for one, array in zip(sharded.inputs, inputs, strict=True):
        for device in devices:
            device.values[one.local.symbol] = block(array, one.layout, sharded.mesh, device.place)
    with np.errstate(all="ignore"):
        _Run(sharded.mesh, devices, runner).steps(sharded.steps)
    return [joined([d.values[one.local.symbol] for d in devices], one.layout, sharded.mesh) for one in sharded.results]


def block(array: Array, layout: Layout, mesh: Mesh, place: Mapping[str, int]) -> Array:
    """What the device at a place holds of a tensor."""
    index = []
    for extent, split in zip(array.shape, layout.splits, strict=True):
        size = extent if split is None else extent // mesh.size(split.axis)
        begin = 0 if split is None else place[split.axis] * size
        index.append(slice(begin, begin + size))
    return np.array(array[tuple(index)], order="C")


def joined(blocks: Sequence[Array], layout: Layout, mesh: Mesh) -> Array:
    """The tensor of which devices hold blocks."""
    sizes = [n if s is None else n * mesh.size(s.axis) for n, s in zip(blocks[0].shape, layout.splits, strict=True)]
    out = np.empty(sizes, blocks[0].dtype)
    for held, place in zip(blocks, mesh.coordinates(), strict=True):
        index = [
            slice(None) if s is None else slice(place[s.axis] * n, (place[s.axis] + 1) * n)
            for n, s in zip(held.shape, layout.splits, strict=True)
        ]
        out[tuple(index)] = held
    return out


class _Device:
    def __init__(self, sizes: dict[Symbol, int], place: dict[str, int]) -> None:
        self.sizes, self.place = sizes, place
        self.values: dict[Symbol, Array] = {}


class _Run:
    def __init__(self, mesh: Mesh, devices: Sequence[_Device], runner: Runner) -> None:
        self.mesh, self.devices, self.runner = mesh, devices, runner

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Local():
                    for device in self.devices:
                        self._local(step, device)
                case Collective():
                    for line in self._lines(step.axis):
                        given = [device.values[step.source] for device in line]
                        for device, made in zip(line, exchange(step, given, line[0].sizes), strict=True):
                            device.values[step.result.symbol] = made
                case Repeat():
                    self._repeat(step)

    def _local(self, step: Local, device: _Device) -> None:
        explicit = [device.sizes[s] for s in step.program.explicit]
        made = self.runner(step.program, [device.values[s] for s in step.reads], explicit)
        if step.part is not None:
            self._part(step.part, made[0], device)
            return
        device.values.update(zip(step.results, made, strict=True))
        for size, result in step.defines:
            device.sizes[size] = len(device.values[result])

    def _part(self, part: Part, made: Array, device: _Device) -> None:
        if part.first:
            device.values[part.of.symbol] = np.empty([d.evaluate(device.sizes) for d in part.of.shape], part.of.element.dtype)
        begin = part.begin.evaluate(device.sizes)
        index = [slice(None)] * made.ndim
        index[part.dimension] = slice(begin, begin + made.shape[part.dimension])
        device.values[part.of.symbol][tuple(index)] = made

    def _lines(self, axis: str) -> list[list[_Device]]:
        """The devices that differ in their coordinate on an axis alone, in its order."""
        lines: dict[tuple[tuple[str, int], ...], list[_Device]] = {}
        for device in self.devices:
            others = tuple((name, at) for name, at in device.place.items() if name != axis)
            lines.setdefault(others, []).append(device)
        return list(lines.values())

    def _repeat(self, step: Repeat) -> None:
        first = self.devices[0]
        trip = step.trip.evaluate(first.sizes) if isinstance(step.trip, Dim) else int(first.values[step.trip])
        trip = max(0, trip)
        states = [[d.values[s] for s in step.initial] for d in self.devices]
        stacks: list[list[list[Array]]] = [[[] for _ in step.outs] for _ in self.devices]
        for i in range(trip):
            if step.conditional and not states[0][-1]:
                break
            for device, own in zip(self.devices, states, strict=True):
                device.sizes[step.counter] = i
                device.values[step.counter] = np.array(i, Element.I32.dtype)
                device.values.update(zip((v.symbol for v in step.states), own, strict=True))
            self.steps(step.steps)
            states = [[d.values[s] for s in step.results] for d in self.devices]
            for kept, own in zip(stacks, states, strict=True):
                for stack, state in zip(kept, own, strict=True):
                    stack.append(state)
        for device, kept, own in zip(self.devices, stacks, states, strict=True):
            for out, stack, state in zip(step.outs, kept, own, strict=True):
                device.values[out.symbol] = _stacked(out, stack, state, trip) if step.stacked else state


def _stacked(out: Value, stack: Sequence[Array], state: Array, trip: int) -> Array:
    made = np.empty((trip, *state.shape), out.element.dtype)
    for i, one in enumerate(stack):
        made[i] = one
    return made


def exchange(step: Collective, given: Sequence[Array], sizes: Mapping[Symbol, int]) -> list[Array]:
    """What each device of a line gets of a collective, of what each has."""
    p, d = len(given), step.dimension
    if step.monoid is not None:
        wide = step.result.element.accumulator.dtype  # narrow floats are combined in f32, and rounded once
        total = reduce(_COMBINE[step.monoid], [one.astype(wide) for one in given]).astype(given[0].dtype)
        if step.kind == "all_reduce":
            return [total.copy() for _ in given]
        given = [total] * p
    if step.kind == "shift":
        distance = step.left.evaluate(sizes)
        return [given[(c + distance) % p].copy() for c in range(p)]
    assert d is not None
    extent = step.extent.evaluate(sizes)
    match step.kind:
        case "all_gather":
            whole = _first(np.concatenate(given, d), d, extent)
            return [whole.copy() for _ in given]
        case "reduce_scatter" | "slice":
            size = step.result.shape[d].evaluate(sizes)
            return [_block(one, d, c, size) for c, one in enumerate(given)]
        case "all_to_all":
            assert step.target is not None
            whole = _first(np.concatenate(given, d), d, extent)
            size = step.result.shape[step.target].evaluate(sizes)
            return [_block(whole, step.target, c, size) for c in range(p)]
        case _:
            size, left, right = given[0].shape[d], step.left.evaluate(sizes), step.right.evaluate(sizes)
            whole = _first(np.concatenate(given, d), d, extent)
            widths = [(0, 0)] * whole.ndim
            widths[d] = (left, p * size - extent + right)
            padded = np.pad(whole, widths, mode="wrap" if step.around else "constant")
            return [_taken(padded, d, c * size, size + left + right) for c in range(p)]


def _first(array: Array, d: int, extent: int) -> Array:
    return _taken(array, d, 0, extent)


def _taken(array: Array, d: int, begin: int, size: int) -> Array:
    index = [slice(None)] * array.ndim
    index[d] = slice(begin, begin + size)
    return np.array(array[tuple(index)], order="C")


def _block(array: Array, d: int, c: int, size: int) -> Array:
    """Block c of a size, with zeros behind the end."""
    made = _taken(array, d, min(c * size, array.shape[d]), size)
    widths = [(0, 0)] * array.ndim
    widths[d] = (0, size - made.shape[d])
    return np.pad(made, widths)
