"""What einsums exchange is what GSPMD exchanges: the same collectives and bytes, or, where it says so, fewer."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from axon.core.sharding import shard
from axon.core.sharding.report import costs
from tests import ROOT
from tests.core.sharding.whole import bound, mesh, nvlink, of
from tests.sample import SOAK

SIZES = {"b": 64, "h": 512, "k": 256, "n": 512, "m": 128, "s": 128, "d": 256, "f": 1024, "c": 64, "e": 8}
ONE, TWO = {"m": 4}, {"x": 2, "y": 4}
# An einsum, the mesh, what is split, and what JAX 0.10.2 exchanges, with the bytes that a device sends.
TABLE = [
    ("bh,hk->bk", ONE, {"b": "m"}, []),
    ("bh,hk->bk", ONE, {"h": "m"}, [("all_reduce", 98304)]),
    ("bh,hk->bk", ONE, {"k": "m"}, []),
    ("bh,hk->bk", TWO, {"b": "x", "h": "y"}, [("all_reduce", 49152)]),
    ("bh,hk->bk", TWO, {"b": "x", "k": "y"}, []),
    ("bh,hk->bk", TWO, {"h": "x", "k": "y"}, [("all_reduce", 16384)]),
    ("bh,hk->bk", ONE, {"b": "m", "h": "m"}, [("all_gather", 393216)]),
    ("bh,hk->bk", ONE, {"b": "m", "k": "m"}, [("all_gather", 393216)]),
    ("ab,bc->ac", ONE, {"a": "m", "b": "m", "c": "m"}, [("all_gather", 12288)]),
    ("nm->mn", ONE, {"n": "m"}, []),
    ("bh->b", ONE, {"h": "m"}, [("all_reduce", 384)]),
    ("bh->h", TWO, {"b": "x", "h": "y"}, [("all_reduce", 512)]),
    ("bh->", TWO, {"b": "x", "h": "y"}, [("all_reduce", 4), ("all_reduce", 6)]),
    ("i,i->", ONE, {"i": "m"}, [("all_reduce", 6)]),
    ("i,j->ij", TWO, {"i": "x", "j": "y"}, []),
    ("bshc,bthc->bhst", ONE, {"h": "m"}, []),
    ("bshc,bthc->bhst", ONE, {"s": "m"}, []),
    ("bshc,bthc->bhst", TWO, {"b": "x", "h": "y"}, []),
    ("bsd,df->bsf", TWO, {"b": "x", "f": "y"}, []),
    ("bsf,fd->bsd", TWO, {"b": "x", "f": "y"}, [("all_reduce", 6291456)]),
    ("bsd,bsf->df", TWO, {"b": "x", "f": "y"}, [("all_reduce", 262144)]),
    ("bsf,fd->bsd", ONE, {"s": "m", "f": "m"}, [("all_gather", 786432)]),
    ("bsd,df->bsf", ONE, {"s": "m", "f": "m"}, [("all_gather", 786432)]),
    ("bhc,hcd->bd", ONE, {"h": "m"}, [("all_reduce", 98304)]),
    ("ebd,edf->ebf", ONE, {"e": "m"}, []),
    ("ebf,efd->bd", ONE, {"e": "m"}, [("all_reduce", 98304)]),
    ("ij,jk,kl->il", ONE, {"j": "m"}, [("all_reduce", 393216)]),
    ("ab->ba", ONE, {"a": "m", "b": "m"}, [("all_to_all", 12288)]),
]
# The same, and what Axon exchanges in its place: a block of a sum, operands that are smaller than the sum, a diagonal's own block.
FEWER = [
    ("bh,hk->bk", ONE, {"h": "m", "k": "m"}, [("all_reduce", 98304)], [("reduce_scatter", 49152)]),
    ("bshc,bthc->bhst", ONE, {"c": "m"}, [("all_reduce", 6442450944)], [("all_gather", 805306368), ("all_gather", 1610612736)]),
    ("ii->i", ONE, {"i": "m"}, [("all_reduce", 1536)], []),
]


def sizes_of(einsum: str) -> dict[str, int]:
    return {c: SIZES.get(c, 256) for c in einsum if c.isalpha()}


def written(einsum: str) -> str:
    """An einsum as index notation."""
    inputs, output = einsum.split("->")
    operands = inputs.split(",")
    parameters = " ".join(f"(x{n} : f32[{', '.join(one)}])" for n, one in enumerate(operands))
    body = " * ".join(f"x{n}[{', '.join(one)}]" for n, one in enumerate(operands))
    inner = [c for c in dict.fromkeys(inputs.replace(",", "")) if c not in output]
    body = f"sum {' '.join(inner)} => {body}" if inner else body
    return f"fun f {parameters} = " + (f"for {' '.join(output)} => {body}" if output else body)


def exchanged(einsum: str, on: dict[str, int], split: dict[str, str]) -> list[tuple[str, int]]:
    program = of(written(einsum), "f")
    dims = bound(program, **sizes_of(einsum))
    made = shard(program, mesh(**on), split, dims, nvlink())
    return [(cost.step.kind, cost.bytes) for cost in costs(made, dims, nvlink())]


@pytest.mark.parametrize(("einsum", "on", "split", "expected"), TABLE)
def test_an_einsum_exchanges_what_gspmd_does(einsum, on, split, expected) -> None:
    assert sorted(exchanged(einsum, on, split)) == sorted(expected)


@pytest.mark.parametrize(("einsum", "on", "split", "theirs", "ours"), FEWER)
def test_an_einsum_exchanges_less(einsum, on, split, theirs, ours) -> None:
    assert exchanged(einsum, on, split) == ours
    assert sum(sent for _, sent in ours) < sum(sent for _, sent in theirs)


@pytest.mark.skipif(not SOAK or find_spec("jax") is None, reason="asks JAX, in the soak")
def test_the_table_is_what_jax_says() -> None:
    asked = [(e, on, split, theirs) for e, on, split, theirs in TABLE]
    asked += [(e, on, split, theirs) for e, on, split, theirs, _ in FEWER]
    lines = "".join(json.dumps([e, sizes_of(e), on, split]) + "\n" for e, on, split, _ in asked)
    command = [sys.executable, "-m", "tests.core.sharding.gspmd"]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=ROOT, check=True)
    for (einsum, on, split, theirs), line in zip(asked, ran.stdout.splitlines(), strict=True):
        assert sorted(tuple(one) for one in json.loads(line)) == sorted(theirs), (einsum, on, split)
