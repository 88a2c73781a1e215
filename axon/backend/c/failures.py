"""What stops a kernel, in words: what it may be, and what a diagnosis has found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from axon.backend.c.diagnosis import Failure as Met
from axon.backend.plan.ir import Nest
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Binary, Compute, Const, Index, Read, Scan, element_of
from axon.core.scalar_facts import divides
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim

Failure = tuple[str, str]  # a code of the enum, and a text
INDEX, ARITHMETIC = "AXON_INDEX", "AXON_ARITHMETIC"


def failures(nest: Nest, name: Callable[[Symbol], str]) -> list[Failure]:
    """Everything of a kernel that can stop the program, in order, each with its place."""
    return list(dict.fromkeys(found for step in nest.steps for found in _of(step, name)))


def worded(found: list[Failure]) -> Failure:
    """The code and the text of a kernel that has stopped."""
    codes = {code for code, _ in found}
    code = found[0][0] if len(codes) == 1 else "AXON_STOPPED"
    number = {INDEX: "AX0502", ARITHMETIC: "AX0503", "AXON_STOPPED": "AX0502 or AX0503"}[code]
    if len(found) == 1:
        return code, f"error[{number}]: {found[0][1]}"
    return code, f"error[{number}]: one of these has happened:" + "".join(f"\n  = {text}" for _, text in found)


def found(failure: Met, possible: list[tuple[str, str]], name: Callable[[Symbol], str]) -> tuple[str, str]:
    """The code and the text, a format of an index and a size, of what a diagnosis notes; its place, if it can be only one."""
    if failure.read is not None:
        read = failure.read
        text = f"index %lld is outside dimension {failure.position + 1} of `{name(read.tensor)}`, which has size %lld"
        return INDEX, f"error[AX0502]: {text}{place(read.checked).replace('%', '%%')}"
    places = {text for _, text in possible if text.startswith(failure.text)}
    text = places.pop() if len(places) == 1 else failure.text
    return ARITHMETIC, f"error[AX0503]: {text}".replace("%", "%%")


def _of(step: Compute | Scan, name: Callable[[Symbol], str]) -> Iterator[Failure]:
    here = place(step.span)
    for scalar in scalars(step):
        for node in nodes(scalar):
            match node:
                case Read(checked=Span() as span):
                    yield INDEX, f"an index is outside of `{name(node.tensor)}`{place(span)}"
                case Binary(op="div" | "mod", right=right) if element_of(right).is_integer:
                    if not (isinstance(right, Const) and right.value != 0):
                        yield ARITHMETIC, f"division of an integer by zero{here}"
                case Binary(op="pow", left=left, right=right) if element_of(left).is_integer:
                    if not (isinstance(right, Const) and right.value >= 0):
                        yield ARITHMETIC, f"an integer raised to a negative power{here}"
                case _:
                    pass
            dims = node.subscripts if isinstance(node, Read) else (node.dim,) if isinstance(node, Index) else ()
            if any(isinstance(dim, Dim) and divides(dim) for dim in dims):
                yield ARITHMETIC, f"division of an integer by zero{here}"
    if isinstance(step, Compute) and step.reduction is not None:
        kind = step.reduction.monoid.kind
        if kind in ("argmax", "argmin"):
            yield ARITHMETIC, f"the {kind} of nothing{here}"
        elif kind in ("max", "min") and step.outs[0].element.is_integer:
            yield ARITHMETIC, f"the {kind} of no integers{here}"


def place(span: Span | None) -> str:
    """`, at model.axon:3:5: `x[i]``."""
    if span is None:
        return ""
    line, column = span.file.position(span.start)
    return f", at {span.file.path}:{line}:{column}: `{span.excerpt}`"
