"""The operators on arrays, element type by element type, against exact arithmetic."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.base.element import FLOAT, INT, Element
from axon.core.ir import identity
from axon.core.verify import BINARY_ELEMENTS, UNARY_ELEMENTS
from axon.interpret import arithmetic, special
from tests.core.build import BF16, BOOL, F8E4M3, F8E5M2, F16, F32, F64, I8, I16, I32, I64, U8, U32, U64

NARROW = (F16, BF16, F8E4M3, F8E5M2)
# mantissa bits with the hidden one, least exponent of a normal number, greatest finite value
FORMATS = {
    F64: (53, -1022, None),
    F32: (24, -126, (2 - 2.0**-23) * 2.0**127),
    F16: (11, -14, 65504.0),
    BF16: (8, -126, (2 - 2.0**-7) * 2.0**127),
    F8E4M3: (4, -6, 448.0),
    F8E5M2: (3, -14, 57344.0),
}


def nearest(value: Fraction, element: Element) -> float:
    """The value rounded to nearest even, by exact arithmetic: the definition."""
    if value == 0:
        return 0.0
    precision, least, greatest = FORMATS[element]
    exponent = max(_exponent(abs(value)), least)
    quantum = Fraction(2) ** (exponent - precision + 1)
    rounded = round(value / quantum) * quantum  # Fraction's round is half to even
    if greatest is not None and abs(rounded) > greatest:
        return math.nan if element is F8E4M3 else math.inf if value > 0 else -math.inf
    return float(rounded)


def _exponent(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def every(element: Element) -> np.ndarray:
    """All values of an element type of 8 bits."""
    return np.arange(256, dtype=np.uint8).view(element.dtype)


def same(x, y) -> bool:
    return bool(np.all((x == y) | ((x != x) & (y != y))))


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        yield


# ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=300, deadline=None)
@given(st.sampled_from((F32, *NARROW)), st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_f64_rounds_once(element, value):
    _rounds(value, element)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(NARROW), st.integers(1, 2**11), st.integers(-12, 12), st.sampled_from((0, -1, 1)))
def test_f64_beside_a_tie_rounds_once(element, mantissa, exponent, side):
    """Just beside the middle between two narrow numbers: rounding to f32 on the way would lose the side."""
    _rounds((mantissa + 0.5) * 2.0**exponent * (1 + side * 2.0**-45), element)


def _rounds(value: float, element: Element):
    actual = arithmetic.convert(np.array([value, -value]), F64, element).astype(np.float64)
    assert same(actual, np.array([nearest(Fraction(value), element), nearest(-Fraction(value), element)]))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from((F64, F32, *NARROW)), st.integers(-(2**63), 2**63 - 1), st.integers(0, 62))
def test_i64_rounds_once(element, value, shift):
    value >>= shift
    actual = arithmetic.convert(np.array([value]), I64, element).astype(np.float64)
    assert same(actual, nearest(Fraction(value), element))


@pytest.mark.parametrize("value", [2**60 + 2**52 + 1, 2**60 + 2**52, 2**60 + 2**52 - 1, -(2**60) - 2**52 - 1])
def test_i64_beside_a_tie_of_bf16(value):
    actual = arithmetic.convert(np.array([value]), I64, BF16).astype(np.float64)
    assert same(actual, nearest(Fraction(value), BF16))


@pytest.mark.parametrize("source", [F8E4M3, F8E5M2])
@pytest.mark.parametrize("target", sorted(FLOAT, key=lambda e: e.value))
def test_every_8_bit_float_converts(source, target):
    values = every(source)
    wide = values.astype(np.float64)
    actual = arithmetic.convert(values, source, target).astype(np.float64)
    infinity = math.nan if target is F8E4M3 else math.inf
    for x, y in zip(wide.tolist(), actual.tolist(), strict=True):
        expected = nearest(Fraction(x), target) if math.isfinite(x) else x if x != x else math.copysign(infinity, x)
        assert same(np.array(y), np.array(expected)), x


@pytest.mark.parametrize("source", sorted(FLOAT, key=lambda e: e.value))
@pytest.mark.parametrize("target", sorted(INT, key=lambda e: e.value))
def test_floats_into_integers_truncate_and_saturate(source, target):
    values = np.array([0.0, -0.0, 1.75, -1.75, 100.0, -100.0, 300.0, -300.0, 2.0**40, math.inf, -math.inf, math.nan])
    values = values.astype(source.dtype)
    limits = np.iinfo(target.dtype)
    expected = []
    for x in values.astype(np.float64).tolist():
        if math.isinf(x):
            expected.append(limits.max if x > 0 else limits.min)
        else:
            expected.append(0 if x != x else max(limits.min, min(limits.max, math.trunc(x))))
    actual = arithmetic.convert(values, source, target)
    assert actual.dtype == target.dtype
    assert actual.tolist() == expected


def test_i64_saturates_at_its_limits():
    values = np.array([2.0**63, -(2.0**63), 2.0**63 - 1024, -(2.0**70)])
    assert arithmetic.convert(values, F64, I64).tolist() == [2**63 - 1, -(2**63), 2**63 - 1024, -(2**63)]


def test_integers_wrap_into_narrower_ones():
    values = np.array([300, -1, 128, 2**31 + 5])
    assert arithmetic.convert(values, I64, I8).tolist() == [44, -1, -128, 5]
    assert arithmetic.convert(values, I64, U8).tolist() == [44, 255, 128, 5]
    assert arithmetic.convert(values, I64, I32).tolist() == [300, -1, 128, -(2**31) + 5]


def test_a_u64_is_converted_exactly():
    values = np.array([0, 2**53 + 1, 2**63, 2**64 - 1], np.uint64)
    assert arithmetic.convert(values, U64, F64).tolist() == [0.0, 2.0**53, 2.0**63, 2.0**64]
    assert arithmetic.convert(values, U64, I64).tolist() == [0, 2**53 + 1, -(2**63), -1]
    assert arithmetic.convert(np.array([2.0**63, 2.0**64 - 2048, 2.0**64, -1.0]), F64, U64).tolist() == [
        2**63, 2**64 - 2048, 2**64 - 1, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("source", [I32, U32, I64, U64])
def test_integers_round_to_bf16_once(source):
    """A little more than halfway: as f32 or f64 it may be halfway, and would be rounded down."""
    top = source.bits - 2
    values = np.array([2**top + 2 ** (top - 8) + 1], source.dtype)
    assert float(arithmetic.convert(values, source, BF16)[0]) == 2.0**top + 2.0 ** (top - 7)


@pytest.mark.parametrize("element", list(Element))
def test_bool_is_what_is_not_zero(element):
    values = np.array([0, 1, 2]).astype(element.dtype)
    assert arithmetic.convert(values, element, BOOL).tolist() == [False, True, True]
    assert arithmetic.convert(np.array([False, True]), BOOL, element).astype(np.float64).tolist() == [0, 1]
    if element.is_float:
        assert arithmetic.convert(np.array([np.nan, -0.0], element.dtype), element, BOOL).tolist() == [True, False]


@pytest.mark.parametrize("element", sorted(FLOAT, key=lambda e: e.value))
def test_literals_round_once(element):
    for value in (0.1, 1e-3, 3.0, -2.7, 1 + 2.0**-8 + 2.0**-40):
        assert arithmetic.constant(value, element, 2).astype(np.float64).item() == nearest(Fraction(value), element)
    assert arithmetic.constant(-math.inf, F32, 3).shape == (1, 1, 1)


# ── operators ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("element", [F8E4M3, F8E5M2])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_every_pair_of_8_bit_floats(op, element):
    values = every(element)
    x, y = np.repeat(values, 256), np.tile(values, 256)
    actual = arithmetic.binary(op, x, y, element)
    assert actual.dtype == element.dtype
    wide = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    exact = wide(x.astype(np.float64), y.astype(np.float64))  # exact but for div, whose 53 bits decide every rounding here
    table = {v: nearest(Fraction(v), element) for v in set(exact[np.isfinite(exact)].tolist())}
    infinite = math.nan if element is F8E4M3 else math.inf
    expected = [table.get(v, math.nan if v != v else math.copysign(infinite, v)) for v in exact.tolist()]
    assert same(actual.astype(np.float64), np.array(expected))


FLOAT_UNARY = {
    "neg": lambda x: -x, "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x),
    "sin": math.sin, "cos": math.cos, "tanh": math.tanh, "erf": math.erf, "abs": abs, "floor": math.floor,
    "sign": lambda x: math.copysign(1, x), "ceil": math.ceil, "round": round,
}  # fmt: skip


@pytest.mark.parametrize("element", sorted(FLOAT, key=lambda e: e.value))
@pytest.mark.parametrize("op", sorted(FLOAT_UNARY))
def test_unary_on_floats(op, element):
    values = np.array([0.25, 0.5, 1.0, 1.5, 2.5, 3.5, 7.0, 0.125]).astype(element.dtype)
    actual = arithmetic.unary(op, values, element)
    assert actual.dtype == element.dtype
    exact = [FLOAT_UNARY[op](x) for x in values.astype(np.float64).tolist()]
    if element in NARROW:
        assert same(actual.astype(np.float64), np.array([nearest(Fraction(x), element) for x in exact]))
    else:
        np.testing.assert_allclose(actual, exact, rtol=4 * 2.0 ** -FORMATS[element][0])


def test_bits_of_negative_numbers():
    x, y = np.array([-1, -128, 127, 5], np.int8), np.array([0, 7, 8, -1], np.int8)
    assert arithmetic.binary("shift_left", x, y, I8).tolist() == [-1, 0, 0, 0]
    assert arithmetic.binary("shift_right", x, y, I8).tolist() == [-1, -1, 0, 0]
    assert arithmetic.binary("shift_right", x, np.full(4, 100, np.int8), I8).tolist() == [-1, -1, 0, 0]
    assert arithmetic.binary("shift_right", x.view(np.uint8), y.view(np.uint8), U8).tolist() == [255, 1, 0, 0]
    assert arithmetic.unary("bit_not", x, I8).tolist() == [0, 127, -128, -6]


def test_tables_have_the_operators_that_the_verifier_allows():
    assert set(arithmetic.UNARY) == set(UNARY_ELEMENTS)
    assert {*arithmetic.BINARY, "div"} == set(BINARY_ELEMENTS)


@pytest.mark.parametrize("element", sorted(INT, key=lambda e: e.value))
def test_integers_wrap(element):
    limits = np.iinfo(element.dtype)
    top, low, one = (np.array([v], element.dtype) for v in (limits.max, limits.min, 1))
    assert arithmetic.binary("add", top, one, element) == low
    assert arithmetic.binary("sub", low, one, element) == top
    assert arithmetic.binary("mul", top, top, element) == 1
    assert arithmetic.unary("abs", low, element) == low
    assert arithmetic.unary("neg", one, element) == (limits.max if element.is_unsigned else -1)
    if not element.is_unsigned:
        assert arithmetic.binary("div", low, -one, element) == low
    assert arithmetic.binary("pow", np.array([3], element.dtype), np.array([5], element.dtype), element) == (
        243 if element is not I8 else -13
    )


@pytest.mark.parametrize("element", [I8, I16, I32, I64])
def test_integer_division_is_floor(element):
    x, y = np.array([7, -7, 7, -7], element.dtype), np.array([2, 2, -2, -2], element.dtype)
    assert arithmetic.binary("div", x, y, element).tolist() == [3, -4, -4, 3]
    assert arithmetic.binary("mod", x, y, element).tolist() == [1, 1, -1, -1]


@pytest.mark.parametrize("element", sorted(FLOAT, key=lambda e: e.value))
def test_float_remainder_has_the_divisors_sign(element):
    x, y = np.array([3.5, -3.5, 3.5], element.dtype), np.array([2.0, 2.0, 0.0], element.dtype)
    actual = arithmetic.binary("mod", x, y, element).astype(np.float64)
    assert same(actual, np.array([1.5, 0.5, np.nan]))


@pytest.mark.parametrize("element", sorted(FLOAT, key=lambda e: e.value))
def test_nan_wins_in_max_and_min_and_loses_comparisons(element):
    x, y = np.array([np.nan, 1.0, 2.0], element.dtype), np.array([1.0, np.nan, 1.0], element.dtype)
    assert same(arithmetic.binary("max", x, y, element).astype(np.float64), np.array([np.nan, np.nan, 2.0]))
    assert same(arithmetic.binary("min", x, y, element).astype(np.float64), np.array([np.nan, np.nan, 1.0]))
    for op in ("eq", "lt", "le", "gt", "ge"):
        assert not arithmetic.binary(op, x, y, element)[:2].any()
    assert arithmetic.binary("ne", x, y, element).all()


def test_special_values_of_f32():
    x = np.array([-1.0, 0.0, -0.0, np.inf], np.float32)
    assert same(arithmetic.unary("log", x, F32), np.array([np.nan, -np.inf, -np.inf, np.inf]))
    assert same(arithmetic.unary("sqrt", x, F32), np.array([np.nan, 0.0, -0.0, np.inf]))
    assert same(arithmetic.unary("rsqrt", x, F32), np.array([np.nan, np.inf, -np.inf, 0.0]))
    assert same(arithmetic.unary("exp", np.array([1e4, -1e4], np.float32), F32), np.array([np.inf, 0.0]))
    assert arithmetic.unary("round", np.array([0.5, 1.5, -0.5, 2.5], np.float32), F32).tolist() == [0, 2, 0, 2]


def test_erf_in_f64():
    x = np.concatenate([np.linspace(-7, 7, 20_001), np.logspace(-300, 0, 500), [0.46875, 4.0, 6.0, 5.9999]])
    expected = np.array([math.erf(v) for v in x])
    assert np.all(np.abs(special.erf(x) - expected) <= 4 * np.spacing(np.abs(expected)))
    assert same(special.erf(np.array([np.inf, -np.inf, np.nan])), np.array([1.0, -1.0, np.nan]))
    assert np.signbit(special.erf(np.array([-0.0]))).all()


def test_erf_in_f32_is_the_rounded_one():
    x = np.linspace(-5, 5, 5_001, dtype=np.float32)
    expected = np.array([math.erf(v) for v in x.tolist()])
    actual = special.erf(x)
    assert actual.dtype == np.float32
    assert np.all(np.abs(actual - expected) <= 0.5001 * np.spacing(np.abs(expected).astype(np.float32)))


# ── identities ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("element", [e for e in Element if e is not BOOL])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_identities(kind, element):
    unit = np.array([identity(kind, element)]).astype(element.dtype)
    values = np.array([-1, 0, 3] if element is not U8 else [0, 1, 3]).astype(element.dtype)
    op = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}[kind]
    assert same(arithmetic.binary(op, values, unit, element), values)
