"""A pointwise function is known wherever it must be: what the recipe in CONTRIBUTING.md names, and a newcomer forgets."""

from __future__ import annotations

import json
import re

import pytest

from axon.backend.kernel import scalars, writer
from axon.core.verify import UNARY_ELEMENTS
from axon.interpret import arithmetic
from axon.types import builtins
from tests import ROOT
from tests.oracle.arithmetic import FUNCTIONS

REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8").partition("## 17. The built-in functions")[2]
EDITORS = json.loads((ROOT / "editors" / "vscode" / "syntaxes" / "axon.tmLanguage.json").read_text(encoding="utf-8"))
EMULATED = ROOT / "tests" / "backend" / "gpu" / "simt" / "emulate.py"


@pytest.mark.parametrize("name", builtins.UNARY)
def test_is_known_everywhere(name: str) -> None:
    assert UNARY_ELEMENTS[name] == builtins.UNARY[name], "axon/core/verify.py"
    assert name in arithmetic.UNARY, "axon/interpret/arithmetic.py"
    assert name in writer._UNARY, "axon/backend/kernel/writer.py"
    assert name in {*scalars._UNARY, "sign"}, "axon/backend/kernel/scalars.py"
    assert name in FUNCTIONS, "tests/oracle/arithmetic.py"
    assert f'"{writer._UNARY[name]}":' in EMULATED.read_text(encoding="utf-8"), EMULATED
    assert re.search(rf"^\| `[^|]*\b{name}\b", REFERENCE, re.MULTILINE), "docs/reference.md"
    assert re.search(rf"\b{name}\b", json.dumps(EDITORS)), "editors/vscode/syntaxes"
