"""Functions over a mesh of gloo processes, the collectives they are made of, and how processes end that wait for one another."""

from __future__ import annotations

import functools
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from tests import ROOT
from tests.sample import SOAK

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)
if sys.platform == "win32":
    pytest.skip("processes are forked", allow_module_level=True)

COUNT = 3
soaked = pytest.mark.skipif(not SOAK, reason="in the soak")
ELEMENTS = {
    "float32": np.float32, "float64": np.float64, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "int64": np.int64, "int32": np.int32, "int16": np.int16, "int8": np.int8,
    "uint64": np.uint64, "uint32": np.uint32, "uint16": np.uint16, "uint8": np.uint8, "bool": np.bool_,
}  # fmt: skip
WIDE = {"bfloat16": np.float32, "float16": np.float32, "float8_e4m3fn": np.float32}
COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the processes of each group returned."""
    folder = tmp_path_factory.mktemp("processes")
    subprocess.run([sys.executable, "-m", "tests.host.devices.processes", folder], cwd=ROOT, check=True, timeout=300)
    from tests.host.devices.processes import results

    return lambda name, count=COUNT: results(folder, name, count)


def value(name: str, rank: int, seed: int) -> np.ndarray:
    """What a process has, made as `cases.values_of` makes it, in NumPy."""
    numbers = np.random.default_rng((seed, rank)).integers(0, 7, (4, 5))
    dtype = ELEMENTS[name]
    if name.startswith(("float", "bfloat")):
        x = (numbers / 3 - 1.0).astype(dtype)
        x.reshape(-1)[rank] = np.nan if seed % 2 else 2.0
        return x
    return numbers.astype(dtype)


def combined(name: str, monoid: str, seed: int) -> np.ndarray:
    """In the order of the ranks, narrow floats in f32 and rounded once."""
    values = [value(name, rank, seed).astype(WIDE.get(name, ELEMENTS[name])) for rank in range(COUNT)]
    with np.errstate(all="ignore"):
        return functools.reduce(COMBINE[monoid], values).astype(ELEMENTS[name])


def same(found: np.ndarray, wanted: np.ndarray, *, exact: bool = True) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if exact:
        assert found.tobytes() == np.ascontiguousarray(wanted).tobytes() or np.array_equal(
            found.astype(np.float64), wanted.astype(np.float64), equal_nan=True
        )
    else:
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ELEMENTS)
def test_reductions(found: Any, name: str) -> None:
    """Of all element types. Where the backend chooses the order of a sum of floats, it is near; everything else is exact."""
    seed = list(ELEMENTS).index(name)
    for rank, got in enumerate(found("collectives")):
        assert isinstance(got, dict), got
        for deterministic in (False, True):
            for monoid in ("any", "all") if name == "bool" else ("sum", "prod", "max", "min"):
                exact = deterministic or monoid in ("max", "min") or name not in ("float32", "float64")
                key, wanted = f"torch.{name} {monoid} {deterministic}", combined(name, monoid, seed)
                same(got[f"all_reduce {key}"], wanted, exact=exact)
                rows = np.zeros((5, 6), wanted.dtype)
                rows[:, :4] = wanted.T
                block = got[f"reduce_scatter {key}"]
                same(block[:, : max(0, 4 - 2 * rank)], rows[:, 2 * rank : min(2 * rank + 2, 4)], exact=exact)
            monoid = "any" if name == "bool" else "sum"
            same(got[f"scalar torch.{name} {deterministic}"], combined(name, monoid, seed)[0, 0, ...], exact=False)


@pytest.mark.parametrize("name", ELEMENTS)
def test_moves(found: Any, name: str) -> None:
    """14 columns lie as blocks of 5, of which the last one has 4 that count."""
    seed = list(ELEMENTS).index(name)
    whole = np.concatenate([value(name, rank, seed) for rank in range(COUNT)], 1)[:, :14]
    for rank, got in enumerate(found("collectives")):
        same(got[f"gather torch.{name}"], whole)
        rows = np.zeros((6, 14), whole.dtype)
        rows[:4] = whole
        same(got[f"exchange torch.{name}"][: max(0, 4 - 2 * rank)], rows[2 * rank : min(2 * rank + 2, 4)])
        around = np.zeros((4, 2 + 20 + 7), whole.dtype)
        around[:, 2 : 2 + 14] = whole
        same(got[f"halo torch.{name}"], around[:, 5 * rank : 5 * rank + 14])
        torus = np.take(np.concatenate([value(name, r, seed) for r in range(COUNT)], 1), np.arange(-2, 22), 1, mode="wrap")
        same(got[f"torus torch.{name}"], torus[:, 5 * rank : 5 * rank + 14])
        blocks = np.zeros((4, 6), whole.dtype)
        blocks[:, :5] = value(name, rank, seed)
        same(got[f"slice torch.{name}"], blocks[:, 2 * rank : 2 * rank + 2])


def test_of_nothing(found: Any) -> None:
    for got in found("collectives"):
        assert [x.shape for x in got["empty"]] == [(0, 5), (0, 7), (0, 5), (0, 15)]


def ends(found: Any, name: str, at_fault: int, text: str, most: float) -> None:
    """All processes but one end within a time, with one error that names it."""
    told = [one for rank, one in enumerate(found(name)) if rank != at_fault]
    for error, seconds in told:
        assert error == told[0][0], "one error"
        assert error.startswith(f"AX0903: rank {at_fault} (a {at_fault}) {text}")
        assert seconds < most, "a loaded machine takes longer, but not that long"


def test_one_dies(found: Any) -> None:
    ends(found, "dies", 1, "has died, or is stopped", 30)


@soaked
def test_one_is_stopped(found: Any) -> None:
    ends(found, "stops", 1, "has died, or is stopped", 30)


def test_one_hangs(found: Any) -> None:
    ends(found, "hangs", 2, "hangs", 30)
    assert found("hangs")[2] is None, "the process that hangs is ended"


@soaked
def test_one_ends_its_program(found: Any) -> None:
    ends(found, "leaves", 0, "has ended its program\nValueError: no more data", 20)


def test_one_fails(found: Any) -> None:
    ends(found, "fails", 2, "failed\nValueError: no such row", 20)


@soaked
def test_one_never_comes(found: Any) -> None:
    ends(found, "is_late", 0, "has not begun", 30)


def test_different_calls(found: Any) -> None:
    """Each process hears what all would do; after that they go on."""
    for got in found("agrees"):
        assert got == [None, [{"sizes": f"n = {n}"} for n in (0, 1, 0)], None, [{"sizes": f"n = {n}"} for n in range(3)], None]


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def whole(found: Any) -> Any:
    """What the functions give of whole arguments in one process."""
    return found("whole", 1)[0]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


def near(found: Any, wanted: Any) -> None:
    for x, y in zip(leaves(found), leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(x, np.float64), np.asarray(y, np.float64), rtol=1e-5, atol=1e-6)


PLACES = {
    "apply": "(Shard(dim=0), Replicate())", "loss": "(Replicate(), Replicate())", "steps": "(Shard(dim=0), Shard(dim=1))",
    "blur": "(Shard(dim=0), Replicate())", "best": ("(Shard(dim=0), Replicate())", "(Replicate(), Replicate())"),
    "narrow": "(Replicate(), Replicate())", "chosen": "(Replicate(), Replicate())",
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_calls(found: Any, whole: dict[str, Any], name: str) -> None:
    """Whole results of DTensors are those of one process, and blocks are parts of them, in the library of the arguments."""
    for rank, got in enumerate(found("functions", 4)):
        assert isinstance(got, dict), got
        near(got[name], whole[name])
        assert got[f"{name} placed"] == PLACES[name]
        blocks, tensors = leaves(got[f"{name} blocks"]), got[f"{name} tensors"]
        for x, y, at, kind in zip(blocks, leaves(whole[name]), leaves(PLACES[name]), leaves(tensors)[::2], strict=True):
            near(x, block(np.asarray(y), at, rank))
            assert kind == "Tensor"
        near(tuple(leaves(tensors)[1::2]), tuple(blocks))


def block(x: np.ndarray, placed: str, rank: int) -> np.ndarray:
    for place, at in zip(placed[1:-1].split(", "), divmod(rank, 2), strict=True):
        if place.startswith("Shard"):
            x = np.split(x, 2, int(place[10:-1]))[at]
    return x


def test_gradients(found: Any, whole: dict[str, Any]) -> None:
    """Of the function itself, and by PyTorch, of DTensors and of blocks; each lies as its parameter does."""
    value, slope = whole["slope"]
    for rank, got in enumerate(found("functions", 4)):
        near(got["value_and_grad"][0], value)
        for had in (got["value_and_grad"][1], got["autograd"]):
            assert [had["w"][0], had["v"][0]] == ["(Replicate(), Shard(dim=1))", "(Replicate(), Shard(dim=0))"]
            near({name: x for name, (_, x) in had.items()}, slope)
        w, v = np.split(slope["w"], 2, 1)[rank % 2], np.split(slope["v"], 2, 0)[rank % 2]
        near(got["autograd of blocks"], {"w": w, "v": v})
        near(got["autograd without a mesh"], slope)


def test_sums_of_16_bit_floats(found: Any, whole: dict[str, Any]) -> None:
    """Rounded in each process, as interpreted shards are, and by that alone not as one process has them; or not before the end."""
    for got in found("functions", 4):
        same(got["narrow"], whole["narrow"])
        near(got["wide"], whole["wide"])
        np.testing.assert_allclose(got["narrow"].astype(np.float64), whole["wide"].astype(np.float64), rtol=2.0**-6)


def test_deterministic(found: Any, whole: dict[str, Any]) -> None:
    """Sums in the order of the ranks are those of the interpreter, bit for bit."""
    assert [got["deterministic"] for got in found("functions", 4)] == [whole["ordered"]] * 4


def test_a_ring_of_processes(found: Any, whole: dict[str, Any]) -> None:
    """It computes what one process does; and programs run from beginning to end while blocks are under way."""
    for got in found("ring", 2):
        assert isinstance(got, tuple), got
        near(got[0], whole["ring"])
        names = [name for name, _ in got[1]]
        under_way = [names[n : n + 4] for n in range(len(names)) if names[n] == "exchange begins"]
        assert ["exchange begins", "exchange ended", "program begins", "program ended"] in under_way
        times = [when for _, when in got[1]]
        assert times == sorted(times)


def test_bytes_are_those_that_axon_explain_says(found: Any) -> None:
    """Of the process that sends most: at the ends of a line there is one border."""
    results = found("counted", 4)
    assert all(isinstance(got, dict) for got in results), results
    told = {name: explained for name, (_, explained) in results[0].items()}
    sent = {name: max(got[name][0] for got in results) for name in told}
    two = "window over d=2,m=2"  # neighbours on one side alone
    assert sent.pop(two) < told.pop(two)
    assert sent == told
    assert sum(1 for count in told.values() if count) > 15


def test_on_gpus(found: Any) -> None:
    """Programs run as kernels on what lies there, also without arguments, in parts and in loops; and how many calls have ended."""
    from tests.host.devices.emulated import TEXT, arguments

    module = axon.compile(TEXT)
    for got in found("gpus", 2):
        assert isinstance(got, dict), got
        for name, given in arguments().items():
            want = getattr(module, name)(*given, target="interpret")
            tolerance = {"attend": 1e-6, "slope": 2e-6}.get(name, 0)
            for one, other in zip(got[name], want if isinstance(want, tuple) else (want,), strict=True):
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(1, np.abs(other).max()))
        assert got["rounds"] == [1] * len(arguments())  # all kernels of a call are built side by side
        assert got["launches"] > len(arguments())
        assert got["under way"] == [None, len(arguments()) + 1]


def test_a_gpu_that_waits_for_a_dead_process(found: Any) -> None:
    """The program stands where no exception reaches it; it is ended."""
    got, dead = found("waits", 2)
    assert dead is None
    assert got[0] == [70]
    assert 10 < got[1] < 25
    assert "rank 1 (a 1) has died" in got[2]


def test_disagreements(found: Any, whole: dict[str, Any]) -> None:
    """One error in all processes, that names who differs and in what; then they go on."""
    wanted = {
        "another source": "AX0902: rank 3 (data 1, model 1) would call `apply` with another source than the others",
        "another number": "AX0902: rank 1 (data 0, model 1) would call `loss` with other numbers than the others",
        "another size": "AX0902: rank 1 (data 0, model 1) would call `apply` with other sizes than the others",
        "a broken contract": "AX0902: rank 2 (data 1, model 0) cannot make a call of `apply`",
        "broken in all": "AX0501: ",
        "a broken size": "AX0501: dimension 1 of `p.v` is 6, and must be 4, in a call of `apply`",
        "no multiple of a DTensor": "AX0901: `b` = 7 cannot be split over the 2 devices of `data`",
        "other placements": "AX0505: `p.w` is a DTensor placed",
        "no multiple": "AX0901: `b` = 5 cannot be split over the 2 devices of `data`",
        "no such size": "AX0901: `apply` has no size `q`",
    }
    results = found("functions", 4)
    for key, text in wanted.items():
        assert [got[key].startswith(text) for got in results] == [True] * 4, results[0][key]
        assert len({got[key] for got in results}) == 1
    mine = "whole sizes: over data=2,model=2 this process has [3, 2] of the [3, 4] of `p.w` and [3, 5] of the [6, 5] of `p.v`"
    assert mine in results[0]["a broken size"]
    assert "the nearest that can: 6 or 8" in results[0]["no multiple of a DTensor"]
    for got in results:
        assert isinstance(got["one number"], float)
        near(got["and on"], whole["apply"])


def test_an_index_outside(found: Any) -> None:
    """Who meets it raises it; the others hear whose it was."""
    results = [got["an index"] for got in found("functions", 4)]
    assert all("AX0502" in text for text in results)
    assert all(text.startswith(("AX0502: ", "AX0903: rank 2", "AX0903: rank 3")) for text in results)
    assert {text[:6] for text in results[:2]} == {"AX0903"}


@soaked
@pytest.mark.parametrize("name", ["data", "tensor", "sequence", "both"])
def test_llama(found: Any, whole: dict[str, Any], name: str) -> None:
    """Under data, tensor and sequence parallelism it computes what it does in one process."""
    places = {"tensor": "(Replicate(), Replicate())", "sequence": "(Shard(dim=1), Replicate())"}
    for got in found("llama", 4):
        assert isinstance(got, dict), got
        placed, logits = got[name]
        assert placed == places.get(name, "(Shard(dim=0), Replicate())")
        np.testing.assert_allclose(logits, whole["llama"], rtol=1e-4, atol=1e-5)
