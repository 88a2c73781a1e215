"""What JAX's tests of symbolic dimensions state, asked of Axon: of the prover, and of the whole checker by programs that need it.

The statements are facts taken from tests/shape_poly_test.py of jax-ml/jax (Apache 2.0), said in Axon's syntax; no text
is from there. Brute force over small and some large sizes judges every statement first, so that a mistake in a table
cannot pass for one of Axon.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.base.errors import AxonError
from axon.shapes.algebra.prove import Answer, Facts, prove, unsatisfiable
from tests.suites.stated_programs import judge
from tests.suites.stated_sizes import Claim, marked, parse, program, read, where_true

HERE = Path(__file__).parent
SOAK = bool(os.environ.get("AXON_SOAK"))
UPDATE = bool(os.environ.get("AXON_UPDATE"))  # of the marks and lists of what is not seen yet, which someone then reads
OUTCOMES = {"always": {True}, "never": {False}, "sometimes": {True, False}}
ANSWERS = {"always": Answer.PROVED, "never": Answer.REFUTED, "sometimes": Answer.UNKNOWN}


def answer(claim: Claim) -> Answer:
    sizes = claim.sizes
    return prove(Facts().assume(*(fact.relation(sizes) for fact in claim.facts)), claim.goal.relation(sizes))


@cache
def contract(text: str) -> str | None:
    """The facts that a program's one function asks of a call; None where it is refused."""
    checked = compiler.check_text(text)
    assert checked.ok or not any(d.code == "AX0001" for d in checked.diagnostics), text
    return checked.signatures["claim"].partition(" where ")[2] if checked.ok else None


def accepted(claim: Claim, way: str) -> bool | None:
    """Whether a program that needs the claim asks no more of a call than the facts; None where it is refused."""
    asked = contract(program(claim, way))
    stated = contract(program(claim, "annotated" if way == "annotation" else ""))
    assert stated is not None, claim
    return None if asked is None else asked == stated


def ways(claim: Claim) -> tuple[str, ...]:
    """How a program can need it: by an access that is inside only then, or by an annotation with the other side of an equation."""
    return ("access", "annotation") if claim.goal.op == "=" and is_size(claim) else ("access",)


@cache
def is_size(claim: Claim) -> bool:
    """Whether both sides are at least 0 for all sizes, so that a tensor can have them."""
    sides = (claim.goal.left, claim.goal.right)
    return all(replace(claim, goal=parse(f"{side} >= 0")).outcomes() == {True} for side in sides)


def unseen(claim: Claim) -> str:
    """What of a claim Axon does not see, as the tables mark it."""
    unproved = "?" if claim.verdict != "sometimes" and answer(claim) is Answer.UNKNOWN else ""
    asked = "~" if claim.verdict == "always" and not all(accepted(claim, way) for way in ways(claim)) else ""
    return unproved + asked


TABLES = [HERE / "jax_dimensions.txt", HERE / "near_dimensions.txt"]
if UPDATE:
    for table in TABLES:
        marked(table, unseen)
CLAIMS = [claim for table in TABLES for claim in read(table)]
# What programs are made of: all in the soak; else a sample, with everything that is not seen yet.
NEEDED = [c for at, c in enumerate(CLAIMS) if SOAK or c.unseen or at % (8 if c.verdict == "short" else 2) == 0]


def test_there_are_enough() -> None:
    assert len(CLAIMS) >= 650


def test_brute_force_agrees_with_the_table() -> None:
    for claim in CLAIMS:
        found = claim.outcomes()
        if claim.verdict == "short":  # one before the end of a range, which is thus reached
            assert False in found, claim
        else:
            assert found == OUTCOMES[claim.verdict], claim


def test_what_is_proved_of_each() -> None:
    """Nothing false is proved; what holds is, unless the table says that it is not seen yet."""
    for claim in CLAIMS:
        if claim.verdict == "short":
            assert answer(claim) is not Answer.PROVED, claim
        else:
            assert answer(claim) is (Answer.UNKNOWN if "?" in claim.unseen else ANSWERS[claim.verdict]), claim


@pytest.mark.parametrize("source", dict.fromkeys(claim.source for claim in NEEDED))
def test_programs_that_need_it(source: str) -> None:
    """What is proved asks nothing more of a call, what is not is asked or refused, and what never holds is refused."""
    for claim in (c for c in NEEDED if c.source == source):
        found = [accepted(claim, way) for way in ways(claim)]
        if claim.verdict == "always":
            assert all(found) == ("~" not in claim.unseen), claim
        else:
            assert True not in found, claim
            assert claim.verdict != "never" or found.count(None) == len(found), claim


def test_a_contract_is_what_was_asked() -> None:
    """A program's contract holds for the same sizes as the facts and the claim together, however it is simplified."""
    for claim in NEEDED:
        for way in ways(claim) if claim.names else ():
            asked = contract(program(claim, way))
            if asked is not None:
                said = where_true(claim.names, tuple(map(parse, asked.split(", "))) if asked else ())
                assert np.array_equal(said, where_true(claim.names, (*claim.facts, claim.goal))), (way, claim)


@pytest.mark.parametrize("file", ["jax_programs.txt", "near_programs.txt"])
def test_programs(file: str) -> None:
    assert judge(HERE / file) == []


# Facts that no sizes of at least 1 satisfy together. The last are all of test_constraints_ge_term.
CONTRADICTIONS = [
    "a <= a - 1",
    "a <= 0, a >= 1",
    "a = a + 1",
    "a >= a + 1",
    "a >= c + 1, c >= 4, a <= d + 2, d <= 2",
    "a >= c + 1, c >= b + 4, a <= d + 2, d <= b + 2",
    "max a b >= 8, min a b <= 2, a / 4 >= 2, a % b >= 2, (max a b) % 4 >= 2",
]


@pytest.mark.parametrize("facts", CONTRADICTIONS)
def test_contradictions(facts: str) -> None:
    claim = Claim("", tuple(map(parse, facts.split(", "))), parse("0 = 0"), "", facts)
    assert claim.outcomes() == set()
    sizes = claim.sizes
    assert unsatisfiable(Facts().assume(*(fact.relation(sizes) for fact in claim.facts)))
    assert contract(program(claim)) is None


# ── quotients and remainders by numbers and sums (test_bounds_floordiv_against_concrete_evaluation, test_non_trivial_dim_expr) ──

DIVIDENDS = ("a", "a + 10", "a + 11", "-a", "10 - a", "11 - a")
DIVIDED = [
    (f"({'-' if negative else ''}({dividend} + ({more}))) {op} {divisor}", -1 if negative and op == "%" else 1)
    for dividend in DIVIDENDS
    for more in (-3, -1, 0, 1, 3)
    for divisor in ("2", "(a + 4)")
    for negative in (False, True)  # as if the divisor were negative
    for op in "/%"
]
WITHOUT_END = 4_000


def ranges() -> list[Claim]:
    """For each quotient and remainder the range that brute force finds: what is a bound, and that one less is none."""
    found = []
    for text, sign in DIVIDED:
        term = parse(text).left
        a = np.concatenate([np.arange(1, 400), [1_000, 5_000, 10_000, 1_000_000]])
        values = sign * term.values({"a": a})[0]
        signed = text if sign == 1 else f"-({text})"
        for op, end, inwards in ((">=", int(values.min()), 1), ("<=", int(values.max()), -1)):
            facts = (parse("a >= 1"),)
            if abs(end) < WITHOUT_END:
                found.append(Claim("divided", facts, parse(f"{signed} {op} {end}"), "always", signed))
            found.append(Claim("divided", facts, parse(f"{signed} {op} {end + inwards}"), "short", signed))
    return found


def listed(file: str, now: list[str] | None = None) -> list[str]:
    """The lines of a list of what is not seen yet; AXON_UPDATE=1 makes them those of `now`."""
    lines = (HERE / file).read_text(encoding="utf-8").splitlines()
    notes = [line for line in lines if line.startswith("#")]
    if UPDATE and now is not None:
        (HERE / file).write_text("\n".join([*notes, *now]) + "\n", encoding="utf-8")
        return now
    return lines[len(notes) :]


def test_ranges_of_quotients() -> None:
    claims = ranges()
    assert len(claims) >= 700
    missed = [str(claim.goal) for claim in claims if claim.verdict == "always" and answer(claim) is not Answer.PROVED]
    assert missed == listed("jax_quotients.txt", missed)
    assert not any(answer(claim) is Answer.PROVED for claim in claims if claim.verdict == "short")
    for claim in claims[:: 1 if SOAK else 40]:
        assert accepted(claim, "access") is not True or claim.verdict == "always", claim


EXPRESSIONS = [
    "d + 2", "2 - d", "d * 2", "d * d", "(-d) * d", "d * d - d", "d / 2", "(d + 1) / 2", "(-d) / 2", "(-(d + 1)) / 2",
    "-((-d) % 2)", "d % 2", "(d + 1) % 2", "(-d) % 2", "(-d - 1) % 2", "-(d % 2)", "-((d + 1) % 2)", "d * d * d",
]  # fmt: skip


def test_values_of_expressions() -> None:
    """A size is the same number to the prover, to brute force and to the program that computes with it."""
    text = "".join(f"fun e{at} (x : f32[d]) = {text}\n" for at, text in enumerate(EXPRESSIONS))
    module = axon.compile(text)
    for at, expression in enumerate(EXPRESSIONS):
        term = parse(expression).left
        for d in (1, 2, 3, 7):
            value = int(term.values({"d": np.int64(d)})[0])
            assert module[f"e{at}"](np.zeros(d, np.float32)) == value
            claim = Claim("", (parse(f"d = {d}"),), parse(f"{expression} = {value}"), "", "")
            assert answer(claim) is Answer.PROVED, (expression, d)


# ── slices with steps (the harnesses `indexing`): what x[start : stop : step] of a dimension c reads, ends as Python puts them ──

STARTS = (None, "0", "2", "b", "2 * b + 2", "-2", "-b", "-2 * b - 2")
STOPS = (None, "0", "b", "2 * b + 2", "4", "-4", "-b", "-2 * b - 2")
STEPS = ("1", "2", "b", "-1", "-2", "-b")
SLICES = list(product(STARTS, STOPS, STEPS))


def sliced(start: str | None, stop: str | None, step: str) -> tuple[str, str]:
    """How many elements, and where the i-th of them is."""
    backwards, by = step.startswith("-"), step.lstrip("-")
    low, high = ("-1", "c - 1") if backwards else ("0", "c")

    def end(of: str | None, otherwise: str) -> str:
        from_the_end = of is not None and of.startswith("-")
        return otherwise if of is None else f"(min ({high}) (max ({low}) ({'c ' * from_the_end}{of})))"

    first = end(start, high if backwards else low)
    last = end(stop, f"({low})" if backwards else high)
    gap = f"{first} - {last}" if backwards else f"{last} - {first}"
    return f"max 0 (({gap} + {by} - 1) / {by})", f"{first} {'-' if backwards else '+'} {by} * i"


def slice_program(how: tuple[str | None, str | None, str]) -> str:
    count, at = sliced(*how)
    return f"fun claim (x : f32[c]) (y : f32[b]) where b >= 1, c >= 1 = for i < {count} => x[{at.replace(' - 1 * i', ' - i')}]\n"


def slice_claims(how: tuple[str | None, str | None, str]) -> list[Claim]:
    count, at = sliced(*how)
    facts = tuple(map(parse, ("b >= 1", "c >= 1", f"i < {count}")))
    return [Claim("indexing", facts, parse(goal), "", str(how)) for goal in (f"{at} >= 0", f"{at} < c")]


def length(how: tuple[str | None, str | None, str], b: int, c: int) -> int:
    """By Python."""
    start, stop, step = (None if part is None else int(parse(part).left.values({"b": np.int64(b)})[0]) for part in how)
    return len(range(*slice(start, stop, step).indices(c)))


def key(how: tuple[str | None, str | None, str]) -> str:
    return " : ".join(part or "" for part in how).strip()


def test_slices() -> None:
    """The result has the size that Python gives it; a call is asked for nothing, unless the table says that it is all the same."""
    grid = {"b": np.arange(1, 9).reshape(-1, 1), "c": np.arange(1, 24).reshape(1, -1)}
    looked_at = SLICES[:: 1 if SOAK else 23]
    missed = []
    for how in looked_at:
        for claim in slice_claims(how):
            assert answer(claim) is not Answer.REFUTED or claim.outcomes() == set(), claim
            assert False not in claim.outcomes(), claim
        checked = compiler.check_text(slice_program(how))
        signature = checked.signatures.get("claim")
        if signature is not None:
            size = re.search(r"-> f32\[b\] -> f32\[(.*?)\](?: where|$)", signature)
            assert size is not None
            sizes = np.broadcast_to(parse(size[1]).left.values(grid)[0], (8, 23))
            assert sizes.tolist() == [[length(how, b, c) for c in range(1, 24)] for b in range(1, 9)], signature
        if signature is None or not signature.endswith((" where c >= 1, b >= 1", " where b >= 1, c >= 1")):
            missed.append(key(how))
    others = set(listed("jax_slices.txt")) - set(map(key, looked_at))
    now = [key(how) for how in SLICES if key(how) in others | set(missed)]
    assert now == listed("jax_slices.txt", now)


# ── sizes that a call determines (test_arg_avals_errors, test_non_trivial_polynomials_spec, *_compile_time_check) ──

CALLS: list[tuple[str, str, tuple[int, ...], tuple[int, ...] | None]] = [
    # annotation, facts, sizes of the array; what the names are in that call, or None where it is refused
    ("b + 6, b + 14, c", "", (16, 24, 32), (10, 32)),
    ("2 * b, 4 * c, b + c + 18", "", (16, 24, 32), (8, 6)),
    ("b + 2 * c, 4 * c, b * b + 16", "", (16, 24, 32), (4, 6)),
    ("b * b, b * d * d, d", "", (4, 18, 3), (2, 3)),
    ("b * b, b * d * d, d", "", (4, 36, 3), None),
    ("3 * b, c", "", (5, 36), None),
    ("3 * b, c", "", (6, 36), (2, 36)),
    ("3 * b + 10, c", "b >= 1", (10, 3), None),
    ("3 * b + 10, c", "", (10, 3), (0, 3)),
    ("3 * b + 10, c", "", (7, 3), None),
    ("a, a", "", (2, 3), None),
    ("a, a", "", (3, 3), (3,)),
    ("b, b * b", "", (3, 9), (3,)),
    ("b, b * b", "", (3, 8), None),
    ("a", "a >= 2, a <= 4", (2,), (2,)),
    ("a", "a >= 2, a <= 4", (4,), (4,)),
    ("a", "a >= 2, a <= 4", (1,), None),
    ("a", "a >= 2, a <= 4", (5,), None),
    ("a, b", "max a b = b", (3, 2), None),
    ("a, b", "max a b = b", (2, 3), (2, 3)),
    ("a, b", "a = b", (3, 3), (3, 3)),
    ("a, b", "a = b", (3, 2), None),
    ("a, b", "max a b = 4, a = b", (3, 3), None),
    ("a, b", "max a b = 4, a = b", (4, 4), (4, 4)),
    ("w", "w >= 3", (32,), (32,)),
    ("w", "w >= 3", (2,), None),
]


@pytest.mark.parametrize(("annotation", "facts", "sizes", "found"), CALLS)
def test_calls(annotation: str, facts: str, sizes: tuple[int, ...], found: tuple[int, ...] | None) -> None:
    names = list(dict.fromkeys(re.findall(r"[a-z]", annotation)))
    where = f" where {facts}" if facts else ""
    value = f"({', '.join(names)})" if len(names) > 1 else names[0]
    module = axon.compile(f"fun f (x : f32[{annotation}]){where} = {value}\n")
    argument: Any = np.zeros(sizes, np.float32)
    if found is None:
        with pytest.raises(AxonError):
            module.f(argument)
    else:
        result = module.f(argument)
        assert tuple(map(int, result if isinstance(result, tuple) else (result,))) == found
