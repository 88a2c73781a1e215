"""`axon explain --measure` on a real GPU; a schedule changes the kernel, not the result. Skipped where there is no Hopper GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import axon
from axon.tools.cli import main

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

PROGRAM = """\
fun product (a : bf16[m, k]) (b : bf16[k, n]) = a @ b
fun attention (q : bf16[b, s, c]) (k : bf16[b, t, c]) (v : bf16[b, t, c]) =
  let val x = for b i j => sum c => q[b, i, c] * k[b, j, c]
      val z = for b i j => let val m = max l => x[b, i, l] val y = sum l => exp (x[b, i, l] - m) in exp (x[b, i, j] - m) / y end
  in z @ v end
"""
SCHEDULE = """\
[product]
rows = 128
columns = 128
cluster = 1
"""
LINE = re.compile(r"([\d.]+) µs predicted, +\d+ TFLOP/s, +([\d.]+) µs measured, +(\d+) TFLOP/s")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.axon"
    file.write_text(PROGRAM, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("product", ["a=randn(bf16[4096, 4096])", "b=randn(bf16[4096, 4096])"]),
        ("attention", [f"{x}=randn(bf16[32, 2048, 128])" for x in "qkv"]),
    ],
)
def test_predicted_against_measured(model: Path, name: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"{model}:{name}", "--measure", *arguments]) == 0
    out = capsys.readouterr().out
    print(out)
    times = [(float(predicted), float(measured), int(rate)) for predicted, measured, rate in LINE.findall(out)]
    assert len(times) >= 2, out
    assert "chosen" in out.splitlines()[2]
    for predicted, measured, rate in times:
        assert 0.5 < predicted / measured < 2, out
        assert 50 < rate < 1000, out
    assert times[0][1] < 1.3 * min(measured for _, measured, _ in times), out


def test_a_schedule_changes_the_kernel_and_not_the_result(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    free = axon.load(model)
    want = free.product(a, b)
    model.with_suffix(".schedule").write_text(SCHEDULE, encoding="utf-8")
    bound = axon.load(model)
    torch.testing.assert_close(bound.product(a, b), want)
    (made,) = bound.product.variants
    assert (made.mapping.rows, made.mapping.columns, made.mapping.cluster) == (128, 128, 1)
    assert "with rows = 128, columns = 128, cluster = 1 from" in made.why
    assert main(["explain", f"{model}:product", "--measure", "a=randn(bf16[512, 512])", "b=randn(bf16[512, 512])"]) == 0
    out = capsys.readouterr().out
    print(out)
    assert "rows = 128, columns = 128, cluster = 1 from" in out
    assert LINE.search(out), out
