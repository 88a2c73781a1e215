"""The recipe: a kernel and its mapping through every phase down to source, each form verified where it is made.

The barrier program is proved by who runs it: `build` proves it while its source is compiled, `simulated` before it is played.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Protocol, assert_never

from axon.backend.gpu.emit import kernel as emission
from axon.backend.gpu.emit.source import Emitted
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.roles import ir as roles
from axon.backend.gpu.roles import lower as lower_roles
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.roles.ir import RoleProgram
from axon.backend.gpu.tile import ir as tile
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.epilogue import EpilogueOperand
from axon.backend.gpu.tile.epilogue_cost import epilogue_of
from axon.backend.gpu.tile.families import Tiled
from axon.backend.gpu.tile.ir import TileProgram
from axon.backend.gpu.tile.schedule import TileMapping, Traits, check, panel
from axon.backend.gpu.tile.stream import Stream
from axon.backend.kernel.places import placed
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Scalar, Value
from axon.core.walk import reads


class Forms(Protocol):
    """What is built of a kernel: its source, its barrier program if it has one, and whether it may spill."""

    @property
    def spills(self) -> bool: ...
    @property
    def barriers(self) -> BarrierProgram | None: ...
    @property
    def source(self) -> Emitted: ...


@dataclass(frozen=True, slots=True)
class Plain:
    """A kernel of which there is nothing but source: its threads wait for nothing that could be proved."""

    source: Emitted
    spills: bool = False
    barriers: None = None


@dataclass(frozen=True, slots=True)
class Stages:
    """One kernel in every form."""

    tile: TileProgram
    roles: RoleProgram
    barriers: BarrierProgram
    source: Emitted

    @property
    def spills(self) -> bool:
        """Never: it would lose what it is for."""
        return False


def stages(
    kernel: Tiled,
    mapping: TileMapping,
    target: Target,
    values: tuple[Value, ...],
    granted: Granted,
) -> Stages:
    """Take a kernel down to source. `values` describes every tensor it may mention, `granted` how they lie.

    Raises `Unsupported` for a mapping that the target cannot hold and for what has no device form.
    """
    facts = traits(kernel)
    wrong = check(mapping, target, facts)
    if wrong:
        raise Unsupported("the mapping does not fit: " + "; ".join(wrong), kernel.span)
    tiled = tile.tile(kernel, mapping, tensors(kernel, values))
    split = roles.roles(tiled, mapping)
    # A bulk copy stores whole panels; a tile that is narrower stores element by element.
    wide = frozenset(r.place.symbol for r in kernel.results if mapping.columns % panel(r.value.element, target) == 0)
    program = lower_roles.lower(split, target, replace(granted, boxed=granted.boxed & wide, dense=granted.dense & wide))
    return Stages(tiled, split, program, emission.emit(program, granted.paired, places(kernel), granted.runs))


def places(kernel: Tiled) -> list[str]:
    """Where what a kernel computes is written: its product, and the results that it makes of that."""
    names = kernel.products if isinstance(kernel, MatrixProduct) else (kernel.product,)
    product = placed(tuple(name.name for name in names), kernel.span)
    made = (placed((r.value.symbol.name,), r.span) for r in kernel.results if r.span is not None and r.span != kernel.span)
    return [product, *made]


def traits(kernel: Tiled) -> Traits:
    """What of a kernel decides which mappings are legal."""
    stored = tuple(r.value.element for r in kernel.results)
    match kernel:
        case MatrixProduct():
            across = (kernel.left.axes[-1] != kernel.depth.symbol, kernel.right.axes[-1] != kernel.depth.symbol)
            if kernel.computed is not None:
                bits = ((o.value.element.bits, s.per) for o, s in zip(kernel.lefts, kernel.computed.staged, strict=True))
                return Traits(kernel.right.value.element, stored, *across, computed=tuple(bits))
            limbs = (len(kernel.lefts), len(kernel.rights))
            step = 0 if kernel.ragged is None else kernel.ragged.step
            if kernel.siblings:
                own = {sibling.factor.axes[-1] for sibling in kernel.siblings} - {kernel.depth.symbol}
                left, right = across
                across = (left, right or bool(own)) if kernel.shared == "left" else (left or bool(own), right)
            return Traits(
                kernel.left.value.element, stored, *across, limbs=limbs, factors=kernel.factors, ragged=step,
                segments=kernel.segments is not None, epilogue=bool(epilogue_of(kernel)), promotion=kernel.promotion,
                unit=gcd(*(scale.per for scale in kernel.scales)), by_column=kernel.by_column,
            )  # fmt: skip
        case Stream():
            depths = [axis.symbol for axis in kernel.depths]
            across = (_across(kernel.queries, depths), _across(kernel.key_operands, depths))
            value_across = kernel.value.axes[-1] != kernel.keys.symbol
            return Traits(
                kernel.query.value.element, stored, *across, stream=True, value_across=value_across,
                scores=len(depths), by_key=len(kernel.by_key), limbs=(len(kernel.limbs[0]), len(kernel.limbs[1])),
                pages=bool(kernel.pages), value=_other(kernel.value.value.element, kernel.query.value.element),
                promotion=kernel.promotion,
            )  # fmt: skip
        case _:
            assert_never(kernel)


def _other(element: Element, than: Element) -> Element | None:
    return None if element.bits == than.bits else element


def _across(operands: tuple[EpilogueOperand, ...], depths: list[Symbol]) -> bool:
    """Whether one of them is stored across what is summed."""
    return any(operand.axes[-1] != depth for operand, depth in zip(operands, depths, strict=True))


def tensors(kernel: Tiled, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """What a kernel reads and stores, views in place of what they show, in that order, each once."""
    known = {v.symbol: v for v in values} | {view.value.symbol: view.value for view in kernel.views}
    used = [operand.value for operand in kernel.operands]
    used += [known[r.tensor] for scalar in expressions(kernel) for r in reads(scalar)]
    used += [r.place for r in kernel.results]
    used += [r.value for r in kernel.row_results] if isinstance(kernel, Stream) else []
    used += [reach.table for reach in kernel.reaches] if isinstance(kernel, Stream) else []
    used += kernel.grouping.tables if isinstance(kernel, MatrixProduct) and kernel.grouping is not None else []
    return tuple(dict.fromkeys(used))


def expressions(kernel: Tiled) -> Iterator[Scalar]:
    """Every expression that a kernel computes beside its products."""
    yield from (result.expression for result in kernel.results)
    match kernel:
        case MatrixProduct():
            yield from () if kernel.computed is None else (kernel.computed.expression,)
            yield from (scale.read for scale in kernel.scales)
        case Stream():
            yield from kernel.expressions
            yield from kernel.of_pages
        case _:
            assert_never(kernel)
