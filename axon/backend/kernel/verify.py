"""The names of a kernel, checked where it is made: numba takes a local that no path has assigned for a zero.

Every name that is read is a parameter or has been assigned on every way that leads there; and no parameter is assigned, so that it
means one thing throughout.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from axon.backend.kernel.ir import (
    Assign,
    Body,
    Comment,
    Do,
    Expression,
    For,
    Function,
    If,
    Name,
    Return,
    Several,
    Statement,
    While,
    expressions,
    read,
)
from axon.base.passes import FormInvalid


class KernelInvalid(FormInvalid):
    """A kernel uses a name in a way that it must not: a defect of the writer."""


def verify(function: Function) -> None:
    """KernelInvalid names the function and the name."""
    _body(function, function.body, set(function.parameters))


def _body(function: Function, body: Body, known: set[Name]) -> set[Name] | None:
    """What is assigned after the statements where it was `known` before; None if nothing comes after them. `known` is taken."""
    for statement in body:
        for value in read(statement):
            for inner in expressions(value):
                if isinstance(inner, Name) and inner not in known:
                    raise KernelInvalid(f"{inner.like!r} is read before it is assigned, in the emitted function `{function.name}`")
        after = _after(function, statement, known)
        if after is None:
            return None
        known = after
    return known


def _after(function: Function, statement: Statement, known: set[Name]) -> set[Name] | None:
    match statement:
        case Assign(target=target):
            known |= _own(function, target.items if isinstance(target, Several) else (target,))
            return known
        case If(then=then, otherwise=otherwise):
            ways = [way for part in (then, otherwise) if (way := _body(function, part, set(known))) is not None]
            return set.intersection(*ways) if ways else None
        case For(name=name, body=body):  # it may have no turns
            _body(function, body, known | _own(function, (name,)))
            return known
        case While(body=body):
            _body(function, body, set(known))
            return known
        case Return():
            return None
        case Do() | Comment():
            return known
        case _:
            assert_never(statement)


def _own(function: Function, targets: Iterable[Expression]) -> set[Name]:
    """The names that are assigned."""
    found = {target for target in targets if isinstance(target, Name)}
    for name in found.intersection(function.parameters):
        raise KernelInvalid(f"the parameter {name.like!r} is assigned, in the emitted function `{function.name}`")
    return found
