"""What may be taken as given while obligations are proved: the `where`, and the bounds of sizes that only data decide.

A bound k <= n - m says what it says only if n - m is a size, and k <= n / m only if m is at least 1. Both must follow from what is
asked where the k is made: `nonzero x[m : n]` needs m <= n. Taken as it stands, the bound would prove that, for k is at least 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from axon.base.names import Symbol
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.dimension import Dim, maximum
from axon.shapes.relation import Relation


def given(
    assumed: Iterable[Relation], data: Collection[Symbol], now: Callable[[Dim], Dim], open_: frozenset[Symbol]
) -> tuple[list[Relation], list[Relation]]:
    """What is given by what is known now, and what is only given of sizes that data decide; `open_` are not known to be sizes."""
    plain: list[Relation] = []
    divided: list[Relation] = []
    for fact in assumed:
        left, right = now(fact.left), now(fact.right)
        bound = fact.op == "<=" and fact.left.symbol in data
        if bound and not (right.variables.isdisjoint(open_) and _is_size(right)):
            right = maximum(right, 0)
        by_unknown = bound and any(q.divisor.constant is None for q in right.quotients)
        (divided if by_unknown else plain).append(Relation(left, fact.op, right))
    return plain, divided


def _is_size(dim: Dim) -> bool:
    return proves(Facts(), Relation(dim, ">=", Dim.of(0)))
