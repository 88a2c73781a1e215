"""Programs of chained forms on meshes against plain NumPy, which shares no code with the pass or the reference evaluator: windows
with strides and dilations, padding, gathers at computed places, scans, sorts, `argmax`, filters, loops, axes of two split sizes,
sizes that are functions of split ones, and blocks of nothing; and their gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from axon.core.sharding import Mesh, print_sharded, shard
from axon.core.sharding.interpret import run
from axon.shapes.contracts.guard import ContractBroken
from tests.core.sharding.whole import SLOW, bound, nvlink, of
from tests.sample import SOAK

MESHES = ((("m", 2),), (("m", 3),), (("m", 4),), (("d", 2), ("m", 2)), (("d", 3), ("m", 2)))
Array = np.ndarray
# Of `x[a, b]`, from which the next is made; a and b are texts of sizes. What NumPy makes of it, where `ids` are n numbers below n.
Step = Callable[[Array, Array], Array]
Form = tuple[str, tuple[str, str], Step]
Forms = dict[str, Callable[[str, str, int, int], Form]]


def rows(count: int, row: Callable[[int], Array], like: Array) -> Array:
    return np.stack([row(i) for i in range(count)]).astype(like.dtype) if count > 0 else like[:0]


def composed(v: Array) -> Array:
    """A scan by the composition of `x -> v * x + v`: not commutative, exact on integers."""
    out = v.copy()
    for i in range(1, len(v)):
        out[i] = out[i - 1] * v[i] + v[i]
    return out


def windowed(v: Array, k: int, s: int, d: int) -> Array:
    reach = d * (k - 1)
    count = (len(v) - reach - 1) // s + 1 if len(v) > reach else 0
    return rows(count, lambda i: sum((v[s * i + d * q] for q in range(1, k)), v[s * i]), v)


def run_on(v: Array, steps: int) -> Array:
    y = v
    for t in range(steps):
        y = np.roll(y, -t, 0) - v
    return y


AFTER = "let fun after (a, b) (c, d) = (a * c, b * c + d)\n  val t = for j < {b} => "
SMOOTH: Forms = {
    "window": lambda a, b, k, s: (
        f"for i < ({a} - {s * (k - 1)} - 1) / {k} + 1, j => sum for q < {k} => x[{k} * i + {s} * q, j]",
        (f"({a} - {s * (k - 1)} - 1) / {k} + 1", b), lambda v, _: windowed(v, k, k, s)),
    "pad": lambda a, b, k, s: (
        f"for i < {a} + {k + s}, j => x[i - {k}, j | 5]", (f"{a} + {k + s}", b),
        lambda v, _: np.pad(v, ((k, s), (0, 0)), constant_values=5)),
    "down": lambda a, b, k, _: (
        f"for i < ({a} + {k - 1}) / {k}, j => x[{k} * i, j]", (f"({a} + {k - 1}) / {k}", b), lambda v, _: v[::k]),
    "repeat": lambda a, b, k, _: (f"for i < {k} * {a}, j => x[i / {k}, j]", (f"{k} * {a}", b), lambda v, _: np.repeat(v, k, 0)),
    "tile": lambda a, b, k, _: (f"for i < {k} * {a}, j => x[i % {a}, j]", (f"{k} * {a}", b), lambda v, _: np.tile(v, (k, 1))),
    "flip": lambda a, b, *_: (f"for i < {a}, j => x[{a} - 1 - i, j]", (a, b), lambda v, _: v[::-1]),
    "gather": lambda a, b, k, _: (
        f"for i < n, j => x[(ids[i] + {k}) % {a}, j]", ("n", b), lambda v, ids: v[(ids + k) % max(1, len(v))]),
    "computed": lambda a, b, *_: (
        f"for i < {a}, j => x[(i * i + j) % {a}, j]", (a, b),
        lambda v, _: v[(np.arange(len(v))[:, None] ** 2 + np.arange(v.shape[1])) % max(1, len(v)), np.arange(v.shape[1])]),
    "scan": lambda a, b, *_: (
        f"let val t = for j < {b} => scan (op +, 0) i => x[i, j] in for i j => t[j, i] end", (a, b),
        lambda v, _: np.cumsum(v, 0, dtype=v.dtype)),
    "composed": lambda a, b, *_: (
        f"{AFTER.format(b=b)}(scan (after, (1, 0)) i => (x[i, j], x[i, j])).2 in for i j => t[j, i] end", (a, b),
        lambda v, _: composed(v)),
    "last": lambda a, b, *_: (
        f"{AFTER.format(b=b)}(reduce (after, (1, 0)) i => (x[i, j], x[i, j])).2 in for i < {a}, j => t[j] + x[i, j] end", (a, b),
        lambda v, _: composed(v)[-1:] + v),
    "sort": lambda a, b, *_: (
        "let val t = sort (for j i => x[i, j]) in for i j => t[j, i] end", (a, b), lambda v, _: np.sort(v, 0)),
    "triangle": lambda a, b, *_: (
        f"for i < {a}, j => sum for l < i + 1 => x[l, j] * x[i - l, j]", (a, b),
        lambda v, _: rows(len(v), lambda i: (v[: i + 1] * v[i::-1]).sum(0), v)),
    "join": lambda a, b, *_: (
        f"for i < 2 * {a}, j => if i < {a} then x[i, j] else x[i - {a}, j] * 2", (f"2 * {a}", b),
        lambda v, _: np.concatenate([v, v * 2])),
    "halves": lambda a, b, *_: (
        f"for i < {a} / 2, j => x[i, j] - x[i + {a} / 2, j]", (f"{a} / 2", b),
        lambda v, _: v[: len(v) // 2] - v[len(v) // 2 : len(v) // 2 * 2]),
    "turn": lambda a, b, *_: ("for j i => x[i, j]", (b, a), lambda v, _: v.T),
    "merge": lambda a, b, *_: (
        f"let val t = for (i, j) => x[i, j] in for i < {b}, j < {a} => t[i * {a} + j] end", (b, a),
        lambda v, _: v.reshape(v.shape[::-1])),
    "pairs": lambda a, b, *_: ("for i j => sum l => x[l, i] * x[l, j]", (b, b), lambda v, _: (v[:, :, None] * v[:, None]).sum(0)),
    "loop": lambda a, b, k, _: (
        f"loop (y = x) for s < {k} => for i < {a}, j => y[(i + s) % {a}, j] - x[i, j]", (a, b), lambda v, _: run_on(v, k)),
    "some": lambda a, b, *_: (f"for i < min {a} 5, j => x[i, j] * 2", (f"min {a} 5", b), lambda v, _: v[:5] * 2),
    "prod": lambda a, b, *_: (
        f"let val t = for j => prod i => x[i, j] in for i < {a}, j => t[j] - x[i, j] end", (a, b),
        lambda v, _: np.prod(v, 0, dtype=v.dtype) - v),
    "record": lambda a, b, *_: (
        f"let val t = for i < {a} => {{ u = x[i, 0], w = for j < {b} => x[i, j] }} in for i j => t[i].w[j] + (sum l => t[l].u) end",
        (a, b), lambda v, _: v + v[:, 0].sum(dtype=v.dtype)),
}  # fmt: skip
WHOLE: Forms = {
    "best": lambda a, b, *_: (
        f"let val t = for j < {b} => argmax i => x[i, j] in for i < {a}, j => x[i, j] + t[j] end", (a, b),
        lambda v, _: v + v.argmax(0).astype(v.dtype)),
    "worst of all": lambda a, b, *_: (
        "let val (p, q) = argmin i j => x[i, j] in for i j => x[i, j] + 2 * p + q end", (a, b),
        lambda v, _: v + np.int32(2 * (v.argmin() // v.shape[1]) + v.argmin() % v.shape[1])),
    "order": lambda a, b, *_: (
        "let val t = argsort (for j i => x[i, j]) in for i j => t[j, i] end", (a, b),
        lambda v, _: np.argsort(v, 0, kind="stable").astype(v.dtype)),
    "best so far": lambda a, b, *_: (
        f"for i < {a}, j => x[i, j] - (argmax for l < i + 1 => x[l, j])", (a, b),
        lambda v, _: rows(len(v), lambda i: v[i] - v[: i + 1].argmax(0), v)),
    "filter": lambda a, b, *_: (
        f"let val (kept : i32[q, {b}]) = filter (for i < {a} => x[i, 0] > 0) x\n"
        f"  in for i < {a}, j => x[i, j] + q * sum l => kept[l, j] end",
        (a, b), lambda v, _: v + np.int32((v[:, 0] > 0).sum()) * v[v[:, 0] > 0].sum(0, dtype=v.dtype)),
    "count": lambda a, b, *_: (
        f"for i < {a}, j => (sum for l where ids[l] % {a} = i => j + 1) + x[i, j]", (a, b),
        lambda v, ids: v + rows(len(v), lambda i: (ids % len(v) == i).sum() * (np.arange(v.shape[1]) + 1), v)),
    "all": lambda a, b, *_: (
        f"for i < {a}, j => if (all l => x[l, j] > x[i, j] - 1) then x[i, j] else 1", (a, b),
        lambda v, _: rows(len(v), lambda i: np.where((v > v[i] - 1).all(0), v[i], 1), v)),
}  # fmt: skip


def chained(random: Random, forms: Forms) -> tuple[list[str], Step]:
    """Lines that make an `x` of one after the other, and what they come to."""
    a, b, lines, steps = "n", "k", list[str](), list[Step]()
    for _ in range(random.randint(1, 3)):
        body, (a, b), step = forms[random.choice(list(forms))](a, b, random.randint(1, 3), random.randint(1, 3))
        a, b = (s if s.isalnum() else f"({s})" for s in (a, b))
        lines.append(f"  val x = {body}\n")
        steps.append(step)
        if len(a) + len(b) > 40:
            break

    def whole(x: Array, ids: Array) -> Array:
        with np.errstate(all="ignore"):
            for step in steps:
                x = step(x, ids).astype(x.dtype)
        return x

    return lines, whole


def on_a_mesh(random: Random, text: str, whole: Callable[..., list[Array]], of_floats: bool) -> None:
    """One program at random sizes, also of nothing, and its results as NumPy has them."""
    axes = random.choice(MESHES)
    program, p = of(text, "main"), int(np.lcm.reduce([size for _, size in axes]))
    n, k = (p * random.choice((1, 2, 3) if of_floats else (0, 1, 1, 2)) for _ in range(2))
    rng = np.random.default_rng(random.randrange(1 << 30))
    low, high = random.choice(((-3, 4), (-(1 << 31), 1 << 31)))
    x = rng.standard_normal((n, k)) if of_floats else rng.integers(low, high, (n, k), np.int32)
    ids = rng.integers(0, max(1, n), n).astype(np.int32)
    inputs, dims = [x, ids], bound(program, n=n, k=k)
    try:
        program.contract.bind((), [x.shape, ids.shape])
    except ContractBroken:
        return
    wanted = whole(x, ids)
    if wanted[0].size > 3000:
        return
    split = random.choice(({"n": axes[-1][0]}, {"k": axes[0][0]}, {"n": axes[0][0], "k": axes[-1][0]}))
    scale, rates = random.choice((1, 512)), random.choice((SLOW, nvlink()))
    made = shard(program, Mesh(axes), split, {s: size * scale for s, size in dims.items()}, rates)
    if not made.serves(dims):  # borders that reach further than the neighbours
        made = shard(program, Mesh(axes), split, dims, rates)
    for a, b in zip(wanted, run(made, inputs), strict=True):
        near = np.allclose(a, b, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(a).max(initial=0))) if of_floats else np.array_equal(a, b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{text}\n{print_sharded(made)}"
        assert near, f"{text}\n{split}\n{print_sharded(made)}\n{a}\n{b}"


@pytest.mark.parametrize("seed", range(1000 if SOAK else 12))
def test_forms(seed: int) -> None:
    random = Random(seed)
    lines, made = chained(random, SMOOTH | WHOLE)
    text = f"fun main (x : i32[n, k]) (ids : i32[n]) =\n  let\n{''.join(lines)}  in (x, ids) end\n"
    on_a_mesh(random, text, lambda x, ids: [made(x, ids), ids], of_floats=False)


@pytest.mark.parametrize("seed", range(200 if SOAK else 5))
def test_gradients(seed: int) -> None:
    random = Random(seed)
    lines, made = chained(random, SMOOTH)
    weigh = "sum i j => x[i, j] * cos (cast f64 (3 * i + j))"
    text = f"fun main (x : f64[n, k]) (ids : i32[n]) =\n  grad (fn x => let\n{''.join(lines)}  in {weigh} end) x\n"

    def slope(x: Array, ids: Array) -> list[Array]:
        def value(x: Array) -> float:
            y = made(x, ids)
            return float((y * np.cos(3 * np.arange(y.shape[0])[:, None] + np.arange(y.shape[1]))).sum())

        found = np.zeros_like(x)
        for at in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[at] = 1e-6
            found[at] = (value(x + step) - value(x - step)) / 2e-6
        return [found]

    on_a_mesh(random, text, slope, of_floats=True)
