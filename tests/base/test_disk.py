"""Files on disk stay within their limit, and are not counted whenever one is written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from axon.base import disk


@pytest.mark.parametrize(("most", "counted"), [(64_000, 0.25), (16_000, 1.0), (10_000, 1.0)])
def test_files_are_counted_about_once_in_a_share_of_the_limit(
    most: int, counted: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, files, counts, largest, shrink = 1_000, 300, 0, 0, disk.shrink

    def count(path: Path, most: int, keep: str) -> None:
        nonlocal counts
        counts += 1
        shrink(path, most, keep)

    monkeypatch.setattr(disk, "SHARE", 1 / 16)
    monkeypatch.setattr(disk, "shrink", count)
    for n in range(files):
        key = hashlib.sha256(b"%d" % n).hexdigest()
        disk.write(tmp_path / f"{key}.cubin", key, {}, b"x" * size, most)
        largest = max(largest, sum(file.stat().st_size for file in tmp_path.iterdir()))
    assert abs(counts / files - counted) < 0.05
    assert 0.8 * most < largest <= (1.0 if counted == 1.0 else 1.4) * most
