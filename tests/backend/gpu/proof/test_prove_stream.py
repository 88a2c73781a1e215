"""Every way of breaking the barrier program of a stream is refused: several rings, turns, products of what registers hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram, Op
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.eight_bits import in_eight_bits
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.limbs import limbed
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.stream import Stream
from axon.base.element import Element
from tests.backend.gpu.proof.mutants import (
    Change,
    body_of,
    drop,
    elsewhere,
    exchanged,
    moves,
    mutate,
    refused,
    sites,
    turned_over,
    twice,
    with_field,
    with_ring,
)
from tests.backend.gpu.streams import in_8_bits, program

TWO = TileMapping(128, 64, 64, 2, consumers=2, cluster=1, keys=48, turns=True)
MAPPINGS = {
    "two in turn": TWO,
    "three in turn": TileMapping(192, 64, 64, 3, consumers=3, cluster=1, keys=32, turns=True, slots=2),
    "two, not in turn": replace(TWO, turns=False),
    "one": TileMapping(64, 64, 64, 2, consumers=1, cluster=1, keys=64),
    "nothing in flight": replace(TWO, in_flight=0, turns=False),
    "nothing in flight, in turn": replace(TWO, in_flight=0),
    "8 bits": replace(TWO, depth=128, keys=128),
    "8 bits, nothing in flight": replace(TWO, depth=128, keys=128, in_flight=0, turns=False),
    "limbs": replace(TWO, stages=1, in_flight=0, turns=False),
    "limbs, in turn": replace(TWO, stages=1, in_flight=0, keys=32),
    "limbs, two stages": replace(TWO, stages=2, in_flight=0, turns=False, keys=32),
}
LIMBS = [name for name in MAPPINGS if name.startswith("limbs")]
IN_8_BITS = [name for name in MAPPINGS if name.startswith("8 bits")]
IN_TURN = [name for name, mapping in MAPPINGS.items() if mapping.turns]
SHORT = ["two in turn", "8 bits", "nothing in flight", "limbs"]  # where three consumers or one would say nothing new


@cache
def lowered(name: str) -> BarrierProgram:
    made = in_8_bits() if name in IN_8_BITS else program("causal", Element.F32 if name in LIMBS else Element.BF16)
    *_, kernel = limbed(in_eight_bits(kernels(made), made).kernels, made).kernels
    assert isinstance(kernel, Stream)
    results = tuple(r.value for r in kernel.results)
    values = (*made.inputs, *(operand.value for operand in kernel.operands), *results)
    return stages(kernel, MAPPINGS[name], HOPPER, values, Granted(frozenset(v.symbol for v in results))).barriers


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_what_the_compiler_makes_is_proved(mapping: str) -> None:
    assert isinstance(verify(lowered(mapping)), Proof)


def moved(op: Op) -> tuple[Op, ...]:
    """A copy from one step further along every dimension that steps."""
    assert isinstance(op, b.Copy)
    return (replace(op, at=tuple(replace(c, offset=c.offset + max(c.step, 16)) for c in op.at)),)


STAGES = {"exit", "deadlock", "phase", "content", "overwrite", "read", "count"}
MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("a dropped release", b.Release, drop, {"deadlock", "exit"}),
    ("dropped weights", t.Fold, drop, {"content"}),
    ("a dropped rounding", t.Narrow, drop, {"content"}),
    ("a dropped correction", t.Rescale, drop, {"content"}),
    ("statistics that do not begin anew", t.Reset, drop, {"content"}),
    ("statistics that are not finished", t.Finish, drop, {"content"}),
    ("a result that is not stored", b.Send, drop, {"content", "buffer"}),
    ("a loop the other way", b.Steps, lambda op: (replace(op, backwards=False),), STAGES),
    ("a product twice", b.Product, twice, {"content"}),
    ("a wider write", b.Write, with_field("width", lambda n: n + 16), {"layout"}),
    ("a copy from the piece after", b.Copy, moved, {"content"}),
    ("a doubled release", b.Release, twice, {"phase", "count", "overwrite"}),
    ("a release of the stage before", b.Release, with_field("back", lambda n: n + 1), STAGES),
    ("a release of the stage after", b.Release, with_field("back", lambda n: n - 1), STAGES | {"layout"}),
    ("a dropped announcement", b.Expect, drop, {"deadlock", "bytes"}),
    ("a doubled announcement", b.Expect, twice, {"phase", "count", "bytes"}),
    ("16 bytes more announced", b.Expect, with_field("bytes", lambda n: n + 16), {"bytes"}),
    ("16 bytes fewer announced", b.Expect, with_field("bytes", lambda n: n - 16), {"bytes"}),
    ("16 bytes more copied", b.Copy, with_field("bytes", lambda n: n + 16), {"layout"}),
    ("16 bytes fewer copied", b.Copy, with_field("bytes", lambda n: n - 16), {"layout"}),
    ("a dropped copy", b.Copy, drop, {"layout", "deadlock", "bytes"}),
    ("a doubled copy", b.Copy, twice, {"layout"}),
    ("a flipped parity", b.Await, with_field("first", lambda n: n ^ 1), {"deadlock", "read", "overwrite", "phase"}),
    ("a dropped wait", b.Await, drop, {"read", "overwrite", "phase"}),
    ("a dropped advance", b.Advance, drop, STAGES | {"layout"}),
    ("a doubled advance", b.Advance, twice, STAGES),
    ("a dropped retirement", b.Retire, drop, {"registers", "overwrite", "read"}),
    ("a retirement that leaves one more", b.Retire, with_field("pending", lambda n: n + 1), {"registers", "overwrite", "read"}),
    ("a dropped commit", b.Commit, drop, {"registers", "overwrite", "read", "exit"}),
    ("a dropped product fence", b.ProductFence, drop, {"fence"}),
    ("a dropped fence before a store", b.AsyncFence, drop, {"fence"}),
    ("a dropped meeting", b.Meet, drop, {"buffer", "fence"}),
    ("a drain that is missing", b.Drain, drop, {"exit"}),
    ("a departure that is missing", b.Depart, drop, {"exit", "deadlock"}),
    ("a loop that a role leaves at once", b.Steps, drop, STAGES),
    ("a loop that a role leaves after a step", b.Steps, body_of, STAGES),
    ("a role that makes one tile", b.Tiles, body_of, STAGES),
]


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize(("name", "kind", "change", "kinds"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_changed_operation_is_refused(name: str, kind: type, change: Change, kinds: set[str], mapping: str) -> None:
    made = lowered(mapping)
    places = list(sites(made, t.Hold if kind is t.Rescale and mapping in IN_8_BITS else kind))
    assert places
    for number, op in places:
        if isinstance(op, b.Release) and op.ring.depth == 1 and name == "a release of the stage before":
            continue  # of one stage all are the same
        refused(mutate(made, number, change), kinds, f"{name}: {op} at {number}")


def of_another_limb(op: Op) -> tuple[Op, ...]:
    """A product of the limb after its right one, of three."""
    assert isinstance(op, b.Product)
    return (replace(op, right=replace(op.right, field=(op.right.field + 1) % 3)),)


def in_another_order(op: Op) -> tuple[Op, ...]:
    """Weights whose limbs are taken for each other."""
    assert isinstance(op, t.Narrow)
    return (replace(op, target=op.rest[0], rest=(op.target, *op.rest[1:])),)


LIMB_MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("a dropped product", b.Product, drop, {"content"}),
    ("a product that keeps what it must not, or the other way", b.Product, turned_over, {"content"}),
    ("a product of another limb", b.Product, of_another_limb, {"content"}),
    ("small products that are not settled", t.Settle, drop, {"content"}),
    ("products that are settled twice", t.Settle, twice, {"content"}),
    ("a sum that is not promoted", t.Promote, drop, {"content"}),
    ("a sum that is promoted twice", t.Promote, twice, {"content"}),
    ("a sum that is promoted the wrong way round", t.Promote, exchanged, {"content"}),
    ("a sum that does not begin anew", b.Clear, drop, {"content"}),
    ("limbs of weights in another order", t.Narrow, in_another_order, {"content"}),
    ("weights without their last limb", t.Narrow, lambda op: (replace(op, rest=op.rest[:1]),), {"content"}),
    ("a copy into another limb's place", b.Copy, with_field("field", lambda n: (n + 1) % 3), {"content", "layout"}),
]


@pytest.mark.parametrize("mapping", LIMBS)
@pytest.mark.parametrize(("name", "kind", "change", "kinds"), LIMB_MUTANTS, ids=[m[0] for m in LIMB_MUTANTS])
def test_a_changed_operation_on_limbs_is_refused(name: str, kind: type, change: Change, kinds: set[str], mapping: str) -> None:
    made = lowered(mapping)
    places = [(number, op) for number, op in sites(made, kind) if not isinstance(op, b.Clear) or op.accumulator in partials(made)]
    assert places
    for number, op in places:
        refused(mutate(made, number, change), kinds, f"{name}: {op} at {number}")


def partials(made: BarrierProgram) -> list[t.Tile]:
    """The sums of its steps."""
    return [promoted.partial for promoted in made.promoted]


TURN_MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("a dropped turn", b.Turn, drop, {"turn", "deadlock"}),
    ("a doubled turn", b.Turn, twice, {"deadlock"}),
    ("a dropped pass", b.PassTurn, drop, {"deadlock", "turn"}),
    ("a doubled pass", b.PassTurn, twice, {"turn"}),
    ("a last turn that is missing", b.LastTurn, drop, {"turn"}),
    ("a last turn that comes twice", b.LastTurn, twice, {"deadlock"}),
    ("a pass by the first consumer alone", b.PassTurn, with_field("only", lambda _: 0), {"deadlock", "turn"}),
    ("a turn that all wait for at the end", b.LastTurn, lambda op: (b.Turn(3, 256),), {"deadlock", "count"}),
    *(
        (f"{name} of other threads", kind, with_field("threads", lambda n, by=by: n + by), {"count"})  # type: ignore[misc]
        for name, kind in (("a turn", b.Turn), ("a pass", b.PassTurn), ("a last turn", b.LastTurn))
        for by in (-32, 128)
    ),
    *(
        (f"{name} at another barrier", kind, with_field("first", lambda n: n + 1), {"count"})
        for name, kind in (("a turn", b.Turn), ("a pass", b.PassTurn), ("a last turn", b.LastTurn))
    ),
]  # fmt: skip


@pytest.mark.parametrize("mapping", IN_TURN)
@pytest.mark.parametrize(("name", "kind", "change", "kinds"), TURN_MUTANTS, ids=[m[0] for m in TURN_MUTANTS])
def test_a_changed_turn_is_refused(name: str, kind: type, change: Change, kinds: set[str], mapping: str) -> None:
    made = lowered(mapping)
    for number, op in sites(made, kind):
        refused(mutate(made, number, change), kinds, f"{name}: {op} at {number}")


@pytest.mark.parametrize("mapping", IN_TURN)
def test_the_first_pass_by_another_consumer_is_refused(mapping: str) -> None:
    made = lowered(mapping)
    (number, first), *_ = sites(made, b.PassTurn)
    assert isinstance(first, b.PassTurn)
    count = made.mapping.consumers
    assert first.only == count - 1
    for only in (*range(count - 1), None):
        refused(mutate(made, number, lambda op, only=only: (replace(op, only=only),)), {"deadlock", "turn"}, only)  # type: ignore[misc]


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("side", ["full", "empty"])
@pytest.mark.parametrize("more", [1, -1])
def test_a_changed_count_is_refused(side: str, more: int, mapping: str) -> None:
    made = lowered(mapping)
    assert len(made.rings) == 3
    for ring in made.rings:
        changed = with_ring(made, ring, replace(ring, **{side: getattr(ring, side) + more}))
        refused(changed, {"deadlock", "count", "phase", "overwrite", "exit"}, ring.fields[0].tile.symbol)


MOVES: list[tuple[str, type, type, set[str]]] = [
    ("a release before the retirement", b.Release, b.Retire, {"overwrite"}),
    ("scores folded before their product retired", t.Fold, b.Retire, {"registers"}),
    ("weights narrowed while a product reads the last ones", t.Narrow, b.Retire, {"registers", "content"}),
    ("an accumulator rescaled while a product adds to it", t.Rescale, b.Retire, {"registers", "content"}),
    ("a result written while its product runs", b.Write, b.Retire, {"read", "buffer"}),
    ("a product before its stage is full", b.Product, b.Await, {"read", "fence"}),
    ("a copy before its stage is empty", b.Copy, b.Await, {"overwrite", "phase", "layout"}),
    ("a stage passed on before it was waited for", b.Advance, b.Await, STAGES | {"bytes", "layout"}),
    ("a buffer sent before it is fenced", b.Send, b.AsyncFence, {"buffer", "fence"}),
]


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize(("name", "moved", "over", "kinds"), MOVES, ids=[m[0] for m in MOVES])
def test_exchanged_operations_are_refused(name: str, moved: type, over: type, kinds: set[str], mapping: str) -> None:
    overlaps = MAPPINGS[mapping].in_flight > 0
    if moved is b.Write and not overlaps:
        return  # every retirement is inside the loop
    if moved is t.Rescale and mapping in IN_8_BITS:
        moved = t.Promote
    broken = list(moves(lowered(mapping), moved, over))
    if moved is b.Copy and overlaps:
        # Consumers give back the query's stage after all stages of keys: who has waited for the one needs no wait for the others.
        query, key, *broken = broken
        refused(query, kinds, name)
        assert isinstance(verify(key), Proof)
    for number, made in enumerate(broken):
        refused(made, kinds, f"{name}, place {number}")
    assert broken


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_product_of_another_ring_is_refused(mapping: str) -> None:
    made = lowered(mapping)
    tried = 0

    def to(side: str, ring: b.Ring) -> Callable[[Op], tuple[Op, ...]]:
        return lambda op: (replace(op, **{side: b.StageField(ring, 0)}),)

    for number, op in sites(made, b.Product):
        assert isinstance(op, b.Product)
        for side in ("left", "right"):
            for ring in made.rings:
                if getattr(op, side) != b.StageField(ring, 0):
                    tried += 1
                    refused(mutate(made, number, to(side, ring)), {"content", "layout"}, f"{op}: {side}")
    assert tried


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_exchanged_rings_are_refused(mapping: str) -> None:
    """An operation on one ring that was meant for another."""
    made = lowered(mapping)
    for number, op in sites(made, (b.Await, b.Release, b.Expect, b.Advance)):
        assert isinstance(op, b.Await | b.Release | b.Expect | b.Advance)
        for ring in made.rings:
            if ring != op.ring:
                other = mutate(made, number, lambda op, ring=ring: (replace(op, ring=ring),))  # type: ignore[misc]
                refused(other, STAGES | {"bytes", "layout"}, f"{op} at {number} for {ring.fields[0].tile.symbol}")


@pytest.mark.parametrize("mapping", SHORT)
def test_every_other_place_is_refused(mapping: str) -> None:
    made = lowered(mapping)
    for number, op in sites(made, (b.Copy, b.Send)):
        assert isinstance(op, b.Copy | b.Send)
        for changed in elsewhere(op, made.descriptors):
            what = f"{op} at {number}: {changed}"
            refused(mutate(made, number, lambda _, changed=changed: (changed,)), {"content", "layout", "bytes", "buffer"}, what)


@pytest.mark.parametrize("mapping", ["two in turn", "one"])
def test_a_last_piece_that_is_not_known_is_refused(mapping: str) -> None:
    made = lowered(mapping)
    for number, _ in sites(made, b.Last):
        refused(mutate(made, number, drop), {"content"}, "no last piece")
