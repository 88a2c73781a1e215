"""Simplifying relations: what a contract says, without what is trivial or follows from the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from axon.names import Symbol
from axon.shapes.dimension import Dim, Minimum, Monomial, Quotient, atom_key, divided, without
from axon.shapes.divisibility import divides, divisibility
from axon.shapes.prove import Answer, Facts, nonnegative, positive, prove, unsatisfiable
from axon.shapes.relation import Relation, integer_root
from axon.shapes.solve import without_repetition

_ZERO = Dim.of(0)
_MAX_SIMPLIFIED = 300  # relations from which each is compared with all others
_MAX_EQUATIONS = 20  # that an inequality is compared with
_MAX_AGAIN = 12  # relations that are compared a second time


def simplify(relations: Iterable[Relation], facts: Facts) -> tuple[Relation, ...]:
    """An equivalent set under the facts: none trivial, none that the facts or the others prove, in an order of its own.

    A quotient's divisor is known not to be 0 where it occurs, so `d % h = 0` makes `h >= 1` superfluous.
    """
    return independent({_canonical(r, facts): None for given in relations for r in _unfolded(given)}, facts)


def independent(relations: Iterable[Relation], facts: Facts) -> tuple[Relation, ...]:
    """As `simplify`, of relations as `normal` gives them, each once."""
    kept = list(relations)
    if len(kept) > _MAX_SIMPLIFIED:  # nobody writes so many; they must not cost too much
        return tuple(sorted(without_repetition(kept), key=_complexity))
    kept = sorted((r for r in _joined(kept) if not _superfluous(r, facts)), key=_complexity)
    for relation in kept[::-1]:
        if _by_way(relation, kept):
            kept.remove(relation)
    for i, relation in enumerate(kept):  # b * a = b * c is a = c beside b >= 1
        if relation.left.variables and any(all(v in m for m in relation.left.mapping) for v in relation.left.variables):
            kept[i] = _canonical(relation, facts.assume(*kept[:i], *kept[i + 1 :]))
    written: list[Relation] = []
    for i, relation in enumerate(kept):  # one after the other, by what then stands beside it: else two would vouch for each other
        others = [*written, *kept[i + 1 :]]
        written += _as_signs(_shorter(relation, others, facts), others, facts)
    kept = sorted(_equal_all_round(dict.fromkeys(written), facts), key=_complexity)
    while True:
        left = _needed(kept, facts)
        if list(left) == kept or len(left) > _MAX_AGAIN:
            return left
        kept = list(left)  # with fewer facts about, the prover may see more


def _needed(kept: Sequence[Relation], facts: Facts) -> tuple[Relation, ...]:
    """The relations without those that the others prove, the complicated ones first.

    Of one that they prove wherever it is defined, what is left is that it is: from n * m = k, `k % n = 0` is n >= 1.
    """
    assumed = facts.assume(*kept)
    left = dict.fromkeys(kept)
    for relation in reversed(kept):
        others = assumed.without(relation)
        divisors = _defined(relation)
        if _by_way(relation, left):
            assumed = others
            del left[relation]
        elif prove(others.assume(*divisors) if divisors else others, relation) is Answer.PROVED:
            assumed = others
            del left[relation]
            for divisor in divisors:
                if prove(assumed, divisor) is not Answer.PROVED:
                    assumed = assumed.assume(divisor)
                    left[divisor] = None
    return tuple(sorted(left, key=_complexity))


def _by_way(relation: Relation, others: Iterable[Relation]) -> bool:
    """Whether divisibilities and equations beside it make a divisibility, and also that no divisor in it is 0."""
    wanted = divisibility(relation)
    if wanted is None:
        return False
    beside = [other for other in others if other != relation]
    if not _divisors(relation) <= frozenset[Dim]().union(*map(_divisors, beside)):
        return False
    known = [(other, divisibility(other)) for other in beside if other.op == "="]
    return divides(*wanted, [found for _, found in known if found], [other.slack for other, found in known if not found])


def _shorter(relation: Relation, others: Sequence[Relation], facts: Facts) -> Relation:
    """An inequality, by an equation beside it, if that makes it shorter: where n = h * k, h * k < k + n is k >= 1.

    So is n / h >= 1 then n >= h. What stands in it no more, stands in the equation: it is defined where it was.
    """
    if relation.op != ">=":
        return _fewer_terms(relation, others, facts)
    slack = relation.left
    for other in [r for r in (*others, *facts.relations) if r.op == "="][:_MAX_EQUATIONS]:
        equation = other.slack
        for found in (slack + equation, slack - equation):
            if found.variables and len(found.mapping) < len(slack.mapping) and found.mapping.keys() <= slack.mapping.keys():
                slack = found
    if slack == relation.left:
        return relation
    atom = (slack + 1).atom
    rest = facts.assume(*others)  # not by what is replaced: that its divisors are not 0 would be lost
    if isinstance(atom, Quotient) and positive(rest, atom.divisor):
        slack = atom.dividend - atom.divisor
    return _canonical(Relation(slack, ">=", _ZERO), facts)


def _fewer_terms(relation: Relation, others: Sequence[Relation], facts: Facts) -> Relation:
    """A divisibility, by what stands beside it: (n - m) % k = 0 is m % k = 0 where n = m * k, and where n % k = 0."""
    found = divisibility(relation)
    if found is None:
        return relation
    dividend, divisor = found
    for other in [r for r in (*others, *facts.relations) if r.op == "="][:_MAX_EQUATIONS]:
        multiple = other.slack
        if (beside := divisibility(other)) is not None:
            if beside[1] != divisor:
                continue
            multiple = beside[0]
        for rest in (dividend - multiple, dividend + multiple):
            shorter = divisibility(_canonical(Relation(rest % divisor, "=", _ZERO), facts))
            if shorter is not None and shorter[1] == divisor and (0, 0) < _size(shorter[0]) < _size(dividend):
                dividend = shorter[0]
    return relation if dividend == found[0] else _canonical(Relation(dividend % divisor, "=", _ZERO), facts)


def _size(dim: Dim) -> tuple[int, int]:
    return len(dim.mapping), dim.degree


def _as_signs(relation: Relation, others: Sequence[Relation], facts: Facts) -> list[Relation]:
    """An inequality of products of quotients that only asks that sizes are not 0: m * (n / m) < n + n / m is n >= 1 and m >= 1."""
    if relation.op != ">=" or all(isinstance(a, Symbol) for m in relation.left.mapping if len(m) > 1 for a in m):
        return [relation]
    rest = facts.assume(*others)
    signs = [Relation(Dim.of(v) - 1, ">=", _ZERO) for v in sorted(relation.left.variables, key=lambda v: v.id)]
    itself = rest.assume(relation)
    same = _superfluous(relation, rest.assume(*signs)) and all(prove(itself, s) is Answer.PROVED for s in signs)
    return signs if same else [relation]


def normal(relation: Relation) -> tuple[Relation, ...]:
    """What a relation says, in the form in which `simplify` gives it if nothing else is known."""
    return tuple(_canonical(r, Facts()) for r in _unfolded(relation))


def _unfolded(relation: Relation) -> list[Relation]:
    """`n = min n m` as n <= m, `n >= max a b` as n >= a and n >= b, `n * m >= 1` and `n * m <> 0` as n >= 1 and m >= 1,
    `n * n <= m * m` as n <= m; and divisors that cancel out of the slack are not 0.
    """
    slack = relation.slack
    lost = (relation.left.quotients | relation.right.quotients) - slack.quotients
    found = [Relation(q.divisor, "<>", _ZERO) for q in sorted(lost, key=atom_key) if q.divisor.constant is None]
    if relation.op == "<>" and len(slack.mapping) == 1 and all(isinstance(a, Symbol) for a in slack.atoms):
        return [*found, *(Relation(Dim.of(v), ">=", Dim.of(1)) for v in sorted(slack.variables, key=lambda v: v.id))]
    if (base := _base(slack)) is not None:
        op = relation.op if relation.op in ("=", "<>") else ">="
        return [*found, *_unfolded(Relation(base, op, _ZERO))]
    if relation.op == "=":
        for atom in slack.atoms:
            if isinstance(atom, Minimum):
                least = [item for item in atom.items if slack in (p := item - Dim({(atom,): 1}), -p)]
                if least:
                    return found + [Relation(least[0], "<=", item) for item in atom.items if item != least[0]]
    elif relation.op != "<>":
        for atom in slack.atoms:  # min a b >= c is a >= c and b >= c
            if isinstance(atom, Minimum) and (split := slack.split(atom)) is not None and (split[0].constant or 0) > 0:
                parts = (split[0] * item + split[1] for item in atom.items)
                return found + [r for part in parts for r in _unfolded(Relation(part, ">=", _ZERO))]
        product = slack + 1
        for v in sorted(product.variables, key=lambda v: v.id):
            split = product.split(v)
            if split is not None and not split[1].mapping and split[0].constant is None:
                factors = [Relation(factor, ">=", Dim.of(1)) for factor in (Dim.of(v), split[0])]
                return found + [r for factor in factors for r in _unfolded(factor)]
    return [*found, relation]


def _base(slack: Dim) -> Dim | None:
    """a - b of a ** p - b ** p, whose sign is the same for sizes, which are not negative."""
    if len(slack.mapping) != 2:
        return None
    powers = [m.count(a) for m in slack.mapping for a in m]
    if any(not isinstance(a, Symbol) for m in slack.mapping for a in m) or (p := gcd(*powers)) < 2:
        return None
    terms: dict[Monomial, int] = {}
    for m, c in slack.mapping.items():
        root = integer_root(abs(c), p)
        if root**p != abs(c):
            return None
        base = tuple(a for a in dict.fromkeys(m) for _ in range(m.count(a) // p))
        terms[base] = root if c > 0 else -root
    return Dim(terms) if min(terms.values()) < 0 < max(terms.values()) else None


def _superfluous(relation: Relation, others: Facts) -> bool:
    """Whether the others prove it, and also that no divisor in it is 0."""
    return all(prove(others, r) is Answer.PROVED for r in (relation, *_defined(relation)))


def _divisors(relation: Relation) -> frozenset[Dim]:
    return frozenset(q.divisor for q in relation.left.quotients if q.divisor.constant is None)


def _defined(relation: Relation) -> list[Relation]:
    """That no divisor in a relation is 0."""
    return [_canonical(Relation(d, "<>", _ZERO), Facts()) for d in sorted(_divisors(relation), key=lambda d: d.sort_key)]


def _canonical(relation: Relation, facts: Facts) -> Relation:
    """slack op 0, without factors known to be positive and, of an equality, with a positive leading coefficient."""
    slack, op = relation.slack, relation.op if relation.op in ("=", "<>") else ">="
    varying = [c for m, c in slack.mapping.items() if m]
    if not varying:
        return Relation(slack, op, _ZERO)
    for v in sorted(slack.variables, key=lambda v: v.id):
        one: Monomial = (v,)
        while all(v in m for m in slack.mapping) and positive(facts, Dim.of(v)):
            slack = Dim({left: c for m, c in slack.mapping.items() if (left := without(m, one)) is not None})
    step = gcd(*varying)
    if op == ">=":
        slack = Dim({m: c // step for m, c in slack.mapping.items() if c // step})
    elif slack.offset % step == 0:
        slack = divided(slack, step)
        if slack.terms[0][0] < 0:
            slack = -slack
    if op != ">=":
        slack = _turned(slack)
    if op == "<>" and (nonnegative(facts, slack) or nonnegative(facts, -slack)):
        return Relation((slack if nonnegative(facts, slack) else -slack) - 1, ">=", _ZERO)
    return Relation(slack, op, _ZERO)


def _turned(slack: Dim) -> Dim:
    """Of `a % b = r`, the one among the ways to say it: (n + 1) % 4 = 1 is n % 4 = 0, -n % m = 0 is n % m = 0."""
    for q in sorted(slack.quotients, key=atom_key):
        remainder, k = q.dividend % q.divisor, q.divisor.constant
        r = next((r for rest in (remainder - slack, remainder + slack) if (r := rest.constant) is not None), None)
        if r is None:
            continue
        if k is None:
            return -q.dividend % q.divisor if r == 0 and q.dividend.mapping and q.dividend.terms[0][0] < 0 else slack
        if k > 0 and 0 <= r < k:
            ways = [(part % k, (sign * (r - q.dividend.offset)) % k) for sign, part in _signs(q.dividend - q.dividend.offset)]
            whole, r = min(ways, key=lambda way: (sum(way[0].mapping.values()), way[0].sort_key))
            return whole - r
    return slack


def _signs(dim: Dim) -> list[tuple[int, Dim]]:
    return [(1, dim), (-1, -dim)]


def _equal_all_round(relations: Iterable[Relation], facts: Facts) -> list[Relation]:
    """Each p = 0 in place of p >= 0 where the others make it at most 0: a <= b, b <= c and c <= a are equations."""
    kept = list(relations)
    linear = [r for r in kept if r.op == ">=" and r.left.degree == 1 and not r.left.quotients]
    if len(linear) < 3 or len(linear) > _MAX_AGAIN:  # two are `_joined`
        return kept
    assumed = facts.assume(*kept)
    equal = {r for r in linear if prove(assumed, Relation(-r.left, ">=", _ZERO)) is Answer.PROVED}
    if not equal or unsatisfiable(assumed):  # from what cannot be, anything follows
        return kept
    return list(dict.fromkeys(_canonical(Relation(r.left, "=", _ZERO), facts) if r in equal else r for r in kept))


def _joined(relations: list[Relation]) -> list[Relation]:
    """p = 0 in place of p >= 0 and -p >= 0."""
    least = {r.left for r in relations if r.op == ">=" and r.left.mapping}
    equal = {p if p.terms[0][0] > 0 else -p for p in least if -p in least}
    found = [r for r in relations if not (r.op == ">=" and (r.left in equal or -r.left in equal))]
    return found + [Relation(p, "=", _ZERO) for p in equal if Relation(p, "=", _ZERO) not in found]


def in_order(relations: Iterable[Relation]) -> list[Relation]:
    """Relations in an order that does not depend on the one in which they were stated: a search within a budget may."""
    return sorted(relations, key=lambda r: (r.left.depth + r.right.depth, r.op, r.left.sort_key, r.right.sort_key))


def _complexity(relation: Relation) -> tuple[object, ...]:
    slack = relation.left
    return (slack.depth, slack.degree, len(slack.mapping), relation.op, slack.sort_key)
