"""Kernels as text: the Python of a function or of a module, whose names get their texts here.

written    a Function -> its text, and what its names are called
printed    a Module -> its text
bare       a Module -> its text without comments, its names numbered: equal for modules that differ in these alone
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from keyword import kwlist
from typing import assert_never

from axon.backend.kernel.ir import (
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
    Import,
    Item,
    Kind,
    Module,
    Name,
    Operator,
    Prefix,
    Return,
    Several,
    Statement,
    While,
    mentions,
    surroundings,
)
from axon.backend.kernel.tidy import without_comments
from axon.base.data import dataclass

_BINDS = {
    op: level
    for level, ops in enumerate(("or", "and", "not", "< <= > >= == !=", "|", "^", "&", "<< >>", "+ -", "* // %"))
    for op in ops.split()
}
_BITS = frozenset(("|", "^", "&", "<<", ">>"))
_CHOICE, _COMPARES, _SIGNED, _TIGHT = -1, _BINDS["<"], 10, 11
_LONGEST = 24  # characters of a readable name
_WIDTH = 120  # characters of an import's line
_RESERVED = frozenset((*kwlist, "__debug__", "range"))


@dataclass(frozen=True, slots=True)
class Written:
    lines: tuple[str, ...]
    names: Mapping[Name, str]


def written(function: Function, taken: Mapping[Name, str] | None = None) -> Written:
    """The function's lines. No name has the text of anything that it finds in its surroundings, where some names are `taken`."""
    outside = taken or {}
    used = {*_RESERVED, *surroundings(function.body), *outside.values()}
    names = {**texts(_mentioned(function.names, (*function.parameters, *mentions(function.body))), used), **outside}
    return Written(_function(function, names), names)


def printed(module: Module) -> str:
    """The module's text."""
    names = names_of(module)
    return _module(module, lambda function: written(function, names).lines, names)


def names_of(module: Module) -> Mapping[Name, str]:
    """What a module's own names are called. They are found first: no function has another meaning for one of them."""
    called = {f.name for f in module.functions if isinstance(f.name, str)}
    used = {*_RESERVED, *called, *surroundings(module.statements)}
    return texts(_mentioned(module.names, _mentions_of(module)), used)


def bare(module: Module) -> str:
    """What a module means is the same for two of which this is."""
    plain = without_comments(module)
    names = {name: f"_{n}" for n, name in enumerate(dict.fromkeys(_mentions_of(plain)))}
    return _module(plain, lambda function: _function(function, names), names)


def _mentions_of(module: Module) -> Iterator[Name]:
    """The names in a module, in the order in which they are mentioned."""
    for part in module.body:
        if isinstance(part, Function):
            yield from (*([part.name] if isinstance(part.name, Name) else ()), *part.parameters)
            yield from mentions(part.body)
        else:
            yield from mentions((part,))


def _mentioned(names: Sequence[Name], mentioned: Iterable[Name]) -> list[Name]:
    """Those that are mentioned, or of which others are called."""
    found = set(mentioned)
    found |= {name.of for name in found if name.of}
    return [name for name in names if name in found]


def _module(module: Module, lines_of: Callable[[Function], Sequence[str]], names: Mapping[Name, str]) -> str:
    lines = [f"# {line}".rstrip() for line in module.comments]
    for number, group in enumerate(module.imports):
        lines += [*([""] if number else []), *(line for given in group for line in _import(given))]
    before: Assign | Function | None = None
    for part in module.body:
        gap = 2 if Function in (type(part), type(before)) else 0 if before else 1
        lines += [*[""] * gap, *(lines_of(part) if isinstance(part, Function) else _statement(part, names))]
        before = part
    return "\n".join([*lines, ""])


def _import(given: Import) -> list[str]:
    line = f"from {given.module} import {', '.join(given.names)}"
    if len(line) <= _WIDTH:
        return [line]
    lines = ["   "]
    for name in given.names:
        if len(lines[-1]) + len(name) > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {name},"
    return [f"from {given.module} import (", *lines, ")"]


def _function(function: Function, names: Mapping[Name, str]) -> tuple[str, ...]:
    parameters = ", ".join(names[p] for p in function.parameters)
    name = function.name if isinstance(function.name, str) else names[function.name]
    head = _noted(f"def {name}({parameters}):", function.note)
    return (*([f"@{function.decorator}"] if function.decorator else ()), head, *_body(function.body, names, "    "))


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
            stem = name.like if name.like.isidentifier() else f"x{_word(name.like)}"
            while f"{stem}{number}" in used:
                number += 1
            found[name] = f"{stem}{number}"
        used.add(found[name])
    return found


def _word(like: str) -> str:
    """Without what no name of Python's has: those that models make of a user's have a dot."""
    return re.sub(r"[^A-Za-z0-9_]", "", like)


def free(like: str, used: Collection[str]) -> str:
    """The first text that reads like this one and is not used: a letter and word characters."""
    stem = _word(like)[:_LONGEST].strip("_") or "x"
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
        return shown(expression, names)

    match statement:
        case Assign(target=target, value=value):
            of, what = (
                ", ".join(map(text, e.items)) if isinstance(e, Several) and isinstance(target, Several) else text(e)
                for e in (target, value)
            )
            yield _noted(f"{of} = {what}", statement.note)
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
        case Comment(text=said, names=mentioned):
            yield f"# {said.format(*(names[name] for name in mentioned)) if mentioned else said}"
        case Return(value=value):
            yield f"return {text(value)}"
        case _:
            assert_never(statement)


def shown(expression: Expression, names: Mapping[Name, str]) -> str:
    """An expression's text."""
    return _text(expression, names)[0]


def _noted(line: str, note: str) -> str:
    return f"{line}  # {note}" if note else line


def _text(expression: Expression, names: Mapping[Name, str]) -> tuple[str, int]:
    """The text of an expression, and how tightly it binds."""

    def plain(inner: Expression) -> str:
        return shown(inner, names)

    def tight(inner: Expression, least: int, op: str = "") -> str:
        text, binds = _text(inner, names)
        return f"({text})" if binds < least or _is_unclear(op, inner) else text

    match expression:
        case Name():
            return names[expression], _TIGHT
        case Constant(value=value):
            return _constant(value)
        case External(text=text):
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
        case Choice(condition=condition, then=then, otherwise=otherwise):
            return f"{tight(then, 0)} if {tight(condition, 0)} else {tight(otherwise, 0)}", _CHOICE
        case _:
            assert_never(expression)


def _is_unclear(op: str, inner: Expression) -> bool:
    """Whether an operand is better written in parentheses, though it needs none: few know how tightly operators of bits bind."""
    if not isinstance(inner, Operator) or inner.op == op:
        return False
    return op in _BITS or (_BINDS.get(op) == _COMPARES and inner.op in _BITS) or (op, inner.op) == ("or", "and")


def _constant(value: float | str) -> tuple[str, int]:
    """A number or a word; numba takes the least i64, written as one number, for a u64 with a sign."""
    if value == -(2**63) and isinstance(value, int):
        return "(-9223372036854775807 - 1)", _TIGHT
    text = repr(value)
    return text, _SIGNED if text.startswith("-") else _TIGHT
