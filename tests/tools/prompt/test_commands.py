"""The commands of the prompt, and a script that is piped into it."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.tools.prompt import commands, repl
from axon.tools.prompt.completion import Completer
from axon.tools.prompt.interactive import Defined, Interactive

PROGRAM = """\
fun dense (x : f32[n, d]) (w : f32[d, k]) =
  let val y = x @ w
  in y + 1.0 end
fun proj (x : bf16[n, d]) (w : bf16[d, k]) = x @ w
"""


@pytest.fixture
def module() -> Interactive:
    module = Interactive()
    module.define(SourceFile("<input 1>", PROGRAM))
    return module


@pytest.fixture(scope="module")
def completer() -> Completer:
    """One for all, as a prompt has: the library is checked once."""
    return Completer()


def run(module: Interactive, text: str) -> str:
    said = commands.run(module, SourceFile("<input>", text))
    return "\n".join(said.lines) if isinstance(said, Defined) else said


def code(module: Interactive, text: str) -> str:
    with pytest.raises(AxonError) as caught:
        run(module, text)
    return caught.value.diagnostics[0].code


def test_type(module: Interactive) -> None:
    assert run(module, ":type dense") == "dense : f32[n, d] -> f32[d, k] -> f32[n, k]"
    assert run(module, ":t dense [| [| 1.0 |] |]".replace(":t ", ":ty ")).endswith(": f32[1, k] -> f32[1, k]")
    assert run(module, ":type 1 / 0") == "1 / 0 : i32", "nothing runs"
    assert code(module, ":type nothing") == "AX0401"
    assert code(module, ":type") == "AX0510"


@pytest.mark.parametrize("command", [":type 1.0 + nothing", ":type 1.0 + )", ":emit core 1.0 + nothing"])
def test_errors_show_the_whole_line(module: Interactive, command: str) -> None:
    with pytest.raises(AxonError) as caught:
        run(module, command)
    assert f"1 │ {command}\n" in str(caught.value)


def test_shapes(module: Interactive) -> None:
    assert run(module, ":shapes dense").splitlines() == [
        "sig dense : f32[n, d] -> f32[d, k] -> f32[n, k]",
        "  1: x : f32[n, d]",
        "  1: w : f32[d, k]",
        "  2: y : f32[n, k]",
    ]
    assert code(module, ":shapes desne") == "AX0507"
    module.define(SourceFile("<input 2>", "type pair[d]={w:f32[d],b:f32}"))
    assert run(module, ":shapes pair") == "type pair[d] = { w : f32[d], b : f32 }"
    assert "type pair[d] = { w : f32[d], b : f32 }" in run(module, ":names").splitlines()


def test_bind_and_time(module: Interactive) -> None:
    assert run(module, ":bind x=randn(f32[2, 3]) p={w = [1.0, 2.0]}") == "x : f32[2, 3]\np : { w : f32[2] }"
    lines = run(module, ":time x + 1.0").splitlines()
    assert [line.split()[0] for line in lines] == ["checking", "first", "each"]
    assert all(re.search(r"\d (s|ms|µs)", line) for line in lines)
    assert code(module, ":time dense") == "AX0510"
    assert code(module, ":bind dense=3") == "AX0404"
    assert code(module, ":bind x") == "AX0508"


def test_emit_and_explain(module: Interactive) -> None:
    run(module, ":bind x=ones(f32[2, 3])")
    assert run(module, ":emit core dense").startswith("dense (x : f32[n, d])")
    assert run(module, ":emit core x + 1.0").startswith("it (x : f32[2, 3]) =")
    assert run(module, ":emit types dense") == run(module, ":shapes dense")
    assert run(module, ":emit ast dense").startswith("Fun name=dense")
    assert run(module, ":emit ast 1 + 2").startswith("Binary op=+")
    assert "wait ring.empty parity 1" in run(module, ":emit barriers proj x=randn(bf16[512, 512]) w=randn(bf16[512, 512])")
    assert "µs predicted" in run(module, ":explain proj")
    assert run(module, ":explain AX0301").startswith("# AX0301")
    assert code(module, ":emit machine dense") == "AX0602"
    assert code(module, ":emit core") == "AX0510"
    assert code(module, ":emit") == "AX0510"
    assert code(module, ":explain AX9999") == "AX0409"
    assert code(module, ":explain nosuch") == "AX0507", "a name, and no code"
    assert "µs predicted" in run(module, ":explain proj x=randn(bf16[64, 64]) w=randn(bf16[64, 64])")
    assert "µs predicted" in run(module, ":explain fn x => exp x + 1.0")
    run(module, ":bind a=randn(f32[4, 4])")
    assert "µs predicted" in run(module, ":explain dense a a")
    module.define(SourceFile("<input 2>", "type pair = { w : f32[2] }"))
    with pytest.raises(AxonError, match="`pair` is a type"):
        run(module, ":explain pair")


def test_save(module: Interactive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(module, ":save a.axon") == "wrote a.axon: 2 declarations"
    assert Path("a.axon").read_text().split() == PROGRAM.split()
    assert code(module, ":save a.axon") == "AX0510"
    assert run(module, ":save! a.axon").startswith("wrote")
    run(module, ":load a.axon")
    assert run(module, ":save a.axon").startswith("wrote"), "what was loaded may be saved"
    assert code(module, ":save nowhere/a.axon") == "AX0408"
    for save in (":save .", ":save! ."):
        with pytest.raises(AxonError, match="is a directory"):
            run(module, save)
    assert code(module, ":save a\x00b") == "AX0408"
    assert run(module, ":reload").count("\n") == 1


def test_save_counts_every_declaration(module: Interactive, tmp_path: Path) -> None:
    module.define(SourceFile("<input 2>", "type pair = { w : f32[2] }\nimport nn\nsig later : f32 -> f32"))
    assert run(module, f":save {tmp_path}/a.axon").endswith("a.axon: 4 declarations")


def test_names_and_help(module: Interactive) -> None:
    run(module, ":bind x=1")
    assert run(module, ":names").splitlines()[-2:] == ["(* data *)", "x : i32"]
    text = run(module, ":help")
    assert all(command in text for command in commands.COMMANDS)
    assert run(module, ":help type").startswith(":type EXPRESSION\n")
    assert run(Interactive(), ":names") == "nothing is defined"


@pytest.mark.parametrize("columns", [40, 80, 110, 200])
@pytest.mark.parametrize("text", [":help", ":explain AX0301", ":help emit"])
def test_prose_fits_into_a_terminal(module: Interactive, text: str, columns: int) -> None:
    said = run(module, text)
    shown = commands.fitted(text, said, columns)
    assert shown.split() == said.split(), "no word is cut"
    assert all(len(line) <= columns or " " not in line.strip() for line in shown.splitlines())
    assert columns < 200 or shown == said
    if text == ":help" and columns == 110:
        assert max(len(line) - len(line.lstrip()) for line in shown.splitlines()) == said.splitlines()[-1].index("leave,")


def test_what_is_no_prose_stays_as_it_is(module: Interactive) -> None:
    assert commands.fitted(":type x", "x : f32[a, b, c]", 8) == "x : f32[a, b, c]"


def test_an_expression_without_data_has_no_parameters(module: Interactive) -> None:
    assert run(module, ":emit core for i < 4 => i").splitlines()[0] == "it ="
    run(module, ":bind x=2.0")
    assert "(x : f32)" in run(module, ":emit core x + 1.0").splitlines()[0]


def test_what_there_is_when_a_name_is_not(module: Interactive) -> None:
    with pytest.raises(AxonError) as caught:
        run(Interactive(), ":shapes nope")
    assert caught.value.diagnostics[0].notes == ("nothing is declared yet",)
    with pytest.raises(AxonError) as caught:
        run(module, ":shapes nope")
    assert caught.value.diagnostics[0].notes[0].startswith("declared are `")


def test_what_is_no_command(module: Interactive) -> None:
    for text in (":quit now", ":names all", ":reload it"):
        with pytest.raises(AxonError, match="nothing follows `:"):
            run(module, text)
    for text in (":", ":tpye x", ":e core dense", ":🙂", ":help nothing"):
        assert code(module, text) == "AX0510", text
    with pytest.raises(AxonError) as caught:
        run(module, ":tpye x")
    assert "did you mean `:type`?" in str(caught.value)


# ── completion ──────────────────────────────────────────────────────────────────────────────────────────────────────────


SOFT = ["soft_shrink", "softmax", "softmax_all", "softmax_first", "softplus", "softsign"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("den", ["dense"]),
        ("nn.soft", SOFT),
        ("p.", ["bias", "weight"]),  # of data
        ("p.w", ["weight"]),
        ("fun f parameter = par", ["parameter"]),
        ("fun f (q : linear[d, k]) = q.", ["b", "w"]),  # of a parameter's type
        ("fun f (q : linear[rows, columns]) (x : f32[ro", ["rows"]),
        ("fun f x = for row col => x[ro", ["row", "round"]),
        ("for row => p.weight[ro", ["row", "round"]),
        ("type mine = { left : f32, right : f32 }\n({ left = 1.0, right = p.weight[0] }).le", ["left"]),
        ("let val inner = 2 in\ninn", ["inner"]),
        ("import he", ["here"]),
        (":sh", [":shapes"]),
        (":load ", ["folder/", "here.axon"]),
        (":emit bar", ["barriers"]),
        (":emit core nn.soft", SOFT),
        (":type den", ["dense"]),
        (":type p.", ["bias", "weight"]),
        (":help :ti", [":time"]),
        ("1 + ", []),
        ("", []),
        (")", []),
        ("(* den", []),
        ("😀 den", ["dense"]),
    ],
)
def test_completion(
    before: str, expected: list[str], module: Interactive, completer: Completer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.axon").write_text("")
    Path("folder").mkdir()
    module.define(SourceFile("<input 2>", "import nn\ntype linear[d, k] = { w : f32[d, k], b : f32[k] }"))
    module.bind("p", {"weight": [1.0, 2.0], "bias": 2})
    assert [c.text for c in completer(module, before)] == expected


def test_completion_says_types(module: Interactive) -> None:
    (found,) = Completer()(module, "1 + den")
    assert (found.start, found.about) == (4, "f32[n, d] -> f32[d, k] -> f32[n, k]")


# ── scripts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def piped(script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *paths: str) -> tuple[int, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(script))
    status = repl.main(paths)
    return status, capsys.readouterr().out


def test_a_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "m.axon").write_text("fun half x = x / 2.0\n")
    script = """\
fun f x =
  half x
f 3.0
:type f

let val a = 1
in a
end
:quit
nothing here is read
"""
    assert piped(script, monkeypatch, capsys, str(tmp_path / "m.axon")) == (
        0,
        "half : 'a[..s] -> 'a[..s]\nf : 'a[..s] -> 'a[..s]\n1.5 : f32\nf : 'a[..s] -> 'a[..s]\n1 : i32\n",
    )


def test_a_script_replaces_what_it_has_declared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Declarations are entered together, in any order, up to one of a name that they have."""
    script = "fun g x = f x\nfun f x = x\nsig f : f32 -> f32\ntype f = f32\nfun f x = x + 1.0\ng 1.0\n"
    status, out = piped(script, monkeypatch, capsys)
    assert (status, out.splitlines()[-1]) == (0, "2.0 : f32")


def test_a_script_keeps_the_comments_of_declarations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:  # fmt: skip
    piped(f"1\n\n(* about g *)\nfun g x = x\n2\n:save {tmp_path}/out.axon\n", monkeypatch, capsys)
    assert (tmp_path / "out.axon").read_text().strip() == "(* about g *)\nfun g x = x"


def test_members_of_modules_are_named_in_commands(module: Interactive) -> None:
    module.define(SourceFile("<input 2>", "import nn"))
    assert run(module, ":shapes nn.softmax").startswith("sig softmax : ")
    assert "reduce over" in run(module, ":explain nn.softmax x=randn(f32[4, 5])")
    assert run(module, ":emit core nn.relu x=randn(f32[4])").startswith("relu (x : f32[")
    assert code(module, ":shapes nn.nothing") == "AX0507"


def test_a_script_goes_on_after_errors(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = piped("nothing\n1 + 1\nval z = (\n", monkeypatch, capsys)
    assert status == 1
    assert "error[AX0401]" in out
    assert "2 : i32" in out
    assert "error[AX0102]" in out


def test_broken_declarations_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = piped("fun f x = x + 1.0\n1\nfun g x = f x * 2.0\n2\nfun f (x : f32[n]) y = x + y\n", monkeypatch, capsys)
    assert "no longer fits" in out
    assert "<input 3>:1:11" in out


@pytest.mark.parametrize(
    "script", ["\x00\n", "\ud800\n", "(*" * 5_000, "é 🙂\n", "(" * 3_000 + "\n", "val a = " + "1 + " * 20_000 + "1\n"]
)
def test_odd_scripts(script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = piped(script, monkeypatch, capsys)
    assert status == 1
    assert "error[AX01" in out
    assert "AX0001" not in out


def test_a_defect_is_reported_and_survived(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Interactive, "evaluate", broken)
    status, out = piped("1\nfun f x = x\n", monkeypatch, capsys)
    assert status == 1
    assert "AX0001" in out
    assert "f : 'A -> 'A" in out


def test_shapes_are_called_what_the_signature_calls_them(module: Interactive) -> None:
    module.define(SourceFile("<input 2>", "fun f (x : f32[n, k]) w = let val y = x @ w in y end"))
    said = run(module, ":shapes f")
    assert said.splitlines()[0] == "sig f : f32[n, k] -> f32[k, m] -> f32[n, m]"
    assert [line.partition(": ")[2] for line in said.splitlines()[1:]] == ["x : f32[n, k]", "w : f32[k, m]", "y : f32[n, m]"]
