"""What the cost model is told of epilogues: how often a thread waits, for what, and what is moved beside one result."""

from __future__ import annotations

import pytest

from axon import compiler
from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.epilogue_cost import epilogue_of
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.limbs import limbed
from axon.backend.gpu.tile.schedule import Epilogue

HEAD = "fun f (x : bf16[m, k]) (w : bf16[k, n]) (c : bf16[n]) (s : bf16[m]) (r : bf16[m, n]) (t : f32[m, n]) =\n  "
CASES = {
    "nothing": ("x @ w", Epilogue()),
    "a wider result": ("for i j => sum l => cast f32 x[i, l] * cast f32 w[l, j]", Epilogue()),
    "a function": ("for i j => tanh (x @ w)[i, j]", Epilogue(work=14.0)),
    "a bias": ("x @ w + c", Epilogue(near=1, work=1.0)),
    "a factor of each row": ("for i j => (x @ w)[i, j] * s[i]", Epilogue(work=1.0)),
    "a residual": ("x @ w + r", Epilogue(far=1, moved=2.0, work=1.0)),
    "two of them, of which one is f32": (
        "for i j => (sum l => cast f32 x[i, l] * cast f32 w[l, j]) + t[i, j] + cast f32 r[i, j]",
        Epilogue(far=1, moved=8.0, work=2.0),  # the result is f32, too
    ),
    "two results": ("let val y = x @ w in (y, y + c) end", Epilogue(near=1, moved=2.0, work=1.0)),
    "two results of one tensor": (
        "let val y = x @ w in (y + r, for i j => y[i, j] * r[i, j]) end",
        Epilogue(far=1, near=1, moved=4.0, work=2.0),
    ),
}
OF_LIMBS = {  # the same of f32, in which a sum alone is stored as f32
    "nothing": Epilogue(),
    "a bias": Epilogue(near=1, work=1.0),
    "a residual": Epilogue(far=1, moved=4.0, work=1.0),
    "two results": Epilogue(near=1, moved=4.0, work=1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_counted(name: str) -> None:
    text, wanted = CASES[name]
    program = compiler.lower(compiler.check_text(HEAD + text), "f", None)
    (kernel,) = (k for k in kernels(program) if isinstance(k, MatrixProduct))
    assert epilogue_of(kernel) == wanted
    assert traits(kernel).epilogue == bool(wanted) == (name not in ("nothing", "a wider result"))


@pytest.mark.parametrize("name", OF_LIMBS)
def test_what_is_counted_of_limbs(name: str) -> None:
    program = compiler.lower(compiler.check_text((HEAD + CASES[name][0]).replace("bf16", "f32")), "f", None)
    (kernel,) = (k for k in limbed(kernels(program), program).kernels if isinstance(k, MatrixProduct))
    assert epilogue_of(kernel) == OF_LIMBS[name]
