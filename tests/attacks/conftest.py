from pathlib import Path

import pytest
from process import Axon, runner


@pytest.fixture
def axon(tmp_path: Path) -> Axon:
    """The command line, in a process with limits, run in `tmp_path`."""
    return runner(tmp_path)
