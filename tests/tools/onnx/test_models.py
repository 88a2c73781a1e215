"""Models that their libraries export, imported and run: what ONNX Runtime computes is what comes out, at other sizes too.

How each operator is translated is asked of whole models here, by ONNX Runtime's results on random weights. `tests/onnx` states
the operators of ONNX as Axon templates, and asks ONNX's own cases of them; neither imports the other, nor the package either.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import axon
from axon.tools.onnx.importing import imported
from tests.tools.onnx.filling import FOLDER, SIZES, filled, inputs

onnx = pytest.importorskip("onnx")
TEXTS = Path(__file__).parent / "texts"


@cache
def program(name: str) -> tuple[str, axon.Function, dict[str, object]]:
    """The text, the function and the weights of a model."""
    with TemporaryDirectory() as folder:
        found = imported(str(filled(FOLDER / f"{name}.onnx", Path(folder) / f"{name}.onnx")))
        found.save(Path(folder) / f"{name}.axon")
        function = axon.compile(found.text)[name]
        weights = axon.load_weights(Path(folder) / f"{name}.safetensors", function)
    return found.text, function, weights


@pytest.mark.parametrize("name", SIZES)
def test_text(name: str) -> None:
    """What a reviewer reads; `AXON_UPDATE=1` writes it anew."""
    text = program(name)[0]
    golden = TEXTS / f"{name}.axon"
    if os.environ.get("AXON_UPDATE"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("at", [0, 1], ids=["exported", "other"])
@pytest.mark.parametrize("name", SIZES)
def test_results(name: str, at: int) -> None:
    _, function, weights = program(name)
    given = inputs(onnx.load(FOLDER / f"{name}.onnx"), SIZES[name][at])
    made = function(weights, *given.values(), target="interpret")
    made = made if isinstance(made, tuple) else (made,)
    with np.load(FOLDER / f"{name}.npz") as wanted:
        assert len(made) == sum(key.startswith(f"{at}.") for key in wanted)
        for number, result in enumerate(made):
            expected = wanted[f"{at}.{number}"]
            assert np.ptp(expected) > 0.01, "a model that gives nothing tells nothing"
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-4 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", SIZES)
def test_nothing_is_left_of_shapes(name: str) -> None:
    """The shape arithmetic of the graph is gone: what is left is fewer lines than half of its nodes, and no numbered temporary."""
    text = program(name)[0]
    nodes = len(onnx.load(FOLDER / f"{name}.onnx").graph.node)
    code = [line for line in text.splitlines() if line and not line.startswith(("(*", "import"))]
    assert len(code) < max(nodes, 60)
    assert "val_" not in text


def test_a_compiled_model() -> None:
    """The same on this machine's processor; the others are interpreted, which takes a tenth of the time."""
    _, function, weights = program("gpt2")
    given = inputs(onnx.load(FOLDER / "gpt2.onnx"), SIZES["gpt2"][1])
    with np.load(FOLDER / "gpt2.npz") as wanted:
        np.testing.assert_allclose(function(weights, *given.values(), target="cpu"), wanted["1.0"], rtol=0, atol=1e-4)


def test_sizes_are_those_of_the_graph() -> None:
    """Names of dimensions are the graph's, and what the model asks of them is found, not stated."""
    assert program("gpt2")[1].signature == (
        "sig gpt2 : gpt2 -> i32[batch, sequence] -> f32[batch, sequence, 97] where sequence <= 32"
    )
    assert program("yolo")[1].signature == (
        "sig yolo : yolo -> f32[batch, 16, 2 * h, 2 * w] -> f32[batch, 32, h, w] -> f32[batch, 8, 5 * h * w]"
    )


def test_a_contract_is_asked() -> None:
    _, function, weights = program("gpt2")
    with pytest.raises(axon.ShapeError, match="sequence <= 32"):
        function(weights, np.zeros((1, 33), np.int32))
