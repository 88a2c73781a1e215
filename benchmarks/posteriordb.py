"""Posteriors of posteriordb by `axon.infer`, beside its reference draws: means within 4 Monte Carlo errors, deviations within 5%.

    python benchmarks/posteriordb.py PATH/TO/posteriordb.git [NAME…]

Data and draws are read out of a clone of https://github.com/stan-dev/posteriordb and are not kept.
`posteriordb.axon` has the models.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arviz
import numpy as np

import axon

MODELS = Path(__file__).with_suffix(".axon")


@dataclass(frozen=True)
class Posterior:
    """A posterior, the model that it is of, what of its data the model takes, and where chains begin, if not at 0."""

    name: str
    model: str
    data: Callable[[dict[str, Any]], tuple[Any, ...]]
    start: Callable[[tuple[Any, ...]], Any] = lambda _: None
    more: Callable[[Any, Any], dict[str, Any]] = lambda draws, given: {}  # what Stan's program computes of draws and data


def fitted(given: tuple[Any, ...]) -> dict[str, Any]:
    x, y = given
    best = np.linalg.lstsq(x, y)[0]
    return {"beta": best, "sigma": np.std(y - x @ best)}


def linear(
    name: str, y: str, columns: Callable[[dict[str, Any]], list[Any]], model: str = "regression", constant: bool = True
) -> Posterior:
    def data(d: dict[str, Any]) -> tuple[Any, ...]:
        target = np.log(d[y[4:]]) if y.startswith("log ") else np.asarray(d[y], float)
        first = [np.ones(len(target))] if constant else []
        return np.stack([*first, *columns(d)], 1).astype(float), target

    return Posterior(name, model, data, fitted)


def series(d: dict[str, Any]) -> tuple[Any, ...]:
    y, k = np.asarray(d["y"]), d["K"]
    return np.stack([y[k - j - 1 : len(y) - j - 1] for j in range(k)], 1), y[k:]


def of(d: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(np.asarray(d[name], float) for name in names)


def centered(x: Any, deviations: float) -> Any:
    return (x - np.mean(x)) / (deviations * np.std(x, ddof=1))


def ideology(d: dict[str, Any]) -> list[Any]:
    ages = [np.array(d["age_discrete"]) == age for age in (2, 3, 4)]
    return [*of(d, "real_ideo", "race_adj"), *ages, *of(d, "educ1", "gender", "income")]


def iq_z(d: dict[str, Any]) -> list[Any]:
    hs, iq = (centered(x, 2) for x in of(d, "mom_hs", "mom_iq"))
    return [hs, iq, hs * iq]


def iq_c2(d: dict[str, Any]) -> list[Any]:
    hs, iq = np.array(d["mom_hs"]) - 0.5, np.array(d["mom_iq"]) - 100
    return [hs, iq, hs * iq]


def heights(d: dict[str, Any]) -> list[Any]:
    height, male = of(d, "height", "male")
    return [centered(height, 1), male, centered(height, 1) * male]


def tall(d: dict[str, Any]) -> list[Any]:
    height, male = of(d, "height", "male")
    return [height, male, height * male]


def bushes(d: dict[str, Any]) -> list[Any]:
    return [*of(d, "diam1", "diam2", "canopy_height", "total_height", "density", "group")]


def log_bushes(d: dict[str, Any]) -> list[Any]:
    return [*map(np.log, bushes(d)[:-1]), np.array(d["group"])]


def effects(draws: Any, _: Any) -> dict[str, Any]:
    return {"theta": draws["mu"][..., None] + draws["tau"][..., None] * draws["theta_trans"]}


def process(draws: Any, given: Any) -> dict[str, Any]:
    x = given[0]
    alpha, rho = (draws[name][..., None, None] for name in ("alpha", "rho"))
    covariance = alpha**2 * np.exp(-0.5 * ((x[:, None] - x) / rho) ** 2) + 1e-10 * np.eye(len(x))
    return {"f": (np.linalg.cholesky(covariance) @ draws["f_tilde"][..., None])[..., 0]}


POSTERIORS = (
    Posterior("eight_schools-eight_schools_noncentered", "schools", lambda d: of(d, "y", "sigma"), more=effects),
    linear("kidiq-kidscore_momiq", "kid_score", lambda d: [np.array(d["mom_iq"])], "kidscore"),
    linear("kidiq_with_mom_work-kidscore_interaction_z", "kid_score", iq_z),
    linear("kidiq_with_mom_work-kidscore_interaction_c2", "kid_score", iq_c2),
    linear("kidiq_with_mom_work-kidscore_mom_work", "kid_score", lambda d: [np.array(d["mom_work"]) == w for w in (2, 3, 4)]),
    linear("mesquite-mesquite", "weight", bushes),
    linear("mesquite-logmesquite", "log weight", log_bushes),
    linear("earnings-logearn_interaction", "log earn", tall),
    linear("earnings-logearn_interaction_z", "log earn", heights),
    linear("nes1980-nes", "partyid7", ideology),
    linear("nes2000-nes", "partyid7", ideology),
    linear("sblri-blr", "y", lambda d: list(np.array(d["X"]).T), "blr", constant=False),
    linear("sblrc-blr", "y", lambda d: list(np.array(d["X"]).T), "blr", constant=False),
    Posterior("arK-arK", "autoregression", series),
    Posterior("arma-arma11", "arma", lambda d: of(d, "y")),
    Posterior("garch-garch11", "garch", lambda d: of(d, "y", "sigma1")),
    Posterior("gp_pois_regr-gp_regr", "process", lambda d: of(d, "x", "y")),
    Posterior("gp_pois_regr-gp_pois_regr", "counts", lambda d: (*of(d, "x"), np.array(d["k"], np.int32)), more=process),
    Posterior("low_dim_gauss_mix-low_dim_gauss_mix", "clusters", lambda d: of(d, "y")),
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


def named(draws: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Draws by the names of Stan: `beta[2]` is the second of beta."""
    for name, values in draws.items():
        for place in np.ndindex(values.shape[2:]):
            yield name + (f"[{','.join(str(i + 1) for i in place)}]" if place else ""), values[:, :, *place]


def compared(draws: Any, reference: Any) -> tuple[float, float]:
    """How far means are apart, in Monte Carlo errors of both; the ratio of deviations less 1."""
    error = np.hypot(*(float(arviz.mcse({"x": x})["x"]) for x in (draws, reference)))
    return abs(draws.mean() - reference.mean()) / error, draws.std() / reference.std() - 1


def main(git: str, *names: str) -> None:
    database, module = Database(git), axon.load(MODELS)
    print("| posterior | latents | most errors between means | most between deviations | R-hat | divergences | seconds | |")
    print("|---|---|---|---|---|---|---|---|")
    for one in POSTERIORS:
        if names and one.name not in names:
            continue
        posterior = database.read(f"posteriors/{one.name}.json")
        given = one.data(database.data(posterior["data_name"]))
        before = time.perf_counter()
        found = axon.infer(module[one.model], given, start=one.start(given), draws=2000, warmup=1000, key=1)
        seconds = time.perf_counter() - before
        reference = database.draws(posterior["reference_posterior_name"])
        draws = {name: values.values for name, values in found.posterior.data_vars.items()}
        made = dict(named(draws | one.more(draws, given)))
        missing = reference.keys() - made.keys()
        assert not missing, missing
        apart = [compared(made[name], reference[name]) for name in made if name in reference]
        errors, scale = max(a for a, _ in apart), max((s for _, s in apart), key=abs)
        agrees = "agrees" if errors < 4 and abs(scale) < 0.05 else "DIFFERS"
        attributes = found.posterior.attrs
        row = f"{one.name} | {len(apart)} | {errors:.1f} | {scale:+.1%} | {attributes['r_hat']:.3f} | {attributes['divergences']}"
        print(f"| {row} | {seconds:.0f} | {agrees} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
