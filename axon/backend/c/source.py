"""The C of a library: the runtime's text, the contract, the functions that run the plan, and those that callers see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from axon.backend.c.calls import Calls, Written
from axon.backend.c.contract import Contract
from axon.backend.c.diagnosis import NestFunctions
from axon.backend.c.header import Described, header, parameters
from axon.backend.c.identifiers import Identifiers, entries
from axon.backend.c.sizes import quoted, size
from axon.backend.c.types import Interface, ScalarType, Slot, interface, item
from axon.backend.plan.ir import Kernels, Nest, Plan, Repeat, Whole, kernels_in
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Compress, Program
from axon.core.scalar_facts import at_least_0

RUNTIME = Path(__file__).with_name("runtime")
INCLUDES = ("pthread.h", "sched.h", "signal.h", "stdarg.h", "stdio.h", "stdlib.h", "string.h", "unistd.h")


def texts(
    program: Program,
    plan: Plan,
    functions: IdentityMap[Nest, NestFunctions],
    about: Described,
    tables: Mapping[Symbol, Any],
) -> tuple[str, str]:
    """The library's header, and its C. `functions` are those of the plan's nests, `tables` literal tensors."""
    own = about.symbol
    made = interface(program, own)
    names = Identifiers()
    names.taken |= {*made.explicit, *(name for name, _ in made.params), own, *entries(own)}
    known = dict.fromkeys([*program.contract.determination.order, *program.contract.idle])
    dims = {symbol: names.new(symbol.name) for symbol in dict.fromkeys([*known, *_found_later(plan.body)])}
    sized = [all(dim.variables <= known.keys() for dim in slot.value.shape) for slot in made.results]
    contract = Contract(program, made, about.name, about.signature, dims, names, about.size_name)
    data = {symbol: f"ax_table_{n}" for n, symbol in enumerate(tables)}
    written = Calls(plan, made, functions, dims, data, names).write(sized)
    parts = [
        f"/* `{about.name}` of {about.source}, as {own}.h declares it: written by `axon build`, to be read and not edited. */",
        f'#define _GNU_SOURCE\n#pragma GCC visibility push(default)\n#include "{own}.h"\n#pragma GCC visibility pop',
        "\n".join(f"#include <{name}>" for name in INCLUDES),
        _runtime(written),
        *(table(data[symbol], array.tobytes()) for symbol, array in tables.items()),
        "\n".join(["struct ax_sizes {", *(f"    int64_t {name};" for name in dims.values() or ["none"]), "};"]),
        contract.signature,
        function("static int ax_bind", f"struct ax_sizes *sizes{more(made, out=False)}", contract.write()),
        *written.kernels,
        function("static int ax_run", f"struct ax_sizes *sizes{more(made)}, int into, const bool *direct", written.body),
        *Entries(made, own, sized, dims).all(),
    ]
    return header(program, made, about, sized), "\n\n".join(parts) + "\n"


def text(name: str) -> str:
    """A part of the runtime."""
    return (RUNTIME / name).read_text(encoding="utf-8")


def _runtime(written: Written) -> str:
    parts = [
        text("base.c"),
        text("host.c"),
        *([text("sort.c")] if written.sorts else []),
        *([text("products.c")] if written.products else []),
    ]
    for element in sorted(written.products):
        macros = (
            f"#define AXON_ELEMENT {'float' if element == 'f32' else 'double'}\n#define AXON_NAME(name) ax_##name##_{element}\n"
        )
        parts.append(macros + text("product.c"))
    return "\n".join(parts).rstrip()


def _found_later(kernels: Kernels) -> list[Symbol]:
    """Sizes that a call finds as it goes: what compresses leave, and counters of loops."""
    found: list[Symbol] = []
    for kernel in kernels_in(kernels):
        match kernel:
            case Whole(op=Compress(size=symbol)):
                found.append(symbol)
            case Repeat(op=op):
                found.append(op.counter)
            case _:
                pass
    return found


def table(name: str, data: bytes) -> str:
    """Bytes as an array of C."""
    rows = (", ".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32))
    return f"static const unsigned char {name}[] __attribute__((aligned(64))) = {{\n    " + ",\n    ".join(rows) + "};"


def more(made: Interface, *, out: bool = True) -> str:
    found = parameters(made, out=out)
    return "" if found == "void" else f", {found}"


def function(head: str, given: str, body: Iterable[str]) -> str:
    """A function; lines of its body that end in a colon are labels."""
    lines = (line if not line or line.endswith(":") else f"    {line}" for line in body)
    return "\n".join([f"{head}({given})", "{", *lines, "}"])


class Entries:
    """The functions that callers see."""

    def __init__(self, made: Interface, symbol: str, sized: Sequence[bool], dims: Mapping[Symbol, str]) -> None:
        self.made, self.symbol, self.sized, self.dims = made, symbol, sized, dims
        self.given = "".join(f", {name}" for name in (*made.explicit, *(name for name, _ in made.params)))
        self.tensors = [(n, slot) for n, slot in enumerate(made.results) if slot.value.shape]

    def all(self) -> list[str]:
        found = [self.shapes(), self.free()] if self.tensors else []
        found.append(self.call())
        if self.tensors and all(self.sized):
            found += [self.only_shapes(), self.into()]
        most = "threads < 0 ? 0 : threads > AX_MOST_THREADS ? AX_MOST_THREADS : threads"
        return [
            *found,
            function(f"const char *{self.symbol}_error", "void", ["return ax_text_of_error;"]),
            function(
                f"void {self.symbol}_set_threads", "int threads", [f"__atomic_store_n(&ax_threads_set, {most}, __ATOMIC_RELAXED);"]
            ),
        ]

    def bound(self, *, out: bool = True) -> list[str]:
        """The sizes of a call, or its end."""
        pointers = [name for name, type in self.made.params if not isinstance(type, ScalarType)]
        found = []
        for name in (*pointers, *(["out"] if out and self.made.result is not None else [])):
            none = quoted(f"error[AX0505]: `{name}` is NULL")
            found += [f"if ({name} == NULL) {{", f"    return ax_fail(AXON_ARGUMENT, {none});", "}"]
        return [
            *found,
            "struct ax_sizes sizes = {0};",
            f"int status = ax_bind(&sizes{self.given});",
            "if (status != AXON_OK) {",
            "    return status;",
            "}",
        ]

    def nothing_yet(self) -> list[str]:
        return [f"{slot.at('data')} = NULL;" for _, slot in self.tensors]

    def shapes(self) -> str:
        """Fills in the sizes of the result that are known beforehand, and strides of rows."""
        assert self.made.result is not None
        lines = ["int odd = 0;", "(void)odd;", "(void)sizes;"]
        for n, slot in self.tensors:
            if self.sized[n]:
                for d, dim in enumerate(slot.value.shape):
                    extent = size(at_least_0(dim), lambda symbol: f"sizes->{self.dims[symbol]}")
                    lines.append(f"{slot.at(f'sizes[{d}]')} = {extent};")
                lines.append(f"ax_row_strides({slot.at('strides')}, {slot.at('sizes')}, {len(slot.value.shape)});")
        return function("static void ax_shapes", f"const struct ax_sizes *sizes, {self.made.result.name} *out", lines)

    def free(self) -> str:
        assert self.made.result is not None
        lines = ["if (out == NULL) {", "    return;", "}"]
        lines += [line for _, slot in self.tensors for line in (f"free({slot.at('data')});", f"{slot.at('data')} = NULL;")]
        return function(f"void {self.symbol}_free", f"{self.made.result.name} *out", lines)

    def call(self) -> str:
        out = ", out" if self.made.result is not None else ""
        lines = [*self.bound(), *self.nothing_yet(), *(["ax_shapes(&sizes, out);"] if self.tensors else [])]
        lines.append(f"status = ax_run(&sizes{self.given}{out}, 0, NULL);")
        if self.tensors:
            lines += ["if (status != AXON_OK) {", f"    {self.symbol}_free(out);", "}"]
        return function(f"int {self.symbol}", parameters(self.made), [*lines, "return status;"])

    def only_shapes(self) -> str:
        scalars = [f"{slot.place} = 0;" for slot in self.made.results if not slot.value.shape]
        lines = [*self.bound(), *self.nothing_yet(), *scalars, "ax_shapes(&sizes, out);", "return AXON_OK;"]
        return function(f"int {self.symbol}_shapes", parameters(self.made), lines)

    def into(self) -> str:
        assert self.made.result is not None
        lines = [*self.bound(), f"{self.made.result.name} wanted = *out;", "ax_shapes(&sizes, &wanted);"]
        lines += [f"bool direct[{len(self.made.results)}] = {{false}};", "uintptr_t low, high, from = 0, to = 0;"]
        lines += ["(void)from;", "(void)to;"]
        for n, slot in self.tensors:
            lines += self.room(n, slot)
        return function(
            f"int {self.symbol}_into", parameters(self.made), [*lines, f"return ax_run(&sizes{self.given}, out, 1, direct);"]
        )

    def fits(self, slot: Slot) -> list[str]:
        """Whether a caller's tensor has the sizes of the result."""
        own, wanted, rank = slot.at("sizes[d]"), slot.at("sizes[d]").replace("out->", "wanted.", 1), len(slot.value.shape)
        wrong = quoted(f"error[AX0505]: dimension %d of `{slot.path}` is %lld, and the result has %lld there")
        none = quoted(f"error[AX0505]: `{slot.path}` has elements, and its `data` is NULL")
        return [
            f"for (int d = 0; d < {rank}; d++) {{",
            f"    if ({own} != {wanted}) {{",
            f"        return ax_fail(AXON_ARGUMENT, {wrong}, d + 1, (long long){own}, (long long){wanted});",
            "    }",
            "}",
            f"if ({slot.at('data')} == NULL && ax_bytes_of({item(slot.value.element)}, {slot.at('sizes')}, {rank}) != 0) {{",
            f"    return ax_fail(AXON_ARGUMENT, {none});",
            "}",
        ]

    def room(self, number: int, slot: Slot) -> list[str]:
        """Whether a caller's tensor has the sizes of the result, and whether kernels write there: where it lies in rows, and apart
        from all that they read."""
        lines = [
            *self.fits(slot),
            f"ax_reach({place(slot)}, &low, &high);",
            f"direct[{number}] = ax_in_rows({slot.at('sizes')}, {slot.at('strides')}, {len(slot.value.shape)});",
        ]
        for other in self.made.inputs:
            if other.value.shape:
                lines += [f"ax_reach({place(other)}, &from, &to);", f"direct[{number}] &= high <= from || to <= low;"]
        return lines


def place(slot: Slot) -> str:
    """A tensor of the caller's, as the runtime takes it."""
    members = ", ".join(slot.at(member) for member in ("data", "sizes", "strides"))
    return f"{members}, {len(slot.value.shape)}, {item(slot.value.element)}"
