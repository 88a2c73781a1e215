"""Wrong programs: what is said, in whose words, where, and what is read all the same."""

from __future__ import annotations

import pytest

from axon.base.codes import CODES
from axon.base.diagnostics import Diagnostic
from axon.base.source import SourceFile
from axon.grammar import syntax as s
from axon.grammar.lexer import MAX_ERRORS
from axon.grammar.parse import parse, parse_expression, parse_type


def read(text: str) -> tuple[list[str], tuple[Diagnostic, ...]]:
    """The names of the declarations that were read, and the diagnostics."""
    program, diagnostics = parse(SourceFile("test.axon", text))
    return [
        getattr(getattr(d, "name", None) or getattr(d, "pattern", None), "text", "") or d.pattern.name for d in program.decls
    ], diagnostics  # type: ignore[union-attr]


# One mistake each. Where the message must be found in the text is marked by «…»; the declaration `ok` after it must be read.
ONE_MISTAKE = [
    ("val a = x «==» y", "AX0113", "Axon has no `==`: equality is a single `=`"),
    ("val a = x «!=» y", "AX0113", "Axon has no `!=`: inequality is `<>`"),
    ("val a = x «&&» y", "AX0113", "Axon has no `&&`: the logical operators are words"),
    ("val a = x «||» y", "AX0113", "Axon has no `||`: the logical operators are words"),
    ("val a = «!»x", "AX0113", "Axon has no `!`: negation is the word `not`"),
    ("val a = x «^» 2", "AX0113", "Axon has no `^`: a power is `**`"),
    ("val a «:=» x", "AX0113", "Axon has no `:=`: a value is bound once, with `=`"),
    ("val a = x«;»", "AX0113", "Axon has no `;`: declarations follow each other without one"),
    ("val a = x «?» y : z", "AX0113", "Axon has no `?`: a choice is `if … then … else …`"),
    ("val a = «\"text\"»", "AX0113", "Axon has no strings: a program is made of numbers, tensors and functions"),
    ("val a = «'text'»", "AX0113", "Axon has no strings: a program is made of numbers, tensors and functions"),
    ("val a = f «cast» f32 x", "AX0101", "`cast` begins an argument of `f`, which stands in parentheses"),
    ("val a = let val b = f «if» x then let val d = x in d end else z in b end", "AX0101",
     "`if` begins an argument of `f`, which stands in parentheses"),
    ("val a = (1, x «if» y else z)", "AX0113", "a choice begins with its condition: `if … then … else …`"),
    ("val a = f «cast»", "AX0101", "`cast` cannot follow `f`"),
    ("val a = f «sum» i => x[i]", "AX0114", "a reduction that is an argument stands in parentheses"),
    ("val a = f «for» i => x[i]", "AX0114", "a `for` that is an argument stands in parentheses"),
    ("fun a x «->» x", "AX0101", "a body follows `=` here, not `->`"),
    ("«from» nn import softmax, relu", "AX0113", "`from` begins no declaration in Axon: write `import`"),
    ("val a = x «# why»", "AX0113", "`#` does not begin a comment here: write `(* … *)`"),
    ("val a = x «// why»", "AX0113", "`//` does not begin a comment here: write `(* … *)`"),
    ("val a = «[»1, 2]", "AX0113", "an array is written `[| 1, 2 |]`; `[` alone reads from the tensor before it"),
    ("«def» a(x):", "AX0113", "`def` begins no declaration in Axon: write `fun`"),
    ("«let» a = 1", "AX0113", "`let` begins no declaration in Axon: write `val`"),
    ("val a = «\\»x -> x", "AX0113", "Axon has no `\\`: a function is `fn x => …`"),
    ("val a = (1, «\\»x. x)", "AX0113", "Axon has no `\\`: a function is `fn x => …`"),
    ("val a = «\\»x", "AX0113", "Axon has no `\\`: a function is `fn x => …`"),
    ("val a = fn x «->» x", "AX0101", "`->` stands only in types: a body follows `=>`"),
    ("val a = fn x «=» x", "AX0101", "a body follows `=>` here, not `=`"),
    ("fun a x «=>» x", "AX0101", "a body follows `=` here, not `=>`"),
    ("fun a x «->» f32 = x", "AX0101", "the type of a result follows `:`, not `->`"),
    ("val a = for i < n«:» x[i]", "AX0101", "a body follows `=>` here, not `:`"),
    ("val a = for i «in» n => x[i]", "AX0101", "an index is bounded with `<`, not `in`"),
    ("val a = { w «:» 1 }", "AX0101", "a field or a state is given its value with `=`, not `:`"),
    ("sig a «=» f32", "AX0101", "a type follows `:` here, not `=`"),
    ("type a = { w «=» f32 }", "AX0101", "a type follows `:` here, not `=`"),
    ("val a = «lambda» x: x", "AX0113", "Axon has no `lambda`: a function is `fn x => …`"),
    ("val a = sum i «<» n => x", "AX0115", "the indices of a reduction that have bounds stand after `for`"),
    ("val a = sum i «<» n, j < n => x", "AX0115", "the indices of a reduction that have bounds stand after `for`"),
    ("val a = max i «<» n, j => x", "AX0115", "the indices of a reduction that have bounds stand after `for`"),
    ("val a = (1, sum i «<» n, j < n => x)", "AX0115", "the indices of a reduction that have bounds stand after `for`"),
    ("val a = sum i, j «<» n - 1 => x", "AX0115", "the indices of a reduction that have bounds stand after `for`"),
    ("val a = cast «x»[i] + 1", "AX0101", "expected an element type after `cast`, found `x`"),
    ("val a «x» = x + 1", "AX0101", "a `val` has no parameters, and `a` has some"),
    ("val a «(»x : f32) = x", "AX0101", "a `val` has no parameters, and `a` has some"),
    ("val a = «let» val x = 1\n  x end", "AX0102",
     "this `let` has no `in`, which stands between its declarations and its value"),
    ("fun a «val» x = val + x", "AX0101", "`val` is a word of the language, so it cannot be a name"),
    ("fun a «é» = é + é", "AX0105", "names are made of a-z, A-Z, 0-9 and _, so `é` (U+00E9) cannot be part of one"),
    ("val a = x «:» f32", "AX0101", "a type for an expression needs parentheses around both"),
    ("val a = let «x» = 1 in x end", "AX0101", "`let` is followed by declarations"),
    ("val «type» = 1", "AX0101", "`type` is a word of the language, so it cannot be a name"),
    ("fun a «=» 1", "AX0101", "a `fun` needs a parameter, and `a` has none"),
    ("val a = loop «s» = 0 for i < n => s", "AX0101", "the state of a `loop` stands in parentheses: `loop (s = …) for …`"),
    ("val a = cast «(»f32) x", "AX0101", "expected an element type after `cast`, found `(`"),
    ("sig a : f32[«..» s]", "AX0101", "the dots of a shape variable touch its name"),
    ("import a«.»b", "AX0101", "an `import` names one module, by one word"),
    ("val a = sum i«,» j => x[i, j]", "AX0101", "no commas between the indices of a reduction"),
    ("val a = for l, o => sum i«,» j, k => x[i, j]", "AX0101", "no commas between the indices of a reduction"),
    ("val a = sqrt (sum i«,» j => x[i, j])", "AX0101", "no commas between the indices of a reduction"),
    ("val a = for (i«)» => x", "AX0101", "one index stands without parentheses: `i`"),
    ("val a = «.5»", "AX0101", "a number begins with a digit"),
    ("val a = x«)»", "AX0101", "this `)` has no `(` before it"),
    ("val a = x «end»", "AX0101", "this `end` has no `let` before it"),
    ("val a = x «then» y", "AX0101", "this `then` has no `if` before it"),
    ("«a» = 1", "AX0101", "a declaration begins with `val` or `fun`"),
    ("«1» + 2", "AX0101", "expected a declaration, found `1`"),
    ("val a = x +\n\n«val» ok2 = 1", "AX0101", "expected an expression after `+`, found `val`"),
    ("val a = for «=»> x", "AX0101", "expected an index after `for`, found `=>`"),
    ("val a = fn «=»> x", "AX0101", "expected a pattern after `fn`, found `=>`"),
    ("val a = (op «)»", "AX0101", "expected an operator such as `+` after `op`, found `)`"),
    ("sig a : «=» f32", "AX0101", "expected a type after `:`, found `=`"),
    ("sig a : f32[n + «]»", "AX0101", "expected a dimension after `+`, found `]`"),
    ("fun a (x «=» x", "AX0101", "expected `)` after `x`, found `=`"),
    ("val a = «(»x\n", "AX0102", "this `(` is never closed: expected `)` before `val`"),
    ("val a = «[|» x, y\n", "AX0102", "this `[|` is never closed: expected `|]` before `val`"),
    ("val a = «[|» x ]", "AX0102", "this `[|` is never closed: expected `|]` before `]`"),
    ("val a = x«[»i", "AX0102", "this `[` is never closed: expected `]` before `val`"),
    ("val a = «let» val x = 1 in x", "AX0102", "this `let` is never closed: expected `end` before `val`"),
    ("val a = «let» val x = 1", "AX0102", "this `let` has no `in`: expected `in` before `val`"),
    ("val a = let val x = 1 in «let» val z = 1 in z", "AX0102", "this `let` is never closed: expected `end` before `val`"),
    ("val a = x *«)» y", "AX0103", "this `*)` closes no comment"),
    ("val a = x «≤» y", "AX0104", "`≤` (U+2264) is not a symbol of Axon: write `<=`"),
    ("val a = x «$$$» y", "AX0104", "`$$$` (U+0024) means nothing in Axon"),
    ("val «naïve» = 1", "AX0105", "names are made of a-z, A-Z, 0-9 and _, so `ï` (U+00EF) cannot be part of one"),
    ("val a = 1 «\x0c»", "AX0106", "a control character (U+000C) stands here: delete it"),
    ("val a = (* «\u2066» *) 1", "AX0107", "an invisible character (U+2066) changes the direction of the text here: delete it"),
    ("val a = «18446744073709551616»", "AX0111", "18446744073709551616 does not fit in 64 bits"),
    ("sig a : f32[«18446744073709551616»]", "AX0111", "18446744073709551616 does not fit in 64 bits"),
    ("val a = «1e999»", "AX0111", "this number is too large for any float"),
    ("val a = x < y «<» z", "AX0112", "comparisons do not chain: `x < y` is already true or false"),
    ("val a = x = y «=» z", "AX0112", "comparisons do not chain: `x = y` is already true or false"),
    ("val a = x = 3 or (x = 2 «and» x = 1)", "AX0113", "Axon has no `and`: write `andalso`"),
    ("val a = x < y «or» f (x and y) + 1 < z", "AX0113", "Axon has no `or`: write `orelse`"),
    ("val a = x < (y and z) «<» z", "AX0112", "comparisons do not chain: `x < (y and z)` is already true or false"),
    ("val a = x «=>» x", "AX0114", "`x =>` has no `fn` before it"),
    ("val a = «f» x => x", "AX0114", "`=>` follows indices of a reduction, and `f` is not one"),
    ("val a = sum «=>» x", "AX0115", "`sum` needs an index before `=>`"),
    ("val a = sum («i + 1») => x", "AX0115", "only indices stand between a reduction's name and `=>`: `k`, `..k` or `(i, j)`"),
    ("val a = sum «i» for j => x", "AX0115", "the indices of `sum for …` stand after `for`"),
    ("val a = reduce «k» => x", "AX0115", "`reduce` needs a function and its unit first"),
    ("val a = f «..i» + 1", "AX0115", "`..i` stands for several indices, so it may stand only among indices"),
    ("val a = for «i j < n» => x", "AX0116", "`<` bounds one index, and 2 stand before it"),
    ("val a = for ..i < «n» => x", "AX0116", "`..i` runs over a whole shape, so its bound is a shape variable, such as `..s`"),
    ("val a = for i < «..s» => x", "AX0116", "`i` is one index, so its bound is one dimension, not the shape `..s`"),
    ("val a = for «(i, j) < n» => x", "AX0116", "`(i, j)` is a product of indices, which cannot have a bound"),
    ("val a = «if» x then y", "AX0117", "this `if` has no `else`, so it would have no value when its condition is false"),
    ("val a = «if» x else y", "AX0117", "this `if` has no `then`: expected `then` before `else`"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "code", "message"), ONE_MISTAKE)
def test_one_mistake(marked: str, code: str, message: str) -> None:
    start, end = marked.index("«"), marked.index("»") - 1
    names, diagnostics = read(marked.replace("«", "").replace("»", "") + "\nval ok = 1")
    assert [(d.code, d.message) for d in diagnostics] == [(code, message)]
    span = diagnostics[0].labels[0].span
    assert span.start == start
    assert span.end >= end
    assert names[-1:] == ["ok"]
    assert "a" not in names or marked[marked.index("»") :] == "»" or "(*" in marked, "unless what is wrong stands behind it"


MISPLACED = [
    ("fu", "expected a declaration, found `fu`", None),
    ("fum f x = x", "expected a declaration, found `fum`", "fun"),
    ("fum f x = let val y = x in y end", "expected a declaration, found `fum`", "fun"),
    ("vla t = 1", "expected a declaration, found `vla`", "val"),
    ("typ t = f32[3]", "expected a declaration, found `typ`", "type"),
    ("def f x = x", "`def` begins no declaration in Axon: write `fun`", "fun"),
    ("let val t = 3 in t end", "`let` begins no declaration in Axon: write `val`", None),
    ("f x = x", "expected a declaration, found `f`", None),
    ("t = 3", "a declaration begins with `val` or `fun`", "val t"),
    ("k 3.0", "expected a declaration, found `k`", None),
    ("nn.", "expected a declaration, found `nn`", None),
    ("(a, b)", "expected a declaration, found `(`", None),
    ("1", "expected a declaration, found `1`", None),
    ("'a", "expected a declaration, found `'a`", None),
    (")", "this `)` has no `(` before it", None),
    ("end", "this `end` has no `let` before it", None),
    ('"abc', "Axon has no strings: a program is made of numbers, tensors and functions", None),
]


@pytest.mark.parametrize(("stray", "message", "put"), MISPLACED)
@pytest.mark.parametrize("above", ["", "fun above x =\n  x\n", "type above = f32[3]\n", "import nn\n"])
def test_what_is_misplaced_at_the_margin_is_no_part_of_the_line_above(
    stray: str, message: str, put: str | None, above: str
) -> None:
    text = f"{above}{stray}\n\nfun below x = x\n"
    program, diagnostics = parse(SourceFile("t.axon", text))
    assert [d.message for d in diagnostics] == [message]
    assert diagnostics[0].labels[0].span.start == len(above)
    kept = [d.span.text.split("\n")[0] for d in program.decls]
    want = [*above.splitlines()[:1], *(["val t = 3"] if put == "val t" else []), "fun below x = x"]
    assert [k for k in kept if k.split()[0] != "t"] == [w for w in want if w != "val t = 3"]
    assert [e.text for s in diagnostics[0].suggestions for e in s.edits] == ([put] if put else [])


@pytest.mark.parametrize("rest", ["|> f", "+ x", "- x", "[1]", ".w", "@ x", "as f32[3]", "= x"])
def test_what_goes_on_with_the_line_above_may_stand_at_the_margin(rest: str) -> None:
    program, diagnostics = parse(SourceFile("t.axon", f"fun a x = x\n{rest}\nval b =\n1\nval c = let\nval d = 1\nin\nf\nd\nend"))
    assert diagnostics == ()
    assert len(program.decls) == 3


@pytest.mark.parametrize("body", ["sum\n{}i => x[i]", "reduce (max, -inf)\n{}i => x[i]", "cast f32\n{}x", "exp\n{}x"])
def test_what_is_read_like_an_argument_is_indented(body: str) -> None:
    """As docs/reference.md says; the error does too."""
    declaration = "fun f (x : f32[n]) = " + body
    assert parse(SourceFile("t.axon", declaration.format("  ")))[1] == ()
    (diagnostic,) = parse(SourceFile("t.axon", declaration.format("")))[1]
    assert "more lines are indented" in diagnostic.notes[0]


def test_every_code_is_here() -> None:
    elsewhere = {"AX0108", "AX0109", "AX0110", "AX0118"}  # in test_attack.py and test_parse.py
    assert {code for _, code, _ in ONE_MISTAKE} | elsewhere == {code for code in CODES if code.startswith("AX01")}


def test_several_mistakes() -> None:
    text = """
val first = (1 + 2

fun second x = x +

val good = 3

fun third x =
  let val a = 1 +
      val b = 2
      val c = )
  in a + end

type alias = f32[n
fun fourth x = if x then 1
val last = 4
"""
    names, diagnostics = read(text)
    assert names == ["good", "last"]
    assert [(SourceFile("", text).position(d.labels[-1].span.start)[0], d.message) for d in diagnostics] == [
        (4, "this `(` is never closed: expected `)` before `fun`"),
        (6, "expected an expression after `+`, found `val`"),
        (10, "expected an expression after `+`, found `val`"),
        (11, "this `)` has no `(` before it"),
        (12, "expected an expression after `+`, found `end`"),
        (15, "this `[` is never closed: expected `]` before `fun`"),
        (16, "this `if` has no `else`, so it would have no value when its condition is false"),
    ]


def test_a_let_does_not_swallow_what_follows() -> None:
    text = "fun f x =\n  let val a = 1\n\nfun g x = x\n\nfun h x = let val b = 2 in b end\n\nval k = )\n"
    names, diagnostics = read(text)
    assert names == ["g", "h"]
    assert [d.message for d in diagnostics] == [
        "this `let` has no `in`: expected `in` before `fun`",
        "this `)` has no `(` before it",
    ]


def test_let_at_the_margin() -> None:
    """Whoever begins lines of a `let` at the margin may do so; then it is not to blame for other errors."""
    names, diagnostics = read("val x =\nlet\nval a = 1\nval b = )\nin a end\nval y = 2")
    assert names == ["y"]
    assert [d.message for d in diagnostics] == ["this `)` has no `(` before it"]


def test_indented_files_recover_too() -> None:
    names, diagnostics = read("  val a = )\n  val b = (\n  val c = 1")
    assert names == ["c"]
    assert len(diagnostics) == 2


LETS = """\
fun before x = x
fun f x =
  let val y = x
      fun g z =
        let val w = z
        in w end
      val last = g y
  in if y then last else y end
fun after x = x
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("let val y", "let end val y"), ("val y", "val in y"), ("val y", "val end y"), ("fun g", "fun end g"), ("g z", "g end z"),
        ("in w end", "in w"), ("in w end", "w end"), ("= g y", "= end g y"), ("= g y", "= in g y"), ("if y then", "if then y then"),
        ("let val w", "val w"), ("then last", "else last"),
    ],
)  # fmt: skip
def test_a_stray_word_of_a_let_is_one_error(old: str, new: str) -> None:
    names, diagnostics = read(LETS.replace(old, new))
    assert [d.severity for d in diagnostics] == ["error"], [(d.code, d.message) for d in diagnostics]
    assert names[0] == "before"
    assert names[-1] == "after"


def test_mended_mistakes_do_not_hide_others() -> None:
    _, diagnostics = read("val a = fn x -> x == 1 && fn y -> y !=")
    assert len(diagnostics) == 6


@pytest.mark.parametrize(
    "opened", ['x["i, j]', 'f ("x', "x[(*i, j]", "f (x (*)", '[| "1 |]', '{ w = "1 }', 'let val y = " in y end', "if x (*"]
)
def test_what_takes_the_rest_of_the_text_is_all_that_is_wrong(opened: str) -> None:
    """A string ends with its line at the latest, a comment may not end at all: with them go brackets that were closed there."""
    code = "AX0113" if '"' in opened else "AX0103"
    names, diagnostics = read(f"val before = 1\nval a = {opened}\n\nval after = 1\n")
    assert [d.code for d in diagnostics] == [code]
    assert names == (["before", "after"] if code == "AX0113" else ["before"])


def test_left_out_text_has_no_consequences() -> None:
    """What is dropped is reported once; that something is missing then is no second mistake."""
    for text in ("val a = (1 # one\nval b = 2", "val a = $", "val a = @@ $ + )"):
        assert len(read(text)[1]) <= 2, text


def test_too_many() -> None:
    _, diagnostics = read("val a = )\n" * 1000)
    assert len(diagnostics) == MAX_ERRORS
    assert diagnostics[-1].notes == (f"only the first {MAX_ERRORS} syntax errors are shown",)
    assert all(d.notes == () for d in diagnostics[:-1])


def test_hints_for_words_of_other_languages() -> None:
    for text, hint in [
        ("val a = smu i => x", "did you mean `sum`?"),
        ("val a = if x then y elif z then u else v", "another case is `else if`"),
    ]:
        _, diagnostics = read(text)
        said = " ".join([diagnostics[0].message, *(h.text for h in diagnostics[0].suggestions)])
        assert hint in said


@pytest.mark.parametrize("text", ["", " \n", "(* c *)", "\ufeff"])
def test_empty_files_are_fine(text: str) -> None:
    assert parse(SourceFile("test.axon", text)) == (s.Program((), span=SourceFile("", "").span()), ())


def test_types_and_expressions_alone() -> None:
    assert parse_expression(SourceFile("e", "1 +"))[0] is None
    assert parse_expression(SourceFile("e", "1 == 2"))[0] is None
    assert parse_expression(SourceFile("e", "f ..i"))[0] is None
    assert [d.message for d in parse_expression(SourceFile("e", ""))[1]] == ["expected an expression, found the end of the text"]
    assert parse_type(SourceFile("t", "f32[n"))[0] is None
    assert [d.message for d in parse_type(SourceFile("t", "f32 =>"))[1]] == ["`=>` cannot follow `f32`"]


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("val a = sum i < n, j < m => x[i, j]", "val a = sum for i < n, j < m => x[i, j]"),
        ("val a = (1, max i < n, j => x[i, j])", "val a = (1, max for i < n, j => x[i, j])"),
        ("val a = cast x[i].w * y", "val a = cast f32 x[i].w * y"),
        ("val g y = y + 1", "fun g y = y + 1"),
        ("val a =\n  let\n    val b = 1\n    b * b\n  end", "val a =\n  let\n    val b = 1\n    in b * b\n  end"),
        ("val a = let\n  fun f x =\n    let val c = x in c end\n  f 1\nend",
         "val a = let\n  fun f x =\n    let val c = x in c end\n  in f 1\nend"),
    ],
)  # fmt: skip
def test_what_mends_it(text: str, mended: str) -> None:
    _, (found,) = read(text)
    (suggestion,) = found.suggestions
    for edit in suggestion.edits:
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert text == mended
    assert read(text)[1] == ()


def test_a_let_without_in_is_told_where_its_value_begins() -> None:
    _, (found,) = read("val a = let\n  val b = f\n    1\n  b * b\nend")
    assert found.labels[1].span.start == found.labels[1].span.file.text.index("b * b")
    _, (found,) = read("val a = let val b = f b end")
    assert found.labels[1].text == "expected `in` somewhere before this"
