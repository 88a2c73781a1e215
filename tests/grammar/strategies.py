"""Hypothesis strategies for all syntax that can be written. Spans are not compared, so every node has the same one."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from axon.base.source import SourceFile
from axon.grammar import syntax as s
from axon.grammar.build import REDUCING, WITH_MONOID

SPAN = SourceFile("generated", "").span()
KEYWORDS = frozenset(
    ("val", "fun", "type", "sig", "import", "observe", "let", "in", "end", "fn", "if", "then", "else", "for", "loop", "unfold")
).union(("while", "where", "as", "cast", "op", "not", "andalso", "orelse"))
BINARY = ["|>", "orelse", "andalso", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "@", "**"]
RELATIONS = ["=", "<>", "<", "<=", ">", ">="]

text = st.sampled_from(["x", "y", "k", "_", "sum", "max", "lambda", "E", "f32", "x1", "a_b", "for_", "reduce"]) | st.from_regex(
    r"[a-z_A-Z][a-z0-9_]{0,3}", fullmatch=True
).filter(lambda word: word not in KEYWORDS)
tyvar_text = st.sampled_from(["'a", "'b", "'elem", "'a1"])
integers = st.integers(0, 2**63)
floats = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False).map(abs)


def node(cls: type, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(cls, **fields, span=st.just(SPAN))


def many(strategy: st.SearchStrategy[Any], least: int = 0, most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


def not_one(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.just(()) | many(strategy, 2)


def pairs(strategy: st.SearchStrategy[Any], least: int = 1) -> st.SearchStrategy[tuple[Any, ...]]:
    return many(st.tuples(names, strategy), least)


names = st.builds(s.Name, text, st.just(SPAN))
type_names = st.builds(s.Name, text, st.just(SPAN))


def _dims(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        node(s.DimNegate, operand=inner)
        | node(s.DimBinary, op=st.sampled_from("+-*/%"), left=inner, right=inner)
        | node(s.DimCall, function=names, args=many(inner, 1))
    )


dims = st.recursive(node(s.DimName, name=text) | node(s.DimInt, value=integers), _dims, max_leaves=5)
facts = many(node(s.Fact, left=dims, relation=st.sampled_from(RELATIONS), right=dims))
runs = node(s.ShapeRun, name=text)
bare_type_vars = node(s.TypeVar, name=tyvar_text, args=st.none())
type_args = st.none() | many(dims | runs | bare_type_vars)


def _types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        node(s.TypeFun, param=inner, result=inner)
        | node(s.TypeDimFun, names=many(names, 1), result=inner)
        | node(s.TypeOrScalar, whole=inner)
        | node(s.TypeExists, name=names, bound=st.none() | dims, body=inner)
        | node(s.TypeTuple, items=not_one(inner))
        | node(s.TypeRecord, fields=pairs(inner))
    )


types = st.recursive(
    node(s.TypeName, name=many(type_names, 1, 2), args=type_args) | node(s.TypeVar, name=tyvar_text, args=type_args),
    _types,
    max_leaves=5,
)


def _patterns(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        node(s.PatternTuple, items=not_one(inner))
        | node(s.PatternRecord, fields=pairs(inner))
        | node(s.PatternTyped, pattern=inner, type=types)
    )


patterns = st.recursive(node(s.PatternName, name=text), _patterns, max_leaves=4)
params = patterns | node(s.DimParams, names=many(names, 1))

index_binders = node(s.IndexBinder, name=text)
run_binders = node(s.RunBinder, name=st.none() | text)
product_binders = node(s.ProductBinder, names=many(names, 2))
binders = index_binders | run_binders | product_binders


def groups(expressions: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    group = (
        node(s.BinderGroup, binders=many(binders, 1), bound=st.none())
        | node(s.BinderGroup, binders=st.tuples(index_binders), bound=expressions)
        | node(s.BinderGroup, binders=st.tuples(run_binders), bound=runs)
    )
    return many(group, 1)


def subscripts(expressions: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    maybe = st.none() | expressions
    return (
        node(s.IndexAt, value=expressions.filter(lambda e: not (isinstance(e, s.Tuple) and e.items)))
        | node(s.IndexSplit, items=many(expressions, 2))
        | node(s.IndexRun, name=text)
        | node(s.IndexRest)
        | node(s.IndexSlice, start=maybe, stop=maybe, step=maybe)
    )


def _declarations(expressions: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        node(s.Val, pattern=patterns, value=expressions)
        | node(s.Fun, name=names, params=many(params, 1), result=st.none() | types, where=facts, body=expressions)
        | node(s.TypeDecl, name=names, params=many(node(s.DimName, name=text) | runs | bare_type_vars), type=types)
        | node(s.Sig, name=names, type=types, where=facts)
        | node(s.Import, name=names)
        | node(s.Draw, pattern=patterns, site=expressions)
        | node(s.Observe, name=names, site=expressions)
    )


def _reductions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.builds(s.Name, st.sampled_from(sorted(frozenset(REDUCING) - frozenset(WITH_MONOID))), st.just(SPAN))
    general = st.builds(s.Name, st.sampled_from(sorted(WITH_MONOID)), st.just(SPAN))
    monoids = node(s.Tuple, items=st.tuples(inner, inner))
    rest = {"groups": groups(inner), "where": st.none() | inner, "body": inner}
    return node(s.Reduce, kind=plain, monoid=st.none(), **rest) | node(s.Reduce, kind=general, monoid=monoids, **rest)


def _expressions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    elements = st.builds(s.Name, text | tyvar_text, st.just(SPAN))
    defaults = st.none() | inner
    return st.one_of(
        node(s.Apply, function=inner, argument=inner),
        node(s.ApplyDims, function=inner, dims=many(dims, 1)),
        node(s.Unary, op=st.sampled_from(["-", "not"]), operand=inner),
        node(s.Binary, op=st.sampled_from(BINARY), left=inner, right=inner, op_span=st.just(SPAN)),
        node(s.Tuple, items=not_one(inner)),
        node(s.Record, fields=pairs(inner)),
        node(s.Field, record=inner, name=names),
        node(s.Project, value=inner, position=st.integers(1, 12)),
        node(s.Access, base=inner, subscripts=many(subscripts(inner)), default=st.none()),
        node(s.Access, base=inner, subscripts=many(subscripts(inner), 1), default=defaults),
        node(s.Ascribe, value=inner, type=types),
        node(s.Coerce, value=inner, type=types),
        node(s.Cast, element=elements, value=defaults),
        node(s.Let, decls=many(_declarations(inner), 1), body=inner),
        node(s.Fn, params=many(patterns, 1), body=inner),
        node(s.If, condition=inner, then=inner, otherwise=inner),
        node(s.For, groups=groups(inner), body=inner),
        _reductions(inner),
        node(
            s.Loop, kind=st.sampled_from(["loop", "unfold"]), states=many(st.tuples(patterns, inner), 1),
            condition=st.none() | inner, groups=groups(inner), body=inner,
        ),
        node(s.Array, items=many(inner)),
    )  # fmt: skip


_leaves = st.one_of(
    node(s.Var, name=text),
    node(s.Int, value=integers),
    node(s.Float, value=floats),
    node(s.Operator, op=st.sampled_from([b for b in BINARY if b != "|>"])),
)
expressions = st.recursive(_leaves, _expressions, max_leaves=10)
declarations = _declarations(expressions)
programs = node(s.Program, decls=many(declarations, 0, 4))
