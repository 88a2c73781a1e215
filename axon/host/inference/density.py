"""What is inferred: a model, or a log density of data and latents with a place to begin; and what it is called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from axon.base.data import dataclass
from axon.base.nearest import hint
from axon.host.call import Callee, is_unit, wrong
from axon.host.inference import latents
from axon.host.inference.latents import Array, Tree
from axon.host.module import Function


@dataclass(frozen=True, slots=True)
class Density:
    """A log density of data and latents, and what else a model has: one with a discrete latent has no `constrain`."""

    function: Function
    callee: Callee
    data: tuple[Any, ...]
    tree: Tree
    start: Array
    element: str
    constrain: Function | None = None
    likelihood: Function | None = None
    sites: Function | None = None  # the density of each site alone
    points: Function | None = None  # of each number that is observed
    observed: tuple[str, ...] = ()
    model: str | None = None
    given: bool = False  # whether the start is
    summed: tuple[str, ...] = ()  # its discrete latents, which are summed out, and drawn given the others


def density_of(what: Any, data: Any, start: Any, method: str, slopes: bool) -> Density:
    """A model, or a function of data and latents with a place to begin. Whether the method needs gradients."""
    model = hasattr(what, "sites")
    if isinstance(what, tuple) and len(what) == 2 and start is None:
        what, start = what
    smooth = hasattr(what, "unconstrained")
    if model and slopes and not smooth:
        message = f"`{what.__name__}` has a discrete latent, along which there is no gradient for method `{method}`"
        message += f"; {what.unsummed}" if what.unsummed else ""
        raise wrong(what.log_density._callee, "AX0505", message, "method `importance` needs none")
    function = (what.unconstrained if smooth else what.log_density) if model else what
    if not isinstance(function, Function):
        raise TypeError(f"axon.infer takes a model, or a function and where it begins, not {type(function).__name__}")
    callee = function._callee
    shown = what.__name__ if model else callee.name
    if not callee.parameters or callee.dimensions:
        raise wrong(callee, "AX0505", f"`{shown}` must take latents as its last parameter, and no dimension parameters")
    given = _data(callee, data, shown)
    if start is None and not model:
        raise wrong(callee, "AX0505", f"`{shown}` needs a place to begin: `start=`, in the form of `{callee.parameters[-1].name}`")
    narrow = any(np.asarray(x).dtype == np.float32 for part in (*given, start) for x in latents.values(part))
    element = "f32" if narrow else "f64"
    constrain = what.constrain if smooth else None
    if model:
        shape = what.prior(*given, np.zeros(2, np.uint32), target="interpret")
        if smooth:
            rest = {name: part for name, part in shape.items() if name not in what.summed} if shape else shape
            shape = what.free(*given, rest or (), target="interpret")
        tree = latents.tree_of(shape)
        begin = latents.vector(shape if start is None else what.free(*given, start, target="interpret"), element)
        begin = np.zeros_like(begin) if start is None else begin
    else:
        tree, begin = latents.tree_of(start), latents.vector(start, element)
    if not begin.size:
        message = f"`{shown}` has no latents"
        if model and what.summed:
            message = f"all latents of `{what.__name__}` are discrete: `{what.__name__}.complete` draws them"
        raise wrong(callee, "AX0505", message)
    if not np.isfinite(begin).all():
        raise wrong(callee, "AX0505", _no_start(tree, begin, start, shown))
    likelihood = getattr(what, "likelihood", None) if model else None
    apart = (getattr(what, "densities", None), getattr(what, "pointwise", None)) if model else (None, None)
    names = tuple(what.observed) if model else ()
    of_model = (what.__name__, start is not None, what.summed) if model else (None, True, ())
    return Density(function, callee, given, tree, begin, element, constrain, likelihood, *apart, names, *of_model)


def _no_start(tree: Tree, begin: Array, start: Any, shown: str) -> str:
    """What is wrong with a start of which an unconstrained number is none."""
    bad = next(leaf for leaf in latents.leaves(tree) if not np.isfinite(leaf.of(begin)).all())
    given = dict(latents.paths(start)).get(bad.path, bad.of(begin))
    if np.isnan(given).any():
        return f"the start of `{bad.path}` is NaN" if given.ndim == 0 else f"the start of `{bad.path}` has NaN in it"
    if np.isinf(given).any():
        return f"the start of `{bad.path}` {'is infinite' if given.ndim == 0 else 'has infinities'}"
    return f"the start of `{bad.path}` is not one that `{shown}` can draw"


def _data(callee: Callee, data: Any, shown: str) -> tuple[Any, ...]:
    names = [p.name for p in callee.parameters[:-1]]
    if isinstance(data, Mapping):
        for name in data:
            if name not in names:
                raise wrong(callee, "AX0505", f"`{shown}` has no data `{name}`{hint(str(name), names)}")
        missing = [name for name in names if name not in data]
        if missing:
            raise wrong(callee, "AX0505", f"`{shown}` needs data for `{missing[0]}`")
        return tuple(data[name] for name in names)
    given = tuple(data) if isinstance(data, tuple | list) else (data,)
    if not given:
        given = tuple(() for p in callee.parameters[:-1] if is_unit(p.type))
    if len(given) != len(names):
        raise wrong(
            callee, "AX0505", f"`{shown}` takes {len(names)} data, {', '.join(names) or 'none'}, and {len(given)} are given"
        )
    return given


def key_of(callee: Callee, key: Any) -> Array:
    """A key of a seed, as `random.key` makes it, or as it is."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < 2**63:
        return np.array([int(key) >> 32, int(key) & 0xFFFFFFFF], np.uint32)
    found = np.asarray(key)
    if found.shape != (2,) or found.dtype != np.uint32:
        raise wrong(callee, "AX0505", f"`key` is a seed, an integer of 0 or more, or a u32[2], not {key!r}")
    return found


def observed(density: Density) -> dict[str, Array]:
    names = [p.name for p in density.callee.parameters[:-1]]
    return {name: np.asarray(value) for name, value in zip(names, density.data, strict=True) if name in density.observed}


def named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def worded(x: float) -> str:
    return "NaN" if np.isnan(x) else "-inf" if x < 0 else "inf"


def suspects(density: Density) -> list[str]:
    """Data that are no numbers."""
    names = [p.name for p in density.callee.parameters[:-1]]
    pairs = [(name, np.asarray(x)) for name, part in zip(names, density.data, strict=True) for x in latents.values(part)]
    return [f"`{name}` holds NaN or infinities" for name, x in pairs if x.dtype.kind == "f" and not np.isfinite(x).all()]
