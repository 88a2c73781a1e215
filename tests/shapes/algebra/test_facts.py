"""Facts that branch off one another are each what a plain list of their relations is; of many, the one that suffices is found."""

from __future__ import annotations

from random import Random

from axon.base.names import Symbol, fresh
from axon.shapes.algebra.facts import Claim, Facts, claims_of
from axon.shapes.algebra.prove import Answer, prove
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import Relation
from tests.shapes.generate import relation

SYMBOLS = tuple(fresh(name) for name in "abcdef")


def random_relations(random: Random) -> list[Relation]:
    found = []
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        try:
            found.append(relation(random, SYMBOLS, 2))
        except (DimensionTooLarge, ZeroDivisionError):
            continue
    return [r for r in found if r.trivial is not True or r.left.quotients or r.right.quotients]


def claims_by_hand(relations: list[Relation], variable: Symbol) -> list[Claim]:
    return [claim for r in relations for claim in claims_of(r) if variable in claim[1].variables]


def test_branches_are_what_lists_are() -> None:
    for seed in range(40):
        random = Random(seed)
        made: list[tuple[Facts, list[Relation]]] = [(Facts(), [])]
        for _ in range(60):
            facts, plain = random.choice(made[-5:] if random.random() < 0.6 else made)
            if random.random() < 0.8 or not plain:
                new = random_relations(random)
                made.append((facts.assume(*new), [*plain, *new]))
            else:
                gone = random.choice(plain)
                made.append((facts.without(gone), [r for r in plain if r != gone]))
        for facts, plain in made:
            assert facts.relations == tuple(plain)
            for variable in SYMBOLS[:3]:
                expected = claims_by_hand(plain, variable)
                assert list(facts.about((variable,))) == expected
                first = [*facts.false(), *expected][:3]
                assert facts.relevant((variable,), 3)[: len(first)] == first


def test_of_many_facts_the_one_that_suffices_is_found() -> None:
    """n >= 2 * k for all k up to 300, and 3 <= m: what follows from the last is proved, and nothing that does not."""
    n, m = Dim.of(SYMBOLS[0]), Dim.of(SYMBOLS[1])
    facts = Facts()
    for k in range(1, 301):
        before = facts
        facts = facts.assume(Relation(n, ">=", Dim.of(2 * k)))
        before.assume(Relation(m, "=", Dim.of(k)))  # a branch, which says nothing here
    assert prove(facts, Relation(n, ">=", Dim.of(600))) is Answer.PROVED
    assert prove(facts, Relation(n, ">=", Dim.of(601))) is Answer.UNKNOWN
    assert prove(before, Relation(n, ">=", Dim.of(598))) is Answer.PROVED
    assert prove(before, Relation(n, ">=", Dim.of(600))) is Answer.UNKNOWN
    assert prove(facts.without(Relation(n, ">=", Dim.of(600))), Relation(n, ">=", Dim.of(600))) is Answer.UNKNOWN


def test_what_an_index_runs_over_is_seen_beside_many_facts_of_a_size() -> None:
    """i < n - 400 and j < 7 keep n - i - j above 390, whatever else is known of n."""
    n, i, j, r = (Dim.of(s) for s in SYMBOLS[:4])
    facts = Facts().assume(*(Relation(n + k * r, ">=", Dim.of(2 * k)) for k in range(1, 100)))
    facts = facts.assume(Relation(i, "<", n - 400), Relation(j, "<", Dim.of(7)))
    assert prove(facts, Relation(i + j, "<=", n - 395)) is Answer.PROVED
    assert prove(facts, Relation(i + j, "<=", n - 396)) is Answer.UNKNOWN
