"""Elementary functions of f64 as formulas without branches, for processors: each with the arguments for which it holds.

Loops call them with a vector of arguments (`lanes`); the C library has the arguments beside. What `newton` has of its own is taken
from there, with the processor's own division and root. All are at most four units in the last place from the true value, and most
two (`tests/backend/cpu/test_vector_functions.py`).

Angles are taken off by multiples of pi / 2 in three parts, the first of which is exact by a fused multiplication (W. J. Cody and W.
Waite, Software Manual for the Elementary Functions, 1980), up to 2**28, where the parts still hold 20 bits more than can cancel.
"""

from __future__ import annotations

from math import factorial, inf, log, pi

from axon.backend.kernel.lanes import Formula, within
from axon.backend.kernel.llvm import Builder, Emit, Value, as_bits, as_float, call, fma, magnitude, real, suffix, whole
from axon.backend.kernel.newton import UNUSUAL, Chip, negative, power_of_2, signed
from axon.backend.kernel.polynomials import horner, pairwise
from axon.core import coefficients as known

# pi / 2 is the sum of these to 163 bits.
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
WIDEST = 2.0**28
ROOT_HALF = 0x3FE6A09E  # the upper half of sqrt 0.5
MAGIC = 1.5 * 2.0**52  # adding it leaves the nearest integer in the last bits
SINE = tuple((-1.0) ** n / factorial(2 * n + 1) for n in range(8, 0, -1))  # (sin r / r - 1) / r**2 by r**2, up to pi / 4
COSINE = tuple((-1.0) ** n / factorial(2 * n) for n in range(8, 1, -1))  # (cos r - 1 + r**2 / 2) / r**4
# (log ((1 + s) / (1 - s)) / s - 2 - 2 / 3 s**2) / s**4 by s**2, up to where (1 + s) / (1 - s) is sqrt 2: through Chebyshev's nodes.
SERIES = (
    0.11724731041505301, 0.11706087790225049, 0.1333481024460881, 0.15384594860394596, 0.18181818336349195,
    0.22222222221651663, 0.28571428571429375, 0.4,
)  # fmt: skip
CBRT = float(0x553EF0FF)  # of an f64's inverse root
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
TAN_3_PI_8 = 2.414213562373095  # beyond which an angle is taken off from pi / 2
PI_4_REST, PI_2_REST, PI_REST = 3.061616997868383e-17, 6.123233995736766e-17, 1.2246467991473532e-16  # beyond their f64


class Elementary(Chip):
    """A processor's: with divisions and roots that are rounded once. Sums are by pairs, which waits less for itself; but the
    last two terms, whose roundings are seen in the last place, are added one by one."""

    def polynomial(self, b: Builder, coefficients: known.Polynomial, x: Value) -> Value:
        if len(coefficients) < 5:
            return pairwise(b, x, coefficients)
        result = pairwise(b, x, coefficients[:-2])
        for c in coefficients[-2:]:
            result = fma(b, result, x, real(c, x))
        return result

    def side_by_side(self, b: Builder, polynomials: tuple[known.Polynomial, ...], x: Value) -> list[Value]:
        """Several, which wait for themselves, but not for each other: so as few registers as can be."""
        return [horner(b, x, coefficients) for coefficients in polynomials]

    def reciprocal(self, b: Builder, x: Value) -> Value:
        return b.fdiv(real(1.0, x), x)

    def quotient(self, b: Builder, above: Value, below: Value) -> tuple[Value, Value]:
        return b.fdiv(above, below), self.reciprocal(b, below)

    def root(self, b: Builder, x: Value) -> Value:
        return call(b, f"llvm.sqrt.{suffix(x)}", x)

    # ── integers, in lanes as wide as those of floats ───────────────────────────────────────────────────────────────────────

    def parts(self, b: Builder, x: Value) -> tuple[Value, Value, Value]:
        bits = as_bits(b, x)
        moved = b.lshr(b.add(bits, whole(bits.type, (1023 << 52) - (ROOT_HALF << 32))), whole(bits.type, 52))  # k + 1023
        m = as_float(b, b.sub(b.add(bits, whole(bits.type, 1023 << 52)), b.shl(moved, whole(bits.type, 52))))
        count = b.fsub(as_float(b, b.or_(moved, whole(bits.type, 0x433 << 52))), real(2.0**52 + 1023, x))
        return b.sub(moved, whole(bits.type, 1023)), count, m

    def beyond_1(self, b: Builder, x: Value, low: Value | None, twice: Value | None) -> tuple[Value, Value]:
        k, count, m = self.parts(b, x)
        f = b.fsub(m, real(1.0, x))
        if low is not None:
            least = b.select(b.icmp_signed("<", k, whole(k.type, 1022)), k, whole(k.type, 1022))  # there, `low` is 0
            f = fma(b, low, power_of_2(b, b.sub(whole(k.type, 0), least)), f)
        if twice is not None:
            count = b.fadd(count, b.select(twice, real(1.0, x), real(0.0, x)))
        return count, f

    def lowered(self, b: Builder, x: Value, n: Value) -> Value:
        raised = b.fmul(x, power_of_2(b, b.add(n, whole(n.type, 600))))  # of an n between -1200 and 0
        return b.fmul(raised, real(2.0**-600, x))

    def exponent(self, b: Builder, x: Value) -> tuple[Value, Value]:
        shifted = fma(b, x, real(1 / log(2), x), real(MAGIC, x))
        count = b.fsub(real(MAGIC, x), shifted)
        rest = fma(b, count, real(known.LOG_2_REST, x), fma(b, count, real(log(2), x), x))
        return b.sub(as_bits(b, shifted), as_bits(b, real(MAGIC, x))), rest

    # ── angles ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def turned(self, b: Builder, x: Value) -> tuple[Value, Value, Value]:
        """How often pi / 2 fits into an angle, in the last bits of an integer; and what is left, in two parts."""
        shifted = fma(b, x, real(2 / pi, x), real(MAGIC, x))
        n = b.fsub(shifted, real(MAGIC, x))
        first = fma(b, n, real(-HALF_PI[0], x), x)  # exact
        off = b.fmul(n, real(HALF_PI[1], x))
        off_rest = fma(b, n, real(HALF_PI[1], x), _minus(b, off))
        high = b.fsub(first, off)
        low = b.fsub(b.fsub(first, high), off)  # exact: if `off` is larger, `first` is so many of its units
        low = b.fsub(low, fma(b, n, real(HALF_PI[2], x), off_rest))
        return as_bits(b, shifted), high, low

    def sine_and_cosine(self, b: Builder, x: Value) -> tuple[Value, Value]:
        turns, r, low = self.turned(b, x)
        z = b.fmul(r, r)
        sine = b.fadd(r, fma(b, b.fmul(r, z), self.polynomial(b, SINE, z), low))
        half = b.fmul(real(0.5, x), z)
        most = b.fsub(real(1.0, x), half)
        rest = fma(b, b.fmul(z, z), self.polynomial(b, COSINE, z), _minus(b, b.fmul(r, low)))
        cosine = b.fadd(most, b.fadd(b.fsub(b.fsub(real(1.0, x), most), half), rest))
        odd = b.icmp_signed("!=", b.and_(turns, whole(turns.type, 1)), whole(turns.type, 0))

        def signed(turns: Value, other: Value, own: Value) -> Value:
            """By the last bit, with the sign that the bit before it says."""
            sign = b.shl(b.and_(turns, whole(turns.type, 2)), whole(turns.type, 62))
            return as_float(b, b.xor(as_bits(b, b.select(odd, other, own)), sign))

        found = signed(turns, cosine, sine)
        found = b.select(b.fcmp_ordered("==", x, real(0.0, x)), x, found)
        return found, signed(b.add(turns, whole(turns.type, 1)), sine, cosine)

    def angle(self, b: Builder, z: Value, base: Value, rest: Value) -> Value:
        """atan z and `base`, which is `rest` more than its float. By S. L. Moshier's polynomials (Cephes), which hold to 0.66."""
        square = b.fmul(z, z)
        above, below = (self.polynomial(b, part, square) for part in known.ATAN)
        inner = b.fdiv(b.fmul(z, b.fmul(square, above)), below)
        return b.fadd(base, b.fadd(z, b.fadd(inner, rest)))

    def atan(self, b: Builder, x: Value) -> Value:
        """From 0.66 turned by pi / 4, from tan (3 pi / 8) by pi / 2."""
        a, zero, one = magnitude(b, x), real(0.0, x), real(1.0, x)
        turned, steep = b.fcmp_ordered(">", a, real(0.66, x)), b.fcmp_ordered(">", a, real(TAN_3_PI_8, x))
        above = b.select(steep, real(-1.0, x), b.select(turned, b.fsub(a, one), a))
        below = b.select(steep, a, b.select(turned, b.fadd(a, one), one))
        base, rest = (
            b.select(steep, real(of_half, x), b.select(turned, real(of_quarter, x), zero))
            for of_half, of_quarter in ((pi / 2, pi / 4), (PI_2_REST, PI_4_REST))
        )
        return signed(b, self.angle(b, self.quotient(b, above, below)[0], base, rest), x)

    def atan2(self, b: Builder, y: Value, x: Value) -> Value:
        """Of the smaller by the larger of both sizes; then turned into the octant."""
        tall, wide, zero = magnitude(b, y), magnitude(b, x), real(0.0, x)
        steep = b.fcmp_ordered(">", tall, wide)
        low, high = b.select(steep, wide, tall), b.select(steep, tall, wide)
        turned = b.fcmp_ordered(">", low, b.fmul(high, real(0.66, x)))
        z = b.fdiv(b.select(turned, b.fsub(low, high), low), b.select(turned, b.fadd(low, high), high))
        angle = self.angle(b, z, b.select(turned, real(pi / 4, x), zero), b.select(turned, real(PI_4_REST, x), zero))
        angle = b.select(steep, b.fsub(real(pi / 2, x), b.fsub(angle, real(PI_2_REST, x))), angle)
        angle = b.select(negative(b, x), b.fsub(real(pi, x), b.fsub(angle, real(PI_REST, x))), angle)
        return signed(b, angle, y)

    def asin(self, b: Builder, x: Value) -> Value:
        """From 1/2 by pi / 2 - 2 asin (sqrt ((1 - a) / 2)) of a = |x|, as fdlibm has it."""
        a = magnitude(b, x)
        near = b.fcmp_ordered("<", a, real(0.5, x))
        z = b.select(near, b.fmul(a, a), fma(b, real(-0.5, x), a, real(0.5, x)))
        s = b.select(near, a, self.root(b, z))
        angle = fma(b, b.fmul(s, z), self.polynomial(b, known.ASIN, z), s)
        turned = b.fsub(real(pi / 2, x), b.fsub(b.fadd(angle, angle), real(PI_2_REST, x)))
        return signed(b, b.select(near, angle, turned), x)

    # ── exponentials ────────────────────────────────────────────────────────────────────────────────────────────────────

    def expm1(self, b: Builder, x: Value) -> Value:
        """2**n (exp r - 1) + 2**n - 1; -1 far below."""
        least = real(-50.0, x)
        n, r = self.exponent(b, b.select(b.fcmp_ordered("<", x, least), least, x))
        power = power_of_2(b, n)
        return signed(b, magnitude(b, fma(b, power, self.expm1_near(b, r), b.fsub(power, real(1.0, x)))), x)

    def tanh(self, b: Builder, x: Value) -> Value:
        """-t / (t + 2) of t = exp (-2 |x|) - 1."""
        t = self.expm1(b, b.fmul(real(-2.0, x), magnitude(b, x)))
        return signed(b, b.fdiv(_minus(b, t), b.fadd(t, real(2.0, x))), x)

    def cosh(self, b: Builder, x: Value) -> Value:
        """Half of e + 1 / e of e = exp |x|."""
        n, r = self.exponent(b, magnitude(b, x))
        power = power_of_2(b, n)
        e = fma(b, power, self.expm1_near(b, r), power)
        return fma(b, real(0.5, x), e, b.fmul(real(0.5, x), self.reciprocal(b, e)))

    def erf(self, b: Builder, x: Value) -> Value:
        """By W. J. Cody's rational approximations (1969): of x up to where it is 1/2, else of erfc, whose second one holds to 30
        bits where the third would be needed for more of them."""
        a = magnitude(b, x)
        near = b.fcmp_ordered("<=", a, real(0.477, x))
        y = b.select(b.fcmp_ordered("<", a, real(6.0, x)), a, real(6.0, x))
        square = b.fmul(y, y)
        above, below = (
            b.select(near, small, middle)
            for small, middle in zip(
                self.side_by_side(b, known.ERF_SMALL, square), self.side_by_side(b, known.ERFC_MIDDLE, y), strict=True
            )
        )
        n, r = self.exponent(b, _minus(b, square))
        power = power_of_2(b, n)
        e = fma(b, power, self.expm1_near(b, r), power)
        part = b.fdiv(b.fmul(b.select(near, y, e), above), below)
        return signed(b, b.select(near, part, b.fsub(real(1.0, x), part)), x)

    # ── logarithms and powers ───────────────────────────────────────────────────────────────────────────────────────────

    def log1p_of(self, b: Builder, x: Value) -> Value:
        """log u + (x - (u - 1)) / u of u = 1 + x as it is rounded."""
        one = real(1.0, x)
        u = b.fadd(one, x)
        large = b.fcmp_ordered(">", x, one)
        more, less = b.select(large, x, one), b.select(large, one, x)
        lost = b.fsub(less, b.fsub(u, more))
        return signed(b, magnitude(b, b.fadd(self.log(b, u), b.fdiv(lost, u))), x)

    def cbrt(self, b: Builder, x: Value) -> Value:
        """By the inverse root: the upper half of its bits is a third of that of |x|, taken from a constant, but for a thirtieth.
        Two steps leave 1e-14 of it, and one of Newton's with the cube in two parts makes the root exact."""
        a = magnitude(b, x)
        half = b.lshr(as_bits(b, a), whole(as_bits(b, a).type, 32))
        upper = b.fsub(as_float(b, b.or_(half, whole(half.type, 0x433 << 52))), real(2.0**52, x))
        third = fma(b, upper, real(-1 / 3, x), real(MAGIC + CBRT, x))
        r = as_float(b, b.shl(as_bits(b, third), whole(half.type, 32)))
        for terms in ((35 / 243, 14 / 81, 2 / 9, 1 / 3), (14 / 81, 2 / 9, 1 / 3)):
            e = fma(b, _minus(b, b.fmul(a, r)), b.fmul(r, r), real(1.0, x))
            r = fma(b, b.fmul(r, e), pairwise(b, e, terms), r)
        square = b.fmul(r, r)
        y = b.fmul(a, square)
        power = b.fmul(y, y)
        beyond = fma(b, power, y, _minus(b, a))
        beyond = fma(b, fma(b, y, y, _minus(b, power)), y, beyond)
        return signed(b, fma(b, b.fmul(beyond, square), real(-1 / 3, x), y), x)

    def log_in_parts(self, b: Builder, x: Value) -> tuple[Value, Value]:
        """log x to 65 bits: of m = (1 + s) / (1 - s) it is 2 s + 2 / 3 s**3 + …, of which s and s**3 are in two parts."""
        _, count, m = self.parts(b, x)
        f = b.fsub(m, real(1.0, x))
        below = b.fadd(m, real(1.0, x))
        below_rest = b.fsub(f, b.fsub(below, real(2.0, x)))
        inverse = self.reciprocal(b, below)
        s = b.fmul(f, inverse)
        s_rest = b.fmul(fma(b, _minus(b, s), below_rest, fma(b, _minus(b, s), below, f)), inverse)
        z = b.fmul(s, s)
        z_rest = fma(b, b.fadd(s, s), s_rest, fma(b, s, s, _minus(b, z)))
        cube = b.fmul(z, s)
        cube_rest = fma(b, z, s_rest, fma(b, z_rest, s, fma(b, z, s, _minus(b, cube))))
        third = b.fmul(real(TWO_THIRDS[0], x), cube)
        third_rest = fma(b, real(TWO_THIRDS[0], x), cube, _minus(b, third))
        third_rest = fma(b, real(TWO_THIRDS[0], x), cube_rest, fma(b, real(TWO_THIRDS[1], x), cube, third_rest))
        third_rest = fma(b, b.fmul(cube, z), self.polynomial(b, SERIES, z), third_rest)
        twice = b.fadd(s, s)
        whole_part = b.fmul(count, real(known.LOG_2[0], x))  # exact
        first, first_rest = _sum(b, whole_part, twice)
        high, high_rest = _sum(b, first, third)
        low = b.fadd(b.fadd(first_rest, high_rest), fma(b, real(2.0, x), s_rest, third_rest))
        return _sum(b, high, fma(b, count, real(known.LOG_2[1], x), low))

    def pow(self, b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
        """exp (y log x), for x that are positive and not subnormal, and results that are so, too."""
        high, low = self.log_in_parts(b, x)
        p = b.fmul(y, high)
        rest = fma(b, y, low, fma(b, y, high, _minus(b, p)))
        n, r = self.exponent(b, p)
        power = power_of_2(b, n)
        result = fma(b, power, self.expm1_near(b, b.fadd(r, rest)), power)
        holds = b.and_(b.fcmp_ordered(">=", x, real(2.0**-1022, x)), b.fcmp_ordered("<", x, real(inf, x)))
        return result, b.and_(holds, b.fcmp_ordered("<", magnitude(b, p), real(700.0, x)))

    # ── all of them ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def unary(self) -> dict[str, Formula]:
        """Those of one argument, by the C library's names."""
        own = {
            "atan": (self.atan, inf), "asin": (self.asin, 1.0),
            "tanh": (self.tanh, inf), "cosh": (self.cosh, 708.0), "erf": (self.erf, inf),
        }  # fmt: skip
        names = ("acos", "sinh", "erfc", "erfinv", "asinh", "acosh", "atanh", "lgamma", "digamma")
        shared = {name: getattr(self, name) for name in names}
        return {
            **{name: within(emit, most) for name, (emit, most) in own.items()},
            **{name: _but(emit, name) for name, emit in shared.items()},
            "expm1": lambda b, x: (self.expm1(b, x), b.fcmp_ordered("<", x, real(708.0, x))),
            "log1p": lambda b, x: (self.log1p_of(b, x), _between(b, x, -1.0, inf)),
            "cbrt": self._cbrt,
        }

    def _cbrt(self, b: Builder, x: Value) -> tuple[Value, Value]:
        a = magnitude(b, x)
        usual = b.and_(b.fcmp_ordered(">=", a, real(2.0**-1022, x)), b.fcmp_ordered("<", a, real(inf, x)))
        return self.cbrt(b, x), b.or_(usual, b.fcmp_ordered("==", x, real(0.0, x)))

    def atan2_held(self, b: Builder, y: Value, x: Value) -> tuple[Value, Value]:
        """atan2, of sizes whose sum, difference and quotient keep all bits."""
        tall, wide = magnitude(b, y), magnitude(b, x)
        high = b.select(b.fcmp_ordered(">", tall, wide), tall, wide)
        holds = b.and_(b.fcmp_ordered(">", high, real(2.0**-900, x)), b.fcmp_ordered("<", high, real(2.0**900, x)))
        return self.atan2(b, y, x), b.and_(holds, b.fcmp_ordered("ord", x, y))


def _between(b: Builder, x: Value, low: float, high: float) -> Value:
    return b.and_(b.fcmp_ordered(">", x, real(low, x)), b.fcmp_ordered("<", x, real(high, x)))


def _but(emit: Emit, name: str) -> Formula:
    return lambda b, x: (emit(b, x), b.not_(UNUSUAL[name](b, x)))


def _sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y in two parts, of an x that is 0 or the larger one (T. J. Dekker)."""
    total = b.fadd(x, y)
    return total, b.fadd(b.fsub(x, total), y)


def _minus(b: Builder, x: Value) -> Value:
    return b.fsub(real(-0.0, x), x)


def none(b: Builder, x: Value) -> Value:
    raise AssertionError("a processor has quotients and roots of its own")


ELEMENTARY = Elementary(fma, none, none)
