"""What `axon run` accepts as arguments: `x=file.npy`, `p=file.npz`, `x=randn(f32[32, 784])`, `x=3.5`, `x=[1, 2]`, `x=(1, 2)`,
`p={w = …, b = …}`, `p.w=…`, and `h=8` for a dimension parameter.

The grammar is small and closed; no text is ever evaluated as Python.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TypeAlias

import numpy as np

from axon.base.data import dataclass, field
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.element import Element, of_dtype
from axon.base.errors import AxonError
from axon.base.nearest import meant
from axon.base.source import SourceFile

Array: TypeAlias = "np.ndarray[Any, Any]"

_Read: TypeAlias = "Callable[[IO[bytes], int], Array]"  # from a stream of so many bytes

MAX_BYTES = 1 << 30  # of one array that is asked for by its shape
MAX_DEPTH = 32
_NO_SIZES: Mapping[str, int] = {}

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|inf\b|nan\b)"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|(?P<name>[^\W\d]\w*)|(?P<mark>[][(){{}},=*]))")
# A path: up to what ends a value, with an extension; 2.e5 is a number.
_END = r"\s*(?:[,)}\]]|$)"
_FILE = re.compile(rf"\s*(?!{_NUMBER}{_END})([^\s,={{}}()\[\]]+\.[^\W\d_]\w*)(?={_END})")


def parse_arguments(
    texts: Sequence[str], seed: int | None, *, look: bool = False, sizes: Mapping[str, int] = _NO_SIZES
) -> dict[str, Any]:
    """`NAME=VALUE` texts as Python values by name; `p.w=…` and `p.b=…` make one dict. Raises AxonError.

    To `look` at types and sizes, and without a seed, arrays that are asked for by their shape, and those of files, hold zeros, and
    take no memory; of files only the headers are read. Those of rank 0 are what they are, since they may be sizes. Without a seed
    arrays may be of any size. Shapes may be written with names of `sizes`, and products of them: `randn(f32[n, 4 * d])`.

    A parameter without a name of its own is given by its position, `2=VALUE`, and called as messages call it: `argument 2`.
    """
    rng = None if seed is None else np.random.default_rng(seed)
    out: dict[str, Any] = {}
    for text in texts:
        name, equals, _ = text.partition("=")
        path = name.strip().split(".")
        first, *fields = path
        if not equals or not (first.isidentifier() or first.isdecimal()) or not all(map(str.isidentifier, fields)):
            raise _wrong(text, 0, len(text), "an argument is written NAME=VALUE", _FORMS)
        if first.isdecimal():
            path[0] = f"argument {first}"
        target = out
        for part in path[:-1]:
            inner = target.setdefault(part, {})
            if not isinstance(inner, dict):
                raise _wrong(text, 0, len(name), f"`{part}` is given twice")
            target = inner
        if path[-1] in target:
            raise _wrong(text, 0, len(name), f"`{name.strip()}` is given twice")
        target[path[-1]] = _Reader(text, len(name) + 1, rng, look or rng is None, sizes).whole()
    return out


def described(value: Any) -> Any:
    """An argument that stands for others like it: the text of a type (`bf16[4096, 4096]`) as zeros, which take no memory."""
    if isinstance(value, str):
        return _Reader(value, 0, None, True).stand_in()
    if isinstance(value, tuple):
        return tuple(map(described, value))
    return {name: described(item) for name, item in value.items()} if isinstance(value, dict) else value


def unpacked(value: Any, *, whole: bool) -> Any:
    """An argument with what NumPy has opened of .npz files as dicts: read `whole`, or as `_stand_in` has their arrays."""
    if isinstance(value, tuple):
        return tuple(unpacked(item, whole=whole) for item in value)
    if isinstance(value, dict):
        return {name: unpacked(item, whole=whole) for name, item in value.items()}
    if not isinstance(value, np.lib.npyio.NpzFile):
        return value
    if whole or value.zip is None:
        return dict(value)
    members = value.zip.infolist()
    return {i.filename.removesuffix(".npy"): _stand_in(value.zip.open(i), i.file_size) for i in members}


def is_packed(value: Any) -> bool:
    """Whether an argument holds what NumPy has opened of a .npz file, whose arrays are read whenever they are asked for."""
    if isinstance(value, tuple | dict):
        return any(map(is_packed, value.values() if isinstance(value, dict) else value))
    return isinstance(value, np.lib.npyio.NpzFile)


_TYPES = 'what stands for an argument is an array, or the text of a type with sizes, such as "bf16[4096, 4096]"'
_FORMS = "the forms of a value are x=3.5, x=file.npy, x=randn(f32[32, 784]), x=[1.0, 2.0], p={w = …, b = …}"


@dataclass
class _Reader:
    """A recursive-descent reader of one value, from offset `at` of an argument."""

    text: str
    at: int
    rng: np.random.Generator | None
    look: bool
    sizes: Mapping[str, int] = field(default_factory=dict)

    def whole(self) -> Any:
        rest = self.text[self.at :].strip()
        if rest.endswith((".npy", ".npz")) and not rest.startswith(("(", "[", "{")):
            return load(rest, self.text, self._array)
        value = self._value(0)
        if self.text[self.at :].strip():
            raise self._unexpected()
        return value

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _wrong(self.text, self.at, len(self.text), f"an argument nests at most {MAX_DEPTH} levels deep")
        file = _FILE.match(self.text, self.at)
        if file:
            self.at = file.end()
            return load(file[1], self.text, self._array)
        kind, token, start = self._next()
        if kind == "number":
            return self._number(token, start)
        if token in ("true", "false"):
            return token == "true"
        if kind == "name" and self._peek() == "(":
            return self._made(token, start)
        if token == "[":
            return self._items("]", lambda: self._value(depth + 1))
        if token == "(":
            items = self._items(")", lambda: self._value(depth + 1))
            return items[0] if len(items) == 1 else tuple(items)
        if token == "{":
            return dict(self._items("}", lambda: self._field(depth)))
        helps = meant(token.lower(), ("true", "false", "inf", "nan")) if kind == "name" else ()
        raise _wrong(self.text, start, self.at, f"`{token}` is not a value", _FORMS, helps=helps)

    @property
    def _array(self) -> _Read:
        return _stand_in if self.look else _array

    def _field(self, depth: int) -> tuple[str, Any]:
        kind, name, _ = self._next()
        if kind != "name" or self._next()[1] != "=":
            raise self._unexpected()
        return name, self._value(depth + 1)

    def _items(self, close: str, item: Callable[[], Any]) -> list[Any]:
        items: list[Any] = []
        while self._peek() != close:
            items.append(item())
            if self._peek() != close and self._next()[1] != ",":
                raise self._unexpected()
        self._next()
        return items

    def _number(self, token: str, start: int) -> int | float:
        digits = token.replace("_", "")
        if len(digits) > 400:
            raise _wrong(self.text, start, self.at, "a number of more than 400 characters")
        if re.fullmatch(r"[-+]?\d+", digits):
            return int(digits)
        number = float(digits)
        if math.isinf(number) and "inf" not in digits:
            raise _wrong(self.text, start, self.at, "this number is too large for any float", help="for infinity write `inf`")
        return number

    # ── arrays by their shape ───────────────────────────────────────────────────────────────────────────────────────────

    def _made(self, name: str, start: int) -> Array:
        """`randn(f32[32, 784])`, `randint(i32[5], 10)`, `full(f32[3], 2.5)`."""
        maker = _MAKERS.get(name)
        if maker is None:
            helps = meant(name, _MAKERS) or (Suggestion("there are " + ", ".join(f"`{n}`" for n in _MAKERS)),)
            raise _wrong(self.text, start, self.at, f"`{name}` makes no arrays", helps=helps)
        self._next()
        element, shape = self._type()
        extra: list[Any] = []
        while self._peek() == ",":
            self._next()
            kind, token, at = self._next()
            extra.append(self._number(token, at) if kind == "number" else {"true": True, "false": False}.get(token, token))
        if self._next()[1] != ")":
            raise self._unexpected()
        count = math.prod(shape)
        if self.rng is not None and count * element.dtype.itemsize > MAX_BYTES:
            raise _wrong(self.text, start, self.at, f"an array of {count:,} elements is too large")
        if len(shape) > 64:
            raise _wrong(self.text, start, self.at, f"an array of {len(shape)} dimensions; NumPy has at most 64")
        if len(extra) != maker.extra or not all(isinstance(e, int | float) for e in extra):
            raise _wrong(self.text, start, self.at, f"`{name}` is written {maker.form}")
        if maker.floats and not element.is_float:
            message = f"`{name}` makes floats, and {element.value} is not one"
            raise _wrong(self.text, start, self.at, message, help="randint(i32[32], 10) makes integers")
        try:
            if self.look or self.rng is None:
                return np.broadcast_to(np.zeros((), element.dtype), tuple(shape))
            made = np.asarray(maker.make(self.rng, tuple(shape), *extra))
        except (ValueError, OverflowError, MemoryError) as error:
            raise _wrong(self.text, start, self.at, f"`{name}` failed: {error}") from None
        refused = _not_held(made, element)
        if refused:
            raise _wrong(self.text, start, self.at, refused)
        return made.astype(element.dtype)

    def stand_in(self) -> Array:
        """Zeros of the type that the text is, which take no memory."""
        if not self.text.strip():
            raise _wrong(self.text, 0, len(self.text), "a type is missing", _TYPES)
        element, shape = self._type()
        if self.text[self.at :].strip():
            raise _wrong(self.text, self.at, len(self.text), "a type ends before this", _TYPES)
        try:
            return np.broadcast_to(np.zeros((), element.dtype), tuple(shape))
        except ValueError as error:  # more dimensions, or elements, than NumPy can count
            raise _wrong(self.text, 0, len(self.text), f"no array has this type: {error}") from None

    def _type(self) -> tuple[Element, list[int]]:
        """`f32[32, 784]`, or `f32` for a number."""
        _, spelled, at = self._next()
        element = next((e for e in Element if e.value == spelled), None)
        if element is None:
            known = "there are " + ", ".join(e.value for e in Element)
            sizes = re.match(r"\d+(?:\s*,\s*\d+)*(?=\s*\))", self.text[at:])  # a shape alone, as NumPy takes it
            help = f"sizes follow an element type: `f32[{', '.join(re.findall(r'[0-9]+', sizes[0]))}]`" if sizes else ""
            raise _wrong(self.text, at, self.at, f"`{spelled}` is not an element type", known, help)
        if self._peek() != "[":
            return element, []
        self._next()
        return element, self._items("]", self._size)

    def _size(self) -> int:
        """A number, or where sizes have names a product of numbers and those."""
        size = self._factor()
        while self.sizes and self._peek() == "*":
            self._next()
            size *= self._factor()
        return size

    def _factor(self) -> int:
        _, token, start = self._next()
        if token in self.sizes:
            return self.sizes[token]
        if not token.isdigit() or len(token) > 12:
            named = f"the sizes are {', '.join(self.sizes)}" if self.sizes else ""
            raise _wrong(self.text, start, self.at, f"`{token}` is not a size", named, helps=meant(token, self.sizes))
        return int(token)

    # ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _peek(self) -> str:
        """The next token; nothing at the end."""
        if not self.text[self.at :].strip():
            return ""
        at = self.at
        token = self._next()[1]
        self.at = at
        return token

    def _next(self) -> tuple[str, str, int]:
        found = _TOKEN.match(self.text, self.at)
        if not found:
            if not self.text[self.at :].strip():
                raise _wrong(self.text, len(self.text), len(self.text), "the argument ends too early", _FORMS)
            raise self._unexpected()
        self.at = found.end()
        kind = found.lastgroup or ""
        return kind, found[kind], found.start(kind)

    def _unexpected(self) -> AxonError:
        return _wrong(self.text, self.at, self.at + 1, "this was not expected in an argument", _FORMS)


@dataclass(frozen=True, slots=True)
class _Maker:
    form: str
    make: Callable[..., Any]
    extra: int = 0
    floats: bool = False


def _randint(rng: np.random.Generator, shape: tuple[int, ...], high: Any) -> Array:
    if isinstance(high, float) or not 1 <= high <= 1 << 63:
        raise ValueError("its end must be an integer from 1 to 2 ** 63")
    return rng.integers(0, high, shape)


def _not_held(made: Array, element: Element) -> str:
    """Why an element type does not hold what was made; nothing if it does."""
    if made.size == 0:
        return ""
    if element is Element.BOOL:
        return "" if made.dtype == bool or np.isin(made, (0, 1)).all() else "a bool is `true` or `false`"
    if element.is_integer:
        info = np.iinfo(element.dtype)
        if made.dtype.kind == "f" and not (made == np.floor(made)).all():
            return f"{element.value} holds integers, and {float(made.flat[0])} is none"
        worst = next((int(x) for x in (made.min(), made.max()) if not info.min <= x <= info.max), None)
        return "" if worst is None else f"{element.value} holds {info.min:,} to {info.max:,}, not {worst:,}"
    with np.errstate(over="ignore", invalid="ignore"):
        held = made.astype(element.dtype)
    lost = (np.isfinite(held) != np.isfinite(made)) | (np.isnan(held) != np.isnan(made))
    return f"{element.value} does not hold {float(made[lost].flat[0])}" if lost.any() else ""


def _arange(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


_MAKERS = {
    "randn": _Maker("randn(f32[32, 784])", lambda rng, shape: rng.standard_normal(shape), floats=True),
    "uniform": _Maker("uniform(f32[32, 784])", lambda rng, shape: rng.random(shape), floats=True),
    "randint": _Maker("randint(i32[32], 10)", _randint, extra=1),
    "zeros": _Maker("zeros(f32[3])", lambda rng, shape: np.zeros(shape)),
    "ones": _Maker("ones(f32[3])", lambda rng, shape: np.ones(shape)),
    "full": _Maker("full(f32[3], 2.5)", lambda rng, shape, value: np.full(shape, value), extra=1),
    "arange": _Maker("arange(i32[10])", _arange),
}


def load(path: str, argument: str, read: _Read) -> Any:
    """What a .npy file holds, an array, or a .npz file: a record of arrays, or a tuple, as `--out` writes them.

    `read` makes an array of a stream in NumPy's format, and of how many bytes that has. Pickled objects are never loaded.
    """
    if not path.endswith((".npy", ".npz")):
        note = "an array is read from a .npy file, a record or tuple of arrays from a .npz file (numpy.save, numpy.savez)"
        raise _wrong(argument, 0, len(argument), f"`{path}` is neither a .npy nor a .npz file", note)
    try:
        if path.endswith(".npz"):
            with zipfile.ZipFile(path) as archive:
                arrays = {i.filename.removesuffix(".npy"): read(archive.open(i), i.file_size) for i in archive.infolist()}
            value = _structured(arrays)
        else:
            with open(path, "rb") as stream:
                value = read(stream, os.fstat(stream.fileno()).st_size)
            arrays = {path: value}
    except (OSError, ValueError, EOFError, MemoryError, RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        if "Object arrays" in reason:
            reason = "it holds pickled Python objects, which are never loaded"
        if "max_header_size" in reason:
            reason = "its header is too long for that of an array"
        raise _wrong(argument, 0, len(argument), f"cannot read `{path}`", reason) from None
    for name, array in arrays.items():
        if of_dtype(array.dtype) is None and not (array.dtype.type is np.void and array.dtype.names is None):
            what = f"`{path}`" if name == path else f"`{name}` of `{path}`"
            names = ", ".join(e.value for e in Element)
            raise _wrong(argument, 0, len(argument), f"{what} holds {array.dtype}", f"Axon's element types are {names}")
    return value


def _array(stream: IO[bytes], size: int) -> Array:
    return np.lib.format.read_array(stream, allow_pickle=False)


def _stand_in(stream: IO[bytes], size: int) -> Array:
    """Zeros like the array, of which only the header is read; one of rank 0 as it is."""
    form = np.lib.format
    major, _ = form.read_magic(stream)
    # The third version differs in names of fields, which no array of Axon's has.
    shape, _, dtype = (form.read_array_header_1_0 if major == 1 else form.read_array_header_2_0)(stream)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded")
    if dtype.itemsize * math.prod(shape) > size - stream.tell():
        raise ValueError("it ends before its array does")
    if shape:
        return np.broadcast_to(np.zeros((), dtype), shape)
    item = stream.read(dtype.itemsize)
    return np.frombuffer(item, dtype, count=1).reshape(())


def _structured(arrays: Mapping[str, Array]) -> Any:
    """Arrays by name as a record, `up.w` as the field of a field; ValueError where a name is an array and has fields.

    Names that count, from 1 as `--out` gives them, or `arr_0`, `arr_1` as NumPy does, are positions in a tuple. A tuple of one is
    that one.
    """
    record: dict[str, Any] = {}
    for name, array in arrays.items():
        *path, last = name.split(".")
        target = record
        for part in path:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                raise ValueError(f"`{part}` is an array there, and `{name}` a field of it")
        if last in target:
            raise ValueError(f"`{name}` is there twice")
        target[last] = array

    def tupled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        inner = {name: tupled(item) for name, item in value.items()}
        for counted in ([str(n + 1) for n in range(len(inner))], [f"arr_{n}" for n in range(len(inner))]):
            if inner and inner.keys() == set(counted):
                return inner[counted[0]] if len(inner) == 1 else tuple(inner[name] for name in counted)
        return inner

    return tupled(record)


def _wrong(
    text: str, start: int, end: int, message: str, note: str = "", help: str = "", helps: tuple[Suggestion, ...] = ()
) -> AxonError:  # fmt: skip
    source = SourceFile("<argument>", text)
    notes = (note,) if note else ()
    helps = helps or ((Suggestion(help),) if help else ())
    return AxonError((Diagnostic("AX0508", message, (Label(source.span(start, end)),), notes, helps),))
