"""Equations that cannot hold together, in words: both sizes, and where each comes from."""

from __future__ import annotations

from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.explain.inside import decided
from axon.explain.wording import (
    MAX_LABELS,
    Place,
    Words,
    distinct,
    merged,
    numbers,
    origin_label,
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


def cannot_agree(c: Clash, problem: Problem, words: Words) -> Diagnostic:
    """A conflict, from its place: what each side has, and why."""
    primary, left, right, stated = sizes(c, problem)
    relation = Relation(left, "=", right)
    places, labels, behind = [], [Label(primary.reason.span, primary.reason.text)], list[Place]()
    inner: list[Label] = []
    for (side, raw), size in zip(linked(primary, c, left, right, problem), (left, right), strict=True):
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
    notes = numbers(relation, words, shown, [*stated, *c.asked], needed)
    if c.kind == "named":
        notes = (
            unstated(relation, words),
            *(note.removeprefix(f"{shown} must hold; ") for note in notes),
        )
    notes += (f"at the leaf `{primary.reason.leaf}`",) if primary.reason.leaf else ()
    labels += distinct(within_callee(primary, words) or inner)
    labels += [Label(span, "likewise") for span in c.again[:MAX_LABELS]]
    return Diagnostic("AX0301", "these sizes cannot agree", tuple(labels), notes)


def within_callee(primary: Equal, words: Words) -> list[Label]:
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


def linked(primary: Equal, c: Clash, left: Dim, right: Dim, problem: Problem) -> list[tuple[Side, Dim]]:
    """The two sides of the equation to blame, each with its size before it was solved for."""
    sides = zip(_sides(primary, c), (primary.left, primary.right), (left, right), strict=True)
    return [_linked(side, own, size, c, problem) for side, own, size in sides]


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
        stated = [r for r, _ in problem.assumed] + [c.relation for c in whole.conditions]
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
