"""`examples/train_sharded`: processes that share its weights take the steps of one alone, and go on from a checkpoint of others."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from tests import ROOT
from tests.sample import SOAK

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)

FOLDER = ROOT / "examples" / "train_sharded"
SIZES = ["--layers", "2", "--width", "16", "--length", "8", "--batch", "4", "--every", "2", "--target", "interpret"]
TEXT = ["--text", str(ROOT / "examples")]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("train_sharded", FOLDER / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not SOAK, reason="in the soak")
def test_other_meshes(tmp_path: Path, example: Any) -> None:
    """Four processes, then two, then one, each from the checkpoint of those before."""

    def train(processes: int, steps: int, folder: str) -> list[float]:
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [*run, str(FOLDER / "train.py"), str(steps), *SIZES, *TEXT, "--checkpoint", str(tmp_path / folder)]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        out = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=1200).stdout
        return [float(line.split("loss ")[1].split(",")[0]) for line in out.splitlines() if line.startswith("step")]

    shared = [loss for processes, steps in ((4, 2), (2, 4), (1, 6)) for loss in train(processes, steps, "shared")]
    np.testing.assert_allclose(shared, train(1, 6, "alone"), atol=2e-4)  # as they are printed
    assert (tmp_path / "shared" / "latest").read_text() == "6"
    assert [folder.name for folder in (tmp_path / "shared").glob("step-*")] == ["step-6"]


@pytest.mark.parametrize(("processes", "said"), [(3, "8 rows of a batch are no multiple of the 3"), (4, "4 processes are no")])
def test_every_row_is_in_one_part(processes: int, said: str, example: Any) -> None:
    """No row of a batch is left out, and no process without one."""
    assert [example.parts(count, example.options([])) for count in (1, 2, 3, 4)] == [1, 2, 1, 2]
    with pytest.raises(SystemExit, match=said):
        example.parts(processes, example.options(["--data", "3"]))


def test_loss_in_blocks(example: Any) -> None:
    """The loss over four devices that one process plays is that of one; a device's rows are its part of the batch."""
    o, m = example.options([*SIZES, "--layers", "1", "--width", "8"]), example.module()
    p, ids = example.initial(o), example.batch(example.corpus(ROOT / "examples"), o, 1, slice(None))
    np.testing.assert_array_equal(ids[2:], example.batch(example.corpus(ROOT / "examples"), o, 1, slice(2, 4)))
    loss = axon.shard(m.loss[o.heads], {"data": 2, "model": 2}, {**example.WEIGHTS, "b": "data"})
    assert loss(p, ids) == pytest.approx(m.loss[o.heads](p, ids, target="interpret"), rel=1e-5)


@pytest.mark.skipif(not SOAK, reason="in the soak")
def test_step_in_blocks(example: Any) -> None:
    """A step over four devices that one process plays is that of one: its loss, and all weights after it."""
    o = example.options([*SIZES, "--layers", "1", "--width", "8"])
    m, tokens = example.module(), example.corpus(ROOT / "examples")
    state, ids = m.start[o.heads](example.initial(o)), example.batch(tokens, o, 1, slice(None))
    step = axon.shard(m.step[o.heads], {"data": 2, "model": 2}, {**example.WEIGHTS, "b": "data"})
    loss, after = step(o.rate, o.decay, 1, state, ids)
    wanted, whole = m.step[o.heads](o.rate, o.decay, 1, state, ids, target="interpret")
    assert loss == pytest.approx(wanted, rel=1e-5)
    for (path, x), y in zip(example.flat(after).items(), example.flat(whole).values(), strict=True):
        np.testing.assert_allclose(x, y, atol=2e-4 if path.startswith("weights") else 1e-5, err_msg=path)
