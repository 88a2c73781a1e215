"""Printing and formatting: what is printed parses to the same, and no comment is lost."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.grammar import syntax as s
from axon.grammar.format import format_source, print_declaration, print_dim, print_expr, print_pattern, print_program, print_type
from axon.grammar.lexer import tokenize
from axon.grammar.parse import parse, parse_expression, parse_type
from axon.grammar.table import load
from tests import ROOT
from tests.grammar import strategies as g

EXAMPLES = 3_000 if os.environ.get("AXON_SOAK") else 75
SLOW = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def fmt(text: str) -> str:
    return format_source(SourceFile("test.axon", text))


@SLOW
@given(g.expressions)
def test_expressions(node: s.Expr) -> None:
    text = print_expr(node)
    again, diagnostics = parse_expression(SourceFile("e", text))
    assert [d for d in diagnostics if d.severity == "error"] == []
    assert again == node


@SLOW
@given(g.types)
def test_types(node: s.Type) -> None:
    assert parse_type(SourceFile("t", print_type(node))) == (node, ())


@SLOW
@given(g.programs)
def test_programs(node: s.Program) -> None:
    text = print_program(node)
    again, diagnostics = parse(SourceFile("p", text))
    assert [d for d in diagnostics if d.severity == "error"] == []
    assert again == node
    assert fmt(text) == text


@SLOW
@given(g.patterns, g.dims)
def test_patterns_and_dims(pattern: s.Pattern, dim: s.Dim) -> None:
    program, _ = parse(SourceFile("p", f"val {print_pattern(pattern)} = x\nsig f : f32[{print_dim(dim)}]"))
    val, sig = program.decls
    assert isinstance(val, s.Val)
    assert val.pattern == pattern
    assert isinstance(sig, s.Sig)
    assert isinstance(sig.type, s.TypeName)
    assert sig.type.args == (dim,)


def test_the_strategies_cover_every_node() -> None:
    """Each class of `axon.grammar.syntax` is generated."""
    seen: set[str] = set()

    def visit(node: object) -> None:
        seen.add(type(node).__name__)
        for child in (
            node if isinstance(node, tuple) else [getattr(node, f, None) for f in getattr(node, "__dataclass_fields__", ())]
        ):
            if isinstance(child, (tuple, s.Node, s.Name)):
                visit(child)

    @settings(SLOW, max_examples=250, database=None)
    @given(g.programs | g.subscripts(g.expressions))
    def collect(node: s.Program | s.Subscript) -> None:
        visit(node)

    collect()
    nodes = {name for name, cls in vars(s).items() if isinstance(cls, type) and issubclass(cls, s.Node) and cls is not s.Node}
    assert nodes <= {*seen, "Like"}  # which no text says


GAPS = st.sampled_from(
    [" "] * 12 + ["\n"] * 4
    + ["\n\n", "\n\n\n", "\t", "\r\n", " (* c *) ", "\n(* c *)\n", "\n(* c *) ", " (* c *)\n", " (* a\n b *)\n", "(* x *)(* y *)"]
    + ["\n  (* a\n b\n\n   c *)\n\n", "\n(* x *)\n(* y *)\n\n", " (* a *)\n\n(* b *)\n", "(* (* n *) *)"]
)  # fmt: skip


@SLOW
@given(g.programs, st.data())
def test_comments_anywhere(node: s.Program, data: st.DataObject) -> None:
    """`format_source` itself makes sure that meaning and comments are kept; here, that a second time changes nothing."""
    tokens = tokenize(SourceFile("p", print_program(node)), load()).tokens
    text = "".join(data.draw(GAPS) + token.text for token in tokens) + data.draw(GAPS)
    text = re.sub(r"\n(?=\S)(?!(?:fun|val|type|sig|import)\b|\(\*)", "\n ", text)  # see Note [The margin] in parse.py
    formatted = fmt(text)
    assert fmt(formatted) == formatted
    assert parse(SourceFile("p", formatted))[0] == node


def test_a_comment_that_comes_to_end_its_line_moves_no_head() -> None:
    """Whether a head fits where it stands does not depend on how its comments stood before."""
    states = "x = (op orelse) {-(m + 10000), 10 + -100, m + 0 + -0}, ((* c *) a, { b = c }, { d = e }\n(* f *)\n) = y"
    formatted = fmt(f"fun f {{m, n}} = loop ({states}) for i => x")
    assert fmt(formatted) == formatted


@pytest.mark.parametrize("path", sorted([*ROOT.glob("stdlib/*.axon"), *ROOT.glob("examples/**/*.axon")]), ids=lambda p: p.name)
def test_files(path: Path) -> None:
    formatted = fmt(path.read_text(encoding="utf-8"))
    assert fmt(formatted) == formatted
    code = [
        line for line in formatted.split("\n") if "(*" not in line and "*)" not in line and ">>>" not in line and "[|" not in line
    ]
    assert max(map(len, code)) <= 100


@pytest.mark.parametrize(
    ("messy", "tidy"),
    [
        ("val   x=1", "val x = 1"),
        ("val x = ((a)) + ((b * c)) * (d + e)", "val x = a + b * c * (d + e)"),
        ("fun f(x:f32[n])(y)=x+y", "fun f (x : f32[n]) y = x + y"),
        ("val x = (op *) (op +, 0)", "val x = (op *) (op +, 0)"),
        ("val x = f op +", "val x = f (op +)"),
        ("val x = 1.50e0 + 007", "val x = 1.50e0 + 007"),
        ("val x=a[i,(j,k),..s,..,:,a:,:b,a:b:c|0]", "val x = a[i, (j, k), ..s, .., :, a :, : b, a : b : c | 0]"),
        ("val x = sum for k=>a[k]", "val x = sum k => a[k]"),
        ("val x = (sum k => a[k]) / n", "val x = (sum k => a[k]) / n"),
        ("val x = n / (sum k => a[k])", "val x = n / sum k => a[k]"),
        ("sig f:{h,k}->?k<=n.(f32)->f32 where n>=1,n%2=0", "sig f : {h, k} -> ?k <= n. f32 -> f32 where n >= 1, n % 2 = 0"),
        ("type t[n,..s,'a]={w:'a[..s,n]}", "type t[n, ..s, 'a] = { w : 'a[..s, n] }"),
        ("val{w=a}=r.w.1", "val { w = a } = r.w.1"),
        ("val a = 1\n\n\n\nval b = 2\nval c = 3", "val a = 1\n\nval b = 2\nval c = 3"),
        ("\ufeffval a = 1\r\n(* c *)\r\nval b = 2", "val a = 1\n(* c *)\nval b = 2"),
        ("val a = let val b = 1 in b end", "val a = let val b = 1 in b end"),
        ("val a = let val b = 1 val c = 2 in b end", "val a =\n  let val b = 1\n      val c = 2\n  in b end"),
        ("fun f x = (* why *)\n  for i => x[i]", "fun f x = (* why *)\n  for i => x[i]"),
        ("val x = ((y (* deep *))) (* out *)", "val x = y (* deep *) (* out *)"),
        ("(* only *)", "(* only *)"),
        ("val x = f\n (* own line *)\n y", "val x =\n  f\n    (* own line *)\n    y"),
        (
            "fun f x = for n (g, o), p < (l + 2 * padding - 1) / stride + 1 =>"
            " sum c i => x[n, (g, c), p * stride + i - padding | 0]",
            "fun f x = for n (g, o), p < (l + 2 * padding - 1) / stride + 1 =>\n"
            "  sum c i => x[n, (g, c), p * stride + i - padding | 0]",
        ),
        (
            "fun pool x = for n c, row < (height + 2 * padding - window) / stride + 1,"
            " column < (width + 2 * padding - window) / stride + 1 => max for r < window, s < window =>"
            " x[n, c, row * stride + r - padding, column * stride + s - padding | -inf]",
            "fun pool x =\n"
            "  for n c,\n"
            "      row < (height + 2 * padding - window) / stride + 1,\n"
            "      column < (width + 2 * padding - window) / stride + 1 =>\n"
            "    max for r < window, s < window =>\n"
            "      x[n, c, row * stride + r - padding, column * stride + s - padding | -inf]",
        ),
        (
            "val y = 1 + sum for a < c, i < dilation * (r - 1) / stride + 1"
            " where ((p + padding) % stride + i * stride) % dilation = 0 => x[a, i]",
            "val y =\n"
            "  1\n"
            "    + sum for a < c,\n"
            "        i < dilation * (r - 1) / stride + 1\n"
            "        where ((p + padding) % stride + i * stride) % dilation = 0 =>\n"
            "      x[a, i]",
        ),
        (
            "fun step (parameters : cell[hidden, input]) (inputs : f32[batch, input]) (state : f32[batch, hidden]) = inputs",
            "fun step\n"
            "    (parameters : cell[hidden, input])\n"
            "    (inputs : f32[batch, input])\n"
            "    (state : f32[batch, hidden]) =\n"
            "  inputs",
        ),
        (
            "val x = loop (first = zeros, second = ones) for step < 10 * number_of_steps_of_the_outer_loop_of_this_file => (a, b)",
            "val x =\n"
            "  loop (first = zeros, second = ones)\n"
            "      for step < 10 * number_of_steps_of_the_outer_loop_of_this_file =>\n"
            "    (a, b)",
        ),
    ],
)
def test_format(messy: str, tidy: str) -> None:
    assert fmt(messy) == tidy + "\n"


LONG = """
fun attention (query : 'a[..b, s, d]) (key : 'a[..b, t, d]) (value : 'a[..b, t, e]) = let val scores = for ..b i j => (sum c => query[..b, i, c] * key[..b, j, c]) * rsqrt (cast 'a d) in softmax scores @ value end
val choice = if some_condition then some_long_function_name argument_one else if another_condition then another_function argument_two else default
val piped = input |> first_function_of_the_pipeline with_argument |> second_function_of_the_pipeline |> third_function
val record = { weights = some_long_function_name argument_one, bias = another_long_function_name argument_two, scale = 1.0 }
fun conv2d_same (x : 'a[n, c, h, w]) (k : 'a[o, c, r, s]) = for n o, p < h, q < w => sum c i j => x[n, c, p + i - r / 2, q + j - s / 2 | 0] * k[o, c, i, j]
fun softmax_rows x = for i j => let val m = max k => x[i, k] in exp (x[i, j] - m) / (sum k => exp (x[i, k] - m)) end
fun softmax x = for ..i j => let val m = max k => x[..i, k] val z = sum k => exp (x[..i, k] - m) in exp (x[..i, j] - m) / z end
sig multi_head_attention : {h} -> { q : f32[d, d], k : f32[d, d], v : f32[d, d] } -> f32[..b, s, d] -> f32[..b, s, d] where h >= 1, d % h = 0
"""  # noqa: E501

LAID_OUT = """\
fun attention (query : 'a[..b, s, d]) (key : 'a[..b, t, d]) (value : 'a[..b, t, e]) =
  let val scores = for ..b i j => (sum c => query[..b, i, c] * key[..b, j, c]) * rsqrt (cast 'a d)
  in softmax scores @ value end
val choice =
  if some_condition then
    some_long_function_name argument_one
  else if another_condition then
    another_function argument_two
  else
    default
val piped =
  input
  |> first_function_of_the_pipeline with_argument
  |> second_function_of_the_pipeline
  |> third_function
val record = {
  weights = some_long_function_name argument_one,
  bias = another_long_function_name argument_two,
  scale = 1.0
}
fun conv2d_same (x : 'a[n, c, h, w]) (k : 'a[o, c, r, s]) =
  for n o, p < h, q < w => sum c i j => x[n, c, p + i - r / 2, q + j - s / 2 | 0] * k[o, c, i, j]
fun softmax_rows x =
  for i j => let val m = max k => x[i, k] in exp (x[i, j] - m) / sum k => exp (x[i, k] - m) end
fun softmax x = for ..i j =>
  let val m = max k => x[..i, k]
      val z = sum k => exp (x[..i, k] - m)
  in exp (x[..i, j] - m) / z end
sig multi_head_attention :
  {h} -> { q : f32[d, d], k : f32[d, d], v : f32[d, d] } -> f32[..b, s, d] -> f32[..b, s, d]
  where h >= 1, d % h = 0
"""


def test_long_lines() -> None:
    assert fmt(LONG) == LAID_OUT
    assert fmt(LAID_OUT) == LAID_OUT


def test_errors_are_raised() -> None:
    with pytest.raises(AxonError) as caught:
        fmt("val x = )\nval y = (")
    assert [d.code for d in caught.value.diagnostics] == ["AX0101", "AX0102"]


def test_warnings_are_not() -> None:
    assert fmt("val x = a -b") == "val x = a - b\n"


def test_declaration_alone() -> None:
    (node,) = parse(SourceFile("p", "val x=1"))[0].decls
    assert print_declaration(node) == "val x = 1"
