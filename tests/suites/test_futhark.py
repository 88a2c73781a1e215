"""What Futhark's tests of sizes state, as programs of Axon: which are accepted, with what signature, and which are refused.

The statements are facts taken from tests/shapes of diku-dk/futhark (ISC licence); the programs are written anew.
"""

from __future__ import annotations

from pathlib import Path

from tests.suites.stated_programs import judge, read

PROGRAMS = Path(__file__).parent / "futhark.txt"


def test_programs() -> None:
    assert judge(PROGRAMS) == []


def test_there_are_enough() -> None:
    programs = read(PROGRAMS)
    assert len(programs) >= 150
    assert sum(not program.accepted for program in programs) >= 50
    assert sum(bool(program.differs) for program in programs) <= 17
