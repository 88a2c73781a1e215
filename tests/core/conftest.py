"""Fixtures of the tests of core."""

import warnings

import pytest


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
