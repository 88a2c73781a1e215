"""What emitted CPU kernels call: memory, conversions, and functions, each as LLVM IR that vectorizes.

Values of 16- and 8-bit floats are held as f32, rounded to what their element type has after each operation (`round_*`), so that
kernels compute what the interpreter does; `load_*` and `store_*` change between that and the bits in memory. The functions of f32
and `exp` and `log` of f64 are polynomials without branches, at most two units in the last place from the true value
(`tests/backend/cpu` measures them), because a vectorized loop cannot call the C library; the others of f64 are the C library's.

Integers wrap. Divisions are given divisors that are not 0, except that any divisor may be given: 0 gives an arbitrary result
and never stops the process (the kernel has taken note of it).
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

from llvmlite import ir

from axon.backend.cpu.lowering import Operation, Surroundings, Type
from axon.backend.kernel import llvm
from axon.backend.kernel.llvm import (
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    Builder,
    Emit,
    Value,
    as_bits,
    as_float,
    call,
    fma,
    real,
    suffix,
    whole,
)
from axon.backend.kernel.special import Functions
from axon.backend.tiles import microkernel
from axon.base.element import Element

_operations: dict[str, Operation] = {}


def _intrinsic(name: str, typing: Callable[..., Type], emit: Emit) -> None:
    """An operation of emitted code: `typing` gives the result's type for the arguments', `emit` the IR."""
    _operations[name] = Operation(typing, emit)


def _horner(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    result = real(coefficients[0], x)
    for c in coefficients[1:]:
        result = fma(b, result, x, real(c, x))
    return result


def _pairwise(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """The same polynomial as `_horner`, by pairs: a long one waits less for itself where nothing else is to do (Estrin)."""
    terms = [real(c, x) for c in reversed(coefficients)]
    while len(terms) > 1:
        pairs = [fma(b, high, x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) - len(terms) % 2 :]
        x = b.fmul(x, x)
    return terms[0]


def _inline(name: str, emit: Emit) -> Emit:
    """A function of one float that stands once in a module and is inlined everywhere: less text than its body at every call."""

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
    _intrinsic(f"store_{name}", lambda p, o, v: None, store)


_INTEGERS = tuple((element.value, element.bits, element) for element in Element if element.is_integer)
_same = lambda b, x: x
for _name, _type in (
    ("f64", Element.F64), ("f32", Element.F32), *((name, type) for name, _, type in _INTEGERS),
):  # fmt: skip
    _memory(_name, _type, _same, _same)
_memory("f16", Element.F32, llvm.f16_decode, llvm.f16_encode)
_memory("bf16", Element.F32, llvm.bf16_decode, llvm.bf16_encode)
_memory("f8e4m3", Element.F32, llvm.E4M3.decode, llvm.E4M3.encode)
_memory("f8e5m2", Element.F32, llvm.E5M2.decode, llvm.E5M2.encode)
_memory("bool", Element.BOOL, lambda b, x: b.icmp_unsigned("!=", x, whole(I8, 0)), lambda b, x: b.zext(x, I8))
for _name, _emit in (
    ("f16", llvm.f16_round), ("bf16", llvm.bf16_round), ("f8e4m3", llvm.E4M3.round), ("f8e5m2", llvm.E5M2.round),
):  # fmt: skip
    _intrinsic(f"round_{_name}", lambda x: Element.F32, _emit)


def _copy(b: Builder, target: Value, at: Value, source: Value, start: Value, count: Value) -> None:
    one = b.ptrtoint(b.gep(ir.Constant(target.type, None), [whole(I64, 1)]), I64)  # how many bytes an element takes
    byte = I8.as_pointer()
    places = (b.bitcast(_place(b, pointer, offset), byte) for pointer, offset in ((target, at), (source, start)))
    memcpy = b.module.declare_intrinsic("llvm.memcpy", [byte, byte, I64])
    b.call(memcpy, [*places, b.mul(count, one), whole(I1, 0)])


_intrinsic("copy", lambda *arguments: None, _copy)


# ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _saturated(bits: int, signed: bool) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.i{bits}.{suffix(x)}"
        return call(b, name, x, result=ir.IntType(bits))

    return one


for _name, _width, _type in _INTEGERS:
    # From integers with a sign; from those without one and from bool; from floats.
    _intrinsic(f"as_{_name}", lambda x, type=_type: type, llvm.resized(_width))
    _intrinsic(f"widen_{_name}", lambda x, type=_type: type, llvm.resized_unsigned(_width))
    _intrinsic(f"trunc_{_name}", lambda x, type=_type: type, _saturated(_width, _name[0] == "i"))
_intrinsic("signed_f32", lambda x: Element.F32, lambda b, x: b.sitofp(x, F32))
_intrinsic("signed_f64", lambda x: Element.F64, lambda b, x: b.sitofp(x, F64))
_intrinsic("unsigned_f32", lambda x: Element.F32, lambda b, x: b.uitofp(x, F32))
_intrinsic("unsigned_f64", lambda x: Element.F64, lambda b, x: b.uitofp(x, F64))
_intrinsic("to_f32", lambda x: Element.F32, lambda b, x: b.fptrunc(x, F32))
_intrinsic("to_f64", lambda x: Element.F64, lambda b, x: b.fpext(x, F64))
_intrinsic("odd_f32", lambda x: Element.F32, llvm.to_odd)
_intrinsic("integer_odd_f32", lambda x: Element.F32, llvm.integer_to_odd)
_intrinsic("unsigned_odd_f32", lambda x: Element.F32, llvm.unsigned_to_odd)


# ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _float_remainder(b: Builder, x: Value, y: Value) -> Value:
    """With the sign of the divisor; NaN where it is 0."""
    rest = b.frem(x, y)
    zero = real(0.0, x)
    other = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
    moved = b.select(other, b.fadd(rest, y), rest)
    nothing = call(b, f"llvm.copysign.{suffix(x)}", zero, y)
    return b.select(b.fcmp_ordered("==", rest, zero), nothing, moved)


def _same_type(x: Any, *others: Any) -> Any:
    return x


# Sums and products of a reduction may be taken in any order: the flag lets loops over them be vectorized.
_FLAGS = ("reassoc", "nsz")
_BINARY: dict[str, Emit] = {
    "sum_float": lambda b, x, y: b.fadd(x, y, flags=_FLAGS),
    "prod_float": lambda b, x, y: b.fmul(x, y, flags=_FLAGS),
    "max_float": lambda b, x, y: call(b, f"llvm.maximum.{suffix(x)}", x, y),
    "min_float": lambda b, x, y: call(b, f"llvm.minimum.{suffix(x)}", x, y),
    "add": lambda b, x, y: b.fadd(x, y) if llvm.is_float(x) else b.add(x, y),
    "sub": lambda b, x, y: b.fsub(x, y) if llvm.is_float(x) else b.sub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y) if llvm.is_float(x) else b.mul(x, y),
    "divide": lambda b, x, y: b.fdiv(x, y),
    "floor_divide": llvm.floor_divide,
    "remainder": llvm.remainder,
    "unsigned_divide": llvm.unsigned_divide,
    "unsigned_remainder": llvm.unsigned_remainder,
    "float_remainder": _float_remainder,
    "max_int": lambda b, x, y: call(b, f"llvm.smax.{suffix(x)}", x, y),
    "min_int": lambda b, x, y: call(b, f"llvm.smin.{suffix(x)}", x, y),
    "max_unsigned": lambda b, x, y: call(b, f"llvm.umax.{suffix(x)}", x, y),
    "min_unsigned": lambda b, x, y: call(b, f"llvm.umin.{suffix(x)}", x, y),
}
for _name, _emit in (_BINARY | llvm.BITS).items():
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
    _boolean = lambda x, y: Element.BOOL
    _intrinsic(f"{_name}_float", _boolean, lambda b, x, y, op=_sign_name: b.fcmp_ordered(op, x, y))
    _intrinsic(f"{_name}_int", _boolean, lambda b, x, y, op=_sign_name: b.icmp_signed(op, x, y))
    _intrinsic(f"{_name}_unsigned", _boolean, lambda b, x, y, op=_sign_name: b.icmp_unsigned(op, x, y))
for _name in ("int", "unsigned"):
    _intrinsic(f"ne_{_name}", lambda x, y: Element.BOOL, lambda b, x, y: b.icmp_unsigned("!=", x, y))
_intrinsic("ne_float", lambda x, y: Element.BOOL, lambda b, x, y: b.fcmp_unordered("une", x, y))


# An integer power by squaring, which wraps; 1 where the exponent is negative.
_POWER = """
def integer_power(base, exponent):
    result = 1
    factor = base
    left = exponent
    while left > 0:
        if left & 1:
            result = mul(result, factor)
        factor = mul(factor, factor)
        left = left >> 1
    return result
"""
_intrinsic("signed_exponent", lambda x: Element.I64, llvm.signed_exponent)


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it leaves the nearest integer in the last bits


def _exp(b: Builder, x: Value) -> Value:
    """2**n * exp(r) with |r| <= ln 2 / 2; coefficients of Cephes' expf (S. L. Moshier)."""
    x = b.select(b.fcmp_ordered(">", x, real(89.0)), real(89.0), x)
    x = b.select(b.fcmp_ordered("<", x, real(-104.0)), real(-104.0), x)
    shifted = fma(b, x, real(_LOG2E), real(_MAGIC))
    n = b.fsub(shifted, real(_MAGIC))
    r = fma(b, n, real(-_LN2_HIGH), x)
    r = fma(b, n, real(-_LN2_LOW), r)
    inner = _horner(b, r, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1))
    result = b.fadd(fma(b, inner, b.fmul(r, r), r), real(1.0))
    exponent = b.sub(as_bits(b, shifted), as_bits(b, real(_MAGIC)))
    half = b.ashr(exponent, whole(I32, 1))  # in two steps, since 2**n itself may be out of range
    for part in (half, b.sub(exponent, half)):
        result = b.fmul(result, as_float(b, b.shl(b.add(part, whole(I32, 127)), whole(I32, 23))))
    return result


def _log(b: Builder, x: Value) -> Value:
    """log(m) + e ln 2 with m in [sqrt(1/2), sqrt 2); coefficients of Cephes' logf."""
    tiny = b.fcmp_ordered("<", x, real(1.17549435e-38))
    scaled = b.select(tiny, b.fmul(x, real(2.0**23)), x)
    bits = b.sub(as_bits(b, scaled), whole(I32, 0x3F3504F3))  # of sqrt(1/2): then the exponent is that of the interval
    exponent = b.ashr(bits, whole(I32, 23))
    mantissa = as_float(b, b.add(b.and_(bits, whole(I32, 0x7FFFFF)), whole(I32, 0x3F3504F3)))
    e = b.fsub(b.sitofp(exponent, F32), b.select(tiny, real(23.0), real(0.0)))
    r = b.fsub(mantissa, real(1.0))
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
    y = fma(b, e, real(_LN2_LOW), y)
    y = fma(b, square, real(-0.5), y)
    y = fma(b, e, real(_LN2_HIGH), b.fadd(r, y))
    y = b.select(b.fcmp_ordered("==", x, real(float("inf"))), x, y)
    y = b.select(b.fcmp_ordered("==", x, real(0.0)), real(float("-inf")), y)
    return b.select(b.fcmp_unordered("ult", x, real(0.0)), real(float("nan")), y)


_LN2_HIGH_F64, _LN2_LOW_F64 = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 32 bits: n times it is exact
_MAGIC_F64 = 1.5 * 2.0**52


def _exp_wide(b: Builder, x: Value) -> Value:
    """The same in f64: 1 + r + r**2 q(r), with as many terms of the series as change the last bit."""
    x = b.select(b.fcmp_ordered(">", x, real(710.0, x)), real(710.0, x), x)
    x = b.select(b.fcmp_ordered("<", x, real(-746.0, x)), real(-746.0, x), x)
    shifted = fma(b, x, real(_LOG2E, x), real(_MAGIC_F64, x))
    n = b.fsub(shifted, real(_MAGIC_F64, x))
    r = fma(b, n, real(-_LN2_HIGH_F64, x), x)
    r = fma(b, n, real(-_LN2_LOW_F64, x), r)
    inner = _pairwise(b, r, tuple(1.0 / factorial(i) for i in range(13, 1, -1)))
    result = b.fadd(fma(b, inner, b.fmul(r, r), r), real(1.0, x))
    exponent = b.sub(as_bits(b, shifted), as_bits(b, real(_MAGIC_F64, x)))
    half = b.ashr(exponent, whole(I64, 1))
    for part in (half, b.sub(exponent, half)):
        result = b.fmul(result, as_float(b, b.shl(b.add(part, whole(I64, 1023)), whole(I64, 52))))
    return result


def _log_wide(b: Builder, x: Value) -> Value:
    """The same in f64, with the quotient f / (2 + f): coefficients of fdlibm's log (Sun Microsystems)."""
    tiny = b.fcmp_ordered("<", x, real(2.0**-1022, x))
    scaled = b.select(tiny, b.fmul(x, real(2.0**54, x)), x)
    least = whole(I64, 0x3FE6A09E667F3BCD)  # of sqrt(1/2)
    bits = b.sub(as_bits(b, scaled), least)
    exponent = b.ashr(bits, whole(I64, 52))
    f = b.fsub(as_float(b, b.add(b.and_(bits, whole(I64, (1 << 52) - 1)), least)), real(1.0, x))
    e = b.fsub(b.sitofp(b.trunc(exponent, I32), F64), b.select(tiny, real(54.0, x), real(0.0, x)))
    s = b.fdiv(f, b.fadd(f, real(2.0, x)))
    square, half = b.fmul(s, s), b.fmul(b.fmul(f, f), real(0.5, x))
    series = _horner(
        b,
        square,
        (
            1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
            2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
        ),
    )  # fmt: skip
    rest = fma(b, e, real(_LN2_LOW_F64, x), b.fmul(s, fma(b, series, square, half)))
    y = fma(b, e, real(_LN2_HIGH_F64, x), b.fsub(f, b.fsub(half, rest)))
    y = b.select(b.fcmp_ordered("==", x, real(float("inf"), x)), x, y)
    y = b.select(b.fcmp_ordered("==", x, real(0.0, x)), real(float("-inf"), x), y)
    return b.select(b.fcmp_unordered("ult", x, real(0.0, x)), real(float("nan"), x), y)


_exp_f32, _log_f32 = _inline("exp.f32", _exp), _inline("log.f32", _log)
_exp_f64, _log_f64 = _inline("exp.f64", _exp_wide), _inline("log.f64", _log_wide)


def _tanh(b: Builder, x: Value) -> Value:
    """Near 0 a polynomial (Cephes' tanhf), else 1 - 2 / (exp(2 |x|) + 1)."""
    size, square = llvm.magnitude(b, x), b.fmul(x, x)
    inner = _horner(b, square, (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1))
    near = fma(b, b.fmul(inner, square), x, x)
    e = _exp_f32(b, b.fmul(size, real(2.0)))
    far = b.fsub(real(1.0), b.fdiv(real(2.0), b.fadd(e, real(1.0))))
    return call(b, "llvm.copysign.f32", b.select(b.fcmp_ordered("<", size, real(0.625)), near, far), x)  # the sum of zeros is +0


def _erf(b: Builder, x: Value) -> Value:
    """Two polynomials by N. Juffa (public domain): x + x p(x**2) near 0, and 1 - exp(q(|x|)) from there."""
    size, square = llvm.magnitude(b, x), b.fmul(x, x)
    r = fma(b, real(-1.72853470e-5), size, real(3.83197126e-4))
    u = fma(b, real(-3.88396438e-3), size, real(2.42546219e-2))
    r = fma(b, r, square, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = fma(b, r, size, real(c))
    r = fma(b, r, size, b.fneg(size))
    far = call(b, "llvm.copysign.f32", b.fsub(real(1.0), _exp_f32(b, r)), x)
    inner = _horner(b, square, (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1))
    near = fma(b, inner, x, x)
    return b.select(b.fcmp_ordered(">", size, real(0.927734375)), far, near)


_tanh_f32, _erf_f32 = _inline("tanh.f32", _tanh), _inline("erf.f32", _erf)


def _by_type(narrow: Emit, wide: Emit) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        return narrow(b, x) if x.type == F32 else wide(b, x)

    return one


def _library(name: str) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        return call(b, f"{name}f" if x.type == F32 else name, x)

    return one


def _through_f64(emit: Emit) -> Emit:
    """A function of f32 by one of f64: what its formula loses is far below the last bit of the result."""
    return lambda b, *x: b.fptrunc(emit(b, *(b.fpext(value, F64) for value in x)), F32)


_SPECIAL = Functions(fma, _exp_f64, _log_f64, llvm.named("sqrt"), llvm.named("rint"))
_erfinv_f64, _digamma_f64 = _inline("erfinv.f64", _SPECIAL.erfinv), _inline("digamma.f64", _SPECIAL.digamma)
_UNARY: dict[str, Emit] = {
    "exp": _by_type(_exp_f32, _exp_f64),
    "log": _by_type(_log_f32, _log_f64),
    "sqrt": llvm.named("sqrt"),
    "rsqrt": lambda b, x: b.fdiv(real(1.0, x), call(b, f"llvm.sqrt.{suffix(x)}", x)),
    "sin": llvm.named("sin"),
    "cos": llvm.named("cos"),
    "tanh": _by_type(_tanh_f32, _library("tanh")),
    "erf": _by_type(_erf_f32, _library("erf")),
    "absolute": llvm.magnitude,
    "sign": llvm.sign,
    "floor": llvm.named("floor"),
    "ceil": llvm.named("ceil"),
    "nearest": llvm.named("rint"),
    "minus": lambda b, x: b.fneg(x) if llvm.is_float(x) else b.neg(x),
    "integer_sign": llvm.integer_sign,
    "integer_absolute": llvm.integer_absolute,
    "bit_not": lambda b, x: b.not_(x),
    **{name: _by_type(_inline(f"{name}.f32", _through_f64(emit)), _library(name)) for name, emit in _SPECIAL.narrow.items()},
    "erfinv": _by_type(_inline("erfinv.f32", _through_f64(_erfinv_f64)), _erfinv_f64),
    "lgamma": _by_type(_through_f64(_library("lgamma")), _library("lgamma")),
    "digamma": _by_type(_inline("digamma.f32", _through_f64(_digamma_f64)), _digamma_f64),
}
for _name, _emit in _UNARY.items():
    _intrinsic(_name, _same_type, _emit)
_intrinsic("power", _same_type, lambda b, x, y: call(b, f"llvm.pow.{suffix(x)}", x, y))
_atan2_f32 = _through_f64(_SPECIAL.atan2)
_intrinsic("atan2", _same_type, lambda b, y, x: _atan2_f32(b, y, x) if x.type == F32 else call(b, "atan2", y, x))

for _name, _float in (("f32", F32), ("f64", F64)):
    for _high, _wide in microkernel.shapes():
        _lanes = microkernel.vector_bits() // (32 if _float == F32 else 64)
        _intrinsic(f"tile_{_name}_{_high}x{_wide}", lambda *given: None, microkernel.tile(_float, _lanes, _high, _wide))


_NUMBERS = (Element.F32, Element.F64, *(element for element in Element if element.is_integer))
SURROUNDINGS = Surroundings(_operations, {element.value: element for element in _NUMBERS}, {"integer_power": _POWER})
