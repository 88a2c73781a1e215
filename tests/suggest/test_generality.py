"""Of changes that help, the one that leaves more to who calls stands before the one that fixes it."""

from __future__ import annotations

import pytest

import axon
from axon.checker.check import check_module
from axon.checker.loader import FileLoader
from axon.suggest.tried import generality

FIRST = {  # a program with one mistake, and the two helps in their order
    "import nn\nfun f (q : f32[s, d]) (k : f32[t, d]) (v : f32[s, e]) = nn.attention q k v": ("v : f32[t, e]", "k : f32[s, d]"),
    "fun f (w : f32[d, h]) (u : f32[h, h]) x start = unfold (s = start) for t => tanh (x[t] @ w + s @ u)": ("x[t, ..]", "`*`"),
    "fun f (x : f32[n]) (w : f32[3]) = for i => x[i] * w[i]": ("w : f32[n]", "x : f32[3]"),
}


@pytest.mark.parametrize("text", FIRST)
def test_help_that_keeps_generality_comes_first(text: str) -> None:
    (found,) = axon.check(text)
    assert [s.checked for s in found.suggestions] == [True, True]
    for suggestion, shown in zip(found.suggestions, FIRST[text], strict=True):
        assert shown in suggestion.text


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("fun f (x : f32[3]) = x", "fun f (x : f32[n]) = x"),
        ("fun f (x : f32[n]) = x", "fun f (x : 'a[n]) = x"),
        ("fun f (x : 'a[n]) = x", "fun f (x : 'a[..s]) = x"),
        ("fun f (x : f32[n, n]) = x", "fun f (x : f32[n, m]) = x"),
        ("fun f (x : f32[n, m]) : f32[n, m] where n = m = x", "fun f (x : f32[n, m]) = x"),
        ("fun f (x : f32[4, 4]) = x", "fun f (x : f32[n, m]) : f32[n, m] where n = m = x"),
    ],
)
def test_what_fixes_less_is_more_general(less: str, more: str, tmp_path: object) -> None:
    found = []
    for name, text in (("less", less), ("more", more)):
        path = f"{tmp_path}/{name}.axon"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        checked = check_module(FileLoader(), path)
        assert checked.ok
        found.append(generality(checked.schemes.values(), checked.state))
    assert found[0] < found[1]
