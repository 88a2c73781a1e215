"""A kernel without what nothing reads: writers need not know beforehand what they will need.

tidied              a Function -> the same without assignments to names that are never read
inlined             a Function -> the same, where what has a number for a name and is read once stands where it is read
without_comments    a Module -> the same without what only people read
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from axon.backend.kernel.ir import (
    TRUE,
    Assign,
    Body,
    Call,
    Choice,
    Comment,
    Constant,
    Do,
    Expression,
    External,
    For,
    Function,
    If,
    Kind,
    Module,
    Name,
    Operator,
    Prefix,
    Return,
    Several,
    Statement,
    While,
    evaluated,
    expressions,
    mentions,
    read,
)
from axon.base.data import replace


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


def inlined(function: Function) -> Function:
    """Only within a block, into what is evaluated in any case, and behind nothing but assignments to names that it does not read:
    so that what is computed stays the same. Names that are assigned again, or that a person chose, stay."""
    reads = Counter(e for e in evaluated(function.body) if isinstance(e, Name))
    targets = Counter(mentions(function.body)) - reads
    once = frozenset(name for name, count in reads.items() if count == 1 and targets[name] == 1 and name.kind is Kind.NUMBERED)
    return replace(function, body=_inlined(function.body, once))


def _inlined(body: Body, once: frozenset[Name]) -> Body:
    found: list[Statement] = []
    waiting: dict[Name, tuple[Assign, frozenset[Expression]]] = {}  # what may still be read elsewhere, and what it reads

    def keep(names: Iterable[Name]) -> None:
        for name in names:
            found.append(waiting.pop(name)[0])

    for statement in body:
        given = {name: assign.value for name, (assign, _) in waiting.items()}
        mine, used = _filled(statement, given)
        for name in used:
            del waiting[name]
        keep([e for value in read(mine) for e in expressions(value) if isinstance(e, Name) and e in waiting])
        match mine:
            case Assign(target=Name() as target, value=value) if target in once and _size(value) <= _LARGEST:
                waiting[target] = mine, frozenset(expressions(value))
                continue
            case Assign(target=Name() | Several()):
                assigned = set(mentions((Assign(mine.target, TRUE),)))
                keep([name for name, (_, values) in waiting.items() if values & assigned])
            case _:
                keep(list(waiting))
        match mine:
            case If(then=then, otherwise=otherwise):
                mine = replace(mine, then=_inlined(then, once), otherwise=_inlined(otherwise, once))
            case For(body=inner) | While(body=inner):
                mine = replace(mine, body=_inlined(inner, once))
        found.append(mine)
    keep(list(waiting))
    return tuple(found)


def _filled(statement: Statement, given: Mapping[Name, Expression]) -> tuple[Statement, set[Name]]:
    """A statement with what it evaluates for certain filled in, and what that was."""
    used: set[Name] = set()

    def visit(expression: Expression) -> Expression:
        match expression:
            case Name() if expression in given:
                used.add(expression)
                return given[expression]
            case Call(arguments=arguments):
                return replace(expression, arguments=tuple(map(visit, arguments)))
            case Operator(op="and" | "or", left=left):
                return replace(expression, left=visit(left))
            case Operator(left=left, right=right):
                return replace(expression, left=visit(left), right=visit(right))
            case Prefix(operand=operand):
                return replace(expression, operand=visit(operand))
            case Several(items=items):
                return replace(expression, items=tuple(map(visit, items)))
            case Choice(condition=condition):
                return replace(expression, condition=visit(condition))
            case _:
                return expression

    match statement:
        case _ if not given:
            return statement, used
        case Assign(value=value) | Do(value=value) | Return(value=value):
            return replace(statement, value=visit(value)), used
        case If(condition=condition):
            return replace(statement, condition=visit(condition)), used
        case _:
            return statement, used


def _size(value: Expression) -> int:
    return sum(not isinstance(inner, Constant | External) for inner in expressions(value))


_LARGEST = 12  # names, operations and calls of an expression that can still be read inside another one


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
