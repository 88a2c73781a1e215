"""Blocks that are in use at the same time lie apart, and together take little more than what is in use at once."""

from __future__ import annotations

from random import Random

import pytest

from axon.backend.gpu.launching.arena import Arena, Block


@pytest.mark.parametrize("seed", range(40))
def test_blocks_lie_apart(seed: int) -> None:
    def run(arena: Arena, check: bool) -> int:
        chance = Random(seed)
        held: list[tuple[Block, int]] = []
        most = 0
        for _ in range(chance.randint(1, 80)):
            if held and chance.random() < 0.5:
                del held[chance.randrange(len(held))]
                continue
            size = chance.choice((1, 4, 255, 256, 257, 4096, 5000, 1 << 16))
            held.append((arena.take(size), size))
            at = held[-1][0].at
            assert not check or all(at + size <= other.at or other.at + s <= at for other, s in held[:-1])
            assert at % 256 == 0
            most = max(most, sum(-(-s // 256) * 256 for _, s in held))
        return most

    first = Arena(None)
    most = run(first, False)
    planned = first.plan()
    assert most <= planned.size <= 1.6 * most
    assert run(Arena(planned), True) == most
