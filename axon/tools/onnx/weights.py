"""What a program's weights are made of, written beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path as File
from typing import Any

from axon.base.diagnostics import Diagnostic
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.safetensors import Writing, save
from axon.tools.onnx.families import Field
from axon.tools.onnx.graph import Constant
from axon.tools.onnx.translate import Weight

_GATES = [0, 2, 3, 1]  # ONNX has input, output, forget, candidate; Axon input, forget, candidate, output


def _lstm_input(array: Any) -> Any:
    """[1, 4 * h, d] to [d, 4, h]."""
    _, rows, width = array.shape
    return array.reshape(4, rows // 4, width)[_GATES].transpose(2, 0, 1)


def _lstm_bias(array: Any) -> Any:
    """The two biases of each gate, [1, 8 * h], to their sum, [4, h]."""
    both = array.reshape(2, 4, -1)
    return (both[0] + both[1])[_GATES]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "same": lambda array: array,
    "transpose": lambda array: array.T,
    "squeeze": lambda array: array.squeeze(),
    "lstm_input": _lstm_input,
    "lstm_bias": _lstm_bias,
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
