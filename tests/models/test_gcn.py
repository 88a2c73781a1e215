"""The graph convolution agrees with messages along a list of edges in PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from tests.models import weights as W  # noqa: E402


class Convolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Every node gets messages along its edges, and one from itself."""
        nodes = torch.arange(len(x))
        source, target = torch.cat([edges, edges.flip(0), torch.stack([nodes, nodes])], dim=1)
        degree = torch.bincount(target, minlength=len(x)).to(x.dtype)
        messages = (x @ self.lin.weight.T)[source] / (degree[source] * degree[target]).sqrt()[:, None]
        return torch.zeros(len(x), messages.shape[1], dtype=x.dtype).index_add(0, target, messages)


class GCN(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = Convolution(features, hidden), Convolution(hidden, classes)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edges).relu(), edges)


@pytest.mark.parametrize("nodes", [1, 2, 13])
def test_logits(nodes: int) -> None:
    pairs = np.array([(i, j) for i in range(nodes) for j in range(i)], np.int32).reshape(-1, 2)
    edges = np.random.default_rng(0).permutation(pairs)[: 2 * nodes].T
    m = W.randomized(GCN(7, 5, 3))
    x = W.values(nodes, 7)
    gcn = W.model("gcn")
    a = gcn.adjacency[nodes](*np.ascontiguousarray(edges))
    p = {"w0": W.array(m.conv1.lin.weight.T), "w1": W.array(m.conv2.lin.weight.T)}
    W.agree(gcn.logits, (p, a, x), m(torch.from_numpy(x).double(), torch.from_numpy(edges).long()))
