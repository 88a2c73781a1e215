"""Weights that a graph takes apart or keeps once for several, against ONNX's own reference evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
from onnx import helper

from tests.tools.onnx.graphs import compared, model

node = helper.make_node


def drawn(seed: int, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name.replace("__", "."): rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def scoped(op: str, inputs: list[str], output: str, scope: str, **attributes: Any) -> Any:
    """A node that says in which module it stands, as PyTorch's exporter writes it."""
    made = node(op, inputs, [output], **attributes)
    scopes = ["", *(scope.rsplit(".", n)[0] for n in reversed(range(scope.count(".") + 1))), output]
    made.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(scopes))
    return made


@pytest.mark.parametrize("by", ["split", "slice"])
def test_parts_of_a_matrix_are_weights(tmp_path: Path, by: str) -> None:
    """As in cross-attention: queries of one sequence, keys and values of another, by one matrix."""
    weights = drawn(0, a__in_proj_weight=(12, 4), a__in_proj_bias=(12,))
    numbers = {"lengths": [4, 8], "0": [0], "4": [4], "far": [2**63 - 1]}
    nodes = []
    for name in ("weight", "bias"):
        whole, parts = f"a.in_proj_{name}", [f"q_{name}", f"kv_{name}"]
        if by == "split":
            nodes.append(node("Split", [whole, "lengths"], parts, axis=0))
        else:
            nodes += [node("Slice", [whole, a, b, "0"], [part]) for part, a, b in zip(parts, ["0", "4"], ["4", "far"], strict=True)]
    for part, x in (("q", "x"), ("kv", "y")):
        nodes.append(node("Transpose", [f"{part}_weight"], [f"{part}_t"], perm=[1, 0]))
        nodes.append(node("MatMul", [x, f"{part}_t"], [f"{part}_p"], f"/a/{part}"))
        nodes.append(node("Add", [f"{part}_p", f"{part}_bias"], [f"{part}_y"]))
    made = model(
        nodes,
        {"x": ["b", "s", 4], "y": ["b", "t", 4]},
        {"q_y": ["b", "s", 4], "kv_y": ["b", "t", 8]},
        weights | {name: np.array(value) for name, value in numbers.items()},
    )
    text = compared(tmp_path, made, *drawn(1, x=(2, 3, 4), y=(2, 5, 4)).values())
    assert "nn.dense p.in_proj x" in text
    assert "nn.dense p.in_proj_2 y" in text


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_a_computed_matrix_for_the_whole_batch(tmp_path: Path, rank: int, turned: bool) -> None:
    """What has no batch is given none: the matrix here is no weight of the file, but made of one."""
    nodes = [node("Relu", ["w"], ["r"]), node("Mul", ["x", "half"], ["h"])]
    nodes += [node("Transpose", ["r"], ["t"], perm=[1, 0])] if turned else []
    nodes.append(node("MatMul", ["h", "t" if turned else "r"], ["y"]))
    lead: list[str | int] = ["a", "b", "c"][: rank - 1]
    weights = drawn(2, w=(5, 4) if turned else (4, 5)) | {"half": np.array(0.5, np.float32)}
    made = model(nodes, {"x": [*lead, 4]}, {"y": [*lead, 5]}, weights)
    compared(tmp_path, made, *drawn(3, x=(*(2, 3, 2)[: rank - 1], 4)).values())


def test_a_matrix_for_a_batch_in_another_order(tmp_path: Path) -> None:
    nodes = [node("Transpose", ["x"], ["h"], perm=[1, 2, 0]), node("MatMul", ["h", "w"], ["y"])]
    made = model(nodes, {"x": [4, "a", "b"], "w": [4, 5]}, {"y": ["a", "b", 5]})
    compared(tmp_path, made, *drawn(4, x=(4, 2, 3), w=(4, 5)).values())


def test_a_bias_that_is_kept_once_for_two_modules(tmp_path: Path) -> None:
    """Exporters keep equal tensors once, such as the biases of a model that was not trained, and folded matrices have no names: the
    second module's layer is then its own all the same, beside the other layer in it."""
    matrices = dict.fromkeys(("val_1", "val_2", "one__out_proj__weight", "two__out_proj__weight"), (4, 4))
    weights = drawn(5, one__in_proj_bias=(4,), **matrices)
    nodes, x = [], "x"
    for n, module in ((1, "one"), (2, "two")):
        nodes += [
            scoped("MatMul", [x, f"val_{n}"], f"m{n}", module),
            scoped("Add", [f"m{n}", "one.in_proj_bias"], f"a{n}", module),
            scoped("Relu", [f"a{n}"], f"r{n}", module),
            scoped("Gemm", [f"r{n}", f"{module}.out_proj.weight"], f"g{n}", module, transB=1),
        ]
        x = f"g{n}"
    made = model(nodes, {"x": ["n", 4]}, {"g2": ["n", 4]}, weights)
    text = compared(tmp_path, made, *drawn(6, x=(3, 4)).values())
    assert "nn.dense p.one.in_proj" in text
    assert "nn.dense p.two.in_proj" in text


def test_a_matrix_without_a_name_beside_other_layers(tmp_path: Path) -> None:
    weights = drawn(7, val_1=(4, 4), one__out_proj__weight=(4, 4))
    nodes = [
        scoped("MatMul", ["x", "val_1"], "m", "one"),
        scoped("Relu", ["m"], "r", "one"),
        scoped("Gemm", ["r", "one.out_proj.weight"], "g", "one", transB=1),
        node("Add", ["g", "x"], ["y"]),
        node("Tanh", ["y"], ["z"]),
        node("Mul", ["z", "x"], ["u"]),
        node("Exp", ["u"], ["v"]),
    ]
    made = model(nodes, {"x": ["n", 4]}, {"v": ["n", 4]}, weights)
    compared(tmp_path, made, *drawn(8, x=(3, 4)).values())
