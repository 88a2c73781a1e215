"""A graph as ONNX has it, frozen and without protobuf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from axon.base.data import dataclass

Path: TypeAlias = "tuple[str, ...]"  # of a module or a weight: ("encoder", "layer", "0")


TRANSPOSED = "^T"  # at the end of the name of a constant that is another transposed
PART = "["  # in the name of a constant that is a part of another, before which part: "in_proj_weight[0, 0:24]"


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor that the file holds. `read` brings it in, each time anew: what is large is not kept."""

    name: str
    element: str  # as Axon calls it
    shape: tuple[int, ...]
    read: Callable[[], Any]

    @property
    def count(self) -> int:
        total = 1
        for extent in self.shape:
            total *= extent
        return total


@dataclass(frozen=True, slots=True)
class Node:
    """An operator applied to values by name; "" stands for an input that is left out."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    scope: Path = ()  # the module that it belongs to, as far as the exporter says so


@dataclass(frozen=True, slots=True)
class Port:
    """An input of the graph, or a result."""

    name: str
    element: str
    dims: tuple[str | int | None, ...] | None  # a name or an expression of names; None where the graph does not say


@dataclass(frozen=True, slots=True)
class Graph:
    name: str
    opset: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    classes: Mapping[Path, str]  # of modules, where the exporter says so: "BertSelfAttention"
