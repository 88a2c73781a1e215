"""Random programs of core on meshes give what they give without; those that fail, fail."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from axon.base.errors import AxonError
from axon.core.printer import print_program
from axon.core.sharding import Mesh, print_sharded, shard
from axon.core.sharding.interpret import run
from axon.interpret import run as plain
from tests.core.random_programs import Generator
from tests.core.sharding.whole import SLOW, nvlink
from tests.sample import SOAK

MESHES = ((("m", 2),), (("m", 3),), (("m", 4),), (("d", 2), ("m", 2)))
TOLERANCE = {1: 0.3, 2: 1e-2, 4: 1e-4, 8: 1e-4}  # of sums in another order, by the bytes of their elements


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if a.dtype.kind in "iub":
        return np.array_equal(a, b)
    tolerance = TOLERANCE[a.dtype.itemsize]
    return np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("seed", range(500 if SOAK else 12))
def test_random_programs(seed: int) -> None:
    random = Random(seed)
    axes = random.choice(MESHES)
    p = max(size for _, size in axes)
    program, inputs = Generator(random, (0, p, p, 2 * p, 2 * p, 3 * p)).program()
    dims = program.contract.bind((), [x.shape for x in inputs])
    split = {name: random.choice(axes)[0] for name in sorted({s.name for s in dims}) if random.random() < 0.8}
    guide = {s: size * random.choice((1, 1000, 1000)) for s, size in dims.items()}
    made = shard(program, Mesh(axes), split, guide, random.choice((SLOW, nvlink())))
    if not made.serves(dims):  # borders that reach further than the neighbours
        made = shard(program, Mesh(axes), split, dims)
        assert made.serves(dims)

    def result(call):
        try:
            return call()
        except AxonError as error:
            return error

    wanted, got = result(lambda: plain(program, inputs)), result(lambda: run(made, inputs))
    said = f"{print_program(program)}\n{print_sharded(made)}"
    if isinstance(wanted, AxonError) or isinstance(got, AxonError):
        assert type(wanted) is type(got), said
        return
    for a, b in zip(wanted, got, strict=True):
        assert alike(a, b), f"{said}\n{a}\n{b}"
