"""A pointwise function is known wherever it must be: what the recipe in CONTRIBUTING.md names, and a newcomer forgets."""

from __future__ import annotations

import json
import re

import pytest

from axon.backend.kernel import writer
from axon.base.functions import BINARY, UNARY
from axon.interpret import arithmetic
from tests import ROOT
from tests.backend.gpu.simt.emulate import LIFTED
from tests.numbers import make as numbers
from tests.numbers.functions import SPECIAL
from tests.oracle.arithmetic import FLOATS, FUNCTIONS, SHIFTS, WHOLE

REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8").partition("## 17. The built-in functions")[2]
EDITORS = json.loads((ROOT / "editors" / "vscode" / "syntaxes" / "axon.tmLanguage.json").read_text(encoding="utf-8"))
EMULATED = ROOT / "tests" / "backend" / "gpu" / "simt" / "emulate.py"


@pytest.mark.parametrize("name", UNARY)
def test_is_known_everywhere(name: str) -> None:
    assert name in arithmetic.UNARY, "axon/interpret/arithmetic.py"
    assert name in {*FUNCTIONS, "bit_not"}, "tests/oracle/arithmetic.py"
    assert name in {*numbers.FUNCTIONS, *numbers.EXACT, "bit_not"}, "tests/numbers/make.py"
    assert name in SPECIAL or name not in numbers.FUNCTIONS, "tests/numbers/functions.py"
    assert writer._UNARY[name] in LIFTED, EMULATED
    described(name)


@pytest.mark.parametrize("name", BINARY)
def test_of_two_arguments_is_known_everywhere(name: str) -> None:
    assert name in arithmetic.BINARY, "axon/interpret/arithmetic.py"
    assert name in LIFTED or name in {"max", "min", "pow"}, EMULATED
    assert name in {*FLOATS, *WHOLE, *SHIFTS, "pow"}, "tests/oracle/arithmetic.py"
    described(name)


def described(name: str) -> None:
    assert re.search(rf"^\| `[^|]*\b{name}\b", REFERENCE, re.MULTILINE), "docs/reference.md"
    assert re.search(rf"\b{name}\b", json.dumps(EDITORS)), "editors/vscode/syntaxes"
