"""Axon's functions in PyTorch's autograd: cases, each for a device, that `test_autograd.py` runs here and `tests/gpu` on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import axon

torch = pytest.importorskip("torch")

PROGRAM = """
import nn
type linear['a, d, k] = { w : 'a[d, k], b : 'a[k] }
fun product (a : 'a[n, k]) (b : 'a[k, m]) = a @ b
fun dense (p : linear['a, d, k]) x = tanh (x @ p.w + p.b)
fun both (p : (f64[n], { w : f64[n], k : f64 })) (x : f64[n]) =
  { out = (for i => p.1[i] * p.2.w[i] * p.2.k, sum i => x[i] * x[i] * p.1[i]), best = argmax i => x[i] }
fun cube (x : 'a[n]) = for i => x[i] ** 3
fun sines (x : f64[n]) (y : f64[n]) = for i => sin x[i] * exp y[i]
fun scaled k x = k * x
fun heads {h} (x : 'a[h * n]) = for i < h, j => x[(i, j)] * x[(i, j)]
fun picked (x : 'a[n]) (ids : i32[k]) = for i => x[ids[i]] ** 2
fun kept (x : 'a[n]) = filter (x > 0.0) x
fun parted (x : f64[n]) = { some = filter (x > 0.0) x, places = nonzero (x > 0.0), all = sum i => x[i] }
fun counted (x : f64[n]) = (sum i => x[i] * x[i], for i => x[i] > 0.0)
fun power (n : i32) (x : f64) = loop (x = x) for _ < n => x * x
fun running (w : f64) (x : f64[t]) = unfold (h = 0.0) for i < t => tanh (w * h + x[i])
fun straight x = with_vjp round (fn _ dy => dy) x
fun loss (p : { up : linear[f32, d, h], down : linear[f32, h, k] }) x (t : i32[n]) =
  nn.cross_entropy (nn.dense p.down (nn.relu (nn.dense p.up x))) t
"""


@dataclass
class Layer:
    w: Any
    b: Any


CASES: dict[str, Callable[[str], None]] = {}


def case(function: Callable[[str], None]) -> Callable[[str], None]:
    CASES[function.__name__] = function
    return function


@cache
def module() -> Any:
    return axon.compile(PROGRAM)


def normal(*shape: int, device: str, dtype: Any = None, seed: int = 0, grad: bool = False) -> Any:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x.to(device=device, dtype=dtype or torch.float64).requires_grad_(grad)


def same(got: Any, want: Any, tolerance: float = 1e-9) -> None:
    assert got.dtype == want.dtype
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance)


def all_modes(function: Any, *given: Any) -> None:
    """First and second derivatives, and tangents, against differences."""
    given = tuple(x.clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in given)
    assert torch.autograd.gradcheck(function, given, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, given, check_fwd_over_rev=True, check_rev_over_rev=True)


# ── derivatives ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@case
def derivatives_of_every_order(device: str) -> None:
    m = module()
    x, y, s = normal(5, device=device), normal(5, device=device, seed=1), normal(device=device, seed=2)
    ids = torch.tensor([0, 1, 1, 4], dtype=torch.int32, device=device)
    all_modes(m.cube, x)
    all_modes(m.sines, x, y)
    all_modes(m.product, normal(2, 3, device=device), normal(3, 4, device=device, seed=1))
    all_modes(lambda x: m.picked(x, ids), x)
    all_modes(m.running, s, x)


@case
def scalars_that_stand_for_tensors(device: str) -> None:
    m = module()
    x, s = normal(2, 3, device=device), normal(device=device, seed=2)
    all_modes(m.scaled, x, s)
    all_modes(m.scaled, s, x)
    all_modes(m.scaled, x, x.clone())
    all_modes(lambda x: m.scaled(2.0, x), x)
    all_modes(lambda x: m.scaled(k=x, x=3), x)


@case
def dimension_parameters(device: str) -> None:
    m = module()
    x = normal(12, device=device)
    for h in (2, 3, 2):
        all_modes(m.heads[h], x)
    grads = normal(3, 4, device=device, seed=1)
    leaf = x.clone().requires_grad_()
    m.heads[3](leaf).backward(grads)
    same(leaf.grad, 2 * x * grads.reshape(12))


@case
def structures_and_several_results(device: str) -> None:
    m = module()

    def wanted(v: Any, w: Any, k: Any, x: Any) -> Any:
        return v * w * k, (x * x * v).sum()

    def got(v: Any, w: Any, k: Any, x: Any) -> Any:
        made = m.both((v, {"k": k, "w": w}), x)
        assert not made["best"].requires_grad
        assert int(made["best"]) == int(x.argmax())
        return made["out"]

    v, w, x = (normal(4, device=device, seed=n, grad=True) for n in range(3))
    k = normal(device=device, seed=9, grad=True)
    all_modes(got, v, w, k, x)
    for used in ([0], [1], [0, 1]):
        for by in ([v], [k, x], [v, w, k, x]):
            found, expected = (
                torch.autograd.grad(sum((f(v, w, k, x)[n] ** 2).sum() for n in used), by, allow_unused=True, materialize_grads=True)
                for f in (got, wanted)
            )
            for a, b in zip(found, expected, strict=True):
                same(a, b)


@case
def dataclasses(device: str) -> None:
    m, x = module(), normal(4, device=device)
    for _ in range(3):
        p = Layer(normal(4, 3, device=device, grad=True), normal(3, device=device, grad=True))
        m.dense(p, x[None]).sum().backward()
        slope = 1 - torch.tanh(x @ p.w + p.b).detach() ** 2
        same(p.b.grad, slope)
        same(p.w.grad, x[:, None] * slope)
        with torch.no_grad():
            same(m.dense(p, x[None])[0], torch.tanh(x @ p.w + p.b))


@case
def a_parameter_that_is_called_out(device: str) -> None:
    m = axon.compile("fun f (x : 'a[n]) (out : 'a[n]) = for i => x[i] * out[i]")
    x, y = normal(4, device=device), normal(4, device=device, seed=1, grad=True)
    for _ in range(2):
        same(torch.autograd.grad(m.f(x, out=y).sum(), y)[0], x)


@case
def only_what_requires_grad(device: str) -> None:
    m = axon.compile(PROGRAM)
    a, b = normal(3, 4, device=device), normal(4, 5, device=device, seed=1, grad=True)
    y = m.product(a, b)
    y.sum().backward()
    same(b.grad, a.sum(0)[:, None].expand(4, 5))
    assert [callee.name for _, callee in m._session.derived.values()] == ["product_vjp_1_of_0"]
    assert not m.product(a, b.detach()).requires_grad


@case
def element_types(device: str) -> None:
    m = module()
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
        w, b, x = (normal(*s, device=device, dtype=dtype, seed=n) for n, s in enumerate(((8, 4), (4,), (6, 8))))
        found = [t.clone().requires_grad_() for t in (w, b, x)]
        y = m.dense({"w": found[0], "b": found[1]}, found[2])
        assert y.dtype == dtype
        seed = normal(6, 4, device=device, dtype=dtype, seed=7)
        y.backward(seed)
        exact = [t.double().requires_grad_() for t in (w, b, x)]
        torch.tanh(exact[2] @ exact[0] + exact[1]).backward(seed.double())
        for f, e in zip(found, exact, strict=True):
            assert f.grad.dtype == dtype
            torch.testing.assert_close(f.grad.double(), e.grad, rtol=10 * tolerance, atol=10 * tolerance)


@case
def gradients_that_come_in_any_layout(device: str) -> None:
    m = module()
    a, b = normal(3, 4, device=device, grad=True), normal(4, 5, device=device, seed=1)
    y = m.product(a, b)
    for loss, seed in (
        (y.sum(), torch.ones(3, 5)),  # one number, seen as all
        (y.T.contiguous().T.mul(torch.arange(5.0, device=device)).sum(), torch.arange(5.0).expand(3, 5)),
        (y[:, ::2].sum(), torch.tensor([1.0, 0, 1, 0, 1]).expand(3, 5)),
        (y.flip(0).t().sum(), torch.ones(3, 5)),
    ):
        (found,) = torch.autograd.grad(loss, a, retain_graph=True)
        same(found, seed.to(b) @ b.T)
    seed = normal(5, 3, device=device, seed=3).T
    assert not seed.is_contiguous()
    same(torch.autograd.grad(y, a, seed, retain_graph=True)[0], seed @ b.T)
    negated = torch.view_as_complex(normal(3, 5, 2, device=device)).conj().imag
    same(torch.autograd.grad(y, a, negated)[0], negated.resolve_neg() @ b.T)
    transposed = normal(4, 3, device=device, grad=True)
    m.product(transposed.T, b).sum().backward()
    same(transposed.grad, b.sum(1)[:, None].expand(4, 3))


@case
def rules_sizes_from_data_and_integers(device: str) -> None:
    m = module()
    x = torch.tensor([1.5, -2.0, 3.25], dtype=torch.float64, device=device, requires_grad=True)
    same(torch.autograd.grad(m.straight(x).sum(), x)[0], torch.ones_like(x))
    y = m.kept(x)
    assert y.shape == (2,)
    same(torch.autograd.grad((y**2).sum(), x)[0], 2 * x.detach() * (x > 0))
    all_modes(m.kept, x)
    found = m.parted(x)
    same(torch.autograd.grad((found["some"] ** 2).sum() + found["all"], x)[0], 2 * x.detach() * (x > 0) + 1)
    total, positive = m.counted(x)
    assert not positive.requires_grad
    assert positive.tolist() == [True, False, True]
    same(torch.autograd.grad(total, x)[0], 2 * x.detach())
    ids = torch.tensor([0, 0, 2], dtype=torch.int32, device=device)
    same(torch.autograd.grad(m.picked(x, ids).sum(), x)[0], 2 * x.detach() * torch.tensor([2.0, 0, 1], device=device))


# ── what PyTorch does around a call ─────────────────────────────────────────────────────────────────────────────────────


@case
def modes_without_gradients(device: str) -> None:
    m = module()
    x = normal(5, device=device, grad=True)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            y = m.cube(x)
            assert not y.requires_grad
            same(y, x.detach() ** 3)
        assert m.cube(x).requires_grad  # what was learned meanwhile does not let it through
        assert not m.cube(x.detach()).requires_grad
    with torch.no_grad(), torch.enable_grad():
        assert m.cube(x).requires_grad
    out = torch.empty(5, dtype=torch.float64, device=device)
    for _ in range(2):
        with pytest.raises(axon.AxonError, match=r"AX0505.*requires grad, and no gradient passes through `out=`(.|\n)*detach\(\)"):
            m.cube(x, out=out)
    with torch.no_grad():
        assert m.cube(x, out=out) is out
    same(out, x.detach() ** 3)


@case
def a_graph_as_any_other(device: str) -> None:
    m = module()
    x = normal(5, device=device, grad=True)
    y = m.cube(x)
    assert type(y.grad_fn).__name__ == "AxonBackward"
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    same(x.grad, 6 * x.detach() ** 2)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    seen: list[Any] = []
    z = m.cube(x)
    z.register_hook(lambda g: seen.append(g) or g * 2)
    (found,) = torch.autograd.grad(m.cube(z).sum(), x)
    same(seen[0], 3 * z.detach() ** 2)
    same(found, 2 * 9 * x.detach() ** 8, 1e-7)
    leaf = normal(5, device=device, grad=True)
    y = m.cube(leaf)
    with torch.no_grad():
        leaf.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    checkpointed = torch.utils.checkpoint.checkpoint(m.cube, x, use_reentrant=False)
    same(torch.autograd.grad(checkpointed.sum(), x)[0], 3 * x.detach() ** 2)


@case
def a_module_learns(device: str) -> None:
    m = module()
    torch.manual_seed(0)
    net = torch.nn.ParameterDict(
        {n: torch.randn(s, device=device) * s[0] ** -0.5 for n, s in {"u": (16, 32), "d": (32, 4)}.items()}
    )
    net |= {"ub": torch.zeros(32, device=device), "db": torch.zeros(4, device=device)}
    x, t = torch.randn(64, 16, device=device), torch.randint(0, 4, (64,), device=device, dtype=torch.int32)

    def loss(of: Any) -> Any:
        return of({"up": {"w": net["u"], "b": net["ub"]}, "down": {"w": net["d"], "b": net["db"]}}, x, t)

    def peer(p: Any, x: Any, t: Any) -> Any:
        hidden = torch.relu(x @ p["up"]["w"] + p["up"]["b"])
        return torch.nn.functional.cross_entropy(hidden @ p["down"]["w"] + p["down"]["b"], t.long())

    for _ in range(2):
        found, wanted = (torch.autograd.grad(loss(f), list(net.values())) for f in (m.loss, peer))
        for a, b in zip(found, wanted, strict=True):
            same(a, b, 1e-4)
    optimizer = torch.optim.AdamW(net.values(), lr=1e-2)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        value = loss(m.loss)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert losses[-1] < 0.5 * losses[0]


@case
def numbers_and_lists_beside_tensors(device: str) -> None:
    m = module()
    x = normal(3, device=device, grad=True)
    if device == "cpu":
        same(torch.autograd.grad(m.sines(x, [0.0, 1, 2]).sum(), x)[0], x.detach().cos() * torch.tensor([0.0, 1, 2]).double().exp())
        same(torch.autograd.grad(m.sines(x, np.zeros(3)).sum(), x)[0], x.detach().cos())
    for k in (2, 2.0, True, 3):
        if k is True:
            with pytest.raises(axon.AxonError, match="AX0504"):
                m.scaled(k, x)
        else:
            same(torch.autograd.grad(m.scaled(k, x).sum(), x)[0], torch.full_like(x, k))


@case
def what_does_not_fit_is_said_at_the_call(device: str) -> None:
    m = module()
    x = normal(3, 4, device=device, grad=True)
    for call, words in [
        (lambda: m.product(x, x), "AX0501"),
        (lambda: m.product(x), "lacks `b`"),
        (lambda: m.product(x, x.float()), "AX0504"),
        (lambda: m.cube(x), "rank"),
        (lambda: m.dense({"w": x}, x), "AX0505"),
        (lambda: m.heads(x[0]), "dimension parameter"),
        (lambda: m.cube(x[0], target="gpu"), "AX0601"),
        (lambda: m.cube(x[0].to(torch.complex64)), "complex64, which Axon lacks"),
    ]:
        for _ in range(2):
            with pytest.raises(axon.AxonError, match=words):
                call()


@case
def what_has_no_derivative_is_said_by_backward(device: str) -> None:
    m = module()
    x = torch.tensor(1.5, dtype=torch.float64, device=device, requires_grad=True)
    y = m.power(3, x)
    same(y.detach(), x.detach() ** 8)
    for _ in range(2):
        with pytest.raises(axon.AxonError) as raised:
            y.backward(retain_graph=True)
        (d,) = raised.value.diagnostics
        assert d.code == "AX0220"
        assert "`loop` with a number of steps that the data decide, in reverse mode, in a derivative of `power`" in d.message
        assert d.labels[0].span.text.startswith("loop (x = x)")
        assert len(d.labels) == 1
    with torch.no_grad():
        assert m.power(3, x) == y
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x))
        same(torch.autograd.forward_ad.unpack_dual(m.power(3, dual)).tangent, 8 * x.detach() ** 7)


# ── transformations ─────────────────────────────────────────────────────────────────────────────────────────────────────


@case
def functional_derivatives(device: str) -> None:
    m, f = module(), torch.func
    x, v = normal(5, device=device), normal(5, device=device, seed=1)

    def total(x: Any) -> Any:
        return m.cube(x).sum()

    same(f.grad(total)(x), 3 * x**2)
    for hessian in (f.hessian(total), f.jacrev(f.jacrev(total)), f.jacfwd(f.jacfwd(total)), f.jacrev(f.jacfwd(total))):
        same(hessian(x), torch.diag(6 * x))
    for found, wanted in zip(f.jvp(m.cube, (x,), (v,)), (x**3, 3 * x**2 * v), strict=True):
        same(found, wanted)
    _, pull = f.vjp(m.cube, x)
    same(pull(v)[0], 3 * x**2 * v)
    same(f.grad(f.grad(lambda s: m.scaled(s, s)))(x[0]), torch.full_like(x[0], 2.0))
    p = {"w": normal(4, 3, device=device), "b": normal(3, device=device, seed=1)}
    batch = normal(6, 4, device=device, seed=2)
    found = f.grad(lambda p: m.dense(p, batch).sum())(p)
    wanted = f.grad(lambda p: torch.tanh(batch @ p["w"] + p["b"]).sum())(p)
    for name in p:
        same(found[name], wanted[name])


@case
def batches(device: str) -> None:
    m, f = module(), torch.func
    a, b = normal(7, 3, 4, device=device), normal(7, 4, 5, device=device, seed=1)
    same(f.vmap(m.product)(a, b), a @ b)
    same(f.vmap(m.product, in_dims=(0, None))(a, b[0]), a @ b[0])
    same(f.vmap(m.product, in_dims=(2, 0))(a.movedim(0, 2), b), a @ b)
    same(f.vmap(m.product, out_dims=1)(a, b), (a @ b).movedim(0, 1))
    same(f.vmap(f.vmap(m.product, in_dims=(0, None)), in_dims=(0, 0))(a[:, :, None], b), (a @ b)[:, :, None])
    x, s = normal(7, 5, device=device), normal(7, device=device)
    ids = torch.tensor([[0, 1, 1], [4, 4, 2]], dtype=torch.int32, device=device)
    same(f.vmap(m.picked, in_dims=(None, 0))(x[0], ids), x[0][ids.long()] ** 2)
    same(f.vmap(m.scaled)(s, x), s[:, None] * x)
    same(f.vmap(m.scaled, in_dims=(None, 0))(s[0], x), s[0] * x)
    for found, wanted in zip(f.vmap(m.counted)(x), ((x * x).sum(1), x > 0), strict=True):
        assert torch.equal(found > 0, wanted > 0)
    per_example = f.vmap(f.grad(lambda w, x: m.product(x[None], w).pow(2).sum()), in_dims=(None, 0))
    same(per_example(b[0], a[:, 0]), f.vmap(f.grad(lambda w, x: (x[None] @ w).pow(2).sum()), in_dims=(None, 0))(b[0], a[:, 0]))
    same(f.grad(lambda x: f.vmap(m.cube)(x).sum())(x), 3 * x**2)
    leaf = x.clone().requires_grad_()
    f.vmap(m.cube)(leaf).sum().backward()
    same(leaf.grad, 3 * x**2)
    for _ in range(2):
        with pytest.raises(axon.AxonError, match="a batched call of `kept`"):
            f.vmap(m.kept)(x)


@case
def a_transformation_that_knows_no_rules(device: str) -> None:
    x = normal(5, device=device)
    with pytest.raises(axon.AxonError, match=r"AX0505(.|\n)*torch\.func \(vmap, grad, jacrev, jvp\)"):
        torch.autograd.functional.jacobian(module().cube, x, vectorize=True)
    same(torch.autograd.functional.jacobian(module().cube, x), torch.diag(3 * x**2))


@case
def graphs_of_torch_compile_hold_calls(device: str) -> None:
    torch._dynamo.reset()
    m = module()
    traced = torch.compile(lambda x: m.cube(x * 2.0).sum() + x.sum(), backend="aot_eager", fullgraph=True)
    for n in (3, 4, 1, 0):
        x = normal(n, device=device, grad=True)
        traced(x).backward()
        same(x.grad, 24 * x.detach() ** 2 + 1.0)
