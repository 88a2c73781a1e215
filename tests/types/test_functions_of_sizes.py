"""A call of a function of sizes is the size that its body is: everything is inferred as if it were written out."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import axon

FUNCTIONS = """
fun half n = n / 2
fun grown n k = n + 2 * half k
fun smaller a b = if a < b then a else b
fun last (x : 'a[n]) = n - 1
fun length (x : 'a[n, ..s]) = let val m = last (for i < n => 0) in m + 1 end
fun data (k : i32) (x : f32[n]) = if k = 3 then n else k
fun iota {n} = for i < n => i
"""
X = "fun f (x : f32[n]) (y : f32[m]) = "


@pytest.mark.parametrize(
    ("called", "written"),
    [
        ("for i < half n => x[i]", "for i < n / 2 => x[i]"),
        ("x[half n]", "x[n / 2]"),
        ("x[half n : grown n 0]", "x[n / 2 : n]"),
        ("for i => x[grown i 4]", "for i => x[i + 4]"),
        ("for i < smaller n m => x[i] * y[i]", "for i < min n m => x[i] * y[i]"),
        ("x[last x]", "x[n - 1]"),
        ("unfold (s = 0.0) for t < half (n + m) => s", "unfold (s = 0.0) for t < (n + m) / 2 => s"),
        ("let val h = half n in x[h :] end", "let val h = n / 2 in x[h :] end"),
        ("iota {last x}", "iota {n - 1}"),
        ("iota {2 * half (n + m) + last y}", "iota {2 * ((n + m) / 2) + m - 1}"),
        ("for i < n => if grown i 2 < n then x[i + 2] else 0.0", "for i < n => if i + 2 < n then x[i + 2] else 0.0"),
    ],
)
def test_written_out(called: str, written: str) -> None:
    one, other = (axon.compile(FUNCTIONS + X + text) for text in (called, written))
    assert str(one.f.signature) == str(other.f.signature)
    x, y = np.arange(7, dtype=np.float32), np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(one.f(x, y), other.f(x, y))


@pytest.mark.parametrize("called", ["for i < data m x => x[i]", "iota {data m x}", "for i < half (cast i32 x[0]) => x[0]"])
def test_what_is_no_arithmetic_on_sizes_is_none(called: str) -> None:
    (error,) = axon.check(FUNCTIONS + X + called)
    assert error.code == "AX0308"


def test_a_coercion_in_an_argument_is_asked() -> None:
    m = axon.compile(FUNCTIONS + "fun f {k} (x : f32[n]) = last (x as f32[k])")
    assert m.f[3](np.zeros(3, np.float32)) == 2
    with pytest.raises(axon.ShapeError, match="AX0501"):
        m.f[4](np.zeros(3, np.float32))


def test_functions_of_another_module(tmp_path: Path) -> None:
    (tmp_path / "sizes.axon").write_text("fun half n = n / 2\nfun iota {n} = for i < n => i\n")
    (tmp_path / "user.axon").write_text("import sizes\nfun f (x : f32[n]) = for i < sizes.half n => x[i]\n")
    m = axon.load(tmp_path / "user.axon")
    assert "f32[n / 2]" in str(m.f.signature)


MORE = """
fun half n = n / 2
fun ratio a b = a / b
fun divided a b = (a / b, a % b)
fun smaller a b = if a < b then a else b
fun twice f x = f (f x)
fun both { a = a, b = b } = a + b
fun folded n = let fun add k = k + n  val (q, r) = divided n 3 in add q + r end
fun length (x : 'a[n, ..s]) = n
fun iota {n} = for i < n => i
type halves[n] = { low : f32[half n], high : f32[n - half n] }
val four = half 8
val (two, three) = (half 4, 3)
"""


@pytest.mark.parametrize(
    ("called", "written"),
    [
        ("x[: half 4]", "x[: 2]"),
        ("x[: n - half 4]", "x[: n - 2]"),
        ("x[half 4 : n : half 6]", "x[2 : n : 3]"),
        ("x[: four]", "x[: 4]"),
        ("x[two : three]", "x[2 : 3]"),
        ("x[: half four]", "x[: 2]"),
        ("x[: min (half 4) (half 6)]", "x[: 2]"),
        ("x[: 2 ** 3]", "x[: 8]"),
        ("let val h = half 4 in x[: h] end", "x[: 2]"),
        ("let val h = 4 / 2 in x[: h] end", "x[: 2]"),
        ("let val (q, r) = divided n 2 in x[q : q + r] end", "x[n / 2 : n / 2 + n % 2]"),
        ("let val s = { a = 1, b = half n } in x[s.a : both s] end", "x[1 : 1 + n / 2]"),
        ("for i < half 4 => x[i]", "for i < 2 => x[i]"),
        ("iota {half 4}", "iota {2}"),
        ("iota {length x + half 4}", "iota {n + 2}"),
        ("x[: twice half n]", "x[: n / 4]"),
        ("x[: (fn k => k / 2) n]", "x[: n / 2]"),
        ("iota {folded n}", "iota {n / 3 + n + n % 3}"),
        ("x[: ratio n m]", "x[: n / m]"),
        ("for i < 2 => x[: ratio n m]", "for i < 2 => x[: n / m]"),
        ("x[: n - ratio n (m + 1)]", "x[: n - n / (m + 1)]"),
        ("x[: smaller 3 4]", "x[: 3]"),
        ("x[: smaller (half 6) n]", "x[: min 3 n]"),
        ("for i < smaller 3 n => if i < half 4 then x[i] else 0.0", "for i < min 3 n => if i < 2 then x[i] else 0.0"),
        ("(x as f32[2 * half n])", "(x as f32[2 * (n / 2)])"),
        ("let val a = half 8 in x as f32[a] end", "x as f32[4]"),
        ("let val z : halves[n] = { low = x[: half n], high = x[half n :] } in z.high end", "x[n / 2 :]"),
    ],
)
def test_what_is_a_size_written_out_is_one_by_functions(called: str, written: str) -> None:
    one, other = (axon.compile(MORE + X + text) for text in (called, written))
    assert str(one.f.signature) == str(other.f.signature)
    x, y = np.arange(12, dtype=np.float32), np.arange(5, dtype=np.float32)
    for values in ((x, y), (x[:4], y)):
        try:
            wanted = other.f(*values)
        except axon.AxonError as error:
            with pytest.raises(type(error)):
                one.f(*values)
        else:
            np.testing.assert_array_equal(one.f(*values), wanted)


@pytest.mark.parametrize(
    ("header", "signature"),
    [
        ("fun f (x : f32[n]) (y : f32[half n]) = y + x[: half n]", "f32[n] -> f32[n / 2] -> f32[n / 2]"),
        ("fun f (x : f32[n]) : f32[half n] = x[: half n]", "f32[n] -> f32[n / 2]"),
        ("fun f (x : f32[n]) : f32[length x] = x", "f32[n] -> f32[n]"),
        ("sig f : f32[n] -> f32[half n]\nfun f x = x[: half n]", "f32[n] -> f32[n / 2]"),
        ("fun f (x : f32[n]) (y : f32[m]) where half n <= m = y[: half n]", "f32[n] -> f32[m] -> f32[n / 2] where n / 2 <= m"),
        ("fun f (h : halves[n]) (x : f32[n]) = h.low + x[: half n]", "halves[n] -> f32[n] -> f32[n / 2]"),
        ("fun f {k} (x : f32[n]) = iota {ratio n k}", "{k} -> f32[n] -> i32[n / k] where k >= 1"),
    ],
)
def test_functions_of_sizes_in_types(header: str, signature: str) -> None:
    assert str(axon.compile(MORE + header).f.signature) == f"sig f : {signature}"


def test_a_type_of_another_module_with_a_function_of_its_own(tmp_path: Path) -> None:
    parts = "fun half n = n / 2\ntype lower['a, n] = 'a[half n]\nfun lower (x : 'a[n]) = x[: half n]\n"
    (tmp_path / "parts.axon").write_text(parts)
    (tmp_path / "user.axon").write_text("import parts\nfun f (x : f32[n]) : parts.lower[f32, n] = parts.lower x\n")
    for _ in range(2):  # the second time the module is read as it was kept
        assert str(axon.load(tmp_path / "user.axon").f.signature) == "sig f : f32[n] -> f32[n / 2]"


def test_functions_that_use_others_of_their_module(tmp_path: Path) -> None:
    """And of modules that their module imports."""
    (tmp_path / "inner.axon").write_text("fun half n = n / 2\n")
    (tmp_path / "outer.axon").write_text("""import inner
fun third n = n / 3
fun part n = third n + inner.half n
fun twice f x = f (f x)
val count = 4
fun most n = min n count
""")
    text = "import outer\nfun f (x : f32[n]) = x[: outer.part n]\nfun g (x : f32[n]) = x[: outer.twice outer.part (outer.most n)]\n"
    (tmp_path / "user.axon").write_text(text)
    for _ in range(2):  # the second time the modules are read as they were kept
        m = axon.load(tmp_path / "user.axon")
        assert str(m.f.signature) == "sig f : f32[n] -> f32[n / 2 + n / 3]"
        assert [m.g(np.zeros(n, np.float32)).shape for n in (3, 7)] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("body", "code", "at", "label"),
    [
        ("x[: (loop (a = 1) for i < 3 => a * (i + 1))]", "AX0308", "loop (a = 1) for i < 3 => a * (i + 1)", "a size is made"),
        ("x[: half i]", "AX0308", "half i", "a size is made of dimensions"),
        ("x[: half (cast i32 y[0])]", "AX0308", "half (cast i32 y[0])", "its value is known only when the program runs"),
        ("x[: half 4.0]", "AX0215", "half 4.0", "this has type float"),
        ("x[: ratio n 0]", "AX0305", "ratio n 0", "this divides by 0"),
        ("x[: ratio 4 (half 1)]", "AX0305", "ratio 4 (half 1)", "this divides by 0"),
        ("x[: 4 / half 1]", "AX0305", "half 1", "this is 0"),
        ("x[: length (x as f32[3])]", "AX0308", "length (x as f32[3])", "a size is made"),
        ("x[: let val z = y as f32[3] in n end]", "AX0308", "let val z = y as f32[3] in n end", "a size is made"),
        ("(x as f32[n m])", "AX0308", "n m", "not one of these"),
        ("(x as f32[half n n])", "AX0208", "n", "one argument too many"),
    ],
)
def test_what_cannot_be_a_size_says_where(body: str, code: str, at: str, label: str) -> None:
    (error,) = axon.check(MORE + f"fun f (i : i32) (x : f32[n]) (y : f32[m]) = {body}")
    assert error.code == code
    assert error.labels[0].span.text == at
    assert label in error.labels[0].text


# ── random sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Sizes:
    """Random sizes, written out and through functions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.functions: list[str] = []

    def size(self, depth: int) -> Any:
        if depth == 0 or self.random.random() < 0.15:
            return (self.random.choice(("n", "m", "k", "two", "1", "2", "3", "5", "8")),)
        if self.random.random() < 0.12:
            a, b = self.size(depth - 1), self.size(depth - 1)
            return ("if", a, b, *self.random.choice(((a, b), (b, a), (self.size(0), self.size(0)))))
        op = self.random.choice("++--*//%<>")
        right = self.size(0) if op in "*/%" else self.size(depth - 1)
        return (op, self.size(depth - 1), right)

    def written(self, size: Any, names: dict[str, str]) -> str:
        match size:
            case (leaf,):
                return names.get(leaf, leaf)
            case ("if", *parts):
                a, b, x, y = (self.written(p, names) for p in parts)
                return f"(if {a} < {b} then {x} else {y})"
            case (op, left, right):
                a, b = self.written(left, names), self.written(right, names)
                return f"({ {'<': 'min', '>': 'max'}[op] } {a} {b})" if op in "<>" else f"({a} {op} {b})"
        raise AssertionError(size)

    def called(self, size: Any) -> str:
        """The same with functions for some of its parts, of the names in them or of their operands."""
        if len(size) == 1:
            return str(size[0])
        if self.random.random() < 0.5:
            leaves = sorted(leaf for leaf in _leaves(size) if leaf.isalpha() or self.random.random() < 0.5)
            return self.function(self.written(size, {leaf: f"p{n}" for n, leaf in enumerate(leaves)}), leaves)
        if size[0] == "if" or self.random.random() < 0.5:
            parts = [self.called(p) for p in size[1:]]
            if size[0] == "if":
                return f"(if {parts[0]} < {parts[1]} then {parts[2]} else {parts[3]})"
            names = [("p0",), ("p1",)]
            return self.function(self.written((size[0], *names), {}), parts)
        return self.written((size[0], ("a",), ("b",)), {"a": self.called(size[1]), "b": self.called(size[2])})

    def function(self, body: str, arguments: list[str]) -> str:
        name = f"g{len(self.functions)}"
        params = " ".join(f"p{n}" for n in range(len(arguments)))
        self.functions.append(f"fun {name} {params} = {body}" if arguments else f"val {name} = {body}")
        return f"({name} {' '.join(arguments)})" if arguments else name


def _leaves(size: Any) -> set[str]:
    return {size[0]} if len(size) == 1 else {leaf for part in size[1:] for leaf in _leaves(part)}


PLACES = (
    "x[: {}]",
    "x[{} :]",
    "x[0 : n : {}]",
    "for i < {} => 1.0",
    "unfold (s = 0.0) for t < {} => s",
    "iota {{{}}}",
    "let val h = {} in x[: h] end",
    "sum for i < {} => x[i | 0.0]",
)


@pytest.mark.parametrize("seed", range(200))
def test_random_sizes_are_as_written_out(seed: int) -> None:
    sizes = Sizes(seed)
    size, place = sizes.size(3), sizes.random.choice(PLACES)
    called = sizes.called(size)
    texts = place.format(sizes.written(size, {})), place.format(called)
    if "{" in place.format("") and "if" in texts[0]:
        return  # no `if` stands in braces
    said = []
    for text in texts:
        head = "val two = 2\nfun iota {n} = for i < n => i\n" + "\n".join(sizes.functions)
        program = f"{head}\nfun f {{k}} (x : f32[n]) (y : f32[m]) = {text}\n"
        errors = [d for d in axon.check(program) if d.severity == "error"]
        said.append([d.code for d in errors][:1] if errors else str(axon.compile(program).f.signature))
    assert said[0] == said[1], texts
