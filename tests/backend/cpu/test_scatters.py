"""Scatters: reductions of what belongs to an index go over their values once, and give what the definition gives."""

import ml_dtypes
import numpy as np
import pytest

import axon
from axon.backend.cpu import nests, run
from axon.backend.cpu.show import show

SOURCE = """
fun count {k} (ids : i32[n]) = for b < k => sum for i where ids[i] = b => 1
fun total {k} (ids : i32[n]) (x : 'a[n, d]) = for b < k, j => sum for i where b = ids[i] => x[i, j]
fun first {k} (ids : i32[n]) (x : 'a[n, d]) = for j, b < k => sum for i where ids[i] = b => x[i, j]
fun largest {k} (ids : i32[n]) (x : f32[n]) = for b < k => max for i where ids[i] = b andalso x[i] < 1.0 => x[i]
fun some {k} (ids : i32[n]) (x : i32[n]) = for b < k => max for i where ids[i] = b => x[i]
fun divided {k} (ids : i32[n]) (by : i32[n]) = for b < k => sum for i where ids[i] / by[i] = b => 1
fun image {k} (ids : i32[n, m]) (x : f32[n, m, c]) = for b < k, c => sum for i j where ids[i, j] = b => x[i, j, c] * 2.0
fun sparse {k} (rows : i32[z]) (cols : i32[z]) (v : 'a[z]) (x : 'a[m]) =
  for i < k => sum for z where rows[z] = i => v[z] * x[cols[z]]
fun matrix {k} (rows : i32[z]) (cols : i32[z]) (v : f32[z]) (x : f32[m, d]) =
  for i < k, j => sum for z where rows[z] = i => v[z] * x[cols[z], j]
fun masked {k} (ids : i32[n]) (x : f32[n]) =
  for b < k => sum for i where x[i] < 1.0 andalso x[i] > -1.0 andalso ids[i] = b andalso b > 0 => x[i]
fun before {k} (ids : i32[n]) = for b < k, j < n => sum for i < j where ids[i] = b => i + j
fun repeated {k} (ids : i32[n]) = loop (s = for b < k => 0) for t < 3 => for b => s[b] + sum for i where ids[i] = b => 1 + t
"""
M = axon.compile(SOURCE)
rng = np.random.default_rng(0)


def both(function, *arguments):
    got, wanted = (function(*arguments, target=target) for target in ("cpu", "interpret"))
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got.astype(float), wanted.astype(float), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lanes", [nests.LANES, 2])
@pytest.mark.parametrize(("n", "k", "d"), [(0, 3, 2), (5, 0, 2), (7, 3, 0), (9, 4, 1), (40, 5, 7)])
def test_scatters(n, k, d, lanes, monkeypatch):
    monkeypatch.setattr(nests, "LANES", lanes)
    ids = rng.integers(-1, k + 2, n).astype(np.int32)  # some belong nowhere
    x = rng.standard_normal((n, d)).astype(np.float32)
    both(M.count[k], ids)
    both(M.total[k], ids, x)
    both(M.first[k], ids, x)
    both(M.largest[k], ids, rng.standard_normal(n).astype(np.float32))
    both(M.image[k], ids.reshape(n, 1), x.reshape(n, 1, d))
    both(M.repeated[k], ids)
    both(M.before[k], ids)  # each lane has another range
    both(M.masked[k], ids, rng.standard_normal(n).astype(np.float32))
    if d:
        cols = rng.integers(0, d, n).astype(np.int32)
        both(M.sparse[k], ids, cols, rng.standard_normal(n), rng.standard_normal(d))
        both(M.matrix[k], ids, cols, rng.standard_normal(n).astype(np.float32), rng.standard_normal((d, 3)).astype(np.float32))


FORMS = {  # whether a reduction is a scatter
    "rows[z] = i": True,
    "i = rows[z]": True,
    "v[z] > 0.0 andalso rows[z] = i": True,
    "rows[z] = i andalso x[cols[z]] > 0.0": True,
    "rows[cols[z]] = i": True,
    "rows[z] / cols[z] = i andalso i > 3": True,
    "i > 3 andalso rows[z] / cols[z] = i": False,  # the condition keeps it from dividing
    "x[cols[z]] > 0.0 andalso rows[z] = i": False,  # what is outside stops it, of whatever row
    "rows[z] = i orelse v[z] > 0.0": False,
    "rows[z] <= i": False,
    "rows[z] = i + cols[z]": False,
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_a_scatter(form):
    source = "fun f {n} (rows : i32[z]) (cols : i32[z]) (v : f32[z]) (x : f32[m]) = for i < n => sum for z where " + form
    m = axon.compile(f"{source} => v[z] * x[cols[z]]")
    arguments = [np.array(ids, np.int32) for ids in ([3, 0, 4, 4, 9], [1, 2, 2, 1, 2])]
    arguments += [np.array(v, np.float32) for v in ([1, -1, 2, -3, 4], [-1, 2, 3])]
    plan = show(m._session.program(m._session.callee("f"), tuple(arguments), {}), "plan")
    assert ("scatter over" in plan) is FORMS[form]
    both(m.f[5], *arguments)


def test_only_what_belongs_somewhere_is_looked_up():
    rows, cols, v = np.array([0, 7], np.int32), np.array([1, 99], np.int32), np.ones(2)
    both(M.sparse[2], rows, cols, v, np.arange(3.0))
    raised = []
    for target in ("interpret", "cpu"):
        with pytest.raises(axon.ShapeError) as error:
            M.sparse[8](rows, cols, v, np.arange(3.0), target=target)
        raised.append(str(error.value))
    assert raised[0] == raised[1]


def test_sums_of_narrow_floats_accumulate_in_f32():
    ids = np.zeros(3000, np.int32)
    x = np.full((3000, 2), 0.1, ml_dtypes.bfloat16)
    got = M.total[1](ids, x, target="cpu")
    np.testing.assert_allclose(got.astype(np.float32), 300.3, rtol=0.01)


def test_errors():
    ids, by = np.array([0, 1], np.int32), np.array([1, 0], np.int32)
    for function, arguments in ((M.divided[2], (ids, by)), (M.some[3], (ids, by))):
        raised = []
        for target in ("interpret", "cpu"):
            with pytest.raises(axon.AxonError) as error:
                function(*arguments, target=target)
            raised.append(str(error.value))
        assert raised[0] == raised[1]
    assert M.divided[0](ids, by, target="cpu").shape == (0,)  # no places: nothing is evaluated


def test_a_scatter_goes_over_its_values_once():
    """A million values and a thousand places are a million steps, not a thousand million."""
    ids = rng.integers(0, 1000, 1_000_000).astype(np.int32)
    assert (M.count[1000](ids, target="cpu") == np.bincount(ids, minlength=1000)).all()
    program = M._session.program(M._session.callee("count"), (ids,), {})
    assert "scatter over b" in show(program, "plan")


def test_scatters_inside_native_loops(monkeypatch):
    monkeypatch.setattr(run, "SMALL_STEP", 10**9)
    both(M.repeated[4], rng.integers(0, 4, 50).astype(np.int32))
