"""What a proof of a barrier program says, and the part of it that needs no running: setup, layout, and what copies fill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from axon.backend import barriers as b
from axon.backend.barriers import Advance, BarrierProgram, Copy, Op, operations
from axon.names import Symbol

Kind: TypeAlias = Literal[
    "deadlock", "bytes", "count", "phase", "read", "overwrite", "content", "buffer", "fence", "registers", "turn", "exit", "layout",
    "setup",
]  # fmt: skip


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
    for role in program.roles:
        for copies in _puts(role.body):
            ring, at = copies[0].ring, 0
            pieces = [(c.offset + c.by_rank * r, c.bytes) for c in copies for r in range(program.cluster if c.multicast else 1)]
            for start, size in sorted(pieces):
                if start != at:
                    where = f"bytes {min(at, start)} to {max(at, start)}"
                    raise Found(Violation("layout", f"copies into a stage leave or overlap {where}"))
                at += size
            if at != ring.stage:
                raise Found(Violation("layout", f"copies fill {at} bytes of a stage of {ring.stage}"))
    for role in program.roles:
        for op in operations(role.body):
            match op:
                case b.Meet(barrier=barrier, threads=threads):
                    own = 128
                case b.Turn(first=barrier, threads=threads) | b.Pass(first=barrier, threads=threads):
                    own = 256
                case b.LastTurn(first=barrier, threads=threads):
                    own = 256
                case _:
                    continue
            if threads != own or not 1 <= barrier <= program.target.named_barriers - consumers:
                raise Found(Violation("count", f"named barrier {barrier} waits for {threads} threads of {own}"))


def _puts(body: tuple[Op, ...]) -> Iterator[list[Copy]]:
    """The copies that fill one stage of a ring together: those up to the cursor's advance."""
    filled: dict[Symbol, list[Copy]] = {}
    for op in operations(body):
        match op:
            case Copy(ring=ring):
                filled.setdefault(ring.symbol, []).append(op)
            case Advance(ring=ring) if ring.symbol in filled:
                yield filled.pop(ring.symbol)
    yield from filled.values()
