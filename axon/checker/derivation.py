"""How the sizes of a declaration were derived: what `axon explain PATH:NAME --shapes` prints.

Each dimension of the parameters, of the values inside and of the result stands on a line with what decides it and where:

    scores : 'a[..b, s, t]
      s   `i` runs over dimension 2 of `q`; the annotation of `q`         12:25

and each fact of the contract with what needs it.
"""

from __future__ import annotations

from collections.abc import Iterator

from axon.base.source import Span
from axon.checker.module import CheckedModule
from axon.explain.origin import Trail
from axon.explain.ranges import Origin
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.types import typed as T
from axon.types.show import Namer, dimension_names, show_relation, show_shape, show_type
from axon.types.type import RecordType, Row, Scheme, Tensor, TupleType, Type

_WIDTH = 88  # columns at most before the places
_MAX_CHAIN = 6  # origins named for one dimension

_Line = tuple[str, str]  # text, and the place that it is about


def derivation(checked: CheckedModule, name: str) -> str:
    """The text for one declaration of a module without errors."""
    assert checked.trail is not None
    decl, scheme = checked.declarations[name], checked.schemes[name]
    namer = Namer(checked.state)
    namer.names = dimension_names(checked.state, scheme)
    namer.taken = set(namer.names.values())
    trail = checked.trail(decl)
    for size, called in trail.opened():  # sizes that only the data decide, by the names that annotations give them
        if called not in namer.taken:
            namer.names.setdefault(size, called)
            namer.taken.add(called)
    lines = [*_Writer(checked, namer, trail).lines(decl, scheme)]
    width = min(max((len(text) for text, place in lines if place), default=0), _WIDTH)
    body = [f"{text:<{width}}  {place}" if place else text for text, place in lines]
    return "\n".join([f"{name} : {checked.signatures[name]}", *body])


class _Writer:
    def __init__(self, checked: CheckedModule, namer: Namer, trail: Trail) -> None:
        self._checked, self._namer, self._trail = checked, namer, trail

    def lines(self, decl: T.Decl, scheme: Scheme) -> Iterator[_Line]:
        params, body = (decl.params, decl.body) if isinstance(decl, T.Fun) else ((), decl.value)
        for symbol in scheme.explicit:
            yield f"\n{{{self._namer.dim(symbol)}}} is given by the call", ""
        yield from self._section("parameters", [(n, p) for pattern in params for n, p in _names(pattern)])
        own = None if isinstance(decl, T.Fun) else decl.pattern
        inside = sorted(self._trail.values, key=lambda p: p.span.start)
        yield from self._section("values", [(n, p) for pattern in inside if pattern is not own for n, p in _names(pattern)])
        result = [*self._value("result", body)]
        if result:
            yield "", ""
            yield from result
        if scheme.facts:
            yield "\ncontract", ""
            for fact in scheme.facts:
                why = fact.why.removesuffix(": it needs {}").removesuffix(": here {}").removesuffix(": {}")
                shown = show_relation(self._namer, fact.relation)
                yield f"  {shown}   {why.replace('{}', 'this')}", self._place(fact.span)

    def _section(self, title: str, named: list[tuple[str, T.PatternName]]) -> Iterator[_Line]:
        values = [(name, T.Variable(p.symbol, None, type=p.type, span=p.span)) for name, p in named]
        lines = [line for name, value in values for line in self._value(name, value, "  ")]
        if lines:
            yield f"\n{title}", ""
            yield from lines

    def _value(self, name: str, e: T.Expr, indent: str = "") -> Iterator[_Line]:
        """A value's type, and a line for each dimension of each tensor in it."""
        parts = [(path, part) for path, part in self._tensors(name, e) if self._trail.shape(part.type)]
        if not parts and not isinstance(self._checked.state.prune(e.type), Tensor):
            return
        yield f"{indent}{name} : {show_type(self._namer, e.type)}", ""
        for path, part in parts:
            shape = self._trail.shape(part.type) or ()
            if path != name:
                yield f"{indent}  {path} : [{show_shape(self._namer, shape)}]", ""
            sizes = [f"..{self._namer.dim(i.symbol)}" if isinstance(i, Row) else self._dim(i) for i in shape]
            column = max(map(len, sizes))
            for axis, size in enumerate(sizes):
                why, place = self._why(part, axis)
                yield f"{indent}    {size:<{column}}  {why}", self._place(place)

    def _tensors(self, path: str, e: T.Expr) -> Iterator[tuple[str, T.Expr]]:
        """The tensors in a value, each as an expression that takes it out."""
        t: Type = self._checked.state.prune(e.type)
        match t:
            case Tensor():
                yield path, e
            case RecordType():
                for name, part in t.fields:
                    yield from self._tensors(f"{path}.{name}", T.Field(e, name, type=part, span=e.span))
            case TupleType(items):
                for n, part in enumerate(items, 1):
                    yield from self._tensors(f"{path}.{n}", T.Project(e, n, type=part, span=e.span))

    def _why(self, e: T.Expr, axis: int) -> tuple[str, Span | None]:
        """What decides a dimension, then what decides that, until an annotation or a parameter."""
        clauses: list[str] = []
        place: Span | None = None
        found = self._trail.given(e, axis) or self._trail.of(e, axis)
        while found is not None and len(clauses) < _MAX_CHAIN:
            clauses.append(self._clause(found))
            place = place or found.span
            if found.base is None or found.kind in ("parameter", "argument"):
                break
            found = self._trail.of(found.base, found.axis)
        return "; ".join(dict.fromkeys(clauses)) or "as the expression says", place

    def _clause(self, found: Origin) -> str:
        match found.kind:
            case "annotation":
                return f"written in {_excerpt(self._trail.around(found.span))}"
            case "parameter" if ":" in found.span.text:
                return f"written in {_excerpt(found.span)}"
            case "parameter":
                use = self._trail.first_use(found.base, found.axis) if found.base is not None else ""
                return f"found by the use {use}" if use else f"as {_excerpt(found.span)} has it"
            case "literal":
                return "the length of an array"
            case _:
                return found.clause(self._dim).removeprefix("since ") or f"taken by {_excerpt(found.span)}"

    def _dim(self, dim: Dim) -> str:
        return render(self._checked.state.dimension(dim), self._namer.dim)

    def _place(self, span: Span | None) -> str:
        if span is None:
            return ""
        line, column = span.file.position(span.start)
        return f"{line}:{column}" if span.file is self._checked.source else f"{span.file.path}:{line}:{column}"


def _names(pattern: T.Pattern) -> Iterator[tuple[str, T.PatternName]]:
    match pattern:
        case T.PatternName(symbol=symbol):
            if symbol.name != "_":
                yield symbol.name, pattern
        case T.PatternTuple(items=items):
            for item in items:
                yield from _names(item)
        case T.PatternRecord(fields=parts):
            for _, item in parts:
                yield from _names(item)


def _excerpt(span: Span) -> str:
    text = " ".join(span.text.split())
    return f"`{text}`" if len(text) <= 48 else f"`{text[:47]}…`"
