"""How far an index runs: the bound, or the access that decides it, also of indices that make one dimension together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.places import Places
from axon.shapes.dimension import Dim
from axon.types import typed as T
from axon.types.type import which

Made = tuple[T.Expr, int | None, Dim | None]  # a dimension of an expression; in a record, whichever part has a size


@dataclass(frozen=True, slots=True)
class Origin:
    """A place that decides a size. `why` is a clause about it, in which `{}` stands for sizes in the order of `sizes`.

    `kind`: "annotation", "parameter", "index", "bound", "flatten", "split", "slice", "literal", "call",
    "argument" (in the braces of a call), "loop" or "coercion".
    """

    kind: str
    span: Span
    why: str = ""
    sizes: tuple[Dim, ...] = ()
    base: T.Expr | None = None  # what an index runs over, a slice is taken of, a parameter's own name or a function called …
    axis: int = 0  # … and in which dimension, counted from 0
    index: Symbol | None = None  # that runs so far, of a bound or an index
    read: Span | None = None  # where an access by the index that runs over something decides how far it does
    made_of: tuple[Symbol | Made, ...] = ()  # of a flattening its indices, of a split the others, of a call dimensions it takes

    def clause(self, show: Callable[[Dim], str]) -> str:
        """`why` with its sizes."""
        if "{}" not in self.why:
            return self.why
        parts = self.why.split("{}") if self.sizes else [self.why]
        return "".join(part + text for part, text in zip(parts, [*map(show, self.sizes), ""], strict=False))


class Ranges(Places):
    """The ranges of a declaration's indices."""

    def _indices(self, indices: T.Indices) -> Origin | None:
        first = self._binders.get(indices.symbols[0])
        if first is None:
            return None
        if len(indices.symbols) > 1:
            last = self._binders[indices.symbols[-1]]
            span = Span(first.span.file, first.span.start, last.span.end)
            names = ", ".join(s.name for s in indices.symbols)
            sizes = tuple(self._state.dimension(e) for e in indices.extents)
            why = f"since `({names})` makes one dimension of {listed(len(sizes))}"
            return Origin("flatten", span, why, sizes, made_of=indices.symbols)
        return self.range(indices.symbols[0])

    def range(self, symbol: Symbol) -> Origin | None:
        """What decides how far an index runs."""
        binder = self._binders.get(symbol)
        if binder is None:
            return None
        if binder.range.stated:
            return Origin("bound", binder.span, f"by the bound of `{symbol.name}`", index=symbol)
        for access, axis, position in self._accesses(symbol):
            subscript = access.subscripts[position]
            base = access.base.span.excerpt
            if isinstance(subscript, T.At) and subscript.sizes:
                size = self._state.dimension(self._item(access.base, axis))
                why = f"since `{symbol.name}` is a part of {self._which(access.base, axis)} of `{base}`, which is {{}}"
                others = tuple(v.dim.symbol for v in subscript.values if isinstance(v, T.Dimension) and v.dim.symbol is not None)
                others = tuple(o for o in others if o != symbol)
                return Origin("split", binder.span, why, (size,), access.base, axis, made_of=others)
            why = f"since `{symbol.name}` runs over {self._which(access.base, axis)} of `{base}`"
            read = subscript.values[0].span if isinstance(subscript, T.At) else None
            return Origin("index", binder.span, why, (), access.base, axis, symbol, read)
        for access, axis in self._indexed.values():
            subscript = access.subscripts[self._position(access, axis)]
            values = subscript.values if isinstance(subscript, T.At) else ()
            if read := next((v.span for v in values if isinstance(v, T.Dimension) and symbol in v.dim.variables), None):
                why = f"since `{symbol.name}` stays inside {self._which(access.base, axis)} of `{access.base.span.excerpt}`"
                return Origin("index", binder.span, why, (), access.base, axis, symbol, read)
        return Origin("index", binder.span, f"the range of `{symbol.name}`")

    def folds(self, place: Span) -> Iterator[Origin]:
        """The indices that become one dimension in the `for` at a place."""
        e = self.at(place)
        for binder in e.binders if isinstance(e, T.For) else ():
            if isinstance(binder, T.Indices) and len(binder.symbols) > 1 and (found := self._indices(binder)) is not None:
                yield found

    def belong_together(self, symbols: Sequence[Symbol]) -> bool:
        """Whether an access splits a dimension into indices of these names, or a size is written that is the product of theirs."""
        names = [s.name for s in symbols]
        for access, _ in self._indexed.values():
            for subscript in access.subscripts:
                values = subscript.values if isinstance(subscript, T.At) and subscript.sizes else ()
                if names == [v.dim.symbol.name for v in values if isinstance(v, T.Dimension) and v.dim.symbol is not None]:
                    return True
        product = Dim.of(1)
        for symbol in symbols:
            found = self.range(symbol)
            product = product * (self._item(found.base, found.axis) if found is not None and found.base is not None else Dim.of(0))
        return bool(product.mapping) and any(size == product for size, _ in self._written)

    def _accesses(self, symbol: Symbol) -> list[tuple[T.Access, int, int]]:
        """Accesses by this index alone; unguarded and unpadded ones of a whole dimension, which decide its range, come first."""

        def rank(read: tuple[T.Access, int, int]) -> tuple[bool, int, bool]:
            access, _, position = read
            subscript = access.subscripts[position]
            return access.default is not None, access.context.conditions, isinstance(subscript, T.At) and bool(subscript.sizes)

        return sorted(self._reads.get(symbol, ()), key=rank)

    def _item(self, base: T.Expr, axis: int) -> Dim:
        shape = self.shape(base.type)
        item = shape[axis] if shape is not None and axis < len(shape) else None
        return self._state.dimension(item) if isinstance(item, Dim) else Dim.of(0)

    def _which(self, base: T.Expr, axis: int) -> str:
        return which(self.shape(base.type) or (), axis)

    def _position(self, access: T.Access, axis: int) -> int:
        """The subscript that stands for a dimension of the base."""
        for position, subscript in enumerate(access.subscripts):
            count = len(self._state.shape((subscript.row,))) if isinstance(subscript, T.IndexRun | T.Keep) else 1
            if axis < count:
                return position
            axis -= count
        return len(access.subscripts) - 1


def listed(count: int) -> str:
    return " and ".join(["{}"] * count) if count < 3 else ", ".join(["{}"] * (count - 1)) + " and {}"
