"""Compiled functions on disk: found again by other processes, which then write no IR; what is damaged is made again."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import axon
from axon.backend.cpu import build

PROGRAM = """
import sys
import numpy as np
import axon
m = axon.compile("fun f (x : f32[n]) = for i => exp x[i] * 2.5 - x[i]")
x = np.linspace(-1, 1, 1001, dtype=np.float32)
got = m.f(x, target="cpu")
assert np.allclose(got, np.exp(x) * 2.5 - x, rtol=1e-5), got
assert "numba" not in sys.modules
print("axon.backend.cpu.lowering" in sys.modules)
"""


def process(cache):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, "AXON_CACHE": str(cache)}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip() == "True"


def entries(cache):
    return sorted(p for p in cache.iterdir() if p.suffix == ".cubin")


def test_another_process_finds_the_function_and_writes_no_ir(tmp_path):
    assert process(tmp_path)
    (entry,) = entries(tmp_path)
    before = entry.read_bytes()
    assert not process(tmp_path)
    assert entry.read_bytes() == before


TEXT = "def f(x, n, first, last):\n    for i in range(n):\n        store_f32(x, i, exp(load_f32(x, i)))\n    return 0\n"
SOURCE = build.ModuleSource("f", TEXT, (build.Element.F32, None, None, None))


def test_damaged_entries_are_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("AXON_CACHE", str(tmp_path))
    compiled, compile_source = [], build.compile_source
    monkeypatch.setattr(build, "compile_source", lambda source: compiled.append(source) or compile_source(source))

    def new():
        """Whether a process that knows of no function compiles this one."""
        monkeypatch.setattr(build, "_loaded", {})
        compiled.clear()
        x = np.linspace(-1, 1, 101, dtype=np.float32)
        wanted = np.exp(x)
        assert build.build(SOURCE).call(x.ctypes.data, len(x), 0, 0) == 0
        np.testing.assert_allclose(x, wanted, rtol=1e-5)
        return bool(compiled)

    assert new()
    assert not new()
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    truncated, flipped = whole[: len(whole) // 2], whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:]
    for damaged in (truncated, flipped, b"", whole.replace(b'"entry": "', b'"entry": "x', 1)):
        entry.write_bytes(damaged)
        assert new()
        assert not new()


def test_the_key_depends_on_text_and_types():
    sources = [
        build.ModuleSource("f", "def f(first, last):\n    return 0\n", (None, None)),
        build.ModuleSource("f", "def f(first, last):\n    return 1\n", (None, None)),
        build.ModuleSource("g", "def f(first, last):\n    return 0\n", (None, None)),
        build.ModuleSource("f", "def f(first, last):\n    return 0\n", (build.Element.F16, None)),
        build.ModuleSource("f", "def f(first, last):\n    return 0\n", (build.Element.BF16, None)),
    ]
    assert len({build._key(source) for source in sources}) == len(sources)


def test_objects_refer_to_nothing_of_python():
    """Machine code is kept beyond the process: it must not hold addresses or names of this one."""
    _, code = build.compile_source(SOURCE)
    assert b"Py" not in code
    assert b"NRT" not in code
    assert b"numba" not in code


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("AXON_CACHE", "file", "file belongs|file: File exists|file: Not a directory"),
        ("AXON_CACHE", "file/inside", "a directory for built kernels: .*file/inside: Not a directory"),
        ("AXON_CACHE_SIZE", "much", "kept: Axon lacks a size .*: AXON_CACHE_SIZE is `much`; write bytes, or a size such as 500M"),
    ],
)
def test_a_cache_that_cannot_be_used_costs_time_and_not_results(setting, value, words, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AXON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(setting, str(tmp_path / value) if setting == "AXON_CACHE" else value)
    x = np.linspace(-1, 1, 50_001)
    scale = len(words)  # a function that no other test has compiled
    with pytest.warns(RuntimeWarning, match=f"compiled anew in each process, since they cannot be .*({words})"):
        got = axon.compile(f"fun f (x : f64[n]) = for i => exp x[i] * {scale}.0 - x[i]").f(x)
    np.testing.assert_allclose(got, np.exp(x) * scale - x)


def test_with_warnings_as_errors_it_is_that_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AXON_CACHE", str(tmp_path / "file"))
    f = axon.compile("fun f (x : f64[n]) = for i => exp x[i] * 77.0 - x[i]").f
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(RuntimeWarning, match="cannot be kept"):
                f(np.zeros(30), target="cpu")


def test_functions_that_several_processes_compiled(monkeypatch, tmp_path):
    """Symbols have the names that texts have: in two objects they mean different code."""
    monkeypatch.setenv("AXON_CACHE", str(tmp_path))
    program = "fun f (m : f64[n, n]) (x : f64[n]) k = loop (v = x) for _ < k => for i => sum j => m[i, j] * {}"
    arguments = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([0.25, 0.5]), 1
    cases = [("v[j]", [1.25, 0.5]), ("(1.0 - v[j])", [1.75, 0.5])]
    for body, right in cases:
        monkeypatch.setattr(build, "_loaded", {})
        assert axon.compile(program.format(body)).f(*arguments, target="cpu").tolist() == right
    monkeypatch.setattr(build, "_loaded", {})
    for body, right in cases:
        assert axon.compile(program.format(body)).f(*arguments, target="cpu").tolist() == right
