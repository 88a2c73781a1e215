"""A kernel's source as it is built and launched: its text, what its parameters are, and for how many threads it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from axon.backend.gpu.roles.barriers import Descriptor
from axon.backend.kernel.ir import Module, called
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.kernel.printer import bare, printed
from axon.backend.kernel.verify import verify_module
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.base.passes import verifying
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class MapParameter:
    """A TMA descriptor, passed by value."""

    descriptor: Descriptor


@dataclass(frozen=True, slots=True)
class StrideParameter:
    """Elements between neighbours along a dimension of a tensor."""

    tensor: Symbol
    dimension: int


@dataclass(frozen=True, slots=True)
class SizeParameter:
    """A size of 32 bits, of kernels for the tensor cores: coordinates of bulk copies have no more."""

    size: Dim


@dataclass(frozen=True, slots=True)
class StatusParameter:
    """Where a kernel notes that the program must stop."""


Parameter: TypeAlias = "MapParameter | PointerParameter | StrideParameter | SizeParameter | ExtentParameter | StatusParameter"


@dataclass(frozen=True, slots=True)
class Emitted:
    """A kernel's source and what its parameters are, in order. Calling `kernel` in the source's name space is the entry.

    `bare` is the source up to names and comments, `calls` what it calls of its surroundings.
    """

    text: str
    bare: str
    calls: frozenset[str]
    parameters: tuple[Parameter, ...]
    threads: int
    cluster: int
    shared: int
    resident: int = 1  # blocks for which a multiprocessor must have registers

    @property
    def bounds(self) -> tuple[int, int]:
        """Its launch bounds: threads of a block, and blocks of a multiprocessor."""
        return self.threads, self.resident


def emitted(module: Module, parameters: Iterable[Parameter], threads: int, cluster: int, shared: int, resident: int = 1) -> Emitted:
    """The module as source, verified. KernelInvalid for a defect of the writer."""
    with verifying("emit"):
        verify_module(module)
    calls = frozenset(called(module.statements))
    return Emitted(printed(module), bare(module), calls, tuple(parameters), threads, cluster, shared, resident)
