"""Methods with chains: steps in chunks, so that progress is shown and Ctrl-C loses nothing drawn so far."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from axon.base.progress import progress
from axon.host.inference import latents
from axon.host.inference.asked import OTHERS, Asked, Found
from axon.host.inference.report import of_chains, posterior
from axon.host.inference.starts import starts

PIECES = 20  # that the steps are cut into, whatever they cost: draws are the same wherever they are made


def chees(asked: Asked) -> Found:
    return _drawn(asked, 1.0, 0.651, 0.025)


def hmc(asked: Asked) -> Found:
    return _drawn(asked, 2.0, 0.8, 0.0)


def _drawn(asked: Asked, usual: float, goal: float, rate: float) -> Found:
    """Trajectories of the usual length, or the one asked for; `goal` is the share accepted, `rate` how fast lengths learn."""
    density, warmup = asked.density, asked.warmup
    u = starts(density, asked.made, asked.chains, asked.seed, asked.target)
    kind = latents.DTYPES[density.element]
    settings = (kind(goal), kind(rate), np.int32(warmup))
    length = kind(usual if asked.length is None else asked.length)
    tuning = asked.made.call("untuned", (), length, target=asked.target)
    pieces: list[dict[str, Any]] = []
    total, size = warmup + asked.draws, -(-(warmup + asked.draws) // PIECES)
    with progress(f"drawing from {density.model or density.callee.name}", -(-total // size)) as step:
        try:
            for first in range(0, total, size):
                steps = min(size, total - first)
                piece = asked.call("chains", *settings, np.int32(first), u, tuning, asked.seed ^ OTHERS, sizes=(steps,))
                u, tuning = piece["draws"][-1], piece["tuning"]
                pieces.append(piece)
                step()
        except KeyboardInterrupt:
            done = sum(len(piece["draws"]) for piece in pieces) - warmup
            if done < 1:
                raise
            warnings.warn(f"interrupted: {done} of {asked.draws} draws were made", RuntimeWarning, stacklevel=5)
    names = ("draws", "density", "chance", "energy", "diverging", "steps")
    joined = {name: np.concatenate([np.asarray(piece[name]) for piece in pieces])[warmup:] for name in names}
    found = posterior(asked, joined["draws"])
    divergences = int(joined["diverging"].sum())
    said = [f"{divergences} transitions diverged: where the density bends sharply, draws are missing"] if divergences else []
    stats = of_chains(joined, float(np.exp(tuning["mean_step"])))
    return Found(found, stats, {"tuning_steps": warmup, "divergences": divergences}, said)
