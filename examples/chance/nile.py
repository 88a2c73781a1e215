"""The Nile at Aswan, 1871 to 1970: the chance that its level had fallen, by a particle filter, as a table and as a plot.

python examples/chance/nile.py [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from shown import over_years, save

import axon

HERE = Path(__file__).parent
YEARS = range(1871, 1971)
# In 10⁸ cubic metres a year (Cobb 1978, table 1).
FLOW = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
], np.float64)  # fmt: skip
LEVELS, SPREAD, FALL = (1100.0, 850.0), 130.0, 0.01


def fallen(particles: int, seed: int = 0, target: str | None = None) -> tuple[Any, float]:
    """The chance each year that the level has fallen, given the flow up to then; and the evidence."""
    m = axon.load(HERE / "nile.axon")
    share, evidence = m.falls[particles](FLOW, LEVELS, SPREAD, FALL, np.array([0, seed], np.uint32), target=target)
    return share, float(evidence)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    share, evidence = fallen(100_000)
    print("year  flow  fallen")
    for year in range(1894, 1906):
        print(f"{year}  {FLOW[year - 1871]:4.0f}  {share[year - 1871]:6.1%}")
    print(f"evidence {evidence:.2f}")
    save(options.plot, over_years(YEARS, FLOW, share))


if __name__ == "__main__":
    main()
