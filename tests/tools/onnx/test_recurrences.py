"""LSTM and GRU in every direction, against the formulas of ONNX's pages: its reference evaluator knows one direction only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import axon
from axon.tools.onnx.importing import imported
from tests.tools.onnx.graphs import model, written

D, H = 2, 3
Arrays = Mapping[str, np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(x: np.ndarray, h: np.ndarray, c: np.ndarray, w: np.ndarray, r: np.ndarray, wb: np.ndarray, rb: np.ndarray) -> Any:
    i, o, f, new = np.split(x @ w.T + h @ r.T + wb + rb, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
    return sigmoid(o) * np.tanh(c), c


def gru(x: np.ndarray, h: np.ndarray, w: np.ndarray, r: np.ndarray, wb: np.ndarray, rb: np.ndarray, after: bool) -> np.ndarray:
    (wz, wr, wh), (rz, rr, rh) = np.split(w, 3), np.split(r, 3)
    (bz, br, bh), (cz, cr, ch) = np.split(wb, 3), np.split(rb, 3)
    z, reset = sigmoid(x @ wz.T + h @ rz.T + bz + cz), sigmoid(x @ wr.T + h @ rr.T + br + cr)
    new = np.tanh(x @ wh.T + (reset * (h @ rh.T + ch) if after else (reset * h) @ rh.T + ch) + bh)
    return (1 - z) * new + z * h


def run(op: str, after: bool, backward: list[bool], a: Arrays) -> list[np.ndarray]:
    """Y, Y_h and, of an LSTM, Y_c."""
    x = a["x"].astype(np.float64)
    steps, n, _ = x.shape
    ys, hs, cs = [], [], []
    for number, back in enumerate(backward):
        w, r = a["w"][number], a["r"][number]
        wb, rb = np.split(a["b"][number] if "b" in a else np.zeros(2 * len(w)), 2)
        h, c = (a[name][number] if name in a else np.zeros((n, H)) for name in ("h", "c"))
        y = np.zeros((steps, n, H))
        for t in reversed(range(steps)) if back else range(steps):
            if op == "LSTM":
                h, c = lstm(x[t], h, c, w, r, wb, rb)
            else:
                h = gru(x[t], h, w, r, wb, rb, after)
            y[t] = h
        ys, hs, cs = [*ys, y], [*hs, h], [*cs, c]
    return [np.stack(ys, 1), np.stack(hs), np.stack(cs)][: 3 if op == "LSTM" else 2]


def made(op: str, direction: str, *, given: bool, biased: bool, **attributes: int) -> tuple[Any, Arrays]:
    both, gates, count = 1 + (direction == "bidirectional"), 4 if op == "LSTM" else 3, 3 if op == "LSTM" else 2
    rng = np.random.default_rng(17)
    shapes = {"w": (both, gates * H, D), "r": (both, gates * H, H)} | ({"b": (both, 2 * gates * H)} if biased else {})
    weights = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    start = ["h", "c"][: count - 1] if given else []
    names = ["x", "w", "r", "b" if biased else "", "", *start] if given else ["x", *weights]
    outputs = ["y", "last", "memory"][:count]
    node = helper.make_node(op, names, outputs, hidden_size=H, direction=direction, **attributes)
    inputs = {"x": ["t", "n", D], **{name: [both, "n", H] for name in start}}
    states = {"y": ["t", both, "n", H], "last": [both, "n", H], "memory": [both, "n", H]}
    arrays = {name: rng.standard_normal((both, 2, H), dtype=np.float32) for name in start}
    arrays = {"x": rng.standard_normal((4, 2, D), dtype=np.float32), **arrays}
    return model([node], inputs, {name: states[name] for name in outputs}, weights), {**weights, **arrays}


KINDS = [("LSTM", {}), ("GRU", {"linear_before_reset": 0}), ("GRU", {"linear_before_reset": 1})]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "attributes"), KINDS, ids=["lstm", "gru", "gru_linear_first"])
def test_directions(tmp_path: Path, op: str, attributes: dict[str, int], direction: str) -> None:
    for given, biased in ((False, True), (True, True), (False, False)):
        graph, arrays = made(op, direction, given=given, biased=biased, **attributes)
        onnx.save(graph, tmp_path / "f.onnx")
        found = imported(str(tmp_path / "f.onnx"))
        function = axon.compile(found.text)["f"]
        weights = axon.load_weights(found.save(tmp_path / "f.axon"), function)
        inputs = [arrays[port.name] for port in graph.graph.input]
        backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        expected = run(op, bool(attributes.get("linear_before_reset")), backward, arrays)
        for result, wanted in zip(function(weights, *inputs, target="interpret"), expected, strict=True):
            assert np.shape(result) == wanted.shape
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("op", "attributes"), KINDS, ids=["lstm", "gru", "gru_linear_first"])
def test_the_formulas(op: str, attributes: dict[str, int]) -> None:
    graph, arrays = made(op, "forward", given=True, biased=True, **attributes)
    expected = run(op, bool(attributes.get("linear_before_reset")), [False], arrays)
    results = ReferenceEvaluator(graph).run(None, {port.name: arrays[port.name] for port in graph.graph.input})
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


def test_two_directions_are_two_layers_of_the_library(tmp_path: Path) -> None:
    graph, _ = made("GRU", "bidirectional", given=False, biased=True, linear_before_reset=1)
    onnx.save(graph, tmp_path / "f.onnx")
    text = imported(str(tmp_path / "f.onnx")).text
    assert "forward : nn.gru[2, 3]" in text
    assert "backward : nn.gru[2, 3]" in text
    assert "tensor.flip_first" in text


def test_lengths_of_sequences_are_refused(tmp_path: Path) -> None:
    _, arrays = made("GRU", "forward", given=False, biased=True)
    node = helper.make_node("GRU", ["x", "w", "r", "b", "lengths"], ["y"], "ragged", hidden_size=H)
    weights = {name: arrays[name] for name in "wrb"}
    inputs = {"x": ["t", "n", D], "lengths": ["n"]}
    path = written(tmp_path / "f.onnx", [node], inputs, {"y": ["t", 1, "n", H]}, weights, integers=["lengths"])
    with pytest.raises(axon.AxonError, match=r"`ragged` \(GRU\) cannot be translated: lengths of sequences"):
        imported(path)
