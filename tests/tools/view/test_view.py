"""`axon view`: what the page holds, and what it does in a browser."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axon import compiler
from axon.tools.cli import main
from axon.tools.view.draw import WRAP, _formula
from tests import ROOT

ATTENTION = """\
fun softmax x = for ..i j =>
  let val m = max k => x[..i, k]
      val z = sum k => exp (x[..i, k] - m)
  in exp (x[..i, j] - m) / z end

(* <b>attention</b> & more *)
fun attention (q : f32[s, d]) (k : f32[t, d]) (v : f32[t, e]) =
  let val scores = for i j => (sum c => q[i, c] * k[j, c]) * rsqrt (cast f32 d)
  in softmax scores @ v end
"""
PRODUCT = "fun product (x : bf16[n, d]) (w : bf16[d, k]) (b : bf16[k]) = x @ w + b\n"
RNN = """\
fun cell (w : f32[h, h]) (x : f32[t, h]) (s0 : f32[h]) =
  unfold (s = s0) for i < t => for j => tanh (x[i, j] + sum k => w[j, k] * s[k])
"""
GIVEN = ("q=randn(f32[16, 64])", "k=randn(f32[32, 64])", "v=randn(f32[32, 8])")

Page = Callable[..., str]


class _Links(HTMLParser):
    """Everything on a page that a browser would fetch, and tags that are never closed."""

    VOID = frozenset({"meta", "link", "br", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [
            f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "srcset", "data", "action") and value
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another"


def parsed(text: str) -> _Links:
    parser = _Links()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


@pytest.mark.parametrize(
    ("program", "name", "arguments"),
    [(ATTENTION, "attention", ()), (ATTENTION, "attention", GIVEN), (PRODUCT, "product", ()), (RNN, "cell", ())],
)
def test_it_needs_nothing_else(page: Page, program: str, name: str, arguments: tuple[str, ...]) -> None:
    text = page(program, name, *arguments)
    assert parsed(text).links == ["link href=data:,"]
    assert "url(" not in text.replace("url(#arrow)", "")
    assert "@import" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "{{" not in text


def test_source(page: Page) -> None:
    text = page(ATTENTION, "attention")
    assert "&lt;b&gt;attention&lt;/b&gt; &amp; more" in text, "what is in the source is text"
    assert text.count('class="l here"') == 3, "the declaration is marked"
    tips = json.loads(re.search(r'id="tips">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    plain = [re.sub(r"<[^>]+>", "", tip) for tip in tips]
    assert any("scores : f32[s, t]" in tip for tip in plain), plain
    assert any(tip.startswith("q : f32[s, d]") for tip in plain)
    assert all("<script" not in tip for tip in tips)
    numbers = {int(n) for n in re.findall(r'data-t="(\d+)"', text)}
    assert numbers == set(range(len(tips)))


def test_graph_and_kernels(page: Page) -> None:
    text = page(ATTENTION, "attention", *GIVEN, "--target", "cpu")
    assert "at s = 16, d = 64, t = 32, e = 8" in text
    assert ">f32[16, 32]</text>" in text, "sizes that are given are shown"
    assert "f32[s, t] = f32[16, 32] = 2.05 kB" in text, "their names where one points"
    assert ">f32[s, t]</text>" in page(ATTENTION, "attention", "--target", "cpu")
    cards = re.findall(r'<g class="card (\w+)" data-key="(\w+)"', text)
    assert [kind for kind, _ in cards].count("input") == 3
    assert [kind for kind, _ in cards].count("result") == 1
    keys = {key for _, key in cards}
    edges = re.findall(r'data-from="(\w+)" data-to="(\w+)"', text)
    assert len(edges) >= 6
    assert {key for edge in edges for key in edge} <= keys
    assert {b for _, b in edges} == {key for kind, key in cards if kind != "input"}, "everything but inputs needs something"


GENERAL = "fun scores (q : 'a[..b, s, d]) (k : 'a[..b, t, d]) = for ..b i j => sum c => q[..b, i, c] * k[..b, j, c]\n"


def test_what_is_chosen_without_arguments_is_said(page: Page) -> None:
    assert "Drawn with f32 for 'a and no dimensions for ..b" in page(GENERAL, "scores")
    drawn = page(GENERAL, "scores", "q=randn(f16[2, 8, 4])", "k=randn(f16[2, 6, 4])")
    assert "Drawn with" not in drawn
    assert ">f16[2, 8, 6]</text>" in drawn
    assert "Drawn with" not in page(ATTENTION, "attention"), "nothing was left open"


@given(st.text("ab +-*/=>([])<", max_size=160))
def test_formulas_keep_their_words(text: str) -> None:
    text = " ".join(text.split())
    lines = _formula(text)
    assert "".join("".join(lines).split()) == text.replace(" ", "")
    assert all(len(line) <= WRAP for line in lines if " " in line.strip()) or any(len(word) > 20 for word in text.split())


def test_a_formula_is_cut_below_its_indices_and_before_operators() -> None:
    assert _formula("for b, j => sum k2 < t => exp (sum[b, k2] * rsqrt (cast f32 d) - max[b]) / total[b, j]") == [
        "for b, j => sum k2 < t =>",
        "  exp (sum[b, k2] * rsqrt (cast f32 d)",
        "      - max[b]) / total[b, j]",
    ]


def crossed(text: str) -> list[str]:
    """The texts of headings that an edge of a page's graph runs through."""
    drawn = text.partition('<svg class="graph"')[2].partition("</svg>")[0]
    heads = re.findall(
        r'<rect class="of [^"]*" x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"/><text[^>]*>([^<]*)<', drawn
    )
    points: list[tuple[float, float]] = []
    for path in re.findall(r'<path class="edge" d="([^"]+)"', drawn):
        here = (0.0, 0.0)
        for command, rest in re.findall(r"([MLC])([-\d. ]+)", path):
            numbers = list(map(float, rest.split()))
            ends = [here, *zip(numbers[::2], numbers[1::2], strict=True)]
            if command != "M":
                points += [_between(ends, t / 50) for t in range(51)]
            here = ends[-1]
    assert heads
    assert points
    return [
        title
        for x, y, wide, high, title in heads
        if any(float(x) < px < float(x) + float(wide) and float(y) < py < float(y) + float(high) for px, py in points)
    ]


def _between(ends: list[tuple[float, float]], t: float) -> tuple[float, float]:
    """A point of a Bézier curve (de Casteljau)."""
    while len(ends) > 1:
        ends = [(a + (c - a) * t, b + (d - b) * t) for (a, b), (c, d) in pairwise(ends)]
    return ends[0]


def test_no_edge_runs_through_a_heading(page: Page) -> None:
    for program, name in ((FIELDS, "block"), (ATTENTION, "attention"), (RNN, "cell"), (LAYERS, "model"), (GENERAL, "scores")):
        assert crossed(page(program, name)) == [], name
        assert crossed(page(program, name, "--target", "cpu")) == [], name


FIELDS = """\
import nn

fun block (p : { w : f32[d, 4 * d], v : f32[4 * d, d] }) (x : f32[..b, n, d]) = x + nn.gelu (x @ p.w) @ p.v
"""


def test_fields_are_called_as_in_the_source(page: Page) -> None:
    text = page(FIELDS, "block")
    assert ">p.w : f32[" in text, "on the card of the record"
    assert "x[i, k] * p.w[k, j]" in text
    assert "p_w" not in text


KEPT = """\
fun total (x : f32[n]) (parts : f32[n]) steps =
  (loop (s = 0.0) for _ < steps => s + sum i => x[i] * parts[i]) / cast f32 n
"""


def test_sizes_that_the_compiler_computes_have_names(page: Page) -> None:
    """What is cut into parts is no formula of a page's width, and costs what it costs in one piece."""
    text = page(KEPT, "total")
    assert "f32[parts2]" in text, "parts is a tensor here"
    assert re.search(r"Sizes that the compiler chose: <code>parts2 = min \d+ \(n / \d+\) \+ 1</code>", text)
    rows = [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr><td>.*?</tr>", text)]
    (first,) = (row for row in rows if "many parts at once" in row)
    assert " 2 * n FLOP" in first
    (loop,) = (row for row in rows if " loop, " in row)
    assert "FLOP in each step" in loop
    assert " &lt; steps " in loop, "a scalar has no subscripts"
    assert max(len(line) for line in re.findall(r'<text class="core"[^>]*>([^<]*)<', text)) <= 60
    given = page(KEPT, "total", "x=randn(f32[100000])", "parts=randn(f32[100000])", "steps=3")
    assert "200 kFLOP" in given


def test_which_sizes_the_kernels_are_for(page: Page) -> None:
    assert "serve where every dimension is 4,096" in page(PRODUCT, "product")
    assert "4,096" not in page(PRODUCT, "product", "--target", "cpu")
    assert "4,096" not in page("fun f x = x + 1.0\n", "f").partition("<h2>")[0]


def test_one_cause_has_one_wording(page: Page) -> None:
    table = page(FIELDS.replace("f32", "f64"), "block").partition("<h2>Kernels")[2]
    causes = re.findall(r"not on the tensor cores: ([^<]*)", table)
    assert causes == ["matrix instructions here take bf16, f16, f32, f8e4m3, f8e5m2, i8 and u8, not f64"] * 2
    assert "t joins: it reads product at its own row" in table


def test_examples_in_comments_are_shown_as_examples(page: Page) -> None:
    text = page(FIELDS, "block")
    tips = json.loads(re.search(r'id="tips">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    (gelu,) = {tip for tip in tips if "Hendrycks" in tip}
    assert re.search(r"<pre>.*gelu.*\n.*0\.8413.*</pre>$", re.sub(r"</?span[^>]*>", "", gelu).partition("</p>")[2], re.DOTALL), gelu
    assert "`" not in gelu


def test_captions_lie_above_edges(page: Page) -> None:
    text = page(ATTENTION, "attention", "--target", "cpu")
    assert text.rindex('class="edge"') < text.index('<rect class="of '), "each on a ground of its own"


def test_bytes_and_operations(page: Page) -> None:
    text = page(
        "fun f (a : f32[n, k]) (b : f32[k, m]) = a @ b\n", "f", "a=randn(f32[16, 64])", "b=randn(f32[64, 32])", "--target", "cpu"
    )
    row = re.search(r"<td>contract</td>(.*?)</tr>", text)
    assert row is not None
    moved, flops = 4 * (16 * 64 + 64 * 32 + 16 * 32), 2 * 16 * 64 * 32
    assert re.findall(r">([^<>]+)</td>", row[1])[:3] == [
        f"{moved / 1e3:.3g} kB",
        f"{flops / 1e3:.3g} kFLOP",
        f"{flops / moved:.3g}",
    ]
    named = page("fun f (a : f32[n, k]) (b : f32[k, m]) = a @ b\n", "f", "--target", "cpu")
    assert "2 * n * k * m FLOP" in named
    assert "FLOP per byte" not in named, "which only numbers have"
    looped = page(
        "fun f (x : f32[t, d]) = loop (s = for j => 0.0 * x[0, j]) for i < t => s + exp x[i, ..]\n", "f", "--target", "cpu"
    )
    assert "4 * d * t" not in looped.partition("<h2>Kernels")[2], "a step reads a row"


def test_kernels_of_a_gpu_and_their_roles(page: Page) -> None:
    text = page(PRODUCT, "product", "x=randn(bf16[512, 256])", "w=randn(bf16[256, 512])", "b=randn(bf16[512])")
    assert "1 kernel of a Hopper GPU" in text
    lanes = re.findall(r'<text class="lane"[^>]*>([^<]+)</text>', text)
    assert lanes == ["producer", "copies", "consumer", "products", "stores"]
    assert "asks for x, slot 0" in text
    assert "waits for a full slot" in text
    cpu = page(PRODUCT, "product", "--target", "cpu")
    assert "Roles over time" not in cpu
    assert "of the CPU" in cpu


LAYERS = """\
type layer[d] = { up : f32[d, 4 * d], shift : f32[4 * d], down : f32[4 * d, d], scale : f32[d] }

fun layer (p : layer[d]) (x : f32[n, d]) = x + (tanh (x @ p.up + p.shift) @ p.down) * p.scale
fun model (p : { first : layer[d], second : layer[d] }) x = x |> layer p.first |> layer p.second
"""


def test_weights_stand_together(page: Page) -> None:
    """Tensors of one record are one card, which names them."""
    text = page(LAYERS, "model", "--target", "cpu")
    titles = re.findall(r'<g class="card input".*?<text class="title"[^>]*>([^<]+)<', text)
    assert set(titles) <= {"x", "p.first", "p.second", "p"}
    assert len(re.findall(r">p\.(?:first|second)\.\w+ : f32\[", text)) == 8


def test_deep_models_are_not_wide() -> None:
    """What many kernels in a row need does not push them apart."""
    from axon.tools.view.layout import Box, place

    kernels = [Box(f"k{i}", 400.0, 200.0) for i in range(20)]
    weights = [Box(f"w{i}.{j}", 120.0, 40.0) for i in range(20) for j in range(8)]
    edges = [(f"k{i}", f"k{i + 1}") for i in range(19)] + [(f"w{i}.{j}", f"k{i}") for i in range(20) for j in range(8)]
    root = Box("root", children=[b for i in range(20) for b in (*weights[8 * i : 8 * i + 8], kernels[i])])
    place(root, edges)
    assert root.width < 3 * 8 * 144


def test_a_gpu_runs_loops_too(page: Page) -> None:
    """What the host does between kernels is part of the picture; kernels in loops have roles over time under their numbers."""
    program = """\
fun f (x : bf16[n, n]) (w : bf16[n, n]) (ids : f32[n]) =
  (loop (x = x) for i < 4 => x @ w, sort ids, nonzero (for i < n => ids[i] > 0.0))
"""
    text = page(program, "f", "x=randn(bf16[512, 512])", "w=randn(bf16[512, 512])", "ids=randn(f32[512])")
    assert "of a Hopper GPU" in text
    assert re.search(r'<rect class="kernel loop"', text)
    (inside,) = re.findall(r">(\d\.1) · contraction<", text.partition("Roles over time")[0].partition("<table>")[0])
    assert f"<h3>{inside} · contraction</h3>" in text
    assert "sort" in text
    assert "compress" in text


TABLE = f"""\
val t = [|{", ".join(f"{n}.5" for n in range(40))}|]
fun f (x : f32[n]) = sum i => exp x[i] * t[i % 40]
fun g (x : f32[n]) = {{ first = for i => x[i] * t[i % 40], second = sum i => x[i] }}
"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["f", "g"])
def test_tables_are_inputs(page: Page, name: str, target: str) -> None:
    text = page(TABLE, name, "--target", target)
    titles = re.findall(r'<g class="card input".*?<text class="title"[^>]*>([^<]+)<', text)
    assert len(titles) == 2, "the table, and x"
    assert "x" in titles


def test_kernels_of_the_cpu_are_those_that_run(page: Page) -> None:
    """A sum of everything is made in blocks; what is the same in every step of a loop, before it."""
    program = """\
fun f (x : f32[n, n]) = sum i j => x[i, j]
fun g (w : f32[n]) = loop (s = for i < n => 0.0) for t < 9 => s + exp w
"""
    for name in ("f", "g"):
        text = page(program, name, "--target", "cpu")
        plan = compiler.emit(compiler.lower(compiler.check_text(program), name, None), "plan", None).partition("on a GPU")[0]
        for kernel in re.findall(r"^ *((?:\d+\.)+) (\w+)", plan, re.MULTILINE):
            assert re.search(rf">{kernel[0].rstrip('.')} · {kernel[1]}", text), (kernel, plan)


def test_loops_are_groups(page: Page) -> None:
    text = page(RNN, "cell")
    assert re.search(r'<rect class="kernel unfold"', text)
    assert "as the step begins" in text
    assert re.search(r">\d\.1 · ", text), "kernels inside are numbered by the loop"


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.axon"
    file.write_text(ATTENTION)

    def view(*arguments: str) -> str:
        assert main(["view", *arguments, "--out", str(tmp_path / "out.html")]) == 1
        return capsys.readouterr().out

    assert "AX0507" in view(f"{file}:nothing")
    assert "AX0507" in view(str(file))
    assert "AX0501" in view(f"{file}:attention", "q=randn(f32[2, 3])", "k=randn(f32[2, 4])", "v=randn(f32[2, 4])")
    assert "AX0408" in view(f"{tmp_path}/nowhere.axon:f")
    file.write_text("fun f x = y")
    assert "AX0401" in view(f"{file}:f")
    assert not (tmp_path / "out.html").exists()
    file.write_text("fun f x = x\n")
    assert main(["view", f"{file}:f", "--out", str(tmp_path / "no" / "out.html")]) == 1


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("fun f x = x\n", "f"),
        ("val a = [| 1, 2 |]\n", "a"),
        ("fun f () = (1.0, { a = 2, b = [| 3 |] })\n", "f"),
        ("fun f (m : bool[n]) = nonzero m\n", "f"),
        ("fun f (x : f32[n]) = sort x\n", "f"),
        ("fun f (x : f32[n, n]) = scan (op +, 0.0) i => x[i, i]\n".replace("(op +, 0.0)", "((op +), 0.0)"), "f"),
        ("fun f (x : f32[n]) = (x as f32[4])\n", "f"),
        ("(* 🙂 é </script><script>alert(1)</script> *)\nfun f x = x + 1.0\n", "f"),
    ],
)
def test_odd_programs(page: Page, program: str, name: str) -> None:
    text = page(program, name)
    parsed(text)
    assert "<script>alert" not in text


@pytest.mark.parametrize("example", ["attention.axon:self_attention", "kmeans.axon:kmeans", "mlp.axon:loss"])
def test_examples(example: str, tmp_path: Path) -> None:
    assert main(["view", str(ROOT / "examples" / example), "--out", str(tmp_path / "out.html")]) == 0
    parsed((tmp_path / "out.html").read_text())


# ── in a browser ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_in_a_browser(browser: Any, page: Page, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    page(ATTENTION, "attention", *GIVEN)
    browser.get((tmp_path / "attention.html").as_uri())
    assert browser.title.startswith("attention · ")
    tip = browser.find_element(By.ID, "tip")

    def point(element: Any) -> str:
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(browser).move_to_element(element).perform()
        assert tip.is_displayed()
        return str(tip.text)

    # A name in the source says its type and shape.
    names = [e for e in browser.find_elements(By.CSS_SELECTOR, ".source [data-t]") if e.text == "scores"]
    assert "scores : f32[s, t]" in point(names[0])
    assert tip.find_elements(By.CSS_SELECTOR, "li"), "where its sizes come from is a list"
    # A card says its core and its size, and lights its edges and its place in the source.
    card = browser.find_element(By.CSS_SELECTOR, ".card.operation[data-span]")
    assert "f32[16, 32]" in point(card)
    assert browser.find_elements(By.CSS_SELECTOR, ".edge.lit")
    assert browser.find_elements(By.CSS_SELECTOR, ".source .lit")
    assert "kernel 1" in point(browser.find_element(By.CSS_SELECTOR, ".of, .kernel")) or tip.text
    # Cards stand apart, inside their panel.
    boxes = browser.execute_script(
        "const box = (e) => e.getBBox(), ends = (b) => [b.x, b.y, b.x + b.width, b.y + b.height];"
        "return [...document.querySelectorAll('.card')].map(box).map(ends)"
    )
    assert all(a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1] for i, a in enumerate(boxes) for b in boxes[:i])
    wide, high = browser.execute_script(
        "const s = document.querySelector('svg.graph'); return [s.width.baseVal.value, s.height.baseVal.value]"
    )
    assert all(min(b) >= 0 and b[2] <= wide and b[3] <= high for b in boxes)
    # The graph can be made larger and smaller; cards keep their places in it.
    drawn = browser.find_element(By.CSS_SELECTOR, "svg.graph")
    before = drawn.rect["width"]
    browser.find_element(By.CSS_SELECTOR, '[data-by="1.25"]').click()
    assert drawn.rect["width"] == pytest.approx(before * 1.25, rel=0.01)
    browser.find_element(By.CSS_SELECTOR, '[data-by="0"]').click()
    assert drawn.rect["width"] <= browser.find_element(By.CSS_SELECTOR, ".graph-panel").rect["width"]
    assert browser.get_screenshot_as_png().startswith(b"\x89PNG")
    complaints = [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert complaints == []


def test_nothing_is_fetched(browser: Any, page: Page, tmp_path: Path) -> None:
    page(PRODUCT, "product", "x=randn(bf16[512, 256])", "w=randn(bf16[256, 512])", "b=randn(bf16[512])")
    browser.get_log("performance")
    browser.get((tmp_path / "product.html").as_uri())
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    own = {url for url in asked if url.startswith("chrome://")}  # what the browser's first tab still loads of the browser itself
    assert asked - own <= {(tmp_path / "product.html").as_uri(), "data:,"}


def test_sizes_and_cost(page: Page) -> None:
    """The contract, and what `m.f.cost` counts: formulas without arguments, amounts with them."""
    source = "fun heads {h} (x : f32[n, d]) where d % h = 0 = for i, j < h, k => exp x[i, (j, k)]\n"
    text = page(source, "heads", "--target", "cpu")
    assert "A call satisfies <code>d % h = 0</code>." in text
    assert "It does <code>n * d FLOP</code>, moves <code>8 * n * d B</code> and needs <code>8 * n * d B</code>." in text
    text = page(source, "heads", "h=4", "x=zeros(f32[1000, 64])", "--target", "cpu")
    assert "It does <code>64 kFLOP</code>, moves <code>512 kB</code> and needs <code>512 kB</code>." in text
    text = page("fun positive (x : f32[n]) = (filter (for i => x[i] > 0.0) x) * 2.0\n", "positive", "--target", "cpu")
    assert "It does at most" in text
    assert "Here data decide a size: the largest that it can be is counted." in text
    text = page(ATTENTION, "attention", *GIVEN)
    assert "<h2>Sizes and cost</h2>" in text


def test_memory_over_time(page: Page) -> None:
    """A drawing of what is held while each kernel runs: its highest point is the memory that a call needs. Of one kernel there is
    none."""
    source = "fun f (x : f64[n, n]) = let val y = x @ x in (x @ y) @ (y @ y) end\nfun g (x : f64[n]) = for i => x[i] + 1.0\n"
    text = page(source, "f", "x=randn(f64[100, 100])", "--target", "cpu")
    drawn = ET.fromstring(re.search(r'<svg [^>]*class="chart".*?</svg>', text, re.DOTALL)[0])  # type: ignore[index]
    tips = [t.text or "" for t in drawn.iter("{http://www.w3.org/2000/svg}title")]
    need = re.search(r"needs <code>([\d.]+ kB)</code>", text)
    assert need is not None
    assert len(tips) >= 3
    assert any(tip.endswith(f": {need[1]}") for tip in tips), (tips, need[1])
    assert 'class="chart"' not in page(source, "g", "x=randn(f64[100])", "--target", "cpu")
