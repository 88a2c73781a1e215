"""Applications: a function and its arguments, pointwise functions, functions of scalars that lift, sizes that a call opens."""

from __future__ import annotations

from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason, Side
from axon.types import builtins
from axon.types import typed as T
from axon.types.access import excerpt
from axon.types.constraint import Lift, Spread, SpreadArgument
from axon.types.inference import Env, Inference, as_tensor, broken, clash, infer, narrow, unify, wrong
from axon.types.names import infer_member, infer_variable, open_size
from axon.types.operators import arithmetic, elementwise
from axon.types.resolve import ModuleName
from axon.types.solve import defer, spread
from axon.types.trouble import Argument, DimsWrong, Mismatched, NotAFunction
from axon.types.type import POISON, Function, OrScalar, Poison, RecordType, Tensor, TupleType, Type, TypeVar, parameters, scalar
from axon.types.unify import State

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
    if isinstance(head, S.ApplyDims):
        f = _with_dims(inf, env, head)
    else:
        f = infer(inf, env, head)
    if not arguments:
        return f
    return _call(inf, env, f, [infer(inf, env, a) for a in arguments], e.span, excerpt(head.span))


def _with_dims(inf: Inference, env: Env, e: S.ApplyDims) -> T.Expr:
    match e.function:
        case S.Var():
            return infer_variable(inf, env, e.function, e.dims, e.span)
        case S.Field(S.Var(owner), name) if isinstance(module := env.scope.value(owner), ModuleName):
            return infer_member(inf, env, module.module, name, e.dims, e.span)
        case _:
            function = infer(inf, env, e.function)
            if not isinstance(inf.state.prune(function.type), Poison):
                wrong(inf, DimsWrong(excerpt(e.function.span), (), len(e.dims), e.span))
            return broken(e.span)


def _call(inf: Inference, env: Env, f: T.Expr, arguments: list[T.Expr], span: Span, name: str) -> T.Expr:
    pointwise = _pointwise(inf, env, f, arguments, span)
    if pointwise is not None:
        return pointwise
    groups = _or_scalar(inf, f, len(arguments))
    t = _apply(inf, f, arguments, name, env, groups)
    scalars = tuple(sorted(n for group in groups for n in group.parameters))
    call: T.Expr = T.Call(f, tuple(arguments), scalars, type=t, span=span)
    return open_size(inf, env, call)


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
                given = _tensor(inf.state, argument.type, reason) if any(n - 1 in group.parameters for group in groups) else None
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


def _tensor(state: State, t: Type, reason: Reason) -> Tensor | None:
    """A type as a tensor's, made one if nothing is known of it."""
    t = state.prune(t)
    if isinstance(t, TypeVar) and t.symbol not in state.rigid:
        new = state.tensor()
        state.unify(t, new, reason)
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
