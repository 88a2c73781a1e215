"""Vals made by declarations beside `main`: aliases, signatures, modules, facts, shape variables; and by the rarer constructs."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np

from axon.base.element import Element
from tests.properties.maker import Declared, Maker
from tests.properties.scalars import EXACT, WIDE, Tensor, constant, quiet
from tests.properties.sizes import Size, differ, named, number

_HELPERS = {
    "pair": "type pair['a, n] = { left : 'a[n], right : 'a[n] }\nfun added (p : pair['a, n]) = for i < n => p.left[i] + p.right[i]",
    "boxed": "type boxed['a, ..s, n] = { w : 'a[..s, n] }\nfun unboxed (p : boxed['a, ..s, n]) = p.w",
    "doubled": "sig doubled : 'a[n] -> 'a[2 * n]\nfun doubled (x : 'a[n]) = for i < 2 * n => x[i / 2]",
    "filled": "(* every element (* of any rank *) *)\nfun filled (x : 'a[..s]) = for ..i < ..s => x[..i]",
    "trace2": "fun trace2 (a : 'a[n, m]) where n = m = sum i => a[i, i]",
    "outer2": "fun outer2 (x : 'a[..s]) (y : 'a[..t]) = for ..i ..j => x[..i] * y[..j]",
    "shorter": "fun shorter (x : 'a[n]) (y : 'a[m]) = for i < min n m => x[i] + y[i]",
    "strided": "fun strided (x : 'a[n]) where n >= 1 = for i => x[2 * i]",
    "odd": "sig odd : 'a[n] -> 'a[n % 2]\nfun odd (x : 'a[n]) = for i < n % 2 => x[i]",
    "lower": "fun lower (x : 'a[n]) = for i < n => sum for j < i + 1 => x[j]",
    "rising": "fun rising (x : 'a[n]) = all for i < n => i = 0 orelse x[i - 1] <= x[i]",
    "table": "val table = [| [| 1, 2, 3 |], [| 4, 5, 6 |] |]",
    "upto": "sig upto : {count} -> i32[count]\nfun upto {count} = for i < count => i",
    "where_true": "sig where_true : bool[n] -> ?k <= n. i32[k]\nfun where_true mask = nonzero mask",
    "longer": "sig longer : 'a[n] -> 'a[m] -> 'a[max n m]\n"
    "fun longer (x : 'a[n]) (y : 'a[m]) = for i < max n m => x[i | 0] + y[i | 0]",
    "same_size": "sig same_size : 'a[n] -> 'a[-n + 2 * n]\nfun same_size (x : 'a[n]) = x",
    "totalled": "fun totalled x = sum .. => x[..]",
    "mirrored": "fun mirrored x = for .. i => x[.., i] + x[.., i]",
    "columns": "fun columns (x : 'a[..s, n]) = for i => sum .. => x[.., i]",
    "grid": "fun grid {rows, columns} = for i < rows, j < columns => columns * i + j",
    "resized": "fun resized {rows, columns} (x : 'a[n]) = x as 'a[rows * columns]",
    "swapped": "fun swapped (a, { u = b, v = _ }) = (b, a)",
}
# Functions of floats, made safe for every whole argument.
_FUNCTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "exp": ("exp {}", np.exp), "log": ("log (abs {} + 1.0)", lambda x: np.log(abs(x) + 1)),
    "sqrt": ("sqrt (abs {})", lambda x: np.sqrt(abs(x))), "rsqrt": ("rsqrt (abs {} + 1.0)", lambda x: 1 / np.sqrt(abs(x) + 1)),
    "erf": ("erf {}", np.vectorize(erf, otypes=[float])),
    "pow": ("pow {} 2.0", lambda x: x * x),
}  # fmt: skip


class Aside(Maker):
    def helper(self, name: str) -> str:
        self.helpers[name] = _HELPERS[name]
        return name

    def vectors(self, most: float = 1e3) -> list[Tensor]:
        return [t for t in self.scope.tensors if t.rank == 1 and t.element in WIDE and t.exact and t.bound <= most]

    def two(self, same: bool = False) -> tuple[Tensor, Tensor] | None:
        """Two vectors of one element type, and of one size if that is asked for."""
        pairs = [
            (a, b) for a in self.vectors() for b in self.vectors()
            if a.element is b.element and (not same or a.shape[0].key == b.shape[0].key)
        ]  # fmt: skip
        return self.scope.pick(pairs) if pairs else None

    def of(
        self, source: Tensor, text: str, shape: tuple[Size, ...], array: Any, bound: float, exact: bool = True
    ) -> Declared | None:
        if exact and bound > EXACT[source.element]:
            return None
        return self.define(text, Tensor("", source.element, shape, np.asarray(array).astype(source.element.dtype), bound, exact))

    def alias(self) -> Declared | None:
        found = self.two(same=True)
        if found is None:
            return None
        self.helper("pair")
        a, b = found
        return self.of(a, f"added {{ right = {b.text}, left = {a.text} }}", a.shape, a.array + b.array, a.bound + b.bound)

    def alias_of_runs(self) -> Declared | None:
        sources = self.ranked(1)
        if not sources:
            return None
        self.helper("boxed")
        t = self.scope.pick(sources)
        return self.define(f"unboxed {{ w = {t.text} }}", Tensor("", t.element, t.shape, t.array, t.bound, t.exact))

    def stated(self) -> Declared | None:
        found = self.vectors()
        if not found:
            return None
        t = self.scope.pick(found)
        return self.of(t, f"{self.helper('doubled')} {t.text}", (t.shape[0] * 2,), np.repeat(t.array, 2), t.bound)

    def run(self) -> Declared | None:
        t = self.scope.pick(self.scope.tensors)
        text = f"{self.helper('filled')} {t.text}"
        return self.define(text, Tensor("", t.element, t.shape, t.array, t.bound, t.exact, t.ranked))

    def fact(self) -> Declared | None:
        squares = [t for t in self.ranked(2) if t.rank == 2 and t.shape[0].key == t.shape[1].key and t.element in WIDE and t.exact]
        if not squares:
            return None
        t = self.scope.pick(squares)
        return self.of(t, f"{self.helper('trace2')} {t.text}", (), np.trace(t.array), t.bound * max(t.shape[0].value, 1))

    def run_without_a_name(self) -> Declared | None:
        """`..` as a binder and as a subscript."""
        tensors = [
            t for t in self.ranked() if t.element in WIDE and t.exact and t.bound < 1e3 and (t.rank or self.scope.chance(20))
        ]
        if not tensors:
            return None
        t = self.scope.pick(tensors)
        bound = t.bound * max(t.array.size, 2)
        if t.rank and self.scope.chance(60):
            name = self.scope.pick(("mirrored", "columns"))
            array = t.array + t.array if name == "mirrored" else t.array.sum(tuple(range(t.rank - 1)))
            return self.of(t, f"{self.helper(name)} {t.text}", t.shape if name == "mirrored" else t.shape[-1:], array, bound)
        return self.of(t, f"{self.helper('totalled')} {t.text}", (), t.array.sum(), bound)

    def two_dimensions(self) -> Declared | None:
        """A function with two dimension parameters."""
        sizes = [named(n, v) for n, v in self.scope.nameable.items()] + [number(2), number(3)]
        rows, columns = self.scope.pick(sizes), self.scope.pick(sizes)
        array = np.arange(rows.value * columns.value, dtype=np.int32).reshape(rows.value, columns.value)
        made = Tensor("", Element.I32, (rows, columns), array, max(array.size, 1), True)
        return self.define(f"{self.helper('grid')} {{{rows.text}, {columns.text}}}", made)

    def coerced(self) -> Declared | None:
        """`as` with a dimension that has a name, and with a product of two."""
        found = [t for t in self.vectors() if t.ranked]
        if not found or not self.scope.nameable:
            return None
        t = self.scope.pick(found)
        likely = [n for n, v in self.scope.nameable.items() if v == t.array.size] or sorted(self.scope.nameable)
        size = named(name := self.scope.pick(likely), self.scope.nameable[name])
        if differ(t.shape[0], size) or self.scope.divided & (t.shape[0].names | size.names):  # which the checker refuses, or may
            return None
        if size.value != t.array.size:
            self.outside = True
        array = t.array if size.value == t.array.size else np.zeros(size.value, t.element.dtype)
        text = f"{t.text} as {t.element.value}[{name}]"
        if self.scope.chance(30):
            text = f"{self.helper('resized')} {{1, {name}}} {t.text}"
        return self.of(t, text, (size,), array, t.bound)

    def outer_of_runs(self) -> Declared | None:
        tensors = [t for t in self.ranked() if t.element in WIDE and t.exact and t.bound < 100 and t.array.size <= 20]
        if not tensors:
            return None
        a = self.scope.pick(tensors)
        b = self.scope.pick([t for t in tensors if t.element is a.element])
        text = f"{self.helper('outer2')} {a.text} {b.text}"
        return self.of(a, text, (*a.shape, *b.shape), np.multiply.outer(a.array, b.array), a.bound * b.bound)

    def least(self) -> Declared | None:
        """A size that is a minimum, which is summed away."""
        found = self.two()
        if found is None:
            return None
        a, b = found
        n = min(a.array.size, b.array.size)
        text = f"sum i => ({self.helper('shorter')} {a.text} {b.text})[i]"
        return self.of(a, text, (), (a.array[:n] + b.array[:n]).sum(), (a.bound + b.bound) * max(n, 1))

    def greatest(self) -> Declared | None:
        """A size that is a maximum, in a signature, which is summed away."""
        found = self.two()
        if found is None:
            return None
        a, b = found
        bound = a.bound * max(a.array.size, 1) + b.bound * max(b.array.size, 1)
        return self.of(a, f"sum i => ({self.helper('longer')} {a.text} {b.text})[i]", (), a.array.sum() + b.array.sum(), bound)

    def signatures(self) -> Declared | None:
        """Signatures with a dimension parameter, with a size that only the data decide, and with a difference of sizes."""
        found = self.vectors()
        match self.scope.pick(("dimension", "existential", "difference")):
            case "difference" if found:
                t = self.scope.pick(found)
                return self.of(t, f"{self.helper('same_size')} {t.text}", t.shape, t.array, t.bound)
            case "existential" if found:
                t = self.scope.pick(found)
                name, zero = self.scope.index_name(), constant(0, t.element)
                mask = f"{self.helper('where_true')} ({t.text} > {zero.text})"
                text = f"let val ({name}_at : i32[{name}_k]) = {mask} in cast i32 {name}_k end"
                value = np.int32((t.array > 0).sum())
                return self.define(text, Tensor("", Element.I32, (), np.asarray(value), max(t.array.size, 1), True))
            case _:
                made = Tensor("", Element.I32, (number(3),), np.arange(3, dtype=np.int32), 3, True)
                return self.define(f"{self.helper('upto')} {{3}}", made)

    def remainder(self) -> Declared | None:
        found = self.vectors()
        if not found:
            return None
        t = self.scope.pick(found)
        value = t.array[: t.array.size % 2].sum()
        return self.of(t, f"sum i => ({self.helper('odd')} {t.text})[i]", (), value, t.bound)

    def strided(self) -> Declared | None:
        found = [t for t in self.vectors() if t.shape[0].number is None or t.shape[0].number >= 1]
        if not found:
            return None
        t = self.scope.pick(found)
        self.scope.facts.append(t.shape[0].value >= 1)
        value = t.array[::2].sum()
        return self.of(t, f"sum i => ({self.helper('strided')} {t.text})[i]", (), value, t.bound * max(t.array.size, 1))

    def triangle(self) -> Declared | None:
        """A reduction whose bound is an outer index."""
        found = self.vectors()
        if not found:
            return None
        t = self.scope.pick(found)
        bound = t.bound * max(t.array.size, 1)
        return self.of(t, f"{self.helper('lower')} {t.text}", t.shape, np.cumsum(t.array), bound)

    def guarded(self) -> Declared | None:
        found = self.vectors()
        if not found:
            return None
        t = self.scope.pick(found)
        array = np.asarray(bool((np.diff(t.array) >= 0).all()))
        return self.define(f"{self.helper('rising')} {t.text}", Tensor("", Element.BOOL, (), array, 1, True))

    def constant_table(self) -> Declared | None:
        """A val beside the function, a nested array literal."""
        array = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
        return self.define(self.helper("table"), Tensor("", Element.I32, (number(2), number(3)), array, 6, True))

    def patterns(self) -> Declared | None:
        """Patterns as parameters."""
        a, b = self.scope.pick(self.scope.tensors), self.scope.pick(self.scope.tensors)
        self.helper("swapped")
        name = self.name()
        for part, t in (("1", b), ("2", a)):
            self.scope.tensors.append(Tensor(f"{name}.{part}", t.element, t.shape, t.array, t.bound, t.exact, t.ranked))
        return Declared(name, f"swapped ({a.text}, {{ v = 0, u = {b.text} }})")

    def imported(self) -> Declared | None:
        found = [t for t in self.ranked(1) if t.element in WIDE]
        if not found:
            return None
        t = self.scope.pick(found)
        self.helpers["import"] = "import tensor"
        text, array = self.scope.pick(
            (
                ("tensor.flip {}", np.flip(t.array, -1)),
                ("tensor.roll 1 {}", np.roll(t.array, 1, -1)),
                ("{} |> tensor.roll (-1)", None),
            )
        )
        array = np.roll(t.array, -1, -1) if array is None else array
        return self.define(text.format(t.text), Tensor("", t.element, t.shape, array, t.bound, t.exact))

    def filtered(self) -> Declared | None:
        """Rows at which a condition holds: a size that only the data decide, as a value and under a guard."""
        found = self.vectors()
        if not found:
            return None
        t = self.scope.pick(found)
        zero = constant(0, t.element)
        kept = t.array[t.array > zero.value({})]
        name = self.scope.index_name()
        opened = f"val ({name}_v : {t.element.value}[{name}_c]) = filter ({t.text} > {zero.text}) {t.text}"
        body, value = self.scope.pick(
            (
                (f"sum i => {name}_v[i]", kept.sum()),
                (f"if {name}_c >= 2 then {name}_v[1] else {zero.text}", kept[1] if kept.size > 1 else 0),
                (f"cast {t.element.value} {name}_c", kept.size),
            )
        )
        return self.of(t, f"let {opened} in {body} end", (), value, max(t.bound, 1) * max(t.array.size, 1))

    def counted(self) -> Declared | None:
        """A loop of as many steps as the data say."""
        found = [t for t in self.scope.tensors if t.rank == 0 and t.element is Element.I32 and t.exact and t.bound < 50]
        if not found:
            return None
        t = self.scope.pick(found)
        steps = max(int(t.array), 0)
        value = np.int32(2 * steps + 1)
        text = f"(loop (s = 1, half = 0.5) for i < {t.text} => (s + 2, half)).1"
        return self.define(text, Tensor("", Element.I32, (), np.asarray(value), 200, True))

    def fibonacci(self) -> Declared | None:
        """Both states of an `unfold`, and a nested pattern."""
        name = self.name()
        array = np.array([1, 1, 2, 3], np.int32)
        self.scope.tensors.append(Tensor(f"{name}.1", Element.I32, (number(4),), array, 5, True))
        self.scope.tensors.append(Tensor(f"{name}.2", Element.I32, (number(4),), np.array([1, 2, 3, 5], np.int32), 5, True))
        return Declared(name, "unfold (a = 0, b = 1) for _ < 4 => (b, a + b)")

    def scans(self) -> Declared | None:
        """Running extremes, and a scan of pairs."""
        found = [t for t in self.vectors() if t.element.is_float]
        if not found:
            return None
        t = self.scope.pick(found)
        maximum = np.maximum.accumulate(t.array) if t.array.size else t.array
        if self.scope.chance(50):
            return self.of(t, f"scan (max, -inf) j => {t.text}[j]", t.shape, maximum, t.bound)
        text = f"(scan (fn (a, m) (b, k) => (max a b, m + k), (-inf, 0)) j => ({t.text}[j], 1)).1"
        return self.of(t, text, t.shape, maximum, t.bound)

    def place(self) -> Declared | None:
        """Where the largest element of a matrix is: a tuple of indices."""
        found = [
            t for t in self.scope.tensors if t.rank == 2 and t.element in WIDE and t.exact and 0 not in (s.number for s in t.shape)
        ]
        if not found:
            return None
        t = self.scope.pick(found)
        for size in t.shape:
            if size.number is None:
                self.scope.facts.append(size.value >= 1)
        value = 0
        if t.array.size:
            i, j = np.unravel_index(int(np.argmax(t.array)), t.array.shape)
            value = 10 * int(i) + int(j)
        else:
            self.outside = True
        text = f"let val at = argmax i j => {t.text}[i, j] in 10 * at.1 + at.2 end"
        return self.define(text, Tensor("", Element.I32, (), np.asarray(np.int32(value)), 200, True))

    def parts(self) -> Declared | None:
        """A comprehension of records."""
        found = self.vectors()
        if not found:
            return None
        t = self.scope.pick(found)
        name, zero = self.name(), constant(0, t.element)
        self.scope.tensors.append(Tensor(f"{name}.p", t.element, t.shape, t.array + t.array, 2 * t.bound, t.exact))
        self.scope.tensors.append(Tensor(f"{name}.q.1", Element.BOOL, t.shape, t.array > zero.value({}), 1, True))
        return Declared(name, f"for i => {{ q = ({t.text}[i] > {zero.text}, i), p = {t.text}[i] + {t.text}[i] }}")

    def function(self) -> Declared | None:
        found = [t for t in self.scope.tensors if t.element in (Element.F32, Element.F64) and t.exact and t.bound <= 10]
        if not found:
            return None
        t = self.scope.pick(found)
        text, meaning = _FUNCTIONS[self.scope.pick(sorted(_FUNCTIONS))]
        array = quiet(meaning, t.array.astype(np.float64)).astype(t.element.dtype)
        made = Tensor("", t.element, t.shape, np.asarray(array), 3e4, False, t.ranked)
        return self.define(text.format(t.text), made)

    def inferred_cast(self) -> Declared | None:
        """`cast _`, and an ascription."""
        found = [t for t in self.vectors(100) if t.element is Element.F32]
        if not found:
            return None
        t = self.scope.pick(found)
        ways = (f"{t.text} + (cast _ {t.text} : f32[_])", f"for i => {t.text}[i] + cast _ (cast i32 {t.text}[i])")
        return self.of(t, ways[1], t.shape, t.array + t.array, 2 * t.bound)

    def column(self) -> Declared | None:
        """A column and a row, which broadcast."""
        found = self.two()
        if found is None or not all(t.ranked for t in found):
            return None
        a, b = found
        text = f"(for i, _ < 1 => {a.text}[i]) * {b.text}"
        if a.shape[0].number == 1 or b.shape[0].number == 1:
            return None
        return self.of(a, text, (*a.shape, *b.shape), np.multiply.outer(a.array, b.array), a.bound * b.bound)

    def clipped(self) -> Declared | None:
        """A gather whose index is kept inside."""
        ids = [t for t in self.scope.tensors if t.element is Element.I32 and t.rank == 1 and t.exact]
        found = [t for t in self.vectors() if self.scope.can_name(t.shape[0]) and t.shape[0].number is None]
        if not ids or not found:
            return None
        t, at = self.scope.pick(found), self.scope.pick(ids)
        n = t.array.size
        text = f"for i => {t.text}[max 0 (min {at.text}[i] ({t.shape[0].text} - 1)) | {constant(0, t.element).text}]"
        array = t.array[np.clip(at.array, 0, n - 1)] if n else np.zeros(at.array.shape)
        return self.of(t, text, at.shape, array, t.bound)


ASIDE = tuple(
    value for name, value in vars(Aside).items() if callable(value) and name not in ("helper", "vectors", "two", "of")
)  # fmt: skip

__all__ = ["ASIDE", "Aside", "named"]
