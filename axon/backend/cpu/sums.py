"""Nests of sums of products, of whole tensors, by loops that suit their sizes: see `tiles.sums`.

    Sums    a nest -> how it is computed at the sizes of a call: a `Summing`; None where it is left as it is

A nest's function has one order of loops for all sizes. That is a good one where what it reads and writes lies along one index, which
is long; where tensors lie along several, or indices are short, another one is up to twenty times as fast, and which one follows
from the sizes. So a nest whose steps are sums of products of tensors that are read at their indices, or such products, is arranged
at the sizes of a call, one step after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from axon.backend.cpu import blas, build, threads
from axon.backend.cpu.arena import Scratch
from axon.backend.cpu.launch import address
from axon.backend.plan.ir import Nest
from axon.backend.plan.settled import decided
from axon.backend.tiles import gemm, sums
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Compute, Const, Read, Scalar, Select, Value
from axon.core.scalar_facts import operands
from axon.core.walk import all_axes, dimensions_of
from axon.shapes.dimension import Dim

Array = Any
Sizes = Mapping[Symbol, int]
LEAST = 1 << 15  # points of a nest that is worth it
MOST = 64  # sizes of a nest for which it is kept; then they are forgotten, and asked again
GATHERS = 8  # additions in whose time an element is read that does not lie beside the one before
_scratch = Scratch()


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a nest: which tensors it reads, from which element on, and its own."""

    reads: tuple[tuple[Symbol, int], ...]
    out: Symbol
    shape: tuple[int, ...]
    element: Element
    copies: tuple[gemm.Laid | None, ...]
    native: build.Native
    table: Array
    arranged: sums.Arranged
    cost: int

    def run(self, tensors: Mapping[Symbol, Array], result: Array) -> None:
        dtype = self.element.dtype
        places: list[int] = []
        held: list[Array] = []
        for number, ((symbol, start), copy) in enumerate(zip(self.reads, self.copies, strict=True)):
            place = address(tensors[symbol]) + start * dtype.itemsize
            if copy is not None:
                held.append(_scratch.array(f"factor {number}", (copy.count,), dtype))
                blas.lay(copy, self.element, place, address(held[-1]))
                place = address(held[-1])
            places.append(place)
        found = self.arranged
        made = result if found.chunks == 1 else _scratch.array("chunks", (found.chunks, result.size), dtype)
        table = address(self.table)

        def given(thread: int) -> list[int]:
            acc = _scratch.array(f"accumulators {thread}", (found.accumulators,), dtype)
            wide = _scratch.array(f"sums {thread}", (found.accumulators,), np.dtype(np.float64))
            return [*places, address(made), address(acc), address(wide), table]

        threads.share_kernel(self.native, given, found.items, self.cost)
        if made is not result:
            result[...] = np.add.reduce(made, axis=0, dtype=np.float64).reshape(result.shape)


@dataclass(frozen=True, slots=True)
class Summing:
    """A nest at the sizes of a call. `between` are tensors that only it sees."""

    reads: tuple[Symbol, ...]
    stored: tuple[Symbol, ...]
    steps: tuple[_Step, ...]

    def run(self, tensors: Sequence[Array], results: Sequence[Array]) -> None:
        """Of tensors that lie in one piece, in the order of `reads`, into such results, in that of `stored`."""
        held = dict(zip(self.reads, tensors, strict=True)) | dict(zip(self.stored, results, strict=True))
        for number, step in enumerate(self.steps):
            if step.out not in held:
                held[step.out] = _scratch.array(f"step {number}", step.shape, step.element.dtype)
            step.run(held, held[step.out])


class Sums:
    """A nest at the sizes of calls. Several threads may share it."""

    def __init__(self, nest: Nest, values: Mapping[Symbol, Value]) -> None:
        self._nest = nest if nest.rows and all(isinstance(step, Compute) and _fits(step) for step in nest.steps) else None
        self._found: dict[tuple[int, ...], Summing | None] = {}
        if self._nest is not None:
            self._values = dict(values) | {out.symbol: out for step in nest.steps for out in step.outs}
            shapes = (d.variables for step in nest.steps for s in _tensors(step) for d in self._values[s].shape)
            asked = frozenset[Symbol]().union(*(dimensions_of(step) for step in nest.steps), *shapes)
            self._asked = tuple(sorted(asked, key=lambda s: s.id))

    def at(self, dims: Sizes) -> Summing | None:
        if self._nest is None:
            return None
        key = tuple([dims[s] for s in self._asked])
        if key not in self._found:
            if len(self._found) >= MOST:
                self._found.clear()
            self._found[key] = _summing(self._nest, self._values, dict(zip(self._asked, key, strict=True)))
        return self._found[key]


def _tensors(step: object) -> list[Symbol]:
    assert isinstance(step, Compute)
    return [*(read.tensor for read in _factors(step.body[0])), *(out.symbol for out in step.outs)]


def _fits(step: Compute) -> bool:
    """Whether a step is a product of tensors that are read at indices, each at one of its own, or the sum of one."""
    reduction, element = step.reduction, step.outs[0].element
    if len(step.outs) != 1 or element not in (Element.F32, Element.F64) or not step.axes:
        return False
    if reduction is not None and (reduction.monoid.kind != "sum" or reduction.asked is not None):
        return False
    own = frozenset(axis.symbol for axis in all_axes(step))
    if any(not axis.extent.variables.isdisjoint(own) for axis in all_axes(step)):
        return False
    found = _factors(step.body[0])
    return bool(found) and all(read.element is element and _is_plain(read, own) for read in found)


def _factors(scalar: Scalar) -> list[Read]:
    """The factors of a product of tensors, which may be chosen where sizes say so; none of what is none."""
    if isinstance(scalar, Select) and isinstance(scalar.otherwise, Const) and scalar.otherwise.value == 0:
        scalar = scalar.then
    found = list(operands("mul", scalar))
    return [part for part in found if isinstance(part, Read)] if all(isinstance(part, Read) for part in found) else []


def _is_plain(read: Read, own: frozenset[Symbol]) -> bool:
    if read.padding is not None or read.checked is not None:
        return False
    for subscript in read.subscripts:
        if not isinstance(subscript, Dim) or len(subscript.variables & own) > 1:
            return False
        for axis in subscript.variables & own:
            split = subscript.linear_in(axis)
            if split is None or split[0].constant is None or split[0].constant < 1 or axis in split[1].variables:
                return False
    return True


def _summing(nest: Nest, values: Mapping[Symbol, Value], sizes: Sizes) -> Summing | None:
    steps: list[_Step] = []
    worth = False
    for step in nest.steps:
        assert isinstance(step, Compute)
        holds: list[Scalar | None] = [step.reduction.where if step.reduction is not None else None]
        holds.append(step.body[0].condition if isinstance(step.body[0], Select) else None)
        if any(condition is not None and decided(condition, sizes) is not True for condition in holds):
            return None
        found = _sum_of(step, values, sizes)
        if found is None:
            return None
        given, reads = found
        if any(size <= 0 for size in given.sizes):
            return None
        worth |= given.points >= LEAST and len(sums.simplified(given).sizes) > 1
        made = _step(step, given, reads)
        if made is None:
            return None
        steps.append(made)
    if not worth:
        return None
    made_here = {step.out for step in steps}
    reads = dict.fromkeys(symbol for step in steps for symbol, _ in step.reads if symbol not in made_here)
    return Summing(tuple(reads), tuple(nest.stored), tuple(steps))


def _sum_of(step: Compute, values: Mapping[Symbol, Value], sizes: Sizes) -> tuple[sums.Sum, tuple[tuple[Symbol, int], ...]] | None:
    """Where the elements lie, of tensors in one piece."""
    axes = all_axes(step)
    place = {axis.symbol: number for number, axis in enumerate(axes)}
    extents = tuple(axis.extent.evaluate(sizes) for axis in axes)
    factors: list[tuple[int, ...]] = []
    starts: list[tuple[Symbol, int]] = []
    known = {**sizes, **dict.fromkeys(place, 0)}
    for read in _factors(step.body[0]):
        shape = [d.evaluate(sizes) for d in values[read.tensor].shape]
        steps, start = [0] * len(axes), 0
        for number, subscript in enumerate(read.subscripts):
            assert isinstance(subscript, Dim)
            pitch = prod(shape[number + 1 :])
            start += subscript.evaluate(known) * pitch
            for axis in subscript.variables & place.keys():
                split = subscript.linear_in(axis)
                assert split is not None
                assert split[0].constant is not None
                steps[place[axis]] += split[0].constant * pitch
        factors.append(tuple(steps))
        starts.append((read.tensor, start))
    own = [prod(extents[n + 1 : len(step.axes)]) for n in range(len(step.axes))]
    result = (*own, *[0] * (len(axes) - len(own)))
    kept = tuple(n < len(own) for n in range(len(axes)))
    return sums.Sum(extents, kept, tuple(factors), result), tuple(starts)


def _step(step: Compute, given: sums.Sum, reads: tuple[tuple[Symbol, int], ...]) -> _Step | None:
    (out,) = step.outs
    element = out.element
    found = sums.arranged(given)
    simple = sums.simplified(given)
    item = element.dtype.itemsize
    copies: list[gemm.Laid | None] = []
    for copied, before, after in zip(found.copied, simple.factors, found.sum.factors, strict=True):
        copy = None
        if copied:
            mine = [a for a in range(len(simple.sizes)) if before[a]]
            each = [[strides[a] * item for a in mine] for strides in (before, after)]
            copy = gemm.laid([simple.sizes[a] for a in mine], *each, item)
            if copy is None:
                return None
        copies.append(copy)
    text, numbers = sums.text(found, element.value)
    types = (*[element] * (len(reads) + 2), Element.F64, Element.I64, None, None)
    native = build.build(build.ModuleSource("sums", text, types))
    shape = tuple(axis for axis in given.sizes[: len(step.axes)])
    cost = given.points * (1 + len(reads))
    table = np.array(numbers or (0,), np.int64)
    return _Step(reads, out.symbol, shape, element, tuple(copies), native, table, found, cost)
