"""What a method is asked for, and what it gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from axon.base.data import dataclass
from axon.host.inference.density import Density
from axon.host.inference.latents import Array
from axon.host.inference.program import Program

OTHERS = np.array([0x9E3779B9, 0x7F4A7C15], np.uint32)  # makes the key of what comes after from that of the starts
LATENTS = np.array([0xD1B54A32, 0xD192ED03], np.uint32)  # and that of discrete latents, given the others


@dataclass(frozen=True, slots=True)
class Asked:
    density: Density
    made: Program
    chains: int
    draws: int
    seed: Array
    target: str | None
    warmup: int = 0
    length: float | None = None

    def call(self, function: str, *args: Any, sizes: tuple[int, ...] = ()) -> Any:
        """A function of the program, with the data first."""
        return self.made.call(function, sizes, *self.density.data, *args, target=self.target)


@dataclass(frozen=True, slots=True)
class Found:
    """Draws by name and what stands beside each of them, [draws, chains, …]; what is true of all; and what to warn of."""

    draws: dict[str, Array]
    stats: dict[str, Array]
    attributes: dict[str, Any]
    said: list[str]
