"""The README shows what really happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(kind: str, number: int = 0) -> str:
    """The text of the fenced block of that kind, counted from 0."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[number]


def test_the_first_program(axon_cli: Callable[..., object], here: Path) -> None:
    program = block("axon")
    (here / "attention.axon").write_text(program)
    stated = re.search(r"sig attention : [^*]*(?= \*\))", program)
    assert stated
    assert axon_cli("sig", "attention.axon").out == stated[0] + "\n"
    command = re.search(r"axon run attention.axon (.*)", block("sh", 1))
    assert command
    arguments = re.findall(r'"([^"]*)"', command[1])
    assert axon_cli("run", "attention.axon", *arguments).out.endswith(" : f32[8, 4]\n")


def test_the_first_mistake(axon_cli: Callable[..., object], here: Path) -> None:
    (here / "mlp.axon").write_text(block("axon error"))
    shown = re.search(r"^```\n(error.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert shown
    assert axon_cli("check", "mlp.axon").out == shown[1]


def test_links() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
