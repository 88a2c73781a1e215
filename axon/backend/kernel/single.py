"""Functions of f32 for processors, computed in f32: twice as many lanes as in f64, within a unit in the last place.

What a rounding would lose where it is seen in the last place is kept in a second float and joins the smallest terms: the rest of a
sum by T. J. Dekker's fast two-sum, that of a product, a quotient or a root by a fused multiplication. Each function says for which
lanes it holds, None for all: the others are asked of what the processor's table has beside it.

Polynomials are those through Chebyshev's nodes of the interval that is given (`mpmath.chebyfit`, 40 digits), which are nearly the
best of their degree; `tests/backend/cpu/test_single.py` has what each is of.
"""

from __future__ import annotations

from axon.backend.kernel.lanes import Formula
from axon.backend.kernel.llvm import I32, Builder, Value, as_bits, as_float, call, fma, magnitude, real, shaped, suffix, whole
from axon.backend.kernel.polynomials import LOG, pairwise

Held = tuple[Value, Value | None]

# (exp r - 1 - r) / r**2 up to log 2 / 2 of both signs; (sinh r / r - 1) / r**2 and (cosh r - 1) / r**2 by r**2, up to there.
EXPM1 = (
    0.0001974915649043396, 0.0013933016452938318, 0.008333560079336166, 0.041666485369205475, 0.1666666567325592, 0.5,
)  # fmt: skip
SINH = (0.00019973221060354263, 0.008333176374435425, 0.1666666716337204)
COSH = (0.0013935432070866227, 0.041666459292173386, 0.5)
TANH = (-0.006186863873153925, 0.021010955795645714, -0.05383778735995293, 0.1333244889974594, -0.3333331346511841)
EXP_TWICE = (0.0884706974029541, 0.26780232787132263, 0.666691780090332, 1.3333215713500977, 1.999999761581421, 2.0, 1.0)
# (sin r / r - 1) / r**2 and (cos r - 1 + r**2 / 2) / r**4 by r**2, up to 0.79.
SINE = (2.724340926404085e-06, -0.00019840035943066543, 0.00833333177968258, -0.16666666663608304)
COSINE = (2.454256397769355e-05, -0.0013888277879640465, 0.041666664528702296)
# (log ((1 + s) / (1 - s)) / (2 s) - 1 - s**2 / 3) / s**4 by s**2 up to 0.0295, where (1 + s) / (1 - s) is sqrt 2.
SERIES = (0.11709943413734436, 0.14273542165756226, 0.20000076293945312)
# (atan z / z - 1) / z**2 by z**2 up to 1; (asin s / s - 1) / s**2 by s**2 up to 1/4.
ATAN = (
    -0.0017900789389386773, 0.010898391716182232, -0.031146837398409843, 0.057925496250391006, -0.08401504904031754,
    0.10951489210128784, -0.14264100790023804, 0.1999853402376175, -0.33333298563957214,
)  # fmt: skip
ASIN = (0.04215545579791069, 0.024186337366700172, 0.045468878000974655, 0.0749531090259552, 0.16666752099990845)

# ((1 - e) ** (-1/3) - 1) / e up to 0.1028 of both signs
INVERSE_CBRT = (0.17389480769634247, 0.22335638105869293, 0.33333227038383484)

LOG_2_E = 1.4426950408889634
LOG_2 = (0.693147182464599609375, -1.904654323148236e-09)  # f32, of which 24 bits times an integer of a few are taken off exactly
LOG_2_SHORT = (0.693145751953125, 1.4286068203094172e-06)  # of 16 bits, which an exponent times is exact, and the rest
THIRD = (0.3333333432674408, -9.934107481068821e-09)
PI = 3.1415927410125732
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)  # f32, which pi / 2 is the sum of to 76 bits
WIDEST = 2.0**18  # of an angle, for which that integer is still the nearest but for a hundredth
MAGIC = 1.5 * 2.0**23  # adding it leaves a whole number in the last bits
INVERSE = 0x7EF311C7  # less the bits of a float: those of its inverse, but for an eighth
ROOT_HALF = 0x3F3504F3  # the bits of sqrt 0.5
SHIFT, EXPONENT_OF_1 = 23, 0x3F800000


# ── building blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _word(like: Value, value: int) -> Value:
    return whole(shaped(I32, like), value)


def _signed(b: Builder, size: Value, x: Value) -> Value:
    """A size, whose sign is not set, with the sign of x."""
    return as_float(b, b.or_(as_bits(b, size), b.and_(as_bits(b, x), _word(x, -(2**31)))))


def _root(b: Builder, x: Value) -> Value:
    return call(b, f"llvm.sqrt.{suffix(x)}", x)


def _root_rest(b: Builder, x: Value, root: Value) -> Value:
    """What a root lacks, to three bits: what its square lacks by twice itself."""
    return b.fmul(fma(b, b.fneg(root), root, x), _half_inverse(b, root))


def _half_inverse(b: Builder, x: Value) -> Value:
    """1 / (2 x) to three bits."""
    return as_float(b, b.sub(_word(x, INVERSE - (1 << SHIFT)), as_bits(b, x)))


def _exponent(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """The whole n that is nearest to x / log 2, in the last bits of an integer; and what is left in two parts, the second of which
    is of the size of what the first rounds away."""
    shifted = fma(b, x, real(LOG_2_E, x), real(MAGIC, x))
    n = b.fsub(shifted, real(MAGIC, x))
    return as_bits(b, shifted), fma(b, n, real(-LOG_2[0], x), x), b.fmul(n, real(-LOG_2[1], x))  # the first is exact


def _ended(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """A polynomial whose last term is added by itself: where how often that is rounded is seen in the last place."""
    return fma(b, x, pairwise(b, x, coefficients[:-1]), real(coefficients[-1], x))


def _power(b: Builder, n: Value, less: int = 0) -> Value:
    """2 ** (n - less) of the last bits of n."""
    return as_float(b, b.add(b.shl(n, whole(n.type, SHIFT)), whole(n.type, EXPONENT_OF_1 - (less << SHIFT))))


def _expm1(b: Builder, x: Value) -> Value:
    """Between -80 and 88: 2**n - 1 and 2**n (exp r - 1)."""
    n, high, low = _exponent(b, x)
    power, r = _power(b, n), b.fadd(high, low)
    near = fma(b, b.fmul(r, r), _ended(b, r, EXPM1), low)
    most = b.fsub(power, real(1.0, x))
    lost = b.fsub(b.fsub(power, most), real(1.0, x))
    return _joined(b, most, power, high, fma(b, power, near, lost))


def _joined(b: Builder, most: Value, factor: Value, x: Value, rest: Value) -> Value:
    """most + factor x + rest, where that is the order of their sizes, or `most` is 0."""
    high = fma(b, factor, x, most)
    return b.fadd(high, b.fadd(fma(b, factor, x, b.fsub(most, high)), rest))


def _log1p(b: Builder, x: Value, rest: Value | None = None) -> Value:
    """log (1 + x + rest), with the sign of x, of an x above -1; a rest stands beside an x that is not negative.

    x itself is taken where 1 + x is between 3/4 and 3/2 as it is rounded, both included: f is exact there and elsewhere."""
    one, bits = real(1.0, x), as_bits(b, b.fadd(x, real(1.0, x)))
    least = _word(x, 0x3F400001)  # beyond 3/4
    if rest is None:
        least = b.add(least, b.ashr(as_bits(b, x), _word(x, 31)))
    k = b.ashr(b.sub(bits, least), _word(x, SHIFT))
    moved = b.shl(k, _word(x, SHIFT))
    scale = as_float(b, b.sub(_word(x, EXPONENT_OF_1), moved))
    f = fma(b, x, scale, b.fsub(scale, one))
    count, square = b.sitofp(k, x.type), b.fmul(f, f)
    inner = fma(b, b.fmul(square, f), pairwise(b, f, LOG), b.fmul(count, real(LOG_2_SHORT[1], x)))
    if rest is not None:  # whose logarithm is its quotient by 1 + f
        inner = fma(b, b.fmul(rest, scale), fma(b, f, real(-0.75, x), one), inner)
    inner = fma(b, square, real(-0.5, x), inner)
    most = b.fmul(count, real(LOG_2_SHORT[0], x))  # exact
    high = b.fadd(most, f)
    return b.fadd(high, b.fadd(b.fadd(b.fsub(most, high), f), inner))


# ── exponentials ────────────────────────────────────────────────────────────────────────────────────────────────────────


def expm1(b: Builder, x: Value) -> Held:
    least = real(-20.0, x)
    clamped = b.select(b.fcmp_ordered("<", x, least), least, x)
    return _signed(b, magnitude(b, _expm1(b, clamped)), x), b.fcmp_ordered("<", x, real(88.0, x))


def tanh(b: Builder, x: Value) -> Held:
    """Below 0.55 a polynomial; from there 1 - 2 / (1 + exp 2 a) of a = |x|."""
    a, one, most = magnitude(b, x), real(1.0, x), real(9.5, x)  # from which it is 1
    square = b.fmul(a, a)
    near = fma(b, b.fmul(square, a), pairwise(b, square, TANH), a)
    inside = b.select(b.fcmp_ordered(">", a, most), most, a)
    shifted = fma(b, inside, real(2 * LOG_2_E, x), real(MAGIC, x))
    r = fma(b, b.fsub(shifted, real(MAGIC, x)), real(-LOG_2[0] / 2, x), inside)
    below = fma(b, _power(b, as_bits(b, shifted)), pairwise(b, r, EXP_TWICE), one)
    far = b.fsub(one, b.fdiv(real(2.0, x), below))
    return _signed(b, b.select(b.fcmp_ordered("<", a, real(0.55, x)), near, far), x), None


def _halves(b: Builder, x: Value) -> tuple[Value, ...]:
    """2 ** (n - 1) and 2 ** (-n - 1) of x > 0; of what is left of x the first part, the hyperbolic sine less that, and the cosine
    less 1."""
    n, high, low = _exponent(b, x)
    r = b.fadd(high, low)
    square = b.fmul(r, r)
    sine = fma(b, b.fmul(square, r), pairwise(b, square, SINH), low)
    return _power(b, n, 1), _power(b, b.sub(_word(x, 0), n), 1), high, sine, b.fmul(square, pairwise(b, square, COSH))


def sinh(b: Builder, x: Value) -> Held:
    """By the theorem of addition, of n log 2 and r."""
    up, down, r, sine, cosine = _halves(b, magnitude(b, x))
    both, apart = b.fadd(up, down), b.fsub(up, down)
    lost = b.fsub(b.fsub(up, apart), down)
    value = _joined(b, apart, both, r, fma(b, both, sine, fma(b, apart, cosine, lost)))
    return _signed(b, value, x), _within(b, x, 87.0)


def cosh(b: Builder, x: Value) -> Held:
    up, down, r, sine, cosine = _halves(b, magnitude(b, x))
    both, apart = b.fadd(up, down), b.fsub(up, down)
    lost = b.fadd(b.fsub(up, both), down)
    return _joined(b, both, apart, r, fma(b, both, cosine, fma(b, apart, sine, lost))), _within(b, x, 87.0)


def _within(b: Builder, x: Value, most: float) -> Value:
    return b.fcmp_ordered("<", magnitude(b, x), real(most, x))


# ── logarithms ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def log1p(b: Builder, x: Value) -> Held:
    holds = b.and_(b.fcmp_ordered(">", x, real(-1.0, x)), b.fcmp_ordered("<", x, real(2.0**126, x)))
    return _signed(b, magnitude(b, _log1p(b, x)), x), holds


def atanh(b: Builder, x: Value) -> Held:
    """Half of log (1 + 2 a / (1 - a)) of a = |x|."""
    a, one = magnitude(b, x), real(1.0, x)
    below = b.fsub(one, a)
    lost = b.fsub(b.fsub(one, below), a)
    inverse = b.fdiv(one, below)
    twice = b.fadd(a, a)
    q = b.fmul(twice, inverse)
    rest = b.fmul(fma(b, b.fneg(q), lost, fma(b, b.fneg(q), below, twice)), inverse)
    return _signed(b, b.fmul(real(0.5, x), _log1p(b, q, rest)), x), _within(b, x, 1.0)


def asinh(b: Builder, x: Value) -> Held:
    """log (1 + a + t) of a = |x| and t = sqrt (1 + a**2) - 1, which is the root of t**2 + 2 t = a**2: what it lacks is that
    equation's rest by its slope."""
    a, one = magnitude(b, x), real(1.0, x)
    root = _root(b, fma(b, a, a, one))
    t = b.fdiv(b.fmul(a, a), b.fadd(one, root))
    lacks = fma(b, b.fneg(t), t, fma(b, a, a, b.fneg(b.fadd(t, t))))
    w = b.fadd(a, t)
    rest = fma(b, lacks, _half_inverse(b, root), b.fadd(b.fsub(a, w), t))
    return _signed(b, _log1p(b, w, rest), x), _within(b, x, 2.0**60)


def acosh(b: Builder, x: Value) -> Held:
    """log (1 + t + sqrt (t (t + 2))) of t = x - 1."""
    t = b.fsub(x, real(1.0, x))
    twice = b.fadd(t, t)
    p = fma(b, t, t, twice)
    root = _root(b, p)
    lacks = b.fmul(b.fadd(fma(b, b.fneg(root), root, p), fma(b, t, t, b.fsub(twice, p))), _half_inverse(b, root))
    w = b.fadd(root, t)
    rest = b.fadd(b.fadd(b.fsub(root, w), t), lacks)
    holds = b.and_(b.fcmp_ordered(">=", x, real(1.0, x)), b.fcmp_ordered("<", x, real(2.0**60, x)))
    return _log1p(b, w, rest), holds


# ── angles ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sine_and_cosine(b: Builder, x: Value) -> tuple[Value, Value]:
    """Of f32 below WIDEST. What is left of an angle is r and `low`: the first of the three parts is taken off exactly, and what the
    second's product and difference lose is known: where that is the larger one, the other is a whole number of its units."""
    shifted = fma(b, x, real(0.6366197723675814, x), real(MAGIC, x))
    n = b.fsub(shifted, real(MAGIC, x))
    first = fma(b, n, real(-HALF_PI[0], x), x)
    off = b.fmul(n, real(HALF_PI[1], x))
    r = b.fsub(first, off)
    low = b.fsub(b.fsub(first, r), off)
    low = b.fsub(low, fma(b, n, real(HALF_PI[2], x), fma(b, n, real(HALF_PI[1], x), b.fneg(off))))
    z = b.fmul(r, r)
    sine = b.fadd(r, fma(b, b.fmul(r, z), pairwise(b, z, SINE), low))
    half = b.fmul(real(0.5, x), z)
    most = b.fsub(real(1.0, x), half)
    rest = fma(b, b.fmul(z, z), pairwise(b, z, COSINE), b.fneg(b.fmul(r, low)))
    cosine = b.fadd(most, b.fadd(b.fsub(b.fsub(real(1.0, x), most), half), rest))
    turns, one = as_bits(b, shifted), _word(x, 1)
    odd = b.icmp_signed("!=", b.and_(turns, one), _word(x, 0))

    def by_quadrant(turns: Value, other: Value, own: Value) -> Value:
        return _turned(b, b.select(odd, other, own), b.shl(b.and_(turns, _word(x, 2)), _word(x, 30)))

    found = by_quadrant(turns, cosine, sine)
    return b.select(b.fcmp_ordered("==", x, real(0.0, x)), x, found), by_quadrant(b.add(turns, one), sine, cosine)


def _angle(b: Builder, base: Value, first: Value, cube: Value, beyond: Value, rest: Value | None = None) -> Value:
    """The sum of `base`, which is 0 or a multiple of pi / 2 as a float; `first`, no larger than `base` if that is not 0; the
    product of `cube` and `beyond`; and a rest."""
    high = b.fadd(base, first)
    low = fma(b, base, real(HALF_PI[1] / HALF_PI[0], base), b.fadd(b.fsub(base, high), first))
    return b.fadd(high, fma(b, cube, beyond, low if rest is None else b.fadd(low, rest)))


def _atan(b: Builder, base: Value, z: Value, square: Value, rest: Value) -> Value:
    """`base` and atan z and a rest, where z**2 is `square` as it is rounded. What atan z is beyond z is as much as a quarter of it:
    what its products lose joins the rest."""
    part = _ended(b, square, ATAN)
    beyond = b.fmul(square, part)
    lost = fma(b, fma(b, z, z, b.fneg(square)), part, fma(b, square, part, b.fneg(beyond)))
    return _angle(b, base, z, z, beyond, fma(b, z, lost, rest))


def atan(b: Builder, x: Value) -> Held:
    """From 1 by -1 / a of a = |x|; what that lacks joins by about the slope."""
    a, zero, one, most = magnitude(b, x), real(0.0, x), real(1.0, x), real(2.0**60, x)
    a = b.select(b.fcmp_ordered(">", a, most), most, a)
    steep = b.fcmp_ordered(">", a, one)
    inverse = b.fdiv(real(-1.0, x), a)
    z = b.select(steep, inverse, a)
    lacks = b.select(steep, fma(b, a, inverse, one), zero)
    square = b.fmul(z, z)
    rest = b.fmul(lacks, b.fmul(real(0.66, x), z))
    base = b.select(steep, real(HALF_PI[0], x), zero)
    return _signed(b, _atan(b, base, z, square, rest), x), None


def atan2(b: Builder, y: Value, x: Value) -> Held:
    """Of the smaller by the larger of both sizes, a quotient in two parts, turned into the octant."""
    tall, wide, one, set_sign = magnitude(b, y), magnitude(b, x), real(1.0, x), _word(x, -(2**31))
    steep = b.fcmp_ordered(">", tall, wide)
    low, high = b.select(steep, wide, tall), b.select(steep, tall, wide)
    nothing = b.fcmp_ordered("==", low, real(0.0, x))
    high = b.select(nothing, one, high)
    inverse = b.fdiv(one, high)
    sign = b.xor(b.and_(as_bits(b, x), set_sign), b.select(steep, set_sign, _word(x, 0)))
    z = b.fmul(low, inverse)
    lacks = _turned(b, b.fmul(fma(b, b.fneg(z), high, low), inverse), sign)
    square = b.fmul(z, z)
    rest = b.fmul(lacks, fma(b, square, real(-0.5, x), one))
    base = b.select(steep, real(HALF_PI[0], x), _where_negative(b, x, PI))
    angle = _atan(b, base, _turned(b, z, sign), square, rest)
    usual = b.and_(b.fcmp_ordered(">", low, real(2.0**-100, x)), b.fcmp_ordered("<", high, real(2.0**100, x)))
    return _signed(b, angle, y), b.and_(b.or_(nothing, usual), b.fcmp_ordered("ord", x, y))


def _turned(b: Builder, x: Value, sign: Value) -> Value:
    """-x where a bit is set that is the sign's, else x."""
    return as_float(b, b.xor(as_bits(b, x), sign))


def _where_negative(b: Builder, x: Value, value: float) -> Value:
    """A value where the sign of x is set, else 0."""
    return as_float(b, b.and_(b.ashr(as_bits(b, x), _word(x, 31)), as_bits(b, real(value, x))))


def asin(b: Builder, x: Value) -> Held:
    """From 1/2 by pi / 2 - 2 asin (sqrt ((1 - a) / 2)) of a = |x|."""
    a = magnitude(b, x)
    near, z, s, lacks = _arc(b, a, a)
    base = b.select(near, real(0.0, x), real(HALF_PI[0], x))
    first = b.fmul(b.select(near, real(1.0, x), real(-2.0, x)), s)
    lacks = b.fmul(real(-2.0, x), lacks)
    return _signed(b, _angle(b, base, first, b.fmul(first, z), pairwise(b, z, ASIN), lacks), x), None


def acos(b: Builder, x: Value) -> Held:
    """pi / 2 less that, also where that is little; where x is negative pi less twice."""
    near, z, s, lacks = _arc(b, magnitude(b, x), x)
    twice = _turned(b, real(2.0, x), b.and_(as_bits(b, x), _word(x, -(2**31))))
    base = b.select(near, real(HALF_PI[0], x), _where_negative(b, x, PI))
    first = b.fmul(b.select(near, real(-1.0, x), twice), s)
    return _angle(b, base, first, b.fmul(first, z), pairwise(b, z, ASIN), b.fmul(twice, lacks)), None


def _arc(b: Builder, a: Value, x: Value) -> tuple[Value, Value, Value, Value]:
    """Whether a = |x| is below 1/2; of the angle asin s that is taken s**2 and s, which is x there; and what s lacks."""
    near = b.fcmp_ordered("<", a, real(0.5, x))
    half = fma(b, real(-0.5, x), a, real(0.5, x))
    root = _root(b, half)
    z, s = b.select(near, b.fmul(a, a), half), b.select(near, x, root)
    return near, z, s, b.select(near, real(0.0, x), _root_rest(b, half, root))


# ── powers and roots ────────────────────────────────────────────────────────────────────────────────────────────────────


def _log_in_parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """log x to 34 bits, of an x that is positive, finite and not subnormal: 2 s (1 + s**2 (1/3 + …)) of s = f / (2 + f), where s,
    its square and what stands in brackets are in two parts."""
    bits, one = as_bits(b, x), real(1.0, x)
    k = b.ashr(b.sub(bits, _word(x, ROOT_HALF)), _word(x, SHIFT))
    m = as_float(b, b.sub(bits, b.shl(k, _word(x, SHIFT))))
    count, f, below = b.sitofp(k, x.type), b.fsub(m, one), b.fadd(m, one)
    below_rest = b.fsub(f, b.fsub(below, real(2.0, x)))
    inverse = b.fdiv(one, below)
    s = b.fmul(f, inverse)
    s_rest = b.fmul(fma(b, b.fneg(s), below_rest, fma(b, b.fneg(s), below, f)), inverse)
    twice, twice_rest = b.fadd(s, s), b.fadd(s_rest, s_rest)
    z = b.fmul(s, s)
    z_rest = fma(b, twice, s_rest, fma(b, s, s, b.fneg(z)))
    further = b.fmul(z, pairwise(b, z, SERIES))
    third = real(THIRD[0], x)
    c = b.fadd(third, further)
    c_rest = b.fadd(b.fadd(b.fsub(third, c), further), real(THIRD[1], x))
    part = b.fmul(z, c)
    part_rest = fma(b, z_rest, c, fma(b, z, c_rest, fma(b, z, c, b.fneg(part))))
    more = b.fmul(twice, part)
    more_rest = fma(b, twice, part_rest, fma(b, twice, part, b.fneg(more)))
    more_rest = b.fadd(fma(b, twice_rest, part, twice_rest), more_rest)
    most = b.fmul(count, real(LOG_2_SHORT[0], x))  # exact
    first = b.fadd(most, twice)
    high = b.fadd(first, more)
    low = b.fadd(b.fadd(b.fsub(most, first), twice), b.fadd(b.fsub(first, high), more))
    return high, b.fadd(low, fma(b, count, real(LOG_2_SHORT[1], x), more_rest))


def pow(b: Builder, x: Value, y: Value) -> Held:
    """exp (y log x), for x that are positive and not subnormal, and results that are so, too."""
    high, low = _log_in_parts(b, x)
    p = b.fmul(y, high)
    rest = fma(b, y, low, fma(b, y, high, b.fneg(p)))
    n, first, second = _exponent(b, p)
    second = b.fadd(second, rest)
    r = b.fadd(first, second)
    near = b.fadd(first, fma(b, b.fmul(r, r), _ended(b, r, EXPM1), second))
    power = _power(b, n)
    usual = b.icmp_unsigned("<", b.sub(as_bits(b, x), _word(x, 0x800000)), _word(x, 0x7F000000))
    return fma(b, power, near, power), b.and_(usual, _within(b, p, 87.0))


def cbrt(b: Builder, x: Value) -> Held:
    """By the inverse root: its bits are a third of those of |x|, taken from a constant, but for a thirtieth. A step of three terms
    leaves 4e-6 of that, and one of Newton's with the cube in two parts, which squares it, makes the root exact."""
    a = magnitude(b, x)
    bits = as_bits(b, a)
    third = b.fptosi(fma(b, b.sitofp(bits, x.type), real(-1 / 3, x), real(CBRT, x)), bits.type)
    r = as_float(b, third)
    e = fma(b, b.fneg(b.fmul(a, r)), b.fmul(r, r), real(1.0, x))
    r = fma(b, b.fmul(r, e), pairwise(b, e, INVERSE_CBRT), r)
    square = b.fmul(r, r)
    y = b.fmul(a, square)
    power = b.fmul(y, y)
    beyond = fma(b, power, y, b.fneg(a))
    beyond = fma(b, fma(b, y, y, b.fneg(power)), y, beyond)
    y = fma(b, b.fmul(beyond, square), real(-1 / 3, x), y)
    usual = b.icmp_unsigned(">=", b.sub(bits, _word(x, 1)), _word(x, 0x7FFFFF))
    return _signed(b, y, x), b.and_(usual, b.icmp_signed("<", bits, _word(x, 0x7F800000)))


CBRT = float(0x54A20000)  # which leaves as much on both sides

SINGLE: dict[str, Formula] = {
    "tanh": tanh, "expm1": expm1, "log1p": log1p, "cbrt": cbrt, "asin": asin, "acos": acos, "atan": atan, "sinh": sinh,
    "cosh": cosh, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip
