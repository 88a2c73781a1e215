"""Sharded programs as text, the same in every process: what `axon explain --mesh` and goldens show.

mm over model=4, h over model
  a : f32[b, h], [-, model] of f32[b, 4 * h]
  1. local
       sum : f32[b, k] = for i, j => sum c < h => a[i, c] * w[c, j]
  2. all_reduce over model: sum2 : f32[b, k] = sum of sum
       `t` is a result
  gives sum2, [-, -]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from axon.base.names import Symbol
from axon.core.ir import Block, Op, Program, TupleOf, Value
from axon.core.printer import names_in, print_op
from axon.core.sharding.ir import Collective, Layout, Local, Placed, Repeat, Sharded, Step
from axon.core.walk import dimensions_of
from axon.shapes.contracts.contract import Contract
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render


def print_sharded(made: Sharded) -> str:
    """The text of a sharded program, ending in a line feed."""
    whole = _together(made)
    names = names_in(whole)

    def name(symbol: Symbol) -> str:
        return names.get(symbol, symbol.name)

    def typed(value: Value) -> str:
        shape = ", ".join(render(d, name) for d in value.shape)
        return f"{name(value.symbol)} : {value.element.value}" + (f"[{shape}]" if shape else "")

    split = ", ".join(f"{size.name} over {axis}" for size, axis, _ in made.sizes)
    lines = [f"{made.source.name} over {made.mesh}" + (f", {split}" if split else "")]
    lines += [f"  {typed(one.local)}{_layout(one)}" for one in made.inputs]
    lines += _steps(made.steps, "  ", whole, typed, name)
    gives = ", ".join(f"{name(one.local.symbol)}{_layout(one)}" for one in made.results)
    return "\n".join([*lines, f"  gives {gives}"]) + "\n"


def _layout(one: Placed) -> str:
    return f" {told(one.layout)}" if any(one.layout.splits) else ""


def told(layout: Layout) -> str:
    """A layout in brackets: for each dimension the axis that splits it, or `-`; and what is partial."""
    splits = ", ".join("-" if s is None else s.axis for s in layout.splits)
    return f"[{splits}]" + "".join(f" {kind} over {axis} pending" for axis, kind in layout.partial)


def _steps(
    steps: Sequence[Step], indent: str, whole: Program, typed: Callable[[Value], str], name: Callable[[Symbol], str]
) -> list[str]:
    lines = []
    for number, step in enumerate(steps, 1):
        head, below = f"{indent}{number}. ", indent + "     "
        match step:
            case Local(program=program):
                part = step.part
                along = "" if part is None else f", a part along dimension {part.dimension}, from {render(part.begin, name)} on"
                beside = ", beside what is under way" if step.beside else ""
                lines.append(f"{head}local" + ("" if part is None else f", of {typed(part.of)}{along}") + beside)
                lines += [f"{below}known {name(known.made)} is {name(known.holds)}" for known in program.known]
                lines += [below + line for op in program.block.ops for line in print_op(whole, op).splitlines()]
            case Collective():
                lines.append(f"{head}{_exchange(step, typed, name)}")
                lines += [below + step.reason] if step.reason else []
            case Repeat():
                trip = render(step.trip, name) if isinstance(step.trip, Dim) else name(step.trip)
                kind = "unfold" if step.stacked else "loop"
                lines.append(f"{head}{kind} of {trip} steps{' at most' if step.conditional else ''}")
                begin = ", ".join(f"{typed(v)} = {name(s)}" for v, s in zip(step.states, step.initial, strict=True))
                lines.append(f"{below}{begin}")
                lines += _steps(step.steps, below, whole, typed, name)
                lines.append(f"{below}next {', '.join(map(name, step.results))}")
                lines.append(f"{below}gives {', '.join(map(typed, step.outs))}")
    return lines


def _exchange(step: Collective, typed: Callable[[Value], str], name: Callable[[Symbol], str]) -> str:
    along = "" if step.dimension is None else f" along dimension {step.dimension}"
    match step.kind:
        case "all_to_all":
            along += f", split along {step.target}"
        case "shift":
            along = f", {render(step.left, name)} further"
        case "halo":
            along += f", {render(step.left, name)} before and {render(step.right, name)} behind"
            along += ", around the ends" if step.around else ""
    of = f"{step.monoid} of {name(step.source)}" if step.monoid else name(step.source)
    return f"{step.kind} over {step.axis}: {typed(step.result)} = {of}{along}"


def _together(made: Sharded) -> Program:
    """All that is local as one program, which no device runs: it gives every symbol a name of its own."""
    ops: list[Op] = []
    values = [one.local for one in made.inputs]
    for step in _every(made.steps):
        match step:
            case Local(program=program):
                ops += program.block.ops
                values += [] if step.part is None else [step.part.of]
            case Collective(result=result):
                values.append(result)
            case Repeat():
                values += [*step.states, *step.outs]
                values.append(Value(step.counter, step.outs[0].element, ()))
    sizes = (
        *(local for _, _, local in made.sizes),
        *(symbol for _, symbol in made.coordinates),
        *sorted({v for op in ops for v in dimensions_of(op)}, key=lambda s: s.id),
    )
    explicit = tuple(dict.fromkeys(sizes))
    return Program(made.source.name, explicit, (), tuple(values), Contract(explicit, ()), Block(tuple(ops), ()), TupleOf(()))


def _every(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Repeat):
            yield from _every(step.steps)
