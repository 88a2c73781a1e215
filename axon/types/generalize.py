"""Generalization: what a declaration collected is settled, and its type becomes a scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from axon import typed as T
from axon.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.element import Element
from axon.names import Symbol
from axon.shapes.causes import Cause, Unbounded, causes, primary
from axon.shapes.constraint import Callee, Equal, Reason, Side
from axon.shapes.contract import Contract, ContractFact, ParameterShape
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.explain import Place, Words, explain
from axon.shapes.relation import Relation
from axon.shapes.settle import Clash, Outcome, Problem, Refuted, settle, simpler
from axon.source import Span
from axon.types import errors
from axon.types.generate import Expressions
from axon.types.inside import indexed_by, parameter_edit, parts_bounded, reached_outside, together, unreached, without_range
from axon.types.mend import compared, last_resorts, mends
from axon.types.origin import Trail
from axon.types.show import Namer, dimension_names, show_type, symbols_of
from axon.types.type import (
    POISON,
    ElementVar,
    Exists,
    Function,
    RecordType,
    Row,
    Scheme,
    SchemeFact,
    Shape,
    Tensor,
    TupleType,
    Type,
    TypeVar,
    Unreached,
)
from axon.types.unify import State
from axon.types.written import blanks

_SOON = 6  # of the changes away from where sizes clash, those that are tried before the sizes that are written


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far the lists of constraints reached when a declaration began."""

    errors: int
    deferred: int
    equals: int
    stretches: int
    ranges: int
    uses: int
    obligations: int
    nonempty: int
    flexible: int
    literals: int
    elements: int
    consequences: int
    closures: int
    opened: int
    introduced: int


class Generalization(Expressions):
    """The part of inference that ends a declaration."""

    def __init__(self) -> None:
        super().__init__()
        self.annotations: list[Span] = []
        self.signed: dict[Span, Span] = {}  # where a `sig` writes the type of a parameter, by its pattern

    # ── generalization ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _enter(self) -> _Mark:
        s = self.state
        s.level += 1
        return _Mark(
            len(self.diagnostics), len(self.deferred), len(s.equals), len(s.stretches), len(s.ranges), len(s.uses),
            len(s.obligations), len(s.nonempty), len(s.flexible_dims), len(self.literals), len(s.flexible_elements),
            self.consequences, len(self.closures), self.opened, len(self.introduced),
        )  # fmt: skip

    def _generalize(
        self, mark: _Mark, t: Type, explicit: tuple[Symbol, ...], facts: list[tuple[Relation, Span]], span: Span,
        where: Callable[[str], Edit] | None, keep_functions: bool, params: tuple[T.Pattern, ...], body: T.Expr,
    ) -> tuple[Scheme, bool]:  # fmt: skip
        """Settle what a declaration collected and quantify over what is its own; says whether it is free of errors."""
        level = self.state.level
        try:
            return self._quantified(mark, t, explicit, facts, span, where, keep_functions, params, body)
        except DimensionTooLarge:
            self._drop(mark)
            self.state.level, self.state.overflowed = level - 1, True
            self.too_complex(span)
            return Scheme(POISON), False

    def _quantified(
        self, mark: _Mark, t: Type, explicit: tuple[Symbol, ...], facts: list[tuple[Relation, Span]], span: Span,
        where: Callable[[str], Edit] | None, keep_functions: bool, params: tuple[T.Pattern, ...], body: T.Expr,
    ) -> tuple[Scheme, bool]:  # fmt: skip
        state = self.state
        self.settle_types(mark.deferred)
        if state.level == 1:
            self.ended.clear()
            open_: set[Symbol] = set()
            for left, right, reason in state.row_equations:
                rows = {i.symbol for i in (*state.shape(left), *state.shape(right)) if isinstance(i, Row)}
                if open_.isdisjoint(rows):  # else it is the same question
                    self.report(errors.splits(state, left, right, reason))
                open_ |= rows
            state.row_equations.clear()
        self._default_elements(mark, t, keep_functions)
        broken = self.consequences > mark.consequences or self._failed(mark)
        outcome, problem = self._settle_sizes(mark, t if keep_functions else None, facts)
        if not broken:
            self._judge_coercions()
        self.coercions.clear()
        if not broken:  # sizes that follow from wrong types say nothing new
            self._explain(outcome, problem, where, t, self.trail(params, (body,)))
        state.level -= 1
        ok = not broken and not self._failed(mark)
        if ok:
            ok = self._kept_inside(mark, t, span)
        introduced = self.introduced[mark.introduced :]
        del self.closures[mark.closures :], self.introduced[mark.introduced :]
        kept = tuple(SchemeFact(r, _why(reason), reason.span) for r, reason in outcome.contract)
        scheme = self._quantify(t, explicit, kept if ok else ())
        contract = self._contract(scheme)
        if ok:
            ok = self._determined(scheme, contract, span, params, body) and self._anchored(scheme, introduced, body, span)
            ok = ok and (state.level > 0 or self._split(scheme, params, span))
        if ok:
            found = tuple(SchemeFact(r, f"`{symbol.name}` is found by division: {{}}", None) for symbol, r in contract.needs())
            scheme = replace(scheme, facts=(*scheme.facts, *found))
        if scheme.facts:
            scheme = replace(scheme, names=dimension_names(state, scheme))
        if ok and params and state.level == 0:
            folded = partial(self._folded, params, body, self.defining[-1] if self.defining else "")
            name = self.defining[-1] if self.defining else ""
            scheme = replace(scheme, unreached=partial(self._unreached, params, body, name))
            scheme = replace(scheme, inside=self._inside(t, outcome.equals, problem.flexible, params, body), folded=folded)
        return replace(scheme, opens=keep_functions and self.opened > mark.opened), ok

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

    def _kept_inside(self, mark: _Mark, t: Type, span: Span) -> bool:
        """See that no size that one call of a function decides is part of the function's type, nor of a parameter's."""
        leaves = [place for f, own, place in self.closures[mark.closures :] if set(own) & self._free(f)]
        while isinstance(t := self.state.prune(t), Function):
            if {s for s in self._free(t.param) if s in self.state.data_sizes and self.state.levels[s] > self.state.level}:
                leaves.append(span)
            t = t.result
        for place in leaves[:1]:
            label = Label(place, "a function's type cannot mention it: each call gives another size")
            self.report(Diagnostic("AX0307", "a size that only the data decide leaves the function that opens it", (label,)))
        return not leaves

    def _free(self, t: Type) -> set[Symbol]:
        return set(self.state.parts(t, set())) - self._bound(t)

    def _failed(self, mark: _Mark) -> bool:
        return any(d.severity == "error" for d in self.diagnostics[mark.errors :])

    def _judge_coercions(self) -> None:
        """A coercion between sizes that cannot be equal is an error here, not at run time."""
        for value, t, span in self.coercions:
            have, want = self.state.zonk(value), self.state.zonk(t)
            if isinstance(have, Tensor) and isinstance(want, Tensor):
                for n, (a, b) in enumerate(zip(have.shape, want.shape, strict=False), 1):
                    if isinstance(a, Dim) and isinstance(b, Dim) and (a - b).constant not in (None, 0):
                        label = Label(span, f"dimension {n} is {a}, and can never be {b}")
                        self.report(Diagnostic("AX0305", "this coercion cannot succeed", (label,)))

    def _default_elements(self, mark: _Mark, t: Type, keep: bool) -> None:
        """Element types that no parameter mentions get their defaults: f32 for floats, i32 for other numbers."""
        state = self.state
        of_params: set[Symbol] = set()
        rest = state.prune(t)
        while keep and isinstance(rest, Function):
            of_params |= set(state.parts(rest.param, set()))
            rest = state.prune(rest.result)
        for symbol in state.flexible_elements[mark.elements :]:
            known = symbol in state.elements or symbol in state.rigid or symbol in state.generic
            if known or symbol in of_params or state.levels[symbol] < state.level:
                continue
            allowed = state.allowed[symbol]
            state.elements[symbol] = Element.I32 if Element.I32 in allowed else min(allowed, key=_PREFERENCE.index)
        for value, literal, span in self.literals[mark.literals :]:
            element = state.element(literal.element)
            if isinstance(element, Element) and element.is_integer and not _fits(value, element):
                message = f"{value} does not fit in {element.value}"
                self.report(Diagnostic("AX0202", message, (Label(span, f"used as {element.value} here"),)))
        if state.level == 1:
            self.literals.clear()
            state.flexible_elements.clear()

    def _settle_sizes(self, mark: _Mark, t: Type | None, facts: list[tuple[Relation, Span]]) -> tuple[Outcome, Problem]:
        s = self.state
        level = s.level
        flexible = tuple(f for f in s.flexible_dims if f not in s.dims and s.levels[f] >= level)
        flexible = tuple(sorted(flexible, key=lambda f: f not in s.named_dims))
        outer = frozenset(f for f in s.flexible_dims if f not in s.dims and s.levels[f] < level) if level > 1 else frozenset()
        if level > 1:
            outer |= frozenset(r for r in s.rigid if s.levels.get(r, 0) < level)
        owed = [o for element, o in s.nonempty[mark.nonempty :] if not self._is_float(element)]
        assumed = [(r, Reason(span, "stated here")) for r, span in facts]
        nowhere = Reason(self._somewhere(facts), "")
        assumed += [(b, nowhere) for bounds in s.data_sizes.values() for b in bounds]
        problem = Problem(
            tuple(s.equals[mark.equals :]), tuple(s.stretches[mark.stretches :]), tuple(s.ranges[mark.ranges :]),
            tuple(s.uses[mark.uses :]), (*s.obligations[mark.obligations :], *owed), tuple(assumed), flexible, outer,
            frozenset(s.data_sizes), s.dimension, self._own_sizes(t),
        )  # fmt: skip
        outcome = settle(problem)
        self._drop(mark)
        s.dims.update(outcome.solved)
        s.equals.extend(outcome.floating)
        s.obligations.extend(outcome.owed)
        if level == 1:
            s.flexible_dims.clear()
        return outcome, problem

    def _drop(self, mark: _Mark) -> None:
        """Forget the constraints of a declaration."""
        s = self.state
        del s.equals[mark.equals :], s.stretches[mark.stretches :], s.ranges[mark.ranges :], s.uses[mark.uses :]
        del s.obligations[mark.obligations :], s.nonempty[mark.nonempty :]

    def _own_sizes(self, t: Type | None) -> frozenset[Symbol]:
        """The sizes that parameters of a function have by themselves, of which its signature speaks where it can."""
        found: set[Symbol] = set()
        while t is not None and isinstance(t := self.state.prune(t), Function):
            tensors = (part for part in self._walk(t.param) if isinstance(part, Tensor))
            items = (item for tensor in tensors for item in self.state.shape(tensor.shape))
            found.update(item.symbol for item in items if isinstance(item, Dim) and item.symbol is not None)
            t = t.result
        return frozenset(found)

    def _is_float(self, element: Element | ElementVar) -> bool:
        return all(e.is_float for e in self.state.allowed_of(element))

    def _somewhere(self, facts: list[tuple[Relation, Span]]) -> Span:
        from axon.source import SourceFile

        return facts[0][1] if facts else SourceFile("", "").span()

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

    def _quantify(self, t: Type, explicit: tuple[Symbol, ...], facts: tuple[SchemeFact, ...]) -> Scheme:
        state = self.state
        t = self._simpler(self._close(state.zonk(t)), tuple(f.relation for f in facts))
        types: dict[Symbol, None] = {}
        elements: dict[Symbol, frozenset[Element]] = {}
        rows: dict[Symbol, None] = {}
        dims: dict[Symbol, None] = {}
        mine = [s for s in state.parts(t, set()) if state.levels.get(s, 0) > state.level]
        mine += [s for f in facts for s in f.relation.variables if state.levels.get(s, 0) > state.level]
        mine.sort(key=lambda s: s.id)  # sets of symbols have no order of their own that is the same in every process
        rowset, type_vars = self._rows(t), self._type_vars(t)
        bound = self._bound(t)
        for symbol in mine:
            if symbol in explicit or symbol in bound:
                continue
            if symbol in state.allowed:
                elements[symbol] = state.allowed[symbol]
            elif symbol in rowset:
                rows[symbol] = None
            elif symbol in type_vars:
                types[symbol] = None
            elif symbol not in state.data_sizes:
                dims[symbol] = None
        state.generic.update(types, elements, rows, dims, explicit)
        return Scheme(t, tuple(types), tuple(elements.items()), tuple(rows), tuple(dims), explicit, facts)

    def _simpler(self, t: Type, facts: tuple[Relation, ...]) -> Type:
        """The type with its results' sizes as short as the facts allow; those of parameters stay as they are written."""
        if isinstance(t, Function):
            return Function(t.param, self._simpler(t.result, facts))
        if isinstance(t, Tensor):
            shape = tuple(simpler(i, facts) if isinstance(i, Dim) else i for i in self.state.shape(t.shape))
            return Tensor(t.element, shape)
        if isinstance(t, TupleType):
            return TupleType(tuple(self._simpler(i, facts) for i in t.items))
        if isinstance(t, RecordType):
            return t.map(lambda part: self._simpler(part, facts))
        return t

    def _close(self, t: Type) -> Type:
        """Put sizes that only the data decide, which a result mentions, under `?k`."""
        if isinstance(t, Function):
            return Function(t.param, self._close(t.result))
        state = self.state
        free = [s for s in symbols_of(state, t) if s in state.data_sizes and state.levels.get(s, 0) > state.level]
        for symbol in sorted(free, key=lambda s: s.id, reverse=True):  # a bound mentions what was opened before
            if symbol not in self._bound(t):
                t = Exists(symbol, self._bounds(symbol, free), t)
        return t

    def _bounds(self, symbol: Symbol, shown: list[Symbol]) -> tuple[Relation, ...]:
        """`k <= …` in sizes that can be named outside: one of the data's that the type does not show gives way to its own bound."""
        sizes = self.state.data_sizes
        limit = self.state.dimension(sizes[symbol][0].right) if sizes[symbol] else None
        while limit is not None and (hidden := next((s for s in limit.variables if s in sizes and s not in shown), None)):
            split = limit.linear_in(hidden)
            grows = split is not None and split[0].constant is not None and split[0].constant > 0
            limit = self.state.dimension(limit.substitute({hidden: sizes[hidden][0].right})) if grows and sizes[hidden] else None
        return () if limit is None else (Relation(Dim.of(symbol), "<=", limit),)

    def _walk(self, t: Type) -> list[Type]:
        found: list[Type] = []
        seen: set[int] = set()
        stack = [t]
        while stack:
            t = self.state.prune(stack.pop())
            if id(t) in seen:
                continue
            seen.add(id(t))
            found.append(t)
            match t:
                case Function(param, result):
                    stack += (param, result)
                case TupleType(items):
                    stack += items
                case RecordType(fields):
                    stack += [f for _, f in fields]
                case Exists(_, _, body):
                    stack.append(body)
        return found

    def _rows(self, t: Type) -> set[Symbol]:
        tensors = (x for x in self._walk(t) if isinstance(x, Tensor))
        return {i.symbol for x in tensors for i in self.state.shape(x.shape) if isinstance(i, Row)}

    def _type_vars(self, t: Type) -> set[Symbol]:
        return {x.symbol for x in self._walk(t) if isinstance(x, TypeVar)}

    def _bound(self, t: Type) -> set[Symbol]:
        return {x.symbol for x in self._walk(t) if isinstance(x, Exists)}

    def _contract(self, scheme: Scheme) -> Contract:
        """What the arguments say of the sizes: those of the declaration around are given."""
        shapes: list[ParameterShape] = []
        t: Type = scheme.type
        while isinstance(t, Function):
            tensors = (part for part in self._walk(t.param) if isinstance(part, Tensor))
            shapes += [ParameterShape("", tuple(i for i in self.state.shape(x.shape) if isinstance(i, Dim))) for x in tensors]
            t = self.state.prune(t.result)
        outer = [s for d in shapes for i in d.dims for s in i.variables if self.state.levels.get(s, 0) <= self.state.level]
        given = tuple(dict.fromkeys((*scheme.explicit, *outer)))
        return Contract(given, tuple(shapes), tuple(ContractFact(f.relation, f.why) for f in scheme.facts))

    def _determined(self, scheme: Scheme, contract: Contract, span: Span, params: tuple[T.Pattern, ...], body: T.Expr) -> bool:
        """See that every size of a signature can be found from the arguments."""
        free: set[Symbol] = set()
        t: Type = scheme.type
        while isinstance(t, Function):
            free.update(*(symbols_of(self.state, part) for part in self._walk(t.param) if isinstance(part, Function)))
            t = self.state.prune(t.result)
        known = contract.determined() | free | self._bound(scheme.type)
        missing = [s for s in scheme.dims if s not in known]
        if not missing:
            return True
        namer = Namer(self.state)
        shown = show_type(namer, scheme.type)
        label = Label(span, "a call could not tell")
        used = {s for part in self._walk(scheme.type) for s in symbols_of(self.state, part)}
        idle = [s.name for s in scheme.explicit if s not in used]
        parts = tuple(parts_bounded(span, idle, self.trail(params, (body,))))
        found = _not_found([namer.dim(s) for s in missing], (label,), f"the inferred type is {shown}", span)
        self.report(replace(found, suggestions=(*parts, *found.suggestions)))
        return False

    def _split(self, scheme: Scheme, params: tuple[T.Pattern, ...], span: Span) -> bool:
        """See that arguments tell how many dimensions each shape variable stands for."""
        known: set[Symbol] = set()
        shapes: list[tuple[Shape, int]] = []
        t: Type = scheme.type
        n = 0
        while isinstance(t, Function):
            for part in self._walk(t.param):
                if isinstance(part, Function):
                    known |= self._rows(part)
                elif isinstance(part, Tensor):
                    shapes.append((self.state.shape(part.shape), n))
            t, n = self.state.prune(t.result), n + 1
        while True:
            open_ = [(shape, n, {i.symbol for i in shape if isinstance(i, Row)} - known) for shape, n in shapes]
            told = [rows for _, _, rows in open_ if len(rows) == 1]
            if not told:
                break
            known.update(*told)
        for shape, n, rows in open_:
            if rows:
                place = params[n].span if n < len(params) else span
                self.report(errors.undetermined_split(self.state, shape, rows, place))
                return False
        return True

    def _anchored(self, scheme: Scheme, introduced: list[tuple[Symbol, Span]], body: T.Expr, span: Span) -> bool:
        """See that the body reads no size that annotations name and the signature lacks: `m` of an alias that drops it."""
        known = {*scheme.dims, *scheme.explicit, *self._bound(scheme.type)}
        loose = {s: place for s, place in introduced if s not in known and self.state.levels[s] > self.state.level}
        if not loose:
            return True
        read: set[Symbol] = set()
        for part in _as_read(body):
            read |= self.state.dimension(part).variables if isinstance(part, Dim) else set(self.state.parts(part, set()))
        missing = [s for s in loose if s in read]
        if missing:
            label = Label(loose[missing[0]], "nothing that is passed has this size")
            shown = show_type(Namer(self.state), scheme.type)
            self.report(_not_found([s.name for s in missing], (label,), f"the inferred type is {shown}", span))
        return not missing


def _as_read(root: object) -> Iterator[Dim | Type]:
    """The sizes and types in a typed expression."""
    stack = [root]
    while stack:
        match stack.pop():
            case T.Instance(dims=dims):
                yield from dims.values()
            case tuple() as items:
                stack += items
            case T.Node() | T.Val() | T.Fun() | T.At() | T.Slice() | T.Indices() as node:
                stack += [getattr(node, f.name) for f in fields(node)]
            case Dim() as dim:
                yield dim
            case Tensor() | Function() | TupleType() | RecordType() | Exists() | TypeVar() as t:
                yield t
            case _:
                pass


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


def _not_found(names: list[str], labels: tuple[Label, ...], note: str, function: Span) -> Diagnostic:
    """AX0306: sizes of a function that its arguments do not tell."""
    listed = ", ".join(f"`{n}`" for n in names)
    message = f"the size{'s' * (len(names) > 1)} {listed} cannot be found from the arguments"
    return Diagnostic("AX0306", message, labels, (note,), tuple(_as_parameters(names, function)))


def _as_parameters(names: list[str], function: Span) -> Iterable[Suggestion]:
    """Dimension parameters for sizes that no argument tells: one of them, else all."""
    for chosen in dict.fromkeys([*((n,) for n in names), tuple(names)]):
        listed = ", ".join(chosen)
        text = f"make {'it a dimension parameter' if len(chosen) == 1 else 'them parameters'}: `{{{listed}}}`"
        yield Suggestion(text, (parameter_edit(function, listed),))


def _parameter_shape(trail: Trail, state: State, t: Type, parameter: int) -> Shape | None:
    """The shape of a parameter of a function that takes a tensor there."""
    for n in range(parameter + 1):
        t = state.prune(t)
        if not isinstance(t, Function):
            return None
        t = t.param if n == parameter else t.result
    return trail.shape(t)


def _why(reason: Reason) -> str:
    """Why a fact is needed, with `{}` for the fact in words that need it."""
    if "{}" in reason.text or reason.text == "stated here":
        return reason.text
    return f"{reason.text}: here {{}}" if " needs " in reason.text else f"{reason.text}: it needs {{}}"


_PREFERENCE = [Element.F32, *Element]


def _fits(value: int, element: Element) -> bool:
    low, high = (0, 255) if element is Element.U8 else (-(2 ** (element.bits - 1)), 2 ** (element.bits - 1) - 1)
    return low <= value <= high
