"""A ring in which every device has as much to do, although a mask leaves half of all pairs of blocks out, as a causal one does.

Of rows r and columns c over one axis, the device with the last rows would compute with all blocks of columns, that with the first
with one alone. So each pair is shared by the two devices that have its rows and its columns: the first half of the rows is computed
where the rows are, with the columns that came; the other half where the columns are, with the rows that came, and what they come to
is sent back. In step t the device at c meets that at e = (c + t) % p:

    first half     rows of c, columns of e    as in a ring
    second half    rows of e, columns of c    sent back to e, which joins it to what it has

Of the two pairs (c, e) and (e, c) the mask leaves one out, so in each step a device computes half a pair. What a block comes to by
itself, and how that is joined to what there is, are two parts of the loop's body: the first reads no state.

What is summed for columns, as in backward passes, stays where these are: it gets what the second half comes to at once, and what
the first half of the rows of c comes to is sent to e.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Block, Compute, Const, Index, Loop, Read, Scalar, Select, Value, identity
from axon.core.scalar_facts import freshened, mapped, substitute
from axon.core.sharding.access import ZERO
from axon.core.sharding.blocked import Blocked, reads_of
from axon.core.sharding.ir import Collective, Layout, Repeat
from axon.core.sharding.layouts import local_shape
from axon.core.sharding.local import Held
from axon.core.sharding.ring import Break, Versions, Way, loop_body, needed
from axon.core.walk import all_axes, rewrite
from axon.shapes.dimension import Dim

Item: TypeAlias = "Compute | Loop | Collective | Break"
Key: TypeAlias = "tuple[Symbol, Layout]"


@dataclass(frozen=True, slots=True)
class Halves:
    """Items before the loop, the loop with the items of its body, and those after it."""

    before: tuple[Compute, ...]
    repeat: Repeat
    raw: tuple[Item, ...]
    after: tuple[Compute, ...]


def may_share(op: Loop, known: Blocked, way: Way) -> bool:
    """Whether a mask is known, all results are of rows or of columns, and what a block comes to is apart from how it is joined."""
    rows = all(layout.dimension(way.axis) is not None or way.goes_round(layout) for layout in way.states)
    ops = [o for o in op.body.ops if isinstance(o, Compute)]
    _, boundary = _apart(ops, [v.symbol for v in op.states])
    reductions = all(o.reduction is not None and o.reduction.monoid.kind in ("sum", "max") for o in boundary)
    return rows and reductions and needed(known, way, op.counter) is not None


def halves(op: Loop, known: Blocked, way: Way, values: Mapping[Symbol, Value], versions: Versions, outs: Sequence[Value]) -> Halves:
    """The loop as one in whose steps devices share pairs of blocks. As `ring`."""
    grid, p, here, step = way.grid, way.grid.devices(way.axis), Dim.of(way.grid.coordinate(way.axis)), fresh("step")
    block = grid.block(known.extents[0], way.axis)
    assert block is not None
    half = block // 2
    parts = ((ZERO, half), (half, block - half))
    met = (here + step) % p  # the device that this one meets
    made = _Made(op, known, way, values, versions)
    columns, rows, common = made.outside()
    before: list[Compute] = []

    def cut(value: Value, d: int, part: tuple[Dim, Dim]) -> Value:
        before.append(_slice(value, d, *part))
        return before[-1].outs[0]

    late = {key: cut(value, d, parts[1]) for key, (value, d) in rows.items()}
    early = {key: cut(value, d, parts[0]) for key, (value, d) in rows.items()}
    there = {key: _named(value) for key, value in columns.items()}  # of the device that is met
    visitors = {key: _named(value) for key, value in late.items()}
    of_rows = [k for k, layout in enumerate(way.states) if not way.goes_round(layout)]
    of_columns = [k for k, layout in enumerate(way.states) if way.goes_round(layout)]
    lies = [way.states[k].dimension(way.axis) or 0 for k in of_rows]
    begun = [versions[s, way.on_mesh(one)] for s, one in zip(op.initial, way.states, strict=True)]
    initial = [[cut(begun[k], d, part) for k, d in zip(of_rows, lies, strict=True)] for part in parts]
    states = [[_named(value) for value in some] for some in initial]
    home = [_named(begun[k]) for k in of_columns]

    def states_with(rows: Sequence[Value], columns: Sequence[Value]) -> list[Value]:
        by = {**dict(zip(of_rows, rows, strict=True)), **dict(zip(of_columns, columns, strict=True))}
        return [by[k] for k in range(len(way.states))]

    # The second half of what is met: what its rows come to with the columns here.
    turned = {way.grid.coordinate(way.axis): met, op.counter: here}
    blocks, boundary, joins = made.blocks({**visitors, **columns, **common}, turned, parts[1])
    rowwise = [n for n, o in enumerate(boundary) if any(o.outs[0].symbol in joins[k] for k in of_rows)]
    columnwise = [n for n, o in enumerate(boundary) if any(o.outs[0].symbol in joins[k] for k in of_columns)]
    nothing = [_neutral(o) for o in boundary]
    before += nothing
    inside = [_named(o.outs[0]) for o in boundary]
    sums = [_named(value) for value in inside]
    many = made.count(parts[1], turned)
    initials = tuple(o.outs[0].symbol for o in nothing)
    copies = [_copy(o.outs[0]) for o in boundary]  # as others read them, apart from what is given
    body = Block((*blocks, *copies), tuple(o.outs[0].symbol for o in copies))
    raw: list[Item] = []
    nexts: dict[object, Value] = {}
    onwards = (Dim.of(step) + 1) % p
    why = f"blocks of `{{}}` go round the {p} devices of {way.axis}; two that meet share the pairs of theirs"
    for key, value in (*columns.items(), *late.items()):
        nexts[key] = _named(value)
        reason = why.format(key[0].name)
        raw.append(Collective("shift", way.axis, value.symbol, nexts[key], left=onwards, reason=reason, span=op.span))
    raw.append(Loop(tuple(sums), initials, tuple(inside), fresh("once"), Index(many), body, stacked=False, span=op.span))

    def sent_back(value: Value, what: str) -> Value:
        gone = _named(value)
        reason = f"what {what} of another device come to is sent back to it: `{value.symbol.name}`"
        raw.append(Collective("shift", way.axis, value.symbol, gone, left=(-Dim.of(step)) % p, reason=reason, span=op.span))
        return gone

    back = list(sums)
    for n in rowwise:
        back[n] = sent_back(sums[n], "rows")

    # The first half of the rows here, with the columns that came.
    at = {op.counter: met}
    again = [_named(value) for value in states[0]]
    aside = [_named(value) for value in home]
    ops, first = made.all({**early, **there, **common}, states_with(again, aside), at, parts[0])
    known_parts = _apart(ops, [v.symbol for v in states_with(again, aside)])[1]
    given_parts = [known_parts[n].outs[0] for n in columnwise]
    inner = [_named(value) for value in given_parts]
    empty = [_neutral(known_parts[n]) for n in columnwise]
    before += empty
    extra = [_copy(value) for value in given_parts]
    ends, parts_there = [_named(value) for value in states[0]], [_named(value) for value in given_parts]
    inner_ops = _needed(ops, [*(first[k] for k in of_rows), *(value.symbol for value in given_parts)])
    becoming = (*(first[k] for k in of_rows), *(o.outs[0].symbol for o in extra))
    raw.append(
        Loop(
            (*ends, *parts_there),
            (*(v.symbol for v in states[0]), *(o.outs[0].symbol for o in empty)),
            (*again, *inner),
            fresh("once"),
            Index(made.count(parts[0], at)),
            Block((*inner_ops, *extra), becoming),
            stacked=False,
            span=op.span,
        )
    )
    came = list(sums)
    for n, value in zip(columnwise, parts_there, strict=True):
        came[n] = sent_back(value, "columns")
    raw.append(Break())  # what was sent back is waited for only now
    held_here = {**late, **columns, **common}
    joined, second = made.joined(held_here, states_with(states[1], home), at, parts[1], back)
    raw += _needed(joined, [second[k] for k in of_rows])
    now = home
    for found in (sums, came) if of_columns else ():
        joined, ended = made.joined(held_here, states_with(states[1], now), {op.counter: here}, parts[1], found)
        wanted = [ended[k] for k in of_columns]
        raw += _needed(joined, wanted)
        now = [replace(value, symbol=symbol) for value, symbol in zip(now, wanted, strict=True)]

    moving = [*columns, *late]
    begin = (*(value.symbol for value in (*columns.values(), *late.values())), *(v.symbol for some in initial for v in some))
    begin = (*begin, *(begun[k].symbol for k in of_columns))
    held = (*there.values(), *visitors.values(), *states[0], *states[1], *home)
    given = (*(_named(value) for value in held[: len(held) - len(home)]), *(outs[k] for k in of_columns))
    rows_then = (*(v.symbol for v in ends), *(second[k] for k in of_rows))
    becomes = (*(nexts[key].symbol for key in moving), *rows_then, *(v.symbol for v in now))
    repeat = Repeat(given, begin, held, step, Dim.of(p), (), becomes, False, False, op.span)
    count_of, n = len(of_rows), len(moving)
    after = [_together(outs[k], given[n + m], given[n + count_of + m], lies[m], half) for m, k in enumerate(of_rows)]
    return Halves(tuple(before), repeat, tuple(raw), tuple(after))


class _Made:
    """The body's operations over a part of a block of rows and a block of columns."""

    def __init__(self, op: Loop, known: Blocked, way: Way, values: Mapping[Symbol, Value], versions: Versions) -> None:
        self.op, self.known, self.way, self.values, self.versions = op, known, way, values, versions

    def outside(self) -> tuple[dict[Key, Value], dict[Key, tuple[Value, int]], dict[Key, Value]]:
        """What is read from before the loop: by columns, by rows with the dimension of these, and otherwise."""
        columns, rows, common = dict[Key, Value](), dict[Key, tuple[Value, int]](), dict[Key, Value]()
        for symbol, layout in self.way.outside(self.op):
            value = self.versions[symbol, self.way.on_mesh(layout)]
            d = layout.dimension(self.way.axis)
            if self.way.goes_round(layout):
                columns[symbol, layout] = value
            elif d is not None:
                rows[symbol, layout] = value, d
            else:
                common[symbol, layout] = value
        return columns, rows, common

    def count(self, part: tuple[Dim, Dim], at: Mapping[Symbol, Dim]) -> Dim:
        """1 where a part of the rows looks at the columns, else 0."""
        found = needed(self.known, self.way, self.op.counter, *part)
        return Dim.of(1) if found is None else found.substitute(at)

    def all(
        self, held: Mapping[Key, Value], states: Sequence[Value], at: Mapping[Symbol, Dim], part: tuple[Dim, Dim]
    ) -> tuple[list[Compute], tuple[Symbol, ...]]:
        """Every operation, and what the states become."""
        there = {key: Held(self.values[key[0]], key[1], value) for key, value in held.items()}
        ops, nexts = loop_body(self.op, self.way, there, self.values, states, at)
        lying = {value.symbol: d for (_, layout), value in held.items() if (d := layout.dimension(self.way.axis)) is not None}
        lies = ((v.symbol, one.dimension(self.way.axis)) for v, one in zip(states, self.way.states, strict=True))
        lying |= {symbol: d for symbol, d in lies if d is not None}
        lying |= {o.outs[0].symbol: d for o in ops for d, a in enumerate(o.axes) if a.symbol in self.known.rows}
        return [self._part(o, lying, *part) for o in ops], tuple(symbol for _, symbol in nexts)

    def blocks(
        self, held: Mapping[Key, Value], at: Mapping[Symbol, Dim], part: tuple[Dim, Dim]
    ) -> tuple[list[Compute], list[Compute], list[frozenset[Symbol]]]:
        """The operations that read no state; those of them that make what the others join; and for each state what it takes."""
        shapes = [local_shape(v.shape, one, self.way.grid) for v, one in zip(self.op.states, self.way.states, strict=True)]
        states = [Value(fresh(v.symbol.name), v.element, shape) for v, shape in zip(self.op.states, shapes, strict=True)]
        ops, nexts = self.all(held, states, at, part)
        blocks, boundary = _apart(ops, [v.symbol for v in states])
        own = {o.outs[0].symbol for o in blocks}
        joins = [o for o in ops if o.outs[0].symbol not in own]
        taken = [frozenset(r.tensor for o in _needed(joins, [symbol]) for r in reads_of(o)) for symbol in nexts]
        return blocks, boundary, taken

    def joined(
        self,
        held: Mapping[Key, Value],
        states: Sequence[Value],
        at: Mapping[Symbol, Dim],
        part: tuple[Dim, Dim],
        found: Sequence[Value],
    ) -> tuple[list[Compute], tuple[Symbol, ...]]:
        """The operations that join what a block came to; and what the states become."""
        ops, nexts = self.all(held, states, at, part)
        blocks, boundary = _apart(ops, [v.symbol for v in states])
        own = {o.outs[0].symbol for o in blocks}
        instead = {o.outs[0].symbol: value.symbol for o, value in zip(boundary, found, strict=True)}

        def there(node: Scalar) -> Scalar | None:
            known = isinstance(node, Read) and node.tensor in instead
            return replace(node, tensor=instead[node.tensor]) if known and isinstance(node, Read) else None

        rest = [mapped(o, lambda s: rewrite(s, there)) for o in ops if o.outs[0].symbol not in own]
        return [o for o in rest if isinstance(o, Compute)], nexts

    def _part(self, op: Compute, lying: Mapping[Symbol, int], begin: Dim, extent: Dim) -> Compute:
        """An operation of a block's rows, of those from `begin` on. Of tensors that have these alone, `lying` is the dimension."""
        own = {a.symbol: fresh(a.symbol.name) for a in all_axes(op)}
        dims = {old: begin + new if old in self.known.rows else Dim.of(new) for old, new in own.items()}

        def here(node: Scalar) -> Scalar | None:
            if not isinstance(node, Read) or node.tensor not in lying:
                return None
            subscripts = [s if isinstance(s, Dim) else rewrite(s, here) for s in node.subscripts]
            at = subscripts[lying[node.tensor]]
            assert isinstance(at, Dim), "rows are read at an index"
            subscripts[lying[node.tensor]] = at - begin
            padding = None if node.padding is None else rewrite(node.padding, here)
            return replace(node, subscripts=tuple(subscripts), padding=padding)

        def axis(a: Axis) -> Axis:
            return Axis(own[a.symbol], extent if a.symbol in self.known.rows else a.extent.substitute(dims))

        made = mapped(op, lambda s: freshened(rewrite(substitute(s, dims), here)))
        assert isinstance(made, Compute)
        out, axes = op.outs[0], tuple(map(axis, op.axes))
        if made.reduction is not None:
            made = replace(made, reduction=replace(made.reduction, axes=tuple(map(axis, made.reduction.axes))))
        return replace(made, outs=(Value(out.symbol, out.element, tuple(a.extent for a in axes)),), axes=axes)


# ── what they are made of ───────────────────────────────────────────────────────────────────────────────────────────────


def _apart(ops: Sequence[Compute], states: Sequence[Symbol]) -> tuple[list[Compute], list[Compute]]:
    """The operations that read no state, also through others; and those of them that the rest reads."""
    joins: set[Symbol] = {*states}
    blocks, read = list[Compute](), set[Symbol]()
    for op in ops:
        mine = {r.tensor for r in reads_of(op)}
        if mine.isdisjoint(joins):
            blocks.append(op)
        else:
            joins.add(op.outs[0].symbol)
            read |= mine
    return blocks, [op for op in blocks if op.outs[0].symbol in read]


def _needed(ops: Sequence[Compute], wanted: Sequence[Symbol]) -> list[Compute]:
    """Those of some operations that make values, and what these are made of."""
    names, found = set(wanted), list[Compute]()
    for op in reversed(ops):
        if op.outs[0].symbol in names:
            found.append(op)
            names |= {r.tensor for r in reads_of(op)}
    return found[::-1]


def _copy(value: Value) -> Compute:
    axes = _axes(value)
    read = Read(value.symbol, tuple(Dim.of(a.symbol) for a in axes), value.element)
    return Compute((_named(value),), axes, None, (read,))


def _named(value: Value) -> Value:
    return replace(value, symbol=fresh(value.symbol.name))


def _axes(value: Value) -> tuple[Axis, ...]:
    return tuple(Axis(fresh("i"), extent) for extent in value.shape)


def _slice(value: Value, d: int, begin: Dim, extent: Dim) -> Compute:
    """The elements from `begin` on, along a dimension."""
    out = replace(_named(value), shape=(*value.shape[:d], extent, *value.shape[d + 1 :]))
    axes = _axes(out)
    at = [Dim.of(a.symbol) for a in axes]
    at[d] = begin + at[d]
    return Compute((out,), axes, None, (Read(value.symbol, tuple(at), value.element),))


def _neutral(op: Compute) -> Compute:
    """What a reduction gives of nothing, everywhere."""
    assert op.reduction is not None
    out = _named(op.outs[0])
    number = Const(float(identity(op.reduction.monoid.kind, out.element)), out.element)
    return Compute((out,), _axes(out), None, (number,))


def _together(out: Value, first: Value, second: Value, d: int, begin: Dim) -> Compute:
    """Two parts one after the other along a dimension."""
    axes = _axes(out)
    at = [Dim.of(a.symbol) for a in axes]
    later = [*at[:d], at[d] - begin, *at[d + 1 :]]
    asked = Binary("lt", Index(at[d]), Index(begin))
    one, other = Read(first.symbol, tuple(at), out.element), Read(second.symbol, tuple(later), out.element)
    return Compute((out,), axes, None, (Select(asked, one, other),))
