"""Examples in comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from axon.base.source import SourceFile
from axon.checker.loader import FileLoader
from axon.tools.commands.doctest import Outcome, find_examples, run_file
from tests import ROOT

LIBRARY = ROOT / "stdlib"


def found(text: str) -> list[tuple[str, str]]:
    def join(spans: tuple[object, ...]) -> str:
        return " | ".join(s.text.strip() for s in spans)  # type: ignore[attr-defined]

    return [(join(e.expression), join(e.expected)) for e in find_examples(SourceFile("a.axon", text))]


def ran(tmp_path: Path, text: str) -> Outcome:
    file = tmp_path / "a.axon"
    file.write_text(text, encoding="utf-8")
    return run_file(FileLoader(), str(file))


def test_finding() -> None:
    assert found("(* >>> f 1\n   2 *)") == [("f 1", "2")]
    assert found("(* text\n   >>> f 1\n   [| 1,\n      2 |]\n\n   more text *)") == [("f 1", "[| 1, | 2 |]")]
    assert found("(* >>> f (1,\n   ...   2)\n   3\n   >>> g\n   4 *)") == [("f (1, | 2)", "3"), ("g", "4")]
    assert found("(* (* >>> inner *) *)\n(* >>> a\n 1 *) val x = 1 (* >>> b\n 2 *)") == [("a", "1"), ("b", "2")]
    assert found("val x = 1\n") == []
    assert found("(* >>> never closed\n 1") == []


PASSING = [
    "(* >>> double 2.0\n   4.0 *)\nfun double x = x + x\n",
    "(* >>> double [| 1, 2 |]\n   [| 2, 4 |] *)\nfun double x = x + x\n",
    "(* >>> third\n   0.33333334 *)\nval third = 1.0 / 3.0\n",
    "(* >>> (1, { a = true })\n   (1, { a = true }) *)\n",
    "(* >>> 0.0 / 0.0\n   nan *)\n",
    "(* >>> id {2}\n   [| [| 1, 0 |],\n      [| 0, 1 |] |] *)\nfun id {n} = for i < n, j < n => if i = j then 1 else 0\n",
    "import nn\n(* >>> nn.relu (-1.0)\n   0.0 *)\n",
]


@pytest.mark.parametrize("text", PASSING)
def test_passing(tmp_path: Path, text: str) -> None:
    assert ran(tmp_path, text) == Outcome(1, ())


def test_a_target(tmp_path: Path) -> None:
    file = tmp_path / "a.axon"
    file.write_text("(* >>> (for i < 2 => i)\n   [| 0, 1 |] *)\n", encoding="utf-8")
    for target in ("cpu", "simulate", "interpret"):
        assert run_file(FileLoader(), str(file), target) == Outcome(1, ())
    (failure,) = run_file(FileLoader(), str(file), "moon").failures
    assert "there is no target `moon`" in failure.notes[0]


FAILING = [
    ("(* >>> double 2.0\n   5.0 *)\nfun double x = x + x\n", "AX0509", "(1, 8)", "the values differ by up to 1"),
    ("(* >>> [| 1, 2 |]\n   [| 1, 2, 3 |] *)\n", "AX0509", "(1, 8)", "the shapes differ: [2] and [3]"),
    ("(* >>> 1\n   1.0 *)\n", "AX0509", "(1, 8)", "the element types differ: i32 and f32"),
    ("(* >>> (1, 2)\n   1 *)\n", "AX0509", "(1, 8)", "tuple"),
    ("(* >>> { a = 1 }\n   { b = 1 } *)\n", "AX0509", "(1, 8)", "record"),
    ("(* >>> 1 *)\n", "AX0509", "(1, 8)", "it gives 1 : i32"),
    ("(* >>> 1 / 0\n   1 *)\n", "AX0509", "(1, 8)", "[AX0503]"),
]


@pytest.mark.parametrize(("text", "code", "place", "words"), FAILING)
def test_failing(tmp_path: Path, text: str, code: str, place: str, words: str) -> None:
    outcome = ran(tmp_path, text)
    (failure,) = outcome.failures
    assert outcome.passed == 0
    assert failure.code == code
    assert failure.span is not None
    assert str(failure.span.file.position(failure.span.start)) == place
    assert words in " ".join(failure.notes)


def test_mistakes_in_examples_are_shown_where_they_stand(tmp_path: Path) -> None:
    text = "(* >>> double y\n   1.0\n\n   >>> double 1.0\n   zz\n   >>> double 1.0\n   2.0 *)\nfun double x = x + x\n"
    outcome = ran(tmp_path, text)
    assert outcome.passed == 1
    assert [(d.code, d.span.file.position(d.span.start)) for d in outcome.failures if d.span] == [
        ("AX0401", (1, 15)),
        ("AX0401", (5, 4)),
    ]
    assert outcome.failed == 2
    assert all(d.span.file.text == text for d in outcome.failures if d.span)


def test_a_wrong_file_is_reported_as_it_is(tmp_path: Path) -> None:
    outcome = ran(tmp_path, "(* >>> f 1\n   1 *)\nfun f x = y\n")
    assert outcome.passed == 0
    assert [d.code for d in outcome.failures] == ["AX0401"]
    assert run_file(FileLoader(), str(tmp_path / "nowhere.axon")).failures[0].code == "AX0408"


@pytest.mark.parametrize("name", ["nn", "linalg"])
def test_the_standard_library(name: str) -> None:
    outcome = run_file(FileLoader(), str(LIBRARY / f"{name}.axon"))
    assert not outcome.failures, outcome.failures
    assert outcome.passed >= 10
