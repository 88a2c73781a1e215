"""The functions of `adbench.axon` in PyTorch: eager code that `torch.compile` takes whole, batches by `torch.func`."""

from __future__ import annotations

from math import lgamma, log, pi
from typing import Any

import torch
from torch.func import jacfwd, jacrev, jvp, vmap


def likelihood(alphas: Any, means: Any, factor: Any, x: Any, gamma: float, m: int, place: Any) -> Any:
    (n, d), k = x.shape, len(alphas)
    logs, below = factor[:, :d], factor[:, d:]
    q = torch.zeros(k, d * d, dtype=x.dtype).index_copy(1, place, below).view(k, d, d) + torch.diag_embed(logs.exp())
    y = torch.einsum("kij,nkj->nki", q, x[:, None] - means)
    inner = alphas + logs.sum(1) - 0.5 * (y**2).sum(2)
    scale = d + m + 1
    normal = scale * d * log(gamma / 2**0.5) - d * (d - 1) / 4 * log(pi) - sum(lgamma(0.5 * scale - j / 2) for j in range(d))
    prior = 0.5 * gamma**2 * ((logs.exp() ** 2).sum() + (below**2).sum()) - m * logs.sum() - k * normal
    return -0.5 * n * d * log(2 * pi) + inner.logsumexp(1).sum() - n * alphas.logsumexp(0) + prior


def gmm(compiled: Any) -> Any:
    objective = compiled(likelihood)

    def called(alphas: Any, means: Any, factor: Any, x: Any, gamma: float, m: int) -> Any:
        d = x.shape[1]
        column, row = torch.triu_indices(d, d, 1)
        wanted = [t.detach().requires_grad_() for t in (alphas, means, factor)]
        value = objective(*wanted, x, gamma, m, row * d + column)
        return value.detach(), torch.autograd.grad(value, wanted)

    return called


def rotated(r: Any, x: Any) -> Any:
    square = r.dot(r)
    angle = torch.where(square == 0, 1.0, square).sqrt()
    w = r / angle
    whole = x * angle.cos() + torch.linalg.cross(w, x) * angle.sin() + w * w.dot(x) * (1 - angle.cos())
    return torch.where(square == 0, x + torch.linalg.cross(r, x), whole)


def missed(c: Any, x: Any, w: Any, feature: Any) -> Any:
    y = rotated(c[:3], x - c[3:6])
    flat = y[:2] / y[2]
    square = flat.dot(flat)
    return w * (flat * (1 + c[9] * square + c[10] * square**2) * c[6] + c[7:9] - feature)


def ba(derive: Any, compiled: Any) -> Any:
    def called(cameras: Any, points: Any, weights: Any, camera: Any, point: Any, features: Any) -> Any:
        given = cameras[camera], points[point], weights, features
        return vmap(missed)(*given), vmap(derive(missed, (0, 1, 2)))(*given), 1 - weights**2, -2 * weights

    return compiled(called)


def ba_reverse(compiled: Any) -> Any:
    return ba(jacrev, compiled)


def ba_forward(compiled: Any) -> Any:
    return ba(jacfwd, compiled)


STEPS = 16  # of the network, in what is compiled at once: a whole text has too many


def read(layers: Any, ends: Any, hidden: Any, cell: Any, text: Any) -> Any:
    hidden, cell, top = [*hidden], [*cell], []
    for x in text:
        y = x * ends[0]
        for n, (w, b) in enumerate(layers):
            forget, into, out, change = w * torch.stack([y, hidden[n], y, hidden[n]]) + b
            cell[n] = cell[n] * forget.sigmoid() + into.sigmoid() * change.tanh()
            y = hidden[n] = out.sigmoid() * cell[n].tanh()
        top.append(y)
    return torch.stack(hidden), torch.stack(cell), torch.stack(top)


def said_wrong(top: Any, ends: Any, text: Any) -> Any:
    said = top * ends[1] + ends[2]
    return -(text * (said - (2 + said.exp().sum(1, keepdim=True)).log())).mean()


def lstm(compiled: Any) -> Any:
    some, loss = compiled(read), compiled(said_wrong)

    def called(layers: Any, ends: Any, hidden: Any, cell: Any, text: Any) -> Any:
        wanted = [t.detach().requires_grad_() for t in (layers, ends)]
        parts = []
        for piece in text[:-1].split(STEPS):
            hidden, cell, top = some(*wanted, hidden, cell, piece)
            parts.append(top)
        value = loss(torch.cat(parts), wanted[1], text[1:])
        return value.detach(), torch.autograd.grad(value, wanted)

    return called


def turned(x: Any, z: Any, y: Any) -> Any:
    def plane(angle: Any, a: int, b: int) -> Any:
        c, s, none, one = angle.cos(), angle.sin(), torch.zeros_like(angle), torch.ones_like(angle)
        rows = [[one if i == j else none for j in range(3)] for i in range(3)]
        rows[a][a], rows[a][b], rows[b][a], rows[b][b] = c, -s, s, c
        return torch.stack([torch.stack(row, -1) for row in rows], -2)

    return plane(z, 0, 1) @ plane(y, 0, 2) @ plane(x, 1, 2)


def about(r: Any) -> Any:
    square = r.dot(r)
    angle = torch.where(square < 1e-8, 1.0, square).sqrt()
    w = r / angle
    none, unit, both = torch.zeros_like(w[0]), torch.eye(3, dtype=r.dtype), w[:, None] * w
    cross = torch.stack([torch.stack(row) for row in ([none, -w[2], w[1]], [w[2], none, -w[0]], [-w[1], w[0], none])])
    return torch.where(square < 1e-8, unit, both + (unit - both) * angle.cos() + cross * angle.sin())


def placed(parents: tuple[int, ...], s: Any, theta: Any) -> Any:
    finger = theta[6:].view(5, 4)
    none = torch.zeros_like(finger[:, 0])
    x = torch.stack([finger[:, 0], finger[:, 2], finger[:, 3], none], 1).flatten()
    z = torch.stack([finger[:, 1], none, none, none], 1).flatten()
    first = torch.zeros_like(theta[:2])
    turns = turned(torch.cat([first, x]), torch.cat([first, z]), torch.zeros_like(torch.cat([first, z])))
    relatives = torch.cat([s["relatives"][:, :, :3] @ turns, s["relatives"][:, :, 3:]], 2)
    bones: list[Any] = []
    for parent, relative in zip(parents, relatives, strict=True):
        bones.append(relative if parent < 0 else bones[parent] @ relative)
    moves = (torch.stack(bones) @ s["inverses"])[:, :3]
    posed = torch.einsum("prk,pk->pr", torch.tensordot(s["weights"], moves, 1), s["skin"])
    return posed @ about(theta[:3]).T + theta[3:6]


def hand(compiled: Any) -> Any:
    def whole(parents: tuple[int, ...], s: Any, theta: Any, nearest: Any, seen: Any) -> Any:
        def away(theta: Any) -> Any:
            return seen - placed(parents, s, theta)[nearest]

        return away(theta), jacfwd(away)(theta)

    return _known(compiled(whole))


def hand_on_triangles(compiled: Any) -> Any:
    def whole(parents: tuple[int, ...], s: Any, theta: Any, us: Any, nearest: Any, seen: Any, triangles: Any) -> Any:
        def away(us: Any, theta: Any) -> Any:
            corner = placed(parents, s, theta)[triangles[nearest]]
            return seen - (torch.cat([us, 1 - us.sum(1, keepdim=True)], 1)[:, :, None] * corner).sum(1)

        def along(d: Any) -> Any:
            return jvp(lambda us: away(us, theta), (us,), (d.expand_as(us),))[1]

        by_us = vmap(along, out_dims=2)(torch.eye(2, dtype=us.dtype))
        return away(us, theta), torch.cat([by_us, jacfwd(away, 1)(us, theta)], 2)

    return _known(compiled(whole))


def _known(f: Any) -> Any:
    def called(s: Any, **given: Any) -> Any:
        return f(tuple(s["parents"].tolist()), {k: v for k, v in s.items() if k != "parents"}, **given)

    return called
