"""Methods that begin with draws of the prior, and weigh them: importance sampling, and tempered sequential Monte Carlo."""

from __future__ import annotations

from typing import Any

import numpy as np

from axon.host.call import wrong
from axon.host.inference import latents
from axon.host.inference.asked import OTHERS, Asked, Found
from axon.host.inference.density import Density, named, suspects
from axon.host.inference.latents import Array, paths
from axon.host.inference.report import posterior
from axon.host.inference.starts import first, impossible

MOVES = 4  # of each particle, after each exponent
STAGES = 200  # exponents from the prior to the posterior, at most: each halves the particles' worth
FEW = 100  # draws that are worth fewer are warned of


def possible(density: Density, method: str) -> None:
    """Raises AxonError where there is no prior to draw from, or nothing to weigh draws by."""
    if density.model is None:
        message = f"method `{method}` begins with draws of a model's prior, and `{density.callee.name}` is a function"
        raise wrong(density.callee, "AX0505", message, "methods of a density: chees, hmc, map, laplace")
    if method == "smc" and density.summed:
        message = f"method `smc` weighs by the data alone, of which `{density.model}` sums {named(density.summed)} out"
        raise wrong(density.callee, "AX0505", message, "methods `chees`, `hmc`, `laplace` and `importance` can")
    if density.likelihood is None:
        message = f"method `{method}` weighs draws of the prior by what is observed, and `{density.model}` observes nothing"
        raise wrong(density.callee, "AX0505", message, f"`{density.model}.prior` draws from it")


def importance(asked: Asked) -> Found:
    """Draws of the prior, as many as are wanted, and of those as many again by their weights."""
    chosen, evidences, worths = [], [], []
    for key in _keys(asked):
        rows, weights = asked.call("weighted", key, sizes=(asked.draws,))
        w = np.asarray(weights, np.float64)
        places, evidence, worth = asked.made.call("weighed", (), w, key ^ OTHERS, target=asked.target)
        if float(evidence) == -np.inf:
            _impossible(asked, first(rows))
        evidences.append(float(evidence))
        worths.append(float(worth))
        chosen.append({path: part[np.asarray(places)] for path, part in paths(rows)})
    worth = sum(worths)
    said = []
    if worth < FEW:
        many = asked.draws * asked.chains
        said = [f"{many} draws of the prior are worth {worth:.1f} of the posterior: {instead(asked.density)}"]
    return Found(_stacked(chosen), {}, {"evidence": _mean(evidences), "effective": worth}, said)


def instead(density: Density) -> str:
    """What draws that are worth little may be replaced by."""
    if density.summed:
        return f"method `chees` sums {named(density.summed)} out"
    return (
        "method `smc` goes there step by step" if density.constrain is not None else "more draws, or a prior nearer to it, may help"
    )


def tempered(asked: Asked) -> Found:
    """A population of particles for each chain."""
    density, kind = asked.density, latents.DTYPES[asked.density.element]
    u, found = [], []
    for key in _keys(asked):
        rows = asked.call("particles", key, sizes=(asked.draws,))
        parts = [np.asarray(part, kind).reshape(asked.draws, -1) for part in latents.values(rows)]
        begin = np.concatenate(parts, axis=1)
        run = asked.call("tempered", np.int32(MOVES), np.int32(STAGES), begin, key ^ OTHERS)
        if float(run["evidence"]) == -np.inf:
            _impossible(asked, first(asked.call("latents", begin[:1], key)))
        if not (float(run["exponent"]) == 1 and np.isfinite(run["evidence"])):
            reached = float(run["exponent"])
            message = f"method `smc` came to the exponent {reached:.2g} of the likelihood in {run['stages']} stages"
            raise wrong(density.callee, "AX0503", message, "more draws, or a prior nearer to the posterior", *suspects(density))
        u.append(np.asarray(run["draws"]))
        found.append(run)
    draws = posterior(asked, np.stack(u, 1))
    stats = {"observed_lp": np.stack([np.asarray(run["likelihood"]) for run in found], 1)}
    attributes = {
        "evidence": _mean([float(run["evidence"]) for run in found]),
        "stages": [int(run["stages"]) for run in found],
        "acceptance_rate": [float(run["chance"]) for run in found],
    }
    return Found(draws, stats, attributes, [])


def _keys(asked: Asked) -> list[Array]:
    """A key for each chain."""
    words = np.random.SeedSequence([int(word) for word in asked.seed]).generate_state(2 * asked.chains, np.uint32)
    return list(words.reshape(asked.chains, 2))


def _mean(evidences: list[float]) -> float:
    """The logarithm of the mean of what these are logarithms of, which is unbiased if each is."""
    return float(np.logaddexp.reduce(evidences) - np.log(len(evidences)))


def _stacked(chains: list[dict[str, Array]]) -> dict[str, Array]:
    return {path: np.stack([chain[path] for chain in chains], 1) for path in chains[0]}


def _impossible(asked: Asked, row: Any) -> Any:
    """What is impossible may differ from draw to draw: the first tells of itself."""
    density = asked.density
    why = impossible(density, row, asked.target)
    message = f"none of {asked.draws} draws of the prior of `{density.model}` is possible: at the first, {why}"
    raise wrong(density.callee, "AX0503", message, *suspects(density))
