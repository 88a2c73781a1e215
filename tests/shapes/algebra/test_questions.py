"""Questions of one form have one answer, and forms are looked for as long as they come again."""

from __future__ import annotations

from random import Random

from axon.base.names import fresh
from axon.shapes.algebra.facts import Facts
from axon.shapes.algebra.prove import Answer, prove
from axon.shapes.algebra.questions import form
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from tests.shapes.generate import relation, sets


def test_questions_of_one_form_have_one_answer() -> None:
    """About new indices each time, below extents of few kinds."""
    again = 0
    for seed in range(sets(20)):
        random = Random(seed)
        sizes = tuple(fresh(name) for name in "nm")
        facts = Facts().assume(*(relation(random, sizes, 1) for _ in range(random.randrange(3))))
        answers: dict[object, Answer] = {}
        n, m = map(Dim.of, sizes)
        for _ in range(60):
            bound = [fresh(name) for name in "pq"]
            p, q = map(Dim.of, bound)
            extents = random.choice([(n, m), (n, n - 1), (n // 2, Dim.of(2)), (Dim.of(3), p + 1)])
            index = random.choice([p, q, p + q, 2 * p + q, p // 2, (p + q) % n])
            asked = Relation(index, random.choice(["<", ">="]), random.choice([n, m, n + m, Dim.of(0)]))
            if random.random() < 0.3:  # the older one is inside
                bound.reverse()
            known = form(bound, [asked.left, asked.right, *extents], facts)
            assert known is not None
            about = facts
            for symbol, extent in zip(bound, extents, strict=True):
                about = about.index(symbol, extent)
            answer = prove(about, asked)
            key = asked.op, known
            again += key in answers
            assert answers.setdefault(key, answer) is answer
    assert again > 50


def test_names_do_not_matter_and_ages_do() -> None:
    n = fresh("n")
    p, q, r, s = (fresh(name) for name in "pqrs")
    facts = Facts()

    def asked(one, other):
        return form([one, other], [Dim.of(one) - 2 * Dim.of(other), Dim.of(n)], facts)

    assert asked(p, q) == asked(r, s) != asked(s, r)
    assert form([p], [Dim.of(p)], facts) != form([], [Dim.of(p)], facts) != form([], [Dim.of(q)], facts)


def test_what_facts_speak_of_has_no_form() -> None:
    p, n = fresh("p"), fresh("n")
    facts = Facts().index(p, Dim.of(n))
    assert form([p], [Dim.of(p)], facts) is None
    assert form([fresh("q")], [Dim.of(p)], facts) is not None


def test_what_does_not_come_again_is_hardly_looked_for() -> None:
    found = Facts().found("kind")
    for question in range(100):
        assert found.get(question) is None
        found.keep(question, question)
    assert sum(not found.idle for _ in range(80)) == 10
    for question in range(100):
        assert found.get(question) == question
    assert not any(found.idle for _ in range(80))
