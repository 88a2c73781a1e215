"""Memory between the kernels of a program: one piece, in which values that are never needed at the same time share their place.

Results are memory, too, that nobody needs before they are made: what dies before that may lie there.
"""

from __future__ import annotations

from collections.abc import Sequence

ALIGNMENT = 256  # bytes; what CUDA's own allocator gives at least


def plan(
    lives: Sequence[tuple[int, int, int]], results: Sequence[tuple[int, int]] = (), least: int = 0
) -> tuple[list[tuple[int | None, int]], int]:
    """Places for values of (bytes, first, last) kernel that needs them, and the size of the piece. A place is an offset in the
    piece, or in one of the `results`, by number: of each its bytes, and the first kernel that needs it. There lies what has at
    `least` so many bytes.

    Greedy by size, the largest first, each at the lowest place that is free for all of its life: the rule of TensorFlow
    Lite's planner (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference").
    """
    places: list[tuple[int | None, int]] = [(None, 0)] * len(lives)
    placed: dict[int | None, list[int]] = {}
    for number in sorted(range(len(lives)), key=lambda n: (-lives[n][0], lives[n][1], n)):
        size, first, last = lives[number]
        early = [n for n, (room, until) in enumerate(results) if last < until and least <= size <= room]
        # In results first, of which the smallest will do; the piece is as large as it has to be.
        for where in (*sorted(early, key=lambda n: results[n]), None):
            beside = [n for n in placed.get(where, ()) if lives[n][1] <= last and first <= lives[n][2]]
            at = 0
            for other in sorted(beside, key=lambda n: places[n][1]):
                if at + _padded(size) <= places[other][1]:
                    break
                at = max(at, places[other][1] + _padded(lives[other][0]))
            if where is None or at + size <= results[where][0]:
                places[number] = where, at
                placed.setdefault(where, []).append(number)
                break
    return places, max((at + _padded(lives[n][0]) for n, (where, at) in enumerate(places) if where is None), default=0)


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
