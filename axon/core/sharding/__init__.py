"""Core on a mesh of devices: a program of core and the sizes that are split -> programs over blocks, and collectives between them.

shard      the pass                                       shard
Sharded    what it makes: steps, layouts                  ir, printer, verify
run        all devices in one process: what it means      interpret
"""

from axon.core.sharding.ir import Collective, Layout, Local, Mesh, Part, Placed, Repeat, Sharded, Split, collectives
from axon.core.sharding.printer import print_sharded
from axon.core.sharding.shard import check_divides, layouts, near, shard

__all__ = [
    "Collective",
    "Layout",
    "Local",
    "Mesh",
    "Part",
    "Placed",
    "Repeat",
    "Sharded",
    "Split",
    "check_divides",
    "collectives",
    "layouts",
    "near",
    "print_sharded",
    "shard",
]
