"""Streams that leave out keys by tables: what data say of rows and keys, wherever it stands, and nothing that some row sees."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof import simulate
from axon.backend.gpu.proof.findings import Violation
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.runtime import reaching, simulated
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.runtime.ways import AS_IT_IS, Planned, following, plan
from axon.backend.gpu.tile.bounds import BLOCK
from axon.backend.gpu.tile.reach import reaching as with_tables
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.stream import Stream
from axon.core.ir import Block
from axon.core.passes.parts import parts, straights
from axon.interpret.program import _block as interpret
from tests.checked import checked
from tests.sample import SOAK

HEAD = "(q : bf16[b, h, s, d]) (k : bf16[b, h, t, d]) (v : bf16[b, h, t, e])"
BODY = """
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)
      val p = nn.softmax (for b h i j => if {condition} then x[b, h, i, j] else -inf)
  in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h, j, e]) end
"""
# A condition: what data it needs, and what it says in NumPy, of i and j and the batch's data.
CONDITIONS: dict[str, tuple[str, str, Any]] = {
    "documents": ("(x1 : i32[b, s]) (x2 : i32[b, t])", "x1[b, i] = x2[b, j]", lambda i, j, x, y: x[i] == y[j]),
    "documents, causal": (
        "(x1 : i32[b, s]) (x2 : i32[b, t])", "x1[b, i] = x2[b, j] andalso j <= i", lambda i, j, x, y: (x[i] == y[j]) & (j <= i),
    ),
    "first and last": (
        "(x1 : i32[b, s]) (x2 : i32[b, s])", "x1[b, i] * 30 <= j andalso j < x2[b, i] * 30 + 40",
        lambda i, j, x, y: (x[i] * 30 <= j) & (j < y[i] * 30 + 40),
    ),
    "not less": ("(x1 : i32[b, s]) (x2 : i32[b, t])", "not (x2[b, j] < x1[b, i])", lambda i, j, x, y: y[j] >= x[i]),
    "other": ("(x1 : i32[b, s]) (x2 : i32[b, t])", "x1[b, i] <> x2[b, j]", lambda i, j, x, y: x[i] != y[j]),
    "either": (
        "(x1 : i32[b, s]) (x2 : i32[b, t])", "x1[b, i] = x2[b, j] orelse j < 10", lambda i, j, x, y: (x[i] == y[j]) | (j < 10),
    ),
    "rows alone": (
        "(x1 : i32[b, s]) (x2 : i32[b, t])", "x1[b, i] > 2 andalso x2[b, j] < 9", lambda i, j, x, y: (x[i] > 2) & (y[j] < 9),
    ),
    "bytes": ("(x1 : u8[b, s]) (x2 : u8[b, t])", "x1[b, i] = x2[b, j]", lambda i, j, x, y: x[i] == y[j]),
}  # fmt: skip


def source(name: str) -> str:
    data, condition, _ = CONDITIONS[name]
    return f"import nn\nfun f {data} {HEAD} =" + BODY.format(condition=condition)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever tables cost."""
    monkeypatch.setattr(reaching, "MOST", 1e9)


def data(chance: Random, count: int) -> Any:
    """Of rows or keys: sorted documents, some without positions, or several in any order, or one."""
    how = chance.choice(["sorted", "sorted", "runs", "any", "one"])
    found = [chance.randrange(6) for _ in range(count)]
    if how == "sorted":
        found.sort()
    elif how == "runs":
        found = [chance.randrange(5) for _ in range(count // 40 + 1) for _ in range(40)][:count]
    elif how == "one":
        found = [3] * count
    return np.array(found)


def exact(name: str, x: Any, y: Any, q: Any, k: Any, v: Any) -> Any:
    """In float64, as written."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None]
    kept = np.stack([CONDITIONS[name][2](i, j, a, b) for a, b in zip(x.astype(np.int64), y.astype(np.int64), strict=True)])
    with np.errstate(all="ignore"):
        scores = np.where(kept[:, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v


def arguments(name: str, chance: Random, s: int, t: int, d: int, e: int) -> list[Any]:
    rng = np.random.default_rng(chance.randrange(2**32))
    by_key = "x2 : i32[b, t]" in CONDITIONS[name][0] or name == "bytes"
    dtype = np.uint8 if name == "bytes" else np.int32
    x, y = (np.stack([data(chance, n) for _ in range(2)]).astype(dtype) for n in (s, t if by_key else s))
    shapes = ((2, 2, s, d), (2, 2, t, d), (2, 2, t, e))
    return [x, y, *(rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes)]


@pytest.mark.parametrize("seed", range(240 if SOAK else 24))
@pytest.mark.usefixtures("always")
def test_random_data(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "verify", lambda _: None)  # of many alike, which others prove
    chance = Random(seed)
    name = [*CONDITIONS][seed % len(CONDITIONS)]
    s, t = (chance.choice([1, 63, 64, 65, chance.randrange(1, 400)]) for _ in range(2))
    given = arguments(name, chance, s, t, chance.choice([16, 64]), chance.choice([8, 64]))
    got, want = np.asarray(axon.compile(source(name)).f(*given, target="simulate"), np.float64), exact(name, *given)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))  # of a row that sees nothing
    np.testing.assert_allclose(got, want, atol=3e-2, rtol=3e-2)


def stream(name: str, shapes: list[tuple[int, ...]]) -> tuple[Planned, Stream, dict[Any, int]]:
    """What runs at these sizes: the plan with its stream, and sizes."""
    program = compiler.lower(checked(source(name)), "f", None)
    *_, part = straights(parts(program).body)
    sizes = program.contract.bind((), shapes)
    planned = plan(part.program, HOPPER, AS_IT_IS)
    while (way := following(planned, {}, sizes, lambda *_: None, HOPPER)) != planned.way:
        planned = plan(part.program, HOPPER, way)
    return planned, next(kernel for kernel in planned.kernels if isinstance(kernel, Stream)), sizes


def shapes(s: int, t: int, *, by_key: bool = True) -> list[tuple[int, ...]]:
    return [(2, s), (2, t if by_key else s), (2, 8, s, 64), (2, 8, t, 64), (2, 8, t, 64)]


@pytest.mark.parametrize("name", [name for name in CONDITIONS if name != "bytes"])
def test_tables_against_enumeration(name: str) -> None:
    """Outside `some` no row of a block keeps a key, inside `every` all do; where one interval is all that is, it is found."""
    chance = Random(name)
    by_key = "x2 : i32[b, t]" in CONDITIONS[name][0]
    for s, t in ((150, 200), (64, 31), (1, 1), (129, 64)):
        program = compiler.lower(checked(source(name)), "f", None)
        sizes = program.contract.bind((), shapes(s, t, by_key=by_key))
        (kernel,) = plan(program, HOPPER).kernels
        assert isinstance(kernel, Stream)
        kernel = with_tables(kernel)
        assert kernel.reaches or name == "other"
        x, y = (np.stack([data(chance, n) for _ in range(2)]).astype(np.int32) for n in (s, t if by_key else s))
        held = {value.symbol: array for value, array in zip(program.inputs, (x, y), strict=False)}
        interpret(Block(tuple(op for reach in kernel.reaches for op in reach.made), ()), sizes, held)
        for batch in range(2):
            i, j = np.arange(s)[:, None], np.arange(t)[None]
            keeps = np.broadcast_to(CONDITIONS[name][2](i, j, x[batch], y[batch]), (s, t))
            for block in range(-(-s // BLOCK)):
                mine = keeps[block * BLOCK : (block + 1) * BLOCK]
                found = [held[reach.table.symbol][batch, block].tolist() for reach in kernel.reaches]
                inside = np.all([(np.arange(t) >= some) & (np.arange(t) < to) for some, to, _, _ in found], axis=0)
                if len(found) == 1 and name in ("documents", "not less"):
                    some, to, every, until = found[0]
                    sees, all_see = np.flatnonzero(mine.any(0)), np.flatnonzero(mine.all(0))
                    assert not set(sees) - set(range(some, to))
                    assert set(range(every, until)) <= set(all_see)
                    if name == "not less":
                        assert [some, to] == ([sees[0], sees[-1] + 1] if len(sees) else [t, 0])
                    whole = len(all_see) > 0 and all_see[-1] - all_see[0] + 1 == len(all_see)
                    assert not whole or [every, until] == [all_see[0], all_see[-1] + 1]
                elif name != "either":
                    assert not (mine.any(0) & ~inside).any()


@pytest.mark.usefixtures("always")
def test_only_what_is_seen_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sorted documents each tile goes over those that its rows are of, and no further."""
    pieces: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    before = simulate._Cluster.limits

    def limits(self: Any, agent: Any, bounds: Any) -> tuple[int, int, int, int]:
        found = before(self, agent, bounds)
        order = self.program.order
        pieces[agent.pieces[order.outer[0].symbol], agent.pieces[order.rows.symbol]] = found
        pieces[-1, -1] = order.rows.step, self.program.steps.step, 0, 0
        return found

    monkeypatch.setattr(simulate._Cluster, "limits", limits)
    lengths = [(100, 30, 270), (0, 390, 10)]
    doc = np.stack([np.repeat(np.arange(3), row) for row in lengths]).astype(np.int32)
    given = [doc, doc, *arguments("documents", Random(0), 400, 400, 64, 64)[2:]]
    got = np.asarray(axon.compile(source("documents")).f(*given, target="simulate"), np.float64)
    np.testing.assert_allclose(got, exact("documents", *given), atol=3e-2)
    step, keys, _, _ = pieces.pop((-1, -1))
    assert len(pieces) == 2 * -(-400 // step)
    for (batch, tile), (start, stop, every, until) in pieces.items():
        mine = doc[batch, tile * step : (tile + 1) * step]
        seen = np.flatnonzero(np.isin(doc[batch], mine))
        assert (start, stop) == (seen[0] // keys, seen[-1] // keys + 1)
        if len(set(mine)) == 1:
            assert (every, until) == (-(-seen[0] // keys), (seen[-1] + 1) // keys)
        else:
            assert every >= until


def test_tables_are_made_where_they_cost_little() -> None:
    """Of thousands of positions, not of a hundred; two kernels for all that is compared, which `explain` speaks of."""
    for positions, made in ((128, False), (8192, True)):
        planned, kernel, _ = stream("documents", shapes(positions, positions))
        assert bool(kernel.reaches) == made == bool(planned.way.reached)
    planned, kernel, _ = stream("either", shapes(8192, 8192))
    assert len(kernel.reaches) == 1
    assert sum(not isinstance(k, Stream) for k in planned.kernels) <= 2


def test_explain_says_what_is_left_out() -> None:
    program = compiler.lower(checked(source("documents, causal")), "f", None)
    told = compiler.explain(program, program.contract.bind((), shapes(8192, 8192)))
    assert "keys that no row of a tile sees are left out, by tables of 4,096 bytes for 64 rows each" in told
    assert told.count("for tiles that leave out the keys that none of their rows sees") == 2


@pytest.mark.usefixtures("always")
def test_first_and_last_keys_of_documents() -> None:
    """What is read at a document's number, and may not be there, is made before, for each row once; some documents are empty."""
    text = f"""import nn
    fun f (first : i32[b, m]) (last : i32[b, m]) (doc : i32[b, s]) {HEAD} =
      let val lo = for b i => first[b, doc[b, i]]
          val hi = for b i => last[b, doc[b, i]]
          val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)
          val p = nn.softmax (for b h i j => if j >= lo[b, i] andalso j < hi[b, i] then x[b, h, i, j] else -inf)
      in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h, j, e]) end"""
    program = compiler.lower(checked(text), "f", None)
    *before, kernel = plan(program, HOPPER).kernels
    assert isinstance(kernel, Stream)
    assert len(with_tables(kernel).reaches) == 2
    assert len(before) == 1
    rng = np.random.default_rng(0)
    ends = np.array([[0, 0, 130, 190, 200], [0, 64, 128, 199, 200]], np.int32)
    first, last = ends[:, :-1], ends[:, 1:]
    doc = np.stack([np.repeat([1, 2, 3], (100, 3, 47)), rng.integers(0, 4, 150)]).astype(np.int32)
    given = [rng.standard_normal((2, 2, n, 32)).astype(ml_dtypes.bfloat16) for n in (150, 200, 200)]
    got = np.asarray(axon.compile(text).f(first, last, doc, *given, target="simulate"), np.float64)
    q, k, v = (a.astype(np.float64) for a in given)
    for batch, head in np.ndindex(2, 2):
        for row in range(150):
            mine = slice(first[batch, doc[batch, row]], last[batch, doc[batch, row]])
            weights = np.exp(k[batch, head, mine] @ q[batch, head, row] / np.sqrt(32))
            np.testing.assert_allclose(got[batch, head, row], weights @ v[batch, head, mine] / weights.sum(), atol=3e-2)


def test_what_tables_cannot_say() -> None:
    """What a row has and what a key has meet on one side; floats; numbers of 64 bits."""
    for data_, condition in (
        ("(x1 : i32[b, s])", "x1[b, i] + j * j < 50"),
        ("(x1 : f32[b, s]) (x2 : f32[b, t])", "x1[b, i] = x2[b, j]"),
        ("(x1 : i64[b, s]) (x2 : i64[b, t])", "x1[b, i] = x2[b, j]"),
    ):
        text = f"import nn\nfun f {data_} {HEAD} =" + BODY.format(condition=condition)
        program = compiler.lower(checked(text), "f", None)
        (kernel,) = plan(program, HOPPER).kernels
        assert isinstance(kernel, Stream)
        assert with_tables(kernel).reaches == ()


@pytest.mark.usefixtures("always")
def test_gradients_leave_out_the_same() -> None:
    text = """import nn
    fun g (ids : i32[s]) (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, d]) (dy : bf16[b, h, s, d]) =
      vjp (fn (q, k, v) => nn.attention_with (fn x => x |> nn.documents ids |> nn.causal) q k v) (q, k, v) dy"""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(4), (70, 5, 65, 60)).astype(np.int32)
    q, k, v, dy = (rng.standard_normal((1, 2, 200, 32)).astype(ml_dtypes.bfloat16) for _ in range(4))
    module = axon.compile(text)
    got = module.g(ids, q, k, v, dy, target="simulate")
    wide = axon.compile(text.replace("bf16", "f64"))
    want = wide.g(ids, *(a.astype(np.float64) for a in (q, k, v, dy)), target="interpret")
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, atol=5e-2 * np.abs(other).max())


def test_mutants_are_found() -> None:
    planned, kernel, sizes = stream("documents", shapes(8192, 8192))
    assert len(kernel.reaches) == 1
    ready = prepare(kernel, planned.lying(sizes), sizes)
    made = stages(ready.kernel, TileMapping(128, 64, 64, 2, consumers=2, cluster=1, keys=64), HOPPER, planned.values, ready.granted)
    program = made.barriers
    assert not isinstance(verify(program), Violation)
    limits = program.bounds
    assert limits is not None
    first, *others = limits.looked
    mutants = [
        replace(program, tensors=tuple(v for v in program.tensors if v != first.table)),
        replace(program, bounds=replace(limits, looked=(replace(first, axes=(program.order.rows.symbol,)), *others))),
        replace(program, bounds=replace(limits, looked=(replace(first, axes=()), *others))),
    ]
    for mutant in mutants:
        found = verify(mutant)
        assert isinstance(found, Violation)
        assert found.kind == "content"


@pytest.mark.usefixtures("always")
def test_data_at_other_places_than_indices() -> None:
    """Read through a view, and at an index that several heads share."""
    text = """import nn
    fun f (ids : i32[n, s + 1]) (q : bf16[2 * n, s, d]) (k : bf16[n, s, d]) (v : bf16[n, s, e]) =
      let val x = for h i j => (sum c => cast f32 q[h, i, c] * cast f32 k[h / 2, j, c]) * rsqrt (cast f32 d)
          val p = nn.softmax (for h, i < s, j < s => if ids[h / 2, i + 1] = ids[h / 2, j] orelse i = j then x[h, i, j] else -inf)
      in for h i e => cast bf16 (sum j => p[h, i, j] * cast f32 v[h / 2, j, e]) end"""
    (kernel,) = plan(compiler.lower(checked(text), "f", None), HOPPER).kernels
    assert isinstance(kernel, Stream)
    (reach,) = with_tables(kernel).reaches
    assert len(reach.table.shape) == 3
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, 9, (2, 171)).astype(np.int32), -1)
    q, k, v = (rng.standard_normal((n, 170, 32)).astype(ml_dtypes.bfloat16) for n in (4, 2, 2))
    got = np.asarray(axon.compile(text).f(ids, q, k, v, target="simulate"), np.float64)
    k, v, ids = (a.astype(np.float64).repeat(2, 0) for a in (k, v, ids))
    scores = np.einsum("hic,hjc->hij", q.astype(np.float64), k) / np.sqrt(32)
    scores[(ids[:, 1:, None] != ids[:, None, :-1]) & ~np.eye(170, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ v, atol=3e-2)


@pytest.mark.usefixtures("always")
def test_parts_of_the_keys_leave_out_the_same() -> None:
    """Few queries and many keys: parts that no row sees leave nothing."""
    given = arguments("documents", Random(5), 5, 1500, 64, 64)
    given[0] = np.array([[0, 0, 2, 3, 9], [4, 4, 4, 4, 4]], np.int32)
    given[1] = np.sort(np.random.default_rng(0).integers(0, 6, (2, 1500)).astype(np.int32), -1)
    planned, kernel, _ = stream("documents", [a.shape for a in given])
    assert planned.way.divided
    assert len(kernel.reaches) == 1
    got, want = np.asarray(axon.compile(source("documents")).f(*given, target="simulate"), np.float64), exact("documents", *given)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, atol=3e-2, rtol=3e-2)
