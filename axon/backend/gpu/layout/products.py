"""What matrix instructions of warpgroups multiply: for each element type of a factor how it must lie, and how products are summed.

Note [Eight bits]
    Factors of 8 bits are multiplied at twice the rate of those of 16, and do not transpose: both must lie in shared memory along
    what is summed. Products of 8-bit floats are exact in f32. Their sums are not: an instruction has 32 of the depth, aligns what
    it sums, and the sum before, to the greatest of these, and cuts off what lies below the 13th bit behind its first; so are sums
    in registers (DeepSeek-V3, 2412.19437, 3.3.2 and 3.5.2). So what 128 of the depth add up to is added to a second accumulator in
    f32, it is *promoted*. For every element, with A and B the absolute values of the factors,

        |error| ≤ (136 · 2⁻¹³ + (depth / 128 + 1) · 2⁻²⁴) · (A · B)

    by the worst case: of each of four instructions, 33 addends and the sum itself lose as much as the last bit of the greatest is
    worth. Without promotion it is 34 · ⌈depth / 32⌉ in place of 136. Sums of 8-bit integers are exact, and wrap in i32 as the
    language's do.

Note [Interleaved keys]
    The weights of a stream are made where a product has left its sums, and are the left factor of the next. A thread of a quad, the
    t-th, has of each 8 neighbours the two at 2 t. As factors of 16 bits it is to have just these; as factors of 8 bits four in a
    row, at 4 t of each 16. So the weights of 16 keys are taken for those at other places, where registers hold them,

        place 4 t + 2 g + e  for key  8 g + 2 t + e           t < 4, g < 2, e < 2

    and the right factor has its keys in that order too: a sum does not ask which of its terms is first. A copy writes it so, since
    it has to lie along the keys in any case (`tile.eight_bits`).
"""

from __future__ import annotations

from enum import Flag

from axon.base.data import dataclass
from axon.base.element import Element


class Precision(Flag):
    """What a schedule lets products lose."""

    WHOLE = 0
    TF32 = 1  # factors of f32 are rounded (see `tile.limbs`)
    FAST = 2  # sums of 8-bit floats are not promoted


@dataclass(frozen=True, slots=True)
class Multiplied:
    """How a factor of an element type is multiplied: `name` is PTX's, `sum` what accumulators hold, `beside` the element types of
    the other factor. `along`: both factors must lie along what is summed. Of what is summed so many bits are `kept` behind the
    first of the greatest addend, and `own` of a sum; if these are few, it is to be `promoted` after so many of the depth."""

    name: str
    sum: Element
    beside: tuple[Element, ...]
    along: bool = False
    kept: int = 25
    own: int = 23
    promoted: int = 0


_F8 = (Element.F8E4M3, Element.F8E5M2)
_I8 = (Element.I8, Element.U8)
SHORT = 13  # bits of sums of 8-bit floats
PROMOTED = 128
MULTIPLIED = {
    Element.BF16: Multiplied("bf16", Element.F32, (Element.BF16,)),
    Element.F16: Multiplied("f16", Element.F32, (Element.F16,)),
    Element.F32: Multiplied("tf32", Element.F32, (Element.F32,), along=True),  # see `tile.limbs`
    Element.F8E4M3: Multiplied("e4m3", Element.F32, _F8, along=True, kept=SHORT, own=SHORT, promoted=PROMOTED),
    Element.F8E5M2: Multiplied("e5m2", Element.F32, _F8, along=True, kept=SHORT, own=SHORT, promoted=PROMOTED),
    Element.I8: Multiplied("s8", Element.I32, _I8, along=True),
    Element.U8: Multiplied("u8", Element.I32, _I8, along=True),
}
EIGHT_BITS = (*_F8, *_I8)
EIGHT_BIT_FLOATS = _F8
INSTRUCTION_BYTES = 32  # of the depth of one instruction
INTERLEAVED = 16  # keys, in whose order those of 8-bit factors that registers hold repeat themselves; see Note [Interleaved keys]
WEIGHT = Element.F8E4M3  # of weights in 8 bits, of which
WEIGHT_BITS = 8  # so many times two is 1: of the greatest that there are, 2⁸ of 448


def multiplies(left: Element, right: Element) -> bool:
    """Whether matrix instructions multiply factors of these element types, as they are or, of f32, rounded."""
    return left in MULTIPLIED and right in MULTIPLIED[left].beside


def key_of(place: int) -> int:
    """Which of interleaved keys is at a place; see Note [Interleaved keys]."""
    block, inside = divmod(place, INTERLEAVED)
    return block * INTERLEAVED + inside % 4 // 2 * 8 + inside // 4 * 2 + inside % 2


def error_bound(depth: int, promoted: int) -> float:
    """c of |error| ≤ c · (A · B), for a product of 8-bit floats over so many, promoted after so many or, if 0, never; see Note
    [Eight bits]."""
    addends = INSTRUCTION_BYTES + 1 + 1  # with the sum before, and the sum
    instructions = -(-(min(depth, promoted) if promoted else depth) // INSTRUCTION_BYTES)
    additions = -(-depth // promoted) + 1 if promoted else 0
    return addends * instructions * 2.0**-SHORT + additions * 2.0**-24
