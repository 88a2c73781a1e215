"""Device memory that someone else owns: addresses, shapes and strides, and what bulk copies can address."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axon.backend.gpu.layout.target import HOPPER
from axon.base.data import dataclass
from axon.base.element import Element

OFFSETS = {1: 16, 2: 8, 3: 5}  # bits of an offset in a copy of pixels, by how many dimensions these lie in
PIXEL_STEP = 8  # at most
SPACED = 8  # elements, of which spaced rows begin at multiples: as many as a thread of a plain kernel moves together


@dataclass(frozen=True, slots=True)
class Im2col:
    """Images as copies of pixels (the im2col mode of cp.async.bulk.tensor) address them.

    `shape` and `strides` are those of memory, outermost first: examples, where pixels lie, channels. The others have a value for
    each dimension in which pixels lie: the first pixel, how far behind the last element the last one is, the step between pixels,
    the greatest offset. `depth` channels of a pixel follow each other before the next offset; 0 where there is no other.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    reach: tuple[int, ...]
    depth: int

    def refused(self, element: Element) -> str | None:
        """Why copies of pixels cannot address them, if they cannot."""
        size, align = element.bits // 8, HOPPER.tensor_map_alignment
        if self.depth * size % HOPPER.swizzle:
            return f"its {self.depth} channels are no multiple of {HOPPER.swizzle // size}"
        if self.strides[-1] != 1 and self.shape[-1] > 1:
            return "its channels are not contiguous"
        if any(extent > 1 and (stride * size % align or stride <= 0) for extent, stride in self.outer):
            return f"not all its dimensions step by multiples of {align} bytes"
        bits = OFFSETS[len(self.lower)]
        if any(reach >= 1 << bits for reach in self.reach) or any(step > PIXEL_STEP for step in self.steps):
            return "its windows are too large, or lie too far apart"
        corner = 1 << (bits - 1)
        if any(not -corner <= place < corner for place in (*self.lower, *self.upper)):
            return "its windows lie too far outside"
        return None

    @property
    def outer(self) -> tuple[tuple[int, int], ...]:
        """Extents and strides of all but the channels."""
        return tuple(zip(self.shape[:-1], self.strides[:-1], strict=True))


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """Device memory: its address, and for each dimension its extent and the elements from one index to the next. The last two of
    `im2col` are pixels and what windows show there, and no strides express them. `spare` elements behind each row, along the last
    dimension, are its own: whoever has it may read and write them, and they mean nothing."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: Element
    im2col: Im2col | None = None
    spare: int = 0

    @property
    def bytes(self) -> int:
        """From the first row to the end of the last, where rows lie in order."""
        return prod(self.shape[:1]) * prod(self.strides[:1]) * max(8, self.element.bits) // 8

    @property
    def copyable(self) -> str | None:
        """Why bulk copies cannot address it, if they cannot."""
        size = self.element.bits // 8
        align = HOPPER.tensor_map_alignment
        if self.pointer % align:
            return f"its address is not a multiple of {align} bytes"
        if self.im2col is not None:
            return self.im2col.refused(self.element)
        if len(self.shape) > HOPPER.tensor_map_rank:
            return f"it has more than {HOPPER.tensor_map_rank} dimensions"
        if self.strides[-1] != 1 and self.shape[-1] > 1:
            return "its last dimension is not contiguous"
        for d, (extent, stride) in enumerate(zip(self.shape[:-1], self.strides[:-1], strict=True)):
            if extent > 1 and (stride * size % align or stride <= 0):
                return f"dimension {d} steps by {stride * size} bytes, which is not a multiple of {align}"
        return None

    @property
    def storable(self) -> bool:
        """Whether bulk copies can store it. At the end of a row they write 16 bytes at once, though they load single elements: what
        follows must be spare then."""
        if self.im2col is not None or self.copyable is not None:
            return False
        size = self.element.bits // 8
        return -self.shape[-1] * size % HOPPER.tensor_map_alignment <= self.spare * size

    @property
    def order(self) -> tuple[int, ...]:
        """Its dimensions by stride, the smallest last; dimensions of one index, whose stride means nothing, first."""
        return tuple(
            sorted(range(len(self.shape)), key=lambda d: (self.shape[d] > 1, -self.strides[d] if self.shape[d] > 1 else 0))
        )

    def arranged(self, order: tuple[int, ...]) -> DeviceTensor:
        """The same memory with its dimensions in another order, in which copies of pixels do not see it."""
        shape, strides = (tuple(of[d] for d in order) for of in (self.shape, self.strides))
        im2col = self.im2col if order == tuple(range(len(order))) else None
        spare = self.spare if order[-1:] == (len(order) - 1,) else 0
        return DeviceTensor(self.pointer, shape, strides, self.element, im2col, spare)

    def goes_on(self, dimension: int) -> bool:
        """Whether its elements go on from one index of a dimension to the next where the dimension after it ends."""
        return self.strides[dimension] == self.shape[dimension + 1] * self.strides[dimension + 1]

    def merged(self, dimensions: Sequence[Sequence[int]]) -> DeviceTensor:
        """The same memory with one dimension for each of these, of which each goes on into the next."""
        shape = tuple(prod(self.shape[d] for d in several) for several in dimensions)
        strides = tuple(self.strides[several[-1]] for several in dimensions)
        last = bool(dimensions) and tuple(dimensions[-1]) == (len(self.shape) - 1,)
        return DeviceTensor(self.pointer, shape, strides, self.element, spare=self.spare if last else 0)

    @property
    def paired(self) -> bool:
        """Whether two neighbours along the last dimension, from an even one on, are one aligned word: of 16-bit elements, or 32."""
        if self.element.bits not in (16, 32) or not self.shape:
            return False
        even = all(stride % 2 == 0 for stride in self.strides[:-1])
        return even and self.strides[-1] == 1 and self.shape[-1] % 2 == 0 and self.pointer % (self.element.bits // 4) == 0


def aligned(pointer: int, shape: tuple[int, ...], element: Element, row: int = 1, least: int = 1) -> DeviceTensor:
    """A tensor laid out in rows, of its last dimension or of so many, that start at multiples of 16 bytes and `least` elements."""
    unit = max(least, HOPPER.tensor_map_alignment * 8 // element.bits)
    inside = contiguous(pointer, shape[len(shape) - row :], element).strides
    whole = max(1, prod(shape[len(shape) - row :]))
    outside = contiguous(pointer, (*shape[: len(shape) - row], -(-whole // unit) * unit), element).strides[:-1]
    spare = -whole % unit if row == 1 and len(shape) > 1 else 0
    return DeviceTensor(pointer, shape, (*outside, *inside), element, spare=spare)


def contiguous(pointer: int, shape: tuple[int, ...], element: Element) -> DeviceTensor:
    """A tensor laid out in rows."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return DeviceTensor(pointer, shape, tuple(reversed(strides)), element)
