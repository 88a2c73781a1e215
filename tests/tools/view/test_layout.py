"""Boxes stand apart and inside their groups, whatever the graph; edges go down."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from axon.tools.view.layout import PAD, Box, place


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Box, list[tuple[str, str]]]:
    """A tree of groups whose leaves come in order, and edges from earlier leaves to later ones."""
    count = draw(st.integers(1, 14))
    leaves = [Box(f"n{i}", draw(st.floats(20, 200)), draw(st.floats(10, 80))) for i in range(count)]
    items: list[Box] = list(leaves)
    for number in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(items) - 1))
        size = draw(st.integers(1, len(items) - start))
        items[start : start + size] = [Box(f"g{number}", children=items[start : start + size], title=draw(st.floats(0, 300)))]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] < p[1])
    edges = draw(st.lists(pairs, max_size=20)) if count > 1 else []
    return Box("root", children=items), [(f"n{a}", f"n{b}") for a, b in edges]


def inside(inner: Box, outer: Box) -> bool:
    slack = 1e-6
    return (
        inner.x - inner.width / 2 >= outer.x - outer.width / 2 - slack
        and inner.x + inner.width / 2 <= outer.x + outer.width / 2 + slack
        and inner.y >= outer.y - slack
        and inner.bottom <= outer.bottom + slack
    )


def apart(a: Box, b: Box) -> bool:
    slack = 1e-6
    return abs(a.x - b.x) >= (a.width + b.width) / 2 - slack or a.bottom <= b.y + slack or b.bottom <= a.y + slack


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_boxes(made: tuple[Box, list[tuple[str, str]]]) -> None:
    root, edges = made
    bends = place(root, edges)
    root.x = root.width / 2
    leaves: dict[str, Box] = {}
    within: dict[str, list[Box]] = {}

    def walk(box: Box) -> None:
        for i, child in enumerate(box.children):
            assert inside(child, box)
            assert all(apart(child, other) for other in box.children[:i])
            walk(child)
        if not box.children:
            leaves[box.key] = box
        within[box.key] = [box, *(inner for child in box.children for inner in within[child.key])]

    walk(root)
    groups = [box for box in within["root"] if box.title]
    assert set(bends) == set(edges)
    for (a, b), points in bends.items():
        assert leaves[a].bottom <= leaves[b].y, "what is needed stands above"
        ys = [leaves[a].bottom, *(y for _, y in points), leaves[b].y]
        assert ys == sorted(ys), "an edge never goes up"
        for group in groups:
            if leaves[b] in within[group.key] and leaves[a] not in within[group.key]:
                heads = [x for x, y in points if group.y - 1e-6 <= y <= group.y + group.header + 1e-6]
                assert heads
                assert min(heads) > group.x - group.width / 2 + PAD + group.title, "no edge runs through a title"


def test_a_long_chain_is_laid_out_quickly() -> None:
    count = 400
    root = Box("root", children=[Box(f"n{i}", 60, 30) for i in range(count)])
    place(root, [(f"n{i}", f"n{i + 1}") for i in range(count - 1)] + [("n0", f"n{i}") for i in range(2, count, 40)])
    ys = [box.y for box in root.children]
    assert ys == sorted(ys)
