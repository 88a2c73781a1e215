"""What is wrong with the sizes of a declaration, in words: where each comes from, and the changes to try, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from axon.base.diagnostics import Change, Diagnostic, Edit, Label, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.equation import annotated, sizes
from axon.explain.inside import decided
from axon.explain.origin import Trail
from axon.explain.ranges import Origin
from axon.explain.sizes import explain
from axon.explain.wording import Place, Words
from axon.shapes.constraint import Callee, Equal, Problem, Reason, Side
from axon.shapes.contracts.broken import measure
from axon.shapes.dimension import Dim
from axon.shapes.solving.causes import Cause, Unbounded, causes, primary
from axon.shapes.solving.settle import Outcome
from axon.shapes.solving.trouble import Clash, Hopeless, Refuted
from axon.suggest.inside import compared_with, indexed_by, padded_together, reached_outside, together, unreached, without_range
from axon.suggest.members import half_of_a_window, merged_again, together_elsewhere, variants
from axon.suggest.mend import asked, behind, compared, last_resorts, mends, reindexed
from axon.suggest.slips import cut, fitting_values, kept, one_range, resized
from axon.suggest.written import blanks, exchanged_at, unused_given
from axon.types import typed as T
from axon.types.blank import dimension_arguments
from axon.types.generate import Expressions
from axon.types.show import Namer, show_dim, symbols_of
from axon.types.type import Function, Inner, InsideOf, Row, Shape, Type, Unreached
from axon.types.unify import State

_MAX_BESIDE = 3  # conflicts at one place that are mended with another
_MAX_CALLS = 8  # of functions within functions, that a size is followed into
_BOUND = "this bound decides the size"
_MAKING = ("index", "bound", "flatten", "split", "slice", "call")  # origins in a body that say something to whoever calls
_SOON = 6  # of the changes away from where sizes clash, those that are tried before the sizes that are written


class Explanations(Expressions):
    """The part of inference that words what the second stage found."""

    def __init__(self) -> None:
        super().__init__()
        self.explains = True  # or says only that something is wrong with the sizes of a declaration, not why
        self.annotations: list[Span] = []
        self.made: dict[tuple[T.Expr, int, int, tuple[int | str, ...]], Inner | None] = {}  # of dimensions of functions' results
        self.followed: list[str] = []  # the functions into which a size is just being followed
        self.signed: dict[Span, Span] = {}  # where a `sig` writes the type of a parameter, by its pattern

    def trail(self, params: tuple[T.Pattern, ...], tree: tuple[T.Expr | T.Decl, ...]) -> Trail:
        written = self.origins, self.expanded_origins, self.annotations, self.written_fields, self.signed
        return Trail(self.state, tree, params, self.binders, *written, self.results)

    def _explain(self, outcome: Outcome, problem: Problem, where: Callable[[str], Edit] | None, t: Type, trail: Trail) -> None:
        namer = Namer(self.state)

        def aged(size: Dim) -> list[Symbol]:
            return sorted(self.state.dimension(size).variables, key=lambda s: s.id)

        mentioned = [s for e in problem.equals for d in (e.left, e.right) for s in aged(d)]
        mentioned += [s for u in problem.uses for s in aged(u.target)]
        mentioned += [s for o in problem.obligations for s in sorted(o.relation.variables, key=lambda s: s.id)]
        for size in mentioned:
            name = self.state.called.get(size)
            if name is not None and size not in namer.names and name not in namer.taken:
                namer.names[size] = name
                namer.taken.add(name)
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

        def divided(side: Side, raw: Dim, size: Dim) -> list[Place]:
            found = trail.cause(trail.of_place(side.span, raw, bool(side.about)), size)
            return [Place(o.kind, o.span, o.clause(show)) for o in found]

        def inside(side: Side, raw: Dim) -> list[Place]:
            made = trail.makers(side.span, raw, bool(side.about))
            return [Place(m.kind, m.span, m.why) for m in made if m.moved and m.parameter is None]

        def folds(side: Side) -> list[Place]:
            return [Place(o.kind, o.span, o.clause(show).removeprefix("since ")) for o in trail.folds(side.span)]

        words = Words(
            namer.dim,
            origins,
            tuple(self.annotations),
            tuple(self.written_fields),
            where,
            self.state.rigid.__contains__,
            origin,
            divided,
            inside,
            folds,
            partial(self._called, trail),
        )

        def access(index: Span) -> Span | None:
            found = trail.read(index)
            return None if found is None else found[0].span

        for cause in causes(outcome.troubles, problem, access, trail.values_behind):
            found = explain(cause, problem, words)
            branches = (*unreached("", trail, self.state), *self._unreached_by(trail)) if isinstance(cause, Clash) else ()
            labels = tuple(Label(u.condition, u.why) for u in branches[:1])  # which says more of a bound than that it is one
            kept = (label for label in found.labels if not labels or not label.text.endswith(_BOUND))
            found = replace(found, labels=(*kept, *labels), suggestions=(*(u.bound for u in branches), *found.suggestions))
            if isinstance(cause, Unbounded):
                found = replace(found, **_of_index(cause, found, trail))
            if isinstance(cause, Clash):
                at = primary(cause).reason.span
                beside = [t for t in outcome.troubles if isinstance(t, Clash) and t is not cause and primary(t).reason.span == at]
                both = annotated(cause, beside[:_MAX_BESIDE], problem, words) if beside else ()
                found = replace(found, suggestions=(*both, *found.suggestions))
            self.report(replace(found, suggestions=tuple(self._changes(cause, found.suggestions, problem, trail, show))))

    def _changes(
        self, cause: Cause, worded: tuple[Suggestion, ...], problem: Problem, trail: Trail, show: Callable[[Dim], str]
    ) -> Iterable[Suggestion]:
        """Changes to try, the likeliest first, of what stands in the source; `worded` are those of annotations and facts."""
        match cause:
            case Clash(kind="conflict" | "named"):
                blamed = primary(cause)
                others = [e for e in reversed(cause.equals) if e is not blamed]
                stated = next((n for n, s in enumerate(worded) if s.change is Change.FACT), len(worded))
                first, far = mends([blamed.reason], trail, True), self._elsewhere(blamed, trail)
                late = tuple(s for s in first if s.change is Change.EXCHANGED)  # more to change than one index far away
                first = tuple(s for s in first if s not in late)
                first = (*far, *first, *late) if _reshaped(blamed, trail) else (*first, *far, *late)
                first = (
                    *self._fitting(cause, problem, trail, True),
                    *first,
                    *self._resized(cause, problem, trail, show),
                    *self._from_modules(blamed, trail, show),
                )
                more = mends([e.reason for e in others], trail, False)
                divided = [s for s in worded if any("/" in e.text and "/" not in e.span.text for e in s.edits)]  # rarely forgotten
                turned = [s for s in far if s.change is Change.TRANSPOSED]  # in a function: whoever calls it is more often wrong
                yield from (s for s in (*first, *more[:_SOON]) if s not in turned)
                yield from (s for s in worded[:stated] if s not in divided)
                yield from blanks([blamed, *others], trail)
                yield from turned
                yield from (s for s in divided if not any("*" in e.text for e in s.edits))  # nobody means `h * (d / (3 * h))`
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
                yield from padded_together(ways) if also else ()
                for part in (cause, *also) if cause.obligation.use is None else ():  # a contract of a call
                    yield from exchanged_at(part.obligation.reason.span, trail)
                worded = tuple(s for s in worded if not s.edits)
            case Unbounded((range_,)):
                uses = [u for u in problem.uses if range_.symbol in u.index.variables]
                yield from indexed_by(range_, trail) if not uses else ()
                yield from without_range(range_, uses, trail, self.state, show)
            case Hopeless(facts=facts):
                for _, reason in facts:
                    yield from compared_with(reason.span, trail, show)
                    yield from exchanged_at(reason.span, trail)
                    yield from reindexed(trail, Reason(reason.span, "", (Side(reason.span, "", "an access"),)))
                    yield from self._asked_of(reason, problem, trail)
        yield from worded

    def _resized(self, c: Clash, problem: Problem, trail: Trail, show: Callable[[Dim], str]) -> Iterator[Suggestion]:
        """Changes of what makes one of the two sizes for it to be the other."""
        equal, left, right, _ = sizes(c, problem)
        yield from one_range(equal.reason, (left, right), trail, self.state, show)
        for side, raw, own, needed in zip(
            equal.reason.sides, (equal.left, equal.right), (left, right), (right, left), strict=False
        ):
            origin = trail.of_place(side.span, raw, bool(side.about))
            if origin is not None:
                yield from resized(origin, own, needed, trail, self.state, show)
        if len(equal.reason.sides) == 2:
            one, other = equal.reason.sides
            for side, beside, raw, own, needed in ((one, other, equal.right, left, right), (other, one, equal.left, right, left)):
                origin = trail.of_place(beside.span, raw, bool(beside.about))
                if origin is not None and origin.kind == "slice":
                    yield from cut(side, own, needed, trail, self.state, show)
        yield from self._fitting(c, problem, trail, False)

    def _fitting(self, c: Clash, problem: Problem, trail: Trail, idle: bool) -> Iterator[Suggestion]:
        """Other values of the sizes that are needed, those that nothing uses (`idle`) or others."""
        equal, left, right, _ = sizes(c, problem)
        if len(equal.reason.sides) == 2:
            one, other = equal.reason.sides
            yield from fitting_values(other, one, right, left, trail, idle)
            yield from fitting_values(one, other, left, right, trail, idle)

    def _elsewhere(self, blamed: Equal, trail: Trail) -> tuple[Suggestion, ...]:
        """Changes of what the two sizes of an equation come from: accesses here, and in the functions that make or ask for one."""
        found: list[Suggestion] = []
        for side, raw in zip(blamed.reason.sides, (blamed.left, blamed.right), strict=False):
            origin = trail.of_place(side.span, raw, bool(side.about))
            found += behind(origin, trail) if origin is not None else ()
            for access, position in trail.accesses(side.span, raw, bool(side.about)):
                found += kept(access, position)
            for maker in trail.makers(side.span, raw, bool(side.about)):
                found += maker.changes()
        callee = self._called(trail, blamed)
        within = decided(callee) if callee is not None else None
        return (*found, *(within[0].changes(within[1]) if within is not None else ()))

    def _from_modules(self, blamed: Equal, trail: Trail, show: Callable[[Dim], str]) -> Iterator[Suggestion]:
        """Other functions of the modules that are used: a variant of one that a size has passed, or of all such, and what merges
        parts again."""
        for side, raw in zip(blamed.reason.sides, (blamed.left, blamed.right), strict=False):
            passed = trail.through(side.span, raw, bool(side.about))
            behind_it = [trail.at(o.span) for o in trail.sources(trail.of_place(side.span, raw, bool(side.about)))]
            called = (e.function.span for e in behind_it if isinstance(e, T.Call))
            calls = dict.fromkeys((*(function.span for function in passed), *called))
            yield from together_elsewhere([list(variants(span, self.modules)) for span in calls])
            yield from (s for span in calls for s in variants(span, self.modules))
            for function in passed:
                yield from half_of_a_window(function, self.modules, self.state, show)
        for side in blamed.reason.sides:
            at = trail.at(side.span)
            yield from merged_again(at, self.modules, self.state) if at is not None else ()

    def _asked_of(self, reason: Reason, problem: Problem, trail: Trail) -> Iterator[Suggestion]:
        """Changes in the functions that make what a call is given whose contract is to hold at a place."""
        for obligation in problem.obligations:
            for _, variable in obligation.subject if obligation.reason.span == reason.span else ():
                found = measure(variable, problem.equals)
                for maker in trail.makers(found.side.span, found.raw, bool(found.side.about)) if found is not None else ():
                    yield from maker.changes()

    def _kept_in(self, r: Refuted, trail: Trail, show: Callable[[Dim], str]) -> Iterable[Suggestion]:
        use = r.obligation.use
        if use is not None and r.reach is not None and r.size is not None:
            low = r.obligation.relation.op != "<"
            yield from reached_outside(use, r.reach, r.size, r.ends, low, trail, self.state, show)

    # ── what a scheme keeps of a body ──────────────────────────────────────────────────────────────────────────────────

    def _inside(
        self, t: Type, equals: tuple[Equal, ...], flexible: tuple[Symbol, ...], params: tuple[T.Pattern, ...], body: T.Expr
    ) -> InsideOf:
        """Of a function: what its body's equations say of a dimension of a parameter, the first of some that are equal."""

        def of(name: str, places: Sequence[tuple[int, int, int]]) -> Callee | None:
            trail = self.trail(params, (body,))
            own = [(_parameter_shape(trail, self.state, t, parameter) or (), axis, rank) for parameter, axis, rank in places]
            shapes = [(shape, _before_call(shape, axis, rank)) for shape, axis, rank in own]
            sizes = [shape[axis] if axis < len(shape) else None for shape, axis in shapes]
            size = sizes[0]
            if not isinstance(size, Dim):
                return None
            apart = tuple(s for s in sizes[1:] if isinstance(s, Dim))
            others = partial(self._passed_on, trail, size, shapes[0][1], len(shapes[0][0]))
            changes = partial(asked, trail)
            return Callee(name, size, apart, equals, flexible, partial(self._called, trail), others, changes)

        return of

    def _result(
        self, params: tuple[T.Pattern, ...], body: T.Expr, name: str, explicit: tuple[Symbol, ...],
        axis: int, rank: int, way: tuple[int | str, ...],
    ) -> Inner | None:  # fmt: skip
        """What makes a dimension of a function's result: an index over another dimension of what it is given, a bound, a call …"""
        key = body, axis, rank, way
        if key not in self.made and len(self.followed) < _MAX_CALLS:
            self.followed.append(name)
            trail = self.trail(params, (body,))
            found, size, moved, deeper = trail.result(body, axis, rank, way)
            self.followed.pop()
            parameter = explicit.index(size.symbol) if size is not None and size.symbol in explicit else None
            own = None
            if parameter is not None or (found is not None and found.kind in _MAKING):
                found = found or Origin("parameter", body.span)
                own = Inner(found.span, found.kind, _in_body(found, name), moved, parameter, partial(behind, found, trail))
            made = deeper[0] if deeper and (own is None or own.kind == "call") and parameter is None else own
            given = self._given_inside(trail, body, explicit)
            if given:
                made = made or Inner(body.span, "call", "", False, None, tuple)
                made = replace(made, changes=partial(_both, made.changes, given))
            self.made[key] = made
        return self.made.get(key)

    def _given_inside(self, trail: Trail, body: T.Expr, explicit: tuple[Symbol, ...]) -> tuple[Suggestion, ...]:
        """Other dimension arguments for the calls in a body: dimension parameters that it does not use, halves of windows."""
        idle = [s.name for s in explicit if re.search(rf"\b{s.name}\b", body.span.text) is None]
        show = partial(show_dim, Namer(self.state))
        calls = (e for e in trail.expressions() if isinstance(e, T.Variable) and dimension_arguments(e.span))
        return tuple(s for e in calls for s in (*unused_given(e.span, idle), *half_of_a_window(e, self.modules, self.state, show)))

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
            place = n, axis, rank
            callee = inside(function.symbol.name, (place, *self._alike(trail, function.type, size, place)))
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
        place = n, shape.index(equal.right), len(shape)
        alike = self._alike(trail, function.type, equal.right, place)
        return self.inside[function.symbol](function.symbol.name, (place, *alike))

    def _alike(self, trail: Trail, t: Type, size: Dim, but: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
        """The other dimensions of a function's parameters that its type makes equal to one."""
        parameter = 0
        while isinstance(t := self.state.prune(t), Function):
            shape = trail.shape(t.param) or ()
            places = ((parameter, axis, len(shape)) for axis, item in enumerate(shape) if item == size)
            yield from (place for place in places if place != but)
            t, parameter = t.result, parameter + 1


def _both(first: Callable[[], tuple[Suggestion, ...]], more: tuple[Suggestion, ...]) -> tuple[Suggestion, ...]:
    return (*first(), *more)


def _reshaped(equal: Equal, trail: Trail) -> bool:
    """Whether a size is made by a reshape, of a split or of several: the mistake is more likely there than where it is noticed."""
    sides = zip(equal.reason.sides, (equal.left, equal.right), strict=False)
    origins = (trail.of_place(side.span, raw, bool(side.about)) for side, raw in sides)
    return any(origin is not None and origin.kind in ("split", "flatten") for origin in origins)


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


def _in_body(origin: Origin, name: str) -> str:
    """What decides a size in the body of a function, as a sentence."""
    why = origin.why.removeprefix("since ").split(", which is {}")[0]
    match origin.kind:
        case "flatten":
            return f"since `({' '.join(origin.span.text.split())})` makes one dimension in `{name}`"
        case "bound":
            return f"in `{name}`, {_BOUND}"
        case "slice" | "call":
            return f"in `{name}`, this is {why}"
    return f"in `{name}`, {why}"


def _before_call(shape: Shape, axis: int, rank: int) -> int:
    """Which dimension it is in the body of a function, where a call with this rank says what its shape variable stands for."""
    rows = [n for n, item in enumerate(shape) if isinstance(item, Row)]
    return axis - (rank - len(shape)) if rows and axis > rows[0] else axis


def _parameter_shape(trail: Trail, state: State, t: Type, parameter: int) -> Shape | None:
    """The shape of a parameter of a function that takes a tensor there."""
    for n in range(parameter + 1):
        t = state.prune(t)
        if not isinstance(t, Function):
            return None
        t = t.param if n == parameter else t.result
    return trail.shape(t)
