"""The wheel holds everything: installed outside the checkout, it finds the standard library, the grammar and the pages of codes."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the unpacked wheel, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def axon(installed: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "axon", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_it_is_the_wheel_that_runs(installed: Path, tmp_path: Path) -> None:
    code = "import axon; print(axon.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert Path(ran.stdout.strip()) == installed / "axon" / "__init__.py"


def test_the_standard_library(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "a.axon").write_text("import nn\nimport linalg\nfun f x = nn.relu (linalg.transpose x)\n")
    checked = axon(installed, "check", "a.axon", cwd=tmp_path)
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stdout
    ran = axon(installed, "run", "a.axon", "x=[[1.0, -2.0]]", cwd=tmp_path)
    assert ran.stdout == "[| [| 1.0 |],\n   [| 0.0 |] |] : f32[2, 1]\n"


def test_the_pages(installed: Path, tmp_path: Path) -> None:
    from axon.base.codes import CODES

    assert {file.stem for file in (installed / "axon" / "_errors").glob("*.md")} == set(CODES)
    explained = axon(installed, "explain", "AX0301", cwd=tmp_path)
    assert explained.stdout.startswith("# AX0301: these sizes cannot agree\n")


def test_a_c_library(installed: Path, tmp_path: Path) -> None:
    """The runtime's C is there."""
    (tmp_path / "a.axon").write_text("fun f (x : f32[n, k]) (w : f32[k, m]) = sort (x @ w)\n")
    ran = axon(installed, "build", "a.axon:f", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert (tmp_path / "f" / "libaxon_f.so").exists()


def test_its_types_are_seen(installed: Path) -> None:
    assert (installed / "axon" / "py.typed").is_file()


def test_nothing_else(installed: Path) -> None:
    assert {path.name for path in installed.iterdir()} <= {"axon", f"axon-{_version()}.dist-info"}


def _version() -> str:
    import axon

    return axon.__version__


def test_the_playgrounds_programs(installed: Path, tmp_path: Path) -> None:
    code = (
        "from axon.tools.playground.building import PAGE, digest, examples; assert len(list(examples())) > 8; digest(); print(PAGE)"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    page = Path(ran.stdout.strip())
    assert page.is_relative_to(installed)
    assert (page / "compile.mjs").is_file()
