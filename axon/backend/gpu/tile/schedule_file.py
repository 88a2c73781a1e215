"""Schedule files: the values of mappings that a user fixed, read from TOML, checked, and obeyed.

    [attention]          # every kernel of `attention`
    consumers = 3

    [mlp.2]              # the second kernel of `mlp`, as `axon explain` counts them
    rows = 256
    columns = 128

    [mlp]
    precision = "tf32"   # of all of its products, see `Precision`

The words are the fields of `Mapping`. What a file does not fix, the cost model chooses: the best mapping with those values. That
changes speed, never results; `precision` alone changes these. What is wrong with a file is AX0605, at its place in it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingOf
from functools import cache
from itertools import product
from typing import Any, Literal, get_args, get_origin, get_type_hints

from axon.backend.gpu.layout.products import PROMOTED, Precision
from axon.backend.gpu.layout.target import HOPPER, WGMMA, Target
from axon.backend.gpu.tile.limbs import sums_products
from axon.backend.gpu.tile.schedule import Given, ScheduleProblem, TileMapping, Traits, attempts, candidates, check, holds, ranked
from axon.base.data import dataclass, fields, replace
from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.nearest import nearest
from axon.base.source import SourceFile, Span
from axon.core.ir import Program

PRECISION = "precision"  # of a function's products
PRECISIONS = {"f32": Precision.WHOLE, "tf32": Precision.TF32, "fast": Precision.FAST}
MOST = 1 << 20  # of any number in a mapping
_WHERE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Fixed:
    """What is fixed of one kernel's mapping, by field, and where in a schedule file it says so."""

    values: Given = ()
    places: tuple[Span, ...] = ()  # of `values`, each with its name; none if nobody wrote them
    whose: str = "any kernel"

    def __str__(self) -> str:
        said = ", ".join(f"{name} = {_toml(value)}" for name, value in self.values)
        return f"{said} from {self.places[0].file.path}" if self.places else said

    def ranked(self, problem: ScheduleProblem, traits: Traits, target: Target) -> tuple[TileMapping, ...]:
        """The legal mappings with these values by predicted time, the best first; none only if nothing is fixed.

        Raises AX0605 for values that no legal mapping has or that cannot serve these sizes.
        """
        found = ranked(problem, traits, target, self.values)
        if found or not self.values:
            return found
        guilty = self._fewest(lambda given: any(holds(m, problem) for m in candidates(target, traits, given)))
        # Of the mappings that were tried, the one against which there is least to say.
        tried = attempts(target, traits, guilty)
        least = min(tried, key=lambda m: (len(check(m, target, traits)), not holds(m, problem)))
        needs = f"one tile of a stream must hold all {problem.columns} columns, and {problem.depth} of depth"
        raise self._wrong(guilty, check(least, target, traits) or (f"{needs}: this is {least}",))

    def unfit(self) -> AxonError:
        """For values with which every mapping proved too much for the registers, which only the compiler can tell."""
        return self._wrong(self.values, ("it does not fit its registers",))

    def possible(self, target: Target, precision: Precision) -> None:
        """Raises AX0605 for values that no mapping of any kernel has."""
        kernels = (*_ALL_TRAITS, *_ALLOWED.get(precision, ()))
        if not self.values:
            return
        guilty = self._fewest(lambda given: any(candidates(target, traits, given) for traits in kernels))
        tried = [(check(m, target, traits), m) for traits in kernels for m in attempts(target, traits, guilty)]
        words = min((words for words, _ in tried), key=len)
        if words:
            raise self._wrong(guilty, words)

    def _fewest(self, fits: Callable[[Given], bool]) -> Given:
        """As few of the values as do not fit together."""
        guilty = self.values
        for item in self.values:
            fewer = tuple(other for other in guilty if other != item)
            if not fits(fewer):
                guilty = fewer
        return guilty

    def _wrong(self, guilty: Given, words: tuple[str, ...]) -> AxonError:
        said = " and ".join(f"{name} = {_toml(value)}" for name, value in guilty)
        places = dict(zip((name for name, _ in self.values), self.places, strict=False))
        labels = [Label(places[name]) for name, _ in guilty if name in places]
        if labels:
            labels[0] = Label(labels[0].span, words[0])
        notes = words[1:] if labels else words
        return AxonError((Diagnostic("AX0605", f"no mapping of {self.whose} has {said}", tuple(labels), notes),))


# Every kind of kernel: which of its factors are stored across the reduced index, of contractions and of streams.
_ALL_TRAITS = tuple(
    Traits(Element.BF16, (Element.BF16,), left, right, stream, value)
    for left, right, stream, value in product((False, True), repeat=4)
    if stream or not value
)
_ALL_TRAITS += (Traits(Element.F8E4M3, (Element.F32,), promotion=PROMOTED), Traits(Element.I8, (Element.I32,)))
_SHORT = Traits(Element.F8E4M3, (Element.BF16,), stream=True)
_ALL_TRAITS += (replace(_SHORT, value=Element.BF16, value_across=True), replace(_SHORT, promotion=PROMOTED))
_ALLOWED = {
    Precision.TF32: (Traits(Element.F32, (Element.F32,)),), Precision.FAST: (Traits(Element.F8E4M3, (Element.F32,)), _SHORT),
}  # fmt: skip
_SAID = {  # which products lose something, and what they do
    Precision.TF32: (Element.F32, "round products to tf32", "product that could be rounded to tf32"),
    Precision.FAST: (Element.F8E4M3, "sum products of 8-bit floats", "product of 8-bit floats"),
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a file fixes for one function: for all of its kernels, and by number, from 1, for one of them; and what it says that
    products may lose, and where, if it does."""

    everywhere: Fixed = Fixed()
    kernels: tuple[tuple[int, Span, Fixed], ...] = ()
    name: str = ""  # the function's
    precision: Precision = Precision.WHOLE
    place: Span | None = None

    @property
    def maps(self) -> bool:
        """Whether something of a mapping is fixed, for which kernels are counted."""
        return bool(self.everywhere.values or self.kernels)

    def allows(self, programs: Iterable[Program], target: Target) -> None:
        """Raises AX0605 where products are to lose something, and there are none, or the chip has no instructions for that."""
        if self.place is None:
            return
        element, does, has = _SAID[self.precision]
        if not target.has(WGMMA):
            raise AxonError((_error(f"{target.name} cannot {does}", Label(self.place, f"it has no {WGMMA.name}")),))
        ops = (op for program in programs for op in program.block.ops)
        if not any(sums_products(op, narrow=element is not Element.F32) for op in ops):
            raise AxonError((_error(f"`{self.name}` has no {has}", Label(self.place)),))

    def of(self, count: int) -> tuple[Fixed, ...]:
        """What is fixed for each of a program's kernels. Raises AX0605 for the number of a kernel that does not exist."""
        wrong = [
            _error(f"`{self.name}` has no kernel {number}", Label(place, f"it has {count or 'none'} for these arguments"))
            for number, place, _ in self.kernels
            if number > count
        ]
        if wrong:
            raise AxonError(tuple(wrong))
        own = {number: fixed for number, _, fixed in self.kernels}
        whose = [f"kernel {number} of `{self.name}`" if count > 1 else f"`{self.name}`" for number in range(1, count + 1)]
        return tuple(replace(_over(self.everywhere, own.get(n)), whose=name) for n, name in enumerate(whose, 1))


NOTHING = Schedule()
FREE = Fixed()


def pinned(mapping: TileMapping, number: int) -> Schedule:
    """The schedule that gives one kernel, counted from 0, this mapping, and leaves the others alone."""
    values = tuple((field.name, getattr(mapping, field.name)) for field in fields(TileMapping))
    place = SourceFile("", "").span()
    return Schedule(kernels=((number + 1, place, Fixed(values)),), name="the program")


def _over(general: Fixed, special: Fixed | None) -> Fixed:
    if special is None:
        return general
    names = {name for name, _ in special.values}
    kept = [n for n, (name, _) in enumerate(general.values) if name not in names]
    places = tuple(general.places[n] for n in kept) if general.places else ()
    return Fixed((*(general.values[n] for n in kept), *special.values), (*places, *special.places))


def _check_possible(schedule: Schedule, target: Target) -> list[Diagnostic]:
    """What is wrong with the values that each kernel would get, each thing once."""
    alone = [schedule.everywhere, *(_over(schedule.everywhere, fixed) for _, _, fixed in schedule.kernels)]
    wrong: dict[Diagnostic, None] = {}
    for fixed in alone:
        try:
            fixed.possible(target, schedule.precision)
        except AxonError as error:
            wrong |= dict.fromkeys(error.diagnostics)
    return list(wrong)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse(
    source: SourceFile, module: str, functions: Iterable[str], imports: Iterable[str] = (), target: Target = HOPPER
) -> dict[str, Schedule]:
    """The schedules of a module's functions. Raises AX0605 with everything that is wrong whatever the kernels are."""
    try:
        tree = tomllib.loads(source.text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise AxonError((_syntax_error(source, error),)) from None
    reader = _Reader(source, module, tuple(functions), frozenset(imports))
    schedules = {name: reader.function(name, entry) for name, entry in tree.items()}
    if not reader.wrong:
        reader.wrong = [wrong for schedule in schedules.values() for wrong in _check_possible(schedule, target)]
    if reader.wrong:
        raise AxonError(tuple(sorted(reader.wrong, key=lambda d: d.labels[0].span.start)))
    return schedules


def _syntax_error(source: SourceFile, error: Exception) -> Diagnostic:
    text = str(error) or "it is nested too deeply"
    found = _WHERE.search(text)
    at = len(source.text)
    if found and found[1]:
        at = source.line_starts[int(found[1]) - 1] + int(found[2]) - 1
    says = _WHERE.sub("", text)
    place = source.span(min(at, len(source.text)), min(at + 1, len(source.text)))
    return _error("a schedule file is TOML", Label(place, _lower(says)))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _error(message: str, label: Label, *notes: str, help: Suggestion | None = None) -> Diagnostic:
    return Diagnostic("AX0605", message, (label,), notes, (help,) if help else ())


@cache
def kinds() -> dict[str, Any]:
    """The fields of a mapping with their types: int, bool, or a Literal of words. Not how keys are read from pages: where a file
    fixes something of a stream, they are copied first."""
    hints = get_type_hints(TileMapping)
    return {field.name: hints[field.name] for field in fields(TileMapping) if field.name != "box"}


class _Reader:
    def __init__(self, source: SourceFile, module: str, functions: tuple[str, ...], imports: frozenset[str]) -> None:
        self.module, self.functions, self.imports = module, functions, imports
        self.places = places(source)
        self.source = source
        self.wrong: list[Diagnostic] = []

    def function(self, name: str, entry: Any) -> Schedule:
        key = self._place((name,))
        if name not in self.functions:
            self._unknown_function(name, entry, key.key)
            return NOTHING
        if not isinstance(entry, dict):
            self.wrong.append(_error(f"`{name}` is a table of a mapping's values, not {_said(entry)}", Label(key.value)))
            return NOTHING
        kernels = []
        for inner, values in entry.items():
            if isinstance(values, dict) and inner not in kinds():
                path = (name, inner)
                if not inner.isascii() or not inner.isdigit() or int(inner[:9]) < 1:
                    text = f"`[{name}.1]` stands for its first kernel, `[{name}]` for all of them"
                    self.wrong.append(_error(f"`{inner}` is no number of a kernel", Label(self._place(path).key), text))
                    continue
                kernels.append((int(inner[:9]), self._place(path).key, self._fixed(path, values)))
        own = {k: v for k, v in entry.items() if k != PRECISION and (not isinstance(v, dict) or k in kinds())}
        return Schedule(self._fixed((name,), own), tuple(kernels), name, *self._precision(name, entry))

    def _precision(self, name: str, entry: MappingOf[str, Any]) -> tuple[Precision, Span | None]:
        """What products may lose, and where that is said."""
        value = entry.get(PRECISION)
        if value is None:
            return Precision.WHOLE, None
        place = self._place((name, PRECISION))
        if not isinstance(value, str) or value not in PRECISIONS:
            self.wrong.append(self._no_word(PRECISION, tuple(PRECISIONS), value, place))
            return Precision.WHOLE, None
        found = PRECISIONS[value]
        return found, place.both if found else None

    def _unknown_function(self, name: str, entry: Any, place: Span) -> None:
        if name in (*kinds(), PRECISION) and not isinstance(entry, dict):
            example = f"[{self.functions[0]}]" if self.functions else "[f]"
            help = Suggestion(f"write `{example}` above it, with the function's name")
            self.wrong.append(_error(f"`{name}` belongs to no function", Label(place), help=help))
            return
        near = nearest(name, self.functions)
        help_near = Suggestion(f"did you mean `{near}`?", (Edit(place, near),)) if near and place.text == name else None
        has = ", ".join(f"`{f}`" for f in self.functions) or "no functions"
        notes = [f"it has {has}"]
        if name in self.imports:
            notes.append("what a function calls from other modules becomes part of its own kernels")
        self.wrong.append(_error(f"`{self.module}` declares no function `{name}`", Label(place), *notes, help=help_near))

    def _fixed(self, path: tuple[str, ...], values: MappingOf[str, Any]) -> Fixed:
        out, spans = [], []
        for name, value in values.items():
            place = self._place((*path, name))
            if self._is_right(name, value, place):
                out.append((name, value))
                spans.append(place.both)
        return Fixed(tuple(out), tuple(spans))

    def _is_right(self, name: str, value: Any, place: KeyPlace) -> bool:
        kind = kinds().get(name)
        help = None
        if name == PRECISION:
            text = "how kernels are counted depends on it"
            self.wrong.append(_error("`precision` is of all products of a function", Label(place.key), text))
            return False
        if kind is None:
            near = nearest(name, (*kinds(), PRECISION))
            if near and place.key.text == name:
                help = Suggestion(f"did you mean `{near}`?", (Edit(place.key, near),))
            self.wrong.append(
                _error(f"a mapping has no `{name}`", Label(place.key), f"it has {', '.join((*kinds(), PRECISION))}", help=help)
            )
            return False
        if get_origin(kind) is Literal:
            if value in get_args(kind) and isinstance(value, str):
                return True
            self.wrong.append(self._no_word(name, get_args(kind), value, place))
            return False
        elif kind is bool:
            if isinstance(value, bool):
                return True
            what = "true or false"
        else:
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST:
                return True
            what = f"an integer up to {MOST:,}" if isinstance(value, int) and value > MOST else "a positive integer"
        self.wrong.append(_error(f"`{name}` is {what}, not {_said(value)}", Label(place.value), help=help))
        return False

    def _no_word(self, name: str, words: tuple[str, ...], value: Any, place: KeyPlace) -> Diagnostic:
        """For a value that is none of the words that there are."""
        near = nearest(value, words) if isinstance(value, str) else None
        help = Suggestion(f"did you mean `{near}`?", (Edit(place.value, _toml(near)),)) if near else None
        what = " or ".join(map(_toml, words))
        return _error(f"`{name}` is {what}, not {_said(value)}", Label(place.value), help=help)

    def _place(self, path: tuple[str, ...]) -> KeyPlace:
        nowhere = self.source.span(0, 0)
        return self.places.get(path, KeyPlace(nowhere, nowhere))


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case _:
            return str(value)


def _said(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "an array"
    if isinstance(value, int) and value.bit_length() > 64:
        return "one of more than 64 bits"
    text = _toml(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


# ── places, which tomllib does not tell ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a key stands, and its value; a table's value stands where its key does."""

    key: Span
    value: Span

    @property
    def both(self) -> Span:
        return self.key.to(self.value)


_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
    r"""|(?P<newline>\n)|(?P<mark>[\[\]{}=,.])|(?P<bare>[^\s\[\]{}=,.#"']+)""",
    re.DOTALL,
)


def places(source: SourceFile) -> dict[tuple[str, ...], KeyPlace]:
    """Where each key of a text that is TOML stands, by its path. Of arrays of tables, the last."""
    return _Places(source).found


class _Places:
    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.tokens = [m for m in _TOKEN.finditer(source.text) if m.lastgroup != "comment"]
        self.at = 0
        self.found: dict[tuple[str, ...], KeyPlace] = {}
        table: tuple[str, ...] = ()
        while self.at < len(self.tokens):
            match self.next():
                case "\n":
                    self.at += 1
                case "[":
                    while self.next() == "[":
                        self.at += 1
                    table = self.key(())
                    while self.next() == "]":
                        self.at += 1
                case _:
                    self.pair(table)

    def next(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def span(self, first: int, last: int) -> Span:
        return self.source.span(self.tokens[first].start(), self.tokens[last].end())

    def key(self, table: tuple[str, ...]) -> tuple[str, ...]:
        """A dotted key under a table; each of its parts gets its place, if it has none yet."""
        path = table
        while True:
            (part,) = tomllib.loads(f"{self.next()}=0")
            path = (*path, part)
            here = self.span(self.at, self.at)
            self.found.setdefault(path, KeyPlace(here, here))
            self.at += 1
            if self.next() != ".":
                return path
            self.at += 1

    def pair(self, table: tuple[str, ...]) -> None:
        path = self.key(table)
        self.at += 1  # =
        first = self.at
        self.value(path)
        self.found[path] = KeyPlace(self.found[path].key, self.span(first, self.at - 1))

    def value(self, path: tuple[str, ...]) -> None:
        match self.next():
            case "{":
                self.at += 1
                while self.next() != "}":
                    if self.next() == ",":
                        self.at += 1
                    else:
                        self.pair(path)
                self.at += 1
            case "[":
                depth = 0
                while True:
                    depth += {"[": 1, "]": -1}.get(self.next(), 0)
                    self.at += 1
                    if not depth:
                        return
            case _:
                self.at += 1
                while self.next() not in ("", "\n", ",", "}"):  # 1.5, or a date and a time
                    self.at += 1
