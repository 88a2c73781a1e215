"""Functions of the library on meshes give what they give without one: forms that no generator here draws."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import axon
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.core.ir import Program
from axon.core.sharding import Mesh, shard
from axon.interpret import run as plain
from axon.shapes.contracts.guard import ContractBroken
from tests import ROOT
from tests.core.sharding.whole import SLOW, compare, lowered, nvlink
from tests.sample import SOAK

MESHES = ((("m", 2),), (("m", 3),), (("m", 4),), (("d", 2), ("m", 2)))
MODULES = ("nn", "tensor", "linalg", "stats", "image", "fft", "hmm", "random", "quant", "infer")
LARGEST = 20_000  # elements of all arguments: the reference evaluator is slow
TOLERANCE = {1: 0.2, 2: 2e-2, 4: 1e-4, 8: 1e-8}


def numbers(program: Program, dims: dict, rng: np.random.Generator) -> list[np.ndarray]:
    """Between 0.1 and 0.9, where most functions are defined; integers that are indices of two things."""
    made = []
    for value in program.inputs:
        shape = [d.evaluate(dims) for d in value.shape]
        if value.element is Element.BOOL:
            made.append(rng.random(shape) < 0.5)
        elif value.element.is_float:
            made.append((rng.random(shape) * 0.8 + 0.1).astype(value.element.dtype))
        else:
            made.append(rng.integers(0, 2, shape).astype(value.element.dtype))
    return made


def called(program: Program, step: int, random: Random) -> tuple[dict, list[np.ndarray]] | None:
    """Sizes, and arguments, of a call that the contract allows, with multiples of a step where it does."""
    known = [*dict.fromkeys((*program.explicit, *program.contract.determined()))]
    rng = np.random.default_rng(step)
    for attempt in range(40):
        sizes = (step, step, 2 * step, 3 * step) if attempt < 20 else (step, 2 * step, 1, 2, 3, 8)
        dims = {s: random.choice(sizes) for s in known}
        if attempt % 2:
            dims |= {s: random.choice((1, 2, 3)) for s in program.explicit}
        try:
            inputs = numbers(program, dims, rng)
            dims = program.contract.bind([dims[s] for s in program.explicit], [x.shape for x in inputs])
            if sum(x.size for x in inputs) <= LARGEST:
                plain(program, inputs, [dims[s] for s in program.explicit])
                return dims, inputs
        except (AxonError, ContractBroken, ValueError, KeyError, ZeroDivisionError):
            continue
    return None


def functions() -> list[tuple[str, str]]:
    found = [(module, name) for module in MODULES for name in axon.load(ROOT / "stdlib" / f"{module}.axon")]
    return found if SOAK else Random(5).sample(found, 12)


@pytest.mark.parametrize(("module", "name"), functions())
def test_functions(module: str, name: str) -> None:
    random = Random(f"{module}.{name}")
    try:
        program = lowered(axon.load(ROOT / "stdlib" / f"{module}.axon"), name)
    except AxonError:
        return  # takes functions
    for axes in random.sample(MESHES, 2):
        found = called(program, int(np.lcm.reduce([size for _, size in axes])), random)
        if found is None:
            continue
        dims, inputs = found
        names = [s.name for s in dims]
        chosen = {s: random.choice(axes) for s in dims if s.name and names.count(s.name) == 1 and random.random() < 0.7}
        split = {s.name: axis for s, (axis, size) in chosen.items() if dims[s] % size == 0}
        scale, rates = random.choice((1, 256)), random.choice((SLOW, nvlink()))
        guide = {s: n if s in program.explicit else n * scale for s, n in dims.items()}
        made = shard(program, Mesh(axes), split, guide, rates)
        if not made.serves(dims):  # borders that reach further than the neighbours
            made = shard(program, Mesh(axes), split, dims, rates)
        narrowest = min((value.element.dtype.itemsize for value in program.inputs if value.element.is_float), default=8)
        compare(made, inputs, dims, TOLERANCE[narrowest])
