"""Operations as LLVM's IR, for every processor: what `cpu.intrinsics` and `ptx_scalar` share.

Building blocks; floats of 16 and 8 bits, as f32 and as the bits in memory; conversions that round once; integer division as core
has it. NVVM's language lacks some of LLVM's intrinsics: nothing here uses these, but what `named` and `call` are given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir

F32, F64, I1 = ir.FloatType(), ir.DoubleType(), ir.IntType(1)
I8, I16, I32, I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
Builder: TypeAlias = Any  # llvmlite's IRBuilder
Value: TypeAlias = Any  # of LLVM
Emit: TypeAlias = Callable[..., Any]


def real(value: float, like: Value | None = None) -> Value:
    """A number, of `like`'s type: where that is a vector, in all of its lanes."""
    return _everywhere(F32 if like is None else like.type, value)


def whole(type: Any, value: int) -> Value:
    return _everywhere(type, value)


def _everywhere(type: Any, value: float) -> Value:
    return ir.Constant(type, [value] * type.count if isinstance(type, ir.VectorType) else value)


def scalar_of(type: Any) -> Any:
    """The type of a vector's lanes; a scalar's own."""
    return type.element if isinstance(type, ir.VectorType) else type


def shaped(scalar: Any, like: Value) -> Any:
    """A type, for as many lanes as a value has."""
    return ir.VectorType(scalar, like.type.count) if isinstance(like.type, ir.VectorType) else scalar


def call(b: Builder, name: str, *args: Value, result: Any = None) -> Value:
    """A call of an LLVM intrinsic `name` (with its type appended by the caller) or a function of the C library."""
    type = ir.FunctionType(result or args[0].type, [a.type for a in args])
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, type, name)
        if not name.startswith("llvm."):
            for attribute in ("nounwind", "readnone"):
                function.attributes.add(attribute)
    return b.call(function, args)


def suffix(value: Value) -> str:
    if isinstance(value.type, ir.VectorType):
        return f"v{value.type.count}{_letters(value.type.element)}"
    return _letters(value.type)


def _letters(type: Any) -> str:
    return "f32" if type == F32 else "f64" if type == F64 else f"i{type.width}"


def named(name: str) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        return call(b, f"llvm.{name}.{suffix(x)}", x)

    return one


def fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return call(b, f"llvm.fma.{suffix(x)}", x, y, z)


def as_bits(b: Builder, x: Value) -> Value:
    return b.bitcast(x, shaped(I32 if scalar_of(x.type) == F32 else I64, x))


def as_float(b: Builder, x: Value) -> Value:
    return b.bitcast(x, shaped(F32 if scalar_of(x.type) == I32 else F64, x))


def magnitude(b: Builder, x: Value) -> Value:
    bits = as_bits(b, x)  # NVVM's language, which shares this, has neither llvm.fabs nor llvm.copysign
    return as_float(b, b.and_(bits, whole(bits.type, (1 << (scalar_of(bits.type).width - 1)) - 1)))


def with_sign(b: Builder, size: Value, x: Value) -> Value:
    """A number with the sign of another, of the same type."""
    bits = as_bits(b, x)
    sign = b.and_(bits, whole(bits.type, -(1 << (scalar_of(bits.type).width - 1))))
    return as_float(b, b.or_(as_bits(b, magnitude(b, size)), sign))


# ── floats of 16 and 8 bits ─────────────────────────────────────────────────────────────────────────────────────────────


def bf16_decode(b: Builder, x: Value) -> Value:
    return b.bitcast(b.shl(b.zext(x, I32), whole(I32, 16)), F32)


def bf16_round(b: Builder, x: Value) -> Value:
    bits = as_bits(b, x)
    odd = b.and_(b.lshr(bits, whole(I32, 16)), whole(I32, 1))
    up = b.add(b.add(bits, whole(I32, 0x7FFF)), odd)
    rounded = as_float(b, b.and_(up, whole(I32, 0xFFFF0000)))
    return b.select(b.fcmp_unordered("uno", x, x), x, rounded)


def bf16_encode(b: Builder, x: Value) -> Value:
    high = b.trunc(b.lshr(as_bits(b, x), whole(I32, 16)), I16)
    # A NaN whose upper half is that of an infinity keeps being one.
    return b.select(b.fcmp_unordered("uno", x, x), b.or_(high, whole(I16, 0x40)), high)


def f16_decode(b: Builder, x: Value) -> Value:
    return b.fpext(b.bitcast(x, ir.HalfType()), F32)


def f16_encode(b: Builder, x: Value) -> Value:
    return b.bitcast(b.fptrunc(x, ir.HalfType()), I16)


def f16_round(b: Builder, x: Value) -> Value:
    return b.fpext(b.fptrunc(x, ir.HalfType()), F32)


class SmallFloat:
    """An 8-bit float: `mantissa` bits, exponents biased by `bias`, the greatest value, and what lies above it."""

    def __init__(self, mantissa: int, bias: int, greatest: float, above: float) -> None:
        self.mantissa, self.bias, self.greatest, self.above = mantissa, bias, greatest, above

    def decode(self, b: Builder, x: Value) -> Value:
        """The bits, placed where f32 has them, are the value times a power of two: also where they are subnormal."""
        wide = b.zext(x, I32)
        size = b.and_(wide, whole(I32, 0x7F))
        sign = b.shl(b.and_(wide, whole(I32, 0x80)), whole(I32, 24))
        value = b.fmul(as_float(b, b.shl(size, whole(I32, 23 - self.mantissa))), real(2.0 ** (127 - self.bias)))
        bits = as_bits(b, value)
        if self.above == float("inf"):
            code = (0x7F >> self.mantissa) << self.mantissa
            special = whole(I32, 0x7F800000)
            bits = b.select(b.icmp_unsigned("==", size, whole(I32, code)), special, bits)
            bits = b.select(b.icmp_unsigned(">", size, whole(I32, code)), whole(I32, 0x7FC00000), bits)
        else:
            bits = b.select(b.icmp_unsigned("==", size, whole(I32, 0x7F)), whole(I32, 0x7FC00000), bits)
        return as_float(b, b.or_(bits, sign))

    def round(self, b: Builder, x: Value) -> Value:
        """To nearest even: below the least normal value by adding and taking off a number whose last bit is the least step."""
        cut = 23 - self.mantissa
        bits = as_bits(b, magnitude(b, x))
        odd = b.and_(b.lshr(bits, whole(I32, cut)), whole(I32, 1))
        up = b.add(b.add(bits, whole(I32, (1 << (cut - 1)) - 1)), odd)
        normal = as_float(b, b.and_(up, whole(I32, ~((1 << cut) - 1) & 0xFFFFFFFF)))
        step = real(2.0 ** (1 - self.bias - self.mantissa + 23))
        size = magnitude(b, x)
        small = b.fsub(b.fadd(size, step), step)
        value = b.select(b.fcmp_ordered("<", size, real(2.0 ** (1 - self.bias))), small, normal)
        value = b.select(b.fcmp_ordered(">", value, real(self.greatest)), real(self.above), value)
        value = b.select(b.fcmp_unordered("uno", x, x), x, value)
        return with_sign(b, value, x)

    def encode(self, b: Builder, x: Value) -> Value:
        scaled = as_bits(b, b.fmul(magnitude(b, x), real(2.0 ** (self.bias - 127))))
        size = b.lshr(scaled, whole(I32, 23 - self.mantissa))
        if self.above == float("inf"):
            code = (0x7F >> self.mantissa) << self.mantissa
            size = b.select(b.fcmp_ordered("==", magnitude(b, x), real(float("inf"))), whole(I32, code), size)
        size = b.select(b.fcmp_unordered("uno", x, x), whole(I32, 0x7F), size)
        sign = b.lshr(b.and_(as_bits(b, x), whole(I32, 0x80000000)), whole(I32, 24))
        return b.trunc(b.or_(size, sign), I8)


E4M3, E5M2 = SmallFloat(3, 7, 448.0, float("nan")), SmallFloat(2, 15, 57344.0, float("inf"))


# ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_odd(b: Builder, x: Value) -> Value:
    """f64 to f32 such that rounding again to a narrower type rounds correctly once: inexact results get an odd last bit."""
    y = b.fptrunc(x, F32)
    back = b.fpext(y, F64)
    away = b.fcmp_ordered(">", magnitude(b, back), magnitude(b, x))
    inexact = b.fcmp_ordered("one", back, x)
    bits = b.sub(as_bits(b, y), b.zext(away, I32))
    return as_float(b, b.or_(bits, b.zext(inexact, I32)))


def integer_to_odd(b: Builder, x: Value) -> Value:
    """i64 or i32 to f32, likewise: from 2**53 on, integers are made multiples of 1024 first, also to odd; then they are exact in
    f64."""
    x = b.sext(x, I64) if x.type != I64 else x
    floor = b.and_(x, whole(I64, -1024))
    large = b.icmp_signed(">=", b.select(b.icmp_signed("<", x, whole(I64, 0)), b.neg(x), x), whole(I64, 2**53))
    least = b.icmp_signed("==", x, whole(I64, -(2**63)))
    odd = b.and_(b.or_(large, least), b.icmp_signed("!=", floor, x))
    return to_odd(b, b.sitofp(b.select(odd, b.or_(floor, whole(I64, 1024)), x), F64))


def unsigned_to_odd(b: Builder, x: Value) -> Value:
    """u64 or u32 to f32, likewise."""
    x = b.zext(x, I64) if x.type != I64 else x
    floor = b.and_(x, whole(I64, -2048))
    odd = b.and_(b.icmp_unsigned(">=", x, whole(I64, 2**53)), b.icmp_unsigned("!=", floor, x))
    return to_odd(b, b.uitofp(b.select(odd, b.or_(floor, whole(I64, 2048)), x), F64))


def resized(bits: int) -> Emit:
    """Between integers: wrapping, or extended by the source's sign."""

    def one(b: Builder, x: Value) -> Value:
        target = ir.IntType(bits)
        return b.trunc(x, target) if x.type.width > bits else x if x.type.width == bits else b.sext(x, target)

    return one


def resized_unsigned(bits: int) -> Emit:
    """From an integer without a sign."""

    def one(b: Builder, x: Value) -> Value:
        target = ir.IntType(bits)
        return b.trunc(x, target) if x.type.width > bits else x if x.type.width == bits else b.zext(x, target)

    return one


# ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_float(x: Value) -> bool:
    return x.type in (F32, F64)


def floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """Floor division that wraps; anything where the divisor is 0."""
    quotient, _, minus = _divided(b, x, y)
    return b.select(minus, b.neg(x), quotient)


def remainder(b: Builder, x: Value, y: Value) -> Value:
    _, rest, minus = _divided(b, x, y)
    return b.select(minus, whole(x.type, 0), rest)


def _divided(b: Builder, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """Quotient and remainder by a divisor other than 0 and -1, and whether it is -1: the least integer by -1 would trap."""
    minus = b.icmp_signed("==", y, whole(y.type, -1))
    zero = b.icmp_signed("==", y, whole(y.type, 0))
    safe = b.select(b.or_(minus, zero), whole(y.type, 1), y)
    quotient = b.sdiv(x, safe)
    rest = b.sub(x, b.mul(quotient, safe))
    down = b.and_(b.icmp_signed("!=", rest, whole(y.type, 0)), b.icmp_signed("<", b.xor(rest, safe), whole(y.type, 0)))
    return b.sub(quotient, b.zext(down, y.type)), b.add(rest, b.select(down, safe, whole(y.type, 0))), minus


def unsigned_divide(b: Builder, x: Value, y: Value) -> Value:
    return b.udiv(x, _unsigned_safe(b, y))


def unsigned_remainder(b: Builder, x: Value, y: Value) -> Value:
    return b.urem(x, _unsigned_safe(b, y))


def _unsigned_safe(b: Builder, y: Value) -> Value:
    return b.select(b.icmp_unsigned("==", y, whole(y.type, 0)), whole(y.type, 1), y)


def shift_left(b: Builder, x: Value, y: Value) -> Value:
    """All bits are gone where the amount, read without a sign, is not below the width."""
    inside, safe = _amount(b, y, 0)
    return b.select(inside, b.shl(x, safe), whole(x.type, 0))


def shift_right(b: Builder, x: Value, y: Value) -> Value:
    """Copies of the sign come in from the left."""
    return b.ashr(x, _amount(b, y, y.type.width - 1)[1])


def unsigned_shift_right(b: Builder, x: Value, y: Value) -> Value:
    inside, safe = _amount(b, y, 0)
    return b.select(inside, b.lshr(x, safe), whole(x.type, 0))


def _amount(b: Builder, y: Value, otherwise: int) -> tuple[Value, Value]:
    """Whether a shift's amount is at least 0 and below the width, and it or another one: LLVM's shifts mean nothing else."""
    inside = b.icmp_unsigned("<", y, whole(y.type, y.type.width))
    return inside, b.select(inside, y, whole(y.type, otherwise))


BITS: dict[str, Emit] = {
    "bit_and": lambda b, x, y: b.and_(x, y),
    "bit_or": lambda b, x, y: b.or_(x, y),
    "bit_xor": lambda b, x, y: b.xor(x, y),
    "shift_left": shift_left,
    "shift_right": shift_right,
    "unsigned_shift_right": unsigned_shift_right,
}


def signed_exponent(b: Builder, x: Value) -> Value:
    """An exponent in 64 bits without a sign, as one below 2**63 that gives the same power modulo 2**64.

    Powers of an odd number come back after 2**62 steps, and those of an even one are 0 from the 64th on.
    """
    smaller = b.or_(b.and_(x, whole(I64, 2**62 - 1)), whole(I64, 2**62))
    return b.select(b.icmp_signed("<", x, whole(I64, 0)), smaller, x)


def sign(b: Builder, x: Value) -> Value:
    one, zero = real(1.0, x), real(0.0, x)
    result = b.select(b.fcmp_ordered("<", x, zero), real(-1.0, x), b.select(b.fcmp_ordered("==", x, zero), zero, x))
    return b.select(b.fcmp_ordered(">", x, zero), one, result)


def integer_sign(b: Builder, x: Value) -> Value:
    zero = whole(x.type, 0)
    negative = b.select(b.icmp_signed("<", x, zero), whole(x.type, -1), zero)
    return b.select(b.icmp_signed(">", x, zero), whole(x.type, 1), negative)


def integer_absolute(b: Builder, x: Value) -> Value:
    return b.select(b.icmp_signed("<", x, whole(x.type, 0)), b.neg(x), x)
