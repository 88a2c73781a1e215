"""A library finds and checks the sizes of a call as Python does: on signatures of every kind, at sizes that fit and that do not."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import axon
from axon.backend.c.contract import Contract
from axon.backend.c.header import COMMON
from axon.backend.c.identifiers import Identifiers
from axon.backend.c.source import INCLUDES, RUNTIME
from axon.backend.c.types import interface
from axon.core.ir import Program
from axon.explain.broken_call import contract_error
from axon.host.call import Callee
from axon.host.ranked import PYTHON, ranked
from axon.shapes.contracts.contract import ContractBroken
from axon.types.show import dimension_names

MODULE = """
fun plain (x : f32[n, m]) (y : f32[m, k]) = x @ y
fun number (x : f32[3, n]) = x[0, 0]
fun formula (x : f32[n + 3]) (y : f32[2 * n, n]) = sum i => y[i, 0]
fun product {h} (x : f32[h * c, c]) = x[0, 0]
fun square (x : f32[n * n + 1]) = sum i => x[i]
fun triangle (x : f32[n * (n + 1) / 2]) = sum i => x[i]
fun together (x : f32[n + m]) (y : f32[n - m]) = (sum i => x[i]) + sum i => y[i]
fun halves (x : f32[n / 2]) (y : f32[n % 2]) = (sum i => x[i]) + sum i => y[i]
fun windows (x : f32[n]) (k : f32[r]) = for p < n - r + 1 => sum i => x[p + i] * k[i]
fun shifted (x : f32[n]) = for i < n - 1 => x[i + 1] - x[i]
fun heads {h} (x : f32[n]) = for i < h, j => x[(i, j)]
fun least (x : f32[n]) (y : f32[m]) (z : f32[min n m]) = sum i => z[i]
fun flat (x : f32[a, b, c, d, e]) = for i < a * b * c * d * e => x[(i / (b * c * d * e)) % a, 0, 0, 0, 0]
fun ratio (x : f32[n]) (y : f32[m]) (z : f32[n / m]) = sum i => z[i]
fun record (p : { w : f32[i, o], b : f32[o], pair : (f32[i], f32[2 * o]) }) (x : f32[i]) = x[0] + p.b[0]
"""
CALLS = 150
Found = tuple[Callee, Program, Any, list[str]]


@pytest.fixture(scope="module")
def bindings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Found]]:
    """Every function's check in one library, with tensors as bare sizes."""
    folder, session = tmp_path_factory.mktemp("contract"), axon.compile(MODULE)._session
    head = "#define _GNU_SOURCE\n" + "".join(f"#include <{name}>\n" for name in (*INCLUDES, "stdint.h", "stdbool.h")) + COMMON
    texts, found = [head, (RUNTIME / "base.c").read_text(), "struct axon_sizes { int64_t sizes[8]; };"], dict[str, Found]()
    for name in session.checked.signatures:
        callee = session.callee(name)
        program = ranked(session, callee, {}, {}, {}, PYTHON).program
        names, made = Identifiers(), interface(program, name)
        names.taken |= set(made.explicit)
        dims = {symbol: names.new(symbol.name) for symbol in program.contract.determination.order}
        size_names = dimension_names(session.checked.state, callee.scheme)
        contract = Contract(program, made, name, callee.signature, dims, names, lambda s, n=size_names: n.get(s, s.name))
        body = "\n    ".join(contract.write())
        for position, slot in enumerate(made.inputs):
            body = body.replace(slot.at("sizes["), f"tensors[{position}].sizes[")
        given = ", ".join(["const struct axon_sizes *tensors", *(f"int64_t {own}" for own in made.explicit)])
        fields = " ".join(f"int64_t {own};" for own in dims.values())
        texts.append(f"#undef AX_SIGNATURE\n{contract.signature}\nstruct sizes_of_{name} {{ {fields} }};")
        texts.append(f"int bind_{name}(struct sizes_of_{name} *sizes, {given})\n{{\n    {body}\n}}")
        found[name] = callee, program, size_names, list(dims)
    texts.append("const char *error(void) { return ax_text_of_error; }")
    texts.append("void row_strides(int64_t *strides, const int64_t *sizes, int rank) { ax_row_strides(strides, sizes, rank); }")
    texts.append("int in_rows(const int64_t *sizes, const int64_t *strides, int rank) { return ax_in_rows(sizes, strides, rank); }")
    (folder / "contract.c").write_text("\n".join(texts) + "\n")
    command = ["cc", "-O1", "-shared", "-fPIC", "-Wall", "-Wno-unused", "-Werror", "contract.c", "-o", "contract.so", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    library = ctypes.CDLL(str(folder / "contract.so"))
    library.error.restype = ctypes.c_char_p
    return library, found


def calls(program: Program, random: Random) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Dimension parameters and shapes: such as sizes make, and some of these with one extent changed."""
    contract = program.contract
    for number in range(CALLS):
        pool = [0, 1, 2, 1000, 46341, 2**31 - 1] if number % 8 == 7 else [0, 1, 2, 3, 4, 6, 9]
        sizes = {symbol: random.choice(pool) for symbol in sorted(contract.variables, key=lambda s: s.id)}
        try:
            shapes = [[max(0, dim.evaluate(sizes)) for dim in shape.dims] for shape in contract.shapes]
        except ZeroDivisionError:
            continue
        if number % 3 == 0:
            shape = random.choice([shape for shape in shapes if shape])
            place = random.randrange(len(shape))
            shape[place] = max(0, shape[place] + random.choice([-1, 1, 2]))
        if max(max(shape, default=0) for shape in shapes) < 2**31:
            yield [sizes[symbol] for symbol in contract.explicit], shapes


@pytest.mark.parametrize("name", [line.split()[1] for line in MODULE.strip().splitlines()])
def test_as_in_python(name: str, bindings: tuple[Any, dict[str, Found]]) -> None:
    library, found = bindings
    callee, program, size_names, order = found[name]
    contract, outcomes = program.contract, set[bool]()
    for explicit, shapes in calls(program, Random(name)):
        tensors = (ctypes.c_int64 * (8 * len(shapes)))()
        for position, shape in enumerate(shapes):
            tensors[8 * position : 8 * position + len(shape)] = shape
        sizes = (ctypes.c_int64 * max(1, len(order)))()
        code = library[f"bind_{name}"](sizes, tensors, *map(ctypes.c_int64, explicit))
        outcomes.add(code == 0)
        try:
            expected = contract.bind(explicit, shapes)
        except ContractBroken as broken:
            error = contract_error(name, broken, contract, explicit, shapes, {}, callee.signature, size_names)
            assert code == 501, (explicit, shapes)
            first, *notes = library.error().decode().splitlines()
            assert first == f"error[AX0501]: {error.diagnostics[0].message}"
            sources = {note.removeprefix("  = ") for note in notes if " is dimension " in note or "sig " in note}
            assert sources <= set(error.diagnostics[0].notes)
            assert notes
        else:
            assert (code, list(sizes)[: len(order)]) == (0, [expected[symbol] for symbol in order]), (explicit, shapes)
    assert outcomes == {True, False}


@pytest.mark.parametrize("sizes", [(2, 3, 4), (3, 1 << 20, 1 << 20), (2, 3, 1 << 31), (2, 5, 1 << 32), (1 << 40, 1, 1 << 20), (7,)])
def test_strides_of_large_tensors(bindings: tuple[Any, dict[str, Found]], sizes: tuple[int, ...]) -> None:
    library, _ = bindings
    rank = len(sizes)
    of_sizes, strides = (ctypes.c_int64 * rank)(*sizes), (ctypes.c_int64 * rank)()
    library.row_strides(strides, of_sizes, rank)
    assert list(strides) == [math.prod(sizes[d + 1 :]) for d in range(rank)]
    assert library.in_rows(of_sizes, strides, rank) == 1
