"""`hmm` against sums over all paths, which `test_summed.py` takes draws of as well."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import logsumexp

from tests.library.library_case import Array, Comparison, Drawn, case, of


def chain(d: Drawn) -> Array:
    """The steps of a chain, from the first of which it makes no difference where it goes."""
    t, k = d.size(), d.size(1, 3)
    steps = d.real(t, k, k, scale=2.0)
    steps[:1] = steps[:1, :1]
    return steps


def summed(steps: Array, last: int | None = None) -> float:
    """Over all paths, or those that end in a state."""
    paths = [p for p in product(range(steps.shape[1]), repeat=len(steps)) if last is None or p[-1] == last]
    weights = [sum(float(steps[s, (0, *p)[s], j]) for s, j in enumerate(p)) for p in paths]
    return float(logsumexp(weights))


@case("hmm.forward")
def _(d: Drawn) -> Comparison:
    steps = chain(d)
    return of(steps, wanted=summed(steps))


@case("hmm.filtered")
def _(d: Drawn) -> Comparison:
    steps = chain(d)
    t, k, _ = steps.shape
    return of(steps, wanted=np.array([[summed(steps[: s + 1], j) for j in range(k)] for s in range(t)], d.element).reshape(t, k))


@case("hmm.path")
def _(d: Drawn) -> Comparison:
    """Where each state has one that comes after it, there is one path."""
    t, k = d.size(), d.size(1, 3)
    after, first = d.rng.integers(0, k, (t, k)), d.size(0, k - 1)
    steps = np.where(np.arange(k) == after[..., None], d.real(t, k, 1), -np.inf).astype(d.element)
    steps[:1] = np.where(np.arange(k) == first, 0.5, -np.inf)
    path = [first]
    for s in range(1, t):
        path.append(int(after[s, path[-1]]))
    return of(steps, d.rng.integers(0, 2**32, 2, np.uint32), wanted=np.array(path[:t], np.int32))
