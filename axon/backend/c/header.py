"""The header of a library: what a caller in C or C++ reads, and what a call is asked, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from axon.backend.c.identifiers import entries
from axon.backend.c.types import C_TYPES, Interface, StructType, TensorType, declared
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.shapes.pretty import render

# What every header declares; several of them may be included together.
COMMON = """\
#ifndef AXON_COMMON
#define AXON_COMMON
/* What every function gives back: AXON_OK, or why there is no result. The numbers are those of `axon explain AX0501`. */
enum axon_status {
    AXON_OK = 0,
    AXON_MEMORY = 1,       /* there is not enough memory */
    AXON_STOPPED = 500,    /* AXON_INDEX or AXON_ARITHMETIC: the text says what it may be */
    AXON_SIZES = 501,      /* sizes break the contract */
    AXON_INDEX = 502,      /* an index computed from data is out of bounds */
    AXON_ARITHMETIC = 503, /* arithmetic on integers failed: a division by zero, a negative power, the largest of nothing */
    AXON_ARGUMENT = 505,   /* a pointer is NULL, or room for a result has other sizes than the result */
    AXON_GPU = 612         /* there is no such GPU, or its driver refused a call */
};
/* The bits of narrow floats, which C has no types for. */
typedef uint16_t axon_f16;   /* IEEE 754 binary16: `_Float16`, where a compiler has it */
typedef uint16_t axon_bf16;  /* the upper half of a float */
typedef uint8_t axon_f8e4m3; /* as OCP's E4M3, without infinities */
typedef uint8_t axon_f8e5m2;
#endif
"""


@dataclass(frozen=True, slots=True)
class Described:
    """What a header says of a function beside its types: its `symbol` in C, its name in the file that it stands in, its signature,
    what the signature calls its sizes, and for which processor it is built."""

    symbol: str
    name: str
    source: str
    signature: str
    size_name: Callable[[Symbol], str]
    cpu: str


def header(program: Program, interface: Interface, about: Described, sized: Sequence[bool]) -> str:
    """The header; `sized` says of each result whether its shape is known before anything is computed."""
    told = [
        f"`{about.symbol}` checks that first. Arguments are only read; a tensor's strides count elements, and may be anything.",
        "These functions may be called from several threads at once.",
    ]
    return declares(program, interface, about, cpu_name(about.cpu), told, _functions(interface, about, sized))


def declares(
    program: Program, interface: Interface, about: Described, machine: str, told: Sequence[str], functions: Iterable[str]
) -> str:
    """A header that says what is `told` of calls, and declares these functions."""
    guard = f"AXON_{about.symbol}_H"  # as it is written: `f` and `F` are two functions
    words = [f"`{about.name}` of {about.source}, built by Axon for {machine}.", "", f"  {about.signature}", ""]
    words += [*_contract(program, interface, about), "", *told]
    lines = [*comment(words), f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stddef.h>"]
    lines += ["#include <stdint.h>", "", COMMON]
    lines += [line for tensor in interface.tensors for line in _tensor(tensor)]
    lines += [line for struct in interface.structs for line in _struct(struct)]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", *functions]
    lines += ["#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */", ""]
    return "\n".join(lines)


def cpu_name(cpu: str) -> str:
    return "the processor of the machine that built it" if cpu == "native" else cpu


def comment(lines: Sequence[str]) -> list[str]:
    """Lines as one comment of C."""
    shown = [line.replace("*/", "* /").replace("/*", "/ *") for line in lines]
    return [f"{'/*' if n == 0 else '  '} {line}".rstrip() + (" */" if n == len(shown) - 1 else "") for n, line in enumerate(shown)]


def parameters(interface: Interface, *, out: bool = True) -> str:
    own = [f"int64_t {name}" for name in interface.explicit] + [declared(type, name) for name, type in interface.params]
    if out and interface.result is not None:
        own.append(declared(interface.result, "out", out=True))
    return ", ".join(own) or "void"


def _contract(program: Program, interface: Interface, about: Described) -> Iterator[str]:
    name, contract = about.size_name, program.contract
    yield "The sizes of a call are found in what is passed:"
    for symbol in contract.explicit:
        yield f"- {name(symbol)} is given"
    for slot, shape in zip(interface.inputs, contract.shapes, strict=True):
        if shape.dims:
            yield f"- {slot.path} : {slot.value.element.value}[{', '.join(render(dim, name) for dim in shape.dims)}]"
    for slot in interface.results:
        if slot.value.shape:
            dims = [render(dim, lambda s: name(s) if s in contract.variables else s.name) for dim in slot.value.shape]
            yield f"- {slot.path} : {slot.value.element.value}[{', '.join(dims)}]"
    if contract.facts:
        yield "and these must hold:"
        for fact in contract.facts:
            yield f"- {fact.relation.render(name)}"


def _tensor(tensor: TensorType) -> Iterator[str]:
    own, element, rank = tensor.name, C_TYPES[tensor.element], tensor.rank
    sizes = [f"n{d}" for d in range(rank)]
    strides = [" * ".join(sizes[d + 1 :]) or "1" for d in range(rank)]
    guard = own.upper()
    yield from (f"#ifndef {guard}", f"#define {guard}", "typedef struct {", f"    {element} *data;")
    yield from (f"    int64_t sizes[{rank}];", f"    int64_t strides[{rank}]; /* in elements */", f"}} {own};", "")
    yield "/* A tensor whose elements lie in rows: the last dimension side by side. */"
    given = ", ".join([f"const {element} *data", *(f"int64_t {n}" for n in sizes)])
    yield from (f"static inline {own} {own}_of({given})", "{")
    yield f"    {own} made = {{({element} *)data, {{{', '.join(sizes)}}}, {{{', '.join(strides)}}}}};"
    yield from ("    return made;", "}", "#endif", "")


def _struct(struct: StructType) -> Iterator[str]:
    yield "typedef struct {"
    yield from (f"    {type.name} {name};" for name, type in struct.fields)
    yield from (f"}} {struct.name};", "")


def _functions(interface: Interface, about: Described, sized: Sequence[bool]) -> Iterator[str]:
    own, result = about.symbol, interface.result
    shapes, into, free, error, set_threads, *_ = entries(own)
    tensors = result is not None and any(slot.value.shape for slot in interface.results)
    memory = f" in memory of its own, in rows, which `{free}` gives back" if tensors else ""
    yield from comment([f"The result{memory}. Where this does not give back AXON_OK, there is none."])
    yield from (f"int {own}({parameters(interface)});", "")
    if tensors and all(sized):
        yield from comment([f"The sizes that the result of such a call has, and the strides with which `{own}` makes it; no data."])
        yield from (f"int {shapes}({parameters(interface)});", "")
        room = [
            f"The result in room of the caller's: tensors of the sizes that `{shapes}` says, of any strides, which do not overlap.",
            "Where this does not give back AXON_OK, what stands there is open.",
        ]
        yield from (*comment(room), f"int {into}({parameters(interface)});", "")
    if tensors:
        assert result is not None
        yield from comment([f"Give back what `{own}` has made. NULL, and what has no memory, is left as it is."])
        yield from (f"void {free}({result.name} *out);", "")
    yield from comment(["What was wrong with this thread's last call that did not give back AXON_OK."])
    yield from (f"const char *{error}(void);", "")
    threads = [
        "How many threads calls of this library compute with from now on, 1 to 1024; 0 for as many as AXON_THREADS says, or as",
        "there are processors. No bit of a result depends on it.",
    ]
    yield from (*comment(threads), f"void {set_threads}(int threads);", "")
