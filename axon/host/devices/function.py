"""Functions over a mesh: what `axon.shard` gives.

A call finds the whole sizes from the blocks that it is given, checks the contract with them, and has the pass (`core.sharding`) say
what each process runs. Before a call of a new form runs, all processes agree on what it is (see `Watch.agree`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from axon.backend import libraries
from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError, ShapeError
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Param, Program
from axon.core.sharding.ir import Layout, Sharded
from axon.host import values
from axon.host.autograd import recorded
from axon.host.call import Callee, Session, arguments, check_sizes, check_target, named, opened, wrong
from axon.host.devices.agreement import REFUSED, disagreement, facts, numbers
from axon.host.devices.forms import Forms
from axon.host.devices.grid import Grid, grid_of
from axon.host.devices.places import Gpu, Place, Processor
from axon.host.devices.run import LastUses, Running, foreseen
from axon.host.devices.watch import Watch
from axon.host.recorded import Form, Made

if TYPE_CHECKING:
    from axon.host.module import Function

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Options:
    """Of a function over a mesh: which sizes are split over which axes, and how it runs."""

    split: Mapping[str, str]
    timeout: float  # seconds
    deterministic: bool
    wide: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """How calls of one form run: what all processes agree on, and the sizes in this one; for which targets programs are `ready`."""

    sharded: Sharded
    sizes: dict[Symbol, int]
    facts: dict[str, str]
    last_uses: LastUses
    ready: set[str | None]

    @property
    def said(self) -> str:
        return f"`{self.facts['function']}` at {self.facts['sizes'] or 'no sizes'} (source {self.facts['source']})"


class ShardedFunction:
    """A function over a mesh, called in every process of it with DTensors, or with this process's blocks.

    Where an argument is a DTensor, results are; without one they are this process's blocks, of PyTorch where an argument is.
    """

    def __init__(self, function: Function, grid: Grid, options: Options) -> None:
        self._function, self._grid, self._options = function, grid, options
        self._session, self._callee = function._session, function._callee
        self._explicit = check_sizes(self._callee, function._sizes) if function._sizes or not self._callee.dimensions else []
        self._forms = Forms(grid.mesh, options.split, options.wide)
        self._plans: IdentityMap[Program, dict[Shapes, Plan]] = IdentityMap()
        self._places: dict[str | None, Place] = {}
        self._made: IdentityMap[Form, Made] = IdentityMap()  # what PyTorch's derivatives call

    # ── what it is ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def __name__(self) -> str:
        return self._callee.name

    @property
    def signature(self) -> str:
        """What `axon sig` prints of the function: its sizes are the whole ones."""
        return self._callee.signature

    def __repr__(self) -> str:
        split = ", ".join(f"{size} over {axis}" for size, axis in self._options.split.items())
        return f"<{self._function!r} on {self._grid.mesh}: {split}>"

    def __getitem__(self, sizes: Any) -> ShardedFunction:
        """The function with its dimension parameters given."""
        return self._of(self._function[sizes])

    def grad(self, wrt: str | Sequence[str] | None = None) -> ShardedFunction:
        """As `Function.grad`; a derivative lies on the mesh as what it is the derivative by."""
        return self._of(self._function.grad(wrt))

    def value_and_grad(self, wrt: str | Sequence[str] | None = None) -> ShardedFunction:
        """As `Function.value_and_grad`."""
        return self._of(self._function.value_and_grad(wrt))

    def _of(self, function: Function) -> ShardedFunction:
        return ShardedFunction(function, self._grid, self._options)

    # ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def distributed(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The arguments of a call as DTensors, of arguments that every process has whole; numbers stay as they are."""
        given = [mapped(opened(x), as_torch) for x in arguments(self._callee, args, kwargs)]
        matched, program = self._session.specialize(self._callee, list(map(values.stand_in, given)), given)
        arrays = values.flatten(program.params, matched)
        shapes = [arrays[n][1].shape for n in range(len(arrays))]
        self._forms.check(program, self._session.bind(self._callee, program, self._explicit, shapes))

        def laid(leaf: Any, layout: Layout) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            block = self._grid.block(leaf.to(self._grid.device), layout).contiguous()
            return self._grid.spread(block.clone() if block.data_ptr() == leaf.data_ptr() else block, layout, tuple(leaf.shape))

        return self._each_leaf(program, given, laid)

    def placements(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """How DTensors lie that a call of such arguments takes: placements in the structure of each argument."""
        given = [mapped(opened(x), own_block) for x in arguments(self._callee, args, kwargs)]
        _, program = self._session.specialize(self._callee, list(map(values.stand_in, given)), given)
        return self._each_leaf(program, given, lambda _, layout: self._grid.placements(layout))

    def _each_leaf(self, program: Program, given: Sequence[Any], made: Callable[[Any, Layout], Any]) -> tuple[Any, ...]:
        """The arguments with something made of each of their leaves, and of how it lies on the mesh."""
        flat, laid = values.flatten(program.params, given), self._forms.layouts(program)
        found = [made(flat[n][1], laid[n]) for n in range(len(flat))]
        return tuple(values.assemble(param.structure, found) for param in program.params)

    def _blocks(self, given: list[Any]) -> list[Any]:
        """The arguments with this process's blocks for DTensors. Raises AxonError for one that lies otherwise."""
        if not any(map(holds_spread, given)):
            return given
        own = [mapped(x, own_block) for x in given]
        _, program = self._session.specialize(self._callee, list(map(values.stand_in, own)), own)
        flat, laid = values.flatten(program.params, given), self._forms.layouts(program)
        leaves = [flat[n][1] for n in range(len(flat))]
        if not all(self._grid.divides(x.shape, one) for x, one in zip(leaves, laid, strict=True) if isinstance(x, DTensor)):
            whole = [
                tuple(x.shape) if isinstance(x, DTensor) else self._grid.whole(np.shape(values.stand_in(x)), one)
                for x, one in zip(leaves, laid, strict=True)
            ]
            self._forms.check(program, self._session.bind(self._callee, program, self._explicit, whole))
        paths = iter([flat[n][0] for n in range(len(flat))])
        return list(self._each_leaf(program, given, lambda leaf, layout: self._block(next(paths), leaf, layout)))

    def _block(self, path: str, leaf: Any, layout: Layout) -> Any:
        if not isinstance(leaf, DTensor):
            return leaf
        wanted, found = self._grid.placements(layout), tuple(leaf.placements)
        if leaf.device_mesh != self._grid.device_mesh:
            raise wrong(self._callee, "AX0505", f"`{path}` is a DTensor on another mesh than that of `{self._callee.name}`")
        if any(had != has and not had.is_replicate() for had, has in zip(found, wanted, strict=True)):
            text = f"`{path}` is a DTensor placed {list(found)}, and `{self._callee.name}` takes {list(wanted)}"
            help = Suggestion(f"pass {path}.redistribute(placements=…) with those of `placements`; it communicates")
            raise wrong(self._callee, "AX0505", text, help=(help,))
        if found != wanted:  # each process takes a part of what it has
            leaf = leaf.redistribute(placements=wanted)
        return settled(leaf.to_local())

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, /, *args: Any, target: str | None = None, **kwargs: Any) -> Any:
        """The results, in every process. `target` says where blocks are computed, as of a call of the function itself."""
        watch = self._grid.watch(self._options.timeout)
        try:
            check_target(self._callee, target)
            self._explicit = check_sizes(self._callee, self._function._sizes)
            given = [opened(x) for x in arguments(self._callee, args, kwargs)]
            blocks = self._blocks(given)
        except Exception as error:
            self._refused(watch, error)
            raise
        ran: list[tuple[Sharded, Mapping[Symbol, int]]] = []  # what, at which sizes
        if libraries.differentiated(blocks):
            result = self._recorded(blocks, target, ran)
        else:
            result = self._run(blocks, target, ran)
        return self._spread(result, *ran[0]) if any(map(holds_spread, given)) else result

    def _recorded(self, blocks: list[Any], target: str | None, ran: list[Any]) -> Any:
        """The result of a call through which PyTorch passes derivatives: those of blocks, by sharded functions as well."""

        def run(args: tuple[Any, ...], target: str | None) -> Any:
            return self._run(list(args), target, ran)

        def make(session: Session, callee: Callee) -> Any:
            return self._of(self._function._beside(session, callee))

        return recorded(self._session, self._callee, self._explicit, blocks, run, make, target, self._made)

    def _run(self, blocks: list[Any], target: str | None, ran: list[Any]) -> Any:
        watch = self._grid.watch(self._options.timeout)
        try:
            place = self._place(target)
            program, inputs = place.taken(self._session, self._callee, blocks)
            plan = self._plan(program, [tuple(x.shape) for x in inputs])
            alike = plan.facts | numbers(program, blocks)
        except Exception as error:
            self._refused(watch, error)
            raise
        watch.begin(plan.said)
        watch.ask(alike)
        place.begin(watch)
        lines = self._grid.lines(self._options.deterministic)
        running = Running(lines, place, watch, self._settle, dict(plan.sizes), {}, plan.last_uses)
        try:
            if target not in plan.ready:
                self._settle()  # a process that makes another call is told before kernels are built
                place.foresee(list(foreseen(plan.sharded.steps, plan.sizes)))
                plan.ready.add(target)
            results = running.call(plan.sharded, inputs)
            self._settle()
        except BaseException as error:
            if not watch.heard(error):
                watch.failed(error)
            if isinstance(error, AxonError):
                raise named(self._callee, error) from None
            raise
        finally:
            place.finish()
            watch.finish()
        ran.append((plan.sharded, running.sizes))
        return values.assemble(program.result, place.given_back(results, inputs, blocks))

    def _plan(self, program: Program, blocks: Sequence[tuple[int, ...]]) -> Plan:
        """How this process runs a call with blocks of these shapes."""
        laid, plans = self._forms.layouts(program), self._plans.setdefault(program, {})
        shapes = tuple(self._grid.whole(shape, layout) for shape, layout in zip(blocks, laid, strict=True))
        if shapes not in plans:
            try:
                sizes = self._session.bind(self._callee, program, self._explicit, shapes)
            except ShapeError as error:
                paths = [shape.path for shape in program.contract.shapes]
                raise self._of_wholes(error, paths, blocks, shapes) from None
            sharded = self._forms.sharded(program, sizes)
            order = "of the ranks" if self._options.deterministic else "of the backend"
            said = facts(self._session, self._callee, self._explicit, sharded, sizes, order)
            plans[shapes] = Plan(sharded, sharded.environment(sizes, self._grid.place), said, IdentityMap(), set())
        return plans[shapes]

    def _of_wholes(self, error: ShapeError, paths: Sequence[str], blocks: Sequence[Any], shapes: Shapes) -> ShapeError:
        """An error of sizes that says of the blocks that it names which wholes these are blocks of."""

        def told(d: Diagnostic) -> Diagnostic:
            found = [
                f"{list(block)} of the {list(whole)} of `{path}`"
                for path, block, whole in zip(paths, blocks, shapes, strict=True)
                if tuple(block) != whole and f"`{path}`" in " ".join((d.message, *d.notes))
            ]
            mine = f"these are whole sizes: over {self._grid.mesh} this process has {' and '.join(found)}"
            return replace(d, notes=(*d.notes, mine)) if found else d

        return ShapeError(tuple(map(told, error.diagnostics)))

    def _settle(self) -> None:
        """See that all processes make the same call, before anything is exchanged."""
        watch = self._grid.watch(self._options.timeout)
        if (others := watch.settle()) is not None:
            raise disagreement(self._callee, watch.ranks, watch.names, others)

    def _refused(self, watch: Watch, error: Exception) -> None:
        """This process cannot make a call. If none can, it raises its own error; otherwise all raise that this one cannot."""
        if watch.heard(error):
            return
        found = error.diagnostics[0] if isinstance(error, AxonError) else None
        text = f"{found.code}: {found.message}" if found else f"{type(error).__name__}: {error}"
        watch.begin(f"`{self._callee.name}`, which it cannot make: {text}")
        watch.ask({REFUSED: text})
        try:
            self._settle()
        finally:
            watch.finish()

    def _place(self, target: str | None) -> Place:
        kind = self._grid.device.type
        if target not in self._places:
            if target in ("cuda", "cpu") and target != kind:
                raise wrong(self._callee, "AX0505", f"the mesh is of devices `{kind}`, and the target is `{target}`")
            gpu = kind == "cuda" and target in (None, "cuda")
            chip, device = self._session.chip, self._grid.device
            if gpu:
                room = self._grid.leaves_room
                self._places[target] = Gpu(device, chip, on_stream=self._grid.on_stream, room=room)
            else:
                self._places[target] = Processor(target, chip)
        return self._places[target]

    def _spread(self, result: Any, sharded: Sharded, sizes: Mapping[Symbol, int]) -> Any:
        """This process's blocks of results as DTensors."""
        structure = sharded.source.result
        flat = values.flatten((Param("", structure),), (result,))
        spread: list[Any] = [None] * len(sharded.results)
        for n, (_, leaf) in flat.items():
            placed = sharded.results[n]
            shape = tuple(extent.evaluate(sizes) for extent in placed.whole.shape)
            spread[n] = self._grid.spread(as_torch(leaf), placed.layout, shape)
        return values.assemble(structure, spread)


def sharded(
    function: Function, mesh: Any, split: Mapping[str, str], timeout: float, deterministic: bool, wide: bool
) -> ShardedFunction:
    """Raises TypeError and ValueError for what is no mesh, and no time."""
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"axon.shard takes a DeviceMesh, or the sizes of axes by name, not {type(mesh).__name__}")
    if not timeout > 0:
        raise ValueError(f"a timeout is a number of seconds above 0, not {timeout!r}")
    return ShardedFunction(function, grid_of(mesh), Options(dict(split), float(timeout), deterministic, wide))


# ── leaves ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def mapped(value: Any, made: Callable[[Any], Any]) -> Any:
    """An argument with something made of each of its leaves."""
    if isinstance(value, tuple):
        return tuple(mapped(item, made) for item in value)
    if isinstance(value, Mapping):
        return {name: mapped(item, made) for name, item in value.items()}
    return made(value)


def leaves_of(value: Any) -> Iterable[Any]:
    found: list[Any] = []
    mapped(value, found.append)
    return found


def holds_spread(value: Any) -> bool:
    """Whether a DTensor stands in an argument."""
    return any(isinstance(leaf, DTensor) for leaf in leaves_of(value))


def own_block(leaf: Any) -> Any:
    """What stands in this process for a DTensor, whatever part of it that is."""
    return settled(leaf.to_local().detach()) if isinstance(leaf, DTensor) else leaf


def settled(x: torch.Tensor) -> torch.Tensor:
    """A tensor that is there, of one that a collective of PyTorch's may still make."""
    return x.wait() if isinstance(x, AsyncCollectiveTensor) else x


def as_torch(leaf: Any) -> Any:
    """PyTorch's tensor of an array; numbers stay."""
    library: Any = libraries.of(torch.empty(0))
    return library.from_host(leaf.copy()) if isinstance(leaf, np.ndarray | np.generic) else leaf
