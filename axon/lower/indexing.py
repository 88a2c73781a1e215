"""Lowering of index notation: comprehensions and accesses. Reductions and loops: `loops`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import TypeAlias, assert_never

from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import Axis, Const, Convert, Index, Read, Scalar, Select, element_of
from axon.core.ir import Binary as CoreBinary
from axon.lower.builder import Context, CoreBuilder
from axon.lower.scalars import as_scalar, integer, simplified
from axon.lower.tensors import ONE, along, leaves, rebuild, scalar_value
from axon.lower.value import Env, Frame, Subscripts, TensorValue, Value
from axon.shapes.dimension import Dim
from axon.types import typed as T
from axon.types.type import ElementType, ElementVar, Row, Shape, Tensor, Type
from axon.types.unify import State

Definitions: TypeAlias = "Mapping[Symbol, tuple[T.Decl, State]]"


class Indexing(ABC):
    def __init__(self, builder: CoreBuilder, definitions: Definitions) -> None:
        self.b = builder
        self.definitions = definitions
        self.globals: dict[Symbol, Value] = {}
        self.sizes: set[Symbol] = set()  # that nothing in the program is put for: a call determines them, or nothing does

    @abstractmethod
    def eval(self, env: Env, e: T.Expr, c: Context) -> Value: ...

    @abstractmethod
    def apply(self, f: Value, arguments: Sequence[Value], c: Context, span: Span) -> Value: ...

    @abstractmethod
    def bind(self, env: Env, pattern: T.Pattern, value: Value) -> dict[Symbol, Value]: ...

    def scalar(self, env: Env, e: T.Expr, c: Context) -> Scalar:
        value = self.eval(env, e, c)
        assert isinstance(value, TensorValue)
        return value.at(())

    # ── what the checker's variables stand for ─────────────────────────────────────────────────────────────────────────

    def dim(self, env: Env, dim: Dim) -> Dim:
        dim = env.frame.state.dimension(dim)
        image = {s: found for s in dim.variables if (found := env.dims.get(s) or env.frame.dims.get(s)) is not None}
        self.sizes |= dim.variables - image.keys()
        return dim.substitute(image)

    def element(self, env: Env, element: ElementType) -> Element:
        element = env.frame.state.element(element)
        if isinstance(element, ElementVar):
            found = env.frame.elements.get(element.symbol)
            return found if found is not None else Element.F32
        return element

    def shape(self, env: Env, shape: Shape) -> tuple[Dim, ...]:
        out: list[Dim] = []
        for item in env.frame.state.shape(shape):
            if isinstance(item, Row):
                out.extend(env.frame.rows.get(item.symbol, ()))
            else:
                out.append(self.dim(env, item))
        return tuple(out)

    def instance(self, env: Env, target: Frame, instance: T.Instance) -> Frame:
        """The frame of a function's activation: its variables are what they are at this use."""
        dims = {s: self.dim(env, d) for s, d in instance.dims.items()}
        return Frame(
            target.state,
            {**target.elements, **{s: self.element(env, e) for s, e in instance.elements.items()}},
            {**target.rows, **{s: self.shape(env, r) for s, r in instance.rows.items()}},
            {**{s: d.substitute(dims) for s, d in target.dims.items()}, **dims},  # a `val` may name an instance of another function
        )

    def _element_of(self, env: Env, t: Type) -> Element:
        t = env.frame.state.prune(t)
        assert isinstance(t, Tensor)
        return self.element(env, t.element)

    # ── index notation ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _axes(self, env: Env, binders: tuple[T.Binder, ...], c: Context) -> tuple[Env, list[Axis], list[list[Axis]]]:
        """Axes for binders, in scope; and which of them make each dimension of the result."""
        axes: list[Axis] = []
        groups: list[list[Axis]] = []
        for binder in binders:
            match binder:
                case T.Indices(symbols=symbols, extents=extents):
                    new = [Axis(fresh(s.name), self.dim(env, x)) for s, x in zip(symbols, extents, strict=True)]
                    env = env.with_indices({s: _index(a) for s, a in zip(symbols, new, strict=True)}, {})
                    groups.append(new)
                case T.IndexRun(symbol=symbol, row=row):
                    shape = self.shape(env, (row,))
                    new = [Axis(fresh(symbol.name.strip(".") or "i"), x) for x in shape]
                    env = env.with_indices({}, {symbol: tuple(map(_index, new))})
                    groups += [[a] for a in new]
                case _:
                    assert_never(binder)
            for axis in new:
                self.b.note(axis.extent, c.with_axes(axes))
            axes += new
        return env, axes, groups

    def _for(self, env: Env, e: T.For, c: Context) -> Value:
        inner, axes, groups = self._axes(env, e.binders, c)
        before = self.b.risk
        body = self.eval(inner, e.body, c.with_axes(axes))
        risky = self.b.risk > before
        groups = [[a for a in g if a.extent != ONE] or g[:1] for g in groups]  # the only index of 1 moves nothing
        if all(len(g) == 1 for g in groups):
            return self._collect(body, [g[0] for g in groups], c, risky, e.span)
        return rebuild(body, [self._flattened(leaf, groups, c, risky, e.span) for leaf in leaves(body)])

    def _collect(self, body: Value, axes: list[Axis], c: Context, risky: bool, at: Span) -> Value:
        """The tensors of a comprehension's body, for all indices; it is written `at` a place."""
        return rebuild(body, [self._collected(leaf, axes, c, risky, at) for leaf in leaves(body)])

    def _collected(self, leaf: TensorValue, axes: list[Axis], c: Context, risky: bool, at: Span) -> TensorValue:
        own, scalar, own_risk = self.b.anywhere(leaf)
        risky = risky or own_risk
        every = [*axes, *own]
        view = self._as_view(scalar, every)
        if view is not None and not (risky and c.guards):
            return view
        return self.b.compute(every, (scalar,), c, risky, ("t",), around=at)[0]

    def _as_view(self, scalar: Scalar, axes: list[Axis]) -> TensorValue | None:
        """A comprehension that only reads each element from somewhere needs no storage: a transposition, a slice, a row."""
        if not isinstance(scalar, Read) or scalar.padding is not None or scalar.checked is not None:
            return None
        own = {a.symbol: n for n, a in enumerate(axes)}
        plan: list[Dim] = []
        for subscript in scalar.subscripts:
            if not isinstance(subscript, Dim) or not _linear(subscript, own):
                return None
            plan.append(subscript)

        def at(s: Subscripts) -> Scalar:
            if all(isinstance(x, Dim) for x in s):
                image = {symbol: s[n] for symbol, n in own.items()}
                return Read(scalar.tensor, tuple(d.substitute(image) for d in plan), scalar.element)  # type: ignore[arg-type]
            subscripts = tuple(self._shifted(d, own, s) for d in plan)
            return Read(scalar.tensor, subscripts, scalar.element)

        return TensorValue(scalar.element, tuple(a.extent for a in axes), at)

    def _shifted(self, d: Dim, own: dict[Symbol, int], s: Subscripts) -> Dim | Scalar:
        """A symbolic subscript where some of its axes stand for computed indices."""
        computed = [x for x in own if x in d.variables and not isinstance(s[own[x]], Dim)]
        image = {x: s[n] for x, n in own.items() if x in d.variables and x not in computed}
        d = d.substitute(image)  # type: ignore[arg-type]
        out: Scalar | None = None
        for x in computed:
            split = d.linear_in(x)
            assert split is not None, "a view's subscripts are linear in its axes"
            index = as_scalar(s[own[x]])
            if element_of(index) is not Element.I32:
                index = Convert(index, Element.I32)
            term = index if split[0] == ONE else CoreBinary("mul", index, Index(split[0]))
            out = term if out is None else CoreBinary("add", out, term)
            d = split[1]
        if out is None:
            return d
        return out if d == Dim.of(0) else CoreBinary("add", out, Index(d))

    def _flattened(self, leaf: TensorValue, groups: list[list[Axis]], c: Context, risky: bool, at: Span) -> TensorValue:
        """A comprehension in which several indices make one dimension: the first of them varies slowest."""
        own, scalar, own_risk = self.b.anywhere(leaf)
        risky = risky or own_risk
        outer = [Axis(fresh("_".join(a.symbol.name for a in g)), prod((a.extent for a in g), start=ONE)) for g in groups]
        for axis in outer:
            self.b.note(axis.extent, c)
        image: dict[Symbol, Dim] = {}
        for axis, group in zip(outer, groups, strict=True):
            rest = Dim.of(axis.symbol)
            for part in reversed(group[1:]):
                image[part.symbol], rest = rest % part.extent, rest // part.extent
            image[group[0].symbol] = rest
        return self.b.compute([*outer, *own], (scalar,), c, risky, ("t",), image=image, around=at)[0]

    def _stored(self, value: TensorValue, c: Context) -> TensorValue:
        return self.b.store(value, c) if value.lazy else value

    def _access(self, env: Env, e: T.Access, c: Context) -> Value:
        base = self.eval(env, e.base, c)
        default = None if e.default is None else self.scalar(env, e.default, c)
        return rebuild(base, [self._access_leaf(env, e, leaf, default, c) for leaf in leaves(base)])

    def _access_leaf(self, env: Env, e: T.Access, base: TensorValue, default: Scalar | None, c: Context) -> TensorValue:
        base = self._stored(base, c)
        shape: list[Dim] = []
        plan: list[Dim | Scalar | tuple[Dim, Dim]] = []  # a subscript, or (start, step) of a kept dimension
        position = 0
        others = [s for s in e.subscripts if not isinstance(s, T.Keep)]
        fixed = sum(len(env.runs[s.symbol]) if isinstance(s, T.IndexRun) else 1 for s in others)
        for subscript in e.subscripts:
            match subscript:
                case T.At(values=values, sizes=sizes):
                    scalars = [_placed(self.scalar(env, v, c)) for v in values]
                    plan.append(self._subscript(env, scalars, sizes))
                    position += 1
                case T.IndexRun(symbol=symbol):
                    plan += env.runs[symbol]
                    position += len(env.runs[symbol])
                case T.Keep():
                    count = len(base.shape) - fixed
                    for extent in base.shape[position : position + count]:
                        plan.append((Dim.of(0), ONE))
                        shape.append(extent)
                    position += count
                case T.Slice(start=start, stop=stop, step=step):
                    a, s = self.dim(env, start), self.dim(env, step)
                    b = base.shape[position] if stop is None else self.dim(env, stop)
                    plan.append((a, s))
                    shape.append(self._slice_length(env, a, b, s))
                    self.b.note(shape[-1], c)
                    position += 1
                case _:
                    assert_never(subscript)
        for extent in base.shape[position:]:  # a part of a record with more dimensions than subscripts
            plan.append((Dim.of(0), ONE))
            shape.append(extent)

        def subscripts(kept: Subscripts) -> Subscripts:
            rest = iter(kept)
            return tuple(along(p, next(rest)) if isinstance(p, tuple) else p for p in plan)

        own = [Axis(fresh("i"), extent) for extent in shape]
        places, around = subscripts(tuple(Dim.of(a.symbol) for a in own)), c.with_axes(own)
        if default is not None and not self.b.inside(base, places, around):
            return self._padded(base, tuple(shape), subscripts, default)
        before = self.b.risk
        probe = self.b.read(base, places, around, e.span, inside=default is not None)
        risky = self.b.risk > before
        if not shape:
            return scalar_value(probe, base.element)
        if isinstance(probe, Read) and probe.checked is not None:
            return self.b.compute(own, (probe,), c, True, ("t",))[0]
        return TensorValue(base.element, tuple(shape), lambda s: base.at(subscripts(s)), guarded=risky)

    def _slice_length(self, env: Env, start: Dim, stop: Dim, step: Dim) -> Dim:
        """How many elements a slice has. Where an index decides where it starts, within a step that divides the whole, that is the
        same for all of them: the checker has seen to it."""
        length = stop - start if step == ONE else (stop - start + step - 1) // step
        return next(((stop - start + i) // step for i in env.dims.values() if not length.variables.isdisjoint(i.variables)), length)

    def _subscript(self, env: Env, scalars: list[Scalar], sizes: tuple[Dim, ...]) -> Dim | Scalar:
        """One subscript; of a split, the indices with the first varying slowest.

        Where data give one of them, it is computed so that what is outside stays outside: in 64 bits, and of numbers that are
        brought so near to 0 that products hold. Every extent is below 2^31, and so is what is inside.
        """
        whole = scalars[0]
        for scalar, size in zip(scalars[1:], sizes[1:], strict=False):
            extent = self.dim(env, size)
            if integer(whole) is not None and integer(scalar) is not None:
                whole = simplified("add", simplified("mul", whole, Index(extent)), scalar)
            else:
                slow = CoreBinary("mul", _near(whole, 2**32), Index(extent, Element.I64))
                whole = CoreBinary("add", slow, _near(scalar, 2**31))
        found = integer(whole)
        return whole if found is None else found

    def _padded(
        self, base: TensorValue, shape: tuple[Dim, ...], subscripts: Callable[[Subscripts], Subscripts], default: Scalar
    ) -> TensorValue:
        stored = base

        def at(s: Subscripts) -> Scalar:
            found = stored.at(subscripts(s))
            if isinstance(found, Read) and stored.symbol is not None:
                return Read(found.tensor, found.subscripts, found.element, default)
            if self.b.extents.fragile((*stored.shape, *shape), self.b.known):
                self.b.risk += 1
            inside: Scalar | None = None
            for subscript, size in zip(subscripts(s), stored.shape, strict=True):
                i = as_scalar(subscript)
                element = element_of(i)
                ok = CoreBinary("and", simplified("ge", i, Index(Dim.of(0), element)), simplified("lt", i, Index(size, element)))
                inside = ok if inside is None else CoreBinary("and", inside, ok)
            return found if inside is None else Select(inside, found, default)

        if not shape:
            return scalar_value(at(()), base.element)
        return TensorValue(base.element, shape, at, lazy=True)


def _index(axis: Axis) -> Dim:
    """Where along an axis: the only index of one of extent 1 is 0."""
    return Dim.of(0) if axis.extent == ONE else Dim.of(axis.symbol)


def _linear(dim: Dim, axes: Collection[Symbol]) -> bool:
    """Whether a subscript is a sum of axes with coefficients, so that a computed index can stand for any of them."""
    splits = [dim.linear_in(a) for a in dim.variables if a in axes]
    return all(s is not None and not any(v in axes for v in s[0].variables) for s in splits)


def _placed(scalar: Scalar) -> Scalar:
    """A computed index as core has it, an i32 or i64. No tensor reaches to where a u64 is brought down to the greatest i64."""
    element = element_of(scalar)
    if element in (Element.I32, Element.I64):
        return scalar
    if element is Element.U64:
        return Convert(CoreBinary("min", scalar, Const(Element.I64.limits[1], element)), Element.I64)
    return Convert(scalar, Element.I32 if element.bits < 32 else Element.I64)


def _near(scalar: Scalar, most: int) -> Scalar:
    """An integer in 64 bits, and at most so far from 0 as `most`, which is at least 2^31."""
    symbolic = integer(scalar)
    if symbolic is not None:
        return Index(symbolic, Element.I64)
    if element_of(scalar) is not Element.I64:
        return Convert(scalar, Element.I64)
    return CoreBinary("max", CoreBinary("min", scalar, Const(most, Element.I64)), Const(-most, Element.I64))
