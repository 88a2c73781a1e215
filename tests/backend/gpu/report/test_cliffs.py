"""No form of plain kernel is predicted to take many times as long as what it moves: random forms, by what `axon explain` says.

Forms that wait for few threads, read with gaps or go through memory again and again are found here without a GPU, as far as the
prediction knows of them; `benchmarks/gpu_plain.py` measures the same forms. AXON_SOAK=1 draws thousands. Few long rows, of which
each would have one block, have forms of their own: reductions and scans of any monoid, and what stands around them.
"""

from __future__ import annotations

import pytest

from tests.backend.gpu.plain_forms import Form, draw, forms, least, of_few_rows, predicted
from tests.sample import SOAK

TIMES = 3.0
DRAWN = 6_000 if SOAK else 104
BATCHES = 60 if SOAK else 8
# Kinds that may take longer, how many times as long, and why.
SLOWER = {
    "argmax": (6.0, "the greatest and its place: each is found by itself, of 16 bits one element at a time where sizes are odd"),
    "log-sum-exp": (6.0, "the maximum, then the sum: two kernels read the tensor where results are few"),
    "softmax": (4.0, "the maxima, the sums and the map: three kernels read the tensor where rows are few"),
    "softmax by columns": (4.0, "a second kernel reads the tensor again, and what there is one of for each column"),
    "reduction beside a last axis of one index": (
        300.0,
        "what lies side by side is read from the program, which knows of no sizes",
    ),
    "layer norm by columns": (6.0, "a second kernel reads the tensor again, and what there are two of for each column"),
}


def slower(form: Form) -> str | None:
    """Why a form is too slow, if it is."""
    found = predicted(form)
    seconds, bound = sum(time.seconds for time in found), least(form, found)
    times, _ = SLOWER.get(form.kind, (TIMES, ""))
    if seconds <= times * bound:
        return None
    each = "".join(f"\n    {time.seconds * 1e6:.1f} µs: {time.mapping}, {time.turns}" for time in found)
    return f"{seconds / bound:.1f} times {bound * 1e6:.1f} µs: {form}{each}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_form_is_slow(batch: int) -> None:
    count = DRAWN // BATCHES
    found = (slower(draw(1, number)) for number in range(batch * count, (batch + 1) * count))
    assert not [why for why in found if why is not None]


# Of each such kind the seed and the number of a form that does.
EXAMPLES = [(1, 811), (1, 863), (1, 929), (1, 1876), (1, 1079), (3, 340)]


FEW_TIMES = 4.0
OF_FEW = 2_000 if SOAK else 64


@pytest.mark.parametrize("batch", range(8))
def test_no_form_of_few_long_rows_is_slow(batch: int) -> None:
    bad = []
    for number in range(batch, OF_FEW, 8):
        form = of_few_rows(1, number)
        found = predicted(form)
        seconds, bound = sum(time.seconds for time in found), least(form, found)
        if seconds > FEW_TIMES * bound:
            each = "".join(f"\n    {time.seconds * 1e6:.1f} µs: {time.mapping}, {time.turns}" for time in found)
            bad.append(f"{number}: {seconds / bound:.1f} times {bound * 1e6:.1f} µs: {form}{each}")
    assert not bad, "\n".join(bad)


def test_every_exception_is_needed() -> None:
    drawn = [draw(*which) for which in EXAMPLES]
    assert {form.kind for form in drawn} == SLOWER.keys()
    for form in drawn:
        found = predicted(form)
        assert sum(time.seconds for time in found) > TIMES * least(form, found), form


def test_forms_are_of_all_kinds_and_the_same_each_time() -> None:
    drawn = list(forms(0, 130))
    assert drawn[0].text == draw(0, 0).text
    assert [form.text for form in drawn] == [form.text for form in forms(0, 130)]
    assert {"sum", "max", "argmax", "layer norm", "scan", "gather", "merged map", "cut map"} <= {form.kind for form in drawn}
    assert {len(form.given[0].shape) for form in drawn} == {1, 2, 3, 4, 5}
    assert {form.given[0].element for form in drawn} == {"bf16", "f16", "f32", "f64", "i32"}
    assert all(4 << 20 <= form.given[0].bytes <= 256 << 20 for form in drawn)
    assert any(1 in form.given[0].shape for form in drawn)
    assert any(all(size % 2 for size in form.given[0].shape) for form in drawn)
