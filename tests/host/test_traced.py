"""Functions inside JAX's transformations, against JAX's own of the same formulas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import axon
from axon.base.errors import AxonError
from tests.sample import ALL

jax = pytest.importorskip("jax")
jnp, lax, export = jax.numpy, jax.lax, pytest.importorskip("jax.export")

MODULE = """
fun dense (p : { w : 'a[d, k], b : 'a[k] }) (x : 'a[n, d]) = for i k => tanh (p.b[k] + sum j => x[i, j] * p.w[j, k])
fun heads {h} (x, flag : bool) = (for i < h, j => x[(i, j)], sum i => if flag then x[i] else 0)
fun windows (x : f32[h]) (k : f32[r]) = for p < (h - r) / 2 + 1 => sum i => x[2 * p + i] * k[i]
fun square (x : f32[n * n]) = for i < n => x[i]
fun pick (table : f32[n]) (i : i32) = table[i]
fun same (x : f32[n]) (y : f32[n]) = for i => x[i] * y[i]
fun nonzero (x : f32[n]) = filter (for i => x[i] <> 0.0) x
fun first (x : f32[n]) (y : f32[k]) = for i < k => x[i] * y[i]
fun both (x : f32[n]) (y : f64[n]) = x
fun scale (k : 'a) (x : 'a[n]) = k * x
"""
rng = np.random.default_rng(5)


@pytest.fixture(scope="module")
def module() -> axon.Module:
    return axon.compile(MODULE)


@pytest.fixture
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def drawn(*shape: int, dtype: str = "float64") -> Any:
    return jnp.asarray(rng.standard_normal(shape), dtype)


def dense(p: Any, x: Any) -> Any:
    return jnp.tanh(p["b"] + x @ p["w"])


def close(a: Any, b: Any, tolerance: float = 1e-12) -> bool:
    return bool(
        jax.tree.all(jax.tree.map(lambda x, y: x.shape == y.shape and np.allclose(x, y, rtol=tolerance, atol=tolerance), a, b))
    )


def total(of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda p, x: (of(p, x) ** 2).sum()


def stacked(p: Any, x: Any) -> Any:
    """A batch of arguments: weights along the last axis, rows along the middle one, one bias for all."""
    return p | {"w": jnp.stack([p["w"], x[:3, :2]], 2)}, jnp.stack([x, x + 1], 1)


TRANSFORMATIONS: dict[str, Callable[..., Any]] = {
    "jit": lambda of, p, x: jax.jit(of)(p, x),
    "value and grad": lambda of, p, x: jax.jit(jax.value_and_grad(total(of), argnums=(0, 1)))(p, x),
    "jacfwd": lambda of, p, x: jax.jacfwd(of, argnums=1)(p, x),
    "vmap of grad": lambda of, p, x: jax.vmap(jax.grad(total(of), argnums=(0, 1)), in_axes=(None, 0))(p, x[:, None]),
    "vmap": lambda of, p, x: jax.vmap(of, in_axes=({"w": 2, "b": None}, 1))(*stacked(p, x)),
    "jvp": lambda of, p, x: jax.jvp(of, (p, x), jax.tree.map(jnp.cos, (p, x))),
    "jacrev": lambda of, p, x: jax.jacrev(of)(p, x),
    "scan": lambda of, p, x: jax.grad(lambda p: lax.scan(lambda s, row: (s + total(of)(p, row[None]), None), 0.0, x)[0])(p),
    "hessian": lambda of, p, x: jax.hessian(total(of), argnums=1)(p, x[:1]),
    "grad of grad": lambda of, p, x: jax.grad(lambda p: (jax.grad(total(of), argnums=1)(p, x) ** 3).sum())(p),
    "checkpoint": lambda of, p, x: jax.grad(jax.checkpoint(total(of)))(p, x),
    "vmap of vmap": lambda of, p, x: jax.vmap(jax.vmap(of, (None, 0)), (None, 1))(p, jnp.ones((2, 3, 4, 3))),
}  # each asks for functions of its own, which take a second to build


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", TRANSFORMATIONS if ALL else [*TRANSFORMATIONS][:4])
def test_a_transformation(module: axon.Module, name: str) -> None:
    """Against the same formula of JAX's, in f64."""
    p, x = {"w": drawn(3, 2), "b": drawn(2)}, drawn(4, 3)
    assert close(TRANSFORMATIONS[name](module.dense, p, x), TRANSFORMATIONS[name](dense, p, x))


@pytest.mark.usefixtures("x64")
def test_what_cannot_be_transposed_is_said(module: axon.Module) -> None:
    p, x = {"w": drawn(3, 2), "b": drawn(2)}, drawn(4, 3)
    batched = jax.vmap(lambda dx: jax.jvp(lambda x: module.dense(p, x), (x,), (dx,))[1])
    assert "transpose first" in str(raised(lambda: jax.linear_transpose(batched, x[None])(jnp.ones((1, 4, 2)))))


def test_structures_numbers_and_element_types(module: axon.Module) -> None:
    x = drawn(6, dtype="float32")
    (grid, total), (whole, other) = jax.jit(module.heads[2])((x, True)), module.heads[2]((np.asarray(x), True))
    assert close((grid, total), (whole, np.float32(other)), 1e-6)
    for dtype in ("bfloat16", "int8"):
        given = jnp.arange(5).astype(dtype)
        found = jax.jit(module.scale)(3, given)  # JAX passes the number as a weak i32
        assert (found.dtype, found.shape) == (given.dtype, (5,))
        assert found.tobytes() == np.asarray(module.scale(3, np.asarray(given))).tobytes()
    assert jax.jit(module.scale)(2.5, drawn(0, dtype="float32")).shape == (0,)


def raised(call: Callable[[], Any]) -> AxonError:
    with pytest.raises(AxonError) as found:
        call()
    return found.value


def code_of(call: Callable[[], Any]) -> str:
    diagnostic = raised(call).diagnostics[0]
    return f"{diagnostic.code} {diagnostic.message}"


def test_what_is_wrong_is_said_while_jax_traces(module: axon.Module) -> None:
    x = drawn(4, dtype="float32")
    with pytest.raises(axon.ShapeError, match=r"dimension 1 of `y` is 3, and must be 4, in a call of `same`"):
        jax.jit(module.same)(x, x[:3])
    with pytest.raises(axon.ShapeError, match=r"dimension 1 of `y` is 3, and must be 4, in a call of `same`"):
        jax.vmap(module.same)(jnp.ones((2, 4)), jnp.ones((2, 3)))
    assert code_of(lambda: jax.jit(module.same)(x, x.astype("bfloat16"))).startswith("AX0504")
    assert code_of(lambda: jax.jit(module.nonzero)(x)).startswith(
        "AX0307 a result of `nonzero` has a size that only the data decide"
    )
    assert "JAX has no float64 here" in code_of(lambda: jax.jit(lambda x: module.both(x, np.ones(4)))(x))
    assert "called without `out`" in code_of(lambda: jax.jit(lambda x: module.same(x, x, target="cpu"))(x))
    lowered = jax.jit(module.same).trace(x, x)
    assert code_of(lambda: lowered.lower(lowering_platforms=("tpu",))).startswith("AX0604 `same` is compiled by JAX for a device")


def test_what_only_the_data_show_is_said_by_the_run(module: axon.Module) -> None:
    table = drawn(4, dtype="float32")
    assert jax.jit(module.pick)(table, 2) == table[2]
    with pytest.raises(
        (jax.errors.JaxRuntimeError, ValueError), match=r"AX0502.*index 9 is outside dimension 1 of `table`, which has size 4"
    ):
        jax.jit(module.pick)(table, 9).block_until_ready()


def test_sizes_stay_open_under_export(module: axon.Module) -> None:
    h, r = export.symbolic_shape("h, r", constraints=("h >= r",))

    def specs(*shapes: Any) -> Any:
        return [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]

    (target,) = axon.jax_targets(jax.jit(module.windows), *specs((4,), (2,)))
    check = export.DisabledSafetyCheck.custom_call(target)
    made = export.export(jax.jit(module.windows), disabled_checks=[check])(*specs((h,), (r,)))
    assert str(made.out_avals[0].shape[0]) == "floordiv(r + h, 2) - r + 1"
    for sizes in ((5, 2), (9, 3)):
        x, k = (drawn(size, dtype="float32") for size in sizes)
        assert close(made.call(x, k), module.windows(np.asarray(x), np.asarray(k)), 1e-6)
    (h,) = export.symbolic_shape("h")
    with pytest.raises(axon.ShapeError, match="the contract `k <= n` does not hold, in a call of `first`"):
        export.export(jax.jit(module.first))(*specs((3,), (h + 3,)))
    with pytest.raises(axon.ShapeError, match=r"dimension 1 of `y` is h \+ 1, and must be h"):
        export.export(jax.jit(module.same))(*specs((h,), (h + 1,)))
    with pytest.raises(AxonError, match="which JAX's symbolic sizes have not"):
        export.export(jax.jit(module.square))(*specs((h * h,)))


@pytest.mark.usefixtures("own_cache")
def test_libraries_are_kept(module: axon.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    text, x = "fun twice (x : f32[n]) = for i => x[i] + x[i]", drawn(3, dtype="float32")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert code_of(lambda: jax.jit(axon.compile(text).twice)(x)) == "AX0614 there is no C compiler `no-such-compiler`"
    monkeypatch.setenv("CC", "cc")
    assert close(jax.jit(axon.compile(text).twice)(x), x + x)
    monkeypatch.setattr("axon.backend.c.xla.written", None)  # it is not built again
    assert close(jax.jit(axon.compile(text).twice)(x), x + x)


def test_jax_is_the_callers() -> None:
    code = "import axon, numpy, sys; axon.compile('fun f (x : f64[n]) = x').f(numpy.ones(3)); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
