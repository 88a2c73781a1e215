"""A mesh of processes as functions over it see it: its axes, this process's lines, and what watches over all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from axon.base.data import dataclass
from axon.base.identity import IdentityMap
from axon.core.sharding.ir import Layout, Mesh
from axon.host.devices.collectives import Line
from axon.host.devices.watch import Watch


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """`place` is where this process stands on each axis, `ranks` are all processes in the order of their coordinates."""

    device_mesh: DeviceMesh
    mesh: Mesh
    place: Mapping[str, int]
    ranks: tuple[int, ...]

    def lines(self, deterministic: bool) -> dict[str, Line]:
        group = self.device_mesh.get_group
        return {axis: Line(axis, group(axis), size, self.place[axis], deterministic) for axis, size in self.mesh.axes}

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        kind = self.device_mesh.device_type
        return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)

    @property
    def on_stream(self) -> bool:
        """Whether collectives are waited for on a GPU's stream, as NCCL's are."""
        groups = (self.device_mesh.get_group(axis) for axis, _ in self.mesh.axes)
        return all(group._get_backend(self.device).name().lower() == "nccl" for group in groups)

    @property
    def leaves_room(self) -> bool:
        """Whether a program may leave multiprocessors free for what is exchanged: where NCCL starts its blocks one by one. By
        default four start together on Hopper, on neighbouring multiprocessors, and those that a program leaves lie anywhere."""
        return self.on_stream and os.environ.get("NCCL_CGA_CLUSTER_SIZE") in ("0", "1")

    def placements(self, layout: Layout) -> tuple[Placement, ...]:
        """A layout as DTensors have it: for each axis of the mesh, the dimension that it splits."""
        split = [layout.dimension(axis) for axis, _ in self.mesh.axes]
        return tuple(Replicate() if d is None else Shard(d) for d in split)

    def spread(self, local: torch.Tensor, layout: Layout, shape: tuple[int, ...]) -> DTensor:
        """This process's block as a part of a DTensor."""
        strides, step = [], 1
        for extent in reversed(shape):
            strides.append(step)
            step *= max(extent, 1)
        placements = self.placements(layout)
        return DTensor.from_local(
            local, self.device_mesh, placements, run_check=False, shape=torch.Size(shape), stride=tuple(reversed(strides))
        )

    def block(self, whole: torch.Tensor, layout: Layout) -> torch.Tensor:
        """This process's block of a tensor that all have. Its sizes divide."""
        for axis, size in self.mesh.axes:
            d = layout.dimension(axis)
            if d is not None:
                n = whole.shape[d] // size
                whole = whole.narrow(d, self.place[axis] * n, n)
        return whole

    def whole(self, block: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
        """The shape of a tensor of which this process has a block of this one."""
        shape = list(block)
        for axis, size in self.mesh.axes:
            d = layout.dimension(axis)
            if d is not None:
                shape[d] *= size
        return tuple(shape)

    def divides(self, shape: tuple[int, ...], layout: Layout) -> bool:
        """Whether each process has as much of a tensor of this shape."""
        at = ((layout.dimension(axis), size) for axis, size in self.mesh.axes)
        return all(d is None or d >= len(shape) or shape[d] % size == 0 for d, size in at)

    def watch(self, timeout: float) -> Watch:
        """What watches over the processes of this mesh: one for each set of them, as long as they are initialized."""
        group, ranks = dist.distributed_c10d._get_default_group(), self.ranks
        if group not in _watches:  # a first one, or other processes than before
            for made in list(_watches.values()):
                for watch in made.values():
                    watch.close("its process group was destroyed")
            _watches.clear()
            _watches[group] = {}
        watches = _watches[group]
        if ranks not in watches:
            name = sha256(repr(ranks).encode()).hexdigest()[:16]
            store = dist.PrefixStore(f"axon/{name}", dist.distributed_c10d._get_default_store())
            places = dict(zip(ranks, self.mesh.coordinates(), strict=True))

            def named(rank: int) -> str:
                return f"rank {rank} ({', '.join(f'{axis} {n}' for axis, n in places[rank].items())})"

            watches[ranks] = Watch(store, dist.get_rank(), ranks, named, timeout)
        watches[ranks].timeout = timeout
        return watches[ranks]


def grid_of(device_mesh: DeviceMesh) -> Grid:
    """Raises TypeError for a mesh whose axes have no names, or of which this process is no part."""
    names, sizes = device_mesh.mesh_dim_names, tuple(device_mesh.mesh.shape)
    if not names:
        raise TypeError("the axes of the mesh have no names: init_device_mesh(…, mesh_dim_names=(…)) gives them")
    place = device_mesh.get_coordinate()
    if place is None:
        raise TypeError(f"rank {dist.get_rank()} is no part of the mesh, so it cannot call a function over it")
    ranks = tuple(device_mesh.mesh.flatten().tolist())  # which takes PyTorch a tenth of a millisecond
    return Grid(device_mesh, Mesh(tuple(zip(names, sizes, strict=True))), dict(zip(names, place, strict=True)), ranks)


_watches: IdentityMap[Any, dict[tuple[int, ...], Watch]] = IdentityMap()
