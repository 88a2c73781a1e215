"""Suggestions are tried before they are shown: a change of the source is kept only if the checker finds less to say after it.

Each kind of error proposes changes, the likeliest first; two that pass are enough for a reader. How many are tried is counted, so
that every run and every machine finds the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from axon.base.data import dataclass, replace
from axon.base.diagnostics import Change, Diagnostic, Edit, Suggestion
from axon.base.source import SourceFile, Span
from axon.types.show import symbols_of
from axon.types.type import Scheme
from axon.types.unify import State

MAX_TRIES = 48  # checks of a changed file for one diagnostic …
MAX_OF_FILE = 96  # … and for all of a file, …
MIN_TRIES = 6  # … of which each has so many while there are any
MAX_READ = 120_000  # characters that are checked for one diagnostic, and twice as many for all: fewer tries in long files
MAX_DECLARATION = 5_000  # characters of a declaration in which changes are tried: nobody writes longer ones, programs do
MAX_MORE = 8  # tries after one that helps
MAX_KEPT = 2  # suggestions with edits of one diagnostic
_DECLARATION = re.compile(r"^(fun|val|sig|type|import)\b", re.MULTILINE)
_INDICES = (Change.SWAPPED, Change.MOVED, Change.INDEX)
_LATER = (Change.ROWS, Change.TOLD)  # after these what is wrong next may be mended likewise
_BOUNDS = ("AX0302", "AX0303")  # where a call may well be asked whether a range is empty
TRIED = ("AX02", "AX03")  # the codes of types and sizes; a misspelt name is corrected in any case


def needs_trial(diagnostic: Diagnostic) -> bool:
    """Whether suggestions of a diagnostic are shown only once the checker has accepted them."""
    return diagnostic.code.startswith(TRIED) and any(s.edits for s in diagnostic.suggestions)


def withheld(diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic without suggestions that have not been tried."""
    if not needs_trial(diagnostic):
        return diagnostic
    return replace(diagnostic, suggestions=tuple(s for s in diagnostic.suggestions if not s.edits))


Generality = tuple[int, ...]


def generality(schemes: Iterable[Scheme], state: State) -> Generality:
    """What a use of some declarations still decides: types, numbers of dimensions, element types and sizes. Of two repairs of a
    file the greater one says less that its author did not say: a size that is stated to be another is one size less, like one
    that is fixed.
    """
    types = runs = elements = sizes = 0
    for scheme in schemes:
        found = set(symbols_of(state, scheme.type))
        equal = sum(fact.relation.op == "=" for fact in scheme.facts)
        types, elements = types + len(scheme.types), elements + len(scheme.elements)
        runs, sizes = runs + len(found & {*scheme.rows}), sizes + len(found & {*scheme.dims, *scheme.explicit}) - equal
    return types, runs, elements, sizes


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the checker says of a changed file: how many errors there are, where facts of contracts come from, and the errors."""

    errors: int
    facts: tuple[Span, ...]
    found: tuple[Diagnostic, ...] | None = None
    general: Callable[[], Generality] = tuple  # how much the declarations still leave to who calls them, where somebody asks


Recheck = Callable[[SourceFile, int | None], Attempt | None]  # of a file with so many errors or more None says enough


class _Budget:
    """What may still be tried for a diagnostic: so many checks."""

    def __init__(self, tries: int) -> None:
        self.tries = tries
        self.spent = 0

    @property
    def left(self) -> bool:
        return self.tries > 0

    def spend(self) -> None:
        self.tries -= 1
        self.spent += 1

    def helped(self, enough: bool) -> None:
        """Something helps: only a few more are looked at, or none where that is `enough`."""
        self.tries = 0 if enough else min(self.tries, MAX_MORE)


def _tries(diagnostic: Diagnostic, diagnostics: Sequence[Diagnostic], source: SourceFile) -> int:
    """How many changes are tried for one diagnostic of a file: a file that is long, or has many errors, would take too long."""
    begin, end = _declaration(source, diagnostic.span.start if diagnostic.span is not None else 0)
    if end - begin > MAX_DECLARATION:
        return 0
    several = sum(d.code.startswith(TRIED) for d in diagnostics)
    return max(MIN_TRIES, min(MAX_TRIES, MAX_OF_FILE // max(several, 1), MAX_READ // max(len(source.text), 1)))


def tried(
    diagnostics: Sequence[Diagnostic],
    source: SourceFile,
    recheck: Recheck,
    solve: Callable[[Span], Iterable[str]] = lambda _: (),
) -> tuple[Diagnostic, ...]:
    """The diagnostics of a file with the suggestions that help. `recheck` checks a changed file; `solve` gives what may stand in
    the place of a written size for the rest to fit.
    """
    out: list[Diagnostic] = []
    errors = sum(d.severity == "error" for d in diagnostics)
    whole = max(MIN_TRIES, min(MAX_OF_FILE, 2 * MAX_READ // max(len(source.text), 1)))  # for all of the file
    for diagnostic in diagnostics:
        if not diagnostic.code.startswith(TRIED):
            out.append(_accepted(diagnostic, source, recheck))
            continue
        budget = _Budget(min(whole, _tries(diagnostic, diagnostics, source)) if whole else 0)
        kept: list[Suggestion] = []
        general: list[Callable[[], Generality]] = []
        for suggestion in _filled(diagnostic.suggestions, solve, budget):
            if not suggestion.edits or not budget.left or any(_needless(suggestion, s) for s in kept):
                continue
            stated = suggestion.change is Change.FACT  # which is what a call is then asked
            settled = not stated and diagnostic.code not in _BOUNDS and (bool(kept) or not suggestion.asks)
            budget.spend()
            warned = diagnostic.severity == "warning"
            later = suggestion.change in _LATER
            fewer = None if warned or later else errors
            tried_ = _attempt(source, suggestion.edits, recheck, settled, fewer)
            if tried_ is None:
                continue
            attempt, changed = tried_
            fresh = _fresh(attempt, diagnostics)
            again = len(fresh) == 1 and _again(fresh[0], suggestion, changed, recheck, errors)
            bounds = diagnostic.code in _BOUNDS
            helps = attempt.errors < errors and not fresh and (bounds or not _still_wrong(attempt, changed, suggestion))
            if warned:
                left = sum(d.message == diagnostic.message for d in attempt.found or ())
                helps = attempt.errors <= errors and not fresh and left < sum(d.message == diagnostic.message for d in diagnostics)
            if helps or again:
                kept.append(replace(suggestion, checked=attempt.errors == 0))
                general.append(attempt.general)
                budget.helped(len(kept) == MAX_KEPT)
        whole -= budget.spent
        order = list(range(len(kept)))
        if len(kept) > 1 and all(s.checked for s in kept):  # of equals the likelier one stays before
            order.sort(key=lambda n: general[n](), reverse=True)
        in_words = () if kept else tuple(s for s in diagnostic.suggestions if not s.edits)
        out.append(replace(diagnostic, suggestions=(*_placed([kept[n] for n in order], source), *in_words)))
    return tuple(out)


def _accepted(diagnostic: Diagnostic, source: SourceFile, recheck: Recheck) -> Diagnostic:
    """One whose suggestions are shown in any case: of those that group indices otherwise, it is said if the file then passes."""

    def passes(s: Suggestion) -> bool:
        attempt = _attempt(source, s.edits, recheck, False, None) if s.edits and s.change is Change.GROUPED else None
        return attempt is not None and attempt[0].errors == 0

    return replace(diagnostic, suggestions=tuple(replace(s, checked=s.checked or passes(s)) for s in diagnostic.suggestions))


def _placed(kept: list[Suggestion], source: SourceFile) -> list[Suggestion]:
    """Suggestions of the same kind for accesses on several lines, each with its line."""
    lines = [source.position(min(e.span.start for e in s.edits))[0] for s in kept]
    alike = len({s.change for s in kept}) == 1 and kept[0].change in _INDICES
    if len(kept) < 2 or not alike or len(set(lines)) < len(lines):
        return kept
    return [replace(s, text=s.text.replace(": `", f" on line {n}: `", 1)) for s, n in zip(kept, lines, strict=True)]


def _needless(more: Suggestion, kept: Suggestion) -> bool:
    """Whether nobody who sees one suggestion wants another: it is the same or does more than is enough, or it is a way out where
    the other says what was meant.
    """

    both = {more.change, kept.change}
    resized = more.change is Change.SIZE
    if more.text == kept.text or set(kept.edits) <= set(more.edits) or kept.change in (Change.PARENTHESES, Change.TOLD):
        return True
    if kept.change is Change.ARRANGED:
        return more.change is not Change.ARRANGED  # by sizes alone, much fits
    if both in ({Change.ROWS}, {Change.GROUPED}, {Change.CAST}):  # by the first that fits
        return True
    if Change.INDEX in both and both <= set(_INDICES):
        return True  # what is indexed otherwise has its index elsewhere no longer
    if more.change is Change.MOVED:
        return True  # the largest of these changes
    if more.change is Change.FACT and kept.change is not Change.SIZE:
        return True  # a slip was found: the sizes were named apart for a reason
    given = resized and "{" in more.text
    if (more.change is Change.BOUND or given) and kept.change in _INDICES:
        return True
    if resized and any(_listed(more.text).count(e.text) > 1 for e in more.edits):
        return True  # a square that nobody asked for
    idle = given and any(e.text == "1" for e in more.edits)  # a stride or a window of 1: the call does nothing then
    divided = resized and any("/" in e.text and "/" not in e.span.text for e in more.edits)
    return idle or divided or (more.change in (Change.ZEROS, Change.BOUND) and kept.change is Change.SLIP)


def _listed(text: str) -> list[str]:
    """What stands between commas in the brackets of a text."""
    found = re.search(r"\[(.*)\]", text)
    return [size.strip() for size in found[1].split(",")] if found is not None else []


def _filled(suggestions: Iterable[Suggestion], solve: Callable[[Span], Iterable[str]], budget: _Budget) -> Iterator[Suggestion]:
    """The suggestions, blank ones with what they turn out to be: to find that costs a check."""
    for suggestion in suggestions:
        if not suggestion.blank:
            yield suggestion
        elif budget.left:
            budget.spend()
            written = " ".join(suggestion.edits[0].span.text.split())
            found = solve(suggestion.edits[0].span)
            yield from (suggestion.filled(text) for text in found if _meant(written, text, suggestion.asks))


def _meant(written: str, size: str, asks: bool) -> bool:
    """Whether someone who wrote one size may have meant another: not where that is another name, a number for a name, or a
    quotient for what is none, unless that is a plain one and a size may be asked of a call (`asks`)."""
    quotient = "/" in size and "/" not in written and not (asks and re.fullmatch(r"\w+ / \w+", size))
    if size == written or quotient or (size.isdecimal() and not written.isdecimal()):
        return False
    plain = re.fullmatch(r"\w+", size) is not None and re.fullmatch(r"[A-Za-z_]\w*", written) is not None
    return not plain


def _still_wrong(attempt: Attempt, changed: SourceFile, suggestion: Suggestion) -> bool:
    """Whether the declaration that was changed has errors left: then the change may only have moved one out of sight."""
    at = min((edit.span.start for edit in suggestion.edits if edit.span.start), default=0)  # an `import` goes to the top
    begin, end = _declaration(changed, at)
    left = [d.span for d in attempt.found or () if d.severity == "error" and d.span is not None]
    return any(span.file is changed and begin <= span.start < end for span in left)


def _declaration(source: SourceFile, at: int) -> tuple[int, int]:
    """Where the declaration around a place begins and ends."""
    starts = [m.start() for m in _DECLARATION.finditer(source.text)]
    return max((s for s in starts if s <= at), default=0), min((s for s in starts if s > at), default=len(source.text))


def declarations_of(source: SourceFile, places: Iterable[int]) -> frozenset[tuple[int, int]]:
    """The declarations that have one of some places in them."""
    return frozenset(_declaration(source, at) for at in places)


def _fresh(attempt: Attempt, before: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The errors that an attempt brought: they are worded as none was before."""
    known = {_words(d) for d in before}
    return [d for d in attempt.found or () if d.severity == "error" and _words(d) not in known]


def _words(d: Diagnostic) -> tuple[str, ...]:
    return (d.code, d.message, *d.notes, *(label.text for label in d.labels))


def _again(new: Diagnostic, suggestion: Suggestion, changed: SourceFile, recheck: Recheck, errors: int) -> bool:
    """Whether what came up is the same mistake once more, for which the same kind of change helps."""
    for again in new.suggestions if suggestion.change in _LATER else ():
        if again.change is suggestion.change:
            found = _attempt(changed, again.edits, recheck, True, errors)
            if found is not None and found[0].errors < errors:
                return True
    return False


def _attempt(
    source: SourceFile, edits: tuple[Edit, ...], recheck: Recheck, settled: bool, fewer: int | None
) -> tuple[Attempt, SourceFile] | None:
    """A file after edits; None if they do not apply or, where that is asked (`settled`), leave the question to a call."""
    text = source.text
    for edit in sorted(edits, key=lambda e: -e.span.start):
        if edit.span.file is not source:
            return None
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    changed = SourceFile(source.path, text)
    attempt = recheck(changed, fewer)
    if attempt is None or (settled and any(_edited(span, changed, edits) for span in attempt.facts)):
        return None
    return attempt, changed


def _edited(span: Span, changed: SourceFile, edits: tuple[Edit, ...]) -> bool:
    """Whether a place of a changed file lies within the new text of an edit."""
    moved = 0
    for edit in sorted(edits, key=lambda e: e.span.start):
        start = edit.span.start + moved
        moved += len(edit.text) - (edit.span.end - edit.span.start)
        if span.file is changed and start <= span.start and span.end <= start + len(edit.text):
            return True
    return False
