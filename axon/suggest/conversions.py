"""Casts where element types differ, a point behind an integer, and one shape variable for two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from axon.base.data import replace
from axon.base.diagnostics import Change, Suggestion
from axon.base.element import FLOAT, INT, Element
from axon.base.source import Span
from axon.explain.errors import classes_of, unequal_rows
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, NotWritten, made, name, quoted_type, tree
from axon.shapes.constraint import Reason
from axon.suggest.mutations import expr, node, nodes_of, outside, propose, proposing, text_of
from axon.types.inference import Inference, defaults_at
from axon.types.show import Namer, show_element, show_type
from axon.types.trouble import Mismatched
from axon.types.type import ElementVar, Tensor
from axon.types.unify import State

_EXACT = 2**53  # integers below it are floats as they are


def converted(by: Inference, wrong: Mismatched) -> Iterator[Suggestion]:
    """Changes of values and names of types by which two types that differ in one thing are the same."""
    state = by.state
    match wrong.mismatch.kind, wrong.mismatch.left, wrong.mismatch.right:
        case "element", Element() as a, Element() as b:
            yield from _operands(by, wrong.reason, a, b)
        case "element", Element() as a, ElementVar() as b:
            yield from _of_every_type(by, wrong.reason, a, show_element(Namer(state), b))
        case "element", ElementVar() as a, Element() as b:
            yield from _of_every_type(by, wrong.reason, b, show_element(Namer(state), a))
        case "class", a, b:
            yield from _to_class(state, a, b, wrong.reason)
        case "rank", tuple() as a, tuple() as b if (pair := unequal_rows(state, a, b)) is not None:
            yield from _one_shape_variable(pair[0].name, pair[1].name, wrong.reason.span)


def _operands(by: Inference, reason: Reason, first: Element, second: Element) -> Iterator[Suggestion]:
    """The type of a `val` that has it by default; a `cast` of what stands where another type is needed, or of one of two operands:
    integers become floats; or another type of the result.
    """
    sides = [(reason.span, first, second)]
    if len(reason.sides) == 2:
        sides = [(reason.sides[0].span, first, second), (reason.sides[1].span, second, first)]
        sides.sort(key=lambda s: (s[1].is_float, s[1].bits))
    elif reason.sides:
        return
    for side in sides:
        yield from _told(by, *side)
    for span, own, other in sides[:1] if first.is_float != second.is_float else sides:  # nobody cuts floats to meet an integer
        kept = [at.text for at, _ in _defaults(by, span, own, other)] if own.is_float and other.bits > own.bits else []
        for found in _cast("there is no silent conversion: write", span, other.value):
            yield replace(found, text=f"{found.text}, which keeps {own.value}'s digits of {_listed(kept)}") if kept else found
        yield from _declared(span, other)


def _defaults(by: Inference, at: Span, own: Element, other: Element) -> tuple[tuple[Span, Tensor], ...]:
    """The `val`s that give what stands at a place its element type by default, where another would hold their numbers as well."""
    return defaults_at(by, at, own) if own.is_float == other.is_float else ()


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(f"`{n}`" for n in names[:-1]), f"`{names[-1]}`")))


@proposing
def _told(by: Inference, at: Span, own: Element, other: Element) -> Iterator[Suggestion]:
    """`val g : f64 = 9.81` for a `val` whose numbers are f32 since nothing says otherwise: a cast would come too late for them."""
    changes: list[tuple[S.Node, S.Node]] = []
    for place, t in _defaults(by, at, own, other):
        written = quoted_type(show_type(Namer(by.state), Tensor(other, t.shape)))
        changes.append((old := _bound(place, at), S.PatternTyped(old, written, span=NEW)))
    if changes:
        names, one = [old.span.text for old, _ in changes], len(changes) == 1
        around = tree(changes[0][0].span.file).around(changes[0][0], S.Val) if one else None
        words = f"nothing says the type of {_listed(names)}, so {'it is' if one else 'they are'} {own.value}: "
        words += "make it" if one else f"annotate {_listed([text_of(new, old.span) for old, new in changes])}"
        yield propose(words, around, *changes, change=Change.TOLD)


def _of_every_type(by: Inference, reason: Reason, own: Element, variable: str) -> Iterator[Suggestion]:
    """The numbers of a `val` where it is used at any type: whatever the `val` is annotated with, it is of one."""
    for at in [s.span for s in reason.sides] or [reason.span]:
        roots = [place for place, _ in defaults_at(by, at, own)]
        if roots:
            names = _listed([place.text for place in roots])
            words = f"no type of {names} is that of every `{variable}`"
            yield from _digits(f"{words}: write the digits where they are used,", at, roots)
            yield Suggestion(f"{words}: name the numbers inside the function by `let val`; a `cast` keeps {own.value}'s digits")


@proposing
def _digits(words: str, at: Span, roots: Sequence[Span]) -> Iterator[Suggestion]:
    """Literals in the place of the names that `val`s give them, throughout a declaration."""
    file = tree(at.file)
    around = [outside(_bound(root, at)) for root in roots]
    values = {v.pattern.name: v.value for v in around if isinstance(v, S.Val) and isinstance(v.pattern, S.PatternName)}
    uses = [n for n in file.within(file.declaration(at).span) if isinstance(n, S.Var) and n.name in values]
    if uses and all(map(_is_literal, values.values())):
        yield propose(words, expr(at), *((n, values[n.name]) for n in uses), change=Change.TOLD)


def _bound(place: Span, near: Span) -> S.PatternName:
    """Where a `val` of this module binds the name at a place: of the file as it was before a change, or, in an editor, of another
    one, for there a declaration is a file of its own. Raises NotWritten.
    """
    if place.file.path != near.file.path:
        raise NotWritten(place)
    for d in tree(near.file).decls:
        for n in nodes_of(d.pattern) if isinstance(d, S.Val) else ():
            if isinstance(n, S.PatternName) and n.name == place.text:
                return n
    return node(place, S.PatternName)


def _is_literal(e: S.Expr) -> bool:
    return isinstance(e.operand if isinstance(e, S.Unary) else e, S.Int | S.Float)


@proposing
def _declared(at: Span, element: Element) -> Iterator[Suggestion]:
    """`f64[n]` for a type `f32[n]` that is written at a place."""
    match written := node(at, S.TypeName):
        case S.TypeName(name=(S.Name(text=text),)) if text in {e.value for e in Element}:
            new = made(written, name=(name(element.value),))
            yield propose("make the declared type", new, (written, new))


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
