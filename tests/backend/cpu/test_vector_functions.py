"""Functions that loops call with vectors: how exact they are, where angles are enormous or all but a multiple of pi / 2, and that
what a lane gets depends on nothing beside it."""

import mpmath
import numpy as np
import pytest

from axon.backend.cpu.executable import CpuExecutable
from axon.backend.cpu.run import run as call
from axon.base.element import Element
from axon.core.ir import Unary
from axon.shapes.dimension import Dim
from tests.backend.cpu.test_functions import units
from tests.core.build import Build, at, ix, op

TRUE = {
    "sin": mpmath.sin, "cos": mpmath.cos, "tanh": mpmath.tanh, "erf": mpmath.erf, "pow": mpmath.power, "atan2": mpmath.atan2,
    "asin": mpmath.asin, "atan": mpmath.atan, "expm1": mpmath.expm1, "log1p": mpmath.log1p, "cosh": mpmath.cosh,
    "acos": mpmath.acos, "asinh": mpmath.asinh, "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
}  # fmt: skip
MOST = {"sin": 1, "cos": 1, "tanh": 3, "erf": 3}  # units in the last place of f64; else 2
PAIRS = ("pow", "atan2")


def computed(name, *arrays):
    """The function of arrays of one element type, as a kernel computes it."""
    element = Element.F32 if arrays[0].dtype == np.float32 else Element.F64
    build = Build(name)
    n = Dim.of(ix("n", 1).symbol)
    given = [build.input(v, element, n) for v in "xy"[: len(arrays)]]
    i = ix("i", n)
    reads = [at(value, i) for value in given]
    body = op(name, *reads) if name in PAIRS else Unary(name, *reads)
    (result,) = call(CpuExecutable(build.program(build.compute([i], body))), list(arrays))
    return result


def angles(chance):
    """Of all sizes, and those floats that are next to multiples of pi / 2 and of pi / 4."""
    turns = np.concatenate([np.arange(1, 12), (2.0 ** chance.uniform(1, 60, 60)).astype(np.int64)])
    with mpmath.workdps(60):
        near = [float(mpmath.pi / 4 * int(n)) for n in turns]
    return np.concatenate([near, -np.array(near), chance.uniform(-9, 9, 100), 2.0 ** chance.uniform(-320, 1000, 60)])


def numbers(name, chance):
    match name:
        case "sin" | "cos":
            return (angles(chance),)
        case "pow":
            x = 2.0 ** chance.uniform(-60, 60, 200)
            x[:80] = chance.uniform(0.5, 2, 80)
            return x, chance.uniform(-700, 700, 200) / np.maximum(1, abs(np.log(x)))
        case "atan2":
            size = 2.0 ** chance.uniform(-4, 4, 200)
            size[:20] = 2.0 ** chance.uniform(-1000, 1000, 20)
            return chance.standard_normal(200) * size, chance.standard_normal(200)
        case "asin" | "acos":
            return (np.concatenate([chance.uniform(-1, 1, 150), 1 - 2.0 ** chance.uniform(-50, -1, 30), [0.5, -0.5]]),)
        case "log1p":
            return (np.concatenate([chance.uniform(-0.99, 3, 150), 2.0 ** chance.uniform(-90, 90, 50)]),)
        case _:
            most = 30.0 if name in ("atan", "cosh", "asinh", "cbrt") else 7.0
            small = 2.0 ** chance.uniform(-60, 0, 30)
            return (np.concatenate([chance.uniform(-most, most, 150), chance.uniform(-1, 1, 60), small]),)


@pytest.mark.parametrize("name", TRUE)
def test_functions_of_f64_are_as_exact_as_is_said(name):
    given = numbers(name, np.random.default_rng(len(name)))
    found = computed(name, *given)
    with mpmath.workdps(400 if name in ("sin", "cos") else 80):
        for result, *x in zip(found, *given, strict=True):
            true = TRUE[name](*(mpmath.mpf(float(v)) for v in x))
            assert units(result, true, 1e-300) <= MOST.get(name, 2), (x, result)


@pytest.mark.parametrize("name", sorted({*TRUE} - {"tanh", "erf"}))
def test_functions_of_f32_are_within_a_unit(name):
    given = [np.clip(v, -3e38, 3e38).astype(np.float32) for v in numbers(name, np.random.default_rng(len(name)))]
    if name == "pow":
        given[1] = (given[1] / 10).astype(np.float32)
    given[0][given[0] == 0] = 1  # which mpmath has no sign of
    found = computed(name, *given)
    with mpmath.workdps(120), np.errstate(all="ignore"):
        for result, *x in zip(found, *given, strict=True):
            true = TRUE[name](*(mpmath.mpf(float(v)) for v in x))
            assert units(result, true, 1.2e-38) <= 1, (x, result)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name", ["sin", "erf", "pow", "lgamma", "digamma", "asin", "expm1", "log1p", "cbrt", "atan", "tanh", "cosh"]
)
def test_what_a_lane_gets_depends_on_its_own_argument(name, dtype):
    """In vectors of all usual arguments, beside an infinity, NaN or enormous one, and in the rest of a loop."""
    chance = np.random.default_rng(0)
    usual = chance.uniform(0.1, 0.9, 64).astype(dtype)
    unusual = np.array([np.inf, -np.inf, np.nan, 1e30, -3.5, 0.0, -0.0, 1e-40], dtype)
    mixed = np.concatenate([np.stack([usual[:8], unusual], axis=1).ravel(), usual])
    other = [np.full(len(mixed), 2.5, dtype)] if name == "pow" else []
    whole = computed(name, mixed, *other)
    short = lambda x: computed(name, x, *(o[: len(x)] for o in other))
    with np.errstate(all="ignore"):
        one_by_one = np.concatenate([short(mixed[k : k + 3]) for k in range(0, len(mixed), 3)])
    np.testing.assert_array_equal(whole, one_by_one)
    assert np.isfinite(whole[16:]).all()
    np.testing.assert_array_equal(whole[:16:2], whole[16:24])
