"""The grammar has no conflicts; its table is cached, safely, and quick to load."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from axon.grammar import table
from axon.grammar.build import SyntaxBuilder

PARSE = (
    "from axon.grammar.parse import parse; from axon.base.source import SourceFile; "
    "assert len(parse(SourceFile('a', 'val x = 1'))[0].decls) == 1"
)


def grammar() -> str:
    return files("axon.grammar").joinpath("axon.lark").read_text(encoding="utf-8")


def test_no_conflicts() -> None:
    """Lark's strict mode refuses conflicts, and terminals of which one text may be either."""
    table.compile_grammar(grammar(), strict=True)


def test_every_alternative_is_made_by_the_builder_and_all_of_the_builder_is_used() -> None:
    makers = {rule.make for rule in table.load().rules if rule.make}
    methods = {name for name in vars(SyntaxBuilder) if not name.startswith("_")} - {"report", "at", "name", "number"}
    assert makers == methods


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(table, "_cache_directory", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def fresh() -> table.Table:
    return table.load.__wrapped__()


def test_cache_is_written_and_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh()
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(table, "compile_grammar", None)  # not needed again
    again = fresh()
    assert (again.states, again.rules, again.patterns) == (first.states, first.rules, first.patterns)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"states": 3}', b"\xff\xfe", b"null"])
def test_a_broken_cache_is_replaced(cache: Path, content: bytes) -> None:
    fresh()
    (file,) = cache.iterdir()
    file.write_bytes(content)
    assert fresh().rules
    assert json.loads(file.read_bytes())["rules"]


def test_a_cache_that_cannot_be_written_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setattr(table, "_cache_directory", lambda: tmp_path / "file" / "cache")
    assert fresh().rules


def test_many_processes_start_at_once(tmp_path: Path) -> None:
    code = f"import axon.grammar.table as t, pathlib; t._cache_directory = lambda: pathlib.Path({str(tmp_path)!r}); {PARSE}"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(8)]
    assert [process.wait(timeout=60) for process in running] == [0] * 8
    assert len(list(tmp_path.iterdir())) == 1, "no temporary file is left"


def test_cold_start() -> None:
    """A process that parses needs no Lark for it; `benchmarks/check.py` measures how long it takes."""
    table.load()  # so that the cache is warm
    subprocess.run([sys.executable, "-c", f"{PARSE}; import sys; assert 'lark' not in sys.modules"], check=True)


def test_no_rule_has_the_name_of_a_word() -> None:
    """A state's moves are told by symbols' names: `type` as a rule and as a keyword would be one symbol."""
    assert not set(table.load().literals) & table.load().nonterminals
