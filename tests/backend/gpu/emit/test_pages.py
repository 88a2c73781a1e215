"""Where emitted streams copy rows of pages from, run here as Python, against what PTX says of a copy of a box: what comes must be
the rows that a table says and zeros, whatever stands behind the last row and in the table, and nothing else is read.

The simulator takes boxes from arrays by its own arithmetic, so it cannot tell whether emitted coordinates and the descriptor mean
the same.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime.prepare import prepare, with_views_of
from axon.backend.gpu.tile.schedule import TileMapping
from tests.backend.gpu.emit import as_python
from tests.backend.gpu.tile.pages import Paged
from tests.backend.gpu.tile.test_pages import in_pages, streams

SPACE = 1 << 40  # of addresses, for each table
Copy = tuple[int, Any, tuple[int, ...]]  # where to, the descriptor, and coordinates, innermost first


def asked(text: str, arguments: list[Any], tables: list[Any]) -> list[Copy]:
    """Every copy that the producer of the only block asks for, in order."""
    found: list[Copy] = []

    def load(address: int) -> int:
        number, offset = divmod(address, SPACE)
        table = tables[number - 1]
        assert 0 <= offset < table.nbytes, "a table is read outside"
        return int(table.reshape(-1)[offset // table.itemsize])

    copy_in = lambda rank: lambda to, map_, barrier, *at: found.append((to, map_, tuple(map(int, at))))
    as_python.run(text, arguments, {"copy_in": copy_in, "load_i32": load, "load_i64": load})
    return found


@pytest.mark.parametrize(
    ("form", "box"),
    [
        (Paged(8, kind="guarded", index="i64"), 8), (Paged(16, kind="padded", heads_first=True, behind=3), 16),
        (Paged(16, index="i64", table="page[b, h, j / {rows}]"), 8), (Paged(64, kind="guarded", behind=5, group=2), 32),
        (Paged(64, kind="padded"), 16), (Paged(24, kind="padded", index="i64", behind=1), 8),
    ],
)  # fmt: skip
def test_what_copies_of_boxes_bring(form: Paged, box: int) -> None:
    chance = Random(repr(form))
    rng = np.random.default_rng(chance.randrange(2**32))
    b, n, s, m, width = 2, 2, 1, -(-80 // form.rows), 64
    count = 3 * m
    planned = in_pages(form.source)
    (kernel,) = streams(planned)
    lies = (count, n, form.rows, width) if form.heads_first else (count, form.rows, n, width)
    page_shape = (b, n, m) if "h, j" in form.table else (b, m)
    known = {"g": form.group, "b": b, "n": n, "s": s, "d": width, "e": width, "p": count, "m": m}
    sizes = {symbol: known[symbol.name] for symbol in planned.program.explicit}
    lengths = np.array([0, 53], np.int32)
    page = rng.integers(0, count, page_shape).astype(np.int64 if form.index == "i64" else np.int32)
    if form.kind != "checked":
        page.reshape(-1)[::3] = chance.choice([-1, count, 2**31 - 1, *([2**40 + 1, -(2**35)] if form.index == "i64" else [])])
    lying = planned.lying(sizes)
    ready = prepare(kernel, lying, sizes)
    mapping = TileMapping(64, 64, 64, 2, consumers=1, cluster=1, keys=96 if form.rows == 24 else 64, box=box)
    source = stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted).source
    tensors = with_views_of(ready.kernel, lying, sizes)
    assert not isinstance(tensors, str)
    tables = {"page": page, "lengths": lengths}
    arguments = as_python.given(source, tensors, sizes, {name: SPACE * n for n, name in enumerate(tables, 1)})
    copies = asked(source.text, arguments, [*tables.values()])
    extent = form.rows * m - form.behind
    views = {view.value.symbol: view.source for view in ready.kernel.views}
    for operand in (ready.kernel.key, ready.kernel.value):  # type: ignore[union-attr]
        symbol = operand.value.symbol
        of = views.get(symbol, symbol)
        own = [(to, descriptor, at) for to, descriptor, at in copies if descriptor.tensor == symbol]
        memory = np.arange(1, 1 + int(np.prod(lies)))
        cache = memory.reshape(lies) if form.heads_first else memory.reshape(lies).swapaxes(1, 2)
        first = (tensors[symbol].pointer - lying[of].pointer) // 2
        heads = n * form.group if kernel.rows.symbol.name == "i" and form.group > 1 else n
        for batch, head in product(range(b), range(heads)):
            until = min(extent, int(lengths[batch])) if form.kind == "guarded" else extent
            pieces = max(1, -(-min(extent, int(lengths[batch])) // mapping.keys))
            for piece in reversed(range(pieces)):
                mine, own = own[: mapping.keys // box], own[mapping.keys // box :]
                places = [to for to, _, _ in mine]
                assert [to - places[0] for to in places] == [128 * box * k for k in range(len(mine))]
                lie = tensors[symbol]
                boxes = [as_python.brought(memory, lie.arranged(d.order), d.box, at, first).reshape(box, 64) for _, d, at in mine]
                want = np.zeros((mapping.keys, 64), np.int64)
                for row in range(mapping.keys):
                    j, kv = piece * mapping.keys + row, head // form.group if heads > n else head
                    of_page = int(page[(batch, kv, j // form.rows)[:: 1 if page.ndim == 3 else 2]]) if j < extent else -1
                    if j < until and 0 <= of_page < count:
                        want[row] = cache[of_page, kv, j % form.rows]
                assert (np.concatenate(boxes) == want).all()
        assert not own
