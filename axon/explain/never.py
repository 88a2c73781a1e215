"""Why no sizes satisfy some facts, none of which can be left out: what each needs and, where that does not say it, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from axon.base.diagnostics import Diagnostic, Label
from axon.base.names import Symbol
from axon.explain.wording import Words, distinct, plainly
from axon.shapes.algebra.counterexample import counterexample
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.algebra.remainders import never_multiple
from axon.shapes.constraint import Reason
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.pretty import render
from axon.shapes.relation import Relation

_MAX_SHOWN = 64  # up to which size a change of sign is looked for, and by how much a bound is lowered


def never(facts: Sequence[tuple[Relation, Reason]], written: Iterable[tuple[Relation, Reason]], words: Words) -> Diagnostic:
    """A contract that cannot be fulfilled; `written` are facts as the user has them."""
    as_written = {reason: r for r, reason in written}
    alone = len(facts) == 1
    labels = [Label(reason.span, _needed(plainly(r, words), reason, alone)) for r, reason in facts]
    shown = [(as_written.get(reason) or _balanced(r), r) for r, reason in facts]
    try:
        note = _by_itself(shown[0][0], words) if alone else _one_more(shown, words)
    except DimensionTooLarge:
        note = ""
    message = "no sizes satisfy everything that this declaration needs"
    return Diagnostic("AX0310", message, tuple(distinct(labels)), (note,) if note else ())


def _needed(shown: str, reason: Reason, alone: bool) -> str:
    if "{}" in reason.text:
        return reason.text.replace("{}", shown)
    return "this can never hold" if alone else f"this needs {shown}"


def _sides(relation: Relation, words: Words) -> str:
    return f"{render(relation.left, words.name)} {relation.op} {render(relation.right, words.name)}"


def _by_itself(relation: Relation, words: Words) -> str:
    """Why one fact never holds: by how the two sides compare for all sizes, by their remainders, or by numbers."""
    left, right = relation.left, relation.right
    if left.constant is not None and right.constant is not None:
        return f"{left} {'is' if relation.op == '<>' else 'is not'} {_than(relation.op)}{right}"
    difference = (left - right).constant
    if difference is not None:
        shown = _sides(relation, words)
        return f"{shown} never holds: {f'the two always differ by {abs(difference)}' if difference else 'the two are always equal'}"
    for low, high in ((left, right), (right, left)):
        less = Relation(low, "<", high)
        if relation.op != "<>" and proves(Facts(), less):
            return _compared(low, high, words)
        if relation.op == {left: ">", right: "<"}[low] and proves(Facts(), Relation(low, "<=", high)):
            return _bounded(low, high, words)
    if relation.op == "=" and (k := never_multiple(left - right)) is not None:
        return f"divided by {k}, {render(left, words.name)} and {render(right, words.name)} never leave the same remainder"
    return _near(relation, words)


def _than(op: str) -> str:
    return {"<": "less than ", "<=": "at most ", ">": "more than ", ">=": "at least "}.get(op, "")


def _bounded(low: Dim, high: Dim, words: Words) -> str:
    """That one side is at most the other, said of the one that varies."""
    if low.constant is not None:
        return f"{render(high, words.name)} is never less than {low}"
    return f"{render(low, words.name)} is never more than {render(high, words.name)}"


def _compared(low: Dim, high: Dim, words: Words) -> str:
    """That one side is always less than the other; where one is a number, by the bound of the other."""
    if high.constant is not None:
        return _bounded(low, Dim.of(_last(low, "<=", range(high.constant - 1, high.constant - _MAX_SHOWN, -1))), words)
    if low.constant is not None:
        return _bounded(Dim.of(_last(high, ">=", range(low.constant + 1, low.constant + _MAX_SHOWN))), high, words)
    return f"{render(low, words.name)} is always less than {render(high, words.name)}"


def _last(dim: Dim, op: str, bounds: range) -> int:
    """The last of some bounds, one sharper than the other, that is proved."""
    best = bounds[0]
    for bound in bounds[1:]:
        if not proves(Facts(), Relation(dim, op, Dim.of(bound))):
            break
        best = bound
    return best


def _near(relation: Relation, words: Words) -> str:
    """What a fact would be for sizes: of one size, for the two between which it would come to hold."""
    variables = sorted(relation.variables, key=lambda v: v.id)
    if len(variables) == 1:
        found = [_compare(relation, {variables[0]: n}) for n in range(_MAX_SHOWN)]
        for n in range(1, _MAX_SHOWN):
            before, after = found[n - 1], found[n]
            if before is not None and after is not None and before * after < 0:
                sizes = ({variables[0]: m} for m in (n - 1, n))
                ways = (f"{_for(v, relation, words)} it would be {_numbers(v, relation)}" for v in sizes)
                return f"{_sides(relation, words)} never holds: {', '.join(ways)}"
    values = counterexample(Facts(), relation)
    return "" if values is None else _example(relation, values, words)


def _compare(relation: Relation, values: dict[Symbol, int]) -> int | None:
    try:
        return relation.left.evaluate(values) - relation.right.evaluate(values)
    except ZeroDivisionError:
        return None


def _example(relation: Relation, values: dict[Symbol, int], words: Words) -> str:
    return f"{_for(values, relation, words)}, {_sides(relation, words)} would be {_numbers(values, relation)}"


def _for(values: dict[Symbol, int], relation: Relation, words: Words) -> str:
    return "for " + ", ".join(f"{words.name(v)} = {values[v]}" for v in sorted(relation.variables, key=lambda v: v.id))


def _numbers(values: dict[Symbol, int], relation: Relation) -> str:
    return f"{relation.left.evaluate(values)} {relation.op} {relation.right.evaluate(values)}"


def _one_more(facts: Sequence[tuple[Relation, Relation]], words: Words) -> str:
    """Sizes that satisfy all facts but the most complicated one, and what that would be for them; nothing of mere bounds.

    Facts as they are written, and what of each is needed.
    """
    if all(_is_bound(needed) for _, needed in facts):
        return ""
    goal = max(facts, key=lambda f: (f[1].slack.depth, f[1].slack.degree, len(f[1].slack.mapping)))
    others = [needed for fact in facts if fact is not goal for needed in fact[1:]]
    for relation in (goal[0], _balanced(goal[1])):
        values = counterexample(Facts().assume(*others), relation)
        if values is not None and _compare(relation, values) is not None:
            return _example(relation, values, words)
    return ""


def _balanced(relation: Relation) -> Relation:
    """A relation of which one side is 0 with its negative terms on the other."""
    slack = relation.slack
    more, less = (Dim({m: c * sign for m, c in slack.mapping.items() if c * sign > 0}) for sign in (1, -1))
    if relation.op in ("=", "<>"):
        return Relation(more, relation.op, less)
    return Relation(less - 1, "<", more) if less.offset == 1 and less.variables and more.variables else Relation(less, "<=", more)


def _is_bound(relation: Relation) -> bool:
    """Whether a fact is an inequality of one size: what two of them say is plain."""
    slack = relation.slack
    return relation.op not in ("=", "<>") and slack.degree == 1 and not slack.depth and len(slack.variables) == 1
