"""Calls of programs in parts: by a script where there is one for tensors that lie like these, else by a walk.

Note [Scripts of calls]
    The first call at some sizes, for tensors that lie in some way, records a script; it and later ones play it. What a script keeps
    between calls are its graphs, no memory: each call asks the caller's library for what lies between kernels, in one piece.

    Of a call that is walked loops of many steps are played, where these can be recorded with the sizes that are known then. Walked
    is what cannot be recorded (see Note [What is not recorded] in `recording`), what someone records on a stream of their
    own, a call while another thread plays the same script, and one whose memory there is not in one piece: a walk asks for many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from axon.backend.gpu.launching.driver import OutOfDeviceMemory
from axon.backend.gpu.launching.playing import Player
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.gpu.runtime.foreseen import mentioned, reads
from axon.backend.gpu.runtime.kept_graphs import keep
from axon.backend.gpu.runtime.recording import ALIGNED, Unrecorded, record, serves
from axon.backend.gpu.runtime.stepping import GpuRun, Held
from axon.backend.plan.walk import Make
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.core.passes.parts import HostLoop, PartsBody

WORTH = 16  # steps, of which some are walked twice to write them down


def results(run: GpuRun, makers: Sequence[Make[Held]], rooms: Sequence[DeviceTensor] | None) -> list[Held]:
    """The results of a call; `makers` make room for each, which the caller gave (`rooms`) or which lies as an allocator has it."""
    if run.cuda.capturing(run.stream):
        return run(makers)
    run.replay = _loop
    values = [run.stepped.values[symbol] for symbol in run.stepped.program.block.results]
    if not all(dim.variables <= run.sizes.keys() for value in values for dim in value.shape):
        return run(makers)
    shapes = [run.shape(value) for value in values]
    made: list[Held] | None = None
    if rooms is not None:
        made = [make(shape) for make, shape in zip(makers, shapes, strict=True)]
    like = rooms or [contiguous(ALIGNED, shape, value.element) for shape, value in zip(shapes, values, strict=True)]
    player = _player(run, None, run.stepped.parts.body, run.held.keys(), run.sizes, like)
    if isinstance(player, str) or not player.lock.acquire(blocking=False):
        return run(makers)
    try:
        if player.script.size:
            try:
                block, place = run.pool.allocate(player.script.size)
            except OutOfDeviceMemory:
                return run(makers)
            run.pool.kept.append(block)
        else:
            place = 0
        if made is None:
            made = [make(shape) for make, shape in zip(makers, shapes, strict=True)]
            assert all(serves(a, b.tensor) for a, b in zip(like, made, strict=True)), "an allocator gives what is aligned"
        targets = made
        run.stopping(lambda: _play(run, player, place, targets))
        return made
    finally:
        player.lock.release()


def _loop(run: GpuRun, part: HostLoop, wanted: dict[Symbol, Make[Held]]) -> bool:
    """Play a loop of a call that is walked, if it is worth a script and has one; what it gives is held then."""
    steps, outs = run.steps(part.trip), part.op.outs
    if steps is None or steps < WORTH:
        return False
    targets = [wanted[v.symbol](run.shape(v)) if v.symbol in wanted else run.allocate(v, run.shape(v)) for v in outs]
    needs, sizes = reads(part), mentioned(part, run.stepped.counted)
    body = PartsBody((part,), tuple(out.symbol for out in outs))
    known = {symbol: size for symbol, size in run.sizes.items() if symbol in sizes}
    player = _player(run, part.op.counter, body, [s for s in run.held if s in needs], known, [held.tensor for held in targets])
    played = not isinstance(player, str) and _played(run, player, targets)
    for out, held in zip(outs, targets, strict=True):
        if played:
            wanted.pop(out.symbol, None)
            run.held[out.symbol] = held
        elif out.symbol in wanted:
            wanted[out.symbol] = partial(_there, held)
    return played


def _there(held: Held, shape: tuple[int, ...]) -> Held:
    return held


def _played(run: GpuRun, player: Player, targets: Sequence[Held]) -> bool:
    """Play a loop, unless another thread does or there is no memory in one piece."""
    if not player.lock.acquire(blocking=False):
        return False
    try:
        block = run.pool.take(player.script.size) if player.script.size else None
        _play(run, player, block.address if block is not None else 0, targets)
    except OutOfDeviceMemory:
        return False
    finally:
        player.lock.release()
    return True


def _player(
    run: GpuRun,
    counter: Symbol | None,
    body: PartsBody,
    needs: Iterable[Symbol],
    sizes: Mapping[Symbol, int],
    like: Sequence[DeviceTensor],
) -> Player | str:
    """What plays the body of a program, or a loop with that counter, in calls like this one; or why nothing does."""
    given = {symbol: run.held[symbol].tensor for symbol in needs}
    numbers = frozenset(run.numbers)
    lies = tuple((symbol, tensor.pointer % ALIGNED, tensor.strides) for symbol, tensor in given.items())
    out = tuple((tensor.pointer % ALIGNED, tensor.strides) for tensor in like)
    key = (run.device, counter, tuple(sizes.items()), numbers, lies, out)

    def make() -> Player | str:
        try:
            script = record(run.stepped, run.cuda, run.device, sizes, given, like, numbers, body)
        except Unrecorded as reason:
            return str(reason)
        except (AxonError, ZeroDivisionError) as error:  # where the walk comes to this it says so
            return str(error)
        return Player(run.cuda, script, run.cuda.context(run.device))

    return run.stepped.player(key, make)


def _play(run: GpuRun, player: Player, place: int, results: Sequence[Held]) -> None:
    """Play a script with memory at that place."""
    script = player.script
    bases = [0] * script.count
    bases[script.own] = place
    bases[script.status] = run.watch.address if run.watch is not None else 0
    for symbol, base in script.given.items():
        bases[base] = _aligned(run.held[symbol])
    for base, held in zip(script.results, results, strict=True):
        bases[base] = _aligned(held)
    player(run, bases, run.stream)
    if player.has_graphs:
        keep(player, run.stream)


def _aligned(held: Held) -> int:
    return held.tensor.pointer - held.tensor.pointer % ALIGNED
