"""Reading and finding files; whatever is wrong with one is a diagnostic."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from axon import compiler
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.checker.loader import MAX_BYTES, FileLoader, stdlib_root
from axon.grammar.parse import parse
from axon.grammar.syntax import Name


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def find(loader: FileLoader, importer: SourceFile, name: str) -> SourceFile | Diagnostic:
    return loader.find(Name(name, importer.span(0, len(name))))


def source(answer: SourceFile | Diagnostic) -> SourceFile:
    assert isinstance(answer, SourceFile), answer
    return answer


def refused(answer: SourceFile | Diagnostic) -> tuple[str, str]:
    assert isinstance(answer, Diagnostic)
    return answer.code, " ".join([answer.message, *answer.notes])


def test_an_unchanged_file_is_the_same_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.axon", "val a = 1\n")
    loader = FileLoader()
    first = source(loader.read(path))
    assert first.text == "val a = 1\n"
    assert loader.read(path) is first
    write(tmp_path / "a.axon", "val a = 2\n")  # of the same size, within the resolution of the clock
    assert source(loader.read(path)).text == "val a = 2\n"


def test_the_library_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process, while its files and those that they import stay as they are."""
    root = tmp_path / "stdlib"
    root.mkdir()
    monkeypatch.setattr("axon.checker.loader.stdlib_root", lambda: root)
    monkeypatch.setattr("axon.checker.loader._library", {})
    monkeypatch.setattr("axon.checker.kept.LIBRARY", {})
    monkeypatch.setenv("AXON_CACHE", str(root / "low.axon"))  # no directory: nothing is kept on disk
    parsed: list[str] = []

    def counted(source: SourceFile) -> Any:
        parsed.append(source.path)
        return parse(source)

    monkeypatch.setattr("axon.checker.check.parse", counted)

    def checks(text: str, *paths: str) -> None:
        parsed.clear()
        assert compiler.check_text(text).ok
        assert sorted(p for p in parsed if p != "<text>") == [f"stdlib/{p}.axon" for p in paths]

    write(root / "low.axon", "fun twice x = x + x\n")
    write(root / "high.axon", "import low\nfun four x = low.twice (low.twice x)\n")
    write(root / "other.axon", "fun id x = x\n")
    checks("import high\nimport other\nfun f x = other.id (high.four x)", "high", "low", "other")
    checks("import low\nimport high\nfun g x = high.four (low.twice x)")
    write(root / "low.axon", "fun twice x = x * 2\n")  # what high is made of has changed, other has not
    checks("import high\nimport other\nfun f x = other.id (high.four x)", "high", "low")
    write(root / "high.axon", "import low\nfun four x = low.thrice x\n")
    for _ in range(2):  # what has errors is not kept
        parsed.clear()
        assert not compiler.check_text("import high\nfun f x = high.four x").ok
        assert parsed.count("stdlib/high.axon") == 1
        assert "stdlib/low.axon" not in parsed
    beside = tmp_path / "beside"
    beside.mkdir()
    write(beside / "low.axon", "val mine = 1\n")
    main = write(beside / "main.axon", "import low\nval m = low.mine\n")
    assert compiler.check(FileLoader(), main).ok


def test_a_module_beside_the_importer_wins(tmp_path: Path) -> None:
    main = write(tmp_path / "main.axon", "import nn\n")
    loader = FileLoader()
    importer = source(loader.read(main))
    library = source(find(loader, importer, "nn"))
    assert library.text == (stdlib_root() / "nn.axon").read_text(encoding="utf-8")
    write(tmp_path / "nn.axon", "val mine = 1\n")
    assert source(find(loader, importer, "nn")).text == "val mine = 1\n"


def test_text_from_memory_imports_from_the_library_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "mine.axon", "val a = 1\n")
    monkeypatch.chdir(tmp_path)
    loader = FileLoader({"<text>": "import mine\n"})
    text = source(loader.read("<text>"))
    assert refused(find(loader, text, "mine"))[0] == "AX0402"
    assert source(find(loader, text, "nn")).path.endswith("nn.axon")


def test_a_missing_module_suggests_the_nearest(tmp_path: Path) -> None:
    loader = FileLoader()
    importer = source(loader.read(write(tmp_path / "main.axon", "import linalgg\n")))
    answer = find(loader, importer, "linalgg")
    assert isinstance(answer, Diagnostic)
    assert answer.code == "AX0402"
    assert answer.suggestions[0].text == "did you mean `linalg`?"
    assert answer.suggestions[0].edits[0].text == "linalg"
    itself = source(loader.read(write(tmp_path / "miss.axon", "import missing\n")))
    answer = find(loader, itself, "missing")
    assert isinstance(answer, Diagnostic)
    assert answer.suggestions == (), "nothing imports itself"


def test_links_may_not_lead_out(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    write(outside / "secret.axon", "val a = 1\n")
    (inside / "secret.axon").symlink_to(outside / "secret.axon")
    write(inside / "real.axon", "val a = 1\n")
    (inside / "alias.axon").symlink_to(inside / "real.axon")
    (inside / "loop.axon").symlink_to(inside / "loop.axon")
    (inside / "gone.axon").symlink_to(inside / "nowhere.axon")
    loader = FileLoader()
    importer = source(loader.read(write(inside / "main.axon", "import secret\n")))
    assert refused(find(loader, importer, "secret"))[0] == "AX0408"
    assert source(find(loader, importer, "alias")).text == "val a = 1\n"
    assert refused(find(loader, importer, "loop"))[0] == "AX0408"
    assert refused(find(loader, importer, "gone"))[0] == "AX0408"


def test_what_is_not_a_text_file(tmp_path: Path) -> None:
    loader = FileLoader()
    (tmp_path / "folder.axon").mkdir()
    os.mkfifo(tmp_path / "pipe.axon")
    with (tmp_path / "large.axon").open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    write(tmp_path / "latin.axon", b"val a = 1\nval \xe9 = 2\n")
    expected = {
        "nowhere.axon": "no such file",
        "folder.axon": "directory",
        "pipe.axon": "not a regular file",
        "large.axon": f"{MAX_BYTES:,}",
        "latin.axon": "not UTF-8 text: byte 0xe9 on line 2",
        "nul\0.axon": "null",
        "x" * 5_000: "long",
    }
    for name, words in expected.items():
        code, text = refused(loader.read(str(tmp_path / name)))
        assert code == "AX0408"
        assert words in text
    assert refused(loader.read("/dev/zero"))[0] == "AX0408"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable(tmp_path: Path) -> None:
    path = write(tmp_path / "a.axon", "val a = 1\n")
    os.chmod(path, 0)
    assert refused(FileLoader().read(path))[0] == "AX0408"


def test_odd_text_is_left_to_the_lexer(tmp_path: Path) -> None:
    text = "\ufeffval a = 1\r\n\tval b\0\u202e\n".encode() + b"\xed\xa0\x80"
    assert source(FileLoader().read(write(tmp_path / "a.axon", text))).text.endswith("\ud800")


def test_the_overlay_stands_for_files(tmp_path: Path) -> None:
    main = write(tmp_path / "main.axon", "import other\n")
    loader = FileLoader({main: "import new\n", str(tmp_path / "new.axon"): "val a = 1\n"})
    assert source(loader.read(main)).text == "import new\n"
    assert source(find(loader, source(loader.read(main)), "new")).text == "val a = 1\n"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert source(FileLoader().read(write(tmp_path / "a.axon", "\ufeffval a = 1\n"))).text == "val a = 1\n"


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("x.py", "import numpy as np\n\ndef f(x):\n    return x\n", "AX0408"),
        ("x.py", "import numpy\n", "AX0408"),
        ("notes.md", "# Notes\n\nof today\n", "AX0408"),
        ("notes", "what is it\n", "AX0408"),
        ("program", "val a = 1\n", ""),
        ("program.md", "val a = 1\n", ""),
        ("program.txt", "val a = (1\n", "AX0102"),
        ("program.axon", "what is it\n", "AX0101"),
    ],
)
def test_what_is_in_a_file_says_if_it_is_a_program(tmp_path: Path, name: str, text: str, code: str) -> None:
    path = write(tmp_path / name, text)
    said = compiler.check(FileLoader(), path).diagnostics
    assert [d.code for d in said[:1]] == ([code] if code else [])
    assert code != "AX0408" or (f"`{path}` is no program" in said[0].message and "first error in line 1" in said[0].notes[0])
    if any(d.severity == "error" for d in parse(source(FileLoader().read(path)))[1]):
        with pytest.raises(AxonError, match=code):
            compiler.format_text(source(FileLoader().read(path)))


def test_a_file_that_is_not_there() -> None:
    assert "no such file" in refused(FileLoader().read("nowhere.py"))[1]
