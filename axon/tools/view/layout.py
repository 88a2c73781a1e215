"""Where the boxes of a graph stand: layers from top to bottom, groups as boxes around graphs of their own.

The method is Sugiyama's: each node stands in the layer below those it needs, edges over several layers get a stand-in in each, the
order within layers is that of the neighbours' mean places, and the places are those of least squares that keep boxes apart. A group
is laid out by itself first, and then is a box in the graph around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean

from axon.base.data import dataclass, field

GAP_X, GAP_Y = 24.0, 34.0
PAD, HEADER = 14.0, 40.0  # of groups
SWEEPS = 16
LIGHT = 0.1  # what needs nothing stands where there is room: what needs it does not move for it
STRAIGHT = 6.0  # how much more a long edge wants to be straight than a box wants to stand below what it needs


@dataclass(eq=False)
class Box:
    """A node: its size, and once laid out the place of its centre and its top. A group's size follows from what is in it."""

    key: str
    width: float = 0.0
    height: float = 0.0
    children: list[Box] = field(default_factory=list)
    header: float = HEADER
    title: float = 0.0  # how wide the title of a group is, which stands on the left of its header; no edge crosses it
    port: float = 0.0  # how far from a group's centre its edges come and go, on the average
    x: float = 0.0
    y: float = 0.0

    @property
    def bottom(self) -> float:
        return self.y + self.height


Point = tuple[float, float]
Ends = tuple[str, str]


@dataclass
class _Layers:
    """Nodes by layer. An edge over several layers has a stand-in in each, `(source, layer)`, which edges of one source share."""

    of: dict[str, int]
    rows: list[list[Key]]
    up: dict[Key, list[Key]]
    down: dict[Key, list[Key]]
    routes: dict[Ends, list[tuple[str, int]]] = field(default_factory=dict)


Key = str | tuple[str, int]


@dataclass
class _Level:
    """The edges of one group's graph, between its children; those that come from outside to a child, and those that leave one."""

    across: list[tuple[str, str, Ends]] = field(default_factory=list)
    entering: list[tuple[str, Ends]] = field(default_factory=list)
    leaving: list[tuple[str, Ends]] = field(default_factory=list)
    bends: dict[Ends, list[Point]] = field(default_factory=dict)


def place(root: Box, edges: Sequence[Ends]) -> dict[Ends, list[Point]]:
    """Lay out a group and all inside. Edges join the keys of boxes without children. Returns the bends of each edge between
    its ends, in the coordinates of the root."""
    paths: dict[str, list[Box]] = {}  # each box with those around it, the root first

    def index(box: Box, above: list[Box]) -> None:
        paths[box.key] = [*above, box]
        for child in box.children:
            index(child, paths[box.key])

    index(root, [])
    levels = {key: _Level() for key in paths}
    known = list(dict.fromkeys(edges))
    for a, b in known:
        ups, downs = paths[a], paths[b]
        depth = next(i for i, (p, q) in enumerate(zip(ups, downs, strict=False)) if p is not q)
        levels[ups[depth - 1].key].across.append((ups[depth].key, downs[depth].key, (a, b)))
        for outer, inner in pairwise(ups[depth:]):
            levels[outer.key].leaving.append((inner.key, (a, b)))
        for outer, inner in pairwise(downs[depth:]):
            levels[outer.key].entering.append((inner.key, (a, b)))
    _place(root, levels)
    _settle(root, 0.0, 0.0, levels)
    out: dict[Ends, list[Point]] = {}
    for a, b in known:  # from the inside out, across, and from the outside in
        depth = next(i for i, (p, q) in enumerate(zip(paths[a], paths[b], strict=False)) if p is not q)
        way = [*reversed(paths[a][depth:-1]), paths[a][depth - 1], *paths[b][depth:-1]]
        out[a, b] = [point for box in way for point in levels[box.key].bends.get((a, b), [])]
    return out


def _place(box: Box, levels: Mapping[str, _Level]) -> None:
    """Sizes and relative places, from the inside out."""
    for child in box.children:
        _place(child, levels)
    if not box.children:
        return
    level = levels[box.key]
    sizes: dict[Key, tuple[float, float]] = {c.key: (c.width, c.height) for c in box.children}
    layers = _layers([c.key for c in box.children], level)
    widths = {key: sizes.get(key, (8.0, 0.0))[0] for row in layers.rows for key in row}
    centres = _places(layers, widths, {c.key: c.port for c in box.children})
    left = min(centres[key] - widths[key] / 2 for key in centres)
    right = max(centres[key] + widths[key] / 2 for key in centres)
    shift = PAD - left + max(0.0, box.title - (right - left)) / 2
    entries: dict[Ends, float] = {}
    for key, ends in level.entering:
        inside = levels[key].bends.get(ends)
        if layers.routes[ends]:
            entries[ends] = centres[layers.routes[ends][0]]
        else:
            entries[ends] = centres[key] + (inside[0][0] - widths[key] / 2 if inside else 0.0)
    if box.title and entries:
        shift = max(shift, PAD + box.title + GAP_X / 2 - min(entries.values()))
    heights = [max((sizes[key][1] for key in row if key in sizes), default=0.0) for row in layers.rows]
    tops = [box.header]
    for height in heights:
        tops.append(tops[-1] + height + GAP_Y)
    for child in box.children:
        layer = layers.of[child.key]
        child.x = centres[child.key] + shift
        child.y = tops[layer]
        if not layers.up[child.key]:  # what needs nothing stands close to what needs it
            child.y += heights[layer] - child.height
    box.width = max(right + shift, PAD + box.title) + PAD
    box.height = tops[-1] - GAP_Y + PAD
    for ends, route in layers.routes.items():
        xs = [(centres[key] + shift, key[1]) for key in route]
        level.bends[ends] = [point for x, layer in xs for point in ((x, tops[layer]), (x, tops[layer] + heights[layer]))]
    for ends, x in entries.items():  # upright through the header
        level.bends[ends].insert(0, (x + shift, 0.0))
    exits = [centres[layers.routes[ends][-1] if layers.routes[ends] else key] for key, ends in level.leaving]
    if entries or exits:
        box.port = fmean([*entries.values(), *exits]) + shift - box.width / 2


def _settle(box: Box, x: float, y: float, levels: Mapping[str, _Level]) -> None:
    """Relative places become absolute ones: (x, y) is the group's left upper corner."""
    bends = levels[box.key].bends
    for ends, points in bends.items():
        bends[ends] = [(px + x, py + y) for px, py in points]
    for child in box.children:
        child.x += x
        child.y += y
        _settle(child, child.x - child.width / 2, child.y, levels)


def _layers(keys: list[str], level: _Level) -> _Layers:
    """Each node below those it needs; one that needs nothing just above the first that needs it."""
    pairs = list(dict.fromkeys((a, b) for a, b, _ in level.across))
    before: dict[str, list[str]] = {key: [] for key in keys}
    after: dict[str, list[str]] = {key: [] for key in keys}
    for a, b in pairs:
        before[b].append(a)
        after[a].append(b)
    of: dict[str, int] = {}
    for key in keys:  # in an order in which each follows what it needs
        of[key] = max((of[a] + 1 for a in before[key] if a in of), default=0)
    for key in keys:
        if not before[key] and after[key]:
            of[key] = max(0, min(of[b] for b in after[key]) - 1)
    rows: list[list[Key]] = [[] for _ in range(max(of.values(), default=0) + 1)]
    for key in keys:
        rows[of[key]].append(key)
    layers = _Layers(of, rows, {key: [] for key in keys}, {key: [] for key in keys})

    def chain(first: str | None, between: range, last: str | None, ends: Ends) -> None:
        route = [(ends[0], i) for i in between]
        layers.routes[ends] = route
        nodes: list[Key] = [*([first] if first else []), *route, *([last] if last else [])]
        for key in route:
            if key not in layers.up:
                rows[key[1]].append(key)
                layers.up[key], layers.down[key] = [], []
        for p, q in pairwise(nodes):
            if q not in layers.down[p]:
                layers.down[p].append(q)
                layers.up[q].append(p)

    for a, b, ends in level.across:
        chain(a, range(of[a] + 1, of[b]), b, ends)
    for b, ends in level.entering:
        chain(None, range(of[b]), b, ends)
    for a, ends in level.leaving:
        chain(a, range(of[a] + 1, len(rows)), None, ends)
    _order(layers)
    return layers


def _order(layers: _Layers) -> None:
    """Sort layers by the mean place of the neighbours, downwards and upwards in turn; the order with the fewest crossings stays."""
    best, fewest = [list(row) for row in layers.rows], _crossings(layers)
    for sweep in range(SWEEPS):
        rows, near = (layers.rows, layers.up) if sweep % 2 == 0 else (layers.rows[::-1], layers.down)
        for former, row in pairwise(rows):
            at: dict[Key, int] = {key: i for i, key in enumerate(former)}
            here: dict[Key, int] = {key: i for i, key in enumerate(row)}

            def mean(key: Key, at: dict[Key, int] = at, here: dict[Key, int] = here, size: int = len(former)) -> float:
                places = [at[n] for n in near[key] if n in at]  # noqa: B023
                return sum(places) / len(places) if places else here[key] * size / max(len(here), 1)

            row.sort(key=mean)
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(row) for row in layers.rows], crossings
    for row, kept in zip(layers.rows, best, strict=True):
        row[:] = _balanced(kept, layers)


def _balanced(row: list[Key], layers: _Layers) -> list[Key]:
    """What needs nothing and is for the same node as its neighbours in the row, half to their left, half to their right."""
    out: list[Key] = []
    for _, run in groupby(row, lambda key: layers.down[key][0] if len(layers.down[key]) == 1 else key):
        keys = list(run)
        light = [key for key in keys if not layers.up[key] and not isinstance(key, tuple)]
        others = [key for key in keys if key not in light]
        half = (len(light) + 1) // 2
        out += [*light[:half], *others, *light[half:]] if others else light
    return out


def _crossings(layers: _Layers) -> int:
    total = 0
    for upper, lower in zip(layers.rows, layers.rows[1:], strict=False):
        at = {key: i for i, key in enumerate(lower)}
        ends = [at[b] for a in upper for b in sorted((b for b in layers.down[a] if b in at), key=lambda b: at[b])]
        total += sum(ends[i] > ends[j] for i in range(len(ends)) for j in range(i + 1, min(len(ends), i + 200)))
    return total


def _places(layers: _Layers, widths: Mapping[Key, float], ports: Mapping[str, float]) -> dict[Key, float]:
    """The centres: those that bring ports near to the mean of the neighbours', and keep boxes of a layer apart."""
    shifts: dict[Key, float] = {key: ports.get(key, 0.0) if isinstance(key, str) else 0.0 for key in widths}
    centres: dict[Key, float] = {}
    weights = {key: STRAIGHT if isinstance(key, tuple) else 1.0 if layers.up[key] else LIGHT for row in layers.rows for key in row}
    for row in layers.rows:
        x = 0.0
        for key in row:
            centres[key] = x + widths[key] / 2
            x += widths[key] + GAP_X
    for sweep in range(SWEEPS):
        rows = layers.rows if sweep % 2 == 0 else layers.rows[::-1]
        near = (layers.up, layers.down) if sweep >= SWEEPS - 2 else (layers.up,) if sweep % 2 == 0 else (layers.down,)
        for row in rows:
            wanted = []
            for key in row:
                around = [(centres[n] + shifts[n] - shifts[key], weights[n]) for side in near for n in side[key]]
                wanted.append(sum(x * w for x, w in around) / sum(w for _, w in around) if around else centres[key])
            for key, x in zip(row, _apart(wanted, [widths[key] for key in row], [weights[key] for key in row]), strict=True):
                centres[key] = x
    return centres


def _apart(wanted: list[float], widths: list[float], weights: list[float]) -> list[float]:
    """The places nearest to those wanted, in weighted least squares, at which boxes do not touch: isotonic regression."""
    offsets = [0.0]
    for a, b in pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + GAP_X)
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for want, offset, weight in zip(wanted, offsets, weights, strict=True):
        mean, size = want - offset, 1
        while pools and pools[-1][0] > mean:
            other, heavy, many = pools.pop()
            mean, weight, size = (mean * weight + other * heavy) / (weight + heavy), weight + heavy, size + many
        pools.append((mean, weight, size))
    flat = [mean for mean, _, size in pools for _ in range(size)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=True)]
