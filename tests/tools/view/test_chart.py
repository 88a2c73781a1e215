"""Charts: marks where they belong, points where their axes say, nothing outside of the paper."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from axon.tools.view.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, Series, chart, decades

SVG = "{http://www.w3.org/2000/svg}"


def circles(text: str) -> list[tuple[float, float]]:
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in ET.fromstring(text).iter(f"{SVG}circle")]


def test_points_lie_where_the_axes_say() -> None:
    x = Axis("n", tuple((10.0**i, f"1e{i}") for i in range(1, 4)), log=True)
    y = Axis("t < 1", ((0.0, "0"), (4.0, "4")))
    found = chart("a & b", x, y, [Series("one", ((10, 0), (100, 1), (1000, 4)))])
    (a, b, c) = circles(found)
    assert (a, c) == ((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, TOP))
    assert b == (pytest.approx((a[0] + c[0]) / 2, abs=0.1), pytest.approx(a[1] + (c[1] - a[1]) / 4, abs=0.1))
    assert {"a & b", "t < 1", "one", "1e2"} <= {t.text for t in ET.fromstring(found).iter(f"{SVG}text")}


def test_one_point_and_equal_values() -> None:
    found = chart(
        "",
        Axis("", ((3.0, "3"),)),
        Axis("", decades([5.0, 5.0], str), log=True),
        [Series("", ((3, 5.0),)), Series("", ((3, 5.0),))],
    )
    assert len(set(circles(found))) == 1
    assert all(LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM for x, y in circles(found))


@pytest.mark.parametrize("values", [[1.0], [1e-6, 3e-6], [2e-7, 4e-2], [7.0, 1e6], [0.3, 0.31]])
def test_decades(values: list[float]) -> None:
    marks = [mark for mark, _ in decades(values, str)]
    assert marks[0] <= min(values) * (1 + 1e-9)
    assert marks[-1] >= max(values) * (1 - 1e-9)
    assert 1 <= len(marks) <= 16
    assert all(1.9 < b / a < 10.1 for a, b in pairwise(marks))


def test_labels_do_not_lie_on_one_another() -> None:
    marks = tuple((float(i), f"{i:,}") for i in range(100_000, 100_040))
    text = chart("", Axis("", marks), Axis("", ((1.0, "1"),)), [Series("", tuple((m, 1.0) for m, _ in marks))])
    places = [float(t.attrib["x"]) for t in ET.fromstring(text).iter(f"{SVG}text") if t.text in [text for _, text in marks]]
    assert 2 <= len(places) < len(marks)
    assert all(b - a > 40 for a, b in pairwise(places))
