"""How a call becomes a node of PyTorch's graphs: one `torch.autograd.Function` around what `recorded` has of it.

`setup_context` apart from `forward`, and a `vmap` and a `jvp`, are what `torch.func` asks. No gradient is kept from being
differentiated again: what `backward` calls is recorded as any call is, where PyTorch records.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from inspect import signature
from typing import Any

from axon.base.identity import IdentityMap
from axon.host import values
from axon.host.call import Callee, Session
from axon.host.recorded import Form, Made, Make, Recorded, Run, taken_apart


def recorded(
    session: Session,
    callee: Callee,
    sizes: Sequence[int],
    given: Sequence[Any],
    run: Run,
    make: Make,
    target: str | None,
    made: IdentityMap[Form, Made] | None = None,
) -> Any:
    """The result of a call, of which PyTorch knows that it comes from these arguments; `made` as in `taken_apart`."""
    call, tensors = taken_apart(session, callee, sizes, given, run, make, target, made)
    return values.assemble(call.form.structure, _node().apply(call, *tensors))


@cache
def _node() -> Any:
    """The class, once PyTorch is imported; `<AxonBackward>` in its graphs."""
    methods = (forward, setup_context, backward, jvp, vmap)
    return type("Axon", (sys.modules["torch"].autograd.Function,), {m.__name__: staticmethod(m) for m in methods})


def forward(call: Recorded, *tensors: Any) -> tuple[Any, ...]:
    return call.forward(tensors)


forward.__signature__ = signature(forward)  # type: ignore[attr-defined]  # PyTorch asks for it at every call


def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.call, *tensors = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.mark_non_differentiable(*[x for n, x in enumerate(output) if n not in ctx.call.form.floats])


def backward(ctx: Any, *adjoints: Any) -> tuple[Any, ...]:
    return (None, *ctx.call.backward(ctx.saved_tensors, ctx.needs_input_grad[1:], list(map(plain, adjoints))))


def jvp(ctx: Any, _: None, *tangents: Any) -> tuple[Any, ...]:
    return tuple(ctx.call.tangents(ctx.saved_tensors, list(map(plain, tangents))))


def vmap(info: Any, dims: tuple[Any, ...], call: Recorded, *tensors: Any) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    batched = [d is not None for d in dims[1:]]
    results = call.batch([x if d is None else x.movedim(d, 0) for x, d in zip(tensors, dims[1:], strict=True)], batched)
    return results, (0,) * len(results)


def plain(x: Any) -> Any:
    """What PyTorch passes on, as memory that holds it: the user did not choose its layout."""
    if x is None:
        return None
    x = x if x.layout is sys.modules["torch"].strided else x.to_dense()
    return x.resolve_neg() if x.is_neg() else x
