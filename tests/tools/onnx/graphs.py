"""Small graphs, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

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
