"""Functions over a mesh of which one process plays all devices, in turn: what a sharded program computes, without processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from axon.backend import libraries
from axon.base.errors import AxonError
from axon.base.identity import IdentityMap
from axon.core.sharding.interpret import run
from axon.core.sharding.ir import Mesh
from axon.host import values
from axon.host.autograd import recorded
from axon.host.call import Callee, Session, arguments, check_sizes, given_back, named, on_host, opened
from axon.host.devices.forms import Forms
from axon.host.recorded import Form, Made

if TYPE_CHECKING:
    from axon.host.module import Function


class InterpretedShards:
    """A function of whole arguments, with whole results: it is cut into blocks, which are interpreted, and put together."""

    def __init__(self, function: Function, mesh: Mesh, split: Mapping[str, str], wide: bool) -> None:
        self._function, self._mesh, self._split, self._wide = function, mesh, split, wide
        self._forms = Forms(mesh, split, wide)
        self._made: IdentityMap[Form, Made] = IdentityMap()  # what PyTorch's derivatives call

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
        return self._of(self._function[sizes])

    def grad(self, wrt: str | Sequence[str] | None = None) -> InterpretedShards:
        """As `Function.grad`."""
        return self._of(self._function.grad(wrt))

    def value_and_grad(self, wrt: str | Sequence[str] | None = None) -> InterpretedShards:
        """As `Function.value_and_grad`."""
        return self._of(self._function.value_and_grad(wrt))

    def _of(self, function: Function) -> InterpretedShards:
        return InterpretedShards(function, self._mesh, self._split, self._wide)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Whole results, in the library of the arguments."""
        session, callee = self._function._session, self._function._callee
        given = [opened(x) for x in arguments(callee, args, kwargs)]
        if not libraries.differentiated(given):
            return self._run(tuple(given))

        def make(session: Session, callee: Callee) -> Any:
            beside = self._of(self._function._beside(session, callee))
            return lambda *args, target: beside(*args)

        sizes = check_sizes(callee, self._function._sizes)
        return recorded(session, callee, sizes, given, self._run, make, None, self._made)

    def _run(self, given: tuple[Any, ...], target: str | None = None) -> Any:
        session, callee = self._function._session, self._function._callee
        explicit = check_sizes(callee, self._function._sizes)
        hosted = [on_host(callee, p.name, x) for p, x in zip(callee.parameters, given, strict=True)]
        program, inputs, sizes = session.bound(callee, explicit, hosted, list(given))
        try:
            results = run(self._forms.sharded(program, sizes), inputs, explicit)
        except AxonError as error:
            raise named(callee, error) from None
        library = next((library for x in given for library, _ in libraries.arrays(x)), None)
        if library is None:
            return values.assemble(program.result, list(map(values.number, results)))
        return values.assemble(program.result, [given_back(callee, library, values.array(r)) for r in results])


def interpreted(function: Function, mesh: Mapping[str, int], split: Mapping[str, str], wide: bool) -> InterpretedShards:
    """Raises TypeError for what is no mesh in words."""
    if not mesh:
        raise TypeError('a mesh in words has one axis at least, {"data": 2}')
    for axis, size in mesh.items():
        if not isinstance(axis, str) or not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise TypeError(f"the axes of a mesh in words have sizes from 1 on, not {axis!r}: {size!r}")
    return InterpretedShards(function, Mesh(tuple(mesh.items())), dict(split), wide)
