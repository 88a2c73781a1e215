"""Calls of programs in parts: by a script where there is one for tensors that lie like these, else by a walk.

Note [Scripts of calls]
    The first call at some sizes, for tensors that lie in some way, records a script; it and later ones play it. What a script keeps
    between calls are its graphs, no memory: each call asks the caller's library for what lies between kernels, in one piece.

    Walked is what cannot be recorded (see Note [What is not recorded] in `recording`), what someone records on a stream of their
    own, a call while another thread plays the same script, and one whose memory there is not in one piece: a walk asks for many.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.backend.gpu.launching.driver import OutOfDeviceMemory
from axon.backend.gpu.launching.playing import Player
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.gpu.runtime.kept_graphs import keep
from axon.backend.gpu.runtime.recording import ALIGNED, Unrecorded, record, serves
from axon.backend.gpu.runtime.stepping import GpuRun, Held
from axon.backend.plan.walk import Make
from axon.base.errors import AxonError


def results(run: GpuRun, makers: Sequence[Make[Held]], rooms: Sequence[DeviceTensor] | None) -> list[Held]:
    """The results of a call; `makers` make room for each, which the caller gave (`rooms`) or which lies as an allocator has it."""
    values = [run.stepped.values[symbol] for symbol in run.stepped.program.block.results]
    if not all(dim.variables <= run.sizes.keys() for value in values for dim in value.shape) or run.cuda.capturing(run.stream):
        return run(makers)
    shapes = [run.shape(value) for value in values]
    made: list[Held] | None = None
    if rooms is not None:
        made = [make(shape) for make, shape in zip(makers, shapes, strict=True)]
    like = rooms or [contiguous(ALIGNED, shape, value.element) for shape, value in zip(shapes, values, strict=True)]
    player = _player(run, like)
    if isinstance(player, str) or not player.lock.acquire(blocking=False):
        return run(makers)
    try:
        bases = _bases(run, player)
        if bases is None:
            return run(makers)
        if made is None:
            made = [make(shape) for make, shape in zip(makers, shapes, strict=True)]
            assert all(serves(a, b.tensor) for a, b in zip(like, made, strict=True)), "an allocator gives what is aligned"
        for base, held in zip(player.script.results, made, strict=True):
            bases[base] = held.tensor.pointer - held.tensor.pointer % ALIGNED
        run.stopping(lambda: player(run, bases, run.stream))
        if player.has_graphs:
            keep(player, run.stream)
        return made
    finally:
        player.lock.release()


def _player(run: GpuRun, like: Sequence[DeviceTensor]) -> Player | str:
    """What plays calls like this one, or why none does."""
    given = {symbol: held.tensor for symbol, held in run.held.items()}
    numbers = frozenset(run.numbers)
    lies = tuple((symbol, tensor.pointer % ALIGNED, tensor.strides) for symbol, tensor in given.items())
    out = tuple((tensor.pointer % ALIGNED, tensor.strides) for tensor in like)
    key = (run.device, tuple(run.sizes.items()), numbers, lies, out)

    def make() -> Player | str:
        try:
            script = record(run.stepped, run.cuda, run.device, run.sizes, given, like, numbers)
        except Unrecorded as reason:
            return str(reason)
        except (AxonError, ZeroDivisionError) as error:  # where the walk comes to this it says so
            return str(error)
        return Player(run.cuda, script, run.cuda.context(run.device))

    return run.stepped.player(key, make)


def _bases(run: GpuRun, player: Player) -> list[int] | None:
    """Addresses of all but results, with memory for the call; None if there is no room for it in one piece."""
    script = player.script
    bases = [0] * script.count
    if script.size:
        try:
            block, bases[script.own] = run.pool.allocate(script.size)
        except OutOfDeviceMemory:
            return None
        run.pool.kept.append(block)
    for symbol, base in script.given.items():
        pointer = run.held[symbol].tensor.pointer
        bases[base] = pointer - pointer % ALIGNED
    bases[script.status] = run.watch.address if run.watch is not None else 0
    return bases
