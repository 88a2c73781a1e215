"""Where chains and searches begin, and what is wrong where they cannot, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from axon.host.call import wrong
from axon.host.inference.density import Density, named, suspects, worded
from axon.host.inference.latents import Array, leaves
from axon.host.inference.program import Program


def starts(density: Density, made: Program, count: int, seed: Array, target: str | None) -> Array:
    """Where the chains begin. Raises AxonError that names what is not finite there."""
    near = np.tile(density.start, (count, 1))
    found = made.call("starts", (), *density.data, near, seed, target=target)
    values, slopes = np.asarray(found["density"]), np.asarray(found["slope"])
    failed = ~(np.isfinite(values) & np.isfinite(slopes).all(1))
    if not failed.any():
        return np.asarray(found["u"])
    chain = int(np.argmax(failed))
    tried = f"100 places between -2 and 2 away from {'the start' if density.constrain is None else '0'} were tried"
    if np.isfinite(values[chain]):
        where = [leaf.path for leaf in leaves(density.tree) if not np.isfinite(leaf.of(slopes[chain])).all()]
        kind = "NaN" if np.isnan(slopes[chain]).any() else "infinite"
        message = f"the gradient of `{density.callee.name}` by {named(where)} is {kind} wherever chain {chain + 1} could begin"
    else:
        message = f"`{density.callee.name}` is {worded(values[chain])} wherever chain {chain + 1} could begin"
        message += _blamed(density, made, np.asarray(found["u"])[chain], target)
    raise wrong(density.callee, "AX0503", message, tried, *suspects(density))


def _blamed(density: Density, made: Program, u: Array, target: str | None) -> str:
    """Whether it is what was observed that cannot be, or the latents."""
    if density.likelihood is None or density.constrain is None:
        return ""
    row = made.call("latents", (), *density.data, u[None], np.zeros(2, np.uint32), target=target)
    value = float(density.likelihood(*density.data, _first(row), target=target))
    if np.isfinite(value):
        return ": the prior of " + named([leaf.path for leaf in leaves(density.tree)])
    return f": what is observed of {named(density.observed)} has the log density {worded(value)}"


def _first(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _first(part) for name, part in value.items()}
    return tuple(map(_first, value)) if isinstance(value, tuple) else value[0]
