"""Ways to break a barrier program: one operation changed, moved or dropped, one ring's counts changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from axon.backend.gpu.proof.findings import Violation
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram, Op, Ring
from axon.backend.gpu.tile import ir as t

Change = Callable[[Op], tuple[Op, ...]]
Loop = b.Nested


def mutate(program: BarrierProgram, wanted: int, change: Change) -> BarrierProgram:
    """The program with its operation number `wanted`, counted over all roles, changed."""
    count = -1

    def block(body: tuple[Op, ...]) -> tuple[Op, ...]:
        nonlocal count
        out: list[Op] = []
        for op in body:
            count += 1
            here = count == wanted
            if isinstance(op, Loop):
                op = replace(op, body=block(op.body))
            out += change(op) if here else (op,)
        return tuple(out)

    return replace(program, roles=tuple(replace(role, body=block(role.body)) for role in program.roles))


def each_block(program: BarrierProgram, change: Callable[[tuple[Op, ...]], tuple[Op, ...]]) -> BarrierProgram:
    """The program with every sequence of operations changed, inner ones first."""

    def block(body: tuple[Op, ...]) -> tuple[Op, ...]:
        return change(tuple(replace(op, body=block(op.body)) if isinstance(op, Loop) else op for op in body))

    return replace(program, roles=tuple(replace(role, body=block(role.body)) for role in program.roles))


def sites(program: BarrierProgram, kind: type | tuple[type, ...]) -> Iterator[tuple[int, Op]]:
    """The operations of a kind, with their numbers."""
    ops = [op for role in program.roles for op in b.operations(role.body)]
    return ((n, op) for n, op in enumerate(ops) if isinstance(op, kind))


def moves(program: BarrierProgram, moved: type, over: type) -> Iterator[BarrierProgram]:
    """Every program in which one operation `moved` stands before the nearest `over` in front of it, in the same sequence.

    Where both are about a ring, it is the same one.
    """
    for number, op in sites(program, moved):
        marker = b.Tiles((op,))  # nothing else is like it

        def block(body: tuple[Op, ...], op: Op = op, marker: Op = marker) -> tuple[Op, ...]:
            if marker not in body:
                return body
            at = body.index(marker)
            before = [n for n in range(at) if isinstance(body[n], over) and len({ring_of(body[n]), ring_of(op), None}) < 3]
            rest = body[:at] + body[at + 1 :]
            return (*rest[: before[-1]], op, *rest[before[-1] :]) if before else rest

        made = each_block(mutate(program, number, lambda op, marker=marker: (marker,)), block)  # type: ignore[misc]
        if sum(1 for _ in sites(made, moved)) == sum(1 for _ in sites(program, moved)):
            yield made


def ring_of(op: Op) -> Ring | None:
    return getattr(op, "ring", None)


def drop(op: Op) -> tuple[Op, ...]:
    return ()


def twice(op: Op) -> tuple[Op, ...]:
    return (op, op)


def body_of(op: Op) -> tuple[Op, ...]:
    """A loop's body, once."""
    return op.body if isinstance(op, Loop) else ()


def with_field(name: str, change: Callable[[int], int]) -> Change:
    return lambda op: (replace(op, **{name: change(getattr(op, name))}),)


def turned_over(op: Op) -> tuple[Op, ...]:
    """A product that counts its accumulator where it must not, or the other way."""
    assert isinstance(op, b.Product)
    return (replace(op, keep="always" if op.keep == "never" else "never"),)


def of_another_limb(op: Op) -> tuple[Op, ...]:
    """A product of the limb after its right one, of three."""
    assert isinstance(op, b.Product)
    return (replace(op, right=replace(op.right, field=3 + (op.right.field - 2) % 3)),)


def exchanged(op: Op) -> tuple[Op, ...]:
    """A sum that goes into what it should come from."""
    assert isinstance(op, t.Promote)
    return (replace(op, accumulator=op.partial, partial=op.accumulator),)


def with_ring(program: BarrierProgram, old: Ring, new: Ring) -> BarrierProgram:
    """The program with another ring in the place of one, wherever it is mentioned."""

    def changed(thing: Any) -> Any:
        if thing == old:
            return new
        if isinstance(thing, b.StageField):
            return replace(thing, ring=changed(thing.ring))
        if isinstance(thing, tuple):
            return tuple(changed(x) for x in thing)
        if isinstance(thing, Loop | b.Await | b.Expect | b.Copy | b.Advance | b.Release | b.Product):
            return replace(thing, **{f.name: changed(getattr(thing, f.name)) for f in fields(thing)})
        return thing

    roles = tuple(replace(role, body=changed(role.body)) for role in program.roles)
    return replace(program, rings=changed(program.rings), roles=roles)


def elsewhere(op: b.Copy | b.Send, descriptors: tuple[b.Descriptor, ...]) -> Iterator[Op]:
    """The operation with another descriptor or box, and from another place along each dimension in every way."""
    yield from (replace(op, descriptor=other) for other in descriptors if other != op.descriptor)
    for n, extent in enumerate(op.descriptor.box):
        box = (*op.descriptor.box[:n], extent * 2, *op.descriptor.box[n + 1 :])
        yield replace(op, descriptor=replace(op.descriptor, box=box))
    for n, place in enumerate(op.at):
        for name, far in (("step", 64), ("offset", 1), ("offset", 64), ("by_rank", 64), ("by_consumer", 64)):
            moved = replace(place, **{name: getattr(place, name) + far})
            yield replace(op, at=(*op.at[:n], moved, *op.at[n + 1 :]))
    if len(op.at) > 1:
        yield replace(op, at=op.at[::-1])


def refused(program: BarrierProgram, kinds: set[str], what: object) -> None:
    """The proof finds a violation of one of these kinds."""
    answer = verify(program)
    assert isinstance(answer, Violation), f"{what} is accepted"
    assert answer.kind in kinds, f"{what}: {answer}"
