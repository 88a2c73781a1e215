"""Whether what Axon computes is what a program means: each compilation of a text, on each target, beside the oracle."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from axon import compiler
from axon.base.errors import AxonError
from axon.checker.module import CheckedModule
from axon.host.call import Session
from tests.oracle.arithmetic import DIGITS, Arithmetic, Stops
from tests.oracle.definitional import run
from tests.oracle.generate import Program

NOISY = 3  # runs with other roundings, of programs that round
MANY = 60  # such runs, before it is said that a target differs
SLACK = 16.0  # how many times farther than those lie apart a target may be off
LEAST = 32  # units in the last place that it may be off anyhow, where a program rounds


@dataclass(frozen=True)
class Meaning:
    """What the oracle gives; `others` are the values with other roundings, none for a program that computes exactly.

    A None among them: nothing is asked of the value.
    """

    value: Any  # None: the program stops
    others: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Disagreement:
    target: str
    repetition: int
    why: str
    seen: Any


def meaning(program: Program) -> Meaning:
    plain = Arithmetic()
    try:
        value = run(program.text, "main", program.arguments, arithmetic=plain)
    except Stops:
        return Meaning(None)
    if not plain.finite:
        return Meaning(value, (None,))
    if plain.exact:
        return Meaning(value)
    others: list[Any] = []
    for n in range(NOISY):
        try:
            others.append(run(program.text, "main", program.arguments, arithmetic=Arithmetic(Random(n))))
        except Stops:
            return Meaning(value, (None,))  # whether it stops hangs on rounding
    return Meaning(value, tuple(others))


def more(program: Program) -> Iterator[Any]:
    """The values of a program with more other roundings: with few, a comparison that hangs on the last digits looks certain."""
    for n in range(NOISY, MANY):
        try:
            yield run(program.text, "main", program.arguments, arithmetic=Arithmetic(Random(n)))
        except Stops:
            continue


def checked(program: Program) -> CheckedModule | None:
    """None: the checker refuses the program."""
    made = compiler.check_text(program.text)
    return None if any(d.severity == "error" for d in made.diagnostics) else made


def outcome(module: CheckedModule, program: Program, target: str) -> Any:
    """The result, or the codes of what stops it, or what should never be raised."""
    session = Session(module)
    try:
        return session.call(session.callee("main"), (), deepcopy(program.arguments), target=target, numbers=False)
    except AxonError as error:
        return [d.code for d in error.diagnostics]
    except Exception as error:  # a defect, which is reported as any other
        return error


def disagreement(program: Program, meant: Meaning, target: str, repetition: int = 0) -> Disagreement | str:
    """One compilation and call beside the oracle: a difference, or "equal", "refused" or "rejected"."""
    module = checked(program)
    if module is None:
        return "rejected"
    seen = outcome(module, program, target)
    if isinstance(seen, list) and (seen == ["AX0501"] or seen == ["AX0603"]):
        return "refused"  # a contract that asks for more than this call needs; or no GPU kernel for it
    why = different(meant, seen)
    if why and meant.others and any(not different(Meaning(other, meant.others), seen) for other in more(program)):
        return "equal"  # what it is hangs on rounding: two sides of a comparison that are all but equal
    return Disagreement(target, repetition, why, seen) if why else "equal"


def disagreements(
    programs: Sequence[Program], targets: Sequence[str], times: int = 3
) -> Iterator[tuple[Program, Disagreement | str]]:
    """Several programs, compiled in turn `times` times for the first target, once for each other."""
    meant = [meaning(p) for p in programs]
    for repetition in range(times):
        for program, known in zip(programs, meant, strict=True):
            for target in targets if repetition == times - 1 else targets[:1]:
                yield program, disagreement(program, known, target, repetition)
        gc.collect(0)


def different(meant: Meaning, seen: Any) -> str:
    if isinstance(seen, Exception):
        return f"{type(seen).__name__}: {seen}"
    if any(other is None for other in meant.others):
        return ""
    if isinstance(seen, list):
        return f"stopped by {seen}" if meant.value is not None else ""
    return _different(meant.value, meant.others, seen, "result") if meant.value is not None else "ran, though it should stop"


def _different(right: Any, others: Sequence[Any], seen: Any, path: str) -> str:
    if isinstance(right, (tuple, dict)):
        if type(seen) is not type(right) or len(seen) != len(right):
            return f"{path}: another structure"
        keys = range(len(right)) if isinstance(right, tuple) else right
        whys = (_different(right[k], [o[k] for o in others], seen[k], f"{path}.{k if isinstance(k, str) else k + 1}") for k in keys)
        return next((w for w in whys if w), "")
    a, b = np.asarray(right), np.asarray(seen)
    if a.shape != b.shape or (a.dtype != b.dtype and a.size):
        return f"{path}: {b.dtype}{b.shape}, not {a.dtype}{a.shape}"
    exact, got = a.astype(np.float64), b.astype(np.float64)
    if a.dtype.kind in "iu":
        bad = a != b
    else:
        bad = ~((exact == got) | (np.isnan(exact) & np.isnan(got)))
    if others:
        spread = np.stack([exact, *(np.asarray(o).astype(np.float64) for o in others)])
        with np.errstate(all="ignore"):
            wide = spread.max(0) - spread.min(0)
        wide = np.where((spread == exact).all(0), 0.0, wide)  # infinities
        if a.dtype.name in DIGITS:
            unit = 2.0 ** -DIGITS[a.dtype.name]
            with np.errstate(all="ignore"):
                near = np.abs(got - exact) <= SLACK * wide + LEAST * unit * np.abs(exact) + np.finfo(np.float32).tiny
            bad &= ~near & ~(np.isnan(wide) & ~np.isnan(spread).all(0))
        else:
            bad &= wide == 0
    if not bad.any():
        return ""
    at = tuple(int(n[0]) for n in np.nonzero(bad)) if bad.ndim else ()
    return f"{path}{list(at) if at else ''}: {b[at]!r}, not {a[at]!r}"
