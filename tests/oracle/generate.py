"""Programs as text, well typed as they are made, with arguments: long chains of values, states of several components.

A Generator is a function of its seed. It writes an expression of a type that is wanted from what is in scope, and knows of every
index which dimensions it stays inside. What the program means is nothing that it knows: that is `definitional`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tests.oracle.arithmetic import DTYPES
from tests.oracle.monoids import Type, monoid

# Of a float, kept where it is no infinity and no NaN.
FUNCTIONS = (
    "(exp (min 1.5 {}))", "(tanh {})", "(sqrt (abs {}))", "(rsqrt (1.0 + abs {}))", "(sin {})", "(cos {})", "(log (1.0 + abs {}))",
    "(erf {})", "(expm1 (min 1.5 {}))", "(log1p (abs {}))", "(cbrt {})", "(atan {})", "(atan2 {} 2.0)", "(asin (0.5 * tanh {}))",
    "(acos (0.5 * tanh {}))", "(sinh (tanh {}))", "(cosh (tanh {}))", "(asinh {})", "(acosh (1.5 + abs {}))",
    "(atanh (0.5 * tanh {}))", "(erfc {})", "(erfinv (0.5 * tanh {}))", "(lgamma (3.0 + abs {}))", "(digamma (2.0 + abs {}))",
)  # fmt: skip
BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
SIZES = (0, 1, 1, 2, 2, 3, 3, 5, 7)
WORK = 130  # points of the indices around an expression


@dataclass(frozen=True)
class Program:
    seed: int
    text: str
    arguments: tuple[Any, ...]
    several: bool  # whether it has a reduction, scan or loop of several components


@dataclass(frozen=True)
class Index:
    name: str
    dims: tuple[str, ...]  # it stays inside these
    size: int


@dataclass(frozen=True)
class Function:
    params: tuple[Type, ...]
    tupled: bool
    result: Type


class Generator:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.seed = seed
        self.wants_several = seed % 2 == 0
        self.exact = self.rng.random() < 0.5
        self.sizes: dict[str, int] = {}
        self.vars: list[tuple[str, Type]] = []
        self.functions: list[tuple[str, Function]] = []
        self.at: list[Index] = []
        self.count = 0
        self.budget = self.rng.choice((3, 5, 8, 12, 20))  # of names, after which expressions stay small
        self.several = False
        narrow = ["bf16"] if self.rng.random() < 0.08 else []
        self.elements = [
            self.rng.choice(("f32", "f32", "f32", "f64", "i32", "u32")),
            *self.rng.sample(("f32", "f64", "i32", "i64", self.rng.choice(("u8", "u16", "u32", "u64", "i8", "i16"))), 2),
            *narrow,
        ]

    # ── choices ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def element(self) -> str:
        return self.rng.choice(self.elements)

    @contextmanager
    def scope(self) -> Iterator[None]:
        before = len(self.vars), len(self.functions), len(self.at)
        yield
        del self.vars[before[0] :], self.functions[before[1] :], self.at[before[2] :]

    @property
    def work(self) -> int:
        return int(np.prod([max(i.size, 1) for i in self.at], dtype=int))

    # ── programs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def program(self) -> Program:
        rng = self.rng
        for name in ("n", "m", "k")[: rng.choice((1, 2, 2, 3))]:
            self.sizes[name] = rng.choice(SIZES)
        texts, arguments = [], []
        shapes = [(d,) for d in self.sizes]
        for _ in range(rng.choice((1, 2, 3))):
            rank = rng.choice((0, 1, 1, 2, 2, 3))
            shapes.append(tuple(rng.choice(list(self.sizes)) for _ in range(rank)))
        rng.shuffle(shapes)
        for position, shape in enumerate(shapes):
            kind: Type = self._tensor(rng.choice((*self.elements, *self.elements, "bool")), shape)
            if self.chance(0.2):
                second = self._tensor(self.element(), rng.choice(shapes))
                kind = ("tuple", kind, second) if self.chance(0.5) else ("record", ("w", kind), ("b", second))
            name = f"x{position}"
            texts.append(f"({name} : {self.type_text(kind)})")
            arguments.append(self.data(kind))
            self.vars.append((name, kind))
        body = self.body()
        return Program(self.seed, f"fun main {' '.join(texts)} =\n  {body}\n", tuple(arguments), self.several)

    @staticmethod
    def _tensor(element: str, dims: tuple[str, ...]) -> Type:
        return ("tensor", element, dims) if dims else element

    def data(self, kind: Type) -> Any:
        match kind:
            case ("tuple", *parts):
                return tuple(self.data(p) for p in parts)
            case ("record", *fields):
                return {name: self.data(p) for name, p in fields}
            case ("tensor", element, dims):
                shape = tuple(self.sizes[d] for d in dims)
            case element:
                shape = ()
        if element == "bool":
            return np.array(self.rng.choices((False, True), k=int(np.prod(shape))), np.bool_).reshape(shape)
        many = self.rng.choices(range(0 if element[0] == "u" else -6, 7), k=int(np.prod(shape)))
        if element[0] in "iu" and element not in ("i32", "i64") and self.chance(0.5):  # also the ends of the range
            limits = np.iinfo(DTYPES[element])
            many = [self.rng.choice((x, x, limits.max, limits.min, limits.max - abs(x))) for x in many]
            return np.array(many, DTYPES[element]).reshape(shape)
        values = np.array(many, np.float64) / (1 if element[0] in "iu" else 2.0 if self.exact or element == "bf16" else 2.3)
        return values.astype(DTYPES[element]).reshape(shape)

    def type_text(self, kind: Type) -> str:
        match kind:
            case ("tuple", *parts):
                return f"({', '.join(map(self.type_text, parts))})"
            case ("record", *fields):
                return "{ " + ", ".join(f"{name} : {self.type_text(p)}" for name, p in fields) + " }"
            case ("tensor", element, dims):
                return f"{element}[{', '.join(dims)}]"
        return str(kind)

    def body(self) -> str:
        """Values, most of them of comprehensions, and a tuple of some of them."""
        decls, results = [], []
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            before = len(self.vars)
            decls += self.declaration(3, top=True)
            results += [name for name, _ in self.vars[before:]]
        results = results or [self.expr(self.element(), 2)]
        shown = [*results[-4:], *([self.expr(self.element(), 2)] if self.chance(0.3) else [])]
        result = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
        return self.let(decls, result)

    @staticmethod
    def let(decls: Sequence[str], body: str) -> str:
        return "let " + "\n      ".join(decls) + f"\n  in {body} end" if decls else body

    # ── declarations ───────────────────────────────────────────────────────────────────────────────────────────────────

    def chain(self, depth: int, count: int) -> list[str]:
        return [d for _ in range(count) for d in self.declaration(depth)]

    def declaration(self, depth: int, top: bool = False) -> list[str]:
        """A `val` or `fun`, whose names are in scope from here on."""
        ways = {
            "scalar": 1 if top else 8, "tuple": 2, "function": 2, "comprehension": 8 if top else 1, "choice": 1, "leaves": 1,
            "reduction": 3 + 3 * self.wants_several, "loop": 1 + self.wants_several, "unfold": 1 if top else 0.3,
            "scan": (2 if top else 0.7) * (1 + self.wants_several),
        }  # fmt: skip
        if self.work * 3 > WORK or self.count > self.budget:
            ways = {"scalar": 6, "tuple": 1, "function": 1, "choice": 1}
        while True:
            way = self.rng.choices(list(ways), list(ways.values()))[0]
            made = getattr(self, f"_{way}")(depth)
            if made:
                return made

    def _scalar(self, depth: int) -> list[str]:
        element = self.element() if self.chance(0.9) else "bool"
        text = self.expr(element, depth)
        return self.define(element, f"({text} : {element})" if self.chance(0.4) else text)

    def define(self, kind: Type, text: str) -> list[str]:
        name = self.name()
        self.vars.append((name, kind))
        return [f"val {name} = {text}"]

    def taken_apart(self, kind: Type, text: str) -> list[str]:
        """A val by a name, or a pattern down to the parts."""
        if self.chance(0.3):
            return self.define(kind, text)
        found: list[tuple[str, Type]] = []

        def pattern(k: Type) -> str:
            match k:
                case ("tuple", *parts):
                    return f"({', '.join(map(pattern, parts))})"
                case ("record", *fields):
                    return "{ " + ", ".join(f"{name} = {pattern(p)}" for name, p in fields) + " }"
            found.append((self.name(), k))
            return found[-1][0]

        shown = pattern(kind)
        self.vars += found
        return [f"val {shown} = {text}"]

    def _tuple(self, depth: int) -> list[str]:
        kind = self.structure(2)
        return self.taken_apart(kind, self.build(kind, depth))

    def _choice(self, depth: int) -> list[str]:
        kind = self.structure(1)
        text = f"if {self.expr('bool', 1)} then {self.build(kind, depth - 1)} else {self.build(kind, depth - 1)}"
        return self.taken_apart(kind, text)

    def _leaves(self, depth: int) -> list[str]:
        """A function at the leaves of tuples and records, of several element types; and their combination."""
        kind = self.structure(2)
        a, b = self.name("p"), self.name("p")
        if self.chance(0.5):
            f = self.rng.choice((f"max {a} {b}", f"{a} + {b}", f"if {a} < {b} then {b} else {a}"))
            return self.taken_apart(kind, f"each (fn {a} {b} => {f}) {self.build(kind, 1)} {self.build(kind, 1)}")
        element = self.element()
        text = f"fold_leaves (op +, {self.literal(element)}) (fn {a} => cast {element} {a}) {self.build(kind, 1)}"
        return self.define(element, text)

    def structure(self, depth: int) -> Type:
        if depth == 0:
            return self.element()
        parts = [self.structure(depth - 1 if self.chance(0.3) else 0) for _ in range(self.rng.choice((2, 2, 3)))]
        if self.chance(0.5):
            return ("tuple", *parts)
        return ("record", *zip(("u", "v", "w"), parts, strict=False))

    def build(self, kind: Type, depth: int) -> str:
        """An expression of any type."""
        if not isinstance(kind, str):
            same = [name for name, k in self.vars if k == kind]
            if same and self.chance(0.3):
                return self.rng.choice(same)
        match kind:
            case ("tuple", *parts):
                return f"({', '.join(self.build(p, depth) for p in parts)})"
            case ("record", *fields):
                shown = [f"{name} = {self.build(p, depth)}" for name, p in fields]
                self.rng.shuffle(shown)
                return "{ " + ", ".join(shown) + " }"
        return self.expr(kind, depth)

    def _function(self, depth: int) -> list[str]:
        kinds = tuple(self.element() if self.chance(0.8) else self.structure(1) for _ in range(self.rng.choice((1, 2, 2))))
        result = self.element() if self.chance(0.7) else self.structure(1)
        tupled = len(kinds) > 1 and self.chance(0.3)
        name, params = self.name("f"), [self.name("p") for _ in kinds]
        texts = [
            f"({p} : {self.type_text(k)})" if self.chance(0.6) or not isinstance(k, str) else p
            for p, k in zip(params, kinds, strict=True)
        ]
        with self.scope():
            self.vars += zip(params, kinds, strict=True)
            decls = self.chain(2, self.rng.choice((0, 0, 1, 3)))
            body = self.let(decls, self.build(result, 2))
        self.functions.append((name, Function(kinds, tupled, result)))
        shown = f"({', '.join(texts)})" if tupled else " ".join(texts)
        return [f"fun {name} {shown} = {body}"]

    # ── indices ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def binders(self, count: int, dependent: bool, bounded: bool = False) -> tuple[list[tuple[str, str]], list[str]]:
        """Some indices in scope, as (name, bound or ""), and reads that tell the ranges of those without a bound."""
        found, forced = [], []
        for _ in range(count):
            dims = [d for d, size in self.sizes.items() if self.work * max(size, 1) <= WORK]
            outer = [i for i in self.at if i.dims]
            name = self.name("i")
            if dependent and outer and self.chance(0.3):
                i = self.rng.choice(outer)
                bound = self.rng.choice((i.name, f"{i.name} + 1"))
                self.at.append(Index(name, i.dims, i.size))
            elif not dims or self.chance(0.1):
                size = self.rng.choice((1, 2, 3))
                self.at.append(Index(name, (), size))
                bound = str(size)
            else:
                dim = self.rng.choice(dims)
                index = Index(name, (dim,), self.sizes[dim])
                self.at.append(index)
                reads = [t for t in (self.read(v, k, index) for v, k in self.leaves() if isinstance(k, tuple)) if t]
                bound = dim
                if reads and not bounded and self.chance(0.6):
                    bound = ""
                    forced.append(self.rng.choice(reads))
            found.append((name, bound))
        return found, forced

    def read(self, text: str, kind: Type, index: Index) -> str | None:
        """A tensor at this index and others that stay inside it."""
        _, element, dims = kind
        if element == "bool" or index.dims[0] not in dims:
            return None
        own = self.rng.choice([n for n, d in enumerate(dims) if d == index.dims[0]])
        places = []
        for n, d in enumerate(dims):
            others = [i.name for i in self.at if d in i.dims]
            if n != own and not others:
                return None
            places.append(index.name if n == own else self.rng.choice(others))
        return f"({text}[{', '.join(places)}], {element})"

    def used(self, forced: Sequence[str], kind: Type, depth: int, lawful: str = "") -> str:
        """A body of a type in which every read of `forced` stands, unguarded; `lawful` makes it from its parts."""
        if not forced and not lawful:
            return self.bodied(kind, depth)
        decls = []
        with self.scope():
            first = True
            for text in forced:
                read, _, element = text[1:-1].rpartition(", ")
                name = self.name()
                decls.append(f"val {name} = {read}")
                self.vars.append((name, element))
            kinds = self.vars[len(self.vars) - len(forced) :]
            decls += self.chain(depth, self.length())

            def built(k: Type) -> str:
                nonlocal first
                match k:
                    case ("tuple", *parts):
                        return f"({', '.join(map(built, parts))})"
                    case ("record", *fields):
                        return "{ " + ", ".join(f"{name} = {built(p)}" for name, p in fields) + " }"
                text = self.expr(k, depth)
                if first:
                    for name, element in kinds:
                        if k == "bool":
                            text = f"(({name} > {self.literal(element)}) orelse {text})"
                        else:
                            text = f"({name if element == k else f'cast {k} {name}'} {self.rng.choice('+-')} {text})"
                first = False
                return text

            if lawful:
                leaves = [k if isinstance(k, str) else k[1] for k in kind[1:]]
                return self.let(decls, lawful.format(*map(built, leaves)))
            return self.let(decls, built(kind))

    def bodied(self, kind: Type, depth: int) -> str:
        with self.scope():
            decls = self.chain(depth, self.length())
            return self.let(decls, self.build(kind, depth))

    def length(self) -> int:
        """Of a chain of values."""
        if self.count > self.budget:
            return 0
        return min(self.rng.choice((0, 0, 1, 2, 3, 5, 8, 12, 20)), self.budget)

    @staticmethod
    def groups(binders: Sequence[tuple[str, str]]) -> str:
        plain = [n for n, b in binders if not b]
        bounded = [f"{n} < {b}" for n, b in binders if b]
        if not bounded:
            return " ".join(plain)
        shown: list[str] = []
        for n, b in binders:
            if b:
                shown.append(f"{n} < {b}")
            else:
                shown.append(n)
        return ", ".join(shown)

    def _comprehension(self, depth: int) -> list[str]:
        with self.scope():
            binders, forced = self.binders(self.rng.choice((1, 1, 2, 2, 3)), dependent=False)
            made = self.at[-len(binders) :]
            kind: Type = self.element() if self.chance(0.6) else self.structure(1)
            text = f"for {self.groups(binders)} => {self.used(forced, kind, depth)}"
        return self.tabled(kind, made, text)

    def tabled(self, kind: Type, indices: Sequence[Index], text: str) -> list[str]:
        """A val of tensors: what a comprehension over indices gives."""
        dims = tuple(i.dims[0] if i.dims else str(i.size) for i in indices)

        def over(k: Type) -> Type:
            match k:
                case ("tuple", *parts):
                    return ("tuple", *map(over, parts))
                case ("record", *fields):
                    return ("record", *((name, over(p)) for name, p in fields))
            return ("tensor", k, dims)

        return self.taken_apart(over(kind), text)

    def _reduction(self, depth: int) -> list[str] | None:
        if self.work * 2 > WORK or self.count > self.budget + 5:
            return None
        with self.scope():
            count = self.rng.choice((1, 1, 1, 2))
            element = self.element()
            made = monoid(self.rng, element, self.exact, self.rng.choice((1, 2, 2, 3, 4, 5) if self.wants_several else (1, 1, 2)))
            self.several |= not isinstance(made.type, str)
            binders, forced = self.binders(count, dependent=True)
            body = self.used(forced, made.type, depth - 1, made.element)
            text = f"reduce {made.text} {self.head(binders)} => {body}"
        return self.taken_apart(made.type, text)

    def head(self, binders: Sequence[tuple[str, str]], where: bool = True) -> str:
        """The indices of a reduction, with a condition now and then."""
        if all(not b for _, b in binders):
            return self.groups(binders)
        if where and all(b for _, b in binders) and self.chance(0.2):
            return f"for {self.groups(binders)} where {self.expr('bool', 1)}"
        return f"for {self.groups(binders)}"

    def _scan(self, depth: int) -> list[str] | None:
        if self.work * 4 > WORK:
            return None
        with self.scope():
            element = self.element()
            made = monoid(self.rng, element, self.exact, self.rng.choice((1, 2, 3)))
            self.several |= not isinstance(made.type, str)
            binders, forced = self.binders(1, dependent=False)
            index = self.at[-1]
            body = self.used(forced, made.type, depth - 1, made.element)
            text = f"scan {made.text} {self.head(binders, where=False)} => {body}"
        return self.tabled(made.type, [index], text)

    def _loop(self, depth: int, unfold: bool = False) -> list[str] | None:
        if self.work * 3 > WORK:
            return None
        kinds = [self.element() for _ in range(self.rng.choice((1, 2, 2, 3) if self.wants_several else (1, 1, 2)))]
        names = [self.name("s") for _ in kinds]
        starts = [f"{n} = {self.expr(k, 1)}" for n, k in zip(names, kinds, strict=True)]
        self.several |= len(kinds) > 1
        test = ""
        if not unfold and self.chance(0.3):
            with self.scope():
                self.vars += zip(names, kinds, strict=True)
                test = f" while ({self.expr('bool', 2)})"
        with self.scope():
            if unfold or self.chance(0.5):
                binders, _ = self.binders(1, dependent=not unfold, bounded=True)
            else:
                binders = [(self.name("i"), self.rng.choice(("0", "1", "2", "3", f"(min 3 {self.expr('i32', 1)})")))]
                self.at.append(Index(binders[0][0], (), 3))
            index = self.at[-1]
            self.vars += zip(names, kinds, strict=True)
            decls = self.chain(2, self.rng.choice((0, 0, 1, 2)))
            parts = [self.tamed(k, self.expr(k, 2)) for k in kinds]
            body = self.let(decls, parts[0] if len(parts) == 1 else f"({', '.join(parts)})")
        word = "unfold" if unfold else "loop"
        text = f"{word} ({', '.join(starts)}){test} for {self.groups(binders)} => {body}"
        kind: Type = kinds[0] if len(kinds) == 1 else ("tuple", *kinds)
        return self.tabled(kind, [index], text) if unfold else self.taken_apart(kind, text)

    def _unfold(self, depth: int) -> list[str] | None:
        return self._loop(depth, unfold=True)

    def tamed(self, element: str, text: str) -> str:
        """So that a loop does not let a float grow without end."""
        return f"(max (-8.0) (min 8.0 {text}))" if element[0] in "fb" and element != "bool" else text

    # ── scalars ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def leaves(self) -> list[tuple[str, Type]]:
        """Every scalar and tensor that a name, or parts of one, give."""
        found: list[tuple[str, Type]] = []

        def add(text: str, kind: Type) -> None:
            match kind:
                case ("tuple", *parts):
                    for n, p in enumerate(parts, 1):
                        add(f"{text}.{n}", p)
                case ("record", *fields):
                    for name, p in fields:
                        add(f"{text}.{name}", p)
                case _:
                    found.append((text, kind))

        for name, kind in self.vars:
            add(name, kind)
        return found

    def literal(self, element: str, bare: bool = False) -> str:
        """A number, with its type where that is not what a number has by itself: a later use alone could give it another."""
        if not bare and element not in ("f32", "i32", "bool"):
            return f"({self.literal(element, bare=True)} : {element})"
        value = self.rng.choice((0, 1, 1, 2, 3, -1, -2))
        value = abs(value) if element[0] == "u" else value
        if element == "bool":
            return self.rng.choice(("true", "false"))
        if element[0] in "iu":
            return str(value) if value >= 0 else f"({value})"
        text = str(value / self.rng.choice((1, 2, 4)))
        return text if value >= 0 else f"({text})"

    def atom(self, element: str) -> str:
        leaves = self.leaves()
        scalars = [t for t, k in leaves if k == element]
        if element == "i32":
            scalars += [i.name for i in self.at] + (list(self.sizes) if self.chance(0.2) else [])
        tensors = [(t, k) for t, k in leaves if isinstance(k, tuple) and k[1] == element]
        if scalars and (not tensors or self.chance(0.65)):
            return self.rng.choice(scalars[-8:] if self.chance(0.6) else scalars)
        if tensors and self.chance(0.8):
            read = self.access(*self.rng.choice(tensors))
            if read:
                return read
        others = [t for t, k in leaves if isinstance(k, str) and k not in (element, "bool")]
        if element != "bool" and others and self.chance(0.4):
            return f"(cast {element} {self.rng.choice(others)})"
        if element == "bool" and self.chance(0.7):
            other = self.element()
            return f"({self.atom(other)} {self.rng.choice(('<', '<=', '>', '>=', '=', '<>'))} {self.atom(other)})"
        return self.literal(element)

    def access(self, text: str, kind: Type) -> str | None:
        """A read that stays inside; that a condition keeps inside; or that is padded."""
        _, element, dims = kind
        inside = [[i for i in self.at if d in i.dims] for d in dims]
        if all(inside) and self.chance(0.75):
            places = [self.rng.choice(own).name for own in inside]
            if self.chance(0.12):
                n = self.rng.randrange(len(dims))
                i, step = places[n], self.rng.choice((1, 2))
                condition, moved = self.rng.choice(
                    ((f"{i} + {step} < {dims[n]}", f"{i} + {step}"), (f"{i} >= {step}", f"{i} - {step}"))
                )
                places[n] = moved
                return f"(if {condition} then {text}[{', '.join(places)}] else {self.atom_or_literal(element)})"
            return f"{text}[{', '.join(places)}]"
        if self.chance(0.35) and all(self.size(d) >= 1 for d in dims):  # computed from data
            places = [
                self.rng.choice(own).name if own and self.chance(0.5) else f"({self.atom('i32')}) % {d}"
                for own, d in zip(inside, dims, strict=True)
            ]
            return f"{text}[{', '.join(places)}]"
        places = []
        for own in inside:
            near = [f"{i.name}{self.rng.choice((' - 1', ' + 1', '', ' - 2', ' + 2'))}" for i in own] + [self.rng.choice("0123")]
            near += [f"{a.name} - {b.name}" for a in self.at[-2:] for b in self.at[-2:] if a is not b]
            near += [f"2 * {i.name}" for i in self.at]  # an index alone would decide its range
            places.append(self.rng.choice(near))
        return f"{text}[{', '.join(places)} | {self.literal(element, bare=True)}]"

    def size(self, dim: str) -> int:
        return self.sizes[dim] if dim in self.sizes else int(dim)

    def atom_or_literal(self, element: str) -> str:
        return self.literal(element) if self.chance(0.5) else self.atom(element)

    def expr(self, element: str, depth: int) -> str:
        """A scalar expression."""
        if depth <= 0 or self.chance(0.15 if self.count <= self.budget else 0.4):
            return self.atom(element)
        if element == "bool":
            return self.condition(depth)
        way = self.rng.choices(("binary", "if", "unary", "call", "sum", "let", "cast", "special"), (10, 2, 2, 2, 1.3, 0.5, 0.7, 2))[
            0
        ]
        match way:
            case "if":
                return f"(if {self.expr('bool', 1)} then {self.expr(element, depth - 1)} else {self.expr(element, depth - 1)})"
            case "unary":
                return self.unary(element, depth)
            case "call":
                made = self.call(element, depth)
                if made:
                    return made
            case "sum":
                made = self.reduced(element, depth)
                if made:
                    return made
            case "let":
                with self.scope():
                    decls = self.chain(depth - 1, self.rng.choice((1, 2)))
                    return f"({self.let(decls, self.expr(element, depth - 1))})"
            case "cast":
                other = self.element()
                if other != element:
                    return f"(cast {element} {self.expr(other, depth - 1)})"
            case "special":
                return self.special(element, depth)
        left, right = self.expr(element, depth - 1), self.expr(element, depth - 1)
        op = self.rng.choice(("+", "-", "*", "+", "-", "*", "max", "min", *(BITS if element[0] in "iu" else ())))
        if op == "-" and self.below_zero(element, left, right):
            op = "+"
        return f"({left} {op} {right})" if op in "+-*" else f"({op} {left} {right})"

    @staticmethod
    def below_zero(element: str, *texts: str) -> bool:
        """Whether a difference of these may be a constant below 0 of a type that has none, which is refused."""
        return element[0] == "u" and not any(re.search("[a-z]", text.replace(f": {element}", "")) for text in texts)

    def unary(self, element: str, depth: int) -> str:
        inner = self.expr(element, depth - 1)
        if element[0] in "iu":
            name = self.rng.choice(("abs ", "-", "sign ", "bit_not "))
            return f"({'abs ' if name == '-' and self.below_zero(element, inner) else name}{inner})"
        if self.exact or self.chance(0.4):
            return self.rng.choice((f"(abs {inner})", f"(-{inner})", f"(sign {inner})", f"(floor {inner})"))
        return self.rng.choice(FUNCTIONS).format(inner)

    def special(self, element: str, depth: int) -> str:
        """Division, with a divisor that is not 0 or a guard that says so."""
        left, right = self.expr(element, depth - 1), self.expr(element, depth - 1)
        if element[0] in "iu":
            op = self.rng.choice("/%")
            return self.rng.choice(
                (f"({left} {op} {self.rng.choice('2357')})", f"(if {right} <> 0 then {left} {op} {right} else {left})",
                 f"(let val d = {right} in if d > 0 then {left} {op} d else d end)")
            )  # fmt: skip
        if self.exact:
            return f"({left} * {self.rng.choice(('0.5', '2.0', '0.25'))})"
        return self.rng.choice((f"({left} / (1.0 + abs {right}))", f"({left} / {self.rng.choice(('3.0', '2.0', '7.0'))})"))

    def condition(self, depth: int) -> str:
        way = self.rng.choice(("compare", "compare", "compare", "logic", "not", "index", "any"))
        match way:
            case "logic":
                return f"({self.expr('bool', depth - 1)} {self.rng.choice(('andalso', 'orelse'))} {self.expr('bool', depth - 1)})"
            case "not":
                return f"(not {self.expr('bool', depth - 1)})"
            case "index" if self.at:
                names = [i.name for i in self.at]
                return f"({self.rng.choice(names)} {self.rng.choice(('<', '<=', '>', '='))} {self.rng.choice([*'012', *names])})"
            case "any" if self.work * 3 <= WORK:
                made = self.reduced("bool", depth)
                if made:
                    return made
        element = self.element()
        op = self.rng.choice(("<", "<=", ">", ">=", "=", "<>"))
        return f"({self.expr(element, depth - 1)} {op} {self.expr(element, depth - 1)})"

    def call(self, element: str, depth: int) -> str | None:
        """A function's result, or a part of it."""
        found = [
            (name, f)
            for name, f in self.functions
            if f.result == element or (isinstance(f.result, tuple) and self.path(f.result, element))
        ]
        if not found:
            return None
        name, f = self.rng.choice(found)
        arguments = [self.build(k, depth - 1) for k in f.params]
        arguments = [a if a[0] in "({" else f"({a})" for a in arguments]
        text = f"{name} ({', '.join(arguments)})" if f.tupled else f"{name} {' '.join(arguments)}"
        return f"({text}){'' if f.result == element else self.path(f.result, element)}"

    def path(self, kind: Type, element: str) -> str | None:
        """The way to a part of an element type."""
        match kind:
            case ("tuple", *parts):
                named = [(f".{n}", p) for n, p in enumerate(parts, 1)]
            case ("record", *fields):
                named = [(f".{n}", p) for n, p in fields]
            case _:
                return "" if kind == element else None
        found = [at + deeper for at, p in named if (deeper := self.path(p, element)) is not None]
        return self.rng.choice(found) if found else None

    def reduced(self, element: str, depth: int) -> str | None:
        """A named reduction, or a part of a custom one."""
        if self.work * 2 > WORK or self.count > self.budget:
            return None
        with self.scope():
            if element != "bool" and self.chance(0.4 if self.wants_several else 0.15):
                made = monoid(self.rng, element, self.exact, 2)
                at = self.path(made.type, element)
                if at is None:
                    return None
                self.several |= not isinstance(made.type, str)
                binders, forced = self.binders(1, dependent=True)
                body = self.used(forced, made.type, depth - 1, made.element)
                return f"(reduce {made.text} {self.head(binders)} => {body}){at}"
            if element == "bool":
                kind, inner, where = self.rng.choice(("any", "all")), "bool", True
            elif element == "i32" and self.chance(0.3):
                kind, inner, where = self.rng.choice(("argmax", "argmin")), self.element(), False
            else:
                kind, inner, where = self.rng.choice(("sum", "sum", "sum", "max", "min", "prod")), element, True
            some = kind in ("argmax", "argmin") or (kind in ("max", "min") and element[0] in "iu")
            binders, forced = self.binders(1, dependent=not some)
            if some and self.at[-1].size == 0:
                return None
            text = f"({kind} {self.head(binders, where and not some)} => {self.used(forced, inner, depth - 1)})"
        return self.tamed(element, text) if kind in ("max", "min") and element[0] in "fb" and element != "bool" else text


def generate(seed: int) -> Program:
    return Generator(seed).program()
