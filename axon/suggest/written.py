"""Which written sizes may be wrong, where sizes cannot agree: those that the two sizes come from, as blanks to be filled.

`types.holes` finds what each would have to be; the checker then tries it like any other change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.explain.ranges import Origin
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, NotWritten
from axon.shapes.constraint import Equal
from axon.suggest.calls import exchanged
from axon.suggest.mutations import Pair, node, outside, propose, proposing
from axon.types import typed as T
from axon.types.holes import parts

_MAX_BLANKS = 8  # of one error …
_MAX_EQUATIONS = 12  # … and of those that it follows from
_BLANK = S.DimName("{}", span=NEW)


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
            numbers += _other_numbers(origin)
    yield from numbers[:_MAX_BLANKS]
    elsewhere = (s for function in functions for s in _given_elsewhere(function, trail))
    yield from sorted(elsewhere, key=lambda s: s.edits[0].text == "1")  # a stride of 1 says little


@proposing
def _of(origin: Origin, trail: Trail) -> Iterator[Suggestion]:
    match origin.kind:
        case "annotation":
            for size in (node(part, S.Node) for part in parts(origin.span)):
                known = trail.around(size.span)  # of a name in a pattern `annotations` proposes what there is
                if not isinstance(size, S.DimName | S.DimInt) or known == size.span or trail.is_field(known):
                    yield resized((size, _BLANK), blank=True)
        case "bound" if origin.index is not None and not trail.is_guarded(origin.index):
            group = node(origin.span, S.BinderGroup)
            if group.bound is not None:
                yield propose("make the bound", group, (group.bound, S.Var("{}", span=NEW)), blank=True)


@proposing
def _other_numbers(origin: Origin) -> Iterator[Suggestion]:
    """Of a number in an annotation those beside it: `f32[3, 224, 224]` for `f32[3, 224, 208]`."""
    number = node(origin.span, S.DimInt)
    whole = outside(number)
    beside = [a.value for a in (whole.args or ()) if isinstance(a, S.DimInt)] if isinstance(whole, S.TypeName | S.TypeVar) else []
    for value in dict.fromkeys(reversed(beside)):
        if value != number.value:
            yield resized((number, S.DimInt(value, span=NEW)))


@proposing
def _dimensions(origin: Origin, trail: Trail) -> Iterator[Suggestion]:
    """The dimension arguments of the call that a size comes from."""
    function = _function(origin, trail)
    yield from exchanged(function)
    whole = node(function, S.ApplyDims)
    for size in sorted(whole.dims, key=lambda d: d.span != origin.span):
        yield propose("make it", whole, (size, _BLANK), asks=True, change=Change.SIZE, blank=True)


def _function(origin: Origin, trail: Trail) -> Span:
    """The function of the call that a size comes from, with what it is given in braces."""
    call = trail.at(origin.span) if origin.kind in ("call", "flatten") else None
    return call.function.span if isinstance(call, T.Call) else origin.base.span if origin.base is not None else origin.span


@proposing
def _given_elsewhere(function: Span, trail: Trail) -> Iterator[Suggestion]:
    """For the dimension arguments of a call those of other calls in the declaration."""
    whole = node(function, S.ApplyDims)
    calls = list(dimension_arguments(trail))
    for n, size in enumerate(whole.dims):
        alike = [c.dims[n] for c in calls if c.function == whole.function and n < len(c.dims)]  # where a number means the same
        others = [d for c in calls for d in c.dims if not isinstance(d, S.DimInt)]
        for other in dict.fromkeys((*alike, *others)):
            if other != size:
                yield propose("make it", whole, (size, other), change=Change.SIZE)


def dimension_arguments(trail: Trail) -> Iterator[S.ApplyDims]:
    """The functions of a declaration that are given sizes in braces."""
    for e in trail.expressions():
        if isinstance(e, T.Variable) and e.instance is not None:
            try:
                yield node(e.span, S.ApplyDims)
            except NotWritten:
                continue


@proposing
def unused_given(function: Span, names: Iterable[str]) -> Iterator[Suggestion]:
    """A dimension parameter that nothing uses, given to a call."""
    whole = node(function, S.ApplyDims)
    for size in whole.dims:
        for name in names:
            yield propose(f"nothing uses `{name}`: make it", whole, (size, S.DimName(name, span=NEW)))


def exchanged_at(place: Span, trail: Trail) -> Iterator[Suggestion]:
    """Two dimension arguments exchanged of the call whose function, or one of whose arguments, stands at a place."""
    calls = (e for e in trail.expressions() if isinstance(e, T.Call))
    given = (e.function.span for e in calls if any(a.span == place for a in e.arguments))
    for function in dict.fromkeys((place, *given)):
        yield from exchanged(function)


def resized(
    *changes: Pair, asks: bool = False, change: Change | None = Change.SIZE, blank: bool = False, grown: bool = False
) -> Suggestion:
    """Other sizes in an annotation, shown in the annotated pattern, the field of a type or, elsewhere, the type."""
    size = changes[0][0]
    inner, outer = size, outside(size)
    whole: S.Node = size
    prefix = ""
    while outer is not None and not isinstance(outer, S.PatternTyped | S.Sig) and not prefix:
        if isinstance(outer, S.TypeRecord):
            prefix = next(f"{name.text} : " for name, t in outer.fields if t is inner)
            whole = inner
        elif whole is size and isinstance(outer, S.TypeName | S.TypeVar):
            whole = outer
        inner, outer = outer, outside(outer)
    shown = outer if isinstance(outer, S.PatternTyped | S.Sig) and not prefix else whole
    return propose("make it", shown, *changes, asks=asks, change=change, blank=blank, prefix=prefix, grown=grown)
