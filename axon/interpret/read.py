"""Reads of tensors over a box of indices.

An affine read that stays inside its tensor is a strided view and copies nothing. One that is padded with a literal is a view of a
window into which the tensor has been copied, unless that is much larger than what is read of it. All others compute flat offsets
and take them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np

from axon.base.errors import ShapeError
from axon.base.names import Symbol
from axon.core.ir import Const, Read, Scalar
from axon.core.verify import CoreInvalid
from axon.interpret.arithmetic import Array
from axon.interpret.frame import Frame, Masks, diagnostic
from axon.interpret.strided import padded, strided
from axon.shapes.dimension import Dim

Evaluate: TypeAlias = "Callable[[Scalar, Frame, Masks], Array]"
Affine: TypeAlias = "tuple[int, dict[Symbol, int]]"


def read(node: Read, frame: Frame, masks: Masks, evaluate: Evaluate) -> Array:
    """The values of a read over the frame's box. Where it is not evaluated, the values are arbitrary."""
    tensor = frame.tensors[node.tensor]
    affine = _affine(node, frame)
    if affine is not None:
        ranges = [frame.bounds(index) for index in affine]
        if all(low >= 0 and high < size for (low, high), size in zip(ranges, tensor.shape, strict=True)):
            return _view(tensor, affine, frame)
        shown = prod(high - low + 1 for low, high in ranges)
        if isinstance(node.padding, Const) and shown <= 4 * (tensor.size + _points(affine, frame)) + 1024:
            moved = [(c - low, terms) for (c, terms), (low, _) in zip(affine, ranges, strict=True)]
            return _view(padded(tensor, ranges, node.padding), moved, frame)

    indices = [
        frame.index(sub, masks) if isinstance(sub, Dim) else evaluate(sub, frame, masks).astype(np.int64) for sub in node.subscripts
    ]
    outside = np.zeros((1,) * frame.rank, np.bool_)
    for position, (index, size) in enumerate(zip(indices, tensor.shape, strict=True), start=1):
        bad = (index < 0) | (index >= size)
        if bad.any():
            if node.padding is None:
                _require_inside(node, frame, masks, position, index, bad, size)
            outside = outside | bad
    values = _take(tensor, indices, frame)
    if node.padding is None or not outside.any():
        return values
    return np.where(outside, evaluate(node.padding, frame, (*masks, outside)), values)


def _affine(node: Read, frame: Frame) -> list[Affine] | None:
    """Every subscript as an affine index, or None if one is not."""
    found = []
    for subscript in node.subscripts:
        index = frame.affine(subscript) if isinstance(subscript, Dim) else None
        if index is None:
            return None
        found.append(index)
    return found


def _points(affine: list[Affine], frame: Frame) -> int:
    """How many elements the read's own box has."""
    symbols = {symbol for _, terms in affine for symbol in terms}
    return prod(frame.axes[symbol].high - frame.axes[symbol].low for symbol in symbols)


def _view(tensor: Array, affine: list[Affine], frame: Frame) -> Array:
    """The strided view whose dimensions are the box's. Every index is inside the tensor."""
    shape, strides, start = [1] * frame.rank, [0] * frame.rank, []
    for (offset, terms), stride in zip(affine, tensor.strides, strict=True):
        for symbol, coefficient in terms.items():
            axis = frame.axes[symbol]
            shape[axis.position] = axis.high - axis.low
            strides[axis.position] += coefficient * stride
            offset += coefficient * axis.low
        start.append(slice(offset, offset + 1))
    return strided(tensor[tuple(start)] if start else tensor, shape, strides)


def _take(tensor: Array, indices: list[Array], frame: Frame) -> Array:
    """The elements at the indices, which are moved to the nearest edge where they are outside."""
    if tensor.size == 0:  # nothing is read: every point is outside, and so is masked or padded
        return np.zeros((1,) * frame.rank, tensor.dtype)
    offset = np.zeros((1,) * frame.rank, np.int64)
    for index, size, stride in zip(indices, tensor.shape, tensor.strides, strict=True):
        offset = offset + np.clip(index, 0, size - 1) * (stride // tensor.itemsize)
    return tensor.reshape(-1).take(offset)


def _require_inside(node: Read, frame: Frame, masks: Masks, position: int, index: Array, bad: Array, size: int) -> None:
    """Raise if an index is outside its dimension at a point that is evaluated."""
    first = frame.among(bad, masks)
    if first is None:
        return
    value = int(index[first])
    name = node.tensor.name
    if node.checked is None:
        raise CoreInvalid(f"an unchecked read of `{name}` has index {value} in dimension {position} of size {size}")
    shown = f"{value} or more" if value == 2**63 - 1 else f"{value}"  # which a larger u64 was brought down to
    message = f"index {shown} is outside dimension {position} of `{name}`, which has size {size}"
    label = f"this index is {shown}; it must be at least 0 and below {size}"
    raise ShapeError((diagnostic("AX0502", message, label, node.checked),))
