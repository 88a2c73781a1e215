"""Random well-typed programs with arguments and the values that NumPy gives for them.

A program is one function `main`: parameters, of which some are annotated, then a chain of `val`s, each made from the tensors
before it by one of the PRODUCTIONS, and a result. See `scalars` for what stands inside comprehensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scalars import (
    EXACT,
    NARROW,
    WIDE,
    Draw,
    Index,
    Outside,
    Scalar,
    Scope,
    Tensor,
    binders,
    constant,
    firm,
    quiet,
    reduced,
    scalar,
)
from sizes import Size, named, number

from axon.element import Element

SIZES = (0, 1, 2, 3, 5)
DIMENSIONS = ("n", "m", "k", "E", "lambda", "h", "I", "class")
PARAMETERS = ("x", "y", "z", "S", "None", "w", "def", "Q")


@dataclass
class Program:
    text: str
    explicit: tuple[int, ...]
    arguments: tuple[Any, ...]
    expected: Any  # the result's structure with Tensors as leaves
    valid: bool  # whether all that the program needs of its sizes holds; if not, it may be refused
    outside: bool  # whether the evaluation left a tensor


def programs() -> st.SearchStrategy[Program]:
    return st.composite(lambda draw: Maker(draw).program())()


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

    def program(self) -> Program:
        scope = self.scope
        dims = [named(DIMENSIONS[n], scope.pick(SIZES)) for n in range(scope.pick((1, 2, 3)))]
        explicit = [named("g", scope.pick((1, 2, 3)))] if scope.chance(20) else []
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
        scope.tensors = [t for t, _ in params if t.text != "_"]
        declared: list[Declared] = []
        for _ in range(scope.pick((1, 1, 2, 3))):
            made = self.production()
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
        return Program(
            text, tuple(d.value for d in explicit), tuple(t.array for t, _ in params), expected, all(scope.facts), self.outside
        )

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

    # ── parameters ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
        low, limit = (0, high) if high is not None else (0, 2) if element in (Element.BOOL, Element.U8) else (-3, 4)
        array = rng.integers(low, max(limit, low + 1), extents).astype(element.dtype)
        return Tensor(name, element, shape, np.asarray(array), 3.0 if high is None else float(max(high, 1)), True, ranked)

    def indices_parameter(self, params: Sequence[tuple[Tensor, bool]]) -> tuple[Tensor, bool]:
        """A vector of integers that index a dimension of some parameter, if that has elements."""
        sizes = [s for t, _ in params for s in t.shape] or [number(2)]
        over = self.scope.pick(sizes)
        length = self.scope.pick(sizes)
        annotated = any(isinstance(s, Size) and not s.text.isidentifier() for s in (length,)) or self.scope.chance(50)
        return self.data("ids", Element.I32, (length,), ranked=annotated, high=over.value), annotated

    # ── making vals ────────────────────────────────────────────────────────────────────────────────────────────────────

    def production(self) -> Declared | None:
        for _ in range(4):
            name = self.scope.pick(list(PRODUCTIONS))
            facts, outside = len(self.scope.facts), self.outside
            found = PRODUCTIONS[name](self)
            if found is not None:
                return found
            del self.scope.facts[facts:]
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

    # ── productions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def comprehension(self) -> Declared | None:
        indices = self.indices()
        body = scalar(self.scope, self.element(), indices, (), 3)
        text = binders(self.scope, indices, body)
        if not indices or text is None:
            return None
        return self.define(f"for {text.removeprefix('for ')} => {firm(body)}", self.table(indices, body))

    def nested(self) -> Declared | None:
        """A comprehension of tensors, or of tuples of tensors."""
        outer, inner = self.indices(1), self.indices(1)
        if not outer or not inner:
            return None
        body = scalar(self.scope, self.element(), [*outer, *inner], (), 2)
        first, second = binders(self.scope, outer, body), binders(self.scope, inner, body)
        if first is None or second is None:
            return None
        text = f"for {second.removeprefix('for ')} => {firm(body)}"
        table = self.table([*outer, *inner], body)
        if self.scope.chance(40):
            other = scalar(self.scope, self.element(), outer, (), 1)
            name = self.name()
            inside = self.table(outer, other)
            self.scope.tensors.append(Tensor(f"{name}.1", table.element, table.shape, table.array, table.bound, table.exact))
            self.scope.tensors.append(Tensor(f"{name}.2", inside.element, inside.shape, inside.array, inside.bound, inside.exact))
            return Declared(name, f"for {first.removeprefix('for ')} => ({text}, {firm(other)})")
        return self.define(f"for {first.removeprefix('for ')} => {text}", table)

    def total(self) -> Declared | None:
        body = scalar(self.scope, self.element(), (), (), 3)
        return self.define(firm(body), self.table((), body))

    def affine(self) -> Declared | None:
        """An index that takes the largest range that stays inside: x[c * i + d]."""
        vectors = [t for t in self.scope.tensors if t.rank == 1]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        step, start = self.scope.pick((1, 2, 3)), self.scope.pick((0, 1, 2))
        if (step, start) == (1, 0):
            start = 1
        (size,) = t.shape
        if size.number is not None and size.number < start + 1:
            return None
        extent = (size - (1 + start)) // step + 1
        self.scope.facts.append(extent.value >= 0)
        index = "i" if step == 1 else f"{step} * i"
        text = f"for i => {t.text}[{index}{f' + {start}' if start else ''}]"
        array = t.array[start::step]
        return self.define(text, Tensor("", t.element, (extent,), array, t.bound, t.exact))

    def convolution(self) -> Declared | None:
        vectors = [t for t in self.scope.tensors if t.rank == 1 and t.element not in NARROW and t.element is not Element.BOOL]
        pairs = [(a, b) for a in vectors for b in vectors if a.element is b.element and a.shape[0].names and b.shape[0].names]
        pairs = [(a, b) for a, b in pairs if a.shape[0].key != b.shape[0].key and a.shape[0].names - b.shape[0].names]
        if not pairs:
            return None
        x, k = self.scope.pick(pairs)
        extent = x.shape[0] - k.shape[0] + 1
        self.scope.facts.append(extent.value >= 0)
        bound = x.bound * k.bound * max(k.array.size, 1)
        if bound > EXACT[x.element]:
            return None
        out = np.zeros(max(extent.value, 0), x.element.dtype)
        for p in range(out.size):
            out[p] = reduced("sum", [x.array[p + r] * k.array[r] for r in range(k.array.size)], x.element)
        text = f"for p => sum r => {x.text}[p + r] * {k.text}[r]"
        return self.define(text, Tensor("", x.element, (extent,), out, bound, x.exact and k.exact))

    def windows(self) -> Declared | None:
        vectors = [t for t in self.scope.tensors if t.rank == 1 and (t.shape[0].number is None or t.shape[0].number >= 2)]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        extent = t.shape[0] - 1
        self.scope.facts.append(extent.value >= 0)
        rows = [[t.array[i], t.array[i + 1]] for i in range(max(extent.value, 0))]
        array = np.array(rows, t.element.dtype).reshape(max(extent.value, 0), 2)
        return self.define(f"for i, r < 2 => {t.text}[i + r]", Tensor("", t.element, (extent, number(2)), array, t.bound, t.exact))

    def gather(self) -> Declared | None:
        """x[ids[i]], where the data may be outside: then a call stops with an error."""
        sources = [t for t in self.scope.tensors if t.rank >= 1]
        ids = [t for t in self.scope.tensors if t.element is Element.I32 and t.rank == 1]
        if not sources or not ids:
            return None
        x, at = self.scope.pick(sources), self.scope.pick(ids)
        inside = bool(((at.array >= 0) & (at.array < x.shape[0].value)).all())
        if not inside:
            self.outside = True
            array = np.zeros((at.array.size, *x.array.shape[1:]), x.element.dtype)
        else:
            array = x.array[at.array]
        rest = ", .." if x.rank > 1 else ""
        if x.rank > 1 and not x.ranked:
            return None
        return self.define(
            f"for i => {x.text}[{at.text}[i]{rest}]", Tensor("", x.element, (at.shape[0], *x.shape[1:]), array, x.bound, x.exact)
        )

    def slice(self) -> Declared | None:
        sources = [t for t in self.ranked(1) if t.shape[0].number is None or t.shape[0].number >= 2]
        if not sources:
            return None
        t = self.scope.pick(sources)
        size = t.shape[0]
        rest = ", .." if t.rank > 1 else ""
        ways = ["from", "to", "all"] + (["middle", "step"] if self.scope.can_name(size) else [])
        match self.scope.pick(ways):
            case "from":
                self.scope.facts.append(size.value >= 1)
                text, shape, array = "1 :", size - 1, t.array[1:]
            case "to":
                self.scope.facts.append(size.value >= 2)
                text, shape, array = "0 : 2", number(2), t.array[:2]
            case "middle":
                self.scope.facts.append(size.value >= 2)
                text, shape, array = f"1 : {(size - 1).text}", size - 2, t.array[1 : max(size.value - 1, 0)]
            case "step":
                text, shape, array = f"0 : {size.text} : 2", (size + 1) // 2, t.array[::2]
            case _:
                text, shape, array = ":", size, t.array
        return self.define(f"{t.text}[{text}{rest}]", Tensor("", t.element, (shape, *t.shape[1:]), array, t.bound, t.exact))

    def flatten(self) -> Declared | None:
        sources = [t for t in self.scope.tensors if t.rank == 2]
        if not sources:
            return None
        t = self.scope.pick(sources)
        shape = (t.shape[0] * t.shape[1],)
        if self.scope.chance(50):
            return self.define(f"for (i, j) => {t.text}[i, j]", Tensor("", t.element, shape, t.array.reshape(-1), t.bound, t.exact))
        return self.define(f"for (j, i) => {t.text}[i, j]", Tensor("", t.element, shape, t.array.T.reshape(-1), t.bound, t.exact))

    def split(self) -> Declared | None:
        """One dimension as two: by a literal, or by a dimension that has a name."""
        sources = [t for t in self.scope.tensors if t.rank == 1]
        if not sources:
            return None
        t = self.scope.pick(sources)
        (size,) = t.shape
        by = self.scope.pick([number(2), number(3), *(named(n, v) for n, v in self.scope.nameable.items() if n == "g")])
        if size.number is not None and (by.number is None or size.number % by.number):
            return None
        if by.number and all(c % by.value == 0 for atoms, c in size.terms if atoms) and any(c % by.value for _, c in size.terms):
            return None  # 2 * n - 1 is never even
        divides = all(c % by.value == 0 for _, c in size.terms) if by.number else False
        self.scope.facts.append(by.value >= 1 and size.value % max(by.value, 1) == 0)
        inner = size.value // by.value
        rest = size // by.value if divides else named(f"({size.text} / {by.text})", inner)
        if not divides:
            rest = Size(rest.terms, inner, size.names | {"?"})
        array = t.array[: by.value * inner].reshape(by.value, inner)
        if size.value != by.value * inner:
            self.outside = True
        text = f"for i < {by.text}, j => {t.text}[(i, j)]"
        return self.define(text, Tensor("", t.element, (by, rest), array, t.bound, t.exact))

    def lift(self) -> Declared | None:
        """A pointwise operation on whole tensors, which may broadcast."""
        a = self.scope.pick(self.scope.tensors)
        if a.element is Element.BOOL:
            return self.define(f"not {a.text}", Tensor("", a.element, a.shape, ~a.array, 1, True, a.ranked))
        partners = [b for b in self.scope.tensors if b.element is a.element and self._broadcasts(a, b)]
        b = self.scope.pick(partners)
        op = self.scope.pick(("+", "*") if a.element is Element.U8 else ("+", "-", "*"))
        bound = a.bound * b.bound if op == "*" else a.bound + b.bound
        if bound > EXACT[a.element] or (a.element in NARROW and not (a.exact and b.exact)) or not np.isfinite(bound):
            return None
        shape = self._joined(a, b)
        meaning: Callable[[Any, Any], Any] = {"+": np.add, "-": np.subtract, "*": np.multiply}[op]
        array = np.asarray(quiet(meaning, a.array, b.array)).astype(a.element.dtype)
        ranked = a.ranked or b.ranked
        return self.define(f"{a.text} {op} {b.text}", Tensor("", a.element, shape, array, bound, a.exact and b.exact, ranked))

    @staticmethod
    def _broadcasts(a: Tensor, b: Tensor) -> bool:
        if [s.key for s in a.shape] == [s.key for s in b.shape]:
            return True
        if not (a.ranked and b.ranked):
            return False
        return all(x.key == y.key or 1 in (x.number, y.number) for x, y in zip(a.shape[::-1], b.shape[::-1], strict=False))

    @staticmethod
    def _joined(a: Tensor, b: Tensor) -> tuple[Size, ...]:
        longer, shorter = (a.shape, b.shape) if a.rank >= b.rank else (b.shape, a.shape)
        lead = len(longer) - len(shorter)
        return (*longer[:lead], *(y if x.number == 1 else x for x, y in zip(longer[lead:], shorter, strict=True)))

    def matmul(self) -> Declared | None:
        tensors = [t for t in self.ranked(2) if t.element not in NARROW and t.element is not Element.BOOL]
        pairs = [
            (a, b) for a in tensors for b in tensors
            if a.element is b.element and a.shape[-1].key == b.shape[-2].key
            and (b.rank == 2 or [s.key for s in a.shape[:-2]] == [s.key for s in b.shape[:-2]])
        ]  # fmt: skip
        if not pairs:
            return None
        a, b = self.scope.pick(pairs)
        bound = a.bound * b.bound * max(a.shape[-1].value, 1)
        if bound > EXACT[a.element] or not np.isfinite(bound):
            return None
        shape = (*a.shape[:-1], b.shape[-1])
        return self.define(f"{a.text} @ {b.text}", Tensor("", a.element, shape, a.array @ b.array, bound, a.exact and b.exact))

    def runs(self) -> Declared | None:
        """Shape variables: all elements, or all rows."""
        sources = [t for t in self.scope.tensors if t.element is not Element.BOOL and t.element not in NARROW]
        if not sources:
            return None
        t = self.scope.pick(sources)
        one = constant(1, t.element)
        match self.scope.pick(("map", "sum", "rows", "swap")):
            case "map":
                array = quiet(np.add, t.array, one.value({})).astype(t.element.dtype)
                text = f"for ..i => {t.text}[..i] + {one.text}"
                return self.define(text, Tensor("", t.element, t.shape, array, t.bound + 1, t.exact, t.ranked))
            case "sum" if t.bound * max(t.array.size, 1) < EXACT[t.element]:
                value = reduced("sum", list(t.array.reshape(-1)), t.element)
                return self.define(
                    f"sum ..i => {t.text}[..i]",
                    Tensor("", t.element, (), np.asarray(value), t.bound * max(t.array.size, 1), t.exact),
                )
            case "rows" if t.rank >= 1 and t.bound * max(t.array.size, 1) < EXACT[t.element]:
                array = t.array.sum(-1).astype(t.element.dtype)
                text = f"for ..i => sum j => {t.text}[..i, j]"
                return self.define(
                    text,
                    Tensor("", t.element, t.shape[:-1], np.asarray(array), t.bound * max(t.shape[-1].value, 1), t.exact, t.ranked),
                )
            case "swap" if t.rank >= 2:
                text = f"for ..i j k => {t.text}[..i, k, j]"
                shape = (*t.shape[:-2], t.shape[-1], t.shape[-2])
                return self.define(text, Tensor("", t.element, shape, np.swapaxes(t.array, -1, -2), t.bound, t.exact, t.ranked))
        return None

    def cast(self) -> Declared | None:
        sources = [t for t in self.scope.tensors if t.exact and t.bound < 100 and np.isfinite(t.bound)]
        if not sources:
            return None
        t = self.scope.pick(sources)
        to = self.scope.pick([e for e in (*WIDE, Element.F16) if EXACT[e] >= t.bound])
        return self.define(f"cast {to.value} {t.text}", Tensor("", to, t.shape, t.array.astype(to.dtype), t.bound, True, t.ranked))

    def literal(self) -> Declared | None:
        """An array of tensors of one shape, or of numbers."""
        scope = self.scope
        if scope.chance(50):
            element = scope.pick((Element.I32, Element.F32))
            values = [scope.draw(st.integers(-3, 3)) for _ in range(scope.pick((2, 3, 1)))]
            texts = ", ".join(constant(v, element).text.strip("()") for v in values)
            array = np.array(values, element.dtype)
            return self.define(f"[| {texts} |]", Tensor("", element, (number(len(values)),), array, 3.0, True))
        a = scope.pick(scope.tensors)
        b = scope.pick(
            [t for t in scope.tensors if t.element is a.element and [s.key for s in t.shape] == [s.key for s in a.shape]]
        )
        array = np.stack([a.array, b.array])
        return self.define(
            f"[| {a.text}, {b.text} |]",
            Tensor("", a.element, (number(2), *a.shape), array, max(a.bound, b.bound), a.exact and b.exact, a.ranked or b.ranked),
        )

    def choice(self) -> Declared | None:
        scope = self.scope
        c = scalar(scope, Element.BOOL, (), (), 2)
        a = scope.pick(scope.tensors)
        b = scope.pick(
            [t for t in scope.tensors if t.element is a.element and [s.key for s in t.shape] == [s.key for s in a.shape]]
        )
        try:
            array = a.array if c.value({}) else b.array
        except Outside:
            self.outside, array = True, a.array
        text = f"if {c.text} then {a.text} else {b.text}"
        return self.define(
            text, Tensor("", a.element, a.shape, array, max(a.bound, b.bound), a.exact and b.exact, a.ranked or b.ranked)
        )

    def join(self) -> Declared | None:
        """Two vectors one after the other, by a guard."""
        vectors = [t for t in self.scope.tensors if t.rank == 1 and self.scope.can_name(t.shape[0])]
        pairs = [(a, b) for a in vectors for b in vectors if a.element is b.element]
        if not pairs:
            return None
        a, b = self.scope.pick(pairs)
        n, m = a.shape[0], b.shape[0]
        less = f"({n.text})" if " " in n.text else n.text
        text = f"for i < {(n + m).text} => if i < {n.text} then {a.text}[i] else {b.text}[i - {less}]"
        array = np.concatenate([a.array, b.array])
        return self.define(text, Tensor("", a.element, (n + m,), array, max(a.bound, b.bound), a.exact and b.exact))

    def loop(self) -> Declared | None:
        """A scalar state; with `unfold` all of its values."""
        scope = self.scope
        vectors = [t for t in scope.tensors if t.rank == 1 and t.element in WIDE and t.array.size <= 5]
        if not vectors:
            return None
        t = scope.pick(vectors)
        (size,) = t.shape
        bound = (t.bound + 1) * (size.value + 1)
        if bound > EXACT[t.element]:
            return None
        start = constant(scope.pick((0, 1)), t.element)
        op, meaning = scope.pick(
            (("state + {}", lambda s, x: s + x), ("max state {}", np.maximum), ("{} - state", lambda s, x: x - s))
        )
        state = start.value({})
        states = []
        for x in t.array:
            state = t.element.dtype.type(quiet(meaning, state, x))
            states.append(state)
        ways = ["bare"] + (["bound"] if scope.can_name(size) else [])
        bind = "t" if scope.pick(ways) == "bare" else f"t < {size.text}"
        step = op.format(f"{t.text}[t]")
        if scope.chance(50):
            text = f"unfold (state = {start.text}) for {bind} => {step}"
            return self.define(text, Tensor("", t.element, (size,), np.array(states, t.element.dtype), bound, t.exact))
        text = f"loop (state = {start.text}) for {bind} => {step}"
        return self.define(text, Tensor("", t.element, (), np.asarray(state), bound, t.exact))

    def repeated(self) -> Declared | None:
        """A tensor as the state of a loop, with a tuple beside it."""
        tensors = [t for t in self.ranked() if t.element in WIDE and t.bound < 100]
        if not tensors:
            return None
        t = self.scope.pick(tensors)
        steps = self.scope.pick((2, 0, 1))
        array = quiet(np.multiply, t.array, t.element.dtype.type(2**steps)).astype(t.element.dtype)
        name = self.name()
        self.scope.tensors.append(Tensor(f"{name}.1", t.element, t.shape, array, t.bound * 4, t.exact))
        self.scope.tensors.append(Tensor(f"{name}.2", Element.I32, (), np.asarray(np.int32(steps)), 3, True))
        return Declared(name, f"loop (s = {t.text}, count = 0) for _ < {steps} => (s + s, count + 1)")

    def scan(self) -> Declared | None:
        vectors = [t for t in self.scope.tensors if t.rank in (1, 2) and t.element in WIDE and t.element is not Element.I64]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        bound = t.bound * max(t.shape[-1].value, 1)
        if bound > EXACT[t.element]:
            return None
        zero = constant(0, t.element).text
        array = np.cumsum(t.array, -1, dtype=t.element.dtype)
        lead = "i, " if t.rank == 2 else ""
        text = f"scan ((op +), {zero}) j => {t.text}[{lead}j]"
        if t.rank == 2:
            text = f"for i => {text}"
        return self.define(text, Tensor("", t.element, t.shape, array, bound, t.exact))

    def record(self) -> Declared | None:
        a, b = self.scope.pick(self.scope.tensors), self.scope.pick(self.scope.tensors)
        name = self.name()
        for part, t in (("left", a), ("right", b)):
            self.scope.tensors.append(Tensor(f"{name}.{part}", t.element, t.shape, t.array, t.bound, t.exact, t.ranked))
        return Declared(name, f"{{ left = {a.text}, right = {b.text} }}")

    def polymorphic(self) -> Declared | None:
        """A function used at two types."""
        sources = [t for t in self.scope.tensors if t.element is not Element.BOOL and t.bound * 4 <= EXACT[t.element]]
        if not sources:
            return None
        a, b = self.scope.pick(sources), self.scope.pick(sources)
        head, f = self.scope.pick(
            (
                ("fun twice f x = f (f x)", "twice (fn x => x + x)"),
                ("fun double2 x = let fun id y = y in id x + id x + id (x + x) end", "double2"),
                ("fun compose f g x = f (g x)", "compose (fn x => x + x) (fn x => x + x)"),
                ("fun apply (f, x) = f x", "(fn x => apply (fn y => y + y, x + x))"),
            )
        )
        self.helpers[head] = head
        name = self.name()
        for part, t in (("1", a), ("2", b)):
            array = quiet(lambda x: x + x + x + x, t.array).astype(t.element.dtype)
            self.scope.tensors.append(
                Tensor(f"{name}.{part}", t.element, t.shape, np.asarray(array), 4 * t.bound, t.exact, t.ranked)
            )
        return Declared(name, f"({f} {a.text}, {f} {b.text})")

    def mapped(self) -> Declared | None:
        """A higher-order function over the elements of a vector, or a function of scalars that lifts."""
        vectors = [t for t in self.scope.tensors if t.rank == 1]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        own = Scalar("e", t.element, lambda v: v["e"], t.bound, t.exact)
        body = scalar(self.scope, self.element(), (), [own], 2)
        array = np.zeros(t.array.shape, body.element.dtype)
        for n, x in enumerate(t.array):
            try:
                array[n] = body.value({"e": x})
            except Outside:
                self.outside = True
        made = Tensor("", body.element, t.shape, array, body.bound, body.exact)
        self.helpers["map"] = "fun map f x = for i => f x[i]"
        return self.define(f"map (fn e => {firm(body)}) {t.text}", made)

    def sort(self) -> Declared | None:
        vectors = [t for t in self.ranked(1) if t.exact and t.element is not Element.BOOL]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        if self.scope.chance(50):
            return self.define(f"sort {t.text}", Tensor("", t.element, t.shape, np.sort(t.array, -1, kind="stable"), t.bound, True))
        array = np.argsort(t.array, -1, kind="stable").astype(np.int32)
        return self.define(f"argsort {t.text}", Tensor("", Element.I32, t.shape, array, max(t.shape[-1].value, 1), True))

    def coerce(self) -> Declared | None:
        vectors = [t for t in self.ranked(1) if t.shape[0].names and t.rank == 1]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        to = self.scope.pick((2, 3))
        fits = t.shape[0].value == to
        if not fits:
            self.outside = True
        array = t.array if fits else np.zeros(to, t.element.dtype)
        return self.define(f"{t.text} as {t.element.value}[{to}]", Tensor("", t.element, (number(to),), array, t.bound, t.exact))

    def selected(self) -> Declared | None:
        """A size that only the data decide, which is summed away."""
        masks = [t for t in self.ranked(1) if t.element is Element.BOOL and t.rank == 1]
        if not masks:
            return None
        t = self.scope.pick(masks)
        value = np.int32(np.flatnonzero(t.array).sum())
        name = self.scope.index_name()
        text = f"let val ({name}_at : i32[{name}_k]) = nonzero {t.text} in sum i => {name}_at[i] end"
        return self.define(text, Tensor("", Element.I32, (), np.asarray(value), 20, True))

    def first(self) -> Declared | None:
        """x[0, ..]"""
        sources = [t for t in self.ranked(2) if t.shape[0].number is None or t.shape[0].number >= 1]
        if not sources:
            return None
        t = self.scope.pick(sources)
        self.scope.facts.append(t.shape[0].value >= 1)
        if t.shape[0].value < 1:
            self.outside = True
        array = t.array[0] if t.shape[0].value else np.zeros(t.array.shape[1:], t.element.dtype)
        return self.define(f"{t.text}[0, ..]", Tensor("", t.element, t.shape[1:], array, t.bound, t.exact))

    def outer(self) -> Declared | None:
        """A product binder over two tensors: every element with every element."""
        vectors = [t for t in self.scope.tensors if t.rank == 1 and t.element in WIDE]
        if not vectors:
            return None
        a = self.scope.pick(vectors)
        b = self.scope.pick([t for t in vectors if t.element is a.element])
        if a.bound * b.bound > EXACT[a.element] or not np.isfinite(a.bound * b.bound):
            return None
        pairs = [quiet(np.multiply, x, y) for x, y in product(a.array, b.array)]
        array = np.array(pairs, a.element.dtype)
        made = Tensor("", a.element, (a.shape[0] * b.shape[0],), array, a.bound * b.bound, a.exact and b.exact)
        return self.define(f"for (i, j) => {a.text}[i] * {b.text}[j]", made)


PRODUCTIONS: dict[str, Callable[[Maker], Declared | None]] = {
    f.__name__: f
    for f in (
        Maker.comprehension, Maker.total, Maker.affine, Maker.convolution, Maker.windows, Maker.gather, Maker.slice, Maker.flatten,
        Maker.split, Maker.lift, Maker.matmul, Maker.runs, Maker.cast, Maker.literal, Maker.choice, Maker.join, Maker.loop,
        Maker.repeated, Maker.scan, Maker.record, Maker.polymorphic, Maker.mapped, Maker.sort, Maker.coerce, Maker.selected,
        Maker.first, Maker.outer, Maker.nested,
    )
}  # fmt: skip
