from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.process import Axon, Forge, forge, runner


@pytest.fixture(scope="session")
def forged() -> Iterator[Forge]:
    with forge() as made:
        yield made


@pytest.fixture
def axon(forged: Forge, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Axon:
    """The command line, in a process with limits, run in `tmp_path`."""
    return runner(forged, tmp_path, tmp_path_factory.mktemp("printed"))
