"""Contracts: what a call must satisfy, and how its dimensions are computed from what is passed.

A Contract is data; `bind` compiles it once, to a list of small steps on a list of dimension values, and runs that at every call.
Note [Steps] says which dimensions can be computed.

Note [Steps]
    The explicit dimensions are given. A dimension variable that is alone in a shape (`n`) is what is found there. Then, repeatedly,
    any other extent with one variable left, linear in it, gives its value: n + 3, 2 * n, h * c where h is known. What is still
    unknown is undetermined. Every extent that did not give a value is compared with what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

from axon.names import Symbol
from axon.shapes.dimension import Dim, Minimum, Monomial, Quotient
from axon.shapes.prove import Answer, Facts, prove
from axon.shapes.relation import Relation
from axon.source import Span


@dataclass(frozen=True, slots=True)
class ParameterShape:
    """The shape of one tensor among the parameters; `path` is what a user would call it: `x`, `p.w`, `p.1`."""

    path: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class ContractFact:
    """A relation that must hold, and why."""

    relation: Relation
    reason: str
    span: Span | None = field(default=None, compare=False)


class ContractBroken(Exception):
    """A call does not satisfy a contract. Plain data, for the face to word.

    kind        what was wrong                                        path, dimension, actual and expected
    "rank"      a tensor has another number of dimensions             of that tensor; dimension is None
    "extent"    an extent is not what the others make of it           `formula` is the extent in the signature
    "value"     an extent has no solution: 7 = 2 * n, 2 = n + 3       expected is None; `formula` as above
    "explicit"  an explicit dimension is negative or too large        path is its name
    "fact"      a fact of the contract fails, or divides by 0         `fact` says which
    "large"     an extent is 2**31 or more                            of that tensor

    `bindings` are the dimensions known at that point, in the order in which they were found.
    """

    def __init__(
        self,
        kind: str,
        path: str = "",
        dimension: int | None = None,
        actual: int | None = None,
        expected: int | None = None,
        formula: Dim | None = None,
        fact: ContractFact | None = None,
        bindings: dict[Symbol, int] | None = None,
    ) -> None:
        super().__init__(kind, path, dimension, actual, expected)
        self.kind = kind
        self.path = path
        self.dimension = dimension  # counted from 0
        self.actual = actual
        self.expected = expected
        self.formula = formula
        self.fact = fact
        self.bindings = bindings or {}

    @property
    def relation(self) -> Relation | None:
        """The fact's relation."""
        return self.fact.relation if self.fact else None


@dataclass(frozen=True, slots=True)
class Contract:
    """What binds a function's dimensions and what must hold of them.

    `explicit` are the dimension parameters given by position; the others are found in the parameters' shapes.
    """

    explicit: tuple[Symbol, ...]
    shapes: tuple[ParameterShape, ...]
    facts: tuple[ContractFact, ...] = ()
    _compiled: list[_Guard] = field(default_factory=list, init=False, compare=False, repr=False)  # at most one
    _known: list[Facts] = field(default_factory=list, init=False, compare=False, repr=False)  # at most one

    @property
    def variables(self) -> frozenset[Symbol]:
        """The explicit dimensions and all that the shapes and facts mention."""
        dims = [dim.variables for shape in self.shapes for dim in shape.dims]
        return frozenset(self.explicit).union(*dims, *(fact.relation.variables for fact in self.facts))

    def determined(self) -> frozenset[Symbol]:
        """The dimension variables that a call can compute. See Note [Steps]."""
        return frozenset(self._guard.order)

    def undetermined(self) -> frozenset[Symbol]:
        return self.variables - self.determined()

    def bind(self, explicit: Sequence[int], shapes: Sequence[Sequence[int]]) -> dict[Symbol, int]:
        """All dimensions of a call, checked. `shapes` are in the order of `self.shapes`. Raises ContractBroken.

        The contract must determine all of its variables.
        """
        return self._guard.run(explicit, shapes)

    @property
    def _guard(self) -> _Guard:
        if not self._compiled:
            self._compiled.append(_Guard(self))
        return self._compiled[0]

    # ── for later phases ────────────────────────────────────────────────────────────────────────────────────────────────

    def proven(self) -> Facts:
        """What holds of every call that `bind` accepts."""
        if not self._known:
            facts = Facts().assume(*(fact.relation for fact in self.facts))
            extents = [Relation(dim, ">=", Dim.of(0)) for shape in self.shapes for dim in shape.dims if dim.symbol is None]
            self._known.append(facts.assume(*extents))
        return self._known[0]

    def multiple_of(self, dim: Dim) -> int:
        """The greatest number that is known to divide a dimension; 0 for the dimension 0."""
        known: dict[Monomial, int] = {}
        for fact in self.facts:
            if fact.relation.op == "=":
                _learn_divisor(fact.relation.slack, known)
        return gcd(*(c * _monomial_divisor(m, known) for m, c in dim.mapping.items()))

    def range(self, dim: Dim) -> tuple[int | None, int | None]:
        """The least and the greatest value, within 31 bits, that a dimension is known to have; None for no bound."""
        if dim.constant is not None:
            return dim.constant, dim.constant
        facts = self.proven()
        low = _greatest(lambda k: prove(facts, Relation(dim, ">=", Dim.of(k))) is Answer.PROVED)
        high = _greatest(lambda k: prove(facts, Relation(dim, "<=", Dim.of(-k))) is Answer.PROVED)
        return low, None if high is None else -high


# ── the guard ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_Values: TypeAlias = "list[int]"
_Formula: TypeAlias = "Callable[[_Values], int]"
_Place: TypeAlias = "tuple[int, int]"  # which parameter, which dimension
_MAX_EXTENT = 2**31


class _Guard:
    """A contract compiled to lists of closures over the dimension values. Names of users are nowhere in it."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.order: list[Symbol] = list(contract.explicit)  # of the dimension values
        places = [(p, d) for p, shape in enumerate(contract.shapes) for d in range(len(shape.dims))]
        self.ranks = [len(shape.dims) for shape in contract.shapes]
        bare: dict[Symbol, _Place] = {}
        checks: list[tuple[int, int, int]] = []  # parameter, dimension, which value it must equal
        formulas: list[_Place] = []
        for p, d in places:
            symbol = contract.shapes[p].dims[d].symbol
            if symbol is None:
                formulas.append((p, d))
            elif symbol in bare or symbol in contract.explicit:
                checks.append((p, d, self.order.index(symbol)))
            else:
                bare[symbol] = (p, d)
                self.order.append(symbol)
        self.loads = tuple(bare.values())
        self.equal = tuple(checks)
        self.solved: list[tuple[int, int, _Formula, _Formula]] = []  # parameter, dimension, coefficient, rest
        solved: set[_Place] = set()
        while found := self._solvable([place for place in formulas if place not in solved]):
            (p, d), symbol, coefficient, rest = found
            solved.add((p, d))
            self.solved.append((p, d, self._compile(coefficient), self._compile(rest)))
            self.order.append(symbol)
        self.undetermined = contract.variables - set(self.order)
        known = set(self.order)
        self.extents = [
            (p, d, self._compile(contract.shapes[p].dims[d]))
            for p, d in formulas
            if (p, d) not in solved and contract.shapes[p].dims[d].variables <= known
        ]
        self.facts = [(self._holds(fact.relation), fact) for fact in contract.facts if fact.relation.variables <= known]
        self.divisors = [(self._compile(q.divisor), fact) for fact in contract.facts for q in _divisors(fact.relation)]

    def _solvable(self, places: list[_Place]) -> tuple[_Place, Symbol, Dim, Dim] | None:
        for p, d in places:
            dim = self.contract.shapes[p].dims[d]
            unknown = dim.variables.difference(self.order)
            if len(unknown) == 1:
                (symbol,) = unknown
                split = dim.linear_in(symbol)
                if split is not None:
                    return (p, d), symbol, *split
        return None

    # ── running ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, explicit: Sequence[int], shapes: Sequence[Sequence[int]]) -> dict[Symbol, int]:
        if self.undetermined:
            raise ValueError(f"the contract does not determine {sorted(s.name for s in self.undetermined)}")
        values = list(explicit)
        if len(values) != len(self.contract.explicit):
            raise ValueError(f"the contract has {len(self.contract.explicit)} explicit dimensions")
        for shape, rank in zip(shapes, self.ranks, strict=True):
            if len(shape) != rank:
                self._wrong_rank(shapes)
        for p, d in self.loads:
            values.append(shapes[p][d])
        for p, d, coefficient, rest in self.solved:
            values.append(self._solve(values, shapes, p, d, coefficient, rest))
        for p, d, i in self.equal:
            if shapes[p][d] != values[i]:
                self._wrong_extent(values, shapes, p, d, values[i])
        try:
            for p, d, formula in self.extents:
                if (expected := formula(values)) != shapes[p][d]:
                    self._wrong_extent(values, shapes, p, d, expected)
        except ZeroDivisionError:
            self._wrong_extent(values, shapes, p, d, None)
        fact: ContractFact
        try:
            for divisor, fact in self.divisors:
                if divisor(values) < 1:
                    raise ContractBroken("fact", fact=fact, bindings=self._named(values))
            for holds, fact in self.facts:
                if not holds(values):
                    raise ContractBroken("fact", fact=fact, bindings=self._named(values))
        except ZeroDivisionError:
            raise ContractBroken("fact", fact=fact, bindings=self._named(values)) from None
        if values and (max(values) >= _MAX_EXTENT or min(values) < 0):
            self._out_of_range(values, shapes)
        return dict(zip(self.order, values, strict=True))

    def _solve(
        self, values: _Values, shapes: Sequence[Sequence[int]], p: int, d: int, coefficient: _Formula, rest: _Formula
    ) -> int:
        try:
            factor = coefficient(values)
            value, left = divmod(shapes[p][d] - rest(values), factor)
        except ZeroDivisionError:
            value, left = 0, 1
        if left or value < 0:
            formula = self.contract.shapes[p].dims[d]
            path = self.contract.shapes[p].path
            raise ContractBroken("value", path, d, shapes[p][d], None, formula, bindings=self._named(values))
        return value

    def _named(self, values: _Values) -> dict[Symbol, int]:
        return dict(zip(self.order, values, strict=False))

    def _wrong_rank(self, shapes: Sequence[Sequence[int]]) -> None:
        for shape, rank, parameter in zip(shapes, self.ranks, self.contract.shapes, strict=True):
            if len(shape) != rank:
                raise ContractBroken("rank", parameter.path, None, len(shape), rank)

    def _wrong_extent(self, values: _Values, shapes: Sequence[Sequence[int]], p: int, d: int, expected: int | None) -> None:
        parameter = self.contract.shapes[p]
        formula = parameter.dims[d]
        raise ContractBroken("extent", parameter.path, d, shapes[p][d], expected, formula, bindings=self._named(values))

    def _out_of_range(self, values: _Values, shapes: Sequence[Sequence[int]]) -> None:
        for symbol, value in zip(self.contract.explicit, values, strict=False):
            if not 0 <= value < _MAX_EXTENT:
                raise ContractBroken("explicit", symbol.name, None, value, bindings=self._named(values))
        for parameter, shape in zip(self.contract.shapes, shapes, strict=True):
            for d, extent in enumerate(shape):
                if not 0 <= extent < _MAX_EXTENT:
                    raise ContractBroken("large", parameter.path, d, extent, bindings=self._named(values))

    # ── compiling ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _holds(self, relation: Relation) -> Callable[[_Values], bool]:
        slack = self._compile(relation.slack)
        match relation.op:
            case "=":
                return lambda values: slack(values) == 0
            case "<>":
                return lambda values: slack(values) != 0
            case _:
                return lambda values: slack(values) >= 0

    def _compile(self, dim: Dim) -> _Formula:
        """A closure that evaluates a Dim over the values found so far."""
        constant = dim.constant
        if constant is not None:
            return lambda values: constant
        terms = [self._compile_term(c, m) for c, m in dim.terms]
        if len(terms) == 1:
            return terms[0]
        if len(terms) == 2:
            first, second = terms
            return lambda values: first(values) + second(values)
        return lambda values: sum([term(values) for term in terms])

    def _compile_term(self, coefficient: int, monomial: Monomial) -> _Formula:
        positions = [self.order.index(a) for a in monomial if isinstance(a, Symbol)]
        others = [self._compile_atom(a) for a in monomial if not isinstance(a, Symbol)]
        if not others and len(positions) == 1:
            (i,) = positions
            return (lambda values: values[i]) if coefficient == 1 else (lambda values: coefficient * values[i])

        def term(values: _Values) -> int:
            result = coefficient
            for i in positions:
                result *= values[i]
            for other in others:
                result *= other(values)
            return result

        return term

    def _compile_atom(self, atom: Quotient | Minimum) -> _Formula:
        match atom:
            case Quotient(dividend, divisor):
                a, b = self._compile(dividend), self._compile(divisor)
                return lambda values: a(values) // b(values)
            case Minimum(items):
                formulas = [self._compile(item) for item in items]
                return lambda values: min([formula(values) for formula in formulas])


def _divisors(relation: Relation) -> list[Quotient]:
    """The quotients of a relation whose divisor must be shown to be at least 1."""
    return [q for q in relation.left.quotients | relation.right.quotients if q.divisor.constant is None]


# ── what later phases ask ───────────────────────────────────────────────────────────────────────────────────────────────


def _learn_divisor(slack: Dim, known: dict[Monomial, int]) -> None:
    """From a = k * b, with one monomial a of coefficient 1 or -1: k divides a. `n % k = 0` is n = k * (n / k)."""
    for monomial, coefficient in slack.mapping.items():
        if monomial and coefficient in (1, -1):
            rest = gcd(*(c for m, c in slack.mapping.items() if m != monomial))
            if rest > 1:
                before = known.get(monomial, 1)
                known[monomial] = before * rest // gcd(before, rest)


def _monomial_divisor(monomial: Monomial, known: dict[Monomial, int]) -> int:
    """A number that divides the value of a monomial."""
    product = 1
    for atom in monomial:
        product *= known.get((atom,), 1)
    whole = known.get(monomial, 1)
    return product * whole // gcd(product, whole)


def _greatest(holds: Callable[[int], bool]) -> int | None:
    """The greatest k within 31 bits for which a downward closed property is shown; None if it is not shown for the least."""
    low, high = -_MAX_EXTENT, _MAX_EXTENT
    if holds(0):
        low = 0
        step = 1
        while step < high and holds(step):
            low, step = step, 2 * step
        high = min(high, step)
    elif not holds(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
