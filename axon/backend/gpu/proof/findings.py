"""Results of the verifier (`Proof`, `Violation`), and its static checks: setup, layout, bytes of copies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, TypeAlias

from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import Advance, BarrierProgram, Copy, Op, operations
from axon.base.data import dataclass
from axon.base.names import Symbol

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
    _check_numbers(program)
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
                case b.Product(accumulator=acc, left=left, right=right, over=over):
                    first = left.tile if isinstance(left, b.StageField) else left
                    factors = ((first, (acc.axes[0], over)), (right.tile, (over, acc.axes[1])))
                    if any(set(tile.axes) != set(axes) for tile, axes in factors):
                        raise Found(Violation("content", f"`{acc.symbol.name}` is not a product of these tiles"))
                case b.Evaluate(computed=computed, tile=tile, staged=staged, over=over):
                    wanted = [(tile.axes, tile.shape[0], tile.shape[1] // one.per) for one in computed.staged]
                    if [(part.tile.axes, *part.tile.shape) for part in staged] != wanted or tile.axes[1] != over:
                        raise Found(Violation("content", f"`{tile.symbol.name}` is not computed of these tiles"))
                case b.Release(ring=ring, back=back) if not 0 <= back <= ring.depth:
                    raise Found(Violation("layout", f"a release of a stage {back} behind the cursor of a ring of {ring.depth}"))
                case _:
                    pass
    _check_named(program)


def _check_numbers(program: BarrierProgram) -> None:
    """Operations name fields that there are, and wait for as many as there can be."""
    for role in program.roles:
        for op in operations(role.body):
            parts = (
                [(p.ring, p.field) for p in (op.left, op.right) if isinstance(p, b.StageField)] if isinstance(op, b.Product) else []
            )
            parts += [(op.ring, op.field)] if isinstance(op, Copy) else []
            parts += [(p.ring, p.field) for p in op.staged] if isinstance(op, b.Evaluate) else []
            for ring, field in parts:
                if not 0 <= field < len(ring.fields):
                    raise Found(Violation("layout", f"field {field} of {len(ring.fields)}"))
            if isinstance(op, b.Retire | b.Reclaim) and op.pending < 0:
                raise Found(Violation("count", f"a wait that leaves {op.pending} in flight"))


def _check_named(program: BarrierProgram) -> None:
    """Named barriers: one for each consumer's threads to meet at, one for each consumer's turn, and none for two purposes."""
    used: dict[str, int] = {}
    consumers = program.mapping.consumers
    for role in program.roles:
        for op in operations(role.body):
            match op:
                case b.Meet(barrier=first, threads=threads):
                    purpose, own = "meeting", 128
                case b.Turn(first=first, threads=threads) | b.PassTurn(first=first, threads=threads):
                    purpose, own = "turn", 256
                case b.LastTurn(first=first, threads=threads):
                    purpose, own = "turn", 256
                case _:
                    continue
            if threads != own or not 1 <= first <= program.target.named_barriers - consumers:
                raise Found(Violation("count", f"named barrier {first} waits for {threads} threads of {own}"))
            if used.setdefault(purpose, first) != first:
                raise Found(Violation("count", f"a {purpose} at named barrier {first}, and another at {used[purpose]}"))
    firsts = sorted(used.values())
    if any(second - first < consumers for first, second in pairwise(firsts)):
        raise Found(Violation("count", f"named barriers from {firsts[1]} have two purposes"))


def _puts(body: tuple[Op, ...]) -> Iterator[list[Copy]]:
    """The copies that fill one stage of a ring together: those up to the cursor's advance, or those that one thread does alone."""
    filled: dict[Symbol, list[Copy]] = {}

    def walk(body: tuple[Op, ...]) -> Iterator[list[Copy]]:
        for op in body:
            match op:
                case Copy(ring=ring):
                    filled.setdefault(ring.symbol, []).append(op)
                case Advance(ring=ring) if ring.symbol in filled:
                    yield filled.pop(ring.symbol)
                case b.Alone(body=inner):
                    yield from _puts(inner)
                case _ if isinstance(op, b.Nested):
                    yield from walk(op.body)

    yield from walk(body)
    yield from filled.values()
