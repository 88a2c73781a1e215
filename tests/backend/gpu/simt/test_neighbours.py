"""What is known of neighbours' indices is what numbers say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from axon.backend.gpu.simt.access import width_of
from axon.backend.gpu.simt.neighbours import at_first, multiples, picked, regular, steps
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Compute, Read, Value
from axon.shapes.dimension import Dim
from tests.backend.gpu.simt.plain_cases import case
from tests.backend.gpu.simt.plain_programs import SOURCE
from tests.backend.gpu.simt.test_emit import executable

J, B, C, H, X, Y = (fresh(name) for name in "jbchxy")
SIZES = st.fixed_dictionaries({C: st.sampled_from((1, 2, 3, 4, 8, 16, 24, 64)), H: st.integers(1, 8)})


@st.composite
def dims(draw: st.DrawFn, depth: int = 2) -> Dim:
    """A Dim over an axis that neighbours lie along, another axis and sizes, with quotients."""
    found = Dim.of(draw(st.sampled_from((0, 0, 1, 3, 8))))
    for _ in range(draw(st.integers(1, 3))):
        kinds = ("axis", "axis", "other", "size") + (("quotient",) * 4 if depth else ())
        match draw(st.sampled_from(kinds)):
            case "axis":
                term = Dim.of(J)
            case "other":
                term = 8 * Dim.of(B)
            case "size":
                term = Dim.of(C)
            case _:
                divisor = draw(st.sampled_from((Dim.of(2), Dim.of(3), Dim.of(4), Dim.of(8), Dim.of(16), Dim.of(C), Dim.of(H))))
                term = draw(dims(depth - 1)) // divisor
        found += term * draw(st.sampled_from((1, 1, -1, 2, 4, 8, Dim.of(C))))
    return found


@given(dims(), SIZES, st.sampled_from((2, 4, 8)))
def test_what_is_known_of_neighbours_is_what_numbers_say(dim: Dim, sizes: dict[Symbol, int], vector: int) -> None:
    axis = Axis(J, Dim.of(C))
    out = Value(Y, Element.F32, (axis.extent,))
    nest = Nest((axis,), (Compute((out,), (axis,), None, (Read(X, (dim,), Element.F32),)),), (Y,))
    known = regular(nest, J, vector, sizes)
    along = steps(dim, J, vector, known)
    if along is None:
        return
    first, block = at_first(dim, J, vector, known), picked(dim, J, vector, known)
    begins = list(multiples(dim, J, vector, known, sizes))
    for j in (0, vector, 2 * vector, 16, 48):
        for i in (0, 1, 5):
            at = [dim.evaluate({**sizes, B: i, J: j + k}) for k in range(vector)]
            assert at == [at[0] + n for n in along]
            assert first.evaluate({**sizes, B: i, J: j}) == at[0]
            if block is not None and not any(n % block[0] for n in begins):
                start = at[0] - along[0] - block[1][0]
                assert start % block[0] == 0
                assert at == [start + place for place in block[1]]


def width(name: str, size: tuple[int, int], element: str = "bf16") -> tuple[int, int]:
    """How many neighbours move together in the last kernel of a program, and how many of its accesses do."""
    made = executable(SOURCE, name, element)
    found = case(made, size)
    nest = made.kernels[-1]
    assert isinstance(nest, Nest)
    ready = found.ready(nest)
    made_ = width_of(ready.kernel, ready.values, found.tensors, found.sizes, True, divided=True)
    return made_.vector, len(made_.beside)


def test_merged_indices_move_together_where_the_inner_one_is_long_enough() -> None:
    assert width("heads", (4, 64)) == (8, 2)
    assert width("heads", (4, 60)) == (4, 2)
    assert width("heads", (8, 9))[0] == 1


def test_elements_of_one_access_are_read_once() -> None:
    assert width("interleaved", (4, 32)) == (8, 7)  # four reads of x, two of x[0], and the store
    assert width("repeated", (4, 32)) == (8, 2)
    assert width("thirds", (4, 32)) == (8, 1)
