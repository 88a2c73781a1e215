"""Names after resolution: a Symbol is what a binding introduces and what its uses point to."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

_ids = count(1)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A binding's identity. Two symbols with one name are different symbols; printers tell them apart when they must."""

    name: str = field(compare=False)
    id: int

    def __hash__(self) -> int:  # symbols are looked up more than anything else
        return self.id

    def __repr__(self) -> str:
        return f"{self.name}.{self.id}"


def fresh(name: str) -> Symbol:
    """A symbol that equals no other."""
    return Symbol(name, next(_ids))
