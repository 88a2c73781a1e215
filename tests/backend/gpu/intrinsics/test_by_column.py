"""What a stream reads for each of its keys, as the compiled loads find it: run on this machine's processor, with its loads for the
GPU's."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numba.cuda import types

from axon.backend.gpu.intrinsics import ptx_tiles

COLUMNS = 64
_I64, _F32 = ir.IntType(64), ir.FloatType()


def _load(builder: Any, result: Any, text: str, constraints: Any, operands: Any, *, volatile: bool) -> Any:
    """The loads of `by_column`; one of two that is not aligned to both, which a GPU would refuse, gives NaN."""
    assert not volatile
    pointer = builder.inttoptr(operands[0], _F32.as_pointer())
    if ".v2." not in text:
        return builder.load(pointer)
    odd = builder.icmp_unsigned("!=", builder.and_(operands[0], ir.Constant(_I64, 7)), ir.Constant(_I64, 0))
    both = ir.Constant(result, ir.Undefined)
    for n in range(2):
        value = builder.load(builder.gep(pointer, [ir.Constant(ir.IntType(32), n)]))
        both = builder.insert_value(both, builder.select(odd, ir.Constant(_F32, float("nan")), value), n)
    return both


class _Target:
    """Of numba's, what `each` asks for."""

    def compile_internal(self, builder: Any, function: Any, signature: Any, arguments: Any) -> Any:
        return arguments[1]


def elements(monkeypatch: pytest.MonkeyPatch, address: int, last: int, *, pairs: bool, bounded: bool) -> np.ndarray[Any, Any]:
    """What each element of a thread's tile is given."""
    monkeypatch.setattr(ptx_tiles, "_call", _load)
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64, _I64, _I64]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    given = function.args[: 1 + bounded]
    signature, generate = ptx_tiles.by_column(COLUMNS, pairs, bounded)._defn(None, *[types.int64] * len(given))
    values = generate(None, builder, signature, given)
    tile = types.UniTuple(types.float32, COLUMNS // 2)
    signature, generate = ptx_tiles.each(None, COLUMNS, "v")._defn(None, tile, types.UniTuple(types.float32, COLUMNS // 4))
    empty = ir.Constant(ir.ArrayType(_F32, COLUMNS // 2), ir.Undefined)
    made = generate(_Target(), builder, signature, [empty, values])
    builder.store(made, builder.inttoptr(function.args[2], made.type.as_pointer()))
    builder.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    out = np.zeros(COLUMNS // 2, np.float32)
    with llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine) as engine:
        engine.finalize_object()
        ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(engine.get_function_address("f"))(address, last, out.ctypes.data)
    return out


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("extent", [64, 50, 8, 2])
@pytest.mark.parametrize("thread", range(4))
def test_each_element_gets_the_value_of_its_column(monkeypatch: pytest.MonkeyPatch, pairs: bool, extent: int, thread: int) -> None:
    """And none from behind the last, where other memory begins, or none at all."""
    row = np.full(3 * COLUMNS, np.nan, np.float32)
    start = COLUMNS + (row.ctypes.data // 4 + COLUMNS) % 2  # an even place
    row[start : start + extent] = np.arange(extent)
    first = 2 * thread
    columns = np.array([first + 8 * (x // 4) + x % 2 for x in range(COLUMNS // 2)])
    for bounded in (False, True) if extent == COLUMNS else (True,):
        last = extent - (2 if pairs else 1) - first
        got = elements(monkeypatch, row.ctypes.data + 4 * (start + first), last, pairs=pairs, bounded=bounded)
        assert not np.isnan(got).any()
        inside = columns < extent
        np.testing.assert_array_equal(got[inside], columns[inside])
