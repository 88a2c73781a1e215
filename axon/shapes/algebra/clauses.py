"""Inequalities of minima and maxima as inequalities without, each or one of which must hold; and back.

    p + min a b >= 0     p + a >= 0 and p + b >= 0          n <= min m k      is  n <= m and n <= k
    p - min a b >= 0     p - a >= 0 or p - b >= 0           min n m < k       is  n < k or m < k

Nested ones give a conjunction of clauses, and each clause is one relation again: the greatest of its parts is at least 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from axon.base.names import Symbol
from axon.shapes.algebra.budget import Budget, OutOfBudget
from axon.shapes.dimension import Dim, Minimum, atom_key, maximum, parts

_MAX_CLAUSES = 4  # of more than one part
_MAX_PARTS = 6
_MAX_CASES = 512  # of all minima together: a sum of k of them has 2 ** k


def clauses(slack: Dim) -> list[tuple[Dim, ...]] | None:
    """What slack >= 0 says: of each, one part must be at least 0. None where a minimum stays, or it would be too much."""
    try:
        found = _clauses(slack, Budget(_MAX_CASES))
    except OutOfBudget:
        return None
    if found is None or sum(len(c) > 1 for c in found) > _MAX_CLAUSES:
        return None
    return found


def _clauses(slack: Dim, cases_left: Budget) -> list[tuple[Dim, ...]] | None:
    split = _split(slack)
    if split is None:
        cases_left.spend()
        return [(slack,)] if not any(isinstance(a, Minimum) for a in slack.atoms) else None
    sign, cases = split
    each = [_clauses(case, cases_left) for case in cases]
    if any(c is None for c in each):
        return None
    whole = [c for c in each if c is not None]
    if sign > 0:
        return _shortest(c for conjunction in whole for c in conjunction)
    joined: list[tuple[Dim, ...]] = [()]
    for conjunction in whole:
        joined = _shortest(tuple(dict.fromkeys((*a, *b))) for a in joined for b in conjunction)
        if len(joined) > 4 * _MAX_CLAUSES or any(len(c) > _MAX_PARTS for c in joined):
            return None
    return joined


def _split(slack: Dim) -> tuple[int, list[Dim]] | None:
    """The sign of what a minimum in it is multiplied with, and the slack with each of its items in its place."""
    if any(isinstance(a, Minimum) for q in slack.quotients for part in parts(q) for a in part.atoms):
        return None  # (n + min m k) % n is a remainder, and not two cases
    found = None
    for atom in sorted((a for a in slack.atoms if isinstance(a, Minimum)), key=atom_key):
        split = slack.split(atom)
        if split is None or not split[0].mapping or any(not isinstance(a, Symbol) for a in split[0].atoms):
            continue
        signs = {c > 0 for c in split[0].mapping.values()}
        if len(signs) == 1 and (found is None or found[0] < 0):  # all that must hold is soon apart
            found = 1 if signs.pop() else -1, [split[0] * item + split[1] for item in atom.items]
    return found


def _shortest(found: Iterable[tuple[Dim, ...]]) -> list[tuple[Dim, ...]]:
    """Clauses without what is plain, each once: parts that cannot be, clauses that hold, and those that say less than another."""
    kept: list[frozenset[Dim]] = []
    for clause in found:
        possible = [p for p in clause if p.constant is None or p.constant >= 0]
        if any(p.constant is not None or _plain(p) for p in possible):
            continue
        kept.append(frozenset(possible or clause[:1]))
    least = [c for i, c in enumerate(kept) if not any(d < c or (d == c and j < i) for j, d in enumerate(kept))]
    return [tuple(sorted(c, key=lambda p: p.sort_key)) for c in least]


def shared(clause: Sequence[Dim], other: Sequence[Dim]) -> tuple[Dim, ...]:
    """The parts that two clauses share, if both say no more than these: of `p or q` and `p or r`, where q + r is at most 2 * p + 1.

    For if q and r are at least 0, so is p then: n < m + max 0 (a - b) and n < m + max 0 (b - a) is n < m.
    """
    common = tuple(p for p in clause if p in other)
    rest = [p for p in (*clause, *other) if p not in common]
    if len(rest) != 2 or len(clause) != len(other):
        return ()
    above = (rest[0] + rest[1] - 2 * p for p in common)
    return common if any(d.constant is not None and d.constant <= 1 for d in above) else ()


def _plain(part: Dim) -> bool:
    """Whether it is a sum of sizes."""
    return all(c > 0 for c in part.mapping.values()) and all(isinstance(a, Symbol) for a in part.atoms)


def joined(clause: Sequence[Dim]) -> Dim:
    """The Dim that is at least 0 where one of the parts is."""
    whole = clause[0]
    for part in clause[1:]:
        whole = maximum(whole, part)
    return whole
