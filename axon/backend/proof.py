"""What a proof of a barrier program says, and the part of it that needs no running: setup, layout, and what copies fill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from axon.backend import barriers as b
from axon.backend.barriers import BarrierProgram

Kind: TypeAlias = Literal[
    "deadlock", "bytes", "count", "phase", "read", "overwrite", "content", "buffer", "fence", "exit", "layout", "setup"
]


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong, who noticed, and the loop decisions that lead there."""

    kind: Kind
    message: str
    agent: str = ""
    decisions: tuple[bool, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f" ({self.agent})" if self.agent else "")


@dataclass(frozen=True, slots=True)
class Proof:
    """Every run is covered by so many states."""

    states: int


class Found(Exception):
    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


def check_layout(program: BarrierProgram) -> None:
    """Setup, the layout of shared memory, and that the copies of one put fill a stage exactly."""
    if not program.fenced:
        raise Found(Violation("setup", "barriers are used before their initialization is published"))
    areas = [(r.barriers, 16 * r.depth) for r in program.rings] + [(r.data, r.depth * r.stage) for r in program.rings]
    consumers = program.mapping.consumers
    areas += [(x.offset, consumers * x.slots * x.slot) for x in program.buffers]
    end = 0
    for start, size in sorted(areas):
        if start < end:
            raise Found(Violation("layout", f"shared memory from {start} has two owners"))
        end = start + size
    if end > program.shared or program.shared > program.target.shared_per_block:
        raise Found(
            Violation("layout", f"{end} bytes are used of {program.shared}, the limit is {program.target.shared_per_block}")
        )
    for ring in program.rings:
        copies = [op for role in program.roles for op in b.operations(role.body) if isinstance(op, b.Copy) and op.ring == ring]
        pieces = []
        for copy in copies:
            for rank in range(program.cluster) if copy.multicast else (0,):
                pieces.append((copy.offset + copy.by_rank * rank, copy.bytes))
        at = 0
        for start, size in sorted(pieces):
            if start != at:
                raise Found(Violation("layout", f"copies into a stage leave or overlap bytes {min(at, start)} to {max(at, start)}"))
            at += size
        if at != ring.stage:
            raise Found(Violation("layout", f"copies fill {at} bytes of a stage of {ring.stage}"))
    for role in program.roles:
        for op in b.operations(role.body):
            if isinstance(op, b.Meet) and (
                op.threads != 128 or not 1 <= op.barrier <= program.target.named_barriers - role.instances
            ):
                raise Found(Violation("count", f"named barrier {op.barrier} waits for {op.threads} threads of 128"))
