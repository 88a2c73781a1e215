"""A library's function as XLA calls it: C between its buffers and the library's structs, for `jax.ffi`; kept on disk once built.

handler    a Program -> the text of a function SYMBOL_xla
built      a Prepared -> a shared library that has it
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from axon.backend.c.library import Prepared, linked_with, require, written
from axon.backend.c.sizes import quoted
from axon.backend.c.types import C_TYPES, Interface, ScalarType, Slot, interface
from axon.backend.cpu.build import machine_tools
from axon.base import disk
from axon.base.element import Element
from axon.core.ir import Program

_XLA = {
    Element.F64: "F64", Element.F32: "F32", Element.F16: "F16", Element.BF16: "BF16", Element.F8E4M3: "F8E4M3FN",
    Element.F8E5M2: "F8E5M2", Element.I64: "S64", Element.I32: "S32", Element.I16: "S16", Element.I8: "S8", Element.U64: "U64",
    Element.U32: "U32", Element.U16: "U16", Element.U8: "U8", Element.BOOL: "PRED",
}  # fmt: skip
_HEAD = """\
#include <string.h>
#include "xla/ffi/api/c_api.h"
#include "{symbol}.h"

static XLA_FFI_Error *ax_wrong(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *text)
{
    XLA_FFI_Error_Create_Args own = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, code};
    return frame->api->XLA_FFI_Error_Create(&own);
}

/* What a compiled program passes was checked where it was traced; one that was kept may be older than this function. */
typedef struct {
    XLA_FFI_DataType type;
    int64_t rank;
} ax_form;

static int ax_fits(void **found, int64_t count, const ax_form *forms, int64_t wanted)
{
    if (count != wanted) {
        return 0;
    }
    for (int64_t n = 0; n < count; n++) {
        const XLA_FFI_Buffer *own = found[n];
        if (own->dtype != forms[n].type || own->rank != forms[n].rank) {
            return 0;
        }
    }
    return 1;
}

static int ax_number(const XLA_FFI_Attrs *given, const char *name, int64_t *number)
{
    for (int64_t n = 0; n < given->size; n++) {
        const XLA_FFI_ByteSpan *own = given->names[n];
        const XLA_FFI_Scalar *scalar = given->attrs[n];
        if (own->len == strlen(name) && memcmp(own->ptr, name, own->len) == 0) {
            if (given->types[n] != XLA_FFI_AttrType_SCALAR || scalar->dtype != XLA_FFI_DataType_S64) {
                return 0;
            }
            *number = *(const int64_t *)scalar->value;
            return 1;
        }
    }
    return 0;
}
"""
_BEGIN = """\
    if (frame->extension_start != NULL && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
        XLA_FFI_Metadata *about = ((XLA_FFI_Metadata_Extension *)frame->extension_start)->metadata;
        about->api_version.major_version = XLA_FFI_API_MAJOR;
        about->api_version.minor_version = XLA_FFI_API_MINOR;
        about->traits = 0;
        return NULL;
    }"""


def number_name(n: int) -> str:
    """The attribute that holds a dimension parameter, an i64."""
    return f"size_{n}"


def handler(program: Program, symbol: str) -> str:
    """C of a function that XLA calls with the program's inputs and results as buffers, in order."""
    made = interface(program, symbol)
    return "\n".join([_HEAD.replace("{symbol}", symbol), *_handler(made, symbol), ""])


def _handler(made: Interface, symbol: str) -> Iterator[str]:
    yield f'__attribute__((visibility("default"))) XLA_FFI_Error *{symbol}_xla(XLA_FFI_CallFrame *frame)'
    yield from ("{", _BEGIN)
    for name, slots in (("ax_args", made.inputs), ("ax_rets", made.results)):
        forms = ", ".join(f"{{XLA_FFI_DataType_{_XLA[s.value.element]}, {len(s.value.shape)}}}" for s in slots)
        yield f"    static const ax_form {name}_wanted[] = {{{forms or '{0, 0}'}}};"
        kind = name.removeprefix("ax_")
        yield f"    void **const {name} = frame->{kind}.{kind};"
        test = f"ax_fits({name}, frame->{kind}.size, {name}_wanted, {len(slots)})"
        yield from (f"    if (!{test}) {{", f"        return ax_wrong(frame, {_INVALID}, {quoted(_OTHER)});", "    }")
    for n, name in enumerate(made.explicit):
        yield f"    int64_t {name} = 0;"
        yield f"    if (!ax_number(&frame->attrs, {quoted(number_name(n))}, &{name})) {{"
        yield from (f"        return ax_wrong(frame, {_INVALID}, {quoted(_OTHER)});", "    }")
    for name, type in made.params:
        if isinstance(type, ScalarType):
            yield f"    {type.name} {name} = 0;"
        else:
            yield from (f"    {type.name} ax_at_{name};", f"    {type.name} *const {name} = &ax_at_{name};")
    yield from (line for n, slot in enumerate(made.inputs) for line in _passed(slot, f"ax_args[{n}]", given=True))
    tensors = any(slot.value.shape for slot in made.results)
    if made.result is not None:
        yield from (f"    {made.result.name} ax_result;", f"    {made.result.name} *const out = &ax_result;")
    yield from (line for n, slot in enumerate(made.results) for line in _passed(slot, f"ax_rets[{n}]", given=False))
    passed = [*made.explicit, *(name for name, _ in made.params), *(["out"] if made.result is not None else [])]
    yield f"    const int ax_status = {symbol}{'_into' if tensors else ''}({', '.join(passed)});"
    yield from ("    if (ax_status != AXON_OK) {", "        return ax_wrong(frame,")
    yield "            ax_status == AXON_MEMORY ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED :"
    yield f"            ax_status == AXON_INDEX ? XLA_FFI_Error_Code_OUT_OF_RANGE : {_INVALID},"
    yield from (f"            {symbol}_error());", "    }")
    for n, slot in enumerate(made.results):
        if not slot.value.shape:
            yield f"    *({C_TYPES[slot.value.element]} *)((XLA_FFI_Buffer *)ax_rets[{n}])->data = {slot.place};"
    yield from ("    return NULL;", "}")


_INVALID = "XLA_FFI_Error_Code_INVALID_ARGUMENT"
_OTHER = "error[AX0505]: this call was compiled for a function of Axon's that has changed since: trace and compile it again"


def _passed(slot: Slot, buffer: str, *, given: bool) -> Iterator[str]:
    """An argument or a result in the structs: XLA's buffers lie in rows."""
    own, rank = f"((XLA_FFI_Buffer *){buffer})", len(slot.value.shape)
    if not rank:
        if given:
            yield f"    {slot.place} = *(const {C_TYPES[slot.value.element]} *){own}->data;"
        return
    yield f"    {slot.at('data')} = {own}->data;"
    for d in range(rank):
        yield f"    {slot.at(f'sizes[{d}]')} = {own}->dims[{d}];"
    strides = [" * ".join([f"{own}->dims[{e}]" for e in range(d + 1, rank)]) or "1" for d in range(rank)]
    yield from (f"    {slot.at(f'strides[{d}]')} = {stride};" for d, stride in enumerate(strides))


def built(library: Prepared, program: Program, include: str, compiler: Sequence[str]) -> tuple[str, bytes]:
    """What XLA calls the function, which its text alone decides, and the shared library. AX0614 as `library.build`."""
    symbol, text = library.about.symbol, handler(program, library.about.symbol)
    kernels = (f"{name} {source.text} {source.types}" for name, source in library.kernels)
    own = _digest([library.header, library.source, text, *kernels])
    key = _digest([own, disk.sources(("backend", "core")), machine_tools(), _version(tuple(compiler)), include])
    name = f"{symbol}_{own[:16]}"
    with suppress(disk.CannotKeep):
        if (found := disk.read(disk.directory() / f"{key}.library", key)) is not None:
            return name, found[1]
    require(compiler, library.about.cpu)
    with TemporaryDirectory() as place:
        written(library, place, compiler)
        (Path(place) / "handler.c").write_text(text, encoding="utf-8")
        code = linked_with(library.about, place, "handler.c", [f"-I{include}"], compiler)
    with suppress(disk.CannotKeep, OSError):
        disk.write(disk.directory() / f"{key}.library", key, {}, code, disk.limit())
    return name, code


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()


@cache
def _version(compiler: tuple[str, ...]) -> str:
    """What a compiler says of itself; nothing where there is none, which `require` says."""
    try:
        return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout or shlex.join(compiler)
    except OSError:
        return ""
