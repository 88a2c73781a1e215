"""Axon's functions as operators of PyTorch: the operators themselves, under everything of PyTorch's that watches them."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from tests.host.pytorch.watching import Watch, compiled, module, operator_of, torch
from tests.library import (  # noqa: F401  (cases register themselves)
    fft_cases,
    image_cases,
    linalg_cases,
    nn_cases,
    optim_cases,
    quant_cases,
    random_cases,
    stats_cases,
    tensor_cases,
)
from tests.library.library_case import CASES, Case, Drawn, function_of
from tests.sample import drawn

pytestmark = pytest.mark.filterwarnings("ignore")
fx = pytest.importorskip("torch.fx.experimental.proxy_tensor")
fake = pytest.importorskip("torch._subclasses.fake_tensor")
F = torch.func


def same(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-9, equal_nan=True)


# ── the whole library ───────────────────────────────────────────────────────────────────────────────────────────────────


class Fixed(Drawn):
    """What cases of the library draw, by a generator of NumPy's."""

    def __init__(self) -> None:
        self.element = np.float64
        self.rng = np.random.default_rng(0)

    def size(self, low: int = 0, high: int = 5) -> int:
        return int(self.rng.integers(low, high + 1))


def tensors(value: Any, found: list[Any]) -> Any:
    """A value with PyTorch's tensors for arrays, which are found in it."""
    match value:
        case tuple():
            return tuple(tensors(item, found) for item in value)
        case dict():
            return {name: tensors(item, found) for name, item in value.items()}
        case np.ndarray():
            found.append(torch.tensor(np.nan_to_num(value)))
            return found[-1]
        case _:
            return value


@pytest.mark.parametrize("case", [case for case in CASES if drawn(case.name, 80)], ids=lambda case: case.name)
def test_the_library(case: Case) -> None:
    """`opcheck` is content: schema, fake kernel, registration of autograd, and what AOTAutograd makes of it, at symbolic sizes."""
    call, found = case.compare(Fixed()), []
    args = tensors(call.arguments, found)
    if not found:
        return  # no tensor is among the arguments, and no operator is called
    operator, given = operator_of(function_of(case, call), *args)
    leaves = tuple(x.clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in given)
    try:
        torch.library.opcheck(operator, leaves)
    except torch.testing._internal.optests.generate_tests.OpCheckError as error:
        if "AX0220" in str(error):  # it has no derivative
            torch.library.opcheck(operator, given)
        elif undefined(operator, leaves):  # at 0, as that of a length: `opcheck` does not find NaN equal to itself
            torch.library.opcheck(operator, tuple(map(away_from_zero, leaves)))
        elif "can't be cast" in str(error):  # `opcheck` adds a float to a sum of integers, in place, where results are first these
            torch.library.opcheck(operator, leaves, test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))
            torch.library.opcheck(operator, given)
        else:
            raise


def undefined(operator: Any, leaves: tuple[Any, ...]) -> bool:
    """Whether a gradient is NaN."""
    wanted = [x for x in leaves if torch.is_tensor(x) and x.requires_grad]
    found = operator(*leaves)
    results = [y.sum() for y in (found if isinstance(found, tuple) else (found,)) if y.requires_grad]
    return any(g is not None and bool(g.isnan().any()) for g in torch.autograd.grad(sum(results), wanted, allow_unused=True))


def away_from_zero(x: Any) -> Any:
    if not torch.is_tensor(x) or not x.requires_grad:
        return x
    return torch.where(x == 0, 0.5, x.detach()).requires_grad_()


OWN = {
    "product": (torch.randn(2, 3), torch.randn(3, 4)), "scaled": (2.0, torch.randn(2, 3)), "cube": (torch.randn(0),),
    "chosen": (torch.tensor([True, False]), torch.tensor([3, 4])), "half": (torch.randn(3).bfloat16(),),
    "counted": (torch.randn(4),), "same": (torch.randn(4),), "kept": (torch.randn(4),), "fixed": (torch.randn(4), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_own_operators(name: str) -> None:
    """Of integers, booleans, narrow floats, no elements, numbers, results of open sizes, and results that are an argument."""
    operator, given = operator_of(module()[name], *OWN[name])
    given = tuple(x.clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in given)
    torch.library.opcheck(operator, given)


def test_results_are_fresh_and_have_the_strides_that_were_told() -> None:
    x = torch.randn(3, 4).T
    operator, (given,) = operator_of(module().same, x[0])
    assert operator(given).data_ptr() != given.data_ptr()
    operator, given = operator_of(module().adds, x, x)
    assert operator(*given).stride() == operator(*(g.to("meta") for g in given)).stride()


# ── derivatives of derivatives ──────────────────────────────────────────────────────────────────────────────────────────


def total(f: Any) -> Any:
    return lambda x: f(x).sum()


def two(x: Any) -> Any:
    return torch.stack([x, 2 * x])


NESTED: dict[str, Any] = {
    "grad": lambda f: F.grad(total(f)),
    "grad of grad": lambda f: F.grad(total(F.grad(total(f)))),
    "grad of grad of grad": lambda f: F.grad(total(F.grad(total(F.grad(total(f)))))),
    "vmap of grad": lambda f: lambda x: F.vmap(F.grad(total(f)))(two(x)),
    "grad of vmap": lambda f: F.grad(lambda x: F.vmap(f)(two(x)).sum()),
    "vmap of vmap": lambda f: lambda x: F.vmap(F.vmap(f))(two(x)[:, None]),
    "vmap of grad of grad": lambda f: lambda x: F.vmap(F.grad(total(F.grad(total(f)))))(two(x)),
    "hessian": lambda f: F.hessian(total(f)),
    "jacrev of jacfwd": lambda f: F.jacrev(F.jacfwd(total(f))),
    "jvp of grad": lambda f: lambda x: F.jvp(F.grad(total(f)), (x,), (2 * x,))[1],
    "grad of jvp": lambda f: F.grad(lambda x: F.jvp(f, (x,), (2 * x,))[1].sum()),
    "vmap of jvp": lambda f: lambda x: F.vmap(lambda x: F.jvp(f, (x,), (2 * x,))[1])(two(x)),
    "one level of two": lambda f: F.grad(lambda x: (f(x) * f(x.detach())).sum()),
}


def watched(t: Any, x: Any) -> Any:
    with Watch() as watch:
        got = t(x)
    assert watch.calls
    return got


def recorded(t: Any, x: Any) -> Any:
    traced = fx.make_fx(t, tracing_mode="symbolic")(x)
    assert "torch.ops.axon" in traced.code
    return traced(x)


def backward(t: Any, x: Any) -> Any:
    with Watch():
        x = x.clone().requires_grad_()
        return torch.autograd.grad(t(x).sum(), x)[0]


# Each with what it makes of the peer: the same way of computing, but for what says nothing of values.
WAYS: dict[str, Any] = {
    "plain": (lambda t, x: t(x),) * 2,
    "a mode": (watched, lambda t, x: t(x)),
    "make_fx": (recorded, lambda t, x: t(x)),
    "compiled": (lambda t, x: compiled(t, "eager")(x), lambda t, x: t(x)),
    "backward under a mode": (backward, lambda t, x: torch.autograd.grad(t(x := x.clone().requires_grad_()).sum(), x)[0]),
    "no_grad": (lambda t, x: torch.no_grad()(t)(x),) * 2,
}


LEVELS = [(way, how) for way in WAYS for how in NESTED if way != "compiled" or drawn(how, 4)]


@pytest.mark.parametrize(("way", "how"), LEVELS)
def test_levels_of_transformations(way: str, how: str) -> None:
    """Nothing is lost at any level, whatever is on: by the function, and by its operator."""
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    operator, _ = operator_of(module().cube, x)
    run, peer = WAYS[way]
    wanted = peer(NESTED[how](lambda x: x**3), x)
    for f in (module().cube, operator):
        same(run(NESTED[how](f), x), wanted)


def test_what_has_no_derivative_is_said() -> None:
    x = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    with Watch():
        y = module().power(3, x)
        with pytest.raises(axon.AxonError, match="AX0220"):
            y.backward()
    with pytest.raises(axon.AxonError, match=r"a batched call of `kept`"), Watch():
        F.vmap(module().kept)(torch.randn(2, 3))


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


NAMED = """
fun dense (p : { w : 'a[d, k], b : 'a[k] }) x = tanh (x @ p.w + p.b)
fun cube (x : 'a[n]) = for i => x[i] ** 3
fun scaled k x = k * x
fun heads {h} (x : 'a[h * n]) = for i < h, j => x[(i, j)] * x[(i, j)]
fun twice f x = f (f x)
"""


def name_of(function: Any, *args: Any) -> str:
    return str(operator_of(function, *args)[0])


def test_names_tell_programs_apart(tmp_path: Path) -> None:
    x = torch.ones(3)
    for folder, text in (("a", "fun f x = x + 1.0"), ("b", "fun f x = x * 5.0"), ("c", "fun f x = x + 1.0")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.axon").write_text(text)
    paths = [tmp_path / folder / "model.axon" for folder in "abc"]
    a, b, c = map(axon.load, paths)
    assert name_of(a.f, x) == name_of(c.f, x) != name_of(b.f, x)  # of one stem
    assert name_of(a.f, x).startswith("axon.model_")
    step = compiled(lambda m, x: m.f(x))
    assert [step(m, x)[0].item() for m in (a, b, c)] == [2, 5, 2]
    paths[0].write_text("fun f x = x - 1.0")
    again = axon.load(paths[0])
    assert [step(m, x)[0].item() for m in (again, a)] == [0, 2]  # the file was edited, and the module made anew
    (tmp_path / "a" / "part.axon").write_text("fun g x = x")
    paths[0].write_text("import part\nfun f x = part.g x")
    first = axon.load(paths[0])
    (tmp_path / "a" / "part.axon").write_text("fun g x = x * 3.0")
    second = axon.load(paths[0])
    assert name_of(first.f, x) != name_of(second.f, x)  # what it imports was
    assert [step(m, x)[0].item() for m in (first, second)] == [1, 3]


def test_one_operator_whoever_asks_first() -> None:
    m = axon.compile("fun f x = x + 1.0\nfun g x = x * 2.0")
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda n: name_of(m["fg"[n % 2]], torch.ones(n % 3 + 1)), range(16)))
    assert len({*names}) == 2


def test_structures_are_overloads() -> None:
    m = module()
    w, b, x = torch.ones(2, 3), torch.ones(3), torch.ones(4, 2)
    one, given = operator_of(m.dense, {"w": w, "b": b}, x)
    other, turned = operator_of(m.dense, {"b": b, "w": w}, x)
    assert one is other  # fields in any order
    assert [g.shape for g in given] == [g.shape for g in turned]
    schema = str(operator_of(m.heads[2], torch.ones(4))[0]._schema)
    assert schema.endswith("_heads(SymInt h, Tensor x) -> Tensor")
    assert operator_of(m.scaled, 2.0, x)[0]._overloadname == "numbers_0"


CACHED = """
import axon, torch
from torch._dynamo.utils import counters

m = axon.compile("fun cube k (x : 'a[n]) = for i => k * x[i] ** 3")
step = torch.compile(lambda k, x: m.cube(k, x), fullgraph=True)
for k in (2.0, torch.tensor(3.0)):  # two overloads
    x = torch.ones(4, requires_grad=True)
    step(k, x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 3 * float(k)))
"""


def test_a_graph_from_the_cache_finds_its_operators(tmp_path: Path) -> None:
    """A second process takes the graph of a derivative as `torch.compile` has kept it, and traces only the call."""
    for what in ("saved", "hit"):
        code = f"{CACHED}\nassert counters['aot_autograd']['autograd_cache_{what}'] == 2, counters"
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)


def test_what_no_call_has_traced_has_no_operator() -> None:
    module().cube(torch.ones(3))
    for name in ("cube_vjp_0_of_0", "text_0123456789_cube_vjp_0_of_0", "text_0123456789_cube_vjp_7_of_9", "nothing"):
        with pytest.raises(AttributeError, match=name):
            getattr(torch.ops.axon, name)


def test_operators_with_names_that_stay(tmp_path: Path) -> None:
    """A program that `torch.export` has saved runs in another process, which has registered the same names."""
    (tmp_path / "model.axon").write_text(NAMED)
    m = axon.load(tmp_path / "model.axon")
    axon.register(m, "stays")
    axon.register(axon.load(tmp_path / "model.axon"), "stays")
    assert name_of(m.cube, torch.ones(3)) == "axon.stays_cube.default"
    same(torch.ops.axon.stays_heads(2, torch.ones(4)), torch.ones(2, 2))
    same(torch.ops.axon.stays_scaled(2.0, torch.ones(4)), torch.full((4,), 2.0))
    axon.register(axon.compile("fun f x = x"), "stays")
    with pytest.raises(ValueError, match=r"torch\.ops\.axon\.stays_f is of another program") as raised:
        axon.register(axon.compile("fun f x = x + x"), "stays")
    assert "take another name" in str(raised.value)
    with pytest.raises(ValueError, match="'a b'"):
        axon.register(m, "a b")
    with pytest.raises(TypeError, match="not str"):
        axon.register("m", "a")  # type: ignore[arg-type]

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, w: Any, b: Any) -> Any:
            return m.scaled(0.5, m.dense({"w": w, "b": b}, x))

    given = torch.randn(4, 3), torch.randn(3, 2), torch.randn(2)
    rows = {"x": {0: torch.export.Dim.DYNAMIC}, "w": None, "b": None}
    torch.export.save(torch.export.export(Model(), given, dynamic_shapes=rows), tmp_path / "model.pt2")
    code = f"""
import axon, torch
axon.register(axon.load({str(tmp_path / "model.axon")!r}), "stays")
model = torch.export.load({str(tmp_path / "model.pt2")!r}).module()
for n in (2, 9):
    x, w, b = torch.ones(n, 3), torch.ones(3, 2), torch.ones(2)
    torch.testing.assert_close(model(x, w, b), torch.tanh(x @ w + b) / 2)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
