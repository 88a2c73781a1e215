"""Which of the constraints that wait need not be tried again, since nothing was found that they wait for.

A declaration of n lines may have n constraints that wait, and as many defaults that decide one after the other. So each constraint
that could not be solved is put down here with the variables that it needs; it is tried again when one of them has been solved.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from axon.base.names import Symbol
from axon.types.constraint import Deferred
from axon.types.unify import State


class Stuck:
    """Constraints that were tried in vain, while a declaration's types are settled: the level of its variables stays the same."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._asleep: set[Deferred] = set()
        self._needing: dict[Symbol, list[Deferred]] = {}
        self._rows, self._types = len(state.rows), len(state.types)  # how many solved variables are known here: they only grow
        self._here: set[Deferred] = set()  # those that do not wait for the declaration around, …
        self._lowered = state.lowered  # … when so many variables had gone to one around

    def __contains__(self, constraint: Deferred) -> bool:
        return constraint in self._asleep

    def add(self, constraint: Deferred, needs: Iterable[Symbol] | None) -> None:
        """A constraint cannot be solved before one of the variables is; None: it is tried always."""
        if needs is None:
            return
        self._asleep.add(constraint)
        for symbol in needs:
            self._needing.setdefault(symbol, []).append(constraint)

    def wake(self) -> None:
        """Look at what was solved since."""
        rows, types = self._state.rows, self._state.types
        if len(rows) == self._rows and len(types) == self._types:
            return
        new = chain(islice(reversed(rows), len(rows) - self._rows), islice(reversed(types), len(types) - self._types))
        for symbol in new:
            for constraint in self._needing.pop(symbol, ()):
                self._asleep.discard(constraint)
                self._here.discard(constraint)
        self._rows, self._types = len(rows), len(types)

    def stay(self, constraints: Iterable[Deferred]) -> None:
        """What waits for no declaration around."""
        self._lowered = self._state.lowered
        self._here = self._asleep.intersection(constraints)

    def stays(self, constraint: Deferred) -> bool:
        """Whether a constraint was seen to wait for no declaration around, and nothing has changed for it."""
        return constraint in self._here and self._lowered == self._state.lowered
