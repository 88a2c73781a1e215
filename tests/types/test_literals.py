"""An integer literal is any number that its context asks for, if that holds it: else it is refused, whoever decides the type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import axon
from axon.base.element import INT, Element

TARGETS = ("interpret", "cpu", "simulate")


def refused(source: str, *arguments: Any, name: str = "f") -> axon.Diagnostic:
    """What is said of a call, which is the same on every target."""
    m = axon.compile(source)
    said = []
    for target in TARGETS:
        with pytest.raises(axon.AxonError) as error:
            getattr(m, name)(*arguments, target=target)
        said.append(error.value.diagnostics)
    assert said[0] == said[1] == said[2]
    assert len(said[0]) == 1
    return said[0][0]


def words(found: axon.Diagnostic) -> list[tuple[str, str]]:
    return [(label.span.text, label.text) for label in found.labels]


@pytest.mark.parametrize(
    ("source", "element", "literal"),
    [
        ("fun f x = x + 300", "u8", "300"),
        ("fun f x = max x (-1)", "u8", "-1"),
        ("fun f (x : 'a[n]) = x >= -1", "u8", "-1"),
        ("fun f (x : 'a[n]) = x[3 | -1]", "u8", "-1"),
        ("fun f (x : 'a[n]) = for i => if i = 0 then -1 else x[i]", "u8", "-1"),
        ("fun f (x : 'a[n]) = scan (max, -1000) i => x[i]", "i8", "-1000"),
        ("fun f (x : 'a[n]) = reduce (max, -1000) i => x[i]", "i8", "-1000"),
        ("fun f (x : 'a[n]) = loop (s = 1000) for i => s + x[i]", "i8", "1000"),
        ("fun f (x : 'a[n]) = unfold (s = 1000) for i => s + x[i]", "i8", "1000"),
        ("fun f (x : 'a[n]) = sum i => x[i] * 1000", "i8", "1000"),
        ("fun f (x : 'a[2]) = x + [| 1, 1000 |]", "u8", "1000"),
        ("fun f x = x + 99999999999", "i32", "99999999999"),
        ("val large = 1000\nfun f x = x + large", "u8", "large"),
    ],
)
def test_a_literal_that_the_type_of_a_call_does_not_hold(source: str, element: str, literal: str) -> None:
    found = refused(source, np.ones(2, Element(element).dtype))
    low, high = Element(element).limits
    number = "1000" if literal == "large" else literal
    assert (found.code, found.message) == ("AX0504", f"{number} does not fit in {element}")
    assert words(found) == [(literal, f"used as {element} here, which holds {low} to {high}")]
    assert found.notes == (f"`f` is called with {element} for `x`",)


def test_it_is_taken_where_the_type_holds_it() -> None:
    m = axon.compile("fun f x = max x (-128) + 100")
    assert [m.f(np.array([-128], e), target=t).tolist() for e in ("i1", "i4", "f4") for t in TARGETS[:2]] == [[-28]] * 6


def test_through_calls_and_parts_of_arguments() -> None:
    source = """
    fun g x = x + 300
    fun h (p : {w : 'a, b : 'b}) = (p.w + 1, g p.b)
    fun f x = let fun twice y = g (g y) in h {w = 1, b = twice x} end
    """
    assert words(refused(source, np.uint8(1)))[0][0] == "300"
    found = refused(source, {"w": 1, "b": np.uint8(1)}, name="h")
    assert found.notes == ("`h` is called with u8 for `p.b`",)
    assert axon.compile(source).h({"w": np.uint8(1), "b": 1}) == (2, 301)


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        ("fun g x = x + 300\nfun f (x : u8[n]) = g x", ["g", "300"]),
        ("fun g x = x + 300\nfun h y = g y\nfun f (x : u8[n]) = h x", ["h", "300"]),
        ("fun f (x : u8) = let fun g y = y + 300 in g x end", ["g", "300"]),
        ("fun g x = max (x + 300) (-300)\nfun f (x : i8) = g x", ["g", "300"]),  # one mistake gives one error
        ("sig g : u8 -> u8\nfun g x = x + 300", ["300"]),
        ("fun f (x : u8) = max x (-1)", ["-1"]),
        ("fun f x = let val y = (x : i8) in y + 200 end", ["200"]),
    ],
)
def test_where_the_type_is_known_the_check_refuses_it(source: str, labels: list[str]) -> None:
    with pytest.raises(axon.AxonError) as error:
        axon.compile(source)
    (found,) = error.value.diagnostics
    assert found.code == "AX0202"
    assert "does not fit in" in found.message
    assert [label.span.text for label in found.labels] == labels


def test_a_function_of_another_module(tmp_path: Any) -> None:
    (tmp_path / "other.axon").write_text("fun g x = x + 300\n")
    (tmp_path / "main.axon").write_text("import other\nfun f (x : u8) = other.g x\n")
    with pytest.raises(axon.AxonError) as error:
        axon.load(tmp_path / "main.axon")
    assert words(error.value.diagnostics[0]) == [("other.g", "`other.g` uses 300 as u8 here, which holds 0 to 255")]


def test_arithmetic_on_literals_wraps_as_that_on_values_does() -> None:
    m = axon.compile("fun negated y = -y  fun f x = x + negated 1  fun least x = x + negated (negated (-128) - 0)")
    for target in TARGETS:
        assert m.f(np.array([0, 5], np.uint8), target=target).tolist() == [255, 4]
        assert m.least(np.array([0], np.int8), target=target).tolist() == [-128]


def test_nothing_left_of_a_scalar_by_a_condition_is_the_units_of_its_type() -> None:
    """Over a shape variable without dimensions a reduction is its body; u8 has a greater number than 127."""
    m = axon.compile("fun f (x : 'a[..s]) = (min for ..i where x[..i] > 250 => x[..i], max for ..i where x[..i] > 250 => x[..i])")
    for target in TARGETS:
        assert m.f(np.array(5, np.uint8), target=target) == (255, 0)


_PROGRAMS = (
    "fun f (x : 'a[n]) = for i => x[i] + {0}",
    "fun f (x : 'a[n]) = for i => if x[i] >= {0} then {1} else x[i]",
    "fun f (x : 'a[n]) = for i => max x[i] {0} - {1}",
    "fun f (x : 'a[n]) = for i < n => x[i + 1 | {0}]",
    "fun f (x : 'a[n]) = scan (max, {0}) i => max x[i] {0}",
    "fun f (x : 'a[n]) = reduce (min, {0}) i => min (x[i] * {1}) {0}",
    "fun f (x : 'a[n]) = loop (s = {0}) for i => s * {1} + x[i]",
    "fun f (x : 'a[n]) = for i => if (x[i] + {0} > x[i]) = ((x[i] + {1}) ** 2 >= 0) then x[i] + {0} else x[i] * {1}",
    "fun g y = y - {0}  fun f (x : 'a[n]) = for i => g (g x[i] + {1})",
    "fun f (x : 'a[n]) = sum for i where x[i] <> {0} => x[i] * {1}",
)
_EDGES = sorted({n + d for e in INT for n in e.limits for d in (-1, 0, 1) if abs(n + d) < 2**63} | {0, 5})


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(_PROGRAMS), st.sampled_from(_EDGES), st.sampled_from(_EDGES), st.sampled_from(sorted(INT, key=str)))
def test_interpreted_and_compiled_agree_on_literals(program: str, first: int, second: int, element: Element) -> None:
    """Equal values if the type holds all the literals, and the same refusal of the first if it does not."""
    source = program.format(f"({first})", f"({second})")
    low, high = element.limits
    x = np.array([1, low, high, 0, 3], element.dtype)
    literals = [n for n, place in ((first, "{0}"), (second, "{1}")) if place in program]
    if all(low <= n <= high for n in literals):
        f = axon.compile(source).f
        a, b = (np.asarray(f(x, target=target)) for target in ("interpret", "cpu"))
        assert a.tolist() == b.tolist()
    else:
        assert "does not fit in" in refused(source, x).message


# Arithmetic on literals alone whose parts do not fit, or would be rounded: only the whole counts.
WHOLE = [
    ("1023 - 1022", 1),
    ("2 ** 10 - 1023", 1),
    ("100000 * 100000 - 9999999999", 1),
    ("-300 + 301", 1),
    ("-(-300) - 299", 1),
    ("16777217 - 16777216", 1),
    ("9007199254740993 - 9007199254740992", 1),
    ("10 ** 30 - 10 ** 30 + 3", 3),
    ("10 ** 60 - 10 ** 60 + 3", 3),
    ("7 % (300 - 296)", 3),
]


@pytest.mark.parametrize("element", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "f8e4m3"])
@pytest.mark.parametrize(("whole", "value"), WHOLE)
def test_arithmetic_on_literals_alone_is_exact(whole: str, value: int, element: str) -> None:
    m = axon.compile(f"fun f (x : {element}[n]) = for i => x[i] * ({whole})")
    one = np.ones(2, Element(element).dtype)
    for target in TARGETS:
        np.testing.assert_array_equal(np.asarray(m.f(one, target=target), np.float64), value)


def test_arithmetic_on_literals_that_no_float_holds_is_that_of_floats() -> None:
    m = axon.compile("fun f (x : f64) = x * (10 ** 10) ** 40")
    for target in TARGETS:
        assert m.f(np.float64(1), target=target) == np.inf


@pytest.mark.parametrize("literal", [2**63 - 1, 2**63, 2**64 - 1])
def test_compared_with_a_literal_that_no_size_is(literal: int) -> None:
    """A condition says nothing of sizes then, and means what it says."""
    m = axon.compile(f"fun f (x : u64) = if x < {literal} then 1 else if x = {literal} then 2 else 3")
    for target in TARGETS:
        for x, want in ((literal - 1, 1), (literal, 2), (2**64 - 1, 2 if literal == 2**64 - 1 else 3)):
            assert m.f(np.uint64(x), target=target) == want
