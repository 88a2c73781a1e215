"""`axon solve PATH:NAME b=8 out=8,64,7,7`: what is asked, as text, and the sizes that are found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from axon.base.data import dataclass, field
from axon.base.diagnostics import Diagnostic, Label
from axon.base.errors import AxonError
from axon.base.nearest import MAX_SIZE
from axon.base.source import SourceFile

if TYPE_CHECKING:
    from axon.host.call import Callee, Session
    from axon.host.solve import Solutions

_OPEN = "_"
_PLACE = re.compile(r"([^\[\]]+)\[(-?\d+)\]")
_DIGITS = 12  # more than the largest size has
_SHOWN = 20
_RANGE = f"a size is a number from 0 to {MAX_SIZE:,}"
_FORMS = "write b=8 for a size, out=8,_,7 or x=_,3 for a shape (_ is open), x[0]=8 for one dimension, ..s=2 for a shape variable"


@dataclass(slots=True)
class Question:
    """What `m.f.solve` is given: sizes by name or place, the result's shapes, ranks, the arguments' shapes."""

    given: dict[Any, int] = field(default_factory=dict)
    out: Any = None
    ranks: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Any] = field(default_factory=dict)


def solve(session: Session, callee: Callee, texts: Sequence[str]) -> Solutions:
    """The solutions for a function. Raises AxonError for a text that says nothing, or does not fit the signature."""
    from axon.host.ranked import COMMAND_LINE
    from axon.host.solve import solve as solved

    asked = question(session, callee, texts)
    return solved(session, callee, (), asked.given, asked.out, asked.ranks, asked.shapes, COMMAND_LINE)


def question(session: Session, callee: Callee, texts: Sequence[str]) -> Question:
    """What the texts ask. A name that is a size and a tensor is the size, unless a comma follows the number; both may be given."""
    from axon.host.ranked import result_path, size_names

    found = Question()
    parameters, result, sizes = [p.name for p in callee.parameters], result_path(callee), size_names(session, callee)
    seen: set[tuple[str, bool]] = set()
    for text in texts:
        name, numbers, single = _read(text)
        size = name in sizes and single
        if (name, size) in seen:
            raise _wrong(text, 0, text.index("="), f"`{name}` is given twice", "give it once")
        seen.add((name, size))
        place = _PLACE.fullmatch(name)
        if name.startswith("..") and single:
            found.ranks[name[2:]] = numbers[0] or 0
        elif place and single:
            found.given[_parameter(place[1].strip()), int(place[2])] = numbers[0] or 0
        elif size:
            found.given[name] = numbers[0] or 0
        elif _parameter(name).split(".")[0] in (*parameters, result):
            path = _parameter(name).split(".")
            if path[0] == result:
                found.out = _with(found.out, path[1:], numbers, text)
            else:
                found.shapes[path[0]] = _with(found.shapes.get(path[0]), path[1:], numbers, text)
        elif single:
            found.given[name] = numbers[0] or 0  # no size of the function: the error says which there are
        elif name in sizes or name.startswith("..") or place:
            raise _no_one_size(text, name, numbers)
        else:
            tensors = ", ".join(f"`{p}`" for p in (*parameters, result))
            raise _wrong(text, 0, len(name), f"`{callee.name}` has no tensor `{name}`", f"it has {tensors}")
    types = dict(_types(callee))
    found.out = _tupled(found.out, types[result])
    found.shapes = {name: _tupled(shape, types[name]) for name, shape in found.shapes.items()}
    return found


def elements_of(texts: Sequence[str]) -> dict[str, str]:
    """Element types by argument, from texts such as x=bf16."""
    found = {}
    for text in texts:
        name, equal, element = text.partition("=")
        if not equal or not name.strip() or not element.strip():
            raise _wrong(text, 0, len(text), "this gives no element type", "write x=bf16")
        found[_parameter(name.strip())] = element.strip()
    return found


def _parameter(name: str) -> str:
    """`1` is a parameter without a name of its own, as in `axon run`."""
    first, dot, rest = name.partition(".")
    return (f"argument {first}" if first.isdecimal() else first) + dot + rest


def _read(text: str) -> tuple[str, tuple[int | None, ...], bool]:
    """The name, the sizes (None for an open one), and whether it is one size and no shape. Raises AxonError."""
    name, equals, value = text.partition("=")
    if not name.strip() or (not equals and name.strip().isdecimal()):
        raise _wrong(text, 0, len(text), "this does not say whose size it is")
    if not equals:
        raise _wrong(text, 0, len(text), f"`{name.strip()}` is given nothing", f"{_FORMS}; all without spaces")
    parts = value.split(",")
    if not parts[-1].strip():  # `8,` is a shape of one dimension, and nothing that of a scalar
        parts.pop()
    numbers, at = [], len(name) + 1
    for part in parts:
        numbers.append(_number(text, at, part))
        at += len(part) + 1
    return name.strip(), tuple(numbers), "," not in value and len(numbers) == 1 and numbers[0] is not None


def _number(text: str, at: int, part: str) -> int | None:
    """A size, or None for an open one, that stands at a place of the text. Raises AxonError."""
    said = part.strip()
    if said == _OPEN:
        return None
    whole = said.isascii() and said.isdecimal()
    digits = said.lstrip("0") or "0"
    if whole and len(digits) <= _DIGITS and int(digits) <= MAX_SIZE:
        return int(digits)
    short = said if len(said) <= _SHOWN else said[:_SHOWN] + "…"
    message = f"`{short}` is {'too large for a size' if whole else 'no size'}" if said else "a size is missing"
    raise _wrong(text, at, at + len(part), message, f"{_RANGE}, or _ where it is open")


def _no_one_size(text: str, name: str, numbers: tuple[int | None, ...]) -> AxonError:
    """That a size is given as a shape, is left open, or is given nothing."""
    start = text.index("=")
    if not numbers:
        return _wrong(text, 0, start + 1, f"`{name}` is given no size", f"write {name}=8, or leave it out to have it found")
    if numbers == (None,):
        return _wrong(text, start + 1, len(text), f"`{name}` is left open", "leave it out: what is not given is found")
    several = f"`{name}` is one size, not {len(numbers)}" if len(numbers) > 1 else f"`{name}` is a size and no shape"
    example = next((n for n in numbers if n is not None), 8)
    return _wrong(text, start + 1, len(text), several, f"write {name}={example}; commas are for the shapes of tensors")


def _with(before: Any, path: list[str], shape: tuple[int | None, ...], text: str) -> Any:
    """A structure of shapes by field with one more; the items of a tuple are fields 1, 2, …"""
    if not path:
        if before is not None:
            raise _wrong(text, 0, text.index("="), "the shape of this, or of a part of it, is given already")
        return shape
    if isinstance(before, tuple):
        raise _wrong(text, 0, text.index("="), "the shape of what this is a part of is given already")
    inner = dict(before or {})
    inner[path[0]] = _with(inner.get(path[0]), path[1:], shape, text)
    return inner


def _types(callee: Callee) -> Iterator[tuple[str, Any]]:
    from axon.host.ranked import result_path, result_type

    yield from ((p.name, p.type) for p in callee.parameters)
    yield result_path(callee), result_type(callee)


def _tupled(shapes: Any, type: Any) -> Any:
    """The shapes with tuples where the type has them."""
    from axon.types.type import RecordType, TupleType

    match type:
        case TupleType(items) if isinstance(shapes, Mapping) and all(n.isdecimal() and 0 < int(n) <= len(items) for n in shapes):
            return tuple(_tupled(shapes.get(str(n)), item) for n, item in enumerate(items, 1))
        case RecordType(fields) if isinstance(shapes, Mapping):
            known = dict(fields)
            return {name: _tupled(inner, known.get(name)) for name, inner in shapes.items()}
        case _:
            return shapes


def _wrong(text: str, start: int, end: int, message: str, note: str = _FORMS) -> AxonError:
    source = SourceFile("<argument>", text)
    return AxonError((Diagnostic("AX0508", message, (Label(source.span(start, end)),), (note,)),))
