"""Fixtures of the interpreter's tests."""

import pytest

from axon.interpret import compute
from axon.interpret import products as contract
from tests.core.conftest import _no_warnings  # noqa: F401


@pytest.fixture(params=["whole", "blocks"])
def blocks(request, monkeypatch):
    """Tests that ask for it run a second time in blocks of a few points."""
    if request.param == "blocks":
        monkeypatch.setattr(compute, "points", lambda bodies: 3)
        monkeypatch.setattr(compute, "OPERAND", 5)
        monkeypatch.setattr(contract, "WORTHWHILE", 1)
