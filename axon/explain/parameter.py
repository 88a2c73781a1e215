"""The parameters that a help says to annotate, found by names: of what an error of types is about, no more is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axon.base.source import Span
from axon.grammar import syntax as S
from axon.grammar.rewrite import NotWritten, parts_of, tree


def parameter(name: str, at: Span) -> tuple[Span, ...]:
    """Where the parameter is bound that a name stands for at a place; nothing of what is none."""
    found: tuple[Span, ...] = ()
    for outer in tree(at.file).enclosing(at):
        bound = {p.name: p.span for p in _params(outer)}
        if name in bound:
            found = (bound[name],)
        elif name in _bound(outer):
            found = ()
    return found


def parameters_of_arguments(function: Span) -> tuple[Span, ...]:
    """The parameters without a type of the functions that a function at a place is given."""
    try:
        written = tree(function.file)
        inner: S.Node = written.at(function, S.Node)
    except NotWritten:
        return ()
    found: list[Span] = []
    while isinstance(whole := written.outer(inner), S.Apply) and whole.function is inner:
        if isinstance(whole.argument, S.Fn):
            found += (p.span for p in whole.argument.params if isinstance(p, S.PatternName))
        inner = whole
    return tuple(found)


def only_parameter(at: Span) -> tuple[Span, ...]:
    """The parameter of the function around a place, if it is the only one that has no type."""
    functions = [n for n in tree(at.file).enclosing(at) if isinstance(n, S.Fun)]
    found = [p.span for p in functions[-1].params if isinstance(p, S.PatternName)] if functions else []
    return tuple(found) if len(found) == 1 else ()


def sizes_as_indexed(parameter: Span, size: str) -> str:
    """What to write for the sizes of a parameter of which one has no place yet: as the bounds of its indices say, if they do."""
    around = tree(parameter.file).enclosing(parameter)
    inside = [n for d in around[:1] for n in tree(parameter.file).within(d.span)]
    bounds = {
        b.name: g.bound.name
        for n in inside
        if isinstance(n, S.For | S.Reduce)
        for g in n.groups
        for b in g.binders
        if isinstance(b, S.IndexBinder) and isinstance(g.bound, S.Var)
    }
    for n in inside:
        if isinstance(n, S.Access) and isinstance(n.base, S.Var) and n.base.name == parameter.text:
            names = [s.value.name for s in n.subscripts if isinstance(s, S.IndexAt) and isinstance(s.value, S.Var)]
            found = [bounds.get(name, "") for name in names]
            if size in found and all(found) and len(found) == len(n.subscripts):
                return ", ".join(found)
    return size


def operands(operator: Span) -> tuple[str, ...]:
    """The names that an operator at a place stands between."""
    around = tree(operator.file).enclosing(operator)
    both = (around[-1].left, around[-1].right) if around and isinstance(around[-1], S.Binary) else ()
    return tuple(dict.fromkeys(e.name for e in both if isinstance(e, S.Var)))


def taken_from(member: Span) -> str:
    """The name that a field stands behind, also of a field of a field."""
    for outer in reversed(tree(member.file).enclosing(member)):
        while isinstance(outer, S.Field):
            outer = outer.record
        if isinstance(outer, S.Var):
            return outer.name
    return ""


def _params(n: S.Node) -> Iterator[S.PatternName]:
    return _names(n.params) if isinstance(n, S.Fun | S.Fn) else iter(())


def _names(patterns: Iterable[S.Node]) -> Iterator[S.PatternName]:
    for p in patterns:
        if isinstance(p, S.PatternName):
            yield p
        else:
            yield from _names(parts_of(p))


def _bound(n: S.Node) -> set[str]:
    """The names that are something else than parameters in a node."""
    match n:
        case S.Let(decls):
            patterns = [d.pattern for d in decls if isinstance(d, S.Val)]
            return {d.name.text for d in decls if isinstance(d, S.Fun)} | {p.name for p in _names(patterns)}
        case S.For(groups) | S.Reduce(groups=groups):
            return set(_indices(groups))
        case S.Loop(states=states, groups=groups):
            return {p.name for p in _names(p for p, _ in states)} | set(_indices(groups))
    return set()


def _indices(groups: Iterable[S.BinderGroup]) -> Iterator[str]:
    for binder in (b for g in groups for b in g.binders):
        match binder:
            case S.IndexBinder(name):
                yield name
            case S.ProductBinder(names):
                yield from (name.text for name in names)
