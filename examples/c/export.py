"""Write the trained weights of examples/digits and the held-out images as bytes, in the order in which digits.c reads them.

python examples/c/export.py digits.bin
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "digits"))
from data import load
from evaluate import weights

LAYERS = ("conv1.k", "conv1.b", "conv2.k", "conv2.b", "hidden.w", "hidden.b", "out.w", "out.b")


def main(path: str) -> None:
    record, (_, held_out) = weights(), load()
    with Path(path).open("wb") as file:
        for layer, name in (path.split(".") for path in LAYERS):
            file.write(record[layer][name].astype("<f4").tobytes())
        file.write(np.array(len(held_out.labels), "<i4").tobytes())
        file.write(held_out.images.astype("<f4").tobytes())
        file.write(held_out.labels.astype("<i4").tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
