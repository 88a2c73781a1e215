"""The few machine codes of a nest among which every size finds one; the rule is that of Note [Variants] in `runtime.variants`."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from collections.abc import Mapping as MappingOf
from functools import partial

from axon.backend.gpu.build.cubin import BuildError
from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.emit.source import Parameter, StrideParameter
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.runtime.variants import ANY, ASKED, LIMIT, NestKey, Variant, VariantChoices, worded
from axon.backend.gpu.simt.access import unit_of
from axon.backend.gpu.simt.emit import emit
from axon.backend.gpu.simt.general import general
from axon.backend.gpu.simt.mapping import Mapping, choose, in_rows, over_fewer_axes, plainest, roomier
from axon.backend.plan.collapse import Dimensions
from axon.backend.plan.ir import Nest, reads_of
from axon.base.data import dataclass, field, replace
from axon.base.names import Symbol
from axon.core.ir import Value


@dataclass(frozen=True, slots=True)
class PreparedNest:
    """A nest as its tensors lie, over as few axes as that allows: along which dimension of each elements lie side by side, which
    of its own dimensions each of those is that has several, and the mapping that suits the sizes."""

    kernel: Nest
    units: tuple[tuple[Symbol, int], ...]
    dimensions: tuple[tuple[Symbol, Dimensions], ...]
    wanted: Mapping
    general: Callable[[], Mapping] = field(compare=False)  # for any size
    values: MappingOf[Symbol, Value] = field(compare=False)
    target: Target = field(compare=False)

    @property
    def key(self) -> NestKey:
        """What its variants are variants of."""
        return NestKey(self.units, self.dimensions, len(self.kernel.rows))


def prepare(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> PreparedNest:
    made, tensors = over_fewer_axes(nest, values, tensors)
    nest = in_rows(made.nest, made.values, tensors, sizes, target)
    used = used_by(nest, made.values)
    units = tuple((v.symbol, unit_of(tensors[v.symbol])) for v in used)
    dimensions = tuple((v.symbol, made.dimensions[v.symbol]) for v in used if v.symbol in made.dimensions)
    wanted = choose(nest, made.values, tensors, sizes, target)
    any_size = partial(general, nest, made.values, dict(units), sizes, target)
    return PreparedNest(nest, units, dimensions, wanted, any_size, made.values, target)


def used_by(nest: Nest, values: MappingOf[Symbol, Value]) -> tuple[Value, ...]:
    """Every tensor that a nest may touch in memory: what it reads, stores, and keeps between its steps."""
    made = [out for step in nest.steps for out in step.outs]
    return (*(values[s] for s in sorted(reads_of(nest), key=lambda s: s.id)), *made)


class NestChoices(VariantChoices):
    """The variants of one nest, as its tensors lie."""

    def pick(self, ready: PreparedNest, sizes: MappingOf[Symbol, int], *, exact: bool = False) -> Variant:
        """The variant for a nest at these sizes; added, if it is new."""
        last, refused = plainest(ready.kernel), {variant.mapping for variant in self.refused}
        if last in refused:
            raise BuildError("a plain kernel does not fit the registers")
        wanted = fitting(ready.wanted, last, refused)
        found = next((v for v in self.variants if v.mapping == wanted), None)
        if found is not None:
            return found
        if exact:
            return self.add(Variant(wanted, ASKED, worded(sizes)))
        free = [v for v in self.variants if v.why != ASKED]
        if len(free) < LIMIT - 1:
            why = "sizes that the others do not serve" if self.variants else "the first sizes"
            return self.add(Variant(wanted, why, worded(sizes)))
        found = next((v for v in self.variants if v.why == ANY), None)
        if found is not None:
            return found
        serving = fitting(ready.general(), last, refused)
        return next((v for v in self.variants if v.mapping == serving), None) or self.add(Variant(serving, ANY))


def fitting(mapping: Mapping, last: Mapping, refused: Set[Mapping]) -> Mapping:
    """A mapping that the compiler has not refused: the one that is wanted, or like it, or the last."""
    while mapping in refused:
        mapping = roomier(mapping) or last
    return mapping


def forms(ready: PreparedNest, variant: Variant, comments: Sequence[str] = ()) -> Plain:
    """The kernel of a variant."""
    source = emit(ready.kernel, ready.values, variant.mapping, dict(ready.units), ready.target, comments)
    parameters = tuple(_own_dimension(parameter, dict(ready.dimensions)) for parameter in source.parameters)
    # The last resort may keep values in memory: some functions of f64 cannot do without.
    last = variant.mapping == plainest(ready.kernel)
    return Plain(replace(source, parameters=parameters), spills=last)


def _own_dimension(parameter: Parameter, dimensions: MappingOf[Symbol, Dimensions]) -> Parameter:
    """A stride as one of the tensor's own: the one of several dimensions that go on into each other is that of the last."""
    if not isinstance(parameter, StrideParameter) or parameter.tensor not in dimensions:
        return parameter
    return replace(parameter, dimension=dimensions[parameter.tensor][parameter.dimension][-1])
