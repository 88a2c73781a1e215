"""What is drawn of many cases: some, the same each time, and of each kind at least one."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests import ROOT
from tests.sample import CASES, of_each_kind


@dataclass(frozen=True)
class Item:
    nodeid: str
    fixturenames: tuple[str, ...] = field(default=())


def test_one_in_so_many_and_one_of_each_kind() -> None:
    drawn, whole = "tests/a.py", "tests/b.py"
    many = [Item(f"{file}::test_{kind}[{n}]") for file in (drawn, whole) for kind in "xyz" for n in range(300)]
    few = [Item(f"{drawn}::test_few{n}[only-a::b]") for n in range(20)]
    alone = [Item(f"{drawn}::test_alone"), *(Item(f"{drawn}::test_snapshot[{n}]", ("snapshot",)) for n in range(9))]
    items: list[pytest.Item] = [*many, *few, *alone]  # type: ignore[list-item]
    found = of_each_kind(items, {drawn: 3})
    assert found == of_each_kind(items, {drawn: 3})
    assert [item for item in items if item in set(found)] == found  # in their order
    assert {*few, *alone} <= set(found)
    for kind in "xyz":
        assert 60 < sum(item.nodeid.startswith(f"{drawn}::test_{kind}[") for item in found) < 140
        assert sum(item.nodeid.startswith(f"{whole}::test_{kind}[") for item in found) == 300


def test_files_that_are_drawn_from_are_there() -> None:
    assert [file for file in CASES if not (ROOT / file).is_file()] == []
