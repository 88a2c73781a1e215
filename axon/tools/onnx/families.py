"""Modules that share a function, what differs between them, and the records that hold their weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

from axon.base.data import dataclass
from axon.shapes.dimension import Dim
from axon.tools.onnx.graph import Path
from axon.tools.onnx.modules import Entry, Module
from axon.tools.onnx.names import free, identifier, snake
from axon.tools.onnx.translate import Weight

V = TypeVar("V", int, Dim)

# What the numbers in a step's braces are called where they become parameters, and those in a layer's type.
BRACES = {
    "conv": ("stride", "padding", "dilation", "groups"),
    "conv_transpose": ("stride", "padding", "dilation", "groups", "extra"),
    "group_norm": ("groups",), "upsample": ("scale",), "resize": ("rows", "columns"), "rearrange": ("heads", "parts"),
    "call": ("window", "stride", "padding", "dilation"),
}  # fmt: skip
LETTERS = {
    "dense": "dk", "conv1": "ocr", "conv2": "ocrs", "conv3": "octrs", "kernel1": "ocr", "kernel2": "ocrs", "kernel3": "octrs",
    "layer_norm": "d", "batch_norm": "c", "instance_norm": "c", "group_norm": "c", "lstm": "dh", "gru": "dh", "weight": "nd",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Modules of one key. `braces` and `sizes` name what differs between them in steps and in types."""

    name: str
    modules: tuple[Module, ...]
    braces: tuple[tuple[str, tuple[Dim, ...]], ...]  # a name, and what it is in each of the modules
    sizes: tuple[tuple[str, tuple[int, ...]], ...]
    fields: Mapping[Path, Path]  # where an entry stands in the record

    def place(self, module: Module) -> int:
        return self.modules.index(module)


class Families:
    """The families of a graph, the inner ones first; with `apart` of modules that have the same numbers too."""

    def __init__(self, main: Module, name: str, classes: Mapping[Path, str], *, apart: bool = False) -> None:
        self.main, self.classes, self.apart = main, classes, apart
        self.taken = {identifier(name)}
        self.members: dict[Hashable, list[Module]] = {}
        self.keys: dict[Module, Hashable] = {}
        self.stacked: set[Hashable] = set()
        self._collect(main, False)
        self.found: dict[Hashable, Family] = {}
        for key in self._inner_first():
            own = identifier(name) if key == self.keys[main] else self._name(self.members[key][0])
            self.found[key] = self._family(own, tuple(self.members[key]))

    def __iter__(self) -> Iterator[Family]:
        return iter(self.found.values())

    def of(self, module: Module) -> Family:
        return self.found[self.keys[module]]

    def is_stacked(self, family: Family) -> bool:
        """Whether records of its type stand in a stack anywhere."""
        return self.keys[family.modules[0]] in self.stacked

    def _collect(self, module: Module, stacked: bool) -> None:
        key = (module.key, module.numbers) if self.apart else module.key
        self.keys[module] = key
        self.members.setdefault(key, []).append(module)
        if stacked:
            self.stacked.add(key)
        for entry in module.entries:
            for inner in entry.modules:
                if inner not in self.keys:
                    self._collect(inner, stacked or entry.kind == "stack")

    def _inner_first(self) -> list[Hashable]:
        done: dict[Hashable, None] = {}

        def visit(module: Module) -> None:
            for entry in module.entries:
                for inner in entry.modules[:1]:
                    visit(inner)
            done.setdefault(self.keys[module])

        visit(self.main)
        for key, members in self.members.items():
            for member in members if key not in done else ():
                visit(member)
        return list(done)

    def _name(self, module: Module) -> str:
        """What the module's class is called without what all classes begin with, or its own name."""
        kind = self.classes.get(module.path)
        words = [re.sub(r"(?<=.)(?=[A-Z][a-z])", " ", c).split()[0] for c in self.classes.values()]
        family = next((w for w in words if sum(c.startswith(w) for c in self.classes.values()) > 2), "")
        plain = module.path[-1] if not module.path[-1].isdigit() else module.path[-2] if len(module.path) > 1 else "layer"
        name = (
            snake(kind.removeprefix(family) or kind)
            if kind not in (None, "Sequential", "ModuleList") and kind
            else identifier(plain)
        )
        name = re.sub(r"_?\d+$", "", name) or name
        name = free(name, self.taken)
        self.taken.add(name)
        return name

    def _family(self, name: str, members: tuple[Module, ...]) -> Family:
        sizes = _differing([self._sizes(m) for m in members], {"p", "x", "l"})
        braces = _differing([self._braces(m) for m in members], {"p", "x", *(n for n, _ in sizes)})
        known = {tuple(map(Dim.of, values)) for _, values in sizes}  # the record tells them
        braces = tuple((n, values) for n, values in braces if values not in known)
        return Family(name, members, braces, sizes, _fields(members[0], self._of_entry))

    def _of_entry(self, entry: Entry) -> str:
        if entry.modules:
            return self.of(entry.modules[0]).name
        return {"dense": "linear", "layer_norm": "norm"}.get(entry.kind, entry.kind.rstrip("123"))

    def _braces(self, module: Module) -> list[tuple[str, Dim]]:
        out: list[tuple[str, Dim]] = []
        for number, step in enumerate(module.steps):
            if number in module.inside:
                inner = module.inside[number][0]
                family = self.of(inner)
                out += [(n, values[family.place(inner)]) for n, values in family.braces]
            else:
                names = BRACES.get(step.op, ())
                out += [(names[i] if i < len(names) else "n", value) for i, value in enumerate(step.sizes)]
        return out

    def _sizes(self, module: Module) -> list[tuple[str, int]]:
        out: list[tuple[str, int]] = []
        for entry in module.entries:
            if entry.modules:
                inner = entry.modules[0]
                family = self.of(inner)
                out += [("n", len(entry.modules))] if entry.kind == "stack" else []
                out += [(n, values[family.place(inner)]) for n, values in family.sizes]
            else:
                letters = LETTERS.get(entry.kind, "")
                out += [(letters[i] if i < len(letters) else "e", extent) for i, extent in enumerate(entry.dims)]
        return out


def _differing(columns: Sequence[Sequence[tuple[str, V]]], reserved: set[str]) -> tuple[tuple[str, tuple[V, ...]], ...]:
    """Names for what is not the same in all modules; what is the same as another in each of them has that one's name."""
    found: dict[tuple[V, ...], str] = {}
    for row in zip(*columns, strict=True):
        values: tuple[V, ...] = tuple(value for _, value in row)
        if len({*values}) > 1 and values not in found:
            found[values] = _letter(row[0][0], {*found.values(), *reserved})
    return tuple((name, values) for values, name in found.items())


def _letter(wanted: str, taken: set[str]) -> str:
    """Another letter for one that is taken, a number after a word."""
    if wanted in taken and len(wanted) == 1:
        return next((letter for letter in "mkfeghuvw" if letter not in taken), free(wanted, taken))
    return free(wanted, taken)


def _fields(module: Module, kind: Callable[[Entry], str]) -> dict[Path, Path]:
    """Names for the entries of a record. Numbers are no names, and a list of one is none either."""
    paths = [entry.path for entry in module.entries]
    heads = {p[0] for p in paths if len(p) > 1 and not p[-1].isdigit()}
    short = len(heads) == 1 and not any(p[0].isdigit() for p in paths)
    shorter = {p: p[1:] if short and len(p) > 1 and p[0] in heads else p for p in paths}
    if short and (
        len({*shorter.values()}) < len(paths)
        or any(a != b and a == b[: len(a)] for a in shorter.values() for b in shorter.values())
    ):
        shorter = {p: p for p in paths}
    fields: dict[Path, Path] = {}
    for entry in module.entries:
        path = shorter[entry.path]
        *parent, last = path
        if last.isdigit():
            others = [p for p in shorter.values() if p[: len(parent)] == tuple(parent)]
            follows = any(p == (*parent, "rest") for p in others)
            beside = [e for e in module.entries if e.path != entry.path and e.path[:-1] == entry.path[:-1]]
            alike = any(kind(e) == kind(entry) for e in beside)
            name = "first" if follows else f"{kind(entry)}{last}" if alike else kind(entry)
            path = tuple(parent) if parent and len(others) == 1 else (*parent, name)
        fields[entry.path] = tuple(identifier(part) for part in path)
    return fields


@dataclass(frozen=True, slots=True)
class Field:
    """A tensor of the record of a graph: one weight, or those of a stack, or of a stack of stacks, in their order."""

    path: Path
    stacks: tuple[int, ...]
    weights: tuple[Weight, ...]


def fields_of(families: Families, weights: Mapping[Path, Weight]) -> tuple[Field, ...]:
    """What the record of a graph holds."""
    found: dict[Path, tuple[tuple[int, ...], list[Weight]]] = {}

    def visit(module: Module, field: Path, stacks: tuple[int, ...]) -> None:
        family = families.of(module)
        for entry in module.entries:
            inner = (*field, *family.fields[entry.path])
            for one in entry.modules:
                visit(one, inner, (*stacks, len(entry.modules)) if entry.kind == "stack" else stacks)
            whole = (*module.path, *entry.path)
            for path, weight in weights.items() if not entry.modules else ():
                if path[: len(whole)] == whole:
                    found.setdefault((*inner, *path[len(whole) :]), (stacks, []))[1].append(weight)

    visit(families.main, (), ())
    return tuple(Field(path, stacks, tuple(own)) for path, (stacks, own) in found.items())
