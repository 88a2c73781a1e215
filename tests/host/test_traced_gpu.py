"""Functions inside JAX's transformations where XLA's device is a GPU: an emulated one, which lends the host's buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.runtime.failures import synchronize
from axon.host import traced
from tests.backend.gpu.runtime.emulated import EmulatedDriver, emulated

jax = pytest.importorskip("jax")
mlir = pytest.importorskip("jax.interpreters.mlir")
jnp = jax.numpy

MODULE = """
fun dense (p : { w : f32[d, k], b : f32[k] }) (x : f32[n, d]) (s : f32) =
  (for i k => s * tanh (p.b[k] + sum j => x[i, j] * p.w[j, k]), sum i j => x[i, j])
fun halves {h} (x : bf16[n]) = for i < n / h => x[i] + x[i]
fun pick (table : f32[n]) (ids : i32[k]) = for i => table[ids[i]]
fun settled (x : f32[n]) =
  let val (y, _) = loop (y = x, e = 1.0) while e > 0.1 for _ < 100 => (for i => y[i] * 0.5, e * 0.5) in y end
"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    """XLA's device is a GPU from here on: what is compiled for the host is compiled as for that."""
    driver = emulated(monkeypatch)
    monkeypatch.setattr(compiler.lent(), "driver", lambda: driver)
    monkeypatch.setattr(traced, "_stream_of", lambda context: 77)
    rules = mlir._platform_specific_lowerings
    for primitive in (traced._primitives().call, traced._primitives().tangent):
        monkeypatch.setitem(rules["cpu"], primitive, rules["cuda"][primitive])
    return driver


def dense(p: Any, x: Any, s: Any) -> Any:
    return s * jnp.tanh(p["b"] + x @ p["w"]), x.sum()


def close(got: Any, wanted: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5), got, wanted)


def test_it_is_called_with_buffers_where_they_lie(gpu: EmulatedDriver) -> None:
    m = axon.compile(MODULE)
    p, x = {"w": jnp.ones((3, 2)) * 0.3, "b": jnp.ones(2)}, jnp.arange(12.0).reshape(4, 3) / 10
    ours, own = (jax.jit(lambda p, x, of=of: of(p, jnp.sin(x), 2.0)) for of in (m.dense, dense))
    for n in (4, 4, 4, 2):  # the second call on is launched again by what the first has found
        close(ours(p, x[:n]), own(p, x[:n]))
    assert gpu.ran["plain"]
    assert {stream for _, stream in gpu.launched} | set(gpu.replayed) == {77}
    y = jnp.arange(6).astype(jnp.bfloat16)
    assert jax.jit(m.halves[2])(y).tolist() == [0, 2, 4]
    assert jax.jit(m.settled)(x[:, 0]).tolist() == (x[:, 0] / 16).tolist()


def test_gradients_and_batches(gpu: EmulatedDriver) -> None:
    m = axon.compile(MODULE)
    p, x = {"w": jnp.ones((3, 2)) * 0.3, "b": jnp.ones(2)}, jnp.arange(12.0).reshape(4, 3) / 10
    ours, own = (lambda p, x, of=of: (of(p, x, 1.5)[0] ** 2).sum() for of in (m.dense, dense))
    close(*(jax.jit(jax.vmap(jax.grad(f, argnums=(0, 1)), in_axes=(None, 0)))(p, x[:, None]) for f in (ours, own)))


def test_memory_between_kernels_is_given_back(gpu: EmulatedDriver) -> None:
    m = axon.compile(MODULE)
    f, x = jax.jit(m.settled), jnp.arange(5.0)
    f(x).block_until_ready()
    held = len(gpu.held)
    for _ in range(3):
        f(x).block_until_ready()
    assert len(gpu.held) == held


def test_what_is_wrong_is_said(gpu: EmulatedDriver) -> None:
    m = axon.compile(MODULE)
    f, table = jax.jit(m.pick), jnp.arange(4.0)
    assert f(table, jnp.asarray([3, 1])).tolist() == [3, 1]
    f(table, jnp.asarray([1, 7])).block_until_ready()  # nobody waits for a GPU: a later call says it
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match=r"AX05\d\d.*(index|kernel)"):
        f(table, jnp.asarray([1, 2])).block_until_ready()
    f(table, jnp.asarray([1, 7])).block_until_ready()
    with pytest.raises(axon.AxonError):
        synchronize()


def test_no_export(gpu: EmulatedDriver) -> None:
    export = pytest.importorskip("jax.export")
    (n,) = export.symbolic_shape("n")
    given = jax.ShapeDtypeStruct((n,), "float32"), jax.ShapeDtypeStruct((2,), "int32")
    with pytest.raises(axon.AxonError, match=r"AX0505.*`pick` is exported for GPUs"):
        export.export(jax.jit(axon.compile(MODULE).pick), platforms=["cpu"])(*given)
