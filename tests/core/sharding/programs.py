"""Random programs of Axon as text, and what they come to in NumPy, which shares no code with the checker, core or its evaluator.

A program is a few values, one made of the others: comprehensions over sizes that are functions of n, k and c, whose bodies read at
shifted, strided, reversed, wrapped, clamped, merged, divided and computed places, reduce under conditions and over ranges that end
at other indices, choose, compare and nest; scans, sorts, loops, and merged dimensions. In NumPy an index is an array along an axis
of its own, so an expression is one array of rank R.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

Array = np.ndarray
Made = Callable[["Env"], Any]  # what a text comes to
Scope = list[tuple[str, int, str]]  # of indices: the name, the axis in NumPy, the size up to which it runs, if that is one
R = 8
ELEMENTS = {"i32": np.int32, "i64": np.int64, "u8": np.uint8, "f64": np.float64, "f32": np.float32, "i16": np.int16}


def at(axis: int, count: int) -> Array:
    """An index, along its axis."""
    shape = [1] * R
    shape[axis] = count
    return np.arange(count, dtype=np.int64).reshape(shape)


class Env:
    """Sizes, tensors and indices while a program runs; `peak` is the largest float that was made."""

    def __init__(self, sizes: Mapping[str, int], tensors: dict[str, Array]) -> None:
        self.sizes, self.tensors, self.peak = sizes, tensors, 0.0
        self.index: dict[str, Array] = {}


def size(text: str, sizes: Mapping[str, int]) -> int:
    return int(eval(text.replace("/", "//"), {}, dict(sizes)))


class Gen:
    """Programs of one element type; `smooth` ones neither sort nor ask where something is."""

    def __init__(self, r: Random, elem: str, smooth: bool) -> None:
        self.r, self.elem, self.smooth = r, elem, smooth
        self.isf = elem[0] == "f"
        self.tensors: dict[str, list[str]] = {}  # of each name the sizes of its dimensions
        self.size_pool: list[str] = []
        self.count = 0
        self.free = list(range(R))

    def lit(self, v: int) -> str:
        if self.elem[0] == "u":
            v = abs(v)
        return f"{v}.0" if self.isf and v >= 0 else f"({v}.0)" if self.isf else str(v) if v >= 0 else f"({v})"

    def var(self) -> tuple[str, int]:
        self.count += 1
        return f"i{self.count}", self.free.pop()

    def subscript(self, scope: Scope, s: str) -> tuple[str, Made, bool]:
        """A place in a dimension of so many elements, and whether it is surely inside."""
        r = self.r
        if not scope:
            c = r.randint(0, 2)
            return str(c), lambda e: np.int64(c), False
        name, _, bound = r.choice(scope)
        v = lambda e: e.index[name]
        c, d = r.randint(1, 3), r.randint(0, 3)
        S = lambda e: size(s, e.sizes)
        P = f"({s})"
        k = r.randrange(17)
        if k < 4:
            same = [q for q in scope if q[2] == s]
            if same:
                name2 = r.choice(same)[0]
                return name2, lambda e: e.index[name2], True
            return name, v, False
        if k == 4:
            return f"{name} + {c}", lambda e: v(e) + c, False
        if k == 5:
            return f"{name} - {c}", lambda e: v(e) - c, False
        if k == 6:
            return f"{c + 1} * {name} + {d}", lambda e: (c + 1) * v(e) + d, False
        if k == 7:
            return f"{P} - 1 - {name}", lambda e: S(e) - 1 - v(e), bound == s
        if k == 8:
            return f"({name} + {c}) % {P}", lambda e: (v(e) + c) % S(e), True
        if k == 9:
            return f"({name} - {c}) % {P}", lambda e: (v(e) - c) % S(e), True
        if k == 10:
            return f"{name} / {c + 1}", lambda e: v(e) // (c + 1), bound == s
        if k == 11:
            return f"{name} % {c + 1}", lambda e: v(e) % (c + 1), False
        if k == 12:
            return f"min ({name} + {c}) ({P} - 1)", lambda e: np.minimum(v(e) + c, S(e) - 1), False
        if k == 13:
            return f"max ({name} - {c}) 0", lambda e: np.maximum(v(e) - c, 0), bound == s
        name2, _, bound2 = r.choice(scope)
        v2 = lambda e: e.index[name2]
        if k == 14:
            if name2 == name or not bound2.replace(" ", "").isidentifier():
                return f"{name} + {name2}", lambda e: v(e) + v2(e), False
            return f"{name} * {bound2} + {name2}", lambda e: v(e) * size(bound2, e.sizes) + v2(e), False
        if k == 15:
            return f"{name} + {c} * {name2} - {d}", lambda e: v(e) + c * v2(e) - d, False
        ids = lambda e: self.read(e, "ids", [v(e)], 0)
        return f"(ids[{name} | 0] + {c}) % {P}", lambda e: (ids(e) + c) % S(e), False

    def read(self, e: Env, name: str, idx: Sequence[Any], default: int) -> Array:
        t = e.tensors[name]
        idx = [np.asarray(i) for i in idx]
        inside = np.bool_(True)
        for i, n in zip(idx, t.shape, strict=True):
            inside = inside & (i >= 0) & (i < n)
        if t.size == 0:
            return np.broadcast_to(np.asarray(default, t.dtype), np.broadcast_shapes(np.shape(inside), *[i.shape for i in idx]))
        got = t[tuple(np.clip(i, 0, n - 1) for i, n in zip(idx, t.shape, strict=True))]
        return np.where(inside, got, np.asarray(default, t.dtype))

    def a_read(self, scope: Scope) -> tuple[str, Made]:
        r = self.r
        name = r.choice(list(self.tensors))
        subs = [self.subscript(scope, s) for s in self.tensors[name]]
        d = r.choice((0, 0, 1, 5))
        safe = all(s[2] for s in subs)
        text = ", ".join(s[0] for s in subs)
        pad = "" if safe and r.random() < 0.7 else f" | {self.lit(d)}"
        fns = [s[1] for s in subs]
        return f"{name}[{text}{pad}]", lambda e: self.read(e, name, [f(e) for f in fns], d)

    def guard(self, scope: Scope) -> tuple[str, Made]:
        r = self.r
        name, _, bound = r.choice(scope)
        name2 = r.choice(scope)[0]
        v, v2 = (lambda e: e.index[name]), (lambda e: e.index[name2])
        c = r.randint(1, 3)
        k = r.randrange(7)
        if k == 0:
            return f"{name} >= {c}", lambda e: v(e) >= c
        if k == 1:
            return f"{name} % 2 = {c % 2}", lambda e: v(e) % 2 == c % 2
        if k == 2:
            return f"{name} <= {name2}", lambda e: v(e) <= v2(e)
        if k == 3:
            return f"({name} + {name2}) % {c + 1} = 0", lambda e: (v(e) + v2(e)) % (c + 1) == 0
        if k == 4 and bound:
            return f"{name} + {c} < {bound}", lambda e: v(e) + c < size(bound, e.sizes)
        if k == 5:
            return f"ids[{name} | 0] > {c}", lambda e: self.read(e, "ids", [v(e)], 0) > c
        return f"{name} < {name2} + {c} andalso {name} + {c} > {name2}", lambda e: (v(e) < v2(e) + c) & (v(e) + c > v2(e))

    def cast(self, x: Any) -> Array:
        return np.asarray(x).astype(ELEMENTS[self.elem])

    def expr(self, scope: Scope, depth: int) -> tuple[str, Made]:
        r = self.r
        k = r.randrange(14) if depth else r.randrange(4)
        if k < 2 or (not scope):
            return self.a_read(scope)
        if k == 2:
            name = r.choice(scope)[0]
            return f"cast {self.elem} {name}", lambda e: self.cast(e.index[name])
        if k == 3:
            return self.a_read(scope)
        if k < 7:
            (a, f), (b, g) = self.expr(scope, depth - 1), self.expr(scope, depth - 1)
            op = r.choice("+-+-*")
            fn = {"+": np.add, "-": np.subtract, "*": np.multiply}[op]
            return f"(({a}) {op} ({b}))", lambda e: fn(f(e), g(e))
        if k == 7:
            (a, f), (b, g) = self.expr(scope, depth - 1), self.expr(scope, depth - 1)
            op = r.choice(("max", "min"))
            return f"({op} ({a}) ({b}))", lambda e: (np.maximum if op == "max" else np.minimum)(f(e), g(e))
        if k == 8:
            (a, f), (b, g), (p, h) = self.expr(scope, depth - 1), self.expr(scope, depth - 1), self.guard(scope)
            return f"(if {p} then {a} else {b})", lambda e: np.where(h(e), f(e), g(e))
        return self.reduction(scope, depth)

    def bound(self, scope: Scope) -> tuple[str, Made, Made | None]:
        """A range of a new index: text, how many at most, and a mask where it depends."""
        r = self.r
        k = r.randrange(6)
        if k < 3:
            s = r.choice(self.size_pool)
            return s, (lambda e: size(s, e.sizes)), None
        if k == 3:
            c = r.randint(1, 3)
            return str(c), (lambda e: c), None
        if not scope:
            return "k", (lambda e: size("k", e.sizes)), None
        name, _, b = r.choice(scope)
        if k == 4 or not b:
            return f"{name} + 1", (lambda e: int(e.index[name].max(initial=-1)) + 1), (lambda e: e.index[name] + 1)
        return f"{b} - {name}", (lambda e: size(b, e.sizes)), (lambda e: size(b, e.sizes) - e.index[name])

    def reduction(self, scope: Scope, depth: int) -> tuple[str, Made]:
        r = self.r
        if not self.free or len(self.free) < 2 or len(scope) > 4:
            return self.a_read(scope)
        b, most, dep = self.bound(scope)
        name, axis = self.var()
        inner = [*scope, (name, axis, "" if dep else b)]
        body, f = self.expr(inner, depth - 1)
        kinds = ["sum", "sum", "sum", "max", "min"] + ([] if self.smooth else ["argmax", "any", "all", "prod", "argmin"])
        kind = r.choice(kinds)
        where = None
        if kind in ("sum", "any", "all", "prod") and r.random() < 0.3:
            where = self.guard(inner)
        self.free.append(axis)

        def fn(e: Env) -> Any:
            count = most(e)
            e.index[name] = at(axis, count)
            keep = np.bool_(True) if dep is None else e.index[name] < dep(e)
            if where is not None:
                keep = keep & where[1](e)
            v = f(e)
            if kind in ("any", "all"):
                v = v > self.cast(1)
            shape = np.broadcast_shapes(np.shape(v), np.shape(keep), e.index[name].shape)
            v, keep = np.broadcast_to(v, shape), np.broadcast_to(keep, shape)
            del e.index[name]
            with np.errstate(all="ignore"):
                if kind == "sum":
                    return np.where(keep, v, v.dtype.type(0)).sum(axis, dtype=v.dtype, keepdims=True)
                if kind == "prod":
                    return np.where(keep, v, v.dtype.type(1)).prod(axis, dtype=v.dtype, keepdims=True)
                if kind == "any":
                    return self.cast((keep & v).any(axis, keepdims=True))
                if kind == "all":
                    return self.cast((~keep | v).all(axis, keepdims=True))
                low = -np.inf if v.dtype.kind == "f" else np.iinfo(v.dtype).min
                high = np.inf if v.dtype.kind == "f" else np.iinfo(v.dtype).max
                if kind == "max":
                    return np.where(keep, v, v.dtype.type(low)).max(axis, keepdims=True)
                if kind == "min":
                    return np.where(keep, v, v.dtype.type(high)).min(axis, keepdims=True)
                if kind == "argmax":  # of equal ones the first; masked ones are behind
                    return self.cast(_arg(v, keep, axis, 1))
                return self.cast(_arg(v, keep, axis, -1))

        g = f" where {where[0]}" if where else ""
        if kind in ("any", "all"):
            yes, no = f"({self.lit(1)} : {self.elem})", self.lit(0)
            return f"(if ({kind} for {name} < {b}{g} => {body} > {self.lit(1)}) then {yes} else {no})", fn
        if kind in ("argmax", "argmin"):
            return f"(cast {self.elem} ({kind} for {name} < {b} => {body}))", fn
        return f"({kind} for {name} < {b}{g} => {body})", fn

    def comp(self, sizes: list[str] | None = None) -> tuple[str, list[str], Made]:
        sizes = sizes or [self.r.choice(self.size_pool) for _ in range(self.r.choice((1, 2, 2, 2, 3)))]
        scope = []
        for s in sizes:
            name, axis = self.var()
            scope.append((name, axis, s))
        body, f = self.expr(scope, self.r.randint(1, 3))
        text = f"for {', '.join(f'{n} < {s}' for n, _, s in scope)} => {body}"

        def fn(e: Env) -> Any:
            for n, a, s in scope:
                e.index[n] = at(a, size(s, e.sizes))
            v = f(e)
            shape = [1] * R
            for _, a, s in scope:
                shape[a] = size(s, e.sizes)
            v = np.broadcast_to(v, shape)
            order = [a for _, a, _ in scope]
            v = np.transpose(v, [*order, *[a for a in range(R) if a not in order]]).reshape([shape[a] for a in order])
            for n, _, _ in scope:
                del e.index[n]
            return np.ascontiguousarray(v)

        for _, a, _ in scope:
            self.free.append(a)
        return text, sizes, fn

    def statement(self) -> tuple[str, list[str], Made]:
        """A value: its text, its sizes, and what it comes to."""
        r = self.r
        k = r.randrange(12)
        if k < 6:
            return self.comp()
        name = r.choice(list(self.tensors))
        sizes = self.tensors[name]
        T = lambda e: e.tensors[name]
        if (k == 6 and not self.smooth) or k == 7:
            op, unit, acc = r.choice((("op +", 0, np.add), ("max", -99 if self.elem[0] != "u" else 0, np.maximum)))
            if op == "max" and self.isf:
                op = "op +"
                unit = 0
                acc = np.add
            u = self.lit(unit)
            if len(sizes) == 1:
                return f"scan ({op}, {u}) i => {name}[i]", sizes, lambda e: _scan(T(e), 0, acc, unit)
            if len(sizes) == 2:
                if r.random() < 0.5:
                    return f"for j => scan ({op}, {u}) i => {name}[i, j]", sizes[::-1], lambda e: _scan(T(e), 0, acc, unit).T
                return f"for j => scan ({op}, {u}) i => {name}[j, i]", sizes, lambda e: _scan(T(e), 1, acc, unit)
            return (
                f"for a b => scan ({op}, {u}) i => {name}[i, a, b]",
                [sizes[1], sizes[2], sizes[0]],
                lambda e: np.moveaxis(_scan(T(e), 0, acc, unit), 0, 2),
            )
        if k == 8 and not self.smooth:
            if len(sizes) == 1:
                return f"sort {name}", sizes, lambda e: np.sort(T(e), kind="stable")
            if len(sizes) == 2:
                if r.random() < 0.5:
                    return f"for j => sort (for i => {name}[i, j])", sizes[::-1], lambda e: np.sort(T(e), 0).T
                return f"for j => sort (for i => {name}[j, i])", sizes, lambda e: np.sort(T(e), 1)
        if k == 9 and len(sizes) >= 2:
            ps = [s if s.isidentifier() else f"({s})" for s in sizes]
            if len(sizes) == 2:
                if r.random() < 0.5:
                    return f"for (i, j) => {name}[i, j]", [f"{ps[0]} * {ps[1]}"], lambda e: T(e).reshape(-1)
                return f"for (j, i) => {name}[i, j]", [f"{ps[1]} * {ps[0]}"], lambda e: T(e).T.reshape(-1)
            if r.random() < 0.5:
                return (
                    f"for (i, j), l => {name}[i, j, l]".replace("for (i, j), l", "for (i, j) l"),
                    [f"{ps[0]} * {ps[1]}", sizes[2]],
                    lambda e: (
                        T(e).reshape(-1, T(e).shape[2]) if T(e).size else T(e).reshape(T(e).shape[0] * T(e).shape[1], T(e).shape[2])
                    ),
                )
            return (
                f"for l (i, j) => {name}[i, j, l]",
                [sizes[2], f"{ps[0]} * {ps[1]}"],
                lambda e: np.moveaxis(T(e), 2, 0).reshape(T(e).shape[2], T(e).shape[0] * T(e).shape[1]),
            )
        if k >= 10:
            steps = r.randint(1, 3)
            state = f"s{self.count}"
            self.count += 1
            self.tensors[state] = sizes
            body, _, f = self.comp(list(sizes))
            del self.tensors[state]

            def fn(e: Env) -> Any:
                e.tensors[state] = T(e)
                for _ in range(steps):
                    v = f(e)
                    e.tensors[state] = v
                return e.tensors.pop(state)

            return f"loop ({state} = {name}) for _ < {steps} => {body}", sizes, fn
        return self.comp()

    def program(self) -> tuple[str, Callable[[Mapping[str, Array], Mapping[str, int]], tuple[list[Array], float]]]:
        """A text, and the function that gives its results and the largest float in between."""
        r = self.r
        self.size_pool = ["n", "k", "n", "k", "c", "2 * n", "n + 1", "k + 2"]
        self.tensors = {
            "x": ["n", "k"],
            "y": [r.choice(("k", "n", "2 * n")), r.choice(("c", "n", "2 * k"))],
            "z": [r.choice(("n", "k", "n * c"))],
        }
        params = " ".join(f"({t} : {self.elem}[{', '.join(s)}])" for t, s in self.tensors.items())
        lines, made = [], []
        for q in range(r.randint(1, 4)):
            text, sizes, fn = self.statement()
            name = f"t{q}"
            lines.append(f"    val {name} = {text}")
            made.append((name, sizes, fn))
            self.tensors[name] = list(sizes)
            for s in sizes:
                if s not in self.size_pool and "*" not in s:
                    self.size_pool.append(s)
        outs = [name for name, _, _ in made][-2:]
        res = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
        head = f"fun main {params} (ids : i32[n]) (w : i32[c]) where n >= 1, k >= 1, c >= 1 =\n  let\n"
        text = head + "\n".join(lines) + f"\n  in {res} end\n"

        def run(inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> tuple[list[Array], float]:
            e = Env(sizes, dict(inputs))
            with np.errstate(all="ignore"):
                for name, _, fn in made:
                    v = fn(e)
                    assert v.dtype == ELEMENTS[self.elem], (name, v.dtype)
                    e.tensors[name] = v
                    if v.dtype.kind == "f" and v.size:
                        e.peak = max(e.peak, float(np.abs(v).max()))
            return [e.tensors[o] for o in outs], e.peak

        return text, run


def _scan(v: Array, axis: int, acc: Any, unit: int) -> Array:
    return acc.accumulate(v, axis, dtype=v.dtype) if v.size else v.copy()


def _arg(v: Array, keep: Array, axis: int, sign: int) -> Array:
    out = np.zeros_like(np.take(v, [0], axis), dtype=np.int64)
    best = np.take(v, [0], axis)
    for i in range(1, v.shape[axis]):
        c = np.take(v, [i], axis)
        k = np.take(keep, [i], axis)
        better = k & ((c > best) if sign > 0 else (c < best))
        out = np.where(better, i, out)
        best = np.where(better, c, best)
    return out
