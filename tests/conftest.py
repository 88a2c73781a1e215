"""What all tests share: messages are the same on every machine."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import sample

os.environ["NO_COLOR"] = "1"
os.environ.pop("AXON_DEBUG", None)
os.environ["AXON_FROZEN"] = "1"  # read when the first module of Axon is imported


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Some cases of tests that have many, unless all are wanted, or one is asked for by its name."""
    if sample.EVERY or any("[" in argument for argument in config.args):
        return
    kept = sample.of_each_kind(items, {file: sample.share(one_in) for file, one_in in sample.CASES.items()})
    looked_at = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in looked_at])
    items[:] = kept


def pytest_collection_finish() -> None:
    """What all tests have imported stays, and looking for garbage in it, over and over, takes a tenth of the suite's time."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def axon_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `axon ARGUMENTS…` in this process."""
    from axon.tools.cli import main

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        status = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C reaches this process: a shell starts background jobs deaf to it, and whatever another test has left may be."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of kernels that holds nothing yet."""
    monkeypatch.setenv("AXON_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def module_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of kernels for the tests of one file, which holds nothing before them."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AXON_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield
