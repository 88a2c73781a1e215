"""Eight schools: the effect of coaching in each, as a table and as a plot.

python examples/chance/schools.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from shown import intervals, save

import axon

HERE = Path(__file__).parent
NAMES = "ABCDEFGH"
Y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])  # by how many points results improved (Rubin 1981)
SIGMA = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])  # and how well that is known


def effects(**settings: Any) -> Any:
    """Draws of the schools' effects, [draws, schools]."""
    found = axon.infer(axon.load(HERE / "schools.axon").schools, {"y": Y, "sigma": SIGMA}, **settings).posterior
    mu, tau, apart = (found[name].to_numpy() for name in ("mu", "tau", "apart"))
    return (mu[..., None] + tau[..., None] * apart).reshape(-1, len(Y))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    draws = effects(key=1)
    print("school  measured      effect")
    for name, y, sigma, column in zip(NAMES, Y, SIGMA, draws.T, strict=True):
        print(f"{name:6}  {y:3.0f} ± {sigma:2.0f}  {column.mean():5.1f} ± {column.std():4.1f}")
    save(options.plot, intervals(NAMES, draws, Y))


if __name__ == "__main__":
    main()
