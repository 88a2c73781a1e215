"""Functions that a loop calls with a vector of arguments at once, and whose formula holds where nearly all arguments lie.

A formula gives, beside its results, for which lanes they hold. The others' are asked of the C library, one by one: an enormous
angle, an infinity or a NaN costs those that stand beside it in a vector nothing but time. So what a lane gets depends on its own
argument alone, also in the rest of a loop that no vector fills.

LLVM's vectorizer finds the functions of vectors by an attribute of that for one argument (the vector function ABI). They are kept
apart from the loop, which is compiled sooner than with a body of its own for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

from axon.backend.kernel.llvm import I1, I8, I64, Builder, Emit, Value, call, magnitude, real, suffix, whole

# Of a builder and arguments: results, and for which lanes they hold; None: for all.
Formula: TypeAlias = Callable[..., "tuple[Value, Value | None]"]
# The same of several functions, such as a sine and a cosine, which have most of what they do in common.
Formulas: TypeAlias = Callable[..., "tuple[tuple[Value, ...], Value | None]"]
_USED = "llvm.compiler.used"
_VARIANTS = '"vector-function-abi-variant"='


def by_lanes(name: str, formula: Formula, library: Emit, bits: Callable[[], int]) -> Emit:
    """A function of floats of one type. `library` is what lanes are asked of for which the formula does not hold, and `bits` says
    how many a vector has."""
    (function,) = together(name, lambda b, *x: _alone(*formula(b, *x)), (library,), bits)
    return function


def _alone(result: Value, holds: Value | None) -> tuple[tuple[Value, ...], Value | None]:
    return (result,), holds


def together(name: str, formulas: Formulas, libraries: Sequence[Emit], bits: Callable[[], int]) -> tuple[Emit, ...]:
    """Functions of the same arguments that one call gives: LLVM sees that a second call would be the same."""

    def one(b: Builder, *x: Value) -> Value:
        own = f"axon.{name}.{suffix(x[0])}"
        function = b.module.globals.get(own)
        if function is None:
            function = _functions(b.module, own, x[0].type, len(x), formulas, libraries, bits())
        wide(b.function, bits())
        return b.call(function, x)

    if len(libraries) == 1:
        return (one,)
    return tuple(lambda b, *x, k=k: b.extract_value(one(b, *x), k) for k in range(len(libraries)))


def within(emit: Callable[..., Any], most: float) -> Callable[..., Any]:
    """A formula that holds where |x| is below `most`."""
    return lambda b, x: (emit(b, x), b.fcmp_ordered("<", magnitude(b, x), real(most, x)))


def are_called(blocks: Sequence[Any]) -> bool:
    """Whether some of these blocks call such a function."""
    called = (step.callee for block in blocks for step in block.instructions if isinstance(step, ir.CallInstr))
    return any(text.startswith(_VARIANTS) for function in called for text in getattr(function, "attributes", ()))


def one_by_one(back: Any) -> None:
    """Of the branch back to a loop's start: the loop, vectorized, does one vector at a time. Of several, which LLVM would take, all
    but one wait in memory while a function has the registers; and a processor begins the next call before one ends anyway."""
    module = back.parent.function.module
    once = module.add_metadata(["llvm.loop.interleave.count", ir.Constant(ir.IntType(32), 1)])
    loop = ir.values.MDValue(module, [], name=str(len(module.metadata)))
    loop.operands = (loop, once)  # a loop's name is itself
    back.set_metadata("llvm.loop", loop)


def wide(function: Any, bits: int) -> None:
    """What calls these is vectorized for the widest vectors of the processor, where LLVM would take half of that."""
    if bits == 512:
        _attribute(function, '"prefer-vector-width"="512"')


def _attribute(function: Any, text: str) -> None:
    set.add(function.attributes, text)  # one that llvmlite does not list


def _functions(module: Any, own: str, type: Any, arity: int, formulas: Formulas, libraries: Sequence[Emit], bits: int) -> Any:
    """The function of one argument, and those of as many as fill a vector with values of its own width or of 32 bits."""
    counts = sorted({bits // 32, bits // 64})
    made = [_function(module, f"{own}.v{n}", ir.VectorType(type, n), arity, formulas, libraries, bits) for n in counts]
    function = _function(module, own, type, arity, formulas, libraries, bits)
    parameters = "v" * arity
    names = ",".join(f"_ZGV_LLVM_N{n}{parameters}_{own}({own}.v{n})" for n in counts)
    _attribute(function, f'{_VARIANTS}"{names}"')
    _keep(module, made)
    return function


def _function(module: Any, own: str, type: Any, arity: int, formulas: Formulas, libraries: Sequence[Emit], bits: int) -> Any:
    many = len(libraries) > 1
    given_back = ir.LiteralStructType([type] * len(libraries)) if many else type
    function = ir.Function(module, ir.FunctionType(given_back, [type] * arity), own)
    function.linkage = "linkonce_odr"
    for attribute in ("noinline", "nounwind", "readnone"):
        function.attributes.add(attribute)
    _attribute(function, "willreturn")
    wide(function, bits)
    b = ir.IRBuilder(function.append_basic_block())
    given = function.args
    results, holds = formulas(b, *given)
    if holds is not None:
        vector = isinstance(type, ir.VectorType)
        usual = call(b, f"llvm.vector.reduce.and.v{type.count}i1", holds, result=I1) if vector else holds
        with b.if_then(b.not_(usual), likely=False):
            if vector:
                _give_back(b, _one_by_one(b, type, given, results, holds, libraries))
            else:
                _give_back(b, [library(b, *given) for library in libraries])
    _give_back(b, results)
    return function


def _give_back(b: Builder, results: Sequence[Value]) -> None:
    if len(results) == 1:
        b.ret(results[0])
        return
    whole_result = ir.Constant(ir.LiteralStructType([result.type for result in results]), ir.Undefined)
    for k, result in enumerate(results):
        whole_result = b.insert_value(whole_result, result, k)
    b.ret(whole_result)


def _one_by_one(
    b: Builder, type: Any, given: Sequence[Value], results: Sequence[Value], holds: Value, libraries: Sequence[Emit]
) -> list[Value]:
    """The results, with those that do not hold from the libraries."""
    before, head = b.block, b.append_basic_block("lane")
    alone, after, done = (b.append_basic_block(name) for name in ("alone", "after", "done"))
    b.branch(head)
    b.position_at_end(head)
    lane, so_far = b.phi(I64), [b.phi(type) for _ in results]
    lane.add_incoming(whole(I64, 0), before)
    for phi, result in zip(so_far, results, strict=True):
        phi.add_incoming(result, before)
    b.cbranch(b.extract_element(holds, lane), after, alone)
    b.position_at_end(alone)
    arguments = [b.extract_element(x, lane) for x in given]
    mended = [b.insert_element(phi, library(b, *arguments), lane) for phi, library in zip(so_far, libraries, strict=True)]
    b.branch(after)
    b.position_at_end(after)
    now = [b.phi(type) for _ in results]
    following = b.add(lane, whole(I64, 1))
    lane.add_incoming(following, after)
    for phi, usual, new in zip(now, so_far, mended, strict=True):
        phi.add_incoming(usual, head)
        phi.add_incoming(new, alone)
        usual.add_incoming(phi, after)
    b.cbranch(b.icmp_unsigned("<", following, whole(I64, type.count)), head, done)
    b.position_at_end(done)
    return now


def _keep(module: Any, functions: Sequence[Any]) -> None:
    """Say that functions are used, which only an attribute names."""
    pointer = I8.as_pointer()
    found = module.globals.get(_USED)
    kept = [] if found is None else list(found.initializer.constant)
    kept += [function.bitcast(pointer) for function in functions]
    array = ir.ArrayType(pointer, len(kept))
    if found is None:
        found = ir.GlobalVariable(module, array, _USED)
        found.linkage, found.section = "appending", "llvm.metadata"
    found.value_type, found.type = array, array.as_pointer()
    found.initializer = ir.Constant(array, kept)
