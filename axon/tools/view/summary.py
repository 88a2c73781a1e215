"""What a page says of a function as a whole: the relations that its sizes satisfy, and what a call costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from axon import compiler
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import said
from axon.tools.view.chart import Axis, Series, chart
from axon.tools.view.draw import Words, amount

if TYPE_CHECKING:
    from axon.backend.gpu.tile.schedule_file import Schedule
    from axon.backend.plan.cost import PlanCost
    from axon.base.names import Symbol
    from axon.core.ir import Program

_FORMULAS = 4  # of memory, of which the largest counts


def summary(
    program: Program,
    target: str,
    at: Mapping[Symbol, int],
    schedule: Schedule | None,
    words: Words,
    names: Mapping[Symbol, str],
    chip: str | None = None,
) -> str:
    """A section of the page; costs as `m.f.cost` has them, at these sizes where kernels are chosen by sizes."""
    facts = [r.render(lambda s: names.get(s, s.name)) for r in said([f.relation for f in program.contract.facts])]
    drawn = ""
    lines = [f"A call satisfies {', '.join(map(_code, facts))}." if facts else "Any sizes will do, as far as shapes agree."]
    try:
        counted = compiler.cost(program, target, at, schedule, chip)
        lines += _costs(counted, words)
        drawn = _over_time(counted, words)
    except (DimensionTooLarge, Unsupported):
        lines.append("What it costs is too large a formula.")
    return f"<section><h2>Sizes and cost</h2>{''.join(f'<p>{line}</p>' for line in lines)}{drawn}</section>"


def _costs(counted: PlanCost, words: Words) -> Iterator[str]:
    flops = sum((kernel.flops for kernel in counted.kernels), start=Dim.of(0))
    moved = sum((kernel.moved for kernel in counted.kernels), start=Dim.of(0))
    most = "at most " if counted.bounds else ""
    done, bytes_ = _amount(flops, "FLOP", words), _amount(moved, "B", words)
    yield f"It does {most}{done}, moves {bytes_} and needs {_memory(counted.peaks, words)}."
    yield (
        '<span class="soft facts">Memory is that of arguments, results and what lies between kernels. '
        f"{' '.join(escape(f'Here {bound}.') for bound in counted.bounds)}</span>"
    )


def _over_time(counted: PlanCost, words: Words) -> str:
    """A drawing of the bytes that are held while each kernel runs; nothing of one kernel, or where sizes are not given."""
    held = [words.number(kernel.held) for kernel in counted.kernels]
    amounts = [n for n in held if n is not None]
    if len(amounts) < 2 or len(amounts) < len(held) or not any(amounts):
        return ""
    steps = [(x, amount) for n, amount in enumerate(amounts, 1) for x in (n - 0.5, n + 0.5)]
    tips = tuple(f"{kernel.title}: {amount(n, 'B')}" for kernel, n in zip(counted.kernels, amounts, strict=True))
    middles = tuple((float(n), most) for n, most in enumerate(amounts, 1))
    along = Axis("kernel", tuple((float(n), str(n)) for n in range(1, len(amounts) + 1)))
    up = Axis("bytes held", tuple((max(amounts) * n / 4, amount(max(amounts) * n / 4, "B")) for n in range(5)))
    line, points = Series("held", tuple(steps), marked=False), Series("", middles, joined=False, labels=tips, colour=0)
    return chart("Memory while each kernel runs", along, up, [line, points])


def _memory(peaks: Sequence[Dim], words: Words) -> str:
    numbers = [words.number(dim) for dim in peaks]
    if all(n is not None for n in numbers):
        return _amount(max(peaks, key=lambda dim: words.number(dim) or 0), "B", words)
    shown = [_amount(dim, "B", words) for dim in peaks[:_FORMULAS]]
    more = ", …" if len(peaks) > _FORMULAS else ""
    return shown[0] if len(peaks) == 1 else f"the largest of {', '.join(shown)}{more}"


def _amount(dim: Dim, unit: str, words: Words) -> str:
    return _code(words.amount(dim, unit))


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
