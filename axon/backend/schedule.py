"""Mappings: how a kernel is laid out on the chip, as data, and the cost model that picks one.

A mapping changes speed, never results. `candidates` lists what is legal for a kernel on a target, `predict` prices one for given
sizes, `choose` takes the cheapest. `check` words what is wrong with a mapping that a user gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

from axon.backend.target import Target
from axon.element import Element

# Registers per thread of (producer, consumer), by the number of consumer warpgroups; None keeps what the launch gave. Together
# they fit the file of one multiprocessor.
REGISTER_BUDGETS: dict[int, tuple[int, int] | None] = {1: None, 2: (40, 232), 3: (32, 160)}


@dataclass(frozen=True, slots=True)
class Mapping:
    """One way to run a contraction. Tile extents are in elements."""

    rows: int = 128
    columns: int = 256
    depth: int = 64
    stages: int = 4  # depth D of the ring between producer and consumers
    in_flight: int = 1  # P: groups of products that may still run when the next is issued
    consumers: int = 2  # warpgroups that share the rows of a tile
    cluster: int = 2  # blocks that share one operand by multicast
    cluster_over: Literal["rows", "columns"] = "rows"  # the axis along which the blocks of a cluster differ
    group: int = 8  # tile rows that are walked together, for the L2 cache
    persistent: bool = True  # one block per multiprocessor walks many tiles
    slots: int = 1  # buffers per consumer between its registers and a store

    def __str__(self) -> str:
        shape = f"tile {self.rows}×{self.columns}×{self.depth} · consumers {self.consumers} · stages {self.stages} · in flight {self.in_flight}"
        cluster = f"cluster {self.cluster} over {self.cluster_over}" if self.cluster > 1 else "no cluster"
        return f"{shape} · {cluster} · groups of {self.group} · {'persistent' if self.persistent else 'one tile per block'}"


@dataclass(frozen=True, slots=True)
class Problem:
    """The sizes that a choice depends on. `outer` is the product of the outer extents."""

    rows: int
    columns: int
    depth: int
    outer: int = 1
    element: Element = Element.BF16


def shared_bytes(mapping: Mapping, element: Element, stored: tuple[Element, ...]) -> int:
    """The dynamic shared memory of a block: barriers, ring, and the buffers of stores."""
    size = element.bits // 8
    ring = mapping.stages * (mapping.rows + mapping.columns) * mapping.depth * size
    buffers = mapping.consumers * mapping.slots * BUFFER_BYTES if stored else 0
    return BARRIER_BYTES + ring + buffers


BARRIER_BYTES = 1024  # at the start of shared memory; keeps what follows aligned for swizzled tiles
BUFFER_BYTES = 64 * 128  # one store buffer: 64 rows of one swizzle width


def check(mapping: Mapping, target: Target, element: Element, stored: tuple[Element, ...]) -> tuple[str, ...]:
    """What forbids this mapping on this target; nothing if it is legal."""
    low, high, granule = target.product_columns
    panel = target.swizzle * 8 // element.bits
    shared_extent = mapping.columns if mapping.cluster_over == "rows" else mapping.rows
    rules = [
        (all(getattr(mapping, f.name) >= 1 for f in fields(mapping) if f.type == "int" and f.name != "in_flight"),
         "every number of a mapping is at least 1"),
        (mapping.rows % (target.product_rows * mapping.consumers) == 0,
         f"rows must be a multiple of {target.product_rows} for each of {mapping.consumers} consumers"),
        (low <= mapping.columns <= high and mapping.columns % granule == 0, f"columns must be {low} to {high} in steps of {granule}"),
        (mapping.columns % panel == 0, f"columns must be a multiple of {panel}"),
        (mapping.depth % panel == 0, f"depth must be a multiple of {panel}"),
        (0 <= mapping.in_flight < mapping.stages, "fewer products can be in flight than the ring has stages"),
        (mapping.consumers in REGISTER_BUDGETS, f"there can be {' or '.join(map(str, REGISTER_BUDGETS))} consumers"),
        (mapping.cluster <= target.max_cluster, f"a cluster has at most {target.max_cluster} blocks"),
        (shared_extent % (mapping.cluster * 64) == 0, f"the blocks of a cluster load multiples of 64 {'columns' if mapping.cluster_over == 'rows' else 'rows'} each"),
        (accumulators(mapping) + 40 <= _budget(mapping, target), f"{accumulators(mapping)} accumulators leave a consumer's thread no registers"),
        (mapping.rows <= target.box_extent, f"rows can be at most {target.box_extent}"),
        (shared_bytes(mapping, element, stored) <= target.shared_per_block,
         f"it needs {shared_bytes(mapping, element, stored)} bytes of shared memory of {target.shared_per_block}"),
    ]  # fmt: skip
    return tuple(text for holds, text in rules if not holds)


def accumulators(mapping: Mapping) -> int:
    """Accumulator registers of one consumer thread."""
    return mapping.rows * mapping.columns // (mapping.consumers * 128)


def _budget(mapping: Mapping, target: Target) -> int:
    budget = REGISTER_BUDGETS.get(mapping.consumers)
    return budget[1] if budget else target.max_registers


def candidates(target: Target, element: Element, stored: tuple[Element, ...]) -> Iterator[Mapping]:
    """The mappings worth pricing: the best known tiles, each with the deepest ring that fits, with and without clusters."""
    tiles = ((128, 256, 2), (256, 128, 2), (128, 192, 2), (128, 128, 2), (128, 64, 2), (64, 256, 1), (64, 128, 1), (64, 64, 1))
    for rows, columns, consumers in tiles:
        for cluster, over in ((2, "rows"), (2, "columns"), (1, "rows")):
            for slots in (2, 1):
                deepest = None
                for stages in range(3, 9):
                    mapping = Mapping(rows, columns, 64, stages, 1, consumers, cluster, "rows" if over == "rows" else "columns", slots=slots)
                    if not check(mapping, target, element, stored):
                        deepest = mapping
                if deepest:
                    yield deepest
                    break


def predict(mapping: Mapping, problem: Problem, target: Target) -> float:
    """Seconds that a mapping should take: the slowest of the matrix units, the memory and the shared-memory feed, by waves of tiles."""
    tiles_m = -(-problem.rows // mapping.rows)
    tiles_n = -(-problem.columns // mapping.columns)
    if mapping.cluster_over == "rows":
        tiles_m = -(-tiles_m // mapping.cluster) * mapping.cluster
    else:
        tiles_n = -(-tiles_n // mapping.cluster) * mapping.cluster
    tiles = tiles_m * tiles_n * problem.outer
    blocks = target.multiprocessors // mapping.cluster * mapping.cluster
    waves = -(-tiles // blocks)
    steps = -(-problem.depth // mapping.depth)
    rate = target.matrix_flops / target.multiprocessors * _efficiency(mapping)
    product = 2.0 * mapping.rows * mapping.columns * mapping.depth / rate
    shared_m, shared_n = (1, mapping.cluster) if mapping.cluster_over == "rows" else (mapping.cluster, 1)
    size = problem.element.bits // 8
    feed = (mapping.rows / shared_m + mapping.columns / shared_n) * mapping.depth * size / FEED_RATE
    step = max(product, feed)
    fill, drain = 1.5e-6, mapping.rows * mapping.columns * 2 / STORE_RATE
    busy = waves * (steps * step + TILE_OVERHEAD) + fill + drain
    moved = (problem.rows * problem.depth + problem.depth * problem.columns + problem.rows * problem.columns) * size * problem.outer
    return max(busy, moved / target.memory_rate + fill)


FEED_RATE = 50e9  # bytes per second that one multiprocessor gets from the L2 cache while all ask
STORE_RATE = 60e9
TILE_OVERHEAD = 0.4e-6


def _efficiency(mapping: Mapping) -> float:
    """The share of the matrix units' rate that a tile reaches: small tiles read shared memory more often for each product."""
    per_consumer = mapping.rows // mapping.consumers
    bytes_read = (per_consumer + mapping.columns) / (per_consumer * mapping.columns)
    return min(1.0, 0.95 / (64 * bytes_read)) if bytes_read > 0 else 1.0


def choose(problem: Problem, target: Target, stored: tuple[Element, ...]) -> Mapping:
    """The legal mapping with the least predicted time; the earliest in `candidates` among equals."""
    return min(candidates(target, problem.element, stored), key=lambda m: predict(m, problem, target))
