"""Memory between the kernels of a program: one piece, in which values that are never needed at the same time share their place."""

from __future__ import annotations

from collections.abc import Sequence

ALIGNMENT = 256  # bytes; what CUDA's own allocator gives at least


def plan(lives: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Offsets for values of (bytes, first, last) kernel that needs them, and the size of the whole.

    Greedy by size, the largest first, each at the lowest place that is free for all of its life: the rule of TensorFlow
    Lite's planner (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference").
    """
    offsets = [0] * len(lives)
    placed: list[int] = []
    for number in sorted(range(len(lives)), key=lambda n: (-lives[n][0], lives[n][1], n)):
        size, first, last = lives[number]
        beside = [n for n in placed if lives[n][1] <= last and first <= lives[n][2]]
        at = 0
        for other in sorted(beside, key=lambda n: offsets[n]):
            if at + _padded(size) <= offsets[other]:
                break
            at = max(at, offsets[other] + _padded(lives[other][0]))
        offsets[number] = at
        placed.append(number)
    return offsets, max((offsets[n] + _padded(lives[n][0]) for n in range(len(lives))), default=0)


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
