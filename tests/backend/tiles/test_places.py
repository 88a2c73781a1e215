"""Tables of places, and how rows and vectors are cut into tiles."""

from __future__ import annotations

import pytest

from axon.backend.tiles import microkernel
from axon.backend.tiles.places import Places, vectors
from axon.base.names import fresh


@pytest.mark.parametrize("width", [1, 7, 16, 17, 54])
def test_every_element_of_a_result_is_kept_once(width: int) -> None:
    p, q = fresh("p"), fresh("q")
    sizes = {p: 5, q: width}
    operand, out = Places({p: width + 2, q: 1}), Places({p: width, q: 1})
    places = []
    for b, c, loaded, kept, whole in vectors((p, q), sizes, operand, out, 16):
        lanes = [lane for lane in range(16) if kept >> lane & 1]
        assert kept & ~loaded == 0
        assert (kept == 0xFFFF) == (whole > 0)
        places += [(int(c) + n, int(b) + lane) for n, lane in enumerate(lanes)]
    wanted = {row * width + column: row * (width + 2) + column for row in range(5) for column in range(width)}
    assert len(places) == len(wanted)
    assert dict(places) == wanted


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (1, 30), (5, 3), (8, 4), (64, 189), (67, 13), (130, 1)])
def test_tiles_cover_all_rows(rows: int, count: int) -> None:
    tiles = microkernel.tiling(rows, count)
    assert [row for first, end, high, _ in tiles for start in range(first, end, high) for row in range(start, start + high)] == [
        *range(rows)
    ]
