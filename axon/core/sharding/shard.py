"""The pass: a program of core, a mesh, and which sizes are split over which of its axes -> a sharded program.

whole sizes -> local ones    `b` over two devices is `2 * b`                 here
rows and columns             in loops over blocks, if those are cheaper      blocked, scaling, ring, halves
reads                        which blocks a block of a result needs          access
strategies                   the ways to share an operation                  strategies
moves                        collectives between layouts, and their cost     layouts
a search                     one way for each operation                      plan
steps                        programs over blocks, and collectives           local, emit
large values                 made again in a later program    rematerialize
all-gathers beside products  in pieces, where that pays                      pieces
all-reduces behind products  likewise                                        behind
programs beside those        which leave a part of the device to them        room
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.names import Symbol, fresh
from axon.base.nearest import hint
from axon.base.passes import verified
from axon.core.ir import (
    Axis,
    Block,
    Check,
    Compress,
    Compute,
    Loop,
    Op,
    Program,
    Scan,
    Sort,
    Value,
)
from axon.core.passes.histories import made_again
from axon.core.scalar_facts import mapped, substitute
from axon.core.sharding.access import Grid
from axon.core.sharding.behind import behind
from axon.core.sharding.blocked import Blocked, blocked
from axon.core.sharding.emit import Emitter, Raw, grouped
from axon.core.sharding.ir import Layout, Mesh, Placed, Sharded
from axon.core.sharding.layouts import LINKS, Rates, natural
from axon.core.sharding.pieces import in_pieces
from axon.core.sharding.plan import Available, Plan, Planner
from axon.core.sharding.rematerialize import rematerialized
from axon.core.sharding.room import leaving_room
from axon.core.sharding.verify import verify
from axon.core.walk import outs_of
from axon.shapes.algebra.facts import Facts
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

CODE = "AX0901"


@verified("shard", lambda made, *_, **__: verify(made), gives="sharded")
def shard(
    program: Program,
    mesh: Mesh,
    split: Mapping[str, str],
    dims: Mapping[Symbol, int],
    rates: Rates = LINKS["nvlink"],
    *,
    wide: bool = False,
) -> Sharded:
    """The program on a mesh, with the sizes `split` over axes of it. `dims` are whole sizes, for which costs are counted: the steps
    are right for others, too. Sums of 16-bit floats are rounded on each device before they are combined, or, `wide`, only after.
    Raises AxonError for sizes or axes that there are not, and where sizes do not divide."""
    check_divides(program, mesh, split, dims)
    sizes, grid = _grid(program, mesh, split)
    grid = replace(grid, wide=wide)
    source, program = program, made_again(program)
    change = {whole: Dim.of(local) * mesh.size(axis) for whole, axis, local in sizes}
    inputs = tuple(_resized_value(value, change) for value in program.inputs)
    block = _resized(program.block, change)
    values = {value.symbol: value for value in inputs}
    given = tuple(natural(value.shape, grid) for value in inputs)
    guide = dict(dims) | {local: dims[whole] // mesh.size(axis) for whole, axis, local in sizes}
    guide |= {grid.coordinate(axis): 0 for axis in grid.names}
    shapes = _shapes(block, inputs)
    wanted = tuple(natural(shapes[symbol].shape, grid) for symbol in block.results)
    candidates: list[tuple[float, int, Plan, Planner, Block, dict[Symbol, Blocked]]] = []
    for one, rings in _forms(block, grid):
        planner = Planner(dict(values), grid, dict(guide), rates, rings)
        start: Available = {value.symbol: planner.number(layout) for value, layout in zip(inputs, given, strict=True)}
        plan, _ = planner.block(one, start, wanted)
        candidates.append((plan.seconds, len(candidates), plan, planner, one, rings))
    _, _, plan, planner, block, rings = min(candidates, key=lambda c: c[:2])
    emitter = Emitter(program.name, planner.values, grid, rings)
    for value, layout in zip(inputs, given, strict=True):
        emitter.place(value, layout)
    emitter.plan(plan, block, "the result")
    taken = [emitter.version(value.symbol, layout) for value, layout in zip(inputs, given, strict=True)]
    made = [emitter.version(symbol, layout) for symbol, layout in zip(block.results, wanted, strict=True)]
    needed, there = [v.symbol for v in made], {v.symbol: v for v in taken}
    raw: Sequence[Raw] = rematerialized(emitter.raw, needed, there, rates, planner.sizes)
    raw = behind(in_pieces(raw, needed, there, grid, rates, planner.sizes), needed, grid, rates, planner.sizes)
    steps = leaving_room(grouped(program.name, raw, needed, there), there, mesh, rates, planner.sizes)
    before = _shapes(program.block, program.inputs)
    return Sharded(
        source,
        mesh,
        sizes,
        tuple((axis, grid.coordinate(axis)) for axis in grid.names),
        tuple(map(Placed, program.inputs, given, taken)),
        steps,
        tuple(Placed(before[s], layout, local) for s, layout, local in zip(program.block.results, wanted, made, strict=True)),
        tuple(emitter.requires),
    )


def _forms(block: Block, grid: Grid) -> Iterator[tuple[Block, dict[Symbol, Blocked]]]:
    """A program as it is, and with loops over blocks of what has a row and a column of one axis."""
    yield block, {}
    made, rings = block, dict[Symbol, Blocked]()
    for axis in grid.names:
        made, more = blocked(made, grid, axis)
        rings |= more
    if rings:
        yield made, rings


def layouts(program: Program, mesh: Mesh, split: Mapping[str, str]) -> tuple[Layout, ...]:
    """The layouts of a program's inputs, whatever the sizes are."""
    sizes, grid = _grid(program, mesh, split)
    change = {whole: Dim.of(local) * mesh.size(axis) for whole, axis, local in sizes}
    return tuple(natural(_resized_value(value, change).shape, grid) for value in program.inputs)


def check_divides(program: Program, mesh: Mesh, split: Mapping[str, str], dims: Mapping[Symbol, int]) -> None:
    """Raises AxonError where a size that is split is no multiple of the devices of its axis."""
    for whole, axis in _split(program, mesh, split):
        p, size = mesh.size(axis), dims[whole]
        if size % p:
            below, above = size // p * p, -(-size // p) * p
            nearest = f"{below} or {above}" if below else f"{above}"
            message = f"`{whole.name}` = {size} cannot be split over the {p} devices of `{axis}`"
            raise _refused(program, mesh, message, f"the nearest that can: {nearest}")


def near(program: Program, mesh: Mesh, split: Mapping[str, str], dims: Mapping[Symbol, int]) -> dict[Symbol, int]:
    """The sizes for which a call of these is planned: of each, or of its part on a device, the power of two next to it. So calls of
    many sizes have one plan, which follows from the sizes of each. Raises AxonError where sizes do not divide."""
    check_divides(program, mesh, split, dims)
    parts = {whole: mesh.size(axis) for whole, axis in _split(program, mesh, split)}
    return {s: parts.get(s, 1) * _power(size // parts.get(s, 1)) for s, size in dims.items()}


def _power(size: int) -> int:
    """The power of two next to a size, by ratio; of 0 it is 0."""
    below = 1 << max(0, size.bit_length() - 1)
    return 0 if size <= 0 else below if size * size < 2 * below * below else 2 * below


def _split(program: Program, mesh: Mesh, split: Mapping[str, str]) -> list[tuple[Symbol, str]]:
    """The sizes that are split, and over what."""
    names: dict[str, list[Symbol]] = {}
    for symbol in sorted(_sizes(program), key=lambda s: s.id):
        names.setdefault(symbol.name, []).append(symbol)
    names.pop("", None)
    found = []
    axes = dict(mesh.axes)
    for name, axis in split.items():
        if name not in names:
            known = ", ".join(f"`{n}`" for n in sorted(names))
            said = f"its sizes are {known}" if known else "it has no sizes with names"
            raise _refused(program, mesh, f"`{program.name}` has no size `{name}`{hint(name, names)}", said)
        if axis not in axes:
            raise _refused(program, mesh, f"the mesh has no axis `{axis}`{hint(axis, axes)}", f"`{name}` was to be split over it")
        if len(names[name]) > 1:
            many = f"`{name}` names {len(names[name])} sizes of `{program.name}`"
            raise _refused(program, mesh, many, "give them different names")
        found.append((names[name][0], axis))
    return found


def _sizes(program: Program) -> set[Symbol]:
    """The variables that sizes of a call are computed for."""
    return {*program.explicit, *program.contract.determined()}


def _refused(program: Program, mesh: Mesh, message: str, *notes: str) -> AxonError:
    return AxonError((Diagnostic(CODE, message, (), (*notes, f"the mesh is {mesh}, for `{program.name}`")),))


def _grid(program: Program, mesh: Mesh, split: Mapping[str, str]) -> tuple[tuple[tuple[Symbol, str, Symbol], ...], Grid]:
    sizes = tuple((whole, axis, fresh(whole.name)) for whole, axis in _split(program, mesh, split))
    change = {whole: Dim.of(local) * mesh.size(axis) for whole, axis, local in sizes}
    facts = [fact.relation.substitute(change) for fact in program.contract.facts]
    axes = []
    for name, p in mesh.axes:
        mine = frozenset(local for _, axis, local in sizes if axis == name)
        axes.append((name, p, fresh(name), mine))
    known = Facts().assume(*facts, *(Relation(Dim.of(local), ">=", Dim.of(0)) for _, _, local in sizes))
    own = _sizes(program) - {whole for whole, _, _ in sizes} | {local for _, _, local in sizes}
    return sizes, Grid(tuple(axes), known, frozenset(own))


# ── whole sizes as local ones ───────────────────────────────────────────────────────────────────────────────────────────


def _resized_value(value: Value, change: Mapping[Symbol, Dim]) -> Value:
    return replace(value, shape=tuple(d.substitute(change) for d in value.shape))


def _resized(block: Block, change: Mapping[Symbol, Dim]) -> Block:
    return Block(tuple(_resized_op(op, change) for op in block.ops), block.results)


def _resized_op(op: Op, change: Mapping[Symbol, Dim]) -> Op:
    def values(given: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(_resized_value(value, change) for value in given)

    def axes(given: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(Axis(axis.symbol, axis.extent.substitute(change)) for axis in given)

    match op:
        case Compute() | Scan():
            made = mapped(op, lambda scalar: substitute(scalar, change))
            made = replace(made, outs=values(made.outs), axes=axes(made.axes))
            if isinstance(made, Compute) and made.reduction is not None:
                made = replace(made, reduction=replace(made.reduction, axes=axes(made.reduction.axes)))
            return made
        case Loop():
            trip = substitute(op.trip, change)
            return replace(op, outs=values(op.outs), states=values(op.states), trip=trip, body=_resized(op.body, change))
        case Sort():
            return replace(op, values=_resized_value(op.values, change), indices=_resized_value(op.indices, change))
        case Compress():
            return replace(op, out=_resized_value(op.out, change))
        case Check():
            left, right = op.left.substitute(change), op.right.substitute(change)
            return replace(op, left=left, right=right, given=tuple(r.substitute(change) for r in op.given))


def _shapes(block: Block, inputs: Sequence[Value]) -> dict[Symbol, Value]:
    found = {value.symbol: value for value in inputs}
    return found | {out.symbol: out for op in block.ops for out in outs_of(op)}
