"""The page of a model: its graph drawn, as text, and what is refused."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axon.tools.cli import main
from axon.tools.view.model import draw_model
from tests import ROOT
from tests.chance.test_graph import DRAWN, MODELS, drawn
from tests.tools.view.test_view import parsed

WALK = """\
import dist
fun walk (y : f64[g, t]) =
  let val mu ~ dist.normal 0.0 1.0
      val z ~ for a < g => unfold (x = mu) for s < t => dist.normal x 1.0
      val level = for a < g => sum s => z[a, s]
      observe y ~ for a s => dist.normal (z[a, s] + level[a]) 1.0
  in level end
"""


def test_the_page_of_a_model(page: Callable[..., str]) -> None:
    text = page(WALK, "walk")
    assert parsed(text).links == ["link href=data:,"]
    assert "{{" not in text
    assert "walk.log_density" not in text.split("<section>")[0]
    assert "<code>prior</code>" in text
    at = {name: WALK[int(start) : int(end)] for name, start, end in re.findall(r'data-key="(\w+)" data-span="(\d+),(\d+),', text)}
    assert at.pop("y").startswith("observe y ~")
    assert at.pop("level").startswith("val level =")
    assert at == {"mu": "mu", "z": "z"}


@pytest.mark.parametrize("name", ["walk", "studies", *[*DRAWN][:1]])
def test_nodes_stand_in_their_plates_and_apart(name: str) -> None:
    shown = drawn({"walk": WALK, "studies": MODELS, **DRAWN}[name], name.partition(" ")[0])
    svg = ET.fromstring(draw_model(shown, "", lambda span: None))
    space = "{http://www.w3.org/2000/svg}"
    plates = [box(rect) for rect in svg.iter(f"{space}rect") if rect.get("class") == "plate"]
    labels = [text.text for text in svg.iter(f"{space}text") if text.get("class") == "plate-name"]
    assert sorted(labels) == sorted(p.label for p in {p for v in shown.vertices for p in v.plates})
    nodes = {}
    for group in svg.iter(f"{space}g"):
        shape = next(e for e in group if e.tag in (f"{space}ellipse", f"{space}rect"))
        nodes[group.get("data-key")] = round_box(shape) if shape.tag.endswith("ellipse") else box(shape)
    assert nodes.keys() == {v.name for v in shown.vertices}
    for v in shown.vertices:
        assert sum(inside(nodes[v.name], plate) for plate in plates) == len(v.plates), v.name
    boxes = [*nodes.values()]
    assert not any(overlap(a, b) for n, a in enumerate(boxes) for b in boxes[:n])
    edges = [(e.get("data-from"), e.get("data-to")) for e in svg.iter(f"{space}path") if e.get("class") == "edge"]
    assert sorted(edges) == sorted([(p, v.name) for v in shown.vertices for p in (*v.parents, *[v.name] * bool(v.again))])


Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


def box(rect: ET.Element) -> Rectangle:
    x, y, wide, high = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
    return x, y, x + wide, y + high


def round_box(ellipse: ET.Element) -> Rectangle:
    x, y, a, b = (float(ellipse.get(name, "")) for name in ("cx", "cy", "rx", "ry"))
    return x - a, y - b, x + a, y + b


def inside(a: Rectangle, b: Rectangle) -> bool:
    return b[0] <= a[0] and b[1] <= a[1] and a[2] <= b[2] and a[3] <= b[3]


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def test_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "walk.axon").write_text(WALK)
    assert main(["view", str(tmp_path / "walk.axon"), "--text"]) == 0
    assert (
        capsys.readouterr().out
        == """\
walk
mu ~
a < g
  s < t
    z ~ z[s - 1] mu
    observe y ~ z level
  level = z
"""
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "walk.axon"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([f"{ROOT}/examples/chance/nile.axon:falls", "--text"], r"`falls` is no model, and `--text` prints the graph of one"),
        ([f"{ROOT}/examples/chance/schools.axon:schools", "y=1.0"], r"the model `schools` is drawn without arguments"),
        ([f"{ROOT}/examples/chance/schools.axon", "--measure"], r"leave out `--measure`"),
    ],
)
def test_what_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", *arguments]) == 1
    assert re.search(said, capsys.readouterr().out)


def test_in_a_browser(browser: Any, page: Callable[..., str], tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    page(WALK, "walk")
    browser.get((tmp_path / "walk.html").as_uri())
    node = browser.find_element(By.CSS_SELECTOR, '.node[data-key="y"]')
    ActionChains(browser).move_to_element(node).perform()
    lit = browser.find_elements(By.CSS_SELECTOR, ".edge.lit")
    assert sorted(e.get_attribute("data-from") for e in lit) == ["level", "z"]
    tip = browser.find_element(By.ID, "tip").text
    assert tip == "observe y ~ dist.normal (z[a, s] + level[a]) 1.0\nfor a < g\nfor s < t"
    source = "".join(e.text for e in browser.find_elements(By.CSS_SELECTOR, ".source .lit"))
    assert source.replace(" ", "").startswith("observey~foras=>")
    assert browser.get_log("browser") == []
