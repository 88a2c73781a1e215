"""`axon explain --mesh`: what devices exchange, and what is wrong with a mesh."""

from __future__ import annotations

import pytest

from axon.base.errors import AxonError
from axon.compiler import check_text
from axon.host.call import Session
from axon.tools.commands.meshes import on_mesh

TEXT = """
fun narrow (x : bf16[b, h]) = for i => sum c => x[i, c]
fun f (x : f32[b, h]) (w : f32[h, k]) = for i j => sum c => x[i, c] * w[c, j]
fun steps (x : f32[h, h]) = loop (y = x) for t < 5 => for i j => sum c => y[i, c] * y[c, j]
"""


def told(name: str, mesh: str | None, split: str | None, *arguments: str, wide: bool = False) -> str:
    session = Session(check_text(TEXT))
    return on_mesh(session, session.callee(name), mesh, split, arguments, "nvlink", wide)


def test_bytes_are_those_of_rings() -> None:
    """Of 8 x 32 floats that 4 devices sum, a ring sends 3/4 of them, twice."""
    text = told("f", "model=4", "h=model", "b=8", "h=4194304", "k=32")
    assert "all_reduce over model: sum of" in text
    assert "sends 6 * b * k = 1,536 bytes" in text
    assert "is the sum along `c`, which is split over model; the result needs it whole" in text
    assert "a device holds 167,772,160 bytes of the 671,088,640 of the parameters" in text
    assert "w  f32[h, k]  [model, -]" in text
    assert "in all 1 collective; a device sends 1,536 bytes, 15 µs over nvlink (predicted)" in text
    assert "line 3 of <text>:" in text


def test_of_what_sums_of_16_bit_floats_are_sent_as() -> None:
    for wide, said, sent in ((False, "is rounded to bf16", 24), (True, "is sent as f32", 48)):
        text = told("narrow", "model=4", "h=model", "b=8", "h=64", wide=wide)
        assert f"each device's part {said}" in text
        assert f"sends {sent // 8} * b = {sent} bytes" in text


def test_sizes_may_be_those_of_arguments() -> None:
    by_name = told("f", "data=2", "b=data", "b=8", "h=64", "k=32")
    assert by_name == told("f", "data=2", "b=data", "x=randn(f32[8, 64])", "w=randn(f32[64, 32])")
    assert "nothing is exchanged" in by_name


def test_what_a_loop_exchanges_counts_for_each_step() -> None:
    text = told("steps", "m=4", "h=m", "h=4096")
    assert "in each of 5 steps" in text
    assert "in all 5 collectives" in text
    assert f"a device sends {5 * 3 * 4 * 4096 * 1024:,} bytes" in text


@pytest.mark.parametrize(
    ("mesh", "split", "arguments", "code", "said"),
    [
        (None, "b=data", [], "AX0901", "there is no mesh"),
        ("data", "b=data", [], "AX0901", "`data` is no name with a value"),
        ("data=2,", "b=data", [], "AX0901", "nothing is said here"),
        ("data=0", "b=data", [], "AX0901", "a number from 1 to"),
        ("data=2,data=2", "b=data", [], "AX0901", "`data` is given twice"),
        ("data=2", "b", [], "AX0901", "what is split is written"),
        ("data=2,model=2", "b=data,b=model", [], "AX0901", "each with one axis of the mesh"),
        ("data=2", "b=date", [], "AX0901", "the mesh has no axis `date`"),
        ("data=2", "q=data", [], "AX0901", "`f` has no size `q`"),
        ("data=3", "b=data", ["b=8"], "AX0901", "the nearest that can: 6 or 9"),
        ("data=2", "b=data", ["q=8"], "AX0505", "`f` has no size `q`"),
    ],
)
def test_what_is_wrong(mesh: str | None, split: str, arguments: list[str], code: str, said: str) -> None:
    with pytest.raises(AxonError) as raised:
        told("f", mesh, split, *arguments)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == code
    assert said in str(raised.value)
