"""Maps and sets of objects by identity: what looks at a shared node once looks it up here, as itself and never as a number.

A class with `eq=False` is found by identity in any dictionary. The frozen data of core and of syntax are not: they compare by what
they hold, which takes time without bound where parts are shared, and takes one place in a text for another. These maps ask only
whether it is the same object, and keep each of their keys alive, so that no other object can come to have its address meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_NONE = object()


class IdentityMap(Generic[K, V]):
    """A dictionary whose keys are the objects themselves, whatever they compare equal to. Its order is that of insertion."""

    __slots__ = ("_keys", "_values")

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        self._keys: dict[int, K] = {}  # what keeps the keys alive; it and the values have the same numbers, in the same order
        self._values: dict[int, V] = {}
        self.update(items)

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V) -> V: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: object = None) -> object:
        return self._values.get(id(key), default)

    def __getitem__(self, key: K) -> V:
        try:
            return self._values[id(key)]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: K, value: V) -> None:
        number = id(key)
        self._keys[number] = key
        self._values[number] = value

    def update(self, items: Iterable[tuple[K, V]]) -> None:
        for key, value in items:
            self[key] = value

    def clear(self) -> None:
        self._keys.clear()
        self._values.clear()

    def __contains__(self, key: object) -> bool:
        return id(key) in self._values

    def setdefault(self, key: K, default: V) -> V:
        number = id(key)
        self._keys[number] = key
        return self._values.setdefault(number, default)

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: D) -> V | D: ...
    def pop(self, key: K, default: object = _NONE) -> object:
        """Without a default, KeyError if the object is not here."""
        number = id(key)
        self._keys.pop(number, None)
        found = self._values.pop(number, default)
        if found is _NONE:
            raise KeyError(key)
        return found

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys.values())

    def values(self) -> Iterable[V]:
        return self._values.values()

    def items(self) -> Iterable[tuple[K, V]]:
        return zip(self._keys.values(), self._values.values(), strict=True)

    def __repr__(self) -> str:
        return f"IdentityMap({list(self.items())!r})"

    def __reduce__(self) -> tuple[type[IdentityMap[K, V]], tuple[list[tuple[K, V]]]]:
        return IdentityMap, (list(self.items()),)  # a copy, and what another process gets, is of other objects


class IdentitySet(Generic[K]):
    """A set of the objects themselves, whatever they compare equal to, in the order in which they came."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[K] = ()) -> None:
        self._keys: dict[int, K] = {id(key): key for key in keys}

    def add(self, key: K) -> None:
        self._keys.setdefault(id(key), key)

    def __contains__(self, key: object) -> bool:
        return id(key) in self._keys

    def discard(self, key: K) -> None:
        self._keys.pop(id(key), None)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys.values())

    def __repr__(self) -> str:
        return f"IdentitySet({list(self)!r})"

    def __reduce__(self) -> tuple[type[IdentitySet[K]], tuple[list[K]]]:
        return IdentitySet, (list(self),)


def place_of(held: object) -> int:
    """Where an object lies in memory, for machine code that reads it there as long as it is held."""
    return id(held)
