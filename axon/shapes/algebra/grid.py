"""Which of many small assignments satisfy a claim, all at once: most of what nobody can prove is false of one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import product
from operator import add, mul
from typing import TypeAlias

from axon.base.names import Symbol
from axon.shapes.algebra.facts import Claim
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient

# What variables are given, by how many there are.
_SIDES = ((), (*range(64), 96, 128), (*range(20), 24, 32, 48, 64), (0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 20, 48))
MAX_VARIABLES = len(_SIDES) - 1
_MAX_WEIGHT = 150  # of a claim that is looked at
_Column: TypeAlias = "Sequence[int]"  # a value for each assignment


def seen(claims: Iterable[Claim], goal: Claim, variables: tuple[Symbol, ...]) -> tuple[bool, bool]:
    """Whether a goal was seen to hold, and to fail, where the claims hold; of more than three variables nothing is seen."""
    if not 0 < len(variables) <= MAX_VARIABLES or goal[1].weight > _MAX_WEIGHT:
        return False, False
    holds, fails = _satisfied(*goal, variables)
    for kind, slack in claims:
        if slack.weight > _MAX_WEIGHT:
            return False, False
        admitted = _satisfied(kind, slack, variables)[0]
        holds, fails = holds & admitted, fails & admitted
        if not holds and not fails:
            break
    return holds != 0, fails != 0


@lru_cache(maxsize=2_000)
def _satisfied(kind: str, slack: Dim, variables: tuple[Symbol, ...]) -> tuple[int, int]:
    """The assignments for which a claim holds, and those for which it fails, as sets of bits; where it is undefined, neither."""
    columns: dict[Atom, _Column] = dict(zip(variables, _assigned(len(variables)), strict=True))
    defined = [True] * len(columns[variables[0]])
    values = _values(slack, columns, defined)
    holds = [v >= 0 for v in values] if kind == ">=" else [(v == 0) == (kind == "=") for v in values]
    where = _bits(defined)
    return _bits(holds) & where, _bits([not h for h in holds]) & where


@cache
def _assigned(count: int) -> tuple[_Column, ...]:
    """So many variables at every assignment."""
    return tuple(zip(*product(_SIDES[count], repeat=count), strict=True))


def _bits(flags: list[bool]) -> int:
    return int.from_bytes(bytes(flags))


def _values(dim: Dim, columns: dict[Atom, _Column], defined: list[bool]) -> _Column:
    total: _Column = [0] * len(defined)
    for monomial, c in dim.mapping.items():
        term: _Column = [c] * len(defined)
        for atom in monomial:
            if atom not in columns:
                columns[atom] = _of_atom(atom, columns, defined)
            term = list(map(mul, term, columns[atom]))
        total = list(map(add, total, term))
    return total


def _of_atom(atom: Atom, columns: dict[Atom, _Column], defined: list[bool]) -> _Column:
    match atom:
        case Symbol():
            return columns[atom]
        case Quotient(dividend, divisor):
            above, below = _values(dividend, columns, defined), _values(divisor, columns, defined)
            for i, b in enumerate(below):
                if b == 0:
                    defined[i] = False
            return [a // b if b else 0 for a, b in zip(above, below, strict=True)]
        case Minimum(items):
            return [min(values) for values in zip(*(_values(item, columns, defined) for item in items), strict=True)]
