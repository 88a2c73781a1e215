"""Functions of floats without branches, by few instructions: those of libdevice that cost a copy's bandwidth.

Each holds for the arguments that are not `unusual`; the others are left to a function that is called, once for all lanes of a
thread. Where there is no branch, ptxas computes the lanes side by side: then they share the coefficients, which are instructions of
their own, and need not wait for one another. A quotient or a root begins with the chip's approximation, and is made exact by
Newton's iteration, without the cases that a division has to look at.

Of f64 a multiprocessor computes half as much as of f32, and reads some 0.8 elements in a cycle at the memory's bandwidth: so a
function is as fast as a copy with up to 80 operations in f64, or 160 instructions. For f32 that is half of it: `digamma`, which is
rounded correctly but for a few, takes 40 operations in f64, and `lgamma` none.
"""

from __future__ import annotations

from math import inf, log, pi

from axon.backend.kernel.llvm import (
    F64,
    I32,
    I64,
    Builder,
    Emit,
    Value,
    as_bits,
    as_float,
    magnitude,
    real,
    scalar_of,
    shaped,
    whole,
)
from axon.base.data import dataclass
from axon.core import coefficients as known

_LEAST = 2.0**-100  # below which quotients may leave the range of their type


@dataclass(frozen=True, slots=True)
class Chip:
    """What a machine has: 1 / x and 1 / sqrt x to some 20 bits, of what is neither 0 nor subnormal."""

    fma: Emit
    inverse: Emit
    inverse_root: Emit

    # ── building blocks ─────────────────────────────────────────────────────────────────────────────────────────────────

    def polynomial(self, b: Builder, coefficients: known.Polynomial, x: Value) -> Value:
        result = real(coefficients[0], x)
        for c in coefficients[1:]:
            result = self.fma(b, result, x, real(c, x))
        return result

    def side_by_side(self, b: Builder, polynomials: tuple[known.Polynomial, ...], x: Value) -> list[Value]:
        """Several polynomials, none of which waits for another."""
        return [self.polynomial(b, coefficients, x) for coefficients in polynomials]

    def reciprocal(self, b: Builder, x: Value) -> Value:
        """1 / x to 40 bits."""
        r = self.inverse(b, x)
        return self.fma(b, self.fma(b, b.fsub(real(-0.0, x), x), r, real(1.0, x)), r, r)

    def quotient(self, b: Builder, above: Value, below: Value) -> tuple[Value, Value]:
        """above / below but for the last bit, and 1 / below to 40 bits."""
        r = self.reciprocal(b, below)
        q = b.fmul(above, r)
        return self.fma(b, self.fma(b, b.fsub(real(-0.0, q), below), q, above), r, q), r

    def root(self, b: Builder, x: Value) -> Value:
        """sqrt x but for the last bit."""
        y = self.inverse_root(b, x)
        root, half = b.fmul(x, y), b.fmul(real(0.5, x), y)
        rest = self.fma(b, b.fsub(real(-0.0, x), root), half, real(0.5, x))
        root, half = self.fma(b, root, rest, root), self.fma(b, half, rest, half)
        return self.fma(b, self.fma(b, b.fsub(real(-0.0, x), root), root, x), half, root)

    def parts(self, b: Builder, x: Value) -> tuple[Value, Value, Value]:
        """The k of x = 2**k m with m between sqrt 0.5 and sqrt 2, as an integer and as a float, and m."""
        if scalar_of(x.type) != F64:
            bits = as_bits(b, x)
            k = b.ashr(b.sub(bits, _word(x, 0x3F3504F3)), _word(x, 23))
            return k, b.sitofp(k, x.type), as_float(b, b.sub(bits, b.shl(k, _word(x, 23))))
        high = _high(b, x)
        k = b.ashr(b.sub(high, _word(x, 0x3FE6A09E)), _word(x, 20))
        low = b.and_(as_bits(b, x), _long(x, 0xFFFFFFFF))
        m = as_float(b, b.or_(_upper(b, b.sub(high, b.shl(k, _word(x, 20)))), low))
        # In a float of 2**52 and more the lower half is an integer: a conversion takes as long as eight additions.
        shifted = b.zext(b.xor(k, _word(x, -(2**31))), shaped(I64, x))
        count = b.fsub(as_float(b, b.or_(shifted, _long(x, 0x433 << 52))), real(2.0**52 + 2.0**31, x))
        return k, count, m

    def log(self, b: Builder, x: Value, low: Value | None = None, twice: Value | None = None) -> Value:
        """log (x + low) to an ulp, of an x that is finite and not subnormal; of 2 x where `twice`. By fdlibm's e_log.c (Sun
        Microsystems, 1993)."""
        count, f = self.beyond_1(b, x, low, twice)
        s, _ = self.quotient(b, f, b.fadd(real(2.0, x), f))
        z, half = b.fmul(s, s), b.fmul(b.fmul(real(0.5, x), f), f)
        rest = b.fmul(z, self.polynomial(b, known.LOG, z))
        rest = self.fma(b, s, b.fadd(half, rest), b.fmul(count, real(known.LOG_2[1], x)))
        return self.fma(b, count, real(known.LOG_2[0], x), b.fsub(f, b.fsub(half, rest)))

    def beyond_1(self, b: Builder, x: Value, low: Value | None, twice: Value | None) -> tuple[Value, Value]:
        """The k of `parts` as a float, and m - 1; `low`, of which x takes up no bit, joins that."""
        k, count, m = self.parts(b, x)
        f = b.fsub(m, real(1.0, x))
        if low is not None:
            least = b.select(b.icmp_signed("<", k, _word(x, 1022)), k, _word(x, 1022))  # there, `low` is 0
            f = self.fma(b, low, power_of_2(b, b.sub(_word(x, 0), least)), f)
        if twice is not None:
            count = b.fadd(count, b.select(twice, real(1.0, x), real(0.0, x)))
        return count, f

    def log1p(self, b: Builder, x: Value, log_of: tuple[Value, Value] | None = None) -> Value:
        """log (1 + x) of an x that is not negative; where a condition holds, the logarithm of twice a value instead."""
        one = real(1.0, x)
        above = b.fadd(one, x)
        large = b.icmp_signed(">=", _high(b, x), _word(x, 0x3FF00000))
        more, less = b.select(large, x, one), b.select(large, one, x)
        low = b.fsub(less, b.fsub(above, more))
        if log_of is None:
            return self.log(b, above, low)
        instead, value = log_of
        return self.log(b, b.select(instead, value, above), b.select(instead, real(0.0, x), low), instead)

    def exponent(self, b: Builder, x: Value) -> tuple[Value, Value]:
        """The whole n that is nearest to x / log 2, and x less n times that."""
        shifted = self.fma(b, x, real(1 / log(2), x), real(1.5 * 2.0**52, x))  # whose lower half is n
        count = b.fsub(real(1.5 * 2.0**52, x), shifted)
        rest = self.fma(b, count, real(log(2), x), x)
        return b.trunc(as_bits(b, shifted), shaped(I32, x)), self.fma(b, count, real(known.LOG_2_REST, x), rest)

    def expm1_near(self, b: Builder, r: Value) -> Value:
        """exp r - 1 of an r up to log 2 / 2."""
        return self.fma(b, b.fmul(r, r), self.polynomial(b, known.EXP, r), r)

    # ── functions of f64 ────────────────────────────────────────────────────────────────────────────────────────────────

    def sinh(self, b: Builder, x: Value) -> Value:
        """Half of t + t / (t + 1) of t = exp |x| - 1; up to 708."""
        n, r = self.exponent(b, magnitude(b, x))
        power = power_of_2(b, n)
        t = self.fma(b, power, self.expm1_near(b, r), b.fsub(power, real(1.0, x)))
        part, _ = self.quotient(b, t, b.fadd(t, real(1.0, x)))
        return signed(b, b.fmul(real(0.5, x), b.fadd(t, part)), x)

    def acos(self, b: Builder, x: Value) -> Value:
        """pi / 2 - asin x; from 1/2, as fdlibm has it, by asin (sqrt ((1 - a) / 2)) of a = |x|."""
        a = magnitude(b, x)
        near = b.icmp_signed("<", _high(b, a), _word(x, 0x3FE00000))
        half = self.fma(b, real(-0.5, x), a, real(0.5, x))
        s = b.select(near, x, self.root(b, b.select(near, real(1.0, x), half)))
        z = b.select(near, b.fmul(x, x), half)
        angle = self.fma(b, b.fmul(s, z), self.polynomial(b, known.ASIN, z), s)
        twice = b.fadd(angle, angle)
        # pi / 2 is more than its f64 by 6.1e-17, and pi by twice that.
        turned = b.fsub(real(pi / 2, x), b.fsub(angle, real(6.123233995736766e-17, x)))
        back = b.fsub(real(pi, x), b.fsub(twice, real(1.2246467991473532e-16, x)))
        return b.select(near, turned, b.select(negative(b, x), back, twice))

    def erfc(self, b: Builder, x: Value) -> Value:
        """exp (-a**2) Q / (1 + 2 a) of a = |x|, whose square is taken in two parts; 0 from 28 on."""
        one, least = real(1.0, x), real(28.0, x)
        a = magnitude(b, x)
        a = b.select(b.icmp_signed("<", _high(b, a), _word(x, 0x403C0000)), a, least)
        square = b.fmul(a, a)
        low = self.fma(b, b.fsub(real(-0.0, x), a), a, square)  # -a**2 is -square and this
        n, r = self.exponent(b, b.fsub(real(-0.0, x), square))
        t, _ = self.quotient(b, b.fsub(a, real(4.0, x)), b.fadd(a, real(4.0, x)))
        value, _ = self.quotient(b, self.polynomial(b, known.ERFC, t), self.fma(b, a, real(2.0, x), one))
        value = self.fma(b, value, self.expm1_near(b, b.fadd(r, low)), value)
        value = self.lowered(b, value, n)
        return b.select(negative(b, x), b.fsub(real(2.0, x), value), value)

    def lowered(self, b: Builder, x: Value, n: Value) -> Value:
        """x times 2**n, which may be subnormal: by two powers."""
        part = b.ashr(n, _word(x, 1))
        return b.fmul(b.fmul(x, power_of_2(b, part)), power_of_2(b, b.sub(n, part)))

    def erfinv(self, b: Builder, x: Value) -> Value:
        """By M. J. Wichura's algorithm AS 241 (1988), as in `kernel.special`; up to 1 - 2**-35, which is before its tail."""
        size, q = magnitude(b, x), b.fmul(real(0.5, x), x)
        centre = b.icmp_signed("<", _high(b, size), _word(x, 0x3FEB3333))
        t = b.fsub(real(0.180625, x), b.fmul(q, q))
        log_of = b.select(centre, real(0.5, x), self.fma(b, real(-0.5, x), size, real(0.5, x)))
        r = b.fsub(self.root(b, b.fsub(real(-0.0, x), self.log(b, log_of))), real(1.6, x))
        near, side = (self.side_by_side(b, part, v) for part, v in ((known.QUANTILE_CENTRE, t), (known.QUANTILE_SIDE, r)))
        above, below = (b.select(centre, one, other) for one, other in zip(near, side, strict=True))
        part, _ = self.quotient(b, above, below)
        return b.fmul(b.select(centre, q, signed(b, real(1.0, x), x)), b.fmul(real(0.5**0.5, x), part))

    def asinh(self, b: Builder, x: Value) -> Value:
        """log1p (a + a**2 / (1 + sqrt (1 + a**2))) of a = |x|; from 2**60 the logarithm of 2 a."""
        size, one = magnitude(b, x), real(1.0, x)
        huge = b.icmp_signed(">=", _high(b, size), _word(x, (1023 + 60) << 20))
        a = b.select(huge, one, size)
        square = b.fmul(a, a)
        part, _ = self.quotient(b, square, b.fadd(one, self.root(b, b.fadd(one, square))))
        return signed(b, self.log1p(b, b.fadd(a, part), (huge, size)), x)

    def acosh(self, b: Builder, x: Value) -> Value:
        """log1p (t + sqrt (t (t + 2))) of t = x - 1."""
        one, zero = real(1.0, x), real(0.0, x)
        huge = b.icmp_signed(">=", _high(b, x), _word(x, (1023 + 60) << 20))
        t = b.fsub(b.select(huge, real(2.0, x), x), one)
        least = b.fcmp_ordered("==", x, one)
        square = b.select(least, one, self.fma(b, t, t, b.fadd(t, t)))
        root = b.select(least, zero, self.root(b, square))
        return self.log1p(b, b.fadd(t, root), (huge, x))

    def atanh(self, b: Builder, x: Value) -> Value:
        """Half of log1p (2 a / (1 - a)) of a = |x|."""
        a = magnitude(b, x)
        part, _ = self.quotient(b, b.fadd(a, a), b.fsub(real(1.0, x), a))
        return signed(b, b.fmul(real(0.5, x), self.log1p(b, part)), x)

    # ── the gamma function ──────────────────────────────────────────────────────────────────────────────────────────────

    def digamma(self, b: Builder, x: Value) -> Value:
        """Of f64, from 2**-100: as in `kernel.special`, but the steps of the recurrence are one quotient.

        With p = y (y + 3) the terms 1 / y, …, 1 / (y + 3) are (2 y + 3) (2 p + 2) / (p (p + 2)); so up to seven steps are four,
        two and one, of which each is taken or not. From 9 on the series holds; there 1 / (2 x) is that quotient.
        """
        zero, one = real(0.0, x), real(1.0, x)
        high = _high(b, x)
        small = b.icmp_signed("<", high, _word(x, 0x3FF00000))
        large = b.icmp_signed(">=", high, _word(x, 0x40220000))
        y, taken = self.led_down(b, x, small, large, 1.0)
        least = y
        p = b.fmul(y, b.fadd(y, real(3.0, x)))
        above = b.fmul(self.fma(b, y, real(2.0, x), real(3.0, x)), self.fma(b, p, real(2.0, x), real(2.0, x)))
        above = b.select(taken[2], above, zero)
        below = b.select(taken[2], b.fmul(p, b.fadd(p, real(2.0, x))), one)
        y = b.fadd(y, b.select(taken[2], real(4.0, x), zero))
        factor = b.select(taken[1], b.fmul(y, b.fadd(y, one)), one)
        term = b.select(taken[1], self.fma(b, y, real(2.0, x), one), zero)
        above, below = self.fma(b, above, factor, b.fmul(term, below)), b.fmul(below, factor)
        y = b.fadd(y, b.select(taken[1], real(2.0, x), zero))
        factor, term = b.select(taken[0], y, one), b.select(taken[0], below, zero)
        above, below = self.fma(b, above, factor, term), b.fmul(below, factor)
        above = b.select(small, real(-1.0, x), b.select(large, real(-0.5, x), above))
        below = b.select(b.or_(small, large), x, below)
        steps, r = self.quotient(b, above, below)
        r = self.fma(b, self.fma(b, b.fsub(real(-0.0, x), below), r, one), r, r)
        far = b.fsub(self.log(b, x), self.polynomial(b, known.DIGAMMA_LARGE, b.fmul(r, r)))
        beyond = least
        for part in known.DIGAMMA_ROOT:
            beyond = b.fsub(beyond, real(part, x))
        upper, lower = (self.polynomial(b, part, b.fsub(least, one)) for part in known.DIGAMMA_MIDDLE)
        near = b.fmul(beyond, b.fadd(real(known.DIGAMMA_OFFSET, x), self.quotient(b, upper, lower)[0]))
        return b.fadd(steps, b.select(large, far, near))

    def narrow_digamma(self, b: Builder, x: Value) -> Value:
        """Of an f32 as f64, from 2**-100, to 28 bits: about the root from 1 to 2, beyond by the logarithm, below by one step."""
        zero, one = real(0.0, x), real(1.0, x)
        high = _high(b, x)
        small = b.icmp_signed("<", high, _word(x, 0x3FF00000))
        far = b.icmp_signed(">=", high, _word(x, 0x40000000))
        u = self.reciprocal(b, x)
        y = b.fadd(x, b.select(small, one, zero))
        beyond = b.fsub(y, real(known.DIGAMMA_ROOT[0] + known.DIGAMMA_ROOT[1], x))
        near = b.fmul(beyond, self.polynomial(b, known.DIGAMMA_NARROW_NEAR, b.fsub(y, real(1.5, x))))
        _, count, m = self.parts(b, x)
        f = b.fsub(m, one)
        s = b.fmul(f, self.reciprocal(b, b.fadd(real(2.0, x), f)))
        log = self.polynomial(b, known.LOG_NARROW, b.fmul(s, s))
        log = self.fma(b, count, real(sum(known.LOG_2), x), b.fmul(b.fadd(s, s), log))
        series = self.polynomial(b, known.DIGAMMA_NARROW_FAR, u)
        above = b.select(far, series, b.select(small, one, zero))
        return self.fma(b, b.fsub(real(-0.0, x), above), u, b.select(far, log, near))

    def led_down(self, b: Builder, x: Value, small: Value, large: Value, least: float) -> tuple[Value, list[Value]]:
        """x less as many whole numbers, up to seven, as keep it from `least`, and the bits of how many; of a small x, x + 1."""
        steps = b.fptosi(b.fsub(b.select(b.or_(small, large), real(least, x), x), real(least, x)), shaped(I32, x))
        y = b.fsub(x, b.sitofp(b.select(small, _word(x, -1), steps), x.type))
        y = b.select(large, real(least, x), y)
        return y, [b.icmp_signed("!=", b.and_(steps, _word(x, 1 << n)), _word(x, 0)) for n in range(3)]

    def lgamma(self, b: Builder, x: Value) -> Value:
        """Of f64, from 2**-100: as in `interpret.special`, with one logarithm. Below 9.5, the series about 2 and the logarithm of
        the product of the steps that lead there, which below 1.5 is taken off."""
        zero, one = real(0.0, x), real(1.0, x)
        high = _high(b, x)
        tiny = b.icmp_signed("<", high, _word(x, 0x3FE00000))
        small = b.icmp_signed("<", high, _word(x, 0x3FF80000))
        large = b.icmp_signed(">=", high, _word(x, 0x40230000))
        y, taken = self.led_down(b, x, small, large, 1.5)
        p = b.fmul(y, b.fadd(y, real(3.0, x)))
        factor = b.select(taken[2], b.fmul(p, b.fadd(p, real(2.0, x))), one)
        upper = b.fadd(y, b.select(taken[2], real(4.0, x), zero))
        factor = b.fmul(factor, b.select(taken[1], b.fmul(upper, b.fadd(upper, one)), one))
        upper = b.fadd(upper, b.select(taken[1], real(2.0, x), zero))
        factor = b.fmul(factor, b.select(taken[0], upper, one))
        below = b.select(tiny, self.fma(b, x, x, x), x)
        factor = b.select(b.or_(small, large), below, factor)
        log = self.log(b, factor)
        z = b.select(tiny, x, b.select(small, b.fsub(x, one), b.fsub(y, real(2.0, x))))
        series = self.fma(b, z, self.polynomial(b, known.LGAMMA_ABOUT_2, z), real(known.ONE_LESS_GAMMA, x))
        near = self.fma(b, z, series, b.select(small, b.fsub(real(-0.0, x), log), log))
        r = self.reciprocal(b, b.select(large, x, one))
        r = self.fma(b, self.fma(b, b.fsub(real(-0.0, x), x), r, one), r, r)
        correction = self.fma(b, r, self.polynomial(b, known.LGAMMA_LARGE, b.fmul(r, r)), real(known.HALF_LOG_TWO_PI - 0.5, x))
        far = self.fma(b, b.fsub(x, real(0.5, x)), b.fsub(log, one), correction)
        return b.select(large, far, near)

    def narrow_lgamma(self, b: Builder, x: Value) -> Value:
        """Of f32, from 2**-100: between 1 and 2.5 what the roots 1 and 2 leave; below, of x + 1 and less the logarithm of x."""
        zero, one = real(0.0, x), real(1.0, x)
        small = b.fcmp_ordered("<", x, one)
        far = b.fcmp_ordered(">=", x, real(2.5, x))
        _, count, m = self.parts(b, x)
        t = b.fsub(m, one)
        log = self.fma(b, count, real(known.LOG_2_NARROW[1], x), b.fmul(b.fmul(t, t), self.polynomial(b, known.LOG_NARROWEST, t)))
        # Less 1 where that is what is multiplied, and before t joins it: so nothing near e is rounded as if it were 1.
        exponent = self.fma(b, count, real(known.LOG_2_NARROW[0], x), b.select(far, real(-1.0, x), zero))
        log = b.fadd(b.fadd(exponent, t), log)
        at = b.fsub(x, b.select(small, real(0.75, x), real(1.75, x)))
        roots = b.fmul(b.fsub(x, b.select(small, zero, one)), b.fsub(x, b.select(small, one, real(2.0, x))))
        near = self.fma(b, roots, self.polynomial(b, known.LGAMMA_NARROW_NEAR, at), b.select(small, b.fsub(zero, log), zero))
        u = self.inverse(b, x)
        series = self.fma(b, u, self.polynomial(b, known.LGAMMA_NARROW_FAR, b.fmul(u, u)), real(known.HALF_LOG_TWO_PI - 0.5, x))
        beyond = self.fma(b, b.fsub(x, real(0.5, x)), log, series)
        return b.select(far, beyond, near)


def _high(b: Builder, x: Value) -> Value:
    """The upper half of an f64: of those without a sign it grows as they do."""
    return b.trunc(b.lshr(as_bits(b, x), _long(x, 32)), shaped(I32, x))


def _word(like: Value, value: int) -> Value:
    """An integer of 32 bits, for as many lanes as a value has."""
    return whole(shaped(I32, like), value)


def _long(like: Value, value: int) -> Value:
    return whole(shaped(I64, like), value)


def _upper(b: Builder, high: Value) -> Value:
    return b.shl(b.zext(high, shaped(I64, high)), _long(high, 32))


def power_of_2(b: Builder, n: Value) -> Value:
    if scalar_of(n.type) == I64:
        return as_float(b, b.shl(b.add(n, _long(n, 1023)), _long(n, 52)))
    return as_float(b, _upper(b, b.shl(b.add(n, _word(n, 1023)), _word(n, 20))))


def negative(b: Builder, x: Value) -> Value:
    return b.icmp_signed("<", _high(b, x), _word(x, 0))


def signed(b: Builder, size: Value, x: Value) -> Value:
    sign = b.and_(as_bits(b, x), _long(x, -(2**63)))
    return as_float(b, b.or_(as_bits(b, size), sign))


# ── unusual arguments ───────────────────────────────────────────────────────────────────────────────────────────────────


def not_from(least: float) -> Emit:
    """Whether an x is less than `least`, infinite or no number."""
    return lambda b, x: b.or_(b.fcmp_unordered("ult", x, real(least, x)), b.fcmp_ordered("==", x, real(inf, x)))


def not_within(most: float) -> Emit:
    """Whether |x| is not below `most`."""
    return lambda b, x: b.fcmp_unordered("uge", magnitude(b, x), real(most, x))


UNUSUAL: dict[str, Emit] = {
    "digamma": not_from(_LEAST), "lgamma": not_from(_LEAST), "acosh": not_from(1.0), "asinh": not_within(inf),
    "atanh": not_within(1.0), "sinh": not_within(708.0), "acos": not_within(1.0), "erfc": not_within(inf),
    "erfinv": not_within(1.0 - 2.0**-35),
}  # fmt: skip
