"""A coercion in a branch that is not taken is not checked, and nothing is read by what it says: on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import axon


def ramp(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


BODIES = [
    # what decides is a size
    ("if n = 3 then (x as f32[3])[0] else 9.0", {"n": 3}, 0),
    ("if n = 3 then sum i => (x as f32[3])[i] else 9.0", {"n": 3}, 3),
    ("if n = 3 andalso m > 1 then sum i => (x as f32[3])[i] else 9.0", {"n": 3, "m": 2}, 3),
    ("if n <> 3 orelse m = 0 then 9.0 else sum i => (x as f32[3])[i]", {"n": 3, "m": 2}, 3),
    ("if m >= 1 andalso n / m = 2 then sum i => (x as f32[2 * m])[i] else 9.0", {"n": 4, "m": 2}, 6),
    ("let val (y : f32[k]) = filter (for i => x[i] > 0.0) x in if k = 3 then (y as f32[3])[2] else 9.0 end", {"n": 4}, 3),
    ("let val (y : f32[k]) = filter (for i => x[i] > 0.0) x in if k = 3 then sum i => (y as f32[3])[i] else 9.0 end", {"n": 4}, 6),
    ("let fun g v = sum i => (v as f32[3])[i] in if n = 3 then g x else 9.0 end", {"n": 3}, 3),
    # data
    ("if b then (x as f32[3])[0] else 9.0", {"n": 3, "b": True}, 0),
    ("if b then sum i => (x as f32[3])[i] else 9.0", {"n": 3, "b": True}, 3),
    ("if n = 3 then if b then sum i => (x as f32[3])[i] else 9.0 else 9.0", {"n": 3, "b": True}, 3),
    ("let val c = not b in if c then 9.0 else sum i => (x as f32[3])[i] end", {"n": 3, "b": True}, 3),
    ("if b andalso (sum i => (x as f32[3])[i]) > 0.0 then 2.0 else 9.0", {"n": 3, "b": True}, 2),
    ("if b then (sort (x as f32[3]))[2] else 9.0", {"n": 3, "b": True}, 2),
    ("if b then let val y = for i => exp ((x as f32[3])[i] * 0.0) in (y + y)[1] end else 9.0", {"n": 3, "b": True}, 2),
    ("loop (s = 9.0) for t < 4 => if t > 2 andalso b then sum i => (x as f32[3])[i] else s", {"n": 3, "b": True}, 3),
    ("loop (s = 9.0) for t < 4 => if s < 8.0 orelse b then sum i => (x as f32[3])[i] else s", {"n": 3, "b": True}, 3),
]


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
@pytest.mark.parametrize(("body", "taken", "value"), BODIES)
def test_a_branch_that_is_not_taken(body: str, taken: dict[str, int], value: float, target: str) -> None:
    f = axon.compile(f"fun f (x : f32[n]) (y : f32[m]) (b : bool) = {body}").f
    for n in (0, 1, 2, 3, 4, 6):
        for m in (0, 2) if "m" in taken else (0,):
            b = False
            if any(case != taken[key] for key, case in (("n", n), ("m", m), ("b", b)) if key in taken):
                assert float(f(ramp(n), ramp(m), b, target=target)) == 9
    assert float(f(ramp(taken["n"]), ramp(taken.get("m", 0)), True, target=target)) == value


REFUSING = [
    "if b then (x as f32[3])[0] else 9.0",
    "if n >= 1 then (x as f32[3])[0] else 9.0",
    "if n >= 1 andalso b then sum i => (x as f32[3])[i] else 9.0",
    "sum for i < n where i > 2 => (x as f32[3])[0]",
    "sum for i < n, j < i where b => (x as f32[3])[0]",
    "loop (s = 9.0) for t < 4 => if t > 2 andalso b then sum i => (x as f32[3])[i] else s",
]


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
@pytest.mark.parametrize("body", REFUSING)
def test_a_branch_that_is_taken(body: str, target: str) -> None:
    f = axon.compile(f"fun f (x : f32[n]) (b : bool) = {body}").f
    for n in (4, 7):
        with pytest.raises(axon.ShapeError, match=f"AX0501.*(?s:.*){n} = 3 does not hold"):
            f(ramp(n), True, target=target)
    f(ramp(3), True, target=target)


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
def test_no_index_gets_there(target: str) -> None:
    f = axon.compile("fun f (x : f32[n]) = sum for i < n where i > 10 => (x as f32[3])[0]").f
    assert [float(f(ramp(n), target=target)) for n in (0, 3, 4, 11)] == [0, 0, 0, 0]
    with pytest.raises(axon.ShapeError, match="AX0501"):
        f(ramp(12), target=target)
    g = axon.compile("fun g (x : f32[n]) (y : f32[m]) = for i < m => (x as f32[m])[i]").g
    assert g(ramp(4), ramp(0), target=target).tolist() == []
    assert g(ramp(2), ramp(2), target=target).tolist() == [0, 1]
    with pytest.raises(axon.ShapeError, match="AX0501"):
        g(ramp(4), ramp(2), target=target)
    h = axon.compile("fun h (x : f32[n]) (y : f32[m]) = for i < m => y[i] + sum j => (x as f32[5])[j]").h
    assert h(ramp(4), ramp(0), target=target).tolist() == []
    assert h(ramp(5), ramp(2), target=target).tolist() == [10, 11]
    k = axon.compile("fun k (x : f32[n]) (y : f32[m]) = sum for i < m, j < i => sum l => (x as f32[5])[l]").k
    assert float(k(ramp(4), ramp(1), target=target)) == 0
    with pytest.raises(axon.ShapeError, match="AX0501"):
        k(ramp(4), ramp(2), target=target)


def test_what_stands_everywhere_is_checked_first() -> None:
    f = axon.compile("fun f (x : f32[n]) = sum i => (x as f32[3])[i]").f
    with pytest.raises(axon.ShapeError, match="AX0501"):
        f(ramp(4))
