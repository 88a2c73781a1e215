"""Indices that stand for two are two again, where what is made along them is read so; the numbers stay."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.core.ir import Compute, Program
from axon.core.passes.dissolve import dissolve
from axon.core.passes.unmerge import unmerged
from axon.core.verify import verify
from axon.interpret import run
from tests.sample import ALL

ROWS = "val x = for (i, j) c => y[i, j, c]"
MOST = f"{ROWS} val m = for r => max c => x[r, c]"
FORMS = {  # whether something is split, and how
    "a maximum of rows of both": (
        f"let {MOST} in for i j c => y[i, j, c] - m[i * n + j] end",
        True,
    ),
    "through a pointwise one": (
        f"let {MOST} val e = for r => exp m[r] + m[r] in (for i j c => y[i, j, c] * e[i * n + j], sum r => e[r]) end",
        True,
    ),
    "what a result keeps": (f"let {MOST} in (m, for i < b, j < n => m[i * n + j]) end", False),
    "what nobody reads at both": (
        f"let {MOST} in for r => m[r] * 2.0 + sum c => x[r, c] end",
        False,
    ),
    "what is read before": (
        f"let {MOST} in for i j c => y[i, j, c] - (if i + j > 0 then m[i * n + j - 1] else 0.0) end",
        False,
    ),
    "what is read at the other order": (
        f"let {MOST} in for i < n, j < b, c => y[j, i, c] - m[i * b + j] end",
        False,
    ),
    "the index itself": (
        f"let {ROWS} val m = for r => sum c => x[r, c] * cast f32 r in for i j c => y[i, j, c] - m[i * n + j] end",
        True,
    ),
    "a total over both": (f"let {ROWS} val s = sum r c => x[r, c] in for i j c => y[i, j, c] - s end", False),
    "the best of an order": (f"let {ROWS} val m = for r => argmax c => x[r, c] in for i < b, j < n => m[i * n + j] end", True),
    "a reduction of one's own that reads": (
        f"let {MOST} val s = for r => (reduce (fn p => fn q => p + q + 0.0 * m[r], 0.0) for c => x[r, c]) "
        "in for i j c => y[i, j, c] - s[i * n + j] end",
        True,
    ),
    "a second index that is two itself": (
        "let val m = for r < b * (s * t) => sum c => exp y[r / (s * t), r % (s * t), c] "
        "val h = for k < b, p < s * t => sum c => y[k, p, c] * m[k * (s * t) + p] * w[k, p / t, p % t] "
        "in for k < b, i < s, j < t => h[k, i * t + j] * w[k, i, j] end",
        True,
    ),
    "two tensors of one index": (
        f"let {MOST} val s = for r => sum c => exp (x[r, c] - m[r]) "
        "in for i j c => exp (y[i, j, c] - m[i * n + j]) / s[i * n + j] end",
        True,
    ),
}


def program(body: str) -> Program:
    head = "(y : f32[b, s * t, d]) (w : f32[b, s, t])" if "w[" in body else "(y : f32[b, n, d])"
    return dissolve(compiler.lower(compiler.check_text(f"fun f {head} = {body}"), "f", None))


def outcome(program: Program, y: Any) -> list[Any]:
    weights = np.arange(y.shape[0] * y.shape[1], dtype=np.float32).reshape(*y.shape[:2], 1)
    return [np.asarray(x) for x in run(program, [y, weights][: len(program.inputs)])]


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    body, expected = FORMS[name]
    given = program(body)
    made = unmerged(given)
    verify(made)
    assert (made is not given) == expected
    for shape in ((2, 3, 4), (1, 5, 2), (4, 1, 3), (0, 3, 2), (3, 0, 2)):
        if 0 in shape and ("arg" in body or "w[" in body):
            continue
        y = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for one, other in zip(outcome(made, y), outcome(given, y), strict=True):
            np.testing.assert_array_equal(one, other)


def test_all_rows_are_of_both() -> None:
    made = unmerged(program(FORMS["two tensors of one index"][0]))
    assert all(len(op.axes) >= 2 for op in made.block.ops if isinstance(op, Compute))


ATOMS = ("x[r, 0]", "max c => x[r, c]", "sum c => x[r, c] * x[r, c]", "cast f32 r")
LATER = ("{}[r]", "{}[r] * 2.0 + x[r, 0]", "{}[r] + cast f32 r", "sum c => x[r, c] * {}[r]")
READ = ("{}[i * n + j]", "y[i, j, 0] * {}[i * n + j]", "{}[i * n + j] + {}[(i + j) % (b * n)]", "{}[(i * n + j) / 2]")


@pytest.mark.parametrize("seed", range(60 if ALL else 12))
def test_generated(seed: int) -> None:
    """Rows of both indices that read each other, and are read at one, at two, or otherwise; some are results."""
    chance = Random(seed)
    lines, names = [ROWS], list[str]()
    for n in range(chance.randint(1, 5)):
        form = chance.choice(LATER if names and chance.random() < 0.6 else ATOMS)
        lines.append(f"val t{n} = for r < b * n => {form.format(chance.choice(names) if names else '')}")
        names.append(f"t{n}")
    results = [chance.choice(READ).replace("{}", chance.choice(names)) for _ in range(chance.randint(1, 3))]
    found = [f"for i < b, j < n => {one}" for one in results] + ([names[0]] if chance.random() < 0.2 else [])
    found += [f"sum r => {names[-1]}[r]"] if chance.random() < 0.3 else []
    given = program(f"let {' '.join(lines)} in ({', '.join(found)}, 0) end")
    made = unmerged(given)
    verify(made)
    for shape in ((2, 3, 2), (5, 1, 1), (1, 4, 3), (3, 2, 1)):
        y = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        for one, other in zip(outcome(made, y), outcome(given, y), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
