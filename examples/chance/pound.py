"""How much the pound moved against the dollar each month from 1971 to 2025, by a particle filter; and by the evidence, for how long
it stays restless: as a table and as a plot.

python examples/chance/pound.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from shown import over_years, save

import axon

HERE = Path(__file__).parent
WIDE = 0.8  # the deviation of the logarithm of the variance in the long run
STAYS = (0.5, 0.8, 0.9, 0.95, 0.98)  # of a logarithm away from its mean, what is left after a month


def changes() -> tuple[list[str], Any]:
    """The months, and by how much the mean rate of each was above that of the one before, in percent and apart from the trend.

    Pounds for a dollar (Federal Reserve's release H.10, in the public domain, as github.com/datasets/exchange-rates has it).
    """
    rows = [line.split(",") for line in (HERE / "pound.csv").read_text(encoding="utf-8").split()[1:]]
    change = 100 * np.diff(np.log([float(rate) for _, rate in rows]))
    return [month for month, _ in rows[1:]], change - change.mean()


def volatility(change: Any, stays: float, particles: int, seed: int = 0, target: str | None = None) -> tuple[Any, float]:
    """The deviation of each month's change, given those up to then, and the evidence."""
    m = axon.load(HERE / "pound.axon")
    spread = WIDE * np.sqrt(1 - stays**2)
    level = np.log(np.var(change)) - WIDE**2 / 2  # so that the mean of the variance is that of the data
    deviation, evidences, _ = m.volatility[particles](change, level, stays, spread, np.array([0, seed], np.uint32), target=target)
    return deviation, float(np.sum(evidences))


def constant(change: Any) -> float:
    """The evidence of changes that are alike at all times, at the deviation that fits best."""
    return float(np.sum(-0.5 * np.log(2 * np.pi * np.var(change)) - change**2 / (2 * np.var(change))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    months, change = changes()
    print(f"stays  evidence\nalike  {constant(change):8.2f}")
    found = {stays: volatility(change, stays, 20_000) for stays in STAYS}
    for stays, (_, evidence) in found.items():
        print(f"{stays:5}  {evidence:8.2f}")
    deviation = max(found.values(), key=lambda pair: pair[1])[0]
    print("month    change  deviation")
    for n in sorted(np.argsort(-abs(change))[:8]):
        print(f"{months[n]}  {change[n]:5.1f}%  {deviation[n]:8.1f}%")
    years = [int(month[:4]) for month in months]
    save(options.plot, over_years(years, change, deviation / deviation.max()))


if __name__ == "__main__":
    main()
