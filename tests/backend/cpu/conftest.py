"""Fixtures of the CPU backend's tests: a cache of their own, and small blocks."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """Kernels of all tests of a run, and of no other."""
    before = os.environ.get("AXON_CACHE")
    os.environ["AXON_CACHE"] = str(tmp_path_factory.mktemp("kernels"))
    yield
    if before is None:
        del os.environ["AXON_CACHE"]
    else:
        os.environ["AXON_CACHE"] = before


@pytest.fixture
def small(monkeypatch):
    """Blocks of a few lanes, pieces of a few rows, and all threads for whatever there is: many boundaries in small programs."""
    from axon.backend.cpu import function, nests, products, threads

    monkeypatch.setattr(nests, "LANES", 2)
    monkeypatch.setattr(nests, "BLOCK", 3)
    monkeypatch.setattr(nests, "BESIDE", 1)
    monkeypatch.setattr(function, "FEW", 1)
    monkeypatch.setattr(function, "STRIP", 1)
    monkeypatch.setattr(threads, "WORTH_SHARING", 1)
    monkeypatch.setattr(products, "BLOCK", 4)
    monkeypatch.setattr(products, "PIECE", 1)
    monkeypatch.setattr(products, "SIDE", 1)
