"""Rows in shared memory, for plain kernels: bulk copies into a block's own, and exchanges among the blocks of a cluster.

barrier_begin(address), barriers_ready()   one thread: barriers, each of which one thread arms at a time
barrier_expect(address, bytes)             one thread: how much will come in this phase
bring_bf16(place, pointer, offset, count, barrier)      one thread: elements from memory into shared memory
ask_bf16(pointer, offset, count)           one thread: elements from memory into the L2 cache, for the copy that comes later
barrier_wait(address, parity)              every thread, until all came of the phase of this parity
taken_bf16(address, inside), taken_bf16_8(address, inside)      elements from there, 0 where not inside
send(address, value, rank, barrier)        `keep` in the shared memory of a block of the cluster, whose barrier counts 8 bytes
remote_f32_4(address, rank)                neighbours from the shared memory of a block of the cluster
cluster_sync()                             all threads of all blocks: what they stored is there
cluster_arrive(), cluster_wait()           all threads of all blocks: barriers are there. Orders nothing else
"""

from __future__ import annotations

from typing import Any, TypeAlias

from llvmlite import ir
from numba.cuda import types

from axon.backend.gpu.intrinsics.ptx import INSTRUCTIONS, with_arity
from axon.backend.gpu.intrinsics.ptx_scalar import _TYPES, LANES, _asm, _nothing, _words
from axon.backend.gpu.intrinsics.ptx_shared import neighbours, several

Builder: TypeAlias = Any
Value: TypeAlias = Any
I32 = ir.IntType(32)
__all__: list[str] = []


def _publish(name: str, made: Any) -> None:
    globals()[name] = made
    __all__.append(name)


def _narrow(b: Builder, value: Value) -> Value:
    return b.trunc(value, I32) if value.type.width > 32 else value


def _with_numbers(text: str, constraints: str, names: list[str]) -> Any:
    """An instruction on numbers of 32 bits."""

    def typing(context: Any, *arguments: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            _asm(b, ir.VoidType(), text, constraints + ",~{memory}", [_narrow(b, v) for v in values], volatile=True)
            return target.get_dummy_value()

        return types.void(*arguments), generate

    return with_arity(typing, names)


_publish("barrier_begin", _with_numbers("mbarrier.init.shared::cta.b64 [$0], 1;", "r", ["address"]))
_publish("barriers_ready", _nothing("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;"))
_publish("barrier_expect", _with_numbers(INSTRUCTIONS["barrier_expect"].text, "r,r", ["address", "bytes"]))
_publish("barrier_wait", _with_numbers(INSTRUCTIONS["barrier_wait"].text, "r,r", ["address", "parity"]))
_publish("cluster_arrive", _nothing("barrier.cluster.arrive.relaxed.aligned;"))
_publish("cluster_wait", _nothing("barrier.cluster.wait.aligned;"))
_publish("cluster_sync", _nothing("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"))


def _send(context: Any, address: Any, value: Any, rank: Any, barrier: Any) -> Any:
    def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
        words = _words(b, values[1])
        words += [ir.Constant(I32, 0)] * (2 - len(words))
        text = (
            "{ .reg .b32 there, count; mapa.shared::cluster.u32 there, $0, $1; mapa.shared::cluster.u32 count, $2, $1; "
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [there], {$3, $4}, [count]; }"
        )
        given = [*(_narrow(b, values[n]) for n in (0, 2, 3)), *words]
        _asm(b, ir.VoidType(), text, "r,r,r,r,r,~{memory}", given, volatile=True)
        return target.get_dummy_value()

    return types.void(address, value, rank, barrier), generate


_publish("send", with_arity(_send, ["address", "value", "rank", "barrier"]))

_BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"


def _bringing(bits: int) -> Any:
    size = bits // 8

    def typing(context: Any, place: Any, pointer: Any, offset: Any, count: Any, barrier: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            there, pointer, offset, count, barrier = values
            each = ir.Constant(offset.type, size)
            given = [_narrow(b, there), b.add(pointer, b.mul(offset, each)), _narrow(b, b.mul(count, each)), _narrow(b, barrier)]
            _asm(b, ir.VoidType(), _BULK, "r,l,r,r,~{memory}", given, volatile=True)
            return target.get_dummy_value()

        return types.void(place, pointer, offset, count, barrier), generate

    return with_arity(typing, ["place", "pointer", "offset", "count", "barrier"])


def _asking(bits: int) -> Any:
    size = bits // 8

    def typing(context: Any, pointer: Any, offset: Any, count: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            pointer, offset, count = values
            each = ir.Constant(offset.type, size)
            given = [b.add(pointer, b.mul(offset, each)), _narrow(b, b.mul(count, each))]
            _asm(b, ir.VoidType(), "cp.async.bulk.prefetch.L2.global [$0], $1;", "l,r,~{memory}", given, volatile=True)
            return target.get_dummy_value()

        return types.void(pointer, offset, count), generate

    return with_arity(typing, ["pointer", "offset", "count"])


def _taking(name: str, lanes: int) -> Any:
    def typing(context: Any, address: Any, inside: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            return neighbours(b, name, lanes, _narrow(b, values[0]), inside=values[1])

        return several(name, lanes)(address, inside), generate

    return with_arity(typing, ["address", "inside"])


def _remote(name: str, lanes: int) -> Any:
    def typing(context: Any, address: Any, rank: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            there = _asm(b, I32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", [_narrow(b, v) for v in values])
            return neighbours(b, name, lanes, there, "shared::cluster")

        return several(name, lanes)(address, rank), generate

    return with_arity(typing, ["address", "rank"])


for _name, (_, _bits, _, _) in _TYPES.items():
    _publish(f"bring_{_name}", _bringing(_bits))
    _publish(f"ask_{_name}", _asking(_bits))
    for _lanes in (1, *LANES):
        _publish(f"taken_{_name}" + (f"_{_lanes}" if _lanes > 1 else ""), _taking(_name, _lanes))
        _publish(f"remote_{_name}" + (f"_{_lanes}" if _lanes > 1 else ""), _remote(_name, _lanes))
