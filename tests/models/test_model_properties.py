"""The ten architectures run on random weights made from their signatures, and have the properties that their papers give them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import axon
from axon.shapes.dimension import Dim
from axon.types.show import dimension_names
from axon.types.type import Function, RecordType, Tensor, Type
from tests import ROOT

MODELS = ROOT / "examples" / "models"
TOLERANCE = 2e-5  # of the largest element, in f32

SIZES = {
    "gpt2": {"v": 11, "t": 9, "n": 2, "d": 12},
    "llama3": {"v": 11, "n": 2, "d": 10, "h": 4, "g": 2, "c": 6, "f": 14},
    "mixtral": {"v": 11, "n": 2, "d": 10, "h": 4, "g": 2, "c": 6, "f": 14, "e": 4},
    "mamba": {"v": 11, "m": 2, "d": 6, "e": 12, "n": 4, "r": 2, "w": 4},
    "vit": {"c": 3, "h": 8, "w": 12, "r": 4, "n": 2, "d": 12, "m": 20, "k": 5},
    "whisper": {"m": 5, "n": 2, "d": 12},
    "resnet50": {"w": 2, "n1": 1, "n2": 2, "n3": 1, "n4": 1, "k": 5},
    "unet": {"c": 1, "w": 2, "k": 3},
    "seq2seq": {"v": 11, "u": 9, "n": 2, "d": 6},
    "gcn": {"c": 7, "h": 5, "f": 3},
}


@cache
def module(name: str) -> axon.Module:
    return axon.load(MODELS / f"{name}.axon")


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def noise(random: np.random.Generator, *shape: int) -> Any:
    return (0.3 * random.standard_normal(shape)).astype(np.float32)


def weights(random: np.random.Generator, name: str, function: str = "logits") -> Any:
    """Random values for the parameter of a function that is a record, with the sizes of the model."""
    checked = module(name)._session.checked
    scheme = checked.schemes[function]
    shown = dimension_names(checked.state, scheme)
    sizes = {symbol: Dim.of(SIZES[name][called]) for symbol, called in shown.items() if called in SIZES[name]}

    def filled(t: Type, field: str = "") -> Any:
        if isinstance(t, RecordType):
            return {n: filled(part, n) for n, part in t.fields}
        assert isinstance(t, Tensor)
        values = noise(random, *(d.substitute(sizes).constant for d in t.shape if isinstance(d, Dim)))
        return 0.5 + np.abs(values) if field == "variance" else values

    t = scheme.type
    while isinstance(t, Function) and not isinstance(t.param, RecordType):
        t = t.result
    assert isinstance(t, Function)
    return filled(t.param)


def run(name: str, function: str, sizes: tuple[int, ...], *arguments: Any) -> Any:
    found = getattr(module(name), function)
    return (found[sizes] if sizes else found)(*arguments, target="interpret")


def same(got: Any, wanted: Any) -> None:
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=TOLERANCE * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("name", "sizes", "first"), [("gpt2", (3,), ()), ("llama3", (4, 2), ()), ("mixtral", (4, 2), (2,)), ("mamba", (), ())]
)
def test_a_decoder_does_not_look_ahead(
    name: str, sizes: tuple[int, ...], first: tuple[int, ...], random: np.random.Generator
) -> None:
    p = weights(random, name)
    ids = random.integers(0, 11, (2, 8), dtype=np.int32)
    other = ids.copy()
    other[:, 5:] = (ids[:, 5:] + 1) % 11
    before, after = (run(name, "logits", sizes, *first, p, tokens) for tokens in (ids, other))
    assert before.shape == (2, 8, 11)
    same(after[:, :5], before[:, :5])
    assert (np.abs(after[:, 5:] - before[:, 5:]).max(axis=2) > 1e-3).all()


def test_rotary_positions_are_relative(random: np.random.Generator) -> None:
    """The product of a query and a key depends on the distance of their positions alone (Su et al. 2021)."""
    q, k = (np.tile(noise(random, 8), (10, 1)) for _ in range(2))
    turned = [run("llama3", "rope", (), 10000.0, x) for x in (q, k)]
    products = turned[0] @ turned[1].T
    for distance in range(-5, 6):
        along = np.diagonal(products, distance)
        same(along, np.full_like(along, along[0]))
    assert np.ptp(products) > 0.01


def test_a_mixture_of_equal_experts_is_one_of_them(random: np.random.Generator) -> None:
    p = weights(random, "mixtral", "mixture")
    p["experts"] = {n: np.repeat(w[:1], len(w), axis=0) for n, w in p["experts"].items()}
    x = noise(random, 3, 10)
    few, all_ = (run("mixtral", "mixture", (), k, p, x) for k in (2, 4))
    same(few, all_)


@pytest.mark.parametrize(
    ("name", "function", "sizes", "shape", "result"),
    [
        ("vit", "logits", (3,), (3, 8, 12), (5,)),
        ("whisper", "encode", (3,), (5, 9), (5, 12)),
        ("resnet50", "logits", (), (3, 20, 33), (5,)),
        ("unet", "logits", (), (1, 188, 188), (3, 4, 4)),
    ],
)
def test_each_of_a_batch_is_on_its_own(
    name: str, function: str, sizes: tuple[int, ...], shape: tuple[int, ...], result: tuple[int, ...], random: np.random.Generator
) -> None:
    p = weights(random, name, function)
    x = noise(random, 2, *shape)
    both = run(name, function, sizes, p, x)
    assert both.shape == (2, *result)
    same(np.concatenate([run(name, function, sizes, p, x[i : i + 1]) for i in range(2)]), both)
    assert np.abs(both[0] - both[1]).max() > 1e-3


def test_a_translation_is_what_its_own_logits_prefer(random: np.random.Generator) -> None:
    p = weights(random, "seq2seq")
    source = random.integers(0, 11, (4, 6), dtype=np.int32)
    words = run("seq2seq", "translate", (5,), p, 1, source)
    before = np.concatenate([np.ones((4, 1), np.int32), words[:, :-1]], axis=1)
    logits = run("seq2seq", "logits", (), p, source, before)
    np.testing.assert_array_equal(logits.argmax(axis=2), words)


def test_the_names_of_nodes_do_not_matter(random: np.random.Generator) -> None:
    p = weights(random, "gcn")
    source, target = random.integers(0, 8, (2, 12), dtype=np.int32)
    order = random.permutation(8).astype(np.int32)
    x = noise(random, 8, 7)
    wanted = run("gcn", "logits", (), p, run("gcn", "adjacency", (8,), source, target), x)
    moved = np.empty_like(x)
    moved[order] = x
    got = run("gcn", "logits", (), p, run("gcn", "adjacency", (8,), order[source], order[target]), moved)
    assert wanted.shape == (8, 3)
    same(got[order], wanted)
