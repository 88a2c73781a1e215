"""Where the sizes of a declaration come from: each dimension of an expression followed back to what decides it.

`Trail.of` gives the nearest place that says something: an annotation, the index that runs over a dimension, a flattening `(i, j)`,
a slice, an array literal, or the call whose result has the size. Values are followed through `val`s, pointwise operations and the
functions that pass a dimension on. Errors label these places, and `axon explain --shapes` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axon.base.data import replace
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.places import Inner, Parameter, subscripts
from axon.explain.ranges import Made, Origin, Ranges, listed
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.types import typed as T
from axon.types.holes import dimension_arguments
from axon.types.type import Function, RecordType, Row, Shape, Tensor, TupleType, Type, which

_MAX_STEPS = 60  # followed from one expression
_MAX_SOURCES = 24  # of one size


class Trail(Ranges):
    """The sizes of one declaration, followed through its places."""

    def of_place(self, span: Span, raw: Dim, index: bool) -> Origin | None:
        """The origin of a size at a place: an expression, a written type, or an index (`index`), of the dimension that it is of."""
        size = self._state.dimension(raw)
        if index and (found := self._indexed.get(span)) is not None:
            access, axis = found
            return self._folded(self.of(access.base, axis, size))
        expr = self.at(span)
        if expr is None:
            return self._annotation(span, size)
        if isinstance(self._state.prune(expr.type), Function):
            return self._taken(expr, raw)
        return self._folded(self.of(expr, self.axis_of(expr, raw), size))

    def _folded(self, found: Origin | None) -> Origin | None:
        """An origin, or, where an index runs over what was flattened before, the flattening: there the size came about."""
        deeper = found
        for _ in range(_MAX_STEPS):
            if deeper is None or deeper.kind != "index" or deeper.base is None:
                break
            deeper = self.of(deeper.base, deeper.axis)
        return deeper if deeper is not None and deeper.kind == "flatten" else found

    def makers(self, span: Span, raw: Dim, index: bool) -> tuple[Inner, ...]:
        """What the functions of this file through whose calls a size at a place has passed make of it, the one nearest to where it
        comes from first.
        """
        self._passed.clear()
        self.of_place(span, raw, index)
        return self._made()

    def through(self, span: Span, raw: Dim, index: bool) -> tuple[T.Expr, ...]:
        """The functions through whose calls a size at a place has passed, each with what it is given in braces."""
        self._passed.clear()
        self.of_place(span, raw, index)
        return tuple(function for function, *_ in self._passed)

    def accesses(self, span: Span, raw: Dim, index: bool) -> tuple[tuple[T.Access, int], ...]:
        """The accesses that keep a size at a place, each by which of its subscripts."""
        self._kept.clear()
        self.of_place(span, raw, index)
        return tuple(self._kept)

    def _made(self) -> tuple[Inner, ...]:
        found = ((function, self._inner(function, axis, rank, way)) for function, axis, rank, way in reversed(tuple(self._passed)))
        return tuple(inner for function, inner in found if inner is not None and inner.span.file.path == function.span.file.path)

    def result(
        self, body: T.Expr, axis: int, rank: int, way: tuple[int | str, ...]
    ) -> tuple[Origin | None, Dim | None, bool, tuple[Inner, ...]]:
        """Of a dimension of a function's result, which has this rank at a call, or of a part of it: the origin in its body, its
        size, whether it is another dimension of what the function is given, and what the functions called there make of it.
        """
        shape = self.shape(self._at(body.type, way))
        rows = [n for n, i in enumerate(shape or ()) if isinstance(i, Row)]
        if rows and shape is not None and axis > rows[0]:  # what follows a shape variable is counted from the end
            axis -= rank - len(shape)
        if shape is None or not 0 <= axis < len(shape) or axis in rows:
            return None, None, False, ()
        self._passed.clear()
        step = self._part(body, way, axis, None) if way else (body, axis)
        found = self.of(*step) if isinstance(step, tuple) else step
        over = self.shape(found.base.type) if found is not None and found.kind == "index" and found.base is not None else None
        same = over is not None and found is not None and _same_place(shape, axis, over, found.axis)
        same = same and over is not None and found is not None and self._size(shape[axis]) == self._size(over[found.axis])
        return found, self._size(shape[axis]), not same, self._made()

    def sources(self, first: Origin | None) -> Iterator[Origin]:
        """An origin, then what the sizes there come from, and so on back to what is written."""
        seen: set[Span] = set()
        todo = [] if first is None else [first]
        while todo and len(seen) < _MAX_SOURCES:
            origin = todo.pop(0)
            if origin.span in seen:
                continue
            seen.add(origin.span)
            yield origin
            todo += self._behind(origin)

    def _behind(self, origin: Origin) -> Iterator[Origin]:
        found: list[Origin | None] = []
        if origin.base is not None and origin.kind in ("index", "split", "slice"):
            found.append(self.of(origin.base, origin.axis))
        if origin.base is not None and origin.kind == "parameter":
            found.append(self._used(origin.base, origin.axis))
        for part in origin.made_of:
            found.append(self.range(part) if isinstance(part, Symbol) else self._having(*part))
        yield from (o for o in found if o is not None)

    def _having(self, e: T.Expr, axis: int | None, size: Dim | None) -> Origin | None:
        """The origin of a dimension of an expression, which is said of the expression where it is an annotation's."""
        found, shape = self.of(e, axis, size), self.shape(e.type)
        if found is None or found.kind != "annotation" or found.why or shape is None or axis is None:
            return found
        place = "its last dimension" if axis == len(shape) - 1 else which(shape, axis)
        return replace(found, why=f"`{e.span.excerpt}` has {{}} as {place}")

    def cause(self, first: Origin | None, size: Dim) -> list[Origin]:
        """Of a size with divisions that nobody has written: where it was split, and what is written there."""
        found: list[Origin] = []
        origin = first if size.quotients else None
        for _ in range(_MAX_SOURCES):
            if origin is not None and origin is not first and origin.kind in ("split", "annotation"):
                found.append(origin)
            if origin is not None and origin.kind == "split":
                found += self._other_parts(origin)
            if origin is None or (not size.quotients and origin.kind != "split"):
                break
            parts = [*origin.made_of] if origin.kind in ("call", "flatten") else []
            if parts:
                part = max(parts, key=lambda p: _complexity(self._part_size(p)))
                size, origin = self._part_size(part), self.range(part) if isinstance(part, Symbol) else self._having(*part)
            elif origin.base is not None and origin.kind in ("index", "split", "slice"):
                size, origin = self._item(origin.base, origin.axis), self._having(origin.base, origin.axis, None)
            else:
                break
        return [o for o in found if o.kind != "annotation" or not o.span.text.isidentifier()]

    def _other_parts(self, split: Origin) -> Iterator[Origin]:
        """Of a dimension that is split: what the sizes of the other parts are read off."""
        for symbol in split.made_of:
            other = self.range(symbol) if isinstance(symbol, Symbol) else None
            if other is not None and other.kind == "index" and other.base is not None and other.read is not None:
                why = f"{other.why.removeprefix('since ')}, which is {{}}"
                yield Origin("part", other.read, why, (self._item(other.base, other.axis),))

    def _part_size(self, part: Symbol | Made) -> Dim:
        if isinstance(part, Symbol):
            binder = self._binders.get(part)
            return self._state.dimension(binder.range.extent) if binder is not None else Dim.of(0)
        e, axis, size = part
        return size or self._item(e, axis or 0)

    def _used(self, parameter: T.Expr, axis: int) -> Origin | None:
        """Of a parameter without a type: what else decides the size that a call takes where it is passed."""
        if not isinstance(parameter, T.Variable):
            return None
        for function, n, argument in self.arguments():
            if isinstance(argument, T.Variable) and argument.symbol == parameter.symbol and argument.span != parameter.span:
                t = self._parameter(function.type, n)
                shape, whole = (self.shape(t) if t is not None else None) or (), self.shape(argument.type) or ()
                item = next((shape[k] for k in range(len(shape)) if _same_place(shape, k, whole, axis)), None)
                found = self._taken(function, item, argument) if isinstance(item, Dim) else None
                if found is not None and found.kind == "annotation":
                    return replace(found, why=f"since `{self._calls[function].span.excerpt}` asks for it")
        return None

    def _parameter(self, t: Type, n: int) -> Type | None:
        """The type of the n-th parameter of a function."""
        for _ in range(n):
            t = self._state.prune(t)
            if not isinstance(t, Function):
                return None
            t = t.result
        t = self._state.prune(t)
        return t.param if isinstance(t, Function) else None

    def _taken(self, function: T.Expr, raw: Dim, but: T.Expr | None = None) -> Origin | None:
        """Of what a function takes: the other argument of the call that has the same size."""
        call = self._calls.get(function)
        given: Origin | None = None
        decided: Origin | None = None  # by what is passed, in its own words
        itself = False  # whether what is given is known of an argument that has the size itself: another one says more
        t = self._state.prune(function.type)
        for argument in call.arguments if call is not None else ():
            if not isinstance(t, Function):
                break
            if argument is but:
                t = self._state.prune(t.result)
                continue
            shapes = [*self._shapes(t.param)]
            for shape in shapes:
                if raw in shape and raw.constant is None:
                    whole = self.shape(argument.type)
                    axis = self._aligned(shape, shape.index(raw), whole)
                    size = self._state.dimension(raw)
                    if axis is not None and whole is not None and (axis < 0 or self._size(whole[axis]) != size):
                        continue  # the very one that does not fit
                    found = self.of(argument, axis, size)
                    if found is not None and found.kind == "annotation":
                        return found
                    if found is not None and found.kind in ("bound", "slice", "literal", "flatten", "argument"):
                        decided = decided or found
            others = [shape for shape in shapes if raw not in shape]
            akin = dict.fromkeys(i for s in others for i in s if isinstance(i, Dim) and i.variables & raw.variables)
            sizes = tuple(dict.fromkeys(map(self._state.dimension, akin)))[:2]
            if sizes and (given is None or (itself and others == shapes)):
                why = f"since `{argument.span.excerpt}` has {listed(len(sizes))}"
                made_of = tuple((argument, None, self._state.dimension(d)) for d in akin)
                given = Origin("given", argument.span, why, sizes, made_of=made_of)
                parts = [self.of(argument, self.axis_of(argument, d), self._state.dimension(d)) for d in akin]
                if len(parts) == 1 and parts[0] is not None and parts[0].kind == "argument":
                    given = replace(parts[0], why=f"{why}, {parts[0].why}", sizes=sizes)
                itself = others != shapes
            t = self._state.prune(t.result)
        if itself and "{" in function.span.text:  # of what is given in braces, that says more
            given = None
        return decided or given or Origin("call", function.span)

    def _aligned(self, shape: Shape, axis: int, whole: Shape | None) -> int | None:
        """Which dimension of an argument, of shape `whole`, is this one of the parameter's; None if a shape variable hides that."""
        if whole is None or any(isinstance(i, Row) for i in whole):
            return None
        rows = [n for n, i in enumerate(shape) if isinstance(i, Row)]
        if rows:
            at = axis if axis < rows[0] else len(whole) - len(shape) + axis
            return at if axis < rows[0] or axis > rows[-1] else None
        return axis if len(whole) == len(shape) else None

    def axis_of(self, expr: T.Expr, raw: Dim) -> int | None:
        """Which dimension of a tensor this is: the very one, else the first of this size."""
        shape = self.shape(expr.type)
        if shape is None:
            return None
        if raw in shape:
            return shape.index(raw)
        sizes = [self._size(item) for item in shape]
        size = self._state.dimension(raw)
        return sizes.index(size) if size in sizes else None

    def given(self, e: T.Expr, axis: int) -> Origin | None:
        """Of a part of a parameter: where the arguments of the parameter's type, `p : gpt2[v, 768]`, mention a dimension's size."""
        size = self._size((self.shape(e.type) or ())[axis])
        whole = e
        while isinstance(whole, T.Field | T.Project):
            whole = whole.record if isinstance(whole, T.Field) else whole.value
        place = self._defined.get(whole.symbol) if isinstance(whole, T.Variable) and whole is not e else None
        if not isinstance(place, Parameter) or "{" in place.span.text or size is None:
            return None
        inside = (s for d, s in self._written if d == size and s.file is place.span.file and _within(s, place.span))
        return next((Origin("annotation", s) for s in inside), None)

    # ── following ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def of(self, expr: T.Expr, axis: int | None, size: Dim | None = None) -> Origin | None:
        """What decides a dimension of an expression; `axis` None: of a record or tuple, whichever part has this size."""
        for _ in range(_MAX_STEPS):
            shape = self.shape(expr.type) if axis is not None else None
            if shape is not None and axis is not None and axis < len(shape):  # one size is written in several ways
                size = self._size(shape[axis]) or size
            step = self._step(expr, axis, size)
            if not isinstance(step, tuple):
                return step
            expr, axis = step
        return None

    def _step(self, e: T.Expr, axis: int | None, size: Dim | None) -> tuple[T.Expr, int | None] | Origin | None:
        """The origin, or another expression with the same dimension, or None."""
        match e:
            case T.Variable():
                return self._variable(e, axis, size)
            case T.Field(record=record, name=name):
                return self._part(record, (name,), axis, size)
            case T.Project(value=value, position=position):
                return self._part(value, (position,), axis, size)
            case T.Let(body=body) | T.If(then=body) | T.Open(value=body):
                return body, axis
            case T.Cast(value=value):
                return value, axis
            case T.Unary(operand=operand):
                return operand, axis
            case T.Coerce():
                return self._annotation(e.span, size) or Origin("coercion", e.span, "as `as` says")
            case T.Binary(left=left, right=right):
                return self._among((left, right), e, axis, size)
            case T.Call():
                return self._call(e, axis, size)
            case T.Access(base=base) if axis is None:  # of a record of tensors
                return base, None
            case T.Tuple(items=items) if axis is None and size is not None:
                sizes = ((item, [self._size(i) for i in self.shape(item.type) or ()]) for item in items)
                return next(((item, own.index(size)) for item, own in sizes if size in own), None)
        if axis is None:
            return None
        match e:
            case T.For(binders=binders, body=body):
                return self._binder(binders, body, axis)
            case T.Reduce(scan=scan, binders=binders, body=body):
                return self._binder(binders, body, axis) if scan else (body, axis)
            case T.Loop():
                return self._loop(e, axis)
            case T.MatMul(left=left, right=right):
                return self._product(left, right, e, axis)
            case T.Access():
                return self._access(e, axis)
            case T.Array(items=items):
                if axis == 0:
                    return Origin("literal", e.span, "")
                return items[0], axis - 1
            case _:
                return None

    def _variable(self, e: T.Variable, axis: int | None, size: Dim | None) -> tuple[T.Expr, int | None] | Origin | None:
        match self._defined.get(e.symbol):
            case Parameter(span):
                return self._annotation(span, size, axis) or Origin("parameter", span, base=e, axis=axis or 0)
            case (value, way):
                return self._part(value, way, axis, size)
        if dimension_arguments(e.span):  # a function of dimensions alone
            return self._applied(e, e, (), axis, size, ())
        return None

    def _annotation(self, span: Span, size: Dim | None, axis: int | None = None, way: tuple[int | str, ...] = ()) -> Origin | None:
        """Where a written type within a place mentions a size, itself or by the type of a field (`way` leads to it); the `axis`-th
        mention if it is one tensor's type.
        """
        if size is None:
            return None
        inside = [(d, s) for d, s in self._written if s.file is span.file and _within(s, span)]
        if axis is not None and 0 <= axis < len(inside) and inside[axis][0] == size:
            return Origin("annotation", inside[axis][1], sizes=(size,))
        direct = next((Origin("annotation", s, sizes=(size,)) for d, s in inside if d == size), None)
        field = self._in_field(span, size, way) if way or direct is None else None
        return field or direct or self._in_field(span, size, way, outermost=True)

    def _in_field(self, span: Span, size: Dim, way: tuple[int | str, ...], outermost: bool = False) -> Origin | None:
        """Where a type that is named within a place mentions a size in the field that is meant, if that is one place.

        `outermost`: only in what stands the fewest fields deep, which gives it to what stands deeper.
        """
        named = [
            (path, s)
            for d, s, at, path in self._expanded
            if at.file is span.file and s.file.path == span.file.path and span.start <= at.start and at.end <= span.end
            if self._state.dimension(d) == size
        ]
        names = tuple(step for step in way if isinstance(step, str))
        meant = [(path, s) for path, s in named if path[: len(names)] == names[: len(path)]]
        if outermost:
            least = min((len(path) for path, _ in meant), default=0)
            meant = [(path, s) for path, s in meant if len(path) == least]
        given = {s for path, s in meant if len(path) <= len(names)}  # what the field's own type is given, rather than uses of it
        places = given or {s for _, s in meant}
        if len(given) > 1 and names:  # the arguments of one type, say `pair[8 * w, 8 * w]`: all that have the size
            # Its declaration is a file of its own in an editor.
            whole = Span(next(iter(given)).file, min(s.start for s in given), max(s.end for s in given))
            return Origin("annotation", whole, sizes=(size,)) if not set("\n{}:[]") & set(whole.text) else None
        return Origin("annotation", places.pop(), sizes=(size,)) if len(places) == 1 else None

    def _part(
        self, whole: T.Expr, way: tuple[int | str, ...], axis: int | None, size: Dim | None
    ) -> tuple[T.Expr, int | None] | Origin | None:
        """Of a field or a part of a tuple, perhaps of parts of parts: `way` leads to it."""
        while isinstance(whole, T.Let | T.Open | T.If | T.Field | T.Project) or (way and isinstance(whole, T.Access)):
            match whole:
                case T.Access(base=inner):  # of a record of tensors
                    whole, axis = inner, None
                case T.Let(body=inner) | T.If(then=inner) | T.Open(value=inner):
                    whole = inner
                case T.Field(record=inner, name=name):
                    whole, way = inner, (name, *way)
                case T.Project(value=inner, position=position):
                    whole, way = inner, (position, *way)
        if not way:
            return whole, axis
        match whole:
            case T.Record(fields=parts):
                part = next((v for n, v in parts if n == way[0]), None)
                return None if part is None else self._part(part, way[1:], axis, size)
            case T.Tuple(items=items) if isinstance(way[0], int):
                return self._part(items[way[0] - 1], way[1:], axis, size)
            case T.Variable(symbol=symbol):
                match self._defined.get(symbol):
                    case Parameter(span):
                        return self._annotation(span, size, None, way) or Origin("parameter", span, base=whole)
                    case (value, before):
                        return self._part(value, (*before, *way), axis, size)
            case T.For(binders=binders, body=body) if axis is not None:
                count = sum(len(self._state.shape((b.row,))) if isinstance(b, T.IndexRun) else 1 for b in binders)
                return self._binder(binders, body, axis) if axis < count else self._part(body, way, axis - count, size)
            case T.Loop(states=states):
                if whole.stacked and axis == 0:
                    return self.range(whole.counter)
                axis = axis - 1 if whole.stacked and axis is not None else axis
                if len(states) > 1 and isinstance(way[0], int):
                    return self._part(states[way[0] - 1][1], way[1:], axis, size)
                return self._part(states[0][1], way, axis, size)
            case T.Call():
                return self._call(whole, axis, size, way)
        return None

    def _among(
        self, parts: Sequence[T.Expr], whole: T.Expr, axis: int | None, size: Dim | None
    ) -> tuple[T.Expr, int | None] | Origin | None:
        """Of a pointwise operation: the operand that has this dimension, counted from the last."""
        shape = self.shape(whole.type)
        if shape is None or axis is None:
            return None
        for part in parts:
            own = self.shape(part.type)
            at = -1 if own is None else axis - len(shape) + len(own)
            if own is not None and 0 <= at < len(own) and (own[at] == shape[axis] or self._size(own[at]) == size):
                return part, at
        return None

    def _call(
        self, e: T.Call, axis: int | None, size: Dim | None, way: tuple[int | str, ...] = ()
    ) -> tuple[T.Expr, int | None] | Origin | None:
        """The argument that a function takes the dimension from; else the call itself decides it."""
        return self._applied(e, e.function, e.arguments, axis, size, way)

    def _applied(
        self, e: T.Expr, function: T.Expr, arguments: Sequence[T.Expr],
        axis: int | None, size: Dim | None, way: tuple[int | str, ...],
    ) -> tuple[T.Expr, int | None] | Origin | None:  # fmt: skip
        t = self._state.prune(function.type)
        params: list[Type] = []
        for _ in arguments:
            if not isinstance(t, Function):
                return None
            params.append(self._state.prune(t.param))
            t = self._state.prune(t.result)
        shape, wanted = self.shape(self._at(t, way)), self.shape(self._at(e.type, way))
        if axis is None or wanted is None or shape is None:
            return None
        if not shape:  # a function of scalars, computed element by element
            return self._among(arguments, e, axis, size)
        if axis >= len(shape):
            return None
        item = shape[axis]
        self._passed.append((function, axis, len(shape), way))
        for param, argument in zip(params, arguments, strict=True):
            own = self.shape(param)
            if own is not None and item in own:
                return argument, own.index(item)
        for param, argument in zip(params, arguments, strict=True):
            if any(item in part for part in self._shapes(param)):
                found = self.of(argument, None, size)
                if found is not None:
                    return found
        name = function.span.excerpt
        formula = render(item) if "." in name and isinstance(item, Dim) else ""  # of what stands in another file
        formula = f": {formula}" if "/" in formula or "-" in formula else ""
        made_of = tuple(self._made_of(item, params, arguments)) if isinstance(item, Dim) else ()
        there, given = self._inner(function, axis, len(shape), way), dimension_arguments(function.span)
        if there is not None and there.parameter is not None and there.parameter < len(given):
            return Origin("argument", given[there.parameter], f"given to `{name.partition(' {')[0]}`", base=function)
        if there is not None and there.kind == "flatten" and there.span.file.path == e.span.file.path:
            return Origin("flatten", there.span, there.why, made_of=made_of)
        taken = [d for p in params for s in self._shapes(p) for i in s if (d := self._size(i)) is not None]
        folded = size is not None and len(size.mapping) == 1 and size not in taken  # a product of dimensions that it takes
        folded = folded and sum(bool(d.variables) and d.variables <= size.variables for d in taken) > 1  # type: ignore[union-attr]
        return Origin("flatten" if folded else "call", e.span, f"a result of `{name}`{formula}", made_of=made_of)

    def _inner(self, function: T.Expr, axis: int, rank: int, way: tuple[int | str, ...]) -> Inner | None:
        """What a function makes of a dimension of its result."""
        return self._made_by(function.symbol, axis, rank, way) if isinstance(function, T.Variable) else None

    def _made_of(self, item: Dim, params: Sequence[Type], arguments: Sequence[T.Expr]) -> Iterator[Made]:
        """The dimensions of arguments that a dimension of a call's result is made of."""
        for param, argument in zip(params, arguments, strict=True):
            own, whole = self.shape(param), self.shape(argument.type)
            for shape in self._shapes(param):
                for n, part in enumerate(shape):
                    if isinstance(part, Dim) and part.variables & item.variables:
                        places = range(len(whole or ())) if own is not None else ()
                        axis = next((k for k in places if _same_place(shape, n, whole or (), k)), None)
                        yield argument, axis, self._state.dimension(part) if axis is None else None

    def _at(self, t: Type, way: tuple[int | str, ...]) -> Type:
        """The part of a type that a way leads to."""
        for member in way:
            match self._state.prune(t):
                case TupleType(items) if isinstance(member, int) and member <= len(items):
                    t = items[member - 1]
                case RecordType() as record if isinstance(member, str):
                    t = record.get(member) or t
        return t

    def _shapes(self, t: Type) -> Iterator[Shape]:
        t = self._state.prune(t)
        match t:
            case Tensor(_, shape):
                yield self._state.shape(shape)
            case TupleType(items):
                for item in items:
                    yield from self._shapes(item)
            case RecordType(parts):
                for _, part in parts:
                    yield from self._shapes(part)

    def _binder(self, binders: tuple[T.Binder, ...], body: T.Expr, axis: int) -> tuple[T.Expr, int | None] | Origin | None:
        for binder in binders:
            if isinstance(binder, T.IndexRun):
                count = len(self._state.shape((binder.row,)))
                if axis < count:
                    return self._run(binder, axis)
                axis -= count
                continue
            if axis == 0:
                return self._indices(binder)
            axis -= 1
        return body, axis

    def _run(self, run: T.IndexRun, axis: int) -> tuple[T.Expr, int | None] | None:
        for access in self._accesses(run.symbol):
            return access[0].base, access[1] + axis
        return None

    def _loop(self, e: T.Loop, axis: int) -> tuple[T.Expr, int | None] | Origin | None:
        if e.stacked:
            if axis == 0:
                return self.range(e.counter)
            axis -= 1
        return (e.states[0][1], axis) if len(e.states) == 1 else None

    def _product(self, left: T.Expr, right: T.Expr, e: T.MatMul, axis: int) -> tuple[T.Expr, int | None] | None:
        shape, own = self.shape(e.type), self.shape(right.type)
        if shape is None or own is None:
            return None
        return (right, len(own) - 1) if axis == len(shape) - 1 else (left, axis)

    def _access(self, e: T.Access, axis: int) -> tuple[T.Expr, int | None] | Origin | None:
        """The dimensions that an access keeps: those of slices, and those that `..` keeps whole."""
        position = 0
        for number, subscript in enumerate(e.subscripts):
            count = len(self._state.shape((subscript.row,))) if isinstance(subscript, T.IndexRun | T.Keep) else 1
            kept = count if isinstance(subscript, T.Keep) else int(isinstance(subscript, T.Slice))
            if axis < kept:
                if isinstance(subscript, T.Keep) or self._whole(subscript):
                    self._kept.append((e, number))
                    return e.base, position + axis
                why = f"a slice of {self._which(e.base, position)} of `{e.base.span.excerpt}`"
                plain = isinstance(subscript, T.Slice) and subscript.stop is not None and subscript.step.constant == 1
                start = (subscript.start,) if isinstance(subscript, T.Slice) and plain else ()
                return Origin("slice", e.span, why, start, e.base, position, read=next(iter(subscripts(e)[number:]), None))
            axis -= kept
            position += count
        return e.base, position + axis

    @staticmethod
    def _whole(s: T.Subscript) -> bool:
        return isinstance(s, T.Slice) and s.stop is None and s.start.constant == 0 and s.step.constant == 1


def _within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _same_place(one: Shape, a: int, other: Shape, b: int) -> bool:
    """Whether two dimensions are as far from the end of their shapes, or from the beginning, whatever shape variables stand for."""
    behind = [i for i in (*one[a:], *other[b:]) if isinstance(i, Row)]
    before = [i for i in (*one[: a + 1], *other[: b + 1]) if isinstance(i, Row)]
    return (not behind and len(one) - a == len(other) - b) or (not before and a == b)


def _complexity(size: Dim) -> tuple[int, int]:
    return len(size.quotients), size.weight
