"""What a call of a program in parts puts on a stream, written down once: launches, copies, and loops of both.

A script knows no address. Each is an offset into a *base*: an argument, a result, memory between kernels, the word for
failures; or a *register*, which the player points at another place in each step of a loop. So one script serves every call whose
tensors have the same sizes and lie alike. `recording` writes scripts, `playing` plays them.

Note [States of a script]
    The states of a loop alternate between two places each, chosen before the loop, such that the last step writes where the result
    is wanted. So what stands after a loop is the same however many steps there were: of a known number of steps the first writes
    where parity has it, of a `while` the results are copied where it ends after the other half. A step reads its states at
    registers, and writes them at others; those of an `unfold` are pointed into the stack. The step after it reads and writes them
    the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from axon.backend.gpu.launching.launches import Launch
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Place:
    """An address: a base, and what is added to it."""

    base: int
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Kernels that follow each other. The addresses that their slots name are those of `bases`, in order; `changing` are the
    counters that their arguments mention."""

    launches: tuple[Launch, ...]
    bases: tuple[int, ...]
    changing: frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class Move:
    """A copy of bytes."""

    target: Place
    source: Place
    size: int


@dataclass(frozen=True, slots=True)
class Alternating:
    """A state of a loop: its registers, where it is at first, where its last value is wanted, and the other place."""

    source: int
    target: int
    initial: Place
    last: Place
    other: Place
    size: int


@dataclass(frozen=True, slots=True)
class Stacked:
    """A state of an unfold, which lies in the stack, so many bytes further on in each step. `low` is what the steps' own offsets
    begin with."""

    source: int
    target: int
    initial: Place
    stack: Place
    step: int
    low: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The place in the stack of an unfold to which a state is copied in each step."""

    target: int
    stack: Place
    step: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop. Where `trip` is a tensor that the host does not know, it is read at `number`. With a `condition` the flag there is
    read before each step: at first, and in what registers say later.

    `first` is the first step where its states lie unlike those of the others; `none` what is done if there is no step. `several`
    are some steps that follow each other, an even number of them, from the registers of the first; no first step is among them.
    """

    counter: Symbol
    trip: Dim | Symbol
    number: tuple[Place, Element] | None
    condition: tuple[Place, Place] | None
    states: tuple[Alternating | Stacked, ...]
    slices: tuple[Slice, ...]
    first: tuple[Action, ...] | None
    body: tuple[Action, ...]
    none: tuple[Action, ...]
    several: tuple[Together, int] | None = None


Action: TypeAlias = "Together | Move | Repeat"


@dataclass(frozen=True, slots=True)
class Script:
    """`count` bases: of tensors that are given (`given`), of results, of the word for failures (`status`), of `size` bytes of its
    own (`own`), and registers."""

    actions: tuple[Action, ...]
    count: int
    given: Mapping[Symbol, int]
    results: tuple[int, ...]
    status: int
    own: int
    size: int
