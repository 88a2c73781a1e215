"""The general mutations of a program, from which every change that is proposed is made: each takes nodes and gives a changed tree.

`grammar.rewrite` writes one back as edits; here it gets its words, and what is shown of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar, cast

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.source import SourceFile, Span
from axon.explain.quote import fitting
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, NotWritten, tree, var
from axon.types import typed as T

P = ParamSpec("P")
N = TypeVar("N", bound=S.Node)
Pair = tuple[S.Node, S.Node]  # a node, and what is to stand in its place


def proposing(ways: Callable[P, Iterable[Suggestion]]) -> Callable[P, Iterator[Suggestion]]:
    """Changes that are proposed as far as what they change is written in the program."""

    @wraps(ways)
    def written(*args: P.args, **kwargs: P.kwargs) -> Iterator[Suggestion]:
        try:
            yield from ways(*args, **kwargs)
        except NotWritten:
            return

    return written


def node(at: T.Expr | Span, kind: type[N]) -> N:
    """What is written at a place. Raises NotWritten."""
    span = at if isinstance(at, Span) else at.span
    return tree(span.file).at(span, kind)


def expr(at: T.Expr | Span) -> S.Expr:
    span = at if isinstance(at, Span) else at.span
    return tree(span.file).expr(span)


def outside(n: S.Node) -> S.Node | None:
    """What a node of a program is a part of."""
    return tree(n.span.file).outer(n)


def shown(n: S.Node, *changes: Pair) -> str:
    """A node of a program after changes, on one line."""
    return tree(n.span.file).shown(n, changes)


def text_of(n: S.Node, near: Span) -> str:
    """A new node made of nodes of a file, on one line."""
    return tree(near.file).shown(n)


def applied(n: N, *changes: Pair) -> N:
    """A node of a program after changes of what stands in it."""
    return cast("N", tree(n.span.file).applied(n, changes))


def nodes_of(n: S.Node) -> Iterator[S.Node]:
    """A node of a program, and those in it."""
    return tree(n.span.file).within(n.span)


def propose(
    words: str,
    around: S.Node | None,
    *changes: Pair,
    change: Change | None = None,
    asks: bool = False,
    grown: bool = False,
    imports: str = "",
    blank: bool = False,
    prefix: str = "",
) -> Suggestion:
    """Changes in words, with what they make of the node `around` them, if that is in the file: a new one is shown as it is.

    `grown`: most of what is replaced stays as it was. `imports`: a module that it needs. `blank`: `{}` is to be filled.
    """
    written = tree(changes[0][0].span.file)
    edits = tuple(e for c in changes for e in written.grown(*c)) if grown else written.edits(*changes)
    text = words if around is None else fitting(lambda most: f"{words} `{prefix}{written.shown(around, changes, most)}`")
    if imports and not written.has_import(imports):
        text, edits = f"{text}, with `import {imports}`", (_import(written.file, imports), *edits)
    annotates = tuple(old.span for old, new in changes if isinstance(old, S.PatternName) and isinstance(new, S.PatternTyped))
    return Suggestion(text, edits, asks=asks, blank=blank, change=change, annotates=annotates)


def imported(words: str, module: str, file: SourceFile, *changes: Pair) -> Suggestion:
    """An `import` at the top of a file, with changes that need it: the words name it."""
    edits = tree(file).edits(*changes) if changes else ()  # the import alone needs nothing of a file that may not parse
    return Suggestion(words, (_import(file, module), *edits))


def _import(file: SourceFile, module: str) -> Edit:
    return Edit(file.span(0, 0), f"import {module}\n")


# ── trees ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def swap(one: S.Node, other: S.Node) -> tuple[Pair, Pair]:
    return (one, other), (other, one)


def permuted(nodes: Sequence[S.Node], order: Sequence[int]) -> tuple[Pair, ...]:
    """Nodes in another order: in the place of each stands the one that `order` names."""
    return tuple((n, nodes[k]) for n, k in zip(nodes, order, strict=True) if n != nodes[k])


def indexed(e: S.Expr, letters: Sequence[str]) -> S.Access:
    """`x[i, j]`"""
    return S.Access(e, tuple(S.IndexAt(var(n), span=NEW) for n in letters), None, span=NEW)


def is_name(e: S.Expr) -> bool:
    """Whether an expression is a name, or a field of one."""
    while isinstance(e, S.Field):
        e = e.record
    return isinstance(e, S.Var)


def free_letters(near: Span, count: int, letters: Sequence[str] = "ijklmnpq") -> tuple[str, ...]:
    """Names that a text does not use, if there are so many."""
    taken = set(re.findall(r"\w+", near.text))
    free = [c for c in letters if c not in taken]
    return tuple(free[:count]) if len(free) >= count else ()
