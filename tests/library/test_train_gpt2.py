"""`examples/train_gpt2`: its loss is that of the model in `examples/models`, it learns, and it goes on where it was killed."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from tests import ROOT

FOLDER = ROOT / "examples" / "train_gpt2"
SIZES = ["--layers", "2", "--width", "16", "--heads", "2", "--length", "12", "--batch", "4", "--rate", "1e-2", "--write", "0"]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("train_gpt2", FOLDER / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A language of few words."""
    words = np.random.default_rng(0).choice(["sum ", "max ", "for i => ", "x[i] ", "let val "], 400)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.md").write_text("".join(words))
    (tmp_path / "text" / "b.py").write_text("é = 'ü'\n" * 30, encoding="utf-8")
    (tmp_path / "text" / ".hidden").mkdir()
    (tmp_path / "text" / ".hidden" / "c.md").write_text("no")
    return tmp_path / "text"


def test_text(example: Any, text: Path) -> None:
    tokens = example.corpus(text)
    assert tokens.dtype == np.int32
    first, second, rest = np.split(tokens, np.flatnonzero(tokens == example.END))
    assert bytes(first.tolist()).startswith((b"sum ", b"max ", b"for ", b"x[i]", b"let "))
    assert bytes(second[1:].tolist()).decode() == "é = 'ü'\n" * 30
    assert rest.tolist() == [example.END]
    batches = example.Batches(tokens, 3, 7, range(5, 9), 1)
    assert len(batches) == 4
    found = list(batches)
    assert [b.shape for b in found] == [(3, 8)] * 4
    again = example.Batches(tokens, 3, 7, range(7, 9), 1)
    np.testing.assert_array_equal(again[0], found[2])  # of the same step


def test_loss(example: Any) -> None:
    """In f32 it is that of the model in `examples/models`, and near it in bf16; its gradient goes down as differences do."""
    m, model = axon.load(FOLDER / "train.axon"), axon.load(ROOT / "examples" / "models" / "gpt2.axon")
    p = example.initial(2, 16, 12, 3)
    ids = np.random.default_rng(1).integers(0, 257, (3, 13)).astype(np.int32)
    logits = model.logits[4](p, ids[:, :-1], target="interpret").astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = -np.take_along_axis(logs, ids[:, 1:, None], -1).mean()
    assert m.loss[4](p, ids, target="interpret") == pytest.approx(wanted, rel=1e-5)
    assert m.loss_in_bf16[4](p, ids) == pytest.approx(wanted, rel=1e-2)
    exact, rounded = m.loss[4].grad("p")(p, ids, target="interpret"), m.loss_in_bf16[4].grad("p")(p, ids)
    for (path, x), y in zip(example.flat(exact).items(), example.flat(rounded).values(), strict=True):
        assert y.dtype == np.float32
        if path != "blocks.attention.qkv.b":  # of which that of the keys has none
            assert np.linalg.norm(x - y) < 0.1 * np.linalg.norm(x)


def test_it_learns_and_goes_on(example: Any, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tmp_path / "one.npz", tmp_path / "two.npz"
    begun = [*SIZES, "--text", str(text), "--every", "20"]
    example.main(["60", *begun, "--checkpoint", str(one)])
    lines = capsys.readouterr().out.splitlines()
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in lines if line.startswith("step")]
    assert len(losses) == 3
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 3.5  # of 5.55 at the start

    # Killed after its first checkpoint, and called again.
    command = [sys.executable, str(FOLDER / "train.py"), "60", *begun, "--checkpoint", str(two)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step 20:"):
                process.send_signal(signal.SIGKILL)
                break
    assert two.exists()
    example.main(["60", *begun, "--checkpoint", str(two)])
    assert "going on at step" in capsys.readouterr().out
    with np.load(one) as a, np.load(two) as b:
        assert int(a["step"]) == int(b["step"]) == 60
        assert set(a.files) == set(b.files)
        for name in a.files:
            np.testing.assert_array_equal(a[name], b[name])
    with pytest.raises(SystemExit, match="2 layers of width 16, for 12 positions"):
        example.main(["60", *begun, "--checkpoint", str(two), "--width", "32"])


def test_it_writes(example: Any) -> None:
    m, p = axon.load(FOLDER / "train.axon"), example.initial(1, 16, 12, 3)
    found = example.written(m, p, 2, 20, np.asarray)
    assert found.startswith("fun ")
    assert found == example.written(m, p, 2, 20, np.asarray)
