"""Values as text that can be read back as Axon: `[| 0.5, 0.5 |] : f32[2]`."""

from __future__ import annotations

from typing import Any

import numpy as np

from axon.base.element import of_dtype

MAX_ITEMS = 1_000  # of an array shown in full
WIDTH = 80  # of a line of numbers
EDGE = 3  # items at either end of a dimension of a larger one


def show(value: Any) -> str:
    """A value with its type; a large array is abbreviated."""
    return f"{show_value(value)} : {type_of(value)}"


def type_of(value: Any) -> str:
    """The element types and sizes of a value of arrays, tuples and dicts."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(type_of, value)) + ")"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} : {type_of(item)}" for name, item in value.items()) + " }"
    array = np.asarray(value)
    element = of_dtype(array.dtype)
    name = element.value if element else str(array.dtype)
    return f"{name}[{', '.join(map(str, array.shape))}]" if array.ndim else name


def show_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(show_value, value)) + ")"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {show_value(item)}" for name, item in value.items()) + " }"
    array = np.asarray(value)
    return _array(array, array.size > MAX_ITEMS, 0)


def _array(array: np.ndarray[Any, Any], short: bool, indent: int) -> str:
    if array.ndim == 0:
        return _number(array)
    size = array.shape[0]
    kept = [*range(EDGE), None, *range(size - EDGE, size)] if short and size > 2 * EDGE else list(range(size))
    items = ["…" if i is None else _array(array[i], short, indent + 3) for i in kept]
    if array.ndim > 1 and len(items) > 1:
        return "[| " + (",\n" + " " * (indent + 3)).join(items) + " |]"
    return f"[| {_filled(items, indent + 3)} |]" if items else "[| |]"


def _filled(items: list[str], indent: int) -> str:
    """Numbers with commas between them, as many on a line as fit; lines after the first are indented."""
    lines: list[str] = []
    for item in items:
        if lines and indent + len(lines[-1]) + len(", ") + len(item) + len(" |]") <= WIDTH:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return (",\n" + " " * indent).join(lines)


def _number(array: np.ndarray[Any, Any]) -> str:
    """The shortest digits that tell the number apart from its neighbours, written as a literal."""
    if array.dtype.kind == "b":
        return "true" if array else "false"
    if array.dtype.kind in "iu":
        return str(int(array))
    number = float(array)
    if np.isnan(number):
        return "nan"
    if np.isinf(number):
        return "inf" if number > 0 else "-inf"
    kind = array.dtype.type if array.dtype.kind == "f" else np.float32
    magnitude = abs(number)
    if magnitude and not 1e-4 <= magnitude < 1e16:
        text = np.format_float_scientific(kind(number), trim="0", exp_digits=1)
        return text.replace("e+", "e")
    return np.format_float_positional(kind(number), trim="0")
