"""Memory that is planned before there is any: blocks are taken and given back in the order of what is launched, twice.

The first time one learns how long each lives; then each has its place, and the second time takes it there.
"""

from __future__ import annotations

from axon.backend.plan import scratch
from axon.base.data import dataclass

WRAPPED = 1 << 36  # bytes; while nothing is planned blocks may lie on each other


@dataclass(frozen=True, slots=True)
class Planned:
    """Where each block lies, in the order in which they are taken, and the bytes of all."""

    places: tuple[int, ...] = ()
    size: int = 0


class Arena:
    """Blocks by what is `planned`; before that anywhere."""

    def __init__(self, planned: Planned | None) -> None:
        self.planned = planned
        self.lives: list[tuple[int, int, int]] = []  # bytes, and when it is taken and given back
        self.now = self.used = 0

    def take(self, size: int) -> Block:
        """A block until what is returned is forgotten."""
        number = len(self.lives)
        at = self.planned.places[number] if self.planned is not None else self.used % WRAPPED
        self.lives.append((size, self.now, -1))
        self.now += 1
        self.used += -(-size // scratch.ALIGNMENT) * scratch.ALIGNMENT
        return Block(self, number, at)

    def give_back(self, number: int) -> None:
        size, first, _ = self.lives[number]
        self.lives[number] = size, first, self.now
        self.now += 1

    def plan(self) -> Planned:
        """Where blocks lie that are taken once more like this."""
        lives = [(size, first, self.now if last < 0 else last) for size, first, last in self.lives]
        places, size = scratch.plan(lives)
        return Planned(tuple(at for _, at in places), size)


class Block:
    """A block that is in use; forgotten, it is free again."""

    __slots__ = ("arena", "at", "number")

    def __init__(self, arena: Arena, number: int, at: int) -> None:
        self.arena, self.number, self.at = arena, number, at

    def __del__(self) -> None:
        self.arena.give_back(self.number)
