"""Random core programs with inputs. Most run; some fail by an index or a divisor, and then both interpreters must fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import Symbol, fresh
from axon.base.source import SourceFile
from axon.core.ir import Axis, Bind, Convert, Monoid, Scalar, Select, Unary, Value
from axon.core.verify import CoreInvalid
from axon.interpret import run
from axon.shapes.dimension import Dim, maximum, minimum
from tests.core.build import BOOL, F32, I32, I64, Build, at, custom, dim, index, ix, lit, local, op

SPAN = SourceFile("random.axon", "here").span()
SIZES = (0, 1, 1, 2, 2, 3, 5)


def outcome(program, inputs):
    """What a program gives, bit for bit, or the diagnostics with which it stops; None where it reads outside a tensor, which the
    generator does not rule out."""
    try:
        return [(x.dtype, x.shape, x.tobytes()) for x in run(program, inputs)]
    except AxonError as error:
        return error.diagnostics
    except CoreInvalid:
        return None


@dataclass
class Scope:
    axes: list[tuple[Axis, int]] = field(default_factory=list)  # with a bound of their extents
    locals: list[tuple[Symbol, Element]] = field(default_factory=list)

    def plus(self, axes: list[tuple[Axis, int]]) -> Scope:
        return Scope([*self.axes, *axes], list(self.locals))


class Generator:
    of_a_size = F32  # the element type of inputs that only have a size

    def __init__(self, random: Random, sizes: tuple[int, ...] = SIZES) -> None:
        self.random = random
        self.choices = sizes
        self.build = Build("random")
        self.sizes: dict[Symbol, int] = {}
        self.tensors: list[Value] = []

    def pick(self, *items):
        return items[self.random.randrange(len(items))]

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    # ── programs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def program(self):
        """A program and inputs that satisfy its contract."""
        for name in "nm":
            self.sizes[fresh(name)] = self.pick(*self.choices)
        for i in range(self.random.randint(1, 3)):
            shape = [self.extent() for _ in range(self.pick(0, 1, 1, 2, 2, 3))]
            self.tensors.append(self.build.input(f"x{i}", self.pick(*Element), *shape))
        known = {s for v in self.tensors for d in v.shape if (s := d.symbol)}
        for symbol in self.sizes:  # every dimension must be found in some shape
            if symbol not in known:
                self.tensors.append(self.build.input("e", self.of_a_size, Dim.of(symbol)))
        results = []
        for _ in range(self.random.randint(1, 3)):
            made = self.operation()
            self.tensors += made
            results += made
        inputs = [self.values(v) for v in self.build.inputs]
        return self.build.program(*results), inputs

    def size(self, extent: Dim) -> int:
        return extent.evaluate(self.sizes)

    def extent(self) -> Dim:
        n = Dim.of(self.pick(*self.sizes))
        return self.pick(n, n, n, n + 1, 2 * n, Dim.of(2), Dim.of(1))

    def values(self, value: Value):
        shape = [self.size(d) for d in value.shape]
        if value.element is BOOL:
            numbers = [self.random.random() < 0.5 for _ in range(int(np.prod(shape)))]
        elif value.element.is_float:
            special = [np.nan, np.inf, -np.inf, -0.0] if self.chance(20) else []
            numbers = [self.pick(-3.0, -1.5, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, *special) for _ in range(int(np.prod(shape)))]
        else:
            low = 0 if value.element.is_unsigned else -4
            numbers = [self.random.randint(low, 4) for _ in range(int(np.prod(shape)))]
        return np.array(numbers, np.float64).astype(value.element.dtype).reshape(shape)

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def axis(self, extent: Dim | None = None) -> tuple[Axis, int]:
        extent = self.extent() if extent is None else extent
        return ix(self.pick(*"ijkl"), extent), max(0, self.size(extent))

    def operation(self) -> list[Value]:
        match self.pick("map", "map", "reduce", "reduce", "reduce", "scan", "loop", "sort", "product", "product"):
            case "sort" if sortable := [v for v in self.tensors if v.shape]:
                return list(self.build.sort(self.pick(*sortable)))
            case "loop" if self.tensors:
                return self.loop()
            case "scan":
                return self.scan()
            case "reduce":
                return self.reduce()
            case "product":
                return self.product()
        axes = [self.axis() for _ in range(self.pick(0, 1, 1, 2, 2, 3))]
        bodies = [self.scalar(self.pick(*Element), Scope(axes)) for _ in range(self.pick(1, 1, 2))]
        return self.outs(self.build.compute([a for a, _ in axes], *bodies, span=SPAN))

    def outs(self, made) -> list[Value]:
        return list(made) if isinstance(made, tuple) else [made]

    def ragged(self, scope: Scope) -> tuple[Axis, int]:
        """A reduced axis, whose extent may depend on the axes around it."""
        if not scope.axes or self.chance(60):
            return self.axis()
        outer, bound = self.pick(*scope.axes)
        i, n = dim(outer), Dim.of(self.pick(*self.sizes))
        size = self.size(n)
        return self.pick(
            (ix("k", i + 1), bound), (ix("k", i), bound), (ix("k", n - i), size), (ix("k", minimum(i, n)), min(bound, size))
        )  # fmt: skip

    def reduce(self) -> list[Value]:
        axes = [self.axis() for _ in range(self.pick(0, 1, 1, 2))]
        scope = Scope(axes)
        over: list[tuple[Axis, int]] = []
        for _ in range(self.pick(1, 1, 2)):
            over.append(self.ragged(scope.plus(over)))
        inner = scope.plus(over)
        kind = self.pick("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "custom")
        where = self.scalar(BOOL, inner.plus([])) if self.chance(35) else None
        monoid, bodies = self.monoid(kind, inner, len(over))
        domain, reduced = [a for a, _ in axes], [a for a, _ in over]
        if kind not in ("max", "min", "argmax", "argmin") or self.chance(50):
            return self.outs(self.build.compute(domain, *bodies, over=reduced, by=monoid, where=where, span=SPAN))
        first = [self.axis(axis.extent) for axis in domain]
        asked = self.build.compute([a for a, _ in first], self.scalar(BOOL, Scope(first), 2), span=SPAN)
        made = self.build.compute(domain, *bodies, over=reduced, by=monoid, where=where, asked=at(asked, *domain), span=SPAN)
        return [self.only_asked(value, asked) for value in self.outs(made)]

    def only_asked(self, value: Value, asked: Value) -> Value:
        """A result where it is asked for, as later operations must not look at the rest."""
        axes = [ix("i", extent) for extent in value.shape]
        return self.build.compute(axes, Select(at(asked, *axes), at(value, *axes), lit(0, value.element)))

    def monoid(self, kind: str, scope: Scope, reduced: int) -> tuple[Monoid, list[Scalar]]:
        if kind == "custom":
            return self.custom(), [self.scalar(I32, scope.plus([])) for _ in range(2)]
        if kind in ("any", "all"):
            return Monoid(kind), [self.scalar(BOOL, scope)]
        body = self.scalar(self.pick(*[e for e in Element if e is not BOOL]), scope.plus([]))
        indices = [index(axis) for axis, _ in scope.axes[-reduced:]] if kind in ("argmax", "argmin") else []
        return Monoid(kind), [body, *indices]

    def custom(self) -> Monoid:
        """Composition of x -> a * x + b: associative, not commutative, exact on integers."""
        compose = lambda f, g: (op("mul", f[0], g[0]), op("add", op("mul", f[1], g[0]), g[1]))
        return custom((lit(1, I32), lit(0, I32)), compose)

    def product(self) -> list[Value]:
        """A sum of a product of reads: what is done as a matrix product."""
        axes = [self.axis() for _ in range(self.pick(1, 2, 2, 3))]
        scope = Scope(axes)
        over = [self.ragged(scope) for _ in range(self.pick(1, 1, 2))]
        inner = scope.plus(over)
        element = self.pick(*[e for e in Element if e is not BOOL])
        body = self.leaf(element, inner)
        for _ in range(self.pick(1, 1, 2)):
            body = op("mul", body, self.leaf(element, inner))
        where = self.scalar(BOOL, inner, 1) if self.chance(25) else None
        made = self.build.compute([a for a, _ in axes], body, over=[a for a, _ in over], by="sum", where=where, span=SPAN)
        return self.outs(made)

    def scan(self) -> list[Value]:
        axes = [self.axis() for _ in range(self.pick(1, 2))]
        monoid, bodies = self.monoid(self.pick("sum", "prod", "max", "min", "any", "all", "custom"), Scope(axes), 0)
        return self.outs(self.build.scan([a for a, _ in axes], *bodies, by=monoid))

    def loop(self) -> list[Value]:
        initial = [self.pick(*self.tensors) for _ in range(self.pick(1, 2))]
        trip = index(self.pick(*map(Dim.of, self.sizes), Dim.of(2)))

        def step(inner: Build, counter: Value, states: tuple[Value, ...]) -> list[Value]:
            outer, self.build, tensors = self.build, inner, self.tensors
            self.tensors = [*tensors, *states, counter]
            results = []
            for state in states:
                axes = [self.axis(extent) for extent in state.shape]
                body = self.scalar(state.element, Scope(axes))
                results.append(self.build.compute([a for a, _ in axes], body, span=SPAN))
            self.build, self.tensors = outer, tensors
            return results

        return self.outs(self.build.loop(initial, trip, step, stacked=self.chance(50)))

    # ── scalar expressions ──────────────────────────────────────────────────────────────────────────────────────────────

    def scalar(self, element: Element, scope: Scope, depth: int = 3) -> Scalar:
        if depth == 0 or self.chance(15):
            return self.leaf(element, scope)
        sub = lambda e=element: self.scalar(e, scope, depth - 1)
        match self.pick("binary", "binary", "unary", "select", "convert", "bind", "leaf"):
            case "binary" if element is BOOL:
                name = self.pick("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "and", "or")
                operand = BOOL if name in ("and", "or") else self.pick(*Element)
                return op(name, sub(operand), sub(operand))
            case "binary":
                name = self.pick("add", "sub", "mul", "max", "min", *(["div", "mod"] if element.is_integer else []))
                if name in ("div", "mod") and self.chance(70):
                    return op(name, sub(), lit(self.pick(1, 2, 3), element))
                return op(name, sub(), sub())
            case "unary" if element is BOOL:
                return Unary("not", sub())
            case "unary":
                rounding = ["floor", "ceil", "round", "sqrt"] if element.is_float else []
                return Unary(self.pick("neg", "abs", "sign", *rounding), sub())
            case "select":
                return Select(sub(BOOL), sub(), sub())
            case "convert":
                return Convert(sub(self.pick(*Element)), element)
            case "bind":
                inner = scope.plus([])
                bindings = []
                for _ in range(self.pick(1, 2)):
                    kind = self.pick(*Element)
                    bindings.append((fresh("v"), self.scalar(kind, inner, depth - 1)))
                    inner.locals.append((bindings[-1][0], kind))
                return Bind(tuple(bindings), self.scalar(element, inner, depth - 1))
        return self.leaf(element, scope)

    def leaf(self, element: Element, scope: Scope) -> Scalar:
        mine = [s for s, e in scope.locals if e is element]
        if mine and self.chance(40):
            return local(self.pick(*mine), element)
        if element in (I32, I64) and self.chance(40):
            return index(self.dim(scope), element)
        readable = [v for v in self.tensors if v.element is element]
        if readable and self.chance(85):
            return self.read(self.pick(*readable), scope)
        if self.tensors and self.chance(70):
            value = self.pick(*self.tensors)
            return Convert(self.read(value, scope), element)
        return self.constant(element)

    def constant(self, element: Element) -> Scalar:
        if element is BOOL:
            return lit(self.chance(50), BOOL)
        return lit(self.pick(0.5, -1.0, 2.0, -0.25) if element.is_float else self.pick(0, 1, 2, 3), element)

    def dim(self, scope: Scope) -> Dim:
        """Any symbolic index: affine, or with a floor, a remainder, a minimum or a product of axes."""
        atoms = [dim(axis) for axis, _ in scope.axes] or [Dim.of(1)]
        a, b = self.pick(*atoms), self.pick(*atoms)
        n = Dim.of(self.pick(*self.sizes))
        return self.pick(a, a + b, n - 1 - a, 2 * a - 1, a // 2, (a + b) % 3, minimum(a, n), maximum(a, b), a * b, a * n)

    def read(self, value: Value, scope: Scope) -> Scalar:
        inside = [[axis for axis, bound in scope.axes if bound <= self.size(d)] for d in value.shape]
        if all(inside) and self.chance(60):
            return at(value, *[self.pick(*axes) for axes in inside])
        subs = [self.dim(scope) for _ in value.shape]
        match self.pick("padded", "guarded", "checked", "remainder", "computed"):
            case "padded":
                padding = self.constant(value.element) if self.chance(70) else self.leaf_padding(value.element, scope)
                return at(value, *subs, padding=padding)
            case "guarded":
                inside_all: Scalar = lit(True, BOOL)
                for sub, extent in zip(subs, value.shape, strict=True):
                    inside_all = op("and", inside_all, op("le", lit(0, I32), index(sub)))
                    inside_all = op("and", inside_all, op("lt", index(sub), index(extent)))
                return Select(inside_all, at(value, *subs), self.constant(value.element))
            case "computed":
                computed = [self.scalar(self.pick(I32, I64), scope.plus([]), 1) for _ in subs]
                padding = self.constant(value.element) if self.chance(70) else None
                return at(value, *computed, padding=padding, checked=SPAN)
            case "checked" if self.chance(25):
                return at(value, *subs, checked=SPAN)
        if all(self.size(d) > 0 for d in value.shape):
            return at(value, *[sub % d for sub, d in zip(subs, value.shape, strict=True)])
        return self.constant(value.element)

    def leaf_padding(self, element: Element, scope: Scope) -> Scalar:
        return Convert(index(self.dim(scope)), element)
