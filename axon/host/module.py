"""The Python face: modules and functions as Python objects. `axon.__doc__` shows their use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_not
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.backend import libraries
from axon.backend.libraries import autocast, constant, differentiated, hide_from_torch, transformed, untraced, watched
from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError
from axon.base.nearest import hint
from axon.host.call import Callee, Session, arguments, check_sizes, check_target, named, opened, replayed, session_of, wrong
from axon.host.described import Documented, brief, documentation, shortened, signature
from axon.host.models import Model
from axon.host.seen import NOT_READY, LastCall

if TYPE_CHECKING:
    from inspect import Signature

    from axon.backend.gpu.runtime.arrays import Quick
    from axon.backend.gpu.runtime.variants import Variants
    from axon.checker.module import CheckedModule
    from axon.host.cost import Cost
    from axon.host.devices.function import ShardedFunction
    from axon.host.devices.interpreted import InterpretedShards
    from axon.host.sizes import Sizes, Unranked
    from axon.host.solve import Solutions


@untraced
@brief
def load(path: str | os.PathLike[str], *, chip: str | None = None) -> Module:
    """The module in a file. Raises AxonError if it is wrong. Loading again sees what was edited in between.

    `chip`, such as "sm_80", is the one for which its GPU kernels are made; without it, that of the GPU on which they run.
    """
    shown = os.fspath(path) if isinstance(path, os.PathLike) else path
    _require_text("load", "a path", shown)
    return Module(_accepted(compiler.load(shown)), shown, _known(chip))


@untraced
@brief
def compile(text: str, *, chip: str | None = None) -> Module:
    """A module from its text, which may import from the standard library. Raises AxonError if it is wrong. `chip` is as for
    `load`."""
    _require_text("compile", "the text of a program", text)
    checked = compiler.check_text(text)
    if not checked.ok and text.endswith(".axon") and "\n" not in text:
        first, *rest = _errors(checked)
        help_ = Suggestion(f'to read a file, call axon.load("{text}")')
        raise AxonError((replace(first, suggestions=(*first.suggestions, help_)), *rest))
    return Module(_accepted(checked), compiler.TEXT, _known(chip))


@untraced
def check(text: str) -> list[Diagnostic]:
    """What is wrong with a program, errors and warnings; never raises because of the text."""
    _require_text("check", "the text of a program", text)
    try:
        return list(compiler.check_text(text).diagnostics)
    except AxonError as error:
        return list(error.diagnostics)


@untraced
@brief
def synchronize() -> None:
    """Wait until what was launched on GPUs is done, and raise what a kernel met there: an index outside a tensor, integer
    arithmetic without a result. Calls return before their kernels have run, so a later call would find it otherwise."""
    compiler.synchronize()


@untraced
def register(what: Module | Function, name: str) -> None:
    """Give the operators of PyTorch that a module's functions are, or that one function is, names that stay:
    `torch.ops.axon.<name>_<function>`.

    A program that `torch.export` saved finds them by these names in another process, once they are registered there. Raises
    ValueError for a name that the operators of another program have.
    """
    if not isinstance(what, Module | Function):
        raise TypeError(f"axon.register takes a module of Axon's or a function, not {type(what).__name__}")
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"operators are called by a name such as model, not by {name!r}")
    session = what._session
    functions = [f for f in session.checked.signatures if session.callee(f).is_function]
    with needing_torch("register"):
        from axon.host.pytorch.again import watch
        from axon.host.pytorch.operators import register
    watch()
    register(session, functions if isinstance(what, Module) else [what.__name__], name)


@untraced
def shard(
    function: Function,
    mesh: Any,
    split: Mapping[str, str],
    *,
    timeout: float = 300.0,
    deterministic: bool = False,
    wide_sums: bool = False,
) -> ShardedFunction | InterpretedShards:
    """A function over several devices, one process for each: `split` says which of its sizes are cut over which axes of the mesh.

    `mesh` is a `DeviceMesh` of torch.distributed whose axes have names, and every process of it calls the function alike, with
    DTensors or with its own blocks. A process that dies, that makes another call than the others, or that they wait for longer
    than `timeout` seconds ends all of them with an error that names it. With `deterministic`, sums over devices are in the order
    of the ranks. Sums of 16-bit floats are rounded in each process before they are combined in f32, or, with `wide_sums`, go over
    the link in f32. With a mesh in words, `{"data": 2, "model": 2}`, one process plays all devices, on whole arguments.
    """
    if not isinstance(function, Function):
        raise TypeError(f"axon.shard takes a function of a module, not {type(function).__name__}")
    if not isinstance(split, Mapping):
        raise TypeError(f'axon.shard takes axes by size, {{"b": "data"}}, not {type(split).__name__}')
    for size, axis in split.items():
        if not isinstance(size, str) or not isinstance(axis, str):
            raise TypeError(f"axon.shard takes one axis for each size, both by name, not {size!r}: {axis!r}")
    if isinstance(mesh, Mapping):
        from axon.host.devices.interpreted import interpreted

        return interpreted(function, mesh, split, wide_sums)
    with needing_torch("shard"):
        from axon.host.devices.function import sharded
    return sharded(function, mesh, split, timeout, deterministic, wide_sums)


@contextmanager
def needing_torch(asker: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"axon.{asker} needs PyTorch, which is not installed: pip install torch") from error


def _require_text(function: str, what: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"axon.{function} takes {what}, a str, not {type(value).__name__}")


def _known(chip: str | None) -> str | None:
    """A chip that there is."""
    if chip is not None:
        _require_text("load", "a chip's name", chip)
        compiler.chip(chip)
    return chip


def _accepted(checked: CheckedModule) -> CheckedModule:
    if not checked.ok:
        raise AxonError(_errors(checked))
    return checked


def _errors(checked: CheckedModule) -> tuple[Diagnostic, ...]:
    return tuple(d for d in checked.diagnostics if d.severity == "error")


def _made_by(checked: CheckedModule) -> tuple[Any, str]:
    """What makes a module again, and of what: its text, or the file that it stands in. Raises TypeError where neither would do."""
    source = checked.source
    if source.path == compiler.TEXT:
        return compile, source.text
    if os.path.isfile(source.path):
        return load, os.path.abspath(source.path)
    raise TypeError(f"what `{source.path}` declares cannot be pickled: it is in no file")


def _derivative(of: Function, operator: str, wrt: str | Sequence[str] | None, sizes: tuple[int, ...]) -> Function:
    made = of._derived(operator, wrt)
    return made[sizes] if sizes else made


def _module(make: Any, source: str, chip: str | None) -> Module:
    module: Module = make(source, chip=chip)
    return module


def _function(make: Any, source: str, name: str, sizes: tuple[int, ...], chip: str | None) -> Function:
    function: Function = make(source, chip=chip)[name]
    return function[sizes] if sizes else function


class _Shared:
    """What never changes: copies are the thing itself."""

    __slots__ = ()

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


class Module(_Shared):
    """The declarations of a checked module as attributes: functions are Functions, other values are Python values.

    `m["lambda"]` is for names that Python cannot write as an attribute. Pickled, a module is its text, or the path of its file.
    """

    def __init__(self, checked: CheckedModule, path: str, chip: str | None = None) -> None:
        self._path = path
        self._session = Session(checked, chip=chip)
        self._functions: dict[str, Function] = {}  # that were asked for
        hide_from_torch()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_path", "_session", "_functions"):
            raise AttributeError(name)
        if libraries.compiling():
            return _member(self, name)
        return self._attribute(name)

    @untraced
    def _attribute(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError as error:
            # An object of None: Python would otherwise look for a hint of its own, and print two.
            raise AttributeError(error.args[0], name=name, obj=None) from None
        if isinstance(value, Function | Model):
            self.__dict__[name] = value  # the next `m.f` costs what any attribute costs
        return value

    def __getitem__(self, name: str) -> Any:
        if libraries.compiling():
            return _member(self, name)
        if (known := self._functions.get(name)) is not None:
            return known
        try:
            return self._item(name)
        except AxonError as error:
            raise shortened(error) from error.__cause__

    @untraced
    def _item(self, name: str) -> Any:
        if (model := self._session.checked.model(name)) is not None:
            return Model(self, model)
        if name not in self._session.checked.signatures:
            raise KeyError(f"{self!r} declares no {name!r}{hint(name, self) if isinstance(name, str) else ''}")
        callee = self._session.callee(name)
        if not callee.is_function:
            return self._session.call(callee, ())
        return self._functions.setdefault(name, Function(self._session, callee))

    def __reduce__(self) -> tuple[Any, ...]:
        make, source = _made_by(self._session.checked)
        return _module, (make, source, self._session.chip)

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.checked.signatures)

    def __dir__(self) -> list[str]:
        return list(dict.fromkeys(name.partition(".")[0] for name in self))

    def __repr__(self) -> str:
        return f"<axon module {self._path}>"

    def _repr_html_(self) -> str:
        from axon.host.html import signatures

        return signatures(self._session.checked.signatures, f"module {self._path}")


def _member(module: Module, name: str) -> Any:
    """A declaration, as torch.compile traces it."""
    known = _known_callee(module._session.token, name)
    return _value(module._session.token, name) if known is None else Function(module._session, known)


@constant
def _known_callee(token: str, name: str) -> Callee | None:
    """A function by name; None for a plain value. Raises KeyError."""
    session = session_of(token)
    if name not in session.checked.signatures:
        raise KeyError(f"the module declares no {name!r}{hint(name, session.checked.signatures)}")
    callee = session.callee(name)
    return callee if callee.is_function else None


@constant
def _value(token: str, name: str) -> Any:
    session = session_of(token)
    return session.call(session.callee(name), ())


class Function(_Shared):
    """A declaration that is called with NumPy arrays, numbers, tuples, dicts and dataclasses, by position or by name.

    `f[8, 4](x)` gives dimension parameters. A call raises ShapeError where a size or a rank breaks the contract, and AxonError
    for other arguments that do not fit. `target` is where it runs: "cpu", compiled; "cuda", on one GPU; "simulate", its GPU
    kernels on the CPU; "interpret", the reference evaluator. By default it runs where the arguments are, on the CPU interpreted
    while that is cheaper than compiling. `out` is an array (or a structure of them, like the result's) to write into. Where the
    function has parameters of these names, `out=` is the parameter, and so is a `target=` that is not a text.

    `sizes` is the signature as algebra, `solve` finds sizes that give a result, `cost` counts what a call does (docs/sizes.md).

    Functions are equal that are one declaration of one module at the same sizes. Pickled, a function is its module and its name.
    """

    __slots__ = ("__weakref__", "_callee", "_last", "_of", "_quick", "_session", "_sizes")

    def __init__(self, session: Session, callee: Callee, sizes: tuple[int, ...] = ()) -> None:
        self._session = session
        self._callee = callee
        self._sizes = sizes
        self._of: tuple[Function, str, str | Sequence[str] | None] | None = None  # a derivative: of what, and by what
        self._last: LastCall | None = None
        self._quick: Quick | None = None  # calls of arguments that were seen before, on a GPU
        if not libraries.compiling():
            hide_from_torch()

    @property
    def signature(self) -> str:
        """What `axon sig` prints."""
        return self._callee.signature

    @property
    def __name__(self) -> str:
        return self._callee.name

    @property
    def __signature__(self) -> Signature:
        """For `inspect.signature`: parameters, with Axon's types for annotations."""
        return signature(self._session, self._callee)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._of is not None:
            of, operator, wrt = self._of
            return _derivative, (of, operator, wrt, () if of._sizes else self._sizes)
        return _function, (*_made_by(self._session.checked), self._callee.name, self._sizes, self._session.chip)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self._identity == other._identity

    def __hash__(self) -> int:
        try:
            return hash(self._identity)
        except AttributeError:  # an object that torch.compile has made and not filled, of which PyTorch 2.11 asks this
            raise TypeError("unhashable: a function that is not made yet") from None

    @property
    def _identity(self) -> tuple[Session, str, tuple[int, ...]]:
        return self._session, self._callee.name, self._sizes

    def __getitem__(self, sizes: Any) -> Function:
        """The function with its dimension parameters given."""
        given = sizes if isinstance(sizes, tuple) else (sizes,)
        if libraries.compiling():
            return Function(self._session, self._callee, given)
        try:
            return self._at(given)
        except AxonError as error:
            raise shortened(error) from error.__cause__

    @untraced
    def _at(self, sizes: tuple[Any, ...]) -> Function:
        if self._sizes:
            raise wrong(self._callee, "AX0505", f"`{self._callee.name}` has its dimension parameters already")
        given = check_sizes(self._callee, sizes, symbolic=True)
        made = Function(self._session, self._callee, tuple(given))
        made._of = self._of
        return made

    def __call__(self, /, *args: Any, target: Any = None, out: Any = None, **kwargs: Any) -> Any:
        if libraries.compiling():
            from axon.host.pytorch.traced import traced

            return traced(self, args, kwargs, target, out)
        if target is not None and not isinstance(target, str) and any(p.name == "target" for p in self._callee.parameters):
            target, kwargs["target"] = None, target  # a text is no argument of any function
        if out is None and (target is None or isinstance(target, str)):
            last = self._last
            if last is not None and not kwargs and target == last.target and last.alike(*args):
                result = replayed(last.call, args)
            else:
                result, last = self._session.ready(self._callee, self._sizes, args, kwargs, target)
                self._last = last or self._last
            if result is not NOT_READY:
                return result
        quick = self._quick
        if quick is not None and (target is None or target == "cuda") and not libraries.modes() and not libraries.tracing():
            try:
                result = quick(args, kwargs, out)
            except AxonError as error:
                raise named(self._callee, error) from None
            if result is not quick:  # which stands for arguments that were not seen before
                return result
        try:
            return self._unseen(args, kwargs, target, out)
        except AxonError as error:
            raise shortened(error) from error.__cause__

    def _unseen(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, out: Any) -> Any:
        if out is not None and any(p.name == "out" for p in self._callee.parameters):
            kwargs["out"], out = out, None  # the function's own parameter of that name
        given = (*args, *kwargs.values())
        plain = tuple(map(opened, given))
        args, kwargs = plain[: len(args)], dict(zip(kwargs, plain[len(args) :], strict=True))
        if watched(plain):
            from axon.host.pytorch.traced import traced

            return traced(self, args, kwargs, target, out)
        if autocast(plain):
            from axon.host.pytorch.autocast import widened

            plain = args = tuple(widened(self._callee, arguments(self._callee, args, kwargs)))
            kwargs, given = {}, (None,) * len(args)
        if out is None and differentiated(plain):
            return self._recorded(args, kwargs, target)
        if out is None and target is None and transformed(plain):
            return self._traced(args, kwargs)
        if any(map(is_not, plain, given)):  # as dicts these may have been seen
            return self._seen_or_run(args, kwargs, target, out)
        return self._run(args, kwargs, target, out)

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any], target: Any, out: Any) -> Any:
        result = self._session.call(self._callee, self._sizes, args, kwargs, target, out=out)
        self._quick = self._session.quick(self._callee, self._sizes)
        return result

    def _recorded(self, args: Sequence[Any], kwargs: Mapping[str, Any], target: str | None) -> Any:
        """The result of a call through which PyTorch passes derivatives."""
        from axon.host.autograd import recorded

        check_target(self._callee, target)
        sizes, given = check_sizes(self._callee, self._sizes), arguments(self._callee, args, kwargs)
        return recorded(self._session, self._callee, sizes, given, self._unrecorded, self._beside, target)

    def _traced(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call inside one of JAX's transformations."""
        from axon.host.traced import traced

        sizes, given = check_sizes(self._callee, self._sizes), arguments(self._callee, args, kwargs)
        return traced(self._session, self._callee, sizes, given)

    def _unrecorded(self, args: tuple[Any, ...], target: str | None) -> Any:
        return self._seen_or_run(args, {}, target, None)

    def _seen_or_run(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: str | None, out: Any) -> Any:
        result = self._session.seen_or_called(self._callee, self._sizes, args, kwargs, target, out)
        self._quick = self._session.quick(self._callee, self._sizes)
        return result

    def _beside(self, session: Session, callee: Callee) -> Function:
        return Function(session, callee, self._sizes)

    @property
    @untraced
    @brief
    def sizes(self) -> Sizes | Unranked:
        """The sizes of the signature as SymPy has them: `symbols` by name, `contract` as relations, shapes of `arguments` and
        `results` by path. `f.sizes["b"]` is a size by name, `f.sizes["x", 0]` by place; `f.sizes(ranks={"s": 2})` is for
        shape variables.
        """
        from axon.host.sizes import sizes_of

        return sizes_of(self._session, self._callee)

    @untraced
    @brief
    def solve(
        self, given: Mapping[Any, int] | None = None, /, *, out: Any = None, ranks: Mapping[str, int] | None = None, **shapes: Any
    ) -> Solutions:
        """The sizes of arguments with which the result has the shape `out`: all of them, a family, none (and why), or unknown.

        `given` are sizes by name, `{"b": 8}`, or by place, `{("x", 0): 8}`; arguments may have shapes, `x=(None, 3)`, with None for
        what is open, and so has `out`. Of records and tuples they are dicts and tuples of shapes. Raises AxonError for what does
        not fit the signature.
        """
        from axon.host.solve import solve

        return solve(self._session, self._callee, self._sizes, given, out, ranks, shapes)

    @untraced
    @brief
    def cost(
        self,
        given: Mapping[Any, int] | None = None,
        /,
        *,
        target: str = "cpu",
        elements: Mapping[str, str] | None = None,
        ranks: Mapping[str, int] | None = None,
        **shapes: Any,
    ) -> Cost:
        """Floating-point operations, bytes moved and memory of a call, as SymPy expressions of the sizes that are not given.

        What is given is as in `solve`; `elements` are element types of arguments, `{"x": "bf16"}`. They are counted from the plan
        that runs on the target, "cpu" or "cuda" (which needs no GPU), as `axon explain` counts. Raises AxonError for what does not
        fit the signature, ShapeError where no call has these sizes.
        """
        from axon.host.cost import cost

        return cost(self._session, self._callee, self._sizes, given, target, elements, ranks, shapes)

    @untraced
    @brief
    def grad(self, wrt: str | Sequence[str] | None = None) -> Function:
        """The function that gives the derivative of this one's result, a number, by a parameter: by `wrt`, by the first if that is
        not given, or a tuple of them by several. It takes the same arguments, and its result has the structure of the parameter.

        Raises AxonError where there is no derivative.
        """
        return self._derived("grad", wrt)

    @untraced
    @brief
    def value_and_grad(self, wrt: str | Sequence[str] | None = None) -> Function:
        """The same with the value: the function that gives the pair (value, derivative)."""
        return self._derived("value_and_grad", wrt)

    def _derived(self, operator: str, wrt: str | Sequence[str] | None) -> Function:
        from axon.host.gradients import derived

        session, callee = derived(self._session, self._callee, operator, wrt)
        made = self._beside(session, callee)
        made._of = self, operator, wrt
        return made

    @property
    def variants(self) -> Variants:
        """The GPU kernels made so far, and how many there can be; printed, a table."""
        return self._session.variants(self._callee)

    @untraced
    @brief
    def warmup(self, /, *args: Any, **kwargs: Any) -> Variants:
        """Make the GPU kernels for arguments like these, and map them for exactly these sizes. Runs nothing, and needs no GPU.

        An argument is an array, or the text of a type with sizes, such as "bf16[4096, 4096]".
        """
        self._session.warmup(self._callee, self._sizes, args, kwargs)
        return self.variants

    def __repr__(self) -> str:
        sizes = f" at {{{', '.join(map(str, self._sizes))}}}" if self._sizes else ""
        return f"<axon function{sizes} {self.signature.removeprefix('sig ')}>"

    def _repr_html_(self) -> str:
        from axon.host.html import signatures

        return signatures({self._callee.name: self.signature.removeprefix(f"sig {self._callee.name} : ")})


def _of_module(module: Module) -> str:
    session = module._session
    head = "\n".join(session.callee(name).signature for name in session.checked.signatures)
    said = documentation(session, "", "")
    return "\n\n".join(part for part in (said.strip(), head) if part)


def _of_function(function: Function) -> str:
    origin = function._session.origin  # of a derivative, whose text Axon has written
    return function.signature if origin else documentation(function._session, function.__name__, function.signature)


Module.__doc__ = Documented(Module.__doc__, _of_module)  # type: ignore[assignment]
Function.__doc__ = Documented(Function.__doc__, _of_function)  # type: ignore[assignment]
