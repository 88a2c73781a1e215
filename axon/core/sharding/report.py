"""What a sharded program costs, in words: `axon explain --mesh`.

Bytes are those that one device sends, as a formula of the whole sizes and at some. Times are predicted from the rates of a table:
that of a link, whose latency each collective pays, and those of a device for what it computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Compute, Value
from axon.core.known import present
from axon.core.operation_count import flops
from axon.core.sharding.ir import Collective, Local, Placed, Repeat, Sharded, Step
from axon.core.sharding.layouts import Rates, elements, exchanged, guessed, rings
from axon.core.sharding.plan import TRIPS, literal
from axon.core.sharding.printer import told
from axon.core.walk import results_of
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render


@dataclass(frozen=True, slots=True)
class Cost:
    """What one collective costs: `factor * count` bytes, `count` in local sizes, `times` of it in a call; in `pieces`, what these
    cost together."""

    step: Collective
    factor: Fraction
    count: Dim
    bytes: int
    seconds: float
    times: int
    loops: tuple[str, ...]  # around it, in words
    pieces: int = 1


def costs(made: Sharded, dims: Mapping[Symbol, int], rates: Rates) -> list[Cost]:
    """What each collective of a call costs, of the whole sizes `dims`."""
    sizes = made.environment(dims, {axis: 0 for axis, _ in made.mesh.axes})
    values = {one.local.symbol: one.local for one in made.inputs}
    found: list[Cost] = []
    for cost in _costs(made, made.steps, values, sizes, _literals(made.steps), rates, 1, (), None):
        if cost.step.piece is None or not cost.step.piece[0]:
            found.append(cost)
        else:
            of = max((n for n, one in enumerate(found) if one.step.reason == cost.step.reason and one.pieces == cost.step.piece[0]))
            before = found[of]
            found[of] = replace(before, count=before.count + cost.count, bytes=before.bytes + cost.bytes,
                                seconds=before.seconds + cost.seconds, pieces=before.pieces + 1)  # fmt: skip
    return found


def _costs(
    made: Sharded,
    steps: Sequence[Step],
    values: dict[Symbol, Value],
    sizes: dict[Symbol, int],
    literals: Mapping[Symbol, int],
    rates: Rates,
    times: int,
    loops: tuple[str, ...],
    around: tuple[Symbol, int] | None,
) -> Iterator[Cost]:
    for step in steps:
        match step:
            case Local(program=program):
                values.update({value.symbol: value for value in results_of(program)})
                values.update({} if step.part is None else {step.part.of.symbol: step.part.of})
                for size, _ in step.defines:
                    sizes.setdefault(size, guessed(Dim.of(size), sizes))
            case Collective():
                source = values[step.source]
                values[step.result.symbol] = step.result
                if step.kind == "slice":
                    continue
                count = exchanged(step.kind, source.shape, step.dimension, step.left + step.right)
                factor = rings(step.kind, made.mesh.size(step.axis)) * (source.element.bits // 8)
                sent = int(factor * guessed(count, sizes))
                often = times
                if step.kind == "shift" and around is not None:  # not in the steps that ask for what the device has
                    counter, trips = around
                    often = times // trips * sum(guessed(step.left, {**sizes, counter: t}) > 0 for t in range(trips))
                link = rates.over(step.axis)
                yield Cost(step, factor, count, sent, link.latency + sent / link.bandwidth, often, loops)
            case Repeat():
                values.update({v.symbol: v for v in (*step.states, *step.outs)})
                trips = _trips(step, sizes, literals)
                many = render(step.trip) if isinstance(step.trip, Dim) else str(literals.get(step.trip, f"`{step.trip.name}`"))
                inside = {**sizes, step.counter: trips // 2}
                turn = (step.counter, trips) if trips else None
                yield from _costs(made, step.steps, values, inside, literals, rates, times * trips, (*loops, many), turn)


def _literals(steps: Sequence[Step]) -> dict[Symbol, int]:
    """The scalars of which a program states the value: trip counts, mostly."""
    programs = [step.program for step in steps if isinstance(step, Local)]
    found = ((op.outs[0].symbol, literal(op)) for p in programs for op in p.block.ops if isinstance(op, Compute))
    return {symbol: value for symbol, value in found if value is not None}


def _trips(step: Repeat, sizes: Mapping[Symbol, int], literals: Mapping[Symbol, int]) -> int:
    return guessed(step.trip, sizes) if isinstance(step.trip, Dim) else literals.get(step.trip, TRIPS)


def computed(steps: Sequence[Step], sizes: Mapping[Symbol, int], literals: Mapping[Symbol, int]) -> int:
    """The floating-point operations of one device."""
    total = 0
    for step in steps:
        match step:
            case Local(program=program):
                total += sum(guessed(flops(op), sizes) for op in present(program).block.ops)
            case Repeat():
                trips = _trips(step, sizes, literals)
                if any(isinstance(s, Collective) and s.kind == "shift" for s in step.steps):  # a block may be left out
                    total += sum(computed(step.steps, {**sizes, step.counter: t}, literals) for t in range(trips))
                else:
                    total += trips * computed(step.steps, {**sizes, step.counter: trips // 2}, literals)
            case _:
                pass
    return total


# ── as text ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(made: Sharded, dims: Mapping[Symbol, int], rates: Rates) -> str:
    """How a program is shared: what lies where, each collective with its reason, its bytes and its time, and their sums."""
    sizes = made.environment(dims, {axis: 0 for axis, _ in made.mesh.axes})
    split = ", ".join(f"{size.name} over {axis}" for size, axis, _ in made.sizes) or "nothing is split"
    lines = [f"{made.source.name} over {made.mesh}: {split}"]
    named = sorted({s for s in dims if s.name}, key=lambda s: s.id)
    lines.append(f"  at {', '.join(f'{s.name} = {dims[s]:,}' for s in named)}" if named else "")
    held = sum(_bytes(one.local, sizes) for one in made.inputs)
    whole = sum(_bytes(one.whole, dims) for one in made.inputs)
    lines.append(f"  a device holds {held:,} bytes of the {whole:,} of the parameters")
    lines += _table(made.inputs)
    lines.append("  and gives")
    lines += _table(made.results)
    found = costs(made, dims, rates)
    for number, cost in enumerate(found, 1):
        lines += _one(number, cost, made)
    sent, seconds = sum(c.bytes * c.times for c in found), sum(c.seconds * c.times for c in found)
    count = sum(c.times for c in found)
    last = made.environment(dims, {axis: size - 1 for axis, size in made.mesh.axes})  # of causal rows those with most to do
    work = computed(made.steps, last, _literals(made.steps))
    if found:
        plural = "collective" if count == 1 else "collectives"
        lines.append(f"  in all {count:,} {plural}; a device sends {sent:,} bytes, {_time(seconds)} over {rates.name} (predicted)")
    else:
        lines.append("  nothing is exchanged")
    at = f"{_time(work / rates.flops)} at {rates.flops / 1e12:g} TFLOP/s"
    lines.append(f"  a device computes {work:,} floating-point operations, {at}")
    return "\n".join(line for line in lines if line) + "\n"


def _table(values: Sequence[Placed]) -> list[str]:
    rows = []
    for one in values:
        shape = f"[{', '.join(render(d) for d in one.whole.shape)}]" if one.whole.shape else ""
        layout = told(one.layout) if any(one.layout.splits) else ""
        rows.append((one.whole.symbol.name, f"{one.whole.element.value}{shape}", layout))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    return [f"    {name:<{widths[0]}}  {type_:<{widths[1]}}  {layout}".rstrip() for name, type_, layout in rows]


def _bytes(value: Value, sizes: Mapping[Symbol, int]) -> int:
    return guessed(elements(value.shape), sizes) * (value.element.bits // 8)


def _one(number: int, cost: Cost, made: Sharded) -> Iterator[str]:
    step = cost.step
    combining = f"{step.monoid} of " if step.monoid else ""
    along = "" if step.dimension is None else f", dimension {step.dimension}"
    along += "" if step.target is None else f" to {step.target}"
    along += f", in {cost.pieces} pieces" if cost.pieces > 1 else ""
    each = "".join(f", in each of {around} steps" for around in cost.loops)
    yield f"  {number}. {step.kind} over {step.axis}: {combining}{step.result.symbol.name}{along}{each}"
    formula = _formula(cost, made)
    sends = f"{formula} = {cost.bytes:,}" if cost.count.constant is None else f"{cost.bytes:,}"
    yield f"       sends {sends} bytes, {_time(cost.seconds)}"
    yield f"       {step.reason}"
    if step.span is not None:
        yield f"       {_place(step.span)}"


def _formula(cost: Cost, made: Sharded) -> str:
    """The bytes of a collective by the whole sizes: `3/2 * b * s * d`."""
    devices = {local: (Dim.of(whole), made.mesh.size(axis)) for whole, axis, local in made.sizes}
    inside = {local: whole // p for local, (whole, p) in devices.items()}
    parts = []
    for coefficient, monomial in cost.count.terms:
        factor, of = cost.factor * coefficient, Dim.of(1)
        for atom in monomial:
            if isinstance(atom, Symbol) and atom in devices:
                whole, p = devices[atom]
                factor, of = factor / p, of * whole
            else:
                of = of * Dim({(atom,): 1}).substitute(inside)
        parts.append(f"{factor} * {render(of)}" if monomial and factor != 1 else render(of) if monomial else str(factor))
    return " + ".join(parts) or "0"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return "less than 1 ns"


def _place(span: Span) -> str:
    line, _ = span.file.position(span.start)
    text = " ".join(span.text.split())
    return f"line {line} of {span.file.path}: {text if len(text) <= 80 else text[:77] + '...'}"
