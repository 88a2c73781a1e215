"""Operands of a contraction as strided views of their tensors, and when dimensions become one without a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from axon.backend.plan.ir import Factor
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Const
from axon.interpret.strided import padded, strided
from axon.shapes.dimension import Atom, Dim, parts

Array = Any
Dims = Mapping[Symbol, int]
Piece = Mapping[Symbol, slice]  # which part of some axes; all of the others
ALL = slice(None)


@dataclass(frozen=True, slots=True)
class View:
    """A tensor over axes: how far apart neighbours along each axis are, in bytes. `shared` are the axes that stand in a subscript
    together with others.

    What it is a view of is given with every use: an array whose first element is the view's.
    """

    strides: Mapping[Symbol, int]
    sizes: Mapping[Symbol, int]
    shared: frozenset[Symbol] = frozenset()

    def over(self, memory: Array, axes: Sequence[Symbol]) -> Array:
        """The tensor as an array of these dimensions; an axis that it does not have is one of size 1."""
        shape, strides = self.shape(axes), [self.strides.get(s, 0) for s in axes]
        if is_buffer(memory):
            return np.ndarray(shape, memory.dtype, memory, 0, strides)
        return strided(memory, shape, strides, writeable=True)

    def shape(self, axes: Sequence[Symbol]) -> list[int]:
        return [self.sizes[s] if s in self.strides else 1 for s in axes]

    def cut(self, axes: Sequence[Symbol], piece: Piece) -> tuple[slice, ...]:
        """What the piece takes of an array whose first dimensions are these axes."""
        return tuple(piece.get(s, ALL) if s in self.strides else ALL for s in axes)


@dataclass(frozen=True, slots=True)
class PaddedSource:
    """What of a tensor a view is of: its copy with padding around it, if it is read outside of itself (`ranges` are the indices of
    that); in the element type that it is added up in; from the first element on that is read."""

    ranges: tuple[tuple[int, int], ...]
    padding: Const | None
    held: Any
    start: tuple[slice, ...]

    def of(self, tensor: Array) -> Array:
        if self.padding is not None:
            tensor = padded(tensor, self.ranges, self.padding)
        if tensor.dtype != self.held:
            tensor = tensor.astype(self.held)
        return tensor[self.start] if self.start else tensor


def is_buffer(memory: Array) -> bool:
    """Whether an array is all of its tensor, in one piece: NumPy makes views of that in a fifth of the time, at any offset."""
    return bool(memory.flags.c_contiguous and memory.size > 1 and memory.dtype.isbuiltin == 1)


def view_of(operand: Factor, tensor: Array, dims: Dims, sizes: Mapping[Symbol, int]) -> tuple[PaddedSource, View, Array]:
    """An operand as a view of what its source makes of a tensor with this shape and these strides, and that of this tensor."""
    affine = affine_of(operand, dims)
    padding, outside = operand.read.padding, False
    ranges = tuple(range_of(offset, terms, sizes) for offset, terms in affine)
    if isinstance(padding, Const):
        outside = any(low < 0 or high >= size for (low, high), size in zip(ranges, tensor.shape, strict=True))
    if outside:
        affine = [(offset - low, terms) for (offset, terms), (low, _) in zip(affine, ranges, strict=True)]
    start = tuple(slice(offset, offset + 1) for offset, _ in affine) if any(offset for offset, _ in affine) else ()
    source = PaddedSource(
        ranges, padding if outside and isinstance(padding, Const) else None, operand.element.accumulator.dtype, start
    )
    memory, strides = source.of(tensor), dict.fromkeys(operand.axes, 0)
    shared: frozenset[Symbol] = frozenset()
    for (_, terms), stride in zip(affine, memory.strides, strict=True):
        for symbol, coefficient in terms.items():
            strides[symbol] += coefficient * stride
        if len(terms) > 1:
            shared |= frozenset(terms)
    return source, View(strides, sizes, shared), memory


def affine_of(operand: Factor, dims: Dims) -> list[tuple[int, dict[Symbol, int]]]:
    """An operand's subscripts, each as a constant and its coefficients over the axes."""
    return [_affine(s, operand.axes, dims) for s in operand.read.subscripts if isinstance(s, Dim)]


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


def range_of(offset: int, terms: Mapping[Symbol, int], sizes: Mapping[Symbol, int]) -> tuple[int, int]:
    """The least and the greatest index."""
    ends = [(min(0, c * (sizes[s] - 1)), max(0, c * (sizes[s] - 1))) for s, c in terms.items()]
    return offset + sum(low for low, _ in ends), offset + sum(high for _, high in ends)


def ordered(left: View, right: View, depth: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """The depth's axes in an order in which they become one dimension without a copy, of both operands if there is one."""
    if len(depth) < 2:
        return depth
    by = [tuple(sorted(depth, key=lambda s: -view.strides[s])) for view in (right, left)]
    return max((depth, *by), key=lambda order: sum(_merges(view, order) for view in (left, right)))


def _merges(view: View, axes: Sequence[Symbol]) -> bool:
    return _run_together([view.sizes[s] for s in axes], [view.strides[s] for s in axes])


def _run_together(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether dimensions become one without a copy."""
    large = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size > 1]
    return all(outer == inner * size for (_, outer), (size, inner) in pairwise(large))


def must_copy(array: Array, lead: int, over: int) -> bool:
    """Whether BLAS cannot read dimensions after the first `lead` as two, of which the first `over` become one."""
    return not mergeable(array, lead, over) or not is_matrix(array.reshape(joined(array.shape, lead, over)))


def joined(shape: Sequence[int], lead: int, over: int) -> tuple[int, ...]:
    """Dimensions after the first `lead` as two, of which the first `over` become one."""
    return (*shape[:lead], prod(shape[lead : lead + over]), prod(shape[lead + over :]))


def mergeable(array: Array, lead: int, over: int) -> bool:
    """Whether they become two without a copy."""
    split = lead + over
    return all(_run_together(array.shape[part], array.strides[part]) for part in (slice(lead, split), slice(split, None)))


def is_matrix(x: Array) -> bool:
    """Whether the last two dimensions are laid out as a matrix or a transposed one, which BLAS takes in place."""
    (rows, columns), (over, along) = x.shape[-2:], x.strides[-2:]
    item = x.itemsize
    if (columns == 1 or along == item) and (rows == 1 or over >= columns * item):
        return True
    return bool((rows == 1 or over == item) and (columns == 1 or along >= rows * item))
