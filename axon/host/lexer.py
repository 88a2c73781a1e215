"""Syntax colours: a Pygments lexer, which serves the prompt, notebooks, `axon view` and whatever else asks Pygments for `axon`.

It never fails and never looks ahead further than a word, so it colours half-typed text too. What the grammar does not know as a
token becomes `Error`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments import lexer
from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, Whitespace

from axon.base.element import Element
from axon.types.builtins import BINARY, CONSTANTS, FUNCTIONS, REDUCTIONS, UNARY

# tests/host/test_lexer.py compares these with the grammar.
DECLARATIONS = ("val", "fun", "type", "sig", "import", "observe")
FORMS = ("let", "in", "end", "fn", "if", "then", "else", "for", "where", "while", "loop", "unfold", "as", "cast", "op")
LOGIC = ("andalso", "orelse", "not")
OPERATORS = ("|>", "->", "=>", "**", "<=", ">=", "<>", "..", "+", "-", "*", "/", "%", "@", "<", ">", "=", "~", "?", "|", ":", ".")
BRACKETS = ("[|", "|]", "(", ")", "[", "]", "{", "}", ",")

bygroups: Any = lexer.bygroups  # untyped in its stubs

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SPACE = r"([ \t\r\n]+)"


class AxonLexer(RegexLexer):
    """The surface syntax of Axon."""

    name = "Axon"
    url = "https://pypi.org/project/axon"
    aliases: ClassVar[list[str]] = ["axon"]
    filenames: ClassVar[list[str]] = ["*.axon"]
    mimetypes: ClassVar[list[str]] = ["text/x-axon"]

    tokens: ClassVar = {
        "root": [
            (r"[ \t\r\n]+", Whitespace),
            (r"\(\*", Comment.Multiline, "comment"),
            (rf"\b(fun|sig){_SPACE}({_NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            (rf"\b(type){_SPACE}({_NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Class)),
            (rf"\b(import){_SPACE}({_NAME})", bygroups(Keyword.Namespace, Whitespace, Name.Namespace)),
            (words(DECLARATIONS, prefix=r"\b", suffix=r"\b"), Keyword.Declaration),
            (words(FORMS, prefix=r"\b", suffix=r"\b"), Keyword),
            (words(LOGIC, prefix=r"\b", suffix=r"\b"), Operator.Word),
            (words(tuple(CONSTANTS), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (words(tuple(e.value for e in Element), prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (
                words((*REDUCTIONS, "reduce", "scan", *UNARY, *BINARY, *FUNCTIONS), prefix=r"\b", suffix=r"\b"),
                Name.Builtin,
            ),
            (rf"\.\.{_NAME}", Name.Label),
            (r"(\.)([0-9]+)", bygroups(Operator, Name.Attribute)),
            (rf"(?<=\w)(\.)({_NAME})", bygroups(Operator, Name.Attribute)),
            (r"'[A-Za-z][A-Za-z0-9_]*", Name.Decorator),
            (r"[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)", Number.Float),
            (r"[0-9]+", Number.Integer),
            (_NAME, Name),
            (words(BRACKETS), Punctuation),
            (words(OPERATORS), Operator),
            (r".", Error),
        ],
        "comment": [
            (r"[^(*]+", Comment.Multiline),
            (r"\(\*", Comment.Multiline, "#push"),
            (r"\*\)", Comment.Multiline, "#pop"),
            (r"[(*]", Comment.Multiline),
        ],
    }
