"""The pictures of docs/gallery.md, computed by the programs beside this script.

python examples/gallery.py [--out FOLDER] [--small]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import axon

HERE = Path(__file__).parent
OUT = HERE.parent / "docs" / "gallery"
INK, PAPER, RED, BLUE = (40, 40, 50), (255, 255, 255), (214, 72, 60), (40, 100, 180)
# Points of matplotlib's colour map "viridis" (CC0), from dark to bright.
VIRIDIS = np.array(
    [
        [68, 1, 84],
        [71, 45, 123],
        [59, 82, 139],
        [44, 114, 142],
        [33, 145, 140],
        [40, 174, 128],
        [94, 201, 98],
        [173, 220, 48],
        [253, 231, 37],
    ],
    np.float32,
) / np.float32(255)

Array = np.ndarray[Any, np.dtype[Any]]
Picture = Image.Image


def load(name: str) -> axon.Module:
    return axon.load(HERE / f"{name}.axon")


def picture(x: Array) -> Picture:
    """Of light from 0 to 1: planes [3, h, w], pixels [h, w, 3], or grey [h, w]."""
    x = np.moveaxis(x, 0, -1) if x.ndim == 3 and x.shape[-1] != 3 else x
    return Image.fromarray((np.clip(x, 0, 1) * 255 + 0.5).astype(np.uint8)).convert("RGB")


def heat_map(x: Array, size: int = 1) -> Picture:
    """Of any numbers; each a square of `size` pixels."""
    gallery = load("gallery")
    found = picture(gallery.coloured(VIRIDIS, gallery.scaled(x.astype(np.float32))))
    return found.resize((found.width * size, found.height * size), Image.Resampling.NEAREST)


def sheet(pictures: Sequence[tuple[str, Picture]], columns: int) -> Picture:
    """Pictures of one size beside each other, each above its name."""
    width, height, gap, line = *pictures[0][1].size, 6, 14
    rows = -(-len(pictures) // columns)
    found = Image.new("RGB", (columns * (width + gap) - gap, rows * (height + line + gap) - gap), PAPER)
    for n, (name, each) in enumerate(pictures):
        x, y = n % columns * (width + gap), n // columns * (height + line + gap)
        found.paste(each, (x, y))
        ImageDraw.Draw(found).text((x + 1, y + height + 1), name, INK)
    return found


def filters(small: bool) -> Picture:
    m = load("filters")
    with Image.open(HERE / "pictures" / "chelsea.png") as file:
        photograph = file.convert("RGB").reduce(4 if small else 1)
    x = np.moveaxis(np.asarray(photograph, np.float32) / 255, -1, 0).copy()
    shown = [
        ("original", x), ("drawn", m.drawn(x)), ("posterized", m.posterized(4, x)),
        ("embossed", m.embossed(x)), ("pixelated", m.pixelated[8](x)), ("miniature", m.miniature(0.45, x)),
    ]  # fmt: skip
    return sheet([(name, picture(y)) for name, y in shown], 3)


def mandelbrot(small: bool) -> Picture:
    size = (40, 60) if small else (220, 330)
    steps = load("mandelbrot").mandelbrot[size](200, {"re": -0.7436, "im": 0.1319}, 0.014)
    return heat_map(np.log(steps))


def heat(small: bool) -> Picture:
    """A plate with a hot ring and a cold border."""
    n = 24 if small else 96
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    start = (np.abs(np.hypot(x, y) - 0.6) < 0.12).astype(np.float32)
    frames = [start, *load("heat").film[3](n * n // 100, 0.2, start)]
    return sheet([(f"after {k * (n * n // 100)} steps", heat_map(u)) for k, u in enumerate(frames)], 4)


def attention(small: bool) -> Picture:
    """What each position (a row) sees of the others (the columns)."""
    m, nn = (
        load("score_changes"),
        axon.compile("import nn\nfun plain q k v = nn.attention q k v\nfun causal q k v = nn.causal_attention q k v"),
    )
    rng, n = np.random.default_rng(1), 12 if small else 32
    q, k = (0.7 * rng.standard_normal((8, n, 16)).astype(np.float32) for _ in range(2))
    v = np.broadcast_to(np.eye(n, dtype=np.float32), (8, n, n))  # with these values, attention gives its weights
    bias = np.broadcast_to(-(np.linspace(-2, 2, 17, dtype=np.float32) ** 2), (8, 17))
    shown = [
        ("as it is", nn.plain(q, k, v)), ("causal", nn.causal(q, k, v)), ("sliding", m.gemma(n // 4, q, k, v)),
        ("documents", m.packed((np.arange(n) * 3 // n).astype(np.int32), q, k, v)), ("prefix", m.prefix_lm(n // 3, q, k, v)),
        ("ALiBi", m.bloom(q, k, v)), ("T5", m.t5(bias, q, k, v)), ("sparse", m.sparse(4, q, k, v)),
    ]  # fmt: skip
    return sheet([(name, heat_map(np.sqrt(weights[0]), 2 if small else 4)) for name, weights in shown], 4)


def kalman(small: bool) -> Picture:
    """Something that turns, seen where the dots are; grey is where it was, red is the estimate."""
    t, size = 40 if small else 120, 320
    rng = np.random.default_rng(7)
    turn = np.cumsum(rng.normal(0, 0.25, t))
    path = np.cumsum(np.stack([np.cos(turn), np.sin(turn)], 1), 0)
    seen = path + rng.normal(0, 1.5, path.shape)
    motion = np.block([[np.eye(2), np.eye(2)], [np.zeros((2, 2)), np.eye(2)]])  # places, and speeds
    model = {
        "motion": motion, "drift": np.diag([0.0, 0.0, 0.01, 0.01]),
        "view": np.eye(2, 4), "noise": 2.25 * np.eye(2),
    }  # fmt: skip
    estimates, _ = load("kalman").filtered(model, np.array([*seen[0], 0, 0]), 10 * np.eye(4), seen)
    low, high = seen.min(0) - 2, seen.max(0) + 2
    scale = (size - 1) / max(high - low)

    def places(points: Array) -> list[tuple[float, float]]:
        return [tuple(p) for p in ((points - low) * scale).tolist()]

    found = Image.new("RGB", tuple(int(s) + 1 for s in (high - low) * scale), PAPER)  # type: ignore[arg-type]
    draw = ImageDraw.Draw(found)
    draw.line(places(path), (190, 190, 190), 3)
    for x, y in places(seen):
        draw.ellipse((x - 1.5, y - 1.5, x + 1.5, y + 1.5), BLUE)
    draw.line(places(estimates[:, :2]), RED, 2)
    return found


def page_rank(small: bool) -> Picture:
    """Pages in a circle, the larger the more often one is there."""
    n, size = 7 if small else 14, 300
    rng = np.random.default_rng(5)
    links = rng.random((n, n)) < np.linspace(0.5, 0.05, n)[None]  # the first pages are popular
    np.fill_diagonal(links, False)
    ranks = load("pagerank").page_rank(100, 0.85, links)
    turn = 2 * np.pi * np.arange(n) / n
    middles = size / 2 + 0.36 * size * np.stack([np.sin(turn), -np.cos(turn)], 1)
    found = Image.new("RGB", (size, size), PAPER)
    draw = ImageDraw.Draw(found)
    for i, j in np.argwhere(links):
        draw.line([tuple(middles[i]), tuple(middles[j])], (205, 210, 220), 1)
    for (x, y), rank in zip(middles, ranks, strict=True):
        r = 38 * np.sqrt(rank)
        draw.ellipse((x - r, y - r, x + r, y + r), BLUE, INK)
        away = np.array([x - size / 2, y - size / 2])
        draw.text(tuple(size / 2 + away * (1 + (r + 12) / np.hypot(*away))), f"{rank:.0%}", INK, anchor="mm")
    return found


def fourier(small: bool) -> Picture:
    """A tone that rises, one that falls, and one that sounds twice; time goes to the right, pitch upwards."""
    n, window = (600, 64) if small else (4000, 128)
    t = np.linspace(0, 1, n)
    sound = np.sin(0.08 * n * t + 0.6 * n * t**2) + 0.7 * np.sin(1.9 * n * t - 0.5 * n * t**2)
    sound += np.sin(0.9 * n * t) * (np.abs((2 * t) % 1 - 0.5) < 0.15)
    power = load("fourier").spectrogram[window, n // 300](sound.astype(np.float32))
    return heat_map(np.log1p(power.T[::-1]), 1 if small else 2)


def neighbours(small: bool) -> Picture:
    """Points of three kinds on spirals, and what each place would be."""
    size, each = (60, 20) if small else (260, 60)
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(3, dtype=np.int32), each)
    r = np.tile(np.linspace(0.1, 1, each), 3)
    turn = 2 * np.pi * labels / 3 + 3 * r + rng.normal(0, 0.2, 3 * each)
    points = (np.stack([r * np.cos(turn), r * np.sin(turn)], 1)).astype(np.float32)
    grid = np.stack(np.meshgrid(*[np.linspace(-1.15, 1.15, size, dtype=np.float32)] * 2), -1).reshape(-1, 2)
    found = load("neighbours").classified[5, 3](points, labels, grid).reshape(size, size)
    colours = np.array([[0.98, 0.82, 0.78], [0.79, 0.86, 0.97], [0.83, 0.93, 0.80]])
    result = picture(colours[found])
    draw = ImageDraw.Draw(result)
    for (x, y), label in zip((points + 1.15) / 2.3 * (size - 1), labels, strict=True):
        draw.ellipse((x - 2, y - 2, x + 2, y + 2), [RED, BLUE, (60, 140, 50)][label])
    return result


PICTURES: dict[str, Callable[[bool], Picture]] = {
    "filters": filters, "mandelbrot": mandelbrot, "heat": heat, "attention": attention, "kalman": kalman,
    "pagerank": page_rank, "fourier": fourier, "neighbours": neighbours,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, default=OUT, help="the folder to write to")
    parser.add_argument("--small", action="store_true", help="small pictures, in less time")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, make in PICTURES.items():
        found = make(given.small)
        found.quantize(160, dither=Image.Dither.NONE).save(given.out / f"{name}.png", optimize=True)
        print(f"{given.out / name}.png: {found.width} by {found.height}")


if __name__ == "__main__":
    main()
