"""`axon explain PATH:NAME --shapes`: how each dimension was derived."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from axon.tools.cli import main
from tests import ROOT

PROGRAM = """\
import nn
fun attention (q : 'a[..b, s, d]) (k : 'a[..b, t, d]) (v : 'a[..b, t, e]) =
  let val scores = for ..b i j => (sum c => q[..b, i, c] * k[..b, j, c]) * rsqrt (cast 'a d)
  in nn.softmax scores @ v end
fun residual (p : { up : nn.linear[d, h], down : nn.linear[h, d] }) (x : f32[b, d]) =
  let val hidden = x |> nn.dense p.up |> nn.gelu
      val y = nn.dense p.down hidden
  in x + y end
fun halves x = for i < 2, j => x[(i, j)]
fun convolve (x : f32[n]) k = for i => sum j => x[i + j] * k[j]
fun mixed {h} x = nn.merge_heads (nn.split_heads {h} x)
fun flat (x : f32[b, t, d]) w = (for (i, j) c => x[i, j, c]) @ w
fun unrolled (x : f32[t, d]) (start : (f32[d], f32)) =
  unfold (s = start) for i => (for j => s.1[j] + x[i, j], s.2 + 1.0)
fun evens (x : f32[n]) = x[0 : n : 2]
val table = [| [| 1, 2 |], [| 3, 4 |] |]
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("program.axon").write_text(PROGRAM, encoding="utf-8")
    return "program.axon"


def test_a_whole_file(program: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert main(["explain", program, "--shapes"]) == 0
    assert capsys.readouterr().out == snapshot


def test_one_declaration(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{program}:evens", "--shapes"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("evens : f32[n] -> f32[(n + 1) / 2]\n")
    assert "a slice of dimension 1 of `x`; written in `x : f32[n]`" in out


@pytest.mark.parametrize("module", ["linalg", "nn"])
def test_the_library_can_be_explained(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(ROOT / f"stdlib/{module}.axon"), "--shapes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    vague = [line for line in lines if "as the expression says" in line]
    assert len(vague) < len(lines) / 100  # a result that only a local function or an unusual expression decides


def test_an_unknown_name(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{program}:halvs", "--shapes"]) == 1
    assert "did you mean `halves`?" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("declaration", "line"),
    [
        ("unet.axon:double", "o  written in `p : double[o, c]`"),
        ("unet.axon:logits", "2 * w  written in `down2 : double[2 * w, w]`"),
        ("unet.axon:logits", "3      written in `first : nn.conv[o, c, 3, 3]`"),
        ("whisper.axon:encode", "3  written in `conv1 : conv[d, m, 3]`"),
        ("whisper.axon:encode", "d  written in `p : encoder[m, n, d]`"),
        ("gpt2.axon:logits_small", "768  written in `p : gpt2[50257, 1024, 12, 768]`"),
        ("gpt2.axon:attention", "d % h = 0   the last dimension of `projected` is split"),
    ],
)
def test_of_models(declaration: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(ROOT / "examples" / "models" / declaration), "--shapes"]) == 0
    assert line in capsys.readouterr().out


def test_size_of_data_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What an annotation calls a size that only the data decide, it is called here too."""
    path = tmp_path / "kept.axon"
    path.write_text(
        "fun net (x : f32[n, 2]) = let val (kept : f32[q]) = filter (for i => x[i, 0] > 0.0) x[:, 1] in sum i => kept[i] end\n"
    )
    assert main(["explain", "--shapes", f"{path}:net"]) == 0
    out = capsys.readouterr().out
    assert "kept : f32[q]" in out
    assert "k  written" not in out
