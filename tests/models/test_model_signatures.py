"""The ten architectures check as they stand, and their signatures are goldens."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from axon.base.source import SourceFile
from axon.grammar import syntax as S
from axon.grammar.parse import parse
from tests import ROOT
from tests.corpus.goldens import compare, run_axon

MODELS = ROOT / "examples" / "models"
GOLDENS = Path(__file__).parent / "signatures"
PROGRAMS = sorted(MODELS.glob("*.axon"))
each = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)


@each
def test_signatures(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_axon(["sig", str(program)], capsys)
    assert code == 0, out
    assert "…" not in out
    compare(GOLDENS / f"{program.stem}.sig", out)


@each
def test_signatures_can_be_pasted(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, printed = run_axon(["sig", str(program)], capsys)
    copy = tmp_path / program.name
    copy.write_text(f"{program.read_text(encoding='utf-8')}\n{printed}", encoding="utf-8")
    assert run_axon(["sig", str(copy)], capsys) == (0, printed)


@each
def test_layout(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_axon(["fmt", "--check", str(program)], capsys)
    assert code == 0, out


@each
def test_only_parameters_have_types(program: Path) -> None:
    """No ascription, no coercion, no stated result, no `sig`, no stated fact: all else is inferred."""
    parsed, problems = parse(SourceFile(program.name, program.read_text(encoding="utf-8")))
    assert not problems
    seen: list[object] = list(parsed.decls)
    while seen:
        match seen.pop():
            case S.Ascribe() | S.Coerce() | S.Sig() as found:
                pytest.fail(f"{found.span}")
            case S.Fun() as fun:
                assert fun.result is None, fun.name
                assert not fun.where, fun.name
                seen.append(fun.body)
            case S.Node() as node:
                seen += [getattr(node, f.name) for f in fields(node)]
            case tuple() as items:
                seen += items


def test_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lists every model with the signature that it has, and its program runs."""
    page = (MODELS / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"\]\((\w+)\.axon\) \|.*\| `(sig .+)` \|", page))
    assert set(rows) == {p.stem for p in PROGRAMS}
    assert len(PROGRAMS) == 10
    for name, signature in rows.items():
        assert signature in (GOLDENS / f"{name}.sig").read_text(encoding="utf-8").splitlines()
    (code,) = re.findall(r"```python\n(.+?)```", page, re.DOTALL)
    monkeypatch.chdir(MODELS.parents[1])
    *body, last = code.strip().splitlines()
    found: dict[str, Any] = {}
    exec("\n".join(body), found)
    assert eval(last, found).shape == (6, 2)
