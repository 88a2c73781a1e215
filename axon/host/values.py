"""Python values at the border: what a caller passes is matched with a declaration's type, and results are handed back.

A Python value mirrors a type: NumPy arrays are tensors, numbers are scalars, tuples are tuples, dicts with string keys are records.
An array's element type is never converted. A Python number (or a list of numbers) has no element type of its own, and takes the
one that the signature wants, else that of other arguments that share its type variable, else `f32` or `i32`, as a literal would. An
empty list takes any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from axon.backend import libraries
from axon.base.data import dataclass, field
from axon.base.diagnostics import Diagnostic, Label, Suggestion, counted
from axon.base.element import FLOAT, INT, Element, of_dtype, usual
from axon.base.errors import AxonError, ShapeError
from axon.base.names import Symbol
from axon.base.nearest import meant
from axon.base.source import Span
from axon.core import ir as core
from axon.host.conversions import NUMPY_NAME, ArgumentPart, conversion, fixed
from axon.host.weak import outside, settled, weak_array, why_not
from axon.types import type as t

if TYPE_CHECKING:
    from axon.lower import ArgumentType

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A parameter: what the caller calls it, its type, and where it is declared."""

    name: str
    type: t.Type
    span: Span | None = None


@dataclass(slots=True)
class Matcher:
    """Matches one call's arguments with its parameters, which share element variables and shape variables."""

    function: str
    scheme: t.Scheme
    elements: dict[Symbol, tuple[Element, str]] = field(default_factory=dict)  # and the argument that decided it
    rows: dict[Symbol, tuple[int, str]] = field(default_factory=dict)  # ranks
    given: dict[str, Any] = field(default_factory=dict)  # the arguments as the caller has them, by parameter
    values: dict[str, Any] = field(default_factory=dict)  # the same, with arrays of other libraries as NumPy's
    parameters: dict[str, Wanted] = field(default_factory=dict)
    or_scalar: frozenset[str] = frozenset()  # the parameters for which a scalar will do
    empties: bool = False  # whether there are empty lists, for whose element type other arguments are asked first

    def match(self, wanted: list[Wanted], values: list[Any], given: Sequence[Any] | None = None) -> list[Any]:
        """The arguments with every tensor as an array; raises AxonError at the first that does not fit.

        `given` are the arguments before arrays of other libraries became NumPy's: errors speak of those.
        """
        self.parameters = {parameter.name: parameter for parameter in wanted}
        self.given = {parameter.name: value for parameter, value in zip(wanted, given or values, strict=True)}
        self.values = {parameter.name: value for parameter, value in zip(wanted, values, strict=True)}
        self.or_scalar = frozenset(wanted[n].name for n in self.scheme.or_scalar)
        for parameter, value in zip(wanted, values, strict=True):
            self._walk(parameter, parameter.name, parameter.type, value, self._array)
        if self.empties:
            for parameter, value in zip(wanted, values, strict=True):
                self._walk(parameter, parameter.name, parameter.type, value, self._settle_full)
        found = [
            self._walk(parameter, parameter.name, parameter.type, value, self._settle)
            for parameter, value in zip(wanted, values, strict=True)
        ]
        self._check_told(wanted, found)
        return found

    def _check_told(self, wanted: list[Wanted], found: list[Any]) -> None:
        """See that where scalars stand for tensors, something else says of which shape."""
        for group in self.scheme.scalars:
            first = wanted[group.parameters[0]]
            assert isinstance(first.type, t.Tensor)
            alone = len(first.type.shape) == 1 and isinstance(first.type.shape[0], t.Row)  # which may be of no dimensions
            if not group.told and not alone and not any(found[n].ndim for n in group.parameters):
                these = " or ".join(f"`{wanted[n].name}`" for n in group.parameters)
                note = "scalars alone do not say how large the tensor is that they stand for"
                raise self._wrong(first, "AX0506", f"one of {these} must be whole", note)

    def _walk(self, at: Wanted, path: str, type: t.Type, value: Any, leaf: Callable[..., Any]) -> Any:
        match type:
            case t.Tensor():
                return leaf(at, path, type, value)
            case t.TupleType(items=items):
                if not isinstance(value, tuple) or len(value) != len(items):
                    raise self._wrong(at, "AX0505", f"`{path}` must be a tuple of {len(items)}, not {describe(value)}")
                return tuple(
                    self._walk(at, f"{path}.{i}", item, v, leaf) for i, (item, v) in enumerate(zip(items, value, strict=True), 1)
                )
            case t.RecordType(fields=fields):
                self._check_fields(at, path, [name for name, _ in fields], value)
                return {name: self._walk(at, f"{path}.{name}", item, value[name], leaf) for name, item in fields}
            case t.Function():
                note = f"an Axon program gives it: a function that calls `{self.function}` with one"
                raise self._wrong(at, "AX0505", f"`{path}` is a function, and functions cannot come from Python", note)
            case t.Exists(body=body):
                return self._walk(at, path, body, value, leaf)
            case t.TypeVar() | t.Poison():
                return self._any(at, path, value, leaf)

    def _any(self, at: Wanted, path: str, value: Any, leaf: Callable[..., Any]) -> Any:
        """A value where the signature takes any type."""
        if isinstance(value, tuple):
            return tuple(self._any(at, f"{path}.{i}", v, leaf) for i, v in enumerate(value, 1))
        if isinstance(value, Mapping):
            self._check_fields(at, path, list(value), value)
            return {name: self._any(at, f"{path}.{name}", v, leaf) for name, v in value.items()}
        return leaf(at, path, None, value)

    def _check_fields(self, at: Wanted, path: str, names: list[str], value: Any) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            note = f"pass a dict with the keys {listed(names)}"
            raise self._wrong(at, "AX0505", f"`{path}` must be a record, not {describe(value)}", note)
        if missing := [name for name in names if name not in value]:
            raise self._wrong(at, "AX0505", f"`{path}` lacks the field `{missing[0]}`", f"the dict has {listed(value)}")
        if extra := [key for key in value if key not in names]:
            help = meant(extra[0], names)
            raise self._wrong(at, "AX0505", f"`{path}` has no field `{extra[0]}`", f"its fields are {listed(names)}", help=help)

    # ── tensors ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _array(self, at: Wanted, path: str, wanted: t.Tensor | None, value: Any) -> Any:
        """First walk: arrays, whose element types are given, decide those of the type variables."""
        element = wanted.element if wanted else None
        raw = strict_array(value)
        if raw is None:
            weak = weak_array(value)
            if weak is None and (library := libraries.of(value)) is not None and library.element(value) is None:
                raise self._lacking(at, path, value.dtype)
            if weak is None and isinstance(value, int):
                may = self._allowed(element.symbol) if isinstance(element, t.ElementVar) else FLOAT if not element else {element}
                way = f"float({_indexed(path)})" if FLOAT & may and abs(value) < 2**1023 else ""
                raise self._wrong(at, "AX0504", f"`{path}` is an integer of more than 64 bits", help=_pass(way))
            if weak is None:
                what, way = _no_array(value, _indexed(path), element)
                raise self._wrong(at, "AX0504", f"`{path}` must be an array or a number, not {what}", help=_pass(way))
            self._check_rank(at, path, wanted, weak.ndim)
            self.empties |= weak.size == 0
            return None
        if wanted and not wanted.shape:  # before its element type: what mends this mends both
            self._check_rank(at, path, wanted, raw.ndim)
        raw = viewed(raw, element)
        own = of_dtype(raw.dtype)
        if own is None:
            raise self._lacking(at, path, raw.dtype)
        if isinstance(element, Element) and own is not element:
            raise self._element(at, path, own, element.value, wanted)
        if isinstance(element, t.ElementVar):
            allowed = self._allowed(element.symbol)
            known, first = self.elements.setdefault(element.symbol, (own, path))
            if own not in allowed:
                raise self._element(at, path, own, one_of(allowed), wanted)
            if own is not known:
                other = self.parameters[first.split(".")[0]]
                if raw.ndim and _is_single(self._given(other, first, self.given)):  # what is alone gives way
                    at, path, own, known, first = other, first, known, own, path
                raise self._element(at, path, own, f"{known.value}, as `{first}` does", wanted)
        self._check_rank(at, path, wanted, raw.ndim)
        return None

    def _settle_full(self, at: Wanted, path: str, wanted: t.Tensor | None, value: Any) -> None:
        """Walk between the two, where there are empty lists: the numbers decide first."""
        weak = weak_array(value)
        if weak is not None and weak.size:
            self._settle(at, path, wanted, value)

    def _settle(self, at: Wanted, path: str, wanted: t.Tensor | None, value: Any) -> Array:
        """Second walk: the arrays, numbers with the element types that are known now."""
        element = wanted.element if wanted else None
        raw = strict_array(value)
        if raw is not None:
            return viewed(raw, element)
        weak = weak_array(value)
        assert weak is not None
        kind = _KINDS[weak.dtype.kind]
        if isinstance(element, t.ElementVar):
            allowed = self._allowed(element.symbol)
            default = kind if kind in allowed or kind is not Element.I32 else Element.F32
            if not weak.size:
                default = usual(allowed)
            if default not in allowed:
                raise self._not_converted(at, path, one_of(allowed), weak, wanted)
            symbol = element.symbol
            element = self.elements.setdefault(symbol, (default, path))[0]
            chosen = element is Element.I32 and self.elements[symbol][1] == path  # by nothing but these numbers
            if chosen and weak.dtype.kind in "iu" and symbol in self.scheme.divides and FLOAT & allowed:
                raise self._rounded_down(at, path, value)
        element = element or kind
        whole = element in INT or element in FLOAT
        fits = {"b": element is Element.BOOL, "i": whole, "u": whole, "f": element in FLOAT}[weak.dtype.kind]
        if weak.size and not fits:
            raise self._not_converted(at, path, element.value, weak, wanted)
        found = settled(weak, element.dtype)
        if found is None:
            number = outside(weak, element.dtype)
            whole = isinstance(number, int)
            wide = Element.F64 if not whole else Element.I64 if Element.I64.holds(number) else Element.U64
            raise self._outside(at, path, wanted, element, f"{number}", wide)
        return found

    def _allowed(self, symbol: Symbol) -> frozenset[Element]:
        return next((allowed for s, allowed in self.scheme.elements if s == symbol), frozenset(Element))

    def _check_rank(self, at: Wanted, path: str, wanted: t.Tensor | None, rank: int) -> None:
        if wanted is None:
            return
        if not rank and path in self.or_scalar:
            return
        rows = [item.symbol for item in wanted.shape if isinstance(item, t.Row)]
        fixed = len(wanted.shape) - len(rows)
        unknown = [row for row in rows if row not in self.rows]
        least = fixed + sum(self.rows[row][0] for row in rows if row not in unknown)
        if rank == least or (unknown and rank > least):
            if len(unknown) == 1:  # of more than one, lowering finds the split, or says why it cannot
                self.rows[unknown[0]] = (rank - least, path)
            return
        note = f"it has {counted(rank, 'dimension')}; it must have {'at least ' if unknown else ''}{least}"
        decided = [(row, *self.rows[row]) for row in rows if row not in unknown]
        because = [f"`..{row.name}` has {counted(n, 'dimension')} in `{by}`" for row, n, by in decided]
        help: tuple[Suggestion, ...] = ()
        if decided and len(wanted.shape) == 1 and path == at.name and decided[0][2] in self.parameters:
            help = self._broadcasting(wanted)
        elif least == 0 and not unknown and getattr(self._given(at, path, self.values), "size", 0) == 1:
            help = _pass(f"{_indexed(path)}.item()")
        raise self._wrong(at, "AX0506", f"`{path}` has the wrong rank", note, *because, help=help)

    # ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _broadcasting(self, wanted: t.Tensor) -> tuple[Suggestion, ...]:
        """The ranks of parameters that one shape variable makes alike, said in the source: where their sizes allow it."""
        alike = [p for p in self.parameters.values() if isinstance(p.type, t.Tensor) and p.type.shape == wanted.shape]
        shapes = [tuple(getattr(self.values[p.name], "shape", ())) for p in alike]
        last = [{shape[-n] for shape in shapes if len(shape) >= n} for n in range(1, 1 + max(map(len, shapes)))]
        if any(len(sizes) > 1 for sizes in last):
            return ()
        said = " ".join(f"({p.name} : {_annotation(wanted.element, len(shape))})" for p, shape in zip(alike, shapes, strict=True))
        places = tuple(p.span for p in alike if p.span is not None)
        return (Suggestion(f"if they are to broadcast, say so in the source: `{said}`", annotates=places),)

    def _lacking(self, at: Wanted, path: str, given: Any) -> AxonError:
        words = "Axon's element types are " + ", ".join(e.value for e in Element)
        if isinstance(given, np.dtype) and of_dtype(given.newbyteorder("=")) is not None:
            words = f'pass {_indexed(path)}.astype("{given.newbyteorder("=").name}"), which has the order of bytes of this machine'
        return self._wrong(at, "AX0504", f"`{path}` has element type {given}, which Axon lacks", help=(Suggestion(words),))

    def _element(self, at: Wanted, path: str, own: Element, must: str, wanted: t.Tensor | None) -> AxonError:
        helps = self._conversions(at, path, wanted)
        held, element = self._given(at, path, self.given), wanted.element if wanted else None
        lost = isinstance(element, Element) and not helps and _is_single(held)
        notes = [f"it is {held}, which {must} cannot hold"] if lost else []
        return self._wrong(at, "AX0504", f"`{path}` holds {own.value}, and must hold {must}", *notes, help=helps)

    def _not_converted(self, at: Wanted, path: str, must: str, weak: Array, wanted: t.Tensor | None) -> AxonError:
        """Of a number, or a list of numbers, whose kind is not the one that is wanted."""
        what = {"b": "a bool", "i": "an integer", "u": "an integer", "f": "a float"}[weak.dtype.kind]
        message = f"`{path}` must hold {must}, and {what} is not converted to that"
        return self._wrong(at, "AX0504", message, help=self._conversions(at, path, wanted))

    def _conversions(self, at: Wanted, path: str, wanted: t.Tensor | None) -> tuple[Suggestion, ...]:
        """What to pass instead: of arguments that share an element variable, whichever can be converted without a loss."""
        element = wanted.element if wanted else None
        if isinstance(element, Element):
            return tuple(map(Suggestion, fixed(self._part(at, path, self._given(at, path, self.values)), element)))
        if not isinstance(element, t.ElementVar):
            return ()
        parts: list[ArgumentPart] = []

        def collect(at: Wanted, path: str, other: t.Tensor | None, value: Any) -> None:
            held = strict_array(value) if weak_array(value) is None else weak_array(value)
            if other is not None and other.element == element and held is not None:
                parts.append(self._part(at, path, value))

        for parameter in self.parameters.values():
            with suppress(AxonError):  # what is wrong elsewhere is said another time
                self._walk(parameter, parameter.name, parameter.type, self.values[parameter.name], collect)
        known = self.elements.get(element.symbol)
        return _pass(conversion(parts, self._allowed(element.symbol), known[0] if known else None))

    def _part(self, at: Wanted, path: str, value: Any) -> ArgumentPart:
        raw, weak = strict_array(value), weak_array(value)
        array = viewed(raw, None) if raw is not None else weak
        assert array is not None
        own = _KINDS[array.dtype.kind] if raw is None else of_dtype(array.dtype)
        return ArgumentPart(_indexed(path), self._given(at, path, self.given), array, own or Element.F32, raw is None)

    def _rounded_down(self, at: Wanted, path: str, value: Any) -> AxonError:
        """Of Python's integers that a function of floats or integers divides, with nothing that says which of them they are."""
        name = _indexed(path)
        way = f"np.array({name}, np.float32)"
        if isinstance(value, int):
            way = str(float(value))
        elif len(value) <= _FEW and all(type(v) is int for v in value):
            way = str([float(v) for v in value])
        message = f"`{path}` holds integers, and `{self.function}` divides: their quotients would be rounded down"
        helps = (*_pass(way), Suggestion(f"if that is meant, pass np.array({name}, np.int32)"))
        return self._wrong(at, "AX0504", message, help=helps)

    def _outside(self, at: Wanted, path: str, wanted: t.Tensor | None, element: Element, what: str, wide: Element) -> AxonError:
        """Of a number that its element type does not hold; if nothing but a default has chosen that, `wide` may do."""
        variable = wanted.element if wanted else None
        chosen = isinstance(variable, t.ElementVar) and self.elements[variable.symbol][1] == path
        may = isinstance(variable, t.ElementVar) and wide in self._allowed(variable.symbol)
        way = f"np.array({_indexed(path)}, {NUMPY_NAME[wide]})" if chosen and may and element is not wide else ""
        return self._wrong(at, "AX0504", f"`{path}` must hold {element.value}, and {what} is outside its range", help=_pass(way))

    def _given(self, at: Wanted, path: str, values: Mapping[str, Any]) -> Any:
        """What stands at a path in the arguments."""
        value = values[at.name]
        for part in path.removeprefix(at.name).split(".")[1:]:
            value = value[int(part) - 1] if isinstance(value, tuple) else value[part]
        return value

    def _wrong(self, at: Wanted, code: str, message: str, *notes: str, help: tuple[Suggestion, ...] = ()) -> AxonError:
        labels = (Label(at.span, f"this parameter of `{self.function}`"),) if at.span else ()
        kind = ShapeError if code == "AX0506" else AxonError
        return kind((Diagnostic(code, f"{message}, in a call of `{self.function}`", labels, notes, help),))


# ── what a value is ─────────────────────────────────────────────────────────────────────────────────────────────────────

_FEW = 6  # numbers of a list that are shown as floats
_KINDS = {"b": Element.BOOL, "i": Element.I32, "u": Element.I32, "f": Element.F32}  # of numbers without an element type


def _is_single(value: Any) -> bool:
    """Whether a value with an element type is one number."""
    return isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)


def _no_array(value: Any, name: str, element: t.ElementType | None) -> tuple[str, str]:
    """What a value is that is neither an array nor a number, in words, and what to pass instead (or nothing)."""
    if isinstance(value, list):
        return why_not(value, name, NUMPY_NAME[element] if isinstance(element, Element) else "")
    if libraries.is_masked(value):
        return describe(value), f"{name}.filled(…)"
    if hasattr(value, "__array__"):
        return describe(value), f"np.asarray({name})"
    of_numbers = isinstance(value, tuple) and all(isinstance(item, int | float | np.number) for item in value)
    if of_numbers or (isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | tuple)):
        return describe(value), f"list({name})"
    return describe(value), ""


def _pass(way: str) -> tuple[Suggestion, ...]:
    return (Suggestion(f"pass {way}"),) if way else ()


def strict_array(value: Any) -> Array | None:
    """An array or NumPy scalar, which has an element type of its own."""
    if libraries.is_masked(value):
        return None
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None


def stand_in(value: Any) -> Any:
    """The argument with every array of a GPU library replaced by one of its element type and shape, which takes no memory."""
    if isinstance(value, tuple):
        return tuple(map(stand_in, value))
    if isinstance(value, Mapping):
        return {name: stand_in(item) for name, item in value.items()}
    library = libraries.of(value)
    element = library.element(value) if library is not None else None
    # Of a type that Axon lacks, the array itself stands: matching names it.
    return value if library is None or element is None else np.broadcast_to(np.zeros((), element.dtype), library.shape(value))


_RAW = (Element.BF16, Element.F8E4M3, Element.F8E5M2)


def viewed(array: Array, element: t.ElementType | None) -> Array:
    """NumPy files keep bf16 and the 8-bit floats as raw bytes: give those their element type back, without a copy."""
    if array.dtype.type is not np.void or array.dtype.names is not None:
        return array
    if element in _RAW and element.dtype.itemsize == array.dtype.itemsize:
        return array.view(element.dtype)
    return array.view(Element.BF16.dtype) if array.dtype.itemsize == 2 else array


def describe(value: Any) -> str:
    """A value for a message: its kind, not its content."""
    if libraries.is_masked(value):
        return "a masked array"
    if isinstance(value, np.ndarray | np.generic):
        return f"an array of {value.dtype} with shape {value.shape}"
    if isinstance(value, Mapping):
        return f"a dict with the keys {listed(map(str, value))}" if value else "an empty dict"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"the integer {value}" if -(1 << 63) <= value < 1 << 64 else "an integer of more than 64 bits"
    if isinstance(value, bool | float):
        return f"{value}"
    return f"a value of the Python type {type(value).__name__}"


def listed(names: Iterable[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > 12:
        quoted = [*quoted[:12], f"… {len(quoted) - 12} more"]
    return ", ".join(quoted[:-1]) + " and " + quoted[-1] if len(quoted) > 1 else "".join(quoted) or "nothing"


def one_of(elements: frozenset[Element]) -> str:
    """A class of element types in words."""
    names = {FLOAT: "a float", INT: "an integer", FLOAT | INT: "a number"}
    return names.get(elements) or " or ".join(e.value for e in Element if e in elements)


def _annotation(element: t.ElementType, rank: int) -> str:
    """A type of some rank, whose last dimensions have the same letters at every rank."""
    name = element.value if isinstance(element, Element) else f"'{element.symbol.name}"
    letters = [chr(ord("n") - i) if i < 8 else f"n{i}" for i in range(rank)]
    return f"{name}[{', '.join(reversed(letters))}]" if rank else name


def _indexed(path: str) -> str:
    """`p.up.w` as a Python caller writes it: p["up"]["w"]; tuples count from 0 there."""
    first, *rest = path.split(".")
    return first + "".join(f"[{int(part) - 1}]" if part.isdigit() else f'["{part}"]' for part in rest)


# ── structures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def argument_type(value: Any) -> ArgumentType:
    """What lowering needs to know of a matched argument."""
    from axon.lower import TensorType

    if isinstance(value, tuple):
        return tuple(argument_type(item) for item in value)
    if isinstance(value, dict):
        return {name: argument_type(item) for name, item in value.items()}
    element = of_dtype(value.dtype)
    assert element is not None
    return TensorType(element, value.ndim)


def form(value: Any) -> Hashable:
    """What of a matched argument decides its specialization: structure, element types and ranks."""
    if isinstance(value, tuple):
        return tuple(form(item) for item in value)
    if isinstance(value, dict):
        return ("{}", *((name, form(item)) for name, item in value.items()))
    return (value.dtype.name, value.ndim)


def flatten(params: tuple[core.Param, ...], values: Iterable[Any]) -> dict[int, tuple[str, Array]]:
    """The arrays of matched arguments by their position among a program's inputs, each with its path (`p.w`)."""
    out: dict[int, tuple[str, Array]] = {}

    def walk(path: str, structure: core.Structure, value: Any) -> None:
        match structure:
            case core.Leaf(position=position):
                out[position] = (path, value)
            case core.TupleOf(items=items):
                for i, (item, part) in enumerate(zip(items, value, strict=True), 1):
                    walk(f"{path}.{i}", item, part)
            case core.RecordOf(fields=fields):
                for name, item in fields:
                    walk(f"{path}.{name}", item, value[name])

    for param, value in zip(params, values, strict=True):
        walk(param.name, param.structure, value)
    return out


def assemble(structure: core.Structure, results: Sequence[Any]) -> Any:
    """Results as a Python value."""
    match structure:
        case core.Leaf(position=position):
            return results[position]
        case core.TupleOf(items=items):
            return tuple(assemble(item, results) for item in items)
        case core.RecordOf(fields=fields):
            return {name: assemble(item, results) for name, item in fields}


def array(result: Any) -> Array:
    """A result as an array, also if NumPy made a scalar of it."""
    return np.asarray(result)


def number(result: Any) -> Any:
    """A result as an array, or as the Python number that one of rank 0 holds."""
    array = np.asarray(result)
    if array.ndim:
        return array
    return array.item() if array.dtype.kind != "V" else float(array)
