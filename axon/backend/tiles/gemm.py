"""Products of matrices as lines of a table, and machine code that has BLAS compute them.

    multiplied    where matrices lie in memory, one triple for each piece -> the table; None of what BLAS does not take
    module        the machine code, in LLVM's IR
    laid          how a tensor lies and how it is to lie -> a table of blocks to copy; None where it would be too long
    text          the function that copies them, in the words of kernels

Each line is one call of BLAS, or one for each element of a batch, whichever thread takes it: bits follow from the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from axon.base.data import dataclass

Array = Any
LINES = 1 << 13  # of a table, at most
TYPES = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}

# ── words of a line; numbers of elements, of a product row by row ─────────────────────────────────────────────────────────
TURN_A, TURN_B, M, N, K, A, LDA, B, LDB, C, LDC, COUNT, STEP_A, STEP_B, STEP_C = range(15)
WORDS = 15
_ROWS, _AS_IS, _TURNED = 101, 111, 112  # CBLAS's words: row by row, as it lies, transposed


@dataclass(frozen=True, slots=True)
class Place:
    """A matrix, or a batch of them: how many bytes after its memory's first element it begins, its shape, and strides in bytes."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Multiplied:
    """Products as lines of a table, by a function of CBLAS, such as `sgemm`."""

    kind: str
    swapped: bool  # the right operand is BLAS's first
    table: Array


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def multiplied(pieces: Sequence[tuple[Place, Place, Place]], dtype: Any) -> Multiplied | None:
    """Left operands, right operands and results of matrix products."""
    letter = TYPES.get(dtype)
    if letter is None or not pieces or not all(pieces[0]):
        return None
    rows, columns = pieces[0][2].shape[-2:]
    vector = all(min(out.shape[-2:]) == 1 for _, _, out in pieces)
    kind = f"{letter}{'gemv' if vector else 'gemm'}"
    swapped = rows == 1 and columns > 1 if vector else not _is_in_rows(pieces[0][2], dtype.itemsize)
    lines: list[list[int]] = []
    for left, right, out in pieces:
        if vector and swapped != (out.shape[-2] == 1 and out.shape[-1] > 1):
            return None
        if swapped:
            left, right, out = _turned(right), _turned(left), _turned(out)
        line = (_by_vector if vector else _by_matrix)(left, right, out, dtype.itemsize)
        if line is None:
            return None
        batch = _batch(left, right, out, dtype.itemsize)
        if batch is None or len(lines) + len(batch) > LINES:
            return None
        for a, b, c, count, *steps in batch:
            mine = list(line)
            for word, offset in ((A, a), (B, b), (C, c)):
                mine[word] += offset
            mine[COUNT:] = [count, *steps]
            lines.append(mine)
    return Multiplied(kind, swapped, np.array(lines, np.int64))


def _turned(place: Place) -> Place:
    *lead, rows, columns = place.shape
    *steps, over, along = place.strides
    return Place(place.offset, (*lead, columns, rows), (*steps, along, over))


def _is_in_rows(place: Place, item: int) -> bool:
    """Whether a matrix lies row by row."""
    (rows, columns), (over, along) = place.shape[-2:], place.strides[-2:]
    return (columns == 1 or along == item) and (rows == 1 or over >= columns * item)


def _laid(place: Place, item: int) -> tuple[int, int, int, int, int] | None:
    """A matrix as BLAS takes it: turned or not, the rows and columns that lie in memory, from one row to the next, the offset."""
    if any(number % item for number in (place.offset, *place.strides)):
        return None
    (rows, columns), (over, along) = place.shape[-2:], place.strides[-2:]
    if _is_in_rows(place, item):
        return _AS_IS, rows, columns, over // item if rows > 1 else columns, place.offset // item
    if _is_in_rows(_turned(place), item):
        return _TURNED, columns, rows, along // item if columns > 1 else rows, place.offset // item
    return None


def _by_matrix(left: Place, right: Place, out: Place, item: int) -> list[int] | None:
    a, b, c = (_laid(place, item) for place in (left, right, out))
    if a is None or b is None or c is None or c[0] != _AS_IS:
        return None
    (rows, columns), deep = out.shape[-2:], left.shape[-1]
    return [a[0], b[0], rows, columns, deep, a[4], a[3], b[4], b[3], c[4], c[3]]


def _by_vector(left: Place, right: Place, out: Place, item: int) -> list[int] | None:
    """A matrix by a vector, whose elements and whose result's are some number apart."""
    a = _laid(left, item)
    apart = [place.strides[-2] if place.shape[-2] > 1 else item for place in (right, out)]
    if a is None or any(step <= 0 or step % item for step in apart) or any(place.offset % item for place in (right, out)):
        return None
    return [a[0], 0, a[1], a[2], 0, a[4], a[3], right.offset // item, apart[0] // item, out.offset // item, apart[1] // item]


def _batch(left: Place, right: Place, out: Place, item: int) -> list[list[int]] | None:
    """Offsets of the three, how many follow at once, and their steps: the longest dimension of a batch, for each place along the
    others."""
    places = (left, right, out)
    sizes = out.shape[:-2]
    strides = [[step if size > 1 else 0 for size, step in zip(p.shape, p.strides[:-2], strict=False)] for p in places]
    if any(step % item for each in strides for step in each):
        return None
    dims = [(size, [each[n] // item for each in strides]) for n, size in enumerate(sizes) if size > 1]
    dims = _merged(dims)
    if not dims:
        return [[0, 0, 0, 1, 0, 0, 0]]
    longest = max(range(len(dims)), key=lambda n: dims[n][0])
    count, steps = dims.pop(longest)
    if prod(size for size, _ in dims) > LINES:
        return None
    found = []
    for index in np.ndindex(*[size for size, _ in dims]):
        offsets = [sum(i * step[n] for i, (_, step) in zip(index, dims, strict=True)) for n in range(3)]
        found.append([*offsets, count, *steps])
    return found


def _merged(dims: Sequence[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    """Neighbouring dimensions as one, where all three lie so."""
    found: list[tuple[int, list[int]]] = []
    for size, steps in dims:
        if found and all(before == size * step for before, step in zip(found[-1][1], steps, strict=True)):
            found[-1] = (found[-1][0] * size, steps)
        else:
            found.append((size, steps))
    return found


# ── copies ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

BLOCK = 16  # rows and columns of a block that is turned: about a line of the cache each
TURN = 8  # columns that are turned at once
RUN = 1 << 12  # elements side by side that are copied at once
BLOCKS = 1 << 16  # of a table, at most


@dataclass(frozen=True, slots=True)
class Laid:
    """A copy by blocks: (first element, first element of the copy, rows, columns) each, in numbers of elements, and the steps of a
    column and of a row in both."""

    table: Array
    steps: tuple[int, int, int, int]
    count: int  # elements

    @property
    def form(self) -> tuple[bool, bool, bool]:
        """Whether columns lie side by side, before and after, and rows before."""
        return self.steps[0] == 1, self.steps[1] == 1, self.steps[2] == 1


def laid(shape: Sequence[int], before: Sequence[int], after: Sequence[int], item: int) -> Laid | None:
    """Strides are in bytes. Columns are along what lies side by side in the copy, rows along what does so before."""
    if any(step % item for step in (*before, *after)):
        return None
    dims = [(size, [x // item, y // item]) for size, x, y in zip(shape, before, after, strict=True) if size > 1]
    dims = _merged(sorted(dims, key=lambda dim: -dim[1][1])) or [(1, [1, 1])]
    columns = dims.pop()
    row = min(range(len(dims)), key=lambda n: (dims[n][1][0], dims[n][1][1])) if dims else 0
    rows = dims.pop(row) if dims else (1, [0, 0])
    turned = columns[1][0] > rows[1][0] > 0
    high, wide = BLOCK, BLOCK if turned else RUN
    count = prod(size for size, _ in dims) * -(-rows[0] // high) * -(-columns[0] // wide)
    if count > BLOCKS:
        return None
    found = np.zeros((1, 2), np.int64)
    for size, steps in dims:
        found = (found[:, None] + np.arange(size)[:, None] * np.array(steps)).reshape(-1, 2)
    tables = []
    for i in range(0, rows[0], high):
        for k in range(0, columns[0], wide):
            start = found + (i * np.array(rows[1]) + k * np.array(columns[1]))
            sides = np.broadcast_to([min(high, rows[0] - i), min(wide, columns[0] - k)], found.shape)
            tables.append(np.concatenate([start, sides], axis=1))
    table = np.ascontiguousarray(np.stack(tables, axis=1).reshape(-1, 4), np.int64)  # the blocks of a matrix follow each other
    return Laid(table, (columns[1][0], columns[1][1], rows[1][0], rows[1][1]), prod(shape))


def text(element: str, form: tuple[bool, bool, bool]) -> str:
    """Of the tensor, the copy, memory of a thread for a block of BLOCK rows and columns, the table and the steps."""
    inside = _block(element, form)
    if form == (False, True, True):
        indented = "".join(f"    {line}\n" for line in inside.splitlines())
        whole = f"        if high >= {BLOCK} and wide >= {BLOCK}:\n"
        inside = whole + _turned_block(element) + "        else:\n" + indented
    return f"""\
def lay(x, y, turning, blocks, over, to_over, down, to_down, first, last):
    for block in range(first, last):
        begin = load_i64(blocks, 4 * block)
        to = load_i64(blocks, 4 * block + 1)
        high = load_i64(blocks, 4 * block + 2)
        wide = load_i64(blocks, 4 * block + 3)
{inside}    return 0
"""


def _block(element: str, form: tuple[bool, bool, bool]) -> str:
    x, y = ("k" if beside else f"k * {step}" for beside, step in zip(form[:2], ("over", "to_over"), strict=True))
    return f"""\
        for i in range(high):
            mine = begin + i * down
            its = to + i * to_down
            for k in range(wide):
                store_{element}(y, its + {y}, load_{element}(x, mine + {x}))
"""


def _turned_block(element: str) -> str:
    """TURN columns are read at once, each beside itself, and written next to each other; then these short vectors are put in their
    places: all of it by vectors, of a block that is whole."""
    places = "".join(f"                from{n} = begin + (g * {TURN} + {n}) * over\n" for n in range(TURN))
    taken = "".join(
        f"                    store_{element}(turning, at + column * {TURN} + {n}, load_{element}(x, from{n} + column))\n"
        for n in range(TURN)
    )
    return f"""\
            for g in range({BLOCK // TURN}):
                at = g * {TURN * BLOCK}
{places}                for column in range({BLOCK}):
{taken}            for row in range({BLOCK}):
                for group in range({BLOCK // TURN}):
                    for n in range({TURN}):
                        value = load_{element}(turning, group * {TURN * BLOCK} + row * {TURN} + n)
                        store_{element}(y, to + row * to_down + group * {TURN} + n, value)
"""


# ── the machine code ──────────────────────────────────────────────────────────────────────────────────────────────────────


NAME = "axon.multiply"


def module(triple: str, kind: str, bits: int) -> Any:
    """Lines first to last of a table, of BLAS's function and the operands' and the result's addresses. See Note [Convention] in
    `lowering`."""
    from llvmlite import ir  # late: what is found on disk needs none of it

    word, enum, whole = ir.IntType(64), ir.IntType(32), ir.IntType(bits)
    element = ir.FloatType() if kind[0] == "s" else ir.DoubleType()
    at = element.as_pointer()
    written: Any = ir.Module("multiply")
    written.triple = triple
    type = ir.FunctionType(enum, [word.as_pointer(), word.as_pointer(), *[word] * 7])
    function: Any = ir.Function(written, type, NAME)
    result, _, blas_function, table, first_operand, second_operand, made, first, last = function.args
    start, lines, line, each, one, next_line, end = (
        function.append_basic_block(name) for name in ("start", "lines", "line", "each", "one", "next", "end")
    )
    b: Any = ir.IRBuilder(start)

    def number(n: int) -> Any:
        return ir.Constant(word, n)

    b.store(number(0), b.bitcast(result, word.as_pointer()))
    size = number(4 if kind[0] == "s" else 8)
    b.branch(lines)
    b.position_at_end(lines)
    at_line = b.phi(word)
    at_line.add_incoming(first, start)
    b.cbranch(b.icmp_signed("<", at_line, last), line, end)
    b.position_at_end(line)
    base = b.add(table, b.mul(at_line, number(8 * WORDS)))
    words = [b.load(b.inttoptr(b.add(base, number(8 * n)), word.as_pointer())) for n in range(WORDS)]
    b.branch(each)
    b.position_at_end(each)
    count = b.phi(word)
    count.add_incoming(number(0), line)
    b.cbranch(b.icmp_signed("<", count, words[COUNT]), one, next_line)
    b.position_at_end(one)

    def place(memory: Any, offset: int, step: int) -> Any:
        elements = b.add(words[offset], b.mul(count, words[step]))
        return b.inttoptr(b.add(memory, b.mul(elements, size)), at)

    def narrow(n: int, type: Any) -> Any:
        return words[n] if type == word else b.trunc(words[n], type)

    x, y, z = place(first_operand, A, STEP_A), place(second_operand, B, STEP_B), place(made, C, STEP_C)
    order, one_, zero = ir.Constant(enum, _ROWS), ir.Constant(element, 1.0), ir.Constant(element, 0.0)
    if kind.endswith("gemv"):
        sizes = [narrow(TURN_A, enum), narrow(M, whole), narrow(N, whole)]
    else:
        sizes = [*[narrow(n, enum) for n in (TURN_A, TURN_B)], *[narrow(n, whole) for n in (M, N, K)]]
    given = [order, *sizes, one_, x, narrow(LDA, whole), y, narrow(LDB, whole), zero, z, narrow(LDC, whole)]
    called = ir.FunctionType(ir.VoidType(), [value.type for value in given])
    b.call(b.inttoptr(blas_function, called.as_pointer()), given)
    count.add_incoming(b.add(count, number(1)), one)
    b.branch(each)
    b.position_at_end(next_line)
    at_line.add_incoming(b.add(at_line, number(1)), next_line)
    b.branch(lines)
    b.position_at_end(end)
    b.ret(ir.Constant(enum, 0))
    return written
