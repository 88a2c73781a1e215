"""Hostile imports, files of arrays and arguments through `axon check` and `axon run`."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.attacks.process import Axon

PROGRAM = """\
fun total (x : f32[n]) = sum i => x[i]
fun add (x : f32[n, m]) (y : f32[m]) = x + y
fun cube {k} = for i < k, j < k, l < k => 1.0
fun wide x = for RANK => x[..]
val deep = for RANK1 => 1
val endless = for i < 2000000000 => for j < 2000000000 => 1.0
fun pick (x : f32[n]) (i : i32) = x[i]
fun grow (x : f32[n]) = for i < n, j < 1000000 => x[i]
fun stretch (x : f32[n]) = for i < n * 1000000 => x[i / 1000000]
fun flip (x : f32[a, b]) = for i j => x[j, i]
fun lambda {class} (None : f32[class]) = None
""".replace("RANK1", ", ".join(f"i{k} < 1" for k in range(65))).replace("RANK", ", ".join(f"i{k} < 1" for k in range(64)))


def _npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + data


_HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n"
FILES: dict[str, bytes] = {
    "empty": b"",
    "junk": b"junk" * 100,
    "a pickle": pickle.dumps(print),
    "a call in the header": _npy(_HEADER.replace(b"False", b"exit()") % b"(3,)", b"\0" * 12),
    "a deep header": _npy(b"(" * 9000 + b")" * 9000 + b"\n"),
    "a long header": _npy(_HEADER % (b"(" + b"1," * MANY + b")") if (MANY := 100_000) else b"", b"\0" * 4),
    "more than memory": _npy(_HEADER % b"(99999999999999,)"),
    "a negative size": _npy(_HEADER % b"(-3,)", b"\0" * 12),
    "cut short": _npy(_HEADER % b"(3,)", b"\0" * 11),
    "objects": _npy(_HEADER.replace(b"<f4", b"|O") % b"(1,)", pickle.dumps([print])),
    "text": _npy(_HEADER.replace(b"<f4", b"<U3") % b"(1,)", b"\0" * 12),
    "complex numbers": _npy(_HEADER.replace(b"<f4", b"<c8") % b"(1,)", b"\0" * 8),
}


@pytest.fixture(autouse=True)
def program(tmp_path: Path) -> None:
    (tmp_path / "a.axon").write_text(PROGRAM)


@pytest.mark.parametrize("name", FILES)
def test_file_of_an_array(name: str, axon: Axon, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(FILES[name])
    assert axon("run", "a.axon:total", "x=x.npy").errors == ["AX0508"]


def test_pickled_objects_are_not_loaded(axon: Axon, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, ("trapped",)

    np.save(tmp_path / "x.npy", np.array([Trap()]), allow_pickle=True)
    assert axon("run", "a.axon:total", "x=x.npy").errors == ["AX0508"]
    assert not (tmp_path / "trapped").exists()


def test_element_types_are_not_converted(axon: Axon, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    assert axon("run", "a.axon:total", "x=x.npy").errors == ["AX0504"]
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    assert axon("run", "a.axon:total", "x=x.npy").out.startswith("3.0")


def test_layouts_of_memory(axon: Axon, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
    outcome = axon("run", "a.axon:flip", "x=x.npy", "--out", "y.npy")
    assert outcome.code == 0
    assert np.load(tmp_path / "y.npy").tolist() == [[0, 3], [1, 4], [2, 5]]


CALLS: dict[str, tuple[list[str], list[str]]] = {
    "nothing given": (["total"], ["AX0505"]),
    "one of two given": (["add", "x=randn(f32[2, 3])"], ["AX0505"]),
    "one too many": (["total", "x=randn(f32[2])", "y=1"], ["AX0505"]),
    "one twice": (["total", "x=1", "x=2"], ["AX0508"]),
    "no such file": (["total", "x=nothing.npy"], ["AX0508"]),
    "a directory": (["total", "x=.."], ["AX0508"]),
    "no such declaration": (["totals", "x=1"], ["AX0507"]),
    "a scalar for a vector": (["total", "x=1.5"], ["AX0506"]),
    "sizes that disagree": (["add", "x=randn(f32[2, 3])", "y=randn(f32[2])"], ["AX0501"]),
    "more than memory": (["total", "x=randn(f32[99999999999])"], ["AX0508"]),
    "a negative size": (["total", "x=randn(f32[-1])"], ["AX0508"]),
    "a size that is a name": (["total", "x=randn(f32[n])"], ["AX0508"]),
    "a deep list": (["total", "x=" + "[" * 100_000], ["AX0508"]),
    "deep parentheses": (["total", "x=" + "(" * 100_000], ["AX0508"]),
    "Python": (["total", "x=__import__('os').system('true')"], ["AX0508"]),
    "5,000 digits": (["total", "x=" + "9" * 5000], ["AX0508"]),
    "a number beyond i32": (["pick", "x=randn(f32[3])", "i=99999999999"], ["AX0504"]),
    "an index outside": (["pick", "x=randn(f32[3])", "i=3"], ["AX0502"]),
    "a negative index": (["pick", "x=randn(f32[3])", "i=-1"], ["AX0502"]),
    "a huge dimension parameter": (["cube", "k=1" + "0" * 30], ["AX0505"]),
    "a dimension parameter for more than memory": (["cube", "k=2000000000"], ["AX0002"]),
    "a negative dimension parameter": (["cube", "k=-1"], ["AX0505"]),
    "rank 65": (["deep"], ["AX0002"]),
    "rank 65 by its argument": (["wide", "x=randn(f32[2])"], ["AX0002"]),
    "64 bits of elements": (["endless"], ["AX0002"]),
    "a result of 400 GB": (["grow", "x=randn(f32[100000])"], ["AX0002"]),
    "an extent beyond 2^31": (["stretch", "x=randn(f32[100000])"], ["AX0501"]),
    "names of Python": (["lambda", "class=2", "None=[1.0, 2.0]"], []),
    "nothing of everything": (["add", "x=randn(f32[0, 0])", "y=randn(f32[0])"], []),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str, axon: Axon) -> None:
    (declaration, *arguments), codes = CALLS[name]
    assert axon("run", f"a.axon:{declaration}", *arguments).errors == codes


def test_rank_21(axon: Axon, tmp_path: Path) -> None:
    indices = [f"i{k}" for k in range(21)]
    text = "fun f x = " + "".join(f"for {i} => " for i in indices) + f"x[{', '.join(reversed(indices))}] + 1.0\n"
    (tmp_path / "b.axon").write_text(text)
    x = np.arange(8, dtype=np.float32).reshape([2, 2, 2] + [1] * 18)
    np.save(tmp_path / "x.npy", x)
    assert axon("run", "b.axon:f", "x=x.npy", "--out", "y.npy").code == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), x.transpose() + 1)


# ── imports ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_missing_import(axon: Axon, tmp_path: Path) -> None:
    (tmp_path / "b.axon").write_text("import nowhere\nval x = nowhere.y\n")
    assert axon("check", "b.axon").errors == ["AX0402"]


def test_import_of_itself(axon: Axon, tmp_path: Path) -> None:
    (tmp_path / "b.axon").write_text("import b\nval x = b.x\n")
    assert axon("check", "b.axon").errors == ["AX0403"]


def test_mutual_imports(axon: Axon, tmp_path: Path) -> None:
    (tmp_path / "b.axon").write_text("import c\nval x = c.y\n")
    (tmp_path / "c.axon").write_text("import b\nval y = b.x\n")
    outcome = axon("check", "b.axon")
    assert len(outcome.errors) <= 2
    assert "AX0403" in outcome.errors


def test_circle_of_300_modules(axon: Axon, tmp_path: Path) -> None:
    for n in range(300):
        (tmp_path / f"m{n}.axon").write_text(f"import m{(n + 1) % 300}\nval x = m{(n + 1) % 300}.x\n")
    outcome = axon("check", "m0.axon")
    assert len(outcome.errors) <= 2
    assert "AX0403" in outcome.errors


def test_chain_of_300_modules(axon: Axon, tmp_path: Path) -> None:
    for n in range(300):
        (tmp_path / f"m{n}.axon").write_text(f"import m{n + 1}\nval x = m{n + 1}.x + 1\n")
    (tmp_path / "m300.axon").write_text("val x = 1\n")
    assert axon("check", "m0.axon").errors == []


@pytest.mark.parametrize("text", ['import "../../etc/passwd"', "import ../secret", "import .. secret", "import /etc/passwd"])
def test_import_of_a_path(text: str, axon: Axon, tmp_path: Path) -> None:
    (tmp_path.parent / "secret.axon").write_text("val x = 1\n")
    (tmp_path / "b.axon").write_text(text + "\n")
    errors = axon("check", "b.axon").errors
    assert errors
    assert all(code.startswith("AX01") for code in errors)


def test_import_through_a_link(axon: Axon, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret.axon").write_text("val x = 1\n")
    (tmp_path / "secret.axon").symlink_to(outside / "secret.axon")
    (tmp_path / "b.axon").write_text("import secret\nval y = secret.x\n")
    assert axon("check", "b.axon").errors == ["AX0408"]


def test_links_in_a_circle(axon: Axon, tmp_path: Path) -> None:
    (tmp_path / "round_.axon").symlink_to("round_.axon")
    assert axon("check", "round_.axon").errors == ["AX0408"]
    (tmp_path / "b.axon").write_text("import round_\n")
    assert axon("check", "b.axon").errors == ["AX0408"]


@pytest.mark.parametrize("path", ["/dev/zero", ".", "a\0b.axon", "no/such.axon"])
def test_what_is_not_a_file(path: str, axon: Axon) -> None:
    outcome = axon("check", path)
    assert outcome.errors in ([], ["AX0408"])
    assert outcome.code == (0 if path == "." else 1)


def test_pipe(axon: Axon, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.axon")
    assert axon("check", "pipe.axon").errors == ["AX0408"]
