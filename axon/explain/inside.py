"""Why a function takes the sizes that it takes: the place in its body that decides them, also in the functions that it calls.

A call is refused where it stands, although the mistake may be in the function: an index of the wrong dimension makes two sizes of
its parameters equal that should not be. Who sees the refused call is shown that place too.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.base.names import fresh
from axon.shapes.algebra.prove import Facts
from axon.shapes.constraint import Callee, Equal, Reason
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.solving.equations import Equation, solve

_MAX_CALLS = 6  # functions within functions
_MAX_EQUATIONS = 400
_PASSED = ("argument", "the argument")  # how reasons begin that only pass a size on to a function


def decided(callee: Callee, depth: int = _MAX_CALLS) -> tuple[Callee, Reason] | None:
    """The function and the reason in its body that give a parameter a size which other arguments decide, if there is one."""
    if not depth:
        return None
    equal = _decisive(callee)
    if equal is None:  # the parameter got the size together with its type, where it is passed on
        return next((found for other in callee.others() if (found := decided(other, depth - 1)) is not None), None)
    deeper = callee.inside(equal)
    found = decided(deeper, depth - 1) if deeper is not None else None
    passed_on = found is None or found[1].text.startswith(_PASSED)
    return (callee, equal.reason) if passed_on else found


def _decisive(callee: Callee) -> Equal | None:
    """An equation of those that make a size what it is: the first about indices, else the last."""
    if callee.size.symbol not in callee.flexible or len(callee.equals) > _MAX_EQUATIONS:
        return None
    used: Sequence[object] = ()
    for sizes in ((callee.size,), (callee.size, *callee.apart)):
        others = [Equation(size, Dim.of(fresh("other")), None) for size in sizes]
        system = [*(Equation(e.left, e.right, e) for e in callee.equals), *others]
        try:
            solution = solve(system, callee.flexible, Facts())
        except DimensionTooLarge:
            return None
        wrong = [c.reasons for c in solution.conflicts] + [r.reasons for r in solution.residual]
        used = next((reasons for reasons in wrong if None in reasons), ())
        if used or not callee.apart:
            break
    sided = [e for e in used if isinstance(e, Equal) and len(e.reason.sides) == 2]
    indexed = (e for e in sided if all(side.about for side in e.reason.sides))  # the first: the others build on it
    return next(indexed, None) or next(reversed(sided), None)
