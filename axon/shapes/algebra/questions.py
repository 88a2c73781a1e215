"""Questions about indices by their form: with numbers in place of what is bound in them.

Each line of a long program asks what others asked with other indices: whether `2 * p` is inside, what `(i + r) / 2` is inverted.
Under the same facts, which say nothing of these indices, the answer depends on them only by the order of their ages. So it is found
under the form of the question, before any fact is made for it (`Facts.found`): `known` comes after that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import attrgetter

from axon.base.names import Symbol
from axon.shapes.algebra.facts import Facts
from axon.shapes.dimension import Dim

_AGE = attrgetter("id")  # of a variable


def form(bound: Sequence[Symbol], dims: Sequence[Dim], facts: Facts) -> Hashable | None:
    """What Dims are up to the names of the variables that are bound in them: equal for two questions only if these correspond in
    their order, and all other variables are the same. None where facts speak of what is bound."""
    if any(map(facts.mentions, bound)):
        return None
    places = {symbol: n for n, symbol in enumerate(bound)}
    every = sorted({*bound}.union(*[dim.variables for dim in dims]), key=_AGE)
    numbers = {variable: n for n, variable in enumerate(every)}
    return tuple([places.get(variable, variable) for variable in every]), *[dim.numbered(numbers) for dim in dims]
