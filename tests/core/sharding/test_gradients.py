"""Derivatives on meshes are made before the pass: a gradient lies as its parameter does, and is the unsharded one."""

from __future__ import annotations

import pytest

import axon
from axon.core.sharding import collectives, shard
from tests import ROOT
from tests.core.sharding.whole import arguments, bound, compare, mesh, nvlink, of, sharded

MLP = """
type layers[d, f] = { up : f32[d, f], down : f32[f, d] }
fun loss (p : layers[d, f]) (x : f32[b, d]) (y : f32[b, d]) =
  let val hidden = for i j => max (sum k => x[i, k] * p.up[k, j]) 0.0
      val made = for i j => sum k => hidden[i, k] * p.down[k, j]
  in sum i j => (made[i, j] - y[i, j]) * (made[i, j] - y[i, j]) end
fun gradient (p : layers[d, f]) (x : f32[b, d]) (y : f32[b, d]) = grad (fn p => loss p x y) p
fun step (p : layers[d, f]) (x : f32[b, d]) (y : f32[b, d]) =
  let val g = gradient p x y
  in { up = p.up - 0.5 * g.up, down = p.down - 0.5 * g.down } end
"""
SIZES = {"b": 8, "d": 4, "f": 8}


@pytest.mark.parametrize("name", ["gradient", "step"])
@pytest.mark.parametrize(
    ("axes", "split"),
    [
        ({"data": 4}, {"b": "data"}),
        ({"model": 4}, {"f": "model"}),
        ({"model": 2}, {"d": "model"}),
        ({"data": 2, "model": 2}, {"b": "data", "f": "model"}),
    ],
)
def test_gradients_lie_as_their_parameters(name: str, axes: dict[str, int], split: dict[str, str]) -> None:
    program = of(MLP, name)
    dims = bound(program, **SIZES)
    for scale in (1, 1024):
        made = sharded(program, mesh(**axes), split, dims, scale=scale)
        assert [one.layout for one in made.results] == [one.layout for one in made.inputs[:2]]
        compare(made, arguments(program, dims), dims)  # whole numbers: no sum is rounded


def test_data_are_shared_by_one_all_reduce_of_each_weight() -> None:
    program = of(MLP, "gradient")
    dims = bound(program, b=4096, d=1024, f=4096)
    made = shard(program, mesh(data=8), {"b": "data"}, dims, nvlink())
    found = [(c.kind, c.monoid, c.axis) for c in collectives(made.steps)]
    assert found == [("all_reduce", "sum", "data")] * 2


def test_tensors_that_are_shared_have_no_all_reduce_backward_but_that_of_the_input() -> None:
    """Megatron's perceptron: forward one, for the output; backward one, for the input's derivative, which nobody asks for."""
    program = of(MLP, "gradient")
    dims = bound(program, b=4096, d=1024, f=4096)
    made = shard(program, mesh(model=8), {"f": "model"}, dims, nvlink())
    assert [(c.kind, c.monoid) for c in collectives(made.steps)] == [("all_reduce", "sum")]


def test_a_block_of_a_model_backward() -> None:
    module = axon.load(ROOT / "examples" / "models" / "gpt2.axon")
    text = (ROOT / "examples" / "models" / "gpt2.axon").read_text(encoding="utf-8")
    program = of(text + "\nfun back (p : mlp[d]) (x : f32[b, d]) = grad (fn p => sum i j => (mlp p x)[i, j]) p\n", "back")
    assert "mlp" in list(module)
    dims = bound(program, b=4, d=8)
    made = sharded(program, mesh(data=2, model=2), {"b": "data", "d": "model"}, dims, scale=256)
    assert [one.layout for one in made.results] == [one.layout for one in made.inputs[: len(made.results)]]
    compare(made, arguments(program, dims), dims, 1e-4)
