"""What of a launch follows from sizes alone: into how many items it is cut, and its arguments but for the addresses of tensors.

A small kernel takes machine code less time than reading this off the sizes would take Python; so it is kept with the kernel. And it
takes less than NumPy does to say where an array lies (two microseconds), or ctypes to call what needs to know (one). So there are
functions that Python calls with arrays, which read off them what they ask. See Note [Alone] in `kernel.taking`. Where a Python
keeps objects in another way, NumPy is asked, and there are no such functions.

    address   where an array's elements begin
    caller    a kernel and what it takes beside arrays -> calls it on as many threads as it is worth
    alone     a kernel with arguments -> calls it on this thread
    alike     arrays -> whether others are in one piece, and of these element types and shapes
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, assert_never

import numpy as np

from axon.backend.cpu import build, threads
from axon.backend.cpu.function import BufferParameter, Function, LanesParameter
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.kernel.taking import DATA, DIMENSIONS, DTYPE, FLAGS, IN_ONE_PIECE, NUMBER, OF_ARRAY, RANK, SHAPE
from axon.base.data import dataclass
from axon.base.identity import place_of
from axon.base.names import Symbol

HEAD = object.__basicsize__
BRIEF = 20 * threads.WORTH_SHARING  # additions by vectors, of a kernel that is called with Python's lock held: 0.2 ms
Array = Any
_FASTCALL = 0x80  # METH_FASTCALL


@dataclass(frozen=True, slots=True)
class Launch:
    """`arguments` has 0 for each of the `pointers`, which are positions and the tensors to which they point, and for each of the
    `buffers`, which are positions and offsets in a thread's own memory, of which all buffers need `scratch` bytes."""

    items: int
    cost: int
    arguments: tuple[int, ...]
    pointers: tuple[tuple[int, Symbol], ...]
    buffers: tuple[tuple[int, int], ...]
    scratch: int


def asked(function: Function) -> tuple[Symbol, ...]:
    """The sizes from which a function's launches follow."""
    found = function.rows.variables | function.cost.variables | function.points.variables
    if function.lane is not None:
        found |= function.lane.variables
    for parameter in function.parameters:
        if isinstance(parameter, ExtentParameter | BufferParameter):
            found |= parameter.size.variables
    return tuple(sorted(found, key=lambda symbol: symbol.id))


def launch_of(function: Function, sizes: Mapping[Symbol, int], threads: int) -> Launch:
    cost = function.cost.evaluate(sizes)
    items, lanes = function.pieces(sizes, threads, cost)
    if items <= 0:  # nothing is launched: sizes of its parameters may be none
        return Launch(0, cost, (), (), (), 0)
    arguments: list[int] = []
    pointers: list[tuple[int, Symbol]] = []
    buffers: list[tuple[int, int]] = []
    total = 0
    for position, parameter in enumerate(function.parameters):
        given = 0
        match parameter:
            case PointerParameter(tensor=tensor):
                pointers.append((position, tensor))
            case BufferParameter(element=element, size=size, lanes=most):
                buffers.append((position, total))
                count = max(0, size.evaluate(sizes))
                count = count // most * lanes if most else count
                total += (count * max(1, element.bits // 8) + 63) // 64 * 64
            case ExtentParameter(size=size):
                given = size.evaluate(sizes)
            case LanesParameter():
                given = lanes
            case _:
                assert_never(parameter)
        arguments.append(given)
    return Launch(items, cost, tuple(arguments), tuple(pointers), tuple(buffers), total)


# ── arrays as machine code finds them ───────────────────────────────────────────────────────────────────────────────────────


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def _are_fields() -> bool:
    """Whether this Python and this NumPy keep an array as Note [Alone] has it, in one with memory of its own and in parts of it."""
    if sys.implementation.name != "cpython" or HEAD % 8 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    whole = np.arange(24.0).reshape(2, 3, 4)
    return all(_is_kept_so(array) for array in (whole, whole[1:, :, 1], whole[::-1], np.ones((), np.int32), whole.astype("U")))


def _is_kept_so(array: Array) -> bool:
    start = place_of(array) + HEAD
    if ctypes.c_int64.from_address(start - 8).value != place_of(type(array)) or _field(array) != int(array.ctypes.data):
        return False
    shape = ctypes.c_int64.from_address(start + SHAPE).value
    sizes = tuple(ctypes.c_int64.from_address(shape + 8 * n).value for n in range(array.ndim))
    rank, flags = (ctypes.c_int32.from_address(start + at).value for at in (DIMENSIONS, FLAGS))
    dtype = ctypes.c_int64.from_address(start + DTYPE).value
    whole = array.flags.c_contiguous and array.flags.aligned
    said = (array.ndim, array.shape, place_of(array.dtype), whole)
    return said == (rank, sizes, dtype, flags & IN_ONE_PIECE == IN_ONE_PIECE)


def _field(array: Array) -> int:
    return ctypes.c_int64.from_address(place_of(array) + HEAD + DATA).value


def _asked(array: Array) -> int:
    return int(array.ctypes.data)


FIELDS = _are_fields()
address: Callable[[Array], int] = _field if FIELDS else _asked


def alone(kernel: int, arguments: Sequence[tuple[int, int]], scratch: int, items: int) -> Callable[..., int]:
    """Of the arrays: calls a kernel on so many items, and gives what stopped it, or 0. Each argument is a kind and a word."""
    return _function(f"alone {len(arguments)} {HEAD}", (kernel, scratch, items, *chain.from_iterable(arguments)))


def caller(kernel: build.Native, arrays: int, numbers: Sequence[int], items: int, cost: int) -> Callable[..., object]:
    """What calls a kernel of so many arrays, and these numbers after them, on as many threads as it is worth: of the arrays."""
    quick: Callable[..., object] | None = None
    if FIELDS and cost < BRIEF:
        quick = alone(kernel.address, [*((OF_ARRAY, n) for n in range(arrays)), *((NUMBER, n) for n in numbers)], 0, items)
        if not threads.is_shared(items, cost):
            return quick

    def call(*memory: Array) -> None:
        if quick is not None and threads.available() == 1:
            quick(*memory)
            return
        arguments = [*map(address, memory), *numbers]
        threads.share_kernel(kernel, lambda thread: arguments, items, cost)

    return call


def alike(arrays: Sequence[Array]) -> Callable[..., int] | None:
    """Of arrays: whether they are NumPy's own, in one piece each, and have the element types and shapes of these; None for some
    of which it does not tell."""
    if not FIELDS or any(type(x) is not np.ndarray or x.ndim > RANK for x in arrays):
        return None
    words = [place_of(np.ndarray)]
    for x in arrays:
        words += [place_of(x.dtype), x.ndim, *x.shape, *[0] * (RANK - x.ndim)]
    return _function(f"alike {len(arrays)} {HEAD}", words, *(x.dtype for x in arrays))


def _function(name: str, words: Sequence[int], *kept: object) -> Callable[..., int]:
    """A function of Python's: machine code of `kernel.taking` on these words, whose `kept` live as long as it does."""
    integer = ctypes.cast(ctypes.pythonapi.PyLong_FromLongLong, ctypes.c_void_p).value
    table = np.array([integer, *words], np.int64).view(_Words)
    table.kept = kept
    type = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    make = type(("PyCFunction_NewEx", ctypes.pythonapi))  # of its own: what others declare of it stays
    made: Callable[..., int] = make(ctypes.addressof(_method(name)), table, None)
    return made


class _Words(np.ndarray[Any, Any]):
    """Words, and what they speak of."""

    kept: tuple[object, ...] = ()


def _method(name: str) -> _Method:
    """Of functions of one machine code, which speak of it by its address: threads that ask at once get one, and it stays."""
    found = _methods.get(name)
    if found is None:
        found = _methods.setdefault(name, _Method(name.split()[0].encode(), threads.address(name), _FASTCALL, None))
    return found


_methods: dict[str, _Method] = {}
