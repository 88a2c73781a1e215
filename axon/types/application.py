"""Applications: a function and its arguments, pointwise functions, functions of scalars that lift, sizes that a call opens, and
functions at every leaf of records and tuples.

Note [Leaves]
    The function is no value here but an expression, which is inferred at every leaf anew: so it may be used at another element type
    and another shape there, as a function that `let fun` binds may be. What comes out are the records, tuples and applications that
    one would write by hand: nothing behind inference knows of leaves.

    What is known of the first value's type decides where the leaves are, which are its tensors. A value of which nothing is known
    takes the structure of the others; one that goes on below a leaf of the first is given to the function as it is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.base.data import replace
from axon.base.names import fresh
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason, Side
from axon.types import builtins
from axon.types import typed as T
from axon.types.constraint import Lift, Spread, SpreadArgument
from axon.types.inference import Env, Inference, alike, as_tensor, broken, clash, infer, narrow, operand_type, unify, wrong
from axon.types.names import infer_variable, member_of, open_size
from axon.types.operators import arithmetic, elementwise
from axon.types.patterns import bind_pattern
from axon.types.resolve import BuiltinName, ValueName
from axon.types.solve import defer, settle_members, spread
from axon.types.symbolic import unfolded
from axon.types.trouble import (
    Argument,
    DimsWrong,
    Mismatched,
    NotAFunction,
    Rule,
    RuleBroken,
    StoredFunction,
    StructuresDiffer,
    UnknownStructure,
)
from axon.types.type import (
    POISON,
    Exists,
    Function,
    OrScalar,
    Poison,
    RecordType,
    Row,
    Tensor,
    TupleType,
    Type,
    TypeVar,
    function,
    parameters,
    scalar,
)
from axon.types.unify import State, subtypes

_OPERATORS = {name: (allowed, gives_bool) for name, allowed, gives_bool in builtins.OPERATORS.values()}


# ── application ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def infer_application(inf: Inference, env: Env, e: S.Apply | S.ApplyDims) -> T.Expr:
    """A function with all the arguments that stand after it."""
    arguments: list[S.Expr] = []
    head: S.Expr = e
    while isinstance(head, S.Apply):
        arguments.append(head.argument)
        head = head.function
    arguments.reverse()
    if isinstance(head, S.Var) and head.name in builtins.OVER_LEAVES and isinstance(env.scope.value(head.name), BuiltinName):
        return _over_leaves(inf, env, head, arguments, e.span)
    if isinstance(head, S.ApplyDims):
        f = _with_dims(inf, env, head)
    else:
        f = infer(inf, env, head)
    if not arguments:
        return f
    values = _differentiated(inf, env, f, arguments) or [_passed(inf, env, infer(inf, env, a)) for a in arguments]
    left = len(_parameters(inf, f)) - len(values)
    return _call(inf, env, f, values, e.span, head.span.excerpt) if left <= 0 else _completed(inf, env, f, values, e.span)


def _differentiated(inf: Inference, env: Env, f: T.Expr, arguments: Sequence[S.Expr]) -> list[T.Expr]:
    """The arguments of `grad` and its like, where the first is a `fn`: what it is applied to says the type of its parameter."""
    place = builtins.DERIVATIVES.get(f.name, 0) if isinstance(f, T.Builtin) else 0
    if not place or len(arguments) <= place or not isinstance(arguments[0], S.Fn):
        return []
    written = arguments[0]
    x = _passed(inf, env, infer(inf, env, arguments[place]))
    scope = env.scope.child()
    seen: dict[str, Span] = {}
    types = (x.type, *(inf.state.type_var() for _ in written.params[1:]))
    patterns = tuple(bind_pattern(inf, scope, p, t, seen) for p, t in zip(written.params, types, strict=True))
    inner = infer(inf, env.within(scope), written.body)
    made = T.Fn(patterns, inner, type=function(types, inner.type), span=written.span)
    rest = {n: _passed(inf, env, infer(inf, env, a)) for n, a in enumerate(arguments) if n not in (0, place)}
    return [{**rest, 0: made, place: x}[n] for n in range(len(arguments))]


def _parameters(inf: Inference, f: T.Expr) -> tuple[Type, ...]:
    """Those of a function for some of which a scalar will do; none of another one."""
    return parameters(f.type) if isinstance(f, T.Variable) and f.symbol in inf.scalars else ()


def _passed(inf: Inference, env: Env, value: T.Expr) -> T.Expr:
    """What is passed: of a function for some of whose parameters a scalar will do, one that takes what it will be given."""
    return _completed(inf, env, value, [], value.span) if _parameters(inf, value) else value


def _completed(inf: Inference, env: Env, f: T.Expr, given: list[T.Expr], span: Span) -> T.Expr:
    """`fn x y => f a x y` for an `f a` that takes more: for each of these, too, a scalar will do, as whoever applies it decides."""
    decls, given = _named(given)
    marked = {n for group in inf.scalars[f.symbol] for n in group.parameters} if isinstance(f, T.Variable) else set[int]()
    rest: list[T.PatternName] = []
    for n, param in enumerate(_parameters(inf, f)[len(given) :], len(given)):
        t = Tensor(param.element, (inf.state.row(),)) if n in marked and isinstance(param, Tensor) else param
        rest.append(T.PatternName(fresh("x"), type=t, span=_before(span)))
    values = [T.Variable(p.symbol, None, type=p.type, span=p.span) for p in rest]
    body = _call(inf, env, f, [*given, *values], span, f.span.excerpt)
    made = T.Fn(tuple(rest), body, type=function(tuple(p.type for p in rest), body.type), span=span)
    return T.Let(decls, made, type=made.type, span=span) if decls else made


def _with_dims(inf: Inference, env: Env, e: S.ApplyDims) -> T.Expr:
    match e.function:
        case S.Var():
            return infer_variable(inf, env, e.function, e.dims, e.span)
        case S.Field() if (member := member_of(inf, env, e.function, e.dims, e.span)) is not None:
            return member
        case _:
            function = infer(inf, env, e.function)
            if not isinstance(inf.state.prune(function.type), Poison):
                wrong(inf, DimsWrong(e.function.span.excerpt, (), len(e.dims), e.span))
            return broken(e.span)


def _call(inf: Inference, env: Env, f: T.Expr, arguments: list[T.Expr], span: Span, name: str) -> T.Expr:
    pointwise = _pointwise(inf, env, f, arguments, span)
    if pointwise is not None:
        return pointwise
    groups = _or_scalar(inf, f, len(arguments))
    t = _apply(inf, f, arguments, name, env, groups)
    scalars = tuple(sorted(n for group in groups for n in group.parameters))
    applied: T.Expr = T.Call(f, tuple(arguments), scalars, type=t, span=span)
    size = unfolded(inf, applied)
    if size is not None:
        return T.Dimension(size, type=t, span=span)
    return open_size(inf, env, applied)


def _pointwise(inf: Inference, env: Env, f: T.Expr, arguments: list[T.Expr], span: Span) -> T.Expr | None:
    """Functions of the language broadcast like operators."""
    match f:
        case T.Builtin(name=name) if name in builtins.UNARY and len(arguments) == 1:
            given = arguments[0]
            t = as_tensor(inf, given.type, given.span, f"`{name}` is computed element by element", given)
            reason = Reason(arguments[0].span, f"the argument of `{name}`")
            if t is None or not narrow(inf, t, builtins.UNARY[name], reason):
                return broken(span)
            return T.Unary(name, arguments[0], type=t, span=span)
        case T.Builtin(name=name) if name in builtins.BINARY and len(arguments) == 2:
            left, right = arguments
            found = elementwise(inf, name, builtins.BINARY[name], False, left, right, f.span, span, f"`{name}`")
            if isinstance(left, T.Dimension) or isinstance(right, T.Dimension):
                return arithmetic(inf, env, name, left, right, found)
            return found
        case T.Builtin(name=name) if name in _OPERATORS and len(arguments) == 2:
            allowed, gives_bool = _OPERATORS[name]
            left, right = arguments
            return elementwise(inf, name, allowed, gives_bool, left, right, f.span, span, f"`{f.span.text}`")
    return None


def _or_scalar(inf: Inference, f: T.Expr, count: int) -> tuple[OrScalar, ...]:
    """The parameters for which a scalar will do, if a function is applied by its name to as many arguments as it takes."""
    groups = inf.scalars.get(f.symbol, ()) if isinstance(f, T.Variable) else ()
    return groups if groups and count >= len(parameters(f.type)) else ()


def _apply(
    inf: Inference, f: T.Expr, arguments: list[T.Expr], name: str, env: Env, groups: tuple[OrScalar, ...]
) -> Type:  # fmt: skip
    t = inf.state.prune(f.type)
    lifted = _lifted(inf, t, arguments, name, f.span, env)
    if lifted is not None:
        return lifted
    waiting: dict[int, SpreadArgument] = {}
    unknown = isinstance(t, TypeVar)  # a parameter, until something says more of it
    spoiled = any(isinstance(inf.state.prune(a.type), Poison) for a in arguments)  # and may be one too many
    for n, argument in enumerate(arguments, 1):
        t = inf.state.prune(t)
        match t:
            case Poison():
                return POISON
            case Function(param, result):
                reason = _argument_reason(argument, n, len(arguments), name, f.span)
                patterns = inf.parameters.get(f.symbol, ()) if isinstance(f, T.Variable) else ()
                meant = Argument(f, tuple(arguments), n - 1, param, name, patterns)
                given = _tensor(inf, argument.type, reason) if any(n - 1 in group.parameters for group in groups) else None
                if given is not None and isinstance(param, Tensor):  # its shape is decided when those of the others are known
                    found = clash(inf, scalar(given.element), scalar(param.element), reason)
                    waiting[n - 1] = SpreadArgument(given.shape, reason, meant)
                else:
                    found = clash(inf, argument.type, param, reason)
                if found is not None:
                    if not spoiled:
                        wrong(inf, Mismatched(found, argument.type, param, reason, meant))
                    return POISON
                t = result
            case TypeVar():
                result = inf.state.type_var()
                if not unify(inf, t, Function(argument.type, result), Reason(f.span, "applied here")):
                    return POISON
                t = result
            case _:
                if not spoiled:
                    wrong(inf, NotAFunction(t, f.span, argument.span, n - 1))
                return POISON
    if unknown:
        inf.applied.append((tuple(a.type for a in arguments), t))
    given_all = [_spread(inf, waiting, group) for group in groups]
    return t if all(given_all) else POISON


def _spread(inf: Inference, waiting: dict[int, SpreadArgument], group: OrScalar) -> bool:
    """Decide, now or later, which arguments of a group are scalars; False after a report."""
    arguments = tuple(waiting[n] for n in group.parameters if n in waiting)
    param = arguments[0].meant.param if arguments else POISON
    if not isinstance(param, Tensor):
        return True
    left, fits = spread(inf, Spread(param.shape, arguments, group.told or len(arguments) < len(group.parameters)))
    if left is not None:
        inf.deferred.append(left)
    return fits


def _tensor(inf: Inference, t: Type, reason: Reason) -> Tensor | None:
    """A type as a tensor's, made one if nothing is known of it."""
    t = inf.state.prune(t)
    if isinstance(t, TypeVar) and t.symbol not in inf.state.rigid:
        new = operand_type(inf)
        inf.state.unify(t, new, reason)
        return new
    return t if isinstance(t, Tensor) else None


def _argument_reason(argument: T.Expr, n: int, count: int, name: str, function: Span) -> Reason:
    which = "the argument" if count == 1 else f"argument {n}"
    sides = (Side(argument.span, "this has {}"), Side(function, f"`{name}` takes {{}}"))
    return Reason(argument.span, f"{which} of `{name}`", sides)


def _lifted(inf: Inference, t: Type, arguments: list[T.Expr], name: str, function: Span, env: Env) -> Type | None:
    """The type of a function of scalars applied to what may be tensors; None if the function is not one of scalars."""
    params: list[Type] = []
    result: Type = t
    for _ in arguments:
        result = inf.state.prune(result)
        if not isinstance(result, Function) or not _is_scalar(inf.state, result.param):
            return None
        params.append(result.param)
        result = result.result
    if not _is_scalars(inf.state, result) or all(_is_scalar(inf.state, a.type) for a in arguments):
        return None
    out: Type = inf.state.type_var()
    reasons = tuple(_argument_reason(a, n, len(arguments), name, function) for n, a in enumerate(arguments, 1))
    defer(inf, Lift(tuple(params), result, tuple(a.type for a in arguments), out, reasons, env.context))
    return out


def _is_scalar(state: State, t: Type) -> bool:
    t = state.prune(t)
    return isinstance(t, Tensor) and not state.shape(t.shape)


def _is_scalars(state: State, t: Type) -> bool:
    t = state.prune(t)
    match t:
        case TupleType(items):
            return bool(items) and all(_is_scalars(state, i) for i in items)
        case RecordType(fields):
            return all(_is_scalars(state, f) for _, f in fields)
        case _:
            return _is_scalar(state, t)


# ── leaves ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Broken(Exception):
    """Something is wrong, and has been said."""


def _over_leaves(inf: Inference, env: Env, head: S.Var, arguments: Sequence[S.Expr], span: Span) -> T.Expr:
    """`each` and `fold_leaves`: see Note [Leaves]."""
    folds = head.name == "fold_leaves"
    monoid = arguments[0] if folds and arguments else None
    if folds and not (isinstance(monoid, S.Tuple) and len(monoid.items) == 2):
        wrong(inf, RuleBroken(Rule.FOLD_OF, monoid.span if monoid is not None else head.span))
        return broken(span)
    rest = arguments[folds:]
    if len(rest) < 2:
        wrong(inf, RuleBroken(Rule.LEAVES_OF_NOTHING, head.span, (head.name, builtins.OVER_LEAVES[head.name])))
        return broken(span)
    values = [infer(inf, env, value) for value in rest[1:]]
    if any(isinstance(inf.state.prune(value.type), Poison) for value in values):
        inf.consequences += 1
        return broken(span)
    if all(isinstance(_known(inf, value.type), TypeVar) for value in values):
        wrong(inf, UnknownStructure(head.name, rest[1]))
        return broken(span)
    decls, named = _named(values)
    walk = _Leaves(inf, env, rest[0], [value.span for value in values], span)
    try:
        body = walk.at("", named)
        if isinstance(monoid, S.Tuple):
            body = walk.folded(monoid)
    except _Broken:
        return broken(span)
    return T.Let(decls, body, type=body.type, span=span) if decls else body


def _named(values: Sequence[T.Expr]) -> tuple[tuple[T.Decl, ...], list[T.Expr]]:
    """Names for values whose parts are taken: each is computed once."""
    decls: list[T.Decl] = []
    named: list[T.Expr] = []
    for value in values:
        part = value
        while isinstance(part, T.Field | T.Project):
            part = part.record if isinstance(part, T.Field) else part.value
        if isinstance(part, T.Variable | T.Literal | T.Dimension):
            named.append(value)
            continue
        symbol = fresh("whole")
        decls.append(T.Val(T.PatternName(symbol, type=value.type, span=_before(value.span)), value))
        named.append(T.Variable(symbol, None, type=value.type, span=value.span))
    return tuple(decls), named


def _before(span: Span) -> Span:
    """The place of a name that is written nowhere: nobody points at it."""
    return span.file.span(span.start, span.start)


def _at(reason: Reason, leaf: str) -> Reason:
    return reason if reason.leaf else replace(reason, leaf=leaf)


def _known(inf: Inference, t: Type) -> Type:
    """A type, with what is known by now of the record that it is taken from."""
    if isinstance(inf.state.prune(t), TypeVar):
        settle_members(inf)
    return inf.state.prune(t)


class _Leaves:
    """One use: `results` are what the function gives, by the path of the leaf in the order in which leaves are combined."""

    def __init__(self, inf: Inference, env: Env, f: S.Expr, places: Sequence[Span], span: Span) -> None:
        self.inf, self.env, self.f, self.places, self.span = inf, env, f, places, span
        self.results: list[T.Expr] = []

    def at(self, path: str, values: list[T.Expr]) -> T.Expr:
        """What a part of the first value becomes, with the parts of the others that correspond to it."""
        types = [_known(self.inf, value.type) for value in values]
        guide = next((t for t in types if not isinstance(t, TypeVar)), self.inf.state.tensor())
        like = self.like(guide, path)
        for number, own in enumerate(types):
            if isinstance(own, TypeVar):
                unify(self.inf, own, self.like(guide, path), Reason(self.places[number], "of the same structure"))
            elif isinstance(like, RecordType | TupleType) and self.parts(own) != self.parts(like):
                places = self.places[0], self.places[number]
                wrong(self.inf, StructuresDiffer(path, guide, own, places))
                raise _Broken
        match like:
            case RecordType(fields):
                made = {n: self.at(f"{path}.{n}", [self.part(v, n) for v in values]) for n in sorted(n for n, _ in fields)}
                t = RecordType(tuple((n, made[n].type) for n, _ in fields))
                if isinstance(guide, RecordType) and guide.written is not None:
                    if alike(self.inf.state, t, guide):
                        t = guide
                    else:
                        self.inf.like[t] = guide
                return T.Record(tuple((n, made[n]) for n, _ in fields), type=t, span=self.span)
            case TupleType(items):
                parts = [self.at(f"{path}.{n}", [self.part(v, n) for v in values]) for n in range(1, len(items) + 1)]
                return T.Tuple(tuple(parts), type=TupleType(tuple(p.type for p in parts)), span=self.span)
            case _:
                return self.leaf(path, values)

    def like(self, t: Type, path: str) -> Type:
        """A type of the structure of another, as far as that goes at its top."""
        match t:
            case RecordType(fields):
                return RecordType(tuple((n, self.inf.state.type_var()) for n, _ in fields))
            case TupleType(items):
                return TupleType(tuple(self.inf.state.type_var() for _ in items))
            case Tensor():
                return self.inf.state.tensor()
            case Function():
                wrong(self.inf, StoredFunction(f"the leaf `{path}`" if path else "a leaf", self.places[0]))
                raise _Broken
            case Exists() | Poison() | TypeVar():
                raise _Broken

    def parts(self, t: Type) -> list[str | int]:
        """What the parts of a record or a tuple are called."""
        match t:
            case RecordType(fields):
                return sorted(n for n, _ in fields)
            case TupleType(items):
                return list(range(1, len(items) + 1))
            case _:
                return ["a leaf"]

    def part(self, value: T.Expr, name: str | int) -> T.Expr:
        t = self.inf.state.prune(value.type)
        if isinstance(t, RecordType) and isinstance(name, str):
            found = t.get(name)
            assert found is not None
            return T.Field(value, name, type=found, span=value.span)
        assert isinstance(t, TupleType)
        assert isinstance(name, int)
        return T.Project(value, name, type=t.items[name - 1], span=value.span)

    def leaf(self, path: str, values: list[T.Expr]) -> T.Expr:
        """The function applied at one leaf."""
        inf, state = self.inf, self.inf.state
        said, outer, asked = len(inf.diagnostics), inf.leaf, (len(state.equals), len(state.stretches))
        waiting = set(inf.deferred)
        inf.leaf = outer + path
        result = _call(inf, self.env, self.function(values), values, self.span, self.f.span.excerpt)
        state.equals[asked[0] :] = [replace(e, reason=_at(e.reason, inf.leaf)) for e in state.equals[asked[0] :]]
        state.stretches[asked[1] :] = [replace(s, reason=_at(s.reason, inf.leaf)) for s in state.stretches[asked[1] :]]
        for constraint in inf.deferred:
            if constraint not in waiting:
                inf.leaves.setdefault(constraint, inf.leaf)
        inf.leaf = outer
        if isinstance(_known(inf, result.type), Poison) or len(inf.diagnostics) > said:
            goes_on = [n for n, v in enumerate(values) if isinstance(inf.state.prune(v.type), RecordType | TupleType)]
            if goes_on and len(inf.diagnostics) > said:
                del inf.diagnostics[said:]
                places = self.places[0], self.places[goes_on[0]]
                wrong(inf, StructuresDiffer(path, values[0].type, values[goes_on[0]].type, places))
            raise _Broken  # what is wrong at one leaf is likely to be wrong at others
        if isinstance(self.inf.state.prune(result.type), Function):
            wrong(self.inf, StoredFunction("what `each` gives for a leaf", self.f.span))
            raise _Broken
        self.results.append(result)
        inf.made_at.append((outer + path, result.type, tuple(value.type for value in values)))
        return result

    def function(self, values: list[T.Expr]) -> T.Expr:
        """The function at a leaf; of a `fn` the parameters are known to be what is there, and so of a local function that shares a
        shape with what stands around it."""
        written, around = self.f, self.env.scope
        entity = around.value(written.name) if isinstance(written, S.Var) else None
        if isinstance(entity, ValueName) and entity.symbol in self.inf.local and self.shares(entity):
            d, around = self.inf.local[entity.symbol]
            written = S.Fn(tuple(p for p in d.params if not isinstance(p, S.DimParams)), d.body, span=written.span)
        match written:
            case S.Fn(params, body) if len(params) == len(values):
                scope = around.child()
                seen: dict[str, Span] = {}
                types = tuple(value.type for value in values)
                patterns = tuple(bind_pattern(self.inf, scope, p, t, seen) for p, t in zip(params, types, strict=True))
                inner = infer(self.inf, self.env.within(scope), body)
                return T.Fn(patterns, inner, type=function(types, inner.type), span=self.f.span)
            case _:
                return infer(self.inf, self.env, self.f)

    def shares(self, function: ValueName) -> bool:
        """Whether a shape variable of a function's type belongs to the declaration around it, which captures it."""
        state = self.inf.state
        tensors = (t for t in subtypes(state, function.scheme.type) if isinstance(t, Tensor))
        return any(isinstance(i, Row) and i.symbol not in state.generic for t in tensors for i in state.shape(t.shape))

    def folded(self, monoid: S.Tuple) -> T.Expr:
        """What the function gives for all leaves, combined in their order, from the neutral element on."""
        op, unit = monoid.items
        whole = infer(self.inf, self.env, unit)
        for result in self.results:
            sides = (Side(self.f.span, "for a leaf it gives {}"), Side(unit.span, "the neutral element has {}"))
            reason = Reason(self.f.span, "what is combined has the type and shape of the neutral element", sides)
            if not unify(self.inf, result.type, whole.type, reason):
                raise _Broken
            whole = _call(self.inf, self.env, infer(self.inf, self.env, op), [whole, result], self.span, op.span.excerpt)
        return whole
