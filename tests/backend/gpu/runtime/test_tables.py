"""Literal tables on a GPU: put there once, whatever is called how often, and read like any tensor."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.runtime.device_tables import DeviceTables
from axon.base.element import Element
from axon.core.passes.parts import as_program, parts, verify_parts
from axon.core.verify import verify
from axon.interpret import run
from tests.backend.gpu.runtime.fake import Builds, DeviceArray, FakeDriver, FakeLibrary, aligned
from tests.backend.gpu.runtime.parted import PlayedDriver, PlayedExecutable, played

LONG = 300


def literal(values: Any) -> str:
    return f"[| {', '.join(map(str, values))} |]"


NUMBERS = [0.5 * i for i in range(LONG)]
SQUARE = literal(literal(round(0.1 * (i * 7 % 16 - j), 1) for j in range(16)) for i in range(16))
RECORDS = literal(f"{{ a = {i}.0, b = {i} }}" for i in range(20))
SIGNS = literal("true" if i % 3 else "false" for i in range(40))
TEXT = f"""\
val t = {literal(NUMBERS)}
val square = {SQUARE}
val small = [| 1.0, 2.0, 4.0 |]
fun gather (i : i32[n]) = for j => t[i[j]]
fun given (x : f32[n]) = (t, t, x)
fun only (x : f32[n]) = t
fun each (x : f32[{LONG}]) = let val y = for i => x[i] * t[i] in for i => y[{LONG - 1} - i] + t[i] end
fun product (x : bf16[n, 16]) = let val w = for i j => cast bf16 square[i, j] in x @ w end
fun few (i : i32[n]) = for j => small[i[j] % 3]
fun inside (x : f32[n]) k = loop (s = x) for i < k => for j => s[j] + {literal(NUMBERS)}[i] + t[{LONG - 1} - i]
fun from (k : i32) = loop (s = t) for i < k => for j => s[j] * 2.0
fun back (k : i32) = loop (s = t, x = 0.0) for i < k => (t, x + s[i])
fun stacked (k : i32) = unfold (s = t) for i < 2 => t
fun ordered (x : f32[n]) = (sort t, argsort t, x)
fun picked (x : f32[40]) = let val (ix : i32[k]) = nonzero {SIGNS} in for i => x[ix[i]] end
fun records (i : i32) = let val r = {RECORDS} in (r.a[i], r.b) end
"""
M = axon.compile(TEXT)
ONES = np.ones(5, np.float32)
PARTED: dict[str, tuple[Any, ...]] = {
    "inside": (np.array([1.0, 2.0], np.float32), 4), "from": (3,), "back": (3,), "stacked": (2,), "ordered": (ONES,),
    "picked": (np.arange(40, dtype=np.float32),),
}  # fmt: skip
STRAIGHT: dict[str, tuple[Any, ...]] = {
    "gather": (np.array([0, 7, LONG - 1], np.int32),), "given": (ONES,), "only": (ONES,),
    "each": (np.arange(LONG, dtype=np.float32),), "records": (3,), "few": (np.arange(7, dtype=np.int32),),
    "product": (np.ones((24, 16), Element.BF16.dtype),),
}  # fmt: skip


def program(name: str, *given: Any) -> Any:
    return M._session.program(M._session.callee(name), given, {})


def on(x: Any, device: int = 0) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    made = aligned(x.shape, {"f": Element.F32, "i": Element.I32, "V": Element.BF16}[x.dtype.kind])
    made[...] = x
    return DeviceArray(made, device)


def same(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            same(a, b)
        return
    got = got.array if isinstance(got, DeviceArray) else got
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=2**-6 if _narrow(got) else 1e-5)


def _narrow(x: Any) -> bool:
    return np.asarray(x).dtype == Element.BF16.dtype


@pytest.fixture
def m() -> Any:
    return axon.compile(TEXT)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> PlayedDriver:
    return played(monkeypatch)


@pytest.mark.parametrize("name", [*STRAIGHT, *PARTED])
def test_the_parts_of_a_program_with_tables(name: str) -> None:
    given = {**STRAIGHT, **PARTED}[name]
    whole = program(name, *given)
    split = parts(whole)
    assert bool(split.tables) == (name != "few")
    verify_parts(split)
    verify(as_program(split))
    values = [np.asarray(x, v.element.dtype) for v, x in zip(whole.inputs, given, strict=True)]
    for got, want in zip(run(as_program(split), values), run(whole, values), strict=True):
        np.testing.assert_array_equal(got, want)
    assert {v.symbol for op in split.tables for v in op.outs}.isdisjoint(whole.block.results)


@pytest.mark.parametrize("name", STRAIGHT)
def test_straight_calls(name: str, m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    """The first call, the second, which makes a graph of several kernels, and the third, which replays it."""
    given = STRAIGHT[name]
    want = m[name](*given, target="interpret")
    own = [on(np.asarray(x, np.int32) if isinstance(x, int) else x) for x in given]
    for _ in range(3):
        same(m[name](*own), want)
    assert len(fake.uploaded) == (name != "few")
    same(m[name](*given, target="simulate"), want)


@pytest.mark.parametrize("name", PARTED)
def test_calls_in_parts(name: str, m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    given = PARTED[name]
    want = m[name](*given, target="interpret")
    own = sum(isinstance(x, np.ndarray) for x in given)
    for _ in range(2 if own else 0):
        same(m[name](*map(on, given)), want)
    assert len(cuda.uploaded) == bool(own)
    for _ in range(2):
        same(m[name](*given, target="cuda"), want)
    assert len(cuda.uploaded) == 1 + 2 * len(given)  # NumPy's arrays, and numbers, are copied each time
    same(m[name](*given, target="simulate"), want)


def test_a_step_puts_nothing_there_and_computes_no_table(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    x = on(PARTED["inside"][0])
    m.inside(x, 3)
    launches, taken = PlayedExecutable.log.count("launch"), len(cuda.held)
    m.inside(x, 30)
    assert PlayedExecutable.log.count("launch") == launches + 30
    assert len(cuda.held) == taken
    assert len(cuda.uploaded) == 1


def test_results_are_written_where_the_caller_wants_them(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    out = on(np.zeros(LONG, np.float32))
    for _ in range(2):
        assert m.only(on(ONES), out=out) is out
        assert out.array.tolist() == NUMBERS
        out.array[...] = 7  # the caller's own
    first, second, _ = m.given(on(ONES))
    first.array[...] = 7
    assert second.array.tolist() == NUMBERS


def test_each_gpu_has_its_own(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    i = STRAIGHT["gather"][0]
    for device in (0, 1, 0, 1):
        library.current_device = device
        same(m.gather(on(i, device)), m.gather(i, target="interpret"))
    assert len(fake.uploaded) == 2


def test_several_threads_and_sizes_put_it_there_once(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    given = [np.arange(n, dtype=np.int32) for n in range(1, 17)]
    with ThreadPoolExecutor(8) as pool:
        for got, i in zip(pool.map(lambda i: m.gather(on(i)), given), given, strict=True):
            same(got, m.gather(i, target="interpret"))
    assert len(fake.uploaded) == 1


def test_programs_with_equal_tables_share_them(fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    """A file that is loaded again and again takes no more memory."""
    i = STRAIGHT["gather"][0]
    for _ in range(3):
        axon.compile(TEXT).gather(on(i))
    other = axon.compile(TEXT.replace("149.5", "149.25"))
    assert float(other.gather(on(i)).array[-1]) == 149.25
    assert len(fake.uploaded) == 2


def test_there_before_the_kernels_of_any_stream(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    """What comes from pageable memory is on its way when the driver returns, and streams of others do not wait for it."""
    m.gather(on(STRAIGHT["gather"][0]))
    assert fake.waited == 1


def test_a_kernel_is_as_long_for_a_table_of_any_length(builds: Builds) -> None:
    def text(count: int) -> str:
        m = axon.compile(f"val t = {literal(NUMBERS[:count])}\nfun f (i : i32[n]) = for j => t[i[j]]")
        m.f.warmup("i32[64]")
        return str(builds.made.pop().source.text).replace(f" {count}", " LONG")

    assert text(100).count("\n") == text(LONG).count("\n")


def test_values_are_made_when_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at a program's kernels takes no memory of a GPU."""
    tables = DeviceTables(parts(program("gather", *STRAIGHT["gather"])).tables)
    driver = FakeDriver()
    assert not driver.held
    (tensor,) = tables.on(driver, 0).values()  # type: ignore[arg-type]
    assert (tensor.pointer % 256, tensor.shape) == (0, (LONG,))
