"""Programs that are right: their inferred signatures are goldens, their doctests hold, and formatting keeps their meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.goldens import compare, run_axon

ACCEPTED = Path(__file__).parent / "accepted"
PROGRAMS = sorted(ACCEPTED.glob("*.axon"))


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ACCEPTED)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_signatures(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_axon(["sig", program.name], capsys)
    assert code == 0, out
    compare(program.with_suffix(".sig"), out)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_signatures_can_be_pasted(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `axon sig` prints is a `sig` declaration which the definition fulfils, and which changes nothing."""
    printed = program.with_suffix(".sig").read_text(encoding="utf-8")
    own = program.read_text(encoding="utf-8")
    stated = "\n".join(line for line in printed.splitlines() if f"{line.split(' : ')[0]} :" not in own)
    copy = tmp_path / program.name
    copy.write_text(f"{own}\n{stated}\n", encoding="utf-8")
    code, out = run_axon(["sig", str(copy)], capsys)
    assert (code, out) == (0, printed)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_doctests(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_axon(["test", program.name], capsys)
    assert code == 0, out


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_formatting_keeps_the_meaning(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / program.name
    copy.write_bytes(program.read_bytes())
    assert run_axon(["fmt", str(copy)], capsys)[0] == 0
    once = copy.read_text(encoding="utf-8")
    assert run_axon(["fmt", str(copy)], capsys)[0] == 0
    assert copy.read_text(encoding="utf-8") == once
    code, out = run_axon(["sig", str(copy)], capsys)
    assert (code, out) == (0, program.with_suffix(".sig").read_text(encoding="utf-8"))


def test_there_are_enough() -> None:
    assert sum(len(p.with_suffix(".sig").read_text(encoding="utf-8").splitlines()) for p in PROGRAMS) >= 200
