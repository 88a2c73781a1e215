"""Python's integers where a function divides, and NumPy's numbers beside arrays: the error is at what the caller would change."""

from typing import Any

import numpy as np
import pytest

import axon

_PROGRAM = axon.compile("""
fun mean (x : 'a[n]) where n >= 1 = (sum i => x[i]) / cast 'a n
fun total (x : 'a[n]) = sum i => x[i]
fun halves x = mean [| x, x / 2 |]
fun rounded (x : i32[n]) where n >= 1 = mean x
fun between (a : 'a) (b : 'a[n]) = (op /) (sum i => b[i]) a
fun parts n (x : 'a[k]) = for i => (x[i], n / 2)
fun remainder (x : 'a[n]) = for i => x[i] % 3
fun scaled (rate : 'a) (x : 'a[n]) = rate * x
fun shifted (x : 'a[n]) (by : 'a) = x + by
""")


@pytest.mark.parametrize(
    ("name", "values", "message", "help_"),
    [
        ("mean", ([1, 2, 4],), "`x` holds integers, and `mean` divides", "pass [1.0, 2.0, 4.0]"),
        ("mean", (list(range(9)),), "`x` holds integers, and `mean` divides", "pass np.array(x, np.float32)"),
        ("halves", (3,), "`x` holds integers, and `halves` divides", "pass 3.0"),
        ("between", (2, [3, 4]), "`a` holds integers, and `between` divides", "pass 2.0"),
        ("parts", (3, [1, 2]), "`n` holds integers, and `parts` divides", "pass 3.0"),
        ("scaled", (np.float64(1), np.ones(2, np.float32)), "`rate` holds f64, and must hold f32, as `x` does", "pass float(rate)"),
        ("scaled", (np.int64(2), np.ones(2, np.float32)), "`rate` holds i64, and must hold f32, as `x` does", "pass float(rate)"),
        ("scaled", (np.int64(2), np.ones(2, np.int32)), "`rate` holds i64, and must hold i32, as `x` does", "pass int(rate)"),
        ("scaled", (np.array(0.5), np.ones(2, np.float32)), "`rate` holds f64, and must hold f32, as `x` does", "pass float(rate)"),
        ("scaled", (np.float32(2), np.ones(2, np.int32)), "`rate` holds f32, and must hold i32", "pass rate.astype(np.int32)"),
        ("shifted", (np.ones(2, np.float32), np.float64(1)), "`by` holds f64, and must hold f32, as `x` does", "pass float(by)"),
    ],
)
def test_refused(name: str, values: tuple[Any, ...], message: str, help_: str) -> None:
    with pytest.raises(axon.AxonError) as caught:
        _PROGRAM[name](*values)
    (found,) = caught.value.diagnostics
    assert found.code == "AX0504"
    assert found.message.startswith(message)
    assert found.suggestions[0].text == help_


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("mean", ([1.0, 2, 4],), 7 / 3),
        ("mean", (np.array([1, 2, 4]),), 2),
        ("total", ([1, 2, 4],), 7),
        ("rounded", ([1, 2, 4],), 2),
        ("between", (2, np.ones(3, np.float32)), 1.5),
        ("remainder", ([4, 5],), [1, 2]),
        ("scaled", (0.5, np.ones(2, np.float32)), [0.5, 0.5]),
        ("scaled", (2, np.ones(2, np.int64)), [2, 2]),
    ],
)
def test_taken(name: str, values: tuple[Any, ...], expected: Any) -> None:
    assert np.allclose(_PROGRAM[name](*values), expected)
