"""Small graphs, made by hand, and what ONNX's own reference evaluator makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

import axon
from axon.tools.onnx.importing import imported

Shape = Sequence[int | str]


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 20,
    integers: Sequence[str] = (),
) -> Any:
    """A model of some nodes; inputs are of floats, but for those that hold integers."""

    def port(name: str, shape: Shape) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, list(shape))

    graph = helper.make_graph(
        list(nodes),
        "graph",
        [port(*item) for item in inputs.items()],
        [port(*item) for item in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def written(path: Path, *arguments: Any, **more: Any) -> str:
    """The path of a file with such a model."""
    save(model(*arguments, **more), path)
    return str(path)


def compared(path: Path, made: Any, *arguments: np.ndarray, atol: float = 1e-5) -> str:
    """Imports a model, calls it, and holds the results to those of ONNX's reference; the text."""
    save(made, path / "f.onnx")
    found = imported(str(path / "f.onnx"))
    beside = found.save(path / "f.axon")
    function = axon.compile(found.text)["f"]
    weights = [axon.load_weights(beside, function)] if found.fields else []
    given = [a.astype(np.int32) if a.dtype == np.int64 else a for a in arguments]
    results = function(*weights, *given, target="interpret")
    names = [port.name for port in made.graph.input]
    wanted = ReferenceEvaluator(made).run(None, dict(zip(names, arguments, strict=True)))
    for result, expected in zip(results if isinstance(results, tuple) else (results,), wanted, strict=True):
        assert np.shape(result) == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=atol)
    return found.text
