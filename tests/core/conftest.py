"""Fixtures of the tests of core."""

import warnings

import pytest

from axon.interpret import compute
from axon.interpret import products as contract


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(params=["whole", "blocks"])
def blocks(request, monkeypatch):
    """Tests that ask for it run a second time in blocks of a few points."""
    if request.param == "blocks":
        monkeypatch.setattr(compute, "points", lambda bodies: 3)
        monkeypatch.setattr(compute, "OPERAND", 5)
        monkeypatch.setattr(contract, "WORTHWHILE", 1)
