"""`exp`, `log` and `erf` as polynomials without branches, for processors: within two units in the last place.

Of f32, and `exp` and `log` of f64 (`_wide`); of one argument or of a vector.
"""

from __future__ import annotations

from math import factorial

from axon.backend.kernel.llvm import I32, I64, Builder, Value, as_bits, as_float, call, fma, magnitude, real, shaped, suffix, whole


def _word(like: Value, value: int) -> Value:
    return whole(shaped(I32, like), value)


def _long(like: Value, value: int) -> Value:
    return whole(shaped(I64, like), value)


def horner(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    result = real(coefficients[0], x)
    for c in coefficients[1:]:
        result = fma(b, result, x, real(c, x))
    return result


def pairwise(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """The same polynomial as `horner`, by pairs: a long one waits less for itself where nothing else is to do (Estrin)."""
    terms = [real(c, x) for c in reversed(coefficients)]
    while len(terms) > 1:
        pairs = [fma(b, high, x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) - len(terms) % 2 :]
        x = b.fmul(x, x)
    return terms[0]


_LOG2E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it leaves the nearest integer in the last bits


def exp(b: Builder, x: Value) -> Value:
    """2**n * exp(r) with |r| <= ln 2 / 2; coefficients of Cephes' expf (S. L. Moshier)."""
    zero = real(0.0, x)
    x = b.select(b.fcmp_ordered(">", x, real(89.0, x)), real(89.0, x), x)
    far = b.fcmp_ordered("<", x, real(-104.0, x))  # where a product that vanishes would take a hundred cycles
    result, shifted = _exp(b, b.select(far, zero, x))
    exponent = b.sub(shifted, as_bits(b, real(_MAGIC, x)))
    half = b.ashr(exponent, _word(x, 1))  # in two steps, since 2**n itself may be out of range
    for part in (half, b.sub(exponent, half)):
        result = b.fmul(result, as_float(b, b.shl(b.add(part, _word(x, 127)), _word(x, 23))))
    return b.select(far, zero, result)


def _exp_inside(b: Builder, x: Value) -> Value:
    """The same between -87 and 88, where 2**n is neither subnormal nor infinite: n is added to the exponent."""
    result, shifted = _exp(b, x)
    return as_float(b, b.add(as_bits(b, result), b.shl(shifted, _word(x, 23))))


def _exp(b: Builder, x: Value) -> tuple[Value, Value]:
    """exp r, and an integer whose last bits are n."""
    shifted = fma(b, x, real(_LOG2E, x), real(_MAGIC, x))
    n = b.fsub(shifted, real(_MAGIC, x))
    r = fma(b, n, real(-_LN2_HIGH, x), x)
    r = fma(b, n, real(-_LN2_LOW, x), r)
    inner = horner(b, r, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1))
    return b.fadd(fma(b, inner, b.fmul(r, r), r), real(1.0, x)), as_bits(b, shifted)


def log(b: Builder, x: Value) -> Value:
    """log(m) + e ln 2 with m in [3/4, 3/2)."""
    tiny = b.fcmp_ordered("<", x, real(1.17549435e-38, x))
    bits = as_bits(b, b.select(tiny, b.fmul(x, real(2.0**23, x)), x))
    exponent = b.ashr(b.sub(bits, _word(x, 0x3F400000)), _word(x, 23))
    r = b.fsub(as_float(b, b.sub(bits, b.shl(exponent, _word(x, 23)))), real(1.0, x))
    e = b.fsub(b.sitofp(exponent, x.type), b.select(tiny, real(23.0, x), real(0.0, x)))
    square = b.fmul(r, r)
    y = fma(b, b.fmul(square, r), pairwise(b, r, LOG), b.fmul(e, real(_LN2_LOW, x)))
    y = fma(b, square, real(-0.5, x), y)
    y = fma(b, e, real(_LN2_HIGH, x), b.fadd(r, y))
    y = b.select(b.fcmp_ordered("==", x, real(float("inf"), x)), x, y)
    y = b.select(b.fcmp_ordered("==", x, real(0.0, x)), real(float("-inf"), x), y)
    return b.select(b.fcmp_unordered("ult", x, real(0.0, x)), real(float("nan"), x), y)


# (log (1 + f) - f + f**2 / 2) / f**3 where 1 + f is between 3/4 and 3/2.
LOG = (
    -0.04509091004729271, 0.10466468334197998, -0.131633460521698, 0.14478571712970734, -0.16647087037563324,
    0.19990813732147217, -0.2500010132789612, 0.3333345055580139,
)  # fmt: skip

_LN2_HIGH_F64, _LN2_LOW_F64 = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 32 bits: n times it is exact
_MAGIC_F64 = 1.5 * 2.0**52


def exp_wide(b: Builder, x: Value) -> Value:
    """The same in f64: 1 + r + r**2 q(r), with as many terms of the series as change the last bit."""
    x = b.select(b.fcmp_ordered(">", x, real(710.0, x)), real(710.0, x), x)
    far = b.fcmp_ordered("<", x, real(-746.0, x))
    x = b.select(far, real(0.0, x), x)
    shifted = fma(b, x, real(_LOG2E, x), real(_MAGIC_F64, x))
    n = b.fsub(shifted, real(_MAGIC_F64, x))
    r = fma(b, n, real(-_LN2_HIGH_F64, x), x)
    r = fma(b, n, real(-_LN2_LOW_F64, x), r)
    inner = pairwise(b, r, tuple(1.0 / factorial(i) for i in range(13, 1, -1)))
    result = b.fadd(fma(b, inner, b.fmul(r, r), r), real(1.0, x))
    exponent = b.sub(as_bits(b, shifted), as_bits(b, real(_MAGIC_F64, x)))
    half = b.ashr(exponent, _long(x, 1))
    for part in (half, b.sub(exponent, half)):
        result = b.fmul(result, as_float(b, b.shl(b.add(part, _long(x, 1023)), _long(x, 52))))
    return b.select(far, real(0.0, x), result)


def log_wide(b: Builder, x: Value) -> Value:
    """The same in f64, with the quotient f / (2 + f): coefficients of fdlibm's log (Sun Microsystems)."""
    tiny = b.fcmp_ordered("<", x, real(2.0**-1022, x))
    scaled = b.select(tiny, b.fmul(x, real(2.0**54, x)), x)
    least = _long(x, 0x3FE6A09E667F3BCD)  # of sqrt(1/2)
    bits = b.sub(as_bits(b, scaled), least)
    exponent = b.ashr(bits, _long(x, 52))
    f = b.fsub(as_float(b, b.add(b.and_(bits, _long(x, (1 << 52) - 1)), least)), real(1.0, x))
    e = b.fsub(b.sitofp(b.trunc(exponent, shaped(I32, x)), x.type), b.select(tiny, real(54.0, x), real(0.0, x)))
    s = b.fdiv(f, b.fadd(f, real(2.0, x)))
    square, half = b.fmul(s, s), b.fmul(b.fmul(f, f), real(0.5, x))
    series = horner(
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


def erf(b: Builder, x: Value) -> Value:
    """Two polynomials by N. Juffa (public domain): x + x p(x**2) near 0, and 1 - exp(q(|x|)) from there."""
    size = magnitude(b, x)
    most = real(4.0, x)  # from which it is 1: exponentials of less would be subnormal, which takes a hundred cycles
    size = b.select(b.fcmp_ordered(">", size, most), most, size)
    square = b.fmul(size, size)
    r = fma(b, real(-1.72853470e-5, x), size, real(3.83197126e-4, x))
    u = fma(b, real(-3.88396438e-3, x), size, real(2.42546219e-2, x))
    r = fma(b, r, square, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = fma(b, r, size, real(c, x))
    r = fma(b, r, size, b.fneg(size))
    far = call(b, f"llvm.copysign.{suffix(x)}", b.fsub(real(1.0, x), _exp_inside(b, r)), x)
    inner = horner(b, square, (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1))
    near = fma(b, inner, x, x)
    return b.select(b.fcmp_ordered(">", size, real(0.927734375, x)), far, near)
