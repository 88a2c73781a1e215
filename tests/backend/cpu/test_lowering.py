"""A kernel's text means in machine code what it means to Python, and to numba, which compiles it too."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import axon
from axon.backend.cpu import build
from axon.backend.cpu.lowering import TextInvalid
from axon.base.element import Element
from tests.backend.cpu import through_numba

PROGRAMS = {
    "softmax": "import nn\nfun f (x : f32[n, m]) = nn.softmax x",
    "narrow": "fun f (x : f32[n, m]) = for i => (sum for j where x[i, j] > 0.0 => tanh x[i, j] * 0.5, max j => cast bf16 x[i, j])",
    "integers": "fun f (x : f32[n, m]) = for i j => let val k = cast i32 x[i, j] in (k * k ** 3) % 7 + cast i32 (k > j) end",
    "unsigned": "fun f (x : f32[n, m]) = for i j => let val k = cast u64 x[i, j] + 18446744073709551613 in (k * k) / 3 + k % 5 end",
    "guarded": """
fun f (x : f32[n, m]) =
  for i j => (if j + 1 < m then x[i, j + 1] else -1.5) + (if x[i, j] > 2.0 then x[i, j] / 4.0 else inf)
""",
    "scanned": "fun f (x : f32[n, m]) = for i => (scan (op +, 0.0) j => x[i, j], argmax j => x[i, j], all j => x[i, j] > 0.0)",
    "loop": """
fun f (x : f32[n, m]) =
  loop (s = x, c = 0) for t < n =>
    loop (a = s, b = c) while b < t + 10 for _ < 9 =>
      (for i j => if a[i, j] > 1.0 then a[m - 1 - j % 2, j] * 0.5 else a[i, j] + x[i, j], b + 1)
""",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_numba_understands_the_same(text: str, monkeypatch: pytest.MonkeyPatch, own_cache: None) -> None:
    """All numbers are small and whole: sums are exact, in whatever order."""
    x = np.random.default_rng(len(text)).integers(-3, 9, (3, 3)).astype(np.float32)
    given, compiled = [], []
    for make in (build.compile_source, through_numba.compile_source):
        monkeypatch.setattr(build, "_loaded", {})
        monkeypatch.setattr(build, "compile_source", lambda source, make=make: compiled.append(source) or make(source))
        monkeypatch.setenv("AXON_CACHE", f"{build.cache.directory()}.{len(given)}")
        given.append(axon.compile(text).f(x, target="cpu"))
    assert len(compiled) >= 2
    assert compiled[: len(compiled) // 2] == compiled[len(compiled) // 2 :]
    ours, numbas = ([np.asarray(part) for part in (one if isinstance(one, tuple) else (one,))] for one in given)
    for own, other in zip(ours, numbas, strict=True):
        assert own.dtype == other.dtype
        assert own.tobytes() == other.tobytes()


TEXTS = {
    "ranges": """
def f(out, n, first, last):
    found = 0
    for i in range(n):
        for j in range(i, n + 2):
            for k in range(-3, j, 4):
                found = found * 3 + i - j * k
                found = found & 1048575
    store_i64(out, 0, found)
    i = 7
    for i in range(n - 2):
        found = found + i
    return found - i
""",
    "conditions": """
def f(out, n, first, last):
    a = 0
    while a < 90 and (a * a < n * 30 or not a != 3):
        if a == 5 and n > 3:
            b = 1
        elif n == 2 or a >= 4:
            b = 2
        else:
            b = -(3 - n)
        a = a + (b if b > 0 else 1)
        if a > 70:
            return a
    c = a > 4 and n < 6 or n == 3
    return (a >> 1) + (10 if c else 20) * (1 if not c else 2)
""",
    "helpers": """
def g(out, k, first, last):
    store_i64(out, 0, load_i64(out, 0) + k)
    if k > 3:
        return 1
    return 0

def f(out, n, first, last):
    for i in range(n):
        if g(out, i, 0, 1):
            return -i
    return load_i64(out, 0)
""",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_means_what_it_means_to_python(text: str) -> None:
    types = (Element.I64, None, None, None)
    native = build.load(*build.compile_source(build.ModuleSource("f", text, types)), types)
    around = {"load_i64": lambda p, i: int(p[i]), "store_i64": lambda p, i, x: p.__setitem__(i, x)}
    exec(text, around)
    for n in range(9):
        ours, pythons = np.zeros(1, np.int64), np.zeros(1, np.int64)
        assert native.call(ours.ctypes.data, n, 0, 1) == around["f"](pythons, n, 0, 1)
        assert ours == pythons


WRONG = {
    "x = y\n    return 0": "`y` is not known",
    "v = 1\n    if n > 0:\n        v = 1.0\n    return 0": "of several types",
    "return p": "what is no number",
    "return n + 1.0": "an operator between",
    "return f32(1.0) + f64(1.0)": "an operator between",
    "return i32(1) + i32(1)": "`Add` of i32",
    "return n / 2": "`Div` of i64",
    "return n < 1.0": "a comparison of",
    "return g(n)": "`g` is called",
    "return f32(n)": "of what is no constant",
    "return 1 if n > 0 else 1.0": "a choice between",
    "for i in range(f32(1.0)):\n        pass\n    return 0": "a range of",
    "del n": "a statement",
    "return p[0]": "an expression",
    "return [n]": "an expression",
    "if p:\n        return 1\n    return 0": "a condition",
    "return -(n > 0)": "a minus",
}


@pytest.mark.parametrize(("body", "words"), WRONG.items())
def test_what_kernels_do_not_say_is_an_error(body: str, words: str) -> None:
    text = f"def f(p, n, first, last):\n    {body}\n"
    ast.parse(text)
    with pytest.raises(TextInvalid, match=words):
        build.compile_source(build.ModuleSource("f", text, (Element.F32, None, None, None)))


def test_helpers_have_one_type_for_each_argument() -> None:
    text = "def g(p):\n    return 0\n\ndef f(p, n, first, last):\n    return g(p) + g(n)\n"
    with pytest.raises(TextInvalid, match="differ in their types"):
        build.compile_source(build.ModuleSource("f", text, (Element.F32, None, None, None), ("g",)))
