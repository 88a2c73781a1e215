"""Special functions as LLVM's IR, in f64 and without branches, for every processor: loops over them vectorize.

Those of `narrow` are for f32, computed in f64 by formulas that lose some ten bits at most where they lose any, so that results
are rounded correctly but for a few; below 2**-10 the first terms of a series stand for what would lose more. `erfinv` and
`digamma` are good to a few units in the last place of f64, too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, pi

from axon.backend.kernel.llvm import Builder, Emit, Value, as_bits, magnitude, real, whole
from axon.base.data import dataclass
from axon.core import coefficients as known

_SMALL = 2.0**-10


def _negative(b: Builder, x: Value) -> Value:
    """Whether the sign is set: also of -0 and NaN."""
    bits = as_bits(b, x)
    return b.icmp_signed("<", bits, whole(bits.type, 0))


def _signed(b: Builder, size: Value, x: Value) -> Value:
    """A size with the sign of x. Not by `with_sign`, in which LLVM sees a copysign, and rounds both of its operands: from f64 to
    f16 that is a function that it does not have."""
    return b.select(_negative(b, x), b.fsub(real(-0.0, size), size), size)


@dataclass(frozen=True, slots=True)
class Functions:
    """What stands on a processor's own functions of f64."""

    fma: Emit
    exp: Emit
    log: Emit
    sqrt: Emit
    nearest: Emit

    @property
    def narrow(self) -> dict[str, Emit]:
        return {
            "expm1": self.expm1, "log1p": self.log1p, "cbrt": self.cbrt, "asin": self.asin, "acos": self.acos, "atan": self.atan,
            "sinh": self.sinh, "cosh": self.cosh, "asinh": self.asinh, "acosh": self.acosh, "atanh": self.atanh, "erfc": self.erfc,
        }  # fmt: skip

    # ── building blocks ─────────────────────────────────────────────────────────────────────────────────────────────────

    def polynomial(self, b: Builder, coefficients: known.Polynomial, x: Value) -> Value:
        result = real(coefficients[0], x)
        for c in coefficients[1:]:
            result = self.fma(b, result, x, real(c, x))
        return result

    def rational(self, b: Builder, coefficients: known.Rational, x: Value) -> Value:
        above, below = (self.polynomial(b, part, x) for part in coefficients)
        return b.fdiv(above, below)

    def series(self, b: Builder, x: Value, terms: known.Polynomial, far: Value) -> Value:
        """x + x**2 P(x) near 0, where a zero keeps its sign; else `far`."""
        near = self.fma(b, b.fmul(x, x), self.polynomial(b, terms, x), x)
        near = b.select(b.fcmp_ordered("==", x, real(0.0, x)), x, near)
        return b.select(b.fcmp_ordered("<", magnitude(b, x), real(_SMALL, x)), near, far)

    def both(self, b: Builder, x: Value, join: Callable[[Value, Value], Value]) -> Value:
        """Half of exp x and exp -x, joined."""
        return b.fmul(real(0.5, x), join(self.exp(b, x), self.exp(b, b.fsub(real(-0.0, x), x))))

    # ── for f32 ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def expm1(self, b: Builder, x: Value) -> Value:
        return self.series(b, x, (1 / 24, 1 / 6, 1 / 2), b.fsub(self.exp(b, x), real(1.0, x)))

    def log1p(self, b: Builder, x: Value) -> Value:
        far = self.log(b, b.fadd(x, real(1.0, x)))
        return b.select(b.fcmp_ordered("<", x, real(-1.0, x)), real(nan, x), self.series(b, x, (-1 / 4, 1 / 3, -1 / 2), far))

    def cbrt(self, b: Builder, x: Value) -> Value:
        size = magnitude(b, x)
        root = self.exp(b, b.fmul(self.log(b, size), real(1 / 3, x)))
        unlike = b.or_(b.fcmp_ordered("==", size, real(0.0, x)), b.fcmp_ordered("==", size, real(inf, x)))
        return _signed(b, b.select(unlike, size, root), x)

    def sinh(self, b: Builder, x: Value) -> Value:
        return self.series(b, x, (1 / 6, 0.0), self.both(b, x, b.fsub))

    def cosh(self, b: Builder, x: Value) -> Value:
        return self.both(b, x, b.fadd)

    def asinh(self, b: Builder, x: Value) -> Value:
        size = magnitude(b, x)
        root = self.sqrt(b, self.fma(b, size, size, real(1.0, x)))
        return self.series(b, x, (-1 / 6, 0.0), _signed(b, self.log(b, b.fadd(size, root)), x))

    def acosh(self, b: Builder, x: Value) -> Value:
        one = real(1.0, x)
        value = self.log(b, b.fadd(x, self.sqrt(b, b.fmul(b.fsub(x, one), b.fadd(x, one)))))
        return b.select(b.fcmp_unordered("ult", x, one), real(nan, x), value)

    def atanh(self, b: Builder, x: Value) -> Value:
        size, one = magnitude(b, x), real(1.0, x)
        far = b.fmul(real(0.5, x), self.log(b, b.fdiv(b.fadd(one, size), b.fsub(one, size))))
        return self.series(b, x, (1 / 3, 0.0), _signed(b, far, x))

    def atan(self, b: Builder, x: Value) -> Value:
        """By S. L. Moshier's polynomials (Cephes), which hold to 0.66: beyond 1 of the inverse, and above 0.66 turned by pi / 4."""
        size, one = magnitude(b, x), real(1.0, x)
        inverted = b.fcmp_ordered(">", size, one)
        t = b.select(inverted, b.fdiv(one, size), size)
        turned = b.fcmp_ordered(">", t, real(0.66, x))
        z = b.select(turned, b.fdiv(b.fsub(t, one), b.fadd(t, one)), t)
        square = b.fmul(z, z)
        angle = self.fma(b, b.fmul(z, square), self.rational(b, known.ATAN, square), z)
        angle = b.fadd(angle, b.select(turned, real(pi / 4, x), real(0.0, x)))
        return _signed(b, b.select(inverted, b.fsub(real(pi / 2, x), angle), angle), x)

    def asin(self, b: Builder, x: Value) -> Value:
        one = real(1.0, x)
        return self.atan(b, b.fdiv(x, self.sqrt(b, b.fmul(b.fsub(one, x), b.fadd(one, x)))))

    def acos(self, b: Builder, x: Value) -> Value:
        return b.fsub(real(pi / 2, x), self.asin(b, x))

    def atan2(self, b: Builder, y: Value, x: Value) -> Value:
        """Of the smaller by the larger of both sizes; then turned into the octant."""
        tall, wide, zero = magnitude(b, y), magnitude(b, x), real(0.0, x)
        steep = b.fcmp_ordered(">", tall, wide)
        low, high = b.select(steep, wide, tall), b.select(steep, tall, wide)
        ratio = b.select(b.fcmp_ordered("==", high, zero), zero, b.fdiv(low, high))
        ratio = b.select(b.fcmp_ordered("==", low, real(inf, x)), real(1.0, x), ratio)
        angle = self.atan(b, ratio)
        angle = b.select(steep, b.fsub(real(pi / 2, x), angle), angle)
        angle = b.select(_negative(b, x), b.fsub(real(pi, x), angle), angle)
        return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), _signed(b, angle, y))

    def erfc(self, b: Builder, x: Value) -> Value:
        """By W. J. Cody's rational approximations (1969). Squares of f32 are exact in f64; from 30 on the result is 0."""
        size, one = magnitude(b, x), real(1.0, x)
        near = b.fsub(one, b.fmul(x, self.rational(b, known.ERF_SMALL, b.fmul(x, x))))
        y = b.select(b.fcmp_ordered(">", size, real(30.0, x)), real(30.0, x), size)
        square = b.fmul(y, y)
        z = b.fdiv(one, square)
        large = b.fsub(real(known.INVERSE_SQRT_PI, x), b.fmul(z, self.rational(b, known.ERFC_LARGE, z)))
        middle = b.fcmp_ordered("<=", y, real(4.0, x))
        factor = b.select(middle, self.rational(b, known.ERFC_MIDDLE, y), b.fdiv(large, y))
        far = b.fmul(self.exp(b, b.fsub(real(-0.0, x), square)), factor)
        far = b.select(b.fcmp_ordered("<", x, real(0.0, x)), b.fsub(real(2.0, x), far), far)
        return b.select(b.fcmp_ordered("<=", size, real(0.46875, x)), near, far)

    # ── for f64, and f32 by it ──────────────────────────────────────────────────────────────────────────────────────────

    def erfinv(self, b: Builder, x: Value) -> Value:
        """By M. J. Wichura's algorithm AS 241 (1988): a quantile of the normal distribution."""
        size, q = magnitude(b, x), b.fmul(real(0.5, x), x)
        centre = b.fmul(q, self.rational(b, known.QUANTILE_CENTRE, b.fsub(real(0.180625, x), b.fmul(q, q))))
        r = self.sqrt(b, b.fsub(real(-0.0, x), self.log(b, b.fmul(real(0.5, x), b.fsub(real(1.0, x), size)))))
        side = self.rational(b, known.QUANTILE_SIDE, b.fsub(r, real(1.6, x)))
        tail = self.rational(b, known.QUANTILE_TAIL, b.fsub(r, real(5.0, x)))
        tail = b.select(b.fcmp_ordered("<=", r, real(5.0, x)), side, tail)
        tail = _signed(b, b.select(b.fcmp_ordered("==", size, real(1.0, x)), real(inf, x), tail), x)
        return b.fmul(real(0.5**0.5, x), b.select(b.fcmp_ordered("<=", size, real(0.85, x)), centre, tail))

    def digamma(self, b: Builder, x: Value) -> Value:
        """Between 1 and 2 by J. Maddock's rational approximation (Boost.Math), from 10 by the asymptotic series, between them by
        recurrence (M. Abramowitz and I. Stegun, 6.3.5), left of 0 by reflection (6.3.7)."""
        zero, one, two = (real(c, x) for c in (0.0, 1.0, 2.0))
        left = b.fcmp_ordered("<", x, zero)
        y = b.select(left, b.fsub(one, x), x)
        r = b.fsub(x, self.nearest(b, x))
        square = b.fmul(r, r)
        poles = b.fsub(b.fdiv(one, b.fsub(square, one)), self.polynomial(b, known.COTANGENT, square))
        turned = b.fadd(b.fdiv(one, r), b.fmul(b.fmul(two, r), poles))
        turned = b.select(b.fcmp_unordered("ueq", r, zero), real(nan, x), b.fsub(zero, turned))
        result = b.select(left, turned, zero)
        small = b.fcmp_ordered("<", y, one)
        result = b.select(small, b.fsub(result, b.fdiv(one, y)), result)
        y = b.select(small, b.fadd(y, one), y)
        large = b.fcmp_ordered(">=", y, real(10.0, x))
        z = b.fdiv(one, b.fmul(y, y))
        far = b.fsub(b.fsub(self.log(b, y), b.fdiv(real(0.5, x), y)), self.polynomial(b, known.DIGAMMA_LARGE, z))
        for _ in range(8):
            step = b.and_(b.not_(large), b.fcmp_ordered(">", y, two))
            y = b.select(step, b.fsub(y, one), y)
            result = b.select(step, b.fadd(result, b.fdiv(one, y)), result)
        beyond = y
        for part in known.DIGAMMA_ROOT:
            beyond = b.fsub(beyond, real(part, x))
        factor = b.fadd(real(known.DIGAMMA_OFFSET, x), self.rational(b, known.DIGAMMA_MIDDLE, b.fsub(y, one)))
        return b.fadd(result, b.select(large, far, b.fmul(beyond, factor)))
