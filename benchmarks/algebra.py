"""What SymPy is asked when programs are checked, and how long it takes: the ten models, the examples, the corpus.

python benchmarks/algebra.py

Of each model: the time of a check (library warm, the median of three), how many questions `axon.shapes.algebra.polynomials` passed
on to SymPy, of which kinds, and their share of the time. Of the corpus: the same in sum, and the files that ask at all. SymPy is
imported beforehand; what that takes by itself is printed first.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from axon import compiler
from axon.shapes.algebra import polynomials
from axon.shapes.algebra.polynomials import Ideal

ROOT = Path(__file__).resolve().parents[1]
ASKED: Counter[str] = Counter()
SPENT: Counter[str] = Counter()
ASKING: list[str] = []  # what is being asked now


def timed(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if ASKING:  # a division within a basis is of its time
            return function(*args, **kwargs)
        ASKING.append(what)
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            ASKING.clear()
            ASKED[what] += 1
            SPENT[what] += time.perf_counter() - began

    return run


def watch() -> None:
    """Count what crosses the border: the functions that begin to talk to SymPy, past their own quick answers."""
    sympy = polynomials._sympy()
    sympy.hermite_normal_form = timed("Hermite", sympy.hermite_normal_form)
    sympy.isolate = timed("roots", sympy.isolate)
    polynomials._taken_apart = timed("factors", polynomials._taken_apart)
    polynomials.Basis = timed("basis", polynomials.Basis)  # type: ignore[assignment,misc]
    Ideal.consequence = timed("remainder", Ideal.consequence)  # type: ignore[method-assign]
    ring = sympy.PolyRing(["x"], sympy.ZZ, sympy.grevlex)
    element = type(ring.one)
    element.div = timed("quotient", element.div)


def checked(path: Path) -> float:
    began = time.perf_counter()
    compiler.check_text(path.read_text(encoding="utf-8"), str(path))
    return time.perf_counter() - began


def row(name: str, seconds: float, asked: Counter[str], spent: float) -> str:
    kinds = ", ".join(f"{n} {what}" for what, n in sorted(asked.items()) if n) or "-"
    return f"| {name} | {1e3 * seconds:.0f} | {1e3 * spent:.1f} | {100 * spent / seconds:.1f} % | {kinds} |"


def main() -> None:
    imported = [float(subprocess.run(
        [sys.executable, "-c", "import time; from axon.shapes.algebra.polynomials import _sympy; "
         "a = time.perf_counter(); _sympy(); print(time.perf_counter() - a)"],
        capture_output=True, text=True, check=True).stdout) for _ in range(5)]  # fmt: skip
    print(f"import of SymPy's part: {1e3 * statistics.median(imported):.0f} ms, when it is first asked\n")
    watch()
    print("| | check, ms | SymPy's part, ms | share | asked |")
    print("|---|---|---|---|---|")
    for path in sorted((ROOT / "examples" / "models").glob("*.axon")):
        checked(path)  # the library, and what lies in memos of numbers
        times = []
        for _ in range(3):
            ASKED.clear(), SPENT.clear()
            polynomials._factors.cache_clear()
            times.append(checked(path))
        print(row(path.stem, statistics.median(times), ASKED, sum(SPENT.values())))
    for name, pattern in (("examples", "examples/*.axon"), ("accepted programs", "tests/corpus/accepted/*.axon"),
                          ("rejected programs", "tests/corpus/rejected/*.axon")):  # fmt: skip
        asking, seconds, asked, spent = 0, 0.0, Counter[str](), 0.0
        paths = sorted(ROOT.glob(pattern))
        for path in paths:
            ASKED.clear(), SPENT.clear()
            seconds += checked(path)
            asking += bool(ASKED)
            asked += ASKED
            spent += sum(SPENT.values())
        print(row(f"{len(paths)} {name}, {asking} of which ask", seconds, asked, spent))


if __name__ == "__main__":
    main()
