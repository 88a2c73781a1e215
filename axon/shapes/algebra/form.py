"""The form of one relation: slack op 0, as short as it is by itself, with products, minima and powers taken apart."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from axon.base.names import Symbol
from axon.shapes.algebra.clauses import clauses, joined
from axon.shapes.algebra.polynomials import factors
from axon.shapes.algebra.prove import Facts, nonnegative, positive
from axon.shapes.dimension import Atom, Dim, Minimum, Monomial, Quotient, atom_key, divided, without
from axon.shapes.relation import Relation, tight

_ZERO = Dim.of(0)


def normal(relation: Relation, again: int = 4) -> tuple[Relation, ...]:
    """What a relation says, in the form in which `simplify` gives it if nothing else is known."""
    found: list[Relation] = []
    for r in unfolded(relation):
        short = canonical(r, Facts())
        found += normal(short, again - 1) if again and (short.op != r.op or short.left != r.slack) else (short,)
    return tuple(found)


def unfolded(relation: Relation) -> list[Relation]:
    """`n = min n m` as n <= m, `n >= max a b` as n >= a and n >= b, `n * m >= 1` and `n * m <> 0` as n >= 1 and m >= 1,
    `n * n <= m * m` as n <= m, `n + m <= 0` as n = 0 and m = 0; and divisors that are lost so are not 0.
    """
    op = relation.op if relation.op in ("=", "<>") else ">="
    apart = _apart(Relation(relation.slack, op, _ZERO))
    kept = frozenset[Dim]().union(*map(divisors, apart))
    lost = sorted(divisors(relation) - kept, key=lambda d: d.sort_key)
    return [*(Relation(d, "<>", _ZERO) for d in lost), *apart]


def divisors(relation: Relation) -> frozenset[Dim]:
    """What must not be 0 in a relation."""
    return frozenset(q.divisor for q in relation.left.quotients | relation.right.quotients if q.divisor.constant is None)


def _apart(relation: Relation) -> list[Relation]:
    slack, op = relation.left, relation.op
    plain = all(isinstance(a, Symbol) for a in slack.atoms)
    if op == "<>":
        if len(slack.mapping) == 1 and plain:
            return [Relation(Dim.of(v), ">=", Dim.of(1)) for v in sorted(slack.variables, key=lambda v: v.id)]
        return [relation]
    if (factor := _deciding(slack, op)) is not None:
        return unfolded(Relation(factor, op, _ZERO))
    if plain and slack.mapping and not slack.offset and (_falls(slack) or (op == "=" and _falls(-slack))):
        return [Relation(Dim({m: 1}), "=", _ZERO) for _, m in slack.terms]
    if not plain and any(isinstance(a, Minimum) for a in slack.atoms):
        return _without_minima(relation, slack, op)
    if op == ">=":
        product = slack + 1
        for v in sorted(product.variables, key=lambda v: v.id):
            split = product.split(v)
            if split is not None and not split[1].mapping and split[0].constant is None:
                return [r for factor in (Dim.of(v), split[0]) for r in unfolded(Relation(factor, ">=", Dim.of(1)))]
    return [relation]


def _falls(slack: Dim) -> bool:
    return all(c < 0 for c in slack.mapping.values())


def _rises(slack: Dim) -> bool:
    return all(c > 0 and all(isinstance(a, Symbol) for a in m) for m, c in slack.mapping.items())


def _never_negative(slack: Dim) -> bool:
    """Whether it is a sum of products of sizes and of quotients of such sums."""

    def counts(atom: Atom) -> bool:
        return isinstance(atom, Symbol) or (isinstance(atom, Quotient) and _rises(atom.dividend) and _rises(atom.divisor))

    return all(c > 0 and all(map(counts, m)) for m, c in slack.mapping.items())


def _without_minima(relation: Relation, slack: Dim, op: str) -> list[Relation]:
    """A relation with minima as some without, or with as few as there are cases."""
    sides = [slack, -slack] if op == "=" else [slack]
    found = [clauses(side) for side in sides]
    cases = [clause for c in found for clause in c or () if len(clause) > 1]
    curved = any(part.degree > 1 for clause in cases for part in clause)
    if any(c is None for c in found) or (op == "=" and cases and (len(cases) > 1 or curved)):
        return [relation]
    each = [at_least_one(clause) for c in found for clause in c or ()]
    return [r for part in each for r in (unfolded(part) if part.slack not in (slack, -slack) else [part])]


def at_least_one(parts: Iterable[Dim]) -> Relation:
    """That one of the parts is at least 0."""
    return Relation(joined([tight(part) for part in parts]), ">=", _ZERO)


def _deciding(slack: Dim, op: str) -> Dim | None:
    """a - b of a * a - b * b: the factor that decides where all others are sums of sizes that are 0 only where this follows."""
    each = factors(slack)
    deciding = [p for p in dict.fromkeys(each) if not _rises(p)]
    if len(each) < 2 or len(deciding) != 1 or (op == ">=" and each.count(deciding[0]) % 2 == 0):
        return None
    factor = deciding[0] if slack.terms[0][0] > 0 else -deciding[0]
    for other in each:
        zero = [set(m) for m in other.mapping]  # where a sum of sizes is 0, all its terms are
        rest = Dim({m: c for m, c in factor.mapping.items() if not any(z <= set(m) for z in zero)})
        if other != deciding[0] and not other.offset and not (_never_negative(rest) if op == ">=" else not rest.mapping):
            return None
    return factor


def canonical(relation: Relation, facts: Facts) -> Relation:
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
        slack = tight(slack)
        if (excluded := _excluded(slack)) is not None:
            slack, op = excluded, "<>"
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
    found = _remainder(slack)
    if found is None:
        return slack
    q, r = found
    if q.divisor.constant is None:
        return -q.dividend % q.divisor if r == 0 and q.dividend.mapping and q.dividend.terms[0][0] < 0 else slack
    whole, r = min(_by_number(q, r), key=lambda way: (sum(way[0].mapping.values()), way[1], way[0].sort_key))
    return whole - r


def _excluded(slack: Dim) -> Dim | None:
    """Of `a % k >= 1` and `a % k <= k - 2`, which leave one remainder out, what is not 0."""
    found = _remainder(slack)
    if found is None or (k := found[0].divisor.constant) is None:
        return None
    whole = found[0].dividend % k
    return {whole - 1: whole, k - 2 - whole: whole - (k - 1)}.get(slack)


def ways(relation: Relation) -> list[Dim]:
    """The slacks of a relation in its form that say the same; which of them stands there, the age of sizes decides."""
    if relation.op != ">=":
        return [way for slack in _remainders(relation.left) for way in (slack, -slack)]
    excluded = _excluded(relation.left)
    return [way - 1 for way in _remainders(excluded)] if excluded == relation.left + 1 else [relation.left]


def _remainders(slack: Dim) -> list[Dim]:
    """The ways to say slack = 0 if it is `a % b = r`: by a and by -a, of which `canonical` takes one."""
    if (found := _remainder(slack)) is None:
        return [slack]
    q, r = found
    if q.divisor.constant is None:
        return [slack, -q.dividend % q.divisor] if r == 0 else [slack]
    return [whole - r for whole, r in _by_number(q, r)]


def _remainder(slack: Dim) -> tuple[Quotient, int] | None:
    """(a / b, r) of ± (a % b - r)."""
    for q in sorted(slack.quotients, key=atom_key):
        remainder, k = q.remainder, q.divisor.constant
        r = next((r for rest in (remainder - slack, remainder + slack) if (r := rest.constant) is not None), None)
        if r is not None and (k is None or (k > 0 and 0 <= r < k)):
            return q, r
    return None


def _by_number(q: Quotient, r: int) -> list[tuple[Dim, int]]:
    """(a % k, r) and (-a % k, what is r then), without what is added to a."""
    k, offset = q.divisor, q.dividend.offset
    return [(part % k, (sign * (r - offset)) % k.offset) for sign, part in _signs(q.dividend - offset)]


def _signs(dim: Dim) -> list[tuple[int, Dim]]:
    return [(1, dim), (-1, -dim)]


def in_order(relations: Iterable[Relation]) -> list[Relation]:
    """Relations in an order that does not depend on the one in which they were stated: a search within a budget may."""
    return sorted(relations, key=lambda r: (r.left.depth + r.right.depth, r.op, r.left.sort_key, r.right.sort_key))


def complexity(relation: Relation) -> tuple[object, ...]:
    slack = relation.left
    return (slack.depth, slack.degree, len(slack.mapping), relation.op, slack.sort_key)
