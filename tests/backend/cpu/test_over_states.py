"""Steps of native loops that write over their states, and those that must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.cpu import loops, run

# How many results of a step are written over a state, and the program.
CASES = {
    "a column": (1, """fun f (x : f64[n, n]) = loop (s = x) for k < n =>
      let val c = for i => sin s[i, k] in for i j => s[i, j] - 0.1 * c[i] * c[j] end"""),
    "nothing of before": (1, """fun f (x : f64[n, n]) = loop (s = x) for k < n =>
      let val c = for i => sin s[k, i] in for i j => c[i] * c[j] * 0.1 end"""),
    "a condition": (1, """fun f (x : f64[n, n]) = loop (s = x) for k < n =>
      let val r = for j => exp s[k, j] / 2.0 in for i j => if i = k then r[j] else s[i, j] end"""),
    "neighbours": (0, "fun f (x : f64[n, n]) = loop (s = x) for k < n => for i j => s[i, (j + 1) % n] + 0.1 * s[i, j]"),
    "transposed": (0, "fun f (x : f64[n, n]) = loop (s = x) for k < n => for i j => 0.5 * s[j, i] + 0.1 * s[i, j]"),
    "read later": (0, """fun f (x : f64[n, n]) = loop (s = x, m = for j < n => 0.0) for k < n =>
      let val t = for i j => s[i, j] * 0.5 + 0.1 in (t, for j => (max i => s[i, j]) + 0.1 * m[j] + max i => t[j, i]) end"""),
    "the state of another": (0, """fun f (x : f64[n, n]) =
      loop (s = x, before = x) for k < n => (for i j => s[i, j] * 0.5 + before[i, j] * 0.1, s)"""),
    "exchanged": (0, "fun f (x : f64[n, n]) = loop (s = x, t = x) for k < n => (t, s)"),
    "read after as what it has become": (1, """fun f (x : f64[n, n]) = loop (s = x, m = for j < n => 0.0) for k < n =>
      let val t = for i j => s[i, j] * 0.5 + 0.1 in (t, for j => t[0, j] + m[j] * max i => sin t[i, j]) end"""),
    "stacked": (1, """fun f (x : f64[n, n]) = unfold (s = x) for k < n =>
      let val c = for i => sin s[i, k] in for i j => s[i, j] - 0.1 * c[i] * c[j] end"""),
    "while": (1, """fun f (x : f64[n, n]) = loop (s = x, k = 0) while (sum i j => abs s[i, j]) > 0.01 for _ < 30 =>
      let val c = for i => sin s[i, 0] in (for i j => 0.5 * s[i, j] + 0.01 * c[i] * c[j], k + 1) end"""),
    "a loop inside": (2, """fun f (x : f64[n, n]) = loop (s = x) for k < n =>
      let val y = loop (y = for j => s[k, j]) for u < 3 => for j => y[j] * 0.5 + 1.0 in for i j => s[i, j] + y[i] end"""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_steps_write_over_their_states(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, text = CASES[name]
    found: list[int] = []
    once = loops._over_states

    def noted(kernel: Any) -> Any:
        made = once(kernel)
        found.append(sum(len(loops._elements(state).variables) > 0 for state in kernel.op.states if state.symbol in made.values()))
        return made

    monkeypatch.setattr(loops, "_over_states", noted)
    m, x = axon.compile(text), np.random.default_rng(1).normal(size=(9, 9))
    wanted, got = m.f(x, target="interpret"), m.f(x, target="cpu")
    for one, other in zip(*((y if isinstance(y, tuple) else (y,)) for y in (got, wanted)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert sum(found) == count


@pytest.mark.parametrize("name", CASES)
def test_wherever_they_come_back_to_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:

    m, x = axon.compile(CASES[name][1]), np.random.default_rng(1).normal(size=(9, 9))
    wanted = m.f(x, target="cpu")
    for enough in (1, 150, 777):
        monkeypatch.setattr(run, "LONG", enough)
        np.testing.assert_equal(m.f(x, target="cpu"), wanted)
