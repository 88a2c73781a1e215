"""What Python's own tools are told of functions and modules: `inspect.signature`, `help`, `__doc__`, and short tracebacks."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, TypeVar

from axon import compiler
from axon.base.errors import AxonError

if TYPE_CHECKING:
    from inspect import Signature

    from axon.host.call import Callee, Session

F = TypeVar("F", bound=Callable[..., Any])


class AxonType:
    """A type as Axon writes it, where Python shows an annotation."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AxonType) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def signature(session: Session, callee: Callee) -> Signature:
    """A function's parameters as Python has them: those whose names it cannot write, and all before them, go by position."""
    from inspect import Parameter, Signature

    from axon.types.show import Namer, dimension_names, show_type
    from axon.types.type import Function

    state = session.checked.state
    namer = Namer(state, aliases=state.aliases)
    namer.names |= dimension_names(state, callee.scheme)
    namer.taken |= set(namer.names.values())
    names = [p.name for p in callee.parameters]
    odd = [n for n, name in enumerate(names) if not name.isidentifier() or iskeyword(name)]
    last, result = max(odd, default=-1), callee.scheme.type
    parameters = []
    for n, (wanted, name) in enumerate(zip(callee.parameters, names, strict=True)):
        kind = Parameter.POSITIONAL_ONLY if n <= last else Parameter.POSITIONAL_OR_KEYWORD
        shown = AxonType(show_type(namer, wanted.type))
        parameters.append(Parameter(f"_{n + 1}" if n in odd else name, kind, annotation=shown))
        result = result.result if isinstance(result, Function) else result
    for n in reversed(range(len(parameters))):  # `()`, of which there is one value, may be left out
        if getattr(callee.parameters[n].type, "items", None) != ():
            break
        parameters[n] = parameters[n].replace(default=())
    own = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in ("target", "out") if name not in names]
    return Signature([*parameters, *own], return_annotation=AxonType(show_type(namer, result)))


def documentation(session: Session, name: str, head: str) -> str:
    """What the comment above a declaration says, below its signature; of the module as ''."""
    said = compiler.documentation(session.checked.source).get(name, "")
    return f"{head}\n\n{said}" if said else head


class Documented:
    """`__doc__` of a class, which is that of its instances where they have one of their own."""

    def __init__(self, of_class: str | None, of_instance: Callable[[Any], str]) -> None:
        self.of_class, self.of_instance = of_class, of_instance

    def __get__(self, instance: Any, owner: type) -> str | None:
        return self.of_class if instance is None else self.of_instance(instance)


def brief(function: F) -> F:
    """An entry from Python whose errors are the caller's: their traceback ends here, unless AXON_DEBUG asks for all of it."""

    @wraps(function)
    def entered(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AxonError as error:
            raise shortened(error) from error.__cause__

    return entered  # type: ignore[return-value]


def shortened(error: AxonError) -> AxonError:
    """An error without the frames that it has passed."""
    return error if os.environ.get("AXON_DEBUG") else error.with_traceback(None)
