"""Maps that are written for both halves of their last axis at once; `test_emit` runs them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axon.backend.gpu.simt.halves import decided, halves
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.names import fresh
from axon.core.ir import Axis, Binary, Bind, Compute, Const, Index, Local, Read, Scalar, Select, Unary, Value
from axon.core.scalar_facts import substitute
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim
from tests.backend.gpu.simt.plain_cases import case, legal
from tests.backend.gpu.simt.plain_programs import SOURCE
from tests.backend.gpu.simt.test_emit import executable

J, H, D = fresh("j"), fresh("h"), fresh("d")
LOW = {J: (Dim.of(0), Dim.of(H) - 1)}
HIGH = {J: (Dim.of(H), 2 * Dim.of(H) - 1)}
YES, NO = Const(True, Element.BOOL), Const(False, Element.BOOL)


def nest_of(name: str, element: str = "f32") -> Nest:
    (nest,) = executable(SOURCE, name, element).kernels
    assert isinstance(nest, Nest)
    return nest


def index(j: int, h: int = 0, one: int = 0) -> Scalar:
    return Index(j * Dim.of(J) + h * Dim.of(H) + one)


COMPARED = [
    ("lt", index(1), index(0, 1), YES, NO),
    ("ge", index(1), index(0, 1), NO, YES),
    ("le", index(0, 1), index(1), NO, YES),
    ("gt", index(0, 1), index(1), YES, NO),
    ("eq", index(1), index(0, 1), NO, None),
    ("ne", index(1), index(0, 2), None, YES),  # only there is 2 h known to be an extent
    ("lt", index(1, 0, 1), index(0, 1, 1), None, None),  # h + 1 may have wrapped
    ("le", index(1, 0, 1), index(0, 1), YES, NO),
    ("lt", index(1, 0, 1), index(0, 1), None, NO),
    ("lt", index(1), Index(Dim.of(D)), None, None),
    ("ge", index(1), Const(0, Element.I32), YES, YES),
    ("lt", index(2), index(0, 3), None, None),  # 2 j may have wrapped
    ("lt", Index(Dim.of(J) // 2), index(0, 1), None, None),
]


@pytest.mark.parametrize(("op", "left", "right", "low", "high"), COMPARED)
def test_what_a_half_decides(op: str, left: Scalar, right: Scalar, low: Scalar | None, high: Scalar | None) -> None:
    scalar = Binary(op, left, right)
    assert decided(scalar, LOW) == (low or scalar)
    assert decided(scalar, HIGH) == (high or scalar)


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_it_is_what_numbers_say(op: str) -> None:
    """Every answer is that of all sizes and places tried."""
    compare = {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__, "eq": int.__eq__, "ne": int.__ne__}[op]
    for a in (-1, 1):
        for b in (-2, -1, 0, 1):
            for c in (-1, 0, 1):
                left, right = a * Dim.of(J) + b * Dim.of(H) + c, Dim.of(0)
                for ends in (LOW, HIGH):
                    found = decided(Binary(op, Index(left), Index(right)), ends)
                    if not isinstance(found, Const):
                        continue
                    for h in (1, 2, 3):
                        first, last = (end.evaluate({H: h}) for end in ends[J])
                        for j in range(first, last + 1):
                            assert compare(left.evaluate({J: j, H: h}), 0) == found.value


def test_what_is_never_wanted_is_gone() -> None:
    less, unknown = Binary("lt", index(1), index(0, 1)), Binary("lt", index(1), Index(Dim.of(D)))
    one, two = Const(1.0, Element.F32), Const(2.0, Element.F32)
    low = fresh("low")
    assert decided(Select(Unary("not", less), one, two), LOW) == two
    assert decided(Binary("and", less, unknown), LOW) == unknown
    assert decided(Binary("and", unknown, less), LOW) == unknown
    assert decided(Binary("or", less, unknown), LOW) == YES
    assert decided(Binary("or", unknown, less), LOW) == Binary("or", unknown, YES)  # the left side may fail
    assert decided(Bind(((low, less),), Select(Local(low, Element.BOOL), one, two)), HIGH) == two
    assert decided(Bind(((low, unknown),), Local(low, Element.BOOL)), LOW) == Bind(((low, unknown),), Local(low, Element.BOOL))


def test_each_element_is_read_once() -> None:
    cut = halves(nest_of("rotary"))
    assert cut is not None
    (i, j) = cut.nest.rows
    found = {n.subscripts for s in cut.nest.steps for b in scalars(s) for n in nodes(b) if isinstance(n, Read)}
    at = Dim.of(j.symbol)
    assert {s[1] for s in found if s[0] == Dim.of(i.symbol)} == {at, at + j.extent}
    assert not any(isinstance(n, Select) for s in cut.nest.steps for b in scalars(s) for n in nodes(b))
    (upper,) = cut.nest.steps[1].outs
    assert cut.place(upper.symbol, (Dim.of(i.symbol), at)) == (cut.nest.steps[0].outs[0].symbol, (Dim.of(i.symbol), at + j.extent))


@pytest.mark.parametrize("name", ["turned", "transpose", "shift", "gelu", "softmax", "rowsum", "mask", "total"])
def test_where_nothing_is_saved(name: str) -> None:
    """No half, nothing that both halves read, or loops."""
    assert halves(nest_of(name) if name != "total" else replace(nest_of("gelu"), rows=())) is None


def test_rows_that_depend_on_others() -> None:
    """Half of an extent is all that is asked for, also where other axes are in it."""
    i, x, y = fresh("i"), fresh("x"), Value(fresh("y"), Element.F32, (Dim.of(D), 2 * Dim.of(D)))
    rows = (Axis(i, Dim.of(D)), Axis(J, 2 * Dim.of(D)))
    body = Read(x, (Dim.of(J) % Dim.of(D),), Element.F32)
    cut = halves(Nest(rows, (Compute((y,), rows, None, (body,)),), (y.symbol,)))
    assert cut is not None
    assert cut.half == Dim.of(D)
    assert substitute(body, {J: Dim.of(J) + Dim.of(D)}) == body


@pytest.mark.parametrize(
    ("element", "width", "wanted"),
    [
        ("f32", 64, (True, 4)),
        ("bf16", 64, (True, 8)),
        ("bf16", 20, (False, 8)),
        ("bf16", 37, (False, 2)),
        ("f32", 37, (False, 2)),
        ("bf16", 8, (False, 8)),
    ],
)
def test_both_halves_must_lie_for_it(element: str, width: int, wanted: tuple[bool, int]) -> None:
    """Neighbours move together in both halves, or not in halves; nor are halves shorter than what memory moves."""
    given = case(executable(SOURCE, "rotary", element), (3, width))
    (nest,) = given.todo
    chosen = legal(given, nest)[0]
    assert (chosen.halved, chosen.vector) == wanted
    assert ("in both halves" in str(chosen)) == wanted[0]
