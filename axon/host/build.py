"""`axon build`: a function as a library for C, at ranks and element types that its callers have there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.base.data import replace
from axon.host.call import Callee, Session, wrong
from axon.host.ranked import COMMAND_LINE, Ranked
from axon.host.solve import asked
from axon.shapes.contracts.inverse import Every

if TYPE_CHECKING:
    from axon.backend.c.library import Library
    from axon.base.names import Symbol

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
    at: Sequence[Mapping[Any, int]] = (),
    torch: bool = False,
    cc: Sequence[str] | None = None,
) -> Library:
    """Write a library for a function. `ranks`, `shapes` and `elements` say what its signature leaves open; sizes that are given
    choose among orders of sums, and the library takes all others too. For GPUs it has kernels of their own for those `at` which it
    is built. `name` is
    what C calls the function, after `axon_`; with `torch`, an operator of PyTorch is made, too. Raises AxonError."""
    from axon.backend.c.header import Described
    from axon.backend.c.identifiers import own_name

    symbol = own_name(name or callee.name)
    if name is not None and symbol != f"axon_{name}":
        note = "it is letters, digits and single `_`, and no name that every header declares, nor one with an ending such as _free"
        raise wrong(callee, "AX0614", f"no function of C can be called `axon_{name}`, as `--name` says", note)
    source = os.path.basename(session.checked.source.path)
    compiler_ = cc or shlex.split(os.environ.get("CC", "cc"))
    cxx = shlex.split(os.environ.get("CXX", "c++"))

    def answered(sizes: Mapping[Any, int]) -> tuple[Ranked, Mapping[Symbol, int]]:
        question = asked(session, callee, (), sizes, None, ranks, shapes, COMMAND_LINE, elements)
        if question.nothing is not None:
            raise question.nothing
        answer = question.answer
        return question.at, answer.values[0] if isinstance(answer, Every) and len(answer.values) == 1 else {}

    def described(ranked: Ranked) -> Described:
        return Described(symbol, callee.name, source, callee.signature, ranked.name, cpu)

    if target == "cuda":
        first, sets = None, []
        for sizes in at:
            ranked, known = answered({**given, **sizes})
            order = ranked.program.contract.determination.order
            missing = [f"`{ranked.name(symbol)}`" for symbol in order if symbol not in known and ranked.name(symbol) not in sizes]
            if missing:
                shown = ",".join(f"{name}={size}" for name, size in sizes.items())
                raise wrong(callee, "AX0614", f"`--sizes {shown}` leaves open what {', '.join(missing)} is")
            first = first or ranked
            own = first.program.contract.determination.order  # each question has symbols of its own
            sets.append({symbol: known[other] for symbol, other in zip(own, order, strict=True)})
        first = first or answered(given)[0]
        return compiler.device_library(first.program, described(first), folder, sets, compiler_, cxx if torch else ())
    ranked, known = answered(given)
    made = compiler.build(ranked.program, described(ranked), folder, known, compiler_)
    if not torch:
        return made
    more = compiler.operator(ranked.program, described(ranked), folder, cxx)
    return replace(made, files=(*made.files, *more))
