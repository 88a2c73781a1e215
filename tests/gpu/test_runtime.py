"""The runtime on a real GPU: array libraries, streams, graphs, threads, memory, failures. Skipped where there is no Hopper GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

PROGRAM = """\
fun product (a : 'a[i, k]) (b : 'a[k, j]) = for i j => sum k => a[i, k] * b[k, j]
fun deep (x : bf16[b, d]) (w : bf16[d, d]) =
  let val p = x @ w + x val q = p @ w + p val r = q @ w + q val s = r @ w + r in { last = s, second = q } end
fun scaled (a : bf16[m, k]) (b : bf16[k, n]) (s : f32) = for i j => (sum c => cast f32 a[i, c] * cast f32 b[c, j]) * s
"""


@pytest.fixture(scope="module")
def m() -> Any:
    return axon.compile(PROGRAM)


def randn(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    return (torch.randn(*shape, device="cuda") * shape[-1] ** -0.5).to(dtype)


def near(got: Any, want: Any, tolerance: float = 3e-2) -> None:
    got, want = (torch.as_tensor(x).float().cpu() for x in (got, want))
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def deep(x: Any, w: Any) -> dict[str, Any]:
    layers = [x]
    for _ in range(4):
        layers.append(layers[-1] @ w + layers[-1])
    return {"last": layers[4], "second": layers[2]}


def test_streams(m: Any) -> None:
    """Work is ordered on the current stream, behind what is there."""
    stream = torch.cuda.Stream()
    a, b = randn(512, 512), randn(512, 512)
    want = (a * 2) @ b
    for _ in range(5):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            late = a.clone()
            torch.cuda._sleep(2_000_000)
            late *= 2
            got = m.product(late, b)
        torch.cuda.current_stream().wait_stream(stream)
        near(got, want)


def test_nothing_waits(m: Any) -> None:
    """A call returns while the GPU is still busy."""
    a, b = randn(512, 512), randn(512, 512)
    for f in (lambda: m.product(a, b), lambda: m.deep(a, b)):
        for _ in range(3):
            f()
        torch.cuda.synchronize()
        torch.cuda._sleep(400_000_000)
        f()
        assert not torch.cuda.current_stream().query()
        torch.cuda.synchronize()


def test_graphs_follow_their_arguments(m: Any) -> None:
    w = randn(256, 256)
    for _ in range(20):
        x = randn(128, 256)
        got, want = m.deep(x, w), deep(x, w)
        for name in want:
            near(got[name], want[name])
    out = {name: torch.empty(128, 256, device="cuda", dtype=torch.bfloat16) for name in ("last", "second")}
    for _ in range(5):
        x = randn(128, 256)
        assert m.deep(x, w, out=out) is out
        near(out["last"], deep(x, w)["last"])


def test_a_captured_call(m: Any) -> None:
    x, w = randn(128, 256), randn(256, 256)
    for _ in range(3):
        m.deep(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = m.deep(x, w)
    for _ in range(3):
        x.copy_(randn(128, 256))
        graph.replay()
        near(got["last"], deep(x, w)["last"])


def test_threads_and_streams(m: Any) -> None:
    w = randn(256, 256)
    inputs = [randn(64, 256) for _ in range(8)]
    wanted = [deep(x, w)["last"] for x in inputs]
    torch.cuda.synchronize()

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                got = m.deep(inputs[number], w)["last"]
                torch.cuda.current_stream().synchronize()
                near(got, wanted[number])

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, n) for n in range(8)]:
            future.result()


def test_out_and_views(m: Any) -> None:
    a, b = randn(200, 128), randn(128, 136)
    wide = torch.zeros(200, 300, device="cuda", dtype=torch.bfloat16)
    for room in (torch.empty_like(wide[:, :136]), wide[:, 3:139], wide[:, 8:144]):
        for _ in range(2):
            assert m.product(a, b, out=room) is room
            near(room, a @ b)
    near(m.product(a, b.T.contiguous().T), a @ b)
    with pytest.raises(axon.AxonError, match="shares memory"):
        m.product(a, randn(128, 128), out=a)


def test_numbers(m: Any) -> None:
    a, b = randn(64, 64), randn(64, 64)
    for s in (2.0, 0.5, 3, 2.0):
        near(m.scaled(a, b, s), (a.float() @ b.float()) * s)


def test_a_number_that_nothing_uses() -> None:
    f = axon.compile("fun f (x : f32[n]) (unused : i32) (y : f32[n]) = for i => x[i] - y[i]").f
    x, y = torch.randn(2, 1000, device="cuda")
    for number in (3, 4):
        assert torch.equal(f(x, number, y), x - y)


def test_numpy(m: Any) -> None:
    import ml_dtypes

    a, b = (np.random.default_rng(s).standard_normal((96, 96)).astype(ml_dtypes.bfloat16) for s in (0, 1))
    got = m.product(a, b, target="cuda")
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), rtol=2e-2, atol=2e-1)


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "p.axon").write_text(PROGRAM)
    shown = []
    for target in ("cuda", "cpu"):
        command = [sys.executable, "-m", "axon", "run", str(tmp_path / "p.axon:product"), "a=full(bf16[8, 16], 0.5)"]
        ran = subprocess.run([*command, "b=full(bf16[16, 8], 2.0)", "--target", target], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        shown.append(ran.stdout)
    assert shown[0] == shown[1]


def test_cupy(m: Any) -> None:
    cupy = pytest.importorskip("cupy")
    a, b = (cupy.random.standard_normal((96, 64), dtype=cupy.float32).astype(cupy.float16) for _ in range(2))
    for _ in range(3):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            got = m.product(a, b.T)
            stream.synchronize()
        assert isinstance(got, cupy.ndarray)
        cupy.testing.assert_allclose(
            got.astype(cupy.float32), a.astype(cupy.float32) @ b.T.astype(cupy.float32), rtol=2e-2, atol=1e-1
        )
    out = cupy.empty((96, 96), cupy.float16)
    assert m.product(a, b.T, out=out) is out


def test_numba(m: Any) -> None:
    cuda = pytest.importorskip("numba.cuda")
    a, b = (np.random.default_rng(s).standard_normal((64, 64)).astype(np.float16) for s in (0, 1))
    for _ in range(3):
        got = m.product(cuda.to_device(a), cuda.to_device(b))
        np.testing.assert_allclose(got.copy_to_host(), a.astype(np.float32) @ b.astype(np.float32), rtol=2e-2, atol=1e-1)


JAX = """
import axon, jax, jax.numpy as jnp, numpy as np
m = axon.compile('''{program}''')
k1, k2 = jax.random.split(jax.random.key(0))
a = jax.random.normal(k1, (512, 512), jnp.bfloat16)
b = jax.random.normal(k2, (512, 512), jnp.bfloat16)
for _ in range(10):
    late = jnp.tanh(a @ b)  # still being computed when it is given
    got = m.product(late, b)
    assert isinstance(got, jax.Array), type(got)
    after = got.astype(jnp.float32) * 1.0  # JAX waits for our kernel
    del got
    want = late.astype(jnp.float32) @ b.astype(jnp.float32)
    np.testing.assert_allclose(np.asarray(after), np.asarray(want), rtol=3e-2, atol=1.0)
d = m.deep(a / 20, b / 20)
assert d["last"].shape == (512, 512)
print("right")
"""


def test_jax() -> None:
    pytest.importorskip("jax")
    code = JAX.format(program=PROGRAM)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )
    assert ran.stdout == "right\n", ran.stderr[-3000:]


def test_one_library_at_a_time(m: Any) -> None:
    cupy = pytest.importorskip("cupy")
    with pytest.raises(axon.AxonError, match="must be a PyTorch tensor on GPU 0, as `a` is, not a CuPy array"):
        m.product(randn(64, 64, dtype=torch.float16), cupy.ones((64, 64), cupy.float16))
    with pytest.raises(axon.AxonError, match="on the host"):
        m.product(randn(64, 64), randn(64, 64).cpu())


def test_a_sweep_makes_three_variants() -> None:
    m = axon.compile(PROGRAM)
    for step in range(40):
        i, k, j = 1 + 41 * step, 8 * (1 + step * 7 % 40), 8 * (1 + step * 11 % 40)
        a, b = randn(i, k), randn(k, j)
        near(m.product(a, b), a @ b)
    assert len(m.product.variants) <= 3


def test_out_of_memory(m: Any) -> None:
    torch.cuda.set_per_process_memory_fraction(0.02)
    try:
        a = randn(64, 64).expand(64, 64)
        rows = 400_000
        with pytest.raises(axon.AxonError, match="AX0613"):
            m.product(a[:1].expand(rows, 64).contiguous(), randn(64, 8192))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    near(m.product(a, a), a @ a)


FAULT = """
import time, axon, torch
m = axon.compile('''{program}''')
a, b = (torch.ones(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
m.product(a, a, out=b)
torch._assert_async(torch.zeros((), device="cuda", dtype=torch.bool))
try:
    for _ in range(1000):
        m.product(a, a, out=b)
        time.sleep(0.001)
except axon.AxonError as error:
    print(error.diagnostics[0].code, "launched earlier failed" in str(error))
"""


def test_an_earlier_kernel_that_failed_is_said() -> None:
    ran = subprocess.run([sys.executable, "-c", FAULT.format(program=PROGRAM)], capture_output=True, text=True)
    assert ran.stdout.split() == ["AX0612", "True"], ran.stdout + ran.stderr[-2000:]
