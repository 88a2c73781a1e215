"""Functions and conversions of emitted kernels: on every value of narrow element types, and on the awkward ones of the others."""

import mpmath
import numpy as np
import pytest
from scipy.special import erf

from axon.backend.cpu.executable import CpuExecutable
from axon.backend.cpu.run import run as call
from axon.base.element import FLOAT, INT, Element
from axon.core.ir import Convert, Unary
from axon.interpret import run
from axon.shapes.dimension import Dim
from tests.core.build import Build, at, index, ix, op

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 0.5, 1.5, 2.5, -0.5, 448.0, 464.0]
SPECIAL += [
    465.0,
    57344.0,
    61440.0,
    61441.0,
    65504.0,
    65520.0,
    2.0**-9,
    2.0**-10,
    2.0**-24,
    2.0**-25,
    127.5,
    -128.5,
    255.5,
    2.0**31,
]
SPECIAL += [-(2.0**31), 2.0**63, -(2.0**63), 9e18, 1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-11 + 2.0**-40, 0.1, 1e300, 1e-300]
INTEGERS = [
    0,
    1,
    -1,
    2,
    -2,
    7,
    -7,
    127,
    -128,
    255,
    256,
    2**24 + 1,
    2**31 - 1,
    -(2**31),
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 1,
    -(2**63),
]
WIDE = np.concatenate(
    [np.linspace(-110, 110, 200_001), np.logspace(-44, 38, 20_001), -np.logspace(-44, 38, 20_001), SPECIAL[:18]]
).astype(np.float32)


def values(element):
    """All values of a narrow element type; for the others the awkward ones."""
    if element.bits == 8 and element is not Element.BOOL:
        return np.arange(256, dtype=np.uint8).view(element.dtype)
    if element.bits == 16:
        return np.arange(65536, dtype=np.uint16).view(element.dtype)
    if element.is_float:
        with np.errstate(all="ignore"):
            numbers = np.array(SPECIAL, np.float64).astype(element.dtype)
            return np.concatenate([numbers, np.random.default_rng(0).standard_normal(2000).astype(element.dtype) * 300])
    if element is Element.BOOL:
        return np.array([True, False])
    limits = np.iinfo(element.dtype)
    return np.array([n for n in INTEGERS if limits.min <= n <= limits.max], element.dtype)


def both(program, *arrays):
    """The results of the backend and of the interpreter."""
    with np.errstate(all="ignore"):
        return call(CpuExecutable(program), arrays), run(program, arrays)


def agree(program, *arrays):
    for actual, expected in zip(*both(program, *arrays), strict=True):
        assert_equal(actual, expected)


def assert_equal(actual, expected):
    assert actual.dtype == expected.dtype
    with np.errstate(all="ignore"):
        same = (actual == expected) | ((actual != actual) & (expected != expected))
    assert same.all(), (actual[~same][:5], expected[~same][:5])


@pytest.mark.parametrize("source", Element, ids=lambda e: e.value)
def test_conversions_are_those_of_the_interpreter(source):
    build = Build("convert")
    x = build.input("x", source, Dim.of(ix("n", 1).symbol))
    results = [build.compute([i := ix("i", x.shape[0])], Convert(at(x, i), target)) for target in Element]
    agree(build.program(*results), values(source))


@pytest.mark.parametrize("element", [e for e in Element if e in FLOAT or e in INT], ids=lambda e: e.value)
def test_arithmetic_is_that_of_the_interpreter(element):
    """Every operator on all pairs of a few values; results of narrow floats are rounded after each operation."""
    numbers = values(element)
    if len(numbers) > 300:
        numbers = numbers[np.random.default_rng(1).permutation(len(numbers))[:200]]
    n = Dim.of(ix("n", 1).symbol)
    build = Build("arithmetic")
    x = build.input("x", element, n)
    results = []
    for name in ["add", "sub", "mul", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"] + (["div"] if element.is_float else []):
        i, j = ix("i", n), ix("j", n)
        results.append(build.compute([i, j], op(name, at(x, i), at(x, j))))
    for name in ["neg", "abs", "sign"] + (["floor", "ceil", "round", "sqrt"] if element.is_float else []):
        i = ix("i", n)
        results.append(build.compute([i], Unary(name, at(x, i))))
    agree(build.program(*results), numbers)


@pytest.mark.parametrize("element", [e for e in Element if e in INT], ids=lambda e: e.value)
@pytest.mark.parametrize("name", ["div", "mod", "pow"])
def test_integer_division_and_powers(name, element):
    numbers = values(element)
    divisors = np.array([1, 2, 3, 7] if name == "pow" or element.is_unsigned else [1, -1, 2, -3, 7, -128], element.dtype)
    build = Build(name)
    x, y = (build.input(v, element, Dim.of(ix("n", 1).symbol)) for v in "xy")
    i, j = ix("i", x.shape[0]), ix("j", y.shape[0])
    agree(build.program(build.compute([i, j], op(name, at(x, i), at(y, j)))), numbers, divisors)


@pytest.mark.parametrize(
    ("name", "exact"), [("exp", np.exp), ("log", np.log), ("tanh", np.tanh), ("erf", erf), ("sin", np.sin), ("cos", np.cos)]
)
def test_functions_of_f32_are_within_two_units_of_the_last_place(name, exact):
    build = Build(name)
    x = build.input("x", Element.F32, Dim.of(ix("n", 1).symbol))
    i = ix("i", x.shape[0])
    (actual,) = call(CpuExecutable(build.program(build.compute([i], Unary(name, at(x, i))))), [WIDE])
    with np.errstate(all="ignore"):
        true = exact(WIDE.astype(np.float64))
        rounded = true.astype(np.float32)
        odd = ~np.isfinite(rounded)
        assert_equal(actual[odd], rounded[odd])
        unit = np.spacing(np.maximum(np.abs(rounded[~odd]), np.float32(1.2e-38))).astype(np.float64)
        assert np.max(np.abs(actual[~odd] - true[~odd]) / unit) <= 2


@pytest.mark.parametrize("name", ["exp", "log"])
def test_exp_and_log_of_f64_are_within_two_units_of_the_last_place(name):
    build = Build(name)
    x = build.input("x", Element.F64, Dim.of(ix("n", 1).symbol))
    i = ix("i", x.shape[0])
    edges = [709.78, 709.79, 710.0, -708.4, -745.1, -745.2, -747.0, 5e-324, 2.0**-1022, 1 - 2.0**-53, 1 + 2.0**-52, 1e308, 0.5**0.5]
    ranges = [np.linspace(-750, 712, 200_001), np.linspace(0.5, 2.5, 100_001), np.logspace(-323, 308, 50_001)]
    numbers = np.concatenate([*ranges, edges, np.array(SPECIAL)])
    (actual,) = call(CpuExecutable(build.program(build.compute([i], Unary(name, at(x, i))))), [numbers])
    with np.errstate(all="ignore"):
        rounded = getattr(np, name)(numbers)  # itself within one unit
        odd = ~np.isfinite(rounded) | (rounded == 0)
        assert_equal(actual[odd], rounded[odd])
        unit = np.spacing(np.abs(rounded[~odd]))
        assert np.max(np.abs(actual[~odd] - rounded[~odd]) / unit) <= 2


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin", "cos", "rsqrt"])
def test_functions_of_f64_are_those_of_the_interpreter(name):
    build = Build(name)
    x = build.input("x", Element.F64, Dim.of(ix("n", 1).symbol))
    i = ix("i", x.shape[0])
    numbers = np.concatenate([np.linspace(-30, 30, 1001), [0.0, -0.0, np.inf, -np.inf, np.nan]])
    (actual,), (expected,) = both(build.program(build.compute([i], Unary(name, at(x, i)))), numbers)
    np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-300)


EXACT = {
    "expm1": mpmath.expm1, "log1p": mpmath.log1p, "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "asin": mpmath.asin,
    "acos": mpmath.acos, "atan": mpmath.atan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "asinh": mpmath.asinh,
    "acosh": mpmath.acosh, "atanh": mpmath.atanh, "erfc": mpmath.erfc, "erfinv": mpmath.erfinv,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))), "digamma": mpmath.digamma,
}  # fmt: skip
DOMAINS = {"asin": 1.0, "acos": 1.0, "atanh": 1.0, "erfinv": 1.0, "expm1": 80.0, "sinh": 80.0, "cosh": 80.0, "erfc": 9.0}
# Where C gives no number: what these are of the special values.
UNUSUAL = {
    ("erfinv", 1.0): np.inf, ("erfinv", -1.0): -np.inf, ("lgamma", -1.0): np.inf, ("lgamma", 0.0): np.inf,
    ("lgamma", -np.inf): np.inf, ("lgamma", np.inf): np.inf, ("digamma", np.inf): np.inf,
}  # fmt: skip
FAR = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1.5, -3e38, 3e38, np.inf, -np.inf, np.nan]


def points(name, element):
    """All magnitudes in the function's domain, subnormal ones included, and more of those about 1."""
    most = DOMAINS.get(name, 1e4)
    chance = np.random.default_rng(len(name))
    small = 10.0 ** np.linspace(-44 if element is Element.F32 else -320, -0.1, 60)
    x = np.concatenate([small, -small, chance.uniform(-most, most, 60), chance.uniform(-1, min(most, 3), 90)])
    x = x[{"log1p": x > -1, "acosh": x >= 1}.get(name, np.ones(len(x), bool))]
    return (np.abs(x) if name == "acosh" else x).astype(element.dtype)


def units(actual, true, least):
    """How far a result is from the true value, in units of its last place, or of that of `least` where that is more."""
    near = actual.dtype.type(float(true))
    unit = np.spacing(np.maximum(np.abs(near), actual.dtype.type(least)))
    with mpmath.workprec(300):
        return 0.0 if near == actual else float(abs(mpmath.mpf(float(actual)) - true) / mpmath.mpf(float(unit)))


@pytest.mark.parametrize("element", [Element.F32, Element.F64])
@pytest.mark.parametrize("name", EXACT)
def test_functions_are_as_exact_as_the_reference_says(name, element):
    build = Build(name)
    x = build.input("x", element, Dim.of(ix("n", 1).symbol))
    i = ix("i", x.shape[0])
    numbers = points(name, element)
    found = both(build.program(build.compute([i], Unary(name, at(x, i)))), numbers)
    narrow, wide = (1, 1) if name in ("lgamma", "digamma") else (1, 3), (6, 6) if name in _HARD else (4, 4)
    limits = narrow if element is Element.F32 else wide
    with mpmath.workdps(60), np.errstate(all="ignore"):
        for (results,), most in zip(found, limits, strict=True):
            for number, result in zip(numbers, results, strict=True):
                least = 1.0 if name in ("lgamma", "digamma") and number < 0 else 0.0
                assert units(result, EXACT[name](mpmath.mpf(float(number))), least) <= most, (number, result)


_HARD = ("erfc", "erfinv", "lgamma", "digamma")


@pytest.mark.parametrize("element", [Element.F32, Element.F64, Element.F16])
@pytest.mark.parametrize("name", [*EXACT, "atan2"])
def test_functions_of_special_values_are_those_of_the_interpreter(name, element):
    build = Build(name)
    x = build.input("x", element, Dim.of(ix("n", 1).symbol))
    i, j = ix("i", x.shape[0]), ix("j", x.shape[0])
    if name == "atan2":
        body, axes = op(name, at(x, i), at(x, j)), [i, j]
    else:
        body, axes = Unary(name, at(x, i)), [i]
    with np.errstate(all="ignore"):
        numbers = np.array(FAR).astype(element.dtype)
        (actual,), (expected,) = both(build.program(build.compute(axes, body)), numbers)
    numbered = np.isfinite(expected)
    assert_equal(actual[~numbered], expected[~numbered])
    assert_equal(np.signbit(actual[numbered]), np.signbit(expected[numbered]))
    np.testing.assert_allclose(actual[numbered], expected[numbered], rtol=4 * float(np.finfo(element.dtype).eps))
    for (function, number), value in UNUSUAL.items():
        if function == name:
            assert expected[numbers.tolist().index(number)] == value


@pytest.mark.parametrize("element", [e for e in Element if e in INT], ids=lambda e: e.value)
def test_operations_on_bits(element):
    """Also shifts by amounts that are negative or beyond the width."""
    low, high = element.limits
    amounts = [v for v in (0, 1, 5, 7, 8, 15, 16, 31, 32, 63, 64, 100, -1, -8, low) if low <= v <= high]
    numbers = np.array([0, 1, 2, 5, high, high - 1, high // 3, low, low + 1], element.dtype)
    others = np.array(amounts, element.dtype)
    build = Build("bits")
    x, y = (build.input(v, element, Dim.of(ix("n", 1).symbol)) for v in "xy")
    i, j = ix("i", x.shape[0]), ix("j", y.shape[0])
    names = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
    results = [build.compute([i, j], op(name, at(x, i), at(y, j))) for name in names]
    actual, expected = both(build.program(*results, build.compute([i], Unary("bit_not", at(x, i)))), numbers, others)
    for a, b in zip(actual, expected, strict=True):
        assert_equal(a, b)
    pairs = [(int(a), int(b)) for a in numbers for b in others]
    inside = [0 <= b < element.bits for _, b in pairs]
    left = [(a << b if near else 0) % 2**element.bits for (a, b), near in zip(pairs, inside, strict=True)]
    assert [v % 2**element.bits for v in expected[3].ravel().tolist()] == left
    assert expected[4].ravel().tolist() == [a >> (b if near else 64) for (a, b), near in zip(pairs, inside, strict=True)]


def test_indices_wrap_as_sizes_do():
    build = Build("index")
    n = ix("n", 1).symbol
    x = build.input("x", Element.BOOL, Dim.of(n))
    i = ix("i", x.shape[0])
    dim = Dim.of(i.symbol) * 2**31 + 5
    program = build.program(
        build.compute([i], index(dim)), build.compute([i2 := ix("i", x.shape[0])], index(Dim.of(i2.symbol) * 2**31, Element.I64))
    )
    agree(program, np.zeros(3, bool))
