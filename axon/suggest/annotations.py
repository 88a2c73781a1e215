"""Other sizes in annotations, other ends of slices, and facts to state, where the sizes of a declaration are wrong.

What a trouble says two sizes are decides what stands in the place of which: `restated` proposes it, `mutations` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, permutations

from axon.base.diagnostics import Change, Suggestion
from axon.base.source import Span, type_around
from axon.explain.equation import linked, sizes, within_callee
from axon.explain.wording import Place, Words, plainest, short, tokens
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, made, quoted, quoted_dim
from axon.shapes.constraint import Problem, Side
from axon.shapes.contracts.broken import by_fact
from axon.shapes.dimension import Dim, Minimum
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.shapes.solving.causes import Cause
from axon.shapes.solving.trouble import Clash, Hopeless, Refuted
from axon.suggest.mutations import node, outside, propose, proposing
from axon.suggest.written import resized

_MAX_TURNED = 5  # dimensions of an annotation that are put in another order
_RELATION = re.compile(r" (=|<>|<=|>=|<|>) ")


def restated(cause: Cause, problem: Problem, words: Words, heading: S.Fun | None) -> Iterator[Suggestion]:
    """Changes of what is annotated; `heading` is the function that can state a fact."""
    match cause:
        case Clash(kind="conflict" | "named") if by_fact(cause, problem) is None:
            yield from _agreeing(cause, problem, words, heading)
        case Refuted(reach=reach, size=size) if reach is not None and size is not None:
            yield from _larger(cause, words)
        case Refuted():
            yield from _sliced(cause, problem, words)
        case Hopeless(only=only) if only is not None:
            yield from _fact(only.render(words.name), heading)


# ── two sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _agreeing(c: Clash, problem: Problem, words: Words, heading: S.Fun | None) -> Iterator[Suggestion]:
    """Changes that may make two sizes agree: a stated bound, an annotation, a stated fact; what is least likely comes last."""
    primary, left, right, _ = sizes(c, problem)
    if c.kind == "named" and any(", this index runs over " in label.text for label in within_callee(primary, words)):
        return  # more likely the index is wrong than the sizes of whoever calls
    sides = primary.reason.sides
    name = short(sides[0].span) if sides else ""
    if len(sides) == 2 and sides[0].text.endswith("must run to {}") and render(left, words.name) != name:
        yield Suggestion(f"if it should not run over the whole dimension, state its bound: `{name} < {render(left, words.name)}`")
    places = [words.origin(side, raw) for side, raw in linked(primary, c, left, right, problem)]
    pairs = [(p, old, new) for p, old, new in ((places[1], right, left), (places[0], left, right)) if p is not None]
    folded = set[Span]()
    for place, old, new in pairs:
        near = _neighbours(place.span, words) if place.kind == "annotation" else []
        for span in [s for d, s in near if d == new and _adjacent(s, place.span)]:
            yield from _written((place.span, new), (span, old), words=words)
        yield from _turned(place, old, new, near, words)
        for other, span in near if all(words.stated(s) for s in new.variables) else ():  # `f32[b, s]` for what is flattened
            if _adjacent(span, place.span) and other * old == new and new.constant is None:
                folded.add(place.span)
                first, last = sorted((span, place.span), key=lambda s: s.start)
                yield from _folded(first, last, new, words)
    likely, unlikely = _one_size([p for p in pairs if p[0].span not in folded], words)
    yield from likely
    if c.kind == "named":
        yield from _fact(plainest(Relation(left, "=", right)).render(words.name), heading)
    yield from unlikely


def _one_size(pairs: Sequence[tuple[Place, Dim, Dim]], words: Words) -> tuple[list[Suggestion], list[Suggestion]]:
    """Each of two sizes made the other where it is annotated: the likely changes and the unlikely ones."""
    likely: list[Suggestion] = []
    doubled: list[Suggestion] = []
    grown: list[Suggestion] = []
    for place, old, new in pairs:
        grows = old.symbol is not None and old.symbol in new.variables  # `n` made `n + 1`: rarely meant
        fresh = any(not words.stated(s) for s in new.variables)  # a letter that the user has not chosen
        found = [] if fresh else list(_rewritten(place, old, new, words))
        around = _pattern_around(place.span, words)  # none around a declared result, which a product may well make a square
        if grows:  # what is written nowhere else is what a name stands for
            elsewhere = any(old.symbol in d.variables and s != place.span for d, s in words.origins)
            grown += found if elsewhere and around in words.patterns else []
        elif new.constant is None and around is not None and any(d == new for d, _ in _neighbours(place.span, words)):
            doubled += found if around in words.patterns else []  # `f32[n, n]`: a square that nobody asked for; never of a type
        else:
            likely += found
    return likely, [*doubled, *grown]


def annotated(c: Clash, others: Sequence[Clash], problem: Problem, words: Words) -> Iterator[Suggestion]:
    """The annotation in which several sizes are wrong, as several conflicts at one place tell, with all of them changed."""
    ways: list[dict[Span, tuple[Span, Dim]]] = []
    for conflict in (c, *others):
        primary, left, right, _ = sizes(conflict, problem)
        found: dict[Span, tuple[Span, Dim]] = {}
        for side, raw, new in zip(primary.reason.sides, (primary.left, primary.right), (right, left), strict=False):
            place = words.origin(side, raw)
            around = _pattern_around(place.span, words) if place is not None and place.kind == "annotation" else None
            if place is not None and around is not None and all(words.stated(s) for s in new.variables):
                found[around] = (place.span, new)
        ways.append(found)
    for around in ways[0]:
        changes = tuple(dict.fromkeys(way[around] for way in ways if around in way))
        if len(changes) > 1 and len({span for span, _ in changes}) == len(changes):
            yield from _written(*changes, words=words)


def _turned(place: Place, old: Dim, new: Dim, near: list[tuple[Dim, Span]], words: Words) -> Iterator[Suggestion]:
    """`f32[b, 3, h, w]` for `f32[b, h, w, 3]`: an annotation in the order of another layout, with the size that is needed where
    another one stands. What is alike side by side, as the sides of a window are, stays so; the others keep their order as far as
    they can.
    """
    written = sorted(((old, place.span), *near), key=lambda w: w[1].start)
    spans, dims = [s for _, s in written], [d for d, _ in written]
    beside = [_adjacent(a, b) for a, b in pairwise(spans)]
    if not 3 <= len(dims) <= _MAX_TURNED or not all(beside) or dims.count(new) != 1 or len({s.start for s in spans}) < len(dims):
        return
    pairs = [(n, n + 1) for n in range(len(dims) - 1) if dims[n] == dims[n + 1]]
    ways = [way for way in permutations(range(len(dims))) if all(way.index(b) == way.index(a) + 1 for a, b in pairs)]
    ways.sort(key=lambda way: sum(a > b for a, b in combinations(way, 2)))
    for at in (n for n, d in enumerate(dims) if d == old):  # of two sides of a window, the place tells no one
        order = next((way for way in ways if dims[way[at]] == new), None)
        moved = [(spans[n], spans[k]) for n, k in enumerate(order or ()) if n != k]
        if len(moved) > 2 or any(not _adjacent(spans[at], s) for s, _ in moved if s != spans[at]):
            yield from _arranged(moved)


@proposing
def _arranged(moved: Sequence[tuple[Span, Span]]) -> Iterator[Suggestion]:
    if moved:
        yield resized(*((node(at, S.Node), node(other, S.Node)) for at, other in moved), change=Change.ARRANGED)


@proposing
def _folded(first: Span, last: Span, new: Dim, words: Words) -> Iterator[Suggestion]:
    """Two sizes side by side made one."""
    whole = outside(node(first, S.Node))
    if isinstance(whole, S.TypeName | S.TypeVar) and whole.args is not None:
        size = quoted_dim(render(new, words.name))
        kept = (size if a.span == first else a for a in whole.args if a.span != last)
        yield resized((whole, made(whole, args=tuple(kept))), grown=True)


@proposing
def _written(*changes: tuple[Span, Dim], words: Words) -> Iterator[Suggestion]:
    """Sizes in the places of others."""
    yield resized(*((node(at, S.Node), quoted_dim(render(new, words.name))) for at, new in changes))


def _rewritten(place: Place, old: Dim, new: Dim, words: Words) -> Iterator[Suggestion]:
    """An annotation with another size in the place of one."""
    if place.kind == "annotation" and not _of_parameters(place.span, old, words):
        yield from _written((place.span, new), words=words)


@proposing
def _fact(text: str, heading: S.Fun | None) -> Iterator[Suggestion]:
    """A fact stated in the `where` of a function."""
    if heading is not None:
        left, relation, right = _RELATION.split(text)
        fact = S.Fact(quoted_dim(left), relation, quoted_dim(right), span=NEW)
        d = node(heading.span, S.Fun)
        stated = (d, made(d, where=(*d.where, fact)))
        yield propose(f"state it, if it is meant: `where {text}`", None, stated, change=Change.FACT, grown=True)


# ── accesses ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sliced(r: Refuted, problem: Problem, words: Words) -> Iterator[Suggestion]:
    """A slice that ends with its tensor, or a tensor as large as its slice asks: the latter first where its size is computed."""
    reason, relation = r.obligation.reason, r.obligation.relation
    if r.obligation.subject or "slice" not in reason.text or any(s in relation.variables for s, _ in r.obligation.context.indices):
        return
    asked = Relation(problem.resolve(relation.left), r.relation.op, problem.resolve(relation.right))
    named = all(words.stated(s) for s in asked.variables)
    plain = asked.right.symbol is not None or asked.right.constant is not None
    for side in reason.sides:  # what is sliced
        ends = list(_ended(reason.span, asked.right, words))
        place = words.origin(side, relation.right)
        larger = list(_rewritten(place, asked.right, asked.left, words)) if place is not None and named else []
        yield from (*ends, *larger) if plain else (*larger, *ends)


@proposing
def _ended(at: Span, size: Dim, words: Words) -> Iterator[Suggestion]:
    whole = node(at, S.IndexSlice)
    if whole.stop is not None and not set("[({") & set(at.text):
        yield propose("end with the dimension:", whole, (whole.stop, quoted(render(size, words.name))))


def _larger(r: Refuted, words: Words) -> Iterator[Suggestion]:
    """The annotation with as many elements as an index has by its bound, where both are written out."""
    use, computed = r.obligation.use, r.size is not None and r.size.symbol is None and r.size.constant is None
    if use is None or use.index.symbol is None or r.reach is None or r.also or not computed:
        return
    place, asked = words.origin(Side(use.span, "", use.base), use.target), r.reach + 1
    bounded = any(isinstance(a, Minimum) for a in r.reach.atoms)
    if place is not None and r.size is not None and not bounded and all(words.stated(s) for s in asked.variables):
        yield from _rewritten(place, r.size, asked, words)


# ── places ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_parameters(place: Span, size: Dim, words: Words) -> bool:
    """Whether a size is made of a type's own parameters, so that nothing said of one use of the type may stand there."""
    around = _pattern_around(place, words)
    field = around is not None and around not in words.patterns
    named = any(token.isidentifier() for token in tokens(place.text))
    return field and named and tokens(place.text) != tokens(render(size, words.name))


def _neighbours(span: Span, words: Words) -> list[tuple[Dim, Span]]:
    """The other sizes in the annotation around one."""
    around = _pattern_around(span, words) or type_around(span)
    near = [(d, s) for d, s in words.origins if s.file is span.file and s != span]
    return [(d, s) for d, s in near if around is not None and around.start <= s.start < around.end]


def _adjacent(one: Span, other: Span) -> bool:
    first, second = sorted((one, other), key=lambda s: s.start)
    return first.file.text[first.end : second.start].strip() == ","


def _pattern_around(span: Span, words: Words) -> Span | None:
    """The annotated pattern around a size."""
    around = [a for a in (*words.patterns, *words.fields) if a.file is span.file and a.start <= span.start and span.end <= a.end]
    return min(around, key=lambda s: s.end - s.start, default=None)
