"""Kernels as text: the Python of a function, whose names get their texts here.

written    a Function -> its text, and what its names are called
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import kwlist
from typing import assert_never

from axon.backend.kernel.ir import (
    Assign,
    Body,
    Call,
    Comment,
    Constant,
    Do,
    Expression,
    For,
    Function,
    Given,
    If,
    Item,
    Kind,
    Name,
    Operator,
    Prefix,
    Return,
    Several,
    Statement,
    While,
    around,
    evaluated,
    mentions,
)

_BINDS = {
    op: level
    for level, ops in enumerate(("or", "and", "not", "< <= > >= == !=", "|", "^", "&", "<< >>", "+ -", "* // %"))
    for op in ops.split()
}
_BITS = frozenset(("|", "^", "&", "<<", ">>"))
_COMPARES, _SIGNED, _TIGHT = _BINDS["<"], 10, 11
_LONGEST = 24  # characters of a readable name


@dataclass(frozen=True, slots=True)
class Written:
    lines: tuple[str, ...]
    names: Mapping[Name, str]


def written(function: Function) -> Written:
    """The function's lines. No name has the text of anything that it finds in its surroundings."""
    body = function.body
    given = {e.text.partition(".")[0] for e in evaluated(body) if isinstance(e, Given)}
    mentioned = {*function.parameters, *mentions(body)}
    names = texts([name for name in function.names if name in mentioned], {*kwlist, "__debug__", "range", *around(body), *given})
    parameters = ", ".join(names[p] for p in function.parameters)
    lines = [f"def {function.name}({parameters}):", *_body(body, names, "    ")]
    return Written(tuple(lines), names)


def texts(names: Sequence[Name], taken: Collection[str]) -> dict[Name, str]:
    """A text for each name: first those that want no other, then the others in their order."""
    found = {name: name.like for name in names if name.kind is Kind.FIXED}
    used = {*taken, *found.values()}
    number = 0
    for name in names:
        if name.kind is Kind.READABLE:
            found[name] = free(f"{found[name.of] if name.of else ''}{name.like}", used)
        elif name.kind is Kind.NUMBERED:
            number += 1
            while f"{name.like}{number}" in used:
                number += 1
            found[name] = f"{name.like}{number}"
        used.add(found[name])
    return found


def free(like: str, used: Collection[str]) -> str:
    """The first text that reads like this one and is not used: a letter and word characters."""
    stem = re.sub(r"[^A-Za-z0-9_]", "", like)[:_LONGEST].strip("_") or "x"
    stem = stem if stem[0].isalpha() else f"x{stem}"
    name, number = stem, 2
    while name in used:
        name, number = f"{stem}{number}", number + 1
    return name


def _body(body: Body, names: Mapping[Name, str], indent: str) -> Iterator[str]:
    if all(isinstance(statement, Comment) for statement in body):
        yield f"{indent}pass"
    for statement in body:
        for line in _statement(statement, names):
            yield f"{indent}{line}"


def _statement(statement: Statement, names: Mapping[Name, str]) -> Iterator[str]:
    def text(expression: Expression) -> str:
        return _text(expression, names)[0]

    match statement:
        case Assign(target=Several(items=targets), value=Several(items=values)):
            yield _noted(f"{', '.join(map(text, targets))} = {', '.join(map(text, values))}", statement.note)
        case Assign(target=target, value=value):
            yield _noted(f"{text(target)} = {text(value)}", statement.note)
        case Do(value=value):
            yield _noted(text(value), statement.note)
        case If(condition=condition, then=then, otherwise=otherwise):
            yield _noted(f"if {text(condition)}:", statement.note)
            yield from _body(then, names, "    ")
            if len(otherwise) == 1 and isinstance(otherwise[0], If):
                first, *rest = _statement(otherwise[0], names)
                yield f"el{first}"
                yield from rest
            elif otherwise:
                yield "else:"
                yield from _body(otherwise, names, "    ")
        case For(name=name, bounds=bounds, body=body):
            yield _noted(f"for {names[name]} in range({', '.join(map(text, bounds))}):", statement.note)
            yield from _body(body, names, "    ")
        case While(condition=condition, body=body):
            yield _noted(f"while {text(condition)}:", statement.note)
            yield from _body(body, names, "    ")
        case Comment(text=said):
            yield f"# {said}"
        case Return(value=value):
            yield f"return {text(value)}"
        case _:
            assert_never(statement)


def _noted(line: str, note: str) -> str:
    return f"{line}  # {note}" if note else line


def _text(expression: Expression, names: Mapping[Name, str]) -> tuple[str, int]:
    """The text of an expression, and how tightly it binds."""

    def plain(inner: Expression) -> str:
        return _text(inner, names)[0]

    def tight(inner: Expression, least: int, op: str = "") -> str:
        text, binds = _text(inner, names)
        return f"({text})" if binds < least or _is_unclear(op, inner) else text

    match expression:
        case Name():
            return names[expression], _TIGHT
        case Constant(value=value):
            return _constant(value)
        case Given(text=text):
            return text, _TIGHT
        case Call(function=function, arguments=arguments):
            name = function if isinstance(function, str) else names[function]
            return f"{name}({', '.join(map(plain, arguments))})", _TIGHT
        case Operator(op=op, left=left, right=right):
            binds = _BINDS[op]
            # Python reads `a < b < c` as two comparisons of one b.
            return f"{tight(left, binds + (binds == _COMPARES), op)} {op} {tight(right, binds + 1, op)}", binds
        case Prefix(op="not", operand=operand):
            return f"not {tight(operand, _BINDS['not'])}", _BINDS["not"]
        case Prefix(op=op, operand=operand):
            return f"{op}{tight(operand, _SIGNED)}", _SIGNED
        case Item(of=of, place=place):
            return f"{tight(of, _TIGHT)}[{plain(place)}]", _TIGHT
        case Several(items=items):
            return f"({', '.join(map(plain, items))}{',' if len(items) == 1 else ''})", _TIGHT
        case _:
            assert_never(expression)


def _is_unclear(op: str, inner: Expression) -> bool:
    """Whether an operand is better written in parentheses, though it needs none: few know how tightly operators of bits bind."""
    if not isinstance(inner, Operator) or inner.op == op:
        return False
    return op in _BITS or (_BINDS.get(op) == _COMPARES and inner.op in _BITS) or (op, inner.op) == ("or", "and")


def _constant(value: float) -> tuple[str, int]:
    """A number; numba takes the least i64, written as one number, for a u64 with a sign."""
    if value == -(2**63) and isinstance(value, int):
        return "(-9223372036854775807 - 1)", _TIGHT
    text = repr(value)
    return text, _SIGNED if text.startswith("-") else _TIGHT
