"""Calling declarations: arguments are matched, a specialization is found or made, its contract is checked, and it runs.

What the Python API and `axon run` share. A Session is safe to use from several threads.
"""

from __future__ import annotations

import operator
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from axon import compiler
from axon.backend import libraries
from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion, counted
from axon.base.errors import AxonError, ShapeError
from axon.base.identity import IdentityMap
from axon.base.nearest import meant
from axon.base.source import SourceFile, Span
from axon.checker.loader import FileLoader, schedule_beside
from axon.host.seen import NOT_READY, KnownCall, LastCall, ReadyCall, SeenCalls

if TYPE_CHECKING:
    from axon.backend.cpu.host import Host
    from axon.backend.gpu.layout.target import Target
    from axon.backend.gpu.runtime.arrays import Quick
    from axon.backend.gpu.runtime.steps import Ordered
    from axon.backend.gpu.runtime.variants import Variants
    from axon.backend.gpu.tile.schedule_file import Schedule
    from axon.backend.libraries import Library
    from axon.base.names import Symbol
    from axon.checker.module import CheckedModule
    from axon.core import ir as core
    from axon.host.recorded import Form
    from axon.host.traced import Traced
    from axon.host.values import Wanted
    from axon.types.type import Scheme, Type

TARGETS = ("cpu", "cuda", "simulate", "interpret")
MAX_SIZE = 2**31 - 1
SCHEDULE = "AX0605"  # names its function itself


@dataclass(frozen=True, slots=True)
class Callee:
    """A declaration as a caller sees it. Without parameters and dimension parameters it is a plain value."""

    name: str
    scheme: Scheme
    parameters: tuple[Wanted, ...]
    span: Span | None
    signature: str

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(symbol.name for symbol in self.scheme.explicit)

    @property
    def is_function(self) -> bool:
        return bool(self.parameters or self.scheme.explicit)


@dataclass(frozen=True, slots=True)
class Origin:
    """Of a module that Axon has written a function into: whose it is, in which `words`, and where what the user wrote ends."""

    callee: Callee
    words: str
    path: str
    end: int

    def told(self, found: Diagnostic, written: str) -> Diagnostic:
        """An error told of the function that the user named, and of places in what they wrote."""
        message = found.message.removesuffix(f", in a call of `{written}`").removesuffix(self.words) + self.words
        labels = tuple(label for label in found.labels if label.span.file.path != self.path or label.span.start < self.end)
        notes = tuple(n for n in found.notes if not n.startswith("sig "))
        if not labels or labels[0] != found.labels[0]:
            help = tuple(s for s in found.suggestions if not s.edits and not s.annotates)
            return wrong(self.callee, found.code, message, *notes, help=help).diagnostics[0]
        return replace(found, message=message, labels=labels, notes=(*notes, self.callee.signature))


class Session:
    """The callable declarations of a module and the specializations made so far, one per choice of element types and ranks."""

    def __init__(self, checked: CheckedModule, origin: Origin | None = None, chip: str | None = None) -> None:
        """`chip` is the one for which GPU kernels are made; None for that of the GPU."""
        self.checked = checked
        self.chip = chip
        self.origin = origin
        self._lock = Lock()  # held while a specialization is made, so that it is made once
        self._programs: dict[tuple[Any, ...], core.Program] = {}
        self._executables: IdentityMap[core.Program, dict[Target, Ordered]] = IdentityMap()
        self._quick: dict[tuple[Any, ...], Quick] = {}
        self._hosts: IdentityMap[core.Program, Host] = IdentityMap()
        self._callees: dict[str, Callee] = {}
        self._seen = SeenCalls()
        self.derived: dict[tuple[Any, ...], tuple[Session, Callee]] = {}  # see `gradients`
        self.inferred: dict[tuple[Any, ...], Any] = {}  # see `inference.program`
        self.forms: dict[tuple[Any, ...], Form] = {}  # see `recorded`
        self.traced: dict[tuple[Any, ...], Traced] = {}  # see `traced`
        self.operators: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # see `pytorch.operators`
        self.names: dict[str, str] = {}  # that were given to operators
        self.token = f"session {next(_counter)}"  # what stands for it where a text is all that can: see `session_of`
        _sessions[self.token] = self
        self._schedule_file = _read_schedule(checked.source.path)
        self._schedules: dict[str, Schedule] | None = None

    def callee(self, name: str) -> Callee:
        """A declaration by name. Raises KeyError."""
        if name not in self._callees:
            self._callees[name] = _callee(self.checked, name)
        return self._callees[name]

    def call(
        self,
        callee: Callee,
        sizes: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        target: str | None = None,
        *,
        numbers: bool = True,
        out: Any = None,
    ) -> Any:
        """The result as a Python value; scalars as Python numbers, or with `numbers=False` as arrays of rank 0.

        Without a target it is computed where the arguments are: on the GPU if arrays of a GPU library lie there. With `out`, the
        result is written there.
        """
        from axon.host import output_buffers, values
        from axon.host.given import numbered, read

        check_target(callee, target)
        explicit = check_sizes(callee, sizes)
        known_ways = out is None and target in (None, "cpu")
        like = read(callee.name, explicit, args, kwargs or {}) if known_ways else None
        if like is not None and (found := self._seen.find(like)) is not None:
            known, inputs = found
            results = self._results(callee, known.program, inputs, explicit, target)
            self._seen.make_ready(target, like, partial(self._ready, known, inputs, explicit, target))
            return values.assemble(known.program.result, list(map(values.number if numbers else values.array, results)))
        if out is not None and any(p.name == "out" for p in callee.parameters):
            kwargs, out = {**(kwargs or {}), "out": out}, None  # the function's own parameter of that name
        given = self._unpacked(callee, explicit, arguments(callee, args, kwargs or {}))
        if out is not None:  # through which no derivative passes
            for path, value in (*zip((p.name for p in callee.parameters), given, strict=True), ("out", out)):
                _check_readable(callee, path, value)
        if target == "cuda" or (target is None and _lies_on_gpu(callee, given)):
            return self._launch(callee, explicit, given, out, numbers)
        library = next((library for value in (*given, out) for library, _ in libraries.arrays(value)), None)
        original = given
        if library is not None:
            given = [on_host(callee, p.name, value) for p, value in zip(callee.parameters, given, strict=True)]
            args, kwargs = given, {}
            if known_ways:
                like = read(callee.name, explicit, args, kwargs)
                if (found := self._seen.find(like)) is not None:
                    known, inputs = found
                    results = self._results(callee, known.program, inputs, explicit, target)
                    return values.assemble(known.program.result, [given_back(callee, library, values.array(r)) for r in results])
        program, inputs, bound = self.bound(callee, explicit, given, original)
        if like is not None:
            places, first = numbered(args)
            by_name = dict(zip(kwargs or {}, numbered((kwargs or {}).values(), first)[0], strict=True))
            self._seen.learn(like, program, arguments(callee, places, by_name), inputs)
        own = output_buffers.matched(callee.name, program.result, out)
        buffers = None if own is None else [(path, on_host(callee, path, x)) for path, x in own]
        if own is not None and buffers is not None:
            output_buffers.check(callee.name, buffers, own)
            output_buffers.fits(callee.name, buffers, own, compiler.result_types(program, bound))
        results = self._results(callee, program, inputs, explicit, target)
        if own is not None and buffers is not None:
            output_buffers.fill(callee.name, buffers, own, results)
            return out
        if library is not None:
            return values.assemble(program.result, [given_back(callee, library, values.array(r)) for r in results])
        return values.assemble(program.result, list(map(values.number if numbers else values.array, results)))

    def ready(
        self, callee: Callee, sizes: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any], target: str | None
    ) -> tuple[Any, LastCall | None]:
        """What `call` gives on this machine's processor, of a call that is ready, and what another one like it is known by; else
        NOT_READY."""
        found = self._seen.ready(callee.name, target, sizes, args, kwargs)
        if found is None:
            return NOT_READY, None
        call, inputs = found
        return replayed(call, inputs), None if kwargs else self._seen.last(target, args, call)

    def _ready(self, known: KnownCall, inputs: list[Any], explicit: list[int], target: str | None) -> ReadyCall | None:
        """A call like one that has run, made ready."""
        from axon.core.ir import Leaf
        from axon.host import values

        replay = compiler.replay(self._hosts[known.program], inputs, explicit, compiled=target == "cpu")
        result = known.program.result

        if isinstance(result, Leaf):
            position, number = result.position, values.number

            def finish(results: list[Any]) -> Any:
                return number(results[position])
        else:

            def finish(results: list[Any]) -> Any:
                return values.assemble(result, list(map(values.number, results)))

        return None if replay is None else ReadyCall(replay, known, finish, compiler.alike)

    def seen_or_called(
        self,
        callee: Callee,
        sizes: Sequence[Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        target: str | None,
        out: Any = None,
    ) -> Any:
        """The same; by what is kept of calls on a GPU, if one like this was seen before."""
        quick = self.quick(callee, sizes)
        if quick is not None and (target is None or target == "cuda"):
            try:
                result = quick(tuple(args), dict(kwargs), out)
            except AxonError as error:
                raise named(callee, error) from None
            if result is not quick:  # which stands for arguments that were not seen before
                return result
        return self.call(callee, sizes, args, kwargs, target, out=out)

    def _unpacked(self, callee: Callee, explicit: list[int], given: list[Any]) -> list[Any]:
        """The arguments with open .npz files read, once, and only if what their headers say fits."""
        from axon.host.command_arguments import is_packed, unpacked

        if not any(map(is_packed, given)):
            return given
        try:
            looked = [unpacked(value, whole=False) for value in given]
            self.bound(callee, explicit, [on_host(callee, p.name, x) for p, x in zip(callee.parameters, looked, strict=True)])
            return [unpacked(value, whole=True) for value in given]
        except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise wrong(callee, "AX0505", f"an argument of `{callee.name}` cannot be read from its file: {error}") from None

    def _results(
        self, callee: Callee, program: core.Program, inputs: list[Any], explicit: list[int], target: str | None
    ) -> list[Any]:
        """What `_compute` gives; its errors say of which call they are."""
        with _in_call(callee):
            return self._compute(callee, program, inputs, explicit, target)

    def _compute(
        self, callee: Callee, program: core.Program, inputs: list[Any], explicit: list[int], target: str | None
    ) -> list[Any]:
        """The flat results on this machine's processor."""
        match target:
            case "simulate":
                return compiler.simulate(program, inputs, explicit, self.schedule(callee), self.chip)
            case "interpret":
                return compiler.interpret(program, inputs, explicit)
            case _:
                return compiler.run(self._hosts[program], inputs, explicit, compiled=target == "cpu")

    def program(self, callee: Callee, args: Sequence[Any], kwargs: Mapping[str, Any]) -> core.Program:
        """The specialization for these arguments."""
        return self.specialize(callee, arguments(callee, args, kwargs))[1]

    def example(self, callee: Callee, sizes: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[core.Program, dict[Symbol, int]]:
        """The specialization for these arguments, and the value of every dimension in it. Raises what a call raises for sizes."""
        program, _, bound = self.bound(callee, check_sizes(callee, sizes), arguments(callee, (), kwargs))
        return program, bound

    def _launch(self, callee: Callee, explicit: list[int], given: list[Any], out: Any, numbers: bool) -> Any:
        """The result on a GPU, which may still be computed when this returns; of NumPy arrays, computed and copied back."""
        from axon.host import output_buffers, values

        program, matched, bound = self.bound(callee, explicit, list(map(values.stand_in, given)), given)
        flat = values.flatten(program.params, given)
        raw = [flat[i] for i in range(len(flat))]
        buffers = output_buffers.matched(callee.name, program.result, out)
        output_buffers.check(callee.name, buffers or [], buffers or [])
        with _in_call(callee):
            target = compiler.chip(self.chip, compiler.place_of(raw))
            call = compiler.prepare(self._executable(callee, program, target), raw, matched, bound, buffers)
            results = compiler.launch(call, [value for _, value in raw], buffers)
        if out is None and not any(map(libraries.on_gpu, given)):
            return values.assemble(program.result, list(map(values.number if numbers else values.array, results)))
        made = out if out is not None else values.assemble(program.result, results)
        with self._lock:
            key = (callee.name, *explicit)
            if key not in self._quick:
                self._quick[key] = compiler.quick([p.name for p in callee.parameters])
            self._quick[key].learn(given, out, call, program.params, program.result)
        return made

    def quick(self, callee: Callee, sizes: Sequence[int]) -> Quick | None:
        """The calls of a function that were seen before, on a GPU."""
        return self._quick.get((callee.name, *sizes))

    def variants(self, callee: Callee) -> Variants:
        """The GPU kernels that were made for a function."""
        found = (self._executables.get(p) for key, p in self._programs.items() if key[0] == callee.name)
        return compiler.variants(made for of_chips in found if of_chips for made in of_chips.values())

    def warmup(self, callee: Callee, sizes: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Make the GPU kernels for arguments like these."""
        from axon.host import values
        from axon.host.command_arguments import described

        original = arguments(callee, args, kwargs)
        given = [values.stand_in(described(value)) for value in original]
        program, _, bound = self.bound(callee, check_sizes(callee, sizes), given, original)
        with _in_call(callee):
            compiler.warm(self._executable(callee, program, compiler.chip(self.chip)), bound)

    def schedule(self, callee: Callee) -> Schedule | None:
        """What a schedule file beside the module fixes of a function's mappings. Raises what is wrong with the file."""
        return self.schedules().get(callee.name)

    def schedules(self) -> dict[str, Schedule]:
        """What the schedule file fixes, by function; nothing if there is no file."""
        if self._schedules is None:
            if isinstance(self._schedule_file, Diagnostic):
                raise AxonError((self._schedule_file,))
            functions = [name for name in self.checked.signatures if self.callee(name).is_function]
            file = self._schedule_file
            self._schedules = compiler.schedules(file, self.checked, functions) if file else {}
        return self._schedules

    def _executable(self, callee: Callee, program: core.Program, target: Target) -> Ordered:
        schedule = self.schedule(callee)
        with self._lock:
            if program not in self._executables:  # specializations live as long as the session
                self._executables[program] = {}
            made = self._executables[program]
            if target not in made:
                made[target] = compiler.executable(program, target, schedule)
            return made[target]

    def bound(
        self, callee: Callee, explicit: list[int], given: list[Any], original: Sequence[Any] | None = None
    ) -> tuple[core.Program, list[Any], dict[Symbol, int]]:
        """The specialization for these arguments, its inputs, and its dimensions: the contract holds.

        Errors speak of `original`, the arguments as the caller has them.
        """
        from axon.host import values

        matched, program = self.specialize(callee, given, original)
        flat = values.flatten(program.params, matched)
        inputs = [flat[i][1] for i in range(len(program.inputs))]
        return program, inputs, self.bind(callee, program, explicit, [array.shape for array in inputs])

    def bind(
        self, callee: Callee, program: core.Program, explicit: Sequence[int], shapes: Sequence[Sequence[int]]
    ) -> dict[Symbol, int]:
        """All dimensions of a call with inputs of these shapes. Raises ShapeError where the contract is broken."""
        from axon.shapes.contracts.contract import ContractBroken

        try:
            return program.contract.bind(explicit, shapes)
        except ContractBroken as broken:
            from axon.explain.broken_call import contract_error, spans
            from axon.types.show import dimension_names

            where = spans((p.name, p.span) for p in callee.parameters)
            names = dimension_names(self.checked.state, callee.scheme)
            raise contract_error(callee.name, broken, program.contract, explicit, shapes, where, callee.signature, names) from None

    def told(self, error: AxonError, written: str) -> AxonError:
        """What is wrong with a function that Axon has written, or a call of it, told of the one that it is made of."""
        if self.origin is None:
            return error
        return type(error)(tuple(self.origin.told(d, written) for d in error.diagnostics))

    def specialize(self, callee: Callee, given: list[Any], original: Sequence[Any] | None = None) -> tuple[list[Any], core.Program]:
        from axon.host import values

        matched = values.Matcher(callee.name, callee.scheme).match(list(callee.parameters), given, original)
        key = (callee.name, *map(values.form, matched))
        with self._lock:
            if key not in self._programs:
                types = partial(tuple, map(values.argument_type, matched))
                try:
                    host = compiler.specialized(self.checked, callee.name, key[1:], types)
                except AxonError as error:
                    raise self.told(error, callee.name) from None
                self._programs[key] = host.program  # specializations live as long as the session
                self._hosts[host.program] = host
            return matched, self._programs[key]


def session_of(token: str) -> Session:
    """The session that a text stands for. torch.compile takes texts for constants in every version, and guards them by equality."""
    return _sessions[token]


_counter = count()
_sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()


def _read_schedule(path: str) -> SourceFile | Diagnostic | None:
    file = schedule_beside(path)
    return FileLoader().read(file) if file else None


def _callee(checked: CheckedModule, name: str) -> Callee:
    from axon.host.values import Wanted
    from axon.types import typed
    from axon.types.resolve import ValueName
    from axon.types.type import Function

    scheme, decl = checked.schemes[name], checked.declarations[name]
    patterns: tuple[typed.Pattern, ...] = ()
    if isinstance(decl, typed.Fun):
        patterns = decl.params
    elif isinstance(decl, typed.Val) and isinstance(decl.value, typed.Fn):
        patterns = decl.value.params
    parameters: list[Wanted] = []
    type = scheme.type
    while isinstance(type, Function):
        pattern = patterns[len(parameters)] if len(parameters) < len(patterns) else None
        named = pattern.symbol.name if isinstance(pattern, typed.PatternName) else "_"
        own = named if named != "_" else f"argument {len(parameters) + 1}"
        parameters.append(Wanted(own, type.param, pattern.span if pattern else None))
        type = type.result
    entity = checked.exports.values.get(name) if checked.exports else None
    span = entity.span if isinstance(entity, ValueName) else None
    return Callee(name, scheme, tuple(parameters), span, f"sig {name} : {checked.signatures[name]}")


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def arguments(callee: Callee, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """One value for each parameter, in order."""
    names = [p.name for p in callee.parameters]
    if len(args) > len(names):
        raise wrong(callee, "AX0505", f"`{callee.name}` takes {counted(len(names), 'argument')}, not {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            help = meant(name, names)
            raise wrong(callee, "AX0505", f"`{callee.name}` has no parameter `{name}`", f"it has {_listed(names)}", help=help)
        if name in given:
            raise wrong(callee, "AX0505", f"`{name}` is given twice in a call of `{callee.name}`")
        given[name] = value
    given = {p.name: () for p in callee.parameters if is_unit(p.type)} | given
    missing = [p for p in callee.parameters if p.name not in given]
    if missing:
        notes = ["from Python a function takes all of its arguments at once"] if given else []
        lacks = f"`{callee.name}` lacks {_listed([p.name for p in missing])}"
        raise wrong(callee, "AX0505", lacks, *notes, span=missing[0].span)
    return [opened(given[name]) for name in names]


def opened(value: Any) -> Any:
    """An argument with its dataclasses as dicts, itself if it holds none."""
    if hasattr(type(value), "__dataclass_fields__"):  # so Python's module, which takes long to import, is there
        return {f.name: opened(getattr(value, f.name)) for f in sys.modules["dataclasses"].fields(value)}
    if isinstance(value, tuple):
        items = tuple(map(opened, value))
        return value if all(map(operator.is_, items, value)) else items
    if isinstance(value, dict):
        made = {name: opened(item) for name, item in value.items()}
        return value if all(map(operator.is_, made.values(), value.values())) else made
    return value


def is_unit(type: Type) -> bool:
    """The type of `()`, of which there is one value, so that a caller may leave it out."""
    return getattr(type, "items", None) == ()


def check_sizes(callee: Callee, sizes: Sequence[Any], *, symbolic: bool = False) -> list[int]:
    """The dimension parameters as integers; those that PyTorch traces may stay as they are."""
    names = callee.dimensions
    if len(sizes) != len(names):
        if not names:
            raise wrong(callee, "AX0505", f"`{callee.name}` takes no dimension parameters")
        how = f"{callee.name}[{', '.join(names)}](…)"
        takes = counted(len(names), "dimension parameter")
        raise wrong(callee, "AX0505", f"`{callee.name}` takes {takes}, not {len(sizes)}: {how}")
    out = []
    for name, value in zip(names, sizes, strict=True):
        if symbolic and libraries.is_symbol(value):
            out.append(value)
            continue
        try:
            size = operator.index(value)
        except TypeError:
            size = -1
        if isinstance(value, bool) or not 0 <= size <= MAX_SIZE:
            must = f"it must be an integer from 0 to {MAX_SIZE:,}"
            whole = _is_whole(value) and 0 <= value <= MAX_SIZE
            places = ", ".join(f"int({n})" if n == name else n for n in names)
            help = (Suggestion(f"write `{callee.name}[{places}](…)`"),) if whole else ()
            message = f"the dimension parameter `{name}` of `{callee.name}` is {_short(value)}"
            raise wrong(callee, "AX0505", message, must, help=help)
        out.append(size)
    return out


def _is_whole(value: Any) -> bool:
    """Whether a float, of Python or NumPy, has no fraction. (SymPy's `is_integer` is a property.)"""
    says = getattr(value, "is_integer", None)
    return callable(says) and bool(says())


def check_target(callee: Callee, target: Any) -> None:
    """Raises AxonError for a target that does not exist."""
    if target is None or (isinstance(target, str) and target in TARGETS):
        return
    help = meant(str(target), TARGETS)
    raise wrong(callee, "AX0601", f"there is no target {_short(target)}", f"the targets are {_listed(TARGETS)}", help=help)


def replayed(call: ReadyCall, inputs: Sequence[Any]) -> Any:
    """What a call gives that is ready; NOT_READY where it stops."""
    results = compiler.replayed(call.replay, inputs)
    return NOT_READY if results is None else call.finish(results)


def wrong(
    callee: Callee, code: str, message: str, *notes: str, help: tuple[Suggestion, ...] = (), span: Span | None = None
) -> AxonError:
    """An error of a call, with the declaration and its signature."""
    place = span or callee.span
    labels = (Label(place, "not given" if span else ""),) if place else ()
    return AxonError((Diagnostic(code, message, labels, (*notes, callee.signature), help),))


def _lies_on_gpu(callee: Callee, given: Sequence[Any]) -> bool:
    for parameter, value in zip(callee.parameters, given, strict=True):
        try:
            if libraries.on_gpu(value):
                return True
        except TypeError as error:
            raise wrong(callee, "AX0505", f"`{parameter.name}` holds {error}") from None
    return False


def _check_readable(callee: Callee, path: str, value: Any) -> None:
    try:
        libraries.check_readable(value, path)
    except TypeError as error:
        raise wrong(callee, "AX0505", f"`{path}` holds {error}") from None


def on_host(callee: Callee, path: str, value: Any) -> Any:
    """An argument whose arrays, of whatever library, are NumPy's."""
    try:
        return libraries.hosted(value)
    except TypeError as error:
        raise wrong(callee, "AX0505", f"`{path}` holds {error}") from None


def given_back(callee: Callee, library: Library, array: Any) -> Any:
    """A result as the library's array that the arguments are of."""
    try:
        return library.from_host(array)
    except TypeError as error:
        raise wrong(callee, "AX0505", f"the result of `{callee.name}` cannot be given: {error}") from None


@contextmanager
def _in_call(callee: Callee) -> Iterator[None]:
    try:
        yield
    except AxonError as error:
        raise named(callee, error) from None


def named(callee: Callee, error: AxonError) -> AxonError:
    """An error of data (an index, integer arithmetic, a coercion) or of a backend that says which call it is of."""
    labels = (Label(callee.span),) if callee.span else ()
    found = []
    for d in error.diagnostics:
        if d.code != SCHEDULE and not d.message.endswith(f"call of `{callee.name}`"):  # an earlier one
            d = replace(d, message=f"{d.message}, in a call of `{callee.name}`")
        found.append(d if d.code == SCHEDULE else replace(d, labels=d.labels or labels))
    return (ShapeError if isinstance(error, ShapeError) else AxonError)(tuple(found))


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return ", ".join(quoted[:-1]) + " and " + quoted[-1] if len(quoted) > 1 else "".join(quoted) or "none"


def _short(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 200:
        return "an integer of more than 200 bits"
    text = f"`{value}`" if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"
