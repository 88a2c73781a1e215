"""Streams in parts: whatever is divided, and however, computes what the whole does, in float64; and what is worth it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.proof.contents import check_contents
from axon.backend.gpu.proof.findings import Found
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.runtime import dividing, simulated, ways
from axon.backend.gpu.tile import divided as dividing_streams
from axon.backend.gpu.tile.divided import Division, divided
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.ir import StoreRows
from axon.backend.gpu.tile.stream import Stream
from axon.base.data import replace
from axon.core.ir import Program
from tests.backend.gpu.streams import NAMES, error, expected, inputs, program
from tests.backend.gpu.tile.test_stream import ONE, simulated_forms
from tests.sample import SOAK

SIZES = {"b": 2, "h": 2, "s": 20, "t": 200, "d": 40, "e": 24, "n": 2, "g": 3}
DRAWN = 400 if SOAK else 6


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where parts have 64 keys."""
    for name in ("PIECE", "LEAST"):
        monkeypatch.setattr(dividing_streams, name, 64)


def divisions(made: Program) -> Iterator[Division]:
    """The ways in which a program's only stream can be divided."""
    (kernel,) = kernels(made)
    assert isinstance(kernel, Stream)
    for tiles in (None, 7, 1000):
        for grouped in (False, True):
            try:
                divided(kernel, Division(tiles, grouped))
            except Unsupported:
                continue
            if tiles or grouped:
                yield Division(tiles, grouped)


def run(made: Program, how: Division, name: str, sizes: dict[str, int], seed: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """The error of a divided run."""
    whole: list[Stream] = []

    def division(kernel: Stream, decided: set[object], *_: object) -> Division | None:
        if kernel.results[0].value.symbol in decided:
            assert kernel.part is not None or how.tiles is None
            return None
        whole.append(kernel)
        return how

    monkeypatch.setattr(ways, "division", division)
    given = inputs(made, sizes, seed)
    explicit = [given.sizes[s] for s in made.explicit]
    with np.errstate(all="ignore"):
        got = simulated.run(made, given.arrays, explicit, seed=seed)[0]
        assert len(whole) == 1
        return error(got, expected(name, given))


@pytest.mark.parametrize("name", NAMES)
def test_every_stream_in_parts(name: str, short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(name)
    found = list(divisions(made))
    assert found or name in WHOLE
    for how in found if SOAK else Random(name).sample(found, min(2, len(found))):
        assert run(made, how, name, SIZES, 1, monkeypatch) < 1.2e-2, how


WHOLE = {"weighted", "conditional"}  # whose sums a condition of their own leaves out


def test_drawn_sizes(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that a mask leaves nothing of, or that lie behind the last key, among them."""
    chance = Random(5)
    for number in range(DRAWN):
        name = chance.choice([name for name in NAMES if name not in WHOLE])
        sizes = {"b": chance.randint(1, 2), "h": chance.randint(1, 3), "n": chance.randint(1, 2), "g": chance.randint(1, 4)}
        sizes |= {"s": chance.randint(1, 40), "t": chance.randint(1, 400), "d": chance.randint(1, 64), "e": chance.randint(1, 64)}
        made = program(name)
        how = chance.choice(list(divisions(made)))
        assert run(made, how, name, sizes, number, monkeypatch) < 1.5e-2, (name, how, sizes)


def test_rows_that_share_keys_are_one_tile() -> None:
    (kernel,) = kernels(program("grouped"))
    assert isinstance(kernel, Stream)
    made = divided(kernel, Division(None, grouped=True)).stream
    assert [a.symbol.name for a in (*made.outer, made.rows)] == ["b", "h", "member_i"]
    (kernel,) = kernels(program("alibi"))  # the slope of a head is not one for a tile then
    assert isinstance(kernel, Stream)
    with pytest.raises(Unsupported, match="no rows share keys"):
        divided(kernel, Division(None, grouped=True))


SOURCE = """
import nn
fun f {g} (q : bf16[b, n * g, s, 128]) (k : bf16[b, n, t, 128]) (v : bf16[b, n, t, 128]) =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h / g, j, c]) * 0.1
      val p = nn.softmax x
  in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h / g, j, e]) end
"""


@pytest.mark.parametrize(
    ("batch", "heads", "group", "queries", "keys", "want"),
    [
        (1, 8, 4, 1, 8192, Division(132, grouped=True)),
        (16, 8, 4, 1, 8192, Division(None, grouped=True)),
        (1, 8, 1, 1, 100_000, Division(132, grouped=False)),
        (1, 8, 4, 1, 128, None),  # two kernels cost more
        (4, 8, 4, 512, 512, None),
    ],
)
def test_what_is_worth_it(batch: int, heads: int, group: int, queries: int, keys: int, want: Division | None) -> None:
    made = compiler.lower(compiler.check_text(SOURCE), "f", None)
    q, kv = (batch, heads * group, queries, 128), (batch, heads, keys, 128)
    (kernel,) = kernels(made)
    assert isinstance(kernel, Stream)
    found = dividing.division(kernel, set(), made.contract.bind([group], [q, kv, kv]), HOPPER)
    # With one query a head shares its keys with nobody but the heads of its group.
    assert found == want or (group == 1 and found is not None and found.tiles == 132)


def test_a_group_that_is_not_whole_is_not_one_tile() -> None:
    """Heads that g does not divide: the last group has fewer."""
    source = SOURCE.replace("n * g, s", "h, s")
    made = compiler.lower(compiler.check_text(source), "f", None)
    (kernel,) = kernels(made)
    assert isinstance(kernel, Stream)
    for heads, grouped in ((32, True), (30, False)):
        sizes = made.contract.bind([4], [(1, heads, 1, 128), (1, 8, 8192, 128), (1, 8, 8192, 128)])
        found = dividing.division(kernel, set(), sizes, HOPPER)
        assert found is not None
        assert found.grouped == grouped


def test_statistics_are_stored_once() -> None:
    """What leaves a row's statistics out, or stores them twice, is no proof."""
    made = program("full")
    (kernel,) = kernels(made)
    assert isinstance(kernel, Stream)
    parts = divided(kernel, Division(132, grouped=False)).stream
    barriers = simulated_forms(parts, ONE, made)

    def without(ops: tuple[b.Op, ...], times: int) -> tuple[b.Op, ...]:
        found: list[b.Op] = []
        for op in ops:
            if isinstance(op, b.Tiles):
                op = replace(op, body=without(op.body, times))
            found += [op] * (times if isinstance(op, StoreRows) else 1)
        return tuple(found)

    check_contents(barriers)
    for times in (0, 2):
        roles = tuple(replace(role, body=without(role.body, times)) for role in barriers.roles)
        with pytest.raises(Found, match="stored"):
            check_contents(replace(barriers, roles=roles))
