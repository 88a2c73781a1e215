"""Streams that read keys and values where they lie, in pages that a table names: what they read, what they must not, and when."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import AxonError, compiler
from axon.backend.gpu.build.cubin import build
from axon.backend.gpu.build.recipe import Stages, stages
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.pages import REACH
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles import ir as roles
from axon.backend.gpu.roles import render as render_barriers
from axon.backend.gpu.roles.barriers import BarrierProgram, Op
from axon.backend.gpu.runtime import simulated, ways
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.packed import all_gathered
from axon.backend.gpu.runtime.ways import Planned, Way
from axon.backend.gpu.tile import divided as dividing_streams
from axon.backend.gpu.tile import ir as tile
from axon.backend.gpu.tile import schedule
from axon.backend.gpu.tile.divided import Division, divided
from axon.backend.gpu.tile.schedule import TileMapping, check
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Nest
from axon.core.ir import Program
from axon.core.passes.parts import parts, straights
from tests.backend.gpu.proof.mutants import drop, elsewhere, mutate, refused, sites
from tests.backend.gpu.runtime.emulated import emulated
from tests.backend.gpu.test_stages import GOLDENS
from tests.backend.gpu.tile.pages import TABLES, Call, Paged, call, drawn
from tests.sample import SOAK

ROWS = (8, 16, 16, 32, 64, 128, 256, 24, 48, 80, 4, 1)
DRAWN = 300 if SOAK else 14


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever boxes cost."""
    for name in ("PAGE_WAIT", "BOX_COPY"):
        monkeypatch.setattr(schedule, name, 0.0)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Planned]:
    """What simulated programs are planned as, in order."""
    found: list[Planned] = []
    made = ways.plan

    def plan(*given: Any) -> Planned:
        found.append(made(*given))
        return found[-1]

    monkeypatch.setattr(simulated, "plan", plan)
    return found


def streams(planned: Planned) -> list[Stream]:
    return [kernel for kernel in planned.kernels if isinstance(kernel, Stream)]


def run(source: str, made: Call) -> Any:
    f = axon.compile(source).f
    with np.errstate(all="ignore"):
        return (f[tuple(made.explicit)] if made.explicit else f)(*made.arguments, target="simulate").astype(float)


def error(got: Any, expected: Any) -> float:
    """Of a result; infinite where one is NaN and the other is not."""
    nan = np.isnan(expected)
    return float("inf") if (np.isnan(got) != nan).any() else float(np.abs(got - expected)[~nan].max(initial=0.0))


def program(source: str) -> Program:
    made = compiler.lower(compiler.check_text(source), "f", None)
    (found,) = (part.program for part in straights(parts(made).body))
    return found


def in_pages(source: str) -> Planned:
    """The kernels of a program that reads all in place that it can."""
    made = program(source)
    return ways.plan(made, HOPPER, Way(paged=frozenset(all_gathered(made))))


@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_caches(seed: int, always: None, plans: list[Planned]) -> None:
    """What no row may see is NaN in memory, pages that are not read garbage in the table."""
    chance = Random(seed)
    form = drawn(chance, ROWS[seed % len(ROWS)])
    pages = max(1, chance.choice([0, 0, 60, 150, 300]) // form.rows + chance.randint(1, 3))
    sizes = (chance.randint(1, 3), chance.randint(1, 2), chance.choice([1, 1, 2, 5, 70]), pages)
    made = call(form, chance, *sizes, *(chance.choice([16, 40, 64, 128]) for _ in range(2)))
    assert error(run(form.source, made), made.expected) < 2e-2, (form, sizes)
    for stream in streams(plans[-1]):
        assert bool(stream.pages) == (form.rows % schedule.PERIOD == 0), form
        assert all((p.front is not None) == (form.kind == "guarded" or form.behind > 0) for p in stream.pages)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", ["checked", "padded", "guarded"])
def test_parts_of_the_keys(kind: str, grouped: bool, always: None, plans: list[Planned], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts begin in any page, and some have nothing before the length."""
    for name in ("PIECE", "LEAST"):
        monkeypatch.setattr(dividing_streams, name, 64)
    monkeypatch.setattr(ways, "division", lambda kernel, decided, *_: None if decided else Division(40, grouped))
    form = Paged(16, kind=kind, group=3, behind=5)
    made = call(form, Random(kind), 3, 2, 2, 30, 64, 64)
    assert error(run(form.source, made), made.expected) < 2e-2
    (stream,) = streams(plans[-1])
    assert stream.pages
    assert stream.part is not None


@pytest.mark.parametrize("table", TABLES)
def test_rows_share_keys_where_they_share_pages(table: str) -> None:
    """What a table is read at keeps rows apart, as an index of keys does."""
    (stream,) = streams(in_pages(Paged(16, table=table, group=4, masked=False).source))
    tiled = divided(stream, Division(None, grouped=True)).stream
    assert [a.symbol.name for a in tiled.outer] == (["h"] if table == "page[j / {rows}]" else ["b", "h"])
    assert ("b" in [a.symbol.name for a in stream.may_be_rows]) == (table == "page[j / {rows}]")


@pytest.mark.parametrize("rows", [16, 64, 128])
def test_pages_of_any_size_are_divided_alike(rows: int) -> None:
    made = compiler.lower(compiler.check_text(Paged(rows, group=4).source), "f", None)
    m = 8192 // rows
    sizes = made.contract.bind([4], [(16, 32, 1, 128), (16 * m, rows, 8, 128), (16 * m, rows, 8, 128), (16, m), (16,)])
    way = Executable(made).serving({}, sizes).planned.way
    assert way.paged
    assert {how.grouped for _, how in way.divided} == {True}


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("kind", ["checked", "guarded"])
def test_a_page_that_is_none_stops_the_program(kind: str, index: str, always: None) -> None:
    form = Paged(16, kind=kind, index=index)
    made = call(form, Random(3), 2, 1, 1, 4, 64, 64)
    page, lengths = made.arguments[3:]
    lengths[:] = 40
    page[:] = np.arange(8).reshape(2, 4)
    for bad in (-1, len(made.arguments[1]), *([2**33] if index == "i64" else [])):
        page[1, 2] = bad
        with pytest.raises(AxonError, match=str(bad)) as told:
            axon.compile(form.source).f(*made.arguments, target="simulate")
        with pytest.raises(AxonError) as wanted:
            axon.compile(form.source).f(*made.arguments, target="interpret")
        assert str(told.value) == str(wanted.value)
        page[1, 2] = 6
    page[1, 3] = 99  # from row 48 on
    if kind == "guarded":
        axon.compile(form.source).f(*made.arguments, target="simulate")


ONE_PAGE = """import nn
fun f (q : bf16[b, h, s, d]) (keys : bf16[p, t, h, d]) (values : bf16[p, t, h, d]) (slot : i32[b]) (lengths : i32[b]) =
  let val k = for b h, j < t, c => keys[slot[b], j, h, c]
      val v = for b h, j < t, c => values[slot[b], j, h, c]
      val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)
      val w = nn.softmax (for b h i j => if j < lengths[b] then x[b, h, i, j] else -inf)
  in for b h i e => cast bf16 (sum j => w[b, h, i, j] * cast f32 v[b, h, j, e]) end
"""


def test_a_slot_for_each_sequence(always: None, plans: list[Planned]) -> None:
    """One page holds all rows."""
    rng = np.random.default_rng(1)
    q, keys, values = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((3, 2, 1, 64), (5, 200, 2, 64), (5, 200, 2, 64)))
    slot, lengths = np.array([4, 0, 4], np.int32), np.array([200, 1, 77], np.int32)
    got = axon.compile(ONE_PAGE).f(q, keys, values, slot, lengths, target="simulate").astype(float)
    k, v = (x.astype(float)[slot].swapaxes(1, 2) for x in (keys, values))
    scores = q.astype(float) @ k.swapaxes(-1, -2) / 8
    scores = np.where((np.arange(200) < lengths[:, None])[:, None, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert error(got, weights / weights.sum(-1, keepdims=True) @ v) < 2e-2
    (stream,) = streams(plans[-1])
    assert stream.pages
    assert len(plans[-1].kernels) == 2  # and what asks whether there is such a slot


TOGETHER = """import nn
fun f (q : bf16[b, h, s, d]) (cache : bf16[{shape}]) (page : i32[b, m]) =
  let val k = for b h, j < 32 * m, c => cache[{key}, j % 32, h, c]
      val v = for b h, j < 32 * m, c => cache[{value}, j % 32, h, c]
  in nn.attention q k v end
"""


@pytest.mark.parametrize("first", [True, False])
def test_keys_and_values_in_one_cache(first: bool, always: None, plans: list[Planned]) -> None:
    at = ("{}, page[b, j / 32]" if first else "page[b, j / 32], {}").format
    source = TOGETHER.format(shape=f"{'2, p' if first else 'p, 2'}, 32, h, d", key=at(0), value=at(1))
    rng = np.random.default_rng(3)
    q, cache = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((2, 2, 3, 64), (2, 9, 32, 2, 64)))
    page = rng.permutation(9)[:6].reshape(2, 3).astype(np.int32)
    given = cache if first else np.ascontiguousarray(cache.swapaxes(0, 1))
    got = axon.compile(source).f(q, given, page, target="simulate").astype(float)
    k, v = (x.astype(float)[page].reshape(2, 96, 2, 64).swapaxes(1, 2) for x in cache)
    scores = q.astype(float) @ k.swapaxes(-1, -2) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert error(got, weights / weights.sum(-1, keepdims=True) @ v) < 2e-2
    (stream,) = streams(plans[-1])
    assert len(stream.pages) == 1
    assert len(plans[-1].kernels) == 2


APART = """import nn
fun f (q : bf16[b, h, s, d]) (keys : bf16[p, 16, h, d]) (values : bf16[r, h, 48, d]) (page : i32[b, 3 * m]) (other : i64[m]) =
  let val k = for b < b, h < h, j < 48 * m, c => keys[page[b, j / 16], j % 16, h, c]
      val v = for b < b, h < h, j < 48 * m, c => values[other[j / 48], h, j % 48, c | 0.0]
  in nn.attention q k v end
"""


def test_keys_and_values_in_pages_of_their_own(always: None, plans: list[Planned]) -> None:
    rng = np.random.default_rng(4)
    shapes = (2, 2, 3, 64), (20, 16, 2, 64), (5, 2, 48, 64)
    q, keys, values = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes)
    page, other = rng.integers(0, 20, (2, 9)).astype(np.int32), np.array([4, -7, 2])
    got = axon.compile(APART).f(q, keys, values, page, other, target="simulate").astype(float)
    k = keys.astype(float)[page].reshape(2, 144, 2, 64).swapaxes(1, 2)
    v = np.where((other >= 0)[:, None, None, None], values.astype(float)[other % 5], 0.0).swapaxes(0, 1).reshape(2, 144, 64)
    scores = q.astype(float) @ k.swapaxes(-1, -2) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert error(got, weights / weights.sum(-1, keepdims=True) @ v) < 2e-2
    (stream,) = streams(plans[-1])
    assert len(stream.pages) == 2


LAYERS = """import nn
fun f (q : bf16[b, h, s, d]) (keys : bf16[l, p, 16, h, d]) (values : bf16[l, p, 16, h, d]) (page : i32[l, b, m]) =
  loop (x = q) for i < l =>
    let val k = for b < b, h < h, j < 16 * m, c => keys[i, page[i, b, j / 16], j % 16, h, c]
        val v = for b < b, h < h, j < 16 * m, c => values[i, page[i, b, j / 16], j % 16, h, c]
    in nn.attention x k v end
"""


@pytest.mark.parametrize("target", ["simulate", "cuda"])
def test_layers_of_a_cache(target: str, always: None, plans: list[Planned], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a loop's counter, in the cache and in the table."""
    gpu = emulated(monkeypatch)
    rng = np.random.default_rng(2)
    shapes = (2, 2, 3, 64), (3, 14, 16, 2, 64), (3, 14, 16, 2, 64)
    q, keys, values = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes)
    page = rng.integers(0, 14, (3, 2, 5)).astype(np.int32)
    got = axon.compile(LAYERS).f(q, keys, values, page, target=target).astype(float)
    x = q.astype(float)
    for layer in range(3):
        k, v = (c[layer].astype(float)[page[layer]].reshape(2, 80, 2, 64).swapaxes(1, 2) for c in (keys, values))
        scores = x @ k.swapaxes(-1, -2) / 8
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        x = (weights / weights.sum(-1, keepdims=True) @ v).astype(ml_dtypes.bfloat16).astype(float)
    assert error(got, x) < 3e-2
    if target == "simulate":
        (stream,) = streams(plans[-1])
        assert stream.pages
    else:
        assert gpu.ran["roles"] == 3


def test_a_schedule_leaves_the_copy(always: None, plans: list[Planned], tmp_path: Any) -> None:
    form = Paged(16)
    (tmp_path / "cache.axon").write_text(form.source)
    (tmp_path / "cache.schedule").write_text("[f]\nkeys = 64\n")
    made = call(form, Random(0), 2, 2, 2, 5, 64, 64)
    got = axon.load(tmp_path / "cache.axon").f(*made.arguments, target="simulate").astype(float)
    assert error(got, made.expected) < 2e-2
    assert not any(stream.pages for stream in streams(plans[-1]))


def test_a_table_that_only_a_condition_keeps_inside_is_no_table() -> None:
    """It would be read before anyone knows."""
    form = Paged(16).source.replace("(lengths : i32[b])", "(lengths : i32[b]) (at : i32[t])").replace("j < 16 * m", "j < t")
    for condition, wanted in (("j < lengths[b]", True), ("j < 16 * m", False)):
        source = form.replace(KEYS, f"if {condition} then {KEYS} else 0.0")
        (stream,) = streams(in_pages(source))
        assert (stream.pages_of(stream.key) is not None) == wanted


# What is read at other places than those of a page, or more of it than keys and values.
KEYS = "keys[page[b, j / 16], j % 16, h, c]"
OTHERS = {
    "rows of their own": KEYS.replace("j / 16", "j % m"),
    "turned around": KEYS.replace("j % 16", "15 - j % 16"),
    "of other sizes": KEYS.replace("j / 16", "j / 32"),
    "under a condition of its own": f"if c < 7 then {KEYS} else 0.0",
    "padded by ones": KEYS.replace("]", " | 1.0]", 2).replace(" | 1.0]", "]", 1),
    "scaled": f"2.0 * {KEYS}",
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_copied_after_all(name: str) -> None:
    source = Paged(16).source.replace(KEYS, OTHERS[name])
    planned = in_pages(source)
    (stream,) = streams(planned)
    assert {p.page for p in stream.pages}.isdisjoint(stream.key.axes)
    assert stream.pages_of(stream.value) is not None
    assert sum(isinstance(kernel, Nest) and len(kernel.rows) == 4 for kernel in planned.kernels) == 1


def test_what_something_else_reads_is_copied() -> None:
    source = Paged(16).source.replace(
        "  in for b h i e =>", "      val t = for b h => sum j c => cast f32 k[b, h, j, c]\n  in for b h i e =>"
    )
    source = source.replace("cast bf16 (sum", "cast bf16 (t[b, h] + sum")
    (stream,) = streams(in_pages(source))
    assert stream.pages_of(stream.key) is None
    assert stream.pages_of(stream.value) is not None


@pytest.mark.parametrize(
    ("rows", "queries", "batch", "keys", "wanted"),
    [
        (16, 1, 16, 8192, True),
        (64, 1, 16, 8192, True),
        (16, 1, 1, 65536, True),
        (4, 1, 16, 8192, False),
        (16, 2048, 4, 8192, False),
    ],
)
def test_what_is_worth_it(rows: int, queries: int, batch: int, keys: int, wanted: bool) -> None:
    """Of many queries keys are read so often that a copy is nothing."""
    made = compiler.lower(compiler.check_text(Paged(rows, group=4).source), "f", None)
    m = keys // rows
    shapes = [(batch, 32, queries, 128), (batch * m, rows, 8, 128), (batch * m, rows, 8, 128), (batch, m), (batch,)]
    planned = Executable(made).serving({}, made.contract.bind([4], shapes)).planned
    (stream,) = streams(planned)
    assert bool(stream.pages) == wanted


def test_explain_says_how_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)  # nothing is compiled
    made = compiler.lower(compiler.check_text(Paged(16, kind="guarded", group=4).source), "f", None)
    shapes = [(16, 32, 1, 128), (8192, 16, 8, 128), (8192, 16, 8, 128), (16, 512), (16,)]
    told = explain(made, made.contract.bind([4], shapes))
    read = "reads keys and values in place, in pages of 16 rows, by boxes of 16, which end with the rows: no copy is made first"
    assert read in told
    assert "boxes of 16 keys" in told
    assert "stops the program where a table names a page that is none" in told
    (moved,) = (line for line in told.splitlines() if line.startswith("stream"))
    assert 2 * 2 * 16 * 8 * 8192 * 128 <= int(moved.rpartition("moves ")[2].split()[0].replace(",", "")) < 1.01 * 2**29


WHERE = """import nn
fun f (q : bf16[b, h, s, d]) (keys : bf16[p, 16, h, d]) (values : bf16[p, 16, h, d]) (page : i32[b, m]) (lengths : i32[b]) =
  let val k = nn.from_pages keys page
      val v = nn.from_pages values page
      val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)
      val top = for b h i => max for j where j < lengths[b] => x[b, h, i, j]
      val z = for b h i => sum for j where j < lengths[b] => exp (x[b, h, i, j] - top[b, h, i])
  in for b h i e => cast bf16 (sum for j where j < lengths[b] =>
       exp (x[b, h, i, j] - top[b, h, i]) / z[b, h, i] * cast f32 v[b, h, j, e]) end
"""


def test_conditions_of_sums(always: None, plans: list[Planned]) -> None:
    """As another way to say the same."""
    form = Paged(16)
    made = call(form, Random(5), 3, 2, 2, 9, 64, 64)
    made.arguments[4][:] = [1, 100, 144]
    assert error(run(WHERE, made), run(form.source, made)) < 1e-2
    assert all(stream.pages for planned in plans if planned.way.paged for stream in streams(planned))
    assert any(planned.way.paged for planned in plans)


ONE = TileMapping(64, 64, 64, 2, consumers=1, cluster=1, keys=64, box=16)
MAPPINGS = [ONE, replace(ONE, box=64), TileMapping(128, 64, 64, 2, consumers=2, cluster=1, keys=48, box=16, turns=True)]


@cache
def forms(kind: str, mapping: TileMapping) -> Stages:
    planned = in_pages(Paged(64, kind=kind, group=2).source)
    (kernel,) = streams(planned)
    results = frozenset(result.value.symbol for result in kernel.results)
    return stages(kernel, mapping, HOPPER, planned.values, Granted(results))


def lowered(kind: str, mapping: TileMapping) -> BarrierProgram:
    return forms(kind, mapping).barriers


def test_every_stage_reads_as_before() -> None:
    """Set AXON_UPDATE=1 to write what is printed now."""
    made = forms("guarded", MAPPINGS[2])
    texts = {
        "tile": tile.render(made.tile),
        "roles": roles.render(made.roles),
        "barriers": render_barriers.render(made.barriers),
        "kernel": made.source.text,
    }
    for stage, text in texts.items():
        file = GOLDENS / f"paged.{stage}"
        if os.environ.get("AXON_UPDATE"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")


def test_machine_code_without_a_gpu() -> None:
    """What a producer holds of tables and boxes fits the few registers that it has beside two consumers."""
    assert not build(forms("guarded", replace(MAPPINGS[2], box=8)), HOPPER).spilled


@pytest.mark.parametrize("kind", ["checked", "guarded"])
@pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
def test_what_the_compiler_makes_is_proved(mapping: TileMapping, kind: str) -> None:
    assert isinstance(verify(lowered(kind, mapping)), Proof)


def later(op: Op) -> tuple[Op, ...]:
    """A page that is looked up of the piece after."""
    assert isinstance(op, b.Look)
    return (replace(op, at=tuple(replace(c, offset=c.offset + c.step) for c in op.at)),)


def of_fewer(op: Op) -> tuple[Op, ...]:
    assert isinstance(op, b.Look)
    return (replace(op, at=op.at[1:]),)


@pytest.mark.parametrize("kind", ["checked", "guarded"])
@pytest.mark.parametrize("change", [drop, later, of_fewer])
def test_a_page_that_was_not_looked_up_is_refused(change: Any, kind: str) -> None:
    made = lowered(kind, ONE)
    places = list(sites(made, b.Look))
    assert len(places) == 4
    for number, op in places:
        refused(mutate(made, number, change), {"content"}, op)


@pytest.mark.parametrize("kind", ["checked", "guarded"])
def test_a_copy_from_elsewhere_is_refused(kind: str) -> None:
    made = lowered(kind, ONE)
    for number, op in sites(made, b.Copy):
        assert isinstance(op, b.Copy)
        for other in elsewhere(op, made.descriptors):
            refused(mutate(made, number, lambda _, other=other: (other,)), {"content", "layout", "bytes"}, other)
        for n in (16, 2048, op.bytes):
            refused(mutate(made, number, lambda op, n=n: (replace(op, offset=op.offset + n),)), {"content", "layout"}, n)


def test_views_and_tables_that_are_others_are_refused() -> None:
    made = lowered("guarded", ONE)
    (pages,) = made.pages
    refused(replace(made, pages=()), {"content"}, "no pages")
    refused(replace(made, views=()), {"content"}, "boxes that go on behind the rows")
    refused(replace(made, pages=(replace(pages, rows=pages.rows * 2),)), {"content"}, "pages of other sizes")
    refused(replace(made, tensors=()), {"content"}, "no table")
    refused(replace(made, mapping=replace(ONE, box=32)), {"content", "layout"}, "other boxes")
    moved = tuple(replace(v, start=tuple(s + 1 for s in v.start)) if pages.front in v.axes else v for v in made.views)
    refused(replace(made, views=moved), {"content"}, "a view that begins elsewhere")
    assert max(op.descriptor.box[2] for _, op in sites(made, b.Copy) if isinstance(op, b.Copy) and len(op.at) == 5) <= REACH


@pytest.mark.parametrize(
    ("change", "words"), [({"box": 0}, "which need them"), ({"box": 12}, "multiple of 8"), ({"box": 48}, "multiple of 8")]
)
def test_boxes_that_do_not_fit_are_told_why(change: dict[str, int], words: str) -> None:
    traits = schedule.Traits(axon.base.element.Element.BF16, (), stream=True, value_across=True, pages=True)
    assert any(words in text for text in check(replace(ONE, **change), HOPPER, traits))
