"""What the checker found out about the places of one declaration: types, ranges of indices, where sizes come from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from axon.base.data import dataclass, fields
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.dimension import Dim
from axon.tools.editor.names import Binding, DeclarationNames, Kind, Place, names_of, place
from axon.types import typed as T
from axon.types.resolve import ValueName
from axon.types.show import Namer, dimension_names, show_relation, show_shape, show_type, symbols_of
from axon.types.type import Exists, Function, Poison, RecordType, Row, Scheme, Tensor, TupleType, Type

if TYPE_CHECKING:
    from axon.tools.editor.analysis import Checked


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a size comes from, in words, and the place they are about."""

    text: str
    span: Span | None


class Facts:
    """Everything is found when it is first asked for. Types are shown with the names that the declaration's signature uses."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.state = checked.state

    @cached_property
    def namer(self) -> Namer:
        """Calls variables what the declaration's signature calls them."""
        namer = Namer(self.state, aliases=self.state.aliases)
        for scheme in self.checked.schemes.values():
            namer.names |= dimension_names(self.state, scheme)
        namer.taken |= set(namer.names.values())
        return namer

    @cached_property
    def names(self) -> DeclarationNames:
        return names_of(self.checked.decl, self.checked.sigs)

    @cached_property
    def nodes(self) -> dict[Place, T.Node]:
        """The typed expressions, the outermost of those at one place."""
        found: dict[Place, T.Node] = {}
        stack: list[object] = list(reversed(self.checked.typed))
        while stack:
            node = stack.pop()
            if isinstance(node, tuple):
                stack += reversed(node)
                continue
            if isinstance(node, T.Node):
                found.setdefault(place(node.span), node)
            if isinstance(node, _WALKED):
                stack += [getattr(node, f.name) for f in reversed(fields(node)) if f.name not in _SKIPPED]
        return found

    @cached_property
    def bound(self) -> dict[Place, Type]:
        """The types of the names that are bound, by where they are."""
        return {place(span): t for _, span, t in self.checked.inner}

    @cached_property
    def ranges(self) -> dict[Binding, tuple[Symbol, Dim | Row]]:
        """The variable of each index or run, and what it runs over."""
        out: dict[Binding, tuple[Symbol, Dim | Row]] = {}
        for where, bindings in self.names.indices.items():
            found: list[tuple[Symbol, Dim | Row]] = []
            match self._comprehension(where):
                case T.For(binders=binders) | T.Reduce(binders=binders):
                    for binder in binders:
                        if isinstance(binder, T.IndexRun):
                            found.append((binder.symbol, binder.row))
                        else:
                            found += zip(binder.symbols, binder.extents, strict=True)
                case T.Loop(counter=counter, trip=T.Dimension(dim=dim)):
                    found.append((counter, dim))
            if len(found) == len(bindings):
                out |= {b: f for b, f in zip(bindings, found, strict=True) if b is not None}
        return out

    def _comprehension(self, where: Place) -> T.Node | None:
        node = self.nodes.get(where)
        while isinstance(node, T.Open | T.Coerce | T.Cast) and place(node.value.span) == where:
            node = node.value
        return node

    @cached_property
    def or_scalar(self) -> frozenset[Span]:
        """The parameters of functions for which a scalar will do."""
        inside = (decl.body if isinstance(decl, T.Fun) else decl.value for decl in self.checked.typed)
        found = [*self.checked.typed, *(node for e in inside for node in T.nodes(e))]
        functions = [(f.params, f.scheme) for f in found if isinstance(f, T.Fun)]
        functions += [(f.value.params, f.scheme) for f in found if isinstance(f, T.Val) and f.scheme and isinstance(f.value, T.Fn)]
        return frozenset(params[n].span for params, scheme in functions for n in scheme.or_scalar if n < len(params))

    # ── types as text ──────────────────────────────────────────────────────────────────────────────────────────────────

    def show(self, t: Type) -> str:
        return show_type(self.namer, t)

    def known(self, t: Type) -> bool:
        """Whether nothing in a type is unknown because of an error."""
        seen: set[Type] = set()
        stack = [t]
        while stack:
            t = self.state.prune(stack.pop())
            if isinstance(t, Poison):
                return False
            if t not in seen:
                seen.add(t)
                stack += parts(t)
        return True

    def show_extent(self, extent: Dim | Row) -> str:
        return show_shape(self.namer, (extent,))

    def type_at(self, span: Span) -> Type | None:
        """The type of the expression or name that stands exactly there."""
        node = self.nodes.get(place(span))
        return node.type if node is not None else self.bound.get(place(span))

    def around(self, span: Span) -> T.Node | None:
        """The smallest expression around a place."""
        found = [n for n in self.nodes.values() if n.span.file is span.file and _covers(n.span, span)]
        return min(found, key=lambda n: n.span.end - n.span.start, default=None)

    # ── where sizes come from ──────────────────────────────────────────────────────────────────────────────────────────

    def symbols(self, t: Type) -> list[Symbol]:
        """The dimensions and shape variables of a type."""
        return symbols_of(self.state, t)

    def origin(self, symbol: Symbol) -> Origin:
        """Where a dimension or shape variable comes from: what names it, and which dimension of which parameter it is."""
        name = self.namer.dim(symbol)
        where = self.positions(symbol)
        at = f": {listed(where)}" if where else ""
        written = next((b for b in self.names.bindings if b.name == name and b.kind in (Kind.DIMENSION, Kind.SHAPE)), None)
        if written is not None and (symbol in self.state.rigid or symbol in self.state.named_dims):
            return Origin(f"from the annotation{at}", written.span)
        index = next((b for b, (_, e) in self.ranges.items() if _is(self._now(e), symbol)), None)
        if index is not None:
            return Origin(f"named after the index `{index.name}`{at}", index.span)
        if symbol in self.state.data_sizes:
            return Origin("a size that only the data decide", None)
        return Origin(listed(where) if where else "inferred", None)

    def _now(self, extent: Dim | Row) -> Dim | Row:
        return extent if isinstance(extent, Row) else self.state.dimension(extent)

    def of_sig(self, name: str) -> Dim | None:
        """What the `sig` has where annotations below it write a name: they are the first that find sizes of this name."""
        own = [s for s in self.state.named_dims if s.name == name and s in self.state.dims] if self.checked.sigs else []
        return self.state.dimension(Dim.of(min(own, key=lambda s: s.id))) if own else None

    def positions(self, symbol: Symbol) -> list[str]:
        """Which dimensions of the declaration's parameters are exactly this."""
        found: list[str] = []
        for name, t in self.parameters():
            found += [f"{words} of `{path}`" for path, words in _positions(self, name, t, symbol)]
        return found[:4]

    def parameters(self) -> list[tuple[str, Type]]:
        """The parameters of the declaration and their types, if it is a function."""
        out: list[tuple[str, Type]] = []
        for decl in self.checked.typed:
            params: tuple[T.Pattern, ...] = ()
            if isinstance(decl, T.Fun):
                params = decl.params
            elif isinstance(decl.value, T.Fn):
                params = decl.value.params
            for p in params:
                out += list(_bound_by(p))
        return out

    def contract(self) -> list[str]:
        """The facts of the declaration's `where`."""
        return [show_relation(self.namer, f.relation) for s in self.checked.schemes.values() for f in s.facts]

    def uses_of(self, symbol: Symbol) -> list[str]:
        """The dimensions that an index runs over by itself: "dimension 2 of `a`"."""
        found: dict[str, None] = {}
        for node in self.nodes.values():
            if not isinstance(node, T.Access) or not isinstance(node.base, T.Variable | T.Field):
                continue
            base = " ".join(node.base.span.text.split())
            runs = any(isinstance(s, T.IndexRun | T.Keep) for s in node.subscripts)
            for n, subscript in enumerate(node.subscripts):
                match subscript:
                    case T.At(values=(T.Dimension(dim=dim),)) if dim.symbol == symbol:
                        last = n == len(node.subscripts) - 1
                        found[f"the last dimension of `{base}`" if runs and last else f"dimension {n + 1} of `{base}`"] = None
                    case T.IndexRun(symbol=run) if run == symbol:
                        found[f"the leading dimensions of `{base}`" if n == 0 else f"dimensions of `{base}`"] = None
        return list(found)[:4]

    def scheme(self, name: str) -> Scheme | None:
        entity = self.checked.entities.get(name)
        return entity.scheme if isinstance(entity, ValueName) else None


def parts(t: Type) -> tuple[Type, ...]:
    match t:
        case Function(param, result):
            return (param, result)
        case TupleType(items):
            return items
        case RecordType(members):
            return tuple(f for _, f in members)
        case Exists(_, _, body):
            return (body,)
        case _:
            return ()


def listed(items: list[str]) -> str:
    return ", ".join(items[:-1]) + " and " + items[-1] if len(items) > 1 else "".join(items)


def _covers(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _is(extent: Dim | Row, symbol: Symbol) -> bool:
    return extent.symbol == symbol


def _bound_by(p: T.Pattern) -> Iterator[tuple[str, Type]]:
    match p:
        case T.PatternName(symbol=symbol):
            yield symbol.name, p.type
        case T.PatternTuple(items=items):
            for item in items:
                yield from _bound_by(item)
        case T.PatternRecord(fields=members):
            for _, item in members:
                yield from _bound_by(item)


def _positions(facts: Facts, path: str, t: Type, symbol: Symbol) -> Iterator[tuple[str, str]]:
    """Where in a value of this type the size stands alone: the path to the tensor, and which dimension in words."""
    t = facts.state.prune(t)
    match t:
        case Tensor(_, shape):
            shape = facts.state.shape(shape)
            for n, item in enumerate(shape):
                if _is(facts._now(item), symbol):
                    leading = any(isinstance(i, Row) for i in shape[:n])
                    if isinstance(item, Row):
                        yield path, "all dimensions" if len(shape) == 1 else "the leading dimensions" if n == 0 else "dimensions"
                    elif leading:
                        after = len(shape) - n
                        yield path, "the last dimension" if after == 1 else f"dimension {after} from the end"
                    else:
                        yield path, f"dimension {n + 1}"
        case TupleType(items):
            for n, inner in enumerate(items, 1):
                yield from _positions(facts, f"{path}.{n}", inner, symbol)
        case RecordType(members):
            for name, inner in members:
                yield from _positions(facts, f"{path}.{name}", inner, symbol)


_WALKED = (T.Node, T.Val, T.Fun, T.At)
_SKIPPED = {"type", "span", "context", "instance", "scheme", "symbol", "inner"}
