"""The names of a kernel, checked where it is made: numba takes a local that no path has assigned for a zero.

Every name that is read is a parameter or has been assigned on every way that leads there; and no parameter is assigned, so that it
means one thing throughout.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable
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
    Kind,
    Module,
    Name,
    Return,
    Several,
    Statement,
    While,
    expressions,
    read,
    surroundings,
)
from axon.base.passes import FormInvalid

_BUILTINS = frozenset(dir(builtins))


class KernelInvalid(FormInvalid):
    """A kernel uses a name in a way that it must not: a defect of the writer."""


def verify(function: Function, outside: Collection[Name] = ()) -> None:
    """KernelInvalid names the function and the name; some names are known `outside`."""
    _body(function, function.body, {*outside, *function.parameters})


def verify_module(module: Module) -> None:
    """The same of all functions of a module, and of what is computed before them; and all else that they find is imported."""
    known: set[Name] = set()
    for part in module.body:
        if isinstance(part, Function):
            verify(part, known)
            known |= {part.name} if isinstance(part.name, Name) else set()
        else:
            known = _body(Function("before the kernel", (), (), ()), (part,), known) or known
    given = {name for group in module.imports for one in group for name in one.names}
    given |= {name.like for name in module.names if name.kind is Kind.FIXED}
    for name in sorted(surroundings(module.statements) - given - _BUILTINS):
        raise KernelInvalid(f"{name!r} is not defined, in the emitted module")


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
