"""Collectives over a line of a mesh, on tensors of PyTorch, whatever their element type.

Each is a generator: it yields what begins an operation of `torch.distributed`, is resumed when that is done, and returns the
result. So what does not need the result can run in between, and can be launched before it.

What only moves elements moves bytes, and so takes every element type. What combines them leaves it to the backend where that does
as core says: sums of 32 and 64 bits, extremes of integers. Otherwise, and where a stated order is asked for, a value is cut into as
many pieces as there are processes, each process gets one piece from all, combines it in the order of the ranks, and all get all
pieces back: as many bytes as a ring moves. So a maximum passes NaN on, which backends do not, narrow floats are combined in f32 and
rounded once, and a sum that is asked to be deterministic is ((x0 + x1) + x2) + … on every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from axon.base.data import dataclass

Begin: TypeAlias = "Callable[[], Any]"  # an operation, which gives the work that is under way
Steps: TypeAlias = "Generator[Begin, None, torch.Tensor]"  # operations, then the result

WIDE = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float8_e4m3fn: torch.float32,
        torch.float8_e5m2: torch.float32}  # fmt: skip
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
_PLAIN_SUMS = {torch.float32, torch.float64, torch.int32, torch.int64}
_PLAIN_EXTREMES = {torch.uint8, torch.int8, torch.int32, torch.int64}
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # as older versions call it
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_OPERATIONS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}


@dataclass(frozen=True, slots=True)
class Line:
    """The processes of a mesh that differ along one axis alone, and which of them this is."""

    axis: str
    group: Any
    size: int
    place: int
    deterministic: bool


def all_reduce(line: Line, x: torch.Tensor, monoid: str) -> Steps:
    """The values of all, combined."""
    x, monoid, back = _signed(x, monoid)
    if _by_backend(line, x, monoid):
        total = x.clone(memory_format=torch.contiguous_format)
        yield partial(dist.all_reduce, total, _OPERATIONS[monoid], group=line.group, async_op=True)
        return back(total)
    size = -(-x.numel() // line.size)
    pieces = x.new_zeros(line.size * size)
    pieces[: x.numel()] = x.reshape(-1)
    piece = yield from _combined(line, pieces.view(line.size, size), monoid)
    whole = yield from _gathered(line, piece)
    return back(whole.reshape(-1)[: x.numel()].reshape(x.shape))


def reduce_scatter(line: Line, x: torch.Tensor, monoid: str, dimension: int, block: int) -> Steps:
    """Of the values of all, combined, this one's block of a dimension."""
    x, monoid, back = _signed(x, monoid)
    pieces = _blocks(line, x, dimension, block)
    if _by_backend(line, x, monoid):
        total = torch.empty_like(pieces[0])
        yield partial(_reduce_scatter, total, pieces.flatten(0, 1), _OPERATIONS[monoid], group=line.group, async_op=True)
    else:
        total = yield from _combined(line, pieces, monoid)
    return back(total.movedim(0, dimension))


def all_gather(line: Line, x: torch.Tensor, dimension: int, extent: int) -> Steps:
    """The blocks of all along a dimension, of which only so many elements count."""
    found = yield from _gathered(line, x.movedim(dimension, 0))
    return found.flatten(0, 1)[:extent].movedim(0, dimension)


def all_to_all(line: Line, x: torch.Tensor, dimension: int, extent: int, target: int, block: int) -> Steps:
    """The same, but of the result only this one's block of another dimension, the target."""
    found = yield from _exchanged(line, _blocks(line, x, target, block))  # the blocks' dimension 0 is the target
    parts = [part.movedim(0, target) for part in found]
    return torch.cat(parts, dimension).narrow(dimension, 0, extent)


def halo(line: Line, x: torch.Tensor, dimension: int, extent: int, left: int, right: int, around: bool = False) -> Steps:
    """A block with elements of those before and after it; zeros where there are none, or, around the ends, those at the other."""
    rows = x.movedim(dimension, 0).contiguous()
    n, p = rows.shape[0], line.size
    out = rows.new_zeros((left + n + right, *rows.shape[1:]))
    here = max(0, min(n, extent - line.place * n))
    out[left : left + here] = rows[:here]
    if not (left or right) or not rows[:1].numel():  # which all know alike
        return out.movedim(0, dimension)

    def borders(to: int) -> Iterator[tuple[int, slice, slice]]:
        """Whose elements a block's borders are: these, there, and where they come."""
        for at, end in ((-left, 0), (n, n + right)):
            while at < end:
                owner, first = divmod(to * n + at, n)
                count = min(end - at, n - first)
                if around or 0 <= owner < p:
                    yield owner % p, slice(first, first + count), slice(left + at, left + at + count)
                at += count

    sent = [[rows[own] for owner, own, _ in borders(to) if owner == line.place] for to in range(p)]
    got = [[into for owner, _, into in borders(line.place) if owner == of] for of in range(p)]
    counts = [sum(into.stop - into.start for into in places) for places in got]
    found = yield from _uneven(line, [torch.cat([rows[:0], *pieces]) for pieces in sent], counts)
    for places, piece in zip(got, found, strict=True):
        parts = piece.split([into.stop - into.start for into in places])
        for into, part in zip(places, parts, strict=True):
            known = part.shape[0] if around else max(0, min(part.shape[0], extent - (line.place * n - left + into.start)))
            out[into.start : into.start + known] = part[:known]
    return out.movedim(0, dimension)


def shift(line: Line, x: torch.Tensor, distance: int) -> Steps:
    """What the process so much further along the line has, around its ends."""
    to, of = (line.place - distance) % line.size, (line.place + distance) % line.size
    if to == line.place:
        return x
    out = x.new_empty(x.shape)
    if out.numel():
        here, there = _bytes(x), _bytes(out)
        sent, got = ([len(here) * int(r == other) for r in range(line.size)] for other in (to, of))
        yield partial(dist.all_to_all_single, there, here, got, sent, group=line.group, async_op=True)
    return out


def sliced(line: Line, x: torch.Tensor, dimension: int, block: int) -> torch.Tensor:
    """This one's block of a value that all have."""
    return _blocks(line, x, dimension, block)[line.place].movedim(0, dimension)


# ── what they are made of ───────────────────────────────────────────────────────────────────────────────────────────────


def _by_backend(line: Line, x: torch.Tensor, monoid: str) -> bool:
    if monoid in ("sum", "prod"):
        return x.dtype in _PLAIN_SUMS and not (line.deterministic and x.dtype.is_floating_point)
    return x.dtype in _PLAIN_EXTREMES


def _signed(x: torch.Tensor, monoid: str) -> tuple[torch.Tensor, str, Callable[[torch.Tensor], torch.Tensor]]:
    """A value that PyTorch computes with, the monoid there, and the way back: integers without a sign wrap as those with one do,
    and are ordered alike where the highest bit is turned; booleans are 0 and 1."""
    own = x.dtype
    if own is torch.bool:
        return x.to(torch.uint8), {"any": "max", "all": "min"}.get(monoid, monoid), lambda y: y.to(torch.bool)
    if own not in _SIGNED:
        return x, monoid, lambda y: y
    dtype = _SIGNED[own]
    turn = torch.iinfo(dtype).min if monoid in ("max", "min") else 0
    return x.contiguous().view(dtype) ^ turn, monoid, lambda y: (y ^ turn).contiguous().view(own)


def combined(parts: Sequence[torch.Tensor], monoid: str) -> torch.Tensor:
    """Values combined from the first to the last, narrow floats in f32."""
    own = parts[0].dtype
    total = parts[0].to(WIDE.get(own, own))
    operation = {"sum": torch.add, "prod": torch.mul, "max": torch.maximum, "min": torch.minimum}[monoid]
    for part in parts[1:]:
        total = operation(total, part.to(total.dtype))
    return total.to(own)


def _combined(line: Line, pieces: torch.Tensor, monoid: str) -> Steps:
    """Of pieces, one for each process, this one's, combined over all."""
    found = yield from _exchanged(line, pieces)
    return combined(list(found), monoid)


def _blocks(line: Line, x: torch.Tensor, dimension: int, block: int) -> torch.Tensor:
    """A dimension as [process, element], followed by the others; zeros behind the end."""
    rows = x.movedim(dimension, 0)
    short = line.size * block - rows.shape[0]
    if short > 0:
        rows = torch.cat([rows, rows.new_zeros((short, *rows.shape[1:]))])
    return rows[: line.size * block].contiguous().view(line.size, block, *rows.shape[1:])


def _bytes(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(-1).view(torch.uint8)


def _gathered(line: Line, x: torch.Tensor) -> Steps:
    """[process, …] of all."""
    out = x.new_empty((line.size, *x.shape))
    if out.numel():
        yield partial(_all_gather, _bytes(out), _bytes(x), group=line.group, async_op=True)
    return out


def _exchanged(line: Line, pieces: torch.Tensor) -> Steps:
    """Of [process, …], one piece for each: the pieces that all have for this one."""
    out = torch.empty_like(pieces)
    if out.numel():
        yield partial(dist.all_to_all_single, _bytes(out), _bytes(pieces), group=line.group, async_op=True)
    return out


def _uneven(line: Line, pieces: Sequence[torch.Tensor], counts: Sequence[int]) -> Generator[Begin, None, list[torch.Tensor]]:
    """The same of pieces of several lengths; `counts` are those of what arrives."""
    x = torch.cat(list(pieces))
    out = x.new_empty((sum(counts), *x.shape[1:]))
    row = prod(x.shape[1:]) * x.element_size()
    sent, got = [len(piece) * row for piece in pieces], [count * row for count in counts]
    yield partial(dist.all_to_all_single, _bytes(out), _bytes(x), got, sent, group=line.group, async_op=True)
    return list(out.split(list(counts)))
