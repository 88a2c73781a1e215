"""Schedule files: what they fix is obeyed, by every way to run or show a kernel, and changes no result. Mistakes are in
tests/corpus/rejected/schedule_*."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import axon
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.tile.schedule import ScheduleProblem, TileMapping, Traits, candidates, check, choose, ranked
from axon.backend.gpu.tile.schedule_file import Fixed, Schedule, kinds, parse, places
from axon.backend.needs import Missing, gpu
from axon.base.element import Element
from axon.base.source import SourceFile
from axon.tools.cli import main
from tests.backend.gpu.runtime.emulated import emulated

PROGRAM = """\
fun product (a : bf16[m, k]) (b : bf16[k, n]) = a @ b
fun chain (a : bf16[m, k]) (b : bf16[k, k]) = let val x = a @ b in x @ b + x end
fun attention (q : bf16[b, s, c]) (k : bf16[b, t, c]) (v : bf16[b, t, c]) =
  let val x = for b i j => sum c => q[b, i, c] * k[b, j, c]
      val z = for b i j => let val m = max l => x[b, i, l] val y = sum l => exp (x[b, i, l] - m) in exp (x[b, i, j] - m) / y end
  in z @ v end
"""
CONTRACTION = Traits(Element.BF16, (Element.BF16,))
STREAM = Traits(Element.BF16, (Element.BF16,), stream=True)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AXON_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "model.axon"
    file.write_text(PROGRAM, encoding="utf-8")
    return file


def write(model: Path, text: str) -> Any:
    model.with_suffix(".schedule").write_text(text, encoding="utf-8")
    return axon.load(model)


def schedule(text: str) -> dict[str, Schedule]:
    return parse(SourceFile("model.schedule", text), "model.axon", ["product", "chain", "attention"])


# ── choosing with some values given ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("traits", [CONTRACTION, STREAM], ids=["contraction", "stream"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_what_is_chosen_is_legal_and_has_the_values(traits: Traits, data: st.DataObject) -> None:
    values = {
        "rows": st.sampled_from((64, 128, 192, 256)),
        "columns": st.sampled_from((16, 64, 128, 192, 256)),
        "depth": st.sampled_from((64, 128, 192)),
        "stages": st.integers(1, 9),
        "in_flight": st.integers(0, 4),
        "consumers": st.sampled_from((1, 2, 3)),
        "cluster": st.sampled_from((1, 2, 4, 8)),
        "slots": st.integers(1, 3),
        "persistent": st.booleans(),
        "turns": st.booleans(),
    }
    names = data.draw(st.lists(st.sampled_from(sorted(values)), max_size=4, unique=True))
    fixed = tuple((name, data.draw(values[name])) for name in names)
    for mapping in candidates(HOPPER, traits, fixed):
        assert not check(mapping, HOPPER, traits)
        assert all(getattr(mapping, name) == value for name, value in fixed)


def test_one_value_from_the_best_mapping_changes_nothing_else() -> None:
    for problem, traits in ((ScheduleProblem(4096, 4096, 4096), CONTRACTION), (ScheduleProblem(4096, 128, 128, 16, 4096), STREAM)):
        best = choose(problem, traits, HOPPER)
        for name in kinds():
            again = ranked(problem, traits, HOPPER, ((name, getattr(best, name)),))[0]
            assert again == best or again.rows * again.columns >= best.rows * best.columns, name
            assert getattr(again, name) == getattr(best, name)


def test_products_are_made_in_turn_where_that_is_asked_for() -> None:
    mapping = ranked(ScheduleProblem(4096, 4096, 4096), CONTRACTION, HOPPER, (("turns", True),))[0]
    assert (mapping.turns, mapping.rows % 64, mapping.consumers > 1) == (True, 0, True)
    three = ranked(ScheduleProblem(4096, 4096, 4096), CONTRACTION, HOPPER, (("turns", True), ("consumers", 3)))
    assert three
    assert all(m.rows in (64, 128) and m.consumers == 3 for m in three)


@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_rows_follow_consumers_and_consumers_rows(consumers: int) -> None:
    problem = ScheduleProblem(4096, 4096, 4096)
    assert ranked(problem, CONTRACTION, HOPPER, (("consumers", consumers),))[0].rows % (64 * consumers) == 0
    assert ranked(problem, CONTRACTION, HOPPER, (("rows", 64 * consumers),))[0].consumers == consumers


def test_sizes_for_which_a_cluster_is_too_large_still_have_a_mapping() -> None:
    """A schedule changes only speed: what it fixes serves every size, well or not."""
    assert ranked(ScheduleProblem(1, 1, 64), CONTRACTION, HOPPER, (("cluster", 8),))[0].cluster == 8


def test_a_stream_that_does_not_hold_the_sizes_is_refused() -> None:
    (fixed,) = schedule("[attention]\ncolumns = 64")["attention"].of(1)
    with pytest.raises(axon.AxonError, match="one tile of a stream must hold all 128 columns"):
        fixed.ranked(ScheduleProblem(4096, 128, 128, 16, 4096), STREAM, HOPPER)


def test_what_does_not_fit_the_registers_is_blamed_on_the_values() -> None:
    (fixed,) = schedule("[product]\nrows = 128")["product"].of(1)
    (diagnostic,) = fixed.unfit().diagnostics
    assert diagnostic.message == "no mapping of `product` has rows = 128"
    assert diagnostic.labels[0].text == "it does not fit its registers"


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_kernel_overrides_all() -> None:
    both = schedule("[chain]\nstages = 3\nrows = 128\n[chain.2]\nstages = 4\ncolumns = 64")["chain"].of(2)
    assert [dict(fixed.values) for fixed in both] == [{"stages": 3, "rows": 128}, {"stages": 4, "rows": 128, "columns": 64}]
    assert [str(span) for span in both[1].places] == ["model.schedule:3:1", "model.schedule:5:1", "model.schedule:6:1"]
    assert str(both[0]) == "stages = 3, rows = 128 from model.schedule"


def test_every_field_of_a_mapping_can_be_written() -> None:
    wanted = TileMapping(128, 64, 128, 3, turns=True, persistent=False)
    lines = "\n".join(f"{name} = {value!r}".replace("True", "true").replace("False", "false") for name, value in _fields(wanted))
    (fixed,) = schedule(f"[product]\n{lines}".replace("keys = 0\n", "").replace("turns = true", "turns = false"))["product"].of(1)
    assert {name for name, _ in fixed.values} == set(kinds()) - {"keys"}


def _fields(mapping: TileMapping) -> list[tuple[str, Any]]:
    return [(name, getattr(mapping, name)) for name in kinds()]


KEY = st.sampled_from(["a", "b-c", '"d e"', "'f.g'", '"\\u00e9"', "1"])
VALUE = st.sampled_from(
    [
        "1",
        '"x # = ["',
        "'y'",
        "true",
        "[1, [2, 3], {z = 1}]",
        "1.5",
        "1979-05-27 07:32:00",
        '"""\nm = 1\n"""',
        "{q = {r = 2}, s = 3}",
    ]
)
LINE = st.tuples(st.lists(KEY, min_size=1, max_size=3).map(".".join), VALUE).map(" = ".join)
HEADER = (
    st.lists(KEY, min_size=1, max_size=2)
    .map(".".join)
    .flatmap(lambda key: st.sampled_from([f"[{key}]", f"[[{key}]] # x", f"[ {key} ]"]))
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(LINE, HEADER, st.just("# [c] = 1"), st.just("")), max_size=8).map("\n".join))
def test_places_are_where_the_keys_are(text: str) -> None:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = places(SourceFile("x", text))

    def visit(path: tuple[str, ...], value: Any) -> None:
        if path:
            (key,) = tomllib.loads(f"{found[path].key.text} = 0")
            assert key == path[-1]
        if isinstance(value, dict):
            for name, inner in value.items():
                visit((*path, name), inner)
        elif not isinstance(value, list):
            assert tomllib.loads(f"v = {found[path].value.text}")["v"] == value

    visit((), tree)


# ── in use ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def randn(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(Element.BF16.dtype)


@pytest.mark.parametrize(
    ("name", "shapes", "text"),
    [
        ("product", [(70, 96), (96, 72)], "rows = 64\ncolumns = 64\nin_flight = 0\ncluster = 2"),
        ("product", [(70, 96), (96, 72)], "rows = 192\npersistent = false\nstages = 2"),
        ("chain", [(24, 64), (64, 64)], "depth = 128\n[chain.2]\ncolumns = 128"),
        ("product", [(700, 96), (96, 72)], "turns = true"),
        ("product", [(700, 96), (96, 200)], "turns = true\nconsumers = 3\nrows = 128\ncolumns = 64"),
        ("chain", [(330, 64), (64, 64)], "turns = true\n[chain.2]\nrows = 64"),
        ("attention", [(1, 100, 64)] * 3, "keys = 64\nconsumers = 1"),
    ],
)
def test_results_do_not_depend_on_it(model: Path, name: str, shapes: list[tuple[int, ...]], text: str) -> None:
    arrays = [randn(*shape) for shape in shapes]
    want = getattr(axon.load(model), name)(*arrays, target="interpret").astype(np.float32)
    got = getattr(write(model, f"[{name}]\n{text}"), name)(*arrays, target="simulate").astype(np.float32)
    np.testing.assert_allclose(got, want, atol=2e-2 * abs(want).max())


@pytest.mark.parametrize("consumers", [2, 3])
def test_products_in_turn_on_an_emulated_gpu(model: Path, monkeypatch: pytest.MonkeyPatch, consumers: int) -> None:
    driver = emulated(monkeypatch)
    arrays = [randn(330, 64), randn(64, 64)]
    want = axon.load(model).chain(*arrays, target="interpret").astype(np.float32)
    module = write(model, f"[chain]\nturns = true\nconsumers = {consumers}\ncolumns = 64\nrows = 64")
    got = module.chain(*arrays, target="cuda").astype(np.float32)
    np.testing.assert_allclose(got, want, atol=2e-2 * abs(want).max())
    assert driver.ran["roles"] == 2
    assert f"consumers {consumers} in turn" in str(module.chain.variants)


def test_explain_emit_and_view_obey(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(model, "[product]\nrows = 64\ncolumns = 64\nstages = 5")
    assert main(["explain", f"{model}:product"]) == 0
    _sizes, *lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"  rows = 64, columns = 64, stages = 5 from {model.with_suffix('.schedule')}"
    assert "chosen" in lines[3]
    assert "tile 64×64×" in lines[3]
    assert "stages 5" in lines[3]
    assert main(["emit", f"{model}:product", "--stage", "barriers"]) == 0
    assert "ring of 5 stages" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main(["view", f"{model}:product", "--target", "cuda", "--out", str(page)]) == 0
    assert "stages 5" in page.read_text(encoding="utf-8")


def test_variants_say_it(model: Path) -> None:
    m = write(model, "[product]\nrows = 64\ncolumns = 64")
    (made,) = m.product.warmup("bf16[512, 512]", "bf16[512, 512]")
    assert (made.mapping.rows, made.mapping.columns) == (64, 64)
    assert made.why == f"sizes that were asked for, with rows = 64, columns = 64 from {model.with_suffix('.schedule')}"
    assert f"for {made.why}" in str(m.product.variants)


def test_who_does_not_read_it(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = write(model, "this is no TOML")
    arrays = randn(8, 16), randn(16, 8)
    m.product(*arrays)
    m.product(*arrays, target="cpu")
    assert main(["emit", f"{model}:product", "--stage", "cpu"]) == 0
    with pytest.raises(axon.AxonError, match="a schedule file is TOML"):
        m.product(*arrays, target="simulate")
    monkeypatch.chdir(model.parent)
    axon.compile(PROGRAM).product(*arrays, target="simulate")  # a program from memory stands beside nothing


def test_check_reports_it(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(model, "[product]\ncluster = 16")
    assert main(["check", str(model)]) == 1
    assert "a cluster has at most 8 blocks" in capsys.readouterr().out
    model.with_suffix(".schedule").unlink()
    assert main(["check", str(model)]) == 0


def test_one_that_cannot_be_read(model: Path) -> None:
    model.with_suffix(".schedule").mkdir()
    with pytest.raises(axon.AxonError, match="AX0408"):
        axon.load(model).product(randn(4, 8), randn(8, 4), target="simulate")


def test_measuring_needs_a_gpu(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        gpu()
    except Missing:
        assert main(["explain", f"{model}:product", "--measure"]) == 1
        assert "error[AX0604]: the GPU path lacks" in capsys.readouterr().out
    else:
        pytest.skip("there is a GPU; tests/gpu measures")


def test_fixed_by_nobody_says_nothing() -> None:
    assert str(Fixed()) == ""
