"""Programs with what is stated of them elsewhere, in one file of text: `futhark.txt` says how they stand there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from axon import compiler

_PROGRAM = re.compile(r"=== (?P<name>\w+) (?P<stated>accepts|rejects): (?P<statement>[^\n]+)\n(?P<text>.*)", re.S)


@dataclass(frozen=True)
class Program:
    """A program, what is stated of it, and what the checker says."""

    name: str
    accepted: bool  # by those who state it
    statement: str
    text: str
    differs: str  # why Axon judges otherwise; empty where it does not
    wanted: str  # a result that is wanted where Axon gives another; or empty
    result: str

    def __str__(self) -> str:
        lines = [f"=== {self.name} {'accepts' if self.accepted else 'rejects'}: {self.statement}", self.text]
        lines += [f"!!! {self.differs}"] if self.differs else []
        lines += [f"--? {self.wanted}"] if self.wanted else []
        return "\n".join([*lines, f"--> {self.result}"]) + "\n"

    def checked(self) -> str:
        """The signature of the last declaration, or the codes of all errors, sorted."""
        checked = compiler.check_text(self.text + "\n")
        if not checked.ok:
            return " ".join(sorted({d.code for d in checked.diagnostics if d.severity == "error"}))
        *_, (name, signature) = checked.signatures.items()
        return f"{name} : {signature}"


def read(path: Path) -> list[Program]:
    return list(_programs(path.read_text(encoding="utf-8")))


def _programs(text: str) -> Iterator[Program]:
    for block in re.split(r"^(?==== )", text, flags=re.M)[1:]:
        found = _PROGRAM.fullmatch(block)
        assert found is not None, block
        lines = found["text"].strip().splitlines()
        result = lines.pop()[4:] if lines[-1].startswith("--> ") else ""
        wanted = lines.pop()[4:] if lines[-1].startswith("--? ") else ""
        differs = lines.pop()[4:] if lines[-1].startswith("!!! ") else ""
        yield Program(found["name"], found["stated"] == "accepts", found["statement"], "\n".join(lines), differs, wanted, result)


def judge(path: Path) -> list[str]:
    """What is not as the file says: its results, and where Axon judges otherwise without a reason, or with one and does not."""
    programs, wrong, found = read(path), [], []
    for program in programs:
        result = program.checked()
        found.append(replace(program, result=result))
        if result != program.result and not os.environ.get("AXON_UPDATE"):
            wrong.append(f"{program.name}: {result}, and not {program.result}")
        if (result.startswith("AX") == program.accepted) != bool(program.differs):
            wrong.append(f"{program.name}: stated otherwise ({program.statement}); Axon says {result}")
        if result == program.wanted:
            wrong.append(f"{program.name}: this is what is wanted; its line `--?` can go")
    if os.environ.get("AXON_UPDATE"):
        notes = path.read_text(encoding="utf-8").partition("\n=== ")[0] + "\n"
        path.write_text(notes + "\n".join(map(str, found)), encoding="utf-8")
    assert len({program.name for program in programs}) == len(programs)
    return wrong
