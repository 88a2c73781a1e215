"""What every part of inference shares: its state, what it says is wrong, unification that reports, and the uses of schemes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Protocol, TypeAlias

from axon.base.data import dataclass, field, replace
from axon.base.diagnostics import Diagnostic
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.algebra.divisibility import is_divisibility
from axon.shapes.constraint import NOWHERE, Context, Equal, Obligation, Range, Reason, Side
from axon.shapes.dimension import Dim, DimensionTooLarge, atom_key
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.types import typed as T
from axon.types.constraint import Deferred
from axon.types.holes import Blank
from axon.types.literals import Literal, of_use
from axon.types.resolve import Alias, Module, Scope, ValueName
from axon.types.trouble import Mismatched, Operand, Rule, RuleBroken, Trouble
from axon.types.type import (
    POISON,
    Derivative,
    ElementType,
    ElementVar,
    Exists,
    Function,
    OrScalar,
    Poison,
    RecordType,
    Row,
    Scheme,
    SchemeFact,
    Shape,
    ShapeItem,
    Tensor,
    TupleType,
    Type,
    TypeVar,
)
from axon.types.typed import Instance
from axon.types.unify import Mismatch, State


@dataclass(frozen=True, slots=True)
class Binding:
    """An index: its range, and the text that binds it, with its bound."""

    range: Range
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """What a scheme keeps of its function, for who follows a size into it when something is wrong (`axon.suggest.bodies`)."""

    by: Inference  # which inferred it
    name: str  # "" of one within a declaration
    outermost: bool  # no declaration stands around it
    type: Type
    explicit: tuple[Symbol, ...]
    params: tuple[T.Pattern, ...]
    expr: T.Expr
    equals: tuple[Equal, ...]
    flexible: tuple[Symbol, ...]
    made: dict[tuple[int, int, tuple[int | str, ...]], object] = field(default_factory=dict)  # what has been found of its result

    def whole(self) -> Body:
        return self

    def written(self) -> tuple[tuple[T.Pattern, ...], T.Expr]:
        return self.params, self.expr

    def inside(self, function: Symbol) -> Definition | None:
        return self.by.used.definition(function)


class Definition(Protocol):
    """The body of a function, found when it is asked for."""

    def whole(self) -> Body:
        """What an inference keeps of it; of a module that was read, a check is made for it."""

    def written(self) -> tuple[tuple[T.Pattern, ...], T.Expr]:
        """Its parameters and its expression, over the sizes of its scheme."""

    def inside(self, function: Symbol) -> Definition | None:
        """Of a function that its expression uses."""


class Bodies:
    """The definitions of functions that are used."""

    def __init__(self) -> None:
        self._of: dict[Symbol, Definition] = {}

    def add(self, function: Symbol, definition: Definition) -> None:
        self._of[function] = definition

    def __contains__(self, function: Symbol) -> bool:
        return function in self._of

    def __getitem__(self, function: Symbol) -> Body:
        return self._of[function].whole()

    def get(self, function: Symbol) -> Body | None:
        found = self._of.get(function)
        return found.whole() if found is not None else None

    def definition(self, function: Symbol) -> Definition | None:
        return self._of.get(function)


@dataclass(frozen=True, slots=True)
class Says:
    """What a condition says about sizes and indices. `exact`: that is all; what it says about data does not matter.

    `alternatives`: what says that one of several comparisons holds, as one relation, and how many those are.
    """

    facts: tuple[Relation, ...] = ()
    exact: bool = True
    alternatives: tuple[tuple[Relation, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Env:
    """Where an expression stands: the names in scope, and what is known about sizes there."""

    scope: Scope
    context: Context = NOWHERE
    repeated: bool = False  # under a comprehension, reduction or loop, where no existential can be opened

    def within(self, scope: Scope) -> Env:
        return replace(self, scope=scope)

    def guarded(self, by: Says) -> Env:
        """Under a condition that says this."""
        c = self.context
        guards = (*c.guards, *by.facts, *(relation for relation, _ in by.alternatives))
        return replace(self, context=Context(c.indices, guards, c.conditions + 1, c.doubtful or not by.exact))

    def indexed(self, indices: tuple[tuple[Symbol, Dim], ...], scope: Scope) -> Env:
        c = self.context
        return Env(scope, replace(c, indices=c.indices + indices), True)


Words: TypeAlias = "Callable[[Inference, Trouble], None]"  # puts what is to be said of a trouble among the diagnostics

Expression: TypeAlias = "Callable[[Inference, Env, S.Expr, Type | None], T.Expr]"


@dataclass(slots=True, eq=False)
class Inference:
    """What is known while one module is inferred. The functions of this folder read and extend it; none of it is shared."""

    words: Words
    expression: Expression  # the whole of `infer`, which its parts call for what they consist of
    state: State = field(default_factory=State)
    deferred: list[Deferred] = field(default_factory=list)
    applied: list[tuple[tuple[Type, ...], Type]] = field(default_factory=list)  # parameters: to what, and what comes of it
    bodies: list[Type] = field(default_factory=list)  # of `for` and reductions, which an operation makes
    operands: list[Row] = field(default_factory=list)  # the shapes of what was found to be tensors by being operands
    runs: list[Row] = field(default_factory=list)  # what `..` stands for in accesses and binders
    like: dict[RecordType, RecordType] = field(default_factory=dict)  # what `each` gives, and the written record that it may be
    local: dict[Symbol, tuple[S.Fun, Scope]] = field(default_factory=dict)  # functions within this declaration, as they are written
    leaves: dict[Deferred, str] = field(default_factory=dict)  # what waits, of a leaf at which `each` applies a function
    made_at: list[tuple[str, Type, tuple[Type, ...]]] = field(default_factory=list)  # what such a function gives at a leaf, of what
    guards: dict[Deferred, Context] = field(default_factory=dict)  # where those are needed, if not everywhere
    opened: int = 0  # sizes that only the data decide, named so far
    literals: list[Literal] = field(default_factory=list)  # whose types must hold their values
    coercions: list[tuple[Type, Type, Span]] = field(default_factory=list)
    divided: list[ElementType] = field(default_factory=list)  # of what `/` divides
    derivatives: list[Derivative] = field(default_factory=list)  # by what, and of what, derivatives are taken
    wanted: list[tuple[Dim, Span, str, str]] = field(default_factory=list)  # by uses: a size, where, of which function, its name
    closures: list[tuple[Type, tuple[Symbol, ...], Span]] = field(default_factory=list)  # `fn`s, and the sizes that one call names
    named: dict[Symbol, tuple[Says, Says]] = field(default_factory=dict)  # what conditions with a name say
    values: dict[Symbol, T.Expr] = field(default_factory=dict)  # what the names that a `val` binds stand for

    # what has been said
    explains: bool = True  # or says only that something is wrong with the sizes of a declaration, not why
    suggests: bool = True  # changes that may mend it, where it explains: to find them takes as long
    diagnostics: list[Diagnostic] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)  # in this declaration, of names that nothing introduces, and of type variables
    leaf: str = ""  # the path of the one that a function is being applied to by `each`
    consequences: int = 0  # uses of broken declarations, which were reported where they stand
    circular: list[S.TypeDecl] = field(default_factory=list)  # types that contain themselves, each reported once

    # what stands around, and elsewhere
    defining: list[str] = field(default_factory=list)  # the declarations around
    heading: list[S.Fun] = field(default_factory=list)  # the functions among them
    later: dict[str, Span] = field(default_factory=dict)  # what the rest of the file defines
    importable: Callable[[S.Name], bool] = lambda name: False  # whether there is a module of a name
    library: Callable[[str, Span], list[str]] = lambda name, at: []  # modules of the standard library with a value
    used: Bodies = field(default_factory=Bodies)  # the functions that are used, as in their schemes
    modules: dict[str, Module] = field(default_factory=dict)  # of which members are used, by the names that they have here
    parameters: dict[Symbol, tuple[T.Pattern, ...]] = field(default_factory=dict)  # of the functions declared so far
    scalars: dict[Symbol, tuple[OrScalar, ...]] = field(default_factory=dict)  # of the functions used
    marked: set[Span] = field(default_factory=set)  # the `t?` that stand where they may
    builtin_schemes: dict[str, Scheme] = field(default_factory=dict)  # of those of the language that have been used
    binders: dict[Symbol, Binding] = field(default_factory=dict)  # every index of this declaration
    ended: dict[str, Span] = field(default_factory=dict)  # indices of this declaration, most of them out of scope
    private: dict[str, tuple[str, Span]] = field(default_factory=dict)  # sizes that annotations of local functions alone name
    inner: list[tuple[str, Span, Type]] = field(default_factory=list)  # what the names inside declarations turned out to be
    defaults: list[tuple[Span, ValueName]] = field(default_factory=list)  # uses of `val`s with such an element type

    # annotations
    origins: list[tuple[Dim, Span]] = field(default_factory=list)  # where they mention sizes
    expanded_origins: list[tuple[Dim, Span, Span, tuple[str, ...]]] = field(default_factory=list)  # … by types they name, in fields
    annotations: list[Span] = field(default_factory=list)
    signed: dict[Span, Span] = field(default_factory=dict)  # where a `sig` writes the type of a parameter, by its pattern
    written_fields: dict[Span, None] = field(default_factory=dict)  # `w : f32[d, k]` in types
    blanks: dict[Span, list[Blank]] = field(default_factory=dict)  # written sizes that are left open, and what stands for each
    opened_names: list[Symbol] = field(default_factory=list)  # what they call sizes that are to be found
    introduced: list[tuple[Symbol, Span]] = field(default_factory=list)  # the rigid sizes of the declarations being checked
    expanded: dict[Alias, Type] = field(default_factory=dict)  # aliases that have no parameters
    expansions: int = 0  # of aliases, so far
    existentials: int = 0  # of those met, so far
    malformed: int = 0  # dimensions met so far that are none
    within_alias: Span | None = None  # the outermost alias that is being expanded, where an annotation mentions it …
    field_path: tuple[str, ...] = ()  # … and the field in it


def infer(inf: Inference, env: Env, expr: S.Expr, expected: Type | None = None) -> T.Expr:
    """The typed form of an expression. `expected` is a declared type, which can decide ranges; it is not enforced here."""
    return inf.expression(inf, env, expr, expected)


def wrong(inf: Inference, trouble: Trouble) -> None:
    """Say what is wrong."""
    inf.words(inf, trouble)


def unify(
    inf: Inference, left: Type, right: Type, reason: Reason, written: Mapping[Symbol, Dim] = MappingProxyType({})
) -> bool:  # fmt: skip
    """Make `left`, which stands in the source, what is needed; reports and answers False if that cannot be.

    `written`: what a message shows in the place of sizes that are left open.
    """
    found = clash(inf, left, right, reason)
    if found is not None:
        inf.state.dims.update(written)
        wrong(inf, Mismatched(found, left, right, reason))
    return found is None


def clash(inf: Inference, left: Type, right: Type, reason: Reason) -> Mismatch | None:
    """The same; who asks reports what cannot be."""
    try:
        inf.state.unify(left, right, reason)
    except Mismatch as found:
        return found
    return None


def narrow(inf: Inference, t: Type, allowed: frozenset[Element], reason: Reason) -> bool:
    """Restrict the element type of a tensor."""
    t = inf.state.prune(t)
    if not isinstance(t, Tensor):
        return isinstance(t, Poison)
    try:
        inf.state.narrow(t.element, allowed)
    except Mismatch as m:
        wrong(inf, Mismatched(m, t, t, reason))
        return False
    return True


def equate(state: State, left: Dim, right: Dim, reason: Reason) -> None:
    if left != right:
        state.equals.append(Equal(left, right, reason))


@contextmanager
def only_where(inf: Inference, context: Context) -> Iterator[None]:
    """What is found equal inside, or put off, is needed only there."""
    if not context.guards:
        yield
        return
    state = inf.state
    equals, stretches, waiting = len(state.equals), len(state.stretches), set(inf.deferred)
    yield
    state.equals[equals:] = [replace(e, context=context) if e.context is NOWHERE else e for e in state.equals[equals:]]
    state.stretches[stretches:] = [replace(s, context=context) if s.context is NOWHERE else s for s in state.stretches[stretches:]]
    for constraint in inf.deferred:
        if constraint not in waiting:
            inf.guards.setdefault(constraint, context)


def oblige(state: State, relation: Relation, context: Context, reason: Reason, sized: bool = False) -> None:
    if relation.trivial is not True:
        state.obligations.append(Obligation(relation, context, reason, sized=sized))


def as_tensor(
    inf: Inference, t: Type, span: Span, text: str, operand: T.Expr | None = None, operator: bool = False
) -> Tensor | None:
    """The type as a tensor's, made one if nothing is known of it; None (after a report, or of poison) if it is another."""
    t = inf.state.prune(t)
    if isinstance(t, Tensor):
        return t
    if isinstance(t, Poison):
        return None
    new, reason = operand_type(inf), Reason(span, text)
    found = clash(inf, t, new, reason)
    if found is not None:
        wrong(inf, Mismatched(found, t, new, reason, Operand(operand, operator) if operand is not None else None))
    return new if found is None else None


def operand_type(inf: Inference) -> Tensor:
    """The type of a value of which nothing is known but that it is an operand."""
    new = inf.state.tensor()
    inf.operands += [item for item in new.shape if isinstance(item, Row)]
    return new


def defaults_at(inf: Inference, at: Span, element: ElementType) -> tuple[tuple[Span, Tensor], ...]:
    """The names of the `val`s from which what stands at a place may have its element type, a default, with their types."""
    found: dict[Span, Tensor] = {}
    for use, entity in inf.defaults:
        t = inf.state.prune(entity.scheme.type)
        inside = use.file is at.file and at.start <= use.start and use.end <= at.end
        if inside and isinstance(t, Tensor) and inf.state.element(t.element) == element:
            found |= dict(entity.by_default)
    return tuple(found.items())


def alike(state: State, t: Type, other: Type) -> bool:
    """Whether two types are seen to be one: then the alias of the other is that of both."""
    match state.prune(t), state.prune(other):
        case Tensor() as a, Tensor() as b:
            shapes = [[i if isinstance(i, Row) else state.dimension(i) for i in state.shape(x.shape)] for x in (a, b)]
            return state.element(a.element) == state.element(b.element) and shapes[0] == shapes[1]
        case RecordType() as a, RecordType() as b:
            return {n for n, _ in a.fields} == {n for n, _ in b.fields} and all(
                alike(state, x, b.get(n) or POISON) for n, x in a.fields
            )
        case TupleType(a), TupleType(b):
            return len(a) == len(b) and all(alike(state, x, y) for x, y in zip(a, b, strict=True))
        case _:
            return False


def as_written(inf: Inference, t: Type, seen: dict[Type, Type] | None = None) -> Type:
    """The type with what `each` gives by the alias of the record whose structure that has, where it turned out to be that."""
    seen = {} if seen is None else seen
    t = inf.state.prune(t)
    if t in seen or not inf.like:
        return seen.get(t, t)
    new: Type
    match t:
        case Function(param, result):
            parts = as_written(inf, param, seen), as_written(inf, result, seen)
            new = t if parts[0] is param and parts[1] is result else Function(*parts)
        case TupleType(items):
            new = TupleType(tuple(as_written(inf, i, seen) for i in items))
        case RecordType():
            own = inf.like.get(t)
            new = t.map(lambda part: as_written(inf, part, seen))
            if own is not None and isinstance(new, RecordType) and alike(inf.state, t, own):
                new = RecordType(new.fields, own.written)
        case _:
            new = t
    seen[t] = new
    return new


def instantiate(inf: Inference, scheme: Scheme, span: Span, name: str, context: Context, given: tuple[Dim, ...] = ()) -> Instance:
    """Fresh variables for a scheme's; its facts become obligations of this use."""
    state = inf.state
    instance = Instance(
        {s: state.type_var(s.name) for s in scheme.types},
        {s: state.element_var(allowed, s.name) for s, allowed in scheme.elements},
        {s: (state.row(s.name),) for s in scheme.rows},
        {s: state.dim(s.name, loose=s in scheme.loose) for s in scheme.dims} | dict(zip(scheme.explicit, given, strict=False)),
    )
    state.quotient_dims.update(found for s in scheme.quotients if (found := instance.dims[s].symbol) is not None)
    inf.divided += [instance.elements[s] for s in sorted(scheme.divides, key=lambda s: s.id)]
    inf.derivatives += [Derivative(instance.types[s], name, span) for s in sorted(scheme.differentiable, key=lambda s: s.id)]
    inf.wanted += [(instance.dims[s], span, name, s.name) for s in sorted(scheme.read, key=lambda s: s.id)]
    inf.literals += of_use(scheme, instance.elements, span)
    for fact in (*scheme.facts, *_divisors(scheme.facts)):
        _require(inf, fact, instance, span, name, context, lambda s: scheme.names.get(s, s.name))
    return instance


def _require(
    inf: Inference, fact: SchemeFact, instance: Instance, span: Span, name: str, context: Context, called: Callable[[Symbol], str]
) -> None:
    try:
        relation = fact.relation.substitute(instance.dims)
    except DimensionTooLarge:
        too_complex(inf, span)
        return
    mentioned = sorted(fact.relation.variables, key=lambda s: (instance.dims.get(s, Dim.of(s)).constant is None, s.id))
    subject = tuple((called(s), instance.dims[s]) for s in mentioned if s in instance.dims)
    asked = (fact.relation, tuple(s for s in mentioned if s in instance.dims))
    needs = f"`{name}` needs {fact.relation.render(called)}"
    at = fact.span
    same = at is not None and at.file.path == span.file.path  # by name: in an editor, a declaration is a file of its own
    source = (Side(at, fact.why.partition(":")[0]),) if at is not None and same else ()
    obligation = Obligation(relation, context, Reason(span, needs, source), subject=subject, asked=asked)
    if relation.op == "=" and relation.variables and not is_divisibility(relation):
        sides = tuple(Side(span, f"its {side} is {{}}") for side in map(render, (fact.relation.left, fact.relation.right)))
        if relation.left != relation.right:
            inf.state.equals.append(Equal(relation.left, relation.right, Reason(span, needs, sides), asked=obligation))
    elif relation.trivial is not True:
        inf.state.obligations.append(obligation)


def too_complex(inf: Inference, span: Span) -> None:
    wrong(inf, RuleBroken(Rule.TOO_COMPLEX, span))


def broken(span: Span) -> T.Expr:
    return T.Literal(0, type=POISON, span=span)


def _divisors(facts: Sequence[SchemeFact]) -> list[SchemeFact]:
    """What facts say by dividing: a divisor is at least 1, also where no division is left for the sizes of a use: n % n = 0."""
    found: dict[Relation, SchemeFact] = {}
    for fact in facts:
        for side in (fact.relation.left, fact.relation.right):
            for quotient in sorted(side.quotients, key=atom_key):
                if quotient.divisor.constant is None:
                    least = Relation(quotient.divisor, ">=", Dim.of(1))
                    found.setdefault(least, replace(fact, relation=least, why="a divisor: {}"))
    stated = {fact.relation for fact in facts}
    return [fact for least, fact in found.items() if least not in stated]


def instantiate_type(state: State, t: Type, instance: Instance, seen: dict[Type, Type] | None = None) -> Type:
    """The type with the instance's image of every variable. Shared parts stay shared; DimensionTooLarge may be raised."""
    seen = {} if seen is None else seen
    t = state.prune(t)
    if t in seen:
        return seen[t]
    new: Type
    match t:
        case TypeVar(symbol):
            new = instance.types.get(symbol, t)
        case Tensor(element, shape):
            new = t.of(instantiate_element(state, element, instance), instantiate_shape(state, shape, instance))
        case Function(param, result):
            parts = instantiate_type(state, param, instance, seen), instantiate_type(state, result, instance, seen)
            new = t if parts[0] is param and parts[1] is result else Function(*parts)
        case TupleType(items):
            new = TupleType(tuple(instantiate_type(state, i, instance, seen) for i in items))
        case RecordType():
            new = t.map(lambda part: instantiate_type(state, part, instance, seen))
        case Exists(symbol, bounds, body):
            new = Exists(symbol, tuple(b.substitute(instance.dims) for b in bounds), instantiate_type(state, body, instance, seen))
        case _:
            new = t
    seen[t] = new
    return new


def instantiate_element(state: State, element: ElementType, instance: Instance) -> ElementType:
    element = state.element(element)
    return instance.elements.get(element.symbol, element) if isinstance(element, ElementVar) else element


def instantiate_shape(state: State, shape: Shape, instance: Instance) -> Shape:
    items: list[ShapeItem] = []
    for item in state.shape(shape):
        if isinstance(item, Row):
            items.extend(instance.rows.get(item.symbol, (item,)))
        else:
            items.append(instantiate_dim(state, item, instance))
    return tuple(items)


def instantiate_dim(state: State, dim: Dim, instance: Instance) -> Dim:
    return state.dimension(dim).substitute(instance.dims)
