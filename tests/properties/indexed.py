"""Vals in index notation."""

from __future__ import annotations

from itertools import product

import numpy as np

from axon.base.element import Element
from tests.properties.maker import Declared, Maker
from tests.properties.scalars import EXACT, NARROW, WIDE, Outside, Scalar, Tensor, binders, constant, firm, quiet, reduced, scalar
from tests.properties.sizes import Size, named, number


class Indexed(Maker):
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
            self.outside = 0 not in x.array.shape[1:]  # rows without elements are not read
            array = np.zeros((at.array.size, *x.array.shape[1:]), x.element.dtype)
        else:
            array = x.array[at.array]
        rest = ", .." if x.rank > 1 else ""
        if x.rank > 1 and not x.ranked:
            return None
        return self.define(
            f"for i => {x.text}[{at.text}[i]{rest}]", Tensor("", x.element, (at.shape[0], *x.shape[1:]), array, x.bound, x.exact)
        )

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
        self.scope.divided |= size.names
        inner = size.value // by.value
        rest = size // by.value if divides else named(f"({size.text} / {by.text})", inner)
        if not divides:
            rest = Size(rest.terms, inner, size.names | {"?"})
        array = t.array[: by.value * inner].reshape(by.value, inner)
        if size.value != by.value * inner:
            self.outside = True
        text = f"for i < {by.text}, j => {t.text}[(i, j)]"
        return self.define(text, Tensor("", t.element, (by, rest), array, t.bound, t.exact))

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

    def padded(self) -> Declared | None:
        """A convolution with zeros around, over a dimension that has a name."""
        vectors = [t for t in self.scope.tensors if t.rank == 1 and t.element in WIDE and self.scope.can_name(t.shape[0])]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        bound = 3 * t.bound
        if bound > EXACT[t.element]:
            return None
        zero = constant(0, t.element)
        wide = np.concatenate([[zero.value({})], t.array, [zero.value({})]]).astype(t.element.dtype)
        array = np.array([reduced("sum", wide[i : i + 3], t.element) for i in range(t.array.size)], t.element.dtype)
        text = f"for i < {t.shape[0].text} => sum for w_ < 3 => {t.text}[i + w_ - 1 | {zero.text}]"
        return self.define(text, Tensor("", t.element, t.shape, array, bound, t.exact))

    def moving(self) -> Declared | None:
        """A slice of a fixed length at an index."""
        vectors = [t for t in self.ranked(1) if t.rank == 1 and self.scope.can_name(t.shape[0]) and t.shape[0].names]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        extent = t.shape[0] - 1
        self.scope.facts.append(extent.value >= 0)
        rows = [t.array[i : i + 2] for i in range(max(extent.value, 0))]
        array = np.array(rows, t.element.dtype).reshape(max(extent.value, 0), 2)
        text = f"for i < {extent.text} => {t.text}[i : i + 2]"
        return self.define(text, Tensor("", t.element, (extent, number(2)), array, t.bound, t.exact))

    def zipped(self) -> Declared | None:
        """A function of two elements over two vectors; what it captures comes from outside."""
        vectors = [t for t in self.scope.tensors if t.rank == 1 and t.element in WIDE and t.bound < 100]
        pairs = [(a, b) for a in vectors for b in vectors if a.shape[0].key == b.shape[0].key and a.element is b.element]
        if not pairs:
            return None
        a, b = self.scope.pick(pairs)
        captured = [t for t in self.scope.tensors if t.rank == 0 and t.element is a.element and t.bound < 100]
        c = self.scope.pick(captured) if captured else None
        zero = constant(1, a.element)
        text, extra = (c.text, c.array[()]) if c is not None else (zero.text, zero.value({}))
        array = quiet(lambda: a.array * b.array + extra).astype(a.element.dtype)
        bound = a.bound * b.bound + 100
        exact = a.exact and b.exact and (c is None or c.exact)
        body = f"let fun both f u v = for i => f u[i] v[i] in both (fn p q => p * q + {text}) {a.text} {b.text} end"
        return self.define(body, Tensor("", a.element, a.shape, array, bound, exact))

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

    def mean(self) -> Declared | None:
        vectors = [t for t in self.scope.tensors if t.rank == 1 and t.element in (Element.F32, Element.F64)]
        vectors = [t for t in vectors if t.shape[0].text in self.scope.nameable and np.isfinite(t.bound)]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        size = t.shape[0]
        total = reduced("sum", list(t.array), t.element)
        array = np.asarray(quiet(np.divide, total, t.element.dtype.type(size.value)))
        text = f"(sum i => {t.text}[i]) / cast _ {size.text}"
        return self.define(text, Tensor("", t.element, (), array, max(t.bound, 1) * 10, False))

    def folded(self) -> Declared | None:
        """A reduction of pairs, by a function with a name."""
        vectors = [t for t in self.scope.tensors if t.rank == 1 and t.element in WIDE]
        if not vectors:
            return None
        t = self.scope.pick(vectors)
        bound = t.bound * max(t.array.size, 1)
        if bound > EXACT[t.element]:
            return None
        zero = constant(0, t.element).text
        name = self.name()
        total = reduced("sum", list(t.array), t.element)
        self.scope.tensors.append(Tensor(f"{name}.1", t.element, (), np.asarray(total), bound, t.exact))
        self.scope.tensors.append(Tensor(f"{name}.2", Element.I32, (), np.asarray(np.int32(t.array.size)), 10, True))
        self.helpers["plus"] = "fun plus (a, m) (b, n) = (a + b, m + n)"
        return Declared(name, f"reduce (plus, ({zero}, 0)) i => ({t.text}[i], 1)")


INDEXED = (
    Indexed.comprehension,
    Indexed.nested,
    Indexed.total,
    Indexed.affine,
    Indexed.convolution,
    Indexed.windows,
    Indexed.gather,
    Indexed.flatten,
    Indexed.split,
    Indexed.runs,
    Indexed.join,
    Indexed.loop,
    Indexed.scan,
    Indexed.outer,
    Indexed.padded,
    Indexed.moving,
    Indexed.zipped,
    Indexed.mapped,
    Indexed.mean,
    Indexed.folded,
)
