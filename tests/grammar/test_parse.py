"""Every construct of the language, by what it is the same as or by its syntax."""

from __future__ import annotations

from typing import Any

import pytest

from axon.base.source import SourceFile
from axon.grammar import syntax as s
from axon.grammar.parse import parse, parse_expression, parse_type
from axon.grammar.table import load
from tests.grammar import strategies as g


def program(text: str) -> tuple[s.Decl, ...]:
    node, diagnostics = parse(SourceFile("test.axon", text))
    assert diagnostics == ()
    return node.decls


def expression(text: str) -> s.Expr:
    node, diagnostics = parse_expression(SourceFile("test.axon", text))
    assert [d for d in diagnostics if d.severity == "error"] == []
    assert node is not None
    return node


def type_(text: str) -> s.Type:
    node, diagnostics = parse_type(SourceFile("test.axon", text))
    assert diagnostics == ()
    assert node is not None
    return node


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("-x ** 2", "-(x ** 2)"),
        ("x ** -y ** z", "x ** (-(y ** z))"),
        ("- - x", "-(-x)"),
        ("-x * y", "(-x) * y"),
        ("a - b - c", "(a - b) - c"),
        ("a + b * c @ d / e % f", "a + ((((b * c) @ d) / e) % f)"),
        ("a + b < c * d", "(a + b) < (c * d)"),
        ("not a = b", "not (a = b)"),
        ("not not a andalso b", "(not (not a)) andalso b"),
        ("a orelse b andalso c", "a orelse (b andalso c)"),
        ("a orelse b orelse c", "(a orelse b) orelse c"),
        ("x |> f |> g", "(x |> f) |> g"),
        ("x + 1 |> f y", "(x + 1) |> (f y)"),
        ("x as f32 |> f", "(x as f32) |> f"),
        ("a orelse b as bool", "(a orelse b) as bool"),
        ("f x y", "(f x) y"),
        ("f x.w y[i].1", "(f (x.w)) ((y[i]).1)"),
        ("f -x", "f - x"),
        ("f x ** g y", "(f x) ** (g y)"),
        ("cast f16 x y", "(cast f16 x) y"),
        ("cast f16 x.w + y", "(cast f16 (x.w)) + y"),
        ("x |> cast f16", "x |> (cast f16)"),
        ("t.1.2", "(t.1).2"),
        ("max a b", "(max a) b"),
        ("a * sum k => b + c", "a * (sum k => (b + c))"),
        ("1 + fn x => x + 2", "1 + (fn x => (x + 2))"),
        ("- for i => x[i]", "-(for i => x[i])"),
        ("not if a then b else c", "not (if a then b else c)"),
        ("x |> fn y => y |> f", "x |> (fn y => (y |> f))"),
        ("if a then b else c + d", "if a then b else (c + d)"),
        ("if a then if b then c else d else e", "if a then (if b then c else d) else e"),
        ("for i => sum j => i + j", "for i => (sum j => (i + j))"),
        ("let val a = 1 in a + 1 end * 2", "(let val a = 1 in (a + 1) end) * 2"),
        ("op + x", "(op +) x"),
        ("x[a, (b)]", "x[a, b]"),
        ("sum for k => x[k]", "sum k => x[k]"),
        ("1.50e1", "15.0"),
        ("a (* one (* two *) *) b", "a b"),
        ("f\r\n\tx", "f x"),
        ("\ufefff x", "f x"),
    ],
)
def test_same(text: str, same: str) -> None:
    assert expression(text) == expression(same)


@pytest.mark.parametrize(
    ("text", "other"), [("(-x) ** 2", "-x ** 2"), ("a - (b - c)", "a - b - c"), ("(f, x)", "f x"), ("f[]", "f")]
)
def test_different(text: str, other: str) -> None:
    assert expression(text) != expression(other)


def name(text: str) -> s.Name:
    return s.Name(text, SPAN)


SPAN = SourceFile("", "").span()


def at(cls: Any, *fields: Any) -> Any:
    return cls(*fields, span=SPAN)


def var(text: str) -> s.Var:
    return s.Var(text, span=SPAN)


def group(*binders: s.Binder, bound: Any = None) -> s.BinderGroup:
    return at(s.BinderGroup, binders, bound)


II, J, K = (at(s.IndexBinder, text) for text in "ijk")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("()", at(s.Tuple, ())),
        ("(a, b)", at(s.Tuple, (var("a"), var("b")))),
        ("{ w = a, b = c }", at(s.Record, ((name("w"), var("a")), (name("b"), var("c"))))),
        ("[| |]", at(s.Array, ())),
        ("[||]", at(s.Array, ())),
        ("[| a, b |]", at(s.Array, (var("a"), var("b")))),
        ("(x : f32)", at(s.Ascribe, var("x"), at(s.TypeName, (name("f32"),), None))),
        ("x as f32", at(s.Coerce, var("x"), at(s.TypeName, (name("f32"),), None))),
        ("cast f16 x", at(s.Cast, name("f16"), var("x"))),
        ("cast _ d", at(s.Cast, name("_"), var("d"))),
        ("cast 'a d", at(s.Cast, name("'a"), var("d"))),
        ("cast f32", at(s.Cast, name("f32"), None)),
        ("f {8, 2 * n}", at(s.ApplyDims, var("f"), (at(s.DimInt, 8), at(s.DimBinary, "*", at(s.DimInt, 2), at(s.DimName, "n"))))),
        ("x[]", at(s.Access, var("x"), (), None)),
        ("x[i, ..]", at(s.Access, var("x"), (at(s.IndexAt, var("i")), at(s.IndexRest)), None)),
        ("x[..i, (a, b)]", at(s.Access, var("x"), (at(s.IndexRun, "i"), at(s.IndexSplit, (var("a"), var("b")))), None)),
        ("x[i | d]", at(s.Access, var("x"), (at(s.IndexAt, var("i")),), var("d"))),
        ("x[a : b]", at(s.Access, var("x"), (at(s.IndexSlice, var("a"), var("b"), None),), None)),
        ("x[:]", at(s.Access, var("x"), (at(s.IndexSlice, None, None, None),), None)),
        ("x[a::c]", at(s.Access, var("x"), (at(s.IndexSlice, var("a"), None, var("c")),), None)),
        (
            "fn (x, _) y => x",
            at(s.Fn, (at(s.PatternTuple, (at(s.PatternName, "x"), at(s.PatternName, "_"))), at(s.PatternName, "y")), var("x")),
        ),
        ("for i j => i", at(s.For, (group(II, J),), var("i"))),
        ("for i, j => i", at(s.For, (group(II), group(J)), var("i"))),
        ("for i < n => i", at(s.For, (group(II, bound=var("n")),), var("i"))),
        ("for ..i < ..s => i", at(s.For, (group(at(s.RunBinder, "i"), bound=at(s.ShapeRun, "s")),), var("i"))),
        ("for .. i => i", at(s.For, (group(at(s.RunBinder, None), II),), var("i"))),
        (
            "for ..k (i, j) _ => i",
            at(
                s.For, (group(at(s.RunBinder, "k"), at(s.ProductBinder, (name("i"), name("j"))), at(s.IndexBinder, "_")),), var("i")
            ),
        ),
        ("sum k => k", at(s.Reduce, name("sum"), None, (group(K),), None, var("k"))),
        ("max ..i j => j", at(s.Reduce, name("max"), None, (group(at(s.RunBinder, "i"), J),), None, var("j"))),
        ("any .. => j", at(s.Reduce, name("any"), None, (group(at(s.RunBinder, None)),), None, var("j"))),
        (
            "argmax (i, j) => j",
            at(s.Reduce, name("argmax"), None, (group(at(s.ProductBinder, (name("i"), name("j")))),), None, var("j")),
        ),
        (
            "sum for i < n, j where p => j",
            at(s.Reduce, name("sum"), None, (group(II, bound=var("n")), group(J)), var("p"), var("j")),
        ),
        (
            "reduce (op +, u) k => k",
            at(s.Reduce, name("reduce"), at(s.Tuple, (at(s.Operator, "+"), var("u"))), (group(K),), None, var("k")),
        ),
        (
            "scan (f, u) for k < n => k",
            at(s.Reduce, name("scan"), at(s.Tuple, (var("f"), var("u"))), (group(K, bound=var("n")),), None, var("k")),
        ),
        (
            "loop (s = a, t = b) for i < n => s",
            at(
                s.Loop,
                "loop",
                ((at(s.PatternName, "s"), var("a")), (at(s.PatternName, "t"), var("b"))),
                None,
                (group(II, bound=var("n")),),
                var("s"),
            ),
        ),
        (
            "loop (s = a) while s |> p for i => s",
            at(
                s.Loop,
                "loop",
                ((at(s.PatternName, "s"), var("a")),),
                at(s.Binary, "|>", var("s"), var("p"), SPAN),
                (group(II),),
                var("s"),
            ),
        ),
        ("unfold (s = a) for i => s", at(s.Loop, "unfold", ((at(s.PatternName, "s"), var("a")),), None, (group(II),), var("s"))),
    ],
)
def test_expression(text: str, node: s.Expr) -> None:
    assert expression(text) == node


@pytest.mark.parametrize("op", [op for op in g.BINARY if op != "|>"])
def test_operator(op: str) -> None:
    assert expression(f"(op {op})") == at(s.Operator, op)
    binary = expression(f"a {op} b")
    assert isinstance(binary, s.Binary)
    assert (binary.op, binary.op_span.text) == (op, op)


F32 = at(s.TypeName, (name("f32"),), None)
N = at(s.DimName, "n")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("f32", F32),
        ("f32[]", at(s.TypeName, (name("f32"),), ())),
        ("'a[..s, n, 2]", at(s.TypeVar, "'a", (at(s.ShapeRun, "s"), N, at(s.DimInt, 2)))),
        ("nn.linear[n, 'a]", at(s.TypeName, (name("nn"), name("linear")), (N, at(s.TypeVar, "'a", None)))),
        ("()", at(s.TypeTuple, ())),
        ("(f32, f32)", at(s.TypeTuple, (F32, F32))),
        ("{ w : f32 }", at(s.TypeRecord, ((name("w"), F32),))),
        ("f32 -> f32 -> f32", at(s.TypeFun, F32, at(s.TypeFun, F32, F32))),
        ("(f32 -> f32) -> f32", at(s.TypeFun, at(s.TypeFun, F32, F32), F32)),
        ("{h, k} -> f32", at(s.TypeDimFun, (name("h"), name("k")), F32)),
        ("f32? -> f32", at(s.TypeFun, at(s.TypeOrScalar, F32), F32)),
        ("?k. f32", at(s.TypeExists, name("k"), None, F32)),
        ("?k <= n. f32", at(s.TypeExists, name("k"), N, F32)),
        ("f32[-n % 2]", at(s.TypeName, (name("f32"),), (at(s.DimBinary, "%", at(s.DimNegate, N), at(s.DimInt, 2)),))),
        ("f32[min n 2]", at(s.TypeName, (name("f32"),), (at(s.DimCall, name("min"), (N, at(s.DimInt, 2))),))),
        ("f32[n - n - n]", at(s.TypeName, (name("f32"),), (at(s.DimBinary, "-", at(s.DimBinary, "-", N, N), N),))),
    ],
)
def test_type(text: str, node: s.Type) -> None:
    assert type_(text) == node


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("val x = y", at(s.Val, at(s.PatternName, "x"), var("y"))),
        ("val (x : f32) = y", at(s.Val, at(s.PatternTyped, at(s.PatternName, "x"), F32), var("y"))),
        ("val { w = a } = y", at(s.Val, at(s.PatternRecord, ((name("w"), at(s.PatternName, "a")),)), var("y"))),
        (
            "fun f () {h} x = x",
            at(
                s.Fun,
                name("f"),
                (at(s.PatternTuple, ()), at(s.DimParams, (name("h"),)), at(s.PatternName, "x")),
                None,
                (),
                var("x"),
            ),
        ),
        (
            "fun f x : f32 where n = 3, n >= 1 = x",
            at(
                s.Fun,
                name("f"),
                (at(s.PatternName, "x"),),
                F32,
                (at(s.Fact, N, "=", at(s.DimInt, 3)), at(s.Fact, N, ">=", at(s.DimInt, 1))),
                var("x"),
            ),
        ),
        ("type t[n, ..s, 'a] = f32", at(s.TypeDecl, name("t"), (N, at(s.ShapeRun, "s"), at(s.TypeVar, "'a", None)), F32)),
        ("sig f : f32 where n <> 2", at(s.Sig, name("f"), F32, (at(s.Fact, N, "<>", at(s.DimInt, 2)),))),
        ("import nn", at(s.Import, name("nn"))),
    ],
)
def test_declaration(text: str, node: s.Decl) -> None:
    assert program(text) == (node,)


def test_spans() -> None:
    (declaration,) = program("(* c *) fun f (x) = (x + 1) * x ")
    assert declaration.span.text == "fun f (x) = (x + 1) * x"
    assert isinstance(declaration, s.Fun)
    assert isinstance(declaration.body, s.Binary)
    assert declaration.body.left.span.text == "x + 1", "parentheses are no part of what they hold"
    assert declaration.name.span.text == "f"


DESIGN = {  # the samples of the language's description
    "comments": "(* comments nest (* like this *) *)\nimport nn (* stdlib/nn.axon *)",
    "mlp": """
type linear[d, k] = { w : f32[d, k], b : f32[k] }

fun dense (p : linear[d, k]) x = x @ p.w + p.b

fun mlp (p : { up : linear[d, h], down : linear[h, d] }) x =
  x |> dense p.up |> nn.gelu |> dense p.down""",
    "comprehensions": """
fun matmul a b = for i j => sum k => a[i, k] * b[k, j]
fun conv2d (x : 'a[n, c, h, w]) k = for n o p q => sum c r s => x[n, c, p + r, q + s] * k[o, c, r, s]
fun conv2d_same (x : 'a[n, c, h, w]) k = for n o, p < h, q < w =>          (* stride 1, padded with zeros *)
  sum c r s => x[n, c, p + r - 1, q + s - 1 | 0] * k[o, c, r, s]
fun softmax x = for ..i j =>
  let val m = max k => x[..i, k]
      val z = sum k => exp (x[..i, k] - m)
  in exp (x[..i, j] - m) / z end
fun attention (q : 'a[..b, s, d]) (k : 'a[..b, t, d]) (v : 'a[..b, t, e]) =
  let val scores = for ..b i j => (sum c => q[..b, i, c] * k[..b, j, c]) * rsqrt (cast 'a d)
  in softmax scores @ v end                                              (* -> 'a[..b, s, e] *)
fun causal scores = for ..b i j => if j <= i then scores[..b, i, j] else -inf
fun split_heads {h} x = for ..b, i < h, j c => x[..b, j, (i, c)]           (* where h >= 1 *)
fun merge_heads x     = for ..b j (i, c) => x[..b, i, j, c]                (* and back *)
fun histogram {bins} ids = for b < bins => sum for i where ids[i] = b => 1""",
    "signatures": "sig halves : 'a[n] -> 'a[2, n / 2] where n % 2 = 0\nsig nonzero : bool[n] -> ?k <= n. i32[k]",
    "data-dependent": "val (ix : i32[k]) = nonzero m",
}


@pytest.mark.parametrize("sample", DESIGN)
def test_design(sample: str) -> None:
    assert program(DESIGN[sample])


def test_names_of_other_languages_are_names() -> None:
    text = "fun f lambda def class E I S N return and_ True None self = lambda + def * class - return"
    assert len(program(text)) == 1


def test_reduction_names_are_names() -> None:
    text = "val sum = 1\nfun max prod = prod sum\nval x = let val min = 2 in min end"
    assert len(program(text)) == 3


def test_keywords() -> None:
    """The keywords are these and no others: a new one would break programs."""
    keywords = {word for word in load().literals if word.isidentifier()}
    assert keywords == g.KEYWORDS


def test_lopsided_minus() -> None:
    _, diagnostics = parse_expression(SourceFile("test.axon", "f -x"))
    assert [(d.code, d.severity, d.labels[0].span.start) for d in diagnostics] == [("AX0110", "warning", 2)]
    for fine in ("f - x", "f-x", "f(-x)", "1 -x", "f (* c *)- x", "[| a, -x |]", "(f, -x)"):
        assert parse_expression(SourceFile("test.axon", fine))[1] == (), fine


def test_missing_val() -> None:
    _, diagnostics = parse(SourceFile("test.axon", "val a = b\n c = d"))
    assert [(d.code, d.severity) for d in diagnostics] == [("AX0118", "warning")]
    fine = "fun f x\n  y = x\nval r = { a = 1,\n  b = 2 }\nval z = f\n  x\nval t = fn\n  x => x"
    assert parse(SourceFile("test.axon", fine))[1] == ()
