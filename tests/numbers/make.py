"""Programs of all element types, well typed as they are made, with arguments.

A Maker draws every choice from a `Random`: of a seed, or Hypothesis's, which then shrinks. The first of several choices is the
simplest. What a program means is nothing that it knows: that is `meaning`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

from tests.numbers import tree as t
from tests.numbers.formats import DTYPES, ELEMENTS, FLOATS, WHOLE

SIZES = (3, 2, 1, 4, 0, 5)
I32, BOOL = t.Tensor("i32"), t.Tensor("bool")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "max", "min")
BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
FUNCTIONS = (
    "sqrt", "exp", "log", "expm1", "log1p", "rsqrt", "cbrt", "sin", "cos", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "atan2", "pow",
)  # fmt: skip
EXACT = ("abs", "-", "sign", "floor", "ceil", "round")
SCENES = (
    "map", "map", "cast", "lifted", "functions", "functions", "stretched", "halves", "counted", "search", "unfolded", "leaves",
    "reduced", "scanned", "sorted", "product",
)  # fmt: skip


class Maker:
    def __init__(self, random: Random, seed: int = -1) -> None:
        self.random = random
        self.seed = seed
        self.names: list[tuple[str, t.Type]] = []  # in scope
        self.indices: list[tuple[str, t.Size]] = []  # those of them that stay below a size
        self.functions: list[t.Function] = []
        self.sizes: list[t.Size] = []
        self.count = 0
        self.risky = False

    # ── choices ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pick(self, options: Any) -> Any:
        return options[self.random.randrange(len(options))]

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) >= 100 - percent

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    @contextmanager
    def scope(self, *names: tuple[str, t.Type], index: tuple[str, t.Size] | None = None) -> Iterator[None]:
        before = len(self.names), len(self.indices)
        self.names += names
        if index is not None:
            self.names.append((index[0], I32))
            self.indices.append(index)
        yield
        del self.names[before[0] :], self.indices[before[1] :]

    # ── programs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def program(self) -> t.Program:
        self.risky = self.chance(15)
        self.sizes = [t.Size(name, self.pick(SIZES)) for name in ("n", "m")[: self.pick((1, 2))]]
        self.elements = [self.pick(ELEMENTS) for _ in range(self.pick((2, 3)))]
        parameters = [(f"x{n}", self.parameter(n)) for n in range(len(self.elements) + 1)]
        arguments = tuple(self.data(kind) for _, kind in parameters)
        self.names += parameters
        values = []
        for _ in range(self.pick((1, 2, 3))):
            made = self._failing() if self.risky and not values else getattr(self, f"_{self.pick(SCENES)}")()
            if made is not None:
                values.append((self.fresh("v"), made))
                self.names.append((values[-1][0], made.type))
        if not values:
            values.append((self.fresh("v"), self.scalar(self.pick(self.elements), 2)))
        results = tuple(t.Name(value.type, name) for name, value in values)
        kind = t.Record(tuple((str(n), r.type) for n, r in enumerate(results, 1)))
        body: t.Expr = results[0] if len(results) == 1 else t.Build(kind, results)
        for name, value in reversed(values):
            body = t.Let(body.type, name, value, body)
        return t.Program(self.seed, tuple(self.functions), tuple(parameters), arguments, body)

    def parameter(self, n: int) -> t.Type:
        """Each size is that of some parameter."""
        if n == 0:
            return t.Tensor(self.pick(self.elements), tuple(self.sizes))
        element = self.elements[n - 1]
        return t.Tensor(element, self.pick(((self.sizes[0],), (), tuple(self.sizes), (self.sizes[-1],))))

    def data(self, kind: t.Tensor) -> Any:
        shape = tuple(s.value for s in kind.shape)
        values = [self.number(kind.element) for _ in range(math.prod(shape))]
        return np.array(values, np.float64 if kind.element in FLOATS else DTYPES[kind.element]).astype(
            DTYPES[kind.element]
        ).reshape(shape)  # fmt: skip

    def number(self, element: str) -> Any:
        if element == "bool":
            return self.chance(50)
        if element in FLOATS:
            form = FLOATS[element]
            if self.chance(15):
                ends = (-0.0, math.nan, math.inf, -math.inf) if form.infinite else (-0.0, math.nan)
                return self.pick((*ends, float(form.largest), float(form.tiny), -float(form.largest)))
            return self.pick((1.0, 0.0, 0.5, 2.0, -1.0, -0.5, 3.0, -2.5, 0.75, 7.0, -6.0, 12.0))
        whole = WHOLE[element]
        if self.chance(25):
            return self.pick((whole.greatest, whole.least, whole.greatest - 1, whole.greatest // 2 + 1))
        return whole.wrapped(self.pick((1, 0, 2, 3, -1, 5, -2, 7, -5, 31, 64)))

    # ── scenes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def binders(self, most: int = 2) -> tuple[tuple[str, t.Size], ...]:
        return tuple((self.fresh("i"), self.pick(self.sizes)) for _ in range(self.pick((1, most))))

    def over(self, indices: tuple[tuple[str, t.Size], ...], body: Callable[[], t.Expr | None]) -> t.Expr | None:
        """A comprehension."""
        before = len(self.names), len(self.indices)
        self.names += [(name, I32) for name, _ in indices]
        self.indices += indices
        inner = body()
        del self.names[before[0] :], self.indices[before[1] :]
        if inner is None:
            return None
        assert isinstance(inner.type, t.Tensor)
        shape = (*(size for _, size in indices), *inner.type.shape)
        return t.For(t.Tensor(inner.type.element, shape), indices, inner)

    def _map(self) -> t.Expr | None:
        return self.over(self.binders(), lambda: self.scalar(self.pick(self.elements), 3))

    def _failing(self) -> t.Expr | None:
        """What has a result only for some arguments: divisors of 0, negative powers, indices outside."""
        element = self.pick([e for e in self.elements if e in WHOLE] or ["i32"])
        found = self.tensors()
        if not found:
            return None

        def body() -> t.Expr:
            x = self.pick(found)
            places = [place for _ in x.type.shape if (place := self.small())]
            if places and self.chance(50):
                assert isinstance(x.type, t.Tensor)
                return t.Read(t.Tensor(x.type.element), x, tuple(places))
            kind = t.Tensor(element)
            return variable(t.Apply(kind, self.pick(("/", "%", "**")), (self.leaf(element), self.divisor(element, 1))))

        return self.over(self.binders(), body)

    def _cast(self) -> t.Expr | None:
        target = self.pick(ELEMENTS)
        return self.over(self.binders(), lambda: self.cast(target, self.scalar(self.pick(self.elements), 2)))

    def cast(self, target: str, value: t.Expr) -> t.Expr:
        return t.Cast(t.Tensor(target), value)

    def tensors(self, element: str | None = None, rank: int | None = None) -> list[t.Name]:
        return [
            t.Name(kind, name)
            for name, kind in self.names
            if isinstance(kind, t.Tensor) and kind.shape and (element is None or kind.element == element)
            and (rank is None or len(kind.shape) == rank)
        ]  # fmt: skip

    def _lifted(self) -> t.Expr | None:
        """Operators on whole tensors; what is a scalar stands for all of it."""
        found = self.tensors()
        if not found:
            return None
        x = self.pick(found)
        shape, element = x.type.shape, x.type.element
        fitting = [y for y in self.tensors(element) if shape[len(shape) - len(y.type.shape) :] == y.type.shape]
        result: t.Expr = x
        for _ in range(self.pick((1, 2, 3))):
            op = self.pick(self.operators(element))
            other = self.pick(fitting) if self.chance(50) else self.scalar(element, 1)
            result = t.Apply(t.Tensor(element, shape), op, (result, other))
        return result

    def operators(self, element: str) -> tuple[str, ...]:
        if element == "bool":
            return COMPARISONS[:2]
        return ARITHMETIC + (BITS if element in WHOLE else ("/",))

    def _functions(self) -> t.Expr | None:
        """A function of scalars, declared, at every element of a tensor."""
        found = [x for x in self.tensors() if x.type.element in FLOATS]
        if not found:
            return None
        x = self.pick(found)
        element = x.type.element
        p = self.fresh("p")
        outer, self.names, self.indices = (self.names, self.indices), [(p, t.Tensor(element))], []
        body: t.Expr = t.Name(t.Tensor(element), p)
        for _ in range(self.pick((1, 2))):
            body = self.function(element, body, 1)
        self.names, self.indices = outer
        f = t.Function(self.fresh("f"), (p,), (element,), body)
        self.functions.append(f)
        return t.Call(t.Tensor(element, x.type.shape), f, (x,))

    def _stretched(self) -> t.Expr | None:
        """A scalar where a tensor could stand."""
        found = [x for x in self.tensors() if x.type.element != "bool"]
        if not found:
            return None
        x = self.pick(found)
        element = x.type.element
        names = tuple(self.fresh("p") for _ in range(3))
        dt, a, b = (t.Name(t.Tensor(element), n) for n in names)
        kind = t.Tensor(element)
        first, second = (self.pick(ARITHMETIC + (BITS[:3] if element in WHOLE else ())) for _ in range(2))
        body = t.Apply(kind, second, (a, t.Apply(kind, first, (dt, b))))
        f = t.Function(self.fresh("step"), names, ("", "", ""), body)
        self.functions.append(f)
        other = [y for y in self.tensors(element) if y.type.shape == x.type.shape]
        arguments = [self.scalar(element, 1) if self.chance(50) else self.pick(other) for _ in range(2)]
        arguments.insert(self.pick((2, 1, 0)), x)
        return t.Call(x.type, f, tuple(arguments))

    def half(self) -> t.Function:
        known = [f for f in self.functions if f.name == "half"]
        if not known:
            known = [t.Function("half", ("a",), ("",), t.Apply(I32, "/", (t.Name(I32, "a"), literal("i32", 2))))]
            self.functions += known
        return known[0]

    def _halves(self) -> t.Expr | None:
        """Functions of sizes in bounds, indices and slices."""
        found = self.tensors(rank=1)
        if not found:
            return None
        x = self.pick(found)
        element, (n,) = x.type.element, x.type.shape
        if "/" in n.text or "half" in n.text:
            return None
        size = t.Size(f"half {n.text}", n.value // 2)
        half = t.Call(I32, self.half(), (t.Name(I32, n.text),))
        match self.pick(("before", "after", "folded", "steps")):
            case "before":
                return t.Slice(t.Tensor(element, (size,)), x, None, size)
            case "after":
                return t.Slice(t.Tensor(element, (t.Size(f"{n.text} - half {n.text}", n.value - size.value),)), x, size, None)
            case "steps":
                return t.Slice(t.Tensor(element, (t.Size(f"({n.text} + 1) / 2", (n.value + 1) // 2),)), x, None, None, 2)
        i = self.fresh("i")
        kind, at = t.Tensor(element), t.Name(I32, i)
        pair = (t.Read(kind, x, (at,)), t.Read(kind, x, (t.Apply(I32, "+", (at, half)),)))
        op = self.pick(self.operators(element))
        return t.For(t.Tensor("bool" if op in COMPARISONS else element, (size,)), ((i, size),),
                     t.Apply(BOOL if op in COMPARISONS else kind, op, pair))  # fmt: skip

    def _counted(self) -> t.Expr | None:
        """A function of a size's length in the braces of a call."""
        found = self.tensors(rank=1)
        if not found:
            return None
        x = self.pick(found)
        n = x.type.shape[0]
        if not n.text.isalpha():
            return None
        k, i, element = t.Size("k", 0), self.fresh("i"), self.pick(("i32", *(e for e in ELEMENTS if e != "bool")))
        inner = t.Cast(t.Tensor(element), t.Name(I32, i)) if element != "i32" else t.Name(I32, i)
        name = self.fresh("iota")
        # The body's own size is that of the call: it is made anew for the evaluator.
        body = t.For(t.Tensor(element, (k,)), ((i, t.Size("k", n.value)),), inner)
        f = t.Function(name, (), (), body, ("k",))
        length = [g for g in self.functions if g.name == "length"]
        if not length:
            length = [t.Function("length", ("x",), ("'a[n, ..s]",), t.Name(I32, "n"))]
            self.functions += length
        self.functions.append(f)
        return t.Call(t.Tensor(element, (n,)), f, (), (t.Size(f"length {x.name}", n.value),))

    def _search(self) -> t.Expr | None:
        """`loop … while`, alone or at every index."""
        element = self.pick([e for e in self.elements if e in WHOLE] or ["i32", "u8", "i64"])
        if self.chance(50):
            return self.while_(element)
        return self.over(self.binders(1), lambda: self.while_(element))

    def while_(self, element: str) -> t.Expr:
        kind = t.Tensor(element)
        a, c, i = self.fresh("s"), self.fresh("c"), self.fresh("i")
        x, count = t.Name(kind, a), t.Name(I32, c)
        first = self.scalar(element, 1)
        bound = self.pick((t.Size("8", 8), *self.sizes, t.Size("20", 20)))
        steps = (
            t.Apply(kind, "/", (x, literal(element, 2))), t.Apply(kind, "shift_right", (x, literal(element, 1))),
            t.Apply(kind, "-", (x, literal(element, 3))), t.Apply(kind, "bit_xor", (x, literal(element, 5))),
        )  # fmt: skip
        step = self.pick(steps)
        if self.chance(30):
            with self.scope((a, kind), (c, I32), (i, I32)):
                step = t.Apply(kind, self.pick(ARITHMETIC), (step, self.scalar(element, 1)))
        condition = t.Apply(BOOL, self.pick(("<>", ">", "<", "<=")), (x, literal(element, self.pick((0, 1, 10)))))
        body = (step, t.Apply(I32, "+", (count, literal("i32", 1))))
        states = ((a, first), (c, literal("i32", 0)))
        pair = t.Record((("1", kind), ("2", I32)))
        loop = t.Loop(pair, states, condition, i, bound, body)
        return t.Part(kind, loop, "1") if self.chance(60) else t.Part(I32, loop, "2")

    def _unfolded(self) -> t.Expr | None:
        element = self.pick(self.elements)
        kind, s, i, n = t.Tensor(element), self.fresh("s"), self.fresh("i"), self.pick(self.sizes)
        first = self.scalar(element, 1)
        with self.scope((s, kind), index=(i, n)):
            body = self.scalar(element, 2)
        if self.chance(50):
            return t.Loop(kind, ((s, first),), None, i, n, (body,))
        return t.Loop(t.Tensor(element, (n,)), ((s, first),), None, i, n, (body,), stacked=True)

    def _leaves(self) -> t.Expr | None:
        """`each` and `fold_leaves` over a structure whose leaves have types of their own."""
        found = [t.Name(kind, name) for name, kind in self.names if isinstance(kind, t.Tensor)
                 and kind.element != "bool" and not any(i == name for i, _ in self.indices)]  # fmt: skip
        if not found:
            return None
        leaves = [self.pick(found) for _ in range(self.pick((2, 3)))]
        names = ("1", "2", "3") if self.chance(40) else ("b", "a", "c")
        parts: list[tuple[str, t.Expr]] = list(zip(names, leaves, strict=False))
        if self.chance(30):  # one below another
            inner = t.Build(t.Record((("u", leaves[0].type), ("w", leaves[1].type))), (leaves[0], leaves[1]))
            parts[0] = (parts[0][0], inner)
        if parts[0][0] != "1":
            parts.sort(key=lambda one: one[0])
        whole = t.Build(t.Record(tuple((name, e.type) for name, e in parts)), tuple(e for _, e in parts))
        paths = list(_leaves(whole.type))
        p = self.fresh("p")
        if self.chance(50):
            op = self.pick(("+", "*", "max", "-"))
            bodies = []
            for path, kind in paths:
                x = t.Name(kind, p)
                bodies.append((path, t.Apply(kind, op, (x, x))))
            return t.Each(whole.type, (p,), t.show(bodies[0][1], ""), (whole,), tuple(bodies))
        element = self.pick(("i32", *WHOLE, "f64", "f32"))
        scalar = t.Tensor(element)
        scalars = [path for path, kind in paths if not kind.shape]
        if len(scalars) < len(paths):
            return None
        cast = [(path, t.Cast(scalar, t.Name(kind, p))) for path, kind in paths]
        unit = literal(element, 0)
        return t.Each(scalar, (p,), t.show(cast[0][1], ""), (whole,), tuple(cast), self.pick(("+", "max", "min")), ascribed(unit))

    def _reduced(self) -> t.Expr | None:
        element = self.pick(self.elements)
        if self.chance(60):
            return self.reduction(element, 2)
        return self.over(self.binders(1), lambda: self.reduction(element, 2))

    def reduction(self, element: str, depth: int) -> t.Expr:
        """A reduction to an element of this type."""
        n, i = self.pick(self.sizes), self.fresh("i")
        if element == "bool":
            kinds: tuple[str, ...] = ("any", "all")
        else:
            kinds = ("sum", "prod", *(("max", "min") if element in FLOATS or n.value else ()))
        kind, inner = self.pick(kinds), element
        if element == "i32" and n.value and self.chance(30):
            kind, inner = self.pick(("argmax", "argmin")), self.pick([e for e in self.elements if e != "bool"] or ["u8"])
        strict = kind in ("argmax", "argmin") or (kind in ("max", "min") and inner in WHOLE)
        if strict and not n.text.isdigit():
            n = t.Size("2", 2)  # the contract asks for something where the size is unknown
        with self.scope(index=(i, n)):
            where = self.scalar("bool", 1) if self.chance(25) and (not strict or self.risky) else None
            body = self.scalar(inner, depth - 1)
        return t.Reduce(t.Tensor(element), kind, i, n, where, body)

    def _scanned(self) -> t.Expr | None:
        element = self.pick([e for e in self.elements if e != "bool"] or ["f32"])
        n, i = self.pick(self.sizes), self.fresh("i")
        op, unit = self.pick((("+", 0), ("*", 1), *((("bit_xor", 0), ("bit_or", 0)) if element in WHOLE else ())))
        with self.scope(index=(i, n)):
            body = self.scalar(element, 2)
        whole = self.chance(60)
        kind = t.Tensor(element, (n,) if whole else ())
        return t.Scan(kind, op, ascribed(literal(element, unit)), i, n, body, whole)

    def _sorted(self) -> t.Expr | None:
        found = [x for x in self.tensors(rank=1) if x.type.element != "bool"]
        if not found:
            return None
        x = self.pick(found)
        kind = self.pick(("sort", "argsort"))
        return t.Sort(t.Tensor("i32" if kind == "argsort" else x.type.element, x.type.shape), kind, x)

    def _product(self) -> t.Expr | None:
        found = [(x, y) for x in self.tensors(rank=2) for y in self.tensors(rank=2)
                 if x.type.element == y.type.element != "bool" and x.type.shape[1] == y.type.shape[0]]  # fmt: skip
        if not found:
            return None
        x, y = self.pick(found)
        return t.Apply(t.Tensor(x.type.element, (x.type.shape[0], y.type.shape[1])), "@", (x, y))

    # ── scalars ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def leaf(self, element: str) -> t.Expr:
        """Something in scope, or a number."""
        found: list[t.Expr] = [
            t.Name(kind, name)
            for name, kind in self.names
            if isinstance(kind, t.Tensor) and kind.element == element and not kind.shape
        ]
        found += [read for x in self.tensors(element) if (read := self.read(x)) is not None]
        return self.pick(found) if found and self.chance(85) else ascribed(self.constant(element))

    def constant(self, element: str) -> t.Literal:
        if element == "bool":
            return literal("bool", self.chance(50))
        if element in FLOATS:
            return literal(element, self.pick((Fraction(1), Fraction(0), Fraction(1, 2), Fraction(2), Fraction(5, 4), Fraction(7))))
        ends = (WHOLE[element].greatest,) if self.chance(10) else ()
        return literal(element, self.pick((1, 0, 2, 3, 7, *ends)))

    def read(self, x: t.Name) -> t.Expr | None:
        assert isinstance(x.type, t.Tensor)
        subscripts: list[t.Expr] = []
        padded = self.chance(15)
        for size in x.type.shape:
            near = [name for name, bound in self.indices if bound == size]
            if self.risky and self.chance(30):
                place = self.small()
                if place is None:
                    return None
                subscripts.append(place)
            elif near:
                at = t.Name(I32, self.pick(near))
                shift = self.pick((1, 2))
                shifted = t.Apply(I32, self.pick("+-"), (at, literal("i32", shift)))
                subscripts.append(shifted if padded and self.chance(60) else at)
            else:
                return None
        default = ascribed(self.constant(x.type.element)) if padded else None
        return t.Read(t.Tensor(x.type.element), x, tuple(subscripts), default)

    def small(self) -> t.Expr | None:
        """An integer computed from data, at most 3: an index that may lie outside."""
        found: list[t.Expr] = [
            t.Name(kind, name)
            for name, kind in self.names
            if isinstance(kind, t.Tensor) and kind.element in WHOLE and not kind.shape and (name, kind) not in self.bound()
        ]
        found += [
            t.Read(t.Tensor(x.type.element), x, tuple(t.Name(I32, at[0]) for at in ats))
            for x in self.tensors()
            if x.type.element in WHOLE and all(ats := [self.near(s) for s in x.type.shape])
        ]
        if not found:
            return None
        x = self.pick(found)
        assert isinstance(x.type, t.Tensor)
        return t.Apply(x.type, "bit_and", (x, literal(x.type.element, self.pick((3, 1)))))

    def bound(self) -> list[tuple[str, t.Type]]:
        """The indices in scope, of which the checker knows where they end."""
        return [(name, I32) for name, _ in self.indices]

    def near(self, size: t.Size) -> list[str]:
        return [name for name, bound in self.indices if bound == size]

    def scalar(self, element: str, depth: int) -> t.Expr:
        if depth <= 0 or self.chance(10):
            return self.leaf(element)
        kind = t.Tensor(element)
        way = self.pick(("binary", "binary", "unary", "cast", "if", "reduce", "let", "leaf", "divide"))
        if element == "bool" and way in ("binary", "divide"):
            return self.condition(depth)
        match way:
            case "binary":
                return variable(t.Apply(kind, self.pick(self.operators(element)), self.pair(element, depth - 1)))
            case "unary":
                return variable(self.unary(element, depth))
            case "cast":
                source = self.pick(self.elements)
                return t.Cast(kind, self.scalar(source, depth - 1), shown=True)
            case "if":
                return t.If(kind, self.scalar("bool", depth - 1), *self.pair(element, depth - 1))
            case "reduce" if len(self.indices) < 3:
                return self.reduction(element, depth)
            case "let":
                name, inner = self.fresh("v"), self.pick(self.elements)
                value = self.scalar(inner, depth - 1)
                with self.scope((name, t.Tensor(inner))):
                    return t.Let(kind, name, value, self.scalar(element, depth - 1))
            case "divide":
                return variable(self.divided(element, depth))
        return self.leaf(element)

    def pair(self, element: str, depth: int) -> tuple[t.Expr, t.Expr]:
        return self.scalar(element, depth), self.scalar(element, depth)

    def divided(self, element: str, depth: int) -> t.Expr:
        kind = t.Tensor(element)
        x = self.scalar(element, depth - 1)
        if element in FLOATS:
            return t.Apply(kind, self.pick(("/", "%")), (x, self.scalar(element, depth - 1)))
        if self.risky:
            return t.Apply(kind, self.pick(("/", "%", "**")), (x, self.divisor(element, depth - 1)))
        op = self.pick(("/", "%", "**"))
        return t.Apply(kind, op, (x, literal(element, self.pick((2, 3, 7)))))

    def divisor(self, element: str, depth: int) -> t.Expr:
        """What may be 0 or negative, and is computed from data: a quotient of indices would be a size, and asked of the call."""
        if element != "i32":
            return self.scalar(element, depth)
        return t.Cast(I32, self.scalar(self.pick([e for e in self.elements if e != "i32"] or ["bool"]), depth))

    def unary(self, element: str, depth: int) -> t.Expr:
        inner = self.scalar(element, depth - 1)
        if element == "bool":
            return t.Apply(BOOL, "not", (inner,))
        if element in WHOLE:
            return t.Apply(t.Tensor(element), self.pick(("abs", "-", "sign", "bit_not")), (inner,))
        return self.function(element, inner, depth)

    def function(self, element: str, x: t.Expr, depth: int) -> t.Expr:
        """A function of a float, whose argument is often brought to where it is a number."""
        kind = t.Tensor(element)
        if self.chance(30):
            return t.Apply(kind, self.pick(EXACT), (x,))
        name = self.pick(FUNCTIONS)
        if name in ("atan2", "pow"):
            return t.Apply(kind, name, (x, self.scalar(element, depth - 1)))
        if self.chance(60):
            if name in ("asin", "acos", "atanh", "erfinv"):
                x = t.Apply(kind, "*", (literal(element, Fraction(1, 8)), x))
            elif name in ("sqrt", "log", "rsqrt", "acosh", "lgamma", "digamma"):
                x = t.Apply(kind, "+", (literal(element, Fraction(1)), t.Apply(kind, "abs", (x,))))
        return t.Apply(kind, name, (x,))

    def condition(self, depth: int) -> t.Expr:
        if self.chance(35):
            return t.Apply(BOOL, self.pick(("andalso", "orelse")), self.pair("bool", depth - 1))
        element = self.pick(self.elements)
        op = self.pick(COMPARISONS[:2] if element == "bool" else COMPARISONS)
        return t.Apply(BOOL, op, self.pair(element, depth - 1))


def literal(element: str, value: Any) -> t.Literal:
    if element == "bool":
        return t.Literal(BOOL, value, "true" if value else "false")
    value = Fraction(value) if element in FLOATS else value
    text = repr(float(value)) if element in FLOATS else str(value)
    return t.Literal(t.Tensor(element), value, text if value >= 0 else f"({text})")


def ascribed(x: t.Literal) -> t.Literal:
    """With its type, where nothing else says it."""
    assert isinstance(x.type, t.Tensor)
    return x if x.type.element == "bool" else replace(x, text=f"({x.text} : {x.type.element})")


def variable(e: t.Apply) -> t.Expr:
    """An operation on more than numbers that are written, of which those that do not fit their type are refused."""
    assert isinstance(e.type, t.Tensor)
    constant = e.type.element in WHOLE and not any(isinstance(x, t.Name) for x in t.nodes(e))
    return e.arguments[0] if constant else e


def _leaves(kind: t.Type, path: str = "") -> Iterator[tuple[str, t.Tensor]]:
    if isinstance(kind, t.Record):
        for name, inner in kind.parts:
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    else:
        yield path, kind


def make(seed: int) -> t.Program:
    return Maker(Random(seed), seed).program()
