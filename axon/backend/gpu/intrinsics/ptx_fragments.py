"""Products of f64, bf16 and f16 by the tensor instructions of a warp, and copies into shared memory that run beside them.

copy_f64(address, pointer, offset, inside), copy_f64_2      elements from memory into shared memory, 0 where not inside: begun
copies_commit()                     what this thread has begun since the last time is a group
copies_wait_2()                     until all groups of this thread but the last two are there, for this thread
left_f64(address, side, depth)      what a thread has of 16 × 8 elements that lie so many bytes apart along their side and the depth
right_f64(address, side, depth)     and of 8 × 8; of both it gives the address of the first that it has
multiply_f64(state, left, right)    a warp: 16 × 8 sums with these products

A thread is the lane 4 g + t of its warp. Of the left factor it has the rows g and g + 8 at the depths t and t + 4, of the right one
the column g at these depths, of the sums the columns 2 t and 2 t + 1 of both rows (PTX ISA, *Matrix fragments for mma.m16n8k8*).
Chips before Hopper have instructions on 8 × 8 sums and a depth of 4, of which four do the same.

copy_bf16_8(address, pointer, offset, inside), _4, _2       likewise; and of f16
matrices(address)                   four matrices of 8 × 8 elements of 16 bits, of each of which eight lanes give the lines
matrices_across(address)            and transposed: a thread has of each what lies at its line g, at 2 t and 2 t + 1
multiply_bf16(state, left, right)   a warp: 16 × 16 sums of f32 with the products of 16 of either; and of f16

The matrices of the left factor are its two halves by rows at the first 8 depths, then at the next 8; those of the right one are its
depths at the first 8 columns, then at the next 8. The sums are two fragments, side by side (*Matrix fragments for mma.m16n8k16*).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.cuda import types

from axon.backend.gpu.intrinsics.ptx import there, with_arity
from axon.backend.gpu.intrinsics.ptx_scalar import _address, _asm, _gathered, _nothing
from axon.backend.gpu.layout.target import F64_PRODUCTS
from axon.backend.kernel.llvm import F32, F64, I32, Builder, Value

__all__: list[str] = []
PENDING = 4  # groups of copies that a thread leaves pending, at most


def _publish(name: str, made: Any) -> None:
    globals()[name] = made
    __all__.append(name)


def _copying(lanes: int, bytes_: int = 8) -> Any:
    size = bytes_ * lanes
    cache = "cg.shared.global.L2::128B" if size == 16 else "ca.shared.global"

    def typing(context: Any, address: Any, pointer: Any, offset: Any, inside: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            to, pointer, offset, inside = values
            count = b.select(inside, ir.Constant(I32, size), ir.Constant(I32, 0))
            given = [b.trunc(to, I32), _address(b, pointer, offset, bytes_), count]
            _asm(b, ir.VoidType(), f"cp.async.{cache} [$0], [$1], {size}, $2;", "r,l,r,~{memory}", given, volatile=True)
            return target.get_dummy_value()

        return types.void(address, pointer, offset, inside), generate

    return with_arity(typing, ["address", "pointer", "offset", "inside"])


_publish("copy_f64", _copying(1))
_publish("copy_f64_2", _copying(2))
for _name in ("bf16", "f16"):
    for _lanes in (2, 4, 8):
        _publish(f"copy_{_name}_{_lanes}", _copying(_lanes, 2))
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

_SMALL_PRODUCT = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {$0, $1}, {$2}, {$3}, {$4, $5};"


def _parts(b: Builder, signature: Any, values: list[Value]) -> Iterator[list[Value]]:
    """The elements of tuples."""
    for value, kind in zip(values, signature.args, strict=True):
        yield [b.extract_value(value, n) for n in range(len(kind))]


def _multiply(context: Any, state: Any, left: Any, right: Any) -> Any:
    def small(b: Builder, sums: list[Value], left: list[Value], right: list[Value]) -> Value:
        pair = ir.LiteralStructType([F64] * 2)
        for at in range(2):  # depths
            for half in range(2):  # rows
                given = [left[2 * at + half], right[at], *sums[2 * half : 2 * half + 2]]
                made = _asm(b, pair, _SMALL_PRODUCT, "=d,=d,d,d,d,d", given, volatile=True)
                sums[2 * half : 2 * half + 2] = [b.extract_value(made, n) for n in range(2)]
        return _gathered(b, sums)

    def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
        sums, *factors = _parts(b, signature, values)
        if not there(F64_PRODUCTS):
            return small(b, sums, *factors)
        result = ir.LiteralStructType([F64] * 4)
        given = [x for factor in factors for x in factor] + sums
        made = _asm(b, result, _PRODUCT, ",".join(["=d"] * 4 + ["d"] * len(given)), given, volatile=True)
        return _gathered(b, [b.extract_value(made, n) for n in range(4)])

    return state(state, left, right), generate


_publish("multiply_f64", with_arity(_multiply, ["state", "left", "right"]))


# ── of 16 bits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _matrices(order: str) -> Any:
    text = f"ldmatrix.sync.aligned.m8n8.x4{order}.shared.b16 {{$0, $1, $2, $3}}, [$4];"

    def typing(context: Any, address: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            at = b.trunc(values[0], I32) if values[0].type.width > 32 else values[0]
            made = _asm(b, ir.LiteralStructType([I32] * 4), text, "=r,=r,=r,=r,r,~{memory}", [at], volatile=True)
            return _gathered(b, [b.extract_value(made, n) for n in range(4)])

        return types.UniTuple(types.int32, 4)(address), generate

    return with_arity(typing, ["address"])


_publish("matrices", _matrices(""))
_publish("matrices_across", _matrices(".trans"))


def _narrow_product(element: str) -> str:
    return (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{element}.{element}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )


def _narrow_multiply(element: str) -> Any:
    text, codes = _narrow_product(element), ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)

    def typing(context: Any, state: Any, left: Any, right: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            sums, rows, columns = _parts(b, signature, values)
            found: list[Value] = []
            for half in range(2):  # columns
                given = [*rows, *columns[2 * half : 2 * half + 2], *sums[4 * half : 4 * half + 4]]
                made = _asm(b, ir.LiteralStructType([F32] * 4), text, codes, given, volatile=True)
                found += [b.extract_value(made, n) for n in range(4)]
            return _gathered(b, found)

        return state(state, left, right), generate

    return with_arity(typing, ["state", "left", "right"])


_publish("multiply_bf16", _narrow_multiply("bf16"))
_publish("multiply_f16", _narrow_multiply("f16"))
