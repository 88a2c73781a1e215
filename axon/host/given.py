"""What a caller gives, read from left to right: arrays and numbers, and everything else that matching asks of a call, as a key.

Of an array that has an element type matching asks for its element type and its shape; of one of Python's numbers, whose element
type the others and the signature decide, for its Python type alone, and whether that element type holds it; of tuples, dicts and
dataclasses for their names. So what it found for one call it would find for each with the same key. Lists, masked arrays and arrays
of other libraries have none: they are matched in each call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from axon.host.weak import settled, weak_array

IN_ONE_PIECE = 0x101  # of NumPy's flags: contiguous as in C, and aligned

Key = tuple[Any, ...]


class Given(NamedTuple):
    """The arguments of a call: `leaves` in their order, and whether those that are arrays lie in one piece each."""

    key: Key
    leaves: list[Any]
    in_one_piece: bool


def read(name: str, sizes: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Given | None:
    """None for a call that is matched each time."""
    key: list[Any] = [name, *sizes, *kwargs, len(args)]
    leaves: list[Any] = []
    found = _read(args, key, leaves)
    if found is not None and kwargs:
        others = _read(kwargs.values(), key, leaves)
        found = None if others is None else found and others
    return None if found is None else Given(tuple(key), leaves, found)


def _read(values: Iterable[Any], key: list[Any], leaves: list[Any]) -> bool | None:
    """Whether arrays lie in one piece each. What is added to the key says where it ends, so no two structures have the same."""
    in_one_piece = True
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            if in_one_piece and value.flags.num & IN_ONE_PIECE != IN_ONE_PIECE:
                in_one_piece = False
            key.append(value.dtype)
            key.append(value.shape)
            leaves.append(value)
            continue
        if kind is float or kind is int or kind is bool:
            key.append(kind)
            leaves.append(value)
            continue
        inner: Iterable[Any]
        if kind is dict:
            key += ("{", len(value), *value)
            inner = value.values()
        elif isinstance(value, tuple):
            key += ("(", len(value))
            inner = value
        elif hasattr(kind, "__dataclass_fields__"):
            names = [f.name for f in sys.modules["dataclasses"].fields(kind)]
            key += ("{", len(names), *names)
            inner = [getattr(value, name) for name in names]
        elif isinstance(value, np.generic):
            inner = (np.asarray(value),)
        else:
            return None
        found = _read(inner, key, leaves)
        if found is None:
            return None
        in_one_piece = in_one_piece and found
    return in_one_piece


def numbered(values: Iterable[Any], first: int = 0) -> tuple[list[Any], int]:
    """Arguments with the number of each leaf in its place, as `read` counts them from `first`, and the number of the next one."""
    found: list[Any] = []
    for value in values:
        inner: list[Any]
        if isinstance(value, tuple):
            inner, first = numbered(value, first)
            found.append(tuple(inner))
        elif isinstance(value, dict):
            inner, first = numbered(value.values(), first)
            found.append(dict(zip(value, inner, strict=True)))
        elif hasattr(type(value), "__dataclass_fields__"):
            names = [f.name for f in sys.modules["dataclasses"].fields(value)]
            inner, first = numbered([getattr(value, name) for name in names], first)
            found.append(dict(zip(names, inner, strict=True)))
        else:
            found.append(first)
            first += 1
    return found, first


def as_array(leaf: Any, dtype: np.dtype[Any]) -> Any:
    """A number as matching takes it, which found this element type for it; None for one that it does not hold."""
    if type(leaf) is float and dtype == np.float64:
        return np.asarray(leaf)
    weak = weak_array(leaf)
    return None if weak is None else settled(weak, dtype)
