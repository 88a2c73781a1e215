"""The Python API: modules, functions, arguments and results."""

from __future__ import annotations

import copy
import os
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

import axon
from axon import compiler
from axon.base.element import INT

SOURCE = """\
fun double x = x + x
fun add x y = x + y
fun scale (k : 'a) (x : 'a[n]) = k * x
fun dot (a : f32[n]) (b : f32[n]) = sum i => a[i] * b[i]
fun matmul a b = for i j => sum k => a[i, k] * b[k, j]
fun heads {h} x = for i < h, j => x[(i, j)]
fun grid {h, w} = for i < h, j < w => i * 10 + j
fun halves (x : f32[2 * n]) = for i < 2, j => x[(i, j)]
fun norm (p : { scale : f32, shift : f32[d] }) x = for ..i j => x[..i, j] * p.scale + p.shift[j]
fun swap (a, b) = (b, a)
fun same x = x
fun twice x = (x, x)
fun pick (table : 'a[n]) (id : i32) = table[id]
fun ratio (a : i32) (b : i32) = a / b
fun compose f x = f (f x)
fun batched (q : 'a[..b, n]) (k : 'a[..b, n]) = q + k
fun positive x = x > 0.0
val table = [| 1.0, 2.0 |]
val limit = 3
val both = { a = 1.5, b = (true, 2) }
fun lambda x = x * x
fun three () = 3
fun three_of (x : i32[3]) = x
"""


@pytest.fixture(scope="module")
def m() -> axon.Module:
    return axon.compile(SOURCE)


def f32(*shape: int) -> Any:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def error(call: Any, kind: type[axon.AxonError] = axon.AxonError) -> axon.Diagnostic:
    """The one diagnostic of a failing call."""
    with pytest.raises(axon.AxonError) as caught:
        call()
    assert type(caught.value) is kind
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


# ── modules ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_module_has(m: axon.Module) -> None:
    assert list(m)[:3] == ["double", "add", "scale"]
    assert dir(m) == sorted(m)
    assert repr(m) == "<axon module <text>>"
    assert isinstance(m.double, axon.Function)
    assert m.table.tolist() == [1.0, 2.0]
    assert m.table.dtype == np.float32
    assert m.limit == 3
    assert m.both == {"a": 1.5, "b": (True, 2)}
    assert m["lambda"](3) == 9
    assert m.three() == m.three(()) == 3


def test_unknown_attributes(m: axon.Module) -> None:
    with pytest.raises(AttributeError, match="declares no 'doubel'; did you mean 'double'"):
        _ = m.doubel
    with pytest.raises(KeyError, match="declares no 'doubel'; did you mean 'double'"):
        _ = m["doubel"]
    with pytest.raises(KeyError, match="declares no 0"):
        _ = m[0]  # type: ignore[index]
    assert not hasattr(m, "__array__")
    assert not hasattr(m, "_repr_svg_")
    copy.copy(m)


def test_signature(m: axon.Module) -> None:
    assert m.dot.signature == "sig dot : f32[n] -> f32[n] -> f32"
    assert m.heads.signature == "sig heads : {h} -> 'a[h * m] -> 'a[h, m] where h >= 1" or "{h}" in m.heads.signature
    assert repr(m.dot) == "<axon function dot : f32[n] -> f32[n] -> f32>"
    assert repr(m.grid[2, 3]).startswith("<axon function at {2, 3} grid : {h, w} -> i32[h, w]")


def test_load_sees_edits(tmp_path: Path) -> None:
    file = tmp_path / "a.axon"
    file.write_text("import b\nfun f x = b.g x\n")
    (tmp_path / "b.axon").write_text("fun g x = x + 1\n")
    old = axon.load(file)
    assert old.f(1) == 2
    (tmp_path / "b.axon").write_text("fun g x = x + 2\n")
    assert axon.load(str(file)).f(1) == 3
    assert old.f(1) == 2


def test_errors_of_programs(tmp_path: Path) -> None:
    with pytest.raises(axon.AxonError) as caught:
        axon.compile("fun f x = y\n")
    assert caught.value.diagnostics[0].code == "AX0401"
    assert str(caught.value).startswith("error[AX0401]")
    assert error(lambda: axon.load(tmp_path / "nowhere.axon")).code == "AX0408"
    assert axon.check("fun f x = x") == []
    assert [d.code for d in axon.check("fun f x = y")] == ["AX0401"]
    assert axon.compile("fun f g x = g -x\n").f  # a warning


@pytest.mark.parametrize(("function", "value"), [(f, v) for f in (axon.load, axon.compile, axon.check) for v in (3, None, b"a")])
def test_what_is_not_text_is_a_type_error(function: Callable[[object], object], value: object) -> None:
    with pytest.raises(TypeError, match=f"takes .*, a str, not {type(value).__name__}"):
        function(value)


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "(" * 100_000, "fun f x = " + "-" * 100_000 + "x", "(*" * 50_000, "\ufeff"])
def test_check_never_raises(text: str) -> None:
    assert isinstance(axon.check(text), list)


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_arrays(m: axon.Module) -> None:
    a, b = f32(2, 3), f32(3, 4)
    out = m.matmul(a, b)
    assert np.array_equal(out, a @ b)
    assert out.dtype == np.float32
    assert np.array_equal(m.matmul(a.astype(np.float64), b.astype(np.float64)), a.astype(np.float64) @ b)
    assert np.array_equal(m.matmul(b=b, a=a), a @ b)
    assert np.array_equal(m.matmul(np.asfortranarray(a), b[:, ::-1]), a @ b[:, ::-1])
    assert m.matmul(f32(0, 3), f32(3, 4)).shape == (0, 4)
    assert m.matmul(f32(2, 0), f32(0, 4)).tolist() == [[0.0] * 4] * 2
    assert np.array_equal(m.double(a, target="cpu"), a + a)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", *sorted(e.dtype.name for e in INT)])
def test_element_types(m: axon.Module, dtype: str) -> None:
    out = m.double(np.ones(3, dtype))
    assert out.dtype == np.dtype(dtype)
    assert out.tolist() == [2, 2, 2]


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_large_numbers(target: str) -> None:
    m = axon.compile("fun f (x : u64[n]) y = for i => x[i] + y\nfun g x = x + 1")
    assert m.f([2**64 - 1, 2**63], 2**63, target=target).tolist() == [2**63 - 1, 0]
    with pytest.raises(axon.AxonError, match=r"must hold i32, and 9223372036854775808 is outside its range(.|\n)*np.uint64"):
        m.g(2**63, target=target)
    with pytest.raises(axon.AxonError, match="must hold u64, and -1 is outside its range"):
        m.f([-1], 1, target=target)


def test_narrow_floats(m: axon.Module) -> None:
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        out = m.double(np.ones(3, dtype))
        assert out.dtype == np.dtype(dtype)
        scalar = m.double(np.array(1.5, dtype))
        assert (type(scalar), scalar) == (float, 3.0)


def test_numbers(m: axon.Module) -> None:
    assert m.double(2) == 4
    assert type(m.double(2)) is int
    assert m.double(1.5) == 3.0
    assert m.dot([1, 2], [3.0, 4.0]) == 11.0
    assert type(m.dot([1], [1])) is float
    assert m.positive(2.0) is True
    assert m.double(np.float64(1.5)) == 3.0
    assert m.scale(2, np.ones(2, np.float64)).dtype == np.float64  # takes the element type that the array decides
    assert m.scale(1.5, [2]).tolist() == [3.0]
    assert m.double([[1, 2], [3, 4]]).dtype == np.int32
    assert m.dot([], []) == 0.0


def test_an_empty_list_is_an_array_of_what_is_wanted() -> None:
    m = axon.compile(
        "fun total (x : i32[n]) = sum i => x[i]\n"
        "fun every (x : bool[n]) = all i => x[i]\n"
        "fun bytes (x : u8[n, m]) = x\n"
        "fun odd x = x % 2\n"
        "fun inverted x = for i => not x[i]\n"
        "fun both (x : 'a[n]) (y : 'a[m]) = (x, y)\n"
    )
    assert (m.total([]), m.every([])) == (0, True)
    empty = m.bytes([[], []])
    assert (empty.shape, empty.dtype) == ((2, 0), np.uint8)
    assert (m.odd([]).dtype, m.inverted([]).dtype) == (np.float32, np.bool_)
    for other, element in [
        (np.zeros(2, np.int64), np.int64),
        ([1], np.int32),
        ([True], np.bool_),
        ([1.0], np.float32),
        ([], np.float32),
    ]:
        for pair in (m.both([], other), m.both(other, [])):
            assert [part.dtype for part in pair] == [element, element]
    with pytest.raises(axon.AxonError, match="wrong rank"):
        m.bytes([])


def test_records_and_tuples(m: axon.Module) -> None:
    out = m.norm({"scale": 2.0, "shift": f32(3)}, np.ones((2, 3), np.float32))
    assert out.tolist() == [[2, 3, 4]] * 2
    assert np.array_equal(m.norm({"shift": f32(3), "scale": 2.0}, np.ones((2, 3), np.float32)), out)
    a, b = m.swap((1, f32(2)))
    assert a.tolist() == [0, 1]
    assert b == 1


def test_dimension_parameters(m: axon.Module) -> None:
    assert m.heads[2](f32(6)).shape == (2, 3)
    assert m.heads[np.int64(3)](f32(6)).shape == (3, 2)
    assert m.grid[2, 3]().tolist() == [[0, 1, 2], [10, 11, 12]]
    assert m.grid[0, 3]().shape == (0, 3)


def test_results_are_fresh(m: axon.Module) -> None:
    x = f32(3)
    assert not np.shares_memory(m.same(x), x)
    a, b = m.twice(x)
    assert not np.shares_memory(a, b)
    a[0] = 7
    assert x[0] == 0
    table = m.table
    table[0] = 9
    assert m.table[0] == 1.0
    frozen = f32(3)
    frozen.flags.writeable = False
    assert m.same(frozen).flags.writeable


def test_room_for_results(m: axon.Module) -> None:
    """Strided, reversed, interleaved and windowed room: whatever has a place for each element."""
    x = f32(3)
    wide = f32(4, 6)
    assert m.double(x, out=wide[1, ::2]) is not None
    assert wide[1].tolist() == [0, 7, 2, 9, 4, 11]
    a, b = wide[0, ::2], wide[0, 1::2]
    m.twice(x, out=(a[::-1], b))
    assert wide[0].tolist() == [2, 0, 1, 1, 0, 2]
    odd = np.lib.stride_tricks.as_strided(f32(8), (2, 3), (12, 8))  # places 0 2 4 3 5 7: apart, though rows cross
    m.double(f32(2, 3), out=odd)
    assert odd.tolist() == [[0, 2, 4], [6, 8, 10]]
    m.double(f32(0), out=np.broadcast_to(f32(1), (0,)).copy())
    assert m.double(f32(1, 3), out=np.lib.stride_tricks.as_strided(f32(3), (1, 3), (0, 4))).tolist() == [[0, 2, 4]]
    assert m.double(x, out=x).tolist() == [0, 2, 4]  # room may be an argument


ROOMS = """\
fun pick (x : f32[n]) (i : i32[k]) = (for j => x[i[j]], for j, q < 2 => x[i[j]])
fun some (x : f32[n]) = let val (ix : i32[k]) = nonzero (for i => x[i] > 0.0) in (for i => x[i] + x[0], for j => x[ix[j]]) end
"""


@pytest.mark.parametrize("target", [None, "cpu", "interpret", "simulate"])
def test_room_that_does_not_fit_is_refused_before_anything_runs(target: str | None) -> None:
    """So the index outside is not what is wrong, and nothing is written."""
    m = axon.compile(ROOMS)
    x, i = f32(3), np.array([0, 9], np.int32)
    out = f32(2), f32(2, 2)
    with pytest.raises(axon.ShapeError, match="AX0502"):
        m.pick(x, i, out=out, target=target)
    for wrong in (f32(2), f32(2, 3), np.zeros((2, 2)), f32(2, 2, 1), [0.0]):
        with pytest.raises(axon.AxonError, match=r"AX0505.*`out\.2` must be"):
            m.pick(x, i, out=(out[0], wrong), target=target)
    assert out[0].tolist() == [0, 1]
    first = np.full(3, 7, np.float32)
    for wrong in (np.zeros(2), f32(3)):  # only data decide its size, but its element type is known
        with pytest.raises(axon.AxonError, match=r"AX0505.*`out\.2` must be an array of float32"):
            m.some(x, out=(first, wrong), target=target)
        assert first.tolist() == [7, 7, 7]
    m.some(x, out=(first, f32(2)), target=target)
    assert first.tolist() == [0, 1, 2]


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────────


def refused(m: axon.Module) -> dict[str, Any]:
    one, two = f32(3), f32(3, 2)
    return {
        "sizes": lambda: m.dot(f32(3), f32(4)),
        "sizes_by_name": lambda: m.matmul(a=f32(2, 3), b=f32(4, 5)),
        "size_without_solution": lambda: m.halves(f32(7)),
        "dimension_parameter_that_does_not_divide": lambda: m.heads[4](f32(6)),
        "dimension_parameter_zero": lambda: m.heads[0](f32(6)),
        "record_size": lambda: m.norm({"scale": 1.0, "shift": f32(2)}, f32(4, 3)),
        "rank": lambda: m.dot(f32(3), two),
        "rank_at_least": lambda: m.batched(f32(), f32()),
        "rank_of_a_shape_variable": lambda: m.batched(f32(2, 3), one),
        "element": lambda: m.dot(np.ones(3), one),
        "elements_differ": lambda: m.matmul(two, f32(2, 2).astype(np.float16)),
        "element_class": lambda: m.double(np.ones(3, bool)),
        "element_that_axon_lacks": lambda: m.double(np.ones(3, complex)),
        "element_in_record": lambda: m.norm({"scale": 1.0, "shift": np.ones(3)}, f32(4, 3)),
        "big_endian": lambda: m.double(np.ones(3, ">f4")),
        "objects": lambda: m.double(np.array([object()])),
        "text": lambda: m.double("3.5"),
        "nothing": lambda: m.double(None),
        "float_for_integer": lambda: m.pick(one, 1.0),
        "integer_too_large": lambda: m.pick(one, 2**31),
        "integer_far_too_large": lambda: m.double(10**1000),
        "ragged_list": lambda: m.double([[1, 2], [3]]),
        "list_of_arrays": lambda: m.double([one, one]),
        "list_of_numpy_numbers": lambda: m.double([1.0, np.float64(0.1)]),
        "list_of_integers_too_large": lambda: m.double([1, 2**70]),
        "list_of_integers_that_i64_holds": lambda: m.double([1, 2**40]),
        "list_of_bools_and_numbers": lambda: m.double([True, 2]),
        "list_of_texts": lambda: m.double([["a"]]),
        "list_in_itself": lambda: m.double(endless()),
        "range": lambda: m.double(range(3)),
        "bools_for_numbers": lambda: m.double([True]),
        "floats_for_integers": lambda: m.three_of([1.0, 2.0, 3.0]),
        "integer_beyond_i64": lambda: m.double(2**63),
        "out_read_only": lambda: m.double(one, out=frozen(one)),
        "out_of_another_shape": lambda: m.double(one, out=two),
        "out_of_another_element_type": lambda: m.double(one, out=np.zeros(3)),
        "out_list": lambda: m.double(one, out=[0, 0, 0]),
        "out_all_at_one_place": lambda: m.double(one, out=np.lib.stride_tricks.as_strided(f32(1), (3,), (0,))),
        "out_windows": lambda: m.double(two, out=np.lib.stride_tricks.as_strided(f32(4), (3, 2), (4, 4))),
        "out_twice": lambda: m.twice(one, out=(shared := f32(3), shared)),
        "out_structure": lambda: m.twice(one, out=one),
        "masked": lambda: m.double(np.ma.masked_array([1.0], [True])),
        "missing": lambda: m.add(one),
        "missing_all": lambda: m.add(),
        "too_many": lambda: m.add(one, one, one),
        "unknown_name": lambda: m.dot(one, bb=one),
        "twice": lambda: m.dot(one, a=one),
        "tuple": lambda: m.swap((1, 2, 3)),
        "list_for_tuple": lambda: m.swap([1, 2]),
        "record_lacks": lambda: m.norm({"scale": 1.0}, two),
        "record_has_more": lambda: m.norm({"scale": 1.0, "shift": one, "shfit": one}, two),
        "record_is_array": lambda: m.norm(one, two),
        "function": lambda: m.compose(lambda x: x, 1.0),
        "no_dimension_parameters": lambda: m.double[3],
        "lacks_dimension_parameters": lambda: m.heads(one),
        "too_few_dimension_parameters": lambda: m.grid[3],
        "negative_dimension_parameter": lambda: m.grid[-1, 3],
        "float_dimension_parameter": lambda: m.grid[1.0, 3],
        "huge_dimension_parameter": lambda: m.grid[2**31, 3],
        "dimension_parameters_twice": lambda: m.grid[2, 3][2, 3],
        "unknown_target": lambda: m.double(one, target="cup"),
        "index": lambda: m.pick(one, 3),
        "negative_index": lambda: m.pick(one, -1),
        "division": lambda: m.ratio(1, 0),
    }


def frozen(x: Any) -> Any:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def endless() -> list[Any]:
    x: list[Any] = []
    x.append(x)
    return x


CASES = sorted(refused(None))  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_refusals(m: axon.Module, case: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(axon.AxonError) as caught:
        refused(m)[case]()
    assert len(caught.value.diagnostics) == 1
    shapes = caught.value.diagnostics[0].code in ("AX0501", "AX0502", "AX0506")
    assert isinstance(caught.value, axon.ShapeError) == shapes
    assert str(caught.value) == snapshot


def test_a_function_still_works_after_errors(m: axon.Module) -> None:
    for call in refused(m).values():
        with pytest.raises(axon.AxonError):
            call()
    assert m.dot(f32(3), f32(3)) == 5.0


# ── specializations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_specializations_are_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AXON_CACHE", str(tmp_path))  # where nothing is that was made before
    made: list[Any] = []
    lower = compiler.lower
    monkeypatch.setattr(compiler, "lower", lambda *a: made.append(a[2]) or lower(*a))
    m = axon.compile(SOURCE)
    for n in (0, 1, 5):
        m.double(f32(n))
    assert len(made) == 1
    m.double(f32(2, 2))
    m.double(f32(2).astype(np.float64))
    assert len(made) == 3
    m.double(2.0)
    m.double(np.float32(2.0))
    assert len(made) == 4


def test_threads(m: axon.Module) -> None:
    fresh = axon.compile(SOURCE)

    def work(i: int) -> bool:
        a, b = f32(1 + i % 5, 3), f32(3, 2)
        return np.array_equal(fresh.matmul(a, b), a @ b) and axon.check("fun f x = x") == []

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))
    assert sys.getrecursionlimit() < compiler.RECURSION_LIMIT


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.axon").write_text("import nn\nfun f x = nn.relu x\n")
    monkeypatch.chdir(tmp_path)
    assert axon.load("a.axon").f(-1.0) == 0.0
    os.chdir("/")
    assert axon.load(tmp_path / "a.axon").f(-1.0) == 0.0


@pytest.mark.parametrize("name", ["self", "target", "out", "args", "kwargs", "callee"])
def test_parameters_have_any_name(name: str) -> None:
    m = axon.compile(f"fun f ({name} : f32[n]) (k : f32) = for i => {name}[i] + k\nfun g {name} = {name} + 1.0")
    for _ in range(2):
        assert m.f(**{name: f32(3)}, k=1.0).tolist() == [1, 2, 3]
        assert m.f(f32(3), k=1.0, target="interpret").tolist() == [1, 2, 3]
        assert m.g(**{name: 1.0}) == 2
    for target in ("cup", 3, f32(3)):
        own = name == "target" and not isinstance(target, str)
        with pytest.raises(axon.AxonError, match="given twice" if own else "there is no target"):
            m.g(1.0, target=target)


def test_copies_and_pickles(tmp_path):
    text = "fun first {h} (x : f32[n]) = for i < h => x[i]\nfun more x = x + 1.0\n"
    (tmp_path / "kept.axon").write_text(text)
    x = np.arange(4, dtype=np.float32)
    for module in (axon.compile(text), axon.load(tmp_path / "kept.axon")):
        assert copy.deepcopy(module) is copy.copy(module) is module
        for function in (module.more, module.first[2]):
            assert copy.deepcopy(function) is copy.copy(function) is function
            again = pickle.loads(pickle.dumps(function))
            assert (again.__name__, again.signature) == (function.__name__, function.signature)
            assert again(x).tolist() == function(x).tolist()
        assert pickle.loads(pickle.dumps(module)).more(x).tolist() == [1, 2, 3, 4]
        assert module["more"] == module.more
        assert module.first[2] == module.first[2] != module.first[3]
        assert len({module.more, module["more"]}) == 1
    (tmp_path / "kept.axon").unlink()
    with pytest.raises(TypeError, match=r"kept.axon` declares cannot be pickled"):
        pickle.dumps(module.more)


def test_a_thousand_parameters():
    text = "fun f " + " ".join(f"(x{i} : f32[n{i}])" for i in range(1_000)) + " = x0\n"
    f = axon.compile(text).f
    assert f.signature.startswith("sig f : f32[n0] -> f32[n1] -> ")
    assert f(*[np.ones(2, np.float32)] * 1_000).tolist() == [1, 1]


def test_a_path_is_not_the_text_of_a_program() -> None:
    with pytest.raises(axon.AxonError, match=r'to read a file, call axon.load\("models/mlp.axon"\)'):
        axon.compile("models/mlp.axon")


def test_a_float_beside_an_integer_is_not_told_to_lose_its_digits() -> None:
    f = axon.compile("fun f (x : 'a) (y : 'a) = x + y").f
    with pytest.raises(axon.AxonError, match=r"help: pass float\(x\)"):
        f(1, 2.5)
    assert f(float(1), 2.5) == 3.5
    with pytest.raises(axon.AxonError, match=r"help: pass float\(x\)"):  # also where the integer has its element type
        f(np.int32(1), 2.5)


def test_open_archives_are_read_once_and_only_if_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `np.load` gives of a .npz file reads an array whenever it is asked for it."""
    m = axon.compile("fun f (p : { w : f32[n], b : f32 }) = for i => p.w[i] * p.b\nfun g (p, x) = sum i => (f p)[i] * x[i]")
    w = np.arange(3, dtype=np.float32)
    np.savez(tmp_path / "good.npz", w=w, b=np.float32(2))
    np.savez(tmp_path / "lacks.npz", w=w)
    np.savez(tmp_path / "more.npz", w=w, b=np.float32(2), m=w)
    np.savez(tmp_path / "wide.npz", w=w, b=np.float64(2))
    np.savez(tmp_path / "rank.npz", w=w, b=w)
    np.savez(tmp_path / "objects.npz", w=w, b=np.array([{}], object))
    read: list[int] = []
    original = np.lib.format.read_array
    monkeypatch.setattr("numpy.lib._npyio_impl.format.read_array", lambda *a, **k: read.append(1) or original(*a, **k))
    for target in (None, "cpu", "interpret"):
        with np.load(tmp_path / "good.npz") as p:
            assert m.f(p, target=target).tolist() == [0, 2, 4]
            assert len(read) == 2
            assert m.g((p, w), target=target) == 10
        read.clear()
        for name, words in (
            ("lacks", "lacks the field `b`"), ("more", "no field `m`"), ("wide", "holds f64"), ("rank", "wrong rank"),
            ("objects", "cannot be read"),
        ):  # fmt: skip
            with np.load(tmp_path / f"{name}.npz") as p, pytest.raises(axon.AxonError, match=words):
                m.f(p, target=target)
            assert not read


@pytest.mark.parametrize("element", ["f16", "f32", "f64", "i8", "i32", "i64", "u8", "u16", "u64", "bool"])
def test_raw_bytes_are_no_numbers(element: str) -> None:
    """But of those that NumPy's files keep so: a file of bf16 holds no f16."""
    f = axon.compile(f"fun f (x : {element}[n]) = for i => x[i]").f
    size = 1 if element == "bool" else int(element[1:]) // 8
    with pytest.raises(axon.AxonError, match="AX0504"):
        f(np.zeros(2, f"V{size}"))
    for name, dtype in (("bf16", ml_dtypes.bfloat16), ("f8e4m3", ml_dtypes.float8_e4m3fn), ("f8e5m2", ml_dtypes.float8_e5m2)):
        x = np.array([1.5, -2], dtype)
        got = axon.compile(f"fun f (x : {name}[n]) = for i => x[i]").f(x.view(f"V{x.itemsize}"))
        assert got.dtype == dtype
        assert got.tolist() == x.tolist()


class Own(np.ndarray):  # type: ignore[type-arg]
    """Writes what it likes."""

    def __setitem__(self, at: Any, value: Any) -> None:
        super().__setitem__(at, 5)


@pytest.mark.parametrize("target", ["cpu", "interpret", "simulate"])
def test_room_of_other_kinds_of_arrays(m: axon.Module, target: str) -> None:
    x = f32(3)
    own = np.zeros(3, np.float32).view(Own)
    assert m.double(x, out=own, target=target) is own
    assert own.tolist() == [0, 2, 4]
    field = np.zeros(3, [("a", "u1"), ("b", "<f4")])
    m.double(x, out=field["b"], target=target)
    assert field["b"].tolist() == [0, 2, 4]
    for masked in (np.ma.zeros(3, np.float32), np.ma.array(f32(3), mask=[True, False, False], hard_mask=True)):
        with pytest.raises(axon.AxonError, match=r"AX0505.*masked array"):
            m.double(x, out=masked, target=target)


INTEGERS = """\
fun i (x : i64) = x
fun f (x : f32) = x
fun is (x : i64[n]) = for k => x[k]
fun a (x : 'a[n]) = for k => x[k]
"""


class Count(int):
    pass


@pytest.mark.parametrize("value", [2**64, 2**63 - 2**70, 10**400], ids=["2^64", "negative", "10^400"])
def test_integers_of_more_than_64_bits(value: int) -> None:
    """Also where they are of a subclass of `int`, or where NumPy would make floats of them and of their neighbours."""
    m = axon.compile(INTEGERS)
    for call in (
        lambda: m.i(Count(value)), lambda: m.i(value), lambda: m.f(Count(value)), lambda: m.f(value),
        lambda: m["is"]([value]), lambda: m["is"]([value, -1]), lambda: m.a([value, -1]), lambda: m.a([Count(value), -1]),
    ):  # fmt: skip
        with pytest.raises(axon.AxonError, match=r"AX0504(.|\n)*of more than 64 bits"):
            call()
    assert m.a([Count(2), -1]).tolist() == [2, -1]
    assert m.i(Count(2)) == 2


def test_a_parameter_to_annotate_is_shown_where_an_argument_has_another_rank() -> None:
    m = axon.compile("fun add x b = x + b\nfun dot x = sum i => x[i] * x[i]\n")
    with pytest.raises(axon.AxonError) as error:
        m.add(np.ones((2, 3), np.float32), np.ones(3, np.float32))
    (found,) = error.value.diagnostics
    assert [label.span.text for label in found.places] == ["b", "x"]
    assert "`x` has no annotation" in str(error.value)
    with pytest.raises(axon.AxonError) as error:
        m.dot(1.0)  # which is indexed: no annotation makes one number do
    assert not error.value.diagnostics[0].suggestions


def test_dataclasses_are_records() -> None:
    @dataclass(frozen=True)
    class Layer:
        w: Any
        b: Any
        width: ClassVar[int] = 3

    @dataclass
    class Net:
        up: Layer
        down: tuple[Layer, float]

    m = axon.compile("""\
type layer[d, k] = { w : f32[d, k], b : f32[k] }
fun f (p : { up : layer[d, h], down : (layer[h, k], f32) }) x = p.down.2 * (x @ p.up.w + p.up.b) @ p.down.1.w
fun g (out : layer[d, k]) = out.b
""")
    x, w, b = np.ones((2, 3), np.float32), np.ones((3, 3), np.float32), np.zeros(3, np.float32)
    net = Net(Layer(w, b), (Layer(w, b), 2.0))
    for target in (None, "cpu", "interpret"):
        assert m.f(net, x, target=target).tolist() == [[18.0] * 3] * 2
        assert m.f(x=x, p=net, target=target).tolist() == [[18.0] * 3] * 2
    assert m.g(out=Layer(w, b)).tolist() == [0, 0, 0]
    with pytest.raises(axon.AxonError, match=r"`p.up` lacks the field `w`(.|\n)*has `b`"):
        m.f({"up": {"b": b}, "down": net.down}, x)
    with pytest.raises(axon.AxonError, match="`p` must be a record, not a value of the Python type type"):
        m.f(Layer, x)
