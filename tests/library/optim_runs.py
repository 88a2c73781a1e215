"""Whole runs of `optim` over records and tuples of weights, beside PyTorch's optimizers, schedules and clipping."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import axon

torch = pytest.importorskip("torch")

PROGRAM = """
import optim
import tensor

type net['a, d, h] = { up : { w : 'a[d, h], b : 'a[h] }, down : ('a[h], 'a) }

(* Two layers, and the mean of the squares of what they are wrong by. *)
fun loss (p : net['a, d, h]) (x : 'a[n, d]) (y : 'a[n]) =
  let val hidden = for i j => tanh ((sum k => x[i, k] * p.up.w[k, j]) + p.up.b[j])
  in (sum i => ((sum j => hidden[i, j] * p.down.1[j]) + p.down.2 - y[i]) ** 2) / cast 'a n end

fun start (p : net['a, d, h]) = each tensor.zeros_like p
fun slopes (p : net['a, d, h]) x y = grad (fn p => loss p x y) p

fun sgd rate (w : net['a, d, h]) g = each (optim.sgd rate) w g
fun momentum rate (w : net['a, d, h]) (v : net['a, d, h]) g =
  let val v = each (optim.momentum 0.9) v g in (each (optim.sgd rate) w v, v) end
fun nesterov rate (w : net['a, d, h]) (v : net['a, d, h]) g =
  let val v = each (optim.momentum 0.9) v g
  in (each (optim.sgd rate) w (each (optim.nesterov 0.9) v g), v) end
fun adam rate t (w : net['a, d, h]) (m : net['a, d, h]) (v : net['a, d, h]) g =
  let val m = each (optim.average 0.9) m g
      val v = each (optim.average_square 0.99) v g
  in (each (optim.adam rate (0.9, 0.99) 1.0e-8 t) w m v, m, v) end
fun adamw rate t (w : net['a, d, h]) (m : net['a, d, h]) (v : net['a, d, h]) g =
  let val m = each (optim.average 0.9) m g
      val v = each (optim.average_square 0.99) v g
  in (each (optim.adamw rate (0.9, 0.99) 1.0e-8 0.1 t) w m v, m, v) end
fun rmsprop rate (w : net['a, d, h]) (v : net['a, d, h]) g =
  let val v = each (optim.average_square 0.9) v g in (each (optim.rmsprop rate 1.0e-8) w v g, v) end
fun adagrad rate (w : net['a, d, h]) (v : net['a, d, h]) g =
  let val v = each optim.sum_square v g in (each (optim.adagrad rate 1.0e-10) w v g, v) end
fun penalized (w : net['a, d, h]) g = each (optim.penalized 0.1) w g

fun clipped (limit : f64) (g : net['a, d, h]) =
  let val factor = optim.clip_factor limit (fold_leaves (op +, 0.0) optim.square_sum g)
  in each (optim.scaled factor) g end
fun clipped_each limit (g : net['a, d, h]) = each (optim.clip limit) g
"""
STEPS = 12
RUNS: dict[str, Callable[[Any, Any, Any], None]] = {}


@cache
def module() -> Any:
    return axon.compile(PROGRAM)


def leaves(p: Any) -> list[Any]:
    return [p["up"]["w"], p["up"]["b"], *p["down"]]


def tree(w: Any, b: Any, down: Any, shift: Any) -> Any:
    return {"up": {"w": w, "b": b}, "down": (down, shift)}


def close(got: Any, want: Any) -> None:
    for a, b in zip(leaves(got), leaves(want), strict=True):
        torch.testing.assert_close(torch.as_tensor(a).double(), b.detach().double(), rtol=tolerance(b), atol=tolerance(b))


def tolerance(x: Any) -> float:
    return 2e-4 if x.dtype == torch.float32 else 1e-9


def drawn(device: str, dtype: Any) -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 8), (8,), (8,), (), (20, 5), (20,))
    *p, x, y = (torch.randn(s, generator=generator, dtype=torch.float64).to(device, dtype) for s in shapes)
    return tree(*p), x, y


def run(step: Callable[..., Any], carried: int, timed: bool, optimizer: Callable[..., Any], penalty: bool = False) -> Any:
    """An optimizer of ours, which carries some structures, and PyTorch's, from the same weights."""

    def compare(device: str, dtype: Any, target: str | None) -> None:
        m, (w, x, y) = module(), drawn(device, dtype)
        peers = [t.clone().requires_grad_() for t in leaves(w)]
        peer, state = optimizer(peers), [m.start(w, target=target) for _ in range(carried)]
        for t in range(1, STEPS + 1):
            g = m.slopes(w, x, y, target=target)
            g = m.penalized(w, g, target=target) if penalty else g
            made = step(m)(0.05, *([t] if timed else []), w, *state, g, target=target)
            w, *state = made if carried else (made,)
            peer.zero_grad()
            up, bias, down, shift = peers
            (((torch.tanh(x @ up + bias) @ down + shift) - y) ** 2).mean().backward()
            peer.step()
            close(w, tree(*peers))

    return compare


RUNS |= {
    "sgd": run(lambda m: m.sgd, 0, False, lambda p: torch.optim.SGD(p, 0.05)),
    "decay": run(lambda m: m.sgd, 0, False, lambda p: torch.optim.SGD(p, 0.05, weight_decay=0.1), penalty=True),
    "momentum": run(lambda m: m.momentum, 1, False, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)),
    "nesterov": run(lambda m: m.nesterov, 1, False, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True)),
    "adam": run(lambda m: m.adam, 2, True, lambda p: torch.optim.Adam(p, 0.05, (0.9, 0.99))),
    "adamw": run(lambda m: m.adamw, 2, True, lambda p: torch.optim.AdamW(p, 0.05, (0.9, 0.99), weight_decay=0.1)),
    "rmsprop": run(lambda m: m.rmsprop, 1, False, lambda p: torch.optim.RMSprop(p, 0.05, alpha=0.9)),
    "adagrad": run(lambda m: m.adagrad, 1, False, lambda p: torch.optim.Adagrad(p, 0.05)),
}


def clipping(device: str, dtype: Any, target: str | None) -> None:
    m, (g, _, _) = module(), drawn(device, dtype)
    for limit in (0.5, 2.0, 1e3):
        peers = [t.clone().requires_grad_() for t in leaves(g)]
        for p, t in zip(peers, leaves(g), strict=True):
            p.grad = t.clone()
        torch.nn.utils.clip_grad_norm_(peers, limit)
        for a, p in zip(leaves(m.clipped(limit, g, target=target)), peers, strict=True):
            torch.testing.assert_close(torch.as_tensor(a), p.grad, rtol=1e-5, atol=1e-6)  # PyTorch adds 1e-6 to the norm
        torch.nn.utils.clip_grad_value_(peers, limit)
        wanted = tree(*(t.clamp(-limit, limit) for t in leaves(g)))
        close(m.clipped_each(limit, g, target=target), wanted)


RUNS["clipping"] = clipping
