"""The passes of every target, in the order in which they run: what each takes and gives, what verifies it, why it stands there.

What a pass makes is verified where it is made, in every run (see `base.passes`). The table is what `axon emit --stages` prints, and
a test holds it against the passes that run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from axon.backend.cpu.plan import planned
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.prove import verify as prove
from axon.backend.gpu.roles import ir as roles
from axon.backend.gpu.runtime.ways import plan
from axon.backend.gpu.tile import ir as tile
from axon.backend.gpu.tile.assembled import InPlace, verify_in_place
from axon.backend.gpu.tile.eight_bits import verify_eight_bits
from axon.backend.gpu.tile.limbs import verify_limbed
from axon.backend.gpu.tile.recompute import Recomputed
from axon.backend.gpu.tile.verify import verify_kernels
from axon.backend.kernel.verify import verify_module
from axon.backend.plan.ir import Plan, kernels_in
from axon.backend.plan.verify import verify_deaths, verify_fused, verify_replanned
from axon.base.data import dataclass
from axon.base.diagnostics import counted
from axon.base.passes import watched
from axon.core.ir import Block, Loop, Program
from axon.core.passes.parts import Parts, everything, parts, straights, verify_parts
from axon.core.sharding.verify import verify as verify_sharded
from axon.core.verify import verify, verify_rewritten


@dataclass(frozen=True, slots=True)
class Stage:
    """A pass in its place. `each` says of what it runs for each, if not once for a program."""

    name: str
    takes: str
    gives: str
    verifier: Callable[..., Any]
    why: str
    each: str = ""

    @property
    def held(self) -> str:
        """Where its verifier stands."""
        return f"{self.verifier.__module__.removeprefix('axon.')}.{self.verifier.__name__}"


def _core(name: str, why: str, each: str = "") -> Stage:
    return Stage(name, "core", "core", verify_rewritten, why, each)


LOWER = Stage("lower", "typed", "core", verify, "first order, for these element types and ranks, sizes symbolic")
NARROW = _core("narrow", "what is the same along a dimension loses it; first, for the copies that it leaves are computed once then")
CSE = _core("core_cse", "what is computed twice is computed once; before anything is copied into its readers")
FACTOR = "sums of products in the order that costs least; while the factors still stand in them"
DISSOLVE = "pointwise operations go where they are read; before grouping, which sees fewer operations then"
HOIST = "what is the same along an axis or in every step is computed before"
TABLES = "literal tables become inputs, made once"
UNMERGE = "an index that stands for two is two again, where what is made along it is read so"
FUSE = "operations over common rows become one kernel"
CUT = "kernel for the tensor cores, and mapping"

PIPELINES: dict[str, tuple[Stage, ...]] = {
    "interpret": (LOWER,),
    "cpu": (
        LOWER,
        NARROW,
        CSE,
        _core("factor", FACTOR),
        _core("loop_order", "sums go through memory as it lies; after factoring, which makes sums"),
        _core("tables", f"{TABLES}; before they would be copied into their readers"),
        _core("dissolve", DISSOLVE),
        _core("unmerge", f"{UNMERGE}; after dissolving, which puts divisions where something is read"),
        _core("hoist", f"{HOIST}; after dissolving, which moves expressions inwards"),
        Stage("fuse", "core", "plan", verify_fused, FUSE),
        Stage("split_totals", "plan", "plan", verify_replanned, "sums of everything get rows, which threads share"),
        Stage("deaths", "plan", "lifetimes", verify_deaths, "after which kernel memory is free", "block, when it first runs"),
    ),
    "cuda": (
        LOWER,
        NARROW,
        CSE,
        _core("adjoints", "adjoints of windows are windows, without conditions; before sums of products are looked for"),
        _core(
            "segments",
            "scatters sort their indices where sizes make that faster; before factoring, which takes sums apart",
        ),
        _core("factor", FACTOR),
        _core("hoist", f"{HOIST}; before splitting, so that it may become a part of its own"),
        _core("tables", f"{TABLES}; after hoisting, which may make some"),
        Stage("parts", "core", "parts", verify_parts, "what kernels do, and what the host does between them: loops, sorts, sizes"),
        _core(
            "recompute",
            "sums over scores take a form in which streams make these again; before any of them is a product; as a way says",
            "part and way",
        ),
        _core(
            "codes", "sums of what codes in 8 bits and scales make are over codes; of what the tensor cores take", "part and way"
        ),
        _core("regroup", "products whose indices tiles cannot be cut along get another order; as a way says", "part and way"),
        _core("dissolve", f"{DISSOLVE}; of what is not on the tensor cores", "part and way"),
        _core("unmerge", f"{UNMERGE}; of what is not on the tensor cores", "part and way"),
        Stage("fuse", "core", "plan", verify_fused, f"{FUSE}; of what is not on the tensor cores", "part and way"),
        Stage("kernels", "core", "kernels", verify_kernels, "streams first, then products, then plain kernels", "part and way"),
        Stage("eight_bits", "kernels", "kernels", verify_eight_bits, "factors of 8 bits as streams take them", "part and way"),
        Stage("limbs", "kernels", "kernels", verify_limbed, "factors in f32 become sums of bf16 values", "part and way"),
        Stage("in_place", "kernels", "kernels", verify_in_place, "what others are put together of lies in them", "part and way"),
        Stage("tile", "kernels", "tiles", tile.verify, "cut as the mapping says", CUT),
        Stage("roles", "tiles", "roles", roles.verify, "who copies and who computes", CUT),
        Stage("lower_roles", "roles", "barriers", prove, "proved while it is compiled, or before it is simulated", CUT),
        Stage("emit", "barriers", "Python", verify_module, "plain kernels are emitted from their nests", "kernel and mapping"),
    ),
    "mesh": (
        LOWER,
        _core(
            "made_again", "steps of loops make statistics of their own scores; before loops that exchange something are taken apart"
        ),
        Stage("shard", "core", "sharded", verify_sharded, "programs over blocks, each for a target; after derivatives"),
    ),
}


def listed() -> str:
    """The table as text."""
    return "\n".join(_table(target, stages, {}) for target, stages in PIPELINES.items())


def listed_for(program: Program) -> str:
    """The same for one program, with what each pass makes of it, as far as that depends on no sizes."""
    return "\n".join(_table(target, stages, made(program, target)) for target, stages in PIPELINES.items())


def made(program: Program, target: str) -> dict[str, list[Any]]:
    """What passes make of a program, by their names, in the order in which they end."""
    with watched() as seen:
        if target == "cpu":
            planned(program)
        elif target == "cuda":
            for part in straights(parts(program).body):
                plan(part.program, HOPPER)
    found: dict[str, list[Any]] = {"lower": [program]}
    for name, form in seen:
        found.setdefault(name, []).append(form)
    return found


def _table(target: str, stages: Sequence[Stage], made: dict[str, list[Any]]) -> str:
    rows = [
        (f"  {number}. {stage.name}", f"{stage.takes} → {stage.gives}", stage.held, _amount(made.get(stage.name, ())), stage)
        for number, stage in enumerate(stages, 1)
    ]
    widths = [max(len(str(row[column])) for row in rows) for column in range(4)]
    lines = [f"{target}:"]
    for *cells, stage in rows:
        lines.append("  ".join(str(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
        each = f" (for each {stage.each})" if stage.each else ""
        lines.append(f"       {stage.why}{each}")
    return "\n".join(lines) + "\n"


def _amount(forms: Sequence[Any]) -> str:
    """How much there is of what a pass made: `9 operations`, `3 kernels`."""
    counts = [found for found in map(_count, forms) if found is not None]
    if not counts:
        return ""
    total, noun = sum(n for n, _ in counts), counts[0][1]
    return counted(total, noun)


def _count(form: Any) -> tuple[int, str] | None:
    match form:
        case Program(block=block):
            return sum(1 for _ in _operations(block)), "operation"
        case (Program(), tuple(tables)):
            return len(tables), "table"
        case InPlace(kernels=kernels):
            return len(kernels), "kernel"
        case Recomputed(program=program):
            return _count(program)
        case Plan(body=body):
            return sum(1 for _ in kernels_in(body)), "kernel"
        case Parts(body=body):
            return sum(1 for _ in everything(body)), "part"
        case tuple():
            return len(form), "kernel"
        case _:
            return None


def _operations(block: Block) -> Iterator[object]:
    for op in block.ops:
        yield op
        if isinstance(op, Loop):
            yield from _operations(op.body)
