"""Classify the held-out digits with digits.axon and the trained weights, and print the accuracy.

python examples/digits/evaluate.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from data import load

import axon

HERE = Path(__file__).parent


def weights() -> dict[str, dict[str, Any]]:
    """The trained weights as the record that digits.axon takes."""
    record: dict[str, dict[str, Any]] = {}
    with np.load(HERE / "weights.npz", allow_pickle=False) as file:
        for path in file.files:
            layer, name = path.split(".")
            record.setdefault(layer, {})[name] = file[path]
    return record


def main() -> None:
    digits = axon.load(HERE / "digits.axon")
    _, held_out = load()
    predicted = digits.classify(weights(), held_out.images)
    right = int((predicted == held_out.labels).sum())
    print(f"{digits.logits.signature}")
    print(f"{right} of {len(held_out.labels)} held-out images are classified correctly: {right / len(held_out.labels):.2%}")


if __name__ == "__main__":
    main()
