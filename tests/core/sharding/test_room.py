"""Programs that leave a part of their device to what is exchanged meanwhile: where that costs less than it hides."""

from __future__ import annotations

import pytest

from axon.core.sharding import Sharded
from axon.core.sharding.ir import Collective, Local, Repeat, Step
from tests.core.sharding.whole import bound, mesh, nvlink, of, sharded

TEXT = """
import nn
fun beside (w : bf16[d, f]) (x : bf16[s, d]) = for j i => sum c => w[c, j] * x[i, c]
fun behind (x : bf16[s, f]) (w : bf16[f, d]) = x @ w
fun doubled (x : bf16[s, d]) = let val t = sum i j => x[i, j] in for i j => 2.0 * x[i, j] + t end
fun attend (q : bf16[h, s, c]) (k : bf16[h, s, c]) (v : bf16[h, s, c]) =
  let val w = nn.softmax (nn.causal (for h i j => (sum c => q[h, i, c] * k[h, j, c]) * rsqrt (cast bf16 c)))
  in for h i c => sum j => w[h, i, j] * v[h, j, c] end
"""


def made(name: str, split: dict[str, str], devices: int, **sizes: int) -> Sharded:
    program = of(TEXT, name)
    return sharded(program, mesh(m=devices), split, bound(program, **sizes), nvlink())


def told(steps: tuple[Step, ...]) -> list[str]:
    """What is exchanged, and what computed, in order: programs that leave room are `beside`."""
    out = []
    for step in steps:
        match step:
            case Repeat(steps=inner):
                out += told(inner)
            case Collective(kind=kind):
                out.append(kind)
            case Local(beside=beside):
                out.append("beside" if beside else "local")
    return out


def test_the_last_part_of_a_product_has_the_whole_device() -> None:
    found = made("beside", {"s": "m", "f": "m"}, 2, s=16384, d=8192, f=8192)
    assert told(found.steps) == ["shift", "beside", "local"]


@pytest.mark.parametrize("devices", [2, 4])
def test_behind_a_product_each_next_one_leaves_room(devices: int) -> None:
    found = told(made("behind", {"f": "m"}, devices, s=16384, d=8192, f=8192).steps)
    products = found[: found.index("local", 1) if "local" in found[1:] else None]
    assert products[:2] == ["local", "all_reduce"]
    assert {"all_reduce", "beside"} == set(products[1:])


def test_what_takes_no_time_leaves_none() -> None:
    assert "beside" not in told(made("beside", {"s": "m", "f": "m"}, 2, s=64, d=64, f=64).steps)
    assert "beside" not in told(made("doubled", {"s": "m"}, 2, s=4096, d=4096).steps)


def test_long_programs_do_not_wait_for_short_messages() -> None:
    """An eighth of a step of attention on two devices is more than its messages take; on eight it is less."""
    few = told(made("attend", {"s": "m"}, 2, h=8, s=131072, c=128).steps)
    many = told(made("attend", {"s": "m"}, 8, h=8, s=131072, c=128).steps)
    assert "beside" not in few
    assert "beside" in many
