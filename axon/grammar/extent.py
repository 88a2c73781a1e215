"""How far pieces of a program reach, told by their tokens alone: what is wrong with them is not read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from axon.base.source import SourceFile
from axon.grammar.lexer import END, Token

DECLARATIONS = frozenset({"val", "fun", "type", "sig", "import", "observe"})
BRACKETS = {"(": ")", "[": "]", "{": "}", "[|": "|]"}
CLOSERS = frozenset({*BRACKETS.values(), "in", "end", "then", "else"})
BOUNDARIES = CLOSERS | DECLARATIONS | {END}
AFTER_INDICES = BOUNDARIES | {"=>", "=", "for", "fn", "if"}  # what ends the indices of a reduction, or is no part of them
_BEGIN = ("NAME", "INT", "FLOAT", "(", "[|", "{", "let", "if", "for", "fn", "loop", "unfold", "cast", "-", "not")  # an expression


def end_of_operand(tokens: Sequence[Token], at: int) -> int:
    """The offset at which ends what is accessed by the bracket or dot at number `at`: `[i].w` of `x[i].w`."""
    last = _last_of_operand(tokens, at)
    return tokens[at if last is None else last].end


def _last_of_operand(tokens: Sequence[Token], at: int) -> int | None:
    """The number of an operand's last token, where `at` is the number of one; None if a bracket is never closed."""
    depth = 0
    for number in range(at, len(tokens)):
        token = tokens[number]
        depth += (token.kind in BRACKETS) - (token.kind in BRACKETS.values())
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        goes_on = following is not None and following.start == token.end and following.kind in ("[", ".", "PROJ")
        if depth == 0 and token.kind != "." and not goes_on:
            return number
    return None


def end_of_construct(tokens: Sequence[Token], at: int) -> int:
    """The number of the last token of a construct: of a `cast` that of its operand, of the others the last before what cannot
    belong to them."""
    if tokens[at].kind == "cast":
        whole = not any(token.kind in BOUNDARIES for token in tokens[at + 1 : at + 3])
        last = _last_of_operand(tokens, at + 2) if whole else None
        return at if last is None else last
    depth, pending = 0, []
    for number in range(at, len(tokens)):
        kind = tokens[number].kind
        if depth == 0 and (kind in (",", "in", "end", "|>", END) or kind in BRACKETS.values() or (kind in DECLARATIONS)):
            return number - 1
        if kind == "if":
            pending.append(depth)
        elif kind == "else":
            if not pending:
                return number - 1
            pending.pop()
        elif kind == "then" and not pending:
            return number - 1
        depth += (kind in BRACKETS or kind == "let") - (kind in BRACKETS.values() or kind == "end")
    return at


def value_of_let(file: SourceFile, tokens: Sequence[Token], let: Token) -> Token | None:
    """What begins the value of a `let` without `in`: on a line after its last declaration, no further to the right. `tokens` end
    before its `end`."""
    column, value, depth = -1, None, 0
    inside = [token for token in tokens if token.start >= let.start]
    for before, token in pairwise(inside):
        if depth == 0 and token.kind in DECLARATIONS:
            column, value = file.position(token.start)[1], None
        elif depth == 0 and value is None and token.kind in _BEGIN and "\n" in file.text[before.end : token.start]:
            value = token if file.position(token.start)[1] <= column else None
        depth += (token.kind in BRACKETS or token.kind == "let") - (token.kind in BRACKETS.values() or token.kind == "end")
    return value
