"""What a piece of text is that someone types: declarations or an expression, complete or only begun, and its parts."""

from __future__ import annotations

import re
from typing import Literal

from axon.base.data import dataclass
from axon.base.source import SourceFile
from axon.grammar.build import SyntaxBuilder
from axon.grammar.extent import DECLARATIONS
from axon.grammar.lexer import END, Token, tokenize
from axon.grammar.machine import Machine
from axon.grammar.table import load


@dataclass(frozen=True, slots=True)
class Entry:
    """`begun` if all that is wrong with the text is that it ends too early. Other mistakes are for `parse` to say."""

    kind: Literal["nothing", "declarations", "expression"]
    begun: bool


def entry(source: SourceFile) -> Entry:
    """What a text is. Never raises on bad text."""
    table = load()
    lexed = tokenize(source, table)
    in_comment = any(d.code == "AX0103" for d in lexed.diagnostics)
    first = lexed.tokens[0].kind
    if first == END:
        return Entry("nothing", in_comment)
    start: Literal["program", "expr_only"] = "program" if first in DECLARATIONS else "expr_only"
    machine = Machine(table, start, SyntaxBuilder(source, lexed.blanked))
    stopped = machine.run(lexed.tokens, 0)
    at_end = stopped is not None and lexed.tokens[stopped].kind == END and not machine.too_deep
    begun = in_comment or (at_end and not lexed.left_out)
    return Entry("declarations" if start == "program" else "expression", begun)


def entries(source: SourceFile) -> tuple[SourceFile, ...]:
    """The parts of a text that are entered one after the other, each in a text of its own with the other parts blank, so that
    places stay what they were. Never raises on bad text.

    A part ends before a line at the margin whose first word can begin another, if it is complete there, or wrong. Declarations
    that follow each other are one part.
    """
    table = load()
    lexed = tokenize(source, table)
    if len(lexed.tokens) == 1:
        return (source,) if lexed.diagnostics else ()
    tokens, starts = lexed.tokens[:-1], set(source.line_starts)
    beginnings = {s for start in ("program", "expr_only") for s in table.states[table.starts[start][0]]} | DECLARATIONS
    cuts = [i for i in range(1, len(tokens)) if tokens[i].start in starts and tokens[i].kind in beginnings]
    parts: list[tuple[bool, int]] = []  # whether it is declarations, and the offset after it
    at = 0
    cuts.append(len(tokens))
    machine: Machine | None = None
    declarations = False
    for cut in cuts:
        if machine is None:
            declarations = tokens[at].kind in DECLARATIONS
            machine = Machine(table, "program" if declarations else "expr_only", SyntaxBuilder(source, lexed.blanked))
        stopped = machine.run((*tokens[at:cut], _NOTHING), 0)
        wrong = stopped is not None and stopped < cut - at
        at = cut
        if cut == len(tokens) or wrong or machine.accepts(END):
            end = source.text.find("\n", tokens[cut - 1].end)
            end = len(source.text) if cut == len(tokens) or end < 0 else end + 1
            if parts and parts[-1][0] and declarations:
                parts.pop()
            parts.append((declarations, end))
            machine = None
    begins = [0, *(end for _, end in parts[:-1])]
    return tuple(_only(source, start, end) for start, (_, end) in zip(begins, parts, strict=True))


_NOTHING = Token("", "", 0, 0)  # which no state takes
_VISIBLE = re.compile(r"[^\r\n]")


def _only(source: SourceFile, start: int, end: int) -> SourceFile:
    if (start, end) == (0, len(source.text)):
        return source
    return SourceFile(source.path, _VISIBLE.sub(" ", source.text[:start]) + source.text[start:end])
