"""Casts where element types differ, a point behind an integer, and one shape variable for two."""

from __future__ import annotations

from collections.abc import Iterator

from axon.base.diagnostics import Suggestion
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
    """A `cast` of one of two operands: an integer becomes a float, a narrow number a wide one."""
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
        yield from _cast("write", classes.at, next(iter(classes.other)).value if len(classes.other) == 1 else "f32")
    elif classes.one <= FLOAT and classes.other <= INT:
        yield from _cast("write", classes.at, "i32")


@proposing
def _cast(words: str, at: Span, element: str) -> Iterator[Suggestion]:
    new = S.Cast(name(element), written := expr(at), span=NEW)
    yield propose(words, new, (written, new))


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
