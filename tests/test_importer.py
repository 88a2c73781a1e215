"""`import axon.importer`: Python finds `.axon` files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import axon.importer
from axon.base.errors import AxonError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of sys.path, whose modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    axon.importer.install()
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)) or name == "models_b":
            del sys.modules[name]


def test_import(folder: Path) -> None:
    (folder / "lib_a.axon").write_text("fun one x = x + 1.0\n")
    (folder / "model_a.axon").write_text(
        "import lib_a\nfun f x = lib_a.one x * 2.0\nval k = f 1.0\nfun f' = 1\n".replace("fun f' = 1\n", "")
    )
    import model_a  # type: ignore[import-not-found]

    assert model_a.f(np.float32(2)) == 6.0
    assert model_a.k == 4.0
    assert model_a.__file__ == str(folder / "model_a.axon")
    assert model_a.__all__ == ["f", "k"]
    assert set(dir(model_a)) >= {"f", "k", "__doc__"}
    assert "model_a.axon" in model_a.__doc__
    from model_a import f  # type: ignore[import-not-found]

    assert f is model_a.f
    with pytest.raises(AttributeError, match=r"has no attribute 'ff'; did you mean 'f'\?|has no attribute 'ff'"):
        _ = model_a.ff


def test_packages_and_reload(folder: Path) -> None:
    (folder / "models_b").mkdir()
    file = folder / "models_b" / "attention.axon"
    file.write_text("fun f x = x + 1\nfun gone x = x\n")
    module = importlib.import_module("models_b.attention")
    assert module.f(1) == 2
    file.write_text("fun f x = x + 10\n")
    importlib.invalidate_caches()
    module = importlib.reload(module)
    assert module.f(1) == 11
    assert not hasattr(module, "gone")


def test_python_modules_come_first(folder: Path) -> None:
    (folder / "both_c.py").write_text("kind = 'python'\n")
    (folder / "both_c.axon").write_text("val kind = 1\n")
    assert importlib.import_module("both_c").kind == "python"


def test_mistakes(folder: Path) -> None:
    (folder / "wrong_d.axon").write_text("fun f x = y\n")
    with pytest.raises(AxonError) as caught:
        importlib.import_module("wrong_d")
    assert "wrong_d.axon:1:11" in str(caught.value)
    assert "wrong_d" not in sys.modules
    (folder / "wrong_d.axon").write_text("fun f x = x\n")
    assert importlib.import_module("wrong_d").f(1) == 1, "mended, it can be imported"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nowhere_d")


def test_a_directory_is_no_module(folder: Path) -> None:
    (folder / "odd_e.axon").mkdir()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("odd_e")


def test_it_is_installed_once() -> None:
    axon.importer.install()
    axon.importer.install()
    assert sum(type(f).__name__ == "AxonFinder" for f in sys.meta_path) == 1
