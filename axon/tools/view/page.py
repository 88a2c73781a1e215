"""`axon view`: everything about a function on one page of HTML, which refers to nothing outside itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from axon import compiler
from axon.backend.gpu.report.show import TYPICAL
from axon.backend.gpu.tile.families import family_of
from axon.backend.gpu.tile.schedule_file import NOTHING
from axon.base.diagnostics import Diagnostic, counted
from axon.base.errors import AxonError
from axon.host import html
from axon.host.command_arguments import parse_arguments
from axon.shapes.pretty import render
from axon.tools.editor.hover import Hover
from axon.tools.view.draw import SLOTS, Words, amount, draw_graph, draw_timeline
from axon.tools.view.graph import CPU, Graph, as_written, graph, kernels
from axon.tools.view.source import Piece, pieces
from axon.tools.view.summary import summary

if TYPE_CHECKING:
    from axon.backend.gpu.layout.target import Target
    from axon.backend.gpu.report.timeline import Timeline
    from axon.backend.gpu.tile.schedule_file import Schedule
    from axon.base.names import Symbol
    from axon.core.ir import Program
    from axon.host.call import Callee, Session
    from axon.shapes.dimension import Dim

SECONDS = 40e-6  # of a kernel that a picture shows
Sizes = Mapping["Symbol", int]


def page(session: Session, callee: Callee, arguments: Sequence[str], target: str | None = None, measured: int | None = None) -> str:
    """The page of a function, for the arguments given, else the most general one with sizes by name.

    `target` says whose kernels are shown: "cuda", "cpu", or the GPU's if the function has such. A call is timed, on the CPU
    unless the GPU is named, where `measured` is the seed of its random arguments. Raises AxonError.
    """
    given = parse_arguments(list(arguments), seed=None)
    explicit = [given.pop(size) for size in callee.dimensions if size in given]
    sizes: Sizes | None = None
    if given or explicit:
        program, sizes = session.example(callee, explicit, given)
    else:
        program = compiler.lower(session.checked, callee.name, None)
    program = as_written(program)
    variables = {s for v in program.inputs for d in v.shape for s in d.variables} | set(program.explicit)
    at = {s: (sizes or {}).get(s, TYPICAL) for s in variables}
    schedule = session.schedule(callee) if target != "cpu" else None
    place = "cuda" if target == "cuda" else "cpu"
    timed = _timed(session, callee, program, sizes, arguments, measured, place) if measured is not None else ""
    chip = compiler.chip(session.chip)
    return _fill(session, callee, program, graph(program, target, at, schedule or NOTHING, chip), sizes, at, chip, timed)


def _timed(
    session: Session, callee: Callee, program: Program, sizes: Sizes | None, arguments: Sequence[str], seed: int, target: str
) -> str:
    """A section about how long a call takes on "cpu" or "cuda". Raises AxonError where no arguments say which."""
    from axon.tools.view.roofline import roofline

    if sizes is None and callee.parameters:
        note = f"as in `{callee.parameters[0].name}=randn(f32[64, 64])`"
        raise AxonError((Diagnostic("AX0505", f"to measure a call of `{callee.name}`, give its arguments", notes=(note,)),))
    kernels_of = compiler.cost(program, target, sizes or {}).kernels
    number = _numbers(sizes or {})
    amounts = [(number(kernel.flops), number(kernel.moved)) for kernel in kernels_of]
    if any(part is None for pair in amounts for part in pair):
        raise AxonError((Diagnostic("AX0505", f"only data decide how much a call of `{callee.name}` does", notes=()),))
    flops, moved = (sum(pair[i] or 0.0 for pair in amounts) for i in range(2))
    machine = "GPU" if target == "cuda" else "processor"
    drawn = roofline(session, callee, arguments, seed, flops, moved, target)
    return f"<section><h2>Time on this machine's {machine}</h2>{drawn}</section>"


def _fill(
    session: Session, callee: Callee, program: Program, shown: Graph, sizes: Sizes | None, at: Sizes, chip: Target, timed: str
) -> str:
    source = session.checked.source
    names = shown.sizes.names
    words = Words(lambda dim: render(shown.sizes.short(dim), lambda symbol: names.get(symbol, symbol.name)), _numbers(sizes))
    schedule = session.schedule(callee) if shown.tiled else None
    below = f'<section>\n<h2>Kernels</h2>\n<div class="panel" style="padding: 6px 14px">{_table(shown, words)}</div>\n</section>\n'
    below += summary(program, "cpu" if shown.whose == CPU else "cuda", at, schedule, words, names, session.chip) + timed + "\n"
    below += _pipelines(program, shown, at, sizes is None, schedule or NOTHING, chip)
    parts = {
        "name": escape(callee.name),
        "signature": html.source(callee.signature),
        "facts": _facts(source.path, shown, sizes) + _general(callee, shown, sizes),
        "heading": "Operations and kernels",
        "graph": draw_graph(shown, words),
        "legend": f"Boxes are operations, colours around them kernels of {shown.whose}.",
        "sizes": _definitions(shown),
        "below": below,
    }
    start, end = _declared_at(session, callee)
    return filled(source.path, source.text, start, end, parts)


def filled(path: str, text: str, start: int, end: int, parts: Mapping[str, str]) -> str:
    """A page with the source of a module, of which it is about what stands from `start` to `end`."""
    found, hovers = pieces(path, text)
    whole = {
        **parts,
        "title": f"{parts['name']} · {escape(path)}",
        "source": "".join(_lines(found, start, end)),
        "tips": json.dumps([_tip(hover) for hover in hovers]).replace("<", "\\u003c"),
    }
    template = files("axon.tools.view").joinpath("page.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: whole[match[1]], template)
    return page.replace('class="panel source"', f'class="panel source" data-path="{escape(path)}"', 1)


def _definitions(shown: Graph) -> str:
    """What the names stand for that the picture gives to sizes."""
    found = [f"<code>{escape(f'{name} = {size}')}</code>" for name, size in shown.sizes.definitions]
    return f" Sizes that the compiler chose: {', '.join(found)}." if found else ""


def _numbers(sizes: Sizes | None) -> Callable[[Dim], float | None]:
    def number(dim: Dim) -> float | None:
        if sizes is None or not dim.variables <= sizes.keys():
            return float(dim.evaluate({})) if not dim.variables else None
        return float(dim.evaluate(dict(sizes)))

    return number


def _declared_at(session: Session, callee: Callee) -> tuple[int, int]:
    """The offsets of the function's declaration."""
    for decl in compiler.parse(session.checked.source)[0].decls:
        if callee.span is not None and decl.span.start <= callee.span.start < decl.span.end:
            return decl.span.start, decl.span.end
    return 0, 0


def _facts(path: str, shown: Graph, sizes: Sizes | None) -> str:
    parts = [escape(path)]
    if sizes is not None:
        named = {shown.names.get(s, s.name): n for s, n in sizes.items() if s in shown.names}
        parts.append("at " + ", ".join(f"{escape(name)} = {number:,}" for name, number in named.items()))
    count = sum(kernel.moved is not None and kernel.title != "check" for kernel in kernels(shown.items))
    parts.append(f"{counted(count, 'kernel')} of {shown.whose}")
    return " · ".join(parts)


def _general(callee: Callee, shown: Graph, sizes: Sizes | None) -> str:
    """What was chosen where no arguments say it."""
    from axon.base.element import usual

    if sizes is not None:
        return ""
    elements = dict.fromkeys(usual(allowed).value for _, allowed in callee.scheme.elements)
    named = list(dict.fromkeys(re.findall(r"(?<!\w)'[a-z]\w*", callee.signature)))
    rows = list(dict.fromkeys(re.findall(r"\.\.[a-z]\w*", callee.signature)))
    chosen = [f"{' and '.join(elements)} for {', '.join(named)}"] if elements else []
    chosen += [f"no dimensions for {', '.join(rows)}"] if callee.scheme.rows else []
    lines = []
    if chosen:
        lines.append(f"Drawn with {' and '.join(chosen)}, since no arguments say otherwise: with arguments it is drawn for theirs.")
    if shown.whose != CPU and any(d.variables for v in shown.program.inputs for d in v.shape):
        lines.append(
            f"Its kernels are those that serve where every dimension is {TYPICAL:,}: with arguments those for their sizes."
        )
    return "".join(f"<br>{escape(line, quote=False)}" for line in lines)


# ── the source ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(found: list[Piece], start: int, end: int) -> Iterator[str]:
    """The text by lines, those of the declaration marked."""
    number, line, here = 1, list[str](), False
    for piece in found:
        at = piece.start
        for i, part in enumerate(piece.text.split("\n")):
            if i:
                yield _line(number, line, here)
                number, line, here = number + 1, [], False
            if part:
                here = here or (start <= at < end)
                line.append(_span(part, piece, at))
            at += len(part) + 1
    if line:
        yield _line(number, line, here)


def _line(number: int, parts: list[str], here: bool) -> str:
    return f'<span class="l{" here" if here else ""}" data-n="{number}">{"".join(parts)}</span>'


def _span(text: str, piece: Piece, at: int) -> str:
    style = f' style="{piece.style}"' if piece.style else ""
    tip = f' data-t="{piece.tip}"' if piece.tip is not None else ""
    return f'<span data-o="{at}"{tip}{style}>{escape(text)}</span>'


def _tip(found: Hover) -> str:
    code = "\n".join(html.source(line) for line in found.code)
    words = "".join(map(_paragraph, found.text))
    return (f"<pre>{code}</pre>" if code else "") + words


def _paragraph(markdown: str) -> str:
    """A piece of Markdown: paragraphs and examples, or a list."""
    if "```" in markdown:
        pieces = re.split(r"^```\w*\n(.*?)^```$", f"{markdown}\n", flags=re.DOTALL | re.MULTILINE)
        return "".join(_example(piece) if i % 2 else _paragraph(piece.strip("\n")) for i, piece in enumerate(pieces))
    first, *items = f"\n{markdown}".split("\n* ")
    shown = f"<p>{_prose(first.strip())}</p>" if first.strip() else ""
    return shown + ("<ul>" + "".join(f"<li>{_prose(item)}</li>" for item in items) + "</ul>" if items else "")


def _example(text: str) -> str:
    return f"<pre>{html.source(text.rstrip())}</pre>"


def _prose(markdown: str) -> str:
    """A line of Markdown with `code` and **bold**."""
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(markdown, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", shown).replace("\n\n", "<br>").replace("\n", " ")


# ── kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(shown: Graph, words: Words) -> str:
    rows = []
    explained = any(kernel.reasons for kernel in kernels(shown.items))
    related = any(kernel.moved is not None and words.number(kernel.moved) for kernel in kernels(shown.items))
    for kernel in kernels(shown.items):
        cells = [f"<td>{escape(kernel.key[1:])}</td><td>{escape(kernel.title)}</td>"]
        moved, flops = (words.number(d) if d is not None else None for d in (kernel.moved, kernel.flops))
        for dim, unit in ((kernel.moved, "B"), (kernel.flops, "FLOP")):
            cells.append(f'<td class="number">{escape(words.amount(dim, unit)) + kernel.each if dim is not None else ""}</td>')
        ratio = _short(flops / moved) if moved and flops is not None else ""
        why = f'<td class="soft">{"<br>".join(map(escape, kernel.reasons))}</td>' if explained else ""
        cells.append((f'<td class="number">{ratio}</td>' if related else "") + why)
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if not rows:
        return '<p class="soft">Nothing is computed: the results are arguments.</p>'
    heads = ["", "family", "bytes moved", "operations", *(["FLOP per byte"] * related)]
    heads += ["why its operations stand together"] * explained
    note = '<p class="soft facts">Bytes are the least that must move: what the kernel reads or stores of each tensor, once.</p>'
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{''.join(rows)}</table>{note}"


def _short(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _pipelines(program: Program, shown: Graph, at: Sizes, is_typical: bool, schedule: Schedule, chip: Target) -> str:
    """The specialized kernels' roles over time."""
    if not shown.tiled:
        return ""
    from axon.backend.gpu.report.timeline import timelines

    found = timelines(program, at, SECONDS, schedule, chip)
    if not found:
        return ""
    slots = range(min(SLOTS, max(timeline.stages for timeline in found)))
    legend = "".join(f'<span><i style="background:{_SLOTS[i]}"></i>slot {i}</span>' for i in slots)
    legend += (
        '<span><i style="background:var(--wait)"></i>waits</span><span><i style="background:var(--compute)"></i>computes</span>'
    )
    legend += '<span><i style="background:var(--store)"></i>stores</span>'
    typical = "" if not is_typical else f", with {TYPICAL:,} for every dimension,"
    intro = (
        f"What the first thread block of each kernel does in its first microseconds{typical} as the simulator runs its roles. "
        "Numbers are slots of the ring between producer and consumers. "
        "Times are estimates from the rates of an H200; what waits for what is exact."
    )
    drawn = "".join(_pipeline(shown.tiled[timeline.number - 1], timeline) for timeline in found)
    return f'<section><h2>Roles over time</h2><p class="soft facts">{intro}</p><div class="legend">{legend}</div>{drawn}</section>'


_SLOTS = ("#2563a8", "#15803d", "#b45309", "#9d3b8a", "#0e7490", "#6d5bd0")


def _pipeline(number: str, timeline: Timeline) -> str:
    head = f"<h3>{number} · {family_of(timeline.kernel)}</h3>"
    mapping = f'<p class="soft facts">{escape(str(timeline.mapping))} · the first {amount(timeline.seconds * 1e6, "µs")}</p>'
    return f'{head}{mapping}<div class="panel">{draw_timeline(timeline)}</div>'
