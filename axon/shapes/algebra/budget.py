"""Budgets: searches end after so many steps of work, and never after a time.

What is found within a budget becomes part of signatures and errors, so it must be the same on every machine and whatever else that
does. A step is what takes about 10 microseconds; each search says how many of its own doings make one. Questions make budgets
(`prove.py`, `solving/equations.py`, `solving/unsatisfiable.py`, each with its number of steps) and pass them on with their facts
(`Facts.budget`); `refute`, `linear`, `clauses`, `counterexample` and `polynomials` spend them.
"""

from __future__ import annotations


class OutOfBudget(Exception):
    """A search was given up."""


class Budget:
    """Steps of work that may be done. What is spent is charged to the `whole` too, which a search may overdraw."""

    __slots__ = ("_whole", "left")

    def __init__(self, steps: int, whole: Budget | None = None) -> None:
        self.left = steps
        self._whole = whole

    @property
    def spent(self) -> bool:
        """Whether more was done than was allowed."""
        return self.left < 0

    def charge(self, steps: int) -> None:
        """So much was done, or will be in any case."""
        self.left -= steps
        if self._whole is not None:
            self._whole.charge(steps)

    def spend(self, steps: int = 1) -> None:
        """Raises OutOfBudget when nothing is left."""
        self.charge(steps)
        if self.left < 0:
            raise OutOfBudget

    def give_up(self) -> None:
        """Nothing more is to be spent here, since it would not be worth it. Raises OutOfBudget."""
        self.left = min(self.left, 0)
        raise OutOfBudget

    def part(self, steps: int) -> Budget:
        """A budget of at most so many of the steps that are left, charged to this one."""
        return Budget(min(steps, self.left), self)
