"""The graph of a model: its text, and its arrows and plates against what changes when a number does."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.base.source import SourceFile
from axon.chance.graph import Graph, Vertex, graph_of
from axon.grammar import syntax as S
from axon.tools.editor.graphical import graph
from tests import ROOT
from tests.chance.graphs import SIZES, Writer
from tests.checked import compiled
from tests.sample import SOAK
from tests.tools.editor.programs import analysed

PARTS = Path(__file__).with_name("models.axon").read_text().split("\n\n")
WANTED = ("import dist", "fun schools", "fun regression", "fun studies", "fun waits", "fun track")  # each takes its time
MODELS = "\n\n".join(part for part in PARTS if any(word in part for word in WANTED))
KEY = np.array([0, 42], np.uint32)
DRAWN = {f"drawn {seed}": Writer(Random(seed)).text(4) for seed in range(200 if SOAK else 4)}
NUMBERS = np.random.default_rng(3)
DATA: dict[str, tuple[str, tuple[Any, ...]]] = {
    "studies": (MODELS, (NUMBERS.uniform(5, 20, (2, 3)), NUMBERS.normal(size=(2, 3)), np.float64(1.5))),
    "waits": (MODELS, (NUMBERS.normal(size=(2, 3)),)),
    "batting": ((ROOT / "examples/chance/batting.axon").read_text(), (np.full(4, 45, np.int32), np.full(4, 12, np.int32))),
    **{
        name: (text, (np.float64(0.7), *(NUMBERS.normal(size=SIZES[n]) for n in "ntkn"))) for name, text in DRAWN.items()
    },
}  # fmt: skip


of_text = cache(analysed)


def drawn(text: str, name: str) -> Graph:
    found = graph(of_text(text), name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("studies", """\
studies: sigma y
a < g
  group.mu ~
  group.tau ~
  i < n
    group.theta ~ group.mu group.tau
    observe group.y ~ group.theta sigma y
first.mu ~
first.tau ~
i < n
  first.theta ~ first.mu first.tau
  observe first.y ~ first.theta sigma y
scale ~
observe z ~ group.theta first.theta scale"""),
        ("track", """\
track
s < t
  i < k
    z ~ z[s - 1]
    observe y ~ z"""),
        ("regression", """\
regression: x
alpha ~
k
  beta ~
sigma ~
i < n
  j < k
    shift ~ beta sigma
  observe y ~ alpha beta sigma shift x"""),
    ],
)  # fmt: skip
def test_text(name: str, wanted: str) -> None:
    assert str(drawn(MODELS, name)) == wanted


def test_arguments_stand_in_plates_where_each_index_has_one() -> None:
    found = {v.name: [p.label for p in v.plates] for v in drawn(MODELS, "schools").vertices}
    assert found == {"sigma": ["i < n"], "mu": [], "tau": [], "theta": ["i < n"], "y": ["i < n"]}


@pytest.mark.parametrize("name", DATA)
def test_an_arrow_is_what_a_change_moves(name: str) -> None:
    """A site's density depends on another's value, or on data, if and only if arrows lead there, through values at most; and the
    density of an observed element on no other element of what stands in its plate, if the arrows do."""
    text, data = DATA[name]
    model_name = name.partition(" ")[0]
    found, model = drawn(text, model_name), getattr(compiled(text), model_name)
    vertices = {v.name: v for v in found.vertices}
    params = dict(zip(model.densities.__signature__.parameters, data, strict=False))
    latents = model.prior(*data, KEY, target="interpret")

    def terms(function: str, params: dict[str, Any], latents: Any) -> dict[str, Any]:
        return getattr(model, function)(*params.values(), latents, target="interpret")  # type: ignore[no-any-return]

    before = terms("densities", params, latents)
    points = terms("pointwise", params, latents)
    for v in found.vertices:
        if v.kind == "value" or (v.kind == "observed" and "." in v.name):  # what another model observes is an argument here
            continue
        after = terms("densities", *changed(v, params, latents, ...))
        moved = {site for site, term in after.items() if term != before[site]} - {v.name.partition(".")[0]}
        reached = {w.name.partition(".")[0] for w in found.vertices if w.kind != "value" and reaches(v, w, vertices)}
        assert moved == reached - {v.name.partition(".")[0]}, (v.name, text)
        if v.kind == "latent" and v.plates and "y" in vertices and len(vertices["y"].plates) == 1:
            after = terms("pointwise", *changed(v, params, latents, 0))
            elsewhere = bool(np.any(after["y"][1:] != points["y"][1:]))
            assert not elsewhere or leaves(v, vertices["y"], vertices), (v.name, text)


def changed(v: Vertex, params: dict[str, Any], latents: Any, at: Any) -> tuple[dict[str, Any], Any]:
    """Data and latents of which one has another value: all of it, or what is at an index."""

    def moved(tree: Any, path: list[str]) -> Any:
        if path:
            return {**tree, path[0]: moved(tree[path[0]], path[1:])}
        if not isinstance(tree, np.ndarray):
            return tree + 1 if isinstance(tree, int) else tree * 0.93
        other = tree.copy()
        other[at] = other[at] + 1 if other.dtype.kind == "i" else other[at] * 0.93
        return other

    path = v.name.split(".")
    return (moved(params, path), latents) if path[0] in params else (params, moved(latents, path))


def reaches(v: Vertex, w: Vertex, vertices: dict[str, Vertex]) -> bool:
    """Whether arrows lead from one to another, through values alone."""
    return any(p == v.name or (vertices[p].kind == "value" and reaches(v, vertices[p], vertices)) for p in w.parents)


def leaves(v: Vertex, w: Vertex, vertices: dict[str, Vertex]) -> bool:
    """Whether arrows lead from one to another, but not all of them inside of the outer plate in which both are."""
    for name in w.parents:
        p = vertices[name]
        inside = bool(w.plates and p.plates and p.plates[0] is w.plates[0])
        if p is v and not inside:
            return True
        if p.kind == "value" and (leaves(v, p, vertices) if inside else reaches(v, p, vertices) and bool(v.plates)):
            return True
    return False


def test_what_has_no_graph() -> None:
    analysis = analysed("""import dist
fun f (y : f64[n]) = y
fun m (y : f64) =
  let val mu ~ dist.normal 0.0 true
      observe y ~ dist.normal mu 1.0
  in mu end
""")
    assert [graph(analysis, name) for name in ("f", "m", "none")] == [None, None, None]


def test_functions_are_read_once() -> None:
    """Functions that call each other twice, twenty deep."""
    chain = "\n      ".join(f"fun f{n + 1} i = f{n} i + f{n} i" for n in range(20))
    text = f"""import dist
fun m (y : f64[n]) =
  let val mu ~ for i < n => dist.normal 0.0 1.0
      fun f0 i = mu[i]
      {chain}
      observe y ~ for i => dist.normal (f20 i) 1.0
  in mu end
"""
    decl = compiler.parse(SourceFile("m.axon", text))[0].decls[1]
    assert isinstance(decl, S.Fun)
    assert str(graph_of(decl, Nothing(), {})) == "m\ni < n\n  mu ~\n  observe y ~ mu"


class Nothing:
    def model(self, e: object) -> None:
        return None
