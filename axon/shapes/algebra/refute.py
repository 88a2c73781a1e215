"""Contradictions between claims: the expensive part of `prove`, which describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import product
from math import gcd
from typing import Protocol

from axon.base.names import Symbol, fresh
from axon.shapes.algebra.budget import Budget
from axon.shapes.algebra.facts import Claim
from axon.shapes.algebra.linear import Row, infeasible
from axon.shapes.algebra.polynomials import exact_quotient
from axon.shapes.dimension import (
    Atom,
    Dim,
    Minimum,
    Monomial,
    Quotient,
    atom_key,
    monomial_key,
    occurs,
    parts,
    rebuilt,
    replacing,
    variables_of,
    without,
)

_MAX_ROWS = 160
_MAX_CASES = 12
_MAX_SPLIT = 2  # quotients that are tried, one after the other
_MAX_REWRITES = 12
_MAX_RESIDUES = 150
_LEAVES = 32  # of claims in which an atom is replaced, for a step


class Signs(Protocol):
    """What is known without the claims at hand."""

    def at_least_one(self, dim: Dim) -> bool: ...

    def at_least_zero(self, dim: Dim) -> bool: ...

    def nonnegative_atom(self, atom: Atom) -> bool: ...


class Refutation:
    """Shows that claims contradict one another. Collects them with what they bring in, and asks `linear`."""

    def __init__(self, signs: Signs, budget: Budget) -> None:
        self._signs = signs
        self._budget = budget
        self._positive: set[Symbol] = set()  # fresh variables, which `signs` does not know

    def run(self, claims: list[Claim], *goal: Claim) -> bool:
        plain = [*goal, *claims]
        self._budget.spend(len(plain))
        claims = self._rewritten(plain)
        apart = self._defined(plain) if claims != plain else []  # what rewriting brings together, it also takes apart
        if apart and self._contradictory(apart):
            return True
        claims = self._defined(claims)
        if self._contradictory(claims):
            return True
        more = self._products(claims)
        if more and self._contradictory(claims + more):
            return True
        return self._by_cases(claims + more, _MAX_CASES) or (bool(apart) and self._by_cases(apart, _MAX_CASES))

    def _defined(self, claims: list[Claim]) -> list[Claim]:
        """The claims, stripped, with what defines their quotients and minima."""
        claims = [c for claim in claims for c in self._stripped(claim)]
        return claims + self._definitions(p for _, p in claims)

    # ── rewriting ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rewritten(self, claims: list[Claim]) -> list[Claim]:
        """The claims with variables and exact quotients eliminated that stand inside products and atoms.

        From d = h * k, `d / k` becomes `(h * k) / k` and then h; from d = h * (d / h), with q for `d / h`, d becomes h * q.
        """
        claims = [(kind, self._simplified(p)) for kind, p in claims]
        for _ in range(_MAX_REWRITES):
            step = self._elimination(claims)
            if step is None:
                break
            atom, image, i = step
            if isinstance(atom, Symbol):
                claims = [*claims[:i], *claims[i + 1 :], (">=", image)]
            elif self._signs.at_least_one(Dim({(atom,): 1})):
                self._positive |= image.variables
            claims = [(kind, self._simplified(p)) for kind, p in self._replaced(claims, atom, image)]
        return claims

    def _replaced(self, claims: list[Claim], atom: Atom, image: Dim) -> list[Claim]:
        """The claims with an atom replaced wherever it occurs."""
        concerned = sum(p.weight for _, p in claims if occurs(atom, p))
        self._budget.spend(len(claims) + concerned // _LEAVES)
        put_in = replacing(atom, image)
        return [(kind, put_in(p)) for kind, p in claims]

    def _elimination(self, claims: list[Claim]) -> tuple[Atom, Dim, int] | None:
        """An atom, what it equals, and the equality that says so; only if it occurs where linear reasoning does not see it."""
        compound = {a for _, p in claims for m in p.mapping for a in m if len(m) > 1 or not isinstance(a, Symbol)}
        hidden = frozenset[Symbol]().union(*map(variables_of, compound))
        if not hidden:
            return None
        equalities = [(i, p) for i, (kind, p) in enumerate(claims) if kind == "=" and not p.variables.isdisjoint(hidden)]
        for i, p in equalities[:1]:
            if i == 0 and p.degree == 1 and (found := self._isolated(p, hidden)) is not None:  # the goal: n / m is 1
                return *found, i
        equalities.sort(key=lambda e: any(q.divisor.constant is not None for q in e[1].quotients))  # n % m = 0 before n % 2 = 0
        for i, p in equalities:  # these first, while what makes the divisors positive is still stated of them
            for atom in sorted(p.atoms, key=atom_key):
                if isinstance(atom, Quotient) and (atom.divisor.constant is None or sum(atom in c[1].atoms for c in claims) > 1):
                    exact = atom.dividend - atom.divisor * Dim({(atom,): 1})
                    if p not in (exact, -exact):
                        continue
                    if self._signs.nonnegative_atom(atom):
                        return atom, Dim.of(fresh("q")), i
                    if self._signs.nonnegative_atom(Quotient(-atom.dividend, atom.divisor)):  # exact: -m / k is -(m / k)
                        return atom, -Dim.of(fresh("q")), i
        for i, p in sorted(equalities, key=lambda e: e[1].degree == 1):  # n = m * q before n = 2 * r
            if (found := self._isolated(p, hidden)) is not None:
                return *found, i
        return None

    def _isolated(self, p: Dim, hidden: frozenset[Symbol]) -> tuple[Symbol, Dim] | None:
        """A variable that p = 0 says the value of, and that value; one known to be positive rather stays.

        Of m = k * q also one that no product hides: a bound of m is then one of q.
        """
        product = len(p.mapping) == 2 and p.degree > 1
        youngest = sorted(p.variables if product else p.variables & hidden, key=lambda v: -v.id)  # what is asked costs steps
        for v in sorted(youngest, key=lambda v: self._at_least_one(Dim.of(v))):
            split = p.linear_in(v)
            if split is not None and split[0].constant in (1, -1):
                return v, split[1] * -split[0]
        return None

    def _simplified(self, dim: Dim) -> Dim:
        return cancelled(dim, self._at_least_one)

    # ── consequences ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _stripped(self, claim: Claim) -> list[Claim]:
        """The claim, tightened, without the factors that all its terms share where those are known to be positive."""
        kind, p = claim
        if kind == "<>" and p.mapping and all(c > 0 and self._nonnegative_monomial(m) for m, c in p.mapping.items()):
            kind, p = ">=", p - 1
        if kind == ">=":
            step = gcd(*(c for m, c in p.mapping.items() if m))
            if step > 1:
                p = Dim({m: c // step for m, c in p.mapping.items() if c // step})
        if not p.mapping:
            return [(kind, p)]
        if kind == ">=" and p.offset < 0 and len(p.mapping) > 1:  # g * r >= 1 with g >= 0 makes r >= 1
            return [(kind, p), *self._divided_by_shared(p)]
        if () in p.mapping:
            return [(kind, p)]
        factor = tuple(atom for atom in _shared(p.mapping) if self._at_least_one(Dim({(atom,): 1})))
        if len(p.mapping) == 1:
            factor = factor[: p.degree - 1]  # a constant would say less
        return [(kind, _without(p, factor))]

    def _divided_by_shared(self, p: Dim) -> list[Claim]:
        varying = {m: c for m, c in p.mapping.items() if m}
        shared = _shared(varying)
        if not shared or not self._nonnegative_monomial(shared):
            return []
        factors = [Dim({(atom,): 1}) for atom in shared if self._signs.nonnegative_atom(atom)]
        return [(">=", factor - 1) for factor in (_without(Dim(varying), shared), *factors)]

    def _at_least_one(self, dim: Dim) -> bool:
        if self._positive.isdisjoint(dim.variables):
            return self._signs.at_least_one(dim)
        ((coefficient, monomial), *others) = dim.terms
        known = (a in self._positive or self._signs.at_least_one(Dim({(a,): 1})) for a in monomial)
        return not others and coefficient >= 1 and all(known)

    def _definitions(self, dims: Iterable[Dim]) -> list[Claim]:
        """What every quotient and minimum in the dims is known to satisfy."""
        found: list[Claim] = []
        todo = list(dims)
        seen: set[Atom] = set()
        while todo and len(found) < _MAX_ROWS:
            for atom in sorted(todo.pop().atoms - seen, key=atom_key):
                if isinstance(atom, Symbol):
                    continue
                seen.add(atom)
                itself = Dim({(atom,): 1})
                new: list[Dim] = []
                match atom:
                    case Quotient(a, b):
                        if (rest := residue(a, b)) is not None:
                            found.append(("=", a - b * itself - rest))
                        elif self._at_least_one(b):
                            new = [a - b * itself, b * itself + b - 1 - a]
                    case Minimum(items):
                        new = [item - itself for item in items]
                found += [(">=", p) for p in new]
                todo += [*parts(atom), *new]
        return found

    def _contradictory(self, claims: list[Claim]) -> bool:
        # In an order of their own: what is eliminated first, and so what it costs, must not follow from that of sets.
        monomials = {m for kind, p in claims if kind in ("=", ">=") for m in p.mapping if m}
        numbers = {m: number for number, m in enumerate(sorted(monomials, key=monomial_key))}
        equalities: list[Row] = []
        inequalities: list[Row] = []
        for kind, p in claims:
            if kind == "<>" and p.mapping:
                continue
            row = dict(sorted((numbers[m], c) for m, c in p.mapping.items() if m)), p.offset
            if kind == "=":
                equalities.append(row)
            elif kind == ">=":
                inequalities.append(row)
            elif not p.mapping:
                return True
        inequalities += [({i: 1}, -self._positive.issuperset(m)) for m, i in numbers.items() if self._nonnegative_monomial(m)]
        return infeasible(equalities, inequalities, self._budget)

    def _nonnegative_monomial(self, monomial: Monomial) -> bool:
        odd = (a for i, a in enumerate(monomial) if monomial.index(a) == i and monomial.count(a) % 2)
        return all(self._signs.nonnegative_atom(a) for a in odd)

    def _products(self, claims: list[Claim]) -> list[Claim]:
        """Consequences of the claims that concern their nonlinear monomials."""
        found: dict[Claim, None] = {}
        monomials = {m for _, p in claims for m in p.mapping}
        for _ in range(2):
            wanted = sorted((m for m in monomials if len(m) > 1), key=lambda m: (len(m), monomial_key(m)))
            if not wanted:
                break
            atoms = [(m, frozenset(m)) for m in wanted]
            candidates: list[tuple[int, int, Claim]] = []
            for kind, p in [*claims, *found]:
                if kind == "<>" or len(p.mapping) > 8:
                    continue
                self._budget.spend(1 + len(wanted) * len(p.mapping) // 12)
                tried: set[Monomial] = set()
                terms = [t for t in p.mapping if t]
                for m, inside in atoms:
                    for t in terms:
                        over = without(m, t) if inside.issuperset(t) else None
                        if not over or over in tried:
                            continue
                        tried.add(over)
                        if kind == "=" or self._nonnegative_monomial(over):
                            self._budget.spend(2 + p.weight // _LEAVES)
                            new = p * Dim({over: 1})
                            unseen = sum(m not in monomials for m in new.mapping)
                            if unseen <= 2:
                                candidates.append((unseen, len(candidates), (kind, new)))
            for m in wanted:
                candidates += [(0, len(candidates), claim) for claim in self._pairwise(m, claims)]
                candidates += [(0, len(candidates), (">=", Dim({m: 1, lower: -1}))) for lower in self._lower(m, monomials)]
            candidates.sort(key=lambda c: c[:2])
            before = len(found)
            for _, _, claim in candidates[:_MAX_ROWS]:
                if claim not in found:
                    found[claim] = None
                    monomials.update(claim[1].mapping)
            if len(found) == before:
                break
        return list(found)[: 2 * _MAX_ROWS]

    def _pairwise(self, monomial: Monomial, claims: list[Claim]) -> list[Claim]:
        """For a product x * y: (x - a) * (y - b) >= 0 from bounds x >= a and y >= b, or both upper; for a square, x * x >= x."""
        if len(monomial) != 2:
            return []
        x, y = monomial
        if x == y:
            return [(">=", Dim({(x, x): 1, (x,): -1}))]
        return [
            (">=", p * q)
            for p in self._bounds(x, claims)
            for q in self._bounds(y, claims)
            if (p.mapping[(x,)] > 0) == (q.mapping[(y,)] > 0)
        ]

    def _lower(self, monomial: Monomial, others: Iterable[Monomial]) -> list[Monomial]:
        """Of x * x * x * y, those with lower powers, x * y: they are at most as large, for what is not 0 is at least 1."""
        atoms = set(monomial)
        if len(atoms) == len(monomial) or len(monomial) < 3 or not all(self._signs.nonnegative_atom(a) for a in atoms):
            return []
        lower = (o for o in others if len(o) < len(monomial) and set(o) == atoms)
        return sorted((o for o in lower if all(o.count(a) <= monomial.count(a) for a in atoms)), key=monomial_key)

    def _bounds(self, atom: Atom, claims: list[Claim]) -> list[Dim]:
        """Up to three claims p >= 0 about this atom alone, or it and another, with something added or taken away."""
        found = [p for kind, p in claims if kind == ">=" and (atom,) in p.mapping and 1 < len(p.mapping) <= 3 and p.degree == 1]
        return sorted(found, key=lambda p: len(p.mapping))[:3]

    def _by_cases(self, claims: list[Claim], cases: int) -> bool:
        """Whether the claims are contradictory in each case of a minimum or a disequality."""
        for kind, p in claims:
            if kind == "<>":
                rest = [c for c in claims if c != (kind, p)]
                signs = (rest + self._stripped((">=", side - 1)) for side in (p, -p))
                return self._all_contradictory(signs, 2, cases)
        minima = {a for _, p in claims for m in p.mapping for a in m if isinstance(a, Minimum)}
        for atom in sorted(minima, key=lambda a: (len(a.items), atom_key(a))):
            itself = Dim({(atom,): 1})
            if not any(kind == "=" and p in (item - itself for item in atom.items) for kind, p in claims):
                least = ([("=", item - itself), *self._replaced(claims, atom, item)] for item in atom.items)
                return self._all_contradictory(least, len(atom.items), cases)
        # A quotient in a product is 0, and with it the product, or at least 1.
        quotients = {a for _, p in claims for m in p.mapping if len(m) > 1 for a in m if isinstance(a, Quotient)}
        for quotient in sorted(quotients, key=atom_key)[:_MAX_SPLIT]:
            positive: Claim = (">=", Dim({(quotient,): 1}) - 1)
            if positive not in claims and self._signs.nonnegative_atom(quotient):
                either = iter((self._replaced(claims, quotient, Dim.of(0)), [*claims, positive]))
                if self._all_contradictory(either, 2, cases):
                    return True
        return False

    def _all_contradictory(self, ways: Iterator[list[Claim]], count: int, cases: int) -> bool:
        """Whether the claims are contradictory in each of so many ways, of which only those are made that are looked at."""
        return count <= cases and all(
            self._contradictory(claims)
            or ((more := self._products(claims)) and self._contradictory(claims + more))
            or self._by_cases(claims, cases // count)
            for claims in ways
        )


def cancelled(dim: Dim, at_least_one: Callable[[Dim], bool]) -> Dim:
    """The Dim with each quotient's dividend and divisor divided by what they share and is known to be positive."""
    if all(isinstance(a, Symbol) for a in dim.atoms):
        return dim

    def image(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return Dim.of(atom)
        whole = rebuilt(atom, lambda part: cancelled(part, at_least_one))
        return lowest_terms(whole.atom, at_least_one) if isinstance(whole.atom, Quotient) else whole

    return dim.rewrite(image)


def lowest_terms(quotient: Quotient, at_least_one: Callable[[Dim], bool]) -> Dim:
    """The quotient without what its dividend and divisor share and is known to be positive; n / a / b as n / (a * b)."""
    a, b = quotient.dividend, quotient.divisor
    if b.constant is None:
        inner = [q for q in a.atoms if isinstance(q, Quotient) and a.mapping.get((q,)) == 1]
        if len(inner) == 1 and at_least_one(b):  # (x / y + p) / b = (x + p * y) / (y * b)
            x, y = inner[0].dividend, inner[0].divisor
            return (x + (a - Dim({(inner[0],): 1})) * y) // (y * b)
        exact = exact_quotient(a, b)
        if exact is not None and at_least_one(b):
            return exact
        factor = tuple(s for s in _shared((*a.mapping, *b.mapping)) if at_least_one(Dim({(s,): 1})))
        if factor:
            return _without(a, factor) // _without(b, factor)
    return Dim({(quotient,): 1})


def _without(dim: Dim, monomial: Monomial) -> Dim:
    """A Dim all of whose terms are multiples of a monomial, divided by it."""
    return Dim({over: c for m, c in dim.mapping.items() if (over := without(m, monomial)) is not None})


def _shared(monomials: Iterable[Monomial]) -> Monomial:
    """The atoms that all monomials have, with their powers."""
    first, *others = monomials
    shared: list[Atom] = []
    for atom in dict.fromkeys(first):
        shared += [atom] * min(m.count(atom) for m in (first, *others))
    return tuple(shared)


@lru_cache(maxsize=1_000)
def residue(a: Dim, b: Dim) -> int | None:
    """The remainder of a product by a small number if it is the same for all sizes: n * (n + 1) % 2 is 0."""
    k = b.constant
    variables = sorted(a.variables, key=lambda v: v.id)
    if k is None or not 2 <= k <= _MAX_RESIDUES or len(variables) > 3 or k ** len(variables) > _MAX_RESIDUES:
        return None
    if a.degree < 2 or any(not isinstance(v, Symbol) for v in a.atoms):
        return None
    every = product(range(k), repeat=len(variables))
    found = {a.evaluate(dict(zip(variables, values, strict=True))) % k for values in every}
    return found.pop() if len(found) == 1 else None
