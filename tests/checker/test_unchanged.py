"""A check of a changed file keeps what the change does not reach, and says what a check from the beginning says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from axon.base.diagnostics import Diagnostic
from axon.base.source import SourceFile
from axon.checker.check import Session
from axon.checker.loader import FileLoader
from axon.checker.module import CheckedModule
from axon.checker.unchanged import CheckedDeclaration
from tests import ROOT
from tests.sample import SOAK

MODELS = ("gcn", "gpt2", "llama3", "mamba", "seq2seq", "whisper")
FILES = [ROOT / "examples" / "models" / f"{name}.axon" for name in MODELS] + [ROOT / "stdlib" / "linalg.axon"]
SIZES = re.compile(r"\[[^\[\]\n]*\b([a-z]\w*)\b, ([a-z]\w*)\]")
MOST, RENAMED = (5, 5) if SOAK else (3, 9)  # changes of one file, and every which name is changed


def checked(path: str, text: str, former: CheckedModule | None = None) -> CheckedModule:
    loader = FileLoader({path: text})
    source = loader.read(path)
    assert isinstance(source, SourceFile)
    return Session(loader, former=former).check(source)


def said(module: CheckedModule) -> list[tuple[object, ...]]:
    def words(d: Diagnostic) -> tuple[object, ...]:
        return d.code, d.message, d.notes, tuple(label.text for label in d.labels)

    return sorted(map(words, module.diagnostics), key=repr)


def facts(module: CheckedModule) -> dict[str, int]:
    return {name: len(scheme.facts) for name, scheme in module.schemes.items()}


def changes(text: str) -> Iterator[str]:
    """The text with the last two sizes of an annotation exchanged, or with another name for a function."""
    found = list(SIZES.finditer(text))
    for m in found[:: max(len(found) // MOST, 1)]:
        yield text[: m.start(1)] + m[2] + text[m.end(1) : m.start(2)] + m[1] + text[m.end(2) :]
    for m in list(re.finditer(r"^(?:fun|type) (\w+)", text, re.MULTILINE))[::RENAMED]:
        yield text[: m.start(1)] + f"other_{m[1]}" + text[m.end(1) :]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_same_is_said(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    whole = checked(str(file), text)
    for changed in changes(text):
        fresh, again = checked(str(file), changed), checked(str(file), changed, whole)
        assert said(again) == said(fresh)
        assert again.signatures.keys() == fresh.signatures.keys()  # those without errors
        assert facts(again) == facts(fresh)
        back = checked(str(file), text, again)  # from what was wrong to what is right
        assert said(back) == said(whole)


PROGRAM = """type pair[n] = { a : f32[n], b : f32[n] }
fun one (linalg : pair[n]) = linalg.a + linalg.b
fun two (x : f32[n]) = x * 2.0
fun three (x : f32[n]) = two x + 1.0
val four = three [| 1.0 |]
fun five (p : pair[n]) = one p
"""


def kept(before: str, after: str) -> list[str]:
    whole = checked("m.axon", before)
    again = checked("m.axon", after, whole)
    same: list[CheckedDeclaration] = [step for step in again.steps if step in whole.steps]
    return [name for step in same for name in step.names]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("linalg.a +", "linalg.a -", ["pair", "two", "three", "four"]),
        ("x * 2.0", "x * 3.0", ["pair", "one", "five"]),
        ("b : f32[n] }", "b : f32[n, n] }", ["two", "three", "four"]),
        ("three (x", "third (x", ["pair", "one", "two", "five"]),
        ("type pair", "import nn\ntype pair", ["pair", "one", "two", "three", "four", "five"]),
        ("type pair", "import linalg\ntype pair", ["pair", "two", "three", "four"]),
    ],
)
def test_what_a_change_does_not_reach(old: str, new: str, expected: list[str]) -> None:
    assert kept(PROGRAM, PROGRAM.replace(old, new, 1)) == expected


def test_a_sig_belongs_to_its_declaration() -> None:
    program = f"{PROGRAM}sig two : f32[n] -> f32[n]\n"
    assert kept(program, program.replace("sig two : f32[n] -> f32[n]", "sig two : f32[m] -> f32[m]")) == ["pair", "one", "five"]
