"""`axon.nn.Module`: a function as a module of PyTorch's, of which everything that modules do works."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from tests.host.pytorch.watching import compiled, torch

PROGRAM = """
import nn
type linear['a, d, k] = { w : 'a[d, k], b : 'a[k] }
type norm[d] = { scale : f32[d], shift : f32[d] }
fun mlp (p : { up : linear['a, d, 4 * d], down : linear['a, 4 * d, d] }) (x : 'a[n, d]) =
  nn.relu (x @ p.up.w + p.up.b) @ p.down.w + p.down.b
fun stack (p : { norm : norm[d], layers : f32[l, d, d], pair : (f32[d], { k : f32 }), ids : i32[n] }) (x : f32[b, d]) =
  { y = (loop (x = nn.layer_norm p.norm x) for i < l => x + tanh (x @ p.layers[i, ..])) + p.pair.1 * p.pair.2.k, ids = p.ids }
fun after (x : f32[n, d]) (p : { w : f32[d, k] }) (b : f32[k]) = x @ p.w + b
fun bad (p : { half : f32[d] }) (x : f32[d]) = p.half + x
"""
M = axon.compile(PROGRAM)


def made(**options: Any) -> Any:
    torch.manual_seed(0)
    return axon.nn.Module(M.mlp, "p", {"d": 8}, **options)


def test_parameters_are_the_fields() -> None:
    model = made()
    shapes = {name: tuple(x.shape) for name, x in model.named_parameters()}
    assert shapes == {"up.w": (8, 32), "up.b": (32,), "down.w": (32, 8), "down.b": (8,)}
    assert all(type(p) is torch.nn.Parameter and p.dtype == torch.float32 for p in model.parameters())
    assert not model.up.b.any()
    assert 0.9 * 8**-0.5 < model.up.w.abs().max() <= 8**-0.5  # as torch.nn.Linear begins
    assert 0.9 * 32**-0.5 < model.down.w.abs().max() <= 32**-0.5
    assert made(dtype=torch.float64).up.w.dtype == torch.float64
    x = torch.randn(3, 8)
    wanted = torch.relu(x @ model.up.w + model.up.b) @ model.down.w + model.down.b
    torch.testing.assert_close(model(x), wanted)
    torch.testing.assert_close(compiled(model)(x), wanted)
    assert {name: x.tolist() for name, x in made(init=lambda name, x: x.fill_(len(name))).state_dict().items()}["up.b"] == [
        4.0
    ] * 32


def test_structures() -> None:
    model = axon.nn.Module(M.stack, "p", {"d": 3, "l": 2, "n": 4})
    assert {name for name, _ in model.named_parameters()} == {"norm.scale", "norm.shift", "layers", "pair.1", "pair.2.k"}
    assert {name: x.dtype for name, x in model.named_buffers()} == {"ids": torch.int32}
    assert model.norm.scale.tolist() == [1, 1, 1]
    found = compiled(model)(torch.randn(5, 3))
    assert found["y"].shape == (5, 3)
    found["y"].sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_arguments_around_the_record() -> None:
    model, x, b = axon.nn.Module(M.after, "p", {"d": 2, "k": 3}), torch.ones(4, 2), torch.ones(3)
    for got in (model(x, b), model(x=x, b=b), model(x, b=b)):
        torch.testing.assert_close(got, x @ model.w + b)


def test_what_modules_do(tmp_path: Path) -> None:
    model, x = made(), torch.randn(3, 8)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x), model(x))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = made(init=lambda name, x: x.fill_(3))
    other.load_state_dict(torch.load(tmp_path / "model.pt"))
    torch.testing.assert_close(other(x), model(x))
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: \"up.b\"(.|\n)*Unexpected key\(s\)(.|\n)*\"more\""):
        other.load_state_dict({name: x for name, x in model.state_dict().items() if name != "up.b"} | {"more": x})
    assert model.to(torch.float64)(x.double()).dtype == torch.float64
    hollow = axon.nn.Module(M.mlp, "p", {"d": 8}, device="meta").to_empty(device="cpu")
    torch.manual_seed(0)
    hollow.reset_parameters()  # of the records in it too
    torch.testing.assert_close(hollow(x), made()(x))
    optimizer = torch.optim.AdamW(other.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = other(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("copied", [False, True])
def test_exported_by_the_names_of_its_arguments(copied: bool) -> None:
    """`dynamic_shapes` are those of the function's own arguments, by place or by name."""
    model = axon.nn.Module(M.after, "p", {"d": 2, "k": 3})
    model = pickle.loads(pickle.dumps(copy.deepcopy(model))) if copied else model
    assert list(inspect.signature(model.forward).parameters) == ["x", "b"]
    x, b = torch.ones(4, 2), torch.ones(3)
    rows = torch.export.Dim("rows")
    for shapes in (({0: rows}, None), {"x": {0: rows}, "b": None}):
        program = torch.export.export(model, (x, b), dynamic_shapes=shapes)
        torch.testing.assert_close(program.module()(torch.ones(7, 2), b), model(torch.ones(7, 2), b))


@pytest.mark.filterwarnings("ignore")
def test_sharded(tmp_path: Path) -> None:
    """FSDP takes its parameters, gathers them for a call, and gives each its gradient."""
    distributed = pytest.importorskip("torch.distributed")
    if not (distributed.is_available() and distributed.is_gloo_available()):
        pytest.skip("this PyTorch has no gloo")
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    distributed.init_process_group("gloo", store=distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        model, x = made(), torch.randn(3, 8)
        wanted = torch.autograd.grad(model(x).sum(), [*model.parameters()])
        fsdp.fully_shard(model, mesh=distributed.device_mesh.init_device_mesh("cpu", (1,)))
        model(x).sum().backward()
        for p, grad in zip(model.parameters(), wanted, strict=True):
            np.testing.assert_allclose(p.grad.to_local().numpy(), grad.numpy(), rtol=1e-6)
    finally:
        distributed.destroy_process_group()


def test_what_does_not_fit() -> None:
    for call, words in [
        (lambda: axon.nn.Module(M.mlp, "q", {"d": 8}), "has no parameter `q`"),
        (lambda: axon.nn.Module(M.mlp, "x", {"d": 8}), "`x` of `mlp` is no record"),
        (lambda: axon.nn.Module(M.after, "p", {"d": 8}), r"is not said: `k`(.|\n)*pass sizes=\{\"k\": …\}"),
        (lambda: axon.nn.Module(M.after, "p", {"d": 8, "m": 3}), "has no size `m`"),
        (lambda: axon.nn.Module(M.after, "p", {"d": 8, "k": -3}), "the size `k` is -3, and none is below 0"),
        (lambda: axon.nn.Module(M.bad, "p", {"d": 8}), "`half` of `p` has a name that torch.nn.Module has"),
    ]:
        with pytest.raises(axon.AxonError, match=words):
            call()
    with pytest.raises(TypeError, match="takes a function"):
        axon.nn.Module(M, "p")  # type: ignore[arg-type]


def test_it_is_a_class() -> None:
    """Made, derived from, asked for and pickled as any class of modules, by its public name."""

    class Doubled(axon.nn.Module):
        def forward(self, *args: Any) -> Any:
            return 2 * super().forward(*args)

    torch.manual_seed(0)
    double, x = Doubled(M.mlp, "p", {"d": 8}), torch.randn(3, 8)
    assert isinstance(double, axon.nn.Module)
    assert isinstance(double, torch.nn.Module)
    torch.testing.assert_close(double(x), 2 * made()(x))
    assert b"axon.nn" in pickle.dumps(made())
    assert str(inspect.signature(axon.nn.Module)).startswith("(function: 'Function', params: 'str', sizes")


def test_errors_are_the_callers() -> None:
    with pytest.raises(axon.AxonError) as caught:
        axon.nn.Module(M.mlp, "q")
    assert len(caught.traceback) == 2  # this one's, and one of Axon's


def test_without_pytorch() -> None:
    code = "import sys\nsys.modules['torch'] = None\nimport axon\naxon.nn.Module"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError: axon.nn.Module needs PyTorch, which is not installed: pip install torch" in ran.stderr
