"""A module that grows: what is defined, replaced, refused, evaluated, loaded and saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import axon
from axon import compiler
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.host.show_value import show
from axon.tools.prompt.interactive import Defined, Evaluated, Interactive


class Session:
    """Enters texts one after the other."""

    def __init__(self) -> None:
        self.module = Interactive()
        self.count = 0

    def __call__(self, text: str) -> Defined | Evaluated:
        self.count += 1
        return self.module.enter(SourceFile(f"<input {self.count}>", text))

    def lines(self, text: str) -> list[str]:
        answer = self(text)
        assert isinstance(answer, Defined)
        return list(answer.lines)

    def value(self, text: str) -> str:
        answer = self(text)
        assert isinstance(answer, Evaluated)
        return show(answer.value) if answer.is_value else answer.type

    def codes(self, text: str) -> list[str]:
        before = self.module.text, dict(self.module.data), dict(self.module.signatures)
        with pytest.raises(AxonError) as caught:
            self(text)
        assert before == (self.module.text, dict(self.module.data), dict(self.module.signatures)), "something was lost"
        return [d.code for d in caught.value.diagnostics]


@pytest.fixture
def s() -> Session:
    return Session()


def test_definitions_and_expressions(s: Session) -> None:
    assert s.lines("fun f x = x + 1.0\nval a = 2.0") == ["f : 'a[..s] -> 'a[..s]", "a : f32"]
    assert s.value("f a") == "3.0 : f32"
    assert s.value("it * it") == "9.0 : f32"
    assert s.value("f") == "'a[..s] -> 'a[..s]"
    assert s.value("fn x => f x @ x") == "'a[..s, n, n] -> 'a[..s, n, n]"
    assert s.value("a") == "2.0 : f32"


@pytest.mark.parametrize("text", ["it", "it + 1", "for i < 3 => it"])
def test_the_last_value_before_there_is_one(s: Session, text: str) -> None:
    with pytest.raises(AxonError) as caught:
        s(text)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("AX0401", "there is no value `it` here")
    assert found.notes == ("`it` is the last value: nothing has been evaluated yet",)
    assert found.suggestions == ()


def test_a_new_declaration_replaces_the_old_one_everywhere(s: Session) -> None:
    s("fun f x = x + 1.0")
    s("fun g x = f x * 2.0")
    s("fun f x = x + 10.0")
    assert s.value("g 1.0") == "22.0 : f32"


def test_what_no_longer_fits_waits(s: Session) -> None:
    s("fun f x = x + 1.0")
    s("fun g x = f x * 2.0")
    answer = s("fun f (x : f32[n]) (y : f32[n]) = x + y")
    assert isinstance(answer, Defined)
    assert [str(d.span) for d in answer.broken] == ["<input 2>:1:11"]
    assert "g" not in s.module.signatures
    assert s.codes("g 1.0") == ["AX0204"], "the reason is given again"
    assert s.value("f [| 1.0 |] [| 2.0 |]") == "[| 3.0 |] : f32[1]", "the others go on"
    assert not s("fun f x = x - 1.0").broken  # type: ignore[union-attr]
    assert s.value("g 1.0") == "0.0 : f32"


def test_one_changed_function_is_one_error_for_each_declaration_that_no_longer_fits(s: Session) -> None:
    s("fun f x = x + 1.0")
    s("fun g x = f x + f x")
    s("fun h x = f x * g x")
    answer = s("fun f x y = x + y")
    assert isinstance(answer, Defined)
    assert [str(d.span) for d in answer.broken] == ["<input 2>:1:11", "<input 3>:1:11"]
    with pytest.raises(AxonError) as caught:
        s("g 1.0")
    assert [str(d.span) for d in caught.value.diagnostics] == ["<input 2>:1:11"], "of what is used, and not of `h`"
    assert not s("fun k x = x").broken, "what was said is not said again"  # type: ignore[union-attr]
    assert s("fun m x = g x").notes == ("`m` waits: it cannot be used until what it uses fits again",)  # type: ignore[union-attr]
    assert not s("fun f x = x - 1.0").broken  # type: ignore[union-attr]
    assert s.value("m 1.0") == "0.0 : f32"


def test_what_lacks_a_name_is_refused_also_where_an_older_declaration_lacks_it(s: Session) -> None:
    s("val (a, b) = (1.0, 2.0)")
    s("fun h x = x * b")
    answer = s("val a = 3.0")
    assert isinstance(answer, Defined)
    assert answer.notes == ("`b` is gone: it was declared together with a name that has a new declaration",)
    assert [d.message for d in answer.broken] == ["there is no value `b` here"]
    with pytest.raises(AxonError) as caught:
        s("fun k x = b + x")
    assert [str(d.span) for d in caught.value.diagnostics] == ["<input 4>:1:11"]


def test_files_import_from_beside_themselves(s: Session, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "util.axon").write_text("fun one x = x + 1.0\n")
    (tmp_path / "sub" / "m.axon").write_text("import util\nfun q x = util.one x\n")
    (tmp_path / "lib.axon").write_text("import nn\nfun dbl x = nn.relu (x + x)\n")
    s.module.load(str(tmp_path / "sub" / "m.axon"))
    answer = s.module.load(str(tmp_path / "lib.axon"))
    assert not answer.broken
    assert s.value("dbl (q 1.0)") == "4.0 : f32"
    (tmp_path / "sub" / "util.axon").write_text("fun one x = x + 10.0\n")
    assert s.value("dbl (q 1.0)") == "22.0 : f32", "it is looked at again"
    (tmp_path / "sub" / "util.axon").unlink()
    with pytest.raises(AxonError) as caught:
        s("q 1.0")
    assert [(d.code, str(d.span)) for d in caught.value.diagnostics] == [("AX0402", f"{tmp_path}/sub/m.axon:1:8")]


def test_comments_stay_where_they_were(s: Session, tmp_path: Path) -> None:
    text = (
        "fun dbl x = x + x (* twice *) (* and no more *)\nsig tri : f32 -> f32\n(* thrice *)\nfun tri x = 3.0 * x\n\n"
        "sig four : f32 -> f32\nfun four x = dbl (dbl x)\n"
    )
    (tmp_path / "lib.axon").write_text(text)
    s.module.load(str(tmp_path / "lib.axon"))
    assert s.module.text == text.replace("*)\nsig tri", "*)\n\nsig tri").replace("f32\n(* thrice", "f32\n\n(* thrice")
    s("fun dbl x = 2.0 * x")
    assert "twice" not in s.module.text


def test_declarations_stand_in_the_order_of_their_use(s: Session) -> None:
    s("val a = 1.0")
    s("fun f x = x + a")
    s("fun h x = x * 3.0")
    s("val a = h 2.0")
    assert s.value("f 1.0") == "7.0 : f32"
    assert axon.compile(s.module.text).f(1.0) == 7.0


def test_thousands_of_declarations_in_any_order() -> None:
    s = Session()
    s("\n".join([f"fun f{i} x = x + {i}.0" for i in range(300)]))
    assert s.value("f299 1.0") == "300.0 : f32"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("fun f x = x @", ["AX0101"]),
        ("val z = (", ["AX0102"]),
        ("(* open", ["AX0103"]),
        ("1 +", ["AX0101"]),
        ("nothing", ["AX0401"]),
        ("x = 5", ["AX0401"]),
        ('"text"', ["AX0113"]),
        ("val é = 1", ["AX0105"]),
        ("fun f x = x\nfun f x = x", ["AX0404"]),
        ("fun a x = b x\nfun b x = a x", ["AX0401"]),
        ("1 / 0", ["AX0503"]),
        ("import nowhere", ["AX0402"]),
        ("\x00", ["AX0106"]),
        ("[| 1, 2 |] @ 3", ["AX0219"]),
        ("(" * 1_000 + "1" + ")" * 1_000, ["AX0108"]),
    ],
)
def test_what_is_refused_changes_nothing(s: Session, text: str, codes: list[str]) -> None:
    s("val kept = 1")
    assert s.codes(text) == codes
    assert s.value("kept") == "1 : i32"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("fnu f x = x", ["expected a declaration, found `fnu`"]),  # although there is an `fnu`
        ("fnu 3 = zz + zz", ["there is no value `zz` here"]),
        ("fnu 3 = 1 + zz", ["there is no value `zz` here"]),
    ],
)
def test_one_mistake_is_one_error(s: Session, text: str, messages: list[str]) -> None:
    s("fun fnu x = 1")
    with pytest.raises(AxonError) as caught:
        s(text)
    assert [d.message for d in caught.value.diagnostics] == messages


def test_errors_point_to_what_was_typed(s: Session) -> None:
    s("fun f (x : f32[3]) = x")
    with pytest.raises(AxonError) as caught:
        s("f\n  [| 1.0, 2.0 |]")
    assert "<input 2>:2:3" in str(caught.value)
    with pytest.raises(AxonError) as caught:
        s("let val i = it + 7 in [| 1, 2 |][i] end")
    with pytest.raises(AxonError) as called:
        s.module.session.call(s.module.session.callee("f"), (), (np.ones(2, np.float32),))
    assert "<input 1>:1:8" in str(called.value)


def test_errors_of_data_do_not_mention_the_function_around_them(s: Session) -> None:
    s("fun pick (t : 'a[n]) (i : i32) = t[i]")
    with pytest.raises(axon.ShapeError) as caught:
        s("pick [| 1.0 |] 9")
    assert "in a call of `it`" not in str(caught.value)
    assert caught.value.diagnostics[0].code == "AX0502"


def test_equals_is_not_a_definition(s: Session) -> None:
    with pytest.raises(AxonError) as caught:
        s("x = 5")
    assert "write `val x = …`" in str(caught.value)


# ── sigs, types, patterns ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sig_waits_for_its_declaration(s: Session) -> None:
    assert s.lines("sig f : f32[n] -> f32[n]") == ["sig f: waits for its declaration"]
    assert s.value("1") == "1 : i32"
    assert s.codes("fun f x = (x, x)") == ["AX0204"]
    assert s.lines("fun f x = x") == ["f : f32[n] -> f32[n]"]
    assert s.lines("fun f x = (x, x)") == ["f : 'A -> ('A, 'A)"], "a new declaration leaves the old sig behind"
    assert s.codes("sig f : f32 -> f32") == ["AX0204"], "a sig must fit the declaration that stands"


def test_types(s: Session) -> None:
    s("type pair[n] = { a : f32[n], b : f32[n] }")
    assert s.lines("fun total (p : pair[k]) = p.a + p.b") == ["total : pair[k] -> f32[k]"]
    s("type pair[n] = { a : f32[n, n], b : f32[n, n] }")
    assert s.module.signatures["total"] == "pair[k] -> f32[k, k]"


def test_names_that_go_with_a_pattern(s: Session) -> None:
    s("val (a, b) = (1, 2)")
    answer = s("val a = 3")
    assert isinstance(answer, Defined)
    assert answer.forgotten == ("b",)


def test_imports(s: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.axon").write_text("fun twice x = x + x\n")
    assert s.lines("import mine") == ["import mine: 1 declaration"]
    assert s.value("mine.twice 2") == "4 : i32"
    Path("mine.axon").write_text("fun twice x = x * 2\nval one = 1\n")
    assert s.value("mine.twice 3") == "6 : i32", "what is imported is as it is now"


def test_imports_are_checked_again_only_when_they_change(s: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.axon").write_text("import b\nfun f x = b.g x\n")
    Path("b.axon").write_text("fun g x = x + 1\n")
    s("import a\nimport nn")
    first = dict(s.module.modules)
    assert s.value("a.f 1") == "2 : i32"
    s("val one = 1")
    assert all(s.module.modules[name] is module for name, module in first.items())
    Path("b.axon").write_text("fun g x = x + 10\n")  # what an import imports
    assert s.value("a.f 1") == "11 : i32"
    s("val two = 2")
    assert s.module.modules["a"] is not first["a"]
    assert s.module.modules["nn"] is first["nn"]
    Path("b.axon").write_text("fun g x = \n")
    with pytest.raises(AxonError):
        s("a.f 1")
    Path("b.axon").write_text("fun g x = x\n")
    assert s.value("a.f 1") == "1 : i32"


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_data(s: Session) -> None:
    assert s.module.bind("x", np.ones((2, 3), np.float32)) == "f32[2, 3]"
    assert s.module.bind("p", {"w": np.ones(3, np.float32), "t": (1, 2.5)}) == "{ w : f32[3], t : (i32, f32) }"
    assert s.value("x + p.w * p.t.2") == "[| [| 3.5, 3.5, 3.5 |],\n   [| 3.5, 3.5, 3.5 |] |] : f32[2, 3]"
    assert s.lines("val y = x[0, ..]") == ["y : f32[3]"]
    assert s.value("y") == "[| 1.0, 1.0, 1.0 |] : f32[3]"
    assert s.lines("val (z : f32[3]) = y") == ["z : f32[3]"]
    assert s.codes("val (z : f32[2]) = y") == ["AX0301"]
    assert s.codes("fun f a = a + x") == ["AX0401"]
    assert s.codes("val f = fn a => a + x") == ["AX0406"]
    assert s.codes("val (a, b) = (x, x)") == ["AX0406"]
    assert s.codes("x @ x") == ["AX0301"]
    s("fun y a = a")
    assert "y" not in s.module.data, "a declaration takes the name"


def test_what_is_no_data(s: Session) -> None:
    s("fun f x = x")
    for name, value in (("f", 1), ("let", 1), ("a b", 1), ("x", "text"), ("x", np.zeros(2, complex)), ("x", [[1], [1, 2]])):
        with pytest.raises(AxonError):
            s.module.bind(name, value)
    assert not s.module.data


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_load_and_reload(s: Session, tmp_path: Path) -> None:
    (tmp_path / "lib.axon").write_text("val base = 10\n")
    file = tmp_path / "model.axon"
    file.write_text("import lib\n(* adds *)\nfun f x = x + lib.base\nfun g x = f x\n")
    assert s.module.load(str(file)).lines == ("import lib: 1 declaration", "f : 'a[..s] -> 'a[..s]", "g : 'a[..s] -> 'a[..s]")
    assert s.value("g 1") == "11 : i32"
    s("fun mine x = g x")
    file.write_text("fun f x = x * 2\nfun g x = x @\n")
    with pytest.raises(AxonError) as caught:
        s.module.reload()
    assert f"{file}:2:13" in str(caught.value)
    assert s.value("mine 1") == "11 : i32", "nothing is lost"
    file.write_text("fun f x = x * 2\nfun g x = f x + 1\n")
    s.module.reload()
    assert s.value("mine 5") == "11 : i32"
    assert "lib" not in s.module.modules
    with pytest.raises(AxonError):
        s.module.load(str(tmp_path / "nowhere.axon"))
    with pytest.raises(AxonError):
        s.module.load(str(tmp_path))


def test_what_is_saved_is_a_program(s: Session) -> None:
    s("(* one *)\nval one = 1.0")
    s("fun f x = x + one")
    s("import nn")
    s("fun h x = nn.relu (f x)  (* two *)")
    s("sig f : f32 -> f32")
    text = s.module.text
    assert "(* one *)" in text
    assert "(* two *)" in text
    assert not axon.check(text)
    assert axon.compile(text).h(-3.0) == 0.0


# ── interruptions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("phase", ["check", "run"])
def test_an_interruption_changes_nothing(s: Session, phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s("val one = 1.0")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compiler, phase, interrupted)
        for text in ("fun f x = x", "one + one"):
            if phase == "run" and text.startswith("fun"):
                continue
            before = s.module.text, dict(s.module.data)
            with pytest.raises(KeyboardInterrupt):
                s(text)
            assert before == (s.module.text, dict(s.module.data))
    assert s.value("one + one") == "2.0 : f32"


# ── describing, without running ─────────────────────────────────────────────────────────────────────────────────────────


def test_describe(s: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    s.module.bind("x", np.ones(3, np.float32))
    monkeypatch.setattr(compiler, "run", None)
    for text, said in (
        ("fun f a = a @ a", "f : 'a[..s, n, n] -> 'a[..s, n, n]"),
        ("x + 1.0", "f32[3]"),
        ("val y = x + 1.0", "y : f32[3]"),
        ("1 / 0", "i32"),
    ):
        assert s.module.describe(SourceFile("<input>", text)) == said
    assert "f" not in s.module.signatures
    assert "y" not in s.module.data


# ── cutting what is pasted ──────────────────────────────────────────────────────────────────────────────────────────────

PASTED = """\
(* a comment *)
fun f x =
  let val y = x
in y end

fun g x = x
|> f
f 3
1 +
2
(* another *)
let val a = 1
in a
end
if true
then 1
else 2
3   (* trailing *)
val z = (
"""


def test_entries() -> None:
    parts = compiler.entries(SourceFile("<input>", PASTED))
    assert [part.text.strip() for part in parts] == [
        PASTED[: PASTED.index("f 3")].strip(),
        "f 3",
        "1 +\n2",
        "(* another *)\nlet val a = 1\nin a\nend",
        "if true\nthen 1\nelse 2",
        "3   (* trailing *)",
        "val z = (",
    ]
    for part in parts:
        at = len(part.text) - len(part.text.lstrip())
        assert PASTED[at:].startswith(part.text.strip()), "places stay what they were"
    assert compiler.entries(SourceFile("<input>", " \n")) == ()


@pytest.mark.parametrize(
    ("text", "kind", "begun"),
    [
        ("", "nothing", False), ("(* a", "nothing", True), ("fun f x =", "declarations", True),
        ("fun f x = x", "declarations", False),
        ("fun f x = )", "declarations", False), ("let val a = 1", "expression", True), ("x[", "expression", True),
        ("f )", "expression", False), ("val", "declarations", True), ('"', "expression", False), ("sum i =>", "expression", True),
    ],
)  # fmt: skip
def test_entry(text: str, kind: str, begun: bool) -> None:
    found = compiler.entry(SourceFile("<input>", text))
    assert (found.kind, found.begun) == (kind, begun)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fum f x = x", "expected a declaration, found `fum`"),
        ("vla x = 3", "expected a declaration, found `vla`"),
        ("def f x = x", "`def` begins no declaration in Axon: write `fun`"),
        ("def f(x): return x", "`def` begins no declaration in Axon: write `fun`"),
        ("let y = 3", "`let` begins no declaration in Axon: write `val`"),
        ("fn x = 3", "a body follows `=>` here, not `=`"),
        ("let val y = 3", "this `let` has no `in`: expected `in` before the end of the text"),
        ("run 3 = 3", "there is no value `run` here"),
    ],
)
def test_a_mistyped_declaration_is_one_error(text: str, message: str) -> None:
    with pytest.raises(AxonError) as caught:
        Interactive().enter(SourceFile("<input 1>", text))
    assert [d.message for d in caught.value.diagnostics] == [message]


def test_what_looks_mistyped_may_be_declared() -> None:
    module = Interactive()
    module.define(SourceFile("<input 1>", "fun fum x y = x + y"))
    assert module.evaluate(SourceFile("<input 2>", "fum 1 2 = 3")).type == "bool"
