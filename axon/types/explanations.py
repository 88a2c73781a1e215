"""What is wrong with the sizes of a declaration, in words: where each comes from, and the changes to try, the likeliest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from axon import typed as T
from axon.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.names import Symbol
from axon.shapes.causes import Cause, Unbounded, causes, primary
from axon.shapes.constraint import Callee, Equal, Side
from axon.shapes.dimension import Dim
from axon.shapes.explain import explain
from axon.shapes.settle import Clash, Outcome, Problem, Refuted
from axon.shapes.wording import Place, Words
from axon.source import Span
from axon.types.generate import Expressions
from axon.types.inside import indexed_by, reached_outside, together, unreached, without_range
from axon.types.mend import compared, last_resorts, mends
from axon.types.origin import Trail
from axon.types.show import Namer, symbols_of
from axon.types.type import Function, Shape, Type, Unreached
from axon.types.unify import State
from axon.types.written import blanks

_SOON = 6  # of the changes away from where sizes clash, those that are tried before the sizes that are written


class Explanations(Expressions):
    """The part of inference that words what the second stage found."""

    def __init__(self) -> None:
        super().__init__()
        self.annotations: list[Span] = []
        self.signed: dict[Span, Span] = {}  # where a `sig` writes the type of a parameter, by its pattern

    def trail(self, params: tuple[T.Pattern, ...], tree: tuple[T.Expr | T.Decl, ...]) -> Trail:
        written = self.origins, self.expanded_origins, self.annotations, self.written_fields, self.signed
        return Trail(self.state, tree, params, self.binders, *written, self.folded)

    def _explain(self, outcome: Outcome, problem: Problem, where: Callable[[str], Edit] | None, t: Type, trail: Trail) -> None:
        if not outcome.troubles:
            return
        namer = Namer(self.state)
        mentioned = [s for e in problem.equals for d in (e.left, e.right) for s in self.state.dimension(d).variables]
        mentioned += [s for u in problem.uses for s in self.state.dimension(u.target).variables]
        mentioned += [s for o in problem.obligations for s in o.relation.variables]
        here = set(mentioned)
        for own in self.opened_names:
            size = self.state.dimension(Dim.of(own)).symbol
            if size in self.state.data_sizes and size in here and own.name not in namer.taken:
                namer.names.setdefault(size, own.name)
                namer.taken.add(own.name)
        namer.plan([s for s in mentioned if s in self.state.rigid])
        # In a sentence about an index, a dimension of the same name would confuse, unless it is the user's own.
        namer.taken |= {s.name for x in outcome.troubles if isinstance(x, Refuted) for s, _ in x.ends}
        namer.plan(symbols_of(self.state, t))
        origins = tuple((self.state.dimension(dim), span) for dim, span in self.origins)

        def show(dim: Dim) -> str:
            return dim.render(namer.dim)

        def origin(side: Side, size: Dim) -> Place | None:
            found = trail.of_place(side.span, size, bool(side.about))
            if found is None:
                return None
            if found.kind == "parameter":  # without a type: what passes it on may say how large it is
                found = next((o for o in trail.sources(found) if o.kind == "annotation"), found)
            return Place(found.kind, found.span, found.clause(show))

        def behind(side: Side, raw: Dim, size: Dim) -> list[Place]:
            found = trail.cause(trail.of_place(side.span, raw, bool(side.about)), size)
            return [Place(o.kind, o.span, o.clause(show)) for o in found]

        words = Words(
            namer.dim,
            origins,
            tuple(self.annotations),
            tuple(self.written_fields),
            where,
            self.state.rigid.__contains__,
            origin,
            behind,
            partial(self._called, trail),
        )

        def access(index: Span) -> Span | None:
            found = trail.read(index)
            return None if found is None else found[0].span

        for cause in causes(outcome.troubles, problem, access, trail.values_behind):
            found = explain(cause, problem, words)
            branches = self._unreached_by(trail) if isinstance(cause, Clash) else ()
            labels = tuple(Label(u.condition, u.why) for u in branches[:1])
            found = replace(found, labels=(*found.labels, *labels), suggestions=(*(u.bound for u in branches), *found.suggestions))
            if isinstance(cause, Unbounded):
                found = replace(found, **_of_index(cause, found, trail))
            self.report(replace(found, suggestions=tuple(self._changes(cause, found.suggestions, problem, trail, show))))

    def _changes(
        self, cause: Cause, worded: tuple[Suggestion, ...], problem: Problem, trail: Trail, show: Callable[[Dim], str]
    ) -> Iterable[Suggestion]:
        """Changes to try, the likeliest first, of what stands in the source; `worded` are those of annotations and facts."""
        match cause:
            case Clash(kind="conflict" | "named"):
                blamed = primary(cause)
                others = [e for e in reversed(cause.equals) if e is not blamed]
                stated = next((n for n, s in enumerate(worded) if s.text.startswith("state it")), len(worded))
                first = mends([blamed.reason], trail, True)
                more = mends([e.reason for e in others], trail, False)
                divided = [s for s in worded if any("/" in e.text and "/" not in e.span.text for e in s.edits)]  # rarely forgotten
                yield from (*first, *more[:_SOON], *(s for s in worded[:stated] if s not in divided))
                yield from blanks([blamed, *others], trail)
                yield from divided
                yield from (*more[_SOON:], *worded[stated:])
                if first or more:
                    yield from last_resorts(blamed.reason, trail)
                return
            case Clash():
                for equal in (primary(cause), *reversed(cause.equals)):
                    yield from compared(equal, trail, self.state, show)
            case Refuted(also=also):
                yield from (s for s in worded if s.edits)  # a size that is written out: more than a slip of an index
                ways = [list(self._kept_in(part, trail, show)) for part in (cause, *also)]
                yield from together(ways) if also else ways[0]
                yield from (last for last in ways[0] if any(last in way for way in ways[1:]))  # of the access as a whole
                worded = tuple(s for s in worded if not s.edits)
            case Unbounded((range_,)):
                uses = [u for u in problem.uses if range_.symbol in u.index.variables]
                yield from indexed_by(range_, trail) if not uses else ()
                yield from without_range(range_, uses, trail, self.state, show)
        yield from worded

    def _kept_in(self, r: Refuted, trail: Trail, show: Callable[[Dim], str]) -> Iterable[Suggestion]:
        use = r.obligation.use
        if use is not None and r.reach is not None and r.size is not None:
            low = r.obligation.relation.op != "<"
            yield from reached_outside(use, r.reach, r.size, r.ends, low, trail, self.state, show)

    # ── what a scheme keeps of a body ──────────────────────────────────────────────────────────────────────────────────

    def _inside(
        self, t: Type, equals: tuple[Equal, ...], flexible: tuple[Symbol, ...], params: tuple[T.Pattern, ...], body: T.Expr
    ) -> Callable[[str, int, int], Callee | None]:
        """Of a function: what its body's equations say of a dimension of a parameter."""

        def of(name: str, parameter: int, axis: int) -> Callee | None:
            trail = self.trail(params, (body,))
            shape = _parameter_shape(trail, self.state, t, parameter)
            size = shape[axis] if shape is not None and axis < len(shape) else None
            if not isinstance(size, Dim):
                return None
            others = partial(self._passed_on, trail, size, axis, len(shape or ()))
            return Callee(name, size, equals, flexible, partial(self._called, trail), others)

        return of

    def _folded(self, params: tuple[T.Pattern, ...], body: T.Expr, name: str, axis: int) -> tuple[Span, str] | None:
        """Of a dimension of a function's result: the flattening in its body that makes it."""
        found = self.trail(params, (body,)).of(body, axis)
        if found is None or found.kind != "flatten":
            return None
        return found.span, f"since `({' '.join(found.span.text.split())})` makes one dimension in `{name}`"

    def _unreached(self, params: tuple[T.Pattern, ...], body: T.Expr, name: str) -> tuple[Unreached, ...]:
        """The branches in a function that nothing takes, and those in the functions that it uses."""
        trail = self.trail(params, (body,))
        return (*unreached(name, trail, self.state), *self._unreached_by(trail))

    def _unreached_by(self, trail: Trail) -> tuple[Unreached, ...]:
        used = dict.fromkeys(e.symbol for e in trail.expressions() if isinstance(e, T.Variable) and e.symbol in self.unreached)
        return tuple(dict.fromkeys(u for symbol in used for u in self.unreached[symbol]()))

    def _passed_on(self, trail: Trail, size: Dim, axis: int, rank: int) -> Iterator[Callee]:
        """The functions that are called with something of this size in this dimension."""
        for function, n, _ in trail.arguments():
            shape = _parameter_shape(trail, self.state, function.type, n)
            inside = self.inside.get(function.symbol)
            if inside is None or shape is None or len(shape) != rank or shape[axis] != size:
                continue
            callee = inside(function.symbol.name, n, axis)
            if callee is not None:
                yield callee

    def _called(self, trail: Trail, equal: Equal) -> Callee | None:
        """The function that an argument's equation is about, and the dimension of its parameter."""
        found = trail.passed(equal.reason)
        if found is None or found[0].symbol not in self.inside:
            return None
        function, n = found
        shape = _parameter_shape(trail, self.state, function.type, n)
        if shape is None or equal.right not in shape:
            return None
        return self.inside[function.symbol](function.symbol.name, n, shape.index(equal.right))


def _of_index(cause: Unbounded, found: Diagnostic, trail: Trail) -> dict[str, Any]:
    """What else there is to say of an index without a range: part of a flattening, or used in a local function alone."""
    symbol = cause.ranges[0].symbol
    if local := trail.bounded_locally(symbol):
        note = f"its use in `{local}` says nothing of its range, since `{local}` need not be called"
        return {"notes": (*found.notes, note)}
    if trail.in_product(symbol):
        help_ = "the indices of a flattening take no bound: build the tensor with `for i < n, j < m => …`, and flatten that"
        return {"suggestions": (Suggestion(help_),)}
    return {}


def _parameter_shape(trail: Trail, state: State, t: Type, parameter: int) -> Shape | None:
    """The shape of a parameter of a function that takes a tensor there."""
    for n in range(parameter + 1):
        t = state.prune(t)
        if not isinstance(t, Function):
            return None
        t = t.param if n == parameter else t.result
    return trail.shape(t)
