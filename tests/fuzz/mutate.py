"""Mutations of Axon programs: tokens and lines, exchanged, repeated, dropped, and taken from other programs."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from tests import ROOT

LARGEST = 3_000  # characters; what is wrong with a long program is wrong with a part of it
_TOKEN = re.compile(r"\s+|'?\w+|\(\*|\*\)|\[\||\|\]|\|>|=>|->|<=|>=|<>|\*\*|\.\.|.", re.DOTALL)
WORDS = [
    "val",
    "fun",
    "type",
    "sig",
    "import",
    "let",
    "in",
    "end",
    "fn",
    "if",
    "then",
    "else",
    "for",
    "loop",
    "unfold",
    "where",
    "op",
    "as",
    "cast",
    "not",
    "andalso",
    "orelse",
    "true",
    "false",
    "inf",
    "nan",
    "pi",
    "sum",
    "prod",
    "max",
    "min",
    "any",
    "all",
    "argmax",
    "argmin",
    "reduce",
    "scan",
    "nonzero",
    "filter",
    "sort",
    "argsort",
    "exp",
    "abs",
    "pow",
    "f32",
    "f64",
    "bf16",
    "f8e4m3",
    "i32",
    "i64",
    "u8",
    "u64",
    "i16",
    "bool",
    "'a",
    "'b",
    "'A",
    "..s",
    "..t",
    "..",
    "_",
    "x",
    "y",
    "n",
    "m",
    "i",
    "j",
    "k",
    "nn",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "[|",
    "|]",
    ",",
    ";",
    ":",
    ".",
    "|",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "@",
    "**",
    "|>",
    "=>",
    "->",
    "?",
    ".1",
    ".2",
    "0",
    "1",
    "2",
    "3",
    "1.0",
    "0.5",
    "1e6",
    "2147483648",
    "(*",
    "*)",
    "16777216",
]


@cache
def seeds() -> tuple[str, ...]:
    """The programs of the corpora and of the examples, and what was found to be hard."""
    paths = [p for d in ("tests/corpus", "tests/fuzz/found", "examples", "stdlib") for p in sorted((ROOT / d).rglob("*.axon"))]
    return tuple(text for p in paths if len(text := p.read_text(errors="replace")) <= LARGEST)


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def mutated(text: str, chance: Random, most: int = LARGEST) -> str:
    """Another text, from a few small changes."""
    parts = tokens(text) or ["val", " ", "x", "=", "1"]
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
        at = chance.randrange(len(parts) + 1)
        match chance.randrange(8):
            case 0:
                del parts[at : at + chance.choice((1, 1, 2, 8))]
            case 1:
                parts[at:at] = [" ", chance.choice(WORDS), " "]
            case 2:
                parts[at : at + 1] = [chance.choice(WORDS)]
            case 3:
                piece = parts[at : at + chance.choice((1, 3, 10, 40))]
                to = chance.randrange(len(parts) + 1)
                parts[to:to] = [" ", *piece, " "]
            case 4:
                to = chance.randrange(len(parts) + 1)
                if max(at, to) < len(parts):
                    parts[at], parts[to] = parts[to], parts[at]
            case 5:
                other = tokens(chance.choice(seeds()))
                start = chance.randrange(len(other) + 1)
                parts[at:at] = [" ", *other[start : start + chance.choice((1, 4, 16, 60))], " "]
            case 6:
                lines = "".join(parts).split("\n")
                chance.shuffle(lines)
                parts = tokens("\n".join(lines))
            case 7:
                words = [k for k, p in enumerate(parts) if p.isidentifier()]
                if words:
                    parts[chance.choice(words)] = parts[chance.choice(words)]
        parts = parts or [" "]
    return "".join(parts)[:most]
