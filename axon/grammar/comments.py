"""What comments say of declarations: a comment that ends right before one is about it, one at the top of a file about the file."""

from __future__ import annotations

import textwrap

from axon.base.source import SourceFile
from axon.grammar.lexer import tokenize
from axon.grammar.parse import parse
from axon.grammar.syntax import Fun, PatternName, PatternTyped, Sig, Val
from axon.grammar.table import load


def documentation(source: SourceFile) -> dict[str, str]:
    """The words of the comments of a file's functions and values, by name; of the file itself as ''."""
    text, comments = source.text, {c.end: c for c in tokenize(source, load()).comments}
    found: dict[str, str] = {}
    first = min(comments.values(), key=lambda c: c.start, default=None)
    if first is not None and not text[: first.start].strip() and text[first.end :].startswith("\n\n"):
        found[""] = words(first.text)
    for decl in parse(source)[0].decls:
        match decl:
            case Fun(name=name) | Sig(name=name):
                declared = name.text
            case Val(pattern=PatternName(name=declared) | PatternTyped(pattern=PatternName(name=declared))):
                pass
            case _:
                continue
        comment = comments.get(len(text[: decl.span.start].rstrip()))
        if comment is not None:
            found[declared] = words(comment.text)
    return found


def words(comment: str) -> str:
    """What a comment says, its lines moved to the left together."""
    inner = comment.removeprefix("(*").removesuffix("*)").strip()
    first, _, rest = inner.partition("\n")
    return "\n".join([first, *textwrap.dedent(rest).splitlines()]).strip()
