"""What the page asks about the program in its editor, and the answer: plain data in JSON, with offsets that count characters.

What is wrong is said first, and again when suggestions have been tried, which may take longer than all else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.base import render
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.checker.loader import FileLoader
from axon.grammar.lexer import tokenize
from axon.grammar.table import load
from axon.tools.commands.listing import declared

if TYPE_CHECKING:
    from axon.base.diagnostics import Diagnostic
    from axon.base.source import SourceFile
    from axon.checker.module import CheckedModule

PATH = "<program>"  # what messages call it; it imports from the standard library alone
_KINDS = {"INT": "number", "FLOAT": "number", "PROJ": "number", "TYVAR": "type", "NAME": "name", "RUN": "name"}
_ELEMENTS = {element.value for element in Element}


def check(text: str, tries: bool) -> str:
    """Everything that is known of a program: diagnostics, signatures, also of modules that it imports, the types of names inside of
    declarations, and what each word is."""
    try:
        checked = compiler.check(FileLoader({PATH: text}), PATH, tries=tries)
    except AxonError as error:  # of Axon itself, or of a program that is too deep
        return json.dumps(_answer(error.diagnostics))
    return json.dumps(
        _answer(checked.diagnostics)
        | {
            "signatures": dict(checked.signatures),
            "modules": {name: dict(m.signatures) for name, m in checked.imports.items() if name.isidentifier()},
            "inner": list(_inner(checked)),
            "words": list(_words(checked.source)),
        }
    )


def _answer(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    found = [render.as_dict(d) | {"rendered": render.render(d)} for d in diagnostics]
    return {"diagnostics": found, "signatures": {}, "modules": {}, "inner": [], "words": []}


def _inner(checked: CheckedModule) -> Iterator[tuple[int, int, str]]:
    for decl in compiler.parse(checked.source)[0].decls:
        names = [name for name in declared(decl) if name in checked.signatures]
        for name, span, shown in checked.inner(names, decl.span) if names else ():
            yield span.start, span.end, f"{name} : {shown}"


def _words(source: SourceFile) -> Iterator[tuple[int, int, str]]:
    """In order, for colours. Names have none, but those of element types."""
    found = tokenize(source, load())
    words = [(c.start, c.end, "comment") for c in found.comments]
    for token in found.tokens:
        kind = _KINDS.get(token.kind) or ("keyword" if token.kind.isidentifier() else "operator")
        if token.text in _ELEMENTS:
            kind = "type"
        if kind != "name" and token.text:
            words.append((token.start, token.end, kind))
    yield from sorted(words)
