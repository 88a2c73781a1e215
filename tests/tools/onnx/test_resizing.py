"""Resize, against ONNX's own reference evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
from onnx import helper

import axon
from axon.tools.onnx.importing import imported
from tests.tools.onnx.graphs import compared, model, written

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5), dtype=np.float32)


def resize(name: str, **attributes: Any) -> Any:
    return helper.make_node(
        "Resize", ["image", "", *(["scales"] if name == "scales" else ["", "sizes"])], ["y"], "resize", **attributes
    )


@pytest.mark.parametrize("place", ["half_pixel", "pytorch_half_pixel", "align_corners"])
def test_bilinear(tmp_path: Path, place: str) -> None:
    node = resize("scales", mode="linear", coordinate_transformation_mode=place)
    scales = {"scales": np.array([1, 1, 2, 3], np.float32)}
    text = compared(tmp_path, model([node], {"image": ["b", 3, "h", "w"]}, {"y": [None] * 4}, scales), X)
    assert ("image.resize {2 * h, 3 * w}" in text) == (place != "align_corners")
    node = resize("sizes", mode="linear", coordinate_transformation_mode=place)
    for rows, columns in ((3, 9), (2, 1), (1, 6), (4, 5)):
        if place == "pytorch_half_pixel" and 1 in (rows, columns):
            continue
        sizes = {"sizes": np.array([2, 3, rows, columns])}
        compared(tmp_path, model([node], {"image": [2, 3, "h", "w"]}, {"y": [None] * 4}, sizes), X)


@pytest.mark.parametrize(
    ("attributes", "scales", "why"),
    [
        ({"mode": "cubic"}, [1, 1, 2, 2], "`cubic` is not translated so: export with"),
        ({"mode": "linear"}, [1, 1, 1.5, 2], "h pixels times 1.5 are no whole number, as far as one can tell: export with `size=`"),
        ({"mode": "linear", "antialias": 1}, [1, 1, 2, 2], "smoothing (antialias)"),
        (
            {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
            [1, 1, 2, 2],
            "`asymmetric` is not translated: export",
        ),
        ({"mode": "linear"}, [1, 2, 2, 2], "only the last two axes"),
        ({"mode": "nearest"}, [1, 1, 2, 3], "the nearest pixel is translated only at a whole multiple"),
    ],
)
def test_what_is_refused(tmp_path: Path, attributes: dict[str, Any], scales: list[float], why: str) -> None:
    """Each error says what to do instead."""
    weights = {"scales": np.array(scales, np.float32)}
    path = written(tmp_path / "f.onnx", [resize("scales", **attributes)], {"image": ["b", 3, "h", "w"]}, {"y": [None] * 4}, weights)
    with pytest.raises(axon.AxonError) as caught:
        imported(path)
    (found,) = caught.value.diagnostics
    assert found.code == "AX0702"
    assert found.message.startswith(f"`resize` (Resize) cannot be translated: {why}")
