"""Roles: a tile program split into a producer and consumers that meet in arefs.

    aref ring4 (left, right): 2 consumers
    producer:
      for i, j: for k:
        put ring ← left = a[i, k], right = b[j, k]
    consumer × 2 over i:
      for i, j:
        acc = 0
        for k:
          get ring
          start acc += left · right
          retire all but 1
          consumed ring, 1 back
        retire all
        consumed ring, 1 back
        store …

The split is Tawa's: backward slices from the side effects. What a store needs through registers is the consumers'; where the
slice crosses into shared memory it meets the loads, which are the producer's. Loads that stand together and feed the same
statements share one aref. With P products in flight, the piece that product k read is consumed only after product k + P has been
issued and the wait that leaves P in flight has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from axon.backend import tile as t
from axon.backend.render import Names
from axon.backend.schedule import Mapping
from axon.backend.tile import Clear, For, Load, Multiply, Statement, Store, Tile, TileProgram
from axon.names import Symbol, fresh


@dataclass(frozen=True, slots=True)
class Aref:
    """A ring of `depth` stages; each stage holds one of every field, filled together and consumed together."""

    symbol: Symbol
    depth: int
    fields: tuple[Tile, ...]
    consumers: int


@dataclass(frozen=True, slots=True)
class Put:
    """Wait until the stage is empty, then fill its fields."""

    aref: Aref
    loads: tuple[Load, ...]


@dataclass(frozen=True, slots=True)
class Get:
    """Wait until the stage is full, and borrow it."""

    aref: Aref


@dataclass(frozen=True, slots=True)
class Start:
    """Issue a product; it runs on its own until a `Retire` waits for it."""

    product: Multiply


@dataclass(frozen=True, slots=True)
class Retire:
    """Wait until at most `pending` issued products run."""

    accumulator: Tile
    pending: int


@dataclass(frozen=True, slots=True)
class Consumed:
    """Give back the stage borrowed `back` gets before the newest one (0 is the newest), if this loop has made so many."""

    aref: Aref
    back: int


RoleStatement: TypeAlias = "Clear | Store | Put | Get | Start | Retire | Consumed | RoleFor"


@dataclass(frozen=True, slots=True)
class RoleFor:
    axis: t.TileAxis
    body: tuple[RoleStatement, ...]


@dataclass(frozen=True, slots=True)
class RoleProgram:
    """`producer` runs in one thread, `consumer` in each of `mapping.consumers` warpgroups, on its share of the rows of a tile."""

    source: TileProgram
    mapping: Mapping
    arefs: tuple[Aref, ...]
    producer: tuple[RoleStatement, ...]
    consumer: tuple[RoleStatement, ...]


def roles(program: TileProgram, mapping: Mapping) -> RoleProgram:
    """Split a tile program by role. A statement that no store depends on belongs to none, and is dropped."""
    needed = _slice(program.body)
    arefs = {load.tile.symbol: aref for aref, loads in _arefs(program.body, needed, mapping) for load in loads}
    distinct = tuple(dict.fromkeys(arefs.values()))
    return RoleProgram(program, mapping, distinct, _produce(program.body, arefs), _consume(program.body, arefs, needed, mapping))


def _slice(body: tuple[Statement, ...]) -> frozenset[Symbol]:
    """The tiles that some store depends on."""
    everything = list(t.statements(body))
    needed = {s.accumulator.symbol for s in everything if isinstance(s, Store)}
    while True:
        more = {
            tile.symbol
            for s in everything
            if isinstance(s, Multiply) and s.accumulator.symbol in needed
            for tile in (s.left, s.right)
        }
        if more <= needed:
            return frozenset(needed)
        needed |= more


def _arefs(body: tuple[Statement, ...], needed: frozenset[Symbol], mapping: Mapping) -> Iterator[tuple[Aref, tuple[Load, ...]]]:
    users = {
        load.tile.symbol: frozenset(
            i for i, s in enumerate(t.statements(body)) if isinstance(s, Multiply) and load.tile in (s.left, s.right)
        )
        for load in t.statements(body)
        if isinstance(load, Load)
    }
    groups: dict[frozenset[int], list[Load]] = {}
    for statement in body:
        match statement:
            case Load(tile=tile) if tile.symbol in needed:
                groups.setdefault(users[tile.symbol], []).append(statement)
            case For(body=inner):
                yield from _arefs(inner, needed, mapping)
    for loads in groups.values():
        fields = tuple(load.tile for load in loads)
        yield Aref(fresh("ring"), mapping.stages, fields, mapping.consumers), tuple(loads)


def _produce(body: tuple[Statement, ...], arefs: dict[Symbol, Aref]) -> tuple[RoleStatement, ...]:
    out: list[RoleStatement] = []
    loads = [s for s in body if isinstance(s, Load) and s.tile.symbol in arefs]
    for statement in body:
        match statement:
            case Load() if statement in loads:
                aref = arefs[statement.tile.symbol]
                group = tuple(load for load in loads if arefs[load.tile.symbol] == aref)
                if statement == group[0]:
                    out.append(Put(aref, group))
            case For(axis=axis, body=inner):
                within = _produce(inner, arefs)
                if within:
                    out.append(RoleFor(axis, within))
    return tuple(out)


def _consume(
    body: tuple[Statement, ...], arefs: dict[Symbol, Aref], needed: frozenset[Symbol], mapping: Mapping
) -> tuple[RoleStatement, ...]:
    out: list[RoleStatement] = []
    for statement in body:
        match statement:
            case Load():
                pass
            case Clear(tile=tile):
                if tile.symbol in needed:
                    out.append(statement)
            case Store():
                out.append(statement)
            case Multiply(accumulator=acc, left=left, right=right):
                if acc.symbol in needed:
                    used = tuple(dict.fromkeys(arefs[x.symbol] for x in (left, right)))
                    out += [Get(a) for a in used] + [Start(statement), Retire(acc, mapping.in_flight)]
                    out += [Consumed(a, mapping.in_flight) for a in used]
            case For(axis=axis, body=inner):
                within = _consume(inner, arefs, needed, mapping)
                if within:
                    out.append(RoleFor(axis, within))
                    out += _drain(within, mapping.in_flight)
            case _:
                assert_never(statement)
    return tuple(out)


def _drain(body: tuple[RoleStatement, ...], in_flight: int) -> list[RoleStatement]:
    """After a loop: what its last products still hold is retired and given back, oldest first."""
    if in_flight == 0:
        return []
    started = [s.product.accumulator for s in body if isinstance(s, Start)]
    used = dict.fromkeys(s.aref for s in body if isinstance(s, Get))
    retired: list[RoleStatement] = [Retire(acc, 0) for acc in started]
    return retired + [Consumed(aref, back) for back in range(in_flight - 1, -1, -1) for aref in used]


def verify(program: RoleProgram) -> None:
    """Raises AssertionError unless every aref is put once, got once, and every get is given back after what reads it retired."""
    puts = [s for s in _walk(program.producer) if isinstance(s, Put)]
    gets = [s for s in _walk(program.consumer) if isinstance(s, Get)]
    assert [p.aref for p in puts] == [g.aref for g in gets] == list(program.arefs), "an aref is not put and got exactly once"
    for put in puts:
        assert tuple(load.tile for load in put.loads) == put.aref.fields, "a put that does not fill its aref"
    _borrows(program.consumer)


def _borrows(body: tuple[RoleStatement, ...]) -> None:
    running = 0
    borrowed: dict[Symbol, bool] = {}
    for statement in body:
        match statement:
            case Get(aref=aref):
                borrowed[aref.symbol] = True
            case Start(product=product):
                running += 1
                assert borrowed, f"a product of {product.left.symbol} before its get"
            case Retire(pending=pending):
                running = min(running, pending)
            case Consumed(back=back):
                assert running <= back, "a stage is given back while a product may still read it"
            case RoleFor(body=inner):
                _borrows(inner)
            case Clear() | Store() | Put():
                pass
            case _:
                assert_never(statement)


def _walk(body: tuple[RoleStatement, ...]) -> Iterator[RoleStatement]:
    for statement in body:
        yield statement
        if isinstance(statement, RoleFor):
            yield from _walk(statement.body)


def render(program: RoleProgram) -> str:
    """The program as text, deterministic."""
    names = Names()
    source = program.source
    lines = [f"mapping {program.mapping}"]
    grid = ", ".join(f"{names[a.symbol]} {a.step}" for a in source.axes)
    for aref in program.arefs:
        fields = ", ".join(t.tile_text(f, names) for f in aref.fields)
        lines.append(f"aref {names[aref.symbol]} of {aref.depth} ({fields}): {aref.consumers} consumers")
    lines.append(f"producer: for ({grid}):")
    lines += _lines(program.producer, names, "  ")
    lines.append(f"consumer of {program.mapping.consumers} over {names[source.rows.symbol]}: for ({grid}):")
    lines += _lines(program.consumer, names, "  ")
    return "\n".join(lines) + "\n"


def _lines(body: tuple[RoleStatement, ...], names: Names, indent: str) -> list[str]:
    out = []
    for statement in body:
        match statement:
            case Clear() | Store():
                text = t.statement_text(statement, names)
            case Put(aref=aref, loads=loads):
                fills = ", ".join(
                    f"{names[x.tile.symbol]} = {names[x.tensor]}[{', '.join(names[a] for a in x.axes)}]" for x in loads
                )
                text = f"put {names[aref.symbol]} ← {fills}"
            case Get(aref=aref):
                text = f"get {names[aref.symbol]}"
            case Start(product=product):
                text = "start " + t.statement_text(product, names)
            case Retire(pending=pending):
                text = f"retire all but {pending}" if pending else "retire all"
            case Consumed(aref=aref, back=back):
                text = f"consumed {names[aref.symbol]}" + (f", {back} back" if back else "")
            case RoleFor(axis=axis):
                text = f"for {names[axis.symbol]} by {axis.step}:"
            case _:
                assert_never(statement)
        out.append(indent + text)
        if isinstance(statement, RoleFor):
            out += _lines(statement.body, names, indent + "  ")
    return out
