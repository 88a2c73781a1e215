"""Axon's functions as operators of PyTorch: `torch.ops.axon.<name>.<overload>`, one overload for each structure of the arguments.

An operator takes the dimension parameters, then the leaves of the arguments in the order of the signature: tensors, and Python's
numbers where numbers were given. Its fake kernel is the signature (`sizes`); gradients, tangents and batches are the functions
that `recorded` has beside a function, each an operator in turn. They are registered where PyTorch's dispatcher looks for them,
level by level of `torch.func`, so that what is nested is right whatever mode is on.

Names are `<file>_<digest>_<function>`: of what the module says and of what it imports, so that an edited module has other
operators, and the same text in another process the same. `register` gives names that stay.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from axon import compiler
from axon.backend import libraries
from axon.base.data import dataclass, replace
from axon.base.element import Element, usual
from axon.base.errors import AxonError
from axon.core.ir import Block, Compress, Const, Index, Leaf, Loop, Param, Program, RecordOf, Structure, TupleOf, Value
from axon.core.walk import results_of
from axon.host import autograd, values
from axon.host.call import Callee, Session, check_target, wrong
from axon.host.pytorch.leaves import apart, together
from axon.host.pytorch.sizes import bound, value
from axon.host.recorded import Form, Recorded, found_form
from axon.types import type as t

if TYPE_CHECKING:
    from axon.checker.module import CheckedModule

LIBRARY = torch.library.Library("axon", "FRAGMENT")
LOCK = RLock()
_BELOW_AUTOGRAD = torch._C._after_autograd_keyset
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """A function at one structure of its arguments. `numbers` are the leaves for which Python's numbers are given."""

    session: Session
    callee: Callee
    target: str | None
    params: tuple[Param, ...]
    result: Structure
    leaves: int
    numbers: frozenset[int]
    packet: str
    overload: str

    @property
    def op(self) -> Any:
        return getattr(getattr(torch.ops.axon, self.packet), self.overload)

    @property
    def count(self) -> int:
        """How many tensors its results are."""
        return _count(self.result)

    def given(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments that these are the leaves of."""
        return [values.assemble(p.structure, leaves) for p in self.params]

    def split(self, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The dimension parameters, and the leaves."""
        count = len(self.callee.dimensions)
        return tuple(args[:count]), tuple(args[count:])

    def form(self, leaves: Sequence[Any], batched: Sequence[bool] = ()) -> Form:
        """What a call of these leaves is as a node of PyTorch's graphs; those that are batched have a dimension more than in it."""
        held = [hollow(x, less) for x, less in zip(leaves, batched or (False,) * len(leaves), strict=True)]
        return found_form(self.session, self.callee, (None,), self.given(held))

    def recorded(self, args: Sequence[Any], batched: Sequence[bool] = ()) -> tuple[Recorded, list[Any]]:
        """A call, whose functions beside it are called with the same dimension parameters, and its tensors."""
        sizes, leaves = self.split(args)
        form = replace(self.form(leaves, batched[len(sizes) :]), made={})  # they have dimension parameters, which a form has not
        places = tuple(n for n in range(self.leaves) if n not in self.numbers)
        kept = tuple(x if n in self.numbers else None for n, x in enumerate(leaves))
        call = Recorded(form, _never, partial(_operating, sizes), self.target, kept, places)
        return call, [leaves[n] for n in places]

    # ── kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def real(self) -> Callable[..., Any]:
        """What computes a call. What of it is the same at every call is asked once: a graph on a GPU waits for nothing else."""
        session, callee, target, params, result = self.session, self.callee, self.target, self.params, self.result
        skipped, count, alone = len(callee.dimensions), self.count, len(self.numbers) == self.leaves
        flat = all(p.structure == Leaf(n) for n, p in enumerate(params))

        def computed(*args: Any) -> Any:
            sizes, leaves = args[:skipped], args[skipped:]
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor) and not leaf.ndim:  # a number, which may lie on the host
                    leaves = beside(leaves)
                    break
            given = leaves if flat else [values.assemble(p.structure, leaves) for p in params]
            recording = torch.is_grad_enabled()
            torch._C._set_grad_enabled(False)
            try:
                if alone:
                    return self.back(self.numbered(sizes, given))
                found = session.seen_or_called(callee, sizes, given, {}, target)
            finally:
                torch._C._set_grad_enabled(recording)
            if count == 1 and isinstance(result, Leaf):
                return found.contiguous()
            return self.back([x.contiguous() for x in spread(result, found, count)])

        return computed

    def numbered(self, sizes: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The results of a call of Python's numbers alone, as tensors."""
        made = self.session.call(self.callee, sizes, given, {}, self.target, numbers=False)
        library = libraries.of_type(torch.Tensor)
        assert library is not None
        return [library.from_host(np.array(x)).contiguous() for x in spread(self.result, made, self.count)]

    def fake(self, *args: Any) -> Any:
        """Results without elements: their sizes are what the signature makes of those of the arguments."""
        try:
            return self.hollow(args)
        except AxonError as error:
            if torch._guards.TracingContext.try_get() is None:
                raise
            raise RuntimeError(str(error)) from error  # of what PyTorch shows the representation

    def hollow(self, args: Sequence[Any]) -> Any:
        sizes, leaves = self.split(args)
        _, program = self.session.specialize(self.callee, self.given(list(map(hollow, leaves))), self.given(leaves))
        known = dict(bound(self.session, self.callee, program, sizes, [getattr(x, "shape", ()) for x in leaves]))
        device = place_of(leaves)
        made = []
        for result in results_of(program):
            for symbol in sorted(frozenset().union(*(d.variables for d in result.shape)) - known.keys(), key=lambda s: s.id):
                known[symbol] = torch.library.get_ctx().new_dynamic_size(min=0)
            shape = [value(dim, known) for dim in result.shape]
            made.append(torch.empty(shape, dtype=dtype_of(result.element), device=device))
        return self.back(made)

    def autograd(self, keyset: Any, *args: Any) -> Any:
        if not torch._C._are_functorch_transforms_active():
            args = torch._functorch.utils.unwrap_dead_wrappers(args)
            if not _differentiated(args):  # as in a compiled graph, whose backward is a graph of its own
                with torch._C._AutoDispatchBelowAutograd():
                    return self.op.redispatch(keyset & _BELOW_AUTOGRAD, *args)
            return _Node.apply(self, keyset, *args)
        with torch._functorch.utils.enable_single_level_autograd_function():
            return _Node.apply(self, keyset, *args)

    def batch(self, info: Any, dims: Sequence[int | None], *args: Any) -> tuple[Any, Any]:
        batched = [d is not None for d in dims]
        call, _ = self.recorded(args, batched)
        front = [x if d is None else x.movedim(d, 0) for x, d in zip(args, dims, strict=True)]
        skipped = len(self.callee.dimensions)
        places = [n + skipped for n in call.places]
        results = call.batch([front[n] for n in places], [batched[n] for n in places])
        return self.back(list(results)), self.back([0] * len(results))

    def autocast(self, keyset: Any, *args: Any) -> Any:
        from axon.host.pytorch.autocast import widened

        sizes, leaves = self.split(args)
        given = widened(self.callee, self.given(leaves))
        found = values.flatten(self.params, given)
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return self.op(*sizes, *[found[n][1] for n in range(self.leaves)])

    def back(self, results: list[Any]) -> Any:
        """The results as an operator gives them: one alone is no tuple."""
        return results[0] if len(results) == 1 else tuple(results)


def _differentiated(args: Sequence[Any]) -> bool:
    """Whether a derivative by one of these may be asked for, outside of `torch.func`: in reverse, or forward."""
    if torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
        return True
    return bool(torch.autograd.forward_ad._current_level >= 0)


class _Node(torch.autograd.function._SingleLevelFunction):  # type: ignore[misc]
    """A call as a node of a graph, of autograd's or of one level of `torch.func`: what is below that level is called on."""

    @staticmethod
    def forward(operator: Operator, keyset: Any, *args: Any) -> Any:
        below = keyset & _BELOW_AUTOGRAD
        # What is recorded by an outer level is decided there; a node's `forward` has turned it off.
        with torch.enable_grad(), torch.autograd.forward_ad._set_fwd_grad_enabled(True), torch._C._AutoDispatchBelowAutograd():
            return operator.op.redispatch(below, *args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operator, _, *args = inputs
        ctx.call, tensors = operator.recorded(args)
        ctx.arguments, ctx.skipped = len(inputs), 2 + len(operator.callee.dimensions)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.mark_non_differentiable(*[x for n, x in enumerate(outputs) if n not in ctx.call.form.floats])

    @staticmethod
    def backward(ctx: Any, *adjoints: Any) -> tuple[Any, ...]:
        places = [n + ctx.skipped for n in ctx.call.places]
        needed = [ctx.needs_input_grad[n] for n in places]
        found = ctx.call.backward(ctx.saved_tensors, needed, list(map(autograd.plain, adjoints)))
        gradients: list[Any] = [None] * ctx.arguments
        for n, x in zip(places, found, strict=True):
            gradients[n] = x
        return tuple(gradients)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        moved = [autograd.plain(tangents[n + ctx.skipped]) for n in ctx.call.places]
        found = ctx.call.tangents(ctx.saved_tensors, moved)
        return found[0] if len(found) == 1 else tuple(found)


def place_of(leaves: Sequence[Any]) -> Any:
    """The device of a call: that of its tensors, where numbers of NumPy's are tensors of rank 0 on the host."""
    devices = [x.device for x in leaves if isinstance(x, torch.Tensor)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def beside(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The leaves, with numbers on the host (tensors of rank 0) moved to the device of the others, as PyTorch's operators do."""
    device = place_of(leaves)
    if device.type == "cpu":
        return tuple(leaves)
    numbers = [isinstance(x, torch.Tensor) and not x.ndim and x.device.type == "cpu" for x in leaves]
    return tuple(x.to(device) if number else x for x, number in zip(leaves, numbers, strict=True))


def _never(given: tuple[Any, ...], target: str | None) -> Any:
    raise AssertionError("an operator calls itself by PyTorch's dispatcher")


def _operating(sizes: tuple[Any, ...], session: Session, callee: Callee) -> Any:
    """What calls a function as an operator: the dispatcher is on its way through the levels of `torch.func`, and goes on."""

    def call(*args: Any, target: str | None) -> Any:
        leaves: list[Any] = []
        keys = tuple(apart(x, leaves) for x in args)
        packet, overload, order, _, result = found(session, callee, target, keys)
        operator = getattr(getattr(torch.ops.axon, packet), overload)
        return together(result, operator(*sizes, *[leaves[n] for n in order]))

    return call


def hollow(leaf: Any, less: bool = False) -> Any:
    """What stands for a leaf where its element type and rank alone are asked: an array of one element, and a number."""
    if isinstance(leaf, torch.Tensor):
        return _stand_in(leaf.dtype, leaf.ndim - less, leaf)
    kinds = ((torch.SymInt, 1), (torch.SymFloat, 1.0), (torch.SymBool, True))
    return next((number for kind, number in kinds if isinstance(leaf, kind)), leaf)


def _stand_in(dtype: Any, rank: int, otherwise: Any) -> Any:
    library = libraries.of_type(torch.Tensor)
    assert isinstance(library, libraries.Torch)
    element = library.elements.get(dtype)
    return otherwise if element is None else np.broadcast_to(np.zeros((), element.dtype), (1,) * rank)


def dtype_of(element: Element) -> Any:
    library = libraries.of_type(torch.Tensor)
    assert isinstance(library, libraries.Torch)
    return library.dtypes[element]


# ── which operator a call is of ─────────────────────────────────────────────────────────────────────────────────────────


# Operators with what stands for the leaves of a call, for every form of calls that there was. `again` looks here.
asked: list[tuple[Operator, tuple[Any, ...]]] = []


def _ask(operator: Operator, program: Program, numbers: Mapping[int, Any]) -> None:
    asked.append((operator, tuple(numbers[n] if n in numbers else example(x) for n, x in enumerate(program.inputs))))


def found(session: Session, callee: Callee, target: str | None, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operator of arguments with these keys (see `traced`), made if there is none: its two names, the order in which it takes
    the leaves, the element types of lists, and the structure of its results. Raises AxonError for what does not fit."""
    known = (callee.name, target, torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda"), repr(keys))
    if known not in session.operators:
        with LOCK:
            session.operators[known] = _found(session, callee, target, keys)
    answer: tuple[Any, ...] = session.operators[known]
    return answer


def _found(session: Session, callee: Callee, target: str | None, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    check_target(callee, target)
    leaves: list[Any] = []
    kinds: list[str] = []
    trees = tuple(tree_of_key(callee, key, leaves, kinds) for key in keys)
    given = [_built(tree, leaves) for tree in trees]
    if torch._C._is_any_autocast_enabled():
        from axon.host.pytorch.autocast import widened

        given = widened(callee, given)
    _, program = session.specialize(callee, list(map(_emptied, given)), given)
    order = values.flatten(program.params, trees)
    places = tuple(int(order[n][1]) for n in range(len(order)))
    numbers = frozenset(n for n, place in enumerate(places) if kinds[place] == "number")
    operator = made(session, callee, target, program, numbers)
    lists = (program.inputs[n].element if kinds[place] == "list" else None for n, place in enumerate(places))
    dtypes = tuple(None if element is None else dtype_of(element) for element in lists)
    _ask(operator, program, {n: leaves[places[n]] for n in numbers})
    return operator.packet, operator.overload, places, dtypes, _coded(program.result, len(results_of(program)))


def computed(
    session: Session, callee: Callee, target: str | None, sizes: tuple[int, ...], leaves: Sequence[Any], keys: tuple[Any, ...]
) -> tuple[list[Any], Any]:
    """The results of a call of numbers alone, and their structure as `traced` reads it."""
    stands: list[Any] = []
    trees = [tree_of_key(callee, key, stands, []) for key in keys]
    result = session.call(callee, sizes, [_built(tree, leaves) for tree in trees], {}, target)
    results: list[Any] = []
    return results, _taken(result, results)


def _taken(result: Any, results: list[Any]) -> Any:
    """The structure of a value as `traced` reads it; its leaves are appended."""
    match result:
        case tuple():
            return (None, *[_taken(item, results) for item in result])
        case dict():
            return (tuple(result), *[_taken(item, results) for item in result.values()])
        case _:
            results.append(result)
            return len(results) - 1


def tree_of_key(callee: Callee, key: tuple[Any, ...], leaves: list[Any], kinds: list[str]) -> Any:
    """The tree of a value by its key, with the numbers of its leaves, each of which something stands for."""
    match key:
        case ("()", *items):
            return tuple(tree_of_key(callee, item, leaves, kinds) for item in items)
        case ("{}", names, *items):
            return {name: tree_of_key(callee, item, leaves, kinds) for name, item in zip(names, items, strict=True)}
        case (kind, what, *rank):
            stands = {bool: True, int: 1, float: 1.0}
            match kind:
                case "tensor" | "array":
                    leaves.append(torch.empty((1,) * rank[0], dtype=what, device="meta"))
                case "list":
                    leaves.append(what)
                case _ if what not in stands:
                    message = f"an argument of `{callee.name}` must be an array or a number, not a value of the Python type "
                    raise wrong(callee, "AX0504", message + getattr(what, "__name__", str(what)))
                case _:
                    leaves.append(stands[what])
            kinds.append(kind)
            return len(leaves) - 1
    raise AssertionError(key)


def _built(tree: Any, leaves: Sequence[Any]) -> Any:
    match tree:
        case int():
            return leaves[tree]
        case tuple():
            return tuple(_built(item, leaves) for item in tree)
        case _:
            return {name: _built(item, leaves) for name, item in tree.items()}


def _emptied(given: Any) -> Any:
    match given:
        case tuple():
            return tuple(map(_emptied, given))
        case dict():
            return {name: _emptied(item) for name, item in given.items()}
        case _:
            return hollow(given)


def spread(structure: Structure, value: Any, count: int) -> list[Any]:
    """The leaves of a value in their order."""
    found: list[Any] = [None] * count
    _spread(structure, value, found)
    return found


def _spread(structure: Structure, value: Any, found: list[Any]) -> None:
    match structure:
        case Leaf(position):
            found[position] = value
        case TupleOf(items):
            for item, inner in zip(items, value, strict=True):
                _spread(item, inner, found)
        case RecordOf(fields):
            for name, item in fields:
                _spread(item, value[name], found)


def _count(structure: Structure) -> int:
    match structure:
        case Leaf():
            return 1
        case TupleOf(items):
            return sum(map(_count, items))
        case RecordOf(fields):
            return sum(_count(item) for _, item in fields)


def example(value: Value) -> Any:
    """A tensor that has the element type and the rank of a value, and no memory."""
    return torch.empty((1,) * len(value.shape), dtype=dtype_of(value.element), device="meta")


def _coded(structure: Structure, count: int) -> Any:
    """The structure of results as `traced` reads it."""
    match structure:
        case Leaf(position):
            return position if count > 1 else -1
        case TupleOf(items):
            return (None, *[_coded(item, count) for item in items])
        case RecordOf(fields):
            return (tuple(name for name, _ in fields), *[_coded(item, count) for _, item in fields])


# ── names that stay ─────────────────────────────────────────────────────────────────────────────────────────────────────

_MOST_NUMBERS = 3  # scalars among the leaves, for each of which a tensor or a number may be given


def register(session: Session, names: Sequence[str], prefix: str) -> None:
    """Call the operators of these functions `<prefix>_<function>`, and make those that the signatures decide. Raises ValueError for
    a name that another program has."""
    own = digest(session.checked)
    with LOCK:
        packets = {name: f"{prefix}_{word(name)}" for name in names}
        for packet in packets.values():
            if _registered.setdefault(packet, own) != own:
                whose = "another program, or of this one before it was edited"
                raise ValueError(f"torch.ops.axon.{packet} is of {whose}: take another name")
        session.names |= packets
        session.operators.clear()
        for name in names:
            callee = session.callee(name)
            with suppress(AxonError):  # what the signature leaves open is made by the first call
                _, program = session.specialize(callee, [_example(callee, p.type) for p in callee.parameters])
                alone = [p.structure for n, p in enumerate(program.params) if n in callee.scheme.or_scalar]
                scalars = [n for n, value in enumerate(program.inputs) if not value.shape or Leaf(n) in alone][:_MOST_NUMBERS]
                for count in range(len(scalars) + 1):
                    for numbers in combinations(scalars, count):
                        operator = made(session, callee, None, program, frozenset(numbers))
                        _ask(operator, program, {n: program.inputs[n].element.dtype.type(1).item() for n in numbers})


_registered: dict[str, str] = {}  # packets, and the digests of their programs


def _example(callee: Callee, type: t.Type) -> Any:
    """Something of a type, of which every shape variable stands for one dimension. Raises AxonError where the type is open."""
    match type:
        case t.Tensor(element, shape):
            allowed = dict(callee.scheme.elements)
            own = element if isinstance(element, Element) else usual(allowed.get(element.symbol, frozenset(Element)))
            return np.broadcast_to(np.zeros((), own.dtype), (1,) * len(shape))
        case t.TupleType(items):
            return tuple(_example(callee, item) for item in items)
        case t.RecordType(fields):
            return {name: _example(callee, item) for name, item in fields}
        case t.Exists(body=body):
            return _example(callee, body)
        case _:
            raise wrong(callee, "AX0505", "a type that the signature leaves open")


# ── making one ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_operators: dict[tuple[str, str], Operator] = {}
registering: list[str] = []  # names that PyTorch is being told, which asks whether there is such an operator


def made(session: Session, callee: Callee, target: str | None, program: Program, numbers: frozenset[int]) -> Operator:
    """The operator of a function at the structure of its arguments that a program has; the one that there is of this name."""
    packet = f"{session.names.get(callee.name) or _name(session, callee)}{f'_{target}' if target else ''}"
    odd = _odd(callee, program)
    overload = "_".join(filter(None, [odd, f"numbers_{'_'.join(map(str, sorted(numbers)))}" if numbers else ""])) or "default"
    with LOCK:
        if (packet, overload) not in _operators:
            leaves = len(program.inputs)
            operator = Operator(session, callee, target, program.params, program.result, leaves, numbers, packet, overload)
            registering.append(packet)
            try:
                _register(operator, program)
            finally:
                registering.remove(packet)
            _operators[packet, overload] = operator
        return _operators[packet, overload]


def _register(operator: Operator, program: Program) -> None:
    name = f"{operator.packet}.{operator.overload}" if operator.overload != "default" else operator.packet
    tags = [torch.Tag.pt2_compliant_tag]
    known = {*program.explicit}.union(*(d.variables for value in program.inputs for d in value.shape))
    if any(d.variables - known for result in results_of(program) for d in result.shape):
        tags.append(torch.Tag.dynamic_output_shape)
    if _waits(program.block) and hasattr(torch.Tag, "cudagraph_unsafe"):
        tags.append(torch.Tag.cudagraph_unsafe)
    LIBRARY.define(f"{name}{schema_of(operator)}", tags=tags)
    LIBRARY.impl(name, operator.real(), "CompositeExplicitAutograd")
    torch.library.register_fake(f"axon::{name}", operator.fake, lib=LIBRARY)
    LIBRARY.impl(name, operator.autograd, "Autograd", with_keyset=True)
    for key in ("AutocastCPU", "AutocastCUDA"):
        LIBRARY.impl(name, operator.autocast, key, with_keyset=True)
    torch.library.register_vmap(f"axon::{name}", operator.batch, lib=LIBRARY)


def existing(packet: str, overload: str) -> Operator:
    """An operator that was made."""
    return _operators[packet, overload]


def schema_of(operator: Operator, *, into: bool = False) -> str:
    """What it takes and gives; of one that writes its results into tensors, these last."""
    paths = values.flatten(operator.params, operator.given(range(operator.leaves)))
    taken: set[str] = set()
    sizes = [f"SymInt {_free(name, taken)}" for name in operator.callee.dimensions]
    kinds = ["Scalar" if n in operator.numbers else "Tensor" for n in range(operator.leaves)]
    leaves = [f"{kind} {_free(paths[n][0], taken)}" for n, kind in enumerate(kinds)]
    results = ["Tensor"] * operator.count
    if into:
        outs = [f"Tensor(a{n}!) {_free(f'out_{n}', taken)}" for n in range(operator.count)]
        return f"({', '.join([*sizes, *leaves, *outs])}) -> ()"
    return f"({', '.join([*sizes, *leaves])}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"


def _free(path: str, taken: set[str]) -> str:
    name = word(path)
    while name in taken or keyword.iskeyword(name) or name in ("self", "out"):
        name += "_"
    taken.add(name)
    return name


def word(text: str) -> str:
    """A text as a name: what no name may hold is `_`."""
    found = re.sub(r"\W", "_", text, flags=re.ASCII)
    return found if not found[:1].isdigit() else f"_{found}"


def _name(session: Session, callee: Callee) -> str:
    """What the operators of a function are called if nobody has said it."""
    path = session.checked.source.path
    stem = "text" if path == compiler.TEXT else Path(path).stem
    return f"{word(stem)}_{digest(session.checked)}_{word(callee.name)}"


def digest(checked: CheckedModule) -> str:
    """Of what a module and those that it imports say."""
    texts = sorted(f"{name}\0{text}" for name, text in {*_texts("", checked)})
    return hashlib.sha256("\0\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:10]


def _texts(name: str, checked: CheckedModule) -> Iterator[tuple[str, str]]:
    yield name, checked.source.text
    for inner, module in checked.imports.items():
        yield from _texts(inner, module)


def _odd(callee: Callee, program: Program) -> str:
    """What tells the structure of arguments where the signature leaves it open."""
    if not any(map(_is_open, (p.type for p in callee.parameters))):
        return ""
    return "of_" + hashlib.sha256(repr(program.params).encode()).hexdigest()[:8]


def _is_open(type: t.Type) -> bool:
    match type:
        case t.TupleType(items):
            return any(map(_is_open, items))
        case t.RecordType(fields):
            return any(_is_open(item) for _, item in fields)
        case t.Exists(body=body):
            return _is_open(body)
        case _:
            return not isinstance(type, t.Tensor)


def _waits(block: Block) -> bool:
    """Whether the host reads back from a GPU while a program runs, which no CUDA graph can hold: a size or a number of steps."""
    for op in block.ops:
        if isinstance(op, Compress):
            return True
        if isinstance(op, Loop) and (op.conditional or not isinstance(op.trip, Index | Const) or _waits(op.body)):
            return True
    return False
