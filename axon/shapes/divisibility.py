"""Relations with quotients, said without them: inequalities without division, and `h % g = 0` for what amounts to it.

Note [Divisibility]
    What is worst for `x / b < n / b`, x = n - 1, gives `n / b - (n - 1) / b >= 1`. Such a difference is 1 where b divides n, and 0
    elsewhere, so that this says just `n % b = 0`; and so does every `c * (n / b - (n - 1) / b) >= d` with 0 < d <= c. Likewise for
    remainders: `0 >= a % b` is a % b = 0, and `a % b >= b - 1` is (a + 1) % b = 0.
"""

from __future__ import annotations

from axon.shapes.constraint import Reason
from axon.shapes.dimension import Dim, Quotient
from axon.shapes.relation import Relation

_ZERO, _ONE = Dim.of(0), Dim.of(1)


def inequalities(relation: Relation, reason: Reason) -> list[tuple[Relation, Reason]]:
    """Inequalities without division, where s >= 1: `q / s + c >= 0` is `q >= -c * s`, `q / s < c` is `q < c * s`."""
    if relation.op in ("=", "<>"):
        return [(relation, reason)]
    slack = relation.slack
    for q in slack.quotients:
        positive = [(Relation(q.divisor, ">=", _ONE), reason)] if q.divisor.constant is None else []
        if _divides(slack, q) is not None:
            return divisibilities(relation, reason)
        whole = q.dividend // q.divisor
        if not (rest := slack - whole).quotients:
            return [*divisibilities(Relation(q.dividend, ">=", -rest * q.divisor), reason), *positive]
        if not (rest := slack + whole).quotients:
            return [*divisibilities(Relation(q.dividend, "<", (rest + 1) * q.divisor), reason), *positive]
    return [(relation, reason)]


def divisibilities(relation: Relation, reason: Reason) -> list[tuple[Relation, Reason]]:
    """`h % g <= 0` as `h % g = 0`; others as they are."""
    if relation.op not in ("=", "<>"):
        for q in relation.slack.quotients:
            if (divides := _divides(relation.slack, q)) is not None:
                positive = [(Relation(q.divisor, ">=", _ONE), reason)] if q.divisor.constant is None else []
                return [(divides, reason), *positive]
    return [(relation, reason)]


def _divides(slack: Dim, q: Quotient) -> Relation | None:
    """What `slack >= 0` says of q = a / b if it is a divisibility. See Note [Divisibility]."""
    a, b = q.dividend, q.divisor
    whole = a // b
    if slack == b * whole - a:
        return Relation(a % b, "=", _ZERO)
    if slack == a - b * whole - b + 1:
        return Relation((a + 1) % b, "=", _ZERO)
    split = slack.split(q)
    c = split and split[0].constant
    rest = (slack - c * (whole - (a - 1) // b)).constant if c else None
    return Relation(a % b, "=", _ZERO) if c and rest is not None and -c <= rest < 0 else None


def is_divisibility(relation: Relation) -> bool:
    """Whether an equation says that something divides something: slack is ± (a - b * (a / b)), up to a constant."""
    slack = relation.slack
    for q in slack.quotients:
        remainder = q.dividend % q.divisor
        if (slack - remainder).constant is not None or (slack + remainder).constant is not None:
            return True
    return False
