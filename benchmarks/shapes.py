"""What the shape engine costs: the architectures, thousands of constraints, systems made to hurt, and the guard of a contract.

python benchmarks/shapes.py       (`make bench` also keeps what it prints under benchmarks/results)

Everything runs in this process, warm: each figure is the median of a few runs after a first one, in seconds of processor time. A
system made to hurt must also be answered rightly: the answer stands beside its time. The exit code is 1 when a target is missed or
an answer is wrong. `tests/shapes/algebra/test_adversarial.py` holds the answers, and generous times, in the test suite.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path

from axon import compiler
from axon.base.names import fresh
from axon.checker.loader import FileLoader
from axon.shapes.algebra.prove import Facts, prove
from axon.shapes.contracts.contract import Contract, ContractFact, ParameterShape
from axon.shapes.dimension import Dim, DimensionTooLarge, dim_sum
from axon.shapes.relation import Relation
from axon.shapes.solving.equations import Equation, Solution, solve

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 3
MODEL_TARGET = 0.5  # seconds
CONSTRAINTS = 5_000
CONSTRAINTS_TARGET = 1.0
ADVERSARY_TARGET = 2.0
GUARD_TARGET = 3e-6


@dataclass(frozen=True)
class Case:
    """Something to answer; `right` are the answers that are not wrong. "unknown" is never wrong, where it can be said."""

    name: str
    run: Callable[[], str]
    right: tuple[str, ...]


# ── programs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def verdict(text: str) -> str:
    """What the checker says of a program: the codes of its errors, or "accepted"."""
    found = compiler.check_text(text).diagnostics
    return " ".join(sorted({d.code for d in found if d.severity == "error"})) or "accepted"


def accepted(path: Path) -> bool:
    return not any(d.severity == "error" for d in compiler.check(FileLoader(), str(path)).diagnostics)


SUM = "(a + b + c + d + e + f + g + h)"
NAMES = "abcdef"


def cyclic_program() -> str:
    """The equations of cyclic-6 as the facts of a function."""
    facts = []
    for length in range(1, 7):
        products = [" * ".join(NAMES[(i + k) % 6] for k in range(length)) for i in range(6 if length < 6 else 1)]
        facts.append(f"{' + '.join(products)} = {7 * length}")
    return f"fun f (x : f32[{', '.join(NAMES)}]) where {', '.join(facts)} = x"


def many_parameters(count: int, last: str) -> str:
    """A sum of parameters whose sizes are annotated one by one: each is the one before it, up to the last."""
    names = [f"(x{i} : f32[n{i}])" for i in range(count)]
    facts = [f"n{i} = n{i + 1}" for i in range(count - 1)]
    return f"fun f {' '.join(names)} where {', '.join(facts)} = x0 + (x{count - 1} : {last})"


def programs() -> Iterator[Case]:
    power = " * ".join([SUM] * 16)
    yield Case(
        "a sum of 8 variables, to the 16th",
        lambda: verdict(f"fun p {{a, b, c, d, e, f, g, h}} (x : f32[{power}]) = x"),
        ("AX0309",),
    )
    squared = "fun square (x : f32[n]) = for i < n * n => x[i / n]\nfun f x = " + "square (" * 18 + "x" + ")" * 18
    yield Case("18 squarings", lambda: verdict(squared), ("AX0309",))
    doubled = "fun double (x : f32[n]) = for i < 2 * n => x[i / 2]\nfun f x = " + "double (" * 64 + "x" + ")" * 64
    yield Case("64 doublings", lambda: verdict(doubled), ("AX0309",))
    yield Case("cyclic-6", lambda: verdict(cyclic_program()), ("accepted", "AX0310"))
    number = 46_337 * 46_327  # below 2 ** 31
    yield Case(
        "a semiprime reshape", lambda: verdict(f"fun f (x : f32[{number}]) = for (i, j) => x[(i, j)]"), ("AX0306",)
    )  # which factors are meant, nobody said
    halved = f"fun f (x : f32[{number}]) = for i < 2, j => x[(i, j)]"
    yield Case("half a semiprime", lambda: verdict(halved), ("AX0301",))  # it is odd
    yield Case("2,000 sizes, all equal", lambda: verdict(many_parameters(2_000, "f32[n0]")), ("accepted",))
    yield Case("2,000 sizes, and one more", lambda: verdict(many_parameters(2_000, "f32[n0 + 1]")), ("AX0301",))


# ── systems ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def variables(count: int, name: str = "v") -> list[Dim]:
    return [Dim.of(fresh(f"{name}{i}")) for i in range(count)]


def outcome(solution: Solution) -> str:
    return "conflict" if solution.conflicts else "open" if solution.residual else "solved"


def solved(equations: list[tuple[Dim, Dim]], flexible: list[Dim], facts: Facts | None = None) -> Solution:
    system = [Equation(left, right, i) for i, (left, right) in enumerate(equations)]
    return solve(system, [s for v in flexible if (s := v.symbol) is not None], facts or Facts())


def refused(build: Callable[[], object]) -> str:
    """Whether a size is refused as too large."""
    try:
        build()
    except DimensionTooLarge:
        return "too large"
    return "built"


def power_of_a_sum() -> Dim:
    total = dim_sum(variables(8))
    result = total
    for _ in range(15):
        result = result * total
    return result


def squarings() -> Dim:
    result = dim_sum(variables(2))
    for _ in range(18):
        result = result * result
    return result


def cyclic(length: int) -> list[Dim]:
    """The left sides of cyclic-6, up to a length of the products."""
    v = variables(6)
    left = []
    for n in range(1, length + 1):
        products = []
        for i in range(6 if n < 6 else 1):
            product = Dim.of(1)
            for k in range(n):
                product = product * v[(i + k) % 6]
            products.append(product)
        left.append(dim_sum(products))
    return left


def cyclic_solved(flexible: bool) -> str:
    left = cyclic(6)
    own = sorted({s for p in left for s in p.variables}, key=lambda s: s.id)
    return outcome(solved([(p, Dim.of(7 * (i + 1))) for i, p in enumerate(left)], [Dim.of(s) for s in own] if flexible else []))


def cyclic_proved() -> str:
    left = cyclic(5)
    known = Facts().assume(*(Relation(p, "=", Dim.of(7 * (i + 1))) for i, p in enumerate(left)))
    v = [Dim.of(s) for s in sorted(left[0].variables, key=lambda s: s.id)]
    return prove(known, Relation(v[0] * v[1] * v[2], "=", v[3] * v[4] * v[5])).value


def semiprime(flexible: bool) -> str:
    a, b = variables(2)
    return outcome(solved([(a * b, Dim.of(1_000_003 * 999_983))], [a, b] if flexible else []))


def doublings(count: int) -> str:
    v = variables(count + 1)
    return refused(lambda: solved([(a + a, b) for a, b in pairwise(v)], v[1:]))


def chain(count: int, ends: tuple[int, int]) -> str:
    """Sizes that equal one another, with a number at each end."""
    v = variables(count)
    equations = [(a, b) for a, b in pairwise(v)]
    return outcome(solved([*equations, (v[0], Dim.of(ends[0])), (v[-1], Dim.of(ends[1]))], v))


def systems() -> Iterator[Case]:
    yield Case("the same, as a size", lambda: refused(power_of_a_sum), ("too large",))
    yield Case("18 squarings of a sum", lambda: refused(squarings), ("too large",))
    yield Case("cyclic-6, solved", lambda: cyclic_solved(True), ("open", "conflict"))  # it has no solution in sizes
    yield Case("cyclic-6, of given sizes", lambda: cyclic_solved(False), ("open", "conflict"))
    yield Case("cyclic-6, a product proved", cyclic_proved, ("unknown", "refuted", "proved"))  # vacuous: any answer is right
    yield Case("a * b = a semiprime, solved", lambda: semiprime(True), ("open", "solved"))
    yield Case("a * b = a semiprime, given", lambda: semiprime(False), ("open",))
    yield Case("60 doublings", lambda: doublings(60), ("built",))
    yield Case("64 doublings", lambda: doublings(64), ("too large",))
    yield Case("5,000 equal sizes", lambda: chain(5_000, (3, 3)), ("solved",))
    yield Case("5,000 equal sizes, 3 = 4", lambda: chain(5_000, (3, 4)), ("conflict",))
    yield Case("5,000 sums in a row", fibonacci, ("solved", "too large"))


def fibonacci() -> str:
    """Each size the sum of the two before it, far beyond what a coefficient may be."""
    v = variables(5_000)
    try:
        return outcome(solved([(v[i] + v[i + 1], v[i + 2]) for i in range(len(v) - 2)], v[2:]))
    except DimensionTooLarge:
        return "too large"


def layers(count: int) -> tuple[list[tuple[Dim, Dim]], list[Dim], Facts]:
    """About so many equations of the kinds that networks have, over sizes that each layer makes from those before it."""
    h, d, n = variables(3, "given")
    facts = Facts().assume(Relation(d % h, "=", Dim.of(0)), Relation(n % 8, "=", Dim.of(0)), Relation(h, ">=", Dim.of(1)))
    equations: list[tuple[Dim, Dim]] = []
    unknown: list[Dim] = []
    width = n
    while len(equations) < count:
        e, q, k, out, merged, half, whole, rows = variables(8)
        unknown += [e, q, k, out, merged, half, whole, rows]
        equations += [
            (h * e, d), (q, e), (q, k), (out, width), (merged, h * e), (2 * half, width), (whole, half + half), (rows, whole),
        ]  # fmt: skip
        width = rows
    return equations, unknown, facts


# ── the guard ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def guard_time() -> float:
    """Seconds of one `bind` of ten dimensions: given, bare, divided, subtracted, compared, and two facts."""
    k, b, n, c, h, d, m, r, w, s = variables(10)
    shapes = ((b, n, c, h), (c, k * d, 2 * m, h - r + 1), (n, r + w, b, w), (s,))
    facts = (Relation(n % 4, "=", Dim.of(0)), Relation(r, "<=", h))
    symbol = k.symbol
    assert symbol is not None
    contract = Contract(
        (symbol,), tuple(ParameterShape(f"x{i}", dims) for i, dims in enumerate(shapes)), tuple(ContractFact(f, "") for f in facts)
    )
    actual = ((5, 8, 3, 9), (3, 14, 4, 8), (8, 13, 5, 11), (6,))
    assert len(contract.bind((2,), actual)) == 10
    best = float("inf")
    for _ in range(10):
        start = time.process_time()
        for _ in range(2_000):
            contract.bind((2,), actual)
        best = min(best, (time.process_time() - start) / 2_000)
    return best


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def seconds(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """Of processor time, the median after a first run."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main() -> int:
    missed = False

    def row(what: str, took: str, target: str, late: bool, note: str = "") -> None:
        nonlocal missed
        missed |= late
        print(f"{what:36} {took:>9} {target:>8}  {note}{'  missed' if late else ''}".rstrip())

    def timed(what: str, run: Callable[[], object], target: float, wrong: bool = False, note: str = "") -> None:
        took = seconds(run)
        row(what, f"{took:.3f}", f"{target:.2f}", took > target or wrong, note + "  WRONG" * wrong)

    print(f"shapes, warm, seconds of processor time, median of {REPEATS}: {date.today()}, Python {platform.python_version()}, "
          f"{os.cpu_count()} cores")  # fmt: skip
    row("", "cpu", "target", False)
    for model in sorted((ROOT / "examples" / "models").glob("*.axon")):
        timed(str(model.relative_to(ROOT)), lambda model=model: accepted(model), MODEL_TARGET, not accepted(model))  # type: ignore[misc]
    equations, unknown, facts = layers(CONSTRAINTS)
    answer = outcome(solved(equations, unknown, facts))
    timed(
        f"{len(equations):,} equations of layers", lambda: solved(equations, unknown, facts), CONSTRAINTS_TARGET, answer != "solved"
    )
    for case in (*programs(), *systems()):
        answer = case.run()
        timed(case.name, case.run, ADVERSARY_TARGET, answer not in case.right, answer)
    guard = guard_time()
    row("the guard of 10 dimensions", f"{guard * 1e6:.2f} µs", f"{GUARD_TARGET * 1e6:.0f} µs", guard > GUARD_TARGET)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
