"""What Python's own tools say of functions and modules: `inspect.signature`, `help`, tracebacks, pickles."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from tests import ROOT

MODEL = """\
(* Sums of several kinds.
   Two lines. *)

type linear[d, k] = { w : f32[d, k], b : f32[k] }

(* The scaled sum of a row.

   >>> scaled 2.0 [| 1.0 |]
   2.0 *)
sig scaled : 'a -> 'a[n] -> 'a
fun scaled k x = sum i => k * x[i]
fun heads {h} x = for i < h, j => x[(i, j)]
fun dense (p : linear[d, k]) (x : f32[n, d]) = x @ p.w + p.b
fun odd (a, b) (lambda : f32[n]) (y : f32[n]) = a + b + lambda + y
fun out (out : f32[n]) () = out
fun wide {h} (w : f64[n]) = sum i => w[i] * cast f64 h
(* Half of one. *)
val half = 0.5
"""


@pytest.fixture
def m(tmp_path: Path) -> axon.Module:
    (tmp_path / "model.axon").write_text(MODEL)
    return axon.load(tmp_path / "model.axon")


SIGNATURES = {
    "scaled": "(k: 'a, x: 'a[n], *, target=None, out=None) -> 'a",
    "heads": "(x: 'a[h * j], *, target=None, out=None) -> 'a[h, j]",
    "dense": "(p: linear[d, k], x: f32[n, d], *, target=None, out=None) -> f32[n, k]",
    "odd": "(_1: (f32[n], f32[n]), _2: f32[n], /, y: f32[n], *, target=None, out=None) -> f32[n]",
    "out": "(out: f32[n], _2: () = (), /, *, target=None) -> f32[n]",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(m: axon.Module, name: str) -> None:
    assert str(inspect.signature(m[name])) == SIGNATURES[name]


def test_a_call_binds_as_its_signature(m: axon.Module) -> None:
    x = np.ones(3, np.float32)
    for function, given in ((m.scaled, {"x": x, "k": 2.0}), (m.scaled.grad("x"), {"k": 2.0, "x": x}), (m.heads[3], {"x": x})):
        bound = inspect.signature(function).bind(**given)
        np.testing.assert_array_equal(function(*bound.args, **bound.kwargs), function(**given))
    assert inspect.signature(m.out).bind(x).args == (x,)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        inspect.signature(m.scaled).bind(1.0)


def test_documentation(m: axon.Module) -> None:
    assert m.scaled.__doc__ == "sig scaled : 'a -> 'a[n] -> 'a\n\nThe scaled sum of a row.\n\n>>> scaled 2.0 [| 1.0 |]\n2.0"
    assert m.heads.__doc__ == m.heads.signature
    assert str(m.__doc__).startswith("Sums of several kinds.\nTwo lines.\n\nsig scaled : ")
    assert "The scaled sum of a row." in pydoc.render_doc(m.scaled)
    assert str(axon.Function.__doc__).startswith("A declaration that is called with")
    assert str(axon.Module.__doc__).startswith("The declarations of a checked module")
    assert m.scaled.grad("x").__doc__ == "sig scaled_grad : 'a -> 'a[n] -> 'a[n]"
    assert axon.compile("fun f x = x").f.__doc__ == "sig f : 'A -> 'A"


WRONG: dict[str, Callable[[Any], Any]] = {
    "rank": lambda m: m.scaled(1.0, np.ones((2, 2))),
    "missing": lambda m: m.scaled(1.0),
    "target": lambda m: m.scaled(1.0, [1.0], target="nope"),
    "contract": lambda m: m.heads[3](np.ones(4)),
    "sizes": lambda m: m.heads[-1],
    "grad": lambda m: m.scaled.grad("z"),
    "a derivative": lambda m: m.scaled.grad("x")(1.0, np.ones((2, 2))),
    "solve": lambda m: m.scaled.solve(out=(2,)),
    "cost": lambda m: m.scaled.cost(x=3),
    "warmup": lambda m: m.scaled.warmup(1.0, "f32[2, 2]"),
    "a file": lambda m: axon.load("nowhere.axon"),
    "a text": lambda m: axon.compile("fun f x = y"),
    "data": lambda m: axon.compile("fun f (x : 'a[n]) (i : i32) = x[i]").f([1.0], 5),
}


@pytest.mark.parametrize("case", WRONG)
def test_tracebacks_are_short(m: axon.Module, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's frame, and the one that it called; all of them where AXON_DEBUG asks for them."""

    def frames() -> list[str]:
        with pytest.raises(axon.AxonError) as caught:
            WRONG[case](m)
        assert caught.value.__context__ is None or caught.value.__suppress_context__
        return [frame.name for frame in traceback.extract_tb(caught.tb)]

    assert len(frames()) <= 3
    monkeypatch.setenv("AXON_DEBUG", "1")
    assert frames()[:2] == ["frames", "<lambda>"]


def test_pickles(m: axon.Module, tmp_path: Path) -> None:
    """Also in another process: modules, functions, those with dimension parameters, derivatives, and derivatives of them."""
    x = np.array([1.0, 2.0], np.float32)
    calls = {
        "scaled": (m.scaled, (2.0, x)),
        "heads": (m.heads[2], (x,)),
        "grad": (m.scaled.grad(("k", "x")), (2.0, x)),
        "again": (m.scaled.grad("k").value_and_grad("x"), (2.0, x)),
        "sized": (m.wide[3].grad(), (x.astype(np.float64),)),
        "later": (m.wide.grad()[3], (x.astype(np.float64),)),
    }
    (tmp_path / "calls.pickle").write_bytes(pickle.dumps((m, calls)))
    code = "import pickle, sys; m, c = pickle.load(open('calls.pickle', 'rb')); print({n: repr(f(*x)) for n, (f, x) in c.items()})"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert ran.stdout == f"{ {name: repr(f(*given)) for name, (f, given) in calls.items()} }\n", ran.stderr
    assert all(copy.deepcopy(f) is f for f, _ in calls.values())
