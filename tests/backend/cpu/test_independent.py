"""Loops of many that go their own way are shared by threads, and give the same bits; others stay with one thread."""

import numpy as np
import pytest

import axon
from axon.backend.cpu import executable, run, threads
from axon.backend.cpu.run import CpuRun

SHARED = {
    "alone": "fun alone (x : f64[c, d]) (w : f64[d, d]) = loop (s = x) for _ < 40 => for i j => tanh (sum k => s[i, k] * w[k, j])",
    "two states": """fun f (x : f64[c, d]) (w : f64[d, d]) =
  loop (s = x, y = for _ < c => 0.0) for t < 40 =>
    (for i j => sin s[i, j] + w[j, j] / cast f64 (t + 1), for i => y[i] + sum j => s[i, j])""",
    "a loop inside": """fun f (x : f64[c, d]) (w : f64[d, d]) =
  loop (s = x) for t < 20 =>
    let val seen = unfold (z = s) for u < 3 => for i j => cos z[i, j] * w[u % d, j]
    in for i j => s[i, j] * 0.5 + sum u => seen[u, i, j] end""",
    "a count beside": """fun f (x : f64[c, d]) (w : f64[d, d]) =
  loop (s = x, n = 0) for _ < 40 => (for i j => s[i, j] * w[n % d, j], n + 2)""",
    "while": """fun f (x : f64[c, d]) (w : f64[d, d]) =
  loop (s = x, n = 0) while n < 30 for _ < 40 => (for i j => s[i, j] * 0.5 + w[0, j], n + 1)""",
    "a gradient": """fun f (x : f64[c, d]) (w : f64[d, d]) =
  loop (s = x) for _ < 20 =>
    for i => grad (fn v => sum j => tanh (sum k => v[k] * w[k, j])) s[i, ..]""",
}
ALONE = {
    "neighbours": "fun f (x : f64[c, d]) (w : f64[d, d]) = loop (s = x) for _ < 40 => for i < c, j => s[(i + 1) % c, j] + w[0, j]",
    "all of them": """fun f (x : f64[c, d]) (w : f64[d, d]) =
  loop (s = x) for _ < 40 => let val m = for j => sum i => s[i, j] in for i j => s[i, j] * 0.5 - 0.01 * m[j] + w[0, j] end""",
    "which it is": "fun f (x : f64[c, d]) (w : f64[d, d]) = loop (s = x) for _ < 40 => for i j => s[i, j] * w[0, j] + cast f64 i",
    "how many": "fun f (x : f64[c, d]) (w : f64[d, d]) = loop (s = x) for _ < 40 => for i j => s[i, j] * w[0, j] + cast f64 c",
    "the greatest": """fun f (x : f64[c, d]) (w : f64[d, d]) =
  loop (s = x, going = true) while going for _ < 40 =>
    let val s = for i j => s[i, j] * 0.5 + w[0, j] in (s, (max i j => s[i, j]) > 0.1) end""",
    "a running sum": """fun f (x : f64[c, d]) (w : f64[d, d]) =
  loop (s = x) for _ < 40 => let val y = for j => scan (op +, 0.0) i => s[i, j] in for i j => 0.1 * y[j, i] + w[0, j] end""",
}


@pytest.mark.parametrize("name", SHARED | ALONE)
def test_threads_share_what_goes_its_own_way(name, monkeypatch):
    """Whatever the number of threads, and wherever the function comes back, bits are those of one thread."""
    shared: list[bool] = []
    once = CpuRun.shared_loop

    def noted(*arguments):
        once(*arguments)
        shared.append(True)

    monkeypatch.setattr(CpuRun, "shared_loop", noted)
    monkeypatch.setattr(threads, "WORTH_SHARING", 10)
    monkeypatch.setattr(executable, "SMALL", 0)
    text = (SHARED | ALONE)[name]
    function = axon.compile(text)[text.split()[1]]
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(23, 6)), rng.normal(size=(6, 6)) / 6
    found = []
    for count, long in ((1, run.LONG), (2, run.LONG), (3, 200), (40, run.LONG)):
        monkeypatch.setenv("AXON_THREADS", str(count))
        monkeypatch.setattr(run, "LONG", long)
        found.append([np.asarray(part) for part in parts(function(x, w, target="cpu"))])
        assert any(shared) == (name in SHARED and count > 1)
    for wanted, *others in zip(*found, strict=True):
        for other in others:
            np.testing.assert_array_equal(other, wanted)
    for got, wanted in zip(found[0], parts(function(x, w, target="interpret")), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10)


def parts(value):
    return value if isinstance(value, tuple) else (value,)
