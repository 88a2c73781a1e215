"""Contractions through BLAS: NumPy's `matmul` on views of the operands, which are copied only where their strides demand it.

An operand is read at affine subscripts, so over the contraction's axes it is a strided view of its tensor (of a padded copy of it,
where it is read with padding). The axes of the batch, of the rows (or columns) and of the depth become one dimension each, if their
strides allow without a copy; then BLAS takes a matrix or a transposed one as it lies.

Note [Convolutions]
    If an operand is a window (a subscript such as `p + r` with `r` among the depth's axes and `p` of the result), merging its depth
    copies every element many times over. There are two ways to do that with less.
      by blocks   The window is copied and multiplied for so many rows of the image at a time that the copy stays small.
      by taps     The contraction is done once for each tap, that is each value of those `r`, and the products are added up. For one
                  tap the window is the tensor moved by a number of elements, so rows and columns of an image stay one dimension:
                  the image's rows are kept at their full width, and what the extra columns hold is left out at the end.
    The first copies as many elements as the depth has for each place of the result, the second adds as many as the result has
    channels for each tap: the cheaper one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from itertools import product as box
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from axon.backend.plan import Contraction, Operand
from axon.core import Axis, Const
from axon.names import Symbol
from axon.shapes.dimension import Atom, Dim, parts

Array = Any
Dims = Mapping[Symbol, int]
BLOCK = 1 << 21  # elements of a window that are copied at a time: few products, which BLAS shares among threads each
TAP = 4  # how many elements are copied in the time in which a product is added
Make = Callable[[tuple[int, ...], Any], Array]  # an array of a shape and a dtype


def contract(kernel: Contraction, tensors: Mapping[Symbol, Array], dims: Dims, make: Make) -> Array:
    """The contraction's result, of the element type of its value. `make` gives memory for it, and for what it is computed from."""
    sizes = {axis.symbol: max(0, axis.extent.evaluate(dims)) for axis in (*kernel.op.axes, *kernel.depth)}
    shape = tuple(sizes[axis.symbol] for axis in kernel.op.axes)
    element = kernel.left.element
    if 0 in sizes.values():
        result = make(shape, element.dtype)
        result[...] = 0
        return result
    left, right = (_view(o, tensors[o.read.tensor], dims, sizes) for o in (kernel.left, kernel.right))
    groups = [_symbols(axes) for axes in (kernel.batch, kernel.rows, kernel.columns, kernel.depth)]
    taps = [s for s in groups[3] if s in left.shared | right.shared]
    windows = [view for view in (left, right) if not view.shared.isdisjoint(taps)]
    if len(windows) == 1 and not _merges(left, right, groups[3]):
        other = groups[2] if windows[0] is left else groups[1]
        deep, channels = (prod(sizes[s] for s in group) for group in (set(groups[3]) - set(taps), other))
        way = _tapped if TAP * channels < deep else _blocked
        result, order = way(left, right, groups, taps, sizes, make)
    else:
        result, order = _product(left, right, groups, sizes, make)
    result = result.transpose([order.index(axis.symbol) for axis in kernel.op.axes])
    return result if result.dtype == element.dtype else result.astype(element.dtype)


def is_window(kernel: Contraction) -> bool:
    """Whether an operand is a window. See Note [Convolutions]."""
    depth = frozenset(axis.symbol for axis in kernel.depth)
    subscripts = (s for o in (kernel.left, kernel.right) for s in o.read.subscripts if isinstance(s, Dim))
    return any(len(s.variables & o) > 1 and not s.variables.isdisjoint(depth) for s in subscripts for o in [_all_axes(kernel)])


def _all_axes(kernel: Contraction) -> frozenset[Symbol]:
    return frozenset(axis.symbol for axis in (*kernel.op.axes, *kernel.depth))


def _symbols(axes: Sequence[Axis]) -> tuple[Symbol, ...]:
    return tuple(axis.symbol for axis in axes)


# ── views ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _View:
    """An operand over its axes: memory, where it starts, and how far apart neighbours along each axis are, in bytes.

    `shared` are the axes that stand in a subscript together with others.
    """

    array: Array
    strides: Mapping[Symbol, int]
    sizes: Mapping[Symbol, int]
    shared: frozenset[Symbol]

    def over(self, axes: Sequence[Symbol]) -> Array:
        """The operand as an array of these dimensions; an axis that it does not have is one of size 1."""
        shape = [self.sizes[s] if s in self.strides else 1 for s in axes]
        return as_strided(self.array, shape, [self.strides.get(s, 0) for s in axes], writeable=False)

    def at(self, place: Mapping[Symbol, int], keep: Symbol | None = None) -> _View:
        """With some axes at one index; the axis `keep` starts there and stays."""
        start = sum(self.strides.get(s, 0) * index for s, index in place.items())
        rest = {s: stride for s, stride in self.strides.items() if s not in place or s is keep}
        return _View(_moved(self.array, start), rest, self.sizes, self.shared)

    def resized(self, sizes: Mapping[Symbol, int]) -> _View:
        """With other extents."""
        return _View(self.array, self.strides, {**self.sizes, **sizes}, self.shared)


def _moved(array: Array, start: int) -> Array:
    """What lies so many bytes after the array's first element, as an array of that one element."""
    if start == 0:
        return array
    item = array.itemsize
    return as_strided(array, (start // item + 1,), (item,), writeable=False)[-1:]


def _view(operand: Operand, tensor: Array, dims: Dims, sizes: Mapping[Symbol, int]) -> _View:
    affine = [_affine(s, operand.axes, dims) for s in operand.read.subscripts if isinstance(s, Dim)]
    if isinstance(operand.read.padding, Const):
        ranges = [_range(offset, terms, sizes) for offset, terms in affine]
        if any(low < 0 or high >= size for (low, high), size in zip(ranges, tensor.shape, strict=True)):
            tensor = _window(tensor, ranges, operand.read.padding)
            affine = [(offset - low, terms) for (offset, terms), (low, _) in zip(affine, ranges, strict=True)]
    held = operand.element.accumulator.dtype
    if tensor.dtype != held:
        tensor = tensor.astype(held)
    start, strides = 0, dict.fromkeys(operand.axes, 0)
    shared: frozenset[Symbol] = frozenset()
    for (offset, terms), stride in zip(affine, tensor.strides, strict=True):
        start += offset * stride
        for symbol, coefficient in terms.items():
            strides[symbol] += coefficient * stride
        if len(terms) > 1:
            shared |= frozenset(terms)
    index = tuple(slice(offset, offset + 1) for offset, _ in affine)
    return _View(tensor[index] if index else tensor, strides, sizes, shared)


def _affine(dim: Dim, axes: frozenset[Symbol], dims: Dims) -> tuple[int, dict[Symbol, int]]:
    """A subscript as a constant and its coefficients over the axes."""
    constant, terms = 0, dict[Symbol, int]()
    for monomial, coefficient in dim.mapping.items():
        axis = None
        for atom in monomial:
            if isinstance(atom, Symbol) and atom in axes:
                axis = atom
            else:
                coefficient *= _evaluated(atom, dims)
        if axis is None:
            constant += coefficient
        else:
            terms[axis] = terms.get(axis, 0) + coefficient
    return constant, terms


def _evaluated(atom: Atom, dims: Dims) -> int:
    if isinstance(atom, Symbol):
        return dims[atom]
    values = [part.evaluate(dims) for part in parts(atom)]
    return values[0] // values[1] if type(atom).__name__ == "Quotient" else min(values)


def _range(offset: int, terms: Mapping[Symbol, int], sizes: Mapping[Symbol, int]) -> tuple[int, int]:
    """The least and the greatest index."""
    ends = [(min(0, c * (sizes[s] - 1)), max(0, c * (sizes[s] - 1))) for s, c in terms.items()]
    return offset + sum(low for low, _ in ends), offset + sum(high for _, high in ends)


def _window(tensor: Array, ranges: list[tuple[int, int]], padding: Const) -> Array:
    """What the ranges show of a tensor, with padding around it."""
    value = np.array(padding.value).astype(tensor.dtype)
    window = np.full([high - low + 1 for low, high in ranges], value)
    into, out_of = [], []
    for (low, high), size in zip(ranges, tensor.shape, strict=True):
        first, last = max(low, 0), min(high + 1, size)
        if first >= last:
            return window
        into.append(slice(first - low, last - low))
        out_of.append(slice(first, last))
    window[tuple(into)] = tensor[tuple(out_of)]
    return window


# ── products ────────────────────────────────────────────────────────────────────────────────────────────────────────────

Groups = list[tuple[Symbol, ...]]  # batch, rows, columns, depth


def _product(left: _View, right: _View, groups: Groups, sizes: Mapping[Symbol, int], make: Make) -> tuple[Array, list[Symbol]]:
    """The product, and the axes of its dimensions."""
    batch, rows, columns, depth = groups
    depth = _ordered(left, right, depth)
    lead = tuple(sizes[s] for s in batch)
    height, width, deep = (prod(sizes[s] for s in group) for group in (rows, columns, depth))
    x = left.over((*batch, *rows, *depth)).reshape((*lead, height, deep))
    y = right.over((*batch, *depth, *columns)).reshape((*lead, deep, width))
    result = np.matmul(_blas(x), _blas(y), out=make((*lead, height, width), x.dtype))
    order = [*batch, *rows, *columns]
    return result.reshape([sizes[s] for s in order]), order


def _ordered(left: _View, right: _View, depth: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """The depth's axes in an order in which they become one dimension without a copy, of both operands if there is one."""
    by = [tuple(sorted(depth, key=lambda s: -view.strides[s])) for view in (right, left)]
    return max((depth, *by), key=lambda order: sum(_one(view, order) for view in (left, right)))


def _one(view: _View, axes: Sequence[Symbol]) -> bool:
    """Whether axes become one dimension without a copy."""
    large = [s for s in axes if view.sizes[s] > 1]
    return all(view.strides[a] == view.strides[b] * view.sizes[b] for a, b in pairwise(large))


def _merges(left: _View, right: _View, depth: tuple[Symbol, ...]) -> bool:
    order = _ordered(left, right, depth)
    return _one(left, order) and _one(right, order)


def _blas(x: Array) -> Array:
    """A copy, unless the last two dimensions are laid out as a matrix or a transposed one, which BLAS reads in place."""
    (rows, columns), (over, along) = x.shape[-2:], x.strides[-2:]
    item = x.itemsize
    if (columns == 1 or along == item) and (rows == 1 or over >= columns * item):
        return x
    if (rows == 1 or over == item) and (columns == 1 or along >= rows * item):
        return x
    return np.ascontiguousarray(x)


def _blocked(
    left: _View, right: _View, groups: Groups, taps: list[Symbol], sizes: Mapping[Symbol, int], make: Make
) -> tuple[Array, list[Symbol]]:
    """A contraction over windows of one operand, block by block, and the axes of its dimensions. See Note [Convolutions]."""
    batch, rows, columns, depth = groups
    by_rows = not left.shared.isdisjoint(taps)
    own, other = (rows, columns) if by_rows else (columns, rows)
    deep = prod(sizes[s] for s in depth)
    kept = len(own)  # how many of the window's axes are copied together
    while kept > 1 and deep * prod(sizes[s] for s in own[-kept + 1 :]) > BLOCK:
        kept -= 1
    lead, inner = [*batch, *own[: len(own) - kept]], own[len(own) - kept :]
    step = max(1, BLOCK // max(1, deep * prod(sizes[s] for s in inner[1:])))
    across = prod(sizes[s] for s in other)
    width = prod(sizes[s] for s in inner)
    shape = tuple(sizes[s] for s in lead)
    result = make((*shape, width, across) if by_rows else (*shape, across, width), left.array.dtype)
    strip = prod(sizes[s] for s in inner[1:])
    fixed_view = right if by_rows else left
    for place in box(*[range(sizes[s]) for s in lead]):
        at = dict(zip(lead, place, strict=True))
        fixed = fixed_view.at({s: i for s, i in at.items() if s in fixed_view.strides})
        matrix = fixed.over((*depth, *other) if by_rows else (*other, *depth))
        matrix = _blas(matrix.reshape((deep, across) if by_rows else (across, deep)))
        for first in range(0, sizes[inner[0]], step):
            count = min(step, sizes[inner[0]] - first)
            window = (left if by_rows else right).at({**at, inner[0]: first}, keep=inner[0])
            part = window.resized({inner[0]: count}).over((*inner, *depth) if by_rows else (*depth, *inner))
            part = part.reshape((-1, deep) if by_rows else (deep, -1))
            span = slice(first * strip, (first + count) * strip)
            if by_rows:
                np.matmul(part, matrix, out=result[place][span])
            else:
                np.matmul(matrix, part, out=result[place][:, span])
    order = [*lead, *inner, *other] if by_rows else [*lead, *other, *inner]
    return result.reshape([sizes[s] for s in order]), order


def _tapped(
    left: _View, right: _View, groups: Groups, taps: list[Symbol], sizes: Mapping[Symbol, int], make: Make
) -> tuple[Array, list[Symbol]]:
    """A contraction over windows, tap by tap, and the axes of its dimensions. See Note [Convolutions]."""
    batch, rows, columns, depth = groups
    rest = tuple(s for s in depth if s not in taps)
    height, width = _Wide.of(rows, left), _Wide.of(columns, right)
    lead = [*batch, *height.lead, *width.lead]
    shape = (*(sizes[s] for s in lead), height.padded, width.padded)
    total, part = make(shape, left.array.dtype), make(shape, left.array.dtype)
    cut = (..., slice(0, height.count), slice(0, width.count))
    deep = prod(sizes[s] for s in rest)
    for number, place in enumerate(box(*[range(sizes[s]) for s in taps])):
        at = dict(zip(taps, place, strict=True))
        x, y = left.at(at), right.at(at)
        order = _ordered(x, y, rest)
        a = height.view(x, lead, order, before=True).reshape((*(sizes[s] if s in x.strides else 1 for s in lead), -1, deep))
        b = width.view(y, lead, order, before=False).reshape((*(sizes[s] if s in y.strides else 1 for s in lead), deep, -1))
        if number == 0:
            np.matmul(_blas(a), _blas(b), out=total[cut])
        else:
            np.matmul(_blas(a), _blas(b), out=part[cut])
            np.add(total[cut], part[cut], out=total[cut])
    whole = total.reshape((*(sizes[s] for s in lead), *height.shape, *width.shape))
    kept = tuple(slice(0, sizes[s]) for s in (*lead, *height.axes, *width.axes))
    return whole[kept], [*lead, *height.axes, *width.axes]


@dataclass(frozen=True, slots=True)
class _Wide:
    """The rows or the columns of a matrix as one dimension: `axes`, whose inner ones are kept at the width that they have in
    memory.

    `lead` are axes before them that cannot be merged; then products are taken for each of them. `shape` are the extents in memory,
    `count` how many elements the merged dimension has, and `padded` that with the last row filled up.
    """

    lead: tuple[Symbol, ...]
    axes: tuple[Symbol, ...]
    shape: tuple[int, ...]
    count: int
    step: int

    @property
    def padded(self) -> int:
        return prod(self.shape)

    @staticmethod
    def of(axes: tuple[Symbol, ...], view: _View) -> _Wide:
        sizes, strides = view.sizes, view.strides
        if not axes:
            return _Wide((), (), (), 1, 0)
        first = len(axes) - 1
        step = strides[axes[first]]
        shape = [sizes[axes[first]]]
        while first > 0 and step > 0:
            above, width = strides[axes[first - 1]], prod(shape)
            inner = prod(shape[1:])
            if above % (step * inner) or above < step * width:
                break
            shape[0] = above // (step * inner)
            if prod(shape) > 2 * width:  # more of it would be thrown away than kept
                shape[0] = sizes[axes[first]]
                break
            first -= 1
            shape.insert(0, sizes[axes[first]])
        last = 1 + sum((sizes[s] - 1) * prod(shape[i + 1 :]) for i, s in enumerate(axes[first:]))
        return _Wide(axes[:first], axes[first:], tuple(shape), last, step)

    def view(self, view: _View, lead: Sequence[Symbol], depth: Sequence[Symbol], *, before: bool) -> Array:
        """The operand with the merged dimension before or after the depth's."""
        start = [view.sizes[s] if s in view.strides else 1 for s in lead]
        steps = [view.strides.get(s, 0) for s in lead]
        deep, deep_steps = [view.sizes[s] for s in depth], [view.strides[s] for s in depth]
        own, own_step = [self.count], [self.step]
        shape = [*start, *own, *deep] if before else [*start, *deep, *own]
        strides = [*steps, *own_step, *deep_steps] if before else [*steps, *deep_steps, *own_step]
        return as_strided(view.array, shape, strides, writeable=False)
