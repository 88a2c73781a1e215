"""The sharded programs of a function, by its specialization and the sizes of calls.

Which one a call runs follows from its sizes alone, never from what was called before: another choice would sum in another order.
The pass is asked for sizes near those of a call, the same for many calls, and for its own where borders would reach too far with
these; where it gives the same program, what was made of the first serves the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.core.sharding import check_divides, layouts, near, print_sharded, shard
from axon.core.sharding.ir import Layout, Mesh, Sharded


class Forms:
    def __init__(self, mesh: Mesh, split: Mapping[str, str], wide: bool) -> None:
        self.mesh, self.split, self.wide = mesh, split, wide
        self._layouts: IdentityMap[Program, tuple[Layout, ...]] = IdentityMap()
        self._made: IdentityMap[Program, tuple[dict[tuple[int, ...], Sharded], dict[str, Sharded]]] = IdentityMap()

    def layouts(self, program: Program) -> tuple[Layout, ...]:
        """How its inputs lie on the mesh, at all sizes. Raises AxonError for sizes and axes that there are not."""
        if program not in self._layouts:
            self._layouts[program] = tuple(layouts(program, self.mesh, self.split))
        return self._layouts[program]

    def check(self, program: Program, sizes: Mapping[Symbol, int]) -> None:
        """Raises AxonError for whole sizes that cannot be split."""
        check_divides(program, self.mesh, self.split, sizes)

    def sharded(self, program: Program, sizes: Mapping[Symbol, int]) -> Sharded:
        """The program for a call with these whole sizes. Raises AxonError where they cannot be split."""
        made = self._of(program, near(program, self.mesh, self.split, sizes))
        return made if made.serves(sizes) else self._of(program, sizes)

    def _of(self, program: Program, sizes: Mapping[Symbol, int]) -> Sharded:
        by_sizes, by_text = self._made.setdefault(program, ({}, {}))
        key = tuple(sizes.values())
        if key not in by_sizes:
            made = shard(program, self.mesh, self.split, sizes, wide=self.wide)
            by_sizes[key] = by_text.setdefault(print_sharded(made), made)
        return by_sizes[key]
