"""Files that are wrong, or unusual: what is refused says why, and nothing of it is a mistake in Axon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon

pytest.importorskip("onnx")
import onnx
from onnx import helper

from axon.tools.onnx.importing import imported
from tests.tools.onnx.graphs import compared, model, written

node = helper.make_node
RELU = [node("Relu", ["x"], ["y"])]
MATRIX = np.random.default_rng(0).standard_normal((4, 3), dtype=np.float32)


def said(path: Path) -> str:
    """All that is printed about a file that is refused."""
    with pytest.raises(axon.AxonError) as caught:
        imported(str(path)).save(path.with_suffix(".axon"))
    text = str(caught.value)
    assert "AX0001" not in text
    assert not path.with_suffix(".axon").exists()
    assert not path.with_suffix(".safetensors").exists()
    return text


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("Relu", ["x"], ["z"])], "the result `y` is made by no node"),
        ([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], "`y` is made by more than one node"),
        ([node("Transpose", ["x"], ["y"], perm=[0, 0])], "ONNX does not accept the graph"),
        ([node("Reshape", ["x"], ["y"])], "its input 1 is missing"),
        ([node("Conv", ["x", "k"], ["y"])], "ONNX does not accept the graph"),
    ],
)
def test_graphs_that_are_none(tmp_path: Path, nodes: list[Any], why: str) -> None:
    kernel = {"k": np.ones((2, 3, 1, 1), np.float32)} if nodes[0].op_type == "Conv" else {}
    shape = ["n", 4, 5, 5] if kernel else ["n", 4]
    written(tmp_path / "f.onnx", nodes, {"x": shape}, {"y": shape}, kernel)
    assert why in said(tmp_path / "f.onnx")


def test_an_operator_set_that_is_not_known(tmp_path: Path) -> None:
    """A later set may give operators another meaning."""
    written(tmp_path / "f.onnx", RELU, {"x": ["n"]}, {"y": ["n"]}, opset=999)
    assert "operator set 999 is newer than the" in said(tmp_path / "f.onnx")


@pytest.mark.parametrize("how", ["short", "missing", "elsewhere"])
def test_external_data_that_are_not_there(tmp_path: Path, how: str) -> None:
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    made = model(nodes, {"x": ["n", 4]}, {"y": ["n", 3]}, {"w": MATRIX})
    onnx.save_model(made, tmp_path / "f.onnx", save_as_external_data=True, location="f.data", size_threshold=0)
    data = tmp_path / "f.data"
    if how == "short":
        data.write_bytes(data.read_bytes()[:20])
    else:
        data.unlink()
    if how == "elsewhere":
        data.mkdir()
    assert "the data of `w` cannot be read" in said(tmp_path / "f.onnx")


def test_sizes_below_zero_are_open(tmp_path: Path) -> None:
    """As some exporters write a size that may change."""
    x = np.array([[1.0, -2.0]], np.float32)
    text = compared(tmp_path, model(RELU, {"x": [-1, 2]}, {"y": [-1, 2]}), x)
    assert "f32[x_0, 2]" in text


def test_names_of_sizes_that_only_look_like_sums(tmp_path: Path) -> None:
    """`sequence-length` is a name where no argument tells `sequence` and `length`; `n + 1` is a sum where one tells `n`."""
    made = model(RELU, {"x": ["batch-size", "n//2", "2*h"]}, {"y": ["batch-size", "n//2", "2*h"]})
    assert "f32[batch_size, n_2, 2 * h]" in compared(tmp_path, made, np.ones((2, 3, 4), np.float32))
    made = model([node("Concat", ["x", "z"], ["y"], axis=0)], {"x": ["n"], "z": ["n-1"]}, {"y": ["2*n-1"]})
    assert "(z : f32[n - 1])" in compared(tmp_path, made, np.ones(3, np.float32), np.ones(2, np.float32))


def test_a_weight_below_another(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "a.b"], ["t"]), node("Add", ["t", "a"], ["u"]), node("Add", ["u", "a.b.c"], ["y"])]
    weights = {"a.b": MATRIX, "a": MATRIX[0], "a.b.c": MATRIX[1]}
    compared(tmp_path, model(nodes, {"x": ["n", 4]}, {"y": ["n", 3]}, weights), np.ones((2, 4), np.float32))


@pytest.mark.parametrize("name", ["f16", "bool", "where", "9", "über netz", "a-b.c"])
def test_names_of_files(tmp_path: Path, name: str) -> None:
    """A model may be called as a type of elements, a word of the language, or what is no name."""
    nodes = [node("Gemm", ["x", "w", "b"], ["y"])]
    written(tmp_path / f"{name}.onnx", nodes, {"x": ["n", 4]}, {"y": ["n", 3]}, {"w": MATRIX, "b": MATRIX[0]})
    found = imported(str(tmp_path / f"{name}.onnx"))
    function = axon.compile(found.text)[found.graph.name]
    beside = found.save(tmp_path / "out.axon")
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(function(axon.load_weights(beside, function), x), x @ MATRIX + MATRIX[0], rtol=1e-6)
