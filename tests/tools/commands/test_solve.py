"""`axon solve`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.conftest import Ran

SOURCE = """\
fun conv {s} (x : f32[b, n]) (k : f32[r]) where s >= 1 = for b, p < (n - r) / s + 1 => sum i => x[b, s * p + i] * k[i]
fun both (p : { w : f32[k], v : (f32[n], f32[n]) }) (k : f32[k]) = (p.w, { y = p.v })
fun shift (x : f32[..s, n]) y = x + y
fun irrational (x : f32[n]) (y : f32[m]) where n * n = 2 * m * m, m >= 1 = x
fun first (a, b) = for i => a[i] * b[i]
fun named {n} (n : f32[m]) = n
fun ranked (a, b) = a + b
"""


@pytest.fixture
def ask(axon_cli: Callable[..., Ran], here: Path) -> Callable[..., Ran]:
    (here / "a.axon").write_text(SOURCE)
    return lambda name, *arguments: axon_cli("solve", f"a.axon:{name}", *arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "out"),
    [
        ("conv", ["s=2", "r=3", "out=4,7"], "s = 2, b = 4, n = 15, r = 3\ns = 2, b = 4, n = 16, r = 3\n"),
        ("conv", ["s=2", "k=3", "out=_,7", "x=4,_"], "s = 2, b = 4, n = 15, r = 3\ns = 2, b = 4, n = 16, r = 3\n"),
        ("conv", ["s=1", "k[0]=3", "out[-1]=7", "b=1"], "s = 1, b = 1, n = 9, r = 3\n"),
        ("both", ["k=3", "p.v.1=4"], "k = 3, n = 4\n"),
        ("both", ["k=3,", "out.2.y.2=4"], "k = 3, n = 4\n"),
        ("both", ["out.1=3", "out.2.y.1=4,"], "k = 3, n = 4\n"),
        ("shift", ["..s=1", "out=3,4"], "s = 3, n = 4\n"),
        ("shift", ["x=3,4"], "s = 3, n = 4\n"),
        ("first", ["1.1=4"], "i = 4\n"),
        ("named", ["n=3", "n=4,"], "n = 3, m = 4\n"),
        ("named", ["n=3", "n[0]=4"], "n = 3, m = 4\n"),
    ],
)
def test_solutions(ask: Callable[..., Ran], name: str, arguments: list[str], out: str) -> None:
    ran = ask(name, *arguments)
    assert (ran.status, ran.out, ran.err) == (0, out, "")


def test_a_family(ask: Callable[..., Ran]) -> None:
    ran = ask("conv", "s=2", "b=1", "out=_,7")
    assert ran.status == 0
    assert ran.out.splitlines()[:3] == ["for any n, r such that", "  (n - r) / 2 + 1 = 7", "  s = 2"]


def test_none(ask: Callable[..., Ran]) -> None:
    ran = ask("conv", "b=3", "out=4,7")
    assert ran.status == 1
    assert "error[AX0501]: no sizes do what is asked of `conv`" in ran.out
    assert "dimension 1 of the result, `b`, is asked to be 4" in ran.out


def test_unknown(ask: Callable[..., Ran]) -> None:
    ran = ask("irrational")
    assert ran.status == 1
    assert ran.out.startswith("unknown: ")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("conv", ["q=2"], "`conv` has no size `q`"),
        ("conv", ["q=2,3"], "`conv` has no tensor `q`"),
        ("conv", ["out.y=2"], "the shape of `out` cannot be"),
        ("both", ["p.u=2"], "has no field `u`"),
        ("both", ["p=2", "p.w=3"], "given already"),
        ("nope", ["p=2"], "declares no `nope`"),
        ("both", ["p=2"], "each is given by its path, such as p.w=8,_"),
        ("both", ["p.w.u=2"], "cannot be given for a part, `u`"),
        ("named", ["n=3", "n=4"], "`n` is given twice"),
        ("shift", ["n=3"], "say how many: `..s=1`"),
        ("ranked", ["n=3"], "say how many: `1.1=_,_`"),
    ],
)
def test_errors(ask: Callable[..., Ran], name: str, arguments: list[str], said: str) -> None:
    ran = ask(name, *arguments)
    assert ran.status == 1
    assert said in ran.out


def test_texts_that_say_no_size(ask: Callable[..., Ran], snapshot: SnapshotAssertion) -> None:
    """Each is told what is wrong with it, where, and what to write."""
    asked = (
        ["s="], ["s=-1"], ["s=abc"], ["s=2.5"], ["s=_"], ["s=2,3"], ["s=2,"], ["s=2147483648"], ["s=" + "9" * 5000], ["s==2"],
        ["s=2", "s=3"], ["s"], ["3"], ["=3"], ["x[0]="], ["x[0]=2,3"], ["..s="], ["out=4,-1"], ["out=4,,7"], ["out=a"], ["out"],
        ["q="],
    )  # fmt: skip
    said = []
    for arguments in asked:
        ran = ask("conv", *arguments)
        assert ran.status == 1
        said.append(f"$ axon solve a.axon:conv {' '.join(a if len(a) < 100 else a[:20] + '…' for a in arguments)}\n{ran.out}")
    assert "\n".join(said) == snapshot
