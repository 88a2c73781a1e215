"""Draws as ArviZ's InferenceData, and what a user should know of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from axon import __version__
from axon.host.inference.latents import Array

LARGEST = 1.01  # R-hat, beyond which chains have not mixed (Vehtari et al. 2021)


def reported(
    name: str,
    draws: dict[str, Array],
    sample: dict[str, Array],
    step: float,
    observed: dict[str, Array],
    attributes: dict[str, Any],
) -> Any:
    """`draws` and `sample` are [draws, chains, …]; ArviZ wants chains first."""
    import arviz

    chains = sample["chance"].shape[1]
    counts = np.repeat(sample["steps"][:, None], chains, 1)
    stats = {
        "lp": sample["density"],
        "acceptance_rate": sample["chance"],
        "energy": sample["energy"],
        "diverging": sample["diverging"],
        "n_steps": counts,
        "step_size": np.full(counts.shape, step),
    }
    attributes = {
        "inference_library": "axon",
        "inference_library_version": __version__,
        "divergences": int(sample["diverging"].sum()),
        **attributes,
    }
    found = arviz.from_dict(
        posterior={path: np.swapaxes(part, 0, 1) for path, part in draws.items()},
        sample_stats={path: np.swapaxes(part, 0, 1) for path, part in stats.items()},
        observed_data=observed or None,
        posterior_attrs=attributes,
        sample_stats_attrs=attributes,
    )
    _warn(name, found, attributes["divergences"])
    return found


def _warn(name: str, found: Any, divergences: int) -> None:
    import arviz

    said = []
    if divergences:
        said.append(f"{divergences} transitions diverged: where the density bends sharply, draws are missing")
    if found.posterior.sizes["chain"] > 1 and found.posterior.sizes["draw"] >= 4:
        kept = [path for path in found.posterior if found.posterior[path].size]
        hats, sizes = arviz.rhat(found, var_names=kept), arviz.ess(found, var_names=kept)
        worst = {path: float(hats[path].max()) for path in hats}
        path = max(worst, key=lambda p: worst[p] if np.isfinite(worst[p]) else np.inf)
        found.posterior.attrs.update(r_hat=worst[path], ess=min(float(sizes[p].min()) for p in sizes))
        if not worst[path] <= LARGEST:
            hat = f"R-hat of `{path}` is {worst[path]:.2f}, above {LARGEST}"
            said.append(f"chains have not mixed, {hat}: a longer warm-up may help")
    for line in said:
        warnings.warn(f"{name}: {line}", RuntimeWarning, stacklevel=5)  # where `axon.infer` was called
