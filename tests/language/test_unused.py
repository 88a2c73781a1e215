"""What nothing uses is not evaluated, and so cannot fail: whatever it is, and wherever it stands."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon import compiler
from axon.core.ir import Compute

UNUSED = {
    "a tensor": "let val t = for j < n => x[j] / q in x end",
    "a tensor of a function": "let fun g y = let val t = for j => y[j] / q in y end in g x end",
    "an argument": "let fun g y z = z in g (x / q) x end",
    "a part of a comprehension": "(for j => (x[j], x[j] / q)).1",
    "a part of an inner comprehension": "for i < n => (let val (a, b) = for j => (x[j], x[j] / q) in a end)[i]",
    "a field of a comprehension": "(for j => {kept = x[j], lost = x[j] % q}).kept",
    "what only the unused uses": "let val t = for j => x[j] / q val u = scan (op +, 0) for j => t[j] val s = sort u in x end",
    "a read outside": "let val i = nonzero (x > q) val y = for k => x[i[k] + 9] in x end",
    "a tensor in a comprehension": "for i => let val t = for j => x[j] / q in x[i] end",
    "a tensor in a loop": "loop (s = x) for k < 3 => let val t = for j => s[j] / q in s end",
    "a tuple's part": "let val p = (x, for j => x[j] / q) in p.1 end",
    "a sum": "let val s = sum j => x[j] / q in x end",
}


@pytest.mark.parametrize("what", UNUSED)
def test_what_nothing_uses_cannot_fail(what: str) -> None:
    module = axon.compile(f"fun f (x : i32[n]) (q : i32) = {UNUSED[what]}")
    x = np.array([5, 6, 7], np.int32)
    for target in ("interpret", "cpu"):
        assert module.f(x, 0, target=target).tolist() == [5, 6, 7]


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
def test_what_only_an_untaken_branch_uses_is_evaluated_where_it_is_named(target: str) -> None:
    module = axon.compile(
        "fun outside (d : i32) = let val q = 10 / d in if d = 0 then 0 else q end\n"
        "fun inside (d : i32) = if d = 0 then 0 else let val q = 10 / d in q end\n"
        "fun tensor (x : i32[n]) d = let val q = for i => x[i] / d in if d = 0 then x else q end\n"
        "fun each (x : i32[n]) = for i => let val q = 10 / x[i] in if x[i] = 0 then 0 else q end\n"
    )
    assert module.inside(0, target=target) == 0
    x = np.zeros(3, np.int32)
    for name, arguments in (("outside", (0,)), ("tensor", (x, 0)), ("each", (x,))):
        with pytest.raises(axon.AxonError, match="AX0503"):
            module[name](*arguments, target=target)


def test_the_contract_of_what_nothing_uses_is_asked() -> None:
    module = axon.compile("fun f (x : i32[n]) = let val y = x[0] in 3 end")
    with pytest.raises(axon.AxonError, match="n >= 1"):
        module.f(np.zeros(0, np.int32))


def test_what_nothing_uses_is_not_compiled() -> None:
    text = "fun f (x : f32[n]) = let val t = for i j => exp (x[i] * x[j]) val u = sum i j => t[i, j] in x end"
    checked = compiler.check_text(text)
    program = compiler.lower(checked, "f", None)
    assert len(program.block.ops) == 1
    assert isinstance(program.block.ops[0], Compute)


@pytest.mark.parametrize("unused", ["y as i32[n]", "loop (s = x) for t < 2 => for i => s[i] + (y as i32[n])[i]"])
def test_a_coercion_is_asked_though_nothing_uses_it(unused: str) -> None:
    module = axon.compile(f"fun f (x : i32[n]) (y : i32[m]) = let val t = {unused} in x end")
    with pytest.raises(axon.AxonError, match="AX0501"):
        module.f(np.zeros(2, np.int32), np.zeros(3, np.int32), target="interpret")


# A unit is evaluated where what it is the unit of stands, whether or not there is something to combine.
UNITS = {
    "reduce": "reduce ((fn a b => max a b), 0 / q) j => x[j]",
    "reduce where": "reduce ((fn a b => max a b), 0 / q) for j where x[j] > 5 => x[j]",
    "scan": "scan ((fn a b => max a b), 0 / q) j => x[j]",
    "rows": "for i => reduce ((fn a b => max a b), 0 / (x[i] * q)) j => x[j]",
    "scanned rows": "for i => scan ((fn a b => max a b), 0 / (x[i] * q)) j => x[j]",
    "several": "(reduce ((fn (a, b) (c, d) => (a + c, max b d)), (0, 0 / q)) j => (x[j], x[j])).1",
}


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("what", UNITS)
def test_a_unit_that_fails_stops_the_program(what: str, size: int) -> None:
    module = axon.compile(f"fun f (x : i32[n]) (q : i32) = {UNITS[what]}")
    x = np.arange(size, dtype=np.int32) + 5
    for target in ("interpret", "cpu"):
        module.f(x, 1, target=target)
        if size or "rows" not in what:
            with pytest.raises(axon.AxonError, match="division of an integer by zero"):
                module.f(x, 0, target=target)
        else:
            module.f(x, 0, target=target)
