"""Checked modules on disk, so that a process that imports one need not check it: of the standard library, and of users (`reading`).

A file (`base.disk`) holds the names that a module makes available and its types, and in lines of their own what each name stands
for and each typed declaration, as plain data (`plain`); nothing in it is evaluated. Its key is a digest of the module's text, of
Axon's version and of every source of the checker; with it stand the same for what the module imports. What is not there, not
whole, or not of these texts is as if it were not kept: the module is checked, and kept if that can be done. Nothing is said of
what fails here.

Note [As if checked]
    What is read differs from what a check makes in nothing that anyone sees. Symbols are new, in the order in which the check made
    them, and older than any that are made later: more than the order of their ages nobody asks. What a name stands for is read
    when a program uses it, so that a larger library costs a program nothing; a typed declaration, when lowering asks for it; and
    the bodies that only errors follow come from a check that is made then.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from axon.base import disk
from axon.base.data import dataclass, replace
from axon.base.each_once import EachOnce
from axon.base.names import Symbol, fresh_numbers
from axon.base.source import SourceFile
from axon.checker.loader import HIDDEN, Loader, is_library
from axon.checker.module import CheckedModule
from axon.checker.plain import Malformed, NotPlain, Reader, Writer
from axon.grammar import syntax as S
from axon.shapes.dimension import DimensionTooLarge
from axon.types import builtins
from axon.types.resolve import Alias, BuiltinName, Entity, ModelName, Module, ModuleName, Scope, ValueName, alias_names
from axon.types.type import Row, Scheme
from axon.types.typed import Decl, Expr, Fun, Pattern, Val
from axon.types.unify import State

if TYPE_CHECKING:
    from axon.types.inference import Body, Definition

P = TypeVar("P")
_IMPORT = re.compile(r"^import (\w+)$", re.MULTILINE)  # a file that imports otherwise is checked each time
MARKS = ("rigid", "named_dims", "row_symbols")  # the sets of a `State` that decide what a symbol is called in a text
FOLDERS = ("base", "chance", "checker", "grammar", "shapes", "types")  # whose sources decide what a check comes to


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What was kept of a module: the parts of a `CheckedModule` that others than itself see."""

    signatures: Mapping[str, str]
    declarations: Mapping[str, Decl]
    schemes: Mapping[str, Scheme]
    symbols: Mapping[str, Symbol]
    state: State
    exports: Module


def find(
    source: SourceFile, imported: Callable[[str], CheckedModule | None], whole: Callable[[bool], CheckedModule]
) -> tuple[Kept, Mapping[str, CheckedModule]] | None:
    """A module as it was kept, and what it imports; None if it is not. `imported` gives a module that it imports by name, `whole`
    what a check of it makes, with what it imports read or checked anew."""
    key = _key(source)
    try:
        found = disk.read(disk.directory() / f"{key}.module", key)
        if found is None:
            return None
        facts, content = found
        if {name for name in facts["imports"] if not name.startswith(HIDDEN)} != set(_IMPORT.findall(source.text)):
            return None
        imports = {name: module for name in facts["imports"] if (module := imported(name)) is not None}
        if facts["imports"] != {name: origin(module) for name, module in imports.items()}:
            return None
        return _Reading(source, imports, whole, content.split(b"\n")).module(), imports
    except (disk.CannotKeep, Malformed, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None


LIBRARY: dict[str, CheckedModule] = {}  # the standard library's modules, without errors, as this process last checked or read them


def read(
    source: SourceFile, imported: Callable[[str], CheckedModule | None], whole: Callable[[bool], CheckedModule]
) -> CheckedModule | None:
    """A module as it was kept; None if it is not. The parameters are those of `find`."""
    found = find(source, imported, whole)
    if found is None:
        return None
    module, imports = found
    checked = CheckedModule(
        source, (), module.signatures, module.declarations, module.schemes, module.symbols, module.state, imports,
        exports=module.exports,
    )  # fmt: skip
    if is_library(source):
        LIBRARY[source.path] = checked
    return checked


def imports_the_same(module: CheckedModule, loader: Loader, check: Callable[[SourceFile], CheckedModule | None]) -> bool:
    """Whether a module would import what it imported when it was checked. See Note [The library is checked once]."""
    place = module.source.span(0, 0)
    return all(
        loader.find(S.Name(name, place)) is imported.source and check(imported.source) is imported
        for name, imported in module.imports.items()
    )


def keep(checked: CheckedModule) -> None:
    """Keep a module without errors and warnings, if that can be done."""
    key = _key(checked.source)
    try:
        imports = {name: origin(module) for name, module in checked.imports.items()}
        disk.write(disk.directory() / f"{key}.module", key, {"imports": imports}, b"\n".join(_lines(checked)), disk.limit())
    except (disk.CannotKeep, DimensionTooLarge, NotPlain, OSError, RecursionError):
        pass


def _key(source: SourceFile) -> str:
    return hashlib.sha256("\0".join((disk.sources(FOLDERS), source.path, source.text)).encode("utf-8", "surrogatepass")).hexdigest()


def origin(module: CheckedModule) -> str:
    """A digest of all texts that a checked module comes from."""
    inner = (f"{name} {origin(imported)}" for name, imported in module.imports.items())
    return hashlib.sha256("\0".join((_key(module.source), *inner)).encode()).hexdigest()


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(checked: CheckedModule) -> list[bytes]:
    """The names that a module makes available and its types; what each name stands for; each declaration."""
    assert checked.exports is not None
    foreign = {
        symbol: (name, value, n)
        for name, module in checked.imports.items()
        for value in module.schemes
        for n, symbol in enumerate(symbols_of(module, value))
    }
    values = checked.exports.values
    decls = list(dict.fromkeys(checked.declarations.values()))  # several names may be of one
    types, *writers = (Writer(checked.state, checked.source, foreign) for _ in range(1 + len(values) + len(decls)))
    aliases = {name: types.node(alias.decl) for name, alias in checked.exports.aliases.items()}
    parts: list[dict[str, Any]] = []
    for writer, value in zip(writers, values.values(), strict=False):
        parts.append({"value": writer.node(value)})
    for writer, decl in zip(writers[len(values) :], decls, strict=True):
        part: dict[str, Any] = {"decl": writer.node(decl)}
        parts.append({**part, "alone": [[writer.node(row), writer.shape(shape)] for row, shape in writer.alone.items()]})
    own = sorted({symbol for writer in writers for symbol in writer.symbols}, key=lambda s: s.id)
    if foreign and own and own[0].id < max(s.id for s in foreign):
        raise NotPlain("a symbol of another module")
    number = {symbol: n for n, symbol in enumerate(own)}
    if not all(symbol in number for symbol in checked.symbols.values()):
        raise NotPlain("a name of another module's value")
    for writer, part in zip(writers, parts, strict=True):
        for symbol, row in writer.symbols.items():
            row[1] = number[symbol]
        part["rows"] = writer.rows
    first = {
        "types": {"names": aliases, "rows": types.rows},
        "values": list(values),
        "signatures": {
            name: [text, number[checked.symbols[name]], decls.index(checked.declarations[name])]
            for name, text in checked.signatures.items()
        },
        "symbols": [symbol.name for symbol in own],
        "marks": {mark: [number[s] for s in own if s in getattr(checked.state, mark)] for mark in MARKS},
        "called": {str(number[s]): text for s, text in checked.state.called.items() if s in number},
    }  # fmt: skip
    return [json.dumps(part, separators=(",", ":")).encode() for part in (first, *parts)]


def symbols_of(module: CheckedModule, name: str) -> list[Symbol]:
    """Every symbol of what a module makes available under a name, in an order that does not depend on whether it was read."""
    assert module.exports is not None
    writer = Writer(module.state, module.source, {})
    writer.node(module.exports.values[name])
    return list(writer.symbols)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Reading:
    """A module that is read: its names now, what each stands for and each declaration when it is asked for."""

    def __init__(
        self,
        source: SourceFile,
        imports: Mapping[str, CheckedModule],
        whole: Callable[[bool], CheckedModule],
        lines: Sequence[bytes],
    ) -> None:
        self.source, self.imports, self.whole, self.lines = source, imports, whole, lines
        self.state = State()
        self.aliases: dict[str, S.TypeDecl] = {}
        self.names: list[str] = []
        self.marks: dict[str, frozenset[int]] = {}
        self.called: dict[str, str] = {}
        self.numbers: list[int] = []
        self.symbols: dict[int, Symbol] = {}
        self.foreign: dict[tuple[str, str], list[Symbol]] = {}
        self.decls: dict[int, Decl] = {}
        self.value_lines: dict[str, int] = {}
        self.decl_lines: dict[str, int] = {}
        self.decl_symbols: dict[str, int] = {}

    def module(self) -> Kept:
        """Its names. Raises Malformed."""
        part = self._head()
        signatures = {name: row[0] for name, row in part["signatures"].items()}
        symbols = {name: self._own(row[1]) for name, row in part["signatures"].items()}
        texts = (*part["values"], *part["symbols"], *signatures.values(), *part["called"].values())
        if not all(isinstance(text, str) for text in texts):
            raise Malformed("a text")
        if not all(len(self.value_lines) < line < len(self.lines) for line in self.decl_lines.values()):
            raise Malformed("a line")
        if not signatures.keys() <= self.value_lines.keys() or len(self.value_lines) != len(part["values"]):
            raise Malformed("a name")
        values: EachOnce[Entity] = EachOnce(self.value_lines, self.value)
        scope = Scope(self._imported(), values)  # in which the types of the module are declared
        scope.aliases |= {name: Alias(decl, scope) for name, decl in self.aliases.items()}
        self._name_types(scope.aliases)
        exports = Module(self.source.path, values, dict(scope.aliases))
        declarations = EachOnce(signatures, self.declaration)
        schemes = EachOnce(signatures, self.scheme)
        return Kept(signatures, declarations, schemes, symbols, self.state, exports)

    def _head(self) -> Mapping[str, Any]:
        """The first line: types, the names of the module's own symbols, and in which line each part stands."""
        part: Mapping[str, Any] = json.loads(self.lines[0])
        types = self._reader(part["types"])
        self.aliases = {name: types.node(number, S.TypeDecl) for name, number in part["types"]["names"].items()}
        self.names = part["symbols"]
        self.marks = {mark: frozenset(part["marks"][mark]) for mark in MARKS}
        self.called = part["called"]
        self.numbers += fresh_numbers(max(0, len(self.names) - len(self.numbers)))
        self.value_lines = {name: line for line, name in enumerate(part["values"], 1)}
        self.decl_symbols = {name: row[1] for name, row in part["signatures"].items()}
        self.decl_lines = {name: 1 + len(self.value_lines) + row[2] for name, row in part["signatures"].items()}
        return part

    def _name_types(self, own: dict[str, Alias]) -> None:
        """Types that the module can name have their names."""
        self.state.aliases.update(alias_names(Scope(values=self._imported().values, aliases=own)).items())

    def _imported(self) -> Scope:
        """What a module sees before its own declarations: the language, and what it imports."""
        scope = Scope(values={name: BuiltinName(name) for name in builtins.NAMES}).child()
        for name, module in self.imports.items():
            assert module.exports is not None
            scope.values[name] = ModuleName(replace(module.exports, name=name))
        return scope

    def _reader(self, part: Mapping[str, Any]) -> Reader:
        reader = Reader(self.source, self._own, self._foreign, self._alias)
        reader.read(part["rows"])
        return reader

    def _own(self, number: int) -> Symbol:
        symbol = self.symbols.get(number)
        if symbol is None:
            symbol = Symbol(self.names[number], self.numbers[number]) if number >= 0 else None
            if symbol is None:
                raise Malformed(f"no symbol {number}")
            symbol = self.symbols.setdefault(number, symbol)
            self._mark(number, symbol)
        return symbol

    def _mark(self, number: int, symbol: Symbol) -> None:
        """What texts call a symbol depends on who introduced it."""
        for mark, numbers in self.marks.items():
            if number in numbers:
                getattr(self.state, mark).add(symbol)
        if str(number) in self.called:
            self.state.called[symbol] = self.called[str(number)]

    def _foreign(self, module: str, name: str, number: int) -> Symbol:
        if (module, name) not in self.foreign:
            self.foreign[module, name] = symbols_of(self.imports[module], name)
        return self.foreign[module, name][number]

    def _alias(self, name: str) -> S.TypeDecl:
        if name in self.aliases:
            return self.aliases[name]
        module, _, member = name.partition(".")
        exports = self.imports[module].exports
        assert exports is not None
        return exports.aliases[member].decl

    def value(self, name: str) -> ValueName | ModelName:
        """What a name stands for; its scheme leads to the body that a check of the module makes, if it has one."""
        value = self._part(lambda: self.value_lines[name], self._value)
        if isinstance(value, ModelName) or value.scheme.definition is None:
            return value
        return replace(value, scheme=replace(value.scheme, definition=_Definition(self, name)))

    def definition(self, function: Symbol) -> Definition | None:
        """Of a function that a declaration uses, of this module or an imported one."""
        for name, number in self.decl_symbols.items():
            if self.symbols.get(number) == function:
                return self.scheme(name).definition
        for (module, name), symbols in self.foreign.items():
            exports = self.imports[module].exports
            found = exports.values[name] if exports is not None and function in symbols else None
            if isinstance(found, ValueName) and found.symbol == function:
                return found.scheme.definition
        return None

    def scheme(self, name: str) -> Scheme:
        """That of a declaration, which is of no model: the functions of one are."""
        value = self.value(name)
        assert isinstance(value, ValueName)
        return value.scheme

    def declaration(self, name: str) -> Decl:
        """A typed declaration, the same each time."""
        line = self.decl_lines[name]
        if line not in self.decls:
            self.decls.setdefault(line, self._part(lambda: self.decl_lines[name], self._declaration))
        return self.decls[line]

    def _part(self, line: Callable[[], int], read: Callable[[Mapping[str, Any]], P]) -> P:
        """What stands in one line. If nobody has written that, what a check makes takes the place of all that was kept: written as
        it would be kept, it is of the same symbols."""
        try:
            return read(json.loads(self.lines[line()]))
        except (Malformed, AttributeError, LookupError, TypeError, ValueError, RecursionError):
            self._made_anew()
            return read(json.loads(self.lines[line()]))

    def _made_anew(self) -> None:
        """What a check makes, in place of all that was kept: also of what is imported, which may be what is not as it was."""
        checked = self.whole(True)
        self.imports, self.lines = checked.imports, _lines(checked)
        self.foreign.clear()
        self._head()
        self._name_types({name: Alias(decl, Scope()) for name, decl in self.aliases.items()})

    def _value(self, part: Mapping[str, Any]) -> ValueName | ModelName:
        value: ValueName | ModelName = self._reader(part).node(part["value"], (ValueName, ModelName))
        return value

    def _declaration(self, part: Mapping[str, Any]) -> Decl:
        reader = self._reader(part)
        decl: Decl = reader.node(part["decl"], (Val, Fun))
        self.state.rows |= {reader.node(row, Row).symbol: reader.shape(shape) for row, shape in part["alone"]}
        return decl


@dataclass(frozen=True, slots=True, eq=False)
class _Definition:
    """The body of a function of a module that is read."""

    reading: _Reading
    name: str

    def whole(self) -> Body:
        exports = self.reading.whole(False).exports
        entity = exports.values[self.name] if exports is not None else None
        assert isinstance(entity, ValueName)
        assert entity.scheme.definition is not None
        return entity.scheme.definition.whole()

    def written(self) -> tuple[tuple[Pattern, ...], Expr]:
        decl = self.reading.declaration(self.name)
        return (decl.params, decl.body) if isinstance(decl, Fun) else ((), decl.value)

    def inside(self, function: Symbol) -> Definition | None:
        return self.reading.definition(function)
