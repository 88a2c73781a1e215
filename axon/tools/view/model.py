"""The picture of a model: its sites and what they depend on, with plates as boxes around them.

Circles are latents, filled ones what is observed, dashed boxes values between them, and squares what is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from axon.base.data import dataclass, field
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.host import html
from axon.tools.editor.graphical import graph
from axon.tools.view.draw import LETTER, PILL, TITLE, attribute, edge, framed
from axon.tools.view.layout import PAD, Box, place
from axon.tools.view.page import filled
from axon.tools.view.source import analysed

if TYPE_CHECKING:
    from axon.base.source import Span
    from axon.chance.graph import Graph, Plate, Vertex
    from axon.checker.module import CheckedModule
    from axon.tools.editor.analysis import Analysis

HIGH, DOT = 38.0, 8.0  # of a circle, and of a square
HEADER = 26.0
LOOP = 22.0  # of an arrow from a step to the next


def the_model(checked: CheckedModule, name: str | None) -> str | None:
    """The model of a name; without one, that of a module which declares it alone."""
    if name is not None:
        return name if checked.model(name) is not None else None
    owners = {n.partition(".")[0] for n in checked.signatures}
    only = owners.pop() if len(owners) == 1 else ""
    return only if checked.model(only) is not None else None


def the_graph(checked: CheckedModule, name: str, arguments: Sequence[str]) -> tuple[Graph, Analysis]:
    """The graph of a model of a module without errors. Raises AxonError for arguments: sizes have names in it."""
    if arguments:
        note = f"it is one picture for all sizes: leave out `{arguments[0]}`, or draw one of its functions, as `{name}.log_density`"
        raise AxonError((Diagnostic("AX0505", f"the model `{name}` is drawn without arguments", notes=(note,)),))
    analysis = analysed(checked.source.path, checked.source.text)
    assert analysis is not None
    found = graph(analysis, name)
    assert found is not None, name
    return found, analysis


def model_page(checked: CheckedModule, shown: Graph, analysis: Analysis) -> str:
    """A page about a model."""
    source = checked.source
    model = checked.model(shown.model)
    assert model is not None
    rows = [
        f"<tr><td><code>{escape(f)}</code></td><td><code>{html.source(checked.signatures[f'{shown.model}.{f}'])}</code></td></tr>"
        for f in model.functions
    ]
    table = f'<div class="panel" style="padding: 6px 14px"><table>{"".join(rows)}</table></div>'
    parts = {
        "name": escape(shown.model),
        "signature": html.source(f"model of {', '.join(map(str, model.sites))}"),
        "facts": escape(source.path),
        "heading": "Graphical model",
        "graph": draw_model(shown, source.path, analysis.place),
        "legend": "Circles are latents, filled ones what is observed, squares what is given, boxes around them plates.",
        "sizes": "",
        "below": f"<section>\n<h2>Its functions</h2>\n{table}\n</section>\n",
    }
    return filled(source.path, source.text, *(analysis.place(shown.place.span) or (0, 0)), parts)


@dataclass
class _Drawing:
    shown: Graph
    boxes: dict[str, Box] = field(default_factory=dict)
    plates: dict[str, tuple[Plate, Box]] = field(default_factory=dict)

    def box(self, around: Plate | None) -> list[Box]:
        """What stands in a plate, each after what it needs."""
        inside: dict[str, Box] = {}
        stands: dict[str, str] = {}  # of each vertex inside, the box here that it is in
        for v in self.shown.vertices:
            depth = 0 if around is None else v.plates.index(around) + 1 if around in v.plates else None
            if depth is None:
                continue
            if len(v.plates) == depth:
                inside[v.name] = self.boxes[v.name] = _node(v)
                stands[v.name] = v.name
                continue
            plate = v.plates[depth]
            key = next((k for k, (p, _) in self.plates.items() if p is plate), None)
            if key is None:
                key = f"plate {len(self.plates) + 1}"
                self.plates[key] = plate, Box(key, header=HEADER, title=len(plate.label) * LETTER)
                self.plates[key][1].children = self.box(plate)
            inside[key] = self.plates[key][1]
            stands[v.name] = key
        needs: dict[str, set[str]] = {key: set() for key in inside}
        for v in self.shown.vertices:
            if v.name in stands:
                needs[stands[v.name]] |= {stands[p] for p in v.parents if p in stands} - {stands[v.name]}
        return [inside[key] for key in _sorted(needs)]


def _sorted(needs: dict[str, set[str]]) -> list[str]:
    """Each after those that it needs; of a circle, which goes through a plate and out again, the first as it stands."""
    out: list[str] = []
    while len(out) < len(needs):
        left = [key for key in needs if key not in out]
        out.append(next((key for key in left if needs[key] <= {*out}), left[0]))
    return out


def draw_model(shown: Graph, path: str, place_of: Callable[[Span], tuple[int, int] | None]) -> str:
    """The picture. `place_of` says where in the file a span is, if it is there: sites of other modules are not."""
    drawing = _Drawing(shown)
    root = Box("root", children=drawing.box(None), header=PAD)
    bends = place(root, [(p, v.name) for v in shown.vertices for p in v.parents])
    out: list[str] = []
    heads: list[str] = []  # above the edges
    for plate, box in drawing.plates.values():
        x, y = box.x - box.width / 2, box.y
        size = f'x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
        out.append(f'<rect class="plate" {size} rx="12"/>')
        heads.append(f'<text class="plate-name" x="{x + PAD:.1f}" y="{y + 17:.1f}">{escape(plate.label)}</text>')
    for v in shown.vertices:
        for p in v.parents:
            out.append(edge(drawing.boxes[p], drawing.boxes[v.name], bends.get((p, v.name), []), p, v.name, f"{v.name} needs {p}"))
        if v.again:
            out.append(_loop(v, drawing.boxes[v.name]))
    out += heads
    for v in shown.vertices:
        at = place_of(v.place.span) if v.place is not None else None
        where = f' data-span="{at[0]},{at[1]},{attribute(path)}"' if at is not None else ""
        out.append(_drawn(v, drawing.boxes[v.name], where))
    return framed(root, out)


def _node(v: Vertex) -> Box:
    if v.kind == "argument":
        return Box(v.name, max(len(v.name) * TITLE, DOT) + 8, PILL + DOT)
    return Box(v.name, max(len(v.name) * TITLE + 26, HIGH) + (2 * LOOP if v.again else 0), HIGH)


def _loop(v: Vertex, box: Box) -> str:
    """An arrow from a chain's step to the next, on the right of it."""
    right, middle = box.x + box.width / 2 - LOOP - 5, box.y + box.height / 2
    path = f"M{right:.1f} {middle + 9:.1f}C{right + 2 * LOOP:.1f} {middle + 22:.1f} {right + 2 * LOOP:.1f} {middle - 22:.1f} "
    path += f"{right + 1:.1f} {middle - 9:.1f}"
    tip = attribute(f"{v.name} needs {v.name}[{v.again}]")
    name = attribute(v.name)
    arrow = f'<path class="edge" d="{path}" data-from="{name}" data-to="{name}" data-tip="{tip}" marker-end="url(#arrow)"/>'
    return f'{arrow}<text class="step" x="{right + LOOP:.1f}" y="{middle - 15:.1f}">{escape(v.again)}</text>'


def _drawn(v: Vertex, box: Box, where: str) -> str:
    sign = {"value": " = ", "argument": ""}.get(v.kind, " ~ ")
    tip = f"{'observe ' if v.kind == 'observed' else ''}{v.name}{sign}{v.text}"
    tip += "".join(f"\nfor {plate.label}" for plate in v.plates)
    key, name = attribute(v.name), escape(v.name)
    if v.kind == "argument":
        shape = f'<rect class="given" x="{box.x - DOT / 2:.1f}" y="{box.bottom - DOT:.1f}" width="{DOT:.0f}" height="{DOT:.0f}"/>'
        text = box.y + 14
    else:
        wide, text = box.width - (2 * LOOP if v.again else 0), box.y + box.height / 2 + 4.5
        shape = f'<ellipse cx="{box.x:.1f}" cy="{box.y + HIGH / 2:.1f}" rx="{wide / 2:.1f}" ry="{HIGH / 2:.1f}"/>'
        if v.kind == "value":
            size = f'x="{box.x - wide / 2:.1f}" y="{box.y:.1f}" width="{wide:.1f}" height="{HIGH:.1f}"'
            shape = f'<rect class="value" {size} rx="6"/>'
    label = f'<text class="name" x="{box.x:.1f}" y="{text:.1f}">{name}</text>'
    return f'<g class="node {v.kind}" data-key="{key}"{where} data-tip="{attribute(tip)}">{shape}{label}</g>'
