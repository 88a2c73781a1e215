"""Suggestions: what a person most likely meant comes first, and only what the checker has accepted is shown."""

from __future__ import annotations

import pytest

import axon
from axon.base.diagnostics import Diagnostic

# A program with one mistake, and the beginning of the first help.
FIRST = {
    "fun f (q : f32[s, d]) (k : f32[t, d]) = q @ k": "transpose `k`: `q @ linalg.transpose k`",
    "fun f (x : f32[b, d]) (w : f32[d, k]) = w @ x": "swap the operands: `x @ w`",
    "fun f (w : f32[d, k]) (x : f32[b, d]) (g : f32[b, k]) = w - (g @ x)": "swap the operands and transpose one: `linalg",
    "fun f (x : f32[n, m]) = x / (for i => sum j => x[i, j])": "name the indices: `for k l => x[k, l]",
    "fun f (ids : f32[b]) (probs : f32[b, c]) = ids * probs": "name the indices: `for i j => ids[i] * probs[i, j]`",
    "fun f (x : f32[n, c, h, w]) (mean : f32[c]) = x - mean": "name the indices: `for i j k l => x[i, j, k, l] - mean[j]`",
    "fun f (a : f32[n, k]) (b : f32[k, m]) = for i j => sum p => a[i, p] * b[j, p]": "swap the indices: `b[p, j]`",
    "fun f (a : f32[n]) (b : f32[m]) : f32[m, n] = for i j => a[i] * b[j]": "reorder the indices: `for j i => …`",
    "fun f (x : f32[b, k]) (bias : f32[d]) = x + bias": "make it `bias : f32[k]`",
    "fun f (a : f32[n, m]) = sum i => a[i, i]": "state it, if it is meant: `where n = m`",
    "fun f (x : f32[n]) = for i < n => x[i + 1] - x[i]": "state the bound: `i < n - 1`",
    "fun f x = for i => x[i + 1] - x[i]": "annotate `(x : 'a[n])` and state the bound: `i < n - 1`",
    "fun f (x : f32[n]) = for i < n => x[n - i]": "indices count from 0: `x[n - i - 1]`",
    "fun f (a : f32[n]) = for i < n + 1 => if i <= n then a[i] else 0.0": "make the guard `i < n`",
    "fun f (x : f32[n + m]) = for i < n => x[i]": "make it a dimension parameter: `{n}`",
    "fun f (n : i32) = for i < n => i * i": "make it a dimension parameter: `fun f {n} …`",
    "fun f (x : f32[n]) = (sum i => x[i]) / n": "there is no silent conversion: write `cast f32 n`",
    "fun f (a : f32[n]) (b : f64[n]) = a + b": "there is no silent conversion: write `cast f64 a`",
    "fun g (x : f32[n]) y = x * y\nfun f (a : f32[n]) = g(a, a)": "arguments are separated by spaces: `g a a`",
    "fun g (x : f32[n, d]) (i : i32[n]) = x\nfun f (x : f32[n, d]) (i : i32[n]) = g i x": "swap the arguments: `g x i`",
    "fun f (x : f32[n, d]) (y : f32[m, d]) = for i < n + m, j => if i < n then x[i, j] else y[i, j]": "count from n: `y[i - n, j]`",
    "fun f (a : f32[n, n]) (x : f32[n, c]) (w : f32[c, h]) = a @ w @ x": "exchange `w` and `x`",
    "fun pool {k} (x : f32[n]) = for i < n / k + 1 => max for j < k => x[i * k + j]": "state the bound: `i < n / k`",
    "fun f (x : f32[b, t]) = sum i j => x[i, j + 1] - x[i, j]": "state the bound: `j < t - 1`",
    "import nn\nfun f (p : { a : nn.linear[d, h], b : nn.linear[h, d] }) x = nn.dense p.a (nn.dense p.a x)": "another field: `p.b`",
}  # fmt: skip


def errors(text: str) -> list[Diagnostic]:
    return [d for d in axon.check(text) if d.severity == "error"]


@pytest.mark.parametrize("text", FIRST)
def test_the_likeliest_change_comes_first(text: str) -> None:
    (found,) = errors(text)
    assert found.suggestions, str(axon.AxonError((found,)))
    assert found.suggestions[0].text.startswith(FIRST[text])


@pytest.mark.parametrize("text", FIRST)
def test_what_is_said_to_be_checked_passes(text: str) -> None:
    for suggestion in errors(text)[0].suggestions:
        if suggestion.checked:
            changed = text
            for edit in sorted(suggestion.edits, key=lambda e: -e.span.start):
                changed = changed[: edit.span.start] + edit.text + changed[edit.span.end :]
            assert not errors(changed), changed


def test_a_change_that_only_moves_the_question_to_the_call_is_not_shown() -> None:
    """`linalg.transpose x` would be accepted with the contract `t % 3 = 0`."""
    (found,) = errors("import nn\nfun f (x : f32[t, 10]) = nn.split_heads {3} x")
    assert not [s for s in found.suggestions if s.edits]
    assert "9 and 12" in found.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "fun f (x : f32[n, k]) = let val m = for i => max j => x[i, j] val e = exp (x - m) in e / (for i => sum j => e[i, j]) end",
        "fun f (x : f32[b, t, d]) = x - (for i j => sum k => x[i, j, k])",
        "fun f (w : f32[d, k]) (x : f32[b, d]) (g : f32[b, k]) = w - g @ x",
        "fun f (x : i32[t]) (y : i32[t]) = let val next = y[1 : t] in sum i => if x[i] = next[i] then 1 else 0 end",
        "fun f x = for i j k => x[i + j + k]",
        "fun f (x : f32[n]) = for i < n => x[i] + x[i + 1] + x[i + 2]",
    ],
)
def test_one_mistake_gives_one_error(text: str) -> None:
    assert len(errors(text)) == 1


@pytest.mark.parametrize("size", ["b * t", "t"])
def test_a_reshape_is_blamed_for_the_size_that_it_makes(size: str) -> None:
    text = "fun f (x : f32[b, t, d]) (y : f32[b, d]) = let val flat = for (i, j) c => x[i, j, c] in flat + y end"
    (found,) = errors(text)
    assert found.labels[0].span.text == "i, j" or "(i, j)" in found.labels[0].span.text
    assert "makes one dimension of b and t" in found.labels[0].text
    assert any(size in label.text for label in found.labels)


def test_every_conflict_names_both_sizes_and_where_they_come_from() -> None:
    """Each of the two sizes in the note stands in a label."""
    for text in FIRST:
        for found in errors(text):
            if found.code == "AX0301":
                left, right = found.notes[0].split(" = ", 1)
                right = right.split(" does not")[0].split(" never")[0].split(" holds")[0]
                for size in (left, right):
                    assert any(size in label.text for label in found.labels), (size, found.labels)
                assert 2 <= len(found.labels) <= 4
