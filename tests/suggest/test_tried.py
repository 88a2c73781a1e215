"""How many changes are tried for an error is counted: not how long they take."""

from __future__ import annotations

import pytest

from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.source import SourceFile, Span
from axon.suggest import tried as suggestions
from axon.suggest.tried import MAX_DECLARATION, MAX_KEPT, MAX_MORE, MAX_OF_FILE, MAX_READ, MAX_TRIES, MIN_TRIES, Attempt


def tries(length: int, errors: int, helping: tuple[int, ...] = ()) -> tuple[list[int], tuple[Diagnostic, ...]]:
    """Which changes are tried for the errors of a file so long, of which some help; and what is kept."""
    source = SourceFile("<test>", "x\nval y = 1\n" + "z" * (length - 12))
    place = Span(source, 0, 1)
    changes = tuple(Suggestion(f"change {n}", (Edit(place, f"{n} "),)) for n in range(1000))
    found = tuple(Diagnostic("AX0301", f"error {n}", (Label(place, ""),), suggestions=changes) for n in range(errors))
    seen: list[int] = []

    def recheck(changed: SourceFile, _: int | None) -> Attempt:
        seen.append(int(changed.text.split()[0]))
        return Attempt(errors - (seen[-1] in helping), (), ())

    return seen, suggestions.tried(found, source, recheck)


def test_a_count_decides() -> None:
    assert len(tries(100, 1)[0]) == MAX_TRIES
    assert len(tries(100, 4)[0]) == MAX_OF_FILE // 4 * 4
    assert len(tries(MAX_READ // 10, 1)[0]) == 10
    assert len(tries(MAX_READ // 5, 2)[0]) == 10
    assert len(tries(10 * MAX_READ, 3)[0]) == MIN_TRIES  # of all three


def test_few_more_are_tried_once_one_helps() -> None:
    seen, (error,) = tries(100, 1, (3,))
    assert seen == list(range(3 + MAX_MORE + 1))
    assert [s.text for s in error.suggestions] == ["change 3"]
    seen, (error,) = tries(100, 1, (3, 5, 6))
    assert seen == list(range(6))
    assert len(error.suggestions) == MAX_KEPT


def test_none_is_tried_in_a_declaration_that_nobody_wrote() -> None:
    source = SourceFile("<test>", "x" * (MAX_DECLARATION + 1))
    place = Span(source, 0, 1)
    error = Diagnostic("AX0301", "error", (Label(place, ""),), suggestions=(Suggestion("change", (Edit(place, "y"),)),))
    (found,) = suggestions.tried((error,), source, lambda _: pytest.fail("it was tried"))
    assert found.suggestions == ()
