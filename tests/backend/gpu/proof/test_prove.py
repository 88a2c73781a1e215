"""The proof accepts what the compiler makes, and refuses every way of breaking it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Proof, Violation
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.proof.skeleton import skeleton
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.limbs import limbed
from axon.backend.gpu.tile.schedule import TileMapping
from axon.base.element import Element
from tests.backend.gpu.programs import STORES, Case, contraction, gelu
from tests.backend.gpu.proof.mutants import (
    Change,
    body_of,
    drop,
    elsewhere,
    exchanged,
    moves,
    mutate,
    of_another_limb,
    refused,
    sites,
    turned_over,
    twice,
    with_field,
    with_ring,
)
from tests.sample import ALL

SMALL = TileMapping(128, 128, 64, stages=3, cluster=2, slots=2)
TOGETHER = replace(SMALL, stages=4, specialized=False)
APART = TileMapping(64, 128, 64, stages=3, cluster=1, slots=2, turns=True)
MAPPINGS = {
    "as found best": TileMapping(),
    "no cluster": TileMapping(cluster=1),
    "nothing in flight": TileMapping(in_flight=0),
    "two in flight": TileMapping(in_flight=2),
    "one consumer": TileMapping(64, 128, stages=6, consumers=1),
    "three consumers": TileMapping(192, 128, stages=4, consumers=3, cluster=1),
    "a cluster over columns": TileMapping(256, 128, cluster_over="columns"),
    "a cluster of four": TileMapping(128, 256, cluster=4),
    "eight stages": TileMapping(64, 64, stages=8, consumers=1, cluster=1),
    "two slots": SMALL,
    "one role": TOGETHER,
    "in turn": APART,
    "in turn, in a cluster": replace(APART, cluster=2, cluster_over="columns", stages=4),
    "in turn, 128 rows each": replace(APART, rows=128, columns=128, stages=4),
    "in turn, three consumers": replace(APART, consumers=3),
    "in turn, two in flight": replace(APART, in_flight=2),
    "in turn, two stages": replace(APART, stages=2),
    "one role, one warpgroup": TileMapping(64, 64, 64, stages=2, in_flight=0, consumers=1, cluster=1, specialized=False),
    "one role, five pieces ahead": TileMapping(128, 64, 64, stages=6, in_flight=0, specialized=False),
    "one role, two in flight": TileMapping(192, 128, stages=4, in_flight=2, consumers=3, cluster=1, specialized=False),
}


def lowered(case: Case, mapping: TileMapping, *, stores: str = "boxes") -> BarrierProgram:
    *_, kernel = limbed(kernels(case.program), case.program).kernels
    assert isinstance(kernel, MatrixProduct)
    results = frozenset(r.value.symbol for r in kernel.results)
    values = (*(o.value for o in kernel.operands), *(r.value for r in kernel.results))
    return stages(kernel, mapping, HOPPER, values, STORES[stores](results)).barriers


@pytest.mark.parametrize("mapping", MAPPINGS.values(), ids=MAPPINGS)
def test_what_the_compiler_makes_is_proved(mapping: TileMapping) -> None:
    assert isinstance(verify(lowered(contraction("ik,jk->ij"), mapping)), Proof)


@pytest.mark.parametrize("stores", STORES)
@pytest.mark.parametrize("axes", ["ik,kj->ij", "ki,jk->ij", "ki,kj->ij", "bshd,bthd->bhst"])
def test_every_layout_is_proved(axes: str, stores: str) -> None:
    for result in (Element.BF16, Element.F32):
        assert isinstance(verify(lowered(contraction(axes, result=result), SMALL, stores=stores)), Proof)


def test_kernels_that_one_schedule_cuts_alike_have_one_proof() -> None:
    """What they compute of each element, and what they are called, is no part of it; whatever anyone waits for is."""
    first = lowered(contraction("ik,jk->ij"), SMALL)
    other = lowered(contraction("ab,cb->ac", epilogue=lambda x, _, __: gelu(x, Element.BF16)), SMALL)
    assert first != other
    assert skeleton(first) == skeleton(other) == skeleton(skeleton(first))
    assert verify(first) == verify(other)
    assert skeleton(first) != skeleton(lowered(contraction("ik,jk->ij"), replace(SMALL, stages=4)))
    for number, _ in sites(other, object):
        assert skeleton(mutate(other, number, drop)) != skeleton(first)


# ── mutants ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

OPERATION_MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("a dropped release", b.Release, drop, {"deadlock", "exit"}),
    ("a doubled release", b.Release, twice, {"phase", "count", "overwrite"}),
    ("a dropped announcement", b.Expect, drop, {"deadlock", "bytes"}),
    ("a doubled announcement", b.Expect, twice, {"phase", "count", "bytes"}),
    ("16 bytes more announced", b.Expect, with_field("bytes", lambda n: n + 16), {"bytes"}),
    ("16 bytes fewer announced", b.Expect, with_field("bytes", lambda n: n - 16), {"bytes"}),
    ("16 bytes more copied", b.Copy, with_field("bytes", lambda n: n + 16), {"layout"}),
    ("a dropped copy", b.Copy, drop, {"layout"}),
    ("a doubled copy", b.Copy, twice, {"layout"}),
    ("a copy to another place", b.Copy, with_field("offset", lambda n: n + 1024), {"layout"}),
    ("a flipped parity", b.Await, with_field("first", lambda n: n ^ 1), {"deadlock", "read", "overwrite", "phase"}),
    ("a dropped wait", b.Await, drop, {"read", "overwrite", "phase"}),
    ("a dropped advance", b.Advance, drop, {"exit", "deadlock", "phase", "content", "overwrite", "count"}),
    ("a doubled advance", b.Advance, twice, {"exit", "deadlock", "phase", "content", "read"}),
    (
        "a release of the stage before",
        b.Release,
        with_field("back", lambda n: n + 1),
        {"overwrite", "phase", "deadlock", "exit", "count"},
    ),
    (
        "a release of the stage after",
        b.Release,
        with_field("back", lambda n: n - 1),
        {"overwrite", "phase", "deadlock", "exit", "count", "layout"},
    ),
    ("a release of this block alone", b.Release, lambda op: (replace(op, cluster=False),), {"deadlock", "exit"}),
    ("a dropped retirement", b.Retire, drop, {"overwrite", "read"}),
    ("a retirement that leaves one more in flight", b.Retire, with_field("pending", lambda n: n + 1), {"overwrite", "read"}),
    ("a dropped commit", b.Commit, drop, {"overwrite", "read", "exit"}),
    ("a dropped product fence", b.ProductFence, drop, {"fence"}),
    ("a dropped fence before a store", b.AsyncFence, drop, {"fence"}),
    ("a dropped meeting", b.Meet, drop, {"buffer", "fence"}),
    ("a meeting at another barrier", b.Meet, with_field("barrier", lambda n: n + 1), {"count"}),
    ("a meeting of one warp fewer", b.Meet, with_field("threads", lambda n: n - 32), {"count"}),
    ("a dropped reclaim", b.Reclaim, drop, {"buffer"}),
    ("a reclaim that leaves one more", b.Reclaim, with_field("pending", lambda n: n + 1), {"buffer"}),
    ("a write to the other slot", b.Write, with_field("slot", lambda n: n ^ 1), {"buffer", "content"}),
    ("a store of the other slot", b.Send, with_field("slot", lambda n: n ^ 1), {"buffer", "content"}),
    ("a drain that is missing", b.Drain, drop, {"exit"}),
    ("a departure that is missing", b.Depart, drop, {"exit", "deadlock"}),
    ("a loop that a role leaves at once", b.Steps, drop, {"exit", "deadlock", "content"}),
    ("a loop that a role leaves after a step", b.Steps, body_of, {"exit", "deadlock", "content", "phase", "overwrite"}),
    ("a role that makes one tile", b.Tiles, body_of, {"exit", "deadlock", "phase", "overwrite"}),
]


@pytest.mark.parametrize("mapping", [SMALL, TOGETHER, replace(APART, cluster=2)], ids=["specialized", "one role", "in turn"])
@pytest.mark.parametrize(("name", "kind", "change", "allowed"), OPERATION_MUTANTS, ids=[m[0] for m in OPERATION_MUTANTS])
def test_a_changed_operation_is_refused(name: str, kind: type, change: Change, allowed: set[str], mapping: TileMapping) -> None:
    program = lowered(contraction("ik,jk->ij"), mapping)
    places = list(sites(program, kind))
    assert places
    if kind is b.Tiles and not mapping.specialized:
        assert isinstance(verify(mutate(program, places[0][0], change)), Proof)  # a kernel of one tile: nobody else goes on
        return
    for number, op in places:
        refused(mutate(program, number, change), allowed, f"{name}: {op} at {number}")


# ── tiles in turn ───────────────────────────────────────────────────────────────────────────────────────────────────────

APART_MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("a dropped turn", b.Turn, drop, {"turn", "deadlock", "phase"}),
    ("a doubled turn", b.Turn, twice, {"deadlock"}),
    ("a dropped pass", b.PassTurn, drop, {"deadlock", "turn"}),
    ("a doubled pass", b.PassTurn, twice, {"turn"}),
    ("a pass by the first consumer alone", b.PassTurn, with_field("only", lambda _: 0), {"deadlock", "turn"}),
    ("a last turn that is missing", b.LastTurn, drop, {"turn"}),
    ("a last turn that comes twice", b.LastTurn, twice, {"deadlock"}),
    ("a turn that all wait for at the end", b.LastTurn, lambda op: (b.Turn(op.first, op.threads),), {"deadlock"}),
    ("a part of a tile that is done for all", b.IfOwn, body_of, {"exit", "phase", "turn", "deadlock"}),
    ("a part of a tile that is left out", b.IfOwn, drop, {"exit"}),
    ("a part of a tile that is empty", b.IfOwn, lambda op: (replace(op, body=()),), {"exit"}),
    ("a tile that is taken for another's", b.IfOwn, lambda op: (replace(op, own=not op.own),), {"exit", "phase", "deadlock"}),
]


def test_the_mutants_of_turns_are_of_what_is_there() -> None:
    made = lowered(contraction("ik,jk->ij"), APART)
    assert {type(op) for role in made.roles for op in b.operations(role.body)} >= {kind for _, kind, _, _ in APART_MUTANTS}


@pytest.mark.parametrize("mapping", [APART, replace(APART, consumers=3)], ids=["two", "three"])
@pytest.mark.parametrize(("name", "kind", "change", "allowed"), APART_MUTANTS, ids=[m[0] for m in APART_MUTANTS])
def test_a_changed_turn_is_refused(name: str, kind: type, change: Change, allowed: set[str], mapping: TileMapping) -> None:
    program = lowered(contraction("ik,jk->ij"), mapping)
    for number, op in sites(program, kind):
        refused(mutate(program, number, change), allowed, f"{name}: {op} at {number}")


@pytest.mark.parametrize(
    ("moved", "over", "allowed"),
    [
        (b.Turn, b.Clear, None),  # earlier, and still in turn
        (b.Steps, b.Turn, {"phase", "turn", "deadlock"}),  # a loop before its turn
        (b.PassTurn, b.Steps, {"phase", "turn", "deadlock"}),  # a turn that is passed before the loop
    ],
)
def test_the_loop_is_the_turn(moved: type, over: type, allowed: set[str] | None) -> None:
    """Without it a wait could pass a round early: nobody else says that the stages of the tile before were full."""
    found = list(moves(lowered(contraction("ik,jk->ij"), APART), moved, over))
    assert found
    for made in found:
        if allowed is None:
            assert isinstance(verify(made), Proof)
        else:
            refused(made, allowed, (moved, over))


def test_a_ring_is_passed_by_once_for_each_tile_of_another() -> None:
    program = lowered(contraction("ik,jk->ij"), APART)
    number, skipped = next((n, op) for n, op in sites(program, b.IfOwn) if isinstance(op, b.IfOwn) and not op.own)
    assert isinstance(skipped, b.IfOwn)
    for body in (skipped.body * 2, (*skipped.body, b.Advance(program.rings[0])), ()):
        broken = mutate(program, number, lambda op, body=body: (replace(op, body=body),))  # type: ignore[misc]
        refused(broken, {"exit", "content", "phase", "deadlock"}, body)
    (loop,) = skipped.body
    assert isinstance(loop, b.Steps)
    cleared = next(op for _, op in sites(program, b.Clear))
    more = mutate(program, number, lambda op: (replace(op, body=(*skipped.body, cleared)),))
    refused(more, {"content"}, "work on another's tile")
    outside = mutate(program, number, lambda op: (op, cleared))
    refused(outside, {"content"}, "work on all tiles")
    waiting = replace(loop, body=(b.Await(program.rings[0], "full", 0), *loop.body))
    refused(mutate(program, number, lambda op: (replace(op, body=(waiting,)),)), {"phase"}, "a wait for another's stages")


def test_a_program_whose_tiles_are_shared_does_not_ask_whose_they_are() -> None:
    program = lowered(contraction("ik,jk->ij"), SMALL)
    *_, (number, _) = sites(program, b.Tiles)
    asked = mutate(program, number, lambda op: (replace(op, body=(b.IfOwn(True, op.body),)),))
    refused(asked, {"exit"}, "shared tiles")


# ── factors in limbs ────────────────────────────────────────────────────────────────────────────────────────────────────

LIMBS = TileMapping(128, 64, stages=2, in_flight=0)
LIMB_MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("a dropped product", b.Product, drop, {"content"}),
    ("a doubled product", b.Product, twice, {"content"}),
    ("a product that keeps what it must not, or the other way", b.Product, turned_over, {"content"}),
    ("a product of another limb", b.Product, of_another_limb, {"content"}),
    ("small products that are not settled", t.Settle, drop, {"content"}),
    ("a sum that is not promoted", t.Promote, drop, {"content"}),
    ("a sum that is promoted twice", t.Promote, twice, {"content"}),
    ("a sum that is promoted the wrong way round", t.Promote, exchanged, {"content"}),
    ("a dropped retirement", b.Retire, drop, {"registers", "overwrite", "read"}),
    ("a dropped product fence", b.ProductFence, drop, {"fence"}),
    ("a dropped copy", b.Copy, drop, {"layout"}),
    ("a copy into another limb's place", b.Copy, with_field("field", lambda n: (n + 1) % 3), {"content", "layout"}),
    ("a dropped release", b.Release, drop, {"deadlock", "exit"}),
]


@pytest.mark.parametrize(("name", "kind", "change", "allowed"), LIMB_MUTANTS, ids=[m[0] for m in LIMB_MUTANTS])
def test_a_changed_operation_on_limbs_is_refused(name: str, kind: type, change: Change, allowed: set[str]) -> None:
    program = lowered(contraction("ik,jk->ij", Element.F32), LIMBS)
    places = list(sites(program, kind))
    assert places
    for number, op in places:
        refused(mutate(program, number, change), allowed, f"{name}: {op} at {number}")


@pytest.mark.parametrize(("moved", "over"), [(t.Settle, b.Retire), (t.Promote, b.Retire), (b.Release, b.Retire)])
def test_work_on_limbs_that_comes_before_the_products_are_done_is_refused(moved: type, over: type) -> None:
    program = lowered(contraction("ik,jk->ij", Element.F32), LIMBS)
    assert isinstance(verify(program), Proof)
    found = list(moves(program, moved, over))
    assert found
    for broken in found:
        refused(broken, {"registers", "overwrite", "content"}, (moved, over))


@pytest.mark.parametrize("side", ["full", "empty"])
@pytest.mark.parametrize("more", [1, -1])
def test_a_changed_count_is_refused(side: str, more: int) -> None:
    program = lowered(contraction("ik,jk->ij"), SMALL)
    (ring,) = program.rings
    changed = with_ring(program, ring, replace(ring, **{side: getattr(ring, side) + more}))
    refused(changed, {"deadlock", "count", "phase", "overwrite", "exit"}, f"{side} {more}")


def test_a_release_before_its_retirement_is_refused() -> None:
    program = lowered(contraction("ik,jk->ij"), replace(SMALL, in_flight=0))
    retire = next(op for _, op in sites(program, b.Retire))
    for number, _ in sites(program, b.Release):
        moved = mutate(program, number, lambda op: (op, retire))
        first = next(n for n, op in sites(moved, b.Retire))
        answer = verify(mutate(moved, first, drop))
        assert isinstance(answer, Violation)
        assert answer.kind == "overwrite"


def test_exchanged_stages_are_refused() -> None:
    program = lowered(contraction("ik,jk->ij"), SMALL)
    (advance, _), *_ = sites(program, b.Advance)
    (expect, announced), *_ = sites(program, b.Expect)
    exchanged = mutate(mutate(program, advance, drop), expect, lambda op: (b.Advance(announced.ring), op))
    answer = verify(exchanged)
    assert isinstance(answer, Violation)
    assert answer.kind in {"overwrite", "phase", "deadlock", "content"}


def test_unpublished_barriers_and_shared_memory_with_two_owners_are_refused() -> None:
    program = lowered(contraction("ik,jk->ij"), SMALL)
    unfenced = verify(replace(program, fenced=False))
    assert isinstance(unfenced, Violation)
    assert unfenced.kind == "setup"
    (buffer,) = program.buffers
    overlapping = verify(replace(program, buffers=(replace(buffer, offset=buffer.offset - 1024),)))
    assert isinstance(overlapping, Violation)
    assert overlapping.kind == "layout"


ALONE_MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("all do what is for one", b.Alone, body_of, {"bytes", "count", "phase", "overwrite", "deadlock"}),
    ("nobody does what is for one", b.Alone, drop, {"deadlock", "exit", "content", "read"}),
    (
        "a piece is put, whether there is one or not",
        b.IfPiece,
        body_of,
        {"deadlock", "phase", "exit", "count", "overwrite", "content"},
    ),
    ("a piece too few is put", b.IfPiece, with_field("number", lambda n: n + 1), {"deadlock", "exit", "content"}),
    (
        "a piece too many is put",
        b.IfPiece,
        with_field("number", lambda n: n - 1),
        {"deadlock", "phase", "exit", "overwrite", "content"},
    ),
    *(
        (f"{name} {more} ahead", kind, with_field("ahead", lambda n, by=by: n + by), kinds)  # type: ignore[misc]
        for name, kind, kinds in (
            ("a wait", b.Await, {"deadlock", "phase", "overwrite", "read", "exit"}),
            ("an announcement", b.Expect, {"deadlock", "phase", "bytes", "count", "exit"}),
            ("a copy", b.Copy, {"deadlock", "phase", "bytes", "overwrite", "content", "layout", "exit"}),
        )
        for more, by in (("one more", 1), ("one less", -1))
    ),
]


@pytest.mark.parametrize(("name", "kind", "change", "allowed"), ALONE_MUTANTS, ids=[m[0] for m in ALONE_MUTANTS])
def test_a_change_to_what_one_thread_does_is_refused(name: str, kind: type, change: Change, allowed: set[str]) -> None:
    program = lowered(contraction("ik,jk->ij"), TOGETHER)
    for number, op in sites(program, kind):
        refused(mutate(program, number, change), allowed, f"{name}: {op} at {number}")


# ── what moves where ────────────────────────────────────────────────────────────────────────────────────────────────────

TWO_FIELDS = replace(SMALL, cluster=1)
CONTENT_MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("a wider write", b.Write, with_field("width", lambda n: n + 16), {"layout"}),
    ("a much wider write", b.Write, with_field("width", lambda n: n + 1024), {"layout"}),
    ("a write of other columns", b.Write, with_field("column", lambda n: n + 16), {"content"}),
    ("a write of other rows", b.Write, with_field("block", lambda n: n + 1), {"content"}),
    ("a store that is missing", b.Send, drop, {"content", "buffer"}),
    ("a copy that depends on the rank", b.Copy, with_field("by_rank", lambda n: n + 1024), {"layout", "content"}),
    ("a copy of another field", b.Copy, with_field("field", lambda n: n ^ 1), {"content", "layout"}),
    ("a copy of no field", b.Copy, with_field("field", lambda n: n + 16), {"layout"}),
    ("a product twice", b.Product, twice, {"content"}),
    ("a product of a block that is none", b.Product, with_field("block", lambda n: n + 1), {"content"}),
    ("a product that forgets", b.Product, lambda op: (replace(op, keep="never"),), {"content"}),
    ("a product that never begins anew", b.Product, lambda op: (replace(op, keep="always"),), {"content"}),
    (
        "a product of the other field",
        b.Product,
        lambda op: (replace(op, left=replace(op.left, field=op.left.field ^ 1)),),
        {"content"},
    ),
    ("a product of no field", b.Product, lambda op: (replace(op, right=replace(op.right, field=7)),), {"layout"}),
    ("a loop the other way", b.Steps, lambda op: (replace(op, backwards=True),), {"content", "deadlock", "exit"}),
    ("a retirement of less than nothing", b.Retire, with_field("pending", lambda n: -1), {"count"}),
    ("a reclaim of less than nothing", b.Reclaim, with_field("pending", lambda n: -1), {"count"}),
]


@pytest.mark.parametrize("mapping", [SMALL, TWO_FIELDS, APART], ids=["cluster", "alone", "in turn"])
@pytest.mark.parametrize(("name", "kind", "change", "allowed"), CONTENT_MUTANTS, ids=[m[0] for m in CONTENT_MUTANTS])
def test_what_is_about_other_data_is_refused(
    name: str, kind: type, change: Change, allowed: set[str], mapping: TileMapping
) -> None:
    program = lowered(contraction("ik,jk->ij"), mapping)
    for number, op in sites(program, kind):
        refused(mutate(program, number, change), allowed, f"{name}: {op} at {number}")


@pytest.mark.parametrize("mapping", [SMALL, TWO_FIELDS, TOGETHER, APART], ids=["cluster", "alone", "one role", "in turn"])
@pytest.mark.parametrize(("axes", "stores"), [("ik,jk->ij", "boxes"), ("ki,kj->ij", "boxes"), ("ik,jk->ij", "rows")])
def test_every_other_place_is_refused(axes: str, stores: str, mapping: TileMapping) -> None:
    """Copies and stores of another box, another tensor, or from another place along any dimension."""
    program = lowered(contraction(axes), mapping, stores=stores)
    changes = []
    for number, op in sites(program, (b.Copy, b.Send)):
        assert isinstance(op, b.Copy | b.Send)
        changes += [(number, op, changed) for changed in elsewhere(op, program.descriptors)]
    # One role fills its stages in as many operations before it begins, which are alike.
    for number, op, changed in changes if ALL or mapping.specialized else changes[::4]:
        what = f"{op} at {number}: {changed}"
        refused(mutate(program, number, lambda _, changed=changed: (changed,)), {"content", "layout", "bytes", "buffer"}, what)
