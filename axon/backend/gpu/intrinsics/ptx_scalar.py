"""Scalar operations of plain kernels as numba-cuda intrinsics, each for one value or for several side by side.

A thread computes with *lanes*: `add(x, y)` of two tuples of eight floats is a tuple of eight sums, and a scalar stands beside a
tuple for each of its elements. So a kernel reads the same whether its threads hold one element or eight.

    fetch_bf16_8(pointer, offset, inside)   eight neighbours from memory that the kernel only reads, 0 where not inside
    load_bf16_8                             the same from memory that the kernel itself writes
    store_bf16_8(pointer, offset, value, inside)
    fetch_some_bf16_8, load_some_bf16_8, store_some_bf16_8
                                            the same where each neighbour has a condition of its own: no other is touched
    fetch_anywhere_bf16_8                   of neighbours that begin between two vectors of memory: both of these, as far as they
                                            have one of the neighbours, of which each is moved to its place

Without a number they are for one element; offsets and conditions may then be tuples. Values of 16- and 8-bit floats are held as
f32, and rounded when they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

from llvmlite import ir
from numba.cuda import cgutils, types

from axon.backend.gpu.intrinsics import ptx_calls
from axon.backend.gpu.intrinsics.ptx import INSTRUCTIONS, there, with_arity
from axon.backend.gpu.layout.target import BF16, NAN_EXTREMES
from axon.backend.kernel import llvm
from axon.backend.kernel.llvm import F32, F64, I1, I8, I16, I32, I64, Builder, Emit, Value
from axon.backend.kernel.newton import UNUSUAL, Chip
from axon.backend.kernel.special import Functions

LANES = (2, 4, 8, 16)
__all__: list[str] = []

# Of the arguments of all lanes and what was made of each: what is right for the unusual ones too.
Mended: TypeAlias = "Callable[[Builder, list[list[Value]], list[Value]], list[Value]]"


def _publish(name: str, made: Any) -> None:
    globals()[name] = made
    __all__.append(name)


def _width(arguments: tuple[Any, ...]) -> int:
    """How many lanes: those of the tuples among the arguments, 0 if all are scalars."""
    return max((len(t) for t in arguments if isinstance(t, types.BaseTuple)), default=0)


def _one(type: Any) -> Any:
    return type.dtype if isinstance(type, types.BaseTuple) else type


def _fitted(b: Builder, value: Value, type: Any, like: Any) -> Value:
    """An integer as wide as another."""
    if not isinstance(value.type, ir.IntType) or not isinstance(like, ir.IntType) or value.type.width >= like.width:
        return value
    return b.sext(value, like) if getattr(type, "signed", False) else b.zext(value, like)


def lifted(arity: int, result: Callable[..., Any], emit: Emit, *, alike: bool = False, mended: Mended | None = None) -> Any:
    """An operation on scalars, lifted to tuples. `alike`: integers are made as wide as the widest."""

    def typing(context: Any, *arguments: Any) -> Any:
        lanes, scalars = _width(arguments), [_one(t) for t in arguments]
        if alike and all(isinstance(t, types.Integer) for t in scalars):
            out = max(scalars, key=lambda t: t.bitwidth) if result is _same else result(*scalars)
        else:
            out = result(*scalars)
        made = types.UniTuple(out, lanes) if lanes else out

        def generate(target: Any, builder: Builder, signature: Any, values: list[Value]) -> Value:
            def at(n: int) -> Value:
                pairs = zip(values, arguments, strict=True)
                parts = [builder.extract_value(v, n) if isinstance(t, types.BaseTuple) else v for v, t in pairs]
                if alike:
                    widest = max((p.type for p in parts), key=lambda t: getattr(t, "width", 0))
                    parts = [_fitted(builder, p, t, widest) for p, t in zip(parts, scalars, strict=True)]
                return emit(builder, *parts)

            if mended is not None:
                parts = [[builder.extract_value(v, n) for v in values] for n in range(lanes)] if lanes else [list(values)]
                found = mended(builder, parts, [emit(builder, *x) for x in parts])
                return _gathered(builder, found) if lanes else found[0]
            return _gathered(builder, [at(n) for n in range(lanes)]) if lanes else at(0)

        return made(*arguments), generate

    return with_arity(typing, [f"x{n}" for n in range(arity)])


def elementwise(
    name: str, arity: int, result: Callable[..., Any], emit: Emit, *, alike: bool = False, mended: Mended | None = None
) -> None:
    _publish(name, lifted(arity, result, emit, alike=alike, mended=mended))


def _gathered(b: Builder, parts: list[Value]) -> Value:
    out = ir.Constant(ir.ArrayType(parts[0].type, len(parts)), ir.Undefined)
    for n, part in enumerate(parts):
        out = b.insert_value(out, part, n)
    return out


def _same(x: Any, *others: Any) -> Any:
    return x


def _boolean(*arguments: Any) -> Any:
    return types.boolean


def _asm(b: Builder, result: Any, text: str, constraints: str, operands: list[Value], *, volatile: bool = False) -> Value:
    kind = ir.FunctionType(result, [v.type for v in operands])
    return b.call(ir.InlineAsm(kind, text, constraints, side_effect=volatile), operands)


def _ptx(text: str) -> Emit:
    """An instruction on floats of one type: `{}` stands for the type's suffix."""

    def one(b: Builder, *x: Value) -> Value:
        wide = x[0].type == F64
        code = "d" if wide else "f"
        return _asm(b, x[0].type, text.format("f64" if wide else "f32"), ",".join([f"={code}", *[code] * len(x)]), list(x))

    return one


def _libdevice(name: str) -> Emit:
    def one(b: Builder, *x: Value) -> Value:
        own = f"__nv_{name}f" if x[0].type == F32 else f"__nv_{name}"
        return b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(x[0].type, [v.type for v in x]), own), x)

    return one


def _large(name: str) -> Emit:
    """A function of libdevice that is large for f32."""
    return _by_type(lambda b, *x: ptx_calls.call(b, f"{name}f", list(x)), _libdevice(name))


def _by_type(narrow: Emit, wide: Emit) -> Emit:
    return lambda b, *x: (narrow if x[0].type == F32 else wide)(b, *x)


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

_INTEGERS = (
    ("i64", 64, types.int64), ("i32", 32, types.int32), ("i16", 16, types.int16), ("i8", 8, types.int8),
    ("u64", 64, types.uint64), ("u32", 32, types.uint32), ("u16", 16, types.uint16), ("u8", 8, types.uint8),
)  # fmt: skip


def _same_value(b: Builder, x: Value) -> Value:
    return x


def _bf16_encode(b: Builder, x: Value) -> Value:
    if there(BF16):
        return _asm(b, I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f", [x])
    return llvm.bf16_encode(b, llvm.bf16_round(b, x))


# The type in registers, bits in memory, and how one becomes the other.
_TYPES: dict[str, tuple[Any, int, Emit, Emit]] = {
    "f64": (types.float64, 64, lambda b, x: b.bitcast(x, F64), lambda b, x: b.bitcast(x, I64)),
    "f32": (types.float32, 32, lambda b, x: b.bitcast(x, F32), lambda b, x: b.bitcast(x, I32)),
    "f16": (types.float32, 16, llvm.f16_decode, lambda b, x: _asm(b, I16, "cvt.rn.f16.f32 $0, $1;", "=h,f", [x])),
    "bf16": (types.float32, 16, llvm.bf16_decode, _bf16_encode),
    "f8e4m3": (types.float32, 8, llvm.E4M3.decode, lambda b, x: llvm.E4M3.encode(b, llvm.E4M3.round(b, x))),
    "f8e5m2": (types.float32, 8, llvm.E5M2.decode, lambda b, x: llvm.E5M2.encode(b, llvm.E5M2.round(b, x))),
    **{name: (type, bits, _same_value, _same_value) for name, bits, type in _INTEGERS},
    "bool": (types.boolean, 8, lambda b, x: b.icmp_unsigned("!=", x, ir.Constant(I8, 0)), lambda b, x: b.zext(x, I8)),
}
_PAIRED = {"bf16": "cvt.rn.bf16x2.f32 $0, $2, $1;", "f16": "cvt.rn.f16x2.f32 $0, $2, $1;"}


def _address(b: Builder, pointer: Value, offset: Value, size: int) -> Value:
    offset = b.sext(offset, I64) if offset.type != I64 else offset
    return b.add(pointer, b.mul(offset, ir.Constant(I64, size)))


def _pieces(size: int) -> tuple[int, int, int]:
    """Bytes as so many instructions, each of so many words, of so many bytes."""
    if size < 4:
        return 1, 1, size
    return (size // 16, 4, 4) if size >= 16 else (1, size // 4, 4)  # a word for each 32 bits


_WORDS = {1: ("u8", I16, "h", "16"), 2: ("b16", I16, "h", "16"), 4: ("b32", I32, "r", "32")}


def _read(b: Builder, address: Value, inside: Value, size: int, cached: bool) -> list[Value]:
    """The words of so many bytes, 0 where not inside."""
    count, words, width = _pieces(size)
    suffix, word, code, bits = _WORDS[width]
    space = "ld.global.nc" if cached else "ld.global"
    vector = f".v{words}" if words > 1 else ""
    outs = ", ".join(f"${n}" for n in range(words))
    outs = f"{{{outs}}}" if words > 1 else outs
    zeros = " ".join(f"mov.b{bits} ${n}, 0;" for n in range(words))
    text = (
        f"{{ .reg .pred inside; setp.ne.b32 inside, ${words + 1}, 0; {zeros} "
        f"@inside {space}{vector}.{suffix} {outs}, [${words}]; }}"
    )
    constraints = ",".join([f"=&{code}"] * words + ["l", "r"] + ([] if cached else ["~{memory}"]))
    found: list[Value] = []
    flag = b.zext(inside, I32)
    for n in range(count):
        at = b.add(address, ir.Constant(I64, 16 * n)) if n else address
        result = ir.LiteralStructType([word] * words) if words > 1 else word
        made = _asm(b, result, text, constraints, [at, flag], volatile=not cached)
        found += [b.extract_value(made, k) for k in range(words)] if words > 1 else [made]
    return [b.trunc(w, I8) for w in found] if width == 1 else found


def _write(b: Builder, address: Value, inside: Value, words: list[Value]) -> None:
    size = sum(w.type.width // 8 for w in words)
    count, each, width = _pieces(size)
    suffix, _, code, _ = _WORDS[width]
    suffix = "b8" if width == 1 else suffix
    vector = f".v{each}" if each > 1 else ""
    given = ", ".join(f"${n + 2}" for n in range(each))
    given = f"{{{given}}}" if each > 1 else given
    text = f"{{ .reg .pred inside; setp.ne.b32 inside, $1, 0; @inside st.global{vector}.{suffix} [$0], {given}; }}"
    constraints = ",".join(["l", "r", *[code] * each, "~{memory}"])
    words = [b.zext(w, I16) for w in words] if width == 1 else words
    flag = b.zext(inside, I32)
    for n in range(count):
        at = b.add(address, ir.Constant(I64, 16 * n)) if n else address
        _asm(b, ir.VoidType(), text, constraints, [at, flag, *words[n * each : (n + 1) * each]], volatile=True)


def _split(b: Builder, words: list[Value], bits: int) -> list[Value]:
    """Words as elements of so many bits, the first in the lowest ones."""
    if bits == 64:
        low = [b.zext(w, I64) for w in words[::2]]
        high = [b.shl(b.zext(w, I64), ir.Constant(I64, 32)) for w in words[1::2]]
        return [b.or_(x, y) for x, y in zip(low, high, strict=True)]
    own = ir.IntType(bits)
    out = []
    for word in words:
        for n in range(word.type.width // bits):
            moved = b.lshr(word, ir.Constant(word.type, n * bits)) if n else word
            out.append(b.trunc(moved, own) if word.type != own else moved)
    return out


def _joined(b: Builder, items: list[Value]) -> list[Value]:
    """Elements as words of 32 bits, or as one smaller word."""
    bits = items[0].type.width
    if bits == 64:
        return [part for x in items for part in (b.trunc(x, I32), b.trunc(b.lshr(x, ir.Constant(I64, 32)), I32))]
    if bits == 32:
        return items
    total = min(32, bits * len(items))
    each = total // bits
    words = []
    for first in range(0, len(items), each):
        word: Value = None
        for n, item in enumerate(items[first : first + each]):
            wide = b.zext(item, ir.IntType(total)) if total != bits else item
            moved = b.shl(wide, ir.Constant(wide.type, n * bits)) if n else wide
            word = moved if word is None else b.or_(word, moved)
        words.append(word)
    return words


def _reader(name: str, lanes: int, cached: bool) -> None:
    held, bits, decode, _ = _TYPES[name]

    def one(b: Builder, pointer: Value, offset: Value, inside: Value) -> Value:
        (item,) = _split(b, _read(b, _address(b, pointer, offset, bits // 8), inside, bits // 8, cached), bits)
        return decode(b, item)

    def several(context: Any, pointer: Any, offset: Any, inside: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            address = _address(b, values[0], values[1], bits // 8)
            items = _split(b, _read(b, address, values[2], lanes * bits // 8, cached), bits)
            return _gathered(b, [decode(b, item) for item in items])

        return types.UniTuple(held, lanes)(pointer, offset, inside), generate

    stem = f"{'fetch' if cached else 'load'}_{name}"
    if lanes == 1:
        elementwise(stem, 3, lambda *_: held, one)
    else:
        _publish(f"{stem}_{lanes}", with_arity(several, ["pointer", "offset", "inside"]))


def _flags(b: Builder, inside: Value, kind: Any, lanes: int) -> tuple[Value, list[Value]]:
    """Whether all neighbours are inside, and which are that alone: at once where they can be, else one by one."""
    if not isinstance(kind, types.BaseTuple):
        return inside, []
    each = [b.extract_value(inside, n) for n in range(lanes)]
    whole = each[0]
    for flag in each[1:]:
        whole = b.and_(whole, flag)
    apart = b.not_(whole)
    return whole, [b.and_(flag, apart) for flag in each]


def _some_reader(name: str, lanes: int, cached: bool) -> None:
    held, bits, decode, _ = _TYPES[name]

    def several(context: Any, pointer: Any, offset: Any, inside: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            address = _address(b, values[0], values[1], bits // 8)
            whole, alone = _flags(b, values[2], signature.args[2], lanes)
            items = _split(b, _read(b, address, whole, lanes * bits // 8, cached), bits)
            for n, flag in enumerate(alone):
                at = b.add(address, ir.Constant(I64, n * bits // 8))
                (one,) = _split(b, _read(b, at, flag, bits // 8, cached), bits)
                items[n] = b.or_(items[n], one)  # 0 is what is not read
            return _gathered(b, [decode(b, item) for item in items])

        return types.UniTuple(held, lanes)(pointer, offset, inside), generate

    stem = f"{'fetch' if cached else 'load'}_some_{name}"
    _publish(f"{stem}_{lanes}", with_arity(several, ["pointer", "offset", "inside"]))


def _anywhere_reader(name: str, lanes: int) -> None:
    held, bits, decode, _ = _TYPES[name]
    size = lanes * bits // 8

    def several(context: Any, pointer: Any, offset: Any, inside: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            address = _address(b, values[0], values[1], bits // 8)
            before = b.and_(b.trunc(address, I32), ir.Constant(I32, 15))  # bytes from a vector's beginning
            first = b.and_(address, ir.Constant(I64, -16))
            words: list[Value] = []
            for n in range(-(-size // 16) + 1):
                has_one = b.icmp_unsigned(">", b.add(before, ir.Constant(I32, size)), ir.Constant(I32, 16 * n))
                at = b.add(first, ir.Constant(I64, 16 * n)) if n else first
                words += _read(b, at, b.and_(values[2], has_one), 16, True)
            for step in (2, 1):  # words
                moved = b.icmp_unsigned("!=", b.and_(before, ir.Constant(I32, 4 * step)), ir.Constant(I32, 0))
                words = [b.select(moved, further, own) for own, further in zip(words, words[step:], strict=False)]
            if bits < 32:
                less = b.shl(b.and_(before, ir.Constant(I32, 3)), ir.Constant(I32, 3))
                shift = "shf.r.wrap.b32 $0, $1, $2, $3;"
                words = [_asm(b, I32, shift, "=r,r,r,r", [own, further, less]) for own, further in pairwise(words)]
            return _gathered(b, [decode(b, item) for item in _split(b, words[: size // 4], bits)])

        return types.UniTuple(held, lanes)(pointer, offset, inside), generate

    _publish(f"fetch_anywhere_{name}_{lanes}", with_arity(several, ["pointer", "offset", "inside"]))


def _storer(name: str, lanes: int, some: bool = False) -> None:
    _, bits, _, encode = _TYPES[name]

    def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
        pointer, offset, _, inside = values
        kinds = signature.args
        width = _width(kinds)

        def part(n: int, number: int) -> Value:
            return b.extract_value(values[number], n) if isinstance(kinds[number], types.BaseTuple) else values[number]

        if lanes == 1:
            for n in range(max(1, width)):
                words = _joined(b, [encode(b, part(n, 2))])
                _write(b, _address(b, pointer, part(n, 1), bits // 8), part(n, 3), words)
        else:
            floats = [part(n, 2) for n in range(lanes)]
            if name in _PAIRED and there(BF16):
                pairs = zip(floats[::2], floats[1::2], strict=True)
                words = [_asm(b, I32, _PAIRED[name], "=r,f,f", list(pair)) for pair in pairs]
            else:
                words = _joined(b, [encode(b, x) for x in floats])
            address = _address(b, pointer, offset, bits // 8)
            whole, alone = _flags(b, inside, kinds[3], lanes) if some else (inside, [])
            _write(b, address, whole, words)
            for n, (flag, word) in enumerate(zip(alone, _split(b, words, bits), strict=False)):
                _write(b, b.add(address, ir.Constant(I64, n * bits // 8)), flag, _joined(b, [word]))
        return target.get_dummy_value()

    def typing(context: Any, pointer: Any, offset: Any, value: Any, inside: Any) -> Any:
        return types.void(pointer, offset, value, inside), generate

    stem = f"store_some_{name}" if some else f"store_{name}"
    _publish(stem + (f"_{lanes}" if lanes > 1 else ""), with_arity(typing, ["pointer", "offset", "value", "inside"]))


for _name, (_held, _bits, _, _) in _TYPES.items():
    for _lanes in (1, *LANES):
        _reader(_name, _lanes, cached=True)
        _reader(_name, _lanes, cached=False)
        _storer(_name, _lanes)
        if _lanes > 1:
            _some_reader(_name, _lanes, cached=True)
            _some_reader(_name, _lanes, cached=False)
            _storer(_name, _lanes, some=True)
            if _lanes * _bits >= 64:
                _anywhere_reader(_name, _lanes)


# ── lanes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _counted(lanes: int) -> None:
    """`count_8(k)`: k, k + 1 … as eight integers. `spread_8(x)`: a scalar eight times; a tuple as it is."""

    def counting(context: Any, start: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            (x,) = values
            return _gathered(b, [b.add(x, ir.Constant(x.type, n)) for n in range(lanes)])

        return types.UniTuple(start, lanes)(start), generate

    def spreading(context: Any, x: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            return values[0] if isinstance(x, types.BaseTuple) else _gathered(b, [values[0]] * lanes)

        return (x if isinstance(x, types.BaseTuple) else types.UniTuple(x, lanes))(x), generate

    _publish(f"count_{lanes}", with_arity(counting, ["start"]))
    _publish(f"spread_{lanes}", with_arity(spreading, ["x"]))


for _lanes in LANES:
    _counted(_lanes)


def _some(context: Any, x: Any) -> Any:
    """`some(x)`: whether any of several conditions holds."""

    def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
        (given,) = values
        if not isinstance(x, types.BaseTuple):
            return given
        found = b.extract_value(given, 0)
        for n in range(1, len(x)):
            found = b.or_(found, b.extract_value(given, n))
        return found

    return types.boolean(x), generate


_publish("some", with_arity(_some, ["x"]))


def _turns(b: Builder, first: Value, limit: Value, step: Value) -> Value:
    """How many numbers there are from one on below another, in steps."""
    wide = b.sub(b.add(b.sub(limit, first), step), ir.Constant(first.type, 1))
    some = b.select(b.icmp_signed("<", wide, ir.Constant(wide.type, 0)), ir.Constant(wide.type, 0), wide)
    return b.udiv(some, step)


elementwise("turns", 3, lambda *_: types.int64, _turns, alike=True)


def _logarithm(b: Builder, x: Value) -> Value:
    """Of a power of two, to the base 2."""
    zeros = _asm(b, I32, "clz.b64 $0, $1;", "=r,l", [x])
    return b.sub(ir.Constant(I64, 63), b.zext(zeros, I64))


elementwise("bits", 1, lambda x: types.int64, _logarithm)


def _words(b: Builder, x: Value) -> list[Value]:
    """A scalar as words of 32 bits."""
    if x.type in (F32, F64):
        x = b.bitcast(x, I32 if x.type == F32 else I64)
    if x.type.width == 64:
        return [b.trunc(x, I32), b.trunc(b.lshr(x, ir.Constant(I64, 32)), I32)]
    return [x if x.type.width == 32 else b.zext(x, I32)]


def _unwords(b: Builder, words: list[Value], type: Any) -> Value:
    if len(words) == 2:
        whole = b.or_(b.zext(words[0], I64), b.shl(b.zext(words[1], I64), ir.Constant(I64, 32)))
        return b.bitcast(whole, F64) if type == F64 else whole
    (word,) = words
    return b.bitcast(word, F32) if type == F32 else word if type == I32 else b.trunc(word, type)


def _shuffled(mode: str, bounds: str) -> Emit:
    def one(b: Builder, x: Value, distance: Value) -> Value:
        distance = b.trunc(distance, I32) if distance.type.width > 32 else distance
        text = f"shfl.sync.{mode}.b32 $0, $1, $2, {bounds}, 0xffffffff;"
        return _unwords(b, [_asm(b, I32, text, "=r,r,r", [w, distance], volatile=True) for w in _words(b, x)], x.type)

    return one


elementwise("shuffle_xor", 2, _same, _shuffled("bfly", "0x1f"))
elementwise("shuffle_up", 2, _same, _shuffled("up", "0"))
elementwise("shuffle_at", 2, _same, _shuffled("idx", "0x1f"))


def _nothing(text: str) -> Any:
    def typing(context: Any) -> Any:
        def generate(target: Any, b: Builder, signature: Any, values: list[Value]) -> Value:
            _asm(b, ir.VoidType(), text, "~{memory}", [], volatile=True)
            return target.get_dummy_value()

        return types.void(), generate

    return with_arity(typing, [])


_publish("warp_sync", _nothing("bar.warp.sync 0xffffffff;"))
_publish("block_sync", _nothing("bar.sync 0;"))


# ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _saturated(name: str, bits: int) -> Emit:
    """Towards zero, to the nearest that the type has; 0 for what is no number. PTX saturates at 32 and 64 bits."""
    sign = "u" if bits >= 32 and name[0] == "u" else "s"

    def one(b: Builder, x: Value) -> Value:
        source, code = ("f64", "d") if x.type == F64 else ("f32", "f")
        wide = ir.IntType(max(32, bits))
        kind, register = f"{sign}{max(32, bits)}", "l" if bits == 64 else "r"
        nan = f"{{ .reg .pred real; cvt.rzi.{kind}.{source} $0, $1; setp.eq.{source} real, $1, $1; selp.{kind} $0, $0, 0, real; }}"
        made = _asm(b, wide, nan, f"=&{register},{code}", [x])
        if bits >= 32:
            return made
        low, high = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        least, most = ir.Constant(I32, low), ir.Constant(I32, high)
        made = b.select(b.icmp_signed("<", made, least), least, made)
        return b.trunc(b.select(b.icmp_signed(">", made, most), most, made), ir.IntType(bits))

    return one


for _name, _bits, _held in _INTEGERS:
    elementwise(f"as_{_name}", 1, lambda x, held=_held: held, llvm.resized(_bits))
    elementwise(f"widen_{_name}", 1, lambda x, held=_held: held, llvm.resized_unsigned(_bits))
    elementwise(f"trunc_{_name}", 1, lambda x, held=_held: held, _saturated(_name, _bits))
elementwise("signed_f32", 1, lambda x: types.float32, lambda b, x: b.sitofp(x, F32))
elementwise("signed_f64", 1, lambda x: types.float64, lambda b, x: b.sitofp(x, F64))
elementwise("unsigned_f32", 1, lambda x: types.float32, lambda b, x: b.uitofp(x, F32))
elementwise("unsigned_f64", 1, lambda x: types.float64, lambda b, x: b.uitofp(x, F64))
elementwise("to_f32", 1, lambda x: types.float32, lambda b, x: b.fptrunc(x, F32))
elementwise("to_f64", 1, lambda x: types.float64, lambda b, x: b.fpext(x, F64))
elementwise("odd_f32", 1, lambda x: types.float32, llvm.to_odd)


def _integer_odd(sign: str) -> Emit:
    """To f32, rounded to odd: towards zero, and the last bit set where that is not the same number."""

    def one(b: Builder, x: Value) -> Value:
        kind, code = f"{sign}{x.type.width}", "l" if x.type == I64 else "r"
        near = _asm(b, F32, f"cvt.rz.f32.{kind} $0, $1;", f"=f,{code}", [x])
        back = _asm(b, x.type, f"cvt.rzi.{kind}.f32 $0, $1;", f"={code},f", [near])
        odd = b.zext(b.icmp_signed("!=", back, x), I32)
        return b.bitcast(b.or_(b.bitcast(near, I32), odd), F32)

    return one


elementwise("integer_odd_f32", 1, lambda x: types.float32, _integer_odd("s"))
elementwise("unsigned_odd_f32", 1, lambda x: types.float32, _integer_odd("u"))


def _bf16_round(b: Builder, x: Value) -> Value:
    return _asm(b, F32, _BF16_ROUND, "=f,f", [x]) if there(BF16) else llvm.bf16_round(b, x)


_BF16_ROUND = "{ .reg .b16 zero, high; mov.b16 zero, 0; cvt.rn.bf16.f32 high, $1; mov.b32 $0, {zero, high}; }"
for _name, _emit in (
    ("f16", llvm.f16_round), ("bf16", _bf16_round),
    ("f8e4m3", llvm.E4M3.round), ("f8e5m2", llvm.E5M2.round),
):  # fmt: skip
    elementwise(f"round_{_name}", 1, lambda x: types.float32, _emit)


# ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _extreme(name: str, unsigned: bool) -> Emit:
    sign = ">" if name == "max" else "<"

    def one(b: Builder, x: Value, y: Value) -> Value:
        return b.select((b.icmp_unsigned if unsigned else b.icmp_signed)(sign, x, y), x, y)

    return one


def _float_extreme(name: str) -> Emit:
    """Of f32."""
    known, other = _ptx(f"{name}.NaN.{{}} $0, $1, $2;"), _wide_extreme(name)
    return lambda b, x, y: (known if there(NAN_EXTREMES) else other)(b, x, y)


def _wide_extreme(name: str) -> Emit:
    """By a function in which numbers win: a NaN wins, and of two zeros the one whose sign decides."""

    def one(b: Builder, x: Value, y: Value) -> Value:
        inner = _libdevice(f"f{name}")(b, x, y)
        return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), inner)

    return one


def _float_remainder(b: Builder, x: Value, y: Value) -> Value:
    """With the sign of the divisor; NaN where it is 0."""
    rest, zero = _libdevice("fmod")(b, x, y), ir.Constant(x.type, 0.0)
    other = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
    moved = b.select(other, b.fadd(rest, y), rest)
    return b.select(b.fcmp_ordered("==", rest, zero), _libdevice("copysign")(b, zero, y), moved)


def _arithmetic(name: str) -> Emit:
    return lambda b, x, y: getattr(b, f"f{name}")(x, y) if llvm.is_float(x) else getattr(b, name)(x, y)


# In any order; but not "nsz", with which LLVM takes also the elements apart: the sum of x - c becomes that of x, less n * c.
_REASSOCIATED = ("reassoc",)
_BINARY: dict[str, Emit] = {
    "sum_float": lambda b, x, y: b.fadd(x, y, flags=_REASSOCIATED),
    "prod_float": lambda b, x, y: b.fmul(x, y, flags=_REASSOCIATED),
    "max_float": _by_type(_float_extreme("max"), _wide_extreme("max")),
    "min_float": _by_type(_float_extreme("min"), _wide_extreme("min")),
    "add": _arithmetic("add"),
    "sub": _arithmetic("sub"),
    "mul": _arithmetic("mul"),
    "divide": lambda b, x, y: b.fdiv(x, y),
    "floor_divide": llvm.floor_divide,
    "remainder": llvm.remainder,
    "unsigned_divide": llvm.unsigned_divide,
    "unsigned_remainder": llvm.unsigned_remainder,
    "float_remainder": _float_remainder,
    "max_int": _extreme("max", False),
    "min_int": _extreme("min", False),
    "max_unsigned": _extreme("max", True),
    "min_unsigned": _extreme("min", True),
    "both": lambda b, x, y: b.and_(x, y),
    "either": lambda b, x, y: b.or_(x, y),
}
for _name, _emit in (_BINARY | llvm.BITS).items():
    elementwise(_name, 2, _same, _emit, alike=True)
elementwise(
    "sum_product", 3, _same, lambda b, s, x, y: b.fadd(s, b.fmul(x, y, flags=("contract",)), flags=("contract", *_REASSOCIATED))
)
elementwise("select", 3, lambda c, x, y: x, lambda b, c, x, y: b.select(c, x, y))
elementwise("negation", 1, _same, lambda b, x: b.not_(x))
for _name, _sign in (("eq", "=="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    elementwise(f"{_name}_float", 2, _boolean, lambda b, x, y, op=_sign: b.fcmp_ordered(op, x, y))
    elementwise(f"{_name}_int", 2, _boolean, lambda b, x, y, op=_sign: b.icmp_signed(op, x, y), alike=True)
    elementwise(f"{_name}_unsigned", 2, _boolean, lambda b, x, y, op=_sign: b.icmp_unsigned(op, x, y), alike=True)
for _name in ("int", "unsigned"):
    elementwise(f"ne_{_name}", 2, _boolean, lambda b, x, y: b.icmp_unsigned("!=", x, y), alike=True)
elementwise("ne_float", 2, _boolean, lambda b, x, y: b.fcmp_unordered("une", x, y))


def _integer_power(b: Builder, base: Value, exponent: Value) -> Value:
    """By squaring, all 63 bits of the exponent, without a branch; wraps."""
    result: Value = ir.Constant(base.type, 1)
    for bit in range(63):
        taken = b.trunc(b.lshr(exponent, ir.Constant(exponent.type, bit)), I1)
        result = b.select(taken, b.mul(result, base), result)
        base = b.mul(base, base)
    return result


elementwise("integer_power", 2, _same, _integer_power)
elementwise("signed_exponent", 1, lambda x: types.int64, llvm.signed_exponent)

_SMALLER = ("expm1", "log1p", "cbrt", "asin", "atan", "cosh")
_LARGE = ("erfc", "erfinv")
_SPECIAL = Functions(*map(_libdevice, ("fma", "exp", "log", "sqrt", "rint")))
_UNARY: dict[str, Emit] = {
    "exp": _libdevice("exp"),
    "log": _libdevice("log"),
    "sqrt": _by_type(_ptx("sqrt.rn.{} $0, $1;"), _ptx("sqrt.rn.{} $0, $1;")),
    "rsqrt": _by_type(
        _ptx("{{ .reg .f32 root; sqrt.rn.{0} root, $1; rcp.rn.{0} $0, root; }}"),
        _ptx("{{ .reg .f64 root; sqrt.rn.{0} root, $1; rcp.rn.{0} $0, root; }}"),
    ),
    "sin": _large("sin"),
    "cos": _large("cos"),
    "tanh": _libdevice("tanh"),
    "erf": _libdevice("erf"),
    "absolute": _libdevice("fabs"),
    "sign": llvm.sign,
    "floor": _libdevice("floor"),
    "ceil": _libdevice("ceil"),
    "nearest": _libdevice("rint"),
    "minus": lambda b, x: b.fsub(ir.Constant(x.type, -0.0), x) if llvm.is_float(x) else b.neg(x),  # NVVM's language has no fneg
    "integer_sign": llvm.integer_sign,
    "integer_absolute": llvm.integer_absolute,
    "bit_not": lambda b, x: b.not_(x),
    **{name: _libdevice(name) for name in _SMALLER},
}
for _name, _emit in _UNARY.items():
    elementwise(_name, 1, _same, _emit)


def _through_f64(emit: Emit) -> Emit:
    return lambda b, x: b.fptrunc(emit(b, b.fpext(x, F64)), F32)


def _mended(name: str, whole: Emit, types: tuple[Any, ...]) -> Mended:
    """By a function for all arguments, which stands apart, so that a kernel has it once; for elements of these types."""

    def mended(b: Builder, arguments: list[list[Value]], found: list[Value]) -> list[Value]:
        values = [x for (x,) in arguments]
        if values[0].type not in types:
            return found
        unusual = [UNUSUAL[name](b, x) for x in values]
        some = unusual[0]
        for one in unusual[1:]:
            some = b.or_(some, one)
        before = b.block
        with b.if_then(some, likely=False):
            other = [b.select(u, ptx_calls.apart(b, name, whole, x), y) for u, x, y in zip(unusual, values, found, strict=True)]
            within = b.block
        merged = []
        for y, z in zip(found, other, strict=True):
            merged.append(b.phi(y.type))
            merged[-1].add_incoming(y, before)
            merged[-1].add_incoming(z, within)
        return merged

    return mended


_CHIP = Chip(_libdevice("fma"), _ptx("rcp.approx.ftz.{} $0, $1;"), _ptx("rsqrt.approx.ftz.{} $0, $1;"))
_digamma = _by_type(_through_f64(_CHIP.narrow_digamma), _CHIP.digamma)
_digamma_whole = _by_type(_through_f64(_SPECIAL.digamma), _SPECIAL.digamma)
elementwise("digamma", 1, _same, _digamma, mended=_mended("digamma", _digamma_whole, (F32, F64)))
_lgamma = _by_type(_CHIP.narrow_lgamma, _CHIP.lgamma)
elementwise("lgamma", 1, _same, _lgamma, mended=_mended("lgamma", _libdevice("lgamma"), (F32, F64)))
for _name in ("sinh", "acos", "asinh", "acosh", "atanh", "erfc", "erfinv"):
    _narrow = _large(_name) if _name in _LARGE else _libdevice(_name)
    _usual = _by_type(_narrow, getattr(_CHIP, _name))
    elementwise(_name, 1, _same, _usual, mended=_mended(_name, _libdevice(_name), (F64,)))
# The same within 2^-20, where results have 16 bits or fewer.
for _name in ("narrow_exp", "narrow_tanh", "narrow_rsqrt", "narrow_scale"):
    _text = INSTRUCTIONS[_name].text
    elementwise(_name, 1, _same, lambda b, x, text=_text: _asm(b, F32, text, "=f,f", [x]))


def _narrow_erf(b: Builder, x: Value) -> Value:
    return _asm(b, F32, INSTRUCTIONS["narrow_erf"].text, "=f,f", [x]) if there(NAN_EXTREMES) else _libdevice("erf")(b, x)


elementwise("narrow_erf", 1, _same, _narrow_erf)
for _name in ("narrow_div", "narrow_inverse"):
    _text = INSTRUCTIONS[_name].text
    elementwise(_name, 2, _same, lambda b, x, y, text=_text: _asm(b, F32, text, "=f,f,f", [x, y]))
elementwise("power", 2, _same, _large("pow"))
elementwise("atan2", 2, _same, _libdevice("atan2"))

# The names of types as functions.
f32, f64, inf, nan = types.float32, types.float64, float("inf"), float("nan")
globals().update({name: type for name, _, type in _INTEGERS})
__all__ += ["f32", "f64", *(name for name, _, _ in _INTEGERS), "inf", "nan"]
