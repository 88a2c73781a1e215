"""Functions of f32 for processors that are computed in f64, within a unit in the last place: those that are not in `single`.

They are formulas of `elementary` with shorter polynomials and a logarithm that divides by nothing, which hold to 32 bits and more.

Polynomials are those through Chebyshev's nodes of the interval that is given, which are nearly the best of their degree.
"""

from __future__ import annotations

from axon.backend.kernel.elementary import Elementary, none
from axon.backend.kernel.llvm import F32, Builder, Value, fma, real, shaped
from axon.backend.kernel.polynomials import pairwise
from axon.core import coefficients as known

# (exp r - 1 - r) / r**2 up to 0.35, to 36 bits of the function.
EXP = (
    2.4860731885840675e-05, 0.00019900428151915095, 0.0013888852650225144, 0.008333297083738308, 0.041666666722163556,
    0.16666666722181583, 0.5,
)  # fmt: skip
# (log (1 + f) - f) / f**2 where 1 + f is between sqrt 0.5 and sqrt 2, to 37 bits of log.
LOG = (
    -0.04859688676760745, 0.09068219259497882, -0.09225017073696047, 0.09040092391221799, -0.09901959112072549,
    0.11106873908484438, -0.1250475755707505, 0.1428604775554632, -0.16666562257149847, 0.19999993218747883,
    -0.2500000085483955, 0.3333333336687618, -0.49999999998830186,
)  # fmt: skip
LOG_2 = 0.6931471805599453
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

    def erfinv(self, b: Builder, x: Value) -> Value:
        """x times a polynomial, as M. Giles has it (2012): without a quotient or a root."""
        w = b.fneg(self.log(b, fma(b, b.fneg(x), x, real(1.0, x))))
        near, far = (pairwise(b, b.fsub(w, real(middle, x)), part) for middle, part in zip(ERFINV_MIDDLES, ERFINV, strict=True))
        return b.fmul(x, b.select(b.fcmp_ordered("<", w, real(ERFINV_APART, x)), near, far))

    def polynomial(self, b: Builder, coefficients: known.Polynomial, x: Value) -> Value:
        return pairwise(b, x, EXP if coefficients is known.EXP else coefficients)

    def log(self, b: Builder, x: Value, low: Value | None = None, twice: Value | None = None) -> Value:
        count, f = self.beyond_1(b, x, low, twice)
        near = fma(b, b.fmul(f, f), pairwise(b, f, LOG), f)
        return fma(b, count, real(LOG_2, x), near)


NARROW = Narrow(fma, none, none)
