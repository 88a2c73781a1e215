"""Checking declaration by declaration says what checking the whole file says, and an edit costs what it reaches."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from axon import compiler
from axon.base.data import replace
from axon.base.diagnostics import Diagnostic
from axon.checker.loader import MAX_BYTES
from axon.grammar.parse import parse
from axon.tools.editor import chunks
from axon.tools.editor.analysis import Analysis, shifted
from axon.tools.editor.chunks import read
from axon.tools.editor.workspace import Workspace, applied
from axon.types.show import signature
from tests.sample import named, some
from tests.tools.editor.programs import ACCEPTED, EXAMPLES, LIBRARY, REJECTED, SOAK, analysed, informed, text_of

# After a syntax error these go on elsewhere than the command line, which reads on through the declarations that follow.
RECOVER_ELSEWHERE = {"syntax_many", "syntax_unclosed_let"}
# The command line proposes a change in a function that is called, of which an editor's piece does not know the text.
PROPOSED_ELSEWHERE = {"rank_time_beside_a_state", "rank_time_of_an_inner_call", "rank_vector_for_a_number"}


def said(diagnostics: object) -> list[object]:
    """Everything that a person sees of diagnostics."""
    found = []
    for d in diagnostics:  # type: ignore[attr-defined]
        labels = [(x.text, x.span.text) for x in d.labels]
        found.append((d.code, d.severity, d.message, labels, d.notes, [(s.text, s.checked) for s in d.suggestions]))
    return found


def signatures(analysis: Analysis) -> dict[str, str]:
    return {n: signature(c.state, s) for c in analysis.current() for n, s in c.schemes.items()}


ONE_MISTAKE = [
    f
    for f in REJECTED
    if f.stem.startswith(("name_import_mis", "name_unknown_rep", "size_field_of", "size_part", "size_cropped", "size_linears"))
]
SAMPLE = [*EXAMPLES[:2], *LIBRARY[:1], *named(ACCEPTED, 16), *named(REJECTED, 20), *([] if SOAK else ONE_MISTAKE)]


@pytest.mark.parametrize("file", SAMPLE, ids=lambda f: f.stem)
def test_pieces_say_what_the_whole_says(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(file)
    whole = compiler.check_text(text, str(file))
    workspace = informed(text)
    analysis = analysed(text, str(file), workspace)
    for untried in workspace.untried(analysis):
        workspace.try_suggestions(analysis, untried)
    if file.stem in RECOVER_ELSEWHERE:
        assert analysis.diagnostics()
        return
    if file.stem in PROPOSED_ELSEWHERE:
        shown, wanted = ([replace(d, suggestions=()) for d in made] for made in (analysis.diagnostics(), whole.diagnostics))
        assert said(shown) == said(wanted)
        return
    assert said(analysis.diagnostics()) == said(whole.diagnostics)
    if not any(d.code.startswith("AX01") and d.severity == "error" for d in whole.diagnostics):
        assert signatures(analysis) == dict(whole.signatures)


_LONG = ", ".join(f"field_{n} = for i < {n} => 1.0" for n in range(1, 300))


@pytest.mark.parametrize(
    ("old", "new", "rest"),
    [
        ("fun f x = x + x\n", "fun f x = exp x\n", "fun g (x : i32) = f x\n"),  # what an element type may be is in no signature
        ("fun f x = exp x\n", "fun f x = x + x\n", "fun g (x : i32) = f x\n"),
        ("fun f x y = x < y\n", "fun f x y = x = y\n", "fun g (x : bool) = f x true\n"),
        (f"val p = {{ {_LONG}, last = 1.0 }}\n", f"val p = {{ {_LONG}, last = true }}\n", "fun g (x : f32) = x + p.last\n"),
    ],
    ids=("narrower", "wider", "equality", "long"),
)
def test_an_edit_reaches_what_can_tell_the_difference(old: str, new: str, rest: str) -> None:
    """Though both signatures are shown alike: the classes of their variables, or what is too long to be shown, differ."""
    workspace = Workspace()
    before = said(analysed(old + rest, workspace=workspace).diagnostics())
    after = said(analysed(new + rest, workspace=workspace).diagnostics())
    assert after == said(analysed(new + rest, workspace=Workspace()).diagnostics())
    assert after != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("half n = n / 2", "half n = n / 3"),
        ("inside i n = i < n", "inside i n = i <= n"),
        ("part n = half n", "part n = half n + 1"),
    ],
)
def test_what_a_function_of_sizes_does_is_looked_at_again(old: str, new: str) -> None:
    text = """fun half n = n / 2
fun part n = half n
fun inside i n = i < n
fun lower (x : f32[n]) : f32[n / 2] = x[: part n]
fun typed (x : f32[n]) (y : f32[part n]) = y + x[: n / 2]
fun guarded (x : f32[n]) = for i < n + 1 => if inside i n then x[i] else 0.0
"""
    workspace = informed(text)
    assert not analysed(text, "<buffer>", workspace).diagnostics()
    changed = text.replace(old, new)
    found, wanted = analysed(changed, "<buffer>", workspace).diagnostics(), compiler.check_text(changed).diagnostics
    assert [(d.code, d.message) for d in found] == [(d.code, d.message) for d in wanted] != []


def test_suggestions_are_tried() -> None:
    workspace = Workspace()
    text = "fun f (x : f32[b, d]) (w1 : f32[d, 4 * d]) (w2 : f32[3 * d, d]) = x @ w1 @ w2\n"
    analysis = analysed(text, workspace=workspace)
    (diagnostic,) = analysis.diagnostics()
    assert not any(s.edits for s in diagnostic.suggestions), "what nobody has tried is not offered"
    for untried in workspace.untried(analysis):
        workspace.try_suggestions(analysis, untried)
    (diagnostic,) = analysis.diagnostics()
    fixes = [s for s in diagnostic.suggestions if s.edits]
    assert fixes
    assert fixes[0].checked
    assert not analysed(applied(analysis, fixes[0].edits)).diagnostics()


def test_a_suggestion_may_change_another_declaration() -> None:
    workspace = Workspace()
    analysis = analysed("val g = 9.81\n\nfun fall (t : f64[n]) = 0.5 * g * t ** 2\n", workspace=workspace)
    for untried in workspace.untried(analysis):
        workspace.try_suggestions(analysis, untried)
    (diagnostic,) = analysis.diagnostics()
    assert applied(analysis, diagnostic.suggestions[0].edits).startswith("val g : f64 = 9.81\n")


# ── what an edit costs ──────────────────────────────────────────────────────────────────────────────────────────────────

CHAIN = """\
type t[d] = { w : f32[d] }
fun a x = x + 1.0
fun b x = a x * 2.0
fun c (p : t[d]) x = b x + p.w
fun d x = exp x
"""


def edited(workspace: Workspace, old: str, new: str, path: str = "<buffer>") -> tuple[Analysis, int]:
    """The module after one replacement, and how many declarations that made the checker look at."""
    analysis = workspace.analyses[path]
    before = analysis.checks
    assert analysis.text.count(old) == 1
    workspace.open(path, analysis.text.replace(old, new))
    again = workspace.analysis(path)
    assert again is analysis
    return analysis, analysis.checks - before


@pytest.mark.parametrize(
    ("old", "new", "checks"),
    [
        ("exp x", "log x", 1),
        ("x + 1.0", "x + 2.0", 1),  # the type stays, so nothing that uses it is looked at
        ("x + 1.0", "sum i => x[i]", 3),  # `a`, `b` and `c`, not `d`
        ("x + 1.0", "x +", 0),  # it does not parse: what it was stays
        ("x + 1.0", "x + true", 1),  # it does not check: what it was stays
        ("{ w : f32[d] }", "{ w : f64[d] }", 2),
        ("fun d x", "(* a remark *)\nfun d x", 1),
        ("fun a x", "\n\n\nfun a x", 0),
    ],
)
def test_an_edit_costs_what_it_reaches(old: str, new: str, checks: int) -> None:
    workspace = Workspace()
    assert analysed(CHAIN, workspace=workspace).checks == 5
    assert edited(workspace, old, new)[1] == checks


def test_a_typo_has_no_consequences() -> None:
    workspace = Workspace()
    analysed(CHAIN, workspace=workspace)
    analysis, _ = edited(workspace, "fun a x = x + 1.0", "fun a x = x + (1.0")
    (diagnostic,) = analysis.diagnostics()
    assert diagnostic.message == "this `(` is never closed: expected `)` before `fun`"
    analysis, _ = edited(workspace, "fun a x = x + (1.0", "fun a x = y")
    assert [d.code for d in analysis.diagnostics()] == ["AX0401"]
    analysis, checks = edited(workspace, "fun a x = y", "fun a x = x + 1.0")
    assert not analysis.diagnostics()
    assert checks <= 1


FAMILY = """type linear[d, k] = { w : f32[d, k], b : f32[k] }
type block[d] = { up : linear[d, d], gain : f32[d] }
fun dense (p : linear[d, k]) (x : f32[..s, n, d]) = x @ p.w + p.b
fun plain (p : block[d]) (x : f32[n, d]) = dense p.up x * p.gain
fun twice (p : block[d]) x = plain p (plain p x)
fun attention {h} (wq : f32[d, d]) x where d % h = 0 =
  let fun heads w = x @ w
      val q = heads wq
  in q + x end
fun user wq x = attention {2} wq x
sig power : f32 -> i32 -> f32
fun power x n = loop (acc = 1.0) for _ < n => acc * x
val cube = power 2.0 3
"""


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("b : f32[k]", "z : f32[k]", ["AX0207"]),  # the users of the function that is wrong now have the new type
        ("gain : f32[d]", "again : f32[d]", ["AX0207"]),
        ("type linear", "type liear", ["AX0407"]),  # in the type and in the function
        ("type block[", "type blck[", ["AX0407"]),
        ("x @ p.w", "y @ p.w", ["AX0401"]),
        ("let fun heads", "le fun heads", ["AX0101"]),
        ("let fun heads", "fun heads", ["AX0101"]),
        ("let fun heads", "tel val heads", ["AX0101"]),
        ("fun power x n", "power x n", ["AX0101"]),
    ],
)
def test_one_typo_among_types_and_lets_is_one_error(old: str, new: str, codes: list[str]) -> None:
    workspace = Workspace(compiler.guarded)
    workspace.open("<buffer>", FAMILY)
    assert said(workspace.analysis("<buffer>").diagnostics()) == []  # type: ignore[union-attr]
    analysis, _ = edited(workspace, old, new)
    assert [d.code for d in analysis.diagnostics()] == codes
    analysis, _ = edited(workspace, new, old)
    assert [d.code for d in analysis.diagnostics()] == []
    assert [d.code for d in analysed(FAMILY.replace(old, new)).diagnostics()] == codes


def test_a_function_may_have_the_name_of_a_type() -> None:
    """What a type last was is not what a value of its name last was."""
    workspace = Workspace()
    text = """\
type att[d] = { w : f32[d, d] }
type blk[d] = { a : att[d] }
fun att (p : att[d]) = p.w
fun blk (p : blk[d]) = p.a.w
"""
    analysed(text, workspace=workspace)
    assert len(edited(workspace, "f32[d, d]", "f32[d, e]")[0].diagnostics()) == 1
    assert not edited(workspace, "f32[d, e]", "f32[d, d]")[0].diagnostics()
    assert len(edited(workspace, "= p.w", "= p.v")[0].diagnostics()) == 1


@pytest.mark.parametrize(
    "before",
    [
        "(* c *)\n\n",
        "(* c *)\n\nfun g y = f y\n",
        "(* c *)\n\nfun f x = x\n\nfun g y = f y\n",
        "fun g y = f y\n\nfun h x = x\n",
        "",
    ],
)
def test_half_a_function_is_one_error(before: str) -> None:
    """Its name is known, whatever stood in its place; and the words are those of the command line."""
    workspace = Workspace()
    analysed(before, workspace=workspace)
    analysis = analysed("(* c *)\n\nfun f x =\n\nfun g y = f y\n", workspace=workspace)
    assert [d.message for d in analysis.diagnostics()] == ["expected an expression after `=`, found `fun`"]


def test_half_a_function_with_a_new_name_is_one_error() -> None:
    """What stood in its place has another name; both are known."""
    user = "fun other x = base x\nfun third x = bse x\n"
    workspace = Workspace()
    analysis = analysed(f"fun bse (x : f32[n]) = for i => x[i] * 2.0\n{user}", workspace=workspace)
    assert [d.message for d in analysis.diagnostics()] == ["there is no value `base` here"]
    analysis = analysed(f"fun base (x y : f32[n]) = for i => x[i] * 2.0\n{user}", workspace=workspace)
    assert [d.code for d in analysis.diagnostics()] == ["AX0101"]


def test_a_misspelt_import_is_one_error() -> None:
    analysis = analysed("import n\nimport linagl\nfun f x = nn.relu x\nfun g x = linalg.trace x\n")
    assert [d.code for d in analysis.diagnostics()] == ["AX0402", "AX0402"]


def test_a_keyword_that_goes_takes_no_declaration_with_it() -> None:
    """Without its `type`, a declaration is part of the one before it; its name stays known."""
    text = "import nn\n\ntype step[n] = { x : f32[n] }\n\nfun step x = x\n\n" + "".join(
        f"fun f{n} (p : step[n]) = p.x\n" for n in range(9)
    )
    workspace = informed(text)
    analysis = analysed(text, workspace=workspace)
    before = signatures(analysis)
    for typo in ("step", "ty step", " type step"):
        broken = text.replace("type step", typo)
        workspace.open("<buffer>", broken)
        workspace.analysis("<buffer>")
        assert len(analysis.diagnostics()) <= 1, broken
        assert signatures(analysis) == before
        workspace.open("<buffer>", text)
        workspace.analysis("<buffer>")
        assert not analysis.diagnostics()
    whole = text.replace("type step[n] = { x : f32[n] }", "")  # what is deleted altogether is gone
    workspace.open("<buffer>", whole)
    workspace.analysis("<buffer>")
    (gone,) = analysis.diagnostics()
    assert len(gone.labels) == 9, "one slip, with all its consequences"


def test_an_import_that_is_being_typed_keeps_its_module() -> None:
    workspace = informed()
    analysed("import nn\nfun f x = nn.relu x\n", workspace=workspace)
    analysis, _ = edited(workspace, "import nn\n", "import\n")
    assert [d.code for d in analysis.diagnostics()] == ["AX0101"]


def test_edits_of_an_import_reach_its_users(tmp_path: Path) -> None:
    base, user = str(tmp_path / "base.axon"), str(tmp_path / "user.axon")
    workspace = Workspace()
    Path(base).write_text("fun f x = x + 1.0\nfun g x = x\n")
    analysis = analysed("import base\nval a = base.f 1.0\nval b = base.g 2.0\n", user, workspace)
    assert not analysis.diagnostics()
    workspace.open(base, "fun f x = for i => x[i] + 1.0\nfun g x = x\n")
    before = analysis.checks
    assert workspace.analysis(user) is analysis
    assert analysis.checks - before == 1
    assert [d.code for d in analysis.diagnostics()] == ["AX0204"] or analysis.diagnostics()
    workspace.close(base)
    workspace.analysis(user)
    assert not analysis.diagnostics()


def test_what_is_wrong_with_an_import_is_said_before_what_uses_it_is_silent(tmp_path: Path) -> None:
    workspace = Workspace()
    base, user = str(tmp_path / "base.axon"), str(tmp_path / "user.axon")
    workspace.open(base, "fun f x = for i => x[i, 0]\n")
    workspace.open(user, "import base\nfun g (m : f32[n]) = base.f m\n")
    analysis = workspace.analysis(user)
    assert analysis is not None
    workspace.close(base)
    seen = [[d.code for d in analysis.diagnostics()] for _ in workspace.steps(user)]
    assert [] not in seen
    assert seen[-1] == ["AX0402"]


def test_an_import_that_has_not_changed_is_not_looked_at_again() -> None:
    workspace = informed()
    analysed("import nn\nfun f x = nn.relu x\n", workspace=workspace)
    (library,) = (a for path, a in workspace.analyses.items() if path.endswith("nn.axon"))
    runs = library.runs
    edited(workspace, "nn.relu x", "nn.softmax x")
    assert library.runs == runs


def test_half_a_declaration_is_checked_once_for_all_questions_and_again_when_others_change() -> None:
    from axon.tools.editor.complete import complete

    workspace = Workspace()
    text = "fun g (x : f32[n]) = x\nfun f y = let val a = g y in a"
    details = []
    for number in range(4):
        analysis = analysed(text.replace("f32[n]", "f32[n, n]") if number == 3 else text + "b"[:number], workspace=workspace)
        found = analysis.apart
        details.append({i.label: i.detail for i in complete(workspace, analysis, len(analysis.text))}["a"])
        assert (analysis.apart is found) == (number in (1, 2))
    assert details == ["f32[n]", "f32[n]", "f32[n]", "f32[n, n]"]


def test_the_errors_of_an_import_are_where_its_file_has_them(tmp_path: Path) -> None:
    (tmp_path / "bad.axon").write_text("fun a x = x\n\nfun b x = x\nfun c x =\n  x + missing\n")
    (found,) = analysed("import bad\n", str(tmp_path / "a.axon")).diagnostics()
    assert found.code == "AX0410"
    assert found.notes[0].endswith(f"(at {tmp_path / 'bad.axon'}:5:7)")


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.axon").write_text(f"import {other}\nval {name} = 1.0\n")
    analysis = analysed("import b\nval a = 1.0\n", str(tmp_path / "a.axon"))
    assert "AX0403" in [d.code for d in analysis.diagnostics()]


@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_edits_in_any_order_end_where_a_fresh_check_begins(seed: int) -> None:
    """Lines are dropped, doubled, swapped, and put back; at the end, nothing is left of the way there."""
    rng = random.Random(seed)
    file = [*EXAMPLES, *LIBRARY][seed % len([*EXAMPLES, *LIBRARY])]
    original = text_of(file)
    workspace = informed(original)
    analysed(original, str(file), workspace)
    for _ in range(12 if SOAK else 6):
        lines = original.splitlines(keepends=True)
        for _ in range(rng.randint(1, 3)):
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            match rng.randrange(4):
                case 0:
                    del lines[a]
                case 1:
                    lines.insert(a, lines[b % len(lines)])
                case 2:
                    lines[a], lines[b] = lines[b], lines[a]
                case _:
                    cut_at = rng.randrange(len(lines[a]))
                    lines[a] = lines[a][:cut_at] + rng.choice(["", "(", "let", "(*", "x", "]", "1"]) + lines[a][cut_at:]
        workspace.open(str(file), "".join(lines))
        assert workspace.analysis(str(file)) is not None
    workspace.open(str(file), original)
    analysis = workspace.analysis(str(file))
    assert analysis is not None
    fresh = analysed(original, str(file))
    assert said(analysis.diagnostics()) == said(fresh.diagnostics())
    assert analysis.versions == fresh.versions or signatures(analysis) == signatures(fresh)


def test_reading_stops_between_declarations_and_goes_on_where_it_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(chunks, "parse", lambda source: (parsed.append(source.text), parse(source))[1])
    text = "".join(f"val a{n} = {n}\n" for n in range(9))
    workspace = Workspace()
    workspace.open("<buffer>", text)
    for _ in zip(range(5), workspace.steps("<buffer>"), strict=False):
        pass
    analysis = workspace.analyses["<buffer>"]
    assert (len(parsed), analysis.text, analysis.diagnostics()) == (5, "", [])  # nothing is known of half a text
    workspace.open("<buffer>", text.replace("= 1", "= b"))
    assert workspace.analysis("<buffer>") is analysis
    assert len(parsed) == 10, "the one that was edited again, and those that had not been read"
    assert [d.code for d in analysis.diagnostics()] == ["AX0401"]
    before = analysis.diagnostics()
    workspace.open("<buffer>", "\n\n" + text)
    next(workspace.steps("<buffer>"))
    assert (analysis.text, analysis.diagnostics()) == (text.replace("= 1", "= b"), before)
    (place,) = (analysis.place(d.span) for d in before if d.span is not None)
    assert analysis.text[slice(*place or (0,))] == "b"


def test_a_text_that_is_too_large_is_not_analysed_until_it_is_smaller() -> None:
    workspace = Workspace()
    most = "(*" + "é" * (MAX_BYTES // 2 - 2) + "*)"
    for text, fits in [(CHAIN, True), (f"{most}(", False), (most, True), ("val a = 1\n" * MAX_BYTES, False), (CHAIN, True)]:
        workspace.open("<buffer>", text)
        analysis, why = workspace.analysis("<buffer>"), workspace.unreadable("<buffer>")
        assert (analysis is not None) == (why is None) == fits, text[-9:]
        assert why is None or (why.code == "AX0408" and f"{len(text.encode()):,} bytes" in why.notes[0])


def test_a_run_that_is_overtaken_stops() -> None:
    """A question finishes what a check in steps has begun; the steps that are left do nothing."""
    workspace = Workspace()
    workspace.open("<buffer>", CHAIN)
    steps = workspace.steps("<buffer>")
    next(steps)
    analysis = workspace.analysis("<buffer>")
    assert analysis is not None
    assert analysis.checks == 5
    assert list(steps) == []
    workspace.open("<buffer>", CHAIN.replace("exp", "log"))
    assert workspace.analysis("<buffer>") is analysis
    assert analysis.checks == 6
    assert not analysis.diagnostics()


# ── chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", [*EXAMPLES, *LIBRARY, *ACCEPTED[::2], *REJECTED[::3]], ids=lambda f: f.stem)
def test_chunks_are_the_file(file: Path) -> None:
    text = text_of(file)
    pieces = read(str(file), text, [])
    assert pieces.starts == sorted(set(pieces.starts))
    at = 0
    for chunk, start in zip(pieces.chunks, pieces.starts, strict=True):
        assert not text[at:start].strip(), "only space is left out"
        assert text.startswith(chunk.text, start)
        at = start + len(chunk.text)
    assert not text[at:].strip()


def test_a_let_at_the_margin_is_one_chunk() -> None:
    text = "fun f x = let\nval y = x\nfun g z = z\nin g y end\nfun h x = x\n"
    chunks = read("<buffer>", text, []).chunks
    assert [c.head for c in chunks] == ["f", "h"]
    assert not any(c.broken for c in chunks)


STRAY = ["fu", "fum k y = y", "def k y = y", "k y = y", "g 3.0", "typ t = f32[3]", "va", "let val a = 3 in a end", "(", '"abc', ")"]


@pytest.mark.parametrize("stray", STRAY)
def test_what_is_mistyped_between_declarations_concerns_none_of_them(stray: str) -> None:
    above, below = "import nn\n\nfun f (x : f32[n, d]) =\n  nn.relu x\n", "\nfun g y = f y\nval c = 3.0\nfun h z = g z + c\n"
    text = f"{above}{stray}\n{below}"
    analysis = analysed(text)
    assert [analysis.line(analysis._order(d)) for d in analysis.diagnostics()] == [5]
    assert said(analysis.diagnostics()) == said(compiler.check_text(text, "<buffer>").diagnostics)
    assert [c.head for c in analysis.chunks if not c.broken] == ["nn", "f", "g", "c", "h"]


@pytest.mark.parametrize("file", EXAMPLES[:: 1 if SOAK else 4], ids=lambda f: f.stem)
def test_a_keyword_with_a_slip_is_one_error(file: Path) -> None:
    """Also at the first opening, when nothing is known of what stood there before; and typing it leaves the others alone."""
    text = text_of(file)
    found = list(re.finditer(r"^(?:fun|val|type|import)\b", text, re.MULTILINE))
    for match in found[:: max(len(found) // 4, 1)]:
        slip = text[: match.start() + 1] + text[match.start() + 2 :]
        if match[0] != "import":  # which would also be missed where its module is used
            assert len(analysed(slip, str(file)).diagnostics()) == 1, slip[match.start() :][:60]
        workspace = informed(text)
        before = analysed(text, str(file), workspace).checks
        after = analysed(slip, str(file), workspace)
        assert len(after.diagnostics()) == 1
        assert after.checks - before <= 1


def test_a_comment_without_an_end_takes_one_declaration() -> None:
    text = "fun f x = x\n(* begun\nfun g x = x\nfun h x = x\n(* ended *)\nfun i x = x\n"
    chunks = read("<buffer>", text, []).chunks
    assert [d.code for c in chunks for d in c.problems] == ["AX0103"]
    assert chunks[-1].head == "i"
    assert [c.head for c in chunks if not c.broken] == ["f", "g", "h", "i"]


@pytest.mark.parametrize(
    ("offset", "before", "after", "found"),
    [
        (0, "abc", "abXc", 0),
        (2, "abc", "abXc", 2),
        (3, "abc", "abXc", 4),
        (1, "abc", "ac", 1),
        (2, "abc", "ac", 1),
        (2, "abcd", "ad", None),
    ],
)
def test_shifted(offset: int, before: str, after: str, found: int | None) -> None:
    assert shifted(offset, before, after) == found


def test_diagnostics_are_in_the_order_of_the_file() -> None:
    analysis = analysed("fun f x = y\nfun g x = (x\nfun h x = z\nfun f x = x\n")
    places = [analysis.place(d.span) for d in analysis.diagnostics() if isinstance(d, Diagnostic) and d.span]
    assert places == sorted(places)  # type: ignore[type-var]
    assert len(places) == 4


# ── quick fixes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

FIXED = [
    ("fun f x = x == 1\n", "x = 1"),
    ("fun f x = x != 1\n", "x <> 1"),
    ("fun f x y = x > 0 && y > 0\n", "x > 0 andalso y > 0"),
    ("fun f x = !x\n", "not x"),
    ("fun f x = x × 2.0\n", "x * 2.0"),
    ("fun f x = x;\n", "= x\n"),
    ("val x = .5\n", "0.5"),
    ("val x = 1. + 2.0\n", "1.0 + 2.0"),
    ("val x = [1, 2]\n", "[| 1, 2 |]"),
    ("val x = [[1.0, 2.0], [3.0, 4.0]]\n", "[| [| 1.0, 2.0 |], [| 3.0, 4.0 |] |]"),
    ("def f x = x\n", "fun f x"),
    ("fum f x = x\n", "fun f x"),
    ("val f = \\x y -> x + y\n", "= fn x y => x + y"),
    ("fun f (x : f32[n, m]) = 1.0 + max i j = x[i, j]\n", "max i j => x"),
    ("fun f (x : f32[n]) =\n  let val s = sqrt cast f32 n\n  in x * s end\n", "sqrt (cast f32 n)\n  in"),
    ("fun f (x : f32[n]) = for i => exp cast f32 x[i] + 1.0\n", "exp (cast f32 x[i]) + 1.0"),
    ("fun f x = (exp if x > 1.0 then x else x) * 2.0\n", "(exp (if x > 1.0 then x else x)) * 2.0"),
    ("fun f (x : f32[n]) = 2.0 * sqrt sum i => x[i]\n", "sqrt (sum i => x[i])\n"),
    ("fun f (x : i32[n]) = cast f32 sum i => x[i]\n", "cast f32 (sum i => x[i])\n"),
    ("fun f (x : f32[n]) = exp for i => x[i]\n", "exp (for i => x[i])\n"),
    ("fun f x = sum i = x[i]\n", "sum i => x"),
    ("fun f x -> x\n", "fun f x = x"),
    ("from nn import softmax, relu\nfun f x = nn.relu x\n", "import nn\nfun f"),
    ("fun f x = { a: x, b: x, c = x }\n", "{ a= x, b= x, c = x }"),
    ("x = 3\n", "val x = 3"),
    ("fun c = 3\n", "val c = 3"),
    ("val f = fn x -> x + 1.0\n", "fn x => x"),
    ("fun f x = let y = x in y end\n", "let val y = x"),
    ("fun f (x : f32[n]) = sum i, j => x[i] + x[j]\n", "sum i j =>"),
    ("fun f (x : f32[n]) = for i j < n => x[i] + x[j]\n", "for i, j < n"),
    ("fun f (x : f32[n]) = smu i => x[i]\n", "sum i"),
    ("import nn as net\nfun f x = nn.relu x\n", "import nn\n"),
    ("fun f x = nn.relu x\n", "import nn\n\nfun f"),
    ("(* A module. *)\n\nfun f x = nn.relu x\n", "(* A module. *)\n\nimport nn\n\nfun f"),
    ("import linalg\nfun g x = linalg.trace x\nfun f x = relu x\n", "import nn\nimport linalg\n"),
    ("fun f x = np.exp x\n", "= exp x"),
    ("type t = { weight : f32 }\nfun f (p : t) = p.weigth\n", "p.weight"),
    ("fun f x = if 0.0 < x < 1.0 then x else 0.0\n", "0.0 < x andalso x < 1.0"),
    ("fun f (x : float) = x\n", "x : f32"),
    ("fun f x = expp x + expp x\nfun g x = expp x\n", "= exp x + exp x\nfun g x = exp x"),
    ("type liear[d] = f32[d]\nfun f (x : linear[d]) = x\nfun g (x : linear[d]) = x\n", "liear[d]) = x\nfun g (x : liear[d]"),
    ("fun f x =\n  let val y = x\n  in y\n\nfun g x = x\n", "in y end\n\nfun g"),
    ("val x = (1.0 + 2.0\nval y = 1.0\n", "2.0)\nval y"),
    ("fun f (x : f32[n) = x\n", "f32[n])"),
    ("val x = [| 1, 2\nval y = 1.0\n", "2 |]\nval y"),
    ("fun f (x : f32[n, m]) = sum j => x[0][j]\n", "x[0, ..]"),
]


@pytest.mark.parametrize(("text", "wanted"), FIXED)
def test_a_fix_mends(text: str, wanted: str) -> None:
    """Every mistake that can be mended mechanically has a fix, and the first of them leaves nothing to say."""
    workspace = informed()
    analysis = analysed(text, workspace=workspace)
    for untried in workspace.untried(analysis):
        workspace.try_suggestions(analysis, untried)
    fixes = [s for d in analysis.diagnostics() for s in d.suggestions if s.edits]
    assert fixes, analysis.diagnostics()
    mended = applied(analysis, fixes[0].edits)
    assert wanted in mended
    errors = [d.message for d in analysed(mended).diagnostics() if d.severity == "error"]
    assert not errors, mended


@pytest.mark.parametrize(
    ("text", "helps"),
    [
        ("fun f part = aprt\n", True),
        ("fun f x = np.exp x\n", True),
        ("import nn\nfun f x = relu x\n", True),
        ("import nn\nfun f x = relu.w x\n", False),  # a function has no fields
        ("fun f (part : f32) = aprt + true\n", False),  # it leads to another error
        ("val x = (1.0 + y\n", False),
    ],
)
def test_a_quick_fix_lowers_the_number_of_errors(text: str, helps: bool) -> None:
    workspace = informed()
    analysis = analysed(text, workspace=workspace)
    before = len(analysis.diagnostics())
    found = [(d, s) for d in analysis.diagnostics() for s in d.suggestions if s.edits]
    answers = [workspace.helps(analysis, d, s) for d, s in found]
    assert set(answers) == {helps}
    for (_, suggestion), answer in zip(found, answers, strict=True):
        assert answer == (len(analysed(applied(analysis, suggestion.edits)).diagnostics()) < before)


def test_whether_a_quick_fix_helps_is_asked_again_when_an_import_changes(tmp_path: Path) -> None:
    path, imported = str(tmp_path / "model.axon"), str(tmp_path / "lib.axon")
    workspace = informed()
    answers = []
    for text in ("fun relu x = max x 0.0\n", "fun relu (x : f32) (y : f32) = x + y\n", "fun relu x = max x 0.0\n"):
        workspace.open(imported, text)
        analysis = analysed("import lib\nfun f (x : f32[n]) = lib.relo x\n", path, workspace)
        ((diagnostic, suggestion),) = [(d, s) for d in analysis.diagnostics() for s in d.suggestions if s.edits]
        answers.append(workspace.helps(analysis, diagnostic, suggestion))
    assert answers == [True, False, True]


@pytest.mark.parametrize("file", some(REJECTED, 8), ids=lambda f: f.stem)
def test_what_a_fix_is_for_is_gone_after_it(file: Path) -> None:
    workspace = informed()
    analysis = analysed(text_of(file), str(file), workspace)
    for untried in workspace.untried(analysis):
        workspace.try_suggestions(analysis, untried)
    before = [_place_and_words(d) for d in analysis.diagnostics()]
    for diagnostic in analysis.diagnostics():
        for suggestion in diagnostic.suggestions:
            assert suggestion.edits or not suggestion.checked, "what the checker has accepted can be applied"
            if suggestion.edits:
                mended = analysed(applied(analysis, suggestion.edits), str(file), informed())
                after = [_place_and_words(d) for d in mended.diagnostics()]
                said = _place_and_words(diagnostic)
                assert after.count(said) < before.count(said), suggestion


def _place_and_words(d: Diagnostic) -> tuple[str, str, str]:
    return d.code, d.message, d.labels[0].span.text
