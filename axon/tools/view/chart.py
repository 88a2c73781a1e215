"""Charts as SVG that stand alone: lines and points over one axis, either axis by its logarithm where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

from axon.base.data import dataclass

WIDTH, HEIGHT = 720.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 108.0, 24.0, 56.0, 56.0
COLOURS = ("#2563a8", "#b45309", "#15803d", "#9d3b8a", "#0e7490", "#6d5bd0")
LETTER = 6.6

_STYLE = """
svg.chart{font:12px system-ui,sans-serif;background:#fff;color:#222}
.chart text{fill:currentColor}.chart .grid,.chart .axis{stroke:currentColor}.chart .grid{stroke-opacity:.14}
@media (prefers-color-scheme:dark){svg.chart{background:#16181c;color:#ddd}}
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis says, and where its marks stand; it reaches from the least to the greatest of marks and points."""

    title: str
    marks: tuple[tuple[float, str], ...]
    log: bool = False

    def scale(self, values: Iterable[float], start: float, end: float) -> Callable[[float], float]:
        """From a value to its place on the paper."""
        at = [self._at(v) for v in (*values, *(mark for mark, _ in self.marks))]
        low, high = min(at), max(at)
        if low == high:
            low, high = low - 0.5, high + 0.5
        return lambda value: start + (self._at(value) - low) / (high - low) * (end - start)

    def _at(self, value: float) -> float:
        return log10(value) if self.log else value


@dataclass(frozen=True, slots=True)
class Series:
    """Points in order; `joined` by a line, or each with a label of its own."""

    name: str
    points: tuple[tuple[float, float], ...]
    joined: bool = True
    labels: tuple[str, ...] = ()
    marked: bool = True  # whether points are drawn where a line joins them
    colour: int | None = None  # of COLOURS; else by its place among the series


def decades(values: Sequence[float], text: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    """Marks at powers of ten around positive values; where these are few, at 2 and 5 times those too."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    high = max(high, low + 1)
    steps = (1, 2, 5) if high - low <= 2 else (1,)
    marks = [step * 10.0**power for power in range(low, high + 1) for step in steps if step == 1 or power < high]
    first = max((m for m in marks if m <= min(values)), default=marks[0])
    last = min((m for m in marks if m >= max(values)), default=marks[-1])
    return tuple((mark, text(mark)) for mark in marks if first <= mark <= last)


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """The drawing as a document of its own."""
    across = x.scale([p[0] for s in series for p in s.points], LEFT, WIDTH - RIGHT)
    up = y.scale([p[1] for s in series for p in s.points], HEIGHT - BOTTOM, TOP)
    parts = [f'<text x="{LEFT:.0f}" y="20" font-weight="600">{escape(title)}</text>', *_legend(series), *_axes(x, y, across, up)]
    for i, one in enumerate(series):
        parts += _drawn(one, _colour(one, i), across, up)
    size = f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" width="{WIDTH:.0f}" height="{HEIGHT:.0f}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" {size}><style>{_STYLE}</style>\n{body}\n</svg>\n'


def _colour(series: Series, place: int) -> str:
    return COLOURS[(place if series.colour is None else series.colour) % len(COLOURS)]


def _legend(series: Sequence[Series]) -> list[str]:
    parts, at = [], LEFT
    for i, one in enumerate(series):
        if not one.name:
            continue
        colour = _colour(one, i)
        parts.append(f'<rect x="{at:.0f}" y="31" width="12" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{at + 18:.0f}" y="38">{escape(one.name)}</text>')
        at += 18 + LETTER * len(one.name) + 24
    return parts


def _axes(x: Axis, y: Axis, across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value, text in y.marks:
        parts.append(f'<line class="grid" x1="{LEFT:.1f}" x2="{right:.1f}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8:.1f}" y="{up(value) + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    last = -WIDTH
    for value, text in x.marks:
        place, half = across(value), LETTER * len(text) / 2
        parts.append(f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{TOP:.1f}" y2="{bottom:.1f}"/>')
        if place - half > last:  # labels that would lie on others are left out
            parts.append(f'<text x="{place:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{escape(text)}</text>')
            last = place + half + LETTER
    parts.append(f'<path class="axis" fill="none" d="M{LEFT:.1f} {TOP:.1f}V{bottom:.1f}H{right:.1f}"/>')
    parts.append(f'<text x="{(LEFT + right) / 2:.1f}" y="{HEIGHT - 14:.1f}" text-anchor="middle">{escape(x.title)}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<text transform="translate(16 {middle:.1f}) rotate(-90)" text-anchor="middle">{escape(y.title)}</text>')
    return parts


def _drawn(series: Series, colour: str, across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    places = [(across(x), up(y)) for x, y in series.points]
    parts = []
    if series.joined:
        parts += [
            f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" stroke="{colour}" stroke-width="2"/>'
            for (a, b), (c, d) in pairwise(places)
        ]
    for i, (a, b) in enumerate(places if series.marked else []):
        label = series.labels[i] if i < len(series.labels) else ""
        tip = f"<title>{escape(label)}</title>" if label else ""
        parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}">{tip}</circle>')
    return parts
