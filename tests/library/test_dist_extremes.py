"""Densities where numbers, scales or counts are so large or small that a part of a formula is not, and the density is.

By the definitions of dist_laws.py in 60 digits, as in test_dist.py, but of i64, which holds counts of 1e10.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from mpmath import mp

import axon
from tests.library.dist_laws import LAWS
from tests.library.library_case import TARGET
from tests.library.test_dist import INTEGERS, derivatives

# A number, then the parameters.
ROWS: dict[str, list[tuple[float, ...]]] = {
    "cauchy": [(1e300, 3, 1e-20), (-1e300, 0, 1e-300), (1e20, 1e20, 1e-20), (0, 0, 1e300)],
    "half_cauchy": [(1e300, 1e-20), (5e-324, 1e300)],
    "student_t": [(1e300, 3, 0, 1e-20), (-1e300, 0.5, 1, 1e-300), (1, 1e15, 0, 1)],
    "gamma": [(5e-324, 10, 1e-20), (1e-300, 170.5, 1e-20), (1e-310, 1e10, 1e-20), (1e10, 1e20, 1e10), (1e-300, 1e-10, 1e-20)],
    "inverse_gamma": [(1e300, 0.3, 1e-20), (1e300, 10, 1e-20), (1e300, 1e10, 1e-20), (1e-20, 1e20, 1), (1e300, 9.9, 1e-300)],
    "chi_squared": [(5e-324, 170.5), (1e-310, 1e5)],
    "weibull": [(1e300, 1e-5, 1e-20), (1e-310, 0.3, 1e20), (1e-310, 3, 1e20), (1e-300, 1e3, 1e20), (1e300, 1, 1e-20)],
    "kumaraswamy": [(1e-8, 1, 1e5), (1e-300, 1e-5, 3), (1 - 2**-53, 3, 1e5)],
    "truncated_normal": [
        (1.5, 0, 1e10, 1, 2),
        (0.5, 1e8, 1, 0, 1),
        (0, 1e8, 1, 0, 1),
        (1, -1e8, 1, 0, 1),
        (10000.0005, 0, 1, 1e4, 10000.001),
        (1e20, 0, 1e-20, 1e20, np.inf),
        (-1e20, 1e20, 1e30, -1e20, 1e20),
    ],
    "negative_binomial": [
        (10**10, 30, 1e-10),
        (10**10, 1e10, 0.3),
        (10**10, 1e5, 1e5),
        (10**10, 1e20, 12),
        (0, 1e10, 1e-300),
        (9, 1e20, 1e-300),
        (9, 1e-300, 1e20),
        (10**5, 1e-300, 1e-300),
    ],
    "beta_binomial": [
        (0, 10**10, 0.5, 1e5),
        (1, 10**10, 1e-10, 1),
        (10, 30, 1e10, 1),
        (15, 30, 1e10, 1e-10),
        (10**10 - 1, 10**10, 0.5, 1e5),
        (5 * 10**9, 10**10, 1e10, 1e10),
    ],
    "binomial": [(10**10 - 10, 10**10, 1 - 1e-9), (10**10, 10**10, 1 - 1e-10), (10, 10**10, 1e-9), (5 * 10**9, 10**10, 0.5)],
    "poisson": [(10**10, 1e10), (10**10, 1e-300), (10**15, 1e15)],
}


@cache
def module() -> axon.Module:
    lines = []
    for name in ROWS:
        law = LAWS[name]
        kinds = ["i64" if letter in INTEGERS else "f64" for letter in law.domain]
        each = " ".join(f"(p{k} : {kind}[n])" for k, kind in enumerate(kinds))
        call = f"(dist.{name} {' '.join(f'p{k}[i]' for k in range(len(kinds)))}).log_density x[i]"
        floats = ", ".join([*([] if law.discrete else ["x"]), *(f"p{k}" for k, kind in enumerate(kinds) if kind == "f64")])
        slopes = f"vjp (fn ({floats}) => for i => {call}) ({floats}) dy"
        lines.append(f"fun {name} (x : {'i64' if law.discrete else 'f64'}[n]) {each} (dy : f64[n]) = {slopes}\n")
    return axon.compile("import dist\n" + "".join(lines))


@pytest.mark.parametrize("name", ROWS)
def test_density(name: str) -> None:
    """To few rounding errors of what goes into it, and so its slopes, where they are numbers of their type."""
    law, rows = LAWS[name], ROWS[name]
    whole = [law.discrete, *(letter in INTEGERS for letter in law.domain)]
    kinds = [np.int64 if w else np.float64 for w in whole]
    columns = [np.array(column, kind) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]
    values, slopes = module()[name](*columns, np.ones(len(rows)), target=TARGET)
    slopes = slopes if isinstance(slopes, tuple) else (slopes,)
    near = 30 * float(np.finfo(float).eps)
    floats = [k for k, w in enumerate(whole) if not w]
    for i, row in enumerate(rows):
        with mp.workdps(60):
            exact: tuple[Any, ...] = tuple(mp.mpf(v) for v in row)
            wanted = law.log_density(*exact)
            moved = [k for k in floats if np.isfinite(row[k])]
            by = {k: derivatives(law, exact, k, wanted) for k in moved}
        if wanted < -np.finfo(float).max:
            assert values[i] == -np.inf, row
            continue
        largest = abs(wanted) + 1 + sum(abs(exact[k] * first) for k, (first, _) in by.items())
        bent = sum(abs(exact[k] ** 2 * second) for k, (_, second) in by.items())
        assert abs(values[i] - wanted) <= near * largest, (row, values[i], float(wanted))
        for k, slope in zip(floats, slopes, strict=True):
            assert not np.isnan(slope[i]), (row, k)
            if k in by and abs(by[k][0]) < 1e300:
                scale, first = abs(exact[k]) or 1, by[k][0]
                error = abs(slope[i] - first) * scale
                assert error <= near * (largest + bent + abs(first) * scale), (row, k, slope[i], float(first))
