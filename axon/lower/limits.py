"""What a call must see to besides its contract so that arithmetic on sizes is exact: the extents that a program computes are below
2^31, as all sizes are, and what is compared or divided in 64 bits is held by them. Most programs need none of it: only products of
sizes can be so large.
"""

from __future__ import annotations

from collections.abc import Iterable

from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Axis, Block, Check, Compress, Compute, Index, Loop, Read, Scalar, Scan, Sort, Value
from axon.core.walk import all_axes, is_curved, nodes, outs_of, scalars
from axon.shapes.contracts.contract import ContractFact
from axon.shapes.dimension import Atom, Dim, Quotient, maximum, rebuilt
from axon.shapes.relation import Relation
from axon.shapes.width import MOST, WIDE, exact, held, majorant


def limits(block: Block, inputs: Iterable[Value], known: frozenset[Symbol], idle: Iterable[Symbol]) -> tuple[ContractFact, ...]:
    """Facts about `known` dimensions, which a call determines, without which arithmetic on sizes in a block could overflow.

    The `idle` ones are 0.
    """
    walk = _Walk({value.symbol: value.shape for value in inputs}, known)
    walk.above |= dict.fromkeys(idle, Dim.of(0))
    walk.block(block)
    return tuple(ContractFact(relation, why, span) for relation, (why, span) in walk.found.items())


class _Walk:
    def __init__(self, shapes: dict[Symbol, tuple[Dim, ...]], known: frozenset[Symbol]) -> None:
        self.shapes = shapes
        self.known = known
        self.above: dict[Symbol, Dim] = {}  # of an index, or a size that only the data decide: what it does not exceed
        self.found: dict[Relation, tuple[str, Span | None]] = {}
        self._extents: set[Dim] = set()  # that have been seen to
        self._compared: set[Dim] = set()  # likewise, in 64 bits

    def block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case Compute() | Scan():
                    self._axes(all_axes(op), op.span)
                    if is_curved(op):
                        self._scalars(scalars(op), op.span)
                case Loop(trip=trip, counter=counter):
                    if isinstance(trip, Index):
                        self._axes((Axis(counter, trip.dim),), op.span)
                    self.shapes |= {state.symbol: state.shape for state in op.states}
                    self.block(op.body)
                case Compress(size=size, mask=mask):
                    self.above[size] = self.shapes[mask][0]
                case Check() | Sort():
                    pass
            for out in outs_of(op):
                self.shapes[out.symbol] = out.shape

    def _axes(self, axes: Iterable[Axis], span: Span | None) -> None:
        for axis in axes:
            self._extent(axis.extent, span)
            self.above[axis.symbol] = axis.extent

    def _extent(self, extent: Dim, span: Span | None) -> None:
        if extent in self._extents:
            return
        self._extents.add(extent)
        if exact(extent, 32):
            return
        self._parts(extent, span)
        self._limit(
            _total(extent) if extent.variables <= self.known else self._bounded(extent), MOST, "sizes end at 2,147,483,647", span
        )

    def _scalars(self, scalars: Iterable[Scalar], span: Span | None) -> None:
        for scalar in scalars:
            for node in nodes(scalar):
                if isinstance(node, Read):
                    compared = node.padding is not None or node.checked is not None
                    for subscript in node.subscripts:
                        if isinstance(subscript, Dim):
                            if compared:
                                self._wide(subscript, span)
                            if subscript.compound:
                                self._parts(subscript, span)
                elif isinstance(node, Index):
                    if node.element is Element.I64:
                        self._wide(node.dim, span)
                    self._parts(node.dim, span)

    def _parts(self, dim: Dim, span: Span | None) -> None:
        if not dim.compound:
            return
        for part in held(dim):
            self._wide(part, span)

    def _wide(self, dim: Dim, span: Span | None) -> None:
        if dim not in self._compared and not exact(dim, 64):
            self._limit(self._bounded(dim), WIDE, "sizes are computed in 64 bits", span)
        self._compared.add(dim)

    def _limit(self, dim: Dim, most: int, why: str, span: Span | None) -> None:
        if dim.variables and dim.variables <= self.known:
            self.found.setdefault(Relation(dim, "<=", Dim.of(most)), (why, span))

    def _bounded(self, dim: Dim) -> Dim:
        """A Dim over what the call determines that is at least as large, with indices at the ends of their ranges."""
        dim = majorant(dim)
        while inner := dim.variables - self.known:
            dim = dim.substitute({symbol: self._end(symbol) for symbol in inner})
        return dim

    def _end(self, symbol: Symbol) -> Dim:
        """What an index does not exceed: the end of its range as it is, if the call determines that, for nothing grows faster."""
        end = self.above.get(symbol, Dim.of(MOST))
        return _total(end) if end.variables <= self.known else majorant(end)


def _total(dim: Dim) -> Dim:
    """The Dim with a value for all sizes: where a divisor is 0, nothing of this size is evaluated."""
    if all(isinstance(atom, Symbol) for atom in dim.atoms):
        return dim

    def image(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return Dim.of(atom)
        if isinstance(atom, Quotient) and atom.divisor.constant is None:
            return _total(atom.dividend) // maximum(_total(atom.divisor), Dim.of(1))
        return rebuilt(atom, _total)

    return dim.rewrite(image)
