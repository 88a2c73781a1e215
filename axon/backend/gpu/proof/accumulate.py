"""How products are summed when a barrier program is simulated: rounded as NumPy does it, or cut off as tensor cores do.

A matrix instruction sums its products, which are exact, and the accumulator as fixed-point numbers: all are aligned to the greatest
of them, and of each what lies below the last bit that is kept is cut off, towards zero; so is what the sum has below an f32. Hopper
keeps two bits more than f32 has. (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer
Science 7, 2021; of Hopper Li et al., "FTTN: feature-targeted testing for numerical properties of NVIDIA & AMD matrix accelerators",
CCGrid 2024.)
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Array = Any  # numpy.ndarray
KEPT = 25  # bits behind the first of the greatest addend
OWN = 23  # of an f32


class Accumulate(Protocol):
    """(what was summed, or None; left, of rows × depth; right, of columns × depth; the depth of one instruction): sums in f32."""

    def __call__(self, total: Array | None, left: Array, right: Array, depth: int) -> Array: ...


def rounded(total: Array | None, left: Array, right: Array, depth: int) -> Array:
    """In whatever order NumPy has, each sum rounded."""
    made = left @ right.T
    return made if total is None else total + made


def cut_off(total: Array | None, left: Array, right: Array, depth: int) -> Array:
    """One instruction after the other."""
    held = np.zeros((len(left), len(right)), np.float32) if total is None else total
    for first in range(0, left.shape[1], depth):
        a, b = (factor[:, first : first + depth].astype(np.float64) for factor in (left, right))
        held = _instruction(held, a[:, None, :] * b[None, :, :])
    return held


@np.errstate(invalid="ignore", over="ignore")
def _instruction(total: Array, products: Array) -> Array:
    addends = np.concatenate([products, total.astype(np.float64)[..., None]], axis=-1)
    sums = addends.sum(axis=-1)
    finite = np.isfinite(sums)
    addends = np.where(finite[..., None], addends, 0)
    unit = _unit(abs(addends).max(axis=-1), KEPT)
    cut = np.trunc(addends / unit[..., None]).sum(axis=-1) * unit
    own = _unit(abs(cut), OWN)
    return np.where(finite, np.trunc(cut / own) * own, sums).astype(np.float32)


def _unit(greatest: Array, bits: int) -> Array:
    """What the last of so many bits behind the first of a number is worth; no less than the least f32."""
    return np.exp2(np.maximum(np.frexp(greatest)[1] - 1.0, -126) - bits)
