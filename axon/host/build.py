"""`axon build`: a function as a library for C, at ranks and element types that its callers have there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.host.call import Callee, Session, wrong
from axon.host.ranked import COMMAND_LINE
from axon.host.solve import asked
from axon.shapes.contracts.inverse import Every

if TYPE_CHECKING:
    from axon.backend.c.library import Library

TARGETS = ("cpu", "cuda")


def build(
    session: Session,
    callee: Callee,
    folder: str,
    given: Mapping[Any, int],
    ranks: Mapping[str, int],
    shapes: Mapping[str, Any],
    elements: Mapping[str, str],
    *,
    name: str | None = None,
    cpu: str = "native",
    target: str = "cpu",
    cc: Sequence[str] | None = None,
) -> Library:
    """Write a library for a function. `ranks`, `shapes` and `elements` say what its signature leaves open; sizes that are given
    choose among orders of sums, and the library takes all others too; `name` is what C calls the function, after `axon_`. Raises
    AxonError."""
    from axon.backend.c.header import Described
    from axon.backend.c.identifiers import own_name

    if target != "cpu":
        note = "a library calls processors alone so far; from Python, arrays on a GPU are computed there"
        raise wrong(callee, "AX0614", f"`axon build --target {target}` is not there yet", note)
    symbol = own_name(name or callee.name)
    if name is not None and symbol != f"axon_{name}":
        note = "it is letters, digits and single `_`, and no name that every header declares, nor one with an ending such as _free"
        raise wrong(callee, "AX0614", f"no function of C can be called `axon_{name}`, as `--name` says", note)
    question = asked(session, callee, (), given, None, ranks, shapes, COMMAND_LINE, elements)
    if question.nothing is not None:
        raise question.nothing
    at, answer = question.at, question.answer
    known = answer.values[0] if isinstance(answer, Every) and len(answer.values) == 1 else {}
    source = os.path.basename(session.checked.source.path)
    about = Described(symbol, callee.name, source, callee.signature, at.name, cpu)
    return compiler.build(at.program, about, folder, known, cc or shlex.split(os.environ.get("CC", "cc")))
