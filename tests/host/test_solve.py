"""`m.f.solve`: held against calls, of every small size, by the interpreter."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

import axon

SOURCE = """\
import nn
type lin[d, k] = { w : f32[d, k], b : f32[k] }
fun conv {s} (x : f32[n]) (k : f32[r]) where s >= 1 = for p < (n - r) / s + 1 => sum i => x[s * p + i] * k[i]
fun halves (x : f32[k]) = for i < 2, j => x[(i, j)]
fun pairs x = for i < 2, j => x[(i, j)]
fun outer (x : f32[n]) (y : f32[m]) = for (i, j) => x[i] * y[j]
fun both (x : f32[n]) (y : f32[m]) = { first = for i < n - m => x[i], rest = (x, for i < n * m => 1.0) }
fun mm x y = x @ y
fun shift (x : f32[..s, n]) y = x + y
fun dense (p : lin[d, k]) (x : f32[n, d]) = x @ p.w + p.b
fun positive (x : f32[n]) = filter (for i => x[i] > 0.0) x
fun as_square (x : f32[n]) = x as f32[9]
fun heads {h} (x : f32[b, d]) where d % h = 0 = for b, i < h, j => x[b, (i, j)]
fun pooled (x : f32[h]) = for i < (h + 1) / 2 / 2 => i
fun powers (x : f32[n]) = for i < n * n => x[0]
fun parts (x : f32[n]) (y : f32[k]) = for i < n / (k - 3) => x[i]
fun rest {k} (x : f32[n]) = for i < n % k => x[i]
fun cut (x : f32[n]) (y : f32[m]) = for i < n - m => x[i]
fun longer (x : f32[n]) (y : f32[m]) = for i < max n m => i
fun shorter (x : f32[n]) (y : f32[m]) = for i < min n (2 * m) => x[i]
fun branches {k} (x : f32[n]) = if k > 2 then x as f32[4] else x as f32[4]
fun guarded {k} (x : f32[n]) = for i < 4 => if k > 2 then (x as f32[4])[i] else 0.0
fun irrational (x : f32[n]) (y : f32[m]) where n * n = 2 * m * m, m >= 1 = x
fun out (out : f32[n]) = for i < 2 * n => out[0]
"""


@pytest.fixture(scope="module")
def m() -> axon.Module:
    return axon.compile(SOURCE)


def shapes_by_calls(f: axon.Function, explicit: int, ranks: tuple[int, ...], most: int) -> dict[tuple[Any, ...], Any]:
    """What each call with small arguments of these ranks gives the shape of: by calling."""
    found = {}
    for sizes in product(range(most), repeat=explicit + sum(ranks)):
        rest, arguments = list(sizes[explicit:]), []
        for rank in ranks:
            arguments.append(np.ones(rest[:rank], np.float32))
            rest = rest[rank:]
        try:
            result = (f[sizes[:explicit]] if explicit else f)(*arguments, target="interpret")
        except axon.ShapeError:
            continue
        found[sizes] = _shapes(result)
    return found


def _shapes(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(_shapes, result))
    return {k: _shapes(v) for k, v in result.items()} if isinstance(result, dict) else np.shape(result)


@pytest.mark.parametrize(
    ("name", "explicit", "ranks", "most"),
    [
        ("conv", 1, (1, 1), 5),
        ("halves", 0, (1,), 12),
        ("pairs", 0, (1,), 12),
        ("outer", 0, (1, 1), 9),
        ("both", 0, (1, 1), 7),
        ("mm", 0, (2, 2), 4),
        ("shift", 0, (2, 2), 3),
        ("heads", 1, (2,), 5),
        ("pooled", 0, (1,), 20),
        ("powers", 0, (1,), 7),
        ("as_square", 0, (1,), 12),
        ("parts", 0, (1, 1), 7),
        ("rest", 1, (1,), 7),
        ("cut", 0, (1, 1), 7),
        ("longer", 0, (1, 1), 7),
        ("shorter", 0, (1, 1), 7),
        ("branches", 1, (1,), 6),
        ("guarded", 1, (1,), 6),
        ("out", 0, (1,), 7),
    ],
)
def test_against_calls(m: axon.Module, name: str, explicit: int, ranks: tuple[int, ...], most: int) -> None:
    """For each shape that a call gives, and some that none does: a call gives it at exactly the solutions."""
    f = m[name]
    called = shapes_by_calls(f, explicit, ranks, most)
    assert called
    asked = {repr(shape): shape for shape in called.values()}
    for shape in [(0,), (3,), (11,), (2, 3), (3, 4, 5)]:
        if len(shape) == len(next(iter(called.values()))) and not isinstance(next(iter(called.values())), dict):
            asked.setdefault(repr(shape), shape)
    asked = dict(list(asked.items())[-5:])
    for shape in asked.values():
        expected = sorted(sizes for sizes, found in called.items() if found == shape)
        by_rank = {p.name: r for p, r in zip(f._callee.parameters, ranks, strict=True)} if f._callee.scheme.rows else None
        found = f.solve(out=shape, ranks=by_rank)
        if name in ("branches", "guarded"):  # an `as` under a condition
            assert found.status in ("unknown", "none")
            assert found.status == "unknown" or not expected
            continue
        assert found.status != "unknown"
        assert bool(found) >= bool(expected)
        if found.status == "all":
            flat = [(*_explicit(s, f), *(n for a in s.arguments.values() for n in a)) for s in found]
            assert sorted(sizes for sizes in flat if max(sizes, default=0) < most) == expected
            assert [tuple(s.sizes.values()) for s in found] == sorted(tuple(s.sizes.values()) for s in found)
        elif found.status == "family":
            _is_family(found, expected)
        else:
            assert not expected
            assert "AX0501" in str(found.why)


def _explicit(solution: Any, f: axon.Function) -> list[int]:
    return [solution[name] for name in f._callee.dimensions]


def _is_family(found: Any, expected: list[tuple[int, ...]]) -> None:
    """Some choice of the free sizes gives each call, with all relations true; and no choice gives another."""
    shapes = [e for dims in found.arguments.values() for e in dims]
    members = set()
    for sizes in product(range(8), repeat=len(found.free)):
        put = dict(zip(found.free, sizes, strict=True))
        if all(r.subs(put) == True for r in found.relations):  # noqa: E712 (SymPy's)
            members.add(tuple(int(e.subs(put)) for e in shapes))
    got = {sizes[-len(shapes) :] for sizes in expected}
    assert got <= members
    most = max((max(s, default=0) for s in got), default=0)
    assert {s for s in members if max(s, default=0) < most} <= got


def test_every_kind(m: axon.Module) -> None:
    found = m.conv.solve({"s": 2, "r": 3}, out=(7,))
    assert found.status == "all"
    assert [s.sizes for s in found] == [{"s": 2, "n": 15, "r": 3}, {"s": 2, "n": 16, "r": 3}]
    assert found[0].arguments == {"x": (15,), "k": (3,)}
    assert found[0].results == {"out": (7,)}
    assert (found[0]["n"], found[0]["x", 0], found[0]["out", 0], len(found)) == (15, 15, 7, 2)
    family = m.dense.solve({"d": 4}, out=(None, 3))
    assert (family.status, bool(family)) == ("family", True)
    assert [s.name for s in family.free] == ["n"]
    assert family.arguments == {"p.w": (4, 3), "p.b": (3,), "x": (family.free[0], 4)}
    assert family.sizes == {"d": 4, "k": 3, "n": family.free[0]}
    none = m.halves.solve(x=(7,))
    assert (none.status, bool(none), len(none), list(none)) == ("none", False, 0, [])


def test_a_family_in_words(m: axon.Module) -> None:
    text = repr(m.conv.solve({"s": 2}, out=(7,)))
    assert text.startswith("<a family:\n  for any n, r such that\n    (n - r) / 2 + 1 = 7\n    s = 2\n")
    found = m.conv.solve({"s": 2}, out=(7,))
    n, r = found.free
    assert found.relations == (sympy.Eq(sympy.floor((n - r) / 2) + 1, 7),)
    assert "x : [3, m]" in repr(m.mm.solve(out=(3, 4)))


def test_dimension_parameters_that_are_given(m: axon.Module) -> None:
    assert [s.sizes["n"] for s in m.conv[3].solve({"r": 2}, out=(4,))] == [11, 12, 13]


def test_places(m: axon.Module) -> None:
    assert [s["y", 0] for s in m.mm.solve({("x", 1): 5}, out=(3, 4))] == [5]
    assert [s["n"] for s in m.out.solve({("out", 0): 3})] == [3]
    assert [s["n"] for s in m.out.solve({("result", 0): 6})] == [3]
    assert [s["n"] for s in m.out.solve(out=(6,))] == [3]


def test_shapes_of_records_and_tuples(m: axon.Module) -> None:
    found = m.both.solve(out={"first": (3,), "rest": (None, (10,))})
    assert [s.sizes for s in found] == [{"n": 5, "m": 2}]
    found = m.dense.solve(p={"w": (4, None)}, x=(2, None), out=(None, 3))
    assert [s.sizes for s in found] == [{"d": 4, "k": 3, "n": 2}]


def test_ranks_follow_from_shapes(m: axon.Module) -> None:
    assert [s.arguments["y"] for s in m.shift.solve(out=(2, 3, 4))] == [(2, 3, 4)]
    assert [s.arguments["y"] for s in m.shift.solve(x=(2, 3))] == [(2, 3)]
    assert m.shift.solve({"s": 5}, ranks={"s": 1}).status == "family"


def test_why_there_is_none(m: axon.Module) -> None:
    found = m.dense.solve({"d": 4}, p={"w": (5, None)})
    (why,) = found.why.diagnostics
    assert why.code == "AX0501"
    assert why.notes[:2] == ("`d` is given as 4", "and dimension 1 of `p.w`, `d`, is given as 5")
    (why,) = m.halves.solve(out=(3, None)).why.diagnostics
    assert why.notes[0] == "dimension 1 of the result is asked to be 3"
    (why,) = m.halves.solve({"k": 7}).why.diagnostics
    assert why.notes[:2] == ("`k` is given as 7", "and `k % 2 = 0` must hold")
    assert why.labels[0].text == "dimension 1 of `x` is split: it needs `k % 2 = 0`"


def test_unknown_is_said(m: axon.Module) -> None:
    """No n is the square root of 2 times m: who knows."""
    found = m.irrational.solve()
    assert found.status == "unknown"
    assert not found
    assert "unknown" in repr(found)
    with pytest.raises(TypeError, match="unknown"):
        list(found)


def test_what_data_decide_stays_open(m: axon.Module) -> None:
    (found,) = m.positive.solve(x=(5,), out=(None,))
    assert found.results == {"out": (None,)}


def refused(code: str, call: Any) -> str:
    with pytest.raises(axon.AxonError) as caught:
        call()
    (found,) = caught.value.diagnostics
    assert found.code == code
    return found.message


@pytest.mark.parametrize(
    ("code", "ask", "said"),
    [
        ("AX0505", lambda m: m.conv.solve({"q": 3}), "no size `q`"),
        ("AX0505", lambda m: m.mm.solve({"n": 3}, ranks={"x": 2}), "the source does not name"),
        ("AX0505", lambda m: m.conv.solve({"s": 1.5}), "cannot be 1.5"),
        ("AX0505", lambda m: m.conv.solve({"s": True}), "cannot be True"),
        ("AX0505", lambda m: m.conv.solve({"s": -1}), "`s` cannot be -1"),
        ("AX0505", lambda m: m.conv.solve({"s": 10**5000}), "`s` cannot be a number of that many digits"),
        ("AX0505", lambda m: m.conv.solve({"s": [2, 3]}), "`s` cannot be [2, 3]"),
        ("AX0505", lambda m: m.conv.solve({("x", 10**5000): 1}), "has no dimension a number of that many digits"),
        ("AX0505", lambda m: m.conv.solve("s=2"), "sizes are given in a dict, not as 's=2'"),
        ("AX0505", lambda m: m.conv.solve([("s", 2)]), "sizes are given in a dict, not as [('s', 2)]"),
        ("AX0505", lambda m: m.conv.solve(ranks=3), "ranks are given in a dict, not as 3"),
        ("AX0505", lambda m: m.conv.cost(5), "sizes are given in a dict, not as 5"),
        ("AX0505", lambda m: m.conv.cost(elements="f16"), "element types are given in a dict, not as 'f16'"),
        ("AX0505", lambda m: m.conv.solve(out=7), "the shape of `out` cannot be 7"),
        ("AX0505", lambda m: m.conv.solve(y=(3,)), "no parameter `y`"),
        ("AX0506", lambda m: m.conv.solve(x=(3, 4)), "1 dimension, not 2"),
        ("AX0505", lambda m: m.both.solve(out={"frist": (3,)}), "no field `frist`"),
        ("AX0505", lambda m: m.both.solve(out=(3,)), "has a shape for each field"),
        ("AX0505", lambda m: m.both.solve(out={"rest": ((3,),)}), "a tuple of 2"),
        ("AX0505", lambda m: m.positive.solve(out=(3,)), "only the data decide"),
        ("AX0506", lambda m: m.shift.solve({"n": 3}), "any number of dimensions"),
    ],
)
def test_what_is_refused(m: axon.Module, code: str, ask: Any, said: str) -> None:
    assert said in refused(code, lambda: ask(m))


def test_a_published_model() -> None:
    """U-Net takes images of 16 i + 124 pixels and nothing else."""
    f = axon.load(Path(__file__).parents[2] / "examples" / "models" / "unet.axon").logits
    given = {"w": 64, "c": 1, "k": 2}
    (found,) = f.solve(given, images=(1, 1, 572, 572))
    assert found["out", 2] == 388
    for size in (172, 187, 188, 189, 204, 572):
        assert bool(f.solve(given, images=(1, 1, size, 572))) == (size % 16 == 12 and size >= 188), size
