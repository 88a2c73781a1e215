"""Built libraries compute what calls from Python compute: bit for bit, but for products, which BLAS sums in another order there."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from tests.backend.c.native import ARGUMENT, ARITHMETIC, INDEX, SIZES, Broken, Library, built, close, same_bits, type_of

rng = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)


def f32(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def python(module: axon.Module, name: str, *given: Any, sizes: tuple[int, ...] = ()) -> Any:
    session = module._session
    return session.call(session.callee(name), sizes, given, {}, "cpu", numbers=False)


SOFTMAX = "import nn\nfun f (x : f32[n, d]) (w : f32[d, k]) = nn.softmax (nn.gelu (x @ w))"
RECORDS = """
type layer[i, o] = { w : f32[i, o], b : f32[o], scale : f32 }
fun f (p : { first : layer[i, i], rest : (layer[i, o], f32) }) (x : f32[i]) =
  { out = for k => p.rest.1.scale * x[k] + p.first.b[k] + p.rest.2, parts = (p.rest.1.b, sum k => x[k] * p.first.w[k, k]) }
"""
INTEGERS = """
fun f (a : i64[n, m]) (keep : bool[m]) =
  (for i j => if keep[j] then a[i, j] * a[i, j] % 7 else -a[i, j], any j => keep[j])
"""
NARROW = """
fun f (a : bf16[n]) (b : bf16[n]) (c : f16[n]) =
  (for i => a[i] * b[i] + b[i], sum i => c[i] * c[i], for i => cast u8 (abs c[i]))
"""
LINKED = """
fun f (x : f32[2 * n + 1, m]) (y : f32[n * m]) =
  (sum for i < n, j => x[2 * i, j] + y[i * m + j], for i < n * m => y[i])
"""
SORTS = "fun f (x : f32[b, n]) (k : u8[n]) = (sort x, argsort x, sort k)"
LOOPS = """
fun f (steps : i32) (a : f32[n]) (b : f32[n]) =
  let val (p, q) = loop (p = a, q = b) for _ < steps => (q, for i => p[i] * 0.5 + q[i])
      val s = loop (s = 1.0) while s < 50.0 for _ < 100 => s * 2.0 + p[0] ** 2
  in (p, q, s, unfold (t = 0.0) for i < n => t + a[i]) end
"""
EXPLICIT = "fun f {n, heads} (x : f32[n * heads]) = for h < heads, i < n => x[h * n + i] * 2.0"
FOUND = "fun f (x : f32[n]) = let val (ix : i32[k]) = nonzero (x > 0.0) in (for i => x[ix[i]], k) end"
CONVOLUTION = "import nn\nfun f (x : f32[n, c, h, w]) (k : f32[o, c, r, s]) = nn.conv2d_same x k"
SCATTER = "fun f (ids : i32[m]) (x : f32[m, d]) = for b < 5, j => sum for i where ids[i] = b => x[i, j]"
TABLE = f"""
fun f (x : f64[n]) =
  let val table = [| {", ".join(f"{v}.5" for v in range(20))} |]
      val sums = scan ((op +), 0.0) i => x[i]
  in for i < n => x[i] * table[i % 20] + sums[i] end
"""
ROWS = """
fun f (x : f32[n, m]) = for i =>
  let val d = for j < m - 1 => exp (x[i, j + 1] - x[i, j])
  in (sum j => d[j]) / max j => d[j] end
"""
TWICE = "fun f (x : f32[n, m]) = { a = x, b = (x, x), c = for i j => x[i, j] + 1.0 }"
SCALARS = "fun f (x : f32) (n : i32) (b : bool) = (x * 2.0, if b then n / 3 else n % 3)"
ORDERS = "fun f (a : f32[n, m]) (b : f32[m, k]) (c : f32[k, l]) = for i j => sum p q => a[i, p] * b[p, q] * c[q, j]"

LAYER = {"w": f32(3, 4), "b": f32(4), "scale": np.float32(0.5)}
SQUARE = {**LAYER, "w": f32(3, 3), "b": f32(3)}
KEEP = np.array([True, False, True])
TIES = np.array([[2, np.nan, -0.0, 0.0, -np.inf, 1]] * 3, np.float32)
F64 = f32(3, 4).astype(np.float64)

Call = tuple[Any, ...]
# Programs with calls of them, and the rounding, 0 where bits are the same.
CASES: dict[str, tuple[str, list[Call], float]] = {
    "softmax": (SOFTMAX, [(f32(5, 7), f32(7, 9)), (f32(130, 300), f32(300, 70)), (f32(0, 7), f32(7, 9))], 1e-5),
    "records": (RECORDS, [({"first": SQUARE, "rest": (LAYER, np.float32(2))}, f32(3))], 1e-6),
    "integers": (INTEGERS, [(rng.integers(-9, 9, (2, 3)), KEEP), (np.zeros((0, 3), np.int64), KEEP)], 0),
    "narrow": (NARROW, [(f32(5000).astype(BF16), f32(5000).astype(BF16), f32(5000).astype(np.float16))], 0),
    "bf16": ("fun f (a : bf16[n, k]) (b : bf16[k, m]) = a @ b", [(f32(33, 65).astype(BF16), f32(65, 17).astype(BF16))], 1e-2),
    "linked": (LINKED, [(f32(7, 2), f32(6)), (f32(1, 4), f32(0))], 1e-6),
    "sorts": (
        SORTS,
        [
            (TIES, np.array([9, 255, 0, 3, 3, 1], np.uint8)),
            (np.round(f32(2, 5000), 1), rng.integers(0, 256, 5000).astype(np.uint8)),
            (f32(2, 0), np.zeros(0, np.uint8)),
        ],
        0,
    ),
    "loops": (LOOPS, [(np.int32(steps), np.abs(f32(6)), f32(6)) for steps in (5, 0, -1, 4)], 1e-6),
    "explicit": (EXPLICIT, [((2, 3), f32(6)), ((0, 3), f32(0))], 0),
    "found": (FOUND, [(f32(1000),), (-np.abs(f32(4)),), (f32(0),)], 0),
    "convolution": (CONVOLUTION, [(f32(2, 3, 9, 11), f32(4, 3, 3, 3)), (f32(1, 16, 20, 20), f32(8, 16, 5, 5))], 1e-5),
    "scatter": (SCATTER, [(rng.integers(0, 9, 700).astype(np.int32), f32(700, 3))], 0),
    "table": (TABLE, [(f32(300).astype(np.float64),)], 0),
    "rows": (ROWS, [(f32(300, 600),), (f32(3, 2),), (f32(0, 1),)], 0),
    "twice": (TWICE, [(f32(3, 4),)], 0),
    "scalars": (SCALARS, [(np.float32(2.5), np.int32(-7), np.bool_(True)), (np.float32(0), np.int32(-7), np.bool_(False))], 0),
    "open": ("fun f x y = (x + y, for i j => x[i, j])", [(F64, F64)], 0),
    "thin": ("fun f (x : f64[n, k]) (w : f64[k, m]) = x @ w", [(F64[:2], f32(4, 5000).astype(np.float64)), (F64, F64.T)], 1e-12),
    "orders": (ORDERS, [(f32(30, 4), f32(4, 50), f32(50, 3)), (f32(2, 40), f32(40, 3), f32(3, 60))], 1e-5),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "open": {"elements": {"x": "f64"}, "shapes": {"x": (None, None), "y": (None, None)}},
    "orders": {"given": {"n": 2, "m": 40, "k": 3, "l": 60}},
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Each case's module and library, built when it is first asked for."""
    known: dict[str, tuple[axon.Module, Library]] = {}

    def of(case: str) -> tuple[axon.Module, Library]:
        if case not in known:
            module = axon.compile(CASES[case][0])
            known[case] = module, built(tmp_path_factory.mktemp(case), module, "f", **OPTIONS.get(case, {}))
        return known[case]

    return of


def sizes_of(given: Call) -> tuple[tuple[int, ...], Call]:
    """Dimension parameters, which stand first, and arguments."""
    if isinstance(given[0], tuple) and isinstance(given[0][0], int):
        return given[0], given[1:]
    return (), given


@pytest.mark.parametrize("case", CASES)
def test_as_from_python(case: str, libraries: Any) -> None:
    module, library = libraries(case)
    _, calls, rounding = CASES[case]
    for call in calls:
        sizes, given = sizes_of(call)
        expected = python(module, "f", *given, sizes=sizes)
        found = library.call(expected, *given, sizes=sizes)
        assert close(found, expected, rounding) if rounding else same_bits(found, expected), (found, expected)


def test_strides_of_arguments(libraries: Any) -> None:
    """Rows backwards, columns apart, a transposed factor, and one that has the same row again and again."""
    module, library = libraries("softmax")
    wide, w = f32(40, 30), f32(30, 9)
    for given in ((wide[::-2, 3:27:4], w[:6]), (wide[:7, :9], w[:9, ::-1].T), (np.broadcast_to(wide[0], (5, 30)), w)):
        expected = python(module, "f", *given)
        found = library.call(expected, *given)
        assert same_bits(found, library.call(expected, *map(np.ascontiguousarray, given)))
        assert close(found, expected, 1e-5)


def test_few_rows_on_many_threads(libraries: Any) -> None:
    """Where columns are cut, and so where vectors end, does not show."""
    _, library = libraries("thin")
    x, w = f32(2, 301).astype(np.float64), f32(301, 2003).astype(np.float64)
    found = []
    for count in (1, 2, 3, 7):
        library.threads(count)
        found.append(library.call(x[:, :1], x, w))
    assert all(same_bits(other, found[0]) for other in found)
    assert close(found[0], x @ w, 1e-12)


def test_into(libraries: Any) -> None:
    """Room of any strides, also on top of an argument: what is read is read before."""
    module, library = libraries("twice")
    x = f32(3, 4)
    expected = python(module, "f", x)
    room = {"a": np.zeros((3, 8), np.float32)[:, ::2], "b": (np.zeros((4, 3), np.float32).T, np.zeros((3, 4), np.float32)), "c": x}
    library.into(room, x.copy())
    assert same_bits(room, expected)
    x = room["c"] = f32(3, 4)
    expected = python(module, "f", x)
    library.into({**room, "a": np.empty((3, 4), np.float32)}, x)
    assert same_bits(x, expected["c"])
    shapes = library.shapes(expected, x)
    assert [tuple(t.sizes) for t in (shapes.a, shapes.b._1, shapes.c)] == [(3, 4)] * 3
    assert tuple(shapes.c.strides) == (4, 1)
    assert shapes.c.data is None


def test_room_that_does_not_fit(libraries: Any) -> None:
    _, library = libraries("twice")
    good = np.empty((3, 4), np.float32)
    like = {"a": good, "b": (good, good), "c": good}
    with pytest.raises(Broken) as broken:
        library.into({**like, "b": (good, np.empty((3, 5), np.float32))}, f32(3, 4))
    assert broken.value.code == ARGUMENT
    assert broken.value.text == "error[AX0505]: dimension 2 of `out.b.2` is 5, and the result has 4 there"
    nowhere = type_of(good)(None, (3, 4), (4, 1))
    code = library.handle["axon_f"](ctypes.byref(nowhere), ctypes.byref(type_of(like)()))
    assert (code, library.error()) == (ARGUMENT, b"error[AX0505]: `x` has elements, and its `data` is NULL")
    for name in ("axon_f", "axon_f_shapes", "axon_f_into"):
        out = ctypes.byref(type_of(like)())
        assert (library.handle[name](None, out), library.error()) == (ARGUMENT, b"error[AX0505]: `x` is NULL")
        assert library.handle[name](ctypes.byref(type_of(good)(None, (0, 4), (4, 1))), None) == ARGUMENT
        assert library.error() == b"error[AX0505]: `out` is NULL"


BREAKING: list[tuple[str, Call]] = [
    ("softmax", (f32(5, 7), f32(6, 9))),
    ("linked", (f32(8, 2), f32(6))),
    ("linked", (f32(7, 2), f32(5))),
    ("records", ({"first": LAYER, "rest": (LAYER, np.float32(2))}, f32(3))),
    ("explicit", ((2, 3), f32(5))),
]


@pytest.mark.parametrize(("case", "call"), BREAKING)
def test_sizes_that_break_the_contract(case: str, call: Call, libraries: Any) -> None:
    """What Python says first, and where sizes come from."""
    module, library = libraries(case)
    sizes, given = sizes_of(call)
    with pytest.raises(axon.AxonError) as raised:
        python(module, "f", *given, sizes=sizes)
    with pytest.raises(Broken) as broken:
        library.call(np.float32(0), *given, sizes=sizes)
    assert broken.value.code == SIZES
    (diagnostic,) = raised.value.diagnostics
    first, *notes = broken.value.text.splitlines()
    assert first == f"error[AX0501]: {diagnostic.message}"
    assert notes
    assert {note.removeprefix("  = ") for note in notes} <= set(diagnostic.notes)


STOPPING = """
fun reads (x : f32[n, m]) (p : { rows : i32[k], columns : i32[k] }) =
  for i => if p.columns[i] > 5 then 0.0 else x[p.rows[i] + 1, p.columns[i]]
fun divides (a : i32[n]) (b : i32[n]) = (for i => a[i] / b[i], sum i => a[i] % (b[i] - 1))
fun powers (a : i32[n]) (b : i32[n]) = sum i => a[i] ** b[i]
fun largest (a : i32[n]) (b : i32[n]) = max for i where b[i] > 100 => a[i]
fun best (x : f32[n, m]) (ids : i32[n]) = for i => argmax for j where j < ids[i] => x[i, j]
"""
STOPS: list[tuple[str, Call, int, Any]] = [
    ("reads", (f32(3, 4), {"rows": np.array([0, 1, 2, 9], "i4"), "columns": np.array([0, 7, 2, 1], "i4")}), INDEX, f32(4)),
    ("reads", (f32(3, 4), {"rows": np.array([0, 1], "i4"), "columns": np.array([0, -1], "i4")}), INDEX, f32(2)),
    ("divides", (np.arange(3, dtype="i4"), np.array([2, 3, 0], "i4")), ARITHMETIC, (np.arange(3, dtype="i4"), np.int32(0))),
    ("divides", (np.arange(3, dtype="i4"), np.array([1, 2, 3], "i4")), ARITHMETIC, (np.arange(3, dtype="i4"), np.int32(0))),
    ("powers", (np.arange(3, dtype="i4"), np.array([1, -2, 3], "i4")), ARITHMETIC, np.int32(0)),
    ("largest", (np.arange(3, dtype="i4"), np.array([1, -2, 3], "i4")), ARITHMETIC, np.int32(0)),
    ("best", (f32(3, 4), np.array([1, 0, 2], "i4")), ARITHMETIC, np.zeros(3, np.int32)),
]


@pytest.fixture(scope="module")
def stopping(tmp_path_factory: pytest.TempPathFactory) -> tuple[axon.Module, dict[str, Library]]:
    module = axon.compile(STOPPING)
    return module, {name: built(tmp_path_factory.mktemp(name), module, name) for name in dict.fromkeys(stop[0] for stop in STOPS)}


@pytest.mark.parametrize(("name", "given", "code", "like"), STOPS)
def test_what_stops_a_program(name: str, given: Call, code: int, like: Any, stopping: Any) -> None:
    """The error of a call from Python, with the index and the size, and its place."""
    module, libraries = stopping
    with pytest.raises(axon.AxonError) as raised:
        python(module, name, *given)
    with pytest.raises(Broken) as broken:
        libraries[name].call(like, *given)
    (diagnostic,) = raised.value.diagnostics
    message, span = diagnostic.message.removesuffix(f", in a call of `{name}`"), diagnostic.labels[0].span
    line, column = span.file.position(span.start)
    assert broken.value.code == code
    assert broken.value.text == f"error[{diagnostic.code}]: {message}, at <text>:{line}:{column}: `{span.excerpt}`"
