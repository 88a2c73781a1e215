"""Scales of parts of a sum: factors that are the same for a stretch of what is summed, and multiply what that adds up to."""

from __future__ import annotations

from collections.abc import Sequence

from axon.backend.gpu.layout.products import PROMOTED
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Axis, Read, Scalar
from axon.shapes.dimension import Dim, Quotient


@dataclass(frozen=True, slots=True)
class Scale:
    """A factor that is the same for `per` of the depth, one after the other, or 0 for all, and multiplies what these add up to: it
    is read at outer indices, at one of rows or of columns, or of their quotients, and at the depth / per."""

    read: Read
    per: int

    def along(self, axis: Symbol) -> int:
        """How many neighbours along an axis have one, 0 if all."""
        return next((unit for symbol, unit in map(_quotient, self.read.subscripts) if symbol == axis), 0)

    def index(self, subscript: Dim | Scalar) -> Symbol:
        """The axis of which one of its subscripts is the quotient."""
        symbol, _ = _quotient(subscript)
        assert symbol is not None, "a scale that is none"
        return symbol


def scale_of(factor: Scalar, rows: Axis, columns: Axis, depth: Axis, outer: Sequence[Axis]) -> Scale:
    """A factor that is a scale. Raises `Unsupported` for one that changes more often than sums are promoted."""
    if (
        not isinstance(factor, Read)
        or factor.padding is not None
        or factor.checked is not None
        or factor.element is not Element.F32
    ):
        raise Unsupported("a scale that is not read in f32 at indices")
    found = list(map(_quotient, factor.subscripts))
    tiled = {rows.symbol, columns.symbol, depth.symbol}
    own = [symbol for symbol, _ in found if symbol in tiled]
    if any(symbol not in tiled | {axis.symbol for axis in outer} for symbol, _ in found) or len(own) > len(set(own)):
        raise Unsupported("a scale that is read at other indices than a product's, or their quotients")
    per = dict(found).get(depth.symbol, 0)
    if per % PROMOTED:
        raise Unsupported(f"a scale for each {per} of what is summed, of which {PROMOTED} are promoted at a time")
    if tiled <= {*own, depth.symbol}:
        raise Unsupported("a scale of both rows and columns")
    return Scale(factor, per)


def at_indices(factor: Scalar) -> bool:
    """Whether a factor is no read at the quotient of an index."""
    return not isinstance(factor, Read) or all(divisor <= 1 for _, divisor in map(_quotient, factor.subscripts))


def _quotient(subscript: Dim | Scalar) -> tuple[Symbol | None, int]:
    """The index at which a scale is read, and by what it is divided; none of another."""
    if not isinstance(subscript, Dim):
        return None, 0
    if subscript.symbol is not None:
        return subscript.symbol, 1
    atom = subscript.atom
    divisor = atom.divisor.constant if isinstance(atom, Quotient) else None
    return (atom.dividend.symbol, divisor) if isinstance(atom, Quotient) and divisor is not None else (None, 0)
