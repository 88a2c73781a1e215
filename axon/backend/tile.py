"""The tile IR: what one thread block does for one tile of the result, in tiles and memories, with no notion of threads.

    tile(i 128, j 256):
      product : f32[128, 256] registers = 0
      for k by 64:
        left : bf16[i 128, k 64] shared = load a[i, k]
        right : bf16[j 256, k 64] shared = load b[j, k]
        product += left · right over k
      store out[i, j] = cast bf16 product

A tile's axes are listed as it is stored, the contiguous one last: a transposed operand is a tile with its axes exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from axon.backend.contraction import Contraction, Operand
from axon.backend.render import Names, scalar_text
from axon.backend.schedule import Mapping
from axon.backend.unsupported import Unsupported
from axon.core import Scalar, Value
from axon.element import Element
from axon.names import Symbol, fresh
from axon.shapes.dimension import Dim

Memory: TypeAlias = Literal["shared", "registers"]


@dataclass(frozen=True, slots=True)
class TileAxis:
    """An index cut into pieces of `step`; the last piece may reach past the extent."""

    symbol: Symbol
    extent: Dim
    step: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A piece of a tensor in a memory: an element type and, for each axis it covers, how much of it."""

    symbol: Symbol
    element: Element
    axes: tuple[Symbol, ...]
    shape: tuple[int, ...]
    memory: Memory

    @property
    def bytes(self) -> int:
        size = self.element.bits // 8
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True, slots=True)
class Clear:
    tile: Tile


@dataclass(frozen=True, slots=True)
class Load:
    """Fill a tile from a tensor at the current pieces of `axes`, which are its dimensions `order`. Outside the tensor it is 0."""

    tile: Tile
    tensor: Symbol
    axes: tuple[Symbol, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Multiply:
    """accumulator[i, j] += sum over `over` of left * right."""

    accumulator: Tile
    left: Tile
    right: Tile
    over: Symbol


@dataclass(frozen=True, slots=True)
class Store:
    """tensor[axes] = expression, element by element over the accumulator's tile, inside the tensor."""

    tensor: Symbol
    element: Element
    axes: tuple[Symbol, ...]
    expression: Scalar
    product: Symbol  # the local that stands for the accumulator's element
    accumulator: Tile


@dataclass(frozen=True, slots=True)
class For:
    """The body once for each piece of an axis, in order."""

    axis: TileAxis
    body: tuple[Statement, ...]


Statement: TypeAlias = "Clear | Load | Multiply | Store | For"


@dataclass(frozen=True, slots=True)
class TileProgram:
    """`outer`, `rows` and `columns` cut the result into tiles; `body` makes one of them."""

    tensors: tuple[Value, ...]
    outer: tuple[TileAxis, ...]
    rows: TileAxis
    columns: TileAxis
    body: tuple[Statement, ...]

    @property
    def axes(self) -> tuple[TileAxis, ...]:
        return (*self.outer, self.rows, self.columns)


def tile(kernel: Contraction, mapping: Mapping, tensors: tuple[Value, ...]) -> TileProgram:
    """Cut a contraction into tiles as the mapping says. `tensors` are all that the kernel reads or stores."""
    rows = TileAxis(kernel.rows.symbol, kernel.rows.extent, mapping.rows)
    columns = TileAxis(kernel.columns.symbol, kernel.columns.extent, mapping.columns)
    depth = TileAxis(kernel.depth.symbol, kernel.depth.extent, mapping.depth)
    outer = tuple(TileAxis(a.symbol, a.extent, 1) for a in kernel.outer)
    steps = {a.symbol: a.step for a in (rows, columns, depth)}
    accumulator = Tile(fresh("acc"), Element.F32, (rows.symbol, columns.symbol), (rows.step, columns.step), "registers")
    left = _operand_tile("left", kernel.left, steps)
    right = _operand_tile("right", kernel.right, steps)
    loop = For(
        depth,
        (
            Load(left, kernel.left.value.symbol, kernel.left.axes, kernel.left.order),
            Load(right, kernel.right.value.symbol, kernel.right.axes, kernel.right.order),
            Multiply(accumulator, left, right, depth.symbol),
        ),
    )
    stores = tuple(
        Store(r.value.symbol, r.value.element, r.axes, r.expression, kernel.product, accumulator) for r in kernel.results
    )
    return TileProgram(tensors, outer, rows, columns, (Clear(accumulator), loop, *stores))


def _operand_tile(name: str, operand: Operand, steps: dict[Symbol, int]) -> Tile:
    axes = tuple(a for a in operand.axes if a in steps)
    if operand.axes[-1] not in steps:
        raise Unsupported("a factor's last dimension is neither reduced nor one of the result's last two")
    return Tile(fresh(name), operand.value.element, axes, tuple(steps[a] for a in axes), "shared")


def verify(program: TileProgram) -> None:
    """Raises AssertionError unless every tile is defined before its use and fits the axes it stands under."""
    steps = {a.symbol: a.step for a in program.axes}
    defined: set[Symbol] = set()

    def walk(body: tuple[Statement, ...], inside: dict[Symbol, int]) -> None:
        for statement in body:
            match statement:
                case Clear(tile=tile):
                    defined.add(tile.symbol)
                case Load(tile=tile, axes=axes):
                    assert set(tile.axes) <= set(axes) <= set(inside), "a load outside the loops of its axes"
                    assert tile.shape == tuple(inside[a] for a in tile.axes), "a tile that is not its axes' pieces"
                    defined.add(tile.symbol)
                case Multiply(accumulator=acc, left=left, right=right, over=over):
                    assert {acc.symbol, left.symbol, right.symbol} <= defined, "a product of undefined tiles"
                    both = set(left.axes) & set(right.axes)
                    assert over in both - set(acc.axes), "a product over no shared axis"
                    assert {left.memory, right.memory, acc.memory} == {"shared", "registers"}, "a product in other memories"
                case Store(axes=axes, accumulator=acc):
                    assert acc.symbol in defined, "a store of an undefined tile"
                    assert set(acc.axes) <= set(axes) <= set(inside), "a store outside its tile"
                case For(axis=axis, body=inner):
                    walk(inner, inside | {axis.symbol: axis.step})

    walk(program.body, steps)


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement, loops before their bodies."""
    for statement in body:
        yield statement
        if isinstance(statement, For):
            yield from statements(statement.body)


def render(program: TileProgram) -> str:
    """The program as text, deterministic."""
    names = Names()
    lines = [f"tile({', '.join(f'{names[a.symbol]} {a.step}' for a in program.axes)}):"]

    def walk(body: tuple[Statement, ...], indent: str) -> None:
        for statement in body:
            lines.append(indent + statement_text(statement, names))
            if isinstance(statement, For):
                walk(statement.body, indent + "  ")

    walk(program.body, "  ")
    return "\n".join(lines) + "\n"


def statement_text(statement: Statement, names: Names) -> str:
    match statement:
        case Clear(tile=tile):
            return f"{tile_text(tile, names)} = 0"
        case Load(tile=tile, tensor=tensor, axes=axes):
            return f"{tile_text(tile, names)} = load {names[tensor]}[{', '.join(names[a] for a in axes)}]"
        case Multiply(accumulator=acc, left=left, right=right, over=over):
            return f"{names[acc.symbol]} += {names[left.symbol]} · {names[right.symbol]} over {names[over]}"
        case Store(tensor=tensor, axes=axes, expression=expression):
            at = ", ".join(names[a] for a in axes)
            return f"store {names[tensor]}[{at}] : {statement.element.value} = {scalar_text(expression, names)}"
        case For(axis=axis):
            return f"for {names[axis.symbol]} by {axis.step}:"


def tile_text(tile: Tile, names: Names) -> str:
    shape = ", ".join(f"{names[a]} {n}" for a, n in zip(tile.axes, tile.shape, strict=True))
    return f"{names[tile.symbol]} : {tile.element.value}[{shape}] {tile.memory}"
