"""A program as a library for GPUs: tables of launches at the sizes at which it was shipped, launches for all others, and C that
makes them.

The contract is checked on the host, as in libraries for processors; then the sizes choose among tables. What stands in these is
what a call from Python would launch (`gpu.shipped.sized`). Sizes without a table go to kernels for all sizes, whose arguments
are computed from them (`gpu.shipped.open`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from axon.backend.c.contract import Contract
from axon.backend.c.header import Described, comment, declares, parameters
from axon.backend.c.identifiers import Identifiers, entries
from axon.backend.c.library import Library, cannot, library_of, require
from axon.backend.c.sizes import quoted, size
from axon.backend.c.source import Entries, function, more, place, table, text
from axon.backend.c.types import Interface, Slot, interface, item
from axon.backend.gpu.layout.products import EIGHT_BITS
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.shipped.open import Between, OpenArgument, OpenProgram
from axon.backend.gpu.shipped.sized import Address, PixelMap, ShippedCode, ShippedProgram, TiledMap
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.output import write_text
from axon.core.ir import Program
from axon.shapes.dimension import Dim

_INCLUDES = ("dlfcn.h", "pthread.h", "stdarg.h", "stdio.h", "stdlib.h", "string.h")
_TYPES = {  # CUtensorMapDataType; bits of 8 and 16 are copied as they are
    Element.F16: 6, Element.F32: 7, Element.BF16: 9, Element.I32: 3, **dict.fromkeys(EIGHT_BITS, 0),
    **dict.fromkeys((Element.U16, Element.I16), 1),
}  # fmt: skip
_TF32 = 11  # f32 that is rounded on the way
_ANY_STRIDE = 16  # of a dimension of one index: the driver wants an aligned one
WORD = 1 << 64  # what is added to an address may be below 0: a view may begin in front of what it shows
_NO_WORKSPACE = "error[AX0505]: `workspace` is NULL, or does not begin at a multiple of 256 bytes"
_STOPPED = "error[AX0511]: a kernel stopped: an index computed from data was out of bounds, or integer arithmetic had no result"


def build(
    program: Program,
    about: Described,
    folder: str,
    target: Target,
    made: Sequence[ShippedProgram],
    others: OpenProgram,
    compiler: Sequence[str],
) -> Library:
    """Write a library. AX0614 where there is no C compiler."""
    require(compiler, about.cpu)
    header, source = texts(program, about, target, made, others)
    at = Path(folder)
    try:
        at.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot(f"`{folder}` cannot be made: {error.strerror}") from None
    write_text(at / f"{about.symbol}.h", header)
    write_text(at / f"{about.symbol}.c", source)
    return Library(tuple(str(at / name) for name in library_of(at, about, [], compiler)), ())


def texts(
    program: Program, about: Described, target: Target, made: Sequence[ShippedProgram], others: OpenProgram
) -> tuple[str, str]:
    """The header, and the C. What is `made` is for some sizes each, `others` is for the others."""
    return _Writer(program, about, target, made, others).texts()


class _Writer:
    def __init__(
        self, program: Program, about: Described, target: Target, made: Sequence[ShippedProgram], others: OpenProgram
    ) -> None:
        self.program, self.about, self.target, self.made, self.others = program, about, target, made, others
        self.symbol = about.symbol
        self.interface: Interface = interface(program, about.symbol)
        self.names = Identifiers()
        own = self.interface
        self.names.taken |= {*own.explicit, *(name for name, _ in own.params), self.symbol, *entries(self.symbol)}
        known = dict.fromkeys([*program.contract.determination.order, *program.contract.idle])
        self.dims = {symbol: self.names.new(symbol.name) for symbol in known}
        self.order = list(program.contract.determination.order)
        self.codes: dict[ShippedCode, int] = {}
        self.maps = 0
        self.fails = others.fails or any(each.fails for each in made)

    # ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def texts(self) -> tuple[str, str]:
        own, about = self.symbol, self.about
        contract = Contract(self.program, self.interface, about.name, about.signature, self.dims, self.names, about.size_name)
        bind = function("static int ax_bind", f"struct ax_sizes *sizes{more(self.interface, out=False)}", contract.write())
        tables = list(self.tables())  # which numbers codes and maps
        for launch in self.others.launches:
            self.codes.setdefault(launch.code, len(self.codes))
        counts = [len(launch.arguments) for launch in self.others.launches]
        counts += [len(launch.arguments) for each in self.made for launch in each.launches]
        major, minor, _ = self.target.compute_capability
        macros = {"MOST_ARGUMENTS": max(counts, default=1), "MAPS": max(1, self.maps), "MAJOR": major, "MINOR": minor}
        parts = [
            f"/* `{about.name}` of {about.source}, as {own}.h declares it: written by `axon build`, to be read and not edited. */",
            f'#define _GNU_SOURCE\n#pragma GCC visibility push(default)\n#include "{own}.h"\n#pragma GCC visibility pop',
            "\n".join(f"#include <{name}>" for name in _INCLUDES),
            "\n".join(f"#define AX_{name} {number}" for name, number in macros.items()),
            text("base.c"),
            text("cuda.c"),
            "\n".join(["struct ax_sizes {", *(f"    int64_t {name};" for name in self.dims.values() or ["none"]), "};"]),
            contract.signature,
            bind,
            *(table(f"ax_code_{n}", code.cubin) for code, n in self.codes.items()),
            *map(self.kernel, self.codes),
            *tables,
            *self.functions(),
        ]
        told = [
            f"`{own}` checks that first. It has kernels for all sizes, and its own, on the tensor cores where these serve, at",
            *(f"- {self.worded(each.sizes)}" for each in self.made),
        ]
        told = told if self.made else [f"`{own}` checks that first. Its kernels are for all sizes, and use no tensor cores."]
        told += [
            "Tensors lie in the GPU's memory, in rows, and begin at multiples of 16 bytes; arguments are only read, and share no",
            "memory with results. A call returns once its kernels are launched. These functions may be called from several threads",
            "at once, each with a context of a GPU that is current (cudaSetDevice, cuCtxSetCurrent).",
        ]
        machine = f"GPUs of compute capability {major}.{minor}"
        return declares(self.program, self.interface, about, machine, told, self.declared()), "\n\n".join(parts) + "\n"

    def worded(self, sizes: Mapping[Symbol, int]) -> str:
        return ", ".join(f"{self.about.size_name(s)} = {sizes[s]:,}" for s in self.order) or "all calls"

    # ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def tables(self) -> Iterator[str]:
        """For each of the sizes, what is launched."""
        for n, each in enumerate(self.made):
            steps = []
            for k, launch in enumerate(each.launches):
                number = self.codes.setdefault(launch.code, len(self.codes))
                rows = []
                for argument in launch.arguments:
                    if isinstance(argument, bytes):
                        rows.append(f"{{{int.from_bytes(argument, 'little')}u, -1, NULL, 0}}")
                    elif argument.map is None:
                        rows.append(f"{{{argument.offset % WORD}u, {argument.number}, NULL, 0}}")
                    else:
                        yield f"static const ax_map ax_map_{self.maps} = {_map(argument.map)};"
                        rows.append(f"{{{argument.offset % WORD}u, {argument.number}, &ax_map_{self.maps}, {self.maps}}}")
                        self.maps += 1
                shown = ",\n    ".join(rows or ["{0, -1, NULL, 0}"])
                yield f"static const ax_argument ax_arguments_{n}_{k}[] = {{\n    {shown}}};"
                count = len(launch.arguments)
                steps.append(f"{{&ax_kernel_{number}, {launch.blocks}, {launch.threads}, {count}, ax_arguments_{n}_{k}}}")
            yield f"static const ax_step ax_steps_{n}[] = {{\n    " + ",\n    ".join(steps or ["{NULL, 0, 0, 0, NULL}"]) + "};"

    def kernel(self, code: ShippedCode) -> str:
        n = self.codes[code]
        facts = f"{code.shared}, {code.cluster}, {int(code.persistent)}, &ax_loaded_{n}"
        kernel = f"static const ax_kernel ax_kernel_{n} = {{ax_code_{n}, {quoted(code.entry)}, {facts}}};"
        return f"static ax_loaded ax_loaded_{n};\n{kernel}"

    # ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def given(self) -> str:
        return parameters(self.interface) + ", void *workspace, void *stream"

    def declared(self) -> Iterator[str]:
        shapes, _, _, error, _, workspace, check = entries(self.symbol)
        launched = [
            "Launch the kernels on a stream (a CUstream or cudaStream_t; NULL for the default one). `workspace` is memory of",
            f"the GPU, of as many bytes as `{workspace}` says, at a multiple of 256, which nothing else uses meanwhile.",
        ]
        yield from (*comment(launched), f"int {self.symbol}({self.given});", "")
        yield from comment(["The sizes that the result of such a call has, and the strides of rows; no data."])
        yield from (f"int {shapes}({parameters(self.interface)});", "")
        yield from comment(["How many bytes of the GPU's memory such a call works in; `data` is not looked at."])
        yield from (f"int {workspace}({parameters(self.interface, out=False)}, size_t *bytes);", "")
        if self.fails:
            met = [
                "AXON_STOPPED where a kernel that is done has met what stops a program (an index out of bounds, a division by 0)",
                "since this was asked last: ask when the stream is done, and take no result for one then.",
            ]
            yield from (*comment(met), f"int {check}(void);", "")
        yield from comment(["What was wrong with this thread's last call that did not give back AXON_OK."])
        yield from (f"const char *{error}(void);", "")

    def functions(self) -> Iterator[str]:
        made, own = Entries(self.interface, self.symbol, [True] * len(self.interface.results), self.dims), self.symbol
        *_, error, _, workspace, check = entries(own)
        yield made.shapes()
        yield self.chosen()
        yield self.room()
        yield self.open_launches()
        yield function(f"int {own}", self.given, self.call(made))
        yield made.only_shapes()
        lines = [*made.bound(out=False), "if (bytes == NULL) {", f"    return {_null('bytes')};", "}"]
        lines += [f"uint64_t places[{self.places}];", "*bytes = ax_room(&sizes, ax_chosen(&sizes), places);", "return AXON_OK;"]
        yield function(f"int {workspace}", f"{parameters(self.interface, out=False)}, size_t *bytes", lines)
        if self.fails:
            lines = ["int32_t *const word = __atomic_load_n(&ax_failed, __ATOMIC_ACQUIRE);"]
            lines += ["if (word != NULL && __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL) != 0) {"]
            lines += [f"    return ax_fail(AXON_STOPPED, {quoted(_STOPPED)});", "}", "return AXON_OK;"]
            yield function(f"int {check}", "void", lines)
        yield function(f"const char *{error}", "void", ["return ax_text_of_error;"])

    def chosen(self) -> str:
        """Which table is for some sizes; the number of all of them, where none is."""
        fields = [self.dims[symbol] for symbol in self.order]
        lines = ["(void)sizes;"]
        for n, each in enumerate(self.made):
            test = " && ".join(f"sizes->{field} == {each.sizes[s]}" for field, s in zip(fields, self.order, strict=True)) or "1"
            lines += [f"if ({test}) {{", f"    return {n};", "}"]
        return function("static int ax_chosen", "const struct ax_sizes *sizes", [*lines, f"return {len(self.made)};"])

    @property
    def places(self) -> int:
        """Of how many tensors between kernels a call finds the places."""
        return max(1, len(self.others.between))

    def size(self, dim: Dim) -> str:
        return size(dim, lambda symbol: f"sizes->{self.dims[symbol]}")

    def room(self) -> str:
        """How much memory a call works in; for sizes without a table also what lies where in it."""
        rooms = ", ".join(f"{each.room}u" for each in self.made)
        lines = ["int odd = 0;", "uint64_t at = 0;", "(void)odd;", "(void)sizes;", "(void)places;"]
        if self.made:
            lines += [f"static const size_t rooms[] = {{{rooms}}};", f"if (chosen < {len(self.made)}) {{"]
            lines += ["    return rooms[chosen];", "}"]
        else:
            lines.append("(void)chosen;")
        for n, piece in enumerate(self.others.rooms):
            lines += [f"places[{n}] = at;", f"at += (uint64_t)({self.size(piece)});"]
        return function(
            "static size_t ax_room", "const struct ax_sizes *sizes, int chosen, uint64_t *places", [*lines, "return at;"]
        )

    def open_launches(self) -> str:
        """Launches at sizes without a table."""
        room = len([slot for slot in self.interface.inputs if slot.value.shape]) + len(self.interface.results)
        lines = ["int status = AXON_OK, odd = 0;", "(void)odd;", "(void)sizes;", "(void)places;"]
        for launch in self.others.launches:
            rows = [self.argument(argument, room) for argument in launch.arguments] or ["{0, -1, NULL, 0}"]
            given = f"{self.size(launch.blocks)}, {launch.threads}, {len(launch.arguments)}"
            lines += ["{", "    const ax_argument arguments[] = {" + ", ".join(rows) + "};"]
            lines.append(f"    status = ax_cuda_launch_open(&ax_kernel_{self.codes[launch.code]}, {given}, arguments,")
            lines += ["        addresses, device, stream);", "}", "if (status != AXON_OK) {", "    return status;", "}"]
        given = "const struct ax_sizes *sizes, const uint64_t *places, const uint64_t *addresses, int device, void *stream"
        return function("static int ax_launch_open", given, [*lines, "return status;"])

    def argument(self, argument: OpenArgument, room: int) -> str:
        match argument:
            case Between(number):
                return f"{{places[{number}], {room}, NULL, 0}}"
            case Address(number, offset):
                return f"{{{offset % WORD}u, {number}, NULL, 0}}"
            case _:
                return f"{{(uint64_t)({self.size(argument)}), -1, NULL, 0}}"

    def call(self, made: Entries) -> Iterator[str]:
        own = self.interface
        yield from made.bound()
        yield f"{own.result.name} wanted = *out;" if own.result is not None else ""
        yield from ("ax_shapes(&sizes, &wanted);", "const int chosen = ax_chosen(&sizes);")
        yield f"uint64_t places[{self.places}];"
        yield "const size_t room = ax_room(&sizes, chosen, places);"
        tensors = [slot for slot in own.inputs if slot.value.shape]
        for slot in own.results:
            yield from made.fits(slot)
        for slot in (*tensors, *own.results):
            given = ", ".join([*(slot.at(member) for member in ("data", "sizes", "strides")), str(len(slot.value.shape))])
            yield f"if ((status = ax_cuda_placed({given}, {quoted(slot.path)})) != AXON_OK) {{"
            yield from ("    return status;", "}")
        yield "uintptr_t low, high, from, to;"
        for slot in own.results:
            yield f"ax_reach({place(slot)}, &low, &high);"
            for other in (*tensors, *own.results):
                if other is slot:
                    continue
                yield f"ax_reach({place(other)}, &from, &to);"
                shared = quoted(f"error[AX0505]: `{slot.path}` shares memory with `{other.path}`")
                yield from ("if (from < high && low < to) {", f"    return ax_fail(AXON_ARGUMENT, {shared});", "}")
        yield "if (room != 0 && (workspace == NULL || (uintptr_t)workspace % 256 != 0)) {"
        yield f"    return ax_fail(AXON_ARGUMENT, {quoted(_NO_WORKSPACE)});"
        yield "}"
        yield from ("int device = 0;", "if ((status = ax_cuda_device(&device)) != AXON_OK) {", "    return status;", "}")
        if self.fails:
            yield from ("if ((status = ax_cuda_word()) != AXON_OK) {", "    return status;", "}")
        addresses = [f"(uint64_t)(uintptr_t){slot.at('data')}" for slot in (*tensors, *own.results)]
        addresses += ["(uint64_t)(uintptr_t)workspace", "(uint64_t)(uintptr_t)ax_failed"]
        yield "const uint64_t addresses[] = {" + ", ".join(addresses) + "};"
        yield "switch (chosen) {"
        for n, each in enumerate(self.made):
            yield f"case {n}: "
            for slot in own.inputs:
                if (at := each.scalars.get(slot.value.symbol)) is not None:
                    yield from _filled(slot, str(at))
            yield f"    return ax_cuda_launch(ax_steps_{n}, {len(each.launches)}, addresses, device, stream);"
        yield "default: "
        for slot in own.inputs:
            if (piece := self.others.scalars.get(slot.value.symbol)) is not None:
                yield from _filled(slot, f"places[{piece}]")
        yield from ("    return ax_launch_open(&sizes, places, addresses, device, stream);", "}")


def _filled(slot: Slot, at: str) -> Iterator[str]:
    """Writes a number where kernels read it."""
    fill = f"ax_cuda_fill((uint64_t)(uintptr_t)workspace + {at}, &{slot.place}, {item(slot.value.element)}, stream)"
    yield from (f"    if ((status = {fill}) != AXON_OK) {{", "        return status;", "    }")


def _null(name: str) -> str:
    return f"ax_fail(AXON_ARGUMENT, {quoted(f'error[AX0505]: `{name}` is NULL')})"


def _map(found: TiledMap | PixelMap) -> str:
    """The descriptor's facts as an initializer, the innermost dimension first."""
    images = found.images if isinstance(found, PixelMap) else None
    if isinstance(found, TiledMap):
        shape, strides = found.shape, list(found.strides)
    else:
        shape, strides = found.images.shape, [s * found.element.bits // 8 for s in found.images.strides[:-1]]
    steps = [s if n > 1 else _ANY_STRIDE for n, s in zip(shape[:-1], strides, strict=True)]
    fields: dict[str, object] = {"type": _TF32 if found.rounds else _TYPES[found.element], "rank": len(shape)}
    fields |= {"sizes": shape[::-1], "strides": steps[::-1]}
    if images is None:
        assert isinstance(found, TiledMap)
        fields |= {"box": found.box[::-1], "steps": (1,) * len(shape)}
    else:
        assert isinstance(found, PixelMap)
        fields |= {"steps": (1, *reversed(images.steps), 1), "pixels": found.pixels, "channels": found.channels}
        fields |= {"lower": images.lower[::-1], "upper": images.upper[::-1]}
    shown = (
        (name, f"{{{', '.join(map(str, own))}}}" if isinstance(own, tuple | list) else str(own)) for name, own in fields.items()
    )
    return "{" + ", ".join(f".{name} = {own}" for name, own in shown if own != "{}") + "}"
