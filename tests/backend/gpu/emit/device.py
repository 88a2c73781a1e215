"""What emitted scalar code means on a device, in Python: enough of numba, `ptx` and `libdevice` to run the body of a function.

Integers are Python's, so what a kernel must hold in 64 bits is checked by whoever compares; memory is a table of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from axon.base.element import Element
from axon.base.functions import FLOAT_FUNCTIONS
from axon.interpret.arithmetic import UNARY
from tests.backend.gpu.simt.emulate import KINDS, LIFTED

_OWN = ("exp", "log", "sin", "cos", "tanh", "erf", "floor", "ceil")  # as written below
SPACE = 1 << 40  # of addresses, for each tensor


def int32(x: Any) -> int:
    return (int(x) + 2**31) % 2**32 - 2**31


def float2int_rz(x: Any) -> int:
    return 0 if np.isnan(x) else max(-(2**31), min(2**31 - 1, int(x) if np.isfinite(x) else math.copysign(2**40, x).__int__()))


def divide(a: int, b: int) -> int:
    """As unsigned 32-bit numbers: what is negative or too great would be another number."""
    assert 0 <= a < 2**32
    assert 0 < b < 2**32
    return int(a // b)


def held(x: Any, element: Element) -> Any:
    """A number as a kernel holds it: of 64 bits, as Python's, where numba's operators compute with it."""
    return int(x) if element.is_integer and element not in (Element.U32, Element.U64) else KINDS[element](x)


def _f(function: Any) -> Any:
    def apply(*x: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.float32(function(*map(np.float32, x)))

    return apply


def names(memory: Mapping[str, Any]) -> dict[str, Any]:
    """The names that emitted code uses. `memory` has the arrays of tensors by the names of their pointers."""
    arrays = list(memory.values())

    def load(address: int) -> Any:
        number, offset = divmod(address, SPACE)
        array = arrays[number - 1]
        assert offset % array.itemsize == 0
        return array.reshape(-1)[offset // array.itemsize]

    def real(address: int) -> Any:
        return np.float32(load(address))

    def whole(address: int) -> int:
        return int(load(address))

    ptx = SimpleNamespace(
        divide=divide, exp2=_f(np.exp2), fdiv=_f(np.divide), fmax=_f(np.maximum), fmin=_f(np.minimum),
        frsqrt=_f(lambda x: 1 / np.sqrt(x)), narrow_exp=_f(np.exp), narrow_tanh=_f(np.tanh), narrow_erf=_f(np.vectorize(math.erf)),
        narrow_rsqrt=_f(lambda x: 1 / np.sqrt(x)), narrow_div=_f(np.divide), scalar=lambda function: function,
        load_f32=real, load_bf16=real, load_f16=real, load_f64=load,
        **{f"load_{element}": whole for element in ("i64", "i32", "i16", "u16", "i8", "u8")},
    )  # fmt: skip
    functions = {f"{name}f": _f(lambda x, of=UNARY[name]: of(np.asarray(x))) for name in FLOAT_FUNCTIONS if name not in _OWN}
    libdevice = SimpleNamespace(
        **functions, expf=_f(np.exp), logf=_f(np.log), fsqrt_rn=_f(np.sqrt), sinf=_f(np.sin), cosf=_f(np.cos), tanhf=_f(np.tanh),
        erff=_f(np.vectorize(math.erf)), floorf=_f(np.floor), ceilf=_f(np.ceil), rintf=_f(np.rint), fabsf=_f(np.abs),
        powf=_f(np.power), float2int_rz=float2int_rz, atan2f=_f(np.arctan2),
    )  # fmt: skip
    # What plain kernels call. An address is that of an element, whatever the offset of 0 says.
    eights = {f"fetch_{e.value}": lambda address, offset, inside: real(address) for e in (Element.F8E4M3, Element.F8E5M2)}
    ptx_scalar = SimpleNamespace(**LIFTED, **eights)
    pointers = {name: SPACE * number for number, name in enumerate(memory, 1)}
    modules = {"ptx": ptx, "ptx_scalar": ptx_scalar, "libdevice": libdevice}
    return {**modules, "int32": int32, "int64": int, "float32": np.float32, **pointers}
