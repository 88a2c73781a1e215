"""Digits of 4 by 4 points by a small neural network, learned from 300 of them: by the weights that fit best, and by many draws of
weights. How often each is right of 450 others, and how sure it is, as a table and as a plot.

python examples/chance/network.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from shown import reliability, save

import axon

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "digits"))
from data import load  # noqa: E402

KNOWN = 300
BEST: dict[str, Any] = {"method": "map", "chains": 2, "key": 1}
DRAWN: dict[str, Any] = {"method": "hmc", "length": 0.5, "chains": 2, "warmup": 150, "draws": 100, "key": 1}
NAMES = ("into", "shift", "out", "usual")


def digits() -> tuple[Any, Any, Any, Any]:
    """Images, each point the mean of four, and labels, of those to learn from and of the others."""
    train, test = load()
    x, others = (images.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16) for images in (train.images[:KNOWN], test.images))
    return x, train.labels[:KNOWN], others, test.labels


def weights(x: Any, y: Any, **settings: Any) -> list[dict[str, Any]]:
    """Draws of the weights."""
    with warnings.catch_warnings():  # units may change places: chains need not agree about weights, but about digits
        warnings.filterwarnings("ignore", ".*chains have not mixed", RuntimeWarning)
        found = axon.infer(axon.load(HERE / "network.axon").network, {"x": x, "y": y}, **settings).posterior
    columns = {name: found[name].to_numpy().reshape(-1, *found[name].shape[2:]).astype(np.float32) for name in NAMES}
    return [{name: columns[name][n] for name in NAMES} for n in range(len(columns["usual"]))]


def chances(draws: list[dict[str, Any]], x: Any, target: str | None = None) -> Any:
    """The chance of each class, [images, 10]: the mean over draws."""
    value = axon.load(HERE / "network.axon").network.value
    total = np.zeros((len(x), 10))
    for draw in draws:
        score = np.asarray(value(x, np.zeros(len(x), np.int32), draw, target=target), np.float64)
        share = np.exp(score - score.max(1, keepdims=True))
        total += share / share.sum(1, keepdims=True)
    return total / len(draws)


def judged(chance: Any, y: Any) -> tuple[float, float, float]:
    """How often the likeliest class is right, the mean of -log of the chance of the right one, and how far off chances are."""
    right = chance.argmax(1) == y
    return float(right.mean()), float(-np.log(chance[np.arange(len(y)), y]).mean()), off(chance, y)


def off(chance: Any, y: Any) -> float:
    """The mean distance between how sure and how often right, over ten bins of how sure (expected calibration error)."""
    sure, right = chance.max(1), chance.argmax(1) == y
    bins = np.minimum((sure * 10).astype(int), 9)
    return float(sum(abs(np.sum(right[bins == b]) - np.sum(sure[bins == b])) for b in range(10)) / len(y))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    x, y, others, labels = digits()
    best, drawn = (chances(weights(x, y, **how), others) for how in (BEST, DRAWN))
    print("          right  -log chance  calibration error")
    for name, chance in (("best fit", best), ("drawn", drawn)):
        right, surprise, error = judged(chance, labels)
        print(f"{name:8}  {right:5.1%}  {surprise:11.3f}  {error:17.3f}")
    save(options.plot, reliability({"best fit": best, "drawn": drawn}, labels))


if __name__ == "__main__":
    main()
