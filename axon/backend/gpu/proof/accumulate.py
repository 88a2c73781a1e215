"""How products are summed when a barrier program is simulated: rounded as NumPy does it, or cut off as tensor cores do.

A matrix instruction sums its products, which are exact, and the accumulator as fixed-point numbers: all are aligned to the greatest
of them, and of each what lies below the last bit that is kept is cut off, towards zero; so is what the sum has below an f32. Hopper
keeps two bits more than f32 has, and of 8-bit floats 13 behind the first, also of what it leaves in registers. (Fasi, Higham,
Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7, 2021; of Hopper Li et al., "FTTN:
feature-targeted testing for numerical properties of NVIDIA & AMD matrix accelerators", CCGrid 2024.)
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

Array = Any  # numpy.ndarray
KEPT = 25  # bits behind the first of the greatest addend
OWN = 23  # of an f32


class Accumulate(Protocol):
    """(what was summed, or None; left, of rows × depth; right, of columns × depth; the depth of one instruction): sums in f32, of
    which so many bits are kept while they are made, and so many of their own (see `layout.products`)."""

    def __call__(self, total: Array | None, left: Array, right: Array, depth: int, kept: int = KEPT, own: int = OWN) -> Array: ...


def rounded(total: Array | None, left: Array, right: Array, depth: int, kept: int = KEPT, own: int = OWN) -> Array:
    """In whatever order NumPy has, each sum rounded."""
    made = left @ right.T
    return made if total is None else total + made


def wrapped(total: Array | None, left: Array, right: Array, depth: int) -> Array:
    """The same of integers of 8 bits: in i32, exact, wrapped around. Raises `ValueError` for what no copy has brought."""
    if np.isnan(left).any() or np.isnan(right).any():
        raise ValueError("a product of what no copy has brought")
    made = left.astype(np.int64) @ right.astype(np.int64).T
    return (made if total is None else total + made).astype(np.int32)


def cut_off(total: Array | None, left: Array, right: Array, depth: int, kept: int = KEPT, own: int = OWN) -> Array:
    """One instruction after the other."""
    held = np.zeros((len(left), len(right)), np.float32) if total is None else total
    for first in range(0, left.shape[1], depth):
        a, b = (factor[:, first : first + depth].astype(np.float64) for factor in (left, right))
        held = _instruction(held, a[:, None, :] * b[None, :, :], kept, own)
    return held


@np.errstate(invalid="ignore", over="ignore")
def _instruction(total: Array, products: Array, kept: int, own: int) -> Array:
    addends = np.concatenate([products, total.astype(np.float64)[..., None]], axis=-1)
    sums = addends.sum(axis=-1)
    finite = np.isfinite(sums)
    addends = np.where(finite[..., None], addends, 0)
    unit = _unit(abs(addends).max(axis=-1), kept)
    cut = np.trunc(addends / unit[..., None]).sum(axis=-1) * unit
    last = _unit(abs(cut), own)
    return np.where(finite, np.trunc(cut / last) * last, sums).astype(np.float32)


def _unit(greatest: Array, bits: int) -> Array:
    """What the last of so many bits behind the first of a number is worth; no less than the least f32."""
    return np.exp2(np.maximum(np.frexp(greatest)[1] - 1.0, -126) - bits)
