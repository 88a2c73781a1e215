"""The node tests of ONNX, and what becomes of each: run by its template, compared at the case's own tolerance."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import onnx
from ml_dtypes import finfo

import axon
from tests.onnx import (  # noqa: F401  (templates register)
    onnx_images,
    onnx_layers,
    onnx_moves,
    onnx_pointwise,
    onnx_quantized,
    onnx_spectra,
    onnx_windows,
)
from tests.onnx.onnx_node import TEMPLATES, Node, NoElement, NotOffered, element

Outcome = Literal["passed", "operator", "element", "form"]
# What ONNX expects of these was rounded to 16 bits at each step, and its tolerance is less than one such rounding.
# They are compared at four roundings of their element type.
ROUNDED = {"test_celu_bfloat16"} | {
    f"test_attention_{name}"
    for name in (
        "4d_fp16", "4d_gqa_with_past_and_present_fp16", "4d_causal_bf16", "4d_padded_kv_bf16", "4d_causal_padded_kv_bf16",
        "4d_attn_mask_causal_bf16", "3d_causal_bf16",
    )
}  # fmt: skip
# What ONNX computed of these in f32 is 0 but for the rounding of terms that cancel, which is more than its tolerance. They are
# compared at four roundings of the largest element.
CANCELLED = {"test_dft_inverse", "test_dft_inverse_opset19"}


@dataclass(frozen=True)
class Case:
    """One data set of a test of one node."""

    name: str
    model: Any
    inputs: tuple[Any, ...]
    expected: tuple[Any, ...]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        return str(self.model.graph.node[0].op_type)

    def node(self) -> Node:
        (proto,) = self.model.graph.node
        given, inputs = iter(self.inputs), []
        for name in proto.input:  # one that is left out has no data
            inputs.append(next(given) if name else None)
        results = iter(self.expected)
        wanted = [next(results) if name else None for name in proto.output]
        version = next((o.version for o in self.model.opset_import if o.domain == proto.domain), 1)
        return Node(proto, inputs, wanted, version)


@cache
def cases() -> tuple[Case, ...]:
    """The tests of single nodes; those of their expansions into several nodes say the same again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases()

    def array(value: Any) -> Any:  # types that NumPy has not come as messages
        return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value

    single = [t for t in found if len(t.model.graph.node) == 1 and "_expanded" not in t.name]
    return tuple(
        Case(t.name, t.model, tuple(map(array, inputs)), tuple(map(array, outputs)), t.rtol, t.atol)
        for t in single
        for inputs, outputs in t.data_sets
    )


def program(case: Case) -> tuple[str, list[Any]]:
    """The Axon program of a case and its arguments. Raises NotOffered."""
    if case.operator not in TEMPLATES:
        raise NotOffered("operator")
    for value in (*case.inputs, *case.expected):
        element(value)
    return case.node().program()


def run(case: Case, text: str, arguments: list[Any], target: str) -> None:
    """Compute a case on a target and compare."""
    module = axon.compile(text)
    result = module["main"]
    if arguments or callable(result):
        result = result(*arguments, target=target)
    wanted = case.node().results
    results = result if isinstance(result, tuple) and sum(w is not None for w in wanted) > 1 else (result,)
    expected = [w for w in wanted if w is not None]
    for actual, want in zip(results, expected, strict=True):
        close(actual, want, case)


def close(actual: Any, want: Any, case: Case) -> None:
    want, actual = np.asarray(want), np.asarray(actual)
    assert actual.shape == want.shape, f"shape {actual.shape} instead of {want.shape}"
    if want.shape:  # a scalar comes back as Python's number
        assert actual.dtype == want.dtype, f"element type {actual.dtype} instead of {want.dtype}"
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, want)
    else:
        rtol = 4 * float(finfo(want.dtype).eps) if case.name in ROUNDED else case.rtol
        wide = want.astype(np.float64)
        atol = 4 * float(finfo(want.dtype).eps) * np.abs(wide).max() if case.name in CANCELLED else case.atol
        np.testing.assert_allclose(actual.astype(np.float64), wide, rtol=rtol, atol=atol)


def classify(case: Case) -> tuple[Outcome, str, tuple[str, list[Any]] | None]:
    """What becomes of a case before it runs: its program, or why it has none."""
    if case.operator not in TEMPLATES:
        return "operator", "", None
    try:
        return "passed", "", program(case)
    except NoElement as reason:
        return "element", str(reason), None
    except NotOffered as reason:
        return "form", str(reason), None


def offered() -> Iterator[tuple[Case, str, list[Any]]]:
    for case in cases():
        made = classify(case)[2]
        if made is not None:
            yield case, *made


__all__ = ["Case", "cases", "classify", "offered", "onnx", "run"]
