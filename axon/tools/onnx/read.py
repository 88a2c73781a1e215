"""ONNX files to graphs. Local functions are written out, old operator sets raised, external data read when it is needed."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.extras import require
from axon.tools.onnx.graph import PART, TRANSPOSED, Constant, Graph, Node, Path, Port

OLDEST = 13  # the operator set from which axes are inputs and Softmax is of one axis: older models are raised to it
_ELEMENTS = {
    "FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16", "FLOAT8E4M3FN": "f8e4m3", "FLOAT8E5M2": "f8e5m2",
    "INT64": "i32", "INT32": "i32", "INT16": "i16", "INT8": "i8",
    "UINT64": "u64", "UINT32": "u32", "UINT16": "u16", "UINT8": "u8", "BOOL": "bool",
}  # fmt: skip


def read(path: str) -> Graph:
    """The graph in a file. Raises AxonError where it cannot be read, or holds what Axon has no types for."""
    require("onnx", "onnx", "`axon import`")
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise AxonError((Diagnostic("AX0408", f"cannot read `{path}`", notes=(error.strerror or str(error),)),)) from None
    except DecodeError:
        raise _unreadable(path, "it is not an ONNX model") from None
    if not model.HasField("graph") or not model.opset_import:
        raise _unreadable(path, "it holds no graph")
    if model.functions:
        from onnx import inliner

        model = inliner.inline_local_functions(model)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:  # in which operators may mean something else
        raise _unreadable(path, f"operator set {opset} is newer than the {newest} that this version of `onnx` knows")
    if 0 < opset < OLDEST:
        from onnx import version_converter

        try:
            model = version_converter.convert_version(model, OLDEST)
        except Exception as error:  # what its C++ throws has no class of its own
            raise _unreadable(path, f"operator set {opset} cannot be raised to {OLDEST}: {error}") from None
        opset = OLDEST
    return _graph(model, opset, os.path.dirname(os.path.abspath(path)), os.path.splitext(os.path.basename(path))[0])


def fault(path: str) -> str | None:
    """What breaks ONNX's own rules in a file that it can read, in its words; None where nothing does."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        return str(error)
    return None


def _unreadable(path: str, why: str) -> AxonError:
    return AxonError((Diagnostic("AX0701", f"`{path}` cannot be imported", notes=(why,)),))


def _graph(model: Any, opset: int, folder: str, name: str) -> Graph:
    proto = model.graph
    if proto.sparse_initializer:
        raise AxonError((Diagnostic("AX0701", "the graph holds sparse tensors, which Axon has not"),))
    constants = {tensor.name: _constant(tensor, folder) for tensor in proto.initializer}
    classes: dict[Path, str] = {}
    nodes = []
    made = Counter([*(v.name for v in proto.input), *(output for node in proto.node for output in node.output if output)])
    if twice := next((name for name, count in made.items() if count > 1), None):
        raise AxonError((Diagnostic("AX0701", f"`{twice}` is made by more than one node or argument of the graph"),))
    for number, node in enumerate(proto.node):
        attributes = {a.name: _attribute(a, folder) for a in node.attribute}
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            constants[node.output[0]] = _literal(node.output[0], attributes)
            continue
        if node.op_type == "Identity" and node.input[0] in constants:  # the name of one that is kept once for several
            constants[node.output[0]] = replace(constants[node.input[0]], name=node.output[0])
            continue
        if node.op_type == "Transpose" and len(getattr(constants.get(node.input[0]), "shape", ())) == 2:
            found = _transposed(constants[node.input[0]])  # which was too large for the exporter to fold
            constants[node.output[0]] = constants[found.name] = found
            continue
        parts = _parts(node, attributes, constants)
        if parts is not None:
            for output, found in zip(node.output, parts, strict=True):
                constants[output] = constants[found.name] = found
            continue
        op = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        scope = _scope(node, classes)
        nodes.append(Node(op, node.name or f"node {number}", tuple(node.input), tuple(node.output), attributes, scope))
    return Graph(
        name,
        opset,
        tuple(_port(v) for v in proto.input if v.name not in constants),
        tuple(_port(v) for v in proto.output),
        tuple(nodes),
        constants,
        classes,
    )


def element_of(number: int, of: str) -> str:
    from onnx import TensorProto

    name = TensorProto.DataType.Name(number)
    if name not in _ELEMENTS:
        raise AxonError((Diagnostic("AX0701", f"`{of}` holds {name}, which Axon has not"),))
    return _ELEMENTS[name]


def _constant(tensor: Any, folder: str) -> Constant:
    from onnx import numpy_helper
    from onnx.checker import ValidationError

    element = element_of(tensor.data_type, tensor.name)

    def array() -> Any:
        try:
            return numpy_helper.to_array(tensor, base_dir=folder)
        except (OSError, ValueError, ValidationError) as error:  # what a file beside it lacks
            message = f"the data of `{tensor.name}` cannot be read"
            raise AxonError((Diagnostic("AX0701", message, notes=(" ".join(str(error).split()),)),)) from None

    return Constant(tensor.name, element, tuple(tensor.dims), array)


def _literal(name: str, attributes: Mapping[str, Any]) -> Constant:
    """What a node `Constant` gives."""
    import numpy as np

    if isinstance(attributes.get("value"), Constant):
        tensor: Constant = attributes["value"]
        return Constant(name, tensor.element, tensor.shape, tensor.read)
    for key, kind, element in (("value_float", np.float32, "f32"), ("value_int", np.int64, "i32")):
        for plural in (key, f"{key}s"):
            if plural in attributes:
                return _held(name, element, np.asarray(attributes[plural], kind))
    raise AxonError((Diagnostic("AX0701", f"the constant `{name}` is no tensor of numbers"),))


def _transposed(matrix: Constant) -> Constant:
    return Constant(matrix.name + TRANSPOSED, matrix.element, matrix.shape[::-1], lambda: matrix.read().T)


def _parts(node: Any, attributes: Mapping[str, Any], constants: Mapping[str, Constant]) -> list[Constant] | None:
    """The results of a node that takes a weight apart at places which the file says, as PyTorch's cross-attention does of one
    matrix for queries, keys and values: each is a weight of its own. None of any other node."""
    whole = constants.get(node.input[0]) if node.op_type in ("Split", "Slice") else None
    if whole is None or not whole.element.startswith(("f", "bf")):
        return None
    if any(name not in constants for name in node.input):
        return None
    given: list[list[int]] = [constants[name].read().tolist() for name in node.input[1:]]
    rank = len(whole.shape)
    if node.op_type == "Slice":
        starts, ends, *more = given
        axes, steps = more[0] if more else list(range(len(starts))), more[1] if len(more) > 1 else [1]
        if len(starts) != 1 or steps != [1]:
            return None
        start, end, _ = slice(starts[0], ends[0]).indices(whole.shape[axes[0] % rank])
        return [_part(whole, axes[0] % rank, start, max(start, end))]
    axis = attributes.get("axis", 0) % rank
    each = -(-whole.shape[axis] // len(node.output))
    lengths = given[0] if given else [min(each, whole.shape[axis] - each * n) for n in range(len(node.output))]
    return [_part(whole, axis, sum(lengths[:n]), sum(lengths[: n + 1])) for n in range(len(lengths))]


def _part(whole: Constant, axis: int, start: int, end: int) -> Constant:
    if (start, end) == (0, whole.shape[axis]):
        return whole
    shape = (*whole.shape[:axis], end - start, *whole.shape[axis + 1 :])
    cut = (*(slice(None),) * axis, slice(start, end))
    return Constant(f"{whole.name}{PART}{axis}, {start}:{end}]", whole.element, shape, lambda: whole.read()[cut])


def _held(name: str, element: str, array: Any) -> Constant:
    return Constant(name, element, array.shape, lambda: array)


def _attribute(attribute: Any, folder: str) -> Any:
    from onnx import AttributeProto, helper

    if attribute.type == AttributeProto.TENSOR:
        return _constant(attribute.t, folder)
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return None  # of If, Loop and Scan, which are not translated
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value) if attribute.type >= 6 else value


def _port(value: Any) -> Port:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise AxonError((Diagnostic("AX0701", f"`{value.name}` is a {kind or 'value without a type'}, which Axon has not"),))
    tensor = value.type.tensor_type
    dims = None
    if tensor.HasField("shape"):
        known = (d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
        dims = tuple(  # some exporters write -1 for a size that may change
            d.dim_param or (extent if extent is not None and extent >= 0 else None)
            for d, extent in zip(tensor.shape.dim, known, strict=True)
        )
    return Port(value.name, element_of(tensor.elem_type, value.name), dims)


def _scope(node: Any, classes: dict[Path, str]) -> Path:
    """The module of a node: PyTorch's exporter says so beside the node, its older one in the node's name, `/layer.0/MatMul`."""
    said = {p.key: p.value for p in node.metadata_props}
    scopes = _listed(said.get("pkg.torch.onnx.name_scopes"))
    kinds = _listed(said.get("pkg.torch.onnx.class_hierarchy"))
    if len(scopes) >= 2:
        for scope, kind in zip(scopes[:-1], kinds, strict=False):
            classes.setdefault(_path(scope), kind.rpartition(".")[2])
        return _path(scopes[-2])
    return _path(".".join(node.name.split("/")[1:-1])) if node.name.startswith("/") else ()


def _listed(text: str | None) -> list[str]:
    try:
        value = ast.literal_eval(text or "[]")
    except (ValueError, SyntaxError):
        return []
    return [str(item) for item in value] if isinstance(value, list) else []


def _path(text: str) -> Path:
    return () if text.startswith("_empty_nn_module_stack") else tuple(part for part in text.split(".") if part)
