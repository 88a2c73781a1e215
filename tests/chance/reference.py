"""The models of `models.axon` in NumPyro, an oracle of the tests alone.

`python -m tests.chance.reference` writes the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).with_name("reference.json")
Tree = dict[str, Any]


def data() -> dict[str, tuple[Any, ...]]:
    """What each model is given."""
    draw = np.random.default_rng(28)
    sigma, y = draw.uniform(5, 20, 8), draw.normal(5, 10, 8)
    return {
        "schools": (sigma, y),
        "regression": (draw.normal(size=(6, 3)), draw.normal(size=6)),
        "studies": (sigma.reshape(2, 4), y.reshape(2, 4), np.float64(1.5)),
    }


def unconstrained() -> dict[str, Tree]:
    """A point of each model in the reals."""
    draw = np.random.default_rng(29)

    def schools(n: int, *more: int) -> Tree:
        parts = {"mu": draw.normal(size=more), "tau": draw.normal(size=more), "theta": draw.normal(size=(*more, n))}
        return {name: part if part.ndim else np.float64(part) for name, part in parts.items()}

    return {
        "schools": schools(8),
        "regression": {
            "alpha": np.float64(0.3), "beta": draw.normal(size=3), "sigma": np.float64(-0.4), "shift": draw.normal(size=(6, 3)),
        },
        "studies": {"group": schools(4, 2), "first": schools(4), "scale": np.float64(0.7)},
    }  # fmt: skip


def constrained(u: Mapping[str, Any]) -> Tree:
    """The same point with the transforms of the supports: all that are not the reals are the positive numbers."""
    positive = ("tau", "sigma", "scale")
    return {n: constrained(x) if isinstance(x, dict) else np.exp(x) if n in positive else x for n, x in u.items()}


def table() -> dict[str, dict[str, float]]:
    """What NumPyro says: of each model the log density, that of the data alone, and that of the point in the reals."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density, potential_energy

    def schools(sigma: Any, y: Any, name: str = "", obs: bool = True) -> Any:
        mu = numpyro.sample(f"{name}mu", dist.Normal(0.0, 5.0))
        tau = numpyro.sample(f"{name}tau", dist.HalfCauchy(5.0))
        theta = numpyro.sample(f"{name}theta", dist.Normal(mu, tau).expand(y.shape).to_event(1))
        numpyro.sample(f"{name}y", dist.Normal(theta, sigma).to_event(1), obs=y)
        return theta

    def regression(x: Any, y: Any) -> None:
        alpha = numpyro.sample("alpha", dist.Normal(0.0, 10.0))
        beta = numpyro.sample("beta", dist.Normal(0.0, 2.5).expand((x.shape[1],)).to_event(1))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        shift = numpyro.sample("shift", dist.Normal(beta, sigma).expand(x.shape).to_event(2))
        numpyro.sample("y", dist.Normal(alpha + (x * (beta + shift)).sum(1), sigma).to_event(1), obs=y)

    def studies(sigma: Any, y: Any, z: Any) -> None:
        group = [schools(sigma[a], y[a], f"group{a}_") for a in range(len(y))]
        first = schools(sigma[0], y[0], "first_")
        scale = numpyro.sample("scale", dist.HalfCauchy(1.0 if len(y) > 2 else 2.0))
        numpyro.sample("z", dist.Normal(group[0][0] + first[0], scale), obs=z)

    def flat(name: str, tree: Tree) -> Tree:
        if name != "studies":
            return tree
        groups = {f"group{a}_{n}": x[a] for a in range(2) for n, x in tree["group"].items()}
        return {**groups, **{f"first_{n}": x for n, x in tree["first"].items()}, "scale": tree["scale"]}

    out = {}
    models: dict[str, Any] = {"schools": schools, "regression": regression, "studies": studies}
    points = unconstrained()
    for name, model in models.items():
        given, u = data()[name], flat(name, points[name])
        whole, trace = log_density(model, given, {}, flat(name, constrained(points[name])))
        observed = [site for site in trace.values() if site["type"] == "sample" and site["is_observed"]]
        seen = sum(float(site["fn"].log_prob(site["value"])) for site in observed)
        free = -float(potential_energy(model, given, {}, u))
        out[name] = {"log_density": float(whole), "likelihood": seen, "unconstrained": free}
    return out


if __name__ == "__main__":
    TABLE.write_text(json.dumps(table(), indent=2) + "\n")
