"""Dimensions as a person would write them, in the surface syntax."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.dimension import Atom, Dim, Minimum, Monomial, Quotient, atom_key, divided, join, monomial_key

Name: TypeAlias = "Callable[[Symbol], str]"
_SUM, _QUOTIENT, _PRODUCT, _UNARY, _ATOM = range(5)  # how tightly a text binds; of what is divided `-` is a part: `-a / b`
_Text: TypeAlias = "tuple[str, int]"


@dataclass(frozen=True, slots=True)
class Form:
    """What a person would write for an atom: `op` is / or % of two Dims, or min or max of several."""

    op: str
    parts: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Summand:
    """coefficient * monomial, and * the form if there is one."""

    coefficient: int
    monomial: Monomial
    form: Form | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A summand as text, without its sign. `level` is how tightly the text binds."""

    negative: bool
    text: str
    level: int
    constant: int | None


def summands(dim: Dim) -> list[Summand]:
    """What a person would write for a sum, in that order: remainders and maxima found again."""
    special: list[tuple[int, Monomial, Atom, Form]] = []  # coefficient, cofactor, the atom it came from, how it is written
    rest = dim
    compound = sorted((a for a in dim.atoms if not isinstance(a, Symbol)), key=atom_key, reverse=True)
    # Remainders first, the outermost before those that they are made of: `m % (k / 2)` is made of k / 2, too.
    remainders = [a for a in compound if isinstance(a, Quotient) and _as_remainder(a, rest) is not None]
    for quotient in sorted(remainders, key=lambda a: -Dim({(a,): 1}).depth):
        if (remainder := _as_remainder(quotient, rest)) is not None:
            scale, rest = remainder
            form = Form("%", (_balanced(quotient.dividend, quotient.divisor), quotient.divisor))
            special += [(c, m, quotient, form) for c, m in scale.terms]
    for atom in compound:
        split = rest.split(atom)
        if split is None or not split[0].mapping:
            continue
        cofactor, outer = split
        match atom:
            case Quotient():
                rest, scale, form = _pretty_quotient(atom, cofactor, outer)
            case Minimum():
                rest, scale, form = _pretty_minimum(atom, cofactor, outer)
            case _:
                raise AssertionError(atom)
        special += [(c, m, atom, form) for c, m in scale.terms]
    found: list[tuple[int, Monomial, Atom | None, Form | None]] = [(c, m, None, None) for c, m in rest.terms]
    found += special
    found.sort(key=lambda item: monomial_key(item[1] if item[2] is None else join(item[1], (item[2],))))
    return [Summand(c, m, form) for c, m, _, form in found]


def pieces(dim: Dim, name: Name) -> list[Piece]:
    """The summands as text, positive ones first."""
    result = []
    for s in summands(dim):
        factors = [_atom_text(a, name) for a in s.monomial]
        result.append(_piece(s.coefficient, factors + ([_form_text(s.form, name)] if s.form else [])))
    positive = [p for p in result if not p.negative and p.constant is None]
    negative = [p for p in result if p.negative and p.constant is None]
    constant = [p for p in result if p.constant is not None]
    return positive + negative + constant if positive or dim.offset < 0 else constant + negative


def _piece(coefficient: int, factors: list[_Text]) -> Piece:
    size = abs(coefficient)
    texts: list[_Text] = [(str(size), _ATOM)] if size != 1 or not factors else []
    texts += factors
    if len(texts) == 1:
        text, level = texts[0]
    else:
        text = " * ".join(_within(t, _QUOTIENT if i == 0 else _UNARY) for i, t in enumerate(texts))
        level = min(_PRODUCT, max(_QUOTIENT, texts[0][1]))
    return Piece(coefficient < 0, text, level, None if factors else coefficient)


def render(dim: Dim, name: Name = lambda symbol: symbol.name) -> str:
    """Surface syntax, with as few parentheses as needed. It parses back (minima of maxima perhaps to another form)."""
    return _sum(pieces(dim, name))[0]


def sum_text(items: list[Piece]) -> str:
    """The pieces as one sum; 0 for none."""
    return _sum(items)[0]


def _sum(items: list[Piece]) -> _Text:
    if not items:
        return "0", _ATOM
    first = items[0]
    text, level = first.text, first.level
    if first.negative:
        # `-a / b` is (-a) / b, while `-2 * a` and `-a * b` mean what they should.
        text, level = f"-{_within((text, level), _PRODUCT)}", _PRODUCT if level == _PRODUCT else _UNARY
    for item in items[1:]:
        text += f" {'-' if item.negative else '+'} {item.text}"
        level = _SUM
    return text, level


def _within(text: _Text, level: int) -> str:
    """The text, in parentheses if it binds less tightly than its place asks."""
    return text[0] if text[1] >= level else f"({text[0]})"


def _atom_text(atom: Atom, name: Name) -> _Text:
    match atom:
        case Symbol():
            return name(atom), _ATOM
        case Quotient(dividend, divisor):
            return _division(dividend, "/", divisor, name)
        case Minimum(items):
            return _call("min", items, name)


def _form_text(form: Form, name: Name) -> _Text:
    if form.op in ("/", "%"):
        return _division(form.parts[0], form.op, form.parts[1], name)
    return _call(form.op, form.parts, name)


def _division(dividend: Dim, op: str, divisor: Dim, name: Name) -> _Text:
    left, right = _sum(pieces(dividend, name)), _sum(pieces(divisor, name))
    return f"{_within(left, _QUOTIENT)} {op} {_within(right, _UNARY)}", _QUOTIENT


def _call(function: str, items: Iterable[Dim], name: Name) -> _Text:
    simplest_first = sorted(items, key=lambda item: (item.weight, item.sort_key))
    texts = [_within(_sum(pieces(item, name)), _ATOM) for item in simplest_first]
    text = texts.pop()
    for i, first in enumerate(reversed(texts)):
        text = f"{function} {first} {f'({text})' if i else text}"
    return text, _UNARY


def _pretty_quotient(atom: Quotient, cofactor: Dim, outer: Dim) -> tuple[Dim, Dim, Form]:
    """cofactor * atom + outer as (rest, scale, form): rest + scale * what the form says."""
    a, b = atom.dividend, atom.divisor
    q = cofactor.constant
    if q is not None and q <= -2 and all(c % q == 0 for c in b.mapping.values()):
        inner = a // divided(b, -q)  # a / b - q * (a / (b * q)) = a / b % q
        if _covers(outer, inner):
            return outer - inner, Dim.of(1), Form("%", (inner, Dim.of(-q)))
    k = b.constant
    if q is not None and k:  # (a + k * c) / k - c = a / k
        folded = {m: c // q for m, c in outer.mapping.items() if m in a.mapping and c % q == 0 and c // q < 0}
        back = Dim(folded)
        return outer - q * back, Dim.of(q), Form("/", (a + k * back, b))
    return outer, cofactor, Form("/", (a, b))


def _as_remainder(atom: Quotient, dim: Dim) -> tuple[Dim, Dim] | None:
    """(c, rest) of c * (a % b) + rest, for what is written c * a - c * b * (a / b) + rest."""
    split = dim.split(atom)
    if split is None or not split[0].mapping:
        return None
    scale = split[0].plain_quotient(-atom.divisor)
    if scale is None or not _covers(split[1], scale * atom.dividend):
        return None
    return scale, split[1] - scale * atom.dividend


def _balanced(a: Dim, b: Dim) -> Dim:
    """What has the same remainder, with small coefficients: n - m for n + 3 * m, of 4."""
    k = b.constant
    balanced = Dim({m: c - k if m and k < 2 * c < 2 * k else c for m, c in a.mapping.items()}) if k else a
    return balanced if any(c > 0 for m, c in balanced.mapping.items() if m) else a


def _pretty_minimum(atom: Minimum, cofactor: Dim, outer: Dim) -> tuple[Dim, Dim, Form]:
    """As `_pretty_quotient`. A negative minimum is a maximum of negatives, if outer terms make those positive again."""
    q = cofactor.constant
    if q is None:
        return outer, cofactor, Form("min", atom.items)
    size, sign = abs(q), 1 if q > 0 else -1
    folded: dict[Monomial, int] = {}
    for m in {m for item in atom.items for m in item.mapping}:
        c = outer.mapping.get(m, 0)
        if c * sign < 0 and c % size == 0:
            folded[m] = -sign * min(abs(c) // size, max(item.mapping.get(m, 0) for item in atom.items))
    if not folded:
        return outer, cofactor, Form("min", atom.items)
    back = Dim(folded)
    if q < 0 and folded.keys() == {()} and outer.variables and all(item.variables for item in atom.items):
        return outer - size * back, cofactor, Form("min", tuple(item - back for item in atom.items))  # none would be positive
    items = tuple(item * sign + back for item in atom.items)
    return outer - size * back, Dim.of(size), Form("min" if q > 0 else "max", items)


def _covers(outer: Dim, part: Dim) -> bool:
    """Whether each term of `part` is a part of the term of `outer` on its monomial."""
    return all(
        (c := outer.mapping.get(m, 0)) * d > 0 and abs(c) >= abs(d) for m, d in part.mapping.items()
    )  # fmt: skip
