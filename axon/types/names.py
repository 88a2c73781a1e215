"""Names as expressions: values, functions with their dimension arguments, members of modules, functions of the language; and the
sizes that only the data decide, which a use opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from axon.base.element import FLOAT, NUM, Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.chance.model import Model
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import Relation
from axon.types import builtins
from axon.types import typed as T
from axon.types.annotate import Mentions, introduce, to_dim, to_type
from axon.types.generalize import quantify
from axon.types.inference import Env, Inference, broken, infer, instantiate, instantiate_type, oblige, too_complex, wrong
from axon.types.resolve import BrokenName, BuiltinName, Entity, ModelName, Module, ModuleName, Scope, ValueName
from axon.types.trouble import (
    DimsMissing,
    DimsWrong,
    MissingImport,
    NotOfModel,
    Rule,
    RuleBroken,
    RunAsValue,
    Trouble,
    UnknownMember,
    UnknownValue,
)
from axon.types.type import Derivative, Exists, Poison, Scheme, Tensor, Type, function, scalar
from axon.types.unify import State


def infer_variable(inf: Inference, env: Env, e: S.Var, dims: tuple[S.Dim, ...] | None = None, span: Span | None = None) -> T.Expr:
    entity = env.scope.value(e.name)
    if entity is None:
        if env.scope.run(e.name) is not None:
            wrong(inf, RunAsValue(e.name, e.span, tuple(env.scope.names())))
        else:
            wrong(inf, _unknown_value(inf, env, e))
        return broken(e.span)
    return _infer_entity(inf, env, entity, e.name, e.span, dims, span or e.span)


def _unknown_value(inf: Inference, env: Env, e: S.Var) -> Trouble:
    """Why a name is not known: it is defined further down, it is a module, or it is misspelt."""
    name, span = e.name, e.span
    if name in inf.defining:
        return RuleBroken(Rule.USES_ITSELF, span, (name,))
    if name in inf.later:
        return RuleBroken(Rule.DEFINED_BELOW, span, (name,), inf.later[name])
    if span.file.text.startswith(".", span.end) and inf.importable(S.Name(name, span)):
        return MissingImport(name, span)
    if name in inf.ended:
        index = inf.ended[name]
        later = index.file is span.file and index.start > span.start
        return RuleBroken(Rule.COUNTER_IN_CONDITION if later else Rule.INDEX_ENDED, span, (name,), index)
    if name in inf.private:
        owner, at = inf.private[name]
        return RuleBroken(Rule.SIZE_OF_ANOTHER, span, (name, owner), at)
    return UnknownValue(name, span, env.scope, tuple(inf.library(name, span)))


def _infer_entity(
    inf: Inference, env: Env, entity: Entity, name: str, at: Span, dims: tuple[S.Dim, ...] | None, span: Span
) -> T.Expr:
    match entity:
        case BrokenName():
            inf.consequences += 1
            return broken(span)
        case ModuleName():
            wrong(inf, RuleBroken(Rule.MODULE_AS_VALUE, at, (name,)))
            return broken(span)
        case ModelName():
            wrong(inf, RuleBroken(Rule.MODEL_AS_VALUE, at, (name,)))
            return broken(span)
        case BuiltinName(builtin):
            if dims is not None:
                wrong(inf, DimsWrong(name, (), len(dims), span))
            return _builtin(inf, env, builtin, span)
        case ValueName(literal=int() as literal) if dims is None:
            return infer(inf, env, S.Int(literal, span=span))
        case ValueName(symbol, scheme, _, dim):
            if entity.by_default:
                inf.defaults.append((span, entity))
            if dim is not None and dims is None:
                return T.Dimension(dim, type=scheme.type, span=span)
            explicit = tuple(s.name for s in scheme.explicit)
            if dims is None and explicit:
                wrong(inf, DimsMissing(name, explicit, span))
                return broken(span)
            if dims is not None and len(dims) != len(explicit):
                wrong(inf, DimsWrong(name, explicit, len(dims), span))
                return broken(span)
            if scheme.scalars:
                inf.scalars[symbol] = scheme.scalars
            if scheme.definition is not None:
                inf.used.add(symbol, scheme.definition)
            if not scheme.quantified:
                inf.consequences += isinstance(inf.state.prune(scheme.type), Poison)
                return open_size(inf, env, T.Variable(symbol, None, type=scheme.type, span=span))
            if scheme.opens and env.repeated:
                existential_under_for(inf, span)
                return broken(span)
            inf.opened += scheme.opens
            given = tuple(_given_dim(inf, env, d) for d in dims or ())
            for parameter, size, d in zip(explicit, given, dims or (), strict=True):
                text = f"the dimension parameter `{parameter}` cannot be negative: {{}}"
                oblige(inf.state, Relation(size, ">=", Dim.of(0)), env.context, Reason(d.span, text))
            instance = instantiate(inf, scheme, span, name, env.context, given)
            try:
                t = instantiate_type(inf.state, scheme.type, instance)
            except DimensionTooLarge:
                too_complex(inf, span)
                return broken(span)
            return T.Variable(symbol, instance, type=t, span=span)
        case _:
            assert_never(entity)


def _given_dim(inf: Inference, env: Env, d: S.Dim) -> Dim:
    dim = to_dim(inf, env.scope, d, env.context)
    indices = {s for s, _ in env.context.indices}
    if dim.variables & indices:
        name = min(dim.variables & indices, key=lambda s: s.id).name
        wrong(inf, RuleBroken(Rule.DIMENSION_BY_INDEX, d.span, (name,)))
        return inf.state.dim("")
    return dim


def _builtin(inf: Inference, env: Env, name: str, span: Span) -> T.Expr:
    if name in builtins.CONSTANTS:
        value = builtins.CONSTANTS[name]
        t = scalar(Element.BOOL) if isinstance(value, bool) else scalar(inf.state.element_var(FLOAT))
        return T.Literal(value, type=t, span=span)
    if name in builtins.OVER_LEAVES:
        wrong(inf, RuleBroken(Rule.LEAVES_OF_NOTHING, span, (name, builtins.OVER_LEAVES[name])))
        return broken(span)
    if name in builtins.UNARY or name in builtins.BINARY:
        allowed = builtins.UNARY.get(name) or builtins.BINARY[name]
        t = inf.state.tensor(allowed)
        count = 1 if name in builtins.UNARY else 2
        return T.Builtin(name, type=function((t,) * count, t), span=span)
    scheme = builtin_scheme(inf, name)
    instance = instantiate(inf, scheme, span, name, env.context)
    if name in builtins.DERIVATIVES:
        inf.derivatives += [Derivative(t, name, span, s.name != "A") for s, t in instance.types.items()]
        inf.derivatives += [Derivative(scalar(e), name, span, of=True) for e in instance.elements.values()]
    return T.Builtin(name, type=instantiate_type(inf.state, scheme.type, instance), span=span)


def infer_operator(inf: Inference, op: str, span: Span) -> T.Expr:
    if op == "@":
        element = inf.state.element_var(NUM)
        row, i, k, j = inf.state.row(), inf.state.dim("i"), inf.state.dim("k"), inf.state.dim("j")
        left, right, out = (Tensor(element, (row, a, b)) for a, b in ((i, k), (k, j), (i, j)))
        return T.Builtin("matmul", type=function((left, right), out), span=span)
    name, allowed, gives_bool = builtins.OPERATORS[op]
    t = inf.state.tensor(allowed)
    if name == "div":
        inf.divided.append(t.element)
    result = Tensor(Element.BOOL, t.shape) if gives_bool else t
    return T.Builtin(name, type=function((t, t), result), span=span)


def member_of(inf: Inference, env: Env, e: S.Field, dims: tuple[S.Dim, ...] | None, span: Span) -> T.Expr | None:
    """A member of a module or of a model, `nn.gelu`, `schools.prior`, `lib.schools.prior`; None of what is a record."""
    match e.record:
        case S.Var(name):
            match env.scope.value(name):
                case ModuleName(module):
                    return infer_member(inf, env, module, e.name, dims, span)
                case ModelName(model):
                    return _of_model(inf, env, model, env.scope.value, "", e.name, dims, span)
        case S.Field(S.Var(owner), of):
            found = env.scope.value(owner)
            model_name = found.module.values.get(of.text) if isinstance(found, ModuleName) else None
            if isinstance(found, ModuleName) and isinstance(model_name, ModelName):
                inf.modules.setdefault(owner, found.module)
                return _of_model(inf, env, model_name.model, found.module.values.get, f"{owner}.", e.name, dims, span)
    return None


def named_model(scope: Scope, e: S.Expr) -> Model | None:
    """The model that an expression names."""
    match e:
        case S.Var(name):
            entity = scope.value(name)
        case S.Field(S.Var(owner), member) if isinstance(module := scope.value(owner), ModuleName):
            entity = module.module.values.get(member.text)
        case _:
            return None
    return entity.model if isinstance(entity, ModelName) else None


_DISTRIBUTIONS = "stdlib/dist.axon"


def distribution(scope: Scope, e: S.Expr) -> str | None:
    """The function of the library's `dist` that an expression names."""
    match e:
        case S.Field(S.Var(owner), member) if isinstance(module := scope.value(owner), ModuleName):
            entity = module.module.values.get(member.text)
            ours = isinstance(entity, ValueName) and entity.span.file.path == _DISTRIBUTIONS
            return member.text if ours else None
        case _:
            return None


def _of_model(
    inf: Inference, env: Env, model: Model, value: Callable[[str], Entity | None], prefix: str, function: S.Name,
    dims: tuple[S.Dim, ...] | None, span: Span,
) -> T.Expr:  # fmt: skip
    """A function of a model; `value` says what a name stands for where the model is declared."""
    name = f"{model.name}.{function.text}"
    entity = value(name) if function.text in model.functions else None
    if entity is None:
        wrong(inf, NotOfModel(model, function))
        return broken(span)
    return _infer_entity(inf, env, entity, prefix + name, function.span, dims, span)


def infer_member(inf: Inference, env: Env, module: Module, name: S.Name, dims: tuple[S.Dim, ...] | None, span: Span) -> T.Expr:
    entity = module.values.get(name.text)
    if entity is None:
        wrong(inf, UnknownMember(module, name))
        return broken(span)
    inf.modules.setdefault(span.text.partition(".")[0].strip(), module)
    return _infer_entity(inf, env, entity, f"{module.name}.{name.text}", name.span, dims, span)


def builtin_scheme(inf: Inference, name: str) -> Scheme:
    """The scheme of a function of the language, from its signature in the table."""
    from axon.base.source import SourceFile
    from axon.grammar.parse import parse_type
    from axon.types import builtins

    if name not in inf.builtin_schemes:
        written, problems = parse_type(SourceFile(f"<{name}>", builtins.FUNCTIONS[name]))
        assert written is not None, problems
        scope = Scope()
        mentions = Mentions()
        mentions.type(written)
        inf.state.level += 1
        introduce(inf, scope, mentions, rigid=False)
        t = to_type(inf, scope, written)
        inf.state.level -= 1
        inf.builtin_schemes[name] = quantify(inf.state, t, (), ())
    return inf.builtin_schemes[name]


# ── sizes that only the data decide ───────────────────────────────────────────────────────────────────────────────────────


def existential_under_for(inf: Inference, span: Span) -> None:
    wrong(inf, RuleBroken(Rule.OPENED_REPEATEDLY, span))


def open_size(inf: Inference, env: Env, e: T.Expr) -> T.Expr:
    """Name the size of a value whose size only the data decide."""
    t = inf.state.prune(e.type)
    if not isinstance(t, Exists):
        return e
    if env.repeated:
        existential_under_for(inf, e.span)
        return broken(e.span)
    inf.opened += 1
    symbol = _data_size(inf.state, t)
    instance = T.Instance({}, {}, {}, {t.symbol: Dim.of(symbol)})
    opened: T.Expr = T.Open(e, symbol, t.symbol, type=instantiate_type(inf.state, t.body, instance), span=e.span)
    return open_size(inf, env, opened)


def packed(state: State, t: Type, sizes: tuple[Symbol, ...]) -> Type:
    """The type with those of the sizes that it mentions under `?k`: each call of a function decides them anew."""
    mentioned = set(state.parts(t, set()))
    for symbol in reversed([s for s in sizes if s in mentioned]):
        t = Exists(symbol, state.data_sizes[symbol], t)
    return t


def _data_size(state: State, t: Exists) -> Symbol:
    symbol = fresh(state.called.get(t.symbol, t.symbol.name))
    state.levels[symbol] = state.level
    image = {t.symbol: Dim.of(symbol)}
    state.data_sizes[symbol] = tuple(b.substitute(image) for b in t.bounds)
    return symbol
