"""What is refused and how, and single translations, against ONNX's own reference evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon

pytest.importorskip("onnx")
import onnx
from onnx import TensorProto, helper

from axon.tools.cli import main
from axon.tools.onnx.importing import imported
from tests.tools.onnx.graphs import compared, model, written

node = helper.make_node


def refused(path: Path, *arguments: Any, **more: Any) -> list[axon.Diagnostic]:
    with pytest.raises(axon.AxonError) as caught:
        imported(written(path / "f.onnx", *arguments, **more))
    return list(caught.value.diagnostics)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_operators_without_a_translation_are_named_at_once(tmp_path: Path) -> None:
    nodes = [
        node("TopK", ["x", "k"], ["v", "i"], "first"),
        node("Relu", ["v"], ["r"]),
        node("TopK", ["r", "k"], ["w", "j"], "second"),
        node("NonZero", ["w"], ["y"], "third"),
    ]
    (found,) = refused(tmp_path, nodes, {"x": ["n"]}, {"y": [1, "m"]}, {"k": np.array([2])}, integers=["y"])
    assert found.code == "AX0702"
    assert found.message == "3 of the graph's 4 nodes are of operators without a translation"
    assert found.notes == (
        "`NonZero`: 1 node, the first is `third`",
        "`TopK`: 2 nodes, the first is `first`",
        "the graph is of operator set 20",
    )


def test_a_shape_that_depends_on_data(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "s"], ["y"], "view")]
    (found,) = refused(tmp_path, nodes, {"x": ["n"], "s": [2]}, {"y": ["a", "b"]}, integers=["s"])
    assert (found.code, found.message) == (
        "AX0702",
        "`view` (Reshape) cannot be translated: the shape depends on data, and a size of a tensor may not",
    )


def test_every_node_that_cannot_be_translated_is_told(tmp_path: Path) -> None:
    """Those that use what another could not give are not: they may be translated well enough."""
    nodes = [
        node("Softmax", ["x"], ["a"], "across", axis=0),
        node("Relu", ["a"], ["b"], "after"),
        node("Pad", ["x", "p"], ["c"], "edge", mode="edge"),
        node("Concat", ["b", "c"], ["y"], axis=1),
    ]
    found = refused(tmp_path, nodes, {"x": ["n", 4]}, {"y": ["n", 9]}, {"p": np.array([0, 0, 0, 1])})
    assert [d.message.partition(" cannot")[0] for d in found] == ["`across` (Softmax)", "`edge` (Pad)"]


def test_sizes_that_nobody_says_are_equal(tmp_path: Path) -> None:
    (found,) = refused(tmp_path, [node("Add", ["x", "y"], ["z"], "sum")], {"x": ["n"], "y": ["m"]}, {"z": ["n"]})
    assert found.message == "`sum` (Add) cannot be translated: the sizes n and m are not known to be equal"


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "f.onnx").write_bytes(b"no model at all")
    (tmp_path / "empty.onnx").write_bytes(b"")
    for name, why in (("f", "it is not an ONNX model"), ("empty", "it holds no graph")):
        with pytest.raises(axon.AxonError) as caught:
            imported(str(tmp_path / f"{name}.onnx"))
        assert caught.value.diagnostics[0].code == "AX0701"
        assert caught.value.diagnostics[0].notes == (why,)
    with pytest.raises(axon.AxonError) as caught:
        imported(str(tmp_path / "nothing.onnx"))
    assert caught.value.diagnostics[0].code == "AX0408"


def test_elements_that_axon_has_not(tmp_path: Path) -> None:
    made = model([node("Identity", ["x"], ["y"])], {"x": ["n"]}, {"y": ["n"]})
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    onnx.save(made, tmp_path / "f.onnx")
    with pytest.raises(axon.AxonError, match="`x` holds STRING, which Axon has not"):
        imported(str(tmp_path / "f.onnx"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weights = {"head.weight": np.eye(3, dtype=np.float32), "head.bias": np.ones(3, np.float32)}
    written(tmp_path / "tiny.onnx", [node("Gemm", ["x", *weights], ["y"])], {"x": ["n", 3]}, {"y": ["n", 3]}, weights)
    assert main(["import", "tiny.onnx"]) == 0
    m = axon.load("tiny.axon")
    assert m.tiny.signature == "sig tiny : tiny -> f32[n, 3] -> f32[n, 3]"
    p = axon.load_weights("tiny.safetensors", m.tiny)
    np.testing.assert_array_equal(m.tiny(p, np.ones((2, 3), np.float32)), np.full((2, 3), 2.0))
    assert main(["import", "tiny.onnx"]) == 1  # what may have been edited is kept
    assert "`tiny.axon` is there already" in capsys.readouterr().out
    assert main(["import", "tiny.onnx", "-o", "sub.txt"]) == 1
    assert main(["import", "tiny.onnx", "-o", "other.axon"]) == 0
    assert axon.load("other.axon").other.signature == "sig other : other -> f32[n, 3] -> f32[n, 3]"


# ── shapes fold ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_heads_are_split_and_merged(tmp_path: Path) -> None:
    """Shape, Gather, Concat and Reshape, as exporters write a split into heads, and its inverse is nothing at all."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["b"]),
        node("Gather", ["s", "one"], ["t"]),
        node("Unsqueeze", ["b", "zero_"], ["b_"]),
        node("Unsqueeze", ["t", "zero_"], ["t_"]),
        node("Concat", ["b_", "t_", "heads"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["split"]),
        node("Transpose", ["split"], ["moved"], perm=[0, 2, 1, 3]),
        node("Transpose", ["moved"], ["back"], perm=[0, 2, 1, 3]),
        node("Concat", ["b_", "t_", "rest"], ["whole"], axis=0),
        node("Reshape", ["back", "whole"], ["y"]),
    ]
    weights = {
        "zero": np.array(0), "one": np.array(1), "zero_": np.array([0]), "heads": np.array([4, -1]), "rest": np.array([-1]),
    }  # fmt: skip
    x = np.random.default_rng(0).standard_normal((2, 3, 8), dtype=np.float32)
    both = model(nodes, {"x": ["b", "t", 8]}, {"moved": ["b", 4, "t", 2], "y": ["b", "t", 8]}, weights)
    text = compared(tmp_path, both, x)
    assert "fun f (x : f32[b, t, 8]) = (nn.split_heads {4} x, x)" in text


@pytest.mark.parametrize(
    ("perm", "shape"),
    [([0, 2, 1], [2, 24]), ([2, 0, 1], [6, 8]), ([1, 2, 0], [-1, 4]), ([2, 1, 0], [3, 16])],
)
def test_any_transposition_and_reshape(tmp_path: Path, perm: list[int], shape: list[int]) -> None:
    nodes = [node("Transpose", ["x"], ["a"], perm=perm), node("Reshape", ["a", "to"], ["b"]), node("Relu", ["b"], ["y"])]
    x = np.random.default_rng(1).standard_normal((2, 4, 6), dtype=np.float32)
    compared(tmp_path, model(nodes, {"x": [2, 4, 6]}, {"y": [None, None]}, {"to": np.array(shape)}), x)


def test_a_mask_of_positions_is_causal_attention(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["q"], ["n"], start=2, end=3),
        node("Squeeze", ["n"], ["n_"]),
        node("Range", ["zero", "n_", "one"], ["at"]),
        node("Unsqueeze", ["at", "first"], ["column"]),
        node("Unsqueeze", ["at", "second"], ["row"]),
        node("LessOrEqual", ["column", "row"], ["sees"]),
        node("Where", ["sees", "nothing", "low"], ["mask"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["scores"]),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Add", ["scaled", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["p"], axis=-1),
        node("IsNaN", ["p"], ["bad"]),
        node("Where", ["bad", "nothing", "p"], ["safe"]),
        node("MatMul", ["safe", "v"], ["y"]),
    ]
    weights = {
        "zero": np.array(0), "one": np.array(1), "first": np.array([0]), "second": np.array([1]),
        "nothing": np.array(0, np.float32), "low": np.array(-3.4e38, np.float32), "scale": np.array(0.5, np.float32),
    }  # fmt: skip
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((2, 3, 5, 4), dtype=np.float32) for _ in range(3))
    shape = {name: ["b", 3, "s", 4] for name in "qkv"}
    text = compared(tmp_path, model(nodes, shape, {"y": ["b", 3, "s", 4]}, weights), q, k, v)
    assert "nn.causal_attention q k v" in text


@pytest.mark.parametrize(("start", "end", "step"), [(0, 2, 1), (1, 9, 2), (-3, 2**63 - 1, 1), (2, -1, 1)])
def test_slices(tmp_path: Path, start: int, end: int, step: int) -> None:
    nodes = [node("Slice", ["x", "start", "end", "axis", "step"], ["y"])]
    weights = {"start": [start], "end": [end], "axis": [1], "step": [step]}
    x = np.random.default_rng(3).standard_normal((2, 6, 3), dtype=np.float32)
    made = model(nodes, {"x": ["n", 6, 3]}, {"y": ["n", None, 3]}, {k: np.array(v) for k, v in weights.items()})
    compared(tmp_path, made, x)


def test_rows_of_a_table(tmp_path: Path) -> None:
    """One row, a range of rows, and the rows that a tensor names."""
    nodes = [
        node("Gather", ["table", "two"], ["row"]),
        node("Shape", ["ids"], ["n"], start=1, end=2),
        node("Squeeze", ["n"], ["n_"]),
        node("Range", ["one", "n_", "one"], ["at"]),
        node("Gather", ["table", "at"], ["rows"]),
        node("Gather", ["table", "ids"], ["named"]),
    ]
    weights = {"table": np.random.default_rng(4).standard_normal((9, 3), dtype=np.float32), "two": np.array(2), "one": np.array(1)}
    outputs = {"row": [3], "rows": ["m", 3], "named": ["b", "n", 3]}
    made = model(nodes, {"ids": ["b", "n"]}, outputs, weights, integers=["ids"])
    text = compared(tmp_path, made, np.array([[0, 8, 3, 3]]))
    assert "p.table[1 : n, :]" in text
    assert "nn.embedding p.table ids" in text


def test_a_sum_of_ones_counts(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("ConstantOfShape", ["s"], ["ones"], value=helper.make_tensor("one", TensorProto.INT64, [1], [1])),
        node("CumSum", ["ones", "axis"], ["count"]),
        node("Cast", ["count"], ["count_"], to=TensorProto.FLOAT),
        node("Mul", ["x", "count_"], ["y"]),
    ]
    x = np.random.default_rng(5).standard_normal((2, 4), dtype=np.float32)
    compared(tmp_path, model(nodes, {"x": ["n", "m"]}, {"y": ["n", "m"]}, {"axis": np.array(1)}), x)


# ── operators ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        *((op, {}) for op in (
            "Relu", "Sigmoid", "Tanh", "Softplus", "Exp", "Erf", "Neg", "Abs", "Elu", "Gelu", "HardSwish", "Mish", "Selu",
            "ReduceSum", "Floor", "Flatten", "Reciprocal", "Softsign", "Celu",
        )),
        ("Gelu", {"approximate": "tanh"}), ("LeakyRelu", {"alpha": 0.2}), ("Softmax", {"axis": -1}), ("LogSoftmax", {"axis": 1}),
        ("ReduceMean", {"keepdims": 0}), ("ArgMax", {"axis": 1}), ("Transpose", {"perm": [1, 0]}),
    ],
)  # fmt: skip
def test_of_one_operand(tmp_path: Path, op: str, attributes: dict[str, Any]) -> None:
    x = np.random.default_rng(6).standard_normal((3, 5), dtype=np.float32)
    made = model([node(op, ["x"], ["y"], **attributes)], {"x": ["n", 5]}, {"y": [None, None]})
    if op == "ArgMax":
        made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    compared(tmp_path, made, x)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize(("a", "b"), [([3, 5], [3, 5]), ([3, 5], [5]), ([5], [3, 5]), ([3, 1], [1, 5]), ([2, 1, 5], [3, 1])])
def test_of_two_operands(tmp_path: Path, op: str, a: list[int], b: list[int]) -> None:
    rng = np.random.default_rng(7)
    x, y = (rng.standard_normal(shape, dtype=np.float32) for shape in (a, b))
    compared(tmp_path, model([node(op, ["x", "y"], ["z"])], {"x": a, "y": b}, {"z": [None] * max(len(a), len(b))}), x, y)


@pytest.mark.parametrize(
    "attributes",
    [
        {}, {"strides": [2, 2], "pads": [1, 1, 1, 1]}, {"dilations": [2, 2]}, {"group": 2}, {"group": 4, "pads": [1, 1, 1, 1]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("biased", [True, False])
def test_convolutions(tmp_path: Path, attributes: dict[str, Any], biased: bool) -> None:
    rng = np.random.default_rng(8)
    weights = {"conv.weight": rng.standard_normal((8, 4 // attributes.get("group", 1), 3, 3), dtype=np.float32)}
    weights |= {"conv.bias": rng.standard_normal(8, dtype=np.float32)} if biased else {}
    x = rng.standard_normal((2, 4, 9, 7), dtype=np.float32)
    compared(
        tmp_path, model([node("Conv", ["x", *weights], ["y"], **attributes)], {"x": ["n", 4, 9, 7]}, {"y": [None] * 4}, weights), x
    )


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "GlobalAveragePool"])
def test_pools(tmp_path: Path, op: str) -> None:
    x = np.random.default_rng(9).standard_normal((2, 3, 8, 8), dtype=np.float32)
    attributes = {} if op == "GlobalAveragePool" else {"kernel_shape": [2, 2], "strides": [2, 2]}
    compared(tmp_path, model([node(op, ["x"], ["y"], **attributes)], {"x": ["n", 3, 8, 8]}, {"y": [None] * 4}), x)


def test_windows_that_differ_are_refused(tmp_path: Path) -> None:
    weights = {"w": np.zeros((1, 1, 3, 3), np.float32)}
    nodes = [node("Conv", ["x", "w"], ["y"], "conv", strides=[1, 2])]
    (found,) = refused(tmp_path, nodes, {"x": ["n", 1, 8, 8]}, {"y": [None] * 4}, weights)
    assert "strides differ from axis to axis (1, 2), which is not translated" in found.message


def test_what_is_not_a_number_is_found(tmp_path: Path) -> None:
    """The guard of attention is an idiom; this is none."""
    x = np.array([1.0, np.nan, -2.0], np.float32)
    nodes = [node("IsNaN", ["x"], ["bad"]), node("Where", ["bad", "zero", "x"], ["y"])]
    compared(tmp_path, model(nodes, {"x": ["n"]}, {"y": ["n"]}, {"zero": np.array(0, np.float32)}), x)


def test_dropout_is_nothing_but_in_training(tmp_path: Path) -> None:
    weights = {"ratio": np.array(0.5, np.float32), "no": np.array(False), "yes": np.array(True)}
    x = np.arange(3, dtype=np.float32)
    compared(tmp_path, model([node("Dropout", ["x", "ratio", "no"], ["y"])], {"x": ["n"]}, {"y": ["n"]}, weights), x)
    nodes = [node("Dropout", ["x", "ratio", "yes"], ["y"], "drop")]
    (found,) = refused(tmp_path, nodes, {"x": ["n"]}, {"y": ["n"]}, weights)
    assert "it drops elements at random" in found.message


def test_quotients_of_integers_that_round_otherwise_are_refused(tmp_path: Path) -> None:
    nodes = [node("Div", ["i", "two"], ["y"], "half")]
    (found,) = refused(tmp_path, nodes, {"i": ["n"]}, {"y": ["n"]}, {"two": np.array(2)}, integers=["i", "y"])
    assert "a quotient of integers that may be negative is not translated" in found.message
    nodes = [node("Mod", ["x", "y"], ["z"], "rest", fmod=1)]
    (found,) = refused(tmp_path, nodes, {"x": ["n"], "y": ["n"]}, {"z": ["n"]})
    assert "remainders with the sign of what is divided" in found.message


@pytest.mark.parametrize("kind", [np.float64, np.float16])
def test_weights_of_other_element_types(tmp_path: Path, kind: Any) -> None:
    rng = np.random.default_rng(16)
    weights = {"conv.weight": rng.standard_normal((4, 2, 3, 3)), "conv.bias": rng.standard_normal(4), "third": np.array(1 / 3)}
    weights = {name: a.astype(kind) for name, a in weights.items()}
    nodes = [node("Conv", ["x", "conv.weight", "conv.bias"], ["a"]), node("Mul", ["a", "third"], ["y"])]
    made = model(nodes, {"x": ["n", 2, 5, 5]}, {"y": [None] * 4}, weights)
    for port in (*made.graph.input, *made.graph.output):
        port.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    x = rng.standard_normal((1, 2, 5, 5)).astype(kind)
    text = compared(tmp_path, made, x, atol=2e-2 if kind is np.float16 else 1e-12)
    assert ("0.3333333333333333" in text) == (kind is np.float64)


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
@pytest.mark.parametrize("heads", [4, 2])
def test_attention_as_an_operator(tmp_path: Path, mask: str, heads: int) -> None:
    rng = np.random.default_rng(18)
    q, k, v = (rng.standard_normal((2, h, 5, 8), dtype=np.float32) for h in (4, heads, heads))
    inputs = {"q": ["b", 4, "s", 8], "k": ["b", heads, "s", 8], "v": ["b", heads, "s", 8]}
    arrays, names = [q, k, v], ["q", "k", "v"]
    if mask in ("bool", "float"):
        seen = rng.random((5, 5)) > 0.4
        np.fill_diagonal(seen, True)
        arrays.append(seen if mask == "bool" else np.where(seen, 0, -1e9).astype(np.float32))
        inputs, names = inputs | {"m": ["s", "s"]}, [*names, "m"]
    nodes = [node("Attention", names, ["y"], is_causal=int(mask == "causal"))]
    made = model(nodes, inputs, {"y": ["b", 4, "s", 8]}, opset=23)
    if mask == "bool":
        made.graph.input[3].type.tensor_type.elem_type = TensorProto.BOOL
    compared(tmp_path, made, *arrays)


# ── modules ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def layers(count: int, widths: list[int]) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Layers one after the other, each a product, a ReLU and a sum, named as PyTorch's older exporter names nodes."""
    rng = np.random.default_rng(10)
    nodes, weights, x = [], dict[str, np.ndarray](), "x"
    for n in range(count):
        at, width = f"layers.{n}", widths[n % len(widths)]
        for name, shape in (("up.weight", (4, width)), ("up.bias", (width,)), ("down.weight", (width, 4)), ("down.bias", (4,))):
            weights[f"{at}.{name}"] = rng.standard_normal(shape, dtype=np.float32)
        nodes += [
            node("MatMul", [x, f"{at}.up.weight"], [f"a{n}"], f"/{at}/up/MatMul"),
            node("Add", [f"a{n}", f"{at}.up.bias"], [f"b{n}"], f"/{at}/up/Add"),
            node("Relu", [f"b{n}"], [f"c{n}"], f"/{at}/act/Relu"),
            node("MatMul", [f"c{n}", f"{at}.down.weight"], [f"d{n}"], f"/{at}/down/MatMul"),
            node("Add", [f"d{n}", f"{at}.down.bias"], [f"e{n}"], f"/{at}/down/Add"),
            node("Add", [x, f"e{n}"], [f"y{n}"], f"/{at}/Add"),
        ]
        x = f"y{n}"
    return nodes, weights


def test_equal_layers_are_a_loop(tmp_path: Path) -> None:
    nodes, weights = layers(3, [6])
    x = np.random.default_rng(11).standard_normal((2, 4), dtype=np.float32)
    text = compared(tmp_path, model(nodes, {"x": ["n", 4]}, {"y2": ["n", 4]}, weights), x)
    assert "type f = { layers : layers[3] }" in text
    assert "loop (x = x) for i => layers p.layers[i] x" in text


def test_layers_whose_weights_alone_have_names(tmp_path: Path) -> None:
    nodes, weights = layers(3, [6])
    for n in nodes:
        n.name = ""
    x = np.random.default_rng(21).standard_normal((2, 4), dtype=np.float32)
    text = compared(tmp_path, model(nodes, {"x": ["n", 4]}, {"y2": ["n", 4]}, weights), x)
    assert "loop (x = x) for i => layers p.layers[i] x" in text


def test_layers_of_several_widths_share_a_function(tmp_path: Path) -> None:
    nodes, weights = layers(2, [6, 5])
    x = np.random.default_rng(12).standard_normal((2, 4), dtype=np.float32)
    text = compared(tmp_path, model(nodes, {"x": ["n", 4]}, {"y1": ["n", 4]}, weights), x)
    assert "type layers[k] = { up : nn.linear[4, k], down : nn.linear[k, 4] }" in text
    assert text.count("fun layers ") == 1
    assert "loop" not in text


@pytest.mark.parametrize("widths", [[(8, 8), (8, 8)], [(8, 8), (12, 12)], [(8, 12), (12, 8)]])
def test_layers_of_several_groups_share_a_function(tmp_path: Path, widths: list[tuple[int, int]]) -> None:
    """Blocks that add what goes in to a grouped convolution of it, and then one over channels."""
    rng = np.random.default_rng(23)
    weights, nodes, x = {}, [], "x"
    for n, (inner, groups) in enumerate(zip((w for w, _ in widths), (4, 2), strict=True)):
        weights |= {
            f"blocks.{n}.wide.weight": rng.standard_normal((inner, 8, 1, 1), dtype=np.float32),
            f"blocks.{n}.group.weight": rng.standard_normal((inner, inner // groups, 3, 3), dtype=np.float32) / 4,
            f"blocks.{n}.point.weight": rng.standard_normal((8, inner, 1, 1), dtype=np.float32) / 4,
            f"blocks.{n}.point.bias": rng.standard_normal(8, dtype=np.float32),
        }
        at = f"/blocks.{n}/"
        nodes += [
            node("Conv", [x, f"blocks.{n}.wide.weight"], [f"w{n}"], f"{at}wide/Conv"),
            node("Conv", [f"w{n}", f"blocks.{n}.group.weight"], [f"g{n}"], f"{at}group/Conv", group=groups, pads=[1, 1, 1, 1]),
            node("Relu", [f"g{n}"], [f"r{n}"], f"{at}Relu"),
            node("Conv", [f"r{n}", f"blocks.{n}.point.weight", f"blocks.{n}.point.bias"], [f"p{n}"], f"{at}point/Conv"),
            node("Add", [x, f"p{n}"], [f"y{n}"], f"{at}Add"),
        ]
        x = f"y{n}"
    made = model(nodes, {"x": ["n", 8, 6, 5]}, {"y1": ["n", 8, 6, 5]}, weights)
    text = compared(tmp_path, made, rng.standard_normal((2, 8, 6, 5), dtype=np.float32))
    assert text.count("fun blocks ") == 1
    assert "groups" in text


def test_what_is_used_in_between_is_no_loop(tmp_path: Path) -> None:
    nodes, weights = layers(3, [6])
    x = np.random.default_rng(13).standard_normal((2, 4), dtype=np.float32)
    text = compared(tmp_path, model(nodes, {"x": ["n", 4]}, {"y0": ["n", 4], "y2": ["n", 4]}, weights), x)
    assert text.count("fun layers ") == 1


def test_a_graph_without_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(14)
    weights = {"0": rng.standard_normal((4, 5), dtype=np.float32), "1": rng.standard_normal(5, dtype=np.float32)}
    nodes = [node("MatMul", ["x", "0"], ["2"]), node("Add", ["2", "1"], ["3"]), node("Relu", ["3"], ["4"])]
    compared(tmp_path, model(nodes, {"x": ["n", 4]}, {"4": ["n", 5]}, weights), rng.standard_normal((2, 4), dtype=np.float32))


def test_names_do_not_hide_each_other(tmp_path: Path) -> None:
    """Inputs and sizes that are called as what the import itself would take: records, indices, helpers, values."""
    rng = np.random.default_rng(19)
    weights = {"w": rng.standard_normal((3, 4), dtype=np.float32), "b": rng.standard_normal(4, dtype=np.float32)}
    nodes = [
        node("MatMul", ["p", "w"], ["a"]),
        node("Add", ["a", "b"], ["c"]),
        node("Transpose", ["c"], ["d"], perm=[1, 2, 0]),
        node("Relu", ["k"], ["e"]),
        node("Transpose", ["e"], ["g"], perm=[1, 2, 0]),
        node("Add", ["d", "g"], ["y"]),
    ]
    made = model(nodes, {"p": ["i", "x", 3], "k": ["i", "x", 4]}, {"y": ["x", 4, "i"]}, weights)
    arrays = [rng.standard_normal((2, 5, n), dtype=np.float32) for n in (3, 4)]
    compared(tmp_path, made, *arrays)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_external_data_are_read_when_they_are_written(tmp_path: Path) -> None:
    weights = {"head.weight": np.arange(12, dtype=np.float32).reshape(4, 3), "head.bias": np.ones(4, np.float32)}
    made = model([node("Gemm", ["x", *weights], ["y"], transB=1)], {"x": ["n", 3]}, {"y": ["n", 4]}, weights)
    onnx.save_model(made, tmp_path / "f.onnx", save_as_external_data=True, location="f.data", size_threshold=0)
    found = imported(str(tmp_path / "f.onnx"))
    beside = found.save(tmp_path / "f.axon")
    p = axon.load_weights(beside, axon.load(tmp_path / "f.axon").f)
    np.testing.assert_array_equal(p["head"]["w"], weights["head.weight"].T)


def test_matrices_that_the_exporter_did_not_fold(tmp_path: Path) -> None:
    """A table that is also the last layer, and a layer, are transposed in the graph where they are large."""
    rng = np.random.default_rng(20)
    weights = {
        "table.weight": rng.standard_normal((7, 4), dtype=np.float32),
        "up.weight": rng.standard_normal((4, 4), dtype=np.float32),
    }
    nodes = [
        node("Gather", ["table.weight", "ids"], ["x"]),
        node("Transpose", ["up.weight"], ["ut"], perm=[1, 0]),
        node("MatMul", ["x", "ut"], ["a"], "/up/MatMul"),
        node("Transpose", ["table.weight"], ["tt"], perm=[1, 0]),
        node("MatMul", ["a", "tt"], ["y"], "/head/MatMul"),
    ]
    made = model(nodes, {"ids": ["b", "s"]}, {"y": ["b", "s", 7]}, weights, integers=["ids"])
    text = compared(tmp_path, made, np.array([[0, 6, 2]]))
    assert "@ linalg.transpose p.table" in text
    assert "@ p.up" in text


def test_old_operator_sets_are_raised(tmp_path: Path) -> None:
    nodes = [
        node("Unsqueeze", ["x"], ["a"], axes=[1]),
        node("Softmax", ["a"], ["b"], axis=2),
        node("Squeeze", ["b"], ["y"], axes=[1]),
    ]
    x = np.random.default_rng(15).standard_normal((2, 4), dtype=np.float32)
    compared(tmp_path, model(nodes, {"x": ["n", 4]}, {"y": ["n", 4]}, opset=11), x)


def test_functions_of_the_model_are_written_out(tmp_path: Path) -> None:
    made = model([node("Twice", ["x"], ["y"], domain="own")], {"x": ["n"]}, {"y": ["n"]})
    body = [node("Add", ["a", "a"], ["b"])]
    made.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 20)]))
    made.opset_import.append(helper.make_opsetid("own", 1))
    compared(tmp_path, made, np.arange(3, dtype=np.float32))


def test_a_range_of_floats_up_to_a_size(tmp_path: Path) -> None:
    """As `torch.arange(x.shape[0], dtype=torch.float32)` is exported."""
    nodes = [
        node("Shape", ["x"], ["n"], start=0, end=1),
        node("Squeeze", ["n"], ["n_"]),
        node("Cast", ["n_"], ["limit"], to=TensorProto.FLOAT),
        node("Range", ["zero", "limit", "two"], ["at"]),
        node("Mul", ["at", "half"], ["y"]),
    ]
    weights = {name: np.array(value, np.float32) for name, value in (("zero", 0.0), ("two", 2.0), ("half", 0.5))}
    made = model(nodes, {"x": ["n"]}, {"y": ["m"]}, weights)
    compared(tmp_path, made, np.ones(7, np.float32))
    compared(tmp_path, made, np.ones(4, np.float32))


def test_instance_and_group_normalization(tmp_path: Path) -> None:
    """Groups are exported as channels, whose scale is 1 and shift 0."""
    rng = np.random.default_rng(3)
    weights = {
        "norm.weight": rng.standard_normal(4, dtype=np.float32), "norm.bias": rng.standard_normal(4, dtype=np.float32),
        "ones": np.ones(2, np.float32), "zeros": np.zeros(2, np.float32), "groups": np.array([0, 2, -1]),
        "back": np.array([-1, 4, 3, 5]),
    }  # fmt: skip
    nodes = [
        node("InstanceNormalization", ["x", "norm.weight", "norm.bias"], ["a"], "/norm/InstanceNormalization"),
        node("Reshape", ["a", "groups"], ["b"]),
        node("InstanceNormalization", ["b", "ones", "zeros"], ["c"]),
        node("Reshape", ["c", "back"], ["y"]),
    ]
    made = model(nodes, {"x": ["n", 4, 3, 5]}, {"y": ["n", 4, 3, 5]}, weights)
    text = compared(tmp_path, made, rng.standard_normal((2, 4, 3, 5), dtype=np.float32))
    assert "nn.instance_norm p.norm" in text
    assert "nn.instance_standardize" in text
    nodes = [node("InstanceNormalization", ["x", "norm.weight", "norm.bias"], ["y"], "near", epsilon=1e-3)]
    (found,) = refused(tmp_path, nodes, {"x": ["n", 4, 3, 5]}, {"y": ["n", 4, 3, 5]}, weights)
    assert found.message.startswith("`near` (InstanceNormalization) cannot be translated: an epsilon other than 1e-5")


@pytest.mark.parametrize("old", [False, True])
def test_group_normalization(tmp_path: Path, old: bool) -> None:
    """As PyTorch's exporters write it, and as an operator. What has another shape behind it is no such thing."""
    rng = np.random.default_rng(5)
    scale, shift = (rng.standard_normal(6, dtype=np.float32) for _ in "ab")
    x = rng.standard_normal((2, 6, 3, 5), dtype=np.float32)
    if not old:
        nodes = [node("GroupNormalization", ["x", "norm.weight", "norm.bias"], ["y"], "/norm/Group", num_groups=3)]
        weights = {"norm.weight": scale, "norm.bias": shift}
        text = compared(tmp_path, model(nodes, {"x": ["n", 6, 3, 5]}, {"y": ["n", 6, 3, 5]}, weights, opset=21), x)
    else:
        nodes = [
            node("Reshape", ["x", "groups"], ["b"], "/norm/Reshape"),
            node("InstanceNormalization", ["b", "ones", "zeros"], ["c"], "/norm/Instance"),
            node("Shape", ["x"], ["s"], "/norm/Shape"),
            node("Reshape", ["c", "s"], ["d"], "/norm/Back"),
            node("Mul", ["d", "onnx::Mul_1"], ["e"], "/norm/Mul"),
            node("Add", ["e", "onnx::Add_2"], ["y"], "/norm/Add"),
        ]
        weights = {
            "ones": np.ones(3, np.float32), "zeros": np.zeros(3, np.float32), "groups": np.array([0, 3, -1]),
            "onnx::Mul_1": scale.reshape(6, 1, 1), "onnx::Add_2": shift.reshape(6, 1, 1), "other": np.array([0, 3, 10, 3]),
        }  # fmt: skip
        text = compared(tmp_path, model(nodes, {"x": ["n", 6, 3, 5]}, {"y": ["n", 6, 3, 5]}, weights), x)
        other = [node("Reshape", ["c", "other"], ["d"]) if n.name == "/norm/Back" else n for n in nodes]
        weights |= {"onnx::Mul_1": scale[:3].reshape(3, 1, 1), "onnx::Add_2": shift[:3].reshape(3, 1, 1)}
        made = model(other, {"x": ["n", 6, 3, 5]}, {"y": ["n", 3, 10, 3]}, weights)
        assert "group_norm" not in compared(tmp_path, made, x)
    assert "norm : nn.norm[6]" in text
    assert "nn.group_norm {3} p.norm x" in text


def test_a_choice_by_a_choice_of_truths_is_one(tmp_path: Path) -> None:
    """As a mask that is true where a position is not seen."""
    weights = {"yes": np.array(True), "no": np.array(False), "low": np.float32(-9), "zero": np.float32(0), "one": np.float32(1)}
    nodes = [
        node("Less", ["x", "zero"], ["seen"]),
        node("Where", ["seen", "no", "yes"], ["unseen"]),
        node("Where", ["unseen", "low", "x"], ["a"]),
        node("Where", ["seen", "zero", "one"], ["b"]),
        node("Mul", ["a", "b"], ["y"]),
    ]
    made = model(nodes, {"x": ["n"]}, {"y": ["n"]}, {name: np.array(value) for name, value in weights.items()})
    text = compared(tmp_path, made, np.array([-2, 0, 3], np.float32))
    assert "if if" not in text
    assert "not" not in text
