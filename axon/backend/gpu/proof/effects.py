"""What the operations of a barrier program do to a state, and what an agent must know before them (see `verify`)."""

from __future__ import annotations

from typing import assert_never

from axon.backend.gpu.proof.findings import Found, Kind, Violation
from axon.backend.gpu.proof.happens_before import Agent, Facts, Flight, Place, State, Who, agents
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram, Ring
from axon.backend.gpu.tile import ir as t
from axon.base.names import Symbol


class Effects:
    """The operations of one program. Each raises `Found` where what it needs to have happened is not known to have."""

    def __init__(self, program: BarrierProgram) -> None:
        self.program = program
        self.facts: dict[tuple[object, ...], int] = {}
        self.who = list(agents(program))
        self.path: tuple[bool, ...] = ()  # the decisions taken so far
        self._pieces: dict[Ring, list[tuple[int, int]]] = {}
        self._readers: dict[Ring, list[tuple[int, int]]] = {}
        operations = [op for role in program.roles for op in b.operations(role.body)]
        self.corrections = {op.stream.product for op in operations if isinstance(op, t.Fold)}
        self.partials = {op.partial.symbol for op in operations if isinstance(op, t.Promote)}
        self.begun = {op.stream.score for op in operations if isinstance(op, t.Fold)}
        self.held = {op.symbol for op in operations if isinstance(op, t.Hold)}
        self.computed = {op.tile.symbol for op in operations if isinstance(op, b.Evaluate)}
        self.waiters: dict[tuple[int, Symbol, b.Side], list[int]] = {}
        for number, who in enumerate(self.who):
            for op in who.code:
                if isinstance(op, b.Await):
                    places = self.waiters.setdefault((who.block, op.ring.symbol, op.side), [])
                    if self.waiter(number, op.side) not in places:
                        places.append(self.waiter(number, op.side))

    def found(self, kind: Kind, message: str, number: int | None) -> Found:
        return Found(Violation(kind, message, "" if number is None else self.who[number].name, self.path))

    def pieces(self, ring: Ring) -> list[tuple[int, int]]:
        """The parts of a stage that copies fill: their place, and from which block of the cluster (-1: its own)."""
        if (known := self._pieces.get(ring)) is not None:
            return known
        copies = [op for role in self.program.roles for op in b.operations(role.body) if isinstance(op, b.Copy) and op.ring == ring]
        pieces = ((c.offset, rank) for c in copies for rank in (range(self.program.cluster) if c.multicast else (-1,)))
        found = self._pieces[ring] = list(dict.fromkeys(pieces))
        return found

    def readers(self, ring: Ring) -> list[tuple[int, int]]:
        """The warpgroups whose products or threads read what a ring holds: their roles, and which of them."""
        if (known := self._readers.get(ring)) is not None:
            return known
        found = self._readers[ring] = [
            (r, instance)
            for r, role in enumerate(self.program.roles)
            if any(ring in _read(op) for op in b.operations(role.body))
            for instance in range(role.instances)
        ]
        return found

    def waiter(self, number: int, side: b.Side) -> int:
        """Who waits for each phase of a barrier: an agent, or, of consumers with tiles of their own, that part of any of them."""
        who = self.who[number]
        return who.peers.index(number) if self.program.mapping.apart and side == "full" else number

    def next_owner(self, agent: Agent) -> int:
        """The consumer that the tile after an agent's current one is for."""
        return (agent.tile + 1) % self.program.mapping.consumers

    def together(self, state: State, who: Who) -> bool:
        """Whether every agent of the warpgroup stands at the same place."""
        return len({state.agents[p].at for p in who.peers}) == 1

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def fact(self, *name: object) -> Facts:
        if name not in self.facts:
            self.facts[name] = 1 << len(self.facts)
        return self.facts[name]

    def forget(self, state: State, facts: Facts) -> None:
        """A new event of these kinds and places: nobody knows of it yet."""
        keep = ~facts
        for agent in state.agents:
            agent.knows &= keep
            if agent.groups:
                agent.groups = tuple(flight.knowing(flight.known & keep) for flight in agent.groups)
            if agent.open:
                agent.open = agent.open.knowing(agent.open.known & keep)
        for barrier in state.barriers.values():
            barrier.gathered &= keep
            barrier.released &= keep
        for key, known in state.passed.items():
            state.passed[key] = known & keep

    # ── barriers ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def await_(self, state: State, number: int, op: b.Await) -> bool:
        agent, who = state.agents[number], self.who[number]
        stage, wraps, _ = ahead(agent, op)
        place: Place = (who.block, op.ring.symbol, op.side, stage)
        barrier = state.barriers[place]
        if barrier.parity != op.first ^ wraps:
            return False
        if op.side == "full" and self.program.mapping.apart:
            if barrier.owner != who.instance:
                raise self.found("phase", f"the wait for `full` of stage {stage} is about another consumer's tile", number)
            barrier.seen += 1
            if barrier.seen == len(who.peers):
                barrier.owner, barrier.seen = None, 0
        if not agent.knows & self.fact("before", *place):
            raise self.found("phase", f"the wait for `{op.side}` of stage {stage} may pass one round early", number)
        agent.knows |= barrier.released
        waited = self.fact("waited", *place, self.waiter(number, op.side))
        self.forget(state, waited)
        agent.knows |= waited
        return True

    def arrive(self, state: State, number: int, place: Place, knows: Facts, size: int, *, arrival: bool = True) -> None:
        """An arrival, or bytes that arrive (a negative size, `arrival` false)."""
        barrier = state.barriers[place]
        if not knows & self.fact("complete", *place):
            raise self.found("phase", f"an arrival at `{place[2]}` of stage {place[3]} may count in an earlier round", number)
        barrier.gathered |= knows
        barrier.bytes += size
        barrier.pending -= arrival
        if barrier.pending == 0 and barrier.bytes < 0:
            raise self.found("bytes", f"stage {place[3]} receives {-barrier.bytes} bytes more than were announced", number)
        if barrier.pending < 0:
            raise self.found("count", f"more arrivals at `{place[2]}` of stage {place[3]} than it counts", number)
        if barrier.pending == 0 and barrier.bytes == 0:
            self.complete(state, number, place)

    def complete(self, state: State, number: int, place: Place) -> None:
        barrier = state.barriers[place]
        waiters = [self.fact("waited", *place, w) for w in self.waiters.get(place[:3], ())]
        for waiter in waiters:
            if barrier.owner is not None or not barrier.gathered & waiter:
                raise self.found("phase", f"`{place[2]}` of stage {place[3]} may complete twice before a wait sees it", number)
        newest, before = self.fact("complete", *place), self.fact("before", *place)
        self.shift(state, newest, before)
        for waiter in waiters:
            self.forget(state, waiter)
        barrier.released = barrier.gathered | newest
        barrier.gathered = 0
        barrier.pending = barrier.count
        barrier.parity ^= 1
        barrier.filling, barrier.owner = None, barrier.filling

    def shift(self, state: State, newest: Facts, before: Facts) -> None:
        """What was the newest completion is now the one before; nobody knows the newest."""

        def moved(known: Facts) -> Facts:
            return known & ~(newest | before) | (before if known & newest else 0)

        for agent in state.agents:
            agent.knows = moved(agent.knows)
            agent.groups = tuple(flight.knowing(moved(flight.known)) for flight in agent.groups)
            if agent.open:
                agent.open = agent.open.knowing(moved(agent.open.known))
        for barrier in state.barriers.values():
            barrier.gathered, barrier.released = moved(barrier.gathered), moved(barrier.released)
        for key, known in state.passed.items():
            state.passed[key] = moved(known)

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def copy(self, state: State, number: int, op: b.Copy) -> None:
        agent, who = state.agents[number], self.who[number]
        ring = op.ring
        stage, _, passed = ahead(agent, op)
        piece = (op.offset, who.block if op.multicast else -1)
        for block in range(self.program.cluster) if op.multicast else (who.block,):
            for role, instance in self.readers(ring):
                if not agent.knows & self.fact("read", block, ring.symbol, stage, role, instance):
                    raise self.found("overwrite", f"a copy into stage {stage} may overtake a product that still reads it", number)
            filled = self.fact("filled", block, ring.symbol, stage, piece)
            if not agent.knows & filled:
                raise self.found("overwrite", f"a copy into stage {stage} may overtake an earlier one", number)
            self.forget(state, filled)
            state.content[block, ring.symbol, stage, piece] = (ring.symbol, passed)
            self.arrive(state, number, (block, ring.symbol, "full", stage), agent.knows | filled, -op.bytes, arrival=False)

    def product(self, state: State, who: Who, op: b.Product) -> None:
        known, reads = 0, 0
        for peer in who.peers:
            agent = state.agents[peer]
            if not agent.fenced:
                raise self.found("fence", "a product is issued without a fence before its group", peer)
            for ring in op.rings:
                stage, _, passed = agent.cursors[ring.symbol]
                for piece in self.pieces(ring):
                    if not agent.knows & self.fact("filled", who.block, ring.symbol, stage, piece):
                        raise self.found("read", f"a product may read stage {stage} before it is full", peer)
                    if state.content.get((who.block, ring.symbol, stage, piece)) != (ring.symbol, passed):
                        raise self.found("content", f"stage {stage} holds another step's piece", peer)
                reads |= self.fact("read", who.block, ring.symbol, stage, who.role, who.instance)
            known |= agent.knows
        self.forget(state, reads)
        summed = op.accumulator.symbol
        for peer in who.peers:
            agent = state.agents[peer]
            if isinstance(op.left, t.Tile):
                self.need(agent, peer, op.left.symbol, "a product takes")
                if summed not in self.partials:
                    self.corrected(agent, peer, summed)
            agent.holds |= {summed}
            before = agent.open or Flight()
            agent.open = Flight(before.known | known & ~reads, (*before.reads, reads), before.registers | op.registers)

    def evaluate(self, state: State, number: int, op: b.Evaluate) -> None:
        """A part of a warpgroup reads stages by itself. What it has read a copy may overwrite once it is known to have: its product
        takes what it made, and comes after."""
        agent, who = state.agents[number], self.who[number]
        for part in op.staged:
            ring = part.ring
            stage, _, passed = agent.cursors[ring.symbol]
            for piece in self.pieces(ring):
                if not agent.knows & self.fact("filled", who.block, ring.symbol, stage, piece):
                    raise self.found("read", f"a factor may be computed of stage {stage} before it is full", number)
                if state.content.get((who.block, ring.symbol, stage, piece)) != (ring.symbol, passed):
                    raise self.found("content", f"stage {stage} holds another step's piece", number)
            self.forget(state, self.fact("read", who.block, ring.symbol, stage, who.role, who.instance))
        self.at_rest(agent, number, {op.tile.symbol})
        agent.holds = agent.holds | {op.tile.symbol}
        agent.fenced = False

    def commit(self, state: State, who: Who) -> None:
        for peer in who.peers:
            agent = state.agents[peer]
            if agent.open is not None:
                agent.holds -= agent.open.registers & self.computed  # a factor is for the products of one step
            agent.groups = (*agent.groups, agent.open or Flight())
            agent.open = None
            agent.fenced = False

    def work(self, state: State, number: int, op: b.Clear | t.Work) -> None:
        """Registers are read and written: no product that runs may use them, and the next one needs a fence."""
        agent = state.agents[number]
        match op:
            case b.Clear(accumulator=acc):
                touched, taken, made = {acc.symbol}, {acc.symbol}, set[Symbol]()
            case t.Settle(tile=tile):
                touched, taken, made = {tile.symbol}, set[Symbol](), set[Symbol]()
                self.need(agent, number, tile.symbol, "what is settled are sums of")
            case t.ReadScales(symbol=symbol):
                agent.holds = agent.holds | {symbol}
                return
            case t.Hold(stream=stream, symbol=symbol):
                self.need(agent, number, stream.product, "held is")
                if symbol in agent.holds:
                    raise self.found("content", "a correction is replaced before a sum has taken it", number)
                agent.holds = agent.holds - {stream.product} | {symbol}
                return
            case t.Promote(accumulator=acc, partial=partial, correction=correction) if correction is not None:
                touched, taken, made = {acc.symbol, partial.symbol}, {partial.symbol, correction}, {acc.symbol}
                for own in (partial.symbol, correction):
                    self.need(agent, number, own, "a sum takes")
            case t.Promote(accumulator=acc, partial=partial, scales=scales):
                touched, taken, made = {acc.symbol, partial.symbol}, {partial.symbol}, {acc.symbol}
                if scales is not None:
                    taken = {*taken, scales}
                    self.need(agent, number, scales, "a sum is multiplied by")
                self.need(agent, number, partial.symbol, "a sum takes")
                self.corrected(agent, number, acc.symbol)
            case t.Rescale(stream=stream, accumulator=acc):
                touched, taken, made = {acc.symbol}, {stream.product}, set[Symbol]()
                self.need(agent, number, stream.product, "sums are multiplied by")
            case t.Fold(stream=stream, scores=scores, weights=weights, others=others):
                taken, made = {scores.symbol, *(other.symbol for other in others)}, {weights.symbol, stream.product}
                touched = {*taken, weights.symbol}
                if weights.symbol in agent.holds or (self.held and stream.product in agent.holds):
                    raise self.found("content", "weights, or a correction, are replaced before they are used", number)
                for tile in (scores, *others):
                    self.need(agent, number, tile.symbol, "a fold takes")
                if stream.score not in agent.holds:
                    raise self.found("content", "scores are folded before their statistics begin anew", number)
            case t.Narrow(source=source, targets=targets):
                made = {target.symbol for target in targets}
                touched, taken = {source.symbol, *made}, {source.symbol}
                self.need(agent, number, source.symbol, "rounding takes")
            case t.Reset(stream=stream):
                if stream.score in agent.holds:
                    raise self.found("content", "a stream begins before the one before it is finished", number)
                agent.holds = agent.holds - {stream.changed} | {stream.score}
                return
            case t.Finish(stream=stream):
                self.need(agent, number, stream.score, "a stream ends that has")
                agent.holds = agent.holds - {stream.score} | {stream.changed}
                return
            case t.StoreRows(stream=stream):
                self.need(agent, number, stream.changed, "a row value is stored of")
                return
            case _:
                assert_never(op)
        self.at_rest(agent, number, touched)
        agent.holds = agent.holds - taken | made
        agent.fenced = False

    def need(self, agent: Agent, number: int, tile: Symbol, who: str) -> None:
        """Registers must hold what an operation takes. A correction goes by the name of the product that it repairs."""
        if tile not in agent.holds:
            raise self.found("content", f"{who} `{tile.name}`, which registers do not hold yet, or no longer", number)

    def corrected(self, agent: Agent, number: int, summed: Symbol) -> None:
        """Something is added to a sum: what was summed before must have been repaired, if there is anything."""
        owed = agent.holds & self.corrections
        if owed and summed in agent.holds:
            raise self.found("content", "a product is added to a sum that was not corrected", number)
        agent.holds -= owed

    def at_rest(self, agent: Agent, number: int, touched: set[Symbol]) -> None:
        flights = (*agent.groups, agent.open) if agent.open else agent.groups
        if any(flight.registers & touched for flight in flights):
            raise self.found("registers", "registers are touched while a product that uses them may run", number)

    def finished(self, state: State, number: int, store: t.Store) -> None:
        """A result is computed from accumulators."""
        agent = state.agents[number]
        if agent.groups or agent.open:
            raise self.found("read", "accumulators are read while products still write them", number)
        for _, accumulator in store.sums:
            self.need(agent, number, accumulator.symbol, "a store takes")
        if agent.holds & self.held:
            raise self.found("content", "a result is computed before its last sum is promoted", number)
        if agent.holds & self.begun:
            raise self.found("content", "a result is computed before the statistics of its rows are finished", number)

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pass_turn(self, state: State, number: int) -> None:
        """A part of a consumer arrives at the next consumer's turn, which must have taken the turn passed to it before."""
        who = self.who[number]
        key = (who.block, (who.instance + 1) % self.program.roles[who.role].instances)
        taken = self.fact("taken", number)
        if not state.agents[number].knows & taken:
            raise self.found("turn", f"the turn of consumer {key[1]} may be passed again before it was taken", number)
        self.forget(state, taken)
        state.turns[key] += 1
        state.passed[key] |= state.agents[number].knows

    def turn(self, state: State, who: Who, op: b.Turn | b.LastTurn) -> bool:
        """A consumer takes its turn, once it was passed; the last one of all is for the first consumer alone."""
        if not self.together(state, who):
            return False
        last = self.next_owner(state.agents[who.peers[0]]) if self.program.mapping.apart else 0
        if isinstance(op, b.Turn) or who.instance == last:
            key = (who.block, who.instance)
            before = (who.instance - 1) % self.program.roles[who.role].instances
            passing = [n for n, w in enumerate(self.who) if (w.block, w.role, w.instance) == (who.block, who.role, before)]
            if state.turns[key] < len(passing):
                return False
            known = state.passed[key]
            for peer in who.peers:
                known |= state.agents[peer].knows
            for passed in passing:
                known |= self.fact("taken", passed)
            state.turns[key] = state.passed[key] = 0
            for peer in who.peers:
                state.agents[peer].knows = known
        for peer in who.peers:
            state.agents[peer].at += 1
        return True

    def write(self, state: State, number: int, op: b.Write) -> None:
        agent, who = state.agents[number], self.who[number]
        self.finished(state, number, op.store)
        if not agent.knows & self.fact("sent", who.block, op.buffer.symbol, who.instance, op.slot):
            raise self.found("buffer", f"slot {op.slot} is written while a store may still read it", number)
        place = (who.block, op.buffer.symbol, who.instance, op.slot, number)
        wrote = self.fact("wrote", *place)
        self.forget(state, wrote | self.fact("fenced", *place))
        agent.knows |= wrote
        state.content[who.block, op.buffer.symbol, who.instance, op.slot, number] = (op.store.tensor.id, op.block, op.column)

    def send(self, state: State, number: int, op: b.Send) -> None:
        agent, who = state.agents[number], self.who[number]
        rows, columns = self.program.order.rows, self.program.order.columns
        at = {c.axis: c for c in op.at}
        for peer in who.peers:
            place = (who.block, op.buffer.symbol, who.instance, op.slot, peer)
            if not agent.knows & self.fact("wrote", *place):
                raise self.found("buffer", f"slot {op.slot} is sent before all of it is written", number)
            if not agent.knows & self.fact("fenced", *place):
                raise self.found("fence", f"slot {op.slot} is sent without a fence after its writes", number)
            want = (op.descriptor.tensor.id, at[rows.symbol].offset // 64, at[columns.symbol].offset)
            if state.content.get(place) != want:
                raise self.found("content", f"slot {op.slot} does not hold what is sent from it", number)
        sent = self.fact("sent", who.block, op.buffer.symbol, who.instance, op.slot)
        if not agent.knows & sent and sent in agent.stores:
            raise self.found("buffer", f"slot {op.slot} is sent twice at once", number)
        self.forget(state, sent)
        agent.stores = (*agent.stores, sent)


def _read(op: b.Op) -> tuple[Ring, ...]:
    """The rings of whose stages a product takes factors, or of which threads compute one."""
    return op.rings if isinstance(op, b.Product) else tuple(p.ring for p in op.staged) if isinstance(op, b.Evaluate) else ()


def ahead(agent: Agent, op: b.Await | b.Expect | b.Copy) -> tuple[int, int, int]:
    """The stage that an operation is about, how often the cursor will have wrapped there mod 2, and passed pieces."""
    stage, wraps, passed = agent.cursors[op.ring.symbol]
    rounds, stage = divmod(stage + op.ahead, op.ring.depth)
    return stage, (wraps + rounds) % 2, passed + op.ahead
