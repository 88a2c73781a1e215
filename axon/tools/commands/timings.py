"""What `axon bench` says of its rows: a table with bars, data, a picture."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from math import isinf, log10
from typing import Any

from axon.tools.commands.bench import Row, Timing
from axon.tools.view.chart import Axis, Series, chart, decades

BAR = 24  # columns
STYLES = ("cyan", "magenta")


def show(rows: Sequence[Row]) -> None:
    """Print a table: sizes, median times, how many times as long the peer takes, how far results are apart. A bar is as long as the
    time, beside the longest of its row; without a peer, of all rows."""
    from rich import box
    from rich.bar import Bar
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in rows[0].sizes:
        table.add_column(name, justify="right")
    for i, timing in enumerate(rows[0].timings):
        table.add_column(Text(timing.name, STYLES[i]), justify="right", no_wrap=True)
    if compared := len(rows[0].timings) > 1:
        table.add_column("ratio", justify="right", no_wrap=True)
        table.add_column("error", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    longest = max(t.median for row in rows for t in row.timings)
    for row in rows:
        most = max(t.median for t in row.timings) if compared else longest
        bars = Group(*(Bar(most, 0, t.median, width=BAR, color=STYLES[i]) for i, t in enumerate(row.timings)))
        times = [f"{seconds_of(t.median)} ±{t.spread:>3.0%}" for t in row.timings]
        more = [] if row.ratio is None else [f"{row.ratio:.2f}×", f"{row.error:.1e}" if row.error else "0"]
        table.add_row(*(f"{size:,}" for size in row.sizes.values()), *times, *more, bars)
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120, highlight=False)
    with console.capture() as drawn:
        console.print(table)
    print("\n".join(line.rstrip() for line in drawn.get().splitlines()).strip("\n"))


def seconds_of(seconds: float) -> str:
    """`12.3 µs`"""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= factor or unit == "ns":
            scaled = seconds / factor
            return f"{scaled:.{max(0, 2 - max(0, int(log10(scaled))) if scaled else 0)}f} {unit}"
    raise AssertionError


def as_json(rows: Sequence[Row]) -> str:
    """The rows as data."""

    def timing(found: Timing) -> dict[str, Any]:
        return {"name": found.name, "median": found.median, "spread": found.spread, "samples": len(found.samples)}

    return json.dumps(
        [
            {"sizes": dict(row.sizes), "timings": list(map(timing, row.timings)), "ratio": row.ratio}
            | ({"error": None if isinf(row.error) else row.error} if row.error is not None else {})
            for row in rows
        ],
        indent=2,
    )


def plot(rows: Sequence[Row], title: str) -> str:
    """The times as a picture (SVG), over the size that was swept, or one choice of sizes after the other."""
    names = list(rows[0].sizes)
    single = len(names) == 1 and len(rows) > 1
    places = [float(row.sizes[names[0]]) if single else float(i) for i, row in enumerate(rows, 1)]
    labels = [", ".join(f"{row.sizes[name]:,}" for name in names) for row in rows]
    times = [t.median for row in rows for t in row.timings]
    series = [
        Series(rows[0].timings[i].name, tuple((x, row.timings[i].median) for x, row in zip(places, rows, strict=True)))
        for i in range(len(rows[0].timings))
    ]
    along = Axis(", ".join(names), tuple(zip(places, labels, strict=True)), log=single and min(places) > 0)
    return chart(title, along, Axis("time of a call", decades(times, seconds_of), log=True), series)
