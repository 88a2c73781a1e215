"""Methods that look for a peak: the highest place, and the normal density that bends there as the posterior does."""

from __future__ import annotations

import numpy as np

from axon.host.call import wrong
from axon.host.inference.asked import Asked, Found
from axon.host.inference.density import named, suspects
from axon.host.inference.latents import Array, leaves
from axon.host.inference.report import posterior
from axon.host.inference.starts import starts

MOST = 1000  # steps up to a peak
FLAT = 1e-2  # a peak is where a latent that doubles, or changes by 1 if it is small, changes the density by no more of it


def peak(asked: Asked) -> Found:
    u, height = _highest(asked)
    found = posterior(asked, u[None, None])
    return Found(found, {"lp": np.full((1, 1), height)}, {"height": height}, [])


def laplace(asked: Asked) -> Found:
    density = asked.density
    u, height = _highest(asked)
    made = asked.call("laplace", u, asked.seed, sizes=(asked.draws * asked.chains,))
    evidence = float(made["found"]["evidence"])
    if not np.isfinite(evidence):
        bends = np.diag(np.asarray(made["found"]["covariance"]))
        where = [leaf.path for leaf in leaves(density.tree) if not (leaf.of(bends) > 0).all()]
        message = f"`{density.callee.name}` does not bend down on every side of its peak, so that no normal density is like it"
        raise wrong(density.callee, "AX0503", message + (f": see {named(where)}" if where else ""))
    draws = np.asarray(made["draws"]).reshape(asked.draws, asked.chains, -1)
    found = posterior(asked, draws)
    return Found(found, {}, {"evidence": evidence, "height": height}, [])


def _highest(asked: Asked) -> tuple[Array, float]:
    """The highest of the peaks found from some starts. Raises AxonError where the highest place found is none."""
    density = asked.density
    begin = starts(density, asked.made, asked.chains, asked.seed, asked.target)
    places, heights, slopes = (np.asarray(part) for part in asked.call("peaks", np.int32(MOST), begin))
    best = int(np.argmax(np.where(np.isnan(heights), -np.inf, heights)))
    height, slope = float(heights[best]), slopes[best]
    steep = ~(abs(slope) * np.maximum(1.0, abs(places[best])) <= FLAT * max(1.0, abs(height)))
    if steep.any() or not np.isfinite(height):
        where = [leaf.path for leaf in leaves(density.tree) if leaf.of(steep).any()]
        message = f"`{density.callee.name}` has no peak that {MOST} steps reach from {asked.chains} starts: "
        message += f"it still rises along {named(where)}"
        raise wrong(density.callee, "AX0503", message, *suspects(density))
    return places[best], height
