"""Generalization: what a declaration collected is settled, and its type becomes a scheme."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from axon.base.data import dataclass, fields, replace
from axon.base.element import FLOAT, Element, usual
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Problem, Reason
from axon.shapes.contracts.contract import Contract, ContractFact, ParameterShape, not_implied
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import Relation
from axon.shapes.solving.named import never_equal
from axon.shapes.solving.settle import Outcome, settle, simpler
from axon.types import typed as T
from axon.types.inference import Body, Inference, as_written, too_complex, wrong
from axon.types.literals import of_outer, of_scheme
from axon.types.show import dimension_names, symbols_of
from axon.types.solve import settle_types
from axon.types.trouble import (
    ImpossibleCoercion,
    LiteralTooLarge,
    ManySplits,
    NoDerivativeOf,
    Rule,
    RuleBroken,
    Unanchored,
    Undetermined,
    UndeterminedSplit,
    UnknownSize,
    Unsettled,
)
from axon.types.type import (
    POISON,
    Derivative,
    ElementVar,
    Exists,
    Function,
    Poison,
    RecordType,
    Row,
    Scheme,
    SchemeFact,
    Shape,
    Tensor,
    TupleType,
    Type,
    TypeVar,
)
from axon.types.undetermined import of_tensors, read
from axon.types.unify import Mismatch, State, subtypes


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
    wanted: int
    divided: int
    derivatives: int


# ── generalization ──────────────────────────────────────────────────────────────────────────────────────────────────────


def enter(inf: Inference) -> _Mark:
    s = inf.state
    s.level += 1
    return _Mark(
        len(inf.diagnostics), len(inf.deferred), len(s.equals), len(s.stretches), len(s.ranges), len(s.uses),
        len(s.obligations), len(s.nonempty), len(s.flexible_dims), len(inf.literals), len(s.flexible_elements),
        inf.consequences, len(inf.closures), inf.opened, len(inf.introduced), len(inf.wanted),
        len(inf.divided), len(inf.derivatives),
    )  # fmt: skip


def generalize(
    inf: Inference, mark: _Mark, t: Type, explicit: tuple[Symbol, ...], facts: list[tuple[Relation, Span]], span: Span,
    heading: S.Fun | None, keep_functions: bool, params: tuple[T.Pattern, ...], body: T.Expr,
) -> tuple[Scheme, bool]:  # fmt: skip
    """Settle what a declaration collected and quantify over what is its own; says whether it is free of errors."""
    level = inf.state.level
    try:
        return _quantified(inf, mark, t, explicit, facts, span, heading, keep_functions, params, body)
    except DimensionTooLarge:
        _drop(inf.state, mark)
        del inf.literals[mark.literals :]
        inf.state.level, inf.state.overflowed = level - 1, True
        too_complex(inf, span)
        return Scheme(POISON), False


def _quantified(
    inf: Inference, mark: _Mark, t: Type, explicit: tuple[Symbol, ...], facts: list[tuple[Relation, Span]], span: Span,
    heading: S.Fun | None, keep_functions: bool, params: tuple[T.Pattern, ...], body: T.Expr,
) -> tuple[Scheme, bool]:  # fmt: skip
    state = inf.state
    settle_types(inf, mark.deferred)
    inf.derivatives[mark.derivatives :] = [open_ for d in inf.derivatives[mark.derivatives :] for open_ in _floats(inf, d)]
    if state.level == 1:
        inf.ended.clear()
        for passing in (inf.applied, inf.bodies, inf.operands, inf.runs, inf.leaves, inf.made_at, inf.local):
            passing.clear()
        inf.private.clear()
        open_: set[Symbol] = set()
        for left, right, reason in state.row_equations:
            rows = {i.symbol for i in (*state.shape(left), *state.shape(right)) if isinstance(i, Row)}
            if open_.isdisjoint(rows):  # else it is the same question
                wrong(inf, ManySplits(left, right, reason))
            open_ |= rows
        state.row_equations.clear()
    _default_elements(inf, mark, t, keep_functions)
    broken = inf.consequences > mark.consequences or _failed(inf, mark)
    outcome, problem = _settle_sizes(inf, mark, t if keep_functions else None, facts, body.span)
    if not broken:
        known = (*(r for r, _ in problem.assumed), *(r for r, _ in outcome.contract))
        _judge_coercions(inf, (Relation(problem.resolve(r.left), r.op, problem.resolve(r.right)) for r in known))
    if state.level == 1:  # until then a declaration around may say more of their sizes
        inf.coercions.clear()
        inf.named.clear()
    if outcome.troubles and not broken:  # sizes that follow from wrong types say nothing new
        wrong(inf, Unsettled(outcome, problem, heading, t, params, body))
    state.level -= 1
    ok = not broken and not _failed(inf, mark)
    if ok:
        ok = _kept_inside(inf, mark, t, span)
    introduced = inf.introduced[mark.introduced :]
    del inf.closures[mark.closures :], inf.introduced[mark.introduced :]
    if state.level == 0 and not ok:
        inf.wanted.clear()
    kept = tuple(SchemeFact(r, _why(reason), reason.span) for r, reason in outcome.contract)
    t = as_written(inf, t)
    scheme = quantify(inf.state, t, explicit, kept if ok else ())
    if state.level == 0:
        inf.like.clear()
    waiting = inf.literals[mark.literals :]
    divided = {e.symbol for e in map(state.element, inf.divided[mark.divided :]) if isinstance(e, ElementVar)}
    divides = frozenset(s for s, _ in scheme.elements if s in divided)
    if state.level == 0:
        inf.divided.clear()
    pending, own = inf.derivatives[mark.derivatives :], set(scheme.types)
    differentiable = frozenset(d.type.symbol for d in pending if isinstance(d.type, TypeVar) and d.type.symbol in own)
    inf.derivatives[mark.derivatives :] = [d for d in pending if state.level and not own.intersection(state.parts(d.type, set()))]
    scheme = replace(scheme, literals=of_scheme(waiting, scheme.elements), divides=divides, differentiable=differentiable)
    inf.literals[mark.literals :] = of_outer(waiting, scheme.elements) if state.level > 0 else ()
    contract = contract_of(inf.state, scheme)
    if ok:
        ok = _determined(inf, scheme, contract, span, params, body) and _anchored(inf, scheme, introduced, body, span)
        ok = ok and (state.level > 0 or _split(inf, scheme, params, span))
    if ok:
        scheme, ok = _given_values(inf, scheme, problem, outcome, mark, body)
    if ok:
        found = tuple(SchemeFact(r, f"`{symbol.name}` is found by division: {{}}", None) for symbol, r in contract.needs())
        by_division = {fact.relation for fact in found}
        text = "what divides in a parameter's size is at least 1: {}"
        found += tuple(SchemeFact(r, text, None) for r in contract.divides() if r not in by_division)
        say = frozenset(not_implied([fact.relation for fact in scheme.facts], [fact.relation for fact in found]))
        scheme = replace(scheme, facts=(*(fact for fact in scheme.facts if fact.relation in say), *found))
    if scheme.facts:
        scheme = replace(scheme, names=dimension_names(state, scheme))
    if ok and (params or explicit):
        name = inf.defining[-1] if inf.defining else ""
        kept_body = Body(inf, name, state.level == 0, t, explicit, params, body, outcome.equals, problem.flexible)
        scheme = replace(scheme, definition=kept_body)
    return replace(scheme, opens=keep_functions and inf.opened > mark.opened), ok


def _kept_inside(inf: Inference, mark: _Mark, t: Type, span: Span) -> bool:
    """See that no size that one call of a function decides is part of the function's type, nor of a parameter's."""
    leaves = [place for f, own, place in inf.closures[mark.closures :] if set(own) & _free(inf.state, f)]
    while inf.state.data_sizes and isinstance(t := inf.state.prune(t), Function):
        if {s for s in _free(inf.state, t.param) if s in inf.state.data_sizes and inf.state.levels[s] > inf.state.level}:
            leaves.append(span)
        t = t.result
    for place in leaves[:1]:
        wrong(inf, RuleBroken(Rule.OPENED_LEAVES, place))
    return not leaves


def _free(state: State, t: Type) -> set[Symbol]:
    return set(state.parts(t, set())) - _bound(subtypes(state, t))


def _failed(inf: Inference, mark: _Mark) -> bool:
    return any(d.severity == "error" for d in inf.diagnostics[mark.errors :])


def _judge_coercions(inf: Inference, stated: Iterable[Relation]) -> None:
    """A coercion between sizes that are equal for no sizes, or only for some that are 0, is an error here, not at run time."""
    known = tuple(stated)
    for coercion in tuple(inf.coercions):
        value, t, span = coercion
        have, want = inf.state.zonk(value), inf.state.zonk(t)
        if not isinstance(have, Tensor) or not isinstance(want, Tensor):
            continue
        for n, (a, b) in enumerate(zip(have.shape, want.shape, strict=False), 1):
            why = never_equal(a, b, known) if isinstance(a, Dim) and isinstance(b, Dim) else None
            if why is not None and isinstance(a, Dim) and isinstance(b, Dim):
                wrong(inf, ImpossibleCoercion(span, n, a, b, why == "never"))
                inf.coercions.remove(coercion)
                break


def _default_elements(inf: Inference, mark: _Mark, t: Type, keep: bool) -> None:
    """Element types that no parameter mentions get their defaults: f32 for floats, i32 for other numbers."""
    state = inf.state
    mine = (s for s in state.flexible_elements[mark.elements :] if s not in state.elements and state.levels[s] >= state.level)
    open_ = [s for s in mine if s not in state.rigid and s not in state.generic]
    of_params: set[Symbol] = set()
    rest = state.prune(t)
    while open_ and keep and isinstance(rest, Function):
        of_params |= set(state.parts(rest.param, set()))
        rest = state.prune(rest.result)
    for symbol in open_:
        if symbol in of_params:
            continue
        allowed = state.allowed[symbol]
        state.elements[symbol] = Element.I32 if Element.I32 in allowed else usual(allowed)
    _judge_literals(inf, mark)
    if state.level == 1:
        state.flexible_elements.clear()


def _judge_literals(inf: Inference, mark: _Mark) -> None:
    """Literals whose types are known now must fit; the others wait for the declaration around, or for uses of this one."""
    found = [replace(literal, element=inf.state.element(literal.element)) for literal in inf.literals[mark.literals :]]
    inf.literals[mark.literals :] = [literal for literal in found if not isinstance(literal.element, Element)]
    uses: set[Span] = set()  # one mistake gives one error
    for literal in found:
        element, use = literal.element, literal.use
        if isinstance(element, Element) and not element.holds(literal.value) and use not in uses:
            wrong(inf, LiteralTooLarge(literal, element))
            uses |= {use} if use is not None else set()


def _settle_sizes(
    inf: Inference, mark: _Mark, t: Type | None, facts: list[tuple[Relation, Span]], span: Span
) -> tuple[Outcome, Problem]:  # fmt: skip
    s = inf.state
    level = s.level
    flexible = tuple(f for f in s.flexible_dims if f not in s.dims and s.levels[f] >= level)
    flexible = tuple(sorted(flexible, key=lambda f: f not in s.named_dims))
    outer = frozenset(f for f in s.flexible_dims if f not in s.dims and s.levels[f] < level) if level > 1 else frozenset()
    if level > 1:
        outer |= frozenset(r for r in s.rigid if s.levels.get(r, 0) < level)
    owed = [o for element, o in s.nonempty[mark.nonempty :] if not _is_float(inf.state, element)]
    assumed = [(r, Reason(span, "stated here")) for r, span in facts]
    nowhere = Reason(_somewhere(facts), "")
    assumed += [(b, nowhere) for bounds in s.data_sizes.values() for b in bounds]
    problem = Problem(
        tuple(s.equals[mark.equals :]), tuple(s.stretches[mark.stretches :]), tuple(s.ranges[mark.ranges :]),
        tuple(s.uses[mark.uses :]), (*s.obligations[mark.obligations :], *owed), tuple(assumed), flexible, outer,
        frozenset(s.data_sizes), s.dimension, _own_sizes(inf.state, t), frozenset(s.loose_dims).intersection(flexible),
        frozenset(s.quotient_dims).intersection(flexible),
        *(_in_calls(inf.state, t, span) if level == 1 else ((), ())), inf.explains,
    )  # fmt: skip
    outcome = settle(problem)
    _drop(inf.state, mark)
    s.dims.update(outcome.solved)
    for own in inf.opened_names:
        size = s.dimension(Dim.of(own)).symbol
        if size in s.data_sizes:
            s.called.setdefault(size, own.name)
    s.equals.extend(outcome.floating)
    s.obligations.extend(outcome.owed)
    if level == 1:
        s.flexible_dims.clear()
        inf.opened_names.clear()
    return outcome, problem


def _drop(state: State, mark: _Mark) -> None:
    """Forget the constraints of a declaration."""
    s = state
    del s.equals[mark.equals :], s.stretches[mark.stretches :], s.ranges[mark.ranges :], s.uses[mark.uses :]
    del s.obligations[mark.obligations :], s.nonempty[mark.nonempty :]


def _own_sizes(state: State, t: Type | None) -> frozenset[Symbol]:
    """The sizes that parameters of a function have by themselves, of which its signature speaks where it can."""
    found: set[Symbol] = set()
    while t is not None and isinstance(t := state.prune(t), Function):
        tensors = (part for part in subtypes(state, t.param) if isinstance(part, Tensor))
        items = (item for tensor in tensors for item in state.shape(tensor.shape))
        found.update(item.symbol for item in items if isinstance(item, Dim) and item.symbol is not None)
        t = t.result
    return frozenset(found)


def _in_calls(state: State, t: Type | None, span: Span) -> tuple[tuple[Dim, ...], tuple[tuple[Dim, Span], ...]]:
    """The sizes of a function's parameters and those of its result, which its body makes, as far as arithmetic makes them."""
    passed: list[Dim] = []
    while t is not None and isinstance(t := state.prune(t), Function):
        passed += _sizes(state, t.param)
        t = t.result
    return tuple(passed), tuple((size, span) for size in (_sizes(state, t) if t is not None else ()))


def _sizes(state: State, t: Type) -> list[Dim]:
    tensors = (part for part in subtypes(state, t) if isinstance(part, Tensor))
    return list(dict.fromkeys(i for tensor in tensors for i in state.shape(tensor.shape) if isinstance(i, Dim)))


def _is_float(state: State, element: Element | ElementVar) -> bool:
    return all(e.is_float for e in state.allowed_of(element))


def _somewhere(facts: list[tuple[Relation, Span]]) -> Span:
    from axon.base.source import SourceFile

    return facts[0][1] if facts else SourceFile("", "").span()


def _floats(inf: Inference, derivative: Derivative) -> Iterator[Derivative]:
    """See that a type is differentiable, as far as it is known; gives what is left to ask of it."""
    waiting: list[tuple[Type, str]] = [(derivative.type, "")]
    while waiting:
        t, path = waiting.pop()
        match t := inf.state.prune(t):
            case Tensor(element):
                try:
                    inf.state.narrow(element, FLOAT)
                except Mismatch:
                    wrong(inf, NoDerivativeOf(derivative, path, t))
            case TupleType(items):
                waiting += [(item, f"{path}.{n}") for n, item in enumerate(items, 1)]
            case RecordType(fields):
                waiting += [(field, f"{path}.{name}") for name, field in fields]
            case TypeVar():
                yield replace(derivative, type=t)
            case Exists(_, _, body):
                waiting.append((body, path))
            case Function():
                wrong(inf, NoDerivativeOf(derivative, path, t))
            case Poison():
                pass


def quantify(state: State, t: Type, explicit: tuple[Symbol, ...], facts: tuple[SchemeFact, ...]) -> Scheme:
    t = _simpler(state, _close(state, state.zonk(t)), tuple(f.relation for f in facts))
    types: dict[Symbol, None] = {}
    elements: dict[Symbol, frozenset[Element]] = {}
    rows: dict[Symbol, None] = {}
    dims: dict[Symbol, None] = {}
    mine = [s for s in state.parts(t, set()) if state.levels.get(s, 0) > state.level]
    mine += [s for f in facts for s in f.relation.variables if state.levels.get(s, 0) > state.level]
    mine.sort(key=lambda s: s.id)  # sets of symbols have no order of their own that is the same in every process
    parts = subtypes(state, t)
    rowset, bound = _rows(state, parts), _bound(parts)
    type_vars = {x.symbol for x in parts if isinstance(x, TypeVar)}
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
    factors, quotients = _factors(state, parts, frozenset(explicit))
    loose = frozenset(dims) & (state.loose_dims | factors) - _own_sizes(state, t)
    return Scheme(
        t, tuple(types), tuple(elements.items()), tuple(rows), tuple(dims), explicit, facts,
        loose=loose, quotients=quotients.intersection(dims),
    )  # fmt: skip


def _factors(state: State, parts: Sequence[Type], explicit: frozenset[Symbol]) -> tuple[frozenset[Symbol], frozenset[Symbol]]:
    """The sizes that products in a type's sizes have as factors, and those of them that stand beside an explicit one."""
    tensors = (part for part in parts if isinstance(part, Tensor))
    sizes = (item for tensor in tensors for item in state.shape(tensor.shape) if isinstance(item, Dim))
    products = [frozenset(a for a in m if isinstance(a, Symbol)) for size in sizes for m in size.mapping if len(m) > 1]
    beside = (product for product in products if product & explicit)
    return frozenset[Symbol]().union(*products), frozenset[Symbol]().union(*beside)


def _simpler(state: State, t: Type, facts: tuple[Relation, ...]) -> Type:
    """The type with its results' sizes as short as the facts allow; those of parameters stay as they are written."""
    if isinstance(t, Function):
        return Function(t.param, _simpler(state, t.result, facts))
    if isinstance(t, Tensor):
        shape = tuple(simpler(i, facts) if isinstance(i, Dim) else i for i in state.shape(t.shape))
        return Tensor(t.element, shape)
    if isinstance(t, TupleType):
        return TupleType(tuple(_simpler(state, i, facts) for i in t.items))
    if isinstance(t, RecordType):
        return t.map(lambda part: _simpler(state, part, facts))
    return t


def _close(state: State, t: Type) -> Type:
    """Put sizes that only the data decide, which a result mentions, under `?k`."""
    if isinstance(t, Function):
        return Function(t.param, _close(state, t.result))
    free = [s for s in symbols_of(state, t) if s in state.data_sizes and state.levels.get(s, 0) > state.level]
    for symbol in sorted(free, key=lambda s: s.id, reverse=True):  # a bound mentions what was opened before
        if symbol not in _bound(subtypes(state, t)):
            t = Exists(symbol, _bounds(state, symbol, free), t)
    return t


def _bounds(state: State, symbol: Symbol, shown: list[Symbol]) -> tuple[Relation, ...]:
    """`k <= …` in sizes that can be named outside: one of the data's that the type does not show gives way to its own bound."""
    sizes = state.data_sizes
    limit = state.dimension(sizes[symbol][0].right) if sizes[symbol] else None
    while limit is not None and (hidden := min(limit.variables.intersection(sizes).difference(shown), key=_age, default=None)):
        split = limit.linear_in(hidden)
        grows = split is not None and split[0].constant is not None and split[0].constant > 0
        limit = state.dimension(limit.substitute({hidden: sizes[hidden][0].right})) if grows and sizes[hidden] else None
    return () if limit is None else (Relation(Dim.of(symbol), "<=", limit),)


def _rows(state: State, parts: Iterable[Type]) -> set[Symbol]:
    tensors = (x for x in parts if isinstance(x, Tensor))
    return {i.symbol for x in tensors for i in state.shape(x.shape) if isinstance(i, Row)}


def _bound(parts: Iterable[Type]) -> set[Symbol]:
    return {x.symbol for x in parts if isinstance(x, Exists)}


def contract_of(state: State, scheme: Scheme) -> Contract:
    """What the arguments say of the sizes: those of the declaration around are given."""
    shapes: list[ParameterShape] = []
    t: Type = scheme.type
    while isinstance(t, Function):
        tensors = (part for part in subtypes(state, t.param) if isinstance(part, Tensor))
        shapes += [ParameterShape("", tuple(i for i in state.shape(x.shape) if isinstance(i, Dim))) for x in tensors]
        t = state.prune(t.result)
    mentioned = (s for d in shapes for i in d.dims for s in sorted(i.variables, key=_age))
    outer = [s for s in mentioned if state.levels.get(s, 0) <= state.level]
    given = tuple(dict.fromkeys((*scheme.explicit, *outer)))
    return Contract(given, tuple(shapes), tuple(ContractFact(f.relation, f.why) for f in scheme.facts))


def _determined(
    inf: Inference, scheme: Scheme, contract: Contract, span: Span, params: tuple[T.Pattern, ...], body: T.Expr
) -> bool:
    """See that every size of a signature can be found from the arguments."""
    free: set[Symbol] = set()
    t: Type = scheme.type
    while isinstance(t, Function):
        free.update(*(symbols_of(inf.state, part) for part in subtypes(inf.state, t.param) if isinstance(part, Function)))
        t = inf.state.prune(t.result)
    known = contract.determined() | free | _bound(subtypes(inf.state, scheme.type))
    missing = [s for s in scheme.dims if s not in known]
    if not missing:
        return True
    wrong(inf, Undetermined(tuple(missing), scheme, span, params, body))
    return False


def _split(inf: Inference, scheme: Scheme, params: tuple[T.Pattern, ...], span: Span) -> bool:
    """See that arguments tell how many dimensions each shape variable stands for."""
    known: set[Symbol] = set()
    shapes: list[tuple[Shape, int]] = []
    t: Type = scheme.type
    n = 0
    while isinstance(t, Function):
        for part in subtypes(inf.state, t.param):
            if isinstance(part, Function):
                known |= _rows(inf.state, subtypes(inf.state, part))
            elif isinstance(part, Tensor):
                shapes.append((inf.state.shape(part.shape), n))
        t, n = inf.state.prune(t.result), n + 1
    while True:
        open_ = [(shape, n, {i.symbol for i in shape if isinstance(i, Row)} - known) for shape, n in shapes]
        told = [rows for _, _, rows in open_ if len(rows) == 1]
        if not told:
            break
        known.update(*told)
    for shape, n, rows in open_:
        if rows:
            place = params[n].span if n < len(params) else span
            wrong(inf, UndeterminedSplit(shape, frozenset(rows), place))
            return False
    return True


def _anchored(inf: Inference, scheme: Scheme, introduced: list[tuple[Symbol, Span]], body: T.Expr, span: Span) -> bool:
    """See that the body reads no size that annotations name and the signature lacks: `m` of an alias that drops it."""
    known = {*scheme.dims, *scheme.explicit}
    loose = {s: place for s, place in introduced if s not in known and inf.state.levels[s] > inf.state.level}
    bound = _bound(subtypes(inf.state, scheme.type)) if loose else set[Symbol]()
    loose = {s: place for s, place in loose.items() if s not in bound}
    if not loose:
        return True
    read: set[Symbol] = set()
    for part in _as_read(body):
        read |= inf.state.dimension(part).variables if isinstance(part, Dim) else set(inf.state.parts(part, set()))
    missing = [s for s in loose if s in read]
    if missing:
        wrong(inf, Unanchored(tuple(missing), scheme, loose[missing[0]], span))
    return not missing


def _given_values(
    inf: Inference, scheme: Scheme, problem: Problem, outcome: Outcome, mark: _Mark, body: T.Expr
) -> tuple[Scheme, bool]:
    """See that whatever size the body reads has a value: by what is passed, or, of a function that is passed, at each use."""
    state = inf.state
    passed = set(scheme.dims)
    t: Type = scheme.type
    while isinstance(t, Function):
        passed -= of_tensors(state, t.param)
        t = state.prune(t.result)
    open_ = set(problem.flexible) - outcome.solved.keys() - state.generic if state.level == 0 else set[Symbol]()
    for e in outcome.equals if open_ else ():  # left alone, since its condition never holds
        left, right = state.dimension(e.left), state.dimension(e.right)
        open_ -= (left - right).variables
    if not passed and not open_:
        _forget(inf, mark)
        return scheme, True
    found: dict[Symbol, tuple[Span, str, str]] = {}  # where it is read, of which function, and how it is called there
    for dim, at, name, size in inf.wanted[mark.wanted :]:
        for s in sorted(state.dimension(dim).variables, key=lambda s: s.id):
            found.setdefault(s, (at, name, size))
    for s, at in read(state, body).items():
        found.setdefault(s, (at, "", s.name))
    _forget(inf, mark)
    for s, (at, function, name) in found.items():
        if s in open_:
            named = tuple(place for dim, place in inf.origins if state.dimension(dim).symbol == s and place != at)
            wrong(inf, UnknownSize(name, at, function, named))
            return scheme, False
    return replace(scheme, read=frozenset(found.keys() & passed)), True


def _forget(inf: Inference, mark: _Mark) -> None:
    """What is wanted is the business of the declaration around, too, as long as there is one."""
    if inf.state.level == 0:
        del inf.wanted[mark.wanted :]


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


def _why(reason: Reason) -> str:
    """Why a fact is needed, with `{}` for the fact in words that need it."""
    if "{}" in reason.text or reason.text == "stated here":
        return reason.text
    return f"{reason.text}: here {{}}" if " needs " in reason.text else f"{reason.text}: it needs {{}}"


def _age(symbol: Symbol) -> int:
    """Sets of symbols have no order of their own that is the same in every process."""
    return symbol.id
