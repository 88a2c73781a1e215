"""`each` and `fold_leaves`: what JAX's `tree_map` and a reduction over its leaves give, on every target, with records as dicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from tests import ROOT

TARGETS = ("interpret", "cpu", "simulate")
BF16 = ml_dtypes.bfloat16


def tree_map(f: Callable[..., Any], first: Any, *rest: Any) -> Any:
    if isinstance(first, dict):
        return {n: tree_map(f, first[n], *(r[n] for r in rest)) for n in first}
    if isinstance(first, tuple):
        return tuple(tree_map(f, *parts) for parts in zip(first, *rest, strict=True))
    return f(first, *rest)


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict | tuple):
        return [x for _, part in sorted(tree.items() if isinstance(tree, dict) else enumerate(tree)) for x in leaves(part)]
    return [tree]


def net(seed: int, mixed: bool = True) -> Any:
    """Weights in bf16 and f32, or all in f32; a number among them."""
    rng = np.random.default_rng(seed)

    def layer(d: int, h: int) -> Any:
        w = rng.standard_normal((d, h)).astype(np.float32)
        return {"w": w.astype(BF16) if mixed else w, "b": rng.standard_normal(h).astype(np.float32)}

    return {"up": layer(3, 5), "down": layer(5, 3), "scale": np.float32(rng.standard_normal())}


def agree(got: Any, want: Any, rtol: float = 1e-5) -> None:
    for a, b in zip(leaves(got), leaves(want), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype or np.ndim(b) == 0
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=rtol, atol=1e-6)


@pytest.fixture(scope="module")
def m() -> Any:
    return axon.load(ROOT / "tests" / "corpus" / "accepted" / "leaves.axon")


@pytest.mark.parametrize("target", TARGETS)
def test_leaves_of_mixed_element_types(m: Any, target: str) -> None:
    p, g = net(0), net(1)
    wide = tree_map(lambda x: np.float32(x), p)
    agree(m.halves(p, target=target), tree_map(lambda x: x * np.float32(0.5), wide))
    want = tree_map(lambda w, d: np.asarray(np.float32(w) - np.float32(0.1) * np.float32(d)).astype(np.asarray(w).dtype), p, g)
    agree(m.sgd(0.1, p, g, target=target), want, 1e-2)
    norm = np.sqrt(sum(float((np.float64(x) ** 2).sum()) for x in leaves(g)))
    assert m.norm(g, target=target) == pytest.approx(norm, rel=1e-5)
    clipped = m.clipped(1.0, g, target=target)
    agree(clipped, tree_map(lambda x: np.asarray(np.float32(x) / np.float32(norm)).astype(np.asarray(x).dtype), g), 1e-2)
    assert clipped["up"]["w"].dtype == BF16


@pytest.mark.parametrize("target", TARGETS)
def test_optimizer_with_states_in_f32(m: Any, target: str) -> None:
    p, g = net(0), net(1)
    mean = var = tree_map(lambda x: np.zeros_like(x, np.float32), p)
    want = p, mean, var
    got = want
    for t in (1, 2):
        got = m.adam(0.01, t, *got, g, target=target)
        mean = tree_map(lambda m, d: 0.9 * m + 0.1 * np.float32(d), want[1], g)
        var = tree_map(lambda v, d: 0.999 * v + 0.001 * np.float32(d) ** 2, want[2], g)

        def updated(w: Any, m: Any, v: Any, t: int = t) -> Any:
            step = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            return np.asarray(np.float32(w) - 0.01 * step).astype(np.asarray(w).dtype)

        want = tree_map(updated, want[0], mean, var), mean, var
    agree(got[0], want[0], 1e-2)
    agree(got[1], mean, 1e-4)
    agree(got[2], var, 1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_in_loops_and_comprehensions(m: Any, target: str) -> None:
    p, g = net(0, mixed=True), net(1)
    u, q, steps = tree_map(lambda x: np.zeros_like(x, np.float32), p), p, 0
    while steps < 3 and sum(float((np.float64(x) ** 2).sum()) for x in leaves(q)) > 1.0:
        u = tree_map(lambda v, d: np.float32(0.9) * v + np.float32(d), u, g)
        q = tree_map(lambda w, v: np.asarray(np.float32(w) - np.float32(0.1) * v).astype(np.asarray(w).dtype), q, u)
        steps += 1
    got = m.momentum(3, p, tree_map(lambda x: np.zeros_like(x, np.float32), p), g, target=target)
    agree(got[0], q, 2e-2)
    agree(got[1], u, 1e-4)
    stack = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([10, 20], np.float32)}
    agree(m.totals(stack, target=target), stack["w"].sum(1) + stack["b"])
    agree(m.doubled(stack, target=target), tree_map(lambda x: 2 * x, stack))


@pytest.mark.parametrize("target", TARGETS)
def test_tuples_and_tensors_alone(m: Any, target: str) -> None:
    x, y = np.array([1, 5, 2], np.float32), np.array([7, 0], np.float32)
    agree(m.exchanged((x, (np.float32(3), y)), target=target), (-x, (np.float32(-3), -y)))
    agree(m.alone(x, target=target), x + 1)
    assert m.largest((x, y), target=target) == 7


def test_leaves_are_combined_in_the_order_of_their_names() -> None:
    m = axon.compile("""
        fun ordered (p : { b : i32, a : (i32, i32) }) = fold_leaves (fn x y => 10 * x + y, 0) (fn x => x) p
        fun nothing (p : ()) = fold_leaves (op +, 7) (fn x => x) (p, ())
        fun shadowed each (x : f32[n]) = each x
    """)
    assert m.ordered({"a": (1, 2), "b": 3}) == 123
    assert m.nothing(()) == 7


def test_a_function_of_another_module(tmp_path: Path) -> None:
    (tmp_path / "optim.axon").write_text(
        "type pair[n] = { w : f16[n], b : f32 }\n"
        "fun descended (rate : f32) (w : 'a[..s]) (g : 'a[..s]) = cast 'a (cast f32 w - rate * cast f32 g)\n"
        "fun sgd rate (p : pair[n]) (g : pair[n]) = each (descended rate) p g\n"
    )
    (tmp_path / "train.axon").write_text(
        "import optim\n"
        "fun own rate (p : optim.pair[n]) (g : optim.pair[n]) = each (optim.descended rate) p g\n"
        "fun theirs rate (p : { u : optim.pair[n], v : optim.pair[m] }) g = (optim.sgd rate p.u g, each (fn x => x + x) p)\n"
    )
    m = axon.load(tmp_path / "train.axon")
    p = {"w": np.array([1, 2], np.float16), "b": np.float32(3)}
    want = {"w": np.array([0.5, 1], np.float16), "b": np.float32(1.5)}
    agree(m.own(0.5, p, p), want)
    first, second = m.theirs(0.5, {"u": p, "v": p}, p)
    agree(first, want)
    agree(second, tree_map(lambda x: x + x, {"u": p, "v": p}))


NUMBERS = ROOT / "tests" / "corpus" / "accepted" / "unannotated_numbers.axon"


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_captured_without_a_type_is_a_number(target: str) -> None:
    """A leaf keeps its shape, be it a scalar: none is stretched by what meets it."""
    m = axon.load(NUMBERS)

    def layer(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        w, b = rng.standard_normal((2, 3)), rng.standard_normal(3)
        return {"w": w.astype(np.float32), "b": b.astype(np.float32), "scale": np.float32(rng.standard_normal())}

    p, g = layer(0), layer(1)
    stepped = tree_map(lambda w, d: w - np.float32(0.1) * d, p, g)
    for name in ("sgd", "updated", "lifted", "locally"):
        agree(m[name](0.1, p, g, target=target), stepped)
    agree(m.averaged(0.9, p, g, target=target), tree_map(lambda a, b: np.float32(0.9) * a + np.float32(0.1) * b, p, g))
    norm = np.sqrt(sum(float((np.float64(x) ** 2).sum()) for x in leaves(g)))
    agree(m.clipped(1.0, g, target=target), tree_map(lambda x: np.asarray(x / np.float32(norm)), g))
    decayed = m.decayed(0.1, 0.01, p, g, target=target)
    agree(decayed, tree_map(lambda w, d: w - np.float32(0.1) * (d + np.float32(0.01) * w), p, g))
    with pytest.raises(axon.AxonError, match="AX0506"):
        m.sgd(p["b"], p, g)
