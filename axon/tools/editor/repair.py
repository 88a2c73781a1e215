"""Text that ends in the middle, completed: what is typed so far becomes a declaration that can be asked about.

A name (`HOLE`) is put where the cursor is; then, for as long as the parser waits for something, the token that closes most.
"""

from __future__ import annotations

import re
from functools import lru_cache

from axon.base.data import dataclass
from axon.base.source import SourceFile
from axon.grammar import syntax as S
from axon.grammar.build import SyntaxBuilder
from axon.grammar.lexer import END, Token, tokenize
from axon.grammar.machine import Machine
from axon.grammar.parse import parse
from axon.grammar.table import load

HOLE = "hole__"
_STOP = "$STOP"  # a kind of token that fits nowhere
_CLOSING = (")", "]", "}", "|]", "end", "in", "then", "else", "=>", "=", ":", "NAME", "INT", "for", ".", "->", "+")
_TEXT = {"NAME": "_0", "INT": "1"}
_MAX_CLOSING = 200
_PARTIAL = re.compile(r"[A-Za-z_]\w*\Z")
_NUMBER = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]*)?\Z")


@dataclass(frozen=True, slots=True, eq=False)
class Mended:
    """A declaration that ends at the cursor. `hole` is where the name stands that is being typed."""

    source: SourceFile
    decl: S.Decl
    hole: int


def partial(before: str) -> str:
    """The part of a name that a text ends in."""
    found = _PARTIAL.search(before)
    return found[0] if found else ""


def mend(path: str, before: str) -> Mended | None:
    """The declaration whose text so far is `before`; None if that has an error other than its end."""
    number = _NUMBER.search(before)
    at = number.start() if number is not None else len(before) - len(partial(before))
    return _mended(path, before[:at] + HOLE, at)


@lru_cache(maxsize=16)  # several questions are asked at one place, and at each letter of a name
def _mended(path: str, text: str, at: int) -> Mended | None:
    source = SourceFile(path, text)
    table = load()
    tokens = list(tokenize(source, table).tokens[:-1])
    machine = Machine(table, "program", SyntaxBuilder(source, text))
    machine.push("decls", [], 0, 0)
    stop = Token(_STOP, "", len(text), len(text))
    if not tokens or machine.run([*tokens, stop], 0) != len(tokens) or machine.too_deep:
        return None
    for _ in range(_MAX_CLOSING):
        if machine.accepts(END):
            break
        kind = next((k for k in _CLOSING if machine.accepts(k)), None)
        if kind is None:
            return None
        word = _TEXT.get(kind, kind)
        text += f" {word}"
        if machine.run([Token(kind, word, len(text) - len(word), len(text)), stop], 0) != 1:
            return None
    else:
        return None
    whole = SourceFile(path, text)
    program, _ = parse(whole)
    decl = next((d for d in reversed(program.decls) if d.span.start <= at <= d.span.end), None)
    return None if decl is None else Mended(whole, decl, at)
