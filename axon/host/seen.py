"""Calls on arrays such as a function was called with before: they are not matched again.

What matching asks of an array that has an element type (its type, element type and shape) is the key; so what it found for one such
call, it would find for the next. Tensors on the host are NumPy's arrays by then. Numbers, lists and structures are matched in each
call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axon.base.data import dataclass
from axon.core.ir import Leaf, Program

MOST = 256  # calls that are remembered of a module; then they are forgotten, and learned anew

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KnownCall:
    """A program, and which argument each of its inputs is."""

    program: Program
    order: tuple[int, ...]

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        return [args[n] for n in self.order]


class SeenCalls:
    """The calls of a module's functions. Several threads may share it: each call reads or writes once."""

    def __init__(self) -> None:
        self._calls: dict[Key, KnownCall] = {}

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
        self._calls[key] = KnownCall(program, tuple(order[i] for i in range(len(inputs))))


def key_of(name: str, sizes: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Key | None:
    """By what a call is found; None for one that is matched each time."""
    from numpy import ndarray

    if kwargs or any(type(x) is not ndarray for x in args):
        return None
    return (name, *sizes, *[(x.dtype, x.shape) for x in args])
