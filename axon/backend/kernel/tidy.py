"""A kernel without what nothing reads: writers need not know beforehand what they will need.

tidied              a Function -> the same without assignments to names that are never read
without_comments    a Module -> the same without what only people read
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from axon.backend.kernel.ir import (
    Assign,
    Body,
    Call,
    Comment,
    Expression,
    For,
    Function,
    If,
    Module,
    Name,
    Return,
    Statement,
    While,
    evaluated,
    expressions,
)


def tidied(function: Function) -> Function:
    """See above; nor those that only what goes needs."""
    reads = Counter(e for e in evaluated(function.body) if isinstance(e, Name))
    body = function.body
    while True:
        before = reads.total()
        body = _kept(body, reads)
        if reads.total() == before:
            return replace(function, body=body)


def _kept(body: Body, reads: Counter[Name]) -> Body:
    """The statements without those that nothing needs; what these read is read so often less."""
    found: list[Statement] = []
    for statement in reversed(body):
        match statement:
            case Assign(target=Name() as name, value=value) if not reads[name] and not _acts(value):
                reads.subtract(e for e in expressions(value) if isinstance(e, Name))
            case If(then=then, otherwise=otherwise):
                otherwise = _kept(otherwise, reads)
                found.append(replace(statement, then=_kept(then, reads), otherwise=otherwise))
            case For(body=inner) | While(body=inner):
                found.append(replace(statement, body=_kept(inner, reads)))
            case _:
                found.append(statement)
    return tuple(reversed(found))


def _acts(value: Expression) -> bool:
    """Whether computing a value does something besides: a barrier that counts."""
    functions = (e.function for e in expressions(value) if isinstance(e, Call))
    return any(isinstance(function, Name) or function.startswith("cuda.") for function in functions)


def without_comments(module: Module) -> Module:
    body = tuple(
        replace(part, body=_uncommented(part.body), note="") if isinstance(part, Function) else replace(part, note="")
        for part in module.body
    )
    return replace(module, body=body, comments=())


def _uncommented(body: Body) -> Body:
    found: list[Statement] = []
    for statement in body:
        match statement:
            case Comment():
                pass
            case If(then=then, otherwise=otherwise):
                found.append(replace(statement, then=_uncommented(then), otherwise=_uncommented(otherwise), note=""))
            case For(body=inner) | While(body=inner):
                found.append(replace(statement, body=_uncommented(inner), note=""))
            case Return():
                found.append(statement)
            case _:
                found.append(replace(statement, note=""))
    return tuple(found)
