"""Drawings as SVG: the graph of a function, and roles over time."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from axon.base.data import dataclass
from axon.core.ir import Value
from axon.shapes.dimension import Dim
from axon.tools.view.graph import Card, Graph, KernelCards
from axon.tools.view.layout import HEADER, PAD, Box, Point, place

if TYPE_CHECKING:
    from axon.backend.gpu.report.timeline import Timeline

LETTER, TITLE = 6.65, 7.3  # widths of a letter in text and in titles
LINE = 15.0
WRAP = 46
MAX_LINES = 6
_FIRM = "\0"  # a space at which no line ends
_OPERATORS = ("+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "andalso", "orelse", "then", "else", "where")
WIDEST = 60  # letters of a heading's costs
PILL = 20.0


@dataclass(frozen=True, slots=True)
class Words:
    """How a page words sizes: dimensions by their names, and, where sizes are given, as numbers."""

    name: Callable[[Dim], str]
    number: Callable[[Dim], float | None]

    def shape(self, value: Value) -> str:
        """`f32[16, 64]` where sizes are given, else `f32[s, d]`."""
        sizes = self._sizes(value)
        inner = [self.name(d) for d in value.shape] if sizes is None else map(str, sizes)
        return f"{value.element.value}[{', '.join(inner)}]" if value.shape else value.element.value

    def whole(self, value: Value) -> str:
        """Everything about a shape: `f32[s, d] = f32[16, 64] = 4.1 kB`."""
        sizes = self._sizes(value)
        if sizes is None or not value.shape:
            return self.shape(value)
        named = f"{value.element.value}[{', '.join(map(self.name, value.shape))}]"
        total = amount(prod(sizes) * max(1, value.element.bits // 8), "B")
        return " = ".join(dict.fromkeys((named, self.shape(value), total)))

    def _sizes(self, value: Value) -> list[int] | None:
        sizes = [self.number(d) for d in value.shape]
        return None if any(s is None for s in sizes) else [int(s) for s in sizes if s is not None]

    def amount(self, dim: Dim, unit: str) -> str:
        number = self.number(dim)
        return amount(number, unit) if number is not None else f"{self.name(dim)} {unit}"


def amount(number: float, unit: str) -> str:
    """`1.5 MB`, `137 GFLOP`"""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number:.0f} {unit}"


def lines_of(card: Card) -> list[str]:
    """What a card shows of its core, in a few short lines."""
    text = " ".join(card.text.split())
    if card.kind == "result" and text == card.title:
        return []
    if card.kind == "operation":
        text = text.split(" = ", 1)[-1]
    wrapped = _formula(text)
    return [*wrapped[: MAX_LINES - 1], wrapped[MAX_LINES - 1][: WRAP - 1] + "…"] if len(wrapped) > MAX_LINES else wrapped


def _formula(text: str) -> list[str]:
    """A formula in lines: its body below its indices, cut before operators, and inside brackets only where a part is too long."""
    if len(text) <= WRAP:
        return [text] if text else []
    *heads, body = [part.strip() for part in _cut(text, ("=>",), after=True)]
    lines: list[str] = []
    for head in heads:
        if lines and len(lines[-1]) + len(head) < WRAP:
            lines[-1] += f" {head}"
        elif len(head) > WRAP:
            lines += _filled(head, "  " * len(lines))
        else:
            lines.append("  " * len(lines) + head)
    return lines + _filled(body, "  " * len(lines))


def _filled(text: str, indent: str) -> list[str]:
    lines: list[str] = []
    for part in _cut(text, _OPERATORS):
        deeper = indent + "  " * bool(lines)
        if lines and len(lines[-1]) + len(part) < WRAP:
            lines[-1] += f" {part}"
        elif len(indent) + len(part) <= WRAP:
            lines.append(deeper + part)
        else:
            firm = re.sub(r"\[[^][]*\]", lambda m: m[0].replace(" ", _FIRM), part)  # nothing is cut inside an access
            firm = re.sub(r" ([-+*/%=<>]+|andalso|orelse|then|else) ", rf" \1{_FIRM}", firm)
            cut = textwrap.wrap(firm, WRAP, initial_indent=deeper, subsequent_indent=indent + "    ")
            lines += [line.replace(_FIRM, " ") for line in cut]
    return lines


def _cut(text: str, at: tuple[str, ...], after: bool = False) -> list[str]:
    """The text cut before (or after) words that stand outside of brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in text.split(" "):
        if depth == 0 and word in at and not after and parts[-1]:
            parts.append([])
        parts[-1].append(word)
        depth += sum(map(word.count, "([{")) - sum(map(word.count, ")]}"))
        if depth == 0 and word in at and after:
            parts.append([])
    return [" ".join(words) for words in parts if words]


def draw_graph(graph: Graph, words: Words) -> str:
    """The graph: cards, kernels around them, and the tensors between them."""
    cards: dict[str, Card] = {}
    groups: dict[str, KernelCards] = {}

    def boxed(item: Card | KernelCards) -> Box:
        if isinstance(item, KernelCards):
            groups[item.key] = item
            costs = _brief(item, words)
            head = max(len(_head(item)) * TITLE, *(len(line) * LETTER for line in costs), 0)
            header = HEADER - 5 + LINE * len(costs)
            return Box(item.key, children=[boxed(i) for i in item.items], header=header, title=head)
        cards[item.key] = item
        wide = [len(item.title) * TITLE, *(len(line) * LETTER for line in lines_of(item))]
        wide += [len(text) * LETTER + 16 for text in _pills(item, words)]
        return Box(item.key, max(wide) + 22, 24 + LINE * len(lines_of(item)) + PILL * len(item.made))

    root = Box("root", children=[boxed(item) for item in graph.items], header=PAD)
    bends = place(root, [(a, b) for a, b, _ in graph.edges])
    boxes: dict[str, Box] = {}
    out: list[str] = []

    heads: list[str] = []  # above the edges, that they may be read

    def walk(box: Box) -> None:
        boxes[box.key] = box
        if box.key in groups:
            out.append(_group(groups[box.key], box, words))
            heads.append(_heading(groups[box.key], box, words))
        for child in box.children:
            walk(child)

    walk(root)
    for a, b, value in graph.edges:
        out.append(edge(boxes[a], boxes[b], bends.get((a, b), []), a, b, f"{graph.names[value.symbol]} : {words.whole(value)}"))
    out += heads
    out += [_card(card, boxes[key], words) for key, card in cards.items()]
    return framed(root, out)


def framed(root: Box, drawn: Sequence[str]) -> str:
    """The picture of a graph."""
    size = f'width="{root.width:.0f}" height="{root.height:.0f}" viewBox="0 0 {root.width:.0f} {root.height:.0f}"'
    arrow = '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    arrow += '<path d="M0 0.8 L7.5 4 L0 7.2 z" class="head"/></marker></defs>'
    return f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" {size} role="img">{arrow}{"".join(drawn)}</svg>'


def _head(kernel: KernelCards) -> str:
    return f"{kernel.key[1:]} · {kernel.title}"


def _brief(kernel: KernelCards, words: Words) -> list[str]:
    """The costs as far as a heading has room for them: on one line, or each on its own."""
    costs = _costs(kernel, words)
    if len(", ".join(costs)) <= WRAP:
        return [", ".join(costs)] if costs else []
    return [cost if len(cost) <= WIDEST else cost[: WIDEST - 1] + "…" for cost in costs]


def _costs(kernel: KernelCards, words: Words) -> list[str]:
    costs = []
    if kernel.moved is not None:
        costs.append(f"moves {words.amount(kernel.moved, 'B')}")
    if kernel.flops is not None:
        costs.append(f"does {words.amount(kernel.flops, 'FLOP')}{kernel.each}")
    return costs


def _group(kernel: KernelCards, box: Box, words: Words) -> str:
    x, y = box.x - box.width / 2, box.y
    kind = kernel.title.split(",")[0].split()[0]
    tip = "\n".join([f"kernel {_head(kernel)}", ", ".join(_costs(kernel, words)), *kernel.reasons])
    return (
        f'<rect class="kernel {escape(kind)}" data-tip="{attribute(tip)}" '
        f'x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="9"/>'
    )


def _heading(kernel: KernelCards, box: Box, words: Words) -> str:
    x, y = box.x - box.width / 2 + PAD, box.y
    kind = escape(kernel.title.split(",")[0].split()[0])
    texts = [(_head(kernel), "name", TITLE, y + 19)]
    texts += [(cost, "cost", LETTER, y + 20 + LINE * n) for n, cost in enumerate(_brief(kernel, words), 1)]
    lines = []
    for text, role, letter, at in texts:
        wide = len(text) * letter + 8
        lines.append(f'<rect class="of {kind}" x="{x - 4:.1f}" y="{at - 12:.1f}" width="{wide:.1f}" height="{LINE:.0f}"/>')
        lines.append(f'<text class="of {role}" x="{x:.1f}" y="{at:.1f}">{escape(text)}</text>')
    return "".join(lines)


def _card(card: Card, box: Box, words: Words) -> str:
    x, y = box.x - box.width / 2, box.y
    tip = [card.text] if card.text else []
    tip += [
        f"{name} : {words.whole(value)}"
        for name, value in zip(card.labels or (card.title,) * len(card.made), card.made, strict=False)
    ]
    span = f' data-span="{card.span.start},{card.span.end},{attribute(card.span.file.path)}"' if card.span is not None else ""
    inner = box.height - PILL * len(card.made)
    parts = [
        f'<g class="card {card.kind}" data-key="{card.key}"{span} data-tip="{attribute(chr(10).join(tip))}">',
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{inner:.1f}" rx="6"/>',
        f'<text class="title" x="{box.x:.1f}" y="{y + 16:.1f}">{escape(card.title)}</text>',
    ]
    for i, line in enumerate(lines_of(card), 1):
        parts.append(f'<text class="core" x="{x + 11:.1f}" y="{y + 17 + LINE * i:.1f}">{escape(line)}</text>')
    for i, shown in enumerate(_pills(card, words)):
        wide, top = len(shown) * LETTER + 14, y + inner + PILL * i + 2
        parts.append(f'<rect class="pill" x="{box.x - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" height="17" rx="8"/>')
        parts.append(f'<text class="shape" x="{box.x:.1f}" y="{top + 12.5:.1f}">{escape(shown)}</text>')
    return "".join(parts) + "</g>"


def _pills(card: Card, words: Words) -> list[str]:
    """What is written on the edges that leave a card: shapes, and names where there are several."""
    shapes = [words.shape(value) for value in card.made]
    return [f"{name} : {shape}" for name, shape in zip(card.labels, shapes, strict=True)] if card.labels else shapes


def edge(a: Box, b: Box, bends: list[Point], source: str, to: str, tip: str) -> str:
    """A curve from the foot of one card through the bends to the head of another; it leaves and arrives upright."""
    points = [(a.x, a.bottom), *bends, (b.x, b.y - 1)]
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        if abs(x0 - x1) < 0.5:
            path.append(f"L{x1:.1f} {y1:.1f}")
        else:
            middle = max((y1 - y0) / 2, 12.0)
            path.append(f"C{x0:.1f} {y0 + middle:.1f} {x1:.1f} {y1 - middle:.1f} {x1:.1f} {y1:.1f}")
    return (
        f'<path class="edge" d="{"".join(path)}" data-from="{source}" data-to="{to}" data-tip="{attribute(tip)}" '
        f'marker-end="url(#arrow)"/>'
    )


# ── roles over time ─────────────────────────────────────────────────────────────────────────────────────────────────────

SCALE = 48.0  # of a microsecond, at least
ROOM = 1000.0  # that a short picture fills
LANE, MARGIN = 34.0, 96.0


def draw_timeline(timeline: Timeline) -> str:
    """One lane for each role and engine of a thread block, from left to right in microseconds. Colours are slots of the ring."""
    scale = min(max(SCALE, ROOM / max(timeline.seconds * 1e6, 1e-3)), 8 * SCALE)
    width = MARGIN + timeline.seconds * 1e6 * scale + 30
    height = LANE * len(timeline.lanes) + 34
    out = []
    for tick in range(int(timeline.seconds * 1e6) + 1):
        x = MARGIN + tick * scale
        out.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 26:.1f}"/>')
        out.append(f'<text class="time" x="{x:.1f}" y="{height - 10:.1f}">{tick} µs</text>')
    for row, lane in enumerate(timeline.lanes):
        y = row * LANE + 6
        out.append(f'<text class="lane" x="8" y="{y + 16:.1f}">{escape(lane.name)}</text>')
        for s in lane.stretches:
            x, wide = MARGIN + s.start * 1e6 * scale, max((s.end - s.start) * 1e6 * scale, 0.8)
            slot = f" slot{s.stage % SLOTS}" if s.stage is not None and s.kind != "wait" else ""
            where = f", slot {s.stage}" if s.stage is not None else ""
            tip = f"{lane.name}: {s.text}{where}\n{s.start * 1e6:.2f} to {s.end * 1e6:.2f} µs"
            top, tall = (y + 8, 6) if s.kind == "wait" else (y, 22)
            out.append(
                f'<rect class="{s.kind}{slot}" x="{x:.2f}" y="{top:.1f}" width="{wide:.2f}" height="{tall}" '
                f'data-tip="{attribute(tip)}"/>'
            )
            if s.stage is not None and s.kind in ("copy", "product") and wide > 11:
                out.append(f'<text class="slot" x="{x + wide / 2:.1f}" y="{y + 15:.1f}">{s.stage}</text>')
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<svg class="timeline" xmlns="http://www.w3.org/2000/svg" {size} role="img">{"".join(out)}</svg>'


SLOTS = 6  # colours


def attribute(text: str) -> str:
    return escape(text).replace("\n", "&#10;")
