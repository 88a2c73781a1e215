"""Operators that write into tensors of the caller's: what a call with `out=` is in a graph.

Beside `axon::f` stands `axon::f_out`, which takes the leaves of `out` last and gives nothing. To autograd it is what PyTorch's own
functions with `out` are: no gradient passes, and what was saved is found to be written.
"""

from __future__ import annotations

from threading import RLock
from typing import Any

import torch

from axon.base.data import dataclass
from axon.host import values
from axon.host.call import Callee, Session, wrong
from axon.host.pytorch.operators import LIBRARY, Operator, beside, existing, found, schema_of, tree_of_key
from axon.host.recorded import leaves_of

_LOCK = RLock()
_made: dict[tuple[str, str], Into] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Into:
    """An operator whose results have their room."""

    operator: Operator

    @property
    def count(self) -> int:
        return self.operator.count

    @property
    def op(self) -> Any:
        return getattr(getattr(torch.ops.axon, f"{self.operator.packet}_out"), self.operator.overload)

    def real(self, *args: Any) -> None:
        operator, given, outs = self.operator, args[: -self.count], args[-self.count :]
        sizes, leaves = operator.split(given)
        leaves = beside(leaves)
        room = values.assemble(operator.result, outs)
        with torch.no_grad():
            operator.session.seen_or_called(operator.callee, sizes, operator.given(leaves), {}, operator.target, room)

    def fake(self, *args: Any) -> None:
        """Only what does not fit is said."""
        results = self.operator.fake(*args[: -self.count])
        for x, out in zip(results if isinstance(results, tuple) else (results,), args[-self.count :], strict=True):
            must = f"{x.dtype} of the shape {list(x.shape)} on {x.device}, not {out.dtype} of {list(out.shape)} on {out.device}"
            wanted = f"`out` must be {must}, in a call of `{self.operator.callee.name}`"
            if out.dtype != x.dtype or out.device != x.device or out.ndim != x.ndim:
                raise RuntimeError(wanted)
            for size, own in zip(x.shape, out.shape, strict=True):
                torch._check(size == own, lambda wanted=wanted: wanted)

    def autograd(self, keyset: Any, *args: Any) -> None:
        if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in args):
            lost = "an argument requires grad, and no gradient passes through `out=`"
            note = "leave `out` out, pass tensors that are detached, or call under `with torch.no_grad():`"
            raise wrong(self.operator.callee, "AX0505", f"{lost}, in a call of `{self.operator.callee.name}`", note)
        with torch._C._AutoDispatchBelowAutograd():
            self.op.redispatch(keyset & torch._C._after_autograd_keyset, *args)

    def written(self, keyset: Any, *args: Any) -> None:
        torch.autograd.graph.increment_version(args[-self.count :])
        self.op.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *args)


def found_into(session: Session, callee: Callee, target: str | None, keys: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
    """What `found` gives, of the operator that writes into memory of this structure, and the order of its leaves."""
    packet, overload, order, dtypes, _ = found(session, callee, target, keys)
    operator = existing(packet, overload)
    try:
        places = leaves_of(operator.result, tree_of_key(callee, out, [], []))
    except (KeyError, TypeError, ValueError):
        raise wrong(callee, "AX0505", f"`out` of `{callee.name}` has not the structure of its result") from None
    if not all(isinstance(place, int) for place in places):
        raise wrong(callee, "AX0505", f"`out` of `{callee.name}` has not the structure of its result")
    with _LOCK:
        if (packet, overload) not in _made:
            _made[packet, overload] = Into(operator)
            _register(_made[packet, overload])
    return f"{packet}_out", overload, order, dtypes, tuple(places)


def _register(into: Into) -> None:
    name = f"{into.operator.packet}_out{'' if into.operator.overload == 'default' else '.' + into.operator.overload}"
    LIBRARY.define(f"{name}{schema_of(into.operator, into=True)}", tags=[torch.Tag.pt2_compliant_tag])
    LIBRARY.impl(name, into.real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"axon::{name}", into.fake, lib=LIBRARY)
    LIBRARY.impl(name, into.autograd, "Autograd", with_keyset=True)
    LIBRARY.impl(name, into.written, "ADInplaceOrView", with_keyset=True)
