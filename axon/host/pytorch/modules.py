"""A function as a `torch.nn.Module`, whose parameters are the fields of a record that the function takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import prod
from types import MethodType
from typing import Any, TypeAlias

import torch

from axon.backend import libraries
from axon.backend.libraries import untraced
from axon.base.data import dataclass
from axon.base.element import FLOAT, Element, usual
from axon.base.nearest import hint
from axon.host.call import Callee, wrong
from axon.host.described import brief
from axon.host.module import Function
from axon.host.ranked import Ranked, ranked
from axon.types import type as t

Init: TypeAlias = Callable[[str, Any], Any]

ONES = ("scale", "gain", "gamma", "variance")  # fields of one dimension that begin as ones; others begin as zeros


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor of a record: its element type, its shape, and over how many numbers a product with it sums."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    fan: int

    def begin(self, tensor: Any) -> None:
        """Fill a tensor as it begins: a matrix as `torch.nn.Linear` does, whose first dimensions are those that are summed over."""
        if self.fan and tensor.is_floating_point():
            tensor.uniform_(-(self.fan**-0.5), self.fan**-0.5)
        else:
            tensor.fill_(self.name.rpartition(".")[2] in ONES)


class Fields(torch.nn.Module):  # type: ignore[misc]
    """A record or a tuple: its tensors are parameters, or buffers where they hold no floats, its records are modules."""

    def __init__(self, leaves: Mapping[str, Any], init: Init | None, device: Any, kind: type) -> None:
        super().__init__()
        self._fields, self._kind, self._init = tuple(leaves), kind, init
        self._leaves = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, Leaf)}
        for name, leaf in leaves.items():
            if not isinstance(leaf, Leaf):
                inner, inside = leaf
                self.add_module(name, Fields(inside, init, device, inner))
            elif leaf.dtype.is_floating_point:
                self.register_parameter(name, torch.nn.Parameter(torch.empty(leaf.shape, dtype=leaf.dtype, device=device)))
            else:
                self.register_buffer(name, torch.empty(leaf.shape, dtype=leaf.dtype, device=device))
        self._begin()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _begin(self) -> None:
        for name, leaf in self._leaves.items():
            tensor = getattr(self, name)
            leaf.begin(tensor)
            if self._init is not None:
                self._init(leaf.name, tensor)

    def reset_parameters(self) -> None:
        """Fill its tensors, and those of the records in it, as they begin."""
        for part in self.children():
            if isinstance(part, Fields):  # others were put in by PyTorch, such as parametrizations
                part.reset_parameters()
        self._begin()

    def record(self) -> Any:
        """What the function takes."""
        found = {}
        for name in self._fields:
            value = getattr(self, name)
            found[name] = value if name in self._leaves else value.record()
        return found if self._kind is dict else tuple(found.values())


class Module(Fields):
    """A `torch.nn.Module` that calls a function, and whose parameters are the fields of the record `params` that it takes.

    Called, it takes the function's other arguments. `sizes` are those of the fields, by the names of the signature; `dtype` is for
    fields whose element type that leaves open. Matrices begin as those of `torch.nn.Linear` do, vectors as zeros, or ones where
    they scale; `init(name, tensor)` changes that. Raises AxonError for what the function does not have, and where a size is not
    given.
    """

    @untraced
    @brief
    def __init__(
        self,
        function: Function,
        params: str,
        sizes: Mapping[str, int] | None = None,
        *,
        ranks: Mapping[str, int] | None = None,
        dtype: Any = None,
        device: Any = None,
        init: Init | None = None,
    ) -> None:
        if not isinstance(function, Function):
            raise TypeError(f"axon.nn.Module takes a function of a module, not {type(function).__name__}")
        place, leaves = _fields(function, params, sizes or {}, ranks or {}, dtype)
        super().__init__(leaves, init, device, dict)
        self._function, self._place, self._name = function, place, params
        self._sign()

    def _sign(self) -> None:
        """Have `forward` say which arguments it takes: `torch.export` asks for their names and structure."""
        if type(self).forward is not Module.forward:
            return  # a class of the user's says it itself
        sig = inspect.signature(self._function)
        taken = [p for p in sig.parameters.values() if p.name != self._name and p.kind is not p.KEYWORD_ONLY]

        def forward(self: Module, *args: Any, **kwargs: Any) -> Any:
            return Module.forward(self, *args, **kwargs)

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        forward.__signature__ = sig.replace(parameters=[own, *taken])  # type: ignore[attr-defined]
        self.__dict__["forward"] = MethodType(forward, self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "forward"}  # which each copy makes for itself

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._sign()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) >= self._place:
            return self._function(*args[: self._place], self.record(), *args[self._place :], **kwargs)
        return self._function(*args, **kwargs, **{self._name: self.record()})

    def extra_repr(self) -> str:
        shapes = [f"{name}: {list(leaf.shape)}" for name, leaf in self._leaves.items()]
        return ", ".join([f"{self._function.__name__}, {self._name}", *shapes])


Module.__module__ = "axon.nn"  # where everyone finds it, pickles too


def _fields(
    function: Function, params: str, sizes: Mapping[str, int], ranks: Mapping[str, int], dtype: Any
) -> tuple[int, dict[str, Any]]:
    """At which place the function takes the record, and what stands in that."""
    session, callee = function._session, function._callee
    names = [p.name for p in callee.parameters]
    if params not in names:
        raise wrong(callee, "AX0505", f"`{callee.name}` has no parameter `{params}`{hint(params, names)}")
    place = names.index(params)
    wanted = callee.parameters[place]
    if not isinstance(wanted.type, t.RecordType):
        raise wrong(
            callee, "AX0505", f"`{params}` of `{callee.name}` is no record, whose fields could be parameters", span=wanted.span
        )
    at = ranked(session, callee, ranks)
    given = dict(zip(callee.dimensions, function._sizes, strict=False)) | dict(sizes)
    asked = {at.names[s] for path, dims in at.arguments.items() if _within(path, params) for d in dims for s in d.variables}
    for name, size in given.items():
        if isinstance(size, int) and size < 0:
            raise wrong(callee, "AX0505", f"the size `{name}` is {size}, and none is below 0")
        if name not in at.names.values():
            raise wrong(callee, "AX0505", f"`{callee.name}` has no size `{name}`{hint(name, sorted(asked))}")
    if missing := sorted(asked - given.keys()):
        how = "sizes={" + ", ".join(f'"{n}": …' for n in missing) + "}"
        lacks = ", ".join(f"`{n}`" for n in missing)
        raise wrong(callee, "AX0505", f"how large the fields of `{params}` are is not said: {lacks}", f"pass {how}")
    _, leaves = _leaves(callee, at, given, params, wanted.type, dtype)
    for name in _taken(leaves):
        raise wrong(callee, "AX0505", f"the field `{name}` of `{params}` has a name that torch.nn.Module has already")
    return place, leaves


def _within(path: str, params: str) -> bool:
    return path == params or path.startswith(f"{params}.")


def _leaves(callee: Callee, at: Ranked, given: Mapping[str, int], path: str, type: t.Type, dtype: Any) -> Any:
    """The leaves of a type by field; of what has fields, what Python calls it and its leaves."""
    match type:
        case t.RecordType(fields):
            return dict, {name: _leaves(callee, at, given, f"{path}.{name}", item, dtype) for name, item in fields}
        case t.TupleType(items):
            return tuple, {str(n): _leaves(callee, at, given, f"{path}.{n}", item, dtype) for n, item in enumerate(items, 1)}
        case t.Tensor(element, shape):
            values = {symbol: given[name] for symbol, name in at.names.items() if name in given}
            sizes = tuple(dim.evaluate(values) for dim in at.arguments[path])
            own = sum(not isinstance(item, t.Row) for item in shape)
            fan = prod(sizes[len(sizes) - own : -1]) if own > 1 else 0
            return Leaf(path.partition(".")[2], _dtype(callee, element, dtype), sizes, fan)
        case _:
            raise wrong(callee, "AX0505", f"`{path}` is no tensor, and no parameter can be made of it")


def _dtype(callee: Callee, element: t.ElementType, dtype: Any) -> Any:
    library = libraries.of_type(torch.Tensor)
    assert isinstance(library, libraries.Torch)
    if isinstance(element, Element):
        return library.dtypes[element]
    allowed = dict(callee.scheme.elements).get(element.symbol, frozenset(Element))
    return dtype if dtype is not None and allowed & FLOAT else library.dtypes[usual(allowed)]


def _taken(leaves: Mapping[str, Any]) -> list[str]:
    """Fields that cannot be attributes of a module."""
    inner = [name for leaf in leaves.values() if not isinstance(leaf, Leaf) for name in _taken(leaf[1])]
    return [name for name in leaves if hasattr(torch.nn.Module, name) or name in ("training", "record")] + inner
