"""Effective draws a second of `axon.infer` beside NumPyro's NUTS, over the models of models.axon.

    python benchmarks/inference/run.py [NAME…] [--chains 16] [--keys 3] [--out FILE]

Same data, float64, same number of chains, of steps of warm-up and of draws. A figure is the least bulk ESS over all parameters
(ArviZ) by the seconds of warm-up and sampling: everything but compiling, which a first call of each side does, and ArviZ. Sides
take turns, key by key; figures are medians over keys. A row counts if all means agree: no two differ by more than 5 of their Monte
Carlo errors and R-hat is below 1.05 on both sides.

Axon's sides are what a user gets who names nothing, `chees`, and `hmc`, whose trajectories have a length of 2. NumPyro's are NUTS
with its defaults: a chain for each of as many host devices as there are chains, two devices that each have half of the chains one
after the other, and all chains as a vector; the best counts. `MCMC.run` compiles again in each call, so that all of a run is one
jitted function here, which NumPyro's users may write as well.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
WARMUP, DRAWS = 500, 1000  # axon.infer's defaults


class Run(NamedTuple):
    seconds: float
    draws: dict[str, Any]  # by name, chains first


def axon_side(name: str, method: str, chains: int) -> Callable[[int], Run]:
    import data

    import axon

    model, given = axon.load(str(HERE / "models.axon"))[name], data.of(name)

    def run(key: int) -> Run:
        found = axon.infer(model, given, method=method, chains=chains, warmup=WARMUP, draws=DRAWS, key=key)  # type: ignore[arg-type]
        return Run(found.posterior.attrs["sampling_time"], {path: found.posterior[path].values for path in found.posterior})

    return run


def numpyro_side(name: str, how: str, chains: int) -> Callable[[int], Run]:
    import data
    import in_numpyro
    import jax
    import numpy as np
    from numpyro.infer import MCMC, NUTS

    given = {key: jax.device_put(value) for key, value in data.of(name).items()}

    def one(key: Any, count: int = 1, method: str = "sequential") -> Any:
        settings = {"num_warmup": WARMUP, "num_samples": DRAWS, "num_chains": count, "chain_method": method, "progress_bar": False}
        mcmc = MCMC(NUTS(getattr(in_numpyro, name)), **settings)
        mcmc.run(key, **given)
        return mcmc.get_samples(group_by_chain=True)

    whole = {
        "devices": lambda: jax.pmap(one),
        "halves": lambda: jax.pmap(lambda keys: jax.lax.map(one, keys)),
        "vector": lambda: jax.jit(lambda keys: one(keys[0], chains, "vectorized")),
    }[how]()
    shape = {"devices": (chains, 2), "halves": (2, chains // 2, 2), "vector": (chains, 2)}[how]

    def run(key: int) -> Run:
        keys = jax.random.split(jax.random.PRNGKey(key), chains).reshape(shape)
        start = time.perf_counter()
        found = {path: np.asarray(part) for path, part in whole(keys).items()}
        seconds = time.perf_counter() - start
        extra = {"devices": 2, "halves": 3, "vector": 1}[how]  # dimensions before the draws
        return Run(seconds, {path: part.reshape(chains, DRAWS, *part.shape[extra + 1 :]) for path, part in found.items()})

    return run


def effective(run: Run) -> float:
    import arviz

    return min(float(part.min()) for part in arviz.ess(arviz.from_dict(run.draws)).values())


def apart(a: Run, b: Run) -> tuple[float, float]:
    """The most that means differ, in Monte Carlo errors of both; the largest R-hat of either."""
    import arviz
    import numpy as np

    worst = hat = 0.0
    sides = [arviz.from_dict(run.draws) for run in (a, b)]
    errors = [arviz.mcse(side) for side in sides]
    for path in sides[0].posterior:
        means = [side.posterior[path].mean(("chain", "draw")).values for side in sides]
        error = np.hypot(*(part[path].values for part in errors))
        worst = max(worst, float(np.max(abs(means[0] - means[1]) / error)))
    for side in sides:
        hat = max(hat, *(float(part.max()) for part in arviz.rhat(side).values()))
    return worst, hat


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--sides", default="axon chees,axon hmc,numpyro devices,numpyro halves,numpyro vector")
    parser.add_argument("--out")
    args = parser.parse_args()
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={args.chains}"
    warnings.simplefilter("ignore")
    import data
    import numpyro
    from racing import mean, report

    numpyro.enable_x64()
    lines, ratios = [], []
    for name in args.names or data.MAKERS:
        sides = {}
        for side in args.sides.split(","):
            library, how = side.split()
            sides[side] = (axon_side if library == "axon" else numpyro_side)(name, how, args.chains)
            sides[side](0)
        runs: dict[str, list[Run]] = {side: [] for side in sides}
        for key in range(1, args.keys + 1):
            for side, run in sides.items():
                runs[side].append(run(key))
        rates = {side: median(effective(run) / run.seconds for run in of) for side, of in runs.items()}
        best = {library: max((s for s in sides if s.startswith(library)), key=rates.__getitem__) for library in ("axon", "numpyro")}
        errors, hat = apart(runs[best["axon"]][0], runs[best["numpyro"]][0])
        fine = errors < 5 and hat < 1.05
        default = rates.get("axon chees", 0.0) / rates[best["numpyro"]]
        ratios += [default] if fine else []
        each = ", ".join(f"{side} {rates[side]:,.0f} ({median(r.seconds for r in of):.2f} s)" for side, of in runs.items())
        best_ratio = rates[best["axon"]] / rates[best["numpyro"]]
        lines.append(f"| {name} | {each} | {default:.2f} | {best_ratio:.2f} | {errors:.1f} | {hat:.3f} | {'' if fine else 'no'} |")
        print(lines[-1], flush=True)
    head = ["| model | ESS/s (seconds) | default / NumPyro | best / NumPyro | errors | R-hat | |", "|---|---|---|---|---|---|---|"]
    report([*head, *lines, "", f"geometric mean of the default's: {mean(ratios):.2f}" if ratios else ""], args.out)


if __name__ == "__main__":
    main()
