"""Output buffers: arrays that a caller gives for results (`out=`), of the structure of the result, to be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from axon.backend import libraries
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError
from axon.core import ir as core
from axon.host.values import describe, listed

Buffers = list[tuple[str, Any]]  # an array for each result, with its path


def matched(function: str, structure: core.Structure, out: Any) -> Buffers | None:
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


def check(function: str, buffers: Buffers, given: Buffers) -> None:
    """That NumPy's arrays among these can be written, each element at a place of its own. Raises AxonError.

    `given` are the same as the caller has them: perhaps arrays of another library, of which `buffers` are views.
    """
    for number, ((path, target), (_, own)) in enumerate(zip(buffers, given, strict=True)):
        library = libraries.of(own)
        if library is not None and not library.writable:
            raise _wrong(function, f"`{path}` is an array of {library.name}, and those are never written", "leave `out` out")
        if not isinstance(target, np.ndarray):
            continue
        if not target.flags.writeable:
            raise _wrong(function, f"`{path}` is {describe(target)} that is read-only", f"{path}.copy() can be written")
        if libraries.overlaps_itself(target.shape, target.strides, target.itemsize):
            message = f"`{path}` has several elements at one place in memory, so it cannot be written"
            raise _wrong(function, message, _fresh(own, target.shape, target.dtype))
        for other, before in buffers[:number]:
            if isinstance(before, np.ndarray) and _share(target, before):
                raise _wrong(function, f"`{path}` and `{other}` share memory: one result would overwrite the other")


def fits(function: str, buffers: Buffers, given: Buffers, results: Sequence[tuple[tuple[int, ...] | None, Any]]) -> None:
    """That NumPy arrays have the shapes and element types of the results. Raises AxonError.

    None stands for a shape that only data decide.
    """
    for (path, target), (_, own), (shape, dtype) in zip(buffers, given, results, strict=True):
        if not isinstance(target, np.ndarray) or libraries.is_masked(target):
            raise _wrong(function, f"`{path}` must be a NumPy array, as the arguments are, not {describe(target)}")
        if (shape is not None and target.shape != shape) or target.dtype != dtype:
            what = f"an array of {dtype}" + ("" if shape is None else f" with shape {shape}")
            fresh = "" if shape is None else _fresh(own, shape, dtype)
            raise _wrong(function, f"`{path}` must be {what}, like the result, not {describe(target)}", fresh)


def fill(function: str, buffers: Buffers, given: Buffers, results: Sequence[Any]) -> None:
    """Write results into NumPy arrays, which `check` has seen. Raises AxonError for arrays that do not fit.

    Also where the library of the array that the caller has forbids it.
    """
    made = [np.asarray(result) for result in results]
    fits(function, buffers, given, [(result.shape, result.dtype) for result in made])
    for path, own in given:
        library = libraries.of(own)
        try:
            if library is not None:
                library.writes([own])
        except TypeError as error:
            raise _wrong(function, f"`{path}` is {error}") from None
    for (_, target), result in zip(buffers, made, strict=True):
        np.asarray(target)[...] = result  # as memory: a subclass may write what it likes


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
