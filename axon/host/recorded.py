"""Calls whose derivatives a library passes on: an Axon function as a node of PyTorch's autograd and of its transformations.

What such a node asks, of tensors alone: the results (`forward`), the adjoints of arguments from those of results (`backward`), the
tangents of results from those of arguments (`tangents`), and the results for a batch of arguments (`batch`). Each is a call of a
function of the language, which `gradients` makes beside the other. So what these compute can be differentiated again, for a call
of them is recorded as any is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from axon.backend import libraries
from axon.base.data import dataclass, field, replace
from axon.base.errors import AxonError
from axon.base.identity import IdentityMap
from axon.core.ir import Param, Structure
from axon.core.walk import results_of
from axon.host import values
from axon.host.call import Callee, Session
from axon.host.gradients import Flat, Tree
from axon.host.weak import weak_array

if TYPE_CHECKING:
    from axon.host.module import Function

Run = Callable[[tuple[Any, ...], str | None], Any]  # of whole arguments, at a target
Make = Callable[[Session, Callee], "Function"]
Beside = Callable[[], tuple[Session, Callee]]
Made: TypeAlias = "dict[Hashable, tuple[Session, Callee, Function]]"


@dataclass(frozen=True, slots=True)
class Form:
    """A function at one form of its arguments: what their structures, element types and ranks decide, and dimension parameters.

    `made` are the functions beside it that were asked for, as a call of the function itself has them.
    """

    flat: Flat
    structure: Structure  # of its result
    floats: tuple[int, ...]  # the leaves of the result that have derivatives
    made: Made = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One call. `leaves` are those of its arguments, and `places` tells which of them are tensors, which autograd keeps."""

    form: Form
    run: Run  # the call itself
    make: Make  # of what is made beside the function
    target: str | None
    leaves: tuple[Any, ...]
    places: tuple[int, ...]

    def forward(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        leaves = self._with(tensors)
        args = [built(tree, leaves) for tree in self.form.flat.arguments]
        return tuple(leaves_of(self.form.structure, self.run(tuple(args), self.target)))

    def backward(self, tensors: Sequence[Any], needed: Sequence[bool], adjoints: Sequence[Any]) -> list[Any]:
        """The adjoints of the tensors that are needed, from those of results; None stands for what is not, and for 0."""
        by = tuple(n for n, need in zip(self.places, needed, strict=True) if need)
        of = tuple(n for n, adjoint in enumerate(adjoints) if adjoint is not None)
        if not by or not of:
            return [None for _ in tensors]
        given = [adjoints[n] for n in of]
        found = iter(self._call(("backward", by, of), lambda: self.form.flat.pullback(by, of), tensors, given))
        return [next(found) if need else None for need in needed]

    def tangents(self, tensors: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
        """The tangents of the results; None stands for those of what has none, and for 0."""
        results: list[Any] = [None] * len(self.form.flat.result)
        by = tuple(n for n, x in zip(self.places, moved, strict=True) if x is not None)
        if not by or not self.form.floats:
            return results
        of, given = self.form.floats, [x for x in moved if x is not None]
        found = self._call(("tangents", by), lambda: self.form.flat.pushforward(by, of), tensors, given)
        for n, x in zip(of, found, strict=True):
            results[n] = x
        return results

    def batch(self, tensors: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
        """The results with a dimension before theirs; the tensors that are batched have one."""
        over = tuple(n for n, b in zip(self.places, batched, strict=True) if b)
        return self._call(("batch", over), lambda: self.form.flat.mapped(over), tensors)

    def _call(self, key: Hashable, beside: Beside, tensors: Sequence[Any], moved: Sequence[Any] = ()) -> tuple[Any, ...]:
        """What a function made beside this one gives."""
        if key not in self.form.made:
            made = beside()
            self.form.made[key] = (*made, self.make(*made))
        session, callee, function = self.form.made[key]
        try:
            found = function(*self._with(tensors), *moved, target=self.target)
        except AxonError as error:
            raise session.told(error, callee.name) from None
        return found if isinstance(found, tuple) else (found,)

    def _with(self, tensors: Sequence[Any]) -> list[Any]:
        leaves = list(self.leaves)
        for n, x in zip(self.places, tensors, strict=True):
            leaves[n] = x
        return leaves


def taken_apart(
    session: Session,
    callee: Callee,
    sizes: Sequence[int],
    given: Sequence[Any],
    run: Run,
    make: Make,
    target: str | None,
    made: IdentityMap[Form, Made] | None = None,
) -> tuple[Recorded, list[Any]]:
    """A call of some arguments, and PyTorch's tensors among their leaves. Raises AxonError for arguments that do not fit.

    Who calls it in a way of its own, over a mesh, keeps what is `made` beside it: no other call may meet that.
    """
    leaves: list[Any] = []
    form = found_form(session, callee, sizes, given, leaves)
    if made is not None:
        form = replace(form, made=made.setdefault(form, {}))
    places = tuple(n for n, x in enumerate(leaves) if isinstance(libraries.of(x), libraries.Torch))
    tensors = [leaves[n] for n in places]
    for n in places:
        leaves[n] = None  # autograd keeps them
    return Recorded(form, run, make, target, tuple(leaves), places), tensors


def found_form(
    session: Session, callee: Callee, sizes: Sequence[Hashable], given: Sequence[Any], leaves: list[Any] | None = None
) -> Form:
    """The form of some arguments, whose leaves are appended. Raises AxonError for arguments that do not fit."""
    leaves = [] if leaves is None else leaves
    key: list[Hashable] = [callee.name, *sizes]
    trees = tuple(tree_of(value, leaves, key) for value in given)
    form = session.forms.get(tuple(key))
    if form is None:
        form = session.forms[tuple(key)] = form_of(session, callee, trees, list(map(values.stand_in, given)), given)
    return form


def form_of(session: Session, callee: Callee, trees: tuple[Tree, ...], given: list[Any], original: Sequence[Any]) -> Form:
    """The form of a call of arguments, which on the host stand for the caller's, `original`."""
    matched, program = session.specialize(callee, given, original)
    numbers, arrays = values.flatten(program.params, trees), values.flatten(program.params, matched)
    leaves = [(numbers[n][1], program.inputs[n].element.value, x.ndim) for n, (_, x) in arrays.items()]
    results = results_of(program)
    paths = _leaves(program.result, values.assemble(program.result, range(len(results))))
    known = {*program.explicit}.union(*(d.variables for value in program.inputs for d in value.shape))
    open_ = {n: (r.element.value, len(r.shape)) for n, r in enumerate(results) if any(d.variables - known for d in r.shape)}
    flat = Flat(session, callee, trees, tuple((e, rank) for _, e, rank in sorted(leaves)), tuple(p for p, _ in paths), open_)
    return Form(flat, program.result, tuple(n for n, value in enumerate(results) if value.element.is_float))


def leaves_of(structure: Structure, result: Any) -> list[Any]:
    """The leaves of a result."""
    return [leaf for _, leaf in _leaves(structure, result)]


def _leaves(structure: Structure, result: Any) -> list[tuple[str, Any]]:
    """The leaves of a result, each with its path."""
    found = values.flatten((Param("", structure),), (result,))
    return [found[n] for n in range(len(found))]


def tree_of(value: Any, leaves: list[Any], key: list[Hashable]) -> Tree:
    """The tree of a value, whose leaves are appended; to `key`, what of it decides the form of a call."""
    if isinstance(value, tuple):
        key.append(len(value))
        return tuple(tree_of(item, leaves, key) for item in value)
    if isinstance(value, Mapping):
        key.append(tuple(value))
        return {name: tree_of(item, leaves, key) for name, item in value.items()}
    library = libraries.of(value)
    if library is not None or isinstance(value, np.ndarray | np.generic):
        key.append((value.dtype, len(value.shape)))
    else:
        weak = weak_array(value)
        key.append((weak.dtype.kind, weak.ndim, weak.size == 0) if weak is not None else None)
    leaves.append(value)
    return len(leaves) - 1


def built(tree: Tree, leaves: Sequence[Any]) -> Any:
    """An argument that has these leaves."""
    match tree:
        case int():
            return leaves[tree]
        case tuple():
            return tuple(built(item, leaves) for item in tree)
        case dict():
            return {name: built(item, leaves) for name, item in tree.items()}
