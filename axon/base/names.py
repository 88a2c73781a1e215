"""Names after resolution: a Symbol is what a binding introduces and what its uses point to."""

from __future__ import annotations

from itertools import count, islice

from axon.base.data import dataclass

_ids = count(1)


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A binding's identity. Two symbols with one name are different symbols; printers tell them apart when they must."""

    name: str
    id: int

    # Symbols are looked up more than anything else: these two are what dataclasses would make, without the tuples.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"{self.name}.{self.id}"


def fresh(name: str) -> Symbol:
    """A symbol that equals no other."""
    return Symbol(name, next(_ids))


def fresh_numbers(amount: int) -> list[int]:
    """Numbers for so many symbols that equal no others, in the order of their ages."""
    return list(islice(_ids, amount))


def begin_at(number: int) -> None:
    """Number the symbols that are made from now on from here: for a process that gets others from somewhere else."""
    global _ids
    _ids = count(number)
