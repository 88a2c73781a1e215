"""Which modules of the standard library declare a value: those are parsed in which its name may be one."""

from __future__ import annotations

import pytest

from axon.base.source import SourceFile
from axon.checker import check
from axon.checker.check import Session, declared_names
from axon.checker.loader import FileLoader, library_modules
from axon.grammar.parse import parse
from axon.grammar.syntax import Fun, Name, Val

NN = """\
(* fun told x = x *)
fun f (x : f32[n]) = let val inner = x in inner end
fun (* called *)
  g y = y
val (a, { w = b, v = c }) = (1, { w = 2, v = 3 })
val d = nowhere
"""


class Loader(FileLoader):
    """One in which the library is a text in `nn`."""

    def find(self, name: Name) -> SourceFile:
        found = super().find(name)
        assert isinstance(found, SourceFile)
        return SourceFile(found.path, NN if name.text == "nn" else "")


@pytest.mark.parametrize("name", ["f", "g", "a", "b", "c", "d"])
def test_a_value_is_found_by_its_name(name: str) -> None:
    assert Session(Loader()).library(name, SourceFile("", "").span()) == ["nn"]


@pytest.mark.parametrize("name", ["told", "x", "n", "y", "inner", "w", "v", "nowhere", "let"])
def test_what_is_no_value_of_a_module_is_not_found(name: str) -> None:
    assert Session(Loader()).library(name, SourceFile("", "").span()) == []


def test_every_value_of_the_library_is_found() -> None:
    session, at = Session(FileLoader()), SourceFile("", "").span()
    for stem in library_modules():
        source = session.loader.find(Name(stem, at))
        assert isinstance(source, SourceFile)
        values = [n for d in parse(source)[0].decls if isinstance(d, Fun | Val) for n in declared_names(d)]
        assert values
        assert all(stem in session.library(name, at) for name in values)


def test_a_name_that_stands_nowhere_has_nothing_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[SourceFile] = []
    monkeypatch.setattr(check, "_values", lambda source: read.append(source) or frozenset())
    assert Session(FileLoader()).library("undeclared", SourceFile("", "").span()) == []
    assert read == []
