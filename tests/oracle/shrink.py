"""A smaller program with the same disagreement: nodes of its tree give way to their parts, or to a number, as long as it stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from axon.base.source import SourceFile
from axon.grammar import syntax as s
from axon.grammar.format import print_program
from axon.grammar.parse import parse
from tests.oracle.generate import Program

_EXPRESSIONS = (
    s.Var, s.Int, s.Float, s.Operator, s.Apply, s.ApplyDims, s.Unary, s.Binary, s.Tuple, s.Record, s.Field, s.Project, s.Access,
    s.Ascribe, s.Coerce, s.Cast, s.Let, s.Fn, s.If, s.For, s.Reduce, s.Loop, s.Array,
)  # fmt: skip
TRIALS = 1500


def smaller(node: Any) -> Iterator[Any]:
    """What may stand for one node, the shortest first."""
    if not isinstance(node, _EXPRESSIONS):
        return
    if not isinstance(node, (s.Var, s.Int, s.Float)):
        yield s.Int(1, span=node.span)
        yield s.Float(1.0, span=node.span)
        yield s.Var("true", span=node.span)
    if isinstance(node, s.Let):
        yield node.body
        for n in range(len(node.decls)):
            if len(node.decls) > 1:
                yield replace(node, decls=node.decls[:n] + node.decls[n + 1 :])
        yield from (d.value for d in node.decls if isinstance(d, s.Val))
    if isinstance(node, s.Tuple) and len(node.items) > 2:
        yield from (replace(node, items=node.items[:n] + node.items[n + 1 :]) for n in range(len(node.items)))
    if isinstance(node, s.Reduce) and node.where is not None:
        yield replace(node, where=None)
    if isinstance(node, s.Loop) and node.condition is not None:
        yield replace(node, condition=None)
    if isinstance(node, (s.For, s.Reduce, s.Loop)) and len(node.groups) > 1:
        yield from (replace(node, groups=node.groups[:n] + node.groups[n + 1 :]) for n in range(len(node.groups)))
    if not isinstance(node, (s.Var, s.Int, s.Float)):
        yield from (part for part in _parts(node) if isinstance(part, _EXPRESSIONS))


def _parts(node: Any) -> Iterator[Any]:
    for f in fields(node):
        if f.name not in ("span", "op_span"):
            yield from _flat(getattr(node, f.name))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, s.Node):
        yield value


def variants(node: Any) -> Iterator[Any]:
    """The tree with one node changed, changes near the root first."""
    yield from smaller(node)
    if isinstance(node, tuple):
        for n, part in enumerate(node):
            yield from ((*node[:n], new, *node[n + 1 :]) for new in variants(part))
    elif isinstance(node, s.Node):
        for f in fields(node):
            if f.name not in ("span", "op_span", "monoid"):  # a smaller function would not be associative
                yield from (replace(node, **{f.name: new}) for new in variants(getattr(node, f.name)))


def shrunk(program: Program, fails: Callable[[Program], bool], trials: int = TRIALS) -> Program:
    """The smallest program found within some trials for which `fails` is still true."""
    best = program
    progress = True
    while progress and trials > 0:
        progress = False
        tree, _ = parse(SourceFile("shrink", best.text))
        for candidate in variants(tree):
            text = print_program(candidate)
            if len("".join(text.split())) >= len("".join(best.text.split())):
                continue
            trials -= 1
            tried = replace(best, text=text)
            try:
                worse = fails(tried)
            except Exception:  # no program for the oracle, which leaves to the checker what is well typed
                worse = False
            if worse:
                best, progress = tried, True
                break
            if trials <= 0:
                break
    return best
