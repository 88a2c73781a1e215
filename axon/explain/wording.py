"""How sizes are talked about: labels on what decides one, numbers to show with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import gcd

from axon.base.data import dataclass
from axon.base.diagnostics import Label
from axon.base.names import Symbol
from axon.base.nearest import MAX_DISTANCE, legal_sizes
from axon.base.source import Span
from axon.shapes.algebra.counterexample import counterexample
from axon.shapes.algebra.prove import Facts
from axon.shapes.constraint import Callee, Equal, Side
from axon.shapes.dimension import Dim, divided
from axon.shapes.pretty import render
from axon.shapes.relation import Relation

_UNSTATED = "does not follow from what is stated"
MAX_LABELS = 4
_SMALL = (8, 4, 2, 16)  # of those by which others are divided
_TYPICAL = (64, 32, 48, 16, 24, 12, 8, 10, 6, 5, 7, 9)  # sizes to show with; distinct, so that different names get different ones


@dataclass(frozen=True, slots=True)
class Place:
    """What decides a size, and where: `kind` is that of `explain.origin`; `why` is a clause about it, perhaps empty."""

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
    stated: Callable[[Symbol], bool]  # whether the user gave a dimension its name
    origin: Callable[[Side, Dim], Place | None]  # what decides a size that a side has, before it was solved for
    behind: Callable[[Side, Dim, Dim], list[Place]]  # where a size got divisions that nobody has written, before it was solved for
    inside: Callable[[Side, Dim], list[Place]]  # what the functions through which a size has passed make of it, as sentences
    folds: Callable[[Side], list[Place]]  # the indices that a `for` makes one dimension
    called: Callable[[Equal], Callee | None]  # of an argument's equation: the function called, and the dimension of its parameter


# ── facts ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def plainest(equal: Relation) -> Relation:
    """What an equation of sizes says, as short as it can be: r = s for h - r + 1 = h - s + 1, d = e for 2 * d = 2 * e, and
    n % 2 = 0 for (n + 1) / 2 = n / 2.
    """
    if (divides := _rounded(equal.slack)) is not None:
        return divides
    left, right = equal.left, equal.right
    shared = {m: c for m, c in left.mapping.items() if right.mapping.get(m) == c and m}
    rest = [Dim({m: c for m, c in side.mapping.items() if m not in shared}) for side in (left, right)]
    offset = rest[0].mapping.get((), 0)
    if shared and offset == rest[1].mapping.get((), 0):
        rest = [side - offset for side in rest]
    if shared and all(c < 0 for side in rest for c in side.mapping.values()):
        rest = [-side for side in rest]
    if all(c > 0 for side in rest for c in side.mapping.values()) and all(side.mapping for side in rest):
        left, right = rest
    factor = gcd(left.content, right.content) or 1
    return Relation(divided(left, factor), "=", divided(right, factor))


def _rounded(slack: Dim) -> Relation | None:
    """What `slack` = 0 says where it is the difference between a quotient that is rounded up and the same that is rounded down."""
    quotients = sorted(slack.quotients, key=lambda q: q.dividend.weight)
    if len(quotients) != 2 or quotients[0].divisor != quotients[1].divisor:
        return None
    for down, up in (quotients, reversed(quotients)):
        for sign in (1, -1):
            offset = (slack * sign - up.dividend // up.divisor + down.dividend // down.divisor).constant
            if offset is not None and up.dividend + offset * up.divisor - down.dividend == up.divisor - 1:
                return Relation(down.dividend % down.divisor, "=", Dim.of(0))
    return None


def unstated(equal: Relation, words: Words) -> str:
    """That nothing says that an equation holds, and what it comes down to."""
    shown = f"{render(equal.left, words.name)} = {render(equal.right, words.name)}"
    fact = plainest(equal)
    if equal.right.constant == 0:
        shown = equal.render(words.name)
    text = fact.render(words.name)
    needs = shown if text in (shown, equal.render(words.name)) else f"{shown} needs {text}, which"
    named = all(words.stated(s) for s in fact.variables)
    return f"{needs} {_UNSTATED}{'; your names say that any sizes will do' * named}"


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def origin_label(side: Side, size: Dim, place: Place | None, words: Words) -> Label:
    """What decides a size, as a label on that place; on the expression that has it where nothing else does."""
    text = side.text.replace("{}", render(size, words.name))
    if place is None or place.kind == "parameter" or (place.kind == "call" and place.span == side.span):
        formula = place is not None and place.kind == "call" and "`: " in place.why  # by which a function makes it of others
        return Label(side.span, f"{text}, {place.why}" if place is not None and formula else text)
    if place.span != side.span:
        text = f"`{short(side.span)}` {_verb(text)}" if _verb(text) else text
    if place.kind == "annotation" and not place.why and _in_other_words(place.span, size, words):
        text = f"{text}, which is {' '.join(place.span.text.split())} here"
    return Label(place.span, f"{text}, {place.why}" if place.why else text)


def _in_other_words(place: Span, size: Dim, words: Words) -> bool:
    """Whether a size is written by names of a type's own: `2 * o` for 16 * w."""
    written, shown = tokens(place.text), tokens(render(size, words.name))
    return size.constant is None and written != shown and "," not in written and bool(set(written) - set(shown) - set("0123456789"))


def _verb(text: str) -> str:
    """Turn "the left side has 4 * d columns" into "has 4 * d columns", to be said of the expression itself."""
    for start in ("the left side ", "the right side ", "this ", "the first ", "this element "):
        if text.startswith(start) and text[len(start) :].startswith("has "):
            return text[len(start) :]
    return ""


def short(span: Span) -> str:
    text = " ".join(span.text.split())
    return text if len(text) <= 30 else text[:29] + "…"


def distinct(labels: Iterable[Label]) -> list[Label]:
    seen: set[tuple[int, int, str]] = set()
    out = []
    for label in labels:
        key = (label.span.start, label.span.end, label.text)
        if key not in seen:
            seen.add(key)
            out.append(label)
    return out


def merged(labels: list[Label]) -> list[Label]:
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


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def plainly(relation: Relation, words: Words) -> str:
    """The relation as it was meant: of numbers alone, with these numbers."""
    if relation.variables:
        return relation.render(words.name)
    return f"{relation.left} {relation.op} {relation.right}"


def numbers(
    relation: Relation, words: Words, shown: str, stated: Sequence[Relation], needed: Sequence[Relation] = ()
) -> tuple[str, ...]:
    """When the relation holds, if that is simple to say, and sizes for which it does not though all that is stated does; `needed`
    are relations that must hold besides.
    """
    slack = relation.left - relation.right
    if slack.constant is not None:
        if relation.left.constant is None or relation.right.constant is None:
            return (f"{shown} never holds: the two always differ by {abs(slack.constant)}",)
        return (f"{relation.left} is not {relation.right}",)
    variables = sorted(relation.variables, key=lambda s: s.id)
    if len(variables) == 1 and (split := slack.linear_in(variables[0])) is not None and not words.stated(variables[0]):
        factor, rest = split  # factor * v = -rest, for a v that the user does not know
        if factor.constant is not None and rest.constant is not None:
            return (_among(relation, variables[0], needed, words),)
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
    divided = (q.divisor.variables for r in (relation, *stated) for q in r.left.quotients | r.right.quotients)
    divisors = frozenset[Symbol]().union(*divided)
    small = dict(zip([v for v in variables if v in divisors], _SMALL, strict=False))
    wish = dict(zip([v for v in variables if v not in small], _TYPICAL, strict=False)) | small
    if not _sizes(relation, wish):
        wish = dict(zip(reversed(wish), wish.values(), strict=True))
    known = [*stated, *(Relation(side, ">=", Dim.of(0)) for side in (relation.left, relation.right) if relation.op == "=")]
    close = [r for r in known if r.variables & relation.variables]

    def fits(values: dict[Symbol, int]) -> bool:
        wrong = len(values) == len(variables) and _defined(relation, values) and not relation.holds(values)
        return wrong and all(r.variables <= relation.variables and _holds(r, values) for r in close)

    typical = (wish, dict(zip(reversed(wish), wish.values(), strict=True)))
    values = next((v for v in typical if fits(v)), None)
    if values is None:  # none is better than a wrong one
        values = counterexample(Facts().assume(*known), relation, wish)
    if values is not None and _defined(relation, values):
        given = ", ".join(f"{words.name(s)} = {values[s]}" for s in variables)
        sides = f"{relation.left.evaluate(values)} {relation.op} {relation.right.evaluate(values)}"
        notes.append(f"for {given} it would be {sides}")
    if notes and shown not in notes[0]:
        notes.insert(0, f"{shown} must hold")
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


def _among(relation: Relation, variable: Symbol, needed: Sequence[Relation], words: Words) -> str:
    """That a number is none of the sizes of a form, `16 * i + 12`, and the nearest that are and of which all `needed` holds."""
    form, other = (relation.left, relation.right) if relation.left.variables else (relation.right, relation.left)
    split, size = form.linear_in(variable), other.constant
    factor, offset = (split[0].constant, split[1].constant) if split is not None else (None, None)
    about = [r for r in needed if r.variables == {variable}]
    if size is None or not factor or offset is None or factor < 0 or not (offset or about):
        whole = relation.slack.linear_in(variable)
        factor, offset = (whole[0].constant or 1, whole[1].constant or 0) if whole is not None else (1, 0)
        return _multiples(abs(offset), abs(factor))
    first = (size - offset) // factor
    below, above = range(first, max(first - MAX_DISTANCE, -1), -1), range(max(first + 1, 0), first + MAX_DISTANCE)
    fitting = (next((n for n in way if all(_holds(r, {variable: n}) for r in about)), None) for way in (below, above))
    near = [str(n * factor + offset) for n in fitting if n is not None and n * factor + offset > 0]
    told = f"; the nearest {'are' if near[1:] else 'is'} {' and '.join(near)}" if near else ""
    return f"{size} is not {render(form, words.name)}{told}"


def _multiples(size: int, factor: int) -> str:
    below = size // factor * factor
    near = f"{below} and {below + factor}" if below else str(factor)
    divisors = legal_sizes(factor, lambda n: 1 < n < size and size % n == 0)
    ways = f", and {size} divides by {' and '.join(map(str, divisors))}" if divisors and factor < size else ""
    return f"{size} is not a multiple of {factor}; the nearest {'are' if below else 'is'} {near}{ways}"


def _sizes(relation: Relation, values: dict[Symbol, int]) -> bool:
    """Whether both sides of a relation are sizes for these values."""
    defined = relation.variables <= values.keys() and _defined(relation, values)
    return defined and min(relation.left.evaluate(values), relation.right.evaluate(values)) >= 0


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


def tokens(text: str) -> list[str]:
    return sorted(re.findall(r"\w+|[^\w\s]", text))
