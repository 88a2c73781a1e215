"""Models beyond a check: kept on disk, in editors, at the prompt, and as text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import axon
from axon import compiler
from axon.base.source import SourceFile
from axon.checker import kept
from axon.checker.check import Session
from axon.checker.loader import FileLoader
from axon.tools.commands.listing import made_of, require_name
from axon.tools.editor.complete import complete
from axon.tools.editor.hover import hover
from axon.tools.editor.outline import outline
from tests.tools.editor.programs import analysed, cursor, informed, text_of
from tests.tools.editor.test_analysis import said, signatures

MODELS = Path(__file__).with_name("models.axon")
SCHOOLS = """import dist
fun schools (sigma : f32[n]) (y : f32[n]) =
  let val mu ~ dist.normal 0.0 5.0
      val theta ~ for i < n => dist.normal mu 1.0
      observe y ~ for i => dist.normal theta[i] sigma[i]
  in theta end
"""
REJECTED = sorted((Path(__file__).parents[1] / "corpus" / "rejected").glob("model_*.axon"))


VOTES = """import dist
fun votes (p : f64[n]) (y : f64) =
  let val z ~ for i < n => dist.bernoulli p[i]
      observe y ~ dist.normal (sum i => cast f64 z[i]) 1.0
  in z end
"""  # whose latents cannot be summed out


@pytest.mark.parametrize("names", [("schools", "studies"), ("votes",)])
def test_models_are_kept(names: tuple[str, ...], tmp_path: Path) -> None:
    loader = FileLoader()
    (tmp_path / "votes.axon").write_text(VOTES, encoding="utf-8")
    source = loader.read(str(tmp_path / "votes.axon" if "votes" in names else MODELS))
    assert isinstance(source, SourceFile)
    checked = Session(loader, reads=False).check(source)  # all of it anew: symbols are older than those that are made of them
    lines = kept._lines(checked)
    imports, exports = checked.imports, checked.exports
    assert exports is not None
    read = kept._Reading(source, imports, lambda anew: checked, lines).module()
    assert dict(read.signatures) == dict(checked.signatures)
    for name in names:
        assert read.exports.values[name].model == exports.values[name].model  # type: ignore[union-attr]


@pytest.mark.parametrize("text", [SCHOOLS, *map(text_of, REJECTED[::6])], ids=["schools", *(f.stem for f in REJECTED[::6])])
def test_editors_say_what_a_check_says(text: str) -> None:
    whole = compiler.check_text(text)
    workspace = informed(text)
    analysis = analysed(text, "<text>", workspace)
    for untried in workspace.untried(analysis):
        workspace.try_suggestions(analysis, untried)
    assert said(analysis.diagnostics()) == said(whole.diagnostics)
    assert signatures(analysis) == dict(whole.signatures)


@pytest.mark.parametrize(
    ("marked", "parts"),
    [
        (
            SCHOOLS.replace("fun schools", "fun ▮schools"),
            ["latents : { mu : f32, theta : f32[n] }", "observes : { y : f32[n] }", "i < n\n  theta ~ mu\n  observe"],
        ),
        (SCHOOLS.replace("val theta", "val ▮theta"), ["theta : f32[n]"]),
        (SCHOOLS.replace("theta[i] s", "▮theta[i] s"), ["theta : f32[n]"]),
        (SCHOOLS.replace("for i => dist.normal", "for i => dist.▮normal"), ["normal", "here f32 -> f32 ->"]),
    ],
)
def test_hover(marked: str, parts: list[str]) -> None:
    text, at = cursor(marked)
    found = hover(analysed(text), at)
    assert found is not None
    for part in parts:
        assert part in found.markdown


def test_completion_and_outline() -> None:
    text, at = cursor(SCHOOLS + "fun f (y : f32[n]) = schools.▮")
    labels = [item.label for item in complete(informed(), analysed(text), at)]
    assert labels[:3] == ["value", "log_density", "prior"]
    assert [entry.name for entry in outline(analysed(SCHOOLS))] == ["dist", "schools"]


def test_what_is_made_of_a_model() -> None:
    checked = compiler.check_text(SCHOOLS)
    assert (
        made_of(checked, "schools.prior")
        == """\
fun schools.prior (sigma : f32[n]) (y : f32[n]) key =
  let val key.given = key
  in
    let val mu.key = random.fold_in key.given 212344659
        val mu.latents = (dist.normal 0.0 5.0).sample mu.key 0
        val mu.density = (dist.normal 0.0 5.0).log_density mu.latents
        val mu = mu.latents
        val theta.key = random.fold_in key.given 1268715802
        val theta.latents = for i < n => (dist.normal mu 1.0).sample theta.key i
        val theta.density = sum for i < n => (dist.normal mu 1.0).log_density theta.latents[i, ..]
        val theta = theta.latents
        val y.data = y
        val y.seen =
          (y.data
           like for i => (y.data[i, ..] like (dist.normal theta[i] sigma[i]).sample [| 0, 0 |] i))
        val y.density = sum i => (dist.normal theta[i] sigma[i]).log_density y.seen[i, ..]
        val _.density = mu.density + theta.density + y.density
    in { mu = mu.latents, theta = theta.latents } end
  end"""
    )


def test_a_model_is_not_what_a_command_works_on() -> None:
    with pytest.raises(axon.AxonError, match=r"`schools` is a model: name one of its functions\n.*`schools.prior`"):
        require_name(compiler.check_text(SCHOOLS), "schools.axon", "schools")


def test_at_the_prompt() -> None:
    lines = f"{' '.join(SCHOOLS.split(chr(10))[1:])}\nschools.likelihood [| 1.0 |] [| 0.5 |] {{ mu = 0.0, theta = [| 0.5 |] }}\n"
    command = [sys.executable, "-m", "axon", "repl"]
    out = subprocess.run(command, input="import dist\n" + lines, capture_output=True, text=True, check=True).stdout
    assert "schools : model of mu, theta[n], observe y[_]" in out
    assert "-0.9189385 : f32" in out
    assert "waits" not in out


def test_a_stub_has_models(tmp_path: Path) -> None:
    from axon.host.call import Session as Called
    from axon.tools.commands.stub import stub

    text = stub(Called(compiler.check_text(SCHOOLS)), "schools.axon")
    compile(text, "schools.pyi", "exec")
    assert "class _schools(Model):\n    value: _schools_value\n" in text
    assert "from axon import Function, Model" in text
    assert "Model" not in stub(Called(compiler.check_text("fun f x = x + 1.0")), "f.axon")


def test_loading_a_module_of_models_lists_them() -> None:
    module = axon.compile(SCHOOLS)
    assert dir(module) == ["schools"]
    assert list(module)[:2] == ["schools.value", "schools.log_density"]
