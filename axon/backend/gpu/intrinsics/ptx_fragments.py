"""Products of f64 by the tensor instructions of a warp, and copies into shared memory that run beside them.

copy_f64(address, pointer, offset, inside), copy_f64_2      elements from memory into shared memory, 0 where not inside: begun
copies_commit()                     what this thread has begun since the last time is a group
copies_wait_2()                     until all groups of this thread but the last two are there, for this thread
left_f64(address, side, depth)      what a thread has of 16 × 8 elements that lie so many bytes apart along their side and the depth
right_f64(address, side, depth)     and of 8 × 8; of both it gives the address of the first that it has
multiply_f64(state, left, right)    a warp: 16 × 8 sums with these products

A thread is the lane 4 g + t of its warp. Of the left factor it has the rows g and g + 8 at the depths t and t + 4, of the right one
the column g at these depths, of the sums the columns 2 t and 2 t + 1 of both rows (PTX ISA, *Matrix fragments for mma.m16n8k8*).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types

from axon.backend.gpu.intrinsics.ptx import with_arity
from axon.backend.gpu.intrinsics.ptx_scalar import _address, _asm, _gathered, _nothing
from axon.backend.kernel.llvm import F64, I32, Builder, Value

__all__: list[str] = []
PENDING = 4  # groups of copies that a thread leaves pending, at most


def _publish(name: str, made: Any) -> None:
    globals()[name] = made
    __all__.append(name)


def _copying(lanes: int) -> Any:
    size = 8 * lanes
    cache = "cg.shared.global.L2::128B" if lanes == 2 else "ca.shared.global"

    def typing(context: Any, address: Any, pointer: Any, offset: Any, inside: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            to, pointer, offset, inside = values
            count = b.select(inside, ir.Constant(I32, size), ir.Constant(I32, 0))
            given = [b.trunc(to, I32), _address(b, pointer, offset, 8), count]
            _asm(b, ir.VoidType(), f"cp.async.{cache} [$0], [$1], {size}, $2;", "r,l,r,~{memory}", given, volatile=True)
            return target.get_dummy_value()

        return types.void(address, pointer, offset, inside), generate

    return with_arity(typing, ["address", "pointer", "offset", "inside"])


_publish("copy_f64", _copying(1))
_publish("copy_f64_2", _copying(2))
_publish("copies_commit", _nothing("cp.async.commit_group;"))
for _pending in range(PENDING + 1):
    _publish(f"copies_wait_{_pending}", _nothing(f"cp.async.wait_group {_pending};"))


def _fragment(rows: int) -> Any:
    """Of so many rows, 8 apart, each at two depths."""

    def typing(context: Any, address: Any, side: Any, depth: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            at, side, depth = (b.trunc(v, I32) if v.type.width > 32 else v for v in values)
            found = []
            for further in (0, 4):
                for row in range(0, 8 * rows, 8):
                    place = b.add(b.mul(side, ir.Constant(I32, row)), b.mul(depth, ir.Constant(I32, further)))
                    found.append(_asm(b, F64, "ld.shared.f64 $0, [$1];", "=d,r,~{memory}", [b.add(at, place)], volatile=True))
            return _gathered(b, found)

        return types.UniTuple(types.float64, 2 * rows)(address, side, depth), generate

    return with_arity(typing, ["address", "side", "depth"])


_publish("left_f64", _fragment(2))
_publish("right_f64", _fragment(1))

_PRODUCT = "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"


def _multiply(context: Any, state: Any, left: Any, right: Any) -> Any:
    def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
        sums, *factors = ([b.extract_value(v, n) for n in range(len(t))] for v, t in zip(values, signature.args, strict=True))
        result = ir.LiteralStructType([F64] * 4)
        given = [x for factor in factors for x in factor] + sums
        made = _asm(b, result, _PRODUCT, ",".join(["=d"] * 4 + ["d"] * len(given)), given, volatile=True)
        return _gathered(b, [b.extract_value(made, n) for n in range(4)])

    return state(state, left, right), generate


_publish("multiply_f64", with_arity(_multiply, ["state", "left", "right"]))
