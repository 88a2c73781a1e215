"""Which written sizes may be wrong, where sizes cannot agree: those that the two sizes come from, as blanks to be filled.

`types.blank` finds what each would have to be; the checker then tries it like any other change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations, islice, zip_longest

from axon import typed as T
from axon.diagnostics import Edit, Suggestion
from axon.shapes.constraint import Equal
from axon.source import Span
from axon.types.blank import dimension_arguments, parts
from axon.types.origin import Trail
from axon.types.ranges import Origin

_MAX_BLANKS = 8  # of one error …
_MAX_EQUATIONS = 12  # … and of those that it follows from


def blanks(equals: Iterable[Equal], trail: Trail) -> Iterator[Suggestion]:
    """The sizes that are written where those of some equations come from, the nearest first, each as a blank."""
    found: set[tuple[Edit, ...]] = set()
    functions: dict[Span, None] = {}
    for equal in islice(equals, _MAX_EQUATIONS):
        sides = zip(equal.reason.sides, (equal.left, equal.right), strict=False)
        ways = [trail.sources(trail.of_place(side.span, size, bool(side.about))) for side, size in sides]
        for origin in (o for step in zip_longest(*ways) for o in step if o is not None):
            functions[_function(origin, trail)] = None
            for suggestion in (*_of(origin, trail), *_dimensions(origin, trail)):
                if suggestion.edits not in found and len(found) < _MAX_BLANKS:
                    found.add(suggestion.edits)
                    yield suggestion
    for function in functions:
        yield from _given_elsewhere(function, trail)


def _of(origin: Origin, trail: Trail) -> Iterator[Suggestion]:
    match origin.kind:
        case "annotation":
            for span in parts(origin.span):
                around = trail.around(span)
                plain = re.fullmatch(r"\w+", span.text) is not None
                if not plain or around == span or trail.is_field(around):  # else `explain_equation` proposes what there is
                    whole = _result(span) if around == span else around
                    yield Suggestion(f"make it `{_within(whole, span)}`", (Edit(span, "{}"),), blank=True)
        case "bound" if origin.index is not None and not trail.is_guarded(origin.index):
            bound = re.fullmatch(r"(\w+\s*<\s*)(.*\S)\s*", origin.span.text, re.DOTALL)
            if bound is not None:
                start = origin.span.start
                span = Span(origin.span.file, start + bound.start(2), start + bound.end(2))
                yield Suggestion(f"make the bound `{bound[1]}{{}}`", (Edit(span, "{}"),), blank=True)


def _dimensions(origin: Origin, trail: Trail) -> Iterator[Suggestion]:
    """The dimension arguments of the call that a size comes from."""
    function = _function(origin, trail)
    given = dimension_arguments(function)
    yield from exchanged(function)
    for span in sorted(given, key=lambda s: s != origin.span):
        yield Suggestion(f"make it `{_within(function, span)}`", (Edit(span, "{}"),), asks=True, blank=True)


def _function(origin: Origin, trail: Trail) -> Span:
    """The function of the call that a size comes from, with what it is given in braces."""
    call = trail.at(origin.span) if origin.kind in ("call", "flatten") else None
    return call.function.span if isinstance(call, T.Call) else origin.base.span if origin.base is not None else origin.span


def _given_elsewhere(function: Span, trail: Trail) -> Iterator[Suggestion]:
    """For the dimension arguments of a call those of other calls in the declaration."""
    others = [s for e in trail.expressions() if isinstance(e, T.Variable) for s in dimension_arguments(e.span)]
    for span in dimension_arguments(function):
        for text in dict.fromkeys(o.text for o in others if o.text != span.text and not o.text.isdecimal()):
            yield Suggestion(f"make it `{_within(function, span).replace('{}', text)}`", (Edit(span, text),))


def exchanged(function: Span) -> Iterator[Suggestion]:
    """Two dimension arguments of a call exchanged."""
    given = dimension_arguments(function)
    for one, other in combinations(given, 2):
        if one.text != other.text:
            listed = ", ".join({one: other, other: one}.get(s, s).text for s in given)
            name = function.text[: function.text.index("{")]
            edits = (Edit(one, other.text), Edit(other, one.text))
            yield Suggestion(f"exchange the dimension arguments: `{name}{{{listed}}}`", edits)


def _result(size: Span) -> Span:
    """The type in whose brackets a size is written."""
    text, start, depth = size.file.text, size.start, 0
    while start and (depth or text[start - 1] != "["):
        depth += (text[start - 1] in ")]}") - (text[start - 1] in "([{")
        start -= 1
    named = re.search(r"['\w.]*\[$", text[:start])
    end = text.find("]", size.end)
    return Span(size.file, named.start(), end + 1) if named is not None and end >= 0 and "\n" not in text[start:end] else size


def _within(around: Span, blank: Span) -> str:
    """The text of an annotation with a blank in it."""
    before, after = around.text[: blank.start - around.start], around.text[blank.end - around.start :]
    whole = " ".join((before + "{}" + after).split())
    return whole[1:-1].strip() if whole.startswith("(") and whole.endswith(")") else whole
