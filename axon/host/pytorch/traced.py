"""A call as PyTorch traces it: arguments taken apart into tensors and numbers, one operator, results put together.

`torch.compile` looks into this file and nothing else of Axon's: what is asked of Axon is asked once, while it traces, and taken for
constant (`constant`). So the text is plain: tuples for structures, no dataclasses, no `match`. Outside of `torch.compile` the same
text runs as Python, where a mode of PyTorch's watches what is computed (`torch.export`, `make_fx`, fake tensors).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import torch

from axon.backend.libraries import constant, untraced
from axon.base.errors import AxonError
from axon.host.call import arguments, session_of
from axon.host.pytorch.leaves import BOOLS, INTS, apart, tensor, together


def traced(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], target: Any, out: Any) -> Any:
    token, name = function._session.token, function._callee.name
    if target is not None and not isinstance(target, str):
        kwargs, target = {**kwargs, "target": target}, None
    if out is not None and takes_out(token, name):
        kwargs, out = {**kwargs, "out": out}, None
    values = (*args, *kwargs.values())
    leaves: list[Any] = []
    ordered = order_of(token, name, len(args), tuple(kwargs))
    keys = tuple([("()",) if n is None else apart(values[n], leaves) for n in ordered])
    if out is None and not _holds(keys, ("tensor", "array")):
        known = (token, name, target, tuple(map(index, function._sizes)), tuple(map(_number, leaves)), keys)
        count, result = structure_of(*known)
        return together(result, [result_of(*known, n) for n in range(count)])
    if not _holds(keys, ("tensor",)):
        return outside(function, args, kwargs, target, out)
    if out is not None:
        return _written(function, target, keys, leaves, out)
    packet, overload, order, dtypes, result = operator_of(token, name, target, keys)
    operator = getattr(getattr(torch.ops.axon, packet), overload)
    given = [tensor(leaves[n], dtype) for n, dtype in zip(order, dtypes, strict=True)]
    return together(result, operator(*function._sizes, *given))


def _written(function: Any, target: str | None, keys: tuple[Any, ...], leaves: list[Any], out: Any) -> Any:
    """A call whose results go into `out`, which is given back."""
    room: list[Any] = []
    token, name = function._session.token, function._callee.name
    packet, overload, order, dtypes, places = into_of(token, name, target, keys, apart(out, room))
    operator = getattr(getattr(torch.ops.axon, packet), overload)
    given = [tensor(leaves[n], dtype) for n, dtype in zip(order, dtypes, strict=True)]
    operator(*function._sizes, *given, *[room[n] for n in places])
    return out


def _holds(keys: Sequence[tuple[Any, ...]], wanted: tuple[str, ...]) -> bool:
    """Whether a leaf of some kind is among the arguments."""
    for kind, *items in keys:
        if kind in wanted or (kind == "()" and _holds(items, wanted)) or (kind == "{}" and _holds(items[1:], wanted)):
            return True
    return False


def _number(leaf: Any) -> Any:
    """A number without a symbol, of which PyTorch traces anew for another."""
    return index(leaf) if isinstance(leaf, INTS) and not isinstance(leaf, BOOLS) else leaf


# ── what is asked while it is traced ────────────────────────────────────────────────────────────────────────────────────


@untraced
def outside(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], target: Any, out: Any) -> Any:
    """A call beside the graph, which ends before it: of NumPy's arrays alone."""
    return function(*args, target=target, out=out, **kwargs)


@constant
def takes_out(token: str, name: str) -> bool:
    return any(p.name == "out" for p in session_of(token).callee(name).parameters)


@constant
def order_of(token: str, name: str, count: int, names: tuple[str, ...]) -> tuple[int | None, ...]:
    """Which of the values in a call each parameter gets; None stands for `()`, which was left out."""
    numbers: tuple[Any, ...] = tuple(range(count))
    try:
        found = arguments(session_of(token).callee(name), numbers, dict(zip(names, range(count, count + len(names)), strict=True)))
    except AxonError as error:
        raise _raised(error) from error
    return tuple(None if n == () else n for n in found)


@constant
def operator_of(token: str, name: str, target: str | None, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operator of a call, by its names; which of the leaves it takes, the element types of lists, the result's structure."""
    from axon.host.pytorch.again import watch
    from axon.host.pytorch.operators import found

    watch()
    session = session_of(token)
    try:
        return found(session, session.callee(name), target, keys)
    except AxonError as error:
        raise _raised(error) from error


@constant
def into_of(token: str, name: str, target: str | None, keys: tuple[Any, ...], out: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same of the operator that writes into tensors: instead of the structure, the order in which it takes these."""
    from axon.host.pytorch.into import found_into

    session = session_of(token)
    try:
        return found_into(session, session.callee(name), target, keys, out)
    except AxonError as error:
        raise _raised(error) from error


@constant
def structure_of(
    token: str, name: str, target: str | None, sizes: tuple[int, ...], leaves: tuple[Any, ...], keys: tuple[Any, ...]
) -> tuple[int, Any]:
    """How many results a call without tensors has, and their structure."""
    from axon.host.pytorch.operators import computed

    session = session_of(token)
    try:
        results, structure = computed(session, session.callee(name), target, sizes, leaves, keys)
    except AxonError as error:
        raise _raised(error) from error
    return len(results), structure


@constant
def result_of(
    token: str, name: str, target: str | None, sizes: tuple[int, ...], leaves: tuple[Any, ...], keys: tuple[Any, ...], n: int
) -> Any:
    """One of them: a number, or an array of NumPy's."""
    from axon.host.pytorch.operators import computed

    session = session_of(token)
    return computed(session, session.callee(name), target, sizes, leaves, keys)[0][n]


def _raised(error: AxonError) -> Exception:
    """An error, as `torch.compile` passes errors of a program on where it traces one."""
    if torch._guards.TracingContext.try_get() is None:
        return error
    raised: Exception = torch._dynamo.exc.TorchRuntimeError(str(error))
    return raised
