"""How long a call takes on this machine's processor or GPU, against what its memory and its arithmetic allow: a roofline.

The roofs are measured as well: a map over more than caches hold gives the bytes that move in a second, a product of BLAS (on a GPU
PyTorch's) the operations. What a call must take at least is the longer of its bytes and its operations at these rates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from axon.base.data import dataclass
from axon.host import module
from axon.host.command_arguments import parse_arguments
from axon.host.module import Function
from axon.tools.commands.bench import put, samples
from axon.tools.commands.timings import seconds_of
from axon.tools.view.chart import Axis, Series, chart, decades
from axon.tools.view.draw import amount

if TYPE_CHECKING:
    from axon.host.call import Callee, Session

SECONDS = 0.5  # of a call's samples
STREAMED = 1 << 24  # elements, 64 MB of f32 or more
PRODUCT = 1024  # rows and columns
ON_GPU = {"float64": 4096, "float32": 8192}  # the same of a GPU, where narrower floats have 8192 too


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes that move in a second, and operations of floats of one type that are done."""

    moved: float
    flops: float

    def least(self, flops: float, moved: float) -> float:
        """The seconds that so much work takes at least."""
        return max(flops / self.flops, moved / self.moved)


@cache
def machine(name: str) -> Machine:
    """This machine, for "float32" or "float64"."""
    element = "f64" if name == "float64" else "f32"
    shifted = module.compile(f"fun shifted (x : {element}[n]) = for i => x[i] + 1.0").shifted
    x = np.ones(STREAMED, name)
    factor = np.ones((PRODUCT, PRODUCT), name)
    streaming, multiplying = samples([("stream", lambda: shifted(x, target="cpu")), ("product", lambda: factor @ factor)], SECONDS)
    return Machine(2 * x.nbytes / min(streaming.samples), 2 * PRODUCT**3 / min(multiplying.samples))


@cache
def gpu(name: str) -> Machine:
    """The first GPU, as PyTorch uses it, for floats of a type."""
    torch = sys.modules["torch"]
    rows = ON_GPU.get(name, 8192)
    x = torch.ones(4 * STREAMED, device="cuda")
    factor = torch.ones((rows, rows), dtype=getattr(torch, name), device="cuda")
    streaming, multiplying = samples([("stream", lambda: x + 1.0), ("product", lambda: factor @ factor)], SECONDS)
    return Machine(2 * x.nbytes / min(streaming.samples), 2 * rows**3 / min(multiplying.samples))


def roofline(session: Session, callee: Callee, arguments: Sequence[str], seed: int, flops: float, moved: float, target: str) -> str:
    """A drawing of a call on "cpu" or "cuda" that does so many operations and moves so many bytes, and a line of words, as HTML."""
    given = parse_arguments(list(arguments), seed)
    explicit = [given.pop(size) for size in callee.dimensions if size in given]
    function = Function(session, callee, tuple(explicit))
    ordered = [given[p.name] for p in callee.parameters if p.name in given]
    kinds = {dtype for value in ordered for dtype in _floats(value)}
    widest = next((dtype for dtype in ("float64", "float32", "bfloat16", "float16") if dtype in kinds), "float32")
    if target == "cuda":
        ordered = [put(value, "torch", target) for value in ordered]
    (timing,) = samples([(callee.name, lambda: function(*ordered, target=target))], SECONDS)
    roofs = gpu(widest) if target == "cuda" else machine("float64" if widest == "float64" else "float32")
    least, took = roofs.least(flops, moved), timing.median
    said = (
        f"A call takes {seconds_of(took)} here, {took / least:.1f} times the {seconds_of(least)} of its bytes or operations alone."
    )
    if not flops or not moved:
        return f"<p>{escape(said)}</p>"
    return f"<p>{escape(said)}</p>{drawn(roofs, flops, moved, took)}"


def _floats(value: Any) -> Iterator[str]:
    """The types of the arrays in an argument."""
    if isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _floats(item)
    elif isinstance(value, np.ndarray):
        yield value.dtype.name


def drawn(roofs: Machine, flops: float, moved: float, took: float) -> str:
    """The roofs, what they let a call of this intensity reach, and what it was measured to reach."""
    intensity, ridge, least = flops / moved, roofs.flops / roofs.moved, roofs.least(flops, moved)
    ends = (min(intensity, ridge) / 10, max(intensity, ridge) * 10)
    roof = tuple((x, min(x * roofs.moved, roofs.flops)) for x in (ends[0], ridge, ends[1]))
    rates = [y for _, y in roof] + [flops / took, flops / least]
    series = (
        Series(f"{amount(roofs.moved, 'B/s')} and {amount(roofs.flops, 'FLOP/s')}", roof, marked=False),
        Series(f"at least {seconds_of(least)}", ((intensity, flops / least),), joined=False),
        Series(f"measured {seconds_of(took)}", ((intensity, flops / took),), joined=False),
    )
    along = Axis("FLOP per byte", decades(ends, lambda x: f"{x:g}"), log=True)
    return chart("Roofline of the call", along, Axis("FLOP/s", decades(rates, lambda y: amount(y, "FLOP/s")), log=True), series)
