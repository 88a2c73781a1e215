"""What a function takes and gives as types of C: a struct for each tensor, records and tuples as structs of those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

from axon.backend.c.identifiers import Identifiers, entries, identifier
from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.core.ir import Leaf, Program, RecordOf, Structure, TupleOf, Value
from axon.core.walk import results_of

C_TYPES = {
    Element.F64: "double", Element.F32: "float", Element.F16: "axon_f16", Element.BF16: "axon_bf16", Element.F8E4M3: "axon_f8e4m3",
    Element.F8E5M2: "axon_f8e5m2", Element.I64: "int64_t", Element.I32: "int32_t", Element.I16: "int16_t", Element.I8: "int8_t",
    Element.U64: "uint64_t", Element.U32: "uint32_t", Element.U16: "uint16_t", Element.U8: "uint8_t", Element.BOOL: "bool",
}  # fmt: skip


def item(element: Element) -> int:
    """Bytes of an element."""
    return max(1, element.bits // 8)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """By value."""

    element: Element

    @property
    def name(self) -> str:
        return C_TYPES[self.element]


@dataclass(frozen=True, slots=True)
class TensorType:
    element: Element
    rank: int

    @property
    def name(self) -> str:
        return f"axon_{self.element.value}_{self.rank}"


@dataclass(frozen=True, slots=True)
class StructType:
    """Of a record or a tuple; `name` is that of the first place where one with these fields is met."""

    name: str
    fields: tuple[tuple[str, CType], ...]


CType: TypeAlias = "ScalarType | TensorType | StructType"


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor or a scalar that is passed: where it is in C, and what it is called in Axon, `p.w`."""

    place: str
    path: str
    value: Value

    def at(self, member: str) -> str:
        """A member of a tensor's struct."""
        return f"{self.place[2:-1]}->{member}" if self.place.startswith("(*") else f"{self.place}.{member}"


@dataclass(frozen=True, slots=True)
class Interface:
    """What callers see: parameters by name with their types (of tensors and structs, pointers), and the result's type.

    `inputs` are in the order of the program's, `results` in that of its results; `structs` in the order in which they are declared.
    """

    explicit: tuple[str, ...]
    params: tuple[tuple[str, CType], ...]
    inputs: tuple[Slot, ...]
    result: CType | None
    results: tuple[Slot, ...]
    structs: tuple[StructType, ...]
    tensors: tuple[TensorType, ...]


@dataclass(slots=True)
class _Types:
    function: str
    values: Sequence[Value]
    structs: dict[tuple[tuple[str, CType], ...], StructType] = field(default_factory=dict)
    tensors: dict[TensorType, None] = field(default_factory=dict)
    names: Identifiers = field(default_factory=Identifiers)

    def of(self, structure: Structure, name: str) -> CType | None:
        """The type of a structure; None where there is nothing in it."""
        if isinstance(structure, Leaf):
            value = self.values[structure.position]
            if not value.shape:
                return ScalarType(value.element)
            found = TensorType(value.element, len(value.shape))
            self.tensors[found] = None
            return found
        parts = ((own, self.of(part, f"{name}_{own.strip('_')}")) for own, _, part in _members(structure))
        key = tuple((own, type) for own, type in parts if type is not None)
        if not key:
            return None
        if key not in self.structs:
            self.structs[key] = StructType(self.names.unique(f"{self.function}_{name}"), key)
        return self.structs[key]


def _members(structure: TupleOf | RecordOf) -> Iterator[tuple[str, str, Structure]]:
    """The fields of a struct: as C calls them, as Axon does, and what they hold. Items of a tuple are _1, _2 …"""
    names = Identifiers(frozenset())
    match structure:
        case TupleOf(items=items):
            yield from ((f"_{n}", str(n), item) for n, item in enumerate(items, 1))
        case RecordOf(fields=fields):
            yield from ((names.new(name), name, part) for name, part in fields)
        case _:
            assert_never(structure)


def interface(program: Program, function: str) -> Interface:
    names = Identifiers()
    explicit = tuple(names.new(symbol.name) for symbol in program.explicit)
    types = _Types(function, program.inputs)
    types.names.taken |= {function, *entries(function)}
    params: list[tuple[str, CType]] = []
    inputs: dict[int, Slot] = {}
    for param in program.params:
        type = types.of(param.structure, identifier(param.name).strip("_"))
        if type is None:
            continue
        own = names.new(param.name)
        params.append((own, type))
        at = own if isinstance(type, ScalarType) else f"(*{own})" if isinstance(type, TensorType) else own
        for position, place, path in _slots(param.structure, at, param.name, first=isinstance(type, StructType)):
            inputs[position] = Slot(place, path, program.inputs[position])
    made = results_of(program)
    types.values = made
    result = types.of(program.result, "result")
    found: dict[int, Slot] = {}
    at = "out" if isinstance(result, StructType) else "(*out)"
    for position, place, path in _slots(program.result, at, "out", first=isinstance(result, StructType)):
        found[position] = Slot(place, path, made[position])
    return Interface(
        explicit,
        tuple(params),
        tuple(inputs[n] for n in range(len(program.inputs))),
        result,
        tuple(found[n] for n in range(len(made))),
        tuple(types.structs.values()),
        tuple(types.tensors),
    )


def _slots(structure: Structure, place: str, path: str, *, first: bool) -> Iterator[tuple[int, str, str]]:
    """Positions with their places in C and their paths; `first` of what is behind a pointer."""
    if isinstance(structure, Leaf):
        yield structure.position, place, path
        return
    for own, name, part in _members(structure):
        yield from _slots(part, f"{place}{'->' if first else '.'}{own}", f"{path}.{name}", first=False)


def declared(type: CType, name: str, *, out: bool = False) -> str:
    """A parameter of a function."""
    if isinstance(type, ScalarType) and not out:
        return f"{type.name} {name}"
    return f"{'' if out else 'const '}{type.name} *{name}"
