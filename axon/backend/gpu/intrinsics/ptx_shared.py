"""The block's shared memory, for plain kernels: values that threads keep there for others.

    keep(address, value), kept_f32(address)     a scalar in eight bytes
    stage_bf16_8(address, value)                neighbours, at a multiple of 16 bytes or of all their own
    realign_bf16_8(row, place, count, turn, value)
                                                those of neighbours that are among the first so many of a row, in which the first
                                                has this place, perhaps below 0; `turn` changes bits of their addresses there
    staged_bf16_8(address, pitch)               elements so many bytes apart
    aligned_f32_4(address)                      neighbours, at a multiple of 16 bytes or of all their own
    packed_bf16_8(address, pitch)               words so many bytes apart, each of two elements, or of four of 8 bits
    unpacked_bf16_8(words, part)                of each word the first element, or the second...

Without a number they are for one element.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types

from axon.backend.gpu.intrinsics.ptx import with_arity
from axon.backend.gpu.intrinsics.ptx_scalar import (
    _INTEGERS,
    _TYPES,
    LANES,
    _asm,
    _gathered,
    _joined,
    _split,
    _unwords,
    _words,
    lifted,
)
from axon.backend.kernel.llvm import F32, F64, I1, I8, I16, I32, I64, Builder, Emit, Value

__all__: list[str] = []


def _publish(name: str, made: Any) -> None:
    globals()[name] = made
    __all__.append(name)


def _keep(b: Builder, address: Value, x: Value) -> Value:
    """In eight bytes of the block's shared memory."""
    words = _words(b, x)
    words += [ir.Constant(I32, 0)] * (2 - len(words))
    address = b.trunc(address, I32) if address.type.width > 32 else address
    return _asm(b, ir.VoidType(), "st.shared.v2.b32 [$0], {$1, $2};", "r,r,r,~{memory}", [address, *words], volatile=True)


def _kept(type: Any) -> Emit:
    def one(b: Builder, address: Value) -> Value:
        pair = ir.LiteralStructType([I32, I32])
        address = b.trunc(address, I32) if address.type.width > 32 else address
        made = _asm(b, pair, "ld.shared.v2.b32 {$0, $1}, [$2];", "=r,=r,r,~{memory}", [address], volatile=True)
        words = [b.extract_value(made, n) for n in range(2)]
        return _unwords(b, words if type in (F64, I64) else words[:1], type)

    return one


def _keeping(context: Any, address: Any, value: Any) -> Any:
    def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
        _keep(b, *values)
        return target.get_dummy_value()

    return types.void(address, value), generate


_publish("keep", with_arity(_keeping, ["address", "value"]))
for _name, _type in (("f64", F64), ("f32", F32), *((name, ir.IntType(bits)) for name, bits, _ in _INTEGERS), ("bool", I1)):
    _publish(f"kept_{_name}", lifted(1, lambda _, held=_TYPES[_name][0]: held, _kept(_type)))


_LOADED = {1: ("u8", I16, "h", 1), 2: ("b16", I16, "h", 2)}  # by bytes: the suffix, the register, its letter and its bytes


def neighbours(b: Builder, name: str, lanes: int, at: Value, space: str = "shared", inside: Value = None) -> Value:
    """So many elements side by side from an address on, at a multiple of 16 bytes or of all their own; 0 where not inside."""
    _, bits, decode, _ = _TYPES[name]
    size = lanes * bits // 8
    kind, word, code, each = _LOADED.get(size, ("b32", I32, "r", 4))
    words: list[Value] = []
    for first in range(0, size, 16):
        count = min(16, size - first) // each
        operands = [b.add(at, ir.Constant(I32, first)) if first else at]
        outs = ", ".join(f"${n}" for n in range(count))
        outs, vector = (f"{{{outs}}}", f".v{count}") if count > 1 else (outs, "")
        text, results = f"ld.{space}{vector}.{kind} {outs}, [${count}];", f"={code}"
        if inside is not None:
            zeros = " ".join(f"mov.b{max(16, 8 * each)} ${n}, 0;" for n in range(count))
            text = f"{{ .reg .pred inside; setp.ne.b32 inside, ${count + 1}, 0; {zeros} @inside {text} }}"
            results = f"=&{code}"
            operands.append(b.zext(inside, I32))
        constraints = ",".join([results] * count + ["r"] * len(operands) + ["~{memory}"])
        result = ir.LiteralStructType([word] * count) if count > 1 else word
        made = _asm(b, result, text, constraints, operands, volatile=True)
        words += [b.extract_value(made, n) for n in range(count)] if count > 1 else [made]
    words = [b.trunc(w, I8) for w in words] if size == 1 else words
    found = [decode(b, item) for item in _split(b, words, bits)]
    return _gathered(b, found) if lanes > 1 else found[0]


def several(name: str, lanes: int) -> Any:
    """The type of so many elements in registers."""
    held = _TYPES[name][0]
    return types.UniTuple(held, lanes) if lanes > 1 else held


def _aligned(name: str, lanes: int) -> Any:
    def typing(context: Any, address: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            return neighbours(b, name, lanes, b.trunc(values[0], I32))

        return several(name, lanes)(address), generate

    return with_arity(typing, ["address"])


def _staged(name: str, lanes: int) -> None:
    held, bits, decode, encode = _TYPES[name]
    suffix = f"_{lanes}" if lanes > 1 else ""
    codes = {8: ("b8", I16, "h"), 16: ("b16", I16, "h"), 32: ("b32", I32, "r")}

    def put(context: Any, address: Any, value: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            at, given = b.trunc(values[0], I32), values[1]
            items = [b.extract_value(given, n) if isinstance(value, types.BaseTuple) else given for n in range(lanes)]
            made = _joined(b, [encode(b, x) for x in items])
            together = min(4, len(made))
            for n in range(0, len(made), together):
                words = made[n : n + together]
                kind, register, code = codes[words[0].type.width]
                words = [b.zext(word, register) if word.type != register else word for word in words]
                place = b.add(at, ir.Constant(I32, 4 * n))
                wide = f".v{together}" if together > 1 else ""
                operands = "{" + ", ".join(f"${n + 1}" for n in range(together)) + "}" if together > 1 else "$1"
                text = f"st.shared{wide}.{kind} [$0], {operands};"
                _asm(b, ir.VoidType(), text, ",".join(["r", *[code] * together, "~{memory}"]), [place, *words], volatile=True)
            return target.get_dummy_value()

        return types.void(address, value), generate

    def put_realigned(context: Any, row: Any, place: Any, count: Any, turn: Any, value: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            row, place, count, turn = (b.trunc(v, I32) if v.type.width > 32 else v for v in values[:4])
            for n in range(lanes):
                here = b.add(place, ir.Constant(I32, n))
                at = b.add(row, b.xor(b.mul(here, ir.Constant(I32, max(1, bits // 8))), turn))
                for half, given in enumerate(_joined(b, [encode(b, b.extract_value(values[4], n))])):
                    kind, register, code = codes[given.type.width]
                    word = b.zext(given, register) if given.type != register else given
                    text = f"{{ .reg .pred inside; setp.lt.u32 inside, $2, $3; @inside st.shared.{kind} [$0], $1; }}"
                    operands = [b.add(at, ir.Constant(I32, 4 * half)), word, here, count]
                    _asm(b, ir.VoidType(), text, f"r,{code},r,r,~{{memory}}", operands, volatile=True)
            return target.get_dummy_value()

        return types.void(row, place, count, turn, value), generate

    def take(context: Any, address: Any, pitch: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            at, step = b.trunc(values[0], I32), b.trunc(values[1], I32)
            kind, register, code = codes[min(bits, 32)]
            out = []
            for n in range(lanes):
                place = b.add(at, b.mul(step, ir.Constant(I32, n)))
                words = []
                for half in range(max(1, bits // 32)):
                    here = b.add(place, ir.Constant(I32, 4 * half))
                    text = f"ld.shared.{'u8' if kind == 'b8' else kind} $0, [$1];"
                    words.append(_asm(b, register, text, f"={code},r,~{{memory}}", [here], volatile=True))
                words = [b.trunc(w, I8) for w in words] if bits == 8 else words
                (item,) = _split(b, words, bits)
                out.append(decode(b, item))
            return _gathered(b, out) if lanes > 1 else out[0]

        return (types.UniTuple(held, lanes) if lanes > 1 else held)(address, pitch), generate

    def take_words(context: Any, address: Any, pitch: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            at, step = b.trunc(values[0], I32), b.trunc(values[1], I32)
            places = [b.add(at, b.mul(step, ir.Constant(I32, n))) for n in range(lanes)]
            out = [_asm(b, I32, "ld.shared.b32 $0, [$1];", "=r,r,~{memory}", [place], volatile=True) for place in places]
            return _gathered(b, out) if lanes > 1 else out[0]

        return (types.UniTuple(types.int32, lanes) if lanes > 1 else types.int32)(address, pitch), generate

    def unpack(context: Any, words: Any, part: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            given, shift = values[0], b.mul(b.trunc(values[1], I32), ir.Constant(I32, bits))
            items = [b.extract_value(given, n) for n in range(lanes)] if lanes > 1 else [given]
            out = [decode(b, b.trunc(b.lshr(word, shift), ir.IntType(bits))) for word in items]
            return _gathered(b, out) if lanes > 1 else out[0]

        return (types.UniTuple(held, lanes) if lanes > 1 else held)(words, part), generate

    _publish(f"stage_{name}{suffix}", with_arity(put, ["address", "value"]))
    if lanes > 1:
        _publish(f"realign_{name}{suffix}", with_arity(put_realigned, ["row", "place", "count", "turn", "value"]))
    _publish(f"staged_{name}{suffix}", with_arity(take, ["address", "pitch"]))
    if bits < 32:
        _publish(f"packed_{name}{suffix}", with_arity(take_words, ["address", "pitch"]))
        _publish(f"unpacked_{name}{suffix}", with_arity(unpack, ["words", "part"]))


for _name in _TYPES:
    for _lanes in (1, *LANES):
        _publish(f"aligned_{_name}" + (f"_{_lanes}" if _lanes > 1 else ""), _aligned(_name, _lanes))
        _staged(_name, _lanes)
