"""Random well-typed programs with arguments and the values that NumPy gives for them.

A program is one function `main`: parameters, of which some are annotated, then a chain of `val`s, each made from the tensors
before it by one of the PRODUCTIONS, and a result. See `scalars` for what stands inside comprehensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from axon.base.element import Element
from tests.properties.declared import ASIDE, Aside
from tests.properties.indexed import INDEXED, Indexed
from tests.properties.maker import Declared
from tests.properties.scalars import NARROW, Tensor
from tests.properties.sizes import Size, named, number
from tests.properties.whole import WHOLE, Whole

SIZES = (0, 1, 2, 3, 5)
DIMENSIONS = ("n", "m", "k", "E", "lambda", "h", "I", "class")
PARAMETERS = ("x", "y", "z", "S", "None", "w", "def", "Q")

Annotated = tuple[Tensor, bool]  # a parameter, and whether its type is written


@dataclass
class Program:
    text: str
    explicit: tuple[int, ...]
    arguments: tuple[Any, ...]  # arrays, and tuples and records of them
    expected: Any  # the result's structure with Tensors as leaves
    valid: bool  # whether all that the program needs of its sizes holds; if not, it may be refused
    outside: bool  # whether the evaluation left a tensor


def leaves(argument: Any) -> list[Any]:
    """The arrays of an argument."""
    match argument:
        case tuple():
            return [leaf for part in argument for leaf in leaves(part)]
        case dict():
            return [leaf for part in argument.values() for leaf in leaves(part)]
        case _:
            return [argument]


def programs() -> st.SearchStrategy[Program]:
    return st.composite(lambda draw: Programs(draw).program())()


class Programs(Indexed, Whole, Aside):
    def program(self) -> Program:
        scope = self.scope
        dims = [named(DIMENSIONS[n], scope.pick(SIZES)) for n in range(scope.pick((1, 2, 3)))]
        count = scope.pick((0,) * 7 + (1, 1, 2))
        explicit = [named(name, scope.pick((1, 2, 3))) for name in ("g", "G_")[:count]]
        params = [self.parameter(n, dims) for n in range(scope.pick((1, 2, 3)))]
        if scope.chance(40):
            params.append(self.indices_parameter(params))
        for d in explicit:
            scope.nameable[d.text] = d.value
        texts: list[str] = []
        for tensor, annotated in params:
            if annotated:
                inner = f"[{', '.join(s.text for s in tensor.shape)}]" if tensor.shape else ""
                texts.append(f"({tensor.text} : {tensor.element.value}{inner})")
                for s in tensor.shape:
                    if s.text.isidentifier():
                        scope.nameable[s.text] = s.value
            else:
                texts.append(tensor.text)
        for tensor, annotated in params:  # a size in an annotation, such as 2 * n, needs its names determined
            if annotated and any(not scope.can_name(s) for s in tensor.shape):
                for s in tensor.shape:
                    for name in s.names - scope.nameable.keys():
                        texts.append(f"(_ : f32[{name}])")
                        value = next(d.value for d in dims if d.text == name)
                        params.append((self.data("_", Element.F32, (named(name, value),)), True))
                        scope.nameable[name] = value
        texts, arguments, params = self.structured(texts, params)
        scope.tensors = [t for t, _ in params if t.text != "_"]
        declared: list[Declared] = []
        for _ in range(scope.pick((1, 1, 2, 3, 5))):
            made = self.production(PRODUCTIONS)
            if made is not None:
                declared.append(made)
            if self.outside or not all(scope.facts):  # a call of it is refused: the values from here on mean nothing
                break
        result, expected = self.result(len(params))
        body = result
        if declared:
            vals = "\n      ".join(f"val {d.pattern} = {d.text}" for d in declared)
            body = f"\n  let {vals}\n  in {result} end"
        given = f"{{{', '.join(d.text for d in explicit)}}} " if explicit else ""
        head = f"fun main {given}{' '.join(texts)}{self.declared_result(expected)} = {body}"
        text = "\n".join([*self.helpers.values(), head]) + "\n"
        return Program(text, tuple(d.value for d in explicit), tuple(arguments), expected, all(scope.facts), self.outside)

    def structured(self, texts: list[str], params: list[Annotated]) -> tuple[list[str], list[Any], list[Annotated]]:
        """Two neighbouring parameters may become one, a tuple or a record, which is a pattern or has a name of its own."""
        arguments: list[Any] = [t.array for t, _ in params]
        if len(params) < 2 or not self.scope.chance(35):
            return texts, arguments, params
        k = self.scope.pick(range(len(params) - 1))
        (a, first), (b, second) = params[k : k + 2]
        record = self.scope.chance(50)
        keys = ("left", "for_") if record else ("1", "2")
        if first and second and "_" not in (a.text, b.text) and self.scope.chance(60):
            types = [text[1:-1].partition(" : ")[2] for text in texts[k : k + 2]]
            inner = f"{{ {keys[0]} : {types[0]}, {keys[1]} : {types[1]} }}" if record else f"({types[0]}, {types[1]})"
            text = f"(given : {inner})"
            named_parts = [(replace(a, text=f"given.{keys[0]}"), True), (replace(b, text=f"given.{keys[1]}"), True)]
            params = [*params[:k], *named_parts, *params[k + 2 :]]
        else:
            text = f"{{ {keys[0]} = {texts[k]}, {keys[1]} = {texts[k + 1]} }}" if record else f"({texts[k]}, {texts[k + 1]})"
        one: Any = dict(zip(keys, (a.array, b.array), strict=True)) if record else (a.array, b.array)
        return [*texts[:k], text, *texts[k + 2 :]], [*arguments[:k], one, *arguments[k + 2 :]], params

    def declared_result(self, expected: Any) -> str:
        if isinstance(expected, Tensor) and all(self.scope.can_name(s) for s in expected.shape) and self.scope.chance(25):
            inner = f"[{', '.join(s.text for s in expected.shape)}]" if expected.shape else ""
            return f" : {expected.element.value}{inner}"
        return ""

    def result(self, params: int) -> tuple[str, Any]:
        """The last tensor, or several in a tuple or a record."""
        tensors = self.scope.tensors
        made = tensors[params:] or tensors
        last = made[-1] if made else tensors[-1]
        way = self.scope.pick(("one", "one", "tuple", "record"))
        if way == "one" or not tensors:
            return last.text, last
        other = self.scope.pick(tensors)
        if way == "tuple":
            return f"({last.text}, {other.text})", (last, other)
        return f"{{ out = {last.text}, for_ = {other.text} }}", {"out": last, "for_": other}

    def parameter(self, position: int, dims: Sequence[Size]) -> tuple[Tensor, bool]:
        scope = self.scope
        element = scope.pick((Element.F32, Element.F32, Element.I32, Element.F64, Element.BOOL, Element.I64, *NARROW))
        rank = scope.pick((1, 2, 1, 0, 3))
        annotated = rank == 0 or scope.chance(50)
        shape: list[Size] = []
        for _ in range(rank):
            size = scope.pick(list(dims))
            if annotated:
                match scope.pick(("plain",) * 6 + ("double", "one", "more", "literal")):
                    case "double":
                        size = size * 2
                    case "one":
                        size = number(1)
                    case "more":
                        size = size + 1
                    case "literal":
                        size = number(scope.pick((2, 3)))
            shape.append(size)
        return self.data(PARAMETERS[position], element, tuple(shape), ranked=annotated), annotated

    def data(self, name: str, element: Element, shape: tuple[Size, ...], ranked: bool = True, high: int | None = None) -> Tensor:
        seed = self.draw(st.integers(0, 5))
        extents = tuple(s.value for s in shape)
        rng = np.random.default_rng(seed)
        low, limit = (0, high) if high is not None else (0, 2) if element.is_unsigned or element is Element.BOOL else (-3, 4)
        array = rng.integers(low, max(limit, low + 1), extents).astype(element.dtype)
        return Tensor(name, element, shape, np.asarray(array), 3.0 if high is None else float(max(high, 1)), True, ranked)

    def indices_parameter(self, params: Sequence[tuple[Tensor, bool]]) -> tuple[Tensor, bool]:
        """A vector of integers that index a dimension of some parameter, if that has elements."""
        sizes = [s for t, _ in params for s in t.shape] or [number(2)]
        over = self.scope.pick(sizes)
        length = self.scope.pick(sizes)
        annotated = any(isinstance(s, Size) and not s.text.isidentifier() for s in (length,)) or self.scope.chance(50)
        return self.data("ids", Element.I32, (length,), ranked=annotated, high=over.value), annotated


PRODUCTIONS = (*INDEXED, *WHOLE, *ASIDE)
