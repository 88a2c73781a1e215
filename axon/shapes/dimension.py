"""Dimensions: integer polynomials over sizes, floor divisions and minima, in a normal form.

Structural equality of two Dims is identity of polynomials over *atoms*. An atom is a Symbol, a `Quotient` (floor division that no
local rule removes) or a `Minimum`. Remainders and maxima have no atoms of their own: everywhere they are defined,

    a % b = a - b * (a / b)        max(a, b, …) = -min(-a, -b, …)

and the printer finds them again. A Dim is a partial function of its variables, undefined where a divisor is zero; every rule here
keeps where it is defined, so `(n * m) / m` is not `n` until `m >= 1` is known (see `prove`).

Note [Canonical atoms]
    A quotient by a constant k >= 2 has dividend coefficients in [0, k) and no common factor with k; a minimum has, for each
    monomial, coefficients that are at least 0 and somewhere 0. What was taken out stands outside the atom, so that equal functions
    get equal forms: `(h - 3) / 2 + 1` and `(h - 1) / 2` are both `(h + 1) / 2 - 1` here. `pretty` folds outer terms of
    opposite sign back in, and prints `(h - 1) / 2`.

Sizes are bounded: an operation that would pass a limit raises `DimensionTooLarge` before it costs time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from math import gcd, prod
from operator import attrgetter
from typing import Any, TypeAlias, cast

from axon.base.data import dataclass, field
from axon.base.names import Symbol

MAX_TERMS = 2_000  # of one polynomial
MAX_DEGREE = 64
MAX_COEFFICIENT = 2**63
MAX_STEPS = 50_000  # term products of one multiplication
MAX_WEIGHT = 20_000  # leaves of the whole tree, atoms unfolded
MAX_DEPTH = 40  # of atoms inside atoms
_AGE = attrgetter("id")  # of a variable: its place among others
_LONG = 16  # terms or degree from which weighing a result is worth its time; each atom is weighed when it is made


class DimensionTooLarge(Exception):
    """An operation on dimensions passed a limit of size."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """Floor division that the normal form keeps; undefined where the divisor is 0."""

    dividend: Dim
    divisor: Dim
    code: int = field(init=False, repr=False, compare=False)  # the hash, which is asked for often

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", hash((self.dividend, self.divisor)))

    def __hash__(self) -> int:
        return self.code

    @property
    def remainder(self) -> Dim:
        """dividend % divisor, without dividing again."""
        return self.dividend - self.divisor * Dim({(self,): 1})


@dataclass(frozen=True, slots=True)
class Minimum:
    """The least of two or more Dims, in the order of `sort_key`."""

    items: tuple[Dim, ...]
    code: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", hash(self.items))

    def __hash__(self) -> int:
        return self.code


Atom: TypeAlias = "Symbol | Quotient | Minimum"
Monomial: TypeAlias = "tuple[Atom, ...]"  # sorted by `atom_key`; a repeated atom is a power; () is 1
DimLike: TypeAlias = "Dim | Symbol | int"


_MOST_KEPT = 10_000
_of_symbols: dict[int, tuple[Symbol, Dim]] = {}  # Dims of the last variables that were asked for: these are what is made most often
_of_numbers: dict[int, Dim] = {}  # and of small numbers
_SMALL = 64
_NOTHING: frozenset[Any] = frozenset()


class Dim:
    """An immutable dimension in normal form. Make one with `Dim.of` and arithmetic."""

    __slots__ = ("_compound", "_depth", "_hash", "_key", "_pattern", "_terms", "_variables", "_weight")

    _terms: dict[Monomial, int]  # no zero coefficients; never changed after construction

    # Found when they are first asked for. Of most Dims nobody asks for these, which are not there before:
    _compound: frozenset[Quotient | Minimum]
    _depth: int
    _key: tuple[object, ...]
    _pattern: tuple[Hashable, tuple[Symbol, ...]]
    _weight: int

    # Of many, someone asks for these, and an attribute that is missing takes longer than one that is None:
    _hash: int | None
    _variables: frozenset[Symbol] | None

    def __init__(self, terms: dict[Monomial, int]) -> None:
        """Takes ownership of `terms`, whose monomials are sorted and whose coefficients are not zero."""
        if len(terms) > MAX_TERMS:
            raise DimensionTooLarge(f"a dimension of more than {MAX_TERMS} terms")
        for coefficient in terms.values():
            if not -MAX_COEFFICIENT < coefficient < MAX_COEFFICIENT:
                raise DimensionTooLarge("a coefficient of more than 63 bits")
        self._terms = terms
        self._hash = self._variables = None

    @staticmethod
    def of(value: DimLike) -> Dim:
        """The dimension of an integer or a variable; a Dim is itself."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, Symbol):
            made = _of_symbols.get(value.id)
            if made is None or made[0] is not value:
                if len(_of_symbols) >= _MOST_KEPT:
                    _of_symbols.clear()
                made = _of_symbols[value.id] = value, Dim({(value,): 1})
                made[1]._variables, made[1]._compound = frozenset((value,)), _NOTHING
            return made[1]
        number = int(value)
        if not -_SMALL <= number <= _SMALL:
            return Dim({(): number})
        kept = _of_numbers.get(number)
        if kept is None:
            kept = _of_numbers[number] = Dim({(): number} if number else {})
        return kept

    # ── what it is ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def constant(self) -> int | None:
        """Its value when it is a number."""
        if not self._terms:
            return 0
        return self._terms.get(()) if len(self._terms) == 1 else None

    @property
    def symbol(self) -> Symbol | None:
        """The variable that it is, when it is exactly one."""
        if len(self._terms) == 1:
            for monomial, coefficient in self._terms.items():
                if coefficient == 1 and len(monomial) == 1 and isinstance(atom := monomial[0], Symbol):
                    return atom
        return None

    @property
    def atom(self) -> Atom | None:
        """The atom that it is, when it is exactly one."""
        if len(self._terms) == 1:
            ((monomial, coefficient),) = self._terms.items()
            if coefficient == 1 and len(monomial) == 1:
                return monomial[0]
        return None

    @property
    def variables(self) -> frozenset[Symbol]:
        """Every variable in it, also inside atoms."""
        known = self._variables
        if known is not None:
            return known
        atoms = frozenset(chain.from_iterable(self._terms))
        for atom in atoms:
            if not isinstance(atom, Symbol):
                found = _NOTHING.union(*[variables_of(a) for a in atoms])
                break
        else:
            found = cast("frozenset[Symbol]", atoms)
            self._compound = _NOTHING
        self._variables = found
        return found

    @property
    def atoms(self) -> frozenset[Atom]:
        """The atoms of its monomials; not those inside other atoms."""
        return frozenset(chain.from_iterable(self._terms))

    @property
    def compound(self) -> frozenset[Quotient | Minimum]:
        """Every quotient and minimum in it, also inside others. They share their parts: a walk over them as a tree can be long."""
        try:
            return self._compound
        except AttributeError:
            pass
        found: set[Quotient | Minimum] = set()
        for monomial in self._terms:
            for atom in monomial:
                if not isinstance(atom, Symbol) and atom not in found:
                    found.add(atom)
                    for part in parts(atom):
                        found |= part.compound
        self._compound = frozenset(found) if found else _NOTHING
        return self._compound

    @property
    def quotients(self) -> frozenset[Quotient]:
        """Every quotient in it, also inside atoms: where their divisors are not 0, it is defined."""
        compound = self.compound
        return frozenset([a for a in compound if isinstance(a, Quotient)]) if compound else _NOTHING

    @property
    def terms(self) -> tuple[tuple[int, Monomial], ...]:
        """(coefficient, monomial) in the order that printers use: higher degree first, then older variables, the constant last."""
        if len(self._terms) < 2:
            return tuple([(c, m) for m, c in self._terms.items()])
        return tuple([(self._terms[m], m) for m in sorted(self._terms, key=monomial_key)])

    @property
    def mapping(self) -> Mapping[Monomial, int]:
        """Coefficients by monomial, in no particular order."""
        return self._terms

    @property
    def degree(self) -> int:
        return max(map(len, self._terms), default=0)

    @property
    def content(self) -> int:
        """The greatest common divisor of its coefficients; 0 for 0."""
        return gcd(*self._terms.values())

    @property
    def offset(self) -> int:
        """The constant term."""
        return self._terms.get((), 0)

    @property
    def weight(self) -> int:
        """How many leaves it has when every atom is unfolded."""
        try:
            return self._weight
        except AttributeError:
            pass
        weight = depth = 0
        for monomial in self._terms:
            weight += 1
            for atom in monomial:
                if isinstance(atom, Symbol):
                    weight += 1
                else:
                    weight += sum(part.weight for part in parts(atom))
                    depth = max(depth, 1 + max(part.depth for part in parts(atom)))
        self._weight, self._depth = weight, depth
        return weight

    @property
    def depth(self) -> int:
        """How many atoms stand inside one another."""
        return self._depth if self.weight else 0

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A total order on normal forms, by structure and then by the age of variables."""
        try:
            return self._key
        except AttributeError:
            self._key = tuple(sorted((monomial_key(m), c) for m, c in self._terms.items()))
            return self._key

    @property
    def pattern(self) -> tuple[Hashable, tuple[Symbol, ...]]:
        """What it is up to the names of its variables, which are numbered by their age; and the variables in this order."""
        try:
            return self._pattern
        except AttributeError:
            variables = tuple(sorted(self.variables, key=_AGE))
            self._pattern = self.numbered({v: n for n, v in enumerate(variables)}), variables
            return self._pattern

    def numbered(self, numbers: Mapping[Symbol, int]) -> Hashable:
        """What it is with numbers in place of variables."""
        if (variable := self.symbol) is not None:
            return numbers[variable]
        return frozenset([(c, *[_numbered_atom(atom, numbers) for atom in m]) for m, c in self._terms.items()])

    # ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def __add__(self, other: DimLike) -> Dim:
        return self.plus(other, 1)

    def __radd__(self, other: DimLike) -> Dim:
        return self.plus(other, 1)

    def __sub__(self, other: DimLike) -> Dim:
        return self.plus(other, -1)

    def __rsub__(self, other: DimLike) -> Dim:
        return Dim.of(other).plus(self, -1)

    def __neg__(self) -> Dim:
        return Dim({m: -c for m, c in self._terms.items()})

    def __mul__(self, other: DimLike) -> Dim:
        right = Dim.of(other)
        return right._times(self) if len(right._terms) < len(self._terms) else self._times(right)

    def __rmul__(self, other: DimLike) -> Dim:
        return self * other

    def __floordiv__(self, other: DimLike) -> Dim:
        return _quotient(self, Dim.of(other))

    def __rfloordiv__(self, other: DimLike) -> Dim:
        return _quotient(Dim.of(other), self)

    def __mod__(self, other: DimLike) -> Dim:
        return _remainder(self, Dim.of(other))

    def __rmod__(self, other: DimLike) -> Dim:
        return _remainder(Dim.of(other), self)

    def plus(self, other: DimLike, factor: int) -> Dim:
        """self + factor * other."""
        right = other if isinstance(other, Dim) else Dim.of(other)
        more = right._terms
        if not more:
            return self
        if not self._terms and factor == 1:
            return right
        terms = dict(self._terms)
        for monomial, coefficient in more.items():
            total = terms.get(monomial, 0) + coefficient * factor
            if total:
                terms[monomial] = total
            else:
                terms.pop(monomial, None)
        return Dim(terms) if len(terms) <= _LONG else _checked(Dim(terms))

    def less(self, other: Dim, number: int) -> Dim:
        """self - other - number."""
        if not other._terms and not number:
            return self
        terms = dict(self._terms)
        for monomial, coefficient in other._terms.items():
            total = terms.get(monomial, 0) - coefficient
            if total:
                terms[monomial] = total
            else:
                terms.pop(monomial, None)
        if number:
            _add(terms, (), -number)
        return Dim(terms) if len(terms) <= _LONG else _checked(Dim(terms))

    def _times(self, other: Dim) -> Dim:
        if len(self._terms) * len(other._terms) > MAX_STEPS:
            raise DimensionTooLarge("a product of two sums that are too long")
        if self.degree + other.degree > MAX_DEGREE:
            raise DimensionTooLarge(f"a product of more than {MAX_DEGREE} factors")
        if len(self._terms) == 1 and () in self._terms:  # a number
            k = self._terms[()]
            return other if k == 1 else Dim({m: c * k for m, c in other._terms.items()})
        terms: dict[Monomial, int] = {}
        for left, c in self._terms.items():
            for right, d in other._terms.items():
                monomial = join(left, right)
                total = terms.get(monomial, 0) + c * d
                if total:
                    terms[monomial] = total
                else:
                    del terms[monomial]
            if len(terms) > MAX_TERMS:
                raise DimensionTooLarge(f"a product of more than {MAX_TERMS} terms")
        return Dim(terms) if self.degree + other.degree <= _LONG and len(terms) <= _LONG else _checked(Dim(terms))

    def plain_quotient(self, divisor: Dim) -> Dim | None:
        """The polynomial q with self = q * divisor, if there is one and the divisor or q has one term (integer coefficients; atoms
        are not looked into)."""
        if not divisor._terms or not self._terms:
            return self if divisor._terms else None
        lead = min(divisor._terms, key=monomial_key)
        if len(divisor._terms) > 1:
            top = min(self._terms, key=monomial_key)
            found = _term_quotient(self, top, divisor, lead)
            return Dim(found) if found and Dim(found) * divisor == self else None
        quotient: dict[Monomial, int] = {}
        for monomial in self._terms:
            found = _term_quotient(self, monomial, divisor, lead)
            if found is None:
                return None
            quotient |= found
        return Dim(quotient)

    def linear_in(self, symbol: Symbol) -> tuple[Dim, Dim] | None:
        """(coefficient, rest) with self = coefficient * symbol + rest, neither mentioning symbol, also not inside atoms."""
        split = self.split(symbol)
        return None if split is None or any(symbol in part.variables for part in split) else split

    def split(self, atom: Atom) -> tuple[Dim, Dim] | None:
        """(coefficient, rest) with self = coefficient * atom + rest, unless a power of it occurs; does not look inside atoms."""
        coefficient: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, c in self._terms.items():
            match monomial.count(atom):
                case 0:
                    rest[monomial] = c
                case 1:
                    coefficient[tuple(a for a in monomial if a != atom)] = c
                case _:
                    return None
        return Dim(coefficient), Dim(rest)

    # ── meaning ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def substitute(self, values: Mapping[Symbol, Dim]) -> Dim:
        """Each variable replaced by its Dim, all at once, and brought to normal form again."""
        if (variable := self.symbol) is not None:
            return values.get(variable, self)
        if values.keys().isdisjoint(self.variables):
            return self
        if not self.compound and len(self._terms) <= _LONG:
            terms: dict[Monomial, int] = {}
            for monomial, coefficient in self._terms.items():
                if len(monomial) > 1:
                    break
                image = values.get(monomial[0]) if monomial else None  # type: ignore[arg-type]
                if image is None:
                    _add(terms, monomial, coefficient)
                else:
                    for m, c in image._terms.items():
                        _add(terms, m, c * coefficient)
            else:
                if len(terms) <= _LONG:
                    return Dim(terms)
        elif (names := self._names(values)) is not None:
            return _named(self, names)
        return self.rewrite(lambda atom: _substitute_atom(atom, values))

    def _names(self, values: Mapping[Symbol, Dim]) -> dict[Symbol, Symbol] | None:
        """What its variables are called, if names are all that is other, in the same order: then its normal form is the same."""
        names, before = dict[Symbol, Symbol](), -1
        for variable in self.pattern[1]:
            image = values.get(variable)
            name = variable if image is None else image.symbol
            if name is None or name.id <= before:
                return None
            names[variable] = name
            before = name.id
        return names

    def rewrite(self, image: Callable[[Atom], Dim]) -> Dim:
        """Each atom replaced by its image."""
        images: dict[Atom, Dim] = {}
        total: Dim | None = None
        for monomial, coefficient in self._terms.items():
            product: Dim | None = None
            for atom in monomial:
                if atom not in images:
                    images[atom] = image(atom)
                product = images[atom] if product is None else product * images[atom]
            product = Dim.of(1) if product is None else product
            if total is None:
                total = product if coefficient == 1 else product * coefficient
            else:
                total = total.plus(product, coefficient)
        return Dim({}) if total is None else total

    def evaluate(self, values: Mapping[Symbol, int]) -> int:
        """Its value. ZeroDivisionError where a divisor is 0, KeyError for a variable without a value."""
        total = 0
        for monomial, coefficient in self._terms.items():
            for atom in monomial:
                coefficient *= values[atom] if isinstance(atom, Symbol) else _evaluate_atom(atom, values)
            total += coefficient
        return total

    def __repr__(self) -> str:
        """The normal form as it is, for who looks for a mistake. What a person would write is `pretty.render`."""
        return " + ".join(" * ".join(map(repr, [c, *m] if c != 1 or not m else m)) for c, m in self.terms) or "0"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Dim) or len(self._terms) != len(other._terms):
            return False
        if self._hash is not None and other._hash is not None and self._hash != other._hash:
            return False
        return self._terms == other._terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._terms.items()))
        return self._hash


def _add(terms: dict[Monomial, int], monomial: Monomial, coefficient: int) -> None:
    """Add a term to a sum that is being made."""
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def _named(dim: Dim, names: Mapping[Symbol, Symbol]) -> Dim:
    """A Dim with other variables, which are in the same order."""
    return Dim({tuple([_named_atom(atom, names) for atom in m]): c for m, c in dim._terms.items()})


def _named_atom(atom: Atom, names: Mapping[Symbol, Symbol]) -> Atom:
    if isinstance(atom, Symbol):
        return names[atom]
    if isinstance(atom, Quotient):
        return Quotient(_named(atom.dividend, names), _named(atom.divisor, names))
    return Minimum(tuple([_named(item, names) for item in atom.items]))


def _numbered_atom(atom: Atom, numbers: Mapping[Symbol, int]) -> Hashable:
    if isinstance(atom, Symbol):
        return numbers[atom]
    if isinstance(atom, Quotient):
        return "/", atom.dividend.numbered(numbers), atom.divisor.numbered(numbers)
    return "min", *[item.numbered(numbers) for item in atom.items]


def minimum(a: DimLike, b: DimLike) -> Dim:
    return _least((Dim.of(a), Dim.of(b)))


def maximum(a: DimLike, b: DimLike) -> Dim:
    return -_least((-Dim.of(a), -Dim.of(b)))


def dim_sum(items: Iterable[DimLike]) -> Dim:
    """The sum of many Dims, in time linear in their terms."""
    terms: dict[Monomial, int] = {}
    for item in items:
        for monomial, coefficient in Dim.of(item)._terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        if len(terms) > MAX_STEPS:  # what cancels may pass for a while; a sum without end may not
            raise DimensionTooLarge(f"a sum of more than {MAX_STEPS} terms")
    return _checked(Dim({m: c for m, c in terms.items() if c}))


# ── monomials and atoms ─────────────────────────────────────────────────────────────────────────────────────────────────


def atom_key(atom: Atom) -> tuple[object, ...]:
    """A total order on atoms: variables by age, then quotients, then minima."""
    match atom:
        case Symbol(id=number):
            return (0, number)
        case Quotient(dividend, divisor):
            return (1, dividend.sort_key, divisor.sort_key)
        case Minimum(items):
            return (2, *(item.sort_key for item in items))


def monomial_key(monomial: Monomial) -> tuple[object, ...]:
    return (-len(monomial), *map(atom_key, monomial))


def join(left: Monomial, right: Monomial) -> Monomial:
    """The product of two monomials."""
    if not left:
        return right
    if not right:
        return left
    try:
        return tuple(sorted(left + right, key=_AGE))
    except AttributeError:  # not all are variables
        return tuple(sorted(left + right, key=atom_key))


def without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial divided by another, if it is a multiple of it."""
    if not divisor:
        return monomial
    if len(divisor) > len(monomial):
        return None
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def parts(atom: Quotient | Minimum) -> tuple[Dim, ...]:
    """The Dims inside an atom."""
    match atom:
        case Quotient(dividend, divisor):
            return (dividend, divisor)
        case Minimum(items):
            return items


def variables_of(atom: Atom) -> frozenset[Symbol]:
    """The variables of an atom, also inside it."""
    if isinstance(atom, Symbol):
        return frozenset((atom,))
    if isinstance(atom, Quotient):
        above, below = atom.dividend.variables, atom.divisor.variables
        return above | below if below else above
    return frozenset().union(*[item.variables for item in atom.items])


def replaced(dim: Dim, old: Atom, new: Dim) -> Dim:
    """The Dim with an atom replaced wherever it occurs, also inside other atoms."""
    return replacing(old, new)(dim)


def replacing(old: Atom, new: Dim) -> Callable[[Dim], Dim]:
    """The replacement of an atom, for several Dims that have parts in common."""
    images: dict[Dim, Dim] = {}

    def image_of(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return new if atom == old else Dim({(atom,): 1})
        return new if atom == old else rebuilt(atom, image)

    def image(part: Dim) -> Dim:
        if not occurs(old, part):
            return part
        if part not in images:
            images[part] = part.rewrite(image_of)
        return images[part]

    return image


def occurs(atom: Atom, dim: Dim) -> bool:
    """Whether an atom is in a Dim, also inside others."""
    return atom in (dim.variables if isinstance(atom, Symbol) else dim.compound)


def rebuilt(atom: Quotient | Minimum, image: Callable[[Dim], Dim]) -> Dim:
    """The atom with each Dim inside it replaced by its image, in normal form."""
    match atom:
        case Quotient(dividend, divisor):
            return _quotient(image(dividend), image(divisor))
        case Minimum(items):
            return _least(tuple(image(item) for item in items))


def _substitute_atom(atom: Atom, values: Mapping[Symbol, Dim]) -> Dim:
    if isinstance(atom, Symbol):
        return values[atom] if atom in values else Dim.of(atom)
    return rebuilt(atom, lambda part: part.substitute(values))


def _evaluate_atom(atom: Quotient | Minimum, values: Mapping[Symbol, int]) -> int:
    match atom:
        case Quotient(dividend, divisor):
            return dividend.evaluate(values) // divisor.evaluate(values)
        case Minimum(items):
            return min(item.evaluate(values) for item in items)


def _checked(dim: Dim) -> Dim:
    """The Dim itself, unless it is too heavy. Without compound atoms the limits on terms and degree suffice."""
    if any(not isinstance(atom, Symbol) for monomial in dim._terms for atom in monomial):
        if dim.weight > MAX_WEIGHT:
            raise DimensionTooLarge("a dimension of too many parts")
        if dim.depth > MAX_DEPTH:
            raise DimensionTooLarge("a dimension of too many divisions inside divisions")
    return dim


def _of_atom(atom: Quotient | Minimum) -> Dim:
    return _checked(Dim({(atom,): 1}))


# ── floor division ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _quotient(dividend: Dim, divisor: Dim) -> Dim:
    """dividend // divisor. See Note [Canonical atoms]."""
    constant = divisor.constant
    if constant is not None:
        if constant == 0:
            return _of_atom(Quotient(dividend, divisor))  # undefined everywhere; evaluation says so
        return _quotient_by_constant(dividend if constant > 0 else -dividend, abs(constant))
    if len(divisor._terms) == 1:
        ((monomial, coefficient),) = divisor._terms.items()
        whole, rest = _split(dividend, monomial, coefficient) if coefficient > 0 else (Dim({}), dividend)
        if rest._terms:  # else the result would be defined where the divisor is 0
            dividend = rest
        else:
            whole = Dim({})
    else:
        whole = Dim({})
    common = gcd(dividend.content, divisor.content)
    if common > 1:
        dividend, divisor = divided(dividend, common), divided(divisor, common)
    return whole + _of_atom(Quotient(dividend, divisor))


def _quotient_by_constant(dividend: Dim, k: int) -> Dim:
    if k == 1:
        return dividend
    whole, rest = _split(dividend, (), k)
    constant = rest.constant
    if constant is not None:  # it is in [0, k)
        return whole
    common = gcd(k, *(c for m, c in rest._terms.items() if m))
    if common > 1:  # (g * a + r) // (g * k) = (a + r // g) // k
        rest = Dim({m: c // common for m, c in rest._terms.items() if c // common})
        return whole + _quotient_by_constant(rest, k // common)
    inner = [m[0] for m in rest._terms if len(m) == 1 and isinstance(m[0], Quotient)]
    if len(inner) == 1 and rest._terms[(inner[0],)] == 1:  # (a // b + p) // k = (a + p * b) // (b * k)
        ((a, b),) = ((q.dividend, q.divisor) for q in inner if isinstance(q, Quotient))
        others = rest - _of_atom(Quotient(a, b))
        return whole + _quotient(a + others * b, b * k)
    return whole + _of_atom(Quotient(rest, Dim.of(k)))


def _split(dividend: Dim, monomial: Monomial, k: int) -> tuple[Dim, Dim]:
    """(q, r) with dividend = q * k * monomial + r, where multiples of the monomial in r have coefficients in [0, k)."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, c in dividend._terms.items():
        over = without(m, monomial)
        q, r = divmod(c, k) if over is not None else (0, c)
        if q and over is not None:
            whole[over] = q
        if r:
            rest[m] = r
    return Dim(whole), Dim(rest)


def _term_quotient(dividend: Dim, m: Monomial, divisor: Dim, lead: Monomial) -> dict[Monomial, int] | None:
    """The term that a term of one Dim is of a term of another, if it is a multiple."""
    over = without(m, lead)
    factor, left = divmod(dividend.mapping[m], divisor.mapping[lead])
    return None if over is None or left else {over: factor}


def divided(dim: Dim, k: int) -> Dim:
    """A Dim whose coefficients are multiples of k, divided by it."""
    return Dim({m: c // k for m, c in dim._terms.items()})


def _remainder(dividend: Dim, divisor: Dim) -> Dim:
    return dividend - divisor * _quotient(dividend, divisor)


# ── minima ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _least(dims: tuple[Dim, ...]) -> Dim:
    """The minimum of some Dims. See Note [Canonical atoms]."""
    items: set[Dim] = set()
    for dim in dims:  # flatten min(k * min(a, b) + c, d)
        nested = _nested_minimum(dim)
        if nested is not None:
            k = dim._terms[(nested,)]
            others = dim - Dim({(nested,): k})
            items.update(k * item + others for item in nested.items)
        else:
            items.add(dim)
    lowest: dict[Dim, int] = {}  # of those that differ by a constant, the least
    for item in items:
        direction = item - item.offset
        lowest[direction] = min(lowest.get(direction, item.offset), item.offset)
    items = {direction + offset for direction, offset in lowest.items()}
    if len(items) == 1:
        return items.pop()
    common = Dim({m: c for m in {m for item in items for m in item._terms} if (c := min(item._terms.get(m, 0) for item in items))})
    items = {item - common for item in items}
    factor = gcd(*(item.content for item in items))
    least = tuple(sorted((divided(item, factor) for item in items), key=lambda item: item.sort_key))
    if any(_nested_minimum(item) is not None for item in least):  # what was taken out has uncovered one
        return common + factor * _least(least)
    return common + factor * _of_atom(Minimum(least))


def _nested_minimum(dim: Dim) -> Minimum | None:
    """The minimum among its terms, if there is one alone, with a positive coefficient."""
    nested = [m[0] for m in dim._terms if len(m) == 1 and isinstance(m[0], Minimum)]
    if len(nested) == 1 and isinstance(nested[0], Minimum) and dim._terms[(nested[0],)] > 0:
        return nested[0]
    return None


def no_larger(shape: Sequence[Dim], other: Sequence[Dim]) -> bool:
    """Whether a tensor surely has no more elements than another one, which has some: as many, or its extents, but for numbers, are
    among the other's."""
    left, rest = list[Dim](), list(other)
    for extent in shape:
        if extent in rest:
            rest.remove(extent)
        else:
            left.append(extent)
    more = prod(left, start=Dim.of(1))
    if more.constant is None:
        return more == prod(rest, start=Dim.of(1))
    return more.constant <= prod(extent.constant for extent in rest if extent.constant is not None)
