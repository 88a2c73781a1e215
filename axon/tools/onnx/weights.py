"""What a program's weights are made of, written beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path as File
from typing import Any, TypeAlias

from axon.base.diagnostics import Diagnostic
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.safetensors import Writing, save
from axon.tools.onnx.families import Field
from axon.tools.onnx.graph import Constant
from axon.tools.onnx.translate import Weight

# ONNX has input, output, forget, candidate, and update, reset, candidate; Axon input, forget, candidate, output, and reset, update,
# candidate.
_GATES = {"lstm": [0, 2, 3, 1], "gru": [1, 0, 2]}


def _input(order: list[int], number: int, array: Any) -> Any:
    """[directions, gates * h, d] to [d, gates, h]."""
    _, rows, width = array.shape
    return array[number].reshape(len(order), rows // len(order), width)[order].transpose(2, 0, 1)


def _biases(order: list[int], number: int, which: int | None, array: Any) -> Any:
    """[directions, 2 * gates * h] to [gates, h]: the input's, the state's, or their sum."""
    both = array[number].reshape(2, len(order), -1)[:, order]
    return both.sum(0, dtype=both.dtype) if which is None else both[which]


def _zeros(order: list[int], number: int, array: Any) -> Any:
    """The biases of a layer without, [gates, h], by its matrix."""
    return array[number, :, 0].reshape(len(order), -1) * 0


_Change: TypeAlias = "Callable[[Any], Any]"


def _recurrent() -> Iterator[tuple[str, _Change]]:
    for number in (0, 1):  # directions
        for kind, order in _GATES.items():
            yield f"{kind}_input {number}", partial(_input, order, number)
            yield f"{kind}_zeros {number}", partial(_zeros, order, number)
        yield f"lstm_b {number}", partial(_biases, _GATES["lstm"], number, None)
        yield f"gru_b {number}", partial(_biases, _GATES["gru"], number, 0)
        yield f"gru_c {number}", partial(_biases, _GATES["gru"], number, 1)


CHANGES: dict[str, _Change] = {
    "same": lambda array: array,
    "transpose": lambda array: array.T,
    "squeeze": lambda array: array.squeeze(),
    "flat": lambda array: array.ravel(),
    **dict(_recurrent()),
}


def write(path: File, fields: Sequence[Field], constants: Mapping[str, Constant]) -> None:
    """The weights of a program to a file, a tensor of the graph at a time."""
    tensors = []
    for field in fields:
        first = field.weights[0]
        shape = (*field.stacks, *first.shape)
        tensors.append(Writing(".".join(field.path), Element(first.element), shape, partial(_parts, field, constants)))
    save(path, tensors)


def _parts(field: Field, constants: Mapping[str, Constant]) -> Iterator[Any]:
    for weight in field.weights:
        yield _changed(weight, constants)


def _changed(weight: Weight, constants: Mapping[str, Constant]) -> Any:
    array = CHANGES[weight.change](constants[weight.source].read())
    assert array.shape == weight.shape, f"{weight.source} by {weight.change}"
    element = Element(weight.element)
    if element.is_integer:  # what ONNX holds in 64 bits must do in 32
        low, high = element.limits
        if array.size and not (low <= int(array.min()) and int(array.max()) <= high):
            message = f"`{weight.source}` holds integers that {element.value} cannot hold"
            raise AxonError((Diagnostic("AX0701", message),))
    return array.astype(element.dtype, copy=False)
