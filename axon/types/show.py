"""Types and signatures as text, in the syntax that a `sig` accepts.

A dimension is called what its annotation calls it, else as the index that runs over it, else by a fresh letter that clashes with
nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from axon.base.data import dataclass, field
from axon.base.element import FLOAT, INT, NUM, Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.grammar import syntax as S
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.relation import Relation, said
from axon.types.type import (
    ElementType,
    Exists,
    Function,
    Poison,
    RecordType,
    Row,
    Scheme,
    Shape,
    Tensor,
    TupleType,
    Type,
    TypeVar,
    Written,
)
from axon.types.unify import State

_LETTERS = "nmkpqrtuvwxyzabcdefghijls"
_ROW_LETTERS = "stuvwxyz"
_CLASSES = {FLOAT: "float", INT: "int", NUM: "number"}
_MAX = 4_000  # characters of a type shown in a message


@dataclass(slots=True)
class Namer:
    """Gives each variable one name within one text."""

    state: State
    classes: bool = False  # call an element type that is not known by what it may be: "a number"
    aliases: IdentityMap[S.TypeDecl, str] = field(default_factory=IdentityMap)  # what to call records written by one, as in State
    names: dict[Symbol, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def plan(self, symbols: Iterable[Symbol]) -> None:
        """Name dimensions and shape variables: the user's own names first, then those of indices, then the rest."""
        order = list(dict.fromkeys(s for s in symbols if s not in self.names))

        def rank(symbol: Symbol) -> int:
            if symbol in self.state.rigid:
                return 0
            named = symbol in self.state.named_dims or symbol in self.state.called
            return 1 if named else 2 if symbol.name else 3

        for symbol in sorted(order, key=rank):
            self.dim(symbol)

    def dim(self, symbol: Symbol) -> str:
        """The name of a dimension or shape variable."""
        if symbol not in self.names:
            name = self.state.called.get(symbol, symbol.name)
            if not name or name == "_" or name in self.taken:
                letters = _ROW_LETTERS if symbol in self.state.row_symbols else _LETTERS
                name = next(n for n in self._all(letters) if n not in self.taken)
            self.names[symbol] = name
            self.taken.add(name)
        return self.names[symbol]

    def variable(self, symbol: Symbol, letters: str) -> str:
        """The name of an element type or type variable, with its quote."""
        if symbol not in self.names:
            own = f"'{symbol.name}"
            rigid = symbol in self.state.rigid and own not in self.taken
            name = own if rigid else next(f"'{n}" for n in self._all(letters) if f"'{n}" not in self.taken)
            self.names[symbol] = name
            self.taken.add(name)
        return self.names[symbol]

    @staticmethod
    def _all(letters: str) -> Iterator[str]:
        yield from letters
        for n in range(1, 1_000_000):
            yield from (f"{c}{n}" for c in letters)


def symbols_of(state: State, t: Type, aliases: Container[S.TypeDecl] = ()) -> list[Symbol]:
    """The dimensions and shape variables of a type, in the order in which they are printed."""
    found: dict[Symbol, None] = {}
    _add_symbols(state, t, aliases, found, set())
    return list(found)


def _add_symbols(state: State, t: Type, aliases: Container[S.TypeDecl], found: dict[Symbol, None], seen: set[Type]) -> None:
    t = state.prune(t)
    while isinstance(t, Function) and t not in seen:  # as many as there are parameters
        seen.add(t)
        _add_symbols(state, t.param, aliases, found, seen)
        t = state.prune(t.result)
    if t in seen:
        return
    seen.add(t)
    match t:
        case Tensor(_, shape):
            for item in state.shape(shape):
                if isinstance(item, Row):
                    found.setdefault(item.symbol)
                else:
                    for _, monomial in state.dimension(item).terms:
                        for atom in monomial:
                            if isinstance(atom, Symbol):
                                found.setdefault(atom)
                    for symbol in sorted(state.dimension(item).variables, key=lambda s: s.id):
                        found.setdefault(symbol)
        case TupleType(items):
            for part in items:
                _add_symbols(state, part, aliases, found, seen)
        case RecordType(fields, written):
            if written is not None and written.alias in aliases:
                for argument in written.arguments:
                    _add_symbols(state, argument, aliases, found, seen)
            for _, part in fields:
                _add_symbols(state, part, aliases, found, seen)
        case Exists(symbol, _, body):
            found.setdefault(symbol)
            _add_symbols(state, body, aliases, found, seen)


def show_element(namer: Namer, e: ElementType) -> str:
    e = namer.state.element(e)
    if isinstance(e, Element):
        return e.value
    if namer.classes and e.symbol not in namer.state.rigid:
        known = _CLASSES.get(namer.state.allowed_of(e))
        if known is not None:
            return known
    return namer.variable(e.symbol, "abcdefgh")


def show_dim(namer: Namer, dim: Dim) -> str:
    return render(namer.state.dimension(dim), namer.dim)


def show_shape(namer: Namer, shape: Shape) -> str:
    items = (f"..{namer.dim(i.symbol)}" if isinstance(i, Row) else show_dim(namer, i) for i in namer.state.shape(shape))
    return ", ".join(items)


def show_type(namer: Namer, t: Type, scalars: frozenset[int] = frozenset()) -> str:
    """The type as text; parts beyond a few thousand characters are left out. `scalars` are the parameters marked with `?`."""
    namer.plan(symbols_of(namer.state, t, namer.aliases))
    parts: list[str] = []
    _show(namer, t, parts, [_MAX], False, scalars)
    return "".join(parts)


def _show(namer: Namer, t: Type, out: list[str], budget: list[int], atom: bool, scalars: frozenset[int] = frozenset()) -> None:
    def put(text: str) -> None:
        out.append(text)
        budget[0] -= len(text)

    if budget[0] < 0:
        if out[-1] != "…":
            out.append("…")
        return
    t = namer.state.prune(t)
    match t:
        case TypeVar(symbol):
            put(namer.variable(symbol, "ABCDEFGH"))
        case Tensor(element, shape):
            inside = show_shape(namer, shape)
            put(show_element(namer, element) + (f"[{inside}]" if inside else ""))
        case Function():
            put("(" if atom else "")
            n = 0
            while isinstance(t, Function) and budget[0] >= 0:
                _show(namer, t.param, out, budget, True)
                put("? -> " if n in scalars else " -> ")
                t, n = namer.state.prune(t.result), n + 1
            _show(namer, t, out, budget, False)
            put(")" if atom else "")
        case TupleType(items):
            put("(")
            for n, item in enumerate(items):
                put(", " if n else "")
                _show(namer, item, out, budget, False)
            put(")")
        case RecordType(_, Written(alias, arguments)) if alias in namer.aliases:
            shown = (_show_argument(namer, p, a) for p, a in zip(alias.params, arguments, strict=True))
            inside = ", ".join(text for text in shown if text)
            put(namer.aliases[alias] + (f"[{inside}]" if inside else ""))
        case RecordType(fields):
            put("{ ")
            for n, (name, item) in enumerate(fields):
                put(", " if n else "")
                put(f"{name} : ")
                _show(namer, item, out, budget, False)
            put(" }")
        case Exists(symbol, bounds, body):
            put("(" if atom else "")
            name = namer.dim(symbol)
            upper = [show_dim(namer, b.right) for b in bounds if b.left.symbol == symbol and b.op == "<="]
            put(f"?{name} <= {upper[0]}. " if upper else f"?{name}. ")
            _show(namer, body, out, budget, False)
            put(")" if atom else "")
        case Poison():
            put("?")


def _show_argument(namer: Namer, param: S.TypeArg, argument: Tensor) -> str:
    return show_element(namer, argument.element) if isinstance(param, S.TypeVar) else show_shape(namer, argument.shape)


def show_relation(namer: Namer, relation: Relation) -> str:
    image = {s: namer.state.dimension(Dim.of(s)) for s in relation.variables}
    return relation.substitute(image).render(namer.dim)


def dimension_names(state: State, scheme: Scheme) -> dict[Symbol, str]:
    """What a signature calls its dimensions and shape variables."""
    return dict(_named(state, scheme).names)


def _named(state: State, scheme: Scheme) -> Namer:
    namer = Namer(state, aliases=state.aliases)
    for symbol in scheme.explicit:
        namer.names[symbol] = symbol.name
        namer.taken.add(symbol.name)
    facts = [s for f in scheme.facts for s in sorted(f.relation.variables, key=lambda s: s.id)]
    namer.plan([*symbols_of(state, scheme.type, state.aliases), *facts])
    return namer


def signature(state: State, scheme: Scheme, mentioned: Iterable[str] = ()) -> str:
    """What `axon sig` prints after the name: type and contract, in syntax that can be pasted into a `sig`.

    `mentioned` are the type variables that annotations in the body mention: pasted above it, a `sig` with one would capture it.
    """
    namer = _named(state, scheme)
    own = {f"'{s.name}" for s in (*dict(scheme.elements), *scheme.types) if s in state.rigid}
    namer.taken |= set(mentioned) - own
    return _signature(namer, scheme)


def distinct(state: State, scheme: Scheme) -> str | None:
    """A text that differs for schemes which a use can tell apart: the signature, and what it does not say of its variables. None of
    a type that is too long to be shown whole."""
    namer = _named(state, scheme)
    text = _signature(namer, scheme)
    if "…" in text:
        return None
    classes = sorted((namer.names.get(s, ""), sorted(e.value for e in allowed)) for s, allowed in scheme.elements)
    literals = sorted((namer.names.get(x.element, ""), x.value) for x in scheme.literals)
    loose = sorted(namer.names.get(s, "") for s in scheme.loose)
    return f"{text} {classes} {literals} {loose} {scheme.opens}"


def _signature(namer: Namer, scheme: Scheme) -> str:
    text = show_type(namer, scheme.type, scheme.or_scalar)
    if scheme.explicit:
        text = "{" + ", ".join(s.name for s in scheme.explicit) + "} -> " + text
    where = ", ".join(show_relation(namer, r) for r in said([f.relation for f in scheme.facts]))
    return f"{text} where {where}" if where else text
