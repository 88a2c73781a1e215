"""Generated programs that read at shifted, wrapped, clamped, merged, split, reversed, strided and guarded indices: bit for bit."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from axon.core.sharding import Mesh, collectives, print_sharded, shard
from axon.core.sharding.interpret import run
from axon.interpret import run as plain
from tests.core.sharding.whole import SLOW, arguments, bound, nvlink, of
from tests.sample import SOAK

MESHES = ((("m", 2),), (("m", 3),), (("m", 4),), (("d", 2), ("m", 2)))
# A result of an operation on `x : i32[n, k]` and `z : i32[n]`, both of which come from such operations.
MATRICES = [
    "for i < n, j => x[i - {a}, j | 0] + x[i + {b}, j | 3]",
    "for i < n, j => sum for q < {b} => x[i + q - {a}, j | 1]",
    "for i j => x[n - 1 - i, j]",
    "for i < n, j => x[(i + {a}) % n, j]",
    "for i < n, j < k => sum for q < {b}, r < 3 => x[(i + q - {a}) % n, (j + r - 1) % k]",
    "for i < n, j => x[(i - {a}) % n, j] + x[i + {b}, j | 7] - x[n - 1 - i, j]",
    "for i < n, j => x[min (i + {a}) (n - 1), j] + x[max (i - {b}) 0, j]",
    "for i < n, j < k => sum for q < {b} => x[max 0 (min (i + q - {a}) (n - 1)), (j + q) % k]",
    "let val w = for i < n - 1 => z[i] in for i < n, j => w[(i + 1) % (n - 1)] + w[min i (n - 2)] + x[i, j] end",
    "for i j => if i % 2 = 0 then x[i, j] else z[i] + j",
    "for i j => if i > {a} then x[i - {a}, j] else z[i]",
    "for i j => z[i] * x[i, j] - z[(i + j) % n]",
    "let val flat = for (i, j) => x[i, j] in for i < n, j < k => flat[i * k + j] end",
    "let val flat = for (j, i) => x[i, j] in for i < n, j < k => flat[j * n + i] end",
    "let val y = for j i => x[i, j] in for i j => y[j, i] + (max l => y[l, i]) end",
    "for i j => (sum l => x[l, j]) - x[i, j]",
    "for i < n, j => sum for l < i + 1 => x[l, j]",
    "for i < n, j => sum for l where l % 2 = i % 2 => x[l, j]",
    "for i => scan (op +, 0) q => x[i, q]",
    "let val y = for j => scan (max, 0 - 99) i => x[i, j] in for i j => y[j, i] end",
    "loop (y = x) for _ < 3 => for i j => y[(i + 1) % n, j] + z[i]",
]
VECTORS = [
    "for i => sum j => x[i, j]",
    "for i => (argmax j => x[i, j]) + z[i]",
    "for i < n => z[i - {a} | 5] + z[i + {b} | 0]",
    "for i < n => z[(i - {a}) % n] + z[(i + {b}) % n | 0] + z[i - {b} | 1]",
    "for i < n => z[min (i + {b}) (n - 1)] * z[max (i - {a}) 0]",
    "loop (z = z) for _ < 3 => for i < n => z[(i + 1) % n] - z[(i - 1) % n]",
    "for i < n => (argmax l => z[l] * (i + 1))",
    "for i => x[i, 0] + (min j => x[i, j])",
    "scan (op +, 0) i => z[i]",
    "let val w = for i < n - {a} => z[i] - z[i + {a}] in for i => (sum l => w[l]) + z[i] end",
    "let val w = for i < n - {a}, j => x[i + {a}, j] in for i < n => sum j => w[i, j | 7] end",
    "sort z",
    "for i => z[abs x[i, 0] % n]",
    "let val both = for i < 2 * n => if i < n then z[i] else x[i - n, 0] in for i < n => both[2 * i + 1] end",
]


def generated(random: Random) -> str:
    """A function of a matrix and a vector, both of which it gives."""
    lines = ["fun main (x : i32[n, k]) (z : i32[n]) where n >= 4, k >= 1 ="]
    for number in range(random.randint(1, 4)):
        name, bodies = random.choice((("x", MATRICES), ("z", VECTORS)))
        body = random.choice(bodies).format(a=random.randint(1, 2), b=random.randint(1, 3))
        lines.append(f"  {'let' if not number else '   '} val {name} = {body}")
    return "\n".join([*lines, "  in (x, z) end\n"])


def check(seed: int) -> Counter[str]:
    """One program; what it exchanges."""
    random = Random(seed)
    axes = random.choice(MESHES)
    text = generated(random)
    program = of(text, "main")
    dims = bound(program, n=12, k=12)
    split = random.choice(({"n": axes[-1][0]}, {"k": axes[0][0]}, {"n": axes[0][0], "k": axes[-1][0]}))
    scale, rates = random.choice((1, 512)), random.choice((SLOW, nvlink()))
    made = shard(program, Mesh(axes), split, {s: n * scale for s, n in dims.items()}, rates)
    if not made.serves(dims):  # borders that reach further than the neighbours, where n is small
        made = shard(program, Mesh(axes), split, dims, rates)
        assert made.serves(dims), text
    inputs = arguments(program, dims, seed)
    for a, b in zip(plain(program, inputs), run(made, inputs), strict=True):
        assert a.tolist() == b.tolist(), f"{text}\n{print_sharded(made)}\n{a}\n{b}"
    return Counter(c.kind for c in collectives(made.steps))


@pytest.mark.parametrize("seed", range(500 if SOAK else 12))
def test_generated_reads(seed: int) -> None:
    check(seed)
