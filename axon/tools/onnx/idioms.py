"""Several nodes that are one thing, found by their shape: a pattern is a nested tuple, an operator and what it is applied to.

Additions and multiplications match in either order. A text of one letter stands for any value, the same one wherever it stands;
"W" and "B" for a constant tensor; a number for a constant scalar that is that number as far as f32 can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from math import isclose, pi, sqrt
from typing import Any

from axon.base.data import dataclass, replace
from axon.tools.onnx.graph import Constant, Graph, Node

_SYMMETRIC = frozenset(("Add", "Mul"))
_VARIANCE = ("ReduceMean", ("Pow", "x", 2.0), "?")
_RSQRT = ("Reciprocal", ("Sqrt", ("Add", _VARIANCE, "e")))
_CENTRED = ("Sub", "x", ("ReduceMean", "x", "?"))
_STANDARD = ("Div", _CENTRED, ("Sqrt", ("Add", ("ReduceMean", ("Pow", _CENTRED, 2.0), "?"), "e")))


@dataclass(frozen=True, slots=True)
class Idiom:
    pattern: Any
    op: str
    inputs: tuple[str, ...]
    attributes: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda found: {}


def _epsilon(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"epsilon": found["e"], "axis": -1}


def _gelu(kind: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    return lambda _: {"approximate": kind}


_TANH = ("Add", ("Tanh", ("Mul", ("Add", "x", ("Mul", ("Pow", "x", 3.0), 0.044715)), sqrt(2 / pi))), 1.0)
IDIOMS = (
    # PyTorch's guard for rows of scores that are masked throughout: its own masks are finite, so nothing is NaN.
    Idiom(("Where", ("IsNaN", ("Softmax", "x")), 0.0, ("Softmax", "x")), "Softmax", ("x",), lambda _: {"axis": -1}),
    Idiom(("Mul", ("Mul", "x", 0.5), _TANH), "Gelu", ("x",), _gelu("tanh")),
    Idiom(("Mul", 0.5, ("Mul", "x", _TANH)), "Gelu", ("x",), _gelu("tanh")),
    *(
        Idiom(pattern, "Gelu", ("x",), _gelu("none"))
        for e in (("Div", "x", sqrt(2)), ("Mul", "x", sqrt(0.5)))
        for erf in [("Add", ("Erf", e), 1.0)]
        for pattern in (("Mul", ("Mul", "x", 0.5), erf), ("Mul", ("Mul", "x", erf), 0.5))
    ),
    Idiom(("Mul", "x", ("Sigmoid", "x")), "Swish", ("x",)),
    Idiom(("Mul", "x", ("Tanh", ("Softplus", "x"))), "Mish", ("x",)),
    Idiom(("Add", ("Mul", _STANDARD, "W"), "B"), "LayerNormalization", ("x", "W", "B"), _epsilon),
    Idiom(("Mul", ("Mul", "x", _RSQRT), "W"), "RMSNormalization", ("x", "W"), _epsilon),
    Idiom(("Mul", ("Div", "x", ("Sqrt", ("Add", _VARIANCE, "e"))), "W"), "RMSNormalization", ("x", "W"), _epsilon),
    Idiom(("Add", ("MatMul", "x", "W"), "B"), "Linear", ("x", "W", "B")),
)


def fused(graph: Graph) -> Graph:
    """The graph with idioms as single nodes, and without nodes of which nothing is used."""
    made: dict[str, Node] = {}
    for node in graph.nodes:
        for output in node.outputs:
            made[output] = node
    search = _Search(graph, made)  # in the graph as it was: of two idioms, one inside the other, the outer one is left
    nodes = []
    for node in graph.nodes:
        node = search.group_norm(node) or node
        for idiom in IDIOMS:
            for found in search.matches(idiom.pattern, node, {}):
                node = replace(node, op=idiom.op, inputs=tuple(found[i] for i in idiom.inputs), attributes=idiom.attributes(found))
                break
            else:
                continue
            break
        nodes.append(node)
    return replace(graph, nodes=_used(graph, nodes))


def _used(graph: Graph, nodes: list[Node]) -> tuple[Node, ...]:
    wanted = {port.name for port in graph.outputs}
    kept = []
    for node in reversed(nodes):
        if wanted & {*node.outputs}:
            kept.append(node)
            wanted |= {*node.inputs}
    return tuple(reversed(kept))


class _Search:
    def __init__(self, graph: Graph, made: Mapping[str, Node]) -> None:
        self.constants, self.made = graph.constants, made
        self.uses = Counter(name for node in graph.nodes for name in node.inputs) + Counter(port.name for port in graph.outputs)

    def matches(self, pattern: Any, node: Node, found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """What the letters of a pattern stand for, in every way in which it matches what a node gives."""
        op, *arguments = pattern
        if node.op != op or len(node.outputs) != 1 or (op == "Softmax" and node.attributes.get("axis", -1) != -1):
            return
        inputs = [name for name in node.inputs if name]
        if arguments and arguments[-1] == "?":  # axes, in whichever way an operator set gives them: they must be the last
            if not self._last_axis(node):
                return
            arguments, inputs = arguments[:-1], inputs[:1]
        if len(inputs) != len(arguments):
            return
        for order in [arguments, arguments[::-1]] if op in _SYMMETRIC else [arguments]:
            yield from self._all(list(zip(order, inputs, strict=True)), found)

    def _all(self, pairs: list[tuple[Any, str]], found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if not pairs:
            yield found
            return
        (pattern, name), *rest = pairs
        for more in self._one(pattern, name, found):
            yield from self._all(rest, more)

    def _one(self, pattern: Any, name: str, found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        constant = self.constants.get(name)
        if isinstance(pattern, tuple):
            if name in self.made:
                yield from self.matches(pattern, self.made[name], found)
        elif isinstance(pattern, float):
            number = _number(constant)
            if number is not None and isclose(number, pattern, rel_tol=1e-6, abs_tol=1e-12):
                yield found
        elif pattern == "e":
            number = _number(constant)
            if number is not None:
                yield {**found, "e": number}
        elif pattern in ("W", "B"):
            rank = {"W": (1, 2), "B": (1,)}[pattern]
            if constant is not None and len(constant.shape) in rank:
                yield {**found, pattern: name}
        elif found.get(pattern, name) == name:
            yield {**found, pattern: name}

    def group_norm(self, node: Node) -> Node | None:
        """A normalization of groups: of channels between two changes of shape, then scaled and shifted by channel."""
        for scaled, shift in permutations(node.inputs) if node.op == "Add" and len(node.inputs) == 2 else ():
            inner = self.made.get(scaled)
            for back, scale in permutations(inner.inputs) if inner is not None and inner.op == "Mul" else ():
                weights = self._by_channel(scale), self._by_channel(shift)
                found = self._standardized(back)
                if found is not None and weights[0] == weights[1] and (weights[0] or 0) > 1:
                    x, groups, epsilon = found
                    attributes = {"num_groups": groups, "epsilon": epsilon}
                    return replace(node, op="GroupNormalization", inputs=(x, scale, shift), attributes=attributes)
        return None

    def _standardized(self, name: str) -> tuple[str, int, float] | None:
        """What is taken apart into groups, standardized and put together again; how many groups; and the epsilon."""
        back = self.made.get(name)
        inner = self.made.get(back.inputs[0]) if back is not None and back.op == "Reshape" else None
        apart = self.made.get(inner.inputs[0]) if inner is not None and inner.op == "InstanceNormalization" else None
        if back is None or inner is None or apart is None or apart.op != "Reshape":
            return None
        shape, again = self.constants.get(apart.inputs[1]), self.made.get(back.inputs[1])
        sizes = shape.read().tolist() if shape is not None and shape.shape == (3,) else []
        if again is None or again.op != "Shape" or again.inputs[0] != apart.inputs[0] or any(again.attributes.values()):
            return None
        if any(back.attributes.values()) or any(apart.attributes.values()) or sizes[::2] != [0, -1]:
            return None
        plain = [self.constants.get(i) for i in inner.inputs[1:]]
        if any(c is None or not (c.read() == value).all() for c, value in zip(plain, (1.0, 0.0), strict=True)):
            return None
        return apart.inputs[0], sizes[1], inner.attributes.get("epsilon", 1e-5)

    def _by_channel(self, name: str) -> int | None:
        """How many channels a constant has a number for, in a shape as [c, 1, 1]."""
        constant = self.constants.get(name)
        if constant is None or len(constant.shape) < 2 or constant.count != constant.shape[0]:
            return None
        return constant.shape[0]

    def _last_axis(self, node: Node) -> bool:
        axes = node.attributes.get("axes")
        if axes is None and len(node.inputs) > 1:
            constant = self.constants.get(node.inputs[1])
            axes = None if constant is None else tuple(int(a) for a in constant.read().ravel())
        return axes is not None and tuple(axes) == (-1,) and node.attributes.get("keepdims", 1) == 1


def _number(constant: Constant | None) -> float | None:
    return float(constant.read().ravel()[0]) if constant is not None and constant.count == 1 else None
