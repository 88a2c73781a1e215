"""The sites of a model, as they are written, and what its syntax alone shows to be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from axon.base.data import fields
from axon.base.source import Span
from axon.chance.model import Mistake, Mistaken, Model, Site
from axon.grammar import syntax as S

Called: TypeAlias = Callable[[S.Expr], "Model | None"]  # the model that an expression names, if it names one


def is_model(decl: S.Node) -> bool:
    """Whether a declaration is a function with `~` somewhere in it."""
    return isinstance(decl, S.Fun) and "~" in decl.span.text and any(isinstance(n, S.Draw | S.Observe) for n in inside(decl.body))


def inside(node: S.Node) -> Iterator[S.Node]:
    """A node and all that it consists of."""
    stack = [node]
    while stack:
        yield (node := stack.pop())
        stack += parts_of(node)


def parts_of(node: S.Node) -> list[S.Node]:
    """The nodes that a node consists of, not those in them."""
    found: list[S.Node] = []
    values: list[object] = [getattr(node, f.name) for f in fields(node) if f.name not in ("span", "op_span")]
    while values:
        value = values.pop()
        if isinstance(value, tuple):
            values += value
        elif isinstance(value, S.Node):
            found.append(value)
    return found


def name_of(pattern: S.Pattern) -> S.PatternName | None:
    """The name that a pattern binds, if it is no more than that."""
    while isinstance(pattern, S.PatternTyped):
        pattern = pattern.pattern
    return pattern if isinstance(pattern, S.PatternName) and pattern.name != "_" else None


def bound_in(pattern: S.Node) -> Iterator[S.PatternName]:
    """The names that a pattern binds."""
    return (p for p in inside(pattern) if isinstance(p, S.PatternName))


def bindings(decl: S.Fun) -> Iterator[tuple[str, int]]:
    """The names that a model binds itself, parameters and those of its `let`s, and the places from which on they stand for that."""
    yield from ((name.name, decl.span.start) for param in decl.params for name in bound_in(param))
    body = decl.body
    while isinstance(body, S.Let):
        for d in body.decls:
            if isinstance(d, S.Val | S.Draw):
                yield from ((name.name, d.span.end) for name in bound_in(d.pattern))
            elif isinstance(d, S.Fun):
                yield d.name.text, d.span.start
        body = body.body


def latents_of(body: S.Expr) -> Iterator[tuple[str, S.Expr]]:
    """The names of a model's latents, and their sites."""
    while isinstance(body, S.Let):
        for d in body.decls:
            if isinstance(d, S.Draw) and (name := name_of(d.pattern)) is not None:
                yield name.name, d.site
        body = body.body


def leaf_of(site: S.Expr) -> S.Expr:
    """The distribution of a site, or the first of several."""
    while isinstance(site, S.For | S.If | S.Loop):
        site = site.then if isinstance(site, S.If) else site.body
    return site


def leaves_of(site: S.Expr) -> Iterator[S.Expr]:
    """The distributions of a site, one for each of its branches."""
    match site:
        case S.If(_, then, otherwise):
            yield from leaves_of(then)
            yield from leaves_of(otherwise)
        case S.For() | S.Loop():
            yield from leaves_of(site.body)
        case _:
            yield site


def names_of(binder: S.Binder) -> list[str]:
    match binder:
        case S.ProductBinder(names):
            return [n.text for n in names]
        case S.IndexBinder(name) if name != "_":
            return [name]
        case _:
            return []


def head_of(leaf: S.Expr) -> S.Expr:
    """What is applied in an expression."""
    while isinstance(leaf, S.Apply | S.ApplyDims):
        leaf = leaf.function
    return leaf


class Sites:
    """The sites of a model in their order, and the mistakes that its syntax shows."""

    def __init__(self, called: Called) -> None:
        self.called = called
        self.sites: list[Site] = []
        self.written: list[S.Expr] = []  # those of latents
        self.mistakes: list[Mistaken] = []
        self.places: dict[str, Span] = {}

    def spine(self, body: S.Expr) -> None:
        """The `let`s that are a function's body, one in the other."""
        while isinstance(body, S.Let):
            for decl in body.decls:
                match decl:
                    case S.Draw(pattern, site):
                        self._draw(pattern, site)
                    case S.Observe(name, site):
                        self._add(name.text, name.span, "observed", site)
                    case _:
                        self._none_in(decl, decl)
            body = body.body
        self._none_in(body, body)

    def _draw(self, pattern: S.Pattern, site: S.Expr) -> None:
        name = name_of(pattern)
        if name is None:
            self.mistakes.append(Mistaken(Mistake.SITE_PATTERN, pattern.span))
            return
        self.written.append(site)
        self._add(name.name, name.span, "latent", site)

    def _add(self, name: str, span: Span, kind: str, site: S.Expr) -> None:
        if name in self.places:
            self.mistakes.append(Mistaken(Mistake.SITE_TWICE, span, (name,), self.places[name]))
            return
        self.places[name] = span
        self._none_in(site, site)
        plates = self._within(site, {})
        model = self._model_of(site) if kind == "latent" else None
        kind = "model" if model is not None else kind
        self.sites.append(Site(name, kind, tuple(plates), model.sites if model is not None else ()))

    def _within(self, site: S.Expr, indices: dict[str, Span]) -> list[str]:
        """The plates of a site, of whose branches those of the first; `indices` are around it."""
        match site:
            case S.If(_, then, otherwise):
                plates = self._within(then, indices)
                self._within(otherwise, indices)
                return plates
            case S.For(groups, body):
                return [*self._plates(groups, indices := {**indices}), *self._within(body, indices)]
            case S.Loop(_, states, _, groups, body):
                self._chain(site)
                plates = [*self._plates(groups, indices := {**indices})]
                for pattern, _ in states:
                    for name in bound_in(pattern):
                        self._once(name.name, name.span, indices)
                return [*plates, *self._within(body, indices)]
            case _:
                return []

    def _once(self, name: str, span: Span, indices: dict[str, Span]) -> None:
        """Each index tells draws apart by its name, so nothing around the distribution may have it a second time."""
        if name in indices:
            self.mistakes.append(Mistaken(Mistake.INDEX_BOUND_TWICE, span, (name,), indices[name]))

    def _model_of(self, site: S.Expr) -> Model | None:
        """The model that all branches of a site are drawn from, if they are drawn from one."""
        first, *others = leaves_of(site)
        model = self.called(head_of(first))
        for leaf in others:
            other = self.called(head_of(leaf))
            if other != model:
                self.mistakes.append(Mistaken(Mistake.SITE_OF_MODELS, leaf.span, (), first.span))
                break
        return model

    def _chain(self, site: S.Loop) -> None:
        """A chain is an `unfold` of one state, of which each step is drawn from a distribution."""
        if site.kind != "unfold" or len(site.states) != 1 or site.condition is not None:
            head = Span(site.span.file, site.span.start, site.body.span.start)
            self.mistakes.append(Mistaken(Mistake.SITE_CHAIN, head, (site.kind,)))
        elif self.called(head_of(leaf_of(site))) is not None:
            self.mistakes.append(Mistaken(Mistake.CHAIN_OF_MODEL, leaf_of(site).span))

    def _plates(self, groups: Sequence[S.BinderGroup], indices: dict[str, Span]) -> Iterator[str]:
        own: dict[str, Span] = {}
        for group in groups:
            for binder in group.binders:
                for name in names_of(binder):
                    self._once(name, binder.span, indices)
                    own[name] = binder.span
                if isinstance(binder, S.RunBinder):
                    self.mistakes.append(Mistaken(Mistake.PLATE_OF_RUN, binder.span, (binder.span.text,)))
                yield group.bound.span.text if group.bound is not None else ""
        indices.update(own)

    def _none_in(self, node: S.Node, around: S.Node) -> None:
        """Report each `~` in a node; `around` is the innermost thing that it may not stand in."""
        if "~" not in node.span.text:
            return
        match node:
            case S.If():
                around = node
            case S.Loop() | S.For() | S.Reduce() | S.Fn() | S.Fun():
                around = node
            case S.Draw() | S.Observe():
                mistake = _FORBIDDEN.get(type(around), Mistake.SITE_INSIDE)
                words = (around.kind,) if isinstance(around, S.Loop) else ()
                place = Span(node.span.file, node.span.start, node.site.span.start)
                self.mistakes.append(Mistaken(mistake, place, words, around.span))
                return
        for part in reversed(parts_of(node)):
            self._none_in(part, around)


_FORBIDDEN = {
    S.If: Mistake.SITE_UNDER_IF,
    S.Loop: Mistake.SITE_UNDER_LOOP,
    S.For: Mistake.SITE_UNDER_FOR,
    S.Reduce: Mistake.SITE_UNDER_FOR,
    S.Fn: Mistake.SITE_IN_FUNCTION,
    S.Fun: Mistake.SITE_IN_FUNCTION,
}
