"""What an Axon function is asked as a node of PyTorch's graphs, on NumPy's arrays: results, adjoints, tangents, batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon.base.data import replace
from axon.host.call import arguments
from axon.host.recorded import Recorded, taken_apart

PROGRAM = """
type linear[d, k] = { w : f64[d, k], b : f64[k] }
fun dense (p : linear[d, k]) (x : f64[n, d]) = { y = x @ p.w + p.b, t = (sum i j => x[i, j], argmax i j => x[i, j]) }
fun scaled k x = k * x
fun heads {h} (x : f64[h * n]) = for i < h, j => x[(i, j)] ** 2
fun windows {r, s} (x : f64[n]) where r + s <= n = for i < r, j < s => x[i + j] ** 2
fun picked (x : f64[n]) (ids : i32[k]) = for i => x[ids[i]] ** 2
fun kept (x : f64[n]) = { some = filter (x > 0.0) x, places = nonzero (x > 0.0) }
fun power (n : i32) (x : f64) = loop (x = x) for _ < n => x * x
fun x (x : f64) = x * x
fun x0 (xd0 : f64) = xd0 * x xd0
fun power_vjp_1_of_0 (y : f64) = y
"""
M = axon.compile(PROGRAM)
R = np.random.default_rng(3)


def taken(name: str, *given: Any, sizes: tuple[int, ...] = ()) -> tuple[Recorded, list[Any]]:
    """A call as one of tensors, which these arrays are taken for."""
    session, callee = M._session, M[name]._callee
    function = M[name][sizes] if sizes else M[name]
    call, none = taken_apart(
        session, callee, sizes, arguments(callee, given, {}), function._unrecorded, function._beside, "interpret"
    )
    assert not none  # of PyTorch's
    places = tuple(n for n, leaf in enumerate(call.leaves) if isinstance(leaf, np.ndarray))
    leaves = tuple(None if n in places else leaf for n, leaf in enumerate(call.leaves))
    return replace(call, leaves=leaves, places=places), [call.leaves[n] for n in places]


def same(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_structures() -> None:
    w, b, x = R.normal(size=(4, 3)), R.normal(size=3), R.normal(size=(5, 4))
    call, tensors = taken("dense", {"b": b, "w": w}, x)
    assert [t.shape for t in tensors] == [(3,), (4, 3), (5, 4)]
    y, total, row, column = call.forward(tensors)
    same(y, x @ w + b)
    same(total, x.sum())
    assert (row, column) == np.unravel_index(x.argmax(), x.shape)
    assert call.form.floats == (0, 1)
    dy = R.normal(size=(5, 3))
    db, dw, dx = call.backward(tensors, (True, True, True), (dy, 2.0, None, None))
    same(db, dy.sum(0))
    same(dw, x.T @ dy)
    same(dx, dy @ w.T + 2.0)
    db, dw, dx = call.backward(tensors, (False, False, True), (None, 3.0, None, None))
    assert db is dw is None
    same(dx, np.full((5, 4), 3.0))
    assert call.backward(tensors, (True, False, True), (None,) * 4) == [None] * 3
    assert call.backward(tensors, (False,) * 3, (dy, 2.0, None, None)) == [None] * 3
    moved = call.tangents(tensors, (None, w, None))
    same(moved[0], x @ w)
    assert moved[1] == 0
    assert moved[2:] == [None, None]
    xs = R.normal(size=(2, 5, 4))
    y, total, row, column = call.batch([b, w, xs], (False, False, True))
    same(y, xs @ w + b)
    same(total, xs.sum((1, 2)))
    assert row.dtype == np.int32


def test_what_was_made_is_found_again() -> None:
    x, ids = R.normal(size=4), np.array([1, 1, 3], np.int32)
    for _ in range(2):
        call, tensors = taken("picked", x, ids)
        (dx, none) = call.backward(tensors, (True, False), (np.ones(3),))
        same(dx, 2 * x * [0, 2, 0, 1])
        assert none is None
    assert list(call.form.made) == [("backward", (0,), (0,))]
    assert taken("picked", R.normal(size=7), ids)[0].form is call.form  # sizes are no part of a form


def test_dimension_parameters() -> None:
    x = R.normal(size=12)
    for h in (3, 4, 3):
        call, tensors = taken("heads", x, sizes=(h,))
        dy = R.normal(size=(h, 12 // h))
        same(call.backward(tensors, (True,), (dy,))[0], 2 * x * dy.reshape(12))
        assert call.batch([np.stack([x, x])], (True,))[0].shape == (2, h, 12 // h)


def test_several_dimension_parameters() -> None:
    x = R.normal(size=6)
    call, tensors = taken("windows", x, sizes=(2, 3))
    same(call.backward(tensors, (True,), (np.ones((2, 3)),))[0], 2 * x * [1, 2, 2, 1, 0, 0])


@pytest.mark.parametrize("k", [2, 2.0, np.array(2.0), np.float64(2.0)])
def test_scalars_that_stand_for_tensors(k: Any) -> None:
    x, dy = R.normal(size=(2, 3)), R.normal(size=(2, 3))
    call, tensors = taken("scaled", k, x)
    found = call.backward(tensors, (True,) * len(tensors), (dy,))
    same(found[-1], 2 * dy)
    if isinstance(k, np.ndarray):
        same(found[0], (x * dy).sum())
        batched = call.batch([np.array([1.0, 3.0]), x], (True, False))[0]
        same(batched, np.stack([x, 3 * x]))
    same(call.batch([k, x][-len(tensors) :], (False,) * (len(tensors) - 1) + (True,))[0], 2 * x)


def test_sizes_that_data_decide() -> None:
    x = np.array([1.0, -2.0, 3.0])
    call, tensors = taken("kept", x)
    some, places = call.forward(tensors)
    same(some, [1, 3])
    same(places, [0, 2])
    same(call.backward(tensors, (True,), (np.array([5.0, 7.0]), None))[0], [5, 0, 7])
    with pytest.raises(axon.AxonError, match="a batched call of `kept`"):
        call.batch([x[None]], (True,))


def test_names_do_not_clash() -> None:
    for name, wanted in (("x", 6.0), ("x0", 27.0)):
        call, tensors = taken(name, np.array(3.0))
        same(call.backward(tensors, (True,), (1.0,))[0], wanted)
    same(M.x.grad()(3.0), 6.0)


def test_errors_are_told_of_what_the_user_wrote() -> None:
    call, tensors = taken("power", 2, np.array(3.0))
    for _ in range(2):
        with pytest.raises(axon.AxonError) as raised:
            call.backward(tensors, (True,), (1.0,))
        (d,) = raised.value.diagnostics
        assert d.message.endswith("in reverse mode, in a derivative of `power`")
        assert [label.span.text for label in d.labels] == ["loop (x = x) for _ < n => x * x"]
        assert d.notes == (M.power.signature,)
    same(call.tangents(tensors, (np.array(1.0),))[0], 4 * 3.0**3)
    call, tensors = taken("picked", R.normal(size=4), np.array([9], np.int32))
    with pytest.raises(axon.ShapeError) as raised:
        call.batch([tensors[0][None], tensors[1]], (True, False))
    assert raised.value.diagnostics[0].message.endswith(", in a batched call of `picked`")
    assert "picked_mapped" not in str(raised.value)


def test_errors_of_grad_show_the_users_text_alone() -> None:
    m = axon.compile(
        "fun power (n : i32) (x : f64) = loop (x = x) for _ < n => x * x\nfun rows (x : f64[n]) = x\nfun rows_grad x = x"
    )
    with pytest.raises(axon.AxonError) as raised:
        m.power.grad("x")(2, 3.0)
    assert "power_grad" not in str(raised.value)
    assert "asked for here" not in str(raised.value)
    with pytest.raises(axon.AxonError, match=r"in a derivative of `rows`(.|\n)*help: a gradient is that of one number"):
        m.rows.grad()
    assert axon.compile("fun f x = x * x\nfun f_grad x = x").f.grad()(3.0) == 6.0
