"""Elements that are sorted: their keys, the symbols that sources speak of, and how results are written.

Note [Sorting]
    Elements become integers whose order is that of the elements, NaN last and the zeros equal; beside each stands its place in its
    row. Elements of up to 32 bits make one i64 with their place in the low half; wider ones keep it apart. Rows of at most a few
    hundred elements are sorted by comparing (`bitonic`), longer ones by their digits (`radix`).
"""

from __future__ import annotations

from axon.backend.gpu.emit.source import Parameter, StrideParameter
from axon.backend.gpu.sorting.writing import KernelCode, extents, i64, load
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Expression, Name, Operator, same
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import fresh

# What the sources' parameters stand for; one source serves all programs.
INPUT, VALUES, INDICES = fresh("source"), fresh("values"), fresh("indices")
LENGTH, ROWS, WIDTH = (fresh(name) for name in ("length", "rows", "width"))
LEADING = tuple(fresh(f"extent{d}") for d in range(32))  # the extents of the dimensions before the last


@dataclass(frozen=True, slots=True)
class Keys:
    """How elements become integers."""

    element: Element

    @property
    def bits(self) -> int:
        return max(8, self.element.bits)

    @property
    def size(self) -> int:
        return self.bits // 8

    @property
    def wide(self) -> bool:
        """Whether a place does not fit beside the element in 64 bits."""
        return self.bits == 64

    def unsigned(self, code: Code, bits: Expression) -> Name:
        """The key of an element whose bits were loaded, as an integer without a sign."""
        half, key = 1 << (self.bits - 1), code.local("key")
        if self.element.is_float:
            self.key(code, bits)
            code.assign(key, key ^ -half if self.wide else key + half)
        else:
            code.assign(key, bits if self.without_sign else bits ^ (-half if self.wide else half))
        return key

    @property
    def without_sign(self) -> bool:
        return self.element is Element.BOOL or self.element.is_unsigned

    def of_key(self, code: Code, key: Expression) -> tuple[Name, Name | None]:
        """The bits of an element whose key is `unsigned`; and, of floats, whether they may be others: of two zeros, of many NaN."""
        half, bits = 1 << (self.bits - 1), code.local("bits")
        if not self.element.is_float:
            code.assign(bits, key if self.without_sign else key ^ (-half if self.wide else half))
            return bits, None
        code.assign(bits, key ^ -half if self.wide else key - half)
        special = code.let(Operator("or", same(bits, 0), bits > _INFINITY[self.element]), "special")
        with code.when(bits < 0):
            code.assign(bits, (i64(0) - bits) | -half)
        return bits, special

    def key(self, code: Code, bits: Expression) -> Name:
        """The key of an element whose bits were loaded."""
        half, element, key = 1 << (self.bits - 1), self.element, code.local("key")
        if not element.is_float:
            if element.is_unsigned and self.bits >= 32:  # so that keys of 32 bits, too, have a sign to spare
                code.assign(key, bits ^ -half if self.wide else bits - half)
                return key
            code.assign(key, bits)
            if element is not Element.BOOL and not element.is_unsigned and not self.wide:
                with code.when(bits > half - 1):
                    code.assign(key, bits - 2 * half)
            return key
        code.assign(key, bits & (half - 1), "without the sign")
        with code.when(key > _INFINITY[element]):
            code.assign(key, i64(half - 1), "NaN")
        with code.otherwise(), code.when(bits < 0 if self.wide else bits > half - 1):
            code.assign(key, -key)
        return key


_INFINITY = {  # the bits of the largest value that is a number
    Element.F64: 0x7FF0000000000000, Element.F32: 0x7F800000, Element.F16: 0x7C00, Element.BF16: 0x7F80, Element.F8E4M3: 0x7E,
    Element.F8E5M2: 0x7C,
}  # fmt: skip
LAST_PLACE = (1 << 31) - 1


def strided(rank: int) -> list[Parameter]:
    """How the input lies: the extents before the last, and all strides."""
    return [*extents(*LEADING[: rank - 1]), *(StrideParameter(INPUT, d) for d in range(rank))]


def row_start(code: KernelCode, keys: Keys, rank: int) -> Expression:
    """The address at which a `row` of the input begins."""
    source, row = code.pointer(INPUT), code.local("row")
    if rank == 1:
        return code.set("start", source)
    rest = code.set("rest", row)
    start = code.set("start", source)
    for d in reversed(range(1, rank - 1)):
        extent = code.extent(LEADING[d])
        code.assign(start, start + rest % extent * code.stride(INPUT, d) * keys.size)
        code.assign(rest, rest // extent)
    code.assign(start, start + rest * code.stride(INPUT, 0) * keys.size)
    return start


def element_at(code: KernelCode, keys: Keys, rank: int, start: Expression, place: Expression | int) -> Expression:
    """The bits of an element of a row of the input."""
    return load(keys.bits, start + place * code.stride(INPUT, rank - 1) * keys.size)


def write_result(code: KernelCode, keys: Keys, rank: int, origin: Expression, key: Expression | None = None) -> None:
    """Writes the results at `place` of a `row`, which begins at `start`: the element that was at `origin`. Of most keys (as
    `unsigned` makes them) it is known without another look at the input."""
    at = code.set("at", code.local("row") * code.extent(LENGTH) + code.local("place"))
    code.store(32, INDICES, at, origin)
    whole = element_at(code, keys, rank, code.local("start"), origin)
    if key is None:
        bits = code.set("bits", whole)
    else:
        bits, special = keys.of_key(code, key)
        if special is not None:
            with code.when(special):
                code.assign(bits, whole)
    code.store(keys.bits, VALUES, at, bits)
