"""Relations with quotients, said without them: inequalities without division, and `h % g = 0` for what amounts to it.

Note [Divisibility]
    What is worst for `x / b < n / b`, x = n - 1, gives `n / b - (n - 1) / b >= 1`. Such a difference is 1 where b divides n, and 0
    elsewhere, so that this says just `n % b = 0`; and so does every `c * (n / b - (n - 1) / b) >= d` with 0 < d <= c. Likewise for
    remainders: `0 >= a % b` is a % b = 0, and `a % b >= b - 1` is (a + 1) % b = 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from axon.shapes.algebra.polynomials import spanned
from axon.shapes.constraint import Reason
from axon.shapes.dimension import Dim, Quotient, atom_key, monomial_key, without
from axon.shapes.relation import Relation

_ZERO, _ONE = Dim.of(0), Dim.of(1)
_MAX_KNOWN = 60  # divisibilities that one is compared with


def inequalities(relation: Relation, reason: Reason) -> list[tuple[Relation, Reason]]:
    """Inequalities without division, where s >= 1: `q / s + c >= 0` is `q >= -c * s`, `q / s < c` is `q < c * s`."""
    if relation.op in ("=", "<>"):
        return [(relation, reason)]
    slack = relation.slack
    for q in sorted(slack.quotients, key=atom_key):
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
        for q in sorted(relation.slack.quotients, key=atom_key):
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


def divisibility(relation: Relation) -> tuple[Dim, Dim] | None:
    """(a, b) of a relation that says a % b = 0."""
    for q in sorted(relation.left.quotients, key=atom_key) if relation.op == "=" else ():
        remainder = q.remainder
        if relation.slack in (remainder, -remainder):
            return q.dividend, q.divisor
    return None


def divides(dividend: Dim, divisor: Dim, known: Sequence[tuple[Dim, Dim]], zeros: Iterable[Dim]) -> bool:
    """Whether a % b = 0, where it is defined, by others of its kind, x % y = 0, and sizes that are 0: by sums of what b divides.

    b divides x where it divides y: a % d = 0 beside a % b = 0 and b % d = 0.
    """
    if len(known) > _MAX_KNOWN:
        return False
    multiples = [m for dim in (divisor, *zeros) if (m := _modulo(dim, divisor)).mapping]
    waiting = list(known)
    while found := [(x, y) for x, y in waiting if _sum_of(_modulo(y, divisor), multiples)]:
        waiting = [e for e in waiting if e not in found]
        multiples += [_modulo(x, divisor) for x, _ in found]
    return _sum_of(_modulo(dividend, divisor), multiples)


def _modulo(dim: Dim, divisor: Dim) -> Dim:
    """The Dim without the terms that are multiples of a divisor, of one term."""
    if len(divisor.mapping) != 1:
        return dim
    ((monomial, k),) = divisor.mapping.items()
    return Dim({m: left for m, c in dim.mapping.items() if (left := c % abs(k) if without(m, monomial) is not None else c)})


def _sum_of(dim: Dim, others: Sequence[Dim]) -> bool:
    """Whether a Dim is a sum of integer multiples of others, whose monomials count as unknowns."""
    if not dim.mapping or dim in others or -dim in others:
        return True
    monomials = sorted({m for other in others for m in other.mapping}, key=monomial_key)
    if not dim.mapping.keys() <= set(monomials):
        return False
    goal, *rows = ([d.mapping.get(m, 0) for m in monomials] for d in (dim, *others))
    return spanned(goal, rows)


def is_divisibility(relation: Relation) -> bool:
    """Whether an equation says that something divides something: slack is ± (a - b * (a / b)), up to a constant."""
    slack = relation.slack
    for q in sorted(slack.quotients, key=atom_key):
        remainder = q.remainder
        if (slack - remainder).constant is not None or (slack + remainder).constant is not None:
            return True
    return False
