"""The Pygments lexer knows what the grammar knows, and cuts every text into tokens that make it up again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Token

from axon.base.source import SourceFile
from axon.grammar.lexer import tokenize
from axon.grammar.table import load
from axon.host import lexer
from axon.host.lexer import AxonLexer
from tests import ROOT

PROGRAMS = sorted([*ROOT.glob("stdlib/*.axon"), *ROOT.glob("examples/**/*.axon"), *ROOT.glob("tests/corpus/accepted/*.axon")])


def test_it_is_registered() -> None:
    assert isinstance(get_lexer_by_name("axon"), AxonLexer)
    assert isinstance(get_lexer_for_filename("model.axon"), AxonLexer)


def test_its_words_are_those_of_the_grammar() -> None:
    mine = {*lexer.DECLARATIONS, *lexer.FORMS, *lexer.LOGIC, *lexer.OPERATORS, *lexer.BRACKETS}
    assert mine == set(load().literals)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_its_tokens_are_those_of_the_compiler(path: Path) -> None:
    """No errors, and every token of the compiler begins where one of the lexer begins (`.w` apart: it is two here)."""
    text = path.read_text()
    ours = {at: (kind, piece) for at, kind, piece in AxonLexer().get_tokens_unprocessed(text)}
    assert not [piece for kind, piece in ours.values() if kind in Error]
    for token in tokenize(SourceFile("x", text), load()).tokens:
        if token.text and token.kind != "PROJ":
            assert token.start in ours, token
            assert ours[token.start][1] == token.text


def kinds(text: str) -> list[tuple[object, str]]:
    return [(kind, piece) for _, kind, piece in AxonLexer().get_tokens_unprocessed(text) if piece.strip()]


def test_kinds() -> None:
    assert kinds("fun f (x : 'a[..s, 2]) = sum i => x[i].w.1 + 1.5e3") == [
        (Keyword.Declaration, "fun"), (Name.Function, "f"), (Token.Punctuation, "("), (Name, "x"), (Operator, ":"),
        (Name.Decorator, "'a"), (Token.Punctuation, "["), (Name.Label, "..s"), (Token.Punctuation, ","), (Number.Integer, "2"),
        (Token.Punctuation, "]"), (Token.Punctuation, ")"), (Operator, "="), (Name.Builtin, "sum"), (Name, "i"), (Operator, "=>"),
        (Name, "x"), (Token.Punctuation, "["), (Name, "i"), (Token.Punctuation, "]"), (Operator, "."), (Name, "w"),
        (Operator, "."), (Name.Attribute, "1"), (Operator, "+"), (Number.Float, "1.5e3"),
    ]  # fmt: skip


def test_comments_nest_and_may_stay_open() -> None:
    assert kinds("(* a (* b *) c *) x") == [
        *[(Comment.Multiline, p) for p in ("(*", " a ", "(*", " b ", "*)", " c ", "*)")],
        (Name, "x"),
    ]
    assert {kind for kind, _ in kinds("(* never closed")} == {Comment.Multiline}
    assert kinds("(op *)")[0] == (Token.Punctuation, "(")


def test_what_is_no_token_is_an_error() -> None:
    assert (Error, '"') in kinds('val s = "text"')
    assert (Error, "é") in kinds("val é = 1")


@given(st.text(max_size=200))
def test_any_text_is_cut_without_loss(text: str) -> None:
    assert "".join(piece for _, _, piece in AxonLexer().get_tokens_unprocessed(text)) == text
