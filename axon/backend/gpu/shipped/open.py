"""A program's launches for all sizes as data: what a library makes at sizes for which it has no kernels of their own.

Its kernels are plain, mapped as `general` maps them, so that one machine code serves every size; how many blocks there are,
strides, extents and where tensors lie between kernels are expressions of the sizes, which whoever launches them evaluates. None of
them takes the tensor cores: how those are used best hangs on sizes, and `shipped` has it for sizes that are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import TypeAlias

from axon.backend.gpu.build.cubin import LinkedKernel, build_all
from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.emit.source import Parameter, StatusParameter, StrideParameter
from axon.backend.gpu.layout.memory import contiguous
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.plain_variants import PreparedNest, fitting, forms, used_by
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.gpu.runtime.variants import ANY, Variant
from axon.backend.gpu.runtime.ways import AS_IT_IS, Planned, Way, plan
from axon.backend.gpu.shipped.sized import Address, ShippedCode, accepted, straight_of
from axon.backend.gpu.simt.access import unit_of
from axon.backend.gpu.simt.general import general, launched
from axon.backend.gpu.simt.mapping import Mapping as NestMapping
from axon.backend.gpu.simt.mapping import in_rows, over_fewer_axes, plainest
from axon.backend.gpu.tile.stream import Stream
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.plan.ir import Nest
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Program, Value
from axon.core.scalar_facts import at_least_0
from axon.core.walk import results_of
from axon.shapes.dimension import Dim, maximum

EASY = 1024  # what stands for a size where a mapping asks for one


@dataclass(frozen=True, slots=True)
class Between:
    """The address of a tensor between kernels."""

    number: int


OpenArgument: TypeAlias = "Dim | Address | Between"


@dataclass(frozen=True, slots=True)
class OpenLaunch:
    """Nothing is launched where `blocks` is 0."""

    code: ShippedCode
    blocks: Dim
    threads: int
    arguments: tuple[OpenArgument, ...]


@dataclass(frozen=True, slots=True)
class OpenProgram:
    """All launches at any sizes, in order. The addresses of a call are those of `ShippedProgram`; the tensors `between` the kernels
    lie in the room one after the other. `scalars` has which of them are inputs of rank 0, which are written beforehand."""

    launches: tuple[OpenLaunch, ...]
    between: tuple[Value, ...]
    scalars: Mapping[Symbol, int]
    fails: bool

    @property
    def rooms(self) -> tuple[Dim, ...]:
        """The bytes of each that is `between`, up to where the next one begins."""
        return tuple(map(_padded, self.between))


def shipped_open(program: Program, target: Target) -> OpenProgram:
    """Raises `Unsupported` for a program that is not launched from beginning to end without the host."""
    accepted(program)
    planned = _plain(straight_of(Stepped(program, target)).program, target)
    easy = dict.fromkeys([*program.contract.determination.order, *program.contract.idle], EASY)
    kernels = list(_built(planned, easy, target))
    inputs, results = program.inputs, results_of(program)
    addresses = {value.symbol: n for n, value in enumerate((*(v for v in inputs if v.shape), *results))}
    taken = [p for _, _, made, _ in kernels for p in made.source.parameters]
    used = {p.tensor for p in taken if isinstance(p, PointerParameter)}
    between = [v for v in planned.values if v.symbol in used and v.symbol not in addresses]
    scalars = {v.symbol for v in inputs if not v.shape}
    pieces = {value.symbol: n for n, value in enumerate(between)}
    writer = _Writer(planned.known, addresses, pieces)
    launches = tuple(writer.launch(nest, mapping, made, code) for nest, mapping, made, code in kernels)
    fails = any(isinstance(p, StatusParameter) for p in taken)
    return OpenProgram(launches, tuple(between), {s: pieces[s] for s in scalars if s in pieces}, fails)


def _plain(program: Program, target: Target) -> Planned:
    """The program in the way in which none of its kernels is for the tensor cores."""
    way = AS_IT_IS
    while True:
        planned = plan(program, target, way)
        tiled = [kernel for kernel in planned.kernels if not isinstance(kernel, Nest)]
        if not tiled:
            return planned
        for kernel in tiled:
            stored = frozenset(result.value.symbol for result in kernel.results)
            way |= Way(apart=stored) if isinstance(kernel, Stream) else Way(plain=stored)


def _built(
    planned: Planned, sizes: Mapping[Symbol, int], target: Target
) -> Iterator[tuple[Nest, NestMapping, Plain, LinkedKernel]]:
    """The kernels, each with a mapping for all sizes that fits the registers."""
    ready = [_prepared(kernel, planned.known, sizes, target) for kernel in planned.kernels if isinstance(kernel, Nest)]
    refused: list[Set[NestMapping]] = [frozenset() for _ in ready]
    made: dict[int, tuple[Nest, NestMapping, Plain, LinkedKernel]] = {}
    while todo := [n for n in range(len(ready)) if n not in made]:
        mappings = {n: fitting(ready[n].wanted, plainest(ready[n].kernel), refused[n]) for n in todo}
        written = {n: forms(ready[n], Variant(mappings[n], ANY)) for n in todo}
        for n, answer in zip(todo, build_all([written[n] for n in todo], target), strict=True):
            if isinstance(answer, LinkedKernel):
                made[n] = ready[n].kernel, mappings[n], written[n], answer
            elif mappings[n] == plainest(ready[n].kernel):
                raise Unsupported("a kernel for all sizes does not fit the registers")
            else:
                refused[n] = refused[n] | {mappings[n]}
    yield from (made[n] for n in range(len(ready)))


def _prepared(nest: Nest, values: Mapping[Symbol, Value], sizes: Mapping[Symbol, int], target: Target) -> PreparedNest:
    """A nest of tensors in rows, over as few axes as that allows at any size."""
    lying = {v.symbol: contiguous(ALIGNMENT, (EASY,) * len(v.shape), v.element) for v in values.values()}
    made, tensors = over_fewer_axes(nest, values, lying)
    own = in_rows(made.nest, made.values, tensors, sizes, target)
    used = used_by(own, made.values)
    units = tuple((v.symbol, unit_of(tensors[v.symbol])) for v in used)
    dimensions = tuple((v.symbol, made.dimensions[v.symbol]) for v in used if v.symbol in made.dimensions)
    wanted = general(own, made.values, dict(units), sizes, target)
    return PreparedNest(own, units, dimensions, wanted, lambda: wanted, made.values, target)


def _padded(value: Value) -> Dim:
    total = Dim.of(max(1, value.element.bits // 8))
    for extent in value.shape:
        total *= at_least_0(extent)
    return (total + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True, slots=True)
class _Writer:
    """What the parameters of kernels are at any sizes, of tensors in rows."""

    values: Mapping[Symbol, Value]
    addresses: Mapping[Symbol, int]
    pieces: Mapping[Symbol, int]

    def launch(self, nest: Nest, mapping: NestMapping, made: Plain, code: LinkedKernel) -> OpenLaunch:
        blocks, threads = launched(nest, mapping)
        source = made.source
        shipped = ShippedCode(code.cubin, code.entry, source.shared, source.cluster, False)
        return OpenLaunch(shipped, blocks, threads, tuple(self.argument(p) for p in source.parameters))

    def argument(self, parameter: Parameter) -> OpenArgument:
        match parameter:
            case PointerParameter(tensor=symbol) if symbol in self.pieces:
                return Between(self.pieces[symbol])
            case PointerParameter(tensor=symbol):
                return Address(self.addresses[symbol], 0)
            case StrideParameter(tensor=symbol, dimension=dimension):
                stride = Dim.of(1)
                for extent in self.values[symbol].shape[dimension + 1 :]:
                    stride *= maximum(extent, 1)
                return stride
            case ExtentParameter(size=size):
                return size
            case StatusParameter():
                return Address(len(self.addresses) + 1, 0)
            case _:
                raise AssertionError(f"no plain kernel takes {parameter}")
