"""Room that a caller gives for results (`out=`): arrays of the structure of the result, to be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from axon import core, libraries
from axon.diagnostics import AxonError, Diagnostic, Suggestion
from axon.values import describe, listed

Room = list[tuple[str, Any]]  # an array for each result, with its path


def room(function: str, structure: core.Structure, out: Any) -> Room | None:
    """The arrays of `out=`, None if it is not given. Raises AxonError for another structure than the result's."""
    if out is None:
        return None
    found: dict[int, tuple[str, Any]] = {}

    def walk(path: str, structure: core.Structure, value: Any) -> None:
        match structure:
            case core.Leaf(position=position):
                found[position] = (path, value)
            case core.TupleOf(items=items):
                if not isinstance(value, tuple) or len(value) != len(items):
                    raise _wrong(function, f"`{path}` must be a tuple of {len(items)}, like the result, not {describe(value)}")
                for i, (item, part) in enumerate(zip(items, value, strict=True), 1):
                    walk(f"{path}.{i}", item, part)
            case core.RecordOf(fields=fields):
                names = [name for name, _ in fields]
                if not isinstance(value, Mapping) or set(value) != set(names):
                    message = f"`{path}` must be a dict with the keys {listed(names)}, like the result, not {describe(value)}"
                    raise _wrong(function, message)
                for name, item in fields:
                    walk(f"{path}.{name}", item, value[name])

    walk("out", structure, out)
    return [found[i] for i in range(len(found))]


def check(function: str, room: Room, given: Room) -> None:
    """That NumPy's arrays among these can be written, each element at a place of its own. Raises AxonError.

    `given` are the same as the caller has them: perhaps arrays of another library, of which `room` are views.
    """
    for number, ((path, target), (_, own)) in enumerate(zip(room, given, strict=True)):
        library = libraries.of(own)
        if library is not None and not library.writable:
            raise _wrong(function, f"`{path}` is an array of {library.name}, and those are never written", "leave `out` out")
        if not isinstance(target, np.ndarray):
            continue
        if not target.flags.writeable:
            raise _wrong(function, f"`{path}` is {describe(target)} that is read-only", f"{path}.copy() can be written")
        if _overlaps_itself(target):
            message = f"`{path}` has several elements at one place in memory, so it cannot be written"
            raise _wrong(function, message, _fresh(own, target.shape, target.dtype))
        for other, before in room[:number]:
            if isinstance(before, np.ndarray) and _share(target, before):
                raise _wrong(function, f"`{path}` and `{other}` share memory: one result would overwrite the other")


def fill(function: str, room: Room, given: Room, results: Sequence[Any]) -> None:
    """Write results into NumPy arrays of the same element types and shapes, which `check` has seen.

    Raises AxonError, also where the library of the array that the caller has forbids it.
    """
    made = [np.asarray(result) for result in results]
    for (path, target), (_, own), result in zip(room, given, made, strict=True):
        if not isinstance(target, np.ndarray):
            raise _wrong(function, f"`{path}` must be a NumPy array, as the arguments are, not {describe(target)}")
        if target.shape != result.shape or target.dtype != result.dtype:
            what = f"an array of {result.dtype} with shape {result.shape}, like the result"
            raise _wrong(function, f"`{path}` must be {what}, not {describe(target)}", _fresh(own, result.shape, result.dtype))
    for path, own in given:
        library = libraries.of(own)
        try:
            if library is not None:
                library.writes([own])
        except TypeError as error:
            raise _wrong(function, f"`{path}` is {error}") from None
    for (_, target), result in zip(room, made, strict=True):
        target[...] = result


def _overlaps_itself(array: Any) -> bool:
    """Whether two elements lie at one place. Where each stride steps over all that smaller strides reach, none do."""
    if array.size == 0:
        return False
    steps = sorted((abs(stride), extent) for stride, extent in zip(array.strides, array.shape, strict=True) if extent > 1)
    reach = array.itemsize
    for stride, extent in steps:
        if stride == 0:
            return True
        if stride < reach:
            break
        reach += (extent - 1) * stride
    else:
        return False
    starts = np.zeros((), np.int64)
    for stride, extent in steps:
        starts = np.add.outer(starts, stride * np.arange(extent))
    return bool(np.diff(np.sort(starts, axis=None)).min() < array.itemsize)


def _share(a: Any, b: Any) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=100_000))  # type: ignore[arg-type]  # any number is allowed
    except RuntimeError:  # TooHardError: of strides so odd that nobody means them to interleave
        return True


def _fresh(own: Any, shape: tuple[int, ...], dtype: Any) -> str:
    """How a caller makes an array that fits, in the library of the one that does not."""
    library = libraries.of(own)
    if library is not None and library.name == "torch":
        return f"pass torch.empty({shape}, dtype=torch.{dtype.name})"
    kind = f"np.{dtype.name}" if hasattr(np, dtype.name) and dtype.name != "bool" else repr(dtype.name)
    return f"pass np.empty({shape}, {kind})"


def _wrong(function: str, message: str, help: str = "") -> AxonError:
    help_ = (Suggestion(help),) if help else ()
    return AxonError((Diagnostic("AX0505", f"{message}, in a call of `{function}`", suggestions=help_),))
