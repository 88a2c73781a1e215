"""The command line: what it prints where, and its exit status."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from axon.__main__ import run
from axon.tools.cli import main
from axon.tools.commands.batch import files_of
from tests import ROOT

Cli = Callable[..., object]

GOOD = "fun double x = x + x\nfun dot (a : f32[n]) b = sum i => a[i] * b[i]\nval half = 0.5\n"
BAD = "fun f x = y\nfun g x = z\n"


# ── check ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_check(axon_cli: Cli, here: Path, snapshot: SnapshotAssertion) -> None:
    (here / "good.axon").write_text(GOOD)
    (here / "bad.axon").write_text(BAD)
    good, bad, both = axon_cli("check", "good.axon"), axon_cli("check", "bad.axon"), axon_cli("check", ".")
    assert (good.status, good.out, good.err) == (0, "", "checked 1 file: no errors\n")
    assert bad.status == 1
    assert bad.out == snapshot
    assert bad.err == "checked 1 file: 2 errors\n"
    assert both.status == 1
    assert both.err == "checked 2 files: 2 errors\n"


def test_check_as_json(axon_cli: Cli, here: Path) -> None:
    (here / "good.axon").write_text(GOOD)
    (here / "bad.axon").write_text(BAD)
    good, bad = axon_cli("check", "good.axon", "--format", "json"), axon_cli("check", "--format", "json", "bad.axon")
    assert (good.status, json.loads(good.out), good.err) == (0, [], "")
    assert bad.status == 1
    found = json.loads(bad.out)
    assert [d["code"] for d in found] == ["AX0401", "AX0401"]
    assert found[0]["labels"][0]["start"] == {"line": 1, "column": 11, "offset": 10}
    missing = axon_cli("check", "nowhere.axon", "--format", "json")
    assert (missing.status, json.loads(missing.out)[0]["code"]) == (1, "AX0408")


def test_a_module_that_two_files_import_is_reported_once(axon_cli: Cli, here: Path) -> None:
    (here / "a.axon").write_text("import c\nfun f x = c.f x\n")
    (here / "b.axon").write_text("import c\nfun f x = c.f x\n")
    (here / "c.axon").write_text("fun f x = y\n")
    ran = axon_cli("check", ".")
    assert ran.out.count("there is no value `y`") == 1 + 2  # itself, and where it is imported


def test_warnings_do_not_fail(axon_cli: Cli, here: Path) -> None:
    (here / "a.axon").write_text("fun f g x = g -x\n")
    ran = axon_cli("check", "a.axon")
    assert "warning[AX0110]" in ran.out
    assert ran.status == 0


WRONG_USAGE = [
    [],
    ["frobnicate"],
    ["check"],
    ["run"],
    ["check", "--format", "xml", "a.axon"],
    ["emit", "a"],
    ["emit", "--stage", "core"],
    ["emit", "a", "--stage", "core", "--stages"],
]


@pytest.mark.parametrize("arguments", WRONG_USAGE)
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().out == ""


def test_an_empty_directory(axon_cli: Cli, here: Path) -> None:
    ran = axon_cli("check", ".")
    assert (ran.status, "AX0408" in ran.out) == (1, True)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_takes_long_says_so_in_a_terminal(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from axon.base import progress

    (here / "a.axon").write_text("fun wave x = sum i => sin x[i]\n")
    monkeypatch.setenv("TERM", "xterm")
    for arguments, said in ((["check", "."], "checking"), (["run", "a.axon", "x=randn(f32[3])"], "computing wave")):
        monkeypatch.setattr(sys, "stderr", seen := Terminal())
        monkeypatch.setattr(progress.Timer, "start", lambda timer: timer.function())  # a second has gone
        monkeypatch.setattr(progress.Timer, "cancel", lambda timer: None)
        assert main(arguments) == 0
        assert said in seen.getvalue()
        assert said not in capsys.readouterr().out


# ── sig and emit ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sig(axon_cli: Cli, here: Path) -> None:
    (here / "good.axon").write_text(GOOD)
    assert axon_cli("sig", "good.axon").out == (
        "sig double : 'a[..s] -> 'a[..s]\nsig dot : f32[n] -> f32[n] -> f32\nsig half : f32\n"
    )
    assert axon_cli("sig", "good.axon:dot").out == "sig dot : f32[n] -> f32[n] -> f32\n"
    top = "sig top : {k} -> 'a[..b, n] -> { values : 'a[..b, k], places : i32[..b, k] } where k <= n\n"
    assert axon_cli("sig", "tensor.top").out == axon_cli("sig", "tensor:top").out == top  # of the standard library
    assert top in axon_cli("sig", "tensor").out
    assert axon_cli("sig", "nn").out.startswith("type linear_of['a, ..l, d, k] = {")  # which its signatures are made of
    assert axon_cli("sig", "nn.linear").out == "type linear[..l, d, k] = linear_of[f32, ..l, d, k]\n"
    (here / "tensor.axon").write_text(GOOD)
    assert axon_cli("sig", "tensor.axon:dot").out == "sig dot : f32[n] -> f32[n] -> f32\n"
    wrong = axon_cli("sig", "good.axon:doubel")
    assert wrong.status == 1
    assert "AX0507" in wrong.out
    assert "did you mean `double`?" in wrong.out


def test_emit(axon_cli: Cli, here: Path, snapshot: SnapshotAssertion) -> None:
    (here / "good.axon").write_text(GOOD)
    assert axon_cli("emit", "good.axon", "--stage", "ast").out == snapshot
    assert axon_cli("emit", "good.axon:dot", "--stage", "types").out == snapshot
    core = axon_cli("emit", "good.axon:dot", "--stage", "core")
    assert core.status == 0
    assert core.out == snapshot
    with_arguments = axon_cli("emit", "good.axon:double", "--stage", "core", "x=randn(f64[2, 3])")
    assert "f64[" in with_arguments.out
    assert "one role" in axon_cli("emit", "good.axon:dot", "--stage", "tile").out
    assert "AX0602" in axon_cli("emit", "good.axon:dot", "--stage", "machine").out


def test_passes(axon_cli: Cli, here: Path) -> None:
    """Which run for which target, what verifies them, and what they make of a function."""
    (here / "good.axon").write_text("fun f (x : f32[n, n]) = (sum i j => (x @ x)[i, j]) + sum i => (x @ x)[i, i]\n")
    general = axon_cli("emit", "--stages").out
    assert [line for line in general.splitlines() if line.endswith(":")] == ["interpret:", "cpu:", "cuda:", "mesh:"]
    assert re.search(r"^  \d+\. fuse +core → plan +backend\.plan\.verify\.verify_fused$", general, re.MULTILINE)
    of_f = axon_cli("emit", "--stages", "good.axon:f").out
    assert len(of_f.splitlines()) == len(general.splitlines())
    assert "core.verify.verify_rewritten          4 operations" in of_f
    with_arguments = axon_cli("emit", "--stages", "good.axon", "x=randn(f32[2, 2])")
    assert with_arguments.status == 0
    assert with_arguments.out == of_f


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

RUN = """\
fun double x = x + x
fun heads {h} x = for i < h, j => x[(i, j)]
fun stats (x : f32[n]) = { total = (sum i => x[i]), largest = (max i => x[i]) }
fun swap (p : { a : i32, b : f32[n] }) = { a = p.b, b = p.a }
val pair = (1, [| 2.5, 3.5 |])
fun three () = 3
fun first (a, _) = a
"""


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["double", "x=1.5"], "3.0 : f32\n"),
        (["double", "x=2"], "4 : i32\n"),
        (["double", "x=[1.0, 2.0]"], "[| 2.0, 4.0 |] : f32[2]\n"),
        (["double", "x=ones(bf16[2])"], "[| 2.0, 2.0 |] : bf16[2]\n"),
        (["double", "x=zeros(f32[0])"], "[| |] : f32[0]\n"),
        (["heads", "h=2", "x=arange(i32[4])"], "[| [| 0, 1 |],\n   [| 2, 3 |] |] : i32[2, 2]\n"),
        (["stats", "x=[1.0, 2.0]"], "{ total = 3.0, largest = 2.0 } : { total : f32, largest : f32 }\n"),
        (["swap", "p={a = 1, b = [1.5]}"], "{ a = [| 1.5 |], b = 1 } : { a : f32[1], b : i32 }\n"),
        (["swap", "p.a=1", "p.b=[]"], "{ a = [| |], b = 1 } : { a : f32[0], b : i32 }\n"),
        (["three"], "3 : i32\n"),
        (["first", "1=(1, 2.5)"], "1 : i32\n"),
        (["pair"], "(1, [| 2.5, 3.5 |]) : (i32, f32[2])\n"),
        (["double", "x=1", "--target", "cpu"], "2 : i32\n"),
    ],
)
def test_run(axon_cli: Cli, here: Path, arguments: list[str], out: str) -> None:
    (here / "run.axon").write_text(RUN)
    name, *rest = arguments
    ran = axon_cli("run", f"run.axon:{name}", *rest)
    assert (ran.status, ran.out, ran.err) == (0, out, "")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run.axon:double"], "AX0505", "`double` lacks `x`"),
        (["run.axon:double", "y=1"], "AX0505", "no parameter `y`"),
        (["run.axon:double", "x=true"], "AX0504", "a number"),
        (["run.axon:double", "x=1", "--target", "cdua"], "AX0601", "did you mean `cuda`?"),
        (["run.axon:heads", "x=arange(i32[4])"], "AX0505", "dimension parameter"),
        (["run.axon:heads", "h=-1", "x=arange(i32[4])"], "AX0505", "from 0"),
        (["run.axon:heads", "h=3", "x=arange(i32[4])"], "AX0501", "dimension 1 of `x` is 4"),
        (["run.axon:stats", "x=ones(f64[2])"], "AX0504", ".astype(np.float32)"),
        (["run.axon:stats", "x=ones(f32[2, 2])"], "AX0506", "rank"),
        (["run.axon:swap", "p={a = 1}"], "AX0505", "lacks the field `b`"),
        (["run.axon:swap", "p={a = 1, b = 2, c = 3}"], "AX0505", "no field `c`"),
        (["run.axon:swap", "p=1"], "AX0505", "must be a record"),
        (["run.axon:double", "x=1e39"], "AX0504", "outside its range"),
        (["run.axon:first", "2=1"], "AX0505", "no parameter `argument 2`"),
        (["run.axon:nope"], "AX0507", "declares no `nope`"),
        (["run.axon"], "AX0507", "exactly one function"),
        (["run.axon:double", "x=missing.npy"], "AX0508", "No such file"),
        (["nowhere.axon:double", "x=1"], "AX0408", "cannot read"),
    ],
)
def test_run_errors(axon_cli: Cli, here: Path, arguments: list[str], code: str, words: str) -> None:
    (here / "run.axon").write_text(RUN)
    ran = axon_cli("run", *arguments)
    assert ran.status == 1
    assert ran.out.startswith(f"error[{code}]"), ran.out
    assert ran.out.count("error[") == 1
    assert words in ran.out


def test_the_only_function_needs_no_name(axon_cli: Cli, here: Path) -> None:
    (here / "one.axon").write_text("val c = 2.0\nfun scale x = c * x\n")
    assert axon_cli("run", "one.axon", "x=2.0").out == "4.0 : f32\n"


def test_long_results_are_wrapped(axon_cli: Cli, here: Path) -> None:
    (here / "run.axon").write_text(RUN)
    lines = axon_cli("run", "run.axon:double", "x=[" + ",".join(["12345.5"] * 40) + "]").out.splitlines()
    assert len(lines) > 4
    assert all(60 < len(line) <= 80 and line.startswith(("[| 24691.0,", "   24691.0,")) for line in lines[:-1])
    assert axon_cli("run", "run.axon:double", "x=arange(f32[2, 40])").out.count("[|") == 3


DENSE = "fun dense (p : { w : f32[d, k], b : f32[k] }) (x : f32[n, d]) = x @ p.w + p.b\nfun first {n} (x : f32[n]) = x[0]\n"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"w": "f4[8,6]"}, "lacks the field `b`"),
        ({"w": "f4[8,6]", "b": "f4[6]", "m": "f8[8,6]"}, "has no field `m`"),
        ({"w": "f8[8,6]", "b": "f4[6]"}, "`p.w` holds f64, and must hold f32"),
        ({"w": "f4[8,6]", "b": "f4[6,1]"}, "`p.b` has the wrong rank"),
        ({"w": "f4[8,6]", "b": "f4[7]"}, "AX0501"),
        ({"w": "f4[8,6]", "b": "O[6]"}, "pickled Python objects"),
    ],
)
def test_files_are_matched_before_they_are_read(
    axon_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], words: str
) -> None:
    (here / "d.axon").write_text(DENSE)
    arrays = {}
    for name, text in fields.items():
        dtype, _, sizes = text.removesuffix("]").partition("[")
        arrays[name] = np.zeros(tuple(map(int, sizes.split(","))), dtype)
    np.savez("p.npz", **arrays)
    np.save("x.npy", np.ones((3, 8), np.float32))
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("an array was read"))
    for x in ("ones(f32[3, 8])", "x.npy"):
        ran = axon_cli("run", "d.axon:dense", "p=p.npz", f"x={x}")
        assert words in ran.out
        assert ran.status == 1
    plan = axon_cli("emit", "d.axon:dense", "p=p.npz", "x=x.npy", "--stage", "plan")
    assert words in plan.out


def test_files_that_end_too_early(axon_cli: Cli, here: Path) -> None:
    (here / "d.axon").write_text(DENSE)
    with zipfile.ZipFile("p.npz", "w") as archive, archive.open("w.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 4)})
    assert "it ends before its array does" in axon_cli("run", "d.axon:dense", "p=p.npz", "x=ones(f32[3, 8])").out


def test_sizes_from_files(axon_cli: Cli, here: Path) -> None:
    (here / "d.axon").write_text(DENSE)
    np.save("n.npy", np.int64(3))
    np.save("x.npy", np.ones(3, np.float32))
    assert axon_cli("run", "d.axon:first", "n=n.npy", "x=x.npy").out == "1.0 : f32\n"
    assert "AX0501" in axon_cli("run", "d.axon:first", "n=n.npy", "x=ones(f32[4])").out


def test_out(axon_cli: Cli, here: Path) -> None:
    (here / "run.axon").write_text(RUN)
    ran = axon_cli("run", "run.axon:double", "x=[1.0, 2.0]", "--out", "y.npy")
    assert (ran.status, ran.out, ran.err) == (0, "", "wrote y.npy\n")
    assert np.load("y.npy").tolist() == [2, 4]
    assert axon_cli("run", "run.axon:double", "x=y.npy").out == "[| 4.0, 8.0 |] : f32[2]\n"
    axon_cli("run", "run.axon:stats", "x=[1.0, 2.0]", "--out", "s.npz")
    with np.load("s.npz") as file:
        assert {name: file[name].item() for name in file.files} == {"total": 3.0, "largest": 2.0}
    axon_cli("run", "run.axon:pair", "--out", "p.npz")
    with np.load("p.npz") as file:
        assert sorted(file.files) == ["1", "2"]
    assert "AX0508" in axon_cli("run", "run.axon:pair", "--out", "p.npy").out
    assert "AX0508" in axon_cli("run", "run.axon:double", "x=1", "--out", "p.npz").out
    assert "AX0408" in axon_cli("run", "run.axon:double", "x=1", "--out", "no/such/y.npy").out
    assert "ends in neither .npy nor .npz" in axon_cli("run", "run.axon:double", "x=1", "--out", "p.txt").out
    assert sorted(os.listdir()) == ["p.npz", "run.axon", "s.npz", "y.npy"]


@pytest.mark.parametrize("out", ["run.axon", "./run.axon", "other.axon", "RUN.AXON", "link"])
@pytest.mark.parametrize("command", [("view", "run.axon:double"), ("stub", "run.axon")])
def test_out_never_overwrites_a_program(axon_cli: Cli, here: Path, command: tuple[str, str], out: str) -> None:
    (here / "run.axon").write_text(RUN)
    (here / "link").symlink_to("run.axon")
    ran = axon_cli(*command, "--out", out)
    assert ran.status == 1
    assert f"error[AX0408]: `--out {out}` names a program" in ran.out
    assert (here / "run.axon").read_text() == RUN
    assert sorted(os.listdir()) == ["link", "run.axon"]


def test_narrow_floats_survive_files(axon_cli: Cli, here: Path) -> None:
    (here / "a.axon").write_text("fun same (x : bf16[n]) = x\nfun eighth (x : f8e5m2[n]) = x\nfun any x = x\n")
    for element, name in (("bf16", "same"), ("f8e5m2", "eighth")):
        axon_cli("run", f"a.axon:{name}", f"x=full({element}[2], 1.5)", "--out", "x.npy")
        assert axon_cli("run", f"a.axon:{name}", "x=x.npy").out == f"[| 1.5, 1.5 |] : {element}[2]\n"
    assert "AX0504" in axon_cli("run", "a.axon:any", "x=x.npy").out  # which of the 8-bit floats is not known


# ── fmt ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_fmt(axon_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = here / "a.axon"
    file.write_text("fun   f x=x+1.0\n")
    file.chmod(0o640)
    check = axon_cli("fmt", "--check", "a.axon")
    assert (check.status, check.out) == (1, "a.axon is not formatted\n")
    assert axon_cli("fmt", ".").status == 0
    assert file.read_text() == "fun f x = x + 1.0\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert axon_cli("fmt", "--check", "a.axon").status == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fun  f x=x")))
    assert axon_cli("fmt", "-").out == "fun f x = x\n"
    file.write_text("fun f x = (\n")
    before = file.read_text()
    assert axon_cli("fmt", "a.axon").status == 1
    assert file.read_text() == before
    assert os.listdir() == ["a.axon"]


@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_check_of_standard_input(axon_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fun f x = y")))
    ran = axon_cli("check", path)
    assert (ran.status, ran.err) == (1, "checked 1 file: 1 error\n")
    assert "<stdin>:1:11" in ran.out


def test_directories_of_the_system_are_left_out(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "proc").mkdir()
    (here / "proc" / "a.axon").write_text("val a = 1\n")
    (here / "b.axon").write_text("val b = 1\n")
    monkeypatch.setattr("axon.tools.commands.batch._SYSTEM", (str(here / "proc"),))
    assert files_of([str(here)]) == [str(here / "b.axon")]


def test_who_waits_for_files_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        (here / f"d{n}").mkdir()
    (here / "d2" / "b.axon").write_text("val b = 1\n")
    told: list[str] = []
    assert len(files_of([str(here / "d2")], told.append)) == 1
    assert told == []
    monkeypatch.setattr("axon.tools.commands.batch._SLOW", -1.0)
    assert len(files_of([str(here)], told.append)) == len(files_of([str(here)]))
    assert told == [str(here)]


def test_fmt_finds_nothing_to_change_in_what_is_shipped(axon_cli: Cli) -> None:
    ran = axon_cli("fmt", "--check", ROOT / "examples", ROOT / "stdlib")
    assert (ran.status, ran.out) == (0, "")


def test_fmt_follows_links(axon_cli: Cli, here: Path) -> None:
    (here / "real.axon").write_text("fun   f x = x\n")
    (here / "link.axon").symlink_to("real.axon")
    assert axon_cli("fmt", "link.axon").status == 0
    assert (here / "link.axon").is_symlink()
    assert (here / "real.axon").read_text() == "fun f x = x\n"


# ── test ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_test(axon_cli: Cli, here: Path, snapshot: SnapshotAssertion) -> None:
    (here / "good.axon").write_text("(* >>> double 2.0\n   4.0 *)\nfun double x = x + x\n")
    (here / "bad.axon").write_text("(* >>> double 2.0\n   5.0\n\n   >>> double y\n   1 *)\nfun double x = x + x\n")
    good, bad = axon_cli("test", "good.axon"), axon_cli("test", ".")
    assert (good.status, good.out, good.err) == (0, "", "1 test passed, 0 failed\n")
    assert (bad.status, bad.err) == (1, "1 test passed, 2 failed\n")
    assert bad.out == snapshot


def test_tests_are_counted_and_not_errors(axon_cli: Cli, here: Path) -> None:
    (here / "a.axon").write_text("(* >>> f 1 + y + z\n   w\n\n   >>> f 1\n   1 *)\nfun f x = x\n")
    assert axon_cli("test", "a.axon").err == "1 test passed, 1 failed\n"
    (here / "b.axon").write_text("(* >>> f 1\n   1\n\n   >>> f 2\n   2 *)\nfun f x = y\nval a = z\n")
    assert axon_cli("test", "b.axon").err == "0 tests passed, 2 failed\n"


# ── explain ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_explain(axon_cli: Cli) -> None:
    ran = axon_cli("explain", "ax0501")
    assert ran.status == 0
    assert ran.out.startswith("# AX0501: sizes break the contract\n")
    wrong = axon_cli("explain", "AX501")
    assert (wrong.status, "did you mean `AX0501`?" in wrong.out) == (1, True)
    assert "AX0408" in axon_cli("explain", "mlp.axon:forward").out
    both = axon_cli("explain", "AX0501", "ax0502")
    assert "# AX0501: sizes break the contract\n" in both.out
    assert "\n# AX0502: " in both.out


# ── the process ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_that_leaves_is_no_error(here: Path) -> None:
    (here / "many.axon").write_text("".join(f"val v{i} = {i}\n" for i in range(5_000)))
    command = f"{sys.executable} -m axon sig many.axon | head -n 1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == "sig v0 : i32\n"
    assert ran.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize("count", [1, 5_000])  # what is written when the command ends, and before
def test_a_full_disk_is_said_in_one_line(here: Path, count: int) -> None:
    (here / "many.axon").write_text("".join(f"val v{i} = {i}\n" for i in range(count)))
    command = f"{sys.executable} -m axon sig many.axon"
    ran = subprocess.run(["bash", "-c", f"{command} > /dev/full"], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (1, "axon: cannot write: No space left on device\n")
    assert subprocess.run(["bash", "-c", f"{command} > /dev/full 2>&1"], timeout=60, check=False).returncode == 1


def test_ctrl_c_while_it_starts_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    halfway = types.ModuleType("axon.tools.cli")
    halfway.__dict__["__getattr__"] = interrupted
    monkeypatch.setitem(sys.modules, "axon.tools.cli", halfway)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")


def test_output_is_utf8_everywhere(here: Path) -> None:
    (here / "bad.axon").write_text("fun f x = y\n")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    ran = subprocess.run([sys.executable, "-m", "axon", "check", "bad.axon"], capture_output=True, env=environment, check=False)
    assert "┌─ bad.axon:1:11" in ran.stdout.decode()


# Python 3.12 keeps a small stack for C; there deeper programs may end in AX0002.
DEEP = 200 if sys.version_info[:2] == (3, 12) else 390
NESTED = {
    "parentheses": f"fun f x = {'(' * DEEP}x{')' * DEEP}",
    "minuses": f"fun f x = {'-' * DEEP}x",
    "sums": f"fun f x = {'x + ' * DEEP}x",
    "choices": f"fun f x = {'if x > 0.0 then x else ' * DEEP}x",
    "calls": f"fun f x = {'min x (' * (DEEP // 2)}x{')' * (DEEP // 2)}",
    "lets": f"fun f x = {'let val x = x + 1.0 in ' * (DEEP // 2)}x{' end' * (DEEP // 2)}",
    "tuples": f"fun f x = {'(' * DEEP}x{', 1)' * DEEP}",
}


@pytest.mark.parametrize("name", NESTED)
def test_deep_programs_have_room(axon_cli: Cli, here: Path, name: str) -> None:
    """Every phase works at the depth that the parser allows."""
    (here / "deep.axon").write_text(NESTED[name] + "\n")
    assert axon_cli("fmt", "deep.axon").status == 0
    assert axon_cli("emit", "deep.axon", "--stage", "ast").status == 0
    ran = axon_cli("run", "deep.axon", "x=1.0")
    assert (ran.status, ran.out[:5]) != (1, "error"), ran.out


def test_a_mistake_in_axon_is_one_diagnostic(axon_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import axon.checker.check

    def broken(*_: object) -> None:
        raise ZeroDivisionError("of\nall \x1b[31mthings")

    (here / "good.axon").write_text(GOOD)
    monkeypatch.setattr(axon.checker.check, "check_module", broken)
    ran = axon_cli("check", "good.axon")
    assert ran.status == 1
    assert ran.out.startswith("error[AX0001]: Axon failed while checking")
    assert "ZeroDivisionError: of all \\x1b[31mthings" in ran.out

    def endless(*given: object) -> None:
        endless(*given)

    monkeypatch.setattr(axon.checker.check, "check_module", endless)
    assert axon_cli("check", "good.axon").out.startswith("error[AX0002]")
    limit = sys.getrecursionlimit()
    assert limit <= 3_000, "the limit is put back"
    monkeypatch.setenv("AXON_DEBUG", "1")
    monkeypatch.setattr(axon.checker.check, "check_module", broken)
    with pytest.raises(ZeroDivisionError):
        main(["check", "good.axon"])
