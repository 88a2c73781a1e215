"""What cannot be put on a mesh is said in one error, which names the mesh; and a broken form does not pass."""

from __future__ import annotations

import pytest

from axon.base.data import replace
from axon.base.errors import AxonError
from axon.base.passes import FormInvalid
from axon.core.sharding import Collective, Local, check_divides, layouts
from axon.core.sharding.verify import verify
from tests.core.sharding.whole import bound, mesh, of, sharded

TEXT = "fun f (x : f32[b, h]) (w : f32[h, h]) = for i j => sum c => x[i, c] * w[c, j]"


@pytest.mark.parametrize(
    ("split", "sizes", "said"),
    [
        ({"b": "data"}, {"b": 10, "h": 8}, ["`b` = 10 cannot be split over the 4 devices of `data`", "8 or 12", "data=4,model=2"]),
        ({"b": "data"}, {"b": 3, "h": 8}, ["`b` = 3 cannot", "the nearest that can: 4", "data=4,model=2"]),
        ({"c": "data"}, {"b": 4, "h": 8}, ["`f` has no size `c`", "its sizes are `b`, `h`", "data=4,model=2"]),
        ({"b": "date"}, {"b": 4, "h": 8}, ["the mesh has no axis `date`", "data=4,model=2"]),
    ],
)
def test_what_is_refused(split: dict[str, str], sizes: dict[str, int], said: list[str]) -> None:
    program = of(TEXT, "f")
    with pytest.raises(AxonError) as raised:
        sharded(program, mesh(data=4, model=2), split, bound(program, **sizes))
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "AX0901"
    for words in said:
        assert words in str(raised.value)


def test_layouts_are_those_of_any_sizes() -> None:
    """Each axis splits the first dimension that its size makes; a size of 0 is shared by all."""
    program = of(TEXT, "f")
    on = mesh(data=2, model=2)
    found = layouts(program, on, {"b": "data", "h": "model"})
    assert [[None if s is None else s.axis for s in one.splits] for one in found] == [["data", "model"], ["model", None]]
    check_divides(program, on, {"b": "data"}, bound(program, b=0, h=3))


def test_broken_forms_are_found() -> None:
    program = of(TEXT, "f")
    made = sharded(program, mesh(model=2), {"h": "model"}, bound(program, b=4, h=8), scale=1024)
    verify(made)
    at, exchange = next((n, s) for n, s in enumerate(made.steps) if isinstance(s, Collective))
    local = next(n for n, s in enumerate(made.steps) if isinstance(s, Local))

    def with_step(number: int, *steps: object) -> object:
        return replace(made, steps=(*made.steps[:number], *steps, *made.steps[number + 1 :]))

    wrong = [
        with_step(local),  # its values are not there
        with_step(at),
        with_step(at, exchange, exchange),
        with_step(at, replace(exchange, axis="data")),
        with_step(at, replace(exchange, monoid=None)),
        with_step(at, replace(exchange, kind="broadcast")),
        with_step(at, replace(exchange, result=replace(exchange.result, shape=exchange.result.shape[::-1]))),
        replace(made, results=(replace(made.results[0], layout=made.inputs[1].layout),)),
        replace(made, inputs=made.inputs[:1]),
        replace(made, coordinates=()),
    ]
    for number, form in enumerate(wrong):
        with pytest.raises(FormInvalid):
            assert verify(form) == f"form {number} passes"
