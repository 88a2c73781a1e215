"""The passes that kernels do without: numba makes the same machine code with all of its own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numba.core import compiler
from numba.core.bytecode import FunctionIdentity

import axon
from axon.backend.cpu import build, passes

PROGRAMS = {
    "softmax": "import nn\nfun f (x : f32[n, m]) = nn.softmax x",
    "narrow": "fun f (x : f32[n, m]) = for i => (sum for j where x[i, j] > 0.0 => tanh x[i, j] * 0.5, max j => cast bf16 x[i, j])",
    "integers": "fun f (x : f32[n, m]) = for i j => let val k = cast i32 x[i, j] in (k * k ** 3) % 7 + cast i32 (k > j) end",
    "loop": """
fun f (x : f32[n, m]) =
  loop (s = x, c = 0) for t < n =>
    loop (a = s, b = c) while b < t + 10 for _ < 9 =>
      (for i j => if a[i, j] > 1.0 then a[m - 1 - j % 2, j] * 0.5 else a[i, j] + x[i, j], b + 1)
""",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_numbas_own_passes_make_the_same_machine_code(text: str, monkeypatch: pytest.MonkeyPatch, own_cache: None) -> None:
    sources: list[build.ModuleSource] = []
    make = build.compile_source

    def noted(source: build.ModuleSource) -> tuple[str, bytes]:
        sources.append(source)
        return make(source)

    monkeypatch.setattr(build, "_loaded", {})
    monkeypatch.setattr(build, "compile_source", noted)
    axon.compile(text).f(np.ones((3, 3), np.float32), target="cpu")
    assert sources
    for source in sources:
        made = []
        for used in (passes.Passes, compiler.Compiler):
            monkeypatch.setattr(passes, "Passes", used)
            monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.count(1_000))  # symbols are named by it
            made.append(make(source))
        assert made[0] == made[1]
