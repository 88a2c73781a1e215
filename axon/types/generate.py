"""Expressions: from surface syntax to typed syntax, generating constraints on the way."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import assert_never

from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.element import FLOAT, NUM, Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason, Side
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.types import builtins
from axon.types import typed as T
from axon.types.annotate import FOREIGN
from axon.types.application import Applications
from axon.types.constraint import Member, Product
from axon.types.elaborator import Env
from axon.types.literals import Literal, folded
from axon.types.resolve import (
    BrokenName,
    BuiltinName,
    Entity,
    Module,
    ModuleName,
    ValueName,
    missing_import,
    unknown,
    unknown_member,
)
from axon.types.scheme import instantiate_type
from axon.types.show import Namer, show_element
from axon.types.symbolic import chosen, says, symbolic
from axon.types.trouble import Choice, DimsMissing, DimsWrong, Mismatched, NotBool, Operand, Operands, StoredFunction, UnknownValue
from axon.types.type import UNIT, Function, Poison, RecordType, Row, Scheme, Tensor, TupleType, Type, TypeVar, function, scalar
from axon.types.unify import Mismatch

_OPERATORS = {name: (allowed, gives_bool) for name, allowed, gives_bool in builtins.OPERATORS.values()}


class Expressions(Applications):
    def infer(self, env: Env, expr: S.Expr, expected: Type | None = None) -> T.Expr:
        """The typed form of an expression. `expected` is a declared type, which can decide ranges; it is not enforced here."""
        try:
            match expr:
                case S.Var():
                    return self._variable(env, expr)
                case S.Int(value):
                    number = scalar(self.state.element_var(NUM))
                    self.literals.append(Literal(value, number.element, expr.span))
                    return T.Literal(value, type=number, span=expr.span)
                case S.Float(value):
                    return T.Literal(value, type=scalar(self.state.element_var(FLOAT)), span=expr.span)
                case S.Operator(op):
                    return self._operator(op, expr.span)
                case S.Apply() | S.ApplyDims():
                    return self._application(env, expr)
                case S.Unary():
                    return self._unary(env, expr)
                case S.Binary():
                    return self._binary(env, expr)
                case S.Tuple(items):
                    parts = tuple(self.infer(env, i) for i in items)
                    return T.Tuple(parts, type=TupleType(tuple(p.type for p in parts)) if parts else UNIT, span=expr.span)
                case S.Record():
                    return self._record(env, expr)
                case S.Field():
                    return self._field(env, expr)
                case S.Project(value, position):
                    inner = self.infer(env, value)
                    out = self._part(inner.type, position, expr.span)
                    return T.Project(inner, position, type=out, span=expr.span)
                case S.Access():
                    return self.access(env, expr)
                case S.Ascribe(value, written):
                    t = self.type(env.scope, written)
                    inner = self.infer(env, value, t)
                    self._conform(inner.type, t, value, written.span)
                    return inner
                case S.Coerce():
                    return self._coerce(env, expr)
                case S.Cast():
                    return self._cast(env, expr)
                case S.Let():
                    return self.let(env, expr, expected)
                case S.Fn(params, body):
                    scope = env.scope.child()
                    seen: dict[str, Span] = {}
                    types: list[Type] = [self.state.type_var() for _ in params]
                    patterns = tuple(self.bind_pattern(scope, p, t, seen) for p, t in zip(params, types, strict=True))
                    opened = len(self.state.data_sizes)
                    inner = self.infer(env.within(scope), body)
                    own = tuple(self.state.data_sizes)[opened:]
                    t = function(tuple(types), self.packed(inner.type, own))
                    if own:
                        self.closures.append((t, own, expr.span))
                    return T.Fn(patterns, inner, type=t, span=expr.span)
                case S.If():
                    return self._if(env, expr, expected)
                case S.For():
                    return self.for_(env, expr, expected)
                case S.Reduce():
                    return self.reduce(env, expr)
                case S.Loop():
                    return self.loop(env, expr)
                case S.Array():
                    return self._array(env, expr)
                case _:
                    assert_never(expr)

        except DimensionTooLarge:
            self.too_complex(expr.span)
            return self._broken(expr.span)

    @abstractmethod
    def let(self, env: Env, e: S.Let, expected: Type | None) -> T.Expr: ...

    # ── names ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _variable(self, env: Env, e: S.Var, dims: tuple[S.Dim, ...] | None = None, span: Span | None = None) -> T.Expr:
        entity = env.scope.value(e.name)
        if entity is None:
            if env.scope.run(e.name) is not None:
                note = f"`..{e.name}` is a run of indices; it stands in accesses alone"
                self.report(unknown("value", e.name, e.span, env.scope.names(), note=note))
            elif (known := self._unknown_value(env, e)) is not None:
                self.report(known)
            else:
                self.wrong(UnknownValue(e.name, e.span, env.scope, tuple(self.library(e.name, e.span))))
            return self._broken(e.span)
        return self._entity(env, entity, e.name, e.span, dims, span or e.span)

    def _unknown_value(self, env: Env, e: S.Var) -> Diagnostic | None:
        """Why a name is not known: it is defined further down, it is a module, or it is misspelt."""
        label = Label(e.span, "not defined here")
        if e.name in self.defining:
            note = "there is no recursion: a program is a finite graph"
            help_ = Suggestion("to repeat something, write `loop (state = start) for _ < steps => …`")
            return Diagnostic(
                "AX0401", f"`{e.name}` cannot use itself", (Label(e.span, "inside its own definition"),), (note,), (help_,)
            )
        if e.name in self.later:
            where = Label(self.later[e.name], "defined here, below")
            help_ = Suggestion("move its declaration above this one")
            return Diagnostic("AX0401", f"`{e.name}` is used before it is defined", (label, where), (), (help_,))
        if e.span.file.text.startswith(".", e.span.end) and self.importable(S.Name(e.name, e.span)):
            return missing_import(e.name, e.span)
        if e.name in self.ended:
            where = Label(self.ended[e.name], "an index of this comprehension alone")
            return Diagnostic("AX0401", f"the index `{e.name}` has ended here", (label, where))
        if e.name in self.private:
            owner, span = self.private[e.name]
            where = Label(span, f"a size of `{owner}` alone: each use of it has another")
            help_ = Suggestion(f"write the size of what `{owner}` is applied to")
            return Diagnostic("AX0401", f"`{e.name}` belongs to `{owner}`", (label, where), (), (help_,))
        return None

    def _entity(self, env: Env, entity: Entity, name: str, at: Span, dims: tuple[S.Dim, ...] | None, span: Span) -> T.Expr:
        match entity:
            case BrokenName():
                self.consequences += 1
                return self._broken(span)
            case ModuleName():
                self.report(
                    Diagnostic(
                        "AX0406",
                        f"`{name}` is a module, not a value",
                        (Label(at, "used as a value"),),
                        suggestions=(Suggestion(f"name something in it: `{name}.…`"),),
                    )
                )
                return self._broken(span)
            case BuiltinName(builtin):
                if dims is not None:
                    self.wrong(DimsWrong(name, (), len(dims), span))
                return self._builtin(env, builtin, span)
            case ValueName(literal=int() as literal) if dims is None:
                return self.infer(env, S.Int(literal, span=span))
            case ValueName(symbol, scheme, _, dim):
                if dim is not None and dims is None:
                    return T.Dimension(dim, type=scheme.type, span=span)
                explicit = tuple(s.name for s in scheme.explicit)
                if dims is None and explicit:
                    self.wrong(DimsMissing(name, explicit, span))
                    return self._broken(span)
                if dims is not None and len(dims) != len(explicit):
                    self.wrong(DimsWrong(name, explicit, len(dims), span))
                    return self._broken(span)
                if scheme.body is not None:
                    self.used[symbol] = scheme.body
                if not scheme.quantified:
                    self.consequences += isinstance(self.state.prune(scheme.type), Poison)
                    return self._open(env, T.Variable(symbol, None, type=scheme.type, span=span))
                if scheme.opens and env.repeated:
                    self.existential_under_for(span)
                    return self._broken(span)
                self.opened += scheme.opens
                given = tuple(self._given_dim(env, d) for d in dims or ())
                for parameter, size, d in zip(explicit, given, dims or (), strict=True):
                    text = f"the dimension parameter `{parameter}` cannot be negative: {{}}"
                    self.oblige(Relation(size, ">=", Dim.of(0)), env.context, Reason(d.span, text))
                instance = self.instantiate(scheme, span, name, env.context, given)
                try:
                    t = instantiate_type(self.state, scheme.type, instance)
                except DimensionTooLarge:
                    self.too_complex(span)
                    return self._broken(span)
                return T.Variable(symbol, instance, type=t, span=span)
            case _:
                assert_never(entity)

    def _given_dim(self, env: Env, d: S.Dim) -> Dim:
        dim = self.dim(env.scope, d)
        indices = {s for s, _ in env.context.indices}
        if dim.variables & indices:
            name = min(dim.variables & indices, key=lambda s: s.id).name
            label = Label(d.span, f"this differs from one `{name}` to the next")
            self.report(Diagnostic("AX0308", f"a dimension cannot depend on the index `{name}`", (label,)))
            return self.state.dim("")
        return dim

    def _builtin(self, env: Env, name: str, span: Span) -> T.Expr:
        if name in builtins.CONSTANTS:
            value = builtins.CONSTANTS[name]
            t = scalar(Element.BOOL) if isinstance(value, bool) else scalar(self.state.element_var(FLOAT))
            return T.Literal(value, type=t, span=span)
        if name in builtins.UNARY or name in builtins.BINARY:
            allowed = builtins.UNARY.get(name) or builtins.BINARY[name]
            t = self.state.tensor(allowed)
            count = 1 if name in builtins.UNARY else 2
            return T.Builtin(name, type=function((t,) * count, t), span=span)
        scheme = self.builtin_scheme(name)
        instance = self.instantiate(scheme, span, name, env.context)
        return T.Builtin(name, type=instantiate_type(self.state, scheme.type, instance), span=span)

    @abstractmethod
    def builtin_scheme(self, name: str) -> Scheme: ...

    def _operator(self, op: str, span: Span) -> T.Expr:
        if op == "@":
            element = self.state.element_var(NUM)
            row, i, k, j = self.state.row(), self.state.dim("i"), self.state.dim("k"), self.state.dim("j")
            left, right, out = (Tensor(element, (row, a, b)) for a, b in ((i, k), (k, j), (i, j)))
            return T.Builtin("matmul", type=function((left, right), out), span=span)
        name, allowed, gives_bool = builtins.OPERATORS[op]
        t = self.state.tensor(allowed)
        if name == "div":
            self.divided.append(t.element)
        result = Tensor(Element.BOOL, t.shape) if gives_bool else t
        return T.Builtin(name, type=function((t, t), result), span=span)

    # ── operators ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _unary(self, env: Env, e: S.Unary) -> T.Expr:
        if e.op == "-" and isinstance(e.operand, S.Int):
            return self.infer(env, S.Int(-e.operand.value, span=e.span))
        before = len(self.literals)
        operand = self.infer(env, e.operand)
        op, allowed = ("neg", NUM) if e.op == "-" else ("not", builtins.BOOL)
        t = self.as_tensor(operand.type, e.operand.span, f"the operand of `{e.op}`")
        if t is None or not self.narrow(t, allowed, Reason(e.operand.span, f"the operand of `{e.op}`")):
            return self._broken(e.span)
        if op == "neg" and isinstance(operand, T.Dimension):
            return T.Dimension(-operand.dim, type=t, span=e.span)
        value = self._constant(operand) if op == "neg" else None
        if value is not None:
            self._fold(before, -value, t, e.span)
        return T.Unary(op, operand, None if value is None else -value, type=t, span=e.span)

    def _constant(self, e: T.Expr) -> int | None:
        """The value of an integer literal, or of arithmetic on such alone."""
        if isinstance(e, T.Literal):
            return e.value if type(e.value) is int else None
        return e.folded if isinstance(e, T.Unary | T.Binary) else None

    def _fold(self, before: int, value: int, t: Tensor, span: Span) -> None:
        """Arithmetic on literals alone must fit as a whole, and its parts need not."""
        self.literals[before:] = [Literal(value, t.element, span, folded=True)]

    def _binary(self, env: Env, e: S.Binary) -> T.Expr:
        if e.op == "|>":
            return self._application(env, S.Apply(e.right, e.left, span=e.span))
        before = len(self.literals)
        left = self.infer(env, e.left)
        inner = env
        if e.op in ("andalso", "orelse"):
            holds = e.op == "andalso"
            inner = env.guarded(says(left, holds, self.named))
        with self.only_where(inner.context):
            right = self.infer(inner, e.right)
        if e.op == "@":
            return self._matmul(left, right, e)
        name, allowed, gives_bool = builtins.OPERATORS[e.op]
        found = self._elementwise(name, allowed, gives_bool, left, right, e.op_span, e.span, f"`{e.op}`")
        if isinstance(left, T.Dimension) or isinstance(right, T.Dimension):
            return self._symbolic(env, name, left, right, found)
        a, b = self._constant(left), self._constant(right)
        value = folded(name, a, b) if a is not None and b is not None else None
        if value is None or not isinstance(found, T.Binary) or not isinstance(found.type, Tensor):
            return found
        self._fold(before, value, found.type, e.span)
        return replace(found, folded=value)

    def _elementwise(
        self, name: str, allowed: frozenset[Element], gives_bool: bool, left: T.Expr, right: T.Expr, at: Span, span: Span, what: str
    ) -> T.Expr:  # fmt: skip
        a, b = (
            self.as_tensor(e.type, e.span, f"the {side} side of {what}", Operand(e, True))
            for side, e in (("left", left), ("right", right))
        )
        if a is None or b is None:
            return self._broken(span)
        sides = (Side(left.span, f"this is {_type_words(self, a)}"), Side(right.span, f"this is {_type_words(self, b)}"))
        words = Reason(at, f"{what} needs one element type on both sides", sides)
        if not self.narrow(a, allowed, Reason(left.span, f"the left side of {what}")):
            return self._broken(span)
        if not self.narrow(b, allowed, Reason(right.span, f"the right side of {what}")):
            return self._broken(span)
        try:
            self.state.unify_element(a.element, b.element)
        except Mismatch as m:
            self.wrong(Mismatched(m, a, b, words, Operands(left, right, at)))
            return self._broken(span)
        if name == "div":
            self.divided.append(a.element)
        sides = (Side(left.span, "the left side has {}"), Side(right.span, "the right side has {}"))
        shape = self.broadcast(a, b, Reason(at, f"{what} works element by element", sides))
        result = Tensor(Element.BOOL if gives_bool else a.element, shape)
        return T.Binary(name, left, right, type=result, span=span)

    def _symbolic(self, env: Env, op: str, left: T.Expr, right: T.Expr, found: T.Expr) -> T.Expr:
        """Arithmetic on dimensions and indices stays symbolic where it can."""
        a, b = symbolic(left, True), symbolic(right, True)
        if a is None or b is None or isinstance(found.type, Poison):
            return found
        try:
            match op:
                case "add":
                    dim = a + b
                case "sub":
                    dim = a - b
                case "mul":
                    dim = a * b
                case "div" | "mod":
                    text = "the divisor must be at least 1: {}"
                    self.oblige(Relation(b, ">=", Dim.of(1)), env.context, Reason(right.span, text))
                    dim = a // b if op == "div" else a % b
                case "max" | "min":
                    dim = (maximum if op == "max" else minimum)(a, b)
                case _:
                    return found
        except (DimensionTooLarge, ZeroDivisionError):
            return found
        return T.Dimension(dim, type=found.type, span=found.span)

    def _matmul(self, left: T.Expr, right: T.Expr, e: S.Binary) -> T.Expr:
        a = self.as_tensor(left.type, e.left.span, "the left side of `@`", Operand(left, True))
        b = self.as_tensor(right.type, e.right.span, "the right side of `@`", Operand(right, True))
        if a is None or b is None:
            return self._broken(e.span)
        for t, node in ((a, e.left), (b, e.right)):
            if not self.narrow(t, NUM, Reason(node.span, "`@` multiplies numbers")):
                return self._broken(e.span)
        sides = (Side(e.left.span, f"this is {_type_words(self, a)}"), Side(e.right.span, f"this is {_type_words(self, b)}"))
        try:
            self.state.unify_element(a.element, b.element)
        except Mismatch as m:
            reason = Reason(e.op_span, "`@` needs one element type on both sides", sides)
            self.wrong(Mismatched(m, a, b, reason))
            return self._broken(e.span)
        out = self.state.row()
        reason = Reason(e.op_span, "the product")
        self.defer(Product(a.shape, b.shape, out, reason, (e.left.span, e.right.span)))
        return T.MatMul(left, right, type=Tensor(a.element, (out,)), span=e.span)

    # ── data ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _record(self, env: Env, e: S.Record) -> T.Expr:
        fields = tuple((n, self.infer(env, v)) for n, v in e.fields)
        seen: dict[str, Span] = {}
        for name, _ in fields:
            if name.text in seen:
                labels = (Label(name.span, "here again"), Label(seen[name.text], "first here"))
                self.report(Diagnostic("AX0217", f"the field `{name.text}` is given twice", labels))
                return self._broken(e.span)
            seen[name.text] = name.span
        t = RecordType(tuple((n.text, v.type) for n, v in fields))
        return T.Record(tuple((n.text, v) for n, v in fields), type=t, span=e.span)

    def _field(self, env: Env, e: S.Field) -> T.Expr:
        if isinstance(e.record, S.Var):
            owner = env.scope.value(e.record.name)
            if isinstance(owner, ModuleName):
                return self._module_member(env, owner.module, e.name, None, e.span)
        record = self.infer(env, e.record)
        return T.Field(record, e.name.text, type=self._part(record.type, e.name.text, e.name.span), span=e.span)

    def _module_member(self, env: Env, module: Module, name: S.Name, dims: tuple[S.Dim, ...] | None, span: Span) -> T.Expr:
        entity = module.values.get(name.text)
        if entity is None:
            self.report(unknown_member(module, name))
            return self._broken(span)
        self.modules.setdefault(span.text.partition(".")[0].strip(), module)
        return self._entity(env, entity, f"{module.name}.{name.text}", name.span, dims, span)

    def _part(self, t: Type, member: str | int, span: Span) -> Type:
        out = self.state.type_var()
        self.defer(Member(t, member, out, span))
        return out

    def _array(self, env: Env, e: S.Array) -> T.Expr:
        items = tuple(self.infer(env, i) for i in e.items)
        t: Type = items[0].type if items else scalar(self.state.element_var())
        for item in items[1:]:
            sides = (Side(item.span, "this element has {}"), Side(items[0].span, "the first has {}"))
            if not self.unify(item.type, t, Reason(item.span, "the elements of an array have one type and shape", sides)):
                return self._broken(e.span)
        if isinstance(self.state.prune(t), Function):
            self.wrong(StoredFunction("an array", e.items[0].span))
            return self._broken(e.span)
        return T.Array(items, type=self.prepend((Dim.of(len(items)),), t, e.span, "an array"), span=e.span)

    def _cast(self, env: Env, e: S.Cast) -> T.Expr:
        name = e.element.text
        if name == "_":
            target = self.state.element_var()
        elif name.startswith("'"):
            variable = env.scope.variable(name)
            if variable is None or isinstance(variable, TypeVar):
                self.report(unknown("element type", name, e.element.span, (), "AX0407"))
                return self._broken(e.span)
            target = variable  # type: ignore[assignment]
        else:
            known = {x.value: x for x in Element}
            if name not in known:
                found = unknown("element type", name, e.element.span, known, "AX0407")
                if name in FOREIGN:
                    own = FOREIGN[name]
                    found = replace(found, suggestions=(Suggestion(f"write `cast {own}`", (Edit(e.element.span, own),)),))
                elif e.value is None and env.scope.value(name) is not None:
                    start = Span(e.span.file, e.element.span.start, e.element.span.start)
                    missing = Suggestion(f"the element type is missing: write `cast f32 {name}`", (Edit(start, "f32 "),))
                    found = replace(found, suggestions=(missing,))
                self.report(found)
                return self._broken(e.span)
            target = known[name]  # type: ignore[assignment]
        if e.value is None:
            source = self.state.tensor()
            x = fresh("x")
            body = T.Cast(T.Variable(x, None, type=source, span=e.span), type=Tensor(target, source.shape), span=e.span)
            pattern = T.PatternName(x, type=source, span=e.span)
            return T.Fn((pattern,), body, type=Function(source, body.type), span=e.span)
        value = self.infer(env, e.value)
        t = self.as_tensor(value.type, e.value.span, "`cast` converts elements")
        if t is None:
            return self._broken(e.span)
        return T.Cast(value, type=Tensor(target, t.shape), span=e.span)

    def _coerce(self, env: Env, e: S.Coerce) -> T.Expr:
        value = self.infer(env, e.value)
        t = self.type(env.scope, e.type)
        written: dict[Symbol, Dim] = {}
        loose = self._loosen(t, written)
        if not self.unify(value.type, loose, Reason(e.value.span, "`as` changes what is known of sizes, nothing else"), written):
            return self._broken(e.span)
        self.coercions.append((value.type, t, e.span))
        return T.Coerce(value, type=t, span=e.span)

    def _loosen(self, t: Type, written: dict[Symbol, Dim]) -> Type:
        """The type with a fresh size for every dimension; `written` takes what stood there."""

        def loose(size: Dim) -> Dim:
            free = self.state.dim("")
            written.update(dict.fromkeys(free.variables, size))
            return free

        t = self.state.prune(t)
        match t:
            case Tensor(element, shape):
                return Tensor(element, tuple(i if isinstance(i, Row) else loose(i) for i in self.state.shape(shape)))
            case TupleType(items):
                return TupleType(tuple(self._loosen(i, written) for i in items))
            case RecordType(fields):
                return RecordType(tuple((n, self._loosen(f, written)) for n, f in fields))
            case _:
                return t

    def _conform(self, found: Type, t: Type, value: S.Expr, written: Span) -> bool:
        sides = (Side(value.span, "this has {}"), Side(written, "its type says {}"))
        return self.unify(found, t, Reason(value.span, "this must have the type that is written", sides))

    def _if(self, env: Env, e: S.If, expected: Type | None) -> T.Expr:
        condition = self.infer(env, e.condition)
        single = self.is_single_bool(condition)
        yes, no = (env.guarded(says(condition, holds, self.named)) for holds in (True, False))
        with self.only_where(yes.context):
            then = self.infer(yes, e.then, expected)
        with self.only_where(no.context):
            otherwise = self.infer(no, e.otherwise, expected)
        choice = Choice(e.span, condition, then, otherwise, tuple(s.name for s, _ in env.context.indices))
        if not single:
            self.wrong(NotBool(self.state.prune(condition.type), e.condition.span, "the condition of `if`", choice))
            return self._broken(e.span)
        sides = (Side(e.otherwise.span, "the `else` branch has {}"), Side(e.then.span, "the `then` branch has {}"))
        text = "the branches of an `if` have one type and shape"
        if not self.unify(otherwise.type, then.type, Reason(e.otherwise.span, text, sides), meant=choice):
            return self._broken(e.span)
        t = self.state.prune(then.type)
        if isinstance(t, Function):
            self.wrong(StoredFunction("the result of an `if`", e.then.span))
            return self._broken(e.span)
        found = T.If(condition, then, otherwise, type=t, span=e.span)
        if isinstance(then, T.Dimension) or isinstance(otherwise, T.Dimension):
            size = chosen(condition, then, otherwise)
            if size is not None and size.variables.isdisjoint(i for i, _ in env.context.indices):
                return T.Dimension(size, type=t, span=e.span)
        return found


def _type_words(expressions: Expressions, t: Tensor) -> str:
    """What the elements of a tensor are, for people."""
    return show_element(Namer(expressions.state, classes=True), t.element)
