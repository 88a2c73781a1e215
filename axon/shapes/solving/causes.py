"""One mistake gives one error: of everything that went wrong in a declaration, what the rest only follows from.

What a product of sizes that disagree is used for is not looked at, also by the names of values; the same conflict at several
calls of one function is one mistake in that function; an access whose index has no agreed range, or of which another index is
refused, is not blamed for leaving its tensor; of several accesses that leave a tensor by one index, the one that reaches furthest
speaks for all; an access that leaves its tensor in several dimensions is one; and indices that only their sum bounds are one
question, as are those that index nothing, one inside the other, also where indices of the same names do so again; what stands in
the scope of an index that indexes nothing is not compared, for something there was to be indexed by it. A size that a wrong slice
gives is not compared; a bound that is refused is not refused again for an access; of several arguments of one call, one is
refused; and a call that is refused an argument is not asked for its contract.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.constraint import Equal, Problem, Range
from axon.shapes.dimension import divided
from axon.shapes.relation import Relation
from axon.shapes.solving.trouble import Clash, Refuted, Trouble, Unknown


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Indices that occur together and of which nothing says how far any runs: in one index, or (`unused`) in none.

    `again` are those of the same names elsewhere in the declaration, as in the next field of a record.
    """

    ranges: tuple[Range, ...]
    unused: bool = False
    again: tuple[Range, ...] = ()


_MAX_COMPARED = 100  # conflicts with which each is compared

Cause: TypeAlias = "Trouble | Unbounded"


def causes(
    troubles: list[Trouble],
    problem: Problem,
    access: Callable[[Span], Span | None],
    behind: Callable[[Span], tuple[Span, ...]] = lambda _: (),
) -> list[Cause]:
    """The troubles that stand for the others, in their order.

    `access` gives the access that an index at a place belongs to, `behind` the values that an expression is computed from.
    """
    clashes = [t for t in troubles if isinstance(t, Clash)]
    broken = [t.obligation.reason.span for t in troubles if isinstance(t, Refuted) and t.obligation.subject]
    sliced = [
        t.obligation.reason.span for t in troubles if isinstance(t, Refuted) and t.obligation.reason.text.startswith("the slice")
    ]
    flexible = set(problem.flexible)
    stated = [t.obligation.reason.span for t in troubles if isinstance(t, Refuted) and _is_stated(t, flexible)]
    blamed: set[object] = set()
    out: list[Cause] = []
    unknown = [t.range for t in troubles if isinstance(t, Unknown) and not t.candidates]
    open_ = {s for r in unknown for s in r.extent.variables if not r.stated}
    idle = {r.symbol for r in unknown if not _used(r, problem)}
    in_scope = {u.span for u in problem.uses if any(s in idle for s, _ in u.context.indices)} if idle else set()
    left_to: IdentityMap[Clash, Clash] = IdentityMap()  # of a conflict that is not looked at: the one that it follows from
    for trouble in troubles:
        match trouble:
            case Clash():
                keys = _keys(trouble, access)
                at_call = any(side.span in (stated if _of_argument(trouble) else broken) for side in primary(trouble).reason.sides)
                sides = [side.span for side in primary(trouble).reason.sides]
                sources = _sources(trouble, behind) if clashes[1:] or sliced else []
                others = [c for c in clashes[:_MAX_COMPARED] if not _ends_at(trouble, c, left_to)]
                cause = next((c for c in others if _follows(trouble, c, sources)), None)
                if cause is None:
                    vaguer = (c for c in others if _vaguer(trouble, c, flexible))
                    cause = next((c for c in vaguer if not _follows(c, trouble, _sources(c, behind))), None)
                if cause is not None:
                    left_to[trouble] = cause
                follows = cause is not None
                if sliced:
                    read = [found for side in sides if (found := access(side)) is not None]
                    sources += [*sides, *(value for found in read for value in (found, *behind(found)))]
                    follows = follows or any(_inside(at, value) for at in sliced for value in sources)
                if (
                    at_call
                    or _speaks_of(trouble, open_)
                    or not blamed.isdisjoint(keys)
                    or follows
                    or not in_scope.isdisjoint(sides)
                ):
                    continue
                blamed.update(keys)
                first = next((n for n, o in enumerate(out) if isinstance(o, Clash) and _again(trouble, o)), len(out))
                out[first : first + 1] = [_with(out[first], trouble)] if first < len(out) else [trouble]
            case Refuted():
                use = trouble.obligation.use
                disputed = any(_disputes(c, trouble, access) for c in clashes) or (use is not None and use.span in in_scope)
                disputed = disputed or (not _is_stated(trouble, flexible) and any(_refused(c, trouble) for c in clashes))
                disputed = disputed or any(_bounded_too_far(c, trouble) for c in clashes[:_MAX_COMPARED])
                if not disputed and not any(_further(o, trouble) for o in troubles if isinstance(o, Refuted)):
                    same = next(
                        (n for n, o in enumerate(out) if isinstance(o, Refuted) and _one_access(o, trouble, access)), len(out)
                    )
                    out[same : same + 1] = [_beside(out[same], trouble)] if same < len(out) else [trouble]
            case Unknown(range_, ()):
                if range_ in unknown:
                    together = _together(range_, unknown, problem)
                    if unused := not _used(range_, problem):
                        together = [r for r in unknown if r is range_ or _under(r, range_)]
                        together = [r for r in together if not _used(r, problem)]
                    unknown = [r for r in unknown if r not in together]
                    same = next((n for n, o in enumerate(out) if _as_there(o, together, unused)), len(out))
                    alone = Unbounded(tuple(together), unused)
                    out[same : same + 1] = [_and_there(out[same], together) if same < len(out) else alone]
            case _:
                out.append(trouble)
    return out or list(troubles[:1])  # whatever follows from what: what is wrong is never passed over


def _sources(c: Clash, behind: Callable[[Span], tuple[Span, ...]]) -> list[Span]:
    """The values that the sides of a conflict are computed from."""
    return [value for side in primary(c).reason.sides for value in behind(side.span)]


def _ends_at(c: Clash, start: Clash, left_to: IdentityMap[Clash, Clash]) -> bool:
    """Whether a conflict is what another one is left to in the end: of those that follow from each other, one is looked at."""
    at: Clash | None = start
    while at is not None and at is not c:
        at = left_to.get(at)
    return at is c


def _speaks_of(c: Clash, open_: set[Symbol]) -> bool:
    """Whether a conflict is about how far an index runs of which nothing says that: it says nothing more."""
    return bool(open_) and any((e.left.variables | e.right.variables) & open_ for e in c.equals)


def _keys(c: Clash, access: Callable[[Span], Span | None]) -> set[object]:
    """What makes conflicts one mistake: their place; the same two accesses; the same claim about the same sizes."""
    reason = primary(c).reason
    keys: set[object] = {(reason.span.start, reason.span.end), (reason.text, c.relation.left, c.relation.right)}
    if reason.text.startswith(("argument", "the argument")) and len(reason.sides) == 2:
        keys.add(("call", reason.sides[1].span.start))
    places = {found for side in reason.sides if side.about and (found := access(side.span)) is not None}
    if len(places) == 2 and (last := access(reason.span)) is not None:  # one access, by indices that all run over something else
        keys.add(("access", last.start, last.end))
    return keys | {frozenset((p.start, p.end) for p in places)} if len(places) == 2 else keys


def primary(c: Clash) -> Equal:
    """The equation of a conflict that is blamed: the last that says where both sides come from, and does more than run an index.

    That two dimensions share an index is written down after all else, and stands where the index does.
    """
    told = [e for e in reversed(c.equals) if len(e.reason.sides) == 2]
    telling = [e for e in told if not e.reason.sides[0].text.endswith("must run to {}")]
    others = [e for e in telling if not all(side.about for side in e.reason.sides)]
    chosen = [e for e in telling[:1] if not others or e.reason.span.start >= others[0].reason.span.start] or others[:1] or told[:1]
    return chosen[0] if chosen else c.equals[-1]


def _follows(c: Clash, cause: Clash, sources: Sequence[Span]) -> bool:
    """Whether a conflict is about the result of an operation that is wrong itself, or of a value (`sources`) computed from it."""
    at = primary(cause).reason.span
    own = primary(c).reason
    if own.span == at:
        return False
    direct = any(_inside(at, side.span) and side.span != at for side in own.sides)
    return direct or any(_inside(at, value) for value in sources)


def _again(c: Clash, first: Clash) -> bool:
    """Whether a conflict is another one's at another call of the same function: with sizes of the same proportions."""
    own, other = primary(c).reason, primary(first).reason
    called = own.text.startswith(("argument", "the argument")) and [s.text for s in own.sides] == [s.text for s in other.sides]
    return called and own.text == other.text and _proportion(c) == _proportion(first)


def _with(first: Cause, again: Clash) -> Cause:
    """A conflict, and the place of the same one elsewhere."""
    assert isinstance(first, Clash)
    return replace(first, again=(*first.again, primary(again).reason.span))


def _proportion(c: Clash) -> object:
    """What a conflict is without the names and the common factor of its sizes: 8 * w = 16 * w is n = 2 * n."""
    slack = divided(c.relation.slack, c.relation.slack.content or 1)
    slack = -slack if slack.mapping and slack.terms[0][0] < 0 else slack
    if any(not isinstance(atom, Symbol) for atom in slack.atoms):
        return slack
    number: dict[Symbol, int] = {}
    return tuple((n, tuple(number.setdefault(v, len(number)) for v in m if isinstance(v, Symbol))) for n, m in slack.terms)


def _vaguer(c: Clash, other: Clash, flexible: set[Symbol]) -> bool:
    """Whether a conflict that must speak of a size without a name is part of one that need not."""
    shared = any(e is primary(c) for e in other.equals)
    return shared and bool(c.relation.variables & flexible) and not other.relation.variables & flexible


def _disputes(c: Clash, r: Refuted, access: Callable[[Span], Span | None]) -> bool:
    """Whether a conflict leaves open how far an index of the access runs, or is about another index of it."""
    use = r.obligation.use
    if use is None:
        return False
    told = (primary(c).reason.span, *(side.span for side in primary(c).reason.sides if side.about))
    if (whole := access(use.span)) is not None and any(access(at) == whole for at in told):
        return True
    return any(use.span in (e.reason.span, *(s.span for s in e.reason.sides)) for e in c.equals)


def _bounded_too_far(c: Clash, r: Refuted) -> bool:
    """Whether a conflict refuses the bound of an index by which an access leaves its tensor; with the other size it would not."""
    use = r.obligation.use
    if use is None or r.size is None or r.obligation.relation.op != "<" or not _inside(use.span, primary(c).reason.span):
        return False
    left, right = c.relation.left, c.relation.right
    wanted = ((symbol, other) for symbol, extent in r.ends for size, other in ((left, right), (right, left)) if size == extent)
    return any(Relation(use.index.substitute({symbol: other - 1}), "<", r.size).trivial is True for symbol, other in wanted)


def _of_argument(c: Clash) -> bool:
    """Whether a conflict is about what a call is given, and not about what its contract asks."""
    return primary(c).reason.text.startswith(("argument", "the argument")) and all(e.asked is None for e in c.equals)


def _is_stated(r: Refuted, flexible: set[Symbol]) -> bool:
    """Whether a call breaks a contract by what stands in its braces, whatever its arguments are."""
    return bool(r.obligation.subject) and all(size.variables.isdisjoint(flexible) for _, size in r.obligation.subject)


def _refused(c: Clash, r: Refuted) -> bool:
    """Whether a call whose contract is broken is given an argument that it does not take."""
    at = r.obligation.reason.span
    return bool(r.obligation.subject) and _of_argument(c) and any(side.span == at for side in primary(c).reason.sides)


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


def _one_access(a: Refuted, b: Refuted, access: Callable[[Span], Span | None]) -> bool:
    """Whether two indices leave the tensor of one access."""
    if a.reach is None or b.reach is None or a.obligation.use is None or b.obligation.use is None:
        return False
    found = access(a.obligation.use.span)
    return found is not None and found == access(b.obligation.use.span)


def _beside(first: Cause, other: Refuted) -> Refuted:
    assert isinstance(first, Refuted)
    return replace(first, also=(*first.also, other))


def _as_there(first: Cause, ranges: Sequence[Range], unused: bool) -> bool:
    """Whether indices that index nothing have the names of others before that do not either."""
    if not isinstance(first, Unbounded) or not first.unused or not unused:
        return False
    return [r.symbol.name for r in first.ranges] == [r.symbol.name for r in ranges]


def _and_there(first: Cause, ranges: Sequence[Range]) -> Cause:
    assert isinstance(first, Unbounded)
    return replace(first, again=(*first.again, *ranges))


def _under(inner: Range, outer: Range) -> bool:
    """Whether an index is bound where another is in scope, as by the same `for`."""
    return any(symbol == outer.symbol for symbol, _ in inner.context.indices)


def _used(range_: Range, problem: Problem) -> bool:
    """Whether an access mentions an index."""
    return any(range_.symbol in use.index.variables for use in problem.uses)


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
