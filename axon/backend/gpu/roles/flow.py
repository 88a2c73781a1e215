"""A role's body as straight code with jumps, for those who execute it step by step: the verifier and the simulator."""

from __future__ import annotations

from typing import TypeAlias

from axon.backend.gpu.roles.barriers import AfterSteps, Alone, IfOwn, IfPiece, Last, Op, Single, Steps, Tiles
from axon.base.data import dataclass
from axon.base.names import Symbol


@dataclass(frozen=True, slots=True)
class NextTile:
    """Ask whether there is another tile; go to `exit` if not."""

    exit: int


@dataclass(frozen=True, slots=True)
class BeginSteps:
    """Set the count of completed steps of an axis to 0, and its piece to the first, or the last."""

    axis: Symbol
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class NextStep:
    """Count a step, and ask whether there is another; go to `back` if so."""

    axis: Symbol
    back: int
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class MoreSteps:
    """Ask whether there is a piece before the current one, and make it current; go to `exit` if not."""

    axis: Symbol
    exit: int


@dataclass(frozen=True, slots=True)
class Unless:
    """Go to `exit` unless so many steps of the axis are complete."""

    axis: Symbol
    count: int
    exit: int


@dataclass(frozen=True, slots=True)
class UnlessOwn:
    """Go to `exit` unless the tile is this consumer's own, or, if not `own`, another's."""

    own: bool
    exit: int


@dataclass(frozen=True, slots=True)
class UnlessPiece:
    """Go to `exit` unless the axis has a piece `number`, counted from the `current` one or from the first."""

    axis: Symbol
    number: int
    current: bool
    exit: int


@dataclass(frozen=True, slots=True)
class Jump:
    to: int


Instruction: TypeAlias = "Single | NextTile | BeginSteps | NextStep | MoreSteps | Unless | UnlessOwn | UnlessPiece | Jump"


def flatten(body: tuple[Op, ...], *, alone: bool) -> tuple[Instruction, ...]:
    """The body's operations in order, with its loops and conditions as jumps to positions.

    They are those of the one that does what is done `alone`, or of any other, at the same positions.
    """
    out: list[Instruction] = []

    def block(ops: tuple[Op, ...]) -> None:
        for op in ops:
            at = len(out)
            match op:
                case Tiles(body=inner):
                    out.append(Jump(at))
                    block(inner)
                    out.append(Jump(at))
                    out[at] = NextTile(len(out))
                case Last(axis=axis):
                    out.append(BeginSteps(axis.symbol, backwards=True))
                case Steps(axis=axis, body=inner, peeled=True):
                    out.append(Jump(at))
                    block(inner)
                    out.append(Jump(at))
                    out[at] = MoreSteps(axis.symbol, len(out))
                case Steps(axis=axis, body=inner, backwards=backwards):
                    out.append(BeginSteps(axis.symbol, backwards))
                    block(inner)
                    out.append(NextStep(axis.symbol, at + 1, backwards))
                case IfOwn(own=own, body=inner):
                    out.append(Jump(at))
                    block(inner)
                    out[at] = UnlessOwn(own, len(out))
                case AfterSteps(axis=axis, count=count, body=inner):
                    out.append(Jump(at))
                    block(inner)
                    out[at] = Unless(axis.symbol, count, len(out))
                case IfPiece(axis=axis, number=number, current=current, body=inner):
                    out.append(Jump(at))
                    block(inner)
                    out[at] = UnlessPiece(axis.symbol, number, current, len(out))
                case Alone(body=inner):
                    block(inner)
                    if not alone:
                        out[at:] = [Jump(len(out))] * (len(out) - at)
                case _:
                    out.append(op)

    block(body)
    return tuple(out)


def saturation(code: tuple[Instruction, ...]) -> int:
    """The count of steps beyond which no condition tells counts apart."""
    return max((i.count for i in code if isinstance(i, Unless)), default=0)
