"""The normal form: equal functions are equal Dims, evaluation is Python's, rendering parses back, size is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from axon.base.names import Symbol, fresh
from axon.shapes.dimension import (
    Atom,
    Dim,
    DimensionTooLarge,
    atom_key,
    dim_sum,
    maximum,
    minimum,
    occurs,
    rebuilt,
    replaced,
)
from axon.shapes.pretty import render
from tests.clock import within
from tests.shapes.generate import Tree, assignments, parse, sets

SYMBOLS = tuple(fresh(name) for name in "abc")
NAMES = {s.name: Dim.of(s) for s in SYMBOLS}
h, r, s, n, m, d, k = (Dim.of(fresh(name)) for name in "hrsnmdk")

LEAVES = st.builds(Tree, st.just("var"), value=st.integers(0, 2)) | st.builds(Tree, st.just("int"), value=st.integers(-3, 9))


def trees(ops: str, leaves: int) -> st.SearchStrategy[Tree]:
    return st.recursive(LEAVES, lambda inner: st.builds(Tree, st.sampled_from(ops.split()), inner, inner), max_leaves=leaves)


TREES = trees("+ - * / % min max", 9)
ARITHMETIC = trees("+ - * / %", 9)
SUMS = trees("+ - *", 5)


@given(TREES)
@settings(max_examples=sets(400), deadline=None)
def test_evaluates_as_the_tree_it_came_from(tree: Tree) -> None:
    dim = tree.dim(SYMBOLS)
    for values in assignments(SYMBOLS, 4):
        try:
            expected = tree.evaluate(tuple(values.values()))
        except ZeroDivisionError:
            continue
        assert dim.evaluate(values) == expected


@given(TREES, st.permutations(range(3)))
@settings(max_examples=sets(200), deadline=None)
def test_under_other_names_it_is_what_is_made_under_them(tree: Tree, order: list[int]) -> None:
    """In the order of the old ones or in another, and where two are one; a size that stays may be older or younger."""
    new = [fresh(name) for name in "xyz"]
    for called in ([new[i] for i in order], [new[0], *new[:2]], [SYMBOLS[0], *new[:2]], [new[0], *SYMBOLS[1:]]):
        names = {old: Dim.of(symbol) for old, symbol in zip(SYMBOLS, called, strict=True)}
        made = tree.dim(SYMBOLS).substitute(names)
        again = _made_again(tree.dim(SYMBOLS), names)
        assert (made, made.sort_key) == (again, again.sort_key)


def _made_again(dim: Dim, names: dict[Symbol, Dim]) -> Dim:
    """With every atom brought to normal form anew."""

    def image(atom: Atom) -> Dim:
        return names[atom] if isinstance(atom, Symbol) else rebuilt(atom, lambda part: _made_again(part, names))

    return dim.rewrite(image)


@given(TREES)
@settings(max_examples=sets(200), deadline=None)
def test_is_undefined_where_the_tree_is(tree: Tree) -> None:
    """Except where the tree's undefined part is multiplied by 0 or cancels: then the Dim may have a value."""
    dim = tree.dim(SYMBOLS)
    for values in assignments(SYMBOLS, 3):
        try:
            dim.evaluate(values)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                tree.evaluate(tuple(values.values()))


@given(ARITHMETIC)
@settings(max_examples=sets(400), deadline=None)
def test_rendering_parses_back(tree: Tree) -> None:
    dim = tree.dim(SYMBOLS)
    assert parse(render(dim), NAMES) == dim


@given(TREES)
@settings(max_examples=sets(400), deadline=None)
def test_rendering_parses_back_to_the_same_function(tree: Tree) -> None:
    """With minima of maxima of minima, another form of it."""
    dim = tree.dim(SYMBOLS)
    read = parse(render(dim), NAMES)
    for values in assignments(SYMBOLS, 4):
        try:
            expected = dim.evaluate(values)
        except ZeroDivisionError:
            continue
        assert read.evaluate(values) == expected


@given(TREES, TREES)
@settings(max_examples=sets(200), deadline=None)
def test_substitution_is_composition(tree: Tree, image: Tree) -> None:
    dim, inner = tree.dim(SYMBOLS), image.dim(SYMBOLS)
    try:
        composed = dim.substitute({SYMBOLS[0]: inner})
    except DimensionTooLarge:
        return
    for values in assignments(SYMBOLS, 3):
        try:
            expected = dim.evaluate({**values, SYMBOLS[0]: inner.evaluate(values)})
        except ZeroDivisionError:
            continue
        assert composed.evaluate(values) == expected


@given(TREES, ARITHMETIC)
@settings(max_examples=sets(200), deadline=None)
def test_an_atom_is_replaced_wherever_it_occurs(tree: Tree, image: Tree) -> None:
    dim, new = tree.dim(SYMBOLS), image.dim(SYMBOLS)
    for atom in sorted(dim.compound, key=atom_key):
        assert occurs(atom, dim)
        alone = Dim({(atom,): 1})
        assert replaced(dim, atom, alone) == dim
        try:
            found = replaced(dim, atom, alone + new)
        except DimensionTooLarge:
            continue
        for values in assignments(SYMBOLS, 3):
            try:
                if new.evaluate(values) == 0:
                    assert found.evaluate(values) == dim.evaluate(values)
            except ZeroDivisionError:
                continue
        hole = fresh("hole")
        assert not occurs(atom, replaced(dim, atom, Dim.of(hole)))
        assert hole in replaced(dim, atom, Dim.of(hole)).variables


@given(ARITHMETIC, ARITHMETIC, SUMS)
@settings(max_examples=sets(200), deadline=None)
def test_is_a_commutative_ring(x: Tree, y: Tree, z: Tree) -> None:
    a, b, c = x.dim(SYMBOLS), y.dim(SYMBOLS), z.dim(SYMBOLS)
    assert a + b == b + a
    assert a * (b + c) == a * b + a * c
    assert (a * b) * c == a * (b * c)
    assert a - a == Dim.of(0)
    assert minimum(a + c, b + c) == minimum(a, b) + c
    assert maximum(a, b) + minimum(a, b) == a + b
    assert hash(a + b) == hash(b + a)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (n + 1, 1 + n),
        ((n + m) * (n - m), n * n - m * m),
        ((4 * n + m) // 4, n + m // 4),
        ((n + 2) % 2, n % 2),
        ((6 * n) % 3, Dim.of(0)),
        ((2 * n + 1) // 4, n // 2),
        ((n // 2) // 3, n // 6),
        ((n // m) // 3, n // (3 * m)),
        ((n % 8) // 2, n // 2 - 4 * (n // 8)),
        (n % 4 % 2, n % 2),
        ((n % m) % m, n % m),
        ((h - r + s) // s, (h - r) // s + 1),
        ((2 * n) // (2 * m), n // m),
        (7 // Dim.of(-2), Dim.of(-4)),
        (7 % Dim.of(-2), Dim.of(-1)),
        ((h - 3) // 2 + 1, (h - 1) // 2),
        (((h - 1) // 2 + 1 - 1) // 2 + 1, (h - 1) // 4 + 1),
        (minimum(n, minimum(m, k)), minimum(minimum(k, n), m)),
        (minimum(n, n), n),
        (minimum(n, n + 1), n),
        (maximum(n, n + 1), n + 1),
        (minimum(2 * n, 2 * m), 2 * minimum(n, m)),
        (minimum(3, Dim.of(5)), Dim.of(3)),
        (maximum(maximum(n, m), k), maximum(n, maximum(m, k))),
    ],
)
def test_equal_functions_have_one_normal_form(left: Dim, right: Dim) -> None:
    assert left == right


def test_a_quotient_keeps_where_it_is_undefined() -> None:
    assert n * m // m != n
    assert (n // 0).constant is None
    with pytest.raises(ZeroDivisionError):
        (n // 0).evaluate({n.symbol: 3})  # type: ignore[dict-item]
    with pytest.raises(ZeroDivisionError):
        (n * m // m).evaluate({n.symbol: 3, m.symbol: 0})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (h - r + 1, "h - r + 1"),
        (2 * n, "2 * n"),
        ((h - r) // s + 1, "(h - r) / s + 1"),
        (minimum(n, m + 1), "min n (m + 1)"),
        (minimum(n - 1, m), "min m (n - 1)"),
        (d % h, "d % h"),
        (h * (d // h), "h * (d / h)"),
        ((h - 3) // 2 + 1, "(h - 1) / 2"),
        ((h - r) // 2 + 1, "(h - r) / 2 + 1"),
        (maximum(0, n - k), "max 0 (n - k)"),
        (n // 2 % 4, "n / 2 % 4"),
        (-n, "-n"),
        (1 - n, "1 - n"),
        (-(n // 2), "-(n / 2)"),
        (-((1 - n) // 2), "-((1 - n) / 2)"),  # `-(1 - n) / 2` is n / 2 - 1 at 2
        (-(n * (n // 2)), "-n * (n / 2)"),
        (m // -(n // 2), "m / -(n / 2)"),
        (m // -minimum(n, k), "m / -min n k"),
        (n // (2 * m), "n / (2 * m)"),
        (n * m // k, "n * m / k"),
        (2 * (n // 3), "2 * (n / 3)"),
        (n % m * k, "k * (n % m)"),
        (m % (k // 2), "m % (k / 2)"),
        (n % (m % k), "n % (m % k)"),
        (n % m % (k % m), "n % m % (k % m)"),
        ((minimum(n, m) + (m - n)) % n, "(m + min n m) % n"),
        ((m % 2 + maximum(n, k)) % (k // n), "(m % 2 + max n k) % (k / n)"),
        (n - n, "0"),
        (n - n - 3, "-3"),
        (n // (m + 1), "n / (m + 1)"),
        (n // minimum(m, k), "n / min m k"),
        (3 * minimum(m, k * k), "3 * min m (k * k)"),
        (minimum(n, minimum(m, k)), "min n (min m k)"),
    ],
)
def test_rendering_is_what_a_person_writes(dim: Dim, text: str) -> None:
    assert render(dim) == text


@given(TREES)
@settings(max_examples=sets(400), deadline=None)
def test_no_pair_of_parentheses_can_be_dropped(tree: Tree) -> None:
    text = render(tree.dim(SYMBOLS))
    assume("0 %" not in text and "0 /" not in text)  # which is 0 where it is anything: multiplied by what it likes
    for begin, end in _pairs(text):
        assert _read(text[:begin] + text[begin + 1 : end] + text[end + 1 :]) != parse(text, NAMES), text


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    opened = []
    for at, char in enumerate(text):
        if char == "(":
            opened.append(at)
        elif char == ")":
            yield opened.pop(), at


def _read(text: str) -> Dim | None:
    """None for what is no dimension, such as `min a b + 1` without what encloses its sum."""
    try:
        return parse(text, NAMES)
    except (AssertionError, KeyError):
        return None


def test_parts() -> None:
    dim = 3 * n * m - n // k + 7
    assert dim.variables == {x.symbol for x in (n, m, k)}
    assert dim.constant is None
    assert (dim - dim + 5).constant == 5
    assert n.symbol is not None
    assert (n + 1).symbol is None
    assert (2 * n).symbol is None
    assert dim.linear_in(m.symbol) == (3 * n, 7 - n // k)  # type: ignore[arg-type]
    assert dim.linear_in(n.symbol) is None  # type: ignore[arg-type]
    assert dim.linear_in(k.symbol) is None  # type: ignore[arg-type]
    assert (n * n).linear_in(n.symbol) is None  # type: ignore[arg-type]
    assert (2 * n * m + n).plain_quotient(n) == 2 * m + 1
    assert (2 * n * m + n).plain_quotient(2 * m + 1) == n
    assert (n * n - m * m).plain_quotient(n + m) is None
    assert (n * m + 1).plain_quotient(n) is None


def eighth_power() -> Dim:
    total = dim_sum(Dim.of(fresh(f"v{i}")) for i in range(8))
    result = total
    for _ in range(15):
        result = result * total
    return result


def repeated(step: Callable[[Dim, Dim], Dim], times: int) -> Callable[[], Dim]:
    def run() -> Dim:
        result = n
        for _ in range(times):
            result = step(result, m)
        return result

    return run


@pytest.mark.parametrize(
    "bomb",
    [
        eighth_power,
        repeated(lambda x, _: x * x, 18),
        repeated(lambda x, y: (x + y) * (x + 1), 18),
        repeated(lambda x, _: x + x, 64),
        repeated(lambda x, y: (x // 2) * (x // 3) + x // y, 64),
        repeated(lambda x, y: (x + y) // (y + 1), 200),
        repeated(lambda x, y: minimum(x * y, x + 1), 200),
        lambda: dim_sum(Dim.of(fresh("v")) for _ in range(100_000)),
    ],
)
def test_what_would_blow_up_is_refused_at_once(bomb: Callable[[], Dim]) -> None:
    def refused() -> None:
        with pytest.raises(DimensionTooLarge):
            bomb()

    within(2, refused)


def test_names_of_users_mean_nothing() -> None:
    odd = [Dim.of(Symbol(name, -i - 1)) for i, name in enumerate(("E", "I", "S", "lambda", "min", "x0"))]
    total = dim_sum(odd)
    assert total - odd[0] == dim_sum(odd[1:])
    assert len(total.variables) == 6
