"""What a name stands for, by syntax alone, is what the checker takes it for; and renaming keeps every meaning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from axon.base.names import Symbol
from axon.base.source import Span
from axon.tools.editor.analysis import Analysis, Checked
from axon.tools.editor.fields import field_places
from axon.tools.editor.names import Binding, Kind
from axon.tools.editor.places import declarations, definition, references
from axon.tools.editor.rename import Refused, rename, renamed_at
from axon.types import typed as T
from axon.types.show import signature
from tests.sample import named
from tests.tools.editor.programs import ACCEPTED, EXAMPLES, LIBRARY, SOAK, analysed, cursor, informed, text_of


def at_mark(marked: str) -> tuple[Analysis, int]:
    text, at = cursor(marked)
    return analysed(text), at


@pytest.mark.parametrize(
    ("marked", "name"),
    [
        ("fun f (x : ▮'a[n]) : 'a[n] = x\n", "a"), ("fun f (x : '▮a[n]) : 'a[n] = x\n", "a"),
        ("fun g x = for ▮..b i => x[..b, i]\n", "b"),
        ("fun g x = for .▮.b i => x[..b, i]\n", "b"), ("fun g (x : f32[▮..s]) = x\n", "s"),
    ],
)  # fmt: skip
def test_a_name_begins_with_its_mark(marked: str, name: str) -> None:
    found, occurrence = renamed_at(*at_mark(marked))
    assert found.name == occurrence.span.text == name


@pytest.mark.parametrize(
    ("marked", "line"),
    [
        ("type t = { w : f32 }\nfun f (p : t) = p.▮w\n", 1),
        ("fun g (p : { w : f32, b : f32 }) = p.b\nfun f (p : { w : f32, b : f32 }) = p.▮w\n", 2),
        ("fun f (p : { up : { w : f32[3] } }) =\n  let val q = p in q.up.▮w end\n", 1),
        ("val k = { alpha = 1.0, beta = 2.0 }\nfun f x = k.▮alpha * x\n", 1),
        ("fun f x =\n  let val r = { a = x, b = x }\n  in r.▮a end\n", 2),
        ("fun make x = { a = x }\nfun f x =\n (make x).▮a\n", 1),
        ("fun g (p : { w : f32 }) = p.w\nval y =\n g { ▮w = 1.0 }\n", 1),
    ],
)
def test_where_a_field_is_defined(marked: str, line: int) -> None:
    analysis, at = at_mark(marked)
    found = definition(analysis, at)
    assert found is not None
    places = field_places(analysis, at, found.name)
    assert [module.line(module.place(span)[0]) for module, span in places] == [line]  # type: ignore[index]
    assert all(span.text == found.name for _, span in places)


PROGRAMS = [*EXAMPLES, *LIBRARY, *ACCEPTED] if SOAK else [*EXAMPLES[:2], *LIBRARY[:1], *named(ACCEPTED, 10)]


def bound_symbols(checked: Checked) -> dict[Symbol, Span]:
    return {n.symbol: n.span for n in checked.facts.nodes.values() if isinstance(n, T.PatternName)}


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda f: f.stem)
def test_names_agree_with_the_checker(file: Path) -> None:
    analysis = analysed(text_of(file), str(file))
    for checked in declarations(analysis):
        places = {(o.span.file, o.span.start, o.span.end): o for o in checked.facts.names.occurrences}
        where = bound_symbols(checked)
        ranges = {symbol: binding for binding, (symbol, _) in checked.facts.ranges.items()}
        for key, node in checked.facts.nodes.items():
            occurrence = places.get(key)
            if occurrence is not None and occurrence.defines:
                continue
            if isinstance(node, T.Variable) and node.symbol in where:
                assert occurrence is not None
                assert isinstance(occurrence.target, Binding)
                assert occurrence.target.span == where[node.symbol], node.span.text
            if isinstance(node, T.Dimension) and occurrence is not None and node.dim.symbol in ranges:
                assert occurrence.target is ranges[node.dim.symbol]
            if isinstance(node, T.Dimension) and occurrence is not None and node.dim.symbol in checked.state.rigid:
                assert isinstance(occurrence.target, Binding)
                assert occurrence.target.kind is Kind.DIMENSION
                assert occurrence.target.name == node.dim.symbol.name  # type: ignore[union-attr]


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda f: f.stem)
def test_every_name_is_found(file: Path) -> None:
    """Each NAME, run and type variable of a program without errors is an occurrence, and stands for something."""
    from axon.tools.editor.places import parts, resolve

    analysis = analysed(text_of(file), str(file))
    for chunk in analysis.chunks:
        named = {}
        for part in parts(analysis, chunk):
            named |= {o.span.start: (part, o) for o in part.names.occurrences if o.span.file is chunk.source}
        for token in chunk.lexed.tokens:
            if token.kind not in ("NAME", "RUN", "TYVAR") or token.text == "_":
                continue
            at = token.end - len(token.text.lstrip(".'"))
            assert at in named, f"{chunk.source.span(token.start, token.end)}: {token.text}"
            part, occurrence = named[at]
            assert resolve(analysis, part, occurrence.target) is not None, token.text


def renamed(text: str, new: str, path: str = "<buffer>") -> str:
    """A text in which the name at ▮ is renamed."""
    text, at = cursor(text)
    workspace = informed()
    analysis = analysed(text, path, workspace)
    for change in sorted(rename(workspace, analysis, at, new), key=lambda c: -c.start):
        text = text[: change.start] + change.text + text[change.end :]
    return text


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        ("fun f (▮x : f32[n]) = for i => x[i] * 2.0\n", "y", "fun f (y : f32[n]) = for i => y[i] * 2.0\n"),
        ("fun f (x : f32[n]) = (sum i => x[i]) / cast f32 ▮n\n", "m", "fun f (x : f32[m]) = (sum i => x[i]) / cast f32 m\n"),
        ("fun f (x : f32[..▮s, n]) : f32[..s, n] = x\n", "t", "fun f (x : f32[..t, n]) : f32[..t, n] = x\n"),
        ("fun f (x : '▮a[n]) = for i => x[i] * cast 'a n\n", "b", "fun f (x : 'b[n]) = for i => x[i] * cast 'b n\n"),
        (
            "fun f x = for ..i ▮j => sum k => x[..i, k] + x[..i, j]\n",
            "m",
            "fun f x = for ..i m => sum k => x[..i, k] + x[..i, m]\n",
        ),
        ("fun f x = for ..▮i j => x[..i, j]\n", "b", "fun f x = for ..b j => x[..b, j]\n"),
        (
            "sig f : f32[n] -> f32[▮n]\nfun f x = for i < n => x[i]\n",
            "m",
            "sig f : f32[m] -> f32[m]\nfun f x = for i < m => x[i]\n",
        ),
        (
            "sig f : f32[n] -> f32[▮n]\nfun f (x : f32[n]) = for i < n => x[i]\n",
            "m",
            "sig f : f32[m] -> f32[m]\nfun f (x : f32[n]) = for i < n => x[i]\n",
        ),
        (
            "sig f : {k} -> f32[n] -> f32[k]\nfun f {k} (x : f32[n]) : f32[▮k] = for i < k => x[i] * cast f32 n\n",
            "h",
            "sig f : {k} -> f32[n] -> f32[k]\nfun f {h} (x : f32[n]) : f32[h] = for i < h => x[i] * cast f32 n\n",
        ),
        ("sig ▮f : f32 -> f32\nfun f x = x\nval y = f 1.0\n", "g", "sig g : f32 -> f32\nfun g x = x\nval y = g 1.0\n"),
        ("type ▮t[d] = { w : f32[d] }\nfun f (p : t[n]) = p.w\n", "u", "type u[d] = { w : f32[d] }\nfun f (p : u[n]) = p.w\n"),
        (
            "(* >>> f 1.0\n   1.0 *)\nfun f x = x\nfun g x = ▮f (f x)\n",
            "h",
            "(* >>> h 1.0\n   1.0 *)\nfun h x = x\nfun g x = h (h x)\n",
        ),
        ("fun f {▮h} x = for i < h, j c => x[j, (i, c)]\n", "k", "fun f {k} x = for i < k, j c => x[j, (i, c)]\n"),
        (  # a field of the records with just these fields
            "type t = { ▮w : f32, b : f32 }\nfun f (p : t) = p.w * p.b\nfun g (q : { w : f32 }) = q.w\n"
            "val w = f { w = 1.0, b = 2.0 }\nfun h { w = a, b = c } = a + c\n",
            "weight",
            "type t = { weight : f32, b : f32 }\nfun f (p : t) = p.weight * p.b\nfun g (q : { w : f32 }) = q.w\n"
            "val w = f { weight = 1.0, b = 2.0 }\nfun h { weight = a, b = c } = a + c\n",
        ),
        (
            "fun f (p : { in_ : { w : f32 } }) = p.in_.▮w + p.in_.w\n",
            "v",
            "fun f (p : { in_ : { v : f32 } }) = p.in_.v + p.in_.v\n",
        ),
        (  # of a value of the module, which might have been a module itself
            "val k = { ▮alpha = 1.0, beta = 2.0 }\nfun f x = k.alpha * x\n",
            "gamma",
            "val k = { gamma = 1.0, beta = 2.0 }\nfun f x = k.gamma * x\n",
        ),
        (
            "val k = { alpha = 1.0, beta = 2.0 }\nfun f x = k.▮alpha * x\n",
            "gamma",
            "val k = { gamma = 1.0, beta = 2.0 }\nfun f x = k.gamma * x\n",
        ),
        ("fun f x = let val ▮y = x fun g z = z + y in g y end\n", "w", "fun f x = let val w = x fun g z = z + w in g w end\n"),
    ],
)
def test_rename(before: str, new: str, after: str) -> None:
    assert renamed(before, new) == after


@pytest.mark.parametrize(
    ("before", "new", "why"),
    [
        ("fun f ▮x = let val y = 1.0 in x + y end\n", "y", "mean something else"),
        ("fun f x = let val ▮y = 1.0 in x + y end\n", "x", "mean something else"),
        ("val g = 1.0\nfun f ▮x = x + g\n", "g", "mean something else"),
        ("val g = 1.0\nfun ▮f x = x + g\n", "g", "already"),
        ("fun f ▮x = exp x\n", "exp", "function of the language"),
        ("fun f x = ▮exp x\n", "e", "belongs to the language"),
        ("fun f ▮x = x\n", "fun", "word of the language"),
        ("fun f ▮x = x\n", "2x", "not a name"),
        ("fun f (x : f32[▮n]) = x\n", "..s", "not a name"),
        ("fun f (x : f32[▮n]) = x\n", "'a", "not a name"),
        ("fun f (x : 'a[..▮s]) = x\n", "'b", "not a name"),
        ("import nn\nfun f x = nn.▮relu x\n", "r", "standard library"),
        ("import ▮nn\nfun f x = nn.relu x\n", "r", "name of a file"),
        ("fun f (p : { w : f32, b : f32 }) = p.▮w\n", "b", "a field `b` already"),
        ("type t = { ▮w : f32 }\nfun f (p : t) = p.w + q\nfun g r = r.w\n", "r", "in a declaration with errors"),
        ("import nn\ntype t[d, k] = { ▮w : f32[d, k], b : f32[k] }\nfun f (p : t[d, k]) x = nn.dense p x\n", "r", "keeps its name"),
        ("fun f (x : f32[n]) (▮y : f32[m]) = for i < n => x[i]\n", "n", "mean something else"),
        ("fun f x ▮= x\n", "r", "no name"),
        ("fun f x ▮y = 1.0\n", "x", "bound twice"),  # as where it is used
        ("fun f x (y, ▮z) = x\n", "y", "bound twice"),
        ("val g = for i < 2, ▮j < 3 => 1.0\n", "i", "bound twice"),
        ("type t[a, ▮b] = f32[3]\n", "a", "given twice"),
        ("fun f x = loop (s = 0, ▮t = x) for i < 3 => (1, x)\n", "s", "bound twice"),
        ("fun f {n, ▮m} = 1.0\n", "n", "given twice"),
        ("fun f {n} {▮m} = 1.0\n", "n", "given twice"),
    ],
)
def test_rename_is_refused(before: str, new: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        renamed(before, new)


@pytest.mark.parametrize("file", [*EXAMPLES, *ACCEPTED] if SOAK else [*EXAMPLES[:2], *named(ACCEPTED, 20)], ids=lambda f: f.stem)
def test_renaming_any_binding_keeps_the_types(file: Path) -> None:
    """Whatever is bound inside a declaration can be renamed; the types stay, up to the name and the order of terms."""
    text = text_of(file)
    workspace = informed()
    analysis = analysed(text, str(file), workspace)
    before, codes = skeletons(analysis), [d.code for d in analysis.diagnostics()]
    bindings = [(analysis.place(b.span), b) for c in declarations(analysis) for b in c.facts.names.bindings]
    for place, binding in bindings if SOAK else bindings[:: max(1, len(bindings) // 5)]:
        if place is None or binding.name == "..":
            continue
        new = text
        for change in sorted(rename(workspace, analysis, place[0], "renamed_9"), key=lambda c: -c.start):
            assert text[change.start : change.end] == binding.name
            new = new[: change.start] + change.text + new[change.end :]
        workspace.open(str(file), new)
        workspace.analysis(str(file))
        assert [d.code for d in analysis.diagnostics()] == codes, binding
        assert skeletons(analysis) == before, binding
        workspace.open(str(file), text)
        workspace.analysis(str(file))


def skeletons(analysis: Analysis) -> dict[str, list[str]]:
    """Signatures without names and order."""
    found = {n: signature(c.state, s) for c in analysis.current() for n, s in c.schemes.items()}
    return {n: sorted(re.sub(r"\w+", "_", text)) for n, text in found.items()}


def test_references_cross_modules(tmp_path: Path) -> None:
    (tmp_path / "base.axon").write_text("fun twice x = x + x\nval one = twice 0.5\n")
    (tmp_path / "user.axon").write_text("import base\nfun four x = base.twice (base.twice x)\n")
    (tmp_path / "other.axon").write_text("fun twice x = x\nfun f x = twice x\n")
    workspace = informed()
    text = (tmp_path / "base.axon").read_text()
    analysis = analysed(text, str(tmp_path / "base.axon"), workspace)
    found = definition(analysis, text.index("twice"))
    assert found is not None
    places = [(Path(a.path).name, a.place(o.span)) for a, o in references(workspace, found)]
    assert places == [("base.axon", (4, 9)), ("base.axon", (30, 35)), ("user.axon", (30, 35)), ("user.axon", (42, 47))]
    changed = {Path(c.analysis.path).name for c in rename(workspace, analysis, text.index("twice"), "double")}
    assert changed == {"base.axon", "user.axon"}
