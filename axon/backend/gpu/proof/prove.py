"""Proof that a barrier program neither deadlocks nor overwrites a stage that is still read, for any number of tiles and steps.

Note [One interleaving is enough]
    No operation branches on the state of a barrier: roles only wait for counts that grow. Such programs are confluent. For one
    sequence of loop decisions, every interleaving performs the same operations, and the order that synchronization forces among
    them (happens-before) is the same in all, provided that no wait can pass on another phase than the one it passes on here. So one
    interleaving is run, and everything is asked of happens-before in it:
      * a wait for phase n comes after the completion of phase n - 1 (else it could pass on phase n - 2, whose parity is the same)
        and before the completion of phase n + 1 (else it could miss its phase);
        (where consumers have tiles of their own, one of them waits for each phase: the one whose tile it is about);
      * an arrival for phase n comes after the completion of phase n - 1 (else it could count in that one);
      * a copy into a stage comes after every read of it has retired and every earlier copy into it is complete;
      * a product comes after the copies that filled its stage, and the stage holds the piece that this step is about;
      * a store's buffer is written after the earlier store has read it, and sent after all writers have written and fenced.
    A deadlock in this interleaving is one in all, and the absence of one here is absence everywhere.

Note [Any number of steps]
    Whether a loop goes on is decided by nobody in particular: both ways are explored, and all roles follow the same decisions. What
    an agent knows to have happened is a set of *facts*, one for the newest event of each kind and place, so that states are finite;
    counters are kept relative to the slowest. States already seen are not explored again, and when none is left, every run of any
    length has been covered.

A warpgroup is two agents: its first thread, which alone arrives and stores, and the rest of its threads. Where both must take part
(a product, a named barrier), both must come; what the rest did before a product is known to whoever waits for it to retire.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TypeAlias, assert_never

from axon.backend.gpu.proof.contents import check_contents, check_places
from axon.backend.gpu.proof.effects import Effects, ahead
from axon.backend.gpu.proof.findings import Found, Proof, Violation, check_layout
from axon.backend.gpu.proof.happens_before import Agent, Barrier, Facts, Place, State, knowledge, learn
from axon.backend.gpu.proof.skeleton import skeleton
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.roles.flow import (
    BeginSteps,
    Instruction,
    Jump,
    MoreSteps,
    NextStep,
    NextTile,
    Unless,
    UnlessOwn,
    UnlessPiece,
    saturation,
)
from axon.backend.gpu.tile import ir as t
from axon.base.names import Symbol

MAX_STATES = 20_000
Local: TypeAlias = (  # operations that wait for nobody
    "b.Look | b.Expect | b.Copy | b.Advance | b.Release | b.Clear | b.Evaluate | b.Retire | t.Work | b.PassTurn | b.Reclaim"
    " | b.Write | b.AsyncFence | b.Send | b.Scatter | b.Drain"
)
_MAX_EVENTS = 200_000  # between two decisions: more means that a role runs forever without one


def verify(program: BarrierProgram) -> Proof | Violation:
    """Prove the program correct, or say what is wrong with it."""
    try:
        check_layout(program)
        check_places(program)
        try:
            proof = _proved(skeleton(program))
        except Found:
            proof = _Explorer(program).explore(merge=False)  # one that really happens, or a proof after all
        check_contents(program)
        return proof
    except Found as found:
        return found.violation


@lru_cache(maxsize=128)
def _proved(program: BarrierProgram) -> Proof:
    return _Explorer(program).explore(merge=True)


class _Explorer(Effects):
    def __init__(self, program: BarrierProgram) -> None:
        super().__init__(program)
        self.saturation = max(saturation(w.code) for w in self.who)

    # ── exploring ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def explore(self, *, merge: bool) -> Proof:
        """Follow every sequence of decisions. With `merge`, states that differ in knowledge alone are taken as one that knows what
        both know: far fewer states, and sound, since less knowledge never hides a violation; but it may find one that is not there.
        """
        seen: dict[object, tuple[Facts, ...]] = {}
        exact: set[object] = set()
        trail: deque[tuple[State, tuple[bool, ...]]] = deque([(self.start(), ())])
        while trail:
            state, path = trail.popleft()
            self.path = path
            if not self.run(state):
                continue
            control, known = self.control(state), knowledge(state)
            if merge:
                before = seen.get(control)
                common = known if before is None else tuple(x & y for x, y in zip(known, before, strict=True))
                if common == before:
                    continue
                seen[control] = common
                learn(state, common)
            else:
                if (control, known) in exact:
                    continue
                exact.add((control, known))
            if len(seen) + len(exact) > MAX_STATES:
                raise Found(Violation("deadlock", f"more than {MAX_STATES} states: not proved"))
            for decision in (False, True):
                branch = state.copy()
                branch.decisions.append(decision)
                trail.append((branch, (*path, decision)))
        return Proof(len(seen) + len(exact))

    def start(self) -> State:
        program = self.program
        barriers = {}
        for block in range(program.cluster):
            for ring in program.rings:
                for stage in range(ring.depth):
                    for side, count in (("full", ring.full), ("empty", ring.empty)):
                        if count < 1:
                            raise Found(Violation("count", f"a barrier that waits for {count} arrivals"))
                        place: Place = (block, ring.symbol, "full" if side == "full" else "empty", stage)
                        barriers[place] = Barrier(count, 1, count, 0, 0, 0)
        cursors = {ring.symbol: (0, 0, 0) for ring in program.rings}
        agents = [Agent(0, 0, (), dict(cursors), 0, (), None, False, ()) for _ in self.who]
        state = State(agents, barriers, {}, [])
        for number, who in enumerate(self.who):
            state.turns[who.block, who.instance] = state.passed[who.block, who.instance] = 0
            self.fact("taken", number)
        # Initialization is published before anyone starts: all know that nothing is pending anywhere.
        for place in barriers:
            for what in ("complete", "before"):
                self.fact(what, *place)
            for waiter in self.waiters.get(place[:3], ()):
                self.fact("waited", *place, waiter)
        for block in range(program.cluster):
            for ring in program.rings:
                for stage in range(ring.depth):
                    for piece in self.pieces(ring):
                        self.fact("filled", block, ring.symbol, stage, piece)
                    for role, instance in self.readers(ring):
                        self.fact("read", block, ring.symbol, stage, role, instance)
        for block in range(program.cluster):
            for x in program.buffers:
                for instance in range(program.mapping.consumers):
                    for slot in range(x.slots):
                        self.fact("sent", block, x.symbol, instance, slot)
        everything = (1 << len(self.facts)) - 1
        for agent in agents:
            agent.knows = everything
        return state

    def control(self, state: State) -> object:
        """All of a state but what is known, with counters relative to the slowest agent, so that runs of any length have few."""
        base = {r.symbol: min(a.cursors[r.symbol][2] for a in state.agents) for r in self.program.rings}
        agents = tuple(
            (
                (
                    a.at,
                    a.decided,
                    a.steps,
                    a.stores,
                    tuple(f.reads for f in a.groups),
                    a.open and a.open.reads,
                    a.fenced,
                    a.holds,
                    a.tile,
                ),
                tuple((s, x[0], x[1], x[2] - base[s]) for s, x in a.cursors.items()),
            )
            for a in state.agents
        )
        barriers = tuple((x.parity, x.pending, x.bytes, x.filling, x.owner, x.seen) for x in state.barriers.values())
        content = tuple(sorted(((repr(k), self.relative(v, base)) for k, v in state.content.items()), key=lambda kv: kv[0]))
        return agents, barriers, content, tuple(state.decisions), tuple(state.asked), tuple(state.turns.values())

    def relative(self, value: object, base: dict[Symbol, int]) -> object:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Symbol):
            return value[0].id, value[1] - base[value[0]]
        return repr(value)

    def run(self, state: State) -> bool:
        """Run every agent as far as it gets without a new decision. False when all have finished."""
        moved, events = True, 0
        while moved:
            moved = False
            for number in range(len(self.who)):
                while self.step(state, number):
                    moved = True
                    events += 1
                    if events > _MAX_EVENTS:
                        raise self.found("deadlock", "a role runs on without a loop decision", number)
        drop = min(a.decided for a in state.agents)
        if all(a.at == len(w.code) for a, w in zip(state.agents, self.who, strict=True)):
            self.at_end(state)
            return False
        waiting = [n for n, a in enumerate(state.agents) if self.wants(state, n)]
        if not waiting:
            self.deadlock(state)
        del state.decisions[:drop], state.asked[:drop]
        for agent in state.agents:
            agent.decided -= drop
        return True

    def wants(self, state: State, number: int) -> bool:
        """Whether an agent stands at a loop decision that nobody has made."""
        agent, who = state.agents[number], self.who[number]
        if agent.at == len(who.code):
            return False
        match who.code[agent.at]:
            case NextTile() | NextStep() | MoreSteps():
                return agent.decided == len(state.decisions)
            case UnlessPiece() as op:
                return self.foreseen(state, number, op) is None
            case _:
                return False

    def deadlock(self, state: State) -> None:
        for place, barrier in state.barriers.items():
            if barrier.bytes and barrier.pending == 0:
                raise self.found(
                    "bytes", f"the {place[2]} barrier of stage {place[3]} is left with {barrier.bytes} bytes expected", None
                )
        stuck = [n for n, (a, w) in enumerate(zip(state.agents, self.who, strict=True)) if a.at < len(w.code)]
        where = "; ".join(f"{self.who[n].name} at {_describe(self.who[n].code[state.agents[n].at])}" for n in stuck)
        raise self.found("deadlock", f"nobody can go on: {where}", stuck[0])

    def at_end(self, state: State) -> None:
        for place, barrier in state.barriers.items():
            if barrier.pending != barrier.count or barrier.bytes:
                raise self.found("exit", f"the {place[2]} barrier of stage {place[3]} ends inside a phase", None)
        for (block, ring, side, stage), barrier in state.barriers.items():
            if side == "full" and barrier.parity != state.barriers[block, ring, "empty", stage].parity:
                raise self.found("exit", f"stage {stage} is left borrowed", None)
        for (block, consumer), arrived in state.turns.items():
            if arrived:
                raise self.found("turn", f"the turn of consumer {consumer} of block {block} was passed and never taken", None)
        for number, agent in enumerate(state.agents):
            if agent.groups or agent.open:
                raise self.found("exit", "products are left in flight", number)

    # ── one step of one agent ───────────────────────────────────────────────────────────────────────────────────────────

    def step(self, state: State, number: int) -> bool:
        """Let an agent do its next operation; False if it cannot now."""
        agent, who = state.agents[number], self.who[number]
        if agent.at == len(who.code):
            return False
        op = who.code[agent.at]
        match op:
            case Jump(to=to):
                agent.at = to
                return True
            case NextTile(exit=exit_) | MoreSteps(exit=exit_):
                if agent.decided == len(state.decisions):
                    return False
                more = self.decision(state, number, op)
                if more and isinstance(op, NextTile) and self.program.mapping.apart:
                    agent.tile = self.next_owner(agent)
                agent.at = agent.at + 1 if more else exit_
                return True
            case UnlessOwn(own=own, exit=exit_):
                agent.at = agent.at + 1 if (agent.tile == who.instance) == own else exit_
                return True
            case BeginSteps(axis=axis):
                agent.steps = (*((a, n) for a, n in agent.steps if a != axis), (axis, 0))
            case NextStep(axis=axis, back=back):
                if agent.decided == len(state.decisions):
                    return False
                again = self.decision(state, number, op)
                done = min(dict(agent.steps)[axis] + 1, self.saturation)
                agent.steps = (*((a, n) for a, n in agent.steps if a != axis), (axis, done))
                if again:
                    agent.at = back
                    return True
            case UnlessPiece(exit=exit_):
                there = self.foreseen(state, number, op)
                if there is None:
                    return False
                agent.at = agent.at + 1 if there else exit_
                return True
            case Unless(axis=axis, count=count, exit=exit_):
                if dict(agent.steps).get(axis, 0) < count:
                    agent.at = exit_
                    return True
            case b.Await():
                if not self.await_(state, number, op):
                    return False
            case b.Product() | b.Commit() | b.ProductFence():
                if not self.together(state, who):
                    return False
                if isinstance(op, b.Product):
                    self.product(state, who, op)
                elif isinstance(op, b.Commit):
                    self.commit(state, who)
                else:
                    for peer in who.peers:
                        state.agents[peer].fenced = True
                for peer in who.peers:
                    state.agents[peer].at += 1
                return True
            case b.Turn() | b.LastTurn():
                return self.turn(state, who, op)
            case b.Meet():
                if not self.together(state, who):
                    return False
                known = 0
                for peer in who.peers:
                    known |= state.agents[peer].knows
                for peer in who.peers:
                    state.agents[peer].knows = known
                    state.agents[peer].at += 1
                return True
            case b.Depart():
                if any(
                    a.at == len(w.code) or not isinstance(w.code[a.at], b.Depart)
                    for a, w in zip(state.agents, self.who, strict=True)
                ):
                    return False
                for peer, other in enumerate(state.agents):
                    if other.stores:
                        raise self.found("exit", "a block leaves while a store still reads its buffer", peer)
                    other.at += 1
                return True
            case _:
                self.local(state, number, op)
        agent.at += 1
        if agent.at == len(who.code) and self.program.cluster > 1:
            raise self.found("exit", "it leaves while other blocks may still reach into its block", number)
        return True

    def decision(self, state: State, number: int, op: NextTile | NextStep | MoreSteps) -> bool:
        """Follow the next decision."""
        agent = state.agents[number]
        agent.decided += 1
        return self.decided(state, number, agent.decided - 1, None if isinstance(op, NextTile) else op.axis)

    def decided(self, state: State, number: int, at: int, about: Symbol | None) -> bool:
        """A decision, which must be about the same loop for all."""
        if at == len(state.asked):
            state.asked.append(about)
        elif state.asked[at] != about:
            raise self.found("exit", "it stands at another loop than the others", number)
        return state.decisions[at]

    def foreseen(self, state: State, number: int, op: UnlessPiece) -> bool | None:
        """Whether there is a piece: so many steps more are decided on. None while that is open."""
        first = state.agents[number].decided
        for at in range(first, first + op.number):
            if at == len(state.decisions):
                return None
            if not self.decided(state, number, at, op.axis):
                return False
        return True

    def local(self, state: State, number: int, op: Local) -> None:
        """Operations that wait for nobody."""
        agent, who = state.agents[number], self.who[number]
        match op:
            case b.Expect(ring=ring, bytes=size):
                stage, _, _ = ahead(agent, op)
                place: Place = (who.block, ring.symbol, "full", stage)
                if self.program.mapping.apart:
                    state.barriers[place].filling = agent.tile
                self.arrive(state, number, place, agent.knows, size)
            case b.Copy():
                self.copy(state, number, op)
            case b.Advance(ring=ring):
                stage, wraps, passed = agent.cursors[ring.symbol]
                stage += 1
                agent.cursors[ring.symbol] = (0, wraps ^ 1, passed + 1) if stage == ring.depth else (stage, wraps, passed + 1)
            case b.Release(ring=ring, back=back, cluster=cluster):
                if who.leader:
                    stage = (agent.cursors[ring.symbol][0] - back) % ring.depth
                    for block in range(self.program.cluster) if cluster else (who.block,):
                        self.arrive(state, number, (block, ring.symbol, "empty", stage), agent.knows, 0)
            case b.Retire(pending=pending):
                while len(agent.groups) > pending:
                    flight, *rest = agent.groups
                    agent.groups = tuple(rest)
                    agent.knows |= flight.known
                    for fact in flight.reads:
                        agent.knows |= fact
            case b.PassTurn(only=only):
                if only is None or only == who.instance:
                    self.pass_turn(state, number)
            case (
                b.Clear()
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
                self.work(state, number, op)
            case b.Evaluate():
                self.evaluate(state, number, op)
            case b.Reclaim(pending=pending):
                if who.leader:
                    while len(agent.stores) > pending:
                        agent.knows |= agent.stores[0]
                        agent.stores = agent.stores[1:]
            case b.Drain():
                if who.leader:
                    agent.stores = ()
            case b.Write():
                self.write(state, number, op)
            case b.Scatter(store=store):
                self.finished(state, number, store)
            case b.Look():
                pass  # a table that nobody writes to: see `contents`
            case b.AsyncFence():
                for peer_fact, mask in list(self.facts.items()):
                    if peer_fact[0] == "wrote" and peer_fact[-1] == number and agent.knows & mask:
                        agent.knows |= self.fact("fenced", *peer_fact[1:])
            case b.Send():
                if who.leader:
                    self.send(state, number, op)
            case _:
                assert_never(op)


def _describe(op: Instruction) -> str:
    match op:
        case b.Await(side=side):
            return f"a wait for `{side}`"
        case _:
            return type(op).__name__
