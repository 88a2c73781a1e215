"""`m.f.sizes`: a signature's sizes as SymPy has them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import sympy

import axon

SOURCE = """\
import nn
type lin[d, k] = { w : f32[d, k], b : f32[k] }
fun mm x y = x @ y
fun pairs x = for i < 2, j => x[(i, j)]
fun halves (x : f32[k]) = for i < 2, j => x[(i, j)]
fun conv {s} (x : f32[b, h]) (k : f32[r]) where s >= 1 = for b, p < (h - r) / s + 1 => sum i => x[b, s * p + i] * k[i]
fun shift (x : f32[..s, n]) y = x + y
fun dense (p : lin[d, k]) (x : f32[d]) = { y = for k => (sum j => x[j] * p.w[j, k]) + p.b[k], both = (p.b, x) }
fun same x = x
fun apply f (x : f32[n]) = for i => f x[i]
fun positive (x : f32[n]) = filter (for i => x[i] > 0.0) x
fun tiled {n} (x : f32[max n 3, min n 7]) = x
fun out (out : f32[n]) = out
"""


@pytest.fixture(scope="module")
def m() -> axon.Module:
    return axon.compile(SOURCE)


def size(name: str) -> Any:
    return sympy.Symbol(name, integer=True, nonnegative=True)


def test_symbols_are_the_names_of_the_source(m: axon.Module) -> None:
    assert m.conv.sizes.symbols == {name: size(name) for name in ("s", "b", "h", "r")}
    assert list(m.conv.sizes.symbols) == ["s", "b", "h", "r"]


def test_shapes_are_expressions(m: axon.Module) -> None:
    s, b, h, r = map(size, "sbhr")
    sizes = m.conv.sizes
    assert sizes.arguments == {"x": (b, h), "k": (r,)}
    assert sizes.results == {"out": (b, sympy.floor((h - r) / s) + 1)}
    assert sizes["out", 1] == sizes["out", -1] == sympy.floor((h - r) / s) + 1
    assert sizes["b"] == b


def test_the_contract_is_relations(m: axon.Module) -> None:
    s, h, r, k = map(size, "shrk")
    assert m.conv.sizes.contract == (s >= 1, r <= s + h)
    assert m.halves.sizes.contract == (sympy.Eq(sympy.Mod(k, 2), 0),)
    assert m.pairs.sizes.contract == ()


@pytest.mark.parametrize(
    ("parameters", "where"),
    [
        ("(x : i32[n, n / m, m])", "m >= 1"),
        ("{k} (x : i32[n / (k * m), m]) (y : f32[n])", "k >= 1, m >= 1"),
        ("{k} (x : i32[n / (k + 1), n / 2, n / max k 1]) (y : f32[n])", ""),
        ("(x : i32[n, n / m, m]) (y : f32[n % m])", "m >= 1"),
    ],
)
def test_what_divides_in_a_parameters_size(parameters: str, where: str) -> None:
    f = axon.compile(f"fun f {parameters} = 0").f
    assert ", ".join(map(str, f.sizes.contract)) == where
    assert f.signature.partition(" where ")[2] == where


def test_a_divisor_of_a_parameters_size_is_why_nothing_fits() -> None:
    found = axon.compile("fun f (x : i32[n, n / m, m]) = for i < n => 0").f.solve({"m": 0, "n": 4})
    assert "`m >= 1` must hold" in str(found.why)


def test_minima_and_maxima(m: axon.Module) -> None:
    n = size("n")
    assert m.tiled.sizes.arguments["x"] == (sympy.Max(n, 3), sympy.Min(n, 7))


def test_records_and_tuples_by_path(m: axon.Module) -> None:
    d, k = map(size, "dk")
    assert m.dense.sizes.arguments == {"p.w": (d, k), "p.b": (k,), "x": (d,)}
    assert m.dense.sizes.results == {"out.y": (k,), "out.both.1": (k,), "out.both.2": (d,)}


def test_a_size_that_data_decide(m: axon.Module) -> None:
    (found,) = m.positive.sizes.results["out"]
    assert found.is_Symbol
    assert found.name not in m.positive.sizes.symbols


def test_a_parameter_called_out(m: axon.Module) -> None:
    assert m.out.sizes.arguments == {"out": (size("n"),)}
    assert m.out.sizes.results == {"result": (size("n"),)}


def test_shape_variables_need_ranks(m: axon.Module) -> None:
    n = size("n")
    assert m.shift.sizes(ranks={"s": 2}).arguments["x"] == (size("s1"), size("s2"), n)
    assert m.shift.sizes(ranks={"s": 1}).arguments["x"] == (size("s"), n)
    assert m.shift.sizes(ranks={"x": 1}).arguments["x"] == (n,)
    assert m.shift.sizes(ranks={"s": 1})["s"] == size("s")
    assert str(m.shift.sizes.__repr__()).endswith("call it with ranks=>")


def test_names_are_those_of_the_sig() -> None:
    """Annotations below it may call the sizes otherwise; the body then computes with these names."""
    m = axon.compile(
        "sig f : {k} -> f32[d] -> f32[k] where k <= d\n"
        "fun f {j} (x : f32[n]) : f32[j] = for i < j => x[i] * cast f32 (n * j + d)\n"
        "sig g : f32[n] -> f32[m] -> f32[m, n]\n"
        "fun g (x : f32[m]) (y : f32[n]) = for i j => y[i] * x[j] * cast f32 m\n"
    )
    assert m.f.sizes.arguments == {"x": (size("d"),)}
    assert [s.arguments for s in m.f.solve({"k": 2}, x=(5,))] == [{"x": (5,)}]
    assert m.f[2]([1.0, 2.0, 3.0]).tolist() == [9.0, 18.0]
    assert m.g([1.0, 2.0], [1.0, 1.0, 3.0]).tolist() == [[2.0, 4.0], [2.0, 4.0], [6.0, 12.0]]


def test_text(m: axon.Module) -> None:
    assert repr(m.conv.sizes) == (
        "<sizes of conv\n  x   : [b, h]\n  k   : [r]\n  out : [b, (h - r) / s + 1]\n  where s >= 1, r <= s + h>"
    )
    assert repr(m.mm.sizes(ranks={"x": 2})).endswith("by place alone, for the source does not name them: n, m, k>")


def refused(code: str, call: Any) -> axon.Diagnostic:
    with pytest.raises(axon.AxonError) as caught:
        call()
    (found,) = caught.value.diagnostics
    assert found.code == code
    return found


def test_names_that_the_compiler_chose_are_no_api(m: axon.Module) -> None:
    sizes = m.mm.sizes(ranks={"x": 2})
    assert sizes.symbols == {}
    found = refused("AX0505", lambda: sizes["n"])
    assert [s.text for s in found.suggestions] == [
        'write its place, ("x", 0)',
        "or name it in the source, with `sig mm : 'a[..s, n, m] -> 'a[..s, m, k] -> 'a[..s, n, k]` before the declaration",
    ]
    assert sizes["x", 0] == sizes["out", 0]
    named = axon.compile("sig mm : 'a[..s, n, m] -> 'a[..s, m, k] -> 'a[..s, n, k]\nfun mm x y = x @ y")
    assert named.mm.sizes(ranks={"s": 0})["n"] == size("n")


@pytest.mark.parametrize(
    ("code", "ask", "said"),
    [
        ("AX0505", lambda m: m.conv.sizes["bb"], "no size `bb`"),
        ("AX0505", lambda m: m.conv.sizes[3], "no size of `conv`"),
        ("AX0505", lambda m: m.conv.sizes["y", 0], "no tensor `y`"),
        ("AX0505", lambda m: m.conv.sizes["x", 2], "no dimension 2"),
        ("AX0505", lambda m: m.conv.sizes["x", True], "no dimension True"),
        ("AX0506", lambda m: m.shift.sizes.contract, "any number of dimensions"),
        ("AX0506", lambda m: m.shift.sizes(ranks={"q": 1}), "no rank that could be given"),
        ("AX0506", lambda m: m.shift.sizes(ranks={"x": 0}), "at least 1 dimension, not 0"),
        ("AX0506", lambda m: m.shift.sizes(ranks={"s": -1}), "from 0 to 32"),
        ("AX0506", lambda m: m.shift.sizes(ranks={3: 3}), "`3` of `shift` has no rank"),
        ("AX0506", lambda m: m.shift.solve(out=(None,) * 70), "at most 32, not 70"),
        ("AX0506", lambda m: m.mm.sizes(ranks={"s": 1}), "no rank that could be given"),
        ("AX0506", lambda m: m.conv.sizes(ranks={"x": 3}), "has 2 dimensions, not 3"),
        ("AX0505", lambda m: m.same.sizes, "of any type"),
        ("AX0505", lambda m: m.apply.sizes.contract, "is a function"),
    ],
)
def test_what_is_refused(m: axon.Module, code: str, ask: Any, said: str) -> None:
    assert said in refused(code, lambda: ask(m)).message


def test_expressions_are_what_the_signature_prints(m: axon.Module) -> None:
    """At many sizes: evaluated, an expression is what the Dim is."""
    values: Mapping[str, int] = {"s": 2, "b": 3, "h": 11, "r": 4, "n": 5, "k": 6, "d": 2}
    for name in ("conv", "tiled", "dense", "halves", "pairs"):
        at = m[name].sizes._at
        for shapes, found in ((at.arguments, m[name].sizes.arguments), (at.results, m[name].sizes.results)):
            for path, dims in shapes.items():
                own = {s: values.get(at.names[s], 7) for d in dims for s in d.variables}
                put = {size(at.names[s]): n for s, n in own.items()}
                assert [int(e.subs(put)) for e in found[path]] == [d.evaluate(own) for d in dims]


DIVIDING = """\
fun itself {k} (x : f32[n]) where k <= n / n = x
fun other {k} (x : f32[n]) where n <> k % (3 / n) = x
fun least {k} (x : f32[n]) where min n (min k (n / n)) <> 1 = x
fun part {k} (x : f32[n]) where n % k = 0, n / k <= 3 = x
fun taken {k} (x : f32[n]) = for i < k, j => x[(i, j)]
fun window {k} (x : f32[n]) = sum for i < 2 * k - 3 => x[i / k]
fun ends {k} (x : f32[n]) = x[n / k : max k 2]
fun steps {k} (x : f32[n]) = x[0 : n - 1 : k]
fun guarded {k} (x : f32[n]) = if k >= 3 then x[k] else x[n / (k + 1)]
"""


@pytest.mark.parametrize("name", [line.split()[1] for line in DIVIDING.splitlines()])
def test_the_contract_holds_of_just_the_calls_that_are_accepted(name: str) -> None:
    """Also that what divides is at least 1, which SymPy's division does not ask; no relation divides by 0 before that."""
    f = axon.compile(DIVIDING)[name]
    contract, (shape,) = f.sizes.contract, f.sizes.arguments.values()
    sizes = {str(x): x for x in set().union(*(r.free_symbols for r in contract), *(d.free_symbols for d in shape))}
    accepted = {}
    for k, n in itertools.product(range(7), repeat=2):
        try:
            f[k]([0.0] * n)
            accepted[k, n] = True
        except axon.AxonError:
            accepted[k, n] = False
    k_, names = f.sizes.symbols.get("k", size("k")), sorted(set(sizes) - {"k"})
    found = set()
    for k, *others in itertools.product(range(7), *(range(7) for _ in names)):
        at = {k_: k, **{sizes[name]: other for name, other in zip(names, others, strict=True)}}
        if all(r.subs(at) == True for r in contract):  # noqa: E712 (SymPy's true)
            found.add((k, int(shape[0].subs(at))))
    assert {at for at in found if at[1] < 7} == {at for at, good in accepted.items() if good}
