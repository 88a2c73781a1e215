"""Simplifying relations: what a contract says, without what is trivial or follows from the rest.

Two kinds of steps alternate until nothing changes, so that what comes out is simplified to itself:

    by form      each relation apart (`form`); pairs of those with cases (`clauses`); those of one variable together (`single`);
                 sizes that cycles of inequalities make equal (`cycles`); sizes that are numbers, or another, put in elsewhere
    by proof     cases that cannot be, shorter forms by equations beside, inequalities that are equations, what the others prove
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from axon.base.names import Symbol
from axon.shapes.algebra.alike import exchanged
from axon.shapes.algebra.clauses import clauses, shared
from axon.shapes.algebra.cycles import made_equal
from axon.shapes.algebra.divisibility import divides, divisibility
from axon.shapes.algebra.form import at_least_one, canonical, complexity, divisors, in_order, normal
from axon.shapes.algebra.prove import Facts, positive, proves, unsatisfiable
from axon.shapes.algebra.single import of_one_variable
from axon.shapes.dimension import Dim, DimensionTooLarge, Minimum, Quotient
from axon.shapes.relation import Relation
from axon.shapes.solving.equations import without_repetition

__all__ = ["in_order", "independent", "normal", "simplify"]

_ZERO = Dim.of(0)
_MAX_SIMPLIFIED = 300  # relations from which each is compared with all others
_MAX_EQUATIONS = 20  # that an inequality is compared with
_MAX_CASES = 60  # relations with cases that are compared with each other
_MAX_AGAIN = 12  # relations that are compared a second time
_MAX_ROUNDS = 6

Origins = dict[Relation, Relation]  # of relations that were made of others, one of those


def simplify(relations: Iterable[Relation], facts: Facts) -> tuple[Relation, ...]:
    """An equivalent set under the facts: none trivial, none that the facts or the others prove, in an order of its own.

    A quotient's divisor is known not to be 0 where it occurs, so `d % h = 0` makes `h >= 1` superfluous.
    """
    return independent({canonical(r, facts): None for given in relations for r in normal(given)}, facts)


def independent(relations: Iterable[Relation], facts: Facts, origins: Origins | None = None) -> tuple[Relation, ...]:
    """As `simplify`, of relations as `normal` gives them, each once. Writes down what new ones were made of."""
    made: Origins = {} if origins is None else origins
    kept = _by_form(list(relations), made)
    if len(kept) > _MAX_SIMPLIFIED:  # nobody writes so many; they must not cost too much
        return tuple(sorted(without_repetition(kept), key=complexity))
    for _ in range(_MAX_ROUNDS):
        before = kept
        kept = _by_form(_by_proof(before, facts, made) if facts.relations else _by_proof_alike(before, made), made)
        if set(kept) == set(before):
            break
    return tuple(sorted(kept, key=complexity))


# ── by form ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _by_form(relations: list[Relation], made: Origins) -> list[Relation]:
    """What is seen without a proof."""
    kept = _new(relations, [], made)
    for _ in range(2 * _MAX_ROUNDS):
        before = kept
        kept = _put_in(_cyclic(_single(_certain(_joined(kept), made), made), made), made)
        if kept == before or set(kept) == set(before):
            return kept
    return kept


def _new(found: Iterable[Relation], origin: Sequence[Relation], made: Origins) -> list[Relation]:
    """Relations in canonical form, each once, and none that is trivial; one of `origin` is what new ones were made of."""
    out: dict[Relation, None] = {}
    old = set(origin)
    about: dict[Symbol, Relation] = {}
    for r in reversed(origin):
        about |= dict.fromkeys(r.variables, r)
    for r in found:
        for part in normal(r) if origin else (r,):
            if part.trivial is True and not divisors(part):
                continue
            out[part] = None
            if origin and part not in old and part not in made:
                youngest = max(part.variables, key=lambda v: v.id, default=None)
                made[part] = about.get(youngest, origin[0]) if youngest is not None else origin[0]
    return list(out)


def _single(relations: list[Relation], made: Origins) -> list[Relation]:
    """Relations of one variable in their normal form."""
    by_variable: dict[Symbol, list[Relation]] = {}
    for r in relations:
        if len(r.left.variables) == 1 and not r.right.mapping:
            (v,) = r.left.variables
            by_variable.setdefault(v, []).append(r)
    images: dict[Relation, list[Relation]] = {}
    for v, group in by_variable.items():
        if len(group) == 1 and group[0].op == ">=" and group[0].left - group[0].left.offset == Dim.of(v):
            continue  # v >= c
        found = _new(of_one_variable(v, group, sorted(group, key=complexity)), group, made)
        if set(found) != set(group):
            images |= {r: [] for r in group}
            images[group[0]] = found
    return _replaced(relations, images)


def _replaced(relations: list[Relation], images: dict[Relation, list[Relation]]) -> list[Relation]:
    if not images:
        return relations
    return list(dict.fromkeys(new for r in relations for new in images.get(r, [r])))


def _cyclic(relations: list[Relation], made: Origins) -> list[Relation]:
    """Equations in place of the inequalities whose cycles make them."""
    images: dict[Relation, list[Relation]] = {}
    for equation, inside in made_equal(relations):
        images |= {r: images.get(r, []) for r in inside}
        images[inside[0]] += _new([equation], inside, made)
    return _replaced(relations, images)


def _put_in(relations: list[Relation], made: Origins) -> list[Relation]:
    """Sizes that are numbers, n = 3, or another size, n = m, put in wherever else they occur."""
    says = {r: found for r in relations if r.op == "=" and (found := _is(r)) is not None}
    if not says:
        return relations
    root: dict[Symbol, Symbol | int] = {}

    def value(v: Symbol | int) -> Symbol | int:
        while isinstance(v, Symbol) and v in root:
            v = root[v]
        return v

    for v, other in says.values():
        a, b = value(v), value(other)
        if isinstance(a, int) and isinstance(b, int):
            if a != b:
                return relations  # nothing satisfies them
        elif a != b:
            old, new = (a, b) if isinstance(b, int) or (isinstance(a, Symbol) and b.id < a.id) else (b, a)
            assert isinstance(old, Symbol)
            root[old] = new
    images = {v: Dim.of(value(v)) for v in root}
    equations = [Relation(Dim.of(v), "=", image) for v, image in images.items()]
    changed: dict[Relation, list[Relation]] = {}
    for r in relations:
        if r in says:
            changed[r] = []
        elif not r.variables.isdisjoint(images):
            changed[r] = _with(r, images, made)
    stated = _new(equations, list(says), made)
    return list(dict.fromkeys((*stated, *_replaced(relations, changed))))


def _is(equation: Relation) -> tuple[Symbol, Symbol | int] | None:
    """(v, c) of v = c, (v, w) of v = w."""
    slack = equation.slack
    if not 1 <= len(slack.mapping) <= 2 or slack.degree != 1:
        return None
    (c, m), *rest = slack.terms
    v = m[0]
    if not isinstance(v, Symbol):
        return None
    if not rest or not rest[0][1]:
        offset = rest[0][0] if rest else 0
        return (v, -offset // c) if offset % c == 0 else None
    w = rest[0][1][0]
    return (v, w) if c == -rest[0][0] and isinstance(w, Symbol) else None


def _with(relation: Relation, images: dict[Symbol, Dim], made: Origins) -> list[Relation]:
    try:
        new = relation.substitute(images)
        below = {d.substitute(images) for d in divisors(relation)}
    except DimensionTooLarge:
        return [relation]
    if any(d.constant is not None and d.constant < 1 for d in below):
        return [relation]  # which nothing satisfies
    lost = sorted((d for d in below - divisors(new) if d.constant is None), key=lambda d: d.sort_key)
    return _new([new, *(Relation(d, "<>", _ZERO) for d in lost)], [relation], made)


# ── by proof ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _by_proof_alike(relations: list[Relation], made: Origins) -> list[Relation]:
    """By proof with sizes exchanged for one another so that no proof depends on which is older: one search finds more."""
    there, back = exchanged(relations)
    origins: Origins = {}
    found = _by_proof(list(there), Facts(), origins)
    result: list[Relation] = []
    for r in found:
        parts = [there[r]] if r in there else _normal(r.substitute(back))
        result += parts
        for part in parts:
            if r in origins and part not in made and (origin := there.get(origins[r])) not in (None, part):
                made[part] = origin
    return list(dict.fromkeys(result))


def _normal(relation: Relation) -> list[Relation]:
    """In normal form, but for an equation that was made of its parts: max n m = k."""
    return [canonical(relation, Facts())] if relation.op == "=" else list(normal(relation))


def _by_proof(relations: list[Relation], facts: Facts, made: Origins) -> list[Relation]:
    kept = [r for r in sorted(relations, key=complexity) if not _superfluous(r, facts)]
    for relation in kept[::-1]:
        if _by_way(relation, kept):
            kept.remove(relation)
    for i, relation in enumerate(kept):  # b * a = b * c is a = c beside b >= 1, n <> m is n < m beside n <= m
        slack = relation.left
        if relation.op == "<>" or (slack.variables and any(all(v in m for m in slack.mapping) for v in slack.variables)):
            kept[i] = canonical(relation, facts.assume(*kept[:i], *kept[i + 1 :]))
    written: list[Relation] = []
    for i, relation in enumerate(kept):  # one after the other, by what then stands beside it: else two would vouch for each other
        others = [*written, *kept[i + 1 :]]
        found = _as_signs(_shorter(_fewer_cases(relation, others, facts), others, facts), others, facts)
        lost = divisors(relation) - frozenset[Dim]().union(*map(divisors, found))
        found += [Relation(d, "<>", _ZERO) for d in sorted(lost, key=lambda d: d.sort_key)]
        written += _new(found, [relation], made)
    return list(_needed(sorted(_equal_all_round(dict.fromkeys(written), facts), key=complexity), facts))


def _fewer_cases(relation: Relation, others: Sequence[Relation], facts: Facts) -> Relation:
    """A relation with minima without those of their items that are no case: min n m < k is n < k beside n <= m."""
    if not any(isinstance(a, Minimum) for a in relation.left.atoms):
        return relation
    rest = facts.assume(*others)
    cases = clauses(relation.slack) if relation.op == ">=" else None
    if cases is None or len(cases) != 1 or len(cases[0]) < 2:
        return relation
    parts = list(cases[0])
    for part in sorted(parts, key=lambda p: (p.depth, p.degree, len(p.mapping), p.sort_key), reverse=True):
        left = [p for p in parts if p != part]
        if not left:
            break
        if proves(rest, Relation(part, "<", _ZERO)) or proves(rest.assume(Relation(part, ">=", _ZERO)), at_least_one(left)):
            parts = left
    return canonical(at_least_one(parts), facts) if len(parts) < len(cases[0]) else relation


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
        elif proves(others.assume(*divisors) if divisors else others, relation):
            assumed = others
            del left[relation]
            for divisor in divisors:
                if not proves(assumed, divisor):
                    assumed = assumed.assume(divisor)
                    left[divisor] = None
    return tuple(sorted(left, key=complexity))


def _by_way(relation: Relation, others: Iterable[Relation]) -> bool:
    """Whether divisibilities and equations beside it make a divisibility, and also that no divisor in it is 0."""
    wanted = divisibility(relation)
    if wanted is None:
        return False
    beside = [other for other in others if other != relation]
    if not divisors(relation) <= frozenset[Dim]().union(*map(divisors, beside)):
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
    return canonical(Relation(slack, ">=", _ZERO), facts)


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
            shorter = divisibility(canonical(Relation(rest % divisor, "=", _ZERO), facts))
            if shorter is not None and shorter[1] == divisor and (0, 0) < _size(shorter[0]) < _size(dividend):
                dividend = shorter[0]
    return relation if dividend == found[0] else canonical(Relation(dividend % divisor, "=", _ZERO), facts)


def _size(dim: Dim) -> tuple[int, int]:
    return len(dim.mapping), dim.degree


def _as_signs(relation: Relation, others: Sequence[Relation], facts: Facts) -> list[Relation]:
    """An inequality of products of quotients that only asks that sizes are not 0: m * (n / m) < n + n / m is n >= 1 and m >= 1."""
    if relation.op != ">=" or all(isinstance(a, Symbol) for m in relation.left.mapping if len(m) > 1 for a in m):
        return [relation]
    rest = facts.assume(*others)
    signs = [Relation(Dim.of(v) - 1, ">=", _ZERO) for v in sorted(relation.left.variables, key=lambda v: v.id)]
    itself = rest.assume(relation)
    same = _superfluous(relation, rest.assume(*signs)) and all(proves(itself, s) for s in signs)
    return signs if same else [relation]


def _superfluous(relation: Relation, others: Facts) -> bool:
    """Whether the others prove it, and also that no divisor in it is 0."""
    return all(proves(others, r) for r in (relation, *_defined(relation)))


def _defined(relation: Relation) -> list[Relation]:
    """That no divisor in a relation is 0."""
    return [canonical(Relation(d, "<>", _ZERO), Facts()) for d in sorted(divisors(relation), key=lambda d: d.sort_key)]


def _equal_all_round(relations: Iterable[Relation], facts: Facts) -> list[Relation]:
    """Each p = 0 in place of p >= 0 where the others make it at most 0: n % 2 <= 0 is an equation."""
    kept = list(relations)
    open_ = [r for r in kept if r.op == ">="]
    if len(open_) > _MAX_AGAIN:
        return kept
    assumed = facts.assume(*kept)
    equal = {r for r in open_ if proves(assumed, Relation(-r.left, ">=", _ZERO))}
    if not equal or unsatisfiable(assumed):  # from what cannot be, anything follows
        return kept
    return list(dict.fromkeys(canonical(Relation(r.left, "=", _ZERO), facts) if r in equal else r for r in kept))


def _joined(relations: list[Relation]) -> list[Relation]:
    """p = 0 in place of p >= 0 and -p >= 0."""
    least = dict.fromkeys(r.left for r in relations if r.op == ">=" and r.left.mapping)
    equal = dict.fromkeys(p if p.terms[0][0] > 0 else -p for p in least if -p in least)
    found = [r for r in relations if not (r.op == ">=" and (r.left in equal or -r.left in equal))]
    return found + [Relation(p, "=", _ZERO) for p in equal if Relation(p, "=", _ZERO) not in found]


def _certain(relations: list[Relation], made: Origins) -> list[Relation]:
    """What two relations with cases say together, where that is what they share: see `shared`."""
    cases: dict[Relation, list[Dim]] = {}
    for r in relations:
        if r.op == ">=" and any(isinstance(a, Minimum) for a in r.left.atoms) and not divisors(r):
            found = clauses(r.slack)
            if found is not None and len(found) == 1 and len(found[0]) > 1:
                cases[r] = list(found[0])
    images: dict[Relation, list[Relation]] = {}
    for a, b in combinations(list(cases)[:_MAX_CASES], 2):
        if a not in images and b not in images and (common := shared(cases[a], cases[b])):
            images |= {a: _new([at_least_one(common)], [a, b], made), b: []}
    return _replaced(relations, images)
