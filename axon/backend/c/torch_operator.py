"""A library's function as an operator of PyTorch that runs without Python: C++ between tensors and the library's structs, on
PyTorch's stable ABI, and the Python that tells `torch.export` what it gives.

It is for processors, or with a library for GPUs for those, on PyTorch's current stream. Records and tuples are passed as their
leaves, one argument each; results are tensors.

Note [Thrown last]
    An operator says what is wrong by an exception. It is thrown when a call has let go of all that it held, so that nothing is
    unwound but the arguments; and its text is put together without the streams of C++, as PyTorch's `STD_TORCH_CHECK` would.
    Constructors of streams are weak symbols without a version, and those of the first library in the process that exports
    some are taken: of libc10.so, of CUDA's libcufile.so.0, of whatever else a program has loaded for all.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import assert_never

from axon.backend.c.header import Described
from axon.backend.c.identifiers import Identifiers, entries
from axon.backend.c.library import cannot, operator_of, require
from axon.backend.c.sizes import quoted
from axon.backend.c.types import C_TYPES, ScalarType, Slot, interface
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.output import write_text
from axon.core.ir import Program
from axon.shapes.contracts.determine import Divide, Root
from axon.shapes.dimension import Dim, Minimum, Quotient

NAMESPACE = "axon_built"  # torch.ops.axon_built.f
_SCALAR_TYPES = {
    Element.F64: "Double", Element.F32: "Float", Element.F16: "Half", Element.BF16: "BFloat16", Element.F8E4M3: "Float8_e4m3fn",
    Element.F8E5M2: "Float8_e5m2", Element.I64: "Long", Element.I32: "Int", Element.I16: "Short", Element.I8: "Char",
    Element.U64: "UInt64", Element.U32: "UInt32", Element.U16: "UInt16", Element.U8: "Byte", Element.BOOL: "Bool",
}  # fmt: skip
_DTYPES = {
    Element.F64: "float64", Element.F32: "float32", Element.F16: "float16", Element.BF16: "bfloat16",
    Element.F8E4M3: "float8_e4m3fn", Element.F8E5M2: "float8_e5m2", Element.I64: "int64", Element.I32: "int32",
    Element.I16: "int16", Element.I8: "int8", Element.U64: "uint64", Element.U32: "uint32", Element.U16: "uint16",
    Element.U8: "uint8", Element.BOOL: "bool",
}  # fmt: skip
_NARROW = {
    Element.F16: "Half", Element.BF16: "BFloat16", Element.F8E4M3: "Float8_e4m3fn", Element.F8E5M2: "Float8_e5m2",
}  # fmt: skip
_BOUNDS: dict[Element, tuple[int, int | None]] = {
    Element.I32: (-(1 << 31), (1 << 31) - 1), Element.I16: (-(1 << 15), (1 << 15) - 1), Element.I8: (-128, 127),
    Element.U64: (0, None), Element.U32: (0, (1 << 32) - 1), Element.U16: (0, (1 << 16) - 1), Element.U8: (0, 255),
}  # fmt: skip
_PYTHON = {"=": "==", "<>": "!="}
_HEAD = """\
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Float8_e4m3fn.h>
#include <torch/headeronly/util/Float8_e5m2.h>
#include <torch/headeronly/util/Half.h>
#include "SYMBOL.h"

using ax_type = torch::headeronly::ScalarType;
using ax_tensor = torch::stable::Tensor;

static std::string ax_expected(const ax_tensor &given, ax_type type, int64_t rank, const char *path)
{
    const std::string named = std::string("`") + path + "` ";
    if (!given.is_PLACE()) {
        return "error[AX0505]: " + named + "does not lie on the DEVICE";
    }
    if (given.scalar_type() != type) {
        return "error[AX0504]: " + named + "is of another element type than this operator";
    }
    if (given.dim() != rank) {
        return "error[AX0506]: " + named + "has rank " + std::to_string(given.dim()) + ", and must have " + std::to_string(rank);
    }
    return "";
}
"""

# PyTorch's part for GPUs is asked for its stream once it is there; a library linked with it would not load without.
_STREAM = """\

static bool ax_stream(int32_t device, void **stream)
{
    typedef int32_t (*current)(int32_t, void **);
    static const current found = [] {
        void *library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
        return reinterpret_cast<current>(library != nullptr ? dlsym(library, "aoti_torch_get_current_cuda_stream") : nullptr);
    }();
    return found != nullptr && found(device, stream) == 0;
}

/* As kernels take it: in rows, and at a multiple of 16 bytes. */
static ax_tensor ax_in_rows_at_16(const ax_tensor &given)
{
    const ax_tensor rows = torch::stable::contiguous(given);
    return reinterpret_cast<uintptr_t>(rows.data_ptr()) % 16 == 0 ? rows : torch::stable::clone(rows);
}
"""
_NO_STREAM = "error[AX0604]: PyTorch's libtorch_cuda.so tells no stream"


def build(
    program: Program, about: Described, folder: str, compiler: Sequence[str], gpu: bool = False, fails: bool = False
) -> tuple[str, ...]:
    """Beside a library for C that is there: C++, Python, and a shared library that holds both functions. AX0614 where something
    is missing, or where the function has no such form. A library for GPUs may be one that `fails` by what data show."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        raise cannot(
            "PyTorch is not installed, with whose headers an operator is built", help="`pip install torch`, or leave out `--torch`"
        )
    require(compiler, about.cpu)
    own, at = _Operator(program, about, gpu, fails), Path(folder)
    stem = f"{about.symbol}_torch"
    write_text(at / f"{stem}.cpp", own.cpp())
    write_text(at / f"{stem}.py", own.python())
    library = operator_of(about, at, Path(found.origin).parent, compiler)
    return tuple(str(at / name) for name in (f"{stem}.cpp", f"{stem}.py", library))


class _Operator:
    def __init__(self, program: Program, about: Described, gpu: bool, fails: bool) -> None:
        self.program, self.about, self.gpu, self.fails = program, about, gpu, fails
        self.made = interface(program, about.symbol)
        names = Identifiers()
        self.explicit = [self._python(names.new(symbol.name)) for symbol in program.explicit]
        self.given = [(slot, self._python(names.new(slot.path.replace(".", "_")))) for slot in self.made.inputs]
        self.sizes = {symbol: self._python(names.new(symbol.name)) for symbol in program.contract.determination.order}
        self.tensors = [(slot, own) for slot, own in self.given if slot.value.shape]
        known = self.sizes.keys() | set(program.contract.idle)
        if not self.tensors:
            raise cannot(f"`{about.name}` takes no tensor, and an operator of PyTorch is found by one")
        if any(not dim.variables <= known for slot in self.made.results for dim in slot.value.shape):
            raise cannot(f"a result of `{about.name}` has a size that only the data decide, which an operator cannot promise")
        if any(isinstance(step, Root) for step in program.contract.determination.steps):
            raise cannot(f"a size of `{about.name}` is the root of another one, which PyTorch's symbolic sizes have not")

    @staticmethod
    def _python(name: str) -> str:
        return f"{name}_" if keyword.iskeyword(name) or name in ("torch", "pathlib") else name

    @property
    def name(self) -> str:
        return self.about.symbol.removeprefix("axon_")

    # ── C++ ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def cpp(self) -> str:
        head = _HEAD.replace("SYMBOL", self.about.symbol)
        place, device = ("cuda", "GPU") if self.gpu else ("cpu", "host")
        head = head.replace("PLACE", place).replace("DEVICE", device)
        if self.gpu:
            includes = "#include <cstdint>", "#include <dlfcn.h>", "#include <torch/csrc/stable/accelerator.h>"
            head = "\n".join([*includes, head + _STREAM])
        return "\n".join([head, *self._function(), ""])

    def _function(self) -> Iterator[str]:
        """What is wrong with a call is a text until nothing of it stands any more: see Note [Thrown last]."""
        made = self.made
        taken = [f"int64_t given_{own}" for own in self.explicit]
        taken += [_taken(slot, f"given_{own}") for slot, own in self.given]
        yield from (f"static std::string ax_call({', '.join(taken)}, std::vector<ax_tensor> &ax_results)", "{")
        yield from (f"    {line}" for line in self._call())
        yield from ('    return "";', "}", "")
        count = len(made.results)
        results = "ax_tensor" if count == 1 else f"std::tuple<{', '.join(['ax_tensor'] * count)}>"
        given = ", ".join(f"given_{own}" for own in (*self.explicit, *(own for _, own in self.given)))
        every = ", ".join(f"ax_results[{n}]" for n in range(count))
        yield from (f"static {results} ax_operator({', '.join(taken)})", "{", "    std::vector<ax_tensor> ax_results;")
        yield f"    const std::string ax_wrong = ax_call({given}, ax_results);"
        yield from ("    if (!ax_wrong.empty()) {", "        throw std::runtime_error(ax_wrong);", "    }")
        yield from (f"    return {every};" if count == 1 else f"    return std::make_tuple({every});", "}", "")
        schema = [f"int {own}" for own in self.explicit] + [f"{_schema(slot)} {own}" for slot, own in self.given]
        gives = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        yield f"STABLE_TORCH_LIBRARY_FRAGMENT({NAMESPACE}, library)"
        declared = quoted(f"{self.name}({', '.join(schema)}) -> {gives}")
        yield from ("{", f"    library.def({declared});", "}", "")
        yield f"STABLE_TORCH_LIBRARY_IMPL({NAMESPACE}, {'CUDA' if self.gpu else 'CPU'}, library)"
        yield from ("{", f"    library.impl({quoted(self.name)}, TORCH_BOX(&ax_operator));", "}")

    def _call(self) -> Iterator[str]:
        symbol, made = self.about.symbol, self.made
        error = f"{symbol}_error()"
        *_, workspace, check = entries(symbol)
        if self.fails:  # of an earlier call: nobody waits for this one
            yield from _unless(f"{check}() == AXON_OK", error)
        for slot, own in self.tensors:
            kind = f"ax_type::{_SCALAR_TYPES[slot.value.element]}"
            wrong = f"ax_expected(given_{own}, {kind}, {len(slot.value.shape)}, {quoted(slot.path)})"
            yield from (f"if (std::string ax_wrong = {wrong}; !ax_wrong.empty()) {{", "    return ax_wrong;", "}")
        first = f"given_{self.tensors[0][1]}"
        if self.gpu:
            yield f"const torch::stable::accelerator::DeviceGuard ax_on({first}.get_device_index());"
            for slot, own in self.tensors[1:]:
                other = f"error[AX0505]: `{slot.path}` lies on another GPU than `{self.tensors[0][0].path}`"
                yield from _unless(f"given_{own}.get_device_index() == {first}.get_device_index()", quoted(other))
            for _, own in self.tensors:
                yield f"const ax_tensor ax_lying_{own} = ax_in_rows_at_16(given_{own});"
        for inner, own in zip(made.explicit, self.explicit, strict=True):
            yield f"const int64_t {inner} = given_{own};"
        for inner, type in made.params:
            if isinstance(type, ScalarType):
                yield f"{type.name} {inner} = 0;"
            else:
                yield from (f"{type.name} ax_at_{inner};", f"{type.name} *const {inner} = &ax_at_{inner};")
        for slot, own in self.given:
            if not slot.value.shape and slot.value.element in _BOUNDS:
                yield from _ranged(slot, f"given_{own}")
            yield from _passed(slot, f"{'ax_lying' if self.gpu and slot.value.shape else 'given'}_{own}")
        assert made.result is not None
        yield from (f"{made.result.name} ax_result;", f"{made.result.name} *const out = &ax_result;")
        passed = ", ".join([*made.explicit, *(inner for inner, _ in made.params)])
        arguments = f"{passed}, out"
        sized = any(slot.value.shape for slot in made.results)
        if sized:
            yield from _unless(f"{symbol}_shapes({arguments}) == AXON_OK", error)
        for n, slot in enumerate(made.results):
            sizes = ", ".join(slot.at(f"sizes[{d}]") for d in range(len(slot.value.shape)))
            shape = f"std::initializer_list<int64_t>{{{sizes}}}"
            kind = f"ax_type::{_SCALAR_TYPES[slot.value.element]}"
            yield f"ax_results.push_back(torch::stable::new_empty({first}, {shape}, {kind}));"
            if slot.value.shape:
                yield f"{slot.at('data')} = static_cast<{C_TYPES[slot.value.element]} *>(ax_results[{n}].data_ptr());"
        if self.gpu:
            yield "size_t ax_bytes = 0;"
            yield from _unless(f"{workspace}({passed}, &ax_bytes) == AXON_OK", error)
            yield "const std::initializer_list<int64_t> ax_count{static_cast<int64_t>(ax_bytes)};"
            yield f"const ax_tensor ax_room = torch::stable::new_empty({first}, ax_count, ax_type::Byte);"
            yield "void *ax_queue = nullptr;"
            yield from _unless(f"ax_stream({first}.get_device_index(), &ax_queue)", quoted(_NO_STREAM))
            call = f"{symbol}({arguments}, ax_room.data_ptr(), ax_queue)"
        else:
            call = f"{symbol}{'_into' if sized else ''}({arguments})"
        yield from _unless(f"{call} == AXON_OK", error)
        for n, slot in enumerate(made.results):
            if not slot.value.shape:
                yield f"*static_cast<{C_TYPES[slot.value.element]} *>(ax_results[{n}].data_ptr()) = {slot.place};"

    # ── Python ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def python(self) -> str:
        about = self.about
        lines = [
            f'"""`torch.ops.{NAMESPACE}.{self.name}`: `{about.name}` of {about.source}, with its shapes for torch.export.',
            "",
            f"    {about.signature}",
            "",
            "Written by `axon build --torch`. What runs a package of AOTInductor's needs the shared library alone.",
            '"""',
            "",
            "import pathlib",
            "",
            "import torch",
            "",
            f'torch.ops.load_library(str(pathlib.Path(__file__).with_name("lib{about.symbol}_torch.so")))',
            "",
            "",
            f'@torch.library.register_fake("{NAMESPACE}::{self.name}")',
            f"def shapes({', '.join([*self.explicit, *(own for _, own in self.given)])}):",
            *(f"    {line}" for line in self._fake()),
            "",
            "",
            "def no_derivative(context, *gradients):",  # PyTorch alone would warn, and leave the gradients out
            f'    raise RuntimeError("`{self.name}`, as `axon build` made it, has no derivative")',
            "",
            "",
            f'torch.library.register_autograd("{NAMESPACE}::{self.name}", no_derivative)',
            "",
        ]
        return "\n".join(lines)

    def _fake(self) -> Iterator[str]:
        contract, plan = self.program.contract, self.program.contract.determination
        place = {p: own for p, (_, own) in enumerate(self.given)}
        known = dict(self.sizes)
        for symbol, own in zip(contract.explicit, self.explicit, strict=True):
            known[symbol] = own
        for p, d in plan.loads:
            symbol_ = contract.shapes[p].dims[d].symbol
            assert symbol_ is not None
            yield f"{known[symbol_]} = {place[p]}.shape[{d}]"
        known |= {symbol: f"{place[p]}.shape[{d}]" for (p, d), symbol in plan.extents.items()}
        known |= dict.fromkeys(contract.idle, "0")
        for step in plan.steps:
            match step:
                case Divide(coefficient=coefficient, rest=rest):
                    yield f"{known[step.symbol]} = ({_text(-rest, known)}) // ({_text(coefficient, known)})"
                case Root():
                    raise AssertionError("it was refused")
                case _:
                    assert_never(step)
        equal = [(p, d, Dim.of(symbol)) for (p, d), symbol in plan.equal]
        for p, d, dim in (*equal, *((p, d, contract.shapes[p].dims[d]) for p, d in plan.checks)):
            path = contract.shapes[p].path
            said = f"dimension {d + 1} of `{path}` is another than that of the arguments before, in a call of `{self.about.name}`"
            yield f"torch._check({place[p]}.shape[{d}] == {_text(dim, known)}, lambda: {said!r})"
        for fact in contract.facts:
            left, right = (_text(side, known) for side in (fact.relation.left, fact.relation.right))
            said = f"the contract `{fact.relation.render(self.about.size_name)}` does not hold, in a call of `{self.about.name}`"
            yield f"torch._check({left} {_PYTHON.get(fact.relation.op, fact.relation.op)} {right}, lambda: {said!r})"
        first, results = self.tensors[0][1], []
        for slot in self.made.results:
            sizes = "".join(f"{_extent(dim, known)}, " for dim in slot.value.shape)
            results.append(f"{first}.new_empty(({sizes.strip()}), dtype=torch.{_DTYPES[slot.value.element]})")
        yield f"return {', '.join(results)}"


def _unless(holds: str, said: str) -> Iterator[str]:
    yield from (f"if (!({holds})) {{", f"    return {said};", "}")


def _schema(slot: Slot) -> str:
    element = slot.value.element
    return "Tensor" if slot.value.shape else "float" if element.is_float else "bool" if element is Element.BOOL else "int"


def _taken(slot: Slot, own: str) -> str:
    return (
        f"const ax_tensor &{own}"
        if slot.value.shape
        else f"{ {'float': 'double', 'bool': 'bool', 'int': 'int64_t'}[_schema(slot)] } {own}"
    )


def _ranged(slot: Slot, own: str) -> Iterator[str]:
    """PyTorch's numbers have 64 bits and a sign."""
    least, most = _BOUNDS[slot.value.element]
    holds = f"{own} >= {least}" if most is None else f"{own} >= {least} && {own} <= {most}"
    said = f"error[AX0504]: `{slot.path}` must hold {slot.value.element.value}, and "
    yield from _unless(holds, f'{quoted(said)} + std::to_string({own}) + " is outside its range"')


def _passed(slot: Slot, own: str) -> Iterator[str]:
    if not slot.value.shape:
        element = slot.value.element
        bits = _NARROW.get(element)  # a float that C knows by its bits alone
        number = f"torch::headeronly::{bits}(static_cast<float>({own})).x" if bits else own
        yield f"{slot.place} = static_cast<{C_TYPES[element]}>({number});"
        return
    yield f"{slot.at('data')} = static_cast<{C_TYPES[slot.value.element]} *>({own}.data_ptr());"
    for d in range(len(slot.value.shape)):
        yield f"{slot.at(f'sizes[{d}]')} = {own}.size({d});"
        yield f"{slot.at(f'strides[{d}]')} = {own}.stride({d});"


def _text(dim: Dim, known: dict[Symbol, str]) -> str:
    """As arithmetic on PyTorch's symbolic sizes."""
    terms = []
    for coefficient, monomial in dim.terms:
        factors = [str(coefficient)] if coefficient != 1 or not monomial else []
        for atom in monomial:
            match atom:
                case Symbol():
                    factors.append(known[atom])
                case Quotient(dividend, divisor):
                    factors.append(f"(({_text(dividend, known)}) // ({_text(divisor, known)}))")
                case Minimum(items):
                    first, *rest = (_text(item, known) for item in items)
                    for other in rest:
                        first = f"torch.sym_min({first}, {other})"
                    factors.append(first)
                case _:
                    assert_never(atom)
        terms.append(" * ".join(factors))
    return " + ".join(terms) or "0"


def _extent(dim: Dim, known: dict[Symbol, str]) -> str:
    text = _text(dim, known)
    return text if dim.symbol is not None or dim.constant is not None else f"torch.sym_max(0, {text})"
