"""Written types to types: aliases expanded, dimension and type variables found or introduced.

Note [Names of a sig]
    The names of a `sig` are its own, and they are what signatures, errors and `m.f.sizes` call sizes. A name in the annotations of
    the function below it stands for what the `sig` has at its place. It is unknown until both types meet, which is before the body
    is inferred, and then only another name: `sig f : f32[k] -> f32[k]` over `fun f (x : f32[n]) = …` makes n another name of k.
    A definition less general than its `sig`, as `(x : f32[n]) (y : f32[n])` is than `f32[j] -> f32[k]`, is one for which j = k does
    not follow. The body sees the names of both, those of the function first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import assert_never

from axon.base.data import dataclass, fields, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import NOWHERE, Context, Reason, Side
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.shapes.width import MOST
from axon.types import typed as T
from axon.types.holes import blank
from axon.types.inference import Env, Inference, clash, infer, oblige, too_complex, wrong
from axon.types.resolve import Alias, BrokenName, BuiltinName, ModuleName, RunName, Scope, ValueName
from axon.types.symbolic import Divisor, evaluated, size_of
from axon.types.trouble import (
    AliasArguments,
    Mismatched,
    MissingImport,
    NotADimension,
    Rule,
    RuleBroken,
    TypeTooLarge,
    UnknownMember,
    UnknownName,
)
from axon.types.type import (
    I32,
    POISON,
    ElementType,
    Exists,
    Function,
    Poison,
    RecordType,
    Row,
    Scheme,
    Shape,
    ShapeItem,
    Tensor,
    TupleType,
    Type,
    TypeVar,
    Written,
)

_MAX_EXPANSIONS = 200_000  # of aliases in one module
_ELEMENTS = {e.value: e for e in Element}
_SIZE = Scheme(I32)  # of every name of a size
_EXTREMES = {"min": minimum, "max": maximum}


# ── introducing the variables that a declaration mentions ───────────────────────────────────────────────────────────────


def introduce(inf: Inference, scope: Scope, mentioned: Mentions, rigid: bool) -> None:
    """Bind what annotations mention and nothing in scope defines: rigid in a `fun`, to be found in a `val`."""
    state = inf.state
    for name, span in mentioned.dims.items():
        known = scope.value(name)
        if isinstance(known, ValueName) and known.is_dimension:
            continue
        symbol = bind_dimension(inf, scope, name, span, rigid)
        if rigid:
            inf.introduced.append((symbol, span))
    for name in mentioned.rows:
        if scope.run(name) is None:
            row = state.row(name)
            if rigid:
                state.rigid.add(row.symbol)
            scope.runs[name] = RunName(row)
    for name in mentioned.variables:
        if scope.variable(name) is None:
            variable: ElementType | TypeVar
            variable = state.type_var(name[1:]) if name[1].isupper() else state.element_var(name=name[1:])
            if rigid:
                state.rigid.add(variable.symbol)
            scope.variables[name] = variable


def bind_dimension(inf: Inference, scope: Scope, name: str, span: Span, rigid: bool) -> Symbol:
    """A dimension variable with its name in scope as an i32."""
    if rigid:
        symbol = fresh(name)
        inf.state.levels[symbol] = inf.state.level
        inf.state.rigid.add(symbol)
    else:
        found = inf.state.dim(name, named=True).symbol
        assert found is not None
        symbol = found
        inf.opened_names.append(symbol)
    scope.values[name] = ValueName(symbol, _SIZE, span, Dim.of(symbol), is_dimension=True)
    return symbol


# ── types ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_type(inf: Inference, scope: Scope, t: S.Type, expanding: tuple[Alias, ...] = ()) -> Type:
    match t:
        case S.TypeName():
            return _named(inf, scope, t, expanding)
        case S.TypeVar(name, args):
            variable = scope.variable(name)
            if isinstance(variable, TypeVar):
                if args is not None:
                    return _malformed(inf, Rule.NO_BRACKETS, t.span, name)
                return variable
            if variable is None:
                wrong(inf, UnknownName("type variable", name, t.span))
                return POISON
            return _tensor(inf, scope, variable, args or ())
        case S.TypeFun(param, result):
            return Function(to_type(inf, scope, param, expanding), to_type(inf, scope, result, expanding))
        case S.TypeTuple(items):
            return TupleType(tuple(to_type(inf, scope, i, expanding) for i in items))
        case S.TypeRecord(fields):
            seen: set[str] = set()
            for name, _ in fields:
                if name.text in seen:
                    return _malformed(inf, Rule.FIELD_LISTED_TWICE, name.span, name.text)
                seen.add(name.text)
            around, found = inf.field_path, []
            for name, f in fields:
                inf.field_path = (*around, name.text)
                inf.written_fields[Span(name.span.file, name.span.start, f.span.end)] = None
                found.append((name.text, to_type(inf, scope, f, expanding)))
            inf.field_path = around
            return RecordType(tuple(found))
        case S.TypeExists(name, bound, body):
            inf.existentials += 1
            inner = scope.child()
            symbol = bind_dimension(inf, inner, name.text, name.span, rigid=True)
            bounds = (Relation(Dim.of(symbol), "<=", to_dim(inf, scope, bound)),) if bound is not None else ()
            return Exists(symbol, bounds, to_type(inf, inner, body, expanding))
        case S.TypeDimFun():
            return _malformed(inf, Rule.DIMENSIONS_INSIDE, t.span)
        case S.TypeOrScalar(whole):
            if t.span not in inf.marked:
                return _malformed(inf, Rule.SCALAR_INSIDE, t.span)
            return to_type(inf, scope, whole, expanding)
        case _:
            assert_never(t)


def _named(inf: Inference, scope: Scope, t: S.TypeName, expanding: tuple[Alias, ...]) -> Type:
    if len(t.name) == 1 and t.name[0].text in _ELEMENTS:
        return _tensor(inf, scope, _ELEMENTS[t.name[0].text], t.args or ())
    alias = _alias(inf, scope, t)
    if alias is None:
        return POISON
    if alias.broken:
        inf.consequences += 1
    if alias.broken or alias.decl in inf.circular:
        return POISON
    if any(alias.decl is known.decl for known in expanding):
        inf.circular.append(alias.decl)
        wrong(inf, RuleBroken(Rule.TYPE_IN_ITSELF, t.span, (alias.decl.name.text,)))
        return POISON
    params, args = alias.decl.params, t.args or ()
    grouped = _grouped(params, args)
    if grouped is None:
        runs = sum(isinstance(p, S.ShapeRun) for p in params)
        least = len(params) - (runs == 1)
        wrong(inf, AliasArguments(alias.decl.name.text, least, runs == 1, len(args), t.span))
        return POISON
    if alias in inf.expanded:
        return inf.expanded[alias]
    inf.expansions += 1
    if inf.expansions >= _MAX_EXPANSIONS:  # the aliases are small, what they stand for is not
        if inf.expansions == _MAX_EXPANSIONS:
            wrong(inf, TypeTooLarge(expanding[0].decl.name.span if expanding else t.span))
        return POISON
    inner = alias.scope.child()
    for param, given in zip(params, grouped, strict=True):
        if not _bind_argument(inf, scope, inner, param, given):
            return POISON
    existentials, within = inf.existentials, inf.within_alias
    inf.within_alias = within or t.span
    found = to_type(inf, inner, alias.decl.type, (*expanding, alias))
    inf.within_alias = within
    if isinstance(found, RecordType):
        found = RecordType(found.fields, Written(alias.decl, tuple(_argument(inner, p) for p in params)))
    if not params and existentials == inf.existentials and not inf.blanks:  # the same everywhere, so uses may share it
        inf.expanded[alias] = found
    return found


def _alias(inf: Inference, scope: Scope, t: S.TypeName) -> Alias | None:
    if len(t.name) == 2:
        owner = scope.value(t.name[0].text)
        if isinstance(owner, BrokenName):
            inf.consequences += 1
            return None
        if not isinstance(owner, ModuleName):
            module = t.name[0]
            if owner is None and inf.importable(module):
                wrong(inf, MissingImport(module.text, module.span))
            else:
                wrong(inf, UnknownName("module", module.text, module.span, tuple(scope.names())))
            return None
        found = owner.module.aliases.get(t.name[1].text)
        if found is None:
            wrong(inf, UnknownMember(owner.module, t.name[1]))
        return found
    name = t.name[0]
    found = scope.alias(name.text)
    if found is None:
        known = [*_ELEMENTS]
        chain: Scope | None = scope
        while chain is not None:
            known += chain.aliases
            chain = chain.parent
        wrong(inf, UnknownName("type", name.text, name.span, tuple(known)))
    return found


def _bind_argument(inf: Inference, outer: Scope, inner: Scope, param: S.TypeArg, given: tuple[S.TypeArg, ...]) -> bool:
    if isinstance(param, S.ShapeRun):
        before = inf.malformed
        row = inf.state.row(param.name)
        inf.state.rows[row.symbol] = _shape(inf, outer, given)
        inner.runs[param.name] = RunName(row)
        return inf.malformed == before
    (arg,) = given
    match param, arg:
        case S.DimName(), S.DimName(other) if _is_element(inf, outer, other, arg.span):
            return False
        case S.DimName(name), S.TypeVar() | S.ShapeRun():
            _malformed(inf, Rule.FOR_A_DIMENSION, arg.span, name)
            return False
        case S.DimName(name), (S.DimName() | S.DimInt() | S.DimNegate() | S.DimBinary() | S.DimCall()) as written:
            dim = to_dim(inf, outer, written)
            inner.values[name] = ValueName(fresh(name), _SIZE, arg.span, dim, is_dimension=True)
            _mentioned(inf, dim, arg.span)
        case S.TypeVar(name), S.TypeVar(other):
            variable = outer.variable(other)
            if variable is None:
                return False
            inner.variables[name] = variable
        case S.TypeVar(name), S.DimName(other) if other in _ELEMENTS:
            inner.variables[name] = _ELEMENTS[other]
        case _:
            _malformed(inf, Rule.ELEMENT_NEEDED, arg.span)
            return False
    return True


def _tensor(inf: Inference, scope: Scope, element: ElementType, args: tuple[S.TypeArg, ...]) -> Type:
    """A tensor; where something in the brackets is no dimension (a comma may be missing), not even the rank is known."""
    before = inf.malformed
    shape = _shape(inf, scope, args)
    return Tensor(element, shape) if inf.malformed == before else POISON


def _shape(inf: Inference, scope: Scope, args: tuple[S.TypeArg, ...]) -> Shape:
    items: list[ShapeItem] = []
    for arg in args:
        match arg:
            case S.ShapeRun(name):
                row = _run(inf, scope, name, arg.span)
                items += inf.state.shape((row if row is not None else inf.state.row(),))
            case S.TypeVar():
                _malformed(inf, Rule.DIMENSION_NEEDED, arg.span)
                items.append(inf.state.dim(""))
            case S.DimName(name) if _is_element(inf, scope, name, arg.span):
                items.append(inf.state.dim(""))
            case _:
                dim = to_dim(inf, scope, arg)
                if dim.constant is not None and not 0 <= dim.constant <= MOST:
                    rule = Rule.NEGATIVE_SIZE if dim.constant < 0 else Rule.LARGE_SIZE
                    wrong(inf, RuleBroken(rule, arg.span, (dim.constant,)))
                _mentioned(inf, dim, arg.span)
                items.append(dim)
    return tuple(items)


def _is_element(inf: Inference, scope: Scope, name: str, span: Span) -> bool:
    """Whether an element type stands where a dimension is needed; says so."""
    if name not in _ELEMENTS or scope.value(name) is not None:
        return False
    _malformed(inf, Rule.ELEMENT_FOR_DIMENSION, span, name)
    inf.malformed += 1
    return True


def _mentioned(inf: Inference, dim: Dim, span: Span) -> None:
    """Note where a size is written: in an annotation itself, or in the type that it names."""
    inf.origins.append((dim, span))
    if inf.within_alias is not None or inf.field_path:
        inf.expanded_origins.append((dim, span, inf.within_alias or span, inf.field_path))


def _run(inf: Inference, scope: Scope, name: str, span: Span) -> Row | None:
    found = scope.run(name)
    if found is None:
        wrong(inf, UnknownName("shape variable", f"..{name}", span))
        return None
    return found.row


def _malformed(inf: Inference, rule: Rule, span: Span, *words: str) -> Type:
    wrong(inf, RuleBroken(rule, span, words))
    return POISON


# ── dimensions and facts ────────────────────────────────────────────────────────────────────────────────────────────────


def to_dim(inf: Inference, scope: Scope, d: S.Dim, context: Context | None = None) -> Dim:
    """The dimension; reports a name that is not one (and gives a fresh one in its place). `context` is where a call gives it: there
    it is computed, and what it divides by must be at least 1. In a type, that is said by whatever is of the type."""
    if inf.blanks and d.span in inf.blanks:
        return left_blank(inf, scope, d.span)
    try:
        return _to_dim(inf, Env(scope, context or NOWHERE), d, context is not None)
    except (DimensionTooLarge, ZeroDivisionError):
        too_complex(inf, d.span)
        return inf.state.dim("")


def left_blank(inf: Inference, scope: Scope, span: Span) -> Dim:
    """An unknown in the place of what is written."""
    found = blank(inf.state, scope, span)
    inf.blanks[span].append(found)
    return found.size


def _to_dim(inf: Inference, env: Env, d: S.Dim, computed: bool) -> Dim:
    scope = env.scope
    match d:
        case S.DimInt(value):
            return Dim.of(value)
        case S.DimName(name):
            found = scope.value(name)
            if isinstance(found, ValueName) and found.dim is not None:
                return found.dim
            if isinstance(found, ValueName) and (size := _bound_to_size(inf, found, d.span)) is not None:
                return size
            if found is None:
                known = (n for n in scope.names() if isinstance(v := scope.value(n), ValueName) and v.dim is not None)
                wrong(inf, UnknownName("dimension", name, d.span, tuple(known), around(inf)))
                if inf.heading:
                    scope.values[name] = BrokenName()  # its other mentions say nothing new
            elif not isinstance(found, BrokenName):
                wrong(inf, NotADimension(f"`{name}`", d.span, found, around(inf)))
            return inf.state.dim("")
        case S.DimNegate(operand):
            return -_to_dim(inf, env, operand, computed)
        case S.DimBinary(op, left, right):
            a, b = (_to_dim(inf, env, side, computed) for side in (left, right))
            if op in "/%" and b.constant is not None and b.constant < 1:
                wrong(inf, RuleBroken(Rule.DIVISOR, right.span, (b.constant,)))
                return inf.state.dim("")
            if op in "/%" and (computed or any(c < 0 for c, _ in b.terms)):  # of others, that they are not 0 says it
                _needs_divisor(inf, env, b, right.span)
            match op:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*":
                    return a * b
                case "/":
                    return a // b
                case _:
                    return a % b
        case S.DimCall(function, args):
            entity = scope.value(function.text)
            if isinstance(entity, BuiltinName) and entity.name in _EXTREMES and len(args) == 2:
                return _EXTREMES[entity.name](*(_to_dim(inf, env, arg, computed) for arg in args))
            if isinstance(entity, BrokenName):
                inf.consequences += 1
                return inf.state.dim("")
            if not isinstance(entity, ValueName) or entity.is_dimension:
                wrong(inf, RuleBroken(Rule.MADE_OF, d.span))
                inf.malformed += 1
                return inf.state.dim("")
            e = _as_expression(d)
            return to_size(inf, env, e, infer(inf, env, e))
        case _:
            assert_never(d)


def _as_expression(d: S.Dim) -> S.Expr:
    match d:
        case S.DimName(name):
            return S.Var(name, span=d.span)
        case S.DimInt(value):
            return S.Int(value, span=d.span)
        case S.DimNegate(operand):
            return S.Unary("-", _as_expression(operand), span=d.span)
        case S.DimBinary(op, left, right):
            between = Span(d.span.file, left.span.end, right.span.start)
            return S.Binary(op, _as_expression(left), _as_expression(right), between, span=d.span)
        case S.DimCall(function, args):
            whole: S.Expr = S.Var(function.text, span=function.span)
            for arg in args:
                whole = S.Apply(whole, _as_expression(arg), span=d.span)
            return whole
        case _:
            assert_never(d)


def to_size(inf: Inference, env: Env, e: S.Expr, value: T.Expr) -> Dim:
    """The size that an expression is; reports one that is none (and gives a fresh one in its place)."""
    if isinstance(inf.state.prune(value.type), Poison):
        return inf.state.dim("")
    try:
        clash(inf, value.type, I32, Reason(e.span, "a size is an i32"))  # what has another type is none
        known = evaluated(inf, value)
    except DimensionTooLarge:
        too_complex(inf, e.span)
        return inf.state.dim("")
    if known.size is None:
        if not _divides_by_none(inf, known.impossible):
            entity = env.scope.value(e.name) if isinstance(e, S.Var) else None
            wrong(inf, NotADimension(f"`{e.span.excerpt}`", e.span, entity, around(inf), value))
        return inf.state.dim("")
    for divisor in known.divisors:
        _needs_divisor(inf, env, divisor.size, divisor.where)
    return known.size


def divides_by_none(inf: Inference, value: T.Expr) -> None:
    """Report a number below 1 by which an integer expression divides."""
    with suppress(DimensionTooLarge):
        _divides_by_none(inf, [divisor for divisor in evaluated(inf, value).impossible if not divisor.called])


def _divides_by_none(inf: Inference, impossible: Sequence[Divisor]) -> bool:
    for divisor in impossible[:1]:
        rule = Rule.DIVISOR_OF_FUNCTION if divisor.called else Rule.DIVISOR
        wrong(inf, RuleBroken(rule, divisor.where, (divisor.size.constant or 0,)))
    return bool(impossible)


def _needs_divisor(inf: Inference, env: Env, size: Dim, at: Span) -> None:
    oblige(inf.state, Relation(size, ">=", Dim.of(1)), env.context, Reason(at, "the divisor must be at least 1: {}"))


def _bound_to_size(inf: Inference, entity: ValueName, at: Span) -> Dim | None:
    """The size that a `val` names, whose type may not be known yet."""
    t = inf.state.prune(entity.scheme.type)
    if entity.symbol not in inf.values or clash(inf, t, I32, Reason(at, "a size is an i32")) is not None:
        return None
    return size_of(inf, T.Variable(entity.symbol, None, type=I32, span=at))


def around(inf: Inference) -> S.Fun | None:
    """The function that is being declared."""
    return inf.heading[-1] if inf.heading else None


def to_facts(inf: Inference, scope: Scope, facts: tuple[S.Fact, ...]) -> list[tuple[Relation, Span]]:
    return [(Relation(to_dim(inf, scope, f.left), f.relation, to_dim(inf, scope, f.right)), f.span) for f in facts]


def _argument(inner: Scope, param: S.TypeArg) -> Tensor:
    """What the parameter of an alias stands for in the scope of its type, which it is bound in."""
    match param:
        case S.DimName(name):
            known = inner.values[name]
            assert isinstance(known, ValueName)
            assert known.dim is not None
            return Tensor(I32.element, (known.dim,))
        case S.ShapeRun(name):
            return Tensor(I32.element, (inner.runs[name].row,))
        case S.TypeVar(name):
            element = inner.variables[name]
            assert not isinstance(element, TypeVar)
            return Tensor(element, ())
        case _:
            raise AssertionError(param)


def _grouped(params: tuple[S.TypeArg, ...], args: tuple[S.TypeArg, ...]) -> list[tuple[S.TypeArg, ...]] | None:
    """The arguments of each parameter of an alias; None where their number is wrong.

    A lone shape variable takes whatever the other parameters leave, and so any number of dimensions: of `type linear[..s, d, k]`,
    `linear[d, k]` is one layer and `linear[n, d, k]` a stack of n.
    """
    runs = [at for at, param in enumerate(params) if isinstance(param, S.ShapeRun)]
    more = len(args) - len(params)
    if more and (len(runs) != 1 or more < -1):
        return None
    taken = [1 + more * (at in runs) for at in range(len(params))]
    rest = iter(args)
    return [tuple(islice(rest, n)) for n in taken]


# ── what the annotations of a declaration mention ───────────────────────────────────────────────────────────────────────


class Mentions:
    """The dimension, shape and type variables in the annotations of a declaration, outside the declarations inside it."""

    def __init__(self) -> None:
        self.dims: dict[str, Span] = {}
        self.rows: dict[str, Span] = {}
        self.variables: dict[str, Span] = {}

    def type(self, t: S.Type) -> None:
        match t:
            case S.TypeName(_, args) | S.TypeVar(_, args):
                if isinstance(t, S.TypeVar):
                    self.variables.setdefault(t.name, t.span)
                for arg in args or ():
                    match arg:
                        case S.ShapeRun(run):
                            self.rows.setdefault(run, arg.span)
                        case S.TypeVar(variable):
                            self.variables.setdefault(variable, arg.span)
                        case S.DimName(element) if element in _ELEMENTS:
                            pass
                        case _:
                            self.dim(arg)
            case S.TypeFun(param, result):
                self.type(param)
                self.type(result)
            case S.TypeDimFun(_, result):
                self.type(result)
            case S.TypeOrScalar(whole):
                self.type(whole)
            case S.TypeExists(name, bound, body):
                before = dict(self.dims)
                self.type(body)
                if name.text not in before:
                    self.dims.pop(name.text, None)
                if bound is not None:
                    self.dim(bound)
            case S.TypeTuple(items):
                for item in items:
                    self.type(item)
            case S.TypeRecord(fields):
                for _, item in fields:
                    self.type(item)

    def dim(self, d: S.Dim) -> None:
        match d:
            case S.DimName(name):
                self.dims.setdefault(name, d.span)
            case S.DimNegate(operand):
                self.dim(operand)
            case S.DimBinary(_, left, right):
                self.dim(left)
                self.dim(right)
            case S.DimCall(_, args):
                for arg in args:
                    self.dim(arg)

    def pattern(self, p: S.Param) -> None:
        match p:
            case S.PatternTyped(inner, t):
                self.pattern(inner)
                self.type(t)
            case S.PatternTuple(items):
                for item in items:
                    self.pattern(item)
            case S.PatternRecord(fields):
                for _, item in fields:
                    self.pattern(item)

    def expr(self, e: S.Expr) -> None:
        """The annotations inside an expression, but not those of `fun` and `val` declarations in it."""
        stack: list[object] = [e]
        while stack:
            match stack.pop():
                case S.Ascribe(value, t) | S.Coerce(value, t):
                    self.type(t)
                    stack.append(value)
                case S.Fn(params, body):
                    for p in params:
                        self.pattern(p)
                    stack.append(body)
                case S.Cast(element, value):
                    if element.text.startswith("'"):
                        self.variables.setdefault(element.text, element.span)
                    stack.append(value)
                case S.Let(decls, body):
                    self._let(decls, body)
                case S.Loop(_, states, condition, groups, body):
                    for p, init in states:
                        self.pattern(p)
                        stack.append(init)
                    stack += (condition, *groups, body)
                case S.Node() as node if not isinstance(node, (S.Val, S.Fun, S.TypeDecl, S.Sig, S.Import)):
                    stack += _children(node)
                case tuple() as items:
                    stack += items

    def _let(self, decls: tuple[S.Decl, ...], body: S.Expr) -> None:
        """What a `let` mentions; a size that one of its `val`s names belongs to the rest of the `let`."""
        own = Mentions()
        inside = Mentions()
        for decl in decls:
            if isinstance(decl, S.Val):
                own.pattern(decl.pattern)
                if not isinstance(stripped(decl.value), S.Fn):  # which quantifies over what it mentions, as a `fun` does
                    inside.expr(decl.value)
                inside._leave(own, self)
        inside.expr(body)
        inside._leave(own, self)

    def _leave(self, own: Mentions, outer: Mentions) -> None:
        """Move what is not a size of the `let`'s own to what stands around it."""
        for name, span in self.dims.items():
            if name not in own.dims:
                outer.dims.setdefault(name, span)
        for name, span in self.rows.items():
            outer.rows.setdefault(name, span)
        for name, span in self.variables.items():
            outer.variables.setdefault(name, span)
        self.dims, self.rows, self.variables = {}, {}, {}


def stripped(e: S.Expr) -> S.Expr:
    while isinstance(e, S.Ascribe):
        e = e.value
    return e


_names: dict[type, tuple[str, ...]] = {}  # of the fields of a class of nodes that may hold others


def _children(node: S.Node) -> list[object]:
    names = _names.get(type(node))
    if names is None:
        names = _names[type(node)] = tuple(f.name for f in fields(node) if f.name not in ("span", "op_span"))
    return [getattr(node, name) for name in names]


# ── what is known of a `fun` before its body ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """`own` are the names of sizes in the annotations below a `sig`, `signed` is where the names of that are."""

    explicit: tuple[Symbol, ...]
    facts: tuple[tuple[Relation, Span], ...]
    declared: Type | None = None
    own: tuple[str, ...] = ()
    signed: Scope | None = None


def header_of(inf: Inference, scope: Scope, d: S.Fun, sig: S.Sig | None) -> Header:
    """Introduce the variables that a function's annotations and its `sig` mention, in the scope of the function, which is new."""
    groups = [p for p in d.params if isinstance(p, S.DimParams)]
    if groups and not isinstance(d.params[0], S.DimParams):
        names = ", ".join(n.text for group in groups for n in group.names)
        wrong(inf, RuleBroken(Rule.DIMENSIONS_FIRST, groups[0].span, (d.name.text, names)))
    if len(groups) > 1:
        wrong(inf, RuleBroken(Rule.DIMENSIONS_TOGETHER, groups[1].span))
    braced = [name for group in groups for name in group.names]
    mentions = Mentions()
    for p in d.params:
        mentions.pattern(p)
    if d.result is not None:
        mentions.type(d.result)
    if sig is None:
        explicit = _explicit(inf, scope, braced)
        mentions.expr(d.body)
        introduce(inf, scope, mentions, rigid=True)
        return Header(explicit, tuple(to_facts(inf, scope, d.where)))
    outer = scope.parent
    assert outer is not None
    annotated, signed = outer.child(), outer.child()
    scope.parent = signed
    written, stated = sig.type, list[S.Name]()
    while isinstance(written, S.TypeDimFun):
        stated += written.names
        written = written.result
    explicit = _explicit(inf, signed, [*stated, *braced[len(stated) :]])
    for name, symbol in zip(braced, explicit, strict=False):
        annotated.values[name.text] = ValueName(symbol, _SIZE, name.span, Dim.of(symbol), is_dimension=True)
    introduce(inf, annotated, mentions, rigid=False)
    of_sig, of_body = Mentions(), Mentions()
    of_sig.type(written)
    introduce(inf, signed, of_sig, rigid=True)
    scope.values.update(annotated.values)
    scope.runs.update(annotated.runs)
    scope.variables.update(annotated.variables)
    of_body.expr(d.body)
    introduce(inf, scope, of_body, rigid=True)
    facts = (*to_facts(inf, scope, d.where), *to_facts(inf, signed, sig.where))
    return Header(explicit, facts, to_type(inf, signed, written), tuple(mentions.dims), signed)


def _explicit(inf: Inference, scope: Scope, names: Sequence[S.Name]) -> tuple[Symbol, ...]:
    explicit: list[Symbol] = []
    for name in names:
        if any(s.name == name.text for s in explicit):
            wrong(inf, RuleBroken(Rule.DIMENSION_PARAMETER_TWICE, name.span, (name.text,)))
            continue
        explicit.append(bind_dimension(inf, scope, name.text, name.span, rigid=True))
    return tuple(explicit)


def agree(inf: Inference, stated: Type, annotated: Type, at: Span, written: Span) -> None:
    """Let what an annotation says be what the `sig` states there; from then on its names are those of the `sig`."""
    state, before = inf.state, len(inf.state.equals)
    sides = (Side(at, "the `sig` has {}"), Side(written, "the annotation has {}"))
    reason = Reason(written, "the annotation must say what the `sig` states", sides)
    found = clash(inf, stated, annotated, reason)
    for equal in state.equals[before:]:
        own, size = state.dimension(equal.right).symbol, state.dimension(equal.left)
        if own is not None and own not in state.rigid and own not in size.variables:
            state.dims[own] = size
    if found is not None:
        wrong(inf, Mismatched(found, stated, annotated, reason))


def met(inf: Inference, scope: Scope, header: Header) -> list[tuple[Relation, Span]]:
    """The facts that both state, when all types have met; the names that are in scope stand for what was found."""
    state, signed = inf.state, header.signed
    if signed is None:
        return list(header.facts)
    names = {name: e for name in header.own if isinstance(e := scope.values.get(name), ValueName) and e.is_dimension}
    for name, entity in names.items():
        same = signed.values.get(name)
        taken = {state.dimension(Dim.of(e.symbol)).symbol for e in names.values()}
        if entity.symbol in taken - state.rigid and isinstance(same, ValueName) and same.symbol not in taken:  # a part of a product
            state.dims[entity.symbol] = Dim.of(same.symbol)
        size = state.dimension(Dim.of(entity.symbol))
        scope.values[name] = replace(entity, symbol=size.symbol or entity.symbol, dim=size)
    return [(Relation(state.dimension(r.left), r.op, state.dimension(r.right)), span) for r, span in header.facts]


def note_sig(inf: Inference, sig: S.Sig | None, params: tuple[S.Pattern, ...], result: S.Type | None) -> None:
    """Where the `sig` writes the type of each parameter, and of an annotated result."""
    if sig is None:
        return
    written = sig.type
    while isinstance(written, S.TypeDimFun):
        written = written.result
    for param in params:
        if isinstance(written, S.TypeFun):
            inf.signed[param.span] = written.param.span
            written = written.result
    if result is not None:
        inf.signed[result.span] = written.span
    inf.annotations.append(sig.span)


def parameter_types(
    inf: Inference, declared: Type | None, params: tuple[S.Pattern, ...], d: S.Fun, sig: S.Sig | None
) -> tuple[list[Type], Type | None]:
    """The types of the parameters as far as the `sig` says them, and that of the result."""
    types: list[Type] = []
    rest = declared
    for param in params:
        if rest is None or isinstance(rest, Poison):
            types.append(inf.state.type_var())
            continue
        rest = inf.state.prune(rest)
        if not isinstance(rest, Function):
            assert sig is not None
            wrong(inf, RuleBroken(Rule.PARAMETERS_OF_SIG, param.span, (d.name.text,), sig.name.span))
            types.append(POISON)
            rest = POISON
            continue
        types.append(rest.param)
        rest = rest.result
    return types, rest
