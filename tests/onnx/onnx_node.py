"""A node of ONNX as a program of Axon: what a template reads of its node, and what it says.

A template is a function of a `Node` that gives the text of an expression. Its tensors are parameters `x0`, `x1`, …, annotated with
the element types and sizes of the case; inputs that ONNX uses as sizes (axes, a new shape) become literals, since they decide the
result's rank or shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from axon.base.element import Element, of_dtype


class NotOffered(Exception):
    """A form of an operator that Axon does not offer; the text says which."""


class NoElement(NotOffered):
    """An element type that Axon does not have."""


Template = Callable[["Node"], str]
TEMPLATES: dict[str, Template] = {}


def template(*operators: str) -> Callable[[Template], Template]:
    def register(f: Template) -> Template:
        for operator in operators:
            assert operator not in TEMPLATES, operator
            TEMPLATES[operator] = f
        return f

    return register


@dataclass
class Node:
    """One node with its inputs as arrays (None: left out), and the program that a template makes of them."""

    proto: onnx.NodeProto
    inputs: Sequence[Any]
    results: Sequence[np.ndarray[Any, Any] | None]  # what the case expects; read for element types alone
    version: int
    domain: str = ""
    used: dict[int, str] = field(default_factory=dict)
    imports: dict[str, None] = field(default_factory=dict)
    vals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        schema = onnx.defs.get_schema(self.proto.op_type, self.version, self.proto.domain)
        self._defaults = {
            name: onnx.helper.get_attribute_value(a.default_value) for name, a in schema.attributes.items() if a.default_value.name
        }
        self._own = {a.name: onnx.helper.get_attribute_value(a) for a in self.proto.attribute}
        self._attributes = self._defaults | self._own

    @property
    def operator(self) -> str:
        return self.proto.op_type

    def a(self, name: str, default: Any = None) -> Any:
        """An attribute, or what stands for it in the operator's definition."""
        found = self._attributes.get(name, default)
        return found.decode() if isinstance(found, bytes) else found

    def given(self, name: str) -> bool:
        """Whether the node has an attribute of its own that differs from the one in the operator's definition."""
        return name in self._own and self._own[name] != self._defaults.get(name)

    def has(self, i: int) -> bool:
        return i < len(self.inputs) and self.inputs[i] is not None

    def x(self, i: int = 0) -> str:
        """An input as a parameter of the program."""
        self.element(i)
        return self.used.setdefault(i, f"x{i}")

    def shape(self, i: int = 0) -> tuple[int, ...]:
        return tuple(np.shape(self.inputs[i]))

    def rank(self, i: int = 0) -> int:
        return len(self.shape(i))

    def element(self, i: int = 0) -> Element:
        return element(self.inputs[i])

    def whole(self, i: int) -> list[int]:
        """An input of integers that decides sizes: a literal."""
        return [int(v) for v in np.reshape(self.inputs[i], -1)]

    def axes(self, i: int | None = None, name: str = "axes") -> list[int] | None:
        """Axes, from an input or an attribute, counted from the front."""
        given = self.whole(i) if i is not None and self.has(i) else self.a(name)
        return None if given is None else [int(axis) % max(self.rank(), 1) for axis in given]

    def axis(self, default: int = 0) -> int:
        return int(self.a("axis", default)) % max(self.rank(), 1)

    def result(self, i: int = 0) -> Element:
        """The element type of a result, which an attribute or an input decides in ONNX."""
        return element(self.results[i])

    def wants(self, i: int) -> bool:
        """Whether the node has a result of this number."""
        return i < len(self.proto.output) and bool(self.proto.output[i])

    def library(self, name: str) -> str:
        """A function of the library, `nn.relu`."""
        self.imports[name.split(".")[0]] = None
        return name

    def val(self, text: str) -> str:
        """A name for an expression."""
        name = f"t{len(self.vals)}"
        self.vals.append(f"val {name} = {text}")
        return name

    def fun(self, name: str, text: str) -> None:
        self.vals.append(f"fun {name} {text}")

    def program(self) -> tuple[str, list[Any]]:
        """The text of the program, with one function `main`, and its arguments."""
        body = TEMPLATES[self.operator](self)
        if self.vals:
            body = "\n  let " + "\n      ".join(self.vals) + f"\n  in {body} end"
        given = dict(sorted(self.used.items()))
        parameters = [f"({name} : {typed(self.inputs[i])})" for i, name in given.items()]
        head = f"fun main {' '.join(parameters)} =" if parameters else "val main ="
        imports = "".join(f"import {name}\n" for name in self.imports)
        return f"{imports}{head} {body}\n", [np.asarray(self.inputs[i]) for i in given]


def element(value: Any) -> Element:
    if not isinstance(value, np.ndarray | np.generic):
        raise NoElement("a sequence, an optional or nothing")
    found = of_dtype(np.asarray(value).dtype)
    if found is None:
        raise NoElement(str(np.asarray(value).dtype))
    return found


def typed(value: Any) -> str:
    return f"{element(value).value}{shaped(np.shape(value))}"


def shaped(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]" if shape else ""


# ── what templates say ──────────────────────────────────────────────────────────────────────────────────────────────────


def names(rank: int, letter: str = "i") -> list[str]:
    return [f"{letter}{n}" for n in range(rank)]


def at(tensor: str, subscripts: Sequence[str], default: str | None = None) -> str:
    """One element; a tensor of rank 0 is its element."""
    if not subscripts:
        return tensor
    return f"{tensor}[{', '.join(subscripts)}{f' | {default}' if default is not None else ''}]"


def over(indices: Sequence[str], shape: Sequence[int], body: str) -> str:
    """A tensor of a shape, element by element."""
    if not shape:
        return body
    return f"for {bounds(indices, shape)} => {body}"


def bounds(indices: Sequence[str], shape: Sequence[int]) -> str:
    return ", ".join(f"{i} < {n}" for i, n in zip(indices, shape, strict=True))


def stretched(shape: Sequence[int], indices: Sequence[str]) -> list[str]:
    """The subscripts of a tensor of a shape under the indices of what it broadcasts to."""
    return ["0" if n == 1 else i for i, n in zip(indices[len(indices) - len(shape) :], shape, strict=True)]


def number(value: float, of: Element) -> str:
    """A literal."""
    if of is Element.BOOL:
        return "true" if value else "false"
    if not of.is_float:
        return f"({int(value)})" if value < 0 else str(int(value))
    if np.isnan(value):
        return "nan"
    text = "inf" if np.isinf(value) else repr(abs(float(value)))
    return f"(-{text})" if value < 0 else text


def least(of: Element) -> str:
    """What every number is at least: what a maximum of nothing would be."""
    if of.is_float:
        return "(-inf)"
    return number(int(np.iinfo(of.dtype).min), of) if of is not Element.I64 else "(-9223372036854775807 - 1)"


def reshaped(n: Node, text: str, old: Sequence[int], new: Sequence[int]) -> str:
    """The same elements in row-major order in another shape."""
    assert np.prod(old) == np.prod(new), f"{old} {new}"
    if not old:
        return over(names(len(new), "r"), new, text)
    name = text if text.isidentifier() else n.val(text)
    indices = names(len(new), "r")
    if 0 in new:
        return over(indices, new, at(name, ["0" for _ in old], "0"))
    place = "0"
    for i, size in zip(indices, new, strict=True):
        place = f"({place} * {size} + {i})" if place != "0" else i
    subscripts, below = [], 1
    for size in reversed(old):
        subscripts.append("0" if size == 1 else f"{place} / {below} % {size}" if below > 1 else f"{place} % {size}")
        below *= size
    return over(indices, new, at(name, subscripts[::-1]))


def chosen(choices: Sequence[str], index: str, starts: Sequence[int]) -> str:
    """An `if` that finds the part in which an index lies; part k begins at starts[k]."""
    text = choices[-1]
    for choice, start in zip(choices[-2::-1], starts[:0:-1], strict=True):
        text = f"if {index} < {start} then {choice} else {text}"
    return text


def wrapped(index: str, size: int) -> str:
    """An index from data, which counts from the end where it is negative."""
    return f"(if {index} < 0 then {index} + {size} else {index})"
