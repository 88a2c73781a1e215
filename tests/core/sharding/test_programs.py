"""Random programs on meshes against NumPy, which shares no code with them (`programs`): bit for bit in whole numbers."""

from __future__ import annotations

import sys
from random import Random

import numpy as np
import pytest

from axon.core.sharding import Mesh, print_sharded, shard
from axon.core.sharding.interpret import run
from axon.interpret import run as plain
from tests.core.sharding.programs import ELEMENTS, Gen, size
from tests.core.sharding.whole import SLOW, nvlink, of
from tests.sample import SOAK

MESHES = ((("m", 2),), (("m", 3),), (("m", 4),), (("d", 2), ("m", 2)), (("d", 2), ("m", 3)), (("a", 2), ("b", 2), ("c", 2)))


@pytest.mark.parametrize("seed", range(500 if SOAK else 10))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a mesh three times, over other axes; once around a ring, if anything may go round."""
    r = Random(seed)
    element = r.choice(("i32", "i64", "u8", "f64", "f64", "f64", "i16"))
    text, whole = (made := Gen(r, element, smooth=r.random() < 0.3)).program()
    program, axes = of(text, "main"), r.choice(MESHES)
    p = int(np.lcm.reduce([devices for _, devices in axes]))
    sizes = {"n": p * r.choice((1, 1, 2, 3)), "k": p * r.choice((1, 1, 2)), "c": p * r.choice((1, 1, 2))}
    rng = np.random.default_rng(seed)
    inputs = {
        name: rng.integers(0 if element == "u8" else -4, 5, [size(s, sizes) for s in made.tensors[name]]).astype(ELEMENTS[element])
        for name in ("x", "y", "z")
    }
    inputs |= {"ids": rng.integers(-2, 6, sizes["n"]).astype(np.int32), "w": np.zeros(sizes["c"], np.int32)}
    dims = program.contract.bind((), [x.shape for x in inputs.values()])
    wanted, peak = whole(inputs, sizes)
    given, exact = list(inputs.values()), peak < 2**50  # floats hold such whole numbers, and their sums

    def same(found: list[np.ndarray], said: str) -> None:
        for a, b in zip(wanted, found, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), said
            assert np.array_equal(a, b) if exact else np.allclose(a, b, rtol=1e-6), f"{said}\n{a}\n{b}"

    same(plain(program, given), text)
    module = sys.modules["axon.core.sharding.shard"]
    forms = module._forms
    for trial in range(3):
        split = {s: r.choice(axes)[0] for s in sizes if r.random() < 0.7} or {"n": axes[0][0]}
        scale, rates = r.choice((1, 64, 1024)), r.choice((SLOW, SLOW, nvlink()))
        if trial == 2:
            monkeypatch.setattr(module, "_forms", lambda block, grid: list(forms(block, grid))[-1:])
        on = shard(program, Mesh(axes), split, {s: extent * scale for s, extent in dims.items()}, rates)
        if not on.serves(dims):  # borders that reach further than the neighbours
            on = shard(program, Mesh(axes), split, dims, rates)
            assert on.serves(dims), text
        same(run(on, given), f"{text}\n{split}\n{print_sharded(on)}")
