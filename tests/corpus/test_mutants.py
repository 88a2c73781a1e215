"""Slips of the keyboard: declarations of the corpus with a token dropped, doubled, exchanged or replaced by another.

Whatever comes of it, the checker answers in time and never with an internal error. AXON_SOAK=1 tries many more.
"""

from __future__ import annotations

import os
import random
import re

import pytest

import axon
from tests import ROOT
from tests.clock import at_most

PROGRAMS = sorted([*(ROOT / "tests/corpus").rglob("*.axon"), *(ROOT / "stdlib").glob("*.axon")])
TOKEN = re.compile(r"\.\.\w*|'\w+|\w+|\[\||\|\]|\|>|=>|->|<=|>=|<>|\*\*|\s+|.")
SEEDS = range(40 if os.environ.get("AXON_SOAK") else 4)
MUTANTS = 50  # of each seed
SECONDS = 5


def declarations() -> list[str]:
    out = []
    for program in PROGRAMS:
        text = re.sub(r"\(\*.*?\*\)", "", program.read_text(encoding="utf-8"), flags=re.DOTALL)
        out += [d for d in re.split(r"\n(?=fun |val |type |sig |import )", text) if d.strip() and len(d) < 2_000]
    return out


def mutant(rng: random.Random, declaration: str, words: list[str]) -> str:
    tokens = TOKEN.findall(declaration)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.choice(("drop", "replace", "insert", "exchange")):
            case "drop" if len(tokens) > 1:
                del tokens[i]
            case "replace":
                tokens[i] = rng.choice(words)
            case "insert":
                tokens.insert(i, f" {rng.choice(words)} ")
            case _:
                tokens[i], tokens[min(j, len(tokens) - 1)] = tokens[min(j, len(tokens) - 1)], tokens[i]
    text = "".join(tokens)
    return "".join(f"import {m}\n" for m in ("nn", "linalg") if f"{m}." in text) + text


@pytest.mark.parametrize("seed", SEEDS)
def test_mutants_get_an_answer(seed: int) -> None:
    rng = random.Random(seed)
    sources = declarations()
    words = [t for d in sources for t in TOKEN.findall(d) if not t.isspace()]
    for _ in range(MUTANTS):
        text = mutant(rng, rng.choice(sources), words)
        with at_most(SECONDS, text):
            found = axon.check(text)
        assert not {d.code for d in found} & {"AX0001", "AX0002"}, text
        assert str(axon.AxonError(tuple(found))) or not found
