"""Calls like one that was made before: they are not matched again, and at last nothing is asked of them.

`axon.host.given` says what a call is like: what matching found for one, it would find for the next. Tensors on the host are NumPy's
arrays by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from axon.base.data import dataclass
from axon.core.ir import Program

if TYPE_CHECKING:
    from axon.host.given import Given, Key

MOST = 256  # calls that are remembered of a module; then they are forgotten, and learned anew

NOT_READY = object()  # what stands for the result of a call that is not ready, or stops


@dataclass(frozen=True, slots=True)
class KnownCall:
    """A program, and which leaf of the arguments each of its inputs is; `numbers` are those that are one of Python's numbers, and
    the element type of each, as NumPy has it."""

    program: Program
    order: tuple[int, ...]
    numbers: tuple[tuple[int, Any], ...]
    as_array: Callable[[Any, Any], Any]

    def inputs(self, given: Given) -> list[Any] | None:
        """None where a number is not held by the element type that it had to have before."""
        leaves = given.leaves
        found = [leaves[n] for n in self.order]
        for n, dtype in self.numbers:
            if (array := self.as_array(found[n], dtype)) is None:
                return None
            found[n] = array
        return found


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A call on arrays in one piece of which nothing is asked any more: `replay` gives the flat results, None where it stops."""

    replay: Callable[[Sequence[Any]], list[Any] | None]
    known: KnownCall
    finish: Callable[[list[Any]], Any]  # the result, of the flat ones
    alike: Callable[[Sequence[Any]], Callable[..., int] | None]  # of arrays: whether others are like them


class LastCall(NamedTuple):
    """A function's last ready call, if that was of arrays that its program takes in this order: a call whose arrays are `alike`
    needs no key."""

    target: str | None
    alike: Callable[..., int]
    call: ReadyCall


class SeenCalls:
    """The calls of a module's functions. Several threads may share it: each call reads or writes once."""

    def __init__(self) -> None:
        self._calls: dict[Key, KnownCall] = {}
        self._ready: dict[tuple[str | None, Key], ReadyCall | None] = {}
        self._read: Callable[..., Given | None] | None = None  # how a call is read, which needs NumPy, once one was

    def find(self, given: Given | None) -> tuple[KnownCall, list[Any]] | None:
        """A call like this, and the inputs of this one."""
        known = self._calls.get(given.key) if given is not None else None
        if known is None or given is None:
            return None
        inputs = known.inputs(given)
        return None if inputs is None else (known, inputs)

    def learn(self, given: Given, program: Program, numbered: Sequence[Any], inputs: Sequence[Any]) -> None:
        """What matching came to; `numbered` are the arguments of the program with the number of each leaf in its place."""
        from axon.host.given import as_array, read
        from axon.host.values import flatten

        places = flatten(program.params, numbered)
        order = tuple(int(places[n][1]) for n in range(len(inputs)))
        leaves = [given.leaves[n] for n in order]
        numbers = tuple((n, inputs[n].dtype) for n, leaf in enumerate(leaves) if not hasattr(leaf, "dtype"))
        given_dtypes = [getattr(leaf, "dtype", array.dtype) for leaf, array in zip(leaves, inputs, strict=True)]
        if any(dtype != array.dtype for dtype, array in zip(given_dtypes, inputs, strict=True)):
            return  # raw bytes that were given an element type
        if len(self._calls) >= MOST:
            self._calls.clear()
        self._calls[given.key] = KnownCall(program, order, numbers, as_array)
        self._read = read

    def ready(
        self, name: str, target: str | None, sizes: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[ReadyCall, list[Any]] | None:
        """A call like this of which nothing is asked, and the inputs of this one."""
        if not self._ready or self._read is None:
            return None
        given = self._read(name, sizes, args, kwargs)
        if given is None or not given.in_one_piece or (call := self._ready.get((target, given.key))) is None:
            return None
        inputs = call.known.inputs(given)
        return None if inputs is None else (call, inputs)

    def last(self, target: str | None, args: Sequence[Any], call: ReadyCall) -> LastCall | None:
        """What another call like this one is known by at once; None where its key is read."""
        if call.known.numbers or call.known.order != tuple(range(len(args))):
            return None
        alike = call.alike(args)
        return None if alike is None else LastCall(target, alike, call)

    def make_ready(self, target: str | None, given: Given, make: Callable[[], ReadyCall | None]) -> None:
        """So that calls like this need not ask anything, unless that was tried before."""
        if given.in_one_piece and (target, given.key) not in self._ready:
            if len(self._ready) >= MOST:
                self._ready.clear()
            self._ready[target, given.key] = make()

