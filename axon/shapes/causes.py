"""One mistake gives one error: of everything that went wrong in a declaration, what the rest only follows from.

What a product of sizes that disagree is used for is not looked at; an access whose index has no agreed range is not blamed for
leaving its tensor; of several accesses that leave a tensor by one index, the one that reaches furthest speaks for all; and indices
that only their sum bounds are one question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from axon.shapes.constraint import Equal, Range
from axon.shapes.settle import Clash, Problem, Refuted, Trouble, Unknown
from axon.source import Span


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Indices that occur together and of which nothing says how far any runs."""

    ranges: tuple[Range, ...]


Cause: TypeAlias = "Trouble | Unbounded"


def causes(troubles: list[Trouble], problem: Problem, access: Callable[[Span], Span | None]) -> list[Cause]:
    """The troubles that stand for the others, in their order. `access` gives the access that an index at a place belongs to."""
    clashes = [t for t in troubles if isinstance(t, Clash)]
    broken = [t.obligation.reason.span for t in troubles if isinstance(t, Refuted) and t.obligation.subject]
    blamed: set[object] = set()
    out: list[Cause] = []
    unknown = [t.range for t in troubles if isinstance(t, Unknown) and not t.candidates]
    for trouble in troubles:
        match trouble:
            case Clash():
                keys = _keys(trouble, access)
                at_call = any(side.span in broken for side in primary(trouble).reason.sides)
                if at_call or not blamed.isdisjoint(keys) or any(_follows(trouble, c) for c in clashes if c is not trouble):
                    continue
                blamed.update(keys)
                out.append(trouble)
            case Refuted():
                disputed = any(_disputes(c, trouble) for c in clashes)
                if not disputed and not any(_further(o, trouble) for o in troubles if isinstance(o, Refuted)):
                    out.append(trouble)
            case Unknown(range_, ()):
                if range_ in unknown:
                    together = _together(range_, unknown, problem)
                    unknown = [r for r in unknown if r not in together]
                    out.append(Unbounded(tuple(together)))
            case _:
                out.append(trouble)
    return out


def _keys(c: Clash, access: Callable[[Span], Span | None]) -> set[object]:
    """What makes conflicts one mistake: their place; the same two accesses; the same claim about the same sizes."""
    reason = primary(c).reason
    keys: set[object] = {(reason.span.start, reason.span.end), (reason.text, c.relation.left, c.relation.right)}
    places = {found for side in reason.sides if side.about and (found := access(side.span)) is not None}
    return keys | {frozenset((p.start, p.end) for p in places)} if len(places) == 2 else keys


def primary(c: Clash) -> Equal:
    """The equation of a conflict that is blamed: the last that says where both sides come from."""
    return next((e for e in reversed(c.equals) if len(e.reason.sides) == 2), c.equals[-1])


def _follows(c: Clash, cause: Clash) -> bool:
    """Whether a conflict is about the result of an operation that is wrong itself."""
    at = primary(cause).reason.span
    own = primary(c).reason
    return own.span != at and any(_inside(at, side.span) and side.span != at for side in own.sides)


def _disputes(c: Clash, r: Refuted) -> bool:
    """Whether a conflict leaves open how far an index of the access runs."""
    use = r.obligation.use
    return use is not None and any(use.span in (e.reason.span, *(s.span for s in e.reason.sides)) for e in c.equals)


def _further(other: Refuted, r: Refuted) -> bool:
    """Whether another access by the same indices leaves its tensor further, at the same end."""
    if other is r or None in (r.reach, r.size, other.reach, other.size) or not r.ends or r.ends != other.ends:
        return False
    if r.obligation.relation.op != other.obligation.relation.op:
        return False
    more = (other.reach - other.size) - (r.reach - r.size)  # type: ignore[operator]
    below = r.obligation.relation.op != "<"
    if below:
        more = r.reach - other.reach  # type: ignore[operator]
    return more.constant is not None and more.constant > 0


def _together(first: Range, unknown: list[Range], problem: Problem) -> list[Range]:
    """The indices of unknown range that occur in one index with the first, directly or through others."""
    found = [first]
    for range_ in found:
        for use in problem.uses:
            if range_.symbol in use.index.variables:
                found += [r for r in unknown if r.symbol in use.index.variables and r not in found]
    return [r for r in unknown if r in found]


def _inside(inner: Span, outer: Span) -> bool:
    return inner.file is outer.file and outer.start <= inner.start and inner.end <= outer.end
