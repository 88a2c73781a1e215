"""Functions of f32 for processors, within a unit in the last place.

Most are formulas of `elementary` in f64 with shorter polynomials and a logarithm that divides by nothing, which hold to 32 bits and
more. The sine and the cosine are computed in f32, twice as many lanes at once.

Polynomials are those through Chebyshev's nodes of the interval that is given, which are nearly the best of their degree.
"""

from __future__ import annotations

from math import inf

from axon.backend.kernel.elementary import Elementary, none
from axon.backend.kernel.llvm import F32, I32, Builder, Value, as_bits, as_float, fma, magnitude, real, shaped, whole
from axon.backend.kernel.newton import power_of_2, signed
from axon.backend.kernel.polynomials import horner, pairwise
from axon.core import coefficients as known

# (exp r - 1 - r) / r**2 up to 0.35; (asin s - s) / s**3 by s**2 up to 1/2; to 36 and 33 bits of the function.
EXP = (
    2.4860731885840675e-05, 0.00019900428151915095, 0.0013888852650225144, 0.008333297083738308, 0.041666666722163556,
    0.16666666722181583, 0.5,
)  # fmt: skip
ASIN = (
    0.03098546039993495, 0.01056694782140368, 0.02361371422189475, 0.030268919101073113, 0.044647675217118564,
    0.07499992383419403, 0.16666666686147094,
)  # fmt: skip
SHORTER = {known.EXP: EXP, known.ASIN: ASIN}
# (log (1 + f) - f) / f**2 where 1 + f is between sqrt 0.5 and sqrt 2, to 37 bits of log; (atan z - z) / z**3 by z**2 up to 0.66.
LOG = (
    -0.04859688676760745, 0.09068219259497882, -0.09225017073696047, 0.09040092391221799, -0.09901959112072549,
    0.11106873908484438, -0.1250475755707505, 0.1428604775554632, -0.16666562257149847, 0.19999993218747883,
    -0.2500000085483955, 0.3333333336687618, -0.49999999998830186,
)  # fmt: skip
LOG_2 = 0.6931471805599453
ATAN = (
    -0.011210739541347834, 0.03473269936861459, -0.05773474310285668, 0.07484543570876791, -0.09061419707467136,
    0.11108706693545131, -0.14285614611693834, 0.19999998391271512, -0.33333333329017123,
)  # fmt: skip
# erfinv x / x by -log (1 - x**2), less the middle of its range: up to 5.75 and from there, to 32 and 30 bits.
ERFINV_MIDDLES, ERFINV_APART = (2.875, 11.225), 5.75
ERFINV = (
    (
        -1.704405388153562e-11, 4.2913480140781516e-11, 1.0833391492334793e-09, -7.2646839976015115e-09, -1.648779695789833e-08,
        4.7210080574474367e-07, -2.1517869983211207e-06, -1.125939526575075e-05, 0.00020256892029782571, -0.0009356231572505392,
        -0.005406038576353211, 0.2430242016589748, 1.593250228752349,
    ),
    (
        -8.024899544720691e-14, 1.7289661366519398e-12, -1.877572304231018e-11, 1.5353870336740127e-10, -7.644948504351866e-10,
        -6.71725959434843e-09, 2.926365431959903e-07, -6.527727108875558e-06, 0.00013498482172593322, -0.0032470162545245765,
        0.15016731309697612, 3.1848371367592305,
    ),
)  # fmt: skip
# (sin r / r - 1) / r**2 and (cos r - 1 + r**2 / 2) / r**4 by r**2, up to 0.79.
SINE = (2.724340926404085e-06, -0.00019840035943066543, 0.00833333177968258, -0.16666666663608304)
COSINE = (2.454256397769355e-05, -0.0013888277879640465, 0.041666664528702296)
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)  # f32, which pi / 2 is the sum of to 76 bits
MAGIC = 1.5 * 2.0**23  # adding it leaves the nearest integer in the last bits
WIDEST = 2.0**18  # of an angle, for which that integer is still the nearest but for a hundredth


class Narrow(Elementary):
    """In f64, for results in f32."""

    def reciprocal(self, b: Builder, x: Value) -> Value:
        """To 46 bits, of what f32 has: its quotient, and a step of Newton's."""
        rounded = b.fptrunc(x, shaped(F32, x))
        r = b.fpext(b.fdiv(real(1.0, rounded), rounded), x.type)
        return fma(b, fma(b, b.fneg(x), r, real(1.0, x)), r, r)

    def quotient(self, b: Builder, above: Value, below: Value) -> tuple[Value, Value]:
        r = self.reciprocal(b, below)
        return b.fmul(above, r), r

    def log1p_of(self, b: Builder, x: Value) -> Value:
        return signed(b, magnitude(b, self.log1p(b, x)), x)

    def log1p(self, b: Builder, x: Value, log_of: tuple[Value, Value] | None = None) -> Value:
        """Where 1 + x has the exponent of 1, what it is beyond that is x, of which the sum may have lost bits."""
        one = real(1.0, x)
        above = b.fadd(one, x)
        k, count, m = self.parts(b, above if log_of is None else b.select(*log_of, above))
        f = b.select(b.icmp_signed("==", k, whole(k.type, 0)), x, b.fsub(m, one))
        if log_of is not None:
            count = b.fadd(count, b.select(log_of[0], one, real(0.0, x)))
        return fma(b, count, real(LOG_2, x), fma(b, b.fmul(f, f), pairwise(b, f, LOG), f))

    def erfinv(self, b: Builder, x: Value) -> Value:
        """x times a polynomial, as M. Giles has it (2012): without a quotient or a root."""
        w = b.fneg(self.log(b, fma(b, b.fneg(x), x, real(1.0, x))))
        near, far = (
            pairwise(b, b.fsub(w, real(middle, x)), part) for middle, part in zip(ERFINV_MIDDLES, ERFINV, strict=True)
        )
        return b.fmul(x, b.select(b.fcmp_ordered("<", w, real(ERFINV_APART, x)), near, far))

    def polynomial(self, b: Builder, coefficients: known.Polynomial, x: Value) -> Value:
        return pairwise(b, x, SHORTER.get(coefficients, coefficients))

    def log(self, b: Builder, x: Value, low: Value | None = None, twice: Value | None = None) -> Value:
        count, f = self.beyond_1(b, x, low, twice)
        near = fma(b, b.fmul(f, f), pairwise(b, f, LOG), f)
        return fma(b, count, real(LOG_2, x), near)

    def angle(self, b: Builder, z: Value, base: Value, rest: Value) -> Value:
        square = b.fmul(z, z)
        return b.fadd(base, fma(b, b.fmul(z, square), pairwise(b, square, ATAN), z))

    def cbrt(self, b: Builder, x: Value) -> Value:
        """exp (log |x| / 3)."""
        zero, one = real(0.0, x), real(1.0, x)
        nothing = b.fcmp_ordered("==", x, zero)
        a = b.select(nothing, one, magnitude(b, x))
        n, r = self.exponent(b, b.fmul(real(1 / 3, x), self.log(b, a)))
        power = power_of_2(b, n)
        return b.select(nothing, x, signed(b, fma(b, power, self.expm1_near(b, r), power), x))

    def pow(self, b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
        """exp (y log x), for x that are positive."""
        p = b.fmul(y, self.log(b, x))
        n, r = self.exponent(b, p)
        power = power_of_2(b, n)
        result = fma(b, power, self.expm1_near(b, r), power)
        holds = b.and_(b.fcmp_ordered(">", x, real(0.0, x)), b.fcmp_ordered("<", x, real(inf, x)))
        return result, b.and_(holds, b.fcmp_ordered("<", magnitude(b, p), real(700.0, x)))


NARROW = Narrow(fma, none, none)


# ── in f32 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sin(b: Builder, x: Value) -> Value:
    """Of f32 below WIDEST."""
    return b.select(b.fcmp_ordered("==", x, real(0.0, x)), x, _sine(b, x, 0))


def cos(b: Builder, x: Value) -> Value:
    return _sine(b, x, 1)


def _sine(b: Builder, x: Value, quarters: int) -> Value:
    """The sine of an angle and so many quarters of a turn. What is left of it is r and `low`: the first of the three parts is
    taken off exactly, and what the second's product and difference lose is known."""
    shifted = fma(b, x, real(0.6366197723675814, x), real(MAGIC, x))
    n = b.fsub(shifted, real(MAGIC, x))
    first = fma(b, n, real(-HALF_PI[0], x), x)
    off = b.fmul(n, real(HALF_PI[1], x))
    r = b.fsub(first, off)
    back = b.fsub(r, first)
    low = b.fsub(b.fsub(first, b.fsub(r, back)), b.fadd(off, back))
    low = b.fsub(low, fma(b, n, real(HALF_PI[2], x), fma(b, n, real(HALF_PI[1], x), b.fneg(off))))
    z = b.fmul(r, r)
    sine = b.fadd(r, fma(b, b.fmul(r, z), horner(b, z, SINE), low))
    half = b.fmul(real(0.5, x), z)
    most = b.fsub(real(1.0, x), half)
    rest = fma(b, b.fmul(z, z), horner(b, z, COSINE), b.fneg(b.fmul(r, low)))
    cosine = b.fadd(most, b.fadd(b.fsub(b.fsub(real(1.0, x), most), half), rest))
    word = shaped(I32, x)
    turns = b.add(as_bits(b, shifted), whole(word, quarters))
    odd = b.icmp_signed("!=", b.and_(turns, whole(word, 1)), whole(word, 0))
    sign = b.shl(b.and_(turns, whole(word, 2)), whole(word, 30))
    return as_float(b, b.xor(as_bits(b, b.select(odd, cosine, sine)), sign))
