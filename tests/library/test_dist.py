"""Distributions of the library have the densities, slopes and numbers that their definitions say.

Keys are fixed, so that nothing here is left to chance. AXON_SOAK=1 looks at every point, and draws more.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

import axon
from axon import compiler
from tests.library.dist_laws import LAWS, WRONG, Law
from tests.library.library_case import TARGET, Array
from tests.sample import SOAK

QUANTILES = (1e-12, 1e-3, 0.1, 0.5, 0.9)
DRAWS = 200_000 if SOAK else 4_000
LEAST = 1e-3 / 2 / len(LAWS)  # Bonferroni
INTEGERS = "ij"


def some(test: str) -> list[str]:
    """A quarter of the distributions, another one for each test; in the soak all. Elsewhere each is held to SciPy too."""
    return [name for name in LAWS if SOAK or crc32(f"{test} {name}".encode()) % 4 == 0]


@cache
def module(name: str) -> axon.Module:
    """What a distribution says, as functions of numbers and of as many parameters."""
    law = LAWS[name]
    kinds = {f"p{k}": "i32" if letter in INTEGERS else "'a" for k, letter in enumerate(law.domain)}
    each = " ".join(f"({p} : {kind}[n])" for p, kind in kinds.items())
    one = " ".join(f"({p} : {kind})" for p, kind in kinds.items())
    number = "i32" if law.discrete else "'a"
    moved = ", ".join([*([] if law.discrete else ["x"]), *(p for p, kind in kinds.items() if kind == "'a")])
    at_i = f"(dist.{name} {' '.join(f'{p}[i]' for p in kinds)})"
    call = f"(dist.{name} {' '.join(kinds)})"
    values = f"for i => {at_i}.log_density x[i]"
    slopes = f"vjp (fn ({moved}) => {values}) ({moved}) dy" if moved else f"({values} + 0.0 * dy[i], ())"
    transformed = f"""
fun transformed (u : 'a[n]) {one} =
  let val d = {call}
      val x = for i => d.support.constrain u[i]
  in (x, for i => d.support.unconstrain x[i], for i => d.support.log_jacobian u[i],
      for i => grad d.support.constrain u[i], for i => d.log_density x[i], for i => d.support.contains x[i]) end
"""
    return axon.compile(f"""
import dist
fun density (x : {number}[n]) {each} (dy : 'a[n]) = {slopes}
fun inside (x : {number}[n]) {one} = for i => {call}.support.contains x[i]
fun drawn {{n}} (key : u32[2]) {one} = for i < n => {call}.sample key i
{"" if law.discrete else transformed}""")


def points(law: Law, parameters: tuple[float, ...]) -> list[float]:
    """Quantiles, and what else the law names, as far as it may be."""
    family = law.scipy(*parameters)
    found = [*law.edges, *(float(family.ppf(q)) for q in QUANTILES), float(family.isf(1e-9))]
    low, high = law.support(*parameters)
    return [x for x in found if low <= x <= high]


def typed(law: Law, element: type, row: tuple[float, ...]) -> tuple[Any, ...]:
    """A number and parameters as they are in a program."""
    kinds = [law.discrete, *(letter in INTEGERS for letter in law.domain)]
    return tuple(np.int32(v) if whole else element(v) for v, whole in zip(row, kinds, strict=True))


def rows(law: Law, element: type) -> list[tuple[Any, ...]]:
    """Points with the parameters of each, as they are in an element type, where the density is finite."""
    table = [typed(law, element, (x, *p)) for p in law.parameters for x in points(law, p)]
    found = [row for row in table if law.discrete or row[0] == 0 or _is_inside(law, row, np.finfo(element))]
    return found if SOAK else found[len(law.name) % 2 :: 2]


def _is_inside(law: Law, row: tuple[Any, ...], limits: Any) -> bool:
    """Whether a number is one that its type holds with all its digits, and none that was rounded to a bound."""
    low, high = law.support(*row[1:])
    return bool(abs(row[0]) >= limits.tiny and low < row[0] < high and (row[0] <= 1 - limits.eps or high > 1))


def derivatives(law: Law, row: tuple[Any, ...], k: int, middle: Any) -> tuple[Any, Any]:
    """The first and the second by one number of a row, by differences in many digits."""
    h = mp.mpf(10) ** -20 * (abs(row[k]) or 1)
    after, before = (law.log_density(*row[:k], row[k] + d, *row[k + 1 :]) for d in (h, -h))
    return (after - before) / (2 * h), (after - 2 * middle + before) / (h * h)


@pytest.mark.parametrize(
    ("name", "element"), [(name, element) for element in (np.float64, np.float32) for name in some(element.__name__)]
)
def test_density(name: str, element: type) -> None:
    """To few rounding errors of what goes into it, in tails and at edges too, and so its derivatives."""
    law = LAWS[name]
    table = rows(law, element)
    columns = [np.array(column) for column in zip(*table, strict=True)]
    values, got = module(name).density(*columns, np.ones(len(table), element), target=TARGET)
    got = got if isinstance(got, tuple) else (got,)
    floats = [k for k, v in enumerate(table[0]) if not isinstance(v, np.int32)]
    near = 30 * float(np.finfo(element).eps)
    for i, row in enumerate(table):
        with mp.workdps(60):
            exact = tuple(mp.mpf(float(v)) for v in row)
            wanted = law.log_density(*exact)
            moved = [k for k in floats if np.isfinite(row[k]) and (k or exact[0])]
            by = {k: derivatives(law, exact, k, wanted) for k in moved}
        largest = abs(wanted) + 1 + sum(abs(exact[k] * first) for k, (first, _) in by.items())
        bent = sum(abs(exact[k] ** 2 * second) for k, (_, second) in by.items())
        if abs(wanted) > np.finfo(element).max:
            assert values[i] == -np.inf
            continue
        assert abs(values[i] - wanted) <= near * largest, (row, values[i], float(wanted))
        for k, slope in zip(floats, got, strict=True):
            assert np.isfinite(slope[i]), (row, k)
            if k in by:
                scale, first = abs(exact[k]) or 1, by[k][0]
                assert abs(slope[i] - first) * scale <= near * (largest + bent + abs(first) * scale), (row, k, slope[i], first)


def densities(law: Law, x: Any, parameters: tuple[float, ...]) -> tuple[Array, Array]:
    """The logarithms of densities at numbers, and which of them are inside."""
    table = [typed(law, np.float64, (v, *parameters)) for v in x]
    columns = [np.array(column) for column in zip(*table, strict=True)]
    found, _ = module(law.name).density(*columns, np.ones(len(table)), target=TARGET)
    return found, module(law.name).inside(columns[0], *table[0][1:], target=TARGET)


@pytest.mark.parametrize("name", some("where"))
def test_where_it_cannot_be(name: str) -> None:
    """The density is 0 there."""
    law, parameters = LAWS[name], LAWS[name].parameters[0]
    low, high = law.support(*parameters)
    infinite = [] if law.discrete else [-np.inf, np.inf]
    found, inside = densities(law, [e for e in (low - 1, high + 1) if np.isfinite(e)] + infinite, parameters)
    assert (found == -np.inf).all()
    assert not inside.any()
    found, inside = densities(law, points(law, parameters), parameters)
    assert (found > -np.inf).all()
    assert inside.all()


@pytest.mark.parametrize("name", some("parameters"))
def test_parameters_that_cannot_be(name: str) -> None:
    """They make NaN of the density, wherever it is asked."""
    law, parameters = LAWS[name], LAWS[name].parameters[0]
    middle = law.scipy(*parameters).ppf(0.5)
    for k, kind in enumerate(law.domain):
        for wrong in WRONG[kind]:
            given = (*parameters[:k], wrong, *parameters[k + 1 :])
            found, _ = densities(law, [middle], given)
            assert np.isnan(found).all(), given


@pytest.mark.parametrize("name", some("numbers"))
def test_numbers(name: str) -> None:
    """Draws have the distribution: Kolmogorov and Smirnov's test, or the chi-square test."""
    law = LAWS[name]
    for k, parameters in enumerate(law.parameters[:2]):
        given = typed(law, np.float32, (0, *parameters))[1:]
        x = module(name).drawn[DRAWS](np.array([k, 1701], np.uint32), *given, target=TARGET)
        family = law.scipy(*(p.item() for p in given))
        assert agree(x, family, law.discrete) > LEAST


def agree(x: Array, family: Any, discrete: bool) -> float:
    if not discrete:
        return float(stats.kstest(x.astype(np.float64), family.cdf).pvalue)
    values, counted = np.unique(x, return_counts=True)
    wanted = len(x) * family.pmf(values)
    assert (wanted > 0).all()  # nothing was drawn that cannot be
    often = wanted >= 10
    counts, means = counted[often], wanted[often]
    rest = len(x) - means.sum()
    if rest >= 10:
        counts, means = np.append(counts, counted[~often].sum()), np.append(means, rest)
    return float(stats.chisquare(counts, means * counts.sum() / means.sum()).pvalue)


@pytest.mark.parametrize("name", [name for name in some("bounds") if not LAWS[name].discrete])
def test_without_bounds(name: str) -> None:
    """Of numbers without bounds the density is 1 in all, however far out it is asked; they come back from what they become."""
    law = LAWS[name]
    parameters = list(map(np.float64, law.parameters[0]))
    t = np.linspace(-30, 30, 3001)
    _, _, jacobian, _, density, _ = module(name).transformed(np.sinh(t), *parameters, target=TARGET)
    whole = np.exp(density + jacobian + np.log(np.cosh(t))).sum() * 0.02
    assert whole == pytest.approx(1, abs=1e-4)  # so exact where the density has kinks
    u = np.linspace(-12, 12, 25)
    _, back, jacobian, slope, _, inside = module(name).transformed(u, *parameters, target=TARGET)
    np.testing.assert_allclose(back, u, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.exp(jacobian), abs(slope), rtol=1e-11)
    assert inside.all()
    far = np.array([-80, -20, 20, 80], np.float32)
    _, _, jacobian, _, density, inside = module(name).transformed(far, *map(np.float32, parameters), target=TARGET)
    assert inside.all()
    assert np.isfinite(jacobian).all()
    assert not np.isnan(density).any()


COUNTS = (
    "binomial 3 p", "binomial_logit 3 p", "poisson p", "poisson_log p", "geometric p", "negative_binomial p p",
    "beta_binomial 4 p p", "hypergeometric 5 3 2", "categorical [| p, p |]", "categorical_logit [| p, p |]", "discrete_uniform 0 3",
    "ordered_logistic p [| p, p |]", "zero_inflated_poisson p p",
)  # fmt: skip


def test_counts_are_integers() -> None:
    """1.5 is no count, so that a density of floats would be a wrong one. Bernoulli's numbers are 0 and 1 of any type."""
    for law in COUNTS:
        text = f"import dist\nfun f (p : f64) (x : f64) : f64 = (dist.{law}).log_density x\n"
        assert [d.code for d in compiler.check_text(text).diagnostics] == ["AX0202"], law
        assert compiler.check_text(text.replace("(x : f64)", "(x : i32)")).ok, law
