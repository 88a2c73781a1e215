"""What the editor's questions are answered: pointing, hints, completion, signatures, outlines, tokens."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from axon.tools.editor.analysis import Analysis
from axon.tools.editor.complete import complete
from axon.tools.editor.hints import hints
from axon.tools.editor.hover import hover
from axon.tools.editor.outline import enclosing, outline
from axon.tools.editor.places import declarations, definition
from axon.tools.editor.signatures import signature_help
from axon.tools.editor.tokens import words
from axon.tools.editor.workspace import Workspace
from tests import ROOT
from tests.tools.editor.programs import EXAMPLES, analysed, cursor, informed, text_of

RECORDS = "type r = { w : f32[3, 2], in_ : { alpha : f32 } }\ntype s = { other : f32 }\n"
SPLIT = "fun split {h} x = for i < h, j c => x[j, (i, c)]\n"
MATMUL = "fun matmul a b = for i j => sum k => a[i, k] * b[k, j]\n"


def shown(marked: str) -> str:
    text, at = cursor(marked)
    found = hover(analysed(text), at)
    return "" if found is None else found.markdown


def with_hints(text: str, analysis: Analysis | None = None) -> str:
    """The text with its hints in ⟨⟩."""
    analysis = analysis or analysed(text)
    found = [(analysis.place(h.at), h) for c in declarations(analysis) for h in hints(c.facts)]
    placed = [(p[0 if h.before else 1], n, h.label) for n, (p, h) in enumerate(found) if p is not None]
    for place, _, label in sorted(placed, reverse=True):
        text = f"{text[:place]}⟨{label}⟩{text[place:]}"
    return text


def labels(marked: str, workspace: Workspace | None = None, path: str = "<buffer>") -> list[str]:
    text, at = cursor(marked)
    workspace = workspace or informed()
    return [item.label for item in complete(workspace, analysed(text, path, workspace), at)]


# ── hover ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("marked", "parts"),
    [
        (MATMUL.replace("matmul", "▮matmul"), ["fun matmul : 'a[i, k] -> 'a[k, j] -> 'a[i, j]", "named after"]),
        (MATMUL.replace("=> a[i", "=> ▮a[i"), ["a : 'a[i, k]", "parameter", "`k` named after the index `k`"]),
        (MATMUL.replace("sum k", "sum ▮k"), ["k : i32", "index over dimension 2 of `a` and dimension 1 of `b`", "named `k`"]),
        (MATMUL.replace("* b", "▮* b"), ["a[i, k] * b[k, j] : 'a"]),
        ("fun f (x : f32[▮n, m]) = x\n", ["n", "dimension: dimension 1 of `x`"]),
        ("fun half n = n / 2\nfun f (x : f32[n]) (y : f32[▮half n]) = y\n", ["fun half"]),
        ("fun half n = n / 2\nfun f (x : f32[n]) (y : f32[half ▮n]) = y\n", ["n", "dimension: dimension 1 of `x`"]),
        ("fun half n = n / 2\nfun f (x : f32[n]) = x[▮: half 4]\n", ["x[: half 4] : f32[2]"]),
        ("sig f : f32[k] -> f32[k]\nfun f (x : f32[▮n]) = x\n", ["dimension: dimension 1 of `x`", "`k` of the `sig`"]),
        ("fun f (x : f32[n]) = { ▮w = exp x, b = 1.0 }\n", ["w : f32[n]", "field"]),
        ("type lin[d] = { ▮w : f32[d, 2 * d], b : f32[d] }\n", ["w : f32[d, 2 * d]", "field"]),
        ("fun f (x : f32[2 * ▮n]) where n >= 1 = x\n", ["n", "where `n >= 1`"]),
        (SPLIT + "val y = ▮split {2} [| [| 1, 2 |] |]\n", ["fun split", "here i32[1, 2] -> i32[2, 1, 1]"]),
        ("import nn\nfun f (x : f32[n]) = nn.▮relu x\n", ["fun relu", "here f32[n] -> f32[n]", "x where it is", "```axon\n>>>"]),
        ("import ▮nn\nfun f x = nn.relu x\n", ["import nn", "nn.axon"]),
        ("type t[d] = { w : f32[d] }\nfun f (p : ▮t[d]) = p.w\n", ["type t[d] = { w : f32[d] }"]),
        ("type t[d] = { w : f32[d] }\nfun f (p : t[d]) = p.▮w\n", ["w : f32[d]", "field"]),
        ("fun f (x : '▮a[n]) = exp x\n", ["'a", "any float"]),
        ("fun f x = cast ▮f16 x\n", ["f16", "float of 16 bits"]),
        ("fun f x = ▮exp x\n", ["exp : 'a[..s] -> 'a[..s]", "of floats"]),
        ("fun f (x : f32[n]) = let val (▮y : f32[n]) = x in y end\n", ["y : f32[n]", "value"]),
        ("fun f (m : bool[n]) = let val ix = nonzero ▮m in ix end\n", ["m : bool[n]"]),
        ("(* Twice as much. *)\nfun ▮f x = x + x\n", ["fun f", "Twice as much."]),
    ],
)  # fmt: skip
def test_hover(marked: str, parts: list[str]) -> None:
    found = shown(marked)
    for part in parts:
        assert part in found, found


@pytest.mark.parametrize("marked", ["(* a ▮remark *)\nfun f x = x\n", "fun f x = x\n▮\n", "fun f x = ▮(* … *) x\n"])
def test_nothing_to_say(marked: str) -> None:
    assert shown(marked) == ""


def test_hover_over_what_a_function_is_given_that_takes_more() -> None:
    """`decay (2.0 * s)` is completed to a function of what is left, of which nothing is written."""
    text = "fun decay rate t y = -rate * y * cos t\nfun apply f (x : f32[n]) = f 0.1 x\n"
    text += "fun g s (x : f32[n]) = apply (decay (2.0 * s)) x\n"
    assert "2.0 * s : f32" in shown(text.replace("* s)", "▮* s)"))
    assert "here f32[n] -> f32[n] -> f32[n] -> f32[n]" in shown(text.replace("(decay", "(▮decay"))


def test_hover_outlives_a_typo() -> None:
    workspace = informed()
    analysed("fun f (x : f32[n]) = x + 1.0\nfun g x = f x\n", workspace=workspace)
    text = "fun f (x : f32[n]) = (x + 1.0\nfun g x = f x\n"
    analysis = analysed(text, workspace=workspace)
    assert analysis.chunks[0].broken
    found = hover(analysis, text.index("x : "))
    assert found is not None
    assert "x : f32[n]" in found.markdown
    assert with_hints(text, analysis) == "fun f (x : f32[n])⟨ : f32[n]⟩ = (x + 1.0\nfun g ⟨(⟩x⟨ : f32[n])⟩⟨ : f32[n]⟩ = f x\n"


# ── hints ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "expected",
    [
        "fun matmul ⟨(⟩a⟨ : 'a[i, k])⟩ ⟨(⟩b⟨ : 'a[k, j])⟩⟨ : 'a[i, j]⟩ = for i j => sum k => a[i, k] * b[k, j]\n",
        "fun f (x : f32[n, m])⟨ : f32[n, m]⟩ = for i⟨ < n⟩ j⟨ < m⟩ => x[i, j]\n",
        "fun f (x : f32[n])⟨ : f32⟩ = let val y⟨ : f32[n]⟩ = x fun g ⟨(⟩z⟨ : 'A)⟩⟨ : 'A⟩ = z in sum i⟨ < n⟩ => g y[i] end\n",
        "fun f ⟨(⟩x⟨ : 'a[n])⟩ ⟨(⟩k⟨ : 'a[r])⟩⟨ : 'a[n - r + 1]⟩ = for p⟨ < n - r + 1⟩ => sum r => x[p + r] * k[r]\n",
        "val a⟨ : f32[2]⟩ = [| 1.0, 2.0 |]\n",
        "val (b : f32[2]) = [| 1.0, 2.0 |]\n",
        "fun f (x⟨ : 'a[..s]?⟩)⟨ : 'a[..s] -> 'a[..s]⟩ = fn ⟨(⟩y⟨ : 'a[..s])⟩ => x + y + 1.0\n",
        "fun f (x : f32[n]) ⟨(⟩steps⟨ : i32)⟩⟨ : f32[n]⟩ = loop (s⟨ : f32[n]⟩ = x) for _ < steps => s + x\n",
        "sig f : f32 -> f32\nfun f x = x\n",
        "fun f (x : f32[..s, n])⟨ : f32[..s]⟩ = for ..i⟨ < ..s⟩ => sum k⟨ < n⟩ => x[..i, k]\n",
    ],
)
def test_hints(expected: str) -> None:
    assert with_hints(re.sub("⟨.*?⟩", "", expected)) == expected


def test_hints_say_nothing_of_what_is_wrong() -> None:
    assert "?" not in with_hints("fun f x = y + x\nfun g z = f z\n")


# ── definitions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "marked",
    [
        "fun ◆f x = x\nfun g x = ▮f x\n",
        "fun f ◆x = let val y = ▮x in y end\n",
        "fun f (x : f32[◆n]) = sum for i < ▮n => x[i]\n",
        "fun f x = for ◆i => x[▮i]\n",
        "fun f x = for ..◆i => x[..▮i]\n",
        "type ◆t[d] = { w : f32[d] }\nfun f (p : ▮t[d]) = p.w\n",
        "fun ◆half n = n / 2\nfun f (x : f32[n]) (y : f32[▮half n]) = y\n",
        "fun half n = n / 2\nfun f (x : f32[◆n]) (y : f32[half ▮n]) = y\n",
        "fun ◆half n = n / 2\nfun f (x : f32[n]) = x[: n - ▮half 4]\n",
        "type t[d] = { ◆w : f32[d] }\nfun f (p : t[d]) = p.▮w\n",
        "fun f x = let fun ◆g y = y in ▮g x end\n",
        "fun f x = y\nval z = ▮f 1.0\n".replace("fun f", "fun ◆f"),
    ],
)
def test_definition(marked: str) -> None:
    from axon.tools.editor.fields import field_places

    target = marked.replace("▮", "").index("◆")
    text, at = cursor(marked.replace("◆", ""))
    analysis = analysed(text)
    found = definition(analysis, at)
    assert found is not None
    span = found.span or field_places(analysis, at, found.name)[0][1]
    place = analysis.place(span)
    assert place is not None
    assert place[0] == target


def test_definition_in_the_library() -> None:
    text = "import nn\nfun f x = nn.softmax x\n"
    found = definition(analysed(text), text.index("softmax"))
    assert found is not None
    assert found.analysis is not None
    assert Path(found.analysis.path) == ROOT / "stdlib" / "nn.axon"
    assert found.span is not None
    assert found.span.text == "softmax"


# ── completion ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("marked", "has", "lacks"),
    [
        ("fun f apple = ▮", ["apple", "exp", "let", "sum"], ["f32"]),
        ("fun f apple = ap▮", ["apple"], []),
        ("fun first x = x\nfun f x = ▮\nfun last x = x\n", ["first", "x"], ["last"]),
        ("fun f (x : f32[rows, n]) = let val y = x in ▮", ["y", "x", "rows", "n"], []),
        ("fun f (x : f32[rows, n]) (y : f32[▮", ["rows", "n", "min"], ["x", "exp"]),
        ("fun f (x : f32[..batch, n]) (y : f32[..▮", ["batch"], ["n"]),
        (
            "fun half n = n / 2\nfun wave x = sin x\nfun iota {n} = for i < n => i\nfun f (x : f32[n]) (y : f32[▮",
            ["n", "half", "min"],
            ["wave", "iota"],
        ),
        ("fun f (x : 'e[n]) = cast ▮", ["f16", "'e"], ["x"]),
        ("fun f (x : 'e[n]) (y : '▮", ["e"], ["x"]),
        ("fun f (x : ▮", ["f32", "bool"], ["exp", "x"]),
        ("type pair[d] = { a : f32[d] }\nfun f (x : ▮", ["pair", "f32"], []),
        ("import nn\nfun f x = nn.▮", ["relu", "softmax", "attention"], ["linear", "exp"]),
        ("import nn\nfun f (x : nn.▮", ["linear"], ["relu"]),
        ("import ▮", ["nn", "linalg"], []),
        ("type pair[d] = { one : f32[d], two : f32 }\nfun f (p : pair[d]) = p.▮", ["one", "two"], ["p"]),
        ("type pair[d] = { one : f32[d], two : f32 }\nfun f (p : pair[d]) = let val q = p in q.▮ in 1 end", ["one", "two"], []),
        (f"{RECORDS}fun f (x : f32[3]) (p : r) = x @ p.▮", ["w", "in_"], ["other"]),
        (f"{RECORDS}fun f (p : r) = p.w + exp p.▮", ["w", "in_"], ["other", "alpha"]),
        (f"{RECORDS}fun f (p : r) = 1.0 + p.in_.▮", ["alpha"], ["w", "other"]),
        (f"{RECORDS}fun f (p : r) = p.in_.alpha.▮", [], ["alpha", "w", "other"]),  # a scalar has no fields
        (f"{RECORDS}fun f x = (x + 1.0).▮", [], ["alpha", "w", "other"]),
        (f"{RECORDS}fun f x = x.▮", ["alpha", "w", "other"], []),
        (f"{RECORDS}fun f x = x * 3.▮", [], ["alpha", "w", "other"]),  # the point of a number
        (f"{RECORDS}val k = {{ mine = 1.0 }}\nfun f x = x * k.▮", ["mine"], ["w", "other"]),
        (f"{RECORDS}fun f x = 1.0 + x.▮", ["w", "other"], []),  # nothing says which
        (f"{RECORDS}fun f (p : r) x = p.w\nfun g x = f {{ w = x, ▮", ["in_"], ["w", "other", "alpha", "x"]),
        (f"{RECORDS}fun f (p : r) x = p.w\nfun g x = f {{ w = x, in_ = {{ ▮", ["alpha"], ["w", "in_", "other"]),
        (f"{RECORDS}fun f x (p : r) = p.w\nfun g x = f x {{ ▮", ["w", "in_"], ["alpha", "other"]),
        (f"{RECORDS}fun f x (p : r) = p.w\nfun g x = f {{ ▮", [], ["w", "alpha", "other"]),  # its first is no record
        ("import nn\nfun g x = nn.dense { w = x, ▮", ["b"], ["w", "x"]),
        (f"{RECORDS}val k = {{ w = 1.0, ▮", ["in_", "other"], ["exp"]),  # nothing says which
        (f"{RECORDS}fun f {{ w = a, ▮", ["in_", "other"], ["exp"]),
        ("fun f x = for ..i jj => x[..i, ▮", ["jj", "x"], []),
        ("fun f x = for ..ii jj => x[..▮", ["ii"], ["jj"]),
        ("fun f x = let val aa = x val bb = aa in aa + ▮ end\nfun g x = x\n", ["aa", "bb"], ["g"]),
        ("▮", ["fun", "val", "type", "sig", "import"], []),
        ("fun f x = x (* x.▮ *)\n", [], ["x", "exp"]),
        ("fun ▮", [], ["exp", "let"]),
    ],
)
def test_completion(marked: str, has: list[str], lacks: list[str]) -> None:
    found = labels(marked)
    assert set(has) <= set(found), found
    assert not set(lacks) & set(found), found


def test_completion_says_types() -> None:
    text, at = cursor("fun f (x : f32[n, m]) = let val y = sum i => x[i, 0] in ▮")
    workspace = informed()
    items = {i.label: i.detail for i in complete(workspace, analysed(text, workspace=workspace), at)}
    assert items["x"] == "f32[n, m]"
    assert items["y"] == "f32"


# ── signatures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("marked", "label", "active"),
    [
        ("fun f (x : f32[n]) y = x + y\nval z = f ▮", "f (x : f32[n]) (y : f32[n]?) : f32[n]", "(x : f32[n])"),
        ("fun f (x : f32[n]) y = x + y\nval z = f a ▮", "f (x : f32[n]) (y : f32[n]?) : f32[n]", "(y : f32[n]?)"),
        ("fun f (x : f32[n]) y = x + y\nval z = f (exp ▮", "exp : 'a[..s] -> 'a[..s]", None),
        ("fun h {s} (x : f32[s]) = x\nval z = h {▮", "h {s} (x : f32[s]) : f32[s]", "s"),
        ("import nn\nfun f p x = nn.dense p ▮", "nn.dense (p : nn.linear[d, k]) (x : f32[..s, i, d])", None),
        ("fun f x = let fun g a b = a + b in g 1.0 ▮", "g (_ : ", None),
    ],
)
def test_signature_help(marked: str, label: str, active: str | None) -> None:
    text, at = cursor(marked)
    found = signature_help(analysed(text), at)
    assert found is not None
    assert label.split(" (p")[0] in found.label
    if active is not None:
        assert found.label == label
        assert found.active is not None
        start, end = found.parameters[found.active]
        assert found.label[start:end] == active


@pytest.mark.parametrize(
    ("call", "active"),
    [
        ("split {▮", "h"), ("split {8▮", "h"), ("split {8▮} x", "h"), ("split {8, ▮", "k"), ("split {8, 16▮} x", "k"),
        ("split {8, 4} ▮", "(x : f32[n])"), ("split {8, 4} x x ▮", None),
        ("split ▮", "h"), ("split x ▮", "h"),  # sizes come first
        ("pow 2.0▮", "'a[..s]"), ("pow x ▮", "'a[..s]"), ("exp ▮", "'a[..s]"), ("exp x ▮", None),
    ],
)  # fmt: skip
def test_which_parameter_is_being_written(call: str, active: str | None) -> None:
    text, at = cursor(f"fun split {{h, k}} (x : f32[n]) = x\nfun g x = {call}")
    found = signature_help(analysed(text), at)
    assert found is not None
    assert (None if found.active is None else found.label[slice(*found.parameters[found.active])]) == active


@pytest.mark.parametrize("marked", ["fun f x = x\n\n▮", "fun f (x : 'a[n]) = x ▮", "val x = 1.0\nfun f y = x ▮"])
def test_no_signature_where_nothing_is_applied(marked: str) -> None:
    text, at = cursor(marked)
    assert signature_help(analysed(text), at) is None


# ── outlines and tokens ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_outline() -> None:
    text = "import nn\ntype t = { a : f32 }\nval (x, y) = (1.0, 2)\nfun f z = let val w = z fun g v = v in g w end\n"
    found = [(e.name, e.kind.value, [c.name for c in e.children]) for e in outline(analysed(text))]
    assert found == [
        ("nn", "module", []), ("t", "type", []), ("x", "value", []), ("y", "value", []), ("f", "function", ["w", "g"]),
    ]  # fmt: skip


def test_enclosing_grows() -> None:
    text, at = cursor("fun f x = x + sum i => x[▮i]\n")
    pieces = [text[a:b] for a, b in enclosing(analysed(text), at)]
    assert pieces[0] == "i"
    assert "x[i]" in pieces
    assert pieces[-1] == text
    assert all(len(a) <= len(b) for a, b in pairwise(pieces))


@pytest.mark.parametrize("file", EXAMPLES[:6], ids=lambda f: f.stem)
def test_every_word_has_its_place(file: Path) -> None:
    text = text_of(file)
    found = words(analysed(text, str(file)))
    assert [w.start for w in found] == sorted(w.start for w in found)
    for a, b in pairwise(found):
        assert a.end <= b.start
    assert all("\n" not in text[w.start : w.end] and text[w.start : w.end].strip() for w in found)


def test_words_know_what_names_are() -> None:
    text = "fun f (x : f32[n]) = for i => x[i] * cast f32 n\n"
    kinds = {(text[w.start : w.end], w.type, w.modifiers) for w in words(analysed(text))}
    assert {("f", "function", ("declaration",)), ("x", "parameter", ()), ("n", "dimension", ()), ("i", "index", ())} <= kinds
    assert ("f32", "type", ("defaultLibrary",)) in kinds
    assert ("cast", "keyword", ()) in kinds


def test_a_declaration_is_not_offered_to_itself() -> None:
    found = labels("fun f x = x\nfun fit y = f▮")
    assert "f" in found
    assert "fit" not in found


def test_words_are_kept_by_declaration_and_stay_true() -> None:
    """What is known of other declarations' words is used again after an edit, and is what a new look at the file finds."""
    workspace = Workspace()
    text = "import nn\n\ntype pair[n] = { a : f32[n], b : f32[n] }\n(* of a pair *)\nfun first (p : pair[n]) = p.a\n" + "".join(
        f"fun f{i} (x : f32[n]) = first {{ a = x, b = nn.relu x }}\n" for i in range(20)
    )
    edits = [("p.a", "p.b"), ("fun first", "val first"), ("val first", "fun first"), ("import nn", "import linalg"),
             ("fun f3 (x", "fun f3 ((x"), ("fun f3 ((x", "fun f3 (x"), ("type pair", "type pir"), ("fun f7", "fun nn")]  # fmt: skip
    analysis = analysed(text, workspace=workspace)
    for old, new in edits:
        assert words(analysis)
        known = {chunk: found.words for chunk, found in analysis.words.items()}
        text = text.replace(old, new)
        analysis = analysed(text, workspace=workspace)
        kept = words(analysis)
        same = sum(found.words is known.get(chunk) for chunk, found in analysis.words.items())
        assert same >= (20 if "f3" in old or "p." in old else 0), (old, new, same)
        analysis.words = {}
        assert kept == words(analysis), (old, new)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_numbers_of_words_are_those_of_the_file(encoding: str) -> None:
    """What is counted by declaration comes to what is counted in the whole text."""
    from types import SimpleNamespace

    from axon.tools.lsp.features import _numbers
    from axon.tools.lsp.positions import Positions

    text = "(* 😀 *) fun a x = (* é *) x\n\n(* one\n   → two *)\nfun b x = a x fun c x = b x\r\n\r\nval d = c 1.0"
    analysis = analysed(text)
    positions = Positions(text, encoding)
    server = SimpleNamespace(converter=SimpleNamespace(positions=lambda analysis: positions))
    data = _numbers(server, analysis)  # type: ignore[arg-type]
    line = column = 0
    found = []
    for step, ahead, width, _, _ in zip(*[iter(data)] * 5, strict=True):
        line, column = line + step, ahead + (0 if step else column)
        found.append((line, column, width))
    wanted = [(positions.position(w.start), positions.width(w.start, w.end)) for w in words(analysis)]
    assert found == [(at.line, at.character, width) for at, width in wanted]
