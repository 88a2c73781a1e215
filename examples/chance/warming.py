"""The temperature of the world, 1880 to 2023, of which every fifth year is known: the others by a Gaussian process, with bands, as
a table and as a plot.

python examples/chance/warming.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from shown import bands, save

import axon

HERE = Path(__file__).parent
YEARS = np.arange(1880, 2024)
# Degrees above the mean of 1951 to 1980, land and ocean (GISTEMP, NASA's Goddard Institute for Space Studies: public domain).
CELSIUS = np.array([
    -0.17, -0.09, -0.11, -0.17, -0.28, -0.33, -0.32, -0.37, -0.18, -0.11, -0.36, -0.23, -0.28, -0.32, -0.31, -0.24, -0.12,
    -0.12, -0.28, -0.18, -0.09, -0.16, -0.29, -0.38, -0.48, -0.27, -0.23, -0.39, -0.43, -0.49, -0.44, -0.45, -0.37, -0.35,
    -0.16, -0.14, -0.36, -0.46, -0.30, -0.28, -0.28, -0.19, -0.28, -0.27, -0.27, -0.22, -0.11, -0.22, -0.20, -0.36, -0.16,
    -0.09, -0.15, -0.28, -0.12, -0.20, -0.14, -0.03, 0.00, -0.02, 0.12, 0.19, 0.07, 0.09, 0.20, 0.09, -0.07, -0.03, -0.11,
    -0.11, -0.17, -0.07, 0.01, 0.08, -0.13, -0.14, -0.19, 0.05, 0.06, 0.03, -0.03, 0.06, 0.03, 0.05, -0.20, -0.11, -0.06, -0.02,
    -0.08, 0.05, 0.03, -0.08, 0.01, 0.16, -0.07, -0.01, -0.10, 0.18, 0.07, 0.17, 0.26, 0.32, 0.14, 0.31, 0.15, 0.12, 0.18, 0.32,
    0.39, 0.27, 0.45, 0.40, 0.22, 0.23, 0.31, 0.44, 0.33, 0.46, 0.60, 0.38, 0.39, 0.53, 0.63, 0.62, 0.53, 0.68, 0.64, 0.66,
    0.54, 0.66, 0.72, 0.61, 0.64, 0.67, 0.75, 0.90, 1.01, 0.92, 0.85, 0.98, 1.01, 0.85, 0.89, 1.17,
])  # fmt: skip
KNOWN = YEARS % 5 == 0


def decades(years: Any) -> Any:
    return (years - 1950) / 10


def latents(**settings: Any) -> dict[str, Any]:
    """Draws of the curve's reach in decades, of its height and of the noise."""
    data = {"x": decades(YEARS[KNOWN]), "y": CELSIUS[KNOWN]}
    found = axon.infer(axon.load(HERE / "warming.axon").warming, data, method="hmc", length=2.0, **settings).posterior
    return {name: found[name].to_numpy().ravel() for name in ("reach", "height", "noise")}


def predicted(draws: dict[str, Any], count: int, seed: int = 0, target: str | None = None) -> Any:
    """What may have been measured in every year, [draws, years], by so many of the draws."""
    some = {name: column[np.linspace(0, len(column) - 1, count).astype(int)] for name, column in draws.items()}
    m = axon.load(HERE / "warming.axon")
    mean, spread = m.bands(decades(YEARS[KNOWN]), CELSIUS[KNOWN], decades(YEARS), **some, target=target)
    return np.random.default_rng(seed).normal(mean, spread)


def inside(new: Any) -> float:
    """The share of the years that are not known whose temperature is between the 5% and the 95% of the draws."""
    low, high = np.quantile(new, [0.05, 0.95], axis=0)
    return float(np.mean(((low < CELSIUS) & (high > CELSIUS))[~KNOWN]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    draws = latents(key=1, chains=4, draws=250, warmup=250)
    for name, unit in (("reach", "decades"), ("height", "degrees"), ("noise", "degrees")):
        print(f"{name:6}  {draws[name].mean():.2f} ± {draws[name].std():.2f} {unit}")
    new = predicted(draws, 200)
    print("year  measured  5% to 95%")
    for n in np.flatnonzero(~KNOWN)[4::12]:
        low, high = np.quantile(new[:, n], [0.05, 0.95])
        print(f"{YEARS[n]}     {CELSIUS[n]:5.2f}  {low:5.2f} to {high:5.2f}")
    print(f"inside: {inside(new):.0%} of the years that were left out")
    save(options.plot, bands(YEARS, CELSIUS, KNOWN, new))


if __name__ == "__main__":
    main()
