"""The barrier program as text: what `axon emit --stage barriers` shows and goldens hold. Deterministic."""

from __future__ import annotations

from typing import assert_never

from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram, Coordinate, Op
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.text import SymbolNames, scalar_text


def render(program: BarrierProgram) -> str:
    """Rings with their counts and bytes, buffers, the order of tiles, then each role's operations."""
    names = SymbolNames()
    order = program.order
    axes = ", ".join(f"{names[a.symbol]} {a.step}" for a in (*order.outer, order.rows, order.columns))
    lines = [f"cluster {program.cluster} over {order.cluster_over} · {program.threads} threads · {program.shared} bytes shared"]
    lines.append(f"tiles ({axes}) in groups of {order.group}" + (", rows in pairs" if order.paired else ""))
    for ring in program.rings:
        head = f"ring {names[ring.symbol]} of {ring.depth} stages of {ring.stage} bytes at {ring.data}, barriers at {ring.barriers}"
        lines.append(f"{head}: full {_arrivals(ring.full)} + {ring.stage} bytes, empty {_arrivals(ring.empty)}")
        for field in ring.fields:
            tile = field.tile
            shape = ", ".join(f"{names[a]} {n}" for a, n in zip(tile.axes, tile.shape, strict=True))
            lines.append(f"  {names[tile.symbol]} : {tile.element.value}[{shape}] at {field.offset}, panels of {field.panel} bytes")
    for buffer in program.buffers:
        size = f"{buffer.slots} slots of {buffer.slot} bytes"
        lines.append(f"buffer {names[buffer.symbol]} at {buffer.offset}: {size} for each consumer")
    folds = [op.stream for role in program.roles for op in b.operations(role.body) if isinstance(op, t.Fold)]
    lines += t.given(program, folds[0] if folds else None, names)
    if program.fenced:
        lines.append("barriers are initialized and published to the cluster")
    for role in program.roles:
        who = "one thread" if role.elected else "128 threads"
        registers = f", {role.registers} registers" if role.registers else ""
        lines.append(f"{role.name} × {role.instances} ({who}{registers}):")
        lines += _block(role.body, names, "  ", program.mapping.apart)
    return "\n".join(lines) + "\n"


def _arrivals(count: int) -> str:
    return f"{count} arrival{'' if count == 1 else 's'}"


def _block(body: tuple[Op, ...], names: SymbolNames, indent: str, apart: bool) -> list[str]:
    out = []
    for op in body:
        out.append(indent + _text(op, names, apart))
        if isinstance(op, b.Nested):
            out += _block(op.body, names, indent + "  ", apart)
    return out


def _text(op: Op, names: SymbolNames, apart: bool) -> str:
    match op:
        case b.Await(ring=ring, side=side, first=first, ahead=ahead):
            return f"wait {names[ring.symbol]}.{side} parity {first}" + _ahead(ahead)
        case b.Look(pages=pages, at=at):
            return f"look up {names[pages.page]} of {_at(at, names)}"
        case b.Expect(ring=ring, bytes=size, ahead=ahead):
            return f"arrive {names[ring.symbol]}.full, expect {size} bytes" + _ahead(ahead)
        case b.Copy():
            to = f"{names[op.ring.symbol]} + {op.offset}" + (f" + {op.by_rank} rank" if op.by_rank else "")
            box = "×".join(map(str, op.descriptor.box))
            where = " of every block" if op.multicast else ""
            source = f"{names[op.descriptor.tensor]}[{_at(op.at, names)}] box {box}" + (" as tf32" if op.descriptor.rounds else "")
            return f"copy {source} → {to}{where} ({op.bytes} bytes)" + _ahead(op.ahead)
        case b.Advance(ring=ring):
            return f"advance {names[ring.symbol]}"
        case b.Release(ring=ring, back=back, cluster=cluster):
            where = " of every block" if cluster else ""
            return f"arrive {names[ring.symbol]}.empty{where}" + (f", {back} back" if back else "")
        case b.Clear(accumulator=acc):
            return f"{names[acc.symbol]} = 0"
        case b.Evaluate(computed=computed, tile=tile, staged=staged):
            for one, part in zip(computed.staged, staged, strict=True):
                names.same(one.local, part.tile.symbol)
            return f"{names[tile.symbol]} = {scalar_text(computed.expression, names)}"
        case b.ProductFence():
            return "fence products"
        case b.Product():
            left, right = (names[(x.tile if isinstance(x, b.StageField) else x).symbol] for x in (op.left, op.right))
            sign = "=" if op.keep == "never" else "+="
            return f"{names[op.accumulator.symbol]}.{op.block} {sign} {left} · {right} over {names[op.over]}"
        case b.Commit():
            return "commit products"
        case b.Retire(pending=pending):
            return f"retire all but {pending}" if pending else "retire all"
        case t.Fold(scores=scores, weights=weights, others=others):
            return f"{names[weights.symbol]} = fold {', '.join(names[s.symbol] for s in (scores, *others))}"
        case t.Narrow(source=source, targets=targets):
            made = ", ".join(names[target.symbol] for target in targets)
            how = f"cast {targets[0].element.value}" if len(targets) == 1 else f"{len(targets)} {targets[0].element.value} of"
            return f"{made} = {how} {names[source.symbol]}"
        case t.Settle() | t.ReadScales() | t.Promote() | t.Reset() | t.Rescale() | t.Hold() | t.Finish() | t.StoreRows():
            return t.statement_text(op, names)
        case b.Turn(first=first, threads=threads):
            return f"turn: {threads} threads at {first} + consumer"
        case b.PassTurn(first=first, threads=threads, only=only):
            who = "" if only is None else f"consumer {only} alone: "
            return f"{who}pass the turn: {threads} threads at {first} + the next consumer"
        case b.LastTurn(first=first, threads=threads):
            if apart:
                return f"the consumer of the next tile alone: turn: {threads} threads at {first} + consumer"
            return f"consumer 0 alone: turn: {threads} threads at {first}"
        case b.Reclaim(buffer=buffer, pending=pending):
            return f"reclaim {names[buffer.symbol]}, all but {pending} stores"
        case b.Meet(barrier=barrier, threads=threads):
            return f"meet {threads} threads at {barrier} + consumer"
        case b.Write():
            columns = f"{op.column} to {op.column + op.width}"
            value = t.stored_text(op.store, names)
            return f"{names[op.buffer.symbol]}.{op.slot} = {op.store.element.value} rows {op.block}, columns {columns}: {value}"
        case b.AsyncFence():
            return "fence writes for copies"
        case b.Send():
            return f"store {names[op.buffer.symbol]}.{op.slot} → {names[op.descriptor.tensor]}[{_at(op.at, names)}]"
        case b.Scatter():
            columns = f"{op.column} to {op.column + op.width}"
            by = f" by rows through {names[op.buffer.symbol]}" if op.buffer else ""
            return f"scatter {names[op.store.tensor]} rows {op.block}, columns {columns}{by}: {t.stored_text(op.store, names)}"
        case b.Drain():
            return "drain stores"
        case b.Depart():
            return "depart together"
        case b.Tiles():
            return "for each tile:"
        case b.Last(axis=axis):
            return f"{names[axis.symbol]} = the last piece"
        case b.Steps(axis=axis, backwards=backwards, peeled=peeled):
            which = " for the pieces before" if peeled else " from the last" if backwards else ""
            return f"for {names[axis.symbol]} by {axis.step}{which}:"
        case b.IfOwn(own=own):
            return "if the tile is its own:" if own else "if the tile is another consumer's:"
        case b.AfterSteps(axis=axis, count=count):
            return f"if {count} steps of {names[axis.symbol]} are complete:"
        case b.IfPiece(axis=axis, number=number, current=current):
            return f"if {names[axis.symbol]} has a piece {number} " + ("after this one:" if current else "after the first:")
        case b.Alone():
            return "the first thread alone:"
        case _:
            assert_never(op)


def _ahead(ahead: int) -> str:
    return f", {ahead} ahead" if ahead else ""


def _at(at: tuple[Coordinate, ...], names: SymbolNames) -> str:
    return ", ".join(_coordinate(c, names) for c in at)


def _coordinate(c: Coordinate, names: SymbolNames) -> str:
    if c.step == 0:
        return str(c.offset)
    text = f"{c.step} {names[c.axis]}" if c.step != 1 else names[c.axis]
    text += f" + {c.by_rank} rank" if c.by_rank else ""
    text += f" + {c.by_consumer} consumer" if c.by_consumer else ""
    return text + (f" + {c.offset}" if c.offset else "")
