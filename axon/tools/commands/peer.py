"""A function of Python's that `axon bench --against peer.py` runs beside one of Axon's: it gets the same arguments, by position."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from axon.backend import libraries
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.nearest import meant

if TYPE_CHECKING:
    from axon.base.diagnostics import Suggestion

Array: TypeAlias = "np.ndarray[Any, Any]"
Peer: TypeAlias = Callable[..., Any]


def load(text: str, default: str) -> tuple[str, Peer]:
    """The function that `PEER.py[:NAME]` names, and what to call it; without a name, the one called `default`. Raises AxonError.

    The file is run as a module: what it prints, it prints.
    """
    path, colon, name = text.rpartition(":")
    if not colon or os.path.exists(text) or not name.isidentifier():
        path, name = text, default
    if not os.path.isfile(path):
        raise AxonError((Diagnostic("AX0408", f"cannot read `{path}`", notes=("there is no such file",)),))
    spec = spec_from_file_location("axon_bench_peer", path)
    if spec is None or spec.loader is None:
        raise _wrong(f"`{path}` is no module of Python", "its name ends in .py")
    module = module_from_spec(spec)
    sys.modules["axon_bench_peer"] = module  # as pickling and dataclasses ask
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # what lies beside it, as where Python runs it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _wrong(f"`{path}` cannot be imported", _told(error)) from error
    finally:
        sys.path.pop(0)
    found = getattr(module, name, None)
    if not callable(found):
        own = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        note = "it has " + (", ".join(f"`{n}`" for n in own) or "no functions")
        raise _wrong(f"`{path}` has no function `{name}`", note, meant(name, own))
    return f"{os.path.splitext(os.path.basename(path))[0]}.{name}", found


def called(name: str, peer: Peer, arguments: tuple[Any, ...]) -> Callable[[], Any]:
    """A call of the function, whose errors say that they are its own."""

    def call() -> Any:
        try:
            return peer(*arguments)
        except Exception as error:
            raise _wrong(f"`{name}` failed", _told(error)) from error

    return call


def error_between(ours: Any, peers: Any, name: str) -> float:
    """The largest difference of two results, over the largest number that is in the peer's; where that is 0, itself.

    Raises AxonError where they differ in structure or shape.
    """
    worst = largest = 0.0
    for path, mine, theirs in _pairs(ours, peers, "the result", name):
        if mine.shape != theirs.shape:
            raise _wrong(f"{path} is of shape {list(mine.shape)}, and of `{name}` of shape {list(theirs.shape)}")
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        finite = np.isfinite(theirs)
        if not (same | (finite & np.isfinite(mine))).all():
            return float("inf")
        worst = max(worst, float(np.abs(mine[~same] - theirs[~same]).max(initial=0.0)))
        largest = max(largest, float(np.abs(theirs[finite]).max(initial=0.0)))
    return worst / largest if largest else worst


def _pairs(ours: Any, peers: Any, path: str, name: str) -> list[tuple[str, Array, Array]]:
    """The arrays of two results side by side, in f64."""
    if isinstance(ours, dict):
        if not hasattr(peers, "keys") or set(peers.keys()) != ours.keys():
            raise _wrong(f"{path} is a record of {', '.join(ours)}, and of `{name}` {_kind(peers)}", "a record is a dict in Python")
        return [pair for key in ours for pair in _pairs(ours[key], peers[key], f"`{key}` of {path}", name)]
    if isinstance(ours, tuple):
        if not isinstance(peers, tuple | list) or len(peers) != len(ours):
            raise _wrong(f"{path} is a tuple of {len(ours)}, and of `{name}` {_kind(peers)}")
        items = enumerate(zip(ours, peers, strict=True), 1)
        return [pair for i, (mine, theirs) in items for pair in _pairs(mine, theirs, f"item {i} of {path}", name)]
    return [(path, _plain(ours, path, name), _plain(peers, path, name))]


def _kind(value: Any) -> str:
    if hasattr(value, "keys"):
        return f"a record of {', '.join(map(str, value.keys()))}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def _plain(value: Any, path: str, name: str) -> Array:
    """A result as NumPy's array in f64, wherever it lies."""
    for move in ("detach", "cpu"):
        value = getattr(value, move)() if hasattr(value, move) else value
    try:
        return np.asarray(libraries.hosted(value)).astype(np.float64)
    except (TypeError, ValueError):
        raise _wrong(f"{path} is {_kind(value)} of `{name}`, and no array of numbers") from None


def _told(error: Exception) -> str:
    """An exception in a line, and the last line of the user's that it passed."""
    words = " ".join(str(error).split())[:500]
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if trace.tb_frame.f_globals.get("__name__") == "axon_bench_peer":
            place = f", at {os.path.basename(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.lineno:
        place = f", at line {error.lineno}"
    return f"{type(error).__name__}: {words}{place}"


def _wrong(message: str, note: str = "", help: tuple[Suggestion, ...] = ()) -> AxonError:
    return AxonError((Diagnostic("AX0513", message, notes=(note,) if note else (), suggestions=help),))
