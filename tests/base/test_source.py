"""What is made of a file is made once, and no longer kept than the file."""

from __future__ import annotations

import gc
from weakref import ref

from axon.base.source import SourceFile, once
from axon.grammar.parse import parse


def test_once() -> None:
    asked: list[SourceFile] = []

    @once
    def length(source: SourceFile) -> int:
        asked.append(source)
        return len(source.text)

    one, other = SourceFile("a", "12"), SourceFile("a", "12")
    assert [length(one), length(other), length(one)] == [2, 2, 2]
    assert asked == [one, other]  # files are told apart by what they are, not by their text


def test_what_was_parsed_goes_with_its_file() -> None:
    source = SourceFile("a", "val x = 1\n")
    assert parse(source) is parse(source)
    gone = ref(source)
    del source
    gc.collect()
    assert gone() is None
