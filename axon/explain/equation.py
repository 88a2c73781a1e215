"""Equations that cannot hold together, in words: both sizes, where each comes from, and what may make them agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, permutations

from axon.base.diagnostics import Change, Diagnostic, Edit, Label, Suggestion
from axon.base.source import Span
from axon.explain.inside import decided
from axon.explain.wording import (
    MAX_LABELS,
    Place,
    Words,
    adjacent,
    annotation,
    distinct,
    merged,
    neighbours,
    numbers,
    origin_label,
    pattern_around,
    plainest,
    rewritten,
    short,
    unstated,
)
from axon.shapes.algebra.prove import Facts
from axon.shapes.constraint import Equal, Problem, Side
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.shapes.solving.causes import primary as blamed
from axon.shapes.solving.equations import Equation, Solution, solve
from axon.shapes.solving.settle import simpler
from axon.shapes.solving.trouble import Clash

_MAX_AROUND = 1_000
_MAX_TURNED = 5  # dimensions of an annotation that are put in another order


def cannot_agree(c: Clash, problem: Problem, words: Words) -> Diagnostic:
    """A conflict, from its place: what each side has, and why."""
    primary, left, right, stated = sizes(c, problem)
    relation = Relation(left, "=", right)
    places, labels, behind = [], [Label(primary.reason.span, primary.reason.text)], list[Place]()
    inner: list[Label] = []
    for given, own, size in zip(_sides(primary, c), (primary.left, primary.right), (left, right), strict=True):
        side, raw = _linked(given, own, size, c, problem)
        places.append(words.origin(side, raw))
        labels.append(origin_label(side, size, places[-1], words))
        behind += words.behind(side, raw, size)
        inner += [Label(p.span, p.why) for p in words.inside(side, raw)[:1] if p.kind != "flatten"]
    labels += [Label(p.span, p.why.removeprefix("since ")) for p in behind if not any(p.span == label.span for label in labels)]
    if not all(p is not None and p.kind != "parameter" for p in places):  # else these say where both come from
        for equal in c.equals:
            passing = equal.reason.text.startswith(("argument", "the argument", "part of", "the product"))  # says nothing of sizes
            if equal is not primary and not passing and not any(label.span == equal.reason.span for label in labels):
                labels.append(Label(equal.reason.span, equal.reason.text))
    folds = (
        [p for side in _sides(primary, c) for p in words.folds(side)]
        if all(p is None or p.kind != "flatten" for p in places)
        else []
    )
    labels += [Label(p.span, p.why) for p in folds]
    flattened = [n for n, p in enumerate(places, 1) if p is not None and p.kind == "flatten"]
    if len(flattened) == 1 and labels[flattened[0]].span != labels[0].span:
        # This is where the size changed; the others only notice.
        labels.insert(0, labels.pop(flattened[0]))
    labels = merged(distinct(labels))[:MAX_LABELS]
    shown = f"{render(left, words.name)} = {render(right, words.name)}"
    if c.kind == "data":
        return Diagnostic(
            "AX0307",
            "a size that only the data decide cannot be proved equal to another",
            tuple(labels),
            (f"{relation.render(words.name)} is known only when the program runs",),
            (Suggestion("compare them at run time with `as`, by the type that is needed"),),
        )
    needed = [
        Relation(problem.resolve(o.relation.left), o.relation.op, problem.resolve(o.relation.right)) for o in problem.obligations
    ]
    notes = numbers(relation, words, shown, stated, needed)
    if c.kind == "named":
        notes = (
            unstated(relation, words),
            *(note.removeprefix(f"{shown} must hold; ") for note in notes),
        )
    notes += (f"at the leaf `{primary.reason.leaf}`",) if primary.reason.leaf else ()
    within = _within_callee(primary, words) or inner
    labels += distinct(within)
    labels += [Label(span, "likewise") for span in c.again[:MAX_LABELS]]
    mends = _mends(left, right, places, primary, c, words)
    if c.kind == "named" and any(", this index runs over " in label.text for label in within):
        mends = ()  # more likely the index is wrong than the sizes of whoever calls
    return Diagnostic("AX0301", "these sizes cannot agree", tuple(labels), notes, tuple(mends))


def _within_callee(primary: Equal, words: Words) -> list[Label]:
    """Of a refused argument: the place in the body of the function that asks for this size."""
    callee = words.called(primary)
    found = decided(callee) if callee is not None else None
    if found is None:
        return []
    name, reason = found[0].name, found[1]
    text = reason.text
    if reason.span.file.path != primary.reason.span.file.path:  # what a library does is not to blame
        return []
    if all(side.about and side.text.endswith(" is {}") for side in reason.sides):
        text = "this index runs over " + " and ".join(side.text.removesuffix(" is {}") for side in reason.sides)
    return [Label(reason.span, f"in `{name}`, {'this is ' * text.startswith(('argument', 'the argument'))}{text}")]


def _sides(primary: Equal, c: Clash) -> tuple[Side, Side]:
    sides = primary.reason.sides
    if len(sides) == 2:
        return sides[0], sides[1]
    other = c.equals[0].reason.span if len(c.equals) > 1 else primary.reason.span
    return Side(primary.reason.span, "this is {}"), Side(other, "this is {}")


def _linked(side: Side, raw: Dim, size: Dim, c: Clash, problem: Problem) -> tuple[Side, Dim]:
    """Of an index that "must run to" a size: the side of another equation of the core that asks for that."""
    if not side.text.endswith("must run to {}"):
        return side, raw
    for equal in c.equals:
        pairs = ((equal.left, 1, equal.right), (equal.right, 0, equal.left))
        for own, other, asked in pairs if len(equal.reason.sides) == 2 else ():
            if own == raw and problem.resolve(asked) == size and equal.reason.sides[other] is not side:
                return equal.reason.sides[other], asked
    return side, raw


def sizes(c: Clash, problem: Problem) -> tuple[Equal, Dim, Dim, list[Relation]]:
    """The equation to blame, its two sides as the others make them (those of the core, where all say too little), and facts."""

    def differ(e: Equal) -> bool:
        return problem.resolve(e.left) != problem.resolve(e.right)

    first = blamed(c)
    flexible = set(problem.flexible)
    clear = not c.relation.variables & flexible
    at = first.reason.span
    others = [e for e in reversed(c.equals) if len(e.reason.sides) == 2 and e.reason.span != at and differ(e)]
    if (whole := _without(first, c, problem)) is not None:
        stated = [r for r, _ in problem.assumed] + [r for r, _ in whole.conditions]
        left, right = (simpler(d.substitute(whole.substitution), stated) for d in (first.left, first.right))
        if left != right and not (left - right).variables & flexible:
            return first, left, right, stated
    for primary in (first, *others):
        rest = [Equation(problem.resolve(e.left), problem.resolve(e.right), e) for e in c.equals if e is not primary]
        try:
            known = solve(rest, problem.flexible, Facts(), blame=False).substitution
            left, right = (problem.resolve(d).substitute(known) for d in (primary.left, primary.right))
        except DimensionTooLarge:
            break
        open_ = clear and (left - right).variables & flexible
        if left != right and not open_ and (primary is first or Relation(left, "=", right).trivial is False):
            return primary, left, right, []
    if c.kind == "data" and others and not differ(first):
        return others[0], problem.resolve(others[0].left), problem.resolve(others[0].right), []
    return first, c.relation.left, c.relation.right, []


def _without(primary: Equal, c: Clash, problem: Problem) -> Solution | None:
    """What everything but an equation says; None of more than a person writes."""
    if max(len(c.around), len(problem.assumed)) > _MAX_AROUND:
        return None
    rest = [Equation(e.left, e.right, e) for e in c.around if e is not primary]
    try:
        return solve(rest, problem.flexible, Facts().assume(*(r for r, _ in problem.assumed)), blame=False)
    except DimensionTooLarge:
        return None


def annotated(c: Clash, others: Sequence[Clash], problem: Problem, words: Words) -> Iterable[Suggestion]:
    """The annotation in which several sizes are wrong, as several conflicts at one place tell, with all of them changed."""
    ways: list[dict[Span, tuple[Edit, ...]]] = []
    for conflict in (c, *others):
        primary, left, right, _ = sizes(conflict, problem)
        found: dict[Span, tuple[Edit, ...]] = {}
        for side, raw, new in zip(primary.reason.sides, (primary.left, primary.right), (right, left), strict=False):
            place = words.origin(side, raw)
            around = pattern_around(place.span, words) if place is not None and place.kind == "annotation" else None
            if place is not None and around is not None and all(words.stated(s) for s in new.variables):
                found[around] = (Edit(place.span, render(new, words.name)),)
        ways.append(found)
    for around in ways[0]:
        edits = tuple(dict.fromkeys(e for way in ways for e in way.get(around, ())))
        if len(edits) > 1 and len({e.span for e in edits}) == len(edits):
            yield Suggestion(f"make it `{annotation(edits, words)}`", edits, change=Change.SIZE)


def _turned(place: Place, old: Dim, new: Dim, near: list[tuple[Dim, Span]], words: Words) -> Iterable[Suggestion]:
    """`f32[b, 3, h, w]` for `f32[b, h, w, 3]`: an annotation in the order of another layout, with the size that is needed where
    another one stands. What is alike side by side, as the sides of a window are, stays so; the others keep their order as far as
    they can.
    """
    written = sorted(((old, place.span), *near), key=lambda w: w[1].start)
    spans, dims = [s for _, s in written], [d for d, _ in written]
    beside = [adjacent(a, b) for a, b in pairwise(spans)]
    if not 3 <= len(dims) <= _MAX_TURNED or not all(beside) or dims.count(new) != 1 or len({s.start for s in spans}) < len(dims):
        return
    pairs = [(n, n + 1) for n in range(len(dims) - 1) if dims[n] == dims[n + 1]]
    ways = [way for way in permutations(range(len(dims))) if all(way.index(b) == way.index(a) + 1 for a, b in pairs)]
    ways.sort(key=lambda way: sum(a > b for a, b in combinations(way, 2)))
    for at in (n for n, d in enumerate(dims) if d == old):  # of two sides of a window, the place tells no one
        order = next((way for way in ways if dims[way[at]] == new), None)
        edits = tuple(Edit(spans[n], spans[k].text) for n, k in enumerate(order or ()) if n != k)
        if len(edits) > 2 or any(not adjacent(spans[at], e.span) for e in edits if e.span != spans[at]):
            yield Suggestion(f"make it `{annotation(edits, words)}`", edits, change=Change.ARRANGED)


def _mends(left: Dim, right: Dim, places: list[Place | None], primary: Equal, c: Clash, words: Words) -> Iterable[Suggestion]:
    """Changes that may make the sizes agree: a stated bound, an annotation, a stated fact; what is least likely comes last."""
    sides = primary.reason.sides
    name = short(sides[0].span) if sides else ""
    if len(sides) == 2 and sides[0].text.endswith("must run to {}") and render(left, words.name) != name:
        yield Suggestion(f"if it should not run over the whole dimension, state its bound: `{name} < {render(left, words.name)}`")
    pairs = [(p, old, new) for p, old, new in ((places[1], right, left), (places[0], left, right)) if p is not None]
    folded = set[Span]()
    for place, old, new in pairs:
        near = neighbours(place.span, words) if place.kind == "annotation" else []
        for span in [s for d, s in near if d == new and adjacent(s, place.span)]:
            edits = (Edit(place.span, render(new, words.name)), Edit(span, render(old, words.name)))
            yield Suggestion(f"make it `{annotation(edits, words)}`", edits, change=Change.SIZE)
        yield from _turned(place, old, new, near, words)
        for other, span in near if all(words.stated(s) for s in new.variables) else ():  # `f32[b, s]` for what is flattened
            if adjacent(span, place.span) and other * old == new and new.constant is None:
                first, last = sorted((span, place.span), key=lambda s: s.start)
                whole = (Edit(Span(first.file, first.start, last.end), render(new, words.name)),)
                folded.add(place.span)
                yield Suggestion(f"make it `{annotation(whole, words)}`", whole, change=Change.SIZE)
    doubled: list[Suggestion] = []
    grown: list[Suggestion] = []
    for place, old, new in pairs:
        grows = old.symbol is not None and old.symbol in new.variables  # `n` made `n + 1`: rarely meant
        fresh = any(not words.stated(s) for s in new.variables)  # a letter that the user has not chosen
        if fresh or place.span in folded or (found := rewritten(place, old, new, words)) is None:
            continue
        if grows:  # what is written nowhere else is what a name stands for
            elsewhere = any(old.symbol in d.variables and s != place.span for d, s in words.origins)
            grown += [found] if elsewhere and pattern_around(place.span, words) in words.patterns else []
            continue
        around = pattern_around(place.span, words)  # none around a declared result, which a product may well make a square
        if new.constant is None and around is not None and any(d == new for d, _ in neighbours(place.span, words)):
            if around in words.patterns:  # nobody means to change a type so
                doubled.append(found)  # `f32[n, n]`: a square that nobody asked for
        else:
            yield found
    if c.kind == "named" and words.where is not None:
        fact = plainest(Relation(left, "=", right)).render(words.name)
        yield Suggestion(f"state it, if it is meant: `where {fact}`", (words.where(fact),), change=Change.FACT)
    yield from (*doubled, *grown)
