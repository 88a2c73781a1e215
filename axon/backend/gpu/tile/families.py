"""Core to GPU kernels: which operations the tensor cores take, of which family; the others are a plan (`backend.plan.fuse`).

Streams are looked for first, then products for the tensor cores, each with the pointwise operations on its results; what is left
becomes the nests of a plan (see `plan` and `fuse`), in as few pieces as the order among kernels leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import TypeAlias, assert_never

from axon.backend.gpu.layout.copies import CopyLayout
from axon.backend.gpu.layout.pages import Gathered, Pages, Paging, axes_in
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.tile.contraction import APART, LIMB_ELEMENTS, MatrixProduct, Merging, contraction, group, with_factors
from axon.backend.gpu.tile.epilogue import STORED, EpilogueGroup, EpilogueOperand, check_derived
from axon.backend.gpu.tile.epilogue import views_of as tiled_views
from axon.backend.gpu.tile.ragged import Ragged
from axon.backend.gpu.tile.siblings import siblings
from axon.backend.gpu.tile.stream import Found, RowResult, Stream, stream
from axon.backend.gpu.tile.verify import verify_kernels
from axon.backend.kernel.tensor_core_scalars import obstacle
from axon.backend.plan import ir as plans
from axon.backend.plan.fuse import Policy, fuse
from axon.backend.plan.ir import Nest, Reason
from axon.backend.plan.split import NO_PARTINGS, in_memory_order, narrowed, split
from axon.backend.plan.spread import Cut, spread
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.base.source import Span
from axon.core.ir import Axis, Block, Compute, Local, Op, Program, Read, Scan, Value
from axon.core.operands import with_tensors
from axon.core.passes.sink import Named, as_well_left, sunk
from axon.core.walk import nodes, outs_of, tensors_of
from axon.shapes.dimension import Dim

Tiled: TypeAlias = "MatrixProduct | Stream"
Kernel: TypeAlias = "Tiled | Nest"
Known: TypeAlias = "tuple[Symbol, tuple[Symbol, ...], Local]"  # a tensor of one value per row, its axes, its value

# A row that is held in registers shares what it computes anyway. Products in f64 are register tiles, which go on with results.
POLICY = Policy(epilogues=frozenset({Element.F64}), share=False, wide=True)
# Where there are no kernels for the tensor cores, so do all others.
ALONE = replace(POLICY, epilogues=frozenset({Element.F64, *LIMB_ELEMENTS}))


_TABLES = Reason("for tiles that have rows of one group each")
_SEGMENTS = Reason("for sums of the rows of each group")
_PAGES = Reason("stops the program where a table names a page that is none")
NO_REASONS: Mapping[Symbol, str] = {}
NO_MERGING: Mapping[Symbol, Merging] = {}
NO_CUTS: Mapping[Symbol, Cut] = {}
NO_ROWS: Mapping[Symbol, int] = {}


@verified("kernels", verify_kernels, gives="kernels")
def kernels(
    program: Program,
    plain: Set[Symbol] = frozenset(),
    apart: Set[Symbol] = frozenset(),
    why: Mapping[Symbol, str] = NO_REASONS,
    bare: Set[Symbol] = frozenset(),
    merging: Mapping[Symbol, Merging] = NO_MERGING,
    cuts: Mapping[Symbol, Cut] = NO_CUTS,
    kept: Set[Symbol] = frozenset(),
    ones: Set[Symbol] = frozenset(),
    without: str = "",
    alone: Mapping[Symbol, str] = NO_REASONS,
    rows: Mapping[Symbol, int] = NO_ROWS,
    partings: Mapping[Symbol, plans.Parting] = NO_PARTINGS,
) -> tuple[Kernel, ...]:
    """The kernels of a program, in order. What makes one of the tensors in `plain` is not sought a place on the tensor cores, what
    makes one of those in `apart` is no stream, and a contraction that makes one of those in `bare` takes in nothing after it; `why`
    says so for some. Of one that makes one of those in `merging`, sides are merged so; rows of a nest that stores one of those in
    `cuts` are spread so. Streams find those in `kept` in memory. The sizes in `ones` are 1. Where the tensor cores take nothing at
    all, `without` says why. A contraction that makes one of `alone` makes nothing else, for the reason given. Of a stream that
    makes one of those in `rows`, tiles have rows of that of its axes. Reductions that make those in `partings` are split so.

    Raises `Unsupported` for an operation that is no part of a straight program (see `parts`).
    """
    for op in program.block.ops:
        if not isinstance(op, Compute | Scan):
            raise Unsupported(f"`{type(op).__name__.lower()}` has no kernel family", getattr(op, "span", None))
    groups, reasons = _tiled(program, plain, plain | apart, bare, merging, kept, without, alone, rows)
    found = _in_order(program, groups, {**reasons, **why}, cuts, ones, partings, ALONE if without else POLICY)
    return tuple(_with_tables(found, program))


def with_operands(kernel: Tiled, operands: Sequence[EpilogueOperand]) -> Tiled:
    """The same kernel of other operands; how many the left ones are, is as before."""
    match kernel:
        case MatrixProduct(lefts=lefts, rights=rights):
            last = len(lefts) + len(rights)
            sides = (operands[: len(lefts)], operands[len(lefts) : last], operands[last:])
            return with_factors(kernel, *map(tuple, sides))
        case Stream():
            count = 1 + len(kernel.others)
            queries, keys, (value, *rest) = operands[:count], operands[count : 2 * count], operands[2 * count :]
            others = (replace(s, query=q, key=k) for s, q, k in zip(kernel.others, queries[1:], keys[1:], strict=True))
            limbs = iter(rest)
            further = tuple(tuple(next(limbs) for _ in more) for more in kernel.further)
            return replace(kernel, query=queries[0], key=keys[0], value=value, others=tuple(others), further=further)
        case _:
            assert_never(kernel)


def in_pages(
    kernel: Stream, found: Mapping[Symbol, Gathered], values: Mapping[Symbol, Value]
) -> tuple[Stream, tuple[Compute, ...]]:
    """The stream with those keys and values that are `found` to be gathered read in their pages that can be, and what stops the
    program where there is no such page. Raises `Unsupported` if that is none of them."""
    axes = (*kernel.outer, kernel.rows, kernel.columns, *kernel.reduced)
    shown = {view.value.symbol: view for view in kernel.views}
    extents = {axis.symbol: axis.extent for axis in axes}
    operands = (*kernel.key_operands, kernel.value)
    for operand in operands:
        extents = {a: operand.value.shape[d] for a, d in zip(operand.axes, operand.order, strict=True)} | extents
    paging = Paging(kernel.keys, values, extents, kernel.derived)
    pages: dict[Symbol, Pages] = {}
    left: set[Symbol] = set()  # what has to be gathered
    reason: list[Unsupported] = []

    def read(operand: EpilogueOperand) -> EpilogueOperand:
        seen = shown.get(operand.value.symbol)
        source = operand.value.symbol if seen is None else seen.source
        if source not in found:
            return operand
        axis_of = dict(zip(operand.order, operand.axes, strict=True))
        at = tuple(Dim.of(axis_of[d]) for d in range(len(axis_of))) if seen is None else seen.places
        try:
            own, view = paging.read(found[source], at)
            _check_pages(own, axes, {a.symbol for a in kernel.outer}, found[source].span)
        except Unsupported as refused:
            left.add(source)
            reason.append(refused)
            return operand
        pages[own.page] = own
        return EpilogueOperand(view.value, view.axes, tuple(range(len(view.axes))))

    queries = kernel.operands[: len(kernel.queries)]
    made = with_operands(kernel, [*queries, *map(read, operands), *(limb for limbs in kernel.further for limb in limbs)])
    assert isinstance(made, Stream)
    if not pages:
        raise reason[0] if reason else Unsupported("neither keys nor values are gathered", kernel.span)
    views = tuple(view for view in kernel.views if view.source not in found or view.source in left)
    paging.tables.extents = extents
    check_derived(paging.tables, {axis.symbol for axis in kernel.outer}, kernel.span)
    made = replace(made, views=(*views, *paging.views), pages=tuple(pages.values()), derived=paging.derived)
    return made, paging.asked


def _check_pages(pages: Pages, axes: Sequence[Axis], outer: Set[Symbol], span: Span | None) -> None:
    """Raises `Unsupported` unless a kernel with these axes can compute which page it is, from outer indices and its number."""
    symbols = {axis.symbol for axis in axes}
    for scalar in pages.scalars:
        why = obstacle(scalar, symbols)
        if why or not axes_in(scalar).isdisjoint(symbols - outer):
            raise Unsupported(f"a table of pages {why or 'is read at what a tile has several of'}", span)


def with_pages(made: Iterable[Kernel], found: Mapping[Symbol, Gathered], program: Program) -> Iterator[Kernel]:
    """The kernels, of which streams read what is `found` to be gathered in its pages where they can, and what asks whether there
    are such pages, each once."""
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    there: set[Symbol] = set()
    for kernel in made:
        own = {s: found[s] for s in kernel.needs & found.keys()} if isinstance(kernel, Stream) else {}
        if not isinstance(kernel, Stream) or not own:
            yield kernel
            continue
        try:
            kernel, asks = in_pages(kernel, own, values)
        except Unsupported:
            yield kernel
            continue
        ops = tuple(op for op in asks if not there.issuperset(out.symbol for out in op.outs))
        outs = {out.symbol: out for op in ops for out in op.outs}
        there |= outs.keys()
        before = replace(program, block=Block(ops, tuple(outs)))
        for nest in nests(before, ops, frozenset(outs), values | outs, whole=True) if ops else ():
            yield replace(nest, reasons=(*nest.reasons, _PAGES))
        yield kernel


def results_of(kernel: Kernel) -> tuple[Value, ...]:
    """The tensors that a kernel stores."""
    if isinstance(kernel, Nest):
        return plans.values_of(kernel)
    rows = kernel.row_results if isinstance(kernel, Stream) else ()
    return (*(r.value for r in kernel.results), *(r.value for r in rows))


def family_of(kernel: Kernel) -> str:
    """What kind of kernel it is, in a word."""
    match kernel:
        case Nest():
            return kernel.family
        case MatrixProduct():
            return "contraction"
        case Stream():
            return "stream"
        case _:
            assert_never(kernel)


def views_of(kernel: Kernel) -> tuple[View, ...]:
    """The views through which a kernel reads and stores; a plain one computes its addresses."""
    return () if isinstance(kernel, Nest) else tiled_views(kernel)


@dataclass(slots=True)
class _Taken:
    """A kernel for the tensor cores, and the numbers of the operations that it does."""

    symbol: Symbol  # what its product makes
    group: EpilogueGroup[Tiled]
    members: set[int]
    known: tuple[Known, ...] = ()


def _tiled(
    program: Program,
    plain: Set[Symbol],
    apart: Set[Symbol],
    bare: Set[Symbol],
    merging: Mapping[Symbol, Merging],
    kept: Set[Symbol],
    without: str = "",
    alone: Mapping[Symbol, str] = NO_REASONS,
    by_rows: Mapping[Symbol, int] = NO_ROWS,
) -> tuple[list[tuple[Tiled, set[int]]], dict[Symbol, str]]:
    """The kernels for the tensor cores, and why a product is none of them."""
    ops = program.block.ops
    values = {v.symbol: v for v in program.inputs}
    values |= {out.symbol: out for op in ops for out in outs_of(op)}
    streams, reasons = _streams(program, values, apart, kept, by_rows) if not without else ({}, {})
    taken: list[_Taken] = []
    owner: dict[int, int] = {}  # of an operation: which kernel does it
    inside = {number for last, (_, inner) in streams.items() for number in inner if number != last}
    reading, above = _reading(program, streams), _above(ops)

    def is_free(n: int, members: set[int]) -> bool:
        """Whether no other kernel does an operation, and what it reads is there before one that does these runs: `x @ b + x` is no
        epilogue of the kernel that makes x."""
        op = ops[n]
        reduced = isinstance(op, Compute) and op.reduction is not None
        refused = reduced and not (plain | bare).isdisjoint(out.symbol for out in outs_of(op))
        return not (refused or n in owner or n in inside or n in streams) and not _follows(above, owner, n, members)

    def merged(symbol: Symbol) -> Merging:
        """How sides of a contraction are merged, by what it makes."""
        return merging.get(symbol, APART)

    for number, op in enumerate(ops):
        if number in owner or number in inside or not isinstance(op, Compute) or op.outs[0].symbol in plain:
            continue
        if number in streams:
            made, inner = streams[number]
            mine = _Taken(
                op.outs[0].symbol, EpilogueGroup(made.stream, made.views, made.statistics), {number, *inner}, made.statistics
            )
        else:
            try:
                symbol = op.outs[0].symbol
                mine = _Taken(symbol, group(*contraction(op, values, merged(symbol))), {number})
            except Unsupported as reason:
                if op.reduction is not None and reason.near:
                    reasons.setdefault(op.outs[0].symbol, reason.reason)
                continue
            if without:
                reasons[mine.symbol] = without
                continue
            if mine.symbol not in bare:
                near = siblings(ops, number, values, merged, is_free, set(program.block.results), alone)
                if near.group is not None:
                    mine = _Taken(mine.symbol, near.group, set(near.members))
                elif near.alone and isinstance(mine.group.kernel, MatrixProduct):
                    mine.group.kernel = replace(mine.group.kernel, alone=near.alone)
        taken.append(mine)
        owner |= dict.fromkeys(mine.members, len(taken) - 1)
        if mine.symbol in bare:
            continue
        for later in range(number + 1, len(ops)):
            candidate = ops[later]
            if isinstance(candidate, Compute) and is_free(later, mine.members) and mine.group.absorb(candidate):
                mine.members.add(later)
                owner[later] = len(taken) - 1
    named = Named.of(ops, frozenset(program.block.results))
    for mine in taken:
        for n in _left(mine, named, owner):
            mine.group.leave(outs_of(ops[n]))
            mine.members.discard(n)
            del owner[n]
    found = []
    rows: set[Symbol] = set()  # the statistics that a stream stores
    for mine in taken:
        wanted = set(program.block.results)
        wanted |= {s for i, tensors in reading.items() if i not in mine.members for s in tensors}
        finished = mine.group.finish(wanted)
        outside = [known for known in mine.known if known[0] in wanted - rows]
        if outside and isinstance(finished, Stream):
            finished, outside = _with_rows(finished, outside, values)
            rows |= {row.value.symbol for row in finished.row_results}
        passes = isinstance(finished, Stream)
        if outside or not (apart if passes else plain).isdisjoint(r.value.symbol for r in finished.results):
            further = plain if passes else plain | {mine.symbol}
            again, others = _tiled(program, further, apart | {mine.symbol}, bare, merging, kept, alone=alone, by_rows=by_rows)
            if outside:
                others[mine.symbol] = f"`{outside[0][0].name}`, which has one value per row, is needed outside its kernel"
            return again, others
        if not passes and mine.symbol not in bare and not bare.isdisjoint(r.value.symbol for r in finished.results):
            return _tiled(program, plain, apart, bare | {mine.symbol}, merging, kept, alone=alone, by_rows=by_rows)
        found.append((_pruned(finished) if isinstance(finished, Stream) else finished, mine.members))
    return found, reasons


def _left(mine: _Taken, named: Named, owner: Mapping[int, int]) -> list[int]:
    """The operations of a kernel that are as well left to the plain kernels that read them, such as those that only widen one of
    its results; of a stream no others."""

    def stays(op: Compute) -> bool:
        return not mine.group.widens(op) and (isinstance(mine.group.kernel, Stream) or mine.symbol in {o.symbol for o in op.outs})

    return as_well_left(named, mine.members, owner, stays)


def _above(ops: Sequence[Op]) -> list[tuple[int, ...]]:
    """Of each operation those that make what it reads."""
    makers = {out.symbol: n for n, op in enumerate(ops) for out in outs_of(op)}
    return [tuple({makers[s] for s in tensors_of(op) if s in makers}) for op in ops]


def _follows(above: Sequence[tuple[int, ...]], owner: Mapping[int, int], number: int, members: set[int]) -> bool:
    """Whether an operation reads something outside of a kernel that cannot be there before the kernel has run."""
    together: dict[int, set[int]] = {}
    for n, kernel in owner.items():
        together.setdefault(kernel, set()).add(n)
    first = min(members)
    pending = [n for n in above[number] if n not in members]
    seen: set[int] = set()
    while pending:
        n = pending.pop()
        if n in members:
            return True
        if n in seen:
            continue
        whole = together[owner[n]] if n in owner else {n}
        seen |= whole
        if max(whole) > first:  # what stands before the kernel reads nothing of it
            pending += [m for each in whole for m in above[each]]
    return False


def _in_order(
    program: Program,
    groups: list[tuple[Tiled, set[int]]],
    reasons: Mapping[Symbol, str],
    cuts: Mapping[Symbol, Cut],
    ones: Set[Symbol],
    partings: Mapping[Symbol, plans.Parting],
    policy: Policy,
) -> Iterator[Kernel]:
    """All kernels of a program: as many plain operations at a time as can be done, then the kernels that wait for them."""
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    ops, items = program.block.ops, _stages(program, groups)
    place = {n: at for at, item in enumerate(items) if isinstance(item, list) for n in item}
    plain = sunk(ops, place, frozenset(program.block.results))  # a mask need not wait there for the product that it is of
    values |= {out.symbol: out for own in plain.values() for op in own for out in outs_of(op)}
    tiled = frozenset(program.block.results).union(*(tensors_of(ops[n]) for _, members in groups for n in members))
    read = {at: frozenset[Symbol]().union(*map(tensors_of, own)) for at, own in plain.items()}
    for at, item in enumerate(items):
        if not isinstance(item, list):
            yield item[0]
        elif at in plain:
            outside = tiled.union(*(of for other, of in read.items() if other != at))
            yield from nests(program, plain[at], outside, values, reasons, cuts, ones, partings, policy=policy)


_Item: TypeAlias = "list[int] | tuple[Tiled, set[int]]"  # plain operations, by their numbers; or a kernel with those it does


def _stages(program: Program, groups: list[tuple[Tiled, set[int]]]) -> list[_Item]:
    """Plain operations and kernels in turn, each as early as it can be done."""
    ops = program.block.ops
    waiting = [n for n in range(len(ops)) if not any(n in members for _, members in groups)]
    there = {v.symbol for v in program.inputs}
    made = {out.symbol for op in ops for out in outs_of(op)}
    pending, items = list(groups), list[_Item]()
    while waiting or pending:
        segment: list[int] = []
        for n in waiting:
            if not (set(tensors_of(ops[n])) & made) - there:
                segment.append(n)
                there |= {out.symbol for out in outs_of(ops[n])}
        if segment:
            waiting = [n for n in waiting if n not in segment]
            items.append(segment)
        ready = [(kernel, members) for kernel, members in pending if not _missing(ops, members, there, made)]
        assert segment or ready, "kernels wait for each other"
        for kernel, members in ready:
            items.append((kernel, members))
            there |= {value.symbol for value in results_of(kernel)}
        pending = [group for group in pending if group not in ready]
    return items


def _missing(ops: Sequence[Op], members: set[int], there: set[Symbol], made: set[Symbol]) -> set[Symbol]:
    own = {out.symbol for n in members for out in outs_of(ops[n])}
    return ({s for n in members for s in tensors_of(ops[n])} & made) - there - own


def _with_tables(made: Iterable[Kernel], program: Program) -> Iterator[Kernel]:
    """The kernels, and in front of those of rows in groups what makes their tables, each once."""
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    there: set[Symbol] = set()
    for kernel in made:
        grouping = kernel.grouping if isinstance(kernel, MatrixProduct) else None
        if grouping is not None:
            ops = tuple(op for op in grouping.made if op.outs[0].symbol not in there)
            values |= {out.symbol: out for op in grouping.made for out in op.outs}
            there |= {out.symbol for op in ops for out in op.outs}
            results = tuple(out.symbol for op in ops for out in op.outs if out in grouping.kept)
            before = replace(program, block=Block(ops, results))
            for nest in nests(before, ops, frozenset(results), values, whole=True):
                yield replace(nest, reasons=(*nest.reasons, _TABLES if isinstance(grouping, Ragged) else _SEGMENTS))
        yield kernel


def nests(
    program: Program,
    own: Sequence[Op],
    outside: Set[Symbol],
    values: Mapping[Symbol, Value],
    reasons: Mapping[Symbol, str] = NO_REASONS,
    cuts: Mapping[Symbol, Cut] = NO_CUTS,
    ones: Set[Symbol] = frozenset(),
    partings: Mapping[Symbol, plans.Parting] = NO_PARTINGS,
    *,
    whole: bool = False,
    policy: Policy = POLICY,
) -> Iterator[Nest]:
    """Plain operations of a program as the nests of a plan, which store what is read `outside`, under the names by which it is
    read. `values` are those that these operations read and make. Where sums are known to be short, nests stay `whole`."""
    made = {out.symbol for op in own for out in outs_of(op)}
    wanted = tuple(out.symbol for op in own for out in outs_of(op) if out.symbol in outside)
    around = dict.fromkeys(s for op in own for s in sorted(tensors_of(op) - made, key=lambda s: s.id))
    piece = replace(program, inputs=tuple(values[s] for s in around), block=Block(tuple(own), wanted))
    plan = fuse(piece, policy)
    stored = {s for kernel in plan.body.kernels for s in plans.writes_of(kernel)}
    names: dict[Symbol, Symbol] = {}  # a tensor that is a result under another name, since only copies lay between
    for want, got in zip(wanted, plan.body.results, strict=True):
        if got in stored:
            names.setdefault(got, want)
    for kernel in plan.body.kernels:
        product = isinstance(kernel, plans.Contraction)  # it has results enough to keep the chip busy
        if isinstance(kernel, plans.Contraction):
            steps = (kernel.op, *kernel.epilogue)
            kernel = Nest(kernel.op.axes, steps, kernel.stored, kernel.reasons)
        assert isinstance(kernel, Nest)
        outs = [o.symbol for step in kernel.steps for o in step.outs]
        kernel = _named(kernel, names)
        outs += [o.symbol for step in kernel.steps for o in step.outs]
        why = dict.fromkeys(reasons[symbol] for symbol in outs if symbol in reasons)
        kernel = replace(kernel, reasons=(*kernel.reasons, *(Reason(_escaped(f"not on the tensor cores: {w}")) for w in why)))
        kernel = narrowed(kernel if product else in_memory_order(kernel), ones)
        cut = next((cuts[symbol] for symbol in kernel.stored if symbol in cuts), None)
        if cut is not None:
            yield from spread(kernel, cut)
        else:
            yield from [kernel] if product or whole else split(kernel, partings)
    for want, got in zip(wanted, plan.body.results, strict=True):
        if names.get(got, got) != want:  # an argument, or the same as another result: it still is a tensor of its own
            yield copy(values[want], names.get(got, got))


def _named(nest: Nest, names: Mapping[Symbol, Symbol]) -> Nest:
    """The nest with tensors under other names."""

    def value(out: Value) -> Value:
        return replace(out, symbol=names.get(out.symbol, out.symbol))

    if not names:
        return nest
    changed = (with_tensors(step, names) for step in nest.steps)
    steps = tuple(replace(step, outs=tuple(map(value, step.outs))) for step in changed)
    reasons = tuple(replace(r, tensors=tuple(names.get(s, s) for s in r.tensors)) for r in nest.reasons)
    return replace(nest, steps=steps, stored=tuple(names.get(s, s) for s in nest.stored), reasons=reasons)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def copy(
    value: Value,
    source: Symbol,
    lying: CopyLayout | None = None,
    reasons: tuple[Reason, ...] = (),
    span: Span | None = None,
) -> Nest:
    """A kernel that makes a value of a tensor's elements: of those at the same indices, if it does not lie in another way."""
    axes = tuple(Axis(fresh("ijklmnop"[d % 8]), extent) for d, extent in enumerate(value.shape))
    at = tuple(Dim.of(axis.symbol) for axis in axes)
    read = lying.read(source, value.element, at) if lying is not None else Read(source, at, value.element)
    step = Compute((value,), axes, None, (read,), span)
    return Nest(axes, (step,), (value.symbol,), reasons)


def streams(program: Program, apart: Set[Symbol], kept: Set[Symbol]) -> frozenset[Symbol]:
    """What the streams of a program make, as `kernels` finds them."""
    ops = program.block.ops
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for op in ops for out in outs_of(op)}
    found, _ = _streams(program, values, apart, kept)
    return frozenset(out.symbol for number in found for out in outs_of(ops[number]))


Streams: TypeAlias = "dict[int, tuple[Found, set[int]]]"  # by the number of the last operation, with those that it takes in


def _streams(
    program: Program, values: Mapping[Symbol, Value], apart: Set[Symbol], kept: Set[Symbol], rows: Mapping[Symbol, int] = NO_ROWS
) -> tuple[Streams, dict[Symbol, str]]:
    """The streams; and why something near to one is none.

    Several may make the same scores, each for itself. What one makes on its way is never in memory: no other may need it there, but
    for statistics of its rows, which it can store.
    """
    ops = program.block.ops
    producers = {out.symbol: op for op in ops if isinstance(op, Compute) for out in op.outs if out.symbol not in kept}
    numbers = {out.symbol: i for i, op in enumerate(ops) for out in outs_of(op)}
    found: Streams = {}
    reasons: dict[Symbol, str] = {}

    def take(number: int, op: Compute, beside: Sequence[Compute] = ()) -> None:
        """As a stream over the rows that are asked for, or else over others."""
        made: Found | None = None
        if op.outs[0].symbol in rows:
            with suppress(Unsupported):
                made = stream(op, producers, values, beside, rows[op.outs[0].symbol])
        made = made or stream(op, producers, values, beside)
        found[number] = made, {numbers[s] for s in made.used}

    for number, op in enumerate(ops):
        if not isinstance(op, Compute) or op.reduction is None or op.outs[0].symbol in apart:
            continue
        try:
            take(number, op)
        except Unsupported as reason:
            if reason.near:
                reasons[op.outs[0].symbol] = reason.reason
    tried: set[int] = set()
    while True:
        needed = {s for tensors in _reading(program, found).values() for s in tensors} | set(program.block.results)
        bad = [(number, shared) for number in found if (shared := _shared(ops, *found[number], needed))]
        if not bad:
            return found, reasons
        number, shared = bad[0]
        last, inner = ops[number], found[number][1]
        if number not in tried and isinstance(last, Compute):
            tried.add(number)
            before = _before(ops, found[number][0].stream.needs)
            others = [o for i, o in enumerate(ops) if i not in inner and i != number and set(tensors_of(o)) & shared]
            beside = [o for o in others if isinstance(o, Compute) and o.reduction and not before & {v.symbol for v in o.outs}]
            with suppress(Unsupported):  # what it cannot make beside its own stays shared, and that is the reason
                take(number, last, beside)
            continue
        names = ", ".join(f"`{s.name}`" for s in sorted(shared, key=lambda s: s.id))
        reasons[outs_of(last)[0].symbol] = f"{names} is needed outside the one pass that makes it"
        del found[number]


def _before(ops: Sequence[Op], needed: Set[Symbol]) -> set[Symbol]:
    """What is made before these tensors are, and they: no kernel that reads them makes it too."""
    before = set(needed)
    for op in reversed(ops):
        if any(out.symbol in before for out in outs_of(op)):
            before |= tensors_of(op)
    return before


def _reading(program: Program, streams: Streams) -> dict[int, frozenset[Symbol]]:
    """What is read from memory by each operation that is done, or by the stream that it is the last of: not those that streams take
    in, unless something else needs what they make."""
    ops = program.block.ops
    absorbed = {number for last, (_, inner) in streams.items() for number in inner if number != last}
    rows = {tensor for found, _ in streams.values() for tensor, _, _ in found.statistics}
    reading: dict[int, frozenset[Symbol]] = {}
    pending = [number for number in range(len(ops)) if number not in absorbed]
    while pending:
        for number in pending:
            reading[number] = streams[number][0].stream.needs if number in streams else frozenset(tensors_of(ops[number]))
        needed = {s for tensors in reading.values() for s in tensors} | set(program.block.results)
        needed -= rows
        pending = [n for n in absorbed - reading.keys() if any(out.symbol in needed for out in outs_of(ops[n]))]
    return reading


def _shared(ops: Sequence[Op], found: Found, inner: set[int], needed: Set[Symbol]) -> frozenset[Symbol]:
    """What a stream makes on its way that is needed in memory, but for statistics of its rows."""
    rows = {tensor for tensor, _, _ in found.statistics}
    return frozenset(out.symbol for i in inner for out in outs_of(ops[i]) if out.symbol in needed and out.symbol not in rows)


def _with_rows(kernel: Stream, outside: Sequence[Known], values: Mapping[Symbol, Value]) -> tuple[Stream, list[Known]]:
    """The stream that stores these statistics of its rows too; and those that it cannot store, as they have no value for each."""
    each = {axis.symbol for axis in (*kernel.outer, kernel.rows)}
    able = [
        known for known in outside if set(known[1]) == each and len(known[1]) == len(each) and values[known[0]].element in STORED
    ]
    rows = tuple(RowResult(values[tensor], axes, local.symbol) for tensor, axes, local in able)
    return replace(kernel, row_results=rows), [known for known in outside if known not in able]


def _pruned(kernel: Stream) -> Stream:
    """Without the row values that no result uses."""
    used = {n.symbol for r in kernel.results for n in nodes(r.expression) if isinstance(n, Local)}
    used |= {r.final for r in kernel.row_results}
    return replace(kernel, finals=tuple((symbol, value) for symbol, value in kernel.finals if symbol in used))
