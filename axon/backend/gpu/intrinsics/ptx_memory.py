"""Bits in global memory as numba-cuda intrinsics: `load_8` to `load_64` give them as i64, padded with zeros; `store_8` to
`store_64` write the low ones of an i64. For kernels that move elements and never compute with them (`sorting`)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

_I64 = ir.IntType(64)
_GLOBAL = 1  # the address space


def _place(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.PointerType(ir.IntType(bits), _GLOBAL))


def load(bits: int) -> Any:
    """(address): so many bits, padded with zeros."""

    def typing(context: Any, address: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            loaded = builder.load(_place(builder, values[0], bits), align=bits // 8)
            return loaded if bits == 64 else builder.zext(loaded, _I64)

        return types.int64(types.int64), generate

    return intrinsic(typing)


def store(bits: int) -> Any:
    """(address, value): the value's low bits."""

    def typing(context: Any, address: Any, value: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            low = values[1] if bits == 64 else builder.trunc(values[1], ir.IntType(bits))
            builder.store(low, _place(builder, values[0], bits), align=bits // 8)
            return target.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return intrinsic(typing)


load_8, load_16, load_32, load_64 = map(load, (8, 16, 32, 64))
store_8, store_16, store_32, store_64 = map(store, (8, 16, 32, 64))
