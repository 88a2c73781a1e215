"""Programs on a mesh against the same without one: the reference evaluator knows nothing of sharding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import axon
from axon import compiler
from axon.base.element import Element
from axon.core.ir import Program
from axon.core.sharding import Mesh, Sharded, shard
from axon.core.sharding.interpret import run
from axon.core.sharding.layouts import LINKS, Rates

# Of devices that compute so slowly that whatever may be shared is: small tests would rather compute everything everywhere.
SLOW = Rates("slow", 1e9, 1e-9, 1e9, 1e9)


def mesh(**axes: int) -> Mesh:
    return Mesh(tuple(axes.items()))


def lowered(module: axon.Module, name: str) -> Program:
    """A declaration for its most general arguments."""
    return compiler.lower(module._session.checked, name, None)


def of(text: str, name: str) -> Program:
    return lowered(axon.compile(text), name)


def bound(program: Program, **sizes: int) -> dict[Any, int]:
    """The sizes of a call, all given by name."""
    known = {*program.explicit, *program.contract.determined()}
    return {symbol: sizes[symbol.name] for symbol in known}


def arguments(program: Program, dims: Mapping[Any, int], seed: int = 0, most: int = 3) -> list[np.ndarray]:
    """Small whole numbers for every input: floats hold them, and their sums, exactly."""
    random = np.random.default_rng(seed)
    made = []
    for value in program.inputs:
        shape = [d.evaluate(dims) for d in value.shape]
        if value.element is Element.BOOL:
            made.append(random.random(shape) < 0.5)
        else:
            low = 0 if value.element.is_integer else -most
            made.append(random.integers(low, most, shape).astype(value.element.dtype))
    return made


def sharded(
    program: Program,
    on: Mesh,
    split: Mapping[str, str],
    dims: Mapping[Any, int],
    rates: Rates = SLOW,
    scale: int = 1,
    wide: bool = False,
) -> Sharded:
    """The program on a mesh, as it would be for sizes that are so many times larger."""
    return shard(program, on, split, {symbol: size * scale for symbol, size in dims.items()}, rates, wide=wide)


def compare(made: Sharded, inputs: Sequence[Any], dims: Mapping[Any, int], tolerance: float = 0.0) -> None:
    """The results are those of the unsharded program: bit for bit, or as close as is said."""
    from axon.interpret import run as plain

    explicit = [dims[s] for s in made.source.explicit]
    wanted, got = plain(made.source, inputs, explicit), run(made, inputs, explicit)
    assert len(wanted) == len(got)
    for a, b in zip(wanted, got, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype.kind in "iub" or not tolerance:
            np.testing.assert_array_equal(a, b)
        else:
            scale = max(1.0, float(np.nanmax(np.abs(a.astype(np.float64)), initial=0)))
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance * scale)


def nvlink() -> Rates:
    return LINKS["nvlink"]
