"""Calls of built libraries through ctypes, as C makes them: what their structs are follows from the values that are passed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import axon
from axon.host.build import build
from axon.host.call import Session

OK, MEMORY, STOPPED, SIZES, INDEX, ARITHMETIC, ARGUMENT = 0, 1, 500, 501, 502, 503, 505
_C = {
    "float64": ctypes.c_double, "float32": ctypes.c_float, "float16": ctypes.c_uint16, "bfloat16": ctypes.c_uint16,
    "float8_e4m3fn": ctypes.c_uint8, "float8_e5m2": ctypes.c_uint8, "int64": ctypes.c_int64, "int32": ctypes.c_int32,
    "int16": ctypes.c_int16, "int8": ctypes.c_int8, "uint64": ctypes.c_uint64, "uint32": ctypes.c_uint32,
    "uint16": ctypes.c_uint16, "uint8": ctypes.c_uint8, "bool": ctypes.c_bool,
}  # fmt: skip
_TYPES = {np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name): type for name, type in _C.items()}


class Broken(Exception):
    """A call that gave back a code; the text is that of the library."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


def _struct(fields: list[tuple[str, Any]]) -> Any:
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


def type_of(value: Any) -> Any:
    """The type of C for a value like this; None for an empty tuple or record."""
    if isinstance(value, tuple | dict):
        items = value.items() if isinstance(value, dict) else ((f"_{n}", item) for n, item in enumerate(value, 1))
        fields = [(name, type) for name, item in items if (type := type_of(item)) is not None]
        return _struct(fields) if fields else None
    array = np.asarray(value)
    if not array.ndim:
        return _TYPES[array.dtype]
    rank = array.ndim
    return _struct([("data", ctypes.c_void_p), ("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)])


def filled(type: Any, value: Any) -> Any:
    """A value as an instance of its type, which points into the value's arrays."""
    if isinstance(value, tuple | dict):
        items = value.items() if isinstance(value, dict) else ((f"_{n}", item) for n, item in enumerate(value, 1))
        own = dict(type._fields_)
        return type(**{name: filled(own[name], item) for name, item in items if name in own})
    array = np.asarray(value)
    if not array.ndim:
        return type.from_buffer_copy(array.tobytes())
    sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (ctypes.c_int64 * array.ndim)(*(stride // array.itemsize for stride in array.strides))
    return type(array.ctypes.data, sizes, strides)


def read(made: Any, like: Any) -> Any:
    """What a struct holds, structured like a value, as copies."""
    if isinstance(like, tuple):
        return tuple(read(getattr(made, f"_{n}", None), item) for n, item in enumerate(like, 1))
    if isinstance(like, dict):
        return {name: read(getattr(made, name, None), item) for name, item in like.items()}
    array = np.asarray(like)
    if not array.ndim:
        raw = made if isinstance(made, ctypes._SimpleCData) else _TYPES[array.dtype](made)
        return np.frombuffer(bytes(raw), array.dtype)[0]
    shape, strides = tuple(made.sizes), [stride * array.itemsize for stride in made.strides]
    if 0 in shape:
        return np.empty(shape, array.dtype)
    span = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + array.itemsize
    flat = np.frombuffer(ctypes.string_at(made.data, span), np.uint8).copy()
    return np.ndarray(shape, array.dtype, flat, strides=tuple(strides)).copy()


class Library:
    """A built function."""

    def __init__(self, folder: Path, symbol: str) -> None:
        self.folder, self.symbol = folder, symbol
        self.handle = ctypes.CDLL(str(folder / f"lib{symbol}.so"))
        self.error = self.handle[f"{symbol}_error"]
        self.error.restype = ctypes.c_char_p

    def threads(self, count: int) -> None:
        self.handle[f"{self.symbol}_set_threads"](count)

    def arguments(self, sizes: tuple[int, ...], given: tuple[Any, ...]) -> list[Any]:
        found: list[Any] = [ctypes.c_int64(size) for size in sizes]
        for value in given:
            type = type_of(value)
            if type is None:
                continue
            made = filled(type, value)
            found.append(made if isinstance(made, ctypes._SimpleCData) else ctypes.byref(made))
        return found

    def call(self, like: Any, *given: Any, sizes: tuple[int, ...] = ()) -> Any:
        """The result, structured like a value. Raises Broken."""
        out = type_of(like)()
        self.must(self.handle[self.symbol], *self.arguments(sizes, given), ctypes.byref(out))
        result = read(out, like)
        if not isinstance(out, ctypes._SimpleCData) and hasattr(self.handle, f"{self.symbol}_free"):
            self.handle[f"{self.symbol}_free"](ctypes.byref(out))
        return result

    def shapes(self, like: Any, *given: Any, sizes: tuple[int, ...] = ()) -> Any:
        out = type_of(like)()
        self.must(self.handle[f"{self.symbol}_shapes"], *self.arguments(sizes, given), ctypes.byref(out))
        return out

    def into(self, room: Any, *given: Any, sizes: tuple[int, ...] = ()) -> None:
        """Write the result to arrays. Scalars of it are lost."""
        out = filled(type_of(room), room)
        self.must(self.handle[f"{self.symbol}_into"], *self.arguments(sizes, given), ctypes.byref(out))

    def must(self, function: Any, *arguments: Any) -> None:
        code = function(*arguments)
        if code:
            raise Broken(code, self.error().decode())


def built(folder: Path, module: axon.Module, function: str, /, *, given: Any = None, **options: Any) -> Library:
    """A function of a module as a library in a folder; `given` are sizes, the options those of `axon build`."""
    session: Session = module._session
    left_open = {what: options.pop(what, {}) for what in ("ranks", "shapes", "elements")}
    made = build(session, session.callee(function), str(folder), given or {}, **left_open, **options)
    return Library(folder, Path(made.files[0]).stem)


def same_bits(a: Any, b: Any) -> bool:
    return _alike(a, b, lambda x, y: x.tobytes() == y.tobytes() or bool(((x == y) | ((x != x) & (y != y))).all()))


def close(a: Any, b: Any, relative: float) -> bool:
    """Within a rounding of sums: relative to the largest element."""

    def near(x: Any, y: Any) -> bool:
        if x.dtype.kind in "iub":
            return bool((x == y).all())
        x, y = x.astype(np.float64), y.astype(np.float64)
        scale = max(1.0, float(np.abs(np.where(np.isfinite(y), y, 0)).max(initial=0)))
        return np.allclose(x, y, rtol=relative, atol=relative * scale, equal_nan=True)

    return _alike(a, b, near)


def _alike(a: Any, b: Any, leaf: Callable[[Any, Any], bool]) -> bool:
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(_alike(x, y, leaf) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key], leaf) for key in a)
    x, y = np.asarray(a), np.asarray(b)
    return x.shape == y.shape and x.dtype == y.dtype and leaf(x, y)
