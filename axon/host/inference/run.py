"""Inference from Python: what is asked for, checked, and which method does it."""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import Any, Literal

import numpy as np

from axon.backend.libraries import untraced
from axon.base.extras import require
from axon.base.nearest import hint
from axon.host.call import wrong
from axon.host.described import brief
from axon.host.inference import approximate, weighted
from axon.host.inference import chains as chained
from axon.host.inference.asked import Asked
from axon.host.inference.density import Density, density_of, key_of, observed
from axon.host.inference.program import program
from axon.host.inference.report import reported

METHODS = {
    "chees": chained.chees,
    "hmc": chained.hmc,
    "smc": weighted.tempered,
    "importance": weighted.importance,
    "map": approximate.peak,
    "laplace": approximate.laplace,
}
METRICS = ("dense", "diagonal")
DENSE = 64  # latents, up to which a metric is dense unless something else is asked for
CHAINS = {"chees": 16, "hmc": 4, "smc": 4, "importance": 1, "map": 4, "laplace": 4}


@untraced
@brief
def infer(
    what: Any,
    data: Any = (),
    *,
    start: Any = None,
    method: Literal["chees", "hmc", "smc", "importance", "map", "laplace"] = "chees",
    chains: int | None = None,
    draws: int = 1000,
    warmup: int = 500,
    length: float | None = None,
    metric: Literal["dense", "diagonal"] | None = None,
    key: Any = 0,
    target: str | None = None,
) -> Any:
    """Draws from the posterior of a model, as ArviZ's InferenceData, which `arviz.summary` and its plots take.

    `what` is a model, or a function that gives the logarithm of a density of data and, last, of latents, which are unconstrained: a
    tensor, or a record or tuple of them, as `start` is, around which chains begin at random. `data` are a tuple, or a dict by the
    names of parameters. Method "chees" has many chains (16), which learn how long their trajectories should be; those of "hmc" (4
    chains) have the mean `length`, in units of the posterior's scale. The `metric` of both is a covariance that warm-up learns,
    "dense", as it is of 64 latents or fewer, or "diagonal", a scale for each latent alone. "smc" has, for each of 4 chains, as
    many particles as draws, which go from the prior to the posterior; "importance" weighs draws of the prior, and draws again from
    those: both are for models, and tell the evidence. "map" is the highest of the peaks from so many starts (4), one draw of one
    chain; "laplace" draws from the normal density that bends there as the posterior does. The same `key`, a seed or a u32[2], gives
    the same draws.
    Ctrl-C after the warm-up gives what was drawn so far. Needs ArviZ, `pip install '.[infer]'`. Raises AxonError where the density
    or its gradient is not finite wherever chains could begin, and where a method cannot do what is asked; warns of divergences, of
    chains that have not mixed, and of weights that are worth few draws.
    """
    require("arviz", "infer", "axon.infer")
    if not isinstance(method, str) or method not in METHODS:
        density = density_of(what, data, start, str(method), slopes=False)
        message = f"there is no method `{method}`{hint(str(method), METHODS)}"
        raise wrong(density.callee, "AX0505", message, f"methods: {', '.join(METHODS)}")
    density = density_of(what, data, start, method, slopes=method != "importance")
    count = CHAINS[method] if chains is None else chains
    for name, value, least in (("chains", count, 2 if method == "chees" else 1), ("draws", draws, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            message = f"`{name}` must be an integer of {least} or more for method `{method}`, not {value!r}"
            raise wrong(density.callee, "AX0505", message)
    if length is not None and method not in ("chees", "hmc"):
        raise wrong(density.callee, "AX0505", f"method `{method}` has no trajectories of a `length`")
    if length is not None and not (isinstance(length, int | float) and 0 < length < inf):
        raise wrong(density.callee, "AX0505", f"`length` must be a number above 0, not {length!r}")
    if method in ("smc", "importance"):
        weighted.possible(density, method)
    chosen = _metric(density, method, metric)
    seed = key_of(density.callee, key)
    made = program(density, method, chosen == "dense")
    began = perf_counter()
    asked = Asked(density, made, int(count), int(draws), seed, target, int(warmup), length)
    found = METHODS[method](asked)
    attributes = {"method": method, "sampling_time": perf_counter() - began, "key": seed.tolist(), **found.attributes}
    if chosen is not None:
        attributes["metric"] = chosen
    return reported(density.model or density.callee.name, found.draws, found.stats, observed(density), attributes, found.said)


def _metric(density: Density, method: str, metric: str | None) -> str | None:
    """The metric of a method with chains: the one asked for, or the dense one where that costs little beside the density."""
    if method not in ("chees", "hmc"):
        if metric is not None:
            raise wrong(density.callee, "AX0505", f"method `{method}` has no trajectories with a `metric`")
        return None
    if metric is None:
        return "dense" if density.start.size <= DENSE else "diagonal"
    if metric not in METRICS:
        message = f"there is no metric `{metric}`{hint(str(metric), METRICS)}"
        raise wrong(density.callee, "AX0505", message, f"metrics: {', '.join(METRICS)}")
    return metric
