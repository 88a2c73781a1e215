"""Indices that are divided, for several neighbours at once.

    regular   quotients of which those of a thread's neighbours follow from that of the first
    steps     a Dim -> by how much it is more at each neighbour than at the first
    at_first  a Dim -> what it is at the first, with divisions that come out even done
    picked    a subscript -> which elements of one access each neighbour has, where they are no more than the neighbours

The neighbours that a thread holds begin at a multiple of their number. Of eight, `j / c` is the same for all if c is a multiple of
eight, and one more for every second if c is 2. So `x[j / c, j % c]`, where an index is two that were merged, reads neighbours in
memory, divided once; `x[2 * (j / 2) + 1]` has elements 1, 1, 3, 3, 5, 5, 7, 7 of eight that come together, and `x[j / 2]` has
0, 0, 1, 1, 2, 2, 3, 3 of four.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from collections.abc import Mapping as MappingOf
from contextlib import suppress
from math import prod

from axon.backend.plan.ir import Nest
from axon.base.names import Symbol
from axon.core.ir import Index, Read
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, variables_of


def regular(nest: Nest, lane: Symbol, vector: int, sizes: MappingOf[Symbol, int]) -> frozenset[Quotient]:
    """The quotients of a nest that are regular for so many neighbours along an axis at these sizes."""
    found: set[Quotient] = set()
    for quotient in dict.fromkeys(_quotients(_dims(nest), lane)):  # those inside others first
        if _is_regular(quotient, lane, vector, sizes, found):
            found.add(quotient)
    return frozenset(found)


def steps(dim: Dim, lane: Symbol, vector: int, known: Set[object]) -> tuple[int, ...] | None:
    """By how much a Dim is more at each of so many neighbours than at the first, given the quotients that are regular; None if that
    is not known."""
    found = [0] * vector
    for coefficient, monomial in dim.terms:
        moving = [atom for atom in monomial if lane in variables_of(atom)]
        if all(_every(atom, lane, vector, known) == 0 for atom in moving):
            continue
        every = _every(moving[0], lane, vector, known) if len(monomial) == 1 else None
        if every is None:
            return None
        found = [n + coefficient * (k // every) for k, n in enumerate(found)]
    return tuple(found)


def at_first(dim: Dim, lane: Symbol, vector: int, known: Set[object]) -> Dim:
    """What a Dim is at the first of so many neighbours: 2 * (j / 2) is j there."""
    found = dim
    for coefficient, monomial in dim.terms:
        if len(monomial) == 1 and isinstance(monomial[0], Quotient) and monomial[0].dividend == Dim.of(lane):
            every = _every(monomial[0], lane, vector, known)
            if every and coefficient % every == 0:
                found += Dim({(lane,): coefficient // every, monomial: -coefficient})
    return found


def picked(dim: Dim, lane: Symbol, vector: int, known: Set[object]) -> tuple[int, tuple[int, ...]] | None:
    """How many elements that come together so many neighbours have, at most as many as they are, and which of them each; None if
    there are more. They begin at a multiple of their number if every part of the subscript is one at the first neighbour, as its
    `multiples` say, but for the constant."""
    along = steps(dim, lane, vector, known)
    for block in (n for n in (2, 4, 8, 16) if along is not None and n <= vector):
        places = tuple(dim.offset % block + n for n in along or ())
        if all(0 <= place < block for place in places):
            return block, places
    return None


def multiples(dim: Dim, lane: Symbol, vector: int, known: Set[object], sizes: MappingOf[Symbol, int]) -> Iterator[int]:
    """What a Dim is a sum of multiples of at the first of so many neighbours, the constant aside."""
    for coefficient, monomial in dim.terms:
        if monomial:
            yield coefficient * prod(_multiple(atom, lane, vector, known, sizes) for atom in monomial)


def _multiple(atom: Atom, lane: Symbol, vector: int, known: Set[object], sizes: MappingOf[Symbol, int]) -> int:
    if variables_of(atom) <= sizes.keys():
        with suppress(ZeroDivisionError):
            return Dim({(atom,): 1}).evaluate(sizes)
    return vector // (_every(atom, lane, vector, known) or vector)


def _every(atom: Atom, lane: Symbol, vector: int, known: Set[object]) -> int | None:
    """After how many neighbours an atom is one more; 0 if never."""
    if atom == lane:
        return 1
    if lane not in variables_of(atom):
        return 0
    if not isinstance(atom, Quotient) or atom not in known:
        return None
    by = atom.divisor.constant
    steps_by_itself = any(monomial == (lane,) for _, monomial in atom.dividend.terms)
    return by if steps_by_itself and by is not None and by < vector else 0


def _is_regular(
    quotient: Quotient, lane: Symbol, vector: int, sizes: MappingOf[Symbol, int], found: Set[Quotient]
) -> bool:
    along = steps(quotient.dividend, lane, vector, found)
    if along is None or lane in quotient.divisor.variables:
        return False
    if not any(along):
        return True
    if along != tuple(range(vector)) or not quotient.divisor.variables <= sizes.keys():
        return False
    by = quotient.divisor.evaluate(sizes)
    begins = (*multiples(quotient.dividend, lane, vector, found, sizes), quotient.dividend.offset)
    if by < 1 or any(n % vector for n in begins):
        return False
    return by % vector == 0 or (quotient.divisor.constant is not None and vector % by == 0)


def _dims(nest: Nest) -> Iterator[Dim]:
    for node in (n for step in nest.steps for s in scalars(step) for n in nodes(s)):
        if isinstance(node, Index):
            yield node.dim
        elif isinstance(node, Read):
            yield from (s for s in node.subscripts if isinstance(s, Dim))


def _quotients(dims: Iterable[Dim], lane: Symbol) -> Iterator[Quotient]:
    """Those that vary along an axis, each after those inside it."""
    for dim in dims:
        for atom in dim.atoms:
            if isinstance(atom, Symbol) or lane not in variables_of(atom):
                continue
            yield from _quotients(atom.items if isinstance(atom, Minimum) else (atom.dividend, atom.divisor), lane)
            if isinstance(atom, Quotient):
                yield atom
