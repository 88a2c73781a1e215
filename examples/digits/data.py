"""The handwritten digits that scikit-learn ships (1,797 images of 8 by 8, from UCI), split once and for all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

HELD_OUT = 450


class Digits(NamedTuple):
    images: NDArray[np.float32]  # [n, 8, 8], ink from 0 to 1
    labels: NDArray[np.int32]  # [n], the digit


def load() -> tuple[Digits, Digits]:
    """The images to train on and the held-out ones, which training never sees."""
    bunch = load_digits()
    images = (bunch.images / 16).astype(np.float32)
    labels = bunch.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[HELD_OUT:], order[:HELD_OUT]
    return Digits(images[train], labels[train]), Digits(images[test], labels[test])
