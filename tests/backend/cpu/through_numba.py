"""Kernels' texts as numba understands them: its reading of Python, its types, its passes. Operations alone are Axon's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numba import njit, types
from numba.core.compiler import Flags, compile_extra
from numba.core.imputils import lower_builtin, lower_constant
from numba.core.registry import cpu_target
from numba.extending import models, register_model, typeof_impl

from axon.backend.cpu.build import ModuleSource
from axon.backend.cpu.intrinsics import SURROUNDINGS
from axon.backend.cpu.lowering import Operation, Pointer
from axon.base.element import Element

NUMBERS = {
    Element.F64: types.float64, Element.F32: types.float32, Element.BOOL: types.boolean, Element.I64: types.int64,
    Element.I32: types.int32, Element.I16: types.int16, Element.I8: types.int8, Element.U64: types.uint64,
    Element.U32: types.uint32, Element.U16: types.uint16, Element.U8: types.uint8,
}  # fmt: skip
OF_NUMBERS = {type: element for element, type in NUMBERS.items()}
IN_MEMORY = NUMBERS | {
    Element.BOOL: types.uint8, Element.F16: types.uint16, Element.BF16: types.uint16, Element.F8E4M3: types.uint8,
    Element.F8E5M2: types.uint8,
}  # fmt: skip
IN_NUMBERS = {type: element for element, type in IN_MEMORY.items()}


class Called(types.Callable, types.Opaque):
    def __init__(self, name: str, operation: Operation) -> None:
        self.operation = operation
        super().__init__(f"axon.{name}")

    def get_call_type(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        given = [types.unliteral(argument) for argument in args]
        ours = (Pointer(IN_NUMBERS[type.dtype]) if isinstance(type, types.CPointer) else OF_NUMBERS[type] for type in given)
        found = self.operation.typing(*ours)
        return (types.void if found is None else NUMBERS[found])(*given)

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        return [], True

    def get_impl_key(self, signature: Any) -> Any:
        return self.name


register_model(Called)(models.OpaqueModel)


class Named:
    def __init__(self, type: Called) -> None:
        self.type = type


@typeof_impl.register(Named)
def _typeof(named: Named, context: Any) -> Called:
    return named.type


@lower_constant(Called)
def _constant(context: Any, builder: Any, type: Called, named: Named) -> Any:
    return context.get_dummy_value()


def _named(name: str, operation: Operation) -> Named:
    made = Called(name, operation)

    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        result = operation.emit(builder, *values)
        return context.get_dummy_value() if result is None else result

    lower_builtin(made.name, types.VarArg(types.Any))(generate)
    return Named(made)


GLOBALS: dict[str, Any] = {
    **{name: _named(name, operation) for name, operation in SURROUNDINGS.operations.items()},
    **{name: NUMBERS[element] for name, element in SURROUNDINGS.elements.items()},
    "inf": float("inf"), "nan": float("nan"),
}  # fmt: skip


def _function(text: str, entry: str, around: dict[str, Any]) -> Callable[..., Any]:
    exec(text, around)
    return around[entry]


def compile_source(source: ModuleSource) -> tuple[str, bytes]:
    """For `build.compile_source`."""
    around = dict(GLOBALS)
    for name, text in SURROUNDINGS.texts.items():
        around[name] = njit(_function(text, name, around), error_model="numpy")
    made = _function(source.text, source.entry, around)
    for helper in source.helpers:
        around[helper] = njit(around[helper], error_model="numpy")
    arguments = tuple(types.int64 if e is None else types.CPointer(IN_MEMORY[e]) for e in source.types)
    flags = Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.noalias = True
    flags.error_model = "numpy"
    result = compile_extra(cpu_target.typing_context, cpu_target.target_context, made, arguments, types.int64, flags, {})
    return str(result.fndesc.llvm_func_name), bytes(result.library._get_compiled_object())
