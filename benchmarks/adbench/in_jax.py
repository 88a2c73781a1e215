"""The functions of `adbench.axon` in JAX: `jit` around each, products of whole arrays, batches by `vmap`, time by `scan`."""

from __future__ import annotations

from functools import partial
from math import lgamma, log, pi
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jax.scipy.special import logsumexp

jax.config.update("jax_enable_x64", True)


def likelihood(alphas: Any, means: Any, factor: Any, x: Any, gamma: float, m: int) -> Any:
    (n, d), k = x.shape, len(alphas)
    logs, below = factor[:, :d], factor[:, d:]
    q = jnp.zeros((k, d, d)).at[:, *np.triu_indices(d, 1)[::-1]].set(below) + jnp.exp(logs)[:, :, None] * jnp.eye(d)
    y = jnp.einsum("kij,nkj->nki", q, x[:, None] - means)
    inner = alphas + logs.sum(1) - 0.5 * (y**2).sum(2)
    scale = d + m + 1
    normal = scale * d * log(gamma / 2**0.5) - d * (d - 1) / 4 * log(pi) - sum(lgamma(0.5 * scale - j / 2) for j in range(d))
    prior = 0.5 * gamma**2 * ((jnp.exp(logs) ** 2).sum() + (below**2).sum()) - m * logs.sum() - k * normal
    return -0.5 * n * d * log(2 * pi) + logsumexp(inner, axis=1).sum() - n * logsumexp(alphas) + prior


@partial(jax.jit, static_argnames=("gamma", "m"))
def gmm(alphas: Any, means: Any, factor: Any, x: Any, gamma: float, m: int) -> Any:
    return jax.value_and_grad(likelihood, (0, 1, 2))(alphas, means, factor, x, gamma, m)


def rotated(r: Any, x: Any) -> Any:
    square = r @ r
    angle = jnp.sqrt(jnp.where(square == 0, 1, square))
    w = r / angle
    whole = x * jnp.cos(angle) + jnp.cross(w, x) * jnp.sin(angle) + w * (w @ x) * (1 - jnp.cos(angle))
    return jnp.where(square == 0, x + jnp.cross(r, x), whole)


def missed(c: Any, x: Any, w: Any, feature: Any) -> Any:
    y = rotated(c[:3], x - c[3:6])
    flat = y[:2] / y[2]
    square = flat @ flat
    return w * (flat * (1 + c[9] * square + c[10] * square**2) * c[6] + c[7:9] - feature)


def ba(derive: Any, cameras: Any, points: Any, weights: Any, camera: Any, point: Any, features: Any) -> Any:
    given = cameras[camera], points[point], weights, features
    of_weights = jax.vmap(jax.grad(lambda w: 1 - w**2))(weights)
    return jax.vmap(missed)(*given), jax.vmap(derive(missed, (0, 1, 2)))(*given), 1 - weights**2, of_weights


ba_reverse, ba_forward = (jax.jit(partial(ba, derive)) for derive in (jax.jacrev, jax.jacfwd))


def loss(layers: Any, ends: Any, hidden: Any, cell: Any, text: Any) -> Any:
    def read(state: Any, x: Any) -> Any:
        y, kept = x * ends[0], []
        for (w, b), hidden, cell in zip(layers, *state, strict=True):
            forget, into, out, change = (w * jnp.stack([y, hidden, y, hidden]) + b)
            cell = cell * sigmoid(forget) + sigmoid(into) * jnp.tanh(change)
            y = sigmoid(out) * jnp.tanh(cell)
            kept.append((y, cell))
        hidden, cell = map(jnp.stack, zip(*kept, strict=True))
        return (hidden, cell), y

    _, top = jax.lax.scan(read, (hidden, cell), text[:-1])
    said = top * ends[1] + ends[2]
    return -(text[1:] * (said - jnp.log(2 + jnp.exp(said).sum(1, keepdims=True)))).mean()


@jax.jit
def lstm(layers: Any, ends: Any, hidden: Any, cell: Any, text: Any) -> Any:
    return jax.value_and_grad(loss, (0, 1))(layers, ends, hidden, cell, text)


def turned(x: Any, z: Any, y: Any) -> Any:
    def plane(angle: Any, a: int, b: int) -> Any:
        c, s = jnp.cos(angle), jnp.sin(angle)
        return jnp.eye(3).at[[a, a, b, b], [a, b, a, b]].set(jnp.stack([c, -s, s, c]))

    return plane(z, 0, 1) @ plane(y, 0, 2) @ plane(x, 1, 2)


def about(r: Any) -> Any:
    square = r @ r
    angle = jnp.sqrt(jnp.where(square < 1e-8, 1, square))
    w = r / angle
    cross = jnp.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    whole = jnp.outer(w, w) + (jnp.eye(3) - jnp.outer(w, w)) * jnp.cos(angle) + cross * jnp.sin(angle)
    return jnp.where(square < 1e-8, jnp.eye(3), whole)


def placed(parents: tuple[int, ...], s: Any, theta: Any) -> Any:
    finger = theta[6:].reshape(5, 4)
    fingers = jnp.zeros((5, 4, 3)).at[:, :3, 0].set(finger[:, np.array([0, 2, 3])]).at[:, 0, 1].set(finger[:, 1])
    angles = jnp.concatenate([jnp.zeros((2, 3)), fingers.reshape(20, 3)])
    turns = jax.vmap(turned)(*angles.T)
    relatives = jnp.concatenate([s["relatives"][:, :, :3] @ turns, s["relatives"][:, :, 3:]], 2)
    bones: list[Any] = []
    for parent, relative in zip(parents, relatives, strict=True):
        bones.append(relative if parent < 0 else bones[parent] @ relative)
    moves = (jnp.stack(bones) @ s["inverses"])[:, :3]
    posed = jnp.einsum("prk,pk->pr", jnp.tensordot(s["weights"], moves, 1), s["skin"])
    return posed @ about(theta[:3]).T + theta[3:6]


@partial(jax.jit, static_argnums=0)
def _hand(parents: tuple[int, ...], s: Any, theta: Any, nearest: Any, seen: Any) -> Any:
    def away(theta: Any) -> Any:
        return seen - placed(parents, s, theta)[nearest]

    return away(theta), jax.jacfwd(away)(theta)


@partial(jax.jit, static_argnums=0)
def _hand_on_triangles(parents: tuple[int, ...], s: Any, theta: Any, us: Any, nearest: Any, seen: Any, triangles: Any) -> Any:
    def away(us: Any, theta: Any) -> Any:
        corner = placed(parents, s, theta)[triangles[nearest]]
        whole = jnp.concatenate([us, 1 - us.sum(1, keepdims=True)], 1)
        return seen - (whole[:, :, None] * corner).sum(1)

    def along(d: Any) -> Any:
        return jax.jvp(lambda us: away(us, theta), (us,), (jnp.broadcast_to(d, us.shape),))[1]

    by_us = jax.vmap(along, out_axes=2)(jnp.eye(2))
    return away(us, theta), jnp.concatenate([by_us, jax.jacfwd(away, 1)(us, theta)], 2)


def _known(f: Any) -> Any:
    """The skeleton's tree is a constant for JAX."""

    def called(s: Any, **given: Any) -> Any:
        return f(tuple(s["parents"].tolist()), {k: v for k, v in s.items() if k != "parents"}, **given)

    return called


hand, hand_on_triangles = map(_known, (_hand, _hand_on_triangles))
