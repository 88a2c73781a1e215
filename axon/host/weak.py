"""Python's numbers and lists of them: values that have no element type of their own, and take the one that is wanted.

A list holds Python's numbers or other lists. What has an element type, an array or a number of NumPy's, may not stand in one: it
would be converted in silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from axon.backend import libraries

Array: TypeAlias = "np.ndarray[Any, Any]"

_DEEPEST = 64  # dimensions, more than which NumPy has none
_STACK = {"torch": "torch.stack({})", "cupy": "cupy.stack({})", "jax": "jnp.stack({})"}


def weak_array(value: Any) -> Array | None:
    """A number, or nested lists of numbers, as bool, int64 or float64, or uint64 where int64 is too narrow; None for what is
    neither. `why_not` says why."""
    if isinstance(value, bool | int | float):
        try:
            return np.asarray(value, None if isinstance(value, bool | float) else np.int64 if value < 1 << 63 else np.uint64)
        except OverflowError:
            return None
    if not isinstance(value, list) or not _are_numbers(kinds := _kinds(value)):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):  # ragged
        return None
    if array.size == 0:
        array = array.astype(np.float64)
    elif array.dtype.kind == "f" and not any(issubclass(kind, float) for kind in kinds):
        return None  # integers of which NumPy makes floats, since one of them has 64 bits without a sign
    return array if array.dtype.kind in "bf" or array.dtype in (np.int64, np.uint64) else None


def settled(weak: Array, dtype: np.dtype[Any]) -> Array | None:
    """Numbers with an element type of their kind; None if it does not hold them: see `outside`."""
    if weak.size and dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not info.min <= int(weak.min()) <= int(weak.max()) <= info.max:
            return None
    with np.errstate(over="ignore"):
        found = weak.astype(dtype)
    return None if _lost(weak, found).any() else found


def outside(weak: Array, dtype: np.dtype[Any]) -> Any:
    """The first of the numbers that `settled` finds not to be held."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return next(n for n in (int(weak.min()), int(weak.max())) if not info.min <= n <= info.max)
    with np.errstate(over="ignore"):
        return weak[_lost(weak, weak.astype(dtype))].flat[0]


def _lost(weak: Array, settled: Array) -> Array:
    return np.isfinite(weak) & ~np.isfinite(settled)


def why_not(value: list[Any], name: str, wanted: str = "") -> tuple[str, str]:
    """What a list is that is no block of numbers, and what to pass instead of it (or nothing); `name` is what the caller wrote,
    `wanted` NumPy's name of the element type that is needed, if one is.
    """
    kinds = _kinds(value)
    if list in kinds:
        return f"a list of more than {_DEEPEST} levels", ""
    for kind in sorted(kinds, key=lambda kind: kind.__name__):
        library = libraries.of_type(kind)
        if library is not None or issubclass(kind, np.ndarray):
            stack = _STACK.get(library.name, "") if library is not None else "np.stack({})"
            return "a list that holds arrays", stack.format(name)
        if issubclass(kind, np.generic):
            return f"a list that holds numbers of NumPy's type {kind.__name__}", f"np.array({name}{wanted and f', {wanted}'})"
        if not issubclass(kind, bool | int | float):
            return f"a list that holds a value of the Python type {kind.__name__}", ""
    if not _are_numbers(kinds):
        return "a list that holds both numbers and bools", ""
    try:
        np.asarray(value)
    except (ValueError, OverflowError):
        return "a list whose parts differ in length", ""
    return "a list that holds an integer of more than 64 bits", ""


def _are_numbers(kinds: set[type]) -> bool:
    """Whether numbers of these types are of one kind: integers and floats mix, as literals do; bools stand alone."""
    plain = all(issubclass(kind, bool | int | float) and not issubclass(kind, np.generic) for kind in kinds)
    return plain and (bool not in kinds or len(kinds) == 1)


def _kinds(value: list[Any], depth: int = 1) -> set[type]:
    """The types of what stands in nested lists; `list` itself if they are nested too deep."""
    kinds = set(map(type, value))
    if depth == _DEEPEST or not any(issubclass(kind, list) for kind in kinds):
        return kinds
    inner: Iterable[list[Any]] = (item for item in value if isinstance(item, list))
    return {kind for kind in kinds if not issubclass(kind, list)}.union(*(_kinds(item, depth + 1) for item in inner))
