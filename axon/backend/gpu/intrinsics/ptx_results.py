"""Results on their way from a warpgroup's tile of 64 rows in registers to memory, as numba-cuda intrinsics.

Where the values of a tile are is said in `ptx_tiles`. A *quad* are the four values of a thread in 8 neighbouring columns: of rows
h = 0 and 1, two neighbours each. A function, if there is one, makes a quad of results from a quad of the tile, or of each of
several `tiles`, its first column, where it asks for that, and what else it is given. Sums of integers that are stored as they are
go as floats of the same bits. The loops here run while a kernel is compiled,
and leave straight code: loads, results and stores of 8 columns, one after the other, so that few results are alive at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba.cuda import types

from axon.backend.gpu.intrinsics.ptx import _CODES, INSTRUCTIONS, _call, _fit, with_arity

_I32, _F32 = ir.IntType(32), ir.FloatType()
_FOUR = types.UniTuple(types.float32, 4)
Quads = Iterator[tuple[int, list[Any]]]


def _storing(
    places: dict[str, str],
    first: int,
    width: int,
    function: Any,
    given: int,
    by_column: bool,
    tiles: int,
    store: Callable[..., None],
) -> Any:
    """(places…, tiles…, first column if the function asks, what else it is given…): store `width` columns of a tile from one on.
    Places have the codes of operands."""
    held = [f"tile_{i}" if i else "tile" for i in range(tiles)]
    names = [*places, *held, *(["column"] if by_column else []), *[f"x{i}" for i in range(given)]]

    def typing(context: Any, *arguments: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            behind = len(places) + tiles
            at, sums, more = values[: len(places)], values[len(places) : behind], list(values[behind:])
            kinds = signature.args[behind:]
            codes = zip(places.values(), at, signature.args, strict=False)
            at = [_fit(builder, value, kind, _CODES[code][0]) for code, value, kind in codes]

            def quads() -> Quads:
                for group in range(width // 8):
                    quad = [builder.extract_value(tile, (first + 8 * group) // 2 + i) for tile in sums for i in range(4)]
                    of_sums = [kind.dtype for kind in signature.args[len(places) : behind] for _ in range(4)]
                    if function is not None:
                        passed = list(more)
                        if by_column:
                            passed[0] = builder.add(more[0], ir.Constant(more[0].type, first + 8 * group), flags=["nsw"])
                        made = target.compile_internal(builder, function, _FOUR(*of_sums, *kinds), [*quad, *passed])
                        quad = [builder.extract_value(made, i) for i in range(4)]
                    quad = [builder.bitcast(value, _F32) if value.type == _I32 else value for value in quad]
                    yield group, quad

            store(builder, at, quads())
            return target.get_dummy_value()

        return types.void(*arguments), generate

    return with_arity(typing, names)


def _shared(builder: Any, to: Any, chunk: Any, swizzle: Any, further: int) -> Any:
    """The address of a chunk of 16 bytes in a row in shared memory, where it is swizzled."""
    place = builder.xor(builder.add(chunk, ir.Constant(_I32, further)), swizzle)
    return builder.add(to, builder.shl(place, ir.Constant(_I32, 4)))


def write_words(
    element: str, first: int, width: int, function: Any = None, given: int = 0, by_column: bool = False, tiles: int = 1
) -> Any:
    """(address of this thread's row of a matrix store, its chunk of the first 16 columns, swizzle, …): in 16 bits."""
    pack = f"cvt.rn.{element}x2.f32 $0, $2, $1;"

    def store(builder: Any, at: list[Any], quads: Quads) -> None:
        to, chunk, swizzle = at
        words: list[Any] = []
        for group, quad in quads:
            words += [_call(builder, _I32, pack, ["=r", "f", "f"], quad[i : i + 2], volatile=False) for i in (0, 2)]
            if group % 2:
                _instruction(builder, "stmatrix", [_shared(builder, to, chunk, swizzle, group - 1), *words])
                words = []

    return _storing({"to": "r", "chunk": "r", "swizzle": "r"}, first, width, function, given, by_column, tiles, store)


def write_floats(first: int, width: int, function: Any = None, given: int = 0, by_column: bool = False, tiles: int = 1) -> Any:
    """(addresses of two neighbours in this thread's first row and in its second, chunk of 4 columns, swizzle, …): as f32."""

    def store(builder: Any, at: list[Any], quads: Quads) -> None:
        *rows, chunk, swizzle = at
        for group, quad in quads:
            for half, row in enumerate(rows):
                to = _shared(builder, row, chunk, swizzle, 2 * group)
                _instruction(builder, "store_shared_2f32", [to, *quad[2 * half : 2 * half + 2]])

    return _storing(
        {"row_0": "r", "row_1": "r", "chunk": "r", "swizzle": "r"}, first, width, function, given, by_column, tiles, store
    )


def scatter(
    element: str, first: int, width: int, function: Any = None, given: int = 0, by_column: bool = False, tiles: int = 1
) -> Any:
    """(addresses of this thread's rows in global memory, its first column, bytes from column to column, columns, whether the rows
    are inside, …): element by element, what is inside."""

    def store(builder: Any, at: list[Any], quads: Quads) -> None:
        *starts, column, step, columns, inside_0, inside_1 = at
        for group, quad in quads:
            place = builder.add(column, ir.Constant(_I32, first + 8 * group))
            _instruction(builder, f"scatter_{element}", [*starts, place, step, columns, inside_0, inside_1, *quad])

    places = {"start_0": "l", "start_1": "l", "at": "r", "step": "l", "columns": "r", "inside_0": "r", "inside_1": "r"}
    return _storing(places, first, width, function, given, by_column, tiles, store)


def _instruction(builder: Any, name: str, operands: list[Any]) -> None:
    entry = INSTRUCTIONS[name]
    _call(builder, ir.VoidType(), entry.text, [*entry.operands, "~{memory}"], operands)
