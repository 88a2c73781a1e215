"""What the examples of this folder draw, as SVG: intervals, curves and bands over years, how sure and how often right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

STYLE = "<style>text { font: 11px sans-serif; fill: #555 }</style>"
BLUE, GREY = "#2563eb", "#9ca3af"


def intervals(names: Sequence[str], draws: Any, points: Any, width: int = 640) -> str:
    """For each name its draws, [draws, names]: their mean, on a line from their 5% to their 95%; and a point, in grey."""
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    least, most = min(low.min(), np.min(points)), max(high.max(), np.max(points))

    def x(value: float) -> float:
        return 110 + (value - least) / (most - least) * (width - 130)

    marks = []
    for row, name in enumerate(names):
        y = 14 + 16 * row
        marks.append(f'<text x="4" y="{y + 4}">{name}</text>')
        marks.append(f'<path d="M{x(low[row]):.1f} {y}H{x(high[row]):.1f}" stroke="{BLUE}" stroke-width="1.5"/>')
        marks.append(f'<circle cx="{x(draws[:, row].mean()):.1f}" cy="{y}" r="3.5" fill="{BLUE}"/>')
        marks.append(f'<circle cx="{x(points[row]):.1f}" cy="{y}" r="3" fill="{GREY}"/>')
    ends = f'<text x="104" y="{18 + 16 * len(names)}">{least:.3g}</text>'
    ends += f'<text x="{width - 40}" y="{18 + 16 * len(names)}">{most:.3g}</text>'
    return _picture("".join(marks) + ends, width, 24 + 16 * len(names))


def over_years(years: Any, points: Any, curve: Any, width: int = 640, height: int = 240) -> str:
    """Points in grey, between their least and most; and a curve from 0 to 1 over them."""
    x = np.linspace(40, width - 10, len(years))
    share = (points - np.min(points)) / (np.max(points) - np.min(points))

    def places(shares: Any) -> list[tuple[float, float]]:
        return [(a, height - 30 - b * (height - 40)) for a, b in zip(x, shares, strict=True)]

    dots = [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="{GREY}"/>' for a, b in places(share)]
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in places(curve))
    marks = "".join(dots) + f'<polyline points="{line}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>'
    ends = f'<text x="40" y="{height - 8}">{years[0]}</text><text x="{width - 40}" y="{height - 8}">{years[-1]}</text>'
    return _picture(marks + ends, width, height)


def bands(years: Any, points: Any, known: Any, draws: Any, width: int = 640, height: int = 280) -> str:
    """Draws, [draws, years], as a band from their 5% to their 95% and a line in the middle; points, in grey those not known."""
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
    least, most = min(low.min(), np.min(points)), max(high.max(), np.max(points))
    x = np.linspace(40, width - 10, len(years))

    def line(values: Any) -> list[str]:
        return [f"{a:.1f},{height - 30 - (b - least) / (most - least) * (height - 40):.1f}" for a, b in zip(x, values, strict=True)]

    marks = f'<polygon points="{" ".join([*line(low), *line(high)[::-1]])}" fill="{BLUE}" opacity="0.2"/>'
    marks += f'<polyline points="{" ".join(line(middle))}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>'
    for place, is_known in zip(line(points), known, strict=True):
        a, b = place.split(",")
        marks += f'<circle cx="{a}" cy="{b}" r="2" fill="{"#111827" if is_known else GREY}"/>'
    ends = f'<text x="40" y="{height - 8}">{years[0]}</text><text x="{width - 40}" y="{height - 8}">{years[-1]}</text>'
    return _picture(marks + ends, width, height)


def reliability(chances: Mapping[str, Any], labels: Any, size: int = 280) -> str:
    """For each name its chances, [images, classes]: how often the likeliest class is right, over how sure it is, in ten bins."""

    def at(share: float) -> float:
        return 30 + share * (size - 40)

    marks = [f'<path d="M{at(0)} {size - at(0)}L{at(1)} {size - at(1)}" stroke="{GREY}" stroke-dasharray="4 3"/>']
    for (name, chance), colour, row in zip(chances.items(), (GREY, BLUE), range(2), strict=True):
        sure, right = chance.max(1), chance.argmax(1) == labels
        bins = np.minimum((sure * 10).astype(int), 9)
        found = [(sure[bins == b].mean(), right[bins == b].mean(), np.sum(bins == b)) for b in range(10) if np.any(bins == b)]
        line = " ".join(f"{at(a):.1f},{size - at(b):.1f}" for a, b, _ in found)
        marks.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for a, b, n in found:
            radius = 1.5 + n**0.5 / 4
            marks.append(f'<circle cx="{at(a):.1f}" cy="{size - at(b):.1f}" r="{radius:.1f}" fill="{colour}"/>')
        marks.append(f'<text x="36" y="{34 + 16 * row}" style="fill: {colour}">{name}</text>')
    ends = f'<text x="{size / 2 - 20}" y="{size - 8}">how sure</text><text x="4" y="14">how often right</text>'
    return _picture("".join(marks) + ends, size, size)


def _picture(marks: str, width: int, height: int) -> str:
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">{STYLE}{marks}</svg>\n'


def save(path: Path | None, text: str) -> None:
    if path:
        path.write_text(text, encoding="utf-8")
        print(f"drawn in {path}")
