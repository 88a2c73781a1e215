"""Functions over a mesh of which one process plays all devices, in turn: what a sharded program computes, without processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from axon.backend import libraries
from axon.base.errors import AxonError
from axon.core.sharding.interpret import run
from axon.core.sharding.ir import Mesh
from axon.host import values
from axon.host.call import arguments, check_sizes, named, opened
from axon.host.devices.forms import Forms

if TYPE_CHECKING:
    from axon.host.module import Function


class InterpretedShards:
    """A function of whole arguments, with whole results: it is cut into blocks, which are interpreted, and put together."""

    def __init__(self, function: Function, mesh: Mesh, split: Mapping[str, str]) -> None:
        self._function, self._mesh, self._split = function, mesh, split
        self._forms = Forms(mesh, split)

    @property
    def __name__(self) -> str:
        return self._function.__name__

    @property
    def signature(self) -> str:
        """What `axon sig` prints of the function."""
        return self._function.signature

    def __repr__(self) -> str:
        return f"<{self._function!r} on {self._mesh}, interpreted: {', '.join(f'{s} over {a}' for s, a in self._split.items())}>"

    def __getitem__(self, sizes: Any) -> InterpretedShards:
        """The function with its dimension parameters given."""
        return InterpretedShards(self._function[sizes], self._mesh, self._split)

    def grad(self, wrt: str | Sequence[str] | None = None) -> InterpretedShards:
        """As `Function.grad`."""
        return InterpretedShards(self._function.grad(wrt), self._mesh, self._split)

    def value_and_grad(self, wrt: str | Sequence[str] | None = None) -> InterpretedShards:
        """As `Function.value_and_grad`."""
        return InterpretedShards(self._function.value_and_grad(wrt), self._mesh, self._split)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        session, callee = self._function._session, self._function._callee
        explicit = check_sizes(callee, self._function._sizes)
        given = [opened(x) for x in arguments(callee, args, kwargs)]
        program, inputs, sizes = session.bound(callee, explicit, [libraries.hosted(x) for x in given], given)
        try:
            results = run(self._forms.sharded(program, sizes), inputs, explicit)
        except AxonError as error:
            raise named(callee, error) from None
        return values.assemble(program.result, list(map(values.number, results)))


def interpreted(function: Function, mesh: Mapping[str, int], split: Mapping[str, str]) -> InterpretedShards:
    """Raises TypeError for what is no mesh in words."""
    for axis, size in mesh.items():
        if not isinstance(axis, str) or not isinstance(size, int) or size < 1:
            raise TypeError(f"the axes of a mesh in words have sizes from 1 on, not {axis!r}: {size!r}")
    return InterpretedShards(function, Mesh(tuple(mesh.items())), dict(split))
