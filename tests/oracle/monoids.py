"""Associative functions of one to five components, with their units, written by hand as a user writes them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

Type = Any  # "f32", a scalar; ("tuple", Type, …); ("record", (name, Type), …); ("tensor", element, dims)


@dataclass(frozen=True)
class Monoid:
    """`(function, unit)` as text, and the type that it combines.

    `element`, where not "", makes a value for which the unit is one, from expressions {0}, {1}, … of the components.
    """

    combine: str  # of {left} and {right} in patterns
    left: str
    right: str
    unit: str
    type: Type
    element: str = ""

    @property
    def text(self) -> str:
        return f"(fn {self.left} {self.right} => {self.combine}, {self.unit})"


def literal(value: str, element: str, rng: Random) -> str:
    """A number, whose type is written only sometimes."""
    return f"({value} : {element})" if rng.random() < 0.3 else f"({value})" if value.startswith("-") else value


def number(value: int, element: str, rng: Random) -> str:
    return literal(str(value) if element[0] in "iu" else f"{value}.0", element, rng)


def componentwise(rng: Random, element: str, count: int) -> Monoid:
    ops = [_one(rng, element) for _ in range(count)]
    a, b = [f"a{n}" for n in range(count)], [f"b{n}" for n in range(count)]
    parts = [op(x, y) for (op, _, _), x, y in zip(ops, a, b, strict=True)]
    types = tuple(t for _, _, t in ops)
    if count == 1:
        return Monoid(parts[0], a[0], b[0], ops[0][1], types[0])
    return Monoid(_tuple(parts), _tuple(a), _tuple(b), _tuple([u for _, u, _ in ops]), ("tuple", *types))


def _one(rng: Random, element: str) -> Any:
    if rng.random() < 0.12:
        if rng.random() < 0.5:
            return (lambda x, y: f"{x} orelse {y}"), "false", "bool"
        return (lambda x, y: f"{x} andalso {y}"), "true", "bool"
    if rng.random() < 0.2:
        element = rng.choice(("i32", "f32", "i64"))
    kinds = ["+", "+", "+", "*", "last"] + (["max", "min"] if element[0] in "fb" else [])
    match rng.choice(kinds):
        case "max":
            return (lambda x, y: f"max {x} {y}"), literal("-inf", element, rng), element
        case "min":
            return (lambda x, y: f"min {x} {y}"), literal("inf", element, rng), element
        case "last":  # of those that are not 0
            zero = number(0, element, rng)
            return (lambda x, y: f"if {y} <> {zero} then {y} else {x}"), zero, element
        case op:
            return (lambda x, y: f"{x} {op} {y}"), number(int(op == "*"), element, rng), element


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)})"


def recurrence(rng: Random, element: str, _: int) -> Monoid:
    units = f"({number(1, element, rng)}, {number(0, element, rng)})"
    return Monoid("(a * c, b * c + d)", "(a, b)", "(c, d)", units, ("tuple", element, element))


def matrices(rng: Random, element: str, _: int) -> Monoid:
    one, zero = number(1, element, rng), number(0, element, rng)
    text = "(a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h)"
    return Monoid(text, "(a, b, c, d)", "(e, f, g, h)", f"({one}, {zero}, {zero}, {one})", ("tuple", *(element,) * 4))


def first_largest(rng: Random, element: str, _: int) -> Monoid:
    text = rng.choice(("if b > a then (b, j) else (a, i)", "(max a b, if b > a then j else i)"))
    units = f"({number(lowest(element), element, rng)}, -1)"
    return Monoid(text, "(a, i)", "(b, j)", units, ("tuple", element, "i32"), f"({tamed(element)}, {{1}})")


def last_present(rng: Random, element: str, _: int) -> Monoid:
    text = rng.choice(("(p orelse q, if q then y else x)", "if q then (true, y) else (p, x)"))
    zero = number(0, element, rng)
    present = f"(let val q = {{0}} in (q, if q then {{1}} else {zero}) end)"
    return Monoid(text, "(p, x)", "(q, y)", f"(false, {zero})", ("tuple", "bool", element), present)


def lowest(element: str) -> int:
    """A unit of an extreme, below all that is `tamed`."""
    return 0 if element[0] == "u" else -128 if element == "i8" else -1000


def tamed(element: str) -> str:
    """Well above the unit of an extreme."""
    low, high = ("1", "100") if element[0] == "u" else ("(-100)", "100") if element[0] == "i" else ("(-100.0)", "100.0")
    return f"(max {low} (min {high} {{0}}))"


def softmax(rng: Random, element: str, _: int) -> Monoid:
    text = "let val t = max m n in (t, s * exp (m - t) + r * exp (n - t)) end"
    units = f"({number(-1000, element, rng)}, {number(0, element, rng)})"
    return Monoid(text, "(m, s)", "(n, r)", units, ("tuple", element, element), f"({tamed(element)}, {{1}})")


def weighted_softmax(rng: Random, element: str, _: int) -> Monoid:
    text = (
        "let val t = max m n\n          val (p, q) = (exp (m - t), exp (n - t))\n"
        "      in { m = t, s = a.s * p + b.s * q, o = a.o * p + b.o * q } end"
    )
    text = text.replace("max m n", "max a.m b.m").replace("m - t", "a.m - t").replace("n - t", "b.m - t")
    kind = f"{{ m : {element}, s : {element}, o : {element} }}"
    unit = f"{{ m = {number(-1000, element, rng)}, s = {number(0, element, rng)}, o = {number(0, element, rng)} }}"
    record = ("record", ("m", element), ("s", element), ("o", element))
    return Monoid(text, f"(a : {kind})", f"(b : {kind})", unit, record, f"{{{{ m = {tamed(element)}, s = {{1}}, o = {{2}} }}}}")


def welford(rng: Random, element: str, _: int) -> Monoid:
    text = (
        "let val c = n + m\n          val t = if c > 0.0 then m / c else 0.0\n          val d = v - u\n"
        "      in (c, u + d * t, p + q + d * d * n * t) end"
    )
    return Monoid(
        text,
        "(n, u, p)",
        "(m, v, q)",
        f"(0.0, {number(0, element, rng)}, 0.0)",
        ("tuple", *(element,) * 3),
        "(1.0 + abs {0}, {1}, abs {2})",
    )


def both(rng: Random, element: str, count: int) -> Monoid:
    """Two of them side by side, in a pair or in a record."""
    fs = [rng.choice((recurrence, componentwise))(rng, element, 2) for _ in range(2)]
    if rng.random() < 0.5:
        made = [_renamed(f, tag) for f, tag in zip(fs, "xy", strict=True)]
        parts = [f"({f.text}) {a} {b}".replace(f", {f.unit})", ")", 1) for f, a, b in made]
        text = f"({parts[0]}, {parts[1]})"
        return Monoid(text, "(ax, ay)", "(bx, by)", f"({fs[0].unit}, {fs[1].unit})", ("tuple", fs[0].type, fs[1].type))
    parts = [f"(fn {f.left} {f.right} => {f.combine}) a{tag} b{tag}" for f, tag in zip(fs, "xy", strict=True)]
    text = f"{{ u = {parts[0]}, v = {parts[1]} }}"
    unit = f"{{ u = {fs[0].unit}, v = {fs[1].unit} }}"
    return Monoid(text, "{ u = ax, v = ay }", "{ u = bx, v = by }", unit, ("record", ("u", fs[0].type), ("v", fs[1].type)))


def _renamed(f: Monoid, tag: str) -> tuple[Monoid, str, str]:
    return f, f"a{tag}", f"b{tag}"


EXACT = (componentwise, componentwise, recurrence, matrices, first_largest, last_present, both)
ROUNDED = (*EXACT, softmax, weighted_softmax, welford)


def monoid(rng: Random, element: str, exact: bool, count: int) -> Monoid:
    narrow = element in ("bf16", "f16", "i8")
    whole = element[0] in "iu"
    makers = [
        m for m in (EXACT if exact or whole else ROUNDED) if not (narrow and m in (first_largest, softmax, weighted_softmax, both))
    ]
    return rng.choice(makers)(rng, element, count)
