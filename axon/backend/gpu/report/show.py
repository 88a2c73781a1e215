"""The stages of a program's kernels as text, and why a mapping was chosen: what the command line prints.

Needs no GPU, but to measure.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence, Set
from collections.abc import Mapping as MappingOf
from math import inf, prod
from pathlib import Path
from typing import Any, assert_never

from axon.backend.gpu.build.cubin import build, ptx
from axon.backend.gpu.build.recipe import Plain, tensors, traits
from axon.backend.gpu.layout.pages import Pages
from axon.backend.gpu.layout.products import MULTIPLIED, SHORT, Precision
from axon.backend.gpu.layout.products import error_bound as short_bound
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.report.plain import time_of
from axon.backend.gpu.roles import ir as roles
from axon.backend.gpu.roles import render as render_barriers
from axon.backend.gpu.runtime.building import KernelBuilder, Ready
from axon.backend.gpu.runtime.foreseen import of_extents
from axon.backend.gpu.runtime.plain_variants import used_by
from axon.backend.gpu.runtime.prepare import problem_of, shown
from axon.backend.gpu.runtime.recording import why_walked
from axon.backend.gpu.runtime.replaying import WORTH
from axon.backend.gpu.runtime.steps import Ordered, Stepped
from axon.backend.gpu.runtime.ways import Planned, only_shows
from axon.backend.gpu.sorting.steps import kernels as kernels_of
from axon.backend.gpu.tile import ir as tile
from axon.backend.gpu.tile.bounds import BLOCK
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import Kernel, Tiled, family_of, results_of, views_of
from axon.backend.gpu.tile.limbs import error_bound, rounded, tf32_error_bound, workspace
from axon.backend.gpu.tile.schedule import ScheduleProblem, TileMapping, predict, ranked
from axon.backend.gpu.tile.schedule_file import NOTHING, Schedule
from axon.backend.gpu.tile.stream import Stream
from axon.backend.needs import Missing, disassembler, gpu
from axon.backend.plan.ended import DATA_END
from axon.backend.plan.ir import Nest, size_in_bytes
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Axis, Compress, Program, Sort, Value
from axon.core.passes.parts import HostLoop, everything, parts
from axon.core.printer import names_in
from axon.core.scalar_facts import ends_early
from axon.core.walk import outs_of
from axon.shapes.dimension import Dim

STAGES = ("tile", "roles", "barriers", "kernel", "ptx", "sass")
TYPICAL = 4096  # stands for every dimension that is not given
LISTED = 6  # dimensions that `explain` names
ALTERNATIVES = 6  # that `explain` shows of a kernel
MEASURED = 3  # of them, that it measures
FLOPS, BANDWIDTH = (1e12, "TFLOP/s"), (1e9, "GB/s")


def show(
    program: Program,
    stage: str,
    sizes: MappingOf[Symbol, int] | None = None,
    schedule: Schedule | None = None,
    target: Target = HOPPER,
) -> str:
    """One of `STAGES` for each kernel on a chip, at these sizes (without them, at a typical one: the code holds for all).

    Raises `Unsupported` where nothing runs, and `Missing` without the tools that build a kernel, or for `sass` without `nvdisasm`.
    """
    given = sizes_of(program, sizes)
    parted = [(executable, own) for _, executable, own in Ordered(program, target, schedule or NOTHING).at(given).foreseen(given)]
    found = [_stage(ready, stage, target) for executable, own in parted for ready in executable.built({}, own)[1].values()]
    found += [_plain_stage(kernel, stage, target) for kernel in _own_kernels(program, target)]
    if not found:
        for kernel in (kernel for executable, _ in parted for kernel in executable.kernels):
            raise Unsupported("its result has no elements, so nothing runs", _span(kernel))
        raise Unsupported("it has no kernels of its own: what it gives is made by the host, or is an argument")
    return "\n".join(found)


def _span(kernel: Kernel) -> Span | None:
    return kernel.steps[0].span if isinstance(kernel, Nest) else kernel.span


def _own_kernels(program: Program, target: Target) -> Iterator[Plain]:
    """The kernels of a program's sorts and compresses, each once."""
    seen = set[str]()
    for part in everything(parts(program).body):
        match part:
            case Sort(values=values):
                kernels = kernels_of(values.element, len(values.shape), target)
            case Compress():
                kernels = kernels_of(None, 1, target)
            case _:
                continue
        yield from (kernel for kernel in kernels if kernel.source.text not in seen)
        seen |= {kernel.source.text for kernel in kernels}


def _plain_stage(kernel: Plain, stage: str, target: Target) -> str:
    match stage:
        case "kernel":
            return kernel.source.text
        case "ptx":
            return ptx(kernel.source, target)
        case "sass":
            return _disassembled(build(kernel, target).cubin)
        case _:
            (head,) = (line for line in kernel.source.text.splitlines() if line.startswith("def kernel"))
            return f"{head.partition('# ')[2]}: one role, no barriers\n"


def sizes_of(program: Program, sizes: MappingOf[Symbol, int] | None) -> dict[Symbol, int]:
    """A value for every dimension: the one given, or a typical one."""
    shaped = (s for v in program.inputs for d in v.shape for s in sorted(d.variables, key=lambda symbol: symbol.id))
    variables = dict.fromkeys([*program.explicit, *shaped])
    return {s: (sizes or {}).get(s, TYPICAL) for s in variables}


def _stage(plan: Ready, stage: str, target: Target) -> str:
    forms = plan.stages
    match stage:
        case "tile" | "roles" | "barriers" if isinstance(plan.kernel, Nest):
            return f"plain: one role, no barriers\nmapping {plan.mapping}\n"
        case "tile":
            return tile.render(forms.tile)
        case "roles":
            return roles.render(forms.roles)
        case "barriers":
            return render_barriers.render(forms.barriers)
        case "kernel":
            return str(forms.source.text)
        case "ptx":
            return ptx(forms.source, target)
        case "sass":
            return _disassembled(plan.built.cubin)
        case _:
            raise ValueError(f"no stage {stage!r}; there are {', '.join(STAGES)}")


def _disassembled(cubin: bytes) -> str:
    tool = disassembler()
    if tool is None:
        raise Missing("the disassembler `nvdisasm`", "pip install 'cuda-toolkit[nvdisasm]'")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        return subprocess.run([tool, str(file)], check=True, capture_output=True, text=True).stdout


# ── explaining ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def explain(
    program: Program,
    sizes: MappingOf[Symbol, int] | None = None,
    schedule: Schedule | None = None,
    target: Target = HOPPER,
    *,
    measure: bool = False,
) -> str:
    """For each kernel its mapping on a chip, what it takes of that, its predicted time, and the alternatives it was preferred to.

    With `measure`, times on this machine's GPU too, of the mapping and of the first alternatives. Raises `Missing` without one.
    """
    if measure:
        gpu()
    given = sizes_of(program, sizes)
    stepped = Ordered(program, target, schedule or NOTHING).at(given)
    tables = frozenset(stepped.tables.values)
    found = [
        (builder, number, made.get(number), own, same)
        for _, executable, own in stepped.foreseen(given)
        for builder, made in [executable.built({}, own)]
        for same in [_shown(builder.planned, own)]
        for number in range(len(builder.planned.kernels))
    ]
    names = names_in(program)
    lines = [*_assumed(stepped, sizes or {}, names), *_walked(stepped, given)]
    for count, (builder, number, plan, own, same) in enumerate(found, 1):
        if len(found) > 1:
            lines.append(f"kernel {count}")
        if plan is None:
            lines.append(f"{_nothing(builder.planned.kernels[number], own, names)}: no elements, so nothing is launched")
            continue
        if only_shows(builder.planned.kernels[number], same):
            over = _nothing(builder.planned.kernels[number], own, names)
            lines.append(f"{over}: the same memory in another shape, so nothing is launched")
            continue
        work = _nest_work if isinstance(plan.kernel, Nest) else _tiled_work
        told = work(builder, number, plan, own, names, tables)
        times: MappingOf[Any, float | None] = {}
        if measure:
            from axon.backend.gpu.report.measure import times as measured

            tried = told.candidates[: 1 + MEASURED]
            times = measured(builder.planned, builder.target, number, [c for c, _ in tried], [seconds for _, seconds in tried], own)
        lines += [*told.lines, *_spaced(builder.planned, number, names)]
        for candidate, seconds in told.candidates:
            mark = "chosen" if candidate == plan.mapping else ""
            text = _time(seconds, told.amount, told.rate, "predicted")
            if candidate in times:
                took = times[candidate]
                text += f", {_time(took, told.amount, told.rate, 'measured') if took else 'does not fit its registers':<34}"
            elif times:
                text += f", {'not measured':<34}"
            lines.append(f"{mark:>8}  {text}: {candidate}")
    return "\n".join(lines) + "\n"


def _shown(planned: Planned, sizes: MappingOf[Symbol, int]) -> dict[Symbol, Symbol]:
    """What lies between kernels in the memory of another tensor."""
    kept = {*(value.symbol for value in planned.program.inputs), *planned.program.block.results, *planned.within}
    return planned.shown(sizes, {symbol: lies for symbol, lies in planned.lying(sizes).items() if symbol not in kept})


@dataclass(frozen=True, slots=True)
class _Told:
    """What is said of a kernel: lines, mappings with predicted seconds, and an amount of which so much a second is done."""

    lines: list[str]
    candidates: list[tuple[Any, float]]
    amount: float
    rate: tuple[float, str]


def _tiled_work(
    builder: KernelBuilder,
    number: int,
    plan: Ready,
    sizes: MappingOf[Symbol, int],
    names: MappingOf[Symbol, str],
    tables: Set[Symbol],
) -> _Told:
    problem = problem_of(plan.kernel, sizes)
    amount = product_flops(plan.kernel).evaluate(sizes)
    parts = plan.kernel.segments if isinstance(plan.kernel, MatrixProduct) else None
    images = {view.value: view for view in views_of(plan.kernel) if view.im2col or (parts and parts.front in view.axes)}
    pages = plan.kernel.pages if isinstance(plan.kernel, Stream) else ()
    in_pages = {o.value: o for o in plan.kernel.operands if isinstance(plan.kernel, Stream) and plan.kernel.pages_of(o)}

    def bytes_of(value: Value) -> int:
        if value in images:
            return images[value].reached(sizes) * value.element.bits // 8
        if value in in_pages and isinstance(plan.kernel, Stream):
            return shown(plan.kernel, [in_pages[value]], sizes) * value.element.bits // 8
        return size_in_bytes(value).evaluate(sizes)

    moved = sum(map(bytes_of, tensors(plan.kernel, builder.planned.values)))
    lines = [f"{_work(plan.kernel, sizes, names)}: {_flop(amount)}, moves {moved:,} bytes", _resources(plan, builder.target)]
    if problem.pixels is not None:
        joined = ", whole rows of windows at once" if any(view.joined for view in images.values()) else ""
        which = f"what is summed are pixels of the {problem.pixels}" if problem.summed else f"{problem.pixels} are pixels"
        lines.append(f"  {which}, which the copy engine finds (im2col){joined}")
    if isinstance(plan.kernel, MatrixProduct) and (ragged := plan.kernel.ragged) is not None:
        order = "sorted" if ragged.order is None else "not known to be sorted"
        tiles = f"at most {ragged.tiles.evaluate(sizes):,} tiles of {ragged.step} rows of one group each"
        lines.append(f"  rows have {problem.groups:,} groups, {order}: {tiles}")
    if parts is not None:
        order = "sorted" if parts.order is None else "not known to be sorted"
        groups = next(axis.extent.evaluate(sizes) for axis in plan.kernel.outer if axis.symbol == parts.group)
        lines.append(f"  sums the rows of each of {groups:,} groups, {order}: {problem.depth:,} each if they are of one size")
    if isinstance(plan.kernel, MatrixProduct) and plan.kernel.siblings:
        shared = f"{len(plan.kernel.products)} products that share their {plan.kernel.shared} factor"
        lines.append(f"  {shared}, of which each tile is loaded once for all")
    if isinstance(plan.kernel, MatrixProduct) and plan.kernel.alone:
        lines.append(f"  apart from a product that shares a factor with it: {plan.kernel.alone}")
    if isinstance(plan.kernel, MatrixProduct) and problem.products > 1:
        deepest = plan.kernel.depth.extent.evaluate(sizes)  # all rows may be of one group
        bound, room = error_bound(deepest), workspace(plan.kernel, sizes)
        count = f"{problem.products} products of bf16 values that add up to the factors"
        lines.append(f"  {count}, {room:,} bytes, summed in f32 after each step")
        lines.append(f"  an element is off by {bound:.0f} · 2⁻²³ · (|A| · |B|) at most, A and B the factors")
    if isinstance(plan.kernel, Stream) and plan.kernel.reaches:
        room_for = ", ".join(f"{size_in_bytes(reach.table).evaluate(sizes):,}" for reach in plan.kernel.reaches)
        lines.append(f"  keys that no row of a tile sees are left out, by tables of {room_for} bytes for {BLOCK} rows each")
    for own in pages:
        sources = " and ".join(names.get(symbol, symbol.name) for symbol in _sources(plan.kernel, own))
        each = f"in pages of {own.rows.evaluate(sizes):,} rows, by boxes of {plan.mapping.box}"
        ends = ", which end with the rows" if own.front is not None else ""
        lines.append(f"  reads {sources} in place, {each}{ends}: no copy is made first")
    if isinstance(plan.kernel, Stream) and problem.products > 1:
        room = workspace(plan.kernel, sizes)
        lines.append(
            f"  {problem.products} products of bf16 values that add up to the factors, {room:,} bytes, and to the weights, twice"
        )
    if rounded(plan.kernel):
        lines.append("  factors are rounded to tf32, 11 significant bits, as the schedule allows, and summed in f32")
        bound = tf32_error_bound(problem.depth)
        lines.append(f"  an element is off by {bound:.2f} · 2⁻¹⁰ · (|A| · |B|) at most, A and B the factors")
    elif Precision.TF32 in builder.planned.way.precision and problem.products > 1:
        why = "two factors of f32 alone" if parts is None else "no sums of rows in groups, which lie across what is summed"
        lines.append(f"  tf32 takes {why}")
    if isinstance(plan.kernel, MatrixProduct) and MULTIPLIED[plan.kernel.right.value.element].promoted:
        every = plan.kernel.promotion
        how = f"promoted: added up in f32 after every {every} of the depth" if every else "not promoted, as the schedule allows"
        lines.append(f"  sums of 8-bit floats, of {SHORT + 1} bits, are {how}")
        bound = short_bound(plan.kernel.depth.extent.evaluate(sizes), every)
        lines.append(f"  an element is off by {bound:.2g} · (|A| · |B|) at most, A and B the factors")
    if isinstance(plan.kernel, Stream):
        lines += _short_products(plan.kernel, sizes)
    read = {view.source for view in views_of(plan.kernel)} | {v.symbol for v in tensors(plan.kernel, builder.planned.values)}
    lines += _tables(tables, [v for v in builder.planned.values if v.symbol in read], names)
    lines += _parts(builder.planned, plan.kernel, names)
    if builder.fixed[number].values:
        lines.append(f"  {builder.fixed[number]}")
    candidates = [plan.mapping, *_alternatives(plan, problem, builder.target)]
    return _Told(lines, [(c, predict(c, problem, builder.target)) for c in candidates], amount, FLOPS)


def _short_products(kernel: Stream, sizes: MappingOf[Symbol, int]) -> Iterator[str]:
    """Which products of a stream are of 8-bit floats, and how far off they are."""
    if kernel.query.value.element.bits == 8:
        bound = short_bound(kernel.depth.extent.evaluate(sizes), 0)
        how = f"off by {bound:.2g} · (|A| · |B|) at most, A and B the factors"
        yield f"  scores are products of 8-bit floats, of {SHORT + 1} bits: {how}"
    if kernel.interleaved:
        whose = "as the program rounds them" if kernel.rounds else "as the schedule allows"
        yield f"  weights are rounded to e4m3, {whose}: off by 2⁻⁴ of themselves at most, or 2⁻¹⁸ of the greatest of their row"
        every = kernel.promotion
        how = f"promoted: added up in f32 after every {every} keys" if every else "not promoted, as the schedule allows"
        yield f"  their products with values of 8 bits, of {SHORT + 1} bits, are {how}"


def _sources(kernel: Tiled, pages: Pages) -> list[Symbol]:
    """The tensors that lie in these pages."""
    views = {view.value.symbol: view.source for view in kernel.views}
    read = (operand.value.symbol for operand in kernel.operands if pages.page in operand.axes)
    return list(dict.fromkeys(views.get(symbol, symbol) for symbol in read))


def _nest_work(
    builder: KernelBuilder,
    number: int,
    plan: Ready,
    sizes: MappingOf[Symbol, int],
    names: MappingOf[Symbol, str],
    tables: Set[Symbol],
) -> _Told:
    """A plain kernel: what it is over, why it is one, and the time: of the bytes that it must move, of what it loads again, of its
    arithmetic, or of what its threads wait for, whichever takes longest."""
    nest = builder.planned.kernels[number]  # over all of its axes
    assert isinstance(nest, Nest)
    known, tiled = builder.planned.known, plan.mapping.tiled
    time = time_of(nest, known, builder.planned.lying(sizes), sizes, builder.target, plan.mapping)
    work = time.work
    steps = f"{len(nest.steps)} operations" if len(nest.steps) > 1 else "1 operation"
    of_data = any(map(ends_early, nest.steps))
    about = "about " if of_data and work.flops else ""
    lines = [f"{_over(nest, sizes, names)}: {steps}, {about}{_flop(work.flops)}, moves {work.moved:,} bytes"]
    lines += [f"  {DATA_END}"] if of_data else []
    lines += [f"  {reason.worded(names)}" for reason in nest.reasons]
    lines += _tables(tables, used_by(nest, known), names)
    lines += _parts(builder.planned, nest, names)
    again = sum(each.bytes for each in work.loads) if tiled is None else 0
    lines += [f"  loads {again:,} bytes, since each row reads the same again"] if again else []
    by_memory = tiled is None and not again and work.memory(builder.target) >= work.arithmetic(builder.target)
    rate = (work.moved, BANDWIDTH) if by_memory or not work.flops else (work.flops, FLOPS)
    lines += [f"  {time.worded}"] if time.waits else []
    return _Told([*lines, _resources(plan, builder.target)], [(plan.mapping, time.seconds)], *rate)


def _spaced(planned: Planned, number: int, names: MappingOf[Symbol, str]) -> list[str]:
    """What is said of results whose rows are spaced, of what the program itself makes."""
    own = {out.symbol for op in planned.program.block.ops for out in outs_of(op)} & planned.spaced.keys()
    made = [value.symbol for value in results_of(planned.kernels[number]) if value.symbol in own]
    return [f"  rows of {names.get(s, s.name)} begin at multiples of 16 bytes" for s in made]


def _tables(tables: Set[Symbol], used: Iterable[Value], names: MappingOf[Symbol, str]) -> list[str]:
    """What is said of the tables that a kernel reads."""
    found = {v.symbol: prod(d.evaluate({}) for d in v.shape) for v in used if v.symbol in tables}
    return [f"  {names.get(s, s.name)} is a table of {count:,} elements, put on the GPU once" for s, count in found.items()]


def _parts(planned: Planned, kernel: Kernel, names: MappingOf[Symbol, str]) -> list[str]:
    """What is said of results that lie in others."""
    found = {v.symbol: planned.within[v.symbol].source for v in results_of(kernel) if v.symbol in planned.within}
    told = ((names.get(part, part.name), names.get(whole, whole.name)) for part, whole in found.items())
    return [f"  stores {part} in its place in {whole}, which no kernel puts together" for part, whole in told]


def _alternatives(plan: Ready, problem: ScheduleProblem, target: Target) -> list[TileMapping]:
    """The best other mappings, whatever a schedule says."""
    order = ranked(problem, traits(plan.kernel), target)
    return [m for m in order[: ALTERNATIVES + 1] if m != plan.mapping][:ALTERNATIVES]


def _flop(amount: int) -> str:
    return f"{amount:,} FLOP{'s' * (amount != 1)}"


def _over(nest: Nest, sizes: MappingOf[Symbol, int], names: MappingOf[Symbol, str]) -> str:
    """Of what family a plain kernel is, and over what."""
    extents = " × ".join(str(max(0, axis.extent.evaluate(sizes))) for axis in nest.rows)
    return f"{nest.family} over ({', '.join(_axes(nest.rows, names))}) = {extents}" if nest.rows else nest.family


def _nothing(kernel: Kernel, sizes: MappingOf[Symbol, int], names: MappingOf[Symbol, str]) -> str:
    """A kernel that has nothing to do."""
    return _over(kernel, sizes, names) if isinstance(kernel, Nest) else _work(kernel, sizes, names)


def _axes(axes: Sequence[Axis], names: MappingOf[Symbol, str]) -> list[str]:
    """The names of a kernel's axes, no two of them equal."""
    taken, out = set(names.values()), list[str]()
    for axis in axes:
        stem = name = axis.symbol.name
        number = 2
        while name in out or (name != stem and name in taken):
            name, number = f"{stem}{number}", number + 1
        out.append(name)
    return out


def _assumed(stepped: Stepped, given: MappingOf[Symbol, int], names: MappingOf[Symbol, str]) -> list[str]:
    """One line about the sizes that kernels are explained for, and nobody gave."""
    known = sizes_of(stepped.program, given)
    everywhere: dict[Symbol, int] = {}
    for part, _, own in stepped.foreseen(known):
        everywhere |= {s: size for s, size in own.items() if s in known or s in of_extents(part.program)}
    of_data = {part.size for part in everything(stepped.parts.body) if isinstance(part, Compress)}

    def said(symbols: Iterable[Symbol]) -> str:
        return ", ".join(f"{names.get(s, s.name)} = {everywhere[s]}" for s in symbols)

    free = [names.get(s, s.name) for s in known if s not in given and s in everywhere]
    told = [f"{TYPICAL} for {_listed(free)}, which no argument gives"] if free else []
    data = [s for s in everywhere if s in of_data]
    told += [f"{said(data)}, the most that data can give"] if data else []
    counters = [s for s in everywhere if s not in known and s not in of_data]
    told += [f"{said(counters)}, half-way through a loop"] if counters else []
    return [f"with {'; with '.join(told)}"] if told else []


def _walked(stepped: Stepped, sizes: MappingOf[Symbol, int]) -> list[str]:
    """One line where not all of a call is played."""
    if not any(isinstance(part, HostLoop) for part in stepped.parts.body.parts):
        return []
    reason = why_walked(stepped, sizes)
    return (
        []
        if reason is None
        else [f"the host goes through the parts in each call, since {reason}; loops of {WORTH} steps and more inside may be graphs"]
    )


def _listed(names: Sequence[str]) -> str:
    """The first dimensions by name, of which some have none."""
    shown = [name for name in names if not name.startswith("_")][:LISTED]
    more = len(names) - len(shown)
    if not shown:
        return f"{more} size{'s' * (more != 1)}"
    shown += [f"{more} more"] if more else []
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _work(kernel: Tiled, sizes: MappingOf[Symbol, int], names: MappingOf[Symbol, str]) -> str:
    axes = (kernel.rows, kernel.columns, *kernel.reduced)
    extents = " × ".join(str(axis.extent.evaluate(sizes)) for axis in axes)
    times = prod(axis.extent.evaluate(sizes) for axis in kernel.outer)
    outer = f", {times} times" if times != 1 else ""
    return f"{family_of(kernel)} over ({', '.join(_axes(axes, names))}) = {extents}{outer}"


def _resources(plan: Ready, target: Target) -> str:
    source = plan.stages.source
    at_once = target.occupancy(plan.threads, plan.built.registers, source.shared)
    share = at_once * plan.threads / target.threads_per_multiprocessor
    return (
        f"  {plan.blocks:,} block{'s' * (plan.blocks != 1)} of {plan.threads} threads"
        f" · {plan.built.registers} registers for each thread at launch · {source.shared:,} bytes of shared memory"
        f" · occupancy {share:.0%}, {at_once} block{'s' * (at_once != 1)} on a multiprocessor"
    )


def product_flops(kernel: Tiled) -> Dim:
    """Of a kernel's products; what a mask leaves out is counted."""
    outer = prod((axis.extent for axis in kernel.outer), start=Dim.of(2))
    match kernel:
        case MatrixProduct(rows=rows, columns=columns, depth=depth):
            if kernel.segments is not None:  # a row is summed for its own group
                groups = (axis.extent for axis in kernel.outer if axis.symbol != kernel.segments.group)
                outer = prod(groups, start=Dim.of(2))
            return outer * rows.extent * columns.extent * depth.extent * len(kernel.products)
        case Stream(rows=rows, columns=columns, depths=depths, keys=keys):
            return outer * rows.extent * keys.extent * sum((depth.extent for depth in depths), start=columns.extent)
        case _:
            assert_never(kernel)


def _time(seconds: float, amount: float, rate: tuple[float, str], how: str) -> str:
    if seconds == inf:
        return f"{'no time':>12} {how}, blocks without work"
    scale, unit = next((s, u) for s, u, least in ((1.0, "s ", 1.0), (1e3, "ms", 0.01), (1e6, "µs", 0.0)) if seconds >= least)
    return f"{seconds * scale:9.1f} {unit} {how}, {amount / seconds / rate[0]:4.0f} {rate[1]}"
