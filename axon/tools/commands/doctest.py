"""What `axon test` does: run the examples in a module's comments. docs/doctests.md shows how they are written.

    (* The squares of some numbers.

       >>> squares [| 1.0, 2.0 |]
       [| 1.0, 4.0 |] *)

The expression and the expected value are each made a function of nothing at the end of the module, so they see all of its
declarations. The extended module is checked; diagnostics in the added text are moved to where the user wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from axon import compiler
from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Label
from axon.base.errors import AxonError
from axon.base.source import SourceFile, Span
from axon.checker.loader import FileLoader, Loader
from axon.host.call import Session

# Relative to the larger of the two numbers, or to 1. Documentation rounds to six or seven digits.
TOLERANCE = {"f64": 1e-6, "f32": 1e-5, "f16": 1e-2, "bf16": 2e-2, "f8e4m3": 0.13, "f8e5m2": 0.26}
PROMPT, MORE = ">>>", "..."


@dataclass(frozen=True, slots=True)
class Example:
    """An expression and what it should give, each as the lines of the source that it stands on."""

    expression: tuple[Span, ...]
    expected: tuple[Span, ...]

    @property
    def span(self) -> Span:
        return self.expression[0].to(self.expression[-1])


@dataclass(frozen=True, slots=True)
class Outcome:
    passed: int
    failures: tuple[Diagnostic, ...]  # what is wrong: one example may have several errors
    failed: int = 0  # examples, all of them where the file itself is wrong


def run_file(loader: Loader, path: str, target: str | None = None) -> Outcome:
    """Run a file's examples, on a target. If the file itself is wrong, its diagnostics are the failures."""
    source = loader.read(path)
    if isinstance(source, Diagnostic):
        return Outcome(0, (source,))
    all_ = examples = find_examples(source)
    failures: list[Diagnostic] = []
    while True:
        extended = _Extended(source, examples)
        try:
            checked = compiler.check(FileLoader({path: extended.text}), path)
        except AxonError as error:
            return Outcome(0, error.diagnostics, len(all_))
        errors = [(extended.example_at(d.span), extended.moved(d)) for d in checked.diagnostics if d.severity == "error"]
        if not errors:
            break
        if own := [diagnostic for example, diagnostic in errors if example is None]:  # the module itself is wrong
            return Outcome(0, tuple(own), len(all_))
        failures += [diagnostic for _, diagnostic in errors]
        wrong = {example for example, _ in errors}
        examples = [example for example in examples if example not in wrong]
    session = Session(checked)
    passed = 0
    for example, names in zip(examples, extended.names, strict=True):
        failure = _run(session, example, *names, target)
        if failure:
            failures.append(extended.moved(failure))
        passed += failure is None
    failures.sort(key=lambda d: d.span.start if d.span else 0)
    return Outcome(passed, tuple(failures), len(all_) - passed)


# ── finding examples ────────────────────────────────────────────────────────────────────────────────────────────────────


def find_examples(source: SourceFile) -> list[Example]:
    """The examples in the outermost comments of a file."""
    out: list[Example] = []
    for comment in _comments(source):
        lines = list(_lines(comment))
        i = 0
        while i < len(lines):
            if not lines[i].text.startswith(PROMPT):
                i += 1
                continue
            expression = [_without(lines[i], PROMPT)]
            i += 1
            while i < len(lines) and lines[i].text.startswith(MORE):
                expression.append(_without(lines[i], MORE))
                i += 1
            expected = []
            while i < len(lines) and lines[i].text and not lines[i].text.startswith(PROMPT):
                expected.append(lines[i])
                i += 1
            out.append(Example(tuple(expression), tuple(expected)))
    return out


def _comments(source: SourceFile) -> Iterable[Span]:
    """What stands inside the outermost `(*` and `*)`."""
    depth = start = 0
    for mark in re.finditer(r"\(\*|\*\)", source.text):
        if mark[0] == "(*":
            if depth == 0:
                start = mark.end()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                yield source.span(start, mark.start())


def _lines(span: Span) -> Iterable[Span]:
    """The lines of a span without their margins."""
    at = span.start
    for line in span.text.splitlines(keepends=True):
        start = at + len(line) - len(line.lstrip())
        yield Span(span.file, start, start + len(line.strip()))
        at += len(line)


def _without(line: Span, prefix: str) -> Span:
    rest = line.text[len(prefix) :]
    return Span(line.file, line.end - len(rest.lstrip()), line.end)


# ── running them ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Extended:
    """A module with its examples as functions at the end, and the way back from the added text to the source."""

    def __init__(self, source: SourceFile, examples: list[Example]) -> None:
        self.source = source
        self.names: list[tuple[str, str]] = []
        self._pieces: list[tuple[int, Span, Example]] = []  # where a line of an example stands in the text
        self._regions: list[tuple[int, int, Example]] = []
        parts, self._size = [source.text, "\n"], len(source.text) + 1
        prefix = "example"
        while prefix in source.text:
            prefix += "_"

        def add(text: str) -> None:
            parts.append(text)
            self._size += len(text)

        for i, example in enumerate(examples):
            names = (f"{prefix}{i}", f"{prefix}{i}_expected")
            self.names.append(names)
            start = self._size
            for name, spans in zip(names, (example.expression, example.expected), strict=True):
                add(f"fun {name} () = (\n")
                for span in spans or (Span(source, example.span.end, example.span.end),):
                    self._pieces.append((self._size, span, example))
                    add((span.text if spans else "()") + "\n")
                add(")\n")
            self._regions.append((start, self._size, example))
        self.text = "".join(parts)

    def example_at(self, span: Span | None) -> Example | None:
        if span is None or span.file.path != self.source.path:
            return None
        return next((e for start, end, e in self._regions if start <= span.start < end), None)

    def moved(self, diagnostic: Diagnostic) -> Diagnostic:
        """A diagnostic of the extended module with its places in the source."""
        return diagnostic.moved(self._moved)

    def _moved(self, span: Span) -> Span:
        if span.file.path != self.source.path or span.file is self.source:
            return span
        if span.start < len(self.source.text):
            return Span(self.source, span.start, min(span.end, len(self.source.text)))
        example = self.example_at(span)
        for at, piece, _ in reversed(self._pieces):
            if at <= span.start <= at + piece.end - piece.start:
                start = piece.start + span.start - at
                return Span(self.source, start, min(max(start, piece.start + span.end - at), piece.end))
        return example.span if example else self.source.span(len(self.source.text))


def _run(session: Session, example: Example, name: str, expected_name: str, target: str | None) -> Diagnostic | None:
    """Why an example fails, or None."""
    from axon.host.show_value import show

    try:
        got = session.call(session.callee(name), (), ((),), target=target, numbers=False)
        if not example.expected:
            note = f"it gives {show(got)}"
            return Diagnostic("AX0509", "this example has no expected value", (Label(example.span),), (note,))
        expected = session.call(session.callee(expected_name), (), ((),), numbers=False)
    except AxonError as error:
        first = error.diagnostics[0]
        notes = (f"{first.message} [{first.code}]", *first.notes)
        return Diagnostic("AX0509", "this example cannot be run", (Label(example.span),), notes)
    difference = _difference(got, expected)
    if difference is None:
        return None
    place = example.expected[0].to(example.expected[-1])
    notes = (difference, f"expected {show(expected)}", f"got      {show(got)}")
    return Diagnostic("AX0509", "this example gives something else", (Label(example.span), Label(place, "expected")), notes)


def _difference(got: Any, expected: Any) -> str | None:
    """How two values differ, or None if they are equal up to rounding."""
    import numpy as np

    from axon.base.element import of_dtype

    if isinstance(got, tuple) or isinstance(expected, tuple):
        if not (isinstance(got, tuple) and isinstance(expected, tuple) and len(got) == len(expected)):
            return "one is a tuple that the other is not"
        found = (_difference(g, e) for g, e in zip(got, expected, strict=True))
        return next((d for d in found if d), None)
    if isinstance(got, dict) or isinstance(expected, dict):
        if not (isinstance(got, dict) and isinstance(expected, dict) and got.keys() == expected.keys()):
            return "one is a record that the other is not"
        return next((d for d in (_difference(got[k], expected[k]) for k in got) if d), None)
    if got.shape != expected.shape:
        return f"the shapes differ: {list(got.shape)} and {list(expected.shape)}"
    element = of_dtype(got.dtype)
    assert element is not None
    kinds = [(e.is_float, e.is_integer) for e in (element, of_dtype(expected.dtype)) if e]
    if kinds[0] != kinds[1]:
        return f"the element types differ: {element.value} and {of_dtype(expected.dtype)!r}"
    if not element.is_float:
        return None if np.array_equal(got, expected) else "the values differ"
    a, b = got.astype(np.float64), expected.astype(np.float64)
    tolerance = TOLERANCE[element.value]
    close = np.isclose(a, b, rtol=tolerance, atol=tolerance * 0.1, equal_nan=True)
    if close.all():
        return None
    worst = np.abs(np.where(close, 0.0, a - b))
    return f"the values differ by up to {np.nanmax(worst):.3g}; {tolerance:g} is allowed for {element.value}"
