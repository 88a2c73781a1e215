"""The plan of memory between kernels: values that live at the same time never overlap, and the rest share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from axon.backend.plan.scratch import ALIGNMENT, plan

LIVES = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 12), st.integers(0, 6)).map(lambda t: (t[0], t[1], t[1] + t[2])), max_size=14
)


RESULTS = st.lists(st.tuples(st.integers(0, 8000), st.integers(0, 12)), max_size=4)


@given(LIVES, RESULTS)
def test_what_lives_together_lies_apart(lives: list[tuple[int, int, int]], results: list[tuple[int, int]]) -> None:
    places, total = plan(lives, results)
    for n, (size, first, last) in enumerate(lives):
        where, at = places[n]
        assert at % ALIGNMENT == 0
        assert at + size <= (total if where is None else results[where][0])
        assert where is None or last < results[where][1]
        for m in range(n):
            other, begins, ends = lives[m]
            if first <= ends and begins <= last and places[m][0] == where:
                assert at + size <= places[m][1] or places[m][1] + other <= at or 0 in (size, other)


@given(LIVES, RESULTS)
def test_results_only_help(lives: list[tuple[int, int, int]], results: list[tuple[int, int]]) -> None:
    assert plan(lives, results)[1] <= sum(-(-size // ALIGNMENT) * ALIGNMENT for size, _, _ in lives)


def test_what_dies_before_a_result_is_made_lies_in_it() -> None:
    lives = [(1024, 0, 1), (1024, 1, 2), (1024, 2, 3), (512, 0, 0)]
    assert plan(lives, [(1024, 2), (600, 9)]) == ([(0, 0), (None, 0), (None, 1024), (1, 0)], 2048)
    assert plan(lives, [(1024, 2), (600, 9)], 1024)[0][3] == (None, 0)  # too little to be worth it


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
