"""Casts where element types differ, a point behind an integer, and one shape variable for two."""

from __future__ import annotations

import re
from collections.abc import Iterator

from axon.base.data import replace
from axon.base.diagnostics import Change, Suggestion
from axon.base.element import FLOAT, INT, Element
from axon.base.source import Span
from axon.explain.errors import classes_of, unequal_rows
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, made, name, tree
from axon.shapes.constraint import Reason
from axon.suggest.mutations import expr, propose, proposing
from axon.types.trouble import Mismatched
from axon.types.unify import State

_EXACT = 2**53  # integers below it are floats as they are


def converted(state: State, wrong: Mismatched) -> Iterator[Suggestion]:
    """Changes of values and names of types by which two types that differ in one thing are the same."""
    match wrong.mismatch.kind, wrong.mismatch.left, wrong.mismatch.right:
        case "element", Element() as a, Element() as b:
            yield from _operands(wrong.reason, a, b)
        case "class", a, b:
            yield from _to_class(state, a, b, wrong.reason)
        case "rank", tuple() as a, tuple() as b if (pair := unequal_rows(state, a, b)) is not None:
            yield from _one_shape_variable(pair[0].name, pair[1].name, wrong.reason.span)


def _operands(reason: Reason, first: Element, second: Element) -> Iterator[Suggestion]:
    """A `cast` of what stands where another type is needed, or of one of two operands: integers become floats."""
    if not reason.sides:
        yield from _cast("there is no silent conversion: write", reason.span, second.value)
    if len(reason.sides) != 2:
        return
    sides = [(reason.sides[0].span, first, second), (reason.sides[1].span, second, first)]
    order = sorted(sides, key=lambda s: (s[1].is_float, s[1].bits))
    for span, _, other in order[:1] if first.is_float != second.is_float else order:  # nobody cuts floats to meet an integer
        yield from _cast("there is no silent conversion: write", span, other.value)


def _to_class(state: State, a: object, b: object, reason: Reason) -> Iterator[Suggestion]:
    """A float where one is needed, for an integer; an integer for a float."""
    classes = classes_of(state, a, b, reason)
    if classes.one <= INT and classes.other <= FLOAT:
        yield from _with_point(classes.at)
        element = next(iter(classes.other)).value if len(classes.other) == 1 else "f32"
        yield from _cast("write", classes.at, element, Change.CAST)
        yield from _without_point(classes.beside)
    elif classes.one <= FLOAT and classes.other <= INT:
        yield from _without_point(classes.at)
        for element in ("i32", "_"):  # `_`: where the other operand is of another integer type
            for found in _cast("write", classes.at, element, Change.CAST):
                yield replace(found, text=f"{found.text}, which truncates")


@proposing
def _cast(words: str, at: Span, element: str, change: Change | None = None) -> Iterator[Suggestion]:
    new = S.Cast(name(element), written := expr(at), span=NEW)
    yield propose(words, new, (written, new), change=change)


@proposing
def _without_point(at: Span) -> Iterator[Suggestion]:
    """`2` for `2.0`"""
    match written := expr(at):
        case S.Float(value=value) if value.is_integer() and value < _EXACT and re.fullmatch(r"\d+\.0+", at.text):
            new = S.Int(int(value), span=NEW)
            yield propose("write it without a point:", new, (written, new), change=Change.CAST)


@proposing
def _with_point(at: Span) -> Iterator[Suggestion]:
    """`-3.0` for `-3`"""
    match written := expr(at):
        case S.Int(value=value) | S.Unary(op="-", operand=S.Int(value=value)) if value < _EXACT:
            point = S.Float(float(value), span=NEW)
            new = made(written, operand=point) if isinstance(written, S.Unary) else point
            yield propose("write it with a point:", new, (written, new))


@proposing
def _one_shape_variable(kept: str, gone: str, at: Span) -> Iterator[Suggestion]:
    """The second of two shape variables written as the first, wherever the declaration has it."""
    file = tree(at.file)
    runs = [n for n in file.within(file.declaration(at).span) if isinstance(n, S.ShapeRun) and n.name == gone]
    changes = [(n, S.ShapeRun(kept, span=NEW)) for n in sorted(runs, key=lambda n: n.span.start)]
    if changes:
        yield propose(f"if they are to be the same, write `..{kept}` for `..{gone}`", None, *changes)
