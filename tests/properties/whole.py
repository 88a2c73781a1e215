"""Vals made of whole tensors, and of functions, tuples and records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from axon.base.element import Element
from tests.properties.maker import Declared, Maker
from tests.properties.scalars import EXACT, NARROW, WIDE, Outside, Tensor, constant, quiet, scalar
from tests.properties.sizes import Size, differ, named, number


class Whole(Maker):
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

    def lift(self) -> Declared | None:
        """A pointwise operation on whole tensors, which may broadcast."""
        a = self.scope.pick(self.scope.tensors)
        if a.element is Element.BOOL:
            return self.define(f"not {a.text}", Tensor("", a.element, a.shape, ~a.array, 1, True, a.ranked))
        partners = [b for b in self.scope.tensors if b.element is a.element and self._broadcasts(a, b)]
        b = self.scope.pick(partners)
        op = self.scope.pick(("+", "*") if a.element.is_unsigned else ("+", "-", "*"))
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
        if differ(t.shape[0], number(to)) or self.scope.divided & t.shape[0].names:  # which the checker refuses, or may
            return None
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

    def indexed_record(self) -> Declared | None:
        """A record of tensors, indexed as one."""
        sources = [t for t in self.ranked(1) if t.rank <= 2]
        pairs = [(a, b) for a in sources for b in sources if a.shape[0].key == b.shape[0].key]
        if not pairs:
            return None
        a, b = self.scope.pick(pairs)
        name = self.name()
        for part, t in (("left", a), ("right", b)):
            self.scope.tensors.append(Tensor(f"{name}.{part}", t.element, t.shape, t.array, t.bound, t.exact))
        rest = ", .." if a.rank > 1 or b.rank > 1 else ""
        return Declared(name, f"let val r = {{ right = {b.text}, left = {a.text} }} in for i => r[i{rest}] end")

    def iota(self) -> Declared | None:
        """A function with a dimension parameter, at a size that is written down."""
        sizes = [named(n, v) for n, v in self.scope.nameable.items()] + [number(3)]
        size = self.scope.pick(sizes) + self.scope.pick((0, 1))
        self.helpers["iota"] = "fun iota {count} = for i < count => i"
        made = Tensor("", Element.I32, (size,), np.arange(size.value, dtype=np.int32), max(size.value, 1), True)
        return self.define(f"iota {{{size.text}}}", made)

    def pattern(self) -> Declared | None:
        """Several names at once."""
        a, b, c = (self.scope.pick(self.scope.tensors) for _ in range(3))
        names = [self.name() for _ in range(3)]
        for name, t in zip(names, (a, b, c), strict=True):
            self.scope.tensors.append(Tensor(name, t.element, t.shape, t.array, t.bound, t.exact, t.ranked))
        return Declared(f"({names[0]}, {{ u = {names[1]}, v = {names[2]} }})", f"({a.text}, {{ v = {c.text}, u = {b.text} }})")

    def functions_in_data(self) -> Declared | None:
        """Functions in a record, and functions that give functions; they are gone after lowering."""
        sources = [t for t in self.scope.tensors if t.element is not Element.BOOL and t.bound * 2 <= EXACT[t.element]]
        if not sources:
            return None
        t = self.scope.pick(sources)
        array = quiet(lambda x: x + x, t.array).astype(t.element.dtype)
        text = self.scope.pick(
            (
                f"let val ops = {{ same = fn x => x, twice = fn x => x + x }} in ops.same (ops.twice {t.text}) end",
                f"let fun add u = fn v => u + v in add {t.text} {t.text} end",
                f"let fun flip f u v = f v u in flip (op +) {t.text} {t.text} end",
                f"let val (f, g) = (fn x => x, fn x => x + x) in {t.text} |> f |> g end",
                f"(fn (u, v) => u + v) ({t.text}, {t.text})",
            )
        )
        made = Tensor("", t.element, t.shape, np.asarray(array), 2 * t.bound, t.exact, t.ranked)
        return self.define(text, made)

    def states(self) -> Declared | None:
        """Every state of a loop over a tensor."""
        tensors = [t for t in self.ranked(1) if t.element in WIDE and t.bound < 100 and t.rank <= 2]
        if not tensors:
            return None
        t = self.scope.pick(tensors)
        steps = self.scope.pick((2, 1, 3))
        arrays = [quiet(np.multiply, t.array, t.element.dtype.type(2 ** (n + 1))) for n in range(steps)]
        made = Tensor("", t.element, (number(steps), *t.shape), np.stack(arrays), t.bound * 8, t.exact)
        return self.define(f"unfold (s = {t.text}) for _ < {steps} => s + s", made)


WHOLE = (
    Whole.slice,
    Whole.lift,
    Whole.matmul,
    Whole.cast,
    Whole.literal,
    Whole.choice,
    Whole.repeated,
    Whole.record,
    Whole.polymorphic,
    Whole.sort,
    Whole.coerce,
    Whole.selected,
    Whole.first,
    Whole.indexed_record,
    Whole.iota,
    Whole.pattern,
    Whole.functions_in_data,
    Whole.states,
)
