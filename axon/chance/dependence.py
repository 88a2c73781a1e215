"""Which elements of discrete latents each site of a model looks at, by its syntax alone.

Note [What an element looks at]
    To sum a plate of latents out element by element, each of them must matter only to elements of other sites that can be told
    apart by the same index: `mu[z[i]]` in the plate of i looks at element i of z, and so does `m[i]` after `val m = for i =>
    mu[z[i]]`, or `mean i` after `fun mean i = mu[z[i]]`. An element is known by the names of the indices that stand in its place.
    `sum i => mu[z[i]]` looks at all of z, and so does everything that is not understood here. A latent without plates has one
    element, at which anything may look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from axon.base.data import dataclass
from axon.base.source import Span
from axon.chance.sites import bound_in, names_of, parts_of
from axon.grammar import syntax as S

Axis: TypeAlias = tuple[str, ...]  # the names of one dimension's indices: several, where it is their product


@dataclass(frozen=True, slots=True)
class Look:
    """At which element of a latent something looks: `at` is None if it looks at more than one."""

    at: tuple[Axis, ...] | None
    span: Span


Looks: TypeAlias = dict[str, Look]


@dataclass(frozen=True, slots=True)
class Known:
    """A name whose value looks at latents: where it has subscripts, or arguments, as `looks` says with `axes` for their names."""

    axes: tuple[Axis, ...]
    looks: Looks
    applied: bool = False


Scope: TypeAlias = Mapping[str, Known]


def latent(name: str, axes: tuple[Axis, ...], span: Span) -> Known:
    return Known(axes, {name: Look(axes, span)})


def value_of(value: S.Expr, scope: Scope) -> Known:
    """What a `val` is: its outermost comprehensions are its dimensions."""
    axes: list[Axis] = []
    inner = scope
    while isinstance(value, S.For):
        own = axes_of(value.groups)
        if own is None:
            break
        inner = hidden(inner, (n for axis in own for n in axis))
        axes += own
        value = value.body
    names = [n for axis in axes for n in axis]
    if len({*names}) < len(names):
        return Known((), outside(looks_of(value, inner), names))
    return Known(tuple(axes), looks_of(value, inner))


def function_of(decl: S.Fun, scope: Scope) -> Known:
    """What a `fun` is: of parameters that are names, applied to all of them."""
    names = [p.name if isinstance(p, S.PatternName) else None for p in map(_untyped, decl.params)]
    inner = hidden(scope, [decl.name.text, *(p.name for param in decl.params for p in bound_in(param))])
    looks = looks_of(decl.body, inner)
    if None in names or len({*names}) < len(names):
        return Known((), outside(looks, [p.name for param in decl.params for p in bound_in(param)]))
    return Known(tuple((n,) for n in names if n is not None), looks, applied=True)


def _untyped(param: S.Node) -> S.Node:
    while isinstance(param, S.PatternTyped):
        param = param.pattern
    return param


def axes_of(groups: Iterable[S.BinderGroup]) -> list[Axis] | None:
    """The dimensions of binders, or None where one is a run."""
    found: list[Axis] = []
    for group in groups:
        for binder in group.binders:
            if isinstance(binder, S.RunBinder):
                return None
            found.append(tuple(names_of(binder)) or ("_",))
    return found


def hidden(scope: Scope, names: Iterable[str]) -> Scope:
    gone = {*names}
    return {n: k for n, k in scope.items() if n not in gone} if gone & scope.keys() else scope


def outside(looks: Looks, names: Iterable[str]) -> Looks:
    """What is looked at by something, as it is seen where names that it binds mean nothing: at all of what they stood for."""
    gone = {*names}
    return {d: Look(None, x.span) if x.at is not None and any(gone & {*axis} for axis in x.at) else x for d, x in looks.items()}


def joined(*all_looks: Looks) -> Looks:
    found: Looks = {}
    for looks in all_looks:
        for name, look in looks.items():
            other = found.setdefault(name, look)
            if other.at is not None and other.at != look.at:
                found[name] = Look(None, look.span)
    return found


def looks_of(e: S.Node, scope: Scope) -> Looks:
    """At which elements an expression looks, by the names of indices around it."""
    if not scope:
        return {}
    match e:
        case S.Var(name):
            return _read(scope[name], None, e.span) if name in scope else {}
        case S.Access(S.Var(name), subscripts, default) if name in scope and not scope[name].applied:
            known = scope[name]
            looks = _read(known, [_axis(s) for s in subscripts[: len(known.axes)]], e.span)
            return joined(looks, *(looks_of(part, scope) for part in (*subscripts, default) if part is not None))
        case S.Apply():
            head, arguments = _applied(e)
            own: Looks = {}
            if isinstance(head, S.Var) and head.name in scope:
                known = scope[head.name]
                at: list[Axis | None] = [(a.name,) if isinstance(a, S.Var) else None for a in arguments]
                own = _read(known, at if known.applied else None, e.span)
            else:
                own = looks_of(head, scope)
            return joined(own, *(looks_of(a, scope) for a in arguments))
        case S.For(groups, body) | S.Reduce(_, _, groups, _, body):
            names = [n for g in groups for b in g.binders for n in _named(b)]
            inner = hidden(scope, names)
            parts: list[S.Node] = [body]
            around: list[S.Node] = [g.bound for g in groups if isinstance(g.bound, S.Node)]
            if isinstance(e, S.Reduce):
                parts += [e.where] if e.where is not None else []
                around += [e.monoid] if e.monoid is not None else []
            within = joined(*(looks_of(p, inner) for p in parts))
            return joined(outside(within, names), *(looks_of(p, scope) for p in around))
        case S.Loop(_, states, condition, groups, body):
            names = [n for g in groups for b in g.binders for n in _named(b)]
            names += [n.name for pattern, _ in states for n in bound_in(pattern)]
            inner = hidden(scope, names)
            within = joined(*(looks_of(p, inner) for p in (body, condition) if p is not None))
            bounds = (g.bound for g in groups if isinstance(g.bound, S.Node))
            return joined(
                outside(within, names), *(looks_of(start, scope) for _, start in states), *(looks_of(b, scope) for b in bounds)
            )
        case S.Fn(params, body):
            names = [n.name for p in params for n in bound_in(p)]
            return outside(looks_of(body, hidden(scope, names)), names)
        case S.Let(decls, body):
            names = []
            inner = scope
            found: list[Looks] = []
            for decl in decls:
                inner, looks = declared(decl, inner)
                found.append(looks)
                names += _bound(decl)
            return outside(joined(*found, looks_of(body, inner)), names)
        case _:
            return joined(*(looks_of(part, scope) for part in parts_of(e)))


def declared(decl: S.Decl, scope: Scope) -> tuple[Scope, Looks]:
    """What is known after a declaration; and at what it looks itself, where it takes that apart."""
    match decl:
        case S.Val(pattern, value):
            known = value_of(value, scope)
            name = _untyped(pattern)
            inner = hidden(scope, _bound(decl))
            if isinstance(name, S.PatternName):
                return ({**inner, name.name: known} if known.looks else inner), {}
            looks = looks_of(value, scope)
            whole = Known((), {d: x if x.at == () else Look(None, x.span) for d, x in looks.items()})
            return ({**inner, **dict.fromkeys(_bound(decl), whole)} if looks else inner), {}
        case S.Fun():
            known = function_of(decl, scope)
            inner = hidden(scope, [decl.name.text])
            return ({**inner, decl.name.text: known} if known.looks else inner), {}
        case _:
            return scope, {}


def _bound(decl: S.Decl) -> list[str]:
    match decl:
        case S.Val(pattern):
            return [p.name for p in bound_in(pattern)]
        case S.Fun():
            return [decl.name.text]
        case _:
            return []


def _read(known: Known, at: list[Axis | None] | None, span: Span) -> Looks:
    """At what a name looks that is read at these subscripts, or applied to these arguments; None: as a whole."""
    if at is None or len(at) < len(known.axes):
        at = [None] * len(known.axes)
    place = dict(zip(known.axes, at, strict=False))

    def moved(look: Look) -> Look:
        if look.at is None:
            return Look(None, span)
        found = [place.get(axis, axis) for axis in look.at]
        return Look(tuple(a for a in found if a is not None) if None not in found else None, span)

    return {d: moved(look) for d, look in known.looks.items()}


def _axis(subscript: S.Subscript) -> Axis | None:
    match subscript:
        case S.IndexAt(S.Var(name)):
            return (name,)
        case S.IndexSplit(items) if all(isinstance(i, S.Var) for i in items):
            return tuple(i.name for i in items if isinstance(i, S.Var))
        case _:
            return None


def _applied(e: S.Expr) -> tuple[S.Expr, list[S.Expr]]:
    arguments: list[S.Expr] = []
    while isinstance(e, S.Apply):
        arguments.insert(0, e.argument)
        e = e.function
    return e, arguments


def _named(binder: S.Binder) -> list[str]:
    return [binder.name] if isinstance(binder, S.RunBinder) and binder.name else names_of(binder)
