"""What the productions of generated programs share: names, vals, tables of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from axon.base.element import Element
from tests.properties.scalars import WIDE, Draw, Index, Outside, Scalar, Scope, Tensor
from tests.properties.sizes import Size


@dataclass
class Declared:
    """A val: its text and the tensors that it defines."""

    pattern: str
    text: str


@dataclass
class Maker:
    draw: Draw
    scope: Scope = field(init=False)
    outside: bool = False
    helpers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scope = Scope(self.draw)

    def production(self, productions: Sequence[Callable[[Any], Declared | None]]) -> Declared | None:
        """A new val by one of some productions; what a production that gives up has done is undone."""
        for _ in range(4):
            facts, outside, tensors = len(self.scope.facts), self.outside, len(self.scope.tensors)
            found = self.scope.pick(productions)(self)
            if found is not None:
                return found
            del self.scope.facts[facts:], self.scope.tensors[tensors:]
            self.outside = outside
        return None

    def name(self) -> str:
        name = self.scope.fresh("a b c d lambda_ sympy Integer o_ v_")
        self.scope.taken.add(name)
        return name

    def define(self, text: str, tensor: Tensor) -> Declared:
        name = self.name()
        self.scope.tensors.append(
            Tensor(name, tensor.element, tensor.shape, tensor.array, tensor.bound, tensor.exact, tensor.ranked)
        )
        return Declared(name, text)

    def table(self, indices: Sequence[Index], body: Scalar, tail: Sequence[Size] = ()) -> Tensor:
        """A comprehension's value, element by element."""
        shape = tuple(s for _, s in indices)
        out = np.zeros(tuple(max(s.value, 0) for s in shape), body.element.dtype)
        for at in np.ndindex(out.shape):
            try:
                out[at] = body.value(dict(zip((n for n, _ in indices), at, strict=True)))
            except Outside:
                self.outside = True
        return Tensor("", body.element, shape, out, body.bound, body.exact)

    def element(self) -> Element:
        return self.scope.pick(list(dict.fromkeys([*(t.element for t in self.scope.tensors), Element.F32, *WIDE])))

    def indices(self, most: int = 3) -> list[Index]:
        scope = self.scope
        sizes = scope.sizes()
        if not sizes:
            return []
        found = [(scope.index_name(), scope.pick(sizes)) for _ in range(scope.draw(st.integers(1, most)))]
        return found if np.prod([max(s.value, 1) for _, s in found]) <= 150 else found[:1]

    def ranked(self, least: int = 0) -> list[Tensor]:
        return [t for t in self.scope.tensors if t.ranked and t.rank >= least and t.array.size <= 400]
