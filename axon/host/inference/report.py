"""Draws as ArviZ's InferenceData, and what a user should know of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from axon import __version__
from axon.host.inference.asked import LATENTS, Asked
from axon.host.inference.latents import Array, leaves, paths

LARGEST = 1.01  # R-hat, beyond which chains have not mixed (Vehtari et al. 2021)


def reported(
    name: str, draws: dict[str, Array], stats: dict[str, Array], seen: dict[str, Array], attributes: dict[str, Any], said: list[str]
) -> Any:
    """`draws` and `stats` are [draws, chains, …]; ArviZ wants chains first. What is said is warned of."""
    import arviz

    attributes = {"inference_library": "axon", "inference_library_version": __version__, **attributes}
    found = arviz.from_dict(
        posterior={path: np.swapaxes(part, 0, 1) for path, part in draws.items()},
        sample_stats={path: np.swapaxes(part, 0, 1) for path, part in stats.items()} or None,
        observed_data=seen or None,
        posterior_attrs=attributes,
        sample_stats_attrs=attributes,
    )
    _warn(name, found, said)
    return found


def of_chains(sample: dict[str, Array], step: float) -> dict[str, Array]:
    """What ArviZ calls that which chains tell beside their draws."""
    chains = sample["chance"].shape[1]
    counts = np.repeat(sample["steps"][:, None], chains, 1)
    return {
        "lp": sample["density"],
        "acceptance_rate": sample["chance"],
        "energy": sample["energy"],
        "diverging": sample["diverging"],
        "n_steps": counts,
        "step_size": np.full(counts.shape, step),
    }


def _warn(name: str, found: Any, said: list[str]) -> None:
    import arviz

    said = list(said)
    if found.posterior.sizes["chain"] > 1 and found.posterior.sizes["draw"] >= 4:
        every = [path for path in found.posterior if found.posterior[path].size]
        kept = [path for path in every if found.posterior[path].dtype.kind == "f"] or every  # counts may be equal in all draws
        with np.errstate(
            all="ignore"
        ):  # chains that never moved have no variance to divide by: their R-hat is infinite, which is said
            hats, sizes = arviz.rhat(found, var_names=kept), arviz.ess(found, var_names=kept)
        worst = {path: float(hats[path].max()) for path in hats}
        path = max(worst, key=lambda p: worst[p] if np.isfinite(worst[p]) else np.inf)
        found.posterior.attrs.update(r_hat=worst[path], ess=min(float(sizes[p].min()) for p in sizes))
        if not worst[path] <= LARGEST:
            above = ", as of chains that never moved" if np.isnan(worst[path]) else f", above {LARGEST}"
            hat = f"R-hat of `{path}` is {shown(worst[path])}{above}"
            advice = "a longer warm-up" if "tuning_steps" in found.posterior.attrs else "more draws"
            if found.posterior.attrs.get("metric") == "diagonal":
                advice = '`metric="dense"`, where latents depend on each other, or a longer warm-up'
            said.append(f"chains have not mixed, {hat}: {advice} may help")
    for line in said:
        warnings.warn(f"{name}: {line}", RuntimeWarning, stacklevel=5)  # where `axon.infer` was called


def shown(hat: float) -> str:
    """With three digits, or as many as tell it from its bound."""
    if np.isnan(hat):
        return "NaN"
    return next((text for digits in range(3, 18) if float(text := f"{hat:.{digits}g}") != LARGEST or hat == LARGEST), str(hat))


def posterior(asked: Asked, u: Array) -> dict[str, Array]:
    """Draws by name, [draws, chains, …]: constrained, if there is a way, and with the discrete latents that were summed out."""
    density = asked.density
    if density.constrain is None:
        return {leaf.path: leaf.of(u) for leaf in leaves(density.tree)}
    flat = np.ascontiguousarray(u.reshape(-1, u.shape[-1]))
    found = asked.call("latents", flat, asked.seed ^ LATENTS)
    return {path: part.reshape(*u.shape[:2], *part.shape[1:]) for path, part in paths(found)}
