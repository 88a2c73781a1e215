"""Train the classifier of digits.axon in plain NumPy and write its weights to weights.npz (about a minute of one core).

python examples/digits/train.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
from data import Digits, load
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float32]
Weights: TypeAlias = dict[str, Array]

WEIGHTS = Path(__file__).with_name("weights.npz")
EPOCHS = 60
BATCH = 64
RATE = 2e-3
DECAY = 1e-3  # of the weights, per step and unit of rate (AdamW)


def initial(rng: np.random.Generator) -> Weights:
    """Kaiming's initialization: normal, with variance 2 / fan in. The names are the paths in `model` of digits.axon."""

    def normal(*shape: int, fan_in: int) -> Array:
        return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)

    def zeros(n: int) -> Array:
        return np.zeros(n, np.float32)

    return {
        "conv1.k": normal(16, 1, 3, 3, fan_in=9), "conv1.b": zeros(16),
        "conv2.k": normal(32, 16, 3, 3, fan_in=144), "conv2.b": zeros(32),
        "hidden.w": normal(128, 64, fan_in=128), "hidden.b": zeros(64),
        "out.w": normal(64, 10, fan_in=64), "out.b": zeros(10),
    }  # fmt: skip


def convolution(x: Array, k: Array) -> tuple[Array, Array]:
    """The same-size 3 by 3 convolution of x[n, c, h, w] with k[o, c, 3, 3]; also the windows, for the gradient."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwrs,ocrs->nohw", windows, k, optimize=True), windows


def convolution_gradient(windows: Array, k: Array, dy: Array) -> tuple[Array, Array]:
    """The gradients of x and of k."""
    dk = np.einsum("nchwrs,nohw->ocrs", windows, dy, optimize=True)
    dx, _ = convolution(dy, k.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1])
    return dx, dk


def stage(x: Array, k: Array, b: Array) -> tuple[Array, tuple[Array, ...]]:
    """Convolution, bias, relu, and the largest of every two by two pixels."""
    y, windows = convolution(x, k)
    y = np.maximum(y + b[:, None, None], 0)
    n, o, h, w = y.shape
    squares = y.reshape(n, o, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, o, h // 2, w // 2, 4)
    return squares.max(-1), (windows, squares)


def stage_gradient(saved: tuple[Array, ...], k: Array, dy: Array) -> tuple[Array, Array, Array]:
    """The gradients of x, of k and of b."""
    windows, squares = saved
    n, o, h, w, _ = squares.shape
    first = np.arange(4) == squares.argmax(-1)[..., None]
    d = np.where(first & (squares > 0), dy[..., None], 0).astype(np.float32)
    d = d.reshape(n, o, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, o, 2 * h, 2 * w)
    dx, dk = convolution_gradient(windows, k, d)
    return dx, dk, d.sum((0, 2, 3))


def logits(p: Weights, images: Array) -> Array:
    """What digits.axon computes."""
    return forward(p, images)[0]


def forward(p: Weights, images: Array) -> tuple[Array, tuple[tuple[Array, ...], ...]]:
    x1, saved1 = stage(images[:, None], p["conv1.k"], p["conv1.b"])
    x2, saved2 = stage(x1, p["conv2.k"], p["conv2.b"])
    flat = x2.reshape(len(x2), -1)
    hidden = np.maximum(flat @ p["hidden.w"] + p["hidden.b"], 0)
    return hidden @ p["out.w"] + p["out.b"], (saved1, saved2, (flat, hidden), x2.shape)


def gradient(p: Weights, images: Array, labels: NDArray[np.int32]) -> tuple[float, Weights]:
    """The mean cross entropy of a batch, and its gradient."""
    z, (saved1, saved2, (flat, hidden), shape) = forward(p, images)
    z = z - z.max(1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    rows = np.arange(len(labels))
    dz = np.exp(log_p)
    dz[rows, labels] -= 1
    dz /= np.float32(len(labels))
    dh = (dz @ p["out.w"].T) * (hidden > 0)
    dx2 = (dh @ p["hidden.w"].T).reshape(shape)
    dx1, dk2, db2 = stage_gradient(saved2, p["conv2.k"], dx2)
    _, dk1, db1 = stage_gradient(saved1, p["conv1.k"], dx1)
    return -float(log_p[rows, labels].mean()), {
        "conv1.k": dk1, "conv1.b": db1, "conv2.k": dk2, "conv2.b": db2,
        "hidden.w": flat.T @ dh, "hidden.b": dh.sum(0), "out.w": hidden.T @ dz, "out.b": dz.sum(0),
    }  # fmt: skip


def shifted(images: Array, rng: np.random.Generator) -> Array:
    """Each image moved by up to one pixel in each direction: more to learn from than 1,347 images."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    return np.stack([image[i : i + 8, j : j + 8] for image, (i, j) in zip(padded, rng.choice(
        [(1, 1), (1, 1), (1, 1), (0, 1), (2, 1), (1, 0), (1, 2)], len(images)), strict=True)])  # fmt: skip


def train(data: Digits, seed: int = 0) -> Weights:
    """AdamW (Loshchilov & Hutter 2019) with a cosine schedule."""
    rng = np.random.default_rng(seed)
    p = initial(rng)
    mean = {name: np.zeros_like(w) for name, w in p.items()}
    square = {name: np.zeros_like(w) for name, w in p.items()}
    steps = EPOCHS * (len(data.labels) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(data.labels))
        total = 0.0
        for batch in np.split(order[: len(order) // BATCH * BATCH], len(order) // BATCH):
            step += 1
            loss, g = gradient(p, shifted(data.images[batch], rng), data.labels[batch])
            total += loss * BATCH
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name in p:
                mean[name] = 0.9 * mean[name] + 0.1 * g[name]
                square[name] = 0.999 * square[name] + 0.001 * g[name] ** 2
                update = (mean[name] / (1 - 0.9**step)) / (np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8)
                p[name] = (p[name] - rate * (update + DECAY * p[name])).astype(np.float32)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3}  loss {total / (len(order) // BATCH * BATCH):.4f}")
    return p


def main() -> None:
    data, held_out = load()
    weights = train(data)
    np.savez_compressed(WEIGHTS, **weights)
    for name, part in (("training", data), ("held-out", held_out)):
        print(f"{name} accuracy {(logits(weights, part.images).argmax(1) == part.labels).mean():.2%}")


if __name__ == "__main__":
    main()
