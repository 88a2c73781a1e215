"""Every function of the standard library does what an independent implementation does; its signature is a golden."""

from __future__ import annotations

import os
from pathlib import Path

import image_cases  # noqa: F401
import linalg_cases  # noqa: F401
import nn_cases  # noqa: F401
import pytest
import stats_cases  # noqa: F401
import tensor_cases  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from library_case import CASES, Case, Drawn, check

import axon
from axon.loader import library_modules, stdlib_root

EXAMPLES = 500 if os.environ.get("AXON_SOAK") else 15
SIGNATURES = Path(__file__).with_name("signatures.txt")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_function(case: Case) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        check(case, Drawn(data.draw))

    compare()


def signatures() -> str:
    parts = []
    for name in library_modules():
        module = axon.load(stdlib_root() / f"{name}.axon")
        parts.append("\n".join([f"(* {name} *)", *(module[function].signature for function in module)]))
    return "\n\n".join(parts) + "\n"


def test_every_function_has_a_case() -> None:
    wanted = {f"{name}.{function}" for name in library_modules() for function in axon.load(stdlib_root() / f"{name}.axon")}
    assert sorted(wanted) == sorted(case.name for case in CASES)


def test_signatures() -> None:
    """What a user reads first, and what programs rely on. AXON_UPDATE=1 writes them anew."""
    if os.environ.get("AXON_UPDATE"):
        SIGNATURES.write_text(signatures(), encoding="utf-8")
    assert signatures() == SIGNATURES.read_text(encoding="utf-8")
