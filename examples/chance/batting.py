"""Batting averages from 45 times at bat, beside what the players hit in the rest of the season, as a table and as a plot.

python examples/chance/batting.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from shown import intervals, save

import axon

HERE = Path(__file__).parent
# Of 45 times at bat, how many were hits, and the average of the rest of the season of 1970 (Efron & Morris 1975, table 1).
PLAYERS = {
    "Clemente": (18, 0.346), "Robinson": (17, 0.298), "Howard": (16, 0.276), "Johnstone": (15, 0.222), "Berry": (14, 0.273),
    "Spencer": (14, 0.270), "Kessinger": (13, 0.263), "Alvarado": (12, 0.210), "Santo": (11, 0.269), "Swoboda": (11, 0.230),
    "Unser": (10, 0.264), "Williams": (10, 0.256), "Scott": (10, 0.303), "Petrocelli": (10, 0.264), "Rodriguez": (10, 0.226),
    "Campaneris": (9, 0.285), "Munson": (8, 0.316), "Alvis": (7, 0.200),
}  # fmt: skip
HITS = np.array([hits for hits, _ in PLAYERS.values()], np.int32)
REST = np.array([rest for _, rest in PLAYERS.values()])


def averages(**settings: Any) -> Any:
    """Draws of the players' averages, [draws, players]."""
    data = {"times": np.full(len(HITS), 45, np.int32), "hits": HITS}
    found = axon.infer(axon.load(HERE / "batting.axon").batting, data, **settings).posterior
    mu, tau, apart = (found[name].to_numpy() for name in ("mu", "tau", "apart"))
    return 1 / (1 + np.exp(-(mu[..., None] + tau[..., None] * apart).reshape(-1, len(HITS))))


def error(guess: Any) -> float:
    """How far a guess is from the rest of the season: the root of the mean square."""
    return float(np.sqrt(np.mean((guess - REST) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    draws = averages(key=1)
    print("player      45 times  inferred         the rest")
    for name, hits, rest, column in zip(PLAYERS, HITS, REST, draws.T, strict=True):
        print(f"{name:10}      {hits / 45:.3f}  {column.mean():.3f} ± {column.std():.3f}     {rest:.3f}")
    print(f"error           {error(HITS / 45):.3f}  {error(draws.mean(0)):.3f}")
    save(options.plot, intervals(list(PLAYERS), draws, REST))


if __name__ == "__main__":
    main()
