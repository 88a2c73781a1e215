"""The plan of memory between kernels: values that live at the same time never overlap, and the rest share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from axon.backend.plan.scratch import ALIGNMENT, plan

LIVES = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 12), st.integers(0, 6)).map(lambda t: (t[0], t[1], t[1] + t[2])), max_size=14
)


@given(LIVES)
def test_what_lives_together_lies_apart(lives: list[tuple[int, int, int]]) -> None:
    offsets, total = plan(lives)
    assert all(at % ALIGNMENT == 0 for at in offsets)
    for n, (size, first, last) in enumerate(lives):
        assert offsets[n] + size <= total
        for m in range(n):
            other, begins, ends = lives[m]
            if first <= ends and begins <= last:
                assert offsets[n] + size <= offsets[m] or offsets[m] + other <= offsets[n] or 0 in (size, other)


@given(LIVES)
def test_no_more_than_everything_side_by_side(lives: list[tuple[int, int, int]]) -> None:
    _, total = plan(lives)
    padded = [-(-size // ALIGNMENT) * ALIGNMENT for size, _, _ in lives]
    assert total <= sum(padded)
    at_once = [sum(p for p, (_, a, b) in zip(padded, lives, strict=True) if a <= now <= b) for now in range(20)]
    assert total >= max(at_once)


def test_a_chain_takes_the_room_of_two() -> None:
    """Of twenty layers, each needs the one before it and itself."""
    _, total = plan([(1024, n, n + 1) for n in range(20)])
    assert total == 2 * 1024
