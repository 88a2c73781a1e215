"""Functions of floats on a real GPU: as exact as the reference says, and on unusual values what the interpreter gives."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import axon
from axon.base.element import Element
from axon.interpret import arithmetic
from tests.backend.cpu.test_functions import EXACT, FAR, points, units

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

HARD = ("erfc", "erfinv", "lgamma", "digamma")


def computed(name: str, element: Element, numbers: np.ndarray) -> np.ndarray:
    f = axon.compile(f"fun f (x : {element.value}[n]) = for i => {name} x[i]").f
    found = f(torch.from_numpy(numbers).cuda())
    return found.cpu().numpy()


@pytest.mark.parametrize("element", [Element.F32, Element.F64])
@pytest.mark.parametrize("name", EXACT)
def test_functions_are_as_exact_as_the_reference_says(name: str, element: Element) -> None:
    numbers = points(name, element)
    if name == "lgamma":
        numbers = numbers[numbers > -11]
    if element is Element.F32:
        most = {"lgamma": 6, "digamma": 1}.get(name, 5)
    else:
        most = 6 if name in HARD else 3
    with mpmath.workdps(60):
        for number, result in zip(numbers, computed(name, element, numbers), strict=True):
            least = 1.0 if name in ("lgamma", "digamma") and number < 0 else 0.0
            assert units(result, EXACT[name](mpmath.mpf(float(number))), least) <= most, (number, result)


@pytest.mark.parametrize("element", [Element.F32, Element.F64])
@pytest.mark.parametrize("name", EXACT)
def test_unusual_values_among_others(name: str, element: Element) -> None:
    """Of neighbours that one thread holds, some are left to the function for all values."""
    usual = points(name, element)[:40]
    numbers = np.stack([np.resize(np.array(FAR).astype(element.dtype), 480), np.resize(usual, 480)], axis=1).ravel()
    with np.errstate(all="ignore"):
        expected = arithmetic.unary(name, numbers, element)
    actual = computed(name, element, numbers)
    odd = ~np.isfinite(expected)
    np.testing.assert_array_equal(actual[odd], expected[odd])
    alone = computed(name, element, usual)
    np.testing.assert_array_equal(actual[1::2], np.resize(alone, 480))
