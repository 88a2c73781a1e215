"""Sums and extremes over windows of one tensor, at the sizes of a call: pooling, of any rank, stride, dilation and padding.

    pooled      a nest that may be so computed -> how it is, at the sizes of a call: a `Pooling`

As in `windows` there is no matrix of windows: vectors run along the innermost axis of the result, and every place of the window is
an offset from there, in a table. Where windows reach over the border, the tensor is copied once, with what is read beyond the
border around it; where they move by many elements, each remainder by the stride lies side by side there. The machine code has no
division and no condition, and is the same for all sizes but how many places are read at first; and, where windows move by more
than one element, how many neighbours they read: of these a processor makes vectors by shuffles of what it reads once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from axon.backend.cpu import build
from axon.backend.cpu.launch import address, caller
from axon.backend.cpu.windows import Operand, Shown, innermost, laid_along, laid_near
from axon.backend.plan.ir import Factor, Nest
from axon.backend.plan.numbered import MOST, AtSizes, at_sizes
from axon.backend.tiles.places import Places
from axon.backend.tiles.views import affine_of
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Compute, Const, Read, Scan
from axon.core.scalar_facts import axes_of
from axon.core.walk import all_axes
from axon.shapes.dimension import Dim

Array = Any
Sizes = Mapping[Symbol, int]
TURN = 8  # places of a window that are taken at once
SUMMED = 128  # places that are added in f32
NEAR = 8  # elements by which windows move, at most, where they are read as they lie: vectors are made by shuffles
LEAST = 8  # elements of the result side by side: fewer are no vector
READ = 4  # places that are read in the time of an addition elsewhere
_KINDS = {"max": ("max_float", "-inf"), "min": ("min_float", "inf"), "sum": ("sum_float", "0.0")}


@dataclass(frozen=True, slots=True)
class _Laid:
    """Where the elements are of a tensor with some strides, as tables of i64: for each line of the result where its windows begin
    and where it is, and the offsets of a window's places."""

    operand: Operand
    tables: tuple[Array, Array]
    call: Callable[..., object]  # of what is made of the tensor, and the result


class Pooling:
    """A reduction over windows at the sizes of a call."""

    def __init__(self, op: Compute, factor: Factor, sizes: Sizes) -> None:
        assert op.reduction is not None
        self.input, self.output = factor.read.tensor, op.outs[0].symbol
        self._op, self._factor, self._sizes = op, factor, sizes
        self._kind, self._own = op.reduction.monoid.kind, tuple(axis.symbol for axis in op.axes)
        self._window = tuple(axis.symbol for axis in op.reduction.axes)
        self.width, self.deep = sizes[self._own[-1]], prod(sizes[s] for s in self._window)
        self._laid: dict[tuple[Any, ...], _Laid] = {}

    def run(self, tensor: Array, result: Array) -> None:
        """Into a result that lies in one piece."""
        key = (tensor.shape, tensor.strides, tensor.dtype)
        if key not in self._laid:
            if len(self._laid) >= MOST:
                self._laid.clear()
            self._laid[key] = self._lay(tensor)
        laid = self._laid[key]
        memory = laid.operand.of(tensor)
        laid.call(memory, result)

    def _lay(self, tensor: Array) -> _Laid:
        sizes = self._sizes
        found = laid_near(self._factor, tensor, sizes, self._own, NEAR)
        if found is None:
            operand = laid_along(self._factor, tensor, {}, sizes, (), self._own, NEAR)
            assert operand is not None
            step = operand.places.step(self._own[-1])
        else:
            operand, step = found
        strides = {s: prod(sizes[t] for t in self._own[n + 1 :]) for n, s in enumerate(self._own)}
        outer = self._own[:-1]
        lines = np.stack([operand.places.of(outer, sizes), Places(strides).of(outer, sizes)], axis=-1)
        window = operand.places.of(self._window, sizes, started=True)
        tables = (np.ascontiguousarray(lines), window)
        near = 1 if step == 1 else _neighbours(window, sizes[self._window[-1]])
        turn = TURN // near * near
        native = _native(self._factor.element, self._kind, self.deep % turn or turn, step, near)
        cost = len(lines) * self.width * self.deep // READ + len(lines) * self.width
        call = caller(native, 2, [*map(address, tables), self.width, self.deep], len(lines), cost)
        return _Laid(operand, tables, call)


class Pooled:
    """A nest as a reduction over windows at the sizes of calls, and the `rest` of it, which is computed of that element by element
    (a mean's division); None if there is no rest."""

    def __init__(self, nest: Nest) -> None:
        first, *others = nest.steps
        self.rest: Nest | None = None
        if others and isinstance(first, Compute) and len(first.outs) == 1 and all(_is_pointwise(s, nest) for s in others):
            sums = first.outs[0].symbol
            self.rest = Nest(nest.rows, tuple(others), tuple(s for s in nest.stored if s != sums))
            nest = Nest(nest.rows, (first,), (sums,))
        self._windows = AtSizes(nest, _is_over_windows, _pooling)

    def at(self, dims: Mapping[Symbol, int]) -> Pooling | None:
        return self._windows.at(dims)


def _is_pointwise(step: Compute | Scan, nest: Nest) -> bool:
    return isinstance(step, Compute) and step.reduction is None and len(step.axes) == len(nest.rows)


def _is_over_windows(step: Compute) -> bool:
    """Whether a step reduces what it reads of one tensor, with a subscript that moves with the result and with what is reduced."""
    reduction = step.reduction
    if reduction is None or reduction.monoid.kind not in _KINDS or reduction.where is not None or len(step.body) != 1:
        return False
    (read,) = step.body
    if not isinstance(read, Read) or read.checked is not None or not isinstance(read.padding, Const | None):
        return False
    if read.element not in (Element.F32, Element.F64) or step.outs[0].element is not read.element:
        return False
    own, window = (frozenset(axis.symbol for axis in axes) for axes in (step.axes, reduction.axes))
    varying = [s.variables for s in read.subscripts if isinstance(s, Dim)]
    return len(varying) == len(read.subscripts) and any(own & v and window & v for v in varying)


def _pooling(op: Compute, sizes: Sizes) -> Pooling | None:
    op = at_sizes(op, sizes)
    (read,) = op.body
    axes = all_axes(op)
    if not isinstance(read, Read) or any(axis.extent.constant is None for axis in axes):
        return None
    extents = {axis.symbol: axis.extent.evaluate({}) for axis in axes}
    own = frozenset(extents)
    if any(extent <= 0 for extent in extents.values()) or not all(_is_linear(s, own) for s in read.subscripts):
        return None
    assert op.reduction is not None
    deep = prod(extents[axis.symbol] for axis in op.reduction.axes)
    if extents[op.axes[-1].symbol] < LEAST or (op.reduction.monoid.kind == "sum" and deep > SUMMED):
        return None
    factor = Factor(read, read.element, axes_of(read, own))
    shown = [Shown.of(offset, terms, extents) for offset, terms in affine_of(factor, {})]
    if innermost(shown, (), tuple(axis.symbol for axis in op.axes)) is None:
        return None
    return Pooling(op, factor, extents)


def _is_linear(subscript: object, axes: frozenset[Symbol]) -> bool:
    """Whether it is a number and multiples of axes."""
    if not isinstance(subscript, Dim):
        return False
    return all(not monomial or (len(monomial) == 1 and monomial[0] in axes) for monomial in subscript.mapping)


def _neighbours(window: Array, width: int) -> int:
    """In runs of how many a window's places lie side by side, at most TURN: `width` of them are along its innermost axis."""
    near = max(n for n in range(1, TURN + 1) if width % n == 0)
    runs = window.reshape(-1, near)
    return near if np.array_equal(runs, runs[:, :1] + np.arange(near)) else 1


@cache
def _native(element: Element, kind: str, begun: int, step: int, near: int) -> build.Native:
    types = (element, element, Element.I64, Element.I64, *[None] * 4)
    return build.build(build.ModuleSource("pool", text(element.value, kind, begun, step, near), types))


def text(element: str, kind: str, begun: int, step: int, near: int) -> str:
    """The function that reduces the windows of some lines, in the words of kernels: first so many places, then about TURN at once,
    of which so many are neighbours."""
    combine, nothing = _KINDS[kind]
    turn = TURN // near * near
    last = "a" if not begun else f"ap{begun - 1}"
    start = f"{element}({nothing})" if element == "f32" else nothing
    return f"""\
def pool(x, out, lines, window, width, deep, first, last):
    for line in range(first, last):
        begin = load_i64(lines, 2 * line)
        to = load_i64(lines, 2 * line + 1)
{_places("p", range(0, begun, near), "0", 8)}        for k in range(width):
            a = {start}
{_taken("p", begun, element, combine, step, near, 12)}            store_{element}(out, to + k, {last})
        for d in range({begun}, deep, {turn}):
{_places("q", range(0, turn, near), "d", 12)}            for m in range(width):
                b = load_{element}(out, to + m)
{_taken("q", turn, element, combine, step, near, 16)}                store_{element}(out, to + m, aq{turn - 1})
    return 0
"""


def _places(name: str, numbers: Sequence[int], start: str, indent: int) -> str:
    return "".join(f"{' ' * indent}{name}{n} = begin + load_i64(window, {start} + {n})\n" for n in numbers)


def _taken(name: str, count: int, element: str, combine: str, step: int, near: int, indent: int) -> str:
    index, before, found = ("k", "a", "") if name == "p" else ("m", "b", "")
    index = index if step == 1 else f"{index} * {step}"
    for n in range(count):
        place = f"{name}{n // near * near} + {index}" + (f" + {n % near}" if n % near else "")
        found += f"{' ' * indent}a{name}{n} = {combine}({before}, load_{element}(x, {place}))\n"
        before = f"a{name}{n}"
    return found
