"""What GSPMD exchanges for an einsum: JAX on virtual devices of this processor, asked in a process of its own. Run as a program it
prints, for each line of JSON it is given, the collectives of the compiled module with the bytes that a device sends."""

from __future__ import annotations

import json
import os
import re
import sys
from math import prod

_SHAPE = re.compile(r"f32\[([\d,]*)\]")
_LINE = re.compile(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)\(")
_ITOTA = re.compile(r"replica_groups=\[\d+,(\d+)\]")
_LISTED = re.compile(r"replica_groups=\{\{([\d,]*)\}")
_NAMED = re.compile(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}")


def devices(line: str) -> int:
    """How many take part in a collective together, in each of the ways in which XLA writes that."""
    if found := _NAMED.search(line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", found[1]))
        return prod(int(sizes[name]) for name in re.findall(r"'(\w+)'", found[2]))
    if found := _ITOTA.search(line):
        return int(found[1])
    found = _LISTED.search(line)
    assert found is not None, line
    return len(found[1].split(","))


def exchanged(einsum: str, sizes: dict[str, int], mesh: dict[str, int], split: dict[str, str]) -> list[tuple[str, int]]:
    """The collectives, and the bytes that a device sends in each, by rings."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    grid = Mesh(np.array(jax.devices()[: prod(mesh.values())]).reshape(tuple(mesh.values())), tuple(mesh))

    def natural(letters: str) -> NamedSharding:
        """Each axis splits the first dimension whose size is split over it."""
        spec: list[str | None] = [None] * len(letters)
        for axis in mesh:
            first = next((d for d, c in enumerate(letters) if spec[d] is None and split.get(c) == axis), None)
            if first is not None:
                spec[first] = axis
        return NamedSharding(grid, PartitionSpec(*spec))

    inputs, output = einsum.split("->")
    operands = inputs.split(",")
    letters = [jax.ShapeDtypeStruct(tuple(sizes[c] for c in one), np.float32) for one in operands]
    call = jax.jit(
        lambda *xs: jax.numpy.einsum(einsum, *xs),
        in_shardings=tuple(map(natural, operands)),
        out_shardings=natural(output),
    )
    found = []
    for line in call.lower(*letters).compile().as_text().splitlines():
        match = _LINE.search(line)
        if match is None:
            continue
        result, kind = match.groups()
        p = 0 if kind == "collective-permute" else devices(line)
        made = sum(4 * prod(int(n) for n in dims.split(",") if n) for dims in _SHAPE.findall(result))
        factors = {
            "all-reduce": 2 * (p - 1) / max(p, 1),
            "all-gather": (p - 1) / max(p, 1),
            "reduce-scatter": p - 1,
            "all-to-all": (p - 1) / max(p, 1),
            "collective-permute": 1,
        }
        found.append((kind.replace("-", "_"), round(made * factors[kind])))
    return found


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"
    for asked in sys.stdin:
        print(json.dumps(exchanged(*json.loads(asked))), flush=True)
