"""Tables of places, and how rows and vectors are cut into tiles."""

from __future__ import annotations

import numpy as np
import pytest

from axon.backend.tiles import microkernel
from axon.backend.tiles.places import Places, Vectors
from axon.base.names import fresh


@pytest.mark.parametrize("width", [1, 7, 16, 17, 54])
def test_every_element_of_a_result_is_kept_once(width: int) -> None:
    p, q = fresh("p"), fresh("q")
    sizes = {p: 5, q: width}
    operand, out = Places({p: width + 2, q: 1}), Places({p: width, q: 1})
    places = []
    lines = Vectors.of((p, q), sizes, operand, out, 16).lines(sizes, operand, out, 16, 3, all_read=False)
    assert not lines[-3:, 3].any()
    memory = np.full(5 * width + 16, -1)  # as a tile writes it that is one piece: behind it, that may be read
    for n, (b, c, _, kept, _, _, behind) in enumerate(lines[:-3]):
        own = [int(b) + lane for lane in range(16) if kept >> lane & 1]
        wide = n + behind < len(lines) - 3
        memory[c : c + (16 if wide else len(own))] = [*own, *([-2] * (16 - len(own)) if wide else [])]
    np.testing.assert_array_equal(
        memory[: 5 * width].reshape(5, width), [[row * (width + 2) + k for k in range(width)] for row in range(5)]
    )
    assert (memory[5 * width :] == -1).all()
    for b, c, loaded, kept, whole, read, _ in lines[:-3]:
        lanes = [lane for lane in range(16) if kept >> lane & 1]
        assert (read > 0) == (b + 16 <= 4 * (width + 2) + width)
        assert kept & ~loaded == 0
        assert (kept == 0xFFFF) == (whole > 0)
        places += [(int(c) + n, int(b) + lane) for n, lane in enumerate(lanes)]
    wanted = {row * width + column: row * (width + 2) + column for row in range(5) for column in range(width)}
    assert len(places) == len(wanted)
    assert dict(places) == wanted


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (1, 30), (5, 3), (8, 4), (64, 189), (67, 13), (130, 1)])
def test_tiles_cover_all_rows(rows: int, count: int) -> None:
    tiles = microkernel.tiling(rows, count, 100)
    assert [row for first, end, high, _ in tiles for start in range(first, end, high) for row in range(start, start + high)] == [
        *range(rows)
    ]
