"""Texts that are deep, large or not text at all: one clear diagnostic, quickly, and never a traceback."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.base.source import SourceFile
from axon.grammar.lexer import tokenize
from axon.grammar.parse import parse
from axon.grammar.table import load
from tests.clock import at_most, timed

MANY = 100_000
LIMIT_S = 5.0

WORDS = (
    "val fun type sig import let in end fn if then else for loop where as cast op not ( ) [ ] { } [| |] = => -> | |> , . .. : ? "
    "+ - * ** < <= x y sum 1 2.5 'a ..s .1 == && \" # ; $ é \0 \ufeff (* *) \n \r\n \t"
)

ONE_DIAGNOSTIC = {
    "parentheses": ("val x = " + "(" * MANY + "1" + ")" * MANY, "AX0108"),
    "open parentheses": ("val x = " + "(" * MANY, "AX0108"),
    "minuses": ("val x = " + "-" * MANY + "1", "AX0108"),
    "nots": ("val x = " + "not " * MANY + "a", "AX0108"),
    "a sum": ("val x = " + "+".join(["1"] * MANY), "AX0108"),
    "an application": ("val x = f" + " x" * MANY, "AX0108"),
    "projections": ("val x = t" + ".1" * MANY, "AX0108"),
    "pipes": ("val x = a" + " |> f" * MANY, "AX0108"),
    "functions": ("val x = " + "fn x => " * MANY + "x", "AX0108"),
    "choices": ("val x = " + "if a then b else " * (MANY // 2) + "c", "AX0108"),
    "arrows": ("sig f : " + "f32 -> " * MANY + "f32", "AX0108"),
    "dimensions": ("sig f : f32[" + "n * " * MANY + "n]", "AX0108"),
    "patterns": ("val " + "(" * MANY + "x" + ")" * MANY + " = 1", "AX0108"),
    "open lets": ("val x = " + "let val x = " * (MANY // 2), "AX0108"),
    "open comments": ("(*" * MANY, "AX0103"),
    "digits": ("val x = " + "9" * 5000, "AX0111"),
    "digits of a position": ("val x = t." + "9" * 5000, "AX0111"),
    "digits of a dimension": ("sig f : f32[" + "9" * 5000 + "]", "AX0111"),
    "an exponent": ("val x = 1e" + "9" * 5000, "AX0111"),
    "a long line": ("x" * 10_000_000, "AX0109"),
    "NULs": ("\0" * MANY, "AX0106"),
    "a NUL": ("val x = 1\0", "AX0106"),
    "a surrogate": ("val x = 1 (* \ud800 *)", "AX0106"),
    "a direction": ("val x = 1 (* \u202e *)", "AX0107"),
}


@pytest.mark.parametrize("attack", ONE_DIAGNOSTIC)
def test_one_diagnostic(attack: str) -> None:
    text, code = ONE_DIAGNOSTIC[attack]
    with at_most(LIMIT_S):
        _, diagnostics = parse(SourceFile("attack.axon", text + "\nval ok = 1" * (len(text) < 2_000_000 and "open" not in attack)))
    assert [d.code for d in diagnostics] == [code]
    assert len(diagnostics[0].message) < 200


FINE = {
    "comments": "(*" * MANY + "*)" * MANY + "val x = 1",
    "for": "val x = " + "for i => " * 21 + "1",
    "a tuple": "val x = (" + "1, " * 20_000 + "1)",
    "declarations": "val x = 1\n" * 10_000,
    "local declarations": "val x = let " + "val a = 1\n" * 10_000 + " in a end",
    "digits of a float": "val x = 0." + "9" * 5000,
    "a long name": "val x = " + "x" * 1_000_000,
    "line ends, tabs, a byte order mark": "\ufeffval x = 1\r\n\tval y = 2\r\n",
    "deep enough": "val x = " + "(" * 390 + "1" + ")" * 390,
}


@pytest.mark.parametrize("attack", FINE)
def test_fine(attack: str) -> None:
    with at_most(LIMIT_S):
        program, diagnostics = parse(SourceFile("attack.axon", FINE[attack]))
    assert program.decls
    assert diagnostics == ()


MANY_ERRORS = {
    "brackets": "val x = )\n" * 10_000,
    "open brackets": "val x = (\n" * 10_000,
    "lets without in": "fun f x = let val a = 1\n" * 10_000,
    "lets without end": "fun f x = let val a = 1 in a\n" * 10_000,
    "reductions": "val x = f y => 3\n" * 10_000,
    "letters": "val é = 1\n" * 10_000,
    "one line": "val x = ) " * 10_000,
    "characters": "$ " * 1_000_000,
    "quotes": '"' * MANY,
    "words": " ".join(random.Random(1).choices(WORDS.split(), k=50_000)),
}


@pytest.mark.parametrize("attack", MANY_ERRORS)
def test_many_errors(attack: str) -> None:
    with at_most(LIMIT_S):
        _, diagnostics = parse(SourceFile("attack.axon", MANY_ERRORS[attack]))
    assert 1 <= len(diagnostics) <= 200  # a hundred errors and a hundred warnings


def test_deep_is_said_once_and_reading_goes_on() -> None:
    deep = "val x = " + "(" * 1000 + "1" + ")" * 1000
    program, diagnostics = parse(SourceFile("attack.axon", f"{deep}\nval y = 1\n{deep}\nval z = )"))
    assert [d.code for d in diagnostics] == ["AX0108", "AX0108", "AX0101"]
    assert len(program.decls) == 1


@pytest.mark.parametrize(
    ("opening", "middle", "closing"),
    [("(", "1", ")"), ("let val x = 1 in ", "x", " end"), ("\n  let val x = ", "1", " in x end"), ("[| (1, ", "1", ") |]")],
)
def test_deep_is_said_once_where_it_is_too_deep(opening: str, middle: str, closing: str) -> None:
    text = "val x = " + opening * 5000 + middle + closing * 5000
    (deep,) = parse(SourceFile("attack.axon", text))[1]
    assert deep.code == "AX0108"
    starts = [match.start() for match in re.finditer(r"let|[(\[]", text)]
    assert deep.labels[0].span.start == starts[400]


FRAGMENTS = st.sampled_from(WORDS.split(" "))


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS, max_size=40).map(" ".join) | st.text(max_size=60))
def test_never_raises(text: str) -> None:
    program, diagnostics = parse(SourceFile("attack.axon", text))
    for d in diagnostics:
        assert d.labels
        assert all(0 <= label.span.start <= label.span.end <= len(text) for label in d.labels)
    nothing_there = len(tokenize(SourceFile("attack.axon", text), load()).tokens) == 1
    assert program.decls or diagnostics or nothing_there


def test_time_is_linear() -> None:
    """Eight times the text takes about eight times as long."""
    lines = "fun f x y = x + y * 2.0 - sum k => a[k, 3] * g (k, 1)\n"

    def seconds(count: int) -> float:
        return min(timed(lambda: parse(SourceFile("t", lines * count)))[0] for _ in range(3))

    assert seconds(2000) < 24 * seconds(250)
