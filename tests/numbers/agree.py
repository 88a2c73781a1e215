"""Generated programs on a target, beside what they mean."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from axon import compiler
from axon.base.errors import AxonError
from axon.host.call import Session
from tests.numbers import tree as t
from tests.numbers.make import make
from tests.numbers.meaning import Machine, Stops, Unsure, different, settled

STOPPED = ("AX0502", "AX0503")


@dataclass(frozen=True)
class Meant:
    """What a program gives; `code`: it stops with an error; `unsure`: nothing is claimed."""

    value: Any = None
    code: str = ""
    unsure: bool = False


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)


def meaning(program: t.Program) -> Meant:
    try:
        return Meant(Machine().run(program))
    except Stops as error:
        return Meant(code=str(error))
    except Unsure:
        return Meant(unsure=True)


def programs(seed: int, count: int) -> Iterator[tuple[t.Program, Meant]]:
    """The programs of some seeds, each with its meaning."""
    for one in range(seed, seed + count):
        program = make(one)
        yield program, meaning(program)


def outcome(program: t.Program, target: str) -> Any:
    """The result, or the codes of what stops it, or what should never be raised."""
    module = compiler.check_text(program.text)
    if errors := [d for d in module.diagnostics if d.severity == "error"]:
        return "rejected: " + "; ".join(f"{d.code} {d.message}" for d in errors)
    try:
        session = Session(module)
        return session.call(session.callee("main"), (), deepcopy(program.arguments), target=target, numbers=False)
    except AxonError as error:
        return [d.code for d in error.diagnostics]
    except Exception as error:  # a defect, which is reported as any other
        return error


def verdict(program: t.Program, meant: Meant, seen: Any) -> str:
    """Why an outcome cannot be; "" if it may."""
    if isinstance(seen, str):
        return seen
    if isinstance(seen, Exception):
        return f"{type(seen).__name__}: {seen}"
    if meant.unsure:
        return ""
    if isinstance(seen, list):
        return "" if meant.code and set(seen) <= set(STOPPED) else f"stopped by {seen}"
    return f"ran, though it should stop with {meant.code}" if meant.code else different(program.body.type, meant.value, seen)


def agree(given: Iterable[tuple[t.Program, Meant]], *targets: str) -> Tally:
    tally = Tally()
    for n, (program, meant) in enumerate(given):
        tally.counts["programs"] += 1
        tally.counts["unsure"] += meant.unsure
        tally.counts["stops"] += bool(meant.code)
        if not meant.unsure and not meant.code:
            known, all_ = settled(program.body.type, meant.value)
            tally.counts["known"] += known
            tally.counts["elements"] += all_
        for target in targets:
            why = verdict(program, meant, outcome(program, target))
            tally.counts[f"{target}: {'differs' if why else 'agrees'}"] += 1
            if why:
                tally.found.append(f"{target}: {why}\n{program}")
        if n % 8 == 0:
            gc.collect(0)
    return tally
