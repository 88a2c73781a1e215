"""The wording of shape errors: what `settle` found wrong, as diagnostics in the user's own names.

Every message names both sizes and where each comes from, and gives numbers for which they differ. Suggestions made here carry
edits; whoever checks the file tries them, and prints only those after which it passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from axon.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.names import Symbol
from axon.nearest import legal_sizes
from axon.shapes.broken import Broken, arguments, by_fact, nearest, refuted
from axon.shapes.causes import Cause, Unbounded
from axon.shapes.causes import primary as blamed
from axon.shapes.constraint import Callee, Equal, Range, Reason, Side
from axon.shapes.counterexample import counterexample
from axon.shapes.dimension import MAX_DEGREE, MAX_TERMS, Dim, DimensionTooLarge, Minimum
from axon.shapes.inside import decided
from axon.shapes.prove import Facts
from axon.shapes.relation import Relation
from axon.shapes.settle import Clash, Hopeless, Problem, Refuted, TooLarge, Unknown, Unprovable, simpler
from axon.shapes.solve import Equation, Solution, solve
from axon.source import Span

_UNSTATED = "{} does not follow from what is stated; your names say that any sizes will do"
_MAX_LABELS = 4
_MAX_AROUND = 1_000
_LETTERS = "nmpqrs"  # of bounds to state
_SMALL = (8, 4, 2, 16)  # of those by which others are divided
_TYPICAL = (64, 32, 48, 16, 24, 12, 8, 10, 6, 5, 7, 9)  # sizes to show with; distinct, so that different names get different ones


@dataclass(frozen=True, slots=True)
class Place:
    """What decides a size, and where: `kind` is that of `types.origin`; `why` is a clause about it, perhaps empty."""

    kind: str
    span: Span
    why: str


@dataclass(frozen=True, slots=True)
class Words:
    """How to talk about a declaration: names of dimensions, and where its sizes come from."""

    name: Callable[[Symbol], str]
    origins: tuple[tuple[Dim, Span], ...]  # resolved sizes and where they are written
    patterns: tuple[Span, ...]  # `w : f32[d, k]`, each pattern with a type …
    fields: tuple[Span, ...]  # … and each field in one
    where: Callable[[str], Edit] | None  # the edit that adds a fact to the declaration
    stated: Callable[[Symbol], bool]  # whether the user gave a dimension its name
    origin: Callable[[Side, Dim], Place | None]  # what decides a size that a side has, before it was solved for
    behind: Callable[[Side, Dim, Dim], list[Place]]  # where a size got divisions that nobody has written, before it was solved for
    called: Callable[[Equal], Callee | None]  # of an argument's equation: the function called, and the dimension of its parameter


def explain(trouble: Cause, problem: Problem, words: Words) -> Diagnostic:
    """One trouble as one diagnostic."""
    match trouble:
        case Clash():
            broken = by_fact(trouble, problem)
            return _clash(trouble, problem, words) if broken is None else _broken(broken, problem, words)
        case Unknown():
            return _unknown(trouble, words)
        case Unbounded(ranges, unused):
            return _unbounded(ranges, unused)
        case Refuted():
            return _refuted(trouble, problem, words)
        case Unprovable(obligation, relation):
            divided = (q.divisor.symbol for side in (relation.left, relation.right) for q in side.quotients)
            divisors = sorted(words.name(s) for s in divided if s is not None and s in problem.data)
            if obligation.sized and divisors:
                note = f"it needs {divisors[0]} >= 1, which is known only when the program runs"
                label = Label(obligation.reason.span, f"this divides by {divisors[0]}, which could be 0")
                help_ = Suggestion(f"divide by a size that is at least 1: `max 1 {divisors[0]}`")
                message = "a size that depends on one that only the data decide cannot be proved to be a size"
                return Diagnostic("AX0307", message, (label,), (note,), (help_,))
            if obligation.sized:
                note = f"it needs {_plainly(relation, words)}, which is known only when the program runs"
                label = Label(obligation.reason.span, "this size could be negative")
                help_ = Suggestion("make it a size that is never negative: `max 0 (…)`")
                message = "a size that depends on one that only the data decide cannot be proved to be a size"
                return Diagnostic("AX0307", message, (label,), (note,), (help_,))
            message = "a contract on a size that only the data decide cannot be proved"
            label = Label(obligation.reason.span, obligation.reason.text)
            shown = _plainly(relation, words)
            help_ = Suggestion(f"make it a fact where it is needed: `if {shown} then … else …`")
            return Diagnostic("AX0307", message, (label,), (f"{shown} is known only when the program runs",), (help_,))
        case Hopeless():
            return _hopeless(trouble, words)
        case TooLarge(reason):
            label = Label(reason.span, "grows beyond what can be reasoned about")
            note = f"a size may have at most {MAX_TERMS} terms and {MAX_DEGREE} factors"
            return Diagnostic("AX0309", "the sizes in this declaration are too complicated", (label,), (note,))
        case _:
            assert_never(trouble)


# ── equations ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _clash(c: Clash, problem: Problem, words: Words) -> Diagnostic:
    primary, left, right, stated = _sizes(c, problem)
    relation = Relation(left, "=", right)
    places, labels, behind = [], [Label(primary.reason.span, primary.reason.text)], list[Place]()
    for given, own, size in zip(_sides(primary, c), (primary.left, primary.right), (left, right), strict=True):
        side, raw = _linked(given, own, size, c, problem)
        places.append(words.origin(side, raw))
        labels.append(_origin(side, size, places[-1], words))
        behind += words.behind(side, raw, size)
    labels += [Label(p.span, p.why.removeprefix("since ")) for p in behind if not any(p.span == label.span for label in labels)]
    if not all(p is not None and p.kind != "parameter" for p in places):  # else these say where both come from
        for equal in c.equals:
            passing = equal.reason.text.startswith(("argument", "the argument", "part of"))  # says nothing of sizes
            if equal is not primary and not passing and not any(label.span == equal.reason.span for label in labels):
                labels.append(Label(equal.reason.span, equal.reason.text))
    flattened = [n for n, p in enumerate(places, 1) if p is not None and p.kind == "flatten"]
    if len(flattened) == 1 and labels[flattened[0]].span != labels[0].span:
        # This is where the size changed; the others only notice.
        labels.insert(0, labels.pop(flattened[0]))
    labels = _merged(_distinct(labels))[:_MAX_LABELS]
    shown = f"{left.render(words.name)} = {right.render(words.name)}"
    if c.kind == "data":
        return Diagnostic(
            "AX0307",
            "a size that only the data decide cannot be proved equal to another",
            tuple(labels),
            (f"{relation.render(words.name)} is known only when the program runs",),
            (Suggestion("compare them at run time with `as`, by the type that is needed"),),
        )
    notes = _numbers(relation, words, shown, stated)
    if c.kind == "named":
        notes = (_UNSTATED.format(shown), *notes)
    within = _within_callee(primary, words)
    labels += within
    labels += [Label(span, "likewise") for span in c.again[:_MAX_LABELS]]
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
    name, reason = found
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


def _sizes(c: Clash, problem: Problem) -> tuple[Equal, Dim, Dim, list[Relation]]:
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
            known = solve(rest, problem.flexible, Facts()).substitution
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
        return solve(rest, problem.flexible, Facts().assume(*(r for r, _ in problem.assumed)))
    except DimensionTooLarge:
        return None


def _origin(side: Side, size: Dim, place: Place | None, words: Words) -> Label:
    """What decides a size, as a label on that place; on the expression that has it where nothing else does."""
    text = side.text.replace("{}", size.render(words.name))
    if place is None or place.kind == "parameter" or (place.kind == "call" and place.span == side.span):
        return Label(side.span, text)
    if place.span != side.span:
        text = f"`{_short(side.span)}` {_verb(text)}" if _verb(text) else text
    if place.kind == "annotation" and not place.why and _in_other_words(place.span, size, words):
        text = f"{text}, which is {' '.join(place.span.text.split())} here"
    return Label(place.span, f"{text}, {place.why}" if place.why else text)


def _in_other_words(place: Span, size: Dim, words: Words) -> bool:
    """Whether a size is written by names of a type's own: `2 * o` for 16 * w."""
    written, shown = _tokens(place.text), _tokens(size.render(words.name))
    return size.constant is None and written != shown and "," not in written and bool(set(written) - set(shown) - set("0123456789"))


def _verb(text: str) -> str:
    """Turn "the left side has 4 * d columns" into "has 4 * d columns", to be said of the expression itself."""
    for start in ("the left side ", "the right side ", "this ", "the first ", "this element "):
        if text.startswith(start) and text[len(start) :].startswith("has "):
            return text[len(start) :]
    return ""


def _short(span: Span) -> str:
    text = " ".join(span.text.split())
    return text if len(text) <= 30 else text[:29] + "…"


def _distinct(labels: Iterable[Label]) -> list[Label]:
    seen: set[tuple[int, int, str]] = set()
    out = []
    for label in labels:
        key = (label.span.start, label.span.end, label.text)
        if key not in seen:
            seen.add(key)
            out.append(label)
    return out


def _merged(labels: list[Label]) -> list[Label]:
    """Labels of one place as one label."""
    out: list[Label] = []
    for label in labels:
        same = next((n for n, o in enumerate(out) if o.span == label.span), None)
        if same is None:
            out.append(label)
        else:
            joiner = "; " if ": " in out[same].text else ": "
            out[same] = Label(label.span, out[same].text + joiner + label.text)
    return out


def _numbers(relation: Relation, words: Words, shown: str, stated: Sequence[Relation]) -> tuple[str, ...]:
    """When the relation holds, if that is simple to say, and sizes for which it does not though all that is stated does."""
    slack = relation.left - relation.right
    if slack.constant is not None:
        if relation.left.constant is None or relation.right.constant is None:
            return (f"{shown} never holds: the two always differ by {abs(slack.constant)}",)
        return (f"{relation.left} is not {relation.right}",)
    variables = sorted(relation.variables, key=lambda s: s.id)
    if len(variables) == 1 and (split := slack.linear_in(variables[0])) is not None and not words.stated(variables[0]):
        factor, rest = split  # factor * v = -rest, for a v that the user does not know
        if factor.constant is not None and rest.constant is not None:
            return (_multiples(-rest.constant if factor.constant > 0 else rest.constant, abs(factor.constant)),)
    notes = []
    plain = relation.left.symbol is not None and relation.right.constant is not None
    if len(variables) == 1 and not plain:
        held = [n for n in range(65) if _holds(relation, {variables[0]: n})]
        only = f"{shown} holds only for {words.name(variables[0])} = {held[0]}" if len(held) == 1 else ""
        if not held:
            only = f"{shown} holds for no {words.name(variables[0])} up to 64"
        if only:
            notes.append(only)
    if len(variables) > 1 and (when := _only_when(slack, words)):
        notes.append(f"{shown} holds only for {when}")
    divisors = frozenset[Symbol]().union(*(q.divisor.variables for r in stated for q in r.left.quotients | r.right.quotients))
    small = dict(zip([v for v in variables if v in divisors], _SMALL, strict=False))
    wish = dict(zip([v for v in variables if v not in small], _TYPICAL, strict=False)) | small
    fitting = len(wish) == len(variables) and _defined(relation, wish) and not relation.holds(wish)
    fitting = fitting and all(_holds(r, wish) for r in stated if r.variables <= relation.variables)
    values = wish if fitting else counterexample(Facts().assume(*stated), relation, wish) or counterexample(Facts(), relation, wish)
    if values is not None and _defined(relation, values):
        given = ", ".join(f"{words.name(s)} = {values[s]}" for s in variables)
        sides = f"{relation.left.evaluate(values)} {relation.op} {relation.right.evaluate(values)}"
        notes.append(f"for {given} it would be {sides}")
    return ("; ".join(notes),) if notes else ()


def _only_when(slack: Dim, words: Words) -> str:
    """`t = 1 or b = 0` for b * t - b: factors that can be 0."""
    shared = set.intersection(*({a for a in m if isinstance(a, Symbol)} for m in slack.mapping)) if slack.mapping else set()
    rest = slack
    for v in shared:
        split = rest.linear_in(v)
        if split is None or split[1].mapping:
            return ""
        rest = split[0]
    if not shared or len(rest.variables) != 1:
        return ""
    (variable,) = rest.variables
    split = rest.linear_in(variable)
    if split is None or split[0].constant is None or split[1].constant is None or split[1].constant % split[0].constant:
        return ""
    value = -split[1].constant // split[0].constant
    ways = [f"{words.name(variable)} = {value}"] if value >= 0 else []
    return " or ".join([*ways, *(f"{words.name(v)} = 0" for v in sorted(shared, key=lambda v: v.id))])


def _multiples(size: int, factor: int) -> str:
    below = size // factor * factor
    near = f"{below} and {below + factor}" if below else str(factor)
    divisors = legal_sizes(factor, lambda n: n > 1 and size % n == 0)
    ways = f", and {size} divides by {' and '.join(map(str, divisors))}" if divisors and factor < size else ""
    return f"{size} is not a multiple of {factor}; the nearest {'are' if below else 'is'} {near}{ways}"


def _holds(relation: Relation, values: dict[Symbol, int]) -> bool:
    try:
        return relation.holds(values)
    except ZeroDivisionError:
        return False


def _defined(relation: Relation, values: dict[Symbol, int]) -> bool:
    try:
        relation.holds(values)
    except ZeroDivisionError:
        return False
    return True


def _mends(left: Dim, right: Dim, places: list[Place | None], primary: Equal, c: Clash, words: Words) -> Iterable[Suggestion]:
    """Changes that may make the sizes agree: a stated bound, an annotation, a stated fact; what is least likely comes last."""
    sides = primary.reason.sides
    name = _short(sides[0].span) if sides else ""
    if len(sides) == 2 and sides[0].text.endswith("must run to {}") and left.render(words.name) != name:
        yield Suggestion(f"if it should not run over the whole dimension, state its bound: `{name} < {left.render(words.name)}`")
    pairs = [(p, old, new) for p, old, new in ((places[1], right, left), (places[0], left, right)) if p is not None]
    for place, old, new in pairs:
        near = _neighbours(place.span, words) if place.kind == "annotation" else []
        for span in [s for d, s in near if d == new and _adjacent(s, place.span)]:
            edits = (Edit(place.span, new.render(words.name)), Edit(span, old.render(words.name)))
            yield Suggestion(f"make it `{_annotation(edits, words)}`", edits)
    doubled: list[Suggestion] = []
    grown: list[Suggestion] = []
    for place, old, new in pairs:
        grows = old.symbol is not None and old.symbol in new.variables  # `n` made `n + 1`: rarely meant
        fresh = any(not words.stated(s) for s in new.variables)  # a letter that the user has not chosen
        if fresh or (found := _rewritten(place, old, new, words)) is None:
            continue
        if grows:  # what is written nowhere else is what a name stands for
            elsewhere = any(old.symbol in d.variables and s != place.span for d, s in words.origins)
            grown += [found] if elsewhere and _around(place.span, words) in words.patterns else []
            continue
        if new.constant is None and any(d == new for d, _ in _neighbours(place.span, words)):
            if _around(place.span, words) in words.patterns:  # nobody means to change a type so
                doubled.append(found)  # `f32[n, n]`: a square that nobody asked for
        else:
            yield found
    if c.kind == "named" and words.where is not None:
        fact = f"{left.render(words.name)} = {right.render(words.name)}"
        yield Suggestion(f"state it, if it is meant: `where {fact}`", (words.where(fact),))
    yield from (*doubled, *grown)


def _rewritten(place: Place, old: Dim, new: Dim, words: Words) -> Suggestion | None:
    """An annotation with another size in the place of one."""
    if place.kind != "annotation" or _of_parameters(place.span, old, words):
        return None
    edit = Edit(place.span, new.render(words.name))
    return Suggestion(f"make it `{_annotation((edit,), words)}`", (edit,))


def _of_parameters(place: Span, size: Dim, words: Words) -> bool:
    """Whether a size is made of a type's own parameters, so that nothing said of one use of the type may stand there."""
    around = _around(place, words)
    field = around is not None and around not in words.patterns
    named = any(token.isidentifier() for token in _tokens(place.text))
    return field and named and _tokens(place.text) != _tokens(size.render(words.name))


def _tokens(text: str) -> list[str]:
    return sorted(re.findall(r"\w+|[^\w\s]", text))


def _neighbours(span: Span, words: Words) -> list[tuple[Dim, Span]]:
    """The other sizes in the annotation around one."""
    around = _around(span, words)
    near = [(d, s) for d, s in words.origins if s.file is span.file and s != span]
    return [(d, s) for d, s in near if around is not None and around.start <= s.start < around.end]


def _adjacent(one: Span, other: Span) -> bool:
    first, second = sorted((one, other), key=lambda s: s.start)
    return first.file.text[first.end : second.start].strip() == ","


def _around(span: Span, words: Words) -> Span | None:
    """The annotated pattern around a size."""
    around = [a for a in (*words.patterns, *words.fields) if a.file is span.file and a.start <= span.start and span.end <= a.end]
    return min(around, key=lambda s: s.end - s.start, default=None)


def _annotation(edits: tuple[Edit, ...], words: Words) -> str:
    """The annotated pattern around some sizes, with the edits made."""
    a = _around(edits[0].span, words)
    if a is None:
        return edits[0].text
    whole = a.text
    for edit in sorted(edits, key=lambda e: -e.span.start):
        whole = whole[: edit.span.start - a.start] + edit.text + whole[edit.span.end - a.start :]
    whole = " ".join(whole.split())
    return whole[1:-1].strip() if whole.startswith("(") and whole.endswith(")") else whole


# ── ranges, obligations, contracts ──────────────────────────────────────────────────────────────────────────────────────


def _unknown(u: Unknown, words: Words) -> Diagnostic:
    name = u.range.symbol.name
    ways = " and ".join(c.render(words.name) for c in u.candidates)
    return Diagnostic(
        "AX0311",
        f"the uses of `{name}` ask for ranges that need not be equal",
        (Label(u.range.span, f"`{name}` could run to any of {ways}"),),
        ("which of these is the least depends on the sizes",),
        (Suggestion(f"state the bound: `{name} < n`"),),
    )


def _unbounded(ranges: tuple[Range, ...], unused: bool) -> Diagnostic:
    names = [f"`{r.symbol.name}`" for r in ranges]
    if len(ranges) == 1:
        what = "indexes nothing" if unused else "does not index a dimension by itself"
        label = Label(ranges[0].span, f"{names[0]} {what}")
        help_ = Suggestion(f"state its bound: `{ranges[0].symbol.name} < n`")
        return Diagnostic("AX0302", f"nothing says how far {names[0]} runs", (label,), suggestions=(help_,))
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    labels = tuple(Label(r.span) for r in ranges[:-1])
    if unused:
        last = Label(ranges[-1].span, f"{listed} index nothing")
        bounds = ", ".join(f"{r.symbol.name} < {letter}" for r, letter in zip(ranges, _LETTERS, strict=False))
        help_ = Suggestion(f"index something with them, or state their bounds: `{bounds}`")
        return Diagnostic("AX0302", f"nothing says how far {listed} run", (last, *labels), suggestions=(help_,))
    last = Label(ranges[-1].span, f"{listed} stand in one index together")
    help_ = Suggestion(
        f"state the bound of all but one of them, as in `{ranges[-1].symbol.name} < 3`: that one then runs as far as it can"
    )
    return Diagnostic("AX0302", f"nothing says how far {listed} run", (last, *labels), suggestions=(help_,))


def _fill(reason: Reason, shown: str) -> str:
    return reason.text.replace("{}", shown)


def _refuted(r: Refuted, problem: Problem, words: Words) -> Diagnostic:
    reason = r.obligation.reason
    if r.reach is not None and r.size is not None:
        return _outside(r, words)
    if r.obligation.subject:
        return _broken(refuted(r, problem), problem, words)
    shown, wanted = (_plainly(relation, words) for relation in (r.relation, r.obligation.relation))
    indices = [s for s, _ in r.obligation.context.indices if s in r.obligation.relation.variables]
    if not indices and "slice" in reason.text:
        asked = Relation(problem.resolve(r.obligation.relation.left), r.relation.op, problem.resolve(r.obligation.relation.right))
        wanted = f"{asked.left.render(words.name)} {asked.op} {asked.right.render(words.name)}"
        notes = _numbers(asked, words, wanted, ()) if asked.slack.constant is None else ()
        found, mends = [Label(reason.span, _fill(reason, wanted))], list[Suggestion]()
        for side in reason.sides:  # what is sliced
            place = words.origin(side, r.obligation.relation.right)
            found.append(_origin(side, asked.right, place, words))
            mends += _slice_mends(reason.span, place, asked, words)
        return Diagnostic("AX0303", "this access leaves its tensor", tuple(_merged(_distinct(found))), notes, tuple(mends))
    labels = (Label(reason.span, _fill(reason, wanted)), *(Label(s.span, s.text) for s in reason.sides))
    if "index" not in reason.text and "slice" not in reason.text:
        ends = tuple(f"at the end of the range of `{s.name}` that is {shown}" for s in indices[-1:] if shown != wanted)
        return Diagnostic("AX0305", "this cannot hold for the sizes here", labels, ends)
    notes = () if shown == wanted else (f"at the end of the ranges that is {shown}, which cannot be",)
    helps: tuple[Suggestion, ...] = ()
    if indices:
        text = f"state a smaller bound, `{indices[-1].name} < …`, guard it with `if`, or read zeros outside with `x[… | 0.0]`"
        helps = (Suggestion(text),)
    return Diagnostic("AX0303", "this access leaves its tensor", labels, notes, helps)


def _broken(b: Broken, problem: Problem, words: Words) -> Diagnostic:
    """A call that breaks a contract: the fact and the sizes, where each comes from, and the nearest that would do."""
    reason = b.obligation.reason
    given = " and ".join(f"{n} is {d.render(words.name)}" for n, d in b.given if d.render(words.name) != n)
    labels = [Label(reason.span, reason.text + (f", and {given} here" if given else ""))]
    told: dict[Span, list[str]] = {}
    for side, raw, size in arguments(b, problem.equals):
        label = _origin(side, size, words.origin(side, raw), words)
        told.setdefault(label.span, []).append(label.text)
    labels += [Label(span, " and ".join(dict.fromkeys(texts))) for span, texts in told.items()]
    name = reason.text.split("`")[1]  # without what the call gives it in braces
    for side in reason.sides:
        text = f"`{name}` states it here" if side.text == "stated here" else f"`{name}` needs it here: {side.text}"
        labels.append(Label(side.span, text))
    notes = list(nearest(b, problem))
    if b.relation.op == "=" and b.relation.slack.constant is None and b.relation.variables:
        shown = f"{b.relation.left.render(words.name)} = {b.relation.right.render(words.name)}"
        notes += _numbers(b.relation, words, shown, ())
    return Diagnostic("AX0305", "the sizes here break a contract", tuple(_merged(labels)), tuple(notes))


def _slice_mends(at: Span, place: Place | None, asked: Relation, words: Words) -> Iterable[Suggestion]:
    """A slice that ends with its tensor, or a tensor as large as its slice asks: the latter first where its size is computed."""
    pieces = at.text.split(":")
    ends: list[Suggestion] = []
    if 2 <= len(pieces) <= 3 and pieces[1].strip() and not set("[({") & set(at.text):
        start = at.start + len(pieces[0]) + 1 + len(pieces[1]) - len(pieces[1].lstrip())
        span = Span(at.file, start, start + len(pieces[1].strip()))
        text = asked.right.render(words.name)
        shown = f"{at.text[: span.start - at.start]}{text}{at.text[span.end - at.start :]}"
        ends.append(Suggestion(f"end with the dimension: `{shown}`", (Edit(span, text),)))
    named = all(words.stated(s) for s in asked.variables)
    larger = _rewritten(place, asked.right, asked.left, words) if place is not None and named else None
    plain = asked.right.symbol is not None or asked.right.constant is not None
    yield from (*ends, larger) if plain and larger else (larger, *ends) if larger else ends


def _plainly(relation: Relation, words: Words) -> str:
    """The relation as it was meant: of numbers alone, with these numbers."""
    if relation.variables:
        return relation.render(words.name)
    return f"{relation.left} {relation.op} {relation.right}"


def _outside(r: Refuted, words: Words) -> Diagnostic:
    """An access that leaves its tensor: which index it reaches, and what there is; likewise in other dimensions."""
    use = r.obligation.use
    assert use is not None
    low = r.obligation.relation.op != "<"
    padded = f"read a default outside: `{use.base}[… | 0.0]`"
    help_ = (
        f"guard it with `if`, or {padded}"
        if low
        else f"state a smaller bound for `{r.ends[-1][0].name}`, or {padded}"
        if r.ends
        else ""
    )
    labels, sizes, notes = [], [], []
    for part in (r, *r.also):
        size = _whose_size(part, words)
        label, what = _reached(part, words, bool(r.also), size is not None)
        labels.append(label)
        sizes += [size] if size is not None else []
        notes += what
    suggestions = (*_larger(r, words), *((Suggestion(help_),) if help_ else ()))
    shown = tuple(_merged(_distinct([*labels, *sizes])))
    return Diagnostic("AX0303", "this access leaves its tensor", shown, tuple(dict.fromkeys(notes)), suggestions)


def _whose_size(r: Refuted, words: Words) -> Label | None:
    """Where the size of a tensor that an access leaves at its end comes from."""
    use = r.obligation.use
    if use is None or r.size is None or r.obligation.relation.op != "<":
        return None
    side = Side(use.span, f"{use.axis} of `{use.base}` is {{}}", use.base)
    label = _origin(side, r.size, words.origin(side, use.target), words)
    return None if label.span == use.span else label


def _larger(r: Refuted, words: Words) -> Iterable[Suggestion]:
    """The annotation with as many elements as an index has by its bound, where both are written out."""
    use, computed = r.obligation.use, r.size is not None and r.size.symbol is None and r.size.constant is None
    if use is None or use.index.symbol is None or r.reach is None or r.also or not computed or _bounded(r.reach):
        return
    place = words.origin(Side(use.span, "", use.base), use.target)
    asked = r.reach + 1
    if place is not None and r.size is not None and all(words.stated(s) for s in asked.variables):
        found = _rewritten(place, r.size, asked, words)
        yield from () if found is None else (found,)


def _reached(r: Refuted, words: Words, several: bool, sized: bool) -> tuple[Label, list[str]]:
    """One index of an access that leaves its tensor, and how far the indices in it run; `sized`: its size has its own label."""
    use = r.obligation.use
    assert use is not None
    assert r.reach is not None
    assert r.size is not None
    end, extent = r.reach.render(words.name), r.size.render(words.name)
    what = f"{use.axis} of `{use.base}`"
    whose = "" if sized else f", whose size is {extent}"
    low = r.obligation.relation.op != "<"
    if low:
        text = f"reaches index {end} of {what}; indices start at 0"
    elif r.ends and _bounded(r.reach):
        text = f"can pass the end of {what}{whose}"
    else:
        text = f"reaches index {end} of {what}{whose}"
    same = {words.name(v) for _, e in r.ends for v in e.variables}  # an index that is called like a size
    notes = [f"{'the index ' * (s.name in same)}`{s.name}` runs from 0 to {(e - 1).render(words.name)}" for s, e in r.ends]
    if use.index.constant is not None and not low and r.size.constant is not None and r.size.constant > 0:
        notes.append(f"the last index{f' of {what}' if several else ''} is {r.size.constant - 1}")
    return Label(use.span, text), notes


def _bounded(dim: Dim) -> bool:
    """Whether a size mentions `min` or `max`, which make a sentence no clearer."""
    return any(isinstance(a, Minimum) for a in dim.atoms)


def _hopeless(h: Hopeless, words: Words) -> Diagnostic:
    if h.only is not None:
        shown = h.only.render(words.name)
        labels = _distinct(Label(reason.span, f"this needs {r.render(words.name)}") for r, reason in h.facts)[:_MAX_LABELS]
        stated = () if words.where is None else (Suggestion(f"state it, if it is meant: `where {shown}`", (words.where(shown),)),)
        return Diagnostic("AX0301", "these sizes cannot agree", tuple(labels), (_UNSTATED.format(shown),), stated)
    never = [reason for r, reason in h.facts if r.trivial is False]
    if never:
        labels = _distinct(Label(reason.span, "this can never hold") for reason in never)
    else:
        labels = _distinct(Label(reason.span, f"this needs {r.render(words.name)}") for r, reason in h.facts)
    return Diagnostic("AX0310", "no sizes satisfy everything that this declaration needs", tuple(labels))
