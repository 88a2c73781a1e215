"""`m.f.cost`: what a call costs, held against what `axon explain` and the plan print, and against counting by hand."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

import axon
from axon.backend.cpu import run
from tests.conftest import Ran

SOURCE = """\
import nn
fun mm (x : 'a[n, m]) (y : 'a[m, k]) = x @ y
fun attend (q : bf16[b, s, 64]) (k : bf16[b, t, 64]) (v : bf16[b, t, 64]) = nn.attention q k v
fun soft (x : f32[n, m]) = nn.softmax x
fun chain (x : f32[n, n]) = (x @ x) @ (x @ x)
fun heat (x : f32[n]) (t : i32) = loop (u = x) for i < t => for j => u[j] * 0.5
fun stack {t} (x : f32[n]) = unfold (u = x) for i < t => for j => u[j] * 0.5
fun triangle (x : f32[n]) = loop (s = 0.0) for i < n => s + (sum for j < i => x[j])
fun positive (x : f32[n]) = (filter (for i => x[i] > 0.0) x) * 2.0
fun shift (x : f32[..s, n]) y = x + y
fun free x y = x @ y
"""


@pytest.fixture(scope="module")
def m() -> axon.Module:
    return axon.compile(SOURCE)


def size(name: str) -> Any:
    return sympy.Symbol(name, integer=True, nonnegative=True)


n, m_, k, t, b, s = map(size, "nmktbs")


def same(found: Any, expected: Any) -> bool:
    return sympy.simplify(found - expected) == 0


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_product(m: axon.Module, target: str) -> None:
    found = m.mm.cost(target=target, elements={"x": "bf16"})
    assert same(found.flops, 2 * n * m_ * k)
    assert same(found.bytes, 2 * (n * m_ + m_ * k + n * k))
    assert same(found.memory, found.bytes)
    assert sympy.diff(found.flops, n) == 2 * m_ * k
    assert (found.target, found.bounds) == (target, ())
    given = m.mm.cost(x=(64, 32), y=(32, 16), target=target, elements={"x": "bf16"})
    assert (given.flops, given.bytes, given.memory) == (65536, 7168, 7168)
    assert all(isinstance(x, sympy.Integer) for x in (given.flops, given.bytes, given.memory))
    assert given.flops.diff(n) == 0
    half = m.mm.cost({"n": 64}, target=target, elements={"y": "bf16"})
    assert same(half.flops, found.flops.subs(n, 64))


def test_element_types(m: axon.Module) -> None:
    assert same(m.mm.cost(elements={"x": "f64"}).bytes, 2 * m.mm.cost().bytes)


def test_attention_never_stores_scores_on_a_gpu(m: axon.Module) -> None:
    gpu, cpu = m.attend.cost(target="cuda"), m.attend.cost()
    assert same(gpu.memory, 256 * b * (s + t))
    assert [kernel.title for kernel in gpu.kernels] == ["stream"]
    assert sympy.degree(cpu.memory.args[0], s) == 1
    assert cpu.memory.subs({b: 1, s: 4096, t: 4096}) >= 2 * 2 * 4096 * 4096 > gpu.memory.subs({b: 1, s: 4096, t: 4096})


def test_memory_is_free_after_its_last_reader(m: axon.Module) -> None:
    """Two products of the same factors are one; it and its square live at once, beside the argument."""
    assert same(m.chain.cost().memory, 3 * 4 * n * n)
    assert same(m.chain.cost().flops, 4 * n**3)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_loops(m: axon.Module, target: str) -> None:
    stack = m.stack.cost(target=target)
    assert same(stack.flops, n * t)
    assert same(stack.bytes, 8 * n * t)
    assert stack.memory.subs({n: 100, t: 50}) >= 4 * 100 * 51
    heat = m.heat.cost(target=target)
    assert same(heat.flops, n)
    assert heat.bounds == ("data decide how many steps a loop takes: one is counted",)
    triangle = m.triangle.cost(target=target)
    assert triangle.bounds == ("a size changes from step to step of a loop: the largest is counted",)
    for size_ in (0, 1, 5, 40):
        assert int(triangle.flops.subs(n, size_)) >= sum(range(size_))


COPIED = """\
fun same (x : f32[n]) = x
fun twice (x : f32[n]) = (x, x)
fun made (x : f32[n]) = let val y = x + 1.0 in (y, x, y) end
fun numbers (x : f32) = (x, x)
fun sorted (x : f32[n]) = sort x
fun stays (x : f32[n]) = loop (u = x, v = x) for i < 3 => (for j => u[j] * 0.5, v)
fun stack (x : f32[n]) = unfold (u = x, v = x) for i < 3 => (for j => u[j] * 0.5, v)
"""


@pytest.mark.parametrize(
    ("name", "copies", "memory"),
    [("same", 1, 2), ("twice", 2, 3), ("made", 2, 4), ("numbers", 2, 3), ("sorted", 1, 3), ("stays", 1, 0), ("stack", 3, 0)],
)
def test_results_that_are_copies(name: str, copies: int, memory: int) -> None:
    """What a call gives is memory of its own: an argument that is a result, and what is a result twice, are copied."""
    found = axon.compile(COPIED)[name].cost()
    unit = 4 if name == "numbers" else 4 * n
    assert same(sum(k.bytes for k in found.kernels if k.title == "copy"), 2 * copies * unit)
    assert not memory or same(found.memory, memory * unit)
    results = axon.compile(COPIED)[name](*([2.0] if name == "numbers" else [[2.0, 1.0]]))
    assert all(x.base is None for x in (results if isinstance(results, tuple) else (results,)) if hasattr(x, "base"))


@pytest.mark.parametrize("name", ["same", "twice", "made", "numbers"])
def test_copies_are_those_of_a_gpu(name: str) -> None:
    """Where they are kernels."""
    f = axon.compile(COPIED)[name]
    assert same(f.cost().bytes, f.cost(target="cuda").bytes)
    assert same(f.cost().memory, f.cost(target="cuda").memory)


HELD = """\
fun twice (x : f32[n]) = (x, x)
fun made (x : f32[n]) = let val y = x + 1.0 in (y, x, y) end
fun less (x : f32[n]) = for i => x[i] - (sum for j => x[j]) / 3.0
fun total (x : f32[n]) = sum i => x[i]
fun stacked (x : f32[n]) = unfold (u = x) for i < 5 => for j => u[j] * 0.5
"""


@pytest.mark.parametrize("name", [line.split()[1] for line in HELD.splitlines()])
def test_memory_is_what_a_call_holds(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The arrays that the CPU backend makes, as long as they live: of so many elements that the host steps loops."""
    f, x = axon.compile(HELD)[name], np.ones(400_000, np.float32)
    held = [x.nbytes]

    def tracked(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def made(*arguments: Any) -> np.ndarray:
            array = make(*arguments)
            held.append(held[-1] + array.nbytes)
            weakref.finalize(array, lambda size: held.append(held[-1] - size), array.nbytes)
            return array

        return made

    monkeypatch.setattr(run, "make", tracked(run.make))
    monkeypatch.setattr(run, "allocate", tracked(run.allocate))
    found = f(x)
    assert found is not None
    assert f.cost({"n": x.size}).memory - max(held) in (0, -4)  # a loop's counter is not counted


def test_sums_in_parts() -> None:
    """The parts together are the range; putting them together counts. What is known to be short is in no parts."""
    m = axon.compile(
        "fun three (x : f32[3]) = sum i => x[i]\n"
        "fun all (x : f32[n]) = sum i => x[i]\n"
        "fun odd (x : f32[2 * n + 1]) = sum i => x[i]\n"
        "fun grid (x : f32[m, n]) = sum i j => x[i, j]\n"
        "fun below (x : f32[n]) = sum for i, j < i => x[i] + x[j]\n"
    )
    assert m.three.cost().flops == 3
    assert same(m.all.cost().flops, n + 64)
    assert same(m.odd.cost().flops, 2 * n + 1 + 64)
    assert same(m.grid.cost().flops, m_ * n + 64)
    for size_ in (0, 1, 3, 64, 100):  # at most what the longest row would make of all of them
        assert size_ * (size_ - 1) <= m.below.cost({"n": size_}).flops - 64 <= 2 * size_ * max(size_ - 1, 0)


COUNTED = """\
fun fixed (x : f32[n]) = loop (u = x) for i < 100 => for j => u[j] * 0.5
fun late (x : f32[n]) = loop (u = x) for i < n - 5 => for j => u[j] * 0.5
fun ahead (x : f32[n]) = for j => sum for i < n - 5 => max x[i] x[j]
fun before (x : f32[n]) = loop (t = 0.0) for i < n => t + (sum for j < i - 4 => x[j])
fun after (x : f32[n]) = for i < n => sum for j < n - i => x[i + j]
fun pairs (x : f32[n]) = sum for i < n, j < n - i => x[i] * x[j]
"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("fixed", lambda n: 100 * n),
        ("late", lambda n: n * max(n - 5, 0)),
        ("ahead", lambda n: 2 * n * max(n - 5, 0)),
        ("before", lambda n: sum(max(i - 4, 0) for i in range(n))),
        ("after", lambda n: sum(n - i for i in range(n))),
        ("pairs", lambda n: sum(2 * (n - i) for i in range(n))),
    ],
)
def test_no_steps_and_the_longest_rows(name: str, count: Callable[[int], int], target: str) -> None:
    """Never fewer than by hand, nor more than if each row were the longest; as many where all steps are the same."""
    found = axon.compile(COUNTED)[name].cost(target=target)
    assert found.bounds == (("a size changes from step to step of a loop: the largest is counted",) if name == "before" else ())
    for size_ in (0, 1, 3, 5, 6, 9, 200):
        at = [int(x.subs(n, size_)) for x in (found.flops, found.bytes, found.memory)]
        assert min(at) >= 0
        assert at[0] >= count(size_)
        if name in ("fixed", "late", "ahead"):
            assert at[0] == count(size_)
        elif size_ > 100:
            assert at[0] <= 3 * count(size_)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_data_decide_is_counted_at_its_largest(m: axon.Module, target: str) -> None:
    found = m.positive.cost(target=target)
    assert found.bounds == ("data decide a size: the largest that it can be is counted",)
    for expression in (found.flops, found.bytes, found.memory):
        assert expression.free_symbols == {n}


def test_ranks(m: axon.Module) -> None:
    s1, s2 = size("s1"), size("s2")
    assert same(m.shift.cost(ranks={"s": 2}).bytes, 12 * s1 * s2 * n)
    assert m.shift.cost(x=(2, 3)).bytes == 72


def test_sizes_without_names(m: axon.Module) -> None:
    sizes = m.free.sizes(ranks={"x": 2})
    found = m.free.cost(ranks={"x": 2}).flops
    assert same(found, 2 * sizes["x", 0] * sizes["x", 1] * sizes["y", 1])
    assert m.free.cost({("x", 0): 2, ("x", 1): 3, ("y", 1): 4}, ranks={"x": 2}).flops == 48


EXPLAINED = re.compile(r"([\d,]+) FLOPs?, moves ([\d,]+) bytes")


@pytest.mark.parametrize(
    ("name", "arguments", "shapes", "elements"),
    [
        ("mm", ["x=zeros(bf16[256, 512])", "y=zeros(bf16[512, 128])"], {"x": (256, 512), "y": (512, 128)}, {"x": "bf16"}),
        ("soft", ["x=zeros(f32[64, 100])"], {"x": (64, 100)}, {}),
        ("attend", [f"{x}=zeros(bf16[2, 256, 64])" for x in "qkv"], dict.fromkeys("qkv", (2, 256, 64)), {}),
        ("chain", ["x=zeros(f32[32, 32])"], {"x": (32, 32)}, {}),
    ],
)
def test_counts_are_those_of_explain(
    axon_cli: Callable[..., Ran], here: Path, name: str, arguments: list[str], shapes: dict[str, Any], elements: dict[str, str]
) -> None:
    (here / "a.axon").write_text(SOURCE)
    ran = axon_cli("explain", f"a.axon:{name}", *arguments)
    assert ran.status == 0, ran.out
    told = [tuple(int(x.replace(",", "")) for x in found) for found in EXPLAINED.findall(ran.out)]
    found = axon.load("a.axon")[name].cost(target="cuda", elements=elements, **shapes)
    assert [(kernel.flops, kernel.bytes) for kernel in found.kernels] == told
    assert (found.flops, found.bytes) == tuple(map(sum, zip(*told, strict=True)))


def test_counts_are_those_of_the_plan(axon_cli: Callable[..., Ran], here: Path) -> None:
    (here / "a.axon").write_text(SOURCE)
    told = re.findall(r"moves (.*?) bytes", axon_cli("emit", "a.axon:chain", "--stage", "plan").out)
    found = [kernel.bytes for kernel in axon.load("a.axon").chain.cost().kernels]
    assert len(told) == 2
    assert [str(x) for x in found] == [text.replace(" ", "").replace("n*n", "n**2") for text in told]


def test_a_published_model() -> None:
    """ResNet-50 takes 4.1 billion multiplications and as many additions for an image."""
    f = axon.load(Path(__file__).parents[2] / "examples" / "models" / "resnet50.axon").logits_50
    images = f.sizes["images", 0]
    assert 8.1e9 < f.cost().flops.diff(images) < 8.4e9


def test_text(m: axon.Module) -> None:
    assert repr(m.soft.cost({"n": 1000})) == (
        "<cost of soft on cpu\n  flops  4000*m\n  bytes  8000*m\n  memory 8000*m\n    1. reduce over b: 4000*m FLOPs, 8000*m bytes>"
    )
    assert "kernels are those that serve where n, m = 4,096" in str(m.soft.cost(target="cuda"))


@pytest.mark.parametrize(
    ("code", "ask", "said"),
    [
        ("AX0601", lambda m: m.mm.cost(target="tpu"), "counted for `cpu` and `cuda`"),
        ("AX0501", lambda m: m.mm.cost(x=(2, 3), y=(4, 5)), "no sizes do what is asked"),
        ("AX0504", lambda m: m.mm.cost(elements={"x": "bf61"}), "`bf61` is no element type"),
        ("AX0504", lambda m: m.mm.cost(elements={"z": "f32"}), "`z` is no argument"),
        ("AX0504", lambda m: m.mm.cost(elements={"x": "f32", "y": "f64"}), "holds f32, not f64"),
        ("AX0504", lambda m: m.soft.cost(elements={"x": "f64"}), "holds f32, not f64"),
        ("AX0505", lambda m: m.mm.cost(foo=3), "has no parameter `foo`"),
        ("AX0505", lambda m: m.free.cost({"n": 3}, ranks={"x": 2}), "the source does not name"),
        ("AX0506", lambda m: m.free.cost(), "any number of dimensions"),
    ],
)
def test_what_is_refused(m: axon.Module, code: str, ask: Any, said: str) -> None:
    with pytest.raises(axon.AxonError) as caught:
        ask(m)
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert said in found.message


def test_an_error_says_how_costs_are_asked(m: axon.Module) -> None:
    with pytest.raises(axon.AxonError, match=r"`cost\(\{\"b\": 8\}, …\)`"):
        m.mm.cost(foo=3)
