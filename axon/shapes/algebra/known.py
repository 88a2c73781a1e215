"""Questions that were answered, by what is asked and not by the names in it.

A checker asks the same of each line of a long program, and of all lines again for each change that it tries: whether an index below
`d - 1` and one more is below `d`, with other indices and other sizes. The answer depends on the claim and on the facts that are
connected with it, up to the names of their variables, whose order alone is looked at; so it is kept under both with numbers in
place of variables. What the search cost is kept too, and charged again: whether a budget ends is the same with and without this.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from axon.base.names import Symbol
from axon.shapes.algebra.facts import Answer, Claim

_MOST = 20_000  # answers that are kept

_answers: dict[Hashable, tuple[Answer, int]] = {}


def question(goal: Claim, claims: Sequence[Claim], *also: Hashable) -> Hashable:
    """A claim and all claims that are connected with it, with numbers in place of variables, by their age."""
    variables = goal[1].variables.union(*[p.variables for _, p in claims])
    numbers = {v: n for n, v in enumerate(sorted(variables, key=_age))}
    return (*also, _numbered(goal, numbers), *[_numbered(claim, numbers) for claim in claims])


def _age(variable: Symbol) -> int:
    return variable.id


def _numbered(claim: Claim, numbers: dict[Symbol, int]) -> Hashable:
    kind, p = claim
    pattern, variables = p.pattern
    return kind, pattern, *[numbers[v] for v in variables]


def known(asked: Hashable) -> tuple[Answer, int] | None:
    """The answer to a question, and how many steps it took; None if it was not asked before."""
    return _answers.get(asked)


def keep(asked: Hashable, answer: Answer, steps: int) -> None:
    if len(_answers) >= _MOST:
        _answers.clear()
    _answers[asked] = answer, steps
