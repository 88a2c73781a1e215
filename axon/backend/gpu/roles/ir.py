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

A mapping that is not specialized leaves the two together: the consumers' first thread puts the piece D - 1 - P steps ahead, and in
front of the loop those that the first steps get.

Note [Turns]
    Consumers of one tile of a stream take turns at each step: one multiplies while another computes weights. Consumers of a
    contraction in turn have tiles of their own: the block's tiles are the first consumer's, the second's, …, the first's again.
    They take turns at each tile: one has its whole loop while another retires its last products, computes its results and stores
    them. The producer fills one ring with all tiles, so that each stage is got and given back by one consumer; the barrier program
    says that the others pass it by. The turn is passed as soon as the loop has issued its last products. It also says that all
    stages of the tiles before have been seen full, without which a wait for a parity could pass a round early.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, takewhile
from typing import TypeAlias, assert_never

from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.ir import Clear, Evaluate, For, Load, Multiply, Statement, Store, Tile, TileProgram
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.text import SymbolNames
from axon.base.data import dataclass
from axon.base.names import Symbol, fresh
from axon.base.passes import require, verified


@dataclass(frozen=True, slots=True)
class Aref:
    """A ring of `depth` stages; each stage holds one of every field, filled together and consumed together."""

    symbol: Symbol
    depth: int
    fields: tuple[Tile, ...]
    consumers: int


@dataclass(frozen=True, slots=True)
class Put:
    """Wait until the stage is empty, then fill its fields: with this piece of the loop's axis, or the one before it.

    In a consumer one thread does so, for the piece that comes so many steps `ahead`; in front of the loop, after the first.
    """

    aref: Aref
    loads: tuple[Load, ...]
    before: bool = False
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Get:
    """Wait until the stage is full, and borrow it."""

    aref: Aref


@dataclass(frozen=True, slots=True)
class Start:
    """Issue products, one after the other, as one; they run on their own until a `Retire` waits for them."""

    products: tuple[Multiply, ...]


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


@dataclass(frozen=True, slots=True)
class Turn:
    """Wait until this consumer may issue its products: consumers do so one after the other, in a circle. See Note [Turns]."""


@dataclass(frozen=True, slots=True)
class PassTurn:
    """Let the next consumer issue its products."""


@dataclass(frozen=True, slots=True)
class Last:
    """Begin a peeled loop: what follows is about the last piece of an axis."""

    axis: t.TileAxis


RoleStatement: TypeAlias = (
    "Clear | Evaluate | t.Work | Store | Put | Get | Start | Retire | Consumed | Turn | PassTurn | Last | RoleFor"
)


@dataclass(frozen=True, slots=True)
class RoleFor:
    """Once for each piece; `backwards` from the last; `peeled`: the first of them was made before the loop."""

    axis: t.TileAxis
    body: tuple[RoleStatement, ...]
    backwards: bool = False
    peeled: bool = False


@dataclass(frozen=True, slots=True)
class RoleProgram:
    """`producer` runs in one thread, `consumer` in each of `mapping.consumers` warpgroups, on its share of the rows of a tile, or
    for each of its own tiles.

    If the mapping is not specialized, there is no producer.
    """

    source: TileProgram
    mapping: TileMapping
    arefs: tuple[Aref, ...]
    producer: tuple[RoleStatement, ...]
    consumer: tuple[RoleStatement, ...]


@verified("roles", lambda made, *_: verify(made), takes="tiles", gives="roles")
def roles(program: TileProgram, mapping: TileMapping) -> RoleProgram:
    """Split a tile program by role. A statement that no store depends on belongs to none, and is dropped."""
    return _Split(program, mapping).run()


class _Split:
    def __init__(self, program: TileProgram, mapping: TileMapping) -> None:
        self.program, self.mapping = program, mapping
        self.needed = _slice(program.body)
        self.loops: dict[Symbol, bool] = {}  # whether an aref is put inside a loop
        self.arefs: dict[Symbol, Aref] = {}  # by the tile loaded
        self.groups: dict[Aref, tuple[Load, ...]] = {}
        self.find(program.body, inside=False)

    def run(self) -> RoleProgram:
        body = self.program.body
        producer = self.produce(body) if self.mapping.specialized else ()
        return RoleProgram(self.program, self.mapping, tuple(self.groups), producer, self.consume(body))

    def find(self, body: tuple[Statement, ...], *, inside: bool) -> None:
        """Loads that stand together and feed the same sums, or such as others of them feed, share one aref; outside loops its ring
        has one stage."""
        everything = list(t.statements(self.program.body))
        products = [s for s in everything if isinstance(s, Multiply)]
        of_staged = {tile: s.tile for s in everything if isinstance(s, Evaluate) for tile in s.staged}
        groups: list[tuple[set[Symbol], list[Load]]] = []
        for statement in body:
            match statement:
                case Load(tile=tile) if tile.symbol in self.needed:
                    factor = of_staged.get(tile, tile)
                    sums = {s.accumulator.symbol for s in products if factor in (s.left, s.right)}
                    near = [group for group in groups if not group[0].isdisjoint(sums)]
                    groups = [group for group in groups if group not in near]
                    loads = [load for _, beside in near for load in beside]
                    groups.append((sums.union(*(fed for fed, _ in near)), [*loads, statement]))
        for _, loads in groups:
            depth = self.mapping.stages if inside else 1
            name = f"{loads[0].tile.symbol.name}_ring" if len(loads) == 1 else "ring"
            aref = Aref(fresh(name), depth, tuple(load.tile for load in loads), self.mapping.sharing)
            self.groups[aref] = tuple(loads)
            self.arefs |= {load.tile.symbol: aref for load in loads}
            self.loops[aref.symbol] = inside
        for statement in body:
            if isinstance(statement, For):
                self.find(statement.body, inside=True)

    def used(self, reader: Multiply | Evaluate) -> list[Aref]:
        """The arefs that a product, or what computes a factor, reads."""
        both = reader.staged if isinstance(reader, Evaluate) else (reader.left, reader.right)
        tiles = (x for x in both if x.memory == "shared")
        return list(dict.fromkeys(self.arefs[x.symbol] for x in tiles))

    # ── the producer ────────────────────────────────────────────────────────────────────────────────────────────────────

    def produce(self, body: tuple[Statement, ...]) -> tuple[RoleStatement, ...]:
        out: list[RoleStatement] = []
        for statement in body:
            match statement:
                case Load(tile=tile) if tile.symbol in self.arefs:
                    aref = self.arefs[tile.symbol]
                    if statement == self.groups[aref][0]:
                        out.append(Put(aref, self.groups[aref]))
                case For(axis=axis, body=inner, backwards=backwards):
                    puts = self.produce(inner)
                    late = self.late(inner)
                    if late is not None:  # the consumers' order, see `overlapped`
                        after = set(self.used(late))
                        early = tuple(p for p in puts if isinstance(p, Put) and p.aref not in after)
                        behind = tuple(p for p in puts if isinstance(p, Put) and p.aref in after)
                        loop = (*early, *(Put(p.aref, p.loads, before=True) for p in behind))
                        out += [Last(axis), *early, RoleFor(axis, loop, backwards, peeled=True), *behind]
                    elif puts:
                        out.append(RoleFor(axis, puts, backwards))
        return tuple(out)

    # ── the consumers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def consume(self, body: tuple[Statement, ...]) -> tuple[RoleStatement, ...]:
        out: list[RoleStatement] = []
        held: list[Aref] = []  # got outside a loop, read inside
        issued: tuple[Multiply, ...] = ()
        for statement in body:
            match statement:
                case Load(tile=tile):
                    aref = self.arefs.get(tile.symbol)
                    if aref is not None and not self.loops[aref.symbol] and aref not in held:
                        held.append(aref)
                        out.append(Get(aref))
                case Clear(tile=tile):
                    if tile.symbol in self.needed:
                        out.append(statement)
                case (
                    Store()
                    | t.Settle()
                    | t.ReadScales()
                    | t.Promote()
                    | t.Reset()
                    | t.Fold()
                    | t.Narrow()
                    | t.Rescale()
                    | t.Hold()
                    | t.Finish()
                    | t.StoreRows()
                ):
                    out.append(statement)
                case Evaluate():
                    raise AssertionError("a factor is computed outside the steps of a loop")
                case Multiply(accumulator=acc):
                    if acc.symbol in self.needed and statement not in issued:
                        issued = self.beside(statement, body)
                        out += self.multiply(issued)
                case For(axis=axis, body=inner, backwards=backwards):
                    late = self.late(inner)
                    if late is not None:
                        out += self.overlapped(axis, inner, late, held)
                        held = []
                        continue
                    own = self.promoted if _promotes(inner) else self.evaluated if _evaluates(inner) else self.consume
                    within = own(inner)
                    if not self.mapping.specialized:
                        first, within = self.ahead(within)
                        out += first
                    if within:
                        loop = RoleFor(axis, within, backwards)
                        out += [Turn(), loop, PassTurn()] if self.mapping.apart else [loop]
                        out += _drain(within, self.flying(inner))
                        out += [Consumed(aref, 0) for aref in held]
                        held = []
                case _:
                    assert_never(statement)
        return tuple(out)

    def ahead(self, body: tuple[RoleStatement, ...]) -> tuple[list[RoleStatement], tuple[RoleStatement, ...]]:
        """What a loop's body gets, put by itself: what stands in front of the loop, and the body with its puts.

        A step puts while its own product runs, into the stage that the step before has given back.
        """
        steps = self.mapping.stages - 1 - self.mapping.in_flight
        arefs = [s.aref for s in body if isinstance(s, Get)]
        first: list[RoleStatement] = [Put(a, self.groups[a], ahead=n) for n in range(steps) for a in arefs]
        at = 1 + max(n for n, s in enumerate(body) if isinstance(s, Start))
        return first, (*body[:at], *(Put(a, self.groups[a], ahead=steps) for a in arefs), *body[at:])

    def flying(self, body: tuple[Statement, ...]) -> int:
        """How many products of a loop may run when its step is over: none if the step itself needs their result."""
        own = any(isinstance(s, t.Fold) for s in body) or _promotes(body) or _evaluates(body)
        return 0 if own else self.mapping.in_flight

    def evaluated(self, body: tuple[Statement, ...]) -> tuple[RoleStatement, ...]:
        """A step whose products take a factor that is computed for it: they are issued as one, and waited for."""
        arefs = list(dict.fromkeys(a for s in body if isinstance(s, Multiply | Evaluate) for a in self.used(s)))
        products = tuple(s for s in body if isinstance(s, Multiply))
        made = (s for s in body if isinstance(s, Evaluate))
        retired = Retire(products[-1].accumulator, 0)
        return (*map(Get, arefs), *made, *self.start(products), retired, *(Consumed(aref, 0) for aref in arefs))

    def promoted(self, body: tuple[Statement, ...]) -> tuple[RoleStatement, ...]:
        """A step whose products go to sums of its own: each run of them is issued as one, and waited for. A stage goes back when
        the last run that reads it is done, before the sum is promoted. In turn are sums of what stages hold, each as a whole: while
        one consumer makes scores of the next piece, another has weights to compute and to multiply."""
        products = [s for s in body if isinstance(s, Multiply)]
        last = {aref: product for product in products for aref in self.inside(product)}
        got: set[Aref] = set()
        out: list[RoleStatement] = []
        for multiplies, run in groupby(body, lambda s: isinstance(s, Clear | Multiply)):
            statements = list(run)
            if not multiplies:
                out += [s for s in statements if not isinstance(s, Load | Multiply | For)]
                continue
            own = tuple(s for s in statements if isinstance(s, Multiply))
            read = dict.fromkeys(aref for product in own for aref in self.inside(product))
            out += [Get(aref) for aref in read if aref not in got]
            got |= read.keys()
            out += [s for s in statements if isinstance(s, Clear)]
            runs = [s for s in products if s.accumulator == own[0].accumulator]
            in_turn = self.mapping.turns and own[0].left.memory == "shared"
            out += [Turn()] if in_turn and own[0] == runs[0] else []
            out.append(Start(own))
            out += [PassTurn()] if in_turn and own[-1] == runs[-1] else []
            out += [Retire(own[-1].accumulator, 0), *(Consumed(aref, 0) for aref in read if last[aref] in own)]
        return tuple(out)

    def inside(self, product: Multiply) -> list[Aref]:
        """The arefs that a product reads which its loop puts."""
        return [aref for aref in self.used(product) if self.loops[aref.symbol]]

    def beside(self, first: Multiply, body: tuple[Statement, ...]) -> tuple[Multiply, ...]:
        """The products from this one on that take from the same stage, for sums of their own: they are issued as one."""
        used = self.inside(first)
        after = (s for s in body[body.index(first) + 1 :] if isinstance(s, Multiply) and s.accumulator.symbol in self.needed)
        return (first, *takewhile(lambda s: bool(used) and self.inside(s) == used, after))

    def multiply(self, products: tuple[Multiply, ...]) -> list[RoleStatement]:
        used = self.inside(products[0])
        bodies = (self.program.body, *(f.body for f in self.program.body if isinstance(f, For)))
        flying = self.flying(next(body for body in bodies if products[0] in body))
        out: list[RoleStatement] = [Get(a) for a in used]
        retired = (Retire(product.accumulator, flying) for product in products)
        return [*out, *self.start(products), *retired, *(Consumed(a, flying) for a in used)]

    def start(self, *groups: tuple[Multiply, ...]) -> list[RoleStatement]:
        """Issue groups of products, in turn if the consumers of one tile alternate."""
        out: list[RoleStatement] = [Start(products) for products in groups]
        return [Turn(), *out, PassTurn()] if self.mapping.turns and not self.mapping.apart else out

    def late(self, body: tuple[Statement, ...]) -> Multiply | None:
        """The product of a loop that takes what registers hold of an earlier one's result, if the two are to overlap."""
        late = [s for s in body if isinstance(s, Multiply) and s.left.memory == "registers" and not _evaluates(body)]
        return late[0] if late and self.mapping.in_flight else None

    def overlapped(self, axis: t.TileAxis, body: tuple[Statement, ...], late: Multiply, held: list[Aref]) -> list[RoleStatement]:
        """The loop turned by half a step: the late product of one piece runs beside the early product of the next, and beside the
        work on its result. The early half of the first piece is peeled off in front, the late half of the last behind. What a
        late product adds up to by itself is promoted when it is retired, after the next piece's weights are made, so a correction
        is held for it."""
        early = tuple(s for s in body if isinstance(s, Multiply) and s != late)
        work = [s for s in body if isinstance(s, t.Fold | t.Rescale | t.Hold | t.Narrow)]
        promoted = [s for s in body if isinstance(s, t.Promote)]  # what the late product adds up to
        on_result = [s for s in work if isinstance(s, t.Fold)]
        on_late = [s for s in work if not isinstance(s, t.Fold)]
        keys = list(dict.fromkeys(a for s in early for a in self.used(s) if self.loops[a.symbol]))
        values = self.used(late)
        clear = [Clear(s.accumulator) for s in early]
        anew = [Clear(s.partial) for s in promoted]
        first: list[RoleStatement] = [
            Last(axis), *map(Get, keys), *clear, *self.start(early), *(Retire(s.accumulator, 0) for s in early),
            *(Consumed(a, 0) for a in keys), *on_result,
            *(s for s in on_late if not isinstance(s, t.Rescale)),  # nothing has been summed yet
        ]  # fmt: skip
        issued = self.start(early, (late,))
        at = next(i for i, s in enumerate(issued) if isinstance(s, Start) and late in s.products)
        issued[at:at] = map(Get, values)
        step: list[RoleStatement] = [
            *map(Get, keys), *clear, *anew, *issued, *(Retire(s.accumulator, 1) for s in early), *(Consumed(a, 0) for a in keys),
            *on_result, Retire(late.accumulator, 0), *(Consumed(a, 0) for a in values), *promoted, *on_late,
        ]  # fmt: skip
        last: list[RoleStatement] = [
            *map(Get, values), *anew, Start((late,)), Retire(late.accumulator, 0), *(Consumed(a, 0) for a in values), *promoted,
        ]  # fmt: skip
        return [*first, RoleFor(axis, tuple(step), backwards=True, peeled=True), *(Consumed(a, 0) for a in held), *last]


def _promotes(body: tuple[Statement, ...]) -> bool:
    """Whether the steps of a loop sum into an accumulator of their own."""
    return any(isinstance(s, t.Promote) for s in body)


def _evaluates(body: tuple[Statement, ...]) -> bool:
    """Whether the steps of a loop compute a factor."""
    return any(isinstance(s, Evaluate) for s in body)


def _slice(body: tuple[Statement, ...]) -> frozenset[Symbol]:
    """The tiles that some store depends on."""
    everything = list(t.statements(body))
    needed = {acc.symbol for s in everything if isinstance(s, Store) for _, acc in s.sums}
    while True:
        more: set[Symbol] = set()
        for s in everything:
            match s:
                case Multiply(accumulator=acc, left=left, right=right) if acc.symbol in needed:
                    more |= {left.symbol, right.symbol}
                case t.Promote(accumulator=acc, partial=partial) if acc.symbol in needed:
                    more.add(partial.symbol)
                case Evaluate(tile=tile, staged=staged) if tile.symbol in needed:
                    more |= {s.symbol for s in staged}
                case t.Narrow(source=source, targets=targets) if needed & {target.symbol for target in targets}:
                    more.add(source.symbol)
                case t.Fold(scores=scores, weights=weights, others=others) if weights.symbol in needed:
                    more |= {scores.symbol, *(other.symbol for other in others)}
        if more <= needed:
            return frozenset(needed)
        needed |= more


def _drain(body: tuple[RoleStatement, ...], in_flight: int) -> list[RoleStatement]:
    """After a loop: what its last products still hold is retired and given back, oldest first."""
    if in_flight == 0:
        return []
    started = [product.accumulator for s in body if isinstance(s, Start) for product in s.products]
    used = dict.fromkeys(s.aref for s in body if isinstance(s, Get))
    retired: list[RoleStatement] = [Retire(acc, 0) for acc in started]
    return retired + [Consumed(aref, back) for back in range(in_flight - 1, -1, -1) for aref in used]


def verify(program: RoleProgram) -> None:
    """Raises FormInvalid unless arefs are put and got in step, every stage is given back after what reads it retired, and all roles
    step along one axis."""
    steps = {s.axis for s in (*program.producer, *program.consumer) if isinstance(s, RoleFor)}
    require(len(steps) == 1, f"roles that step along {len(steps)} axes, not one")
    puts = [s for s in _walk(program.producer or program.consumer) if isinstance(s, Put)]
    gets = [s for s in _walk(program.consumer) if isinstance(s, Get)]
    for aref in program.arefs:
        filled, borrowed = sum(p.aref == aref for p in puts), sum(g.aref == aref for g in gets)
        require(0 < borrowed <= filled, "an aref is not put as it is got")
        require(borrowed == filled or not program.producer, "an aref is not put as it is got")
    for put in puts:
        require(tuple(load.tile for load in put.loads) == put.aref.fields, "a put that does not fill its aref")
    _borrows(program.consumer, {tile.symbol: aref for aref in program.arefs for tile in aref.fields}, [], set())


def _borrows(body: tuple[RoleStatement, ...], arefs: dict[Symbol, Aref], running: list[list[Aref]], got: set[Symbol]) -> None:
    for statement in body:
        match statement:
            case Get(aref=aref):
                got.add(aref.symbol)
            case Evaluate(staged=staged):
                require({arefs[x.symbol].symbol for x in staged} <= got, "a factor is computed of tiles before their get")
            case Start(products=products):
                read = [arefs[x.symbol] for s in products for x in (s.left, s.right) if x.memory == "shared"]
                require({a.symbol for a in read} <= got, f"a product of {products[0].left.symbol} before its get")
                running.append(read)
            case Retire(pending=pending):
                del running[: max(0, len(running) - pending)]
            case Consumed(aref=aref, back=back):
                require(sum(aref in read for read in running) <= back, "a stage is given back while a product may still read it")
            case RoleFor(body=inner):
                _borrows(inner, arefs, running, got)
            case _:
                pass


def _walk(body: tuple[RoleStatement, ...]) -> Iterator[RoleStatement]:
    for statement in body:
        yield statement
        if isinstance(statement, RoleFor):
            yield from _walk(statement.body)


def render(program: RoleProgram) -> str:
    """The program as text, deterministic."""
    names = SymbolNames()
    source = program.source
    lines = [f"mapping {program.mapping}"]
    grid = ", ".join(f"{names[a.symbol]} {a.step}" for a in source.axes)
    for aref in program.arefs:
        fields = ", ".join(t.tile_text(f, names) for f in aref.fields)
        lines.append(
            f"aref {names[aref.symbol]} of {aref.depth} ({fields}): {aref.consumers} consumer{'' if aref.consumers == 1 else 's'}"
        )
    folds = [s.stream for s in _walk(program.consumer) if isinstance(s, t.Fold)]
    lines += t.given(source, folds[0] if folds else None, names)
    if program.producer:
        lines.append(f"producer: for ({grid}):")
        lines += _lines(program.producer, names, "  ")
    each = f"each of {program.mapping.consumers} consumers" if program.mapping.consumers > 1 else "consumer"
    which = "a tile in turn" if program.mapping.apart else f"over {names[source.rows.symbol]}"
    lines.append(f"{each}{',' * program.mapping.apart} {which}: for ({grid}):")
    lines += _lines(program.consumer, names, "  ", alone=not program.producer)
    return "\n".join(lines) + "\n"


def _lines(
    body: tuple[RoleStatement, ...], names: SymbolNames, indent: str, *, alone: bool = False, inside: bool = False
) -> list[str]:
    out = []
    for statement in body:
        match statement:
            case (
                Clear()
                | Evaluate()
                | Store()
                | t.Settle()
                | t.ReadScales()
                | t.Promote()
                | t.Reset()
                | t.Fold()
                | t.Narrow()
                | t.Rescale()
                | t.Hold()
                | t.Finish()
                | t.StoreRows()
            ):
                text = t.statement_text(statement, names)
            case Put(aref=aref, loads=loads, before=before, ahead=ahead):
                fills = ", ".join(
                    f"{names[x.tile.symbol]} = {names[x.tensor]}[{t.places_text(x.axes, x.per, names)}]" for x in loads
                )
                text = f"put {names[aref.symbol]} ← {fills}" + (" of the piece before" if before else "")
                if alone:
                    which = f"the piece {ahead} steps ahead" if inside else f"piece {ahead}"
                    text = f"one thread: {text} of {which}" + (", if there is one" if ahead else "")
            case Turn():
                text = "turn"
            case PassTurn():
                text = "pass the turn"
            case Last(axis=axis):
                text = f"{names[axis.symbol]} = the last piece"
            case Get(aref=aref):
                text = f"get {names[aref.symbol]}"
            case Start(products=products):
                text = "start " + ", ".join(t.statement_text(product, names) for product in products)
            case Retire(pending=pending):
                text = f"retire all but {pending}" if pending else "retire all"
            case Consumed(aref=aref, back=back):
                text = f"consumed {names[aref.symbol]}" + (f", {back} back" if back else "")
            case RoleFor(axis=axis, backwards=backwards, peeled=peeled):
                which = " for the pieces before" if peeled else " from the last" if backwards else ""
                text = f"for {names[axis.symbol]} by {axis.step}{which}:"
            case _:
                assert_never(statement)
        out.append(indent + text)
        if isinstance(statement, RoleFor):
            out += _lines(statement.body, names, indent + "  ", alone=alone, inside=True)
    return out
