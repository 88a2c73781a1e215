"""PyTorch's own tensors through the quick calls, on the CPU, with the driver played. Skipped where PyTorch is not installed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend import libraries
from axon.backend.gpu.runtime import kept_graphs
from axon.base.element import Element
from tests.backend.gpu.runtime.fake import Builds, FakeDriver

torch = pytest.importorskip("torch")

PROGRAM = """\
fun product a b = for i j => sum k => a[i, k] * b[k, j]
fun deep (x : bf16[b, d]) (w : bf16[d, d]) = let val y = x @ w + x val z = y @ w + y in z @ w + z end
fun both (p : { w : bf16[d, d] }) (x : bf16[b, d]) = let val y = x @ p.w in (y, y @ p.w) end
"""


class OnHost(libraries.Torch):
    """Takes the CPU for a GPU."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.stream = lambda device: 77
        self.current = lambda: 0
        self.capturing = lambda: False

    def device(self, x: Any) -> int | None:
        return 0

    def maker(self, shape: Any, element: Element, device: int) -> Any:
        return partial(room, shape, self.dtypes[element])


def room(shape: Any, dtype: Any) -> Any:
    """PyTorch aligns memory of the CPU to 64 bytes, which is enough here."""
    return torch.full(tuple(shape), 77, dtype=dtype)


@pytest.fixture
def m(fake: FakeDriver, builds: Builds, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(libraries._made, "torch", OnHost())
    monkeypatch.setattr(libraries, "_by_type", {})
    kept_graphs._graphs.clear()
    return axon.compile(PROGRAM)


def randn(*shape: int, seed: int = 0, dtype: Any = None) -> Any:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * shape[-1] ** -0.5).to(dtype or torch.bfloat16)


def near(got: Any, want: Any) -> None:
    torch.testing.assert_close(got.float(), want.float(), rtol=2e-2, atol=2e-2)


def closed(m: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any, **__: Any) -> Any:
        pytest.fail("the slow way was taken")

    monkeypatch.setattr(type(m._session), "call", slow)


class Marked(torch.Tensor):  # type: ignore[misc, name-defined]
    """A subclass of tensors, which quick calls ask by way of its library."""


def test_seen_calls(m: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(24, 64, 16), (8, 32, 24)]
    for i, k, j in shapes:
        m.product(randn(i, k), randn(k, j))
        m.product(randn(i, k), randn(k, j), out=randn(i, j))
    closed(m, monkeypatch)
    for seed in range(4):
        for i, k, j in shapes:
            a, b, out = randn(i, k, seed=seed), randn(k, j, seed=9 + seed), randn(i, j)
            near(m.product(a, b), a @ b)
            with torch.no_grad():
                near(m.product(b=b, a=torch.nn.Parameter(a)), a @ b)
            assert m.product(a, b, out=out) is out
            near(out, a @ b)
            near(m.product(a, b), a @ b)


def test_what_differs_takes_the_slow_way(m: Any, fake: FakeDriver) -> None:
    """Nothing but the same element types, shapes, strides and alignment finds a call that was seen."""
    a, b = randn(24, 64), randn(64, 16)
    want = m.product(a, b)
    others = [
        (randn(64, 24).T, b), (a.to(torch.float16), b.to(torch.float16)), (randn(32, 64), b), (a, randn(64, 24)),
        (torch.nn.Parameter(a).detach(), b),
    ]  # fmt: skip
    for _ in range(2):
        for x, y in others:
            near(m.product(x, y), x @ y)
            near(m.product(a, b), want)
        for wrong in ((a, b.float()), (a, b[:-1]), (a, b[0]), (a,), (a, b, b), (a, 1.0), (a, b.to_sparse())):
            with pytest.raises(axon.AxonError):
                m.product(*wrong)
        near(m.product(a, b), want)


def test_views_that_negate(m: Any, fake: FakeDriver) -> None:
    """`.imag` of a conjugate is a view whose values PyTorch negates when it reads them; Axon would not."""
    x = torch.view_as_complex(torch.randn(8, 8, 2, generator=torch.Generator().manual_seed(0)))
    negated, plain = x.conj().imag, x.imag
    assert negated.is_neg()
    assert negated.stride() == plain.stride()
    program = axon.compile(
        "fun f (a : f32[m, n]) (b : bf16[m, k]) (w : bf16[k, n]) = for i j => (sum c => b[i, c] * w[c, j]) + cast bf16 a[i, j]"
    )
    b, w = randn(8, 8), randn(8, 8)
    for _ in range(2):
        near(program.f(plain, b, w), b @ w + plain.to(torch.bfloat16))
        with pytest.raises(axon.AxonError, match=r"resolve_neg\(\)"):
            program.f(negated, b, w)


def test_views_that_negate_and_have_no_gaps(fake: FakeDriver, builds: Builds, m: Any) -> None:
    """One element, or strides of the caller's: nothing of how such a view lies shows its sign."""
    x = torch.view_as_complex(torch.randn(8, 8, 2, generator=torch.Generator().manual_seed(0)))
    a, b = randn(8, 8), randn(8, 8)
    program = axon.compile("""\
fun scale (a : bf16[m, k]) (b : bf16[k, n]) (s : f32) = for i j => (sum c => cast f32 a[i, c] * cast f32 b[c, j]) * s
fun add (a : bf16[m, k]) (b : bf16[k, n]) (s : f32[n]) = for i j => (sum c => cast f32 a[i, c] * cast f32 b[c, j]) + s[j]
""")
    one, row = x[0, 0], x[0]
    for call, plain, negated in (
        (program.scale, one.imag, one.conj().imag),
        (program.add, row.imag.as_strided((8,), (1,)), row.conj().imag.as_strided((8,), (1,))),
    ):
        assert negated.is_neg()
        assert (plain.stride(), plain.data_ptr()) == (negated.stride(), negated.data_ptr())
        for _ in range(3):
            call(a, b, plain)
            with pytest.raises(axon.AxonError, match=r"resolve_neg\(\)"):
                call(a, b, negated)


@pytest.mark.parametrize("others", [1, 2])
def test_subclasses_of_tensors(m: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    """They are seen again as tensors are, alone or among those."""
    a, b = (randn(24, 64).as_subclass(Marked), randn(64, 16))
    b = b.as_subclass(Marked) if others == 2 else b
    m.product(a, b)
    m.product(a, b, out=randn(24, 16).as_subclass(Marked))
    closed(m, monkeypatch)
    for seed in range(2):
        a = randn(24, 64, seed=seed).as_subclass(Marked)
        near(m.product(a, b), a @ b)
        out = randn(24, 16).as_subclass(Marked)
        assert m.product(a, b, out=out) is out
        near(out, a @ b)


def test_graphs_and_structures(m: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    w = randn(32, 32)
    for _ in range(2):
        m.deep(randn(16, 32), w)
        m.both({"w": w}, randn(16, 32))
    closed(m, monkeypatch)
    for seed in range(4):
        x = randn(16, 32, seed=seed)
        y = x @ w + x
        z = y @ w + y
        near(m.deep(x, w), z @ w + z)
        once, twice = m.both({"w": w}, x)
        near(once, x @ w)
        near(twice, x @ w @ w)
    assert len(fake.replayed) >= 6


def test_without_the_guard_of_pytorch(m: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OnHost, "guard", lambda self, tensors: None)
    a, b = randn(24, 64), randn(64, 16)
    m.product(a, b)
    m.product(a, b, out=randn(24, 16))
    closed(m, monkeypatch)
    for seed in range(3):
        a = randn(24, 64, seed=seed)
        near(m.product(a, b), a @ b)
        near(m.product(a, b, out=randn(24, 16)), a @ b)


def recorded(call: Any, peer: Any, *others: Any) -> None:
    """`call` of a tensor and these others has PyTorch's gradients of `peer` by any of them, however often it was called."""
    plain = tuple(x.detach() for x in others)
    for _ in range(3):  # the slow way, and quick ones
        want = call(*plain)
        for number in range(len(plain)):
            leaf = plain[number].clone().requires_grad_()
            for x in (leaf, torch.nn.Parameter(plain[number]), leaf * 1):
                given = (*plain[:number], x, *plain[number + 1 :])
                found, expected = (torch.autograd.grad(f(*given).float().pow(2).sum(), x)[0] for f in (call, peer))
                assert found.dtype == x.dtype
                near(found, expected)
                with torch.no_grad():
                    assert not (got := call(*given)).requires_grad
                assert torch.equal(got, want)
                with torch.inference_mode():
                    assert torch.equal(call(*given), want)
                assert call(*given).requires_grad  # what was learned without gradients does not let it through
        assert not call(*plain).requires_grad
        assert torch.equal(call(*plain), want)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(plain[0], torch.ones_like(plain[0]))
            found, expected = (torch.autograd.forward_ad.unpack_dual(f(dual, *plain[1:])).tangent for f in (call, peer))
            near(found, expected)
            assert torch.equal(call(*plain), want)


def test_gradients(m: Any, fake: FakeDriver) -> None:
    a, b = randn(24, 64), randn(64, 16)
    recorded(m.product, torch.matmul, a, b)
    recorded(lambda a, b: m.product(b=b, a=a), torch.matmul, a, b)
    recorded(lambda x, w: m.both({"w": w}, x)[1], lambda x, w: x @ w @ w, randn(16, 32), randn(32, 32))


def test_gradients_of_a_subclass(m: Any, fake: FakeDriver) -> None:
    a, b = randn(24, 64).as_subclass(Marked), randn(64, 16)
    m.product(a, b)
    for _ in range(2):
        leaf = a.detach().clone().requires_grad_()
        m.product(leaf, b).sum().backward()
        near(leaf.grad, torch.ones(24, 16).to(b) @ b.T)
        near(m.product(a, b), a @ b)


def test_a_call_first_seen_without_gradients(m: Any, fake: FakeDriver) -> None:
    a, b = randn(24, 64).requires_grad_(), randn(64, 16)
    for _ in range(2):
        with torch.no_grad():
            m.product(a, b)
        assert m.product(a, b).requires_grad


def test_gradients_take_the_quick_way(m: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = randn(24, 64).requires_grad_(), randn(64, 16)
    for _ in range(2):
        m.product(a, b).backward(torch.ones(24, 16).to(b))
    closed(m, monkeypatch)
    m.product(a, b).backward(torch.ones(24, 16).to(b))


@pytest.mark.parametrize("target", [None, "cpu", "interpret"])
def test_gradients_on_the_host(target: str | None) -> None:
    m = axon.compile(HOST)
    recorded(lambda x: m.double(x, target=target), lambda x: x + x, torch.ones(3))
    recorded(lambda w, x: m.mix({"w": w, "k": 2.0}, x, target=target), lambda w, x: 2 * w + x, torch.ones(3), torch.ones(3))
    w = torch.ones(3, requires_grad=True)
    m.mix({"w": w, "k": 2.0}, np.ones(3, np.float32), target=target).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]
    assert torch.func.grad(lambda x: m.double(x, target=target).sum())(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


def saved() -> tuple[Any, Any]:
    """A tensor that autograd has saved for a gradient, and what `backward` is asked of."""
    y = torch.ones(24, 16, dtype=torch.bfloat16, requires_grad=True) * 2
    return y, (y * y).sum()


def check_out(call: Any) -> None:
    """`out` is to autograd what it is of PyTorch's own functions."""
    for _ in range(3):  # the slow way, and quick ones
        y, loss = saved()
        call(y.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        for out in (y, torch.zeros(24, 16, dtype=torch.bfloat16, requires_grad=True)):
            before = out.detach().clone()
            with pytest.raises(axon.AxonError, match=r"AX0505.*(.|\n)*requires grad(.|\n)*out\.detach\(\)"):
                call(out)
            assert torch.equal(out, before)
        with torch.no_grad():
            assert call(out) is out
        with torch.inference_mode():
            assert not call(torch.zeros(24, 16, dtype=torch.bfloat16)).requires_grad


def test_autograd_sees_what_is_written(m: Any, fake: FakeDriver) -> None:
    a, b = randn(24, 64), randn(64, 16)
    check_out(lambda out: m.product(a, b, out=out))


def test_autograd_sees_what_is_written_on_the_host() -> None:
    m = axon.compile(HOST)
    x = torch.ones(24, 16, dtype=torch.bfloat16)
    check_out(lambda out: m.double(x, out=out))


HOST = """\
fun product a b = for i j => sum k => a[i, k] * b[k, j]
fun double x = x + x
fun stats (x : 'a[n]) = { total = sum i => x[i], first = x[0], sorted = x }
fun mix (p : { w : f32[n], k : f32 }) (x : f32[n]) = for i => p.w[i] * p.k + x[i]
"""


def test_tensors_on_the_host_stay_there() -> None:
    """PyTorch's tensors on the CPU are computed with there, and the results are PyTorch's."""
    m = axon.compile(HOST)
    a, b = (torch.randn(s, generator=torch.Generator().manual_seed(0)) for s in ((4, 6), (6, 3)))
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for x in (a.to(dtype), a.to(dtype).T.contiguous().T, torch.nn.Parameter(a.to(dtype)).detach()):
            got = m.product(x, b.to(dtype))
            assert isinstance(got, torch.Tensor)
            assert got.dtype == dtype
            near(got, x.detach() @ b.to(dtype))
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2):
        got = m.double(torch.arange(4).to(dtype))
        assert (got.dtype, got.float().tolist()) == (dtype, [0, 2, 4, 6])
    stats = m.stats(torch.arange(4.0))
    assert {name: (x.shape, x.tolist()) for name, x in stats.items()} == {
        "total": ((), 6.0), "first": ((), 0.0), "sorted": ((4,), [0, 1, 2, 3])
    }  # fmt: skip
    x = torch.ones(3)
    m.double(x).fill_(7)
    assert x.tolist() == [1, 1, 1]  # results share no memory with arguments
    near(m.mix({"w": torch.ones(3), "k": 2.0}, np.ones(3, np.float32)), torch.full((3,), 3.0))
    out = torch.empty(4, 3, dtype=torch.bfloat16)
    assert m.product(a.bfloat16(), b.bfloat16(), out=out) is out
    near(out, a @ b)
    for wrong, words in [
        (lambda: m.double(torch.ones(3, dtype=torch.complex64)), "element type torch.complex64, which Axon lacks"),
        (lambda: m.double(torch.ones(3).to_sparse()), "to_dense"),
        (lambda: m.product(a, b[:-1]), "AX0501"),
        (lambda: m.product(a, b, out=torch.empty(4, 4)), r"pass torch.empty\(\(4, 3\), dtype=torch.float32\)"),
        (lambda: m.double(torch.ones(3), out=torch.zeros(1).expand(3)), "several elements at one place"),
        (lambda: m.product(a, b.double()), r"pass b\.to\(torch\.float32\)"),
        (lambda: m.mix({"w": torch.ones(3).half(), "k": 1.0}, torch.ones(3)), r"pass p\[\"w\"\]\.to\(torch\.float32\)"),
        (lambda: m.double([torch.ones(3), torch.ones(3)]), r"a list that holds arrays(.|\n)*torch\.stack\(x\)"),
    ]:
        with pytest.raises(axon.AxonError, match=words):
            wrong()


def test_dlpack() -> None:
    """What is read from a capsule is where the tensor lies."""
    x = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)[1:, ::2].permute(2, 0, 1)
    pointer, strides = libraries.dlpack_memory(x.__dlpack__(), 3)
    assert (pointer, strides) == (x.data_ptr(), x.stride())
    pointer, strides = libraries.dlpack_memory(np.arange(6.0).reshape(2, 3).__dlpack__(), 2)
    assert strides in (None, (3, 1))


GRAPHS = """\
fun scale (x : f32[n]) = (for i => x[i] * 2.0, sum i => x[i])
fun heads {h} (x : f32[n]) = for i < h, j => x[j]
"""
USES: dict[str, Any] = {
    "attribute": lambda m, x: m.scale(x + 1.0)[0] * 2.0,
    "item": lambda m, x: m["scale"](x + 1.0)[0] * 2.0,
    "sizes": lambda m, x: m.heads[2](x + 1.0)[1] * 4.0,
    "made inside": lambda m, x: axon.compile(GRAPHS).heads[1](x + 1.0)[0] * 4.0,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("seen_before", [False, True])
def test_compiled_graphs_hold_calls(use: str, seen_before: bool) -> None:
    """Nothing of Axon's is traced but a call, however a program says what it calls."""
    torch._dynamo.reset()
    module = axon.compile(GRAPHS)
    if seen_before:
        module.scale(torch.ones(3))
    whole = use != "made inside"  # the compiler is not looked into
    traced = torch.compile(lambda x: USES[use](module, x), backend="eager", fullgraph=whole)
    for n in (3, 4, 5):
        assert traced(torch.ones(n)).tolist() == [8.0] * n
    with pytest.raises(RuntimeError, match="`x` has the wrong rank"):
        traced(torch.ones(2, 2))


def test_tensors_that_are_no_memory() -> None:
    double = axon.compile("fun double (x : f32[n]) = for i => x[i] * 2.0").double
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        hollow = torch.ones(3)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for target in (None, "cpu", "interpret"):
        for x in (hollow, torch.ones(3, device="meta")):
            got = double(x, target=target)  # a shape is all that is asked of a shape
            assert (type(got), got.shape, got.device) == (type(x), x.shape, x.device)
            with pytest.raises((RuntimeError, AssertionError)):
                double(x, target=target, out=torch.ones(3))
        with pytest.raises(axon.AxonError, match=r"AX0505.*`x` holds .*to_padded_tensor"):
            double(nested, target=target)


def test_where_arguments_lie_is_asked_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that cannot tell says so of one argument."""
    double = axon.compile("fun add (x : f32[n]) (y : f32[n]) = x + y").add

    def device(self: Any, x: Any) -> None:
        if x.shape[0] == 4:
            raise TypeError("a traced value")

    monkeypatch.setattr(libraries.Torch, "device", device)
    with pytest.raises(axon.AxonError, match=r"AX0505.*`y` holds a traced value"):
        double(torch.ones(3), torch.ones(4))


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (2, 0, 3), (1, 5, 1)])
def test_room_for_results_is_what_torch_makes(shape: tuple[int, ...], below: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made below PyTorch's Python layer, and by a PyTorch that has no such function."""
    if not below:
        monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cpu")
    made, want = libraries.Torch("cpu").maker(shape, Element.BF16, 0)(), torch.empty(shape, dtype=torch.bfloat16)
    assert (made.shape, made.stride(), made.dtype, made.device) == (want.shape, want.stride(), want.dtype, want.device)
    assert (made.requires_grad, made._version) == (want.requires_grad, want._version)
    with torch.inference_mode():
        assert libraries.Torch("cpu").maker(shape, Element.BF16, 0)().is_inference() == torch.empty(shape).is_inference()
