"""Plain kernels run without a GPU: the emitted text as Python, every CUDA thread as a task of its own.

    launch    an emitted kernel, its grid and its tensors -> what it stores, or `Hazard`

A kernel's text becomes a generator function: where it calls a shuffle or waits for others, it yields. The threads of a warp run in
any order up to there; a shuffle takes place when all 32 have come to the same one, a `block_sync` when all threads of the block
have. Warps take turns in any order.

What a GPU would let pass is a `Hazard` here:
* an access outside of its tensor, of what nobody wrote, not aligned to its width, or of the wrong element type;
* an access of shared memory outside of what the kernel asked for;
* two accesses of one place, one of them a store, by threads between which no `block_sync` or `warp_sync` lies; a shuffle orders
  nothing. Blocks are never ordered;
* reading through the read-only cache (`fetch_*`) what the same kernel stores;
* threads of a warp at different shuffles, or at different waits, or some gone while others wait;
* a bulk copy that is not aligned, or over what someone may still read; what it brings, and what other blocks of a cluster send, is
  there for a warp after it waited at the barrier that counts it, and more or less than that barrier expects never comes;
* copying into shared memory what someone may still read; reading what is copied before the thread that began it waited for it, or
  without a `block_sync` after that;
* sending to a block of the cluster that may not have begun, or is gone; reading from one without a `cluster_sync` between.

Values have the types of the device: an i64 is an `int` (offsets do not wrap: what leaves a tensor is seen), other numbers are
NumPy scalars, 16- and 8-bit floats are held as f32, a condition is a `bool`. An operation on types that the intrinsic would refuse
is a TypeError.
"""

from __future__ import annotations

import ast
import ctypes
import math
import operator
import random
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import signature
from itertools import chain
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from axon.backend.gpu.emit.source import Emitted, StatusParameter, StrideParameter
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.simt.mapping import Grid
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.base.element import Element
from axon.base.functions import FLOAT_FUNCTIONS
from axon.base.names import Symbol
from axon.interpret.arithmetic import MAXIMUM, MINIMUM, UNARY

OWN = frozenset({"exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor", "ceil", "round"})  # as written below
WARP = 32
SHARED = 1024  # the address of shared memory
TOGETHER = frozenset({
    "shuffle_xor", "shuffle_up", "shuffle_at", "warp_sync", "block_sync", "cluster_wait", "cluster_sync", "barrier_wait",
    "multiply_f64", "multiply_bf16", "multiply_f16", "matrices", "matrices_across",
})  # fmt: skip
MEMORY = (
    "fetch_anywhere", "fetch_some", "load_some", "store_some", "fetch", "load", "store", "stage", "realign", "staged",
    "aligned", "remote", "packed", "unpacked", "kept", "count", "spread", "bring", "ask", "taken", "copy",
)  # fmt: skip
KINDS: dict[Element, Any] = {Element.I64: int, Element.BOOL: bool, Element.F64: np.float64} | {
    e: np.float32 if e.is_float else e.dtype.type for e in Element if e not in (Element.I64, Element.BOOL, Element.F64)
}  # the type of a value that is held in registers


class Hazard(Exception):
    """A kernel does what a GPU does not promise to do well."""


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Access(NamedTuple):
    """Who touched a place, and after how many waits of its block and of its warp."""

    block: int
    thread: int
    blocks: int
    warps: int

    def before(self, other: Access) -> bool:
        if self.block != other.block:
            return False
        if self.thread == other.thread or self.blocks < other.blocks:
            return True
        return self.thread // WARP == other.thread // WARP and self.warps < other.warps


class History:
    """The last store of each place, and the reads since."""

    def __init__(self) -> None:
        self.stores: dict[Hashable, Access] = {}
        self.reads: dict[Hashable, dict[int, Access]] = {}

    def read(self, places: Iterable[Hashable], who: Access) -> None:
        stores, reads, thread, earlier = self.stores, self.reads, who.thread, None
        for place in places:
            last = stores.get(place)
            if last is not earlier and last is not None:  # neighbours were mostly stored at once
                if not last.before(who):
                    raise Hazard(f"{who} reads {place} that {last} stores, and nothing lies between")
                earlier = last
            try:
                reads[place][thread] = who
            except KeyError:
                reads[place] = {thread: who}

    def store(self, places: Iterable[Hashable], who: Access) -> None:
        stores, reads, earlier = self.stores, self.reads, None
        for place in places:
            before = [*reads.pop(place).values()] if place in reads else []
            if place in stores:
                before.append(stores[place])
            for last in before:
                if last is not earlier and not last.before(who):
                    raise Hazard(f"{who} stores to {place} that {last} used, and nothing lies between")
                earlier = last
            stores[place] = who


@dataclass
class Storage:
    """The memory of one tensor: everything from its first element to its last, also what lies between its rows."""

    tensor: DeviceTensor
    anyone: bool = False  # threads may store to the same place: the word for failures
    values: Any = field(init=False)
    written: Any = field(init=False)
    marks: Any = field(init=False)  # the bytes of `written`
    history: History = field(default_factory=History)
    fetched: bool = False
    stored: bool = False

    def __post_init__(self) -> None:
        spans = zip(self.tensor.shape, self.tensor.strides, strict=True)
        span = 1 + sum((n - 1) * stride for n, stride in spans) + self.tensor.spare if all(self.tensor.shape) else 0
        self.values, self.written = np.zeros(span, self.tensor.element.dtype), np.zeros(span, bool)
        self.marks = self.written.view(np.uint8).data
        if self.tensor.spare and span:  # what is there means nothing, and may be read
            for flat in (self.values, self.written):
                self._spare(flat)[...] = True if flat.dtype == bool else np.frombuffer(b"\xff" * flat.itemsize, flat.dtype)[0]

    def lie_there(self) -> Storage:
        """The memory of this process at the tensor's address, and all of it written."""
        size = self.values.nbytes
        if size:
            self.values = np.frombuffer((ctypes.c_uint8 * size).from_address(self.tensor.pointer), self.values.dtype)
        self.written[...] = True
        return self

    def _seen(self, flat: Any) -> Any:
        strides = [stride * flat.itemsize for stride in self.tensor.strides]
        return np.ndarray(self.tensor.shape, flat.dtype, flat.view(np.uint8), strides=strides)

    def _spare(self, flat: Any) -> Any:
        """What lies behind the rows."""
        strides = [stride * flat.itemsize for stride in self.tensor.strides]
        shape = (*self.tensor.shape[:-1], self.tensor.spare)
        return np.ndarray(shape, flat.dtype, flat.view(np.uint8), self.tensor.shape[-1] * flat.itemsize, strides)

    def put(self, array: Any) -> None:
        if array.size:
            self._seen(self.values)[...] = array
            self._seen(self.written)[...] = True

    def get(self) -> Any:
        if self.values.size and not self._seen(self.written).all():
            raise Hazard("elements of a result are never stored")
        return np.array(self._seen(self.values))

    def begin(self) -> None:
        self.history, self.fetched, self.stored = History(), False, False

    def place(self, offset: int, lanes: int, element: Element) -> None:
        """Check an access of so many neighbours from an element on."""
        size = self.values.itemsize
        if element is not self.tensor.element:
            raise Hazard(f"{element.value} in a tensor of {self.tensor.element.value}")
        if not 0 <= offset <= self.values.size - lanes:
            raise Hazard(f"{lanes} elements at {offset} of {self.values.size}")
        if (self.tensor.pointer + offset * size) % min(16, lanes * size):
            raise Hazard(f"{lanes} elements of {size} bytes at {offset} of {self.tensor.pointer} are not aligned")


@dataclass
class Barrier:
    """A barrier in shared memory: how many phases are over, and of this one the bytes that are expected and that came."""

    begun: Access
    phase: int = 0
    expected: int | None = None
    bytes: int = 0
    passed: dict[int, int] = field(default_factory=dict)  # of each warp: how many phases were over when it last waited

    def came(self, size: int) -> None:
        self.bytes += size
        if self.expected is not None:
            if self.bytes > self.expected:
                raise Hazard(f"{self.bytes} bytes come where {self.expected} are expected")
            if self.bytes == self.expected:
                self.phase, self.expected, self.bytes = self.phase + 1, None, 0

    def expect(self, size: int) -> None:
        if self.expected is not None:
            raise Hazard("a barrier is armed twice")
        self.expected = size
        self.came(0)


class Shared:
    """The shared memory of one block. No access is narrower than its `unit`, in bytes, of which it is noted who used which."""

    def __init__(self, size: int) -> None:
        self.bytes, self.written, self.history = bytearray(size), bytearray(size), History()
        self.unit = 1
        self.counted: dict[int, tuple[Barrier, int]] = {}  # of units that came by a barrier: that, and its phase
        self.copied: dict[int, int] = {}  # of units that are being copied: who began it, a thread

    def _units(self, place: range) -> range:
        assert place.start % self.unit == place.stop % self.unit == 0
        return range(place.start // self.unit, place.stop // self.unit)

    def come(self, address: int, data: bytes, align: int, barrier: Barrier, who: Access | None) -> None:
        """Bytes that a barrier counts; `who` asked for them in this block. They may lie there at once, or late."""
        place = self._place(address, len(data), align)
        units = self._units(place)
        if who is not None:
            self.history.store(units, who)
        for at in units:
            self.history.stores.pop(at, None)
            self.counted[at] = barrier, barrier.phase
        self.bytes[place.start : place.stop] = data
        self.written[place.start : place.stop] = b"\1" * len(data)
        barrier.came(len(data))

    def _place(self, address: int, size: int, align: int) -> range:
        at = address - SHARED
        if not 0 <= at <= len(self.bytes) - size:
            raise Hazard(f"{size} bytes at {at} of {len(self.bytes)} of shared memory")
        if address % align:
            raise Hazard(f"{size} bytes at {at} of shared memory are not aligned to {align}")
        return range(at, at + size)

    def begin(self, address: int, data: bytes, who: Access) -> range:
        """A thread begins to copy bytes to a place, which nobody may touch until it has waited for them."""
        self.put(address, data, len(data), who)
        units = self._units(range(address - SHARED, address - SHARED + len(data)))
        self.copied |= dict.fromkeys(units, who.thread)
        return units

    def end(self, units: range, who: Access) -> None:
        """What a thread has begun is there, for itself."""
        for at in units:
            del self.copied[at]
            self.history.stores[at] = who

    def put(self, address: int, data: bytes, align: int, who: Access) -> None:
        place = self._place(address, len(data), align)
        self.untouched(self._units(place))
        self.history.store(self._units(place), who)
        self.bytes[place.start : place.stop] = data
        self.written[place.start : place.stop] = b"\1" * len(data)

    def untouched(self, units: range) -> None:
        for at in units if self.copied else ():
            if at in self.copied:
                raise Hazard(f"shared memory at {at * self.unit} is used while thread {self.copied[at]} copies to it")

    def get(self, address: int, size: int, align: int, who: Access) -> bytes:
        place = self._place(address, size, align)
        units = self._units(place)
        self.untouched(units)
        self.history.read(units, who)
        if 0 in self.written[place.start : place.stop]:
            raise Hazard(f"shared memory at {place.start} is read and was never stored")
        for at in units if self.counted else ():
            if at in self.counted:
                barrier, phase = self.counted[at]
                if barrier.passed.get(who.thread // WARP) != phase + 1:
                    raise Hazard(f"{who} reads at {at * self.unit} what a barrier counts, and it did not wait for just that")
        return bytes(self.bytes[place.start : place.stop])


class Form(NamedTuple):
    """How an element lies in memory, and as what it is held in registers."""

    element: Element
    dtype: Any
    size: int
    kind: Any

    def held(self, found: Any) -> tuple[Any, ...]:
        """Elements of memory in registers."""
        if self.kind in (int, bool):
            return tuple(found.tolist())
        return tuple(found if self.dtype.type is self.kind else found.astype(self.kind))

    def encoded(self, values: tuple[Any, ...]) -> Any:
        """Values of registers as elements of memory."""
        if {*map(type, values)} != {self.kind}:
            raise TypeError(f"{values!r} are stored as {self.element.value}")
        return np.array(values, self.kind).astype(self.dtype)


FORMS = {e: Form(e, e.dtype, e.dtype.itemsize, KINDS[e]) for e in Element}


# ── operations on scalars ───────────────────────────────────────────────────────────────────────────────────────────────

WIDTHS: dict[Any, int] = {KINDS[e]: max(1, e.bits) for e in Element if not e.is_float} | {bool: 1}
UNSIGNED = (np.uint64, np.uint32, np.uint16, np.uint8, bool)
FLOATS = (np.float32, np.float64)


LEAST, LIMIT = -(1 << 63), 1 << 63  # an i64 is from the one on, and below the other


def wrapped(value: int, kind: Any) -> Any:
    if kind is int and LEAST <= value < LIMIT:
        return value
    low = value & ((1 << WIDTHS[kind]) - 1)
    return kind(low if kind in UNSIGNED else signed(low, kind))


def signed(value: int, kind: Any) -> int:
    if kind is int and LEAST <= value < LIMIT:
        return value
    half = 1 << (WIDTHS[kind] - 1)
    return ((int(value) + half) & (2 * half - 1)) - half


def unsigned(value: int, kind: Any) -> int:
    return int(value) & ((1 << WIDTHS[kind]) - 1)


def alike(*values: Any) -> Any:
    """The type of an operation: that of its floats, or the widest of its integers."""
    kinds = {*map(type, values)}
    if len(kinds) == 1:
        return type(values[0])
    if kinds <= WIDTHS.keys():
        return max(kinds, key=WIDTHS.__getitem__)
    raise TypeError(f"{values} have different types")


def integers(operation: Callable[..., int], view: Callable[[int, Any], int] = signed) -> Callable[..., Any]:
    """An operation on integers that wraps."""

    def apply(*values: Any) -> Any:
        kind = alike(*values)
        if kind not in WIDTHS:
            raise TypeError(f"{values} are no integers")
        return wrapped(operation(*[view(x, kind) for x in values]), kind)

    return apply


def floats(operation: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*values: Any) -> Any:
        kind = type(values[0])
        if kind not in FLOATS or len({*map(type, values)}) > 1:
            raise TypeError(f"{values} are no floats of one type")
        result = operation(*values)
        return result if type(result) is kind else kind(result)

    return apply


def either_kind(operation: Callable[..., Any]) -> Callable[..., Any]:
    of_integers, of_floats = integers(operation), floats(operation)
    return lambda *values: of_floats(*values) if type(values[0]) in FLOATS else of_integers(*values)


def conditions(operation: Callable[..., bool]) -> Callable[..., bool]:
    def apply(*values: Any) -> bool:
        for x in values:
            if type(x) is not bool:
                raise TypeError(f"{values} are no conditions")
        return operation(*values)

    return apply


def comparison(operation: Callable[[Any, Any], bool], view: Callable[[int, Any], int] | None) -> Callable[..., bool]:
    def apply(x: Any, y: Any) -> bool:
        kind = type(x) if type(x) is type(y) else alike(x, y)
        if (kind in WIDTHS) != (view is not None):
            raise TypeError(f"{x!r} and {y!r} are compared as something else")
        return bool(operation(view(x, kind), view(y, kind)) if view else operation(x, y))

    return apply


def select(condition: Any, x: Any, y: Any) -> Any:
    if type(condition) is not bool or type(x) is not type(y):
        raise TypeError(f"select({condition!r}, {x!r}, {y!r})")
    return x if condition else y


def extreme(beyond: Callable[[Any, Any], Any], of: np.ufunc, exact: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Of two floats: only of zeros does it matter which of them it is."""

    def apply(x: Any, y: Any) -> Any:
        if beyond(x, y):
            return x
        if beyond(y, x):
            return y
        result = of(x, y)
        return exact(x, y) if result == 0 else result

    return apply


def float_remainder(x: Any, y: Any) -> Any:
    rest = np.fmod(x, y)
    return np.copysign(type(x)(0), y) if rest == 0 else rest + y if (y < 0) != (rest < 0) else rest


def to_odd(x: Any) -> Any:
    """To f32 such that rounding again to a narrower type rounds correctly once."""
    exact = float(x) if type(x) in FLOATS else int(x)
    y = np.float32(exact)
    if exact == exact and float(y) != exact:
        y = np.nextafter(y, np.float32(0)) if abs(float(y)) > abs(exact) else y
        y = (np.array(y).view(np.int32) | 1).view(np.float32)[()]
    return y


def truncated(x: Any, kind: Any) -> Any:
    """Towards zero, to the nearest that the type has; 0 for what is no number."""
    low, high = (0, (1 << WIDTHS[kind]) - 1) if kind in UNSIGNED else (-(1 << WIDTHS[kind] - 1), (1 << WIDTHS[kind] - 1) - 1)
    if type(x) not in FLOATS:
        raise TypeError(f"{x!r} is no float")
    return kind(0 if x != x else low if x < low else high if x > high else min(high, int(x)))


def shift(operation: Callable[[int, int], int], view: Callable[[int, Any], int]) -> Callable[..., Any]:
    """By an amount that is read without a sign; what is shifted farther than the width is gone, but for the sign."""

    def apply(x: Any, y: Any) -> Any:
        kind = alike(x, y)
        return wrapped(operation(view(x, kind), min(unsigned(y, kind), WIDTHS[kind])), kind)

    return apply


def _floor(x: int, y: int) -> int:
    return x // y if y else 0


def _modulo(x: int, y: int) -> int:
    return x % y if y else 0


EITHER = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "minus": operator.neg}
FLOATING: dict[str, Callable[..., Any]] = {
    "sum_float": operator.add, "prod_float": operator.mul, "divide": operator.truediv, "power": np.power,
    "max_float": extreme(operator.gt, np.maximum, MAXIMUM), "min_float": extreme(operator.lt, np.minimum, MINIMUM),
    "float_remainder": float_remainder, "sum_product": lambda s, x, y: s + x * y,
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": math.erf,
    **{name: lambda x, of=UNARY[name]: of(np.asarray(x))[()] for name in FLOAT_FUNCTIONS if name not in OWN},
    "atan2": np.arctan2,
    "rsqrt": lambda x: type(x)(1) / np.sqrt(x), "absolute": abs, "floor": np.floor, "ceil": np.ceil, "nearest": np.rint,
    "sign": np.sign,
    "narrow_exp": np.exp, "narrow_erf": math.erf, "narrow_tanh": np.tanh, "narrow_rsqrt": lambda x: type(x)(1) / np.sqrt(x),
    "narrow_div": operator.truediv, "narrow_inverse": lambda y, s: type(y)(1) / (y * s),
    "narrow_scale": lambda y: type(y)(2.0**24 if abs(y) < 2.0**-126 else 2.0**-24 if abs(y) > 2.0**126 else 1.0),
}  # fmt: skip
ORDER = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
PURE: dict[str, Callable[..., Any]] = {
    **{name: either_kind(op) for name, op in EITHER.items()},
    **{name: floats(op) for name, op in FLOATING.items()},
    **{name: integers(op) for name, op in {
        "floor_divide": _floor, "remainder": _modulo, "max_int": max, "min_int": min, "integer_absolute": abs,
        "integer_sign": lambda x: (x > 0) - (x < 0), "bit_not": lambda x: ~x, "bit_and": lambda x, y: x & y,
        "bit_or": lambda x, y: x | y, "bit_xor": lambda x, y: x ^ y,
    }.items()},
    **{name: integers(op, unsigned) for name, op in {
        "unsigned_divide": _floor, "unsigned_remainder": _modulo, "max_unsigned": max, "min_unsigned": min,
        "integer_power": lambda x, y: pow(x, y & (2**63 - 1), 2**64),
    }.items()},
    **{name: shift(op, view) for name, op, view in (
        ("shift_left", operator.lshift, signed), ("shift_right", operator.rshift, signed),
        ("unsigned_shift_right", operator.rshift, unsigned),
    )},
    **{name: conditions(op) for name, op in {
        "both": lambda x, y: x and y, "either": lambda x, y: x or y, "negation": lambda x: not x,
    }.items()},
    **{f"{op}_{name}": comparison(does, view)
        for name, view in {"float": None, "int": signed, "unsigned": unsigned}.items()
        for op, does in ORDER.items()},
    "select": select,
    "turns": lambda first, limit, step: max(limit - first + step - 1, 0) // step,
    "bits": lambda x: int(x).bit_length() - 1,
    "odd_f32": to_odd, "integer_odd_f32": to_odd, "unsigned_odd_f32": lambda x: to_odd(unsigned(x, type(x))),
    "signed_exponent": lambda x: x if x >= 0 else x & (2**62 - 1) | 2**62,
    "to_f32": np.float32, "to_f64": np.float64,
    **{f"{how}_f{bits}": lambda x, view=view, to=to: to(view(x, type(x)))
        for how, view in {"signed": signed, "unsigned": unsigned}.items()
        for bits, to in {32: np.float32, 64: np.float64}.items()},
    **{f"round_{e.value}": lambda x, e=e: np.float32(e.dtype.type(x)) for e in Element if e.is_float and e.bits <= 16},
    **{f"{how}_{e.value}": lambda x, view=view, kind=KINDS[e]: wrapped(view(x, type(x)), kind)
        for how, view in {"as": signed, "widen": unsigned}.items() for e in Element if e.is_integer},
    **{f"trunc_{e.value}": partial(truncated, kind=KINDS[e]) for e in Element if e.is_integer},
}  # fmt: skip
NAMED = {e.value: KINDS[e] for e in Element if e.is_integer or e in (Element.F32, Element.F64)} | {
    "inf": math.inf,
    "nan": math.nan,
    "some": lambda x: any(x) if isinstance(x, tuple) else x,
}


Lanes = tuple[Any, ...]


def all_floats(operation: Callable[..., Any], result: Any = None) -> Callable[..., Lanes | None]:
    """An operation on lanes of floats of one type, at once; nothing for others, or where results are of another type."""

    def apply(*values: Lanes) -> Lanes | None:
        kinds = {*map(type, chain(*values))}
        if len(kinds) > 1 or not kinds <= {*FLOATS}:
            return None
        if result is not None:
            return tuple(map(result, map(operation, *values)))
        found = tuple(map(operation, *values))
        return found if {*map(type, found)} == kinds else None

    return apply


def all_selected(condition: Lanes, x: Lanes, y: Lanes) -> Lanes | None:
    if {*map(type, condition)} != {bool} or len({*map(type, x + y)}) > 1:
        return None
    return tuple([one if choice else other for choice, one, other in zip(condition, x, y, strict=True)])


AT_ONCE: dict[str, Callable[..., Lanes | None]] = {
    **{name: all_floats(op) for name, op in (EITHER | FLOATING).items()},
    **{f"{name}_float": all_floats(op, bool) for name, op in ORDER.items()},
    "select": all_selected,
}


def lifted(operation: Callable[..., Any], at_once: Callable[..., Lanes | None] | None = None) -> Callable[..., Any]:
    """On tuples of lanes, a scalar standing beside each."""

    def apply(*values: Any) -> Any:
        if tuple not in map(type, values):
            return operation(*values)
        (lanes,) = {len(x) for x in values if type(x) is tuple}
        each = [x if type(x) is tuple else (x,) * lanes for x in values]
        found = at_once(*each) if at_once is not None else None
        return tuple(map(operation, *each)) if found is None else found

    return apply


LIFTED = {name: lifted(operation, AT_ONCE.get(name)) for name, operation in PURE.items()} | NAMED


def direct(operation: Callable[..., Any], result: Any, general: Callable[..., Any]) -> Callable[..., Any]:
    """A general operation, in one call where it is given floats of one type and no lanes, as it mostly is."""

    def unary(x: Any) -> Any:
        kind = type(x)
        return (result or kind)(operation(x)) if kind in FLOATS else general(x)

    def binary(x: Any, y: Any) -> Any:
        kind = type(x)
        if kind in FLOATS and kind is type(y):
            found = operation(x, y)
            return found if type(found) is kind else (result or kind)(found)
        return general(x, y)

    def ternary(x: Any, y: Any, z: Any) -> Any:
        kind = type(x)
        if kind in FLOATS and kind is type(y) is type(z):
            return (result or kind)(operation(x, y, z))
        return general(x, y, z)

    if isinstance(operation, np.ufunc):
        return (unary, binary)[operation.nin - 1]
    given = [p for p in signature(operation).parameters.values() if p.default is p.empty]
    return (unary, binary, ternary)[len(given) - 1]


def directly_ordered(operation: Callable[[Any, Any], bool], general: Callable[..., Any]) -> Callable[..., Any]:
    def apply(x: Any, y: Any) -> Any:
        if type(x) is int and type(y) is int and LEAST <= x < LIMIT and LEAST <= y < LIMIT:
            return operation(x, y)
        return general(x, y)

    return apply


def directly_selected(condition: Any, x: Any, y: Any) -> Any:
    if type(condition) is bool and type(x) is type(y) and type(x) is not tuple:
        return x if condition else y
    return _selected(condition, x, y)


_selected = LIFTED["select"]
LIFTED |= {name: direct(op, None, LIFTED[name]) for name, op in (EITHER | FLOATING).items()}
LIFTED |= {f"{name}_float": direct(op, bool, LIFTED[f"{name}_float"]) for name, op in ORDER.items()}
LIFTED |= {f"{name}_int": directly_ordered(op, LIFTED[f"{name}_int"]) for name, op in ORDER.items()}
LIFTED["select"] = directly_selected


# ── threads ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Block:
    """One block: its memory, the thread that is running, and what intrinsics do for it."""

    def __init__(self, number: int, shared: Shared, storages: MappingOf[int, Storage]) -> None:
        self.number, self.shared, self.storages = number, shared, storages
        self.others: list[Block] = [self]  # of the cluster
        self.waits, self.warp_waits = 0, [0] * (1024 // WARP)
        self.barriers: dict[int, Barrier] = {}
        self.copies: dict[int, list[list[range]]] = {}  # groups of copies that a thread has begun, the last one not whole
        self.clustered: set[int] = set()  # warps that know that the other blocks have begun
        self.gone = False
        self.turn(0)

    def turn(self, thread: int) -> None:
        """A thread runs, until it waits for others."""
        self.thread = thread
        self.who = Access(self.number, thread, self.waits, self.warp_waits[thread // WARP])

    # ── bulk copies, and other blocks of the cluster ────────────────────────────────────────────────────────────────────

    def begin(self, address: int) -> None:
        if address % 8 or address in self.barriers:
            raise Hazard(f"a barrier at {address}")
        self.barriers[address] = Barrier(self.who)

    def barrier(self, address: int) -> Barrier:
        found = self.barriers.get(address)
        if found is None or not (found.begun.before(self.who) or self.thread // WARP in self.clustered):
            raise Hazard(f"a barrier at {address} that may not be there")
        return found

    def ask(self, form: Form, pointer: int, offset: int, count: int) -> Storage:
        storage, size = self.storage(pointer), form.size
        if (storage.tensor.pointer + offset * size) % 16 or count * size % 16 or count <= 0:
            raise Hazard(f"a bulk copy of {count} elements of {size} bytes at {offset}")
        storage.place(offset, count, form.element)
        return storage

    def bring(self, form: Form, place: int, pointer: int, offset: int, count: int, address: int) -> None:
        storage = self.ask(form, pointer, offset, count)
        if storage.stored or not storage.written[offset : offset + count].all():
            raise Hazard("a bulk copy of what was not stored, or is stored meanwhile")
        storage.fetched = True
        self.shared.come(place, storage.values[offset : offset + count].tobytes(), 16, self.barrier(address), self.who)

    def passes(self, address: int, parity: int, warp: int) -> bool:
        """Whether a warp goes on at a barrier: the phase of this parity is over."""
        self.turn(warp * WARP + WARP - 1)
        barrier = self.barrier(address)
        if barrier.phase % 2 == parity:
            return False
        barrier.passed[warp] = barrier.phase
        return True

    def remote(self, form: Form, lanes: int, address: int, rank: int) -> Any:
        there = self.others[rank]
        if there.gone:
            raise Hazard("a block of the cluster is gone")
        return self.taken(form, lanes, address, True, there.shared)

    def taken(self, form: Form, lanes: int, address: int, inside: bool, shared: Shared | None = None) -> Any:
        if not inside:
            return (form.kind(0),) * lanes if lanes > 1 else form.kind(0)
        size = lanes * form.size
        values = form.held(np.frombuffer((shared or self.shared).get(address, size, min(16, size), self.who), form.dtype))
        return values if lanes > 1 else values[0]

    def send(self, address: int, value: Any, rank: int, barrier: int) -> None:
        there = self.others[rank]
        if self.thread // WARP not in self.clustered or there.gone:
            raise Hazard("a block of the cluster may not have begun, or is gone")
        there.shared.come(address, kept(value), 8, there.barriers[barrier], None)

    # ── copies beside the arithmetic, and fragments ─────────────────────────────────────────────────────────────────────

    def copy(self, form: Form, lanes: int, address: int, pointer: int, offset: int, inside: bool) -> None:
        data = form.encoded(self.read(form, lanes, True, pointer, offset, inside)).tobytes()
        self.copies.setdefault(self.thread, [[]])[-1].append(self.shared.begin(address, data, self.who))

    def commit(self) -> None:
        self.copies.setdefault(self.thread, [[]]).append([])

    def copies_wait(self, pending: int) -> None:
        groups = self.copies.setdefault(self.thread, [[]])
        whole = len(groups) - 1 - pending
        for units in chain(*groups[: max(0, whole)]):
            self.shared.end(units, self.who)
        del groups[: max(0, whole)]

    def fragment(self, rows: int, address: int, side: int, depth: int) -> Any:
        """Elements of this thread: so many rows 8 apart, at a depth and 4 further."""
        places = (address + row * side + further * depth for further in (0, 4) for row in range(0, 8 * rows, 8))
        return tuple(np.frombuffer(self.shared.get(at, 8, 8, self.who), np.float64)[0] for at in places)

    def intrinsic(self, name: str) -> Any:
        """What a name of `ptx_scalar` means."""
        if name in LIFTED:
            return LIFTED[name]
        own = {
            "keep": self.keep, "send": self.send, "barrier_begin": self.begin,
            "barriers_ready": lambda: None, "cluster_arrive": lambda: None, "copies_commit": self.commit,
            "left_f64": partial(self.fragment, 2), "right_f64": partial(self.fragment, 1),
            **{f"copies_wait_{n}": partial(self.copies_wait, n) for n in range(8)},
            "barrier_expect": lambda address, size: self.barrier(address).expect(size),
        }  # fmt: skip
        if name in own:
            return own[name]
        parts = re.fullmatch(rf"({'|'.join(MEMORY)})_(\w+?)(?:_(\d+))?", name)
        if parts is None:
            raise KeyError(name)
        what, kind, lanes = parts[1], parts[2], int(parts[3] or 1)
        match what:
            case "count":
                return lambda start: tuple(start + n for n in range(int(kind)))
            case "spread":
                return lambda x: x if isinstance(x, tuple) else (x,) * int(kind)
        form = FORMS[Element(kind)]
        match what:
            case "fetch" | "load":
                read = partial(self.read, form, lanes, what == "fetch")
                return read if lanes > 1 else lifted(lambda *given: read(*given)[0])
            case "fetch_anywhere":
                return partial(self.read_anywhere, form, lanes)
            case "fetch_some" | "load_some":
                return partial(self.read_some, form, lanes, what == "fetch_some")
            case "store":
                write = partial(self.write, form, lanes)
                return write if lanes > 1 else lifted(write)
            case "store_some":
                return partial(self.write_some, form, lanes)
            case "stage":
                return partial(self.stage, form)
            case "realign":
                return partial(self.realign, form)
            case "staged":
                return partial(self.staged, form, lanes)
            case "aligned":
                return lambda address: self.taken(form, lanes, address, True)
            case "remote":
                return partial(self.remote, form, lanes)
            case "packed":
                return partial(self.packed, lanes)
            case "unpacked":
                return partial(unpacked, form)
            case "ask":
                return partial(self.ask, form)
            case "bring":
                return partial(self.bring, form)
            case "copy":
                return partial(self.copy, form, lanes)
            case "taken":
                return partial(self.taken, form, lanes)
        return lambda address: form.held(np.frombuffer(self.shared.get(address, 8, 8, self.who), form.dtype)[:1])[0]

    def storage(self, pointer: int) -> Storage:
        if pointer not in self.storages:
            raise Hazard(f"{pointer} is no tensor")
        return self.storages[pointer]

    def read(self, form: Form, lanes: int, fetched: bool, pointer: int, offset: int, inside: bool) -> Any:
        if isinstance(offset, tuple) or isinstance(inside, tuple):
            raise Hazard("neighbours are asked for at once, each at a place or under a condition of its own")
        if not inside:
            return (form.kind(0),) * lanes
        storage = self.storage(pointer)
        storage.place(offset, lanes, form.element)
        if fetched:
            storage.fetched = True
        else:
            storage.history.read(range(offset, offset + lanes), self.who)
        if fetched and storage.stored:
            raise Hazard("what a kernel stores is read through the read-only cache")
        if 0 in storage.marks[offset : offset + lanes].tobytes():
            raise Hazard(f"{lanes} elements at {offset} are read, and not all were stored")
        return form.held(storage.values[offset : offset + lanes])

    def read_some(self, form: Form, lanes: int, fetched: bool, pointer: int, offset: int, inside: Any) -> Any:
        each = self.each(form, lanes, offset, inside)
        if all(each):
            return self.read(form, lanes, fetched, pointer, offset, True)
        return tuple(self.read(form, 1, fetched, pointer, offset + n, flag)[0] for n, flag in enumerate(each))

    def read_anywhere(self, form: Form, lanes: int, pointer: int, offset: int, inside: bool) -> Any:
        if isinstance(inside, tuple):
            raise Hazard("neighbours are asked for at once, each under a condition of its own")
        return tuple(self.read(form, 1, True, pointer, offset + n, inside)[0] for n in range(lanes))

    def write_some(self, form: Form, lanes: int, pointer: int, offset: int, value: Any, inside: Any) -> None:
        each = self.each(form, lanes, offset, inside)
        if all(each):
            return self.write(form, lanes, pointer, offset, value, True)
        for n, flag in enumerate(each):
            self.write(form, 1, pointer, offset + n, value[n] if isinstance(value, tuple) else value, flag)
        return None

    def each(self, form: Form, lanes: int, offset: int, inside: Any) -> tuple[bool, ...]:
        """The conditions of neighbours. What moves together where it can must lie for it, even where it does not."""
        if offset % min(lanes, 16 // form.size):
            raise Hazard(f"{lanes} neighbours at {offset} would not lie for one access")
        return inside if isinstance(inside, tuple) else (inside,) * lanes

    def write(self, form: Form, lanes: int, pointer: int, offset: int, value: Any, inside: bool) -> None:
        data = form.encoded(value if isinstance(value, tuple) else (value,) * lanes)
        if len(data) != lanes:
            raise TypeError(f"{len(data)} values in {lanes} places")
        if not inside:
            return
        storage = self.storage(pointer)
        storage.place(offset, lanes, form.element)
        storage.stored = True
        if storage.fetched:
            raise Hazard("what a kernel stores is read through the read-only cache")
        if not storage.anyone:
            storage.history.store(range(offset, offset + lanes), self.who)
        storage.values[offset : offset + lanes] = data
        storage.marks[offset : offset + lanes] = b"\1" * lanes

    def keep(self, address: int, value: Any) -> None:
        self.shared.put(address, kept(value), 8, self.who)

    def stage(self, form: Form, address: int, value: Any) -> None:
        data = form.encoded(value if isinstance(value, tuple) else (value,)).tobytes()
        self.shared.put(address, data, min(16, len(data)), self.who)

    def realign(self, form: Form, row: int, place: int, count: int, turn: int, value: Any) -> None:
        for n, one in enumerate(value):
            if 0 <= place + n < count:
                self.stage(form, row + ((place + n) * form.size ^ turn), one)

    def columns(self, size: int, lanes: int, address: int, pitch: int) -> bytes:
        return b"".join([self.shared.get(address + n * pitch, size, min(4, size), self.who) for n in range(lanes)])

    def staged(self, form: Form, lanes: int, address: int, pitch: int) -> Any:
        values = form.held(np.frombuffer(self.columns(form.size, lanes, address, pitch), form.dtype))
        return values if lanes > 1 else values[0]

    def packed(self, lanes: int, address: int, pitch: int) -> Any:
        words = tuple(np.frombuffer(self.columns(4, lanes, address, pitch), np.int32))
        return words if lanes > 1 else words[0]


def unpacked(form: Form, words: Any, part: int) -> Any:
    several = words if isinstance(words, tuple) else (words,)
    values = form.held(np.array(several, np.int32).view(form.dtype).reshape(len(several), -1)[:, part])
    return values if isinstance(words, tuple) else values[0]


def kept(value: Any) -> bytes:
    """A scalar in eight bytes."""
    data = (np.int64(value) if type(value) is int else value).tobytes() if type(value) is not bool else bytes([value])
    return data.ljust(8, b"\0")


class _Yielding(ast.NodeTransformer):
    """Calls that wait for other threads as `yield`s of their name, their line and their arguments."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id in TOGETHER):
            return node
        parts = [ast.Constant(node.func.id), ast.Constant(node.lineno), *node.args]
        return ast.Yield(ast.Tuple(parts, ast.Load()))


@cache
def _compiled(text: str) -> tuple[Any, tuple[str, ...]]:
    """The kernel as a generator function's code, and the intrinsics that it imports."""
    tree = ast.parse(text)
    names = [a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names]
    tree.body = [node for node in tree.body if not isinstance(node, ast.ImportFrom)]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.body.insert(0, ast.Expr(ast.Yield()))  # also where it waits for nobody
    tree = ast.fix_missing_locations(_Yielding().visit(tree))
    return compile(tree, "<kernel>", "exec"), tuple(n for n in names if n not in TOGETHER | {"cuda", "ptx"})


Request = tuple[Any, ...]  # a call that waits for others: its name, its line, its arguments


def _narrowest(names: Iterable[str]) -> int:
    """How many bytes the narrowest access of shared memory has among some intrinsics; what is not named here has 4 or more."""
    found = (re.fullmatch(r"(?:stage|realign|staged|aligned|remote|taken|bring)_(\w+?)(?:_\d+)?", name) for name in names)
    return min((4, *(Element(m[1]).dtype.itemsize for m in found if m is not None)))


def _run_cluster(
    code: Any,
    names: Sequence[str],
    arguments: Sequence[int],
    blocks: Sequence[Block],
    threads: int,
    count: int,
    chance: random.Random,
) -> None:
    tasks: dict[tuple[int, int], Any] = {}
    places = []
    for at, block in enumerate(blocks):
        place = SimpleNamespace(x=0)
        numbers = {"blockIdx": block.number, "blockDim": threads, "gridDim": count}
        cuda = SimpleNamespace(threadIdx=place, **{name: SimpleNamespace(x=x) for name, x in numbers.items()})
        ptx = SimpleNamespace(shared_memory=lambda: lambda: SHARED, cluster_of=lambda blocks: lambda: None)
        known = {name: block.intrinsic(name) for name in names} | {"cuda": cuda, "ptx": ptx}
        exec(code, known)
        places.append(place)
        block.others = list(blocks)
        block.shared.unit = _narrowest(names)
        for thread in range(threads):
            tasks[at, thread] = known["kernel"](*arguments)
            next(tasks[at, thread])
    waiting: dict[tuple[int, int], Request | None] = dict.fromkeys(tasks)  # None: gone
    answers: dict[tuple[int, int], Any] = dict.fromkeys(tasks)
    warps = [(at, warp) for at in range(len(blocks)) for warp in range(threads // WARP)]
    ready = set(warps)
    blocked: dict[tuple[int, int], str] = {}  # what warps wait for
    gone: set[tuple[int, int]] = set()
    while ready:
        at, warp = number = chance.choice(sorted(ready))
        block, lanes = blocks[at], range(warp * WARP, (warp + 1) * WARP)
        for _, thread in sorted([(chance.random(), thread) for thread in lanes]):
            block.turn(thread)
            places[at].x = thread
            try:
                waiting[at, thread] = tasks[at, thread].send(answers[at, thread])
            except StopIteration:
                waiting[at, thread] = None
            answers[at, thread] = None
        requests = [waiting[at, thread] for thread in lanes]
        if len({request[:2] if request else None for request in requests}) > 1:
            raise Hazard(f"threads of a warp part: {requests}")
        what = requests[0][0] if requests[0] else ""
        match what:
            case "":
                ready.discard(number)
                gone.add(number)
                block.gone |= all((at, w) in gone for w in range(threads // WARP))
            case "block_sync" | "barrier_wait" | "cluster_wait" | "cluster_sync":
                ready.discard(number)
                blocked[number] = what
            case _:
                block.warp_waits[warp] += what == "warp_sync"
                if what.startswith("matrices"):
                    block.turn(lanes[0])
                for thread, answer in zip(lanes, _together([request or () for request in requests], block), strict=True):
                    answers[at, thread] = answer
        if number not in ready or "barrier_wait" in blocked.values():  # else nothing that anyone waits for has come
            _release(blocks, threads // WARP, waiting, ready, blocked, gone)
    if blocked:
        raise Hazard(f"warps wait for each other: {blocked}, and {len(gone)} are gone")


def _release(
    blocks: Sequence[Block],
    warps: int,
    waiting: MappingOf[tuple[int, int], Request | None],
    ready: set[tuple[int, int]],
    blocked: dict[tuple[int, int], str],
    gone: set[tuple[int, int]],
) -> None:
    """The warps that wait for nothing any more are ready again."""
    for at, block in enumerate(blocks):
        mine = [(at, warp) for warp in range(warps)]
        there = [one for one in mine if blocked.get(one) == "block_sync"]
        lines = {request[1] for one in there if (request := waiting[one[0], one[1] * WARP])}
        if there and (len(lines) > 1 or any(one in gone for one in mine)):
            raise Hazard(f"warps wait for each other at lines {lines}, and {sum(one in gone for one in mine)} are gone")
        if len(there) == warps:
            block.waits += 1
            if len(blocks) == 1:  # else other blocks may still use what lies here
                block.shared.history = History()
            for one in there:
                del blocked[one]
            ready.update(there)
        for one in [one for one in mine if blocked.get(one) == "barrier_wait"]:
            request = waiting[at, one[1] * WARP]
            assert request is not None
            if block.passes(*request[2:4], one[1]):
                del blocked[one]
                ready.add(one)
    if len(blocked) == warps * len(blocks) and set(blocked.values()) in ({"cluster_wait"}, {"cluster_sync"}):
        ordered = "cluster_sync" in blocked.values()
        for at, warp in blocked:
            blocks[at].clustered.add(warp)
        for block in blocks if ordered else ():  # what anyone did before lies before what anyone does from here on
            block.waits += 1
            block.shared.history = History()
        ready.update(blocked)
        blocked.clear()


def _together(requests: list[Request], block: Block) -> list[Any]:
    """What the lanes of a warp get from each other."""
    what = requests[0][0]
    if what == "warp_sync":
        return [None] * WARP
    if what == "multiply_f64":
        return multiplied([request[2:] for request in requests])
    if what.startswith("multiply_"):
        return narrowly_multiplied(Element(what.removeprefix("multiply_")), [request[2:] for request in requests])
    if what.startswith("matrices"):
        return matrices(block, [request[2] for request in requests], transposed=what == "matrices_across")
    out = []
    for lane, (_, line, value, distance) in enumerate(requests):
        place = {"shuffle_xor": lane ^ distance, "shuffle_up": lane - distance, "shuffle_at": distance}[what]
        if what == "shuffle_up" and place < 0:
            place = lane
        if not 0 <= place < WARP:
            raise Hazard(f"lane {lane} asks for lane {place} at line {line}")
        out.append(requests[place][2])
        if type(out[-1]) is not type(value):
            raise TypeError(f"a shuffle of {value!r} and {out[-1]!r}")
    return out


def multiplied(given: list[Request]) -> list[Any]:
    """`mma.m16n8k8` on f64: what each lane has of the sums, the left and the right factor, as *Matrix fragments for mma.m16n8k8* of
    the PTX ISA lays them out. There a lane is `groupID` and `threadID_in_group`."""
    sums, left, right = np.zeros((16, 8)), np.zeros((16, 8)), np.zeros((8, 8))
    for lane, (c, a, b) in enumerate(given):
        group, thread = divmod(lane, 4)
        if {*map(type, (*a, *b, *c))} != {np.float64} or [len(a), len(b), len(c)] != [4, 2, 4]:
            raise TypeError(f"a product of {a}, {b} and {c}")
        for i in range(4):
            left[group if i % 2 == 0 else group + 8, thread if i < 2 else thread + 4] = a[i]
            sums[group if i < 2 else group + 8, thread * 2 + (i & 1)] = c[i]
        for i in range(2):
            right[thread + i * 4, group] = b[i]
    for k in range(8):
        sums += np.outer(left[:, k], right[k])
    places = [[(lane // 4 + (0 if i < 2 else 8), lane % 4 * 2 + (i & 1)) for i in range(4)] for lane in range(WARP)]
    return [tuple(sums[place] for place in own) for own in places]


def matrices(block: Block, addresses: list[int], transposed: bool) -> list[Any]:
    """`ldmatrix.x4`: eight lanes give the addresses of the lines of a matrix; a lane gets of each matrix two elements of a line, or
    of a column if they are transposed, as one register (PTX ISA, *ldmatrix*). Whoever reads what lies there is the whole warp."""
    lines = [np.frombuffer(block.shared.get(address, 16, 16, block.who), np.uint16) for address in addresses]
    found = [np.stack(lines[first : first + 8]) for first in range(0, WARP, 8)]
    found = [matrix.T if transposed else matrix for matrix in found]
    words = [np.ascontiguousarray(matrix).view(np.int32) for matrix in found]
    return [tuple(matrix[lane // 4, lane % 4] for matrix in words) for lane in range(WARP)]


def narrowly_multiplied(element: Element, given: list[Request]) -> list[Any]:
    """Two `mma.m16n8k16` with the same left factor, by *Matrix fragments for mma.m16n8k16 with floating point type* of the PTX
    ISA."""
    for c, a, b in given:
        if {*map(type, c)} != {np.float32} or {*map(type, (*a, *b))} != {np.int32} or [len(a), len(b), len(c)] != [4, 4, 8]:
            raise TypeError(f"a product of {a}, {b} and {c}")
    own_sums, own_left, own_right = (np.array(side) for side in zip(*given, strict=True))
    sums, left, right = np.zeros((2, 16, 8), np.float32), np.zeros((16, 16)), np.zeros((2, 16, 8))
    group, thread, i = np.arange(WARP)[:, None] // 4, np.arange(WARP)[:, None] % 4, np.arange(8)
    below = np.where((i < 2) | (i == 4) | (i == 5), group, group + 8)
    left[below, thread * 2 + (i & 1) + np.where(i >= 4, 8, 0)] = own_left.view(element.dtype)
    right[i // 4, thread * 2 + (i & 1) + np.where(i % 4 >= 2, 8, 0), group] = own_right.view(element.dtype)
    places = i // 4, np.where(i % 4 < 2, group, group + 8), thread * 2 + (i & 1)
    sums[places] = own_sums
    sums = (sums + left @ right).astype(np.float32)
    return [tuple(own) for own in sums[places]]


def launch(
    source: Emitted,
    grid: Grid,
    storages: MappingOf[Symbol, Storage],
    status: Storage,
    sizes: MappingOf[Symbol, int],
    chance: random.Random,
) -> None:
    """Run a kernel; what it stores lies in `storages` then. Raises `Hazard`."""
    arguments = []
    for parameter in source.parameters:
        match parameter:
            case PointerParameter(tensor=symbol):
                arguments.append(storages[symbol].tensor.pointer)
            case StrideParameter(tensor=symbol, dimension=dimension):
                arguments.append(storages[symbol].tensor.strides[dimension])
            case ExtentParameter(size=size):
                arguments.append(size.evaluate(sizes))
            case StatusParameter():
                arguments.append(status.tensor.pointer)
            case _:
                raise TypeError(f"{parameter} of a plain kernel")
    launch_with(source, grid, arguments, [storages[s] for s in pointers(source)] + [status], chance)


def pointers(source: Emitted) -> list[Symbol]:
    """The tensors whose addresses a kernel takes."""
    return [parameter.tensor for parameter in source.parameters if isinstance(parameter, PointerParameter)]


def launch_with(source: Emitted, grid: Grid, arguments: Sequence[int], storages: Iterable[Storage], chance: random.Random) -> None:
    """Run a kernel whose arguments are already numbers; `storages` is the memory that it may touch. Raises `Hazard`."""
    if grid.threads > source.threads:
        raise Hazard(f"{grid.threads} threads of a kernel that is compiled for {source.threads}")
    used = {storage.tensor.pointer: storage for storage in storages}
    for storage in used.values():
        storage.begin()
    code, names = _compiled(source.text)
    with np.errstate(all="ignore"):
        size = source.cluster
        if grid.blocks % size:
            raise Hazard(f"{grid.blocks} blocks in clusters of {size}")
        for first in chance.sample(range(0, grid.blocks, size), grid.blocks // size):
            blocks = [Block(first + n, Shared(source.shared), used) for n in range(size)]
            _run_cluster(code, names, arguments, blocks, grid.threads, grid.blocks, chance)
