"""Which written sizes may be wrong, where sizes cannot agree: those that the two sizes come from, as blanks to be filled.

`types.blank` finds what each would have to be; the checker then tries it like any other change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations, islice, zip_longest

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.source import Span, type_around
from axon.explain.origin import Trail
from axon.explain.ranges import Origin
from axon.shapes.constraint import Equal
from axon.types import typed as T
from axon.types.holes import dimension_arguments, parts

_MAX_BLANKS = 8  # of one error …
_MAX_EQUATIONS = 12  # … and of those that it follows from


def blanks(equals: Iterable[Equal], trail: Trail) -> Iterator[Suggestion]:
    """The sizes that are written where those of some equations come from, the nearest first, each as a blank."""
    found: set[tuple[Edit, ...]] = set()
    functions: dict[Span, None] = {}
    numbers: list[Suggestion] = []
    for equal in islice(equals, _MAX_EQUATIONS):
        sides = list(zip(equal.reason.sides, (equal.left, equal.right), strict=False))
        ways = [trail.sources(trail.of_place(side.span, size, bool(side.about))) for side, size in sides]
        for side, size in sides:  # and the calls that it has passed, as it is where a stride is 1
            functions |= dict.fromkeys(f.span for f in trail.through(side.span, size, bool(side.about)))
        for origin in (o for step in zip_longest(*ways) for o in step if o is not None):
            functions[_function(origin, trail)] = None
            for suggestion in (*_of(origin, trail), *_dimensions(origin, trail)):
                if suggestion.edits not in found and len(found) < _MAX_BLANKS:
                    found.add(suggestion.edits)
                    yield suggestion
            numbers += _other_numbers(origin, trail)
    yield from numbers[:_MAX_BLANKS]
    elsewhere = (s for function in functions for s in _given_elsewhere(function, trail))
    yield from sorted(elsewhere, key=lambda s: s.edits[0].text == "1")  # a stride of 1 says little


def _of(origin: Origin, trail: Trail) -> Iterator[Suggestion]:
    match origin.kind:
        case "annotation":
            for span in parts(origin.span):
                around = trail.around(span)
                plain = re.fullmatch(r"\w+", span.text) is not None
                if not plain or around == span or trail.is_field(around):  # else `explain_equation` proposes what there is
                    whole = type_around(span) if around == span else around
                    yield Suggestion(f"make it `{within(whole, span)}`", (Edit(span, "{}"),), blank=True, change=Change.SIZE)
        case "bound" if origin.index is not None and not trail.is_guarded(origin.index):
            bound = re.fullmatch(r"(\w+\s*<\s*)(.*\S)\s*", origin.span.text, re.DOTALL)
            if bound is not None:
                start = origin.span.start
                span = Span(origin.span.file, start + bound.start(2), start + bound.end(2))
                yield Suggestion(f"make the bound `{bound[1]}{{}}`", (Edit(span, "{}"),), blank=True)


def _other_numbers(origin: Origin, trail: Trail) -> Iterator[Suggestion]:
    """Of a number in an annotation those beside it: `f32[3, 224, 224]` for `f32[3, 224, 208]`."""
    around = type_around(origin.span) if origin.kind == "annotation" and origin.span.text.isdecimal() else None
    beside = re.findall(r"\d+", around.text[around.text.find("[") :]) if around is not None else []
    for text in dict.fromkeys(reversed(beside)):
        if text != origin.span.text:
            whole = within(trail.around(origin.span), origin.span).replace("{}", text)
            yield Suggestion(f"make it `{whole}`", (Edit(origin.span, text),), change=Change.SIZE)


def _dimensions(origin: Origin, trail: Trail) -> Iterator[Suggestion]:
    """The dimension arguments of the call that a size comes from."""
    function = _function(origin, trail)
    given = dimension_arguments(function)
    yield from exchanged(function)
    for span in sorted(given, key=lambda s: s != origin.span):
        yield Suggestion(f"make it `{within(function, span)}`", (Edit(span, "{}"),), asks=True, blank=True, change=Change.SIZE)


def _function(origin: Origin, trail: Trail) -> Span:
    """The function of the call that a size comes from, with what it is given in braces."""
    call = trail.at(origin.span) if origin.kind in ("call", "flatten") else None
    return call.function.span if isinstance(call, T.Call) else origin.base.span if origin.base is not None else origin.span


def _given_elsewhere(function: Span, trail: Trail) -> Iterator[Suggestion]:
    """For the dimension arguments of a call those of other calls in the declaration."""
    calls = [(e.span.text.partition("{")[0], dimension_arguments(e.span)) for e in trail.expressions() if isinstance(e, T.Variable)]
    name = function.text.partition("{")[0]
    for n, span in enumerate(dimension_arguments(function)):
        alike = [given[n].text for other, given in calls if other == name and n < len(given)]  # where a number means the same
        others = [s.text for _, given in calls for s in given if not s.text.isdecimal()]
        for text in dict.fromkeys((*alike, *others)):
            if text != span.text:
                whole = within(function, span).replace("{}", text)
                yield Suggestion(f"make it `{whole}`", (Edit(span, text),), change=Change.SIZE)


def unused_given(function: Span, names: Iterable[str]) -> Iterator[Suggestion]:
    """A dimension parameter that nothing uses, given to a call."""
    for span in dimension_arguments(function):
        for name in names:
            yield Suggestion(f"nothing uses `{name}`: make it `{within(function, span).replace('{}', name)}`", (Edit(span, name),))


def exchanged(function: Span) -> Iterator[Suggestion]:
    """Two dimension arguments of a call exchanged."""
    given = dimension_arguments(function)
    for one, other in combinations(given, 2):
        if one.text != other.text:
            listed = ", ".join({one: other, other: one}.get(s, s).text for s in given)
            name = function.text[: function.text.index("{")]
            edits = (Edit(one, other.text), Edit(other, one.text))
            yield Suggestion(f"exchange the dimension arguments: `{name}{{{listed}}}`", edits)


def exchanged_at(place: Span, trail: Trail) -> Iterator[Suggestion]:
    """Two dimension arguments exchanged of the call whose function, or one of whose arguments, stands at a place."""
    calls = (e for e in trail.expressions() if isinstance(e, T.Call))
    given = (e.function.span for e in calls if any(a.span == place for a in e.arguments))
    for function in dict.fromkeys((place, *given)):
        yield from exchanged(function)


def within(around: Span, blank: Span) -> str:
    """The text of an annotation with a blank in it."""
    before, after = around.text[: blank.start - around.start], around.text[blank.end - around.start :]
    whole = " ".join((before + "{}" + after).split())
    return whole[1:-1].strip() if whole.startswith("(") and whole.endswith(")") else whole
