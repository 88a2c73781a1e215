"""ADBench's files (github.com/microsoft/ADBench, MIT licence) as the arguments of the functions of `adbench.axon`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

Arguments = dict[str, Any]


def gmm(folder: Path, name: str) -> Arguments:
    lines = [np.array(line.split(), float) for line in (folder / "gmm" / f"{name}.txt").read_text().splitlines()]
    _, k, n = lines[0].astype(int)
    parts = np.split(np.array(lines[1 : 1 + 3 * k + n], object), [k, 2 * k, 3 * k])
    alphas, means, factor, x = (np.array([*part], float) for part in parts)
    gamma, m = lines[1 + 3 * k + n]
    return {"alphas": alphas[:, 0], "means": means, "factor": factor, "x": x, "gamma": float(gamma), "m": int(m)}


def ba(folder: Path, name: str) -> Arguments:
    """One camera, point and feature, repeated: what each observation sees goes round."""
    lines = [np.array(line.split(), float) for line in (folder / "ba" / f"{name}.txt").read_text().splitlines()]
    n, m, p = lines[0].astype(int)
    seen = np.arange(p, dtype=np.int32)
    return {
        "cameras": np.tile(lines[1], (n, 1)),
        "points": np.tile(lines[2], (m, 1)),
        "weights": np.full(p, lines[3][0]),
        "camera": seen % np.int32(n),
        "point": seen % np.int32(m),
        "features": np.tile(lines[4], (p, 1)),
    }


def lstm(folder: Path, name: str) -> Arguments:
    text = (folder / "lstm" / f"{name}.txt").read_text().splitlines()
    layers, n, h = map(int, text[0].split())
    rows = [np.array(line.split(), float) for line in text[1:] if line.strip()]
    cuts = (0, 2 * layers, 2 * layers + 3, 4 * layers + 3, None)
    main, ends, state, characters = (np.array(rows[a:b]) for a, b in pairwise(cuts))
    assert characters.shape == (n, h)
    hidden, cell = (np.ascontiguousarray(state[first::2]) for first in (0, 1))
    return {"layers": main.reshape(layers, 2, 4, h), "ends": ends, "hidden": hidden, "cell": cell, "text": characters}


def skeleton(folder: Path) -> dict[str, np.ndarray]:
    bones = [line.split(":")[1:] for line in (folder / "bones.txt").read_text().splitlines()]
    numbers = np.array([bone[1:33] for bone in bones], float).reshape(-1, 2, 4, 4)
    vertices = [line.split(":") for line in (folder / "vertices.txt").read_text().splitlines()]
    skin, weights = np.ones((len(vertices), 4)), np.zeros((len(vertices), len(bones)))
    for n, vertex in enumerate(vertices):
        skin[n, :3] = [float(x) for x in vertex[:3]]
        for place in range(int(vertex[8])):
            weights[n, int(vertex[9 + 2 * place])] = float(vertex[10 + 2 * place])
    relatives, inverses = (np.ascontiguousarray(numbers[:, which]) for which in (0, 1))
    parents = np.array([bone[0] for bone in bones], np.int32)
    return {"parents": parents, "relatives": relatives, "inverses": inverses, "skin": skin, "weights": weights}


def hand(folder: Path, name: str) -> Arguments:
    path = folder / "hand" / f"{name}.txt"
    lines = [line.split() for line in path.read_text().splitlines()]
    points = int(lines[0][0])
    seen = np.array(lines[1 : 1 + points], float)
    made = {"s": skeleton(path.parent / "model"), "nearest": seen[:, 0].astype(np.int32), "seen": np.ascontiguousarray(seen[:, 1:])}
    rest = lines[1 + points :]
    if "complicated" in name:
        triangles = [line.split(":") for line in (path.parent / "model" / "triangles.txt").read_text().splitlines()]
        made |= {"us": np.array(rest[:points], float), "triangles": np.array(triangles, np.int32)}
        rest = rest[points:]
    return made | {"theta": np.array(rest[:26], float).reshape(26)}


READ = {"gmm": gmm, "ba": ba, "lstm": lstm, "hand": hand}
