"""Dimensions as expressions of C: of sizes that fit 62 bits as a contract says, and of those that a call still has to check."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from axon.base.names import Symbol
from axon.core.scalar_facts import divides
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, parts

Name = Callable[[Symbol], str]
_BITS = 126  # of `wide`, with a sign


def size(dim: Dim, name: Name) -> str:
    """As an int64_t. What divides by a size sets `odd` where that is 0: `divides` says whether there is such a thing."""
    return _sum(dim, name, "size")


def wide(dim: Dim, name: Name) -> str:
    """As 128 bits, of variables of 31 bits that are `wide`; what does not fit sets `odd`."""
    return _sum(dim, name, "wide") if _bits(dim) <= _BITS else _watched(dim, name)


def rough(dim: Dim, name: Name) -> str:
    """As a double, of any size: about how much there is to do."""
    terms = ([f"{coefficient}.0", *(_atom(atom, name, "size") for atom in monomial)] for coefficient, monomial in dim.terms)
    return " + ".join(map(" * ".join, terms)) or "0.0"


def is_odd(dims: Iterable[Dim]) -> bool:
    """Whether `odd` is to be looked at after these are computed as `wide`."""
    return any(divides(dim) or _bits(dim) > _BITS for dim in dims)


def _sum(dim: Dim, name: Name, kind: str) -> str:
    text = ""
    for coefficient, monomial in dim.terms:
        factors = [_atom(atom, name, kind) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = ("-" if coefficient < 0 else "") if not text else " - " if coefficient < 0 else " + "
        text += sign + " * ".join(factors)
    return text or "0"


def _atom(atom: Atom, name: Name, kind: str) -> str:
    match atom:
        case Symbol():
            return name(atom)
        case Quotient(dividend, divisor):
            inside = wide if kind == "wide" else size
            return f"ax_{kind}_floor({inside(dividend, name)}, {inside(divisor, name)}, &odd)"
        case Minimum(items):
            inside = wide if kind == "wide" else size
            *first, last = (inside(item, name) for item in items)
            return "".join(f"ax_{kind}_min({text}, " for text in first) + last + ")" * len(first)


def _watched(dim: Dim, name: Name) -> str:
    """With every step watched."""
    total = ""
    for coefficient, monomial in dim.terms:
        term = f"(ax_wide){coefficient}"
        for atom in monomial:
            term = f"ax_wide_mul({term}, {_atom(atom, name, 'wide')}, &odd)"
        total = f"ax_wide_add({total}, {term}, &odd)" if total else term
    return total


def _bits(dim: Dim) -> int:
    """How many bits it takes at most, of variables of 31."""
    terms = [
        abs(coefficient).bit_length() + sum(31 if isinstance(atom, Symbol) else max(map(_bits, parts(atom))) for atom in monomial)
        for monomial, coefficient in dim.mapping.items()
    ]
    inner = (_bits(part) for monomial in dim.mapping for atom in monomial if not isinstance(atom, Symbol) for part in parts(atom))
    return max([max(terms, default=0) + len(terms).bit_length(), *inner])


def quoted(text: str) -> str:
    """A string of C; of a format where `%` stands for itself."""
    shown = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("?", "\\?")
    return f'"{shown}"'
