"""Sizes that inequalities make equal: n <= m, m <= k and k <= n.

Of inequalities y <= x + c between sizes (a number is a size beside 0) those whose cycles add up to 0 are equations. Where distances
along them are found, d(y) <= d(x) + c for each, these cycles run along inequalities that are tight: d(y) = d(x) + c. So the parts
in which each size reaches each other along tight ones have differences that are known, in time that grows with their number (J.
Edmonds and R. M. Karp's potentials; R. Tarjan's components).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from axon.base.names import Symbol
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

_ZERO = Dim.of(0)
_MAX_STEPS = 40  # for each inequality

_Node = Symbol | None  # None: 0
_Edge = tuple[_Node, _Node, int]  # (x, y, c): y <= x + c


def made_equal(relations: Iterable[Relation]) -> list[tuple[Relation, tuple[Relation, ...]]]:
    """Equations v = w + c and v = c that relations make only together, each with all those relations that its sizes replace.

    Each size of a part is compared with the oldest, or with 0.
    """
    edges: list[tuple[_Edge, Relation]] = []
    for r in relations:
        edges += [(edge, r) for edge in _edges(r)]
    if sum(r.op != "=" for _, r in edges) < 2:
        return []
    nodes = dict.fromkeys(node for (x, y, _), _ in edges for node in (x, y))
    bounds: list[tuple[_Edge, Relation | None]] = [((v, None, 0), None) for v in nodes if v is not None]  # sizes are at least 0
    distance = _distances([edge for edge, _ in (*edges, *bounds)])
    if distance is None:
        return []
    tight = [(edge, r) for edge, r in (*edges, *bounds) if distance[edge[1]] == distance[edge[0]] + edge[2]]
    found: list[tuple[Relation, tuple[Relation, ...]]] = []
    part_of = _parts([edge for edge, _ in tight])
    for part in dict.fromkeys(part_of.values()):
        inside = [r for (x, y, _), r in tight if part_of[x] == part_of[y] == part and r is not None]
        symbols = sorted((v for v in part if v is not None), key=lambda v: v.id)
        if len(part) < 2:
            continue
        root = None if None in part else symbols[0]
        if _spanned([r for r in inside if r.op == "="], symbols, root):
            continue
        base = _ZERO if root is None else Dim.of(root)
        replaced = tuple(dict.fromkeys(inside))
        for v in symbols:
            if v != root:
                found.append((Relation(Dim.of(v), "=", base + (distance[v] - distance[root])), replaced))
    return found


def _edges(relation: Relation) -> list[_Edge]:
    """A relation as y <= x + c, twice if it is an equation; nothing if it is no such."""
    if relation.op == "<>":
        return []
    slack = relation.slack
    varying = [(m, c) for m, c in slack.mapping.items() if m]
    if not 1 <= len(varying) <= 2 or any(len(m) != 1 or abs(c) != 1 or not isinstance(m[0], Symbol) for m, c in varying):
        return []
    ends: dict[int, _Node] = {1: None, -1: None}
    for m, c in varying:
        if ends[c] is not None or not isinstance(m[0], Symbol):
            return []
        ends[c] = m[0]
    there: _Edge = (ends[1], ends[-1], slack.offset)  # x - y + c >= 0
    return [there, (ends[-1], ends[1], -slack.offset)] if relation.op == "=" else [there]


def _distances(edges: Sequence[_Edge]) -> dict[_Node, int] | None:
    """Potentials for which no inequality is broken; None if there are none, or it takes too long."""
    distance: dict[_Node, int] = {node: 0 for x, y, _ in edges for node in (x, y)}
    from_: dict[_Node, list[tuple[_Node, int]]] = {node: [] for node in distance}
    for x, y, c in edges:
        from_[x].append((y, c))
    queue, waiting = deque(distance), set(distance)
    for _ in range(_MAX_STEPS * (len(edges) + 10)):
        if not queue:
            return distance
        x = queue.popleft()
        waiting.discard(x)
        for y, c in from_[x]:
            if distance[x] + c < distance[y]:
                distance[y] = distance[x] + c
                if y not in waiting:
                    waiting.add(y)
                    queue.append(y)
    return None


def _parts(edges: Sequence[_Edge]) -> dict[_Node, frozenset[_Node]]:
    """The strongly connected part of each node."""
    ways: tuple[dict[_Node, list[_Node]], dict[_Node, list[_Node]]] = ({}, {})
    for x, y, _ in edges:
        for way, a, b in ((ways[0], x, y), (ways[1], y, x)):
            way.setdefault(a, []).append(b)
            way.setdefault(b, [])
    order: list[_Node] = []
    seen: set[_Node] = set()
    for start in ways[0]:
        stack = [(start, iter(ways[0][start]))] if start not in seen else []
        seen.add(start)
        while stack:
            node, rest = stack[-1]
            after = next((n for n in rest if n not in seen), _END)
            if after is _END:
                order.append(node)
                stack.pop()
            else:
                seen.add(after)
                stack.append((after, iter(ways[0][after])))
    found: dict[_Node, frozenset[_Node]] = {}
    for start in reversed(order):
        if start in found:
            continue
        part, todo = {start}, [start]
        while todo:
            for n in ways[1][todo.pop()]:
                if n not in found and n not in part:
                    part.add(n)
                    todo.append(n)
        whole = frozenset(part)
        found.update(dict.fromkeys(part, whole))
    return found


_END = Symbol("end", -1)


def _spanned(equations: Sequence[Relation], symbols: Sequence[Symbol], root: _Node) -> bool:
    """Whether equations already connect a part, without its inequalities."""
    parent: dict[_Node, _Node] = {v: v for v in symbols}
    parent[root] = root

    def top(v: _Node) -> _Node:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    for r in equations:
        (x, y, _), *_ = _edges(r)
        if x in parent and y in parent:
            parent[top(x)] = top(y)
    return len({top(v) for v in (*symbols, root)}) == 1
