"""The format as its authors describe it, byte by byte; nothing here writes or reads with what it tests on the other side."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon.base.element import Element
from axon.base.safetensors import NAMES, Writing, read, save


def raw(path: Path, header: Any, data: bytes = b"") -> Path:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_what_others_write_is_read(tmp_path: Path) -> None:
    data = np.arange(6, dtype="<f4").tobytes() + np.array([1.5, -2.0], ml_dtypes.bfloat16).tobytes()
    header = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": [24, 28]},
        "none": {"dtype": "I64", "shape": [0, 4], "data_offsets": [28, 28]},
    }
    found = read(raw(tmp_path / "m.safetensors", header, data))
    assert list(found) == ["w", "b", "none"]
    np.testing.assert_array_equal(found["w"].array(), np.arange(6, dtype=np.float32).reshape(2, 3))
    assert found["b"].array().dtype == ml_dtypes.bfloat16
    assert found["b"].array().tolist() == [1.5, -2.0]
    assert found["none"].array().shape == (0, 4)


def test_what_is_written_is_as_described(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    parts = [np.arange(3, dtype=np.float16), np.arange(3, 6, dtype=np.float16)]
    big = np.arange(4, dtype=np.float64).reshape(2, 2)
    save(path, [Writing("stack", Element.F16, (2, 3), lambda: parts), Writing("big", Element.F64, (2, 2), lambda: [big])])
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    assert header == {
        "big": {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32]},
        "stack": {"dtype": "F16", "shape": [2, 3], "data_offsets": [32, 44]},
    }
    assert data[8 + length :] == big.tobytes() + np.arange(6, dtype=np.float16).tobytes()


@pytest.mark.parametrize("element", NAMES)
def test_every_element_type(tmp_path: Path, element: Element) -> None:
    path, array = tmp_path / "m.safetensors", np.array([[0, 1]]).astype(element.dtype)
    save(path, [Writing("x", element, (1, 2), lambda: [array])])
    again = read(path)["x"].array()
    assert again.dtype == element.dtype
    np.testing.assert_array_equal(again, array)


def test_shards(tmp_path: Path) -> None:
    for n in range(2):
        array = np.full(2, n, np.float32)
        save(tmp_path / f"model-{n}.safetensors", [Writing(f"x{n}", Element.F32, (2,), lambda array=array: [array])])
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {f"x{n}": f"model-{n}.safetensors" for n in range(2)}}))
    assert {name: stored.array().tolist() for name, stored in read(index).items()} == {"x0": [0.0, 0.0], "x1": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (b"{", b""),
        (b"[]", b""),
        ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
        ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"12345678"),
        ({"x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]}}, b""),
        ({"x": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}, b"12345678"),
        ({"x": {"shape": [1]}}, b""),
    ],
)
def test_what_is_broken(tmp_path: Path, header: Any, data: bytes) -> None:
    path = raw(tmp_path / "m.safetensors", header, data)
    with pytest.raises(axon.AxonError) as caught:
        read(path)
    assert caught.value.diagnostics[0].code == "AX0408"


@pytest.mark.parametrize(("name", "help"), [("m.onnx", "`axon import`"), ("m.pth", "`safetensors.torch.save_file"), ("m", None)])
def test_another_kind_of_file(tmp_path: Path, name: str, help: str | None) -> None:
    """What makes safetensors of it is said."""
    (tmp_path / name).write_bytes(b"\xff" * 32)
    with pytest.raises(axon.AxonError) as caught:
        read(tmp_path / name)
    notes = caught.value.diagnostics[0].notes
    assert help in notes[-1] if help is not None else len(notes) == 1


def test_a_header_that_is_longer_than_the_file(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", 2**40) + b"{}")
    with pytest.raises(axon.AxonError, match="no file of safetensors"):
        read(tmp_path / "m.safetensors")


@pytest.mark.parametrize("data", [b"", b"1234567"])
def test_a_file_that_ends_before_its_header(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "short.safetensors").write_bytes(data)
    with pytest.raises(axon.AxonError, match="it is shorter than the length of a header"):
        axon.load_weights(tmp_path / "short.safetensors", axon.compile("fun f (p : { w : f32[n] }) = p.w").f)
