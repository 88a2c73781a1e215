"""Nests of sums of products, of whole tensors, by loops that suit their sizes: see `tiles.sums`.

    Sums    a nest -> how it is computed at the sizes of a call: a `Summing`; None where it is left as it is

A nest's function has one order of loops for all sizes. That is a good one where what it reads and writes lies along one index, and
that is long; where tensors lie along several, or indices are short, another one is up to twenty times as fast, and which one
follows from the sizes. So a nest of `plan.whole_sums` whose function is not so good is arranged at the sizes of a call, one step
after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from axon.backend.cpu import blas, build, threads
from axon.backend.cpu.arena import Scratch
from axon.backend.cpu.launch import address
from axon.backend.plan import lanes
from axon.backend.plan.ir import Nest
from axon.backend.plan.settled import decided
from axon.backend.plan.whole_sums import factors_of, is_sum
from axon.backend.tiles import gemm, sum_loops, sums
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Compute, Scalar, Select, Value
from axon.core.walk import all_axes, dimensions_of, tensors_of
from axon.shapes.dimension import Dim

Array = Any
Sizes = Mapping[Symbol, int]
LEAST = 150_000  # points of a nest that is worth it
SHARED = 1 << 15  # the same of what is called from Python anyway
LONG = 32  # places of an index along which a nest's own loops are good
MOST = 64  # sizes of a nest for which it is kept; then they are forgotten, and asked again
_scratch = Scratch()


@dataclass(frozen=True, slots=True)
class Loops:
    """A sum of products of strided tensors, as machine code. `of` gives None where a factor would be copied in too many pieces."""

    element: Element
    copies: tuple[gemm.Laid | None, ...]
    native: build.Native
    table: Array
    arranged: sums.Arranged
    cost: int

    @classmethod
    def of(cls, given: sums.Sum, element: Element) -> Loops | None:

        found, item = sums.arranged(given), element.dtype.itemsize
        copies: list[gemm.Laid | None] = []
        for each in found.copies:
            copy = None
            if each is not None:
                own = [a for a, step in enumerate(each.before) if step]
                shape = [each.shape[a] for a in own]
                copy = gemm.laid(shape, [each.before[a] * item for a in own], [each.after[a] * item for a in own], item)
                if copy is None:
                    return None
            copies.append(copy)
        text, numbers = sum_loops.text(found, element.value)
        types = (*[element] * (len(copies) + 2), Element.F64, element, element, Element.I64, None, None)
        native = build.build(build.ModuleSource("sums", text, types))
        cost = given.points * (1 + len(copies))
        return cls(element, tuple(copies), native, np.array(numbers or (0,), np.int64), found, cost)

    def run(self, factors: Sequence[int], result: Array) -> None:
        """Of factors that begin at these addresses, into a result that lies as it was said to."""
        dtype = self.element.dtype
        places: list[int] = []
        held: list[Array] = []
        for number, (place, copy) in enumerate(zip(factors, self.copies, strict=True)):
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
            count = len(found.turned)
            near = _scratch.array(f"turned {thread}", (count * sum_loops.TILE,), dtype)
            turning = _scratch.array(f"turning {thread}", (sum_loops.TILE if count else 0,), dtype)
            return [*places, address(made), address(acc), address(wide), address(near), address(turning), table]

        threads.share_kernel(self.native, given, found.items, self.cost)
        if made is not result:
            result[...] = np.add.reduce(made, axis=0, dtype=np.float64).reshape(result.shape)


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a nest: which tensors it reads, from which element on, and its own."""

    reads: tuple[tuple[Symbol, int], ...]
    out: Symbol
    shape: tuple[int, ...]
    loops: Loops

    def run(self, tensors: Mapping[Symbol, Array], result: Array) -> None:
        item = self.loops.element.dtype.itemsize
        self.loops.run([address(tensors[symbol]) + start * item for symbol, start in self.reads], result)


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
                held[step.out] = _scratch.array(f"step {number}", step.shape, step.loops.element.dtype)
            step.run(held, held[step.out])


class Sums:
    """A nest at the sizes of calls. Several threads may share it."""

    def __init__(self, nest: Nest, values: Mapping[Symbol, Value]) -> None:
        self._nest = nest if all(isinstance(step, Compute) and is_sum(step) for step in nest.steps) else None
        self._found: dict[tuple[int, ...], Summing | None] = {}
        if self._nest is not None:
            self._values = dict(values) | {out.symbol: out for step in nest.steps for out in step.outs}
            shapes = (d.variables for step in nest.steps for s in tensors_of(step) for d in self._values[s].shape)
            asked = frozenset[Symbol]().union(*(dimensions_of(step) for step in nest.steps), *shapes)
            self._asked = tuple(sorted(asked, key=lambda s: s.id))

    def at(self, dims: Sizes) -> Summing | None:
        if self._nest is None:
            return None
        key = tuple([dims[s] for s in self._asked])
        with suppress(KeyError):
            return self._found[key]
        found = _summing(self._nest, self._values, dict(zip(self._asked, key, strict=True)))
        if len(self._found) >= MOST:
            self._found.clear()
        self._found[key] = found
        return found  # which another thread may have forgotten again


def _summing(nest: Nest, values: Mapping[Symbol, Value], sizes: Sizes) -> Summing | None:
    found: list[tuple[Compute, sums.Sum, tuple[tuple[Symbol, int], ...]]] = []
    for step in nest.steps:
        assert isinstance(step, Compute)
        holds: list[Scalar | None] = [step.reduction.where if step.reduction is not None else None]
        holds.append(step.body[0].condition if isinstance(step.body[0], Select) else None)
        if any(condition is not None and decided(condition, sizes) is not True for condition in holds):
            return None
        given, reads = _sum_of(step, values, sizes)
        if any(size <= 0 for size in given.sizes):
            return None
        found.append((step, given, reads))
    if all(given.points < LEAST for _, given, _ in found) or _is_good(nest, [given for _, given, _ in found]):
        return None
    steps: list[_Step] = []
    for step, given, reads in found:
        loops = Loops.of(given, step.outs[0].element)
        if loops is None:
            return None
        steps.append(_Step(reads, step.outs[0].symbol, given.sizes[: len(step.axes)], loops))
    made_here = {step.out for step in steps}
    outside = dict.fromkeys(symbol for step in steps for symbol, _ in step.reads if symbol not in made_here)
    return Summing(tuple(outside), tuple(nest.stored), tuple(steps))


def _is_good(nest: Nest, given: Sequence[sums.Sum]) -> bool:
    """Whether the nest's own function is: all that it reads and writes lies along the index that it is vectorized along, which is
    long."""
    if not nest.rows:
        return False  # totals are not cut there
    made = frozenset(out.symbol for step in nest.steps for out in step.outs)
    by_lanes = lanes.by_lanes(nest)
    for step, one in zip(nest.steps, given, strict=True):
        axis = nest.rows[-1] if by_lanes else (lanes.reduced(step) or step.axes)[-1]
        if lanes.strides(step, axis, made, made - set(nest.stored)):
            return False
        simple = sums.simplified(one)
        if len(simple.factors) == 1 and len(simple.sizes) <= 2:
            continue  # rows or columns of a matrix
        lies = [all(f[a] in (0, 1) for f in (*simple.factors, simple.result)) for a in range(len(simple.sizes))]
        if max((size for size, along in zip(simple.sizes, lies, strict=True) if along), default=0) < LONG:
            return False
    return True


def _sum_of(step: Compute, values: Mapping[Symbol, Value], sizes: Sizes) -> tuple[sums.Sum, tuple[tuple[Symbol, int], ...]]:
    """Where the elements lie, of tensors in one piece."""
    axes = all_axes(step)
    place = {axis.symbol: number for number, axis in enumerate(axes)}
    extents = tuple(axis.extent.evaluate(sizes) for axis in axes)
    factors: list[tuple[int, ...]] = []
    starts: list[tuple[Symbol, int]] = []
    known = {**sizes, **dict.fromkeys(place, 0)}
    for read in factors_of(step.body[0]):
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
