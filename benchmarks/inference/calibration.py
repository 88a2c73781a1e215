"""Simulation-based calibration (Talts et al. 2018) of `axon.infer` on models of models.axon.

    python benchmarks/inference/calibration.py [NAME…] [--sets 300] [--first 0] [--method chees] [--kept FOLDER] [--out FILE]

Latents are drawn from a model's prior, data from the model at those latents, and 99 draws from the posterior of these data. If
all is right, how many of the draws are below the latent that the data are of is uniform on 0 to 99, for each number of each
latent. Draws are thinned, so that they hardly depend on each other: of 16 chains every 32nd. Two tests for each number: χ² of 20
bins, and the largest distance between the distribution function of the ranks and the uniform one, whose own distribution comes
from 4,000 simulated sets of ranks. The p that is shown is the smallest of a model times their count; a model fails below 0.01.

Beside them stands what the sampler said of itself: the share of sets with an R-hat above 1.05, and with divergences. Where many
say so, ranks tell of chains that did not mix, which a user is warned of, and not of a wrong density. With `--kept` the ranks of
each set are a line of a file there as soon as they are known, and are not drawn again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
CHAINS, EVERY, RANKS, BINS = 16, 32, 100, 20
Array = np.ndarray


def schools(rng: np.random.Generator) -> dict[str, Array]:
    return {"sigma": np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), "y": np.zeros(8)}


def linear(rng: np.random.Generator) -> dict[str, Array]:
    return {"x": rng.normal(size=(20, 2)), "y": np.zeros(20)}


def logistic(rng: np.random.Generator) -> dict[str, Array]:
    return {"x": rng.normal(size=(40, 3)), "y": np.zeros(40, np.int32)}


def grouped(rng: np.random.Generator) -> dict[str, Array]:
    group = np.repeat(np.arange(6, dtype=np.int32), 8)
    return {"w": rng.normal(size=6), "x": rng.normal(size=(48, 2)), "group": group, "y": np.zeros(48, np.int32)}


def counts(rng: np.random.Generator) -> dict[str, Array]:
    return {"x": rng.normal(size=(30, 2)) / 2, "y": np.zeros(30, np.int32)}


def mixture(rng: np.random.Generator) -> dict[str, Array]:
    return {"y": np.zeros(40)}


def autoregression(rng: np.random.Generator) -> dict[str, Array]:
    return {"lags": rng.normal(size=(20, 3)), "y": np.zeros(20)}


def process(rng: np.random.Generator) -> dict[str, Array]:
    return {"x": np.sort(rng.uniform(-3, 3, 12)), "y": np.zeros(12)}


def sparse(rng: np.random.Generator) -> dict[str, Array]:
    return {"x": rng.normal(size=(20, 4)), "y": np.zeros(20)}


MAKERS = {f.__name__: f for f in (schools, linear, logistic, grouped, counts, autoregression, mixture, process, sparse)}


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Array]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from numbers(part, f"{path}.{name}" if path else name)
    else:
        yield path, np.asarray(value)


def ranks(model: Any, given: dict[str, Array], method: str, key: int) -> dict[str, Any]:
    """Of latents that are drawn from the prior, and data that are drawn from them; the worst R-hat, and divergences."""
    import arviz

    from axon.host.inference.asked import Asked
    from axon.host.inference.density import density_of, key_of
    from axon.host.inference.program import program
    from axon.host.inference.run import METHODS

    seeds = np.random.SeedSequence(key).generate_state(6, np.uint32).reshape(3, 2)
    truth = model.prior(*given.values(), seeds[0])
    data = given | dict(numbers(model.predict(*given.values(), truth, seeds[1])))
    density = density_of(model, data, None, method, slopes=True)
    draws = EVERY * -(-RANKS // CHAINS)
    asked = Asked(density, program(density, method, True), CHAINS, draws, key_of(density.callee, seeds[2]), "cpu", 300)
    made = METHODS[method](asked)
    places = np.random.default_rng(key).permutation(CHAINS * draws // EVERY)[: RANKS - 1]
    kept = {name: part[EVERY - 1 :: EVERY].reshape(-1, *part.shape[2:])[places] for name, part in made.draws.items()}
    hats = [arviz.rhat(part.reshape(*part.shape[:2], -1)[..., j].T) for part in made.draws.values() for j in range(part[0, 0].size)]
    return {
        "key": key,
        "ranks": {name: (kept[name] < value).sum(0).tolist() for name, value in numbers(truth)},
        "r_hat": max(map(float, hats)),
        "divergences": int(made.attributes.get("divergences", 0)),
    }


def every(model: Any, given: dict[str, Array], method: str, keys: range, kept: Path | None) -> list[dict[str, Any]]:
    """Of all keys, those that a file has from there."""
    known = {found["key"]: found for found in map(json.loads, kept.read_text().splitlines())} if kept and kept.exists() else {}
    for key in keys:
        if key not in known:
            known[key] = ranks(model, given, method, key)
            if kept:
                with kept.open("a") as file:
                    file.write(json.dumps(known[key]) + "\n")
    return [known[key] for key in keys]


def distance(found: Array) -> float:
    """Between the distribution function of ranks and the uniform one."""
    share = np.cumsum(np.bincount(found, minlength=RANKS)) / len(found)
    return float(np.max(abs(share - np.arange(1, RANKS + 1) / RANKS)))


def tested(found: Array, simulated: Array) -> tuple[float, float]:
    """p of both tests."""
    from scipy.stats import chisquare

    bins = np.bincount(found * BINS // RANKS, minlength=BINS)
    return float(chisquare(bins).pvalue), float((1 + np.sum(simulated >= distance(found))) / (1 + len(simulated)))


def main() -> None:
    from racing import report

    import axon

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the key of the first set; others follow")
    parser.add_argument("--method", default="chees")
    parser.add_argument("--kept", type=Path, help="a folder of ranks that are known, and of those that come")
    parser.add_argument("--out")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    simulated = np.array([distance(rng.integers(0, RANKS, options.sets)) for _ in range(4000)])
    module = axon.load(str(HERE / "models.axon"))
    lines = ["| model | numbers | sets | smallest p of χ² | of the distance | p | uniform | R-hat > 1.05 | divergences | seconds |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for name in options.names or MAKERS:
        start = time.perf_counter()
        given = MAKERS[name](np.random.default_rng(1))
        kept = options.kept and options.kept / f"{name}-{options.method}.jsonl"
        keys = range(options.first, options.first + options.sets)
        each = every(module[name], given, options.method, keys, kept)
        columns = {
            f"{path}{list(place) or ''}": np.array([np.asarray(found["ranks"][path])[place] for found in each])
            for path in each[0]["ranks"]
            for place in np.ndindex(np.shape(each[0]["ranks"][path]))
        }
        pairs = np.array([tested(column, simulated) for column in columns.values()])
        p = min(1.0, float(pairs.min()) * pairs.size)
        worst = list(columns)[int(pairs.min(1).argmin())]
        row = f"{name} | {len(columns)} | {len(each)} | {pairs[:, 0].min():.3f} | {pairs[:, 1].min():.3f} | {p:.2f}"
        said = (np.mean([found["r_hat"] > 1.05 for found in each]), np.mean([found["divergences"] > 0 for found in each]))
        row += f" | {'yes' if p >= 0.01 else f'NO: {worst}'} | {said[0]:.0%} | {said[1]:.0%}"
        lines.append(f"| {row} | {time.perf_counter() - start:.0f} |")
        print(lines[-1], flush=True)
    report(lines, options.out)


if __name__ == "__main__":
    main()
