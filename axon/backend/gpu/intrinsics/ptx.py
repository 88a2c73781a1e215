"""Hopper instructions as numba-cuda intrinsics: one line of PTX each, in a table.

Emitted kernels import this module by name; nothing else does. Operand codes are those of PTX constraints: `r` 32-bit, `l` 64-bit,
`f` float32. Shared-memory addresses are 32-bit, global ones 64-bit, a tensor map is its address in the parameter bank.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.core.targetconfig import ConfigStack
from numba.cuda.extending import intrinsic, models, register_model

from axon.backend.gpu.layout.target import Feature

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_CODES = {
    "r": (_I32, types.int32), "l": (_I64, types.int64), "f": (_F32, types.float32), "d": (ir.DoubleType(), types.float64),
}  # fmt: skip


def there(feature: Feature) -> bool:
    """Whether the chip has something for which a kernel is being compiled."""
    return feature.on(ConfigStack().top().compute_capability)


class TensorMap(types.Type):  # type: ignore[misc]
    """A TMA descriptor passed by value: the kernel sees a pointer into its own parameters."""

    def __init__(self) -> None:
        super().__init__(name="TensorMap")


class _TensorMapModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, ir.ArrayType(_I64, 16).as_pointer())


register_model(TensorMap)(_TensorMapModel)
tensor_map = TensorMap()


@dataclass(frozen=True, slots=True)
class Instruction:
    """PTX text, the code of its result ("" for none) and of its operands; `memory` orders it with memory accesses."""

    text: str
    operands: str = ""
    result: str = ""
    memory: bool = True


_TRY_WAIT = "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; @done bra over; bra again; over: }"
_ARRIVE_AT = "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; mbarrier.arrive.shared::cluster.b64 _, [there]; }"
_COPY = "cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"

# erf x = ±(1 - 2^q(|x|)), q a polynomial without constant term fitted to log2 (erfc) on [0, 4]; beyond, erf is 1 in float32.
# The absolute error is below 7e-7.
_ERF = (
    "{ .reg .f32 t, q; abs.f32 t, $1; min.NaN.f32 t, t, 0f40800000; fma.rn.f32 q, t, 0fBB40F35A, 0f3CF2670F; "
    "fma.rn.f32 q, q, t, 0fBE183BD6; fma.rn.f32 q, q, t, 0fBF6B236D; fma.rn.f32 q, q, t, 0fBFD05EAB; mul.f32 q, q, t; "
    "ex2.approx.ftz.f32 q, q; sub.f32 q, 0f3F800000, q; copysign.f32 $0, $1, q; }"
)
# tanh x = 1 - 2 / (1 + 2^(2 x log2 e)).
_TANH = (
    "{ .reg .f32 t; mul.f32 t, $1, 0f4038AA3B; ex2.approx.ftz.f32 t, t; add.f32 t, t, 0f3F800000; rcp.approx.ftz.f32 t, t; "
    "fma.rn.f32 $0, t, 0fC0000000, 0f3F800000; }"
)


def _scatter(kind: str, convert: str) -> Instruction:
    """(address of the first row, of the second, column, bytes per column, columns, first inside?, second?, four values)

    Stores values 0 and 1 at a column and the next of the first row, 2 and 3 in the second, each if it is inside. One instruction
    group for four values, because the compiler in front is quadratic in the number of statements.
    """
    lines = [f"{{ .reg .pred at, both; .reg .b64 across, to; .reg .b32 place; .reg .{kind} value; mov.b32 place, $2;"]
    lines += ["cvt.s64.s32 across, place; mul.lo.s64 across, across, $3;"]
    for column in range(2):
        lines.append("setp.lt.s32 at, place, $4;")
        for row in range(2):
            value = f"${7 + 2 * row + column}"
            lines.append(f"setp.ne.and.b32 both, ${5 + row}, 0, at; add.s64 to, ${row}, across; {convert} value, {value};")
            lines.append(f"@both st.global.{kind} [to], value;")
        lines.append("add.s32 place, place, 1; add.s64 across, across, $3;")
    return Instruction(" ".join([*lines, "}"]), "llrlrrrffff")


INSTRUCTIONS: dict[str, Instruction] = {
    # Barriers in shared memory. A plain arrive is enough here: what it releases are reads by the tensor cores, already retired;
    # `.release.cluster` would add a full memory barrier to the loop and cost a sixth of the speed (docs/backend.md).
    "barrier_init": Instruction("mbarrier.init.shared::cta.b64 [$0], $1;", "rr"),
    "barrier_init_fence": Instruction("fence.mbarrier_init.release.cluster;"),
    "barrier_expect": Instruction("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "rr"),
    "barrier_arrive": Instruction("mbarrier.arrive.shared::cta.b64 _, [$0];", "r"),
    "barrier_arrive_at": Instruction(_ARRIVE_AT, "rr"),
    "barrier_wait": Instruction(_TRY_WAIT, "rr"),
    # Barriers among threads.
    "block_sync": Instruction("bar.sync 0;"),
    "cluster_arrive": Instruction("barrier.cluster.arrive.release.aligned;"),
    "cluster_wait": Instruction("barrier.cluster.wait.acquire.aligned;"),
    "warp_sync": Instruction("bar.warp.sync 0xffffffff;"),
    "named_sync": Instruction("bar.sync $0, $1;", "rr"),
    "named_arrive": Instruction("bar.arrive $0, $1;", "rr"),
    # Ordering between ordinary stores to shared memory and the engines that read it next.
    "fence_async": Instruction("fence.proxy.async.shared::cta;"),
    # Matrix products.
    "product_fence": Instruction("wgmma.fence.sync.aligned;"),
    "product_commit": Instruction("wgmma.commit_group.sync.aligned;"),
    # Copies out of shared memory.
    "store_commit": Instruction("cp.async.bulk.commit_group;"),
    "store_wait_all": Instruction("cp.async.bulk.wait_group 0;"),
    # Where am I.
    "cluster_rank": Instruction("mov.u32 $0, %cluster_ctarank;", "", "r", memory=False),
    "cluster_index": Instruction("mov.u32 $0, %clusterid.x;", "", "r", memory=False),
    "cluster_count": Instruction("mov.u32 $0, %nclusterid.x;", "", "r", memory=False),
    # The same value in every lane, so that the compiler sees a branch on it as uniform.
    "uniform": Instruction("shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;", "r", "r"),
    "from_lane": Instruction("shfl.sync.idx.b32 $0, $1, $2, 0x1f, 0xffffffff;", "rr", "r"),  # another thread's of a warp
    # The same number, of which the compiler knows nothing: a loop that counts with it is not unrolled.
    "opaque": Instruction("mov.b32 $0, $1;", "r", "r"),
    # Signed `//` emits extra branches and costs spills in the tile loop.
    "divide": Instruction("div.u32 $0, $1, $2;", "rr", "r", memory=False),
    "stmatrix": Instruction("stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", "rrrrr"),
    "store_shared_2f32": Instruction("st.shared.v2.f32 [$0], {$1, $2};", "rff"),
    "scatter_bf16": _scatter("b16", "cvt.rn.bf16.f32"),
    "scatter_f16": _scatter("b16", "cvt.rn.f16.f32"),
    "scatter_f32": _scatter("b32", "mov.b32"),
    "scatter_i32": _scatter("b32", "mov.b32"),  # whose bits are given as those of a float
    "load_bf16": Instruction("{ .reg .b16 zero, high; mov.b16 zero, 0; ld.global.nc.b16 high, [$1]; mov.b32 $0, {zero, high}; }",
                             "l", "f", memory=False),
    "load_f16": Instruction("{ .reg .b16 h; ld.global.nc.b16 h, [$1]; cvt.f32.f16 $0, h; }", "l", "f", memory=False),
    # The halves of a word of two 16-bit floats, the first in the low bits.
    "low_bf16": Instruction("shl.b32 $0, $1, 16;", "r", "f", memory=False),
    "high_bf16": Instruction("and.b32 $0, $1, 0xffff0000;", "r", "f", memory=False),
    "low_f16": Instruction("{ .reg .b16 l, h; mov.b32 {l, h}, $1; cvt.f32.f16 $0, l; }", "r", "f", memory=False),
    "high_f16": Instruction("{ .reg .b16 l, h; mov.b32 {l, h}, $1; cvt.f32.f16 $0, h; }", "r", "f", memory=False),
    "load_f32": Instruction("ld.global.nc.f32 $0, [$1];", "l", "f", memory=False),
    "load_i32": Instruction("ld.global.nc.b32 $0, [$1];", "l", "r", memory=False),
    "load_i64": Instruction("ld.global.nc.b64 $0, [$1];", "l", "l", memory=False),
    "load_f64": Instruction("ld.global.nc.f64 $0, [$1];", "l", "d", memory=False),
    # Extended to the register's width.
    "load_i16": Instruction("ld.global.nc.s16 $0, [$1];", "l", "r", memory=False),
    "load_u16": Instruction("ld.global.nc.u16 $0, [$1];", "l", "r", memory=False),
    "load_i8": Instruction("ld.global.nc.s8 $0, [$1];", "l", "r", memory=False),
    "load_u8": Instruction("ld.global.nc.u8 $0, [$1];", "l", "r", memory=False),
    # Scalar functions whose meaning Python's operators do not give.
    "fmax": Instruction("max.NaN.f32 $0, $1, $2;", "ff", "f", memory=False),
    "fmin": Instruction("min.NaN.f32 $0, $1, $2;", "ff", "f", memory=False),
    "fdiv": Instruction("div.rn.f32 $0, $1, $2;", "ff", "f", memory=False),
    # The same within 2^-20, for results that are stored in 16 bits.
    "narrow_exp": Instruction(
        "{ .reg .f32 t; mul.f32 t, $1, 0f3FB8AA3B; ex2.approx.ftz.f32 $0, t; }", "f", "f", memory=False),
    "narrow_div": Instruction("div.full.f32 $0, $1, $2;", "ff", "f", memory=False),
    # One divisor for many: x / y is x * narrow_inverse (y, s) * s with s = narrow_scale y, of which no part overflows.
    "narrow_scale": Instruction(
        "{ .reg .pred low, high; .reg .f32 a, s; abs.f32 a, $1; setp.lt.f32 low, a, 0f00800000; setp.gt.f32 high, a, 0f7E800000; "
        "selp.f32 s, 0f33800000, 0f3F800000, high; selp.f32 $0, 0f4B800000, s, low; }", "f", "f", memory=False),
    "narrow_inverse": Instruction("{ .reg .f32 t; mul.f32 t, $1, $2; rcp.approx.f32 $0, t; }", "ff", "f", memory=False),
    "narrow_rsqrt": Instruction("rsqrt.approx.f32 $0, $1;", "f", "f", memory=False),
    "narrow_erf": Instruction(_ERF, "f", "f", memory=False),
    "narrow_tanh": Instruction(_TANH, "f", "f", memory=False),
    # For streams: exponentials are powers of 2.
    "exp2": Instruction("ex2.approx.ftz.f32 $0, $1;", "f", "f", memory=False),
    # 2^(a - b), which is 1 where both are equal. With a rounding of its own the subtraction is not fused with the product that b
    # is: what a product lost when it was rounded would be left of two equal ones.
    "exp2_between": Instruction(
        "{ .reg .f32 t; sub.rn.f32 t, $1, $2; ex2.approx.ftz.f32 $0, t; }", "ff", "f", memory=False),
    # Where nothing was seen, the peak of a row is -inf, and everything is measured from 0.
    "finite_peak": Instruction(
        "{ .reg .pred seen; setp.neu.f32 seen, $1, 0fFF800000; selp.f32 $0, $1, 0f00000000, seen; }", "f", "f", memory=False),
    "frsqrt": Instruction("{ .reg .f32 root; sqrt.rn.f32 root, $1; rcp.rn.f32 $0, root; }", "f", "f", memory=False),
}  # fmt: skip


def instruction(entry: Instruction) -> Any:
    """The intrinsic of one table entry. Integer arguments are narrowed or widened to the operand's width."""
    constraints = [f"={entry.result}"] if entry.result else []
    constraints += list(entry.operands) + (["~{memory}"] if entry.memory else [])
    llvm_result, result = _CODES[entry.result] if entry.result else (ir.VoidType(), types.void)

    def typing(context: Any, *arguments: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            operands = [_fit(builder, v, t, _CODES[c][0]) for v, t, c in zip(values, signature.args, entry.operands, strict=True)]
            call = _call(builder, llvm_result, entry.text, constraints, operands, volatile=entry.memory)
            return call if entry.result else target.get_dummy_value()

        return result(*arguments), generate

    return with_arity(typing, [f"x{i}" for i in range(len(entry.operands))])


def with_arity(typing: Any, names: list[str]) -> Any:
    """A numba intrinsic whose arity is given by names: numba reads it off the Python signature."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    typing.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in ["context", *names]])
    return intrinsic(typing)


def _fit(builder: Any, value: Any, numba_type: Any, want: Any) -> Any:
    if value.type == want:
        return value
    if isinstance(value.type, ir.PointerType):
        return builder.ptrtoint(value, want)
    if isinstance(value.type, ir.IntType) and isinstance(want, ir.IntType):
        if value.type.width > want.width:
            return builder.trunc(value, want)
        return builder.sext(value, want) if getattr(numba_type, "signed", False) else builder.zext(value, want)
    if isinstance(value.type, ir.DoubleType) and want == _F32:
        return builder.fptrunc(value, want)
    raise TypeError(f"cannot pass {numba_type} as {want}")


def _call(builder: Any, result: Any, text: str, constraints: list[str], operands: list[Any], *, volatile: bool = True) -> Any:
    kind = ir.FunctionType(result, [v.type for v in operands])
    return builder.call(ir.InlineAsm(kind, text, ",".join(constraints), side_effect=volatile), operands)


for _name, _entry in INSTRUCTIONS.items():
    globals()[_name] = instruction(_entry)


# ── families with parameters ────────────────────────────────────────────────────────────────────────────────────────────


def copy_in(rank: int) -> Any:
    """(shared address, tensor map, barrier, coordinates innermost first): one box into this block."""
    at = ", ".join(f"${3 + d}" for d in range(rank))
    copy = _COPY.format(rank=rank, mode="tile")
    return instruction(Instruction(f"{copy} [$0], [$1, {{{at}}}], [$2];", "rlr" + "r" * rank))


def copy_in_multicast(rank: int) -> Any:
    """(shared address, tensor map, barrier, block mask, coordinates): one box into the same place of every block of the mask."""
    at = ", ".join(f"${4 + d}" for d in range(rank))
    text = f"{_COPY.format(rank=rank, mode='tile')}.multicast::cluster [$0], [$1, {{{at}}}], [$2], blocks;"
    return instruction(Instruction(f"{{ .reg .b16 blocks; cvt.u16.u32 blocks, $3; {text} }}", "rlrr" + "r" * rank))


def _pixels(rank: int, first: int) -> tuple[str, str, str]:
    """Of a copy of pixels whose coordinates begin at an operand, both innermost first: the coordinates, the offsets, and what makes
    these."""
    at = ", ".join(f"${first + d}" for d in range(rank))
    offsets = [f"offset{d}" for d in range(rank - 2)]
    made = "".join(f"cvt.u16.u32 {name}, ${first + rank + d}; " for d, name in enumerate(offsets))
    return at, ", ".join(offsets), f".reg .b16 {', '.join(offsets)}; {made}"


def copy_pixels(rank: int) -> Any:
    """(shared address, tensor map, barrier, coordinates of the first pixel, offsets of the window, innermost first): as many
    channels and pixels as the map says (PTX, im2col mode) into this block."""
    at, offsets, made = _pixels(rank, 3)
    text = f"{_COPY.format(rank=rank, mode='im2col')} [$0], [$1, {{{at}}}], [$2], {{{offsets}}};"
    return instruction(Instruction(f"{{ {made}{text} }}", "rlr" + "r" * (2 * rank - 2)))


def copy_pixels_multicast(rank: int) -> Any:
    """(shared address, tensor map, barrier, block mask, coordinates, offsets): the same into every block of the mask."""
    at, offsets, made = _pixels(rank, 4)
    copy = _COPY.format(rank=rank, mode="im2col")
    text = f"{copy}.multicast::cluster [$0], [$1, {{{at}}}], [$2], {{{offsets}}}, blocks;"
    return instruction(Instruction(f"{{ .reg .b16 blocks; cvt.u16.u32 blocks, $3; {made}{text} }}", "rlrr" + "r" * (2 * rank - 2)))


def copy_out(rank: int) -> Any:
    """(shared address, tensor map, coordinates): one box to global memory; belongs to the thread's open bulk group."""
    at = ", ".join(f"${2 + d}" for d in range(rank))
    text = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [$1, {{{at}}}], [$0];"
    return instruction(Instruction(text, "rl" + "r" * rank))


def store_wait_read(pending: int) -> Any:
    """Wait until at most `pending` of this thread's bulk groups still read shared memory."""
    return instruction(Instruction(f"cp.async.bulk.wait_group.read {pending};"))


def registers(count: int, *, grow: bool) -> Any:
    """Move the warpgroup's register budget to `count` a thread."""
    return instruction(Instruction(f"setmaxnreg.{'inc' if grow else 'dec'}.sync.aligned.u32 {count};"))


def multiply(
    columns: int,
    element: str,
    left_transposed: bool,
    right_transposed: bool,
    left_steps: Sequence[int],
    right_steps: Sequence[int],
    sums: int = 1,
) -> Any:
    """(accumulators, left descriptor, right descriptor, keep): accumulators * keep + left · right, asynchronously, 64 rows.

    A product for each 32 bytes of the reduced axis, which are so many steps behind what the descriptors say. Factors of tf32 and of
    8 bits lie along it; `element` are two, `e4m3.e5m2`, where they differ. Accumulators of integers are these. Of right factors
    that lie behind each other there may be as many as `sums`, each of so many columns and with accumulators of its own:
    (accumulators…, left descriptor, right descriptor of the first, keep).
    """
    n = columns * sums // 2
    depth, signs, transposed = 16, ", 1, 1", f", {int(left_transposed)}, {int(right_transposed)}"
    if element not in ("bf16", "f16"):
        assert not left_transposed
        assert not right_transposed
        depth, transposed = (8 if element == "tf32" else 32), ""
    whole = element[0] in "su"
    if whole:
        signs = ""
    left_name, right_name = element.split(".") if "." in element else (element, element)
    held = ", ".join(f"${i}" for i in range(n))
    text = (
        f"{{ .reg .pred keep; setp.ne.b32 keep, ${2 * n + 2}, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{columns * sums}k{depth}.{'s32' if whole else 'f32'}.{left_name}.{right_name} "
        f"{{{held}}}, ${2 * n}, ${2 * n + 1}, keep{signs}{transposed}; }}"
    )
    kind = types.UniTuple(types.int32 if whole else types.float32, columns // 2)

    def typing(context: Any, *arguments: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            *held, left, right, keep = values
            made, keep = _joined(builder, held, columns // 2), _fit(builder, keep, signature.args[-1], _I32)
            for a, c in zip(left_steps, right_steps, strict=True):
                operands = [further(builder, left, a), further(builder, right, c), keep]
                made = _on_accumulators(builder, n, text, made, operands, ["l", "l", "r"], memory=False)
                keep = ir.Constant(_I32, 1)
            return made if sums == 1 else _parted(builder, made, sums, columns // 2)

        made = kind if sums == 1 else types.UniTuple(kind, sums)
        return made(*[kind] * sums, types.int64, types.int64, types.int32), generate

    return with_arity(typing, [*(f"acc{i}" for i in range(sums)), "left", "right", "keep"])


def _joined(builder: Any, parts: Sequence[Any], count: int) -> Any:
    """Accumulators of so many numbers each, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    out = ir.Constant(ir.ArrayType(parts[0].type.element, count * len(parts)), ir.Undefined)
    for n, part in enumerate(parts):
        for i in range(count):
            out = builder.insert_value(out, builder.extract_value(part, i), n * count + i)
    return out


def _parted(builder: Any, whole: Any, parts: int, count: int) -> Any:
    """The accumulators that were joined."""
    kind = ir.ArrayType(whole.type.element, count)
    out = ir.Constant(ir.ArrayType(kind, parts), ir.Undefined)
    for n in range(parts):
        part = ir.Constant(kind, ir.Undefined)
        for i in range(count):
            part = builder.insert_value(part, builder.extract_value(whole, n * count + i), i)
        out = builder.insert_value(out, part, n)
    return out


def further(builder: Any, descriptor: Any, steps: int) -> Any:
    return builder.add(descriptor, ir.Constant(_I64, steps), flags=["nsw"])


def retire(columns: int, pending: int) -> Any:
    """Wait until at most `pending` groups of products run. Ties the accumulators, or reads of them would move above the wait."""
    n = columns // 2

    def typing(context: Any, acc: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _on_accumulators(builder, n, f"wgmma.wait_group.sync.aligned {pending};", values[0], [], [], memory=True)

        return acc(acc), generate

    return intrinsic(typing)


def accumulators(columns: int, element: str = "f32") -> Any:
    """(): the zero accumulators of 64 rows and so many columns; a tuple of columns / 2 floats per thread, or of `s32`."""
    n = columns // 2
    number, kind, zero = (types.int32, _I32, 0) if element == "s32" else (types.float32, _F32, 0.0)

    def typing(context: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return ir.Constant(ir.ArrayType(kind, n), [zero] * n)

        return types.UniTuple(number, n)(), generate

    return intrinsic(typing)


def _on_accumulators(builder: Any, n: int, text: str, acc: Any, more: list[Any], codes: list[str], *, memory: bool) -> Any:
    operands = [builder.extract_value(acc, i) for i in range(n)] + more
    kind = acc.type.element
    constraints = ["=f" if kind == _F32 else "=r"] * n + [str(i) for i in range(n)] + codes + (["~{memory}"] if memory else [])
    result = _call(builder, ir.LiteralStructType([kind] * n), text, constraints, operands)
    out = ir.Constant(ir.ArrayType(kind, n), ir.Undefined)
    for i in range(n):
        out = builder.insert_value(out, builder.extract_value(result, i), i)
    return out


def advance(depth: int) -> Any:
    """(stage, phase): those of the next of so many stages of a ring."""
    pair = types.UniTuple(types.int64, 2)

    def typing(context: Any, stage: Any, phase: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            following = builder.add(values[0], ir.Constant(_I64, 1), flags=["nsw"])
            last = builder.icmp_signed("==", following, ir.Constant(_I64, depth))
            stage = builder.select(last, ir.Constant(_I64, 0), following)
            phase = builder.select(last, builder.xor(values[1], ir.Constant(_I64, 1)), values[1])
            out = ir.Constant(ir.ArrayType(_I64, 2), ir.Undefined)
            return builder.insert_value(builder.insert_value(out, stage, 0), phase, 1)

        return pair(types.int64, types.int64), generate

    return intrinsic(typing)


def advance_by(depth: int) -> Any:
    """(stage, phase, steps): those of so many stages further in a ring."""
    pair = types.UniTuple(types.int64, 2)

    def typing(context: Any, stage: Any, phase: Any, steps: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            passed = builder.add(values[0], values[2], flags=["nsw"])
            rounds = builder.udiv(passed, ir.Constant(_I64, depth))
            stage = builder.sub(passed, builder.mul(rounds, ir.Constant(_I64, depth)))
            phase = builder.and_(builder.add(values[1], rounds), ir.Constant(_I64, 1))
            out = ir.Constant(ir.ArrayType(_I64, 2), ir.Undefined)
            return builder.insert_value(builder.insert_value(out, stage, 0), phase, 1)

        return pair(types.int64, types.int64, types.int64), generate

    return intrinsic(typing)


def shared_memory() -> Any:
    """(): the address of the block's dynamic shared memory, aligned for swizzled tiles."""

    def typing(context: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            module = builder.module
            name = "axon_shared"
            if name in module.globals:
                array = module.get_global(name)
            else:
                array = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), 0), name, addrspace=3)
                array.linkage = "external"
                array.align = 1024
            return builder.ptrtoint(array, _I32)

        return types.int32(), generate

    return intrinsic(typing)


def cluster_of(blocks: int) -> Any:
    """(): marks the kernel that calls it as launched in clusters of so many blocks along x."""

    def typing(context: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            annotations = cgutils.get_or_insert_named_metadata(builder.module, "nvvm.annotations")
            for key, count in (("cluster_dim_x", blocks), ("cluster_dim_y", 1), ("cluster_dim_z", 1)):
                text = ir.MetaDataString(builder.module, key)
                annotations.add(builder.module.add_metadata((builder.function, text, ir.Constant(_I32, count))))
            return target.get_dummy_value()

        return types.void(), generate

    return intrinsic(typing)


def scalar(function: Any) -> Any:
    """A Python function of scalars with a float32 result, compiled into each kernel that calls it.

    numba-cuda's own device functions ask the machine's GPU which chip to compile for; this one needs none.
    """

    def typing(context: Any, *arguments: Any) -> Any:
        signature = types.float32(*arguments)

        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return target.compile_internal(builder, function, signature, values)

        return signature, generate

    return with_arity(typing, list(inspect.signature(function).parameters))
