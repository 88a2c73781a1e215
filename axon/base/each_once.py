"""A mapping whose values are made when they are first asked for: of what a module makes available, most programs use little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TypeVar

V = TypeVar("V")


class EachOnce(MutableMapping[str, V]):
    """These names, each with what `make` makes of it, the same each time. A name may be given another value."""

    def __init__(self, names: Iterable[str], make: Callable[[str], V]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make
        self._made: dict[str, V] = {}

    def __getitem__(self, name: str) -> V:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            value = self._make(name)
            self._made.setdefault(name, value)  # of two threads, the first
        return self._made[name]

    def __setitem__(self, name: str, value: V) -> None:
        self._names[name] = None
        self._made[name] = value

    def __delitem__(self, name: str) -> None:
        del self._names[name]
        self._made.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
