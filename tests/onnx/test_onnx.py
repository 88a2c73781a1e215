"""ONNX's node tests: every case whose operator and element types Axon offers gives what ONNX says, within the case's tolerance."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx import onnx_table
from tests.onnx.onnx_cases import cases, classify, offered, run
from tests.sample import ALL, SOAK, drawn

PARTS = 8
COMPILED = 1 if SOAK else 16  # every so many of the cases are compiled, too


@pytest.mark.parametrize("part", range(PARTS))
def test_cases(part: int) -> None:
    failures, ran = [], 0
    for k, (case, text, arguments) in enumerate(offered()):
        if k % PARTS != part or not drawn(case.name, 3):
            continue
        for target in ("interpret", "cpu") if k // PARTS % COMPILED == 0 else ("interpret",):
            try:
                with np.errstate(all="ignore"):
                    run(case, text, arguments, target)
            except Exception as error:
                failures.append(f"{case.name} on {target}\n{text}\n{type(error).__name__}: {error}")
        ran += 1
    assert not failures, "\n\n".join(failures)
    assert ran > (50 if ALL else 15)


def test_table() -> None:
    """docs/onnx.md counts what is there, and what there was."""
    assert onnx_table.PAGE.read_text() == onnx_table.page(), "python -m tests.onnx.onnx_table writes docs/onnx.md anew"
    passed = sum(classify(case)[0] == "passed" for case in cases())
    assert passed >= onnx_table.LEAST
