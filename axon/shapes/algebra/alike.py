"""Sizes in an order that the relations between them decide, not who came first: what is searched in it comes out the same whatever
sizes are called and in whatever order they were declared.

Sizes are told apart by the relations that they stand in, then by the sizes beside them there, as graphs are by refining colours.
Of those that are left alike the oldest is taken for the first, and the others are told apart from it; mostly they could be
exchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from axon.base.names import Symbol
from axon.shapes.algebra.form import complexity, normal, ways
from axon.shapes.dimension import Atom, Dim, Minimum, Monomial, Quotient, rebuilt
from axon.shapes.relation import Relation

_MAX_REFINED = 4  # rounds; each tells apart by what is one relation further away
_MAX_RELATIONS = 300  # of which sizes are exchanged
_MAX_APART = 12  # sizes of which those that are alike are told apart

Ranks: TypeAlias = "Mapping[Symbol, int]"


def exchanged(relations: Sequence[Relation]) -> tuple[dict[Relation, Relation], dict[Symbol, Dim]]:
    """Relations in normal form with sizes exchanged for one another, the first for the oldest, what each was, and the way back."""
    if len(relations) > _MAX_RELATIONS:
        return {r: r for r in relations}, {}
    first = _by_structure(frozenset(relations))
    oldest = sorted(first, key=lambda v: v.id)
    there = {v: Dim.of(w) for v, w in zip(first, oldest, strict=True)}
    found = {n: r for r in relations for n in _normal(r.substitute(there))}
    in_order = sorted(found, key=complexity)
    written = {Relation(_in_order(r.left), r.op, r.right): found[r] for r in in_order}
    return written, {w: Dim.of(v) for v, w in zip(first, oldest, strict=True)}


def _in_order(dim: Dim) -> Dim:
    """The Dim, which remembers in what order its terms were found, as if that had been the order in which they are printed."""
    if any(not isinstance(a, Symbol) for a in dim.atoms):
        dim = dim.rewrite(lambda a: Dim.of(a) if isinstance(a, Symbol) else rebuilt(a, _in_order))
    return Dim({m: c for c, m in dim.terms})


@lru_cache(maxsize=256)
def _normal(relation: Relation) -> tuple[Relation, ...]:
    """As `normal`, remembered: relations come back until nothing is left to simplify. The order of terms, which does not count when
    relations are compared, is another matter, but here it is made anew."""
    return normal(relation)


@lru_cache(maxsize=32)
def _by_structure(relations: frozenset[Relation]) -> list[Symbol]:
    """The variables of relations `slack op 0`."""
    variables = sorted({v for r in relations for v in r.variables}, key=lambda v: v.id)
    about: dict[Symbol, list[Relation]] = {v: [] for v in variables}
    for r in relations:
        for v in r.variables:
            about[v].append(r)
    ranks = _refined(dict.fromkeys(variables, 0), about)
    while len(variables) <= _MAX_APART and len(classes := sorted(ranks.values())) > len(set(classes)):
        shared = next(a for a, b in pairwise(classes) if a == b)
        first = next(v for v in variables if ranks[v] == shared)
        ranks = _refined({v: 2 * rank + (rank == shared and v != first) for v, rank in ranks.items()}, about)
    return sorted(variables, key=lambda v: ranks[v])


def _refined(ranks: dict[Symbol, int], about: Mapping[Symbol, Sequence[Relation]]) -> dict[Symbol, int]:
    for _ in range(_MAX_REFINED):
        before = len(set(ranks.values()))
        if before == len(ranks):
            break
        keys = {v: (ranks[v], _seen_from(v, ranks, about[v])) for v in ranks}
        number = {key: i for i, key in enumerate(sorted(set(keys.values())))}
        ranks = {v: number[key] for v, key in keys.items()}
        if len(set(ranks.values())) == before:
            break
    return ranks


# ── what is seen of a relation if its variables are known by their ranks alone ─────────────────────────────────────────────


def _seen_from(v: Symbol, ranks: dict[Symbol, int], relations: Sequence[Relation]) -> tuple[tuple[object, ...], ...]:
    own, ranks[v] = ranks[v], -1
    found = tuple(sorted(_relation(r, ranks) for r in relations))
    ranks[v] = own
    return found


def _relation(relation: Relation, ranks: Ranks) -> tuple[object, ...]:
    return (relation.op, min(_dim(way, ranks) for way in ways(relation)))


def _dim(dim: Dim, ranks: Ranks) -> tuple[tuple[tuple[object, ...], int], ...]:
    return tuple(sorted((_monomial(m, ranks), c) for m, c in dim.mapping.items()))


def _monomial(monomial: Monomial, ranks: Ranks) -> tuple[object, ...]:
    return tuple(sorted(_atom(a, ranks) for a in monomial))


def _atom(atom: Atom, ranks: Ranks) -> tuple[object, ...]:
    match atom:
        case Symbol():
            return (0, ranks[atom])
        case Quotient(dividend, divisor):
            return (1, _dim(dividend, ranks), _dim(divisor, ranks))
        case Minimum(items):
            return (2, *sorted(_dim(item, ranks) for item in items))
