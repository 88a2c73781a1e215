"""Models without their weights: the files that `export.py` writes hold graphs alone, and get random weights by a seed.

Both the exporter, which runs them in ONNX Runtime, and the tests fill them with the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

FOLDER = Path(__file__).parent / "models"
VOCABULARY = 97
_TOKENS = ({"batch": 2, "sequence": 7}, {"batch": 3, "sequence": 11})
_IMAGES = ({"batch": 2}, {"batch": 3})
# The sizes at which each model is run: those at which it was exported, and others.
SIZES: dict[str, tuple[Mapping[str, int], Mapping[str, int]]] = {
    **dict.fromkeys(("gpt2", "bert", "t5", "llama", "lstm"), _TOKENS),
    **dict.fromkeys(("resnet50", "vit", "vit_b16", "whisper"), _IMAGES),
    "transformer": ({"batch": 2, "sequence": 7, "target": 5}, {"batch": 3, "sequence": 4, "target": 9}),
    "yolo": ({"batch": 2, "h": 8, "w": 12}, {"batch": 3, "h": 5, "w": 6}),
}
SMALLEST = 17  # elements of a tensor of floats that is left out
TIED = "tied to "  # in a tensor's comment: the transposed of another


def strip(model: Any) -> None:
    """Leave out the elements of large tensors of floats, remembering which are others transposed."""
    from onnx import TensorProto, numpy_helper

    large = [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT and prod(t.dims) >= SMALLEST]
    arrays = {t.name: numpy_helper.to_array(t) for t in large}
    for number, tensor in enumerate(large):
        for other in large[:number]:
            a, b = arrays[tensor.name], arrays[other.name]
            if a.ndim == 2 and a.shape == b.shape[::-1] and np.array_equal(a, b.T):
                tensor.doc_string = TIED + other.name
    for tensor in large:
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key.endswith(("name_scopes", "class_hierarchy"))]
        copies = [(p.key, p.value) for p in kept]
        del node.metadata_props[:]
        for key, value in copies:
            node.metadata_props.add(key=key, value=value)
        node.ClearField("doc_string")
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.value_info[:]


def fill(model: Any) -> Any:
    """The model with random weights: of matrices and windows so large that signals keep their size, of scales around 1."""
    from onnx import TensorProto, numpy_helper

    held: dict[str, np.ndarray] = {}
    for tensor in model.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or prod(tensor.dims) < SMALLEST:
            continue
        if tensor.doc_string.startswith(TIED):
            held[tensor.name] = np.ascontiguousarray(held[tensor.doc_string.removeprefix(TIED)].T)
        else:
            held[tensor.name] = _random(tensor.name, tuple(tensor.dims))
        tensor.raw_data = numpy_helper.from_array(held[tensor.name]).raw_data
    return model


def _random(name: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(crc32(name.encode()))
    values = rng.standard_normal(shape)
    if len(shape) == 1:
        return (0.1 * values + name.endswith("weight")).astype(np.float32)
    return (values / np.sqrt(prod(shape) / max(shape[0], shape[-1]))).astype(np.float32)


def inputs(model: Any, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Random arguments of a model; a mask lets every position see the first token at least."""
    from onnx import TensorProto

    rng = np.random.default_rng(0)
    made = {}
    for port in model.graph.input:
        shape = [_size(d.dim_param, sizes) if d.dim_param else d.dim_value for d in port.type.tensor_type.shape.dim]
        if port.name == "attention_mask":
            made[port.name] = (rng.random(shape) > 0.3).astype(np.int32)
            made[port.name][:, 0] = 1
        elif port.type.tensor_type.elem_type == TensorProto.INT64:
            made[port.name] = rng.integers(0, VOCABULARY, shape, dtype=np.int32)
        else:
            made[port.name] = rng.standard_normal(shape, dtype=np.float32)
    return made


def _size(text: str, sizes: Mapping[str, int]) -> int:
    """`2*h` is two factors."""
    return prod(int(f) if f.strip().isdigit() else sizes[f.strip()] for f in text.split("*"))


def filled(source: Path, target: Path) -> Path:
    """A model with its weights, written to a file."""
    import onnx

    target.write_bytes(fill(onnx.load(source)).SerializeToString())
    return target
