"""Train the classifier of train.axon on the digits that scikit-learn ships, with a progress bar, and plot its loss.

python examples/train_digits/train.py [EPOCHS] [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.progress import Progress

import axon

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "digits"))
from data import Digits, load  # noqa: E402

BATCH = 64
RATE = 2e-3
DECAY = 1e-3  # of the weights, per step and unit of rate
SHIFTS = np.array([(0, 0)] * 3 + [(0, 1), (0, -1), (1, 0), (-1, 0)], np.int32)  # of images, down and to the right


def initial(rng: np.random.Generator) -> dict[str, Any]:
    """Kaiming's initialization: normal, with variance 2 / fan in."""

    def layer(name: str, fan_in: int, *shape: int) -> dict[str, Any]:
        width = shape[0] if name == "k" else shape[1]
        return {name: rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32), "b": np.zeros(width, np.float32)}

    return {
        "conv1": layer("k", 9, 16, 1, 3, 3),
        "conv2": layer("k", 144, 32, 16, 3, 3),
        "hidden": layer("w", 128, 128, 64),
        "out": layer("w", 64, 64, 10),
    }


def train(data: Digits, epochs: int, seed: int = 0) -> tuple[dict[str, Any], list[float]]:
    """The weights after so many epochs, and the loss of every step; the rate follows a cosine."""
    m, rng = axon.load(HERE / "train.axon"), np.random.default_rng(seed)
    state = m.start(initial(rng))
    batches = len(data.labels) // BATCH
    losses: list[float] = []
    with Progress() as progress:
        task = progress.add_task("training", total=epochs * batches)
        for _ in range(epochs):
            order = rng.permutation(len(data.labels))[: batches * BATCH]
            for batch in np.split(order, batches):
                images = m.shifted(data.images[batch], rng.choice(SHIFTS, BATCH))
                loss, state = m.step(RATE, DECAY, epochs * batches, len(losses) + 1, state, images, data.labels[batch])
                losses.append(float(loss))
                progress.update(task, advance=1, description=f"loss {np.mean(losses[-batches:]):.4f}")
    return state["weights"], losses


def plotted(losses: list[float], width: int = 640, height: int = 240) -> str:
    """The loss over the steps, on a logarithmic scale, as SVG: the mean of every 1/100 of them."""
    part = max(1, len(losses) // 100)
    y = np.log10([np.mean(losses[i : i + part]) for i in range(0, len(losses), part)])
    low, high = np.floor(y.min()), np.ceil(y.max())
    x = np.linspace(40, width - 10, len(y))
    points = " ".join(f"{a:.1f},{10 + (high - b) / (high - low) * (height - 40):.1f}" for a, b in zip(x, y, strict=True))
    marks = [
        f'<text x="4" y="{14 + (high - e) / (high - low) * (height - 40):.0f}">1e{e:.0f}</text>' for e in np.arange(low, high + 1)
    ]
    line = f'<polyline points="{points}" fill="none" stroke="#2563eb" stroke-width="1.5"/>'
    label = f'<text x="{width // 2 - 30}" y="{height - 6}">{len(losses):,} steps</text>'
    style = "<style>text { font: 11px sans-serif; fill: #555 }</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">{style}{"".join(marks)}{line}{label}</svg>\n'


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("epochs", nargs="?", type=int, default=60)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    data, held_out = load()
    began = perf_counter()
    weights, losses = train(data, options.epochs)
    m = axon.load(HERE / "train.axon")
    print(f"{options.epochs} epochs in {perf_counter() - began:.0f} s")
    for name, part in (("training", data), ("held-out", held_out)):
        print(f"{name} accuracy {m.accuracy(weights, part.images, part.labels):.2%}")
    if options.plot:
        options.plot.write_text(plotted(losses), encoding="utf-8")
        print(f"the loss is drawn in {options.plot}")


if __name__ == "__main__":
    main()
