"""Where chains and searches begin, and what is wrong where they cannot, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from axon.host.call import wrong
from axon.host.inference.density import Density, named, suspects, worded
from axon.host.inference.latents import Array, leaves, paths
from axon.host.inference.program import Program
from axon.host.module import Function


def starts(density: Density, made: Program, count: int, seed: Array, target: str | None) -> Array:
    """Where the chains begin. Raises AxonError that names what is not finite there."""
    near = np.tile(density.start, (count, 1))
    found = made.call("starts", (), *density.data, near, seed, target=target)
    values, slopes = np.asarray(found["density"]), np.asarray(found["slope"])
    failed = ~(np.isfinite(values) & np.isfinite(slopes).all(1))
    if not failed.any():
        return np.asarray(found["u"])
    chain = int(np.argmax(failed))
    tried = f"100 places between -2 and 2 away from {'the start' if density.given else '0'} were tried"
    if np.isfinite(values[chain]):
        where = [leaf.path for leaf in leaves(density.tree) if not np.isfinite(leaf.of(slopes[chain])).all()]
        kind = "NaN" if np.isnan(slopes[chain]).any() else "infinite"
        message = f"the gradient of `{density.callee.name}` by {named(where)} is {kind} wherever chain {chain + 1} could begin"
    else:
        message = f"`{density.callee.name}` is {worded(values[chain])} wherever chain {chain + 1} could begin"
        message += _blamed(density, made, np.asarray(found["u"])[chain], target)
    raise wrong(density.callee, "AX0503", message, tried, *suspects(density))


def _blamed(density: Density, made: Program, u: Array, target: str | None) -> str:
    """Which sites it is that cannot be, of what was observed if there is one."""
    if density.constrain is None:
        return ""
    row = first(made.call("latents", (), *density.data, u[None], np.zeros(2, np.uint32), target=target))
    return f": {impossible(density, row, target)}"


def impossible(density: Density, row: Any, target: str | None) -> str:
    """What cannot be, given one draw of the latents: the prior of a latent, or what is observed at a site, and where first."""

    def apart(function: Function | None) -> dict[str, Array]:
        return {} if function is None else dict(paths(function(*density.data, row, target=target)))

    bad = {name: float(np.sum(part)) for name, part in apart(density.sites).items() if not np.isfinite(part).all()}
    prior = next((name for name in bad if name not in density.observed), None)
    if prior is not None:  # what depends on it may be no number either
        return f"the prior of `{prior}` has the log density {worded(bad[prior])}"
    seen = next(iter(bad), None)
    if seen is None:
        return f"what is observed of {named(density.observed)} has the log density -inf"
    points = np.asarray(apart(density.points).get(seen, 0.0))
    failed = np.argwhere(~np.isfinite(points))
    place = f"[{', '.join(map(str, failed[0]))}]" if 0 < len(failed) < points.size else ""
    return f"what is observed of `{seen}{place}` has the log density {worded(bad[seen])}"


def first(value: Any) -> Any:
    """Of values along a first dimension the first, in any record."""
    if isinstance(value, Mapping):
        return {name: first(part) for name, part in value.items()}
    return tuple(map(first, value)) if isinstance(value, tuple) else value[0]
