"""What kernels of every target take: the address of a tensor, and a size. What one target alone has stands with its kernels."""

from __future__ import annotations

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class PointerParameter:
    """The address of a tensor's first element."""

    tensor: Symbol


@dataclass(frozen=True, slots=True)
class ExtentParameter:
    """The value of a dimension, as i64."""

    size: Dim
