"""A model as a directed graph: arrows where the distribution of a site depends on a node, plates around what is drawn together.

    schools: sigma
    mu ~
    tau ~
    i < n
      theta ~ mu tau
      observe y ~ theta sigma

Note [Plates]
    Two sites share a plate if what one draws at an index depends, of the other, on what that drew at the same index, or if they do
    not depend on each other and call indices over the same size the same. So an arrow inside of a plate is one for each index; one
    that enters or leaves a plate may be of all of them: with `normal (sum i => theta[i]) 1.0`, y stands outside of theta's plate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axon.base.data import dataclass, field
from axon.chance.mentions import Around, Hole, Index, Mention, Node, nodes_of
from axon.chance.sites import bound_in
from axon.grammar import syntax as S

Extents = Mapping[str, tuple[str, ...]]  # of sites, the sizes of what they draw, as text


@dataclass(frozen=True, slots=True, eq=False)
class Plate:
    """A box around what is drawn for each index. Of a chain, whose steps depend on those before them, or of independent draws."""

    index: str
    size: str
    around: Plate | None

    @property
    def label(self) -> str:
        return f"{self.index} < {self.size}" if self.index and self.size else self.index or self.size or "_"


@dataclass(frozen=True, slots=True, eq=False)
class Vertex:
    """A node of the graph. `parents` are what it depends on; `again` is the step before, where it depends on itself in that."""

    name: str
    kind: str  # latent observed value argument
    plates: tuple[Plate, ...]  # from the outside in
    parents: tuple[str, ...]
    again: str = ""
    text: str = ""
    place: S.Node | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    model: str
    vertices: tuple[Vertex, ...]  # arguments first, then in the order of the text
    place: S.Fun

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def graph_of(decl: S.Fun, around: Around, extents: Extents) -> Graph:
    """The graph of a model without mistakes."""
    nodes = _needed(nodes_of(decl, around))
    given = [p.name for param in decl.params for p in bound_in(param)]
    order = {name: n for n, name in enumerate([*(node.name for node in nodes), *given])}

    def rank(name: str) -> int:
        return order.get(name, order.get(name.partition(".")[0], 0))

    placing = _Placing({node.name: node for node in nodes}, extents)
    for node in nodes:
        placing.place(node)
    drawn = []
    for node in nodes:
        parents = sorted({_name(m) for m in node.mentions if not m.before}, key=lambda name: (rank(name), name))
        chain = next((i.name or "_" for i in node.plates if i.chain), "")
        again = f"{chain} - 1" if any(m.before for m in node.mentions) else ""
        drawn.append(Vertex(node.name, node.kind, placing.plates[node.name], tuple(parents), again, node.text, node.place))
    found = {p for v in drawn for p in v.parents if p not in placing.plates}
    arguments = sorted(found, key=lambda name: (rank(name), name))
    return Graph(decl.name.text, (*(Vertex(a, "argument", placing.of_argument(a), ()) for a in arguments), *drawn), decl)


def _needed(nodes: tuple[Node, ...]) -> list[Node]:
    """Without the values that no site depends on."""
    used: set[str] = set()
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.kind != "value" or node.name in used:
            used |= {_name(m) for m in node.mentions}
            kept.append(node)
    return kept[::-1]


def _name(mention: Mention) -> str:
    assert not isinstance(mention.node, Hole)
    return ".".join((mention.node, *mention.fields))


@dataclass(slots=True)
class _Placing:
    """Plates, given to nodes in their order. See Note [Plates]."""

    nodes: Mapping[str, Node]
    extents: Extents
    plates: dict[str, tuple[Plate, ...]] = field(default_factory=dict)
    made: list[Plate] = field(default_factory=list)

    def place(self, node: Node) -> None:
        sizes = self.extents.get(node.name, ())
        found: list[Plate] = []
        for level, index in enumerate(node.plates):
            size = sizes[level] if level < len(sizes) else index.bound
            around = found[-1] if found else None
            fit = self._fitting(node, level, index, size, around)
            if fit is None:
                fit = Plate(index.name, size, around)
                self.made.append(fit)
            found.append(fit)
        self.plates[node.name] = tuple(found)

    def _fitting(self, node: Node, level: int, index: Index, size: str, around: Plate | None) -> Plate | None:
        """The plate that others have made and a node joins at a level."""
        named: Plate | None = None
        for plate in self.made:
            if plate.around is not around or (size and plate.size and size != plate.size):
                continue
            inside = [m for m in node.mentions if plate in self.plates.get(_name(m), ()) and not m.before]
            if any(_at(m, level) is not index for m in inside):
                continue
            if inside:
                return plate
            if index.name and plate.index == index.name and named is None:
                named = plate
        return named

    def of_argument(self, name: str) -> tuple[Plate, ...]:
        """The plates in which an argument has an element for each index: those that all who mention it have in common."""
        common: list[Plate] | None = None
        for node in self.nodes.values():
            for m in node.mentions:
                if _name(m) == name:
                    ranges = zip(node.plates, m.at, self.plates[node.name], strict=False)
                    own: list[Plate] = []
                    for index, at, plate in ranges:
                        if index is not at:
                            break
                        own.append(plate)
                    common = own if common is None else [p for p, q in zip(common, own, strict=False) if p is q]
        return tuple(common or ())


def _at(mention: Mention, level: int) -> object:
    return mention.at[level] if level < len(mention.at) else None


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(graph: Graph) -> Iterator[str]:
    arguments = [v.name for v in graph.vertices if v.kind == "argument"]
    yield f"{graph.model}: {' '.join(arguments)}" if arguments else graph.model
    yield from _inside(graph, None, "")


def _inside(graph: Graph, around: Plate | None, indent: str) -> Iterator[str]:
    """What stands in a plate, each inner plate where its first site does."""
    seen: set[Plate] = set()
    for v in graph.vertices:
        depth = 0 if around is None else v.plates.index(around) + 1 if around in v.plates else None
        if depth is None or v.kind == "argument":
            continue
        if len(v.plates) == depth:
            yield indent + _line(v)
        elif (plate := v.plates[depth]) not in seen:
            seen.add(plate)
            yield f"{indent}{plate.label}"
            yield from _inside(graph, plate, f"{indent}  ")


def _line(v: Vertex) -> str:
    word = "observe " if v.kind == "observed" else ""
    sign = "=" if v.kind == "value" else "~"
    own = [f"{v.name}[{v.again}]"] if v.again else []
    return " ".join([f"{word}{v.name} {sign}", *own, *v.parents])
