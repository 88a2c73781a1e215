"""Posteriors of posteriordb by `axon.infer`, beside its reference draws: means within 4 Monte Carlo errors, deviations within 5%.

    python benchmarks/posteriordb.py PATH/TO/posteriordb.git [NAME…]

Data and draws are read out of a clone of https://github.com/stan-dev/posteriordb and are not kept. The models are Stan's, as log
densities of unconstrained latents; flat priors are left out, and the Jacobian of each exponential is added.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import arviz
import numpy as np

import axon

PROGRAM = """
(* Latents are beta and the logarithm of sigma, whose prior is Cauchy's of a scale, or flat if that is infinite. *)
type regression[k] = { beta : f64[k], sigma : f64 }
fun cauchy x scale = if scale < inf then -log1p ((x / scale) ** 2.0) else 0.0
fun regression (x : f64[n, k]) (y : f64[n]) (scale : f64) (deviation : f64) (u : regression[k]) =
  let val sigma = exp u.sigma
      val data = -0.5 * sum i => ((y[i] - sum j => x[i, j] * u.beta[j]) / sigma) ** 2.0
      val prior = cauchy sigma scale - 0.5 * sum j => (u.beta[j] / deviation) ** 2.0
  in data - cast f64 n * u.sigma + prior + u.sigma end

type effects[n] = { mu : f64, tau : f64, theta : f64[n] }
fun schools (y : f64[n]) (sigma : f64[n]) (u : effects[n]) =
  let val tau = exp u.tau
      val prior = -0.5 * (u.mu / 5.0) ** 2.0 - log1p ((tau / 5.0) ** 2.0) + u.tau - 0.5 * sum i => u.theta[i] ** 2.0
  in prior - 0.5 * sum i => ((y[i] - u.mu - tau * u.theta[i]) / sigma[i]) ** 2.0 end
"""


@dataclass(frozen=True)
class Posterior:
    name: str
    function: str
    data: Callable[[dict[str, Any]], tuple[Any, ...]]
    start: Callable[[tuple[Any, ...]], Any]
    latents: Callable[[Any], dict[str, Any]]  # of draws by name, those of Stan


def linear(
    name: str, y: str, columns: Callable[[dict[str, Any]], list[Any]], scale: float = np.inf, deviation: float = np.inf
) -> Posterior:
    def data(d: dict[str, Any]) -> tuple[Any, ...]:
        target = np.log(d["earn"]) if y == "log earn" else np.asarray(d[y], float)
        rows = np.stack(np.broadcast_arrays(1.0, *columns(d)), 1).astype(float)
        return rows[-len(target) :], target, np.float64(scale), np.float64(deviation)

    def start(given: tuple[Any, ...]) -> Any:
        best = np.linalg.lstsq(given[0], given[1])[0]
        return {"beta": best, "sigma": np.log(np.std(given[1] - given[0] @ best))}

    def latents(p: Any) -> dict[str, Any]:
        named = {f"beta[{j + 1}]": p["beta"][..., j].values for j in range(p["beta"].shape[-1])}
        return named | {"sigma": np.exp(p["sigma"].values)}

    return Posterior(name, "regression", data, start, latents)


def eight(p: Any) -> dict[str, Any]:
    mu, tau = p["mu"].values, np.exp(p["tau"].values)
    return {"mu": mu, "tau": tau} | {f"theta[{j + 1}]": mu + tau * p["theta"][..., j].values for j in range(8)}


POSTERIORS = (
    Posterior(
        "eight_schools-eight_schools_noncentered",
        "schools",
        lambda d: (np.asarray(d["y"], float), np.asarray(d["sigma"], float)),
        lambda _: {"mu": 0.0, "tau": 0.0, "theta": np.zeros(8)},
        eight,
    ),
    linear("kidiq-kidscore_momiq", "kid_score", lambda d: [np.array(d["mom_iq"])], scale=2.5),
    linear(
        "mesquite-mesquite",
        "weight",
        lambda d: [np.array(d[c]) for c in ("diam1", "diam2", "canopy_height", "total_height", "density", "group")],
    ),
    linear(
        "earnings-logearn_interaction",
        "log earn",
        lambda d: [np.array(d["height"]), np.array(d["male"]), np.array(d["height"]) * np.array(d["male"])],
    ),
    linear(
        "nes1980-nes",
        "partyid7",
        lambda d: [
            *(np.array(d["real_ideo"]), np.array(d["race_adj"])),
            *(np.array(d["age_discrete"]) == age for age in (2, 3, 4)),
            *(np.array(d[c]) for c in ("educ1", "gender", "income")),
        ],
    ),
)


class Database:
    def __init__(self, git: str) -> None:
        self.git = git

    def read(self, path: str) -> Any:
        raw = subprocess.run(
            ["git", f"--git-dir={self.git}", "show", f"HEAD:posterior_database/{path}"], check=True, capture_output=True
        )
        if not path.endswith(".zip"):
            return json.loads(raw.stdout)
        with zipfile.ZipFile(io.BytesIO(raw.stdout)) as file:
            return json.loads(file.read(file.namelist()[0]))

    def data(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.read(f"data/data/{name}.json.zip")
        return found

    def draws(self, name: str) -> dict[str, Any]:
        chains = self.read(f"reference_posteriors/draws/draws/{name}.json.zip")
        return {key: np.array([chain[key] for chain in chains]) for key in chains[0]}


def compared(draws: Any, reference: Any) -> tuple[float, float]:
    """How far means are apart, in Monte Carlo errors of both; the ratio of deviations less 1."""
    error = np.hypot(*(float(arviz.mcse({"x": x})["x"]) for x in (draws, reference)))
    return abs(draws.mean() - reference.mean()) / error, draws.std() / reference.std() - 1


def main(git: str, *names: str) -> None:
    database, module = Database(git), axon.compile(PROGRAM)
    print("| posterior | latents | most errors between means | most between deviations | R-hat | divergences | seconds | |")
    print("|---|---|---|---|---|---|---|---|")
    for one in POSTERIORS:
        if names and one.name not in names:
            continue
        posterior = database.read(f"posteriors/{one.name}.json")
        given = one.data(database.data(posterior["data_name"]))
        before = time.perf_counter()
        found = axon.infer(module[one.function], given, start=one.start(given), draws=2000, warmup=1000, key=1)
        seconds = time.perf_counter() - before
        reference = database.draws(posterior["reference_posterior_name"])
        made = one.latents(found.posterior)
        apart = [compared(made[name], reference[name]) for name in made]
        errors, scale = max(a for a, _ in apart), max((s for _, s in apart), key=abs)
        agrees = "agrees" if errors < 4 and abs(scale) < 0.05 else "DIFFERS"
        attributes = found.posterior.attrs
        row = f"{one.name} | {len(made)} | {errors:.1f} | {scale:+.1%} | {attributes['r_hat']:.3f} | {attributes['divergences']}"
        print(f"| {row} | {seconds:.0f} | {agrees} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
