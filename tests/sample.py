"""Which of many files and cases `make test` looks at: some, by a hash of what they hold, so that an edited one comes or goes.

All of them in the soak, in continuous integration, and where goldens are written anew.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

SOAK = bool(os.environ.get("AXON_SOAK"))
ALL = SOAK or bool(os.environ.get("CI") or os.environ.get("AXON_UPDATE"))


def chosen(file: Path, one_in: int) -> bool:
    return ALL or not file.is_file() or crc32(file.read_bytes()) % one_in == 0


def named(files: Sequence[Path], one_in: int) -> list[Path]:
    """Some files, by their names alone: one more or one less changes nothing for the others, as every so many-th would."""
    return [file for file in files if SOAK or crc32(file.name.encode()) % one_in == 0]


def drawn(text: str, one_in: int) -> bool:
    """Whether a case is looked at, by a text that tells it from those like it."""
    return ALL or crc32(text.encode("utf-8", "surrogatepass")) % one_in == 0


def some(files: Sequence[Path], one_in: int) -> list[Path]:
    return [file for file in files if chosen(file, one_in)]


def thinned(places: Sequence[int], text: str, one_in: int) -> list[int]:
    """Every so many-th place in a text, from one that the text decides, and the last."""
    first = crc32(text.encode("utf-8", "surrogatepass")) % one_in
    return list(places) if ALL else sorted({*places[first::one_in], *places[-1:]})
