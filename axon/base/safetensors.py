"""The format safetensors: 8 bytes for the length of a header, the header in JSON, then the elements of every tensor, row-major.

What is read is mapped, not copied: a file may be larger than memory. (https://huggingface.co/docs/safetensors)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.output import write

LONGEST = 100_000_000  # bytes of a header, as the format has it
NAMES = {
    Element.F64: "F64", Element.F32: "F32", Element.F16: "F16", Element.BF16: "BF16", Element.F8E4M3: "F8_E4M3",
    Element.F8E5M2: "F8_E5M2", Element.I64: "I64", Element.I32: "I32", Element.I16: "I16", Element.I8: "I8", Element.U64: "U64",
    Element.U32: "U32", Element.U16: "U16", Element.U8: "U8", Element.BOOL: "BOOL",
}  # fmt: skip
_ELEMENTS = {name: element for element, name in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file."""

    file: Path
    element: Element
    shape: tuple[int, ...]
    offset: int

    def array(self) -> Any:
        """Its elements, read when they are looked at."""
        import numpy as np

        if 0 in self.shape:
            return np.zeros(self.shape, self.element.dtype)
        count = 1
        for extent in self.shape:
            count *= extent
        width = self.element.dtype.itemsize
        raw = np.memmap(self.file, np.uint8, "r", self.offset, (count * width,))
        return np.asarray(raw).view(self.element.dtype).reshape(self.shape)


# What makes safetensors of other files that weights come in.
_PYTORCH = 'of a file of PyTorch\'s, `safetensors.torch.save_file(model.state_dict(), "model.safetensors")` makes one'
_OTHERS = {
    ".onnx": "of a model in ONNX, `axon import` makes a program and its weights as safetensors",
    ".npz": 'of arrays of NumPy\'s, `safetensors.numpy.save_file(dict(numpy.load("model.npz")), "model.safetensors")` makes one',
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), _PYTORCH),
}


def read(path: Path) -> dict[str, Stored]:
    """The tensors of a file by name; of `model.safetensors.index.json`, those of all files that it lists. Raises AxonError."""
    try:
        if path.name.endswith(".index.json"):
            listed = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
            found: dict[str, Stored] = {}
            for file in sorted({*listed.values()}):
                found |= _header(path.parent / file)
            return found
        return _header(path)
    except OSError as error:
        raise AxonError((Diagnostic("AX0408", f"cannot read `{path}`", notes=(error.strerror or str(error),)),)) from None
    except (ValueError, KeyError, TypeError, struct.error, AttributeError) as error:
        notes = (str(error), _OTHERS[path.suffix]) if path.suffix in _OTHERS else (str(error),)
        raise AxonError((Diagnostic("AX0408", f"`{path}` is no file of safetensors", notes=notes),)) from None


def _header(path: Path) -> dict[str, Stored]:
    size = path.stat().st_size
    if size < 8:
        raise ValueError("it is shorter than the length of a header")
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > min(LONGEST, size - 8):
            raise ValueError("its header is longer than the file")
        header = json.loads(stream.read(length))
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _ELEMENTS:
            raise ValueError(f"`{name}` holds {entry['dtype']}, which Axon has not")
        element, shape, (start, end) = _ELEMENTS[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
        count = element.dtype.itemsize
        for extent in shape:
            count *= extent
        if not (isinstance(start, int) and 0 <= start <= end <= size - 8 - length and end - start == count):
            raise ValueError(f"`{name}` does not lie where the header says")
        found[name] = Stored(path, element, shape, 8 + length + start)
    return found


@dataclass(frozen=True, slots=True)
class Writing:
    """A tensor to be written: its parts are made one after the other."""

    name: str
    element: Element
    shape: tuple[int, ...]
    parts: Callable[[], Iterable[Any]]  # arrays of the element's dtype, in their order


def save(path: Path, tensors: Sequence[Writing]) -> None:
    """Write tensors to a file, no more than a part of one in memory at a time. Raises AxonError."""
    import numpy as np

    ordered = sorted(tensors, key=lambda t: (-t.element.dtype.itemsize, t.name))  # so that each lies at a multiple of its width
    header: dict[str, object] = {}
    at = 0
    for tensor in ordered:
        size = tensor.element.dtype.itemsize
        for extent in tensor.shape:
            size *= extent
        header[tensor.name] = {"dtype": NAMES[tensor.element], "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)

    def fill(stream: Any) -> None:
        stream.write(struct.pack("<Q", len(text)))
        stream.write(text)
        for tensor in ordered:
            for part in tensor.parts():
                stream.write(np.ascontiguousarray(part, tensor.element.dtype).tobytes())

    write(path, fill)
