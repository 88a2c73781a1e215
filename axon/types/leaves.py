"""`each` and `fold_leaves`: a function at corresponding leaves of records and tuples.

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
from axon.types.access import excerpt
from axon.types.application import call
from axon.types.inference import Env, Inference, broken, infer, unify, wrong
from axon.types.patterns import bind_pattern
from axon.types.resolve import BuiltinName
from axon.types.solve import settle_members
from axon.types.trouble import Rule, RuleBroken, StoredFunction, StructuresDiffer, UnknownStructure
from axon.types.type import POISON, Exists, Function, Poison, RecordType, Tensor, TupleType, Type, TypeVar, function


class _Broken(Exception):
    """Something is wrong, and has been said."""


def over_leaves(env: Env, e: S.Expr) -> tuple[S.Var, list[S.Expr]] | None:
    """The head of an application of `each` or `fold_leaves`, and its arguments; None of others."""
    arguments: list[S.Expr] = []
    while isinstance(e, S.Apply):
        arguments.append(e.argument)
        e = e.function
    if isinstance(e, S.Var) and e.name in builtins.OVER_LEAVES and isinstance(env.scope.value(e.name), BuiltinName):
        return e, arguments[::-1]
    return None


def infer_over_leaves(inf: Inference, env: Env, head: S.Var, arguments: Sequence[S.Expr], span: Span) -> T.Expr:
    """See Note [Leaves]."""
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
        if isinstance(part, T.Variable):
            named.append(value)
            continue
        symbol = fresh("whole")
        decls.append(T.Val(T.PatternName(symbol, type=value.type, span=value.span), value))
        named.append(T.Variable(symbol, None, type=value.type, span=value.span))
    return tuple(decls), named


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
        for number, t in enumerate(types):
            if isinstance(t, TypeVar):
                unify(self.inf, t, self.like(guide, path), Reason(self.places[number], "of the same structure"))
            elif isinstance(like, RecordType | TupleType) and self.parts(t) != self.parts(like):
                places = self.places[0], self.places[number]
                wrong(self.inf, StructuresDiffer(path, guide, t, places))
                raise _Broken
        match like:
            case RecordType(fields):
                written = guide.written if isinstance(guide, RecordType) else None
                made = {n: self.at(f"{path}.{n}", [self.part(v, n) for v in values]) for n in sorted(n for n, _ in fields)}
                t: Type = RecordType(tuple((n, made[n].type) for n, _ in fields))
                if written is not None and self.alike(t, guide):
                    t = guide
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

    def alike(self, t: Type, other: Type) -> bool:
        """Whether two types are seen to be one: then the alias of the other is that of both."""
        match self.inf.state.prune(t), self.inf.state.prune(other):
            case Tensor() as a, Tensor() as b:
                elements, shapes = self.inf.state.element, self.inf.state.shape
                return elements(a.element) == elements(b.element) and shapes(a.shape) == shapes(b.shape)
            case RecordType() as a, RecordType() as b:
                return self.parts(a) == self.parts(b) and all(self.alike(x, b.get(n) or POISON) for n, x in a.fields)
            case TupleType(a), TupleType(b):
                return len(a) == len(b) and all(map(self.alike, a, b))
            case _:
                return False

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
        inf.leaf = outer + path
        result = call(inf, self.env, self.function(values), values, self.span, excerpt(self.f.span))
        state.equals[asked[0] :] = [replace(e, reason=_at(e.reason, inf.leaf)) for e in state.equals[asked[0] :]]
        state.stretches[asked[1] :] = [replace(s, reason=_at(s.reason, inf.leaf)) for s in state.stretches[asked[1] :]]
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
        return result

    def function(self, values: list[T.Expr]) -> T.Expr:
        """The function at a leaf; of a `fn` the parameters are known to be what is there."""
        match self.f:
            case S.Fn(params, body) if len(params) == len(values):
                scope = self.env.scope.child()
                seen: dict[str, Span] = {}
                types = tuple(value.type for value in values)
                patterns = tuple(bind_pattern(self.inf, scope, p, t, seen) for p, t in zip(params, types, strict=True))
                inner = infer(self.inf, self.env.within(scope), body)
                return T.Fn(patterns, inner, type=function(types, inner.type), span=self.f.span)
            case _:
                return infer(self.inf, self.env, self.f)

    def folded(self, monoid: S.Tuple) -> T.Expr:
        """What the function gives for all leaves, combined in their order, from the neutral element on."""
        op, unit = monoid.items
        whole = infer(self.inf, self.env, unit)
        for result in self.results:
            sides = (Side(self.f.span, "for a leaf it gives {}"), Side(unit.span, "the neutral element has {}"))
            reason = Reason(self.f.span, "what is combined has the type and shape of the neutral element", sides)
            if not unify(self.inf, result.type, whole.type, reason):
                raise _Broken
            whole = call(self.inf, self.env, infer(self.inf, self.env, op), [whole, result], self.span, excerpt(op.span))
        return whole
