"""A browser for pages, where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axon.tools.cli import main
from tests.browser import opened


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from opened(tmp_path_factory.mktemp("profile"))


@pytest.fixture
def page(tmp_path: Path) -> Callable[..., str]:
    """The text of a page that `axon view` writes about a program's function."""

    def make(text: str, name: str, *arguments: str) -> str:
        (tmp_path / "model.axon").write_text(text)
        out = tmp_path / f"{name}.html"
        assert main(["view", f"{tmp_path / 'model.axon'}:{name}", *arguments, "--out", str(out)]) == 0
        return out.read_text(encoding="utf-8")

    return make
