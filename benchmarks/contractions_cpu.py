"""Sums of products on the CPU against NumPy's optimized einsum and opt_einsum: one run, the same inputs, taken in turn.

python benchmarks/contractions_cpu.py                 every case, in f32 and f64
python benchmarks/contractions_cpu.py chain ->bhts    those whose name or equation contains one of the words
python benchmarks/contractions_cpu.py --random 60     so many generated equations instead, to find the slowest
python benchmarks/contractions_cpu.py --part 2/5      the second, seventh, … case: a long table in slices

A case is an equation in einsum's notation, and sizes; its `.axon` source is written from that. In each of ROUNDS rounds, with
fresh inputs, every side takes a turn, in a random order: PAUSE seconds in which nothing runs, a call that does not count, and
CALLS that do. A figure is the median of these, and a ratio the faster other side's figure over Axon's: above 1, Axon is
faster. The pause is longer than OpenBLAS's threads spin after a product (0.11 s where this was first measured): on two
processors they take one from whoever comes next, and whatever has threads of its own then takes twice as long. All sides may
use all processors; every side is called once before, and its result compared with float64. A side that takes HOPELESS times
as long as NumPy is not called again. What is wanted: every ratio at least LEAST, their geometric mean at least MEAN; the exit
code is 1 where it is missed. The cases were fixed before the first of them was measured with what they are to measure.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import exp, log, prod
from random import Random
from typing import Any, NamedTuple

import numpy as np

import axon

try:
    import opt_einsum
except ImportError:
    opt_einsum = None
try:
    import torch
except ImportError:
    torch = None

ROUNDS = 5
CALLS = 3
PAUSE = 0.15
HOPELESS = 50
LEAST, MEAN = 0.95, 1.05


class Case(NamedTuple):
    name: str
    equation: str
    sizes: str  # one for each index in the order in which they first appear

    @property
    def operands(self) -> list[str]:
        return self.equation.split("->")[0].split(",")

    @property
    def extents(self) -> dict[str, int]:
        indices = dict.fromkeys("".join(self.operands))
        return dict(zip(indices, map(int, self.sizes.split()), strict=True))

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(self.extents[i] for i in operand) for operand in self.operands]


CONTRACTIONS = [
    Case("chain", "ij,jk,kl->il", "512 512 512 512"),
    Case("chain, thin last", "ij,jk,kl->il", "1024 1024 1024 4"),
    Case("chain, thin first", "ij,jk,kl->il", "4 1024 1024 1024"),
    Case("chain of four", "ij,jk,kl,lm->im", "400 300 500 200 400"),
    Case("diagonal scaling", "ik,k,kj->ij", "700 700 700"),
    Case("bilinear form", "i,ij,j->", "3000 3000"),
    Case("bilinear forms", "bi,ij,bj->b", "2000 300 300"),
    Case("congruence", "ki,kl,lj->ij", "500 500 500 500"),
    Case("basis change, first of four", "pi,pqrs->iqrs", "48 48 48 48 48"),
    Case("basis change, second of four", "qj,iqrs->ijrs", "48 48 48 48 48"),
    Case("basis change, last of four", "sl,ijks->ijkl", "48 48 48 48 48"),
    Case("Coulomb matrix", "pqrs,rs->pq", "56 56 56 56"),
    Case("exchange matrix", "prqs,rs->pq", "56 56 56 56"),
    Case("doubles, particles", "abef,ijef->abij", "28 28 28 28 16 16"),
    Case("doubles, rings", "mbej,aeim->abij", "20 28 28 20 28 20"),
    Case("doubles, holes", "mnij,abmn->abij", "20 20 20 20 28 28"),
    Case("density fitting", "Lpq,Lrs->pqrs", "150 28 28 28 28"),
    Case("energy of pairs", "iajb,iajb->", "40 50 40 50"),
    Case("MTTKRP", "ijk,jr,kr->ir", "160 160 160 32"),
    Case("Tucker core", "ijk,ia,jb,kc->abc", "120 120 120 20 20 20"),
    Case("matrix product state", "asb,bsc,cd->ad", "100 64 100 100 100"),
    Case("transfer matrix", "ab,asc,bsd->cd", "160 160 8 160 160"),
    Case("projected pairs", "abcd,cdef,ae->bf", "32 32 32 32 32 32"),
    Case("attention scores", "bthd,bshd->bhts", "4 256 8 64 256"),
    Case("attention values", "bhts,bshd->bthd", "4 8 256 256 64"),
    Case("heads merged", "bthd,hdm->btm", "4 256 8 64 512"),
    Case("outer index innermost", "ikb,kjb->ijb", "96 96 64 96"),
    Case("diagonal of a batch", "iik,kj->ij", "200 400 400"),
    Case("traces of products", "bij,bji->b", "400 96 96"),
    Case("one-sided sums", "ijk,lm->il", "128 64 64 256 512"),
]  # fmt: skip
PRODUCTS = [
    Case("cube of 256", "ik,kj->ij", "256 256 256"),
    Case("cube of 1000", "ik,kj->ij", "1000 1000 1000"),
    Case("cube of 1024", "ik,kj->ij", "1024 1024 1024"),
    Case("cube of 700, left transposed", "ki,kj->ij", "700 700 700"),
    Case("cube of 700, right transposed", "ik,jk->ij", "700 700 700"),
    Case("cube of 700, both transposed", "ki,jk->ij", "700 700 700"),
    Case("cube of 700, result transposed", "ik,kj->ji", "700 700 700"),
    Case("Gram matrix", "ki,kj->ij", "4000 300 300"),
    Case("tall", "ik,kj->ij", "20000 64 64"),
    Case("deep", "ik,kj->ij", "64 20000 64"),
    Case("wide", "ik,kj->ij", "64 64 20000"),
    Case("rank 1", "i,j->ij", "1500 1500"),
    Case("rank 4", "ik,kj->ij", "2000 4 2000"),
    Case("matrix by vector", "ij,j->i", "3000 3000"),
    Case("vector by matrix", "i,ij->j", "3000 3000"),
    Case("eight columns", "ik,kj->ij", "2000 2000 8"),
    Case("batch of 64", "bik,bkj->bij", "200 64 64 64"),
    Case("batch of 16", "bik,bkj->bij", "4000 16 16 16"),
    Case("batch of 4", "bik,bkj->bij", "20000 4 4 4"),
    Case("batch of matrices by vectors", "bik,bk->bi", "1000 64 64"),
]  # fmt: skip


def source_of(case: Case, element: str) -> str:
    """The function as a user writes it."""
    names = [f"x{n}" for n in range(len(case.operands))]
    params = [f"({x} : {element}[{', '.join(o)}])" for x, o in zip(names, case.operands, strict=True)]
    result = case.equation.split("->")[1]
    summed = [i for i in case.extents if i not in result]
    body = " * ".join(f"{x}[{', '.join(o)}]" for x, o in zip(names, case.operands, strict=True))
    over = f"sum {' '.join(summed)} => " if summed else ""
    domain = f"for {' '.join(result)} => " if result else ""
    return f"fun f {' '.join(params)} = {domain}{over}{body}\n"


def generated(count: int, seed: int) -> Iterator[Case]:
    """Equations of two to four factors and up to four summed indices, each of one to fifty milliseconds or so."""
    random = Random(seed)
    while count:
        indices = "abcdefgh"[: random.randint(2, 7)]
        most = min(4, len(indices))
        operands = ["".join(random.sample(indices, random.randint(1, most))) for _ in range(random.choice([2, 2, 2, 3, 4]))]
        used = sorted(set("".join(operands)))
        result = "".join(random.sample(used, random.randint(0, min(4, len(used)))))
        order = dict.fromkeys("".join(operands))
        sizes = {i: random.choice([2, 4, 8, 16, 30, 32, 64, 100, 128, 256]) for i in order}
        held = [prod(sizes[i] for i in x) for x in (*operands, result)]
        if len(set(used) - set(result)) > 4 or max(held) > 1 << 22 or not 1 << 20 < prod(sizes.values()) < 1 << 31:
            continue
        yield Case(f"random {seed}.{count}", f"{','.join(operands)}->{result}", " ".join(str(sizes[i]) for i in order))
        count -= 1


def sides_of(case: Case, dtype: Any) -> list[tuple[str, Callable[..., Any]]]:
    function = axon.compile(source_of(case, "f32" if dtype is np.float32 else "f64"))["f"]
    path = np.einsum_path(case.equation, *[np.empty(shape, dtype) for shape in case.shapes], optimize="optimal")[0]
    sides: list[tuple[str, Callable[..., Any]]] = [
        ("axon", lambda *x: function(*x, target="cpu")),
        ("numpy", lambda *x: np.einsum(case.equation, *x, optimize=path)),
    ]
    if opt_einsum is not None:
        expression = opt_einsum.contract_expression(case.equation, *case.shapes, optimize="optimal")
        sides.append(("opt_einsum", expression))
    if torch is not None:
        sides.append(("torch", lambda *x: torch.einsum(case.equation, *map(torch.from_numpy, x)).numpy()))
    return sides


def measure(case: Case, dtype: Any, rounds: int) -> dict[str, float]:
    """The median milliseconds of every side."""
    rng = np.random.default_rng(0)
    sides = sides_of(case, dtype)
    times: dict[str, list[float]] = {name: [] for name, _ in sides}
    first = dict[str, float]()
    for number in range(rounds + 1):
        arrays = [rng.standard_normal(shape).astype(dtype) for shape in case.shapes]
        if number == 0:
            wide = [a.astype(np.float64) for a in arrays]
            wanted = np.einsum(case.equation, *wide, optimize="optimal")
            size = np.einsum(case.equation, *map(np.abs, wide), optimize="optimal")
        for i in rng.permutation(len(sides)):
            name, side = sides[i]
            time.sleep(PAUSE)
            start = time.perf_counter()
            got = side(*arrays)
            first[name] = time.perf_counter() - start
            if number == 0 and not np.all(np.abs(got - wanted) <= 10 * np.finfo(dtype).eps * size):
                raise SystemExit(f"{case.name}: {name} is wrong")
            for _ in range(CALLS if number else 0):
                start = time.perf_counter()
                got = side(*arrays)
                times[name].append(time.perf_counter() - start)
        sides = [(name, side) for name, side in sides if name in ("axon", "numpy") or first[name] <= HOPELESS * first["numpy"]]
    return {name: 1e3 * statistics.median(times[name]) for name, _ in sides}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--type", choices=("f32", "f64"))
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th case, from the I-th on")
    chosen = parser.parse_args()
    others = ", ".join(f"{m.__name__} {m.__version__}" for m in (np, opt_einsum, torch) if m is not None)
    print(f"{datetime.now(UTC):%F %R} UTC, {platform.processor() or platform.machine()}, {os.cpu_count()} processors")
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"axon {axon.__version__}, {others}; load before: {load}; medians of {chosen.rounds}, milliseconds\n")
    head = f"{'case':30} {'equation':20} {'':4} {'axon':>8} {'numpy':>8} {'opt_e':>8} {'torch':>8} {'ratio':>6}"
    print(head, "-" * len(head), sep="\n")
    ratios = []
    part, parts = map(int, chosen.part.split("/"))
    cases = list(generated(chosen.random, chosen.seed)) if chosen.random else [*CONTRACTIONS, *PRODUCTS]
    for case in cases[part - 1 :: parts]:
        if chosen.words and not any(word in case.name or word in case.equation for word in chosen.words):
            continue
        for element, dtype in (("f32", np.float32), ("f64", np.float64)):
            if chosen.type not in (None, element):
                continue
            times = measure(case, dtype, chosen.rounds)
            ratio = min(times[name] for name in ("numpy", "opt_einsum") if name in times) / times["axon"]
            ratios.append(ratio)
            cells = " ".join(f"{times[n]:8.2f}" if n in times else f"{'-':>8}" for n in ("axon", "numpy", "opt_einsum", "torch"))
            said = "" if ratio >= LEAST else "  < wanted"
            print(f"{case.name:30} {case.equation:20} {element:4} {cells} {ratio:6.2f}{said}", flush=True)
    if not ratios:
        return 0
    mean = exp(sum(map(log, ratios)) / len(ratios))
    print(f"\ngeometric mean {mean:.2f}, least {min(ratios):.2f}; load after: {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
    return mean < MEAN or min(ratios) < LEAST


if __name__ == "__main__":
    sys.exit(main())
