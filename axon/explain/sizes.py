"""The wording of shape errors: what `settle` found wrong, as diagnostics in the user's own names.

Every message names both sizes and where each comes from, and gives numbers for which they differ. What may mend it is proposed in
`suggest`.
"""

from __future__ import annotations

from typing import assert_never

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.explain.equation import cannot_agree
from axon.explain.never import never
from axon.explain.obligation import contract_broken, not_met, size_of, unprovable
from axon.explain.rules import TERMS
from axon.explain.wording import MAX_LABELS, Words, distinct, unstated
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.constraint import Problem, Range, Reason
from axon.shapes.contracts.broken import by_fact
from axon.shapes.pretty import render
from axon.shapes.solving.causes import Cause, Unbounded
from axon.shapes.solving.trouble import Clash, Hopeless, Refuted, TooLarge, Unknown, Unprovable


def explain(trouble: Cause, problem: Problem, words: Words) -> Diagnostic:
    """One trouble as one diagnostic."""
    match trouble:
        case Clash():
            broken = by_fact(trouble, problem)
            return cannot_agree(trouble, problem, words) if broken is None else contract_broken(broken, problem, words)
        case Unknown():
            return _unknown(trouble, words)
        case Unbounded(ranges, unused, again):
            found = _unbounded(ranges, unused)
            return replace(found, labels=(*found.labels, *(Label(r.span, "nor here") for r in again[:MAX_LABELS])))
        case Refuted():
            return not_met(trouble, problem, words)
        case Unprovable():
            return unprovable(trouble, problem, words)
        case Hopeless():
            return _hopeless(trouble, problem, words)
        case TooLarge(reason):
            label = Label(reason.span, "grows beyond what can be reasoned about")
            return Diagnostic("AX0309", "the sizes in this declaration are too complicated", (label,), (TERMS,))
        case _:
            assert_never(trouble)


def _unknown(u: Unknown, words: Words) -> Diagnostic:
    name = u.range.symbol.name
    ways = " and ".join(render(c, words.name) for c in u.candidates)
    return Diagnostic(
        "AX0311",
        f"the uses of `{name}` ask for ranges that need not be equal",
        (Label(u.range.span, f"`{name}` could run to any of {ways}"),),
        ("which of these is the least depends on the sizes",),
        (Suggestion(f"state the bound: `{name} < …`"),),
    )


def _unbounded(ranges: tuple[Range, ...], unused: bool) -> Diagnostic:
    names = [f"`{r.symbol.name}`" for r in ranges]
    if len(ranges) == 1:
        what = "indexes nothing" if unused else "does not index a dimension by itself"
        label = Label(ranges[0].span, f"{names[0]} {what}")
        help_ = Suggestion(f"state its bound: `{ranges[0].symbol.name} < …`")
        return Diagnostic("AX0302", f"nothing says how far {names[0]} runs", (label,), suggestions=(help_,))
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    labels = tuple(Label(r.span) for r in ranges[:-1])
    if unused:
        last = Label(ranges[-1].span, f"{listed} index nothing")
        bounds = ", ".join(f"{r.symbol.name} < …" for r in ranges)
        help_ = Suggestion(f"index something with them, or state their bounds: `{bounds}`")
        return Diagnostic("AX0302", f"nothing says how far {listed} run", (last, *labels), suggestions=(help_,))
    last = Label(ranges[-1].span, f"{listed} stand in one index together")
    help_ = Suggestion(
        f"state the bound of all but one of them, as in `{ranges[-1].symbol.name} < 3`: that one then runs as far as it can"
    )
    return Diagnostic("AX0302", f"nothing says how far {listed} run", (last, *labels), suggestions=(help_,))


def _hopeless(h: Hopeless, problem: Problem, words: Words) -> Diagnostic:
    if h.only is not None:
        facts = list(h.facts)
        for fact in h.facts:  # what the rest says without it
            rest = [f for f in facts if f is not fact]
            if proves(Facts().assume(*(r for r, _ in rest)), h.only):
                facts = rest
        labels = [Label(reason.span, _needs(r.render(words.name), reason)) for r, reason in facts]
        for _, reason in facts:
            called = reason.text.startswith("`") and not any("{}" in side.text for side in reason.sides)  # else it is an equation
            name = reason.text.split("`")[1] if called else ""  # of a call: where the function needs it
            here = [side for side in reason.sides if name and side.span.file.path == reason.span.file.path]
            labels += [Label(side.span, f"`{name}` needs it here: {side.text}") for side in here]
            of_access = (size_of(u, problem.resolve(u.target), words) for u in problem.uses if u.span == reason.span)
            labels += [label for label in of_access if label is not None]
        labels = distinct(labels)[:MAX_LABELS]
        return Diagnostic("AX0301", "these sizes cannot agree", tuple(labels), (unstated(h.only, words),))
    return never(h.facts, problem.assumed, words)


def _needs(shown: str, reason: Reason) -> str:
    """What a place needs, and of what: of an access its own words; of a call, where the function needs it is said apart."""
    return f"this needs {shown}" if "{}" not in reason.text or reason.text.startswith("`") else reason.text.replace("{}", shown)
