"""Infeasibility of linear constraints over the integers.

Equalities are eliminated exactly (by Euclid's algorithm where no coefficient is a unit), inequalities by Fourier–Motzkin with
integer tightening: each row is divided by the gcd of its coefficients and its constant rounded down. "Infeasible" is always right;
"not shown" is exact where each eliminated variable has a unit coefficient on one side, which is nearly always so for sizes.
"""

from __future__ import annotations

from math import gcd, inf
from typing import TypeAlias

from axon.shapes.algebra.budget import Budget, OutOfBudget

Row: TypeAlias = "tuple[dict[int, int], int]"  # coefficients by variable, constant
_Key: TypeAlias = "tuple[tuple[int, int], ...]"

_MAX_ROWS = 1_500


def infeasible(equalities: list[Row], inequalities: list[Row], budget: Budget) -> bool:
    """Whether no integers satisfy `row = 0` for each equality and `row >= 0` for each inequality. May raise OutOfBudget."""
    fresh = 1 + max((v for row in (*equalities, *inequalities) for v in row[0]), default=0)
    equalities = list(equalities)
    while True:
        while equalities:
            row = min(equalities, key=lambda r: (min(map(abs, r[0].values()), default=0), len(r[0])))
            equalities.remove(row)
            coefficients, constant = row
            step = gcd(*coefficients.values())
            if constant % step if step else constant:
                return True
            if not step:
                continue
            budget.spend(len(equalities) + len(inequalities))
            coefficients, constant = {v: c // step for v, c in coefficients.items()}, constant // step
            variable, unit = min(coefficients.items(), key=lambda item: abs(item[1]))
            size, sign = abs(unit), 1 if unit > 0 else -1
            # With t = sign * x + sum of floor(c / size) * v, the row reads size * t + (smaller coefficients) = 0.
            image = {v: -sign * (c // size) for v, c in coefficients.items() if v != variable and c // size}
            offset = -sign * (constant // size)
            if size > 1:
                image[fresh] = sign
                rest = {v: c % size for v, c in coefficients.items() if v != variable and c % size}
                equalities.append((rest | {fresh: size}, constant % size))
                fresh += 1
            equalities = [_replaced(r, variable, image, offset) for r in equalities]
            inequalities = [_replaced(r, variable, image, offset) for r in inequalities]
        found = _eliminate(inequalities, budget)
        if isinstance(found, bool):
            return found
        equalities, inequalities = found


def _replaced(row: Row, variable: int, image: dict[int, int], offset: int) -> Row:
    coefficients, constant = row
    factor = coefficients.get(variable)
    if factor is None:
        return row
    result = {v: c for v, c in coefficients.items() if v != variable}
    for v, c in image.items():
        total = result.get(v, 0) + factor * c
        if total:
            result[v] = total
        else:
            del result[v]
    return result, constant + factor * offset


def _eliminate(inequalities: list[Row], budget: Budget) -> bool | tuple[list[Row], list[Row]]:
    """Fourier–Motzkin: True: infeasible; False: not shown; or (equalities, inequalities) when two rows meet in an equality."""
    rows: dict[_Key, int] = {}
    changed: set[_Key] = set()  # rows since it was last seen which of them meet
    for coefficients, constant in inequalities:
        if not _insert(rows, coefficients, constant, changed):
            return True
    while rows:
        met = next((key for key in rows if _room(rows, key) <= 0), None) if any(_room(rows, key) <= 0 for key in changed) else None
        if met is not None:
            if _room(rows, met) < 0:
                return True
            return [(dict(met), rows[met])], [(dict(k), c) for k, c in rows.items() if k != met]
        changed.clear()
        above: dict[int, list[tuple[int, _Key]]] = {}
        below: dict[int, list[tuple[int, _Key]]] = {}
        for key in rows:
            for v, c in key:
                (above if c > 0 else below).setdefault(v, []).append((abs(c), key))
        # Rows of a variable that is bounded on one side only are always satisfiable.
        free = above.keys() ^ below.keys()
        if free:
            rows = {key: c for key, c in rows.items() if not any(v in free for v, _ in key)}
            continue
        variable = min(above, key=lambda v: (_growth(above[v], below[v]), v))
        ups, downs = above[variable], below[variable]
        new: list[tuple[dict[int, int], int]] = []
        for p, up in ups:
            for q, down in downs:
                budget.spend()
                common = gcd(p, q)
                combined = {v: c * (q // common) for v, c in up}
                for v, c in down:
                    total = combined.get(v, 0) + c * (p // common)
                    if total:
                        combined[v] = total
                    else:
                        del combined[v]
                new.append((combined, rows[up] * (q // common) + rows[down] * (p // common)))
        gone = {key for _, key in ups} | {key for _, key in downs}
        rows = {key: c for key, c in rows.items() if key not in gone}
        for coefficients, constant in new:
            if not _insert(rows, coefficients, constant, changed):
                return True
        if len(rows) > _MAX_ROWS:
            raise OutOfBudget
    return False


def _growth(ups: list[tuple[int, _Key]], downs: list[tuple[int, _Key]]) -> tuple[bool, int]:
    exact = all(c == 1 for c, _ in ups) or all(c == 1 for c, _ in downs)
    return not exact, len(ups) * len(downs) - len(ups) - len(downs)


def _room(rows: dict[_Key, int], key: _Key) -> float:
    """How far the bounds of a sum, from below and from above, are apart."""
    opposite = rows.get(tuple([(v, -c) for v, c in key]))
    return inf if opposite is None else rows[key] + opposite


def _insert(rows: dict[_Key, int], coefficients: dict[int, int], constant: int, changed: set[_Key]) -> bool:
    """Adds a row, tightened, unless a stronger one is there; False for a contradiction."""
    if not coefficients:
        return constant >= 0
    step = gcd(*coefficients.values())
    key = tuple(sorted((v, c // step) for v, c in coefficients.items()))
    constant //= step
    if rows.get(key, constant) >= constant:
        rows[key] = constant
        changed.add(key)
    return True
