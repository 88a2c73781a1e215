"""`m.f.cost(…)`: floating-point operations, bytes moved and memory of a call, as SymPy expressions of the sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.base.data import dataclass, field
from axon.base.diagnostics import Suggestion
from axon.base.nearest import nearest
from axon.host.call import Callee, Session, wrong
from axon.host.ranked import Ranked, Spelling
from axon.host.sizes import Expressions
from axon.host.solve import asked
from axon.shapes.algebra.polynomials import largest
from axon.shapes.contracts.inverse import Every, Family
from axon.shapes.dimension import Dim, DimensionTooLarge

if TYPE_CHECKING:
    from axon.backend.plan.cost import PlanCost as Counted

TARGETS = ("cpu", "cuda")
_SHOWN = 40  # kernels, in a text


@dataclass(frozen=True, slots=True)
class KernelCost:
    """What a kernel counts, all of its runs in loops together."""

    title: str
    flops: Any
    bytes: Any


@dataclass(frozen=True, slots=True, eq=False)
class Cost:
    """What a call costs: `flops`, `bytes` that its kernels must move at least, and `memory`, the bytes that it needs at once, of
    arguments, results and what lies between kernels. Expressions of SymPy, of the sizes that are not known.

    `kernels` has the parts of these sums; `bounds` says why something is an upper bound, where it is one; `at` are the sizes for
    which the kernels of a GPU were chosen, where none are given.
    """

    target: str
    flops: Any
    bytes: Any
    memory: Any
    kernels: tuple[KernelCost, ...]
    bounds: tuple[str, ...] = ()
    at: str = ""
    _function: str = field(default="", repr=False)

    def __str__(self) -> str:
        lines = [
            f"{name:<6} {_text(found)}" for name, found in (("flops", self.flops), ("bytes", self.bytes), ("memory", self.memory))
        ]
        for number, kernel in enumerate(self.kernels[:_SHOWN], 1):
            lines.append(f"  {number}. {kernel.title}: {_text(kernel.flops)} FLOPs, {_text(kernel.bytes)} bytes")
        lines += [f"  and {len(self.kernels) - _SHOWN} more kernels"] if len(self.kernels) > _SHOWN else []
        lines += [f"upper bounds: {bound}" for bound in self.bounds]
        return "\n".join([*lines, *([self.at] if self.at else [])])

    def __repr__(self) -> str:
        return "\n  ".join([f"<cost of {self._function} on {self.target}", *str(self).splitlines()]) + ">"


def _text(found: Any) -> str:
    return f"{int(found):,}" if found.is_Integer else str(found)


def cost(
    session: Session,
    callee: Callee,
    explicit: tuple[int, ...],
    given: Mapping[Any, int] | None,
    target: str,
    elements: Mapping[str, str] | None,
    ranks: Mapping[str, int] | None,
    shapes: Mapping[str, Any],
) -> Cost:
    """What a call of these sizes costs. Raises AxonError for what does not fit the signature, AX0501 where no sizes do."""
    if target not in TARGETS:
        near = nearest(str(target), TARGETS)
        help = (Suggestion(f"did you mean `{near}`?"),) if near else ()
        raise wrong(callee, "AX0601", f"costs are counted for `cpu` and `cuda`, not for {target!r}", help=help)
    question = asked(session, callee, explicit, given, None, ranks, shapes, Spelling("cost"), elements)
    at, answer, nothing = question.at, question.answer, question.nothing
    if nothing is not None:
        raise nothing
    sizes = {}
    if isinstance(answer, Every | Family):
        every = answer.values if isinstance(answer, Every) else ()
        known = every[0] if len(every) == 1 else {}
        sizes = {s: Dim.of(n) for s, n in known.items()} if known else dict(answer.sizes) if isinstance(answer, Family) else {}
    numbers = {s: dim.constant for s, dim in sizes.items() if dim.constant is not None}
    schedule = session.schedule(callee) if target == "cuda" else None
    try:
        counted = compiler.cost(at.program, target, numbers, schedule, session.chip)
        return _expressed(at, counted, target, sizes, numbers)
    except DimensionTooLarge:
        raise wrong(callee, "AX0309", f"the cost of `{callee.name}` is too large a formula") from None


def _expressed(at: Ranked, counted: Counted, target: str, sizes: Mapping[Any, Dim], numbers: Mapping[Any, int]) -> Cost:
    made = Expressions(at)
    image = {made.symbols[s]: made.of(dim) for s, dim in sizes.items()}

    idle = dict.fromkeys(at.contract.idle, Dim.of(0))

    def of(dim: Dim) -> Any:
        found = made.of(dim.substitute(idle)).xreplace(image)
        return found.doit() if image else found

    kernels = tuple(KernelCost(k.title, of(k.flops), of(k.moved)) for k in counted.kernels)
    peaks = [of(dim) for dim in counted.peaks_at(sizes)]
    memory = max(peaks) if all(p.is_Integer for p in peaks) else largest(peaks)
    open_ = [at.names[s] for s in at.variables if s not in numbers]
    typical = (
        f"kernels are those that serve where {', '.join(open_)} = {compiler.typical_size():,}" if target == "cuda" and open_ else ""
    )
    zero = made.of(Dim.of(0))
    flops, moved = sum((k.flops for k in kernels), start=zero), sum((k.bytes for k in kernels), start=zero)
    return Cost(target, flops, moved, memory, kernels, counted.bounds, typical, at.callee.name)
