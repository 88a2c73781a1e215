"""A ring in which every device has as much to do, although a mask leaves half of all pairs of blocks out, as a causal one does.

Of rows r and columns c over one axis, the device with the last rows would compute with all blocks of columns, that with the first
with one alone. So each pair is shared by the two devices that have its rows and its columns: the first half of the rows is computed
where the rows are, with the columns that came; the other half where the columns are, with the rows that came, and what they come to
is sent back. In step t the device at c meets that at e = (c + t) % p:

    first half     rows of c, columns of e    as in a ring
    second half    rows of e, columns of c    sent back to e, which joins it to what it has

Of the two pairs (c, e) and (e, c) the mask leaves one out, so in each step a device computes half a pair. What a block comes to by
itself, and how that is joined to what there is, are two parts of the loop's body: the first reads no state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Block, Compute, Const, Index, Loop, Read, Scalar, Select, Value, identity
from axon.core.scalar_facts import mapped, substitute
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
    """Whether a mask is known, all results are of rows, and what a block comes to is apart from how it is joined."""
    rows = all(layout.dimension(way.axis) is not None and not way.goes_round(layout) for layout in way.states)
    ops = [o for o in op.body.ops if isinstance(o, Compute)]
    _, boundary = _apart(ops, [v.symbol for v in op.states])
    reductions = all(o.reduction is not None and o.reduction.monoid.kind in ("sum", "max") for o in boundary)
    return rows and reductions and needed(known, way, op.counter) is not None


def halves(
    op: Loop, known: Blocked, way: Way, values: Mapping[Symbol, Value], versions: Versions, outs: Sequence[Value]
) -> Halves:
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
    lies = [layout.dimension(way.axis) or 0 for layout in way.states]
    begun = [versions[s, way.on_mesh(one)] for s, one in zip(op.initial, way.states, strict=True)]
    initial = [[cut(value, d, part) for value, d in zip(begun, lies, strict=True)] for part in parts]
    states = [[_named(value) for value in some] for some in initial]

    # The second half of what is met: what its rows come to with the columns here.
    turned = {way.grid.coordinate(way.axis): met, op.counter: here}
    blocks, boundary = made.blocks({**visitors, **columns, **common}, turned, parts[1])
    nothing = [_neutral(o) for o in boundary]
    before += nothing
    inside = [_named(o.outs[0]) for o in boundary]
    sums = [_named(value) for value in inside]
    many = made.count(parts[1], turned)
    initials = tuple(o.outs[0].symbol for o in nothing)
    copies = [_slice(o.outs[0], 0, ZERO, o.outs[0].shape[0]) for o in boundary]  # as others read them, apart from what is given
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
    back = [_named(value) for value in sums]
    for value, home in zip(sums, back, strict=True):
        reason = f"what rows of another device come to is sent back to it: `{value.symbol.name}`"
        raw.append(Collective("shift", way.axis, value.symbol, home, left=(-Dim.of(step)) % p, reason=reason, span=op.span))

    # The first half of the rows here, with the columns that came.
    at = {op.counter: met}
    again = [_named(value) for value in states[0]]
    ops, first = made.all({**early, **there, **common}, again, at, parts[0])
    ends = [_named(value) for value in states[0]]
    count = Index(made.count(parts[0], at))
    raw.append(
        Loop(tuple(ends), tuple(v.symbol for v in states[0]), tuple(again), fresh("once"), count, Block(tuple(ops), first),
             stacked=False, span=op.span)
    )  # fmt: skip
    raw.append(Break())  # what was sent back is waited for only now
    joined, second = made.joined({**late, **columns, **common}, states[1], at, parts[1], back)
    raw += joined

    moving = [*columns, *late]
    begin = (*(value.symbol for value in (*columns.values(), *late.values())), *(v.symbol for some in initial for v in some))
    held = (*there.values(), *visitors.values(), *states[0], *states[1])
    given = tuple(_named(value) for value in held)
    becomes = (*(nexts[key].symbol for key in moving), *(v.symbol for v in ends), *second)
    repeat = Repeat(given, begin, held, step, Dim.of(p), (), becomes, False, False, op.span)
    count_of, n = len(states[0]), len(moving)
    after = [
        _together(out, given[n + k], given[n + count_of + k], d, half) for k, (out, d) in enumerate(zip(outs, lies, strict=True))
    ]
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
        lying |= {v.symbol: one.dimension(self.way.axis) or 0 for v, one in zip(states, self.way.states, strict=True)}
        lying |= {o.outs[0].symbol: d for o in ops for d, a in enumerate(o.axes) if a.symbol in self.known.rows}
        return [self._part(o, lying, *part) for o in ops], tuple(symbol for _, symbol in nexts)

    def blocks(
        self, held: Mapping[Key, Value], at: Mapping[Symbol, Dim], part: tuple[Dim, Dim]
    ) -> tuple[list[Compute], list[Compute]]:
        """The operations that read no state; and those of them, one for each state, that make what the others join."""
        shapes = [local_shape(v.shape, one, self.way.grid) for v, one in zip(self.op.states, self.way.states, strict=True)]
        states = [Value(fresh(v.symbol.name), v.element, shape) for v, shape in zip(self.op.states, shapes, strict=True)]
        ops, _ = self.all(held, states, at, part)
        return _apart(ops, [v.symbol for v in states])

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
        own = {a.symbol: fresh(a.symbol.name) for a in all_axes(op) if a.symbol in self.known.rows}
        dims = {old: begin + new for old, new in own.items()}

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
            return Axis(own[a.symbol], extent) if a.symbol in own else a

        made = mapped(op, lambda s: rewrite(substitute(s, dims), here))
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
