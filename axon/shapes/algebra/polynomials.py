"""What SymPy is asked about sizes: polynomials that are divided, factored and reduced by equations, integer systems, and roots.

This module alone imports SymPy, when it is first asked what plain rules do not answer: that takes 0.3 s, and most programs need
none of it. Atoms (sizes, quotients, minima) are the generators of a ring, opaque here. Each question is within limits: a Gröbner
basis is stopped by a monomial order that counts how often it is asked, the others are not begun where degree, terms or digits are
too many. Each answer is checked in our own normal form before anybody relies on it.

Note [Certificates]
    To show that p = 0 follows from equations f = 0, g = 0, … it is not enough that a basis says so. It knows how each of its
    polynomials is made of the equations (`basis`), so also how p is: k * p = q * f + r * g, which is multiplied out to see that it
    is right; the equations in it are those that were needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import combinations
from math import floor, gcd, isqrt, lcm, prod
from operator import mul
from types import SimpleNamespace
from typing import Any, TypeAlias

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.algebra.basis import Basis
from axon.shapes.algebra.budget import Budget
from axon.shapes.dimension import (
    Atom,
    Dim,
    DimensionTooLarge,
    Minimum,
    Monomial,
    Quotient,
    atom_key,
    divided,
    monomial_key,
    without,
)
from axon.shapes.pretty import Form, Summand, summands
from axon.shapes.relation import Relation

_MAX_DEGREE = 8  # of what is factored …
_MAX_VARIABLES = 5
_MAX_TERMS = 30
_MAX_BITS = 64
_MAX_ENTRIES = 4_000  # of an integer matrix
_NUMBERS = ((2, 3, 5, 7, 11), (13, 4, 9, 1, 6), (3, 17, 8, 5, 2))  # for atoms, _MAX_VARIABLES at most
_FACTORED = 40  # steps that taking factors apart mostly takes
_ASKED = 4  # times that a monomial order is asked in a step

_Poly: TypeAlias = Any  # an element of a SymPy ring


@cache
def _sympy() -> SimpleNamespace:
    """What is used of SymPy."""
    from sympy.core.random import rng
    from sympy.polys.domains import QQ, ZZ
    from sympy.polys.matrices import DomainMatrix
    from sympy.polys.matrices.normalforms import hermite_normal_form
    from sympy.polys.orderings import grevlex
    from sympy.polys.rings import PolyRing
    from sympy.polys.rootisolation import dup_isolate_real_roots

    return SimpleNamespace(
        rng=rng, QQ=QQ, ZZ=ZZ, DomainMatrix=DomainMatrix, hermite_normal_form=hermite_normal_form, grevlex=grevlex,
        PolyRing=PolyRing, isolate=dup_isolate_real_roots,
    )  # fmt: skip


# ── Dims as elements of a ring ──────────────────────────────────────────────────────────────────────────────────────────


class _Ring:
    """Polynomials whose first generators stand for atoms."""

    def __init__(self, atoms: Sequence[Atom], ring: _Poly) -> None:
        self.atoms = atoms
        self._place = {a: i for i, a in enumerate(atoms)}
        self.ring = ring

    @staticmethod
    def of(*dims: Dim) -> _Ring:
        """Integer polynomials over the atoms of some Dims."""
        atoms = sorted({a for dim in dims for a in dim.atoms}, key=atom_key)
        return _Ring(atoms, _plain_ring(len(atoms)))

    def poly(self, dim: Dim) -> _Poly:
        return self.ring.from_dict({self._exponents(m): self.ring.domain(c) for m, c in dim.mapping.items()})

    def dim(self, poly: Mapping[tuple[int, ...], int]) -> Dim:
        """Of a polynomial with integer coefficients. May raise DimensionTooLarge."""
        terms: dict[Monomial, int] = {}
        for exponents, c in poly.items():
            atoms = [a for a, e in zip(self.atoms, exponents, strict=False) for _ in range(e)]
            terms[tuple(sorted(atoms, key=atom_key))] = int(c)
        return Dim(terms)

    def _exponents(self, monomial: Monomial) -> tuple[int, ...]:
        exponents = [0] * self.ring.ngens
        for atom in monomial:
            exponents[self._place[atom]] += 1
        return tuple(exponents)


@lru_cache(maxsize=64)
def _plain_ring(count: int) -> _Poly:
    s = _sympy()
    return s.PolyRing([f"x{i}" for i in range(max(count, 1))], s.ZZ, s.grevlex)


# ── quotients and factors ───────────────────────────────────────────────────────────────────────────────────────────────


def exact_quotient(dividend: Dim, divisor: Dim) -> Dim | None:
    """The polynomial q with dividend = q * divisor, if there is one (integer coefficients; atoms are not looked into)."""
    if (plain := dividend.plain_quotient(divisor)) is not None or len(divisor.mapping) < 2:
        return plain
    for end in (min, max):  # the first terms divide, and the last ones
        top, lead = (end(dim.mapping, key=monomial_key) for dim in (dividend, divisor))
        if without(top, lead) is None or dividend.mapping[top] % divisor.mapping[lead]:
            return None
    ring = _Ring.of(dividend, divisor)
    (quotient,), rest = ring.poly(dividend).div([ring.poly(divisor)])
    found = None if rest else ring.dim(quotient)
    return found if found is not None and found * divisor == dividend else None


def factors(dim: Dim, budget: Budget | None = None) -> tuple[Dim, ...]:
    """The irreducible factors of a polynomial with their repetitions, without its sign and the number that its terms share.

    A polynomial that is not taken apart, because it is irreducible or too large, is one factor. Charged to the budget, if any.
    """
    if shared := _shared(dim):  # seen without asking
        unit = dim.content if dim.terms[0][0] > 0 else -dim.content
        rest = Dim({left: c // unit for m, c in dim.mapping.items() if (left := without(m, shared)) is not None})
        return tuple(sorted([*(Dim({(atom,): 1}) for atom in shared), *factors(rest, budget)], key=lambda p: p.sort_key))
    if not _may_factor(dim):
        return (dim,)
    if budget is not None:
        budget.charge(_FACTORED)
    return _factors(dim)


def _shared(dim: Dim) -> Monomial:
    """The greatest monomial that divides every one of several terms."""
    if len(dim.mapping) < 2 or () in dim.mapping:
        return ()
    first, *others = (Counter(m) for m in dim.mapping)
    for other in others:
        first &= other
    return tuple(sorted(first.elements(), key=atom_key))


@lru_cache(maxsize=1_000)
def _factors(dim: Dim) -> tuple[Dim, ...]:
    if _irreducible(dim):
        return (divided(dim, dim.content if dim.terms[0][0] > 0 else -dim.content),)
    return _taken_apart(dim)


def _taken_apart(dim: Dim) -> tuple[Dim, ...]:
    ring, rng = _Ring.of(dim), _sympy().rng
    state = rng.getstate()  # the order of the search, and so its time, would depend on what was asked before
    rng.seed(0)
    try:
        _, found = ring.poly(dim).factor_list()
    finally:
        rng.setstate(state)
    try:
        each = [ring.dim(p) for p, count in found for _ in range(count)]
        each = sorted((p if p.terms[0][0] > 0 else -p for p in each), key=lambda p: p.sort_key)
        whole = Dim.of(dim.content)
        for p in each:
            whole *= p
    except DimensionTooLarge:
        return (dim,)
    return tuple(each) if whole in (dim, -dim) else (dim,)


def _may_factor(dim: Dim) -> bool:
    """Whether it is worth asking, where nothing is shared: not of c * v + p with c of one term, which is irreducible."""
    if dim.degree < 2 or len(dim.mapping) < 2 or dim.degree > _MAX_DEGREE or len(dim.mapping) > _MAX_TERMS:
        return False
    if len(dim.atoms) > _MAX_VARIABLES or any(c.bit_length() > _MAX_BITS for c in dim.mapping.values()):
        return False
    splits = (dim.split(atom) for atom in dim.atoms)
    return all(split is None or len(split[0].mapping) > 1 for split in splits)


def _irreducible(dim: Dim) -> bool:
    """Whether it is soon seen that it has no factors but numbers, and monomials that all terms share.

    Two factors do not both have an atom, of which the degree is 1 or 2, if with numbers for the others it has no rational root. If
    no two share an atom, then each term of the one stands beside each of the other.
    """
    atoms = sorted(dim.atoms, key=atom_key)
    if not all(_rootless(dim, v, atoms) for v in atoms):
        return False
    for size in range(1, len(atoms)):
        for some in combinations(atoms[1:], size):  # the first is of the other factor
            terms, others = (len({tuple(a for a in m if (a in some) == of) for m in dim.mapping}) for of in (True, False))
            if terms * others == len(dim.mapping):
                return False
    return True


def _rootless(dim: Dim, v: Atom, atoms: Sequence[Atom]) -> bool:
    """Whether it is linear in an atom, or quadratic without a rational root where the others are some numbers."""
    if (powers := {m.count(v) for m in dim.mapping}) <= {0, 1}:
        return True
    for numbers in _NUMBERS if powers <= {0, 1, 2} else ():
        values = dict(zip(atoms, numbers, strict=False)) | {v: 1}
        coefficients = [0, 0, 0]
        for m, c in dim.mapping.items():
            coefficients[m.count(v)] += c * prod(values[a] for a in m)
        square = coefficients[1] ** 2 - 4 * coefficients[2] * coefficients[0]
        if coefficients[2] and (square < 0 or isqrt(square) ** 2 != square):
            return True
    return False


# ── what follows from equations ─────────────────────────────────────────────────────────────────────────────────────────


class _Counting:
    """A monomial order that stops what asks it too often: the `first` sizes one by one, the other sizes by degree."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._grevlex = _sympy().grevlex
        self.budget: Budget | None = None
        self._asked = 0
        self._known: dict[tuple[int, ...], object] = {}  # the same are asked for over and over

    def __call__(self, exponents: tuple[int, ...]) -> object:
        self.count(1)
        if (known := self._known.get(exponents)) is None:
            known = self._known[exponents] = exponents[: self._first], self._grevlex(exponents[self._first :])
        return known

    def count(self, more: int) -> None:
        """So often it was asked, or as much was done. May raise OutOfBudget."""
        steps = (self._asked + more) // _ASKED - self._asked // _ASKED
        self._asked += more
        if steps and self.budget is not None:
            self.budget.spend(steps)


@dataclass(frozen=True, slots=True)
class Consequence:
    """`zero` = 0 follows from equations: `factor * zero` is the sum of these multiples of them, by their numbers."""

    zero: Dim
    factor: int
    multiples: tuple[tuple[int, Dim], ...]

    @property
    def used(self) -> tuple[int, ...]:
        return tuple(i for i, _ in self.multiples)

    def holds(self, equations: Sequence[Dim]) -> bool:
        """Whether it is so, multiplied out."""
        total = Dim.of(0)
        for i, multiple in self.multiples:
            total += multiple * equations[i]
        return total == self.zero * self.factor and self.factor > 0


class Ideal:
    """What follows from equations p = 0 between polynomials, by a Gröbner basis. See Note [Certificates]."""

    def __init__(self, equations: Sequence[Dim], others: Iterable[Dim], budget: Budget, first: Sequence[Symbol] = ()) -> None:
        """Spends at most the budget, and stops there with what it has. The ring has the atoms of the `others` too. `first` are
        eliminated where they can be, the earlier ones rather."""
        self.equations = tuple(equations)
        atoms = {a for dim in (*equations, *others) for a in dim.atoms}
        first = [v for v in first if v in atoms]
        s, self._order = _sympy(), _Counting(len(first))
        ring = s.PolyRing([f"x{i}" for i in range(max(len(atoms), 1))], s.QQ, self._order)
        self._ring = _Ring([*first, *sorted(atoms.difference(first), key=atom_key)], ring)
        with self._counted(budget):
            self._basis = Basis([self._ring.poly(p) for p in equations], ring, self._order.count)

    def consequence(self, dim: Dim, budget: Budget) -> Consequence | None:
        """That a Dim is 0, if it is seen to follow. May raise OutOfBudget."""
        with self._counted(budget):
            rest, multiples = self._basis.divided(self._ring.poly(dim))
        return None if rest else self._certified(dim, multiples)

    def consequences(self) -> list[Consequence]:
        """The polynomials of the basis that are 0, in its order; those whose coefficients are too large are left out."""
        found: list[Consequence] = []
        for element in self._basis.elements:
            scale = 1 / _rational_gcd(element.poly.values())
            with suppress(DimensionTooLarge):
                zero = self._ring.dim(element.poly.mul_ground(scale))
                certified = self._certified(zero, [m.mul_ground(scale) for m in element.multiples])
                found += [certified] if certified is not None else []
        return found

    @contextmanager
    def _counted(self, budget: Budget) -> Iterator[None]:
        """Within it, each comparison of monomials is charged."""
        self._order.budget = budget
        try:
            yield
        finally:
            self._order.budget = None

    def _certified(self, zero: Dim, multiples: Sequence[_Poly]) -> Consequence | None:
        """That a Dim is 0, since it is the sum of these multiples of the equations, if it is in our own normal form."""
        factor = lcm(*(int(c.denominator) for multiple in multiples for c in multiple.values()))
        try:
            whole = [(i, self._ring.dim(multiple.mul_ground(factor))) for i, multiple in enumerate(multiples) if multiple]
            found = Consequence(zero, factor, tuple(whole))
            return found if found.holds(self.equations) else None
        except DimensionTooLarge:
            return None


def _rational_gcd(numbers: Iterable[Any]) -> Any:
    """The greatest rational of which all are integer multiples."""
    numbers = list(numbers)
    below = lcm(*(int(c.denominator) for c in numbers))
    return _sympy().QQ(gcd(*(int(c * below) for c in numbers)), below)


# ── integer systems ─────────────────────────────────────────────────────────────────────────────────────────────────────


def spanned(goal: Sequence[int], rows: Sequence[Sequence[int]]) -> bool:
    """Whether a row is a sum of integer multiples of others."""
    made = triangular(rows)
    left = list(goal)
    for combination in made or ():
        row = [sum(map(mul, combination, column)) for column in zip(*rows, strict=True)]
        place = next((i for i, c in enumerate(row) if c), None)
        if place is not None and not left[place] % row[place]:
            times = left[place] // row[place]
            left = [a - times * b for a, b in zip(left, row, strict=True)]
    return not any(left)


def triangular(rows: Sequence[Sequence[int]]) -> list[list[int]] | None:
    """A unimodular matrix U with `U * rows` in echelon form (the first columns eliminated first), as rows; None if too large.

    By the Hermite normal form of the columns beside an identity, which keeps what was done: H. Cohen, A Course in Computational
    Algebraic Number Theory, algorithm 2.4.5.
    """
    count, width = len(rows), len(rows[0]) if rows else 0
    if count * (count + width) > _MAX_ENTRIES:
        return None
    s = _sympy()
    identity = [[int(i == j) for j in range(count)] for i in range(count)]
    stacked = identity + [[row[place] for row in rows] for place in reversed(range(width))]  # it begins with the last
    form = s.hermite_normal_form(s.DomainMatrix([list(map(s.ZZ, row)) for row in stacked], (len(stacked), count), s.ZZ))
    found = [[int(x) for x in column] for column in form.transpose().to_list()]
    return [row[:count] for row in reversed(found)]


# ── roots ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def roots_of(equation: Dim) -> list[int] | None:
    """The sizes for which a polynomial of one size is 0; None if it is none, or of too high a degree."""
    if len(equation.variables) != 1 or equation.degree > _MAX_DEGREE or not all(isinstance(a, Symbol) for a in equation.atoms):
        return None
    coefficients = [0] * (equation.degree + 1)
    for monomial, c in equation.mapping.items():
        coefficients[equation.degree - len(monomial)] = c
    if equation.degree == 1:
        root, left = divmod(-coefficients[1], coefficients[0])
        return [root] if root >= 0 and not left else []
    s = _sympy()
    isolated = s.isolate(list(map(s.ZZ, coefficients)), s.ZZ, eps=s.QQ(1, 2), inf=s.ZZ(0))
    near = {n for (low, high), _ in isolated for n in (floor(low), floor(high))}
    (variable,) = equation.variables
    return sorted(n for n in near if n >= 0 and not equation.evaluate({variable: n}))


# ── as SymPy's own expressions, for who calculates with sizes ───────────────────────────────────────────────────────────


def size_symbol(name: str) -> Any:
    """What stands for a size in expressions: an integer from 0. Two of one name are equal."""
    return _expressions().Symbol(name, integer=True, nonnegative=True)


def expression(dim: Dim, symbols: Mapping[Symbol, Any]) -> Any:
    """A Dim as a SymPy expression over these symbols, written as it is printed: a quotient is `floor(a / b)`, a remainder `Mod`."""
    return _sum(summands(dim), symbols)


def relation(of: Relation, symbols: Mapping[Symbol, Any]) -> Any:
    """A relation as a SymPy one, written as it is printed; SymPy's `true` or `false` where it sees as much."""
    made = _expressions().made
    if (found := of.remainder) is not None:
        return made[of.op](expression(found[0], symbols), found[1])
    left, right = summands(of.left), summands(of.right)
    if not any(s.coefficient < 0 for s in (*left, *right)):
        return made[of.op](_sum(left, symbols), _sum(right, symbols))
    parts = summands(of.slack)
    more = _sum([s for s in parts if s.coefficient > 0], symbols)
    less = -_sum([s for s in parts if s.coefficient < 0], symbols)
    if of.op in ("=", "<>"):
        return made[of.op](more, less)
    return more >= less if less.is_number else less <= more


def _sum(parts: Iterable[Summand], symbols: Mapping[Symbol, Any]) -> Any:
    s = _expressions()

    def of_form(form: Form) -> Any:
        operands = [expression(part, symbols) for part in form.parts]
        match form.op:
            case "/":
                return s.floor(operands[0] / operands[1])
            case "%":
                return s.Mod(*operands)
            case "min":
                return s.Min(*operands)
            case _:
                return s.Max(*operands)

    def of_atom(atom: Atom) -> Any:
        match atom:
            case Symbol():
                return symbols[atom]
            case Quotient(dividend, divisor):
                return of_form(Form("/", (dividend, divisor)))
            case Minimum(items):
                return of_form(Form("min", items))

    total = s.Integer(0)
    for part in parts:
        term = s.Integer(part.coefficient)
        for atom in part.monomial:
            term *= of_atom(atom)
        total += term * of_form(part.form) if part.form is not None else term
    return total


def largest(expressions: Sequence[Any]) -> Any:
    """The maximum of SymPy expressions; which is larger is not looked for, since that takes SymPy seconds."""
    distinct = list(dict.fromkeys(expressions))
    return distinct[0] if len(distinct) == 1 else _expressions().Max(*distinct, evaluate=False)


@cache
def _expressions() -> SimpleNamespace:
    """What is used of SymPy to make expressions."""
    from sympy.core.mod import Mod
    from sympy.core.numbers import Integer
    from sympy.core.relational import Eq, Ge, Gt, Le, Lt, Ne
    from sympy.core.symbol import Symbol as SymbolOf
    from sympy.functions.elementary.integers import floor as floor_of
    from sympy.functions.elementary.miscellaneous import Max, Min

    made = {"=": Eq, "<>": Ne, "<": Lt, "<=": Le, ">": Gt, ">=": Ge}
    return SimpleNamespace(Symbol=SymbolOf, Integer=Integer, floor=floor_of, Mod=Mod, Min=Min, Max=Max, made=made)
