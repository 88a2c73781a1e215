"""Changed trees as edits: what is left of a text, where parentheses come from, and that comments stay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from axon.base.diagnostics import Edit
from axon.base.source import SourceFile, Span
from axon.grammar import syntax as s
from axon.grammar.parse import parse
from axon.grammar.rewrite import NEW, Change, NotWritten, Tree, call, made, var

PROGRAMS = sorted((Path(__file__).parents[1] / "corpus" / "accepted").glob("*.axon"))


def at(tree: Tree, text: str) -> s.Node:
    start = tree.file.text.index(text, 6)  # after the keyword and the name
    return tree.at(Span(tree.file, start, start + len(text)), s.Node)


def after(tree: Tree, edits: tuple[Edit, ...]) -> str:
    text = tree.file.text
    for edit in sorted(edits, key=lambda e: -e.span.start):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


@pytest.mark.parametrize(
    ("program", "old", "new", "expected"),
    [
        ("val y = a * b", "b", "c + d", "val y = a * (c + d)"),
        ("val y = a + b", "b", "c * d", "val y = a + c * d"),
        ("val y = a * (b)", "b", "c  + d", "val y = a * (c  + d)"),  # as it was written, in the parentheses that are there
        ("val y = f a", "a", "g b", "val y = f (g b)"),
        ("val y = a + b", "b", "for i => x[i]", "val y = a + for i => x[i]"),
        ("val y = a + b", "a", "for i => x[i]", "val y = (for i => x[i]) + b"),
        ("val y = (a + b) * c", "a + b", "d", "val y = (d) * c"),
        ("val y = - a", "a", "b + c", "val y = - (b + c)"),
        ("val y = x[i, j]", "j", "i + 1", "val y = x[i, i + 1]"),
        ("val y = a @ b @ c", "a @ b", "d @ e", "val y = d @ e @ c"),
        ("val y = a @ b @ c", "c", "d @ e", "val y = a @ b @ (d @ e)"),
        ("val y = (a @ b).w", "a @ b", "f x", "val y = (f x).w"),
    ],
)
def test_parentheses(program: str, old: str, new: str, expected: str) -> None:
    tree = Tree(SourceFile("<test>", f"{program}\n"))
    other = Tree(SourceFile("<other>", f"val z = {new}\n"))
    assert after(tree, tree.edits((at(tree, old), at(other, new)))) == f"{expected}\n"


def test_layout_and_comments_stay() -> None:
    tree = Tree(SourceFile("<test>", "fun f x y = (* of x *) g (x[i,  (* twice *)\n  j]) (* of y *)\n  y\n"))
    access = at(tree, "x[i,  (* twice *)\n  j]")
    assert isinstance(access, s.Access)
    one, other = access.subscripts
    assert "(x[j,  (* twice *)\n  i]) (* of y *)" in after(tree, tree.edits((one, other), (other, one)))
    padded = made(access, default=s.Float(0.0, span=NEW))
    assert after(tree, tree.grown(access, padded)) == tree.file.text.replace("j]", "j | 0.0]")
    wrapped = call(var("linalg.transpose"), access)
    assert after(tree, tree.edits((access, wrapped))) == tree.file.text.replace("x[i", "linalg.transpose x[i")


def test_bounds_between_comments() -> None:
    tree = Tree(SourceFile("<test>", "fun f x = sum (* of all *) i j => (* no *) x[i,j]\n"))
    whole = at(tree, "sum (* of all *) i j => (* no *) x[i,j]")
    assert isinstance(whole, s.Reduce)
    (group,) = whole.groups
    bounded = s.BinderGroup(group.binders[1:], var("n"), span=NEW)
    new = made(whole, groups=(made(group, binders=group.binders[:1]), bounded))
    assert after(tree, tree.grown(whole, new)) == "fun f x = sum (* of all *) for i, j < n => (* no *) x[i,j]\n"


def test_what_is_shown() -> None:
    tree = Tree(SourceFile("<test>", "val y = f (a +\n  b) [| 1.50 |]\n"))
    whole = at(tree, "f (a +\n  b) [| 1.50 |]")
    change = (at(tree, "[| 1.50 |]"), var("c"))
    assert tree.shown(whole, (change,)) == "f (a + b) c"
    assert tree.shown(whole, (change,), 4) == "f (a +…) c"


def test_what_is_not_written() -> None:
    tree = Tree(SourceFile("<test>", "val y = x + \n"))
    with pytest.raises(NotWritten):
        tree.at(tree.file.span(8, 9), s.Var)


def nodes(node: s.Node) -> Iterator[s.Node]:
    stack: list[object] = [node]
    while stack:
        found = stack.pop()
        if isinstance(found, s.Node):
            yield found
            stack += [getattr(found, f.name) for f in fields(found) if f.name not in ("span", "op_span")]
        elif isinstance(found, tuple):
            stack += found


EXPRESSIONS = (s.Var, s.Binary, s.Apply, s.Access, s.For, s.Reduce, s.Field, s.If, s.Unary, s.Tuple, s.Fn, s.Float, s.Int)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_any_change_reads_back(path: Path) -> None:
    """One expression in the place of another, as it was written and anew: read again, it is the tree that was meant."""
    tree = Tree(SourceFile(str(path), path.read_text()))
    rng = random.Random(path.name)
    for _ in range(4):
        decl = rng.choice(tree.decls)
        found = [n for n in nodes(decl) if isinstance(n, EXPRESSIONS)]
        placed = [n for n in found if not isinstance(tree_outer(tree, n), s.Reduce | s.Field | s.IndexAt | s.Tuple | s.ApplyDims)]
        if not placed:
            continue
        old, new = rng.choice(placed), rng.choice(found)
        if rng.random() < 0.5 and not isinstance(new, s.Int | s.Float):
            new = made(new)
        if old in list(nodes(new)) or new in list(nodes(old)):
            continue
        changes: tuple[Change, ...] = ((old, new),)
        for edits in (tree.edits(*changes), tree.grown(old, new)):
            text = after(tree, edits)
            program, problems = parse(SourceFile("<after>", text))
            assert not [d for d in problems if d.severity == "error"], text
            assert program.decls[tree.decls.index(decl)] == tree.applied(decl, changes), text


def tree_outer(tree: Tree, node: s.Node) -> s.Node | None:
    tree.at(node.span, s.Node)
    return tree.outer(node)
