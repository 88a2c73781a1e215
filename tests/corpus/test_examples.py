"""The examples do what they say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import axon
from axon.checker.loader import library_modules
from tests import ROOT
from tests.corpus.goldens import compare, run_axon
from tests.sample import ALL, SOAK

EXAMPLES = sorted((ROOT / "examples").rglob("*.axon"))
# Their loops are compiled for 20 to 40 seconds each: where that is done. tests/library and tests/oracle compile others.
COMPILED = {"fft": ALL, "random": ALL, "infer": SOAK}
COMMAND = re.compile(r"^   axon (.+?)(?: \*\))?$", re.MULTILINE)
GALLERY = ROOT / "docs" / "gallery.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """The commands in the comment at the top of each example."""
    return [
        command
        for example in EXAMPLES
        for command in COMMAND.findall(example.read_text(encoding="utf-8").split("*)")[0].replace("\\\n", "") + "*)")
    ]


@pytest.mark.parametrize("command", commands())
def test_command(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code, out = run_axon(shlex.split(command), capsys)
    assert code == 0, out
    assert out


@pytest.mark.parametrize("module", library_modules())
def test_every_function_of_the_library_has_a_doctest(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "stdlib" / f"{module}.axon"
    text = path.read_text(encoding="utf-8")
    tested = set(re.findall(r">>> \(*(\w+)", text))
    assert tested == set(re.findall(r"^fun (\w+)", text, re.MULTILINE))
    code, out = run_axon(["test", str(path), *([] if COMPILED.get(module, True) else ["--target", "interpret"])], capsys)
    assert code == 0, out


def test_doctests(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_axon(["test", *map(str, EXAMPLES)], capsys)
    assert code == 0, out


def test_signatures_in_the_gallery(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The page shows every example's signatures as `axon sig` prints them. AXON_UPDATE=1 writes them anew."""
    monkeypatch.chdir(ROOT)

    def session(block: re.Match[str]) -> str:
        commands = [line for line in block[1].split("\n") if line.startswith("$ axon ")]
        return "```console\n" + "".join(f"{c}\n{run_axon(shlex.split(c[7:]), capsys)[1]}" for c in commands) + "```"

    text = GALLERY.read_text(encoding="utf-8")
    compare(GALLERY, CONSOLE.sub(session, text))
    shown = {match[1] for match in re.finditer(r"^\$ axon sig (.+)$", text, re.MULTILINE)}
    assert shown == {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.axon")} - {"examples/gallery.axon"}


def test_the_gallery_can_be_made(tmp_path: Path) -> None:
    """The script that made the committed pictures makes small ones, of several colours each."""
    command = [sys.executable, "examples/gallery.py", "--small", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    made = {path.name: path for path in tmp_path.glob("*.png")}
    committed = {path.name: path for path in GALLERY.with_suffix("").glob("*.png")}
    assert made.keys() == committed.keys() == set(re.findall(r"\(gallery/(.+?)\)", GALLERY.read_text(encoding="utf-8")))
    for name in made:
        with Image.open(made[name]) as small, Image.open(committed[name]) as large:
            assert len(small.getcolors(256) or []) >= 4
            assert small.width <= large.width
        assert committed[name].stat().st_size < 100_000


def test_digits() -> None:
    """The accuracy on held-out images, from the committed weights."""
    done = subprocess.run([sys.executable, "examples/digits/evaluate.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.search(r"([\d.]+)%", done.stdout)
    assert found
    assert float(found[1]) >= 97


def test_digits_agree_with_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Axon program and the training script are the same function."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "digits"))
    from data import load  # type: ignore[import-not-found]
    from evaluate import weights  # type: ignore[import-not-found]
    from train import WEIGHTS, logits  # type: ignore[import-not-found]

    images = load()[1].images[:50]
    with np.load(WEIGHTS) as file:
        wanted = logits(dict(file), images)
    got = axon.load(ROOT / "examples" / "digits" / "digits.axon").logits(weights(), images)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_kmeans() -> None:
    """Three far clusters are found; a centre that no point is near to stays where it is."""
    rng = np.random.default_rng(0)
    middles = np.array([[0, 0], [10, 0], [0, 10]], np.float32)
    points = (np.repeat(middles, 20, axis=0) + 0.1 * rng.standard_normal((60, 2))).astype(np.float32)
    start = np.concatenate([middles + 1, [[100, 100]]]).astype(np.float32)
    module = axon.load(ROOT / "examples" / "kmeans.axon")
    centres, nearest = module.kmeans(5, points, start)
    np.testing.assert_allclose(centres, [*points.reshape(3, 20, 2).mean(1), [100, 100]], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(nearest, np.repeat([0, 1, 2], 20))
    assert module.inertia(points, centres) < module.inertia(points, start)


def test_demo() -> None:
    done = subprocess.run([sys.executable, "examples/demo.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "sig stage" in done.stdout
    assert "classified correctly" in done.stdout
    assert "error[AX0301]" in done.stdout
