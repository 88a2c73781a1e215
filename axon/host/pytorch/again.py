"""Operators that a graph from a cache names, which nobody has made in this process.

`torch.compile` keeps on disk what it has made of a graph, its derivative too. The next process traces the program's calls, which
makes their operators; then the graph is found, AOTAutograd traces nothing, and operators of derivatives and batches would never
be made. So `torch.ops.axon` makes them where they are asked for by name. A name says what is beside which function,
`f_vjp_0_1_of_0`, and holds the digest of a text: of the calls that this process knows, it is of the one that has this text.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import torch

from axon.base.errors import AxonError
from axon.core.walk import results_of
from axon.host.call import Callee, Session
from axon.host.pytorch import operators

_NUMBERS = r"\d+(?:_\d+)*"
_STEP = rf"_(?:(vjp|jvp)_({_NUMBERS})_of_({_NUMBERS})|mapped_({_NUMBERS}))_*"


class Packet(torch._ops.OpOverloadPacket):  # type: ignore[misc]
    """An operator, of which overloads are made when they are asked for."""

    __module__ = "torch._ops"

    def __getattr__(self, overload: str) -> Any:
        try:
            return super().__getattr__(overload)
        except AttributeError:
            if overload.startswith("_") or not made(self.__name__):
                raise
            return super().__getattr__(overload)


class Namespace(type(torch.ops.axon)):  # type: ignore[misc]
    """`torch.ops.axon`."""

    __module__ = "torch._ops"  # PyTorch pickles operators by it

    def __getattr__(self, name: str) -> Any:
        try:
            packet = super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or not made(name):
                raise
            packet = super().__getattr__(name)
        packet.__class__ = Packet
        return packet


def made(name: str) -> bool:
    """Make the operators of this name, one for each structure of arguments that calls were traced with; whether there are any."""
    with operators.LOCK:
        if name in operators.registering:
            return False
        found = [_made(name, operator, args) for operator, args in list(operators.asked)]
        return any(found)


def _made(name: str, operator: operators.Operator, args: tuple[Any, ...]) -> bool:
    """The same of what is beside one operator, for a call of arguments like these."""
    own = operators.word(operator.callee.name)
    target = f"_{operator.target}" if operator.target else ""
    found = re.search(rf"_{re.escape(own)}((?:{_STEP})+){target}$", name)
    if found is None:
        return False
    with suppress(AxonError, IndexError):  # then it is the name of something else
        for operation, by, of, over in re.findall(_STEP, found[1]):
            operator, args = _beside(operator, args, operation, _numbers(by), _numbers(of), _numbers(over))
        return operator.packet == name
    return False


def _beside(
    operator: operators.Operator, args: tuple[Any, ...], operation: str, by: list[int], of: list[int], over: list[int]
) -> tuple[operators.Operator, tuple[Any, ...]]:
    """What `Recorded` calls for a derivative or a batch."""
    flat = operator.form(args).flat
    made: tuple[Session, Callee]
    if operation == "vjp":
        made, moved = flat.pullback(by, of), _results(operator, args, of)
    elif operation == "jvp":
        made, moved = flat.pushforward(by, of), [args[n] for n in by]
    else:
        made, moved = flat.mapped(over), []
        args = tuple(x[None] if n in over else x for n, x in enumerate(args))
    session, callee = made
    keys = tuple(map(_key, (*args, *moved)))
    packet, overload, order, *_ = operators.found(session, callee, operator.target, keys)
    given = [*args, *moved]
    return operators.existing(packet, overload), tuple(given[n] for n in order)


def _results(operator: operators.Operator, args: tuple[Any, ...], of: list[int]) -> list[Any]:
    held = operator.given(list(map(operators.hollow, args)))
    _, program = operator.session.specialize(operator.callee, held, operator.given(args))
    results = results_of(program)
    return [operators.example(results[n]) for n in of]


def _key(value: Any) -> tuple[Any, ...]:
    return ("tensor", value.dtype, value.ndim) if isinstance(value, torch.Tensor) else ("number", type(value))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split("_") if n]


def watch() -> None:
    """Have `torch.ops.axon` ask here for what it does not know."""
    if not isinstance(torch.ops.axon, Namespace):
        torch.ops.axon.__class__ = Namespace
