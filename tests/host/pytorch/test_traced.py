"""Calls inside `torch.compile(fullgraph=True)`, `torch.export`, fake tensors and autocast give what they give without."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import axon
from tests.host.pytorch.watching import compiled, module, torch
from tests.sample import ALL

pytestmark = pytest.mark.filterwarnings("ignore")
fake = pytest.importorskip("torch._subclasses.fake_tensor")


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


P = module()
X = torch.randn(12, generator=torch.Generator().manual_seed(0))
M = X.reshape(4, 3)
W = torch.randn(3, 2, generator=torch.Generator().manual_seed(1), requires_grad=True)


def numbers(x: Any) -> Any:
    """Calls without tensors are computed while it is traced, and give NumPy's arrays and Python's numbers, as always."""
    m = P
    rows, count = m.both[x.shape[0]](2.0)
    assert isinstance(count, int)
    return x.sum() + torch.as_tensor(m.grid[2, 3]()).sum() + torch.as_tensor(rows) * count + m.turn


# Every kind of argument: each a function of tensors, which is computed compiled and not.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "matrices": (lambda a, b: P.product(a, b * 2), (M, W)),
    "a record": (lambda x, w: P.dense({"b": w[0], "w": w}, x), (M, W)),
    "a dataclass": (lambda x, w: P.dense(Layer(w, w[0]), x), (M, W)),
    "by name": (lambda x, y: P.scaled(x=x, k=y), (M, M)),
    "numbers": (lambda x: P.scaled(2, P.scaled(0.5, x)), (M,)),
    "a size as a number": (lambda x: P.scaled(x.shape[0], x.to(torch.int64)), (M,)),
    "NumPy's number": (lambda x: P.scaled(np.float32(2.0), x), (M,)),
    "NumPy's array": (lambda x: P.adds(x, np.arange(3, dtype=np.float32)), (M[0],)),
    "a list": (lambda x: P.adds(x, [1, 2, 3]), (M[0],)),
    "a tensor of no dimensions": (lambda x: P.scaled(x.sum(), x), (M,)),
    "strides": (lambda x: P.adds(x.T, x[0].expand(4, 3).T), (M,)),
    "no elements": (lambda x: P.adds(x, x), (torch.ones(0, 3),)),
    "dimension parameters": (lambda x: P.heads[3](x), (X,)),
    "a size as one": (lambda x: P.heads[x.shape[0]](x.reshape(-1)), (M,)),
    "a formula": (lambda x: P.windows[3, 2](x), (X,)),
    "a minimum": (lambda x, y: P.least(x, y), (X, M[0])),
    "a root": (lambda x: P.square(x), (X[:9],)),
    "several results": (lambda x: P.counted(x), (X,)),
    "an argument as result": (lambda x: P.same(x) + x, (X,)),
    "integers and booleans": (lambda b, x: P.chosen(b, x), (X > 0, torch.arange(12))),
    "bf16": (lambda x: P.half(x), (X.bfloat16(),)),
    "no tensors": (numbers, (X,)),
    "a target": (lambda x: P.cube(x, target="interpret"), (X,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    function, given = CALLS[name]
    step = compiled(function, dynamic=True)
    torch.testing.assert_close(step(*given), function(*given))
    if any(x.requires_grad for x in given):
        found, wanted = (torch.autograd.grad(f(*given).sum(), given[-1])[0] for f in (step, function))
        torch.testing.assert_close(found, wanted)


def test_graphs_serve_other_sizes() -> None:
    counter = torch._dynamo.testing.CompileCounter()
    step = compiled(lambda x: P.windows[3, 2](P.scaled(2.0, x)), counter)
    for n in (4, 5, 6, 7, 90):
        torch.testing.assert_close(step(torch.ones(n)), P.windows[3, 2](2 * torch.ones(n)))
    assert counter.frame_count == 2  # for one size, then for all


def test_sizes_that_data_decide() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        step = compiled(lambda x: P.scaled(2.0, P.kept(x)))
        for x in (X, -X, -X.abs()):
            torch.testing.assert_close(step(x), 2 * x[x > 0])


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a contract": (lambda x: P.windows[5, 1](x[0]), r"error\[AX0501\]: the contract `r <= h` does not hold"),
    "two sizes": (lambda x: P.product(x, x), r"dimension 1 of `b` is 4, and must be 3(.|\n)*`a` is \[s"),
    "a rank": (lambda x: P.cube(x), "`x` has the wrong rank"),
    "an element type": (lambda x: P.half(x[0]), r"pass x\.to\(torch\.bfloat16\)"),
    "a name": (lambda x: P.cube(y=x), "has no parameter `y`"),
    "a target": (lambda x: P.cube(x[0], target="gpu"), "AX0601"),
    "an object": (lambda x: P.scaled("2", x), "not a value of the Python type str"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said_while_it_is_traced(name: str) -> None:
    function, words = WRONG[name]
    with pytest.raises(RuntimeError, match=words):
        compiled(function, dynamic=True)(M)


def test_a_name_that_is_not_there() -> None:
    """As outside: with the one that was meant."""
    with pytest.raises(Exception, match="declares no 'prodct'; did you mean 'product'"):
        compiled(lambda a, b: P.prodct(a, b))(M, W)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_memory_of_the_callers(backend: str) -> None:
    out = torch.empty(12)
    step = compiled(lambda x, out: P.cube(x * 2, out=out) + 1, backend)
    torch.testing.assert_close(step(X, out), 8 * X**3 + 1)
    torch.testing.assert_close(out, 8 * X**3)
    both = {"total": torch.empty(()), "signs": (torch.empty(12, dtype=torch.bool), torch.empty((), dtype=torch.int32))}
    found = compiled(lambda x, out: P.counted(x, out=out), backend)(X, both)
    torch.testing.assert_close(found, P.counted(X))
    torch.testing.assert_close(both, P.counted(X))
    x = X.clone()
    compiled(lambda x: P.scaled(2.0, x, out=x), backend)(x)  # what is read is what was there before
    torch.testing.assert_close(x, 2 * X)
    for wrong, words in [
        (lambda: step(X, torch.empty(3)), r"`out` must be torch.float32 of the shape \[12\] on cpu, not torch.float32 of \[3\]"),
        (lambda: step(X, torch.empty(12).double()), "not torch.float64"),
        (lambda: compiled(lambda x, out: P.counted(x, out=out))(X, out), "has not the structure of its result"),
        (lambda: step(X.clone().requires_grad_(), out), "no gradient passes through `out=`"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            wrong()


def test_what_is_written_is_traced() -> None:
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda x, out: P.cube(x, out=out) + 1)(X, torch.empty(12))
    out = torch.empty(12)
    torch.testing.assert_close(traced(X + 1, out), (X + 1) ** 3 + 1)
    torch.testing.assert_close(out, (X + 1) ** 3)


def test_what_is_written_is_noticed() -> None:
    compiled(lambda x, out: P.cube(x, out=out))(X, torch.empty(12))
    name = next(n for n in dir(torch.ops.axon) if n.endswith("_cube_out"))
    operator = getattr(torch.ops.axon, name)
    torch.library.opcheck(operator.default, (X, torch.empty(12)))
    y = X.clone().requires_grad_() * 2
    loss = (y * y).sum()
    operator(X, y.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_fake_tensors() -> None:
    with fake.FakeTensorMode() as mode:
        x = mode.from_tensor(M)
        y = P.dense({"w": torch.empty(3, 5), "b": torch.empty(5)}, x)
        assert (type(y), y.shape, y.dtype) == (fake.FakeTensor, (4, 5), torch.float32)
        with pytest.raises(axon.ShapeError, match="AX0501"):
            P.product(x, x)
    assert P.product(M.to("meta"), W.to("meta")).shape == (4, 2)


def test_numbers_of_numpys_lie_beside_tensors() -> None:
    """As PyTorch's own tensors of rank 0 do: one on the host is no reason to compute there, whichever is first."""
    from axon.host.pytorch import operators

    x = M.to("meta")
    assert P.scaled(np.float32(2.0), x).device.type == "meta"
    moved, same = operators.beside((torch.tensor(2.0), x))
    assert (moved.device.type, same) == ("meta", x)
    assert operators.beside((torch.tensor(2.0), M))[0].device.type == "cpu"


def test_a_function_that_is_not_filled_yet_has_no_hash() -> None:
    """PyTorch 2.11 asks whether one is in a set while it traces, and takes TypeError for no."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(object.__new__(axon.Function))


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool) -> None:
    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return P.windows[3, 2](x)

    exported = torch.export.export(Model(), (X,), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}}, strict=strict)
    (node,) = [node for node in exported.graph.nodes if "axon" in str(node.target)]
    assert "//2" in str(node.meta["val"].shape)
    for n in (5, 12, 13):
        torch.testing.assert_close(exported.module()(torch.ones(n)), torch.full(((n - 3) // 2 + 1,), 3.0))
    with pytest.raises(AssertionError, match="Guard failed"):
        exported.module()(torch.ones(2))


def test_the_contract_holds_when_it_runs() -> None:
    """An operator does not trust what was traced."""
    module_operator = compiled(lambda x: P.windows[3, 2](x))
    module_operator(X)
    name = next(n for n in dir(torch.ops.axon) if n.endswith("_windows"))
    with pytest.raises(axon.ShapeError, match="`r <= h` does not hold"):
        getattr(torch.ops.axon, name)(3, 2, torch.ones(2))


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_autocast(way: str) -> None:
    """Floats that autocast narrowed become what stands beside them, or what the signature says; nothing is narrowed."""

    def step(x: Any, w: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            narrow = x @ torch.eye(3)
            return narrow, P.dense({"w": w, "b": w[0]}, narrow), P.fixed(narrow[0], 2)

    narrow, y, z = (compiled(step) if way == "compiled" else step)(M, W)
    assert (narrow.dtype, y.dtype, z.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    torch.testing.assert_close(y, torch.tanh(M.bfloat16().float() @ W + W[0]))
    assert torch.autograd.grad(y.sum(), W)[0].dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(axon.AxonError, match="holds f32, and must hold bf16"):
        P.half(X)


# ── a model that learns ─────────────────────────────────────────────────────────────────────────────────────────────────

PARTS = """
import nn
fun normed (p : { scale : f32[d], shift : f32[d] }) (x : f32[..b, d]) = nn.layer_norm p x
fun split {h} (x : f32[b, t, h * c]) = for b, i < h, t, j => x[b, t, (i, j)]
fun joined (x : f32[b, h, t, c]) = for b t (i, j) => x[b, i, t, j]
fun attended {h} q k v = joined (nn.causal_attention (split {h} q) (split {h} k) (split {h} v))
fun loss (z : f32[n, k]) (labels : i32[n]) = nn.cross_entropy z labels
"""


class Small(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A transformer of one block, whose normalization, attention and loss are PyTorch's, or Axon's."""

    def __init__(self, parts: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts, self.heads = parts, 2
        self.embed, self.norm = torch.nn.Embedding(11, 8), torch.nn.LayerNorm(8)
        self.mixed, self.up, self.head = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8), torch.nn.Linear(8, 11)

    def forward(self, ids: Any, labels: Any) -> Any:
        x = self.embed(ids)
        y = self.parts.normed({"scale": self.norm.weight, "shift": self.norm.bias}, x) if self.parts else self.norm(x)
        q, k, v = self.mixed(y).chunk(3, dim=-1)
        if self.parts:
            y = self.parts.attended[self.heads](q, k, v)
        else:
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        z = self.head(x + torch.nn.functional.gelu(self.up(y))).flatten(0, 1)
        return self.parts.loss(z, labels.flatten()) if self.parts else torch.nn.functional.cross_entropy(z, labels.flatten().long())


def learned(parts: Any, compile: Callable[[Any], Any]) -> list[float]:
    model = Small(parts)
    step, optimizer = compile(model), torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for n in range(6):
        ids = torch.randint(0, 11, (2 + n % 2, 5 + n), generator=torch.Generator().manual_seed(n))
        optimizer.zero_grad()
        loss = step(ids, (ids.roll(-1, 1) % 11).int())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("backend", ["aot_eager", *["inductor"] * ALL])
def test_a_model_learns_the_same(backend: str) -> None:
    """Three functions in one graph, at sizes that change: the losses of PyTorch's own, and of calls that nothing compiles."""
    parts = axon.compile(PARTS)
    wanted = learned(None, lambda model: model)
    for found in (learned(parts, lambda model: model), learned(parts, lambda model: compiled(model, backend))):
        np.testing.assert_allclose(found, wanted, rtol=2e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_traced_by_the_older_tracer() -> None:
    """`torch.jit.trace` records an operator, and not what the call gave while it traced."""
    m = axon.compile("fun f (x : 'a[n]) (y : 'a[n]) = for i => x[i] * y[i] + 1.0")
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    m.f(x, y)  # one that is known already
    found = torch.jit.trace(lambda x, y: m.f(torch.relu(x), y) * 2, (x, y))
    assert "axon::" in str(found.graph)
    for n in (2, 3):
        x, y = torch.randn(n), torch.randn(n)
        torch.testing.assert_close(found(x, y), m.f(torch.relu(x), y) * 2)
