"""A call's bits follow from the program, sizes, strides and processor: not from threads, load, addresses, caches, or the past."""

import hashlib
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import axon
from axon.backend.cpu import blas
from tests import ROOT

PROGRAM = """
import linalg
import nn
fun matmul (a : f32[m, k]) (b : f32[k, n]) = a @ b
fun wide (a : f64[m, k]) (b : f64[k, n]) = a @ b
fun turned (a : f32[m, k]) (b : f32[n, k]) = a @ linalg.transpose b
fun vector (a : f32[m, k]) (x : f32[k]) = for i => sum l => a[i, l] * x[l]
fun row (x : f32[k]) (b : f32[k, n]) = for j => sum l => x[l] * b[l, j]
fun dot (x : f32[k]) (y : f32[k]) = sum l => x[l] * y[l]
fun batch (a : f32[b, m, k]) (c : f32[b, k, n]) = for b i j => sum l => a[b, i, l] * c[b, l, j]
fun filter (x : f32[w + s - 1]) (f : f32[s]) = for i < w => sum r => x[i + r] * f[r]
fun convolve (x : f32[b, c, h + r - 1, w + s - 1]) (f : f32[o, c, r, s]) =
  for b o, i < h, j < w => sum c u v => x[b, c, i + u, j + v] * f[o, c, u, v]
fun total (x : f32[n, m]) = sum i j => x[i, j]
fun rows (x : f32[n, m]) = for i => sum j => exp x[i, j]
fun columns (x : f32[n, m]) = for j => sum i => sin x[i, j]
fun softmax (x : f32[n, m]) = nn.softmax x
fun running (x : f64[n]) = scan (op +, 0.0) i => x[i]
fun scattered (x : f32[n, m]) (at : i32[n]) = for b < 10, j => sum for i where at[i] = b => x[i, j]
fun steps (x : f32[n, n]) = loop (s = x) for i < 3 => (for i j => tanh (sum l => s[i, l] * x[l, j]))
"""
SHAPES = {
    "matmul": [((100, 100), (100, 100)), ((500, 300), (300, 700)), ((30, 1000), (1000, 600))],
    "wide": [((257, 129), (129, 511))],
    "turned": [((400, 300), (500, 300))],
    "vector": [((2000, 1000), (1000,)), ((3, 50_000), (50_000,))],
    "row": [((2000,), (2000, 1000))],
    "dot": [((300_001,), (300_001,))],
    "batch": [((3, 200, 64), (3, 64, 200)), ((40, 30, 20), (40, 20, 30))],
    "filter": [((20_000,), (33,))],
    "convolve": [((2, 8, 34, 34), (16, 8, 3, 3)), ((2, 64, 18, 18), (4, 64, 3, 3))],
    "total": [((300, 500),)],
    "rows": [((2000, 70),)],
    "columns": [((333, 777),)],
    "softmax": [((300, 1000),)],
    "running": [((100_003,),)],
    "scattered": [((5000, 30), (5000,))],
    "steps": [((150, 150),)],
}
CALLS = [(name, shapes) for name, given in SHAPES.items() for shapes in given]
WIDE = {"wide", "running"}


def arguments(name, shapes):
    rng = np.random.default_rng(0)
    made = [rng.standard_normal(shape).astype(np.float64 if name in WIDE else np.float32) for shape in shapes]
    return [made[0], rng.integers(0, 10, shapes[1]).astype(np.int32)] if name == "scattered" else made


def lying(array, offset):
    """The same array, so many elements behind an address that all alignments divide."""
    memory = np.empty(array.size + 128, array.dtype)
    start = -memory.ctypes.data % 256 // array.itemsize + offset
    found = memory[start : start + array.size].reshape(array.shape)
    found[...] = array
    return found


@pytest.fixture(scope="module")
def compiled():
    return axon.compile(PROGRAM)


def bits(compiled, name, given):
    return np.asarray(getattr(compiled, name)(*given, target="cpu")).tobytes()


def everything(compiled):
    return {f"{name} {shapes}": bits(compiled, name, arguments(name, shapes)) for name, shapes in CALLS}


@pytest.fixture(scope="module")
def once(compiled):
    return everything(compiled)


def compare(one, other):
    assert list(one) == sorted(other, key=list(one).index)
    differ = [name for name in one if one[name] != other[name]]
    if differ:
        pytest.fail(f"other bits: {', '.join(differ)}", pytrace=False)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_of_any_number_of_threads(compiled, once, monkeypatch, count):
    monkeypatch.setenv("AXON_THREADS", str(count))
    compare(once, everything(compiled))


def test_of_any_number_of_blas_threads(compiled, once):
    """A process may have set it, or its processors."""
    libraries = blas._libraries()
    before = [library.count() for library in libraries]
    try:
        for count in (1, 3):
            for library in libraries:
                library.use(count)
            compare(once, everything(compiled))
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.use(count)


def test_of_what_is_interpreted_because_it_is_small():
    norm = axon.compile("fun norm (x : f64[n]) = sum i => x[i] * x[i]").norm
    x = np.random.default_rng(0).standard_normal(15_000)
    libraries, found = blas._libraries(), set()
    before = [library.count() for library in libraries]
    try:
        for count in (1, 2, 3):
            for library in libraries:
                library.use(count)
            found.add(norm(x))
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.use(count)
    assert len(found) == 1


def test_at_any_address(compiled, once):
    for offset in (1, 3, 16):
        for name, shapes in CALLS:
            given = [lying(array, offset) for array in arguments(name, shapes)]
            assert bits(compiled, name, given) == once[f"{name} {shapes}"], (name, shapes, offset)


def test_what_is_copied_for_a_kernel_gives_what_it_gives_where_it_lies(compiled, once):
    """Of what BLAS takes as it lies, strides may decide."""
    for name, shapes in CALLS:
        if name in ("total", "rows", "columns", "softmax", "running", "scattered"):
            given = [np.repeat(array, 2, axis=-1)[..., ::2] for array in arguments(name, shapes)]
            assert not given[0].flags.c_contiguous
            assert bits(compiled, name, given) == once[f"{name} {shapes}"], (name, shapes)


def test_strides_alone_decide_beside_sizes(compiled):
    for name, shapes in CALLS:
        views = [[np.repeat(lying(a, n), 2, axis=-1)[..., ::2] for a in arguments(name, shapes)] for n in (0, 1)]
        assert bits(compiled, name, views[0]) == bits(compiled, name, views[1]), (name, shapes)


def test_while_other_calls_run(compiled, once):
    """Other threads compute: they take the pool's threads, and have counts of threads changed."""
    stop, found = threading.Event(), []
    given = arguments("batch", SHAPES["batch"][0])

    def others():
        while not stop.is_set():
            compiled.batch(*given, target="cpu")

    beside = [threading.Thread(target=others) for _ in range(2)]
    for thread in beside:
        thread.start()
    try:
        found.append(everything(compiled))
    finally:
        stop.set()
        for thread in beside:
            thread.join()
    compare(once, found[0])


def test_after_other_calls(compiled, once):
    backwards = {f"{name} {shapes}": bits(compiled, name, arguments(name, shapes)) for name, shapes in reversed(CALLS)}
    compare(once, backwards)


SCRIPT = """
import hashlib, json, axon
from tests.backend.cpu import test_same_bits as t
print(json.dumps({k: hashlib.sha256(v).hexdigest() for k, v in t.everything(axon.compile(t.PROGRAM)).items()}))
"""


def test_in_processes_that_compile_and_that_find_machine_code(once, tmp_path):
    mine = {name: hashlib.sha256(value).hexdigest() for name, value in once.items()}
    for threads in ("1", "2"):  # the second finds what the first has made
        environment = {**os.environ, "AXON_CACHE": str(tmp_path), "AXON_THREADS": threads, "OPENBLAS_NUM_THREADS": threads,
                       "PYTHONHASHSEED": threads, "PYTHONPATH": str(ROOT)}  # fmt: skip
        done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        compare(mine, json.loads(done.stdout))
