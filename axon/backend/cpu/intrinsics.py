"""What emitted CPU kernels call: memory, conversions, and functions, each as LLVM IR that vectorizes.

Values of 16- and 8-bit floats are held as f32, rounded to what their element type has after each operation (`round_*`), so that
kernels compute what the interpreter does; `load_*` and `store_*` change between that and the bits in memory. The functions of f32
are polynomials without branches, at most two units in the last place from the true value (`tests/cpu` measures them), because a
vectorized loop cannot call the C library; those of f64 are the C library's.

Integers wrap. Divisions are given divisors that are not 0, except that any divisor may be given: 0 gives an arbitrary result
and never stops the process (the kernel has taken note of it).
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from inspect import signature as parameters_of
from typing import Any, TypeAlias

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

F32, F64, I1 = ir.FloatType(), ir.DoubleType(), ir.IntType(1)
I8, I16, I32, I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
Builder: TypeAlias = Any  # llvmlite's IRBuilder
Value: TypeAlias = Any  # of LLVM
Emit: TypeAlias = Callable[..., Any]

__all__: list[str] = []


def _publish(name: str, function: Any) -> Any:
    globals()[name] = function
    __all__.append(name)
    return function


def _intrinsic(name: str, typing: Callable[..., Any], emit: Emit) -> None:
    """An operation of emitted code: `typing` gives the result's type for the arguments', `emit` the IR."""
    arity = sum(p.default is Parameter.empty for p in parameters_of(emit).parameters.values()) - 1  # less the builder

    def declare(args: tuple[Any, ...]) -> tuple[Any, Emit]:
        signature = typing(*args)(*args)

        def generate(context: Any, builder: Builder, signature: Any, values: list[Value]) -> Value:
            result = emit(builder, *values)
            return context.get_dummy_value() if result is None else result

        return signature, generate

    match arity:
        case 1:
            one = lambda context, a: declare((a,))
            made = intrinsic(one)
        case 2:
            two = lambda context, a, b: declare((a, b))
            made = intrinsic(two)
        case 3:
            three = lambda context, a, b, c: declare((a, b, c))
            made = intrinsic(three)
        case _:
            five = lambda context, a, b, c, d, e: declare((a, b, c, d, e))
            made = intrinsic(five)
    _publish(name, made)


# ── building blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _f(value: float, like: Value | None = None) -> Value:
    return ir.Constant(F32 if like is None else like.type, value)


def _int(type: Any, value: int) -> Value:
    return ir.Constant(type, value)


def _call(b: Builder, name: str, *args: Value, result: Any = None) -> Value:
    """A call of an LLVM intrinsic `name` (with its type appended by the caller) or a function of the C library."""
    type = ir.FunctionType(result or args[0].type, [a.type for a in args])
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, type, name)
        if not name.startswith("llvm."):
            for attribute in ("nounwind", "readnone"):
                function.attributes.add(attribute)
    return b.call(function, args)


def _suffix(value: Value) -> str:
    return "f32" if value.type == F32 else "f64" if value.type == F64 else f"i{value.type.width}"


def _llvm(name: str) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        return _call(b, f"llvm.{name}.{_suffix(x)}", x)

    return one


def _fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return _call(b, f"llvm.fma.{_suffix(x)}", x, y, z)


def _bits(b: Builder, x: Value) -> Value:
    return b.bitcast(x, I32 if x.type == F32 else I64)


def _float(b: Builder, x: Value) -> Value:
    return b.bitcast(x, F32 if x.type == I32 else F64)


def _abs(b: Builder, x: Value) -> Value:
    bits = _bits(b, x)  # NVVM's language, which shares this, has neither llvm.fabs nor llvm.copysign
    return _float(b, b.and_(bits, _int(bits.type, (1 << (bits.type.width - 1)) - 1)))


def _with_sign(b: Builder, size: Value, x: Value) -> Value:
    """A number with the sign of another, of the same type."""
    bits = _bits(b, x)
    sign = b.and_(bits, _int(bits.type, -(1 << (bits.type.width - 1))))
    return _float(b, b.or_(_bits(b, _abs(b, size)), sign))


def _horner(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    result = _f(coefficients[0], x)
    for c in coefficients[1:]:
        result = _fma(b, result, x, _f(c, x))
    return result


def _inline(name: str, emit: Emit) -> Emit:
    """A function of one f32 that stands once in a module and is inlined everywhere: less text than its body at every call."""

    def one(b: Builder, x: Value) -> Value:
        own = f"axon.{name}"
        function = b.module.globals.get(own)
        if function is None:
            function = ir.Function(b.module, ir.FunctionType(x.type, [x.type]), own)
            function.linkage = "internal"
            function.attributes.add("alwaysinline")
            body = ir.IRBuilder(function.append_basic_block())
            body.ret(emit(body, function.args[0]))
        return b.call(function, [x])

    return one


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _place(b: Builder, pointer: Value, offset: Value) -> Value:
    return b.gep(pointer, [offset], inbounds=True)


def _memory(name: str, value: Any, decode: Emit, encode: Emit) -> None:
    """`load_NAME(pointer, offset)` and `store_NAME(pointer, offset, value)`; `value` is the type of values, None the pointer's."""

    def load(b: Builder, pointer: Value, offset: Value) -> Value:
        return decode(b, b.load(_place(b, pointer, offset)))

    def store(b: Builder, pointer: Value, offset: Value, given: Value) -> None:
        b.store(encode(b, given), _place(b, pointer, offset))

    _intrinsic(f"load_{name}", lambda p, o: value, load)
    _intrinsic(f"store_{name}", lambda p, o, v: types.void, store)


def _bf16_decode(b: Builder, x: Value) -> Value:
    return b.bitcast(b.shl(b.zext(x, I32), _int(I32, 16)), F32)


def _bf16_round(b: Builder, x: Value) -> Value:
    bits = _bits(b, x)
    odd = b.and_(b.lshr(bits, _int(I32, 16)), _int(I32, 1))
    up = b.add(b.add(bits, _int(I32, 0x7FFF)), odd)
    rounded = _float(b, b.and_(up, _int(I32, 0xFFFF0000)))
    return b.select(b.fcmp_unordered("uno", x, x), x, rounded)


def _bf16_encode(b: Builder, x: Value) -> Value:
    high = b.trunc(b.lshr(_bits(b, x), _int(I32, 16)), I16)
    # A NaN whose upper half is that of an infinity keeps being one.
    return b.select(b.fcmp_unordered("uno", x, x), b.or_(high, _int(I16, 0x40)), high)


def _f16_decode(b: Builder, x: Value) -> Value:
    return b.fpext(b.bitcast(x, ir.HalfType()), F32)


def _f16_encode(b: Builder, x: Value) -> Value:
    return b.bitcast(b.fptrunc(x, ir.HalfType()), I16)


def _f16_round(b: Builder, x: Value) -> Value:
    return b.fpext(b.fptrunc(x, ir.HalfType()), F32)


class _Small:
    """An 8-bit float: `mantissa` bits, exponents biased by `bias`, the greatest value, and what lies above it."""

    def __init__(self, mantissa: int, bias: int, greatest: float, above: float) -> None:
        self.mantissa, self.bias, self.greatest, self.above = mantissa, bias, greatest, above

    def decode(self, b: Builder, x: Value) -> Value:
        """The bits, placed where f32 has them, are the value times a power of two: also where they are subnormal."""
        wide = b.zext(x, I32)
        size = b.and_(wide, _int(I32, 0x7F))
        sign = b.shl(b.and_(wide, _int(I32, 0x80)), _int(I32, 24))
        value = b.fmul(_float(b, b.shl(size, _int(I32, 23 - self.mantissa))), _f(2.0 ** (127 - self.bias)))
        bits = _bits(b, value)
        if self.above == float("inf"):
            code = (0x7F >> self.mantissa) << self.mantissa
            special = _int(I32, 0x7F800000)
            bits = b.select(b.icmp_unsigned("==", size, _int(I32, code)), special, bits)
            bits = b.select(b.icmp_unsigned(">", size, _int(I32, code)), _int(I32, 0x7FC00000), bits)
        else:
            bits = b.select(b.icmp_unsigned("==", size, _int(I32, 0x7F)), _int(I32, 0x7FC00000), bits)
        return _float(b, b.or_(bits, sign))

    def round(self, b: Builder, x: Value) -> Value:
        """To nearest even: below the least normal value by adding and taking off a number whose last bit is the least step."""
        cut = 23 - self.mantissa
        bits = _bits(b, _abs(b, x))
        odd = b.and_(b.lshr(bits, _int(I32, cut)), _int(I32, 1))
        up = b.add(b.add(bits, _int(I32, (1 << (cut - 1)) - 1)), odd)
        normal = _float(b, b.and_(up, _int(I32, ~((1 << cut) - 1) & 0xFFFFFFFF)))
        step = _f(2.0 ** (1 - self.bias - self.mantissa + 23))
        size = _abs(b, x)
        small = b.fsub(b.fadd(size, step), step)
        value = b.select(b.fcmp_ordered("<", size, _f(2.0 ** (1 - self.bias))), small, normal)
        value = b.select(b.fcmp_ordered(">", value, _f(self.greatest)), _f(self.above), value)
        value = b.select(b.fcmp_unordered("uno", x, x), x, value)
        return _with_sign(b, value, x)

    def encode(self, b: Builder, x: Value) -> Value:
        scaled = _bits(b, b.fmul(_abs(b, x), _f(2.0 ** (self.bias - 127))))
        size = b.lshr(scaled, _int(I32, 23 - self.mantissa))
        if self.above == float("inf"):
            code = (0x7F >> self.mantissa) << self.mantissa
            size = b.select(b.fcmp_ordered("==", _abs(b, x), _f(float("inf"))), _int(I32, code), size)
        size = b.select(b.fcmp_unordered("uno", x, x), _int(I32, 0x7F), size)
        sign = b.lshr(b.and_(_bits(b, x), _int(I32, 0x80000000)), _int(I32, 24))
        return b.trunc(b.or_(size, sign), I8)


_E4M3, _E5M2 = _Small(3, 7, 448.0, float("nan")), _Small(2, 15, 57344.0, float("inf"))
_same = lambda b, x: x
for _name, _type in (
    ("f64", types.float64), ("f32", types.float32), ("i64", types.int64), ("i32", types.int32), ("i8", types.int8),
    ("u8", types.uint8),
):  # fmt: skip
    _memory(_name, _type, _same, _same)
_memory("f16", types.float32, _f16_decode, _f16_encode)
_memory("bf16", types.float32, _bf16_decode, _bf16_encode)
_memory("f8e4m3", types.float32, _E4M3.decode, _E4M3.encode)
_memory("f8e5m2", types.float32, _E5M2.decode, _E5M2.encode)
_memory("bool", types.boolean, lambda b, x: b.icmp_unsigned("!=", x, _int(I8, 0)), lambda b, x: b.zext(x, I8))
for _name, _emit in (
    ("round_f16", _f16_round), ("round_bf16", _bf16_round), ("round_f8e4m3", _E4M3.round), ("round_f8e5m2", _E5M2.round),
):  # fmt: skip
    _intrinsic(_name, lambda x: types.float32, _emit)


def _copy(b: Builder, target: Value, at: Value, source: Value, start: Value, count: Value) -> None:
    item = cgutils.sizeof(b, target.type)
    cgutils.raw_memcpy(b, _place(b, target, at), _place(b, source, start), count, item)


_intrinsic("copy", lambda *arguments: types.void, _copy)


# ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _to_odd(b: Builder, x: Value) -> Value:
    """f64 to f32 such that rounding again to a narrower type rounds correctly once: inexact results get an odd last bit."""
    y = b.fptrunc(x, F32)
    back = b.fpext(y, F64)
    away = b.fcmp_ordered(">", _abs(b, back), _abs(b, x))
    inexact = b.fcmp_ordered("one", back, x)
    bits = b.sub(_bits(b, y), b.zext(away, I32))
    return _float(b, b.or_(bits, b.zext(inexact, I32)))


def _integer_to_odd(b: Builder, x: Value) -> Value:
    """i64 to f32, likewise: from 2**53 on, integers are made multiples of 1024 first, also to odd; then they are exact in f64."""
    floor = b.and_(x, _int(I64, -1024))
    large = b.icmp_signed(">=", b.select(b.icmp_signed("<", x, _int(I64, 0)), b.neg(x), x), _int(I64, 2**53))
    least = b.icmp_signed("==", x, _int(I64, -(2**63)))
    odd = b.and_(b.or_(large, least), b.icmp_signed("!=", floor, x))
    return _to_odd(b, b.sitofp(b.select(odd, b.or_(floor, _int(I64, 1024)), x), F64))


def _saturated(bits: int, signed: bool) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.i{bits}.{_suffix(x)}"
        return _call(b, name, x, result=ir.IntType(bits))

    return one


def _resized(bits: int) -> Emit:
    """Between integers: wrapping, or extended by the sign that the source's name tells."""

    def one(b: Builder, x: Value) -> Value:
        target = ir.IntType(bits)
        return b.trunc(x, target) if x.type.width > bits else x if x.type.width == bits else b.sext(x, target)

    return one


def _resized_unsigned(bits: int) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        target = ir.IntType(bits)
        return b.zext(x, target) if x.type.width < bits else x

    return one


_INTEGERS = (("i64", 64, types.int64), ("i32", 32, types.int32), ("i8", 8, types.int8), ("u8", 8, types.uint8))
for _name, _width, _type in _INTEGERS:
    # From integers with a sign; from u8 and bool; from floats.
    _intrinsic(f"as_{_name}", lambda x, type=_type: type, _resized(_width))
    _intrinsic(f"widen_{_name}", lambda x, type=_type: type, _resized_unsigned(_width))
    _intrinsic(f"trunc_{_name}", lambda x, type=_type: type, _saturated(_width, _name != "u8"))
_intrinsic("signed_f32", lambda x: types.float32, lambda b, x: b.sitofp(x, F32))
_intrinsic("signed_f64", lambda x: types.float64, lambda b, x: b.sitofp(x, F64))
_intrinsic("unsigned_f32", lambda x: types.float32, lambda b, x: b.uitofp(x, F32))
_intrinsic("unsigned_f64", lambda x: types.float64, lambda b, x: b.uitofp(x, F64))
_intrinsic("to_f32", lambda x: types.float32, lambda b, x: b.fptrunc(x, F32))
_intrinsic("to_f64", lambda x: types.float64, lambda b, x: b.fpext(x, F64))
_intrinsic("odd_f32", lambda x: types.float32, _to_odd)
_intrinsic("integer_odd_f32", lambda x: types.float32, _integer_to_odd)


# ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_float(x: Value) -> bool:
    return x.type in (F32, F64)


def _floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """Floor division that wraps; anything where the divisor is 0."""
    quotient, _, minus = _divided(b, x, y)
    return b.select(minus, b.neg(x), quotient)


def _remainder(b: Builder, x: Value, y: Value) -> Value:
    _, rest, minus = _divided(b, x, y)
    return b.select(minus, _int(x.type, 0), rest)


def _divided(b: Builder, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """Quotient and remainder by a divisor other than 0 and -1, and whether it is -1: the least integer by -1 would trap."""
    minus = b.icmp_signed("==", y, _int(y.type, -1))
    zero = b.icmp_signed("==", y, _int(y.type, 0))
    safe = b.select(b.or_(minus, zero), _int(y.type, 1), y)
    quotient = b.sdiv(x, safe)
    rest = b.sub(x, b.mul(quotient, safe))
    down = b.and_(b.icmp_signed("!=", rest, _int(y.type, 0)), b.icmp_signed("<", b.xor(rest, safe), _int(y.type, 0)))
    return b.sub(quotient, b.zext(down, y.type)), b.add(rest, b.select(down, safe, _int(y.type, 0))), minus


def _unsigned_safe(b: Builder, y: Value) -> Value:
    return b.select(b.icmp_unsigned("==", y, _int(y.type, 0)), _int(y.type, 1), y)


def _float_remainder(b: Builder, x: Value, y: Value) -> Value:
    """With the sign of the divisor; NaN where it is 0."""
    rest = b.frem(x, y)
    zero = _f(0.0, x)
    other = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
    moved = b.select(other, b.fadd(rest, y), rest)
    nothing = _call(b, f"llvm.copysign.{_suffix(x)}", zero, y)
    return b.select(b.fcmp_ordered("==", rest, zero), nothing, moved)


def _sign(b: Builder, x: Value) -> Value:
    one, zero = _f(1.0, x), _f(0.0, x)
    result = b.select(b.fcmp_ordered("<", x, zero), _f(-1.0, x), b.select(b.fcmp_ordered("==", x, zero), zero, x))
    return b.select(b.fcmp_ordered(">", x, zero), one, result)


def _integer_sign(b: Builder, x: Value) -> Value:
    zero = _int(x.type, 0)
    negative = b.select(b.icmp_signed("<", x, zero), _int(x.type, -1), zero)
    return b.select(b.icmp_signed(">", x, zero), _int(x.type, 1), negative)


def _same_type(x: Any, *others: Any) -> Any:
    return x


# Sums and products of a reduction may be taken in any order: the flag lets loops over them be vectorized.
_FLAGS = ("reassoc", "nsz")
_BINARY: dict[str, Emit] = {
    "sum_float": lambda b, x, y: b.fadd(x, y, flags=_FLAGS),
    "prod_float": lambda b, x, y: b.fmul(x, y, flags=_FLAGS),
    "max_float": lambda b, x, y: _call(b, f"llvm.maximum.{_suffix(x)}", x, y),
    "min_float": lambda b, x, y: _call(b, f"llvm.minimum.{_suffix(x)}", x, y),
    "add": lambda b, x, y: b.fadd(x, y) if _is_float(x) else b.add(x, y),
    "sub": lambda b, x, y: b.fsub(x, y) if _is_float(x) else b.sub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y) if _is_float(x) else b.mul(x, y),
    "divide": lambda b, x, y: b.fdiv(x, y),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "unsigned_divide": lambda b, x, y: b.udiv(x, _unsigned_safe(b, y)),
    "unsigned_remainder": lambda b, x, y: b.urem(x, _unsigned_safe(b, y)),
    "float_remainder": _float_remainder,
    "max_int": lambda b, x, y: _call(b, f"llvm.smax.{_suffix(x)}", x, y),
    "min_int": lambda b, x, y: _call(b, f"llvm.smin.{_suffix(x)}", x, y),
    "max_unsigned": lambda b, x, y: _call(b, f"llvm.umax.{_suffix(x)}", x, y),
    "min_unsigned": lambda b, x, y: _call(b, f"llvm.umin.{_suffix(x)}", x, y),
}
for _name, _emit in _BINARY.items():
    _intrinsic(_name, _same_type, _emit)
# A step of a sum of products: the product may be fused into the sum, and need not be rounded before.
_intrinsic(
    "sum_product",
    _same_type,
    lambda b, s, x, y: b.fadd(s, b.fmul(x, y, flags=("contract", "reassoc")), flags=("contract", "reassoc", "nsz")),
)
_intrinsic("select", lambda c, x, y: x, lambda b, c, x, y: b.select(c, x, y))
_intrinsic("both", _same_type, lambda b, x, y: b.and_(x, y))
_intrinsic("either", _same_type, lambda b, x, y: b.or_(x, y))
_intrinsic("negation", _same_type, lambda b, x: b.not_(x))
for _name, _sign_name in (("eq", "=="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    _boolean = lambda x, y: types.boolean
    _intrinsic(f"{_name}_float", _boolean, lambda b, x, y, op=_sign_name: b.fcmp_ordered(op, x, y))
    _intrinsic(f"{_name}_int", _boolean, lambda b, x, y, op=_sign_name: b.icmp_signed(op, x, y))
    _intrinsic(f"{_name}_unsigned", _boolean, lambda b, x, y, op=_sign_name: b.icmp_unsigned(op, x, y))
for _name in ("int", "unsigned"):
    _intrinsic(f"ne_{_name}", lambda x, y: types.boolean, lambda b, x, y: b.icmp_unsigned("!=", x, y))
_intrinsic("ne_float", lambda x, y: types.boolean, lambda b, x, y: b.fcmp_unordered("une", x, y))


def _power(base: int, exponent: int) -> int:
    """An integer power by squaring, which wraps; 1 where the exponent is negative."""
    result = 1
    while exponent > 0:
        if exponent & 1:
            result = result * base
        base = base * base
        exponent >>= 1
    return result


_publish("integer_power", njit(_power))


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it leaves the nearest integer in the last bits


def _exp(b: Builder, x: Value) -> Value:
    """2**n * exp(r) with |r| <= ln 2 / 2; coefficients of Cephes' expf (S. L. Moshier)."""
    x = b.select(b.fcmp_ordered(">", x, _f(89.0)), _f(89.0), x)
    x = b.select(b.fcmp_ordered("<", x, _f(-104.0)), _f(-104.0), x)
    shifted = _fma(b, x, _f(_LOG2E), _f(_MAGIC))
    n = b.fsub(shifted, _f(_MAGIC))
    r = _fma(b, n, _f(-_LN2_HIGH), x)
    r = _fma(b, n, _f(-_LN2_LOW), r)
    inner = _horner(b, r, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1))
    result = b.fadd(_fma(b, inner, b.fmul(r, r), r), _f(1.0))
    whole = b.sub(_bits(b, shifted), _bits(b, _f(_MAGIC)))
    half = b.ashr(whole, _int(I32, 1))  # in two steps, since 2**n itself may be out of range
    for part in (half, b.sub(whole, half)):
        result = b.fmul(result, _float(b, b.shl(b.add(part, _int(I32, 127)), _int(I32, 23))))
    return result


def _log(b: Builder, x: Value) -> Value:
    """log(m) + e ln 2 with m in [sqrt(1/2), sqrt 2); coefficients of Cephes' logf."""
    tiny = b.fcmp_ordered("<", x, _f(1.17549435e-38))
    scaled = b.select(tiny, b.fmul(x, _f(2.0**23)), x)
    bits = b.sub(_bits(b, scaled), _int(I32, 0x3F3504F3))  # of sqrt(1/2): then the exponent is that of the interval
    exponent = b.ashr(bits, _int(I32, 23))
    mantissa = _float(b, b.add(b.and_(bits, _int(I32, 0x7FFFFF)), _int(I32, 0x3F3504F3)))
    e = b.fsub(b.sitofp(exponent, F32), b.select(tiny, _f(23.0), _f(0.0)))
    r = b.fsub(mantissa, _f(1.0))
    square = b.fmul(r, r)
    inner = _horner(
        b,
        r,
        (
            7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
            2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        ),
    )  # fmt: skip
    y = b.fmul(b.fmul(inner, r), square)
    y = _fma(b, e, _f(_LN2_LOW), y)
    y = _fma(b, square, _f(-0.5), y)
    y = _fma(b, e, _f(_LN2_HIGH), b.fadd(r, y))
    y = b.select(b.fcmp_ordered("==", x, _f(float("inf"))), x, y)
    y = b.select(b.fcmp_ordered("==", x, _f(0.0)), _f(float("-inf")), y)
    return b.select(b.fcmp_unordered("ult", x, _f(0.0)), _f(float("nan")), y)


_exp_f32, _log_f32 = _inline("exp.f32", _exp), _inline("log.f32", _log)


def _tanh(b: Builder, x: Value) -> Value:
    """Near 0 a polynomial (Cephes' tanhf), else 1 - 2 / (exp(2 |x|) + 1)."""
    size, square = _abs(b, x), b.fmul(x, x)
    inner = _horner(b, square, (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1))
    near = _fma(b, b.fmul(inner, square), x, x)
    e = _exp_f32(b, b.fmul(size, _f(2.0)))
    far = b.fsub(_f(1.0), b.fdiv(_f(2.0), b.fadd(e, _f(1.0))))
    return _call(b, "llvm.copysign.f32", b.select(b.fcmp_ordered("<", size, _f(0.625)), near, far), x)  # the sum of zeros is +0


def _erf(b: Builder, x: Value) -> Value:
    """Two polynomials by N. Juffa (public domain): x + x p(x**2) near 0, and 1 - exp(q(|x|)) from there."""
    size, square = _abs(b, x), b.fmul(x, x)
    r = _fma(b, _f(-1.72853470e-5), size, _f(3.83197126e-4))
    u = _fma(b, _f(-3.88396438e-3), size, _f(2.42546219e-2))
    r = _fma(b, r, square, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = _fma(b, r, size, _f(c))
    r = _fma(b, r, size, b.fneg(size))
    far = _call(b, "llvm.copysign.f32", b.fsub(_f(1.0), _exp_f32(b, r)), x)
    inner = _horner(b, square, (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1))
    near = _fma(b, inner, x, x)
    return b.select(b.fcmp_ordered(">", size, _f(0.927734375)), far, near)


_tanh_f32, _erf_f32 = _inline("tanh.f32", _tanh), _inline("erf.f32", _erf)


def _by_type(narrow: Emit, wide: Emit) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        return narrow(b, x) if x.type == F32 else wide(b, x)

    return one


def _library(name: str) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        return _call(b, f"{name}f" if x.type == F32 else name, x)

    return one


_UNARY: dict[str, Emit] = {
    "exp": _by_type(_exp_f32, _llvm("exp")),
    "log": _by_type(_log_f32, _llvm("log")),
    "sqrt": _llvm("sqrt"),
    "rsqrt": lambda b, x: b.fdiv(_f(1.0, x), _call(b, f"llvm.sqrt.{_suffix(x)}", x)),
    "sin": _llvm("sin"),
    "cos": _llvm("cos"),
    "tanh": _by_type(_tanh_f32, _library("tanh")),
    "erf": _by_type(_erf_f32, _library("erf")),
    "absolute": _abs,
    "sign": _sign,
    "floor": _llvm("floor"),
    "ceil": _llvm("ceil"),
    "nearest": _llvm("rint"),
    "minus": lambda b, x: b.fneg(x) if _is_float(x) else b.neg(x),
    "integer_sign": _integer_sign,
    "integer_absolute": lambda b, x: b.select(b.icmp_signed("<", x, _int(x.type, 0)), b.neg(x), x),
}
for _name, _emit in _UNARY.items():
    _intrinsic(_name, _same_type, _emit)
_intrinsic("power", _same_type, lambda b, x, y: _call(b, f"llvm.pow.{_suffix(x)}", x, y))


def namespace() -> dict[str, Any]:
    """What the globals of an emitted kernel hold."""
    names: dict[str, Any] = {name: globals()[name] for name in __all__}
    constants = {"f32": types.float32, "f64": types.float64, "i32": types.int32, "i8": types.int8, "u8": types.uint8}
    return names | constants | {"inf": float("inf"), "nan": float("nan"), "__builtins__": {"range": range}}
