"""Sizes of generated programs: a polynomial over named dimensions and quotients, beside the number that it is in this example."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

Terms = tuple[tuple[tuple[str, ...], int], ...]  # products of atoms (names, or quotients in parentheses), and how often


@dataclass(frozen=True)
class Size:
    """Two sizes are equal for the checker if their terms are; `value` is what they come to here."""

    terms: Terms
    value: int
    names: frozenset[str]

    @property
    def key(self) -> Terms:
        return self.terms

    @property
    def number(self) -> int | None:
        """The number, if the size is one in every example."""
        return self.value if not self.names else None

    @property
    def text(self) -> str:
        if not self.terms:
            return "0"
        out = ""
        for atoms, count in sorted(self.terms, key=lambda term: (term[1] < 0, not term[0])):
            sign = " - " if count < 0 and out else "-" if count < 0 else " + " if out else ""
            factors = [str(abs(count))] * (abs(count) != 1 or not atoms) + list(atoms)
            out += sign + " * ".join(factors)
        return out

    def __add__(self, other: Size | int) -> Size:
        other = number(other)
        return _size((*self.terms, *other.terms), self.value + other.value, (self, other))

    def __sub__(self, other: Size | int) -> Size:
        return self + number(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        other = number(other)
        terms = [(tuple(sorted(a + b)), c * d) for a, c in self.terms for b, d in other.terms]
        return _size(terms, self.value * other.value, (self, other))

    def __floordiv__(self, divisor: int) -> Size:
        if not self.names:
            return number(self.value // divisor)
        if all(count % divisor == 0 for _, count in self.terms):
            return _size([(atoms, count // divisor) for atoms, count in self.terms], self.value // divisor, (self,))
        atom = f"(({self.text}) / {divisor})"
        return Size((((atom,), 1),), self.value // divisor, self.names)


def _size(terms: Iterable[tuple[tuple[str, ...], int]], value: int, parts: tuple[Size, ...]) -> Size:
    total: dict[tuple[str, ...], int] = {}
    for atoms, count in terms:
        total[atoms] = total.get(atoms, 0) + count
    kept = tuple(sorted((a, c) for a, c in total.items() if c))
    names = frozenset().union(*(p.names for p in parts)) if any(a for a, _ in kept) else frozenset()
    return Size(kept, value, names)


def differ(a: Size, b: Size) -> bool:
    """Whether two sizes differ in every example, or in all without a size of 0: `x as f32[n]` of an `x : f32[2 * n]`."""
    names = sorted(a.names | b.names)
    less = compile((a - b).text.replace("/", "//"), "<size>", "eval")
    most = 12 if len(names) < 3 else 5
    examples = product(range(1, most + 1), repeat=len(names))
    return all(eval(less, dict(zip(names, example, strict=True))) for example in examples)


def number(value: Size | int) -> Size:
    if isinstance(value, Size):
        return value
    return Size((((), value),) if value else (), value, frozenset())


def named(name: str, value: int) -> Size:
    return Size((((name,), 1),), value, frozenset({name}))
