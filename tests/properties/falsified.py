"""Where a program that falsifies a property is written, so that it can be run and looked at: a small .axon file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import ROOT

PLACE = ROOT / ".hypothesis" / "falsified"


def falsified(test: str, text: str, arguments: Sequence[Any], explicit: Sequence[int] = ()) -> Path:
    """The file of the smallest failure of a test: hypothesis shrinks, so the last one written is the smallest."""
    PLACE.mkdir(parents=True, exist_ok=True)
    path = PLACE / f"{test}.axon"
    given = [f"{{{', '.join(map(str, explicit))}}}"] if explicit else []
    shown = "\n   ".join([*given, *map(_shown, arguments)])
    path.write_text(f"(* arguments of main:\n   {shown} *)\n{text}")
    return path


def _shown(argument: Any) -> str:
    match argument:
        case tuple():
            return f"({', '.join(map(_shown, argument))})"
        case dict():
            return f"{{ {', '.join(f'{name} = {_shown(part)}' for name, part in argument.items())} }}"
        case _:
            return f"{argument.dtype}{list(argument.shape)} {argument.tolist()}"
