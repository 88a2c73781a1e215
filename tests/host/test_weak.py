"""Python's integers where a function divides, and NumPy's numbers beside arrays: the error is at what the caller would change."""

from typing import Any

import numpy as np
import pytest
import sympy

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
fun repeated (times : i32) (x : f32[n]) = loop (y = x) for _ < times => y + y
fun chosen (flag : bool) (x : f32[n]) = if flag then x else -x
fun first {k} (x : f32[n]) where k <= n = for i < k => x[i]
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
        ("scaled", (np.float32(2), np.ones(2, np.int32)), "`rate` holds f32, and must hold i32", "pass int(rate)"),
        ("repeated", (np.int64(3), [1.0]), "`times` holds i64, and must hold i32", "pass int(times)"),
        ("repeated", (np.array(3), [1.0]), "`times` holds i64, and must hold i32", "pass int(times)"),
        ("repeated", (np.float64(3), [1.0]), "`times` holds f64, and must hold i32", "pass int(times)"),
        ("repeated", (np.float64(3.5), [1.0]), "`times` holds f64", "if its fractions may be dropped, pass int(times)"),
        ("repeated", (3, [np.float64(1), np.float64(2)]), "`x` must be an array or a number", "pass np.array(x, np.float32)"),
        ("chosen", (np.int64(1), [1.0]), "`flag` holds i64, and must hold bool", "pass bool(flag)"),
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


def test_an_array_of_one_number_where_a_number_is_wanted() -> None:
    """Its rank is looked at before its element type: one change mends both."""
    for times in (np.array([3], np.int32), np.array([[3.0]])):
        with pytest.raises(axon.ShapeError) as caught:
            _PROGRAM.repeated(times, [1.0])
        assert [s.text for s in caught.value.diagnostics[0].suggestions] == ["pass times.item()"]
    assert _PROGRAM.repeated(np.array([3], np.int32).item(), [1.0]) == 8


@pytest.mark.parametrize(
    ("name", "values", "note"),
    [
        ("repeated", (np.int64(2**40), [1.0]), "it is 1099511627776, which i32 cannot hold"),
        ("repeated", (np.float64("nan"), [1.0]), "it is nan, which i32 cannot hold"),
    ],
)
def test_a_number_that_no_conversion_keeps(name: str, values: tuple[Any, ...], note: str) -> None:
    with pytest.raises(axon.AxonError) as caught:
        _PROGRAM[name](*values)
    (found,) = caught.value.diagnostics
    assert found.notes == (note,)
    assert not found.suggestions


def test_a_tuple_of_numbers_for_a_row() -> None:
    with pytest.raises(axon.AxonError) as caught:
        _PROGRAM.first[2]((1.0, 2.0, 3.0))
    assert [s.text for s in caught.value.diagnostics[0].suggestions] == ["pass list(x)"]


@pytest.mark.parametrize("shapes", [((3,), (2, 3), (2, 3)), ((1,), (2, 3), (2, 3)), ((2, 3), (3,), (2, 3))])
def test_the_help_for_what_is_to_broadcast_helps(shapes: tuple[tuple[int, ...], ...]) -> None:
    """It names every parameter of that shape variable, and nothing where the sizes would not do."""
    text = "fun step dt x v = x + dt * v"
    given = [np.ones(shape) for shape in shapes]
    with pytest.raises(axon.AxonError) as caught:
        axon.compile(text).step(*given)
    helps = caught.value.diagnostics[0].suggestions
    assert bool(helps) == (shapes[0] != (1,))
    for said in helps:
        head = said.text.split("`")[1]
        assert axon.compile(text.replace("dt x v =", f"{head} =")).step(*given).shape == (2, 3)


def test_a_size_that_is_no_integer() -> None:
    for size in (2.0, np.float64(2)):
        with pytest.raises(axon.AxonError) as caught:
            _PROGRAM.first[size]([1.0, 2.0, 3.0])
        assert [s.text for s in caught.value.diagnostics[0].suggestions] == ["write `first[int(k)](…)`"]
    for size in (2.5, sympy.Float(2.5), sympy.Integer(-1), sympy.Symbol("k")):
        with pytest.raises(axon.AxonError) as caught:
            _PROGRAM.first[size]([1.0, 2.0, 3.0])
        assert not caught.value.diagnostics[0].suggestions
    for size in (2, np.int64(2), np.array(2), sympy.Integer(2)):
        assert np.array_equal(_PROGRAM.first[size]([1.0, 2.0, 3.0]), [1, 2])


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
