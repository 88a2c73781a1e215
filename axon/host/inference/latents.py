"""What latents are made of, and where each part of them stands in one vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from axon.base.data import dataclass

DTYPES = {"f64": np.float64, "f32": np.float32}
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Tree: TypeAlias = "Leaf | tuple[Tree, ...] | dict[str, Tree]"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor among the latents: its path (`tau`, `up.w`, `2`), its sizes, and its first place in the vector."""

    path: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def of(self, u: Array) -> Array:
        """Its values in vectors, which may have dimensions before their own."""
        return u[..., self.start : self.start + self.size].reshape((*u.shape[:-1], *self.shape))


def tree_of(value: Any) -> Tree:
    """The structure of a value, whose leaves are what NumPy makes arrays of numbers of."""
    at = 0

    def tree(value: Any, path: str) -> Tree:
        nonlocal at
        if isinstance(value, Mapping):
            return {name: tree(part, f"{path}.{name}" if path else str(name)) for name, part in value.items()}
        if isinstance(value, tuple):
            return tuple(tree(part, f"{path}.{n}" if path else str(n)) for n, part in enumerate(value, 1))
        leaf = Leaf(path or "u", np.shape(value), at)
        at += leaf.size
        return leaf

    return tree(value, "")


def leaves(tree: Tree) -> Iterator[Leaf]:
    match tree:
        case Leaf():
            yield tree
        case tuple():
            for part in tree:
                yield from leaves(part)
        case dict():
            for part in tree.values():
                yield from leaves(part)


def values(value: Any) -> Iterator[Any]:
    """The leaves of a value, in the order of `leaves`."""
    if isinstance(value, Mapping | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from values(part)
    else:
        yield value


def paths(value: Any, path: str = "") -> Iterator[tuple[str, Array]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from paths(part, f"{path}.{name}" if path else name)
    elif isinstance(value, tuple):
        for n, part in enumerate(value, 1):
            yield from paths(part, f"{path}.{n}" if path else str(n))
    else:
        yield path, np.asarray(value)


def vector(value: Any, element: str) -> Array:
    """A value as one vector."""
    parts = [np.asarray(part, DTYPES[element]).ravel() for part in values(value)]
    return np.concatenate(parts) if parts else np.zeros(0, DTYPES[element])


def text(tree: Tree, u: str) -> str:
    """The latents as an expression over a vector."""
    match tree:
        case Leaf(shape=(), start=start):
            return f"{u}[{start}]"
        case Leaf(shape=shape, start=start):
            indices = [f"{u}_{n}" for n in range(len(shape))]
            place = indices[0]
            for index, size in zip(indices[1:], shape[1:], strict=True):
                place = f"({place}) * {size} + {index}"
            bounds = ", ".join(f"{index} < {size}" for index, size in zip(indices, shape, strict=True))
            return f"(for {bounds} => {u}[{start} + {place}])"
        case tuple():
            return f"({', '.join(text(part, u) for part in tree)})"
        case dict():
            return f"{{ {', '.join(f'{name} = {text(part, u)}' for name, part in tree.items())} }}"


def flat(tree: Tree, value: str) -> str:
    """The vector of latents as an expression over a variable that holds them."""
    parts = list(_parts(tree, value))
    size = sum(leaf.size for leaf, _ in parts)
    return f"(for {value}_k < {size} => {_chosen(parts, f'{value}_k')})"


def _chosen(parts: list[tuple[Leaf, str]], k: str) -> str:
    """Element k of the parts. Halved, so that no element is many conditions away."""
    if len(parts) > 1:
        middle = len(parts) // 2
        return f"if {k} < {parts[middle][0].start} then {_chosen(parts[:middle], k)} else {_chosen(parts[middle:], k)}"
    leaf, value = parts[0]
    return value if leaf.shape == () else f"{value}[{k} - {leaf.start}]"


def _parts(tree: Tree, value: str) -> Iterator[tuple[Leaf, str]]:
    match tree:
        case Leaf(size=0):
            pass
        case Leaf(shape=shape) if len(shape) < 2:
            yield tree, value
        case Leaf(shape=shape):
            indices = [f"i{n}" for n in range(len(shape))]
            yield tree, f"(for ({', '.join(indices)}) => {value}[{', '.join(indices)}])"
        case tuple():
            for n, part in enumerate(tree, 1):
                yield from _parts(part, f"{value}.{n}")
        case dict():
            for name, part in tree.items():
                yield from _parts(part, f"{value}.{name}")
