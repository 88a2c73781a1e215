"""Applications: a function and its arguments, pointwise functions, functions of scalars that lift, sizes that a call opens."""

from __future__ import annotations

from abc import abstractmethod

from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason, Side
from axon.shapes.dimension import Dim
from axon.types import builtins
from axon.types import typed as T
from axon.types.access import _excerpt
from axon.types.comprehension import Comprehensions
from axon.types.constraint import Lift
from axon.types.elaborator import Env
from axon.types.resolve import Module, ModuleName
from axon.types.scheme import instantiate_type
from axon.types.trouble import Argument, DimsWrong, NotAFunction, Operand
from axon.types.type import POISON, Exists, Function, Poison, RecordType, Tensor, TupleType, Type, TypeVar

_OPERATORS = {name: (allowed, gives_bool) for name, allowed, gives_bool in builtins.OPERATORS.values()}


class Applications(Comprehensions):
    @abstractmethod
    def _variable(self, env: Env, e: S.Var, dims: tuple[S.Dim, ...] | None = None, span: Span | None = None) -> T.Expr: ...

    @abstractmethod
    def _module_member(self, env: Env, module: Module, name: S.Name, dims: tuple[S.Dim, ...] | None, span: Span) -> T.Expr: ...

    @abstractmethod
    def _elementwise(
        self, name: str, allowed: frozenset[Element], gives_bool: bool, left: T.Expr, right: T.Expr, at: Span, span: Span, what: str
    ) -> T.Expr: ...  # fmt: skip

    @abstractmethod
    def _symbolic(self, env: Env, op: str, left: T.Expr, right: T.Expr, found: T.Expr) -> T.Expr: ...

    def _broken(self, span: Span) -> T.Expr:
        return T.Literal(0, type=POISON, span=span)

    # ── application ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _application(self, env: Env, e: S.Apply | S.ApplyDims) -> T.Expr:
        """A function with all the arguments that stand after it."""
        arguments: list[S.Expr] = []
        head: S.Expr = e
        while isinstance(head, S.Apply):
            arguments.append(head.argument)
            head = head.function
        arguments.reverse()
        if isinstance(head, S.ApplyDims):
            f = self._with_dims(env, head)
        else:
            f = self.infer(env, head)
        if not arguments:
            return f
        return self._call(env, f, [self.infer(env, a) for a in arguments], e.span, _excerpt(head.span))

    def _with_dims(self, env: Env, e: S.ApplyDims) -> T.Expr:
        match e.function:
            case S.Var():
                return self._variable(env, e.function, e.dims, e.span)
            case S.Field(S.Var(owner), name) if isinstance(module := env.scope.value(owner), ModuleName):
                return self._module_member(env, module.module, name, e.dims, e.span)
            case _:
                function = self.infer(env, e.function)
                if not isinstance(self.state.prune(function.type), Poison):
                    self.wrong(DimsWrong(_excerpt(e.function.span), (), len(e.dims), e.span))
                return self._broken(e.span)

    def _call(self, env: Env, f: T.Expr, arguments: list[T.Expr], span: Span, name: str) -> T.Expr:
        pointwise = self._pointwise(env, f, arguments, span)
        if pointwise is not None:
            return pointwise
        t = self._apply(f, arguments, name, env)
        call: T.Expr = T.Call(f, tuple(arguments), type=t, span=span)
        return self._open(env, call)

    def _pointwise(self, env: Env, f: T.Expr, arguments: list[T.Expr], span: Span) -> T.Expr | None:
        """Functions of the language broadcast like operators."""
        match f:
            case T.Builtin(name=name) if name in builtins.UNARY and len(arguments) == 1:
                given = arguments[0]
                t = self.as_tensor(given.type, given.span, f"`{name}` is computed element by element", Operand(given, False))
                reason = Reason(arguments[0].span, f"the argument of `{name}`")
                if t is None or not self.narrow(t, builtins.UNARY[name], reason):
                    return self._broken(span)
                return T.Unary(name, arguments[0], type=t, span=span)
            case T.Builtin(name=name) if name in builtins.BINARY and len(arguments) == 2:
                left, right = arguments
                found = self._elementwise(name, builtins.BINARY[name], False, left, right, f.span, span, f"`{name}`")
                if isinstance(left, T.Dimension) or isinstance(right, T.Dimension):
                    return self._symbolic(env, name, left, right, found)
                return found
            case T.Builtin(name=name) if name in _OPERATORS and len(arguments) == 2:
                allowed, gives_bool = _OPERATORS[name]
                left, right = arguments
                return self._elementwise(name, allowed, gives_bool, left, right, f.span, span, f"`{f.span.text}`")
        return None

    def _apply(self, f: T.Expr, arguments: list[T.Expr], name: str, env: Env) -> Type:
        t = self.state.prune(f.type)
        lifted = self._lifted(t, arguments, name, f.span, env)
        if lifted is not None:
            return lifted
        spoiled = any(isinstance(self.state.prune(a.type), Poison) for a in arguments)  # and may be one too many
        for n, argument in enumerate(arguments, 1):
            t = self.state.prune(t)
            match t:
                case Poison():
                    return POISON
                case Function(param, result):
                    patterns = self.parameters.get(f.symbol, ()) if isinstance(f, T.Variable) else ()
                    meant = Argument(f, tuple(arguments), n - 1, param, name, patterns)
                    reason = self._argument_reason(argument, n, len(arguments), name, f.span)
                    if not self.unify(argument.type, param, reason, meant=meant, quiet=spoiled):
                        return POISON
                    t = result
                case TypeVar():
                    result = self.state.type_var()
                    if not self.unify(t, Function(argument.type, result), Reason(f.span, "applied here")):
                        return POISON
                    t = result
                case _:
                    if not spoiled:
                        self.wrong(NotAFunction(t, f.span, argument.span, n - 1))
                    return POISON
        return t

    def _argument_reason(self, argument: T.Expr, n: int, count: int, name: str, function: Span) -> Reason:
        which = "the argument" if count == 1 else f"argument {n}"
        sides = (Side(argument.span, "this has {}"), Side(function, f"`{name}` takes {{}}"))
        return Reason(argument.span, f"{which} of `{name}`", sides)

    def _lifted(self, t: Type, arguments: list[T.Expr], name: str, function: Span, env: Env) -> Type | None:
        """The type of a function of scalars applied to what may be tensors; None if the function is not one of scalars."""
        params: list[Type] = []
        result: Type = t
        for _ in arguments:
            result = self.state.prune(result)
            if not isinstance(result, Function) or not self._is_scalar(result.param):
                return None
            params.append(result.param)
            result = result.result
        if not self._is_scalars(result) or all(self._is_scalar(a.type) for a in arguments):
            return None
        out: Type = self.state.type_var()
        reasons = tuple(self._argument_reason(a, n, len(arguments), name, function) for n, a in enumerate(arguments, 1))
        self.defer(Lift(tuple(params), result, tuple(a.type for a in arguments), out, reasons, env.context))
        return out

    def _is_scalar(self, t: Type) -> bool:
        t = self.state.prune(t)
        return isinstance(t, Tensor) and not self.state.shape(t.shape)

    def _is_scalars(self, t: Type) -> bool:
        t = self.state.prune(t)
        match t:
            case TupleType(items):
                return bool(items) and all(self._is_scalars(i) for i in items)
            case RecordType(fields):
                return all(self._is_scalars(f) for _, f in fields)
            case _:
                return self._is_scalar(t)

    def _open(self, env: Env, e: T.Expr) -> T.Expr:
        """Name the size of a value whose size only the data decide."""
        t = self.state.prune(e.type)
        if not isinstance(t, Exists):
            return e
        if env.repeated:
            self.existential_under_for(e.span)
            return self._broken(e.span)
        self.opened += 1
        symbol = self._data_size(t)
        instance = T.Instance({}, {}, {}, {t.symbol: Dim.of(symbol)})
        opened: T.Expr = T.Open(e, symbol, t.symbol, type=instantiate_type(self.state, t.body, instance), span=e.span)
        return self._open(env, opened)

    def packed(self, t: Type, sizes: tuple[Symbol, ...]) -> Type:
        """The type with those of the sizes that it mentions under `?k`: each call of a function decides them anew."""
        mentioned = set(self.state.parts(t, set()))
        for symbol in reversed([s for s in sizes if s in mentioned]):
            t = Exists(symbol, self.state.data_sizes[symbol], t)
        return t

    def _data_size(self, t: Exists) -> Symbol:
        symbol = fresh(self.state.called.get(t.symbol, t.symbol.name))
        self.state.levels[symbol] = self.state.level
        image = {t.symbol: Dim.of(symbol)}
        self.state.data_sizes[symbol] = tuple(b.substitute(image) for b in t.bounds)
        return symbol
