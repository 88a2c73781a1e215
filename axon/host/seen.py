"""Calls on arrays such as a function was called with before: they are not matched again.

What matching asks of an array that has an element type (its type, element type and shape) is the key; so what it found for one such
call, it would find for the next. Tensors on the host are NumPy's arrays by then. Numbers, lists and structures are matched in each
call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from axon.base.data import dataclass
from axon.core.ir import Leaf, Program

IN_ONE_PIECE = 0x101  # of NumPy's flags: contiguous as in C, and aligned
MOST = 256  # calls that are remembered of a module; then they are forgotten, and learned anew

Key = tuple[Any, ...]
NOT_READY = object()  # what stands for the result of a call that is not ready, or stops


@dataclass(frozen=True, slots=True)
class KnownCall:
    """A program, and which argument each of its inputs is."""

    program: Program
    order: tuple[int, ...]

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        return [args[n] for n in self.order]


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A call on arrays in one piece of which nothing is asked any more: `replay` gives the flat results, None where it stops."""

    replay: Callable[[Sequence[Any]], list[Any] | None]
    known: KnownCall
    number: int | None  # of the result, where it is one array


class SeenCalls:
    """The calls of a module's functions. Several threads may share it: each call reads or writes once."""

    def __init__(self) -> None:
        self._calls: dict[Key, KnownCall] = {}
        self._ready: dict[Key | None, ReadyCall | None] = {}
        self._array: Any = None  # NumPy's, once an array was seen

    def find(self, key: Key | None) -> KnownCall | None:
        return self._calls.get(key) if key is not None else None

    def learn(self, key: Key | None, program: Program, args: Sequence[Any], inputs: Sequence[Any]) -> None:
        """What matching came to, if it took the arguments as they are."""
        leaves = [param.structure for param in program.params]
        order = {leaf.position: n for n, leaf in enumerate(leaves) if isinstance(leaf, Leaf)}
        if key is None or len(order) < len(leaves) or any(x is not args[order[i]] for i, x in enumerate(inputs)):
            return
        if len(self._calls) >= MOST:
            self._calls.clear()
        self._array = type(inputs[0]) if inputs else None
        self._calls[key] = KnownCall(program, tuple(order[i] for i in range(len(inputs))))


    def ready(self, name: str, target: str | None, sizes: Sequence[int], args: Sequence[Any]) -> ReadyCall | None:
        return self._ready.get(self._ready_key(name, target, sizes, args)) if self._ready else None

    def make_ready(
        self, name: str, target: str | None, sizes: Sequence[int], args: Sequence[Any], make: Callable[[], ReadyCall | None]
    ) -> None:
        """So that calls like this need not ask anything, unless that was tried before."""
        key = self._ready_key(name, target, sizes, args)
        if key is not None and key not in self._ready:
            if len(self._ready) >= MOST:
                self._ready.clear()
            self._ready[key] = make()

    def _ready_key(self, name: str, target: str | None, sizes: Sequence[int], args: Sequence[Any]) -> Key | None:
        parts: list[Any] = [name, target, *sizes]
        for x in args:
            if type(x) is not self._array or x.flags.num & IN_ONE_PIECE != IN_ONE_PIECE:
                return None
            parts.append(x.dtype)
            parts.append(x.shape)
        return tuple(parts)


def key_of(name: str, sizes: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Key | None:
    """By what a call is found; None for one that is matched each time."""
    from numpy import ndarray

    if kwargs or any(type(x) is not ndarray for x in args):
        return None
    return (name, *sizes, *[(x.dtype, x.shape) for x in args])
