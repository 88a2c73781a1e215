"""What the levels of KernelBench share: a problem, its arguments and how they are drawn, and PyTorch's functions by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Draw:
    """Where tensors are drawn, which extent stands for one of KernelBench's, and how far from 0 a layer's weights may be: not as
    PyTorch has them, if given."""

    device: str = "cuda"
    extent: Callable[[int], int] = int
    bound: float | None = None

    def rand(self, *shape: int) -> Any:
        import torch

        return torch.rand([self.extent(n) for n in shape], device=self.device)


@dataclass(frozen=True)
class Argument:
    """What `warmup` takes for it, and how it is made."""

    like: Any
    make: Callable[[Draw], Any]


@dataclass(frozen=True)
class Problem:
    """`f` of the level's `.axon` and `peer` of PyTorch take what `arguments` make. The first index of those with the numbers
    `batched` is that of the result, so that a few are enough to compare. A small version has `small`'s extents."""

    number: int
    f: str
    peer: Callable[..., Any]
    arguments: tuple[Argument, ...]
    batched: tuple[int, ...] = (0,)
    small: Mapping[int, int] = field(default_factory=dict)

    def shrunk(self, n: int) -> int:
        """The extent of a small version: unless said, those up to 64 are halved, so that ratios and the divisors 2, 4 and 8 of
        channels stay, and a greater one has 8 for each time that it doubles. Windows are kept."""
        return self.small.get(n, n if n <= 8 else n // 2 if n <= 64 else 32 + 8 * int(math.log2(n / 64)) + n % 8)


def rand(*shape: int, then: Callable[[Any], Any] = lambda x: x, element: str = "f32") -> Argument:
    """Between 0 and 1, as KernelBench draws its inputs."""
    return Argument(f"{element}{list(shape)}", lambda draw: then(draw.rand(*shape)))


def normal(*shape: int) -> Argument:
    """Of the standard normal distribution, as KernelBench draws parameters of its own."""
    return rand(*shape, then=lambda x: x.normal_())


def weights(*shape: int, fan: int = 0) -> Argument:
    """As a layer's: between ±1 / √fan, the numbers that make one of the result."""

    def make(draw: Draw) -> Any:
        bound = draw.bound or 1 / math.sqrt(fan or math.prod(shape[1:]))
        return draw.rand(*shape) * (2 * bound) - bound

    return Argument(f"f32{list(shape)}", make)


def number(value: float) -> Argument:
    return Argument(value, lambda draw: value)


def labels(count: int, classes: int) -> Argument:
    return Argument(f"i32[{count}]", lambda draw: (draw.rand(count) * draw.extent(classes)).int())


def features(count: int, **values: float) -> Argument:
    """A record of the parameters of a normalization, as PyTorch begins with."""

    def make(draw: Draw) -> Any:
        return {name: draw.rand(count).fill_(value) for name, value in values.items()}

    return Argument(dict.fromkeys(values, f"f32[{count}]"), make)


def torch_function(path: str) -> Callable[..., Any]:
    """A function of PyTorch by its name, which is looked up when it is called."""

    def call(*given: Any, **named: Any) -> Any:
        import torch

        found: Any = torch
        for part in path.split("."):
            found = getattr(found, part)
        return found(*given, **named)

    return call


def functional(name: str, **named: Any) -> Callable[..., Any]:
    return partial(torch_function(f"nn.functional.{name}"), **named)


def batch_norm(p: Any, x: Any) -> Any:
    """In training: `p`'s mean and variance move."""
    return functional("batch_norm")(x, p["mean"], p["variance"], p["scale"], p["shift"], training=True, momentum=0.1)
